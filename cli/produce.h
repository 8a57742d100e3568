/* `ottla produce`: records from files, pipes and the terminal into a topic. */
#ifndef OT_CLI_PRODUCE_H
#define OT_CLI_PRODUCE_H

#include "cli/command.h"

extern const struct cli_flag cli_produce_flags[];
int cli_produce_run(const struct cli_args *args);

#endif
