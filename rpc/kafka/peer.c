/* What only other brokers of the cluster ask, on the peer listener: hello, the coordinator's messages, requests to the coordinator, how far groups are behind, and requests of the REST
 * API that they pass on.
 * Kafka's own requests are served there too, once the other side has said who it is. */
#include "rpc/kafka/request.h"

#include "base/wire/peer_ask_request.h"
#include "base/wire/peer_ask_response.h"
#include "base/wire/peer_hello_request.h"
#include "base/wire/peer_hello_response.h"
#include "base/wire/peer_lag_request.h"
#include "base/wire/peer_lag_response.h"
#include "base/wire/peer_log_ends_request.h"
#include "base/wire/peer_log_ends_response.h"
#include "base/wire/peer_message_request.h"
#include "base/wire/peer_message_response.h"
#include "base/wire/peer_rest_request.h"
#include "base/wire/peer_rest_response.h"

bool rpc_peer_unready(const struct rpc_kafka_server *server, const struct rpc_conn *door, int16_t key)
{
    struct broker_health health;
    if (!server->peer || !door->hello->done || broker_peer_api_own(key) || key == OT_API_API_VERSIONS) return false;
    broker_health(server->broker, &health);
    return !health.serves_peers;
}

bool rpc_peer_serves(const struct rpc_kafka_server *server, const struct rpc_conn *door, int16_t key)
{
    if (!server->peer) return !broker_peer_api_own(key);
    if (key == OT_API_PEER_HELLO || key == OT_API_API_VERSIONS) return true;
    return door->hello->done && !rpc_peer_unready(server, door, key);
}

bool rpc_peer_lists(const struct rpc_kafka_server *server, int16_t key) { return server->peer || !broker_peer_api_own(key); }

RPC_HANDLER(peer_hello)
{
    struct ot_peer_hello_response response;
    const enum ot_err err = broker_peer_hello(request->server->broker, request->door->hello, body, &response);
    request->error = err;
    if (err != OT_OK) ot_conn_finish(request->conn, "its hello was refused");
    else if (request->door->hello->done) ot_conn_trust(request->conn);
    rpc_respond(request, &response);
}

static void message_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    struct ot_peer_message_response response;
    ot_peer_message_response_defaults(&response);
    rpc_respond(request, &response);
}

RPC_HANDLER(peer_message)
{
    const struct ot_peer_message_request *asked = body;
    rpc_call_init(request, message_done);
    request->call.peer_message.peer = request->door->hello->node_id;
    request->call.peer_message.body = asked->message;
    broker_peer_message(request->server->broker, &request->call.peer_message);
}

static void ask_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    rpc_respond(request, &request->call.peer_ask.out);
}

RPC_HANDLER(peer_ask)
{
    rpc_call_init(request, ask_done);
    request->arena.cap_bytes = RPC_ANSWER_ARENA_BYTES;
    request->call.peer_ask.peer = request->door->hello->node_id;
    request->call.peer_ask.in = body;
    request->call.peer_ask.arena = &request->arena;
    broker_peer_ask(request->server->broker, &request->call.peer_ask);
}

static void rest_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    struct broker_peer_rest rest = request->call.peer_rest;    /* the request is gone once it is answered */
    rpc_respond(request, &rest.out);
    if (rest.release != NULL) rest.release(&rest);
}

RPC_HANDLER(peer_rest)
{
    rpc_call_init(request, rest_done);
    request->call.peer_rest.peer = request->door->hello->node_id;
    request->call.peer_rest.in = body;
    broker_peer_rest(request->server->broker, &request->call.peer_rest);
}

void rpc_peer_rest_cancel(struct rpc_request *request) { broker_peer_rest_cancel(request->server->broker, &request->call.peer_rest); }

static void lag_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct broker_lag *lag = &request->call.lag;
    struct ot_peer_lag_response response;
    ot_peer_lag_response_defaults(&response);
    response.parts.items = rpc_alloc(request, lag->part_count, sizeof *response.parts.items);
    response.parts.count = (int32_t)lag->part_count;
    if (response.parts.items == NULL && lag->part_count > 0) {
        rpc_reject(request, "no memory for its answer");
        return;
    }
    for (uint32_t i = 0; i < lag->part_count; i++) {
        const struct broker_lag_part *part = &lag->parts[i];
        response.parts.items[i] = (struct ot_peer_lag_response_part){ .error_code = ot_err_kafka(part->error), .log_start_offset = part->log_start_offset,
            .high_watermark = part->high_watermark, .last_stable_offset = part->last_stable_offset, .all_records = part->all.records, .all_ms = part->all.ms,
            .all_exact = part->all.exact, .committed_records = part->committed.records, .committed_ms = part->committed.ms, .committed_exact = part->committed.exact };
    }
    rpc_respond(request, &response);
}

RPC_HANDLER(peer_lag)
{
    const struct ot_peer_lag_request *asked = body;
    size_t count = 0;
    for (int32_t t = 0; t < asked->topics.count; t++) count += (size_t)asked->topics.items[t].partitions.count;
    struct broker_lag_part *parts = rpc_alloc(request, count, sizeof *parts), *part = parts;
    if (parts == NULL && count > 0) {
        rpc_reject(request, "too many partitions in one request");
        return;
    }
    for (int32_t t = 0; t < asked->topics.count; t++) {
        const struct ot_peer_lag_request_topic *topic = &asked->topics.items[t];
        for (int32_t p = 0; p < topic->partitions.count; p++)
            *part++ = (struct broker_lag_part){ .topic = topic->name, .partition = topic->partitions.items[p].index, .offset = topic->partitions.items[p].offset };
    }
    rpc_call_init(request, lag_done);
    request->call.lag.parts = parts;
    request->call.lag.part_count = (uint32_t)count;
    request->call.lag.here = true;
    broker_lag(request->server->broker, &request->call.lag);
}

RPC_HANDLER(peer_log_ends)
{
    struct ot_peer_log_ends_response response;
    request->arena.cap_bytes = RPC_ANSWER_ARENA_BYTES;
    if (broker_log_ends(request->server->broker, body, &request->arena, &response) == OT_OK) rpc_respond(request, &response);
    else rpc_reject(request, "no memory for its answer");
}
