#include "sim_sched.h"
#include <stdlib.h>

#define EXECS_MAX 16
struct sim_exec {
    struct ot_exec exec;
    struct sim_sched *sched;
    const char *name;
    bool serial;
    struct ot_task *first, *last;
    uint32_t count;
};
struct sim_sched {
    struct sim_exec execs[EXECS_MAX];
    uint32_t exec_count;
    struct ot_rng rng;
    struct ot_timer_heap timers;
    int64_t now_us, wall_ms;
    uint64_t steps;
};

static struct sim_exec *exec_of(struct ot_exec *exec) { return OT_CONTAINER(exec, struct sim_exec, exec); }

static void post(struct ot_exec *exec, struct ot_task *task)
{
    struct sim_exec *sim = exec_of(exec);
    task->next = NULL;
    if (sim->last != NULL) sim->last->next = task;
    else sim->first = task;
    sim->last = task;
    sim->count++;
}

static void timer_set(struct ot_exec *exec, struct ot_timer *timer, int64_t deadline_us)
{
    OT_ASSERT(exec_of(exec)->serial);
    ot_timer_heap_set(&exec_of(exec)->sched->timers, timer, deadline_us);
}

static void timer_cancel(struct ot_exec *exec, struct ot_timer *timer) { ot_timer_heap_cancel(&exec_of(exec)->sched->timers, timer); }
static int64_t now_us(struct ot_exec *exec) { return exec_of(exec)->sched->now_us; }
static int64_t wall_ms(struct ot_exec *exec) { return sim_sched_wall_ms(exec_of(exec)->sched); }
static const struct ot_exec_ops ops = { post, NULL, timer_set, timer_cancel, now_us, wall_ms };

struct sim_sched *sim_sched_new(uint64_t seed, int64_t wall)
{
    struct sim_sched *sched = calloc(1, sizeof(*sched));
    OT_ASSERT(sched != NULL);
    ot_rng_seed(&sched->rng, seed);
    sched->now_us = 1000000;
    sched->wall_ms = wall;
    return sched;
}

void sim_sched_free(struct sim_sched *sched)
{
    ot_timer_heap_free(&sched->timers);
    free(sched);
}

struct ot_exec *sim_sched_exec(struct sim_sched *sched, const char *name, bool serial)
{
    OT_ASSERT(sched->exec_count < EXECS_MAX);
    struct sim_exec *sim = &sched->execs[sched->exec_count++];
    *sim = (struct sim_exec){ .exec = { &ops }, .sched = sched, .name = name, .serial = serial };
    return &sim->exec;
}

static struct ot_task *take(struct sim_exec *sim)
{
    uint32_t skip = sim->serial ? 0 : (uint32_t)ot_rng_below(&sim->sched->rng, sim->count);
    struct ot_task *before = NULL, *task = sim->first;
    for (; skip > 0; skip--) before = task, task = task->next;
    if (before == NULL) sim->first = task->next;
    else before->next = task->next;
    if (sim->last == task) sim->last = before;
    sim->count--;
    task->next = NULL;
    return task;
}

bool sim_sched_step_of(struct sim_sched *sched, struct ot_exec *exec)
{
    struct sim_exec *sim = exec_of(exec);
    if (sim->count == 0) return false;
    sched->steps++;
    struct ot_task *task = take(sim);
    task->run(task);
    return true;
}

bool sim_sched_step(struct sim_sched *sched)
{
    uint32_t runnable = 0;
    for (uint32_t i = 0; i < sched->exec_count; i++) runnable += sched->execs[i].count > 0;
    if (runnable == 0) return false;
    uint32_t pick = (uint32_t)ot_rng_below(&sched->rng, runnable);
    for (uint32_t i = 0; i < sched->exec_count; i++)
        if (sched->execs[i].count > 0 && pick-- == 0) return sim_sched_step_of(sched, &sched->execs[i].exec);
    return false;
}

bool sim_sched_idle(const struct sim_sched *sched)
{
    const struct ot_timer *timer = ot_timer_heap_first(&sched->timers);
    for (uint32_t i = 0; i < sched->exec_count; i++)
        if (sched->execs[i].count > 0) return false;
    return timer == NULL || timer->deadline_us > sched->now_us;
}

bool sim_sched_skip(struct sim_sched *sched, int64_t max_us)
{
    struct ot_timer *timer = ot_timer_heap_first(&sched->timers);
    if (timer == NULL || timer->deadline_us > sched->now_us + max_us) {
        sched->now_us += max_us;
        return false;
    }
    sched->now_us = OT_MAX(sched->now_us, timer->deadline_us);
    sched->steps++;
    ot_timer_heap_cancel(&sched->timers, timer);
    timer->fired(timer);
    return true;
}

void sim_sched_wake(struct sim_sched *sched, int64_t now) { sched->now_us = OT_MAX(sched->now_us, now); }

void sim_sched_forget(struct sim_sched *sched)
{
    for (uint32_t i = 0; i < sched->exec_count; i++) {
        sched->execs[i].first = sched->execs[i].last = NULL;
        sched->execs[i].count = 0;
    }
    while (ot_timer_heap_first(&sched->timers) != NULL) ot_timer_heap_cancel(&sched->timers, ot_timer_heap_first(&sched->timers));
}

int64_t sim_sched_now_us(const struct sim_sched *sched) { return sched->now_us; }
int64_t sim_sched_wall_ms(const struct sim_sched *sched) { return sched->wall_ms + sched->now_us / 1000; }
uint64_t sim_sched_steps(const struct sim_sched *sched) { return sched->steps; }
