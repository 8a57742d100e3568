/* Private to cli/: the Kafka door of the server, from the configuration to bound sockets. */
#ifndef OT_CLI_KAFKA_DOOR_H
#define OT_CLI_KAFKA_DOOR_H

#include "broker/broker.h"
#include "cli/server_config.h"
#include "rpc/kafka/server.h"

struct cli_kafka_door {
    struct ot_net_address addresses[CLI_LISTENERS_MAX], advertised[CLI_LISTENERS_MAX];
    struct broker_listener listeners[CLI_LISTENERS_MAX + 1];     /* Kafka's, with room for where gRPC calls are taken */
    uint32_t listener_count;
    struct rpc_kafka_listener doors[CLI_LISTENERS_MAX];
    struct rpc_kafka_server *server;
};

/* listeners, with what advertised.listeners says of each by its name. A listener of controller.listener.names is left out: Kafka's controllers speak there, and
 * ours do on peer.listeners. -1: go on, else the exit code (words were printed). */
int cli_kafka_read(struct cli_kafka_door *door, const struct broker_config *config);
/* Before the broker: a taken port is said at once. Connections that come early wait in the backlog. -1, or the exit code. */
int cli_kafka_bind(struct cli_kafka_door *door, const struct broker_config *config);

#endif
