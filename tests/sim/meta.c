/* The coordinator over its real journal on the simulated disk: random requests, snapshots under way, failing calls, power cuts at any call, restarts.
 *
 *   ottla_sim_meta [--seed N] [--seeds N] [--lives N] [--verbose] [--lose-names (directory syncs do nothing: must be caught)]
 * After every restart the state is that of the last answered publication or of the one in flight, terms grow, topic ids and producer ids are
 * never given twice, and what the rows say of each other holds. A failing seed is printed and replays exactly. */
#include "base/log.h"
#include "base/map.h"
#include "broker/journal.h"
#include "disk.h"
#include "mutations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>


#define DIR_PATH "/data/__ottla_meta"
enum { ASKS = 6, NAMES = 40, HISTORY = 4096 };

#define CHECK(fact) ((fact) ? (void)0 : check_failed(#fact, __LINE__))
static uint64_t seed_now;
static int life_now;
OT_NORETURN static void check_failed(const char *fact, int line)
{
    fprintf(stderr, "FAILED seed %llu life %d line %d: %s\n", (unsigned long long)seed_now, life_now, line, fact);
    exit(1);
}

struct world {
    struct ot_rng rng;
    struct sim_disk *disk;
    struct coord_pages *pages;
    struct broker_journal journal;
    struct coord *coord;
    uint64_t now_us;
    bool halted, leading;
    /* what must be remembered across lives */
    uint64_t answered_hash, flying_hash; bool flying; int64_t answered_version;
    int32_t term_max;
    int64_t producer_id_end;
    struct ot_map ids;                         /* every topic id that was ever answered */
    uint64_t trace, publications, restarts, snapshots, torn;
    /* of this life */
    struct coord_request asks[ASKS]; bool busy[ASKS]; char names[ASKS][24]; struct coord_config_change change;
    struct { bool written; uint64_t token; struct coord_snapshot result; char name[40]; struct broker_journal_mark mark; int delay; } snapshot;
};

static const struct coord_format format = { .cluster_id = { "sim-meta", 8, false }, .node_id = 1, .dir_id = { { 1 } } };

static void step(struct world *w, struct coord_in in);

static void answer(struct world *w, struct coord_request *request)
{
    w->busy[request - w->asks] = false;
    if (request->error != OT_OK || request->validate_only) {
        return;
    }
    if (request->ask == COORD_ASK_CREATE_TOPIC) {
        CHECK(ot_map_get(&w->ids, request->topic_id.bytes, 16) == NULL);
        CHECK(ot_map_put(&w->ids, request->topic_id.bytes, 16, w) == OT_OK);
    } else if (request->ask == COORD_ASK_PRODUCER_IDS) {
        CHECK(request->producer_id_first >= w->producer_id_end);
        w->producer_id_end = request->producer_id_first + 1000;
    }
}

static void store(struct world *w, const struct coord_out *out)
{
    const struct coord_record *record = out->record;
    if (record->kind == COORD_RECORD_TERM) {
        CHECK(record->u.term.term > w->term_max);
    } else if (record->kind == COORD_RECORD_ACCEPT) {
        w->flying_hash = record->u.accept.state_hash;
        w->flying = true;
        w->publications++;
    }
    enum ot_err err = broker_journal_write(&w->journal, record, out->sync);
    if (err == OT_OK && record->kind == COORD_RECORD_TERM) {
        w->term_max = record->u.term.term;     /* joined: never again, whatever comes */
    }
    if (err == OT_ERR_NO_SPACE && record->kind == COORD_RECORD_ACCEPT && w->leading) {
        w->flying = false;                     /* cut off again: it must never come back (the first one of a term repeats what lies there already) */
    }
    step(w, (struct coord_in){ .kind = err == OT_OK ? COORD_STORED : COORD_STORE_FAILED, .token = out->token, .error = err });
}

static void take_snapshot(struct world *w, const struct coord_out *out)
{
    struct coord_value share = coord_value_share(out->value);
    w->snapshot.token = out->token;
    w->snapshot.mark = broker_journal_mark(&w->journal);
    w->snapshot.written = broker_snapshot_write(sim_disk_io(w->disk), DIR_PATH, &share, w->snapshot.name, &w->snapshot.result) == OT_OK;
    w->snapshot.delay = (int)ot_rng_below(&w->rng, 4);         /* publications that come before the switch */
    coord_value_drop(&share);
}

static void end_snapshot(struct world *w)
{
    uint64_t token = w->snapshot.token;
    enum ot_err err = w->snapshot.written ? broker_journal_switch(&w->journal, &format, &w->snapshot.result, &w->snapshot.mark) : OT_ERR_IO;
    w->snapshot.token = 0;
    w->snapshots += err == OT_OK;
    step(w, (struct coord_in){ .kind = err == OT_OK ? COORD_STORED : COORD_STORE_FAILED, .token = token, .error = err });
}

static void step(struct world *w, struct coord_in in)
{
    struct coord_out out, kept = { 0 };
    in.now_us = w->now_us;
    coord_step(w->coord, &in);
    while (coord_next(w->coord, &out)) {
        switch (out.kind) {
        case COORD_STORE:
            CHECK(kept.record == NULL);
            kept = out;                        /* written when the turn is over: its answers were due before */
            break;
        case COORD_APPLY:
            CHECK(w->flying && coord_view(w->coord)->state_hash == w->flying_hash);
            w->answered_hash = w->flying_hash;
            w->answered_version = out.stamp.version;
            w->flying = false;
            break;
        case COORD_ROLE: w->leading = out.leading; break;
        case COORD_SNAPSHOT: take_snapshot(w, &out); break;
        case COORD_REPLY: answer(w, out.request); break;
        case COORD_HALT: w->halted = true; break;
        case COORD_SEND: CHECK(false);
        }
    }
    if (kept.record != NULL) {
        store(w, &kept);
    }
}

static void ask_something(struct world *w)
{
    int at = (int)ot_rng_below(&w->rng, ASKS);
    struct coord_request *ask = &w->asks[at];
    if (w->busy[at]) {
        return;
    }
    memset(ask, 0, sizeof *ask);
    ask->if_version = -1;
    snprintf(w->names[at], sizeof w->names[at], "topic.%d", (int)ot_rng_below(&w->rng, NAMES));
    uint64_t what = ot_rng_below(&w->rng, 10);
    ask->ask = what < 4 ? COORD_ASK_CREATE_TOPIC : what < 6 ? COORD_ASK_DELETE_TOPIC : what < 7 ? COORD_ASK_CREATE_PARTITIONS
        : what < 9 ? COORD_ASK_PRODUCER_IDS : COORD_ASK_REGISTER;
    if (ask->ask == COORD_ASK_PRODUCER_IDS) {
        ask->u.producer_ids.count = 1000;
    } else if (ask->ask == COORD_ASK_REGISTER) {
        ask->u.register_ = (struct coord_register){ .broker_id = 1 + (int32_t)ot_rng_below(&w->rng, 3), .boot_class = (enum coord_boot)ot_rng_below(&w->rng, 3) };
        ot_store_u64(ask->u.register_.incarnation_id.bytes, ot_rng_next(&w->rng));
    } else {
        ask->u.topic = (struct coord_topic_ask){ .name = ot_str_of(w->names[at]), .partition_count = 1 + (int32_t)ot_rng_below(&w->rng, 30),
            .replication_factor = -1 };
        ask->validate_only = ot_rng_chance(&w->rng, 0.05);
    }
    w->busy[at] = true;
    step(w, (struct coord_in){ .kind = COORD_REQUEST, .request = ask });
}

/* Live brokers, so that topics can be made. */
static void revive(struct world *w)
{
    struct ot_coord_broker_row row;
    uint8_t room[4096];
    for (int32_t id = 1; id <= 3 && !w->halted; id++) {
        struct ot_arena arena;
        ot_arena_init_with(&arena, room, sizeof room, 0);
        if (w->busy[0] || coord_broker_get(coord_view(w->coord), id, &arena, &row) != OT_OK || !row.fenced) {
            continue;
        }
        w->asks[0] = (struct coord_request){ .ask = COORD_ASK_HEARTBEAT, .if_version = -1,
            .u.heartbeat = { .broker_id = id, .broker_epoch = row.broker_epoch, .applied_version = coord_view(w->coord)->stamp.version } };
        w->busy[0] = true;
        step(w, (struct coord_in){ .kind = COORD_REQUEST, .request = &w->asks[0] });
    }
}

static bool begin_life(struct world *w)
{
    char text[400] = "";
    struct coord_disk_image image;
    struct coord_config config = { .node_id = 1, .dir_id = format.dir_id, .cluster_id = format.cluster_id, .min_isr_default = 2, .partitions_max = 2000, .brokers_max = 8,
        .delta_bytes_max = 1 << 20, .snapshot_after_bytes = 96 << 10 };
    coord_image_init(&image, w->pages);
    enum ot_err err = broker_journal_open(&w->journal, sim_disk_io(w->disk), DIR_PATH, &image, text, sizeof text);
    if (err != OT_OK) {
        coord_image_free(&image);
        if (err == OT_ERR_CORRUPT) {
            fprintf(stderr, "%s\n", text);
        }
        CHECK(err != OT_ERR_CORRUPT);          /* nothing synced was damaged */
        return false;
    }
    w->torn += image.unsure;
    CHECK(w->answered_version == 0 || !image.blank);
    memset(w->busy, 0, sizeof w->busy);
    w->halted = w->leading = false;
    w->snapshot.token = 0;
    uint64_t expected = w->answered_hash, maybe = w->flying ? w->flying_hash : w->answered_hash;
    CHECK(coord_new(&config, &image, ot_rng_next(&w->rng), &w->coord, text, sizeof text) == OT_OK);
    coord_image_free(&image);
    step(w, (struct coord_in){ .kind = COORD_TICK });
    if (w->leading) {
        uint64_t hash = coord_view(w->coord)->state_hash;
        CHECK(w->answered_version <= 1 || hash == expected || hash == maybe);
        CHECK(coord_rows_check(coord_view(w->coord), text, sizeof text) == OT_OK);
    }
    return w->leading;
}

static void end_life(struct world *w)
{
    w->trace = w->trace * 31 + (w->coord == NULL ? 0 : coord_hash(w->coord)) + sim_disk_hash(w->disk);
    coord_free(w->coord);
    w->coord = NULL;
    broker_journal_close(&w->journal);
    sim_disk_faults(w->disk, &(struct sim_faults){ 0 });
    if (ot_rng_chance(&w->rng, 0.7)) {
        sim_disk_crash_machine(w->disk);
    } else {
        sim_disk_crash_process(w->disk);
    }
    CHECK(coord_pages_used_bytes(w->pages) == 0);
    w->restarts++;
}

static void live(struct world *w)
{
    struct sim_faults faults = { 0 };
    uint64_t steps = 5 + ot_rng_below(&w->rng, 120);
    sim_disk_power_off_after(w->disk, ot_rng_chance(&w->rng, 0.8) ? 1 + ot_rng_below(&w->rng, 250) : UINT64_MAX);
    if (ot_rng_chance(&w->rng, 0.3)) {
        faults = (struct sim_faults){ .short_write = 0.1, .short_read = 0.1, .write_error = ot_rng_chance(&w->rng, 0.3) ? 0.01 : 0,
            .sync_error = ot_rng_chance(&w->rng, 0.3) ? 0.02 : 0, .capacity_bytes = ot_rng_chance(&w->rng, 0.5) ? sim_disk_used_bytes(w->disk) + 40000 : 0 };
    }
    if (begin_life(w)) {
        sim_disk_faults(w->disk, &faults);
        for (uint64_t i = 0; i < steps && !w->halted; i++) {
            w->now_us += ot_rng_below(&w->rng, 400000);
            if (coord_deadline_us(w->coord) <= w->now_us) {
                step(w, (struct coord_in){ .kind = COORD_TICK });
            }
            ask_something(w);
            revive(w);
            if (w->snapshot.token != 0 && !w->halted && w->snapshot.delay-- <= 0) {
                end_snapshot(w);
            }
        }
    }
    end_life(w);
}

static uint64_t run(uint64_t seed, int lives, bool verbose)
{
    struct world *w = calloc(1, sizeof *w);
    seed_now = seed;
    ot_rng_seed(&w->rng, seed);
    w->disk = sim_disk_new(seed);
    w->pages = coord_pages_new(32 << 20);
    w->journal.fd = w->journal.term_fd = -1;
    ot_map_init(&w->ids);
    struct ot_io *io = sim_disk_io(w->disk);
    ot_ignore(io->ops->mkdir(io, "/data"), "it may be there");
    ot_ignore(io->ops->sync_dir(io, "/"), "and stays");
    for (life_now = 0; life_now < lives; life_now++) {
        live(w);
    }
    if (verbose) {
        printf("seed %llu: %llu lives, %llu publications, %llu snapshots, %llu torn ends, %u topics, trace %016llx\n", (unsigned long long)seed,
            (unsigned long long)w->restarts, (unsigned long long)w->publications, (unsigned long long)w->snapshots, (unsigned long long)w->torn, w->ids.count,
            (unsigned long long)w->trace);
    }
    uint64_t trace = w->trace;
    ot_map_free(&w->ids);
    coord_pages_free(w->pages);
    sim_disk_free(w->disk);
    free(w);
    return trace;
}

int main(int count, char **words)
{
    uint64_t seed = 1, seeds = 200;
    int lives = 20;
    bool verbose = false;
    for (int i = 1; i < count; i++) {
        uint64_t number = i + 1 < count ? strtoull(words[i + 1], NULL, 10) : 0;
        if (strcmp(words[i], "--seed") == 0) {
            seed = number;
            seeds = 1;
        } else if (strcmp(words[i], "--seeds") == 0) {
            seeds = number;
        } else if (strcmp(words[i], "--lives") == 0) {
            lives = (int)number;
        } else if (strcmp(words[i], "--verbose") == 0) {
            verbose = true;
            continue;
        } else if (strcmp(words[i], "--lose-names") == 0) {
            sim_mutation = SIM_BUG_NO_DIR_SYNC;
            continue;
        } else {
            fprintf(stderr, "ottla_sim_meta [--seed N] [--seeds N] [--lives N] [--verbose] [--lose-names]\n");
            return 2;
        }
        i++;
    }
    ot_log_set_level(NULL, OT_LOG_ERROR);
    for (uint64_t i = 0; i < seeds; i++) {
        uint64_t trace = run(seed + i, lives, verbose);
        if (i % 50 == 0) {
            CHECK(run(seed + i, lives, false) == trace);       /* the same seed, the same trace */
        }
    }
    printf("%llu seeds of %d lives passed\n", (unsigned long long)seeds, lives);
    return 0;
}
