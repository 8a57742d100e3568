#include "testing.h"

#include "base/mem.h"
#include "base/os.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>

static char dir[200], paths[3][300];
static struct ot_os_files files;

/* Writes text to dir/name, making the folders on the way. */
static void put(const char *name, const char *text)
{
    char path[400];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    for (char *slash = path + strlen(dir) + 1; (slash = strchr(slash, '/')) != NULL; *slash++ = '/') {
        *slash = '\0';
        (void)mkdir(path, 0700);
    }
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void limit_is(uint64_t bytes, const char *source)
{
    const char *found = NULL;
    assert_true(ot_os_memory_limit_bytes(&files, &found) == bytes);
    assert_string_equal(found, source);
}

static void without_cgroups_the_machine_is_the_limit(void **state)
{
    (void)state;
    put("meminfo", "MemTotal:       24683980 kB\nMemFree: 1 kB\n");
    limit_is(UINT64_C(24683980) * 1024, "physical memory");
    put("cgroup", "");
    limit_is(UINT64_C(24683980) * 1024, "physical memory");
    put("cgroup", "garbage\n::\n0::\n5:memory");
    limit_is(UINT64_C(24683980) * 1024, "physical memory");
}

static void the_smallest_limit_on_the_way_to_the_root_counts(void **state)
{
    (void)state;
    put("meminfo", "MemTotal: 8388608 kB\n");
    put("cgroup", "0::/system.slice/ottla.service\n");
    put("sys/system.slice/ottla.service/memory.max", "max\n");
    put("sys/system.slice/ottla.service/memory.high", "max\n");
    limit_is(UINT64_C(8) << 30, "physical memory");
    put("sys/system.slice/memory.max", "2147483648\n");
    limit_is(UINT64_C(2) << 30, "cgroup v2");
    put("sys/system.slice/ottla.service/memory.max", "1073741824\n");
    limit_is(UINT64_C(1) << 30, "cgroup v2");
    put("sys/memory.max", "536870912\n"); /* the root of a container's own view */
    limit_is(UINT64_C(512) << 20, "cgroup v2");
    put("sys/system.slice/ottla.service/memory.high", "268435456\n");
    limit_is(UINT64_C(256) << 20, "cgroup v2");
    put("sys/memory.max", "99999999999999\n");
    put("sys/system.slice/ottla.service/memory.high", "max\n");
    limit_is(UINT64_C(1) << 30, "cgroup v2");
}

static void version_one_names_its_controllers_and_says_none_with_a_huge_number(void **state)
{
    (void)state;
    put("meminfo", "MemTotal: 8388608 kB\n");
    put("cgroup", "12:cpu,cpuacct:/a\n4:memory:/docker/abc\n1:name=systemd:/memory\n0::/x\n");
    put("sys/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
    limit_is(UINT64_C(8) << 30, "physical memory");
    put("sys/memory/memory.limit_in_bytes", "4294967296\n");
    limit_is(UINT64_C(4) << 30, "cgroup v1");
    put("sys/memory/docker/abc/memory.limit_in_bytes", "104857600\n");
    limit_is(UINT64_C(100) << 20, "cgroup v1");
    put("sys/unified/x/memory.max", "52428800\n"); /* mixed hierarchies */
    limit_is(UINT64_C(50) << 20, "cgroup v2");
}

static void a_container_that_sees_only_its_own_root_is_understood(void **state)
{
    (void)state;
    put("meminfo", "MemTotal: 8388608 kB\n");
    put("cgroup", "0::/../../kubepods/pod1\n4:memory:/kubepods/pod1/c1\n");
    put("sys/memory/memory.limit_in_bytes", "209715200\n");
    limit_is(UINT64_C(200) << 20, "cgroup v1");
}

static void cpus_are_bounded_by_the_quota(void **state)
{
    (void)state;
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
    const uint32_t all = (uint32_t)CPU_COUNT(&set);
    put("cgroup", "0::/a/b\n3:cpu,cpuacct:/c\n");
    assert_int_equal(ot_os_cpu_count(&files), all);
    put("sys/a/cpu.max", "max 100000\n");
    put("sys/cpu/c/cpu.cfs_quota_us", "-1\n");
    put("sys/cpu/c/cpu.cfs_period_us", "100000\n");
    assert_int_equal(ot_os_cpu_count(&files), all);
    put("sys/a/cpu.max", "110000 100000\n");
    assert_int_equal(ot_os_cpu_count(&files), OT_MIN(all, 2u));
    put("sys/a/b/cpu.max", "20000 100000\n");
    assert_int_equal(ot_os_cpu_count(&files), 1);
    put("sys/a/cpu.max", "max 100000\n");
    put("sys/a/b/cpu.max", "max 100000\n");
    put("sys/cpu/c/cpu.cfs_quota_us", "50000\n");
    assert_int_equal(ot_os_cpu_count(&files), 1);
    assert_true(ot_os_cpu_count(&ot_os_files_real) >= 1);
}

static const struct ot_mem_spec specs[] = {{"a", 100, 1000, 50000, ""}, {"b", 500, 0, UINT64_MAX, ""}};

static void caps_are_shares_within_their_bounds(void **state)
{
    (void)state;
    struct ot_mem_budget budget;
    assert_int_equal(ot_mem_budget_init(&budget, 100000, specs, 2, NULL, 0), OT_OK);
    assert_int_equal(ot_mem_pool_find(&budget, "a")->cap_bytes, 10000);
    assert_int_equal(ot_mem_pool_find(&budget, "b")->cap_bytes, 50000);
    assert_null(ot_mem_pool_find(&budget, "c"));
    assert_int_equal(budget.over_bytes, 0);
    ot_mem_budget_free(&budget);
    assert_int_equal(ot_mem_budget_init(&budget, 5000, specs, 2, NULL, 0), OT_OK);
    assert_int_equal(budget.pools[0].cap_bytes, 1000); /* its minimum */
    ot_mem_budget_free(&budget);
    assert_int_equal(ot_mem_budget_init(&budget, 10000000, specs, 2, NULL, 0), OT_OK);
    assert_int_equal(budget.pools[0].cap_bytes, 50000); /* its maximum */
    ot_mem_budget_free(&budget);
}

static void an_override_wins_and_what_exceeds_the_limit_is_told(void **state)
{
    (void)state;
    struct ot_mem_budget budget;
    const struct ot_mem_override good[] = {{"a", 90000}, {"b", 0}}, bad[] = {{"zzz", 1}};
    assert_int_equal(ot_mem_budget_init(&budget, 100000, specs, 2, good, 2), OT_OK);
    assert_int_equal(budget.pools[0].cap_bytes, 90000);
    assert_int_equal(budget.pools[1].cap_bytes, 50000);
    assert_int_equal(budget.over_bytes, 40000);
    ot_mem_budget_free(&budget);
    assert_int_equal(ot_mem_budget_init(&budget, 100000, specs, 2, bad, 1), OT_ERR_NOT_FOUND);
}

static void the_table_leaves_room_for_what_is_not_counted(void **state)
{
    (void)state;
    uint32_t permille = 0;
    for (int i = 0; i < OT_MEM_POOL_COUNT; i++) permille += ot_mem_specs[i].permille;
    assert_in_range(permille, 300, 700);
    for (uint64_t limit = UINT64_C(64) << 20; limit < UINT64_C(1) << 40; limit *= 4) {
        struct ot_mem_budget budget;
        assert_int_equal(ot_mem_budget_init(&budget, limit, ot_mem_specs, OT_MEM_POOL_COUNT, NULL, 0), OT_OK);
        assert_int_equal(budget.over_bytes, 0);
        assert_string_equal(budget.source, "configuration");
        assert_string_equal(budget.pools[OT_MEM_requests].name, "requests");
        ot_mem_budget_free(&budget);
    }
    struct ot_mem_budget budget;
    assert_int_equal(ot_mem_budget_init(&budget, 0, ot_mem_specs, OT_MEM_POOL_COUNT, NULL, 0), OT_OK);
    assert_true(budget.limit_bytes > 0);
    ot_mem_budget_free(&budget);
}

static void a_pool_is_taken_from_up_to_its_cap(void **state)
{
    (void)state;
    struct ot_mem_pool pool = {.name = "p", .cap_bytes = 100};
    assert_true(ot_mem_take(&pool, 60));
    assert_false(ot_mem_take(&pool, 41));
    assert_true(ot_mem_take(&pool, 40));
    assert_false(ot_mem_take(&pool, UINT64_MAX));
    ot_mem_force(&pool, 50);
    assert_int_equal(ot_mem_used_bytes(&pool), 150);
    assert_false(ot_mem_take(&pool, 1));
    ot_mem_give(&pool, 150);
    assert_true(ot_mem_take(&pool, 100));
    assert_int_equal(pool.peak_bytes, 150);
    assert_int_equal(pool.refused_count, 3);
}

static void give_too_much(void *pool)
{
    ot_mem_give(pool, 1);
}

static void giving_back_more_than_was_taken_is_our_mistake(void **state)
{
    (void)state;
    struct ot_mem_pool pool = {.name = "p", .cap_bytes = 100};
    assert_true(test_aborts(give_too_much, &pool));
}

static void pooled_buffers_count_as_the_pools_use(void **state)
{
    (void)state;
    struct ot_mem_pool pool = {.name = "p", .cap_bytes = 10000};
    struct ot_pool *buffers = ot_mem_pool_buffers(&pool);
    struct ot_buf *buf = ot_buf_new(buffers, 4096);
    assert_int_equal(ot_mem_used_bytes(&pool), 4096);
    assert_int_equal(ot_pool_cap_bytes(buffers), 10000);
    ot_buf_unref(buf);
    assert_int_equal(ot_mem_used_bytes(&pool), 0);
    ot_pool_free(buffers);
}

static void *take_often(void *arg)
{
    for (int i = 0; i < 20000; i++) {
        if (!ot_mem_take(arg, 30)) continue;
        assert_true(ot_mem_used_bytes(arg) <= 100);
        ot_mem_give(arg, 30);
    }
    return NULL;
}

static void threads_never_get_past_the_cap(void **state)
{
    (void)state;
    struct ot_mem_pool pool = {.name = "p", .cap_bytes = 100};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, take_often, &pool), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    assert_int_equal(ot_mem_used_bytes(&pool), 0);
    assert_in_range(pool.peak_bytes, 30, 90);
}

static int setup(void **state)
{
    (void)state;
    static const char *const names[3] = {"cgroup", "sys", "meminfo"};
    temp_dir_make(dir, sizeof(dir));
    for (int i = 0; i < 3; i++) snprintf(paths[i], sizeof(paths[i]), "%s/%s", dir, names[i]);
    files = (struct ot_os_files){paths[0], paths[1], paths[1], paths[2]};
    return 0;
}
static int teardown(void **state)
{
    return (void)state, temp_dir_remove(dir), 0;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(without_cgroups_the_machine_is_the_limit),
        TEST(the_smallest_limit_on_the_way_to_the_root_counts),
        TEST(version_one_names_its_controllers_and_says_none_with_a_huge_number),
        TEST(a_container_that_sees_only_its_own_root_is_understood),
        TEST(cpus_are_bounded_by_the_quota),
        TEST(caps_are_shares_within_their_bounds),
        TEST(an_override_wins_and_what_exceeds_the_limit_is_told),
        TEST(the_table_leaves_room_for_what_is_not_counted),
        TEST(a_pool_is_taken_from_up_to_its_cap),
        TEST(giving_back_more_than_was_taken_is_our_mistake),
        TEST(pooled_buffers_count_as_the_pools_use),
        TEST(threads_never_get_past_the_cap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
