/* `ottla cluster …`: the cluster, its health, brokers, jobs and feature levels, over the REST API. */
#ifndef OT_CLI_CLUSTER_H
#define OT_CLI_CLUSTER_H

#include "cli/command.h"
#include <jansson.h>

extern const struct cli_flag cli_cluster_health_flags[], cli_cluster_jobs_flags[], cli_cluster_feature_flags[];
int cli_cluster_info_run(const struct cli_args *args);
int cli_cluster_health_run(const struct cli_args *args);
int cli_cluster_brokers_run(const struct cli_args *args);
int cli_cluster_jobs_run(const struct cli_args *args);
int cli_cluster_losses_run(const struct cli_args *args);
int cli_cluster_feature_run(const struct cli_args *args);
/* "orders-0, orders-2, broker 3 and 4 more": the first of those for whom a health check is not well; "" when it names none. */
void cli_offenders(const json_t *check, char *out, size_t out_bytes);
void cli_hints_print(const json_t *body);       /* on stderr: what an answer says could be better */

#endif
