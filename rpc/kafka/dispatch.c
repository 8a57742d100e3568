/* From a frame to a handler, and from a handler's answer to bytes. */
#include "rpc/kafka/request.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

static const struct rpc_api *row_of(int16_t key)
{
    for (uint32_t i = 0; i < rpc_api_count; i++) {
        if (rpc_apis[i].key == key) return &rpc_apis[i];
    }
    return NULL;
}

/* ---- contexts */

static size_t arena_cap(const struct ot_reply *reply) { return OT_MIN(RPC_ARENA_BASE_BYTES + (size_t)reply->bytes * RPC_ARENA_FACTOR, (size_t)RPC_ARENA_MAX_BYTES); }

/* What is in work holds all that may be held, some of it maybe for very long: a further request is begun only if what it says fits into its context. */
static bool over(const struct rpc_loop *loop) { return loop->charged_bytes > RPC_LOOP_ARENA_MAX_BYTES; }

static struct rpc_request *request_take(struct rpc_kafka_server *server, struct rpc_loop *loop, struct ot_reply *reply)
{
    struct rpc_request *request = loop->free;
    if (request != NULL) {
        loop->free = request->next;
        loop->free_count--;
    } else if ((request = malloc(sizeof *request)) == NULL) {
        return NULL;
    }
    /* all but the first block, which the arena zeroes as it hands it out */
    memset(request, 0, offsetof(struct rpc_request, first));
    request->server = server;
    request->loop = loop;
    request->reply = reply;
    request->conn = reply->conn;
    request->door = ot_conn_door(reply->conn);
    ot_arena_init_with(&request->arena, request->first, sizeof request->first, over(loop) ? 0 : arena_cap(reply));
    return request;
}

static void request_give(struct rpc_request *request)
{
    struct rpc_loop *loop = request->loop;
    ot_arena_free(&request->arena);
    loop->charged_bytes -= request->charged_bytes;
    if (loop->free_count >= RPC_LOOP_KEPT) {
        free(request);
        return;
    }
    request->next = loop->free;
    loop->free = request;
    loop->free_count++;
}

static void request_link(struct rpc_request *request)
{
    struct rpc_conn *door = request->door;
    request->next = door->in_work;
    request->prev = NULL;
    if (door->in_work != NULL) door->in_work->prev = request;
    door->in_work = request;
    door->in_work_count++;
    door->overlap = request->row->overlap;
}

static void request_unlink(struct rpc_request *request)
{
    struct rpc_conn *door = request->door;
    if (request->prev != NULL) request->prev->next = request->next;
    else door->in_work = request->next;
    if (request->next != NULL) request->next->prev = request->prev;
    door->in_work_count--;
}

/* ---- answers */

static void request_end(struct rpc_request *request, bool answer)
{
    struct ot_reply *reply = request->reply;
    if (request->loop->handling == request) request->loop->handling = NULL;
    if (answer) rpc_metrics_answered(request);
    request_unlink(request);
    request_give(request);
    if (answer) ot_reply_send(reply);      /* last: it may offer the next request */
    else ot_reply_none(reply);
}

void rpc_respond_added(struct rpc_request *request) { request_end(request, true); }
void rpc_respond_none(struct rpc_request *request) { request_end(request, false); }

void rpc_reject(struct rpc_request *request, const char *why)
{
    ot_conn_finish(request->conn, why);
    request_end(request, false);
}

void rpc_respond_version(struct rpc_request *request, int16_t version, const void *response)
{
    const struct ot_api *api = request->header.api;
    const size_t header_bytes = ot_wire_response_header_bytes(api, version), body_bytes = ot_wire_size(api->response, version, response);
    const size_t bytes = header_bytes + body_bytes;
    struct ot_wire_error error = { "", "" };
    struct ot_buf *buf = NULL;
    enum ot_err err = ot_wire_encode_check(api->response, version, response, &error);
    if (err == OT_OK && bytes > INT32_MAX) err = OT_ERR_TOO_LARGE;
    /* beyond the pool's cap if need be: the answer is due. What bounds it is that no request is begun while the pool is at its cap */
    if (err == OT_OK && (buf = ot_buf_new_forced(request->server->response_pool, bytes + 4)) == NULL) err = OT_ERR_NO_MEMORY;
    if (err == OT_OK) {
        struct ot_writer out = ot_writer_over(buf->data, bytes + 4);
        ot_write_u32(&out, (uint32_t)bytes);
        err = ot_wire_response_header_encode(api, version, request->header.correlation_id, &out);
        if (err == OT_OK) err = ot_wire_encode(api->response, version, response, &out, NULL);
        buf->bytes = (uint32_t)(bytes + 4);
    }
    if (err != OT_OK) {
        ot_buf_unref(buf);
        ot_log(OT_LOG_ERROR, "kafka", "answer_failed", "api=%s version=%d field=\"%s\" reason=\"%s\" error=%s", api->name, version, error.field, error.reason, ot_err_name(err));
        rpc_reject(request, "its answer could not be made");
        return;
    }
    ot_reply_memory(request->reply, buf->data, buf->bytes, buf);
    request_end(request, true);
}

void rpc_respond(struct rpc_request *request, const void *response) { rpc_respond_version(request, request->header.version, response); }

void rpc_call_init(struct rpc_request *request, void (*done)(struct broker_call *call))
{
    request->call.any.home = ot_conn_exec(request->conn);
    request->call.any.done = done;
}

struct broker_client rpc_client(const struct rpc_request *request)
{
    return (struct broker_client){ .client_id = request->header.client_id, .software_name = ot_str_of(request->door->software_name),
        .software_version = ot_str_of(request->door->software_version), .address = ot_str_of(ot_conn_peer_host(request->conn)),
        .listener = ot_str_of(request->door->listener->name) };
}

struct ot_str rpc_error_text(enum ot_err error, const char *text)
{
    if (text != NULL && text[0] != '\0') return ot_str_of(text);
    if (error == OT_OK) return (struct ot_str){ .null = true };
    return ot_str_of(ot_err_text(error));
}

/* ---- dispatch */

static bool may_start(const struct rpc_conn *door, enum rpc_overlap overlap)
{
    if (door->in_work_count == 0) return true;
    return overlap != RPC_ALONE && door->overlap == overlap && !door->hold;
}

/* What a refusal looks like to the client: ApiVersions is always answered (trap N1), for the rest the connection ends, as in Kafka. */
static enum ot_request_fate refuse(struct rpc_request *request, const char *why)
{
    struct ot_conn *conn = request->conn;
    request_give(request);
    ot_conn_finish(conn, why);
    return OT_REQUEST_LATER;               /* it will not be offered again: the connection is finishing */
}

static enum ot_request_fate starve(struct rpc_request *request)
{
    request_give(request);
    return OT_REQUEST_STARVED;
}

static void describe(struct rpc_request *request)
{
    struct rpc_conn *door = request->door;
    if (door->described) return;
    const struct ot_str none = { .null = true };
    door->described = true;
    ot_conn_describe(request->conn, request->header.client_id, none, none);
}

enum ot_request_fate rpc_dispatch(struct ot_conn *conn, struct ot_reply *reply);
enum ot_request_fate rpc_dispatch(struct ot_conn *conn, struct ot_reply *reply)
{
    struct rpc_kafka_server *server = ot_conn_arg(conn);
    struct rpc_loop *loop = &server->loops[ot_conn_loop_index(conn)];
    struct rpc_conn *door = ot_conn_door(conn);
    struct ot_wire_error error = { "", "" };
    const struct rpc_api *row = reply->bytes >= 8 ? row_of(ot_load_i16(reply->data)) : NULL;
    if (!may_start(door, row != NULL ? row->overlap : RPC_ALONE)) return OT_REQUEST_LATER;
    struct rpc_request *request = request_take(server, loop, reply);
    if (request == NULL) {
        ot_conn_finish(conn, "no memory for a request");
        return OT_REQUEST_LATER;
    }
    struct ot_reader in = ot_reader_over(reply->data, reply->bytes);
    enum ot_err err = ot_wire_request_header_decode(&in, &request->arena, &request->header, &error);
    if (err == OT_ERR_UNSUPPORTED_VERSION || (err == OT_OK && (row == NULL || !rpc_peer_serves(server, door, row->key)))) {
        const bool unready = err == OT_OK && row != NULL && rpc_peer_unready(server, door, row->key);
        if (!unready) rpc_refused(server, conn, &request->header);
        return refuse(request, unready ? "this broker starts or stops" : "an API that is not served");
    }
    if (err == OT_ERR_NO_MEMORY && over(loop)) return starve(request);
    if (err != OT_OK) {
        rpc_undecodable(server, conn, &request->header, &error);
        return refuse(request, "a request that cannot be read");
    }
    request->row = row;
    describe(request);
    const bool served = rpc_api_serves(row, request->header.api, request->header.version);
    if (!served) {
        rpc_refused(server, conn, &request->header);
        if (row->key != OT_API_API_VERSIONS) return refuse(request, "a version that is not served");
    }
    void *body = served ? ot_arena_alloc(&request->arena, row->request_bytes) : NULL;
    if (served && body == NULL) err = OT_ERR_NO_MEMORY;
    /* bytes behind the message are ignored, as in Kafka: librdkafka 2.16 sends three too many in Metadata 13 */
    if (served && err == OT_OK) err = ot_wire_decode(request->header.api->request, request->header.version, &in, &request->arena, body, &error);
    if (err == OT_ERR_NO_MEMORY && over(loop)) return starve(request);
    if (err != OT_OK) {
        rpc_undecodable(server, conn, &request->header, &error);
        return refuse(request, "a request that cannot be read");
    }
    request->body = body;
    request->arena.cap_bytes = arena_cap(reply);
    request->charged_bytes = request->arena.used_bytes;
    loop->charged_bytes += request->charged_bytes;
    request_link(request);
    request->begun_us = ot_exec_now_us(ot_conn_exec(conn));
    loop->handling = request;
    row->handle(request, body);
    if (loop->handling == request) request->parked_us = ot_exec_now_us(ot_conn_exec(conn));
    loop->handling = NULL;
    return OT_REQUEST_TAKEN;
}
