/* Decoding contexts: one window, and the libraries' states behind it, all charged to a pool.
 *
 *   gzip     members one after another; bytes behind the last member that begin no further one are ignored
 *   snappy   raw: one block.  xerial: 82 "SNAPPY" 00, int32 version, int32 oldest reader's version, then blocks of int32
 *            length and raw snappy; the header may come again between blocks
 *   lz4      one frame; what is behind it is ignored
 *   zstd     frames one after another, nothing else
 *
 * (What is ignored behind the data is what Kafka's readers ignore.) Damage is reported after the chunk decoded before it, so
 * that a reader of records gets as far as it can. */
#define ZSTD_STATIC_LINKING_ONLY /* ZSTD_createDCtx_advanced: memory through our pool */
#define LZ4F_STATIC_LINKING_ONLY /* LZ4F_createDecompressionContext_advanced: the same */
#include "engine/codec.h"

#include <lz4frame.h>
#include <snappy-c.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#define WINDOW_BYTES_DEFAULT    65536u
#define ZSTD_WINDOW_LOG_DEFAULT 27u
#define KEPT_BUF_BYTES          (256u * 1024) /* larger ones are given back after use */
#define KEPT_ZSTD_BYTES         (4u * 1024 * 1024)
#define ZSTD_BESIDE_BYTES       (1u << 20) /* what a frame takes besides its window: state, block buffers, rounding */
#define SNAPPY_RATIO_MAX        22u        /* a three-byte copy makes 64 bytes: 21.3 is the most there can be */
#define XERIAL_HEADER_BYTES     16u
#define LZ4_HEADER_BYTES_MAX    19u

static const uint8_t xerial_magic[8] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0};

struct eng_decode {
    struct ot_pool *pool;
    struct eng_decode_limits limits;
    struct ot_buf *window; /* decoded chunks; taken at first need */
    struct ot_buf *block;  /* a snappy block */
    struct ot_buf *record; /* a record that crosses chunks */
    z_stream gzip;
    LZ4F_dctx *lz4;
    ZSTD_DCtx *zstd;
    const uint8_t *at, *end; /* compressed bytes not yet consumed */
    enum eng_codec codec;
    size_t bound, decoded; /* eng_decode_bound; so much of this use's data is decoded */
    enum ot_err damage; /* to be reported once the chunk before it was taken */
    bool gzip_ready, ended, xerial, frame_open, lz4_drop, lz4_keep;
    uint8_t lz4_header[LZ4_HEADER_BYTES_MAX]; /* of a legacy frame, its checksum set right */
    uint32_t lz4_header_bytes, lz4_header_at;
};

/* Memory of the libraries: a pooled buffer, with the way back to it before the bytes that they see. */
struct state_head {
    struct ot_buf *buf;
    uint64_t spare; /* the bytes behind stay aligned to 16, as malloc's */
};

static void *state_alloc(void *opaque, size_t bytes)
{
    struct ot_buf *buf = ot_buf_new((struct ot_pool *)opaque, sizeof(struct state_head) + bytes);
    if (buf == NULL) {
        return NULL;
    }
    OT_ASSERT((uintptr_t)buf->data % 16 == 0);
    struct state_head *head = (struct state_head *)(void *)buf->data;
    head->buf = buf;
    return head + 1;
}

static void state_free(void *opaque, void *memory)
{
    (void)opaque;
    if (memory != NULL) {
        ot_buf_unref(((struct state_head *)memory - 1)->buf);
    }
}

static void *state_calloc(void *opaque, size_t bytes)
{
    void *memory = state_alloc(opaque, bytes);
    return memory == NULL ? NULL : memset(memory, 0, bytes);
}

static voidpf state_zalloc(voidpf opaque, uInt items, uInt bytes)
{
    return state_alloc(opaque, (size_t)items * bytes);
}

enum ot_err eng_decode_new(struct ot_pool *pool, const struct eng_decode_limits *limits, struct eng_decode **out)
{
    struct eng_decode *decode = calloc(1, sizeof(*decode));
    if (decode == NULL) {
        return OT_ERR_NO_MEMORY;
    }
    decode->pool = pool;
    if (limits != NULL) {
        decode->limits = *limits;
    }
    if (decode->limits.window_bytes == 0) {
        decode->limits.window_bytes = WINDOW_BYTES_DEFAULT;
    }
    if (decode->limits.zstd_window_log_max == 0) {
        decode->limits.zstd_window_log_max = ZSTD_WINDOW_LOG_DEFAULT;
    }
    /* a window that could never be had is refused for good, not with "no memory now" */
    while (decode->limits.zstd_window_log_max > 10 &&
           ((size_t)1 << decode->limits.zstd_window_log_max) + ZSTD_BESIDE_BYTES > ot_pool_cap_bytes(pool)) {
        decode->limits.zstd_window_log_max--;
    }
    decode->ended = true;
    *out = decode;
    return OT_OK;
}

static void lz4_drop(struct eng_decode *decode)
{
    LZ4F_freeDecompressionContext(decode->lz4);
    decode->lz4 = NULL;
    decode->lz4_drop = false;
}

static void zstd_drop(struct eng_decode *decode)
{
    ZSTD_freeDCtx(decode->zstd);
    decode->zstd = NULL;
}

void eng_decode_free(struct eng_decode *decode)
{
    if (decode == NULL) {
        return;
    }
    if (decode->gzip_ready) {
        inflateEnd(&decode->gzip);
    }
    lz4_drop(decode);
    zstd_drop(decode);
    ot_buf_unref(decode->window);
    ot_buf_unref(decode->block);
    ot_buf_unref(decode->record);
    free(decode);
}

static void buf_trim(struct ot_buf **buf)
{
    if (*buf != NULL && (*buf)->cap_bytes > KEPT_BUF_BYTES) {
        ot_buf_unref(*buf);
        *buf = NULL;
    }
}

void eng_decode_trim(struct eng_decode *decode)
{
    buf_trim(&decode->block);
    buf_trim(&decode->record);
    if (decode->lz4_drop) {
        lz4_drop(decode);
    }
    if (decode->zstd != NULL && ZSTD_sizeof_DCtx(decode->zstd) > KEPT_ZSTD_BYTES) {
        zstd_drop(decode);
    }
    decode->ended = true;
    decode->damage = OT_OK;
}

void eng_decode_bound(struct eng_decode *decode, size_t plain_bytes)
{
    decode->bound = plain_bytes;
}

enum ot_err eng_decode_hold(struct eng_decode *decode, size_t used_bytes, size_t need_bytes, uint8_t **data_out)
{
    struct ot_buf *held = decode->record;
    if (held == NULL || held->cap_bytes < need_bytes) {
        size_t cap = OT_MAX(need_bytes, held == NULL ? (size_t)4096 : (size_t)held->cap_bytes * 2);
        struct ot_buf *buf = cap > UINT32_MAX ? NULL : ot_buf_new(decode->pool, cap);
        if (buf == NULL && (buf = need_bytes > UINT32_MAX ? NULL : ot_buf_new(decode->pool, need_bytes)) == NULL) {
            return OT_ERR_NO_MEMORY;
        }
        if (used_bytes > 0) {
            OT_ASSERT(held != NULL);
            memcpy(buf->data, held->data, used_bytes); /* a record that outgrew the buffer; doubling bounds the sum */
        }
        ot_buf_unref(held);
        decode->record = buf;
    }
    *data_out = decode->record->data;
    return OT_OK;
}

static enum ot_err window_take(struct eng_decode *decode)
{
    if (decode->window == NULL) {
        decode->window = ot_buf_new(decode->pool, decode->limits.window_bytes);
    }
    return decode->window == NULL ? OT_ERR_NO_MEMORY : OT_OK;
}

/* ---- gzip ---- */

static enum ot_err gzip_begin(struct eng_decode *decode)
{
    if (!decode->gzip_ready) {
        memset(&decode->gzip, 0, sizeof(decode->gzip));
        decode->gzip.zalloc = state_zalloc;
        decode->gzip.zfree = state_free;
        decode->gzip.opaque = decode->pool;
        if (inflateInit2(&decode->gzip, 15 + 16) != Z_OK) {
            return OT_ERR_NO_MEMORY;
        }
        decode->gzip_ready = true;
    } else {
        inflateReset(&decode->gzip);
    }
    return OT_OK;
}

/* behind a member: another one, or the end */
static void gzip_member_end(struct eng_decode *decode)
{
    if (decode->end - decode->at >= 2 && decode->at[0] == 0x1f && decode->at[1] == 0x8b) {
        inflateReset(&decode->gzip);
    } else {
        decode->ended = true;
    }
}

static enum ot_err gzip_fill(struct eng_decode *decode, size_t *got)
{
    z_stream *z = &decode->gzip;
    z->next_out = decode->window->data;
    z->avail_out = decode->limits.window_bytes;
    while (z->avail_out == decode->limits.window_bytes && !decode->ended) {
        z->next_in = (z_const Bytef *)decode->at;
        z->avail_in = (uInt)(decode->end - decode->at);
        int rc = inflate(z, Z_NO_FLUSH);
        const uint8_t *before = decode->at;
        decode->at = decode->end - z->avail_in;
        if (rc == Z_STREAM_END) {
            gzip_member_end(decode);
        } else if (rc == Z_MEM_ERROR) {
            decode->damage = OT_ERR_NO_MEMORY;
        } else if (rc != Z_OK && rc != Z_BUF_ERROR) {
            decode->damage = OT_ERR_CORRUPT_MESSAGE;
        } else if (decode->at == before && z->avail_out == decode->limits.window_bytes) {
            decode->damage = OT_ERR_CORRUPT_MESSAGE; /* wants more than there is */
        }
        if (decode->damage != OT_OK) {
            break;
        }
    }
    *got = decode->limits.window_bytes - z->avail_out;
    return OT_OK;
}

/* ---- lz4 ---- */

/* Clients of magic 0 computed the header checksum from the wrong byte. The entry's own CRC covers the header, so the checksum
 * is replaced by a right one and not verified. */
static uint32_t rotl32(uint32_t v, int by)
{
    return (v << by) | (v >> (32 - by));
}

/* XXH32 with seed 0 of fewer than 16 bytes, which is what a frame descriptor has (github.com/Cyan4973/xxHash,
 * doc/xxhash_spec.md) */
static uint32_t xxh32_short(const uint8_t *p, size_t bytes)
{
    uint32_t h = 374761393u + (uint32_t)bytes;
    for (; bytes >= 4; p += 4, bytes -= 4) {
        uint32_t word = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        h = rotl32(h + word * 3266489917u, 17) * 668265263u;
    }
    for (; bytes > 0; p++, bytes--) {
        h = rotl32(h + *p * 374761393u, 11) * 2654435761u;
    }
    h = (h ^ (h >> 15)) * 2246822519u;
    h = (h ^ (h >> 13)) * 3266489917u;
    return h ^ (h >> 16);
}

static void lz4_legacy_header(struct eng_decode *decode)
{
    size_t left = (size_t)(decode->end - decode->at);
    if (left < 7) {
        return;
    }
    uint8_t flags = decode->at[4];
    uint32_t header = 7u + ((flags & 0x08) != 0 ? 8u : 0u) + ((flags & 0x01) != 0 ? 4u : 0u);
    if (left < header) {
        return;
    }
    memcpy(decode->lz4_header, decode->at, header); /* 19 bytes at most; the input is not ours to patch */
    decode->lz4_header[header - 1] = (uint8_t)(xxh32_short(decode->lz4_header + 4, header - 5) >> 8);
    decode->lz4_header_bytes = header;
    decode->at += header;
}

/* A context is reused only after a frame that ended well: liblz4 1.9.4 resets one that stopped inside a frame with a stated
 * content size so that the next frame without one fails. Blocks of 1 or 4 MiB are not kept either. */
static bool lz4_large(const struct eng_decode *decode)
{
    return decode->end - decode->at >= 6 && (decode->at[5] & 0x70) > 0x50;
}

static enum ot_err lz4_begin(struct eng_decode *decode, bool legacy)
{
    if (decode->lz4 == NULL) {
        LZ4F_CustomMem memory = {state_alloc, state_calloc, state_free, decode->pool};
        decode->lz4 = LZ4F_createDecompressionContext_advanced(memory, LZ4F_VERSION);
        if (decode->lz4 == NULL) {
            return OT_ERR_NO_MEMORY;
        }
    } else {
        LZ4F_resetDecompressionContext(decode->lz4);
    }
    decode->lz4_header_bytes = decode->lz4_header_at = 0;
    decode->lz4_drop = true;
    decode->lz4_keep = !lz4_large(decode);
    if (legacy) {
        lz4_legacy_header(decode);
    }
    return OT_OK;
}

static size_t lz4_step(struct eng_decode *decode, size_t *got)
{
    if (decode->lz4_header_at < decode->lz4_header_bytes) {
        size_t take = decode->lz4_header_bytes - decode->lz4_header_at;
        size_t hint =
            LZ4F_decompress(decode->lz4, decode->window->data, got, decode->lz4_header + decode->lz4_header_at, &take, NULL);
        decode->lz4_header_at += (uint32_t)take;
        return hint;
    }
    size_t take = (size_t)(decode->end - decode->at);
    size_t hint = LZ4F_decompress(decode->lz4, decode->window->data, got, decode->at, &take, NULL);
    decode->at += take;
    return hint;
}

static enum ot_err lz4_fill(struct eng_decode *decode, size_t *got)
{
    *got = 0;
    while (*got == 0 && !decode->ended) {
        size_t before = (size_t)(decode->end - decode->at) + decode->lz4_header_bytes - decode->lz4_header_at;
        *got = decode->limits.window_bytes;
        size_t hint = lz4_step(decode, got);
        if (LZ4F_isError(hint)) {
            *got = 0;
            decode->damage = LZ4F_getErrorCode(hint) == LZ4F_ERROR_allocation_failed ? OT_ERR_NO_MEMORY : OT_ERR_CORRUPT_MESSAGE;
            return OT_OK;
        }
        size_t after = (size_t)(decode->end - decode->at) + decode->lz4_header_bytes - decode->lz4_header_at;
        if (hint == 0) {
            decode->ended = true;
            decode->lz4_drop = !decode->lz4_keep;
        } else if (*got == 0 && after == before) {
            decode->damage = OT_ERR_CORRUPT_MESSAGE; /* cut short */
            return OT_OK;
        }
    }
    return OT_OK;
}

/* ---- zstd ---- */

static enum ot_err zstd_begin(struct eng_decode *decode)
{
    if (decode->zstd == NULL) {
        ZSTD_customMem memory = {state_alloc, state_free, decode->pool};
        decode->zstd = ZSTD_createDCtx_advanced(memory);
        if (decode->zstd == NULL) {
            return OT_ERR_NO_MEMORY;
        }
        size_t rc = ZSTD_DCtx_setParameter(decode->zstd, ZSTD_d_windowLogMax, (int)decode->limits.zstd_window_log_max);
        OT_ASSERT(!ZSTD_isError(rc)); /* ours, from configuration */
    } else {
        ZSTD_DCtx_reset(decode->zstd, ZSTD_reset_session_only);
    }
    decode->frame_open = false;
    return OT_OK;
}

static enum ot_err zstd_damage(size_t rc)
{
    switch (ZSTD_getErrorCode(rc)) {
    case ZSTD_error_memory_allocation: return OT_ERR_NO_MEMORY;
    case ZSTD_error_frameParameter_windowTooLarge: return OT_ERR_INVALID_RECORD; /* final: a retry cannot help */
    default: return OT_ERR_CORRUPT_MESSAGE;
    }
}

static enum ot_err zstd_fill(struct eng_decode *decode, size_t *got)
{
    ZSTD_outBuffer out = {decode->window->data, decode->limits.window_bytes, 0};
    while (out.pos == 0 && !decode->ended) {
        ZSTD_inBuffer in = {decode->at, (size_t)(decode->end - decode->at), 0};
        if (in.size == 0 && !decode->frame_open) {
            decode->ended = true;
            break;
        }
        size_t rc = ZSTD_decompressStream(decode->zstd, &out, &in);
        decode->at += in.pos;
        if (ZSTD_isError(rc)) {
            decode->damage = zstd_damage(rc);
            break;
        }
        decode->frame_open = rc != 0;
        if (rc != 0 && in.pos == 0 && out.pos == 0) {
            decode->damage = OT_ERR_CORRUPT_MESSAGE; /* cut short */
            break;
        }
    }
    *got = out.pos;
    return OT_OK;
}

/* ---- snappy ---- */

static enum ot_err snappy_block(struct eng_decode *decode, const uint8_t *data, size_t bytes, size_t *got)
{
    size_t plain = 0;
    if (snappy_uncompressed_length((const char *)data, bytes, &plain) != SNAPPY_OK || plain > bytes * SNAPPY_RATIO_MAX) {
        return OT_ERR_CORRUPT_MESSAGE;
    }
    if (decode->block == NULL || decode->block->cap_bytes < plain) {
        ot_buf_unref(decode->block);
        decode->block = plain > UINT32_MAX ? NULL : ot_buf_new(decode->pool, OT_MAX(plain, (size_t)decode->limits.window_bytes));
        if (decode->block == NULL) {
            return OT_ERR_NO_MEMORY;
        }
    }
    *got = decode->block->cap_bytes;
    return snappy_uncompress((const char *)data, bytes, (char *)decode->block->data, got) == SNAPPY_OK ? OT_OK
                                                                                                       : OT_ERR_CORRUPT_MESSAGE;
}

static enum ot_err snappy_begin(struct eng_decode *decode)
{
    size_t bytes = (size_t)(decode->end - decode->at);
    decode->xerial = bytes >= XERIAL_HEADER_BYTES && memcmp(decode->at, xerial_magic, sizeof(xerial_magic)) == 0;
    if (decode->xerial) {
        if (ot_load_i32(decode->at + 8) < 1) {
            return OT_ERR_CORRUPT_MESSAGE;
        }
        decode->at += XERIAL_HEADER_BYTES;
    }
    return OT_OK;
}

static enum ot_err xerial_next(struct eng_decode *decode, size_t *got)
{
    size_t left = (size_t)(decode->end - decode->at);
    if (left >= XERIAL_HEADER_BYTES && memcmp(decode->at, xerial_magic, sizeof(xerial_magic)) == 0) {
        decode->at += XERIAL_HEADER_BYTES; /* two streams joined */
        return OT_OK;
    }
    if (left < 4) {
        decode->ended = true;
        return OT_OK;
    }
    int32_t bytes = ot_load_i32(decode->at);
    if (bytes < 0 || (size_t)bytes > left - 4) {
        return OT_ERR_CORRUPT_MESSAGE;
    }
    const uint8_t *block = decode->at + 4;
    decode->at = block + bytes;
    return snappy_block(decode, block, (size_t)bytes, got);
}

static enum ot_err snappy_fill(struct eng_decode *decode, size_t *got)
{
    enum ot_err err = OT_OK;
    while (err == OT_OK && *got == 0 && !decode->ended) {
        if (decode->xerial) {
            err = xerial_next(decode, got);
        } else {
            err = snappy_block(decode, decode->at, (size_t)(decode->end - decode->at), got);
            decode->ended = true;
        }
    }
    return err;
}

/* ---- all ---- */

enum ot_err eng_decode_begin(struct eng_decode *decode, enum eng_codec codec, const uint8_t *data, size_t bytes, bool legacy_lz4)
{
    eng_decode_trim(decode);
    if ((unsigned)codec >= ENG_CODEC_COUNT) {
        return OT_ERR_UNSUPPORTED_COMPRESSION_TYPE;
    }
    if (bytes > INT32_MAX) {
        return OT_ERR_CORRUPT_MESSAGE;
    }
    decode->codec = codec;
    decode->decoded = 0;
    decode->at = data;
    decode->end = data + bytes;
    enum ot_err err = codec == ENG_CODEC_NONE || codec == ENG_CODEC_SNAPPY ? OT_OK : window_take(decode);
    if (err == OT_OK && codec == ENG_CODEC_GZIP) {
        err = gzip_begin(decode);
    } else if (err == OT_OK && codec == ENG_CODEC_LZ4) {
        err = lz4_begin(decode, legacy_lz4);
    } else if (err == OT_OK && codec == ENG_CODEC_ZSTD) {
        err = zstd_begin(decode);
    } else if (err == OT_OK && codec == ENG_CODEC_SNAPPY) {
        err = snappy_begin(decode);
    }
    decode->ended = err != OT_OK;
    return err;
}

static enum ot_err decode_fill(struct eng_decode *decode, const uint8_t **chunk_out, size_t *got)
{
    enum ot_err err = OT_OK;
    switch (decode->codec) {
    case ENG_CODEC_GZIP: err = gzip_fill(decode, got); break;
    case ENG_CODEC_LZ4: err = lz4_fill(decode, got); break;
    case ENG_CODEC_ZSTD: err = zstd_fill(decode, got); break;
    case ENG_CODEC_SNAPPY:
        err = snappy_fill(decode, got);
        *chunk_out = decode->block == NULL ? NULL : decode->block->data;
        return err;
    default:
        *chunk_out = decode->at;
        *got = (size_t)(decode->end - decode->at);
        decode->ended = true;
        return OT_OK;
    }
    *chunk_out = decode->window->data;
    return err;
}

enum ot_err eng_decode_next(struct eng_decode *decode, const uint8_t **chunk_out, size_t *chunk_bytes_out)
{
    *chunk_bytes_out = 0;
    if (decode->damage != OT_OK || decode->ended) {
        return decode->damage;
    }
    if (decode->bound > 0 && decode->decoded >= decode->bound) {
        return decode->damage = OT_ERR_BUSY;
    }
    size_t got = 0;
    enum ot_err err = decode_fill(decode, chunk_out, &got);
    decode->decoded += got;
    if (err == OT_OK && got == 0) {
        err = decode->damage;
    }
    if (err != OT_OK) {
        decode->damage = err;
        return err;
    }
    *chunk_bytes_out = got;
    return OT_OK;
}
