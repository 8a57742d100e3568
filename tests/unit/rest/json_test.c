/* JSON in and out: bounded, strict, with pointers to faults; numbers and bytes come back exactly. */
#include "testing.h"
#include "rest/json_in.h"
#include "rest/json_out.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct rest_faults faults;

static enum ot_err parse(const char *text, json_t **out)
{
    faults.count = 0;
    return rest_json_parse(text, strlen(text), out, &faults);
}

static void faults_have_pointers(void **state)
{
    static const struct { const char *text, *pointer; } rows[] = {
        { "{\"a\":1,\"a\":2}", "/a" },
        { "{\"x\":[{\"b\":1},{\"b\":1,\"b\":2}]}", "/x/1/b" },
        { "{\"a/b~c\":{\"d\":tru}}", "/a~1b~0c/d" },
        { "[1,2,99999999999999999999]", "/2" },
        { "{\"a\":1", "/a" },
        { "", "" },
        { "{} x", "" },
        { "{\"s\":\"\xff\"}", "/s" },
        { "[NaN]", "/0" },
    };
    (void)state;
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) {
        json_t *value = NULL;
        assert_int_equal(parse(rows[i].text, &value), OT_ERR_MALFORMED);
        assert_null(value);
        assert_int_equal(faults.count, 1);
        assert_string_equal(faults.list[0].pointer, rows[i].pointer);
    }
}

static void depth_is_bounded_before_parsing(void **state)
{
    char text[200];
    (void)state;
    for (int depth = 1; depth <= 70; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        faults.count = 0;
        enum ot_err err = rest_json_scan(text, (size_t)depth * 2, REST_JSON_DEPTH_MAX, 1000, NULL, &faults);
        assert_int_equal(err, depth <= REST_JSON_DEPTH_MAX ? OT_OK : OT_ERR_TOO_LARGE);
    }
    const char brackets_in_text[] = "\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[[[\"";
    assert_int_equal(rest_json_scan(brackets_in_text, sizeof(brackets_in_text) - 1, REST_JSON_DEPTH_MAX, 1000, NULL, &faults), OT_OK);
}

static void values_are_bounded_before_parsing(void **state)
{
    char text[2003];
    uint32_t values = 0;
    (void)state;
    text[0] = '[';
    for (int i = 0; i < 1000; i++) memcpy(text + 1 + i * 2, "1,", 2);
    memcpy(text + 2001, "1]", 2);
    assert_int_equal(rest_json_scan(text, sizeof(text), 64, 5000, &values, &faults), OT_OK);
    assert_in_range(values, 1000, 1002);
    assert_int_equal(rest_json_scan(text, sizeof(text), 64, 500, NULL, &faults), OT_ERR_TOO_LARGE);
}

static bool read_topic(const char *text, struct ot_str *name, int64_t *partitions, bool *internal)
{
    json_t *object = NULL;
    assert_int_equal(parse(text, &object), OT_OK);
    const struct rest_member members[] = {
        { .name = "name", .kind = REST_TEXT, .required = true, .out = name },
        { .name = "partitions", .kind = REST_INT, .out = partitions, .min = 1, .max = 10, .nullable = true },
        { .name = "internal", .kind = REST_BOOL, .out = internal },
    };
    const bool good = rest_members(object, "/t", members, OT_ARRAY_COUNT(members), &faults);
    json_decref(object);
    return good;
}

static void members_are_read_by_the_table(void **state)
{
    struct ot_str name = { 0 };
    int64_t partitions = -7;
    bool internal = false;
    (void)state;
    assert_true(read_topic("{\"name\":\"a\",\"partitions\":3,\"internal\":true}", &name, &partitions, &internal));
    assert_int_equal(partitions, 3);
    assert_true(internal);
    assert_true(read_topic("{\"name\":\"a\",\"partitions\":\"4\"}", &name, &partitions, &internal));
    assert_int_equal(partitions, 4);
    partitions = -7;
    assert_true(read_topic("{\"name\":\"a\",\"partitions\":null}", &name, &partitions, &internal));
    assert_int_equal(partitions, -7);
}

static void every_wrong_member_is_told(void **state)
{
    struct ot_str name = { 0 };
    int64_t partitions = 0;
    bool internal = false;
    (void)state;
    assert_false(read_topic("{\"nmae\":\"a\",\"partitions\":11,\"internal\":1}", &name, &partitions, &internal));
    assert_int_equal(faults.count, 4);
    assert_string_equal(faults.list[0].pointer, "/t/nmae");
    assert_non_null(strstr(faults.list[0].text, "'name'"));
    assert_string_equal(faults.list[1].pointer, "/t/partitions");
    assert_string_equal(faults.list[2].pointer, "/t/internal");
    assert_string_equal(faults.list[3].pointer, "/t/name");
    assert_non_null(strstr(faults.list[3].text, "missing"));
    static const char *const wrong[] = { "{\"name\":null}", "{\"name\":1}", "{\"name\":\"a\",\"partitions\":1.0}", "{\"name\":\"a\",\"partitions\":\"1x\"}",
        "{\"name\":\"a\",\"partitions\":\"\"}", "{\"name\":\"a\",\"partitions\":0}", "[]", "1" };
    for (size_t i = 0; i < OT_ARRAY_COUNT(wrong); i++) assert_false(read_topic(wrong[i], &name, &partitions, &internal));
}

static void faults_beyond_the_list_are_only_counted(void **state)
{
    char text[2000] = "{\"name\":\"a\"", member[32];
    struct ot_str name = { 0 };
    int64_t partitions = 0;
    bool internal = false;
    (void)state;
    for (int i = 0; i < 40; i++) {
        snprintf(member, sizeof(member), ",\"zzz%d\":1", i);
        strncat(text, member, sizeof(text) - strlen(text) - 1);
    }
    strncat(text, "}", sizeof(text) - strlen(text) - 1);
    assert_false(read_topic(text, &name, &partitions, &internal));
    assert_int_equal(faults.count, 40);
}

/* ---- writing */

static char *taken(struct rest_json *json)
{
    static char text[4096];
    assert_false(rest_json_failed(json));
    snprintf(text, sizeof(text), "%.*s", (int)json->bytes, json->data);
    rest_json_free(json);
    return text;
}

static void what_is_written_parses_back(void **state)
{
    struct rest_json json;
    struct ot_uuid id = { { 1, 2, 3 } };
    json_t *value = NULL;
    (void)state;
    rest_json_init(&json, 1 << 16);
    rest_json_open(&json, NULL, '{');
    rest_json_text(&json, "a\"\\\n\x01", "b\xc3\xa4\x7f");
    rest_json_open(&json, "list", '[');
    rest_json_int(&json, NULL, INT64_MIN);
    rest_json_null(&json, NULL);
    rest_json_open(&json, NULL, '{');
    rest_json_close(&json, '}');
    rest_json_close(&json, ']');
    rest_json_real(&json, "real", 0.1);
    rest_json_real(&json, "whole", 7.9e10);
    rest_json_real(&json, "nan", NAN);
    rest_json_time(&json, "at", 0);
    rest_json_time(&json, "never", -1);
    rest_json_uuid(&json, "id", &id);
    rest_json_base64(&json, "bytes", (struct ot_blob){ (const uint8_t *)"\0\x01", 2, false });
    rest_json_big_or_null(&json, "unknown", -1);
    rest_json_close(&json, '}');
    const char *text = taken(&json);
    assert_int_equal(parse(text, &value), OT_OK);
    assert_string_equal(json_string_value(json_object_get(value, "a\"\\\n\x01")), "b\xc3\xa4\x7f");
    assert_int_equal(json_array_size(json_object_get(value, "list")), 3);
    assert_non_null(strstr(text, "\"real\":0.1,\"whole\":79000000000,\"nan\":null,\"at\":\"1970-01-01T00:00:00.000Z\",\"never\":null"));
    assert_non_null(strstr(text, "\"bytes\":\"AAE=\",\"unknown\":null}"));
    json_decref(value);
}

static void big_numbers_become_text_when_asked(void **state)
{
    struct rest_json json;
    (void)state;
    rest_json_init(&json, 4096);
    json.big_as_text = true;
    rest_json_open(&json, NULL, '[');
    rest_json_big(&json, NULL, INT64_MAX);
    rest_json_int(&json, NULL, 5);
    rest_json_close(&json, ']');
    assert_string_equal(taken(&json), "[\"9223372036854775807\",5]");
}

static void bytes_that_are_no_text_are_replaced(void **state)
{
    struct rest_json json;
    (void)state;
    rest_json_init(&json, 4096);
    rest_json_str(&json, NULL, (struct ot_str){ "a\xff\xc3\xa4\xe2\x82\0b", 8, false });
    assert_string_equal(taken(&json), "\"a\xef\xbf\xbd\xc3\xa4\xef\xbf\xbd\xef\xbf\xbd\\u0000b\"");
}

static void a_full_writer_fails_for_good(void **state)
{
    struct rest_json json;
    (void)state;
    rest_json_init(&json, 8);
    rest_json_text(&json, NULL, "123456");
    assert_false(rest_json_failed(&json));
    rest_json_text(&json, NULL, "x");
    assert_true(rest_json_failed(&json));
    rest_json_put(&json, "", 0);
    assert_true(rest_json_failed(&json));
    rest_json_free(&json);
}

static void pretty_changes_blanks_alone(void **state)
{
    static const char text[] = "{\"a\":[],\"b\":{\"c\":[1,\"x,{\\\"y\"]},\"d\":{}}";
    struct rest_json json;
    json_t *before = NULL, *after = NULL;
    (void)state;
    rest_json_init(&json, 4096);
    rest_json_pretty(&json, text, strlen(text));
    const char *pretty = taken(&json);
    assert_string_equal(pretty, "{\n  \"a\": [],\n  \"b\": {\n    \"c\": [\n      1,\n      \"x,{\\\"y\"\n    ]\n  },\n  \"d\": {}\n}\n");
    assert_int_equal(parse(text, &before), OT_OK);
    assert_int_equal(parse(pretty, &after), OT_OK);
    assert_true(json_equal(before, after));
    json_decref(before);
    json_decref(after);
}

static void copies_are_exact(void **state)
{
    static const char *const texts[] = { "{\"b\":1,\"a\":[0.1,1.0,1e300,-2.5e-9,3.141592653589793,9007199254740993,true,null,\"\\u0000\\u00e4\"]}", "\"x\"", "[]" };
    (void)state;
    for (size_t i = 0; i < OT_ARRAY_COUNT(texts); i++) {
        struct rest_json json;
        json_t *before = NULL, *after = NULL;
        assert_int_equal(parse(texts[i], &before), OT_OK);
        rest_json_init(&json, 4096);
        rest_json_copy(&json, NULL, before);
        const char *text = taken(&json);
        assert_int_equal(parse(text, &after), OT_OK);
        assert_true(json_equal(before, after));
        if (i == 0) assert_non_null(strstr(text, "{\"b\":1,\"a\":[0.1,1.0,1e+300,-2.5e-09,3.141592653589793,9007199254740993,"));
        json_decref(before);
        json_decref(after);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_have_pointers),
        cmocka_unit_test(depth_is_bounded_before_parsing),
        cmocka_unit_test(values_are_bounded_before_parsing),
        cmocka_unit_test(members_are_read_by_the_table),
        cmocka_unit_test(every_wrong_member_is_told),
        cmocka_unit_test(faults_beyond_the_list_are_only_counted),
        cmocka_unit_test(what_is_written_parses_back),
        cmocka_unit_test(big_numbers_become_text_when_asked),
        cmocka_unit_test(bytes_that_are_no_text_are_replaced),
        cmocka_unit_test(a_full_writer_fails_for_good),
        cmocka_unit_test(pretty_changes_blanks_alone),
        cmocka_unit_test(copies_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
