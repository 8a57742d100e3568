/* FindCoordinator: who coordinates a group or a transactional id. v0 to 3 ask for one key, v4 and later for many (trap G9).
 *
 * The internal topic is made when it is first asked for, and the answer waits for it: so the client that comes next finds its coordinator there. */
#include "rpc/kafka/request.h"

#include "base/wire/enums.h"
#include "base/wire/find_coordinator_request.h"
#include "base/wire/find_coordinator_response.h"

typedef struct ot_find_coordinator_response_coordinator coordinator_row;

static bool kind_of(int8_t key_type, enum broker_shard_kind_id *out)
{
    *out = key_type == OT_COORDINATOR_TYPE_GROUP ? BROKER_SHARD_GROUPS : BROKER_SHARD_TRANSACTIONS;
    return key_type == OT_COORDINATOR_TYPE_GROUP || key_type == OT_COORDINATOR_TYPE_TRANSACTION;
}

/* Where clients of this listener reach a broker. */
static bool reach(struct rpc_request *request, int32_t id, coordinator_row *row)
{
    struct broker *broker = request->server->broker;
    struct broker_view_broker one;
    bool found = id == broker_node_id(broker);
    row->node_id = id;
    if (found) {
        rpc_advertised(request, &row->host, &row->port);
        return true;
    }
    const struct broker_view *view = broker_view_take(broker);
    /* its row alone: a request may name hundreds of groups in a cluster of many brokers */
    found = broker_view_next_broker(view, id - 1, &request->arena, &one) && one.id == id && rpc_advertised_of(request, &one, &row->host, &row->port);
    if (found) {
        const char *host = ot_arena_str(&request->arena, row->host);       /* outlives the view */
        row->host = ot_str_of(host);
        found = host != NULL;
    }
    broker_view_give(view);
    return found;
}

static coordinator_row coordinator_of(struct rpc_request *request, struct ot_str key, enum ot_err error, const char *text)
{
    const struct ot_find_coordinator_request *asked = request->body;
    struct broker *broker = request->server->broker;
    coordinator_row row = { .key = key, .node_id = -1, .host = ot_str_of(""), .port = -1 };
    enum broker_shard_kind_id kind;
    if (error == OT_OK && kind_of(asked->key_type, &kind)) {
        /* a kind that is not served says so itself, with a final error, where the client asks next */
        const int32_t leader = broker_shard_served(broker, kind) ? broker_shard_leader(broker, kind, key) : broker_node_id(broker);
        if (leader < 0 || !reach(request, leader, &row)) {
            row = (coordinator_row){ .key = key, .node_id = -1, .host = ot_str_of(""), .port = -1 };
            error = OT_ERR_COORDINATOR_NOT_AVAILABLE;
        }
    }
    if (request->error == OT_OK) request->error = error;
    row.error_code = ot_err_kafka(error);
    row.error_message = rpc_error_text(error, text);
    return row;
}

static void respond(struct rpc_request *request, enum ot_err error, const char *text)
{
    const struct ot_find_coordinator_request *asked = request->body;
    struct ot_find_coordinator_response response;
    ot_find_coordinator_response_defaults(&response);
    if (request->header.version <= 3) {
        const coordinator_row row = coordinator_of(request, asked->key, error, text);
        response.error_code = row.error_code;
        if (request->header.version >= 1) response.error_message = row.error_message;
        response.node_id = row.node_id;
        response.host = row.host;
        response.port = row.port;
        rpc_respond(request, &response);
        return;
    }
    response.coordinators.count = asked->coordinator_keys.count;
    response.coordinators.items = rpc_alloc(request, (size_t)asked->coordinator_keys.count, sizeof *response.coordinators.items);
    if (response.coordinators.items == NULL && asked->coordinator_keys.count > 0) {
        rpc_reject(request, "no memory for its answer");
        return;
    }
    for (int32_t i = 0; i < asked->coordinator_keys.count; i++) response.coordinators.items[i] = coordinator_of(request, asked->coordinator_keys.items[i], error, text);
    rpc_respond(request, &response);
}

static void find_coordinator_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    respond(request, request->call.shard_topic.error, NULL);
}

RPC_HANDLER(find_coordinator)
{
    const struct ot_find_coordinator_request *asked = body;
    enum broker_shard_kind_id kind;
    if (!kind_of(asked->key_type, &kind)) {
        respond(request, OT_ERR_INVALID_REQUEST, "coordinators of this key type are not served");
        return;
    }
    if (!broker_shard_served(request->server->broker, kind)) {
        respond(request, OT_OK, NULL);
        return;
    }
    rpc_call_init(request, find_coordinator_done);
    broker_shard_topic(request->server->broker, kind, &request->call.shard_topic);
}
