#include "engine/segment.h"
#include "base/log.h"
#include "engine/store_inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const suffixes[] = {
    [ENG_SEGMENT_LOG] = ".log", [ENG_SEGMENT_INDEX] = ".index", [ENG_SEGMENT_TIME] = ".timeindex", [ENG_SEGMENT_TXN] = ".txnindex",
};

const char *eng_segment_suffix(enum eng_segment_file which) { return suffixes[which]; }

enum ot_err eng_segment_path(char *out, const char *dir_path, int64_t base_offset, const char *suffix)
{
    int bytes = snprintf(out, ENG_PATH_BYTES, "%s/%020" PRId64 "%s", dir_path, base_offset, suffix);
    return bytes < 0 || (uint32_t)bytes >= ENG_PATH_BYTES ? OT_ERR_TOO_LARGE : OT_OK;
}

unsigned eng_indexing_step(struct eng_indexing *indexing, const struct eng_indexed *batch, uint32_t interval_bytes,
    struct eng_index_entry *index_out, struct eng_time_entry *time_out)
{
    unsigned what = 0;
    if (batch->max_timestamp_ms > indexing->max_timestamp_ms) {
        indexing->max_timestamp_ms = batch->max_timestamp_ms;
        indexing->max_timestamp_offset = batch->last_offset;
    }
    if (indexing->bytes_since > interval_bytes) {
        what |= ENG_ADD_INDEX;
        *index_out = (struct eng_index_entry){ batch->last_offset, (uint32_t)batch->pos };
        if (indexing->max_timestamp_ms > indexing->last_time_ms) {
            what |= ENG_ADD_TIME;
            *time_out = (struct eng_time_entry){ indexing->max_timestamp_ms, indexing->max_timestamp_offset };
            indexing->last_time_ms = indexing->max_timestamp_ms;
        }
        indexing->bytes_since = 0;
    }
    uint64_t since = indexing->bytes_since + batch->bytes;
    indexing->bytes_since = (uint32_t)OT_MIN(since, (uint64_t)INT32_MAX);
    return what;
}

/* ---- life ---- */

enum ot_err eng_segment_new(struct eng_store *store, int64_t base_offset, struct eng_segment **out)
{
    struct eng_segment *seg = calloc(1, sizeof *seg);
    if (seg == NULL) return OT_ERR_NO_MEMORY;
    seg->store = store;
    seg->base_offset = seg->end_offset = base_offset;
    seg->first_timestamp_ms = INT64_MIN;
    seg->indexing = ENG_INDEXING_NONE;
    seg->log = seg->index = seg->time = seg->txn = ENG_FILE_NONE;
    atomic_init(&seg->refs, 1);
    atomic_init(&seg->index_count, ENG_COUNT_UNKNOWN);
    atomic_init(&seg->time_count, ENG_COUNT_UNKNOWN);
    *out = seg;
    return OT_OK;
}

void eng_segment_ref(struct eng_segment *seg)
{
    uint32_t was = atomic_fetch_add_explicit(&seg->refs, 1, memory_order_relaxed);
    OT_ASSERT(was > 0);
}

static void segment_free(struct eng_segment *seg)
{
    OT_ASSERT(seg->map == NULL);           /* the writer unmaps before it lets go */
    eng_file_forget(&seg->store->files, &seg->log);
    eng_file_forget(&seg->store->files, &seg->index);
    eng_file_forget(&seg->store->files, &seg->time);
    eng_file_forget(&seg->store->files, &seg->txn);
    free(seg);
}

void eng_segment_unref(struct eng_segment *seg)
{
    if (seg == NULL) return;
    if (atomic_fetch_sub_explicit(&seg->refs, 1, memory_order_acq_rel) != 1) return;
    if (!seg->unlinked || !eng_file_is_open(&seg->store->files, &seg->log)) {
        segment_free(seg);
        return;
    }
    pthread_mutex_lock(&seg->store->lock);
    seg->next_dead = seg->store->graveyard;
    seg->store->graveyard = seg;
    pthread_mutex_unlock(&seg->store->lock);
}

void eng_segment_retire(struct eng_segment *seg)
{
    atomic_store(&seg->retired, true);
}

#define REAP_STEP_BYTES (64ull << 20)

/* Shortens one dead file by one step; true when it is done with. The file has no name any more: nobody else can see it. */
static bool reap_step(struct eng_store *store, struct eng_segment *seg, uint64_t *freed)
{
    struct ot_io_stat stat = { 0 };
    int fd = -1;
    bool done = true;
    if (!eng_file_try_acquire(&store->files, &seg->log, &fd)) return true;         /* evicted: closing it freed it */
    if (store->io->ops->fstat(store->io, fd, &stat) == OT_OK && stat.bytes > REAP_STEP_BYTES) {
        *freed += REAP_STEP_BYTES;
        done = store->io->ops->truncate(store->io, fd, stat.bytes - REAP_STEP_BYTES) != OT_OK;
    } else {
        *freed += stat.bytes;
    }
    eng_file_release(&store->files, &seg->log);
    return done;
}

bool eng_store_reap(struct eng_store *store, uint64_t bytes)
{
    uint64_t freed = 0;
    for (;;) {
        pthread_mutex_lock(&store->lock);
        struct eng_segment *seg = store->graveyard;
        if (seg != NULL) store->graveyard = seg->next_dead;
        pthread_mutex_unlock(&store->lock);
        if (seg == NULL) return false;
        while (freed < bytes) {
            if (!reap_step(store, seg, &freed)) continue;
            segment_free(seg);
            seg = NULL;
            break;
        }
        if (seg == NULL) continue;
        pthread_mutex_lock(&store->lock);
        seg->next_dead = store->graveyard;
        store->graveyard = seg;
        pthread_mutex_unlock(&store->lock);
        return true;
    }
}

/* ---- files ---- */

struct eng_file *eng_segment_file(struct eng_segment *seg, enum eng_segment_file which)
{
    struct eng_file *files[] = { &seg->log, &seg->index, &seg->time, &seg->txn };
    return files[which];
}

enum ot_err eng_segment_acquire(struct eng_segment *seg, const char *dir_path, enum eng_segment_file which, bool may_block, int *fd_out)
{
    char path[ENG_PATH_BYTES];
    struct eng_file *file = eng_segment_file(seg, which);
    enum ot_err err = OT_OK;
    if (atomic_load(&seg->retired)) return OT_ERR_CANCELLED;
    if (!eng_file_try_acquire(&seg->store->files, file, fd_out)) {
        if (!may_block) return OT_ERR_BUSY;
        if ((err = eng_segment_path(path, dir_path, seg->base_offset, suffixes[which])) != OT_OK) return err;
        /* the .txnindex comes into being with its first entry */
        err = eng_file_acquire(&seg->store->files, file, path, OT_IO_WRITE | (which == ENG_SEGMENT_TXN ? OT_IO_CREATE : 0), fd_out);
    }
    /* a name may have come to mean another file while we opened it: only who was not retired by then has the right one */
    if (atomic_load(&seg->retired)) {
        if (err == OT_OK) eng_file_release(&seg->store->files, file);
        return OT_ERR_CANCELLED;
    }
    return err;
}

void eng_segment_release(struct eng_segment *seg, enum eng_segment_file which)
{
    eng_file_release(&seg->store->files, eng_segment_file(seg, which));
}

static enum ot_err load_count(struct eng_segment *seg, const char *dir_path, enum eng_segment_file which, uint32_t entry_bytes, _Atomic uint32_t *count)
{
    int fd = -1;
    struct ot_io_stat stat = { 0 };
    if (atomic_load(count) != ENG_COUNT_UNKNOWN) return OT_OK;
    enum ot_err err = eng_segment_acquire(seg, dir_path, which, true, &fd);
    if (err == OT_OK) {
        err = seg->store->io->ops->fstat(seg->store->io, fd, &stat);
        eng_segment_release(seg, which);
    }
    if (err == OT_ERR_NOT_FOUND) {
        stat.bytes = 0;
        err = OT_OK;
    }
    uint32_t unknown = ENG_COUNT_UNKNOWN;
    if (err == OT_OK) atomic_compare_exchange_strong(count, &unknown, (uint32_t)OT_MIN(stat.bytes / entry_bytes, (uint64_t)INT32_MAX));
    return err;
}

enum ot_err eng_segment_load_counts(struct eng_segment *seg, const char *dir_path)
{
    enum ot_err err = load_count(seg, dir_path, ENG_SEGMENT_INDEX, ENG_INDEX_ENTRY_BYTES, &seg->index_count);
    if (err == OT_OK) err = load_count(seg, dir_path, ENG_SEGMENT_TIME, ENG_TIME_ENTRY_BYTES, &seg->time_count);
    return err;
}

/* ---- lookup ---- */

/* What the index says about the place; entries at or behind how->bytes name batches that are not published yet. */
static enum ot_err index_ask(struct eng_segment *seg, const char *dir_path, const struct eng_find *how, struct eng_index_around *out)
{
    int fd = -1;
    *out = (struct eng_index_around){ 0 };
    uint32_t count = atomic_load(&seg->index_count);
    if (count == ENG_COUNT_UNKNOWN) {
        if (!how->may_block) return OT_ERR_BUSY;
        enum ot_err err = load_count(seg, dir_path, ENG_SEGMENT_INDEX, ENG_INDEX_ENTRY_BYTES, &seg->index_count);
        if (err != OT_OK) return err;
        count = atomic_load(&seg->index_count);
    }
    if (count == 0) return OT_OK;
    enum ot_err err = eng_segment_acquire(seg, dir_path, ENG_SEGMENT_INDEX, how->may_block, &fd);
    if (err == OT_ERR_NOT_FOUND || (err == OT_ERR_BUSY && how->may_block)) return OT_OK;    /* lost, or being replaced: read from the start */
    if (err != OT_OK) return err;
    struct eng_index_look look = { seg->store->io, fd, count, seg->base_offset, how->end_offset, !how->may_block };
    err = eng_index_around(&look, how->offset, out);
    eng_segment_release(seg, ENG_SEGMENT_INDEX);
    if (err != OT_OK) out->has_floor = out->has_next = false;
    out->has_floor = out->has_floor && out->floor.pos < how->bytes;
    out->has_next = out->has_next && out->next.pos < how->bytes;
    return err == OT_ERR_SHORT ? OT_OK : err;
}

/* Walks from pos to the batch asked for. must_end: the last offset of the batch at pos as the index has it, or -1; another one: MISMATCH. */
static enum ot_err walk(struct eng_segment *seg, int fd, uint64_t pos, uint64_t bytes, int64_t offset, int64_t must_end, bool may_block,
    struct eng_found *out)
{
    uint8_t buffer[ENG_SCAN_BUFFER_BYTES];
    struct eng_scan scan;
    struct ot_io *io = seg->store->io;
    eng_scan_init(&scan, io, fd, pos, bytes, buffer, sizeof buffer);
    for (;;) {
        bool ahead = scan.pos < bytes && (scan.pos < scan.buffer_pos || scan.pos + ENG_BATCH_HEADER_BYTES > scan.buffer_pos + scan.buffer_bytes);
        if (!may_block && ahead && !io->ops->is_cached(io, fd, scan.pos, OT_MIN(bytes - scan.pos, (uint64_t)sizeof buffer))) return OT_ERR_BUSY;
        enum ot_err err = eng_scan_next(&scan, &out->info);
        if (err == OT_ERR_SHORT) err = OT_ERR_CORRUPT; /* below the published size there are whole batches only */
        if (err == OT_ERR_CORRUPT && must_end >= 0) return OT_ERR_MISMATCH;
        if (err != OT_OK) return err;
        int64_t last_offset = eng_batch_last_offset(&out->info);
        if (must_end >= 0 && last_offset != must_end) return OT_ERR_MISMATCH;
        must_end = -1;
        if (last_offset >= offset) {
            out->pos = scan.batch_pos;
            return OT_OK;
        }
    }
}

/* Batches larger than the index interval have an entry each, so the one behind the floor is mostly the one asked for: one read instead of two, or more.
 * NOT_FOUND: it is not that one. */
static enum ot_err find_at_entry(struct eng_segment *seg, int fd, const struct eng_find *how, const struct eng_index_around *around, struct eng_found *out)
{
    uint8_t header[ENG_BATCH_HEADER_BYTES];
    struct ot_io *io = seg->store->io;
    const struct eng_index_entry *entry = &around->next;
    if (!around->has_next || how->bytes - entry->pos < sizeof header) return OT_ERR_NOT_FOUND;
    if (around->has_floor && entry->pos - around->floor.pos < ENG_SCAN_BUFFER_BYTES) return OT_ERR_NOT_FOUND;      /* one read shows all between the two */
    if (!how->may_block && !io->ops->is_cached(io, fd, entry->pos, sizeof header)) return OT_ERR_BUSY;
    enum ot_err err = ot_io_read_exact(io, fd, header, sizeof header, entry->pos);
    if (err == OT_ERR_SHORT) return OT_ERR_CORRUPT;
    if (err != OT_OK) return err;
    if (eng_batch_parse(header, sizeof header, &out->info) != OT_OK || out->info.magic != 2) return OT_ERR_NOT_FOUND;
    if (eng_batch_last_offset(&out->info) != entry->offset || (uint64_t)out->info.batch_bytes > how->bytes - entry->pos) return OT_ERR_MISMATCH;
    if (out->info.base_offset > how->offset) return OT_ERR_NOT_FOUND;
    out->pos = entry->pos;
    return OT_OK;
}

enum ot_err eng_segment_find_as(struct eng_segment *seg, const char *dir_path, const struct eng_find *how, struct eng_found *out)
{
    struct eng_index_around around = { 0 };
    int fd = -1;
    enum ot_err err = OT_OK;
    bool hinted = how->hint_pos != UINT64_MAX;
    if (!hinted && (err = index_ask(seg, dir_path, how, &around)) != OT_OK) return err;
    if ((err = eng_segment_acquire(seg, dir_path, ENG_SEGMENT_LOG, how->may_block, &fd)) != OT_OK) return err;
    uint64_t pos = hinted ? how->hint_pos : around.has_floor ? around.floor.pos : 0;
    err = find_at_entry(seg, fd, how, &around, out);
    if (err == OT_ERR_NOT_FOUND) err = walk(seg, fd, pos, how->bytes, how->offset, around.has_floor ? around.floor.offset : -1, how->may_block, out);
    if (err == OT_ERR_MISMATCH) {          /* the index lies: do without it now, and have it made anew */
        if (!atomic_exchange(&seg->index_doubted, true))
            ot_log(OT_LOG_WARN, "log", "index_damaged", "dir=%s base_offset=%" PRId64 " at_offset=%" PRId64, dir_path, seg->base_offset, how->offset);
        err = how->may_block ? walk(seg, fd, 0, how->bytes, how->offset, -1, true, out) : OT_ERR_BUSY;
    }
    eng_segment_release(seg, ENG_SEGMENT_LOG);
    return err;
}

enum ot_err eng_segment_find(struct eng_segment *seg, const char *dir_path, int64_t offset, uint64_t bytes, uint64_t hint_pos, bool may_block,
    struct eng_found *out)
{
    struct eng_find how = { .offset = offset, .end_offset = seg->base_offset, .bytes = bytes, .hint_pos = hint_pos, .may_block = may_block };
    return eng_segment_find_as(seg, dir_path, &how, out);
}

/* ---- times ---- */

static enum ot_err times_from_batches(struct eng_segment *seg, int fd, uint64_t bytes, struct eng_indexing *times)
{
    uint8_t buffer[ENG_SCAN_BUFFER_BYTES];
    struct eng_scan scan;
    struct eng_batch_info info;
    enum ot_err err;
    eng_scan_init(&scan, seg->store->io, fd, 0, bytes, buffer, sizeof buffer);
    while ((err = eng_scan_next(&scan, &info)) == OT_OK) {
        if (info.max_timestamp <= times->max_timestamp_ms) continue;
        times->max_timestamp_ms = info.max_timestamp;
        times->max_timestamp_offset = eng_batch_last_offset(&info);
    }
    return err == OT_ERR_NOT_FOUND ? OT_OK : err == OT_ERR_SHORT ? OT_ERR_CORRUPT : err;
}

/* The last entry of the time index, if it can be true. */
static enum ot_err times_from_index(struct eng_segment *seg, const char *dir_path, int64_t end_offset, struct eng_indexing *times, bool *known_out)
{
    struct eng_time_entry entry;
    int fd = -1;
    *known_out = false;
    enum ot_err err = load_count(seg, dir_path, ENG_SEGMENT_TIME, ENG_TIME_ENTRY_BYTES, &seg->time_count);
    uint32_t count = atomic_load(&seg->time_count);
    if (err != OT_OK || count == 0) return err;
    err = eng_segment_acquire(seg, dir_path, ENG_SEGMENT_TIME, true, &fd);
    if (err == OT_ERR_NOT_FOUND || err == OT_ERR_BUSY) return OT_OK;
    if (err != OT_OK) return err;
    err = eng_time_index_at(seg->store->io, fd, count - 1, seg->base_offset, &entry);
    eng_segment_release(seg, ENG_SEGMENT_TIME);
    if (err == OT_ERR_SHORT) return OT_OK;
    if (err != OT_OK) return err;
    *known_out = entry.offset >= seg->base_offset && entry.offset < end_offset && entry.timestamp_ms >= 0;
    times->max_timestamp_ms = times->last_time_ms = entry.timestamp_ms;
    times->max_timestamp_offset = entry.offset;
    return OT_OK;
}

enum ot_err eng_segment_load_times(struct eng_segment *seg, const char *dir_path, uint64_t bytes, int64_t end_offset, struct eng_indexing *out)
{
    bool known = false;
    int fd = -1;
    *out = ENG_INDEXING_NONE;
    enum ot_err err = times_from_index(seg, dir_path, end_offset, out, &known);
    if (err != OT_OK || known) return err;
    *out = ENG_INDEXING_NONE;
    if ((err = eng_segment_acquire(seg, dir_path, ENG_SEGMENT_LOG, true, &fd)) != OT_OK) return err;
    err = times_from_batches(seg, fd, bytes, out);
    eng_segment_release(seg, ENG_SEGMENT_LOG);
    return err;
}

/* ---- making indexes ---- */

enum ot_err eng_index_out_flush(struct eng_index_out *out)
{
    enum ot_err err = OT_OK;
    if (out->index_pending > 0) {
        err = ot_io_write_all(out->io, out->index_fd, out->index_raw, (size_t)out->index_pending * ENG_INDEX_ENTRY_BYTES,
            (uint64_t)out->index_count * ENG_INDEX_ENTRY_BYTES);
        if (err != OT_OK) return err;
        out->index_count += out->index_pending;
        out->index_pending = 0;
    }
    if (out->time_pending > 0) {
        err = ot_io_write_all(out->io, out->time_fd, out->time_raw, (size_t)out->time_pending * ENG_TIME_ENTRY_BYTES,
            (uint64_t)out->time_count * ENG_TIME_ENTRY_BYTES);
        if (err != OT_OK) return err;
        out->time_count += out->time_pending;
        out->time_pending = 0;
    }
    return err;
}

enum ot_err eng_index_out_add(struct eng_index_out *out, unsigned what, const struct eng_index_entry *index, const struct eng_time_entry *time)
{
    if (what & ENG_ADD_INDEX) eng_index_entry_put(out->index_raw + (size_t)out->index_pending++ * ENG_INDEX_ENTRY_BYTES, out->base_offset, index);
    if (what & ENG_ADD_TIME) eng_time_entry_put(out->time_raw + (size_t)out->time_pending++ * ENG_TIME_ENTRY_BYTES, out->base_offset, time);
    if (out->index_pending < 256 && out->time_pending < 256) return OT_OK;
    return eng_index_out_flush(out);
}

static enum ot_err rebuild_into(struct eng_segment *seg, int fd, uint64_t bytes, uint32_t interval_bytes, struct eng_index_out *out)
{
    struct eng_indexing now = ENG_INDEXING_NONE, *indexing = &now;
    uint8_t buffer[ENG_SCAN_BUFFER_BYTES];
    struct eng_scan scan;
    struct eng_batch_info info;
    struct eng_index_entry index;
    struct eng_time_entry time;
    enum ot_err err;
    eng_scan_init(&scan, seg->store->io, fd, 0, bytes, buffer, sizeof buffer);
    while ((err = eng_scan_next(&scan, &info)) == OT_OK) {
        struct eng_indexed batch = { scan.batch_pos, (uint64_t)info.batch_bytes, eng_batch_last_offset(&info), info.max_timestamp };
        unsigned what = eng_indexing_step(indexing, &batch, interval_bytes, &index, &time);
        if (what != 0 && (err = eng_index_out_add(out, what, &index, &time)) != OT_OK) return err;
    }
    if (err != OT_ERR_NOT_FOUND) return err == OT_ERR_SHORT ? OT_ERR_CORRUPT : err;
    if (indexing->max_timestamp_ms > indexing->last_time_ms) {
        time = (struct eng_time_entry){ indexing->max_timestamp_ms, indexing->max_timestamp_offset };
        if ((err = eng_index_out_add(out, ENG_ADD_TIME, NULL, &time)) != OT_OK) return err;
    }
    return eng_index_out_flush(out);
}

static enum ot_err rebuild_files(struct eng_segment *seg, const char *dir_path, uint64_t bytes, uint32_t interval_bytes, struct eng_index_out *out, int fd)
{
    struct ot_io *io = seg->store->io;
    char index_tmp[ENG_PATH_BYTES], time_tmp[ENG_PATH_BYTES], path[ENG_PATH_BYTES];
    enum ot_err err = eng_segment_path(index_tmp, dir_path, seg->base_offset, ".index.tmp");
    if (err == OT_OK) err = eng_segment_path(time_tmp, dir_path, seg->base_offset, ".timeindex.tmp");
    if (err == OT_OK) err = io->ops->open(io, index_tmp, OT_IO_WRITE | OT_IO_CREATE | OT_IO_TRUNCATE, &out->index_fd);
    if (err == OT_OK) err = io->ops->open(io, time_tmp, OT_IO_WRITE | OT_IO_CREATE | OT_IO_TRUNCATE, &out->time_fd);
    if (err == OT_OK) err = rebuild_into(seg, fd, bytes, interval_bytes, out);
    /* synced before it takes the name: no flush round looks at a sealed segment again, and below the recovery point nobody checks */
    if (err == OT_OK) err = io->ops->fdatasync(io, out->index_fd);
    if (err == OT_OK) err = io->ops->fdatasync(io, out->time_fd);
    io->ops->close(io, out->index_fd);
    io->ops->close(io, out->time_fd);
    if (err == OT_OK && atomic_load(&seg->retired)) err = OT_ERR_CANCELLED;
    if (err == OT_OK) err = eng_segment_path(path, dir_path, seg->base_offset, ".index");
    if (err == OT_OK) err = io->ops->rename(io, index_tmp, path);
    if (err == OT_OK) err = eng_segment_path(path, dir_path, seg->base_offset, ".timeindex");
    if (err == OT_OK) err = io->ops->rename(io, time_tmp, path);
    if (err != OT_OK) {
        ot_ignore(io->ops->unlink(io, index_tmp), "open removes what is left");
        ot_ignore(io->ops->unlink(io, time_tmp), "open removes what is left");
    }
    return err;
}

enum ot_err eng_segment_rebuild(struct eng_segment *seg, const char *dir_path, uint64_t bytes, uint32_t interval_bytes)
{
    int fd = -1;
    struct eng_index_out *out = calloc(1, sizeof *out);
    if (out == NULL) return OT_ERR_NO_MEMORY;
    *out = (struct eng_index_out){ .io = seg->store->io, .index_fd = -1, .time_fd = -1, .base_offset = seg->base_offset };
    pthread_mutex_lock(&seg->store->rebuild_lock);
    enum ot_err err = eng_segment_acquire(seg, dir_path, ENG_SEGMENT_LOG, true, &fd);
    if (err == OT_OK) {
        err = rebuild_files(seg, dir_path, bytes, interval_bytes, out, fd);
        eng_segment_release(seg, ENG_SEGMENT_LOG);
    }
    if (err == OT_OK) {
        eng_file_forget(&seg->store->files, &seg->index);
        eng_file_forget(&seg->store->files, &seg->time);
        atomic_store(&seg->index_count, out->index_count);
        atomic_store(&seg->time_count, out->time_count);
        atomic_store(&seg->index_doubted, false);
    }
    pthread_mutex_unlock(&seg->store->rebuild_lock);
    free(out);
    return err;
}
