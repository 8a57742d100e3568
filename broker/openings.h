/* Which log is opened next.
 *
 * At a start every log waits for its recovery: thousands of them, or a few that take minutes. At most `max` are recovered at a time, so that a thread of the I/O pool is left
 * for the partitions that serve already; they go in the order in which they came, but one that a client asks for goes before all that nobody asked for. */
#ifndef OT_BROKER_OPENINGS_H
#define OT_BROKER_OPENINGS_H

#include "base/exec.h"
#include <pthread.h>

struct broker_opening_node {
    struct broker_opening_node *prev, *next;
    struct broker_opening_node **at;           /* points here while it waits, else NULL: how who wants it finds it. Guarded by the queue's mutex */
    struct ot_task *task;
    bool wanted;
};

struct broker_openings {
    pthread_mutex_t mutex;
    struct ot_exec *exec;
    struct broker_opening_list { struct broker_opening_node *first, *last; } wanted, others;
    uint32_t running, max;
};

void broker_openings_init(struct broker_openings *openings, struct ot_exec *exec, uint32_t max);       /* max 0: no limit */
void broker_openings_free(struct broker_openings *openings);
/* node->task is posted to the executor when it is its turn; from then on nothing of node is touched. Any thread. */
void broker_openings_add(struct broker_openings *openings, struct broker_opening_node *node);
void broker_openings_next(struct broker_openings *openings);       /* a task that was posted has ended: once for each */
/* Somebody asks for the one that *at points to; nothing happens if it does not wait. Cheap, never blocks for long. */
void broker_openings_want(struct broker_openings *openings, struct broker_opening_node **at);

#endif
