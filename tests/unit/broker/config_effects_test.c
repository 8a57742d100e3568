/* tests/config_effects.txt names for each honoured key the tests that show what it changes; those tests are there. */
#include "testing.h"

#include "broker/config.h"

#include <stdio.h>

enum { KEYS_MAX = 400 };
static char *keys[KEYS_MAX];
static uint32_t key_count;

static bool is_honoured(const char *key)
{
    uint32_t count = 0;
    const struct broker_config_row *rows = broker_config_rows(&count);
    for (uint32_t i = 0; i < count; i++)
        if (rows[i].honoured && strcmp(rows[i].key, key) == 0) return true;
    rows = broker_topic_config_rows(&count);
    for (uint32_t i = 0; i < count; i++)
        if (rows[i].honoured && strcmp(rows[i].key, key) == 0) return true;
    return false;
}

/* FILE::TEST: does that file define that function? */
static bool exists(const char *name)
{
    char path[512], needle[300];
    const char *colons = strstr(name, "::");
    if (colons == NULL) return false;
    snprintf(path, sizeof(path), "%s/tests/%.*s", OT_SOURCE_DIR, (int)(colons - name), name);
    const bool python = strstr(path, ".py") != NULL;
    snprintf(needle, sizeof(needle), python ? "def %s(" : "static void %s(", colons + 2);
    FILE *in = fopen(path, "r");
    if (in == NULL) return false;
    char line[8192];
    bool found = false;
    while (!found && fgets(line, sizeof(line), in) != NULL) found = strstr(line, needle) != NULL;
    (void)fclose(in);
    return found;
}

static void take(char *line, int number)
{
    char *rest = line, *key = strsep(&rest, " "), *word;
    uint32_t tests = 0;
    assert_true(key_count < KEYS_MAX);
    for (uint32_t i = 0; i < key_count; i++)
        if (strcmp(keys[i], key) == 0) fail_msg("config_effects.txt:%d: %s is there twice", number, key);
    if (!is_honoured(key)) fail_msg("config_effects.txt:%d: %s has no meaning here", number, key);
    keys[key_count++] = strdup(key);
    while ((word = strsep(&rest, " ")) != NULL) {
        if (*word == 0) continue;
        if (!exists(word)) fail_msg("config_effects.txt:%d: there is no test %s", number, word);
        tests++;
    }
    if (tests == 0) fail_msg("config_effects.txt:%d: %s has no test", number, key);
}

static bool is_listed(const char *key)
{
    for (uint32_t i = 0; i < key_count; i++)
        if (strcmp(keys[i], key) == 0) return true;
    return false;
}

static void each_honoured_key_has_a_test_that_shows_what_it_changes(void **state)
{
    char line[4096], path[512];
    uint32_t count = 0, missing = 0;
    (void)state;
    snprintf(path, sizeof(path), "%s/tests/config_effects.txt", OT_SOURCE_DIR);
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    for (int number = 1; fgets(line, sizeof(line), in) != NULL; number++) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] != 0 && line[0] != '#') take(line, number);
    }
    (void)fclose(in);
    for (int topic = 0; topic < 2; topic++) {
        const struct broker_config_row *rows = topic ? broker_topic_config_rows(&count) : broker_config_rows(&count);
        for (uint32_t i = 0; i < count; i++)
            if (rows[i].honoured && !is_listed(rows[i].key)) {
                print_error("%s has a meaning here and no line in tests/config_effects.txt\n", rows[i].key);
                missing++;
            }
    }
    assert_int_equal(missing, 0);
    for (uint32_t i = 0; i < key_count; i++) free(keys[i]);
}

TEST_MAIN(cmocka_unit_test(each_honoured_key_has_a_test_that_shows_what_it_changes))
