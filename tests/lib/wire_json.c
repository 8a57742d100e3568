#include "wire_json.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct walk {
    const struct ot_wire_message *message;
    struct ot_arena *arena;
    struct wire_json_why *why;
    char path[160];
};
struct array {
    void *items;
    int32_t count;
};

static bool equal_struct(struct walk *w, uint16_t program, const uint8_t *record, json_t *object);
static bool build_struct(struct walk *w, uint16_t program, uint8_t *record, json_t *object);

OT_PRINTF(2, 3) static bool wrong(struct walk *w, const char *format, ...)
{
    char reason[128];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    (void)snprintf(w->why->text, sizeof w->why->text, "%s%s: %s", w->message->name, w->path, reason);
    return false;
}

/* Appends to the path; the answer cuts it again. */
static size_t enter(struct walk *w, const char *name, int64_t index)
{
    size_t used = strlen(w->path);
    if (index < 0) {
        (void)snprintf(w->path + used, sizeof w->path - used, ".%s", name);
    } else {
        (void)snprintf(w->path + used, sizeof w->path - used, "[%lld]", (long long)index);
    }
    return used;
}

static int base64_digit(char c)
{
    const char *all = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c == '\0' ? NULL : strchr(all, c);
    return at == NULL ? -1 : (int)(at - all);
}

bool wire_json_base64(const char *text, size_t text_bytes, struct ot_arena *arena, struct ot_blob *out)
{
    uint8_t *data = ot_arena_alloc(arena, text_bytes / 4 * 3 + 1);
    uint32_t bytes = 0;
    if (text_bytes % 4 != 0 || data == NULL) {
        return false;
    }
    for (size_t i = 0; i < text_bytes; i += 4) {
        bool last = i + 4 == text_bytes;
        int pad = last && text[i + 2] == '=' ? 2 : last && text[i + 3] == '=' ? 1 : 0;
        int d[4] = {base64_digit(text[i]), base64_digit(text[i + 1]), pad > 1 ? 0 : base64_digit(text[i + 2]),
            pad > 0 ? 0 : base64_digit(text[i + 3])};
        if (d[0] < 0 || d[1] < 0 || d[2] < 0 || d[3] < 0 || (pad == 2 && text[i + 3] != '=')) {
            return false;
        }
        uint32_t bits = (uint32_t)d[0] << 18 | (uint32_t)d[1] << 12 | (uint32_t)d[2] << 6 | (uint32_t)d[3];
        for (int j = 0; j < 3 - pad; j++) {
            data[bytes++] = (uint8_t)(bits >> (16 - 8 * j));
        }
    }
    *out = (struct ot_blob){data, bytes, false};
    return true;
}

static size_t primitive_bytes(const struct ot_wire_field *field)
{
    switch ((enum ot_wire_type)field->type) {
    case OT_WIRE_BOOL: return sizeof(bool);
    case OT_WIRE_I8: return 1;
    case OT_WIRE_I16:
    case OT_WIRE_U16: return 2;
    case OT_WIRE_I32:
    case OT_WIRE_U32: return 4;
    case OT_WIRE_I64:
    case OT_WIRE_F64: return 8;
    case OT_WIRE_UUID: return 16;
    default: return sizeof(struct ot_str);
    }
}

static int64_t integer_at(const struct ot_wire_field *field, const void *at)
{
    switch ((enum ot_wire_type)field->type) {
    case OT_WIRE_I8: return *(const int8_t *)at;
    case OT_WIRE_I16: return *(const int16_t *)at;
    case OT_WIRE_U16: return *(const uint16_t *)at;
    case OT_WIRE_I32: return *(const int32_t *)at;
    case OT_WIRE_U32: return *(const uint32_t *)at;
    default: return *(const int64_t *)at;
    }
}

static bool blob_is(struct walk *w, const struct ot_blob *blob, json_t *value)
{
    struct ot_blob expected;
    return !blob->null && json_is_string(value) &&
           wire_json_base64(json_string_value(value), json_string_length(value), w->arena, &expected) &&
           expected.bytes == blob->bytes && memcmp(expected.data, blob->data, blob->bytes) == 0;
}

/* JSON has no numbers for these three: they come as texts. */
static bool real_of(json_t *value, double *out)
{
    const char *text = json_string_value(value);
    if (text == NULL) {
        *out = json_number_value(value);
        return json_is_number(value);
    }
    bool nan = strcmp(text, "NaN") == 0, positive = strcmp(text, "Infinity") == 0, negative = strcmp(text, "-Infinity") == 0;
    *out = nan ? (double)NAN : positive ? (double)INFINITY : -(double)INFINITY;
    return nan || positive || negative;
}

/* ---- comparing */

static bool equal_primitive(struct walk *w, const struct ot_wire_field *field, const void *at, json_t *value)
{
    bool same;
    switch ((enum ot_wire_type)field->type) {
    case OT_WIRE_BOOL: same = json_is_boolean(value) && json_is_true(value) == *(const bool *)at; break;
    case OT_WIRE_F64: {
        double real;
        same = real_of(value, &real) && (isnan(real) ? isnan(*(const double *)at) != 0 : real == *(const double *)at);
        break;
    }
    case OT_WIRE_UUID: {
        struct ot_uuid id;
        same = json_is_string(value) && ot_uuid_parse(json_string_value(value), json_string_length(value), &id) &&
               ot_uuid_equal(&id, at);
        break;
    }
    case OT_WIRE_STR: {
        const struct ot_str *text = at;
        same = text->null ? json_is_null(value)
                          : json_is_string(value) && json_string_length(value) == text->bytes &&
                                memcmp(json_string_value(value), text->data, text->bytes) == 0;
        break;
    }
    case OT_WIRE_BYTES:
    case OT_WIRE_RECORDS: same = ((const struct ot_blob *)at)->null ? json_is_null(value) : blob_is(w, at, value); break;
    default: same = json_is_integer(value) && json_integer_value(value) == integer_at(field, at);
    }
    return same || wrong(w, "another value than in the JSON");
}

static bool equal_array(
    struct walk *w, const struct ot_wire_field *field, uint16_t program, const struct array *array, json_t *value)
{
    if (array->count == -1) {
        return json_is_null(value) || wrong(w, "null, which the JSON is not");
    }
    if (!json_is_array(value) || (int32_t)json_array_size(value) != array->count) {
        return wrong(w, "%d elements, in JSON another number", array->count);
    }
    bool structs = field->type == OT_WIRE_STRUCT;
    size_t bytes = structs ? w->message->structs[field->struct_index].bytes : primitive_bytes(field);
    for (int32_t i = 0; i < array->count; i++) {
        const uint8_t *item = (const uint8_t *)array->items + bytes * (size_t)i;
        size_t used = enter(w, NULL, i);
        json_t *expected = json_array_get(value, (size_t)i);
        if (!(structs ? equal_struct(w, program, item, expected) : equal_primitive(w, field, item, expected))) {
            return false;
        }
        w->path[used] = '\0';
    }
    return true;
}

static bool equal_field(
    struct walk *w, const struct ot_wire_field *field, const struct ot_wire_op *op, const uint8_t *record, json_t *value)
{
    const void *at = record + field->offset;
    if (field->flags & OT_WIRE_FIELD_ARRAY) {
        return equal_array(w, field, op->program, at, value);
    }
    if (field->type != OT_WIRE_STRUCT) {
        return equal_primitive(w, field, at, value);
    }
    if (field->flags & OT_WIRE_FIELD_POINTER) {
        at = *(const void *const *)at;
        if (at == NULL || json_is_null(value)) {
            return (at == NULL && json_is_null(value)) || wrong(w, "null on one side only");
        }
    }
    return equal_struct(w, op->program, at, value);
}

static bool equal_tags(struct walk *w, const struct ot_wire_tags *tags, json_t *value)
{
    if ((size_t)tags->count != json_array_size(value)) {
        return wrong(w, "%d unknown tags, in JSON another number", tags->count);
    }
    for (int32_t i = 0; i < tags->count; i++) {
        json_t *pair = json_array_get(value, (size_t)i);
        if (json_integer_value(json_array_get(pair, 0)) != (json_int_t)tags->items[i].tag ||
            !blob_is(w, &tags->items[i].data, json_array_get(pair, 1))) {
            return wrong(w, "unknown tag %u differs", tags->items[i].tag);
        }
    }
    return true;
}

static bool equal_struct(struct walk *w, uint16_t program_index, const uint8_t *record, json_t *object)
{
    const struct ot_wire_program *program = &w->message->programs[program_index];
    const struct ot_wire_struct *type = &w->message->structs[program->struct_index];
    size_t seen = 0;
    if (!json_is_object(object)) {
        return wrong(w, "no object in JSON");
    }
    for (uint32_t i = 0; i < (uint32_t)program->plain_count + program->tagged_count; i++) {
        const struct ot_wire_op *op = &w->message->ops[program->op_first + i];
        const struct ot_wire_field *field = &type->fields[op->field];
        json_t *value = json_object_get(object, field->name);
        size_t used = enter(w, field->name, -1);
        if (value == NULL) {
            if (i < program->plain_count || !ot_wire_is_default(w->message, field, record)) {
                return wrong(w, "not in the JSON");
            }
        } else if (seen++, !equal_field(w, field, op, record, value)) {
            return false;
        }
        w->path[used] = '\0';
    }
    json_t *tags = json_object_get(object, "_tags");
    if (tags != NULL && type->tags_offset == OT_WIRE_NO_TAGS) {
        return wrong(w, "tags in JSON, none in C");
    }
    if (type->tags_offset != OT_WIRE_NO_TAGS &&
        !equal_tags(w, (const struct ot_wire_tags *)(const void *)(record + type->tags_offset), tags)) {
        return false;
    }
    seen += tags != NULL;
    return json_object_size(object) == seen || wrong(w, "%zu keys in JSON, %zu fields here", json_object_size(object), seen);
}

bool wire_json_equal(
    const struct ot_wire_message *message, int16_t version, const void *record, json_t *object, struct wire_json_why *why)
{
    struct ot_arena arena;
    ot_arena_init(&arena, (size_t)64 << 20);
    struct walk w = {.message = message, .arena = &arena, .why = why};
    bool same = equal_struct(&w, message->roots[version - message->version_min], record, object);
    ot_arena_free(&arena);
    return same;
}

/* ---- building */

static bool build_integer(struct walk *w, const struct ot_wire_field *field, void *at, json_t *value)
{
    int64_t number = json_integer_value(value);
    if (!json_is_integer(value)) {
        return wrong(w, "no integer in JSON");
    }
    switch ((enum ot_wire_type)field->type) {
    case OT_WIRE_I8: *(int8_t *)at = (int8_t)number; break;
    case OT_WIRE_I16: *(int16_t *)at = (int16_t)number; break;
    case OT_WIRE_U16: *(uint16_t *)at = (uint16_t)number; break;
    case OT_WIRE_I32: *(int32_t *)at = (int32_t)number; break;
    case OT_WIRE_U32: *(uint32_t *)at = (uint32_t)number; break;
    default: *(int64_t *)at = number;
    }
    return integer_at(field, at) == number || wrong(w, "number out of range in JSON");
}

static bool build_primitive(struct walk *w, const struct ot_wire_field *field, void *at, json_t *value)
{
    switch ((enum ot_wire_type)field->type) {
    case OT_WIRE_BOOL: *(bool *)at = json_is_true(value); return json_is_boolean(value) || wrong(w, "no boolean in JSON");
    case OT_WIRE_F64: return real_of(value, at) || wrong(w, "no number in JSON");
    case OT_WIRE_UUID:
        return (json_is_string(value) && ot_uuid_parse(json_string_value(value), json_string_length(value), at)) ||
               wrong(w, "no uuid in JSON");
    case OT_WIRE_STR:
        *(struct ot_str *)at = (struct ot_str){json_string_value(value), (uint32_t)json_string_length(value), json_is_null(value)};
        return json_is_string(value) || json_is_null(value) || wrong(w, "no text in JSON");
    case OT_WIRE_BYTES:
    case OT_WIRE_RECORDS:
        *(struct ot_blob *)at = (struct ot_blob){NULL, 0, true};
        return json_is_null(value) ||
               (json_is_string(value) && wire_json_base64(json_string_value(value), json_string_length(value), w->arena, at)) ||
               wrong(w, "no base64 in JSON");
    default: return build_integer(w, field, at, value);
    }
}

static bool build_array(struct walk *w, const struct ot_wire_field *field, uint16_t program, struct array *array, json_t *value)
{
    *array = (struct array){NULL, -1};
    if (json_is_null(value)) {
        return true;
    }
    bool structs = field->type == OT_WIRE_STRUCT;
    size_t bytes = structs ? w->message->structs[field->struct_index].bytes : primitive_bytes(field);
    array->count = (int32_t)json_array_size(value);
    array->items = array->count == 0 ? NULL : ot_arena_array(w->arena, json_array_size(value), bytes);
    if (!json_is_array(value) || (array->count > 0 && array->items == NULL)) {
        return wrong(w, "no array in JSON, or too large");
    }
    for (int32_t i = 0; i < array->count; i++) {
        uint8_t *item = (uint8_t *)array->items + bytes * (size_t)i;
        size_t used = enter(w, NULL, i);
        json_t *element = json_array_get(value, (size_t)i);
        if (!(structs ? build_struct(w, program, item, element) : build_primitive(w, field, item, element))) {
            return false;
        }
        w->path[used] = '\0';
    }
    return true;
}

static bool build_field(
    struct walk *w, const struct ot_wire_field *field, const struct ot_wire_op *op, uint8_t *record, json_t *value)
{
    uint8_t *at = record + field->offset;
    if (field->flags & OT_WIRE_FIELD_ARRAY) {
        return build_array(w, field, op->program, (struct array *)(void *)at, value);
    }
    if (field->type != OT_WIRE_STRUCT) {
        return build_primitive(w, field, at, value);
    }
    if (!(field->flags & OT_WIRE_FIELD_POINTER)) {
        return build_struct(w, op->program, at, value);
    }
    uint8_t *pointed = json_is_null(value) ? NULL : ot_arena_alloc(w->arena, w->message->structs[field->struct_index].bytes);
    *(const void **)(void *)at = pointed;
    return pointed == NULL || build_struct(w, op->program, pointed, value);
}

static bool build_tags(struct walk *w, struct ot_wire_tags *tags, json_t *value)
{
    tags->count = (int32_t)json_array_size(value);
    tags->items = tags->count == 0 ? NULL : ot_arena_array(w->arena, json_array_size(value), sizeof *tags->items);
    for (int32_t i = 0; i < tags->count; i++) {
        json_t *pair = json_array_get(value, (size_t)i), *data = json_array_get(pair, 1);
        tags->items[i].tag = (uint32_t)json_integer_value(json_array_get(pair, 0));
        if (!json_is_string(data) ||
            !wire_json_base64(json_string_value(data), json_string_length(data), w->arena, &tags->items[i].data)) {
            return wrong(w, "no base64 in a tag");
        }
    }
    return true;
}

static bool build_struct(struct walk *w, uint16_t program_index, uint8_t *record, json_t *object)
{
    const struct ot_wire_program *program = &w->message->programs[program_index];
    const struct ot_wire_struct *type = &w->message->structs[program->struct_index];
    ot_wire_set_struct_defaults(w->message, program->struct_index, record);
    if (!json_is_object(object)) {
        return wrong(w, "no object in JSON");
    }
    for (uint32_t i = 0; i < (uint32_t)program->plain_count + program->tagged_count; i++) {
        const struct ot_wire_op *op = &w->message->ops[program->op_first + i];
        const struct ot_wire_field *field = &type->fields[op->field];
        json_t *value = json_object_get(object, field->name);
        size_t used = enter(w, field->name, -1);
        if (value != NULL && !build_field(w, field, op, record, value)) {
            return false;
        }
        w->path[used] = '\0';
    }
    json_t *tags = json_object_get(object, "_tags");
    return tags == NULL || build_tags(w, (struct ot_wire_tags *)(void *)(record + type->tags_offset), tags);
}

bool wire_json_build(const struct ot_wire_message *message, int16_t version, json_t *object, struct ot_arena *arena, void *out,
    struct wire_json_why *why)
{
    struct walk w = {.message = message, .arena = arena, .why = why};
    return build_struct(&w, message->roots[version - message->version_min], out, object);
}
