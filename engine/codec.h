/* Compression of record data: gzip, snappy (raw and xerial framing), lz4 frames, zstd.
 *
 * Decoding pulls chunks through one window of fixed size, so a peer's claim about sizes costs nothing: memory grows only with
 * what was really decoded or really sent. All of it (window, library states, record buffer) is charged to the caller's pool;
 * at the pool's cap the answer is NO_MEMORY and the context stays usable. Bounds per context: window; zlib 48 KiB; lz4 twice
 * the frame's block size (4 MiB at most) plus 128 KiB; zstd its window (at most 2^zstd_window_log_max bytes, charged whole,
 * touched only as far as decoded; clients at level 3 use 2 MiB, at 19 8 MiB) plus 384 KiB; snappy 22 times the compressed
 * block (no encoder can do better, so a larger claim is refused) for raw data and for each xerial block.
 *
 * Encoding streams into a sink that has a hard cap. A context serves one use at a time and one thread; keep one per I/O thread. */
#ifndef OT_ENGINE_CODEC_H
#define OT_ENGINE_CODEC_H

#include "base/buf.h"

/* ids of the batch format */
enum eng_codec { ENG_CODEC_NONE, ENG_CODEC_GZIP, ENG_CODEC_SNAPPY, ENG_CODEC_LZ4, ENG_CODEC_ZSTD, ENG_CODEC_COUNT };
#define ENG_CODEC_PRODUCER      ENG_CODEC_COUNT /* compression.type=producer: keep what came */
#define ENG_CODEC_LEVEL_DEFAULT INT32_MIN

const char *eng_codec_name(enum eng_codec codec); /* "none", "gzip", …; "producer"; "unknown" */
/* Names of compression.type: producer, uncompressed (also none), gzip, snappy, lz4, zstd. False: no such name. */
bool eng_codec_by_name(const char *name, enum eng_codec *out);

/* ---- decoding ---- */

struct eng_decode_limits {
    uint32_t window_bytes;        /* of the chunks; 0 = 64 KiB */
    uint32_t zstd_window_log_max; /* 0 = 27, what Kafka's own clients accept; lowered to what the pool's cap can hold */
};
struct eng_decode; /* a decoding context */
OT_MUST_CHECK enum ot_err eng_decode_new(struct ot_pool *pool, const struct eng_decode_limits *limits, struct eng_decode **out);
void eng_decode_free(struct eng_decode *decode); /* NULL is fine */
/* Give back what a single large frame or record made it grow to; called by itself at the start of the next use. */
void eng_decode_trim(struct eng_decode *decode);

/* Begin to decode data, which is borrowed until the last chunk. legacy_lz4: accept the header checksum of magic 0 clients
 * (computed from the frame's first byte instead of the fifth). NONE gives the data back as one chunk.
 * UNSUPPORTED_COMPRESSION_TYPE: unknown codec. NO_MEMORY. */
OT_MUST_CHECK enum ot_err eng_decode_begin(
    struct eng_decode *decode, enum eng_codec codec, const uint8_t *data, size_t bytes, bool legacy_lz4);
/* The next piece of plain bytes, borrowed until the next call; zero bytes: the end was reached and every checksum was right.
 * CORRUPT_MESSAGE: not what the codec says, cut short, a checksum is wrong, or a claim is impossible. INVALID_RECORD: a zstd
 * window above the limit. NO_MEMORY: now. */
OT_MUST_CHECK enum ot_err eng_decode_next(struct eng_decode *decode, const uint8_t **chunk_out, size_t *chunk_bytes_out);

/* From the next begin on, no more than this much is decoded (one chunk more at most, which of snappy may be 22 times the compressed bytes): next answers BUSY instead.
 * 0: no bound, as after new. */
void eng_decode_bound(struct eng_decode *decode, size_t plain_bytes);

/* For engine/record.c: the buffer in which a record is put together. At least need_bytes, of which the first used_bytes are
 * kept. NO_MEMORY. */
OT_MUST_CHECK enum ot_err eng_decode_hold(struct eng_decode *decode, size_t used_bytes, size_t need_bytes, uint8_t **data_out);

/* ---- encoding ---- */

/* Where encoded bytes go: memory of the caller, or a buffer that grows by doubling (malloc, or a pool). Never above max_bytes:
 * TOO_LARGE. */
struct eng_sink {
    uint8_t *data;
    size_t bytes, cap_bytes, max_bytes;
    struct ot_pool *pool; /* buf comes from it; NULL and owned: malloc */
    struct ot_buf *buf;
    bool owned;
};
void eng_sink_over(struct eng_sink *sink, void *data, size_t cap_bytes);
void eng_sink_malloc(struct eng_sink *sink, size_t max_bytes);
void eng_sink_pool(struct eng_sink *sink, struct ot_pool *pool, size_t max_bytes);
/* Room for bytes more at sink->data + sink->bytes. TOO_LARGE, NO_MEMORY. */
OT_MUST_CHECK enum ot_err eng_sink_reserve(struct eng_sink *sink, size_t bytes);
OT_MUST_CHECK enum ot_err eng_sink_write(struct eng_sink *sink, const void *data, size_t bytes);
/* Hand the pooled buffer over (its bytes are set); the sink is empty afterwards. */
struct ot_buf *eng_sink_take(struct eng_sink *sink);
void eng_sink_free(struct eng_sink *sink);

struct eng_encode; /* an encoding context */
OT_MUST_CHECK enum ot_err eng_encode_new(struct eng_encode **out);
void eng_encode_free(struct eng_encode *encode); /* NULL is fine */
/* level in the terms of compression.CODEC.level; out of range is clamped, ENG_CODEC_LEVEL_DEFAULT is Kafka's default. The
 * output is what Kafka's clients write: gzip; snappy in xerial blocks of 32 KiB; lz4 frames of independent 64 KiB blocks; zstd
 * without content size. */
OT_MUST_CHECK enum ot_err eng_encode_begin(struct eng_encode *encode, enum eng_codec codec, int32_t level, struct eng_sink *sink);
OT_MUST_CHECK enum ot_err eng_encode_write(struct eng_encode *encode, const void *data, size_t bytes);
OT_MUST_CHECK enum ot_err eng_encode_finish(struct eng_encode *encode);

#endif
