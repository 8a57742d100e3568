#include "engine/scan.h"
#include "base/util.h"

#include <stdlib.h>
#include <string.h>

#define LEGACY_BYTES_MAX (64u << 20)       /* of a batch of magic 0 or 1, whose checksum wants it whole */

void eng_scan_init(struct eng_scan *scan, struct ot_io *io, int fd, uint64_t pos, uint64_t end, uint8_t *buffer, uint32_t buffer_cap)
{
    *scan = (struct eng_scan){ .io = io, .fd = fd, .pos = pos, .end = end, .buffer = buffer, .buffer_cap = buffer_cap, .batch_pos = pos };
    OT_ASSERT(buffer_cap >= 2 * ENG_BATCH_HEADER_BYTES);
}

/* Makes bytes [pos, pos + bytes) available in the buffer, reading on from there. bytes fit into the buffer and lie below end. */
static enum ot_err fill(struct eng_scan *scan, uint64_t pos, uint32_t bytes, const uint8_t **out)
{
    OT_ASSERT(bytes <= scan->buffer_cap && pos + bytes <= scan->end);
    if (pos < scan->buffer_pos || pos + bytes > scan->buffer_pos + scan->buffer_bytes) {
        uint32_t want = (uint32_t)OT_MIN((uint64_t)scan->buffer_cap, scan->end - pos);
        size_t got_all = 0;
        if (pos >= scan->buffer_pos && pos < scan->buffer_pos + scan->buffer_bytes) {      /* the beginning is here already */
            got_all = (size_t)(scan->buffer_pos + scan->buffer_bytes - pos);
            memmove(scan->buffer, scan->buffer + (pos - scan->buffer_pos), got_all);
            scan->read_bytes -= got_all;
        }
        scan->buffer_bytes = 0;
        while (got_all < bytes) {
            size_t got = 0;
            enum ot_err err = scan->io->ops->pread(scan->io, scan->fd, scan->buffer + got_all, want - got_all, pos + got_all, &got);
            if (err != OT_OK || got == 0) return err != OT_OK ? err : OT_ERR_SHORT;
            got_all += got;
        }
        scan->buffer_pos = pos;
        scan->buffer_bytes = (uint32_t)got_all;
        scan->read_bytes += got_all;
    }
    *out = scan->buffer + (pos - scan->buffer_pos);
    return OT_OK;
}

/* CRC-32C of a batch of any length, in pieces of the buffer. */
static enum ot_err check_crc(struct eng_scan *scan, const struct eng_batch_info *info)
{
    const uint8_t *data = NULL;
    uint8_t *owned = NULL;
    enum ot_err err;
    if (info->magic < 2) {
        if ((err = eng_scan_load(scan, info, LEGACY_BYTES_MAX, &data, &owned)) != OT_OK) return err == OT_ERR_TOO_LARGE ? OT_ERR_CORRUPT : err;
        err = eng_batch_check_crc(data, info);
        free(owned);
        return err == OT_OK ? OT_OK : OT_ERR_CORRUPT;
    }
    uint32_t crc = 0;
    uint64_t pos = scan->batch_pos + ENG_BATCH_CRC_FROM, end = scan->batch_pos + (uint64_t)info->batch_bytes;
    while (pos < end) {
        uint64_t buffered_end = scan->buffer_pos + scan->buffer_bytes;
        uint32_t some = (uint32_t)OT_MIN(end - pos, (uint64_t)scan->buffer_cap);
        if (pos >= scan->buffer_pos && pos < buffered_end) some = (uint32_t)OT_MIN((uint64_t)some, buffered_end - pos);
        if ((err = fill(scan, pos, some, &data)) != OT_OK) return err;
        crc = ot_crc32c(crc, data, some);
        pos += some;
    }
    return crc == info->crc ? OT_OK : OT_ERR_CORRUPT;
}

enum ot_err eng_scan_next(struct eng_scan *scan, struct eng_batch_info *info)
{
    const uint8_t *data = NULL;
    uint64_t left = scan->end - scan->pos;
    if (left == 0) return OT_ERR_NOT_FOUND;
    if (left < ENG_BATCH_PREFIX_BYTES) return OT_ERR_SHORT;
    uint32_t some = (uint32_t)OT_MIN(left, (uint64_t)ENG_BATCH_HEADER_BYTES);
    enum ot_err err = fill(scan, scan->pos, some, &data);
    if (err != OT_OK) return err;
    err = eng_batch_parse(data, some, info);
    if (err == OT_ERR_SHORT) return err;
    if (err != OT_OK || info->base_offset < 0 || info->last_offset_delta < -1 || eng_batch_last_offset(info) < info->base_offset) return OT_ERR_CORRUPT;
    if (info->magic == 2 && info->last_offset_delta < 0) return OT_ERR_CORRUPT;
    if ((uint64_t)info->batch_bytes > left) return OT_ERR_SHORT;
    uint64_t was = scan->batch_pos;
    scan->batch_pos = scan->pos;
    if (scan->check_crc && (err = check_crc(scan, info)) != OT_OK) {
        scan->batch_pos = was;
        return err;
    }
    scan->pos += (uint64_t)info->batch_bytes;
    return OT_OK;
}

enum ot_err eng_scan_load(struct eng_scan *scan, const struct eng_batch_info *info, uint64_t bytes_max, const uint8_t **data_out,
    uint8_t **owned_out)
{
    uint64_t bytes = (uint64_t)info->batch_bytes;
    *owned_out = NULL;
    if (bytes <= scan->buffer_cap) return fill(scan, scan->batch_pos, (uint32_t)bytes, data_out);
    if (bytes > bytes_max) return OT_ERR_TOO_LARGE;
    uint8_t *data = malloc(bytes);
    if (data == NULL) return OT_ERR_NO_MEMORY;
    enum ot_err err = ot_io_read_exact(scan->io, scan->fd, data, bytes, scan->batch_pos);
    if (err != OT_OK) {
        free(data);
        return err;
    }
    *data_out = *owned_out = data;
    return OT_OK;
}

/* Could a batch start at these bytes? Cheap enough for every byte of a damaged tail. */
static bool looks_like_batch(const uint8_t *data, uint64_t left, int64_t min_offset)
{
    if (data[16] != 2) return false;
    int64_t base_offset = ot_load_i64(data);
    int32_t length = ot_load_i32(data + 8);
    return base_offset >= min_offset && base_offset - min_offset <= INT32_MAX && length >= 49 && (uint64_t)length + 12 <= left &&
        ot_load_i32(data + 23) >= 0;
}

enum ot_err eng_scan_find_later(struct eng_scan *scan, int64_t min_offset, bool *found_out)
{
    const uint8_t *data = NULL;
    struct eng_batch_info info;
    *found_out = false;
    for (uint64_t pos = scan->pos + 1; pos + ENG_BATCH_HEADER_BYTES <= scan->end; pos++) {
        enum ot_err err = fill(scan, pos, ENG_BATCH_HEADER_BYTES, &data);
        if (err != OT_OK) return err;
        if (!looks_like_batch(data, scan->end - pos, min_offset)) continue;
        struct eng_scan probe = *scan;
        probe.pos = pos;
        probe.check_crc = true;
        err = eng_scan_next(&probe, &info);
        scan->buffer_pos = probe.buffer_pos;           /* one buffer, two cursors */
        scan->buffer_bytes = probe.buffer_bytes;
        if (err == OT_OK) {
            *found_out = true;
            return OT_OK;
        }
        if (err != OT_ERR_CORRUPT && err != OT_ERR_SHORT) return err;
    }
    return OT_OK;
}

enum ot_err eng_scan_is_zero(struct eng_scan *scan, bool *zero_out)
{
    const uint8_t *data = NULL;
    *zero_out = false;
    for (uint64_t pos = scan->pos; pos < scan->end;) {
        uint32_t some = (uint32_t)OT_MIN(scan->end - pos, 4096u);
        enum ot_err err = fill(scan, pos, some, &data);
        if (err != OT_OK) return err;
        for (uint32_t i = 0; i < some; i++)
            if (data[i] != 0) return OT_OK;
        pos += some;
    }
    *zero_out = true;
    return OT_OK;
}
