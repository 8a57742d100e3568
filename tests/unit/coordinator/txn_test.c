/* The transaction coordinator by virtual time: epochs, fencing, the two protocol versions, time-outs, markers, restarts. */
#include "testing.h"

#include "base/wire/frame.h"
#include "base/wire/transaction_log_key.h"
#include "base/wire/transaction_log_value.h"
#include "txn_producer.h"

static void init_gives_an_id_and_then_a_higher_epoch(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 }, again = { "a", -1, -1 };
    assert_int_equal(init(&a), OT_OK);
    assert_int_equal(a.producer_id, 1000);
    assert_int_equal(a.epoch, 0);
    assert_int_equal(init(&again), OT_OK);
    assert_int_equal(again.producer_id, 1000);
    assert_int_equal(again.epoch, 1);
    assert_int_equal(add(&a, "t", 0, 0), OT_ERR_PRODUCER_FENCED);
    a.producer_id = 7;
    assert_int_equal(add(&a, "t", 0, 0), OT_ERR_INVALID_PRODUCER_ID_MAPPING);
    a.id = "nobody";
    assert_int_equal(add(&a, "t", 0, 0), OT_ERR_INVALID_PRODUCER_ID_MAPPING);
}

static void a_timeout_outside_the_limits_is_refused(void **state)
{
    (void)state;
    static const int32_t bad[] = { 0, -1, INT32_MIN, 900001, INT32_MAX };
    for (size_t i = 0; i < OT_ARRAY_COUNT(bad); i++) {
        struct coord_txn_request request = init_request("a");
        request.timeout_ms = bad[i];
        txn_desk_ask(&desk, &request);
        assert_int_equal(request.error, OT_ERR_INVALID_TRANSACTION_TIMEOUT);
    }
    assert_int_equal(coord_txns_count(desk.txns), 0);
}

static void version_1_commits_with_the_epoch_it_had(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 };
    desk.hold_marks = true;
    assert_int_equal(init(&a), OT_OK);
    assert_int_equal(verify(&a, "t", 3), OT_ERR_TRANSACTION_ABORTABLE);
    assert_int_equal(add(&a, "t", 3, 0), OT_OK);
    assert_int_equal(add(&a, "s", 1, 0), OT_OK);
    assert_int_equal(verify(&a, "t", 3), OT_OK);
    assert_int_equal(verify(&a, "t", 4), OT_ERR_TRANSACTION_ABORTABLE);
    assert_int_equal(finish(&a, true, 0), OT_OK);
    assert_int_equal(state_of("a"), OT_TRANSACTION_STATE_PREPARE_COMMIT);
    assert_int_equal(desk.mark_count, 1);
    const struct txn_desk_mark *mark = &desk.marks[desk.mark_first];
    assert_true(mark->commit);
    assert_int_equal(mark->producer_epoch, 0);
    assert_int_equal(mark->version, 1);
    assert_int_equal(mark->place_count, 2);
    assert_string_equal(mark->names[0], "s");
    assert_int_equal(add(&a, "t", 0, 0), OT_ERR_CONCURRENT_TRANSACTIONS);
    assert_int_equal(verify(&a, "t", 3), OT_ERR_CONCURRENT_TRANSACTIONS);
    assert_int_equal(finish(&a, true, 0), OT_ERR_CONCURRENT_TRANSACTIONS);
    assert_int_equal(finish(&a, false, 0), OT_ERR_INVALID_TXN_STATE);
    txn_desk_mark(&desk, OT_OK);
    assert_int_equal(state_of("a"), OT_TRANSACTION_STATE_COMPLETE_COMMIT);
    assert_int_equal(finish(&a, true, 0), OT_OK);                  /* repeated: T3 */
    assert_int_equal(finish(&a, false, 0), OT_ERR_INVALID_TXN_STATE);
    assert_int_equal(look("a").part_count, 0);
    assert_int_equal(open_count(), 0);
}

static void version_2_bumps_the_epoch_at_each_end(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 };
    assert_int_equal(init(&a), OT_OK);
    assert_int_equal(add(&a, "t", 0, 2), OT_OK);
    struct producer late = a;
    assert_int_equal(finish(&a, true, 2), OT_OK);
    assert_int_equal(a.epoch, 1);
    assert_int_equal(state_of("a"), OT_TRANSACTION_STATE_COMPLETE_COMMIT);
    struct producer repeated = late;
    assert_int_equal(finish(&repeated, true, 2), OT_OK);           /* the answer was lost */
    assert_int_equal(repeated.epoch, 1);
    repeated = late;
    assert_int_equal(finish(&repeated, false, 2), OT_ERR_INVALID_TXN_STATE);
    assert_int_equal(finish(&a, true, 2), OT_ERR_INVALID_TXN_STATE);       /* commit of nothing */
    assert_int_equal(add(&a, "t", 0, 2), OT_OK);
    assert_int_equal(finish(&late, true, 2), OT_ERR_PRODUCER_FENCED);      /* T7: it does not touch the later transaction */
    assert_int_equal(state_of("a"), OT_TRANSACTION_STATE_ONGOING);
    assert_int_equal(finish(&a, false, 2), OT_OK);
    assert_int_equal(a.epoch, 2);
}

static void version_2_may_abort_what_has_no_partition(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 };
    assert_int_equal(init(&a), OT_OK);
    struct producer before = a;
    assert_int_equal(finish(&a, false, 2), OT_OK);
    assert_int_equal(a.epoch, 1);
    assert_int_equal(finish(&before, false, 2), OT_OK);
    assert_int_equal(before.epoch, 1);
    assert_int_equal(finish(&a, false, 2), OT_OK);
    assert_int_equal(a.epoch, 2);
    assert_int_equal(finish(&a, false, 0), OT_OK);                 /* version 1: the same end once more */
    assert_int_equal(a.epoch, 2);
    struct producer b = { "b", -1, -1 };
    assert_int_equal(init(&b), OT_OK);
    assert_int_equal(finish(&b, false, 0), OT_ERR_INVALID_TXN_STATE);
    assert_int_equal(finish(&b, true, 2), OT_ERR_INVALID_TXN_STATE);
}

static void an_answer_waits_for_its_record(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 };
    assert_int_equal(init(&a), OT_OK);
    desk.hold_commit = true;
    struct coord_txn_place place = place_of("t", 0);
    struct coord_txn_request first = asking(COORD_TXN_ADD, &a), same = first, over = asking(COORD_TXN_END, &a), check = asking(COORD_TXN_VERIFY, &a);
    first.places = same.places = check.places = &place;
    first.place_count = same.place_count = check.place_count = 1;
    over.commit = true;
    txn_desk_ask(&desk, &first);
    txn_desk_ask(&desk, &same);
    txn_desk_ask(&desk, &check);
    txn_desk_ask(&desk, &over);                /* behind the first, without waiting for it */
    assert_false(txn_desk_answered(&first) || txn_desk_answered(&same) || txn_desk_answered(&over) || txn_desk_answered(&check));
    assert_int_equal(desk.mark_count, 0);
    coord_txns_committed(desk.txns, desk.records[1].seq, desk.now);
    txn_desk_drain(&desk);
    assert_true(txn_desk_answered(&first) && txn_desk_answered(&same) && txn_desk_answered(&check) && !txn_desk_answered(&over));
    assert_int_equal(desk.mark_count, 0);
    desk.hold_marks = true;
    txn_desk_commit(&desk);
    assert_true(txn_desk_answered(&over));
    assert_int_equal(desk.mark_count, 1);
}

static void what_is_not_committed_is_refused_when_the_shard_closes(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 };
    assert_int_equal(init(&a), OT_OK);
    desk.hold_commit = true;
    struct coord_txn_place place = place_of("t", 0);
    struct coord_txn_request first = asking(COORD_TXN_ADD, &a);
    first.places = &place;
    first.place_count = 1;
    txn_desk_ask(&desk, &first);
    txn_desk_stop(&desk);
    assert_int_equal(first.error, OT_ERR_NOT_COORDINATOR);
    desk.hold_commit = false;
    txn_desk_start(&desk, 1);                  /* that record never was written */
    assert_int_equal(state_of("a"), OT_TRANSACTION_STATE_EMPTY);
    assert_int_equal(add(&a, "t", 0, 0), OT_OK);
}

static void the_next_transaction_waits_for_the_end_of_the_one_before(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 };
    desk.hold_marks = true;
    assert_int_equal(init(&a), OT_OK);
    assert_int_equal(add(&a, "t", 0, 2), OT_OK);
    assert_int_equal(finish(&a, true, 2), OT_OK);
    struct coord_txn_place place = place_of("t", 1);
    struct coord_txn_request next = asking(COORD_TXN_ADD, &a);
    next.places = &place;
    next.place_count = 1;
    next.version = 2;
    txn_desk_ask(&desk, &next);
    assert_false(txn_desk_answered(&next));
    txn_desk_mark(&desk, OT_OK);
    assert_true(txn_desk_answered(&next));
    assert_int_equal(next.error, OT_OK);
    assert_int_equal(state_of("a"), OT_TRANSACTION_STATE_ONGOING);
    assert_int_equal(look("a").part_count, 1);
}

static void a_waiting_request_is_refused_in_time(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 };
    desk.hold_marks = true;
    assert_int_equal(init(&a), OT_OK);
    assert_int_equal(add(&a, "t", 0, 2), OT_OK);
    assert_int_equal(finish(&a, true, 2), OT_OK);
    struct coord_txn_place place = place_of("t", 1);
    struct coord_txn_request many[12];
    for (int i = 0; i < 12; i++) {
        many[i] = asking(COORD_TXN_ADD, &a);
        many[i].places = &place;
        many[i].place_count = 1;
        txn_desk_ask(&desk, &many[i]);
        assert_int_equal(txn_desk_answered(&many[i]), i >= 8);     /* so many wait, no more */
    }
    assert_int_equal(coord_txns_deadline_us(desk.txns), desk.now.now_us + 100000);
    txn_desk_pass(&desk, 99);
    assert_false(txn_desk_answered(&many[0]));
    txn_desk_pass(&desk, 1);
    for (int i = 0; i < 12; i++) assert_int_equal(many[i].error, OT_ERR_CONCURRENT_TRANSACTIONS);
    assert_true(txn_desk_answered(&many[7]));
}

static void init_takes_over_and_aborts_what_is_open(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 }, b = { "a", -1, -1 };
    desk.hold_marks = true;
    assert_int_equal(init(&a), OT_OK);
    assert_int_equal(add(&a, "t", 0, 2), OT_OK);
    struct coord_txn_request request = init_request("a");
    txn_desk_ask(&desk, &request);
    assert_false(txn_desk_answered(&request));
    assert_int_equal(state_of("a"), OT_TRANSACTION_STATE_PREPARE_ABORT);
    assert_int_equal(desk.marks[desk.mark_first].producer_epoch, 2);
    assert_false(desk.marks[desk.mark_first].commit);
    assert_int_equal(finish(&a, true, 2), OT_ERR_PRODUCER_FENCED);
    txn_desk_mark(&desk, OT_OK);
    assert_true(txn_desk_answered(&request));
    assert_int_equal(request.error, OT_OK);
    assert_int_equal(request.producer_epoch_out, 3);
    assert_int_equal(finish(&a, true, 2), OT_ERR_PRODUCER_FENCED);
    assert_int_equal(finish(&a, true, 0), OT_ERR_PRODUCER_FENCED);
    assert_int_equal(desk.events[COORD_TXN_FENCED], 1);
    assert_int_equal(init(&b), OT_OK);
    assert_int_equal(b.epoch, 4);
}

static void without_patience_init_says_concurrent_until_it_is_done(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 }, b = a;
    desk.config.wait_us = 0;
    coord_txns_configure(desk.txns, &desk.config);
    desk.hold_marks = true;
    assert_int_equal(init(&a), OT_OK);
    assert_int_equal(add(&a, "t", 0, 0), OT_OK);
    assert_int_equal(init(&b), OT_ERR_CONCURRENT_TRANSACTIONS);
    assert_int_equal(init(&b), OT_ERR_CONCURRENT_TRANSACTIONS);
    assert_int_equal(desk.mark_count, 1);      /* fenced once, not at each try */
    txn_desk_mark(&desk, OT_OK);
    assert_int_equal(init(&b), OT_OK);
}

static void a_producer_that_goes_on_keeps_its_id(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 }, before, other = { "a", -1, -1 };
    assert_int_equal(init(&a), OT_OK);
    before = a;
    assert_int_equal(go_on(&a), OT_OK);
    assert_int_equal(a.epoch, 1);
    struct producer lost = before;
    assert_int_equal(go_on(&lost), OT_OK);     /* the answer was lost: the same again */
    assert_int_equal(lost.epoch, 1);
    assert_int_equal(init(&other), OT_OK);
    assert_int_equal(go_on(&a), OT_ERR_PRODUCER_FENCED);
    lost = before;
    assert_int_equal(go_on(&lost), OT_ERR_PRODUCER_FENCED);
    other.producer_id = 5;
    assert_int_equal(go_on(&other), OT_ERR_PRODUCER_FENCED);
    struct producer fresh = { "new", 77, 3 };  /* forgotten here: it gets a new id */
    assert_int_equal(go_on(&fresh), OT_OK);
    assert_int_equal(fresh.epoch, 0);
    assert_true(fresh.producer_id >= 1000);
}

static void a_late_init_of_an_ended_epoch_leaves_the_newer_transaction_alone(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 };
    assert_int_equal(init(&a), OT_OK);
    struct producer before = a;
    assert_int_equal(go_on(&a), OT_OK);
    assert_int_equal(add(&a, "t", 0, 0), OT_OK);
    assert_int_equal(go_on(&before), OT_ERR_PRODUCER_FENCED);
    assert_int_equal(state_of("a"), OT_TRANSACTION_STATE_ONGOING);
}

static void an_open_transaction_ends_at_its_timeout(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 };
    assert_int_equal(init(&a), OT_OK);
    assert_int_equal(add(&a, "t", 0, 0), OT_OK);
    txn_desk_pass(&desk, 30000);
    assert_int_equal(add(&a, "t", 1, 0), OT_OK);           /* more work does not move the deadline */
    txn_desk_pass(&desk, 29999);
    assert_int_equal(state_of("a"), OT_TRANSACTION_STATE_ONGOING);
    txn_desk_pass(&desk, 1);
    assert_int_equal(state_of("a"), OT_TRANSACTION_STATE_COMPLETE_ABORT);
    assert_int_equal(desk.events[COORD_TXN_TIMED_OUT], 1);
    assert_int_equal(finish(&a, true, 0), OT_ERR_PRODUCER_FENCED);
    assert_int_equal(finish(&a, true, 2), OT_ERR_PRODUCER_FENCED);
    assert_int_equal(finish(&a, false, 2), OT_ERR_PRODUCER_FENCED);
}

static void a_timeout_counts_on_over_a_restart(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 }, none = { "none", -1, -1 };
    assert_int_equal(init(&a), OT_OK);
    assert_int_equal(init(&none), OT_OK);
    assert_int_equal(add(&a, "t", 0, 0), OT_OK);
    txn_desk_pass(&desk, 50000);
    desk.now.wall_ms += 30 * 86400000LL;       /* a clock that jumped ahead makes it no shorter */
    txn_desk_stop(&desk);
    txn_desk_start(&desk, desk.record_count);
    txn_desk_pass(&desk, 9999);
    assert_int_equal(state_of("a"), OT_TRANSACTION_STATE_ONGOING);
    txn_desk_pass(&desk, 1);
    assert_int_equal(state_of("a"), OT_TRANSACTION_STATE_COMPLETE_ABORT);
    /* a wall clock that went back far does not make it longer than it was */
    struct producer b = { "b", -1, -1 };
    assert_int_equal(init(&b), OT_OK);
    assert_int_equal(add(&b, "t", 0, 0), OT_OK);
    desk.now.wall_ms -= 86400000;
    txn_desk_stop(&desk);
    txn_desk_start(&desk, desk.record_count);
    txn_desk_pass(&desk, 60000);
    assert_int_equal(state_of("b"), OT_TRANSACTION_STATE_COMPLETE_ABORT);
}

static void a_transaction_without_partitions_ends_at_its_timeout_too(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 };
    struct coord_txn_request request;
    assert_int_equal(init(&a), OT_OK);
    request = asking(COORD_TXN_ADD, &a);
    txn_desk_ask(&desk, &request);
    assert_int_equal(request.error, OT_OK);
    assert_int_equal(state_of("a"), OT_TRANSACTION_STATE_ONGOING);
    txn_desk_pass(&desk, 60000);
    assert_int_equal(state_of("a"), OT_TRANSACTION_STATE_COMPLETE_ABORT);
}

static void markers_are_written_again_until_they_are(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 };
    desk.hold_marks = true;
    assert_int_equal(init(&a), OT_OK);
    assert_int_equal(add(&a, "t", 0, 0), OT_OK);
    assert_int_equal(add(&a, "u", 0, 0), OT_OK);
    assert_int_equal(finish(&a, false, 0), OT_OK);
    struct txn_desk_mark *mark = &desk.marks[desk.mark_first];
    mark->places[0].error = OT_OK;
    mark->places[1].error = OT_ERR_NOT_LEADER_OR_FOLLOWER;
    struct coord_txn_marked marked = { ot_str_of("a"), mark->producer_id, mark->producer_epoch, mark->places, 2 };
    coord_txns_marked(desk.txns, &marked, desk.now);
    txn_desk_drain(&desk);
    desk.mark_count = 0;
    txn_desk_pass(&desk, 19);
    assert_int_equal(desk.mark_count, 0);
    txn_desk_pass(&desk, 1);
    assert_int_equal(desk.mark_count, 1);
    assert_int_equal(desk.marks[desk.mark_first].place_count, 1);
    assert_string_equal(desk.marks[desk.mark_first].names[0], "u");
    for (int64_t wait = 40; wait <= 2000; wait *= 2) {
        assert_true(txn_desk_mark(&desk, OT_ERR_NOT_LEADER_OR_FOLLOWER));
        txn_desk_pass(&desk, OT_MIN(wait, 2000) - 1);
        assert_int_equal(desk.mark_count, 0);
        txn_desk_pass(&desk, 1);
        assert_int_equal(desk.mark_count, 1);
    }
    txn_desk_mark(&desk, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);       /* deleted meanwhile */
    assert_int_equal(state_of("a"), OT_TRANSACTION_STATE_COMPLETE_ABORT);
    assert_int_equal(desk.events[COORD_TXN_MARKER_DROPPED], 1);
    coord_txns_marked(desk.txns, &marked, desk.now);               /* a late answer */
    assert_int_equal(state_of("a"), OT_TRANSACTION_STATE_COMPLETE_ABORT);
}

static void a_restart_goes_on_with_what_was_decided(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 }, b = { "b", -1, -1 };
    desk.hold_marks = true;
    assert_int_equal(init(&a), OT_OK);
    assert_int_equal(init(&b), OT_OK);
    assert_int_equal(add(&a, "t", 0, 2), OT_OK);
    assert_int_equal(add(&b, "t", 1, 0), OT_OK);
    assert_int_equal(finish(&a, true, 2), OT_OK);
    assert_int_equal(finish(&b, false, 0), OT_OK);
    txn_desk_stop(&desk);
    desk.hold_commit = true;                   /* what was read may not be committed yet */
    txn_desk_start(&desk, desk.record_count);
    assert_int_equal(desk.mark_count, 0);
    desk.hold_commit = false;
    txn_desk_commit(&desk);
    assert_int_equal(desk.mark_count, 2);
    const struct txn_desk_mark *mark = &desk.marks[desk.mark_first];
    bool first_is_a = strcmp(mark->id, "a") == 0;
    assert_int_equal(mark->commit, first_is_a);
    assert_int_equal(mark->version, first_is_a ? 2 : 1);
    txn_desk_mark(&desk, OT_OK);
    txn_desk_mark(&desk, OT_OK);
    assert_int_equal(state_of("a"), OT_TRANSACTION_STATE_COMPLETE_COMMIT);
    assert_int_equal(state_of("b"), OT_TRANSACTION_STATE_COMPLETE_ABORT);
    assert_int_equal(look("a").producer_epoch, 1);
    assert_int_equal(look("b").producer_epoch, 0);
}

/* T3 over a change of coordinators: who asks again hears that it is done, who gave up that it cannot be undone. */
static void a_commit_whose_answer_was_lost_is_confirmed_after_a_restart_and_not_undone(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 };
    desk.hold_marks = true;
    assert_int_equal(init(&a), OT_OK);
    assert_int_equal(add(&a, "t", 0, 0), OT_OK);
    assert_int_equal(finish(&a, true, 0), OT_OK);
    txn_desk_stop(&desk);
    txn_desk_start(&desk, desk.record_count);
    assert_int_equal(finish(&a, false, 0), OT_ERR_INVALID_TXN_STATE);
    txn_desk_mark(&desk, OT_OK);
    assert_int_equal(finish(&a, true, 0), OT_OK);
    assert_int_equal(finish(&a, false, 0), OT_ERR_INVALID_TXN_STATE);
}

static void an_idle_id_is_forgotten(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 }, b = { "b", -1, -1 };
    assert_int_equal(init(&a), OT_OK);
    assert_int_equal(init(&b), OT_OK);
    assert_int_equal(add(&b, "t", 0, 0), OT_OK);
    assert_int_equal(finish(&b, true, 0), OT_OK);
    txn_desk_pass(&desk, 604799999);
    desk.now.wall_ms += 86400000;              /* only says so */
    txn_desk_stop(&desk);
    txn_desk_start(&desk, desk.record_count);
    assert_int_equal(coord_txns_count(desk.txns), 2);
    txn_desk_pass(&desk, 1);
    assert_int_equal(coord_txns_count(desk.txns), 0);
    assert_int_equal(desk.events[COORD_TXN_EXPIRED], 2);
    assert_int_equal(add(&a, "t", 0, 0), OT_ERR_INVALID_PRODUCER_ID_MAPPING);
    txn_desk_stop(&desk);
    txn_desk_start(&desk, desk.record_count);
    assert_int_equal(coord_txns_count(desk.txns), 0);
    assert_int_equal(coord_txns_bytes(desk.txns), 0);
}

static void an_operator_aborts_what_hangs(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 };
    assert_int_equal(init(&a), OT_OK);
    struct coord_txn_request request = coord_txn_request_default(COORD_TXN_ABORT, ot_str_of("a"));
    txn_desk_ask(&desk, &request);
    assert_int_equal(request.error, OT_ERR_INVALID_TXN_STATE);
    request.id = ot_str_of("nobody");
    txn_desk_ask(&desk, &request);
    assert_int_equal(request.error, OT_ERR_TRANSACTIONAL_ID_NOT_FOUND);
    request.id = ot_str_of("a");
    assert_int_equal(add(&a, "t", 0, 2), OT_OK);
    txn_desk_ask(&desk, &request);
    assert_true(txn_desk_answered(&request));
    assert_int_equal(request.error, OT_OK);
    assert_int_equal(state_of("a"), OT_TRANSACTION_STATE_COMPLETE_ABORT);
    assert_int_equal(finish(&a, true, 2), OT_ERR_PRODUCER_FENCED);
    struct producer b = { "a", -1, -1 };
    assert_int_equal(init(&b), OT_OK);
    assert_int_equal(add(&b, "t", 0, 2), OT_OK);
    desk.hold_marks = true;                    /* slow: decided is as good */
    txn_desk_ask(&desk, &request);
    assert_false(txn_desk_answered(&request));
    txn_desk_pass(&desk, 100);
    assert_true(txn_desk_answered(&request));
    assert_int_equal(request.error, OT_OK);
    assert_int_equal(state_of("a"), OT_TRANSACTION_STATE_PREPARE_ABORT);
}

static void records_are_kafkas(void **state)
{
    (void)state;
    struct producer a = { "tx", -1, -1 };
    desk.hold_marks = true;
    assert_int_equal(init(&a), OT_OK);
    assert_int_equal(add(&a, "topic", 3, 2), OT_OK);
    static const uint8_t key[] = { 0, 0, 0, 2, 't', 'x' };
    static const uint8_t empty[] = { 0, 1, 0, 0, 0, 0, 0, 0, 3, 0xe8, 0, 0, 0, 0, 0xea, 0x60, 0, 0, 0, 0, 1, 0x8b, 0xcf, 0xe5, 0x68, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 1, 0, 8, 0, 0, 0, 0, 0, 0, 3, 0xe8 };
    static const uint8_t ongoing[] = { 0, 1, 0, 0, 0, 0, 0, 0, 3, 0xe8, 0, 0, 0, 0, 0xea, 0x60, 1, 2, 6, 't', 'o', 'p', 'i', 'c', 2, 0, 0, 0, 3, 0, 0, 0, 1, 0x8b, 0xcf, 0xe5,
        0x68, 0, 0, 0, 1, 0x8b, 0xcf, 0xe5, 0x68, 0, 2, 0, 8, 0, 0, 0, 0, 0, 0, 3, 0xe8, 2, 2, 0, 2 };
    assert_int_equal(desk.record_count, 2);
    assert_int_equal(desk.records[0].key_bytes, sizeof key);
    assert_memory_equal(desk.records[0].key, key, sizeof key);
    assert_int_equal(desk.records[0].value_bytes, sizeof empty);
    assert_memory_equal(desk.records[0].value, empty, sizeof empty);
    assert_int_equal(desk.records[1].value_bytes, sizeof ongoing);
    assert_memory_equal(desk.records[1].value, ongoing, sizeof ongoing);
    desk.config.version = 0;                   /* a cluster that is held back writes what older readers know */
    coord_txns_configure(desk.txns, &desk.config);
    assert_int_equal(finish(&a, true, 0), OT_OK);
    assert_int_equal(desk.records[2].value[1], 0);
}

static void strange_records_are_told(void **state)
{
    (void)state;
    struct coord_txns *txns;
    static const uint8_t other[] = { 0, 9, 0, 1, 'a' }, cut[] = { 0, 0, 0, 5, 'a' }, key[] = { 0, 0, 0, 1, 'a' }, version[] = { 0, 7, 1, 2 }, torn[] = { 0, 1, 0, 0 };
    assert_int_equal(coord_txns_new(&desk.config, &txns), OT_OK);
    struct ot_blob none = { NULL, 0, true };
#define BLOB(x) ((struct ot_blob){ x, sizeof x, false })
    assert_int_equal(coord_txns_replay(txns, BLOB(other), none), OT_ERR_UNSUPPORTED_VERSION);
    assert_int_equal(coord_txns_replay(txns, BLOB(cut), none), OT_ERR_CORRUPT);
    assert_int_equal(coord_txns_replay(txns, none, none), OT_ERR_CORRUPT);
    assert_int_equal(coord_txns_replay(txns, BLOB(key), BLOB(version)), OT_ERR_UNSUPPORTED_VERSION);
    assert_int_equal(coord_txns_replay(txns, BLOB(key), BLOB(torn)), OT_ERR_CORRUPT);
    assert_int_equal(coord_txns_replay(txns, BLOB(key), none), OT_OK);
    assert_int_equal(coord_txns_count(txns), 0);
    coord_txns_free(txns);
}

static void memory_and_records_are_bounded(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 };
    desk.config.record_bytes_max = 400;
    desk.config.bytes_max = 5000;
    coord_txns_configure(desk.txns, &desk.config);
    assert_int_equal(init(&a), OT_OK);
    enum ot_err err = OT_OK;
    int32_t partition = 0;
    while (partition < 1000 && (err = add(&a, "topic", partition, 0)) == OT_OK) partition++;
    assert_int_equal(err, OT_ERR_TOO_LARGE);
    assert_true(partition > 30);
    assert_int_equal(finish(&a, true, 0), OT_OK);      /* what was taken is whole */
    for (int i = 0; i < 100 && err != OT_ERR_NO_MEMORY; i++) {
        char id[16];
        snprintf(id, sizeof id, "id-%d", i);
        struct producer b = { id, -1, -1 };
        err = init(&b);
    }
    assert_int_equal(err, OT_ERR_NO_MEMORY);
    assert_true(coord_txns_bytes(desk.txns) < 6000);
}

static struct ot_str too_long(void)
{
    static char text[40000];
    memset(text, 'x', sizeof text);
    return (struct ot_str){ text, sizeof text, false };
}

static void nothing_is_acknowledged_whose_record_cannot_be_made(void **state)
{
    (void)state;
    struct coord_txn_request request = init_request("a");
    request.id = too_long();
    txn_desk_ask(&desk, &request);
    assert_true(txn_desk_answered(&request));
    assert_true(coord_txns_broken(desk.txns));
    assert_int_equal(request.error, OT_ERR_COORDINATOR_NOT_AVAILABLE);
    assert_int_equal(request.producer_id_out, -1);
    assert_int_equal(request.producer_epoch_out, -1);
    assert_int_equal(desk.record_count, 0);
}

static void a_commit_is_not_acknowledged_once_a_record_could_not_be_made(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 }, b = { "b", -1, -1 };
    assert_int_equal(init(&a), OT_OK);
    assert_int_equal(init(&b), OT_OK);
    assert_int_equal(add(&a, "t", 0, 2), OT_OK);
    struct coord_txn_place place = { .topic = too_long() };
    struct coord_txn_request request = asking(COORD_TXN_ADD, &b);
    request.places = &place;
    request.place_count = 1;
    txn_desk_ask(&desk, &request);
    assert_int_equal(request.error, OT_ERR_COORDINATOR_NOT_AVAILABLE);
    const uint32_t records = desk.record_count;
    assert_int_equal(verify(&a, "t", 0), OT_ERR_COORDINATOR_NOT_AVAILABLE);
    assert_int_equal(finish(&a, true, 2), OT_ERR_COORDINATOR_NOT_AVAILABLE);
    assert_int_equal(desk.record_count, records);
}

static void a_partition_named_twice_is_one(void **state)
{
    (void)state;
    struct producer a = { "a", -1, -1 };
    assert_int_equal(init(&a), OT_OK);
    struct coord_txn_place places[] = { place_of("b", 1), place_of("a", 2), place_of("b", 1), place_of("b", 0), place_of("a", 2) };
    struct coord_txn_request request = asking(COORD_TXN_ADD, &a);
    request.places = places;
    request.place_count = 5;
    txn_desk_ask(&desk, &request);
    txn_desk_ask(&desk, &request);
    struct coord_txn_view view = look("a");
    assert_int_equal(view.part_count, 3);
    assert_string_equal(view.parts[0].topic->name, "a");
    assert_int_equal(view.parts[1].partition, 0);
    assert_int_equal(view.parts[2].partition, 1);
    assert_int_equal(desk.record_count, 2);    /* the second time nothing was new */
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
    static const struct CMUnitTest tests[] = { T(init_gives_an_id_and_then_a_higher_epoch), T(a_timeout_outside_the_limits_is_refused),
        T(version_1_commits_with_the_epoch_it_had), T(version_2_bumps_the_epoch_at_each_end), T(version_2_may_abort_what_has_no_partition),
        T(an_answer_waits_for_its_record), T(what_is_not_committed_is_refused_when_the_shard_closes), T(the_next_transaction_waits_for_the_end_of_the_one_before),
        T(a_waiting_request_is_refused_in_time), T(init_takes_over_and_aborts_what_is_open), T(without_patience_init_says_concurrent_until_it_is_done),
        T(a_producer_that_goes_on_keeps_its_id), T(a_late_init_of_an_ended_epoch_leaves_the_newer_transaction_alone), T(an_open_transaction_ends_at_its_timeout),
        T(a_timeout_counts_on_over_a_restart), T(a_transaction_without_partitions_ends_at_its_timeout_too), T(markers_are_written_again_until_they_are),
        T(a_restart_goes_on_with_what_was_decided), T(a_commit_whose_answer_was_lost_is_confirmed_after_a_restart_and_not_undone), T(an_idle_id_is_forgotten), T(an_operator_aborts_what_hangs), T(records_are_kafkas),
        T(strange_records_are_told), T(memory_and_records_are_bounded), T(a_partition_named_twice_is_one), T(nothing_is_acknowledged_whose_record_cannot_be_made),
        T(a_commit_is_not_acknowledged_once_a_record_could_not_be_made) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
