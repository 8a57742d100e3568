/* Private to cli/: the listener for other brokers, what it says about this one, and the secret. */
#ifndef OT_CLI_PEER_DOOR_H
#define OT_CLI_PEER_DOOR_H

#include "base/mem.h"
#include "base/net/address.h"
#include "broker/broker.h"
#include "cli/command.h"
#include "rpc/kafka/server.h"

struct cli_peer_door {
    bool wanted;                           /* the configuration speaks of other brokers */
    struct ot_net_address listener, advertised;
    struct rpc_kafka_listener door;
    struct broker_peer_setup setup;
    char secret[4096];
    struct rpc_kafka_server *server;
};

/* Each answers -1, or an exit code and has said why. */
int cli_peer_read(struct cli_peer_door *door, const struct broker_config *config);     /* opens nothing */
int cli_peer_bind(struct cli_peer_door *door, const struct broker_config *config);
/* Between broker_make and broker_begin. */
OT_MUST_CHECK enum ot_err cli_peer_start(struct cli_peer_door *door, struct broker *broker, struct ot_mem_budget *budget, struct ot_exec *io_exec, struct ot_metrics *metrics);
void cli_peer_stop(struct cli_peer_door *door);            /* after broker_leave */

#endif
