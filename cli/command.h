/* The command table: parser, --help, completion and the command reference come from it.
 *
 * `ottla <noun> [<verb>] [names] [flags]`. Exit codes as in docs/cli.md: 0 done, 1 refused or failed, 2 wrong usage or unconfirmed, 3 not found, 4 conflict,
 * 5 not allowed, 6 unreachable or timed out, 7 partly done, 8 a check found problems, 130 interrupted. */
#ifndef OT_CLI_COMMAND_H
#define OT_CLI_COMMAND_H

#include "base/err.h"

enum cli_exit { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_NOT_FOUND = 3, CLI_CONFLICT = 4, CLI_FORBIDDEN = 5, CLI_UNREACHABLE = 6, CLI_PARTLY = 7,
    CLI_PROBLEMS = 8, CLI_INTERRUPTED = 130 };

struct cli_flag { const char *name; char letter; const char *value /* NULL: a switch; "[=X]": with a value or without */; bool repeat; const char *text; };
struct cli_args;
struct cli_command {
    const char *noun, *verb;               /* verb NULL: the noun alone */
    const char *names;                     /* "<topic>", "<file>...", "[topic]" or NULL */
    const char *text;                      /* one line */
    const char *examples;                  /* lines */
    const struct cli_flag *flags;          /* ends with name NULL */
    int (*run)(const struct cli_args *args);
    const struct cli_flag *shared;         /* flags of a family of commands, beside its own; may be NULL */
};
extern const struct cli_command cli_commands[];        /* ends with noun NULL; cli/commands.c */
extern const struct cli_flag cli_common_flags[];       /* taken by every command */
/* A command that has this flag is run again and again while it is given. */
#define CLI_WATCH_FLAG { "watch", 0, "[=SECONDS]", false, "again every so many seconds (2), until Ctrl-C" }

int cli_main(int argc, char **argv);

/* What was given. Flags by long name; NULL when absent; "" for a switch. */
const char *cli_flag_value(const struct cli_args *args, const char *name);
const char *cli_flag_nth(const struct cli_args *args, const char *name, uint32_t n);      /* of a repeated one */
bool cli_flag_given(const struct cli_args *args, const char *name);
uint32_t cli_name_count(const struct cli_args *args);
const char *cli_name(const struct cli_args *args, uint32_t n);
const struct cli_command *cli_args_command(const struct cli_args *args);

/* `error: …` and, when hint is not NULL, `try: …` on stderr; gives back code, so that it can be returned. */
int cli_fail(enum cli_exit code, const char *hint, const char *format, ...) OT_PRINTF(3, 4);

#endif
