/* Each allocation of base fails once: an error, nothing lost that was there before, nothing left behind. */
#include "testing.h"

#include "alloc_fault.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/exec.h"
#include "base/io.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/properties.h"

static int64_t live_before;

static int remember(void **state)
{
    return (void)state, live_before = alloc_live(), 0;
}
static int compare(void **state)
{
    return (void)state, alloc_live() != live_before;
}

static void a_map_keeps_what_it_has(void **state)
{
    (void)state;
    uint64_t n = 1;
    for (bool fired = true; fired; n++) {
        struct ot_map map;
        uint32_t put = 0;
        ot_map_init(&map);
        alloc_fail_at(n);
        for (uint32_t i = 0; i < 40; i++) {
            const enum ot_err err = ot_map_put(&map, &i, sizeof(i), &map);
            assert_true(err == OT_OK || (err == OT_ERR_NO_MEMORY && ot_map_get(&map, &i, sizeof(i)) == NULL));
            put += err == OT_OK;
        }
        fired = alloc_fired();
        assert_int_equal(put, fired ? 39 : 40);
        assert_int_equal(map.count, put);
        uint32_t found = 0;
        for (uint32_t i = 0; i < 40; i++) found += ot_map_get(&map, &i, sizeof(i)) == &map;
        assert_int_equal(found, put);
        ot_map_free(&map);
    }
    assert_true(n > 40);
}

static void an_arena_answers_null_and_goes_on(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        struct ot_arena arena;
        int refused = 0;
        ot_arena_init(&arena, 1 << 20);
        alloc_fail_at(n);
        for (int i = 0; i < 50; i++) refused += ot_arena_alloc(&arena, 1500) == NULL;
        const bool fired = alloc_fired();
        assert_int_equal(refused, fired ? 1 : 0);
        ot_arena_free(&arena);
        if (!fired) break;
    }
}

static void a_pool_charges_nothing_for_what_it_could_not_make(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        alloc_fail_at(n);
        struct ot_pool *pool = ot_pool_new("p", 1 << 20, 1 << 20);
        struct ot_buf *buf = pool == NULL ? NULL : ot_buf_new(pool, 1000);
        const bool fired = alloc_fired();
        assert_int_equal(fired, buf == NULL);
        if (pool != NULL && buf == NULL) assert_int_equal(ot_pool_used_bytes(pool), 0);
        ot_buf_unref(buf);
        ot_pool_free(pool);
        if (!fired) break;
    }
}

static void a_kept_buffer_costs_no_allocation(void **state)
{
    (void)state;
    struct ot_pool *pool = ot_pool_new("p", 1 << 20, 1 << 20);
    ot_buf_unref(ot_buf_new(pool, 10000));
    const uint64_t before = alloc_count();
    for (int i = 0; i < 100; i++) ot_buf_unref(ot_buf_new(pool, 10000));
    assert_int_equal(alloc_count(), before);
    ot_pool_free(pool);
}

static void executors_start_or_leave_nothing(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        struct ot_exec_pool *pool = NULL;
        struct ot_exec_thread *thread = NULL;
        alloc_fail_at(n);
        const enum ot_err pool_err = ot_exec_pool_start("pool", 2, &pool), thread_err = ot_exec_thread_start("thread", &thread);
        const bool fired = alloc_fired();
        assert_int_equal(pool_err == OT_OK, pool != NULL);
        assert_int_equal(thread_err == OT_OK, thread != NULL);
        assert_int_equal(fired, pool == NULL || thread == NULL);
        ot_exec_pool_stop(pool);
        ot_exec_thread_stop(thread);
        if (!fired) break;
    }
}

static void a_reserve_that_fails_leaves_the_heap_as_it_was(void **state)
{
    (void)state;
    struct ot_timer_heap heap = {0};
    struct ot_timer timer = {0};
    ot_timer_heap_set(&heap, &timer, 5);
    alloc_fail_at(1);
    assert_int_equal(ot_timer_heap_reserve(&heap, 100000), OT_ERR_NO_MEMORY);
    assert_true(alloc_fired());
    assert_ptr_equal(ot_timer_heap_first(&heap), &timer);
    ot_timer_heap_free(&heap);
}

static void a_series_without_memory_is_still_one_to_count_on(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        alloc_fail_at(n);
        struct ot_metrics *metrics = ot_metrics_new(100);
        if (metrics != NULL) {
            for (int i = 0; i < 5; i++) {
                char name[16];
                snprintf(name, sizeof(name), "t%d", i);
                struct ot_series *count = ot_series_get(metrics, OT_METRIC_topic_bytes_in_total, (const char *[]){name});
                struct ot_series *time = ot_series_get(metrics, OT_METRIC_request_duration_seconds, (const char *[]){name});
                assert_non_null(count);
                assert_non_null(time);
                ot_series_add(count, 1);
                ot_series_observe_us(time, 1);
                ot_series_release(metrics, count);
                ot_series_release(metrics, time);
            }
        }
        const bool fired = alloc_fired();
        assert_true(fired || metrics != NULL);
        ot_metrics_free(metrics);
        if (!fired) break;
    }
}

static void counting_on_a_known_series_costs_no_allocation(void **state)
{
    (void)state;
    struct ot_metrics *metrics = ot_metrics_new(100);
    const char *topic[] = {"orders"};
    ot_series_get(metrics, OT_METRIC_topic_bytes_in_total, topic);
    const uint64_t before = alloc_count();
    for (int i = 0; i < 100; i++) ot_series_add(ot_series_get(metrics, OT_METRIC_topic_bytes_in_total, topic), 1);
    assert_int_equal(alloc_count(), before);
    ot_metrics_free(metrics);
}

static enum ot_err take(void *arg, int line, const char *key, const char *value)
{
    (void)arg, (void)line, (void)key, (void)value;
    return OT_OK;
}

static void files_properties_and_budgets_fail_whole(void **state)
{
    (void)state;
    char dir[200], path[300], *data;
    temp_dir_make(dir, sizeof(dir));
    snprintf(path, sizeof(path), "%s/file", dir);
    assert_int_equal(ot_io_replace_file(ot_io_real(), path, "old", 3, false), OT_OK);
    alloc_fail_at(1);
    assert_int_equal(ot_io_replace_file(ot_io_real(), path, "new", 3, false), OT_ERR_NO_MEMORY);
    alloc_fail_at(1);
    assert_int_equal(ot_io_read_file(ot_io_real(), path, 100, &data, NULL), OT_ERR_NO_MEMORY);
    assert_true(alloc_fired());
    assert_int_equal(ot_io_read_file(ot_io_real(), path, 100, &data, NULL), OT_OK);
    assert_string_equal(data, "old");
    free(data);
    alloc_fail_at(2); /* while it grows */
    assert_int_equal(ot_io_read_file(ot_io_real(), "/proc/self/status", 100000, &data, NULL), OT_ERR_NO_MEMORY);
    assert_true(alloc_fired());
    alloc_fail_at(1);
    assert_int_equal(ot_properties_parse("a=b", 3, take, NULL, NULL), OT_ERR_NO_MEMORY);
    struct ot_mem_budget budget;
    alloc_fail_at(1);
    assert_int_equal(ot_mem_budget_init(&budget, 1000, ot_mem_specs, OT_MEM_POOL_COUNT, NULL, 0), OT_ERR_NO_MEMORY);
    assert_true(alloc_fired());
    temp_dir_remove(dir);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, remember, compare)
    const struct CMUnitTest tests[] = {
        TEST(a_map_keeps_what_it_has),
        TEST(an_arena_answers_null_and_goes_on),
        TEST(a_pool_charges_nothing_for_what_it_could_not_make),
        TEST(a_kept_buffer_costs_no_allocation),
        TEST(executors_start_or_leave_nothing),
        TEST(a_reserve_that_fails_leaves_the_heap_as_it_was),
        TEST(a_series_without_memory_is_still_one_to_count_on),
        TEST(counting_on_a_known_series_costs_no_allocation),
        TEST(files_properties_and_budgets_fail_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
