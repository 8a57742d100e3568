/* One thread that runs tasks in the order they were posted, and its timers. It sleeps in poll on an eventfd and a timerfd of
 * CLOCK_BOOTTIME: a condition variable cannot wait on the clock that deadlines are given in. */
#include "base/exec.h"
#include "base/util.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

struct ot_exec_thread {
    struct ot_exec exec;
    const char *name;
    pthread_t thread;
    pthread_mutex_t mutex;
    struct ot_task *first, **end;
    bool sleeping, stopping; /* under the mutex, as the queue */
    int event_fd, timer_fd;
    int64_t timer_fd_us;       /* what the timerfd is set to; INT64_MAX: nothing */
    struct ot_timer_heap heap; /* the thread's own */
};

static struct ot_exec_thread *thread_of(struct ot_exec *exec)
{
    return OT_CONTAINER(exec, struct ot_exec_thread, exec);
}

static void wake(struct ot_exec_thread *thread)
{
    const uint64_t one = 1;
    while (write(thread->event_fd, &one, sizeof(one)) < 0 && errno == EINTR) {
    }
}

static void thread_post(struct ot_exec *exec, struct ot_task *task)
{
    struct ot_exec_thread *thread = thread_of(exec);
    task->next = NULL;
    pthread_mutex_lock(&thread->mutex);
    *thread->end = task;
    thread->end = &task->next;
    if (thread->sleeping) wake(thread);
    thread->sleeping = false; /* one wake is enough */
    pthread_mutex_unlock(&thread->mutex);
}

static void thread_timer_set(struct ot_exec *exec, struct ot_timer *timer, int64_t deadline_us)
{
    struct ot_exec_thread *thread = thread_of(exec);
    OT_ASSERT(pthread_equal(thread->thread, pthread_self()));
    ot_timer_heap_set(&thread->heap, timer, deadline_us);
}

static void thread_timer_cancel(struct ot_exec *exec, struct ot_timer *timer)
{
    struct ot_exec_thread *thread = thread_of(exec);
    OT_ASSERT(pthread_equal(thread->thread, pthread_self()));
    ot_timer_heap_cancel(&thread->heap, timer);
}

static int64_t boot_us(struct ot_exec *exec)
{
    return (void)exec, ot_clock_boot_us();
}
static int64_t wall_ms(struct ot_exec *exec)
{
    return (void)exec, ot_clock_wall_ms();
}

static const struct ot_exec_ops thread_ops = {thread_post, NULL, thread_timer_set, thread_timer_cancel, boot_us, wall_ms};

/* Waits for a task or the first deadline. The timerfd is only touched when that deadline changed. */
static void sleep_until_due(struct ot_exec_thread *thread)
{
    const struct ot_timer *first = ot_timer_heap_first(&thread->heap);
    const int64_t until_us = first == NULL ? INT64_MAX : OT_MAX(first->deadline_us, (int64_t)1);
    if (until_us != thread->timer_fd_us) {
        struct itimerspec at = {0};
        if (first != NULL) at.it_value = (struct timespec){.tv_sec = until_us / 1000000, .tv_nsec = until_us % 1000000 * 1000};
        timerfd_settime(thread->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
        thread->timer_fd_us = until_us;
    }
    struct pollfd fds[2] = {{.fd = thread->event_fd, .events = POLLIN}, {.fd = thread->timer_fd, .events = POLLIN}};
    if (poll(fds, 2, -1) <= 0) return;
    uint64_t count;
    if (fds[0].revents != 0 && read(thread->event_fd, &count, sizeof(count)) < 0) OT_ASSERT(errno == EAGAIN || errno == EINTR);
    if (fds[1].revents != 0 && read(thread->timer_fd, &count, sizeof(count)) == sizeof(count)) thread->timer_fd_us = INT64_MAX;
}

/* Fires what is due now; a timer that is armed again at once waits for the next turn, so tasks get theirs. */
static void fire_due(struct ot_exec_thread *thread)
{
    const int64_t now_us = ot_clock_boot_us();
    for (uint32_t bound = thread->heap.count; bound > 0; bound--) {
        struct ot_timer *timer = ot_timer_heap_first(&thread->heap);
        if (timer == NULL || timer->deadline_us > now_us) return;
        ot_timer_heap_cancel(&thread->heap, timer);
        timer->fired(timer);
    }
}

static struct ot_task *take_tasks(struct ot_exec_thread *thread, bool *stopping_out)
{
    pthread_mutex_lock(&thread->mutex);
    struct ot_task *tasks = thread->first;
    thread->first = NULL;
    thread->end = &thread->first;
    thread->sleeping = tasks == NULL && !thread->stopping;
    *stopping_out = thread->stopping;
    pthread_mutex_unlock(&thread->mutex);
    return tasks;
}

static void *thread_main(void *arg)
{
    struct ot_exec_thread *thread = arg;
    pthread_setname_np(pthread_self(), thread->name);
    for (;;) {
        bool stopping;
        struct ot_task *task = take_tasks(thread, &stopping);
        if (task == NULL && stopping) break;
        if (task == NULL) sleep_until_due(thread);
        while (task != NULL) {
            struct ot_task *next = task->next;
            task->run(task); /* the task may be gone afterwards, or posted again */
            task = next;
        }
        fire_due(thread);
    }
    return NULL;
}

static void thread_close(struct ot_exec_thread *thread)
{
    if (thread->event_fd >= 0) close(thread->event_fd);
    if (thread->timer_fd >= 0) close(thread->timer_fd);
    ot_timer_heap_free(&thread->heap);
    pthread_mutex_destroy(&thread->mutex);
    free(thread);
}

enum ot_err ot_exec_thread_start(const char *name, struct ot_exec_thread **out)
{
    OT_ASSERT(__builtin_strlen(name) < 16);
    struct ot_exec_thread *thread = calloc(1, sizeof(*thread));
    if (thread == NULL) return OT_ERR_NO_MEMORY;
    thread->exec.ops = &thread_ops;
    thread->name = name;
    thread->end = &thread->first;
    thread->timer_fd_us = INT64_MAX;
    pthread_mutex_init(&thread->mutex, NULL);
    thread->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    thread->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (thread->event_fd < 0 || thread->timer_fd < 0) goto fail;
    if (pthread_create(&thread->thread, NULL, thread_main, thread) != 0) goto fail;
    *out = thread;
    return OT_OK;
fail:
    thread_close(thread);
    return OT_ERR_NO_MEMORY;
}

/* ---- apart */

struct apart { const char *name; struct ot_task *task; };

static void *apart_main(void *arg)
{
    struct apart apart = *(struct apart *)arg;
    free(arg);
    pthread_setname_np(pthread_self(), apart.name);
    apart.task->run(apart.task);
    return NULL;
}

bool ot_exec_apart(const char *name, struct ot_task *task)
{
    OT_ASSERT(__builtin_strlen(name) < 16);
    pthread_t thread;
    struct apart *apart = malloc(sizeof(*apart));
    if (apart == NULL) return false;
    *apart = (struct apart){name, task};
    if (pthread_create(&thread, NULL, apart_main, apart) != 0) {
        free(apart);
        return false;
    }
    (void)pthread_detach(thread);
    return true;
}

struct ot_exec *ot_exec_thread_exec(struct ot_exec_thread *thread)
{
    return &thread->exec;
}

void ot_exec_thread_stop(struct ot_exec_thread *thread)
{
    if (thread == NULL) return;
    pthread_mutex_lock(&thread->mutex);
    thread->stopping = true;
    wake(thread);
    pthread_mutex_unlock(&thread->mutex);
    pthread_join(thread->thread, NULL);
    thread_close(thread);
}
