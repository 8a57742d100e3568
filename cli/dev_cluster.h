/* `ottla server --dev 3`: several brokers on this machine as one cluster, for trying. One process looks after them. */
#ifndef OT_CLI_DEV_CLUSTER_H
#define OT_CLI_DEV_CLUSTER_H

#include "broker/config.h"
#include "cli/command.h"

/* Until SIGINT or SIGTERM; gives back the exit code. Ports: those of `listeners` (the first one), and ten further for each broker; one, two and three above it peers, gRPC and REST. */
int cli_dev_cluster_run(const struct cli_args *args, const struct broker_config *config, const char *count_text);

#endif
