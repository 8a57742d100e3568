/* What handlers read of a call: query parameters, path parameters, the JSON body. */
#include "base/util.h"
#include "rest/inside.h"
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct rest_pair *rest_query(const struct rest_call *call, const char *name)
{
    for (uint32_t i = 0; i < call->uri.query_count; i++)
        if (ot_str_equal(call->uri.query[i].name, ot_str_of(name))) return &call->uri.query[i];
    return NULL;
}

struct ot_str rest_query_text(const struct rest_call *call, const char *name)
{
    const struct rest_pair *pair = rest_query(call, name);
    return pair == NULL ? (struct ot_str){ .null = true } : (struct ot_str){ pair->value.data, pair->value.bytes, false };
}

void rest_fault_query(struct rest_call *call, const char *name, const char *format, ...)
{
    char text[160];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    rest_fault_add(&call->faults, name, "%s", text);
    if (call->faults.count <= REST_FAULTS_MAX) call->faults.list[call->faults.count - 1].is_query = true;
}

bool rest_query_flag(struct rest_call *call, const char *name)
{
    const struct rest_pair *pair = rest_query(call, name);
    if (pair == NULL) return false;
    if (pair->value.null || pair->value.bytes == 0 || ot_str_equal(pair->value, ot_str_of("true")) || ot_str_equal(pair->value, ot_str_of("1"))) return true;
    if (!ot_str_equal(pair->value, ot_str_of("false")) && !ot_str_equal(pair->value, ot_str_of("0"))) rest_fault_query(call, name, "must be true or false");
    return false;
}

static bool number_of(struct ot_str text, int64_t *out)
{
    char copy[24], *end = NULL;
    if (text.null || text.bytes == 0 || text.bytes >= sizeof(copy) || !(text.data[0] == '-' || (text.data[0] >= '0' && text.data[0] <= '9'))) return false;
    memcpy(copy, text.data, text.bytes);
    copy[text.bytes] = 0;
    errno = 0;
    *out = strtoll(copy, &end, 10);
    return errno == 0 && end == copy + text.bytes;
}

int64_t rest_query_int(struct rest_call *call, const char *name, int64_t min, int64_t max, int64_t otherwise)
{
    const struct rest_pair *pair = rest_query(call, name);
    int64_t value = 0;
    if (pair == NULL) return otherwise;
    if (!number_of(pair->value, &value)) rest_fault_query(call, name, "must be an integer");
    else if (value < min || value > max) rest_fault_query(call, name, "must be between %" PRId64 " and %" PRId64, min, max);
    else return value;
    return otherwise;
}

int rest_query_choice(struct rest_call *call, const char *name, const char *const *choices, uint32_t count, int otherwise)
{
    const struct rest_pair *pair = rest_query(call, name);
    char all[120] = "";
    if (pair == NULL) return otherwise;
    for (uint32_t i = 0; i < count; i++) {
        if (ot_str_equal(pair->value, ot_str_of(choices[i]))) return (int)i;
        const size_t at = strlen(all);
        snprintf(all + at, sizeof(all) - at, "%s%s", i == 0 ? "" : ", ", choices[i]);
    }
    rest_fault_query(call, name, "must be one of %s", all);
    return otherwise;
}

int64_t rest_query_time(struct rest_call *call, const char *name, int64_t otherwise)
{
    const struct rest_pair *pair = rest_query(call, name);
    char text[48];
    int64_t value = 0;
    if (pair == NULL) return otherwise;
    if (number_of(pair->value, &value) && value >= 0) return value;
    if (!pair->value.null && pair->value.bytes < sizeof(text)) {
        snprintf(text, sizeof(text), "%.*s", (int)pair->value.bytes, pair->value.data);
        if (ot_time_parse(text, &value) && value >= 0) return value;
    }
    rest_fault_query(call, name, "must be milliseconds since 1970 or an RFC 3339 time");
    return otherwise;
}

bool rest_param_int(struct rest_call *call, uint32_t index, const char *what, int64_t min, int64_t max, int64_t *out)
{
    const struct ot_str text = rest_param(call, index);
    if (number_of(text, out) && *out >= min && *out <= max) return true;
    rest_problem(call, OT_ERR_INVALID_REQUEST, "the %s in the path must be a number from %" PRId64 " to %" PRId64, what, min, max);
    return false;
}

/* Few large trees at a time, since a tree takes many times the memory of its text. */
static bool may_grow(struct rest_call *call, uint32_t values)
{
    if (values <= REST_VALUES_SMALL) return true;
    if (call->server->large_bodies == REST_LARGE_BODIES_MAX) {
        rest_problem(call, OT_ERR_BUSY, "other large bodies are in work");
        return false;
    }
    call->server->large_bodies++;
    call->large = true;
    return true;
}

void rest_body_drop(struct rest_call *call)
{
    json_decref(call->json);
    call->json = NULL;
    if (call->large) call->server->large_bodies--;
    call->large = false;
}

json_t *rest_body_object(struct rest_call *call, uint32_t values_max)
{
    const char *text = call->body == NULL ? "" : (const char *)call->body->data;
    const size_t bytes = call->body == NULL ? 0 : call->body->bytes;
    uint32_t values = 0;
    enum ot_err err = rest_json_scan(text, bytes, REST_JSON_DEPTH_MAX, values_max, &values, &call->faults);
    if (err == OT_OK && !may_grow(call, values)) return NULL;
    if (err == OT_OK) err = rest_json_parse(text, bytes, &call->json, &call->faults);
    if (err == OT_OK && json_is_object(call->json)) return call->json;
    if (err == OT_OK) rest_fault_add(&call->faults, "", "must be a JSON object");
    if (err == OT_ERR_NO_MEMORY) rest_problem(call, err, "no memory for the body");
    else if (err == OT_ERR_TOO_LARGE) rest_problem_http(call, "HTTP_CONTENT_TOO_LARGE", "%s", call->faults.list[0].text);
    else rest_faulty(call);
    return NULL;
}
