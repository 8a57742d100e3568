/* Truncation: nothing of the cut tail comes back, readers keep what they hold, and the steps come in the order that a crash needs. */
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

static void a_cut_goes_down_to_a_batch_start_and_the_log_goes_on(void **state)
{
    struct fx *fx = *state;
    fx->config.segment_bytes = 20000;
    fx_open(fx, 0, false);
    for (int i = 0; i < 100; i++) fx_append(fx, 5, 200);
    assert_true(eng_log_segments(fx->log, NULL, 0) > 4);
    static const int64_t cuts[] = { 499, 452, 450, 301, 77, 3 };
    for (size_t i = 0; i < OT_ARRAY_COUNT(cuts); i++) {
        int64_t want = cuts[i] / 5 * 5;
        assert_int_equal(eng_log_truncate(fx->log, cuts[i], FX_NOW), OT_OK);
        assert_int_equal(eng_log_end_offset(fx->log), want);
        assert_int_equal(fx_faults(fx), 0);
        if (want > 0) assert_int_equal(fx_read_all(fx, 0, want, 1 << 20), want);
        fx_append(fx, 5, 100);                 /* and on */
        assert_int_equal(fx_read_all(fx, 0, want + 5, 1 << 20), want + 5);
        assert_int_equal(fx_faults(fx), 0);
    }
    int64_t end = eng_log_end_offset(fx->log);
    assert_int_equal(eng_log_truncate(fx->log, end, FX_NOW), OT_OK);
    assert_int_equal(eng_log_end_offset(fx->log), end);
    fx_close(fx);
    fx_open(fx, 0, true);
    assert_int_equal(eng_log_end_offset(fx->log), end);
    assert_int_equal(fx_faults(fx), 0);
    fx_close(fx);
}

static void a_reader_that_holds_the_tail_still_reads_it(void **state)
{
    struct fx *fx = *state;
    struct eng_read_result result;
    fx_open(fx, 0, false);
    for (int i = 0; i < 10; i++) fx_append(fx, 1, 1000);
    struct eng_read how = { .offset = 5, .limit_offset = 10, .max_bytes = 1 << 20, .may_block = true };
    assert_int_equal(eng_log_read(fx->log, &how, &result), OT_OK);
    uint8_t *before = malloc(result.bytes), *after = malloc(result.bytes);
    assert_int_equal(pread(result.spans[0].fd, before, result.bytes, (off_t)result.spans[0].pos), (ssize_t)result.bytes);
    assert_int_equal(eng_log_truncate(fx->log, 3, FX_NOW), OT_OK);
    for (int i = 0; i < 10; i++) fx_append(fx, 1, 900);
    assert_int_equal(pread(result.spans[0].fd, after, result.bytes, (off_t)result.spans[0].pos), (ssize_t)result.bytes);
    assert_memory_equal(before, after, result.bytes);
    result.pin->release(result.pin);
    free(before);
    free(after);
    assert_int_equal(fx_read_all(fx, 0, 13, 1 << 20), 13);
    assert_int_equal(fx_faults(fx), 0);
    fx_close(fx);
    assert_int_equal(fx->fault.open_fds, 0);
}

/* A disk that notes the calls of interest in order. */
struct recorder { struct ot_io io; struct ot_io_ops ops; struct ot_io *under; char text[20000]; bool on; };
static struct recorder *recorder;

static void note(const char *what, const char *path)
{
    if (!recorder->on) return;
    const char *slash = path == NULL ? NULL : strrchr(path, '/');
    size_t used = strlen(recorder->text);
    snprintf(recorder->text + used, sizeof recorder->text - used, "%s %s\n", what, slash == NULL ? "" : slash + 1);
}

static enum ot_err rec_unlink(struct ot_io *io, const char *path) { (void)io; note("unlink", path); return recorder->under->ops->unlink(recorder->under, path); }
static enum ot_err rec_rename(struct ot_io *io, const char *from, const char *to) { (void)io; note("rename", to); return recorder->under->ops->rename(recorder->under, from, to); }
static enum ot_err rec_truncate(struct ot_io *io, int fd, uint64_t bytes) { (void)io; note("truncate", NULL); return recorder->under->ops->truncate(recorder->under, fd, bytes); }
static enum ot_err rec_fdatasync(struct ot_io *io, int fd) { (void)io; note("fdatasync", NULL); return recorder->under->ops->fdatasync(recorder->under, fd); }
static enum ot_err rec_sync_dir(struct ot_io *io, const char *path) { (void)io; note("sync_dir", path); return recorder->under->ops->sync_dir(recorder->under, path); }

static void record(struct recorder *r)
{
    recorder = r;
    r->under = ot_io_real();
    r->ops = *r->under->ops;
    r->ops.unlink = rec_unlink;
    r->ops.rename = rec_rename;
    r->ops.truncate = rec_truncate;
    r->ops.fdatasync = rec_fdatasync;
    r->ops.sync_dir = rec_sync_dir;
    r->io.ops = &r->ops;
}

/* Each of the words comes, in this order. */
static void assert_in_order(const char *text, const char *const *words, size_t count)
{
    const char *at = text;
    for (size_t i = 0; i < count; i++) {
        const char *found = strstr(at, words[i]);
        if (found == NULL) fail_msg("'%s' does not come (in time) in:\n%s", words[i], text);
        at = found + strlen(words[i]);
    }
}

static void the_steps_of_a_truncation_come_in_order(void **state)
{
    struct fx *fx = *state;
    static struct recorder r;
    memset(&r, 0, sizeof r);
    record(&r);
    fx->fault.under = &r.io;
    fx->config.segment_bytes = 3000;
    fx_open(fx, 0, false);
    int64_t flushed = 0;
    for (int i = 0; i < 12; i++) fx_append(fx, 1, 1000);
    assert_int_equal(eng_log_flush(fx->log, &flushed), OT_OK);
    struct eng_checkpoint_row row = { "orders", 0, flushed };
    assert_int_equal(eng_store_checkpoint_write(fx->store, 0, ENG_CHECKPOINT_RECOVERY, &row, 1, true), OT_OK);
    r.on = true;
    assert_int_equal(eng_log_truncate(fx->log, 3, FX_NOW), OT_OK);
    r.on = false;
    static const char *const words[] = {
        "fdatasync", "rename recovery-point-offset-checkpoint",            /* recovery will look at what is appended after the cut */
        "unlink 00000000000000000010.log", "unlink 00000000000000000008.log", "unlink 00000000000000000006.log", "unlink 00000000000000000004.log",   /* newest first */
        "truncate", "fdatasync", "sync_dir orders-0",                      /* then the cut itself, durable before anything is appended */
    };
    assert_in_order(r.text, words, OT_ARRAY_COUNT(words));
    assert_int_equal(eng_log_flushed_end(fx->log), 3);
    fx_close(fx);
}

struct row { int64_t offset; };
static void take_row(void *arg, const struct eng_checkpoint_row *row) { ((struct row *)arg)->offset = row->offset; }

static void a_stale_checkpoint_cannot_undo_a_truncation(void **state)
{
    struct fx *fx = *state;
    int64_t flushed = 0;
    struct row got = { -1 };
    fx_open(fx, 0, false);
    for (int i = 0; i < 10; i++) fx_append(fx, 1, 100);
    assert_int_equal(eng_log_flush(fx->log, &flushed), OT_OK);
    struct eng_checkpoint_row row = { "orders", 0, flushed };
    assert_int_equal(eng_store_checkpoint_write(fx->store, 0, ENG_CHECKPOINT_RECOVERY, &row, 1, true), OT_OK);
    assert_int_equal(eng_log_truncate(fx->log, 4, FX_NOW), OT_OK);
    assert_int_equal(eng_store_checkpoint_load(fx->store, 0, ENG_CHECKPOINT_RECOVERY, take_row, &got), OT_OK);
    assert_int_equal(got.offset, 4);
    for (int i = 0; i < 10; i++) fx_append(fx, 1, 100);
    /* rows that were gathered before the cut are written after it */
    assert_int_equal(eng_store_checkpoint_write(fx->store, 0, ENG_CHECKPOINT_RECOVERY, &row, 1, true), OT_OK);
    assert_int_equal(eng_store_checkpoint_load(fx->store, 0, ENG_CHECKPOINT_RECOVERY, take_row, &got), OT_OK);
    assert_int_equal(got.offset, 4);
    fx_close(fx);
}

/* Segments below it may be shorter by now: above it recovery takes a hole between two for lost records. */
static void a_stale_checkpoint_cannot_undo_what_a_compaction_relies_upon(void **state)
{
    struct fx *fx = *state;
    int64_t flushed = 0;
    struct row got = { -1 };
    fx_open(fx, 0, false);
    struct eng_checkpoint_row row = { "orders", 0, eng_log_flushed_end(fx->log) };         /* gathered, and not written yet */
    for (int i = 0; i < 10; i++) fx_append(fx, 1, 100);
    assert_int_equal(eng_log_flush(fx->log, &flushed), OT_OK);
    assert_int_equal(eng_store_recovery_raise(fx->store, 0, "orders-0", 10), OT_OK);
    assert_int_equal(eng_store_checkpoint_write(fx->store, 0, ENG_CHECKPOINT_RECOVERY, &row, 1, true), OT_OK);
    assert_int_equal(eng_store_checkpoint_load(fx->store, 0, ENG_CHECKPOINT_RECOVERY, take_row, &got), OT_OK);
    assert_int_equal(got.offset, 10);
    fx_close(fx);
}

static void a_flush_that_a_truncation_overtook_counts_for_nothing(void **state)
{
    struct fx *fx = *state;
    fx_open(fx, 0, false);
    for (int i = 0; i < 10; i++) fx_append(fx, 1, 100);
    int64_t flushed = 0;
    assert_int_equal(eng_log_flush(fx->log, &flushed), OT_OK);
    assert_int_equal(eng_log_truncate(fx->log, 4, FX_NOW), OT_OK);
    for (int i = 0; i < 3; i++) fx_append(fx, 1, 100);
    assert_int_equal(eng_log_flushed_end(fx->log), 4);
    assert_int_equal(eng_log_flush(fx->log, &flushed), OT_OK);
    assert_int_equal(flushed, 7);
    fx_close(fx);
}

static void starting_at_an_offset_is_remembered_by_an_empty_segment(void **state)
{
    struct fx *fx = *state;
    fx_open(fx, 0, false);
    for (int i = 0; i < 5; i++) fx_append(fx, 1, 100);
    fx->epoch = 1;
    fx_append(fx, 1, 100);
    assert_int_equal(eng_log_start_at(fx->log, 1000), OT_OK);
    assert_int_equal(eng_log_start_offset(fx->log), 1000);
    assert_int_equal(eng_log_end_offset(fx->log), 1000);
    assert_int_equal(eng_epochs_latest(eng_log_epochs(fx->log)), -1);
    fx_crash(fx);
    fx_open(fx, 0, false);
    assert_int_equal(eng_log_start_offset(fx->log), 1000);
    assert_int_equal(eng_log_end_offset(fx->log), 1000);
    fx_append(fx, 2, 100);
    assert_int_equal(fx_read_all(fx, 1000, 1002, 1000), 2);
    struct eng_read how = { .offset = 3, .limit_offset = 10, .max_bytes = 100, .may_block = true };
    struct eng_read_result result;
    assert_int_equal(eng_log_read(fx->log, &how, &result), OT_ERR_OFFSET_OUT_OF_RANGE);
    fx_close(fx);
}

/* Nothing was written and nothing synced: the flushed end is believed by the leader, so the folder has to be on the disk with it. */
static void starting_a_new_log_at_an_offset_syncs_its_folder_first(void **state)
{
    struct fx *fx = *state;
    uint32_t synced = 0;
    for (uint64_t n = 1; n < 20; n++) {
        fx_open(fx, 0, false);
        ot_io_fault_at(&fx->fault, OT_IO_CALL_SYNC_DIR, n, OT_ERR_IO);
        enum ot_err err = eng_log_start_at(fx->log, 1000);
        bool fired = fx->fault.fired;
        ot_io_fault_at(&fx->fault, OT_IO_CALL_ANY, 0, OT_OK);
        assert_int_equal(err, fired ? OT_ERR_IO : OT_OK);
        assert_int_equal(eng_log_flushed_end(fx->log), fired ? 0 : 1000);
        assert_int_equal(eng_log_delete(fx->log), OT_OK);
        fx->log = NULL;
        fx_close(fx);
        if (!fired) break;
        synced++;
    }
    assert_int_equal(synced, 2);               /* what is in it, and the folder in its parent */
}

static void a_cut_below_the_first_segment_begins_anew_there(void **state)
{
    struct fx *fx = *state;
    fx_open(fx, 0, false);
    assert_int_equal(eng_log_start_at(fx->log, 100), OT_OK);
    fx_append(fx, 5, 100);
    assert_int_equal(eng_log_truncate(fx->log, 50, FX_NOW), OT_OK);
    assert_int_equal(eng_log_start_offset(fx->log), 50);
    assert_int_equal(eng_log_end_offset(fx->log), 50);
    fx_append(fx, 5, 100);
    assert_int_equal(fx_read_all(fx, 50, 55, 1000), 5);
    fx_close(fx);
}

static void a_mapped_tail_is_cut_too(void **state)
{
    struct fx *fx = *state;
    fx->config.append_io = ENG_APPEND_MMAP;
    fx_open(fx, 0, false);
    for (int i = 0; i < 20; i++) fx_append(fx, 1, 1000);
    assert_int_equal(eng_log_truncate(fx->log, 7, FX_NOW), OT_OK);
    for (int i = 0; i < 20; i++) fx_append(fx, 1, 500);
    assert_int_equal(fx_read_all(fx, 0, 27, 1 << 20), 27);
    assert_int_equal(fx_faults(fx), 0);
    fx_crash(fx);
    fx_open(fx, 0, false);
    assert_int_equal(eng_log_end_offset(fx->log), 27);
    assert_int_equal(fx_faults(fx), 0);
    fx_close(fx);
}

/* Whole batches, one behind the other, in a file that is named as a segment. */
static void assert_kept(const char *folder, const struct eng_kept *kept)
{
    char path[600], *data;
    size_t bytes;
    struct eng_batch_piece piece;
    int64_t at = kept->first_offset;
    uint32_t batches = 0;
    snprintf(path, sizeof path, "%s/%020" PRId64 ".log", folder, kept->first_offset);
    assert_int_equal(ot_io_read_file(ot_io_real(), path, 1 << 20, &data, &bytes), OT_OK);
    assert_int_equal(bytes, kept->bytes);
    struct ot_reader cursor = ot_reader_over((const uint8_t *)data, bytes);
    for (; eng_batch_split(&cursor, &piece) == OT_OK; batches++) {
        struct eng_batch_info info;
        assert_int_equal(eng_batch_parse(piece.data, piece.bytes, &info), OT_OK);
        assert_int_equal(eng_batch_check_crc(piece.data, &info), OT_OK);
        assert_int_equal(info.base_offset, at);
        at = eng_batch_last_offset(&info) + 1;
    }
    assert_int_equal(ot_reader_left(&cursor), 0);
    assert_int_equal(at, kept->end_offset);
    assert_int_equal(batches, kept->batches);
    free(data);
}

static void what_will_be_cut_is_kept_as_a_segment_of_its_own(void **state)
{
    struct fx *fx = *state;
    struct eng_kept kept;
    char folder[500];
    fx->config.segment_bytes = 20000;
    fx_open(fx, 0, false);
    for (int i = 0; i < 100; i++) fx_append(fx, 5, 200);
    assert_true(eng_log_segments(fx->log, NULL, 0) > 4);       /* more of them than one read gives */
    snprintf(folder, sizeof folder, "%s/kept", fx->root);
    assert_int_equal(eng_log_keep(fx->log, 22, UINT64_MAX, folder, &kept), OT_OK);
    assert_true(kept.all && kept.first_offset == 20 && kept.end_offset == 500 && kept.batches == 96);
    assert_kept(folder, &kept);
    const uint64_t all = kept.bytes;
    snprintf(folder, sizeof folder, "%s/part", fx->root);
    assert_int_equal(eng_log_keep(fx->log, 20, all / 2, folder, &kept), OT_OK);
    assert_true(!kept.all && kept.bytes <= all / 2 && kept.bytes > all / 2 - 3000 && kept.end_offset % 5 == 0);
    assert_kept(folder, &kept);
    snprintf(folder, sizeof folder, "%s/none", fx->root);
    assert_int_equal(eng_log_keep(fx->log, 20, 10, folder, &kept), OT_OK);     /* not even the first batch */
    assert_true(!kept.all && kept.bytes == 0 && kept.first_offset == -1);
    assert_int_equal(access(folder, F_OK), -1);
    assert_int_equal(eng_log_truncate(fx->log, 20, FX_NOW), OT_OK);
    fx_close(fx);
}

static void a_full_disk_keeps_nothing_and_leaves_nothing(void **state)
{
    struct fx *fx = *state;
    struct eng_kept kept;
    char folder[500];
    fx_open(fx, 0, false);
    for (int i = 0; i < 10; i++) fx_append(fx, 5, 200);
    snprintf(folder, sizeof folder, "%s/kept", fx->root);
    for (uint64_t call = 1; call < 100; call++) {              /* every call of the disk fails once */
        ot_io_fault_at(&fx->fault, OT_IO_CALL_ANY, call, OT_ERR_NO_SPACE);
        const enum ot_err err = eng_log_keep(fx->log, 20, UINT64_MAX, folder, &kept);
        ot_io_fault_at(&fx->fault, OT_IO_CALL_ANY, 0, OT_OK);
        if (err == OT_OK && kept.all) {
            assert_true(call > 3);
            break;
        }
        assert_true(kept.bytes == 0 && kept.first_offset == -1);
        assert_int_equal(access(folder, F_OK), -1);
    }
    assert_true(kept.all);
    assert_int_equal(fx_read_all(fx, 0, 50, 1 << 20), 50);
    fx_close(fx);
}

#define LOG_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

TEST_MAIN(
    LOG_TEST(a_cut_goes_down_to_a_batch_start_and_the_log_goes_on),
    LOG_TEST(a_reader_that_holds_the_tail_still_reads_it),
    LOG_TEST(the_steps_of_a_truncation_come_in_order),
    LOG_TEST(a_stale_checkpoint_cannot_undo_a_truncation),
    LOG_TEST(a_stale_checkpoint_cannot_undo_what_a_compaction_relies_upon),
    LOG_TEST(a_flush_that_a_truncation_overtook_counts_for_nothing),
    LOG_TEST(starting_at_an_offset_is_remembered_by_an_empty_segment),
    LOG_TEST(starting_a_new_log_at_an_offset_syncs_its_folder_first),
    LOG_TEST(a_cut_below_the_first_segment_begins_anew_there),
    LOG_TEST(what_will_be_cut_is_kept_as_a_segment_of_its_own),
    LOG_TEST(a_full_disk_keeps_nothing_and_leaves_nothing),
    LOG_TEST(a_mapped_tail_is_cut_too))
