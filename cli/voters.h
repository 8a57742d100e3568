/* `ottla cluster voters`: who votes for the coordinator. Speaks the Kafka protocol (DescribeQuorum, AddRaftVoter, RemoveRaftVoter). */
#ifndef OT_CLI_VOTERS_H
#define OT_CLI_VOTERS_H

#include "cli/command.h"

extern const struct cli_flag cli_voters_flags[];
int cli_voters_run(const struct cli_args *args);

#endif
