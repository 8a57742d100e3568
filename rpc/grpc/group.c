#include "rpc/grpc/group.h"

#include <grpc/support/alloc.h>
#include <stdio.h>
#include <string.h>

#define ASK_VERSION 10                     /* of OffsetCommit and OffsetFetch: topics by id */

/* The core says "ipv4:127.0.0.1:5000", "ipv6:[::1]:5000" or "ipv6:%5B::1%5D:5000". */
void rpcg_peer_host(const struct rpcg_call *call, char *out, size_t out_bytes)
{
    char *peer = grpc_call_get_peer(call->call);
    const char *begin = peer == NULL ? "" : peer;
    if (strncmp(begin, "ipv", 3) == 0 && strchr(begin, ':') != NULL) begin = strchr(begin, ':') + 1;
    const char *end = strrchr(begin, ':');
    if (end == NULL) end = begin + strlen(begin);
    if (strncmp(begin, "%5B", 3) == 0) begin += 3;
    if (*begin == '[') begin++;
    if (end - begin >= 3 && strncmp(end - 3, "%5D", 3) == 0) end -= 3;
    if (end > begin && end[-1] == ']') end--;
    (void)snprintf(out, out_bytes, "/%.*s", (int)(end > begin ? end - begin : 0), begin);
    gpr_free(peer);
}

void rpcg_group_init(const struct rpcg_call *call, struct broker_group_call *group, enum group_ask_kind kind, struct ot_str group_id, struct ot_str host, struct ot_arena *arena)
{
    const struct broker_client client = rpcg_client(call);
    *group = (struct broker_group_call){ .call = { .home = &call->server->exec }, .ask = { .kind = kind, .version = ASK_VERSION, .group_id = group_id,
        .client_id = client.client_id, .client_host = host, .arena = arena, .generation = -1, .member_id = ot_str_of(""), .instance_id = { .null = true }, .retention_ms = -1,
        .producer_id = -1, .producer_epoch = -1 } };
}

struct rpcg_error rpcg_group_error(struct rpc_grpc_server *server, enum ot_err error, const char *text, struct ot_str group_id)
{
    const int32_t leader = error == OT_ERR_NOT_COORDINATOR ? broker_shard_leader(server->broker, BROKER_SHARD_GROUPS, group_id) : -1;
    return rpcg_error_of(server, error, text, (struct ot_str){ .null = true }, -1, leader, -1);
}

bool rpcg_group_topic_make(struct rpcg_call *call, struct broker_shard_topic *topic, void (*done)(struct broker_call *call))
{
    if (broker_shard_count(call->server->broker, BROKER_SHARD_GROUPS) > 0) return false;
    *topic = (struct broker_shard_topic){ .call = { .home = &call->server->exec, .done = done } };
    broker_shard_topic(call->server->broker, BROKER_SHARD_GROUPS, topic);
    return true;
}
