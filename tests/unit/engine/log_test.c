/* The healthy log: append, read, flush, roll, close, open. */
#include "testing.h"
#include "log_fixture.h"

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

static void an_empty_log_has_no_files_and_answers_questions(void **state)
{
    struct fx *fx = *state;
    struct eng_read_result result;
    struct eng_time_offset at;
    fx_open(fx, 0, false);
    assert_int_equal(eng_log_end_offset(fx->log), 0);
    assert_int_equal(fx_file_bytes(fx, 0, ".log"), -1);
    struct eng_read how = { .offset = 0, .limit_offset = 100, .max_bytes = 1000, .may_block = true };
    assert_int_equal(eng_log_read(fx->log, &how, &result), OT_OK);
    assert_int_equal(result.bytes, 0);
    assert_null(result.pin);
    how.offset = 1;
    assert_int_equal(eng_log_read(fx->log, &how, &result), OT_ERR_OFFSET_OUT_OF_RANGE);
    assert_int_equal(eng_log_for_time(fx->log, 0, INT64_MAX, &at), OT_OK);
    assert_int_equal(at.offset, -1);
    assert_int_equal(eng_log_max_timestamp(fx->log, &at), OT_OK);
    assert_int_equal(at.offset, -1);
    int64_t flushed = -1;
    assert_int_equal(eng_log_flush(fx->log, &flushed), OT_OK);
    assert_int_equal(flushed, 0);
    assert_int_equal(eng_log_segments(fx->log, NULL, 0), 0);
    fx_close(fx);
}

static void what_was_appended_is_read_back_from_every_offset(void **state)
{
    struct fx *fx = *state;
    fx->config.segment_bytes = 100000;
    fx_open(fx, 0, false);
    for (int i = 0; i < 600; i++) fx_append(fx, 1 + (uint32_t)i % 7, 100 + (uint32_t)i % 900);
    int64_t end = eng_log_end_offset(fx->log);
    assert_true(eng_log_segments(fx->log, NULL, 0) > 5);
    assert_int_equal(fx_read_all(fx, 0, end, 1 << 20), end);
    assert_int_equal(fx_read_all(fx, 0, end, 1), end);
    for (int64_t from = 0; from < end; from += 37) assert_int_equal(fx_read_all(fx, from, end, 50000), end - from);
    assert_int_equal(fx_faults(fx), 0);
    fx_close(fx);
    fx_open(fx, 0, true);
    assert_int_equal(eng_log_end_offset(fx->log), end);
    assert_int_equal(eng_log_flushed_end(fx->log), end);
    assert_int_equal(fx_read_all(fx, 0, end, 1 << 20), end);
    assert_int_equal(fx_faults(fx), 0);
    fx_append(fx, 3, 100);
    assert_int_equal(fx_read_all(fx, 0, end + 3, 1 << 20), end + 3);
    fx_close(fx);
}

static void a_read_stops_below_its_limit(void **state)
{
    struct fx *fx = *state;
    struct eng_read_result result;
    fx_open(fx, 0, false);
    for (int i = 0; i < 400; i++) fx_append(fx, 2, 200);
    for (int64_t limit = 2; limit <= 800; limit += 38) {
        assert_int_equal(fx_read_all(fx, 0, limit, 1 << 20), limit);
        struct eng_read how = { .offset = limit, .limit_offset = limit, .max_bytes = 1000, .may_block = true };
        assert_int_equal(eng_log_read(fx->log, &how, &result), OT_OK);
        assert_int_equal(result.bytes, 0);
    }
    fx_close(fx);
}

static void the_first_batch_is_whole_only_when_asked(void **state)
{
    struct fx *fx = *state;
    struct eng_read_result result;
    fx_open(fx, 0, false);
    fx_append(fx, 1, 5000);
    struct eng_read how = { .offset = 0, .limit_offset = 1, .max_bytes = 100, .min_one = false, .may_block = true };
    assert_int_equal(eng_log_read(fx->log, &how, &result), OT_OK);
    assert_int_equal(result.bytes, 0);
    assert_null(result.pin);
    how.min_one = true;
    assert_int_equal(eng_log_read(fx->log, &how, &result), OT_OK);
    assert_true(result.bytes > 5000);
    assert_int_equal(result.first_base_offset, 0);
    result.pin->release(result.pin);
    fx_close(fx);
}

static void a_tail_read_needs_no_file(void **state)
{
    struct fx *fx = *state;
    struct eng_read_result result;
    fx_open(fx, 0, false);
    for (int i = 0; i < 300; i++) fx_append(fx, 1, 1000);
    uint64_t before = fx->fault.counts[OT_IO_CALL_ANY];
    struct eng_read how = { .offset = 290, .limit_offset = 295, .max_bytes = 1 << 20, .min_one = true, .may_block = false };
    assert_int_equal(eng_log_read(fx->log, &how, &result), OT_OK);
    assert_int_equal(result.first_base_offset, 290);
    assert_false(result.spans[0].cold);
    result.pin->release(result.pin);
    assert_int_equal(fx->fault.counts[OT_IO_CALL_ANY], before);
    fx_close(fx);
}

static void a_gathered_append_is_one_write(void **state)
{
    struct fx *fx = *state;
    struct fx_batch batches[50];
    struct eng_append_batch appends[50];
    uint32_t appended = 0;
    fx_open(fx, 0, false);
    fx_append(fx, 1, 10);
    for (int i = 0; i < 50; i++) {
        batches[i] = fx_batch(fx, 1 + i * 2, 2, 50);
        appends[i] = batches[i].append;
    }
    uint64_t before = fx->fault.counts[OT_IO_CALL_PWRITEV];
    assert_int_equal(eng_log_append(fx->log, appends, 50, FX_NOW, &appended), OT_OK);
    assert_int_equal(appended, 50);
    assert_int_equal(fx->fault.counts[OT_IO_CALL_PWRITEV], before + 1);
    assert_int_equal(fx_read_all(fx, 0, 101, 1 << 20), 101);
    for (int i = 0; i < 50; i++) eng_sink_free(&batches[i].sink);
    fx_close(fx);
}

static void it_rolls_by_size_time_index_and_relative_offset(void **state)
{
    struct fx *fx = *state;
    fx->config.segment_bytes = 10000;
    fx_open(fx, 0, false);
    fx_append(fx, 1, 8000);
    struct fx_batch batch = fx_batch(fx, 1, 1, 3000);
    assert_int_equal(eng_log_fits(fx->log, &batch.append, 1, FX_NOW), 0);
    eng_sink_free(&batch.sink);
    batch = fx_batch(fx, 1, 1, 100);
    assert_int_equal(eng_log_fits(fx->log, &batch.append, 1, FX_NOW), 1);
    struct eng_append_batch later = batch.append;
    later.max_timestamp = FX_NOW + 604800002;
    assert_int_equal(eng_log_fits(fx->log, &later, 1, FX_NOW), 0);
    later = batch.append;
    later.last_offset = (int64_t)INT32_MAX + 1;
    assert_int_equal(eng_log_fits(fx->log, &later, 1, FX_NOW), 0);
    fx->config.segment_index_bytes = 0;
    eng_log_configure(fx->log, &fx->config);
    assert_int_equal(eng_log_fits(fx->log, &batch.append, 1, FX_NOW), 0);
    eng_sink_free(&batch.sink);
    fx->config.segment_index_bytes = 10 << 20;
    eng_log_configure(fx->log, &fx->config);
    fx_append(fx, 1, 50000);                   /* a lone larger batch gets its own segment */
    fx_append(fx, 1, 10);
    assert_int_equal(eng_log_segments(fx->log, NULL, 0), 3);
    assert_int_equal(eng_log_roll(fx->log, NULL, FX_NOW), OT_OK);
    assert_int_equal(eng_log_roll(fx->log, NULL, FX_NOW), OT_OK);          /* empty: nothing done */
    assert_int_equal(eng_log_segments(fx->log, NULL, 0), 4);
    assert_int_equal(fx_read_all(fx, 0, 3, 1 << 20), 3);
    fx_close(fx);
}

static void flush_syncs_each_file_once_and_a_new_segment_with_its_folder(void **state)
{
    struct fx *fx = *state;
    int64_t flushed = 0;
    fx_open(fx, 0, false);
    fx_append(fx, 5, 100);
    assert_int_equal(eng_log_flushed_end(fx->log), 0);
    uint64_t syncs = fx->fault.counts[OT_IO_CALL_FDATASYNC], dirs = fx->fault.counts[OT_IO_CALL_SYNC_DIR];
    assert_int_equal(eng_log_flush(fx->log, &flushed), OT_OK);
    assert_int_equal(flushed, 5);
    assert_true(fx->fault.counts[OT_IO_CALL_FDATASYNC] >= syncs + 1);
    assert_true(fx->fault.counts[OT_IO_CALL_SYNC_DIR] >= dirs + 2);        /* the partition's folder and the one it lies in */
    fx_append(fx, 5, 100);
    syncs = fx->fault.counts[OT_IO_CALL_FDATASYNC], dirs = fx->fault.counts[OT_IO_CALL_SYNC_DIR];
    assert_int_equal(eng_log_flush(fx->log, &flushed), OT_OK);
    assert_int_equal(flushed, 10);
    assert_int_equal(fx->fault.counts[OT_IO_CALL_FDATASYNC], syncs + 1);
    assert_int_equal(fx->fault.counts[OT_IO_CALL_SYNC_DIR], dirs);
    assert_int_equal(eng_log_flush(fx->log, &flushed), OT_OK);             /* nothing new: nothing synced */
    assert_int_equal(fx->fault.counts[OT_IO_CALL_FDATASYNC], syncs + 1);
    fx_close(fx);
}

static void a_failed_flush_is_final(void **state)
{
    struct fx *fx = *state;
    int64_t flushed = 0;
    fx_open(fx, 0, false);
    fx_append(fx, 5, 100);
    assert_int_equal(eng_log_flush(fx->log, &flushed), OT_OK);
    fx_append(fx, 5, 100);
    ot_log_set_level(NULL, OT_LOG_ERROR);
    ot_io_fault_at(&fx->fault, OT_IO_CALL_FDATASYNC, 1, OT_ERR_IO);
    assert_int_equal(eng_log_flush(fx->log, &flushed), OT_ERR_IO);
    assert_int_equal(eng_log_flushed_end(fx->log), 5);
    uint64_t syncs = fx->fault.counts[OT_IO_CALL_FDATASYNC];
    assert_int_equal(eng_log_flush(fx->log, &flushed), OT_ERR_IO);         /* never asked again */
    assert_int_equal(fx->fault.counts[OT_IO_CALL_FDATASYNC], syncs);
    assert_true(eng_log_read_only(fx->log));
    assert_int_equal(fx_try_append(fx, 1, 10), OT_ERR_IO);
    assert_int_equal(fx_read_all(fx, 0, 10, 1 << 20), 10);
}

static void an_idle_open_log_holds_no_descriptor(void **state)
{
    struct fx *fx = *state;
    struct eng_store_stats stats;
    struct eng_retained retained;
    fx_open(fx, 0, false);
    for (int i = 0; i < 100; i++) fx_append(fx, 1, 1000);
    fx_close(fx);
    fx_open(fx, 0, true);
    eng_store_stats(fx->store, &stats);
    assert_int_equal(stats.open_files, 0);
    fx_append(fx, 1, 1000);
    assert_int_equal(eng_log_retain(fx->log, 0, FX_NOW + 120000, &retained), OT_OK);       /* puts it to sleep */
    assert_int_equal(fx_read_all(fx, 0, 101, 1 << 20), 101);
    assert_int_equal(fx_faults(fx), 0);
    fx_append(fx, 1, 1000);
    assert_int_equal(fx_read_all(fx, 0, 102, 1 << 20), 102);
    fx_close(fx);
}

static void descriptors_stay_within_their_cap(void **state)
{
    struct fx *fx = *state;
    struct eng_store_stats stats;
    fx->files_max = 10;
    fx->config.segment_bytes = 5000;
    fx_open(fx, 0, false);
    for (int i = 0; i < 200; i++) fx_append(fx, 1, 1000);
    assert_int_equal(fx_read_all(fx, 0, 200, 1 << 20), 200);
    eng_store_stats(fx->store, &stats);
    assert_true(stats.open_files <= 10);
    assert_true(stats.evictions_total > 0);
    fx_close(fx);
    assert_int_equal(fx->fault.open_fds, 0);
}

static void mapped_and_written_appends_leave_the_same_bytes(void **state)
{
    struct fx *fx = *state;
    struct eng_store_stats stats;
    for (int mode = ENG_APPEND_PWRITEV; mode <= ENG_APPEND_AUTO; mode++) {
        fx->config.append_io = (enum eng_append_io)mode;
        fx->config.segment_bytes = 3 << 20;
        fx->next_timestamp = FX_NOW;
        fx_open(fx, 0, false);
        for (int i = 0; i < 5000; i++) fx_append(fx, 1, 1000);
        eng_store_stats(fx->store, &stats);
        assert_int_equal(stats.open_maps, mode == ENG_APPEND_PWRITEV ? 0 : 1);
        assert_int_equal(fx_read_all(fx, 0, 5000, 1 << 20), 5000);
        assert_int_equal(fx_faults(fx), 0);
        fx_close(fx);
        assert_int_equal(fx->fault.open_maps, 0);
        char command[2000];
        if (mode == ENG_APPEND_PWRITEV) snprintf(command, sizeof command, "rm -f %s/*.snapshot; mkdir -p %s/want && mv %s/* %s/want", fx->path, fx->root, fx->path, fx->root);
        else snprintf(command, sizeof command, "rm -f %s/*.snapshot; diff -r %s %s/want && rm -rf %s", fx->path, fx->path, fx->root, fx->path);
        assert_int_equal(system(command), 0);
    }
}

static void a_file_that_is_cut_under_its_map_is_an_error_of_that_log_alone(void **state)
{
    struct fx *fx = *state;
    struct eng_recovery recovery;
    struct eng_log *other = NULL;
    char path[400];
    ot_guard_install();                        /* the test framework has handlers of its own */
    fx->config.append_io = ENG_APPEND_MMAP;
    fx_open(fx, 0, false);
    fx_append(fx, 1, 3000);
    snprintf(path, sizeof path, "%s/orders-1", fx->dir);
    struct eng_log_open how = { .dir_path = path, .topic_id = fx->topic_id, .config = fx->config, .wall_ms = FX_NOW };
    assert_int_equal(eng_log_open(fx->store, &how, &other, &recovery), OT_OK);
    fx_cut(fx, 0, ".log", 0);
    assert_int_equal(fx_try_append(fx, 1, 3000), OT_ERR_IO);
    assert_true(eng_log_read_only(fx->log));
    assert_int_equal(eng_log_end_offset(fx->log), 1);
    assert_int_equal(fx_try_append(fx, 1, 10), OT_ERR_IO);
    struct eng_log *mine = fx->log;
    fx->log = other;
    fx_append(fx, 1, 3000);
    assert_int_equal(fx_read_all(fx, 0, 1, 1 << 20), 1);
    assert_int_equal(eng_log_close(mine, false), OT_OK);
    fx_close(fx);
}

static void mapped_bytes_are_bounded(void **state)
{
    struct fx *fx = *state;
    struct eng_store_stats stats;
    fx->config.append_io = ENG_APPEND_MMAP;
    fx->mapped_max = 100;
    fx_open(fx, 0, false);
    for (int i = 0; i < 10; i++) fx_append(fx, 1, 1000);
    eng_store_stats(fx->store, &stats);
    assert_int_equal(stats.open_maps, 0);
    assert_int_equal(stats.mapped_append_bytes, 0);
    assert_int_equal(fx_read_all(fx, 0, 10, 1 << 20), 10);
    fx_close(fx);
}

static void a_lone_small_batch_may_be_appended_inline_when_mapped(void **state)
{
    struct fx *fx = *state;
    fx->config.append_io = ENG_APPEND_MMAP;
    fx_open(fx, 0, false);
    struct fx_batch batch = fx_batch(fx, 0, 1, 100);
    assert_false(eng_log_append_inline(fx->log, &batch.append));           /* nothing is mapped yet */
    eng_sink_free(&batch.sink);
    fx_append(fx, 1, 100);
    batch = fx_batch(fx, 1, 1, 100);
    assert_true(eng_log_append_inline(fx->log, &batch.append));
    batch.append.leader_epoch++;               /* would write the epoch file */
    assert_false(eng_log_append_inline(fx->log, &batch.append));
    eng_sink_free(&batch.sink);
    fx_close(fx);
}

static void a_full_disk_fails_one_append_and_leaves_no_gap(void **state)
{
    struct fx *fx = *state;
    fx_open(fx, 0, false);
    fx_append(fx, 2, 100);
    int64_t bytes = fx_file_bytes(fx, 0, ".log");
    ot_io_fault_at(&fx->fault, OT_IO_CALL_PWRITEV, 1, OT_ERR_NO_SPACE);
    assert_int_equal(fx_try_append(fx, 3, 100), OT_ERR_NO_SPACE);
    assert_int_equal(eng_log_end_offset(fx->log), 2);
    assert_int_equal(fx_file_bytes(fx, 0, ".log"), bytes);
    assert_false(eng_log_read_only(fx->log));
    fx_append(fx, 3, 100);
    assert_int_equal(fx_read_all(fx, 0, 5, 1 << 20), 5);
    fx_close(fx);
}

static void a_short_write_goes_on(void **state)
{
    struct fx *fx = *state;
    fx_open(fx, 0, false);
    fx_append(fx, 2, 100);
    ot_io_fault_at(&fx->fault, OT_IO_CALL_PWRITEV, 1, OT_OK);
    fx_append(fx, 3, 1000);
    assert_true(fx->fault.fired);
    assert_int_equal(fx_read_all(fx, 0, 5, 1 << 20), 5);
    assert_int_equal(fx_faults(fx), 0);
    fx_close(fx);
}

static void times_are_found_by_record(void **state)
{
    struct fx *fx = *state;
    struct eng_time_offset at;
    fx->config.segment_bytes = 20000;
    fx_open(fx, 0, false);
    for (int i = 0; i < 200; i++) fx_append(fx, 5, 100);                    /* offset o has time FX_NOW + o */
    for (int64_t offset = 0; offset < 1000; offset += 13) {
        assert_int_equal(eng_log_for_time(fx->log, FX_NOW + offset, INT64_MAX, &at), OT_OK);
        assert_int_equal(at.offset, offset);
        assert_int_equal(at.timestamp_ms, FX_NOW + offset);
        assert_int_equal(at.leader_epoch, 0);
    }
    assert_int_equal(eng_log_for_time(fx->log, 0, INT64_MAX, &at), OT_OK);
    assert_int_equal(at.offset, 0);
    assert_int_equal(eng_log_for_time(fx->log, FX_NOW + 1000, INT64_MAX, &at), OT_OK);
    assert_int_equal(at.offset, -1);
    assert_int_equal(eng_log_for_time(fx->log, FX_NOW + 500, 500, &at), OT_OK);        /* at the limit: not readable yet */
    assert_int_equal(at.offset, -1);
    eng_log_set_start(fx->log, 503);
    assert_int_equal(eng_log_for_time(fx->log, FX_NOW, INT64_MAX, &at), OT_OK);
    assert_int_equal(at.offset, 503);
    assert_int_equal(eng_log_max_timestamp(fx->log, &at), OT_OK);
    assert_int_equal(at.offset, 999);
    fx_close(fx);
    assert_int_equal(fx_try_open(fx, 0, 503, true), OT_OK);
    assert_int_equal(eng_log_for_time(fx->log, FX_NOW + 700, INT64_MAX, &at), OT_OK);
    assert_int_equal(at.offset, 700);
    assert_int_equal(eng_log_max_timestamp(fx->log, &at), OT_OK);
    assert_int_equal(at.offset, 999);
    fx_close(fx);
}

static void the_largest_timestamp_is_the_first_of_equals(void **state)
{
    struct fx *fx = *state;
    struct eng_time_offset at;
    fx_open(fx, 0, false);
    fx_append(fx, 3, 10);
    fx->next_timestamp = FX_NOW + 1000;
    fx_append(fx, 1, 10);                                                   /* offset 3 */
    fx->next_timestamp = FX_NOW + 1000;
    fx_append(fx, 1, 10);
    fx->next_timestamp = FX_NOW;
    fx_append(fx, 1, 10);
    assert_int_equal(eng_log_max_timestamp(fx->log, &at), OT_OK);
    assert_int_equal(at.offset, 3);
    assert_int_equal(at.timestamp_ms, FX_NOW + 1000);
    eng_log_set_start(fx->log, 5);                                          /* both are deleted */
    assert_int_equal(eng_log_max_timestamp(fx->log, &at), OT_OK);
    assert_int_equal(at.offset, 5);
    fx_close(fx);
}

static void another_topic_id_is_refused(void **state)
{
    struct fx *fx = *state;
    fx_open(fx, 0, false);
    fx_append(fx, 1, 10);
    fx_close(fx);
    fx->topic_id.bytes[3] = 77;
    assert_int_equal(fx_try_open(fx, 0, 0, true), OT_ERR_MISMATCH);
    fx->topic_id.bytes[3] = 0;
    assert_int_equal(fx_try_open(fx, 0, 0, true), OT_OK);
    fx_close(fx);
}

static void an_epoch_is_on_disk_before_its_first_record(void **state)
{
    struct fx *fx = *state;
    fx_open(fx, 0, false);
    fx_append(fx, 1, 10);
    fx->epoch = 3;
    ot_io_fault_at(&fx->fault, OT_IO_CALL_RENAME, 1, OT_ERR_IO);           /* the epoch file cannot be replaced */
    int64_t bytes = fx_file_bytes(fx, 0, ".log");
    assert_int_not_equal(fx_try_append(fx, 1, 10), OT_OK);
    assert_int_equal(fx_file_bytes(fx, 0, ".log"), bytes);
    fx_append(fx, 1, 10);
    assert_int_equal(eng_epochs_latest(eng_log_epochs(fx->log)), 3);
    assert_int_equal(eng_epochs_for_offset(eng_log_epochs(fx->log), 1), 3);
    fx->epoch = 2;
    assert_int_equal(fx_try_append(fx, 1, 10), OT_ERR_FENCED_LEADER_EPOCH);
    fx_close(fx);
}

static void deleting_a_log_removes_its_folder_while_a_reader_holds_it(void **state)
{
    struct fx *fx = *state;
    struct eng_read_result result;
    char byte, command[1200];
    fx_open(fx, 0, false);
    fx_append(fx, 1, 1000);
    struct eng_read how = { .offset = 0, .limit_offset = 1, .max_bytes = 10000, .may_block = true };
    assert_int_equal(eng_log_read(fx->log, &how, &result), OT_OK);
    assert_int_equal(eng_log_retire(fx->log), OT_OK);
    assert_int_equal(access(fx->path, F_OK), -1);
    struct eng_log *old = fx->log;
    fx_open(fx, 0, false);                     /* the name is free */
    fx_append(fx, 2, 10);
    struct eng_read_result again;
    struct eng_retained retained;
    int64_t flushed = 0;
    assert_int_equal(eng_log_read(old, &how, &again), OT_ERR_CLOSED);
    assert_int_equal(eng_log_flush(old, &flushed), OT_ERR_CLOSED);
    assert_int_equal(eng_log_roll(old, NULL, FX_NOW), OT_ERR_CLOSED);
    assert_int_equal(eng_log_retain(old, 0, FX_NOW, &retained), OT_ERR_CLOSED);
    struct eng_time_offset found;
    for (int i = 0; i < 2; i++) {              /* before its last user goes, and again */
        assert_int_equal(eng_log_remove(old), OT_OK);
        snprintf(command, sizeof command, "test \"$(ls -d %s*)\" = %s", fx->path, fx->path);
        assert_int_equal(system(command), 0);
        assert_int_equal(eng_log_read(old, &how, &again), OT_ERR_CLOSED);
        assert_int_equal(eng_log_for_time(old, 0, 1, &found), OT_ERR_CLOSED);
        assert_int_equal(eng_log_max_timestamp(old, &found), OT_ERR_CLOSED);
        assert_int_equal(eng_log_segments(old, NULL, 0), 0);
    }
    assert_int_equal(eng_log_delete(old), OT_OK);
    assert_int_equal(fx_read_all(fx, 0, 2, 1000), 2);
    assert_int_equal(eng_log_delete(fx->log), OT_OK);
    fx->log = NULL;
    assert_int_equal(access(fx->path, F_OK), -1);
    assert_int_equal(pread(result.spans[0].fd, &byte, 1, 0), 1);
    result.pin->release(result.pin);
    eng_store_close(fx->store);
    fx->store = NULL;
    assert_int_equal(fx->fault.open_fds, 0);
    snprintf(command, sizeof command, "test -z \"$(ls %s)\"", fx->dir);
    assert_int_equal(system(command), 0);
}

static void a_log_that_is_set_aside_is_whole_under_its_other_name(void **state)
{
    struct fx *fx = *state;
    struct eng_read_result result;
    char byte, command[1200];
    fx_open(fx, 0, false);
    for (int i = 0; i < 3; i++) fx_append(fx, 2, 1000);
    struct eng_read how = { .offset = 0, .limit_offset = 6, .max_bytes = 10000, .may_block = true };
    assert_int_equal(eng_log_read(fx->log, &how, &result), OT_OK);
    assert_int_equal(eng_log_set_aside(fx->log), OT_OK);
    assert_int_equal(eng_log_set_aside(fx->log), OT_OK);
    assert_int_equal(eng_log_remove(fx->log), OT_OK);          /* takes nothing of it */
    assert_int_equal(access(fx->path, F_OK), -1);
    struct eng_read_result again;
    assert_int_equal(eng_log_read(fx->log, &how, &again), OT_ERR_CLOSED);
    assert_int_equal(eng_log_delete(fx->log), OT_OK);
    assert_int_equal(pread(result.spans[0].fd, &byte, 1, 0), 1);
    result.pin->release(result.pin);
    fx_open(fx, 0, false);                     /* the name is free, and the scan of a start leaves the other one alone */
    assert_int_equal(eng_log_end_offset(fx->log), 0);
    assert_int_equal(eng_log_delete(fx->log), OT_OK);
    snprintf(command, sizeof command, "mv %s.*-stray %s", fx->path, fx->path);
    assert_int_equal(system(command), 0);
    fx_open(fx, 0, false);
    assert_int_equal(fx_read_all(fx, 0, 6, 1000), 6);
    fx_close(fx);
}

/* Freeing gigabytes at once holds up everybody else on that disk. */
static void a_big_deleted_file_is_shortened_step_by_step_once_nobody_reads_it(void **state)
{
    struct fx *fx = *state;
    struct eng_read_result result;
    fx->config.segment_bytes = 1 << 30;
    fx_open(fx, 0, false);
    for (int i = 0; i < 2; i++) fx_append(fx, 1, 70 << 20);
    struct eng_read how = { .offset = 0, .limit_offset = 2, .max_bytes = 100, .min_one = true, .may_block = true };
    assert_int_equal(eng_log_read(fx->log, &how, &result), OT_OK);
    uint64_t cuts = fx->fault.counts[OT_IO_CALL_TRUNCATE];
    assert_int_equal(eng_log_delete(fx->log), OT_OK);
    fx->log = NULL;
    assert_false(eng_store_reap(fx->store, UINT64_MAX));
    assert_int_equal(fx->fault.counts[OT_IO_CALL_TRUNCATE], cuts);         /* still read */
    result.pin->release(result.pin);
    assert_true(eng_store_reap(fx->store, 1));                             /* a little at a time */
    assert_int_equal(fx->fault.counts[OT_IO_CALL_TRUNCATE], cuts + 1);
    assert_true(eng_store_reap(fx->store, 1));
    assert_int_equal(fx->fault.counts[OT_IO_CALL_TRUNCATE], cuts + 2);
    assert_false(eng_store_reap(fx->store, 1));
    struct eng_store_stats stats;
    eng_store_stats(fx->store, &stats);
    assert_int_equal(stats.open_files, 0);
    fx_close(fx);
}

#define LOG_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

TEST_MAIN(
    LOG_TEST(an_empty_log_has_no_files_and_answers_questions),
    LOG_TEST(what_was_appended_is_read_back_from_every_offset),
    LOG_TEST(a_read_stops_below_its_limit),
    LOG_TEST(the_first_batch_is_whole_only_when_asked),
    LOG_TEST(a_tail_read_needs_no_file),
    LOG_TEST(a_gathered_append_is_one_write),
    LOG_TEST(it_rolls_by_size_time_index_and_relative_offset),
    LOG_TEST(flush_syncs_each_file_once_and_a_new_segment_with_its_folder),
    LOG_TEST(a_failed_flush_is_final),
    LOG_TEST(an_idle_open_log_holds_no_descriptor),
    LOG_TEST(descriptors_stay_within_their_cap),
    LOG_TEST(mapped_and_written_appends_leave_the_same_bytes),
    LOG_TEST(a_file_that_is_cut_under_its_map_is_an_error_of_that_log_alone),
    LOG_TEST(mapped_bytes_are_bounded),
    LOG_TEST(a_lone_small_batch_may_be_appended_inline_when_mapped),
    LOG_TEST(a_full_disk_fails_one_append_and_leaves_no_gap),
    LOG_TEST(a_short_write_goes_on),
    LOG_TEST(times_are_found_by_record),
    LOG_TEST(the_largest_timestamp_is_the_first_of_equals),
    LOG_TEST(another_topic_id_is_refused),
    LOG_TEST(an_epoch_is_on_disk_before_its_first_record),
    LOG_TEST(deleting_a_log_removes_its_folder_while_a_reader_holds_it),
    LOG_TEST(a_log_that_is_set_aside_is_whole_under_its_other_name),
    LOG_TEST(a_big_deleted_file_is_shortened_step_by_step_once_nobody_reads_it))
