/* What calls about consumer groups and transactions share. */
#ifndef OT_RPC_GRPC_GROUP_H
#define OT_RPC_GRPC_GROUP_H

#include "broker/groups.h"
#include "broker/transactions.h"
#include "rpc/grpc/door.h"

/* "/127.0.0.1", as Kafka's tools show a member's host; cut to what fits. */
void rpcg_peer_host(const struct rpcg_call *call, char *out, size_t out_bytes);

/* An ask as it begins, with everything that is not said; host lives as long as the ask, the arena is for what the answer holds. done is to be set. */
void rpcg_group_init(const struct rpcg_call *call, struct broker_group_call *group, enum group_ask_kind kind, struct ot_str group_id, struct ot_str host, struct ot_arena *arena);

/* An error about a group; for one that is coordinated elsewhere with the coordinator's address. */
struct rpcg_error rpcg_group_error(struct rpc_grpc_server *server, enum ot_err error, const char *text, struct ot_str group_id);

/* The topic of the groups, made if it is not there: done runs later, or false: it is there. topic->error counts then. */
bool rpcg_group_topic_make(struct rpcg_call *call, struct broker_shard_topic *topic, void (*done)(struct broker_call *call));

#endif
