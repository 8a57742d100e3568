/* Errors as gRPC tells them, and where the leaders are. */
#include "rpc/grpc/door.h"

#include <stdio.h>

int rpcg_code(const struct rpc_grpc_server *server, enum ot_err error)
{
    /* a partition that stops being led here because the server stops is no reason to look for its leader elsewhere */
    if (error == OT_ERR_NOT_LEADER_OR_FOLLOWER && atomic_load_explicit(&server->draining, memory_order_relaxed)) return GRPC_STATUS_UNAVAILABLE;
    return ot_err_grpc(error);
}

bool rpcg_address_of(const struct broker_view_broker *broker, char *out, size_t out_bytes)
{
    out[0] = '\0';
    for (uint32_t i = 0; i < broker->endpoint_count; i++) {
        const struct broker_view_endpoint *one = &broker->endpoints[i];
        if (!ot_str_equal(one->listener, ot_str_of(RPCG_LISTENER)) || one->host.null || one->host.bytes == 0) continue;
        const bool v6 = __builtin_memchr(one->host.data, ':', one->host.bytes) != NULL;
        (void)snprintf(out, out_bytes, "%s%.*s%s:%d", v6 ? "[" : "", (int)one->host.bytes, one->host.data, v6 ? "]" : "", one->port);
        return true;
    }
    return false;
}

static void address_find(struct rpc_grpc_server *server, int32_t id, char *out, size_t out_bytes)
{
    uint8_t first[1024];
    struct ot_arena arena;
    struct broker_view_broker broker;
    const struct broker_view *view = broker_view_take(server->broker);
    ot_arena_init_with(&arena, first, sizeof first, 1u << 20);
    for (int32_t after = INT32_MIN; broker_view_next_broker(view, after, &arena, &broker); after = broker.id) {
        if (broker.id != id) continue;
        (void)rpcg_address_of(&broker, out, out_bytes);
        break;
    }
    broker_view_give(view);
    ot_arena_free(&arena);
}

/* Who leads a partition, for calls of the broker that do not tell; -1: nobody, or there is none. */
static int32_t leader_find(struct rpc_grpc_server *server, struct ot_str topic, int32_t partition, int32_t *epoch_out)
{
    uint8_t first[1024];
    struct ot_arena arena;
    struct broker_view_topic row;
    struct broker_view_partition found = { .leader = -1, .leader_epoch = -1 };
    const struct broker_view *view = broker_view_take(server->broker);
    ot_arena_init_with(&arena, first, sizeof first, 1u << 20);
    if (!broker_view_topic(view, topic, &row) || !broker_view_partition(view, &row.id, partition, &arena, &found)) found.leader = found.leader_epoch = -1;
    broker_view_give(view);
    ot_arena_free(&arena);
    *epoch_out = found.leader_epoch;
    return found.leader;
}

struct rpcg_error rpcg_error_of(struct rpc_grpc_server *server, enum ot_err error, const char *text, struct ot_str topic, int32_t partition, int32_t leader_id,
    int32_t leader_epoch)
{
    struct rpcg_error out = { .error = error, .text = text, .topic = topic, .partition = partition, .leader_id = leader_id, .leader_epoch = leader_epoch };
    if (error == OT_ERR_NOT_LEADER_OR_FOLLOWER && leader_id < 0 && !topic.null) out.leader_id = leader_find(server, topic, partition, &out.leader_epoch);
    if (out.leader_id >= 0 && out.leader_id != broker_node_id(server->broker)) address_find(server, out.leader_id, out.leader_address, sizeof out.leader_address);
    return out;
}
