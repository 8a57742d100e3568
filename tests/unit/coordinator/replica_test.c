#include "coordinator/replica.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

struct one { struct replica replica; struct replica_peer room[3]; struct coord_partition row; struct replica_broker brokers[3]; uint64_t now_us; };

static enum replica_change apply(struct one *one)
{
    enum replica_change change;
    one->row.partition_epoch++;
    assert_int_equal(replica_apply(&one->replica, &one->row, one->brokers, one->now_us, &change), OT_OK);
    return change;
}

/* Broker 1 leads three replicas of which `isr` are in sync. */
static void leader(struct one *one, uint64_t isr, int32_t min_isr, int64_t log_end)
{
    memset(one, 0, sizeof *one);
    one->now_us = 1000000;
    one->row = (struct coord_partition){ .replicas = { 1, 2, 3 }, .replica_count = 3, .isr = isr, .leader = 1, .leader_epoch = 5, .min_isr = min_isr,
        .durable_since = -1, .last_leader = -1 };
    for (int i = 0; i < 3; i++) {
        one->brokers[i] = (struct replica_broker){ 10 + i, true };
    }
    replica_init(&one->replica, 1, one->room, 3, log_end, log_end, 0);
    assert_int_equal(apply(one), REPLICA_BECAME_LEADER);
}

static enum ot_err fetch(struct one *one, int32_t id, int64_t offset)
{
    struct replica_fetch fetch = { .follower = id, .broker_epoch = 9 + id, .leader_epoch = 5, .offset = offset, .flushed_end = -1, .matches = true };
    return replica_fetched(&one->replica, &fetch, one->now_us);
}

static void the_watermark_is_the_least_end_of_the_isr(void **state)
{
    struct one one;
    leader(&one, 7, 2, 0);
    replica_appended(&one.replica, 10);
    assert_int_equal(one.replica.high_watermark, 0);
    assert_int_equal(fetch(&one, 2, 10), OT_OK);
    assert_int_equal(one.replica.high_watermark, 0);           /* 3 has shown nothing in this epoch */
    assert_int_equal(fetch(&one, 3, 4), OT_OK);
    assert_int_equal(one.replica.high_watermark, 4);
    (void)state;
}

static void who_is_gone_is_told_from_who_is_slow(void **state)
{
    struct one one;
    leader(&one, 7, 1, 0);
    replica_appended(&one.replica, 10);
    assert_int_equal(fetch(&one, 2, 10), OT_OK);
    assert_int_equal(fetch(&one, 3, 4), OT_OK);
    assert_false(replica_all_have(&one.replica, 10));
    assert_false(replica_living_have(&one.replica, 10));       /* it is slow */
    one.brokers[2].live = false;
    apply(&one);
    assert_false(replica_all_have(&one.replica, 10));
    assert_true(replica_living_have(&one.replica, 10));        /* it stops, or is gone */
    one.brokers[2].live = true;
    apply(&one);
    assert_int_equal(fetch(&one, 3, 10), OT_OK);
    assert_true(replica_all_have(&one.replica, 10));
    assert_true(replica_living_have(&one.replica, 10));
    (void)state;
}

static void it_stands_while_the_committed_isr_is_too_small(void **state)
{
    struct one one;
    leader(&one, 1, 2, 0);
    replica_appended(&one.replica, 10);
    assert_int_equal(one.replica.high_watermark, 0);
    assert_int_equal(replica_may_append(&one.replica, true), OT_ERR_NOT_ENOUGH_REPLICAS);
    assert_int_equal(replica_may_append(&one.replica, false), OT_OK);
    assert_int_equal(fetch(&one, 2, 10), OT_OK);
    struct replica_proposal proposal;
    assert_true(replica_proposal(&one.replica, &proposal));
    assert_int_equal(proposal.isr, 3);
    assert_int_equal(one.replica.high_watermark, 0);           /* proposed is not committed */
    one.row.isr = 3;
    assert_int_equal(apply(&one), REPLICA_ROW_CHANGED);
    assert_int_equal(one.replica.high_watermark, 10);
    (void)state;
}

static void a_proposed_member_is_waited_for_and_a_timeout_clears_nothing(void **state)
{
    struct one one;
    leader(&one, 3, 1, 0);
    replica_appended(&one.replica, 5);
    assert_int_equal(fetch(&one, 2, 5), OT_OK);
    assert_int_equal(fetch(&one, 3, 5), OT_OK);
    struct replica_proposal proposal, again;
    assert_true(replica_proposal(&one.replica, &proposal));
    replica_appended(&one.replica, 8);
    assert_int_equal(fetch(&one, 2, 8), OT_OK);
    assert_int_equal(one.replica.high_watermark, 5);
    assert_true(replica_proposal(&one.replica, &again));
    assert_int_equal(again.number, proposal.number);
    replica_refused(&one.replica, proposal.number - 1, OT_ERR_INELIGIBLE_REPLICA);     /* of an older one */
    replica_refused(&one.replica, proposal.number, OT_ERR_INVALID_UPDATE_VERSION);     /* an earlier copy may have gone through */
    assert_int_equal(one.replica.high_watermark, 5);
    replica_refused(&one.replica, proposal.number, OT_ERR_INELIGIBLE_REPLICA);
    assert_int_equal(one.replica.high_watermark, 8);
    (void)state;
}

static void a_proposal_is_for_the_life_that_was_caught_up(void **state)
{
    struct one one;
    struct replica_proposal proposal, again;
    enum replica_change change;
    leader(&one, 3, 1, 0);
    assert_int_equal(fetch(&one, 3, 0), OT_OK);
    assert_true(replica_proposal(&one.replica, &proposal));
    assert_int_equal(proposal.isr, 7);
    one.brokers[2].broker_epoch = 20;          /* registered anew, perhaps with an empty disk: its row is the same */
    assert_int_equal(replica_apply(&one.replica, &one.row, one.brokers, one.now_us, &change), OT_OK);
    assert_int_equal(change, REPLICA_SAME);
    assert_true(replica_proposal(&one.replica, &again));
    assert_int_equal(again.number, proposal.number);
    assert_int_equal(one.replica.peers[2].broker_epoch, 20);
    assert_int_equal(one.replica.peers[2].proposed_epoch, 12);
    replica_refused(&one.replica, again.number, OT_ERR_INELIGIBLE_REPLICA);
    assert_false(replica_proposal(&one.replica, &again));      /* it has to show its log first */
    struct replica_fetch caught_up = { .follower = 3, .broker_epoch = 20, .leader_epoch = 5, .offset = 0, .flushed_end = -1, .matches = true };
    assert_int_equal(replica_fetched(&one.replica, &caught_up, one.now_us), OT_OK);
    assert_true(replica_proposal(&one.replica, &again));
    assert_int_equal(one.replica.peers[2].proposed_epoch, 20);
    (void)state;
}

static void who_joins_has_reached_the_watermark_and_the_start_of_the_epoch(void **state)
{
    struct one one;
    struct replica_proposal proposal;
    leader(&one, 1, 1, 7);                     /* the epoch starts at 7; alone, so all of it is committed */
    assert_int_equal(one.replica.high_watermark, 7);
    assert_int_equal(fetch(&one, 2, 6), OT_OK);
    assert_false(replica_proposal(&one.replica, &proposal));
    one.brokers[1].live = false;
    apply(&one);
    assert_int_equal(fetch(&one, 2, 7), OT_OK);
    assert_false(replica_proposal(&one.replica, &proposal));   /* fenced */
    one.brokers[1].live = true;
    apply(&one);
    assert_int_equal(fetch(&one, 2, 7), OT_OK);
    assert_true(replica_proposal(&one.replica, &proposal));
    (void)state;
}

static void fetches_of_other_epochs_do_not_count(void **state)
{
    struct one one;
    leader(&one, 7, 1, 3);
    struct replica_fetch old = { .follower = 2, .broker_epoch = 11, .leader_epoch = 4, .offset = 3, .flushed_end = -1, .matches = true };
    assert_int_equal(replica_fetched(&one.replica, &old, one.now_us), OT_ERR_FENCED_LEADER_EPOCH);
    old.leader_epoch = 6;
    assert_int_equal(replica_fetched(&one.replica, &old, one.now_us), OT_ERR_UNKNOWN_LEADER_EPOCH);
    old.leader_epoch = 5;
    old.broker_epoch = 10;
    assert_int_equal(replica_fetched(&one.replica, &old, one.now_us), OT_ERR_STALE_BROKER_EPOCH);
    old.broker_epoch = 11;
    old.follower = 9;
    assert_int_equal(replica_fetched(&one.replica, &old, one.now_us), OT_ERR_REPLICA_NOT_AVAILABLE);
    assert_int_equal(one.replica.high_watermark, 0);
    (void)state;
}

static void who_lags_leaves_and_who_keeps_up_stays(void **state)
{
    struct one one;
    struct replica_proposal proposal;
    leader(&one, 7, 1, 0);
    one.replica.lag_us_max = 1000;
    for (int i = 0; i < 10; i++) {
        one.now_us += 300;
        replica_appended(&one.replica, (i + 1) * 5);
        assert_int_equal(fetch(&one, 2, i * 5), OT_OK);        /* always what there was when it fetched last */
        replica_tick(&one.replica, one.now_us);
    }
    assert_true(replica_proposal(&one.replica, &proposal));
    assert_int_equal(proposal.isr, 3);
    (void)state;
}

static void fsync_waits_for_the_disk_of_the_leader_and_fsync_all_for_every_one(void **state)
{
    struct one one;
    leader(&one, 3, 2, 0);
    replica_set_class(&one.replica, REPLICA_FSYNC);
    replica_appended(&one.replica, 4);
    assert_int_equal(fetch(&one, 2, 4), OT_OK);
    assert_int_equal(one.replica.high_watermark, 0);
    assert_true(one.replica.flush_wanted);
    replica_flushed(&one.replica, 4);
    assert_int_equal(one.replica.high_watermark, 4);
    replica_set_class(&one.replica, REPLICA_FSYNC_ALL);
    replica_appended(&one.replica, 6);
    replica_flushed(&one.replica, 6);
    struct replica_fetch flushed = { .follower = 2, .broker_epoch = 11, .leader_epoch = 5, .offset = 6, .flushed_end = 5, .matches = true };
    assert_int_equal(replica_fetched(&one.replica, &flushed, one.now_us), OT_OK);
    assert_int_equal(one.replica.high_watermark, 5);
    (void)state;
}

static void auto_flushes_before_it_is_alone(void **state)
{
    struct one one;
    struct replica_proposal proposal;
    leader(&one, 3, 1, 0);
    one.replica.lag_us_max = 1000;
    replica_set_class(&one.replica, REPLICA_AUTO);
    replica_appended(&one.replica, 4);
    assert_int_equal(fetch(&one, 2, 4), OT_OK);
    assert_int_equal(one.replica.high_watermark, 4);           /* two: in memory is enough */
    replica_appended(&one.replica, 6);
    one.now_us += 5000;
    replica_tick(&one.replica, one.now_us);
    assert_false(replica_proposal(&one.replica, &proposal));
    assert_true(one.replica.flush_wanted);
    replica_flushed(&one.replica, 4);
    replica_tick(&one.replica, one.now_us);
    assert_true(replica_proposal(&one.replica, &proposal));
    assert_int_equal(proposal.isr, 1);
    one.row.isr = 1;
    one.brokers[1].live = false;               /* else it would be taken in again at once */
    apply(&one);
    assert_int_equal(one.replica.high_watermark, 4);           /* alone: the rest once it is on the disk */
    replica_flushed(&one.replica, 6);
    assert_int_equal(one.replica.high_watermark, 6);
    (void)state;
}

static void a_new_leader_forgets_what_it_knew_and_keeps_its_watermark(void **state)
{
    struct one one;
    leader(&one, 7, 1, 0);
    replica_appended(&one.replica, 5);
    assert_int_equal(fetch(&one, 2, 5), OT_OK);
    assert_int_equal(fetch(&one, 3, 5), OT_OK);
    assert_int_equal(one.replica.high_watermark, 5);
    one.row.leader = 2;
    one.row.leader_epoch = 6;
    assert_int_equal(apply(&one), REPLICA_BECAME_FOLLOWER);
    assert_int_equal(replica_may_append(&one.replica, false), OT_ERR_NOT_LEADER_OR_FOLLOWER);
    one.row.leader = 1;
    one.row.leader_epoch = 7;
    assert_int_equal(apply(&one), REPLICA_BECAME_LEADER);
    assert_int_equal(one.replica.high_watermark, 5);
    assert_int_equal(one.room[1].end, -1);
    (void)state;
}

static void a_follower_cuts_where_the_logs_part_and_never_at_its_watermark(void **state)
{
    assert_false(replica_diverges(5, 2, (struct replica_epoch_end){ 2, 9 }));
    assert_true(replica_diverges(5, 2, (struct replica_epoch_end){ 2, 3 }));
    assert_true(replica_diverges(5, 3, (struct replica_epoch_end){ 2, 9 }));
    assert_false(replica_diverges(0, -1, (struct replica_epoch_end){ -1, 0 }));
    assert_int_equal(replica_cut((struct replica_epoch_end){ 2, 3 }, (struct replica_epoch_end){ 2, 5 }), 3);
    assert_int_equal(replica_cut((struct replica_epoch_end){ 2, 9 }, (struct replica_epoch_end){ 1, 4 }), 4);
    (void)state;
}

static void answers_of_another_epoch_or_log_end_are_void(void **state)
{
    struct one one;
    leader(&one, 7, 1, 3);
    one.row.leader = 2;
    one.row.leader_epoch = 6;
    apply(&one);
    struct replica_answer answer = { .leader_epoch = 6, .asked_offset = 3, .asked_last_epoch = 4 };
    assert_true(replica_answer_counts(&one.replica, &answer, 4));
    assert_false(replica_answer_counts(&one.replica, &answer, 6));     /* cut and grown again meanwhile */
    answer.leader_epoch = 5;
    assert_false(replica_answer_counts(&one.replica, &answer, 4));
    answer = (struct replica_answer){ .leader_epoch = 6, .asked_offset = 2, .asked_last_epoch = 4 };
    assert_false(replica_answer_counts(&one.replica, &answer, 4));
    replica_follow_watermark(&one.replica, 9);
    assert_int_equal(one.replica.high_watermark, 3);
    (void)state;
}

/* ---- handing over */

static enum coord_handover asked(const struct one *one)
{
    struct replica_proposal proposal;
    return replica_proposal(&one->replica, &proposal) ? proposal.handover : COORD_STAYS;
}

static void it_hands_over_once_the_successor_has_all_that_was_taken(void **state)
{
    struct one one;
    leader(&one, 7, 2, 0);
    replica_appended(&one.replica, 10);
    assert_int_equal(fetch(&one, 2, 4), OT_OK);
    assert_false(replica_hands_over(&one.replica));
    one.replica.answered_end = 12;             /* written and answered, and not published yet */
    one.row.successor = 2;
    assert_int_equal(apply(&one), REPLICA_ROW_CHANGED);
    assert_true(replica_hands_over(&one.replica));
    assert_int_equal(asked(&one), COORD_STAYS);
    replica_appended(&one.replica, 15);
    assert_int_equal(fetch(&one, 3, 15), OT_OK);               /* not the one */
    assert_int_equal(fetch(&one, 2, 11), OT_OK);
    assert_int_equal(asked(&one), COORD_STAYS);
    assert_int_equal(fetch(&one, 2, 12), OT_OK);
    assert_int_equal(asked(&one), COORD_HANDS_OVER);           /* what came since waits for all in sync */
    one.now_us += 2 * REPLICA_HANDOVER_US;
    replica_tick(&one.replica, one.now_us);
    apply(&one);                               /* something else of the row changed */
    assert_int_equal(asked(&one), COORD_HANDS_OVER);
    assert_true(replica_hands_over(&one.replica));
    one.row.leader = 2;
    one.row.leader_epoch++;
    one.row.successor = 0;
    assert_int_equal(apply(&one), REPLICA_BECAME_FOLLOWER);
    assert_false(replica_hands_over(&one.replica));
    assert_int_equal(asked(&one), COORD_STAYS);
    (void)state;
}

static void a_successor_that_stays_behind_is_given_up(void **state)
{
    struct one one;
    leader(&one, 7, 2, 0);
    replica_appended(&one.replica, 10);
    one.row.successor = 2;
    apply(&one);
    one.now_us += REPLICA_HANDOVER_US - 1;
    replica_tick(&one.replica, one.now_us);
    assert_true(replica_hands_over(&one.replica));
    one.now_us++;
    replica_tick(&one.replica, one.now_us);
    assert_int_equal(asked(&one), COORD_GIVES_UP);
    assert_false(replica_hands_over(&one.replica));
    assert_int_equal(fetch(&one, 2, 10), OT_OK);
    assert_int_equal(asked(&one), COORD_GIVES_UP);             /* what acks=1 asked for meanwhile was answered at once */
    one.row.successor = 4;
    apply(&one);                               /* another one */
    assert_true(replica_hands_over(&one.replica));
    one.row.successor = 0;
    apply(&one);
    assert_false(replica_hands_over(&one.replica));
    assert_int_equal(asked(&one), COORD_STAYS);
    (void)state;
}

static void a_move_at_its_end_is_asked_for_by_whoever_leads(void **state)
{
    struct one one;
    struct replica_proposal proposal;
    leader(&one, 7, 2, 0);
    assert_false(replica_proposal(&one.replica, &proposal));
    one.row.removing = 4;                      /* its former leader died before it had handed over */
    apply(&one);
    replica_tick(&one.replica, one.now_us);
    assert_true(replica_proposal(&one.replica, &proposal));
    assert_int_equal(proposal.isr, 7);
    assert_int_equal(proposal.handover, COORD_STAYS);
    const int64_t number = proposal.number;
    replica_tick(&one.replica, one.now_us);
    assert_true(replica_proposal(&one.replica, &proposal) && proposal.number == number);
    apply(&one);                               /* it was heard, and could not be */
    replica_tick(&one.replica, one.now_us);
    assert_false(replica_proposal(&one.replica, &proposal));
    for (uint64_t i = 0; i < 10; i++) {        /* nobody lags meanwhile */
        one.now_us += one.replica.lag_us_max / 10;
        assert_int_equal(fetch(&one, 2, 0), OT_OK);
        assert_int_equal(fetch(&one, 3, 0), OT_OK);
    }
    replica_tick(&one.replica, one.now_us);
    assert_true(replica_proposal(&one.replica, &proposal) && proposal.number != number);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_watermark_is_the_least_end_of_the_isr),
        cmocka_unit_test(who_is_gone_is_told_from_who_is_slow),
        cmocka_unit_test(it_stands_while_the_committed_isr_is_too_small),
        cmocka_unit_test(a_proposed_member_is_waited_for_and_a_timeout_clears_nothing),
        cmocka_unit_test(a_proposal_is_for_the_life_that_was_caught_up),
        cmocka_unit_test(who_joins_has_reached_the_watermark_and_the_start_of_the_epoch),
        cmocka_unit_test(fetches_of_other_epochs_do_not_count),
        cmocka_unit_test(who_lags_leaves_and_who_keeps_up_stays),
        cmocka_unit_test(fsync_waits_for_the_disk_of_the_leader_and_fsync_all_for_every_one),
        cmocka_unit_test(auto_flushes_before_it_is_alone),
        cmocka_unit_test(a_new_leader_forgets_what_it_knew_and_keeps_its_watermark),
        cmocka_unit_test(a_follower_cuts_where_the_logs_part_and_never_at_its_watermark),
        cmocka_unit_test(answers_of_another_epoch_or_log_end_are_void),
        cmocka_unit_test(it_hands_over_once_the_successor_has_all_that_was_taken),
        cmocka_unit_test(a_successor_that_stays_behind_is_given_up),
        cmocka_unit_test(a_move_at_its_end_is_asked_for_by_whoever_leads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
