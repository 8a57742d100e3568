/* Feature levels: who is let in, when the level goes up, and in which version rows are written at it. */
#include "desk.h"

#include "base/wire/coord_partition_row.h"
#include "base/wire/frame.h"
#include "base/wire/messages.h"

static int setup(void **state)
{
    struct desk *desk = malloc(sizeof *desk);
    desk_init(desk);
    desk->auto_store = true;
    *state = desk;
    return 0;
}

static int teardown(void **state)
{
    desk_free(*state);
    free(*state);
    return 0;
}

static enum ot_err registers(struct desk *desk, int32_t id, uint8_t incarnation, int16_t min, int16_t max, char *text)
{
    struct coord_request ask = { .ask = COORD_ASK_REGISTER, .u.register_ = { .broker_id = id, .incarnation_id = { { incarnation } }, .rack = { .null = true }, .levels = { min, max },
        .release = ot_str_of("3.1") } };
    desk_ask(desk, &ask);
    if (text != NULL) snprintf(text, COORD_TEXT_MAX, "%s", ask.text);
    return ask.error;
}

static enum ot_err raise_to(struct desk *desk, int16_t level, bool validate_only, char *text)
{
    struct coord_request ask = { .ask = COORD_ASK_LEVEL, .validate_only = validate_only, .u.level = { level } };
    desk_ask(desk, &ask);
    if (text != NULL) snprintf(text, COORD_TEXT_MAX, "%s", ask.text);
    return ask.error;
}

static int16_t level_of(const struct desk *desk) { return coord_value_level(coord_view(desk->coord)); }

/* The version that the broker's row is written in, and what it says. */
static int16_t row_version(struct desk *desk, int32_t id, struct ot_coord_broker_row *out)
{
    static uint8_t room[4096];
    struct ot_arena arena;
    struct ot_blob bytes;
    const struct coord_key key = coord_key_broker(id);
    ot_arena_init_with(&arena, room, sizeof room, 0);
    assert_true(coord_value_get(coord_view(desk->coord), coord_key_blob(&key), &bytes));
    assert_int_equal(coord_broker_get(coord_view(desk->coord), id, &arena, out), OT_OK);
    return ot_load_i16(bytes.data);
}

static void a_new_cluster_is_at_the_newest_level_of_its_founder(void **state)
{
    struct desk *desk = *state;
    assert_int_equal(desk_start(desk, 0), OT_OK);
    assert_int_equal(level_of(desk), coord_levels_known().max);
}

static void a_row_is_written_as_the_level_has_it_whatever_the_build_knows(void **state)
{
    struct desk *desk = *state;
    struct ot_coord_broker_row row;
    desk->levels = (struct coord_levels){ 1, 1 };
    assert_int_equal(desk_start(desk, 0), OT_OK);
    assert_int_equal(registers(desk, 1, 1, 1, 1, NULL), OT_OK);
    desk_stop(desk);
    desk->levels = (struct coord_levels){ 1, 2 };             /* upgraded */
    assert_int_equal(desk_start(desk, desk->record_count), OT_OK);
    assert_int_equal(level_of(desk), 1);
    assert_int_equal(registers(desk, 1, 2, 1, 2, NULL), OT_OK);
    assert_int_equal(row_version(desk, 1, &row), 0);
    assert_true(row.level_min == 1 && row.level_max == 2 && row.release.null);
    assert_int_equal(raise_to(desk, 2, false, NULL), OT_OK);
    assert_int_equal(level_of(desk), 2);
    assert_int_equal(row_version(desk, 1, &row), 0);           /* as it was, until there is something to say */
    const int64_t epoch = row.broker_epoch;
    assert_int_equal(registers(desk, 1, 2, 1, 2, NULL), OT_OK);        /* the same life again */
    assert_int_equal(row_version(desk, 1, &row), 1);
    assert_true(ot_str_equal(row.release, ot_str_of("3.1")) && row.broker_epoch == epoch);
}

/* A row has no room for what the markers prove before the second level, so nothing is concluded from them. */
static void markers_are_compared_from_the_second_level_on(void **state)
{
    struct desk *desk = *state;
    struct ot_coord_broker_row row;
    desk->levels = (struct coord_levels){ 1, 1 };
    assert_int_equal(desk_start(desk, 0), OT_OK);
    assert_int_equal(registers(desk, 1, 1, 1, 1, NULL), OT_OK);
    desk_stop(desk);
    desk->levels = (struct coord_levels){ 1, 2 };
    assert_int_equal(desk_start(desk, desk->record_count), OT_OK);
    for (uint8_t life = 2; life < 4; life++) {
        struct coord_request ask = { .ask = COORD_ASK_REGISTER, .u.register_ = { .broker_id = 1, .incarnation_id = { { life } }, .boot_class = COORD_BOOT_CLEAN, .stopped_epoch = 1 << 20,
            .rack = { .null = true }, .levels = { 1, 2 } } };
        desk_ask(desk, &ask);
        assert_int_equal(ask.error, OT_OK);
        row_version(desk, 1, &row);
        assert_int_equal(row.boot_class, life == 2 ? COORD_BOOT_CLEAN : COORD_BOOT_MACHINE_CRASH);
        if (life == 2) assert_int_equal(raise_to(desk, 2, false, NULL), OT_OK);
    }
}

static void a_build_goes_back_before_the_level_is_final_and_not_after_it(void **state)
{
    struct desk *desk = *state;
    desk->levels = (struct coord_levels){ 1, 1 };
    assert_int_equal(desk_start(desk, 0), OT_OK);
    for (int16_t max = 2; max >= 1; max--) {                  /* up, and down again */
        desk_stop(desk);
        desk->levels = (struct coord_levels){ 1, max };
        assert_int_equal(desk_start(desk, desk->record_count), OT_OK);
        assert_int_equal(registers(desk, 1, (uint8_t)(10 + max), 1, max, NULL), OT_OK);
    }
    desk_stop(desk);
    desk->levels = (struct coord_levels){ 1, 2 };
    assert_int_equal(desk_start(desk, desk->record_count), OT_OK);
    assert_int_equal(registers(desk, 1, 20, 1, 2, NULL), OT_OK);
    assert_int_equal(raise_to(desk, 2, false, NULL), OT_OK);
    assert_int_equal(registers(desk, 1, 20, 1, 2, NULL), OT_OK);       /* something rests on it, so that it is known to be committed */
    desk_stop(desk);
    desk->levels = (struct coord_levels){ 1, 1 };
    assert_int_equal(desk_start(desk, desk->record_count), OT_ERR_UNSUPPORTED_VERSION);
    assert_string_equal(desk->start_text, "the cluster is at ottla.version 2, and this build knows 1 to 1: start one that knows it");
    desk->levels = (struct coord_levels){ 3, 4 };             /* one that has forgotten it is no better */
    assert_int_equal(desk_start(desk, desk->record_count), OT_ERR_UNSUPPORTED_VERSION);
    desk->levels = (struct coord_levels){ 2, 4 };
    assert_int_equal(desk_start(desk, desk->record_count), OT_OK);
}

static void brokers_that_do_not_know_the_level_are_not_registered(void **state)
{
    struct desk *desk = *state;
    char text[COORD_TEXT_MAX];
    assert_int_equal(desk_start(desk, 0), OT_OK);
    assert_int_equal(registers(desk, 7, 1, 1, 1, text), OT_ERR_UNSUPPORTED_VERSION);
    assert_string_equal(text, "the cluster is at ottla.version 2, and broker 7 knows 1 to 1: start a build that knows it");
    assert_int_equal(registers(desk, 7, 1, 3, 4, NULL), OT_ERR_UNSUPPORTED_VERSION);
    assert_int_equal(registers(desk, 7, 1, 3, 2, NULL), OT_ERR_INVALID_REGISTRATION);
    assert_int_equal(registers(desk, 7, 1, -1, 2, NULL), OT_ERR_INVALID_REGISTRATION);
    assert_int_equal(registers(desk, 7, 1, 2, 9, NULL), OT_OK);
}

static void the_level_goes_up_when_all_know_it_and_never_down(void **state)
{
    struct desk *desk = *state;
    char text[COORD_TEXT_MAX];
    desk->levels = (struct coord_levels){ 1, 1 };
    assert_int_equal(desk_start(desk, 0), OT_OK);
    desk_stop(desk);
    desk->levels = (struct coord_levels){ 1, 3 };
    assert_int_equal(desk_start(desk, desk->record_count), OT_OK);
    assert_int_equal(registers(desk, 1, 1, 1, 3, NULL), OT_OK);
    assert_int_equal(registers(desk, 2, 2, 1, 1, NULL), OT_OK);        /* fenced, as all are that only registered: it counts */
    assert_int_equal(raise_to(desk, 2, false, text), OT_ERR_INVALID_UPDATE_VERSION);
    assert_string_equal(text, "broker 2 knows ottla.version 1 to 1");
    assert_int_equal(raise_to(desk, 2, true, NULL), OT_ERR_INVALID_UPDATE_VERSION);
    assert_int_equal(registers(desk, 2, 3, 1, 2, NULL), OT_OK);
    assert_int_equal(raise_to(desk, 3, false, NULL), OT_ERR_INVALID_UPDATE_VERSION);
    assert_int_equal(raise_to(desk, 4, false, text), OT_ERR_INVALID_UPDATE_VERSION);
    assert_string_equal(text, "the coordinator 1 knows ottla.version 1 to 3");
    assert_int_equal(raise_to(desk, 2, true, NULL), OT_OK);
    assert_int_equal(level_of(desk), 1);
    assert_int_equal(raise_to(desk, 2, false, NULL), OT_OK);
    assert_int_equal(level_of(desk), 2);
    const struct coord_stamp at = desk->applied;
    assert_int_equal(raise_to(desk, 2, false, NULL), OT_OK);           /* the answer was lost */
    assert_int_equal(desk->applied.version, at.version);
    assert_int_equal(raise_to(desk, 1, false, NULL), OT_ERR_INVALID_UPDATE_VERSION);
    assert_int_equal(level_of(desk), 2);
}

static void a_build_without_levels_is_of_the_first(void **state)
{
    (void)state;
    struct ot_coord_broker_row row;
    struct coord_message message = { .kind = COORD_HEARTBEAT, .sender = 2 }, back;
    uint8_t bytes[512];
    size_t count;
    ot_coord_broker_row_defaults(&row);
    assert_true(row.level_min == COORD_LEVEL_FIRST && row.level_max == COORD_LEVEL_FIRST && row.release.null);
    assert_int_equal(coord_message_encode(&message, bytes, sizeof bytes, &count), OT_OK);
    assert_int_equal(coord_message_decode(coord_blob(bytes, count), &back), OT_OK);
    assert_true(back.levels.min == 1 && back.levels.max == 1 && back.level == 1);
    message.levels = (struct coord_levels){ 2, 5 };
    message.level = 4;
    assert_int_equal(coord_message_encode(&message, bytes, sizeof bytes, &count), OT_OK);
    assert_int_equal(coord_message_decode(coord_blob(bytes, count), &back), OT_OK);
    assert_true(back.levels.min == 2 && back.levels.max == 5 && back.level == 4);
}

/* A version that no level has is one that nobody may write, or one that is written too early. */
static void every_version_of_a_message_of_our_own_has_its_level(void **state)
{
    (void)state;
    uint32_t seen = 0;
    assert_int_equal(coord_levels_known().min, COORD_LEVEL_FIRST);
    for (size_t i = 0; i < ot_wire_message_count; i++) {
        const struct ot_wire_message *message = ot_wire_messages[i];
        const bool own = strncmp(message->name, "Coord", 5) == 0 || (strncmp(message->name, "Peer", 4) == 0 && strstr(message->name, "Request") != NULL);
        if (!own) continue;
        seen++;
        assert_int_equal(message->version_min, 0);
        assert_int_equal(coord_level_version_max(message), message->version_max);
        assert_int_equal(coord_level_version(COORD_LEVEL_FIRST, message), 0);
    }
    assert_true(seen >= 18);
}

/* What older builds could have written in tag 7 (recovering) is passed over. */
static void a_row_with_a_field_that_is_gone_is_read(void **state)
{
    (void)state;
    int32_t ids[] = { 3, 1 };
    struct ot_coord_partition_row row;
    struct coord_partition out;
    uint8_t bytes[128];
    struct ot_writer to = ot_writer_over(bytes, sizeof bytes);
    ot_coord_partition_row_defaults(&row);
    row.replicas = (struct ot_i32_array){ ids, 2 };
    row.isr = row.last_members = 3;
    row.leader = 1;
    row.leader_epoch = 4;
    assert_int_equal(ot_wire_framed_encode(&ot_coord_partition_row_message, 0, &row, &to), OT_OK);
    size_t count = (size_t)(to.at - bytes);
    assert_int_equal(bytes[count - 1], 0);     /* no tags */
    memcpy(bytes + count - 1, (const uint8_t[]){ 1, 7, 1, 1 }, 4);
    assert_int_equal(coord_partition_of(coord_blob(bytes, count + 3), &out), OT_OK);
    assert_true(out.replica_count == 2 && out.replicas[0] == 3 && out.isr == 3 && out.leader == 1 && out.leader_epoch == 4 && out.successor == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_with_a_field_that_is_gone_is_read),
        cmocka_unit_test_setup_teardown(a_new_cluster_is_at_the_newest_level_of_its_founder, setup, teardown),
        cmocka_unit_test_setup_teardown(a_row_is_written_as_the_level_has_it_whatever_the_build_knows, setup, teardown),
        cmocka_unit_test_setup_teardown(markers_are_compared_from_the_second_level_on, setup, teardown),
        cmocka_unit_test_setup_teardown(a_build_goes_back_before_the_level_is_final_and_not_after_it, setup, teardown),
        cmocka_unit_test_setup_teardown(brokers_that_do_not_know_the_level_are_not_registered, setup, teardown),
        cmocka_unit_test_setup_teardown(the_level_goes_up_when_all_know_it_and_never_down, setup, teardown),
        cmocka_unit_test(a_build_without_levels_is_of_the_first), cmocka_unit_test(every_version_of_a_message_of_our_own_has_its_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
