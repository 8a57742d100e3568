/* How a log comes up after a crash, and after damage. */
#include "testing.h"
#include "log_fixture.h"
#include "engine/snapshots.h"

static int setup(void **state)
{
    struct fx *fx = malloc(sizeof *fx);
    fx_init(fx);
    *state = fx;
    return 0;
}

static int teardown(void **state)
{
    fx_free(*state);
    free(*state);
    return 0;
}

static uint32_t cut_files(const struct fx *fx)
{
    char command[600];
    snprintf(command, sizeof command, "ls %s/*.cut 2>/dev/null | wc -l", fx->path);
    FILE *pipe = popen(command, "r");
    uint32_t count = 0;
    assert_int_equal(fscanf(pipe, "%u", &count), 1);
    pclose(pipe);
    return count;
}

static void a_killed_process_loses_nothing(void **state)
{
    struct fx *fx = *state;
    fx->config.segment_bytes = 50000;
    for (int mode = ENG_APPEND_PWRITEV; mode <= ENG_APPEND_MMAP; mode++) {
        fx->config.append_io = (enum eng_append_io)mode;
        fx_open(fx, 0, false);
        int64_t start = eng_log_end_offset(fx->log);
        for (int i = 0; i < 300; i++) fx_append(fx, 2, 200);
        fx_crash(fx);
        fx_open(fx, start, false);
        assert_int_equal(eng_log_end_offset(fx->log), start + 600);
        assert_int_equal(eng_log_flushed_end(fx->log), start);
        assert_int_equal(fx->recovery.cut_offset, -1);
        assert_int_equal(fx->recovery.cut_bytes, 0);
        assert_int_equal(fx_faults(fx), 0);
        assert_int_equal(fx_read_all(fx, 0, start + 600, 1 << 20), start + 600);
        fx_append(fx, 1, 10);
        fx_close(fx);
        fx->generation++;
        fx_open(fx, 0, true);
        assert_int_equal(fx_read_all(fx, 0, start + 601, 1 << 20), start + 601);
        fx_crash(fx);
    }
}

static void a_torn_tail_costs_only_the_last_batch(void **state)
{
    struct fx *fx = *state;
    for (int keep = 11; keep < 300; keep += 23) {     /* the first bytes of an offset are zeros, as a preallocated tail is */
        fx_open(fx, 0, false);
        fx_append(fx, 1, 100);
        fx_append(fx, 1, 100);
        int64_t bytes = fx_file_bytes(fx, 0, ".log");
        fx_append(fx, 1, 200);
        fx_crash(fx);
        if (bytes + keep < fx_file_bytes(fx, 0, ".log")) fx_cut(fx, 0, ".log", bytes + keep);
        fx_open(fx, 0, false);
        if (keep < 200) {
            assert_int_equal(eng_log_end_offset(fx->log), 2);
            assert_int_equal(fx->recovery.cut_offset, 2);
            assert_int_equal(fx->recovery.cut_bytes, keep);
            assert_false(fx->recovery.kept_aside);
            assert_int_equal(fx_file_bytes(fx, 0, ".log"), bytes);
        }
        fx_append(fx, 1, 100);
        assert_int_equal(fx_faults(fx), 0);
        assert_int_equal(eng_log_delete(fx->log), OT_OK);
        fx->log = NULL;
        eng_store_close(fx->store);
        fx->store = NULL;
    }
}

static void bytes_behind_a_bad_batch_are_kept_aside(void **state)
{
    struct fx *fx = *state;
    fx_open(fx, 0, false);
    fx_append(fx, 1, 100);
    int64_t bytes = fx_file_bytes(fx, 0, ".log");
    for (int i = 0; i < 5; i++) fx_append(fx, 1, 100);
    int64_t all = fx_file_bytes(fx, 0, ".log");
    fx_crash(fx);
    fx_damage(fx, 0, ".log", bytes + 80, "\xff\xfe", 2);
    fx_open(fx, 0, false);
    assert_int_equal(eng_log_end_offset(fx->log), 1);
    assert_true(fx->recovery.kept_aside);
    assert_int_equal(fx->recovery.cut_bytes, all - bytes);
    assert_int_equal(fx->recovery.cut_offset, 1);
    assert_int_equal(cut_files(fx), 1);
    assert_int_equal(fx_file_bytes(fx, 1, ".cut"), all - bytes);
    fx_append(fx, 1, 100);
    assert_int_equal(fx_faults(fx), 0);
    fx_close(fx);
}

static void a_damaged_length_is_found_out_by_what_follows(void **state)
{
    struct fx *fx = *state;
    fx_open(fx, 0, false);
    fx_append(fx, 1, 100);
    int64_t bytes = fx_file_bytes(fx, 0, ".log");
    fx_append(fx, 1, 100);
    fx_append(fx, 1, 100);
    fx_crash(fx);
    fx_damage(fx, 0, ".log", bytes + 8, "\x7f", 1);                        /* a length beyond the file */
    fx_open(fx, 0, false);
    assert_int_equal(eng_log_end_offset(fx->log), 1);
    assert_true(fx->recovery.kept_aside);
    fx_close(fx);
}

static void a_last_bad_batch_alone_is_a_torn_write(void **state)
{
    struct fx *fx = *state;
    fx_open(fx, 0, false);
    fx_append(fx, 1, 100);
    int64_t bytes = fx_file_bytes(fx, 0, ".log");
    fx_append(fx, 1, 100);
    fx_crash(fx);
    fx_damage(fx, 0, ".log", bytes + 80, "\xff", 1);
    fx_open(fx, 0, false);
    assert_int_equal(eng_log_end_offset(fx->log), 1);
    assert_false(fx->recovery.kept_aside);
    assert_int_equal(cut_files(fx), 0);
    fx_close(fx);
}

static void a_later_segment_behind_a_bad_batch_is_kept_aside_whole(void **state)
{
    struct fx *fx = *state;
    fx->config.segment_bytes = 2000;
    fx_open(fx, 0, false);
    for (int i = 0; i < 30; i++) fx_append(fx, 1, 400);
    uint32_t segments = eng_log_segments(fx->log, NULL, 0);
    fx_crash(fx);
    fx_damage(fx, 0, ".log", 600, "\xff\xff\xff", 3);
    fx_open(fx, 0, false);
    assert_int_equal(eng_log_end_offset(fx->log), 1);
    assert_int_equal(eng_log_segments(fx->log, NULL, 0), 1);
    assert_int_equal(cut_files(fx), segments);                             /* the tail of the first, and each later one */
    assert_true(fx->recovery.kept_aside);
    fx_append(fx, 1, 400);
    assert_int_equal(fx_faults(fx), 0);
    fx_close(fx);
}

static void below_the_recovery_point_a_bad_batch_is_corruption_and_nothing_changes(void **state)
{
    struct fx *fx = *state;
    char before[700], command[2000];
    fx_open(fx, 0, false);
    for (int i = 0; i < 6; i++) fx_append(fx, 1, 100);
    fx_crash(fx);
    fx_damage(fx, 0, ".log", 8, "\x00\x00\x00\x05", 4);                    /* the first batch's length */
    snprintf(before, sizeof before, "%s/00000000000000000000.log", fx->path);
    int64_t bytes = fx_file_bytes(fx, 0, ".log");
    snprintf(command, sizeof command, "cp %s %s.before", before, before);
    assert_int_equal(system(command), 0);
    assert_int_equal(fx_try_open(fx, 6, 0, false), OT_ERR_CORRUPT);
    assert_int_equal(fx_file_bytes(fx, 0, ".log"), bytes);
    snprintf(command, sizeof command, "cmp -s %s %s.before", before, before);
    assert_int_equal(system(command), 0);
}

static void only_what_is_past_the_recovery_point_is_read(void **state)
{
    struct fx *fx = *state;
    fx->config.segment_bytes = 200000;
    fx_open(fx, 0, false);
    for (int i = 0; i < 1000; i++) fx_append(fx, 1, 1000);
    fx_crash(fx);
    fx_damage(fx, 0, ".log", 500, "\xff\xff", 2);                          /* it would be found by a full scan */
    fx_open(fx, 990, false);
    assert_int_equal(eng_log_end_offset(fx->log), 1000);
    assert_true(fx->recovery.scanned_bytes < 120000);
    fx_close(fx);
}

static void the_zero_tail_of_a_mapped_segment_is_cut(void **state)
{
    struct fx *fx = *state;
    fx->config.append_io = ENG_APPEND_MMAP;
    fx_open(fx, 0, false);
    for (int i = 0; i < 10; i++) fx_append(fx, 1, 100);
    assert_true(fx_file_bytes(fx, 0, ".log") > 100000);                    /* preallocated at its real size */
    fx_crash(fx);
    fx_open(fx, 3, false);
    assert_int_equal(eng_log_end_offset(fx->log), 10);
    assert_true(fx_file_bytes(fx, 0, ".log") < 3000);
    assert_int_equal(fx->recovery.cut_offset, -1);
    assert_int_equal(fx->recovery.cut_bytes, 0);
    fx_close(fx);
}

static void a_gap_or_a_falling_epoch_ends_the_log(void **state)
{
    struct fx *fx = *state;
    for (int kind = 0; kind < 2; kind++) {
        char path[500];
        fx->epoch = 5;
        fx_open(fx, 0, false);
        fx_append(fx, 1, 100);
        fx_append(fx, 1, 100);
        int64_t bytes = fx_file_bytes(fx, 0, ".log");
        fx_crash(fx);
        fx->epoch = kind == 0 ? 5 : 4;
        struct fx_batch batch = fx_batch(fx, kind == 0 ? 3 : 2, 1, 100);
        fx_file(fx, 0, ".log", path, sizeof path);
        FILE *file = fopen(path, "a");
        fwrite(batch.append.data, 1, batch.append.bytes, file);
        fclose(file);
        eng_sink_free(&batch.sink);
        fx_open(fx, 0, false);
        assert_int_equal(eng_log_end_offset(fx->log), 2);
        assert_int_equal(fx_file_bytes(fx, 0, ".log"), bytes);
        assert_true(fx->recovery.kept_aside);
        assert_int_equal(eng_log_delete(fx->log), OT_OK);
        fx->log = NULL;
        fx_close(fx);
    }
}

/* Two offsets of ten, in several segments. */
static void append_with_holes(struct fx *fx)
{
    for (int i = 0; i < 40; i++) {
        uint32_t appended = 0;
        struct fx_batch batch = fx_batch(fx, i * 10 + 3, 2, 300);
        if (eng_log_fits(fx->log, &batch.append, 1, FX_NOW) == 0) assert_int_equal(eng_log_roll(fx->log, NULL, FX_NOW), OT_OK);
        assert_int_equal(eng_log_append(fx->log, &batch.append, 1, FX_NOW, &appended), OT_OK);
        eng_sink_free(&batch.sink);
    }
}

/* A follower copied it from a leader that had compacted it, and the topic's policy is delete since. Of a machine that stopped nobody knows what made the holes. */
static void holes_that_were_copied_outlive_a_killed_process(void **state)
{
    struct fx *fx = *state;
    fx->config.segment_bytes = 3000;
    fx_open(fx, 0, false);
    append_with_holes(fx);
    for (int pass = 0; pass < 2; pass++) {
        fx->survived = pass == 0;
        fx_crash(fx);
        fx_open(fx, 0, false);
        assert_int_equal(eng_log_end_offset(fx->log), fx->survived ? 395 : 0);
        assert_int_equal(fx->recovery.kept_aside, !fx->survived);
    }
    fx_close(fx);
}

static void a_compacted_log_may_have_holes(void **state)
{
    struct fx *fx = *state;
    fx->config.compact_enabled = true;
    fx->config.segment_bytes = 3000;
    fx_open(fx, 0, false);
    append_with_holes(fx);
    for (int pass = 0; pass < 2; pass++) {
        assert_int_equal(eng_log_end_offset(fx->log), 395);
        for (int64_t at = 0; at < 395; at++) {         /* a hole is answered by the next batch, never by nothing */
            struct eng_read how = { .offset = at, .limit_offset = 395, .max_bytes = 10, .min_one = true, .may_block = true };
            struct eng_read_result result;
            assert_int_equal(eng_log_read(fx->log, &how, &result), OT_OK);
            assert_int_equal(result.first_base_offset, (at + 5) / 10 * 10 + 3);
            result.pin->release(result.pin);
        }
        assert_int_equal(fx_faults(fx), 0);
        if (pass == 0) {
            fx_crash(fx);
            fx_open(fx, 0, false);
        }
    }
    fx_close(fx);
}

static void damaged_or_missing_indexes_are_made_again(void **state)
{
    struct fx *fx = *state;
    char path[500];
    for (int kind = 0; kind < 6; kind++) {
        fx->config.segment_bytes = 60000;
        fx_open(fx, 0, false);
        for (int i = 0; i < 100; i++) fx_append(fx, 1, 1000);
        struct eng_segment_info infos[8];
        assert_int_equal(eng_log_segments(fx->log, infos, 8), 2);
        assert_int_equal(eng_log_close(fx->log, true), OT_OK);
        fx->log = NULL;
        for (int i = 0; i < 2; i++) {
            int64_t base = infos[i].base_offset;
            if (kind == 0) fx_damage(fx, base, ".index", 8, "\x00\x00\x00\x00\x00\x00\x00\x00", 8);
            if (kind == 1) fx_damage(fx, base, ".timeindex", 12, "\xff\xff\xff\xff", 4);
            if (kind == 2) fx_cut(fx, base, ".index", 13);
            if (kind == 4) fx_cut(fx, base, ".timeindex", 3);              /* a crash kept a part of the first entry */
            if (kind == 5) {                                               /* or its block, and not what was in it */
                fx_cut(fx, base, ".index", 0);
                fx_cut(fx, base, ".index", 8);
                fx_cut(fx, base, ".timeindex", 0);
                fx_cut(fx, base, ".timeindex", 12);
            }
            if (kind == 3) {
                fx_file(fx, base, ".index", path, sizeof path);
                unlink(path);
                fx_file(fx, base, ".timeindex", path, sizeof path);
                unlink(path);
            }
        }
        fx_open(fx, 0, false);
        assert_int_equal(fx_faults(fx), 0);
        assert_int_equal(fx_read_all(fx, 0, 100, 1 << 20), 100);
        assert_true(fx_file_bytes(fx, infos[0].base_offset, ".index") > 8 * 8);
        assert_true(fx_file_bytes(fx, infos[0].base_offset, ".timeindex") > 8 * 12);
        assert_int_equal(eng_log_delete(fx->log), OT_OK);
        fx->log = NULL;
        fx_close(fx);
    }
}

static void an_index_that_lies_is_found_out_by_the_read_and_made_again(void **state)
{
    struct fx *fx = *state;
    fx->config.segment_bytes = 60000;
    fx_open(fx, 0, false);
    for (int i = 0; i < 100; i++) fx_append(fx, 1, 1000);
    fx_close(fx);
    fx_damage(fx, 0, ".index", 4, "\x00\x00\x00\x77", 4);                  /* the position of the first entry */
    fx_open(fx, 0, true);
    assert_true(fx_faults(fx) > 0);
    for (int64_t at = 0; at < 50; at++) assert_int_equal(fx_read_all(fx, at, 50, 1), 50 - at);
    assert_int_equal(fx_faults(fx), 0);
    fx_close(fx);
}

/* The next segment must not be taken for the rest of the torn batch. */
static void a_sealed_segment_that_lost_its_end_is_not_read_across(void **state)
{
    struct fx *fx = *state;
    struct eng_read_result out;
    fx->config.segment_bytes = 60000;
    fx_open(fx, 0, false);
    for (int i = 0; i < 100; i++) fx_append(fx, 1, 1000);
    fx_close(fx);
    fx_open(fx, 0, true);
    struct eng_read how = { .offset = 0, .limit_offset = 100, .max_bytes = 1 << 20, .min_one = true, .may_block = true };
    assert_int_equal(eng_log_read(fx->log, &how, &out), OT_OK);
    assert_int_equal(out.span_count, 2);
    out.pin->release(out.pin);
    fx_close(fx);
    fx_cut(fx, 0, ".log", 20000);
    fx_open(fx, 0, true);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(eng_log_read(fx->log, &how, &out), OT_OK);
        assert_int_equal(out.span_count, 1);
        assert_int_equal(out.bytes, 20000);
        out.pin->release(out.pin);
    }
    how.offset = 40;                       /* of what is lost */
    assert_int_equal(eng_log_read(fx->log, &how, &out), OT_ERR_CORRUPT);
    how.offset = 70;
    assert_int_equal(eng_log_read(fx->log, &how, &out), OT_OK);
    out.pin->release(out.pin);
    fx_close(fx);
}

static void stale_checkpoints_are_clamped(void **state)
{
    struct fx *fx = *state;
    fx_open(fx, 0, false);
    for (int i = 0; i < 10; i++) fx_append(fx, 1, 100);
    fx_crash(fx);
    assert_int_equal(fx_try_open(fx, 1000, 0, false), OT_OK);              /* a recovery point past the end */
    assert_int_equal(eng_log_end_offset(fx->log), 10);
    assert_int_equal(eng_log_flushed_end(fx->log), 10);
    fx_close(fx);
    assert_int_equal(fx_try_open(fx, 0, 4, true), OT_OK);
    assert_int_equal(eng_log_start_offset(fx->log), 4);
    fx_close(fx);
    /* a log start past the end: what was below was deleted, and its offsets are not given out again */
    assert_int_equal(fx_try_open(fx, 0, 500, false), OT_OK);
    assert_int_equal(eng_log_start_offset(fx->log), 500);
    assert_int_equal(eng_log_end_offset(fx->log), 500);
    fx_append(fx, 1, 100);
    assert_int_equal(fx_read_all(fx, 500, 501, 1000), 1);
    fx_close(fx);
    fx_open(fx, 0, true);
    assert_int_equal(eng_log_start_offset(fx->log), 500);
    fx_close(fx);
}

static void epochs_are_rebuilt_from_the_batches(void **state)
{
    struct fx *fx = *state;
    char path[500];
    for (int kind = 0; kind < 3; kind++) {
        fx->epoch = 1;
        fx_open(fx, 0, false);
        for (int i = 0; i < 12; i++) {
            fx_append(fx, 1, 100);
            if (i % 4 == 3) fx->epoch += 2;
        }
        fx_crash(fx);
        snprintf(path, sizeof path, "%s/leader-epoch-checkpoint", fx->path);
        if (kind == 0) {
            FILE *file = fopen(path, "w");
            fputs("0\nrubbish\n", file);
            fclose(file);
        } else if (kind == 1) {
            unlink(path);
        } else {                               /* whole, and older than the batches */
            FILE *file = fopen(path, "w");
            fputs("0\n2\n1 0\n3 4\n", file);
            fclose(file);
        }
        fx_open(fx, 0, false);
        struct eng_epochs *epochs = eng_log_epochs(fx->log);
        assert_int_equal(eng_epochs_latest(epochs), 5);
        assert_int_equal(eng_epochs_for_offset(epochs, 3), 1);
        assert_int_equal(eng_epochs_for_offset(epochs, 4), 3);
        assert_int_equal(eng_epochs_for_offset(epochs, 11), 5);
        assert_int_equal(eng_log_delete(fx->log), OT_OK);
        fx->log = NULL;
        fx_close(fx);
    }
}

static void epochs_past_the_end_are_dropped(void **state)
{
    struct fx *fx = *state;
    fx_open(fx, 0, false);
    fx_append(fx, 1, 100);
    int64_t bytes = fx_file_bytes(fx, 0, ".log");
    fx->epoch = 4;
    fx_append(fx, 1, 100);
    fx_crash(fx);
    fx_cut(fx, 0, ".log", bytes);
    fx_open(fx, 0, false);
    assert_int_equal(eng_epochs_latest(eng_log_epochs(fx->log)), 0);
    fx->epoch = 2;
    fx_append(fx, 1, 100);
    assert_int_equal(fx_faults(fx), 0);
    fx_close(fx);
}

static int32_t last_sequence(struct fx *fx, int64_t producer_id)
{
    struct eng_producer_view view;
    return eng_producers_find(eng_log_producers(fx->log), producer_id, false, &view) ? view.last_sequence : -1;
}

static void append_of_producer(struct fx *fx, int64_t producer_id, int32_t sequence)
{
    uint32_t appended = 0;
    struct eng_batch_info info;
    struct fx_batch batch = fx_batch_full(fx, eng_log_end_offset(fx->log), 1, 100, FX_NOW, producer_id, sequence);
    assert_int_equal(eng_log_append(fx->log, &batch.append, 1, FX_NOW, &appended), OT_OK);
    assert_int_equal(eng_batch_parse(batch.append.data, batch.append.bytes, &info), OT_OK);
    assert_int_equal(eng_producers_replay(eng_log_producers(fx->log), &info, NULL), OT_OK);
    eng_sink_free(&batch.sink);
}

static void producer_state_comes_back_from_snapshot_and_replay(void **state)
{
    struct fx *fx = *state;
    uint8_t data[4096];
    fx_open(fx, 0, false);
    for (int i = 0; i < 5; i++) append_of_producer(fx, 7, i);
    struct ot_writer writer = ot_writer_over(data, sizeof data);
    assert_int_equal(eng_producers_snapshot(eng_log_producers(fx->log), &writer), OT_OK);
    struct ot_blob blob = { data, (uint32_t)(writer.at - writer.start), false };
    assert_int_equal(eng_log_roll(fx->log, &blob, FX_NOW), OT_OK);
    for (int i = 5; i < 8; i++) append_of_producer(fx, 7, i);
    append_of_producer(fx, 8, 0);
    fx_crash(fx);
    fx_open(fx, 0, false);
    assert_int_equal(last_sequence(fx, 7), 7);
    assert_int_equal(last_sequence(fx, 8), 0);
    fx_crash(fx);
    fx_damage(fx, 5, ".snapshot", 20, "\xff\xff", 2);                      /* a damaged snapshot: everything is replayed */
    fx_open(fx, 8, false);
    assert_int_equal(last_sequence(fx, 7), 7);
    assert_int_equal(last_sequence(fx, 8), 0);
    fx_close(fx);
    fx_open(fx, 0, true);                                                  /* the snapshot of the close */
    assert_int_equal(last_sequence(fx, 7), 7);
    assert_int_equal(last_sequence(fx, 8), 0);
    fx_close(fx);
}

static void a_snapshot_from_behind_the_cut_is_not_believed_later(void **state)
{
    struct fx *fx = *state;
    uint8_t data[4096];
    fx_open(fx, 0, false);
    append_of_producer(fx, 7, 0);
    int64_t bytes = fx_file_bytes(fx, 0, ".log");
    append_of_producer(fx, 7, 1);
    struct ot_writer writer = ot_writer_over(data, sizeof data);
    assert_int_equal(eng_producers_snapshot(eng_log_producers(fx->log), &writer), OT_OK);
    struct ot_blob blob = { data, (uint32_t)(writer.at - writer.start), false };
    assert_int_equal(eng_log_snapshot(fx->log, &blob), OT_OK);             /* of offset 2 */
    fx_crash(fx);
    fx_cut(fx, 0, ".log", bytes);
    fx_open(fx, 0, false);
    assert_int_equal(last_sequence(fx, 7), 0);
    append_of_producer(fx, 9, 0);                                          /* offset 1 is another batch now */
    fx_crash(fx);
    fx_open(fx, 0, false);
    assert_int_equal(eng_log_end_offset(fx->log), 2);
    assert_int_equal(last_sequence(fx, 7), 0);
    assert_int_equal(last_sequence(fx, 9), 0);
    fx_close(fx);
}

static void aborted_transactions_are_indexed_again(void **state)
{
    struct fx *fx = *state;
    uint8_t marker[ENG_MARKER_BYTES];
    uint32_t appended = 0, count = 0;
    struct eng_aborted aborted[4];
    fx_open(fx, 0, false);
    struct eng_batch_builder builder;
    struct eng_batch_fields fields = eng_batch_fields_default();
    struct eng_sink sink;
    fields.leader_epoch = 0;
    fields.producer_id = 42;
    fields.producer_epoch = 0;
    fields.base_sequence = 0;
    fields.transactional = true;
    eng_sink_malloc(&sink, 1 << 20);
    assert_int_equal(eng_batch_build_begin(&builder, &fields, NULL, &sink), OT_OK);
    assert_int_equal(eng_batch_build_next(&builder, FX_NOW, (struct ot_blob){ .null = true }, (struct ot_blob){ (const uint8_t *)"x", 1, false }, NULL, 0), OT_OK);
    assert_int_equal(eng_batch_build_finish(&builder), OT_OK);
    struct eng_append_batch data = { sink.data, (uint32_t)sink.bytes, 0, 0, 0, FX_NOW, 0 };
    assert_int_equal(eng_log_append(fx->log, &data, 1, FX_NOW, &appended), OT_OK);
    size_t marker_bytes = eng_batch_build_marker(marker, 42, 0, 0, 3, false, FX_NOW);
    eng_batch_stamp(marker, 1, 0);
    struct eng_append_batch end = { marker, (uint32_t)marker_bytes, 0, 1, 1, FX_NOW, 1 };
    assert_int_equal(eng_log_append(fx->log, &end, 1, FX_NOW, &appended), OT_OK);
    eng_sink_free(&sink);
    fx_crash(fx);                              /* before anybody wrote the index */
    fx_open(fx, 0, false);
    assert_int_equal(eng_log_aborted(fx->log, 0, 2, aborted, 4, &count), OT_OK);
    assert_int_equal(count, 1);
    assert_int_equal(aborted[0].producer_id, 42);
    assert_int_equal(aborted[0].first_offset, 0);
    assert_int_equal(eng_log_aborted(fx->log, 2, 3, aborted, 4, &count), OT_OK);
    assert_int_equal(count, 0);
    fx_crash(fx);                              /* again: not twice */
    fx_open(fx, 2, false);
    assert_int_equal(eng_log_aborted(fx->log, 0, 2, aborted, 4, &count), OT_OK);
    assert_int_equal(count, 1);
    assert_int_equal(eng_log_truncate(fx->log, 1, FX_NOW), OT_OK);
    assert_int_equal(eng_log_aborted(fx->log, 0, 2, aborted, 4, &count), OT_OK);
    assert_int_equal(count, 0);
    fx_close(fx);
}

static void a_crash_in_the_middle_of_making_a_segment_leaves_no_orphans(void **state)
{
    struct fx *fx = *state;
    char path[500];
    fx_open(fx, 0, false);
    fx_append(fx, 1, 100);
    fx_crash(fx);
    static const char *const orphans[] = { ".index", ".timeindex", ".txnindex", ".log.tmp", ".index.tmp" };
    for (size_t i = 0; i < OT_ARRAY_COUNT(orphans); i++) {
        fx_file(fx, 1, orphans[i], path, sizeof path);
        fclose(fopen(path, "w"));
    }
    fx_open(fx, 0, false);
    assert_int_equal(eng_log_end_offset(fx->log), 1);
    for (size_t i = 0; i < OT_ARRAY_COUNT(orphans); i++) assert_int_equal(fx_file_bytes(fx, 1, orphans[i]), -1);
    fx_close(fx);
}

static uint64_t syncs(const struct fx *fx) { return fx->fault.counts[OT_IO_CALL_FDATASYNC] + fx->fault.counts[OT_IO_CALL_SYNC_DIR]; }

/* Thousands of partitions wait for these at a restart. */
static void what_was_synced_since_the_process_died_is_not_synced_again(void **state)
{
    struct fx *fx = *state;
    int64_t flushed = 0;
    fx->config.append_io = ENG_APPEND_MMAP;                                /* its tail of zeros is cut: not worth a sync either */
    fx_open(fx, 0, false);
    for (int i = 0; i < 5; i++) fx_append(fx, 1, 100);
    fx_crash(fx);
    fx->settled = true;
    uint64_t before = syncs(fx);
    fx_open(fx, 0, false);
    assert_int_equal(eng_log_flushed_end(fx->log), 0);
    assert_int_equal(eng_log_flush(fx->log, &flushed), OT_OK);
    assert_int_equal(flushed, 5);
    assert_int_equal(syncs(fx), before);
    fx_append(fx, 1, 100);
    assert_int_equal(eng_log_flush(fx->log, &flushed), OT_OK);
    assert_int_equal(flushed, 6);
    assert_int_equal(syncs(fx), before + 1);                               /* the names are there, the bytes are new */
    assert_int_equal(eng_log_close(fx->log, true), OT_OK);
    fx->log = NULL;
    assert_true(syncs(fx) > before + 1);                                   /* the true size */
    fx_close(fx);
}

static void what_recovery_changed_is_synced_whatever_was_before(void **state)
{
    struct fx *fx = *state;
    int64_t flushed = 0;
    fx_open(fx, 0, false);
    for (int i = 0; i < 3; i++) fx_append(fx, 1, 100);
    fx_crash(fx);
    fx_damage(fx, 0, ".log", (off_t)fx_file_bytes(fx, 0, ".log") - 1, "!", 1);
    fx->settled = true;
    fx_open(fx, 0, false);
    assert_int_equal(eng_log_end_offset(fx->log), 2);
    uint64_t before = syncs(fx);
    assert_int_equal(eng_log_flush(fx->log, &flushed), OT_OK);
    assert_int_equal(flushed, 2);
    assert_true(syncs(fx) >= before + 3);                                  /* the log, its folder, and that in its own */
    fx_close(fx);
}

#define LOG_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

TEST_MAIN(
    LOG_TEST(a_killed_process_loses_nothing),
    LOG_TEST(a_torn_tail_costs_only_the_last_batch),
    LOG_TEST(bytes_behind_a_bad_batch_are_kept_aside),
    LOG_TEST(a_damaged_length_is_found_out_by_what_follows),
    LOG_TEST(a_last_bad_batch_alone_is_a_torn_write),
    LOG_TEST(a_later_segment_behind_a_bad_batch_is_kept_aside_whole),
    LOG_TEST(below_the_recovery_point_a_bad_batch_is_corruption_and_nothing_changes),
    LOG_TEST(only_what_is_past_the_recovery_point_is_read),
    LOG_TEST(the_zero_tail_of_a_mapped_segment_is_cut),
    LOG_TEST(a_gap_or_a_falling_epoch_ends_the_log),
    LOG_TEST(a_compacted_log_may_have_holes),
    LOG_TEST(holes_that_were_copied_outlive_a_killed_process),
    LOG_TEST(damaged_or_missing_indexes_are_made_again),
    LOG_TEST(an_index_that_lies_is_found_out_by_the_read_and_made_again),
    LOG_TEST(a_sealed_segment_that_lost_its_end_is_not_read_across),
    LOG_TEST(stale_checkpoints_are_clamped),
    LOG_TEST(epochs_are_rebuilt_from_the_batches),
    LOG_TEST(epochs_past_the_end_are_dropped),
    LOG_TEST(producer_state_comes_back_from_snapshot_and_replay),
    LOG_TEST(a_snapshot_from_behind_the_cut_is_not_believed_later),
    LOG_TEST(aborted_transactions_are_indexed_again),
    LOG_TEST(a_crash_in_the_middle_of_making_a_segment_leaves_no_orphans),
    LOG_TEST(what_was_synced_since_the_process_died_is_not_synced_again),
    LOG_TEST(what_recovery_changed_is_synced_whatever_was_before))
