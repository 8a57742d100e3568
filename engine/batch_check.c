/* What a leader asks of a batch before it takes it. The order of checks is Kafka's, since clients see the first error; where
 * Kafka fails by accident (an unknown codec, broken compressed data) the answer here names the cause. */
#include "engine/batch.h"
#include "engine/record.h"
#include "engine/record_frame.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ZSTD_PRODUCE_VERSION_MIN 7

struct eng_batch_rules eng_batch_rules_default(int64_t now_ms)
{
    return (struct eng_batch_rules){.now_ms = now_ms,
        .timestamp_before_max_ms = INT64_MAX,
        .timestamp_after_max_ms = 3600000,
        .max_decompressed_bytes = 2147483639,
        .max_message_bytes = 1048588,
        .level = ENG_CODEC_LEVEL_DEFAULT,
        .compression = ENG_CODEC_PRODUCER,
        .timestamp_type = ENG_TIMESTAMP_CREATE,
        .origin = ENG_ORIGIN_CLIENT,
        .produce_api_version = -1};
}

static enum ot_err refuse(struct eng_batch_verdict *verdict, enum ot_err err, const char *format, ...) OT_PRINTF(3, 4);
static enum ot_err refuse(struct eng_batch_verdict *verdict, enum ot_err err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(verdict->text, sizeof(verdict->text), format, args);
    va_end(args);
    verdict->err = err;
    return err;
}

static void verdict_clear(struct eng_batch_verdict *verdict)
{
    memset(verdict, 0, sizeof(*verdict));
    verdict->max_timestamp = verdict->append_time = -1;
    verdict->max_timestamp_index = -1;
}

/* ---- what Produce may carry ---- */

enum ot_err eng_batch_take(const uint8_t *payload, size_t bytes, const struct eng_batch_rules *rules,
    struct eng_batch_piece *piece_out, struct eng_batch_verdict *verdict)
{
    struct ot_reader cursor = ot_reader_over(payload, bytes);
    struct eng_batch_piece second;
    verdict_clear(verdict);
    enum ot_err err = eng_batch_split(&cursor, piece_out);
    if (err == OT_ERR_NOT_FOUND) {
        return refuse(verdict, OT_ERR_INVALID_RECORD, "no whole record batch in %zu bytes", bytes);
    }
    if (err != OT_OK) {
        return refuse(verdict, err, "the bytes are no record batch: bad length or magic");
    }
    if (piece_out->magic != 2) {
        return refuse(verdict, OT_ERR_INVALID_RECORD, "record format of magic %d: produce takes only magic 2", piece_out->magic);
    }
    if (piece_out->bytes < ENG_BATCH_HEADER_BYTES) {
        return refuse(verdict, OT_ERR_CORRUPT_MESSAGE, "a batch of %u bytes is smaller than its header", piece_out->bytes);
    }
    int codec = piece_out->data[22] & 7;
    if (rules->produce_api_version >= 0 && rules->produce_api_version < ZSTD_PRODUCE_VERSION_MIN && codec >= ENG_CODEC_ZSTD) {
        return refuse(verdict, OT_ERR_UNSUPPORTED_COMPRESSION_TYPE, "produce version %d knows no codec %d",
            rules->produce_api_version, codec);
    }
    err = eng_batch_split(&cursor, &second);
    if (err == OT_ERR_NOT_FOUND) {
        return OT_OK;
    }
    return err == OT_OK ? refuse(verdict, OT_ERR_INVALID_RECORD, "more than one record batch for a partition")
                        : refuse(verdict, err, "the bytes behind the first batch are no record batch");
}

/* ---- records ---- */

/* Kafka's difference wraps; exact arithmetic refuses what cannot be within any allowed distance */
static bool timestamp_in_range(const struct eng_batch_rules *rules, int64_t timestamp)
{
    int64_t behind;
    if (__builtin_sub_overflow(rules->now_ms, timestamp, &behind)) {
        return false;
    }
    return behind <= rules->timestamp_before_max_ms && (behind >= 0 || behind >= -rules->timestamp_after_max_ms);
}

static void record_refuse(struct eng_batch_verdict *verdict, int32_t index, enum ot_err err)
{
    if (verdict->record_error_count < ENG_RECORD_ERRORS_MAX) {
        verdict->record_errors[verdict->record_error_count] = index;
    }
    verdict->record_error_count++;
    if (verdict->err != OT_ERR_INVALID_TIMESTAMP) {
        verdict->err = err; /* one bad timestamp among others decides, as in Kafka */
    }
}

/* The record is whole; is it wanted? Keeps the largest timestamp. */
static void record_check(struct eng_batch_verdict *verdict, const struct eng_batch_rules *rules, int32_t index, int64_t timestamp,
    int32_t offset_delta, bool null_key)
{
    bool append_time = verdict->info.timestamp_type == ENG_TIMESTAMP_APPEND;
    if (OT_UNLIKELY(rules->compact_only && null_key)) {
        if (verdict->text[0] == 0) {
            snprintf(verdict->text, sizeof(verdict->text), "record %d has no key, which a compacted topic needs", index);
        }
        record_refuse(verdict, index, OT_ERR_INVALID_RECORD);
    } else if (rules->timestamp_type == ENG_TIMESTAMP_CREATE && timestamp != -1) {
        if (OT_UNLIKELY(!timestamp_in_range(rules, timestamp))) {
            if (verdict->text[0] == 0) {
                snprintf(verdict->text, sizeof(verdict->text),
                    "timestamp %lld of record %d is too far from the broker's clock, %lld", (long long)timestamp, index,
                    (long long)rules->now_ms);
            }
            record_refuse(verdict, index, OT_ERR_INVALID_TIMESTAMP);
        }
    } else if (append_time) {
        if (verdict->text[0] == 0) {
            snprintf(verdict->text, sizeof(verdict->text), "a producer may not set the timestamp type to append time");
        }
        record_refuse(verdict, index, OT_ERR_INVALID_TIMESTAMP);
    }
    if (timestamp > verdict->max_timestamp) {
        verdict->max_timestamp = timestamp;
        verdict->max_timestamp_index = index;
    }
    verdict->odd_offsets = verdict->odd_offsets || offset_delta != index;
}

/* after the last record: what will be stored */
static enum ot_err records_done(struct eng_batch_verdict *verdict, const struct eng_batch_rules *rules)
{
    if (verdict->err != OT_OK) {
        return verdict->err;
    }
    verdict->timestamp_type = rules->timestamp_type;
    if (rules->timestamp_type == ENG_TIMESTAMP_APPEND) {
        verdict->max_timestamp = verdict->append_time = rules->now_ms;
        verdict->max_timestamp_index = verdict->info.record_count - 1;
    }
    verdict->restamp =
        verdict->info.timestamp_type != rules->timestamp_type || verdict->info.max_timestamp != verdict->max_timestamp;
    return OT_OK;
}

/* Uncompressed records in place. The whole cost of a common produce besides the CRC. */
static enum ot_err records_walk(
    const uint8_t *data, size_t bytes, const struct eng_batch_rules *rules, struct eng_batch_verdict *verdict)
{
    const uint8_t *at = data + ENG_BATCH_HEADER_BYTES, *end = data + bytes;
    const struct eng_batch_info *info = &verdict->info;
    bool append_time = info->timestamp_type == ENG_TIMESTAMP_APPEND;
    struct eng_frame frame;
    for (int32_t i = 0; i < info->record_count; i++) {
        int32_t length;
        if (!eng_frame_varint(&at, end, &length) || length < 0 || length > end - at ||
            !eng_frame_parse(at, (size_t)length, &frame)) {
            return refuse(verdict, OT_ERR_INVALID_RECORD, "record %d of %d is malformed", i, info->record_count);
        }
        at += length;
        int64_t timestamp =
            append_time ? info->max_timestamp : (int64_t)((uint64_t)info->base_timestamp + (uint64_t)frame.timestamp_delta);
        record_check(verdict, rules, i, timestamp, frame.offset_delta, frame.key.null);
    }
    if (at != end) {
        return refuse(verdict, OT_ERR_INVALID_RECORD, "%td bytes are left behind %d records", end - at, info->record_count);
    }
    return records_done(verdict, rules);
}

/* ---- the header ---- */

/* An LZ4 frame that Kafka's Java reader does not take: linked blocks, a dictionary, a frame to be skipped. Our decoder does, so that it would lie there for others to stumble over. What is no
 * frame at all is found by the decoder. */
static bool lz4_unreadable(const uint8_t *frame, size_t bytes)
{
    enum { MAGIC = 0x184D2204, SKIPPABLE = 0x184D2A50, BLOCKS_INDEPENDENT = 0x20, RESERVED = 0x02, DICTIONARY = 0x01 };
    if (bytes < 5) return false;
    const uint32_t magic = frame[0] | (uint32_t)frame[1] << 8 | (uint32_t)frame[2] << 16 | (uint32_t)frame[3] << 24;
    if ((magic & 0xFFFFFFF0u) == SKIPPABLE) return true;
    return magic == MAGIC && ((frame[4] & BLOCKS_INDEPENDENT) == 0 || (frame[4] & (RESERVED | DICTIONARY)) != 0);
}

static enum ot_err header_check(const uint8_t *data, size_t bytes, const struct eng_batch_rules *rules, struct eng_batch_verdict *verdict)
{
    const struct eng_batch_info *info = &verdict->info;
    if (info->record_count <= 0 || info->last_offset_delta < 0 || (int64_t)info->last_offset_delta + 1 != info->record_count) {
        return refuse(verdict, OT_ERR_INVALID_RECORD, "record count %d does not fit last offset delta %d", info->record_count,
            info->last_offset_delta);
    }
    if (rules->origin == ENG_ORIGIN_CLIENT && info->control) {
        return refuse(verdict, OT_ERR_INVALID_RECORD, "clients may not write control records");
    }
    if (rules->origin == ENG_ORIGIN_CLIENT && info->producer_id >= 0 && info->base_sequence < 0) {
        return refuse(verdict, OT_ERR_INVALID_RECORD, "producer id %lld comes without a sequence", (long long)info->producer_id);
    }
    if (!eng_batch_codec_known(info)) {
        return refuse(verdict, OT_ERR_UNSUPPORTED_COMPRESSION_TYPE, "unknown codec %d", (int)info->codec);
    }
    if (info->codec == ENG_CODEC_LZ4 && lz4_unreadable(data + ENG_BATCH_HEADER_BYTES, bytes - ENG_BATCH_HEADER_BYTES)) {
        return refuse(verdict, OT_ERR_INVALID_RECORD, "an lz4 frame with linked blocks or a dictionary: Kafka's clients read independent blocks only");
    }
    return OT_OK;
}

/* whole, of the right magic, not too large, unharmed */
static enum ot_err envelope_check(
    const uint8_t *data, size_t bytes, const struct eng_batch_rules *rules, struct eng_batch_verdict *verdict)
{
    struct eng_batch_info *info = &verdict->info;
    enum ot_err err = eng_batch_parse(data, bytes, info);
    if (err != OT_OK || info->batch_bytes != (int64_t)bytes) {
        return refuse(verdict, OT_ERR_CORRUPT_MESSAGE, "%zu bytes are no whole record batch", bytes);
    }
    if (info->magic != 2) {
        return refuse(verdict, OT_ERR_INVALID_RECORD, "record format of magic %d is read, not written", info->magic);
    }
    if (rules->origin == ENG_ORIGIN_CLIENT && info->base_offset != 0) {
        return refuse(
            verdict, OT_ERR_INVALID_RECORD, "base offset %lld: a producer's batch begins at 0", (long long)info->base_offset);
    }
    if (rules->origin != ENG_ORIGIN_REPLICATION && (int64_t)bytes > rules->max_message_bytes) {
        return refuse(
            verdict, OT_ERR_MESSAGE_TOO_LARGE, "the batch has %zu bytes, max.message.bytes is %d", bytes, rules->max_message_bytes);
    }
    if (eng_batch_check_crc(data, info) != OT_OK) {
        return refuse(verdict, OT_ERR_CORRUPT_MESSAGE, "the checksum of the batch is wrong");
    }
    return OT_OK;
}

enum ot_err eng_batch_check_shallow(
    const uint8_t *data, size_t bytes, const struct eng_batch_rules *rules, struct eng_batch_verdict *verdict)
{
    verdict_clear(verdict);
    enum ot_err err = envelope_check(data, bytes, rules, verdict);
    struct eng_batch_info *info = &verdict->info;
    if (err != OT_OK) {
        return err;
    }
    if (rules->origin == ENG_ORIGIN_REPLICATION) {
        verdict->target = info->codec;
        verdict->timestamp_type = info->timestamp_type;
        verdict->max_timestamp = info->max_timestamp;
        verdict->max_timestamp_index = OT_MAX(info->last_offset_delta, 0);
        return info->last_offset_delta < 0 || info->record_count < 0
                   ? refuse(verdict, OT_ERR_CORRUPT_MESSAGE, "record count %d or last offset delta %d is negative",
                         info->record_count, info->last_offset_delta)
                   : OT_OK;
    }
    if ((err = header_check(data, bytes, rules, verdict)) != OT_OK) {
        return err;
    }
    bool plain = info->codec == ENG_CODEC_NONE;
    bool kept = rules->compression == ENG_CODEC_PRODUCER || (info->control && plain);
    verdict->target = kept ? info->codec : rules->compression;
    verdict->rebuild = verdict->target != info->codec;
    verdict->needs_deep = !plain || verdict->rebuild;
    return plain ? records_walk(data, bytes, rules, verdict) : OT_OK;
}

/* ---- compressed records ---- */

static enum ot_err deep_refuse(struct eng_batch_verdict *verdict, enum ot_err err, int32_t index)
{
    switch (err) {
    case OT_ERR_CORRUPT_MESSAGE:
        return refuse(verdict, err, "the %s data is damaged at record %d", eng_codec_name(verdict->info.codec), index);
    case OT_ERR_NO_MEMORY: return refuse(verdict, err, "no memory to decode the batch now");
    default: return refuse(verdict, err, "record %d of %d is malformed, too large or misplaced", index, verdict->info.record_count);
    }
}

enum ot_err eng_batch_check_deep(const uint8_t *data, size_t bytes, const struct eng_batch_rules *rules, struct eng_decode *decode,
    struct eng_batch_verdict *verdict)
{
    if (verdict->err != OT_OK || verdict->info.codec == ENG_CODEC_NONE || !verdict->needs_deep) {
        return verdict->err;
    }
    struct eng_record_iter iter;
    struct eng_record record;
    eng_decode_bound(decode, rules->deep_bytes_max);
    enum ot_err err = eng_record_open(&iter, decode, data, bytes, rules->max_decompressed_bytes);
    while (err == OT_OK && (err = eng_record_skim(&iter, &record)) == OT_OK) {
        int32_t offset_delta = (int32_t)(uint32_t)(uint64_t)(record.offset - verdict->info.base_offset);
        record_check(verdict, rules, record.index, record.timestamp, offset_delta, record.key.null);
    }
    eng_decode_trim(decode);
    eng_decode_bound(decode, 0);
    if (err == OT_ERR_BUSY) {
        return err;
    }
    if (err != OT_ERR_NOT_FOUND) {
        return deep_refuse(verdict, err, iter.index);
    }
    if (verdict->odd_offsets && verdict->err == OT_OK) {
        return refuse(verdict, OT_ERR_INVALID_RECORD, "the offset deltas of a compressed batch are not 0, 1, 2");
    }
    return records_done(verdict, rules);
}
