/* A reassignment is cancelled: who goes at once, who later, and who leads. */
#include "replicas_desk.h"

/* 3 and 4 stop at once, 3 is back first and may not lead before 4, which was to come, is back too. When 4 is to come no more, nobody else's coming would make 3 lead. */
static void a_cancelled_reassignment_lets_those_lead_that_were_there_before(void **state)
{
    struct desk *desk = *state;
    int32_t target[] = { 4, 5 }, two[] = { 3, 4 };
    assert_int_equal(desk_register(desk, 5, 5, COORD_BOOT_CLEAN), OT_OK);
    assert_int_equal(reassign(desk, target, 2), OT_OK);
    assert_int_equal(fence(desk, 1), OT_OK);
    assert_int_equal(fence(desk, 2), OT_OK);
    assert_int_equal(row_of(desk).leader, 3);
    assert_int_equal(alter(desk, two, 2), OT_OK);
    assert_int_equal(beat(desk, 3, true).error, OT_OK);
    assert_int_equal(beat(desk, 4, true).error, OT_OK);
    assert_int_equal(beat(desk, 3, true).error, OT_OK);
    struct coord_partition row = row_of(desk);
    assert_int_equal(row.leader, -1);
    assert_int_equal(row.isr, coord_replica_bit(&row, 4));
    assert_int_equal(row.elr, coord_replica_bit(&row, 3));
    assert_int_equal(desk_register(desk, 3, 13, COORD_BOOT_CLEAN), OT_OK);
    assert_int_equal(row_of(desk).leader, -1);
    assert_int_equal(reassign(desk, NULL, 0), OT_OK);
    assert_int_equal(row_of(desk).leader, 3);
}

/* 4 leads, was to come, and comes no more: it lives, so whoever leads instead has all of it first. */
static void a_cancelled_reassignment_lets_the_leader_hand_over(void **state)
{
    struct desk *desk = *state;
    int32_t target[] = { 4, 5 }, four[] = { 4, 1, 2, 3 };
    assert_int_equal(desk_register(desk, 5, 5, COORD_BOOT_CLEAN), OT_OK);
    assert_int_equal(reassign(desk, target, 2), OT_OK);
    assert_int_equal(alter(desk, four, 4), OT_OK);
    assert_int_equal(fence(desk, 1), OT_OK);
    struct coord_partition row = row_of(desk);
    assert_int_equal(row.leader, 4);
    const int32_t epoch = row_of(desk).leader_epoch;
    assert_int_equal(reassign(desk, NULL, 0), OT_OK);
    row = row_of(desk);
    assert_int_equal(row.leader, 4);
    assert_int_equal(row.leader_epoch, epoch);
    assert_int_equal(row.adding, coord_replica_bit(&row, 4));
    assert_int_equal(row.removing, row.adding);
    assert_int_equal(row.replica_count, 4);                    /* 5 has nothing, and is gone */
    assert_int_equal(row.replicas[0], 1);                      /* nobody who goes is preferred */
    assert_int_equal(row.successor, coord_replica_bit(&row, 2));
    assert_int_equal(reassign(desk, NULL, 0), OT_ERR_NO_REASSIGNMENT_IN_PROGRESS);     /* once more would keep who was to come */
    assert_int_equal(says(desk, COORD_HANDS_OVER), OT_OK);
    row = row_of(desk);
    assert_int_equal(row.leader, 2);
    assert_int_equal(row.replica_count, 3);
    assert_int_equal(row.removing | row.adding | row.successor, 0);
}

/* 4 and 5 are to come; 4 is there, and of those of before only 1: acks=all was answered by 1 and 4. */
static void come_half_way(struct desk *desk)
{
    int32_t target[] = { 1, 4, 5 }, both[] = { 1, 4 };
    assert_int_equal(desk_register(desk, 5, 5, COORD_BOOT_CLEAN), OT_OK);
    assert_int_equal(reassign(desk, target, 3), OT_OK);
    assert_int_equal(alter(desk, both, 2), OT_OK);
    const struct coord_partition row = row_of(desk);
    assert_int_equal(row.elr, 0);
    assert_int_equal(row.isr, coord_replica_bit(&row, 1) | coord_replica_bit(&row, 4));
}

/* min.insync.replicas is 2. Were 4 let go at once, 1 alone would hold what was acknowledged. */
static void a_cancelled_reassignment_lets_nobody_go_who_is_needed_to_hold_what_was_committed(void **state)
{
    struct desk *desk = *state;
    int32_t three[] = { 1, 2, 4 };
    come_half_way(desk);
    assert_int_equal(reassign(desk, NULL, 0), OT_OK);
    struct coord_partition row = row_of(desk);
    const uint64_t four = coord_replica_bit(&row, 4);
    assert_int_equal(row.replica_count, 4);
    assert_int_equal(coord_replica_bit(&row, 5), 0);           /* it holds nothing */
    assert_int_equal(row.isr, coord_replica_bit(&row, 1) | four);
    assert_int_equal(row.removing, four);
    assert_int_equal(coord_coming(&row), 0);
    assert_true(coord_move_goes_back(&row));
    assert_false(coord_move_is_ready(&row));
    assert_int_equal(row.leader, 1);
    assert_int_equal(reassign(desk, NULL, 0), OT_ERR_NO_REASSIGNMENT_IN_PROGRESS);     /* asked for twice it does not come back */
    assert_int_equal(alter(desk, three, 3), OT_OK);            /* 2 is there: 4 may go */
    row = row_of(desk);
    assert_int_equal(row.replica_count, 3);
    assert_int_equal(coord_replica_bit(&row, 4), 0);
    assert_int_equal(row.adding | row.removing, 0);
    assert_int_equal(row.isr, 3);
}

/* Both lost what they had not synced: rule 4 waits for both, and 4 may have more. */
static void a_cancelled_reassignment_keeps_those_that_rule_four_waits_for(void **state)
{
    struct desk *desk = *state;
    int32_t both[] = { 1, 4 }, one[] = { 1 }, back[] = { 1, 2, 4 };
    come_half_way(desk);
    assert_int_equal(desk_register(desk, 1, 21, COORD_BOOT_MACHINE_CRASH), OT_OK);
    assert_int_equal(desk_register(desk, 4, 24, COORD_BOOT_MACHINE_CRASH), OT_OK);
    struct coord_partition row = row_of(desk);
    assert_int_equal(row.isr | row.elr, 0);
    assert_int_equal(row.last_members, coord_replica_bit(&row, 1) | coord_replica_bit(&row, 4));
    assert_int_equal(reassign(desk, NULL, 0), OT_OK);
    row = row_of(desk);
    assert_int_equal(row.leader, -1);
    assert_int_equal(row.last_members, coord_replica_bit(&row, 1) | coord_replica_bit(&row, 4));
    assert_int_equal(elect_by(desk, COORD_LOSS_CRASH, 1, 0, one, 1, 0, 0), OT_ERR_INELIGIBLE_REPLICA);
    assert_int_equal(elect_by(desk, COORD_LOSS_CRASH, 4, 0, both, 2, 0, 0), OT_OK);
    assert_int_equal(row_of(desk).leader, 4);
    assert_int_equal(alter(desk, back, 3), OT_OK);
    assert_int_equal(says(desk, COORD_HANDS_OVER), OT_OK);
    row = row_of(desk);
    assert_int_equal(row.leader, 1);
    assert_int_equal(row.replica_count, 3);
    assert_int_equal(row.adding | row.removing, 0);
}

/* As many of those of before may have lost it as held it: their number says nothing. */
static void a_cancelled_reassignment_counts_nobody_who_may_have_lost_something(void **state)
{
    struct desk *desk = *state;
    int32_t three[] = { 1, 2, 4 }, two[] = { 1, 2 };
    come_half_way(desk);
    assert_int_equal(alter(desk, three, 3), OT_OK);
    for (int32_t id = 1; id <= 4; id++)
        if (id != 3) assert_int_equal(desk_register(desk, id, (uint8_t)(20 + id), COORD_BOOT_MACHINE_CRASH), OT_OK);
    struct coord_partition row = row_of(desk);
    const uint64_t all = coord_replica_bit(&row, 1) | coord_replica_bit(&row, 2) | coord_replica_bit(&row, 4);
    assert_int_equal(row.isr | row.elr, 0);
    assert_int_equal(row.last_members, all);
    assert_int_equal(reassign(desk, NULL, 0), OT_OK);
    row = row_of(desk);
    assert_int_equal(row.leader, -1);
    assert_int_equal(row.last_members, coord_replica_bit(&row, 1) | coord_replica_bit(&row, 2) | coord_replica_bit(&row, 4));
    assert_int_equal(__builtin_popcountll(row.last_members), 3);
    assert_int_equal(elect_by(desk, COORD_LOSS_CRASH, 1, 0, two, 2, 0, 0), OT_ERR_INELIGIBLE_REPLICA);
    assert_int_equal(elect_by(desk, COORD_LOSS_CRASH, 4, 0, three, 3, 0, 0), OT_OK);
    assert_int_equal(row_of(desk).leader, 4);
}

/* 4 came with the first move; the second, which does without it, only keeps it until its end: it never was one of those of before. */
static void a_cancelled_reassignment_does_not_keep_who_came_with_the_one_it_replaced(void **state)
{
    struct desk *desk = *state;
    int32_t other[] = { 1, 5 }, all[] = { 1, 2, 3, 4 };
    come_half_way(desk);
    assert_int_equal(alter(desk, all, 4), OT_OK);
    assert_int_equal(reassign(desk, other, 2), OT_OK);
    struct coord_partition row = row_of(desk);
    assert_int_equal(row.replica_count, 5);
    assert_int_equal(coord_coming(&row), coord_replica_bit(&row, 5));
    assert_int_equal(reassign(desk, NULL, 0), OT_OK);
    row = row_of(desk);
    assert_int_equal(row.replica_count, 3);
    assert_int_equal(row.isr, 7);
    assert_int_equal(row.adding | row.removing, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_cancelled_reassignment_lets_those_lead_that_were_there_before),
        TEST(a_cancelled_reassignment_lets_the_leader_hand_over),
        TEST(a_cancelled_reassignment_lets_nobody_go_who_is_needed_to_hold_what_was_committed),
        TEST(a_cancelled_reassignment_keeps_those_that_rule_four_waits_for),
        TEST(a_cancelled_reassignment_counts_nobody_who_may_have_lost_something),
        TEST(a_cancelled_reassignment_does_not_keep_who_came_with_the_one_it_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
