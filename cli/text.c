#include "cli/text.h"
#include "base/util.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void blanks(struct ot_reader *in)
{
    while (in->at < in->end && (*in->at == ' ' || *in->at == '\t' || *in->at == '\n' || *in->at == '\r')) in->at++;
}

static bool digits(struct ot_reader *in)
{
    const uint8_t *from = in->at;
    while (in->at < in->end && *in->at >= '0' && *in->at <= '9') in->at++;
    return in->at > from;
}

static bool number(struct ot_reader *in)
{
    if (in->at < in->end && *in->at == '-') in->at++;
    const uint8_t *from = in->at;
    if (!digits(in) || (*from == '0' && in->at > from + 1)) return false;
    if (in->at < in->end && *in->at == '.') {
        in->at++;
        if (!digits(in)) return false;
    }
    if (in->at < in->end && (*in->at == 'e' || *in->at == 'E')) {
        in->at++;
        if (in->at < in->end && (*in->at == '+' || *in->at == '-')) in->at++;
        if (!digits(in)) return false;
    }
    return true;
}

static bool word(struct ot_reader *in, const char *text)
{
    const size_t bytes = strlen(text);
    if (ot_reader_left(in) < bytes || memcmp(in->at, text, bytes) != 0) return false;
    in->at += bytes;
    return true;
}

static int hex(uint8_t c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool string(struct ot_reader *in)
{
    const uint8_t *from = ++in->at;
    for (; in->at < in->end && *in->at != '"'; in->at++) {
        if (*in->at < 0x20) return false;
        if (*in->at != '\\') continue;
        if (++in->at == in->end || memchr("\"\\/bfnrtu", *in->at, 9) == NULL) return false;
        if (*in->at != 'u') continue;
        for (int i = 0; i < 4; i++)
            if (++in->at == in->end || hex(*in->at) < 0) return false;
    }
    if (in->at == in->end || !ot_utf8_valid(from, (size_t)(in->at - from))) return false;
    in->at++;
    return true;
}

/* Without recursion: the brackets that are open lie in a small stack. */
static bool value(struct ot_reader *in)
{
    uint8_t open[CLI_JSON_DEPTH_MAX];
    uint32_t depth = 0;
    for (;;) {
        blanks(in);
        if (in->at == in->end) return false;
        const uint8_t c = *in->at;
        if (c == '{' || c == '[') {
            if (depth == CLI_JSON_DEPTH_MAX) return false;
            open[depth++] = c;
            in->at++;
            blanks(in);
            if (in->at == in->end) return false;
            if (*in->at != (c == '{' ? '}' : ']')) {
                if (c == '[') continue;
                goto name;
            }
        } else if (c == '"' ? !string(in) : c == 't' ? !word(in, "true") : c == 'f' ? !word(in, "false") : c == 'n' ? !word(in, "null") : !number(in)) {
            return false;
        }
        for (;;) { /* behind a value */
            if (depth == 0) return true;
            blanks(in);
            if (in->at == in->end) return false;
            if (*in->at == (open[depth - 1] == '{' ? '}' : ']')) {
                in->at++;
                depth--;
                continue;
            }
            if (*in->at++ != ',') return false;
            break;
        }
        if (open[depth - 1] == '[') continue;
        blanks(in);
    name:
        if (in->at == in->end || *in->at != '"' || !string(in)) return false;
        blanks(in);
        if (in->at == in->end || *in->at++ != ':') return false;
    }
}

bool cli_json_value(struct ot_reader *in, struct ot_blob *out)
{
    blanks(in);
    const uint8_t *from = in->at;
    if (!value(in)) return false;
    if (out != NULL) *out = (struct ot_blob){from, (uint32_t)(in->at - from), false};
    return true;
}

bool cli_json_valid(const void *data, size_t bytes)
{
    struct ot_reader in = ot_reader_over(data, bytes);
    if (!cli_json_value(&in, NULL)) return false;
    blanks(&in);
    return in.at == in.end;
}

static bool begin(struct ot_reader *in, uint8_t bracket)
{
    blanks(in);
    if (in->at == in->end || *in->at != bracket) return false;
    in->at++;
    return true;
}

bool cli_json_object_begin(struct ot_reader *in)
{
    return begin(in, '{');
}

bool cli_json_array_begin(struct ot_reader *in)
{
    return begin(in, '[');
}

static int next(struct ot_reader *in, bool first, uint8_t close)
{
    blanks(in);
    if (in->at == in->end) return -1;
    if (*in->at == close) {
        in->at++;
        return 0;
    }
    if (!first && *in->at++ != ',') return -1;
    return 1;
}

int cli_json_member(struct ot_reader *in, bool first, struct ot_blob *name, struct ot_blob *value_out)
{
    const int more = next(in, first, '}');
    if (more != 1) return more;
    if (!cli_json_value(in, name) || name->data[0] != '"') return -1;
    blanks(in);
    if (in->at == in->end || *in->at++ != ':') return -1;
    return cli_json_value(in, value_out) ? 1 : -1;
}

int cli_json_element(struct ot_reader *in, bool first, struct ot_blob *value_out)
{
    const int more = next(in, first, ']');
    return more != 1 ? more : cli_json_value(in, value_out) ? 1 : -1;
}

static uint8_t *utf8(uint8_t *to, uint32_t point)
{
    if (point < 0x80) {
        *to++ = (uint8_t)point;
    } else if (point < 0x800) {
        *to++ = (uint8_t)(0xc0 | point >> 6);
        *to++ = (uint8_t)(0x80 | (point & 63));
    } else if (point < 0x10000) {
        *to++ = (uint8_t)(0xe0 | point >> 12);
        *to++ = (uint8_t)(0x80 | (point >> 6 & 63));
        *to++ = (uint8_t)(0x80 | (point & 63));
    } else {
        *to++ = (uint8_t)(0xf0 | point >> 18);
        *to++ = (uint8_t)(0x80 | (point >> 12 & 63));
        *to++ = (uint8_t)(0x80 | (point >> 6 & 63));
        *to++ = (uint8_t)(0x80 | (point & 63));
    }
    return to;
}

static uint32_t unit(const uint8_t *at)
{
    return (uint32_t)(hex(at[0]) << 12 | hex(at[1]) << 8 | hex(at[2]) << 4 | hex(at[3]));
}

bool cli_json_string(struct ot_blob raw, uint8_t *to, uint32_t *bytes_out)
{
    static const char from[] = "bfnrt", is[] = "\b\f\n\r\t";
    const uint8_t *at = raw.data + 1, *end = raw.data + raw.bytes - 1;
    uint8_t *out = to;
    if (raw.bytes < 2 || raw.data[0] != '"') return false;
    while (at < end) {
        if (*at != '\\') {
            *out++ = *at++;
            continue;
        }
        const uint8_t c = at[1];
        at += 2;
        if (c != 'u') {
            const char *found = memchr(from, c, 5);
            *out++ = found != NULL ? (uint8_t)is[found - from] : c;
            continue;
        }
        uint32_t point = unit(at);
        at += 4;
        if (point >= 0xdc00 && point < 0xe000) return false;
        if (point >= 0xd800 && point < 0xdc00) {
            if (end - at < 6 || at[0] != '\\' || at[1] != 'u') return false;
            const uint32_t low = unit(at + 2);
            if (low < 0xdc00 || low >= 0xe000) return false;
            point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
            at += 6;
        }
        out = utf8(out, point);
    }
    *bytes_out = (uint32_t)(out - to);
    return true;
}

bool cli_json_integer(struct ot_blob raw, int64_t *out)
{
    char text[32];
    if (raw.bytes >= sizeof(text)) return false;
    memcpy(text, raw.data, raw.bytes);
    text[raw.bytes] = 0;
    return cli_number(text, INT64_MIN, INT64_MAX, out);
}

void cli_json_print(FILE *to, const void *data, size_t bytes)
{
    const uint8_t *at = data, *end = at + bytes, *from = at;
    fputc('"', to);
    for (; at < end; at++) {
        if (*at >= 0x20 && *at != '"' && *at != '\\' && *at != 0x7f) continue;
        fwrite(from, 1, (size_t)(at - from), to);
        from = at + 1;
        switch (*at) {
        case '"': fputs("\\\"", to); break;
        case '\\': fputs("\\\\", to); break;
        case '\n': fputs("\\n", to); break;
        case '\r': fputs("\\r", to); break;
        case '\t': fputs("\\t", to); break;
        default: fprintf(to, "\\u%04x", *at); break;
        }
    }
    fwrite(from, 1, (size_t)(at - from), to);
    fputc('"', to);
}

static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void cli_base64_print(FILE *to, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    for (; bytes > 0; at += 3, bytes -= OT_MIN(bytes, 3u)) {
        const uint32_t bits = (uint32_t)at[0] << 16 | (bytes > 1 ? (uint32_t)at[1] << 8 : 0) | (bytes > 2 ? at[2] : 0u);
        const char four[4] = {base64[bits >> 18], base64[bits >> 12 & 63], bytes > 1 ? base64[bits >> 6 & 63] : '=', bytes > 2 ? base64[bits & 63] : '='};
        fwrite(four, 1, 4, to);
    }
}

bool cli_base64_decode(const void *text, size_t bytes, uint8_t *to, uint32_t *bytes_out)
{
    const uint8_t *at = text;
    uint32_t bits = 0, got = 0;
    uint8_t *out = to;
    if (bytes % 4 != 0) return false;
    if (bytes > 0 && at[bytes - 1] == '=') bytes--;
    if (bytes > 0 && at[bytes - 1] == '=') bytes--;
    for (size_t i = 0; i < bytes; i++) {
        const char *found = at[i] == 0 ? NULL : strchr(base64, at[i]);
        if (found == NULL) return false;
        bits = bits << 6 | (uint32_t)(found - base64);
        if (++got % 4 == 0) {
            *out++ = (uint8_t)(bits >> 16);
            *out++ = (uint8_t)(bits >> 8);
            *out++ = (uint8_t)bits;
        }
    }
    if (got % 4 == 2) *out++ = (uint8_t)(bits >> 4);
    if (got % 4 == 3) {
        *out++ = (uint8_t)(bits >> 10);
        *out++ = (uint8_t)(bits >> 2);
    }
    *bytes_out = (uint32_t)(out - to);
    return got % 4 != 1;
}

size_t cli_unescape(char *text)
{
    static const char from[] = "ntr0\\e", is[] = "\n\t\r\0\\\033";
    char *out = text;
    for (const char *at = text; *at != 0;) {
        const char *found = at[0] == '\\' && at[1] != 0 ? strchr(from, at[1]) : NULL;
        if (found != NULL) {
            *out++ = is[found - from];
            at += 2;
        } else if (at[0] == '\\' && at[1] == 'x' && hex((uint8_t)at[2]) >= 0 && hex((uint8_t)at[3]) >= 0) {
            *out++ = (char)(hex((uint8_t)at[2]) << 4 | hex((uint8_t)at[3]));
            at += 4;
        } else {
            *out++ = *at++;
        }
    }
    *out = 0;
    return (size_t)(out - text);
}

bool cli_number(const char *text, int64_t least, int64_t most, int64_t *out)
{
    char *end;
    const char *digit = text[0] == '-' || text[0] == '+' ? text + 1 : text;
    if (*digit < '0' || *digit > '9') return false;
    errno = 0;
    const long long got = strtoll(text, &end, 10);
    if (errno != 0 || *end != 0 || got < least || got > most) return false;
    *out = got;
    return true;
}

bool cli_size(const char *text, int64_t least, int64_t most, int64_t *out)
{
    char digits_only[24];
    const size_t bytes = strlen(text);
    static const char units[] = "kKmMgG";
    if (bytes == 0 || bytes >= sizeof(digits_only)) return false;
    const char *unit_at = strchr(units, text[bytes - 1]);
    const int shift = unit_at == NULL ? 0 : 10 * (1 + (int)((unit_at - units) / 2));
    memcpy(digits_only, text, bytes + 1);
    if (shift > 0) digits_only[bytes - 1] = 0;
    int64_t got;
    if (!cli_number(digits_only, 0, INT64_MAX >> shift, &got)) return false;
    *out = got << shift;
    return *out >= least && *out <= most;
}

const char *cli_human_bytes(uint64_t bytes, char out[static 24])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value_left = (double)bytes;
    size_t unit_index = 0;
    while (value_left >= 1024 && unit_index + 1 < OT_ARRAY_COUNT(units)) value_left /= 1024, unit_index++;
    snprintf(out, 24, value_left < 10 && unit_index > 0 ? "%.1f %s" : "%.0f %s", value_left, units[unit_index]);
    return out;
}
