#include "testing.h"

#include "base/regex.h"

static bool matches(const char *pattern, const char *text)
{
    struct ot_regex *regex;
    char why[128];
    assert_int_equal(ot_regex_new(ot_str_of(pattern), &regex, why, sizeof(why)), OT_OK);
    const bool yes = ot_regex_matches(regex, ot_str_of(text));
    ot_regex_free(regex);
    return yes;
}

static void the_whole_text_must_match(void **state)
{
    (void)state;
    assert_true(matches("orders-.*", "orders-eu"));
    assert_false(matches("orders", "orders-eu"));
    assert_false(matches("ders-eu", "orders-eu"));
    assert_true(matches("(?i)ORDERS|bills", "orders"));
    assert_true(matches("\\w+\\.[0-9]{2}", "a_b.07"));
    assert_true(matches("", ""));
    assert_true(matches("t\xc3\xa4g.", "t\xc3\xa4g\xc3\xa4"));
}

static void what_is_no_re2_syntax_is_refused_with_words(void **state)
{
    (void)state;
    static const char *const wrong[] = {"(", "[a", "a**", "*a", "(?=x)", "(a)\\1", "a{2,1}", "\\"};
    for (size_t i = 0; i < OT_ARRAY_COUNT(wrong); i++) {
        struct ot_regex *regex;
        char why[128] = "";
        assert_int_equal(ot_regex_new(ot_str_of(wrong[i]), &regex, why, sizeof(why)), OT_ERR_INVALID_REGULAR_EXPRESSION);
        assert_null(regex);
        assert_true(strlen(why) > 0);
    }
}

static void a_pattern_that_would_take_much_memory_is_refused(void **state)
{
    (void)state;
    static char longest[OT_REGEX_PATTERN_BYTES_MAX + 2];
    struct ot_regex *regex;
    char why[128];
    assert_int_equal(ot_regex_new(ot_str_of("((a{100}){100}){100}"), &regex, why, sizeof(why)), OT_ERR_INVALID_REGULAR_EXPRESSION);
    assert_int_equal(ot_regex_new(ot_str_of("(((x{1000}){10}y{1000}){10}|z{1000}){5}"), &regex, why, sizeof(why)), OT_ERR_INVALID_REGULAR_EXPRESSION);
    memset(longest, 'a', sizeof(longest) - 1);
    assert_int_equal(ot_regex_new(ot_str_of(longest), &regex, why, sizeof(why)), OT_ERR_INVALID_REGULAR_EXPRESSION);
    longest[OT_REGEX_PATTERN_BYTES_MAX] = '\0';
    assert_int_equal(ot_regex_new(ot_str_of(longest), &regex, why, sizeof(why)), OT_OK);
    ot_regex_free(regex);
    ot_regex_free(NULL);
}

/* A backtracking matcher would not end on these within the life of the test. */
static void nested_repeats_stay_linear(void **state)
{
    (void)state;
    static char text[250];
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 2] = 'b';
    assert_false(matches("(a*)*", text));
    assert_false(matches("(a|aa)+c", text));
    assert_false(matches("(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)x", text));
}

TEST_MAIN(cmocka_unit_test(the_whole_text_must_match), cmocka_unit_test(what_is_no_re2_syntax_is_refused_with_words),
    cmocka_unit_test(a_pattern_that_would_take_much_memory_is_refused), cmocka_unit_test(nested_repeats_stay_linear))
