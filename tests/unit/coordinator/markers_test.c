/* Whose copies of the log are believed: a broker registers with what its log directories prove. */
#include "replicas_desk.h"

/* Registered with clean markers that name an epoch, and not heard since; the epoch it got. */
static int64_t registers_naming(struct desk *desk, int32_t id, uint8_t incarnation, enum coord_boot boot, int64_t stopped_epoch)
{
    struct coord_request ask = { .ask = COORD_ASK_REGISTER, .u.register_ = { .broker_id = id, .incarnation_id = { { incarnation } }, .dir_ids = &(struct ot_uuid){ { 9 } }, .dir_count = 1,
        .boot_class = boot, .stopped_epoch = stopped_epoch, .rack = { .null = true } } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
    return ask.version;
}

static bool is_eligible(struct desk *desk, int32_t id)
{
    const struct coord_partition row = row_of(desk);
    return (row.elr & coord_replica_bit(&row, id)) != 0;
}

/* 3 leads alone, and 2 is eligible. */
static void two_is_eligible(struct desk *desk)
{
    assert_int_equal(fence(desk, 1), OT_OK);
    assert_int_equal(fence(desk, 2), OT_OK);
    assert_true(row_of(desk).isr == 4 && is_eligible(desk, 2));
}

static void markers_of_an_older_life_are_those_of_an_older_copy(void **state)
{
    struct desk *desk = *state;
    two_is_eligible(desk);
    registers_naming(desk, 2, 12, COORD_BOOT_CLEAN, epoch_of(desk, 2));
    assert_true(is_eligible(desk, 2));
    registers_naming(desk, 2, 13, COORD_BOOT_CLEAN, epoch_of(desk, 2) - 1);
    assert_false(is_eligible(desk, 2));
}

static void a_copy_in_one_directory_of_a_process_that_died_counts_too(void **state)
{
    struct desk *desk = *state;
    two_is_eligible(desk);
    const int64_t served = epoch_of(desk, 2);
    registers_naming(desk, 2, 12, COORD_BOOT_PROCESS_CRASH, 0);                /* it names none */
    assert_true(is_eligible(desk, 2));
    registers_naming(desk, 2, 13, COORD_BOOT_PROCESS_CRASH, served - 1);
    assert_false(is_eligible(desk, 2));
}

static void who_registered_and_did_not_serve_has_what_it_stopped_with(void **state)
{
    struct desk *desk = *state;
    two_is_eligible(desk);
    const int64_t served = epoch_of(desk, 2);
    for (uint8_t life = 12; life < 15; life++) registers_naming(desk, 2, life, COORD_BOOT_CLEAN, served);      /* the answer was lost: the markers are there still */
    assert_true(is_eligible(desk, 2));
    const int64_t epoch = registers_naming(desk, 2, 15, COORD_BOOT_CLEAN, served);
    struct coord_request beat = { .ask = COORD_ASK_HEARTBEAT, .u.heartbeat = { .broker_id = 2, .broker_epoch = epoch, .applied_version = epoch } };
    desk_ask(desk, &beat);
    assert_true(beat.error == OT_OK && !beat.fenced);
    assert_int_equal(fence(desk, 2), OT_OK);
    assert_true(is_eligible(desk, 2));
    registers_naming(desk, 2, 16, COORD_BOOT_CLEAN, served);                   /* it served since: these markers are a copy */
    assert_false(is_eligible(desk, 2));
}

static void an_older_copy_stays_one_at_the_next_start(void **state)
{
    struct desk *desk = *state;
    const int64_t served = epoch_of(desk, 2);
    struct ot_coord_broker_row row;
    struct ot_arena arena;
    uint8_t room[4096];
    for (uint8_t life = 12; life < 14; life++) {
        registers_naming(desk, 2, life, COORD_BOOT_CLEAN, served - 1);
        ot_arena_init_with(&arena, room, sizeof room, 0);
        assert_int_equal(coord_broker_get(coord_view(desk->coord), 2, &arena, &row), OT_OK);
        assert_true(row.boot_class == COORD_BOOT_MACHINE_CRASH && row.proven_epoch == 0);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(markers_of_an_older_life_are_those_of_an_older_copy),
        TEST(a_copy_in_one_directory_of_a_process_that_died_counts_too),
        TEST(who_registered_and_did_not_serve_has_what_it_stopped_with),
        TEST(an_older_copy_stays_one_at_the_next_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
