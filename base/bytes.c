#include "base/bytes.h"
#include "base/util.h"

#include <string.h>

void ot_reader_fail(struct ot_reader *r, enum ot_err err)
{
    if (r->err == OT_OK) r->err = err;
    r->end = r->at; /* nothing is left, so every later read fails without asking for err */
}

static const uint8_t *take(struct ot_reader *r, size_t bytes)
{
    if (OT_UNLIKELY(ot_reader_left(r) < bytes)) {
        ot_reader_fail(r, OT_ERR_SHORT);
        return NULL;
    }
    const uint8_t *p = r->at;
    r->at += bytes;
    return p;
}

uint8_t ot_read_u8(struct ot_reader *r)
{
    const uint8_t *p = take(r, 1);
    return p == NULL ? 0 : *p;
}

uint16_t ot_read_u16(struct ot_reader *r)
{
    const uint8_t *p = take(r, 2);
    return p == NULL ? 0 : ot_load_u16(p);
}

uint32_t ot_read_u32(struct ot_reader *r)
{
    const uint8_t *p = take(r, 4);
    return p == NULL ? 0 : ot_load_u32(p);
}

uint64_t ot_read_u64(struct ot_reader *r)
{
    const uint8_t *p = take(r, 8);
    return p == NULL ? 0 : ot_load_u64(p);
}

/* At most bytes_max bytes of seven bits; the last possible one may hold no more than last_max. */
static uint64_t read_base128(struct ot_reader *r, size_t bytes_max, uint8_t last_max)
{
    const size_t left = ot_reader_left(r);
    uint64_t v = 0;
    for (size_t i = 0; i < bytes_max; i++) {
        if (OT_UNLIKELY(i == left)) {
            ot_reader_fail(r, OT_ERR_SHORT);
            return 0;
        }
        const uint8_t byte = r->at[i];
        if (OT_UNLIKELY(i == bytes_max - 1 && byte > last_max)) break;
        v |= (uint64_t)(byte & 0x7f) << (7 * i);
        if ((byte & 0x80) == 0) {
            r->at += i + 1;
            return v;
        }
    }
    ot_reader_fail(r, OT_ERR_MALFORMED);
    return 0;
}

uint32_t ot_read_uvarint(struct ot_reader *r)
{
    return (uint32_t)read_base128(r, 5, 0x0f);
}
uint64_t ot_read_uvarlong(struct ot_reader *r)
{
    return read_base128(r, 10, 0x01);
}

int32_t ot_read_varint(struct ot_reader *r)
{
    const uint32_t v = ot_read_uvarint(r);
    return (int32_t)((v >> 1) ^ (0u - (v & 1)));
}

int64_t ot_read_varlong(struct ot_reader *r)
{
    const uint64_t v = ot_read_uvarlong(r);
    return (int64_t)((v >> 1) ^ (0u - (v & 1)));
}

const uint8_t *ot_read_bytes(struct ot_reader *r, size_t bytes)
{
    static const uint8_t nothing[1];
    if (r->err != OT_OK) return NULL;
    const uint8_t *p = take(r, bytes);
    return p == NULL && r->err == OT_OK ? nothing : p; /* no bytes of a reader over NULL */
}

void ot_write_bytes(struct ot_writer *w, const void *data, size_t bytes)
{
    w->needed += bytes;
    if (w->start == NULL || w->err != OT_OK) return;
    if (OT_UNLIKELY((size_t)(w->end - w->at) < bytes)) {
        w->err = OT_ERR_TOO_LARGE;
        return;
    }
    if (bytes > 0) memcpy(w->at, data, bytes);
    w->at += bytes;
}

void ot_write_u8(struct ot_writer *w, uint8_t v)
{
    ot_write_bytes(w, &v, 1);
}

void ot_write_u16(struct ot_writer *w, uint16_t v)
{
    uint8_t bytes[2];
    ot_store_u16(bytes, v);
    ot_write_bytes(w, bytes, 2);
}

void ot_write_u32(struct ot_writer *w, uint32_t v)
{
    uint8_t bytes[4];
    ot_store_u32(bytes, v);
    ot_write_bytes(w, bytes, 4);
}

void ot_write_u64(struct ot_writer *w, uint64_t v)
{
    uint8_t bytes[8];
    ot_store_u64(bytes, v);
    ot_write_bytes(w, bytes, 8);
}

void ot_write_uvarlong(struct ot_writer *w, uint64_t v)
{
    uint8_t bytes[10];
    size_t count = 0;
    for (; v >= 0x80; v >>= 7) bytes[count++] = (uint8_t)(v | 0x80);
    bytes[count++] = (uint8_t)v;
    ot_write_bytes(w, bytes, count);
}

static uint32_t zigzag32(int32_t v)
{
    return ((uint32_t)v << 1) ^ (uint32_t)(v >> 31);
}
static uint64_t zigzag64(int64_t v)
{
    return ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
}

static size_t base128_bytes(uint64_t v)
{
    const unsigned bits = 64u - (unsigned)__builtin_clzll(v | 1);
    return (bits + 6) / 7;
}

void ot_write_uvarint(struct ot_writer *w, uint32_t v)
{
    ot_write_uvarlong(w, v);
}
void ot_write_varint(struct ot_writer *w, int32_t v)
{
    ot_write_uvarlong(w, zigzag32(v));
}
void ot_write_varlong(struct ot_writer *w, int64_t v)
{
    ot_write_uvarlong(w, zigzag64(v));
}
size_t ot_uvarint_bytes(uint32_t v)
{
    return base128_bytes(v);
}
size_t ot_varint_bytes(int32_t v)
{
    return base128_bytes(zigzag32(v));
}
size_t ot_varlong_bytes(int64_t v)
{
    return base128_bytes(zigzag64(v));
}

static const char uuid_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void ot_uuid_text(const struct ot_uuid *id, char out[static 23])
{
    uint32_t held = 0;
    unsigned held_bits = 0;
    char *at = out;
    for (size_t i = 0; i < 16; i++) {
        held = (held << 8) | id->bytes[i];
        for (held_bits += 8; held_bits >= 6; held_bits -= 6) *at++ = uuid_digits[(held >> (held_bits - 6)) & 63];
    }
    *at++ = uuid_digits[(held << (6 - held_bits)) & 63]; /* two bits are left, padded with zeros */
    *at = '\0';
}

bool ot_uuid_parse(const char *text, size_t bytes, struct ot_uuid *out)
{
    if (bytes != 22) return false;
    uint32_t held = 0;
    unsigned held_bits = 0;
    size_t count = 0;
    struct ot_uuid id;
    for (size_t i = 0; i < 22; i++) {
        const char *digit = text[i] == '\0' ? NULL : strchr(uuid_digits, text[i]);
        if (digit == NULL) return false;
        held = (held << 6) | (uint32_t)(digit - uuid_digits);
        held_bits += 6;
        if (held_bits < 8) continue;
        held_bits -= 8;
        id.bytes[count++] = (uint8_t)(held >> held_bits);
    }
    if ((held & 15) != 0) return false; /* the four bits past the end: two texts would mean one id */
    *out = id;
    return true;
}

bool ot_uuid_is_zero(const struct ot_uuid *id)
{
    static const struct ot_uuid zero;
    return ot_uuid_equal(id, &zero);
}

void ot_uuid_random(struct ot_uuid *out)
{
    do {
        ot_random_bytes(out->bytes, 16);
        out->bytes[6] = (uint8_t)((out->bytes[6] & 0x0f) | 0x40);
        out->bytes[8] = (uint8_t)((out->bytes[8] & 0x3f) | 0x80);
    } while (out->bytes[0] >> 2 == 62); /* would print as '-', which tools take for a flag */
}

bool ot_str_equal(struct ot_str a, struct ot_str b)
{
    if (a.null || b.null) return a.null && b.null;
    return a.bytes == b.bytes && (a.bytes == 0 || memcmp(a.data, b.data, a.bytes) == 0);
}
