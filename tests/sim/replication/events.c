/* What is to come, in order of time, and of its making where that is equal. */
#include "world.h"

static bool before(const struct event *a, const struct event *b) { return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order; }

void sim_event(struct world *w, const struct event *event)
{
    struct event in = *event;
    CHECK(w->event_count < EVENTS_MAX);
    in.order = ++w->order;
    uint32_t at = w->event_count++;
    for (; at > 0 && before(&in, &w->events[(at - 1) / 2]); at = (at - 1) / 2) {
        w->events[at] = w->events[(at - 1) / 2];
    }
    w->events[at] = in;
}

bool sim_event_next(struct world *w, uint64_t before_us, struct event *out)
{
    if (w->event_count == 0 || w->events[0].at_us > before_us) {
        return false;
    }
    *out = w->events[0];
    struct event last = w->events[--w->event_count];
    uint32_t at = 0;
    for (uint32_t child = 1; child < w->event_count; child = 2 * at + 1) {
        child += child + 1 < w->event_count && before(&w->events[child + 1], &w->events[child]);
        if (!before(&w->events[child], &last)) {
            break;
        }
        w->events[at] = w->events[child];
        at = child;
    }
    w->events[at] = last;
    return true;
}
