/* Appending: one gathered write for all batches of a turn, then index entries in memory, then log_end_offset. A batch exists once log_end_offset is past it;
 * what a failed write left behind it is cut off before anything else is written, so no gap and no stranger's bytes can lie between two batches. */
#include "base/log.h"
#include "base/util.h"
#include "engine/log_inner.h"
#include "engine/snapshots.h"

#include <inttypes.h>
#include <stdlib.h>

#define BUSY_BYTES (4ull << 20)            /* a segment this large is worth preallocating */
#define PREALLOCATE_BYTES (16ull << 20)
#define AUTO_BATCH_BYTES 4096u             /* ENG_APPEND_AUTO maps for lone batches below this … */
#define AUTO_APPENDS_UNFLUSHED 64u         /* … when this many appends went by without a flush */
#define IDLE_MS 60000

/* ---- rolling ---- */

/* Kafka's jitter: a fixed part of segment.jitter.ms for each segment, so that partitions made together do not roll together. */
static int64_t jitter_ms(const struct eng_log *log, const struct eng_log_config *config, const struct eng_segment *seg)
{
    int64_t most = OT_MIN(config->segment_jitter_ms, config->segment_ms);
    if (most <= 0) return 0;
    uint64_t seed = (uint64_t)seg->base_offset ^ ot_hash64(log->topic_id.bytes, sizeof log->topic_id.bytes, 1);
    return (int64_t)(ot_hash64(&seed, sizeof seed, 2) % (uint64_t)most);
}

static bool time_to_roll(const struct eng_log *log, const struct eng_log_config *config, const struct eng_segment *seg, int64_t max_timestamp_ms, int64_t wall_ms)
{
    int64_t waited = seg->first_timestamp_ms >= 0 ? max_timestamp_ms - seg->first_timestamp_ms : wall_ms - seg->created_ms;
    return waited > config->segment_ms - jitter_ms(log, config, seg);
}

static uint32_t fits_in(const struct eng_log *log, const struct eng_segment *seg, const struct eng_append_batch *batches, uint32_t count, int64_t wall_ms)
{
    const struct eng_log_config *config = &log->config;
    uint32_t index_pending = log->tail == NULL ? 0 : log->tail->index_pending, time_pending = log->tail == NULL ? 0 : log->tail->time_pending;
    uint64_t index_room = config->segment_index_bytes / ENG_INDEX_ENTRY_BYTES, time_room = config->segment_index_bytes / ENG_TIME_ENTRY_BYTES;
    uint64_t index_used = atomic_load(&seg->index_count) + (uint64_t)index_pending;
    uint64_t time_used = atomic_load(&seg->time_count) + (uint64_t)time_pending + 1;       /* one is kept for the last entry */
    uint64_t bytes = seg->bytes;
    uint32_t n = 0;
    for (; n < count; n++, index_used++, time_used++) {
        if (batches[n].last_offset - seg->base_offset > INT32_MAX) break;
        if (bytes > 0) {                   /* an empty segment takes any one batch */
            if (bytes + batches[n].bytes > config->segment_bytes || index_used >= index_room || time_used >= time_room) break;
            if (time_to_roll(log, config, seg, batches[n].max_timestamp, wall_ms)) break;
        }
        bytes += batches[n].bytes;
    }
    return n;
}

uint32_t eng_log_fits(struct eng_log *log, const struct eng_append_batch *batches, uint32_t count, int64_t wall_ms)
{
    count = OT_MIN(count, ENG_APPEND_BATCHES_MAX);
    pthread_mutex_lock(&log->lock);
    struct eng_segment *seg = eng_log_active(log);
    struct eng_segment fresh = { .base_offset = atomic_load(&log->log_end_offset), .first_timestamp_ms = INT64_MIN, .created_ms = wall_ms };
    uint32_t fit = fits_in(log, seg == NULL ? &fresh : seg, batches, count, wall_ms);
    pthread_mutex_unlock(&log->lock);
    return fit;
}

static enum ot_err roll_locked(struct eng_log *log, const struct ot_blob *snapshot, int64_t wall_ms)
{
    struct eng_segment *seg = eng_log_active(log);
    int64_t end = atomic_load(&log->log_end_offset);
    if (seg == NULL || seg->bytes == 0) return OT_OK;
    enum ot_err err = eng_log_finish_segment(log, seg);
    if (err != OT_OK) return err;
    if (snapshot != NULL && snapshot->bytes > 0) {
        err = eng_snapshots_write(log->io, log->dir_path, end, snapshot, false);
        if (err == OT_OK) log->snapshot_at = end;
        else ot_log(OT_LOG_WARN, "log", "snapshot_unwritten", "dir=%s offset=%" PRId64 " error=%s", log->dir_path, end, ot_err_name(err));
    }
    return eng_log_start_segment(log, end, wall_ms);
}

enum ot_err eng_log_roll(struct eng_log *log, const struct ot_blob *snapshot, int64_t wall_ms)
{
    if (eng_log_read_only(log)) return eng_log_why(log);
    pthread_mutex_lock(&log->writer_lock);
    enum ot_err err = roll_locked(log, snapshot, wall_ms);
    pthread_mutex_unlock(&log->writer_lock);
    if (err == OT_ERR_IO) eng_log_give_up(log, err, "roll");
    return err;
}

/* The new segment is there before the empty one goes: a crash between the two leaves both, and an empty one holds nothing that could be wrong. */
static enum ot_err skip_locked(struct eng_log *log, int64_t offset, int64_t wall_ms)
{
    struct eng_segment *empty = eng_log_active(log);
    OT_ASSERT(empty == NULL || empty->bytes == 0);
    OT_ASSERT(offset > atomic_load(&log->log_end_offset));
    enum ot_err err = eng_log_start_segment(log, offset, wall_ms);
    if (err != OT_OK) return err;
    pthread_mutex_lock(&log->lock);
    if (empty != NULL) {
        log->segments[log->segment_count - 2] = log->segments[log->segment_count - 1];
        log->segment_count--;
        eng_segment_retire(empty);
    }
    atomic_store_explicit(&log->log_end_offset, offset, memory_order_release);
    pthread_mutex_unlock(&log->lock);
    if (empty == NULL) return OT_OK;
    eng_log_unmap(log, empty);
    err = eng_log_unlink_segment(log, empty);
    empty->unlinked = err == OT_OK;
    eng_segment_unref(empty);
    return err;
}

enum ot_err eng_log_skip(struct eng_log *log, int64_t offset, int64_t wall_ms)
{
    if (eng_log_read_only(log)) return eng_log_why(log);
    eng_log_lock_segments(log);                /* a swap of the cleaner counts its places in the list */
    enum ot_err err = skip_locked(log, offset, wall_ms);
    pthread_mutex_unlock(&log->writer_lock);
    if (err == OT_ERR_IO) eng_log_give_up(log, err, "skip");
    return err;
}

/* ---- the write ---- */

static enum ot_err write_gathered(struct ot_io *io, int fd, const struct eng_append_batch *batches, uint32_t count, uint64_t pos, uint64_t *written_out)
{
    struct iovec iov[ENG_APPEND_BATCHES_MAX];
    uint32_t at = 0;
    for (uint32_t i = 0; i < count; i++) iov[i] = (struct iovec){ (void *)(uintptr_t)batches[i].data, batches[i].bytes };
    *written_out = 0;
    while (at < count) {
        size_t got = 0;
        enum ot_err err = io->ops->pwritev(io, fd, &iov[at], (int)(count - at), pos + *written_out, &got);
        *written_out += got;
        if (err != OT_OK) return err;
        if (got == 0) return OT_ERR_IO;
        while (at < count && got >= iov[at].iov_len) got -= iov[at++].iov_len;
        if (got > 0) {
            iov[at].iov_base = (uint8_t *)iov[at].iov_base + got;
            iov[at].iov_len -= got;
        }
    }
    return OT_OK;
}

static enum ot_err write_mapped(struct eng_log *log, struct eng_segment *seg, const struct eng_append_batch *batches, uint32_t count, uint64_t *written_out)
{
    uint64_t pos = seg->bytes;
    *written_out = 0;
    for (uint32_t i = 0; i < count; i++) {
        /* the copy into the page cache: for small batches it is cheaper than any system call (docs/file-formats.md) */
        enum ot_err err = ot_guarded_copy(seg->map + pos, batches[i].data, batches[i].bytes);
        if (err != OT_OK) {
            ot_log(OT_LOG_ERROR, "log", "map_failed", "dir=%s base_offset=%" PRId64 " offset=%" PRId64 " pos=%" PRIu64 " text=\"the file was truncated, or its disk fails, under its map\"",
                log->dir_path, seg->base_offset, batches[i].base_offset, pos);
            return err;
        }
        pos += batches[i].bytes;
        *written_out += batches[i].bytes;
    }
    return OT_OK;
}

/* Ask for the next stretch of blocks, once a segment is busy. A refusal is no error: the write itself will tell. */
static void preallocate(struct eng_log *log, const struct eng_log_config *config, struct eng_segment *seg, int fd, uint64_t end)
{
    if (seg->padded || end <= seg->allocated_end) return;
    uint64_t from = OT_MAX(seg->bytes, seg->allocated_end), to = 0;
    if (config->preallocate) to = config->segment_bytes;
    else if (seg->bytes >= BUSY_BYTES) to = OT_MIN(from + PREALLOCATE_BYTES, (uint64_t)config->segment_bytes);
    if (to <= from) return;
    if (log->io->ops->preallocate(log->io, fd, from, to - from, true) == OT_OK) seg->allocated_end = to;
    else seg->allocated_end = UINT64_MAX;              /* not asked again in this segment */
}

/* The file back to its last whole batch. Failing that, nothing may be written behind what lies there. */
static void cut_back(struct eng_log *log, struct eng_segment *seg, int fd, uint64_t bytes, enum ot_err why)
{
    eng_log_unmap(log, seg);
    enum ot_err err = log->io->ops->truncate(log->io, fd, bytes);
    seg->padded = false;
    seg->allocated_end = 0;
    /* synced, or a machine crash brings back batches that their producers were told are not there */
    if (err == OT_OK) err = log->io->ops->fdatasync(log->io, fd);
    if (err != OT_OK) eng_log_give_up(log, err, "cutting back a failed append");
    else if (why != OT_ERR_NO_SPACE && why != OT_ERR_NO_MEMORY) eng_log_give_up(log, why, "append");
}

static bool wants_map(struct eng_log *log, const struct eng_log_config *config, const struct eng_append_batch *batches, uint32_t count)
{
    if (config->append_io == ENG_APPEND_MMAP) return true;
    return config->append_io == ENG_APPEND_AUTO && count == 1 && batches[0].bytes < AUTO_BATCH_BYTES && atomic_load_explicit(&log->appends_since_flush, memory_order_relaxed) >= AUTO_APPENDS_UNFLUSHED;
}

static enum ot_err write_batches(struct eng_log *log, const struct eng_log_config *config, struct eng_segment *seg, const struct eng_append_batch *batches,
    uint32_t count, uint32_t *whole_out)
{
    uint64_t bytes = 0, written = 0, whole_bytes = 0;
    int fd = -1;
    *whole_out = 0;
    for (uint32_t i = 0; i < count; i++) bytes += batches[i].bytes;
    const bool mapped = seg->map != NULL && seg->bytes + bytes <= seg->map_bytes && wants_map(log, config, batches, count);
    if (mapped && write_mapped(log, seg, batches, count, &written) == OT_OK) {      /* no descriptor is needed */
        *whole_out = count;
        return OT_OK;
    }
    enum ot_err err = eng_segment_acquire(seg, log->dir_path, ENG_SEGMENT_LOG, true, &fd);
    if (err != OT_OK) return err;
    if (wants_map(log, config, batches, count) && eng_log_map(log, seg, seg->bytes + bytes)) {
        err = write_mapped(log, seg, batches, count, &written);
    } else {
        preallocate(log, config, seg, fd, seg->bytes + bytes);
        err = write_gathered(log->io, fd, batches, count, seg->bytes, &written);
    }
    while (*whole_out < count && whole_bytes + batches[*whole_out].bytes <= written) whole_bytes += batches[(*whole_out)++].bytes;
    if (err != OT_OK) cut_back(log, seg, fd, seg->bytes + whole_bytes, err);
    eng_segment_release(seg, ENG_SEGMENT_LOG);
    return err;
}

/* ---- what follows a write ---- */

/* One batch into tail and pending index entries. Under lock, which is let go while a full set of entries goes to its file. */
static void remember(struct eng_log *log, const struct eng_log_config *config, struct eng_segment *seg, const struct eng_append_batch *batch, uint64_t pos)
{
    struct eng_index_entry index;
    struct eng_time_entry time;
    struct eng_tail *tail = log->tail;
    if (tail->index_pending == ENG_TAIL_ENTRIES || tail->time_pending == ENG_TAIL_ENTRIES) {
        pthread_mutex_unlock(&log->lock);
        enum ot_err err = eng_log_write_indexes(log, seg);
        if (err != OT_OK) ot_log(OT_LOG_WARN, "log", "index_unwritten", "dir=%s base_offset=%" PRId64 " error=%s", log->dir_path, seg->base_offset, ot_err_name(err));
        pthread_mutex_lock(&log->lock);
    }
    struct eng_indexing before = seg->indexing;
    struct eng_indexed indexed = { pos, batch->bytes, batch->last_offset, batch->max_timestamp };
    unsigned what = eng_indexing_step(&seg->indexing, &indexed, config->index_interval_bytes, &index, &time);
    eng_tail_push(tail, batch->base_offset, batch->last_offset, pos);
    if (what == 0) return;
    if (tail->index_pending == ENG_TAIL_ENTRIES || tail->time_pending == ENG_TAIL_ENTRIES) {     /* the disk takes no entries: a sparser index is still a true one */
        seg->indexing.last_time_ms = before.last_time_ms;
        return;
    }
    tail->index[tail->index_pending++] = index;
    if (what & ENG_ADD_TIME) tail->time[tail->time_pending++] = time;
}

static void publish(struct eng_log *log, const struct eng_log_config *config, struct eng_segment *seg, const struct eng_append_batch *batches,
    uint32_t count, int64_t wall_ms)
{
    uint64_t pos = seg->bytes, start = pos;
    pthread_mutex_lock(&log->lock);
    if (seg->first_timestamp_ms == INT64_MIN) seg->first_timestamp_ms = batches[0].max_timestamp;
    for (uint32_t i = 0; i < count; i++) {
        remember(log, config, seg, &batches[i], pos);
        pos += batches[i].bytes;
    }
    seg->bytes = pos;
    seg->end_offset = batches[count - 1].last_offset + 1;
    seg->last_append_ms = wall_ms;
    seg->dirty = true;
    atomic_store_explicit(&seg->log.dirty, true, memory_order_relaxed);
    atomic_fetch_add_explicit(&log->appends_since_flush, 1, memory_order_relaxed);
    atomic_fetch_add(&log->size_bytes, pos - start);
    atomic_store_explicit(&log->log_end_offset, seg->end_offset, memory_order_release);
    pthread_mutex_unlock(&log->lock);
}

/* Each new epoch is on disk before its first record is. */
static enum ot_err assign_epochs(struct eng_log *log, const struct eng_append_batch *batches, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (batches[i].leader_epoch == log->latest_epoch) continue;
        if (batches[i].leader_epoch < log->latest_epoch) return OT_ERR_FENCED_LEADER_EPOCH;
        enum ot_err err = eng_epochs_assign(log->epochs, batches[i].leader_epoch, batches[i].base_offset);
        if (err != OT_OK) return err;
        log->latest_epoch = batches[i].leader_epoch;
    }
    return OT_OK;
}

static enum ot_err make_tail(struct eng_log *log)
{
    if (log->tail != NULL) return OT_OK;
    struct eng_tail *tail = calloc(1, sizeof *tail);
    if (tail == NULL) return OT_ERR_NO_MEMORY;
    pthread_mutex_lock(&log->lock);
    log->tail = tail;
    pthread_mutex_unlock(&log->lock);
    return OT_OK;
}

static void check_offsets(const struct eng_log *log, const struct eng_append_batch *batches, uint32_t count)
{
    int64_t expected = atomic_load(&log->log_end_offset);
    for (uint32_t i = 0; i < count; i++) {
        OT_ASSERT(batches[i].base_offset >= expected);
        OT_ASSERT(batches[i].last_offset >= batches[i].base_offset);
        expected = batches[i].last_offset + 1;
    }
}

static enum ot_err append_locked(struct eng_log *log, const struct eng_append_batch *batches, uint32_t count, int64_t wall_ms, uint32_t *appended_out)
{
    struct eng_log_config config = eng_log_config_now(log);
    enum ot_err err = make_tail(log);
    if (err != OT_OK) return err;
    check_offsets(log, batches, count);
    if (log->segment_count == 0 && (err = eng_log_start_segment(log, atomic_load(&log->log_end_offset), wall_ms)) != OT_OK) return err;
    struct eng_segment *seg = eng_log_active(log);
    OT_ASSERT(batches[count - 1].last_offset - seg->base_offset <= INT32_MAX);         /* eng_log_fits said so */
    int32_t epoch = log->latest_epoch;
    err = assign_epochs(log, batches, count);
    if (err == OT_OK) err = write_batches(log, &config, seg, batches, count, appended_out);
    if (*appended_out > 0) publish(log, &config, seg, batches, *appended_out, wall_ms);
    if (err != OT_OK && log->latest_epoch != epoch) {
        /* epochs without a record: dropped here, else by the next assign or recovery */
        enum ot_err dropped = eng_epochs_truncate_end(log->epochs, atomic_load(&log->log_end_offset), true);
        if (dropped == OT_OK) log->latest_epoch = eng_epochs_latest(log->epochs);
    }
    if (err == OT_OK && seg->map != NULL) eng_log_map_warm(log, seg);
    return err;
}

enum ot_err eng_log_append(struct eng_log *log, const struct eng_append_batch *batches, uint32_t count, int64_t wall_ms, uint32_t *appended_out)
{
    *appended_out = 0;
    OT_ASSERT(count > 0 && count <= ENG_APPEND_BATCHES_MAX);
    if (eng_log_read_only(log)) return eng_log_why(log);
    pthread_mutex_lock(&log->writer_lock);
    enum ot_err err = append_locked(log, batches, count, wall_ms, appended_out);
    pthread_mutex_unlock(&log->writer_lock);
    return err;
}

bool eng_log_append_inline(struct eng_log *log, const struct eng_append_batch *batch)
{
    bool can = false;
    pthread_mutex_lock(&log->lock);
    const struct eng_segment *seg = eng_log_active(log);
    if (seg != NULL && seg->map != NULL && log->tail != NULL && !eng_log_read_only(log) && batch->leader_epoch == log->latest_epoch)
        can = seg->bytes + batch->bytes <= seg->warm_end && log->tail->index_pending < ENG_TAIL_ENTRIES &&
            (log->config.append_io == ENG_APPEND_MMAP || batch->bytes < AUTO_BATCH_BYTES) && log->config.append_io != ENG_APPEND_PWRITEV;
    pthread_mutex_unlock(&log->lock);
    return can;
}

/* ---- sleep ---- */

void eng_log_sleep(struct eng_log *log, int64_t wall_ms)
{
    if (pthread_mutex_trylock(&log->writer_lock) != 0) return;
    struct eng_tail *tail = NULL;
    struct eng_segment *seg = eng_log_active(log);
    bool idle = seg != NULL && log->tail != NULL && wall_ms - seg->last_append_ms > IDLE_MS;
    if (idle && !eng_log_read_only(log) && eng_log_write_indexes(log, seg) == OT_OK) {
        eng_log_unmap(log, seg);
        pthread_mutex_lock(&log->lock);
        tail = log->tail;
        log->tail = NULL;
        pthread_mutex_unlock(&log->lock);
    }
    pthread_mutex_unlock(&log->writer_lock);
    free(tail);
}
