/* How a log comes up.
 *
 * Below the recovery point the files are believed: everything there was synced. Past it, each batch must have the right checksum, the next offset and no
 * falling leader epoch; the first that has not, and all behind it, is cut off. Zeros are the tail of a preallocated segment. What looks like real data behind the cut
 * (a later batch with a right checksum, or a whole later segment) is kept aside in N.cut files and told, for it was not a torn last write.
 * A bad batch below the recovery point is no crash artefact: CORRUPT, and nothing is changed.
 *
 * A batch's leader epoch lies outside its checksum. One above the committed epoch of the partition, or above all that the epoch file knows (which is synced before an epoch's
 * first record is written), was never given: a bit flipped. Believed, it would fence every later append, and cut
 * off what follows; it is written anew, as the epoch file has it for that offset. One that is too low is not mended: a batch of a former leader behind a cut looks the same.
 *
 * The walk begins a little before the recovery point, at an index entry whose time entry is there too, and makes both indexes anew from there: a
 * crash may have kept one of two unsynced index files. */
#include "base/log.h"
#include "engine/log_inner.h"
#include "engine/snapshots.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the walk ---- */

struct recovery {
    struct eng_log *log;
    struct eng_log_config config;
    struct eng_recovery *out;
    int64_t checked_from;                  /* the recovery point: checksums from here on */
    int64_t recovery_point;                /* as it was told */
    int64_t expected;                      /* next offset */
    int64_t first_hole;                    /* above the recovery point, INT64_MAX: none. The log may have such, and then a crash may have made it */
    int32_t last_epoch, leader_epochs, file_epoch;     /* file_epoch: the latest of the epoch file, -1: it says nothing */
    bool clean, survived, doubts_holes;
    bool indexes_off;                      /* the disk is full */
    uint8_t *buffer;
    uint32_t buffer_bytes, left;           /* left: segments not walked yet */
    uint64_t had_bytes[2];                 /* of both indexes of the segment at hand, as they were found */
    struct eng_index_out *indexes;
};

/* Where the walk of a segment begins, and how much of its indexes stays. */
struct walk_start { uint64_t pos; int64_t must_end; uint32_t index_kept, time_kept; struct eng_indexing indexing; };
#define WALK_FROM_START ((struct walk_start){ 0, -1, 0, 0, ENG_INDEXING_NONE })

static enum ot_err file_bytes(struct eng_log *log, struct eng_segment *seg, enum eng_segment_file which, uint64_t *out)
{
    struct ot_io_stat stat = { 0 };
    int fd = -1;
    enum ot_err err = eng_segment_acquire(seg, log->dir_path, which, true, &fd);
    if (err != OT_OK) return err;
    err = log->io->ops->fstat(log->io, fd, &stat);
    eng_segment_release(seg, which);
    *out = stat.bytes;
    return err;
}

/* The entries of both indexes that may be believed, or CORRUPT. */
static enum ot_err start_from_indexes(struct recovery *r, struct eng_segment *seg, int index_fd, int time_fd, struct walk_start *start)
{
    struct ot_io *io = r->log->io;
    struct eng_index_entry entry;
    struct eng_time_entry time;
    uint32_t index_count = atomic_load(&seg->index_count), time_count = atomic_load(&seg->time_count);
    enum ot_err err;
    if (!r->clean) {
        if ((err = eng_index_check(io, index_fd, index_count, seg->base_offset, INT64_MAX, UINT64_MAX)) != OT_OK) return err;
        if ((err = eng_time_index_check(io, time_fd, time_count, seg->base_offset, INT64_MAX)) != OT_OK) return err;
    }
    int64_t below = r->clean ? INT64_MAX : r->checked_from;
    if ((err = eng_time_index_count_below(io, time_fd, time_count, seg->base_offset, below, &time_count)) != OT_OK) return err;
    if (time_count == 0) return OT_ERR_NOT_FOUND;
    if ((err = eng_time_index_at(io, time_fd, time_count - 1, seg->base_offset, &time)) != OT_OK) return err;
    /* after a clean close the last index entry serves; otherwise only one that the last time entry vouches for */
    int64_t at_most = r->clean ? INT64_MAX : time.offset;
    if (r->clean && index_count == 0) {    /* a small segment: walked whole, its last time entry stays */
        *start = (struct walk_start){ 0, -1, 0, time_count, { time.timestamp_ms, time.offset, time.timestamp_ms, 0 } };
        return time.offset < seg->base_offset ? OT_ERR_CORRUPT : OT_OK;
    }
    if ((err = eng_index_floor(io, index_fd, index_count, seg->base_offset, at_most, &entry)) != OT_OK) return err;
    if (entry.offset < seg->base_offset || entry.pos >= seg->bytes) return OT_ERR_CORRUPT;
    start->pos = entry.pos;
    start->must_end = entry.offset;
    if ((err = eng_index_count_below(io, index_fd, index_count, seg->base_offset, entry.offset + 1, &start->index_kept)) != OT_OK) return err;
    if (r->clean) start->time_kept = time_count;
    else if ((err = eng_time_index_count_below(io, time_fd, time_count, seg->base_offset, entry.offset + 1, &start->time_kept)) != OT_OK) return err;
    if (start->time_kept == 0) return OT_OK;
    if ((err = eng_time_index_at(io, time_fd, start->time_kept - 1, seg->base_offset, &time)) != OT_OK) return err;
    start->indexing = (struct eng_indexing){ time.timestamp_ms, time.offset, time.timestamp_ms, 0 };
    return OT_OK;
}

/* Damaged or missing indexes: from the start of the segment. */
static enum ot_err find_start(struct recovery *r, struct eng_segment *seg, struct walk_start *start)
{
    struct eng_log *log = r->log;
    int index_fd = -1, time_fd = -1;
    uint64_t index_bytes = 0, time_bytes = 0;
    *start = WALK_FROM_START;
    if (!r->clean && r->checked_from <= seg->base_offset) return OT_OK;        /* made anew as a whole */
    if (atomic_load(&seg->index_count) == 0 || atomic_load(&seg->time_count) == 0) return OT_OK;
    enum ot_err err = eng_segment_load_counts(seg, log->dir_path);
    if (err == OT_OK) err = file_bytes(log, seg, ENG_SEGMENT_INDEX, &index_bytes);
    if (err == OT_OK) err = file_bytes(log, seg, ENG_SEGMENT_TIME, &time_bytes);
    if (err != OT_OK) return err;
    if (time_bytes == 0 || (index_bytes == 0 && !r->clean)) return OT_OK;
    if ((err = eng_segment_acquire(seg, log->dir_path, ENG_SEGMENT_INDEX, true, &index_fd)) != OT_OK) return err;
    err = eng_segment_acquire(seg, log->dir_path, ENG_SEGMENT_TIME, true, &time_fd);
    if (err == OT_OK) {
        if (index_bytes % ENG_INDEX_ENTRY_BYTES != 0 || time_bytes % ENG_TIME_ENTRY_BYTES != 0) err = OT_ERR_CORRUPT;
        else err = start_from_indexes(r, seg, index_fd, time_fd, start);
        eng_segment_release(seg, ENG_SEGMENT_TIME);
    }
    eng_segment_release(seg, ENG_SEGMENT_INDEX);
    if (err == OT_OK) return OT_OK;
    *start = WALK_FROM_START;
    if (err == OT_ERR_CORRUPT || err == OT_ERR_SHORT) {
        ot_log(OT_LOG_WARN, "log", "index_damaged", "dir=%s base_offset=%" PRId64, log->dir_path, seg->base_offset);
        r->out->indexes_rebuilt++;
        return OT_OK;
    }
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

/* Both index files shortened to what stays, and open for what is added. */
static enum ot_err open_indexes(struct recovery *r, struct eng_segment *seg, const struct walk_start *start)
{
    struct eng_log *log = r->log;
    struct eng_index_out *out = r->indexes;
    *out = (struct eng_index_out){ .io = log->io, .index_fd = -1, .time_fd = -1, .base_offset = seg->base_offset,
        .index_count = start->index_kept, .time_count = start->time_kept };
    static const enum eng_segment_file which[] = { ENG_SEGMENT_INDEX, ENG_SEGMENT_TIME };
    const uint64_t keep[] = { (uint64_t)start->index_kept * ENG_INDEX_ENTRY_BYTES, (uint64_t)start->time_kept * ENG_TIME_ENTRY_BYTES };
    int *fds[] = { &out->index_fd, &out->time_fd };
    for (int i = 0; i < 2; i++) {
        char path[ENG_PATH_BYTES];
        struct ot_io_stat stat = { 0 };
        int fd = -1;
        enum ot_err err = eng_segment_path(path, log->dir_path, seg->base_offset, eng_segment_suffix(which[i]));
        if (err == OT_OK) err = eng_file_acquire(&log->store->files, eng_segment_file(seg, which[i]), path, OT_IO_WRITE | OT_IO_CREATE, &fd);
        if (err != OT_OK) return err;
        *fds[i] = fd;                      /* pinned until close_indexes */
        if ((err = log->io->ops->fstat(log->io, fd, &stat)) != OT_OK) return err;
        r->had_bytes[i] = stat.bytes;
        if (stat.bytes != keep[i] && (err = log->io->ops->truncate(log->io, fd, keep[i])) != OT_OK) return err;
    }
    return OT_OK;
}

static void close_indexes(struct recovery *r, struct eng_segment *seg)
{
    if (r->indexes->index_fd >= 0) eng_segment_release(seg, ENG_SEGMENT_INDEX);
    if (r->indexes->time_fd >= 0) eng_segment_release(seg, ENG_SEGMENT_TIME);
    atomic_store(&seg->index_count, r->indexes->index_count);
    atomic_store(&seg->time_count, r->indexes->time_count);
}

/* What was made anew for a sealed segment: nothing is appended to it any more, so no flush round would sync it, and below the recovery point nobody looks again. */
static enum ot_err sync_indexes(struct recovery *r)
{
    const int fds[] = { r->indexes->index_fd, r->indexes->time_fd };
    for (int i = 0; i < 2; i++) {
        enum ot_err err = fds[i] < 0 || eng_log_read_only(r->log) ? OT_OK : r->log->io->ops->fdatasync(r->log->io, fds[i]);
        if (err != OT_OK) return err;
    }
    return OT_OK;
}

static void note_hole(struct recovery *r, int64_t from, int64_t to)
{
    if (to > from && from >= r->checked_from) r->first_hole = OT_MIN(r->first_hole, from);
}

/* May there be a hole in a segment? Compaction makes them, and a follower copies them, whatever cleanup.policy its topic has by now. After a crash of the machine one is rather doubted. */
static bool hole_is_good(const struct recovery *r) { return r->config.compact_enabled || r->survived; }

/* Is this batch what must come next? Below the recovery point only offsets that go back are wrong. */
static bool follows(struct recovery *r, const struct eng_batch_info *info)
{
    if (r->expected < 0) return true;
    if (info->base_offset < r->expected && info->magic >= 2) return false;
    bool hole_ok = hole_is_good(r) || info->magic < 2 || r->expected < r->checked_from;
    if (info->base_offset > r->expected && !hole_ok) return false;
    if (info->magic >= 2) note_hole(r, r->expected, info->base_offset);
    return info->partition_leader_epoch < 0 || info->partition_leader_epoch >= r->last_epoch;
}

/* The recovery point was the log's end once: no batch leaps over it, unless compaction made the hole, and of a log that was closed cleanly not even then. Such a one has a wrong
 * offset, which no checksum covers. */
static bool leaps(const struct recovery *r, const struct eng_batch_info *info)
{
    if (r->config.compact_enabled && !r->clean) return false;
    return r->expected >= 0 && r->expected < r->recovery_point && info->base_offset > r->expected && eng_batch_last_offset(info) >= r->recovery_point;
}

#define EPOCH_POS 12u                      /* of a batch's leader epoch */

static enum ot_err mend_epoch(struct recovery *r, const struct eng_scan *scan, struct eng_batch_info *info)
{
    struct eng_log *log = r->log;
    uint8_t raw[4];
    if (r->leader_epochs <= 0 || info->magic < 2) return OT_OK;
    if (info->partition_leader_epoch < r->leader_epochs && (r->file_epoch < 0 || info->partition_leader_epoch <= r->file_epoch)) return OT_OK;
    int32_t epoch = OT_MAX(eng_epochs_for_offset(log->epochs, info->base_offset), r->last_epoch);
    if (epoch < 0 || epoch >= r->leader_epochs) epoch = r->leader_epochs - 1;
    ot_store_u32(raw, (uint32_t)epoch);
    enum ot_err err = ot_io_write_all(log->io, scan->fd, raw, sizeof raw, scan->batch_pos + EPOCH_POS);
    log->settled = false;
    if (err != OT_OK) return err;
    ot_log(OT_LOG_ERROR, "log", "leader_epoch_mended", "dir=%s offset=%" PRId64 " had=%" PRId32 " has=%" PRId32 " committed=%" PRId32, log->dir_path, info->base_offset,
        info->partition_leader_epoch, epoch, r->leader_epochs - 1);
    info->partition_leader_epoch = epoch;
    r->out->epochs_mended++;
    return OT_OK;
}

/* On a full disk the walk goes on without indexes: they are made again when they are missed. */
static enum ot_err add_entries(struct recovery *r, unsigned what, const struct eng_index_entry *index, const struct eng_time_entry *time)
{
    if (r->indexes_off) return OT_OK;
    enum ot_err err = eng_index_out_add(r->indexes, what, index, time);
    r->indexes_off = err == OT_ERR_NO_SPACE;
    return r->indexes_off ? OT_OK : err;
}

/* The batch last given once more, with its checksum. */
static enum ot_err look_again(struct eng_scan *scan)
{
    struct eng_batch_info info;
    scan->pos = scan->batch_pos;
    scan->check_crc = true;
    return eng_scan_next(scan, &info);
}

/* The log ends below its recovery point: the disk lost what it had synced, or the last batch says a wrong number of records. */
static enum ot_err at_end(const struct recovery *r, const struct eng_segment *seg, struct eng_scan *scan)
{
    bool last = seg == r->log->segments[r->log->segment_count - 1], any = scan->pos > scan->batch_pos;
    return last && any && r->expected >= 0 && r->expected < r->recovery_point ? look_again(scan) : OT_OK;
}

/* Walks to the first bad batch or the end. OK: the end. Else why it stopped there: scan->pos is behind the last good batch. */
static enum ot_err walk_batches(struct recovery *r, struct eng_segment *seg, struct walk_start *start, struct eng_scan *scan, bool *by_order)
{
    struct eng_batch_info info;
    struct eng_index_entry index;
    struct eng_time_entry time;
    int64_t must_end = start->must_end;
    enum ot_err err;
    r->expected = start->pos == 0 ? seg->base_offset : -1;
    for (;;) {
        scan->check_crc = !r->clean && r->expected >= r->checked_from;
        if ((err = eng_scan_next(scan, &info)) != OT_OK) return err == OT_ERR_NOT_FOUND ? at_end(r, seg, scan) : err;
        int64_t last_offset = eng_batch_last_offset(&info);
        if (!scan->check_crc && r->recovery_point > 0 && last_offset >= r->recovery_point && (err = look_again(scan)) != OT_OK) return err;
        if (must_end >= 0 && last_offset != must_end) return OT_ERR_MISMATCH;      /* the index lied */
        must_end = -1;
        if ((err = mend_epoch(r, scan, &info)) != OT_OK) return err == OT_ERR_CORRUPT ? OT_ERR_IO : err;
        if (leaps(r, &info)) {
            scan->pos = scan->batch_pos;
            return OT_ERR_CORRUPT;
        }
        if (!follows(r, &info)) {
            scan->pos = scan->batch_pos;
            *by_order = true;
            return OT_ERR_CORRUPT;
        }
        struct eng_indexed indexed = { scan->batch_pos, (uint64_t)info.batch_bytes, last_offset, info.max_timestamp };
        unsigned what = eng_indexing_step(&start->indexing, &indexed, r->config.index_interval_bytes, &index, &time);
        if (what != 0 && (err = add_entries(r, what, &index, &time)) != OT_OK) return err;
        if (scan->batch_pos == 0) seg->first_timestamp_ms = info.max_timestamp;
        r->expected = last_offset + 1;
        if (info.partition_leader_epoch > r->last_epoch) r->last_epoch = info.partition_leader_epoch;
    }
}

/* ---- cutting ---- */

static enum ot_err open_aside(struct eng_log *log, int64_t offset, char path[static ENG_PATH_BYTES], int *fd_out)
{
    enum ot_err err = OT_ERR_EXISTS;
    for (int i = 0; i < 100 && err == OT_ERR_EXISTS; i++) {
        char suffix[24];
        if (i == 0) snprintf(suffix, sizeof suffix, ".cut");
        else snprintf(suffix, sizeof suffix, "-%d.cut", i);
        if ((err = eng_segment_path(path, log->dir_path, offset, suffix)) != OT_OK) return err;
        err = log->io->ops->open(log->io, path, OT_IO_WRITE | OT_IO_CREATE | OT_IO_EXCLUSIVE, fd_out);
    }
    return err;
}

/* Copies [pos, end) of an open file into a .cut file, synced with its name: the bytes are cut off next. */
static enum ot_err copy_aside(struct recovery *r, int from_fd, uint64_t pos, uint64_t end, int64_t offset)
{
    struct ot_io *io = r->log->io;
    char path[ENG_PATH_BYTES];
    int fd = -1;
    uint64_t to = 0;
    enum ot_err err = open_aside(r->log, offset, path, &fd);
    if (err != OT_OK) return err;
    while (pos < end && err == OT_OK) {
        size_t some = (size_t)OT_MIN(end - pos, (uint64_t)r->buffer_bytes);
        if ((err = ot_io_read_exact(io, from_fd, r->buffer, some, pos)) == OT_OK) err = ot_io_write_all(io, fd, r->buffer, some, to);
        pos += some;
        to += some;
    }
    if (err == OT_OK) err = io->ops->fdatasync(io, fd);
    io->ops->close(io, fd);
    if (err == OT_OK) err = io->ops->sync_dir(io, r->log->dir_path);
    if (err != OT_OK) ot_ignore(io->ops->unlink(io, path), "a partial copy; the bytes are still in the log");
    return err;
}

/* A whole segment behind the cut: its records are kept aside by renaming, empty ones go. */
static enum ot_err drop_segment(struct recovery *r, struct eng_segment *seg)
{
    struct eng_log *log = r->log;
    char from[ENG_PATH_BYTES], to[ENG_PATH_BYTES];
    int fd = -1;
    enum ot_err err = OT_OK;
    if (seg->bytes > 0) {
        if ((err = open_aside(log, seg->base_offset, to, &fd)) != OT_OK) return err;
        log->io->ops->close(log->io, fd);
        err = eng_segment_path(from, log->dir_path, seg->base_offset, ".log");
        if (err == OT_OK) err = log->io->ops->rename(log->io, from, to);
        if (err != OT_OK) return err;
        r->out->kept_aside = true;
        r->out->cut_bytes += seg->bytes;
    }
    return eng_log_unlink_segment(log, seg);
}

static enum ot_err drop_segments_behind(struct recovery *r, uint32_t slot)
{
    struct eng_log *log = r->log;
    enum ot_err err = OT_OK;
    while (log->segment_count > slot + 1 && err == OT_OK) {        /* newest first: what is left is always a prefix */
        log->settled = false;
        struct eng_segment *seg = log->segments[log->segment_count - 1];
        if (!eng_log_read_only(log)) err = drop_segment(r, seg);
        if (err != OT_OK) break;
        log->segment_count--;
        eng_segment_unref(seg);
    }
    return err;
}

/* The file ends at scan->pos from now on. Synced: else what lies behind could come back behind new batches. */
static enum ot_err cut_file(struct recovery *r, struct eng_scan *scan, uint64_t end)
{
    struct ot_io *io = r->log->io;
    if (scan->pos == end) return OT_OK;
    r->log->settled = false;
    enum ot_err err = io->ops->truncate(io, scan->fd, scan->pos);
    if (err == OT_OK) err = io->ops->fdatasync(io, scan->fd);
    if (err == OT_OK) err = io->ops->sync_dir(io, r->log->dir_path);
    return err;
}

/* The preallocated tail of the active segment. Nothing is synced: zeros that come back end the log at the same place, and what is appended is synced with its size. */
static enum ot_err cut_zeros(struct recovery *r, struct eng_segment *seg, struct eng_scan *scan)
{
    enum ot_err err = r->log->io->ops->truncate(r->log->io, scan->fd, scan->pos);
    if (err != OT_OK) return err;
    pthread_mutex_lock(&r->log->lock);
    seg->shortened = true;
    pthread_mutex_unlock(&r->log->lock);
    return OT_OK;
}

/* Decide what the stop at scan->pos means, and cut. *goes_on_out: only the preallocated tail of a sealed segment was cut, the next one follows. */
static enum ot_err cut_at(struct recovery *r, struct eng_segment *seg, uint32_t slot, struct eng_scan *scan, enum ot_err why, bool by_order, bool *goes_on_out)
{
    struct eng_log *log = r->log;
    uint64_t end = seg->bytes;
    bool zero = false, later = by_order;
    enum ot_err err = scan->pos == end ? OT_OK : eng_scan_is_zero(scan, &zero);
    if (err == OT_OK && !zero && !later && scan->pos < end) err = eng_scan_find_later(scan, r->expected, &later);
    if (err != OT_OK) return err;
    if (zero && slot + 1 < log->segment_count && log->segments[slot + 1]->base_offset == r->expected) {
        *goes_on_out = true;
        return cut_file(r, scan, end);
    }
    bool more = later || log->segment_count > slot + 1;
    if (zero && !more && !eng_log_read_only(log)) return cut_zeros(r, seg, scan);
    if (!zero && scan->pos < end && r->expected < r->checked_from && (later || why == OT_ERR_CORRUPT)) {
        ot_log(OT_LOG_ERROR, "log", "log_corrupt", "dir=%s offset=%" PRId64 " pos=%" PRIu64, log->dir_path, r->expected, scan->pos);
        return OT_ERR_CORRUPT;
    }
    if (r->clean && more && !zero) return OT_ERR_CORRUPT;
    if (later) {
        err = copy_aside(r, scan->fd, scan->pos, end, r->expected);
        if (err == OT_ERR_NO_SPACE) {      /* nowhere to keep it: then it stays where it is and nothing is appended */
            eng_log_give_up(log, err, "keeping cut bytes aside");
            atomic_store(&log->full_at_open, true);
            err = OT_OK;
        }
        if (err != OT_OK) return err;
        r->out->kept_aside = true;
    }
    if (!zero) r->out->cut_bytes += end - scan->pos;
    if ((!zero && scan->pos < end) || log->segment_count > slot + 1) r->out->cut_offset = r->expected;
    if ((err = drop_segments_behind(r, slot)) != OT_OK) return err;
    if (!eng_log_read_only(log)) err = cut_file(r, scan, end);
    if (r->out->cut_offset >= 0)
        ot_log(OT_LOG_WARN, "log", "log_cut", "dir=%s offset=%" PRId64 " bytes=%" PRIu64 " kept_aside=%d", log->dir_path, r->expected, r->out->cut_bytes,
            r->out->kept_aside);
    return err;
}

/* ---- one segment ---- */

static enum ot_err empty_indexes(struct recovery *r)
{
    struct eng_index_out *out = r->indexes;
    enum ot_err err = out->io->ops->truncate(out->io, out->index_fd, 0);
    if (err == OT_OK) err = out->io->ops->truncate(out->io, out->time_fd, 0);
    out->index_count = out->time_count = out->index_pending = out->time_pending = 0;
    return err;
}

static enum ot_err finish_walk(struct recovery *r, struct eng_segment *seg, uint64_t bytes, struct eng_indexing *indexing, bool last)
{
    enum ot_err err = OT_OK;
    if (!last && indexing->max_timestamp_ms > indexing->last_time_ms) {
        struct eng_time_entry time = { indexing->max_timestamp_ms, indexing->max_timestamp_offset };
        err = add_entries(r, ENG_ADD_TIME, NULL, &time);
        indexing->last_time_ms = indexing->max_timestamp_ms;
    }
    if (err == OT_OK && !r->indexes_off) err = eng_index_out_flush(r->indexes);
    if (err == OT_ERR_NO_SPACE) r->indexes_off = true;
    if (r->indexes_off) {
        ot_log(OT_LOG_WARN, "log", "index_unwritten", "dir=%s base_offset=%" PRId64 " error=NO_SPACE", r->log->dir_path, seg->base_offset);
        err = empty_indexes(r);
        indexing->last_time_ms = -1;
        atomic_store(&seg->index_doubted, true);
    }
    /* fewer than before: those that went named batches that were cut. A crash would bring them back, and what is appended meanwhile takes their offsets */
    bool fewer = (uint64_t)r->indexes->index_count * ENG_INDEX_ENTRY_BYTES < r->had_bytes[0] || (uint64_t)r->indexes->time_count * ENG_TIME_ENTRY_BYTES < r->had_bytes[1];
    pthread_mutex_lock(&r->log->lock);
    seg->bytes = bytes;
    seg->indexes_cut |= fewer;
    seg->end_offset = r->expected < 0 ? seg->base_offset : r->expected;
    seg->indexing = *indexing;
    seg->times_known = seg->indexes_dirty = true;
    pthread_mutex_unlock(&r->log->lock);
    return err;
}

/* *stopped_out: the log ends in this segment, whatever follows. */
static enum ot_err walk_segment(struct recovery *r, uint32_t slot, bool *stopped_out)
{
    struct eng_log *log = r->log;
    struct eng_segment *seg = log->segments[slot];
    struct walk_start start;
    struct eng_scan scan;
    int fd = -1;
    bool by_order = false;
    r->indexes_off = false;
    enum ot_err err = find_start(r, seg, &start);
    if (err != OT_OK) return err;
    if ((err = eng_segment_acquire(seg, log->dir_path, ENG_SEGMENT_LOG, true, &fd)) != OT_OK) return err;
    for (;;) {
        if ((err = open_indexes(r, seg, &start)) == OT_OK) {
            eng_scan_init(&scan, log->io, fd, start.pos, seg->bytes, r->buffer, r->buffer_bytes);
            err = walk_batches(r, seg, &start, &scan, &by_order);
        }
        bool lied = err == OT_ERR_MISMATCH || ((err == OT_ERR_CORRUPT || err == OT_ERR_SHORT) && scan.pos == start.pos && start.pos > 0);
        if (!lied) break;
        close_indexes(r, seg);
        r->out->indexes_rebuilt++;
        start = WALK_FROM_START;
        by_order = false;
    }
    if (err == OT_OK || err == OT_ERR_CORRUPT || err == OT_ERR_SHORT) {
        r->out->scanned_bytes += scan.read_bytes;
        bool goes_on = err == OT_OK;
        if (err != OT_OK) err = cut_at(r, seg, slot, &scan, err, by_order, &goes_on);
        *stopped_out = !goes_on;
        if (err == OT_OK) err = finish_walk(r, seg, scan.pos, &start.indexing, slot + 1 == log->segment_count);
    }
    if (err == OT_OK && slot + 1 < log->segment_count) err = sync_indexes(r);
    close_indexes(r, seg);
    eng_segment_release(seg, ENG_SEGMENT_LOG);
    return err;
}

/* A later segment must go on where the former ended: a follower's does, even where it copies a hole, unless that is wider than a segment (eng_log_skip), and so wider than what a crash takes of
 * the end of one. Compaction shortens segments below the recovery point alone. Above it a compacted log goes on behind a hole, for what is left is better than nothing; but not where it is one of
 * several: with the end that its leader has, too, it would pass for whole. */
static bool segment_follows(struct recovery *r, const struct eng_segment *before, const struct eng_segment *seg)
{
    const int64_t hole = seg->base_offset - before->end_offset;
    if (hole < 0) return false;
    if (r->config.compact_enabled) note_hole(r, before->end_offset, seg->base_offset);
    if (hole == 0 || before->end_offset < r->checked_from || (r->survived && hole > INT32_MAX)) return true;
    return r->config.compact_enabled && (!r->doubts_holes || hole > INT32_MAX);
}

static enum ot_err walk_segments(struct recovery *r, uint32_t from_slot)
{
    struct eng_log *log = r->log;
    bool stopped = false;
    enum ot_err err = OT_OK;
    for (uint32_t slot = from_slot; slot < log->segment_count && err == OT_OK && !stopped; slot++) {
        err = walk_segment(r, slot, &stopped);
        atomic_fetch_sub(&log->store->recovering, 1);
        r->left--;
        if (err != OT_OK || stopped || slot + 1 == log->segment_count) continue;
        struct eng_segment *seg = log->segments[slot];
        if (segment_follows(r, seg, log->segments[slot + 1])) continue;
        if (seg->end_offset < r->checked_from) return OT_ERR_CORRUPT;
        r->out->cut_offset = seg->end_offset;
        err = drop_segments_behind(r, slot);
        if (err == OT_OK && !eng_log_read_only(log)) err = log->io->ops->sync_dir(log->io, log->dir_path);
        ot_log(OT_LOG_WARN, "log", "log_cut", "dir=%s offset=%" PRId64 " bytes=%" PRIu64 " kept_aside=1", log->dir_path, seg->end_offset, r->out->cut_bytes);
    }
    return err;
}

/* The first batch's timestamp, which decides when the active segment rolls by time. */
static enum ot_err load_first_timestamp(struct eng_log *log, struct eng_segment *seg)
{
    uint8_t header[ENG_BATCH_HEADER_BYTES];
    struct eng_batch_info info;
    int fd = -1;
    if (seg->first_timestamp_ms != INT64_MIN || seg->bytes < sizeof header) return OT_OK;
    enum ot_err err = eng_segment_acquire(seg, log->dir_path, ENG_SEGMENT_LOG, true, &fd);
    if (err != OT_OK) return err;
    err = ot_io_read_exact(log->io, fd, header, sizeof header, 0);
    eng_segment_release(seg, ENG_SEGMENT_LOG);
    if (err == OT_OK && eng_batch_parse(header, sizeof header, &info) == OT_OK) seg->first_timestamp_ms = info.max_timestamp;
    return err;
}

/* Walks from a slot on; the buffer is no larger than what there is to read, for thousands of small logs are opened at once. */
static enum ot_err walk_from(struct recovery *r, uint32_t slot)
{
    uint64_t most = 0;
    for (uint32_t i = slot; i < r->log->segment_count; i++) most = OT_MAX(most, r->log->segments[i]->bytes);
    r->buffer_bytes = (uint32_t)OT_MAX(OT_MIN(most, (uint64_t)ENG_SCAN_BULK_BYTES), (uint64_t)ENG_SCAN_BUFFER_BYTES);
    r->buffer = malloc(r->buffer_bytes);
    r->indexes = malloc(sizeof *r->indexes);
    r->left = r->log->segment_count - slot;
    atomic_fetch_add(&r->log->store->recovering, r->left);
    enum ot_err err = r->buffer == NULL || r->indexes == NULL ? OT_ERR_NO_MEMORY : walk_segments(r, slot);
    atomic_fetch_sub(&r->log->store->recovering, r->left);
    free(r->buffer);
    free(r->indexes);
    return err;
}

static enum ot_err scan_segments(struct eng_log *log, const struct eng_log_open *how, struct eng_recovery *out, int32_t *epoch_out)
{
    struct recovery r = { .log = log, .config = how->config, .out = out, .clean = how->clean, .survived = how->survived, .doubts_holes = how->doubts_holes, .last_epoch = -1, .leader_epochs = how->leader_epochs,
        .file_epoch = log->epochs_damaged ? -1 : eng_epochs_latest(log->epochs), .recovery_point = how->recovery_point, .first_hole = INT64_MAX };
    if (log->segment_count == 0) return OT_OK;
    r.checked_from = how->clean ? INT64_MAX : OT_MAX(how->recovery_point, log->segments[0]->base_offset);
    /* one before: a segment that was sealed right behind the recovery point may still have its preallocated size */
    uint32_t slot = how->clean ? log->segment_count - 1 : eng_log_slot(log, r.checked_from - 1);
    enum ot_err err = walk_from(&r, slot);
    /* a snapshot from behind a hole may know of batches that the crash took: their repetition would be called a duplicate */
    if (err == OT_OK && r.first_hole != INT64_MAX && !eng_log_read_only(log)) err = eng_snapshots_delete_above(log->io, log->dir_path, r.first_hole);
    if (err != OT_OK) return err;
    *epoch_out = r.last_epoch;
    bool synced = how->clean || log->settled;
    for (uint32_t i = 0; i < log->segment_count && synced; i++) log->segments[i]->txn_dirty = false;
    for (uint32_t i = slot; i < log->segment_count && !synced; i++) log->segments[i]->dirty = log->segments[i]->name_unsynced = true;
    return load_first_timestamp(log, eng_log_active(log));
}

/* After a truncation: what the new active segment's indexes and times are. Everything in it is known to be good. */
enum ot_err eng_log_rewalk_active(struct eng_log *log)
{
    struct eng_recovery out = { .cut_offset = -1 };
    struct eng_segment *seg = eng_log_active(log);
    struct recovery r = { .log = log, .config = eng_log_config_now(log), .out = &out, .last_epoch = -1, .first_hole = INT64_MAX, .checked_from = seg->end_offset };
    int64_t end_offset = seg->end_offset;
    enum ot_err err = walk_from(&r, log->segment_count - 1);
    pthread_mutex_lock(&log->lock);
    seg->end_offset = end_offset;          /* a hole before it stays a hole */
    pthread_mutex_unlock(&log->lock);
    return err != OT_OK ? err : load_first_timestamp(log, seg);
}

static bool odd_size(struct eng_log *log, const struct eng_segment *seg, enum eng_segment_file which, uint32_t entry_bytes)
{
    char path[ENG_PATH_BYTES];
    struct ot_io_stat stat;
    if (eng_segment_path(path, log->dir_path, seg->base_offset, eng_segment_suffix(which)) != OT_OK) return false;
    return log->io->ops->stat(log->io, path, &stat) == OT_OK && stat.bytes % entry_bytes != 0;
}

/* Sealed segments below the recovery point that lost an index, or, after a crash, have half an entry in it. */
static enum ot_err rebuild_missing(struct eng_log *log, bool clean, struct eng_recovery *out)
{
    struct eng_log_config config = eng_log_config_now(log);
    for (uint32_t i = 0; i + 1 < log->segment_count; i++) {
        struct eng_segment *seg = log->segments[i];
        bool missing = atomic_load(&seg->index_count) == 0 || atomic_load(&seg->time_count) == 0;
        if (missing && seg->bytes <= config.index_interval_bytes) missing = false;             /* too small to have entries worth the work */
        if (!missing && !clean) missing = odd_size(log, seg, ENG_SEGMENT_INDEX, ENG_INDEX_ENTRY_BYTES) || odd_size(log, seg, ENG_SEGMENT_TIME, ENG_TIME_ENTRY_BYTES);
        if (!missing || seg->times_known) continue;
        enum ot_err err = eng_segment_rebuild(seg, log->dir_path, seg->bytes, config.index_interval_bytes);
        if (err == OT_ERR_NO_SPACE || err == OT_ERR_CORRUPT) continue;         /* lookups read from the start; a read of the bad place will tell */
        if (err != OT_OK) return err;
        out->indexes_rebuilt++;
    }
    return OT_OK;
}

/* ---- the whole ---- */

/* seen: the highest epoch that the walk met; -1 none. One above the file's is of a folder whose file was lost, or came from elsewhere: it would begin too late,
 * at the next append, and a follower would be told to truncate to the wrong place. */
static enum ot_err load_epochs(struct eng_log *log, int32_t seen, bool *rebuilt_out)
{
    bool damaged = log->epochs_damaged;
    enum ot_err err = OT_OK;
    bool lost = eng_epochs_latest(log->epochs) < 0 && log->segment_count > 0 && atomic_load(&log->size_bytes) > 0;
    *rebuilt_out = damaged || lost || seen > eng_epochs_latest(log->epochs);
    if (*rebuilt_out) err = eng_log_rebuild_epochs(log);
    if (err == OT_OK) err = eng_epochs_truncate_end(log->epochs, atomic_load(&log->log_end_offset), true);
    /* by what is in the files, not by the log start: that may be lower again after a crash */
    if (err == OT_OK && log->segment_count > 0) err = eng_epochs_truncate_start(log->epochs, log->segments[0]->base_offset);
    if (err == OT_ERR_NO_SPACE) {
        eng_log_give_up(log, err, "writing the leader epochs");
        atomic_store(&log->full_at_open, true);
        err = OT_OK;
    }
    log->latest_epoch = eng_epochs_latest(log->epochs);
    return err;
}

static void set_offsets(struct eng_log *log, const struct eng_log_open *how)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < log->segment_count; i++) bytes += log->segments[i]->bytes;
    int64_t base = log->segment_count == 0 ? how->log_start_offset : log->segments[0]->base_offset;
    int64_t end = log->segment_count == 0 ? base : eng_log_active(log)->end_offset;
    int64_t start = OT_MAX(how->log_start_offset, base);
    int64_t flushed = how->clean ? end : OT_MIN(OT_MAX(how->recovery_point, base), end);
    atomic_store(&log->size_bytes, bytes);
    atomic_store(&log->log_end_offset, end);
    atomic_store(&log->log_start_offset, start);
    atomic_store(&log->flushed_end, flushed);
    /* one above the end is of another log: begin at the front, as Kafka does */
    atomic_store(&log->first_dirty, how->first_dirty > end ? start : OT_MAX(how->first_dirty, start));
}

static bool has_records(const struct eng_log *log)
{
    for (uint32_t i = 0; i < log->segment_count; i++)
        if (log->segments[i]->bytes > 0) return true;
    return false;
}

enum ot_err eng_log_recover(struct eng_log *log, const struct eng_log_open *how, struct eng_recovery *out)
{
    int32_t epoch = -1;
    enum ot_err err = log->fresh ? OT_OK : eng_log_load_segments(log);
    /* partition.metadata is synced before anything counts as synced or deleted. A folder without it that has records may be one that a topic of this name left, whose last writes went with the
     * machine: nothing in it was ever promised to be there, and nothing of it may be taken for this topic's. */
    if (err == OT_OK && log->metadata_missing && how->recovery_point <= 0 && how->log_start_offset <= 0 && has_records(log)) {
        ot_log(OT_LOG_ERROR, "log", "folder_unnamed", "dir=%s text=\"no partition.metadata says whose records these are\"", log->dir_path);
        return OT_ERR_MISMATCH;
    }
    if (err == OT_OK) err = eng_epochs_open(log->io, log->dir_path, &log->epochs);
    log->epochs_damaged = err == OT_ERR_CORRUPT;
    if (log->epochs_damaged) err = OT_OK;
    if (err == OT_OK) err = scan_segments(log, how, out, &epoch);
    if (err == OT_OK) err = rebuild_missing(log, how->clean, out);
    if (err != OT_OK) return err;
    set_offsets(log, how);
    int64_t end = atomic_load(&log->log_end_offset);
    if (how->recovery_point > end) {       /* all below it was synced and never taken back: the disk or somebody took it */
        ot_log(OT_LOG_ERROR, "log", "synced_records_gone", "dir=%s end=%" PRId64 " synced_end=%" PRId64, log->dir_path, end, how->recovery_point);
        const int64_t from = OT_MAX(end, atomic_load(&log->log_start_offset));         /* what is below the log start was deleted */
        if (how->gone != NULL && !out->kept_aside && from < how->recovery_point) how->gone(how->gone_arg, from, how->recovery_point);
        /* else what is appended now counts as synced after a crash, and its torn end as a failing disk */
        if ((err = eng_store_recovery_lower(log->store, log->store_dir, log->name, end)) == OT_ERR_NO_SPACE) {
            eng_log_give_up(log, err, "lowering the recovery point");
            atomic_store(&log->full_at_open, true);
        } else if (err != OT_OK) {
            return err;
        }
    }
    /* a folder that was found may be one that a killed process made and never synced: only a clean close with a segment, which it syncs, vouches for its name and for what is in it */
    log->dir_unsynced = !log->settled && (!how->clean || log->segment_count == 0);
    log->metadata_unsynced = log->dir_unsynced && !log->metadata_missing && !ot_uuid_is_zero(&log->topic_id);
    if (log->metadata_missing && (log->segment_count > 0 || how->named)) {
        err = eng_partition_metadata_write(log->io, log->dir_path, &log->topic_id, false);
        if (err != OT_OK && err != OT_ERR_NO_SPACE) return err;
        log->metadata_missing = err != OT_OK;
        log->metadata_unsynced = err == OT_OK;
    }
    if ((err = load_epochs(log, epoch, &out->epochs_rebuilt)) != OT_OK) return err;
    if (atomic_load(&log->log_start_offset) > atomic_load(&log->log_end_offset)) {
        /* what was below the log start was deleted by a user; its offsets are not given out a second time */
        if ((err = eng_log_begin_at(log, atomic_load(&log->log_start_offset), how->wall_ms)) != OT_OK) return err;
    } else if ((err = eng_log_load_producers(log, !how->clean && !eng_log_read_only(log), how->recovery_point, how->wall_ms)) != OT_OK) {
        return err;
    }
    for (uint32_t i = 0; i < log->segment_count; i++) {            /* an idle log holds no descriptor */
        eng_file_forget(&log->store->files, &log->segments[i]->log);
        eng_file_forget(&log->store->files, &log->segments[i]->index);
        eng_file_forget(&log->store->files, &log->segments[i]->time);
        eng_file_forget(&log->store->files, &log->segments[i]->txn);
    }
    out->segments = log->segment_count;
    return OT_OK;
}
