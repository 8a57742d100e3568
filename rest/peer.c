/* Requests of clients of other brokers: they come over the peer connection, run through the same admission and handlers, and go no further.
 *
 *   peer connection's loop   serve ──► our executor   inner call … answered ──► the loop   encode, release                                        */
#include "base/util.h"
#include "broker/peer_rest.h"
#include "rest/inside.h"
#include <stdlib.h>
#include <string.h>

enum { HEADERS_IN_MAX = 16, ARENA_BYTES = 256 << 10 };

struct arrival {
    struct rest_server *server;
    struct broker_peer_rest *rest;
    struct ot_task task, cancel_task;
    struct ot_arena arena;
    struct rest_call *inner;
    bool answered;                             /* on our executor */
    _Atomic uint32_t refs;                     /* of the request, and of a cancel on its way */
};

static void unref(struct arrival *arrival)
{
    struct rest_server *server = arrival->server;
    if (atomic_fetch_sub_explicit(&arrival->refs, 1, memory_order_acq_rel) != 1) return;
    rest_inner_free(arrival->inner);
    ot_arena_free(&arrival->arena);
    free(arrival);
    rest_server_let_go(server);
}

static void release(struct broker_peer_rest *rest) { unref(rest->own); }

static void done_run(struct ot_task *task)
{
    struct broker_call *call = OT_CONTAINER(task, struct broker_call, task);
    call->done(call);
}

static void answer(struct broker_peer_rest *rest)
{
    rest->call.task.run = done_run;
    ot_exec_post(rest->call.home, &rest->call.task);
}

/* Status 0. Nothing was done, but for REST_HOP_TOO_LARGE and REST_HOP_UNTOLD. */
static void refuse(struct arrival *arrival, const char *error)
{
    arrival->answered = true;
    arrival->rest->out.status = 0;
    arrival->rest->out.error = ot_str_of(error);
    answer(arrival->rest);
}

static void answered(struct rest_call *inner)
{
    struct arrival *arrival = inner->inner_arg;
    struct ot_peer_rest_response *out = &arrival->rest->out;
    struct ot_peer_rest_response_header *headers = ot_arena_array(&arrival->arena, OT_MAX(inner->header_count, 1u), sizeof(*headers));
    const size_t bytes = inner->out.data == NULL || inner->status == 204 || inner->status == 304 ? 0 : inner->out.bytes;
    arrival->inner = inner;
    arrival->answered = true;
    if (headers == NULL || bytes > (size_t)OT_MAX(arrival->rest->in->answer_bytes_max, 0) || bytes > REST_HOP_BYTES_MAX) {
        refuse(arrival, headers == NULL ? REST_HOP_UNTOLD : REST_HOP_TOO_LARGE);
        return;
    }
    for (uint32_t i = 0; i < inner->header_count; i++) {
        headers[i].name = ot_str_of(inner->headers[i].name);
        headers[i].value = ot_str_of(inner->headers[i].value);
    }
    out->status = (int16_t)inner->status;
    out->error = ot_str_of(inner->problem != NULL ? inner->problem : "");
    if (inner->content_type != NULL) out->content_type = ot_str_of(inner->content_type);
    out->headers.items = headers;
    out->headers.count = (int32_t)inner->header_count;
    out->body = (struct ot_blob){ .data = (const uint8_t *)inner->out.data, .bytes = (uint32_t)bytes };
    answer(arrival->rest);
}

/* With its zero; NULL: no memory, or it has one inside already. */
static const char *text_of(struct arrival *arrival, struct ot_str text)
{
    if (text.null || (text.bytes > 0 && memchr(text.data, 0, text.bytes) != NULL)) return NULL;
    return ot_arena_str(&arrival->arena, text);
}

/* Nothing of it is believed but that a broker of this cluster sent it. */
static bool read(struct arrival *arrival, struct rest_inner_ask *out)
{
    const struct ot_peer_rest_request *in = arrival->rest->in;
    if (in->method < 0 || in->method >= REST_METHODS || in->target.bytes > REST_TARGET_MAX || in->headers.count < 0 || in->headers.count > HEADERS_IN_MAX) return false;
    struct rest_header *headers = ot_arena_array(&arrival->arena, OT_MAX((size_t)in->headers.count, (size_t)1), sizeof(*headers));
    *out = (struct rest_inner_ask){ .server = arrival->server, .method = rest_method_name((enum rest_method)in->method), .target = text_of(arrival, in->target),
        .headers = headers, .header_count = (uint32_t)in->headers.count, .body = in->body, .request_id = text_of(arrival, in->request_id),
        .address = text_of(arrival, in->address), .principal = text_of(arrival, in->principal), .timeout_ms = OT_MAX(in->timeout_ms, 1) };
    if (headers == NULL || out->target == NULL || out->request_id == NULL || out->address == NULL || out->principal == NULL) return false;
    for (int32_t i = 0; i < in->headers.count; i++) {
        headers[i] = (struct rest_header){ text_of(arrival, in->headers.items[i].name), text_of(arrival, in->headers.items[i].value) };
        if (headers[i].name == NULL || headers[i].value == NULL) return false;
    }
    return true;
}

static void begin(struct ot_task *task)
{
    struct arrival *arrival = OT_CONTAINER(task, struct arrival, task);
    struct rest_inner_ask ask;
    if (atomic_load(&arrival->server->stopping)) {
        refuse(arrival, "STOPPING");
    } else if (!read(arrival, &ask)) {
        refuse(arrival, "INVALID_REQUEST");
    } else {
        arrival->inner = rest_inner_start(&ask, answered, arrival);
        if (arrival->inner == NULL) refuse(arrival, "NO_MEMORY");
    }
}

static void hurry(struct ot_task *task)
{
    struct arrival *arrival = OT_CONTAINER(task, struct arrival, cancel_task);
    struct rest_call *inner = arrival->inner;
    if (!arrival->answered && atomic_load(&inner->stage) == REST_WORKING && inner->status == 0) {      /* status: it stands already, and only has to be told */
        inner->stopping = true;
        if (inner->cancel != NULL) inner->cancel(inner);
    }
    unref(arrival);
}

/* ---- on the connection's loop */

static void serve(void *arg, struct broker_peer_rest *rest)
{
    struct arrival *arrival = calloc(1, sizeof(*arrival));
    if (arrival == NULL) {
        rest->out.error = ot_str_of("NO_MEMORY");
        answer(rest);
        return;
    }
    arrival->server = arg;
    arrival->rest = rest;
    atomic_store(&arrival->refs, 1);
    ot_arena_init(&arrival->arena, ARENA_BYTES);
    rest->own = arrival;
    rest->release = release;
    arrival->task.run = begin;
    arrival->cancel_task.run = hurry;
    rest_server_hold(arrival->server);
    ot_exec_post(arrival->server->exec, &arrival->task);
}

static void cancel(void *arg, struct broker_peer_rest *rest)
{
    struct rest_server *server = arg;
    struct arrival *arrival = rest->own;
    atomic_fetch_add_explicit(&arrival->refs, 1, memory_order_relaxed);
    ot_exec_post(server->exec, &arrival->cancel_task);
}

void rest_peer_open(struct rest_server *server)
{
    const struct broker_rest_door door = { server, serve, cancel };
    broker_rest_door(server->broker, &door);
}

void rest_peer_close(struct rest_server *server) { broker_rest_door(server->broker, NULL); }
