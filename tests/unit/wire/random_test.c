/* Every message in every version, filled at random by its descriptor: also those that no golden vector knows. What was filled in must come back
 * out, the same field by field; a version without a field must refuse or drop it; and every cut and every flipped bit must be answered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/util.h"
#include "base/wire/messages.h"
#include <stdlib.h>
#include <string.h>

#define ROUNDS     20
#define WIRE_BYTES ((size_t)1 << 20)

struct fill {
    const struct ot_wire_message *message;
    struct ot_arena arena;
    struct ot_rng rng;
};
struct array {
    void *items;
    int32_t count;
};

static void fill_struct(struct fill *f, uint16_t program_index, uint8_t *record);
static bool same_struct(const struct ot_wire_message *message, uint16_t struct_index, const uint8_t *a, const uint8_t *b);

static size_t type_bytes(const struct ot_wire_message *message, const struct ot_wire_field *field)
{
    static const size_t bytes[] = {
        [OT_WIRE_BOOL] = sizeof(bool),
        [OT_WIRE_I8] = 1,
        [OT_WIRE_I16] = 2,
        [OT_WIRE_U16] = 2,
        [OT_WIRE_I32] = 4,
        [OT_WIRE_U32] = 4,
        [OT_WIRE_I64] = 8,
        [OT_WIRE_F64] = 8,
        [OT_WIRE_UUID] = 16,
        [OT_WIRE_STR] = sizeof(struct ot_str),
        [OT_WIRE_BYTES] = sizeof(struct ot_blob),
        [OT_WIRE_RECORDS] = sizeof(struct ot_blob),
    };
    return field->type == OT_WIRE_STRUCT ? message->structs[field->struct_index].bytes : bytes[field->type];
}

static void fill_value(struct fill *f, const struct ot_wire_field *field, const struct ot_wire_op *op, void *at, bool nullable)
{
    bool null = nullable && ot_rng_below(&f->rng, 3) == 0;
    uint32_t bytes = (uint32_t)(ot_rng_below(&f->rng, 8) == 0 ? 100 + ot_rng_below(&f->rng, 300) : ot_rng_below(&f->rng, 9));
    uint8_t *data = ot_arena_alloc(&f->arena, bytes);
    assert_non_null(data);
    for (uint32_t i = 0; i < bytes; i++) {
        data[i] = (uint8_t)ot_rng_next(&f->rng);
    }
    switch ((enum ot_wire_type)field->type) {
    case OT_WIRE_BOOL: *(bool *)at = ot_rng_below(&f->rng, 2) == 1; break;
    case OT_WIRE_STR: *(struct ot_str *)at = (struct ot_str){(const char *)data, null ? 0 : bytes, null}; break;
    case OT_WIRE_BYTES:
    case OT_WIRE_RECORDS: *(struct ot_blob *)at = (struct ot_blob){data, null ? 0 : bytes, null}; break;
    case OT_WIRE_STRUCT: fill_struct(f, op->program, at); break;
    default:
        for (size_t i = 0; i < type_bytes(f->message, field); i++) {
            ((uint8_t *)at)[i] = (uint8_t)ot_rng_next(&f->rng);
        }
    }
}

static void fill_field(struct fill *f, const struct ot_wire_field *field, const struct ot_wire_op *op, uint8_t *at)
{
    bool nullable = op->flags & OT_WIRE_NULLABLE;
    bool null = nullable && ot_rng_below(&f->rng, 3) == 0;
    size_t bytes = type_bytes(f->message, field);
    if (field->flags & OT_WIRE_FIELD_ARRAY) {
        struct array *array = (void *)at;
        array->count = null ? -1 : (int32_t)ot_rng_below(&f->rng, 4);
        array->items = ot_arena_array(&f->arena, (size_t)OT_MAX(array->count, 0), bytes);
        for (int32_t i = 0; i < array->count; i++) {
            fill_value(f, field, op, (uint8_t *)array->items + bytes * (size_t)i, false);
        }
    } else if (field->flags & OT_WIRE_FIELD_POINTER) {
        void *pointed = null ? NULL : ot_arena_alloc(&f->arena, bytes);
        *(const void **)(void *)at = pointed;
        if (pointed != NULL) {
            fill_struct(f, op->program, pointed);
        }
    } else {
        fill_value(f, field, op, at, nullable);
    }
}

/* Every field of the version; a tagged one now and then stays at its default. Unknown tags lie above all known ones. */
static void fill_struct(struct fill *f, uint16_t program_index, uint8_t *record)
{
    const struct ot_wire_program *program = &f->message->programs[program_index];
    const struct ot_wire_struct *type = &f->message->structs[program->struct_index];
    ot_wire_set_struct_defaults(f->message, program->struct_index, record);
    for (uint32_t i = 0; i < (uint32_t)program->plain_count + program->tagged_count; i++) {
        const struct ot_wire_op *op = &f->message->ops[program->op_first + i];
        if (i < program->plain_count || ot_rng_below(&f->rng, 3) > 0) {
            fill_field(f, &type->fields[op->field], op, record + op->offset);
        }
    }
    if ((program->flags & OT_WIRE_FLEXIBLE) && ot_rng_below(&f->rng, 4) == 0) {
        struct ot_wire_tags *tags = (void *)(record + type->tags_offset);
        tags->items = ot_arena_alloc(&f->arena, sizeof *tags->items);
        tags->items[0] =
            (struct ot_wire_tag){1000 + (uint32_t)ot_rng_below(&f->rng, UINT32_MAX - 1000), {(const uint8_t *)"xyz", 3, false}};
        tags->count = 1;
    }
}

static bool same_value(const struct ot_wire_message *message, const struct ot_wire_field *field, const void *a, const void *b)
{
    if (field->type == OT_WIRE_STRUCT) {
        return same_struct(message, field->struct_index, a, b);
    }
    if (field->type == OT_WIRE_STR || field->type == OT_WIRE_BYTES || field->type == OT_WIRE_RECORDS) {
        const struct ot_blob *one = a, *two = b; /* texts and bytes look alike */
        return one->null == two->null && one->bytes == two->bytes &&
               (one->bytes == 0 || memcmp(one->data, two->data, one->bytes) == 0);
    }
    return memcmp(a, b, type_bytes(message, field)) == 0;
}

static bool same_field(const struct ot_wire_message *message, const struct ot_wire_field *field, const uint8_t *a, const uint8_t *b)
{
    size_t bytes = type_bytes(message, field);
    if (field->flags & OT_WIRE_FIELD_ARRAY) {
        const struct array *one = (const void *)a, *two = (const void *)b;
        bool same = one->count == two->count;
        for (int32_t i = 0; same && i < one->count; i++) {
            size_t at = bytes * (size_t)i;
            same = same_value(message, field, (const uint8_t *)one->items + at, (const uint8_t *)two->items + at);
        }
        return same;
    }
    if (field->flags & OT_WIRE_FIELD_POINTER) {
        const void *one = *(const void *const *)(const void *)a, *two = *(const void *const *)(const void *)b;
        return one == NULL || two == NULL ? one == two : same_struct(message, field->struct_index, one, two);
    }
    return same_value(message, field, a, b);
}

static bool same_struct(const struct ot_wire_message *message, uint16_t struct_index, const uint8_t *a, const uint8_t *b)
{
    const struct ot_wire_struct *type = &message->structs[struct_index];
    bool same = true;
    for (uint32_t i = 0; same && i < type->field_count; i++) {
        same = same_field(message, &type->fields[i], a + type->fields[i].offset, b + type->fields[i].offset);
    }
    if (same && type->tags_offset != OT_WIRE_NO_TAGS) {
        const struct ot_wire_tags *one = (const void *)(a + type->tags_offset), *two = (const void *)(b + type->tags_offset);
        same = one->count == two->count &&
               (one->count == 0 || (one->items[0].tag == two->items[0].tag && two->items[0].data.bytes == 3));
    }
    return same;
}

static uint8_t wire[WIRE_BYTES];

/* From an exactly sized heap block: a sanitizer sees a read behind it. Answers the error and, in *same, whether the struct is the given one. */
static enum ot_err decode(
    const struct ot_wire_message *message, int16_t version, const void *bytes, size_t count, const void *expected, bool *same)
{
    struct ot_arena arena;
    struct ot_wire_error error;
    uint8_t *copy = malloc(count == 0 ? 1 : count), *out = malloc(message->structs[message->root].bytes);
    memcpy(copy, bytes, count);
    struct ot_reader in = ot_reader_over(count == 0 ? copy + 1 : copy, count);
    ot_arena_init(&arena, (size_t)16 << 20);
    enum ot_err err = ot_wire_decode_all(message, version, &in, &arena, out, &error);
    *same = err == OT_OK && same_struct(message, message->root, expected, out);
    assert_true(err == OT_OK || error.reason[0] != '\0');
    ot_arena_free(&arena);
    free(copy);
    free(out);
    return err;
}

static void check(const struct ot_wire_message *message, int16_t version, uint64_t seed)
{
    struct fill f = {.message = message};
    bool same;
    uint8_t *record = malloc(message->structs[message->root].bytes);
    ot_rng_seed(&f.rng, seed);
    ot_arena_init(&f.arena, (size_t)64 << 20);
    fill_struct(&f, message->roots[version - message->version_min], record);
    struct ot_writer writer = ot_writer_over(wire, sizeof wire);
    enum ot_err err = ot_wire_encode(message, version, record, &writer, NULL);
    size_t count = (size_t)(writer.at - wire);
    if (err != OT_OK || count != ot_wire_size(message, version, record)) {
        fail_msg("%s v%d seed %llu: %s", message->name, version, (unsigned long long)seed, ot_err_name(err));
    }
    if (decode(message, version, wire, count, record, &same) != OT_OK || !same) {
        fail_msg("%s v%d seed %llu: another struct came back", message->name, version, (unsigned long long)seed);
    }
    size_t cut = count == 0 ? 0 : (size_t)ot_rng_below(&f.rng, count);
    if (count > 0 && decode(message, version, wire, cut, record, &same) == OT_OK) {
        fail_msg("%s v%d seed %llu: cut at %zu of %zu taken", message->name, version, (unsigned long long)seed, cut, count);
    }
    for (int i = 0; i < 8 && count > 0; i++) { /* taken or refused, but answered */
        wire[ot_rng_below(&f.rng, count)] ^= (uint8_t)(1u << ot_rng_below(&f.rng, 8));
        (void)decode(message, version, wire, count, record, &same);
    }
    ot_arena_free(&f.arena);
    free(record);
}

static void whatever_is_filled_in_comes_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < ot_wire_message_count; i++) {
        const struct ot_wire_message *message = ot_wire_messages[i];
        for (int16_t version = message->version_min; version <= message->version_max; version++) {
            for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
                check(message, version, seed);
            }
        }
    }
}

/* Written in every other version: refused, or what that version can say of it comes back as that version's own bytes. */
static void another_version_refuses_or_says_less(void **state)
{
    (void)state;
    uint64_t refused = 0, taken = 0;
    for (size_t i = 0; i < ot_wire_message_count; i++) {
        const struct ot_wire_message *message = ot_wire_messages[i];
        struct fill f = {.message = message};
        uint8_t *record = malloc(message->structs[message->root].bytes), *again = malloc(message->structs[message->root].bytes);
        ot_rng_seed(&f.rng, i);
        ot_arena_init(&f.arena, (size_t)64 << 20);
        fill_struct(&f, message->roots[message->version_max - message->version_min], record);
        for (int16_t version = message->version_min; version < message->version_max; version++) {
            struct ot_writer writer = ot_writer_over(wire, sizeof wire);
            enum ot_err err = ot_wire_encode(message, version, record, &writer, NULL);
            if (err != OT_OK) {
                assert_int_equal(err, OT_ERR_UNSUPPORTED_VERSION);
                refused++;
                continue;
            }
            struct ot_reader in = ot_reader_over(wire, (size_t)(writer.at - wire));
            assert_int_equal(ot_wire_decode_all(message, version, &in, &f.arena, again, NULL), OT_OK);
            assert_int_equal(ot_wire_size(message, version, again), (size_t)(writer.at - wire));
            taken++;
        }
        ot_arena_free(&f.arena);
        free(record);
        free(again);
    }
    assert_true(refused > 50 && taken > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_is_filled_in_comes_back),
        cmocka_unit_test(another_version_refuses_or_says_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
