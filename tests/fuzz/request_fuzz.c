/* Any message, any version, from any bytes: two bytes choose the message, one the version, one the way, the rest is the
 * input. What decodes must encode, and the encoded bytes must decode to the same bytes again: sizes agree with what is
 * written, and a frame keeps version and type. */
#include "base/wire/frame.h"
#include "base/wire/messages.h"
#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)16 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static size_t encode(const struct ot_wire_message *message, int16_t version, const void *record, uint8_t **out)
{
    struct ot_wire_error error;
    size_t size = ot_wire_size(message, version, record);
    *out = malloc(size == 0 ? 1 : size);
    struct ot_writer writer = ot_writer_over(*out, size);
    OT_ASSERT(ot_wire_encode_check(message, version, record, &error) == OT_OK);
    OT_ASSERT(ot_wire_encode(message, version, record, &writer, NULL) == OT_OK);
    OT_ASSERT((size_t)(writer.at - *out) == size && writer.needed == size);
    return size;
}

static void round_trip(const struct ot_wire_message *message, int16_t version, const void *record)
{
    struct ot_arena arena;
    struct ot_wire_error error;
    uint8_t *first, *second;
    void *again = malloc(message->structs[message->root].bytes);
    size_t first_bytes = encode(message, version, record, &first);
    struct ot_reader reader = ot_reader_over(first, first_bytes);
    ot_arena_init(&arena, ARENA_BYTES);
    OT_ASSERT(ot_wire_decode_all(message, version, &reader, &arena, again, &error) == OT_OK);
    size_t second_bytes = encode(message, version, again, &second);
    OT_ASSERT(first_bytes == second_bytes && memcmp(first, second, first_bytes) == 0);
    ot_arena_free(&arena);
    free(first);
    free(second);
    free(again);
}

/* An encoder asked for another version refuses or writes something that version reads. */
static void other_version(const struct ot_wire_message *message, int16_t version, const void *record)
{
    struct ot_wire_error error;
    if (version <= message->version_max && ot_wire_encode_check(message, version, record, &error) == OT_OK) {
        round_trip(message, version, record);
    }
}

static void fuzz_message(const struct ot_wire_message *message, int16_t version, bool framed, struct ot_reader *reader)
{
    struct ot_arena arena;
    struct ot_wire_error error;
    void *record = malloc(message->structs[message->root].bytes);
    ot_arena_init(&arena, ARENA_BYTES);
    enum ot_err err = framed ? ot_wire_framed_decode(message, reader, &arena, record, &version, &error)
                             : ot_wire_decode(message, version, reader, &arena, record, &error);
    OT_ASSERT(reader->at <= reader->end && reader->err == err);
    if (err == OT_OK) {
        round_trip(message, version, record);
        other_version(message, (int16_t)(version + 1), record);
    }
    ot_arena_free(&arena);
    free(record);
}

static void fuzz_request(struct ot_reader *reader)
{
    struct ot_arena arena;
    struct ot_wire_error error;
    struct ot_wire_request_header header;
    ot_arena_init(&arena, ARENA_BYTES);
    if (ot_wire_request_header_decode(reader, &arena, &header, &error) == OT_OK &&
        ot_api_serves(header.api, header.version, true)) {
        fuzz_message(header.api->request, header.version, false, reader);
    }
    ot_arena_free(&arena);
}

/* By a hash of the name, so that a new message leaves the meaning of nearly every kept input alone: the next hash at or above the number. */
static const struct ot_wire_message *choose(uint16_t number)
{
    const struct ot_wire_message *best = NULL;
    uint16_t best_distance = UINT16_MAX;
    for (size_t i = 0; i < ot_wire_message_count; i++) {
        uint16_t hash = 0;
        for (const char *c = ot_wire_messages[i]->name; *c != '\0'; c++) {
            hash = (uint16_t)(hash * 31u + (uint8_t)*c);
        }
        uint16_t distance = (uint16_t)(hash - number);
        if (best == NULL || distance < best_distance) {
            best = ot_wire_messages[i];
            best_distance = distance;
        }
    }
    return best;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 4) {
        return 0;
    }
    static const struct ot_wire_message *chosen[UINT16_MAX + 1];
    uint16_t number = ot_load_u16(data);
    if (chosen[number] == NULL) {
        chosen[number] = choose(number);
    }
    const struct ot_wire_message *message = chosen[number];
    int16_t version = (int16_t)(message->version_min + data[2] % (message->version_max - message->version_min + 1));
    uint8_t *copy = malloc(bytes - 4 + 1); /* ends where the input ends: a byte read past it is seen */
    memcpy(copy + 1, data + 4, bytes - 4);
    struct ot_reader reader = ot_reader_over(copy + 1, bytes - 4);
    switch (data[3] % 3) {
    case 0: fuzz_message(message, version, false, &reader); break;
    case 1:
        if (message->frame != OT_WIRE_FRAME_NONE) {
            fuzz_message(message, version, true, &reader);
        }
        break;
    default: fuzz_request(&reader);
    }
    free(copy);
    return 0;
}
