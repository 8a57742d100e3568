#include "rpc/grpc/wire.h"

#include "base/util.h"

#define GROUPS_MAX 16u     /* depth of groups that are passed over: nobody writes them any more */

enum { START_GROUP = 3, END_GROUP = 4 };

static bool value_read(struct ot_reader *reader, uint32_t type, struct rpcg_field *out)
{
    out->type = (enum rpcg_type)type;
    out->value = 0;
    out->bytes = (struct ot_blob){ .null = true };
    if (type == RPCG_VARINT) {
        out->value = ot_read_uvarlong(reader);
    } else if (type == RPCG_FIXED64) {
        out->value = __builtin_bswap64(ot_read_u64(reader));
    } else if (type == RPCG_FIXED32) {
        out->value = __builtin_bswap32(ot_read_u32(reader));
    } else if (type == RPCG_BYTES) {
        const uint64_t bytes = ot_read_uvarlong(reader);
        if (reader->err == OT_OK && bytes > ot_reader_left(reader)) ot_reader_fail(reader, OT_ERR_SHORT);
        const uint8_t *data = reader->err == OT_OK ? ot_read_bytes(reader, (size_t)bytes) : NULL;
        out->bytes = (struct ot_blob){ data, (uint32_t)bytes, false };
    } else {
        ot_reader_fail(reader, OT_ERR_MALFORMED);
    }
    return reader->err == OT_OK;
}

static uint32_t tag_read(struct ot_reader *reader, uint32_t *type_out)
{
    const uint64_t tag = ot_read_uvarlong(reader);
    *type_out = (uint32_t)(tag & 7);
    if (reader->err == OT_OK && (tag >> 3 == 0 || tag >> 3 >= 1u << 29)) ot_reader_fail(reader, OT_ERR_MALFORMED);
    return (uint32_t)(tag >> 3);
}

/* Behind the start of a group: up to its end. */
static void group_pass(struct ot_reader *reader, uint32_t number)
{
    uint32_t open[GROUPS_MAX] = { number }, depth = 1, type;
    struct rpcg_field ignored;
    while (depth > 0 && reader->err == OT_OK) {
        const uint32_t inner = tag_read(reader, &type);
        if (reader->err != OT_OK) return;
        if (type == START_GROUP) {
            if (depth == GROUPS_MAX) ot_reader_fail(reader, OT_ERR_MALFORMED);
            else open[depth++] = inner;
        } else if (type == END_GROUP) {
            if (open[--depth] != inner) ot_reader_fail(reader, OT_ERR_MALFORMED);
        } else {
            (void)value_read(reader, type, &ignored);
        }
    }
}

bool rpcg_field_next(struct ot_reader *reader, struct rpcg_field *out)
{
    uint32_t type;
    while (reader->err == OT_OK && ot_reader_left(reader) > 0) {
        out->number = tag_read(reader, &type);
        if (reader->err != OT_OK) return false;
        if (type != START_GROUP) return value_read(reader, type, out);
        group_pass(reader, out->number);
    }
    return false;
}

int64_t rpcg_field_int(struct ot_reader *reader, const struct rpcg_field *field)
{
    if (field->type != RPCG_VARINT) ot_reader_fail(reader, OT_ERR_MALFORMED);
    return (int64_t)field->value;
}

int32_t rpcg_field_i32(struct ot_reader *reader, const struct rpcg_field *field) { return (int32_t)(uint32_t)rpcg_field_int(reader, field); }

struct ot_blob rpcg_field_bytes(struct ot_reader *reader, const struct rpcg_field *field)
{
    if (field->type != RPCG_BYTES) ot_reader_fail(reader, OT_ERR_MALFORMED);
    return field->bytes;
}

struct ot_str rpcg_field_str(struct ot_reader *reader, const struct rpcg_field *field)
{
    const struct ot_blob bytes = rpcg_field_bytes(reader, field);
    if (bytes.bytes > 0 && !ot_utf8_valid(bytes.data, bytes.bytes)) ot_reader_fail(reader, OT_ERR_MALFORMED);
    return (struct ot_str){ (const char *)bytes.data, bytes.bytes, false };
}

static void put_tag(struct ot_writer *writer, uint32_t number, enum rpcg_type type) { ot_write_uvarint(writer, number << 3 | (uint32_t)type); }

void rpcg_put_int(struct ot_writer *writer, uint32_t number, int64_t value)
{
    if (value == 0) return;
    put_tag(writer, number, RPCG_VARINT);
    ot_write_uvarlong(writer, (uint64_t)value);
}

void rpcg_put_head(struct ot_writer *writer, uint32_t number, size_t bytes)
{
    put_tag(writer, number, RPCG_BYTES);
    ot_write_uvarlong(writer, bytes);
}

void rpcg_put_any_bytes(struct ot_writer *writer, uint32_t number, const void *data, size_t bytes)
{
    rpcg_put_head(writer, number, bytes);
    ot_write_bytes(writer, data, bytes);
}

void rpcg_put_bytes(struct ot_writer *writer, uint32_t number, const void *data, size_t bytes)
{
    if (bytes > 0) rpcg_put_any_bytes(writer, number, data, bytes);
}

void rpcg_put_str(struct ot_writer *writer, uint32_t number, struct ot_str text)
{
    if (!text.null) rpcg_put_bytes(writer, number, text.data, text.bytes);
}

void rpcg_put_text(struct ot_writer *writer, uint32_t number, const char *text) { rpcg_put_str(writer, number, ot_str_of(text)); }

void rpcg_put_message(struct ot_writer *writer, uint32_t number, void (*put)(struct ot_writer *writer, const void *arg), const void *arg)
{
    struct ot_writer measure = ot_writer_over(NULL, 0);
    put(&measure, arg);
    rpcg_put_head(writer, number, measure.needed);
    put(writer, arg);
}

void rpcg_put_i32s(struct ot_writer *writer, uint32_t number, const int32_t *values, int32_t count)
{
    struct ot_writer measure = ot_writer_over(NULL, 0);
    if (count <= 0) return;
    for (int32_t i = 0; i < count; i++) ot_write_uvarlong(&measure, (uint64_t)(int64_t)values[i]);
    rpcg_put_head(writer, number, measure.needed);
    for (int32_t i = 0; i < count; i++) ot_write_uvarlong(writer, (uint64_t)(int64_t)values[i]);
}
