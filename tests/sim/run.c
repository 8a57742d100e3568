/* One seed from an empty disk to the last clean stop. */
#include "run.h"
#include "world.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void set_up(struct sim_world *world, uint64_t seed)
{
    static const char *const classes[] = { "auto", "fsync", "replicated", "replicated+fsync" };
    static const char *const ios[] = { "pwritev", "pwritev", "mmap", "auto" };
    char text[256];
    memset(world, 0, sizeof(*world));
    world->seed = seed;
    world->retention_ms = world->retention_bytes = world->broken_dir = -1;
    ot_rng_seed(&world->rng, seed * 2 + 1);
    world->disk = sim_disk_new(seed * 3 + 1);
    world->sched = sim_sched_new(seed * 5 + 1, 1750000000000);
    world->io = sim_sched_exec(world->sched, "io", false);
    world->flush = sim_sched_exec(world->sched, "flush", false);
    world->background = sim_sched_exec(world->sched, "background", true);
    world->home = sim_sched_exec(world->sched, "home", true);
    world->durability = classes[ot_rng_below(&world->rng, OT_ARRAY_COUNT(classes))];
    world->append_io = ios[ot_rng_below(&world->rng, OT_ARRAY_COUNT(ios))];
    OT_ASSERT(broker_config_store_new(&world->config) == OT_OK);
    static const char *const sets[][2] = { { "log.retention.check.interval.ms", "3000" }, { "ottla.disk.free.warn.bytes", "0" }, { "ottla.disk.free.refuse.bytes", "0" },
        { "ottla.disk.reserve.bytes", "65536" }, { "producer.id.expiration.ms", "2000000000" } };
    for (size_t i = 0; i < OT_ARRAY_COUNT(sets); i++)
        OT_ASSERT(broker_config_set(world->config, BROKER_SOURCE_FLAG, "sim", sets[i][0], sets[i][1], text, sizeof(text)) == OT_OK);
    OT_ASSERT(broker_config_set(world->config, BROKER_SOURCE_FLAG, "sim", "log.append.io", world->append_io, text, sizeof(text)) == OT_OK);
    world->requests = ot_pool_new("requests", 64u << 20, 1u << 20);
    world->decoding = ot_pool_new("decoding", 64u << 20, 1u << 20);
    world->batches = calloc(SIM_IDS_MAX, sizeof(*world->batches));
    OT_ASSERT(world->requests != NULL && world->decoding != NULL && world->batches != NULL);
}

static void tear_down(struct sim_world *world)
{
    broker_config_store_free(world->config);
    ot_pool_free(world->requests);
    ot_pool_free(world->decoding);
    free(world->batches);
    sim_sched_free(world->sched);
    sim_disk_free(world->disk);
}

static void choose_faults(struct sim_world *world)
{
    struct sim_faults faults = { 0 };
    world->faults_on = ot_rng_chance(&world->rng, 0.4);
    if (world->faults_on) {
        double *const rates[] = { &faults.write_error, &faults.sync_error, &faults.read_error, &faults.open_error, &faults.name_error };
        faults.short_write = ot_rng_chance(&world->rng, 0.5) ? 0.05 : 0;
        faults.short_read = ot_rng_chance(&world->rng, 0.5) ? 0.05 : 0;
        if (ot_rng_chance(&world->rng, 0.5)) *rates[ot_rng_below(&world->rng, OT_ARRAY_COUNT(rates))] = 0.002;
        if (ot_rng_chance(&world->rng, 0.4)) faults.capacity_bytes = sim_disk_used_bytes(world->disk) + 20000 + ot_rng_below(&world->rng, 200000);
    }
    sim_disk_faults(world->disk, &faults);
}

/* One of the directories fails, and nothing else does. */
static void break_some(struct sim_world *world)
{
    if (world->faults_on || world->broken_dir >= 0) return;
    sim_world_break_dir(world, (int)ot_rng_below(&world->rng, 2));
    sim_note(world, 14, (uint64_t)world->broken_dir, 0);
}

static void act(struct sim_world *world)
{
    uint64_t dice = ot_rng_below(&world->rng, 1000);
    sim_disk_set_wall(world->disk, sim_sched_wall_ms(world->sched));
    if (dice < 560) (void)sim_sched_step(world->sched);
    else if (dice < 780) sim_client_produce(world);
    else if (dice < 798) sim_client_end_txn(world);
    else if (dice < 800) sim_client_configure(world);
    else if (dice < 801) sim_client_recreate(world);
    else if (dice < 802) break_some(world);
    else if (dice < 830) sim_client_fetch(world);
    else if (dice < 870) sim_client_poll(world);
    else if (dice < 890) sim_client_delete_records(world);
    else if (dice < 930) sim_client_retry(world);
    else if (dice < 980) (void)sim_sched_skip(world->sched, 1000 + (int64_t)ot_rng_below(&world->rng, 2000000));
    else for (uint64_t n = ot_rng_below(&world->rng, 60); n > 0 && sim_sched_step(world->sched); n--) continue;
    if (!sim_disk_is_off(world->disk)) sim_watch(world);
}

/* Faults end, and the operator starts the server again when a directory went offline. */
static void restart(struct sim_world *world, int how)
{
    struct sim_faults none = { 0 };
    sim_note(world, 9, (uint64_t)how, 0);
    if (how == 0) sim_world_stop(world);
    else sim_world_crash(world, how == 2);
    sim_disk_faults(world->disk, &none);
    bool before = world->faults_on;
    world->faults_on = false;
    if (world->broken_dir >= 0 && ot_rng_chance(&world->rng, 0.6)) sim_world_break_dir(world, -1);      /* else it is started without */
    sim_world_open(world);
    sim_world_drain(world);
    sim_verify(world, how);
    before = before && world->broken_dir < 0;
    for (int i = 0; i < SIM_READERS; i++)      /* the server forgot its sessions; some readers know, others are told */
        if (ot_rng_chance(&world->rng, 0.5)) world->readers[i].session_id = world->readers[i].session_epoch = 0;
    world->faults_on = before;
    if (world->broken_dir < 0) choose_faults(world);
    else world->faults_on = false;
}

static uint64_t finish(struct sim_world *world, struct sim_totals *totals)
{
    uint64_t trace = world->trace ^ sim_disk_hash(world->disk);
    sim_totals_add(totals, &world->totals);
    tear_down(world);
    free(world);
    return trace;
}

uint64_t sim_run_seed(uint64_t seed, bool verbose, struct sim_totals *totals)
{
    struct sim_world *world = calloc(1, sizeof(*world));
    OT_ASSERT(world != NULL);
    set_up(world, seed);
    world->verbose = verbose;
    if (seed % 5 == 0) {                       /* every fifth seed: the log alone */
        sim_engine_run(world);
        return finish(world, totals);
    }
    sim_world_open(world);
    uint32_t rounds = 2 + (uint32_t)ot_rng_below(&world->rng, 5);
    for (uint32_t round = 0; round < rounds; round++) {
        uint64_t steps = 100 + ot_rng_below(&world->rng, 900);
        int how = (int)ot_rng_below(&world->rng, 3);
        bool in_the_middle = how != 0 && ot_rng_chance(&world->rng, 0.7);
        if (in_the_middle) sim_disk_power_off_after(world->disk, ot_rng_below(&world->rng, 400));
        for (uint64_t i = 0; i < steps && !sim_disk_is_off(world->disk); i++) act(world);
        if (in_the_middle && !sim_disk_is_off(world->disk)) sim_disk_power_off_after(world->disk, UINT64_MAX);
        if (how == 0 || !in_the_middle) sim_world_drain(world);
        if (how == 0 && !world->faults_on) sim_verify(world, 0);
        restart(world, how);
    }
    struct sim_faults none = { 0 };
    sim_disk_faults(world->disk, &none);
    world->faults_on = false;
    if (world->broken_dir >= 0) {              /* it is mended, and all that was promised is there */
        sim_world_break_dir(world, -1);
        restart(world, 0);
        sim_disk_faults(world->disk, &none);
        world->faults_on = false;
    }
    for (int i = 0; i < 200; i++) {            /* all idempotent batches get home in the end */
        sim_client_retry(world);
        sim_world_drain(world);
        (void)sim_sched_skip(world->sched, 50000);
    }
    sim_world_stop(world);
    sim_world_open(world);
    sim_verify(world, 0);
    if (seed % 4 == 1) sim_flip(world);
    else sim_world_stop(world);
    return finish(world, totals);
}

#define FIELDS(X) X(acked) X(refused) X(crashes) X(records_read) X(records_fetched) X(transactions) X(truncations) X(topics_removed) X(offline) X(disk_full) X(flips)
void sim_totals_add(struct sim_totals *to, const struct sim_totals *from)
{
#define ADD(name) to->name += from->name;
    FIELDS(ADD)
}

void sim_totals_print(const struct sim_totals *totals)
{
#define PRINT(name) printf("%s %llu, ", #name, (unsigned long long)totals->name);
    FIELDS(PRINT)
    printf("\n");
}

/* ---- exhaustive mode ---- */

static void begin_small(struct sim_world *world, uint64_t seed)
{
    set_up(world, seed);
    sim_world_open(world);
}

static void act_small(struct sim_world *world)
{
    for (int i = 0; i < 120 && !sim_disk_is_off(world->disk); i++) act(world);
    sim_world_drain(world);
}

static struct sim_world *world_new(void)
{
    struct sim_world *world = calloc(1, sizeof(*world));
    OT_ASSERT(world != NULL);
    return world;
}

static void end_small(struct sim_world *world)
{
    tear_down(world);
    free(world);
}

uint64_t sim_exhaust_cuts(uint64_t seed)
{
    struct sim_world *world = world_new();
    begin_small(world, seed);
    uint64_t before = sim_disk_calls(world->disk);
    act_small(world);
    uint64_t calls = sim_disk_calls(world->disk) - before;
    sim_world_stop(world);
    end_small(world);
    return calls * 2;
}

uint64_t sim_exhaust_cut(uint64_t seed, uint64_t cut, struct sim_totals *totals)
{
    struct sim_world *world = world_new();
    begin_small(world, seed);
    sim_disk_power_off_after(world->disk, cut / 2);
    act_small(world);
    restart(world, cut % 2 == 0 ? 2 : 1);
    sim_world_stop(world);
    sim_world_open(world);
    sim_verify(world, 0);
    sim_world_stop(world);
    return finish(world, totals);
}
