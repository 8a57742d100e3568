#include "testing.h"

#include "base/exec.h"
#include "base/mem.h"
#include "base/metrics.h"
#include <pthread.h>

struct text {
    char data[1 << 20];
    size_t bytes;
    size_t stop_at;
};
static struct text page;

static bool keep(void *arg, const char *text, size_t bytes)
{
    struct text *to = arg;
    assert_true(to->bytes + bytes < sizeof(to->data));
    memcpy(to->data + to->bytes, text, bytes);
    to->bytes += bytes;
    to->data[to->bytes] = '\0';
    return to->stop_at == 0 || to->bytes < to->stop_at;
}

static const char *expose(struct ot_metrics *metrics)
{
    page.bytes = page.stop_at = 0;
    assert_true(ot_metrics_write_text(metrics, keep, &page));
    return page.data;
}

static void has_line(const char *text, const char *line)
{
    for (const char *at = text; (at = strstr(at, line)) != NULL; at++) {
        if ((at == text || at[-1] == '\n') && at[strlen(line)] == '\n') return;
    }
    fail_msg("no line: %s", line);
}

static void a_metric_without_labels_is_shown_from_the_start(void **state)
{
    struct ot_metrics *metrics = *state;
    const char *text = expose(metrics);
    has_line(text, "ottla_log_append_batches_total 0");
    has_line(text, "ottla_producer_ids 0");
    has_line(text, "# TYPE ottla_producer_ids gauge");
    has_line(text, "ottla_log_flush_duration_seconds_bucket{le=\"+Inf\"} 0");
    assert_null(strstr(text, "ottla_topic_bytes_in_total"));
}

static void labelled_series_are_made_once_and_counted_apart(void **state)
{
    struct ot_metrics *metrics = *state;
    const char *orders[] = {"orders"}, *other[] = {"pay\"\\\nments"};
    struct ot_series *series = ot_series_get(metrics, OT_METRIC_topic_bytes_in_total, orders);
    assert_ptr_equal(series, ot_series_get(metrics, OT_METRIC_topic_bytes_in_total, orders));
    ot_series_add(series, 9007199254740993u);
    ot_series_add(ot_series_get(metrics, OT_METRIC_topic_bytes_in_total, other), 2);
    const char *text = expose(metrics);
    has_line(text, "ottla_topic_bytes_in_total{topic=\"orders\"} 9007199254740993");
    has_line(text, "ottla_topic_bytes_in_total{topic=\"pay\\\"\\\\\\nments\"} 2");
    assert_ptr_equal(strstr(text, "# TYPE ottla_topic_bytes_in_total counter\n"), strstr(text, "# TYPE ottla_topic_bytes_in"));
}

static void every_series_is_headed_once(void **state)
{
    struct ot_metrics *metrics = *state;
    const char *a[] = {"Fetch", "NONE"}, *b[] = {"Produce", "NONE"};
    ot_series_get(metrics, OT_METRIC_requests_total, a);
    ot_series_get(metrics, OT_METRIC_requests_total, b);
    const char *text = expose(metrics), *first = strstr(text, "# TYPE ottla_requests_total ");
    assert_non_null(first);
    assert_null(strstr(first + 1, "# TYPE ottla_requests_total "));
    has_line(text, "ottla_requests_total{api=\"Produce\",error=\"NONE\"} 0");
}

static void a_gauge_goes_up_and_down(void **state)
{
    struct ot_metrics *metrics = *state;
    const char *listener[] = {"PLAINTEXT"};
    struct ot_series *series = ot_series_get(metrics, OT_METRIC_connections, listener);
    ot_series_move(series, 3);
    ot_series_move(series, -1);
    has_line(expose(metrics), "ottla_connections{listener=\"PLAINTEXT\"} 2");
    ot_series_set(ot_series_get(metrics, OT_METRIC_io_thread_busy_ratio, NULL), 0.25);
    has_line(expose(metrics), "ottla_io_thread_busy_ratio 0.25");
}

static void seconds_are_counted_in_microseconds(void **state)
{
    struct ot_metrics *metrics = *state;
    const char *quota[] = {"produce"};
    ot_series_add(ot_series_get(metrics, OT_METRIC_throttle_seconds_total, quota), 1500000);
    has_line(expose(metrics), "ottla_throttle_seconds_total{quota=\"produce\"} 1.5");
}

static void histogram_buckets_are_cumulative_and_end_with_the_count(void **state)
{
    struct ot_metrics *metrics = *state;
    const char *api[] = {"Produce"};
    struct ot_series *series = ot_series_get(metrics, OT_METRIC_request_duration_seconds, api);
    ot_series_observe_us(series, 5);
    ot_series_observe_us(series, 15);
    ot_series_observe_us(series, 1500);
    ot_series_observe_us(series, 5000000000);
    const char *text = expose(metrics);
    has_line(text, "ottla_request_duration_seconds_bucket{api=\"Produce\",le=\"1e-05\"} 1");
    has_line(text, "ottla_request_duration_seconds_bucket{api=\"Produce\",le=\"2e-05\"} 2");
    has_line(text, "ottla_request_duration_seconds_bucket{api=\"Produce\",le=\"0.001\"} 2");
    has_line(text, "ottla_request_duration_seconds_bucket{api=\"Produce\",le=\"0.002\"} 3");
    has_line(text, "ottla_request_duration_seconds_bucket{api=\"Produce\",le=\"100\"} 3");
    has_line(text, "ottla_request_duration_seconds_bucket{api=\"Produce\",le=\"+Inf\"} 4");
    has_line(text, "ottla_request_duration_seconds_count{api=\"Produce\"} 4");
    has_line(text, "ottla_request_duration_seconds_sum{api=\"Produce\"} 5000.00152");
}

static void at_the_cap_the_rest_gathers_under_other(void **state)
{
    (void)state;
    struct ot_metrics *metrics = ot_metrics_new(3);
    for (int i = 0; i < 10; i++) {
        char name[16];
        snprintf(name, sizeof(name), "t%d", i);
        const char *topic[] = {name};
        ot_series_add(ot_series_get(metrics, OT_METRIC_topic_records_in_total, topic), 1);
    }
    const char *text = expose(metrics);
    has_line(text, "ottla_topic_records_in_total{topic=\"t2\"} 1");
    has_line(text, "ottla_topic_records_in_total{topic=\"_other\"} 7");
    assert_null(strstr(text, "topic=\"t3\""));
    has_line(text, "ottla_metrics_series 3");
    has_line(text, "ottla_metrics_series_refused_total 7");
    ot_metrics_free(metrics);
}

static void a_dropped_series_disappears_and_makes_room(void **state)
{
    (void)state;
    struct ot_metrics *metrics = ot_metrics_new(1);
    const char *a[] = {"a"}, *b[] = {"b"};
    struct ot_series *held = ot_series_get(metrics, OT_METRIC_topic_bytes_in_total, a);
    ot_series_drop(metrics, OT_METRIC_topic_bytes_in_total, a);
    ot_series_add(held, 5); /* still ours */
    assert_null(strstr(expose(metrics), "topic=\"a\""));
    ot_series_release(metrics, held);
    ot_series_add(ot_series_get(metrics, OT_METRIC_topic_bytes_in_total, b), 1);
    has_line(expose(metrics), "ottla_topic_bytes_in_total{topic=\"b\"} 1");
    ot_series_release(metrics, ot_series_get(metrics, OT_METRIC_topic_bytes_in_total, b));
    has_line(expose(metrics), "ottla_topic_bytes_in_total{topic=\"b\"} 1"); /* released, not dropped */
    ot_metrics_free(metrics);
}

static void long_label_values_are_cut_between_characters(void **state)
{
    struct ot_metrics *metrics = *state;
    char name[400];
    name[0] = 'x';
    for (int i = 1; i < 399; i += 2) memcpy(name + i, "\xc3\xa9", 2);
    name[399] = '\0';
    const char *topic[] = {name};
    ot_series_get(metrics, OT_METRIC_topic_bytes_in_total, topic);
    const char *text = expose(metrics), *at = strstr(text, "{topic=\"x");
    assert_non_null(at);
    assert_int_equal(strchr(at, '}') - at, 8 + 255 + 1);
}

static void give_two(void *arg, struct ot_metric_sink *sink)
{
    assert_int_equal(*(int *)arg, 7);
    ot_metric_give(sink, (const char *[]){"orders", "0"}, 12);
    ot_metric_give(sink, (const char *[]){"orders", "1"}, 1e18);
}

static void set_gauge(void *arg, struct ot_metrics *metrics)
{
    ot_series_set(ot_series_get(metrics, OT_METRIC_partitions_led, NULL), ++*(int *)arg);
}

static void sources_and_hooks_feed_each_reading(void **state)
{
    struct ot_metrics *metrics = *state;
    int seven = 7, looks = 0;
    ot_metrics_source(metrics, OT_METRIC_log_end_offset, give_two, &seven);
    ot_metrics_before_read(metrics, set_gauge, &looks);
    ot_metrics_watch_process(metrics);
    const char *text = expose(metrics);
    has_line(text, "ottla_log_end_offset{topic=\"orders\",partition=\"0\"} 12");
    has_line(text, "ottla_log_end_offset{topic=\"orders\",partition=\"1\"} 1e+18");
    has_line(text, "ottla_partitions_led 1");
    assert_non_null(strstr(text, "\nprocess_resident_memory_bytes "));
    assert_null(strstr(text, "\nprocess_resident_memory_bytes 0\n"));
    assert_null(strstr(text, "\nprocess_open_fds 0\n"));
    has_line(expose(metrics), "ottla_partitions_led 2");
}

static void budget_and_pool_of_threads_can_be_watched(void **state)
{
    struct ot_metrics *metrics = *state;
    struct ot_mem_budget budget;
    struct ot_exec_pool *threads;
    assert_int_equal(ot_mem_budget_init(&budget, 1 << 30, ot_mem_specs, OT_MEM_POOL_COUNT, NULL, 0), OT_OK);
    assert_int_equal(ot_exec_pool_start("io", 1, &threads), OT_OK);
    budget.pools[OT_MEM_groups].cap_bytes = 100;
    ot_mem_watch(&budget, metrics);
    ot_exec_pool_watch(threads, metrics);
    assert_true(ot_mem_take(&budget.pools[OT_MEM_groups], 60));
    assert_false(ot_mem_take(&budget.pools[OT_MEM_groups], 60));
    struct ot_pool *buffers = ot_mem_pool_buffers(&budget.pools[OT_MEM_requests]);
    struct ot_buf *buf = ot_buf_new(buffers, 4096);
    assert_null(ot_buf_new(buffers, 1 << 30));
    const char *text = expose(metrics);
    has_line(text, "ottla_memory_limit_bytes 1073741824");
    has_line(text, "ottla_memory_pool_used_bytes{pool=\"groups\"} 60");
    has_line(text, "ottla_memory_pool_cap_bytes{pool=\"groups\"} 100");
    has_line(text, "ottla_memory_pool_refused_total{pool=\"groups\"} 1");
    has_line(text, "ottla_memory_pool_used_bytes{pool=\"requests\"} 4096");
    has_line(text, "ottla_memory_pool_refused_total{pool=\"requests\"} 1");
    has_line(text, "ottla_io_queue_length 0");
    ot_buf_unref(buf);
    ot_exec_pool_stop(threads);
    ot_mem_budget_free(&budget);
}

static void count_one(void *arg, const struct ot_metric_reading *reading)
{
    assert_non_null(reading->info->name);
    assert_int_equal(reading->info->type == OT_METRIC_HISTOGRAM, reading->hist != NULL);
    ++*(int *)arg;
}

static void each_visits_what_the_text_shows(void **state)
{
    int count = 0, unlabelled = 0;
    ot_metrics_each(*state, count_one, &count);
    for (int i = 0; i < OT_METRIC_COUNT; i++) unlabelled += ot_metric_info((enum ot_metric)i)->label_count == 0;
    assert_int_equal(count, unlabelled);
}

static void a_writer_that_gives_up_is_not_called_again(void **state)
{
    struct ot_metrics *metrics = *state;
    for (int i = 0; i < 300; i++) {
        char name[16];
        snprintf(name, sizeof(name), "t%d", i);
        ot_series_get(metrics, OT_METRIC_topic_bytes_in_total, (const char *[]){name});
    }
    page.bytes = 0;
    page.stop_at = 1;
    assert_false(ot_metrics_write_text(metrics, keep, &page));
    assert_true(page.bytes <= 8192);
}

static void without_a_registry_counting_does_nothing(void **state)
{
    (void)state;
    struct ot_series *series = ot_series_get(NULL, OT_METRIC_producer_ids, NULL);
    assert_null(series);
    ot_series_add(series, 1);
    ot_series_move(series, 1);
    ot_series_observe_us(series, 1);
    assert_int_equal(ot_series_total(series), 0);
}

static void names_are_well_formed(void **state)
{
    (void)state;
    for (int i = 0; i < OT_METRIC_COUNT; i++) {
        const struct ot_metric_info *info = ot_metric_info((enum ot_metric)i);
        const size_t bytes = strlen(info->name);
        assert_int_equal(strspn(info->name, "abcdefghijklmnopqrstuvwxyz_0123456789"), bytes);
        assert_true(strncmp(info->name, "ottla_", 6) == 0 || strncmp(info->name, "process_", 8) == 0);
        assert_int_equal(bytes > 6 && strcmp(info->name + bytes - 6, "_total") == 0, info->type == OT_METRIC_COUNTER);
        if (info->type == OT_METRIC_HISTOGRAM) assert_int_equal(info->unit, OT_METRIC_SECONDS);
        assert_null(strchr(info->help, '\n'));
        assert_null(strchr(info->help, '\\'));
    }
}

static void *count_much(void *arg)
{
    for (int i = 0; i < 2000; i++) {
        char name[16];
        snprintf(name, sizeof(name), "t%d", i % 50);
        const char *topic[] = {name};
        struct ot_series *series = ot_series_get(arg, OT_METRIC_topic_records_in_total, topic);
        ot_series_add(series, 1);
        ot_series_release(arg, series);
    }
    return NULL;
}

static void add_values(void *arg, const struct ot_metric_reading *reading)
{
    if (reading->metric == OT_METRIC_topic_records_in_total) *(uint64_t *)arg += reading->total;
}

static void threads_that_make_and_count_series_lose_nothing(void **state)
{
    struct ot_metrics *metrics = *state;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, count_much, metrics), 0);
    for (int i = 0; i < 5; i++) expose(metrics);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    uint64_t sum = 0;
    ot_metrics_each(metrics, add_values, &sum);
    assert_int_equal(sum, 8000);
}

static int make(void **state)
{
    return (*state = ot_metrics_new(1000)) == NULL;
}
static int destroy(void **state)
{
    return ot_metrics_free(*state), 0;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make, destroy)
    const struct CMUnitTest tests[] = {
        TEST(a_metric_without_labels_is_shown_from_the_start),
        TEST(labelled_series_are_made_once_and_counted_apart),
        TEST(every_series_is_headed_once),
        TEST(a_gauge_goes_up_and_down),
        TEST(seconds_are_counted_in_microseconds),
        TEST(histogram_buckets_are_cumulative_and_end_with_the_count),
        TEST(at_the_cap_the_rest_gathers_under_other),
        TEST(a_dropped_series_disappears_and_makes_room),
        TEST(long_label_values_are_cut_between_characters),
        TEST(sources_and_hooks_feed_each_reading),
        TEST(budget_and_pool_of_threads_can_be_watched),
        TEST(each_visits_what_the_text_shows),
        TEST(a_writer_that_gives_up_is_not_called_again),
        TEST(without_a_registry_counting_does_nothing),
        TEST(names_are_well_formed),
        TEST(threads_that_make_and_count_series_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
