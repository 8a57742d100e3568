/* What the handlers of group APIs share. */
#include "rpc/kafka/request.h"

#include <string.h>

bool rpc_group_init(struct rpc_request *request, struct broker_group_call *call, enum group_ask_kind kind, struct ot_str group_id)
{
    const char *host = ot_conn_peer_host(request->conn);
    const size_t bytes = strlen(host) + 1;
    char *shown = rpc_alloc(request, bytes + 1, 1);        /* "/127.0.0.1", as Kafka's Java prints an address: tools show it so */
    if (shown == NULL) return false;
    shown[0] = '/';
    memcpy(shown + 1, host, bytes);
    *call = (struct broker_group_call){ .call.home = ot_conn_exec(request->conn), .ask = { .kind = kind, .version = request->header.version, .group_id = group_id,
        .client_id = request->header.client_id.null ? ot_str_of("") : request->header.client_id, .client_host = ot_str_of(shown), .arena = &request->arena, .generation = -1,
        .member_id = ot_str_of(""), .instance_id = { .null = true }, .retention_ms = -1, .producer_id = -1, .producer_epoch = -1 } };
    return true;
}

bool rpc_group_begin(struct rpc_request *request, enum group_ask_kind kind, struct ot_str group_id, size_t response_bytes, void (*done)(struct broker_call *call))
{
    struct broker_group_call *call = &request->call.group;
    void *response = rpc_alloc(request, 1, OT_MAX(response_bytes, (size_t)1));
    request->arena.cap_bytes = RPC_ANSWER_ARENA_BYTES;     /* what it answers is made of what all members said */
    if (response == NULL || !rpc_group_init(request, call, kind, group_id)) {
        rpc_reject(request, "no memory for its answer");
        return false;
    }
    call->call.done = done;
    call->ask.request = request->body;
    call->ask.response = response;
    return true;
}

void rpc_group_cancel(struct rpc_request *request) { broker_group_cancel(&request->call.group); }

void *rpc_group_response(struct rpc_request *request)
{
    const struct broker_group_call *call = &request->call.group;
    request->error = broker_group_error(call);
    if (call->error != OT_OK) ot_wire_set_defaults(request->header.api->response, call->ask.response);
    return call->ask.response;
}

enum ot_err rpc_group_topic(struct rpc_request *request, const struct broker_view *view, bool by_id, struct ot_str name, const struct ot_uuid *id, struct ot_str *name_out,
    struct ot_uuid *id_out)
{
    struct broker_view_topic topic;
    *name_out = name;
    *id_out = *id;
    if (by_id && !broker_view_topic_by_id(view, id, &topic)) return OT_ERR_UNKNOWN_TOPIC_ID;
    if (!by_id && !broker_view_topic(view, name, &topic)) return OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    *id_out = topic.id;
    if (!by_id) return OT_OK;
    const char *copy = ot_arena_str(&request->arena, topic.name);
    *name_out = ot_str_of(copy);
    return copy == NULL ? OT_ERR_UNKNOWN_SERVER_ERROR : OT_OK;
}
