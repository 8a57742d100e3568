/* Message sets of magic 0 and 1, as old partition directories hold them: read, never written.
 *
 *   pos  bytes  entry
 *     0      8  offset
 *     8      4  size of what follows
 *    12      4  CRC-32 of what follows
 *    16      1  magic: 0 or 1
 *    17      1  attributes: bits 0-2 codec (none, gzip, snappy, lz4), bit 3 timestamp type (magic 1)
 *    18      8  timestamp (magic 1 only)
 *            4  key bytes, -1 null; key
 *            4  value bytes, -1 null; value
 *
 * A compressed entry wraps a set of entries of its own magic, themselves not compressed. In magic 0 they carry true offsets,
 * in magic 1 they count from the first one and the wrapper has the offset of the last: since that is known only at the end, a
 * magic 1 wrapper is decoded twice, which keeps memory at one window. */
#include "engine/record_feed.h"

#include <string.h>

#define ENTRY_PREFIX_BYTES   12u /* offset and size */
#define ENTRY_BODY_BYTES_MIN 14  /* of magic 0, with neither key nor value */

struct entry {
    int64_t offset, timestamp;
    int8_t magic, attributes;
    struct ot_blob key, value;
};

static bool entry_blob(struct ot_reader *r, struct ot_blob *out)
{
    int32_t bytes = ot_read_i32(r);
    if (r->err != OT_OK || bytes < -1) {
        return false;
    }
    *out = (struct ot_blob){NULL, (uint32_t)OT_MAX(bytes, 0), bytes < 0};
    if (bytes >= 0 && (out->data = ot_read_bytes(r, (size_t)bytes)) == NULL) {
        return false;
    }
    return true;
}

/* body: behind offset and size */
static bool entry_parse(int64_t offset, const uint8_t *body, size_t bytes, struct entry *out)
{
    struct ot_reader r = ot_reader_over(body, bytes);
    out->offset = offset;
    (void)ot_read_u32(&r); /* the CRC: of a whole entry checked by eng_batch_check_crc, of an inner one by its wrapper's */
    out->magic = ot_read_i8(&r);
    out->attributes = ot_read_i8(&r);
    if (r.err != OT_OK || out->magic < 0 || out->magic > 1) {
        return false;
    }
    out->timestamp = out->magic == 1 ? ot_read_i64(&r) : -1;
    return entry_blob(&r, &out->key) && entry_blob(&r, &out->value) && ot_reader_left(&r) == 0;
}

/* offset and size of the next inner entry; false with iter->err OK: the set ended */
static bool inner_prefix(struct eng_record_iter *iter, int64_t *offset, int32_t *bytes)
{
    const uint8_t *prefix;
    if (eng_feed_ended(iter) || iter->err != OT_OK || !eng_feed_take(iter, ENTRY_PREFIX_BYTES, &prefix)) {
        return false;
    }
    *offset = ot_load_i64(prefix);
    *bytes = ot_load_i32(prefix + 8);
    if (*bytes < ENTRY_BODY_BYTES_MIN || *bytes > iter->max_record_bytes) {
        return eng_feed_fail(iter, OT_ERR_INVALID_RECORD);
    }
    return true;
}

static enum ot_err wrapper_begin(struct eng_record_iter *iter, const struct entry *wrapper)
{
    iter->at = iter->end = iter->data;
    iter->ended = false;
    return eng_decode_begin(iter->decode, iter->info.codec, wrapper->value.data, wrapper->value.bytes, iter->info.magic == 0);
}

static enum ot_err wrapper_open(struct eng_record_iter *iter, const struct entry *wrapper)
{
    iter->compressed = true;
    OT_ASSERT(iter->decode != NULL);
    enum ot_err err = wrapper_begin(iter, wrapper);
    if (err != OT_OK || iter->info.magic == 0) {
        return err;
    }
    int64_t offset, last_offset = -1;
    int32_t bytes;
    while (inner_prefix(iter, &offset, &bytes) && eng_feed_skip(iter, bytes)) {
        last_offset = offset;
    }
    if (iter->err != OT_OK) {
        return iter->err;
    }
    iter->legacy_shift = (int64_t)((uint64_t)wrapper->offset - (uint64_t)last_offset);
    return wrapper_begin(iter, wrapper);
}

enum ot_err eng_legacy_open(struct eng_record_iter *iter, const uint8_t *data, size_t bytes)
{
    struct entry entry;
    if (iter->info.codec > ENG_CODEC_LZ4 ||
        !entry_parse(iter->info.base_offset, data + ENTRY_PREFIX_BYTES, bytes - ENTRY_PREFIX_BYTES, &entry)) {
        return OT_ERR_INVALID_RECORD;
    }
    if (iter->info.codec == ENG_CODEC_NONE) {
        iter->one = true;
        return OT_OK;
    }
    return entry.value.null ? OT_ERR_INVALID_RECORD : wrapper_open(iter, &entry);
}

static void entry_fill(const struct eng_record_iter *iter, const struct entry *entry, struct eng_record *out)
{
    memset(out, 0, sizeof(*out));
    out->offset = (int64_t)((uint64_t)entry->offset + (uint64_t)iter->legacy_shift);
    out->timestamp = iter->info.timestamp_type == ENG_TIMESTAMP_APPEND ? iter->info.max_timestamp : entry->timestamp;
    out->sequence = -1;
    out->index = iter->index;
    out->attributes = entry->attributes;
    out->key = entry->key;
    out->value = entry->value;
    out->headers.null = out->raw.null = true;
}

static bool inner_next(struct eng_record_iter *iter, struct entry *out)
{
    int64_t offset;
    int32_t bytes;
    const uint8_t *body;
    if (!inner_prefix(iter, &offset, &bytes) || !eng_feed_take(iter, (size_t)bytes, &body)) {
        return false;
    }
    if (!entry_parse(offset, body, (size_t)bytes, out) || out->magic != iter->info.magic || (out->attributes & 7) != 0) {
        return eng_feed_fail(iter, OT_ERR_INVALID_RECORD);
    }
    return true;
}

enum ot_err eng_legacy_next(struct eng_record_iter *iter, struct eng_record *out)
{
    struct entry entry;
    if (iter->one && iter->index == 0) {
        bool parsed = entry_parse(
            iter->info.base_offset, iter->data + ENTRY_PREFIX_BYTES, (size_t)iter->info.batch_bytes - ENTRY_PREFIX_BYTES, &entry);
        OT_ASSERT(parsed); /* open did the same */
    } else if (iter->one || !inner_next(iter, &entry)) {
        if (iter->err == OT_OK && iter->index == 0) {
            iter->err = OT_ERR_INVALID_RECORD; /* a wrapper around nothing */
        }
        return iter->err == OT_OK ? OT_ERR_NOT_FOUND : iter->err;
    }
    entry_fill(iter, &entry, out);
    iter->index++;
    return OT_OK;
}
