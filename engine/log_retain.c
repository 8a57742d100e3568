/* Retention: whole segments from the front. log_start_offset moves first, in the same turn of the mutex that takes the segment from the list, so what is
 * published as the start is always readable; then the files go, oldest first, so that a crash leaves no hole. */
#include "base/log.h"
#include "engine/log_inner.h"
#include "engine/snapshots.h"

#include <inttypes.h>
#include <string.h>

#define LARGE_BYTES (64ull << 20)

/* The front segment, with what the decision needs. */
struct front {
    struct eng_segment *seg;               /* referenced; NULL: the log is empty */
    uint64_t bytes, log_bytes;
    int64_t end_offset, last_append_ms;
    bool active;
};

static struct front look_front(struct eng_log *log)
{
    struct front front = { 0 };
    pthread_mutex_lock(&log->lock);
    if (log->segment_count > 0) {
        struct eng_segment *seg = log->segments[0];
        eng_segment_ref(seg);
        front = (struct front){ .seg = seg, .bytes = seg->bytes, .log_bytes = atomic_load(&log->size_bytes), .last_append_ms = seg->last_append_ms,
            .active = log->segment_count == 1 };
        front.end_offset = front.active ? seg->end_offset : log->segments[1]->base_offset;
    }
    pthread_mutex_unlock(&log->lock);
    return front;
}

static enum ot_err may_go(struct eng_log *log, const struct eng_log_config *config, const struct front *front, int64_t wall_ms, bool *go_out)
{
    struct eng_indexing times;
    *go_out = front->end_offset <= eng_log_start_offset(log);
    if (*go_out || !config->delete_enabled) return OT_OK;
    if (config->retention_bytes >= 0 && front->log_bytes >= (uint64_t)config->retention_bytes &&
        front->log_bytes - (uint64_t)config->retention_bytes >= front->bytes) {
        *go_out = true;
        return OT_OK;
    }
    if (config->retention_ms < 0) return OT_OK;
    enum ot_err err = eng_log_segment_times(log, front->seg, &times);
    if (err != OT_OK) return err;
    /* the earlier of the two: a record dated into the future pins nothing (its append time counts), one from the past goes by its own time */
    int64_t age_from = times.max_timestamp_ms < 0 ? front->last_append_ms : OT_MIN(times.max_timestamp_ms, front->last_append_ms);
    *go_out = wall_ms - age_from > config->retention_ms;
    return OT_OK;
}

/* Takes the front segment off the list; false when it is no longer there, the only one, or about to be swapped: another time, then. */
static bool take_front(struct eng_log *log, const struct front *front)
{
    pthread_mutex_lock(&log->writer_lock); /* the writer walks the list over its I/O */
    pthread_mutex_lock(&log->lock);
    bool taken = log->segment_count > 1 && log->segments[0] == front->seg && !log->swapping;
    if (taken) {
        if (atomic_load(&log->log_start_offset) < front->end_offset)
            atomic_store_explicit(&log->log_start_offset, front->end_offset, memory_order_release);
        log->segment_count--;
        memmove(log->segments, log->segments + 1, log->segment_count * sizeof *log->segments);
        atomic_fetch_sub(&log->size_bytes, front->seg->bytes);
        eng_segment_retire(front->seg);
    }
    pthread_mutex_unlock(&log->lock);
    pthread_mutex_unlock(&log->writer_lock);
    return taken;
}

static enum ot_err delete_front(struct eng_log *log, const struct front *front, struct eng_retained *out)
{
    int fd = -1;
    /* open before the name goes, so that a large file can be shortened in steps */
    if (front->bytes > LARGE_BYTES && eng_segment_acquire(front->seg, log->dir_path, ENG_SEGMENT_LOG, true, &fd) == OT_OK)
        eng_segment_release(front->seg, ENG_SEGMENT_LOG);
    if (!take_front(log, front)) return OT_ERR_CANCELLED;
    enum ot_err err = eng_log_unlink_segment(log, front->seg);
    front->seg->unlinked = err == OT_OK;
    if (err != OT_OK) log->undeleted_base = front->seg->base_offset;
    eng_segment_unref(front->seg);         /* the list's */
    out->segments++;
    out->bytes += front->bytes;
    return err;
}

/* What could not be unlinked goes before anything behind it does: a start that found it, and a hole behind it, would cut the log there. */
static enum ot_err unlink_left_over(struct eng_log *log)
{
    struct eng_segment gone = { .base_offset = log->undeleted_base };
    if (gone.base_offset < 0) return OT_OK;
    enum ot_err err = eng_log_unlink_segment(log, &gone);
    if (err == OT_OK) log->undeleted_base = -1;
    return err;
}

static enum ot_err follow_up(struct eng_log *log)
{
    pthread_mutex_lock(&log->lock);
    int64_t base = log->segment_count == 0 ? 0 : log->segments[0]->base_offset;
    pthread_mutex_unlock(&log->lock);
    enum ot_err err = eng_epochs_truncate_start(log->epochs, base);
    if (err == OT_OK) err = eng_snapshots_delete_below(log->io, log->dir_path, base);
    /* else a machine crash brings the segments back, and with them a log start that readers have seen pass */
    if (err == OT_OK) err = log->io->ops->sync_dir(log->io, log->dir_path);
    return err;
}

enum ot_err eng_log_retain(struct eng_log *log, int64_t limit_offset, int64_t wall_ms, struct eng_retained *out)
{
    struct eng_log_config config = eng_log_config_now(log);
    enum ot_err err = OT_OK;
    bool go = true;
    *out = (struct eng_retained){ .log_start_offset = eng_log_start_offset(log) };
    if (atomic_load(&log->closed)) return OT_ERR_CLOSED;
    err = unlink_left_over(log);
    while (go && err == OT_OK) {
        struct front front = look_front(log);
        if (front.seg == NULL) break;
        go = false;
        if (front.bytes > 0 || !front.active) err = may_go(log, &config, &front, wall_ms, &go);
        if (front.end_offset > limit_offset) go = false;
        if (err == OT_OK && go && front.active) {
            out->roll_wanted = true;       /* the writer's to do; what is in it goes with the next call */
            go = false;
        } else if (err == OT_OK && go) {
            err = eng_log_keep_name(log);
            if (err == OT_OK) err = eng_log_keep_state(log, &front.seg, 1, front.end_offset, wall_ms);
            if (err == OT_OK) err = delete_front(log, &front, out);
        }
        eng_segment_unref(front.seg);
    }
    if (err == OT_ERR_CANCELLED) err = OT_OK;
    if (err == OT_OK && out->segments > 0) {
        err = follow_up(log);
        ot_log(OT_LOG_INFO, "log", "segments_deleted", "dir=%s count=%" PRIu32 " bytes=%" PRIu64 " log_start_offset=%" PRId64, log->dir_path, out->segments,
            out->bytes, eng_log_start_offset(log));
    }
    out->log_start_offset = eng_log_start_offset(log);
    eng_log_sleep(log, wall_ms);
    eng_store_reap(log->store, 256ull << 20);
    return err;
}
