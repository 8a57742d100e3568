#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- events, in order of time, and of their making where that is equal */

static bool before(const struct event *a, const struct event *b) { return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order; }

void cluster_event(struct cluster *w, struct event event)
{
    CHECK(w->event_count < EVENTS_MAX);
    event.order = ++w->order;
    uint32_t at = w->event_count++;
    for (; at > 0 && before(&event, &w->events[(at - 1) / 2]); at = (at - 1) / 2) {
        w->events[at] = w->events[(at - 1) / 2];
    }
    w->events[at] = event;
}

bool cluster_event_next(struct cluster *w, uint64_t before_us, struct event *out)
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

uint64_t cluster_delay_us(struct cluster *w, uint32_t to)
{
    uint64_t delay = 50 + ot_rng_below(&w->rng, 2000);
    if (ot_rng_chance(&w->rng, w->slow)) {
        delay += ot_rng_below(&w->rng, 3000000);       /* long after it mattered */
    }
    if (w->nodes[to].slow_until_us > w->now_us) {
        delay += 200000 + ot_rng_below(&w->rng, 600000);
    }
    return delay;
}

static void deliver_later(struct cluster *w, uint32_t from, uint32_t to, struct ot_blob body)
{
    uint64_t delay = cluster_delay_us(w, to);
    uint8_t *copy = malloc(body.bytes);
    memcpy(copy, body.data, body.bytes);
    if (w->swarm.flips > 0 && !w->calm && ot_rng_chance(&w->rng, w->swarm.flips)) {
        copy[ot_rng_below(&w->rng, body.bytes)] ^= (uint8_t)(1u << ot_rng_below(&w->rng, 8));
        struct coord_message message;
        CHECK(coord_message_decode(coord_blob(copy, body.bytes), &message) != OT_OK);          /* the checksum sees it */
        w->flips++;
    }
    cluster_event(w, (struct event){ .kind = EVENT_MESSAGE, .at_us = w->now_us + delay, .node = to, .from = from, .body = copy, .bytes = body.bytes });
}

bool cluster_lost(struct cluster *w, uint32_t from, uint32_t to) { return w->cut[from][to] || ot_rng_chance(&w->rng, w->drop); }

void cluster_send(struct cluster *w, uint32_t from, uint32_t to, struct ot_blob body)
{
    if (cluster_lost(w, from, to) || w->event_count > EVENTS_MAX - 64) {
        return;
    }
    deliver_later(w, from, to, body);
    if (ot_rng_chance(&w->rng, w->twice)) {
        deliver_later(w, from, to, body);
    }
}

static void mend(struct cluster *w) { memset(w->cut, 0, sizeof w->cut); }

static void part(struct cluster *w)
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

bool cluster_in_doubt(const struct cluster *w)            /* a memory is gone or half gone: no second one until it is back */
{
    for (uint32_t i = 0; i < w->node_count; i++) {
        if (w->nodes[i].wiped || w->nodes[i].damaged_term >= 0 || w->nodes[i].rotten || w->nodes[i].term_rotten != 0) {
            return true;
        }
    }
    return false;
}

/* A vote in doubt counts only if everybody votes, and who is gone does not: of three, a torn COMMIT of one and the lost folder of another leave none that may be elected, for ever. It cannot be told
 * from an acceptance that those two alone had and that was committed. */
bool cluster_misses_one(const struct cluster *w)
{
    for (uint32_t i = 0; i < w->node_count; i++) {
        if (w->nodes[i].wiped || w->nodes[i].rotten || w->nodes[i].term_rotten != 0) {
            return true;
        }
    }
    return false;
}

/* Whose next start may find it in doubt. */
static bool any_torn(const struct cluster *w)
{
    for (uint32_t i = 0; i < w->node_count; i++) {
        const struct node *node = &w->nodes[i];
        if (node->torn || node->disk_fails_until_us != 0 || (node->up && node->journal.broken)) {
            return true;
        }
    }
    return false;
}

static uint32_t voters_now(const struct cluster *w)
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
static void damage(struct cluster *w, struct node *node)
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

static void find_snapshot(void *arg, const struct ot_io_entry *entry)
{
    if (strncmp(entry->name, "meta.snapshot.", strlen("meta.snapshot.")) == 0) {
        snprintf(arg, 80, "/data/meta/%s", entry->name);
    }
}

static bool flip_in(struct cluster *w, struct node *node, const char *path, uint64_t from, uint64_t bytes)
{
    return bytes > 0 && sim_disk_flip(node->disk, path, from + ot_rng_below(&w->rot_rng, bytes), (uint8_t)ot_rng_below(&w->rot_rng, 8));
}

/* A bit that was written long ago is another one: before the last record, in the snapshot, in one copy of the term or in both. */
static void rot(struct cluster *w, struct node *node)
{
    struct ot_io *io = sim_disk_io(node->disk);
    char path[80] = "";
    struct ot_io_stat stat = { 0 };
    const uint64_t kind = ot_rng_below(&w->rot_rng, 4);
    uint8_t copies = 0;
    if (kind == 0 && node->last_record_pos > 0) {          /* most of a block is padding */
        node->rotten = flip_in(w, node, "/data/meta/meta.journal", ot_rng_below(&w->rot_rng, node->last_record_pos / BROKER_JOURNAL_BLOCK) * BROKER_JOURNAL_BLOCK, 96);
    } else if (kind == 1 && io->ops->list(io, "/data/meta", find_snapshot, path) == OT_OK && path[0] != 0 && io->ops->stat(io, path, &stat) == OT_OK) {
        node->rotten = flip_in(w, node, path, 0, stat.bytes);
    } else if (kind >= 2) {
        copies = (uint8_t)(kind == 3 && node->durable_accepted.version > 0 ? 3u : 1u << ot_rng_below(&w->rot_rng, 2));
    }
    for (uint32_t i = 0; i < 2; i++) {
        if ((copies >> i & 1) != 0 && flip_in(w, node, "/data/meta/meta.term", i * BROKER_JOURNAL_BLOCK, 48)) {
            node->term_rotten |= (uint8_t)(1u << i);
        }
    }
    w->rots += node->rotten || copies != 0;
}

static void strike(struct cluster *w, struct node *node)
{
    uint64_t kind = ot_rng_below(&w->rng, 100);
    if (!node->up) {
        return;
    }
    bool spare = cluster_in_doubt(w) || any_torn(w) || w->changes_voters || node->observer || w->commit_max < 1;
    if (kind < 30 && w->swarm.pauses) {
        node->paused_until_us = w->now_us + ot_rng_below(&w->rng, 6000000);
        return;
    }
    bool machine = kind < 70;
    bool rots = kind >= 85 && kind < 92 && w->swarm.damages && !spare && voters_now(w) >= 2 && node->last_is_accept && !node->job_busy && node->damaged_term < 0;
    node_stop(w, node, machine);
    if (kind >= 97 && w->swarm.wipes && !spare && voters_now(w) >= 3) {
        node_wipe(w, node);
    } else if (rots) {
        damage(w, node);
    } else if (kind >= 70 && w->swarm.rots && !spare && voters_now(w) >= 3) {
        rot(w, node);
    }
    uint64_t down = w->swarm.storms ? ot_rng_below(&w->rng, 60000) : ot_rng_chance(&w->rng, 0.7) ? ot_rng_below(&w->rng, 1500000) : ot_rng_below(&w->rng, 15000000);
    cluster_event(w, (struct event){ .kind = EVENT_START, .at_us = w->now_us + down, .node = (uint32_t)(node - w->nodes), .life = node->life });
}

/* A disk fills up, or fails at some calls, for a while. Who stops for it is started again, on a disk that was seen to. */
static void disk_fails(struct cluster *w, struct node *node)
{
    struct sim_faults faults = { .short_write = 0.1, .short_read = 0.1 };
    uint64_t kind = ot_rng_below(&w->rng, 3);
    if (node->observer || !node->up || cluster_in_doubt(w)) {
        return;
    }
    faults.capacity_bytes = kind == 0 ? sim_disk_used_bytes(node->disk) + ot_rng_below(&w->rng, 8) * 4096 : 0;
    faults.sync_error = kind == 1 ? 0.05 : 0;
    faults.write_error = kind == 2 ? 0.05 : 0;
    sim_disk_faults(node->disk, &faults);
    node->disk_fails_until_us = w->now_us + 500000 + ot_rng_below(&w->rng, 4000000);
    w->disk_failures++;
}

/* After each pause between faults. */
static void see_to_disks(struct cluster *w)
{
    for (uint32_t i = 0; i < w->node_count; i++) {
        struct node *node = &w->nodes[i];
        if (node->disk_fails_until_us != 0 && node->disk_fails_until_us <= w->now_us) {
            node->disk_fails_until_us = 0;
            sim_disk_faults(node->disk, &(struct sim_faults){ 0 });
        }
        if (node->up && node->halted) {
            node_stop(w, node, ot_rng_chance(&w->rng, 0.5));
            cluster_event(w, (struct event){ .kind = EVENT_START, .at_us = w->now_us + ot_rng_below(&w->rng, 2000000), .node = i, .life = node->life });
        }
    }
}

static void power_cut(struct cluster *w)
{
    for (uint32_t i = 0; i < w->node_count; i++) {
        if (w->nodes[i].up && ot_rng_chance(&w->rng, 0.8)) {
            node_stop(w, &w->nodes[i], true);
            cluster_event(w, (struct event){ .kind = EVENT_START, .at_us = w->now_us + ot_rng_below(&w->rng, 2000000), .node = i, .life = w->nodes[i].life });
        }
    }
}

/* 10: whoever founded this cluster loses everything, but for one. */
static void refound(struct cluster *w)
{
    uint32_t left = (uint32_t)ot_rng_below(&w->rng, w->voter_count);
    for (uint32_t i = 0; i < w->voter_count; i++) {
        node_stop(w, &w->nodes[i], true);
        if (i != left) {
            node_wipe(w, &w->nodes[i]);
        }
        cluster_event(w, (struct event){ .kind = EVENT_START, .at_us = w->now_us + ot_rng_below(&w->rng, 2000000), .node = i, .life = w->nodes[i].life });
    }
    w->refounded = true;
}

/* 28: what others say comes late to whoever coordinates; then it is cut off and pauses, another one follows, and when it wakes up it hears what they said before. */
static void outlive(struct cluster *w)
{
    for (uint32_t i = 0; i < w->node_count; i++) {
        struct node *node = &w->nodes[i];
        if (!node->up || !node->leading) {
            continue;
        }
        if (node->slow_until_us <= w->now_us) {
            node->slow_until_us = w->now_us + 4000000;
            continue;
        }
        node->paused_until_us = w->now_us + 2500000 + ot_rng_below(&w->rng, 2000000);
        for (uint32_t other = 0; other < w->node_count; other++) {
            w->cut[i][other] = w->cut[other][i] = true;
        }
        w->next_fault_us = node->paused_until_us + 1000000;
    }
}

void cluster_faults(struct cluster *w)
{
    const struct swarm *swarm = &w->swarm;
    struct node *node = &w->nodes[ot_rng_below(&w->rng, w->node_count)];
    uint64_t kind = ot_rng_below(&w->rng, 12);
    see_to_disks(w);
    if (swarm->refounds && !w->refounded && w->commit_max > 20) {
        refound(w);
    } else if (swarm->outlives && ot_rng_chance(&w->rng, 0.5)) {
        outlive(w);
    } else if (kind < 3 && swarm->parts) {
        part(w);
    } else if (kind < 5) {
        mend(w);
        w->drop = w->slow = 0;
        w->twice = 0.01;
    } else if (kind < 9 && swarm->strikes) {
        strike(w, node);
    } else if (kind == 9 && swarm->power) {
        power_cut(w);
    } else if (kind == 10 && swarm->disk_faults) {
        disk_fails(w, node);
    } else if (kind == 11) {
        uint64_t until_us = w->now_us + ot_rng_below(&w->rng, 8000000);
        node->slow_until_us = swarm->slow_nets ? until_us : 0;
        node->disk_slow_until_us = swarm->slow_disks ? until_us : 0;
    }
    if (w->next_fault_us > w->now_us) {
        return;
    }
    w->next_fault_us = w->now_us + (swarm->storms ? 20000 + ot_rng_below(&w->rng, 300000) : 100000 + ot_rng_below(&w->rng, ot_rng_chance(&w->rng, 0.2) ? 12000000 : 2500000));
}

static bool some(struct cluster *w, double chance) { return ot_rng_chance(&w->rng, chance); }

bool cluster_refounds, cluster_outlives;
void cluster_swarm(struct cluster *w)
{
    w->swarm = (struct swarm){ .builds = w->swarm.builds, .rots = w->swarm.rots, .parts = some(w, 0.7), .strikes = some(w, 0.7), .power = some(w, 0.4), .pauses = some(w, 0.5), .slow_nets = some(w, 0.3), .slow_disks = some(w, 0.3),
        .disk_faults = some(w, 0.3), .wipes = some(w, 0.5), .damages = some(w, 0.5), .storms = some(w, 0.15), .refounds = (some(w, 0.06) || cluster_refounds) && w->voter_count >= 3 && w->setup.host == NULL,
        .outlives = (w->setup.seed % 16 == 7 || cluster_outlives) && w->setup.host == NULL, .flips = some(w, 0.2) ? 0.01 : 0, .kills_at_store = some(w, 0.2) ? 0.02 : 0, .rate_spread = some(w, 0.2) ? 0.4 : 0.08 };
    if (w->setup.rate_spread_max > 0) {
        w->swarm.rate_spread = OT_MIN(w->swarm.rate_spread, w->setup.rate_spread_max);
    }
}

void cluster_calm(struct cluster *w)
{
    w->calm = true;
    mend(w);
    w->drop = w->slow = w->twice = 0;
    for (uint32_t i = 0; i < w->node_count; i++) {
        struct node *node = &w->nodes[i];
        node->paused_until_us = node->slow_until_us = node->disk_slow_until_us = node->disk_fails_until_us = 0;
        if (!node->observer) {
            sim_disk_faults(node->disk, &(struct sim_faults){ 0 });
        }
        if (node->up && (node->halted || (w->swarm.builds && node->levels.max < BUILDS_NEWEST))) {     /* the upgrade of all is done */
            node_stop(w, node, false);
        }
        if (!node->up) {
            node_starts(w, node);
        }
    }
    w->acked_at_calm = w->acked;
}
