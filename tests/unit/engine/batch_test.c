/* What the vectors do not reach: windows that cut records, rules one by one, record errors, rebuilding, stamping, the
 * builder's limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "engine/batch_build.h"
#include "engine/record.h"

#include <stdlib.h>
#include <string.h>

#define NOW        1750000000000
#define POOL_BYTES ((size_t)16 << 20)

struct bench {
    struct ot_pool *pool;
    struct eng_decode *decode;
    struct eng_encode *encode;
    struct eng_sink sink, out;
};

static int bench_open(void **state)
{
    struct bench *b = calloc(1, sizeof(*b));
    assert_non_null(b);
    b->pool = ot_pool_new("decode", POOL_BYTES, 0);
    assert_int_equal(eng_decode_new(b->pool, NULL, &b->decode), OT_OK);
    assert_int_equal(eng_encode_new(&b->encode), OT_OK);
    eng_sink_malloc(&b->sink, (size_t)64 << 20);
    eng_sink_malloc(&b->out, (size_t)64 << 20);
    *state = b;
    return 0;
}

static int bench_close(void **state)
{
    struct bench *b = *state;
    eng_sink_free(&b->sink);
    eng_sink_free(&b->out);
    eng_decode_free(b->decode);
    eng_encode_free(b->encode);
    ot_pool_free(b->pool);
    free(b);
    return 0;
}

static struct ot_blob text(const char *words)
{
    return words == NULL ? (struct ot_blob){NULL, 0, true}
                         : (struct ot_blob){(const uint8_t *)words, (uint32_t)strlen(words), false};
}

/* count records of value_bytes at NOW - count…, every seventh without key, each third with two headers */
static void build(struct bench *b, enum eng_codec codec, int count, size_t value_bytes)
{
    struct eng_batch_fields fields = eng_batch_fields_default();
    struct eng_batch_builder builder;
    struct eng_record_header headers[2] = {{text("trace"), text("0123456789")}, {text(""), text(NULL)}};
    uint8_t *value = malloc(value_bytes + 1);
    assert_non_null(value);
    for (size_t i = 0; i < value_bytes; i++) {
        value[i] = (uint8_t)(i * i >> 3);
    }
    fields.codec = codec;
    b->sink.bytes = 0;
    assert_int_equal(eng_batch_build_begin(&builder, &fields, b->encode, &b->sink), OT_OK);
    for (int i = 0; i < count; i++) {
        struct ot_blob key = i % 7 == 6 ? text(NULL) : text("key");
        size_t before = builder.plain_bytes;
        size_t bytes = eng_batch_build_record_bytes(
            &builder, i, NOW - count + i, key, (struct ot_blob){value, (uint32_t)value_bytes, false}, headers, i % 3 == 0 ? 2 : 0);
        assert_int_equal(eng_batch_build_next(&builder, NOW - count + i, key, (struct ot_blob){value, (uint32_t)value_bytes, false},
                             headers, i % 3 == 0 ? 2 : 0),
            OT_OK);
        assert_int_equal(builder.plain_bytes - before, bytes);
    }
    assert_int_equal(eng_batch_build_finish(&builder), OT_OK);
    free(value);
}

static void crc_set(uint8_t *data, size_t bytes)
{
    ot_store_u32(data + ENG_BATCH_CRC_POS, ot_crc32c(0, data + ENG_BATCH_CRC_FROM, bytes - ENG_BATCH_CRC_FROM));
}

static enum ot_err check(struct bench *b, const struct eng_batch_rules *rules, struct eng_batch_verdict *verdict)
{
    enum ot_err err = eng_batch_check_shallow(b->sink.data, b->sink.bytes, rules, verdict);
    return err == OT_OK && verdict->needs_deep ? eng_batch_check_deep(b->sink.data, b->sink.bytes, rules, b->decode, verdict) : err;
}

static int count_records(struct eng_decode *decode, const uint8_t *data, size_t bytes, bool skim, size_t value_bytes)
{
    struct eng_record_iter iter;
    struct eng_record record;
    int count = 0;
    assert_int_equal(eng_record_open(&iter, decode, data, bytes, 0), OT_OK);
    enum ot_err err;
    while ((err = skim ? eng_record_skim(&iter, &record) : eng_record_next(&iter, &record)) == OT_OK) {
        assert_int_equal(record.offset, count);
        assert_int_equal(record.index, count);
        assert_int_equal(record.key.null, count % 7 == 6);
        assert_int_equal(record.value.bytes, value_bytes);
        assert_int_equal(record.header_count, count % 3 == 0 ? 2 : 0);
        for (size_t i = 0; !skim && i < value_bytes; i++) {
            assert_int_equal(record.value.data[i], (uint8_t)(i * i >> 3));
        }
        count++;
    }
    assert_int_equal(err, OT_ERR_NOT_FOUND);
    assert_int_equal(skim ? eng_record_skim(&iter, &record) : eng_record_next(&iter, &record), OT_ERR_NOT_FOUND);
    return count;
}

static void records_that_cross_the_window_are_whole(void **state)
{
    struct bench *b = *state;
    static const uint32_t windows[] = {1, 2, 13, 61, 100, 4096};
    for (enum eng_codec codec = ENG_CODEC_NONE; codec < ENG_CODEC_COUNT; codec++) {
        build(b, codec, 50, 300);
        for (size_t i = 0; i < OT_ARRAY_COUNT(windows); i++) {
            struct eng_decode *decode;
            struct eng_decode_limits limits = {.window_bytes = windows[i]};
            struct eng_batch_rules rules = eng_batch_rules_default(NOW);
            struct eng_batch_verdict verdict;
            assert_int_equal(eng_decode_new(b->pool, &limits, &decode), OT_OK);
            assert_int_equal(count_records(decode, b->sink.data, b->sink.bytes, false, 300), 50);
            assert_int_equal(count_records(decode, b->sink.data, b->sink.bytes, true, 300), 50);
            assert_int_equal(eng_batch_check_shallow(b->sink.data, b->sink.bytes, &rules, &verdict), OT_OK);
            assert_int_equal(eng_batch_check_deep(b->sink.data, b->sink.bytes, &rules, decode, &verdict), OT_OK);
            assert_int_equal(verdict.max_timestamp, NOW - 1);
            assert_int_equal(verdict.max_timestamp_index, 49);
            eng_decode_free(decode);
        }
    }
}

static void a_bomb_is_passed_over_within_the_window(void **state)
{
    struct bench *b = *state;
    static const enum eng_codec codecs[] = {ENG_CODEC_GZIP, ENG_CODEC_LZ4, ENG_CODEC_ZSTD, ENG_CODEC_SNAPPY};
    struct eng_batch_rules rules = eng_batch_rules_default(NOW);
    struct eng_batch_verdict verdict;
    size_t value_bytes = (size_t)100 << 20;
    uint8_t *zeros = calloc(1, value_bytes);
    assert_non_null(zeros);
    rules.max_message_bytes = 100 << 20;
    for (size_t i = 0; i < OT_ARRAY_COUNT(codecs); i++) {
        struct eng_batch_fields fields = eng_batch_fields_default();
        struct eng_batch_builder builder;
        struct ot_pool *pool = ot_pool_new("small", (size_t)4 << 20, 0);
        struct eng_decode *decode;
        assert_int_equal(eng_decode_new(pool, NULL, &decode), OT_OK);
        fields.codec = codecs[i];
        b->sink.bytes = 0;
        assert_int_equal(eng_batch_build_begin(&builder, &fields, b->encode, &b->sink), OT_OK);
        assert_int_equal(
            eng_batch_build_next(&builder, NOW, text(NULL), (struct ot_blob){zeros, (uint32_t)value_bytes, false}, NULL, 0), OT_OK);
        assert_int_equal(eng_batch_build_finish(&builder), OT_OK);
        assert_int_equal(eng_batch_check_shallow(b->sink.data, b->sink.bytes, &rules, &verdict), OT_OK);
        assert_int_equal(eng_batch_check_deep(b->sink.data, b->sink.bytes, &rules, decode, &verdict), OT_OK);
        rules.max_decompressed_bytes = 1 << 20;
        assert_int_equal(eng_batch_check_shallow(b->sink.data, b->sink.bytes, &rules, &verdict), OT_OK);
        assert_int_equal(eng_batch_check_deep(b->sink.data, b->sink.bytes, &rules, decode, &verdict), OT_ERR_INVALID_RECORD);
        rules.max_decompressed_bytes = INT32_MAX;
        /* to hold it is another matter: the pool says no, and the context goes on */
        struct eng_record_iter iter;
        struct eng_record record;
        assert_int_equal(eng_record_open(&iter, decode, b->sink.data, b->sink.bytes, 0), OT_OK);
        assert_int_equal(eng_record_next(&iter, &record), OT_ERR_NO_MEMORY);
        assert_int_equal(eng_record_next(&iter, &record), OT_ERR_NO_MEMORY);
        assert_int_equal(eng_record_open(&iter, decode, b->sink.data, b->sink.bytes, 0), OT_OK);
        assert_int_equal(eng_record_skim(&iter, &record), OT_OK);
        assert_int_equal(record.value.bytes, value_bytes);
        assert_int_equal(eng_record_skim(&iter, &record), OT_ERR_NOT_FOUND);
        eng_decode_free(decode);
        ot_pool_free(pool);
    }
    free(zeros);
}

static void every_prefix_and_every_flipped_byte_is_survived(void **state)
{
    struct bench *b = *state;
    struct eng_batch_rules rules = eng_batch_rules_default(NOW);
    struct eng_batch_verdict verdict;
    for (enum eng_codec codec = ENG_CODEC_NONE; codec < ENG_CODEC_COUNT; codec++) {
        build(b, codec, 9, 20);
        for (size_t bytes = 0; bytes < b->sink.bytes; bytes++) {
            uint8_t *cut = malloc(bytes + (bytes == 0));
            assert_non_null(cut);
            memcpy(cut, b->sink.data, bytes);
            assert_int_equal(eng_batch_check_shallow(cut, bytes, &rules, &verdict), OT_ERR_CORRUPT_MESSAGE);
            free(cut);
        }
        for (size_t at = ENG_BATCH_CRC_FROM; at < b->sink.bytes; at++) {
            b->sink.data[at] ^= 0x81;
            assert_int_equal(check(b, &rules, &verdict), OT_ERR_CORRUPT_MESSAGE);
            crc_set(b->sink.data, b->sink.bytes); /* as a liar would send it */
            (void)check(b, &rules, &verdict);
            b->sink.data[at] ^= 0x81;
            crc_set(b->sink.data, b->sink.bytes);
        }
        assert_int_equal(check(b, &rules, &verdict), OT_OK);
    }
}

static void each_refused_record_is_named(void **state)
{
    struct bench *b = *state;
    struct eng_batch_rules rules = eng_batch_rules_default(NOW);
    struct eng_batch_verdict verdict;
    for (enum eng_codec codec = ENG_CODEC_NONE; codec < ENG_CODEC_COUNT; codec++) {
        build(b, codec, 200, 10);
        rules.compact_only = true;
        assert_int_equal(check(b, &rules, &verdict), OT_ERR_INVALID_RECORD);
        assert_int_equal(verdict.record_error_count, 28);
        assert_int_equal(verdict.record_errors[0], 6);
        assert_int_equal(verdict.record_errors[15], 6 + 15 * 7);
        rules.timestamp_before_max_ms = 199; /* record 0 is 200 ms old */
        assert_int_equal(check(b, &rules, &verdict), OT_ERR_INVALID_TIMESTAMP);
        assert_int_equal(verdict.record_error_count, 29);
        assert_int_equal(verdict.record_errors[0], 0);
        assert_true(strlen(verdict.text) > 0);
        rules.compact_only = false;
        rules.timestamp_before_max_ms = 200;
        assert_int_equal(check(b, &rules, &verdict), OT_OK);
    }
}

static void timestamps_are_judged_without_overflow(void **state)
{
    struct bench *b = *state;
    static const struct {
        int64_t timestamp;
        enum ot_err err;
    } cases[] = {
        {INT64_MAX, OT_ERR_INVALID_TIMESTAMP},
        {INT64_MIN, OT_ERR_INVALID_TIMESTAMP},
        {-1, OT_OK},
        {-2, OT_OK},
        {0, OT_OK},
        {NOW + 3600000, OT_OK},
        {NOW + 3600001, OT_ERR_INVALID_TIMESTAMP},
    };
    struct eng_batch_rules rules = eng_batch_rules_default(NOW);
    struct eng_batch_verdict verdict;
    for (size_t i = 0; i < OT_ARRAY_COUNT(cases); i++) {
        struct eng_batch_fields fields = eng_batch_fields_default();
        struct eng_batch_builder builder;
        b->sink.bytes = 0;
        assert_int_equal(eng_batch_build_begin(&builder, &fields, NULL, &b->sink), OT_OK);
        assert_int_equal(eng_batch_build_next(&builder, cases[i].timestamp, text("k"), text("v"), NULL, 0), OT_OK);
        assert_int_equal(eng_batch_build_finish(&builder), OT_OK);
        assert_int_equal(check(b, &rules, &verdict), cases[i].err);
    }
    rules.timestamp_after_max_ms = INT64_MAX;
    build(b, ENG_CODEC_NONE, 1, 1);
    assert_int_equal(check(b, &rules, &verdict), OT_OK);
}

/* Whatever else is in them: Kafka's readers look at the flags alone. */
static void lz4_frames_that_kafka_cannot_read_are_refused(void **state)
{
    struct bench *b = *state;
    struct eng_batch_rules rules = eng_batch_rules_default(NOW);
    struct eng_batch_verdict verdict;
    static const struct { uint8_t set, clear; uint8_t magic; enum ot_err err; } cases[] = { { 0, 0, 0x04, OT_OK }, { 0, 0x20, 0x04, OT_ERR_INVALID_RECORD }, { 0x01, 0, 0x04, OT_ERR_INVALID_RECORD },
        { 0x02, 0, 0x04, OT_ERR_INVALID_RECORD }, { 0, 0, 0x05, OT_ERR_CORRUPT_MESSAGE } };
    for (size_t i = 0; i < OT_ARRAY_COUNT(cases); i++) {
        b->sink.bytes = 0;
        build(b, ENG_CODEC_LZ4, 5, 5);
        uint8_t *frame = b->sink.data + ENG_BATCH_HEADER_BYTES;
        frame[0] = cases[i].magic;
        frame[4] = (uint8_t)((frame[4] | cases[i].set) & ~cases[i].clear);
        ot_store_u32(b->sink.data + 17, ot_crc32c(0, b->sink.data + 21, b->sink.bytes - 21));
        assert_int_equal(check(b, &rules, &verdict), cases[i].err);
    }
    b->sink.bytes = 0;
    build(b, ENG_CODEC_LZ4, 5, 5);
    memcpy(b->sink.data + ENG_BATCH_HEADER_BYTES, "\x53\x2a\x4d\x18", 4);
    ot_store_u32(b->sink.data + 17, ot_crc32c(0, b->sink.data + 21, b->sink.bytes - 21));
    assert_int_equal(check(b, &rules, &verdict), OT_ERR_INVALID_RECORD);
    rules.origin = ENG_ORIGIN_REPLICATION;         /* what a leader took long ago is taken from it */
    assert_int_equal(eng_batch_check_shallow(b->sink.data, b->sink.bytes, &rules, &verdict), OT_OK);
}

static void append_time_is_written_and_the_crc_holds(void **state)
{
    struct bench *b = *state;
    struct eng_batch_rules rules = eng_batch_rules_default(NOW + 77);
    struct eng_batch_verdict verdict;
    struct eng_batch_info info;
    rules.timestamp_type = ENG_TIMESTAMP_APPEND;
    build(b, ENG_CODEC_LZ4, 5, 5);
    assert_int_equal(check(b, &rules, &verdict), OT_OK);
    assert_true(verdict.restamp);
    assert_int_equal(verdict.append_time, NOW + 77);
    eng_batch_settle(b->sink.data, b->sink.bytes, &verdict);
    eng_batch_stamp(b->sink.data, 1000, 7);
    assert_int_equal(eng_batch_parse(b->sink.data, b->sink.bytes, &info), OT_OK);
    assert_int_equal(eng_batch_check_crc(b->sink.data, &info), OT_OK);
    assert_int_equal(info.timestamp_type, ENG_TIMESTAMP_APPEND);
    assert_int_equal(info.max_timestamp, NOW + 77);
    assert_int_equal(info.base_offset, 1000);
    assert_int_equal(info.partition_leader_epoch, 7);
    struct eng_record_iter iter;
    struct eng_record record;
    assert_int_equal(eng_record_open(&iter, b->decode, b->sink.data, b->sink.bytes, 0), OT_OK);
    assert_int_equal(eng_record_next(&iter, &record), OT_OK);
    assert_int_equal(record.timestamp, NOW + 77);
    assert_int_equal(record.offset, 1000);
}

static void stamping_touches_nothing_under_the_crc(void **state)
{
    struct bench *b = *state;
    struct eng_batch_rules rules = eng_batch_rules_default(NOW);
    struct eng_batch_verdict verdict;
    struct eng_batch_info info;
    build(b, ENG_CODEC_ZSTD, 5, 5);
    assert_int_equal(check(b, &rules, &verdict), OT_OK);
    assert_false(verdict.restamp);
    uint32_t crc = verdict.info.crc;
    eng_batch_settle(b->sink.data, b->sink.bytes, &verdict);
    eng_batch_stamp(b->sink.data, INT64_MAX - 10, INT32_MAX);
    assert_int_equal(eng_batch_parse(b->sink.data, b->sink.bytes, &info), OT_OK);
    assert_int_equal(info.crc, crc);
    assert_int_equal(eng_batch_check_crc(b->sink.data, &info), OT_OK);
}

static void any_codec_becomes_any_other(void **state)
{
    struct bench *b = *state;
    struct eng_batch_rules rules = eng_batch_rules_default(NOW);
    struct eng_batch_verdict verdict;
    for (enum eng_codec from = ENG_CODEC_NONE; from < ENG_CODEC_COUNT; from++) {
        for (enum eng_codec to = ENG_CODEC_NONE; to < ENG_CODEC_COUNT; to++) {
            build(b, from, 40, 500);
            rules.compression = to;
            b->out.bytes = 0;
            b->out.max_bytes = (size_t)64 << 20;
            assert_int_equal(check(b, &rules, &verdict), OT_OK);
            assert_int_equal(verdict.rebuild, from != to);
            if (from == to) {
                continue;
            }
            assert_int_equal(
                eng_batch_rebuild(b->sink.data, b->sink.bytes, &rules, b->decode, b->encode, &verdict, &b->out), OT_OK);
            assert_int_equal(verdict.info.codec, to);
            assert_int_equal(eng_batch_check_crc(b->out.data, &verdict.info), OT_OK);
            assert_int_equal(count_records(b->decode, b->out.data, b->out.bytes, false, 500), 40);
        }
    }
}

static void a_rebuilt_batch_keeps_its_producer_and_takes_append_time(void **state)
{
    struct bench *b = *state;
    struct eng_batch_rules rules = eng_batch_rules_default(NOW + 5);
    struct eng_batch_verdict verdict;
    struct eng_batch_fields fields = eng_batch_fields_default();
    struct eng_batch_builder builder;
    fields.producer_id = 42;
    fields.producer_epoch = 3;
    fields.base_sequence = 17;
    fields.transactional = true;
    assert_int_equal(eng_batch_build_begin(&builder, &fields, NULL, &b->sink), OT_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(eng_batch_build_next(&builder, NOW + i, text("k"), text("v"), NULL, 0), OT_OK);
    }
    assert_int_equal(eng_batch_build_finish(&builder), OT_OK);
    rules.compression = ENG_CODEC_SNAPPY;
    rules.timestamp_type = ENG_TIMESTAMP_APPEND;
    assert_int_equal(check(b, &rules, &verdict), OT_OK);
    assert_int_equal(eng_batch_rebuild(b->sink.data, b->sink.bytes, &rules, b->decode, b->encode, &verdict, &b->out), OT_OK);
    assert_false(verdict.restamp);
    eng_batch_stamp(b->out.data, 900, 6);
    struct eng_record_iter iter;
    struct eng_record record;
    assert_int_equal(eng_record_open(&iter, b->decode, b->out.data, b->out.bytes, 0), OT_OK);
    assert_int_equal(iter.info.producer_id, 42);
    assert_int_equal(iter.info.producer_epoch, 3);
    assert_int_equal(iter.info.base_sequence, 17);
    assert_int_equal(iter.info.last_offset_delta, 2);
    assert_true(iter.info.transactional && !iter.info.control);
    assert_int_equal(iter.info.max_timestamp, NOW + 5);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(eng_record_next(&iter, &record), OT_OK);
        assert_int_equal(record.offset, 900 + i);
        assert_int_equal(record.sequence, 17 + i);
        assert_int_equal(record.timestamp, NOW + 5);
    }
}

static void a_config_that_changes_between_the_checks_does_not_matter(void **state)
{
    struct bench *b = *state;
    struct eng_batch_rules rules = eng_batch_rules_default(NOW);
    struct eng_batch_verdict verdict;
    struct eng_batch_info info;
    build(b, ENG_CODEC_LZ4, 5, 50);
    rules.compression = ENG_CODEC_ZSTD;
    rules.level = 7;
    assert_int_equal(eng_batch_check_shallow(b->sink.data, b->sink.bytes, &rules, &verdict), OT_OK);
    rules.compression = ENG_CODEC_PRODUCER;
    assert_int_equal(eng_batch_check_deep(b->sink.data, b->sink.bytes, &rules, b->decode, &verdict), OT_OK);
    rules.timestamp_type = ENG_TIMESTAMP_APPEND;
    assert_int_equal(eng_batch_rebuild(b->sink.data, b->sink.bytes, &rules, b->decode, b->encode, &verdict, &b->out), OT_OK);
    assert_int_equal(eng_batch_parse(b->out.data, b->out.bytes, &info), OT_OK);
    assert_int_equal(info.codec, ENG_CODEC_ZSTD);
    assert_int_equal(info.timestamp_type, ENG_TIMESTAMP_CREATE);
    assert_int_equal(info.max_timestamp, NOW - 1);
    assert_int_equal(count_records(b->decode, b->out.data, b->out.bytes, false, 50), 5);
}

static void a_rebuilt_batch_keeps_to_max_message_bytes(void **state)
{
    struct bench *b = *state;
    struct eng_batch_rules rules = eng_batch_rules_default(NOW);
    struct eng_batch_verdict verdict;
    uint8_t *zeros = calloc(1, (size_t)50 << 20);
    assert_non_null(zeros);
    struct eng_batch_fields fields = eng_batch_fields_default();
    struct eng_batch_builder builder;
    fields.codec = ENG_CODEC_ZSTD;
    assert_int_equal(eng_batch_build_begin(&builder, &fields, b->encode, &b->sink), OT_OK);
    assert_int_equal(eng_batch_build_next(&builder, NOW, text("k"), (struct ot_blob){zeros, 50 << 20, false}, NULL, 0), OT_OK);
    assert_int_equal(eng_batch_build_finish(&builder), OT_OK);
    free(zeros);
    rules.compression = ENG_CODEC_NONE;
    assert_int_equal(check(b, &rules, &verdict), OT_OK);
    assert_int_equal(
        eng_batch_rebuild(b->sink.data, b->sink.bytes, &rules, b->decode, b->encode, &verdict, &b->out), OT_ERR_MESSAGE_TOO_LARGE);
    assert_true(b->out.cap_bytes <= 1048588);
    assert_int_equal(b->out.bytes, 0);
    assert_true(strlen(verdict.text) > 0);
}

static void odd_offset_deltas_are_renumbered_when_rebuilt(void **state)
{
    struct bench *b = *state;
    struct eng_batch_rules rules = eng_batch_rules_default(NOW);
    struct eng_batch_verdict verdict;
    build(b, ENG_CODEC_NONE, 3, 4);
    /* records: length 1, attributes 1, timestamp delta 1, offset delta 1: the last one's delta to 5 */
    uint8_t *at = b->sink.data + ENG_BATCH_HEADER_BYTES;
    at += 1 + (at[0] >> 1);
    at += 1 + (at[0] >> 1);
    assert_int_equal(at[3], 4);
    at[3] = 10;
    crc_set(b->sink.data, b->sink.bytes);
    assert_int_equal(check(b, &rules, &verdict), OT_OK);
    assert_true(verdict.odd_offsets);
    rules.compression = ENG_CODEC_GZIP;
    assert_int_equal(check(b, &rules, &verdict), OT_OK);
    assert_int_equal(eng_batch_rebuild(b->sink.data, b->sink.bytes, &rules, b->decode, b->encode, &verdict, &b->out), OT_OK);
    assert_int_equal(count_records(b->decode, b->out.data, b->out.bytes, false, 4), 3);
    /* and compressed ones that are odd are refused */
    build(b, ENG_CODEC_GZIP, 3, 4);
    rules.compression = ENG_CODEC_PRODUCER;
    ot_store_u32(b->sink.data + 23, 1);
    ot_store_u32(b->sink.data + 57, 2);
    crc_set(b->sink.data, b->sink.bytes);
    assert_int_equal(check(b, &rules, &verdict), OT_ERR_INVALID_RECORD);
}

static void followers_take_what_the_leader_has(void **state)
{
    struct bench *b = *state;
    struct eng_batch_rules rules = eng_batch_rules_default(NOW);
    struct eng_batch_verdict verdict;
    uint8_t marker[ENG_MARKER_BYTES];
    rules.origin = ENG_ORIGIN_REPLICATION;
    rules.max_message_bytes = 10;
    build(b, ENG_CODEC_GZIP, 3, 4);
    eng_batch_stamp(b->sink.data, 500, 3);
    assert_int_equal(check(b, &rules, &verdict), OT_OK);
    assert_false(verdict.needs_deep);
    assert_int_equal(eng_batch_build_marker(marker, 42, 3, 9, 17, true, NOW), ENG_MARKER_BYTES);
    assert_int_equal(eng_batch_check_shallow(marker, sizeof(marker), &rules, &verdict), OT_OK);
    marker[70] ^= 1;
    assert_int_equal(eng_batch_check_shallow(marker, sizeof(marker), &rules, &verdict), OT_ERR_CORRUPT_MESSAGE);
}

static void a_marker_tells_its_coordinator(void **state)
{
    (void)state;
    uint8_t data[ENG_MARKER_BYTES];
    struct eng_batch_info info;
    struct eng_marker marker;
    struct eng_batch_rules rules = eng_batch_rules_default(NOW);
    struct eng_batch_verdict verdict;
    for (int commit = 0; commit < 2; commit++) {
        (void)eng_batch_build_marker(data, 42, 3, 9, 17, commit == 1, NOW);
        assert_int_equal(eng_batch_parse(data, sizeof(data), &info), OT_OK);
        eng_batch_marker(data, &info, &marker);
        assert_true(marker.is_marker);
        assert_int_equal(marker.commit, commit);
        assert_int_equal(marker.coordinator_epoch, 17);
    }
    assert_int_equal(eng_batch_check_shallow(data, sizeof(data), &rules, &verdict), OT_ERR_INVALID_RECORD); /* not from a client */
    rules.origin = ENG_ORIGIN_COORDINATOR;
    assert_int_equal(eng_batch_check_shallow(data, sizeof(data), &rules, &verdict), OT_OK);
    rules.compression = ENG_CODEC_GZIP;
    assert_int_equal(eng_batch_check_shallow(data, sizeof(data), &rules, &verdict), OT_OK);
    assert_false(verdict.needs_deep); /* control batches stay plain */
}

static void the_builder_refuses_what_the_format_cannot_say(void **state)
{
    struct bench *b = *state;
    struct eng_batch_fields fields = eng_batch_fields_default();
    struct eng_batch_builder builder;
    struct eng_record_header bad = {text(NULL), text("v")};
    fields.base_offset = 100;
    assert_int_equal(eng_batch_build_begin(&builder, &fields, NULL, &b->sink), OT_OK);
    assert_int_equal(eng_batch_build_record(&builder, 99, NOW, text("k"), text("v"), NULL, 0), OT_ERR_INVALID_RECORD);
    b->sink.bytes = builder.start;
    assert_int_equal(eng_batch_build_begin(&builder, &fields, NULL, &b->sink), OT_OK);
    assert_int_equal(eng_batch_build_record(&builder, 105, NOW, text("k"), text("v"), NULL, 0), OT_OK);
    assert_int_equal(eng_batch_build_record(&builder, 105, NOW, text("k"), text("v"), NULL, 0), OT_ERR_INVALID_RECORD);
    assert_int_equal(eng_batch_build_finish(&builder), OT_ERR_INVALID_RECORD);
    b->sink.bytes = builder.start;
    assert_int_equal(eng_batch_build_begin(&builder, &fields, NULL, &b->sink), OT_OK);
    assert_int_equal(eng_batch_build_record(&builder, 105, NOW, text("k"), text("v"), &bad, 1), OT_ERR_INVALID_RECORD);
    uint8_t small[80];
    eng_sink_over(&b->out, small, sizeof(small));
    assert_int_equal(eng_batch_build_begin(&builder, &fields, NULL, &b->out), OT_OK);
    assert_int_equal(eng_batch_build_next(&builder, NOW, text("k"), text("a value that does not fit"), NULL, 0), OT_ERR_TOO_LARGE);
    assert_int_equal(eng_batch_build_finish(&builder), OT_ERR_TOO_LARGE);
}

static void several_batches_in_one_sink_split_again(void **state)
{
    struct bench *b = *state;
    struct eng_batch_fields fields = eng_batch_fields_default();
    struct eng_batch_builder builder;
    struct eng_batch_piece piece;
    for (int i = 0; i < 3; i++) {
        fields.base_offset = i * 10;
        assert_int_equal(eng_batch_build_begin(&builder, &fields, NULL, &b->sink), OT_OK);
        assert_int_equal(eng_batch_build_next(&builder, NOW, text("k"), text("v"), NULL, 0), OT_OK);
        assert_int_equal(eng_batch_build_finish(&builder), OT_OK);
    }
    struct ot_reader cursor = ot_reader_over(b->sink.data, b->sink.bytes - 1);
    for (int i = 0; i < 2; i++) {
        struct eng_batch_info info;
        assert_int_equal(eng_batch_split(&cursor, &piece), OT_OK);
        assert_int_equal(eng_batch_parse(piece.data, piece.bytes, &info), OT_OK);
        assert_int_equal(info.base_offset, i * 10);
    }
    assert_int_equal(eng_batch_split(&cursor, &piece), OT_ERR_NOT_FOUND);
    assert_int_equal(ot_reader_left(&cursor), piece.bytes - 1);
}

static void sequences_wrap_to_zero(void **state)
{
    (void)state;
    assert_int_equal(eng_sequence_add(INT32_MAX, 1), 0);
    assert_int_equal(eng_sequence_add(INT32_MAX - 1, 4), 2);
    assert_int_equal(eng_sequence_add(5, 0), 5);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, bench_open, bench_close)
    const struct CMUnitTest tests[] = {
        T(records_that_cross_the_window_are_whole),
        T(a_bomb_is_passed_over_within_the_window),
        T(every_prefix_and_every_flipped_byte_is_survived),
        T(each_refused_record_is_named),
        T(timestamps_are_judged_without_overflow),
        T(lz4_frames_that_kafka_cannot_read_are_refused),
        T(append_time_is_written_and_the_crc_holds),
        T(stamping_touches_nothing_under_the_crc),
        T(any_codec_becomes_any_other),
        T(a_config_that_changes_between_the_checks_does_not_matter),
        T(a_rebuilt_batch_keeps_its_producer_and_takes_append_time),
        T(a_rebuilt_batch_keeps_to_max_message_bytes),
        T(odd_offset_deltas_are_renumbered_when_rebuilt),
        T(followers_take_what_the_leader_has),
        T(a_marker_tells_its_coordinator),
        T(the_builder_refuses_what_the_format_cannot_say),
        T(several_batches_in_one_sink_split_again),
        T(sequences_wrap_to_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
