/* Writing messages by their programs. Measuring is writing with no room: one pass of code serves both, so that sizes cannot
 * disagree. */
#include "base/wire/internal.h"
#include <string.h>

struct encoder {
    uint8_t *at, *end;
    size_t needed;  /* bytes of the output so far, whether they had room or not */
    size_t spliced; /* bytes that others will put between */
    const struct ot_wire_message *message;
    struct ot_wire_splices *splices;
    struct ot_wire_error *error;
    bool measuring; /* promised records count, but leave no splice */
    bool splices_full;
    enum ot_err err;
};
struct source { /* the field at hand */
    const struct ot_wire_program *program;
    const struct ot_wire_op *op;
    const struct ot_wire_place *place;
};

static bool encode_struct(
    struct encoder *e, const struct ot_wire_program *program, const uint8_t *record, const struct ot_wire_place *place);

__attribute__((cold, format(printf, 4, 5))) static bool fail(
    struct encoder *e, const struct ot_wire_place *place, const struct ot_wire_field *field, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    ot_wire_error_fill(e->error, place, field, format, arguments);
    va_end(arguments);
    return false;
}
#define REFUSE(e, s, error, ...)                                                                                                   \
    ((e)->err = (error), fail(e, (s)->place, ot_wire_field_of((e)->message, (s)->program, (s)->op), __VA_ARGS__))

/* ---- bytes */

static inline uint8_t *room(struct encoder *e, size_t bytes)
{
    e->needed += bytes;
    if (OT_UNLIKELY((size_t)(e->end - e->at) < bytes)) {
        e->end = e->at; /* nothing after a gap */
        return NULL;
    }
    uint8_t *at = e->at;
    if (bytes > 0) {
        e->at += bytes;
    }
    return at;
}

static inline void put_uvarint(struct encoder *e, uint32_t value)
{
    if (OT_LIKELY(value < 0x80)) {
        uint8_t *to = room(e, 1);
        if (to != NULL) {
            *to = (uint8_t)value;
        }
        return;
    }
    uint8_t *to = room(e, ot_uvarint_bytes(value));
    if (to != NULL) {
        for (; value >= 0x80; value >>= 7) {
            *to++ = (uint8_t)(value | 0x80);
        }
        *to = (uint8_t)value;
    }
}

static inline void put_8(struct encoder *e, uint8_t value)
{
    uint8_t *to = room(e, 1);
    if (to != NULL) {
        *to = value;
    }
}

static inline void put_16(struct encoder *e, uint16_t value)
{
    uint8_t *to = room(e, 2);
    if (to != NULL) {
        ot_store_u16(to, value);
    }
}

static inline void put_32(struct encoder *e, uint32_t value)
{
    uint8_t *to = room(e, 4);
    if (to != NULL) {
        ot_store_u32(to, value);
    }
}

static inline void put_64(struct encoder *e, uint64_t value)
{
    uint8_t *to = room(e, 8);
    if (to != NULL) {
        ot_store_u64(to, value);
    }
}

static inline void put_bytes(struct encoder *e, const void *data, size_t bytes)
{
    uint8_t *to = room(e, bytes);
    if (to != NULL && bytes > 0) {
        memcpy(to, data, bytes);
    }
}

/* ---- lengths, texts, bytes */

static inline bool put_length(struct encoder *e, const struct source *s, size_t plain_bytes, bool null, uint32_t length)
{
    if (null && !(s->op->flags & OT_WIRE_NULLABLE)) {
        return REFUSE(e, s, OT_ERR_UNSUPPORTED_VERSION, "null, which this version cannot say");
    }
    if (s->op->flags & OT_WIRE_COMPACT) {
        put_uvarint(e, null ? 0 : length + 1);
    } else if (plain_bytes == 2) {
        put_16(e, null ? UINT16_MAX : (uint16_t)length);
    } else {
        put_32(e, null ? UINT32_MAX : length);
    }
    return true;
}

static inline bool put_str(struct encoder *e, const struct source *s, const struct ot_str *text)
{
    if (!text->null && text->bytes > OT_WIRE_TEXT_BYTES_MAX) {
        return REFUSE(e, s, OT_ERR_MALFORMED, "text of %u bytes, at most %u", text->bytes, OT_WIRE_TEXT_BYTES_MAX);
    }
    if (!put_length(e, s, 2, text->null, text->bytes)) {
        return false;
    }
    if (!text->null) {
        put_bytes(e, text->data, text->bytes);
    }
    return true;
}

/* Records that lie in a file: only the length is written, and the place is noted. */
static bool put_promise(struct encoder *e, const struct source *s, const struct ot_blob *blob)
{
    if (s->op->code != OT_WIRE_OP_RECORDS || (e->splices == NULL && !e->measuring)) {
        return REFUSE(e, s, OT_ERR_MALFORMED, "%u bytes are promised, but nobody takes them", blob->bytes);
    }
    e->spliced += blob->bytes;
    if (e->measuring) {
        return true;
    }
    if (e->splices->count == e->splices->cap) {
        e->splices_full = true;
        return true;
    }
    e->splices->items[e->splices->count++] = (struct ot_wire_splice){e->needed, blob->bytes, blob};
    e->splices->bytes += blob->bytes;
    return true;
}

static inline bool put_blob(struct encoder *e, const struct source *s, const struct ot_blob *blob)
{
    if (!blob->null && blob->bytes > INT32_MAX) {
        return REFUSE(e, s, OT_ERR_MALFORMED, "%u bytes, at most %d", blob->bytes, INT32_MAX);
    }
    if (!put_length(e, s, 4, blob->null, blob->bytes)) {
        return false;
    }
    if (blob->null || blob->bytes == 0) {
        return true;
    }
    if (blob->data == NULL) {
        return put_promise(e, s, blob);
    }
    put_bytes(e, blob->data, blob->bytes);
    return true;
}

/* ---- arrays */

static bool array_begin(struct encoder *e, const struct source *s, const struct ot_wire_array *array)
{
    if (array->count < -1 || (array->count > 0 && array->items == NULL)) {
        return REFUSE(e, s, OT_ERR_MALFORMED, "count %d without elements", array->count);
    }
    return put_length(e, s, 4, array->count < 0, (uint32_t)OT_MAX(array->count, 0));
}

static bool put_fixed_array(struct encoder *e, const struct source *s, size_t bytes, const struct ot_wire_array *array)
{
    if (!array_begin(e, s, array)) {
        return false;
    }
    size_t count = (size_t)OT_MAX(array->count, 0);
    if (bytes == 1 || bytes == 16) {
        put_bytes(e, array->items, count * bytes);
        return true;
    }
    uint8_t *to = room(e, count * bytes);
    for (size_t i = 0; to != NULL && i < count; i++, to += bytes) {
        if (bytes == 2) {
            ot_store_u16(to, ((const uint16_t *)array->items)[i]);
        } else if (bytes == 4) {
            ot_store_u32(to, ((const uint32_t *)array->items)[i]);
        } else {
            ot_store_u64(to, ((const uint64_t *)array->items)[i]);
        }
    }
    return true;
}

static bool put_texts(struct encoder *e, const struct source *s, const struct ot_wire_array *array)
{
    if (!array_begin(e, s, array)) {
        return false;
    }
    bool blobs = s->op->code == OT_WIRE_OP_BYTESS;
    struct ot_wire_op element_op = *s->op;
    element_op.flags &= OT_WIRE_COMPACT;
    struct source element = {s->program, &element_op, s->place};
    for (int32_t i = 0; i < array->count; i++) {
        if (!(blobs ? put_blob(e, &element, (const struct ot_blob *)array->items + i)
                    : put_str(e, &element, (const struct ot_str *)array->items + i))) {
            return false;
        }
    }
    return true;
}

static bool put_structs(struct encoder *e, const struct source *s, const struct ot_wire_array *array)
{
    if (!array_begin(e, s, array)) {
        return false;
    }
    const struct ot_wire_program *element = &e->message->programs[s->op->program];
    size_t bytes = e->message->structs[element->struct_index].bytes;
    struct ot_wire_place place = {s->place, ot_wire_field_of(e->message, s->program, s->op), 0};
    const uint8_t *item = array->items;
    for (; place.index < array->count; place.index++, item += bytes) {
        if (!encode_struct(e, element, item, &place)) {
            return false;
        }
    }
    return true;
}

/* ---- structs */

static bool put_nested(struct encoder *e, const struct source *s, const uint8_t *record)
{
    struct ot_wire_place place = {s->place, ot_wire_field_of(e->message, s->program, s->op), -1};
    return encode_struct(e, &e->message->programs[s->op->program], record, &place);
}

static bool put_pointer(struct encoder *e, const struct source *s, const uint8_t *record)
{
    bool may_be_null = s->op->flags & OT_WIRE_NULLABLE;
    if (record == NULL && !may_be_null) {
        return REFUSE(e, s, OT_ERR_UNSUPPORTED_VERSION, "null, which this version cannot say");
    }
    if (may_be_null) {
        put_8(e, record == NULL ? 0xff : 1);
    }
    return record == NULL || put_nested(e, s, record);
}

static inline bool encode_field(struct encoder *e, const struct source *s, const uint8_t *from)
{
    const struct ot_wire_array *array = (const void *)from;
    switch ((enum ot_wire_op_code)s->op->code) {
    case OT_WIRE_OP_BOOL: put_8(e, *(const bool *)from); return true;
    case OT_WIRE_OP_8: put_8(e, *from); return true;
    case OT_WIRE_OP_16: put_16(e, *(const uint16_t *)(const void *)from); return true;
    case OT_WIRE_OP_32: put_32(e, *(const uint32_t *)(const void *)from); return true;
    case OT_WIRE_OP_64: put_64(e, *(const uint64_t *)(const void *)from); return true;
    case OT_WIRE_OP_UUID: put_bytes(e, from, 16); return true;
    case OT_WIRE_OP_STR: return put_str(e, s, (const struct ot_str *)(const void *)from);
    case OT_WIRE_OP_BYTES:
    case OT_WIRE_OP_RECORDS: return put_blob(e, s, (const struct ot_blob *)(const void *)from);
    case OT_WIRE_OP_STRUCT: return put_nested(e, s, from);
    case OT_WIRE_OP_POINTER: return put_pointer(e, s, *(const uint8_t *const *)(const void *)from);
    case OT_WIRE_OP_BOOLS:
    case OT_WIRE_OP_8S: return put_fixed_array(e, s, 1, array);
    case OT_WIRE_OP_16S: return put_fixed_array(e, s, 2, array);
    case OT_WIRE_OP_32S: return put_fixed_array(e, s, 4, array);
    case OT_WIRE_OP_64S: return put_fixed_array(e, s, 8, array);
    case OT_WIRE_OP_UUIDS: return put_fixed_array(e, s, 16, array);
    case OT_WIRE_OP_STRS:
    case OT_WIRE_OP_BYTESS: return put_texts(e, s, array);
    case OT_WIRE_OP_STRUCTS: return put_structs(e, s, array);
    }
    OT_ASSERT(!"op code of the generator");
    return false;
}

/* ---- tagged fields */

static bool put_tagged(struct encoder *e, const struct source *s, const uint8_t *from)
{
    struct encoder measure = {.message = e->message, .error = e->error, .measuring = true};
    if (!encode_field(&measure, s, from)) {
        e->err = measure.err;
        return false;
    }
    put_uvarint(e, (uint32_t)ot_wire_field_of(e->message, s->program, s->op)->tag);
    put_uvarint(e, (uint32_t)(measure.needed + measure.spliced));
    return encode_field(e, s, from);
}

static const struct ot_wire_tags *tags_of(const struct ot_wire_struct *type, const uint8_t *record)
{
    static const struct ot_wire_tags none;
    return type->tags_offset == OT_WIRE_NO_TAGS ? &none : (const struct ot_wire_tags *)(const void *)(record + type->tags_offset);
}

static bool put_unknown(struct encoder *e, const struct ot_wire_place *place, const struct ot_wire_tag *tag, int64_t last)
{
    if (tag->tag <= last) {
        e->err = OT_ERR_MALFORMED;
        return fail(e, place, NULL, "unknown tag %u, which is known or out of order", tag->tag);
    }
    put_uvarint(e, tag->tag);
    put_uvarint(e, tag->data.bytes);
    put_bytes(e, tag->data.data, tag->data.bytes);
    return true;
}

static bool encode_tags(
    struct encoder *e, const struct ot_wire_program *program, const uint8_t *record, const struct ot_wire_place *place)
{
    const struct ot_wire_struct *type = &e->message->structs[program->struct_index];
    const struct ot_wire_tags *tags = tags_of(type, record);
    const struct ot_wire_op *ops = e->message->ops + program->op_first + program->plain_count;
    uint32_t count = (uint32_t)tags->count;
    OT_ASSERT(program->tagged_count <= 64 && tags->count >= 0);
    uint64_t present = 0;
    for (uint32_t i = 0; i < program->tagged_count; i++) {
        if (!ot_wire_is_default(e->message, &type->fields[ops[i].field], record)) {
            present |= UINT64_C(1) << i;
            count++;
        }
    }
    put_uvarint(e, count);
    int32_t unknown = 0;
    int64_t last = -1;
    for (uint32_t i = 0; i < program->tagged_count; i++) {
        int64_t tag = type->fields[ops[i].field].tag;
        for (; unknown < tags->count && tags->items[unknown].tag < tag; last = tags->items[unknown++].tag) {
            if (!put_unknown(e, place, &tags->items[unknown], last)) {
                return false;
            }
        }
        if ((present >> i & 1) && !put_tagged(e, &(struct source){program, &ops[i], place}, record + ops[i].offset)) {
            return false;
        }
        last = tag; /* whether written or not: the number is taken */
    }
    for (; unknown < tags->count; last = tags->items[unknown++].tag) {
        if (!put_unknown(e, place, &tags->items[unknown], last)) {
            return false;
        }
    }
    return true;
}

/* ---- structs again */

static bool check_absent(
    struct encoder *e, const struct ot_wire_program *program, const uint8_t *record, const struct ot_wire_place *place)
{
    const struct ot_wire_struct *type = &e->message->structs[program->struct_index];
    for (uint32_t i = 0; i < program->absent_count; i++) {
        const struct ot_wire_field *field = &type->fields[e->message->must_be_default[program->absent_first + i]];
        if (!ot_wire_is_default(e->message, field, record)) {
            e->err = OT_ERR_UNSUPPORTED_VERSION;
            return fail(e, place, field, "set, but this version has no such field");
        }
    }
    if (!(program->flags & OT_WIRE_FLEXIBLE) && tags_of(type, record)->count != 0) {
        e->err = OT_ERR_UNSUPPORTED_VERSION;
        return fail(e, place, NULL, "unknown tags, but this version has no tags");
    }
    return true;
}

static bool encode_struct(
    struct encoder *e, const struct ot_wire_program *program, const uint8_t *record, const struct ot_wire_place *place)
{
    if (!check_absent(e, program, record, place)) {
        return false;
    }
    struct source s = {program, e->message->ops + program->op_first, place};
    const struct ot_wire_op *end = s.op + program->plain_count;
    for (; s.op < end; s.op++) {
        if (!encode_field(e, &s, record + s.op->offset)) {
            return false;
        }
    }
    return !(program->flags & OT_WIRE_FLEXIBLE) || encode_tags(e, program, record, place);
}

static void encode_message(struct encoder *e, int16_t version, const void *in)
{
    const struct ot_wire_program *program = ot_wire_program_of(e->message, version);
    if (program == NULL) {
        e->err = OT_ERR_UNSUPPORTED_VERSION;
        (void)fail(e, NULL, NULL, "%s has versions %d to %d, not %d", e->message->name, e->message->version_min,
            e->message->version_max, version);
        return;
    }
    (void)encode_struct(e, program, in, NULL);
}

enum ot_err ot_wire_encode(
    const struct ot_wire_message *message, int16_t version, const void *in, struct ot_writer *out, struct ot_wire_splices *splices)
{
    if (out->err != OT_OK && out->err != OT_ERR_TOO_LARGE) {
        return out->err;
    }
    struct encoder e = {.at = out->at,
        .end = out->err == OT_OK ? out->end : out->at,
        .needed = out->needed,
        .message = message,
        .splices = splices,
        .measuring = out->start == NULL};
    encode_message(&e, version, in);
    if (e.err != OT_OK) {
        out->err = e.err;
        return e.err;
    }
    bool full = e.needed - out->needed != (size_t)(e.at - out->at);
    out->at = e.at;
    out->needed = e.needed;
    if (full && out->start != NULL) {
        out->err = OT_ERR_TOO_LARGE;
    }
    return out->err != OT_OK || e.splices_full ? OT_ERR_TOO_LARGE : OT_OK;
}

size_t ot_wire_size(const struct ot_wire_message *message, int16_t version, const void *in)
{
    struct encoder e = {.message = message, .measuring = true};
    encode_message(&e, version, in);
    return e.err == OT_OK ? e.needed : 0;
}

enum ot_err ot_wire_encode_check(
    const struct ot_wire_message *message, int16_t version, const void *in, struct ot_wire_error *error)
{
    struct encoder e = {.message = message, .measuring = true, .error = error};
    encode_message(&e, version, in);
    return e.err;
}
