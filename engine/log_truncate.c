/* Cutting the end off, so that nothing of it can come back behind what is written afterwards. In this order:
 *
 *   1 readers and flush rounds lose sight of the tail: list, sizes, log_end_offset, flushed_end      (memory, under the mutex)
 *   2 the recovery point on disk is lowered: recovery must look at whatever is appended after the cut
 *   3 producer snapshots above the cut go, then whole segments, newest first: a crash leaves a prefix of the old log
 *   4 the segment of the cut is shortened: in place, or, while somebody sends from it, by a synced copy renamed over it
 *   5 fdatasync, and the folder if a name changed, before this returns and anything is appended
 *   6 what is derived follows: indexes, transaction indexes, leader epochs, producer state. A crash before leaves entries past the end, which recovery drops. */
#include "base/log.h"
#include "engine/log_inner.h"
#include "engine/snapshots.h"

#include <inttypes.h>
#include <stdlib.h>

#define COPY_BYTES (256u << 10)

struct cut {
    int64_t offset;                        /* the new end */
    uint32_t slot;                         /* of the segment that is last then */
    uint64_t bytes;                        /* its new size */
    struct eng_segment **dropped;          /* ascending, references are the log's former ones */
    uint32_t dropped_count;
    bool pinned, names_changed;
};

/* Where the cut goes: to the start of the batch that holds offset. */
static enum ot_err find_cut(struct eng_log *log, int64_t offset, struct cut *cut)
{
    struct eng_found found;
    cut->slot = eng_log_slot(log, offset);
    struct eng_segment *seg = log->segments[cut->slot];
    enum ot_err err = seg->bytes == 0 ? OT_ERR_NOT_FOUND : eng_segment_find(seg, log->dir_path, offset, seg->bytes, UINT64_MAX, true, &found);
    if (err == OT_ERR_NOT_FOUND) {
        cut->bytes = seg->bytes;
        cut->offset = offset;
        return OT_OK;
    }
    if (err != OT_OK) return err;
    cut->bytes = found.pos;
    cut->offset = OT_MIN(offset, found.info.base_offset);
    return OT_OK;
}

/* Step 1. */
static enum ot_err retire_tail(struct eng_log *log, struct cut *cut)
{
    struct eng_segment *seg = log->segments[cut->slot];
    cut->dropped_count = log->segment_count - cut->slot - 1;
    if (cut->dropped_count > 0 && (cut->dropped = calloc(cut->dropped_count, sizeof(struct eng_segment *))) == NULL) return OT_ERR_NO_MEMORY;
    pthread_mutex_lock(&log->lock);
    uint64_t gone = seg->bytes - cut->bytes;
    for (uint32_t i = 0; i < cut->dropped_count; i++) {
        cut->dropped[i] = log->segments[cut->slot + 1 + i];
        gone += cut->dropped[i]->bytes;
        eng_segment_retire(cut->dropped[i]);
    }
    log->segment_count = cut->slot + 1;
    seg->bytes = cut->bytes;
    seg->end_offset = cut->offset;
    seg->times_known = true;               /* live again: rewalk says what they are */
    seg->indexing = ENG_INDEXING_NONE;
    seg->first_timestamp_ms = cut->bytes == 0 ? INT64_MIN : seg->first_timestamp_ms;
    eng_tail_clear(log->tail);
    atomic_fetch_sub(&log->size_bytes, gone);
    atomic_store_explicit(&log->log_end_offset, cut->offset, memory_order_release);
    if (atomic_load(&log->flushed_end) > cut->offset) atomic_store(&log->flushed_end, cut->offset);
    if (atomic_load(&log->first_dirty) > cut->offset) atomic_store(&log->first_dirty, cut->offset);
    if (atomic_load(&log->log_start_offset) > cut->offset) atomic_store(&log->log_start_offset, cut->offset);
    log->truncations++;
    cut->pinned = atomic_load(&seg->refs) > 1;         /* each pin holds one; new ones no longer see past the cut */
    pthread_mutex_unlock(&log->lock);
    return OT_OK;
}

/* Step 3. */
static enum ot_err unlink_dropped(struct eng_log *log, struct cut *cut)
{
    enum ot_err err = eng_snapshots_delete_above(log->io, log->dir_path, cut->offset);
    cut->names_changed = true;
    for (uint32_t i = cut->dropped_count; i-- > 0 && err == OT_OK;) {
        struct eng_segment *seg = cut->dropped[i];
        if ((err = eng_log_unlink_segment(log, seg)) == OT_OK) seg->unlinked = true;
    }
    return err;
}

/* ---- step 4 ---- */

static enum ot_err copy_prefix(struct eng_log *log, int from_fd, int to_fd, uint64_t bytes)
{
    struct ot_io *io = log->io;
    uint8_t *buffer = malloc(COPY_BYTES);
    enum ot_err err = buffer == NULL ? OT_ERR_NO_MEMORY : OT_OK;
    for (uint64_t pos = 0; pos < bytes && err == OT_OK;) {
        size_t some = (size_t)OT_MIN(bytes - pos, (uint64_t)COPY_BYTES);
        if ((err = ot_io_read_exact(io, from_fd, buffer, some, pos)) == OT_OK) err = ot_io_write_all(io, to_fd, buffer, some, pos);
        pos += some;
    }
    free(buffer);
    return err == OT_OK ? io->ops->fdatasync(io, to_fd) : err;
}

static enum ot_err copy_file(struct eng_log *log, struct eng_segment *seg, uint64_t bytes)
{
    struct ot_io *io = log->io;
    char path[ENG_PATH_BYTES], tmp[ENG_PATH_BYTES];
    int from_fd = -1, to_fd = -1;
    enum ot_err err = eng_segment_path(path, log->dir_path, seg->base_offset, ".log");
    if (err == OT_OK) err = eng_segment_path(tmp, log->dir_path, seg->base_offset, ".log.tmp");
    if (err == OT_OK) err = eng_segment_acquire(seg, log->dir_path, ENG_SEGMENT_LOG, true, &from_fd);
    if (err != OT_OK) return err;
    err = io->ops->open(io, tmp, OT_IO_WRITE | OT_IO_CREATE | OT_IO_TRUNCATE, &to_fd);
    if (err == OT_OK) err = copy_prefix(log, from_fd, to_fd, bytes);
    io->ops->close(io, to_fd);
    if (err == OT_OK) err = io->ops->rename(io, tmp, path);
    if (err != OT_OK) ot_ignore(io->ops->unlink(io, tmp), "open removes what is left");
    eng_segment_release(seg, ENG_SEGMENT_LOG);
    return err;
}

/* A new segment takes the old one's place in the list; the old inode lives to its last unpin. */
static enum ot_err replace_segment(struct eng_log *log, struct cut *cut)
{
    struct eng_segment *old = log->segments[cut->slot], *seg = NULL;
    enum ot_err err = eng_segment_new(log->store, old->base_offset, &seg);
    if (err != OT_OK) return err;
    eng_log_unmap(log, old);
    if ((err = copy_file(log, old, cut->bytes)) != OT_OK) {
        eng_segment_unref(seg);
        return err;
    }
    pthread_mutex_lock(&log->lock);
    seg->end_offset = old->end_offset;
    seg->bytes = old->bytes;
    seg->first_timestamp_ms = old->first_timestamp_ms;
    seg->created_ms = old->created_ms;
    seg->last_append_ms = old->last_append_ms;
    seg->indexing = old->indexing;
    seg->times_known = true;
    atomic_store(&seg->txn_bytes, atomic_load(&old->txn_bytes));
    log->segments[cut->slot] = seg;
    old->unlinked = true;
    eng_segment_retire(old);
    pthread_mutex_unlock(&log->lock);
    eng_segment_unref(old);
    return OT_OK;
}

static enum ot_err cut_in_place(struct eng_log *log, struct cut *cut)
{
    struct eng_segment *seg = log->segments[cut->slot];
    int fd = -1;
    eng_log_unmap(log, seg);
    enum ot_err err = eng_segment_acquire(seg, log->dir_path, ENG_SEGMENT_LOG, true, &fd);
    if (err != OT_OK) return err;
    err = log->io->ops->truncate(log->io, fd, cut->bytes);
    if (err == OT_OK) err = log->io->ops->fdatasync(log->io, fd);
    eng_segment_release(seg, ENG_SEGMENT_LOG);
    seg->padded = false;
    seg->allocated_end = 0;
    return err;
}

static enum ot_err shorten(struct eng_log *log, struct cut *cut)
{
    if (cut->pinned) {
        enum ot_err err = replace_segment(log, cut);
        if (err == OT_OK || (err != OT_ERR_NO_SPACE && err != OT_ERR_NO_MEMORY)) return err;
        /* no room for a copy: the sender finds its range short and closes that connection */
    }
    return cut_in_place(log, cut);
}

/* The indexes are as short on the platter as in memory before anything is appended: else a crash brings back entries from behind the cut, and by then they name
 * offsets that other batches have. */
static enum ot_err sync_cut_indexes(struct eng_log *log)
{
    static const enum eng_segment_file which[] = { ENG_SEGMENT_INDEX, ENG_SEGMENT_TIME };
    struct eng_segment *seg = eng_log_active(log);
    enum ot_err err = OT_OK;
    for (int i = 0; seg != NULL && i < 2 && err == OT_OK; i++) {
        int fd = -1;
        err = eng_segment_acquire(seg, log->dir_path, which[i], true, &fd);
        if (err == OT_OK) {
            err = log->io->ops->fdatasync(log->io, fd);
            eng_segment_release(seg, which[i]);
        } else if (err == OT_ERR_NOT_FOUND) {
            err = OT_OK;                   /* an index that was given up is made anew when it is missed */
        }
    }
    return err;
}

static enum ot_err truncate_files(struct eng_log *log, struct cut *cut)
{
    for (uint32_t i = 0; i < cut->dropped_count; i++) eng_log_unmap(log, cut->dropped[i]);
    enum ot_err err = eng_store_recovery_lower(log->store, log->store_dir, log->name, cut->offset);
    if (err == OT_OK) err = unlink_dropped(log, cut);
    if (err == OT_OK) err = shorten(log, cut);
    if (err == OT_OK && cut->names_changed) err = log->io->ops->sync_dir(log->io, log->dir_path);
    if (err == OT_OK) err = eng_log_cut_aborted(log, cut->offset);
    if (err == OT_OK) err = eng_log_rewalk_active(log);
    if (err == OT_OK) err = sync_cut_indexes(log);
    if (err == OT_OK) err = eng_epochs_truncate_end(log->epochs, cut->offset, true);
    return err;
}

static enum ot_err truncate_locked(struct eng_log *log, int64_t offset, int64_t wall_ms)
{
    struct cut cut = { 0 };
    if (log->segment_count == 0 || offset < log->segments[0]->base_offset) return eng_log_begin_at(log, offset, wall_ms);
    /* entries that are kept and still in memory; failing that the index is sparser */
    enum ot_err err = eng_log_write_indexes(log, eng_log_active(log));
    ot_ignore(err, "the rewalk makes what is missing");
    err = find_cut(log, offset, &cut);
    if (err == OT_OK) err = retire_tail(log, &cut);
    if (err != OT_OK) return err;          /* nothing was changed */
    err = truncate_files(log, &cut);
    for (uint32_t i = 0; i < cut.dropped_count; i++) eng_segment_unref(cut.dropped[i]);
    free(cut.dropped);
    log->latest_epoch = eng_epochs_latest(log->epochs);
    log->snapshot_at = -1;
    if (err == OT_OK) err = eng_log_load_producers(log, false, INT64_MAX, wall_ms);
    if (err != OT_OK) eng_log_give_up(log, err, "truncation");
    return err;
}

enum ot_err eng_log_truncate(struct eng_log *log, int64_t offset, int64_t wall_ms)
{
    if (eng_log_read_only(log)) return eng_log_why(log);
    if (offset >= eng_log_end_offset(log)) return OT_OK;
    eng_log_lock_segments(log);
    enum ot_err err = truncate_locked(log, offset, wall_ms);
    pthread_mutex_unlock(&log->writer_lock);
    eng_store_reap(log->store, 256ull << 20);
    return err;
}

/* ---- beginning anew ---- */

static enum ot_err drop_all(struct eng_log *log, int64_t offset)
{
    enum ot_err err = OT_OK;
    pthread_mutex_lock(&log->lock);
    struct eng_segment **dropped = log->segments;
    uint32_t count = log->segment_count;
    log->segments = NULL;
    log->segment_count = log->segment_cap = 0;
    for (uint32_t i = 0; i < count; i++) eng_segment_retire(dropped[i]);
    eng_tail_clear(log->tail);
    atomic_store(&log->size_bytes, 0);
    atomic_store_explicit(&log->log_end_offset, offset, memory_order_release);
    atomic_store(&log->log_start_offset, offset);
    atomic_store(&log->flushed_end, OT_MIN(atomic_load(&log->flushed_end), offset));       /* all of it once the offset is on the disk */
    atomic_store(&log->first_dirty, offset);
    log->truncations++;
    pthread_mutex_unlock(&log->lock);
    err = eng_store_recovery_lower(log->store, log->store_dir, log->name, offset);
    for (uint32_t i = count; i-- > 0;) {
        eng_log_unmap(log, dropped[i]);
        enum ot_err gone = err == OT_OK ? eng_log_unlink_segment(log, dropped[i]) : err;
        dropped[i]->unlinked = gone == OT_OK;
        if (err == OT_OK) err = gone;
        eng_segment_unref(dropped[i]);
    }
    free(dropped);
    return err;
}

enum ot_err eng_log_begin_at(struct eng_log *log, int64_t offset, int64_t wall_ms)
{
    eng_producers_reset(log->producers);
    enum ot_err err = drop_all(log, offset);
    if (err == OT_OK) err = eng_snapshots_delete_above(log->io, log->dir_path, -1);
    if (err == OT_OK) err = eng_epochs_truncate_end(log->epochs, 0, true);
    log->latest_epoch = -1;
    log->snapshot_at = -1;
    atomic_store(&log->txn_index_seen, false);
    /* the name of an empty segment is what remembers the offset: without it, or without the folder around it, which nobody has synced if nothing was ever written, a restart would begin at 0 */
    if (err == OT_OK && offset > 0) err = eng_log_start_segment(log, offset, wall_ms);
    if (err == OT_OK) err = eng_log_sync_names(log);
    if (err == OT_OK) atomic_store_explicit(&log->flushed_end, offset, memory_order_release);
    if (err != OT_OK) eng_log_give_up(log, err, "starting at an offset");
    return err;
}

enum ot_err eng_log_start_at(struct eng_log *log, int64_t offset)
{
    if (eng_log_read_only(log)) return eng_log_why(log);
    eng_log_lock_segments(log);
    struct eng_segment *active = eng_log_active(log);
    int64_t wall_ms = active == NULL ? 0 : active->last_append_ms;
    enum ot_err err = eng_log_begin_at(log, offset, wall_ms);
    pthread_mutex_unlock(&log->writer_lock);
    eng_store_reap(log->store, 256ull << 20);
    return err;
}
