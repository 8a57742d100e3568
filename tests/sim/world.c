#include "world.h"
#include "broker/room.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sim_fail(const struct sim_world *world, const char *fact, const char *file, int line, const char *format, ...)
{
    va_list list;
    printf("seed %llu: %s:%d: %s\n  ", (unsigned long long)world->seed, strrchr(file, '/') ? strrchr(file, '/') + 1 : file, line, fact);
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf("\n  class %s, io %s, %llu crashes, step %llu\n", world->durability, world->append_io, (unsigned long long)world->totals.crashes,
        (unsigned long long)(world->sched == NULL ? 0 : sim_sched_steps(world->sched)));
    exit(1);
}

void sim_note(struct sim_world *world, uint64_t what, uint64_t a, uint64_t b)
{
    uint64_t row[4] = { what, a, b, world->trace };
    world->trace = ot_hash64(row, sizeof(row), 3);
    if (world->verbose) printf("%10lld %llu %llu %llu\n", (long long)sim_sched_now_us(world->sched), (unsigned long long)what, (unsigned long long)a, (unsigned long long)b);
}

static void nap(void *arg)
{
    struct sim_world *world = arg;
    if (!sim_sched_step(world->sched)) (void)sim_sched_skip(world->sched, 100000);
}

void sim_world_drain(struct sim_world *world)
{
    for (uint64_t i = 0; sim_sched_step(world->sched); i++) SIM_CHECK(world, i < 2000000, "tasks never end");
}

static void opened(void *arg, enum ot_err err)
{
    struct sim_world *world = arg;
    world->opens_pending--;
    bool gone = err == OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;      /* removed before it was opened */
    SIM_CHECK(world, err == OT_OK || gone || world->faults_on || world->broken_dir >= 0 || world->flipping || sim_disk_is_off(world->disk), "a log did not open: %s", ot_err_name(err));
}

static const char *const dirs[] = { "/sim/a", "/sim/b" };

struct ot_uuid sim_topic_id(const struct sim_world *world)
{
    struct ot_uuid id;
    memset(id.bytes, 7 + (int)(world->generation % 200), sizeof(id.bytes));
    return id;
}

void sim_world_break_dir(struct sim_world *world, int dir)
{
    world->broken_dir = dir;
    sim_disk_break_dir(world->disk, dir < 0 ? NULL : dirs[dir]);
    world->totals.offline += dir >= 0;
}

int sim_world_dir_of(struct sim_world *world, int partition)
{
    struct broker_partition *found = broker_partition_find(broker_of_core(world->core), ot_str_of("sim"), partition);
    int dir = found == NULL || found->log == NULL ? -1 : (int)found->store_dir;
    broker_partition_put(found);
    return dir;
}

bool sim_class_syncs(const char *durability) { return strcmp(durability, "replicated") != 0; }

void sim_topic_config(struct sim_world *world, struct broker_topic_config *out)
{
    const char *keys[] = { "ottla.durability", "index.interval.bytes", "segment.index.bytes" };
    const char *values[] = { world->durability, "64", "4096" };
    broker_topic_config_effective(world->config, keys, values, OT_ARRAY_COUNT(keys), out);
    out->segment_bytes = 6000;                 /* below what Kafka allows a user, so that rolls are frequent */
    out->retention_ms = world->retention_ms;
    out->retention_bytes = world->retention_bytes;
}

static void apply_partition(struct sim_world *world, int index)
{
    static const int32_t self[1] = { 1 };
    struct broker_topic_config config;
    struct broker_partition_row row = { .topic = "sim", .partition = index, .leader = 1, .leader_epoch = ++world->partitions[index].leader_epoch, .min_isr = 1, .isr = self,
        .isr_count = 1, .replicas = self, .replica_count = 1 };
    row.topic_id = sim_topic_id(world);
    row.partition_epoch = row.leader_epoch;
    for (uint32_t dir = 0; dir < 2; dir++) row.must_exist |= eng_store_dir_offline(world->store, dir) && world->partitions[index].known;
    world->partitions[index].known = true;
    sim_topic_config(world, &config);
    world->opens_pending++;
    world->partitions[index].seen_start = world->partitions[index].seen_high_watermark = world->partitions[index].seen_stable = -1;
    broker_partition_apply(broker_of_core(world->core), &row, &config, world->home, opened, world);
}

void sim_world_new_topic(struct sim_world *world)
{
    struct ot_uuid old = sim_topic_id(world);
    broker_topic_remove(broker_of_core(world->core), &old, false);
    world->generation++;
    world->totals.topics_removed++;
    for (uint32_t i = 0; i < world->batch_count; i++) {        /* those under way are answered, and nobody listens */
        world->batches[i].fate = SIM_REFUSED;
        world->batches[i].certain_refusal = false;
    }
    for (int i = 0; i < SIM_PARTITIONS; i++) world->partitions[i] = (struct sim_partition){ .leader_epoch = world->partitions[i].leader_epoch };
    memset(world->producers, 0, sizeof(world->producers));
    for (int r = 0; r < SIM_READERS; r++)
        for (int i = 0; i < SIM_PARTITIONS; i++) {
            world->readers[r].offsets[i] = 0;
            world->readers[r].moved[i] = true;
        }
    for (int i = 0; i < SIM_PARTITIONS; i++) apply_partition(world, i);
}

/* ---- what is looked at all the time ---- */

static void watch_one(struct sim_world *world, int index)
{
    struct broker_partition *partition = broker_partition_find(broker_of_core(world->core), ot_str_of("sim"), index);
    struct sim_partition *model = &world->partitions[index];
    if (partition != NULL && atomic_load(&partition->stage) == BROKER_PARTITION_OPEN) {
        int64_t start = eng_log_start_offset(partition->log), end = eng_log_end_offset(partition->log), flushed = eng_log_flushed_end(partition->log);
        int64_t high_watermark = atomic_load(&partition->high_watermark), stable = atomic_load(&partition->last_stable_offset);
        SIM_CHECK(world, start >= model->seen_start && high_watermark >= model->seen_high_watermark && stable >= model->seen_stable,
            "partition %d: start %lld→%lld, high watermark %lld→%lld, stable %lld→%lld", index, (long long)model->seen_start, (long long)start,
            (long long)model->seen_high_watermark, (long long)high_watermark, (long long)model->seen_stable, (long long)stable);
        SIM_CHECK(world, start <= high_watermark && stable <= high_watermark && high_watermark <= end && flushed <= end, "partition %d: start %lld stable %lld hw %lld end %lld flushed %lld",
            index, (long long)start, (long long)stable, (long long)high_watermark, (long long)end, (long long)flushed);
        SIM_CHECK(world, !sim_class_syncs(world->durability) || high_watermark <= OT_MAX(flushed, model->class_floor), "partition %d: class %s, high watermark %lld, flushed %lld", index,
            world->durability, (long long)high_watermark, (long long)flushed);
        model->seen_start = start;
        model->seen_high_watermark = high_watermark;
        model->seen_stable = stable;
    }
    broker_partition_put(partition);
}

void sim_watch(struct sim_world *world)
{
    for (int i = 0; i < SIM_PARTITIONS; i++) watch_one(world, i);
    if (!sim_sched_idle(world->sched)) return;
    for (uint32_t i = 0; i < SIM_WAITS_MAX; i++)
        SIM_CHECK(world, world->waits[i] == 0 || world->waits[i] > sim_sched_now_us(world->sched) || sim_disk_is_off(world->disk), "a fetch is not answered in time");
}

uint32_t sim_wait_begin(struct sim_world *world, int64_t deadline_us)
{
    for (uint32_t i = 0; i < SIM_WAITS_MAX; i++) {
        if (world->waits[i] != 0) continue;
        world->waits[i] = deadline_us;
        return i;
    }
    return SIM_WAITS_MAX;                      /* too many to look after */
}

void sim_wait_end(struct sim_world *world, uint32_t wait)
{
    if (wait < SIM_WAITS_MAX) world->waits[wait] = 0;
}

static bool try_open(struct sim_world *world)
{
    struct eng_store_config store_config = { .dirs = dirs, .dir_count = 2, .files_max = 6, .maps_max = 4, .append_mapped_bytes_max = 1u << 20 };
    struct broker_setup setup = { .openings_max = world->seed % 2 == 0 ? 0 : 1, .io = sim_disk_io(world->disk), .config = world->config, .io_exec = world->io, .flush_exec = world->flush,
        .sync_each_max = (world->seed / 5 + world->totals.crashes) % 2 == 0 ? 0 : UINT32_MAX, .background_exec = world->background, .coord_exec = world->background, .decode_pool = world->decoding };
    uint32_t bad_dir = 0;
    if (eng_store_open(setup.io, &store_config, &world->store, &bad_dir) != OT_OK) return false;
    struct broker *broker = calloc(1, sizeof(*broker));        /* of the coordinator's half only the setup is there */
    OT_ASSERT(broker != NULL);
    broker->setup = setup;
    broker->node_id = 1;
    world->core = &broker->core;
    world->core->transactions_served = true;   /* the simulator writes the markers */
    world->core->nap = nap;
    world->core->nap_arg = world;
    bool good = true;
    for (uint32_t dir = 0; dir < 2; dir++) {
        int64_t epoch;
        if (!eng_store_dir_offline(world->store, dir)) good = good && eng_store_take_clean(world->store, dir, &world->core->clean[dir], &epoch) == OT_OK;
    }
    if (broker_core_init(world->core, &setup, world->store, 1) != OT_OK) good = false;
    for (int i = 0; good && i < SIM_PARTITIONS; i++) apply_partition(world, i);
    sim_world_drain(world);
    SIM_CHECK(world, world->opens_pending == 0, "%u opens are pending for ever", world->opens_pending);
    if (good) broker_core_start(world->core);
    return good;
}

#define SEGMENTS_MAX 64
struct sizes { bool known; char dir_path[256]; uint32_t dir, count; struct eng_segment_info segments[SEGMENTS_MAX]; };

static void note_sizes(struct sim_world *world, int index, struct sizes *sizes)
{
    struct broker_partition *partition = broker_partition_find(broker_of_core(world->core), ot_str_of("sim"), index);
    sizes->known = partition != NULL && partition->log != NULL && atomic_load(&partition->stage) == BROKER_PARTITION_OPEN && !eng_log_read_only(partition->log);
    if (sizes->known) {
        snprintf(sizes->dir_path, sizeof(sizes->dir_path), "%s", eng_log_dir_path(partition->log));
        sizes->dir = partition->store_dir;
        sizes->count = eng_log_segments(partition->log, sizes->segments, SEGMENTS_MAX);
        sizes->known = sizes->count <= SEGMENTS_MAX;
    }
    broker_partition_put(partition);
}

/* After a clean stop a file is as long as what is in it: Kafka's tools read them to their ends. */
static void check_sizes(struct sim_world *world, int index, const struct sizes *sizes)
{
    struct ot_io *io = sim_disk_io(world->disk);
    struct sim_faults none = { 0 };
    sim_disk_faults(world->disk, &none);       /* the stop is over */
    for (uint32_t i = 0; i < sizes->count; i++) {
        struct ot_io_stat stat;
        char path[400];
        snprintf(path, sizeof(path), "%s/%020lld.log", sizes->dir_path, (long long)sizes->segments[i].base_offset);
        if (io->ops->stat(io, path, &stat) != OT_OK) continue;
        SIM_CHECK(world, stat.bytes == sizes->segments[i].log_bytes, "partition %d: after a clean stop %s has %llu bytes, the log %llu", index, path, (unsigned long long)stat.bytes,
            (unsigned long long)sizes->segments[i].log_bytes);
    }
}

/* flushed: a clean stop, whose marker is left in the directories whose logs closed whole. */
static void let_go(struct sim_world *world, bool flushed)
{
    uint64_t unclean = 0;
    struct sizes sizes[SIM_PARTITIONS] = { { 0 } };
    for (int i = 0; flushed && i < SIM_PARTITIONS; i++) note_sizes(world, i, &sizes[i]);
    if (world->core != NULL) {
        atomic_store(&world->core->stopping, true);
        sim_world_drain(world);
        ot_exec_timer_cancel(world->background, &world->core->tick);      /* a crash asks nobody; after a stop it is not armed */
        atomic_store(&world->core->ticking, false);
        unclean = broker_core_free(world->core);
        free(world->core);
    }
    sim_world_drain(world);
    for (uint32_t dir = 0; flushed && dir < 2; dir++)
        if (!eng_store_dir_offline(world->store, dir) && (unclean >> dir & 1) == 0) ot_ignore(eng_store_leave_clean(world->store, dir, 1), "no marker: the next start scans");
    for (int i = 0; i < SIM_PARTITIONS; i++)
        if (sizes[i].known && !eng_store_dir_offline(world->store, sizes[i].dir) && (unclean >> sizes[i].dir & 1) == 0) check_sizes(world, i, &sizes[i]);
    eng_store_close(world->store);
    world->core = NULL;
    world->store = NULL;
}

void sim_world_open(struct sim_world *world)
{
    struct sim_faults none = { 0 }, faults = { 0 };
    for (int tries = 0; !try_open(world); tries++) {           /* a fault at start: the operator starts it again */
        SIM_CHECK(world, world->faults_on && tries < 20, "the store does not open");
        let_go(world, false);
        if (tries > 3) sim_disk_faults(world->disk, &none);
    }
    (void)faults;
}

/* Timeouts and long polls end; nothing new begins. */
static void run_out(struct sim_world *world)
{
    sim_world_drain(world);
    for (int i = 0; world->calls_open > 0 && i < 1000; i++) {
        (void)sim_sched_skip(world->sched, 50000);
        sim_world_drain(world);
    }
    SIM_CHECK(world, world->calls_open == 0, "%u calls were never answered", world->calls_open);
}

void sim_world_stop(struct sim_world *world)
{
    run_out(world);
    bool flushed = broker_core_stop(world->core, 8000);
    sim_world_drain(world);
    bool offline = eng_store_dir_offline(world->store, 0) || eng_store_dir_offline(world->store, 1);
    SIM_CHECK(world, flushed || offline || world->broken_dir >= 0 || world->flipping || world->faults_on, "a clean stop did not flush");
    let_go(world, flushed);
    sim_disk_crash_process(world->disk);
}

void sim_world_crash(struct sim_world *world, bool machine)
{
    sim_disk_power_off_after(world->disk, 0);
    run_out(world);
    let_go(world, false);
    if (machine) sim_disk_crash_machine(world->disk);
    else sim_disk_crash_process(world->disk);
    world->totals.crashes++;
}
