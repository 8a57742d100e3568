/* Parsing on top of the command table. Flags may follow names; `--` ends them; an unknown word names its nearest neighbour. */
#include "cli/command.h"
#include "base/util.h"
#include "cli/shared.h"
#include "cli/table.h"
#include "cli/wait.h"
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GIVEN_MAX 256
#define FLAGS_MAX 64
#define WATCH_SECONDS 2

struct cli_args {
    const struct cli_command *command;
    struct { const struct cli_flag *flag; const char *value; } given[GIVEN_MAX];
    uint32_t given_count, name_count;
    char **names;
};

int cli_fail(enum cli_exit code, const char *hint, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("error: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    if (hint != NULL) fprintf(stderr, "try: %s\n", hint);
    return (int)code;
}

const char *cli_flag_nth(const struct cli_args *args, const char *name, uint32_t n)
{
    for (uint32_t i = 0; i < args->given_count; i++)
        if (strcmp(args->given[i].flag->name, name) == 0 && n-- == 0) return args->given[i].value == NULL ? "" : args->given[i].value;
    return NULL;
}

const char *cli_flag_value(const struct cli_args *args, const char *name)
{
    const char *last = NULL;                   /* given twice: the last one counts */
    for (uint32_t n = 0;; n++) {
        const char *value = cli_flag_nth(args, name, n);
        if (value == NULL) return last;
        last = value;
    }
}

bool cli_flag_given(const struct cli_args *args, const char *name) { return cli_flag_nth(args, name, 0) != NULL; }
uint32_t cli_name_count(const struct cli_args *args) { return args->name_count; }
const char *cli_name(const struct cli_args *args, uint32_t n) { return n < args->name_count ? args->names[n] : NULL; }
const struct cli_command *cli_args_command(const struct cli_args *args) { return args->command; }

static void flag_lines(const struct cli_flag *flags)
{
    for (const struct cli_flag *flag = flags; flag != NULL && flag->name != NULL; flag++) {
        char left[64], letter[8] = "    ";
        if (flag->letter != 0) snprintf(letter, sizeof(letter), "-%c, ", flag->letter);
        snprintf(left, sizeof(left), "%s--%s%s%s", letter, flag->name, flag->value != NULL && flag->value[0] != '[' ? " " : "", flag->value != NULL ? flag->value : "");
        printf("  %-34s %s\n", left, flag->text);
    }
}

static int command_help(const struct cli_command *command)
{
    if (command->examples != NULL) printf("examples:\n%s\n", command->examples);
    printf("ottla %s%s%s%s%s [flags]\n  %s\n\nflags:\n", command->noun, command->verb != NULL ? " " : "", command->verb != NULL ? command->verb : "",
        command->names != NULL ? " " : "", command->names != NULL ? command->names : "", command->text);
    flag_lines(command->flags);
    flag_lines(command->shared);
    flag_lines(cli_common_flags);
    return CLI_DONE;
}

static void command_line(const struct cli_command *command)
{
    printf("  %-10s %-12s %-18s %s\n", command->noun, command->verb != NULL ? command->verb : "", command->names != NULL ? command->names : "", command->text);
}

static int general_help(void)
{
    puts("examples:\n  ottla server                                  start a broker on loopback, data in ./ottla-data\n"
         "  ottla topic create orders --partitions 3\n  echo hello | ottla produce orders\n  ottla consume orders --from earliest\n\ncommands:");
    for (const struct cli_command *command = cli_commands; command->noun != NULL; command++)
        command_line(command);
    puts("\n`ottla <command> --help` shows flags and examples.");
    return CLI_DONE;
}

/* `ottla help log`: the verbs. */
static int noun_help(const char *noun)
{
    puts("examples:");
    for (const struct cli_command *command = cli_commands; command->noun != NULL; command++)
        if (strcmp(command->noun, noun) == 0 && command->examples != NULL) puts(command->examples);
    puts("\ncommands:");
    for (const struct cli_command *command = cli_commands; command->noun != NULL; command++)
        if (strcmp(command->noun, noun) == 0) command_line(command);
    printf("\n`ottla %s <verb> --help` shows the flags.\n", noun);
    return CLI_DONE;
}

static const struct cli_command *find(const char *noun, const char *verb, bool *noun_known)
{
    *noun_known = false;
    for (const struct cli_command *command = cli_commands; command->noun != NULL; command++) {
        if (strcmp(command->noun, noun) != 0) continue;
        *noun_known = true;
        if (command->verb == NULL) return command;
        if (verb != NULL && strcmp(command->verb, verb) == 0) return command;
    }
    return NULL;
}

static int unknown(const char *noun, const char *verb, bool noun_known)
{
    const char *words[128];
    size_t count = 0;
    char hint[128];
    for (const struct cli_command *command = cli_commands; command->noun != NULL && count < OT_ARRAY_COUNT(words); command++)
        if (!noun_known || strcmp(command->noun, noun) == 0) words[count++] = noun_known ? command->verb : command->noun;
    const char *wrong = noun_known ? verb : noun;
    const char *near = wrong == NULL ? words[0] : ot_nearest(wrong, words, count);
    if (near == NULL) near = "--help";
    snprintf(hint, sizeof(hint), "ottla %s%s%s", noun_known ? noun : near, noun_known ? " " : "", noun_known ? near : "");
    if (wrong == NULL) return cli_fail(CLI_USAGE, hint, "%s needs a verb", noun);
    return cli_fail(CLI_USAGE, hint, "no command `%s%s%s`", noun, noun_known ? " " : "", noun_known ? verb : "");
}

static uint32_t gather(const struct cli_command *command, const struct cli_flag **flags)
{
    uint32_t count = 0;
    for (const struct cli_flag *flag = command->flags; flag != NULL && flag->name != NULL && count < FLAGS_MAX; flag++) flags[count++] = flag;
    for (const struct cli_flag *flag = command->shared; flag != NULL && flag->name != NULL && count < FLAGS_MAX; flag++) flags[count++] = flag;
    for (const struct cli_flag *flag = cli_common_flags; flag->name != NULL && count < FLAGS_MAX; flag++) flags[count++] = flag;
    return count;
}

static int wrong_flag(const char *word, const struct cli_flag *const *flags, uint32_t count)
{
    const char *names[FLAGS_MAX];
    char hint[96];
    if (strncmp(word, "--", 2) != 0) return cli_fail(CLI_USAGE, NULL, "unknown flag %s", word);
    for (uint32_t i = 0; i < count; i++) names[i] = flags[i]->name;
    const char *near = ot_nearest(word + 2, names, count);
    if (near == NULL) return cli_fail(CLI_USAGE, NULL, "unknown flag %s", word);
    snprintf(hint, sizeof(hint), "--%s", near);
    return cli_fail(CLI_USAGE, hint, "unknown flag %s", word);
}

/* -1: go on and run it. */
static int parse(struct cli_args *args, int argc, char **argv)
{
    const struct cli_flag *flags[FLAGS_MAX];
    struct option options[FLAGS_MAX + 2] = { 0 };
    char letters[FLAGS_MAX * 2 + 4] = ":h";
    uint32_t count = gather(args->command, flags);
    size_t at = 2;
    for (uint32_t i = 0; i < count; i++) {
        options[i] = (struct option){ flags[i]->name, flags[i]->value == NULL ? no_argument : flags[i]->value[0] == '[' ? optional_argument : required_argument, NULL, 1000 + (int)i };
        if (flags[i]->letter == 0) continue;
        letters[at++] = flags[i]->letter;
        if (flags[i]->value != NULL) letters[at++] = ':';
    }
    options[count] = (struct option){ "help", no_argument, NULL, 'h' };
    optind = 1;
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, letters, options, NULL)) != -1;) {
        uint32_t index = count;
        if (option == 'h') return command_help(args->command);
        if (option == '?') return wrong_flag(argv[optind - 1], flags, count);
        if (option == ':') return cli_fail(CLI_USAGE, NULL, "%s needs a value", argv[optind - 1]);
        if (option >= 1000) index = (uint32_t)option - 1000;
        if (index < count && strcmp(flags[index]->name, "help") == 0) return command_help(args->command);
        for (uint32_t i = 0; index == count && i < count; i++)
            if (flags[i]->letter == option) index = i;
        if (args->given_count == GIVEN_MAX) return cli_fail(CLI_USAGE, NULL, "too many flags");
        args->given[args->given_count].flag = flags[index];
        args->given[args->given_count++].value = flags[index]->value != NULL ? optarg : NULL;
    }
    args->names = argv + optind;
    args->name_count = (uint32_t)(argc - optind);
    return -1;
}

/* How many names the command's pattern wants: "<topic>" one, "[topic]" none or one, "<file>..." one or more. */
static int check_names(const struct cli_args *args)
{
    uint32_t least = 0, most = 0;
    for (const char *at = args->command->names; at != NULL && *at != 0; at++) {
        if (*at == '<') least++, most++;
        if (*at == '[') most++;
        if (*at == '.') most = UINT32_MAX;
    }
    if (args->name_count < least) return cli_fail(CLI_USAGE, NULL, "%s is missing", args->command->names);
    if (args->name_count > most) return cli_fail(CLI_USAGE, NULL, "what is `%s`?", args->names[most]);
    return -1;
}

/* The command again and again: a fresh screen on a terminal, else an empty line between. What fails is told and tried again. */
static int watch(const struct cli_args *args)
{
    const char *text = cli_flag_value(args, "watch");
    char *end = NULL;
    const double seconds = text[0] == 0 ? WATCH_SECONDS : strtod(text, &end);
    if (text[0] != 0 && (*end != 0 || !(seconds >= 0.1) || seconds > 86400)) return cli_fail(CLI_USAGE, "--watch=5", "--watch: `%s` is not a number of seconds from 0.1", text);
    if (cli_interrupt_install() != OT_OK) return cli_fail(CLI_FAILED, NULL, "no pipe");
    for (bool first = true;; first = false) {
        if (isatty(1)) fputs("\033[H\033[2J", stdout);
        else if (!first) fputc('\n', stdout);
        const int code = args->command->run(args);
        if (fflush(stdout) != 0) return CLI_FAILED;
        if (code == CLI_USAGE || code == CLI_INTERRUPTED) return code;
        if (cli_wait(NULL, 0, cli_deadline_us((int64_t)(seconds * 1000))) == OT_ERR_CANCELLED) return CLI_INTERRUPTED;
    }
}

static int run(const struct cli_args *args)
{
    static const char *const whens[] = {"auto", "always", "never"};
    uint32_t when;
    const int code = cli_flag_choice(args, "color", whens, OT_ARRAY_COUNT(whens), 0, &when);
    if (code >= 0) return code;
    cli_colour_when((enum cli_colour)when);
    return cli_flag_given(args, "watch") && !cli_flag_given(args, "curl") ? watch(args) : args->command->run(args);
}

int cli_main(int argc, char **argv)
{
    static struct cli_args args;
    static char version[] = "version";
    bool noun_known = false;
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || (strcmp(argv[1], "help") == 0 && argc == 2)) return general_help();
    if (strcmp(argv[1], "--version") == 0) argv[1] = version;
    if (strcmp(argv[1], "help") == 0) {
        args.command = find(argv[2], argc > 3 ? argv[3] : NULL, &noun_known);
        if (args.command == NULL && noun_known && argc == 3) return noun_help(argv[2]);
        return args.command == NULL ? unknown(argv[2], argc > 3 ? argv[3] : NULL, noun_known) : command_help(args.command);
    }
    const char *verb = argc > 2 && argv[2][0] != '-' ? argv[2] : NULL;
    args.command = find(argv[1], verb, &noun_known);
    if (args.command == NULL && noun_known && argc == 3 && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0)) return noun_help(argv[1]);
    if (args.command == NULL) return unknown(argv[1], verb, noun_known);
    int skip = args.command->verb == NULL ? 1 : 2;
    argv[skip] = argv[0];
    int code = parse(&args, argc - skip, argv + skip);
    if (code < 0) code = check_names(&args);
    return code >= 0 ? code : run(&args);
}
