/* Iteration over records. Both ways through a batch share one rule set: a record's length bounds everything in it, all of it
 * must be used up, the count in the header says how many there are, and behind the last one nothing may follow, neither bytes
 * nor a wrong codec checksum. */
#include "engine/record.h"
#include "engine/record_feed.h"
#include "engine/record_frame.h"

#include <string.h>

/* ---- the feed ---- */

bool eng_feed_fail(struct eng_record_iter *iter, enum ot_err err)
{
    if (iter->err == OT_OK) {
        iter->err = err;
    }
    return false;
}

/* false with iter->err OK: the end */
static bool feed_refill(struct eng_record_iter *iter)
{
    size_t got = 0;
    if (!iter->compressed || iter->ended) {
        return false;
    }
    const uint8_t *chunk = NULL;
    enum ot_err err = eng_decode_next(iter->decode, &chunk, &got);
    if (err != OT_OK) {
        return eng_feed_fail(iter, err);
    }
    if (got == 0) {
        iter->ended = true;
        return false;
    }
    iter->at = chunk;
    iter->end = chunk + got;
    return true;
}

bool eng_feed_more(struct eng_record_iter *iter)
{
    return feed_refill(iter) || eng_feed_fail(iter, OT_ERR_INVALID_RECORD);
}

bool eng_feed_byte(struct eng_record_iter *iter, uint8_t *out)
{
    if (iter->at == iter->end && !eng_feed_more(iter)) {
        return false;
    }
    *out = *iter->at++;
    return true;
}

bool eng_feed_skip(struct eng_record_iter *iter, int64_t bytes)
{
    while (bytes > iter->end - iter->at) {
        bytes -= iter->end - iter->at;
        iter->at = iter->end;
        if (!eng_feed_more(iter)) {
            return false;
        }
    }
    iter->at += bytes;
    return true;
}

bool eng_feed_take(struct eng_record_iter *iter, size_t bytes, const uint8_t **out)
{
    if (OT_LIKELY((size_t)(iter->end - iter->at) >= bytes)) {
        *out = iter->at;
        iter->at += bytes;
        return true;
    }
    size_t used = 0;
    uint8_t *held = NULL;
    while (used < bytes) {
        if (iter->at == iter->end && !eng_feed_more(iter)) {
            return false;
        }
        size_t part = OT_MIN((size_t)(iter->end - iter->at), bytes - used);
        enum ot_err err = eng_decode_hold(iter->decode, used, used + part, &held); /* as much as was decoded, not as was claimed */
        if (err != OT_OK) {
            return eng_feed_fail(iter, err);
        }
        memcpy(held + used, iter->at, part); /* the record crosses the window: its pieces must meet somewhere */
        used += part;
        iter->at += part;
    }
    *out = held;
    return true;
}

bool eng_feed_ended(struct eng_record_iter *iter)
{
    return iter->at == iter->end && !feed_refill(iter) && iter->err == OT_OK;
}

bool eng_feed_at_end(struct eng_record_iter *iter, const uint8_t **kept, size_t kept_bytes)
{
    if (iter->at != iter->end) {
        return eng_feed_fail(iter, OT_ERR_INVALID_RECORD);
    }
    if (!iter->compressed || iter->ended) {
        return true;
    }
    if (kept != NULL && kept_bytes > 0 && iter->end == *kept + kept_bytes) {
        uint8_t *held;
        enum ot_err err = eng_decode_hold(iter->decode, 0, kept_bytes, &held);
        if (err != OT_OK) {
            return eng_feed_fail(iter, err);
        }
        memcpy(held, *kept, kept_bytes); /* one record a batch: looking for the end reuses the window it lies in */
        *kept = held;
    }
    return eng_feed_ended(iter) || eng_feed_fail(iter, OT_ERR_INVALID_RECORD);
}

/* ---- magic 2 ---- */

enum ot_err eng_record_open(
    struct eng_record_iter *iter, struct eng_decode *decode, const uint8_t *data, size_t bytes, int64_t max_record_bytes)
{
    memset(iter, 0, sizeof(*iter));
    iter->decode = decode;
    iter->data = data;
    iter->max_record_bytes = max_record_bytes > 0 ? max_record_bytes : INT32_MAX;
    enum ot_err err = eng_batch_parse(data, bytes, &iter->info);
    if (err == OT_OK && iter->info.batch_bytes != (int64_t)bytes) {
        err = OT_ERR_CORRUPT_MESSAGE;
    }
    if (err == OT_ERR_SHORT) {
        err = OT_ERR_CORRUPT_MESSAGE;
    }
    if (err == OT_OK && !eng_batch_codec_known(&iter->info)) {
        err = OT_ERR_UNSUPPORTED_COMPRESSION_TYPE;
    }
    if (err == OT_OK && iter->info.magic < 2) {
        err = eng_legacy_open(iter, data, bytes);
    } else if (err == OT_OK) {
        iter->compressed = iter->info.codec != ENG_CODEC_NONE;
        iter->at = data + ENG_BATCH_HEADER_BYTES;
        iter->end = data + bytes;
        if (iter->info.record_count < 0) {
            err = OT_ERR_INVALID_RECORD;
        } else if (iter->compressed && iter->info.record_count > 0) {
            OT_ASSERT(decode != NULL);
            err = eng_decode_begin(decode, iter->info.codec, iter->at, (size_t)(iter->end - iter->at), false);
            iter->at = iter->end;
        }
    }
    iter->err = err;
    return err;
}

/* a length that crosses the window, or stands near its end */
static bool feed_varint(struct eng_record_iter *iter, int32_t *out)
{
    uint8_t bytes[5];
    const uint8_t *at = bytes;
    size_t count = 0;
    do {
        if (!eng_feed_byte(iter, &bytes[count++])) {
            return false;
        }
    } while (bytes[count - 1] >= 0x80 && count < sizeof(bytes));
    return eng_frame_varint(&at, bytes + count, out) || eng_feed_fail(iter, OT_ERR_INVALID_RECORD);
}

static bool record_length(struct eng_record_iter *iter, int32_t *out)
{
    bool taken = iter->end - iter->at >= 5
                     ? eng_frame_varint(&iter->at, iter->end, out) || eng_feed_fail(iter, OT_ERR_INVALID_RECORD)
                     : feed_varint(iter, out);
    if (!taken) {
        return false;
    }
    if (*out < 0 || (iter->compressed && *out > iter->max_record_bytes) || (!iter->compressed && *out > iter->end - iter->at)) {
        return eng_feed_fail(iter, OT_ERR_INVALID_RECORD);
    }
    return true;
}

static void record_fill(const struct eng_record_iter *iter, const struct eng_frame *frame, struct eng_record *out)
{
    const struct eng_batch_info *info = &iter->info;
    out->offset = (int64_t)((uint64_t)info->base_offset + (uint64_t)(int64_t)frame->offset_delta);
    out->timestamp = info->timestamp_type == ENG_TIMESTAMP_APPEND
                         ? info->max_timestamp
                         : (int64_t)((uint64_t)info->base_timestamp + (uint64_t)frame->timestamp_delta);
    out->sequence = info->base_sequence < 0 ? -1 : eng_sequence_add(info->base_sequence, frame->offset_delta);
    out->index = iter->index;
    out->attributes = frame->attributes;
    out->key = frame->key;
    out->value = frame->value;
    out->header_count = frame->header_count;
    out->headers = frame->headers;
    out->raw = frame->raw;
}

static bool record_next(struct eng_record_iter *iter, struct eng_record *out)
{
    int32_t bytes;
    const uint8_t *data;
    struct eng_frame frame;
    if (!record_length(iter, &bytes) || !eng_feed_take(iter, (size_t)bytes, &data)) {
        return false;
    }
    if (iter->index + 1 == iter->info.record_count && !eng_feed_at_end(iter, &data, (size_t)bytes)) {
        return false;
    }
    if (!eng_frame_parse(data, (size_t)bytes, &frame)) {
        return eng_feed_fail(iter, OT_ERR_INVALID_RECORD);
    }
    record_fill(iter, &frame, out);
    iter->index++;
    return true;
}

enum ot_err eng_record_next(struct eng_record_iter *iter, struct eng_record *out)
{
    if (iter->err != OT_OK) {
        return iter->err;
    }
    if (iter->info.magic < 2) {
        return eng_legacy_next(iter, out);
    }
    if (iter->index >= iter->info.record_count) {
        return OT_ERR_NOT_FOUND;
    }
    return record_next(iter, out) ? OT_OK : iter->err;
}

/* ---- passing over records that cross the window ---- */

static bool pass_byte(struct eng_record_iter *iter, uint8_t *out)
{
    if (iter->taken_left-- <= 0) {
        return eng_feed_fail(iter, OT_ERR_INVALID_RECORD);
    }
    return eng_feed_byte(iter, out);
}

static bool pass_varlong(struct eng_record_iter *iter, int bits, uint64_t *out)
{
    uint8_t bytes[10];
    const uint8_t *at = bytes;
    size_t count = 0, most = bits == 32 ? 5 : 10;
    do {
        if (!pass_byte(iter, &bytes[count++])) {
            return false;
        }
    } while (bytes[count - 1] >= 0x80 && count < most);
    return eng_frame_uvarint(&at, bytes + count, bits, out) || eng_feed_fail(iter, OT_ERR_INVALID_RECORD);
}

static bool pass_varint(struct eng_record_iter *iter, int32_t *out)
{
    uint64_t raw;
    if (!pass_varlong(iter, 32, &raw)) {
        return false;
    }
    *out = (int32_t)((uint32_t)raw >> 1 ^ (0u - ((uint32_t)raw & 1)));
    return true;
}

static bool pass_blob(struct eng_record_iter *iter, bool nullable, struct ot_blob *out)
{
    int32_t bytes;
    if (!pass_varint(iter, &bytes)) {
        return false;
    }
    if (bytes < (nullable ? -1 : 0) || bytes > iter->taken_left) {
        return eng_feed_fail(iter, OT_ERR_INVALID_RECORD);
    }
    *out = (struct ot_blob){NULL, (uint32_t)OT_MAX(bytes, 0), bytes < 0};
    iter->taken_left -= OT_MAX(bytes, 0);
    return eng_feed_skip(iter, OT_MAX(bytes, 0));
}

static bool pass_record(struct eng_record_iter *iter, int32_t bytes, struct eng_frame *frame)
{
    uint8_t attributes;
    uint64_t raw;
    int32_t count;
    memset(frame, 0, sizeof(*frame));
    iter->taken_left = bytes;
    if (!pass_byte(iter, &attributes) || !pass_varlong(iter, 64, &raw) || !pass_varint(iter, &frame->offset_delta) ||
        !pass_blob(iter, true, &frame->key) || !pass_blob(iter, true, &frame->value) || !pass_varint(iter, &count)) {
        return false;
    }
    frame->attributes = (int8_t)attributes;
    frame->timestamp_delta = (int64_t)(raw >> 1 ^ (0u - (raw & 1)));
    for (int32_t i = 0; i < count; i++) {
        struct ot_blob skipped;
        if (!pass_blob(iter, false, &skipped) || !pass_blob(iter, true, &skipped)) {
            return false;
        }
    }
    frame->header_count = (uint32_t)count;
    return (count >= 0 && iter->taken_left == 0) || eng_feed_fail(iter, OT_ERR_INVALID_RECORD);
}

static bool record_skim(struct eng_record_iter *iter, struct eng_record *out)
{
    int32_t bytes;
    struct eng_frame frame;
    if (!record_length(iter, &bytes)) {
        return false;
    }
    if (OT_LIKELY(iter->end - iter->at >= bytes)) {
        if (!eng_frame_parse(iter->at, (size_t)bytes, &frame)) {
            return eng_feed_fail(iter, OT_ERR_INVALID_RECORD);
        }
        iter->at += bytes;
    } else if (!pass_record(iter, bytes, &frame)) {
        return false;
    }
    if (iter->index + 1 == iter->info.record_count && !eng_feed_at_end(iter, NULL, 0)) {
        return false;
    }
    frame.key.data = frame.value.data = frame.headers.data = frame.raw.data = NULL;
    record_fill(iter, &frame, out);
    iter->index++;
    return true;
}

enum ot_err eng_record_skim(struct eng_record_iter *iter, struct eng_record *out)
{
    if (iter->err != OT_OK) {
        return iter->err;
    }
    if (iter->info.magic < 2) {
        return eng_legacy_next(iter, out);
    }
    if (iter->index >= iter->info.record_count) {
        return OT_ERR_NOT_FOUND;
    }
    return record_skim(iter, out) ? OT_OK : iter->err;
}

bool eng_record_header(struct ot_reader *cursor, struct eng_record_header *out)
{
    if (cursor->at == cursor->end) {
        return false;
    }
    return eng_frame_blob(&cursor->at, cursor->end, false, &out->key) &&
           eng_frame_blob(&cursor->at, cursor->end, true, &out->value);
}
