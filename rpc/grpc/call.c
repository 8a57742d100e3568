#include "rpc/grpc/door.h"

#include "base/log.h"
#include "base/util.h"

#include <grpc/support/alloc.h>
#include <stdlib.h>
#include <string.h>

#define KEPT 512u
#define REQUEST_BYTES_MAX (1u << 20)       /* of requests that are not appends, which wait for room in a pool instead */

static void accepted_run(struct rpcg_tag *tag, bool ok);
static void read_run(struct rpcg_tag *tag, bool ok);
static void write_run(struct rpcg_tag *tag, bool ok);
static void finish_run(struct rpcg_tag *tag, bool ok);
static void closed_run(struct rpcg_tag *tag, bool ok);

/* ---- memory */

static struct rpcg_call *call_take(struct rpc_grpc_server *server)
{
    struct rpcg_call *call = server->free;
    if (call != NULL) {
        server->free = call->next;
        server->free_count--;
    } else if ((call = malloc(sizeof *call)) == NULL) {
        return NULL;
    }
    /* all but the first block, which the arena zeroes as it hands it out */
    memset(call, 0, offsetof(struct rpcg_call, first));
    call->server = server;
    call->accepted = (struct rpcg_tag){ accepted_run, call };
    call->read = (struct rpcg_tag){ read_run, call };
    call->write = (struct rpcg_tag){ write_run, call };
    call->finish = (struct rpcg_tag){ finish_run, call };
    call->closed = (struct rpcg_tag){ closed_run, call };
    ot_arena_init_with(&call->arena, call->first, sizeof call->first, RPCG_ARENA_BYTES);
    grpc_metadata_array_init(&call->metadata);
    return call;
}

static uint32_t method_index(const struct rpcg_call *call) { return call->method == NULL ? rpcg_method_count : (uint32_t)(call->method - rpcg_methods); }

static void count(struct rpcg_call *call)
{
    struct rpc_grpc_server *server = call->server;
    const uint32_t index = method_index(call);
    static const char *const names[RPCG_CODES] = { "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
        "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
        "UNAUTHENTICATED" };
    ot_series_move(server->calls[index], -1);
    if (server->metrics == NULL) return;
    if (call->cancelled) call->code = gpr_time_cmp(gpr_now(GPR_CLOCK_MONOTONIC), call->deadline) >= 0 ? GRPC_STATUS_DEADLINE_EXCEEDED : GRPC_STATUS_CANCELLED;
    struct ot_series **series = &server->answered[index][call->code];
    if (*series == NULL) {
        const char *labels[] = { call->method == NULL ? "unknown" : call->method->name, names[call->code] };
        *series = ot_series_get(server->metrics, OT_METRIC_grpc_requests_total, labels);
    }
    ot_series_add(*series, 1);
    ot_series_observe_us(server->duration[index], ot_clock_boot_us() - call->started_us);
}

static void call_give(struct rpcg_call *call)
{
    struct rpc_grpc_server *server = call->server;
    if (call->linked) {
        OT_ASSERT(call->ending);
        if (call->method != NULL && call->method->freed != NULL && call->own != NULL) call->method->freed(call);
        count(call);
        if (call->prev != NULL) call->prev->next = call->next;
        else server->open = call->next;
        if (call->next != NULL) call->next->prev = call->prev;
        server->open_count--;
    }
    if (call->is_flat) grpc_slice_unref(call->flat);
    grpc_byte_buffer_destroy(call->in);
    grpc_byte_buffer_destroy(call->out);
    grpc_metadata_array_destroy(&call->metadata);
    if (call->by_path) grpc_call_details_destroy(&call->details);
    if (call->call != NULL) grpc_call_unref(call->call);
    ot_arena_free(&call->arena);
    if (server->free_count >= KEPT) {
        free(call);
        return;
    }
    call->next = server->free;
    server->free = call;
    server->free_count++;
}

void rpcg_release(struct rpcg_call *call)
{
    OT_ASSERT(call->holds > 0);
    if (--call->holds == 0) call_give(call);
}

/* ---- batches */

static void batch(struct rpcg_call *call, const grpc_op *ops, size_t count_of_ops, struct rpcg_tag *tag)
{
    rpcg_hold(call);
    RPCG_TAG_GONE(tag);
    const grpc_call_error err = grpc_call_start_batch(call->call, ops, count_of_ops, tag, NULL);
    OT_ASSERT(err == GRPC_CALL_OK);        /* else a rule of the core was broken here */
}

static size_t add_headers(struct rpcg_call *call, grpc_op *ops, size_t at)
{
    if (call->headers_sent) return at;
    call->headers_sent = true;
    ops[at] = (grpc_op){ .op = GRPC_OP_SEND_INITIAL_METADATA };
    return at + 1;
}

static size_t add_message(grpc_byte_buffer *message, grpc_op *ops, size_t at)
{
    if (message == NULL) return at;
    ops[at] = (grpc_op){ .op = GRPC_OP_SEND_MESSAGE, .flags = GRPC_WRITE_NO_COMPRESS, .data.send_message.send_message = message };
    return at + 1;
}

static void close_watch(struct rpcg_call *call)
{
    const grpc_op op = { .op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &call->close_cancelled };
    call->close_asked = true;
    batch(call, &op, 1, &call->closed);
}

static void finish(struct rpcg_call *call, grpc_byte_buffer *message, int code, const char *text, grpc_metadata *trailer)
{
    grpc_op ops[4];
    size_t at = 0;
    OT_ASSERT(!call->ending);
    call->ending = true;
    call->code = code;
    if (call->cancelled) {                 /* nobody is there to be told */
        grpc_byte_buffer_destroy(message);
        return;
    }
    grpc_slice words = grpc_slice_from_copied_string(text);
    at = add_message(message, ops, add_headers(call, ops, 0));
    if (message != NULL) call->out = message;
    ops[at++] = (grpc_op){ .op = GRPC_OP_SEND_STATUS_FROM_SERVER, .data.send_status_from_server = { .trailing_metadata_count = trailer != NULL ? 1 : 0,
        .trailing_metadata = trailer, .status = (grpc_status_code)code, .status_details = text[0] != '\0' ? &words : NULL } };
    if (!call->close_asked) {
        call->close_asked = true;
        ops[at++] = (grpc_op){ .op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &call->close_cancelled };
    }
    batch(call, ops, at, &call->finish);
    grpc_slice_unref(words);
}

static void finish_run(struct rpcg_tag *tag, bool ok)
{
    struct rpcg_call *call = tag->call;
    (void)ok;
    if (call->close_cancelled) call->cancelled = true;
    rpcg_release(call);
}

static void closed_run(struct rpcg_tag *tag, bool ok)
{
    struct rpcg_call *call = tag->call;
    (void)ok;
    if (call->close_cancelled) {
        call->cancelled = true;
        if (!call->ending && call->method->cancel != NULL) call->method->cancel(call, false);
    }
    rpcg_release(call);
}

/* ---- answers */

struct encoding { void (*put)(struct ot_writer *writer, const void *arg); const void *arg; };

grpc_byte_buffer *rpcg_message(void (*put)(struct ot_writer *writer, const void *arg), const void *arg)
{
    struct ot_writer measure = ot_writer_over(NULL, 0);
    put(&measure, arg);
    grpc_slice slice = grpc_slice_malloc(measure.needed);
    struct ot_writer writer = ot_writer_over(GRPC_SLICE_START_PTR(slice), measure.needed);
    put(&writer, arg);
    OT_ASSERT(writer.err == OT_OK);
    OT_ASSERT(writer.needed == measure.needed);
    grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return message;
}

void rpcg_reply(struct rpcg_call *call, grpc_byte_buffer *message)
{
    if (message == NULL) {
        rpcg_fail_text(call, OT_ERR_NO_MEMORY, "no memory for the answer");
        return;
    }
    ot_series_add(call->server->sent_copy, 0);
    finish(call, message, GRPC_STATUS_OK, "", NULL);
}

void rpcg_end(struct rpcg_call *call, grpc_status_code code, const char *text) { finish(call, NULL, (int)code, text, NULL); }

void rpcg_fail(struct rpcg_call *call, const struct rpcg_error *error)
{
    const char *text = error->text != NULL && error->text[0] != '\0' ? error->text : ot_err_text(error->error);
    const struct rpcg_status status = { rpcg_code(call->server, error->error), text, error };
    struct ot_writer measure = ot_writer_over(NULL, 0);
    rpcg_put_status(&measure, &status);
    grpc_metadata trailer = { .key = grpc_slice_from_static_string("grpc-status-details-bin"), .value = grpc_slice_malloc(measure.needed) };
    struct ot_writer writer = ot_writer_over(GRPC_SLICE_START_PTR(trailer.value), measure.needed);
    rpcg_put_status(&writer, &status);
    finish(call, NULL, status.code, text, &trailer);
    grpc_slice_unref(trailer.value);
}

void rpcg_fail_text(struct rpcg_call *call, enum ot_err error, const char *text)
{
    const struct rpcg_error words = { .error = error, .text = text, .topic = { .null = true }, .partition = -1, .leader_id = -1, .leader_epoch = -1 };
    rpcg_fail(call, &words);
}

void rpcg_send(struct rpcg_call *call, grpc_byte_buffer *message)
{
    grpc_op ops[2];
    OT_ASSERT(!call->writing);
    if (call->cancelled || call->ending) {
        grpc_byte_buffer_destroy(message);
        return;
    }
    const size_t at = add_message(message, ops, add_headers(call, ops, 0));
    call->out = message;
    call->writing = true;
    call->write_started_us = ot_clock_boot_us();
    batch(call, ops, at, &call->write);
}

static void write_run(struct rpcg_tag *tag, bool ok)
{
    struct rpcg_call *call = tag->call;
    call->writing = false;
    if (call->out != NULL && !call->ending) {
        grpc_byte_buffer_destroy(call->out);
        call->out = NULL;
    }
    if (ok && !call->ending && call->method->sent != NULL) call->method->sent(call);      /* else the close tells */
    rpcg_release(call);
}

void rpcg_read(struct rpcg_call *call)
{
    const grpc_op op = { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &call->in };
    OT_ASSERT(call->in == NULL);
    batch(call, &op, 1, &call->read);
}

/* ---- beginnings */

struct ot_blob rpcg_flatten(grpc_byte_buffer *message, grpc_slice *flat_out)
{
    grpc_byte_buffer_reader reader;
    if (grpc_byte_buffer_reader_init(&reader, message) == 0) {
        *flat_out = grpc_empty_slice();
        return (struct ot_blob){ .data = (const uint8_t *)"" };
    }
    *flat_out = grpc_byte_buffer_reader_readall(&reader);
    grpc_byte_buffer_reader_destroy(&reader);
    /* a short slice lies in *flat_out itself, which therefore must not move */
    return (struct ot_blob){ GRPC_SLICE_START_PTR(*flat_out), (uint32_t)GRPC_SLICE_LENGTH(*flat_out), false };
}

static void start_with_body(struct rpcg_call *call)
{
    ot_series_add(call->server->received, grpc_byte_buffer_length(call->in));
    if (call->method->start != rpcg_produce_start) {       /* that one takes the message as it is */
        if (grpc_byte_buffer_length(call->in) > REQUEST_BYTES_MAX) {
            rpcg_fail_text(call, OT_ERR_RECORD_LIST_TOO_LARGE, "the request is larger than 1 MiB");
            return;
        }
        call->body = rpcg_flatten(call->in, &call->flat);
        call->is_flat = true;
        grpc_byte_buffer_destroy(call->in);
        call->in = NULL;
    }
    call->method->start(call);
}

static void read_run(struct rpcg_tag *tag, bool ok)
{
    struct rpcg_call *call = tag->call;
    grpc_byte_buffer *message = ok ? call->in : NULL;
    if (call->ending) {
        /* what came late is given back with the call */
    } else if (call->method->kind == RPCG_BIDI) {
        call->in = NULL;
        if (message != NULL) ot_series_add(call->server->received, grpc_byte_buffer_length(message));
        call->method->message(call, message);
    } else if (message == NULL) {
        rpcg_end(call, GRPC_STATUS_INVALID_ARGUMENT, "there is no request");
    } else {
        start_with_body(call);
    }
    rpcg_release(call);
}

static bool slice_is(grpc_slice slice, const char *text)
{
    const size_t bytes = strlen(text);
    return GRPC_SLICE_LENGTH(slice) == bytes && memcmp(GRPC_SLICE_START_PTR(slice), text, bytes) == 0;
}

static const struct rpcg_method *method_by_path(grpc_slice path)
{
    for (uint32_t i = 0; i < rpcg_method_count; i++)
        if (slice_is(path, rpcg_methods[i].path)) return &rpcg_methods[i];
    return NULL;
}

static void link_open(struct rpcg_call *call)
{
    struct rpc_grpc_server *server = call->server;
    call->linked = true;
    call->started_us = ot_clock_boot_us();
    call->next = server->open;
    if (server->open != NULL) server->open->prev = call;
    server->open = call;
    server->open_count++;
    ot_series_move(server->calls[method_index(call)], 1);
    if (server->sweep.heap_index == 0) ot_timer_heap_set(&server->timers, &server->sweep, call->started_us + 1000000);
}

/* Words and status of a call that is not begun; OT_OK: begin it. */
static bool turned_away(struct rpcg_call *call)
{
    struct rpc_grpc_server *server = call->server;
    enum ot_err err = OT_OK;
    if (call->method == NULL) {
        rpcg_end(call, GRPC_STATUS_UNIMPLEMENTED, "there is no such method; the services are told by reflection");
        return true;
    }
    if (atomic_load_explicit(&server->draining, memory_order_relaxed)) {
        rpcg_end(call, GRPC_STATUS_UNAVAILABLE, "the server is stopping: connect again");
        return true;
    }
    if (server->open_count > server->calls_max) {
        rpcg_fail_text(call, OT_ERR_THROTTLING_QUOTA_EXCEEDED, "more calls are open than grpc.calls.max allows");
        return true;
    }
    if (server->security.admit != NULL) err = server->security.admit(server->security.arg, call, rpcg_metadata, call->method->path);
    if (err != OT_OK) rpcg_fail_text(call, err, NULL);
    return err != OT_OK;
}

static void accepted_run(struct rpcg_tag *tag, bool ok)
{
    struct rpcg_call *call = tag->call;
    struct rpc_grpc_server *server = call->server;
    if (!ok) {                             /* the server stops: nobody will come */
        rpcg_release(call);
        return;
    }
    if (!server->shut) rpcg_call_post(server, call->method);
    if (call->by_path) {
        call->method = method_by_path(call->details.method);
        call->deadline = call->details.deadline;
    }
    link_open(call);
    if (!turned_away(call)) {
        const struct rpcg_method *method = call->method;
        if (method->watched) close_watch(call);
        call->own = ot_arena_alloc(&call->arena, *method->own_bytes);
        if (call->own == NULL) rpcg_fail_text(call, OT_ERR_NO_MEMORY, NULL);
        else if (method->kind == RPCG_BIDI) method->start(call);
        else if (call->by_path) rpcg_read(call);
        else if (call->in == NULL) rpcg_end(call, GRPC_STATUS_INVALID_ARGUMENT, "there is no request");
        else start_with_body(call);
    }
    rpcg_release(call);
}

void rpcg_call_post(struct rpc_grpc_server *server, const struct rpcg_method *method)
{
    struct rpcg_call *call = call_take(server);
    grpc_call_error err;
    if (call == NULL) {
        ot_log(OT_LOG_ERROR, "grpc", "no_memory", "text=\"one call fewer is waited for\"");
        return;
    }
    call->method = method;
    rpcg_hold(call);
    RPCG_TAG_GONE(&call->accepted);
    if (method != NULL) {
        err = grpc_server_request_registered_call(server->core, server->handles[method - rpcg_methods], &call->call, &call->deadline, &call->metadata,
            method->kind == RPCG_BIDI ? NULL : &call->in, server->queue, server->queue, &call->accepted);
    } else {
        call->by_path = true;
        grpc_call_details_init(&call->details);
        err = grpc_server_request_call(server->core, &call->call, &call->details, &call->metadata, server->queue, server->queue, &call->accepted);
    }
    OT_ASSERT(err == GRPC_CALL_OK);
}

/* ---- what a call knows of its caller */

struct ot_str rpcg_metadata(const void *arg, const char *name)
{
    const struct rpcg_call *call = arg;
    for (size_t i = 0; i < call->metadata.count; i++) {
        const grpc_slice *value = &call->metadata.metadata[i].value;
        if (slice_is(call->metadata.metadata[i].key, name))
            return (struct ot_str){ (const char *)GRPC_SLICE_START_PTR(*value), (uint32_t)GRPC_SLICE_LENGTH(*value), false };
    }
    return (struct ot_str){ .null = true };
}

struct broker_client rpcg_client(const struct rpcg_call *call)
{
    const struct ot_str id = rpcg_metadata(call, "client-id"), agent = rpcg_metadata(call, "user-agent");
    return (struct broker_client){ .client_id = id.null ? ot_str_of("") : id, .software_name = agent.null ? ot_str_of("") : agent, .software_version = ot_str_of(""),
        .address = ot_str_of(""), .listener = ot_str_of(RPCG_LISTENER) };
}

int32_t rpcg_time_left_ms(const struct rpcg_call *call, int32_t max_ms)
{
    if (gpr_time_cmp(call->deadline, gpr_inf_future(call->deadline.clock_type)) == 0) return max_ms;
    const gpr_timespec left = gpr_time_sub(gpr_convert_clock_type(call->deadline, GPR_CLOCK_MONOTONIC), gpr_now(GPR_CLOCK_MONOTONIC));
    const int64_t left_ms = left.tv_sec > INT32_MAX / 1000 ? INT32_MAX : left.tv_sec * 1000 + left.tv_nsec / 1000000;
    return (int32_t)OT_MIN(OT_MAX(left_ms, 0), (int64_t)max_ms);
}

void rpcg_sweep(struct rpc_grpc_server *server)
{
    const int64_t now_us = ot_clock_boot_us();
    for (struct rpcg_call *call = server->open; call != NULL; call = call->next) {
        if (!call->writing || call->cancelled || now_us - call->write_started_us < server->progress_us) continue;
        ot_log(OT_LOG_INFO, "grpc", "no_progress", "method=%s ms=%lld", call->method->name, (long long)((now_us - call->write_started_us) / 1000));
        call->write_started_us = now_us;   /* the close follows; say it once */
        (void)grpc_call_cancel_with_status(call->call, GRPC_STATUS_ABORTED, "the reader took nothing for ottla.connection.progress.timeout.ms", NULL);
    }
}
