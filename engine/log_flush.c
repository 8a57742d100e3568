/* Flush rounds: sample the end, sync every file written since the last round, oldest first, then move flushed_end to the sample. What became dirty meanwhile
 * belongs to the next round. A failed sync is final: the pages may be gone, and asking again would say they are not. */
#include "base/log.h"
#include "engine/log_inner.h"
#include "engine/snapshots.h"

static enum ot_err sync_file(struct eng_log *log, struct eng_segment *seg, enum eng_segment_file which)
{
    int fd = -1;
    enum ot_err err = eng_segment_acquire(seg, log->dir_path, which, true, &fd);
    if (err != OT_OK) return err;
    atomic_store_explicit(&eng_segment_file(seg, which)->dirty, false, memory_order_relaxed);
    err = log->io->ops->fdatasync(log->io, fd);
    eng_segment_release(seg, which);
    return err == OT_ERR_NO_SPACE ? OT_ERR_IO : err;       /* late allocation: the pages are lost like those of any failed sync */
}

/* The folder's own names: in its parent, and what lies in it. */
static enum ot_err sync_names_locked(struct eng_log *log)
{
    pthread_mutex_lock(&log->lock);
    bool metadata = log->metadata_unsynced, folder = log->dir_unsynced;
    pthread_mutex_unlock(&log->lock);
    enum ot_err err = OT_OK;
    if (metadata && (err = eng_partition_metadata_write(log->io, log->dir_path, &log->topic_id, true)) != OT_OK) return err;      /* syncs the folder */
    if (!metadata) err = log->io->ops->sync_dir(log->io, log->dir_path);
    if (err == OT_OK && folder) err = log->io->ops->sync_dir(log->io, eng_store_dir_path(log->store, log->store_dir));
    if (err != OT_OK) return err == OT_ERR_NO_SPACE ? OT_ERR_IO : err;
    pthread_mutex_lock(&log->lock);
    log->metadata_unsynced = log->dir_unsynced = false;
    pthread_mutex_unlock(&log->lock);
    return OT_OK;
}

enum ot_err eng_log_sync_names(struct eng_log *log)
{
    pthread_mutex_lock(&log->names_lock);
    enum ot_err err = sync_names_locked(log);
    pthread_mutex_unlock(&log->names_lock);
    return err;
}

enum ot_err eng_log_keep_name(struct eng_log *log)
{
    pthread_mutex_lock(&log->lock);
    bool unsynced = log->metadata_unsynced || (log->dir_unsynced && log->segment_count > 0);
    pthread_mutex_unlock(&log->lock);
    return unsynced ? eng_log_sync_names(log) : OT_OK;
}

/* The oldest segment with something to sync, taken with a reference and its marks cleared: whoever writes on sets them again. */
struct dirty { struct eng_segment *seg; bool data, indexes, txn, name; };

static struct dirty take_dirty(struct eng_log *log, int64_t below, bool whole)
{
    struct dirty dirty = { 0 };
    pthread_mutex_lock(&log->lock);
    for (uint32_t i = 0; i < log->segment_count; i++) {
        struct eng_segment *seg = log->segments[i];
        bool sealed = whole || i + 1 < log->segment_count;
        bool indexes = seg->indexes_dirty && (sealed || seg->indexes_cut);
        bool data = seg->dirty || (seg->shortened && sealed);
        if (!data && !indexes && !seg->txn_dirty && !seg->name_unsynced) continue;
        if (seg->base_offset > below) break;
        dirty = (struct dirty){ seg, data, indexes, seg->txn_dirty, seg->name_unsynced };
        seg->dirty = seg->txn_dirty = seg->name_unsynced = false;
        if (data) seg->shortened = false;
        if (indexes) seg->indexes_dirty = seg->indexes_cut = false;
        eng_segment_ref(seg);
        break;
    }
    pthread_mutex_unlock(&log->lock);
    return dirty;
}

static enum ot_err sync_segment(struct eng_log *log, const struct dirty *dirty)
{
    enum ot_err err = OT_OK;
    if (dirty->data) err = sync_file(log, dirty->seg, ENG_SEGMENT_LOG);
    if (err == OT_OK && dirty->txn) err = sync_file(log, dirty->seg, ENG_SEGMENT_TXN);
    if (err == OT_OK && dirty->indexes) {
        err = sync_file(log, dirty->seg, ENG_SEGMENT_INDEX);
        if (err == OT_OK) err = sync_file(log, dirty->seg, ENG_SEGMENT_TIME);
        if (err == OT_ERR_NOT_FOUND) err = OT_OK;      /* an index that was given up */
    }
    if (err == OT_OK && (dirty->name || dirty->txn)) {
        err = eng_log_sync_names(log);
        if (err == OT_ERR_NO_SPACE) {          /* partition.metadata finds no room: what was synced stays so, the names are for the next round */
            pthread_mutex_lock(&log->lock);
            dirty->seg->name_unsynced = true;
            pthread_mutex_unlock(&log->lock);
        }
    }
    return err == OT_ERR_CANCELLED ? OT_OK : err;      /* retired meanwhile: nothing of it is left to keep */
}

static enum ot_err flush(struct eng_log *log, bool whole, int64_t *flushed_end_out)
{
    enum ot_err err = OT_OK;
    pthread_mutex_lock(&log->lock);
    int64_t sample = atomic_load(&log->log_end_offset);
    uint64_t truncations = log->truncations;
    atomic_store_explicit(&log->appends_since_flush, 0, memory_order_relaxed);
    pthread_mutex_unlock(&log->lock);
    while (err == OT_OK) {
        struct dirty dirty = take_dirty(log, sample, whole);
        if (dirty.seg == NULL) break;
        err = sync_segment(log, &dirty);
        eng_segment_unref(dirty.seg);
    }
    if (err == OT_ERR_NO_SPACE) return err;    /* no sync failed: see sync_segment */
    if (err != OT_OK) {
        atomic_store(&log->full_at_open, false);       /* its pages are not asked for again */
        eng_log_give_up(log, err, "flush");
        return err;
    }
    pthread_mutex_lock(&log->lock);
    if (truncations == log->truncations && sample > atomic_load(&log->flushed_end))
        atomic_store_explicit(&log->flushed_end, sample, memory_order_release);
    *flushed_end_out = atomic_load(&log->flushed_end);
    pthread_mutex_unlock(&log->lock);
    return OT_OK;
}

enum ot_err eng_log_flush(struct eng_log *log, int64_t *flushed_end_out)
{
    *flushed_end_out = eng_log_flushed_end(log);
    if (eng_log_read_only(log) && eng_log_why(log) != OT_ERR_NO_SPACE) return eng_log_why(log);
    return flush(log, false, flushed_end_out);
}

enum ot_err eng_log_flush_whole(struct eng_log *log)
{
    int64_t flushed_end = 0;
    return flush(log, true, &flushed_end);
}

enum ot_err eng_log_snapshot(struct eng_log *log, const struct ot_blob *snapshot)
{
    enum ot_err err = OT_OK;
    if (eng_log_read_only(log)) return eng_log_why(log);
    pthread_mutex_lock(&log->writer_lock);
    int64_t end = atomic_load(&log->log_end_offset);
    struct eng_segment *seg = eng_log_active(log);
    if (seg != NULL && log->snapshot_at != end) {
        /* replay begins behind the snapshot: what the transaction index got before must not be lost */
        if (atomic_load(&seg->txn_bytes) > 0) err = sync_file(log, seg, ENG_SEGMENT_TXN);
        if (err == OT_OK) err = eng_snapshots_write(log->io, log->dir_path, end, snapshot, true);
        if (err == OT_OK) {
            log->snapshot_at = end;
            err = eng_log_tidy_snapshots(log);
        }
    }
    pthread_mutex_unlock(&log->writer_lock);
    return err;
}
