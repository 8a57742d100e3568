/* Messages against JSON, for tests: any message, driven by its descriptor. JSON is that of the golden vectors: field names
 * with the first letter in lower case, bytes and records in base64, uuids in URL-safe base64, tagged fields at their default
 * absent, `_tags` as [[tag, base64], ...]. why gets the path and what is wrong; it may be shared by consecutive calls. */
#ifndef OT_TESTS_WIRE_JSON_H
#define OT_TESTS_WIRE_JSON_H

#include "base/wire/codec.h"
#include <jansson.h>

struct wire_json_why {
    char text[512];
};

/* Whether the struct says exactly what the JSON object says: every field of the version, and not one more key. */
bool wire_json_equal(
    const struct ot_wire_message *message, int16_t version, const void *record, json_t *object, struct wire_json_why *why);
/* Fill *out from the object; texts borrow from it, the rest lies in the arena. */
bool wire_json_build(const struct ot_wire_message *message, int16_t version, json_t *object, struct ot_arena *arena, void *out,
    struct wire_json_why *why);
/* Standard base64 with padding into the arena; false when it is none. */
bool wire_json_base64(const char *text, size_t text_bytes, struct ot_arena *arena, struct ot_blob *out);

#endif
