/* `ottla cluster events`: what happened in the cluster, over the REST API. */
#ifndef OT_CLI_EVENTS_H
#define OT_CLI_EVENTS_H

#include "cli/command.h"

extern const struct cli_flag cli_cluster_events_flags[];
int cli_cluster_events_run(const struct cli_args *args);

#endif
