#include "base/exec.h"
#include "base/metrics.h"
#include "base/util.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct worker {
    pthread_t thread;
    struct ot_exec_pool *pool;
    struct worker *idle_next;
    pthread_cond_t called;
    bool idle;                        /* on the pool's list; under its mutex */
    bool ending;                      /* its own: sends out what it posted soon, and looks at the queue next */
    _Atomic int64_t busy_us;          /* of finished tasks */
    _Atomic int64_t running_since_us; /* 0 when idle */
    uint32_t number;
};

struct ot_exec_pool {
    struct ot_exec exec;
    const char *name;
    pthread_mutex_t mutex;
    struct ot_task *first, **end;
    struct worker *idle;              /* the one that worked last is called first: its stack and caches are warm */
    uint32_t queued_count;
    bool stopping;
    _Atomic uint32_t posting;         /* threads inside post: the call comes after the mutex, when the task may have run already */
    int64_t asked_us, asked_busy_us; /* of the last busy_ratio */
    uint32_t worker_count;
    struct worker workers[];
};

static _Thread_local const struct worker *worker_here;

static void pool_post_many(struct ot_exec *exec, struct ot_task *first, struct ot_task *last, uint32_t count)
{
    struct ot_exec_pool *pool = OT_CONTAINER(exec, struct ot_exec_pool, exec);
    struct worker *call = NULL;
    first->behind = count - 1;
    last->next = NULL;
    atomic_fetch_add_explicit(&pool->posting, 1, memory_order_relaxed);
    pthread_mutex_lock(&pool->mutex);
    const bool mine = worker_here != NULL && worker_here->pool == pool && worker_here->ending && pool->first == NULL; /* we take it ourselves next */
    *pool->end = first;
    pool->end = &last->next;
    pool->queued_count += count;
    if (!mine && pool->idle != NULL) {
        call = pool->idle;
        pool->idle = call->idle_next;
        call->idle = false;
    }
    pthread_mutex_unlock(&pool->mutex);
    if (call != NULL) pthread_cond_signal(&call->called); /* outside, or it would wake only to wait for the mutex */
    atomic_fetch_sub_explicit(&pool->posting, 1, memory_order_release);
}

static void pool_post(struct ot_exec *exec, struct ot_task *task)
{
    pool_post_many(exec, task, task, 1);
}

static void no_timer_set(struct ot_exec *exec, struct ot_timer *timer, int64_t deadline_us)
{
    (void)exec, (void)timer, (void)deadline_us;
    OT_ASSERT(!"a pool has no timers");
}

static void no_timer_cancel(struct ot_exec *exec, struct ot_timer *timer)
{
    (void)exec;
    OT_ASSERT(timer->heap_index == 0);
}

static int64_t boot_us(struct ot_exec *exec)
{
    return (void)exec, ot_clock_boot_us();
}
static int64_t wall_ms(struct ot_exec *exec)
{
    return (void)exec, ot_clock_wall_ms();
}

static const struct ot_exec_ops pool_ops = {pool_post, pool_post_many, no_timer_set, no_timer_cancel, boot_us, wall_ms};

/* The first of the queue, and those that were posted together with it. */
static struct ot_task *take(struct ot_exec_pool *pool)
{
    struct ot_task *task = pool->first, *last = task;
    for (uint32_t i = task->behind; i > 0; i--) last = last->next;
    pool->queued_count -= task->behind + 1;
    pool->first = last->next;
    if (pool->first == NULL) pool->end = &pool->first;
    last->next = NULL;
    return task;
}

static void run_all(struct worker *worker, struct ot_task *task)
{
    const int64_t start_us = ot_clock_boot_us();
    atomic_store_explicit(&worker->running_since_us, start_us, memory_order_relaxed);
    ot_exec_turn_begin(start_us);
    while (task != NULL) {
        struct ot_task *next = task->next; /* the task may be gone, or posted again, afterwards */
        task->run(task);
        task = next;
    }
    worker->ending = true;
    ot_exec_turn_end();
    worker->ending = false;
    atomic_fetch_add_explicit(&worker->busy_us, ot_clock_boot_us() - start_us, memory_order_relaxed);
    atomic_store_explicit(&worker->running_since_us, 0, memory_order_relaxed);
}

/* Under the mutex. */
static void wait_idle(struct worker *worker)
{
    struct ot_exec_pool *pool = worker->pool;
    worker->idle = true;
    worker->idle_next = pool->idle;
    pool->idle = worker;
    while (worker->idle) pthread_cond_wait(&worker->called, &pool->mutex);
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    struct ot_exec_pool *pool = worker->pool;
    char name[16];
    snprintf(name, sizeof(name), "%.11s-%u", pool->name, worker->number % 1000);
    pthread_setname_np(pthread_self(), name);
    ot_exec_turns_begin();
    worker_here = worker;
    pthread_mutex_lock(&pool->mutex);
    for (;;) {
        if (pool->first != NULL) {
            struct ot_task *task = take(pool);
            pthread_mutex_unlock(&pool->mutex);
            run_all(worker, task);
            pthread_mutex_lock(&pool->mutex);
            continue;
        }
        if (pool->stopping) break; /* what a running task still posts is run by its own worker afterwards */
        wait_idle(worker);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

enum ot_err ot_exec_pool_start(const char *name, uint32_t thread_count, struct ot_exec_pool **out)
{
    OT_ASSERT(thread_count > 0);
    struct ot_exec_pool *pool = calloc(1, sizeof(*pool) + (size_t)thread_count * sizeof(pool->workers[0]));
    if (pool == NULL) return OT_ERR_NO_MEMORY;
    pool->exec.ops = &pool_ops;
    pool->name = name;
    pool->end = &pool->first;
    pool->asked_us = ot_clock_boot_us();
    pthread_mutex_init(&pool->mutex, NULL);
    for (uint32_t i = 0; i < thread_count; i++) {
        struct worker *worker = &pool->workers[i];
        worker->pool = pool;
        worker->number = i;
        pthread_cond_init(&worker->called, NULL);
        if (pthread_create(&worker->thread, NULL, worker_main, worker) != 0) {
            ot_exec_pool_stop(pool);
            return OT_ERR_NO_MEMORY;
        }
        pool->worker_count++; /* read by the starter and by stop only */
    }
    *out = pool;
    return OT_OK;
}

struct ot_exec *ot_exec_pool_exec(struct ot_exec_pool *pool)
{
    return &pool->exec;
}

double ot_exec_pool_busy_ratio(struct ot_exec_pool *pool)
{
    const int64_t now_us = ot_clock_boot_us();
    int64_t busy_us = 0;
    for (uint32_t i = 0; i < pool->worker_count; i++) {
        const int64_t since_us = atomic_load_explicit(&pool->workers[i].running_since_us, memory_order_relaxed);
        busy_us += atomic_load_explicit(&pool->workers[i].busy_us, memory_order_relaxed);
        if (since_us != 0 && since_us < now_us) busy_us += now_us - since_us;
    }
    pthread_mutex_lock(&pool->mutex);
    const int64_t elapsed_us = (now_us - pool->asked_us) * pool->worker_count, worked_us = busy_us - pool->asked_busy_us;
    pool->asked_us = now_us;
    pool->asked_busy_us = busy_us;
    pthread_mutex_unlock(&pool->mutex);
    /* the counts are read one by one while tasks finish: clamp what that blurs */
    if (elapsed_us <= 0 || worked_us <= 0) return 0.0;
    return OT_MIN(1.0, (double)worked_us / (double)elapsed_us);
}

uint32_t ot_exec_pool_queued(struct ot_exec_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    const uint32_t count = pool->queued_count;
    pthread_mutex_unlock(&pool->mutex);
    return count;
}

static void give_busy(void *arg, struct ot_metric_sink *sink)
{
    ot_metric_give(sink, NULL, ot_exec_pool_busy_ratio(arg));
}

static void give_queued(void *arg, struct ot_metric_sink *sink)
{
    ot_metric_give(sink, NULL, ot_exec_pool_queued(arg));
}

void ot_exec_pool_watch(struct ot_exec_pool *pool, struct ot_metrics *metrics)
{
    ot_metrics_source(metrics, OT_METRIC_io_thread_busy_ratio, give_busy, pool);
    ot_metrics_source(metrics, OT_METRIC_io_queue_length, give_queued, pool);
}

void ot_exec_pool_stop(struct ot_exec_pool *pool)
{
    if (pool == NULL) return;
    pthread_mutex_lock(&pool->mutex);
    pool->stopping = true;
    for (; pool->idle != NULL; pool->idle = pool->idle->idle_next) {
        pool->idle->idle = false;
        pthread_cond_signal(&pool->idle->called);
    }
    pthread_mutex_unlock(&pool->mutex);
    for (uint32_t i = 0; i < pool->worker_count; i++) pthread_join(pool->workers[i].thread, NULL);
    OT_ASSERT(pool->first == NULL);
    while (atomic_load_explicit(&pool->posting, memory_order_acquire) > 0) sched_yield();
    for (uint32_t i = 0; i < pool->worker_count; i++) pthread_cond_destroy(&pool->workers[i].called);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}
