/* `ottla cluster status|drain|undrain|decommission|restart-check|forget|resign|elect|reassign`: what operators do to brokers and partitions, over the REST API. */
#ifndef OT_CLI_OPERATE_H
#define OT_CLI_OPERATE_H

#include "cli/command.h"

extern const struct cli_flag cli_cluster_drain_flags[], cli_cluster_decommission_flags[], cli_cluster_dry_flags[], cli_cluster_elect_flags[], cli_cluster_reassign_flags[], cli_cluster_rebalance_flags[], cli_topic_move_flags[];
int cli_cluster_status_run(const struct cli_args *args);
int cli_cluster_drain_run(const struct cli_args *args);
int cli_cluster_undrain_run(const struct cli_args *args);
int cli_cluster_decommission_run(const struct cli_args *args);
int cli_cluster_restart_check_run(const struct cli_args *args);
int cli_cluster_forget_run(const struct cli_args *args);
int cli_cluster_resign_run(const struct cli_args *args);
int cli_cluster_elect_run(const struct cli_args *args);            /* move.c */
int cli_cluster_reassign_run(const struct cli_args *args);         /* move.c */
int cli_cluster_rebalance_run(const struct cli_args *args);        /* move.c */
int cli_topic_move_run(const struct cli_args *args);               /* move.c */

/* "orders" or "orders:3": partition -1 when none is said. False: neither. topic_out has 250 bytes. */
bool cli_place_of(const char *text, char topic_out[static 250], int64_t *partition_out);

#endif
