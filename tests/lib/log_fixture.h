/* A store with one directory and one log in it, batches to fill it, and kill -9: what a killed process leaves is what its files hold at that moment, so a
 * crash is a copy of the folder. Include after testing.h. */
#ifndef OT_TESTS_LOG_FIXTURE_H
#define OT_TESTS_LOG_FIXTURE_H

#include "base/io_fault.h"
#include "base/log.h"
#include "engine/batch_build.h"
#include "engine/log.h"
#include "engine/store.h"
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

#define FX_NOW 1700000000000

/* The real disk, but syncs cost nothing: what they promise is the simulator's subject, here they are only counted. */
__attribute__((unused)) static enum ot_err fx_no_sync(struct ot_io *io, int fd) { (void)io, (void)fd; return OT_OK; }
__attribute__((unused)) static enum ot_err fx_no_sync_dir(struct ot_io *io, const char *path) { (void)io, (void)path; return OT_OK; }
__attribute__((unused)) static struct ot_io *fx_quick_disk(void)
{
    static struct ot_io_ops ops;
    static struct ot_io io;
    ops = *ot_io_real()->ops;
    ops.fdatasync = fx_no_sync;
    ops.sync_dir = ops.sync_all = fx_no_sync_dir;
    io.ops = &ops;
    return &io;
}

struct fx {
    char root[256], dir[300], path[360];   /* root/data, root/data/orders-0 */
    uint32_t generation;
    struct ot_io_fault fault;
    struct eng_store *store;
    struct eng_log *log;
    struct eng_log_config config;
    struct eng_recovery recovery;
    struct ot_uuid topic_id;
    int32_t epoch;
    int64_t next_timestamp;
    uint32_t files_max;
    uint64_t mapped_max;
    bool settled, survived;                /* of the next opens */
};

__attribute__((unused)) static void fx_init(struct fx *fx)
{
    memset(fx, 0, sizeof *fx);
    ot_log_set_level(NULL, OT_LOG_ERROR);
    if (getenv("TMPDIR") == NULL && access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 1);     /* a few MiB; a journal would be waited for */
    temp_dir_make(fx->root, sizeof fx->root);
    snprintf(fx->dir, sizeof fx->dir, "%s/data0", fx->root);
    snprintf(fx->path, sizeof fx->path, "%s/orders-0", fx->dir);
    ot_io_fault_init(&fx->fault, fx_quick_disk());
    ot_uuid_parse("AAAAAAAAQACAAAAAAAAAAQ", 22, &fx->topic_id);
    fx->config = (struct eng_log_config){
        .segment_bytes = 1 << 20, .segment_ms = 604800000, .segment_index_bytes = 10 << 20, .index_interval_bytes = 4096, .retention_ms = -1,
        .retention_bytes = -1, .delete_enabled = true, .producer_expiry_ms = 86400000, .producers_max = 1000,
    };
    fx->next_timestamp = FX_NOW;
    fx->files_max = 100;
    fx->mapped_max = 64 << 20;
}

__attribute__((unused)) static enum ot_err fx_store(struct fx *fx)
{
    const char *dirs[] = { fx->dir };
    uint32_t bad = 0;
    struct eng_store_config config = { .dirs = dirs, .dir_count = 1, .files_max = fx->files_max, .append_mapped_bytes_max = fx->mapped_max };
    return eng_store_open(&fx->fault.io, &config, &fx->store, &bad);
}

__attribute__((unused)) static enum ot_err fx_try_open(struct fx *fx, int64_t recovery_point, int64_t log_start_offset, bool clean)
{
    if (fx->store == NULL) {
        enum ot_err err = fx_store(fx);
        if (err != OT_OK) return err;
    }
    struct eng_log_open how = { .dir_path = fx->path, .topic_id = fx->topic_id, .config = fx->config, .recovery_point = recovery_point,
        .log_start_offset = log_start_offset, .clean = clean, .settled = fx->settled, .survived = fx->survived, .wall_ms = FX_NOW };
    return eng_log_open(fx->store, &how, &fx->log, &fx->recovery);
}

__attribute__((unused)) static void fx_open(struct fx *fx, int64_t recovery_point, bool clean)
{
    assert_int_equal(fx_try_open(fx, recovery_point, 0, clean), OT_OK);
}

__attribute__((unused)) static void fx_close(struct fx *fx)
{
    if (fx->log != NULL) assert_int_equal(eng_log_close(fx->log, true), OT_OK);
    fx->log = NULL;
    eng_store_close(fx->store);
    fx->store = NULL;
}

__attribute__((unused)) static void fx_free(struct fx *fx)
{
    if (fx->log != NULL) (void)eng_log_close(fx->log, false);
    eng_store_close(fx->store);
    temp_dir_remove(fx->root);
}

/* kill -9: go on with a copy of the files as they are now. */
__attribute__((unused)) static void fx_crash(struct fx *fx)
{
    char command[1400], old[300];
    memcpy(old, fx->dir, sizeof old);
    fx->generation++;
    snprintf(fx->dir, sizeof fx->dir, "%s/data%u", fx->root, fx->generation);
    snprintf(fx->path, sizeof fx->path, "%s/orders-0", fx->dir);
    snprintf(command, sizeof command, "cp -a %s %s", old, fx->dir);
    assert_int_equal(system(command), 0);
    if (fx->log != NULL) (void)eng_log_close(fx->log, false);
    fx->log = NULL;
    eng_store_close(fx->store);
    fx->store = NULL;
    temp_dir_remove(old);
}

struct fx_batch { struct eng_append_batch append; struct eng_sink sink; };

/* records records of value_bytes each, from base_offset; timestamps as given, 1 ms apart. */
__attribute__((unused)) static struct fx_batch fx_batch_full(struct fx *fx, int64_t base_offset, uint32_t records, uint32_t value_bytes, int64_t timestamp,
    int64_t producer_id, int32_t sequence)
{
    struct fx_batch batch = { 0 };
    struct eng_batch_builder builder;
    struct eng_batch_fields fields = eng_batch_fields_default();
    uint8_t *value = malloc(value_bytes + 1);
    fields.base_offset = base_offset;
    fields.leader_epoch = fx->epoch;
    fields.producer_id = producer_id;
    fields.producer_epoch = producer_id < 0 ? -1 : 0;
    fields.base_sequence = sequence;
    eng_sink_malloc(&batch.sink, 1 << 30);
    assert_int_equal(eng_batch_build_begin(&builder, &fields, NULL, &batch.sink), OT_OK);
    for (uint32_t i = 0; i < records; i++) {
        memset(value, (int)('a' + (base_offset + i) % 26), value_bytes);
        struct ot_blob blob = { value, value_bytes, false }, none = { NULL, 0, true };
        assert_int_equal(eng_batch_build_record(&builder, base_offset + i, timestamp + i, none, blob, NULL, 0), OT_OK);
    }
    assert_int_equal(eng_batch_build_finish(&builder), OT_OK);
    free(value);
    batch.append = (struct eng_append_batch){ .data = batch.sink.data, .bytes = (uint32_t)batch.sink.bytes, .leader_epoch = fx->epoch, .base_offset = base_offset,
        .last_offset = base_offset + records - 1, .max_timestamp = timestamp + records - 1, .max_timestamp_offset = base_offset + records - 1 };
    return batch;
}

__attribute__((unused)) static struct fx_batch fx_batch(struct fx *fx, int64_t base_offset, uint32_t records, uint32_t value_bytes)
{
    struct fx_batch batch = fx_batch_full(fx, base_offset, records, value_bytes, fx->next_timestamp, -1, -1);
    fx->next_timestamp += records;
    return batch;
}

__attribute__((unused)) static enum ot_err fx_try_append(struct fx *fx, uint32_t records, uint32_t value_bytes)
{
    uint32_t appended = 0;
    struct fx_batch batch = fx_batch(fx, eng_log_end_offset(fx->log), records, value_bytes);
    enum ot_err err = OT_OK;
    if (eng_log_fits(fx->log, &batch.append, 1, FX_NOW) == 0) err = eng_log_roll(fx->log, NULL, FX_NOW);
    if (err == OT_OK) err = eng_log_append(fx->log, &batch.append, 1, FX_NOW, &appended);
    eng_sink_free(&batch.sink);
    return err;
}

/* One batch of so many records, rolling when it must. */
__attribute__((unused)) static void fx_append(struct fx *fx, uint32_t records, uint32_t value_bytes)
{
    assert_int_equal(fx_try_append(fx, records, value_bytes), OT_OK);
}

__attribute__((unused)) static void fx_fault_text(void *arg, const char *text)
{
    fprintf(stderr, "verify: %s\n", text);
    ++*(uint32_t *)arg;
}

__attribute__((unused)) static uint32_t fx_faults(struct fx *fx)
{
    uint32_t faults = 0;
    assert_int_equal(eng_log_verify(fx->log, fx_fault_text, &faults), OT_OK);
    return faults;
}

/* Reads [from, to) batch after batch and checks that each offset comes once, in order. Returns how many records. */
__attribute__((unused)) static int64_t fx_read_all(struct fx *fx, int64_t from, int64_t to, uint32_t max_bytes)
{
    int64_t at = from, count = 0;
    while (at < to) {
        struct eng_read how = { .offset = at, .limit_offset = to, .max_bytes = max_bytes, .min_one = true, .may_block = true };
        struct eng_read_result result;
        assert_int_equal(eng_log_read(fx->log, &how, &result), OT_OK);
        assert_true(result.bytes > 0 && result.span_count > 0);
        uint8_t *data = malloc(result.bytes);
        uint32_t got = 0;
        for (uint32_t i = 0; i < result.span_count; i++) {
            assert_int_equal(pread(result.spans[i].fd, data + got, result.spans[i].bytes, (off_t)result.spans[i].pos), (ssize_t)result.spans[i].bytes);
            got += result.spans[i].bytes;
        }
        assert_int_equal(got, result.bytes);
        result.pin->release(result.pin);
        struct ot_reader cursor = ot_reader_over(data, got);
        struct eng_batch_piece piece;
        bool any = false;
        while (eng_batch_split(&cursor, &piece) == OT_OK) {
            struct eng_batch_info info;
            assert_int_equal(eng_batch_parse(piece.data, piece.bytes, &info), OT_OK);
            assert_int_equal(eng_batch_check_crc(piece.data, &info), OT_OK);
            if (!any && from == at) assert_true(info.base_offset <= at || from != at);
            assert_true(eng_batch_last_offset(&info) >= at);
            assert_true(info.base_offset == at || !any);
            assert_true(eng_batch_last_offset(&info) < to);
            count += eng_batch_last_offset(&info) + 1 - at;
            at = eng_batch_last_offset(&info) + 1;
            any = true;
        }
        assert_true(any);
        free(data);
    }
    return count;
}

/* root of a file of the log: "…/00000000000000000000.log" */
__attribute__((unused)) static void fx_file(const struct fx *fx, int64_t base_offset, const char *suffix, char *out, size_t out_bytes)
{
    snprintf(out, out_bytes, "%s/%020" PRId64 "%s", fx->path, base_offset, suffix);
}

__attribute__((unused)) static int64_t fx_file_bytes(const struct fx *fx, int64_t base_offset, const char *suffix)
{
    char path[500];
    struct stat stat;
    fx_file(fx, base_offset, suffix, path, sizeof path);
    return lstat(path, &stat) == 0 ? (int64_t)stat.st_size : -1;
}

__attribute__((unused)) static void fx_damage(const struct fx *fx, int64_t base_offset, const char *suffix, off_t pos, const void *bytes, size_t count)
{
    char path[500];
    fx_file(fx, base_offset, suffix, path, sizeof path);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, count, pos), (ssize_t)count);
    close(fd);
}

__attribute__((unused)) static void fx_cut(const struct fx *fx, int64_t base_offset, const char *suffix, off_t bytes)
{
    char path[500];
    fx_file(fx, base_offset, suffix, path, sizeof path);
    assert_int_equal(truncate(path, bytes), 0);
}

#endif
