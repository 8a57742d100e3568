/* `ottla consume`: records of topics to the terminal, to files and pipes. */
#ifndef OT_CLI_CONSUME_H
#define OT_CLI_CONSUME_H

#include "cli/command.h"

extern const struct cli_flag cli_consume_flags[];
int cli_consume_run(const struct cli_args *args);

#endif
