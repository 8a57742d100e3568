#include "base/exec.h"

/* What a thread means to post at the end of its turn: a few lists, each for one executor and key. Thread-local: nobody else sees them. */
#define LISTS 4u

struct list {
    struct ot_exec *exec;      /* NULL: free */
    struct ot_task *first, *last;
    uint32_t key, count;
};

static _Thread_local struct list lists[LISTS];
static _Thread_local uint32_t used, oldest;
static _Thread_local bool in_turns;
static _Thread_local int64_t began_us;

static void send_out(struct list *list)
{
    struct list out = *list;
    *list = (struct list){0};
    used--;
    out.exec->ops->post_many(out.exec, out.first, out.last, out.count);
}

static struct list *list_for(struct ot_exec *exec, uint32_t key)
{
    struct list *empty = NULL;
    for (uint32_t i = 0; i < LISTS; i++) {
        if (lists[i].exec == exec && lists[i].key == key) return &lists[i];
        if (lists[i].exec == NULL && empty == NULL) empty = &lists[i];
    }
    if (empty == NULL) {
        empty = &lists[oldest++ % LISTS];
        send_out(empty);
    }
    *empty = (struct list){.exec = exec, .key = key};
    used++;
    return empty;
}

void ot_exec_post_soon(struct ot_exec *exec, struct ot_task *task, uint32_t key)
{
    if (!in_turns || exec->ops->post_many == NULL) {
        ot_exec_post(exec, task);
        return;
    }
    struct list *list = list_for(exec, key);
    task->next = NULL;
    if (list->last != NULL) list->last->next = task;
    else list->first = task;
    list->last = task;
    if (++list->count >= OT_TURN_TASKS) send_out(list);
}

void ot_exec_turns_begin(void)
{
    in_turns = true;
}

void ot_exec_turn_begin(int64_t now_us)
{
    began_us = now_us;
}

int64_t ot_exec_turn_age_us(int64_t now_us)
{
    return in_turns ? now_us - began_us : 0;
}

void ot_exec_turn_end(void)
{
    for (uint32_t i = 0; used > 0 && i < LISTS; i++) {
        if (lists[i].exec != NULL) send_out(&lists[i]);
    }
}
