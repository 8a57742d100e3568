/* What is derived from the batches: producer state, transaction indexes, leader epochs. Reads headers only (and the few bytes of control batches). */
#include "base/log.h"
#include "engine/log_inner.h"
#include "engine/snapshots.h"
#include "engine/txnindex.h"

#include <inttypes.h>
#include <stdlib.h>

#define CONTROL_BYTES_MAX (1u << 20)

/* Calls each(arg, scan, info) for every batch that ends at or above from_offset. */
typedef enum ot_err (*batch_fn)(void *arg, struct eng_scan *scan, const struct eng_batch_info *info);

static enum ot_err each_in_segment(struct eng_log *log, struct eng_segment *seg, int64_t from_offset, batch_fn each, void *arg)
{
    uint8_t buffer[ENG_SCAN_BUFFER_BYTES];
    struct eng_scan scan;
    struct eng_found found;
    struct eng_batch_info info;
    int fd = -1;
    uint64_t pos = 0;
    if (seg->bytes == 0) return OT_OK;
    if (from_offset > seg->base_offset) {
        enum ot_err err = eng_segment_find(seg, log->dir_path, from_offset, seg->bytes, UINT64_MAX, true, &found);
        if (err == OT_ERR_NOT_FOUND) return OT_OK;
        if (err != OT_OK) return err;
        pos = found.pos;
    }
    enum ot_err err = eng_segment_acquire(seg, log->dir_path, ENG_SEGMENT_LOG, true, &fd);
    if (err != OT_OK) return err;
    eng_scan_init(&scan, log->io, fd, pos, seg->bytes, buffer, sizeof buffer);
    while ((err = eng_scan_next(&scan, &info)) == OT_OK)
        if ((err = each(arg, &scan, &info)) != OT_OK) break;
    eng_segment_release(seg, ENG_SEGMENT_LOG);
    return err == OT_ERR_NOT_FOUND ? OT_OK : err == OT_ERR_SHORT ? OT_ERR_CORRUPT : err;
}

static enum ot_err each_batch(struct eng_log *log, int64_t from_offset, batch_fn each, void *arg)
{
    enum ot_err err = OT_OK;
    for (uint32_t i = log->segment_count == 0 ? 0 : eng_log_slot(log, from_offset); i < log->segment_count && err == OT_OK; i++)
        err = each_in_segment(log, log->segments[i], from_offset, each, arg);
    return err;
}

/* ---- transaction index ---- */

static enum ot_err txn_index_truncate(struct eng_log *log, struct eng_segment *seg, int64_t offset)
{
    int fd = -1;
    uint64_t bytes = atomic_load(&seg->txn_bytes);
    if (bytes == 0) return OT_OK;
    enum ot_err err = eng_segment_acquire(seg, log->dir_path, ENG_SEGMENT_TXN, true, &fd);
    if (err != OT_OK) return err;
    err = offset <= seg->base_offset ? OT_ERR_CORRUPT : eng_txn_index_truncate(log->io, fd, offset, &bytes);
    if (err == OT_ERR_CORRUPT && offset <= seg->base_offset) {
        if ((err = log->io->ops->truncate(log->io, fd, 0)) == OT_OK) bytes = 0;        /* all of it goes, whatever it holds */
    } else if (err == OT_ERR_CORRUPT) {    /* damaged: replay makes it anew from `offset`; what was below is lost with it, so say it */
        ot_log(OT_LOG_WARN, "log", "txn_index_damaged", "dir=%s base_offset=%" PRId64, log->dir_path, seg->base_offset);
        if ((err = log->io->ops->truncate(log->io, fd, 0)) == OT_OK) bytes = 0;
    }
    if (err == OT_OK && atomic_exchange(&seg->txn_bytes, bytes) != bytes) {
        pthread_mutex_lock(&log->lock);
        seg->txn_dirty = true;             /* else a crash brings back what was cut, and below the recovery point it would be believed */
        pthread_mutex_unlock(&log->lock);
    }
    eng_segment_release(seg, ENG_SEGMENT_TXN);
    return err;
}

enum ot_err eng_log_cut_aborted(struct eng_log *log, int64_t offset)
{
    enum ot_err err = OT_OK;
    for (uint32_t i = log->segment_count == 0 ? 0 : eng_log_slot(log, offset); i < log->segment_count && err == OT_OK; i++)
        err = txn_index_truncate(log, log->segments[i], offset);
    return err;
}

static enum ot_err index_aborted(struct eng_log *log, struct eng_segment *seg, const struct eng_completed_txn *txn)
{
    int fd = -1;
    uint64_t bytes = atomic_load(&seg->txn_bytes);
    enum ot_err err = eng_segment_acquire(seg, log->dir_path, ENG_SEGMENT_TXN, true, &fd);
    if (err != OT_OK) return err;
    err = eng_txn_index_append(log->io, fd, txn, &bytes);
    eng_segment_release(seg, ENG_SEGMENT_TXN);
    if (err != OT_OK) return err;
    pthread_mutex_lock(&log->lock);
    atomic_store(&seg->txn_bytes, bytes);
    seg->txn_dirty = true;
    pthread_mutex_unlock(&log->lock);
    atomic_store(&log->txn_index_seen, true);
    return OT_OK;
}

bool eng_log_has_aborted(const struct eng_log *log) { return atomic_load_explicit(&log->txn_index_seen, memory_order_acquire); }

enum ot_err eng_log_add_aborted(struct eng_log *log, const struct eng_completed_txn *txn)
{
    if (!txn->aborted) return OT_OK;
    if (eng_log_read_only(log)) return eng_log_why(log);
    pthread_mutex_lock(&log->writer_lock);
    struct eng_segment *seg = log->segment_count == 0 ? NULL : log->segments[eng_log_slot(log, txn->last_offset)];
    enum ot_err err = seg == NULL ? OT_ERR_NOT_FOUND : index_aborted(log, seg, txn);
    pthread_mutex_unlock(&log->writer_lock);
    return err;
}

static enum ot_err collect_segment(struct eng_log *log, struct eng_segment *seg, struct eng_txn_collect *collect)
{
    int fd = -1;
    uint64_t bytes = atomic_load(&seg->txn_bytes);
    if (bytes == 0) return OT_OK;
    enum ot_err err = eng_segment_acquire(seg, log->dir_path, ENG_SEGMENT_TXN, true, &fd);
    if (err != OT_OK) return err;
    err = eng_txn_index_collect(log->io, fd, bytes, collect);
    eng_segment_release(seg, ENG_SEGMENT_TXN);
    return err;
}

static enum ot_err collect_round(struct eng_log *log, int64_t from, struct eng_txn_collect *collect)
{
    int64_t base = from;
    enum ot_err err = OT_OK;
    while (!collect->done && err == OT_OK) {
        pthread_mutex_lock(&log->lock);
        struct eng_segment *seg = NULL;
        int64_t next = -1;
        if (log->segment_count > 0) {
            uint32_t slot = eng_log_slot(log, base);
            seg = log->segments[slot];
            eng_segment_ref(seg);
            if (slot + 1 < log->segment_count) next = log->segments[slot + 1]->base_offset;
        }
        pthread_mutex_unlock(&log->lock);
        if (seg == NULL) break;
        err = collect_segment(log, seg, collect);
        eng_segment_unref(seg);
        if (next < 0) break;
        base = next;
    }
    return err;
}

enum ot_err eng_log_aborted(struct eng_log *log, int64_t from, int64_t to, struct eng_aborted *out, uint32_t max, uint32_t *count_out)
{
    struct eng_txn_collect collect = { 0 };
    enum ot_err err = OT_ERR_CANCELLED;
    *count_out = 0;
    if (!atomic_load(&log->txn_index_seen)) return OT_OK;
    for (int round = 0; round < 100 && err == OT_ERR_CANCELLED; round++) {     /* a segment was retired under us: the list is newer now */
        collect = (struct eng_txn_collect){ .from = from, .to = to, .out = out, .max = max };
        err = collect_round(log, from, &collect);
    }
    if (atomic_load(&log->closed)) return OT_ERR_CLOSED;       /* its list may have been given up while we walked it: then this is not all */
    if (err != OT_OK) return err == OT_ERR_CANCELLED ? OT_ERR_IO : err;
    eng_txn_collect_sort(&collect);
    *count_out = collect.count;
    return OT_OK;
}

/* ---- producers ---- */

struct replay { struct eng_log *log; struct eng_producers *producers; bool index; };

static enum ot_err replay_batch(void *arg, struct eng_scan *scan, const struct eng_batch_info *info)
{
    struct replay *replay = arg;
    struct eng_marker marker = { 0 };
    struct eng_completed_txn done = { .producer_id = -1 };
    if (info->magic < 2 || info->producer_id < 0) return OT_OK;
    if (info->control) {
        const uint8_t *data = NULL;
        uint8_t *owned = NULL;
        enum ot_err err = eng_scan_load(scan, info, CONTROL_BYTES_MAX, &data, &owned);
        if (err != OT_OK) return err == OT_ERR_TOO_LARGE ? OT_OK : err;
        if (eng_batch_check_crc(data, info) == OT_OK) eng_batch_marker(data, info, &marker);
        free(owned);
    }
    enum ot_err err = eng_producers_replay_completed(replay->producers, info, info->control ? &marker : NULL, &done);
    if (err != OT_OK || !replay->index || done.producer_id < 0 || !done.aborted) return err;
    struct eng_segment *seg = replay->log->segments[eng_log_slot(replay->log, done.last_offset)];
    return index_aborted(replay->log, seg, &done);
}

/* Where a replay that makes the transaction indexes anew may begin: not above the recovery point, since a snapshot can be on disk while entries below it
 * are not, and not behind the start of a segment whose index is damaged. */
static enum ot_err replay_limit(struct eng_log *log, int64_t recovery_point, int64_t *limit_io)
{
    int64_t first = log->segments[0]->base_offset;
    *limit_io = OT_MAX(OT_MIN(*limit_io, recovery_point), first);
    for (uint32_t i = 0; i < log->segment_count && log->segments[i]->base_offset < *limit_io; i++) {
        struct eng_segment *seg = log->segments[i];
        uint64_t bytes = atomic_load(&seg->txn_bytes);
        int fd = -1;
        if (bytes == 0) continue;
        enum ot_err err = eng_segment_acquire(seg, log->dir_path, ENG_SEGMENT_TXN, true, &fd);
        if (err != OT_OK) return err;
        err = eng_txn_index_check(log->io, fd, bytes, seg->base_offset, INT64_MAX);
        eng_segment_release(seg, ENG_SEGMENT_TXN);
        if (err == OT_OK) continue;
        if (err != OT_ERR_CORRUPT) return err;
        ot_log(OT_LOG_WARN, "log", "txn_index_damaged", "dir=%s base_offset=%" PRId64 " action=rebuilt", log->dir_path, seg->base_offset);
        *limit_io = seg->base_offset;
    }
    return OT_OK;
}

enum ot_err eng_log_load_producers(struct eng_log *log, bool index_aborted_too, int64_t recovery_point, int64_t wall_ms)
{
    int64_t end = atomic_load(&log->log_end_offset), limit = end, from = end;
    struct replay replay = { log, log->producers, index_aborted_too };
    eng_producers_reset(log->producers);
    if (log->segment_count == 0) return OT_OK;
    /* one from behind a cut would be believed when the log has grown over its offset again */
    enum ot_err err = index_aborted_too ? eng_snapshots_delete_above(log->io, log->dir_path, end) : OT_OK;
    if (err == OT_OK && index_aborted_too) err = replay_limit(log, recovery_point, &limit);
    if (err != OT_OK) return err;
    err = eng_snapshots_load(log->io, log->dir_path, log->segments[0]->base_offset, limit, log->producers, wall_ms, &from);
    if (err != OT_OK) return err;
    log->snapshot_at = from == end ? end : -1;
    if (index_aborted_too && (err = eng_log_cut_aborted(log, from)) != OT_OK) return err;
    return from < end ? each_batch(log, from, replay_batch, &replay) : OT_OK;
}

/* The snapshot at the end of a segment was written without a sync, if it was written at all: a crash may have left a torn one, or none, and recovery looks only at the
 * newest. Then it is made anew from the one before it, while the batches are there. Without it a crash would leave neither, and a producer that
 * only a marker is left of is refused its next sequence. */
static enum ot_err make_state(struct eng_log *log, struct eng_segment *const *segs, uint32_t count, int64_t end_offset, int64_t wall_ms, struct eng_producers *producers)
{
    struct replay replay = { log, producers, false };
    int64_t from = segs[0]->base_offset;
    enum ot_err err = eng_snapshots_load(log->io, log->dir_path, segs[0]->base_offset, end_offset, producers, wall_ms, &from);
    if (err != OT_OK || from == end_offset) return err == OT_OK ? OT_ERR_EXISTS : err;
    for (uint32_t i = 0; i < count && err == OT_OK; i++) {
        if (i + 1 < count && segs[i + 1]->base_offset <= from) continue;
        err = each_in_segment(log, segs[i], from, replay_batch, &replay);
        if (err == OT_ERR_CORRUPT) {       /* no reason to keep for ever what cannot be read */
            ot_log(OT_LOG_WARN, "log", "producer_state_unread", "dir=%s base_offset=%" PRId64, log->dir_path, segs[i]->base_offset);
            err = OT_OK;
        }
    }
    if (err != OT_OK) return err;
    size_t bytes = eng_producers_snapshot_bytes(producers);
    uint8_t *data = bytes > UINT32_MAX ? NULL : malloc(bytes + 1);
    if (data == NULL) return OT_ERR_NO_MEMORY;
    struct ot_writer writer = ot_writer_over(data, bytes);
    err = eng_producers_snapshot(producers, &writer);
    struct ot_blob blob = { data, (uint32_t)(writer.at - writer.start), false };
    if (err == OT_OK) err = eng_snapshots_write(log->io, log->dir_path, end_offset, &blob, true);
    free(data);
    return err;
}

static enum ot_err sync_state(struct eng_log *log, int64_t offset)
{
    char name[ENG_SNAPSHOT_NAME_BYTES], path[ENG_PATH_BYTES];
    int fd = -1;
    eng_snapshots_name(offset, name);
    enum ot_err err = eng_path_join(path, log->dir_path, name);
    if (err == OT_OK) err = log->io->ops->open(log->io, path, OT_IO_READ, &fd);
    if (err == OT_OK) err = log->io->ops->fdatasync(log->io, fd);
    log->io->ops->close(log->io, fd);
    return err == OT_OK ? log->io->ops->sync_dir(log->io, log->dir_path) : err;
}

enum ot_err eng_log_keep_state(struct eng_log *log, struct eng_segment *const *segs, uint32_t count, int64_t end_offset, int64_t wall_ms)
{
    struct eng_log_config config = eng_log_config_now(log);
    struct eng_producers *producers = NULL;
    if (end_offset <= segs[0]->base_offset) return OT_OK;
    enum ot_err err = eng_producers_new(config.producers_max, config.producer_expiry_ms, &producers);
    if (err == OT_OK) err = make_state(log, segs, count, end_offset, wall_ms, producers);
    eng_producers_free(producers);
    return err == OT_ERR_EXISTS ? sync_state(log, end_offset) : err;
}

/* ---- epochs ---- */

struct epochs_seen { struct eng_epoch_end *starts; uint32_t count, cap; };

static enum ot_err see_epoch(void *arg, struct eng_scan *scan, const struct eng_batch_info *info)
{
    struct epochs_seen *seen = arg;
    (void)scan;
    int32_t latest = seen->count == 0 ? -1 : seen->starts[seen->count - 1].epoch;
    if (info->magic < 2 || info->partition_leader_epoch <= latest) return OT_OK;
    if (seen->count == seen->cap) {
        uint32_t cap = seen->cap == 0 ? 8 : seen->cap * 2;
        struct eng_epoch_end *grown = realloc(seen->starts, cap * sizeof *grown);
        if (grown == NULL) return OT_ERR_NO_MEMORY;
        seen->starts = grown;
        seen->cap = cap;
    }
    seen->starts[seen->count++] = (struct eng_epoch_end){ info->partition_leader_epoch, info->base_offset };
    return OT_OK;
}

enum ot_err eng_log_rebuild_epochs(struct eng_log *log)
{
    struct epochs_seen seen = { 0 };
    enum ot_err err = log->segment_count == 0 ? OT_OK : each_batch(log, log->segments[0]->base_offset, see_epoch, &seen);
    if (err == OT_OK) err = eng_epochs_replace(log->epochs, seen.starts, seen.count);
    if (err == OT_OK) ot_log(OT_LOG_INFO, "log", "leader_epochs_rebuilt", "dir=%s count=%" PRIu32, log->dir_path, seen.count);
    free(seen.starts);
    return err;
}
