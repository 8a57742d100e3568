/* The REST door as `ottla server` opens it: its sockets from rest.listeners, its memory from the budget. */
#ifndef OT_CLI_REST_DOOR_H
#define OT_CLI_REST_DOOR_H

#include "base/mem.h"
#include "cli/rest_waiting.h"
#include "cli/server_config.h"
#include "rest/server.h"
#include "rpc/kafka/request.h"

struct cli_rest_door {
    struct ot_net_address addresses[CLI_LISTENERS_MAX];
    struct rest_listener listeners[CLI_LISTENERS_MAX];
    uint32_t listener_count;
    const char *paths[CLI_LISTENERS_MAX]; uint32_t path_count;         /* of our sockets, to be removed at the end */
    struct rest_api_row apis[RPC_APIS_MAX];
    struct rest_server *server;
    struct cli_rest_waiting waiting;
};
/* rest.listeners: http://host:port, unix:/path (scheme "unix", the path as host); count, or -1 with words in why. */
int cli_rest_addresses(const char *list, struct ot_net_address *out, uint32_t max, char *why, size_t why_bytes);
/* Sockets bound before anything else starts; -1: go on, else the exit code (words were printed). */
int cli_rest_bind(struct cli_rest_door *door, const struct broker_config *config);
/* From here until cli_rest_start or cli_rest_stop somebody says that the broker is starting. */
void cli_rest_wait(struct cli_rest_door *door);
OT_MUST_CHECK enum ot_err cli_rest_start(struct cli_rest_door *door, struct broker *broker, struct rpc_kafka_server *kafka, struct ot_mem_budget *budget,
    struct ot_metrics *metrics, struct broker_slow *slow, bool peers, char *text_out, size_t text_bytes);
void cli_rest_stop(struct cli_rest_door *door);
/* Where it listens, comma separated, as rest.listeners is written: what was left out or got a port of its own shows. Before cli_rest_stop. */
void cli_rest_told(const struct cli_rest_door *door, char *out, size_t out_bytes);

#endif
