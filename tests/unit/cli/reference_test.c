/* The table holds together, and docs/cli.md is the table in words. OTTLA_UPDATE_DOCS=1 in the environment writes it anew. */
#include "testing.h"

#include "cli/reference.h"

static void the_page_says_what_the_table_says(void **state)
{
    (void)state;
    static char found[1 << 18];
    const char *path = OT_SOURCE_DIR "/docs/cli.md";
    char *page = NULL;
    size_t page_bytes = 0;
    FILE *to = open_memstream(&page, &page_bytes);
    cli_reference_markdown(cli_commands, cli_common_flags, to);
    fclose(to);
    if (getenv("OTTLA_UPDATE_DOCS") != NULL) {
        FILE *out = fopen(path, "w");
        assert_non_null(out);
        assert_int_equal(fwrite(page, 1, page_bytes, out), page_bytes);
        assert_int_equal(fclose(out), 0);
    }
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    const size_t bytes = fread(found, 1, sizeof(found), in);
    (void)fclose(in);
    if (bytes != page_bytes || memcmp(found, page, bytes) != 0) fail_msg("docs/cli.md is stale: run this test with OTTLA_UPDATE_DOCS=1");
    free(page);
}

static uint32_t flags_of(const struct cli_command *command, const struct cli_flag **out)
{
    const struct cli_flag *lists[] = {command->flags, command->shared, cli_common_flags};
    uint32_t count = 0;
    for (size_t i = 0; i < 3; i++)
        for (const struct cli_flag *flag = lists[i]; flag != NULL && flag->name != NULL; flag++) {
            assert_true(count < 64); /* what the parser holds */
            out[count++] = flag;
        }
    return count;
}

static void no_command_has_two_flags_of_one_name_or_letter(void **state)
{
    (void)state;
    for (const struct cli_command *command = cli_commands; command->noun != NULL; command++) {
        const struct cli_flag *flags[64];
        const uint32_t count = flags_of(command, flags);
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t j = 0; j < i; j++) {
                if (strcmp(flags[i]->name, flags[j]->name) == 0) fail_msg("%s %s: --%s twice", command->noun, command->verb ? command->verb : "", flags[i]->name);
                if (flags[i]->letter != 0 && flags[i]->letter == flags[j]->letter) fail_msg("%s %s: -%c twice", command->noun, command->verb ? command->verb : "", flags[i]->letter);
            }
    }
}

/* Every `--flag` in an example is one of a command that the line names, and each command has an example of itself. */
static void examples_use_what_there_is(void **state)
{
    (void)state;
    for (const struct cli_command *command = cli_commands; command->noun != NULL; command++) {
        char begins[64];
        assert_non_null(command->examples);
        snprintf(begins, sizeof(begins), "ottla %s%s%s", command->noun, command->verb != NULL ? " " : "", command->verb != NULL ? command->verb : "");
        if (strstr(command->examples, begins) == NULL) fail_msg("no example of %s", begins);
        for (const char *at = strstr(command->examples, " --"); at != NULL; at = strstr(at + 1, " --")) {
            const size_t bytes = strspn(at + 3, "abcdefghijklmnopqrstuvwxyz-");
            bool known = false;
            for (const struct cli_command *any = cli_commands; any->noun != NULL && !known; any++) {
                const struct cli_flag *flags[64];
                const uint32_t count = flags_of(any, flags);
                if (strstr(command->examples, any->noun) == NULL) continue;
                for (uint32_t i = 0; i < count; i++) known = known || (strlen(flags[i]->name) == bytes && strncmp(flags[i]->name, at + 3, bytes) == 0);
            }
            if (!known) fail_msg("%s: there is no --%.*s", begins, (int)bytes, at + 3);
        }
    }
}

static void completion_knows_every_command_and_flag(void **state)
{
    (void)state;
    static const char *const shells[] = {"bash", "zsh", "fish"};
    for (size_t i = 0; i < 3; i++) {
        char *text = NULL;
        size_t bytes = 0;
        FILE *to = open_memstream(&text, &bytes);
        assert_true(cli_reference_completion(cli_commands, cli_common_flags, shells[i], to));
        fclose(to);
        for (const struct cli_command *command = cli_commands; command->noun != NULL; command++) {
            const struct cli_flag *flags[64];
            const uint32_t count = flags_of(command, flags);
            assert_non_null(strstr(text, command->noun));
            if (command->verb != NULL) assert_non_null(strstr(text, command->verb));
            for (uint32_t j = 0; j < count; j++) assert_non_null(strstr(text, flags[j]->name));
        }
        free(text);
    }
    assert_false(cli_reference_completion(cli_commands, cli_common_flags, "tcsh", stderr));
}

static void the_man_page_escapes_what_roff_would_eat(void **state)
{
    (void)state;
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    cli_reference_man(cli_commands, cli_common_flags, NULL, "1.2.3", to);
    fclose(to);
    assert_non_null(strstr(text, ".TH OTTLA 1"));
    assert_non_null(strstr(text, "%k\\et%v\\en")); /* '%k\t%v\n' of an example */
    for (const char *line = text; line != NULL && *line != 0; line = strchr(line, '\n') == NULL ? NULL : strchr(line, '\n') + 1)
        if (*line == '.' && strncmp(line, ".TH", 3) != 0 && strncmp(line, ".S", 2) != 0 && strncmp(line, ".B", 2) != 0 && strncmp(line, ".I", 2) != 0 && strncmp(line, ".TP", 3) != 0 &&
            strncmp(line, ".PP", 3) != 0 && strncmp(line, ".nf", 3) != 0 && strncmp(line, ".fi", 3) != 0)
            fail_msg("a line that roff takes for a request: %.40s", line);
    free(text);
}

TEST_MAIN(cmocka_unit_test(the_page_says_what_the_table_says), cmocka_unit_test(no_command_has_two_flags_of_one_name_or_letter), cmocka_unit_test(examples_use_what_there_is),
    cmocka_unit_test(completion_knows_every_command_and_flag), cmocka_unit_test(the_man_page_escapes_what_roff_would_eat))
