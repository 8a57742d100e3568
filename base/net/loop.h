/* A reactor: one thread, one epoll set, and a serial executor with timers (base/exec.h) on top of them.
 *
 * thread  ot_loop_start, ot_loop_stop: of the owner, never the loop's own. post: any thread. The rest: the loop's thread (or before anything runs there).
 * order   one turn is: events, then tasks until none is left (at most a bounded number of rounds), then timers that are due. A task that a callback posts to its own
 *         loop runs in the same turn, after what runs now: that is how answers of one turn are gathered into one send. */
#ifndef OT_NET_LOOP_H
#define OT_NET_LOOP_H

#include "base/exec.h"

struct ot_loop;

/* One descriptor in the epoll set, edge-triggered. The owner embeds it and keeps it until ot_loop_fd_remove; ready gets EPOLL… bits. An
 * event that was already fetched from the kernel for a descriptor removed in the same turn is not delivered. */
struct ot_loop_fd {
    void (*ready)(struct ot_loop_fd *fd, uint32_t events);
    int fd;
    uint32_t slot;             /* of the loop; 0 = not in it */
};

/* name: static text under 16 bytes. NO_MEMORY, IO. */
OT_MUST_CHECK enum ot_err ot_loop_start(const char *name, struct ot_loop **out);
/* Runs what is posted, and what that posts; timers that have not fired are forgotten. NULL is fine. */
void ot_loop_stop(struct ot_loop *loop);
struct ot_exec *ot_loop_exec(struct ot_loop *loop);
/* When the turn began: for bookkeeping in seconds (idle and progress timeouts), without a clock read apiece. Its own thread only. */
int64_t ot_loop_turn_us(const struct ot_loop *loop);
bool ot_loop_here(const struct ot_loop *loop);                     /* is this the loop's thread? */
/* events: EPOLLIN | EPOLLOUT | …; EPOLLET is added unless level. NO_MEMORY, IO. */
OT_MUST_CHECK enum ot_err ot_loop_fd_add(struct ot_loop *loop, struct ot_loop_fd *fd, uint32_t events, bool level);
void ot_loop_fd_change(struct ot_loop *loop, struct ot_loop_fd *fd, uint32_t events, bool level);
void ot_loop_fd_remove(struct ot_loop *loop, struct ot_loop_fd *fd);    /* before the descriptor is closed; not added is fine */

/* Share of time not spent waiting since the last call, by whoever calls: for metrics. Any thread. */
double ot_loop_busy_ratio(struct ot_loop *loop);

#endif
