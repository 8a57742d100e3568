/* What is made of the command table besides the parser: docs/cli.md, shell completion, man pages. No state. */
#ifndef OT_CLI_REFERENCE_H
#define OT_CLI_REFERENCE_H

#include "cli/command.h"
#include <stdio.h>

/* All of docs/cli.md; a test holds the file against it. */
void cli_reference_markdown(const struct cli_command *table, const struct cli_flag *common, FILE *to);
/* shell: bash, zsh, fish. False: another. */
bool cli_reference_completion(const struct cli_command *table, const struct cli_flag *common, const char *shell, FILE *to);
/* roff of ottla(1) with every command. */
/* noun NULL: all of it */
void cli_reference_man(const struct cli_command *table, const struct cli_flag *common, const char *noun, const char *version, FILE *to);

extern const struct cli_flag cli_completion_flags[], cli_man_flags[];
int cli_completion_run(const struct cli_args *args);
int cli_man_run(const struct cli_args *args); /* to stdout, for the package */

#endif
