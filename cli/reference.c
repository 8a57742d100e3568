#include "cli/reference.h"
#include "cli/version.h"
#include <string.h>

const struct cli_flag cli_completion_flags[] = {{0}};
const struct cli_flag cli_man_flags[] = {{0}};

/* Calls each for the flags of a command: its own, those of its family, the common ones. */
struct flag_lists {
    const struct cli_flag *lists[3];
};

static struct flag_lists flags_of(const struct cli_command *command, const struct cli_flag *common)
{
    return (struct flag_lists){{command->flags, command->shared, common}};
}

#define FOR_FLAGS(flag, all)                                                                                                       \
    for (size_t list_ = 0; list_ < 3; list_++)                                                                                     \
        for (const struct cli_flag *flag = (all).lists[list_]; flag != NULL && flag->name != NULL; flag++)

static void put_name(const struct cli_command *command, FILE *to)
{
    fprintf(to, "%s%s%s", command->noun, command->verb != NULL ? " " : "", command->verb != NULL ? command->verb : "");
}

/* ---- markdown */

static void put_cell(const char *text, FILE *to)
{
    for (; *text != 0; text++) {
        if (*text == '|') fputc('\\', to);
        fputc(*text, to);
    }
}

static void markdown_command(const struct cli_command *command, const struct cli_flag *common, FILE *to)
{
    const struct flag_lists all = flags_of(command, common);
    fputs("\n## ottla ", to);
    put_name(command, to);
    fprintf(to, "\n`ottla ");
    put_name(command, to);
    fprintf(to, "%s%s [flags]`: %s\n", command->names != NULL ? " " : "", command->names != NULL ? command->names : "", command->text);
    if (command->examples != NULL) fprintf(to, "```\n%s\n```\n", command->examples);
    fputs("| Flag | Meaning |\n|---|---|\n", to);
    FOR_FLAGS(flag, all)
    {
        fputs("| `", to);
        if (flag->letter != 0) fprintf(to, "-%c, ", flag->letter);
        fprintf(to, "--%s", flag->name);
        if (flag->value != NULL && flag->value[0] != '[') fputc(' ', to);
        if (flag->value != NULL) put_cell(flag->value, to);
        fputs("` | ", to);
        put_cell(flag->text, to);
        fputs(flag->repeat ? "; may be repeated |\n" : " |\n", to);
    }
}

void cli_reference_markdown(const struct cli_command *table, const struct cli_flag *common, FILE *to)
{
    static const char *const exits[][2] = {{"0", "done"}, {"1", "the server refused or failed"}, {"2", "wrong usage, or not confirmed"}, {"3", "not found"},
        {"4", "conflict, or a precondition failed"}, {"5", "not authenticated or not allowed"}, {"6", "unreachable or timed out; when the outcome is unknown that is said"},
        {"7", "partly done"}, {"8", "a check found problems"}, {"130", "interrupted"}};
    fputs("# Command line\n\nWritten from the command table (`cli/commands.c`) by its test (`OTTLA_UPDATE_DOCS=1`); do not edit by hand.\n\n"
          "`ottla <noun> <verb> [names] [flags]`. Flags may come after names, `--` ends them. Data goes to stdout, everything else to stderr. `cluster`, `topic`,\n"
          "`group`, `config`, `diagnostics` and `doctor` speak the REST API (`--api`, `OTTLA_API`), `produce`, `consume` and `bench` Kafka's protocol (`--bootstrap-server`, `OTTLA_BOOTSTRAP_SERVER`) with any Kafka-compatible cluster, `log` reads files\n"
          "without a server. The first Ctrl-C ends cleanly, the second at once. No colours with `NO_COLOR` or `TERM=dumb`.\n\n"
          "`--profile NAME` takes both addresses from `~/.config/ottla/profiles.ini`: a section `[NAME]` with `api = …` and `bootstrap_server = …`. A flag is stronger, the environment weaker. Without\n"
          "`bootstrap_server`, `-b` and `OTTLA_BOOTSTRAP_SERVER` these commands ask the API for the brokers: that of the profile, of `OTTLA_API`, or at its usual place. One that was named has to answer. `--watch[=SECONDS]` shows a list again and again.\n\n| Exit | Meaning |\n|---|---|\n",
        to);
    for (size_t i = 0; i < OT_ARRAY_COUNT(exits); i++) fprintf(to, "| %s | %s |\n", exits[i][0], exits[i][1]);
    fputs("\n## Records on the terminal\n"
          "| Format | `consume` writes, `produce` reads |\n|---|---|\n"
          "| `lines` | the value and a line break. The break is not part of it; every other byte is |\n"
          "| `raw` | the value and nothing else; for `produce` each file is one record |\n"
          "| `ndjson` | an object a line, in the shape of the REST API: `{\"json\":…}` when the value is JSON in one line (kept to the byte), else `{\"string\":…}`, else `{\"base64\":…}` |\n"
          "| `json`, `csv` | only `consume`: one array; RFC 4180 |\n"
          "| a pattern | `%t` topic, `%p` partition, `%o` offset, `%T` time in epoch ms, `%k` key, `%v` value, `%h` headers `a=b,c=d`, `%K` `%V` bytes of key and value (-1: null), `%H` how many headers, `%%`; `\\n \\t \\r \\0 \\e \\\\ \\xNN` |\n\n"
          "Read back, a field of a pattern ends at the literal behind it, or is as long as `%K` or `%V` said, which makes `'%K %V %k %v\\n'` safe for any bytes. Without a literal at the end a\n"
          "line break is assumed. `--null TEXT` is what null looks like.\n\n"
          "`--from` and `--until` take `earliest`, `latest`, an offset, `-N` (the last N of each partition), a time (`2026-05-01T00:00:00Z`) or an age (`30s`, `15m`, `2h`, `7d`); what is read is\n"
          "[from, until). `produce` waits for all in-sync replicas, sends with producer ids where the cluster has them, so that a batch that had to be sent again is stored once, and\n"
          "stops at the first one that is finally refused (exit 7 when others were stored).\n",
        to);
    for (const struct cli_command *command = table; command->noun != NULL; command++) markdown_command(command, common, to);
}

/* ---- completion */

static bool first_of_noun(const struct cli_command *table, const struct cli_command *command)
{
    for (const struct cli_command *before = table; before != command; before++)
        if (strcmp(before->noun, command->noun) == 0) return false;
    return true;
}

static void put_words(const struct cli_command *command, const struct cli_flag *common, FILE *to)
{
    const struct flag_lists all = flags_of(command, common);
    const char *space = "";
    FOR_FLAGS(flag, all)
    {
        fprintf(to, "%s--%s", space, flag->name);
        space = " ";
    }
}

static void put_nouns(const struct cli_command *table, FILE *to)
{
    const char *space = "";
    for (const struct cli_command *command = table; command->noun != NULL; command++) {
        if (!first_of_noun(table, command)) continue;
        fprintf(to, "%s%s", space, command->noun);
        space = " ";
    }
    fputs(" help", to);
}

static void put_verbs(const struct cli_command *table, const char *noun, FILE *to)
{
    const char *space = "";
    for (const struct cli_command *command = table; command->noun != NULL; command++) {
        if (strcmp(command->noun, noun) != 0 || command->verb == NULL) continue;
        fprintf(to, "%s%s", space, command->verb);
        space = " ";
    }
}

static bool takes_topics(const struct cli_command *command)
{
    return command->names != NULL && strncmp(command->names, "<topic>", 7) == 0 && (command->verb == NULL || strcmp(command->verb, "create") != 0);
}

static void bash(const struct cli_command *table, const struct cli_flag *common, FILE *to)
{
    fputs("_ottla()\n{\n    local cur=${COMP_WORDS[COMP_CWORD]} flags='' topics=''\n    COMPREPLY=()\n    if [ \"$COMP_CWORD\" = 1 ]; then\n        COMPREPLY=($(compgen -W '", to);
    put_nouns(table, to);
    fputs("' -- \"$cur\"))\n        return\n    fi\n    if [ \"$COMP_CWORD\" = 2 ]; then\n        case ${COMP_WORDS[1]} in\n", to);
    for (const struct cli_command *command = table; command->noun != NULL; command++) {
        if (command->verb == NULL || !first_of_noun(table, command)) continue;
        fprintf(to, "        %s) COMPREPLY=($(compgen -W '", command->noun);
        put_verbs(table, command->noun, to);
        fputs("' -- \"$cur\")); return ;;\n", to);
    }
    fputs("        esac\n    fi\n    case \"${COMP_WORDS[1]} ${COMP_WORDS[2]}\" in\n", to);
    for (const struct cli_command *command = table; command->noun != NULL; command++) {
        fprintf(to, "    '%s %s'", command->noun, command->verb != NULL ? command->verb : "");
        fputs(command->verb == NULL ? "*) flags='" : ") flags='", to);
        put_words(command, common, to);
        fprintf(to, "'%s ;;\n", takes_topics(command) ? " topics=1" : "");
    }
    fputs("    esac\n    case $cur in\n    -*) COMPREPLY=($(compgen -W \"$flags\" -- \"$cur\")) ;;\n"
          "    *) [ -z \"$topics\" ] || COMPREPLY=($(compgen -W \"$(ottla topic list -o name --timeout-ms 500 2>/dev/null)\" -- \"$cur\"))\n"
          "       [ ${#COMPREPLY[@]} != 0 ] || COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n    esac\n}\ncomplete -o filenames -F _ottla ottla\n",
        to);
}

static void put_fish_text(const char *text, FILE *to)
{
    fputc('\'', to);
    for (; *text != 0; text++) {
        if (*text == '\'' || *text == '\\') fputc('\\', to);
        fputc(*text, to);
    }
    fputc('\'', to);
}

static void fish(const struct cli_command *table, const struct cli_flag *common, FILE *to)
{
    for (const struct cli_command *command = table; command->noun != NULL; command++) {
        const struct flag_lists all = flags_of(command, common);
        char condition[160];
        if (command->verb == NULL) {
            fprintf(to, "complete -c ottla -n __fish_use_subcommand -f -a %s -d ", command->noun);
            snprintf(condition, sizeof(condition), "__fish_seen_subcommand_from %s", command->noun);
        } else {
            if (first_of_noun(table, command)) fprintf(to, "complete -c ottla -n __fish_use_subcommand -f -a %s\n", command->noun);
            fprintf(to, "complete -c ottla -n '__fish_seen_subcommand_from %s; and test (count (commandline -opc)) -eq 2' -f -a %s -d ", command->noun, command->verb);
            snprintf(condition, sizeof(condition), "__fish_seen_subcommand_from %s; and __fish_seen_subcommand_from %s", command->noun, command->verb);
        }
        put_fish_text(command->text, to);
        fputc('\n', to);
        if (takes_topics(command)) fprintf(to, "complete -c ottla -n '%s' -a '(ottla topic list -o name --timeout-ms 500 2>/dev/null)'\n", condition);
        FOR_FLAGS(flag, all)
        {
            fprintf(to, "complete -c ottla -n '%s' -l %s", condition, flag->name);
            if (flag->letter != 0) fprintf(to, " -s %c", flag->letter);
            fputs(flag->value != NULL && flag->value[0] != '[' ? " -r -d " : " -d ", to);
            put_fish_text(flag->text, to);
            fputc('\n', to);
        }
    }
}

bool cli_reference_completion(const struct cli_command *table, const struct cli_flag *common, const char *shell, FILE *to)
{
    if (strcmp(shell, "bash") == 0) {
        bash(table, common, to);
    } else if (strcmp(shell, "zsh") == 0) { /* zsh runs bash's functions */
        fputs("#compdef ottla\nautoload -U +X bashcompinit && bashcompinit\n", to);
        bash(table, common, to);
    } else if (strcmp(shell, "fish") == 0) {
        fish(table, common, to);
    } else {
        return false;
    }
    return true;
}

int cli_completion_run(const struct cli_args *args)
{
    const char *shell = cli_name(args, 0);
    if (cli_reference_completion(cli_commands, cli_common_flags, shell, stdout)) return fflush(stdout) == 0 ? CLI_DONE : CLI_FAILED;
    return cli_fail(CLI_USAGE, "ottla completion bash", "`%s` is none of bash, zsh, fish", shell);
}

/* ---- man */

static void put_roff(const char *text, FILE *to)
{
    bool start = true;
    for (; *text != 0; text++) {
        if (start && (*text == '.' || *text == '\'')) fputs("\\&", to);
        start = *text == '\n';
        if (*text == '\\') fputs("\\e", to);
        else if (*text == '-') fputs("\\-", to);
        else fputc(*text, to);
    }
}

void cli_reference_man(const struct cli_command *table, const struct cli_flag *common, const char *noun, const char *version, FILE *to)
{
    char title[64] = "OTTLA";
    const char *section = noun != NULL && strcmp(noun, "server") == 0 ? "8" : "1";
    if (noun != NULL) snprintf(title, sizeof(title), "OTTLA-%s", noun);
    for (char *at = title; *at != 0; at++)
        if (*at >= 'a' && *at <= 'z') *at = (char)(*at - 32);
    fprintf(to, ".TH %s %s \"\" \"ottla %s\"\n.SH NAME\n%s%s \\- partitioned, replicated event log: broker and tools\n.SH SYNOPSIS\n.B ottla\n.I noun\n[\\fIverb\\fR] [\\fInames\\fR] [\\fIflags\\fR]\n.SH COMMANDS\n",
        title, section, version, noun == NULL ? "ottla" : "ottla-", noun == NULL ? "" : noun);
    for (const struct cli_command *command = table; command->noun != NULL; command++) {
        if (noun != NULL && strcmp(command->noun, noun) != 0) continue;
        const struct flag_lists all = flags_of(command, common);
        fputs(".SS ottla ", to);
        put_name(command, to);
        if (command->names != NULL) fputc(' ', to), put_roff(command->names, to);
        fputc('\n', to);
        put_roff(command->text, to);
        fputs(".\n", to);
        if (command->examples != NULL) {
            fputs(".PP\n.nf\n", to);
            put_roff(command->examples, to);
            fputs("\n.fi\n", to);
        }
        FOR_FLAGS(flag, all)
        {
            fputs(".TP\n.B ", to);
            if (flag->letter != 0) fprintf(to, "\\-%c, ", flag->letter);
            fputs("\\-\\-", to);
            put_roff(flag->name, to);
            if (flag->value != NULL && flag->value[0] != '[') fputc(' ', to);
            if (flag->value != NULL) put_roff(flag->value, to);
            fputc('\n', to);
            put_roff(flag->text, to);
            fputc('\n', to);
        }
    }
    fputs(".SH EXIT STATUS\n0 done; 1 refused or failed; 2 wrong usage or unconfirmed; 3 not found; 4 conflict; 5 not allowed; 6 unreachable or timed out; 7 partly done; 8 a check found problems; 130 interrupted.\n"
          ".SH ENVIRONMENT\n.TP\n.B OTTLA_API\nURL of the REST API.\n.TP\n.B OTTLA_BOOTSTRAP_SERVER\nBrokers that produce and consume begin with.\n.TP\n.B NO_COLOR\nNo colours.\n",
        to);
}

int cli_man_run(const struct cli_args *args)
{
    const char *noun = cli_name(args, 0);
    bool known = noun == NULL;
    for (const struct cli_command *command = cli_commands; command->noun != NULL && !known; command++) known = strcmp(command->noun, noun) == 0;
    if (!known) return cli_fail(CLI_NOT_FOUND, "ottla help", "there is no `%s`", noun);
    cli_reference_man(cli_commands, cli_common_flags, noun, OTTLA_VERSION, stdout);
    return fflush(stdout) == 0 ? CLI_DONE : CLI_FAILED;
}
