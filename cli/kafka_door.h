/* Private to cli/: the Kafka door of the server, from the configuration to bound sockets. */
#ifndef OT_CLI_KAFKA_DOOR_H
#define OT_CLI_KAFKA_DOOR_H

#include "broker/broker.h"
#include "cli/server_config.h"
#include "rpc/kafka/server.h"
#include <pthread.h>

struct cli_kafka_door {
    struct ot_net_address addresses[CLI_LISTENERS_MAX], advertised[CLI_LISTENERS_MAX];
    uint32_t advertised_count;
    struct broker_listener listeners[CLI_LISTENERS_MAX + 1];     /* Kafka's, with room for where gRPC calls are taken */
    uint32_t listener_count;
    struct rpc_kafka_listener doors[CLI_LISTENERS_MAX];
    struct rpc_kafka_server *server;
    struct cli_kafka_live {                /* what is listened on now, as listeners may change while the server runs */
        struct ot_net_address addresses[CLI_LISTENERS_MAX];
        int32_t ports[CLI_LISTENERS_MAX];  /* as bound */
        uint32_t count;
    } live;
    struct broker *broker;
    struct broker_config_store *config;
    struct ot_exec *exec;
    const struct broker_listener *more;    /* told to the cluster with them: where gRPC calls are taken; NULL */
    struct ot_task task;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    const char *listeners_text, *map_text; /* guarded: as the configuration said last */
    bool running, again, ended;            /* guarded */
    bool following;
};

/* listeners, with what advertised.listeners says of each by its name. A listener of controller.listener.names is left out: Kafka's controllers speak there, and
 * ours do on peer.listeners. -1: go on, else the exit code (words were printed). */
int cli_kafka_read(struct cli_kafka_door *door, const struct broker_config *config);
/* Before the broker: a taken port is said at once. Connections that come early wait in the backlog. -1, or the exit code. */
int cli_kafka_bind(struct cli_kafka_door *door, const struct broker_config *config);
/* From here on `listeners` and `listener.security.protocol.map` are followed, once the server is there: on exec, a pool, since names may have to be looked up. A listener that
 * stands no more is closed with its connections, a new one is opened; what cannot be opened is told in the log, and the others stay. */
void cli_kafka_follow(struct cli_kafka_door *door, struct broker *broker, struct broker_config_store *config, struct ot_exec *exec, const struct broker_listener *more);
void cli_kafka_unfollow(struct cli_kafka_door *door);      /* before server and broker stop; waits for a change under way. Fine without follow */

#endif
