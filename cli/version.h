/* `ottla version`, and the facts behind it. */
#ifndef OT_CLI_VERSION_H
#define OT_CLI_VERSION_H

#include "cli/command.h"

#ifndef OTTLA_VERSION
#define OTTLA_VERSION "0.0.0"
#endif
#ifndef OTTLA_COMMIT
#define OTTLA_COMMIT "unknown"
#endif
extern const struct cli_flag cli_version_flags[];
int cli_version_run(const struct cli_args *args);

#endif
