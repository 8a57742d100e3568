/* Build v2 batches. The header is written last: its fields come from the records. */
#include "engine/batch_build.h"
#include "base/util.h"

#include <string.h>

#define ATTRIBUTE_APPEND_TIME    0x08
#define ATTRIBUTE_TRANSACTIONAL  0x10
#define ATTRIBUTE_CONTROL        0x20
#define ATTRIBUTE_DELETE_HORIZON 0x40
#define HEAD_BYTES_MAX           32u /* length, attributes, deltas and key length of a record */

struct eng_batch_fields eng_batch_fields_default(void)
{
    return (struct eng_batch_fields){.producer_id = -1,
        .append_time = -1,
        .delete_horizon_ms = -1,
        .last_offset_delta = -1,
        .max_timestamp = -1,
        .leader_epoch = -1,
        .base_sequence = -1,
        .level = ENG_CODEC_LEVEL_DEFAULT,
        .producer_epoch = -1,
        .codec = ENG_CODEC_NONE};
}

static enum ot_err build_fail(struct eng_batch_builder *builder, enum ot_err err)
{
    if (builder->err == OT_OK) {
        builder->err = err;
    }
    return builder->err;
}

static enum ot_err plain_write(struct eng_batch_builder *builder, const void *data, size_t bytes)
{
    if (builder->err != OT_OK) {
        return builder->err;
    }
    enum ot_err err = builder->fields.codec == ENG_CODEC_NONE ? eng_sink_write(builder->sink, data, bytes)
                                                              : eng_encode_write(builder->encode, data, bytes);
    return err == OT_OK ? OT_OK : build_fail(builder, err);
}

enum ot_err eng_batch_build_begin(
    struct eng_batch_builder *builder, const struct eng_batch_fields *fields, struct eng_encode *encode, struct eng_sink *sink)
{
    *builder = (struct eng_batch_builder){.fields = *fields, .sink = sink, .encode = encode, .start = sink->bytes};
    builder->base_timestamp = builder->max_timestamp = -1;
    builder->last_offset = fields->base_offset - 1;
    enum ot_err err = eng_sink_reserve(sink, ENG_BATCH_HEADER_BYTES);
    if (err != OT_OK) {
        return build_fail(builder, err);
    }
    sink->bytes += ENG_BATCH_HEADER_BYTES;
    if (fields->codec != ENG_CODEC_NONE && (err = eng_encode_begin(encode, fields->codec, fields->level, sink)) != OT_OK) {
        return build_fail(builder, err);
    }
    return OT_OK;
}

static size_t blob_bytes(struct ot_blob blob)
{
    return ot_varint_bytes(blob.null ? -1 : (int32_t)blob.bytes) + (blob.null ? 0 : blob.bytes);
}

/* without the length in front; 0 when it cannot be expressed */
static uint64_t body_bytes(int64_t timestamp_delta, int64_t offset_delta, struct ot_blob key, struct ot_blob value,
    const struct eng_record_header *headers, uint32_t header_count)
{
    if (offset_delta < 0 || offset_delta > INT32_MAX || (!key.null && key.bytes > INT32_MAX) ||
        (!value.null && value.bytes > INT32_MAX) || header_count > INT32_MAX) {
        return 0;
    }
    uint64_t bytes = 1 + ot_varlong_bytes(timestamp_delta) + ot_varint_bytes((int32_t)offset_delta) + blob_bytes(key) +
                     blob_bytes(value) + ot_varint_bytes((int32_t)header_count);
    for (uint32_t i = 0; i < header_count; i++) {
        if (headers[i].key.null || headers[i].key.bytes > INT32_MAX ||
            (!headers[i].value.null && headers[i].value.bytes > INT32_MAX)) {
            return 0;
        }
        bytes += blob_bytes(headers[i].key) + blob_bytes(headers[i].value);
    }
    return bytes > INT32_MAX ? 0 : bytes;
}

static int64_t base_timestamp_of(const struct eng_batch_builder *builder, int64_t timestamp)
{
    if (builder->fields.delete_horizon_ms >= 0) {
        return builder->fields.delete_horizon_ms;
    }
    return builder->record_count == 0 ? timestamp : builder->base_timestamp;
}

size_t eng_batch_build_record_bytes(const struct eng_batch_builder *builder, int64_t offset, int64_t timestamp, struct ot_blob key,
    struct ot_blob value, const struct eng_record_header *headers, uint32_t header_count)
{
    int64_t timestamp_delta = (int64_t)((uint64_t)timestamp - (uint64_t)base_timestamp_of(builder, timestamp));
    uint64_t bytes = body_bytes(
        timestamp_delta, (int64_t)((uint64_t)offset - (uint64_t)builder->fields.base_offset), key, value, headers, header_count);
    return bytes == 0 ? 0 : (size_t)bytes + ot_varint_bytes((int32_t)bytes);
}

static void blob_write(struct eng_batch_builder *builder, struct ot_blob blob)
{
    uint8_t length[8];
    struct ot_writer w = ot_writer_over(length, sizeof(length));
    ot_write_varint(&w, blob.null ? -1 : (int32_t)blob.bytes);
    ot_ignore(plain_write(builder, length, w.needed), "kept in builder->err");
    if (!blob.null && blob.bytes > 0) {
        ot_ignore(plain_write(builder, blob.data, blob.bytes), "kept in builder->err");
    }
}

enum ot_err eng_batch_build_record(struct eng_batch_builder *builder, int64_t offset, int64_t timestamp, struct ot_blob key,
    struct ot_blob value, const struct eng_record_header *headers, uint32_t header_count)
{
    int64_t base_timestamp = base_timestamp_of(builder, timestamp);
    int64_t timestamp_delta = (int64_t)((uint64_t)timestamp - (uint64_t)base_timestamp);
    int64_t offset_delta = (int64_t)((uint64_t)offset - (uint64_t)builder->fields.base_offset);
    uint64_t body = body_bytes(timestamp_delta, offset_delta, key, value, headers, header_count);
    if (builder->err != OT_OK || body == 0 || builder->record_count == INT32_MAX ||
        (builder->record_count > 0 && offset <= builder->last_offset)) {
        return build_fail(builder, OT_ERR_INVALID_RECORD);
    }
    uint8_t head[HEAD_BYTES_MAX];
    struct ot_writer w = ot_writer_over(head, sizeof(head));
    ot_write_varint(&w, (int32_t)body);
    ot_write_u8(&w, 0);
    ot_write_varlong(&w, timestamp_delta);
    ot_write_varint(&w, (int32_t)offset_delta);
    ot_ignore(plain_write(builder, head, w.needed), "kept in builder->err");
    blob_write(builder, key);
    blob_write(builder, value);
    w = ot_writer_over(head, sizeof(head));
    ot_write_varint(&w, (int32_t)header_count);
    ot_ignore(plain_write(builder, head, w.needed), "kept in builder->err");
    for (uint32_t i = 0; i < header_count; i++) {
        blob_write(builder, headers[i].key);
        blob_write(builder, headers[i].value);
    }
    builder->base_timestamp = base_timestamp;
    builder->max_timestamp = OT_MAX(builder->max_timestamp, timestamp);
    builder->last_offset = offset;
    builder->record_count++;
    builder->plain_bytes += body + ot_varint_bytes((int32_t)body);
    return builder->err;
}

enum ot_err eng_batch_build_next(struct eng_batch_builder *builder, int64_t timestamp, struct ot_blob key, struct ot_blob value,
    const struct eng_record_header *headers, uint32_t header_count)
{
    return eng_batch_build_record(builder, builder->last_offset + 1, timestamp, key, value, headers, header_count);
}

static uint16_t attributes_of(const struct eng_batch_fields *fields)
{
    return (uint16_t)((int)fields->codec | (fields->append_time >= 0 ? ATTRIBUTE_APPEND_TIME : 0) |
                      (fields->transactional ? ATTRIBUTE_TRANSACTIONAL : 0) | (fields->control ? ATTRIBUTE_CONTROL : 0) |
                      (fields->delete_horizon_ms >= 0 ? ATTRIBUTE_DELETE_HORIZON : 0));
}

static void header_write(const struct eng_batch_builder *builder, uint8_t *to, size_t bytes)
{
    const struct eng_batch_fields *fields = &builder->fields;
    int64_t last_delta = fields->last_offset_delta >= 0 ? fields->last_offset_delta
                                                        : (int64_t)((uint64_t)builder->last_offset - (uint64_t)fields->base_offset);
    int64_t base_timestamp =
        builder->record_count == 0 && fields->delete_horizon_ms >= 0 ? fields->delete_horizon_ms : builder->base_timestamp;
    int64_t max_timestamp = builder->record_count == 0 ? fields->max_timestamp : builder->max_timestamp;
    ot_store_u64(to, (uint64_t)fields->base_offset);
    ot_store_u32(to + 8, (uint32_t)(bytes - 12));
    ot_store_u32(to + 12, (uint32_t)fields->leader_epoch);
    to[16] = 2;
    ot_store_u16(to + 21, attributes_of(fields));
    ot_store_u32(to + 23, (uint32_t)last_delta);
    ot_store_u64(to + 27, (uint64_t)base_timestamp);
    ot_store_u64(to + 35, (uint64_t)(fields->append_time >= 0 ? fields->append_time : max_timestamp));
    ot_store_u64(to + 43, (uint64_t)fields->producer_id);
    ot_store_u16(to + 51, (uint16_t)fields->producer_epoch);
    ot_store_u32(to + 53, (uint32_t)fields->base_sequence);
    ot_store_u32(to + 57, (uint32_t)builder->record_count);
    ot_store_u32(to + ENG_BATCH_CRC_POS, ot_crc32c(0, to + ENG_BATCH_CRC_FROM, bytes - ENG_BATCH_CRC_FROM));
}

enum ot_err eng_batch_build_finish(struct eng_batch_builder *builder)
{
    enum ot_err err = builder->err;
    if (err == OT_OK && builder->fields.codec != ENG_CODEC_NONE) {
        err = eng_encode_finish(builder->encode);
    }
    if (err == OT_OK && builder->sink->bytes - builder->start > INT32_MAX) {
        err = OT_ERR_TOO_LARGE;
    }
    if (err != OT_OK) {
        return build_fail(builder, err);
    }
    header_write(builder, builder->sink->data + builder->start, builder->sink->bytes - builder->start);
    return OT_OK;
}

size_t eng_batch_build_marker(uint8_t out[ENG_MARKER_BYTES], int64_t producer_id, int16_t producer_epoch, int32_t leader_epoch,
    int32_t coordinator_epoch, bool commit, int64_t timestamp_ms)
{
    struct eng_batch_fields fields = eng_batch_fields_default();
    fields.producer_id = producer_id;
    fields.producer_epoch = producer_epoch;
    fields.leader_epoch = leader_epoch;
    fields.transactional = fields.control = true;
    uint8_t key[4] = {0, 0, 0, commit}, value[6] = {0};
    ot_store_u32(value + 2, (uint32_t)coordinator_epoch);
    struct eng_sink sink;
    struct eng_batch_builder builder;
    eng_sink_over(&sink, out, ENG_MARKER_BYTES);
    enum ot_err err = eng_batch_build_begin(&builder, &fields, NULL, &sink);
    err = err != OT_OK ? err
                       : eng_batch_build_next(&builder, timestamp_ms, (struct ot_blob){key, sizeof(key), false},
                             (struct ot_blob){value, sizeof(value), false}, NULL, 0);
    err = err != OT_OK ? err : eng_batch_build_finish(&builder);
    OT_ASSERT(err == OT_OK && sink.bytes == ENG_MARKER_BYTES); /* the size is fixed by the format */
    return sink.bytes;
}
