/* Answers: from what a handler wrote to what the connection sends. */
#include "base/log.h"
#include "base/util.h"
#include "rest/accept.h"
#include "rest/inside.h"
#include "rest/once.h"
#include "rest/stream.h"
#include "rest/problem.h"
#include <inttypes.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void rest_header(struct rest_call *call, const char *name, const char *value)
{
    if (value == NULL) return;
    OT_ASSERT(call->header_count < REST_HEADERS_MAX);
    call->headers[call->header_count++] = (struct rest_header){ name, value };
}

void rest_header_int(struct rest_call *call, const char *name, int64_t value)
{
    char *text = ot_arena_alloc(&call->arena, 24);
    if (text == NULL) return;
    snprintf(text, 24, "%" PRId64, value);
    rest_header(call, name, text);
}

/* The answer stands. In work: back to the connection's thread. */
static void answered(struct rest_call *call, int status, const char *content_type)
{
    call->status = status;
    call->content_type = content_type;
    if (atomic_load(&call->stage) != REST_WORKING) return;     /* refused at admission: the connection's thread has it already */
    struct rest_server *server = call->server;
    struct MHD_Connection *connection = call->connection;
    ot_exec_timer_cancel(server->exec, &call->timer);
    rest_body_drop(call);
    if (call->prev != NULL) call->prev->next = call->next;
    else server->first = call->next;
    if (call->next != NULL) call->next->prev = call->prev;
    rest_once_answered(call);
    if (call->inner_done != NULL) {
        ot_exec_post(server->exec, &call->task);
        return;
    }
    if (call->route != NULL && (call->route->flags & REST_WRITE) != 0) rest_audit(call);       /* where it was asked, not where it was done */
    call->sending = true;
    pthread_mutex_lock(&server->mutex);
    server->sending++;                         /* before it is no longer in work: a stop waits for one or the other */
    pthread_mutex_unlock(&server->mutex);
    atomic_store(&call->stage, REST_ANSWERED);
    MHD_resume_connection(connection);         /* from here on the call may be gone */
    rest_server_let_go(server);
}

static void out_of_memory(struct rest_call *call)
{
    rest_json_free(&call->out);
    rest_json_init(&call->out, REST_ANSWER_MAX);
    answered(call, 503, "application/problem+json");
}

void rest_reply_raw(struct rest_call *call, int status, const char *content_type)
{
    if (rest_json_failed(&call->out)) out_of_memory(call);
    else answered(call, status, content_type);
}

static void finish_json(struct rest_call *call, int status, const char *content_type)
{
    if (call->pretty && !rest_json_failed(&call->out)) {
        struct rest_json pretty;
        rest_json_init(&pretty, REST_ANSWER_MAX);
        rest_json_pretty(&pretty, call->out.data, call->out.bytes);
        rest_json_free(&call->out);
        call->out = pretty;
    } else {
        rest_json_put(&call->out, "\n", 1);
    }
    rest_reply_raw(call, status, content_type);
}

void rest_reply_json(struct rest_call *call, int status) { finish_json(call, status, "application/json"); }

void rest_reply_stream(struct rest_call *call) { answered(call, 200, "text/event-stream"); }

void rest_reply_empty(struct rest_call *call, int status)
{
    call->out.bytes = 0;
    answered(call, status, NULL);
}

/* ---- problems */

static void write_faults(struct rest_json *out, const struct rest_faults *faults)
{
    if (faults->count == 0) return;
    rest_json_open(out, "errors", '[');
    for (uint32_t i = 0; i < OT_MIN(faults->count, (uint32_t)REST_FAULTS_MAX); i++) {
        rest_json_open(out, NULL, '{');
        rest_json_text(out, faults->list[i].is_query ? "parameter" : "pointer", faults->list[i].pointer);
        rest_json_text(out, "detail", faults->list[i].text);
        rest_json_close(out, '}');
    }
    rest_json_close(out, ']');
}

static void problem(struct rest_call *call, const struct rest_problem_facts *facts, const char *detail, const char *extra, const char *hint)
{
    char slug[REST_SLUG_BYTES], type[REST_SLUG_BYTES + 16];
    struct rest_json *out = &call->out;
    call->problem = facts->name;
    rest_problem_slug(facts->name, slug);
    snprintf(type, sizeof(type), "/problems/%s", slug);
    rest_json_free(out);
    rest_json_init(out, REST_ANSWER_MAX);
    rest_json_open(out, NULL, '{');
    rest_json_text(out, "type", type);
    rest_json_text(out, "title", facts->title);
    rest_json_int(out, "status", facts->status);
    rest_json_text(out, "detail", detail);
    rest_json_str(out, "instance", (struct ot_str){ call->target, (uint32_t)strcspn(call->target, "?"), false });
    rest_json_text(out, "error", facts->name);
    if (facts->has_code) rest_json_int(out, "error_code", facts->code);
    else rest_json_null(out, "error_code");
    rest_json_bool(out, "retriable", facts->retriable);
    if (call->route != NULL && (call->route->flags & REST_WRITE) != 0) rest_json_text(out, "outcome", facts->status == 504 ? "unknown" : "not_applied");
    rest_json_text(out, "request_id", call->request_id);
    write_faults(out, &call->faults);
    if (hint != NULL) rest_json_text(out, "hint", hint);
    if (extra != NULL) {
        rest_json_put(out, ",", 1);
        rest_json_put(out, extra, strlen(extra));
    }
    rest_json_close(out, '}');
    if (facts->retriable && (facts->status == 503 || facts->status == 429)) rest_header(call, "Retry-After", "1");
    finish_json(call, facts->status, "application/problem+json");
}

void rest_item_error(struct rest_json *out, enum ot_err err, const char *text)
{
    struct rest_problem_facts facts;
    if (err == OT_OK) {
        rest_json_null(out, "error");
        return;
    }
    rest_problem_of(err, &facts);
    rest_json_open(out, "error", '{');
    rest_json_text(out, "error", facts.name);
    if (facts.has_code) rest_json_int(out, "error_code", facts.code);
    else rest_json_null(out, "error_code");
    rest_json_text(out, "detail", text[0] != 0 ? text : ot_err_text(err));
    rest_json_bool(out, "retriable", facts.retriable);
    rest_json_close(out, '}');
}

#define FORMATTED(detail) \
    char detail[512]; \
    va_list args; \
    va_start(args, format); \
    vsnprintf(detail, sizeof(detail), format, args); \
    va_end(args)

void rest_problem(struct rest_call *call, enum ot_err err, const char *format, ...)
{
    struct rest_problem_facts facts;
    FORMATTED(detail);
    rest_problem_of(err, &facts);
    problem(call, &facts, detail, NULL, NULL);
}

void rest_problem_more(struct rest_call *call, enum ot_err err, const char *extra, const char *hint, const char *format, ...)
{
    struct rest_problem_facts facts;
    FORMATTED(detail);
    rest_problem_of(err, &facts);
    problem(call, &facts, detail, extra, hint);
}

void rest_problem_http(struct rest_call *call, const char *name, const char *format, ...)
{
    struct rest_problem_facts facts;
    FORMATTED(detail);
    const struct rest_problem_row *row = rest_problem_row(name);
    OT_ASSERT(row != NULL);
    rest_problem_of_row(row, &facts);
    problem(call, &facts, detail, NULL, NULL);
}

bool rest_faulty(struct rest_call *call)
{
    if (call->faults.count == 0) return false;
    const struct rest_fault *first = &call->faults.list[0];
    if (call->faults.count == 1) rest_problem(call, OT_ERR_INVALID_REQUEST, "%s %s", first->pointer[0] == 0 ? "the body" : first->pointer, first->text);
    else rest_problem(call, OT_ERR_INVALID_REQUEST, "%u faults, the first: %s %s", call->faults.count, first->pointer[0] == 0 ? "the body" : first->pointer, first->text);
    return true;
}

/* ---- versions */

void rest_etag(struct rest_call *call, int64_t version)
{
    char *etag = ot_arena_alloc(&call->arena, 32);
    if (etag == NULL) return;
    snprintf(etag, 32, "\"%" PRId64 "\"", version);
    rest_header(call, "ETag", etag);
}

bool rest_not_modified(struct rest_call *call, int64_t version)
{
    char etag[32];
    snprintf(etag, sizeof(etag), "\"%" PRId64 "\"", version);
    rest_etag(call, version);
    if (call->if_none_match == NULL || !rest_etag_in(call->if_none_match, etag, true)) return false;
    rest_reply_empty(call, 304);
    return true;
}

bool rest_if_match(struct rest_call *call, int64_t version, int64_t *if_version_out)
{
    char etag[32];
    *if_version_out = -1;
    if (call->if_match == NULL) {
        const bool create_only = call->if_none_match != NULL && strcmp(call->if_none_match, "*") == 0;
        if (create_only || !broker_config(call->broker)->rest_require_if_match) return true;
        rest_etag(call, version);
        rest_problem_http(call, "HTTP_PRECONDITION_REQUIRED", "this change needs If-Match with the ETag of what it is meant for");
        return false;
    }
    snprintf(etag, sizeof(etag), "\"%" PRId64 "\"", version);
    if (rest_etag_in(call->if_match, etag, false)) {
        *if_version_out = version;
        return true;
    }
    rest_etag(call, version);
    rest_problem_http(call, "HTTP_PRECONDITION_FAILED", "If-Match is %.100s, the current version is %s", call->if_match, etag);
    return false;
}

bool rest_validate_only(struct rest_call *call) { return rest_query_flag(call, "validate_only"); }

void rest_wrote(struct rest_call *call, int64_t version)
{
    if (version >= 0) rest_header_int(call, "Ottla-Metadata-Offset", version);
}

/* The path alone: a query may hold a record's key. */
void rest_audit(const struct rest_call *call)
{
    char resource[OT_LOG_FIELD_BYTES], principal[OT_LOG_FIELD_BYTES];
    ot_log(OT_LOG_INFO, "audit", "rest", "principal=%s address=%s operation=%s resource=%s status=%d request_id=%s", ot_log_field(principal, call->principal), call->peer,
        call->route->operation, ot_log_field_n(resource, call->target, strcspn(call->target, "?")), call->status, call->request_id);
}

/* ---- onto the wire */

/* What took longer than it had to; streams live as long as their clients like. */
static void look_for_slow(const struct rest_call *call, const char *operation, int64_t took_us)
{
    const int64_t threshold_ms = broker_config(call->server->broker)->ottla_slow_request_ms;
    if (call->stream != NULL || !broker_slow_is(threshold_ms, took_us - call->granted_us)) return;
    const int64_t queued_us = call->begun_us == 0 ? took_us : call->begun_us - call->started_us;
    struct broker_slow_request note = { .door = "rest", .version = -1, .queued_us = queued_us, .waited_us = took_us - queued_us, .answer_bytes = call->out.bytes,
        .request_bytes = call->body == NULL ? 0 : call->body->bytes };
    snprintf(note.result, sizeof(note.result), "%d", call->status);
    snprintf(note.operation, sizeof(note.operation), "%s", operation);
    snprintf(note.address, sizeof(note.address), "%.47s", call->peer);
    snprintf(note.request_id, sizeof(note.request_id), "%s", call->request_id);
    broker_slow_note(call->server->setup.slow, &note);
}

static void count(struct rest_call *call)
{
    struct ot_metrics *metrics = call->server->setup.metrics;
    const char *operation = call->route == NULL ? "none" : call->route->operation;
    const int64_t took_us = ot_clock_boot_us() - call->started_us;
    look_for_slow(call, operation, took_us);
    if (metrics == NULL) return;
    char status[8];
    snprintf(status, sizeof(status), "%d", call->status);
    struct ot_series *total = ot_series_get(metrics, OT_METRIC_rest_requests_total, (const char *const[]){ operation, status });
    struct ot_series *duration = ot_series_get(metrics, OT_METRIC_rest_request_duration_seconds, (const char *const[]){ operation });
    ot_series_add(total, 1);
    ot_series_observe_us(duration, took_us);
    ot_series_release(metrics, total);
    ot_series_release(metrics, duration);
}

static bool add_header(struct MHD_Response *response, const char *name, const char *value)
{
    return MHD_add_response_header(response, name, value) == MHD_YES;
}

int rest_queue(struct rest_call *call)
{
    const bool bodiless = call->status == 204 || call->status == 304;
    struct MHD_Response *response = call->stream != NULL ? rest_stream_response(call->stream) : bodiless || call->out.data == NULL ? MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT)
        : MHD_create_response_from_buffer(call->out.bytes, call->out.data, MHD_RESPMEM_MUST_FREE);
    if (response == NULL) return MHD_NO;
    if (!bodiless && call->stream == NULL) call->out.data = NULL;      /* the response's now */
    else rest_json_free(&call->out);
    bool good = add_header(response, "Ottla-Request-Id", call->request_id) && add_header(response, "Ottla-Served-By", call->served_by != NULL ? call->served_by : call->server->served_by)
        && add_header(response, "X-Content-Type-Options", "nosniff");
    if (call->content_type != NULL && !bodiless) good = good && add_header(response, "Content-Type", call->content_type);
    if (strncmp(call->target, "/v1", 3) == 0) good = good && add_header(response, "Cache-Control", "no-store");
    for (uint32_t i = 0; i < call->header_count; i++) good = good && add_header(response, call->headers[i].name, call->headers[i].value);
    atomic_store(&call->stage, REST_QUEUED);
    count(call);
    const int queued = good ? (int)MHD_queue_response(call->connection, (unsigned)call->status, response) : (int)MHD_NO;
    MHD_destroy_response(response);
    return queued;
}
