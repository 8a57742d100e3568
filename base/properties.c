/* A logical line is made of natural lines that end in an odd number of backslashes; it is unescaped into one buffer, key and value
 * behind each other, before anybody sees it. */
#include "base/properties.h"
#include "base/util.h"

#include <stdlib.h>
#include <string.h>

#define INPUT_BYTES_MAX (1u << 20)

struct parser {
    const char *at, *end;
    int line;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\f';
}
static bool is_newline(char c)
{
    return c == '\n' || c == '\r';
}

static void skip_newline(struct parser *p)
{
    if (p->at == p->end) return;
    p->at += p->at[0] == '\r' && p->end - p->at > 1 && p->at[1] == '\n' ? 2 : 1;
    p->line++;
}

/* To the first character of a logical line, past blank lines and comments. False at the end. */
static bool next_line(struct parser *p)
{
    while (p->at < p->end) {
        if (is_blank(*p->at))
            p->at++;
        else if (is_newline(*p->at))
            skip_newline(p);
        else if (*p->at == '#' || *p->at == '!') {
            while (p->at < p->end && !is_newline(*p->at)) p->at++;
        } else {
            return true;
        }
    }
    return false;
}

/* Steps over `\` newline and the blanks that begin the next natural line. */
static bool skip_continuation(struct parser *p)
{
    if (p->at == p->end || *p->at != '\\') return false;
    if (p->end - p->at > 1 && !is_newline(p->at[1])) return false;
    p->at++;
    skip_newline(p);
    while (p->at < p->end && is_blank(*p->at)) p->at++;
    return true;
}

static bool hex4(const char *text, const char *end, uint32_t *out)
{
    if (end - text < 4) return false;
    uint32_t v = 0;
    for (int i = 0; i < 4; i++) {
        const char c = text[i];
        if (c >= '0' && c <= '9')
            v = v * 16 + (uint32_t)(c - '0');
        else if ((c | 32) >= 'a' && (c | 32) <= 'f')
            v = v * 16 + (uint32_t)((c | 32) - 'a' + 10);
        else
            return false;
    }
    *out = v;
    return true;
}

static char *put_utf8(char *out, uint32_t point)
{
    if (point < 0x80) {
        *out++ = (char)point;
        return out;
    }
    const int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    static const uint8_t leads[4] = {0, 0xc0, 0xe0, 0xf0};
    *out++ = (char)(leads[more] | (point >> (6 * more)));
    for (int i = more - 1; i >= 0; i--) *out++ = (char)(0x80 | ((point >> (6 * i)) & 0x3f));
    return out;
}

/* p->at is behind `\u`. Two escapes may make one character; half of such a pair, and NUL, are refused. */
static enum ot_err unescape_unicode(struct parser *p, char **out)
{
    uint32_t point, low;
    if (!hex4(p->at, p->end, &point) || point == 0) return OT_ERR_MALFORMED;
    p->at += 4;
    if (point >= 0xd800 && point < 0xe000) {
        if (point >= 0xdc00 || p->end - p->at < 6 || p->at[0] != '\\' || p->at[1] != 'u' || !hex4(p->at + 2, p->end, &low))
            return OT_ERR_MALFORMED;
        if (low < 0xdc00 || low >= 0xe000) return OT_ERR_MALFORMED;
        point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
        p->at += 6;
    }
    *out = put_utf8(*out, point);
    return OT_OK;
}

/* One character, escaped or not, to *out. */
static enum ot_err take_char(struct parser *p, char **out)
{
    char c = *p->at++;
    if (c == '\0') return OT_ERR_MALFORMED;
    if (c == '\\') {
        c = *p->at++; /* there is one: a backslash at the end is a continuation */
        if (c == 'u') return unescape_unicode(p, out);
        if (c == '\0') return OT_ERR_MALFORMED;
        if (c == 't')
            c = '\t';
        else if (c == 'n')
            c = '\n';
        else if (c == 'r')
            c = '\r';
        else if (c == 'f')
            c = '\f';
    }
    *(*out)++ = c;
    return OT_OK;
}

/* The key, or the value, of the logical line: the key ends at a plain blank, `=` or `:`. */
static enum ot_err take_text(struct parser *p, bool key, char **out)
{
    while (p->at < p->end) {
        if (skip_continuation(p)) continue;
        if (is_newline(*p->at) || (key && (is_blank(*p->at) || *p->at == '=' || *p->at == ':'))) break;
        const enum ot_err err = take_char(p, out);
        if (err != OT_OK) return err;
    }
    *(*out)++ = '\0';
    return OT_OK;
}

static void skip_separator(struct parser *p)
{
    bool seen = false;
    while (p->at < p->end) {
        if (skip_continuation(p)) continue;
        if (is_blank(*p->at))
            p->at++;
        else if (!seen && (*p->at == '=' || *p->at == ':'))
            seen = true, p->at++;
        else
            return;
    }
}

enum ot_err ot_properties_parse(const char *data, size_t bytes,
    enum ot_err (*each)(void *arg, int line, const char *key, const char *value), void *arg, int *line_out)
{
    if (line_out != NULL) *line_out = 0;
    if (bytes > INPUT_BYTES_MAX) return OT_ERR_TOO_LARGE;
    char *buffer = malloc(bytes + 2); /* unescaping never grows; two zeros end key and value */
    if (buffer == NULL) return OT_ERR_NO_MEMORY;
    struct parser p = {data, bytes == 0 ? data : data + bytes, 1};
    if (bytes >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0) p.at += 3; /* a byte order mark that some editors leave */
    enum ot_err err = OT_OK;
    while (err == OT_OK && next_line(&p)) {
        const int line = p.line;
        char *out = buffer;
        if (line_out != NULL) *line_out = line;
        if ((err = take_text(&p, true, &out)) != OT_OK) break;
        const char *value = out;
        skip_separator(&p);
        if ((err = take_text(&p, false, &out)) != OT_OK) break;
        if (!ot_utf8_valid(buffer, (size_t)(out - buffer)))
            err = OT_ERR_MALFORMED;
        else
            err = each(arg, line, buffer, value);
    }
    free(buffer);
    return err;
}
