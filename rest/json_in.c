#include "rest/json_in.h"
#include "base/util.h"
#include "rest/json_out.h"
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rest_fault_add(struct rest_faults *faults, const char *pointer, const char *format, ...)
{
    if (faults->count++ >= REST_FAULTS_MAX) return;
    struct rest_fault *fault = &faults->list[faults->count - 1];
    fault->is_query = false;
    snprintf(fault->pointer, sizeof(fault->pointer), "%s", pointer);
    va_list args;
    va_start(args, format);
    vsnprintf(fault->text, sizeof(fault->text), format, args);
    va_end(args);
}

/* ---- pointers */

void rest_pointer_join(char out[static REST_POINTER_MAX], const char *pointer, const char *name, size_t name_bytes)
{
    char joined[REST_POINTER_MAX];
    size_t at = (size_t)snprintf(joined, sizeof(joined), "%s/", pointer);
    for (size_t i = 0; i < name_bytes && at + 3 < sizeof(joined); i++) {
        const char c = name[i];
        if (c == '~' || c == '/') {
            joined[at++] = '~';
            joined[at++] = c == '~' ? '0' : '1';
        } else {
            joined[at++] = c == 0 ? ' ' : c;
        }
    }
    joined[OT_MIN(at, sizeof(joined) - 1)] = 0;
    memcpy(out, joined, sizeof(joined));
}

void rest_pointer_index(char out[static REST_POINTER_MAX], const char *pointer, size_t index)
{
    char name[24];
    const int bytes = snprintf(name, sizeof(name), "%zu", index);
    rest_pointer_join(out, pointer, name, (size_t)bytes);
}

struct level { bool object; size_t index; const char *key; size_t key_bytes; };

static size_t string_end(const char *text, size_t bytes, size_t at)
{
    for (at++; at < bytes && text[at] != '"'; at++) at += text[at] == '\\';
    return OT_MIN(at + 1, bytes);
}

/* One step of the walk that scan and pointer share: the position behind the token at `at`. */
static size_t walk(const char *text, size_t bytes, size_t at, struct level *levels, uint32_t *depth, uint32_t *values)
{
    const char c = text[at];
    struct level *top = *depth == 0 || *depth > REST_JSON_DEPTH_MAX ? NULL : &levels[*depth - 1];
    if (c == '"') {
        const size_t end = string_end(text, bytes, at);
        size_t next = end;
        while (next < bytes && strchr(" \t\r\n", text[next]) != NULL && text[next] != 0) next++;
        if (top != NULL && top->object && next < bytes && text[next] == ':') {
            top->key = text + at + 1;
            top->key_bytes = end - at >= 2 ? end - at - 2 : 0;
            return next + 1;
        }
        ++*values;
        return end;
    }
    if (c == '{' || c == '[') {
        ++*values;
        if (++*depth <= REST_JSON_DEPTH_MAX) levels[*depth - 1] = (struct level){ .object = c == '{' };
    } else if (c == '}' || c == ']') {
        if (*depth > 0) --*depth;
    } else if (c == ',') {
        if (top != NULL) top->index++;
        if (top != NULL) top->key = NULL;
        ++*values;                             /* numbers and words are counted by the commas between them */
    }
    return at + 1;
}

static void pointer_of(const struct level *levels, uint32_t depth, char out[static REST_POINTER_MAX])
{
    out[0] = 0;
    for (uint32_t i = 0; i < OT_MIN(depth, (uint32_t)REST_JSON_DEPTH_MAX); i++) {
        if (!levels[i].object) rest_pointer_index(out, out, levels[i].index);
        else if (levels[i].key != NULL) rest_pointer_join(out, out, levels[i].key, levels[i].key_bytes);
        else return;
    }
}

enum ot_err rest_json_scan(const char *text, size_t bytes, uint32_t depth_max, uint32_t values_max, uint32_t *values_out,
    struct rest_faults *faults)
{
    struct level levels[REST_JSON_DEPTH_MAX];
    uint32_t depth = 0, values = 0;
    char pointer[REST_POINTER_MAX];
    for (size_t at = 0; at < bytes;) {
        at = walk(text, bytes, at, levels, &depth, &values);
        if (depth <= depth_max && values <= values_max) continue;
        pointer_of(levels, OT_MIN(depth, depth_max), pointer);
        if (depth > depth_max) rest_fault_add(faults, pointer, "the body is nested more than %u deep", depth_max);
        else rest_fault_add(faults, pointer, "the body holds more than %u values", values_max);
        return OT_ERR_TOO_LARGE;
    }
    if (values_out != NULL) *values_out = values;
    return OT_OK;
}

void rest_json_pointer(const char *text, size_t bytes, size_t pos, char out[static REST_POINTER_MAX])
{
    struct level levels[REST_JSON_DEPTH_MAX];
    uint32_t depth = 0, values = 0;
    for (size_t at = 0; at < OT_MIN(bytes, pos);) at = walk(text, bytes, at, levels, &depth, &values);
    pointer_of(levels, depth, out);
}

/* ---- parsing */

static const char *words_of(enum json_error_code code, const char *text)
{
    switch (code) {
    case json_error_invalid_utf8: return "the text is not valid UTF-8";
    case json_error_duplicate_key: return "a member name is given twice";
    case json_error_numeric_overflow: return "a number is outside the range of 64 bits";
    case json_error_premature_end_of_input: return "the text ends too early";
    case json_error_end_of_input_expected: return "something follows the JSON value";
    case json_error_stack_overflow: return "the text is nested too deep";
    default: return text;
    }
}

enum ot_err rest_json_parse(const char *text, size_t bytes, json_t **out, struct rest_faults *faults)
{
    json_error_t error;
    *out = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    if (*out != NULL) return OT_OK;
    if (json_error_code(&error) == json_error_out_of_memory) return OT_ERR_NO_MEMORY;
    char pointer[REST_POINTER_MAX];
    const size_t pos = error.position > 0 ? (size_t)error.position : 0;
    rest_json_pointer(text, bytes, pos > 0 ? pos - 1 : 0, pointer);
    rest_fault_add(faults, pointer, "%s (line %d, column %d)", words_of(json_error_code(&error), error.text), error.line, error.column);
    return OT_ERR_MALFORMED;
}

struct ot_str rest_json_string(const json_t *string)
{
    return (struct ot_str){ json_string_value(string), (uint32_t)json_string_length(string), false };
}

/* ---- members */

static const char *kind_name(enum rest_kind kind)
{
    static const char *const names[] = { [REST_TEXT] = "a string", [REST_INT] = "an integer", [REST_BOOL] = "true or false", [REST_OBJECT] = "an object",
        [REST_ARRAY] = "an array", [REST_ANY] = "anything" };
    return names[kind];
}

static bool integer_of(const json_t *value, int64_t *out)
{
    if (json_is_integer(value)) {
        *out = json_integer_value(value);
        return true;
    }
    const char *text = json_string_value(value);
    char *end = NULL;
    if (text == NULL || text[0] == 0 || strlen(text) != json_string_length(value) || (text[0] != '-' && (text[0] < '0' || text[0] > '9'))) return false;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return errno == 0 && *end == 0;
}

static void take(json_t *value, const char *pointer, const struct rest_member *member, struct rest_faults *faults)
{
    const int64_t unbounded = member->max == 0 && member->min == 0;
    int64_t number = 0;
    bool right = true;
    switch (member->kind) {
    case REST_TEXT:
        if ((right = json_is_string(value))) *(struct ot_str *)member->out = rest_json_string(value);
        number = right ? (int64_t)json_string_length(value) : 0;
        break;
    case REST_INT:
        if ((right = integer_of(value, &number))) *(int64_t *)member->out = number;
        break;
    case REST_BOOL:
        if ((right = json_is_boolean(value))) *(bool *)member->out = json_is_true(value);
        break;
    case REST_OBJECT:
    case REST_ARRAY:
        right = member->kind == REST_OBJECT ? json_is_object(value) : json_is_array(value);
        if (right) *(json_t **)member->out = value;
        number = right && member->kind == REST_ARRAY ? (int64_t)json_array_size(value) : 0;
        break;
    case REST_ANY: *(json_t **)member->out = value; break;
    }
    const bool ranged = member->kind == REST_INT || member->kind == REST_TEXT || member->kind == REST_ARRAY;
    if (!right) rest_fault_add(faults, pointer, "must be %s%s", kind_name(member->kind), member->nullable ? " or null" : "");
    else if (ranged && !unbounded && (number < member->min || number > member->max))
        rest_fault_add(faults, pointer, "%s must be between %" PRId64 " and %" PRId64 ", it is %" PRId64,
            member->kind == REST_INT ? "the value" : "the length", member->min, member->max, number);
}

static const struct rest_member *member_by_name(const struct rest_member *members, uint32_t count, const char *name, size_t bytes)
{
    for (uint32_t i = 0; i < count; i++)
        if (strlen(members[i].name) == bytes && memcmp(members[i].name, name, bytes) == 0) return &members[i];
    return NULL;
}

static void unknown(const char *pointer, const struct rest_member *members, uint32_t count, const char *name, struct rest_faults *faults)
{
    const char *names[32];
    for (uint32_t i = 0; i < OT_MIN(count, 32u); i++) names[i] = members[i].name;
    const char *near = ot_nearest(name, names, OT_MIN(count, 32u));
    if (near != NULL) rest_fault_add(faults, pointer, "unknown member; did you mean '%s'?", near);
    else rest_fault_add(faults, pointer, "unknown member");
}

bool rest_members(json_t *object, const char *pointer, const struct rest_member *members, uint32_t count, struct rest_faults *faults)
{
    const uint32_t before = faults->count;
    char place[REST_POINTER_MAX];
    if (!json_is_object(object)) {
        rest_fault_add(faults, pointer, "must be an object");
        return false;
    }
    for (void *at = json_object_iter(object); at != NULL; at = json_object_iter_next(object, at)) {
        const char *name = json_object_iter_key(at);
        const size_t bytes = json_object_iter_key_len(at);
        json_t *value = json_object_iter_value(at);
        const struct rest_member *member = member_by_name(members, count, name, bytes);
        rest_pointer_join(place, pointer, name, bytes);
        if (member == NULL) {
            unknown(place, members, count, name, faults);
            continue;
        }
        if (member->given != NULL) *member->given = true;
        if (!json_is_null(value) || member->kind == REST_ANY) take(value, place, member, faults);
        else if (!member->nullable) rest_fault_add(faults, place, "must be %s, not null", kind_name(member->kind));
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!members[i].required || json_object_get(object, members[i].name) != NULL) continue;
        rest_pointer_join(place, pointer, members[i].name, strlen(members[i].name));
        rest_fault_add(faults, place, "is missing");
    }
    return faults->count == before;
}

/* ---- copying */

static void copy_real(struct rest_json *out, const char *key, double value)
{
    char text[40];
    int bytes = 0;
    for (int digits = 15; digits <= 17; digits++) {
        bytes = snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    if (strpbrk(text, ".eE") == NULL) bytes += snprintf(text + bytes, sizeof(text) - (size_t)bytes, ".0");      /* it was a real */
    rest_json_raw(out, key, text, (size_t)bytes);
}

void rest_json_copy(struct rest_json *out, const char *key, const json_t *value)
{
    json_t *object = (json_t *)(uintptr_t)value;       /* the library's iterators take no const */
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        rest_json_open(out, key, '{');
        for (void *at = json_object_iter(object); at != NULL; at = json_object_iter_next(object, at)) {
            rest_json_str_key(out, (struct ot_str){ json_object_iter_key(at), (uint32_t)json_object_iter_key_len(at), false });
            rest_json_copy(out, NULL, json_object_iter_value(at));
        }
        rest_json_close(out, '}');
        break;
    case JSON_ARRAY:
        rest_json_open(out, key, '[');
        for (size_t i = 0; i < json_array_size(value); i++) rest_json_copy(out, NULL, json_array_get(value, i));
        rest_json_close(out, ']');
        break;
    case JSON_STRING: rest_json_str(out, key, rest_json_string(value)); break;
    case JSON_INTEGER: rest_json_int(out, key, json_integer_value(value)); break;
    case JSON_REAL: copy_real(out, key, json_real_value(value)); break;
    case JSON_TRUE: rest_json_bool(out, key, true); break;
    case JSON_FALSE: rest_json_bool(out, key, false); break;
    case JSON_NULL: rest_json_null(out, key); break;
    }
}
