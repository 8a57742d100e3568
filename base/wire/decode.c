/* Reading messages by their programs.
 *
 * Nothing here trusts a byte: every read looks at the bytes left first, a length must fit into them, and an array is
 * allocated only when its elements could all be there (count times the least bytes of one element). Depth is the schema's,
 * which the generator keeps finite. */
#include "base/wire/internal.h"
#include <string.h>

struct decoder {
    const uint8_t *at, *end;
    const struct ot_wire_message *message;
    struct ot_arena *arena;
    struct ot_wire_error *error;
    enum ot_err err;
};
struct target { /* the field at hand */
    const struct ot_wire_program *program;
    const struct ot_wire_op *op;
    const struct ot_wire_place *place;
};

static bool decode_struct(
    struct decoder *d, const struct ot_wire_program *program, uint8_t *record, const struct ot_wire_place *place);

__attribute__((cold, format(printf, 4, 5))) static bool fail(
    struct decoder *d, const struct target *t, enum ot_err err, const char *format, ...)
{
    const struct ot_wire_field *field = t->op == NULL ? NULL : ot_wire_field_of(d->message, t->program, t->op);
    va_list arguments;
    va_start(arguments, format);
    ot_wire_error_fill(d->error, t->place, field, format, arguments);
    va_end(arguments);
    d->err = err;
    return false;
}

static inline size_t left(const struct decoder *d)
{
    return (size_t)(d->end - d->at);
}

__attribute__((cold)) static bool fail_short(struct decoder *d, const struct target *t, size_t wanted)
{
    return fail(d, t, OT_ERR_SHORT, "%zu bytes wanted, but %zu left", wanted, left(d));
}

static bool read_uvarint_long(struct decoder *d, const struct target *t, uint32_t *out)
{
    uint32_t value = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
        if (d->at == d->end) {
            return fail_short(d, t, 1);
        }
        uint8_t byte = *d->at++;
        if (shift == 28 && byte > 0x0f) {
            break;
        }
        value |= (uint32_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = value;
            return true;
        }
    }
    return fail(d, t, OT_ERR_MALFORMED, "varint above 32 bits");
}

static inline bool read_uvarint(struct decoder *d, const struct target *t, uint32_t *out)
{
    if (OT_LIKELY(d->at != d->end && *d->at < 0x80)) {
        *out = *d->at++;
        return true;
    }
    return read_uvarint_long(d, t, out);
}

/* -1 is null, and allowed here. plain_bytes: width of the length in versions that are not flexible. */
static inline bool read_length(struct decoder *d, const struct target *t, size_t plain_bytes, int64_t *out)
{
    int64_t length = 0;
    if (t->op->flags & OT_WIRE_COMPACT) {
        uint32_t value = 0;
        if (!read_uvarint(d, t, &value)) {
            return false;
        }
        length = (int64_t)value - 1;
    } else {
        if (left(d) < plain_bytes) {
            return fail_short(d, t, plain_bytes);
        }
        length = plain_bytes == 2 ? ot_load_i16(d->at) : ot_load_i32(d->at);
        d->at += plain_bytes;
    }
    if (OT_UNLIKELY(length < 0)) {
        if (length < -1) {
            return fail(d, t, OT_ERR_MALFORMED, "negative length %lld", (long long)length);
        }
        if (!(t->op->flags & OT_WIRE_NULLABLE)) {
            return fail(d, t, OT_ERR_MALFORMED, "null where this version allows none");
        }
    }
    *out = length;
    return true;
}

static inline bool read_blob(struct decoder *d, const struct target *t, struct ot_blob *out)
{
    int64_t length = 0;
    if (!read_length(d, t, 4, &length)) {
        return false;
    }
    if (length < 0) {
        *out = (struct ot_blob){NULL, 0, true};
        return true;
    }
    if ((uint64_t)length > left(d)) {
        return fail_short(d, t, (size_t)length);
    }
    *out = (struct ot_blob){d->at, (uint32_t)length, false};
    d->at += length;
    return true;
}

static inline bool read_str(struct decoder *d, const struct target *t, struct ot_str *out)
{
    int64_t length = 0;
    if (!read_length(d, t, 2, &length)) {
        return false;
    }
    if (length < 0) {
        *out = (struct ot_str){NULL, 0, true};
        return true;
    }
    if (length > OT_WIRE_TEXT_BYTES_MAX) {
        return fail(d, t, OT_ERR_MALFORMED, "text of %lld bytes, at most %u", (long long)length, OT_WIRE_TEXT_BYTES_MAX);
    }
    if ((uint64_t)length > left(d)) {
        return fail_short(d, t, (size_t)length);
    }
    *out = (struct ot_str){(const char *)d->at, (uint32_t)length, false};
    d->at += length;
    return true;
}

/* ---- arrays */

/* Reads the count and makes room. With no elements, or null, *out is complete and NULL is left in items. */
static bool array_begin(
    struct decoder *d, const struct target *t, size_t wire_bytes_min, size_t item_bytes, struct ot_wire_array *out)
{
    int64_t count = 0;
    if (!read_length(d, t, 4, &count)) {
        return false;
    }
    *out = (struct ot_wire_array){NULL, (int32_t)count};
    if (count <= 0) {
        return true;
    }
    if (count > OT_DECODE_LIMIT_MAX_ARRAY_LENGTH) {
        return fail(d, t, OT_ERR_TOO_LARGE, "%lld elements, at most %d", (long long)count, OT_DECODE_LIMIT_MAX_ARRAY_LENGTH);
    }
    if ((size_t)count > left(d) / wire_bytes_min) {
        return fail(d, t, OT_ERR_SHORT, "%lld elements, but %zu bytes left", (long long)count, left(d));
    }
    out->items = ot_arena_array(d->arena, (size_t)count, item_bytes);
    if (out->items == NULL) {
        out->count = 0;
        return fail(d, t, OT_ERR_NO_MEMORY, "%lld elements do not fit into the memory of this request", (long long)count);
    }
    return true;
}

static bool decode_structs(struct decoder *d, const struct target *t, struct ot_wire_array *out)
{
    const struct ot_wire_program *element = &d->message->programs[t->op->program];
    size_t bytes = d->message->structs[element->struct_index].bytes;
    if (!array_begin(d, t, element->bytes_min, bytes, out)) {
        return false;
    }
    struct ot_wire_place place = {t->place, ot_wire_field_of(d->message, t->program, t->op), 0};
    uint8_t *item = out->items;
    for (; place.index < out->count; place.index++, item += bytes) {
        if (!decode_struct(d, element, item, &place)) {
            return false;
        }
    }
    return true;
}

static bool decode_fixed_array(struct decoder *d, const struct target *t, size_t bytes, struct ot_wire_array *out)
{
    if (!array_begin(d, t, bytes, bytes, out)) {
        return false;
    }
    int32_t count = OT_MAX(out->count, 0);
    const uint8_t *from = d->at;
    switch (bytes) {
    case 2:
        for (int32_t i = 0; i < count; i++) {
            ((uint16_t *)out->items)[i] = ot_load_u16(from + 2 * (size_t)i);
        }
        break;
    case 4:
        for (int32_t i = 0; i < count; i++) {
            ((uint32_t *)out->items)[i] = ot_load_u32(from + 4 * (size_t)i);
        }
        break;
    case 8:
        for (int32_t i = 0; i < count; i++) {
            ((uint64_t *)out->items)[i] = ot_load_u64(from + 8 * (size_t)i);
        }
        break;
    default:
        if (count > 0) {
            memcpy(out->items, from, (size_t)count * bytes);
        }
    }
    d->at += (size_t)count * bytes;
    return true;
}

static bool decode_bools(struct decoder *d, const struct target *t, struct ot_wire_array *out)
{
    if (!array_begin(d, t, 1, sizeof(bool), out)) {
        return false;
    }
    for (int32_t i = 0; i < out->count; i++) {
        ((bool *)out->items)[i] = *d->at++ != 0;
    }
    return true;
}

static bool decode_texts(struct decoder *d, const struct target *t, bool blobs, struct ot_wire_array *out)
{
    bool compact = t->op->flags & OT_WIRE_COMPACT;
    OT_STATIC_ASSERT(sizeof(struct ot_str) == sizeof(struct ot_blob), "one size of item");
    if (!array_begin(d, t, compact ? 1 : blobs ? 4 : 2, sizeof(struct ot_str), out)) {
        return false;
    }
    struct ot_wire_op element_op = *t->op;
    element_op.flags = compact ? OT_WIRE_COMPACT : 0;
    struct target element = {t->program, &element_op, t->place};
    for (int32_t i = 0; i < out->count; i++) {
        if (!(blobs ? read_blob(d, &element, &((struct ot_blob *)out->items)[i])
                    : read_str(d, &element, &((struct ot_str *)out->items)[i]))) {
            return false;
        }
    }
    return true;
}

/* ---- structs */

static bool decode_pointer(struct decoder *d, const struct target *t, const void **out)
{
    const struct ot_wire_program *program = &d->message->programs[t->op->program];
    if (t->op->flags & OT_WIRE_NULLABLE) {
        if (left(d) < 1) {
            return fail_short(d, t, 1);
        }
        int8_t mark = (int8_t)*d->at++;
        if (mark == -1) {
            *out = NULL;
            return true;
        }
        if (mark != 1) {
            return fail(d, t, OT_ERR_MALFORMED, "mark %d where 1 or -1 must be", mark);
        }
    }
    void *record = ot_arena_alloc(d->arena, d->message->structs[program->struct_index].bytes);
    if (record == NULL) {
        return fail(d, t, OT_ERR_NO_MEMORY, "no room left in the memory of this request");
    }
    struct ot_wire_place place = {t->place, ot_wire_field_of(d->message, t->program, t->op), -1};
    *out = record;
    return decode_struct(d, program, record, &place);
}

static bool decode_nested(struct decoder *d, const struct target *t, uint8_t *record)
{
    struct ot_wire_place place = {t->place, ot_wire_field_of(d->message, t->program, t->op), -1};
    return decode_struct(d, &d->message->programs[t->op->program], record, &place);
}

#define NEED(n)                                                                                                                    \
    if (OT_UNLIKELY(left(d) < (n))) {                                                                                              \
        return fail_short(d, t, n);                                                                                                \
    }

static inline bool decode_field(struct decoder *d, const struct target *t, uint8_t *to)
{
    switch ((enum ot_wire_op_code)t->op->code) {
    case OT_WIRE_OP_BOOL:
        NEED(1)
        *(bool *)to = *d->at++ != 0;
        return true;
    case OT_WIRE_OP_8:
        NEED(1)
        *to = *d->at++;
        return true;
    case OT_WIRE_OP_16:
        NEED(2)
        *(uint16_t *)(void *)to = ot_load_u16(d->at);
        d->at += 2;
        return true;
    case OT_WIRE_OP_32:
        NEED(4)
        *(uint32_t *)(void *)to = ot_load_u32(d->at);
        d->at += 4;
        return true;
    case OT_WIRE_OP_64:
        NEED(8)
        *(uint64_t *)(void *)to = ot_load_u64(d->at);
        d->at += 8;
        return true;
    case OT_WIRE_OP_UUID:
        NEED(16)
        memcpy(to, d->at, 16);
        d->at += 16;
        return true;
    case OT_WIRE_OP_STR: return read_str(d, t, (struct ot_str *)(void *)to);
    case OT_WIRE_OP_BYTES:
    case OT_WIRE_OP_RECORDS: return read_blob(d, t, (struct ot_blob *)(void *)to);
    case OT_WIRE_OP_STRUCT: return decode_nested(d, t, to);
    case OT_WIRE_OP_POINTER: return decode_pointer(d, t, (const void **)(void *)to);
    case OT_WIRE_OP_BOOLS: return decode_bools(d, t, (struct ot_wire_array *)(void *)to);
    case OT_WIRE_OP_8S: return decode_fixed_array(d, t, 1, (struct ot_wire_array *)(void *)to);
    case OT_WIRE_OP_16S: return decode_fixed_array(d, t, 2, (struct ot_wire_array *)(void *)to);
    case OT_WIRE_OP_32S: return decode_fixed_array(d, t, 4, (struct ot_wire_array *)(void *)to);
    case OT_WIRE_OP_64S: return decode_fixed_array(d, t, 8, (struct ot_wire_array *)(void *)to);
    case OT_WIRE_OP_UUIDS: return decode_fixed_array(d, t, 16, (struct ot_wire_array *)(void *)to);
    case OT_WIRE_OP_STRS: return decode_texts(d, t, false, (struct ot_wire_array *)(void *)to);
    case OT_WIRE_OP_BYTESS: return decode_texts(d, t, true, (struct ot_wire_array *)(void *)to);
    case OT_WIRE_OP_STRUCTS: return decode_structs(d, t, (struct ot_wire_array *)(void *)to);
    }
    OT_ASSERT(!"op code of the generator");
    return false;
}

/* ---- tagged fields: unsigned varint count, then tag, size, data in ascending tag order */

static bool keep_unknown_tag(
    struct decoder *d, const struct target *t, struct ot_wire_tags *tags, uint32_t tag, uint32_t bytes, uint32_t tags_left)
{
    if (tags->items == NULL) {
        tags->items = ot_arena_array(d->arena, tags_left, sizeof *tags->items);
        if (tags->items == NULL) {
            return fail(d, t, OT_ERR_NO_MEMORY, "tagged fields do not fit into the memory of this request");
        }
    }
    tags->items[tags->count++] = (struct ot_wire_tag){tag, {d->at, bytes, false}};
    d->at += bytes;
    return true;
}

static bool decode_tagged(struct decoder *d, const struct target *t, uint8_t *record, uint32_t bytes)
{
    const uint8_t *end = d->end;
    d->end = d->at + bytes;
    if (!decode_field(d, t, record + t->op->offset)) {
        return false;
    }
    if (d->at != d->end) {
        return fail(d, t, OT_ERR_MALFORMED, "%zu bytes left in the tagged field", left(d));
    }
    d->end = end;
    return true;
}

static bool decode_tags(
    struct decoder *d, const struct ot_wire_program *program, uint8_t *record, const struct ot_wire_place *place)
{
    const struct ot_wire_struct *type = &d->message->structs[program->struct_index];
    const struct ot_wire_op *op = d->message->ops + program->op_first + program->plain_count, *op_end = op + program->tagged_count;
    struct target t = {program, NULL, place};
    uint32_t count = 0, tag = 0, bytes = 0;
    int64_t last = -1;
    if (!read_uvarint(d, &t, &count)) {
        return false;
    }
    if (count > OT_DECODE_LIMIT_MAX_TAGGED_FIELD_COUNT) {
        return fail(d, &t, OT_ERR_TOO_LARGE, "%u tagged fields, at most %d", count, OT_DECODE_LIMIT_MAX_TAGGED_FIELD_COUNT);
    }
    if (count > left(d) / 2) {
        return fail(d, &t, OT_ERR_SHORT, "%u tagged fields, but %zu bytes left", count, left(d));
    }
    for (; count > 0; count--, last = tag) {
        if (!read_uvarint(d, &t, &tag) || !read_uvarint(d, &t, &bytes)) {
            return false;
        }
        if (tag <= last) {
            return fail(d, &t, OT_ERR_MALFORMED, "tag %u after tag %lld", tag, (long long)last);
        }
        if (bytes > left(d)) {
            return fail(d, &t, OT_ERR_SHORT, "tag %u of %u bytes, but %zu left", tag, bytes, left(d));
        }
        while (op < op_end && type->fields[op->field].tag < (int64_t)tag) {
            op++;
        }
        if (op < op_end && type->fields[op->field].tag == (int64_t)tag) {
            if (!decode_tagged(d, &(struct target){program, op, place}, record, bytes)) {
                return false;
            }
        } else if (!keep_unknown_tag(d, &t, (struct ot_wire_tags *)(void *)(record + type->tags_offset), tag, bytes, count)) {
            return false;
        }
    }
    return true;
}

/* record is all zero bits, or the image of an enclosing struct */
static bool decode_struct(
    struct decoder *d, const struct ot_wire_program *program, uint8_t *record, const struct ot_wire_place *place)
{
    if (program->flags & OT_WIRE_PREFILL) {
        const struct ot_wire_struct *type = &d->message->structs[program->struct_index];
        memcpy(record, type->image, type->bytes);
    }
    struct target t = {program, d->message->ops + program->op_first, place};
    const struct ot_wire_op *end = t.op + program->plain_count;
    for (; t.op < end; t.op++) {
        if (!decode_field(d, &t, record + t.op->offset)) {
            return false;
        }
    }
    if (!(program->flags & OT_WIRE_FLEXIBLE)) {
        return true;
    }
    if (OT_LIKELY(d->at != d->end && *d->at == 0)) {
        d->at++;
        return true;
    }
    return decode_tags(d, program, record, place);
}

enum ot_err ot_wire_decode(const struct ot_wire_message *message, int16_t version, struct ot_reader *in, struct ot_arena *arena,
    void *out, struct ot_wire_error *error)
{
    struct decoder d = {in->at, in->end, message, arena, error, OT_OK};
    const struct ot_wire_program *program = ot_wire_program_of(message, version);
    if (in->err != OT_OK) {
        return in->err;
    }
    ot_wire_set_defaults(message, out);
    if (program == NULL) {
        (void)fail(&d, &(struct target){NULL, NULL, NULL}, OT_ERR_UNSUPPORTED_VERSION, "%s has versions %d to %d, not %d",
            message->name, message->version_min, message->version_max, version);
    } else {
        (void)decode_struct(&d, program, out, NULL);
    }
    in->at = d.at;
    if (d.err != OT_OK) {
        ot_reader_fail(in, d.err);
    }
    return d.err;
}

enum ot_err ot_wire_decode_all(const struct ot_wire_message *message, int16_t version, struct ot_reader *in, struct ot_arena *arena,
    void *out, struct ot_wire_error *error)
{
    enum ot_err err = ot_wire_decode(message, version, in, arena, out, error);
    if (err == OT_OK && in->at != in->end) {
        struct decoder d = {in->at, in->end, message, arena, error, OT_OK};
        (void)fail(&d, &(struct target){NULL, NULL, NULL}, OT_ERR_MALFORMED, "%zu bytes left behind the message", left(&d));
        ot_reader_fail(in, d.err);
        err = d.err;
    }
    return err;
}
