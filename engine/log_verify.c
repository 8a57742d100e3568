/* Every byte of a log against every rule: checksums, order, index entries against the batches they name, times, epochs. */
#include "engine/log_inner.h"
#include "engine/txnindex.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct verify {
    struct eng_log *log;
    void (*fault)(void *arg, const char *text);
    bool (*go_on)(void *arg, uint64_t bytes);  /* NULL: to the end */
    void *arg;
    bool stopped;
    int64_t expected;
    int32_t last_epoch;
    uint32_t faults;
};

static void OT_PRINTF(3, 4) tell(struct verify *v, const struct eng_segment *seg, const char *format, ...)
{
    char what[200], text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    snprintf(text, sizeof text, "%020" PRId64 ": %s", seg->base_offset, what);
    v->faults++;
    v->fault(v->arg, text);
}

/* A cursor over one index file, in step with the batches. */
struct cursor { int fd; uint32_t slot, count; };

static enum ot_err open_cursor(struct verify *v, struct eng_segment *seg, enum eng_segment_file which, uint32_t entry_bytes, struct cursor *cursor)
{
    struct ot_io_stat stat = { 0 };
    *cursor = (struct cursor){ -1, 0, 0 };
    enum ot_err err = eng_segment_acquire(seg, v->log->dir_path, which, true, &cursor->fd);
    if (err == OT_ERR_NOT_FOUND) {
        cursor->fd = -1;
        tell(v, seg, "%s is missing", eng_segment_suffix(which));
        return OT_OK;
    }
    if (err != OT_OK) {
        cursor->fd = -1;
        return err;
    }
    if ((err = v->log->io->ops->fstat(v->log->io, cursor->fd, &stat)) != OT_OK) return err;
    if (stat.bytes % entry_bytes != 0) tell(v, seg, "%s has %" PRIu64 " bytes, not a whole number of entries", eng_segment_suffix(which), stat.bytes);
    cursor->count = (uint32_t)(stat.bytes / entry_bytes);
    return OT_OK;
}

/* Entries that name this batch, or that should have named one before it. */
static enum ot_err check_index(struct verify *v, struct eng_segment *seg, struct cursor *cursor, uint64_t pos, int64_t last_offset)
{
    struct eng_index_entry entry;
    while (cursor->slot < cursor->count) {
        enum ot_err err = eng_index_at(v->log->io, cursor->fd, cursor->slot, seg->base_offset, &entry);
        if (err != OT_OK) return err;
        if (entry.pos > pos) return OT_OK;
        if (entry.pos < pos) tell(v, seg, ".index entry %" PRIu32 " names position %" PRIu32 ", where no batch starts", cursor->slot, entry.pos);
        else if (entry.offset != last_offset)
            tell(v, seg, ".index entry %" PRIu32 " says offset %" PRId64 ", the batch at %" PRIu32 " ends with %" PRId64, cursor->slot, entry.offset, entry.pos, last_offset);
        cursor->slot++;
    }
    return OT_OK;
}

static enum ot_err check_time(struct verify *v, struct eng_segment *seg, struct cursor *cursor, int64_t last_offset, int64_t batch_max_ms, int64_t *last_ms)
{
    struct eng_time_entry entry;
    while (cursor->slot < cursor->count) {
        enum ot_err err = eng_time_index_at(v->log->io, cursor->fd, cursor->slot, seg->base_offset, &entry);
        if (err != OT_OK) return err;
        if (entry.offset > last_offset) return OT_OK;
        if (entry.offset < last_offset) tell(v, seg, ".timeindex entry %" PRIu32 " names offset %" PRId64 ", where no batch ends", cursor->slot, entry.offset);
        else if (entry.timestamp_ms != batch_max_ms)
            tell(v, seg, ".timeindex entry %" PRIu32 " says %" PRId64 " at offset %" PRId64 ", the batch has %" PRId64, cursor->slot, entry.timestamp_ms, entry.offset, batch_max_ms);
        if (entry.timestamp_ms <= *last_ms) tell(v, seg, ".timeindex entry %" PRIu32 " does not grow", cursor->slot);
        *last_ms = entry.timestamp_ms;
        cursor->slot++;
    }
    return OT_OK;
}

static void check_order(struct verify *v, const struct eng_segment *seg, const struct eng_batch_info *info)
{
    if (info->magic >= 2 && info->base_offset < v->expected) tell(v, seg, "batch at offset %" PRId64 " where %" PRId64 " or more must come", info->base_offset, v->expected);
    if (info->partition_leader_epoch >= 0 && info->partition_leader_epoch < v->last_epoch)
        tell(v, seg, "leader epoch falls from %" PRId32 " to %" PRId32 " at offset %" PRId64, v->last_epoch, info->partition_leader_epoch, info->base_offset);
    int32_t known = eng_epochs_for_offset(v->log->epochs, info->base_offset);
    if (info->magic >= 2 && info->base_offset >= eng_log_start_offset(v->log) && known != info->partition_leader_epoch)
        tell(v, seg, "offset %" PRId64 " has leader epoch %" PRId32 ", the epoch file says %" PRId32, info->base_offset, info->partition_leader_epoch, known);
    v->last_epoch = OT_MAX(v->last_epoch, info->partition_leader_epoch);
    v->expected = eng_batch_last_offset(info) + 1;
}

static enum ot_err verify_batches(struct verify *v, struct eng_segment *seg, int fd, uint64_t bytes, uint8_t *buffer, struct cursor *index, struct cursor *time)
{
    struct eng_scan scan;
    struct eng_batch_info info;
    int64_t last_ms = -1;
    enum ot_err err;
    eng_scan_init(&scan, v->log->io, fd, 0, bytes, buffer, ENG_SCAN_BULK_BYTES);
    scan.check_crc = true;
    while ((err = eng_scan_next(&scan, &info)) == OT_OK) {
        int64_t last_offset = eng_batch_last_offset(&info);
        if (v->go_on != NULL && !v->go_on(v->arg, scan.pos - scan.batch_pos)) {
            v->stopped = true;
            return OT_ERR_CANCELLED;
        }
        check_order(v, seg, &info);
        if (index->fd >= 0) err = check_index(v, seg, index, scan.batch_pos, last_offset);
        if (err == OT_OK && time->fd >= 0) err = check_time(v, seg, time, last_offset, info.max_timestamp, &last_ms);
        if (err != OT_OK) return err;
    }
    if (err == OT_ERR_CORRUPT || err == OT_ERR_SHORT) {
        tell(v, seg, "bad batch at position %" PRIu64 ", offset %" PRId64, scan.pos, v->expected);
        return OT_OK;
    }
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

static enum ot_err verify_txn(struct verify *v, struct eng_segment *seg, int64_t end_offset)
{
    int fd = -1;
    uint64_t bytes = atomic_load(&seg->txn_bytes);
    if (bytes == 0) return OT_OK;
    enum ot_err err = eng_segment_acquire(seg, v->log->dir_path, ENG_SEGMENT_TXN, true, &fd);
    if (err != OT_OK) return err;
    err = eng_txn_index_check(v->log->io, fd, bytes, seg->base_offset, end_offset);
    eng_segment_release(seg, ENG_SEGMENT_TXN);
    if (err == OT_ERR_CORRUPT) tell(v, seg, ".txnindex is damaged");
    return err == OT_ERR_CORRUPT ? OT_OK : err;
}

static enum ot_err verify_segment(struct verify *v, struct eng_segment *seg, uint64_t bytes, int64_t end_offset, bool active)
{
    struct cursor index = { -1, 0, 0 }, time = { -1, 0, 0 };
    struct ot_io_stat stat = { 0 };
    int fd = -1;
    uint8_t *buffer = malloc(ENG_SCAN_BULK_BYTES);
    if (buffer == NULL) return OT_ERR_NO_MEMORY;
    enum ot_err err = open_cursor(v, seg, ENG_SEGMENT_INDEX, ENG_INDEX_ENTRY_BYTES, &index);
    if (err == OT_OK) err = open_cursor(v, seg, ENG_SEGMENT_TIME, ENG_TIME_ENTRY_BYTES, &time);
    if (err == OT_OK) err = eng_segment_acquire(seg, v->log->dir_path, ENG_SEGMENT_LOG, true, &fd);
    if (err == OT_OK) {
        err = v->log->io->ops->fstat(v->log->io, fd, &stat);
        if (err == OT_OK && (stat.bytes < bytes || (!active && stat.bytes != bytes)))
            tell(v, seg, ".log has %" PRIu64 " bytes, not %" PRIu64, stat.bytes, bytes);
        if (err == OT_OK) err = verify_batches(v, seg, fd, OT_MIN(bytes, stat.bytes), buffer, &index, &time);
        eng_segment_release(seg, ENG_SEGMENT_LOG);
    }
    if (err == OT_OK && !active && index.slot < index.count) tell(v, seg, ".index has %" PRIu32 " entries past the log", index.count - index.slot);
    if (err == OT_OK && !active && time.slot < time.count) tell(v, seg, ".timeindex has %" PRIu32 " entries past the log", time.count - time.slot);
    if (index.fd >= 0) eng_segment_release(seg, ENG_SEGMENT_INDEX);
    if (time.fd >= 0) eng_segment_release(seg, ENG_SEGMENT_TIME);
    free(buffer);
    return err == OT_OK ? verify_txn(v, seg, end_offset) : err;
}

enum ot_err eng_log_verify(struct eng_log *log, void (*fault)(void *arg, const char *text), void *arg) { return eng_log_verify_watched(log, fault, NULL, arg); }

enum ot_err eng_log_verify_watched(struct eng_log *log, void (*fault)(void *arg, const char *text), bool (*go_on)(void *arg, uint64_t bytes), void *arg)
{
    struct verify v = { .log = log, .fault = fault, .go_on = go_on, .arg = arg, .last_epoch = -1 };
    int64_t base = 0;
    enum ot_err err = OT_OK;
    while (err == OT_OK && base >= 0) {
        pthread_mutex_lock(&log->lock);
        uint32_t slot = log->segment_count == 0 ? 0 : eng_log_slot(log, base);
        struct eng_segment *seg = log->segment_count == 0 ? NULL : log->segments[slot];
        bool active = slot + 1 >= log->segment_count;
        uint64_t bytes = seg == NULL ? 0 : seg->bytes;
        int64_t end_offset = seg == NULL ? 0 : seg->end_offset;
        base = active ? -1 : log->segments[slot + 1]->base_offset;
        if (seg != NULL) eng_segment_ref(seg);
        pthread_mutex_unlock(&log->lock);
        if (seg == NULL) break;
        v.expected = OT_MAX(v.expected, seg->base_offset);
        err = verify_segment(&v, seg, bytes, end_offset, active);
        if (err == OT_OK && v.expected > end_offset) tell(&v, seg, "batches up to offset %" PRId64 ", the log ends at %" PRId64, v.expected, end_offset);
        if (err == OT_ERR_CANCELLED && !v.stopped) err = OT_OK;        /* deleted meanwhile */
        eng_segment_unref(seg);
    }
    return err;
}
