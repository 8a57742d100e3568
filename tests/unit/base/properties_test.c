#include "testing.h"

#include "base/properties.h"
#include "base/util.h"

struct pairs {
    char text[4096];
    size_t bytes;
    enum ot_err answer;
    int count;
};

/* Writes `line:[key][value]` for each, so that one text shows all. */
static enum ot_err note(void *arg, int line, const char *key, const char *value)
{
    struct pairs *pairs = arg;
    pairs->count++;
    const int bytes = snprintf(pairs->text + pairs->bytes, sizeof(pairs->text) - pairs->bytes, "%d:[%s][%s]", line, key, value);
    pairs->bytes += (size_t)bytes;
    return pairs->answer;
}

static void check(const char *input, const char *want)
{
    struct pairs pairs = {.answer = OT_OK};
    const size_t bytes = strlen(input);
    char *exact = malloc(bytes + 1);
    assert_non_null(exact);
    memcpy(exact + 1, input, bytes); /* its end is the end of the allocation */
    assert_int_equal(ot_properties_parse(exact + 1, bytes, note, &pairs, NULL), OT_OK);
    if (strcmp(pairs.text, want) != 0) fail_msg("for <%s>: %s instead of %s", input, pairs.text, want);
    free(exact);
}

static void keys_and_values_are_parted_as_java_does(void **state)
{
    (void)state;
    check("", "");
    check("a=b", "1:[a][b]");
    check("a:b\nc d\n", "1:[a][b]2:[c][d]");
    check("a = b", "1:[a][b]");
    check("  a\t:\t b  ", "1:[a][b  ]"); /* blanks at the end belong to the value */
    check("a==b", "1:[a][=b]");
    check("a = =b", "1:[a][=b]");
    check("a : = b", "1:[a][= b]");
    check("a  b=c", "1:[a][b=c]");
    check("key", "1:[key][]");
    check("key=", "1:[key][]");
    check("=value", "1:[][value]");
    check("listeners=PLAINTEXT://127.0.0.1:9092", "1:[listeners][PLAINTEXT://127.0.0.1:9092]");
    check("a\\=b\\:c\\ d=e", "1:[a=b:c d][e]");
    check("a=1\na=2", "1:[a][1]2:[a][2]");
}

static void comments_and_blank_lines_are_skipped(void **state)
{
    (void)state;
    check("# one\n  ! two\n\n\t\n a=b#c\n#d=e", "5:[a][b#c]");
    check("# no continuation \\\na=b", "2:[a][b]");
    check("\xef\xbb\xbf"
          "a=b",
        "1:[a][b]");
    check("# caf\xe9 in another charset\na=b", "2:[a][b]");
}

static void lines_end_in_any_of_three_ways(void **state)
{
    (void)state;
    check("a=1\r\nb=2\rc=3\nd=4", "1:[a][1]2:[b][2]3:[c][3]4:[d][4]");
    check("a=1\r\n\r\nb=2", "1:[a][1]3:[b][2]");
    check("a=1\\\r\n  2\nb=3", "1:[a][12]3:[b][3]");
}

static void a_backslash_continues_the_line_and_the_number_is_of_its_first(void **state)
{
    (void)state;
    check("a=1,\\\n    2,\\\n\t3\nb=4", "1:[a][1,2,3]4:[b][4]");
    check("a=1\\\\\nb=2", "1:[a][1\\]2:[b][2]"); /* an escaped backslash does not continue */
    check("a=1\\\\\\\nb=2", "1:[a][1\\b=2]");
    check("ke\\\n  y=v", "1:[key][v]");
    check("key\\\n  =v", "1:[key][v]");
    check("a=1\\", "1:[a][1]");
    check("a=1\\\n", "1:[a][1]");
    check("a=1\\\n#x", "1:[a][1#x]");
    check("a=1\\\n\nb=2", "1:[a][1]3:[b][2]");
}

static void escapes_are_resolved(void **state)
{
    (void)state;
    check("a=\\t\\n\\r\\f\\q\\\\\\\"", "1:[a][\t\n\r\fq\\\"]");
    check("a=\\u0041\\u00e9\\u20AC\\ud83d\\ude00", "1:[a][A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80]");
    check("\\u006bey=v", "1:[key][v]");
    check("a=caf\xc3\xa9", "1:[a][caf\xc3\xa9]");
    check("a=\\u003d\\u0020b", "1:[a][= b]");
}

static void what_is_malformed_is_refused_with_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t bytes;
        int line, before;
    } rows[] = {
        {"a=1\nb=\\u12", 10, 2, 1},
        {"a=\\u12g4", 8, 1, 0},
        {"a=\\u", 4, 1, 0},
        {"a=\\ud83d", 8, 1, 0},
        {"a=\\ud83d\\u0041", 14, 1, 0},
        {"a=\\ude00", 8, 1, 0},
        {"a=\\u0000", 8, 1, 0},
        {"a=1\n\nb=\0x", 9, 3, 1},
        {"a=\\\0", 4, 1, 0},
        {"x=1\n\na=\xff", 8, 3, 1},
        {"\0=1", 3, 1, 0},
        {"c=1\na=b\\\n  \\uZZZZ", 17, 2, 1},
    };
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) {
        struct pairs pairs = {.answer = OT_OK};
        int line = -1;
        assert_int_equal(ot_properties_parse(rows[i].text, rows[i].bytes, note, &pairs, &line), OT_ERR_MALFORMED);
        assert_int_equal(line, rows[i].line);
        assert_int_equal(pairs.count, rows[i].before);
    }
}

static void the_callers_refusal_stops_and_is_returned(void **state)
{
    (void)state;
    struct pairs pairs = {.answer = OT_ERR_INVALID_CONFIG};
    int line = 0;
    assert_int_equal(ot_properties_parse("\na=1\nb=2", 8, note, &pairs, &line), OT_ERR_INVALID_CONFIG);
    assert_int_equal(pairs.count, 1);
    assert_int_equal(line, 2);
}

static void more_than_a_mebibyte_is_refused(void **state)
{
    (void)state;
    struct pairs pairs = {.answer = OT_OK};
    char *big = calloc(1, (1 << 20) + 1);
    assert_non_null(big);
    memset(big, '#', (1 << 20) + 1);
    assert_int_equal(ot_properties_parse(big, 1 << 20, note, &pairs, NULL), OT_OK);
    assert_int_equal(ot_properties_parse(big, (1 << 20) + 1, note, &pairs, NULL), OT_ERR_TOO_LARGE);
    assert_int_equal(ot_properties_parse(NULL, 0, note, &pairs, NULL), OT_OK);
    free(big);
}

static enum ot_err check_texts(void *arg, int line, const char *key, const char *value)
{
    assert_true(line >= *(int *)arg);
    *(int *)arg = line;
    assert_true(ot_utf8_valid(key, strlen(key)));
    assert_true(ot_utf8_valid(value, strlen(value)));
    return OT_OK;
}

static void random_input_never_leaves_its_bounds(void **state)
{
    (void)state;
    static const char alphabet[] = "ab=: \t\f\r\n\\\\\\u00d8e#!\xc3\xa9";
    struct ot_rng rng;
    ot_rng_seed(&rng, 17);
    for (int round = 0; round < 20000; round++) {
        const size_t bytes = (size_t)ot_rng_below(&rng, 40);
        char *input = malloc(bytes + 1);
        assert_non_null(input);
        for (size_t i = 0; i < bytes; i++) input[i + 1] = alphabet[ot_rng_below(&rng, sizeof(alphabet))];
        int line = 0;
        const enum ot_err err = ot_properties_parse(input + 1, bytes, check_texts, &line, NULL);
        assert_true(err == OT_OK || err == OT_ERR_MALFORMED);
        free(input);
    }
}

TEST_MAIN(cmocka_unit_test(keys_and_values_are_parted_as_java_does), cmocka_unit_test(comments_and_blank_lines_are_skipped),
    cmocka_unit_test(lines_end_in_any_of_three_ways),
    cmocka_unit_test(a_backslash_continues_the_line_and_the_number_is_of_its_first), cmocka_unit_test(escapes_are_resolved),
    cmocka_unit_test(what_is_malformed_is_refused_with_its_line), cmocka_unit_test(the_callers_refusal_stops_and_is_returned),
    cmocka_unit_test(more_than_a_mebibyte_is_refused), cmocka_unit_test(random_input_never_leaves_its_bounds))
