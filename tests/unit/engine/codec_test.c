#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "engine/codec.h"

#include <lz4frame.h>
#include <snappy-c.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define POOL_BYTES ((size_t)16 << 20)

struct bench {
    struct ot_pool *pool;
    struct eng_decode *decode;
    struct eng_encode *encode;
};

static int bench_open(void **state)
{
    struct bench *b = calloc(1, sizeof(*b));
    assert_non_null(b);
    b->pool = ot_pool_new("decode", POOL_BYTES, 0);
    assert_int_equal(eng_decode_new(b->pool, NULL, &b->decode), OT_OK);
    assert_int_equal(eng_encode_new(&b->encode), OT_OK);
    *state = b;
    return 0;
}

static int bench_close(void **state)
{
    struct bench *b = *state;
    eng_decode_free(b->decode);
    eng_encode_free(b->encode);
    ot_pool_free(b->pool); /* asserts that all came back */
    free(b);
    return 0;
}

/* half text, half noise, so that every codec has something to do */
static uint8_t *plain_make(size_t bytes, uint64_t seed)
{
    struct ot_rng rng;
    ot_rng_seed(&rng, seed);
    uint8_t *data = malloc(bytes + 1);
    assert_non_null(data);
    for (size_t i = 0; i < bytes; i++) {
        data[i] = (i / 97) % 2 == 0 ? (uint8_t)('a' + i % 7) : (uint8_t)ot_rng_next(&rng);
    }
    return data;
}

static enum ot_err pack(
    struct bench *b, enum eng_codec codec, int32_t level, const uint8_t *data, size_t bytes, size_t step, struct eng_sink *sink)
{
    enum ot_err err = eng_encode_begin(b->encode, codec, level, sink);
    for (size_t at = 0; at < bytes && err == OT_OK; at += step) {
        err = eng_encode_write(b->encode, data + at, OT_MIN(step, bytes - at));
    }
    return err == OT_OK ? eng_encode_finish(b->encode) : err;
}

/* Decodes and compares as far as it goes; *total: plain bytes seen. */
static enum ot_err unpack(struct eng_decode *decode, enum eng_codec codec, const uint8_t *packed, size_t bytes,
    const uint8_t *plain, size_t plain_bytes, size_t *total)
{
    const uint8_t *chunk;
    size_t got = 0;
    *total = 0;
    enum ot_err err = eng_decode_begin(decode, codec, packed, bytes, false);
    while (err == OT_OK && (err = eng_decode_next(decode, &chunk, &got)) == OT_OK && got > 0) {
        if (plain != NULL) {
            assert_true(*total + got <= plain_bytes);
            assert_memory_equal(chunk, plain + *total, got);
        }
        *total += got;
    }
    return err;
}

static void every_codec_gives_back_what_went_in(void **state)
{
    struct bench *b = *state;
    static const size_t sizes[] = {0, 1, 100, 32767, 32768, 32769, 65536, 200000, 1000000};
    static const size_t steps[] = {1 << 30, 1000, 77777};
    for (enum eng_codec codec = ENG_CODEC_NONE; codec < ENG_CODEC_COUNT; codec++) {
        for (size_t i = 0; i < OT_ARRAY_COUNT(sizes); i++) {
            uint8_t *plain = plain_make(sizes[i], i);
            struct eng_sink sink;
            size_t total;
            eng_sink_malloc(&sink, (size_t)4 << 20);
            assert_int_equal(pack(b, codec, ENG_CODEC_LEVEL_DEFAULT, plain, sizes[i], steps[i % 3], &sink), OT_OK);
            if (sizes[i] > 0 || (codec != ENG_CODEC_SNAPPY && codec != ENG_CODEC_NONE)) {
                assert_int_equal(unpack(b->decode, codec, sink.data, sink.bytes, plain, sizes[i], &total), OT_OK);
                assert_int_equal(total, sizes[i]);
            }
            eng_sink_free(&sink);
            free(plain);
        }
    }
}

static void every_level_is_taken_and_clamped(void **state)
{
    struct bench *b = *state;
    static const int32_t levels[] = {INT32_MIN + 1, -131072, -1, 0, 1, 3, 6, 9, 10, 12, 17, 19, 22, INT32_MAX};
    uint8_t *plain = plain_make(50000, 3);
    for (enum eng_codec codec = ENG_CODEC_GZIP; codec < ENG_CODEC_COUNT; codec++) {
        for (size_t i = 0; i < OT_ARRAY_COUNT(levels); i++) {
            struct eng_sink sink;
            size_t total;
            eng_sink_malloc(&sink, 100000);
            assert_int_equal(pack(b, codec, levels[i], plain, 50000, 8192, &sink), OT_OK);
            assert_int_equal(unpack(b->decode, codec, sink.data, sink.bytes, plain, 50000, &total), OT_OK);
            assert_int_equal(total, 50000);
            eng_sink_free(&sink);
        }
    }
    free(plain);
}

static void a_tiny_window_changes_nothing(void **state)
{
    struct bench *b = *state;
    struct eng_decode *tiny;
    struct eng_decode_limits limits = {.window_bytes = 7};
    uint8_t *plain = plain_make(70000, 5);
    assert_int_equal(eng_decode_new(b->pool, &limits, &tiny), OT_OK);
    for (enum eng_codec codec = ENG_CODEC_NONE; codec < ENG_CODEC_COUNT; codec++) {
        struct eng_sink sink;
        size_t total;
        eng_sink_malloc(&sink, 200000);
        assert_int_equal(pack(b, codec, ENG_CODEC_LEVEL_DEFAULT, plain, 70000, 70000, &sink), OT_OK);
        assert_int_equal(unpack(tiny, codec, sink.data, sink.bytes, plain, 70000, &total), OT_OK);
        assert_int_equal(total, 70000);
        eng_sink_free(&sink);
    }
    eng_decode_free(tiny);
    free(plain);
}

static void data_cut_short_is_corrupt(void **state)
{
    struct bench *b = *state;
    uint8_t *plain = plain_make(3000, 9);
    for (enum eng_codec codec = ENG_CODEC_GZIP; codec < ENG_CODEC_COUNT; codec++) {
        struct eng_sink sink;
        size_t total;
        eng_sink_malloc(&sink, 100000);
        assert_int_equal(pack(b, codec, ENG_CODEC_LEVEL_DEFAULT, plain, 3000, 3000, &sink), OT_OK);
        for (size_t bytes = 0; bytes < sink.bytes; bytes++) {
            uint8_t *cut = malloc(bytes + (bytes == 0)); /* exact size: a sanitizer sees a step too far */
            assert_non_null(cut);
            memcpy(cut, sink.data, bytes);
            enum ot_err err = unpack(b->decode, codec, cut, bytes, NULL, 0, &total);
            bool empty_is_fine =
                (codec == ENG_CODEC_ZSTD && bytes == 0) || (codec == ENG_CODEC_SNAPPY && bytes >= 16 && bytes < 20);
            assert_true(err == OT_ERR_CORRUPT_MESSAGE || (empty_is_fine && err == OT_OK && total == 0));
            free(cut);
        }
        eng_sink_free(&sink);
    }
    free(plain);
}

static void a_flipped_bit_never_harms(void **state)
{
    struct bench *b = *state;
    struct ot_rng rng;
    ot_rng_seed(&rng, 17);
    uint8_t *plain = plain_make(20000, 11);
    for (enum eng_codec codec = ENG_CODEC_GZIP; codec < ENG_CODEC_COUNT; codec++) {
        struct eng_sink sink;
        size_t total;
        eng_sink_malloc(&sink, 100000);
        assert_int_equal(pack(b, codec, ENG_CODEC_LEVEL_DEFAULT, plain, 20000, 20000, &sink), OT_OK);
        for (int i = 0; i < 2000; i++) {
            size_t at = ot_rng_below(&rng, sink.bytes);
            uint8_t bit = (uint8_t)(1u << ot_rng_below(&rng, 8));
            sink.data[at] ^= bit;
            enum ot_err err = unpack(b->decode, codec, sink.data, sink.bytes, NULL, 0, &total);
            assert_true(err == OT_OK || err == OT_ERR_CORRUPT_MESSAGE || err == OT_ERR_INVALID_RECORD);
            assert_true(ot_pool_used_bytes(b->pool) <= POOL_BYTES);
            sink.data[at] ^= bit;
        }
        assert_int_equal(unpack(b->decode, codec, sink.data, sink.bytes, plain, 20000, &total), OT_OK);
        eng_sink_free(&sink);
    }
    free(plain);
}

static void raw_snappy_is_read(void **state)
{
    struct bench *b = *state;
    uint8_t *plain = plain_make(100000, 2);
    size_t packed_bytes = snappy_max_compressed_length(100000), total;
    char *packed = malloc(packed_bytes);
    assert_non_null(packed);
    assert_int_equal(snappy_compress((const char *)plain, 100000, packed, &packed_bytes), SNAPPY_OK);
    assert_int_equal(unpack(b->decode, ENG_CODEC_SNAPPY, (uint8_t *)packed, packed_bytes, plain, 100000, &total), OT_OK);
    assert_int_equal(total, 100000);
    free(packed);
    free(plain);
}

static void a_snappy_claim_beyond_the_ratio_is_refused_before_memory_is_taken(void **state)
{
    struct bench *b = *state;
    static const uint8_t raw[] = {0xff, 0xff, 0xff, 0xff, 0x0f, 0x00, 'x'}; /* claims 4 GiB */
    uint8_t framed[16 + 4 + sizeof(raw)] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, sizeof(raw)};
    size_t total, before = ot_pool_used_bytes(b->pool);
    memcpy(framed + 20, raw, sizeof(raw));
    assert_int_equal(unpack(b->decode, ENG_CODEC_SNAPPY, raw, sizeof(raw), NULL, 0, &total), OT_ERR_CORRUPT_MESSAGE);
    assert_int_equal(unpack(b->decode, ENG_CODEC_SNAPPY, framed, sizeof(framed), NULL, 0, &total), OT_ERR_CORRUPT_MESSAGE);
    assert_int_equal(ot_pool_used_bytes(b->pool), before);
}

static void the_best_that_snappy_can_do_stays_below_the_ratio(void **state)
{
    struct bench *b = *state;
    size_t bytes = 4000000, total, packed_bytes = snappy_max_compressed_length(bytes);
    uint8_t *plain = calloc(1, bytes);
    char *packed = malloc(packed_bytes);
    assert_true(plain != NULL && packed != NULL);
    assert_int_equal(snappy_compress((const char *)plain, bytes, packed, &packed_bytes), SNAPPY_OK);
    assert_int_equal(unpack(b->decode, ENG_CODEC_SNAPPY, (uint8_t *)packed, packed_bytes, plain, bytes, &total), OT_OK);
    eng_decode_trim(b->decode);
    assert_true(ot_pool_used_bytes(b->pool) < 1 << 20);
    free(packed);
    free(plain);
}

static void lz4_frames_of_every_kind_are_read(void **state)
{
    struct bench *b = *state;
    size_t bytes = 300000, total;
    uint8_t *plain = plain_make(bytes, 4);
    for (unsigned kind = 0; kind < 32; kind++) {
        LZ4F_preferences_t how = LZ4F_INIT_PREFERENCES;
        how.frameInfo.blockMode = (kind & 1) != 0 ? LZ4F_blockLinked : LZ4F_blockIndependent;
        how.frameInfo.contentChecksumFlag = (kind & 2) != 0 ? LZ4F_contentChecksumEnabled : LZ4F_noContentChecksum;
        how.frameInfo.blockChecksumFlag = (kind & 4) != 0 ? LZ4F_blockChecksumEnabled : LZ4F_noBlockChecksum;
        how.frameInfo.contentSize = (kind & 8) != 0 ? bytes : 0;
        how.frameInfo.blockSizeID = (kind & 16) != 0 ? LZ4F_max4MB : LZ4F_max64KB;
        size_t bound = LZ4F_compressFrameBound(bytes, &how);
        uint8_t *packed = malloc(bound);
        assert_non_null(packed);
        size_t packed_bytes = LZ4F_compressFrame(packed, bound, plain, bytes, &how);
        assert_false(LZ4F_isError(packed_bytes));
        assert_int_equal(unpack(b->decode, ENG_CODEC_LZ4, packed, packed_bytes, plain, bytes, &total), OT_OK);
        assert_int_equal(total, bytes);
        if ((kind & 6) != 0) {
            packed[packed_bytes - 20] ^= 1; /* in the last block: some checksum must see it */
            assert_int_equal(unpack(b->decode, ENG_CODEC_LZ4, packed, packed_bytes, NULL, 0, &total), OT_ERR_CORRUPT_MESSAGE);
        }
        free(packed);
    }
    eng_decode_trim(b->decode);
    assert_true(ot_pool_used_bytes(b->pool) < 1 << 20); /* 4 MiB blocks are not kept */
    free(plain);
}

static void joined_gzip_members_and_zstd_frames_read_as_one(void **state)
{
    struct bench *b = *state;
    static const enum eng_codec codecs[] = {ENG_CODEC_GZIP, ENG_CODEC_ZSTD, ENG_CODEC_SNAPPY};
    uint8_t *plain = plain_make(5000, 6);
    for (size_t i = 0; i < OT_ARRAY_COUNT(codecs); i++) {
        struct eng_sink sink;
        size_t total;
        eng_sink_malloc(&sink, 100000);
        assert_int_equal(pack(b, codecs[i], ENG_CODEC_LEVEL_DEFAULT, plain, 2000, 2000, &sink), OT_OK);
        assert_int_equal(pack(b, codecs[i], ENG_CODEC_LEVEL_DEFAULT, plain + 2000, 3000, 3000, &sink), OT_OK);
        assert_int_equal(unpack(b->decode, codecs[i], sink.data, sink.bytes, plain, 5000, &total), OT_OK);
        assert_int_equal(total, 5000);
        eng_sink_free(&sink);
    }
    free(plain);
}

/* a frame of one byte, 1 << log bytes of window */
static size_t zstd_wide(uint8_t *packed, size_t cap, int log)
{
    ZSTD_CCtx *cctx = ZSTD_createCCtx();
    ZSTD_inBuffer in = {"x", 1, 0}, none = {"", 0, 0};
    ZSTD_outBuffer out = {packed, cap, 0};
    assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(cctx, ZSTD_c_windowLog, log)));
    assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(cctx, ZSTD_c_contentSizeFlag, 0)));
    assert_false(ZSTD_isError(ZSTD_compressStream2(cctx, &out, &in, ZSTD_e_flush)));
    assert_int_equal(ZSTD_compressStream2(cctx, &out, &none, ZSTD_e_end), 0);
    ZSTD_freeCCtx(cctx);
    return out.pos;
}

static void a_zstd_window_beyond_the_pool_is_refused_for_good(void **state)
{
    struct bench *b = *state;
    uint8_t packed[128];
    size_t total;
    size_t bytes = zstd_wide(packed, sizeof(packed), 23);
    assert_int_equal(unpack(b->decode, ENG_CODEC_ZSTD, packed, bytes, NULL, 0, &total), OT_OK);
    bytes = zstd_wide(packed, sizeof(packed), 27);
    assert_int_equal(unpack(b->decode, ENG_CODEC_ZSTD, packed, bytes, NULL, 0, &total), OT_ERR_INVALID_RECORD);
    assert_true(ot_pool_used_bytes(b->pool) <= POOL_BYTES);
}

static void a_full_pool_says_no_memory_and_heals(void **state)
{
    struct bench *b = *state;
    uint8_t *plain = plain_make(400000, 8);
    for (enum eng_codec codec = ENG_CODEC_GZIP; codec < ENG_CODEC_COUNT; codec++) {
        struct eng_sink sink;
        size_t total, failed = 0;
        eng_sink_malloc(&sink, (size_t)1 << 20);
        assert_int_equal(pack(b, codec, ENG_CODEC_LEVEL_DEFAULT, plain, 400000, 400000, &sink), OT_OK);
        /* one more KiB at a time: each allocation of the path is refused at some size */
        for (size_t cap = 1024; cap < (size_t)6 << 20; cap += cap < 300000 ? 4096 : 500000) {
            struct ot_pool *pool = ot_pool_new("small", cap, 0);
            struct eng_decode *decode;
            assert_int_equal(eng_decode_new(pool, NULL, &decode), OT_OK);
            struct ot_buf *hog = ot_buf_new(pool, cap / 2);
            enum ot_err err = unpack(decode, codec, sink.data, sink.bytes, plain, 400000, &total);
            assert_true(err == OT_OK || err == OT_ERR_NO_MEMORY || err == OT_ERR_INVALID_RECORD);
            failed += err != OT_OK;
            ot_buf_unref(hog);
            enum ot_err again = unpack(decode, codec, sink.data, sink.bytes, plain, 400000, &total);
            assert_true(again == OT_OK || err != OT_OK);
            eng_decode_free(decode);
            ot_pool_free(pool);
        }
        assert_true(failed > 0);
        eng_sink_free(&sink);
    }
    free(plain);
}

static void a_sink_is_never_filled_beyond_its_bound(void **state)
{
    struct bench *b = *state;
    uint8_t *plain = plain_make(100000, 12), fixed[5000];
    for (enum eng_codec codec = ENG_CODEC_NONE; codec < ENG_CODEC_COUNT; codec++) {
        struct eng_sink sink;
        eng_sink_pool(&sink, b->pool, 5000);
        assert_int_equal(pack(b, codec, ENG_CODEC_LEVEL_DEFAULT, plain, 100000, 1000, &sink), OT_ERR_TOO_LARGE);
        assert_true(sink.bytes <= 5000);
        eng_sink_free(&sink);
        eng_sink_over(&sink, fixed, sizeof(fixed));
        assert_int_equal(pack(b, codec, ENG_CODEC_LEVEL_DEFAULT, plain, 100000, 1000, &sink), OT_ERR_TOO_LARGE);
        assert_true(sink.bytes <= sizeof(fixed));
        eng_sink_over(&sink, fixed, sizeof(fixed));
        assert_int_equal(pack(b, codec, ENG_CODEC_LEVEL_DEFAULT, plain, 90, 90, &sink), OT_OK); /* usable afterwards */
    }
    free(plain);
}

static void a_pooled_sink_hands_its_buffer_over(void **state)
{
    struct bench *b = *state;
    struct eng_sink sink;
    uint8_t *plain = plain_make(9000, 1);
    eng_sink_pool(&sink, b->pool, 10000);
    assert_int_equal(eng_sink_write(&sink, plain, 4000), OT_OK);
    assert_int_equal(eng_sink_write(&sink, plain + 4000, 5000), OT_OK);
    struct ot_buf *buf = eng_sink_take(&sink);
    assert_int_equal(buf->bytes, 9000);
    assert_memory_equal(buf->data, plain, 9000);
    eng_sink_free(&sink);
    ot_buf_unref(buf);
    free(plain);
}

static void names_are_those_of_the_configuration(void **state)
{
    (void)state;
    enum eng_codec codec;
    assert_true(eng_codec_by_name("uncompressed", &codec) && codec == ENG_CODEC_NONE);
    assert_true(eng_codec_by_name("producer", &codec) && codec == ENG_CODEC_PRODUCER);
    assert_true(eng_codec_by_name("zstd", &codec) && codec == ENG_CODEC_ZSTD);
    assert_false(eng_codec_by_name("brotli", &codec));
    assert_string_equal(eng_codec_name((enum eng_codec)7), "unknown");
    struct bench *b = *state;
    assert_int_equal(
        eng_decode_begin(b->decode, (enum eng_codec)6, (const uint8_t *)"", 0, false), OT_ERR_UNSUPPORTED_COMPRESSION_TYPE);
}

static void a_bound_stops_the_decoder_and_is_lifted_again(void **state)
{
    struct bench *b = *state;
    const size_t bytes = 300000;
    uint8_t *data = plain_make(bytes, 5);
    static const enum eng_codec codecs[] = { ENG_CODEC_GZIP, ENG_CODEC_LZ4, ENG_CODEC_ZSTD };
    for (size_t i = 0; i < OT_ARRAY_COUNT(codecs); i++) {
        struct eng_sink sink;
        eng_sink_pool(&sink, b->pool, 1u << 20);
        assert_int_equal(pack(b, codecs[i], ENG_CODEC_LEVEL_DEFAULT, data, bytes, bytes, &sink), OT_OK);
        for (int bounded = 1; bounded >= 0; bounded--) {
            const uint8_t *chunk = NULL;
            size_t got = 0, sum = 0;
            enum ot_err err;
            eng_decode_bound(b->decode, bounded ? 100000 : 0);
            assert_int_equal(eng_decode_begin(b->decode, codecs[i], sink.data, sink.bytes, false), OT_OK);
            while ((err = eng_decode_next(b->decode, &chunk, &got)) == OT_OK && got > 0) sum += got;
            assert_int_equal(err, bounded ? OT_ERR_BUSY : OT_OK);
            assert_in_range(sum, bounded ? 100000 : bytes, bounded ? 100000 + 65536 : bytes);
        }
        eng_sink_free(&sink);
    }
    free(data);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, bench_open, bench_close)
    const struct CMUnitTest tests[] = {
        T(every_codec_gives_back_what_went_in),
        T(every_level_is_taken_and_clamped),
        T(a_tiny_window_changes_nothing),
        T(data_cut_short_is_corrupt),
        T(a_flipped_bit_never_harms),
        T(raw_snappy_is_read),
        T(a_snappy_claim_beyond_the_ratio_is_refused_before_memory_is_taken),
        T(the_best_that_snappy_can_do_stays_below_the_ratio),
        T(lz4_frames_of_every_kind_are_read),
        T(joined_gzip_members_and_zstd_frames_read_as_one),
        T(a_zstd_window_beyond_the_pool_is_refused_for_good),
        T(a_full_pool_says_no_memory_and_heals),
        T(a_sink_is_never_filled_beyond_its_bound),
        T(a_pooled_sink_hands_its_buffer_over),
        T(names_are_those_of_the_configuration),
        T(a_bound_stops_the_decoder_and_is_lifted_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
