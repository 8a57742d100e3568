/* A binary heap of timers. A timer knows its place (index + 1, so that zero means unarmed), hence moving and cancelling need
 * no search. */
#include "base/exec.h"

#include <stdlib.h>

static void place(struct ot_timer_heap *heap, uint32_t index, struct ot_timer *timer)
{
    heap->timers[index] = timer;
    timer->heap_index = index + 1;
}

static void sift_up(struct ot_timer_heap *heap, uint32_t index, struct ot_timer *timer)
{
    while (index > 0) {
        const uint32_t parent = (index - 1) / 2;
        if (heap->timers[parent]->deadline_us <= timer->deadline_us) break;
        place(heap, index, heap->timers[parent]);
        index = parent;
    }
    place(heap, index, timer);
}

static void sift_down(struct ot_timer_heap *heap, uint32_t index, struct ot_timer *timer)
{
    for (;;) {
        uint32_t child = index * 2 + 1;
        if (child >= heap->count) break;
        if (child + 1 < heap->count && heap->timers[child + 1]->deadline_us < heap->timers[child]->deadline_us) child++;
        if (heap->timers[child]->deadline_us >= timer->deadline_us) break;
        place(heap, index, heap->timers[child]);
        index = child;
    }
    place(heap, index, timer);
}

/* The timer belongs at index or above or below it. */
static void settle(struct ot_timer_heap *heap, uint32_t index, struct ot_timer *timer)
{
    if (index > 0 && heap->timers[(index - 1) / 2]->deadline_us > timer->deadline_us)
        sift_up(heap, index, timer);
    else
        sift_down(heap, index, timer);
}

enum ot_err ot_timer_heap_reserve(struct ot_timer_heap *heap, uint32_t count)
{
    if (count <= heap->cap) return OT_OK;
    struct ot_timer **timers = realloc(heap->timers, (size_t)count * sizeof(*timers));
    if (timers == NULL) return OT_ERR_NO_MEMORY;
    heap->timers = timers;
    heap->cap = count;
    return OT_OK;
}

void ot_timer_heap_set(struct ot_timer_heap *heap, struct ot_timer *timer, int64_t deadline_us)
{
    timer->deadline_us = deadline_us;
    if (timer->heap_index != 0) {
        OT_ASSERT(timer->heap_index <= heap->count && heap->timers[timer->heap_index - 1] == timer);
        settle(heap, timer->heap_index - 1, timer);
        return;
    }
    if (heap->count == heap->cap) {
        const enum ot_err err = ot_timer_heap_reserve(heap, heap->cap == 0 ? 64 : heap->cap * 2);
        OT_ASSERT(err == OT_OK); /* a lost deadline would hang a client: better to stop */
    }
    sift_up(heap, heap->count++, timer);
}

void ot_timer_heap_cancel(struct ot_timer_heap *heap, struct ot_timer *timer)
{
    if (timer->heap_index == 0) return;
    const uint32_t index = timer->heap_index - 1;
    OT_ASSERT(index < heap->count && heap->timers[index] == timer);
    struct ot_timer *last = heap->timers[--heap->count];
    timer->heap_index = 0;
    if (last != timer) settle(heap, index, last);
}

struct ot_timer *ot_timer_heap_first(const struct ot_timer_heap *heap)
{
    return heap->count == 0 ? NULL : heap->timers[0];
}

void ot_timer_heap_free(struct ot_timer_heap *heap)
{
    for (uint32_t i = 0; i < heap->count; i++) heap->timers[i]->heap_index = 0;
    free(heap->timers);
    *heap = (struct ot_timer_heap){0};
}
