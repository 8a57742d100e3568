#include "wire_vectors.h"
#include "base/wire/frame.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct vector {
    json_t *line, *json;
    const struct ot_wire_message *message;
    int16_t version;
    uint8_t *bytes;
    size_t count;
    struct ot_arena arena;
    void *record;
    struct wire_json_why *why;
};

static bool wrong(struct vector *v, const char *what, const struct ot_wire_error *error)
{
    (void)snprintf(v->why->text, sizeof v->why->text, "%s v%d: %s%s%s%s%s", v->message == NULL ? "?" : v->message->name, v->version,
        what, error == NULL ? "" : " at ", error == NULL ? "" : error->field, error == NULL ? "" : ": ",
        error == NULL ? "" : error->reason);
    return false;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

uint8_t *wire_vector_hex(json_t *line, const char *key, size_t *bytes_out)
{
    json_t *text = json_object_get(line, key);
    size_t digits = json_string_length(text);
    const char *hex = json_string_value(text);
    uint8_t *bytes = hex == NULL || digits % 2 != 0 ? NULL : malloc(digits == 0 ? 1 : digits / 2);
    for (size_t i = 0; bytes != NULL && i < digits; i += 2) {
        int high = digit(hex[i]), low = digit(hex[i + 1]);
        if (high < 0 || low < 0) {
            free(bytes);
            return NULL;
        }
        bytes[i / 2] = (uint8_t)(high << 4 | low);
    }
    *bytes_out = digits / 2;
    return bytes;
}

static size_t record_bytes(const struct vector *v)
{
    return v->message->structs[v->message->root].bytes;
}

static bool vector_open(struct vector *v)
{
    const char *name = json_string_value(json_object_get(v->line, "name"));
    ot_arena_init(&v->arena, (size_t)64 << 20);
    v->message = name == NULL ? NULL : ot_wire_find_name(name);
    v->version = (int16_t)json_integer_value(json_object_get(v->line, "version"));
    v->json = json_object_get(v->line, "json");
    v->bytes = wire_vector_hex(v->line, "hex", &v->count);
    if (v->message == NULL || v->bytes == NULL || v->json == NULL) {
        return wrong(v, "no such message, no hex or no json", NULL);
    }
    if (v->version < v->message->version_min || v->version > v->message->version_max) {
        return wrong(v, "no such version", NULL);
    }
    v->record = malloc(record_bytes(v));
    memset(v->record, 0xa5, record_bytes(v));
    return true;
}

static void vector_close(struct vector *v)
{
    free(v->bytes);
    free(v->record);
    ot_arena_free(&v->arena);
}

static bool check_labels(struct vector *v)
{
    static const char *const kinds[] = {
        "request", "response", "header", "data", "metadata", "coordinator-key", "coordinator-value"};
    json_t *api = json_object_get(v->line, "api"), *header = json_object_get(v->line, "header"),
           *type = json_object_get(v->line, "type");
    if (!json_is_string(type) || strcmp(json_string_value(type), kinds[v->message->kind]) != 0) {
        return wrong(v, "another kind", NULL);
    }
    if (json_is_integer(api) ? json_integer_value(api) != v->message->api : v->message->api != -1) {
        return wrong(v, "another api", NULL);
    }
    if (json_is_true(json_object_get(v->line, "unstable")) != (v->message->unstable && v->version == v->message->version_max)) {
        return wrong(v, "stable on one side only", NULL);
    }
    if (header == NULL) {
        return true;
    }
    const struct ot_api *row = ot_api_find(v->message->api);
    bool request = v->message->kind == OT_WIRE_REQUEST;
    if (row == NULL || (request ? row->request : row->response) != v->message ||
        json_integer_value(header) !=
            (request ? ot_api_request_header_version(row, v->version) : ot_api_response_header_version(row, v->version))) {
        return wrong(v, "another header version", NULL);
    }
    return true;
}

static bool check_decode(struct vector *v)
{
    struct ot_wire_error error;
    struct ot_reader in = ot_reader_over(v->bytes, v->count);
    if (ot_wire_decode_all(v->message, v->version, &in, &v->arena, v->record, &error) != OT_OK) {
        return wrong(v, "decoding refused", &error);
    }
    return wire_json_equal(v->message, v->version, v->record, v->json, v->why);
}

/* Encodes into a block of exactly the right size, and into one that is too small by a byte. */
static bool check_encode(struct vector *v, const void *record, const char *what)
{
    struct ot_wire_error error;
    size_t bytes = ot_wire_size(v->message, v->version, record);
    if (ot_wire_encode_check(v->message, v->version, record, &error) != OT_OK) {
        return wrong(v, what, &error);
    }
    uint8_t *out = malloc(v->count == 0 ? 1 : v->count);
    struct ot_writer full = ot_writer_over(out, v->count);
    bool same = bytes == v->count && ot_wire_encode(v->message, v->version, record, &full, NULL) == OT_OK &&
                full.needed == v->count && (size_t)(full.at - out) == v->count && memcmp(out, v->bytes, v->count) == 0;
    if (same && v->count > 0) {
        out = realloc(out, v->count == 1 ? 1 : v->count - 1);
        struct ot_writer tight = ot_writer_over(out, v->count - 1);
        same = ot_wire_encode(v->message, v->version, record, &tight, NULL) == OT_ERR_TOO_LARGE && tight.needed == v->count;
    }
    free(out);
    return same || wrong(v, what, NULL);
}

static bool check_build(struct vector *v)
{
    void *built = malloc(record_bytes(v));
    memset(built, 0x5a, record_bytes(v));
    bool good = wire_json_build(v->message, v->version, v->json, &v->arena, built, v->why) &&
                check_encode(v, built, "built from JSON, other bytes");
    free(built);
    return good;
}

static enum ot_err decode_cut(struct vector *v, const uint8_t *bytes, size_t count, bool framed)
{
    struct ot_arena arena;
    struct ot_wire_error error;
    int16_t version = -1;
    uint8_t *copy = malloc(count == 0 ? 1 : count); /* exactly sized: a sanitizer sees one byte too far */
    memcpy(copy, bytes, count);
    const uint8_t *start = count == 0 ? copy + 1 : copy;
    struct ot_reader in = ot_reader_over(start, count);
    ot_arena_init(&arena, (size_t)64 << 20);
    enum ot_err err = framed ? ot_wire_framed_decode(v->message, &in, &arena, v->record, &version, &error)
                             : ot_wire_decode_all(v->message, v->version, &in, &arena, v->record, &error);
    if (in.at < start || in.at > start + count || (err != OT_OK && in.err == OT_OK)) {
        err = OT_OK; /* out of its bounds, or silent: no refusal */
    }
    ot_arena_free(&arena);
    free(copy);
    return err;
}

static bool check_prefixes(struct vector *v, const uint8_t *bytes, size_t count, bool framed)
{
    for (size_t cut = 0; cut < count; cut++) {
        enum ot_err err = decode_cut(v, bytes, cut, framed);
        if (err != OT_ERR_SHORT && err != OT_ERR_MALFORMED) {
            char what[64];
            (void)snprintf(what, sizeof what, "prefix of %zu bytes gives %s", cut, ot_err_name(err));
            return wrong(v, what, NULL);
        }
    }
    return true;
}

static bool check_garbage(struct vector *v)
{
    uint8_t *longer = malloc(v->count + 1);
    memcpy(longer, v->bytes, v->count);
    longer[v->count] = 0;
    enum ot_err err = decode_cut(v, longer, v->count + 1, false);
    free(longer);
    return err == OT_ERR_MALFORMED || wrong(v, "a byte behind the message is not refused", NULL);
}

static bool check_framed(struct vector *v, const uint8_t *framed, size_t count)
{
    struct ot_wire_error error;
    int16_t version = -1;
    struct ot_reader in = ot_reader_over(framed, count);
    if (ot_wire_framed_decode(v->message, &in, &v->arena, v->record, &version, &error) != OT_OK) {
        return wrong(v, "framed, decoding refused", &error);
    }
    if (version != v->version || !wire_json_equal(v->message, v->version, v->record, v->json, v->why)) {
        return wrong(v, "framed, another version or value", NULL);
    }
    uint8_t *out = malloc(count);
    struct ot_writer writer = ot_writer_over(out, count);
    bool same = ot_wire_framed_encode(v->message, v->version, v->record, &writer) == OT_OK && (size_t)(writer.at - out) == count &&
                memcmp(out, framed, count) == 0;
    free(out);
    return (same || wrong(v, "framed, other bytes", NULL)) && check_prefixes(v, framed, count, true);
}

static bool check_frame(struct vector *v)
{
    size_t count = 0;
    uint8_t *framed = wire_vector_hex(v->line, "framed", &count);
    if (framed == NULL) {
        return v->message->frame == OT_WIRE_FRAME_NONE || wrong(v, "framed here, but not in the vectors", NULL);
    }
    bool good = check_framed(v, framed, count);
    free(framed);
    return good;
}

bool wire_vector_check(json_t *line, struct wire_json_why *why)
{
    struct vector v = {.line = line, .why = why};
    bool good = vector_open(&v) && check_labels(&v) && check_decode(&v) &&
                check_encode(&v, v.record, "encoded again, other bytes") && check_build(&v) &&
                check_prefixes(&v, v.bytes, v.count, false) && check_garbage(&v) && check_frame(&v);
    vector_close(&v);
    return good;
}

bool wire_vector_check_arena(json_t *line, struct wire_json_why *why)
{
    struct vector v = {.line = line, .why = why};
    bool good = vector_open(&v);
    enum ot_err err = OT_ERR_NO_MEMORY;
    for (size_t bytes = 0; good && err == OT_ERR_NO_MEMORY && bytes < (size_t)4 << 20; bytes += 16) {
        struct ot_arena arena;
        struct ot_wire_error error;
        struct ot_reader in = ot_reader_over(v.bytes, v.count);
        void *room = aligned_alloc(16, bytes == 0 ? 16 : bytes);
        ot_arena_init_with(&arena, room, bytes, 0);
        err = ot_wire_decode_all(v.message, v.version, &in, &arena, v.record, &error);
        if (err == OT_OK) {
            good = wire_json_equal(v.message, v.version, v.record, v.json, why);
        } else if (err != OT_ERR_NO_MEMORY || in.err != err) {
            good = wrong(&v, "with little memory", &error);
        }
        ot_arena_free(&arena);
        free(room);
    }
    good = good && (err == OT_OK || wrong(&v, "4 MiB are not enough", NULL));
    vector_close(&v);
    return good;
}
