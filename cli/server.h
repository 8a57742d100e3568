/* `ottla server`: reads the configuration, makes the broker and its doors, waits for a signal, takes it all down again. */
#ifndef OT_CLI_SERVER_H
#define OT_CLI_SERVER_H

#include "cli/command.h"

extern const struct cli_flag cli_server_flags[];
int cli_server_run(const struct cli_args *args);

#endif
