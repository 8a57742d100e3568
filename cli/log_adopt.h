/* `ottla log adopt`: a partition directory of Kafka becomes a partition here.
 *
 * The server is down (its lock is taken): the broker is opened without doors, the topic made or grown so that the cluster state knows it, the broker closed, and
 * the verified copy put in the place of the empty folder. Leader epochs begin anew: those of another cluster mean nothing here. */
#ifndef OT_CLI_LOG_ADOPT_H
#define OT_CLI_LOG_ADOPT_H

#include "cli/command.h"

extern const struct cli_flag cli_log_adopt_flags[];
int cli_log_adopt_run(const struct cli_args *args);

#endif
