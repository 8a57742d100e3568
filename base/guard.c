/* memcpy over a mapped file that survives SIGBUS. The handler jumps back only when this thread is inside a guarded copy and the fault
 * lies in one of its two ranges; any other SIGBUS kills the process as it would without us. sigsetjmp does not save the mask
 * (that would be a system call for each copy): the handler puts back the one that the kernel kept for the interrupted code. */
#include "base/io.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <ucontext.h>

struct guard {
    sigjmp_buf back;
    const uint8_t *to, *from;
    size_t bytes;
};

static _Thread_local struct guard *volatile active;
static struct sigaction before;
static _Atomic bool installed;

static bool inside(const uint8_t *at, const uint8_t *start, size_t bytes)
{
    /* the kernel may name the page, not the byte */
    const uintptr_t page = 65535, a = (uintptr_t)at, first = (uintptr_t)start & ~page;
    return a >= first && a < (((uintptr_t)start + bytes + page) & ~page);
}

static void on_sigbus(int signal_number, siginfo_t *info, void *context)
{
    struct guard *guard = active;
    const uint8_t *at = info->si_addr;
    if (guard != NULL && (inside(at, guard->from, guard->bytes) || inside(at, guard->to, guard->bytes))) {
        active = NULL;
        pthread_sigmask(SIG_SETMASK, &((const ucontext_t *)context)->uc_sigmask, NULL);
        siglongjmp(guard->back, 1);
    }
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(signal_number, info, context);
        return;
    }
    sigaction(SIGBUS, &before, NULL); /* the instruction faults again and is not ours to catch */
}

void ot_guard_install(void)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    struct sigaction current, action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    pthread_mutex_lock(&mutex);
    sigaction(SIGBUS, NULL, &current);
    if ((current.sa_flags & SA_SIGINFO) == 0 || current.sa_sigaction != on_sigbus) {
        before = current;
        sigaction(SIGBUS, &action, NULL);
    }
    atomic_store(&installed, true);
    pthread_mutex_unlock(&mutex);
}

enum ot_err ot_guarded_copy(void *to, const void *from, size_t bytes)
{
    if (OT_UNLIKELY(!atomic_load_explicit(&installed, memory_order_acquire))) ot_guard_install();
    struct guard guard;
    guard.to = to;
    guard.from = from;
    guard.bytes = bytes;
    if (sigsetjmp(guard.back, 0) != 0) return OT_ERR_IO;
    active = &guard;
    atomic_signal_fence(memory_order_seq_cst);
    memcpy(to, from, bytes);
    atomic_signal_fence(memory_order_seq_cst);
    active = NULL;
    return OT_OK;
}
