/* `ottla log repair`: what a recovery would do, done by hand and told: indexes, time indexes and snapshots anew, a torn or bad end cut off and kept aside. */
#ifndef OT_CLI_LOG_REPAIR_H
#define OT_CLI_LOG_REPAIR_H

#include "cli/command.h"

extern const struct cli_flag cli_log_repair_flags[];
int cli_log_repair_run(const struct cli_args *args);

#endif
