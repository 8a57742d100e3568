/* Batch headers: parse, checksum, split, stamp. The byte table is in the header file. Nothing here follows a length before it
 * was compared with what is there; a batch whose CRC is right can still lie about everything under it, which
 * engine/batch_check.c finds out. */
#include "engine/batch.h"
#include "base/util.h"
#include "engine/record.h"

#include <string.h>
#include <zlib.h>

#define LEGACY_BODY_BYTES_MIN    14 /* magic 0 behind offset and size; the least length of anything */
#define LEGACY_V1_BODY_BYTES_MIN 22
#define ATTRIBUTE_CODEC          0x07
#define ATTRIBUTE_APPEND_TIME    0x08
#define ATTRIBUTE_TRANSACTIONAL  0x10
#define ATTRIBUTE_CONTROL        0x20
#define ATTRIBUTE_DELETE_HORIZON 0x40

int32_t eng_sequence_add(int32_t sequence, int32_t count)
{
    return (int32_t)(((uint32_t)sequence + (uint32_t)count) & INT32_MAX);
}

int32_t eng_batch_last_sequence(const struct eng_batch_info *info)
{
    return info->base_sequence < 0 ? -1 : eng_sequence_add(info->base_sequence, info->last_offset_delta);
}

enum ot_err eng_batch_bytes(const uint8_t *data, size_t bytes, int64_t *batch_bytes_out, int8_t *magic_out)
{
    if (bytes < ENG_BATCH_PREFIX_BYTES) {
        return OT_ERR_SHORT;
    }
    int32_t length = ot_load_i32(data + 8);
    int8_t magic = (int8_t)data[16];
    if (length < LEGACY_BODY_BYTES_MIN || length > INT32_MAX - 12 || magic < 0 || magic > 2) {
        return OT_ERR_CORRUPT_MESSAGE;
    }
    *batch_bytes_out = (int64_t)length + 12;
    *magic_out = magic;
    return OT_OK;
}

static void parse_v2(const uint8_t *data, struct eng_batch_info *out)
{
    out->partition_leader_epoch = ot_load_i32(data + 12);
    out->crc = ot_load_u32(data + ENG_BATCH_CRC_POS);
    out->attributes = ot_load_i16(data + 21);
    out->last_offset_delta = ot_load_i32(data + 23);
    out->base_timestamp = ot_load_i64(data + 27);
    out->max_timestamp = ot_load_i64(data + 35);
    out->producer_id = ot_load_i64(data + 43);
    out->producer_epoch = ot_load_i16(data + 51);
    out->base_sequence = ot_load_i32(data + 53);
    out->record_count = ot_load_i32(data + 57);
    out->timestamp_type = (out->attributes & ATTRIBUTE_APPEND_TIME) != 0 ? ENG_TIMESTAMP_APPEND : ENG_TIMESTAMP_CREATE;
    out->transactional = (out->attributes & ATTRIBUTE_TRANSACTIONAL) != 0;
    out->control = (out->attributes & ATTRIBUTE_CONTROL) != 0;
    out->has_delete_horizon = (out->attributes & ATTRIBUTE_DELETE_HORIZON) != 0;
}

static void parse_legacy(const uint8_t *data, struct eng_batch_info *out)
{
    out->crc = ot_load_u32(data + 12);
    out->attributes = data[17];
    out->partition_leader_epoch = out->record_count = out->last_offset_delta = out->base_sequence = -1;
    out->producer_id = out->producer_epoch = -1;
    out->base_timestamp = out->max_timestamp = out->magic == 1 ? ot_load_i64(data + 18) : -1;
    bool append_time = (out->attributes & ATTRIBUTE_APPEND_TIME) != 0;
    out->timestamp_type = out->magic == 0 ? ENG_TIMESTAMP_NONE : append_time ? ENG_TIMESTAMP_APPEND : ENG_TIMESTAMP_CREATE;
}

enum ot_err eng_batch_parse(const uint8_t *data, size_t bytes, struct eng_batch_info *out)
{
    memset(out, 0, sizeof(*out));
    enum ot_err err = eng_batch_bytes(data, bytes, &out->batch_bytes, &out->magic);
    if (err != OT_OK) {
        return err;
    }
    int64_t least = out->magic == 2 ? (int64_t)ENG_BATCH_HEADER_BYTES
                                    : 12 + (out->magic == 1 ? LEGACY_V1_BODY_BYTES_MIN : LEGACY_BODY_BYTES_MIN);
    if (out->batch_bytes < least) {
        return OT_ERR_CORRUPT_MESSAGE;
    }
    if ((int64_t)bytes < least) {
        return OT_ERR_SHORT;
    }
    out->base_offset = ot_load_i64(data);
    if (out->magic == 2) {
        parse_v2(data, out);
    } else {
        parse_legacy(data, out);
    }
    out->codec = (enum eng_codec)(out->attributes & ATTRIBUTE_CODEC);
    return OT_OK;
}

enum ot_err eng_batch_check_crc(const uint8_t *data, const struct eng_batch_info *info)
{
    size_t bytes = (size_t)info->batch_bytes;
    uint32_t crc = info->magic == 2 ? ot_crc32c(0, data + ENG_BATCH_CRC_FROM, bytes - ENG_BATCH_CRC_FROM)
                                    : (uint32_t)crc32_z(0, data + 16, bytes - 16);
    return crc == info->crc ? OT_OK : OT_ERR_CORRUPT_MESSAGE;
}

enum ot_err eng_batch_split(struct ot_reader *cursor, struct eng_batch_piece *piece_out)
{
    int64_t batch_bytes = 0;
    int8_t magic = 0;
    if (ot_reader_left(cursor) >= 12) {
        /* Kafka looks at the length before it needs the magic: a bad one is told even when the rest is missing */
        int32_t length = ot_load_i32(cursor->at + 8);
        if (length < LEGACY_BODY_BYTES_MIN) {
            return OT_ERR_CORRUPT_MESSAGE;
        }
    }
    enum ot_err err = eng_batch_bytes(cursor->at, ot_reader_left(cursor), &batch_bytes, &magic);
    if (err == OT_ERR_SHORT || (err == OT_OK && batch_bytes > (int64_t)ot_reader_left(cursor))) {
        return OT_ERR_NOT_FOUND;
    }
    if (err == OT_OK) {
        *piece_out = (struct eng_batch_piece){cursor->at, (uint32_t)batch_bytes, magic};
        cursor->at += batch_bytes;
    }
    return err;
}

void eng_batch_settle(uint8_t *data, size_t bytes, const struct eng_batch_verdict *verdict)
{
    if (!verdict->restamp) {
        return;
    }
    bool append_time = verdict->timestamp_type == ENG_TIMESTAMP_APPEND;
    int attributes = (verdict->info.attributes & ~ATTRIBUTE_APPEND_TIME) | (append_time ? ATTRIBUTE_APPEND_TIME : 0);
    ot_store_u16(data + 21, (uint16_t)attributes);
    ot_store_u64(data + 35, (uint64_t)verdict->max_timestamp);
    ot_store_u32(data + ENG_BATCH_CRC_POS, ot_crc32c(0, data + ENG_BATCH_CRC_FROM, bytes - ENG_BATCH_CRC_FROM));
}

void eng_batch_stamp(uint8_t *data, int64_t base_offset, int32_t leader_epoch)
{
    ot_store_u64(data, (uint64_t)base_offset);
    ot_store_u32(data + 12, (uint32_t)leader_epoch);
}

/* key: int16 version, int16 type (0 abort, 1 commit); value: int16 version, int32 coordinator epoch */
void eng_batch_marker(const uint8_t *data, const struct eng_batch_info *info, struct eng_marker *out)
{
    struct eng_record_iter iter;
    struct eng_record record;
    *out = (struct eng_marker){.coordinator_epoch = -1};
    if (!info->control || info->codec != ENG_CODEC_NONE ||
        eng_record_open(&iter, NULL, data, (size_t)info->batch_bytes, 0) != OT_OK || eng_record_next(&iter, &record) != OT_OK ||
        record.key.bytes < 4) {
        return;
    }
    int16_t type = ot_load_i16(record.key.data + 2);
    out->is_marker = type == 0 || type == 1;
    out->commit = type == 1;
    if (out->is_marker && record.value.bytes >= 6) {
        out->coordinator_epoch = ot_load_i32(record.value.data + 2);
    }
}
