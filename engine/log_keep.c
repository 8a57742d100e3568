/* Batches copied aside before they are cut: one file in a folder of its own, named as a segment is, so that whatever reads segments reads it (Kafka's dump tool among it). */
#include "base/log.h"
#include "engine/log_inner.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES (1u << 20)

struct keeping { struct eng_log *log; uint8_t *buffer; size_t buffer_bytes; int fd; char path[ENG_PATH_BYTES]; struct eng_kept *out; };

static enum ot_err gather(struct keeping *keeping, const struct eng_read_result *piece)
{
    struct ot_io *io = keeping->log->io;
    size_t at = 0;
    if (piece->bytes > keeping->buffer_bytes) {
        uint8_t *wider = realloc(keeping->buffer, piece->bytes);
        if (wider == NULL) return OT_ERR_NO_MEMORY;
        keeping->buffer = wider;
        keeping->buffer_bytes = piece->bytes;
    }
    for (uint32_t i = 0; i < piece->span_count; i++) {
        const struct ot_span *span = &piece->spans[i];
        enum ot_err err = OT_OK;
        if (span->memory != NULL) memcpy(keeping->buffer + at, span->memory, span->bytes);
        else err = ot_io_read_exact(io, span->fd, keeping->buffer + at, span->bytes, span->pos);
        if (err != OT_OK) return err;
        at += span->bytes;
    }
    return OT_OK;
}

/* How much of the buffer are whole batches that there is room for, and where they end. */
static size_t whole(struct keeping *keeping, size_t bytes, uint64_t room, int64_t *end_out)
{
    struct eng_batch_info info;
    size_t at = 0;
    while (eng_batch_parse(keeping->buffer + at, bytes - at, &info) == OT_OK && (uint64_t)info.batch_bytes <= bytes - at && at + (uint64_t)info.batch_bytes <= room) {
        at += (size_t)info.batch_bytes;
        *end_out = eng_batch_last_offset(&info) + 1;
        keeping->out->batches++;
    }
    return at;
}

static enum ot_err begin(struct keeping *keeping, const char *folder, int64_t base_offset)
{
    struct ot_io *io = keeping->log->io;
    enum ot_err err = eng_segment_path(keeping->path, folder, base_offset, ".log");
    if (err == OT_OK) err = io->ops->open(io, keeping->path, OT_IO_WRITE | OT_IO_CREATE | OT_IO_TRUNCATE, &keeping->fd);
    if (err == OT_OK) keeping->out->first_offset = base_offset;
    return err;
}

static enum ot_err copy(struct keeping *keeping, int64_t offset, uint64_t bytes_max, const char *folder)
{
    struct eng_log *log = keeping->log;
    struct ot_io *io = log->io;
    const int64_t end = eng_log_end_offset(log);
    enum ot_err err = OT_OK;
    while (offset < end && err == OT_OK) {
        const struct eng_read how = { .offset = offset, .limit_offset = end, .max_bytes = PIECE_BYTES, .min_one = true, .may_block = true };
        struct eng_read_result piece = { 0 };
        size_t bytes = 0;
        int64_t next = offset;
        if ((err = eng_log_read(log, &how, &piece)) != OT_OK || piece.bytes == 0) break;
        if (keeping->fd < 0) err = begin(keeping, folder, piece.first_base_offset);
        if (err == OT_OK) err = gather(keeping, &piece);
        if (piece.pin != NULL) piece.pin->release(piece.pin);
        if (err == OT_OK) bytes = whole(keeping, piece.bytes, bytes_max - keeping->out->bytes, &next);
        if (err == OT_OK && bytes > 0 && next <= offset) err = OT_ERR_CORRUPT;
        if (err != OT_OK || bytes == 0) return err;                /* no room for the next one */
        if ((err = ot_io_write_all(io, keeping->fd, keeping->buffer, bytes, keeping->out->bytes)) != OT_OK) break;
        keeping->out->bytes += bytes;
        keeping->out->end_offset = offset = next;
    }
    if (err == OT_OK) keeping->out->all = true;
    return err;
}

enum ot_err eng_log_keep(struct eng_log *log, int64_t offset, uint64_t bytes_max, const char *folder, struct eng_kept *out)
{
    struct keeping keeping = { .log = log, .fd = -1, .out = out };
    struct ot_io *io = log->io;
    *out = (struct eng_kept){ .first_offset = -1, .end_offset = offset };
    enum ot_err err = io->ops->mkdir(io, folder);
    if (err == OT_OK || err == OT_ERR_EXISTS) err = copy(&keeping, offset, bytes_max, folder);
    if (keeping.fd >= 0) {
        const enum ot_err synced = io->ops->fdatasync(io, keeping.fd);
        err = err == OT_OK ? synced : err;
        io->ops->close(io, keeping.fd);
        if (err == OT_OK) err = io->ops->sync_dir(io, folder);
    }
    if (err != OT_OK || out->bytes == 0) {
        if (keeping.fd >= 0) ot_ignore(io->ops->unlink(io, keeping.path), "a partial copy of what is still in the log");
        ot_ignore(io->ops->rmdir(io, folder), "nothing is in it");
        *out = (struct eng_kept){ .first_offset = -1, .end_offset = offset };
    }
    free(keeping.buffer);
    return err;
}
