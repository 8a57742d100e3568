/* `ottla config …`: what a topic or a broker runs with, and topic overrides, over the REST API. */
#ifndef OT_CLI_CONFIG_H
#define OT_CLI_CONFIG_H

#include "cli/command.h"

extern const struct cli_flag cli_config_get_flags[], cli_config_set_flags[];
int cli_config_get_run(const struct cli_args *args);
int cli_config_set_run(const struct cli_args *args);
int cli_config_unset_run(const struct cli_args *args);

#endif
