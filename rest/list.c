#include "rest/list.h"
#include "rest/call.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT = 100, LIMIT_MAX = 1000, LIMIT_BROKER_MAX = 100000 /* for other brokers, who have pages of their own to make */ };

/* A token is base64url of: its version, the letter of the list, the key. */
static bool read_token(struct rest_call *call, char kind, bool integers)
{
    const struct ot_str token = rest_query_text(call, "page_token");
    size_t bytes = 0;
    char number[24], *end = NULL;
    if (token.null) return true;
    const char *text = (const char *)rest_base64url_decode(&call->arena, token, &bytes);
    if (text == NULL || bytes < 2 || text[0] != '1' || text[1] != kind) return false;
    call->list.after = (struct ot_str){ text + 2, (uint32_t)bytes - 2, false };
    if (!integers) return true;
    if (bytes == 2 || bytes - 2 >= sizeof(number)) return false;
    memcpy(number, text + 2, bytes - 2);
    number[bytes - 2] = 0;
    call->list.after_int = strtoll(number, &end, 10);
    return *end == 0;
}

bool rest_list_begin(struct rest_call *call, char kind, bool integers)
{
    call->list = (struct rest_list){ .after = { .null = true }, .after_int = INT64_MIN };
    call->list.limit = (uint32_t)rest_query_int(call, "limit", 1, call->arrived ? LIMIT_BROKER_MAX : LIMIT_MAX, LIMIT);
    call->list.prefix = rest_query_text(call, "prefix");
    if (!read_token(call, kind, integers)) rest_fault_query(call, "page_token", "is not a token of this list");
    return !rest_faulty(call);
}

void rest_list_item(struct rest_call *call)
{
    if (call->list.count++ > 0) rest_json_put(&call->out, "\n", 1);
    call->out.comma = false;
}

const char *rest_list_token(struct rest_call *call, char kind, struct ot_str next)
{
    char *plain = ot_arena_alloc(&call->arena, next.bytes + 2u);
    if (plain == NULL) return NULL;
    plain[0] = '1';
    plain[1] = kind;
    if (next.bytes > 0) memcpy(plain + 2, next.data, next.bytes);
    return rest_base64url(&call->arena, plain, next.bytes + 2u);
}

/* The same request with another page_token, for the Link header. */
static const char *link_of(struct rest_call *call, const char *token)
{
    const size_t path = strcspn(call->target, "?");
    const size_t bytes = strlen(call->target) + strlen(token) + 64;
    char *link = ot_arena_alloc(&call->arena, bytes);
    if (link == NULL) return NULL;
    size_t at = (size_t)snprintf(link, bytes, "<%.*s?", (int)path, call->target);
    for (const char *pair = call->target + path + (call->target[path] == '?'); *pair != 0;) {
        const size_t length = strcspn(pair, "&");
        if (length > 0 && strncmp(pair, "page_token=", 11) != 0) at += (size_t)snprintf(link + at, bytes - at, "%.*s&", (int)length, pair);
        pair += length + (pair[length] == '&');
    }
    snprintf(link + at, bytes - at, "page_token=%s>; rel=\"next\"", token);
    return link;
}

static void reply_lines(struct rest_call *call)
{
    static const char *const types[] = { [REST_FORMAT_NDJSON] = "application/x-ndjson", [REST_FORMAT_CSV] = "text/csv; charset=utf-8; header=present",
        [REST_FORMAT_TABLE] = "text/plain; charset=utf-8" };
    rest_reply_raw(call, 200, types[call->format]);
}

static void envelope(struct rest_call *call, const char *token, int64_t total, const char *extra)
{
    struct rest_json out;
    rest_json_init(&out, REST_ANSWER_MAX);
    out.big_as_text = call->out.big_as_text;
    rest_json_open(&out, NULL, '{');
    rest_json_open(&out, call->list.items_name == NULL ? "items" : call->list.items_name, '[');
    for (const char *at = call->out.data, *end = call->out.bytes == 0 ? at : at + call->out.bytes; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL) stop = end;
        rest_json_raw(&out, NULL, at, (size_t)(stop - at));
        at = stop + 1;
    }
    rest_json_close(&out, ']');
    rest_json_text(&out, "next_page_token", token);
    rest_json_big_or_null(&out, call->list.total_name == NULL ? "total" : call->list.total_name, total);
    if (extra != NULL) {
        rest_json_put(&out, ",", 1);
        rest_json_put(&out, extra, strlen(extra));
    }
    rest_json_close(&out, '}');
    if (rest_json_failed(&call->out)) out.failed = true;
    rest_json_free(&call->out);
    call->out = out;
    rest_reply_json(call, 200);
}

void rest_list_reply(struct rest_call *call, char kind, struct ot_str next, int64_t total, const char *extra)
{
    const struct ot_str fields = rest_query_text(call, "fields");
    const char *token = next.null ? NULL : rest_list_token(call, kind, next);
    if (token != NULL) rest_header(call, "Link", link_of(call, token));
    if (!rest_json_failed(&call->out) && (!fields.null || call->format != REST_FORMAT_JSON)) {
        struct rest_json shaped;
        rest_json_init(&shaped, REST_ANSWER_MAX);
        if (!rest_list_shape(&shaped, call->out.data, call->out.bytes, call->format, fields)) shaped.failed = true;
        shaped.big_as_text = call->out.big_as_text;
        rest_json_free(&call->out);
        call->out = shaped;
    }
    if (call->format == REST_FORMAT_JSON) envelope(call, token, total, extra);
    else reply_lines(call);
}

void rest_list_reply_int(struct rest_call *call, char kind, bool more, int64_t next, int64_t total, const char *extra)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRId64, next);
    rest_list_reply(call, kind, more ? ot_str_of(text) : (struct ot_str){ .null = true }, total, extra);
}
