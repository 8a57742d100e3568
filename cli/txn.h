/* `ottla cluster txn …`: transactional producers, what they have open, and the end of one that hangs, over the REST API. */
#ifndef OT_CLI_TXN_H
#define OT_CLI_TXN_H

#include "cli/command.h"

extern const struct cli_flag cli_txn_flags[];
int cli_txn_run(const struct cli_args *args);

#endif
