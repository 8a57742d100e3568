/* `ottla cluster force-voters`: most voters are lost for good, and one of those that are left goes on with what it knows. On the files of a server that does not run. */
#ifndef OT_CLI_FORCE_VOTERS_H
#define OT_CLI_FORCE_VOTERS_H

#include "cli/command.h"

extern const struct cli_flag cli_force_voters_flags[];
int cli_force_voters_run(const struct cli_args *args);

#endif
