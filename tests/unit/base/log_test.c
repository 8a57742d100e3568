#include "testing.h"

#include "base/log.h"
#include <jansson.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

static int fd = -1;
static char text[1 << 20];

/* All that was written since the last look. */
static const char *written(void)
{
    const ssize_t bytes = pread(fd, text, sizeof(text) - 1, 0);
    assert_true(bytes >= 0);
    text[bytes] = '\0';
    assert_int_equal(ftruncate(fd, 0), 0);
    lseek(fd, 0, SEEK_SET);
    return text;
}

static int count_lines(const char *lines)
{
    int count = 0;
    for (; *lines != '\0'; lines++) count += *lines == '\n';
    return count;
}

static void a_text_line_has_time_level_subsystem_event_and_fields(void **state)
{
    (void)state;
    ot_log(OT_LOG_WARN, "replication", "isr_shrink", "topic=%s partition=%d", "orders", 0);
    const char *line = written();
    assert_int_equal(strspn(line, "0123456789-T:.Z"), 24);
    assert_string_equal(line + 24, " WARN replication isr_shrink topic=orders partition=0\n");
    ot_log(OT_LOG_INFO, "server", "ready", "%s", "");
    assert_string_equal(written() + 24, " INFO server ready\n");
}

static json_t *json_line(void)
{
    json_error_t error;
    json_t *object = json_loads(written(), JSON_REJECT_DUPLICATES, &error);
    if (object == NULL) fail_msg("no JSON: %s in %s", error.text, text);
    return object;
}

static void a_json_line_has_the_same_fields(void **state)
{
    (void)state;
    char field[OT_LOG_FIELD_BYTES];
    ot_log_setup(OT_LOG_INFO, OT_LOG_JSON, fd);
    ot_log(OT_LOG_ERROR, "disk", "io_failed", "path=%s bytes=%d ratio=%.2f ok=true id=%s plain=a-b free words",
        ot_log_field(field, "/a b\"\\\n\x01"), -12, 0.5, "\"12\"");
    json_t *object = json_line();
    assert_string_equal(json_string_value(json_object_get(object, "level")), "ERROR");
    assert_string_equal(json_string_value(json_object_get(object, "subsystem")), "disk");
    assert_string_equal(json_string_value(json_object_get(object, "event")), "io_failed");
    assert_string_equal(json_string_value(json_object_get(object, "path")), "/a b\"\\\n\x01");
    assert_int_equal(json_integer_value(json_object_get(object, "bytes")), -12);
    assert_true(json_real_value(json_object_get(object, "ratio")) == 0.5);
    assert_true(json_is_true(json_object_get(object, "ok")));
    assert_string_equal(json_string_value(json_object_get(object, "id")), "12");
    assert_string_equal(json_string_value(json_object_get(object, "plain")), "a-b");
    assert_string_equal(json_string_value(json_object_get(object, "text")), "free words");
    assert_int_equal(strlen(json_string_value(json_object_get(object, "time"))), 24);
    json_decref(object);
}

static void whatever_is_formatted_a_line_stays_one_line_and_json_stays_json(void **state)
{
    (void)state;
    static const char *const nasty[] = {"a=\"b", "a=b\"c\" d", "=x", "\"", "a=\"\\\"", "a=\n\r\t\x7f\x1b[31m", "a=\xff\xfe", "a==b",
        "a=\"x\"y\" b=1", "  a=1  b=2 ", "a=007", "a=-", "a=1.", "a=\"\\u12\" b", "a=\"\\q\""};
    for (size_t i = 0; i < OT_ARRAY_COUNT(nasty); i++) {
        char event[16];
        snprintf(event, sizeof(event), "nasty%zu", i);
        ot_log_setup(OT_LOG_INFO, OT_LOG_JSON, fd);
        ot_log(OT_LOG_INFO, "test", event, "%s", nasty[i]);
        json_decref(json_line());
        ot_log_setup(OT_LOG_INFO, OT_LOG_TEXT, fd);
        ot_log(OT_LOG_INFO, "test", event, "%s", nasty[i]);
        const char *line = written();
        assert_int_equal(count_lines(line), 1);
        for (const char *c = line; c[1] != '\0'; c++) assert_true((unsigned char)*c >= 0x20 && *c != 0x7f);
    }
}

static void an_endless_line_is_cut_and_still_valid(void **state)
{
    (void)state;
    static char big[20000];
    for (size_t i = 0; i < sizeof(big) - 1; i++) big[i] = i % 100 == 0 ? ' ' : i % 100 == 3 ? '=' : i % 100 > 90 ? '\n' : 'x';
    for (int format = OT_LOG_TEXT; format <= OT_LOG_JOURNAL; format++) {
        ot_log_setup(OT_LOG_INFO, (enum ot_log_format)format, fd);
        ot_log(OT_LOG_INFO, "test", "big", "%s", big);
        const char *line = written();
        assert_int_equal(count_lines(line), 1);
        assert_in_range(strlen(line), 1000, 10000);
        if (format != OT_LOG_JSON) continue;
        json_error_t error;
        json_t *object = json_loads(line, 0, &error);
        assert_non_null(object);
        json_decref(object);
    }
}

static void a_field_is_quoted_when_it_must_be(void **state)
{
    (void)state;
    static const struct {
        const char *value, *field;
    } rows[] = {{"orders", "orders"}, {"", "\"\""}, {"a b", "\"a b\""}, {"a=b", "\"a=b\""}, {"say \"hi\"", "\"say \\\"hi\\\"\""},
        {"12", "\"12\""}, {"1.5", "\"1.5\""}, {"1.2.3", "1.2.3"}, {"-", "-"}, {"a\nb", "\"a\\nb\""}, {"caf\xc3\xa9", "caf\xc3\xa9"},
        {"\xff", "\"?\""}, {NULL, "null"}};
    char field[OT_LOG_FIELD_BYTES];
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) assert_string_equal(ot_log_field(field, rows[i].value), rows[i].field);
    assert_string_equal(ot_log_field_n(field, "abcdef", 3), "abc");
}

static void a_long_field_is_cut_between_characters(void **state)
{
    (void)state;
    char value[2000], field[OT_LOG_FIELD_BYTES];
    for (size_t shift = 0; shift < 4; shift++) {
        memset(value, 'x', shift);
        for (size_t i = shift; i + 3 < sizeof(value); i += 3) memcpy(value + i, "\xe2\x82\xac", 3), value[i + 3] = '\0';
        ot_log_field(field, value);
        const size_t bytes = strlen(field);
        assert_in_range(bytes, 300, OT_LOG_FIELD_BYTES - 1);
        assert_string_equal(field + bytes - 3, "\xe2\x80\xa6");
        assert_int_equal((bytes - shift) % 3, 0);
        memset(value, '\n', 500);
        assert_true(strlen(ot_log_field(field, value)) < OT_LOG_FIELD_BYTES);
        assert_int_equal(field[strlen(field) - 1], '"');
    }
}

static void levels_are_of_all_or_of_one_subsystem(void **state)
{
    (void)state;
    assert_true(ot_log_enabled("engine", OT_LOG_INFO));
    assert_false(ot_log_enabled("engine", OT_LOG_DEBUG));
    ot_log_set_level("engine", OT_LOG_TRACE);
    assert_true(ot_log_enabled("engine", OT_LOG_TRACE));
    assert_false(ot_log_enabled("broker", OT_LOG_DEBUG));
    ot_log_set_level("engine", OT_LOG_ERROR);
    assert_false(ot_log_enabled("engine", OT_LOG_WARN));
    assert_true(ot_log_enabled("broker", OT_LOG_WARN));
    ot_log(OT_LOG_WARN, "engine", "hidden", "%s", "x=1");
    ot_log(OT_LOG_WARN, "broker", "shown", "%s", "x=1");
    assert_int_equal(count_lines(written()), 1);
    ot_log_set_level(NULL, OT_LOG_DEBUG);
    assert_true(ot_log_enabled("engine", OT_LOG_DEBUG));
    for (int i = 0; i < 50; i++) { /* more names than there is room for */
        char name[16];
        snprintf(name, sizeof(name), "s%d", i);
        ot_log_set_level(name, OT_LOG_TRACE);
    }
    assert_false(ot_log_enabled("engine", OT_LOG_TRACE));
    enum ot_log_level level;
    assert_true(ot_log_level_parse("Debug", &level));
    assert_int_equal(level, OT_LOG_DEBUG);
    assert_false(ot_log_level_parse("loud", &level));
}

static void repeats_collapse_to_a_count(void **state)
{
    (void)state;
    for (int i = 0; i < 500; i++) ot_log(OT_LOG_WARN, "network", "refused", "n=%d", i);
    ot_log_flush();
    const char *lines = written();
    int repeated = 0, shown = 0, sum = 0;
    for (const char *line = lines; *line != '\0'; line = strchr(line, '\n') + 1) {
        const char *count = strstr(line, " WARN network refused repeated=");
        if (count != NULL && count < strchr(line, '\n'))
            repeated++, sum += atoi(strchr(count, '=') + 1);
        else
            shown++;
    }
    assert_true(repeated >= 1);
    assert_int_equal(shown + sum, 500); /* none is lost, even if the second passed meanwhile */
    assert_in_range(shown, 10, 100);
    ot_log(OT_LOG_WARN, "network", "other", "%s", "n=1");
    assert_int_equal(count_lines(written()), 1); /* another event is not held back */
    ot_log_flush();
    assert_int_equal(count_lines(written()), 0);
}

static void audit_lines_are_never_held_back(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) ot_log(OT_LOG_INFO, "audit", "rest", "n=%d", i);
    assert_int_equal(count_lines(written()), 100);
}

static void under_the_journal_a_line_has_its_priority_and_no_time(void **state)
{
    (void)state;
    ot_log_setup(OT_LOG_DEBUG, OT_LOG_JOURNAL, fd);
    ot_log(OT_LOG_ERROR, "disk", "offline", "dir=%s", "/d");
    assert_string_equal(written(), "<3>ERROR disk offline dir=/d\n");
    struct stat stat;
    char stream[64];
    assert_int_equal(fstat(fd, &stat), 0);
    assert_false(ot_log_is_journal(fd));
    snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)stat.st_dev, (unsigned long long)stat.st_ino);
    setenv("JOURNAL_STREAM", stream, 1);
    assert_true(ot_log_is_journal(fd));
    assert_false(ot_log_is_journal(-1));
    setenv("JOURNAL_STREAM", "1:2", 1);
    assert_false(ot_log_is_journal(fd));
    unsetenv("JOURNAL_STREAM");
}

static void *log_much(void *arg)
{
    for (int i = 0; i < 300; i++)
        ot_log(OT_LOG_INFO, "threads", (const char *)arg, "n=%d text=%s", i, "abcdefghijklmnopqrstuvwxyz");
    return NULL;
}

static void *change_levels(void *arg)
{
    for (int i = 0; i < 300; i++) {
        ot_log_set_level("threads", OT_LOG_INFO);
        ot_log_set_level("elsewhere", OT_LOG_TRACE);
    }
    return arg;
}

static void lines_of_threads_do_not_mix(void **state)
{
    (void)state;
    static const char *const events[] = {"one", "two", "three"};
    pthread_t threads[4];
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, log_much, (void *)(uintptr_t)events[i]), 0);
    assert_int_equal(pthread_create(&threads[3], NULL, change_levels, NULL), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    ot_log_flush();
    for (const char *line = written(); *line != '\0'; line = strchr(line, '\n') + 1) {
        assert_int_equal(line[4], '-');
        assert_memory_equal(line + 24, " INFO threads ", 14);
        const char *end = strchr(line, '\n');
        assert_true(end[-1] == 'z' || (end[-1] >= '0' && end[-1] <= '9'));
    }
}

static int setup(void **state)
{
    (void)state;
    fd = memfd_create("log", 0);
    ot_log_setup(OT_LOG_INFO, OT_LOG_TEXT, fd);
    return fd < 0;
}
static int teardown(void **state)
{
    (void)state;
    ot_log_flush();
    ot_log_setup(OT_LOG_INFO, OT_LOG_TEXT, 2);
    return close(fd);
}

static void the_last_lines_can_be_asked_for(void **state)
{
    (void)state;
    static char recent[OT_LOG_RECENT_BYTES], small[100];
    (void)written();
    ot_log(OT_LOG_INFO, "audit", "first", "n=%d", 1);
    const char *line = written();
    size_t bytes = ot_log_recent(recent, sizeof(recent));
    assert_true(bytes >= strlen(line));
    assert_memory_equal(recent + bytes - strlen(line), line, strlen(line));
    for (int i = 0; i < 6000; i++) ot_log(OT_LOG_INFO, "audit", "many", "n=%d filler=%060d", i, i);
    (void)written();
    bytes = ot_log_recent(recent, sizeof(recent));
    assert_in_range(bytes, sizeof(recent) - 200, sizeof(recent));
    assert_int_equal(strspn(recent, "0123456789-T:.Z"), 24);            /* whole lines alone */
    assert_memory_equal(recent + bytes - 10, "000005999\n", 10);
    bytes = ot_log_recent(small, sizeof(small));
    assert_int_equal(bytes, 0);                                         /* no whole line fits */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_text_line_has_time_level_subsystem_event_and_fields),
        TEST(a_json_line_has_the_same_fields),
        TEST(whatever_is_formatted_a_line_stays_one_line_and_json_stays_json),
        TEST(an_endless_line_is_cut_and_still_valid),
        TEST(a_field_is_quoted_when_it_must_be),
        TEST(a_long_field_is_cut_between_characters),
        TEST(levels_are_of_all_or_of_one_subsystem),
        TEST(repeats_collapse_to_a_count),
        TEST(audit_lines_are_never_held_back),
        TEST(under_the_journal_a_line_has_its_priority_and_no_time),
        TEST(lines_of_threads_do_not_mix),
        TEST(the_last_lines_can_be_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
