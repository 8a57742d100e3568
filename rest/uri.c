#include "rest/uri.h"
#include <stdio.h>
#include <string.h>

static int hex(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool rest_percent_decode(struct ot_str text, bool plus_is_space, char *out, uint32_t *bytes_out)
{
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < text.bytes; i++) {
        char c = text.data[i];
        if (c == '%') {
            int high = i + 2 < text.bytes ? hex(text.data[i + 1]) : -1, low = i + 2 < text.bytes ? hex(text.data[i + 2]) : -1;
            if (high < 0 || low < 0) return false;
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        out[bytes++] = c;
    }
    *bytes_out = bytes;
    return true;
}

char *rest_percent_encode(struct ot_arena *arena, struct ot_str text)
{
    static const char digits[] = "0123456789ABCDEF";
    char *out = ot_arena_alloc(arena, (size_t)text.bytes * 3 + 1), *at = out;
    for (uint32_t i = 0; out != NULL && i < text.bytes; i++) {
        const uint8_t c = (uint8_t)text.data[i];
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c != 0 && strchr("-._~", c) != NULL);
        if (plain) {
            *at++ = (char)c;
        } else {
            *at++ = '%';
            *at++ = digits[c >> 4];
            *at++ = digits[c & 15];
        }
    }
    return out;
}

static enum ot_err decoded(struct ot_arena *arena, const char *from, const char *to, bool plus_is_space, struct ot_str *out)
{
    struct ot_str raw = { from, (uint32_t)(to - from), false };
    char *data = ot_arena_alloc(arena, raw.bytes + 1u);
    uint32_t bytes = 0;
    if (data == NULL) return OT_ERR_NO_MEMORY;
    if (!rest_percent_decode(raw, plus_is_space, data, &bytes)) return OT_ERR_MALFORMED;
    *out = (struct ot_str){ data, bytes, false };
    return OT_OK;
}

static enum ot_err parse_path(struct ot_arena *arena, const char *at, const char *end, struct rest_uri *out)
{
    if (at == end || *at != '/') return OT_ERR_MALFORMED;
    if (++at == end) return OT_OK;
    for (;;) {
        const char *slash = memchr(at, '/', (size_t)(end - at));
        if (out->segment_count == REST_SEGMENTS_MAX) return OT_ERR_TOO_LARGE;
        enum ot_err err = decoded(arena, at, slash == NULL ? end : slash, false, &out->segments[out->segment_count++]);
        if (err != OT_OK || slash == NULL) return err;
        at = slash + 1;
    }
}

static enum ot_err parse_pair(struct ot_arena *arena, const char *at, const char *end, struct rest_uri *out, char *text_out, size_t text_bytes)
{
    const char *equals = memchr(at, '=', (size_t)(end - at));
    struct rest_pair pair = { .value = { .null = true } };
    enum ot_err err = decoded(arena, at, equals == NULL ? end : equals, true, &pair.name);
    if (err == OT_OK && equals != NULL) err = decoded(arena, equals + 1, end, true, &pair.value);
    for (uint32_t i = 0; err == OT_OK && i < out->query_count; i++) {
        if (!ot_str_equal(out->query[i].name, pair.name)) continue;
        snprintf(text_out, text_bytes, "query parameter '%.*s' is given twice", (int)OT_MIN(pair.name.bytes, 60u), pair.name.data);
        return OT_ERR_MALFORMED;
    }
    if (err == OT_OK && out->query_count == REST_QUERY_MAX) return OT_ERR_TOO_LARGE;
    if (err == OT_OK) out->query[out->query_count++] = pair;
    return err;
}

enum ot_err rest_uri_parse(struct ot_arena *arena, const char *target, size_t bytes, struct rest_uri *out, char *text_out, size_t text_bytes)
{
    const char *end = target + bytes;
    const char *hash = memchr(target, '#', bytes);
    if (hash != NULL) end = hash;
    const char *mark = memchr(target, '?', (size_t)(end - target));
    *out = (struct rest_uri){ 0 };
    text_out[0] = 0;
    enum ot_err err = parse_path(arena, target, mark == NULL ? end : mark, out);
    for (const char *at = mark == NULL ? end : mark + 1; err == OT_OK && at < end;) {
        const char *next = memchr(at, '&', (size_t)(end - at));
        const char *stop = next == NULL ? end : next;
        if (stop > at) err = parse_pair(arena, at, stop, out, text_out, text_bytes);
        at = stop + 1;
    }
    if (err == OT_ERR_MALFORMED && text_out[0] == 0) snprintf(text_out, text_bytes, "the request target is not a path with %%XX escapes");
    if (err == OT_ERR_TOO_LARGE)
        snprintf(text_out, text_bytes, "the request target has more than %d path segments or %d query parameters", REST_SEGMENTS_MAX, REST_QUERY_MAX);
    return err;
}

/* ---- base64 */

static const char letters[2][65] = { "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" };

static size_t encode(const uint8_t *data, size_t bytes, const char *alphabet, char *out)
{
    char *at = out;
    for (size_t i = 0; i < bytes; i += 3) {
        const uint32_t have = (uint32_t)OT_MIN(bytes - i, 3u);
        const uint32_t bits = (uint32_t)data[i] << 16 | (have > 1 ? (uint32_t)data[i + 1] << 8 : 0) | (have > 2 ? data[i + 2] : 0u);
        for (uint32_t k = 0; k <= have; k++) *at++ = alphabet[bits >> (18 - 6 * k) & 63];
    }
    return (size_t)(at - out);
}

static int letter(char c, bool url)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == (url ? '-' : '+')) return 62;
    return c == (url ? '_' : '/') ? 63 : -1;
}

/* Without padding; unused bits must be zero, so that a text has one meaning and a meaning one text. */
static bool decode(const char *text, size_t count, bool url, uint8_t *out, size_t *bytes_out)
{
    uint32_t bits = 0, have = 0;
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const int value = letter(text[i], url);
        if (value < 0) return false;
        bits = bits << 6 | (uint32_t)value;
        have += 6;
        if (have >= 8) {
            have -= 8;
            out[bytes++] = (uint8_t)(bits >> have);
        }
        bits &= (1u << have) - 1;
    }
    *bytes_out = bytes;
    return count % 4 != 1 && bits == 0;
}

char *rest_base64url(struct ot_arena *arena, const void *data, size_t bytes)
{
    char *out = ot_arena_alloc(arena, bytes / 3 * 4 + 5);
    if (out != NULL) out[encode(data, bytes, letters[1], out)] = 0;
    return out;
}

uint8_t *rest_base64url_decode(struct ot_arena *arena, struct ot_str text, size_t *bytes_out)
{
    uint8_t *out = ot_arena_alloc(arena, text.bytes + 1u);
    return out != NULL && decode(text.data, text.bytes, true, out, bytes_out) ? out : NULL;
}

size_t rest_base64_bytes(size_t bytes) { return (bytes + 2) / 3 * 4; }

void rest_base64(const void *data, size_t bytes, char *out)
{
    size_t count = encode(data, bytes, letters[0], out);
    while (count % 4 != 0) out[count++] = '=';
}

bool rest_base64_decode(struct ot_str text, uint8_t *out, size_t *bytes_out)
{
    uint32_t count = text.bytes;
    if (count % 4 != 0) return false;
    for (uint32_t padding = 0; padding < 2 && count > 0 && text.data[count - 1] == '='; padding++) count--;
    return decode(text.data, count, false, out, bytes_out);
}
