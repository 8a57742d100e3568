#include "rest/json_out.h"
#include "base/util.h"
#include "rest/uri.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rest_json_init(struct rest_json *json, size_t max_bytes) { *json = (struct rest_json){ .max_bytes = max_bytes }; }

void rest_json_free(struct rest_json *json)
{
    free(json->data);
    *json = (struct rest_json){ .failed = true };
}

static char *room(struct rest_json *json, size_t bytes)
{
    if (json->failed) return NULL;
    if (bytes > json->max_bytes - json->bytes) {
        json->failed = true;
        return NULL;
    }
    if (json->bytes + bytes > json->cap_bytes) {
        const size_t cap = OT_MIN(OT_MAX(OT_MAX(json->cap_bytes * 2, json->bytes + bytes), 512u), json->max_bytes);
        char *grown = realloc(json->data, cap);
        if (grown == NULL) {
            json->failed = true;
            return NULL;
        }
        json->data = grown;
        json->cap_bytes = cap;
    }
    return json->data + json->bytes;
}

void rest_json_put(struct rest_json *json, const char *text, size_t bytes)
{
    char *at = bytes == 0 ? NULL : room(json, bytes);
    if (at == NULL) return;
    memcpy(at, text, bytes);
    json->bytes += bytes;
}

static void put_char(struct rest_json *json, char c) { rest_json_put(json, &c, 1); }

/* Bytes of the UTF-8 sequence at text, or 0 when it is none. */
static uint32_t sequence_bytes(const uint8_t *text, size_t left)
{
    const uint32_t bytes = text[0] < 0x80 ? 1 : text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    return bytes <= left && ot_utf8_valid(text, bytes) ? bytes : 0;
}

static void put_escaped(struct rest_json *json, uint8_t c)
{
    static const char *const named[] = { ['\b'] = "\\b", ['\t'] = "\\t", ['\n'] = "\\n", ['\f'] = "\\f", ['\r'] = "\\r", ['"'] = "\\\"", ['\\'] = "\\\\" };
    if (c < OT_ARRAY_COUNT(named) && named[c] != NULL) {
        rest_json_put(json, named[c], 2);
    } else {
        char text[8];
        snprintf(text, sizeof(text), "\\u%04x", c);
        rest_json_put(json, text, 6);
    }
}

static void put_string(struct rest_json *json, const char *data, size_t bytes)
{
    const uint8_t *text = (const uint8_t *)data;
    const bool valid = ot_utf8_valid(data, bytes);
    size_t from = 0, i = 0;
    put_char(json, '"');
    while (i < bytes) {
        const bool plain = text[i] >= 0x20 && text[i] != '"' && text[i] != '\\' && text[i] != 0x7f;
        const uint32_t step = !plain ? 0 : valid || text[i] < 0x80 ? 1 : sequence_bytes(text + i, bytes - i);
        if (step > 0) {
            i += step;
            continue;
        }
        rest_json_put(json, data + from, i - from);
        if (plain) rest_json_put(json, "\xef\xbf\xbd", 3);
        else put_escaped(json, text[i]);
        from = ++i;
    }
    rest_json_put(json, data + from, bytes - from);
    put_char(json, '"');
}

static void begin(struct rest_json *json, const char *key)
{
    if (json->comma) put_char(json, ',');
    json->comma = true;
    if (key == NULL) return;
    put_string(json, key, strlen(key));
    put_char(json, ':');
}

void rest_json_open(struct rest_json *json, const char *key, char bracket)
{
    begin(json, key);
    put_char(json, bracket);
    json->comma = false;
}

void rest_json_close(struct rest_json *json, char bracket)
{
    put_char(json, bracket);
    json->comma = true;
}

void rest_json_raw(struct rest_json *json, const char *key, const char *text, size_t bytes)
{
    begin(json, key);
    rest_json_put(json, text, bytes);
}

void rest_json_null(struct rest_json *json, const char *key) { rest_json_raw(json, key, "null", 4); }
void rest_json_bool(struct rest_json *json, const char *key, bool value) { rest_json_raw(json, key, value ? "true" : "false", value ? 4 : 5); }

void rest_json_str(struct rest_json *json, const char *key, struct ot_str text)
{
    if (text.null) {
        rest_json_null(json, key);
        return;
    }
    begin(json, key);
    put_string(json, text.data, text.bytes);
}

void rest_json_text(struct rest_json *json, const char *key, const char *text) { rest_json_str(json, key, ot_str_of(text)); }

void rest_json_str_key(struct rest_json *json, struct ot_str key)
{
    begin(json, NULL);
    put_string(json, key.data, key.bytes);
    put_char(json, ':');
    json->comma = false;
}

void rest_json_int(struct rest_json *json, const char *key, int64_t value)
{
    char text[24];
    const int bytes = snprintf(text, sizeof(text), "%" PRId64, value);
    rest_json_raw(json, key, text, (size_t)bytes);
}

void rest_json_big(struct rest_json *json, const char *key, int64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRId64, value);
    if (json->big_as_text) rest_json_text(json, key, text);
    else rest_json_raw(json, key, text, strlen(text));
}

void rest_json_big_or_null(struct rest_json *json, const char *key, int64_t value)
{
    if (value < 0) rest_json_null(json, key);
    else rest_json_big(json, key, value);
}

void rest_json_real(struct rest_json *json, const char *key, double value)
{
    char text[40];
    if (!isfinite(value)) {
        rest_json_null(json, key);
        return;
    }
    const bool whole = value > -1e15 && value < 1e15 && value == floor(value);
    const int bytes = snprintf(text, sizeof(text), whole ? "%.0f" : "%.9g", value);
    rest_json_raw(json, key, text, (size_t)bytes);
}

void rest_json_time(struct rest_json *json, const char *key, int64_t wall_ms)
{
    char text[25];
    if (wall_ms < 0) {
        rest_json_null(json, key);
        return;
    }
    ot_time_text(wall_ms, text);
    rest_json_text(json, key, text);
}

void rest_json_uuid(struct rest_json *json, const char *key, const struct ot_uuid *id)
{
    char text[23];
    ot_uuid_text(id, text);
    rest_json_text(json, key, text);
}

void rest_json_base64(struct rest_json *json, const char *key, struct ot_blob blob)
{
    const size_t bytes = rest_base64_bytes(blob.bytes);
    begin(json, key);
    put_char(json, '"');
    char *at = room(json, bytes);
    if (at == NULL) return;
    if (bytes > 0) rest_base64(blob.data, blob.bytes, at);
    json->bytes += bytes;
    put_char(json, '"');
}

/* ---- indenting */

static void new_line(struct rest_json *out, int depth)
{
    static const char blanks[] = "                                                                ";
    put_char(out, '\n');
    rest_json_put(out, blanks, (size_t)OT_MIN(depth * 2, 64));
}

static size_t string_end(const char *text, size_t bytes, size_t at)
{
    for (at++; at < bytes && text[at] != '"'; at++) at += text[at] == '\\';
    return OT_MIN(at + 1, bytes);
}

void rest_json_pretty(struct rest_json *out, const char *text, size_t bytes)
{
    int depth = 0;
    for (size_t i = 0; i < bytes; i++) {
        const char c = text[i];
        if (c == '"') {
            const size_t end = string_end(text, bytes, i);
            rest_json_put(out, text + i, end - i);
            i = end - 1;
        } else if ((c == '{' || c == '[') && i + 1 < bytes && (text[i + 1] == '}' || text[i + 1] == ']')) {
            rest_json_put(out, text + i++, 2);
        } else if (c == '{' || c == '[') {
            put_char(out, c);
            new_line(out, ++depth);
        } else if (c == '}' || c == ']') {
            new_line(out, --depth);
            put_char(out, c);
        } else if (c == ',') {
            put_char(out, c);
            new_line(out, depth);
        } else if (c == ':') {
            rest_json_put(out, ": ", 2);
        } else if (c != ' ' && c != '\n' && c != '\t' && c != '\r') {
            put_char(out, c);
        }
    }
    put_char(out, '\n');
}
