/* Offsets by time: the segment by its largest timestamp, the batch by the time index and headers, the record inside by decoding. */
#include "engine/log_inner.h"
#include "engine/record.h"

#include <stdlib.h>

#define BATCH_BYTES_MAX (256u << 20)
#define DECODE_POOL_BYTES (64u << 20)

/* A segment of the list by slot, referenced, with what the mutex guards. */
struct view { struct eng_segment *seg; uint64_t bytes; int64_t base_offset, next_base; };

static bool view_at(struct eng_log *log, int64_t offset, struct view *view)
{
    pthread_mutex_lock(&log->lock);
    bool any = log->segment_count > 0;
    if (any) {
        uint32_t slot = eng_log_slot(log, offset);
        struct eng_segment *seg = log->segments[slot];
        eng_segment_ref(seg);
        *view = (struct view){ seg, seg->bytes, seg->base_offset, slot + 1 < log->segment_count ? log->segments[slot + 1]->base_offset : -1 };
    }
    pthread_mutex_unlock(&log->lock);
    return any;
}

/* What is looked for in the records of a batch. */
struct want { int64_t at_ms, from_offset, limit_offset; };

/* The first record at or above from_offset with timestamp >= at_ms; NOT_FOUND. */
static enum ot_err find_record(const uint8_t *data, const struct eng_batch_info *info, const struct want *want, struct eng_time_offset *out)
{
    struct eng_record_iter iter;
    struct eng_record record;
    struct eng_decode *decode = NULL;
    struct ot_pool *pool = NULL;
    enum ot_err err = OT_OK;
    if (info->codec != ENG_CODEC_NONE) {
        if ((pool = ot_pool_new("time lookup", DECODE_POOL_BYTES, 0)) == NULL) return OT_ERR_NO_MEMORY;
        err = eng_decode_new(pool, &(struct eng_decode_limits){ 0 }, &decode);
    }
    if (err == OT_OK) err = eng_record_open(&iter, decode, data, (size_t)info->batch_bytes, 0);
    while (err == OT_OK && (err = eng_record_skim(&iter, &record)) == OT_OK) {
        if (record.offset < want->from_offset || record.timestamp < want->at_ms) continue;
        *out = (struct eng_time_offset){ record.offset, record.timestamp, info->partition_leader_epoch };
        break;
    }
    eng_decode_free(decode);
    if (pool != NULL) ot_pool_free(pool);
    return err;
}

static enum ot_err find_in_batch(struct eng_scan *scan, const struct eng_batch_info *info, const struct want *want,
    struct eng_time_offset *out)
{
    const uint8_t *data = NULL;
    uint8_t *owned = NULL;
    if (info->magic >= 2 && info->record_count == 0) return OT_ERR_NOT_FOUND;  /* compaction left its header */
    bool all_there = info->record_count - 1 == info->last_offset_delta;
    if (info->timestamp_type == ENG_TIMESTAMP_APPEND && info->magic >= 2 && all_there) {       /* every record has the batch's time */
        *out = (struct eng_time_offset){ OT_MAX(info->base_offset, want->from_offset), info->max_timestamp, info->partition_leader_epoch };
        return OT_OK;
    }
    enum ot_err err = eng_scan_load(scan, info, BATCH_BYTES_MAX, &data, &owned);
    if (err != OT_OK) return err == OT_ERR_TOO_LARGE ? OT_ERR_CORRUPT : err;
    err = find_record(data, info, want, out);
    free(owned);
    return err == OT_ERR_CORRUPT_MESSAGE || err == OT_ERR_INVALID_RECORD ? OT_ERR_CORRUPT : err;
}

/* Position from which batches may have the time: the time index names an offset up to which all are earlier, the offset index its place. */
static enum ot_err time_start(struct eng_log *log, const struct view *view, int64_t at_ms, int64_t from_offset, uint64_t *pos_out)
{
    struct eng_time_entry time;
    struct eng_found found;
    struct eng_segment *seg = view->seg;
    int fd = -1;
    int64_t offset = from_offset;
    *pos_out = 0;
    enum ot_err err = eng_segment_load_counts(seg, log->dir_path);
    if (err != OT_OK) return err;
    uint32_t count = atomic_load(&seg->time_count);
    if (count > 0) {
        if ((err = eng_segment_acquire(seg, log->dir_path, ENG_SEGMENT_TIME, true, &fd)) == OT_OK) {
            err = eng_time_index_floor(log->io, fd, count, seg->base_offset, at_ms - 1, &time);        /* strictly earlier up to there */
            eng_segment_release(seg, ENG_SEGMENT_TIME);
            if (err == OT_OK) offset = OT_MAX(offset, time.offset);
        }
        if (err == OT_ERR_CANCELLED || err == OT_ERR_IO || err == OT_ERR_NO_MEMORY) return err;
    }
    if (offset <= seg->base_offset) return OT_OK;
    err = eng_segment_find(seg, log->dir_path, offset, view->bytes, UINT64_MAX, true, &found);
    if (err == OT_ERR_NOT_FOUND) *pos_out = view->bytes;
    else if (err == OT_OK) *pos_out = found.pos;
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

static enum ot_err find_in_segment(struct eng_log *log, const struct view *view, const struct want *want, struct eng_time_offset *out)
{
    uint8_t buffer[ENG_SCAN_BUFFER_BYTES];
    struct eng_scan scan;
    struct eng_batch_info info;
    uint64_t pos = 0;
    int fd = -1;
    enum ot_err err = time_start(log, view, want->at_ms, want->from_offset, &pos);
    if (err != OT_OK) return err;
    if ((err = eng_segment_acquire(view->seg, log->dir_path, ENG_SEGMENT_LOG, true, &fd)) != OT_OK) return err;
    eng_scan_init(&scan, log->io, fd, pos, view->bytes, buffer, sizeof buffer);
    while ((err = eng_scan_next(&scan, &info)) == OT_OK) {
        if (info.base_offset >= want->limit_offset) {
            err = OT_ERR_NOT_FOUND;
            break;
        }
        /* magic 0 and compressed legacy sets are looked into; else the header tells */
        if (eng_batch_last_offset(&info) < want->from_offset || info.max_timestamp < want->at_ms) continue;
        if ((err = find_in_batch(&scan, &info, want, out)) != OT_ERR_NOT_FOUND) break;
    }
    eng_segment_release(view->seg, ENG_SEGMENT_LOG);
    return err == OT_ERR_SHORT ? OT_ERR_CORRUPT : err;
}

static enum ot_err for_time(struct eng_log *log, const struct want *want, struct eng_time_offset *out)
{
    struct eng_indexing times;
    struct view view;
    int64_t base = want->from_offset;
    enum ot_err err = OT_ERR_NOT_FOUND;
    while (err == OT_ERR_NOT_FOUND && base >= 0 && base < want->limit_offset && view_at(log, base, &view)) {
        err = eng_log_segment_times(log, view.seg, &times);
        if (err == OT_OK) err = times.max_timestamp_ms < want->at_ms ? OT_ERR_NOT_FOUND : find_in_segment(log, &view, want, out);
        base = view.next_base;
        eng_segment_unref(view.seg);
    }
    return err;
}

enum ot_err eng_log_for_time(struct eng_log *log, int64_t at_ms, int64_t limit_offset, struct eng_time_offset *out)
{
    enum ot_err err = OT_ERR_CANCELLED;
    for (int round = 0; round < 100 && err == OT_ERR_CANCELLED; round++) {     /* retired under us: the list is newer now */
        int64_t end = eng_log_end_offset(log);
        struct want want = { at_ms, eng_log_start_offset(log), OT_MIN(limit_offset, end) };
        *out = (struct eng_time_offset){ -1, -1, -1 };
        err = for_time(log, &want, out);
        if (err == OT_OK && out->offset >= want.limit_offset) err = OT_ERR_NOT_FOUND;
    }
    if (err != OT_OK && atomic_load(&log->closed)) return OT_ERR_CLOSED;
    if (err != OT_ERR_NOT_FOUND) return err;
    *out = (struct eng_time_offset){ -1, -1, -1 };
    return OT_OK;
}

/* The segment with the largest timestamp; among equals the first. */
static enum ot_err largest(struct eng_log *log, struct eng_indexing *best, int64_t *best_base)
{
    struct eng_indexing times;
    struct view view;
    int64_t base = eng_log_start_offset(log);
    *best = ENG_INDEXING_NONE;
    while (base >= 0 && view_at(log, base, &view)) {
        enum ot_err err = eng_log_segment_times(log, view.seg, &times);
        eng_segment_unref(view.seg);
        if (err != OT_OK) return err;
        if (times.max_timestamp_ms > best->max_timestamp_ms) {
            *best = times;
            *best_base = view.base_offset;
        }
        base = view.next_base;
    }
    return OT_OK;
}

/* The record with the segment's largest timestamp was deleted, or compacted away: look at what is left of that segment and at the others. */
static enum ot_err largest_readable(struct eng_log *log, int64_t start, struct eng_indexing *best)
{
    uint8_t buffer[ENG_SCAN_BUFFER_BYTES];
    struct eng_scan scan;
    struct eng_batch_info info;
    struct view view;
    int fd = -1;
    *best = ENG_INDEXING_NONE;
    for (int64_t base = start; base >= 0 && view_at(log, base, &view); base = view.next_base) {
        enum ot_err err = eng_segment_acquire(view.seg, log->dir_path, ENG_SEGMENT_LOG, true, &fd);
        if (err == OT_OK) {
            eng_scan_init(&scan, log->io, fd, 0, view.bytes, buffer, sizeof buffer);
            while ((err = eng_scan_next(&scan, &info)) == OT_OK)
                if (info.base_offset >= start && info.record_count != 0 && info.max_timestamp > best->max_timestamp_ms) best->max_timestamp_ms = info.max_timestamp;
            eng_segment_release(view.seg, ENG_SEGMENT_LOG);
        }
        eng_segment_unref(view.seg);
        if (err != OT_ERR_NOT_FOUND) return err == OT_ERR_SHORT ? OT_ERR_CORRUPT : err;
    }
    return OT_OK;
}

enum ot_err eng_log_max_timestamp(struct eng_log *log, struct eng_time_offset *out)
{
    struct eng_indexing best;
    enum ot_err err = OT_ERR_CANCELLED;
    *out = (struct eng_time_offset){ -1, -1, -1 };
    for (int round = 0; round < 100 && err == OT_ERR_CANCELLED; round++) {
        int64_t base = -1;
        if ((err = largest(log, &best, &base)) != OT_OK) continue;
        int64_t start = eng_log_start_offset(log);
        if (best.max_timestamp_ms < 0) break;
        /* the first record that has it is in or before the batch that the index names */
        struct want want = { best.max_timestamp_ms, OT_MAX(base, start), eng_log_end_offset(log) };
        err = for_time(log, &want, out);
        if (err != OT_ERR_NOT_FOUND) continue;
        if ((err = largest_readable(log, start, &best)) != OT_OK || best.max_timestamp_ms < 0) continue;
        want = (struct want){ best.max_timestamp_ms, start, eng_log_end_offset(log) };
        err = for_time(log, &want, out);
    }
    if (out->offset < 0 && atomic_load(&log->closed)) return OT_ERR_CLOSED;
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}
