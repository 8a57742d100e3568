/* ottla_sim_whole: coordinators, replicas, append lanes and logs of a whole cluster, together.
 *
 * Options: common/campaign.h, and
 *   --beyond   more machines lose their memory at once than the durability class covers: what is lost has to be told (else in one of twelve)
 *   --strict   leases: acks=1 is refused where another one may lead (else in one of ten) */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool wanted_beyond, wanted_strict;

#define STRICT_SPREAD 0.05                     /* any two clocks differ by less than the tenth that a lease is shorter than the silence of a broker */

#define ALL_COVERED 1000                       /* machines that may forget: what was acknowledged is on all their disks */

/* A double is one more disk that is gone, as far as anybody is told, though what was on it comes back. Where no machine forgets, whoever is left has everything; else both together are
 * no more than the durability class covers. */
static bool spared(const struct world *w, uint64_t forgot, uint32_t doubled)
{
    return w->swarm.beyond || forgot == 0 || doubled == 0 || forgot + doubled < (uint64_t)w->min_isr;
}

bool sim_may_lose(const struct world *w)
{
    return w->swarm.beyond || (w->losses < w->losses_max && spared(w, w->losses_max == ALL_COVERED ? w->wiped : w->losses + 1, w->doubled));
}

bool sim_may_double(const struct world *w) { return spared(w, w->losses_max == ALL_COVERED ? w->wiped : w->losses, w->doubled + 1); }

static bool may_wipe(const struct world *w)    /* no class outlives the disk */
{
    return w->swarm.beyond || (w->losses < (uint32_t)w->min_isr && spared(w, w->wiped + 1, w->doubled));
}

/* ---- faults that are not the coordinators' own (cluster/net.c has the network's, pauses, restarts, disks of the coordinators, power cuts) */

static void crash(struct whole *whole, uint32_t index)
{
    struct world *w = &whole->w;
    struct broker *broker = &w->brokers[index];
    const bool machine = ot_rng_chance(&w->rng, 0.5) && sim_may_lose(w);
    if (!broker->up) {
        return;
    }
    w->losses += machine;
    host_crash(whole, index, machine);
    if (w->swarm.wipes && machine && may_wipe(w) && ot_rng_chance(&w->rng, 0.3)) {
        for (uint32_t p = 0; p < PARTITIONS; p++) {
            broker->lost |= broker->held[p].end > 0;
            broker->held[p].end = broker->held[p].flushed = broker->held[p].start = broker->held[p].told_start = 0;
        }
        broker->dir_number++;
        server_wipe(whole->hosts[index].server, ot_rng_next(&w->rng));
        w->wiped++;
    }
}

/* Somebody starts a second process with this id, over another disk, and kills it: if the first one was just taken for gone, it took its place. */
static void double_comes(struct whole *whole, uint32_t index)
{
    struct world *w = &whole->w;
    struct ask *ask = ask_new(w, NULL, COORD_ASK_REGISTER);
    ot_store_u64(ask->dir.bytes, ot_rng_next(&w->rng));
    ask->request.u.register_ = (struct coord_register){ .broker_id = (int32_t)index + 1, .dir_ids = &ask->dir, .dir_count = 1, .boot_class = COORD_BOOT_MACHINE_CRASH, .rack = { .null = true } };
    ot_store_u64(ask->request.u.register_.incarnation_id.bytes, ot_rng_next(&w->rng));
    ask_send(w, ask);
    w->doubles++;
}

/* Whoever leads is left behind, with a request that it has taken: it stands still, or others do not hear it and clients do. */
static void strand(struct whole *whole)
{
    struct world *w = &whole->w;
    const uint32_t partition = (uint32_t)ot_rng_below(&w->rng, PARTITIONS);
    const int32_t leader = w->rows[partition].leader;
    if (leader < 1 || !w->brokers[leader - 1].up) {
        return;
    }
    client_asks_once(whole, partition, (uint32_t)leader - 1);
    if (ot_rng_chance(&w->rng, 0.5)) {
        cluster_cut_off(whole->cluster, (uint32_t)leader - 1);
    } else {
        cluster_pause(whole->cluster, (uint32_t)leader - 1, w->now_us + 3000000 + ot_rng_below(&w->rng, 3000000));
    }
    w->next_fault_us = w->now_us + 4000000;    /* nothing else happens until another one leads */
    whole->stranded.broker = (uint32_t)leader - 1;
    whole->stranded.partition = partition;
    whole->stranded.until_us = w->next_fault_us;
}

static void fault(struct whole *whole)
{
    struct world *w = &whole->w;
    const struct swarm *swarm = &w->swarm;
    const uint32_t index = (uint32_t)ot_rng_below(&w->rng, w->broker_count);
    uint64_t kind = ot_rng_below(&w->rng, 100);
    w->next_fault_us = w->now_us + ot_rng_below(&w->rng, ot_rng_chance(&w->rng, 0.3) && !swarm->storms ? 6000000 : 1500000);
    if (swarm->strict && ot_rng_chance(&w->rng, 0.25)) {
        strand(whole);
    } else if (kind < 30) {
        crash(whole, index);
    } else if (kind < 34 && swarm->beyond) {   /* the power of all of them */
        for (uint32_t i = 0; i < w->broker_count; i++) {
            host_crash(whole, i, true);
        }
        w->power_cuts++;
    } else if (kind < 50 && swarm->stops) {
        host_leaves(whole, index);
    } else if (kind < 60 && w->topic_made) {
        operate_configure(w);
    } else if (kind < 68 && swarm->doubles) {
        double_comes(whole, index);
    } else if (w->topic_made && swarm->moves) {
        operate_move(w);
    }
}

static bool some(struct world *w, double chance) { return ot_rng_chance(&w->rng, chance); }

static void draw_swarm(struct world *w)
{
    w->swarm = (struct swarm){ .engine = true, .beyond = some(w, 0.08) || wanted_beyond, .storms = some(w, 0.15), .wipes = some(w, 0.3), .min_flips = some(w, 0.3), .class_flips = some(w, 0.2),
        .moves = some(w, 0.7), .stops = some(w, 0.7), .cuts_power = some(w, 0.5), .doubles = some(w, 0.3), .unclean = some(w, 0.4), .rate_spread = some(w, 0.5) ? 0.08 : 0 };
    struct ot_rng more;                        /* of its own, so that other seeds are what they were */
    ot_rng_seed(&more, w->seed ^ UINT64_C(0xbb67ae8584caa73b));
    w->swarm.strict = (ot_rng_chance(&more, 0.1) || wanted_strict) && !w->swarm.beyond;
    w->swarm.deletes = ot_rng_chance(&more, 0.3) && !w->swarm.beyond;
    w->swarm.retains = ot_rng_chance(&more, 0.1) && !w->swarm.beyond;
    if (w->swarm.strict) {
        w->swarm.rate_spread = STRICT_SPREAD;
    }
}

static void calm(struct whole *whole)
{
    whole->w.calm = true;
    whole->w.swarm.cuts_power = false;
    for (uint32_t i = 0; i < whole->w.broker_count; i++) {
        server_power_stays(whole->hosts[i].server);
    }
    cluster_calm(whole->cluster);
}

/* ---- a seed */

static void run_until(struct whole *whole, uint64_t end_us, bool clients)
{
    struct world *w = &whole->w;
    while (w->now_us < end_us) {
        uint64_t next_us = w->now_us + 5000;
        struct event event;
        cluster_run_until(whole->cluster, next_us);
        while (sim_event_next(w, next_us, &event)) {
            w->now_us = OT_MAX(w->now_us, event.at_us);
            host_event(whole, &event);
        }
        w->now_us = next_us;
        for (uint32_t i = 0; i < w->broker_count; i++) {
            host_look(whole, i);
        }
        if (clients && w->topic_made) {
            clients_look(whole);
        }
        if (!w->topic_made && w->now_us % 1000000 < 5000) {
            operate_make_topic(w);
        }
        for (uint32_t p = 0; p < PARTITIONS && w->now_us % 100000 < 5000; p++) {
            operate_recover(w, p);
        }
        if (!w->calm && w->now_us >= w->next_fault_us) {
            fault(whole);
        }
    }
}

static void make(struct whole *whole, bool verbose)
{
    static const uint32_t voters[] = { 1, 3, 3, 3, 5 };
    struct world *w = &whole->w;
    w->broker_count = 3 + (uint32_t)ot_rng_below(&w->rng, BROKERS_MAX - 2);
    const uint32_t voter_count = voters[ot_rng_below(&w->rng, OT_ARRAY_COUNT(voters))];
    struct cluster_setup setup = { .seed = ot_rng_next(&w->rng), .verbose = verbose, .voter_count = OT_MIN(voter_count, w->broker_count),
        .node_count = w->broker_count, .min_isr = w->min_isr, .session_us = SESSION_US, .rate_spread_max = w->swarm.strict ? STRICT_SPREAD : 0 };
    hosts_hooks(whole, &setup);
    whole->pool = ot_pool_new("sim", 256u << 20, 1u << 20);
    CHECK(whole->pool != NULL);
    whole->cluster = cluster_new(&setup);
    for (uint32_t i = 0; i < w->broker_count; i++) {
        struct broker *broker = &w->brokers[i];
        broker->id = (int32_t)i + 1;
        broker->rate = 1 - w->swarm.rate_spread + 2 * w->swarm.rate_spread * (double)ot_rng_below(&w->rng, 1000) / 1000;
        for (uint32_t p = 0; p < PARTITIONS; p++) {
            broker->held[p].log = calloc(LOG_MAX, sizeof(struct record));
        }
    }
}

static void free_world(struct whole *whole)
{
    struct world *w = &whole->w;
    for (uint32_t i = 0; i < w->broker_count; i++) {
        host_free(&whole->hosts[i]);
    }
    cluster_free(whole->cluster);
    while (whole->passed != NULL) {
        struct passed *next = whole->passed->next;
        free(whole->passed);
        whole->passed = next;
    }
    while (whole->links != NULL) {
        struct link *next = whole->links->next;
        ot_buf_unref(whole->links->bytes);
        free(whole->links);
        whole->links = next;
    }
    ot_pool_free(whole->pool);
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        for (uint32_t i = 0; i < w->broker_count; i++) {
            free(w->brokers[i].held[p].log);
        }
        free(w->committed[p]);
        free(w->appends_of[p]);
        free(w->once[p]);
        free(w->moved_end[p]);
    }
    free(w->events);
    free(whole->taken);
    free(whole);
}

static void tell(const struct whole *whole, uint64_t trace)
{
    const struct world *w = &whole->w;
    printf("seed %llu: %u brokers, min isr %d, class %d%s%s%s%s, %llu appended, %llu acked of %llu, %llu acked once, %llu moved, %llu consumed, %llu lost, %llu wiped, %llu power cuts, %lld+%lld committed, %llu deletions, "
        "%llu crashes (%llu of machines), %llu doubles, %llu elections, %llu cut off, %llu proposals, trace %016llx\n", (unsigned long long)w->seed, w->broker_count, w->min_isr, (int)w->class_,
        w->swarm.beyond ? ", beyond" : "", w->swarm.strict ? ", strict" : "", w->swarm.deletes ? ", deletes" : "", w->swarm.retains ? ", retains" : "", (unsigned long long)w->appended, (unsigned long long)w->acked, (unsigned long long)whole->puts, (unsigned long long)w->acked_once, (unsigned long long)w->moved,
        (unsigned long long)whole->seen_by_consumers, (unsigned long long)w->lost, (unsigned long long)w->wiped, (unsigned long long)w->power_cuts, (long long)w->committed_end[0],
        (long long)w->committed_end[1], (unsigned long long)whole->deletions, (unsigned long long)w->crashes, (unsigned long long)w->machine_crashes, (unsigned long long)w->doubles, (unsigned long long)w->elections, (unsigned long long)w->truncated,
        (unsigned long long)w->proposals, (unsigned long long)trace);
}

static uint64_t run_seed(uint64_t seed, bool verbose)
{
    struct whole *whole = calloc(1, sizeof *whole);
    struct world *w = &whole->w;
    w->seed = seed;
    w->verbose = verbose;
    w->lane = true;
    sim_now(seed, &w->now_us);
    ot_rng_seed(&w->rng, seed);
    w->events = calloc(EVENTS_MAX, sizeof *w->events);
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        w->committed[p] = calloc(LOG_MAX, sizeof(struct record));
        w->appends_of[p] = calloc(LOG_MAX, sizeof(int32_t));
        w->once[p] = calloc(LOG_MAX, sizeof(uint64_t));
        w->moved_end[p] = calloc(LOG_MAX, sizeof(int64_t));
    }
    whole->taken = calloc(IDS_MAX, sizeof *whole->taken);
    w->min_isr = 1 + (int32_t)ot_rng_below(&w->rng, 3);
    w->class_ = (enum replica_class)ot_rng_below(&w->rng, 4);
    whole->steps_max = ot_rng_chance(&w->rng, 0.3) ? 8 : 60;
    draw_swarm(w);
    w->losses_max = w->class_ == REPLICA_FSYNC_ALL && !w->swarm.class_flips ? ALL_COVERED : (uint32_t)w->min_isr - 1;
    make(whole, verbose);
    w->next_fault_us = 5000000;
    run_until(whole, 30000000, true);
    calm(whole);
    run_until(whole, w->now_us + 25000000, true);
    cluster_quiet(whole->cluster);
    run_until(whole, w->now_us + 10000000, false);
    check_end(w);
    check_cluster_end(whole->cluster);
    uint64_t trace = w->ids ^ cluster_trace(whole->cluster);
    for (uint32_t i = 0; i < w->broker_count; i++) {
        trace = trace * UINT64_C(0x100000001b3) ^ server_hash(whole->hosts[i].server);
    }
    if (verbose) {
        cluster_print(whole->cluster);
        tell(whole, trace);
    }
    sim_now(seed, NULL);
    free_world(whole);
    return trace;
}

static bool flag(const char *word)
{
    wanted_beyond |= strcmp(word, "--beyond") == 0;
    wanted_strict |= strcmp(word, "--strict") == 0;
    return strcmp(word, "--beyond") == 0 || strcmp(word, "--strict") == 0;
}

int main(int argc, char **argv) { return sim_campaign(&(struct sim_program){ "ottla_sim_whole", " [--beyond] [--strict]", run_seed, flag }, argc, argv); }
