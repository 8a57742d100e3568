#include "base/net/loop.h"

#include "base/log.h"
#include "base/util.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS_PER_TURN 256
#define TASK_ROUNDS_MAX 16     /* then events get their turn */
#define WAKE_SLOT 0u
#define TIMERS_AT_START 1024u

/* epoll's data names a slot and the slot's generation, not a pointer: an event fetched for a descriptor that a callback of the same turn
 * removed finds another generation and is dropped. */
struct loop_slot { struct ot_loop_fd *fd; uint32_t generation, next_free; };

struct ot_loop {
    struct ot_exec exec;
    const char *name;
    pthread_t thread;
    int epoll_fd, wake_fd;
    _Atomic(struct ot_task *) posted;      /* newest first */
    _Atomic bool sleeping, stopping;
    _Atomic uint32_t posting;              /* other threads inside post: the last one to post may still look at the flag when its task has run */
    struct ot_timer_heap timers;
    struct loop_slot *slots;
    uint32_t slot_count, slot_free;
    int64_t turn_us;                       /* when the last wait ended */
    _Atomic int64_t waited_us;             /* in waits that ended */
    _Atomic int64_t waits_since_us;        /* 0: not in a wait now */
    _Atomic int64_t asked_us, asked_waited_us;
};

static struct ot_loop *loop_of(struct ot_exec *exec) { return OT_CONTAINER(exec, struct ot_loop, exec); }

static void loop_wake(struct ot_loop *loop)
{
    const uint64_t one = 1;
    ssize_t written;
    do {
        written = write(loop->wake_fd, &one, sizeof one);
    } while (written < 0 && errno == EINTR);
}

static _Thread_local const struct ot_loop *loop_here;

/* newest .. oldest, linked as posted is */
static void loop_push(struct ot_loop *loop, struct ot_task *newest, struct ot_task *oldest)
{
    const bool here = loop_here == loop;
    if (!here) atomic_fetch_add_explicit(&loop->posting, 1, memory_order_relaxed);
    struct ot_task *head = atomic_load_explicit(&loop->posted, memory_order_relaxed);
    do {
        oldest->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&loop->posted, &head, newest, memory_order_seq_cst, memory_order_relaxed));
    if (here) return;                      /* it looks before it sleeps */
    /* the loop says that it sleeps before it looks a last time: either it sees the task or we see the flag */
    if (atomic_load_explicit(&loop->sleeping, memory_order_seq_cst) && atomic_exchange_explicit(&loop->sleeping, false, memory_order_seq_cst)) loop_wake(loop);
    atomic_fetch_sub_explicit(&loop->posting, 1, memory_order_release);
}

static void loop_post(struct ot_exec *exec, struct ot_task *task) { loop_push(loop_of(exec), task, task); }

static void loop_post_many(struct ot_exec *exec, struct ot_task *first, struct ot_task *last, uint32_t count)
{
    (void)last, (void)count;
    struct ot_task *newest = NULL;
    for (struct ot_task *task = first, *next; task != NULL; task = next) {
        next = task->next;
        task->next = newest;
        newest = task;
    }
    loop_push(loop_of(exec), newest, first);
}

static void loop_timer_set(struct ot_exec *exec, struct ot_timer *timer, int64_t deadline_us)
{
    ot_timer_heap_set(&loop_of(exec)->timers, timer, deadline_us);
}

static void loop_timer_cancel(struct ot_exec *exec, struct ot_timer *timer) { ot_timer_heap_cancel(&loop_of(exec)->timers, timer); }
static int64_t loop_now_us(struct ot_exec *exec) { (void)exec; return ot_clock_boot_us(); }
static int64_t loop_wall_ms(struct ot_exec *exec) { (void)exec; return ot_clock_wall_ms(); }

static const struct ot_exec_ops loop_ops = { loop_post, loop_post_many, loop_timer_set, loop_timer_cancel, loop_now_us, loop_wall_ms };

static bool loop_run_tasks(struct ot_loop *loop)
{
    struct ot_task *newest = atomic_exchange_explicit(&loop->posted, NULL, memory_order_seq_cst);
    if (newest == NULL) return false;
    struct ot_task *oldest = NULL;
    while (newest != NULL) {
        struct ot_task *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest != NULL) {
        struct ot_task *task = oldest;
        oldest = task->next;               /* the task may be posted again, or freed, while it runs */
        task->run(task);
    }
    return true;
}

static void loop_run_timers(struct ot_loop *loop)
{
    struct ot_timer *timer = ot_timer_heap_first(&loop->timers);
    if (timer == NULL) return;
    const int64_t now_us = ot_clock_boot_us();
    while (timer != NULL && timer->deadline_us <= now_us) {
        ot_timer_heap_cancel(&loop->timers, timer);
        timer->fired(timer);
        timer = ot_timer_heap_first(&loop->timers);
    }
}

/* Arming cannot fail, so there is always room for as many timers again as are armed: made between turns, where no memory means to try again later. */
static void loop_timers_room(struct ot_loop *loop)
{
    if (loop->timers.count <= loop->timers.cap / 2) return;
    const enum ot_err err = ot_timer_heap_reserve(&loop->timers, loop->timers.cap * 2);
    ot_ignore(err, "the next turn tries again; half the heap is free");
}

static int loop_timeout_ms(struct ot_loop *loop)
{
    struct ot_timer *timer = ot_timer_heap_first(&loop->timers);
    if (timer == NULL) return -1;
    const int64_t left_us = timer->deadline_us - ot_clock_boot_us();
    if (left_us <= 0) return 0;
    const int64_t left_ms = (left_us + 999) / 1000;
    return left_ms > 3600000 ? 3600000 : (int)left_ms;
}

static void loop_dispatch(struct ot_loop *loop, const struct epoll_event *event)
{
    const uint32_t slot = (uint32_t)event->data.u64;
    const uint32_t generation = (uint32_t)(event->data.u64 >> 32);
    if (slot == WAKE_SLOT) return;         /* edge-triggered: every write is an edge, and nobody reads the count */
    struct ot_loop_fd *fd = loop->slots[slot].fd;
    if (fd != NULL && loop->slots[slot].generation == generation) fd->ready(fd, event->events);
}

static int loop_wait(struct ot_loop *loop, struct epoll_event *events)
{
    int timeout_ms = loop_timeout_ms(loop);
    if (timeout_ms != 0) {
        atomic_store_explicit(&loop->sleeping, true, memory_order_seq_cst);
        if (atomic_load_explicit(&loop->posted, memory_order_seq_cst) != NULL || atomic_load(&loop->stopping)) timeout_ms = 0;
    }
    const int64_t before_us = timeout_ms == 0 ? 0 : ot_clock_boot_us();
    atomic_store_explicit(&loop->waits_since_us, before_us, memory_order_relaxed);
    const int count = epoll_wait(loop->epoll_fd, events, EVENTS_PER_TURN, timeout_ms);
    atomic_store_explicit(&loop->sleeping, false, memory_order_seq_cst);
    atomic_store_explicit(&loop->waits_since_us, 0, memory_order_relaxed);
    const int64_t after_us = ot_clock_boot_us();
    if (timeout_ms != 0) atomic_fetch_add_explicit(&loop->waited_us, after_us - before_us, memory_order_relaxed);
    loop->turn_us = after_us;
    ot_exec_turn_begin(after_us);
    if (count < 0 && errno != EINTR) ot_log(OT_LOG_ERROR, "net", "epoll_failed", "loop=%s errno=%d", loop->name, errno);
    return count;
}

static void *loop_main(void *arg)
{
    struct ot_loop *loop = arg;
    loop_here = loop;
    sigset_t none;
    sigemptyset(&none);
    sigaddset(&none, SIGPIPE);             /* sendfile has no MSG_NOSIGNAL */
    pthread_sigmask(SIG_BLOCK, &none, NULL);
    struct epoll_event events[EVENTS_PER_TURN];
    pthread_setname_np(pthread_self(), loop->name);
    ot_exec_turns_begin();
    for (;;) {
        const int count = loop_wait(loop, events);
        for (int i = 0; i < count; i++) loop_dispatch(loop, &events[i]);
        ot_exec_turn_end();
        for (int round = 0; round < TASK_ROUNDS_MAX && loop_run_tasks(loop); round++) ot_exec_turn_end();
        loop_run_timers(loop);
        ot_exec_turn_end();
        loop_timers_room(loop);
        if (atomic_load(&loop->stopping) && atomic_load(&loop->posted) == NULL) return NULL;
    }
}

static void loop_free(struct ot_loop *loop)
{
    if (loop == NULL) return;
    if (loop->epoll_fd >= 0) close(loop->epoll_fd);
    if (loop->wake_fd >= 0) close(loop->wake_fd);
    ot_timer_heap_free(&loop->timers);
    free(loop->slots);
    free(loop);
}

enum ot_err ot_loop_start(const char *name, struct ot_loop **out)
{
    struct ot_loop *loop = calloc(1, sizeof *loop);
    if (loop == NULL) return OT_ERR_NO_MEMORY;
    enum ot_err err = OT_ERR_IO;
    loop->exec.ops = &loop_ops;
    loop->name = name;
    loop->slot_count = 1;                  /* slot 0 is the wake-up */
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->epoll_fd < 0 || loop->wake_fd < 0) goto fail;
    if ((loop->slots = calloc(1, sizeof *loop->slots)) == NULL) {
        err = OT_ERR_NO_MEMORY;
        goto fail;
    }
    if ((err = ot_timer_heap_reserve(&loop->timers, TIMERS_AT_START)) != OT_OK) goto fail;
    err = OT_ERR_IO;
    struct epoll_event event = { .events = (uint32_t)EPOLLIN | (uint32_t)EPOLLET, .data.u64 = WAKE_SLOT };
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->wake_fd, &event) != 0) goto fail;
    loop->turn_us = ot_clock_boot_us();
    atomic_store(&loop->asked_us, loop->turn_us);
    if (pthread_create(&loop->thread, NULL, loop_main, loop) != 0) goto fail;
    *out = loop;
    return OT_OK;
fail:
    loop_free(loop);
    return err;
}

void ot_loop_stop(struct ot_loop *loop)
{
    if (loop == NULL) return;
    OT_ASSERT(!ot_loop_here(loop));
    atomic_store(&loop->stopping, true);
    loop_wake(loop);
    pthread_join(loop->thread, NULL);
    while (atomic_load_explicit(&loop->posting, memory_order_acquire) > 0) sched_yield();
    loop_free(loop);
}

struct ot_exec *ot_loop_exec(struct ot_loop *loop) { return &loop->exec; }
int64_t ot_loop_turn_us(const struct ot_loop *loop) { return loop->turn_us; }
bool ot_loop_here(const struct ot_loop *loop) { return loop_here == loop; }

static uint32_t loop_slot_take(struct ot_loop *loop)
{
    if (loop->slot_free != 0) {
        const uint32_t slot = loop->slot_free;
        loop->slot_free = loop->slots[slot].next_free;
        return slot;
    }
    if ((loop->slot_count & (loop->slot_count - 1)) == 0) {     /* a power of two is full: double */
        struct loop_slot *more = realloc(loop->slots, (size_t)loop->slot_count * 2 * sizeof *more);
        if (more == NULL) return 0;
        memset(more + loop->slot_count, 0, loop->slot_count * sizeof *more);
        loop->slots = more;
    }
    return loop->slot_count++;
}

static void loop_slot_give(struct ot_loop *loop, uint32_t slot)
{
    loop->slots[slot].fd = NULL;
    loop->slots[slot].generation++;
    loop->slots[slot].next_free = loop->slot_free;
    loop->slot_free = slot;
}

static struct epoll_event loop_event(const struct ot_loop *loop, uint32_t slot, uint32_t events, bool level)
{
    return (struct epoll_event){ .events = level ? events : events | (uint32_t)EPOLLET,
        .data.u64 = (uint64_t)loop->slots[slot].generation << 32 | slot };
}

enum ot_err ot_loop_fd_add(struct ot_loop *loop, struct ot_loop_fd *fd, uint32_t events, bool level)
{
    const uint32_t slot = loop_slot_take(loop);
    if (slot == 0) return OT_ERR_NO_MEMORY;
    struct epoll_event event = loop_event(loop, slot, events, level);
    loop->slots[slot].fd = fd;
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd->fd, &event) != 0) {
        const int code = errno;
        loop_slot_give(loop, slot);
        ot_log(OT_LOG_ERROR, "net", "epoll_add_failed", "loop=%s errno=%d", loop->name, code);
        return code == ENOMEM || code == ENOSPC ? OT_ERR_NO_MEMORY : OT_ERR_IO;
    }
    fd->slot = slot;
    return OT_OK;
}

void ot_loop_fd_change(struct ot_loop *loop, struct ot_loop_fd *fd, uint32_t events, bool level)
{
    struct epoll_event event = loop_event(loop, fd->slot, events, level);
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, fd->fd, &event) != 0)
        ot_log(OT_LOG_ERROR, "net", "epoll_change_failed", "loop=%s errno=%d", loop->name, errno);
}

void ot_loop_fd_remove(struct ot_loop *loop, struct ot_loop_fd *fd)
{
    if (fd->slot == 0) return;
    struct epoll_event event = { 0 };
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, fd->fd, &event) != 0)
        ot_log(OT_LOG_ERROR, "net", "epoll_remove_failed", "loop=%s errno=%d", loop->name, errno);
    loop_slot_give(loop, fd->slot);
    fd->slot = 0;
}

double ot_loop_busy_ratio(struct ot_loop *loop)
{
    const int64_t since_us = atomic_load_explicit(&loop->waits_since_us, memory_order_relaxed), now_us = ot_clock_boot_us();
    /* a loop with nothing to do is in one long wait: that counts too. A wait that ends in between is counted twice at most once, and the ratio stays in 0..1 */
    const int64_t waited_us = atomic_load_explicit(&loop->waited_us, memory_order_relaxed) + (since_us > 0 ? now_us - since_us : 0);
    const int64_t span_us = now_us - atomic_exchange(&loop->asked_us, now_us);
    const int64_t idle_us = waited_us - atomic_exchange(&loop->asked_waited_us, waited_us);
    if (span_us <= 0 || idle_us >= span_us) return 0;
    return 1.0 - (double)idle_us / (double)span_us;
}
