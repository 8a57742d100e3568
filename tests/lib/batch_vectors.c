#include "batch_vectors.h"
#include "engine/batch_build.h"
#include "engine/record.h"

#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bytes {
    uint8_t *data;
    size_t bytes;
};
struct why {
    char *text;
    size_t bytes;
};

static struct ot_pool *pool;
static struct eng_decode *decode;
static struct eng_encode *encode;

struct ot_pool *batch_vectors_pool(void)
{
    if (pool == NULL) {
        pool = ot_pool_new("vectors", BATCH_VECTORS_POOL_BYTES, 0);
        OT_ASSERT(pool != NULL && eng_decode_new(pool, NULL, &decode) == OT_OK && eng_encode_new(&encode) == OT_OK);
    }
    return pool;
}

void batch_vectors_window(uint32_t window_bytes)
{
    struct eng_decode_limits limits = {.window_bytes = window_bytes};
    struct ot_pool *from = batch_vectors_pool();
    eng_decode_free(decode);
    decode = NULL;
    OT_ASSERT(eng_decode_new(from, &limits, &decode) == OT_OK);
}

void batch_vectors_free(void)
{
    eng_decode_free(decode);
    eng_encode_free(encode);
    ot_pool_free(pool);
    pool = NULL;
    decode = NULL;
    encode = NULL;
}

static bool wrong(struct why *why, const char *format, ...) OT_PRINTF(2, 3);
static bool wrong(struct why *why, const char *format, ...)
{
    size_t used = strlen(why->text);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(why->text + used, why->bytes - used, format, args);
    va_end(args);
    return false;
}

static int digit(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* A copy of exactly that size, so that a sanitizer sees any step beyond it. */
static struct bytes hex_bytes(json_t *object, const char *key)
{
    const char *hex = json_string_value(json_object_get(object, key));
    struct bytes out = {NULL, hex == NULL ? 0 : strlen(hex) / 2};
    out.data = malloc(out.bytes + (out.bytes == 0));
    OT_ASSERT(out.data != NULL);
    for (size_t i = 0; i < out.bytes; i++) {
        out.data[i] = (uint8_t)(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
    }
    return out;
}

static int64_t number(json_t *object, const char *key, int64_t otherwise)
{
    json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

static const char *word(json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value == NULL ? "" : value;
}

/* ---- headers and records as a reader must find them ---- */

static const char *timestamp_type_name(enum eng_timestamp_type type)
{
    return type == ENG_TIMESTAMP_NONE ? "NoTimestampType" : type == ENG_TIMESTAMP_APPEND ? "LogAppendTime" : "CreateTime";
}

static bool field_same(json_t *want, const char *key, int64_t got, struct why *why)
{
    json_t *value = json_object_get(want, key);
    if (value == NULL || (json_is_integer(value) && json_integer_value(value) == got) ||
        (json_is_boolean(value) && json_is_true(value) == (got != 0))) {
        return true;
    }
    return wrong(why, "%s is %lld, not %lld", key, (long long)got, (long long)number(want, key, INT64_MIN));
}

static bool header_same(json_t *want, const struct eng_batch_info *info, bool same_bytes, struct why *why)
{
    bool v2 = info->magic == 2;
    int64_t last = v2 ? info->base_offset + info->last_offset_delta : info->base_offset;
    json_t *horizon = json_object_get(want, "deleteHorizonMs");
    if (json_is_integer(horizon) != info->has_delete_horizon ||
        (info->has_delete_horizon && json_integer_value(horizon) != info->base_timestamp)) {
        return wrong(why, "delete horizon differs");
    }
    if (strcmp(word(want, "codec"), eng_codec_name(info->codec)) != 0 ||
        strcmp(word(want, "timestampType"), timestamp_type_name(info->timestamp_type)) != 0) {
        return wrong(why, "codec or timestamp type differs");
    }
    return field_same(want, "magic", info->magic, why) && (!v2 || field_same(want, "baseOffset", info->base_offset, why)) &&
           field_same(want, "lastOffset", last, why) && field_same(want, "nextOffset", last + 1, why) &&
           (!same_bytes || (field_same(want, "size", info->batch_bytes, why) && field_same(want, "crc", info->crc, why))) &&
           field_same(want, "maxTimestamp", info->max_timestamp, why) && field_same(want, "count", info->record_count, why) &&
           field_same(want, "partitionLeaderEpoch", info->partition_leader_epoch, why) &&
           field_same(want, "baseTimestamp", info->base_timestamp, why) && field_same(want, "producerId", info->producer_id, why) &&
           field_same(want, "producerEpoch", info->producer_epoch, why) &&
           field_same(want, "baseSequence", info->base_sequence, why) &&
           field_same(want, "lastSequence", eng_batch_last_sequence(info), why) &&
           field_same(want, "transactional", info->transactional, why) && field_same(want, "control", info->control, why);
}

static bool blob_same(json_t *want, struct ot_blob got)
{
    if (json_is_null(want) || want == NULL) {
        return got.null;
    }
    if (json_is_object(want)) {
        uint8_t hash[32];
        char hex[65];
        unsigned hash_bytes = 0;
        if (got.null || number(want, "length", -1) != got.bytes ||
            EVP_Digest(got.data, got.bytes, hash, &hash_bytes, EVP_sha256(), NULL) != 1) {
            return false;
        }
        for (size_t i = 0; i < 32; i++) {
            (void)snprintf(hex + 2 * i, 3, "%02x", hash[i]);
        }
        return strcmp(word(want, "sha256"), hex) == 0;
    }
    char *text = malloc((size_t)got.bytes / 3 * 4 + 8);
    OT_ASSERT(text != NULL);
    text[0] = 0;
    if (got.bytes > 0) {
        (void)EVP_EncodeBlock((unsigned char *)text, got.data, (int)got.bytes);
    }
    bool same = !got.null && strcmp(text, json_string_value(want)) == 0;
    free(text);
    return same;
}

static bool headers_same(json_t *want, const struct eng_record *record)
{
    struct ot_reader cursor = ot_reader_over(record->headers.data, record->headers.bytes);
    struct eng_record_header header;
    if (json_array_size(want) != record->header_count) {
        return false;
    }
    for (size_t i = 0; i < json_array_size(want); i++) {
        json_t *pair = json_array_get(want, i), *name = json_array_get(pair, 0);
        if (!eng_record_header(&cursor, &header) || header.key.null || header.key.bytes != json_string_length(name) ||
            memcmp(header.key.data, json_string_value(name), header.key.bytes) != 0 ||
            !blob_same(json_array_get(pair, 1), header.value)) {
            return false;
        }
    }
    return !eng_record_header(&cursor, &header);
}

static bool record_same(json_t *want, const struct eng_record *record, struct why *why)
{
    return (field_same(want, "offset", record->offset, why) && field_same(want, "timestamp", record->timestamp, why) &&
            field_same(want, "sequence", record->sequence, why) &&
            (blob_same(json_object_get(want, "key"), record->key) || wrong(why, "key differs")) &&
            (blob_same(json_object_get(want, "value"), record->value) || wrong(why, "value differs")) &&
            (headers_same(json_object_get(want, "headers"), record) || wrong(why, "headers differ")));
}

static bool records_same(json_t *want, const struct eng_batch_piece *piece, struct why *why)
{
    struct eng_record_iter iter;
    struct eng_record record;
    json_t *records = json_object_get(want, "records");
    enum ot_err err = eng_record_open(&iter, decode, piece->data, piece->bytes, 0);
    for (size_t i = 0; i < json_array_size(records); i++) {
        if (err != OT_OK || (err = eng_record_next(&iter, &record)) != OT_OK) {
            return wrong(why, "record %zu: %s", i, ot_err_name(err));
        }
        if (i == 0 && record.offset != number(want, "baseOffset", record.offset) && piece->magic < 2) {
            return wrong(why, "the first offset is %lld", (long long)record.offset);
        }
        if (!record_same(json_array_get(records, i), &record, why)) {
            return wrong(why, " in record %zu", i);
        }
    }
    if (err != OT_OK || (err = eng_record_next(&iter, &record)) != OT_ERR_NOT_FOUND) {
        return wrong(why, "behind the last record: %s", ot_err_name(err));
    }
    err = eng_record_open(&iter, decode, piece->data, piece->bytes, 0);
    for (size_t i = 0; i < json_array_size(records); i++) {
        json_t *expected = json_array_get(records, i);
        err = err == OT_OK ? eng_record_skim(&iter, &record) : err;
        if (err != OT_OK || record.offset != number(expected, "offset", -1) ||
            record.timestamp != number(expected, "timestamp", -1)) {
            return wrong(why, "skimming record %zu differs: %s", i, ot_err_name(err));
        }
    }
    return err == OT_OK || wrong(why, "skimming: %s", ot_err_name(err));
}

/* ---- building again ---- */

static struct eng_batch_fields fields_of(const struct eng_batch_info *info)
{
    struct eng_batch_fields fields = eng_batch_fields_default();
    fields.base_offset = info->base_offset;
    fields.producer_id = info->producer_id;
    fields.append_time = info->timestamp_type == ENG_TIMESTAMP_APPEND ? info->max_timestamp : -1;
    fields.delete_horizon_ms = info->has_delete_horizon ? info->base_timestamp : -1;
    fields.last_offset_delta = info->last_offset_delta;
    fields.max_timestamp = info->max_timestamp;
    fields.leader_epoch = info->partition_leader_epoch;
    fields.base_sequence = info->base_sequence;
    fields.producer_epoch = info->producer_epoch;
    fields.codec = info->codec;
    fields.transactional = info->transactional;
    fields.control = info->control;
    return fields;
}

#define HEADERS_MAX 64
static enum ot_err rebuild_record(struct eng_batch_builder *builder, struct eng_record_iter *iter, const struct eng_record *record)
{
    struct eng_record_header headers[HEADERS_MAX];
    struct ot_reader cursor = ot_reader_over(record->headers.data, record->headers.bytes);
    uint32_t count = 0;
    while (count < HEADERS_MAX && eng_record_header(&cursor, &headers[count])) {
        count++;
    }
    /* in an append-time batch the deltas still tell the producer's times */
    int64_t timestamp = record->timestamp;
    if (iter->info.timestamp_type == ENG_TIMESTAMP_APPEND) {
        struct ot_reader raw = ot_reader_over(record->raw.data + 1, record->raw.bytes - 1);
        timestamp = iter->info.base_timestamp + ot_read_varlong(&raw);
    }
    return eng_batch_build_record(builder, record->offset, timestamp, record->key, record->value, headers, count);
}

static enum ot_err build_again(const struct eng_batch_piece *piece, struct eng_sink *sink)
{
    struct eng_record_iter iter;
    struct eng_record record;
    struct eng_batch_builder builder;
    struct eng_decode *other = NULL; /* a context of its own, as a second thread would have */
    eng_decode_trim(decode);
    enum ot_err err = eng_decode_new(batch_vectors_pool(), NULL, &other);
    err = err == OT_OK ? eng_record_open(&iter, other, piece->data, piece->bytes, 0) : err;
    if (err == OT_OK) {
        struct eng_batch_fields fields = fields_of(&iter.info);
        err = eng_batch_build_begin(&builder, &fields, encode, sink);
    }
    while (err == OT_OK && (err = eng_record_next(&iter, &record)) == OT_OK) {
        err = rebuild_record(&builder, &iter, &record);
    }
    err = err == OT_ERR_NOT_FOUND ? eng_batch_build_finish(&builder) : err;
    eng_decode_free(other);
    return err;
}

static struct bytes plain_records(const uint8_t *data, size_t bytes)
{
    struct eng_batch_info info;
    struct bytes out = {NULL, 0};
    const uint8_t *chunk;
    size_t got = 0;
    if (eng_batch_parse(data, bytes, &info) != OT_OK ||
        eng_decode_begin(decode, info.codec, data + ENG_BATCH_HEADER_BYTES, bytes - ENG_BATCH_HEADER_BYTES, false) != OT_OK) {
        return out;
    }
    while (eng_decode_next(decode, &chunk, &got) == OT_OK && got > 0) {
        out.data = realloc(out.data, out.bytes + got);
        OT_ASSERT(out.data != NULL);
        memcpy(out.data + out.bytes, chunk, got);
        out.bytes += got;
    }
    return out;
}

static bool same_plain(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes)
{
    struct bytes left = plain_records(a, a_bytes), right = plain_records(b, b_bytes);
    bool same = left.bytes == right.bytes && (left.bytes == 0 || memcmp(left.data, right.data, left.bytes) == 0);
    free(left.data);
    free(right.data);
    return same;
}

static bool builds_again(const struct eng_batch_piece *piece, bool exact, struct why *why)
{
    struct eng_sink sink;
    struct eng_batch_info info;
    eng_sink_malloc(&sink, (size_t)64 << 20);
    enum ot_err err = build_again(piece, &sink);
    bool same = err == OT_OK;
    if (same && exact) {
        same = sink.bytes == piece->bytes && memcmp(sink.data, piece->data, sink.bytes) == 0;
    } else if (same) {
        same = memcmp(sink.data, piece->data, 8) == 0 && memcmp(sink.data + 21, piece->data + 21, 40) == 0 &&
               eng_batch_parse(sink.data, sink.bytes, &info) == OT_OK && eng_batch_check_crc(sink.data, &info) == OT_OK &&
               same_plain(sink.data, sink.bytes, piece->data, piece->bytes);
    }
    eng_sink_free(&sink);
    return same || wrong(why, "building it again: %s", err == OT_OK ? "other bytes" : ot_err_name(err));
}

static bool reads(json_t *line, struct bytes bytes, struct why *why)
{
    struct ot_reader cursor = ot_reader_over(bytes.data, bytes.bytes);
    json_t *batches = json_object_get(line, "batches");
    struct eng_batch_piece piece;
    struct eng_batch_info info;
    enum ot_err err = OT_OK;
    for (size_t i = 0; i < json_array_size(batches); i++) {
        json_t *want = json_array_get(batches, i);
        if ((err = eng_batch_split(&cursor, &piece)) != OT_OK || (err = eng_batch_parse(piece.data, piece.bytes, &info)) != OT_OK ||
            (err = eng_batch_check_crc(piece.data, &info)) != OT_OK) {
            return wrong(why, "batch %zu: %s", i, ot_err_name(err));
        }
        if (!header_same(want, &info, true, why) || !records_same(want, &piece, why) ||
            (info.magic == 2 &&
                !builds_again(&piece, json_is_true(json_object_get(line, "exact")) || info.codec == ENG_CODEC_NONE, why))) {
            return wrong(why, " in batch %zu", i);
        }
    }
    return (eng_batch_split(&cursor, &piece) == OT_ERR_NOT_FOUND && ot_reader_left(&cursor) == 0) ||
           wrong(why, "more batches than there should be");
}

/* ---- stages ---- */

static bool same_error(const char *want, enum ot_err got)
{
    if (strcmp(want, "UNKNOWN_SERVER_ERROR") == 0) {
        return got == OT_ERR_CORRUPT_MESSAGE || got == OT_ERR_INVALID_RECORD || got == OT_ERR_UNSUPPORTED_COMPRESSION_TYPE;
    }
    return strcmp(want, ot_err_name(got)) == 0;
}

static bool stage_same(json_t *stages, const char *name, enum ot_err got, struct why *why)
{
    json_t *want = json_object_get(stages, name);
    return want == NULL || same_error(json_string_value(want), got) ||
           wrong(why, "%s is %s, not %s", name, ot_err_name(got), json_string_value(want));
}

static enum ot_err take(struct bytes bytes, int16_t version, struct eng_batch_piece *piece, struct eng_batch_verdict *verdict)
{
    struct eng_batch_rules rules = eng_batch_rules_default(0);
    rules.produce_api_version = version;
    return eng_batch_take(bytes.data, bytes.bytes, &rules, piece, verdict);
}

struct walked {
    size_t batches, bytes, records;
    enum ot_err split, crc, iterate;
};

static struct walked walk(struct bytes bytes)
{
    struct walked out = {0};
    struct ot_reader cursor = ot_reader_over(bytes.data, bytes.bytes);
    struct eng_batch_piece piece;
    struct eng_batch_info info;
    struct eng_record_iter iter;
    struct eng_record record;
    while ((out.split = eng_batch_split(&cursor, &piece)) == OT_OK) {
        out.batches++;
        enum ot_err err = eng_batch_parse(piece.data, piece.bytes, &info);
        err = err == OT_OK ? eng_batch_check_crc(piece.data, &info) : OT_ERR_CORRUPT_MESSAGE;
        out.crc = out.crc == OT_OK ? err : out.crc;
        if (out.iterate == OT_OK) {
            out.iterate = eng_record_open(&iter, decode, piece.data, piece.bytes, 0);
            while (out.iterate == OT_OK && (out.iterate = eng_record_next(&iter, &record)) == OT_OK) {
                out.records++;
            }
            out.iterate = out.iterate == OT_ERR_NOT_FOUND ? OT_OK : out.iterate;
        }
    }
    out.split = out.split == OT_ERR_NOT_FOUND ? OT_OK : out.split;
    out.bytes = bytes.bytes - ot_reader_left(&cursor);
    return out;
}

static bool stages_same(json_t *line, struct bytes bytes, struct why *why)
{
    json_t *stages = json_object_get(line, "stages");
    struct eng_batch_piece piece;
    struct eng_batch_verdict verdict;
    if (!stage_same(stages, "produceV3", take(bytes, 3, &piece, &verdict), why) ||
        !stage_same(stages, "produceV13", take(bytes, 13, &piece, &verdict), why)) {
        return false;
    }
    if (json_object_get(stages, "split") == NULL) {
        return true;
    }
    struct walked got = walk(bytes);
    return field_same(stages, "batchesFound", (int64_t)got.batches, why) &&
           field_same(stages, "bytesUsed", (int64_t)got.bytes, why) && stage_same(stages, "split", got.split, why) &&
           stage_same(stages, "crc", got.crc, why) && stage_same(stages, "iterate", got.iterate, why) &&
           field_same(stages, "recordsRead", (int64_t)got.records, why);
}

/* ---- a leader's append ---- */

static struct eng_batch_rules rules_of(json_t *config)
{
    struct eng_batch_rules rules = eng_batch_rules_default(number(config, "now", 0));
    rules.compact_only = strcmp(word(config, "cleanup.policy"), "compact") == 0;
    rules.timestamp_type =
        strcmp(word(config, "message.timestamp.type"), "LogAppendTime") == 0 ? ENG_TIMESTAMP_APPEND : ENG_TIMESTAMP_CREATE;
    rules.timestamp_before_max_ms = number(config, "message.timestamp.before.max.ms", 0);
    rules.timestamp_after_max_ms = number(config, "message.timestamp.after.max.ms", 0);
    rules.max_message_bytes = (int32_t)number(config, "max.message.bytes", 0);
    rules.max_decompressed_bytes = number(config, "max.decompressed.message.bytes", rules.max_decompressed_bytes);
    OT_ASSERT(eng_codec_by_name(word(config, "compression.type"), &rules.compression));
    rules.produce_api_version = 13;
    return rules;
}

/* Through all that a produced batch goes; the stored bytes end in sink. */
static enum ot_err append(struct bytes bytes, const struct eng_batch_rules *rules, json_t *config, struct eng_sink *sink,
    struct eng_batch_verdict *verdict)
{
    struct eng_batch_piece piece;
    enum ot_err err = eng_batch_take(bytes.data, bytes.bytes, rules, &piece, verdict);
    err = err == OT_OK ? eng_batch_check_shallow(piece.data, piece.bytes, rules, verdict) : err;
    err = err == OT_OK && verdict->needs_deep ? eng_batch_check_deep(piece.data, piece.bytes, rules, decode, verdict) : err;
    if (err == OT_OK && verdict->rebuild) {
        err = eng_batch_rebuild(piece.data, piece.bytes, rules, decode, encode, verdict, sink);
    } else if (err == OT_OK) {
        err = eng_sink_write(sink, piece.data, piece.bytes);
        OT_ASSERT(err == OT_OK);
        eng_batch_settle(sink->data, sink->bytes, verdict);
    }
    if (err == OT_OK) {
        eng_batch_stamp(sink->data, number(config, "logEndOffset", 0), (int32_t)number(config, "leaderEpoch", 0));
    }
    return err;
}

static bool stored_same(json_t *want, struct bytes sent, const struct eng_sink *sink, struct why *why)
{
    struct bytes header = hex_bytes(want, "storedHeader"), stored = hex_bytes(want, "stored");
    bool same = true;
    if (json_is_true(json_object_get(want, "bodyUnchanged"))) {
        same = header.bytes == ENG_BATCH_HEADER_BYTES && sink->bytes == sent.bytes &&
               memcmp(sink->data, header.data, header.bytes) == 0 &&
               memcmp(sink->data + header.bytes, sent.data + header.bytes, sent.bytes - header.bytes) == 0;
    } else if (json_string_length(json_object_get(want, "stored")) > 0) {
        same = sink->bytes == stored.bytes && memcmp(sink->data, stored.data, stored.bytes) == 0;
    } else {
        same = same_plain(sink->data, sink->bytes, sent.data, sent.bytes);
    }
    free(header.data);
    free(stored.data);
    return same || wrong(why, "other bytes would be stored");
}

static bool append_same(
    json_t *want, struct bytes sent, const struct eng_sink *sink, const struct eng_batch_verdict *verdict, struct why *why)
{
    struct eng_batch_info info;
    json_t *batches = json_object_get(want, "storedBatches");
    bool same_bytes =
        json_is_true(json_object_get(want, "bodyUnchanged")) || json_string_length(json_object_get(want, "stored")) > 0;
    if (eng_batch_parse(sink->data, sink->bytes, &info) != OT_OK || eng_batch_check_crc(sink->data, &info) != OT_OK ||
        json_array_size(batches) != 1) {
        return wrong(why, "what would be stored is no batch");
    }
    return field_same(want, "firstOffset", info.base_offset, why) &&
           field_same(want, "lastOffset", eng_batch_last_offset(&info), why) &&
           field_same(want, "nextOffset", eng_batch_last_offset(&info) + 1, why) &&
           field_same(want, "maxTimestamp", verdict->max_timestamp, why) &&
           field_same(want, "logAppendTime", verdict->append_time, why) &&
           header_same(json_array_get(batches, 0), &info, same_bytes, why) && stored_same(want, sent, sink, why);
}

static bool appends(json_t *line, struct bytes bytes, struct why *why)
{
    json_t *want = json_object_get(line, "append"), *config = json_object_get(want, "config");
    struct eng_batch_rules rules = rules_of(config);
    struct eng_batch_verdict verdict;
    struct eng_sink sink;
    eng_sink_malloc(&sink, (size_t)64 << 20);
    enum ot_err err = append(bytes, &rules, config, &sink, &verdict);
    const char *final = word(line, "error"), *deep = word(json_object_get(line, "stages"), "iterate");
    bool same = same_error(final[0] == 0 ? word(want, "error") : final, err);
    if (!same && strcmp(final, "NONE") == 0 && deep[0] != 0 && strcmp(deep, "NONE") != 0) {
        same = same_error(deep, err); /* stricter than the leader, which does not read it all */
    }
    if (!same) {
        (void)wrong(why, "append gives %s (%s), not %s", ot_err_name(err), verdict.text, final);
    } else if (err == OT_OK) {
        same = append_same(want, bytes, &sink, &verdict, why);
    } else if (verdict.text[0] == 0 || verdict.err != err) {
        same = wrong(why, "refused without a word");
    }
    eng_sink_free(&sink);
    return same;
}

bool batch_vector_check(json_t *line, char *why_text, size_t why_bytes)
{
    struct why why = {why_text, why_bytes};
    struct bytes bytes = hex_bytes(line, "hex");
    why_text[0] = 0;
    (void)batch_vectors_pool();
    bool known = json_object_get(line, "batches") != NULL || json_object_get(line, "stages") != NULL;
    bool good = (known || wrong(&why, "nothing here checks this kind")) &&
                (json_object_get(line, "batches") == NULL || reads(line, bytes, &why)) &&
                (json_object_get(line, "stages") == NULL || stages_same(line, bytes, &why)) &&
                (json_object_get(line, "append") == NULL || appends(line, bytes, &why));
    if (!good) {
        (void)wrong(&why, " [%s %s]", word(line, "id"), word(line, "desc"));
    }
    free(bytes.data);
    return good;
}
