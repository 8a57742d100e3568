/* What can be judged before a body is read, cheapest and most general first. Runs on libmicrohttpd's thread of the listener. */
#include "rest/accept.h"
#include "rest/inside.h"
#include <inttypes.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *header(const struct rest_call *call, const char *name)
{
    if (call->connection != NULL) return MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND, name);
    for (uint32_t i = 0; i < call->given_count; i++)
        if (strcasecmp(call->given[i].name, name) == 0) return call->given[i].value;
    return NULL;
}

static enum MHD_Result add_bytes(void *arg, enum MHD_ValueKind kind, const char *key, const char *value)
{
    (void)kind;
    *(size_t *)arg += strlen(key) + (value == NULL ? 0 : strlen(value)) + 4;
    return MHD_YES;
}

static bool sizes_are_right(struct rest_call *call)
{
    size_t bytes = 0;
    if (strlen(call->target) > REST_TARGET_MAX) {
        rest_problem_http(call, "HTTP_URI_TOO_LONG", "the request target has %zu bytes, at most %u are taken", strlen(call->target), REST_TARGET_MAX);
        return false;
    }
    MHD_get_connection_values(call->connection, MHD_HEADER_KIND, add_bytes, &bytes);
    if (bytes <= REST_HEADER_BLOCK_MAX) return true;
    rest_problem_http(call, "HTTP_HEADERS_TOO_LARGE", "the headers have %zu bytes, at most %u are taken", bytes, REST_HEADER_BLOCK_MAX);
    return false;
}

/* What says where a request ends and whom it is for. A proxy in front that reads any of it otherwise than libmicrohttpd would let one client's request go before another's. */
struct framing { unsigned hosts, lengths, encodings; const char *bad_name, *bad_encoding; };

static enum MHD_Result look_at(void *arg, enum MHD_ValueKind kind, const char *name, const char *value)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    struct framing *seen = arg;
    (void)kind;
    if (name[0] == 0 || name[strspn(name, token)] != 0) seen->bad_name = name;     /* "Content-Length : 5" is none to the library */
    if (strcasecmp(name, "Host") == 0) seen->hosts++;
    if (strcasecmp(name, "Content-Length") == 0) seen->lengths++;
    if (strcasecmp(name, "Transfer-Encoding") != 0) return MHD_YES;
    seen->encodings++;
    if (value == NULL || strcasecmp(value, "chunked") != 0) seen->bad_encoding = value == NULL ? "" : value;
    return MHD_YES;
}

/* RFC 9112 2.2, 3.2, 5.1, 6.1 and 6.3; the connection ends, since where the next request begins is anybody's guess. */
static bool framing_is_right(struct rest_call *call)
{
    struct framing seen = { 0 };
    char text[200] = "";
    MHD_get_connection_values(call->connection, MHD_HEADER_KIND, look_at, &seen);
    if (call->target_cut) snprintf(text, sizeof(text), "the request line is not 'METHOD target HTTP/1.1', or has a zero byte");
    else if (seen.bad_name != NULL) snprintf(text, sizeof(text), "'%.60s' is no name of a header", seen.bad_name);
    else if (seen.hosts > 1) snprintf(text, sizeof(text), "the request has %u Host headers", seen.hosts);
    else if (seen.lengths > 1) snprintf(text, sizeof(text), "the request has %u Content-Length headers", seen.lengths);
    else if (seen.encodings > 1) snprintf(text, sizeof(text), "the request has %u Transfer-Encoding headers", seen.encodings);
    else if (seen.encodings > 0 && seen.lengths > 0) snprintf(text, sizeof(text), "the request has both Transfer-Encoding and Content-Length");
    else if (seen.bad_encoding != NULL) snprintf(text, sizeof(text), "Transfer-Encoding '%.60s' is not taken, only chunked", seen.bad_encoding);
    else if (seen.encodings > 0 && call->old_http) snprintf(text, sizeof(text), "HTTP/1.0 has no Transfer-Encoding");
    if (text[0] == 0) return true;
    rest_header(call, "Connection", "close");
    rest_problem_http(call, "HTTP_BAD_REQUEST", "%s", text);
    return false;
}

static bool host_is_right(struct rest_call *call)
{
    const struct rest_server *server = call->server;
    const char *host = header(call, "Host");
    if (host == NULL || strcmp(call->peer, "unix") == 0) return true;         /* no browser leaves it out, none speaks over a socket file */
    if (rest_host_is_ours(host, server->name_list, server->name_count)) return true;
    rest_problem_http(call, "HTTP_MISDIRECTED_REQUEST", "Host '%.100s' is not this server", host);
    return false;
}

static bool rate_is_right(struct rest_call *call)
{
    int retry_s = 0;
    if ((call->route != NULL && (call->route->flags & REST_PROBE) != 0) || rest_limits_take(&call->server->limits, call->principal, call->started_us, &retry_s))
        return true;
    char *text = ot_arena_alloc(&call->arena, 16);
    rest_problem_http(call, "HTTP_TOO_MANY_REQUESTS", "more than %.0f requests a second from %s", call->server->limits.per_second, call->peer);
    for (uint32_t i = 0; text != NULL && i < call->header_count; i++) {
        if (strcmp(call->headers[i].name, "Retry-After") != 0) continue;
        snprintf(text, 16, "%d", retry_s);
        call->headers[i].value = text;
    }
    return false;
}

/* Answered when false. */
static bool find_route(struct rest_call *call, const char *method)
{
    char *allow = ot_arena_alloc(&call->arena, REST_ALLOW_BYTES);
    if (allow == NULL) return false;
    const bool known = rest_method_parse(call->head ? "GET" : method, &call->method);
    enum rest_method asked = known ? call->method : REST_METHODS;
    enum ot_err err = rest_route_find(asked, call->uri.segments, call->uri.segment_count, &call->route, call->params, allow);
    if (err == OT_OK) return true;
    if (err == OT_ERR_NOT_FOUND) {
        rest_problem_http(call, "HTTP_NOT_FOUND", "nothing is served at this path; GET /v1 lists what is");
        return false;
    }
    rest_header(call, "Allow", allow);
    if (strcmp(method, "OPTIONS") == 0) rest_reply_empty(call, 204);
    else rest_problem_http(call, "HTTP_METHOD_NOT_ALLOWED", "%.20s is not taken here, only %s", method, allow);
    return false;
}

static bool origin_is_right(struct rest_call *call)
{
    const char *origin = header(call, "Origin"), *site = header(call, "Sec-Fetch-Site");
    if ((call->route->flags & REST_WRITE) == 0) return true;
    if (origin != NULL && !rest_origin_is_ours(origin, header(call, "Host"))) {
        rest_problem_http(call, "HTTP_FORBIDDEN_ORIGIN", "Origin '%.100s' may not write here", origin);
        return false;
    }
    if (site == NULL || strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0) return true;
    rest_problem_http(call, "HTTP_FORBIDDEN_ORIGIN", "Sec-Fetch-Site is '%.40s'", site);
    return false;
}

static bool query_is_right(struct rest_call *call)
{
    for (uint32_t i = 0; i < call->uri.query_count; i++) {
        const struct ot_str name = call->uri.query[i].name;
        char near[REST_NEAR_BYTES], text[80];
        if (rest_route_takes(call->route, name, near)) continue;
        snprintf(text, sizeof(text), "%.*s", (int)OT_MIN(name.bytes, 60u), name.data);
        if (near[0] != 0) rest_fault_query(call, text, "unknown query parameter; did you mean '%s'?", near);
        else rest_fault_query(call, text, "unknown query parameter");
    }
    static const char *const int64[] = { "number", "string" };
    call->pretty = (call->route->flags & REST_ANY_TYPE) == 0 && rest_query_flag(call, "pretty");
    call->out.big_as_text = (call->route->flags & REST_ANY_TYPE) == 0 && rest_query_choice(call, "int64", int64, 2, 0) == 1;
    call->timeout_ms = rest_query_int(call, "timeout_ms", 0, 120000, 30000);
    return !rest_faulty(call);
}

static bool format_is_right(struct rest_call *call)
{
    static const char *const types[] = { "application/json", "application/x-ndjson", "text/csv", "text/plain", "text/html" };
    static const char *const names[] = { "json", "ndjson", "csv", "table" };
    if ((call->route->flags & REST_ANY_TYPE) != 0) return true;
    if ((call->route->flags & REST_LIST) != 0 && rest_query(call, "format") != NULL) {
        call->format = (enum rest_format)rest_query_choice(call, "format", names, 4, 0);
        return !rest_faulty(call);
    }
    if ((call->route->flags & REST_LINES) != 0 && rest_query(call, "format") != NULL) {
        call->format = (enum rest_format)rest_query_choice(call, "format", names, 2, 0);
        return !rest_faulty(call);
    }
    int best = -1;
    if ((call->route->flags & REST_EVENTS) != 0) {
        best = rest_accept_best(call->accept, (const char *const[]){ "text/event-stream" }, 1);
    } else if ((call->route->flags & REST_HTML) != 0) {
        static const char *const offers[] = { "application/json", "text/html" };
        best = rest_accept_best(call->accept, offers, 2);
        if (best == 1) best = REST_FORMAT_HTML;
    } else {
        best = rest_accept_best(call->accept, types, (call->route->flags & REST_LIST) != 0 ? 4 : (call->route->flags & REST_LINES) != 0 ? 2 : 1);
    }
    if (best < 0 && rest_accept_best(call->accept, (const char *const[]){ "application/problem+json" }, 1) == 0) best = 0;
    if (best >= 0) {
        call->format = (enum rest_format)best;
        return true;
    }
    rest_problem_http(call, "HTTP_NOT_ACCEPTABLE", "none of '%.100s' is served here", call->accept);
    return false;
}

static bool type_is_right(struct rest_call *call)
{
    const char *type = header(call, "Content-Type"), *encoding = header(call, "Content-Encoding");
    const bool records = (call->route->flags & REST_RECORD_BODY) != 0;
    call->body_kind = rest_media_is(type, "application/json") ? REST_BODY_IS_JSON
        : call->method == REST_PATCH && rest_media_is(type, "application/merge-patch+json") ? REST_BODY_IS_JSON
        : records && rest_media_is(type, "text/plain") ? REST_BODY_IS_TEXT
        : records && rest_media_is(type, "application/octet-stream") ? REST_BODY_IS_BYTES
        : records && rest_media_is(type, "application/x-ndjson") ? REST_BODY_IS_LINES : REST_BODY_NONE;
    if (call->body_kind == REST_BODY_NONE || rest_media_foreign_charset(type)) {
        rest_header(call, "Accept-Post", records ? "application/json, text/plain, application/octet-stream, application/x-ndjson" : "application/json");
        if (type == NULL) rest_problem_http(call, "HTTP_UNSUPPORTED_MEDIA_TYPE", "Content-Type is missing: application/json%s is taken here", records ? " among others" : "");
        else rest_problem_http(call, "HTTP_UNSUPPORTED_MEDIA_TYPE", "Content-Type '%.80s' is not taken here: send -H 'Content-Type: application/json'%s", type,
            records ? ", or text/plain, application/octet-stream, application/x-ndjson" : "");
        return false;
    }
    if (encoding != NULL && strcasecmp(encoding, "identity") != 0) {
        rest_problem_http(call, "HTTP_UNSUPPORTED_MEDIA_TYPE", "Content-Encoding '%.40s' is not taken here", encoding);
        return false;
    }
    return true;
}

static bool body_is_right(struct rest_call *call)
{
    const char *length = header(call, "Content-Length");
    const bool chunked = header(call, "Transfer-Encoding") != NULL;
    const unsigned long long bytes = call->connection == NULL ? call->given_body.bytes : length == NULL ? 0 : strtoull(length, NULL, 10);
    const bool takes = (call->route->flags & (REST_JSON_BODY | REST_RECORD_BODY)) != 0;
    if (!takes) {
        if (bytes == 0 && !chunked) return true;
        rest_problem(call, OT_ERR_INVALID_REQUEST, "this operation takes no body");
        return false;
    }
    if (!type_is_right(call)) return false;
    if (bytes > call->server->body_max) {
        rest_problem_http(call, "HTTP_CONTENT_TOO_LARGE", "the body has %llu bytes, at most %zu are taken", bytes, call->server->body_max);
        return false;
    }
    call->body = ot_buf_new(call->server->setup.body_pool, chunked || bytes == 0 ? 4096 : (size_t)bytes);
    if (call->body != NULL && call->connection == NULL && bytes > 0) {
        memcpy(call->body->data, call->given_body.data, (size_t)bytes);        /* out of the peer's frame: handlers keep bodies in buffers of their own pool */
        call->body->bytes = (uint32_t)bytes;
    }
    if (call->body != NULL) return true;
    rest_problem(call, OT_ERR_NO_MEMORY, "no memory for a body of %llu bytes now", bytes);
    return false;
}

bool rest_admit_request(struct rest_call *call, const char *method)
{
    char text[160];
    call->head = strcmp(method, "HEAD") == 0;
    call->if_match = header(call, "If-Match");
    call->if_none_match = header(call, "If-None-Match");
    call->accept = header(call, "Accept");
    call->body_type = header(call, "Content-Type");
    call->last_event_id = header(call, "Last-Event-ID");
    call->once_key = header(call, "Idempotency-Key");
    enum ot_err err = rest_uri_parse(&call->arena, call->target, strlen(call->target), &call->uri, text, sizeof(text));
    if (err != OT_OK) {
        if (err == OT_ERR_TOO_LARGE) rest_problem_http(call, "HTTP_URI_TOO_LONG", "%s", text);
        else if (err == OT_ERR_MALFORMED) rest_problem_http(call, "HTTP_BAD_REQUEST", "%s", text);
        else rest_problem(call, err, "no memory for the request");
        return false;
    }
    const bool routed = find_route(call, method);
    if (call->connection != NULL && routed && (!rate_is_right(call) || !origin_is_right(call))) return false;
    return routed && query_is_right(call) && format_is_right(call) && body_is_right(call);
}

bool rest_admit(struct rest_call *call, const char *method)
{
    const char *id = header(call, "X-Request-Id");
    const char *ours = header(call, "Ottla-Request-Id");
    if (ours != NULL) id = ours;
    if (id != NULL && rest_request_id_valid(id)) snprintf(call->request_id, sizeof(call->request_id), "%s", id);
    return sizes_are_right(call) && framing_is_right(call) && host_is_right(call) && rest_admit_request(call, method);
}
