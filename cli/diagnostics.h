/* `ottla diagnostics …`: what is inside of a broker, for whoever looks for the reason, over the REST API. */
#ifndef OT_CLI_DIAGNOSTICS_H
#define OT_CLI_DIAGNOSTICS_H

#include "cli/command.h"

extern const struct cli_flag cli_diagnostics_bundle_flags[], cli_diagnostics_slow_flags[], cli_diagnostics_threads_flags[];
int cli_diagnostics_bundle_run(const struct cli_args *args);
int cli_diagnostics_slow_run(const struct cli_args *args);
int cli_diagnostics_memory_run(const struct cli_args *args);
int cli_diagnostics_threads_run(const struct cli_args *args);
int cli_diagnostics_loggers_run(const struct cli_args *args);

#endif
