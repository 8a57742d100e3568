/* The gRPC door as `ottla server` opens it: its addresses from grpc.listeners, its memory from the budget. */
#ifndef OT_CLI_GRPC_DOOR_H
#define OT_CLI_GRPC_DOOR_H

#include "base/mem.h"
#include "cli/server_config.h"
#include "rpc/grpc/server.h"

struct cli_grpc_door {
    struct ot_net_address addresses[CLI_LISTENERS_MAX], advertised;
    bool is_advertised;
    struct rpc_grpc_listener listeners[CLI_LISTENERS_MAX];
    uint32_t listener_count;
    struct rpc_grpc_server *server;
};
/* What grpc.listeners and grpc.advertised.listeners say; -1: go on, else the exit code (words were printed). */
int cli_grpc_read(struct cli_grpc_door *door, const struct broker_config *config);
/* Binds the addresses, before the broker opens; -1: go on, else the exit code. Nothing is served yet. */
int cli_grpc_bind(struct cli_grpc_door *door, const struct broker_config *config, struct ot_mem_budget *budget, struct ot_exec *io_exec, uint32_t io_threads,
    struct ot_metrics *metrics);
/* How the cluster is told where this broker takes gRPC calls; false: nowhere. Borrowed from the door. */
bool cli_grpc_endpoint(const struct cli_grpc_door *door, struct broker_listener *out);
OT_MUST_CHECK enum ot_err cli_grpc_start(struct cli_grpc_door *door, struct broker *broker);
void cli_grpc_drain(struct cli_grpc_door *door);
void cli_grpc_stop(struct cli_grpc_door *door, int64_t timeout_ms);

#endif
