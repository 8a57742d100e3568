/* Executors: where work runs. A reactor, the I/O pool, the coordinator's thread, REST's completion thread and the simulator's
 * scheduler are all this one interface, so that the code that waits, wakes and writes is the same in the server and in the
 * simulator. Tasks and timers are intrusive: posting never allocates and never fails.
 *
 * thread  post from any thread. A serial executor (reactor, coordinator) runs its tasks one at a time in the order they were
 *         posted; a pool runs them concurrently. Timers are armed, moved and cancelled only on a serial executor's own
 *         thread and run there; a pool has none.
 * clock   ot_exec_now_us is CLOCK_BOOTTIME in the server and virtual time in the simulator; wall time for record and
 *         segment ages comes from ot_exec_wall_ms. Nobody reads a clock otherwise. */
#ifndef OT_BASE_EXEC_H
#define OT_BASE_EXEC_H

#include "base/err.h"

struct ot_task {
    struct ot_task *next;
    void (*run)(struct ot_task *task);
    uint32_t behind;           /* of the executor: so many more of its queue were posted together with this one */
};

struct ot_timer {
    void (*fired)(struct ot_timer *timer);
    int64_t deadline_us;
    uint32_t heap_index;       /* of the executor; 0 = not armed */
};

struct ot_exec;
struct ot_exec_ops {
    void (*post)(struct ot_exec *exec, struct ot_task *task);
    /* first .. last, linked by next and count in all: one wake-up, and on a pool one thread that runs them one after the other. NULL: it takes them singly */
    void (*post_many)(struct ot_exec *exec, struct ot_task *first, struct ot_task *last, uint32_t count);
    void (*timer_set)(struct ot_exec *exec, struct ot_timer *timer, int64_t deadline_us);    /* arms or moves */
    void (*timer_cancel)(struct ot_exec *exec, struct ot_timer *timer);                      /* unarmed is fine */
    int64_t (*now_us)(struct ot_exec *exec);
    int64_t (*wall_ms)(struct ot_exec *exec);
};
struct ot_exec { const struct ot_exec_ops *ops; };

static inline void ot_exec_post(struct ot_exec *exec, struct ot_task *task) { exec->ops->post(exec, task); }

/* Posting a little later, together: waking a thread costs more than a short task. A thread that works in turns (reactor, pool worker) sends out what it posted soon at
 * the end of the turn, or when OT_TURN_TASKS of one kind wait; on any other thread soon is now. Only for short tasks that may wait for each other: those of one
 * executor and key (a log directory, say, where they would wait for the same disk anyway) are run by one thread in the order posted. */
#define OT_TURN_TASKS 16u
void ot_exec_post_soon(struct ot_exec *exec, struct ot_task *task, uint32_t key);
void ot_exec_turns_begin(void);        /* this thread works in turns from now on; for those who write an executor */
void ot_exec_turn_begin(int64_t now_us);   /* after it slept */
void ot_exec_turn_end(void);           /* sends out what waits; before the thread sleeps */
/* How long this thread's turn has lasted, for those who would do a short piece of work in it rather than wake another thread; 0 where there are no turns. */
int64_t ot_exec_turn_age_us(int64_t now_us);

static inline void ot_exec_timer_set(struct ot_exec *exec, struct ot_timer *timer, int64_t deadline_us)
{
    exec->ops->timer_set(exec, timer, deadline_us);
}
static inline void ot_exec_timer_cancel(struct ot_exec *exec, struct ot_timer *timer) { exec->ops->timer_cancel(exec, timer); }
static inline int64_t ot_exec_now_us(struct ot_exec *exec) { return exec->ops->now_us(exec); }
static inline int64_t ot_exec_wall_ms(struct ot_exec *exec) { return exec->ops->wall_ms(exec); }

/* A pool of threads. stop waits for what runs, and runs what is queued; afterwards post is a mistake of ours. */
struct ot_exec_pool;
OT_MUST_CHECK enum ot_err ot_exec_pool_start(const char *name, uint32_t thread_count, struct ot_exec_pool **out);
struct ot_exec *ot_exec_pool_exec(struct ot_exec_pool *pool);
double ot_exec_pool_busy_ratio(struct ot_exec_pool *pool);     /* since the last call */
uint32_t ot_exec_pool_queued(struct ot_exec_pool *pool);
void ot_exec_pool_stop(struct ot_exec_pool *pool);             /* frees it */
struct ot_metrics;
void ot_exec_pool_watch(struct ot_exec_pool *pool, struct ot_metrics *metrics);     /* feeds io_thread_busy_ratio, io_queue_length; outlives the metrics */

/* A thread with a serial executor and timers, for those that own no sockets (the coordinator, background work). The name is static
 * text under 16 bytes. stop runs what is queued, and what that posts; timers that have not fired are forgotten. Not from its own thread. */
struct ot_exec_thread;
OT_MUST_CHECK enum ot_err ot_exec_thread_start(const char *name, struct ot_exec_thread **out);
struct ot_exec *ot_exec_thread_exec(struct ot_exec_thread *thread);
void ot_exec_thread_stop(struct ot_exec_thread *thread);

/* A thread of its own for one task that may be stuck in the kernel for who knows how long: nobody waits for its end, the process's included. False: there is no thread, and the task
 * was not run. The name as above. */
bool ot_exec_apart(const char *name, struct ot_task *task);

/* The heap behind timers, for those who write an executor. Grows by doubling when armed; the node itself is the caller's. */
struct ot_timer_heap { struct ot_timer **timers; uint32_t count, cap; };
OT_MUST_CHECK enum ot_err ot_timer_heap_reserve(struct ot_timer_heap *heap, uint32_t count);   /* so that set never allocates */
void ot_timer_heap_set(struct ot_timer_heap *heap, struct ot_timer *timer, int64_t deadline_us);
void ot_timer_heap_cancel(struct ot_timer_heap *heap, struct ot_timer *timer);
struct ot_timer *ot_timer_heap_first(const struct ot_timer_heap *heap);       /* NULL when empty */
void ot_timer_heap_free(struct ot_timer_heap *heap);

#endif
