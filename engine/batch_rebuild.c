/* Another codec, because compression.type says so. Records are carried over byte for byte through the window, so a batch that
 * unfolds to gigabytes costs one window and stops at max.message.bytes of output. Only where an uncompressed batch had odd
 * offset deltas are they renumbered, as Kafka does. */
#include "base/util.h"
#include "engine/batch.h"
#include "engine/record.h"
#include "engine/record_frame.h"

#include <stdio.h>
#include <string.h>

#define ATTRIBUTES_KEPT 0x30 /* transactional, control; neither delete horizon nor unused bits */

/* One record with its index as offset delta; everything behind the delta stays. */
static enum ot_err renumber(struct eng_encode *encode, const struct eng_record *record)
{
    const uint8_t *at = record->raw.data + 1, *end = record->raw.data + record->raw.bytes;
    int64_t timestamp_delta;
    int32_t offset_delta;
    bool parsed = eng_frame_varlong(&at, end, &timestamp_delta) && eng_frame_varint(&at, end, &offset_delta);
    OT_ASSERT(parsed); /* eng_record_next took it apart already */
    size_t tail_bytes = (size_t)(end - at);
    size_t body_bytes = 1 + ot_varlong_bytes(timestamp_delta) + ot_varint_bytes(record->index) + tail_bytes;
    uint8_t head[32];
    struct ot_writer w = ot_writer_over(head, sizeof(head));
    ot_write_varint(&w, (int32_t)body_bytes);
    ot_write_u8(&w, (uint8_t)record->attributes);
    ot_write_varlong(&w, timestamp_delta);
    ot_write_varint(&w, record->index);
    enum ot_err err = eng_encode_write(encode, head, w.needed);
    return err == OT_OK ? eng_encode_write(encode, at, tail_bytes) : err;
}

static enum ot_err carry_renumbered(const uint8_t *data, size_t bytes, struct eng_encode *encode)
{
    struct eng_record_iter iter;
    struct eng_record record;
    enum ot_err err = eng_record_open(&iter, NULL, data, bytes, 0);
    while (err == OT_OK && (err = eng_record_next(&iter, &record)) == OT_OK) {
        err = renumber(encode, &record);
    }
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

static enum ot_err carry_over(
    const uint8_t *data, size_t bytes, enum eng_codec codec, struct eng_decode *decode, struct eng_encode *encode)
{
    const uint8_t *chunk = data + ENG_BATCH_HEADER_BYTES;
    size_t got = bytes - ENG_BATCH_HEADER_BYTES;
    if (codec == ENG_CODEC_NONE) {
        return eng_encode_write(encode, chunk, got);
    }
    enum ot_err err = eng_decode_begin(decode, codec, chunk, got, false);
    while (err == OT_OK && (err = eng_decode_next(decode, &chunk, &got)) == OT_OK && got > 0) {
        err = eng_encode_write(encode, chunk, got);
    }
    eng_decode_trim(decode);
    return err;
}

static void header_write(uint8_t *to, const uint8_t *from, size_t bytes, const struct eng_batch_verdict *verdict)
{
    memcpy(to, from, ENG_BATCH_HEADER_BYTES);
    int attributes = (verdict->info.attributes & ATTRIBUTES_KEPT) | (int)verdict->target |
                     (verdict->timestamp_type == ENG_TIMESTAMP_APPEND ? 0x08 : 0);
    eng_batch_stamp(to, 0, -1);
    ot_store_u32(to + 8, (uint32_t)(bytes - 12));
    ot_store_u16(to + 21, (uint16_t)attributes);
    ot_store_u64(to + 35, (uint64_t)verdict->max_timestamp);
    ot_store_u32(to + ENG_BATCH_CRC_POS, ot_crc32c(0, to + ENG_BATCH_CRC_FROM, bytes - ENG_BATCH_CRC_FROM));
}

enum ot_err eng_batch_rebuild(const uint8_t *data, size_t bytes, const struct eng_batch_rules *rules, struct eng_decode *decode,
    struct eng_encode *encode, struct eng_batch_verdict *verdict, struct eng_sink *sink)
{
    OT_ASSERT(verdict->err == OT_OK && verdict->rebuild);
    size_t start = sink->bytes;
    sink->max_bytes = OT_MIN(sink->max_bytes, start + (size_t)OT_MAX(rules->max_message_bytes, 0));
    enum ot_err err = eng_sink_reserve(sink, ENG_BATCH_HEADER_BYTES);
    if (err == OT_OK) {
        sink->bytes += ENG_BATCH_HEADER_BYTES;
        int32_t level = verdict->target == rules->compression ? rules->level : ENG_CODEC_LEVEL_DEFAULT;
        err = eng_encode_begin(encode, verdict->target, level, sink);
    }
    if (err == OT_OK) {
        err = verdict->odd_offsets ? carry_renumbered(data, bytes, encode)
                                   : carry_over(data, bytes, verdict->info.codec, decode, encode);
    }
    err = err == OT_OK ? eng_encode_finish(encode) : err;
    if (err == OT_OK) {
        header_write(sink->data + start, data, sink->bytes - start, verdict);
        verdict->restamp = verdict->odd_offsets = false;
        return eng_batch_parse(sink->data + start, sink->bytes - start, &verdict->info);
    }
    sink->bytes = start;
    verdict->err = err == OT_ERR_TOO_LARGE ? OT_ERR_MESSAGE_TOO_LARGE : err;
    snprintf(verdict->text, sizeof(verdict->text),
        err == OT_ERR_TOO_LARGE ? "the batch is larger than max.message.bytes %d with compression.type %s"
                                : "the batch (max.message.bytes %d) could not be recompressed with %s",
        rules->max_message_bytes, eng_codec_name(verdict->target));
    return verdict->err;
}
