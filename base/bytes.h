/* Big-endian loads and stores, varints, and the two cursors over them.
 *
 * A reader never moves past its end: the first bad read marks it (reader->err) and every later read gives zeros, so a decoder
 * checks once at the end or wherever a value decides something. After an error nothing is left to read and `at` stays where the
 * bad field began. A writer is bounded likewise: what does not fit whole is not written, nor is anything after it, it marks
 * itself TOO_LARGE, and keeps counting in `needed`. Over NULL it only measures, and that is no error. Neither allocates. One thread each.
 * Varints: protobuf's zigzag for signed ones, as the Kafka protocol uses them (unsigned varint for lengths and tags). */
#ifndef OT_BASE_BYTES_H
#define OT_BASE_BYTES_H

#include "base/err.h"

static inline uint16_t ot_load_u16(const uint8_t *p) { return (uint16_t)((p[0] << 8) | p[1]); }
static inline uint32_t ot_load_u32(const uint8_t *p) { uint32_t v; __builtin_memcpy(&v, p, 4); return __builtin_bswap32(v); }
static inline uint64_t ot_load_u64(const uint8_t *p) { uint64_t v; __builtin_memcpy(&v, p, 8); return __builtin_bswap64(v); }
static inline int16_t ot_load_i16(const uint8_t *p) { return (int16_t)ot_load_u16(p); }
static inline int32_t ot_load_i32(const uint8_t *p) { return (int32_t)ot_load_u32(p); }
static inline int64_t ot_load_i64(const uint8_t *p) { return (int64_t)ot_load_u64(p); }
static inline void ot_store_u16(uint8_t *p, uint16_t v) { p[0] = (uint8_t)(v >> 8); p[1] = (uint8_t)v; }
static inline void ot_store_u32(uint8_t *p, uint32_t v) { v = __builtin_bswap32(v); __builtin_memcpy(p, &v, 4); }
static inline void ot_store_u64(uint8_t *p, uint64_t v) { v = __builtin_bswap64(v); __builtin_memcpy(p, &v, 8); }

struct ot_uuid { uint8_t bytes[16]; };
struct ot_str { const char *data; uint32_t bytes; bool null; };        /* borrowed, not zero-terminated */
struct ot_blob { const uint8_t *data; uint32_t bytes; bool null; };    /* borrowed */

struct ot_reader { const uint8_t *at; const uint8_t *end; enum ot_err err; };
static inline struct ot_reader ot_reader_over(const void *data, size_t bytes)
{
    const uint8_t *p = data;
    return (struct ot_reader){ p, p == NULL ? NULL : p + bytes, OT_OK };
}
static inline size_t ot_reader_left(const struct ot_reader *r) { return (size_t)(r->end - r->at); }
uint8_t ot_read_u8(struct ot_reader *r);
uint16_t ot_read_u16(struct ot_reader *r);
uint32_t ot_read_u32(struct ot_reader *r);
uint64_t ot_read_u64(struct ot_reader *r);
static inline int8_t ot_read_i8(struct ot_reader *r) { return (int8_t)ot_read_u8(r); }
static inline int16_t ot_read_i16(struct ot_reader *r) { return (int16_t)ot_read_u16(r); }
static inline int32_t ot_read_i32(struct ot_reader *r) { return (int32_t)ot_read_u32(r); }
static inline int64_t ot_read_i64(struct ot_reader *r) { return (int64_t)ot_read_u64(r); }
uint32_t ot_read_uvarint(struct ot_reader *r);     /* more than 5 bytes, or bits beyond 32: MALFORMED */
uint64_t ot_read_uvarlong(struct ot_reader *r);    /* more than 10 bytes, or bits beyond 64: MALFORMED */
int32_t ot_read_varint(struct ot_reader *r);
int64_t ot_read_varlong(struct ot_reader *r);
const uint8_t *ot_read_bytes(struct ot_reader *r, size_t bytes);    /* borrowed; NULL and SHORT when fewer are left */
void ot_reader_fail(struct ot_reader *r, enum ot_err err);          /* keeps the first error */

struct ot_writer { uint8_t *at; uint8_t *end; uint8_t *start; size_t needed; enum ot_err err; };
static inline struct ot_writer ot_writer_over(void *data, size_t bytes)
{
    uint8_t *p = data;
    return (struct ot_writer){ p, p == NULL ? NULL : p + bytes, p, 0, OT_OK };
}
void ot_write_u8(struct ot_writer *w, uint8_t v);
void ot_write_u16(struct ot_writer *w, uint16_t v);
void ot_write_u32(struct ot_writer *w, uint32_t v);
void ot_write_u64(struct ot_writer *w, uint64_t v);
void ot_write_uvarint(struct ot_writer *w, uint32_t v);
void ot_write_uvarlong(struct ot_writer *w, uint64_t v);
void ot_write_varint(struct ot_writer *w, int32_t v);
void ot_write_varlong(struct ot_writer *w, int64_t v);
void ot_write_bytes(struct ot_writer *w, const void *data, size_t bytes);
size_t ot_uvarint_bytes(uint32_t v);
size_t ot_varint_bytes(int32_t v);
size_t ot_varlong_bytes(int64_t v);

/* URL-safe base64 without padding, 22 characters, as Kafka prints ids. */
void ot_uuid_text(const struct ot_uuid *id, char out[static 23]);
bool ot_uuid_parse(const char *text, size_t bytes, struct ot_uuid *out);
bool ot_uuid_is_zero(const struct ot_uuid *id);
static inline bool ot_uuid_equal(const struct ot_uuid *a, const struct ot_uuid *b) { return __builtin_memcmp(a, b, 16) == 0; }
void ot_uuid_random(struct ot_uuid *out);          /* version 4, from the system; never zero, never begins with '-' */

static inline struct ot_str ot_str_of(const char *text)
{
    return (struct ot_str){ text, text == NULL ? 0 : (uint32_t)__builtin_strlen(text), text == NULL };
}
bool ot_str_equal(struct ot_str a, struct ot_str b);    /* null equals only null */

#endif
