#include "testing.h"

#include "cli/place.h"
#include "cli/socket.h"
#include "cli/table.h"

static const struct cli_column columns[] = {
    {"name", CLI_COLUMN_TEXT, false}, {"partitions", CLI_COLUMN_NUMBER, false}, {"size_bytes", CLI_COLUMN_BYTES, false}, {"topic_id", CLI_COLUMN_TEXT, true}, {"state", CLI_COLUMN_STATE, false}};

static char *printed(enum cli_output output, uint32_t width, bool exact, bool heads, bool colour)
{
    struct cli_table table = {.output = output, .width = width, .exact_bytes = exact, .heads = heads, .colour = colour, .columns = columns, .column_count = OT_ARRAY_COUNT(columns)};
    char *out = NULL;
    size_t bytes = 0;
    cli_table_text(&table, "\xc3\xa9t\xc3\xa9");
    cli_table_number(&table, 3);
    cli_table_number(&table, 1536);
    cli_table_text(&table, "id1");
    cli_table_text(&table, "online");
    cli_table_text(&table, "a,\"b\"\033[31m");
    cli_table_number(&table, 12);
    cli_table_text(&table, NULL);
    cli_table_text(&table, NULL);
    cli_table_text(&table, "offline");
    FILE *to = open_memstream(&out, &bytes);
    assert_true(cli_table_print(&table, to));
    fclose(to);
    return out;
}

static void expect(enum cli_output output, uint32_t width, bool exact, bool heads, const char *wanted)
{
    char *got = printed(output, width, exact, heads, false);
    assert_string_equal(got, wanted);
    free(got);
}

static void tables_align_and_never_pass_control_bytes(void **state)
{
    (void)state;
    expect(CLI_OUT_TABLE, 0, false, true, "NAME        PARTITIONS     SIZE  STATE\n\xc3\xa9t\xc3\xa9                  3  1.5 KiB  online\na,\"b\"?[31m          12        -  offline\n");
    expect(CLI_OUT_TABLE, 0, true, false, "\xc3\xa9t\xc3\xa9          3  1536  online\na,\"b\"?[31m  12     -  offline\n");
    expect(CLI_OUT_WIDE, 0, false, false, "\xc3\xa9t\xc3\xa9          3  1.5 KiB  id1  online\na,\"b\"?[31m  12        -  -    offline\n");
}

static void lines_are_cut_to_the_width_of_the_terminal(void **state)
{
    (void)state;
    for (uint32_t width = 1; width < 60; width++) {
        char *got = printed(CLI_OUT_TABLE, width, false, true, false);
        for (char *line = got, *next; *line != 0; line = next) {
            next = strchr(line, '\n');
            assert_non_null(next);
            *next++ = 0;
            assert_true(cli_text_columns(line) <= width);
        }
        free(got);
    }
    expect(CLI_OUT_TABLE, 14, false, true, "NAME        P\xe2\x80\xa6\n\xc3\xa9t\xc3\xa9          \xe2\x80\xa6\na,\"b\"?[31m   \xe2\x80\xa6\n");
}

static void machines_get_whole_values(void **state)
{
    (void)state;
    expect(CLI_OUT_CSV, 0, false, true, "name,partitions,size_bytes,topic_id,state\r\n\xc3\xa9t\xc3\xa9,3,1536,id1,online\r\n\"a,\"\"b\"\"\033[31m\",12,,,offline\r\n");
    expect(CLI_OUT_NDJSON, 0, false, true,
        "{\"name\":\"\xc3\xa9t\xc3\xa9\",\"partitions\":3,\"size_bytes\":1536,\"topic_id\":\"id1\",\"state\":\"online\"}\n"
        "{\"name\":\"a,\\\"b\\\"\\u001b[31m\",\"partitions\":12,\"size_bytes\":null,\"topic_id\":null,\"state\":\"offline\"}\n");
    expect(CLI_OUT_NAME, 0, false, true, "\xc3\xa9t\xc3\xa9\na,\"b\"\033[31m\n");
}

static void colour_stands_beside_the_word(void **state)
{
    (void)state;
    char *got = printed(CLI_OUT_TABLE, 0, false, true, true);
    assert_non_null(strstr(got, "\033[32monline\033[0m"));
    assert_non_null(strstr(got, "\033[31moffline\033[0m"));
    free(got);
}

static void places_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum cli_place_kind kind;
        int64_t value;
    } rows[] = {{"earliest", CLI_PLACE_EARLIEST, 0}, {"beginning", CLI_PLACE_EARLIEST, 0}, {"latest", CLI_PLACE_LATEST, 0}, {"end", CLI_PLACE_LATEST, 0}, {"-10", CLI_PLACE_BACK, 10},
        {"42", CLI_PLACE_OFFSET, 42}, {"0", CLI_PLACE_OFFSET, 0}, {"1970-01-01T00:00:01Z", CLI_PLACE_TIME, 1000}, {"30s", CLI_PLACE_TIME, 1000000 - 30000}, {"2m", CLI_PLACE_TIME, 1000000 - 120000}};
    static const char *const bad[] = {"", "soon", "1x", "s", "99999999999999999999", "2h", "-", "--1"}; /* 2h is before 1970 here */
    struct cli_place place;
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) {
        if (!cli_place_parse(rows[i].text, 1000000, &place)) fail_msg("refused: %s", rows[i].text);
        assert_int_equal(place.kind, rows[i].kind);
        assert_int_equal(place.value, rows[i].value);
    }
    for (size_t i = 0; i < OT_ARRAY_COUNT(bad); i++)
        if (cli_place_parse(bad[i], 1000000, &place)) fail_msg("taken: %s", bad[i]);
}

static void hosts_and_ports_are_split(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host;
        uint16_t port;
    } rows[] = {{"a:1", "a", 1}, {"a", "a", 9092}, {"[::1]:5", "::1", 5}, {"[::1]", "::1", 9092}, {"fe80::1", "fe80::1", 9092}, {"10.0.0.1:65535", "10.0.0.1", 65535}};
    static const char *const bad[] = {"", ":1", "a:", "a:0", "a:65536", "a:x", "[::1", "[::1]x", "[]:1"};
    char host[CLI_HOST_BYTES];
    uint16_t port;
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) {
        assert_true(cli_address_split(rows[i].text, strlen(rows[i].text), 9092, host, &port));
        assert_string_equal(host, rows[i].host);
        assert_int_equal(port, rows[i].port);
    }
    for (size_t i = 0; i < OT_ARRAY_COUNT(bad); i++)
        if (cli_address_split(bad[i], strlen(bad[i]), 9092, host, &port)) fail_msg("taken: %s", bad[i]);
}

TEST_MAIN(cmocka_unit_test(tables_align_and_never_pass_control_bytes), cmocka_unit_test(lines_are_cut_to_the_width_of_the_terminal), cmocka_unit_test(machines_get_whole_values),
    cmocka_unit_test(colour_stands_beside_the_word), cmocka_unit_test(places_are_told_apart), cmocka_unit_test(hosts_and_ports_are_split))
