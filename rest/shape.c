/* Lists for people and spreadsheets: JSON objects, one a line, become picked members, CSV (RFC 4180) or aligned columns. Nested objects are spread
 * out as "a.b"; arrays of plain values are joined with blanks, other arrays stay JSON. */
#include "rest/json_in.h"
#include "rest/json_out.h"
#include "rest/list.h"
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MAX = 64, NAME_BYTES = 96, DEPTH_MAX = 6, CELL_COLUMNS_MAX = 60 };

struct columns { char names[COLUMNS_MAX][NAME_BYTES]; size_t widths[COLUMNS_MAX]; bool numbers[COLUMNS_MAX]; uint32_t count; };

static uint32_t column_of(struct columns *columns, const char *name)
{
    for (uint32_t i = 0; i < columns->count; i++)
        if (strcmp(columns->names[i], name) == 0) return i;
    if (columns->count == COLUMNS_MAX) return COLUMNS_MAX;
    snprintf(columns->names[columns->count], NAME_BYTES, "%s", name);
    columns->widths[columns->count] = strlen(columns->names[columns->count]);
    columns->numbers[columns->count] = true;
    return columns->count++;
}

typedef void each_cell(void *arg, const char *name, json_t *value);

static void spread(json_t *object, const char *prefix, int depth, each_cell *each, void *arg)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        char name[NAME_BYTES];
        snprintf(name, sizeof(name), "%s%s%s", prefix, prefix[0] == 0 ? "" : ".", key);
        if (json_is_object(value) && json_object_size(value) > 0 && depth < DEPTH_MAX) spread(value, name, depth + 1, each, arg);
        else each(arg, name, value);
    }
}

static bool is_plain_array(const json_t *value)
{
    if (!json_is_array(value)) return false;
    for (size_t i = 0; i < json_array_size(value); i++)
        if (json_is_object(json_array_get(value, i)) || json_is_array(json_array_get(value, i))) return false;
    return true;
}

/* The text of a cell, to be freed; NULL: null or no memory. */
static char *cell_text(const json_t *value)
{
    if (value == NULL || json_is_null(value)) return NULL;
    if (json_is_string(value)) return strndup(json_string_value(value), json_string_length(value));
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
    if (text == NULL || !is_plain_array(value)) return text;
    char *at = text;
    for (const char *from = text; *from != 0; from++)
        if (strchr("[]\"", *from) == NULL) *at++ = *from == ',' ? ' ' : *from;
    *at = 0;
    return text;
}

static size_t columns_wide(const char *text)
{
    size_t wide = 0;
    for (; *text != 0; text++) wide += ((unsigned char)*text & 0xc0) != 0x80;
    return wide;
}

static void measure(void *arg, const char *name, json_t *value)
{
    struct columns *columns = arg;
    const uint32_t column = column_of(columns, name);
    char *text = column == COLUMNS_MAX ? NULL : cell_text(value);
    if (text == NULL) return;
    columns->widths[column] = OT_MIN(OT_MAX(columns->widths[column], columns_wide(text)), (size_t)CELL_COLUMNS_MAX);
    if (!json_is_number(value)) columns->numbers[column] = false;
    free(text);
}

struct row { struct columns *columns; char *cells[COLUMNS_MAX]; };

static void fill(void *arg, const char *name, json_t *value)
{
    struct row *row = arg;
    const uint32_t column = column_of(row->columns, name);
    if (column == COLUMNS_MAX) return;
    free(row->cells[column]);
    row->cells[column] = cell_text(value);
}

static void put_csv(struct rest_json *out, const char *text)
{
    if (text == NULL) return;
    if (strpbrk(text, ",\"\r\n") == NULL) {
        rest_json_put(out, text, strlen(text));
        return;
    }
    rest_json_put(out, "\"", 1);
    for (; *text != 0; text++) rest_json_put(out, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1);
    rest_json_put(out, "\"", 1);
}

static void put_blanks(struct rest_json *out, size_t count)
{
    while (count-- > 0) rest_json_put(out, " ", 1);
}

static void put_column(struct rest_json *out, const char *text, size_t width, bool right, bool last)
{
    const char *shown = text == NULL ? "-" : text;
    const size_t wide = columns_wide(shown), blanks = wide < width ? width - wide : 0;
    if (right) put_blanks(out, blanks);
    for (; *shown != 0; shown++) rest_json_put(out, (unsigned char)*shown < 0x20 || *shown == 0x7f ? "?" : shown, 1);       /* nothing that moves a terminal */
    if (last) return;
    if (!right) put_blanks(out, blanks);
    put_blanks(out, 2);
}

static void put_row(struct rest_json *out, const struct columns *columns, char *const *cells, enum rest_format format)
{
    for (uint32_t i = 0; i < columns->count; i++) {
        if (format == REST_FORMAT_TABLE) {
            put_column(out, cells[i], columns->widths[i], columns->numbers[i], i + 1 == columns->count);
            continue;
        }
        if (i > 0) rest_json_put(out, ",", 1);
        put_csv(out, cells[i]);
    }
    rest_json_put(out, format == REST_FORMAT_TABLE ? "\n" : "\r\n", format == REST_FORMAT_TABLE ? 1 : 2);
}

static void put_head(struct rest_json *out, struct columns *columns, enum rest_format format)
{
    char upper[COLUMNS_MAX][NAME_BYTES], *cells[COLUMNS_MAX];
    for (uint32_t i = 0; i < columns->count; i++) {
        snprintf(upper[i], NAME_BYTES, "%s", columns->names[i]);
        for (char *at = upper[i]; format == REST_FORMAT_TABLE && *at != 0; at++)
            if (*at >= 'a' && *at <= 'z') *at = (char)(*at - 32);
        cells[i] = upper[i];
    }
    put_row(out, columns, cells, format);
}

/* ---- picking members */

static json_t *picked(json_t *object, struct ot_str fields)
{
    json_t *out = json_object();
    for (uint32_t at = 0; out != NULL && at < fields.bytes;) {
        uint32_t end = at;
        while (end < fields.bytes && fields.data[end] != ',') end++;
        json_t *from = object, *to = out;
        for (uint32_t part = at; part < end && from != NULL;) {
            uint32_t stop = part;
            while (stop < end && fields.data[stop] != '.') stop++;
            json_t *value = json_object_getn(from, fields.data + part, stop - part);
            if (value == NULL) break;
            if (stop == end) {
                if (json_object_setn(to, fields.data + part, stop - part, value) != 0) break;
            } else {
                json_t *inner = json_object_getn(to, fields.data + part, stop - part);
                if (inner == NULL && json_object_setn_new(to, fields.data + part, stop - part, inner = json_object()) != 0) break;
                to = inner;
            }
            from = value;
            part = stop + 1;
        }
        at = end + 1;
    }
    return out;
}

static json_t *object_of_line(const char *line, size_t bytes, struct ot_str fields)
{
    json_t *object = json_loadb(line, bytes, JSON_ALLOW_NUL, NULL);
    if (object == NULL || fields.null) return object;
    json_t *out = picked(object, fields);
    json_decref(object);
    return out;
}

static bool put_json_line(struct rest_json *out, json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9));
    if (text == NULL) return false;
    if (out->bytes > 0) rest_json_put(out, "\n", 1);
    rest_json_put(out, text, strlen(text));
    free(text);
    return true;
}

static bool each_line(const char *lines, size_t bytes, struct ot_str fields, bool (*each)(void *arg, json_t *object), void *arg)
{
    if (bytes == 0) return true;
    for (const char *at = lines, *end = lines + bytes; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL) stop = end;
        json_t *object = object_of_line(at, (size_t)(stop - at), fields);
        const bool good = object != NULL && each(arg, object);
        json_decref(object);
        if (!good) return false;
        at = stop + 1;
    }
    return true;
}

struct shaping { struct rest_json *out; struct columns *columns; enum rest_format format; };

static bool measure_line(void *arg, json_t *object)
{
    spread(object, "", 0, measure, ((struct shaping *)arg)->columns);
    return true;
}

static bool row_line(void *arg, json_t *object)
{
    struct shaping *shaping = arg;
    struct row row = { .columns = shaping->columns };
    spread(object, "", 0, fill, &row);
    put_row(shaping->out, shaping->columns, row.cells, shaping->format);
    for (uint32_t i = 0; i < COLUMNS_MAX; i++) free(row.cells[i]);
    return true;
}

static bool json_line(void *arg, json_t *object) { return put_json_line(((struct shaping *)arg)->out, object); }

bool rest_list_shape(struct rest_json *out, const char *lines, size_t bytes, enum rest_format format, struct ot_str fields)
{
    struct shaping shaping = { .out = out, .format = format };
    bool good;
    if (format == REST_FORMAT_NDJSON && fields.null) {
        rest_json_put(out, lines, bytes);
        good = true;
    } else if (format == REST_FORMAT_JSON || format == REST_FORMAT_NDJSON) {
        good = each_line(lines, bytes, fields, json_line, &shaping);
    } else {
        shaping.columns = calloc(1, sizeof(*shaping.columns));
        good = shaping.columns != NULL && each_line(lines, bytes, fields, measure_line, &shaping);
        if (good) put_head(out, shaping.columns, format);
        good = good && each_line(lines, bytes, fields, row_line, &shaping);
        free(shaping.columns);
    }
    if (good && format == REST_FORMAT_NDJSON && out->bytes > 0) rest_json_put(out, "\n", 1);
    return good && !rest_json_failed(out);
}
