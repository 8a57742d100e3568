/* Retention, DeleteRecords, and that what is published as the log start can be read. */
#include "testing.h"
#include "log_fixture.h"
#include <pthread.h>
#include <utime.h>

static int setup(void **state)
{
    struct fx *fx = malloc(sizeof *fx);
    fx_init(fx);
    fx->config.segment_bytes = 3000;
    *state = fx;
    return 0;
}

static int teardown(void **state)
{
    fx_free(*state);
    free(*state);
    return 0;
}

static struct eng_retained retain(struct fx *fx, int64_t limit, int64_t wall_ms)
{
    struct eng_retained retained;
    assert_int_equal(eng_log_retain(fx->log, limit, wall_ms, &retained), OT_OK);
    return retained;
}

static void by_size_whole_segments_go_from_the_front(void **state)
{
    struct fx *fx = *state;
    fx_open(fx, 0, false);
    for (int i = 0; i < 20; i++) fx_append(fx, 1, 1000);                    /* two to a segment */
    uint64_t bytes = eng_log_size_bytes(fx->log);
    assert_int_equal(retain(fx, 20, FX_NOW).segments, 0);                   /* no limit */
    fx->config.retention_bytes = (int64_t)bytes / 2;
    eng_log_configure(fx->log, &fx->config);
    struct eng_retained got = retain(fx, 20, FX_NOW);
    assert_int_equal(got.segments, 5);
    assert_int_equal(got.log_start_offset, 10);
    assert_int_equal(eng_log_size_bytes(fx->log), bytes - got.bytes);
    assert_true(eng_log_size_bytes(fx->log) >= bytes / 2);
    assert_int_equal(fx_file_bytes(fx, 0, ".log"), -1);
    assert_int_equal(fx_file_bytes(fx, 0, ".index"), -1);
    assert_int_equal(fx_read_all(fx, 10, 20, 1 << 20), 10);
    assert_int_equal(fx_faults(fx), 0);
    fx_close(fx);
}

/* A hole behind a segment that was left would make the next start cut everything behind it. */
static void what_could_not_be_unlinked_goes_before_anything_behind_it(void **state)
{
    struct fx *fx = *state;
    struct eng_retained retained;
    fx_open(fx, 0, false);
    for (int i = 0; i < 20; i++) fx_append(fx, 1, 1000);                    /* two to a segment */
    fx->config.retention_bytes = 0;
    eng_log_configure(fx->log, &fx->config);
    ot_io_fault_at(&fx->fault, OT_IO_CALL_UNLINK, 1, OT_ERR_IO);
    fx->fault.sticky = true;
    for (int i = 0; i < 3; i++) assert_int_equal(eng_log_retain(fx->log, 20, FX_NOW, &retained), OT_ERR_IO);
    assert_int_equal(eng_log_start_offset(fx->log), 2);
    assert_true(fx_file_bytes(fx, 0, ".log") > 0);
    assert_true(fx_file_bytes(fx, 2, ".log") > 0);
    ot_io_fault_at(&fx->fault, OT_IO_CALL_UNLINK, 0, OT_OK);
    assert_int_equal(retain(fx, 20, FX_NOW).log_start_offset, 18);
    for (int64_t base = 0; base < 18; base += 2) assert_int_equal(fx_file_bytes(fx, base, ".log"), -1);
    fx_crash(fx);
    fx->generation++;
    fx_open(fx, 0, false);
    assert_int_equal(eng_log_end_offset(fx->log), 20);
    fx_close(fx);
}

static void nothing_above_the_high_watermark_goes(void **state)
{
    struct fx *fx = *state;
    fx_open(fx, 0, false);
    for (int i = 0; i < 20; i++) fx_append(fx, 1, 1000);
    fx->config.retention_bytes = 0;
    eng_log_configure(fx->log, &fx->config);
    assert_int_equal(retain(fx, 5, FX_NOW).log_start_offset, 4);
    assert_int_equal(retain(fx, 20, FX_NOW).log_start_offset, 18);          /* the active segment is the writer's to roll */
    fx_close(fx);
}

static void by_time_the_earlier_of_record_and_append_counts(void **state)
{
    struct fx *fx = *state;
    fx->config.retention_ms = 1000;
    fx_open(fx, 0, false);
    for (int i = 0; i < 2; i++) fx_append(fx, 1, 1000);
    fx->next_timestamp = FX_NOW + 86400000LL * 3650;                        /* dated ten years ahead */
    for (int i = 0; i < 2; i++) fx_append(fx, 1, 1000);
    fx->next_timestamp = FX_NOW;
    for (int i = 0; i < 4; i++) fx_append(fx, 1, 1000);
    assert_int_equal(retain(fx, 8, FX_NOW + 900).segments, 0);
    assert_int_equal(retain(fx, 8, FX_NOW + 1100).log_start_offset, 6);     /* the future record pinned nothing */
    struct eng_retained got = retain(fx, 8, FX_NOW + 1100);
    assert_true(got.roll_wanted);
    assert_int_equal(eng_log_roll(fx->log, NULL, FX_NOW + 1100), OT_OK);
    got = retain(fx, 8, FX_NOW + 1100);
    assert_false(got.roll_wanted);
    assert_int_equal(got.log_start_offset, 8);
    assert_int_equal(eng_log_end_offset(fx->log), 8);
    fx_crash(fx);
    fx_open(fx, 0, false);                                                  /* an emptied log remembers where it was */
    assert_int_equal(eng_log_start_offset(fx->log), 8);
    assert_int_equal(eng_log_end_offset(fx->log), 8);
    fx_close(fx);
}

static void the_append_time_survives_a_restart_in_the_mtime(void **state)
{
    struct fx *fx = *state;
    char path[500];
    fx->config.retention_ms = 1000;
    fx->next_timestamp = FX_NOW + 86400000LL * 3650;
    fx_open(fx, 0, false);
    for (int i = 0; i < 4; i++) fx_append(fx, 1, 1000);
    fx_close(fx);
    fx_file(fx, 0, ".log", path, sizeof path);
    struct utimbuf times = { FX_NOW / 1000, FX_NOW / 1000 };
    assert_int_equal(utime(path, &times), 0);
    fx_open(fx, 0, true);
    assert_int_equal(retain(fx, 4, FX_NOW + 500).segments, 0);
    assert_int_equal(retain(fx, 4, FX_NOW + 2500).log_start_offset, 2);
    fx_close(fx);
}

static void deleted_records_are_not_read_and_their_segments_go(void **state)
{
    struct fx *fx = *state;
    struct eng_read_result result;
    fx->config.delete_enabled = false;         /* holds for compacted topics too */
    fx_open(fx, 0, false);
    for (int i = 0; i < 20; i++) fx_append(fx, 1, 1000);
    eng_log_set_start(fx->log, 7);
    eng_log_set_start(fx->log, 5);             /* never lowers */
    assert_int_equal(eng_log_start_offset(fx->log), 7);
    struct eng_read how = { .offset = 6, .limit_offset = 20, .max_bytes = 100, .min_one = true, .may_block = true };
    assert_int_equal(eng_log_read(fx->log, &how, &result), OT_ERR_OFFSET_OUT_OF_RANGE);
    assert_int_equal(fx_read_all(fx, 7, 20, 1), 13);
    assert_int_equal(retain(fx, 20, FX_NOW).segments, 3);
    assert_int_equal(eng_log_start_offset(fx->log), 7);
    assert_int_equal(fx_read_all(fx, 7, 20, 1), 13);
    eng_log_set_start(fx->log, 1000);          /* not past the end */
    assert_int_equal(eng_log_start_offset(fx->log), 20);
    fx_close(fx);
}

/* Readers race with appends, rolls, truncations and retention: the published start is always readable, and each reader sees every offset once, in order. */
struct race { struct fx *fx; _Atomic bool stop; _Atomic uint32_t reads, skips, faults, cuts; };

static void *race_reader(void *arg)
{
    struct race *race = arg;
    int64_t at = 0;
    while (!atomic_load(&race->stop)) {
        struct eng_read_result result = { 0 };
        uint32_t cuts = atomic_load(&race->cuts);
        int64_t start = eng_log_start_offset(race->fx->log), end = eng_log_end_offset(race->fx->log);
        at = OT_MIN(at, end);
        if (at < start) at = start;
        if (at >= end) continue;
        struct eng_read how = { .offset = at, .limit_offset = end, .max_bytes = 5000, .min_one = true, .may_block = true };
        enum ot_err err = eng_log_read(race->fx->log, &how, &result);
        if (err == OT_ERR_OFFSET_OUT_OF_RANGE && eng_log_start_offset(race->fx->log) > at) {
            atomic_fetch_add(&race->skips, 1);
            continue;
        }
        if (cuts % 2 != 0 || atomic_load(&race->cuts) != cuts) {       /* the tail goes (odd) or went while we read: what we have is good, nothing is an answer too */
            if (result.pin != NULL) result.pin->release(result.pin);
            at = OT_MIN(at, eng_log_end_offset(race->fx->log));
            continue;
        }
        if (err != OT_OK || result.bytes == 0 || result.first_base_offset != at) {
            atomic_fetch_add(&race->faults, 1);
            break;
        }
        uint8_t header[61];
        for (uint32_t i = 0; i < result.span_count; i++)
            if (pread(result.spans[i].fd, header, sizeof header, (off_t)result.spans[i].pos) != (ssize_t)sizeof header || header[16] != 2) atomic_fetch_add(&race->faults, 1);
        result.pin->release(result.pin);
        atomic_fetch_add(&race->reads, 1);
        at++;                                  /* one record a batch */
    }
    return NULL;
}

static void *race_keeper(void *arg)
{
    struct race *race = arg;
    while (!atomic_load(&race->stop)) {
        struct eng_retained retained;
        int64_t flushed = 0;
        if (eng_log_flush(race->fx->log, &flushed) != OT_OK) atomic_fetch_add(&race->faults, 1);
        if (eng_log_retain(race->fx->log, flushed - 100, FX_NOW, &retained) != OT_OK) atomic_fetch_add(&race->faults, 1);
    }
    return NULL;
}

static void readers_writer_and_retention_do_not_disturb_each_other(void **state)
{
    struct fx *fx = *state;
    struct race race = { .fx = fx };
    pthread_t readers[2], keeper;
    fx->files_max = 12;
    fx->config.segment_bytes = 5000;
    fx->config.retention_bytes = 40000;
    fx_open(fx, 0, false);
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&readers[i], NULL, race_reader, &race), 0);
    assert_int_equal(pthread_create(&keeper, NULL, race_keeper, &race), 0);
    for (int i = 0; i < 3000 && atomic_load(&race.faults) == 0; i++) {
        fx_append(fx, 1, 300);
        if (i % 100 != 99) continue;
        atomic_fetch_add(&race.cuts, 1);
        assert_int_equal(eng_log_truncate(fx->log, eng_log_end_offset(fx->log) - 30, FX_NOW), OT_OK);
        atomic_fetch_add(&race.cuts, 1);
    }
    atomic_store(&race.stop, true);
    for (int i = 0; i < 2; i++) pthread_join(readers[i], NULL);
    pthread_join(keeper, NULL);
    assert_int_equal(race.faults, 0);
    assert_true(race.reads > 0);
    assert_true(eng_log_start_offset(fx->log) > 0);
    assert_int_equal(fx_faults(fx), 0);
    fx_close(fx);
    assert_int_equal(fx->fault.open_fds, 0);
}

#define LOG_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

TEST_MAIN(
    LOG_TEST(by_size_whole_segments_go_from_the_front),
    LOG_TEST(what_could_not_be_unlinked_goes_before_anything_behind_it),
    LOG_TEST(nothing_above_the_high_watermark_goes),
    LOG_TEST(by_time_the_earlier_of_record_and_append_counts),
    LOG_TEST(the_append_time_survives_a_restart_in_the_mtime),
    LOG_TEST(deleted_records_are_not_read_and_their_segments_go),
    LOG_TEST(readers_writer_and_retention_do_not_disturb_each_other))
