#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/batch.h"
#include "engine/producers.h"
#include "engine/snapshots.h"
#include "base/util.h"
#include <stdlib.h>
#include <string.h>

#define DAY_MS 86400000

struct bench { struct eng_producers *producers; int64_t end, wall_ms; struct eng_completed_txn done[16]; uint32_t done_count; };

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);
    assert_non_null(bench);
    bench->wall_ms = 1750000000000;
    assert_int_equal(eng_producers_new(100, DAY_MS, &bench->producers), OT_OK);
    *state = bench;
    return 0;
}

static int teardown(void **state)
{
    struct bench *bench = *state;
    eng_producers_free(bench->producers);
    free(bench);
    return 0;
}

static void completed(void *arg, const struct eng_completed_txn *txn)
{
    struct bench *bench = arg;
    assert_true(bench->done_count < OT_ARRAY_COUNT(bench->done));
    bench->done[bench->done_count++] = *txn;
}

static struct eng_batch_info data(int64_t producer_id, int16_t epoch, int32_t sequence, int32_t count)
{
    return (struct eng_batch_info){ .magic = 2, .producer_id = producer_id, .producer_epoch = epoch, .base_sequence = sequence,
        .last_offset_delta = count - 1, .record_count = count, .max_timestamp = 1750000000000 };
}

static struct eng_batch_info txn_data(int64_t producer_id, int16_t epoch, int32_t sequence, int32_t count)
{
    struct eng_batch_info info = data(producer_id, epoch, sequence, count);
    info.transactional = true;
    return info;
}

static struct eng_batch_info end_of(int64_t producer_id, int16_t epoch)
{
    struct eng_batch_info info = data(producer_id, epoch, -1, 1);
    info.transactional = info.control = true;
    return info;
}

static struct eng_producer_check check_as(struct bench *bench, struct eng_batch_info info, const struct eng_marker *marker, enum eng_origin origin, int16_t version)
{
    struct eng_producer_check check;
    eng_producers_check(bench->producers, &info, marker, origin, version, &check);
    assert_int_equal(check.error == OT_OK, check.text[0] == '\0');
    return check;
}

static enum ot_err check_error(struct bench *bench, struct eng_batch_info info)
{
    return check_as(bench, info, NULL, ENG_ORIGIN_CLIENT, 0).error;
}

static void pend(struct bench *bench, struct eng_batch_info info, const struct eng_marker *marker)
{
    int64_t base = bench->end;
    bench->end += info.last_offset_delta + 1;
    assert_int_equal(eng_producers_pend(bench->producers, &info, base, bench->end - 1, marker, bench->wall_ms), OT_OK);
}

static void commit(struct bench *bench)
{
    eng_producers_commit(bench->producers, bench->end, completed, bench);
}

static void append(struct bench *bench, struct eng_batch_info info)
{
    assert_int_equal(check_error(bench, info), OT_OK);
    pend(bench, info, NULL);
    commit(bench);
}

static void end_txn(struct bench *bench, int64_t producer_id, int16_t epoch, bool commits, int32_t coordinator_epoch)
{
    pend(bench, end_of(producer_id, epoch), &(struct eng_marker){ true, commits, coordinator_epoch });
    commit(bench);
}

/* ---- sequences and epochs ---- */

static void an_unknown_producer_may_begin_at_any_sequence(void **state)
{
    assert_int_equal(check_error(*state, data(7, 3, 4711, 1)), OT_OK);
}

static void a_gap_and_a_step_back_are_out_of_order(void **state)
{
    struct bench *bench = *state;
    append(bench, data(7, 0, 0, 3));
    assert_int_equal(check_error(bench, data(7, 0, 3, 1)), OT_OK);
    assert_int_equal(check_error(bench, data(7, 0, 4, 1)), OT_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_int_equal(check_error(bench, data(7, 0, 1, 1)), OT_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
}

static void a_higher_epoch_begins_at_zero_and_a_lower_one_is_fenced(void **state)
{
    struct bench *bench = *state;
    append(bench, data(7, 1, 0, 3));
    assert_int_equal(check_error(bench, data(7, 2, 3, 1)), OT_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_int_equal(check_error(bench, data(7, 0, 3, 1)), OT_ERR_INVALID_PRODUCER_EPOCH);
    append(bench, data(7, 2, 0, 1));
    assert_int_equal(check_error(bench, data(7, 1, 3, 1)), OT_ERR_INVALID_PRODUCER_EPOCH);
    assert_int_equal(check_error(bench, data(7, 1, 0, 3)), OT_ERR_INVALID_PRODUCER_EPOCH);      /* no duplicate across epochs */
}

static void the_sequence_wraps_behind_its_largest_value(void **state)
{
    struct bench *bench = *state;
    append(bench, data(7, 0, INT32_MAX - 1, 2));               /* ends at INT32_MAX */
    append(bench, data(7, 0, 0, 2));
    append(bench, data(8, 0, INT32_MAX, 3));                   /* INT32_MAX, 0, 1 */
    assert_int_equal(check_error(bench, data(8, 0, 1, 1)), OT_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    struct eng_producer_check again = check_as(bench, data(8, 0, INT32_MAX, 3), NULL, ENG_ORIGIN_CLIENT, 0);
    assert_true(again.duplicate);
    assert_int_equal(again.duplicate_base_offset, 4);
    assert_int_equal(again.duplicate_last_offset, 6);
    append(bench, data(8, 0, 2, 1));
}

static void five_batches_are_remembered_and_the_sixth_back_is_not(void **state)
{
    struct bench *bench = *state;
    for (int32_t i = 0; i < 6; i++) append(bench, data(7, 0, i * 2, 2));
    for (int32_t i = 1; i < 6; i++) {
        struct eng_producer_check check = check_as(bench, data(7, 0, i * 2, 2), NULL, ENG_ORIGIN_CLIENT, 0);
        assert_int_equal(check.error, OT_OK);
        assert_true(check.duplicate);
        assert_int_equal(check.duplicate_base_offset, i * 2);
        assert_int_equal(check.duplicate_last_offset, i * 2 + 1);
        assert_int_equal(check.duplicate_timestamp_ms, 1750000000000);
    }
    assert_int_equal(check_error(bench, data(7, 0, 0, 2)), OT_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_int_equal(check_error(bench, data(7, 0, 8, 1)), OT_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);      /* same start, another length */
}

static void batches_without_producer_leave_no_trace(void **state)
{
    struct bench *bench = *state;
    struct eng_batch_info info = data(-1, -1, -1, 1);
    append(bench, info);
    append(bench, info);
    assert_int_equal(eng_producers_list(bench->producers, NULL, 0), 0);
}

/* ---- pending ---- */

static void a_duplicate_of_a_queued_batch_is_found(void **state)
{
    struct bench *bench = *state;
    pend(bench, data(7, 0, 0, 2), NULL);
    pend(bench, data(7, 0, 2, 2), NULL);
    struct eng_producer_check check = check_as(bench, data(7, 0, 2, 2), NULL, ENG_ORIGIN_CLIENT, 0);
    assert_true(check.duplicate);
    assert_int_equal(check.duplicate_base_offset, 2);
    assert_int_equal(check_error(bench, data(7, 0, 4, 1)), OT_OK);
    struct eng_producer_view view;
    assert_false(eng_producers_find(bench->producers, 7, false, &view));
    assert_true(eng_producers_find(bench->producers, 7, true, &view));
    assert_int_equal(view.last_sequence, 3);
}

static void dropping_what_is_queued_restores_what_is_committed(void **state)
{
    struct bench *bench = *state;
    append(bench, data(7, 0, 0, 2));
    pend(bench, data(7, 0, 2, 2), NULL);
    pend(bench, data(8, 0, 0, 1), NULL);
    pend(bench, data(7, 1, 0, 1), NULL);
    pend(bench, txn_data(9, 0, 0, 1), NULL);
    eng_producers_drop_pending(bench->producers);
    bench->end = 2;
    struct eng_producer_view view;
    assert_int_equal(eng_producers_list(bench->producers, &view, 1), 1);
    assert_int_equal(view.producer_id, 7);
    assert_int_equal(view.epoch, 0);
    assert_int_equal(view.last_sequence, 1);
    assert_false(eng_producers_find(bench->producers, 8, true, &view));
    assert_int_equal(check_error(bench, data(7, 0, 2, 2)), OT_OK);
    assert_int_equal(eng_producers_first_unstable(bench->producers), INT64_MAX);
}

static void commit_stops_at_the_log_end(void **state)
{
    struct bench *bench = *state;
    pend(bench, data(7, 0, 0, 2), NULL);
    pend(bench, data(7, 0, 2, 3), NULL);
    eng_producers_commit(bench->producers, 4, NULL, NULL);     /* in the middle of the second: it is not in the log */
    struct eng_producer_view view;
    assert_true(eng_producers_find(bench->producers, 7, false, &view));
    assert_int_equal(view.last_sequence, 1);
    eng_producers_commit(bench->producers, 5, NULL, NULL);
    assert_true(eng_producers_find(bench->producers, 7, false, &view));
    assert_int_equal(view.last_sequence, 4);
}

/* ---- transactions ---- */

static void an_open_transaction_holds_back_the_stable_offset(void **state)
{
    struct bench *bench = *state;
    append(bench, data(7, 0, 0, 5));
    append(bench, txn_data(8, 0, 0, 2));                       /* 5, 6 */
    append(bench, txn_data(9, 0, 0, 1));                       /* 7 */
    append(bench, txn_data(8, 0, 2, 1));                       /* 8 */
    assert_int_equal(eng_producers_first_unstable(bench->producers), 5);
    end_txn(bench, 8, 0, false, 3);                            /* 9 */
    assert_int_equal(bench->done_count, 1);
    assert_int_equal(bench->done[0].producer_id, 8);
    assert_int_equal(bench->done[0].first_offset, 5);
    assert_int_equal(bench->done[0].last_offset, 9);
    assert_int_equal(bench->done[0].last_stable_offset, 7);
    assert_true(bench->done[0].aborted);
    assert_int_equal(eng_producers_first_unstable(bench->producers), 5);       /* the marker is not replicated yet */
    eng_producers_advance(bench->producers, 9);
    assert_int_equal(eng_producers_first_unstable(bench->producers), 5);
    eng_producers_advance(bench->producers, 10);
    assert_int_equal(eng_producers_first_unstable(bench->producers), 7);
    end_txn(bench, 9, 0, true, 3);                             /* 10 */
    assert_false(bench->done[1].aborted);
    assert_int_equal(bench->done[1].last_stable_offset, 11);
    eng_producers_advance(bench->producers, 11);
    assert_int_equal(eng_producers_first_unstable(bench->producers), INT64_MAX);
}

static void a_batch_outside_the_open_transaction_is_refused(void **state)
{
    struct bench *bench = *state;
    append(bench, txn_data(8, 0, 0, 2));
    assert_int_equal(check_error(bench, data(8, 0, 2, 1)), OT_ERR_INVALID_TXN_STATE);
    end_txn(bench, 8, 0, true, 0);
    assert_int_equal(check_error(bench, data(8, 0, 2, 1)), OT_OK);
}

static void markers_are_checked_against_both_epochs(void **state)
{
    struct bench *bench = *state;
    append(bench, txn_data(8, 4, 0, 2));
    struct eng_marker marker = { true, true, 5 }, older = { true, true, 4 };
    assert_int_equal(check_as(bench, end_of(8, 3), &marker, ENG_ORIGIN_COORDINATOR, 1).error, OT_ERR_INVALID_PRODUCER_EPOCH);
    assert_int_equal(check_as(bench, end_of(8, 4), &marker, ENG_ORIGIN_COORDINATOR, 1).error, OT_OK);
    assert_int_equal(check_as(bench, end_of(8, 4), &marker, ENG_ORIGIN_COORDINATOR, 2).error, OT_ERR_INVALID_PRODUCER_EPOCH);
    assert_int_equal(check_as(bench, end_of(8, 5), &marker, ENG_ORIGIN_COORDINATOR, 2).error, OT_OK);
    end_txn(bench, 8, 5, true, 5);
    assert_int_equal(check_as(bench, end_of(8, 5), &older, ENG_ORIGIN_COORDINATOR, 1).error, OT_ERR_TRANSACTION_COORDINATOR_FENCED);
    assert_int_equal(check_as(bench, end_of(8, 5), &older, ENG_ORIGIN_COORDINATOR, 2).error, OT_ERR_TRANSACTION_COORDINATOR_FENCED);
    assert_int_equal(check_as(bench, end_of(8, 5), &marker, ENG_ORIGIN_COORDINATOR, 2).error, OT_OK);      /* a lost answer: written again */
    append(bench, txn_data(8, 5, 0, 1));
    assert_int_equal(check_as(bench, end_of(8, 5), &marker, ENG_ORIGIN_COORDINATOR, 2).error, OT_ERR_INVALID_PRODUCER_EPOCH);   /* of the one before */
}

static void a_marker_for_an_unknown_producer_is_written_and_remembered(void **state)
{
    struct bench *bench = *state;
    struct eng_marker marker = { true, false, 2 };
    assert_int_equal(check_as(bench, end_of(8, 4), &marker, ENG_ORIGIN_COORDINATOR, 2).error, OT_OK);
    end_txn(bench, 8, 4, false, 2);
    assert_int_equal(bench->done_count, 0);                    /* no data: nothing to index */
    struct eng_producer_view view;
    assert_true(eng_producers_find(bench->producers, 8, false, &view));
    assert_int_equal(view.epoch, 4);
    assert_int_equal(view.last_sequence, -1);
    assert_int_equal(view.coordinator_epoch, 2);
    assert_int_equal(check_error(bench, txn_data(8, 4, 9, 1)), OT_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_int_equal(check_error(bench, txn_data(8, 4, 0, 1)), OT_OK);
}

static void a_marker_keeps_the_sequence_of_its_own_epoch(void **state)
{
    struct bench *bench = *state;
    append(bench, txn_data(8, 4, 0, 2));
    end_txn(bench, 8, 4, true, 1);
    assert_int_equal(check_error(bench, txn_data(8, 4, 2, 1)), OT_OK);
    assert_int_equal(check_error(bench, txn_data(8, 4, 3, 1)), OT_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_true(check_as(bench, txn_data(8, 4, 0, 2), NULL, ENG_ORIGIN_CLIENT, 0).duplicate);
}

static void the_coordinator_appends_without_sequences(void **state)
{
    struct bench *bench = *state;
    struct eng_batch_info offsets = txn_data(8, 4, -1, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(check_as(bench, offsets, NULL, ENG_ORIGIN_COORDINATOR, 0).error, OT_OK);
        pend(bench, offsets, NULL);
        commit(bench);
    }
    offsets.producer_epoch = 3;
    assert_int_equal(check_as(bench, offsets, NULL, ENG_ORIGIN_COORDINATOR, 0).error, OT_ERR_INVALID_PRODUCER_EPOCH);
}

static void replicas_take_what_the_leader_took(void **state)
{
    struct bench *bench = *state;
    append(bench, data(7, 5, 0, 2));
    assert_int_equal(check_as(bench, data(7, 4, 99, 1), NULL, ENG_ORIGIN_REPLICATION, 0).error, OT_OK);
    pend(bench, data(7, 4, 99, 1), NULL);
    commit(bench);
    struct eng_producer_view view;
    assert_true(eng_producers_find(bench->producers, 7, false, &view));
    assert_int_equal(view.epoch, 4);
}

static void control_batches_that_end_nothing_are_passed_over(void **state)
{
    struct bench *bench = *state;
    struct eng_batch_info leader_change = end_of(-1, -1), emptied = end_of(8, 1);
    pend(bench, leader_change, &(struct eng_marker){ .is_marker = false });
    pend(bench, emptied, NULL);                                /* compaction took its record */
    commit(bench);
    assert_int_equal(eng_producers_list(bench->producers, NULL, 0), 0);
}

static void many_completed_transactions_merge_on_the_safe_side(void **state)
{
    struct bench *bench = *state;
    for (int32_t i = 0; i < 5000; i++) {
        pend(bench, txn_data(8, 0, i, 1), NULL);
        pend(bench, end_of(8, 0), &(struct eng_marker){ true, true, 0 });
        eng_producers_commit(bench->producers, bench->end, NULL, NULL);
    }
    assert_int_equal(eng_producers_first_unstable(bench->producers), 0);
    int64_t last = -1;
    for (int64_t high = 0; high <= bench->end; high++) {
        eng_producers_advance(bench->producers, high);
        int64_t unstable = eng_producers_first_unstable(bench->producers);
        int64_t true_unstable = high == bench->end ? INT64_MAX : high / 2 * 2;
        assert_true(unstable <= true_unstable);
        assert_true(unstable >= last);
        last = unstable;
        if (high <= 4000) assert_int_equal(unstable, true_unstable);
    }
    assert_int_equal(last, INT64_MAX);
}

/* ---- expiry and caps ---- */

static void producers_expire_by_their_last_append_unless_a_transaction_is_open(void **state)
{
    struct bench *bench = *state;
    struct eng_batch_info old = data(6, 0, 0, 1);
    old.max_timestamp = 1000;                                  /* a record of 1970: appended now all the same */
    append(bench, old);
    append(bench, txn_data(7, 0, 0, 1));
    bench->wall_ms += DAY_MS - 1;
    assert_int_equal(eng_producers_expire(bench->producers, bench->wall_ms), 0);
    append(bench, data(8, 0, 0, 1));
    pend(bench, data(6, 0, 1, 1), NULL);
    bench->wall_ms += 1;
    assert_int_equal(eng_producers_expire(bench->producers, bench->wall_ms), 0);       /* 6 has something queued, 7 is open */
    eng_producers_drop_pending(bench->producers);
    assert_int_equal(eng_producers_expire(bench->producers, bench->wall_ms), 1);
    struct eng_producer_view views[3];
    assert_int_equal(eng_producers_list(bench->producers, views, 3), 2);
    assert_int_equal(views[0].producer_id, 7);
    assert_int_equal(views[1].producer_id, 8);
}

static void a_clock_that_goes_back_keeps_nobody_for_ever(void **state)
{
    struct bench *bench = *state;
    bench->wall_ms += 1000LL * DAY_MS;
    append(bench, data(6, 0, 0, 1));
    bench->wall_ms -= 1000LL * DAY_MS;
    assert_int_equal(eng_producers_expire(bench->producers, bench->wall_ms), 0);
    assert_int_equal(eng_producers_expire(bench->producers, bench->wall_ms + DAY_MS), 1);
}

static void at_the_cap_the_longest_idle_producer_goes(void **state)
{
    struct bench *bench = *state;
    eng_producers_limits(bench->producers, 3, DAY_MS);
    append(bench, txn_data(1, 0, 0, 1));                       /* oldest, but its transaction is open */
    append(bench, data(2, 0, 0, 1));
    append(bench, data(3, 0, 0, 1));
    append(bench, data(2, 0, 1, 1));
    append(bench, data(4, 0, 0, 1));
    struct eng_producer_view view;
    assert_false(eng_producers_find(bench->producers, 3, true, &view));
    assert_true(eng_producers_find(bench->producers, 1, true, &view));
    assert_int_equal(eng_producers_forgotten(bench->producers), 1);
    append(bench, txn_data(4, 0, 1, 1));
    append(bench, txn_data(2, 0, 2, 1));
    struct eng_batch_info more = data(5, 0, 0, 1);
    assert_int_equal(eng_producers_pend(bench->producers, &more, 100, 100, NULL, 0), OT_ERR_NO_MEMORY);
    assert_int_equal(check_error(bench, txn_data(4, 0, 2, 1)), OT_OK);
    eng_producers_limits(bench->producers, 2, DAY_MS);         /* all are open: none goes */
    assert_int_equal(eng_producers_list(bench->producers, NULL, 0), 3);
}

/* ---- snapshots ---- */

static void snapshot_into(struct bench *bench, uint8_t **data_out, size_t *bytes_out)
{
    *bytes_out = eng_producers_snapshot_bytes(bench->producers);
    *data_out = malloc(*bytes_out);
    assert_non_null(*data_out);
    struct ot_writer small = ot_writer_over(*data_out, *bytes_out - 1);
    assert_int_equal(eng_producers_snapshot(bench->producers, &small), OT_ERR_TOO_LARGE);
    struct ot_writer writer = ot_writer_over(*data_out, *bytes_out);
    assert_int_equal(eng_producers_snapshot(bench->producers, &writer), OT_OK);
    assert_ptr_equal(writer.at, writer.end);
}

static void five_batches_survive_a_snapshot(void **state)
{
    struct bench *bench = *state;
    for (int32_t i = 0; i < 7; i++) append(bench, data(7, 0, i * 2, 2));
    append(bench, txn_data(8, 3, 5, 1));
    end_txn(bench, 9, 2, true, 6);
    uint8_t *bytes;
    size_t count;
    snapshot_into(bench, &bytes, &count);
    eng_producers_reset(bench->producers);
    assert_int_equal(eng_producers_load(bench->producers, bytes, count, bench->wall_ms), OT_OK);
    for (int32_t i = 2; i < 7; i++) {
        struct eng_producer_check check = check_as(bench, data(7, 0, i * 2, 2), NULL, ENG_ORIGIN_CLIENT, 0);
        assert_true(check.duplicate);
        assert_int_equal(check.duplicate_base_offset, i * 2);
    }
    assert_int_equal(check_error(bench, data(7, 0, 2, 2)), OT_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_int_equal(check_error(bench, data(7, 0, 14, 2)), OT_OK);
    assert_int_equal(eng_producers_first_unstable(bench->producers), 14);
    struct eng_producer_view view;
    assert_true(eng_producers_find(bench->producers, 9, false, &view));
    assert_int_equal(view.coordinator_epoch, 6);
    assert_int_equal(view.last_sequence, -1);
    free(bytes);
}

static void kafkas_snapshot_without_our_section_loads_with_one_batch_each(void **state)
{
    struct bench *bench = *state;
    for (int32_t i = 0; i < 7; i++) append(bench, data(7, 0, i * 2, 2));
    uint8_t *bytes;
    size_t count;
    snapshot_into(bench, &bytes, &count);
    count = 10 + 46;
    ot_store_u32(bytes + 2, ot_crc32c(0, bytes + 6, count - 6));
    assert_int_equal(eng_producers_load(bench->producers, bytes, count, 1750000000000), OT_OK);
    assert_true(check_as(bench, data(7, 0, 12, 2), NULL, ENG_ORIGIN_CLIENT, 0).duplicate);
    assert_int_equal(check_error(bench, data(7, 0, 10, 2)), OT_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_int_equal(eng_producers_load(bench->producers, bytes, count, 1750000000000 + DAY_MS), OT_OK);       /* expired meanwhile */
    assert_int_equal(eng_producers_list(bench->producers, NULL, 0), 0);
    free(bytes);
}

static void no_prefix_and_no_flipped_bit_of_a_snapshot_loads(void **state)
{
    struct bench *bench = *state;
    for (int32_t i = 0; i < 3; i++) append(bench, txn_data(7, 0, i * 2, 2));
    append(bench, txn_data(5, 0, 0, 1));
    uint8_t *bytes;
    size_t count;
    snapshot_into(bench, &bytes, &count);
    for (size_t i = 0; i < count; i++) {
        uint8_t *cut = malloc(i + 1);
        assert_non_null(cut);
        memcpy(cut, bytes, i);
        assert_int_equal(eng_producers_load(bench->producers, cut, i, 0), OT_ERR_CORRUPT);
        free(cut);
    }
    for (size_t bit = 0; bit < count * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        assert_int_equal(eng_producers_load(bench->producers, bytes, count, 0), OT_ERR_CORRUPT);
        assert_int_equal(eng_producers_list(bench->producers, NULL, 0), 0);
        bytes[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
    assert_int_equal(eng_producers_load(bench->producers, bytes, count, 0), OT_OK);
    assert_int_equal(eng_producers_list(bench->producers, NULL, 0), 2);
    assert_int_equal(eng_producers_first_unstable(bench->producers), 0);
    free(bytes);
}

static void a_snapshot_above_the_cap_keeps_the_last_used(void **state)
{
    struct bench *bench = *state;
    append(bench, txn_data(50, 0, 0, 1));
    for (int64_t id = 0; id < 20; id++) append(bench, data(id, 0, 0, 1));
    uint8_t *bytes;
    size_t count;
    snapshot_into(bench, &bytes, &count);
    eng_producers_limits(bench->producers, 4, DAY_MS);
    assert_int_equal(eng_producers_load(bench->producers, bytes, count, bench->wall_ms), OT_OK);
    struct eng_producer_view views[4];
    assert_int_equal(eng_producers_list(bench->producers, views, 4), 4);
    assert_int_equal(views[0].producer_id, 50);
    assert_int_equal(views[3].producer_id, 19);
    free(bytes);
}

static void thousands_of_producers_are_found(void **state)
{
    struct bench *bench = *state;
    eng_producers_limits(bench->producers, 10000, DAY_MS);
    for (int64_t id = 0; id < 10000; id++) append(bench, data(id << 20, 0, (int32_t)id, 1));
    for (int64_t id = 0; id < 10000; id++) {
        struct eng_producer_view view;
        assert_true(eng_producers_find(bench->producers, id << 20, false, &view));
        assert_int_equal(view.last_sequence, id);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(an_unknown_producer_may_begin_at_any_sequence), T(a_gap_and_a_step_back_are_out_of_order),
        T(a_higher_epoch_begins_at_zero_and_a_lower_one_is_fenced), T(the_sequence_wraps_behind_its_largest_value),
        T(five_batches_are_remembered_and_the_sixth_back_is_not), T(batches_without_producer_leave_no_trace),
        T(a_duplicate_of_a_queued_batch_is_found), T(dropping_what_is_queued_restores_what_is_committed), T(commit_stops_at_the_log_end),
        T(an_open_transaction_holds_back_the_stable_offset), T(a_batch_outside_the_open_transaction_is_refused),
        T(markers_are_checked_against_both_epochs), T(a_marker_for_an_unknown_producer_is_written_and_remembered),
        T(a_marker_keeps_the_sequence_of_its_own_epoch), T(the_coordinator_appends_without_sequences), T(replicas_take_what_the_leader_took),
        T(control_batches_that_end_nothing_are_passed_over), T(many_completed_transactions_merge_on_the_safe_side),
        T(producers_expire_by_their_last_append_unless_a_transaction_is_open), T(a_clock_that_goes_back_keeps_nobody_for_ever),
        T(at_the_cap_the_longest_idle_producer_goes), T(five_batches_survive_a_snapshot),
        T(kafkas_snapshot_without_our_section_loads_with_one_batch_each), T(no_prefix_and_no_flipped_bit_of_a_snapshot_loads),
        T(a_snapshot_above_the_cap_keeps_the_last_used), T(thousands_of_producers_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
