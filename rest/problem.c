#include "rest/problem.h"
#include "rest/call.h"
#include "rest/handlers.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const struct rest_problem_row rows[] = {
#define X(name, status, retriable, title, text) { #name, status, retriable, title, text },
    REST_PROBLEMS(X)
#undef X
};

const struct rest_problem_row *rest_problem_row(const char *name)
{
    for (uint32_t i = 0; i < OT_ARRAY_COUNT(rows); i++)
        if (strcmp(rows[i].name, name) == 0) return &rows[i];
    return NULL;
}

/* Errors of the house say what happened inside; a client is told the nearest thing that Kafka or HTTP has a name for. */
static const char *row_of(enum ot_err err)
{
    switch (err) {
    case OT_ERR_NO_MEMORY: case OT_ERR_BUSY: case OT_ERR_CLOSED: case OT_ERR_CANCELLED: case OT_ERR_LOCKED: return "HTTP_SERVICE_UNAVAILABLE";
    case OT_ERR_NO_SPACE: return "HTTP_INSUFFICIENT_STORAGE";
    case OT_ERR_TOO_LARGE: return "HTTP_CONTENT_TOO_LARGE";
    case OT_ERR_MISMATCH: return "HTTP_PRECONDITION_FAILED";
    default: return NULL;
    }
}

static enum ot_err kafka_of(enum ot_err err)
{
    switch (err) {
    case OT_ERR_IO: return OT_ERR_KAFKA_STORAGE_ERROR;
    case OT_ERR_CORRUPT: return OT_ERR_CORRUPT_MESSAGE;
    case OT_ERR_SHORT: case OT_ERR_MALFORMED: return OT_ERR_INVALID_REQUEST;
    case OT_ERR_NOT_FOUND: return OT_ERR_RESOURCE_NOT_FOUND;
    case OT_ERR_EXISTS: return OT_ERR_DUPLICATE_RESOURCE;
    default: return (int)err > OT_ERR_HOUSE_FIRST ? OT_ERR_UNKNOWN_SERVER_ERROR : err;
    }
}

void rest_problem_of_row(const struct rest_problem_row *row, struct rest_problem_facts *out)
{
    *out = (struct rest_problem_facts){ .name = row->name, .status = row->status, .retriable = row->retriable };
    snprintf(out->title, sizeof(out->title), "%s", row->title);
}

void rest_problem_of(enum ot_err err, struct rest_problem_facts *out)
{
    const char *row = row_of(err);
    if (row != NULL) {
        rest_problem_of_row(rest_problem_row(row), out);
        return;
    }
    const enum ot_err kafka = kafka_of(err);
    *out = (struct rest_problem_facts){ .name = ot_err_name(kafka), .status = ot_err_http(kafka), .code = ot_err_kafka(kafka), .has_code = true,
        .retriable = ot_err_retriable(kafka) };
    snprintf(out->title, sizeof(out->title), "%s", ot_err_text(kafka));
    out->title[0] = (char)toupper((unsigned char)out->title[0]);
}

void rest_problem_slug(const char *name, char out[static REST_SLUG_BYTES])
{
    size_t at = 0;
    for (; name[at] != 0 && at + 1 < REST_SLUG_BYTES; at++) out[at] = name[at] == '_' ? '-' : (char)tolower((unsigned char)name[at]);
    out[at] = 0;
}

/* ---- the page */

static bool facts_of_slug(struct ot_str slug, struct rest_problem_facts *facts, const char **text_out)
{
    char one[REST_SLUG_BYTES];
    for (uint32_t i = 0; i < OT_ARRAY_COUNT(rows); i++) {
        rest_problem_slug(rows[i].name, one);
        if (!ot_str_equal(slug, ot_str_of(one))) continue;
        rest_problem_of_row(&rows[i], facts);
        *text_out = rows[i].text;
        return true;
    }
    static const enum ot_err kafka[] = {
#define X(name, code, http, grpc, retriable, words) OT_ERR_##name,
        OT_KAFKA_ERRORS(X)
#undef X
    };
    for (uint32_t i = 0; i < OT_ARRAY_COUNT(kafka); i++) {
        rest_problem_slug(ot_err_name(kafka[i]), one);
        if (kafka[i] == OT_ERR_NONE || !ot_str_equal(slug, ot_str_of(one))) continue;
        rest_problem_of(kafka[i], facts);
        *text_out = "An error of the Kafka protocol, told here under its own name and code; the status is what HTTP has nearest to it.";
        return true;
    }
    return false;
}

static void page(struct rest_call *call, const struct rest_problem_facts *facts, const char *text)
{
    char head[800];
    struct rest_json *out = &call->out;
    int bytes = snprintf(head, sizeof(head), "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>%s</title></head><body>\n<h1>%s</h1>\n"
        "<p><code>%s</code>, status %d, ", facts->name, facts->title, facts->name, facts->status);
    rest_json_put(out, head, (size_t)bytes);
    if (facts->has_code) bytes = snprintf(head, sizeof(head), "error code %d, ", facts->code);
    if (facts->has_code) rest_json_put(out, head, (size_t)bytes);
    bytes = snprintf(head, sizeof(head), "%s.</p>\n<p>%s</p>\n</body></html>\n", facts->retriable ? "worth another try" : "trying again will not help", text);
    rest_json_put(out, head, (size_t)bytes);
    rest_header(call, "Content-Security-Policy", "default-src 'none'");
    rest_reply_raw(call, 200, "text/html; charset=utf-8");
}

void rest_problem_page(struct rest_call *call)
{
    struct rest_problem_facts facts;
    const char *text = NULL;
    char slug[REST_SLUG_BYTES];
    if (!facts_of_slug(rest_param(call, 0), &facts, &text)) {
        rest_problem_http(call, "HTTP_NOT_FOUND", "there is no problem of that name");
        return;
    }
    if (call->format == REST_FORMAT_HTML) {
        page(call, &facts, text);
        return;
    }
    char type[REST_SLUG_BYTES + 16];
    rest_problem_slug(facts.name, slug);
    snprintf(type, sizeof(type), "/problems/%s", slug);
    rest_json_open(&call->out, NULL, '{');
    rest_json_text(&call->out, "type", type);
    rest_json_text(&call->out, "title", facts.title);
    rest_json_int(&call->out, "status", facts.status);
    rest_json_text(&call->out, "error", facts.name);
    if (facts.has_code) rest_json_int(&call->out, "error_code", facts.code);
    else rest_json_null(&call->out, "error_code");
    rest_json_bool(&call->out, "retriable", facts.retriable);
    rest_json_text(&call->out, "text", text);
    rest_json_close(&call->out, '}');
    rest_reply_json(call, 200);
}
