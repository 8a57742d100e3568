/* rest/history.h: what the numbers were, step by step, with a clock that the test moves. */
#include "rest/history.h"
#include "base/util.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define START_MS INT64_C(1700000000000)        /* a multiple of all steps but the quarter of an hour */

static struct ot_metrics *metrics;
static struct rest_history history;
static int64_t now_ms;

static int setup(void **state)
{
    (void)state;
    now_ms = START_MS;
    metrics = ot_metrics_new(1000);
    rest_history_init(&history, metrics, NULL, 100);
    return metrics == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    rest_history_free(&history);
    ot_metrics_free(metrics);
    return 0;
}

static void pass(int64_t ms)
{
    for (int64_t end_ms = now_ms + ms; now_ms < end_ms; now_ms += 5000) rest_history_tick(&history, now_ms);
}

static struct ot_series *counter(enum ot_metric metric, const char *label)
{
    const char *labels[] = { label, "NONE" };
    return ot_series_get(metrics, metric, labels);
}

static double value(enum rest_history_kind kind, const char *entity, const char *name, uint32_t ring, int64_t at_ms)
{
    const struct rest_history_entity *found = rest_history_find(&history, kind, entity);
    for (uint32_t i = 0; found != NULL && i < found->series_count; i++)
        if (strcmp(found->series[i].row->name, name) == 0) return rest_history_value(&history, &found->series[i], ring, at_ms / rest_history_rings[kind][ring].step_ms);
    return -1;
}

static bool near(double a, double b) { return fabs(a - b) < 0.001 * (1 + fabs(b)); }

static void rates_are_over_their_step_and_sum_their_topics(void **state)
{
    (void)state;
    struct ot_series *one = counter(OT_METRIC_topic_bytes_in_total, "one"), *two = counter(OT_METRIC_topic_bytes_in_total, "two");
    pass(10000);
    for (int i = 0; i < 12; i++) {
        ot_series_add(one, 1000);
        ot_series_add(two, 3000);
        pass(5000);
    }
    pass(5000);
    assert_true(near(value(REST_HISTORY_BROKER, "", "bytes_in_per_second", 0, START_MS + 30000), 800));
    assert_true(near(value(REST_HISTORY_TOPIC, "one", "bytes_in_per_second", 0, START_MS + 30000), 200));
    assert_true(near(value(REST_HISTORY_TOPIC, "two", "bytes_in_per_second", 0, START_MS + 30000), 600));
    assert_true(isnan(value(REST_HISTORY_BROKER, "", "bytes_in_per_second", 0, START_MS - 10000)));
    assert_true(isnan(value(REST_HISTORY_BROKER, "", "bytes_in_per_second", 0, now_ms)));       /* under way, or to come */
}

static void a_gauge_is_the_mean_and_a_minute_knows_what_its_tens_knew(void **state)
{
    (void)state;
    const char *labels[] = { "PLAINTEXT" };
    struct ot_series *connections = ot_series_get(metrics, OT_METRIC_connections, labels);
    now_ms = START_MS / 60000 * 60000;
    const int64_t begin_ms = now_ms;
    pass(5000);
    for (int i = 0; i < 30; i++) {
        ot_series_set(connections, i % 2 == 0 ? 10 : 20);
        pass(5000);
    }
    assert_true(near(value(REST_HISTORY_BROKER, "", "connections", 0, begin_ms + 60000), 15));
    assert_true(near(value(REST_HISTORY_BROKER, "", "connections", 1, begin_ms + 60000), 15));
}

static void percentiles_are_of_the_step_alone(void **state)
{
    (void)state;
    const char *labels[] = { "Produce" };
    struct ot_series *duration = ot_series_get(metrics, OT_METRIC_request_duration_seconds, labels);
    pass(15000);
    for (int i = 0; i < 1000; i++) ot_series_observe_us(duration, 1000);
    pass(10000);
    for (int i = 0; i < 10; i++) ot_series_observe_us(duration, 50000);        /* few, but all there is in this step */
    pass(10000);
    pass(10000);
    assert_true(fabs(value(REST_HISTORY_BROKER, "", "produce_latency_p99_ms", 0, START_MS + 10000) - 1) < 0.06);
    assert_true(fabs(value(REST_HISTORY_BROKER, "", "produce_latency_p50_ms", 0, START_MS + 20000) - 50) < 2.6);
    assert_true(isnan(value(REST_HISTORY_BROKER, "", "produce_latency_p50_ms", 0, START_MS + 30000)));
}

static void a_pause_is_a_gap_and_a_ring_forgets(void **state)
{
    (void)state;
    struct ot_series *one = counter(OT_METRIC_topic_records_in_total, "one");
    pass(15000);
    ot_series_add(one, 50);
    pass(20000);
    assert_true(near(value(REST_HISTORY_TOPIC, "one", "records_in_per_second", 0, START_MS + 10000), 5));
    now_ms += 300000;                          /* nobody looked for five minutes */
    pass(30000);
    assert_true(near(value(REST_HISTORY_TOPIC, "one", "records_in_per_second", 0, START_MS + 10000), 5));
    for (int64_t at_ms = START_MS + 40000; at_ms < START_MS + 330000; at_ms += 10000) assert_true(isnan(value(REST_HISTORY_TOPIC, "one", "records_in_per_second", 0, at_ms)));
    pass(3600000);
    assert_true(isnan(value(REST_HISTORY_TOPIC, "one", "records_in_per_second", 0, START_MS + 10000)));
    assert_true(near(value(REST_HISTORY_TOPIC, "one", "records_in_per_second", 0, now_ms - 600000), 0));
}

static void a_clock_that_goes_back_overwrites_nothing(void **state)
{
    (void)state;
    struct ot_series *one = counter(OT_METRIC_topic_records_in_total, "one");
    pass(15000);
    ot_series_add(one, 50);
    pass(20000);
    now_ms -= 3600000;
    pass(60000);
    assert_true(near(value(REST_HISTORY_TOPIC, "one", "records_in_per_second", 0, START_MS + 10000), 5));
}

static void what_has_no_room_is_summed_and_what_is_gone_is_forgotten(void **state)
{
    (void)state;
    char name[32];
    pass(15000);
    for (int i = 0; i < 40; i++) {             /* 3 series each: 34 have room */
        snprintf(name, sizeof(name), "topic-%d", i);
        struct ot_series *one = counter(OT_METRIC_topic_bytes_in_total, name);
        ot_series_add(one, 1000);
        ot_series_release(metrics, one);
    }
    pass(20000);
    assert_true(history.series_count <= 100 + 3);
    assert_non_null(rest_history_find(&history, REST_HISTORY_TOPIC, "_other"));
    assert_true(near(value(REST_HISTORY_BROKER, "", "bytes_in_per_second", 0, START_MS + 10000), 4000));
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof(name), "topic-%d", i);
        ot_series_drop(metrics, OT_METRIC_topic_bytes_in_total, (const char *[]){ name });
    }
    pass(3700000);
    assert_int_equal(history.series_count, 0);
    assert_null(rest_history_find(&history, REST_HISTORY_TOPIC, "topic-3"));
}

static void it_outlives_a_stop(void **state)
{
    (void)state;
    size_t bytes = 0;
    struct ot_series *one = counter(OT_METRIC_topic_records_in_total, "one");
    pass(15000);
    ot_series_add(one, 50);
    pass(20000);
    char *data = rest_history_pack(&history, &bytes);
    assert_non_null(data);
    rest_history_free(&history);
    rest_history_init(&history, metrics, NULL, 100);
    assert_int_equal(rest_history_unpack(&history, data, bytes, now_ms), OT_OK);
    now_ms += 60000;
    pass(20000);
    assert_true(near(value(REST_HISTORY_TOPIC, "one", "records_in_per_second", 0, START_MS + 10000), 5));
    assert_true(isnan(value(REST_HISTORY_TOPIC, "one", "records_in_per_second", 0, START_MS + 50000)));
    for (size_t at = 0; at < bytes; at += 1 + bytes / 97) {        /* a flipped bit anywhere, an end anywhere */
        struct rest_history other;
        rest_history_init(&other, NULL, NULL, 100);
        data[at] ^= 4;
        assert_int_not_equal(rest_history_unpack(&other, data, bytes, now_ms), OT_OK);
        data[at] ^= 4;
        assert_int_not_equal(rest_history_unpack(&other, data, at, now_ms), OT_OK);
        assert_int_equal(other.entities.count, 0);
        rest_history_free(&other);
    }
    free(data);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = { TEST(rates_are_over_their_step_and_sum_their_topics), TEST(a_gauge_is_the_mean_and_a_minute_knows_what_its_tens_knew),
        TEST(percentiles_are_of_the_step_alone), TEST(a_pause_is_a_gap_and_a_ring_forgets), TEST(a_clock_that_goes_back_overwrites_nothing),
        TEST(what_has_no_room_is_summed_and_what_is_gone_is_forgotten), TEST(it_outlives_a_stop) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
