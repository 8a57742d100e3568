/* Compaction as a reader sees it: the last value of each key, every offset with its meaning, tombstones and markers for as long as they must, nothing else touched. */
#include "testing.h"
#include "compact_fixture.h"
#include <zlib.h>

static int setup(void **state)
{
    struct cx *cx = malloc(sizeof *cx);
    cx_init(cx);
    *state = cx;
    return 0;
}

static int teardown(void **state)
{
    cx_free(*state);
    free(*state);
    return 0;
}

static void the_last_value_of_each_key_stays_at_its_offset(void **state)
{
    struct cx *cx = *state;
    (void)cx_put(cx, "a=1 b=1 c=1");
    (void)cx_put(cx, "a=2 b=2");
    (void)cx_put(cx, "d=1 a=3 d=2");
    cx_seal(cx);
    cx_compact(cx);
    assert_string_equal(cx_all(cx), "2:c=1 4:b=2 6:a=3 7:d=2 8:active=1");
    assert_int_equal(cx->done.records_read, 8);
    assert_int_equal(cx->done.records_kept, 4);
    assert_int_equal(cx->done.first_dirty, 8);
    assert_int_equal(fx_faults(&cx->fx), 0);
    struct eng_cleanable cleanable;
    assert_int_equal(eng_log_cleanable(cx->fx.log, &cx->how.rules, INT64_MAX, FX_NOW, &cleanable), OT_OK);
    assert_int_equal(cleanable.cleanable_bytes, 0);
    assert_true(cleanable.clean_bytes > 0);
    cx_compact(cx);                        /* nothing to do */
    assert_int_equal(cx->done.passes, 0);
}

static void records_keep_timestamps_headers_and_codec(void **state)
{
    struct cx *cx = *state;
    for (enum eng_codec codec = ENG_CODEC_NONE; codec < ENG_CODEC_COUNT; codec++) {
        cx->codec = codec;
        (void)cx_put(cx, "x=old keep=1 x=old y=old");
        (void)cx_put(cx, "x=new y=new z=only");
        cx_seal(cx);
    }
    struct cx_log before = *cx_read(cx);
    cx_compact(cx);
    struct cx_log *after = cx_read(cx);
    assert_true(after->count < before.count);
    for (uint32_t i = 0; i < after->count; i++) {
        const struct cx_record *record = &after->list[i];
        const struct cx_record *was = &before.list[record->offset];
        assert_int_equal(record->timestamp, was->timestamp);
        assert_string_equal(record->key, was->key);
        assert_string_equal(record->value, was->value);
    }
    assert_int_equal(fx_faults(&cx->fx), 0);
}

static void a_partly_kept_batch_keeps_its_codec_and_its_range(void **state)
{
    struct cx *cx = *state;
    for (enum eng_codec codec = ENG_CODEC_NONE; codec < ENG_CODEC_COUNT; codec++) {
        cx->codec = codec;
        int64_t base = cx_put(cx, "p=1 q=1 r=1 s=1");
        (void)cx_put(cx, "p=2 s=2");
        cx_seal(cx);
        cx_compact(cx);
        struct eng_read how = { .offset = base, .limit_offset = base + 4, .max_bytes = 1 << 20, .min_one = true, .may_block = true };
        struct eng_read_result result;
        uint8_t header[ENG_BATCH_HEADER_BYTES];
        struct eng_batch_info info;
        assert_int_equal(eng_log_read(cx->fx.log, &how, &result), OT_OK);
        assert_int_equal(pread(result.spans[0].fd, header, sizeof header, (off_t)result.spans[0].pos), (ssize_t)sizeof header);
        result.pin->release(result.pin);
        assert_int_equal(eng_batch_parse(header, sizeof header, &info), OT_OK);
        assert_int_equal(info.base_offset, base);
        assert_int_equal(eng_batch_last_offset(&info), base + 3);
        assert_int_equal(info.codec, codec);
        assert_int_equal(info.record_count, 2);
    }
}

static void a_read_at_a_hole_gives_the_next_batch(void **state)
{
    struct cx *cx = *state;
    for (int i = 0; i < 40; i++) (void)cx_put(cx, i % 10 == 9 ? "keep=1 x=1" : "x=1 y=1");
    (void)cx_put(cx, "last=1");
    cx_seal(cx);
    cx_compact(cx);
    struct cx_log log = *cx_read(cx);
    for (int64_t at = 0; at < 80; at++) {
        struct eng_read how = { .offset = at, .limit_offset = eng_log_end_offset(cx->fx.log), .max_bytes = 1, .min_one = true, .may_block = true };
        struct eng_read_result result;
        assert_int_equal(eng_log_read(cx->fx.log, &how, &result), OT_OK);
        assert_true(result.bytes > 0);
        result.pin->release(result.pin);
    }
    assert_true(log.count < 10);
}

static void tombstones_stay_until_their_horizon_and_then_go(void **state)
{
    struct cx *cx = *state;
    (void)cx_put(cx, "a=1 b=1");
    (void)cx_put(cx, "a b=2");
    cx_seal(cx);
    cx_compact(cx);
    assert_string_equal(cx_all(cx), "2:a 3:b=2 4:active=1");
    int64_t timestamp = cx_read(cx)->list[0].timestamp;
    assert_int_equal(timestamp, FX_NOW + 2);               /* though the base timestamp is a horizon now */
    cx->how.wall_ms = FX_NOW + 999;
    (void)cx_put(cx, "c=1");
    cx_seal(cx);
    cx_compact(cx);
    assert_string_equal(cx_all(cx), "2:a 3:b=2 4:active=1 5:c=1 6:active=1");
    cx->how.wall_ms = FX_NOW + 1000;
    (void)cx_put(cx, "c=2");
    cx_seal(cx);
    cx_compact(cx);
    assert_string_equal(cx_all(cx), "3:b=2 6:active=1 7:c=2 8:active=1");
    assert_int_equal(fx_faults(&cx->fx), 0);
}

static void a_tombstone_takes_away_what_lies_before_it_in_clean_segments(void **state)
{
    struct cx *cx = *state;
    (void)cx_put(cx, "a=1 b=1");
    cx_seal(cx);
    cx_compact(cx);
    (void)cx_put(cx, "a");
    cx_seal(cx);
    cx_compact(cx);
    assert_string_equal(cx_all(cx), "1:b=1 2:active=1 3:a 4:active=1");
}

static void records_without_a_key_go(void **state)
{
    struct cx *cx = *state;
    (void)cx_put(cx, "=nokey a=1 =nokey");
    cx_seal(cx);
    cx_compact(cx);
    assert_string_equal(cx_all(cx), "1:a=1 3:active=1");
}

static void aborted_records_go_and_do_not_supersede(void **state)
{
    struct cx *cx = *state;
    (void)cx_put(cx, "a=1 b=1");
    (void)cx_send(cx, "a=aborted", 3, true);
    (void)cx_end(cx, 3, false);
    (void)cx_send(cx, "b=2", 3, true);
    (void)cx_end(cx, 3, true);
    cx_seal(cx);
    cx_compact(cx);
    assert_string_equal(cx_all(cx), "0:a=1 4:b=2 6:active=1");
    assert_int_equal(cx_read(cx)->markers, 2);             /* the abort's batch was still there in this run */
    struct eng_aborted aborted[4];
    uint32_t count;
    assert_int_equal(eng_log_aborted(cx->fx.log, 0, 6, aborted, 4, &count), OT_OK);
    assert_int_equal(count, 1);
    assert_int_equal(fx_faults(&cx->fx), 0);
}

static void markers_go_when_their_transaction_and_the_horizon_are_past(void **state)
{
    struct cx *cx = *state;
    (void)cx_send(cx, "a=aborted", 3, true);
    (void)cx_end(cx, 3, false);
    (void)cx_send(cx, "b=1", 3, true);
    (void)cx_end(cx, 3, true);
    (void)cx_send(cx, "c=1", 3, true);     /* the batch that holds the producer's sequence */
    (void)cx_end(cx, 3, true);
    uint32_t markers[4];
    for (int round = 0; round < 4; round++) {
        (void)cx_put(cx, "b=2 c=2");
        cx_seal(cx);
        cx->how.wall_ms = FX_NOW + round * 2000;
        cx_compact(cx);
        markers[round] = cx_read(cx)->markers;
    }
    assert_int_equal(markers[0], 3);       /* data of the abort was seen in this run; b's commit: likewise its batch */
    assert_int_equal(markers[1], 3);       /* horizons are set */
    assert_int_equal(markers[2], 1);       /* past them; c's batch still holds the sequence */
    assert_int_equal(markers[3], 1);
    assert_int_equal(cx_read(cx)->empty_batches, 1);
    struct eng_aborted aborted[4];
    uint32_t count;
    assert_int_equal(eng_log_aborted(cx->fx.log, 0, 6, aborted, 4, &count), OT_OK);
    assert_int_equal(count, 0);
    assert_int_equal(fx_faults(&cx->fx), 0);
}

static void same_producers(struct cx *cx, const struct eng_producer_view *want, uint32_t count, bool without_snapshots)
{
    struct eng_producer_view have;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(eng_producers_find(eng_log_producers(cx->fx.log), want[i].producer_id, false, &have));
        assert_int_equal(have.epoch, want[i].epoch);
        assert_int_equal(have.last_sequence, want[i].last_sequence);
        assert_int_equal(have.current_txn_first_offset, want[i].current_txn_first_offset);
        if (!without_snapshots) assert_int_equal(have.coordinator_epoch, want[i].coordinator_epoch);
    }
}

static void producer_state_is_the_same_after_a_restart_with_and_without_snapshots(void **state)
{
    struct cx *cx = *state;
    struct eng_producer_view want[8];
    for (int i = 0; i < 30; i++) {
        (void)cx_send(cx, "a=1 b=1", 1 + i % 3, false);
        (void)cx_send(cx, "a=1 c=1", 5, true);
        (void)cx_end(cx, 5, i % 2 == 0);
    }
    cx_seal(cx);
    cx_compact(cx);
    cx_compact(cx);
    uint32_t count = eng_producers_list(eng_log_producers(cx->fx.log), want, 8);
    assert_int_equal(count, 4);
    for (int without = 0; without < 2; without++) {
        int64_t end = eng_log_end_offset(cx->fx.log);
        fx_crash(&cx->fx);
        if (without) {
            char command[500];
            snprintf(command, sizeof command, "rm -f %s/*.snapshot", cx->fx.path);
            assert_int_equal(system(command), 0);
        }
        fx_open(&cx->fx, end, false);
        same_producers(cx, want, count, without == 1);
    }
}

static void more_keys_than_the_map_holds_take_more_passes(void **state)
{
    struct cx *cx = *state;
    char text[64];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 100; i++) {
            snprintf(text, sizeof text, "k%d=%d dup=%d", i, round, i);
            (void)cx_put(cx, text);
        }
    cx_seal(cx);
    cx->how.map_bytes = 30 * sizeof(int64_t) * 2;          /* 27 keys */
    cx_compact(cx);
    assert_true(cx->done.passes > 3);
    struct cx_log *log = cx_read(cx);
    assert_int_equal(log->count, 102);
    for (uint32_t i = 0; i < 100; i++) assert_string_equal(log->list[i].value, log->list[i].key[0] == 'd' ? "99" : "1");
    assert_int_equal(fx_faults(&cx->fx), 0);
}

static void small_segments_become_one_of_at_most_segment_bytes(void **state)
{
    struct cx *cx = *state;
    for (int i = 0; i < 400; i++) (void)cx_put(cx, i % 4 == 0 ? "solid=abcdefghijklmnopqrstuvwxyz x=1" : "x=1 y=2 z=3");
    cx_seal(cx);
    uint32_t before = eng_log_segments(cx->fx.log, NULL, 0);
    cx_compact(cx);
    struct eng_segment_info info[64];
    uint32_t count = eng_log_segments(cx->fx.log, info, 64);
    assert_true(before > 10 && count == 2);
    assert_true(info[0].log_bytes <= 2000);
    assert_int_equal(info[0].base_offset, 0);
    assert_int_equal(info[0].end_offset, info[1].base_offset);
    assert_int_equal(eng_log_size_bytes(cx->fx.log), info[0].log_bytes + info[1].log_bytes);
    assert_int_equal(fx_file_bytes(&cx->fx, 0, ".log"), (int64_t)info[0].log_bytes);
}

static void segments_that_lose_nothing_are_left_alone(void **state)
{
    struct cx *cx = *state;
    char text[64];
    for (int i = 0; i < 200; i++) {
        snprintf(text, sizeof text, "k%d=abcdefghijklmnopqrstuvwxyz", i);
        (void)cx_put(cx, text);
    }
    cx_seal(cx);
    struct stat before, after;
    char path[500];
    fx_file(&cx->fx, 0, ".log", path, sizeof path);
    assert_int_equal(stat(path, &before), 0);
    uint64_t writes = cx->fx.fault.counts[OT_IO_CALL_PWRITEV];
    cx_compact(cx);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(cx->done.written_bytes, 0);
    assert_true(cx->fx.fault.counts[OT_IO_CALL_PWRITEV] - writes <= 2);    /* the recovery point and the state of the producers */
    assert_int_equal(cx_read(cx)->count, 201);
}

static void a_change_late_in_a_segment_copies_what_lies_before_it(void **state)
{
    struct cx *cx = *state;
    char text[64];
    cx->fx.config.segment_bytes = 200000;
    eng_log_configure(cx->fx.log, &cx->fx.config);
    for (int i = 0; i < 1000; i++) {
        snprintf(text, sizeof text, "k%d=abcdefghijklmnopqrstuvwxyz", i);
        (void)cx_put(cx, text);
    }
    (void)cx_put(cx, "k999=new");
    cx_seal(cx);
    cx_compact(cx);
    struct cx_log *log = cx_read(cx);
    assert_int_equal(log->count, 1001);
    assert_string_equal(log->list[999].value, "new");
    assert_int_equal(log->list[999].offset, 1000);
    assert_true(fx_file_bytes(&cx->fx, 0, ".index") > 100 * 8);
    assert_int_equal(fx_faults(&cx->fx), 0);
}

static void nothing_at_or_above_the_limit_is_touched(void **state)
{
    struct cx *cx = *state;
    (void)cx_put(cx, "a=1");
    cx_seal(cx);                           /* segments [0,1) [1,...) */
    (void)cx_put(cx, "a=2");
    cx_seal(cx);
    cx->how.limit_offset = 2;
    cx_compact(cx);
    assert_string_equal(cx_all(cx), "0:a=1 1:active=1 2:a=2 3:active=1");
    assert_int_equal(cx->done.first_dirty, 1);
    cx->how.limit_offset = INT64_MAX;
    cx_compact(cx);
    assert_string_equal(cx_all(cx), "1:active=1 2:a=2 3:active=1");       /* the last one is in the active segment */
}

static void young_records_wait_and_old_ones_are_overdue(void **state)
{
    struct cx *cx = *state;
    struct eng_cleanable cleanable;
    (void)cx_put(cx, "a=1 a=2");
    cx_seal(cx);
    cx->how.rules.min_lag_ms = 5000;
    cx->how.wall_ms = FX_NOW + 5000;
    cx_compact(cx);
    assert_int_equal(cx->done.passes, 0);
    cx->how.wall_ms = FX_NOW + 5001;
    cx->how.rules.max_lag_ms = 5000;
    assert_int_equal(eng_log_cleanable(cx->fx.log, &cx->how.rules, INT64_MAX, cx->how.wall_ms, &cleanable), OT_OK);
    assert_int_equal(cleanable.overdue_ms, 0);             /* by the first batch's largest timestamp */
    assert_int_equal(eng_log_cleanable(cx->fx.log, &cx->how.rules, INT64_MAX, cx->how.wall_ms + 7, &cleanable), OT_OK);
    assert_int_equal(cleanable.overdue_ms, 7);
    cx_compact(cx);
    assert_int_equal(cx->done.passes, 1);
}

static void damage_makes_it_uncleanable_and_changes_nothing(void **state)
{
    struct cx *cx = *state;
    (void)cx_put(cx, "a=1 b=1");
    int64_t bad = cx_put(cx, "a=2 b=2");
    cx_seal(cx);
    int64_t bytes = fx_file_bytes(&cx->fx, 0, ".log");
    fx_damage(&cx->fx, 0, ".log", (off_t)bytes - 3, "x", 1);
    assert_int_equal(cx_try_compact(cx), OT_ERR_CORRUPT);
    assert_int_equal(cx->done.damaged_offset, bad);
    assert_int_equal(fx_file_bytes(&cx->fx, 0, ".log"), bytes);
    assert_int_equal(fx_file_bytes(&cx->fx, 0, ".log.cleaned"), -1);
    assert_false(eng_log_read_only(cx->fx.log));
    assert_int_equal(eng_log_first_dirty(cx->fx.log), 0);
}

static void readers_in_flight_keep_the_old_files(void **state)
{
    struct cx *cx = *state;
    (void)cx_put(cx, "a=1 b=1");
    (void)cx_put(cx, "a=2 b=2");
    cx_seal(cx);
    struct eng_read how = { .offset = 0, .limit_offset = 4, .max_bytes = 1 << 20, .min_one = true, .may_block = true };
    struct eng_read_result result;
    assert_int_equal(eng_log_read(cx->fx.log, &how, &result), OT_OK);
    uint8_t before[1000], after[1000];
    assert_true(result.bytes < sizeof before);
    assert_int_equal(pread(result.spans[0].fd, before, result.bytes, (off_t)result.spans[0].pos), (ssize_t)result.bytes);
    cx_compact(cx);
    assert_int_equal(cx->done.segments_before, 1);
    assert_int_equal(pread(result.spans[0].fd, after, result.bytes, (off_t)result.spans[0].pos), (ssize_t)result.bytes);
    assert_memory_equal(before, after, result.bytes);
    result.pin->release(result.pin);
    assert_string_equal(cx_all(cx), "2:a=2 3:b=2 4:active=1");
    assert_int_equal(cx->fx.fault.open_maps, 0);
}

static void lookups_by_time_find_records_that_are_there(void **state)
{
    struct cx *cx = *state;
    struct eng_time_offset found;
    for (int append_time = 0; append_time < 2; append_time++) {
        cx->append_time = append_time != 0;
        int64_t base = cx_send(cx, "a=1 b=1 c=1", 2, false);
        (void)cx_put(cx, "a=2 c=2");
        cx->fx.next_timestamp += 1000;
        int64_t late = cx_send(cx, "d=1", 2, false);
        cx->fx.next_timestamp -= 1000;
        (void)cx_put(cx, "d=2");
        cx_seal(cx);
        cx_compact(cx);
        struct cx_log log = *cx_read(cx);
        for (int64_t at = FX_NOW; at < FX_NOW + 1050; at += 3) {
            int64_t want = -1;
            for (uint32_t i = 0; i < log.count && want < 0; i++)
                if (log.list[i].timestamp >= at) want = log.list[i].offset;
            assert_int_equal(eng_log_for_time(cx->fx.log, at, INT64_MAX, &found), OT_OK);
            assert_int_equal(found.offset, want);
        }
        assert_int_equal(eng_log_max_timestamp(cx->fx.log, &found), OT_OK);
        assert_true(found.offset > late);  /* d=1 had the largest, and only its batch's header is left */
        assert_true(base < found.offset);
    }
}

/* ---- what happens beside a run ---- */

static bool truncate_now(void *arg, uint64_t bytes)
{
    struct cx *cx = arg;
    (void)bytes;
    if (eng_log_end_offset(cx->fx.log) > 2) assert_int_equal(eng_log_truncate(cx->fx.log, 2, FX_NOW), OT_OK);
    return true;
}

static void fill(struct cx *cx)
{
    char text[600], value[500];
    memset(value, 'v', sizeof value);
    for (int i = 0; i < 800; i++) {
        snprintf(text, sizeof text, "k%d=%.40s", i % 200, value);
        (void)cx_put(cx, text);
        for (int more = 0; more < 4; more++) {
            snprintf(text, sizeof text, "k%d=%.40s k%d=%.40s k%d=%.40s k%d=%.40s", i % 200, value, i % 100, value, i % 50, value, i % 20, value);
            (void)cx_put(cx, text);
        }
    }
    cx_seal(cx);
}

static void a_truncation_under_a_run_cancels_it(void **state)
{
    struct cx *cx = *state;
    cx->fx.config.segment_bytes = 1 << 20;
    eng_log_configure(cx->fx.log, &cx->fx.config);
    fill(cx);
    cx->how.pace = truncate_now;
    cx->how.arg = cx;
    assert_int_equal(cx_try_compact(cx), OT_ERR_CANCELLED);
    assert_int_equal(eng_log_end_offset(cx->fx.log), 1);
    assert_int_equal(eng_log_first_dirty(cx->fx.log), 0);
    assert_int_equal(cx_read(cx)->count, 1);
    assert_int_equal(fx_faults(&cx->fx), 0);
}

static bool stop_now(void *arg, uint64_t bytes)
{
    (void)arg, (void)bytes;
    return false;
}

static void a_run_that_is_told_to_stop_leaves_nothing_behind(void **state)
{
    struct cx *cx = *state;
    fill(cx);
    cx->how.pace = stop_now;
    assert_int_equal(cx_try_compact(cx), OT_ERR_CANCELLED);
    char command[600];
    snprintf(command, sizeof command, "! ls %s | grep -E 'cleaned|swap'", cx->fx.path);
    assert_int_equal(system(command), 0);
}

static void the_point_reached_is_clamped_at_open_and_by_truncation(void **state)
{
    struct cx *cx = *state;
    (void)cx_put(cx, "a=1 b=1");
    cx_seal(cx);
    (void)cx_put(cx, "a=2 b=2");
    cx_seal(cx);
    cx_compact(cx);
    assert_int_equal(eng_log_first_dirty(cx->fx.log), 5);
    assert_int_equal(eng_log_truncate(cx->fx.log, 3, FX_NOW), OT_OK);
    assert_int_equal(eng_log_first_dirty(cx->fx.log), 3);
}

static void odd_offset_deltas_supersede_nothing_later(void **state)
{
    struct cx *cx = *state;
    struct eng_sink sink;
    struct eng_batch_builder builder;
    struct eng_batch_fields fields = eng_batch_fields_default();
    struct ot_blob a = { (const uint8_t *)"a", 1, false }, b = { (const uint8_t *)"b", 1, false }, one = { (const uint8_t *)"1", 1, false };
    fields.leader_epoch = 0;
    fields.last_offset_delta = 1;
    eng_sink_malloc(&sink, 1000);
    assert_int_equal(eng_batch_build_begin(&builder, &fields, NULL, &sink), OT_OK);
    assert_int_equal(eng_batch_build_record(&builder, 0, FX_NOW, a, one, NULL, 0), OT_OK);
    assert_int_equal(eng_batch_build_record(&builder, 7, FX_NOW, b, one, NULL, 0), OT_OK);         /* far past the batch, which ends with 1 */
    assert_int_equal(eng_batch_build_finish(&builder), OT_OK);
    cx_append(cx, sink.data, sink.bytes);
    eng_sink_free(&sink);
    (void)cx_put(cx, "a=2 b=2");
    cx_seal(cx);
    cx_compact(cx);
    assert_string_equal(cx_all(cx), "2:a=2 3:b=2 4:active=1");
}

/* ---- each call of the disk fails once ---- */

static void fill_for_faults(struct cx *cx)
{
    for (int i = 0; i < 9; i++) {
        (void)cx_send(cx, "a=1 b=1 c=1", 1, false);
        (void)cx_send(cx, i % 2 == 0 ? "d=1" : "e=1 a", 2, true);
        (void)cx_end(cx, 2, i % 3 != 0);
    }
    (void)cx_put(cx, "a=2 b=2 c=2 d=2 e=2");
    cx_seal(cx);
}

/* What must be there, however far a run came. */
static void check_last_values(struct cx *cx)
{
    struct cx_log *log = cx_read(cx);
    assert_int_equal(fx_faults(&cx->fx), 0);
    assert_true(log->count >= 6);
    const char *want[] = { "a", "b", "c", "d", "e", "active" };
    for (uint32_t i = 0; i < 6; i++) {
        const struct cx_record *record = &log->list[log->count - 6 + i];
        assert_string_equal(record->key, want[i]);
        assert_string_equal(record->value, i == 5 ? "1" : "2");
    }
}

/* False: the run makes fewer calls than that. */
static bool run_with_failure(struct cx *cx, uint64_t at, enum ot_err err)
{
    int64_t flushed;
    fill_for_faults(cx);
    assert_int_equal(eng_log_flush(cx->fx.log, &flushed), OT_OK);
    ot_io_fault_at(&cx->fx.fault, OT_IO_CALL_ANY, at, err);
    enum ot_err got = cx_try_compact(cx);
    bool fired = cx->fx.fault.fired;
    ot_io_fault_at(&cx->fx.fault, OT_IO_CALL_ANY, 0, OT_OK);
    assert_true(fired || got == OT_OK);
    check_last_values(cx);
    if (eng_log_read_only(cx->fx.log)) {   /* between the names: a restart completes it */
        int64_t end = eng_log_end_offset(cx->fx.log);
        fx_crash(&cx->fx);
        fx_open(&cx->fx, end, false);
        check_last_values(cx);
    }
    assert_int_equal(cx_try_compact(cx), OT_OK);
    check_last_values(cx);
    assert_int_equal(cx_read(cx)->count, 6);
    fx_close(&cx->fx);
    assert_int_equal(cx->fx.fault.open_fds, 0);
    return fired;
}

static void one_failing_call_costs_a_run_and_nothing_else(void **state)
{
    struct cx *cx = *state;
    uint64_t at = 1;
    bool fired = true;
    for (; fired; at++) {
        fired = run_with_failure(cx, at, OT_ERR_NO_SPACE);
        cx_free(cx);
        cx_init(cx);
        fired = run_with_failure(cx, at, OT_ERR_IO) || fired;
        cx_free(cx);
        cx_init(cx);
    }
    assert_true(at > 30);
}

/* A topic is deleted after a run that failed, also where that was between the names. */
static bool delete_after_failure(struct cx *cx, uint64_t at)
{
    fill_for_faults(cx);
    ot_io_fault_at(&cx->fx.fault, OT_IO_CALL_ANY, at, OT_ERR_IO);
    const enum ot_err got = cx_try_compact(cx);
    const bool fired = cx->fx.fault.fired;
    ot_io_fault_at(&cx->fx.fault, OT_IO_CALL_ANY, 0, OT_OK);
    assert_true(fired || got == OT_OK);
    assert_int_equal(eng_log_remove(cx->fx.log), OT_OK);
    assert_int_not_equal(access(cx->fx.path, F_OK), 0);
    assert_int_equal(eng_log_delete(cx->fx.log), OT_OK);
    cx->fx.log = NULL;
    fx_close(&cx->fx);
    assert_int_equal(cx->fx.fault.open_fds, 0);
    return fired;
}

static void a_log_whose_run_failed_can_be_deleted(void **state)
{
    struct cx *cx = *state;
    bool fired = true;
    uint64_t at = 1;
    for (; fired; at++) {
        fired = delete_after_failure(cx, at);
        cx_free(cx);
        cx_init(cx);
    }
    assert_true(at > 30);
}

/* A set of magic 1, one entry a record, and one compressed wrapper: as old folders hold them. */
static size_t legacy_entry(uint8_t *out, int64_t offset, int8_t attributes, int64_t timestamp, const char *key, const void *value, int32_t value_bytes)
{
    int32_t key_bytes = key == NULL ? -1 : (int32_t)strlen(key);
    size_t bytes = 34 + (size_t)OT_MAX(key_bytes, 0) + (size_t)OT_MAX(value_bytes, 0);
    ot_store_u64(out, (uint64_t)offset);
    ot_store_u32(out + 8, (uint32_t)(bytes - 12));
    out[16] = 1;
    out[17] = (uint8_t)attributes;
    ot_store_u64(out + 18, (uint64_t)timestamp);
    ot_store_u32(out + 26, (uint32_t)key_bytes);
    if (key_bytes > 0) memcpy(out + 30, key, (size_t)key_bytes);
    uint8_t *at = out + 30 + OT_MAX(key_bytes, 0);
    ot_store_u32(at, (uint32_t)value_bytes);
    if (value_bytes > 0) memcpy(at + 4, value, (size_t)value_bytes);
    ot_store_u32(out + 12, (uint32_t)crc32_z(0, out + 16, bytes - 16));
    return bytes;
}

static void put_legacy(struct cx *cx, const uint8_t *data, size_t bytes, int64_t first, int64_t last)
{
    uint32_t written = 0;
    struct eng_append_batch batch = { .data = data, .bytes = (uint32_t)bytes, .base_offset = first, .last_offset = last, .max_timestamp = FX_NOW,
        .max_timestamp_offset = last };
    assert_int_equal(eng_log_append(cx->fx.log, &batch, 1, FX_NOW, &written), OT_OK);
}

static void old_message_formats_are_compacted_too(void **state)
{
    struct cx *cx = *state;
    uint8_t data[600], inner[400];
    put_legacy(cx, data, legacy_entry(data, 0, 0, FX_NOW, "a", "1", 1), 0, 0);
    put_legacy(cx, data, legacy_entry(data, 1, 0, FX_NOW, "b", "1", 1), 1, 1);
    size_t bytes = legacy_entry(inner, 0, 0, FX_NOW, "a", "2", 1);
    bytes += legacy_entry(inner + bytes, 1, 0, FX_NOW, "c", "1", 1);
    bytes += legacy_entry(inner + bytes, 2, 0, FX_NOW, "d", "1", 1);
    struct eng_sink sink;
    eng_sink_malloc(&sink, 1000);
    assert_int_equal(eng_encode_begin(cx->encode, ENG_CODEC_GZIP, ENG_CODEC_LEVEL_DEFAULT, &sink), OT_OK);
    assert_int_equal(eng_encode_write(cx->encode, inner, bytes), OT_OK);
    assert_int_equal(eng_encode_finish(cx->encode), OT_OK);
    put_legacy(cx, data, legacy_entry(data, 4, 1, FX_NOW, NULL, sink.data, (int32_t)sink.bytes), 2, 4);
    eng_sink_free(&sink);
    put_legacy(cx, data, legacy_entry(data, 5, 0, FX_NOW, "c", NULL, -1), 5, 5);
    cx_seal(cx);
    assert_string_equal(cx_all(cx), "0:a=1 1:b=1 2:a=2 3:c=1 4:d=1 5:c 6:active=1");
    cx_compact(cx);
    assert_string_equal(cx_all(cx), "1:b=1 2:a=2 4:d=1 5:c 6:active=1");
    cx->how.wall_ms = FX_NOW + 1001;       /* a tombstone of theirs goes by the age of its segment */
    (void)cx_put(cx, "e=1");
    cx_seal(cx);
    cx_compact(cx);
    assert_string_equal(cx_all(cx), "1:b=1 2:a=2 4:d=1 6:active=1 7:e=1 8:active=1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_last_value_of_each_key_stays_at_its_offset, setup, teardown),
        cmocka_unit_test_setup_teardown(records_keep_timestamps_headers_and_codec, setup, teardown),
        cmocka_unit_test_setup_teardown(a_partly_kept_batch_keeps_its_codec_and_its_range, setup, teardown),
        cmocka_unit_test_setup_teardown(a_read_at_a_hole_gives_the_next_batch, setup, teardown),
        cmocka_unit_test_setup_teardown(tombstones_stay_until_their_horizon_and_then_go, setup, teardown),
        cmocka_unit_test_setup_teardown(a_tombstone_takes_away_what_lies_before_it_in_clean_segments, setup, teardown),
        cmocka_unit_test_setup_teardown(records_without_a_key_go, setup, teardown),
        cmocka_unit_test_setup_teardown(aborted_records_go_and_do_not_supersede, setup, teardown),
        cmocka_unit_test_setup_teardown(markers_go_when_their_transaction_and_the_horizon_are_past, setup, teardown),
        cmocka_unit_test_setup_teardown(producer_state_is_the_same_after_a_restart_with_and_without_snapshots, setup, teardown),
        cmocka_unit_test_setup_teardown(more_keys_than_the_map_holds_take_more_passes, setup, teardown),
        cmocka_unit_test_setup_teardown(small_segments_become_one_of_at_most_segment_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(segments_that_lose_nothing_are_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(a_change_late_in_a_segment_copies_what_lies_before_it, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_at_or_above_the_limit_is_touched, setup, teardown),
        cmocka_unit_test_setup_teardown(young_records_wait_and_old_ones_are_overdue, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_makes_it_uncleanable_and_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(readers_in_flight_keep_the_old_files, setup, teardown),
        cmocka_unit_test_setup_teardown(lookups_by_time_find_records_that_are_there, setup, teardown),
        cmocka_unit_test_setup_teardown(a_truncation_under_a_run_cancels_it, setup, teardown),
        cmocka_unit_test_setup_teardown(a_run_that_is_told_to_stop_leaves_nothing_behind, setup, teardown),
        cmocka_unit_test_setup_teardown(the_point_reached_is_clamped_at_open_and_by_truncation, setup, teardown),
        cmocka_unit_test_setup_teardown(odd_offset_deltas_supersede_nothing_later, setup, teardown),
        cmocka_unit_test_setup_teardown(one_failing_call_costs_a_run_and_nothing_else, setup, teardown),
        cmocka_unit_test_setup_teardown(a_log_whose_run_failed_can_be_deleted, setup, teardown),
        cmocka_unit_test_setup_teardown(old_message_formats_are_compacted_too, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
