/* Aborted transactions across crashes: whatever happened to the transaction index, a reader of committed records must still be told. */
#include "testing.h"
#include "log_fixture.h"

#define ABORTED_MAX 200

static int setup(void **state)
{
    struct fx *fx = malloc(sizeof *fx);
    fx_init(fx);
    fx->config.segment_bytes = 1500;
    fx_open(fx, 0, false);
    *state = fx;
    return 0;
}

static int teardown(void **state)
{
    fx_free(*state);
    free(*state);
    return 0;
}

static void completed(void *arg, const struct eng_completed_txn *txn)
{
    struct fx *fx = arg;
    assert_int_equal(eng_log_add_aborted(fx->log, txn), OT_OK);
}

static void roll(struct fx *fx)
{
    struct eng_producers *producers = eng_log_producers(fx->log);
    size_t bytes = eng_producers_snapshot_bytes(producers);
    uint8_t *data = malloc(bytes);
    struct ot_writer writer = ot_writer_over(data, bytes);
    assert_int_equal(eng_producers_snapshot(producers, &writer), OT_OK);
    assert_int_equal(eng_log_roll(fx->log, &(struct ot_blob){ data, (uint32_t)bytes, false }, FX_NOW), OT_OK);
    free(data);
}

/* As the lane does it: queue, roll when full, write, commit. */
static void append_as_leader(struct fx *fx, const uint8_t *data, size_t data_bytes)
{
    struct eng_batch_info info;
    struct eng_marker marker;
    uint32_t written = 0;
    assert_int_equal(eng_batch_parse(data, data_bytes, &info), OT_OK);
    eng_batch_marker(data, &info, &marker);
    struct eng_append_batch batch = { .data = data, .bytes = (uint32_t)data_bytes, .base_offset = info.base_offset, .last_offset = eng_batch_last_offset(&info),
        .max_timestamp = info.max_timestamp, .max_timestamp_offset = eng_batch_last_offset(&info) };
    if (eng_log_fits(fx->log, &batch, 1, FX_NOW) == 0) roll(fx);
    assert_int_equal(eng_producers_pend(eng_log_producers(fx->log), &info, batch.base_offset, batch.last_offset, &marker, FX_NOW), OT_OK);
    assert_int_equal(eng_log_append(fx->log, &batch, 1, FX_NOW, &written), OT_OK);
    eng_producers_commit(eng_log_producers(fx->log), eng_log_end_offset(fx->log), completed, fx);
}

static void send(struct fx *fx, int64_t producer_id, int32_t sequence)
{
    struct eng_sink sink;
    struct eng_batch_builder builder;
    struct eng_batch_fields fields = eng_batch_fields_default();
    struct ot_blob value = { (const uint8_t *)"0123456789012345678901234567890123456789", 40, false };
    fields.base_offset = eng_log_end_offset(fx->log);
    fields.producer_id = producer_id;
    fields.producer_epoch = 0;
    fields.base_sequence = sequence;
    fields.leader_epoch = 0;
    fields.transactional = true;
    eng_sink_malloc(&sink, 1 << 16);
    assert_int_equal(eng_batch_build_begin(&builder, &fields, NULL, &sink), OT_OK);
    for (int i = 0; i < 3; i++) assert_int_equal(eng_batch_build_next(&builder, FX_NOW, value, value, NULL, 0), OT_OK);
    assert_int_equal(eng_batch_build_finish(&builder), OT_OK);
    append_as_leader(fx, sink.data, sink.bytes);
    eng_sink_free(&sink);
}

static void end(struct fx *fx, int64_t producer_id, bool commit)
{
    uint8_t data[ENG_MARKER_BYTES];
    size_t bytes = eng_batch_build_marker(data, producer_id, 0, 0, 1, commit, FX_NOW);
    eng_batch_stamp(data, eng_log_end_offset(fx->log), 0);
    append_as_leader(fx, data, bytes);
}

static void fill(struct fx *fx)
{
    for (int32_t i = 0; i < 30; i++) {
        send(fx, 1, i * 6);
        send(fx, 2, i * 3);
        end(fx, 1, i % 3 == 0);
        send(fx, 1, i * 6 + 3);
        end(fx, 2, false);
        end(fx, 1, i % 2 == 0);
    }
    assert_true(eng_log_segments(fx->log, NULL, 0) > 5);
}

struct aborted { struct eng_aborted txns[ABORTED_MAX]; uint32_t count; };

static struct aborted all_aborted(struct fx *fx)
{
    struct aborted aborted;
    memset(&aborted, 0, sizeof aborted);
    assert_int_equal(eng_log_aborted(fx->log, 0, INT64_MAX, aborted.txns, ABORTED_MAX, &aborted.count), OT_OK);
    assert_true(aborted.count <= ABORTED_MAX);
    return aborted;
}

static void aborted_equal(const struct aborted *ours, const struct aborted *theirs)
{
    assert_int_equal(ours->count, theirs->count);
    assert_memory_equal(ours->txns, theirs->txns, sizeof ours->txns);
}

static void reopened_equals(struct fx *fx, int64_t recovery_point, const struct aborted *before)
{
    fx_open(fx, recovery_point, false);
    struct aborted after = all_aborted(fx);
    aborted_equal(&after, before);
    assert_int_equal(fx_faults(fx), 0);
    struct eng_producer_view view;
    assert_true(eng_producers_find(eng_log_producers(fx->log), 1, false, &view));
    assert_int_equal(view.last_sequence, 29 * 6 + 5);
}

static void aborted_transactions_survive_a_crash(void **state)
{
    struct fx *fx = *state;
    fill(fx);
    struct aborted before = all_aborted(fx);
    int64_t log_end = eng_log_end_offset(fx->log);
    assert_int_equal(before.count, 20 + 30 + 15);
    fx_crash(fx);
    reopened_equals(fx, 0, &before);
    fx_crash(fx);
    reopened_equals(fx, log_end, &before);
}

/* Which segment has the most entries, among those below the last. */
static int64_t busy_segment(struct fx *fx)
{
    struct eng_segment_info infos[64];
    uint32_t count = eng_log_segments(fx->log, infos, 64);
    for (uint32_t i = 1; i + 1 < count; i++) {
        if (fx_file_bytes(fx, infos[i].base_offset, ".txnindex") >= 2 * 34) return infos[i].base_offset;
    }
    fail_msg("no segment with two entries");
    return -1;
}

static void entries_lost_below_a_snapshot_are_made_again(void **state)
{
    struct fx *fx = *state;
    fill(fx);
    struct aborted before = all_aborted(fx);
    int64_t base = busy_segment(fx);
    fx_crash(fx);
    fx_cut(fx, base, ".txnindex", 34);                         /* the disk kept later snapshots, but not all of this */
    reopened_equals(fx, 0, &before);
    fx_crash(fx);
    fx_cut(fx, base, ".txnindex", 0);
    reopened_equals(fx, base, &before);
}

static void a_damaged_index_below_the_recovery_point_is_made_again(void **state)
{
    struct fx *fx = *state;
    static const char *const damage[] = { "\0\1", "\0\0\xff", "\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff" };
    static const size_t sizes[] = { 2, 3, 26 };
    fill(fx);
    struct aborted before = all_aborted(fx);
    int64_t base = busy_segment(fx), log_end = eng_log_end_offset(fx->log);
    for (int i = 0; i < 3; i++) {
        fx_crash(fx);
        fx_damage(fx, base, ".txnindex", 34 * (i % 2), damage[i], sizes[i]);
        reopened_equals(fx, log_end, &before);
    }
    fx_crash(fx);
    fx_cut(fx, base, ".txnindex", 34 + 7);
    reopened_equals(fx, log_end, &before);
}

static void a_cut_log_takes_its_markers_along(void **state)
{
    struct fx *fx = *state;
    fill(fx);
    int64_t middle = eng_log_end_offset(fx->log) / 2;
    struct aborted before = all_aborted(fx), below = { .count = 0 };
    struct eng_aborted some[ABORTED_MAX];
    memset(&below, 0, sizeof below);
    assert_int_equal(eng_log_truncate(fx->log, middle, FX_NOW), OT_OK);
    below = all_aborted(fx);
    assert_true(below.count > 0 && below.count < before.count);
    for (uint32_t i = 0; i < below.count; i++) assert_true(below.txns[i].first_offset < middle);
    fx_crash(fx);
    fx_open(fx, 0, false);
    struct aborted after = all_aborted(fx);
    aborted_equal(&after, &below);
    uint32_t count;
    assert_int_equal(eng_log_aborted(fx->log, middle / 2, middle / 2 + 1, some, ABORTED_MAX, &count), OT_OK);
    assert_true(count < below.count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(aborted_transactions_survive_a_crash), T(entries_lost_below_a_snapshot_are_made_again), T(a_damaged_index_below_the_recovery_point_is_made_again),
        T(a_cut_log_takes_its_markers_along),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
