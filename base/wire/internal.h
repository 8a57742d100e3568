/* Shared by the halves of the codec; nobody else's. */
#ifndef OT_WIRE_INTERNAL_H
#define OT_WIRE_INTERNAL_H

#include "base/wire/codec.h"
#include "base/wire/enums.h"
#include <stdarg.h>

#define OT_WIRE_TEXT_BYTES_MAX 32767u

struct ot_wire_array {
    void *items;
    int32_t count;
}; /* what all array types look like */

struct ot_wire_place { /* the way down to the struct at hand, for error texts */
    const struct ot_wire_place *up;
    const struct ot_wire_field *field;
    int32_t index; /* -1: not in an array */
};
/* error may be NULL; field NULL: the struct itself. */
__attribute__((format(printf, 4, 0))) void ot_wire_error_fill(struct ot_wire_error *error, const struct ot_wire_place *place,
    const struct ot_wire_field *field, const char *format, va_list arguments);

static inline const struct ot_wire_program *ot_wire_program_of(const struct ot_wire_message *message, int16_t version)
{
    if (version < message->version_min || version > message->version_max) {
        return NULL;
    }
    return &message->programs[message->roots[version - message->version_min]];
}
static inline const struct ot_wire_field *ot_wire_field_of(
    const struct ot_wire_message *message, const struct ot_wire_program *program, const struct ot_wire_op *op)
{
    return &message->structs[program->struct_index].fields[op->field];
}

#endif
