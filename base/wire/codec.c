/* What reading and writing share: defaults, error texts, enumerations. */
#include "base/wire/internal.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

void ot_wire_set_struct_defaults(const struct ot_wire_message *message, uint16_t struct_index, void *out)
{
    const struct ot_wire_struct *type = &message->structs[struct_index];
    if (type->image == NULL) {
        memset(out, 0, type->bytes);
    } else {
        memcpy(out, type->image, type->bytes);
    }
}

void ot_wire_set_defaults(const struct ot_wire_message *message, void *out)
{
    ot_wire_set_struct_defaults(message, message->root, out);
}

/* ---- equality with the default */

static bool struct_is_default(const struct ot_wire_message *message, uint16_t struct_index, const uint8_t *record)
{
    const struct ot_wire_struct *type = &message->structs[struct_index];
    if (type->image != NULL && memcmp(record, type->image, type->bytes) == 0) {
        return true; /* the common case; anything else, padding too, is looked at field by field */
    }
    for (uint32_t i = 0; i < type->field_count; i++) {
        if (!ot_wire_is_default(message, &type->fields[i], record)) {
            return false;
        }
    }
    return type->tags_offset == OT_WIRE_NO_TAGS ||
           ((const struct ot_wire_tags *)(const void *)(record + type->tags_offset))->count == 0;
}

static bool pointer_is_default(const struct ot_wire_message *message, const struct ot_wire_field *field, const uint8_t *record)
{
    if (field->flags & OT_WIRE_FIELD_NULL_DEFAULT) {
        return record == NULL;
    }
    return record != NULL && struct_is_default(message, field->struct_index, record);
}

bool ot_wire_is_default(const struct ot_wire_message *message, const struct ot_wire_field *field, const void *record)
{
    const void *at = (const uint8_t *)record + field->offset;
    bool null_default = field->flags & OT_WIRE_FIELD_NULL_DEFAULT;
    if (field->flags & OT_WIRE_FIELD_ARRAY) {
        return ((const struct ot_wire_array *)at)->count == (null_default ? -1 : 0);
    }
    switch ((enum ot_wire_type)field->type) {
    case OT_WIRE_BOOL: return *(const bool *)at == (field->number != 0);
    case OT_WIRE_I8: return *(const int8_t *)at == field->number;
    case OT_WIRE_I16: return *(const int16_t *)at == field->number;
    case OT_WIRE_U16: return *(const uint16_t *)at == field->number;
    case OT_WIRE_I32: return *(const int32_t *)at == field->number;
    case OT_WIRE_U32: return *(const uint32_t *)at == field->number;
    case OT_WIRE_I64: return *(const int64_t *)at == field->number;
    case OT_WIRE_F64: return memcmp(at, &field->real, sizeof field->real) == 0; /* by bits: NaN and -0 are values of their own */
    case OT_WIRE_UUID: return memcmp(at, (const uint8_t[16]){0}, 16) == 0;
    case OT_WIRE_STR:
        return null_default ? ((const struct ot_str *)at)->null
                            : !((const struct ot_str *)at)->null && ((const struct ot_str *)at)->bytes == 0;
    case OT_WIRE_BYTES:
    case OT_WIRE_RECORDS:
        return null_default ? ((const struct ot_blob *)at)->null
                            : !((const struct ot_blob *)at)->null && ((const struct ot_blob *)at)->bytes == 0;
    case OT_WIRE_STRUCT:
        if (field->flags & OT_WIRE_FIELD_POINTER) {
            return pointer_is_default(message, field, *(const uint8_t *const *)at);
        }
        return struct_is_default(message, field->struct_index, at);
    }
    OT_ASSERT(!"field type of the generator");
    return false;
}

/* ---- error texts */

static void append(char *text, size_t bytes, size_t *used, const char *word, int32_t index)
{
    int more = index < 0 ? snprintf(text + *used, bytes - *used, "%s%s", *used == 0 ? "" : ".", word)
                         : snprintf(text + *used, bytes - *used, "%s%s[%d]", *used == 0 ? "" : ".", word, index);
    *used = OT_MIN(*used + (size_t)OT_MAX(more, 0), bytes - 1);
}

static void append_place(char *text, size_t bytes, size_t *used, const struct ot_wire_place *place)
{
    if (place != NULL) { /* as deep as the schema */
        append_place(text, bytes, used, place->up);
        append(text, bytes, used, place->field->name, place->index);
    }
}

void ot_wire_error_fill(struct ot_wire_error *error, const struct ot_wire_place *place, const struct ot_wire_field *field,
    const char *format, va_list arguments)
{
    if (error == NULL) {
        return;
    }
    size_t used = 0;
    error->field[0] = '\0';
    append_place(error->field, sizeof error->field, &used, place);
    if (field != NULL) {
        append(error->field, sizeof error->field, &used, field->name, -1);
    }
    (void)vsnprintf(error->reason, sizeof error->reason, format, arguments);
}

/* ---- enumerations */

const char *ot_wire_enum_text(const struct ot_wire_enum *all, int64_t id)
{
    for (size_t i = 0; i < all->count; i++) {
        if (all->rows[i].id == id) {
            return all->rows[i].text;
        }
    }
    return NULL;
}

bool ot_wire_enum_by_text(const struct ot_wire_enum *all, struct ot_str text, int64_t *id_out)
{
    for (size_t i = 0; i < all->count && !text.null; i++) {
        if (strlen(all->rows[i].text) == text.bytes && strncasecmp(all->rows[i].text, text.data, text.bytes) == 0) {
            *id_out = all->rows[i].id;
            return true;
        }
    }
    return false;
}
