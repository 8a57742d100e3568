/* Encoding contexts: the libraries' states are made at first use and reused. Their memory depends only on levels, which
 * operators set. */
#include "engine/codec.h"

#include <lz4frame.h>
#include <snappy-c.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#define SNAPPY_BLOCK_BYTES  32768u
#define STEP_BYTES          16384u /* room asked of the sink at a time */
#define LZ4_STEP_BYTES      65536u
#define LZ4_LEVEL_FAST      9 /* Kafka's default, and in its clients the fast compressor */
#define LZ4_LEVEL_HIGH_MIN  3
#define LZ4_LEVEL_HIGH_MAX  12
#define ZSTD_LEVEL_DEFAULT  3
#define ZSTD_WINDOW_LOG_BIG 22 /* batches are small: the windows of the highest levels only cost memory */
#define ZSTD_LEVEL_BIG      17

struct eng_encode {
    struct eng_sink *sink;
    enum eng_codec codec;
    z_stream gzip;
    int gzip_level;
    bool gzip_ready;
    LZ4F_cctx *lz4;
    ZSTD_CCtx *zstd;
    size_t block_bytes;
    uint8_t block[SNAPPY_BLOCK_BYTES]; /* plain bytes of the snappy block being filled */
    uint8_t
        packed[LZ4_STEP_BYTES * 2 + 1024]; /* the libraries want room for their worst case; the sink is asked for what is true */
};

enum ot_err eng_encode_new(struct eng_encode **out)
{
    *out = calloc(1, sizeof(**out));
    return *out == NULL ? OT_ERR_NO_MEMORY : OT_OK;
}

void eng_encode_free(struct eng_encode *encode)
{
    if (encode == NULL) {
        return;
    }
    if (encode->gzip_ready) {
        deflateEnd(&encode->gzip);
    }
    LZ4F_freeCompressionContext(encode->lz4);
    ZSTD_freeCCtx(encode->zstd);
    free(encode);
}

/* ---- gzip ---- */

static enum ot_err gzip_begin(struct eng_encode *encode, int32_t level)
{
    int at = level == ENG_CODEC_LEVEL_DEFAULT || level < 1 ? Z_DEFAULT_COMPRESSION : OT_MIN(level, 9);
    if (encode->gzip_ready && encode->gzip_level == at) {
        deflateReset(&encode->gzip);
        return OT_OK;
    }
    if (encode->gzip_ready) {
        deflateEnd(&encode->gzip);
    }
    memset(&encode->gzip, 0, sizeof(encode->gzip));
    encode->gzip_ready = deflateInit2(&encode->gzip, at, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK;
    encode->gzip_level = at;
    return encode->gzip_ready ? OT_OK : OT_ERR_NO_MEMORY;
}

static enum ot_err gzip_feed(struct eng_encode *encode, const void *data, size_t bytes, int flush)
{
    z_stream *z = &encode->gzip;
    z->next_in = (z_const Bytef *)data;
    z->avail_in = (uInt)bytes;
    int rc = Z_OK;
    do {
        enum ot_err err = eng_sink_reserve(encode->sink, 1);
        if (err != OT_OK) {
            return err;
        }
        size_t room = OT_MIN(encode->sink->cap_bytes, encode->sink->max_bytes) - encode->sink->bytes;
        room = OT_MIN(room, (size_t)STEP_BYTES);
        z->next_out = encode->sink->data + encode->sink->bytes;
        z->avail_out = (uInt)room;
        rc = deflate(z, flush);
        OT_ASSERT(rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR);
        encode->sink->bytes += room - z->avail_out;
    } while (flush == Z_FINISH ? rc != Z_STREAM_END : z->avail_in > 0 || z->avail_out == 0);
    return OT_OK;
}

/* ---- snappy, xerial framing ---- */

static enum ot_err snappy_begin(struct eng_encode *encode)
{
    static const uint8_t header[16] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1};
    encode->block_bytes = 0;
    return eng_sink_write(encode->sink, header, sizeof(header));
}

static enum ot_err snappy_block_out(struct eng_encode *encode)
{
    size_t packed = snappy_max_compressed_length(encode->block_bytes);
    uint8_t *block = encode->packed;
    OT_ASSERT(packed + 4 <= sizeof(encode->packed));
    snappy_status status = snappy_compress((const char *)encode->block, encode->block_bytes, (char *)block + 4, &packed);
    OT_ASSERT(status == SNAPPY_OK);
    ot_store_u32(block, (uint32_t)packed);
    encode->block_bytes = 0;
    return eng_sink_write(encode->sink, block, packed + 4);
}

static enum ot_err snappy_feed(struct eng_encode *encode, const uint8_t *data, size_t bytes)
{
    while (bytes > 0) {
        size_t take = OT_MIN(bytes, SNAPPY_BLOCK_BYTES - encode->block_bytes);
        memcpy(encode->block + encode->block_bytes, data, take); /* records are smaller than blocks: they are gathered here */
        encode->block_bytes += take;
        data += take;
        bytes -= take;
        enum ot_err err = encode->block_bytes == SNAPPY_BLOCK_BYTES ? snappy_block_out(encode) : OT_OK;
        if (err != OT_OK) {
            return err;
        }
    }
    return OT_OK;
}

/* ---- lz4 ---- */

static enum ot_err lz4_begin(struct eng_encode *encode, int32_t level)
{
    if (encode->lz4 == NULL && LZ4F_isError(LZ4F_createCompressionContext(&encode->lz4, LZ4F_VERSION))) {
        encode->lz4 = NULL;
        return OT_ERR_NO_MEMORY;
    }
    LZ4F_preferences_t how = LZ4F_INIT_PREFERENCES;
    how.frameInfo.blockSizeID = LZ4F_max64KB;
    how.frameInfo.blockMode = LZ4F_blockIndependent; /* Kafka's readers know no other */
    bool fast = level == ENG_CODEC_LEVEL_DEFAULT || level == LZ4_LEVEL_FAST;
    how.compressionLevel = fast ? 0 : OT_MIN(OT_MAX(level, LZ4_LEVEL_HIGH_MIN), LZ4_LEVEL_HIGH_MAX);
    uint8_t header[32];
    size_t rc = LZ4F_compressBegin(encode->lz4, header, sizeof(header), &how);
    return LZ4F_isError(rc) ? OT_ERR_NO_MEMORY : eng_sink_write(encode->sink, header, rc);
}

static enum ot_err lz4_feed(struct eng_encode *encode, const uint8_t *data, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += LZ4_STEP_BYTES) {
        size_t rc = LZ4F_compressUpdate(
            encode->lz4, encode->packed, sizeof(encode->packed), data + at, OT_MIN(bytes - at, (size_t)LZ4_STEP_BYTES), NULL);
        OT_ASSERT(!LZ4F_isError(rc));
        enum ot_err err = eng_sink_write(encode->sink, encode->packed, rc);
        if (err != OT_OK) {
            return err;
        }
    }
    return OT_OK;
}

static enum ot_err lz4_finish(struct eng_encode *encode)
{
    size_t rc = LZ4F_compressEnd(encode->lz4, encode->packed, sizeof(encode->packed), NULL);
    OT_ASSERT(!LZ4F_isError(rc));
    return eng_sink_write(encode->sink, encode->packed, rc);
}

/* ---- zstd ---- */

static enum ot_err zstd_begin(struct eng_encode *encode, int32_t level)
{
    if (encode->zstd == NULL && (encode->zstd = ZSTD_createCCtx()) == NULL) {
        return OT_ERR_NO_MEMORY;
    }
    int at = level == ENG_CODEC_LEVEL_DEFAULT ? ZSTD_LEVEL_DEFAULT : OT_MIN(OT_MAX(level, ZSTD_minCLevel()), ZSTD_maxCLevel());
    ZSTD_CCtx_reset(encode->zstd, ZSTD_reset_session_and_parameters);
    bool failed = ZSTD_isError(ZSTD_CCtx_setParameter(encode->zstd, ZSTD_c_compressionLevel, at)) != 0;
    if (at >= ZSTD_LEVEL_BIG) {
        failed = failed || ZSTD_isError(ZSTD_CCtx_setParameter(encode->zstd, ZSTD_c_windowLog, ZSTD_WINDOW_LOG_BIG));
    }
    OT_ASSERT(!failed); /* clamped above */
    return OT_OK;
}

static enum ot_err zstd_feed(struct eng_encode *encode, const void *data, size_t bytes, ZSTD_EndDirective how)
{
    ZSTD_inBuffer in = {data, bytes, 0};
    size_t left = 0;
    do {
        enum ot_err err = eng_sink_reserve(encode->sink, 1);
        if (err != OT_OK) {
            return err;
        }
        size_t room = OT_MIN(encode->sink->cap_bytes, encode->sink->max_bytes) - encode->sink->bytes;
        ZSTD_outBuffer out = {encode->sink->data + encode->sink->bytes, room, 0};
        left = ZSTD_compressStream2(encode->zstd, &out, &in, how);
        encode->sink->bytes += out.pos;
        if (ZSTD_isError(left)) {
            return OT_ERR_NO_MEMORY; /* nothing else can fail here */
        }
    } while (how == ZSTD_e_end ? left != 0 : in.pos < in.size);
    return OT_OK;
}

/* ---- all ---- */

enum ot_err eng_encode_begin(struct eng_encode *encode, enum eng_codec codec, int32_t level, struct eng_sink *sink)
{
    encode->codec = codec;
    encode->sink = sink;
    switch (codec) {
    case ENG_CODEC_NONE: return OT_OK;
    case ENG_CODEC_GZIP: return gzip_begin(encode, level);
    case ENG_CODEC_SNAPPY: return snappy_begin(encode);
    case ENG_CODEC_LZ4: return lz4_begin(encode, level);
    case ENG_CODEC_ZSTD: return zstd_begin(encode, level);
    default: return OT_ERR_UNSUPPORTED_COMPRESSION_TYPE;
    }
}

enum ot_err eng_encode_write(struct eng_encode *encode, const void *data, size_t bytes)
{
    if (bytes == 0) {
        return OT_OK;
    }
    switch (encode->codec) {
    case ENG_CODEC_GZIP: return gzip_feed(encode, data, bytes, Z_NO_FLUSH);
    case ENG_CODEC_SNAPPY: return snappy_feed(encode, data, bytes);
    case ENG_CODEC_LZ4: return lz4_feed(encode, data, bytes);
    case ENG_CODEC_ZSTD: return zstd_feed(encode, data, bytes, ZSTD_e_continue);
    default: return eng_sink_write(encode->sink, data, bytes);
    }
}

enum ot_err eng_encode_finish(struct eng_encode *encode)
{
    switch (encode->codec) {
    case ENG_CODEC_GZIP: return gzip_feed(encode, NULL, 0, Z_FINISH);
    case ENG_CODEC_SNAPPY: return encode->block_bytes > 0 ? snappy_block_out(encode) : OT_OK;
    case ENG_CODEC_LZ4: return lz4_finish(encode);
    case ENG_CODEC_ZSTD: return zstd_feed(encode, NULL, 0, ZSTD_e_end);
    default: return OT_OK;
    }
}
