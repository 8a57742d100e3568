/* The coordinators of a cluster: made, run, freed, and what a host asks of them. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void make_nodes(struct cluster *w)
{
    static const uint32_t sizes[] = { 3, 3, 3, 5, 5, 1, 2, 4 };
    w->voter_count = sizes[ot_rng_below(&w->rng, OT_ARRAY_COUNT(sizes))];
    uint32_t learners = (uint32_t)ot_rng_below(&w->rng, 3), observers = (uint32_t)ot_rng_below(&w->rng, 2);
    w->node_count = OT_MIN(w->voter_count + learners + observers, (uint32_t)NODES_MAX);
    if (w->setup.node_count > 0) {
        w->voter_count = w->setup.voter_count;
        w->node_count = w->setup.node_count;
    }
    for (uint32_t i = 0; i < w->node_count; i++) {
        struct node *node = &w->nodes[i];
        node->id = (int32_t)i + 1;
        node->learner = i >= w->voter_count && i < w->voter_count + learners;
        node->observer = i >= w->voter_count + learners;
        node->damaged_term = node->durable_vote = -1;
        node->dir_number = i + 1;
        if (!node->observer) {
            ot_store_u32(node->dir_id.bytes, node->dir_number);
        }
        node_rebuild(w, node);
        node->journal.fd = node->journal.term_fd = -1;
        node->disk = sim_disk_new(ot_rng_next(&w->rng));
        node->pages = coord_pages_new(64 << 20);
        struct ot_io *io = sim_disk_io(node->disk);
        ot_ignore(io->ops->mkdir(io, "/data"), "new");
        ot_ignore(io->ops->sync_dir(io, "/"), "new");
        cluster_event(w, (struct event){ .kind = EVENT_START, .at_us = ot_rng_below(&w->rng, 2000000), .node = i });
    }
}

static void happens(struct cluster *w, struct event *event)
{
    struct node *node = &w->nodes[event->node];
    if (event->kind == EVENT_START) {
        if (!node->up && node->life == event->life) {
            node_starts(w, node);
        }
        return;
    }
    if (event->kind == EVENT_MESSAGE) {
        if (node->up && !node->halted && node->paused_until_us > w->now_us) {
            event->at_us = node->paused_until_us;
            cluster_event(w, *event);              /* it waits in the socket */
            event->body = NULL;
        } else if (node->up && !node->halted) {
            node_step(w, node, (struct coord_in){ .kind = COORD_MSG, .peer = event->from + 1, .body = coord_blob(event->body, event->bytes) });
        }
        return;
    }
    if (!node->up || node->life != event->life) {
        return;
    }
    if (event->kind == EVENT_JOB) {
        node_job(w, node);
    } else if (!node->halted) {
        node_snapshot_end(w, node);
    }
}

/* The node whose clock rings next. */
static uint64_t next_deadline(struct cluster *w, struct node **node_out)
{
    uint64_t best = UINT64_MAX;
    for (uint32_t i = 0; i < w->node_count; i++) {
        uint64_t at = node_deadline_us(w, &w->nodes[i]);
        if (at < best) {
            best = at;
            *node_out = &w->nodes[i];
        }
    }
    return best;
}

/* One whose journal a fault had broken hears of it with its next write, though faults are over: whoever runs it starts it again. */
static void start_halted(struct cluster *w)
{
    for (uint32_t i = 0; i < w->node_count; i++) {
        if (w->nodes[i].up && w->nodes[i].halted) {
            node_stop(w, &w->nodes[i], false);
            node_starts(w, &w->nodes[i]);
        }
    }
}

void cluster_run_until(struct cluster *w, uint64_t end_us)
{
    while (w->now_us < end_us) {
        if (w->calm) {
            start_halted(w);
        }
        struct node *node = NULL;
        struct event event;
        uint64_t deadline = next_deadline(w, &node), other = OT_MIN(w->next_client_us, w->calm ? UINT64_MAX : w->next_fault_us);
        uint64_t until = OT_MIN(OT_MIN(deadline, other), end_us);
        if (cluster_event_next(w, until, &event)) {
            w->now_us = OT_MAX(w->now_us, event.at_us);
            happens(w, &event);
            free(event.body);
        } else if (until == end_us) {
            w->now_us = end_us;
        } else if (deadline <= other) {
            CHECK(w->idle_ticks++ < 1000 || deadline > w->now_us);     /* a clock that rings for ever burns a core */
            w->idle_ticks = deadline > w->now_us ? 0 : w->idle_ticks;
            w->now_us = OT_MAX(w->now_us, deadline);
            node_step(w, node, (struct coord_in){ .kind = COORD_TICK });
        } else {
            w->now_us = OT_MAX(w->now_us, other);
            if (w->now_us >= w->next_client_us) {
                client_ask(w);
            } else {
                cluster_faults(w);
            }
        }
    }
}

void cluster_free(struct cluster *w)
{
    for (uint32_t i = 0; i < w->node_count; i++) {
        node_stop(w, &w->nodes[i], false);
        sim_disk_free(w->nodes[i].disk);
        coord_pages_free(w->nodes[i].pages);
    }
    while (w->event_count > 0) {
        free(w->events[--w->event_count].body);
    }
    for (uint32_t i = 0; i < w->publications.count; i++) {
        free(w->publications.entries[i].value);
    }
    ot_map_free(&w->publications);
    ot_map_free(&w->votes);
    free(w->events);
    free(w->commits);
    free(w->topics);
    free(w);
}

struct cluster *cluster_new(const struct cluster_setup *setup)
{
    struct cluster *w = calloc(1, sizeof *w);
    w->setup = *setup;
    ot_rng_seed(&w->rng, setup->seed);
    w->events = calloc(EVENTS_MAX, sizeof *w->events);
    w->commits = calloc(COMMITS_MAX, sizeof *w->commits);
    w->topics = calloc(TOPICS_MAX, sizeof *w->topics);
    ot_map_init(&w->publications);
    ot_map_init(&w->votes);
    static const uint64_t gaps_us[] = { 120000, 120000, 1500000, 6000000 };
    w->twice = 0.01;
    w->client_gap_us = gaps_us[ot_rng_below(&w->rng, OT_ARRAY_COUNT(gaps_us))];
    w->changes_voters = ot_rng_chance(&w->rng, 0.5);
    w->slow_max = ot_rng_chance(&w->rng, 0.3) ? 0.4 : 0.1;
    ot_rng_seed(&w->build_rng, setup->seed ^ UINT64_C(0x6a09e667f3bcc909));
    w->swarm.builds = ot_rng_chance(&w->build_rng, 0.25) && setup->host == NULL;
    ot_rng_seed(&w->rot_rng, setup->seed ^ UINT64_C(0xbb67ae8584caa73b));
    w->swarm.rots = ot_rng_chance(&w->rot_rng, 0.4) && setup->host == NULL;
    make_nodes(w);
    cluster_swarm(w);
    w->next_fault_us = ot_rng_below(&w->rng, 8000000);
    return w;
}

void cluster_quiet(struct cluster *w) { w->next_client_us = UINT64_MAX; }
uint64_t cluster_trace(const struct cluster *w) { return w->trace; }

void cluster_print(const struct cluster *w)
{
    printf("seed %llu: %u+%u nodes, %lld versions, %llu publications, %llu elections, %llu acked, %llu refused, %llu unknown, %llu reads, %llu voter changes, "
        "%llu crashes, %llu wipes, %llu damages, %llu rots (%llu told), %llu snapshots, %llu wholes, builds %d: %llu raises, %llu refused, %llu halts, trace %016llx\n", (unsigned long long)w->setup.seed, w->voter_count, w->node_count - w->voter_count,
        (long long)w->commit_max, (unsigned long long)w->publications_count, (unsigned long long)w->elections, (unsigned long long)w->acked,
        (unsigned long long)w->refused, (unsigned long long)w->unknown, (unsigned long long)w->reads, (unsigned long long)w->voters_changes,
        (unsigned long long)w->crashes, (unsigned long long)w->wipes, (unsigned long long)w->damages, (unsigned long long)w->rots, (unsigned long long)w->rots_told, (unsigned long long)w->snapshots,
        (unsigned long long)w->wholes, w->swarm.builds, (unsigned long long)w->raises, (unsigned long long)w->raises_refused, (unsigned long long)w->levels_unknown,
        (unsigned long long)w->trace);
}

/* ---- for a host */

bool cluster_node_start(struct cluster *w, uint32_t node)
{
    if (!w->nodes[node].up) {
        node_start(w, &w->nodes[node]);
    }
    return w->nodes[node].up;
}

void cluster_node_stop(struct cluster *w, uint32_t node, bool machine) { node_stop(w, &w->nodes[node], machine); }
bool cluster_node_up(const struct cluster *w, uint32_t node) { return w->nodes[node].up && !w->nodes[node].halted; }
uint64_t cluster_paused_until_us(const struct cluster *w, uint32_t node) { return w->nodes[node].paused_until_us; }
void cluster_pause(struct cluster *w, uint32_t node, uint64_t until_us) { w->nodes[node].paused_until_us = until_us; }

void cluster_cut_off(struct cluster *w, uint32_t node)
{
    for (uint32_t other = 0; other < w->node_count; other++) {
        w->cut[node][other] = w->cut[other][node] = other != node;
    }
}

const struct coord_value *cluster_view(const struct cluster *w, uint32_t node) { return coord_view(w->nodes[node].coord); }
int32_t cluster_leader(const struct cluster *w, uint32_t node) { return coord_leader(w->nodes[node].coord); }
int32_t cluster_term(const struct cluster *w, uint32_t node) { return coord_term(w->nodes[node].coord); }
void cluster_ask(struct cluster *w, uint32_t node, struct coord_request *request) { node_step(w, &w->nodes[node], (struct coord_in){ .kind = COORD_REQUEST, .request = request }); }
