/* The segment that a run makes: NNNNNNNNNNNNNNNNNNNN.log.cleaned with its indexes. */
#include "base/util.h"
#include "engine/compact_inner.h"
#include <stdlib.h>
#include <string.h>

#define COPY_BYTES (1u << 20)
#define SYNC_BYTES (16ull << 20)           /* written out as it grows: one sync of a gigabyte at the end would hold up everybody else's */

static const char *const suffixes[] = { ".log.cleaned", ".index.cleaned", ".timeindex.cleaned", ".txnindex.cleaned" };

static enum ot_err open_file(struct eng_compact_out *out, enum eng_segment_file which, int *fd_out)
{
    char path[ENG_PATH_BYTES];
    struct ot_io *io = out->log->io;
    enum ot_err err = eng_segment_path(path, out->log->dir_path, out->base_offset, suffixes[which]);
    return err == OT_OK ? io->ops->open(io, path, OT_IO_WRITE | OT_IO_CREATE | OT_IO_TRUNCATE, fd_out) : err;
}

enum ot_err eng_compact_out_begin(struct eng_compact_out *out, struct eng_segment *first, bool txn_index)
{
    out->base_offset = first->base_offset;
    out->last_offset = first->base_offset - 1;
    out->log_fd = out->txn_fd = -1;
    out->buffer_used = 0;
    out->bytes = out->txn_bytes = out->unsynced_bytes = 0;
    out->first_timestamp_ms = INT64_MIN;
    out->indexing = ENG_INDEXING_NONE;
    out->open = true;
    out->changed = out->tail_held = false;
    out->txn_index = txn_index;
    out->verbatim = first;
    *out->indexes = (struct eng_index_out){ .io = out->log->io, .index_fd = -1, .time_fd = -1, .base_offset = first->base_offset };
    return OT_OK;
}

static enum ot_err open_files(struct eng_compact_out *out)
{
    enum ot_err err = open_file(out, ENG_SEGMENT_LOG, &out->log_fd);
    if (err == OT_OK) err = open_file(out, ENG_SEGMENT_INDEX, &out->indexes->index_fd);
    if (err == OT_OK) err = open_file(out, ENG_SEGMENT_TIME, &out->indexes->time_fd);
    if (err == OT_OK && out->txn_index && out->txn_fd < 0) err = open_file(out, ENG_SEGMENT_TXN, &out->txn_fd);
    return err;
}

static enum ot_err flush_buffer(struct eng_compact_out *out)
{
    struct ot_io *io = out->log->io;
    if (out->buffer_used == 0) return OT_OK;
    enum ot_err err = ot_io_write_all(io, out->log_fd, out->buffer, out->buffer_used, out->bytes - out->buffer_used);
    if (err != OT_OK) return err;
    out->unsynced_bytes += out->buffer_used;
    out->buffer_used = 0;
    if (out->unsynced_bytes < SYNC_BYTES) return OT_OK;
    out->unsynced_bytes = 0;
    return io->ops->fdatasync(io, out->log_fd);
}

static enum ot_err put_bytes(struct eng_compact_out *out, const uint8_t *data, size_t bytes)
{
    enum ot_err err = OT_OK;
    if (bytes > out->buffer_bytes - out->buffer_used && (err = flush_buffer(out)) != OT_OK) return err;
    if (bytes >= out->buffer_bytes) {
        err = ot_io_write_all(out->log->io, out->log_fd, data, bytes, out->bytes);
        out->unsynced_bytes += bytes;
    } else {
        memcpy(out->buffer + out->buffer_used, data, bytes);   /* many batches, one write */
        out->buffer_used += (uint32_t)bytes;
    }
    out->bytes += bytes;
    return err;
}

/* Index entries, times and offsets of a batch at the end. */
static enum ot_err count_batch(struct eng_compact_out *out, const struct eng_batch_info *info)
{
    struct eng_index_entry index;
    struct eng_time_entry time;
    int64_t last_offset = eng_batch_last_offset(info);
    struct eng_indexed indexed = { out->bytes, (uint64_t)info->batch_bytes, last_offset, info->max_timestamp };
    if (out->bytes > INT32_MAX) return OT_ERR_TOO_LARGE;
    unsigned what = eng_indexing_step(&out->indexing, &indexed, out->interval_bytes, &index, &time);
    if (out->bytes == 0) out->first_timestamp_ms = info->max_timestamp;
    out->last_offset = last_offset;
    return what == 0 ? OT_OK : eng_index_out_add(out->indexes, what, &index, &time);
}

/* Headers again, for the indexes; the bytes are copied as they are: their checksums were looked at when they were judged. */
static enum ot_err copy_verbatim(struct eng_compact_out *out, struct eng_segment *first, uint64_t bytes)
{
    struct eng_scan scan;
    struct eng_batch_info info;
    int fd = -1;
    uint8_t *buffer = malloc(COPY_BYTES);
    if (buffer == NULL) return OT_ERR_NO_MEMORY;
    enum ot_err err = eng_segment_acquire(first, out->log->dir_path, ENG_SEGMENT_LOG, true, &fd);
    if (err == OT_OK) {
        eng_scan_init(&scan, out->log->io, fd, 0, bytes, buffer, COPY_BYTES);
        while ((err = eng_scan_next(&scan, &info)) == OT_OK) {
            const uint8_t *data = NULL;
            uint8_t *owned = NULL;
            err = eng_scan_load(&scan, &info, ENG_COMPACT_BATCH_BYTES_MAX, &data, &owned);
            if (err == OT_OK) err = count_batch(out, &info);
            if (err == OT_OK) err = put_bytes(out, data, (size_t)info.batch_bytes);
            free(owned);
            if (err != OT_OK) break;
        }
        eng_segment_release(first, ENG_SEGMENT_LOG);
        if (err == OT_ERR_NOT_FOUND) err = scan.pos == bytes ? OT_OK : OT_ERR_IO;
    }
    free(buffer);
    return err;
}

enum ot_err eng_compact_out_differ(struct eng_compact_out *out)
{
    struct eng_segment *first = out->verbatim;
    uint64_t bytes = out->bytes;
    out->changed = true;
    if (first == NULL) return OT_OK;
    out->verbatim = NULL;
    out->bytes = 0;
    out->indexing = ENG_INDEXING_NONE;
    enum ot_err err = open_files(out);
    if (err == OT_OK && bytes > 0) err = copy_verbatim(out, first, bytes);
    return err == OT_OK && out->bytes != bytes ? OT_ERR_IO : err;
}

enum ot_err eng_compact_out_batch(struct eng_compact_out *out, const uint8_t *data, const struct eng_batch_info *info)
{
    enum ot_err err = OT_OK;
    if (out->tail_held && data != out->tail && (err = eng_compact_out_differ(out)) != OT_OK) return err;      /* what was held goes */
    out->tail_held = false;
    if (out->verbatim != NULL) {
        out->bytes += (uint64_t)info->batch_bytes;
        out->last_offset = eng_batch_last_offset(info);
        return OT_OK;
    }
    err = count_batch(out, info);
    return err == OT_OK ? put_bytes(out, data, (size_t)info->batch_bytes) : err;
}

enum ot_err eng_compact_out_aborted(struct eng_compact_out *out, const struct eng_txn_entry *entry)
{
    uint8_t data[ENG_TXN_ENTRY_BYTES];
    enum ot_err err = out->txn_fd >= 0 ? OT_OK : open_file(out, ENG_SEGMENT_TXN, &out->txn_fd);
    if (err != OT_OK) return err;
    eng_txn_entry_encode(entry, data);
    err = ot_io_write_all(out->log->io, out->txn_fd, data, sizeof data, out->txn_bytes);
    if (err == OT_OK) out->txn_bytes += sizeof data;
    return err;
}

/* Attributes kept: timestamp type, transactional, control. No codec, no delete horizon. */
void eng_compact_empty_batch(const struct eng_batch_info *info, uint8_t out[static ENG_BATCH_HEADER_BYTES])
{
    int attributes = (info->timestamp_type == ENG_TIMESTAMP_APPEND ? 0x08 : 0) | (info->transactional ? 0x10 : 0) | (info->control ? 0x20 : 0);
    memset(out, 0, ENG_BATCH_HEADER_BYTES);
    ot_store_u64(out, (uint64_t)info->base_offset);
    ot_store_u32(out + 8, ENG_BATCH_HEADER_BYTES - 12);
    ot_store_u32(out + 12, (uint32_t)info->partition_leader_epoch);
    out[16] = 2;
    ot_store_u16(out + 21, (uint16_t)attributes);
    ot_store_u32(out + 23, (uint32_t)OT_MAX(info->last_offset_delta, 0));
    ot_store_u64(out + 27, UINT64_MAX);
    ot_store_u64(out + 35, (uint64_t)info->max_timestamp);
    ot_store_u64(out + 43, (uint64_t)info->producer_id);
    ot_store_u16(out + 51, (uint16_t)info->producer_epoch);
    ot_store_u32(out + 53, (uint32_t)info->base_sequence);
    ot_store_u32(out + ENG_BATCH_CRC_POS, ot_crc32c(0, out + ENG_BATCH_CRC_FROM, ENG_BATCH_HEADER_BYTES - ENG_BATCH_CRC_FROM));
}

enum ot_err eng_compact_out_hold(struct eng_compact_out *out, const struct eng_batch_info *info, bool was_empty)
{
    enum ot_err err = out->tail_held || !was_empty ? eng_compact_out_differ(out) : OT_OK;      /* the one before it goes, or its records */
    eng_compact_empty_batch(info, out->tail);
    out->tail_held = true;
    return err;
}

enum ot_err eng_compact_out_finish(struct eng_compact_out *out)
{
    struct ot_io *io = out->log->io;
    struct eng_batch_info info;
    enum ot_err err = OT_OK;
    OT_ASSERT(out->verbatim == NULL);
    if (out->tail_held) {                  /* so that the file says how far it goes */
        err = eng_batch_parse(out->tail, sizeof out->tail, &info);
        if (err == OT_OK) err = eng_compact_out_batch(out, out->tail, &info);
    }
    if (err == OT_OK && out->indexing.max_timestamp_ms > out->indexing.last_time_ms) {
        struct eng_time_entry time = { out->indexing.max_timestamp_ms, out->indexing.max_timestamp_offset };
        err = eng_index_out_add(out->indexes, ENG_ADD_TIME, NULL, &time);
        out->indexing.last_time_ms = out->indexing.max_timestamp_ms;
    }
    if (err == OT_OK) err = eng_index_out_flush(out->indexes);
    if (err == OT_OK) err = flush_buffer(out);
    if (err == OT_OK) err = io->ops->fdatasync(io, out->log_fd);
    if (err == OT_OK) err = io->ops->fdatasync(io, out->indexes->index_fd);
    if (err == OT_OK) err = io->ops->fdatasync(io, out->indexes->time_fd);
    if (err == OT_OK && out->txn_fd >= 0) err = io->ops->fdatasync(io, out->txn_fd);
    return err;
}

void eng_compact_out_close(struct eng_compact_out *out)
{
    struct ot_io *io = out->log->io;
    if (!out->open) return;
    io->ops->close(io, out->log_fd);
    io->ops->close(io, out->indexes->index_fd);
    io->ops->close(io, out->indexes->time_fd);
    io->ops->close(io, out->txn_fd);
    out->open = false;
}

void eng_compact_out_discard(struct eng_compact_out *out)
{
    char path[ENG_PATH_BYTES];
    struct ot_io *io = out->log->io;
    if (!out->open) return;
    bool txn = out->txn_fd >= 0, any = out->verbatim == NULL || txn;
    eng_compact_out_close(out);
    if (!any) return;
    for (size_t i = 0; i < OT_ARRAY_COUNT(suffixes); i++)
        if ((i != ENG_SEGMENT_TXN || txn) && eng_segment_path(path, out->log->dir_path, out->base_offset, suffixes[i]) == OT_OK)
            ot_ignore(io->ops->unlink(io, path), "open removes what is left");
}
