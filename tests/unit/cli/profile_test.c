/* Profiles: which value a name gives, and what is refused with words. */
#include "testing.h"

#include "cli/profile.h"

static const char file[] = "# places\n\n[staging]\n api = http://10.0.0.2:9095 \r\nbootstrap_server=10.0.0.2:9092,10.0.0.3:9092\n; the other one\n[prod]\nbootstrap-server = p:9092";
static char value[CLI_PROFILE_VALUE_BYTES], why[200];
static struct cli_profile_names names;

static void a_name_gives_its_values(void **state)
{
    (void)state;
    assert_int_equal(cli_profile_read(file, "staging", "api", value, &names, why), OT_OK);
    assert_string_equal(value, "http://10.0.0.2:9095");
    assert_int_equal(cli_profile_read(file, "staging", "bootstrap_server", value, &names, why), OT_OK);
    assert_string_equal(value, "10.0.0.2:9092,10.0.0.3:9092");
    assert_int_equal(cli_profile_read(file, "prod", "bootstrap_server", value, &names, why), OT_OK);
    assert_string_equal(value, "p:9092");
    assert_int_equal(cli_profile_read(file, "prod", "api", value, &names, why), OT_OK);
    assert_string_equal(value, "");
}

static void a_name_that_is_not_there_is_told_the_others(void **state)
{
    (void)state;
    assert_int_equal(cli_profile_read(file, "stagin", "api", value, &names, why), OT_ERR_NOT_FOUND);
    assert_int_equal(names.count, 2);
    assert_string_equal(names.names[1], "prod");
    assert_int_equal(cli_profile_read("", "x", "api", value, &names, why), OT_ERR_NOT_FOUND);
}

static void what_is_no_profile_is_refused_with_its_line(void **state)
{
    (void)state;
    static const char *const bad[][2] = {{"[a]\nnonsense", "line 2"}, {"[a\n", "line 1"}, {"[]", "line 1"}, {"[a]\n\nap = x", "did you mean api"}, {"[a]\n= x", "line 2"}};
    for (size_t i = 0; i < OT_ARRAY_COUNT(bad); i++) {
        assert_int_equal(cli_profile_read(bad[i][0], "a", "api", value, &names, why), OT_ERR_MALFORMED);
        if (strstr(why, bad[i][1]) == NULL) fail_msg("%s: %s", bad[i][0], why);
    }
    static char longest[4096] = "[a]\napi = ";
    memset(longest + 10, 'x', sizeof(longest) - 11);
    assert_int_equal(cli_profile_read(longest, "a", "api", value, &names, why), OT_ERR_MALFORMED);
    static char many[80 * 8];
    size_t at = 0;
    for (int i = 0; i < 80; i++) at += (size_t)snprintf(many + at, sizeof(many) - at, "[s%d]\n", i);
    assert_int_equal(cli_profile_read(many, "s1", "api", value, &names, why), OT_ERR_MALFORMED);
}

TEST_MAIN(cmocka_unit_test(a_name_gives_its_values), cmocka_unit_test(a_name_that_is_not_there_is_told_the_others), cmocka_unit_test(what_is_no_profile_is_refused_with_its_line))
