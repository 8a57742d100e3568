/* ottla_sim_replication: replica machines and the coordinator's rows against crashes, delays and lost page caches.
 *
 * Options: common/campaign.h, and
 *   --engine   the engine's own logs in every seed (else in one of six)
 *   --beyond   more machines lose their memory at once than the durability class covers: what is lost has to be told (else in one of twelve)
 *   --strict   leases: acks=1 is refused where another one may lead (else in one of ten) */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct swarm wanted;                    /* by flags, in every seed */

bool sim_cut(struct world *w, uint32_t from, uint32_t to) { return w->cut[from][to] || ot_rng_chance(&w->rng, w->drop); }

uint64_t sim_delay(struct world *w)
{
    return 100 + ot_rng_below(&w->rng, 3000) + (ot_rng_chance(&w->rng, w->slow) ? ot_rng_below(&w->rng, 1500000) : 0);
}

/* ---- the coordinator: one voter, whose disk never fails */

static void committed(struct world *w)
{
    check_rows(w, coord_view(w->coord));
    for (uint32_t i = 0; i < w->broker_count; i++) {
        struct broker *broker = &w->brokers[i];
        if (broker->up && !w->cut[BROKERS_MAX][i]) {
            broker->apply_at_us = OT_MAX(broker->apply_at_us + 1, w->now_us + sim_delay(w));
            sim_event(w, &(struct event){ .kind = EVENT_APPLY, .at_us = broker->apply_at_us, .broker = i, .life = broker->life,
                .value = coord_value_share(coord_view(w->coord)) });
        }
    }
}

static void coord_turn_run(struct world *w, struct coord_in in)
{
    struct coord_out out;
    uint64_t token = 0;
    in.now_us = w->now_us;
    coord_step(w->coord, &in);
    while (coord_next(w->coord, &out)) {
        if (out.kind == COORD_STORE) {
            token = out.token;
        } else if (out.kind == COORD_APPLY) {
            committed(w);
        } else if (out.kind == COORD_REPLY) {
            ask_answered(w, out.request);
        }
        CHECK(out.kind != COORD_HALT && out.kind != COORD_SEND);
    }
    if (token != 0) {
        coord_turn_run(w, (struct coord_in){ .kind = COORD_STORED, .token = token });
    }
    w->trace = w->trace * UINT64_C(0x100000001b3) ^ coord_hash(w->coord);
}

static void make_coordinator(struct world *w)
{
    char text[200];
    struct coord_disk_image image;
    struct coord_config config = { .node_id = 1, .dir_id = { { 1 } }, .cluster_id = ot_str_of("replication"), .voter_host = ot_str_of("h"), .min_isr_default = w->min_isr,
        .partitions_max = 100, .brokers_max = 16, .delta_bytes_max = 256 << 10, .session_us = SESSION_US, .snapshot_after_bytes = UINT64_C(1) << 40 };
    w->pages = coord_pages_new(512 << 20);
    coord_image_init(&image, w->pages);
    CHECK(coord_new(&config, &image, w->seed, &w->coord, text, sizeof text) == OT_OK);
    coord_image_free(&image);
    coord_turn_run(w, (struct coord_in){ .kind = COORD_TICK });
}

/* ---- faults and operators */

bool sim_may_lose(const struct world *w) { return w->swarm.beyond || w->losses < w->losses_max; }

static void crash(struct world *w, struct broker *broker)
{
    bool machine = ot_rng_chance(&w->rng, 0.5) && sim_may_lose(w) && broker->up;
    if (!broker->up) {
        return;
    }
    w->losses += machine;
    broker_crash(w, broker, machine);
    if (w->swarm.wipes && machine && (w->swarm.beyond || w->losses < (uint32_t)w->min_isr) && ot_rng_chance(&w->rng, 0.3)) {   /* no class outlives the disk */
        broker_wipe(w, broker);
    }
}

static void fault(struct world *w)
{
    uint64_t kind = ot_rng_below(&w->rng, 100);
    const struct swarm *swarm = &w->swarm;
    struct broker *broker = &w->brokers[ot_rng_below(&w->rng, w->broker_count)];
    w->next_fault_us = w->now_us + ot_rng_below(&w->rng, ot_rng_chance(&w->rng, 0.3) && !swarm->storms ? 6000000 : 1000000);
    if (kind < 25) {
        memset(w->cut, 0, sizeof w->cut);
        for (uint32_t i = 0; i < 4; i++) {
            w->cut[ot_rng_below(&w->rng, BROKERS_MAX + 1)][ot_rng_below(&w->rng, BROKERS_MAX + 1)] = true;
        }
        if (ot_rng_chance(&w->rng, 0.3)) {     /* one is alone, but for its clients */
            for (uint32_t i = 0; i <= BROKERS_MAX; i++) {
                w->cut[broker->id - 1][i] = w->cut[i][broker->id - 1] = true;
            }
        }
        w->drop = ot_rng_chance(&w->rng, 0.3) ? 0.2 : 0;
        w->slow = ot_rng_chance(&w->rng, 0.5) ? 0.2 : 0;
    } else if (kind < 40) {
        memset(w->cut, 0, sizeof w->cut);
        w->drop = w->slow = 0;
    } else if (kind < 60) {
        crash(w, broker);
    } else if (kind < 63 && swarm->beyond) {   /* the power of all of them */
        for (uint32_t i = 0; i < w->broker_count; i++) {
            broker_crash(w, &w->brokers[i], true);
        }
        w->power_cuts++;
    } else if (kind < 70 && swarm->pauses) {
        broker->paused_until_us = w->now_us + ot_rng_below(&w->rng, 8000000);
    } else if (kind < 76 && swarm->stops) {
        broker_goes(w, broker);
    } else if (kind < 82 && w->topic_made) {
        operate_configure(w);
    } else if (w->topic_made && swarm->moves) {
        operate_move(w);
    }
}

static void calm(struct world *w)
{
    memset(w->cut, 0, sizeof w->cut);
    w->drop = w->slow = w->swarm.twice = 0;
    for (uint32_t i = 0; i < w->broker_count; i++) {
        w->brokers[i].paused_until_us = 0;
        logs_calm(&w->brokers[i]);
    }
    w->swarm.cuts_power = false;
    w->calm = true;
}

static bool some(struct world *w, double chance) { return ot_rng_chance(&w->rng, chance); }

static void draw_swarm(struct world *w)
{
    struct swarm *swarm = &w->swarm;
    *swarm = (struct swarm){ .engine = some(w, 0.17) || wanted.engine, .strict = some(w, 0.1) || wanted.strict, .beyond = some(w, 0.08) || wanted.beyond, .pauses = some(w, 0.4),
        .storms = some(w, 0.15), .wipes = some(w, 0.3), .min_flips = some(w, 0.3), .class_flips = some(w, 0.2), .moves = some(w, 0.7), .stops = some(w, 0.7),
        .cuts_power = some(w, 0.5), .unclean = some(w, 0.4), .twice = some(w, 0.4) ? 0.05 : 0, .rate_spread = some(w, 0.5) ? 0.08 : 0 };
    if (swarm->strict) {
        swarm->beyond = false;
        swarm->rate_spread = 0.08;
    }
}

/* A state that got lost on the way is asked for again. */
static void catch_up(struct world *w)
{
    for (uint32_t i = 0; i < w->broker_count; i++) {
        struct broker *broker = &w->brokers[i];
        if (broker->up && broker->registered && broker->applied_version < coord_view(w->coord)->stamp.version && broker->apply_at_us < w->now_us && !sim_cut(w, BROKERS_MAX, i)) {
            broker->apply_at_us = w->now_us + sim_delay(w);
            sim_event(w, &(struct event){ .kind = EVENT_APPLY, .at_us = broker->apply_at_us, .broker = i, .life = broker->life, .value = coord_value_share(coord_view(w->coord)) });
        }
    }
}

static void run_until(struct world *w, uint64_t end_us)
{
    while (w->now_us < end_us) {
        uint64_t next = w->now_us + 5000;      /* everybody looks at the clock that often */
        struct event event;
        while (sim_event_next(w, next, &event)) {
            w->now_us = OT_MAX(w->now_us, event.at_us);
            if (event.kind == EVENT_ASK) {
                coord_turn_run(w, (struct coord_in){ .kind = COORD_REQUEST, .request = &event.ask->request });
            } else {
                sim_broker_event(w, &event);
            }
        }
        w->now_us = next;
        if (coord_deadline_us(w->coord) <= w->now_us) {
            coord_turn_run(w, (struct coord_in){ .kind = COORD_TICK });
        }
        for (uint32_t i = 0; i < w->broker_count; i++) {
            broker_look(w, &w->brokers[i]);
        }
        for (uint32_t p = 0; p < PARTITIONS && w->topic_made && w->now_us + 5000000 < end_us; p++) {
            produce_acked(w, p);
        }
        if (w->now_us >= w->next_produce_us && w->now_us + 5000000 < end_us) {
            produce(w);
            w->next_produce_us = w->now_us + ot_rng_below(&w->rng, 40000);
        }
        if (!w->topic_made && w->now_us % 1000000 < 5000) {
            operate_make_topic(w);
        }
        if (w->now_us % 100000 < 5000) {
            catch_up(w);
            for (uint32_t p = 0; p < PARTITIONS && w->topic_made; p++) {
                operate_recover(w, p);
            }
        }
        if (!w->calm && w->now_us >= w->next_fault_us) {
            fault(w);
        }
    }
}

static void make_brokers(struct world *w)
{
    w->broker_count = 3 + (uint32_t)ot_rng_below(&w->rng, BROKERS_MAX - 2);
    for (uint32_t i = 0; i < w->broker_count; i++) {
        struct broker *broker = &w->brokers[i];
        broker->id = (int32_t)i + 1;
        broker->rate = 1 - w->swarm.rate_spread + 2 * w->swarm.rate_spread * (double)ot_rng_below(&w->rng, 1000) / 1000;
        for (uint32_t p = 0; p < PARTITIONS; p++) {
            broker->held[p].log = calloc(LOG_MAX, sizeof(struct record));
        }
        broker_start(w, broker);
    }
}

static void free_world(struct world *w)
{
    for (uint32_t i = 0; i < w->event_count; i++) {
        if (w->events[i].kind == EVENT_APPLY) {
            coord_value_drop(&w->events[i].value);
        }
        free(w->events[i].ask);
    }
    coord_free(w->coord);
    CHECK(coord_pages_used_bytes(w->pages) == 0);
    coord_pages_free(w->pages);
    for (uint32_t i = 0; i < w->broker_count; i++) {
        logs_free(&w->brokers[i]);
        for (uint32_t p = 0; p < PARTITIONS; p++) {
            free(w->brokers[i].held[p].log);
        }
    }
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        free(w->committed[p]);
        free(w->appends_of[p]);
        free(w->once[p]);
        free(w->moved_end[p]);
    }
    free(w->events);
    free(w);
}

static uint64_t run_seed(uint64_t seed, bool verbose)
{
    struct world *w = calloc(1, sizeof *w);
    w->seed = seed;
    w->verbose = verbose;
    sim_now(seed, &w->now_us);
    ot_rng_seed(&w->rng, seed);
    w->events = calloc(EVENTS_MAX, sizeof *w->events);
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        w->committed[p] = calloc(LOG_MAX, sizeof(struct record));
        w->appends_of[p] = calloc(LOG_MAX, sizeof(int32_t));
        w->once[p] = calloc(LOG_MAX, sizeof(uint64_t));
        w->moved_end[p] = calloc(LOG_MAX, sizeof(int64_t));
    }
    w->min_isr = 1 + (int32_t)ot_rng_below(&w->rng, 3);
    w->class_ = (enum replica_class)ot_rng_below(&w->rng, 4);
    draw_swarm(w);
    w->losses_max = w->class_ == REPLICA_FSYNC_ALL && !w->swarm.class_flips ? 1000 : (uint32_t)w->min_isr - 1;
    make_coordinator(w);
    make_brokers(w);
    w->next_fault_us = 4000000;
    run_until(w, 60000000);
    calm(w);
    run_until(w, w->now_us + 40000000);
    check_end(w);
    uint64_t trace = w->trace ^ w->ids;
    for (uint32_t i = 0; i < w->broker_count; i++) {
        trace = trace * UINT64_C(0x100000001b3) ^ logs_hash(&w->brokers[i]);
    }
    if (verbose) {
        printf("seed %llu: %u brokers, min isr %d, class %d%s%s%s, %llu appended, %llu acked, %llu with acks=1, %llu moved, %llu lost, %llu wiped, %llu power cuts, %llu reads, %lld+%lld committed, %llu crashes (%llu of machines), %llu elections, %llu cut off, %llu proposals, "
            "trace %016llx\n", (unsigned long long)seed, w->broker_count, w->min_isr, (int)w->class_, w->swarm.engine ? ", engine" : "", w->swarm.beyond ? ", beyond" : "",
            w->swarm.strict ? ", strict" : "", (unsigned long long)w->appended, (unsigned long long)w->acked, (unsigned long long)w->acked_once, (unsigned long long)w->moved, (unsigned long long)w->lost,
            (unsigned long long)w->wiped, (unsigned long long)w->power_cuts, (unsigned long long)w->read, (long long)w->committed_end[0],
            (long long)w->committed_end[1], (unsigned long long)w->crashes, (unsigned long long)w->machine_crashes, (unsigned long long)w->elections,
            (unsigned long long)w->truncated, (unsigned long long)w->proposals, (unsigned long long)trace);
    }
    sim_now(seed, NULL);
    free_world(w);
    return trace;
}

static bool flag(const char *word)
{
    if (strcmp(word, "--engine") == 0) {
        wanted.engine = true;
    } else if (strcmp(word, "--beyond") == 0) {
        wanted.beyond = true;
    } else if (strcmp(word, "--strict") == 0) {
        wanted.strict = true;
    } else {
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    return sim_campaign(&(struct sim_program){ "ottla_sim_replication", " [--engine] [--beyond] [--strict]", run_seed, flag }, argc, argv);
}
