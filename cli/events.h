/* `ottla cluster events`: what happened in the cluster, over the REST API. */
#ifndef OT_CLI_EVENTS_H
#define OT_CLI_EVENTS_H

#include "cli/command.h"

extern const struct cli_flag cli_cluster_events_flags[];
int cli_cluster_events_run(const struct cli_args *args);
/* `topic isr --history`: changes of the ISR and of leaders of a topic's partitions, the newest thousand, the newest last. */
int cli_topic_history(const struct cli_args *args, const char *topic);

#endif
