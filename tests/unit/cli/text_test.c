#include "testing.h"

#include "cli/text.h"

static void json_is_told_from_what_looks_like_it(void **state)
{
    (void)state;
    static const char *const good[] = {"0", "-1.5e+3", "\"\"", "\"a\\u00e9\\n\"", "[]", "{}", " [1, [2, {\"a\": null}], true] ", "{\"a\":{},\"b\":[[]]}", "false", "1E5",
        "\"\xc3\xa9\""};
    static const char *const bad[] = {"", " ", "01", "1.", ".5", "+1", "1e", "\"", "\"\\x\"", "\"\\u12\"", "[1,]", "[,1]", "[1 2]", "{\"a\"}", "{\"a\":}", "{a:1}", "{\"a\":1,}", "[", "]",
        "{]", "[}", "nul", "truee", "1 2", "\"\xc3\"", "\"\n\"", "--1", "{\"a\":1}}"};
    for (size_t i = 0; i < OT_ARRAY_COUNT(good); i++)
        if (!cli_json_valid(good[i], strlen(good[i]))) fail_msg("refused: %s", good[i]);
    for (size_t i = 0; i < OT_ARRAY_COUNT(bad); i++)
        if (cli_json_valid(bad[i], strlen(bad[i]))) fail_msg("taken: %s", bad[i]);
}

static void json_is_at_most_64_deep(void **state)
{
    (void)state;
    char text[300];
    for (size_t depth = 63; depth <= 66; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        assert_int_equal(cli_json_valid(text, depth * 2), depth <= CLI_JSON_DEPTH_MAX);
    }
}

static void every_prefix_of_json_is_refused_and_read_within_bounds(void **state)
{
    (void)state;
    static const char whole[] = "{\"a\":[1.5e3,\"x\\u00e9\\\\\",{\"b\":null}],\"c\":true}";
    for (size_t bytes = 0; bytes < sizeof(whole) - 1; bytes++) {
        char *exact = malloc(bytes == 0 ? 1 : bytes); /* a sanitizer sees one byte too far */
        assert_non_null(exact);
        memcpy(exact, whole, bytes);
        assert_false(cli_json_valid(exact, bytes));
        free(exact);
    }
    assert_true(cli_json_valid(whole, sizeof(whole) - 1));
}

static void members_come_raw_and_in_order(void **state)
{
    (void)state;
    static const char text[] = " { \"a\" : [1, 2] , \"b\":\"x\" } ";
    struct ot_reader in = ot_reader_over(text, sizeof(text) - 1);
    struct ot_blob name, value;
    assert_true(cli_json_object_begin(&in));
    assert_int_equal(cli_json_member(&in, true, &name, &value), 1);
    assert_int_equal(name.bytes, 3);
    assert_memory_equal(value.data, "[1, 2]", value.bytes);
    assert_int_equal(cli_json_member(&in, false, &name, &value), 1);
    assert_memory_equal(value.data, "\"x\"", value.bytes);
    assert_int_equal(cli_json_member(&in, false, &name, &value), 0);
}

static void strings_mean_what_their_escapes_say(void **state)
{
    (void)state;
    static const struct {
        const char *raw, *is;
    } rows[] = {{"\"a\\n\\t\\\"\\\\\\/\"", "a\n\t\"\\/"}, {"\"\\u0041\\u00e9\\u20ac\"", "A\xc3\xa9\xe2\x82\xac"}, {"\"\\ud83d\\ude00\"", "\xf0\x9f\x98\x80"},
        {"\"\\b\\f\\r\"", "\b\f\r"}};
    static const char *const bad[] = {"\"\\ud83d\"", "\"\\ude00\"", "\"\\ud83dx\"", "\"\\ud83d\\u0041\"", "5", "\""};
    uint8_t to[64];
    uint32_t bytes;
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) {
        assert_true(cli_json_string((struct ot_blob){(const uint8_t *)rows[i].raw, (uint32_t)strlen(rows[i].raw), false}, to, &bytes));
        assert_int_equal(bytes, strlen(rows[i].is));
        assert_memory_equal(to, rows[i].is, bytes);
    }
    for (size_t i = 0; i < OT_ARRAY_COUNT(bad); i++)
        assert_false(cli_json_string((struct ot_blob){(const uint8_t *)bad[i], (uint32_t)strlen(bad[i]), false}, to, &bytes));
}

static void printed_strings_are_read_back(void **state)
{
    (void)state;
    char text[256], *printed = NULL;
    size_t printed_bytes = 0;
    uint8_t back[256];
    uint32_t bytes;
    for (int i = 0; i < 128; i++) text[i] = (char)i;
    FILE *to = open_memstream(&printed, &printed_bytes);
    cli_json_print(to, text, 128);
    fclose(to);
    assert_true(cli_json_valid(printed, printed_bytes));
    assert_true(cli_json_string((struct ot_blob){(const uint8_t *)printed, (uint32_t)printed_bytes, false}, back, &bytes));
    assert_int_equal(bytes, 128);
    assert_memory_equal(back, text, 128);
    free(printed);
}

static void base64_keeps_every_byte(void **state)
{
    (void)state;
    uint8_t data[300], back[512];
    for (size_t i = 0; i < sizeof(data); i++) data[i] = (uint8_t)(i * 7);
    for (size_t bytes = 0; bytes <= 300; bytes += bytes < 8 ? 1 : 97) {
        char *printed = NULL;
        size_t printed_bytes = 0;
        uint32_t got;
        FILE *to = open_memstream(&printed, &printed_bytes);
        cli_base64_print(to, data, bytes);
        fclose(to);
        assert_int_equal(printed_bytes, (bytes + 2) / 3 * 4);
        assert_true(cli_base64_decode(printed, printed_bytes, back, &got));
        assert_int_equal(got, bytes);
        if (bytes > 0) assert_memory_equal(back, data, bytes);
        free(printed);
    }
    uint32_t got;
    assert_false(cli_base64_decode("abc", 3, back, &got));
    assert_false(cli_base64_decode("ab=c", 4, back, &got));
    assert_false(cli_base64_decode("a===", 4, back, &got));
    assert_false(cli_base64_decode("ab\n=", 4, back, &got));
}

static void escapes_become_bytes(void **state)
{
    (void)state;
    char text[] = "a\\tb\\n\\x41\\0\\\\\\q\\x4";
    const size_t bytes = cli_unescape(text);
    assert_int_equal(bytes, 12);
    assert_memory_equal(text, "a\tb\nA\0\\\\q\\x4", bytes);
}

static void numbers_and_sizes_are_whole_and_in_range(void **state)
{
    (void)state;
    int64_t got;
    assert_true(cli_number("-5", -10, 10, &got) && got == -5);
    assert_false(cli_number("11", -10, 10, &got));
    assert_false(cli_number("1x", 0, 10, &got));
    assert_false(cli_number(" 1", 0, 10, &got));
    assert_false(cli_number("", 0, 10, &got));
    assert_false(cli_number("9223372036854775808", 0, INT64_MAX, &got));
    assert_true(cli_size("256k", 0, INT64_MAX, &got) && got == 262144);
    assert_true(cli_size("1G", 0, INT64_MAX, &got) && got == 1 << 30);
    assert_false(cli_size("9999999999g", 0, INT64_MAX, &got));
    assert_false(cli_size("k", 0, INT64_MAX, &got));
    assert_false(cli_size("-1k", INT64_MIN, INT64_MAX, &got));
    char text[24];
    assert_string_equal(cli_human_bytes(1536, text), "1.5 KiB");
    assert_string_equal(cli_human_bytes(512, text), "512 B");
    assert_string_equal(cli_human_bytes(UINT64_MAX, text), "16 EiB");
}

TEST_MAIN(cmocka_unit_test(json_is_told_from_what_looks_like_it), cmocka_unit_test(json_is_at_most_64_deep),
    cmocka_unit_test(every_prefix_of_json_is_refused_and_read_within_bounds), cmocka_unit_test(members_come_raw_and_in_order),
    cmocka_unit_test(strings_mean_what_their_escapes_say), cmocka_unit_test(printed_strings_are_read_back), cmocka_unit_test(base64_keeps_every_byte),
    cmocka_unit_test(escapes_become_bytes), cmocka_unit_test(numbers_and_sizes_are_whole_and_in_range))
