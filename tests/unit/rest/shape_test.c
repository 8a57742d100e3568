/* Lists as tables and CSV, members picked, requests counted by address. */
#include "testing.h"
#include "rest/inside.h"
#include <string.h>

static const char lines[] = "{\"topic\":\"a,\\\"b\",\"size\":10,\"o\":{\"k\":\"v\"},\"ids\":[1,2]}\n{\"topic\":\"\xc3\xa4\\u001b\",\"size\":null,\"o\":{},\"extra\":true}";

static const char *shaped(enum rest_format format, const char *fields)
{
    static char text[4096];
    struct rest_json out;
    rest_json_init(&out, 1 << 16);
    assert_true(rest_list_shape(&out, lines, strlen(lines), format, fields == NULL ? (struct ot_str){ .null = true } : ot_str_of(fields)));
    snprintf(text, sizeof(text), "%.*s", (int)out.bytes, out.bytes == 0 ? "" : out.data);
    rest_json_free(&out);
    return text;
}

static void csv_quotes_what_needs_it(void **state)
{
    (void)state;
    assert_string_equal(shaped(REST_FORMAT_CSV, NULL), "topic,size,o.k,ids,o,extra\r\n\"a,\"\"b\",10,v,1 2,,\r\n\xc3\xa4\x1b,,,,{},true\r\n");
}

static void tables_are_aligned_and_harmless(void **state)
{
    (void)state;
    assert_string_equal(shaped(REST_FORMAT_TABLE, "topic,size"), "TOPIC  SIZE\na,\"b     10\n\xc3\xa4?        -\n");
}

static void fields_pick_members(void **state)
{
    (void)state;
    assert_string_equal(shaped(REST_FORMAT_NDJSON, "size,o.k"), "{\"size\":10,\"o\":{\"k\":\"v\"}}\n{\"size\":null,\"o\":{}}\n");
    assert_string_equal(shaped(REST_FORMAT_JSON, "nope"), "{}\n{}");
    assert_string_equal(shaped(REST_FORMAT_JSON, ",,size,"), "{\"size\":10}\n{\"size\":null}");
}

static void ndjson_is_the_lines(void **state)
{
    char want[512];
    (void)state;
    snprintf(want, sizeof(want), "%s\n", lines);
    assert_string_equal(shaped(REST_FORMAT_NDJSON, NULL), want);
}

static void nothing_gives_nothing(void **state)
{
    struct rest_json out;
    (void)state;
    rest_json_init(&out, 1 << 16);
    assert_true(rest_list_shape(&out, NULL, 0, REST_FORMAT_NDJSON, (struct ot_str){ .null = true }));
    assert_int_equal(out.bytes, 0);
    rest_json_free(&out);
}

static void an_address_gets_its_burst_and_then_its_rate(void **state)
{
    static struct rest_limits limits;
    int retry_s = 0;
    (void)state;
    rest_limits_init(&limits, 10, 20);
    for (int i = 0; i < 20; i++) assert_true(rest_limits_take(&limits, "a", 1000000, &retry_s));
    assert_false(rest_limits_take(&limits, "a", 1000000, &retry_s));
    assert_int_equal(retry_s, 1);
    assert_true(rest_limits_take(&limits, "b", 1000000, &retry_s));
    for (int i = 0; i < 5; i++) assert_true(rest_limits_take(&limits, "a", 1500000, &retry_s));
    assert_false(rest_limits_take(&limits, "a", 1500000, &retry_s));
    for (int i = 0; i < 20; i++) assert_true(rest_limits_take(&limits, "a", 100000000, &retry_s));
    assert_false(rest_limits_take(&limits, "a", 100000000, &retry_s));
}

static void many_addresses_take_no_more_memory(void **state)
{
    static struct rest_limits limits;
    int retry_s = 0;
    (void)state;
    rest_limits_init(&limits, 10, 20);
    for (int i = 0; i < 20000; i++) {
        char name[32];
        snprintf(name, sizeof(name), "address-%d", i);
        assert_true(rest_limits_take(&limits, name, 1000000 + i, &retry_s));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv_quotes_what_needs_it),
        cmocka_unit_test(tables_are_aligned_and_harmless),
        cmocka_unit_test(fields_pick_members),
        cmocka_unit_test(ndjson_is_the_lines),
        cmocka_unit_test(nothing_gives_nothing),
        cmocka_unit_test(an_address_gets_its_burst_and_then_its_rate),
        cmocka_unit_test(many_addresses_take_no_more_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
