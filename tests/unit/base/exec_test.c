#include "testing.h"

#include "base/exec.h"
#include "base/util.h"
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

/* A bound, so that a lost wake fails the test instead of hanging it. */
static void wait_for(sem_t *sem)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    while (sem_timedwait(sem, &until) != 0) {
        if (errno != EINTR) fail_msg("nothing came within a minute");
    }
}

/* --- the heap --- */

static void the_heap_gives_the_earliest_through_any_moves(void **state)
{
    (void)state;
    enum { COUNT = 200 };
    static struct ot_timer timers[COUNT];
    struct ot_timer_heap heap = {0};
    struct ot_rng rng;
    ot_rng_seed(&rng, 11);
    for (int step = 0; step < 20000; step++) {
        struct ot_timer *timer = &timers[ot_rng_below(&rng, COUNT)];
        if (ot_rng_chance(&rng, 0.6))
            ot_timer_heap_set(&heap, timer, (int64_t)ot_rng_below(&rng, 1000) - 500);
        else
            ot_timer_heap_cancel(&heap, timer);
        int64_t earliest = INT64_MAX;
        uint32_t armed = 0;
        for (int i = 0; i < COUNT; i++) {
            if (timers[i].heap_index == 0) continue;
            armed++;
            earliest = OT_MIN(earliest, timers[i].deadline_us);
        }
        assert_int_equal(heap.count, armed);
        const struct ot_timer *first = ot_timer_heap_first(&heap);
        if (armed == 0)
            assert_null(first);
        else
            assert_true(first->deadline_us == earliest);
    }
    int64_t last = INT64_MIN;
    for (struct ot_timer *first; (first = ot_timer_heap_first(&heap)) != NULL; ot_timer_heap_cancel(&heap, first)) {
        assert_true(first->deadline_us >= last);
        last = first->deadline_us;
    }
    ot_timer_heap_set(&heap, &timers[0], 1);
    ot_timer_heap_free(&heap);
    assert_int_equal(timers[0].heap_index, 0);
}

static void a_reserved_heap_does_not_move(void **state)
{
    (void)state;
    struct ot_timer timers[100] = {0};
    struct ot_timer_heap heap = {0};
    assert_int_equal(ot_timer_heap_reserve(&heap, 100), OT_OK);
    struct ot_timer **before = heap.timers;
    for (int i = 0; i < 100; i++) ot_timer_heap_set(&heap, &timers[i], -i);
    assert_ptr_equal(heap.timers, before);
    ot_timer_heap_free(&heap);
}

/* --- the pool --- */

struct counted {
    struct ot_task task;
    _Atomic int *count;
    sem_t *done;
    struct ot_exec *again_on;
};

static void run_counted(struct ot_task *task)
{
    struct counted *counted = OT_CONTAINER(task, struct counted, task);
    sem_t *done = counted->done;
    if (counted->again_on != NULL) {
        struct ot_exec *exec = counted->again_on;
        counted->again_on = NULL;
        ot_exec_post(exec, task);
        return;
    }
    atomic_fetch_add(counted->count, 1);
    if (done != NULL) sem_post(done);
}

static void a_pool_runs_every_task_once(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    static struct counted tasks[COUNT];
    _Atomic int count = 0;
    sem_t done;
    sem_init(&done, 0, 0);
    struct ot_exec_pool *pool;
    assert_int_equal(ot_exec_pool_start("io", 4, &pool), OT_OK);
    for (int i = 0; i < COUNT; i++) {
        tasks[i] = (struct counted){.task.run = run_counted, .count = &count, .done = &done};
        ot_exec_post(ot_exec_pool_exec(pool), &tasks[i].task);
    }
    for (int i = 0; i < COUNT; i++) wait_for(&done);
    assert_int_equal(count, COUNT);
    assert_int_equal(ot_exec_pool_queued(pool), 0);
    const double ratio = ot_exec_pool_busy_ratio(pool);
    assert_true(ratio >= 0.0 && ratio <= 1.0);
    ot_exec_pool_stop(pool);
    ot_exec_pool_stop(NULL);
    sem_destroy(&done);
}

static void stopping_a_pool_runs_what_is_queued_and_what_that_posts(void **state)
{
    (void)state;
    enum { COUNT = 300 };
    static struct counted tasks[COUNT];
    for (int round = 0; round < 20; round++) {
        _Atomic int count = 0;
        struct ot_exec_pool *pool;
        assert_int_equal(ot_exec_pool_start("io", 3, &pool), OT_OK);
        struct ot_exec *exec = ot_exec_pool_exec(pool);
        for (int i = 0; i < COUNT; i++) {
            tasks[i] = (struct counted){.task.run = run_counted, .count = &count, .again_on = exec};
            ot_exec_post(exec, &tasks[i].task);
        }
        ot_exec_pool_stop(pool);
        assert_int_equal(count, COUNT);
    }
}

struct gate {
    struct ot_task task;
    sem_t entered, open;
};

static void run_gate(struct ot_task *task)
{
    struct gate *gate = OT_CONTAINER(task, struct gate, task);
    sem_post(&gate->entered);
    wait_for(&gate->open);
}

static void a_pool_runs_tasks_side_by_side_and_counts_the_waiting(void **state)
{
    (void)state;
    struct gate gates[3];
    struct ot_exec_pool *pool;
    assert_int_equal(ot_exec_pool_start("io", 2, &pool), OT_OK);
    for (int i = 0; i < 3; i++) {
        gates[i].task.run = run_gate;
        sem_init(&gates[i].entered, 0, 0);
        sem_init(&gates[i].open, 0, 0);
        ot_exec_post(ot_exec_pool_exec(pool), &gates[i].task);
    }
    wait_for(&gates[0].entered);
    wait_for(&gates[1].entered); /* both at once: neither gate is open */
    assert_int_equal(ot_exec_pool_queued(pool), 1);
    ot_exec_pool_busy_ratio(pool);
    const int64_t from_us = ot_clock_boot_us();
    while (ot_clock_boot_us() - from_us < 2000) {
    }
    assert_true(ot_exec_pool_busy_ratio(pool) > 0.9); /* running counts before it has finished */
    for (int i = 0; i < 3; i++) sem_post(&gates[i].open);
    ot_exec_pool_stop(pool);
    for (int i = 0; i < 3; i++) {
        sem_destroy(&gates[i].entered);
        sem_destroy(&gates[i].open);
    }
}

static void ignore_timer(struct ot_timer *timer)
{
    (void)timer;
}

static void set_timer_on_pool(void *arg)
{
    struct ot_timer timer = {.fired = ignore_timer};
    ot_exec_timer_set(arg, &timer, 1);
}

static void a_pool_has_no_timers(void **state)
{
    (void)state;
    struct ot_exec_pool *pool;
    assert_int_equal(ot_exec_pool_start("io", 1, &pool), OT_OK);
    assert_true(test_aborts(set_timer_on_pool, ot_exec_pool_exec(pool)));
    ot_exec_pool_stop(pool);
}

/* --- the thread --- */

struct noted {
    struct ot_task task;
    uint64_t number;
    struct notes *notes;
};
struct notes {
    uint64_t last[4];
    uint64_t count;
    pthread_t thread;
    bool disordered, elsewhere;
};

/* Plain fields: the sanitizer would see it if two ran at a time. */
static void run_noted(struct ot_task *task)
{
    struct noted *noted = OT_CONTAINER(task, struct noted, task);
    struct notes *notes = noted->notes;
    const uint64_t poster = noted->number >> 32;
    if (notes->count++ == 0) notes->thread = pthread_self();
    notes->elsewhere |= !pthread_equal(notes->thread, pthread_self());
    notes->disordered |= noted->number <= notes->last[poster];
    notes->last[poster] = noted->number;
}

struct poster {
    struct ot_exec *exec;
    struct noted *tasks;
    int count;
};

static void *post_all(void *arg)
{
    const struct poster *poster = arg;
    for (int i = 0; i < poster->count; i++) ot_exec_post(poster->exec, &poster->tasks[i].task);
    return NULL;
}

struct alone { struct ot_task task; pthread_mutex_t mutex; pthread_cond_t changed; pthread_t thread; bool ran; };

static void run_alone(struct ot_task *task)
{
    struct alone *alone = OT_CONTAINER(task, struct alone, task);
    pthread_mutex_lock(&alone->mutex);
    alone->thread = pthread_self();
    alone->ran = true;
    pthread_cond_signal(&alone->changed);
    pthread_mutex_unlock(&alone->mutex);
}

static void a_task_apart_has_a_thread_of_its_own(void **state)
{
    (void)state;
    static struct alone alone = {.task.run = run_alone, .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    assert_true(ot_exec_apart("apart", &alone.task));
    pthread_mutex_lock(&alone.mutex);
    while (!alone.ran) pthread_cond_wait(&alone.changed, &alone.mutex);
    assert_false(pthread_equal(alone.thread, pthread_self()));
    pthread_mutex_unlock(&alone.mutex);
}

static void a_thread_runs_one_task_at_a_time_in_the_order_posted(void **state)
{
    (void)state;
    enum { POSTERS = 4, COUNT = 2000 };
    static struct noted tasks[POSTERS][COUNT];
    struct notes notes = {0};
    struct ot_exec_thread *thread;
    assert_int_equal(ot_exec_thread_start("coordinator", &thread), OT_OK);
    pthread_t threads[POSTERS];
    struct poster posters[POSTERS];
    for (uint64_t p = 0; p < POSTERS; p++) {
        for (uint64_t i = 0; i < COUNT; i++)
            tasks[p][i] = (struct noted){.task.run = run_noted, .number = p << 32 | (i + 1), .notes = &notes};
        posters[p] = (struct poster){ot_exec_thread_exec(thread), tasks[p], COUNT};
        assert_int_equal(pthread_create(&threads[p], NULL, post_all, &posters[p]), 0);
    }
    for (int p = 0; p < POSTERS; p++) pthread_join(threads[p], NULL);
    ot_exec_thread_stop(thread);
    ot_exec_thread_stop(NULL);
    assert_int_equal(notes.count, POSTERS * COUNT);
    assert_false(notes.disordered);
    assert_false(notes.elsewhere);
}

struct clockwork {
    struct ot_task task;
    struct ot_exec *exec;
    struct ot_timer timers[6];
    int order[16], fired;
    int64_t early_by_us;
    sem_t done;
};

static void note_fired(struct ot_timer *timer, int index)
{
    struct clockwork *clock = OT_CONTAINER(timer - index, struct clockwork, timers);
    clock->early_by_us = OT_MAX(clock->early_by_us, timer->deadline_us - ot_exec_now_us(clock->exec));
    assert_int_equal(timer->heap_index, 0);
    clock->order[clock->fired++] = index;
    if (index == 5) sem_post(&clock->done);
}
static void fired0(struct ot_timer *timer)
{
    note_fired(timer, 0);
}
static void fired1(struct ot_timer *timer)
{
    note_fired(timer, 1);
}
static void fired2(struct ot_timer *timer)
{
    note_fired(timer, 2);
}
static void fired3(struct ot_timer *timer)
{
    note_fired(timer, 3);
}
static void fired4(struct ot_timer *timer)
{
    note_fired(timer, 4);
}
static void fired5(struct ot_timer *timer)
{
    note_fired(timer, 5);
}

static void arm_six(struct ot_task *task)
{
    struct clockwork *clock = OT_CONTAINER(task, struct clockwork, task);
    void (*const fired[6])(struct ot_timer * timer) = {fired0, fired1, fired2, fired3, fired4, fired5};
    static const int64_t after_us[6] = {3000, 1000, 2000, 500, -5, 4000};
    const int64_t now_us = ot_exec_now_us(clock->exec);
    for (int i = 0; i < 6; i++) {
        clock->timers[i].fired = fired[i];
        ot_exec_timer_set(clock->exec, &clock->timers[i], now_us + after_us[i]);
    }
    ot_exec_timer_set(clock->exec, &clock->timers[1], now_us + 3500); /* moved behind 0 */
    ot_exec_timer_cancel(clock->exec, &clock->timers[3]);
    ot_exec_timer_cancel(clock->exec, &clock->timers[3]);
}

static void timers_fire_in_order_and_never_early(void **state)
{
    (void)state;
    static const int want[] = {4, 2, 0, 1, 5};
    struct clockwork clock = {.task.run = arm_six};
    struct ot_exec_thread *thread;
    sem_init(&clock.done, 0, 0);
    assert_int_equal(ot_exec_thread_start("timers", &thread), OT_OK);
    clock.exec = ot_exec_thread_exec(thread);
    ot_exec_post(clock.exec, &clock.task);
    wait_for(&clock.done);
    ot_exec_thread_stop(thread);
    assert_int_equal(clock.fired, 5);
    for (int i = 0; i < 5; i++) assert_int_equal(clock.order[i], want[i]);
    assert_true(clock.early_by_us <= 0);
    sem_destroy(&clock.done);
}

/* A timer that is always due again must not keep tasks from their turn. */
struct greedy {
    struct ot_timer timer;
    struct ot_task arm, stop;
    struct ot_exec *exec;
    int fired;
    sem_t done;
};

static void fire_again(struct ot_timer *timer)
{
    struct greedy *greedy = OT_CONTAINER(timer, struct greedy, timer);
    greedy->fired++;
    ot_exec_timer_set(greedy->exec, timer, 0);
}

static void arm_greedy(struct ot_task *task)
{
    struct greedy *greedy = OT_CONTAINER(task, struct greedy, arm);
    ot_exec_timer_set(greedy->exec, &greedy->timer, 0);
}

static void stop_greedy(struct ot_task *task)
{
    struct greedy *greedy = OT_CONTAINER(task, struct greedy, stop);
    ot_exec_timer_cancel(greedy->exec, &greedy->timer);
    sem_post(&greedy->done);
}

static void a_timer_that_is_always_due_leaves_tasks_their_turn(void **state)
{
    (void)state;
    struct greedy greedy = {.timer.fired = fire_again, .arm.run = arm_greedy, .stop.run = stop_greedy};
    struct ot_exec_thread *thread;
    sem_init(&greedy.done, 0, 0);
    assert_int_equal(ot_exec_thread_start("greedy", &thread), OT_OK);
    greedy.exec = ot_exec_thread_exec(thread);
    ot_exec_post(greedy.exec, &greedy.arm);
    ot_exec_post(greedy.exec, &greedy.stop);
    wait_for(&greedy.done);
    ot_exec_thread_stop(thread);
    sem_destroy(&greedy.done);
}

static void set_timer_from_outside(void *arg)
{
    set_timer_on_pool(arg);
}

static void timers_are_set_on_their_own_thread_only(void **state)
{
    (void)state;
    struct ot_exec_thread *thread;
    assert_int_equal(ot_exec_thread_start("own", &thread), OT_OK);
    assert_true(test_aborts(set_timer_from_outside, ot_exec_thread_exec(thread)));
    ot_exec_thread_stop(thread);
}

static void a_stopping_thread_runs_what_is_queued_and_what_that_posts(void **state)
{
    (void)state;
    enum { COUNT = 100 };
    static struct counted tasks[COUNT];
    for (int round = 0; round < 20; round++) {
        _Atomic int count = 0;
        struct ot_exec_thread *thread;
        assert_int_equal(ot_exec_thread_start("stop", &thread), OT_OK);
        struct ot_exec *exec = ot_exec_thread_exec(thread);
        for (int i = 0; i < COUNT; i++) {
            tasks[i] = (struct counted){.task.run = run_counted, .count = &count, .again_on = exec};
            ot_exec_post(exec, &tasks[i].task);
        }
        ot_exec_thread_stop(thread);
        assert_int_equal(count, COUNT);
    }
}

/* --- posting soon --- */

struct soon {
    struct ot_task task;
    int number;
    sem_t *ran, *ran_full;     /* ran_full: posted once OT_TURN_TASKS have run */
};
static _Atomic int noted_count, noted_order[64];
static pthread_t noted_thread[64];

static void run_soon(struct ot_task *task)
{
    struct soon *noted = OT_CONTAINER(task, struct soon, task);
    const int at = atomic_fetch_add(&noted_count, 1);
    noted_thread[at] = pthread_self();
    atomic_store(&noted_order[at], noted->number);
    if (at + 1 == (int)OT_TURN_TASKS) sem_post(noted->ran_full);
    sem_post(noted->ran);
}

struct soon_poster {
    struct ot_task task;
    struct ot_exec *to;
    struct soon *tasks;
    int count, seen_during; /* how many had run before this turn ended, with another worker idle */
    sem_t *ran_full;
};
static void run_soon_poster(struct ot_task *task)
{
    struct soon_poster *poster = OT_CONTAINER(task, struct soon_poster, task);
    for (int i = 0; i < poster->count; i++) ot_exec_post_soon(poster->to, &poster->tasks[i].task, 0);
    if (poster->count >= (int)OT_TURN_TASKS) wait_for(poster->ran_full);
    poster->seen_during = atomic_load(&noted_count);
}

static int post_from_a_pool(int count, struct soon *tasks)
{
    sem_t ran, ran_full;
    sem_init(&ran, 0, 0);
    sem_init(&ran_full, 0, 0);
    atomic_store(&noted_count, 0);
    for (int i = 0; i < count; i++) tasks[i] = (struct soon){.task.run = run_soon, .number = i, .ran = &ran, .ran_full = &ran_full};
    struct ot_exec_pool *pool;
    assert_int_equal(ot_exec_pool_start("soon", 3, &pool), OT_OK);
    struct soon_poster poster = {.task.run = run_soon_poster, .to = ot_exec_pool_exec(pool), .tasks = tasks, .count = count, .ran_full = &ran_full};
    ot_exec_post(ot_exec_pool_exec(pool), &poster.task);
    for (int i = 0; i < count; i++) wait_for(&ran);
    ot_exec_pool_stop(pool);
    assert_int_equal(atomic_load(&noted_count), count);
    sem_destroy(&ran);
    sem_destroy(&ran_full);
    return poster.seen_during;
}

static void what_is_posted_soon_goes_out_at_the_end_of_the_turn_to_one_thread(void **state)
{
    (void)state;
    struct soon tasks[5];
    assert_int_equal(post_from_a_pool(5, tasks), 0);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(noted_order[i], i);
        assert_true(pthread_equal(noted_thread[i], noted_thread[0]));
    }
}

static void a_turn_has_an_age_where_there_are_turns(void **state)
{
    (void)state;
    assert_int_equal(ot_exec_turn_age_us(12345), 0);
    ot_exec_turns_begin(); /* this thread, as if it were a reactor; it posts nothing soon */
    ot_exec_turn_begin(12000);
    assert_int_equal(ot_exec_turn_age_us(12345), 345);
}

static void a_full_list_goes_out_before_the_turn_ends(void **state)
{
    (void)state;
    struct soon tasks[OT_TURN_TASKS + 3];
    assert_int_equal(post_from_a_pool(OT_TURN_TASKS + 3, tasks), OT_TURN_TASKS);
}

static void on_a_thread_without_turns_soon_is_now(void **state)
{
    (void)state;
    sem_t ran;
    sem_init(&ran, 0, 0);
    atomic_store(&noted_count, 0);
    struct ot_exec_pool *pool;
    assert_int_equal(ot_exec_pool_start("now", 1, &pool), OT_OK);
    struct soon task = {.task.run = run_soon, .ran = &ran};
    ot_exec_post_soon(ot_exec_pool_exec(pool), &task.task, 0);
    wait_for(&ran);
    ot_exec_pool_stop(pool);
    sem_destroy(&ran);
}

TEST_MAIN(cmocka_unit_test(what_is_posted_soon_goes_out_at_the_end_of_the_turn_to_one_thread), cmocka_unit_test(a_full_list_goes_out_before_the_turn_ends),
    cmocka_unit_test(on_a_thread_without_turns_soon_is_now), cmocka_unit_test(the_heap_gives_the_earliest_through_any_moves), cmocka_unit_test(a_reserved_heap_does_not_move),
    cmocka_unit_test(a_pool_runs_every_task_once), cmocka_unit_test(stopping_a_pool_runs_what_is_queued_and_what_that_posts),
    cmocka_unit_test(a_pool_runs_tasks_side_by_side_and_counts_the_waiting), cmocka_unit_test(a_pool_has_no_timers),
    cmocka_unit_test(a_task_apart_has_a_thread_of_its_own),
        cmocka_unit_test(a_thread_runs_one_task_at_a_time_in_the_order_posted), cmocka_unit_test(timers_fire_in_order_and_never_early),
    cmocka_unit_test(a_timer_that_is_always_due_leaves_tasks_their_turn), cmocka_unit_test(timers_are_set_on_their_own_thread_only),
    cmocka_unit_test(a_stopping_thread_runs_what_is_queued_and_what_that_posts),
    cmocka_unit_test(a_turn_has_an_age_where_there_are_turns) /* last: the main thread has turns from then on */)
