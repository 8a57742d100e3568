#include "engine/log.h"
#include "base/log.h"
#include "engine/log_inner.h"
#include "engine/snapshots.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REAP_BYTES (256ull << 20)

/* ---- the list of segments ---- */

uint32_t eng_log_slot(const struct eng_log *log, int64_t offset)
{
    uint32_t low = 0, high = log->segment_count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (log->segments[middle]->base_offset <= offset) low = middle;
        else high = middle;
    }
    return low;
}

enum ot_err eng_log_push_segment(struct eng_log *log, struct eng_segment *seg)
{
    if (log->segment_count == log->segment_cap) {
        uint32_t cap = log->segment_cap == 0 ? 2 : log->segment_cap * 2;
        struct eng_segment **grown = realloc(log->segments, cap * sizeof *grown);
        if (grown == NULL) return OT_ERR_NO_MEMORY;
        log->segments = grown;
        log->segment_cap = cap;
    }
    log->segments[log->segment_count++] = seg;
    return OT_OK;
}

/* ---- open ---- */

static enum ot_err open_metadata(struct eng_log *log, bool fresh)
{
    struct ot_uuid id;
    enum ot_err err = fresh ? OT_ERR_NOT_FOUND : eng_partition_metadata_read(log->io, log->dir_path, &id);
    if (err == OT_ERR_NOT_FOUND || err == OT_ERR_CORRUPT) {
        if (err == OT_ERR_CORRUPT) ot_log(OT_LOG_WARN, "log", "partition_metadata_damaged", "dir=%s", log->dir_path);
        log->metadata_missing = !ot_uuid_is_zero(&log->topic_id);
        return OT_OK;
    }
    if (err != OT_OK) return err;
    if (ot_uuid_is_zero(&log->topic_id)) log->topic_id = id;
    if (ot_uuid_equal(&log->topic_id, &id)) return OT_OK;
    char have[23], want[23];
    ot_uuid_text(&id, have);
    ot_uuid_text(&log->topic_id, want);
    ot_log(OT_LOG_ERROR, "log", "topic_id_mismatch", "dir=%s have=%s want=%s", log->dir_path, have, want);
    return OT_ERR_MISMATCH;
}

static enum ot_err open_folder(struct eng_log *log, const struct eng_log_open *how)
{
    if ((log->dir_path = strdup(how->dir_path)) == NULL) return OT_ERR_NO_MEMORY;
    const char *slash = strrchr(log->dir_path, '/');
    log->name = slash == NULL ? log->dir_path : slash + 1;
    enum ot_err err = log->io->ops->mkdir(log->io, log->dir_path);
    if (err != OT_OK && err != OT_ERR_EXISTS) return err;
    log->fresh = err == OT_OK;
    err = open_metadata(log, log->fresh);
    log->settled = how->settled && !log->fresh && !log->metadata_missing;
    return err;
}

/* It is held by the list alone. */
static void let_half_swapped_go(struct eng_log *log)
{
    for (unsigned which = ENG_SEGMENT_LOG; log->half_swapped != NULL && which <= ENG_SEGMENT_TXN; which++)
        if ((log->half_swapped_pins >> which & 1) != 0) eng_segment_release(log->half_swapped, (enum eng_segment_file)which);
    log->half_swapped = NULL;
    log->half_swapped_pins = 0;
}

static void log_free(struct eng_log *log)
{
    let_half_swapped_go(log);
    for (uint32_t i = 0; i < log->segment_count; i++) {
        eng_log_unmap(log, log->segments[i]);
        eng_segment_unref(log->segments[i]);
    }
    eng_epochs_close(log->epochs);
    eng_producers_free(log->producers);
    pthread_mutex_destroy(&log->lock);
    pthread_mutex_destroy(&log->writer_lock);
    pthread_cond_destroy(&log->swapped);
    pthread_mutex_destroy(&log->names_lock);
    free(log->segments);
    free(log->tail);
    free(log->dir_path);
    free(log->gone_path);
    free(log);
}

enum ot_err eng_log_open(struct eng_store *store, const struct eng_log_open *how, struct eng_log **out, struct eng_recovery *recovery_out)
{
    *out = NULL;
    *recovery_out = (struct eng_recovery){ .cut_offset = -1 };
    if (eng_store_dir_offline(store, how->store_dir)) return OT_ERR_IO;
    struct eng_log *log = calloc(1, sizeof *log);
    if (log == NULL) return OT_ERR_NO_MEMORY;
    log->store = store;
    log->io = eng_store_io(store);
    log->store_dir = how->store_dir;
    log->topic_id = how->topic_id;
    log->config = how->config;
    log->latest_epoch = -1;
    log->snapshot_at = log->undeleted_base = -1;
    pthread_mutex_init(&log->lock, NULL);
    pthread_mutex_init(&log->writer_lock, NULL);
    pthread_cond_init(&log->swapped, NULL);
    pthread_mutex_init(&log->names_lock, NULL);
    enum ot_err err = open_folder(log, how);
    if (err != OT_OK) goto fail;
    if ((err = eng_producers_new(how->config.producers_max, how->config.producer_expiry_ms, &log->producers)) != OT_OK) goto fail;
    if ((err = eng_log_recover(log, how, recovery_out)) != OT_OK) goto fail;
    if ((err = eng_store_register(store, log->store_dir, log->name, &log->flushed_end)) != OT_OK) goto fail;
    *out = log;
    return OT_OK;
fail:
    log_free(log);
    return err;
}

enum ot_err eng_log_reopen(struct eng_log *log, const struct eng_log_open *how, struct eng_log **out, struct eng_recovery *recovery_out)
{
    OT_ASSERT(eng_log_full(log));
    enum ot_err err = eng_log_open(log->store, how, out, recovery_out);
    if (err == OT_OK && !eng_log_read_only(*out)) return OT_OK;
    if (err != OT_OK) return err;
    struct eng_log *fresh = *out;
    *out = NULL;
    ot_ignore(eng_store_register(log->store, log->store_dir, log->name, &log->flushed_end), "replaces a value: needs no memory");
    err = eng_log_full(fresh) ? OT_ERR_NO_SPACE : OT_ERR_IO;
    log_free(fresh);
    return err;
}

void eng_log_abandon(struct eng_log *log)
{
    if (log != NULL) log_free(log);
}

/* ---- segments: begin, finish, drop ---- */

static enum ot_err create_file(struct eng_log *log, struct eng_segment *seg, enum eng_segment_file which)
{
    char path[ENG_PATH_BYTES];
    int fd = -1;
    enum ot_err err = eng_segment_path(path, log->dir_path, seg->base_offset, eng_segment_suffix(which));
    if (err != OT_OK) return err;
    err = eng_file_acquire(&log->store->files, eng_segment_file(seg, which), path, OT_IO_WRITE | OT_IO_CREATE | OT_IO_TRUNCATE, &fd);
    if (err == OT_OK) eng_segment_release(seg, which);
    return err;
}

static enum ot_err first_metadata(struct eng_log *log)
{
    if (!log->metadata_missing) return OT_OK;
    enum ot_err err = eng_partition_metadata_write(log->io, log->dir_path, &log->topic_id, false);
    if (err != OT_OK) return err;
    pthread_mutex_lock(&log->lock);
    log->metadata_missing = false;
    log->metadata_unsynced = true;
    pthread_mutex_unlock(&log->lock);
    return OT_OK;
}

enum ot_err eng_log_start_segment(struct eng_log *log, int64_t base_offset, int64_t wall_ms)
{
    struct eng_segment *seg = NULL;
    enum ot_err err = first_metadata(log);
    if (err == OT_OK) err = eng_segment_new(log->store, base_offset, &seg);
    if (err != OT_OK) return err;
    seg->created_ms = seg->last_append_ms = wall_ms;
    seg->times_known = seg->name_unsynced = true;
    seg->first_timestamp_ms = INT64_MIN;
    atomic_store(&seg->index_count, 0);
    atomic_store(&seg->time_count, 0);
    /* the indexes first: a .log that recovery finds has them, and one without a .log is cleared away */
    if ((err = create_file(log, seg, ENG_SEGMENT_INDEX)) != OT_OK) goto fail;
    if ((err = create_file(log, seg, ENG_SEGMENT_TIME)) != OT_OK) goto fail;
    if ((err = create_file(log, seg, ENG_SEGMENT_LOG)) != OT_OK) goto fail;
    pthread_mutex_lock(&log->lock);
    err = eng_log_push_segment(log, seg);
    if (err == OT_OK) eng_tail_clear(log->tail);
    pthread_mutex_unlock(&log->lock);
    if (err == OT_OK) return OT_OK;
fail:
    seg->unlinked = eng_log_unlink_segment(log, seg) == OT_OK;     /* if not: empty, and truncated when the name is used again */
    eng_segment_unref(seg);
    return err;
}

/* Whole entries or none: what a failed write left is cut off again. */
static enum ot_err write_entries(struct eng_log *log, struct eng_segment *seg, enum eng_segment_file which, const uint8_t *raw, size_t bytes, uint64_t pos)
{
    int fd = -1;
    enum ot_err err = eng_segment_acquire(seg, log->dir_path, which, true, &fd);
    if (err != OT_OK) return err;
    err = ot_io_write_all(log->io, fd, raw, bytes, pos);
    if (err != OT_OK) {
        enum ot_err cut = log->io->ops->truncate(log->io, fd, pos);
        ot_ignore(cut, "the next write of entries covers it, and open makes the index anew");
    }
    eng_segment_release(seg, which);
    return err;
}

enum ot_err eng_log_write_indexes(struct eng_log *log, struct eng_segment *seg)
{
    uint8_t raw[ENG_TAIL_ENTRIES * ENG_TIME_ENTRY_BYTES];
    struct eng_tail *tail = log->tail;     /* only the writer changes what is pending */
    enum ot_err err = OT_OK;
    if (tail == NULL || (tail->index_pending == 0 && tail->time_pending == 0)) return OT_OK;
    uint32_t index_count = atomic_load(&seg->index_count), time_count = atomic_load(&seg->time_count);
    for (uint32_t i = 0; i < tail->index_pending; i++) eng_index_entry_put(raw + i * ENG_INDEX_ENTRY_BYTES, seg->base_offset, &tail->index[i]);
    if (tail->index_pending > 0)
        err = write_entries(log, seg, ENG_SEGMENT_INDEX, raw, (size_t)tail->index_pending * ENG_INDEX_ENTRY_BYTES, (uint64_t)index_count * ENG_INDEX_ENTRY_BYTES);
    if (err != OT_OK) return err;
    pthread_mutex_lock(&log->lock);
    atomic_store(&seg->index_count, index_count + tail->index_pending);
    tail->index_pending = 0;
    seg->indexes_dirty = true;
    pthread_mutex_unlock(&log->lock);
    for (uint32_t i = 0; i < tail->time_pending; i++) eng_time_entry_put(raw + i * ENG_TIME_ENTRY_BYTES, seg->base_offset, &tail->time[i]);
    if (tail->time_pending > 0)
        err = write_entries(log, seg, ENG_SEGMENT_TIME, raw, (size_t)tail->time_pending * ENG_TIME_ENTRY_BYTES, (uint64_t)time_count * ENG_TIME_ENTRY_BYTES);
    if (err != OT_OK) return err;
    pthread_mutex_lock(&log->lock);
    atomic_store(&seg->time_count, time_count + tail->time_pending);
    tail->time_pending = 0;
    pthread_mutex_unlock(&log->lock);
    return OT_OK;
}

/* A time index without its last entry says too little about how late the segment goes, and would be believed after a restart: better none, which is made anew. */
static void give_up_times(struct eng_log *log, struct eng_segment *seg)
{
    char path[ENG_PATH_BYTES];
    eng_file_forget(&log->store->files, &seg->time);
    if (eng_segment_path(path, log->dir_path, seg->base_offset, ".timeindex") == OT_OK)
        ot_ignore(log->io->ops->unlink(log->io, path), "the disk is failing or full; recovery checks the index again");
    atomic_store(&seg->time_count, 0);
}

/* The entry that says what the largest timestamp of the whole segment is: readers and retention believe it, so a time index that cannot
 * get it is removed rather than left to say too little. */
static enum ot_err last_time_entry(struct eng_log *log, struct eng_segment *seg)
{
    uint8_t raw[ENG_TIME_ENTRY_BYTES];
    struct eng_indexing *indexing = &seg->indexing;
    if (indexing->max_timestamp_ms <= indexing->last_time_ms) return OT_OK;
    eng_time_entry_put(raw, seg->base_offset, &(struct eng_time_entry){ indexing->max_timestamp_ms, indexing->max_timestamp_offset });
    uint32_t count = atomic_load(&seg->time_count);
    enum ot_err err = write_entries(log, seg, ENG_SEGMENT_TIME, raw, sizeof raw, (uint64_t)count * sizeof raw);
    if (err == OT_OK) {
        pthread_mutex_lock(&log->lock);
        atomic_store(&seg->time_count, count + 1);
        indexing->last_time_ms = indexing->max_timestamp_ms;
        seg->indexes_dirty = true;
        pthread_mutex_unlock(&log->lock);
        return OT_OK;
    }
    return err;
}

enum ot_err eng_log_finish_segment(struct eng_log *log, struct eng_segment *seg)
{
    int fd = -1;
    /* an index that lacks its last entries is still true, and never a reason to fail a roll */
    enum ot_err err = eng_log_write_indexes(log, seg);
    if (err == OT_OK) err = last_time_entry(log, seg);
    if (err != OT_OK) give_up_times(log, seg);
    if (err != OT_OK) ot_log(OT_LOG_WARN, "log", "index_unfinished", "dir=%s base_offset=%" PRId64 " error=%s", log->dir_path, seg->base_offset, ot_err_name(err));
    eng_log_unmap(log, seg);
    if (!seg->padded && seg->allocated_end <= seg->bytes) return OT_OK;
    if ((err = eng_segment_acquire(seg, log->dir_path, ENG_SEGMENT_LOG, true, &fd)) != OT_OK) return err;
    err = log->io->ops->truncate(log->io, fd, seg->bytes);
    eng_segment_release(seg, ENG_SEGMENT_LOG);
    if (err != OT_OK) return err;
    seg->padded = false;
    seg->allocated_end = 0;
    pthread_mutex_lock(&log->lock);
    seg->dirty = true;                     /* its new size is to be synced before anything in the next segment counts */
    pthread_mutex_unlock(&log->lock);
    return OT_OK;
}

enum ot_err eng_log_unlink_segment(struct eng_log *log, struct eng_segment *seg)
{
    char path[ENG_PATH_BYTES];
    enum ot_err first = OT_OK;
    for (int which = ENG_SEGMENT_LOG; which <= ENG_SEGMENT_TXN; which++) {
        enum ot_err err = eng_segment_path(path, log->dir_path, seg->base_offset, eng_segment_suffix((enum eng_segment_file)which));
        if (err == OT_OK) err = log->io->ops->unlink(log->io, path);
        if (err != OT_OK && err != OT_ERR_NOT_FOUND && first == OT_OK) first = err;
    }
    return first;
}

enum ot_err eng_log_segment_times(struct eng_log *log, struct eng_segment *seg, struct eng_indexing *out)
{
    pthread_mutex_lock(&log->lock);
    bool known = seg->times_known;
    uint64_t bytes = seg->bytes;
    int64_t end_offset = seg->end_offset;
    *out = seg->indexing;
    pthread_mutex_unlock(&log->lock);
    if (known) return OT_OK;
    enum ot_err err = eng_segment_load_times(seg, log->dir_path, bytes, end_offset, out);
    if (err != OT_OK) return err;
    pthread_mutex_lock(&log->lock);
    if (!seg->times_known) seg->indexing = *out;
    seg->times_known = true;
    pthread_mutex_unlock(&log->lock);
    return OT_OK;
}

/* ---- close and delete ---- */

enum ot_err eng_log_tidy_snapshots(struct eng_log *log)
{
    int64_t *bases = calloc(log->segment_count + 1, sizeof *bases);
    if (bases == NULL) return OT_ERR_NO_MEMORY;
    pthread_mutex_lock(&log->lock);
    uint32_t count = log->segment_count;
    for (uint32_t i = 0; i < count; i++) bases[i] = log->segments[i]->base_offset;
    pthread_mutex_unlock(&log->lock);
    enum ot_err err = eng_snapshots_retain(log->io, log->dir_path, bases, count);
    free(bases);
    return err;
}

static enum ot_err write_snapshot(struct eng_log *log, int64_t offset, bool sync)
{
    size_t bytes = eng_producers_snapshot_bytes(log->producers);
    if (log->snapshot_at == offset || bytes > UINT32_MAX) return OT_OK;
    uint8_t *data = malloc(bytes + 1);
    if (data == NULL) return OT_ERR_NO_MEMORY;
    struct ot_writer writer = ot_writer_over(data, bytes);
    enum ot_err err = eng_producers_snapshot(log->producers, &writer);
    struct ot_blob blob = { data, (uint32_t)(writer.at - writer.start), false };
    if (err == OT_OK) err = eng_snapshots_write(log->io, log->dir_path, offset, &blob, sync);
    if (err == OT_OK) {
        log->snapshot_at = offset;
        err = eng_log_tidy_snapshots(log);
    }
    free(data);
    return err;
}

static enum ot_err finish(struct eng_log *log, bool sync)
{
    enum ot_err err = OT_OK;
    bool usable = !atomic_load(&log->read_only) && !eng_store_dir_offline(log->store, log->store_dir);
    struct eng_segment *active = eng_log_active(log);
    if (usable && active != NULL) {
        err = eng_log_finish_segment(log, active);
        enum ot_err snapshot = write_snapshot(log, atomic_load(&log->log_end_offset), sync);
        /* a log that was flushed to its end may be called clean, and then its indexes and true sizes are believed unseen: they are synced too, of a
         * segment that was sealed since as well */
        bool was_flushed = atomic_load(&log->flushed_end) == atomic_load(&log->log_end_offset);
        if (err == OT_OK && (sync || was_flushed)) err = eng_log_flush_whole(log);
        if (err == OT_OK) err = snapshot;      /* told, but a start replays without it: no reason to leave the files unsynced */
    }
    return err;
}

enum ot_err eng_log_close(struct eng_log *log, bool sync)
{
    if (log == NULL) return OT_OK;
    OT_ASSERT(!atomic_load(&log->closed)); /* a retired log is deleted, not closed */
    const enum ot_err err = finish(log, sync);
    eng_store_unregister(log->store, log->store_dir, log->name);
    log_free(log);
    return err;
}

/* "…/orders-0" -> "…/orders-0.<hex>-delete", its topic cut to what a file name may have. */
static enum ot_err away_path(const struct eng_log *log, const char *end, char out[static ENG_PATH_BYTES])
{
    struct ot_uuid id;
    char hex[33];
    ot_uuid_random(&id);
    for (int i = 0; i < 16; i++) snprintf(hex + 2 * i, 3, "%02x", id.bytes[i]);
    const char *dash = strrchr(log->name, '-');
    OT_ASSERT(dash != NULL);
    int bytes = snprintf(out, ENG_PATH_BYTES, "%s/%.*s%s.%s-%s", eng_store_dir_path(log->store, log->store_dir), (int)OT_MIN(dash - log->name, (ptrdiff_t)190), log->name, dash, hex, end);
    return bytes < 0 || (uint32_t)bytes >= ENG_PATH_BYTES ? OT_ERR_TOO_LARGE : OT_OK;
}

enum ot_err eng_log_retire(struct eng_log *log)
{
    char path[ENG_PATH_BYTES];
    int fd = -1;
    if (atomic_exchange(&log->closed, true)) return OT_OK;
    atomic_store(&log->read_only, true);
    eng_store_unregister(log->store, log->store_dir, log->name);
    for (uint32_t i = 0; i < log->segment_count; i++) {            /* open before the name goes: reap shortens through the descriptor */
        struct eng_segment *seg = log->segments[i];
        if (seg->bytes > (64u << 20) && eng_segment_acquire(seg, log->dir_path, ENG_SEGMENT_LOG, true, &fd) == OT_OK) eng_segment_release(seg, ENG_SEGMENT_LOG);
        eng_segment_retire(seg);
    }
    enum ot_err err = away_path(log, "delete", path);
    if (err == OT_OK && (log->gone_path = strdup(path)) == NULL) err = OT_ERR_NO_MEMORY;
    if (err == OT_OK && (err = log->io->ops->rename(log->io, log->dir_path, path)) != OT_OK) {
        free(log->gone_path);
        log->gone_path = NULL;
    }
    /* the new name must last: a folder that came back under the old one would be taken for a live partition */
    if (err == OT_OK) err = log->io->ops->sync_dir(log->io, eng_store_dir_path(log->store, log->store_dir));
    return err;
}

enum ot_err eng_log_set_aside(struct eng_log *log)
{
    char path[ENG_PATH_BYTES];
    if (atomic_load(&log->closed)) return OT_OK;
    const enum ot_err finished = finish(log, true);            /* if not, what is missing on disk is missing there too: no reason to stay */
    atomic_store(&log->closed, true);
    atomic_store(&log->read_only, true);
    eng_store_unregister(log->store, log->store_dir, log->name);
    for (uint32_t i = 0; i < log->segment_count; i++) eng_segment_retire(log->segments[i]);
    enum ot_err err = away_path(log, "stray", path);
    if (err == OT_OK) err = log->io->ops->rename(log->io, log->dir_path, path);
    if (err == OT_OK) err = log->io->ops->sync_dir(log->io, eng_store_dir_path(log->store, log->store_dir));
    if (err == OT_OK) ot_log(OT_LOG_WARN, "storage", "folder_set_aside", "dir=%s as=%s", log->dir_path, path);
    return err != OT_OK ? err : finished;
}

/* The list goes too: segments that nobody reads let their files go, or blocks of files without a name would be held by the descriptors that are kept. */
static void let_segments_go(struct eng_log *log)
{
    let_half_swapped_go(log);
    pthread_mutex_lock(&log->lock);
    struct eng_segment **gone = log->segments;
    const uint32_t count = log->segment_count;
    log->segments = NULL;
    log->segment_count = log->segment_cap = 0;
    pthread_mutex_unlock(&log->lock);
    for (uint32_t i = 0; i < count; i++) {
        eng_log_unmap(log, gone[i]);
        gone[i]->unlinked = true;
        eng_segment_unref(gone[i]);
    }
    free(gone);
}

enum ot_err eng_log_remove(struct eng_log *log)
{
    const enum ot_err err = eng_log_retire(log);
    if (log->gone_path == NULL) return err;    /* set aside, or its folder kept its name */
    const enum ot_err gone = eng_store_remove_tree(log->io, log->gone_path);
    if (gone == OT_OK) let_segments_go(log);
    eng_store_reap(log->store, REAP_BYTES);
    return err != OT_OK ? err : gone;
}

enum ot_err eng_log_delete(struct eng_log *log)
{
    struct eng_store *store = log->store;
    const enum ot_err err = eng_log_remove(log);
    log_free(log);
    eng_store_reap(store, REAP_BYTES);
    return err;
}

/* ---- small questions ---- */

void eng_log_configure(struct eng_log *log, const struct eng_log_config *config)
{
    pthread_mutex_lock(&log->lock);
    log->config = *config;
    pthread_mutex_unlock(&log->lock);
}

struct eng_log_config eng_log_config_now(struct eng_log *log)
{
    pthread_mutex_lock(&log->lock);
    struct eng_log_config config = log->config;
    pthread_mutex_unlock(&log->lock);
    return config;
}

void eng_log_give_up(struct eng_log *log, enum ot_err why, const char *what)
{
    if (atomic_exchange(&log->read_only, true)) return;
    ot_log(OT_LOG_ERROR, "log", "log_read_only", "dir=%s error=%s during=%s", log->dir_path, ot_err_name(why), what);
}

void eng_log_lock_segments(struct eng_log *log)
{
    for (;;) {
        pthread_mutex_lock(&log->writer_lock);
        pthread_mutex_lock(&log->lock);
        if (!log->swapping) break;
        pthread_mutex_unlock(&log->writer_lock);       /* the swap needs it */
        pthread_cond_wait(&log->swapped, &log->lock);
        pthread_mutex_unlock(&log->lock);
    }
    pthread_mutex_unlock(&log->lock);
}

int64_t eng_log_start_offset(const struct eng_log *log) { return atomic_load_explicit(&log->log_start_offset, memory_order_acquire); }
int64_t eng_log_end_offset(const struct eng_log *log) { return atomic_load_explicit(&log->log_end_offset, memory_order_acquire); }
int64_t eng_log_flushed_end(const struct eng_log *log) { return atomic_load_explicit(&log->flushed_end, memory_order_acquire); }
uint64_t eng_log_size_bytes(struct eng_log *log) { return atomic_load_explicit(&log->size_bytes, memory_order_acquire); }
bool eng_log_read_only(const struct eng_log *log) { return atomic_load_explicit(&log->read_only, memory_order_acquire); }
bool eng_log_full(const struct eng_log *log) { return eng_log_read_only(log) && eng_log_why(log) == OT_ERR_NO_SPACE; }
struct eng_producers *eng_log_producers(struct eng_log *log) { return log->producers; }
struct eng_epochs *eng_log_epochs(struct eng_log *log) { return log->epochs; }
const char *eng_log_dir_path(const struct eng_log *log) { return log->dir_path; }
uint32_t eng_log_store_dir(const struct eng_log *log) { return log->store_dir; }

void eng_log_set_start(struct eng_log *log, int64_t log_start_offset)
{
    pthread_mutex_lock(&log->lock);
    int64_t end = atomic_load(&log->log_end_offset);
    int64_t to = OT_MIN(log_start_offset, end);
    if (to > atomic_load(&log->log_start_offset)) atomic_store_explicit(&log->log_start_offset, to, memory_order_release);
    pthread_mutex_unlock(&log->lock);
}

uint32_t eng_log_segments(struct eng_log *log, struct eng_segment_info *out, uint32_t max)
{
    pthread_mutex_lock(&log->lock);
    uint32_t count = log->segment_count;
    for (uint32_t i = 0; i < OT_MIN(count, max); i++) {
        const struct eng_segment *seg = log->segments[i];
        uint32_t index_count = atomic_load(&seg->index_count), time_count = atomic_load(&seg->time_count);
        out[i] = (struct eng_segment_info){
            .base_offset = seg->base_offset, .end_offset = seg->end_offset, .last_append_ms = seg->last_append_ms, .log_bytes = seg->bytes,
            .max_timestamp_ms = seg->times_known ? seg->indexing.max_timestamp_ms : -1,
            .index_bytes = index_count == ENG_COUNT_UNKNOWN ? 0 : (uint64_t)index_count * ENG_INDEX_ENTRY_BYTES,
            .time_index_bytes = time_count == ENG_COUNT_UNKNOWN ? 0 : (uint64_t)time_count * ENG_TIME_ENTRY_BYTES,
            .active = i + 1 == count,
        };
    }
    pthread_mutex_unlock(&log->lock);
    return count;
}
