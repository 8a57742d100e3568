/* The threads of this process as an operator would like to see them: what each is called, what it has used, and where it is right now. Linux; not for hot paths. */
#ifndef OT_BASE_THREADS_H
#define OT_BASE_THREADS_H

#include "base/err.h"

#define OT_STACK_FRAMES_MAX 48
struct ot_thread_view {
    int32_t id;                    /* as the kernel counts them: `top -H`, `gdb` */
    char name[16];
    char state;                    /* 'R', 'S', 'D', …; '?' when it cannot be read */
    uint64_t cpu_us, queued_us;    /* ran, and wanted to run while others did; since the thread began */
    uint32_t frame_count;          /* 0: no stack was asked for, or the thread did not answer (it waits in the kernel for a disk) */
    void *frames[OT_STACK_FRAMES_MAX];     /* innermost first */
};

/* Once, before threads are asked: the signal by which a thread is asked where it is. System calls are restarted. */
void ot_threads_install(void);
/* By id, at most max; how many were written. stacks: each thread is interrupted for some microseconds; those that do not answer are waited for half a second in
 * all. One caller at a time (others wait). */
uint32_t ot_threads_list(struct ot_thread_view *out, uint32_t max, bool stacks);
/* The names of this program's functions, read once for many frames. NULL: they cannot be read, or no memory; all below take that. */
struct ot_functions;
struct ot_functions *ot_functions_open(void);
void ot_functions_close(struct ot_functions *functions);
/* "ot_exec_turn_end+0x1c" or "libc.so.6!epoll_wait+0x5b"; without symbols "ottla+0x3fa41", which addr2line takes. */
#define OT_FRAME_TEXT_BYTES 160
void ot_threads_frame_text(const struct ot_functions *functions, const void *frame, char out[static OT_FRAME_TEXT_BYTES]);

#endif
