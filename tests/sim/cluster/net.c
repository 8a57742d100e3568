#include "world.h"

#include <stdlib.h>
#include <string.h>

/* ---- events, in order of time, and of their making where that is equal */

static bool before(const struct event *a, const struct event *b) { return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order; }

void sim_event(struct world *w, struct event event)
{
    CHECK(w->event_count < EVENTS_MAX);
    event.order = ++w->order;
    uint32_t at = w->event_count++;
    for (; at > 0 && before(&event, &w->events[(at - 1) / 2]); at = (at - 1) / 2) {
        w->events[at] = w->events[(at - 1) / 2];
    }
    w->events[at] = event;
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

/* ---- the network */

static void deliver_later(struct world *w, uint32_t from, uint32_t to, struct ot_blob body)
{
    uint64_t delay = 50 + ot_rng_below(&w->rng, 2000);
    if (ot_rng_chance(&w->rng, w->slow)) {
        delay += ot_rng_below(&w->rng, 3000000);       /* long after it mattered */
    }
    uint8_t *copy = malloc(body.bytes);
    memcpy(copy, body.data, body.bytes);
    sim_event(w, (struct event){ .kind = EVENT_MESSAGE, .at_us = w->now_us + delay, .node = to, .from = from, .body = copy, .bytes = body.bytes });
}

void sim_send(struct world *w, uint32_t from, uint32_t to, struct ot_blob body)
{
    if (w->cut[from][to] || ot_rng_chance(&w->rng, w->drop) || w->event_count > EVENTS_MAX - 64) {
        return;
    }
    deliver_later(w, from, to, body);
    if (ot_rng_chance(&w->rng, w->twice)) {
        deliver_later(w, from, to, body);
    }
}

static void mend(struct world *w) { memset(w->cut, 0, sizeof w->cut); }

static void part(struct world *w)
{
    uint64_t kind = ot_rng_below(&w->rng, 4);
    mend(w);
    if (kind == 0) {                           /* two sides */
        uint64_t side = ot_rng_next(&w->rng);
        for (uint32_t a = 0; a < w->node_count; a++) {
            for (uint32_t b = 0; b < w->node_count; b++) {
                w->cut[a][b] = ((side >> a ^ side >> b) & 1) != 0;
            }
        }
    } else if (kind == 1) {                    /* one is alone, in one direction or both */
        uint32_t lone = (uint32_t)ot_rng_below(&w->rng, w->node_count);
        uint64_t ways = 1 + ot_rng_below(&w->rng, 3);
        for (uint32_t other = 0; other < w->node_count; other++) {
            w->cut[lone][other] = (ways & 1) != 0;
            w->cut[other][lone] = (ways & 2) != 0;
        }
    } else if (kind == 2) {                    /* some links */
        for (uint32_t i = 0; i < 3; i++) {
            w->cut[ot_rng_below(&w->rng, w->node_count)][ot_rng_below(&w->rng, w->node_count)] = true;
        }
    }
    w->drop = ot_rng_chance(&w->rng, 0.3) ? 0.1 * (double)ot_rng_below(&w->rng, 4) : 0;
    w->twice = ot_rng_chance(&w->rng, 0.3) ? 0.2 : 0.01;
    w->slow = ot_rng_chance(&w->rng, 0.4) ? w->slow_max : 0;
}

/* ---- what goes wrong with nodes */

bool sim_in_doubt(const struct world *w)            /* a memory is gone or half gone: no second one until it is back */
{
    for (uint32_t i = 0; i < w->node_count; i++) {
        if (w->nodes[i].wiped || w->nodes[i].damaged_term >= 0) {
            return true;
        }
    }
    return false;
}

static uint32_t voters_now(const struct world *w)
{
    int32_t ids[COORD_VOTERS_MAX];
    for (uint32_t i = 0; i < w->node_count; i++) {
        if (w->nodes[i].up && w->nodes[i].applied.version == w->commit_max) {
            return coord_voters_of(coord_view(w->nodes[i].coord), ids, NULL);
        }
    }
    return 0;
}

/* The acceptance that lies last in the journal rots. */
static void damage(struct world *w, struct node *node)
{
    struct ot_io *io = sim_disk_io(node->disk);
    uint8_t sector[64];
    int fd = -1;
    memset(sector, 0xa5, sizeof sector);
    if (io->ops->open(io, "/data/meta/meta.journal", OT_IO_WRITE, &fd) != OT_OK) {
        return;
    }
    ot_ignore(ot_io_write_all(io, fd, sector, sizeof sector, node->last_record_pos + 40), "a fault of the fault");
    ot_ignore(io->ops->fdatasync(io, fd), "a fault of the fault");
    io->ops->close(io, fd);
    node->damaged_term = node->durable_term;
    w->damages++;
}

static void strike(struct world *w, struct node *node)
{
    uint64_t kind = ot_rng_below(&w->rng, 100);
    if (!node->up) {
        return;
    }
    bool spare = sim_in_doubt(w) || w->changes_voters || node->observer || w->commit_max < 1;
    if (kind < 30) {
        node->paused_until_us = w->now_us + ot_rng_below(&w->rng, 6000000);
        return;
    }
    bool machine = kind < 70;
    bool rots = kind >= 85 && kind < 92 && !spare && voters_now(w) >= 2 && node->last_is_accept && !node->job_busy && node->damaged_term < 0;
    node_stop(w, node, machine);
    if (kind >= 97 && !spare && voters_now(w) >= 3) {
        node_wipe(w, node);
    } else if (rots) {
        damage(w, node);
    }
    uint64_t down = ot_rng_chance(&w->rng, 0.7) ? ot_rng_below(&w->rng, 1500000) : ot_rng_below(&w->rng, 15000000);
    sim_event(w, (struct event){ .kind = EVENT_START, .at_us = w->now_us + down, .node = (uint32_t)(node - w->nodes), .life = node->life });
}

void sim_faults(struct world *w)
{
    uint64_t kind = ot_rng_below(&w->rng, 10);
    if (kind < 3) {
        part(w);
    } else if (kind < 5) {
        mend(w);
        w->drop = w->slow = 0;
        w->twice = 0.01;
    } else if (kind < 9) {
        strike(w, &w->nodes[ot_rng_below(&w->rng, w->node_count)]);
    } else {                                   /* the power of all of them */
        for (uint32_t i = 0; i < w->node_count; i++) {
            if (w->nodes[i].up && ot_rng_chance(&w->rng, 0.8)) {
                node_stop(w, &w->nodes[i], true);
                sim_event(w, (struct event){ .kind = EVENT_START, .at_us = w->now_us + ot_rng_below(&w->rng, 2000000), .node = i, .life = w->nodes[i].life });
            }
        }
    }
    w->next_fault_us = w->now_us + 100000 + ot_rng_below(&w->rng, ot_rng_chance(&w->rng, 0.2) ? 12000000 : 2500000);
}

void sim_calm(struct world *w)
{
    w->calm = true;
    mend(w);
    w->drop = w->slow = w->twice = 0;
    for (uint32_t i = 0; i < w->node_count; i++) {
        struct node *node = &w->nodes[i];
        node->paused_until_us = 0;
        if (node->up && node->halted) {
            node_stop(w, node, false);
        }
        if (!node->up) {
            node_start(w, node);
        }
    }
}
