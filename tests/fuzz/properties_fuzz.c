/* Java properties: any bytes. What comes out must be terminated UTF-8, in order of lines, no longer than what went in; a second pass must say
 * the same, and a caller's refusal must come back. */
#include "base/properties.h"
#include "base/util.h"

#include <stdlib.h>
#include <string.h>

struct seen {
    int count, last_line, stop_at;
    size_t bytes;
    uint64_t hash;
};

static enum ot_err each(void *arg, int line, const char *key, const char *value)
{
    struct seen *seen = arg;
    const size_t key_bytes = strlen(key), value_bytes = strlen(value);
    OT_ASSERT(line >= 1 && line >= seen->last_line);
    OT_ASSERT(ot_utf8_valid(key, key_bytes) && ot_utf8_valid(value, value_bytes));
    seen->last_line = line;
    seen->bytes += key_bytes + value_bytes;
    seen->hash = ot_hash64(value, value_bytes, ot_hash64(key, key_bytes, seen->hash));
    return ++seen->count == seen->stop_at ? OT_ERR_INVALID_CONFIG : OT_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen first = {0}, second = {0}, stopped = {.stop_at = 2};
    int line = 0, line_again = 0;
    const char *text = (const char *)data;
    const enum ot_err err = ot_properties_parse(text, size, each, &first, &line);
    OT_ASSERT(err == OT_OK || err == OT_ERR_MALFORMED || err == OT_ERR_TOO_LARGE);
    OT_ASSERT(err == OT_ERR_TOO_LARGE || line >= first.last_line);
    OT_ASSERT(first.bytes <= size);
    OT_ASSERT(ot_properties_parse(text, size, each, &second, &line_again) == err);
    OT_ASSERT(line == line_again && first.count == second.count && first.hash == second.hash);
    const enum ot_err stop = ot_properties_parse(text, size, each, &stopped, NULL);
    OT_ASSERT(first.count >= 2 ? stop == OT_ERR_INVALID_CONFIG : stop == err);
    return 0;
}
