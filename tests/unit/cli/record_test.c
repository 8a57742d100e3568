#include "testing.h"

#include "base/util.h"
#include "cli/input.h"
#include "cli/record.h"
#include "cli/wait.h"
#include <fcntl.h>

static struct ot_blob blob(const char *text)
{
    return (struct ot_blob){(const uint8_t *)text, text == NULL ? 0 : (uint32_t)strlen(text), text == NULL};
}

static struct cli_record record_of(const char *key, const char *value)
{
    return (struct cli_record){.topic = ot_str_of("t"), .partition = 2, .offset = 7, .timestamp_ms = 1000, .key = blob(key), .value = blob(value), .producer_id = -1};
}

/* What a format makes of records; to be freed. */
static char *printed(const char *format_text, const char *null_text, const struct cli_record *records, size_t count)
{
    struct cli_format format;
    char why[160], *out = NULL;
    size_t bytes = 0;
    assert_int_equal(cli_format_parse(format_text, &format, why), OT_OK);
    format.null_text = null_text;
    FILE *to = open_memstream(&out, &bytes);
    struct cli_printer printer = {.to = to, .format = &format, .names = true};
    for (size_t i = 0; i < count; i++) cli_record_print(&printer, &records[i]);
    cli_record_print_end(&printer);
    fclose(to);
    cli_format_free(&format);
    return out;
}

static void expect_printed(const char *format, const char *null_text, const struct cli_record *record, const char *wanted)
{
    char *got = printed(format, null_text, record, 1);
    assert_string_equal(got, wanted);
    free(got);
}

static void each_format_prints_what_it_says(void **state)
{
    (void)state;
    struct eng_record_header headers[] = {{blob("a"), blob("1")}, {blob("b"), blob(NULL)}};
    struct cli_record record = record_of("k", "v"), null = record_of(NULL, NULL);
    record.headers = headers;
    record.header_count = 2;
    expect_printed("lines", NULL, &record, "v\n");
    expect_printed("raw", NULL, &record, "v");
    expect_printed("%t/%p@%o %T %k=%v %K %V %H %h %%\\n", "-", &record, "t/2@7 1000 k=v 1 1 2 a=1,b=- %\n");
    expect_printed("%s %S", NULL, &record, "v 1");
    expect_printed("%k|%v|%K|%V\\n", "(null)", &null, "(null)|(null)|-1|-1\n");
    expect_printed("lines", "NIL", &null, "NIL\n");
    expect_printed("csv", NULL, &record, "topic,partition,offset,timestamp_ms,key,value\r\nt,2,7,1000,\"k\",\"v\"\r\n");
    expect_printed("csv", NULL, &null, "topic,partition,offset,timestamp_ms,key,value\r\nt,2,7,1000,,\r\n");
    expect_printed("ndjson", NULL, &record,
        "{\"topic\":\"t\",\"partition\":2,\"offset\":7,\"timestamp_ms\":1000,\"timestamp_type\":\"create\",\"key\":{\"string\":\"k\"},\"value\":{\"string\":\"v\"},"
        "\"headers\":[{\"name\":\"a\",\"value\":{\"json\":1}},{\"name\":\"b\",\"value\":null}],\"size_bytes\":0,\"producer_id\":null,\"transactional\":false,\"codec\":\"none\"}\n");
    char *got = printed("json", NULL, &record, 0);
    assert_string_equal(got, "[]\n");
    free(got);
}

static void what_is_no_format_is_refused_with_words(void **state)
{
    (void)state;
    static const char *const bad[] = {"line", "%q", "100%", "nonsense"};
    struct cli_format format;
    for (size_t i = 0; i < OT_ARRAY_COUNT(bad); i++) {
        char why[160] = "";
        assert_int_equal(cli_format_parse(bad[i], &format, why), OT_ERR_MALFORMED);
        assert_true(strlen(why) > 10);
        cli_format_free(&format);
    }
}

/* ---- reading */

struct reading {
    char dir[256], path[300];
    struct cli_format format;
    struct cli_input *input;
    const char *paths[1];
};

static enum ot_err open_reading(struct reading *reading, const char *format, const char *null_text, const void *data, size_t bytes, size_t record_bytes_max)
{
    char why[160];
    temp_dir_make(reading->dir, sizeof(reading->dir));
    snprintf(reading->path, sizeof(reading->path), "%s/in", reading->dir);
    FILE *file = fopen(reading->path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    fclose(file);
    assert_int_equal(cli_interrupt_install(), OT_OK);
    assert_int_equal(cli_format_parse(format, &reading->format, why), OT_OK);
    reading->format.null_text = null_text;
    reading->paths[0] = reading->path;
    return cli_input_open(&reading->format, reading->paths, 1, record_bytes_max, &reading->input, why);
}

static void close_reading(struct reading *reading)
{
    cli_input_close(reading->input);
    cli_format_free(&reading->format);
    temp_dir_remove(reading->dir);
}

static void expect_field(struct ot_blob got, const char *wanted)
{
    assert_int_equal(got.null, wanted == NULL);
    if (wanted == NULL) return;
    assert_int_equal(got.bytes, strlen(wanted));
    if (got.bytes > 0) assert_memory_equal(got.data, wanted, got.bytes);
}

struct pair {
    const char *key, *value;
};

static void expect_read(const char *format, const char *null_text, const char *data, const struct pair *pairs, size_t count)
{
    struct reading reading;
    struct cli_record record;
    assert_int_equal(open_reading(&reading, format, null_text, data, strlen(data), 1 << 20), OT_OK);
    for (size_t i = 0; i < count; i++) {
        const enum ot_err err = cli_input_next(reading.input, INT64_MAX, &record);
        if (err != OT_OK) fail_msg("%s: record %zu: %s", format, i, cli_input_why(reading.input));
        expect_field(record.key, pairs[i].key);
        expect_field(record.value, pairs[i].value);
    }
    assert_int_equal(cli_input_next(reading.input, INT64_MAX, &record), OT_ERR_NOT_FOUND);
    close_reading(&reading);
}

static void lines_keep_every_byte_but_the_break(void **state)
{
    (void)state;
    static const struct pair pairs[] = {{NULL, "a"}, {NULL, ""}, {NULL, " b\r"}, {NULL, NULL}, {NULL, "last"}};
    expect_read("lines", "NULL", "a\n\n b\r\nNULL\nlast", pairs, 5);
    expect_read("lines", NULL, "", NULL, 0);
}

static void a_file_is_one_raw_record(void **state)
{
    (void)state;
    static const struct pair pairs[] = {{NULL, "a\nb\n"}}, empty[] = {{NULL, ""}};
    expect_read("raw", NULL, "a\nb\n", pairs, 1);
    expect_read("raw", NULL, "", empty, 1);
}

static void patterns_are_cut_at_their_literals(void **state)
{
    (void)state;
    static const struct pair pairs[] = {{"k1", "v1"}, {"k2", ""}, {"", "x=y"}};
    expect_read("%k=%v\\n", NULL, "k1=v1\nk2=\n=x=y\n", pairs, 3);
    expect_read("%k=%v", NULL, "k1=v1\nk2=\n=x=y", pairs, 3); /* a line break is assumed */
    static const struct pair wrapped[] = {{"a", "b"}, {"c", "d"}};
    expect_read("<%k|%v>\\n", NULL, "<a|b>\n<c|d>\n", wrapped, 2);
    expect_read("%t %p %o %T %k:%v\\n", NULL, "t 0 5 1000 a:b\nt 1 6 1001 c:d\n", wrapped, 2);
}

static void sizes_make_any_bytes_safe(void **state)
{
    (void)state;
    static const struct pair pairs[] = {{"a\nb", ":c\n"}, {NULL, ""}, {"", NULL}};
    expect_read("%K:%V:%k%v\\n", NULL, "3:3:a\nb:c\n\n-1:0:\n0:-1:\n", pairs, 3);
}

static void what_does_not_follow_the_pattern_names_the_record(void **state)
{
    (void)state;
    static const struct {
        const char *format, *data;
        enum ot_err err;
    } rows[] = {{"<%k>\\n", "[a]\n", OT_ERR_INVALID_RECORD}, {"%k:%v;\\n", "a", OT_ERR_INVALID_RECORD}, {"%p:%v\\n", "x:1\n", OT_ERR_INVALID_RECORD},
        {"%K:%k\\n", "99999999:a\n", OT_ERR_TOO_LARGE}, {"%K:%k\\n", "5:a", OT_ERR_INVALID_RECORD}, {"%v|%h\\n", "x|noequals\n", OT_ERR_INVALID_RECORD}};
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) {
        struct reading reading;
        struct cli_record record;
        assert_int_equal(open_reading(&reading, rows[i].format, NULL, rows[i].data, strlen(rows[i].data), 1 << 20), OT_OK);
        const enum ot_err err = cli_input_next(reading.input, INT64_MAX, &record);
        if (err != rows[i].err) fail_msg("%s over %s: %s", rows[i].format, rows[i].data, ot_err_name(err));
        assert_non_null(strstr(cli_input_why(reading.input), "record 1"));
        close_reading(&reading);
    }
}

static void patterns_that_cannot_be_told_apart_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"%k%v\\n", "%v%k", "%H\\n", "csv", "json"};
    for (size_t i = 0; i < OT_ARRAY_COUNT(bad); i++) {
        struct reading reading;
        assert_int_equal(open_reading(&reading, bad[i], NULL, "", 0, 1024), OT_ERR_MALFORMED);
        reading.input = NULL;
        close_reading(&reading);
    }
}

static void a_record_above_the_limit_is_refused_before_memory_is_taken(void **state)
{
    (void)state;
    struct reading reading;
    struct cli_record record;
    const size_t bytes = 4 << 20;
    char *data = malloc(bytes);
    assert_non_null(data);
    memset(data, 'x', bytes);
    assert_int_equal(open_reading(&reading, "lines", NULL, data, bytes, 1000000), OT_OK);
    assert_int_equal(cli_input_next(reading.input, INT64_MAX, &record), OT_ERR_TOO_LARGE);
    assert_non_null(strstr(cli_input_why(reading.input), "line 1"));
    assert_true(cli_input_bytes(reading.input) < 2500000);
    close_reading(&reading);
    free(data);
}

static void ndjson_brings_all_of_a_record(void **state)
{
    (void)state;
    static const char line[] = "\n{\"topic\":\"x\",\"partition\":3,\"offset\":9,\"timestamp_ms\":77,\"key\":{\"string\":\"k\\n\"},\"value\":{\"json\":{\"a\": 1.0}},"
                               "\"headers\":[{\"name\":\"h\",\"value\":{\"base64\":\"AAE=\"}},{\"name\":\"n\",\"value\":null}],\"size_bytes\":3}\n{}\n";
    struct reading reading;
    struct cli_record record;
    assert_int_equal(open_reading(&reading, "ndjson", NULL, line, sizeof(line) - 1, 1 << 20), OT_OK);
    assert_int_equal(cli_input_next(reading.input, INT64_MAX, &record), OT_OK);
    assert_int_equal(record.partition, 3);
    assert_int_equal(record.timestamp_ms, 77);
    expect_field(record.key, "k\n");
    expect_field(record.value, "{\"a\": 1.0}"); /* not 1 and not without the blank: the bytes stay */
    assert_int_equal(record.header_count, 2);
    expect_field(record.headers[0].key, "h");
    assert_int_equal(record.headers[0].value.bytes, 2);
    assert_memory_equal(record.headers[0].value.data, "\0\1", 2);
    expect_field(record.headers[1].value, NULL);
    assert_int_equal(cli_input_next(reading.input, INT64_MAX, &record), OT_OK);
    expect_field(record.value, NULL);
    assert_int_equal(record.partition, -1);
    assert_int_equal(cli_input_next(reading.input, INT64_MAX, &record), OT_ERR_NOT_FOUND);
    close_reading(&reading);
}

static void bad_ndjson_names_the_line(void **state)
{
    (void)state;
    static const char *const bad[] = {"nonsense", "[]", "{\"valeu\":null}", "{\"value\":5}", "{\"value\":{\"text\":\"x\"}}", "{\"value\":{\"base64\":\"***\"}}",
        "{\"value\":{\"string\":5}}", "{\"value\":{\"string\":\"a\",\"json\":1}}", "{\"partition\":-1}", "{\"partition\":\"1\"}", "{\"headers\":{}}", "{\"headers\":[{\"value\":null}]}",
        "{\"timestamp_ms\":1.5}", "{\"value\":{}}", "{\"headers\":[1]}"};
    for (size_t i = 0; i < OT_ARRAY_COUNT(bad); i++) {
        struct reading reading;
        struct cli_record record;
        char data[128];
        snprintf(data, sizeof(data), "{}\n%s\n", bad[i]);
        assert_int_equal(open_reading(&reading, "ndjson", NULL, data, strlen(data), 1 << 20), OT_OK);
        assert_int_equal(cli_input_next(reading.input, INT64_MAX, &record), OT_OK);
        if (cli_input_next(reading.input, INT64_MAX, &record) != OT_ERR_INVALID_RECORD) fail_msg("taken: %s", bad[i]);
        assert_non_null(strstr(cli_input_why(reading.input), "line 2"));
        close_reading(&reading);
    }
}

/* Random bytes, JSON, texts: what ndjson prints it reads back to the byte; and so do patterns with sizes. */
static void what_is_printed_is_read_back_to_the_byte(void **state)
{
    (void)state;
    static const char *const seeds[] = {"{\"a\":1.50}", " 1", "1 ", "[1,\n2]", "plain \"text\"", "", "\xff\xfe", "null", "\"s\"", "\t{}", "0.10", "\x7f\x01"};
    static const char *const formats[] = {"ndjson", "%K %V %k %v\\n"};
    struct ot_rng rng;
    ot_rng_seed(&rng, 7);
    for (size_t f = 0; f < OT_ARRAY_COUNT(formats); f++) {
        struct cli_record records[200];
        uint8_t bytes[200][32];
        for (size_t i = 0; i < 200; i++) {
            for (size_t j = 0; j < 32; j++) bytes[i][j] = (uint8_t)ot_rng_next(&rng);
            records[i] = record_of(i % 5 == 0 ? NULL : seeds[i % OT_ARRAY_COUNT(seeds)], NULL);
            records[i].value = i % 3 == 0 ? blob(seeds[ot_rng_below(&rng, OT_ARRAY_COUNT(seeds))]) : (struct ot_blob){bytes[i], (uint32_t)ot_rng_below(&rng, 33), false};
            if (i % 7 == 0) records[i].value = blob(NULL);
        }
        struct cli_format format;
        char why[160], *out = NULL;
        size_t out_bytes = 0;
        assert_int_equal(cli_format_parse(formats[f], &format, why), OT_OK);
        FILE *to = open_memstream(&out, &out_bytes);
        struct cli_printer printer = {.to = to, .format = &format};
        for (size_t i = 0; i < 200; i++) cli_record_print(&printer, &records[i]);
        fclose(to);
        cli_format_free(&format);
        struct reading reading;
        struct cli_record got;
        assert_int_equal(open_reading(&reading, formats[f], NULL, out, out_bytes, 1 << 20), OT_OK);
        for (size_t i = 0; i < 200; i++) {
            if (cli_input_next(reading.input, INT64_MAX, &got) != OT_OK) fail_msg("%s", cli_input_why(reading.input));
            assert_int_equal(got.key.null, records[i].key.null);
            assert_int_equal(got.value.null, records[i].value.null);
            assert_int_equal(got.value.bytes, records[i].value.bytes);
            if (got.value.bytes > 0) assert_memory_equal(got.value.data, records[i].value.data, got.value.bytes);
            if (got.key.bytes > 0) assert_memory_equal(got.key.data, records[i].key.data, got.key.bytes);
        }
        close_reading(&reading);
        free(out);
    }
}

TEST_MAIN(cmocka_unit_test(each_format_prints_what_it_says), cmocka_unit_test(what_is_no_format_is_refused_with_words),
    cmocka_unit_test(lines_keep_every_byte_but_the_break), cmocka_unit_test(a_file_is_one_raw_record), cmocka_unit_test(patterns_are_cut_at_their_literals),
    cmocka_unit_test(sizes_make_any_bytes_safe), cmocka_unit_test(what_does_not_follow_the_pattern_names_the_record),
    cmocka_unit_test(patterns_that_cannot_be_told_apart_are_refused), cmocka_unit_test(a_record_above_the_limit_is_refused_before_memory_is_taken),
    cmocka_unit_test(ndjson_brings_all_of_a_record), cmocka_unit_test(bad_ndjson_names_the_line), cmocka_unit_test(what_is_printed_is_read_back_to_the_byte))
