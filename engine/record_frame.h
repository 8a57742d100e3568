/* Private to the engine: take one magic 2 record apart that lies whole in memory. Every length is checked before it is followed. */
#ifndef OT_ENGINE_RECORD_FRAME_H
#define OT_ENGINE_RECORD_FRAME_H

#include "base/bytes.h"

struct eng_frame {
    int64_t timestamp_delta;
    int32_t offset_delta;
    int8_t attributes;
    uint32_t header_count;
    struct ot_blob key, value, headers, raw;
};

/* False: ends early, too long, or bits beyond the type. */
static inline bool eng_frame_uvarint(const uint8_t **at, const uint8_t *end, int bits, uint64_t *out)
{
    const uint8_t *p = *at;
    if (OT_LIKELY(p < end && *p < 0x80)) {
        *out = *p;
        *at = p + 1;
        return true;
    }
    if (end - p >= 2 && p[1] < 0x80) { /* lengths from 64 to 8191 */
        *out = (uint64_t)(p[0] & 0x7f) | (uint64_t)p[1] << 7;
        *at = p + 2;
        return true;
    }
    uint64_t value = 0;
    for (int shift = 0; shift < bits && p < end; shift += 7) {
        uint8_t byte = *p++;
        if (shift + 7 > bits && (byte >> (bits - shift)) != 0) {
            return false;
        }
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = value;
            *at = p;
            return true;
        }
    }
    return false;
}

static inline bool eng_frame_varint(const uint8_t **at, const uint8_t *end, int32_t *out)
{
    uint64_t raw;
    if (!eng_frame_uvarint(at, end, 32, &raw)) {
        return false;
    }
    *out = (int32_t)((uint32_t)raw >> 1 ^ (0u - ((uint32_t)raw & 1)));
    return true;
}

static inline bool eng_frame_varlong(const uint8_t **at, const uint8_t *end, int64_t *out)
{
    uint64_t raw;
    if (!eng_frame_uvarint(at, end, 64, &raw)) {
        return false;
    }
    *out = (int64_t)(raw >> 1 ^ (0u - (raw & 1)));
    return true;
}

static inline bool eng_frame_blob(const uint8_t **at, const uint8_t *end, bool nullable, struct ot_blob *out)
{
    int32_t bytes;
    if (!eng_frame_varint(at, end, &bytes) || bytes < (nullable ? -1 : 0) || bytes > end - *at) {
        return false;
    }
    *out = (struct ot_blob){bytes < 0 ? NULL : *at, bytes < 0 ? 0 : (uint32_t)bytes, bytes < 0};
    *at += OT_MAX(bytes, 0);
    return true;
}

/* [data, data + bytes): the record behind its length. All of it must be used up. */
static inline bool eng_frame_parse(const uint8_t *data, size_t bytes, struct eng_frame *out)
{
    const uint8_t *at = data, *end = data + bytes;
    if (at == end) {
        return false;
    }
    out->raw = (struct ot_blob){data, (uint32_t)bytes, false};
    out->attributes = (int8_t)*at++;
    int32_t count;
    if (!eng_frame_varlong(&at, end, &out->timestamp_delta) || !eng_frame_varint(&at, end, &out->offset_delta) ||
        !eng_frame_blob(&at, end, true, &out->key) || !eng_frame_blob(&at, end, true, &out->value) ||
        !eng_frame_varint(&at, end, &count) || count < 0) {
        return false;
    }
    out->headers = (struct ot_blob){at, (uint32_t)(end - at), false};
    out->header_count = (uint32_t)count;
    for (int32_t i = 0; i < count; i++) { /* each takes at least two bytes, or fails */
        struct ot_blob skipped;
        if (!eng_frame_blob(&at, end, false, &skipped) || !eng_frame_blob(&at, end, true, &skipped)) {
            return false;
        }
    }
    return at == end;
}

#endif
