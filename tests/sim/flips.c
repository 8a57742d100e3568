/* One bit of what lies on the disk is another when the server starts again.
 *
 * What must hold: nobody is given a batch that is not what was stored without somebody being able to tell. Told is by the start (the partition stays offline, or the log ends before the
 * batch, with sound ones behind it kept aside), by the batch's checksum in the reader's hands, by a verification of the log, or by recovery that mended it. Most of a batch is
 * under its checksum; base offset, length, leader epoch, magic and the checksum itself are not. Past the recovery point a bad checksum may not even be served. And whatever
 * is open takes records, and whatever was not touched is whole. */
#include "world.h"
#include "engine/log_inner.h"
#include "engine/record.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCHES_MAX 4000
struct stored { int64_t base; uint64_t hash; int32_t epoch; };
struct flip {
    struct sim_world *world;
    int partition;
    char dir_path[256], file[400];
    struct stored batches[BATCHES_MAX]; uint32_t count;
    int64_t start, end;
    struct stored victim;                  /* whose bit it is */
    uint64_t batch_pos, pos;
    uint8_t before;
    uint32_t faults;
    bool told, wrong, scanned;
};

static struct broker_partition *find(struct flip *flip)
{
    struct broker_partition *partition = broker_partition_find(broker_of_core(flip->world->core), ot_str_of("sim"), flip->partition);
    SIM_CHECK(flip->world, partition != NULL, "partition %d is gone", flip->partition);
    return partition;
}

/* Every batch that a reader gets, as its bytes are; false: it was told that it cannot have them. */
static bool each_batch(struct flip *flip, struct eng_log *log, void (*each)(struct flip *flip, const uint8_t *data, size_t bytes))
{
    uint8_t *data = malloc(1u << 20);
    int64_t offset = eng_log_start_offset(log), end = eng_log_end_offset(log);
    bool good = true;
    OT_ASSERT(data != NULL);
    while (offset < end && good) {
        struct eng_read how = { .offset = offset, .limit_offset = end, .max_bytes = 1u << 19, .min_one = true, .may_block = true };
        struct eng_read_result result = { 0 };
        int64_t before = offset;
        good = eng_log_read(log, &how, &result) == OT_OK && result.bytes > 0;
        size_t bytes = good ? sim_content_read(flip->world, &result, data, 1u << 20) : 0;
        if (result.pin != NULL) result.pin->release(result.pin);
        struct ot_reader cursor = ot_reader_over(data, bytes);
        struct eng_batch_piece piece;
        struct eng_batch_info info;
        while (good && eng_batch_split(&cursor, &piece) == OT_OK) {
            good = eng_batch_parse(piece.data, piece.bytes, &info) == OT_OK;
            if (!good || eng_batch_last_offset(&info) < offset) continue;
            each(flip, piece.data, piece.bytes);
            offset = eng_batch_last_offset(&info) + 1;
        }
        good = good && offset > before;    /* a reader that gets nowhere has noticed */
    }
    free(data);
    return good;
}

static struct stored stored_of(const uint8_t *data, size_t bytes)
{
    struct eng_batch_info info;
    OT_ASSERT(eng_batch_parse(data, bytes, &info) == OT_OK);
    return (struct stored){ info.base_offset, ot_hash64(data, bytes, 9), info.partition_leader_epoch };
}

static void remember(struct flip *flip, const uint8_t *data, size_t bytes)
{
    OT_ASSERT(flip->count < BATCHES_MAX);
    flip->batches[flip->count++] = stored_of(data, bytes);
}

static void compare(struct flip *flip, const uint8_t *data, size_t bytes)
{
    struct stored now = stored_of(data, bytes);
    struct eng_batch_info info;
    bool same = false;
    OT_ASSERT(eng_batch_parse(data, bytes, &info) == OT_OK);
    for (uint32_t i = 0; i < flip->count && !same; i++) same = flip->batches[i].base == now.base && flip->batches[i].hash == now.hash;
    if (same) return;
    flip->wrong = true;
    bool checksum = eng_batch_check_crc(data, &info) == OT_OK;
    SIM_CHECK(flip->world, checksum || !flip->scanned, "partition %d: recovery read the batch at %lld and left it, with a bad checksum", flip->partition, (long long)now.base);
    if (!checksum) flip->told = true;
}

/* ---- choosing ---- */

static void name(void *arg, const struct ot_io_entry *entry)
{
    struct flip *flip = arg;
    size_t bytes = strlen(entry->name);
    if (bytes != 24 || strcmp(entry->name + 20, ".log") != 0) return;
    int64_t base = strtoll(entry->name, NULL, 10), best = flip->file[0] == 0 ? -1 : strtoll(strrchr(flip->file, '/') + 1, NULL, 10);
    if (base <= flip->victim.base && base > best) snprintf(flip->file, sizeof(flip->file), "%s/%s", flip->dir_path, entry->name);
}

/* Where the victim lies, and which of its bits: half the time one that no checksum covers. */
static bool choose(struct flip *flip)
{
    struct sim_world *world = flip->world;
    struct ot_io *io = sim_disk_io(world->disk);
    struct eng_batch_info info;
    char *data = NULL;
    size_t bytes = 0;
    bool found = false;
    flip->victim = flip->batches[ot_rng_chance(&world->rng, 0.4) ? flip->count - 1 : ot_rng_below(&world->rng, flip->count)];
    if (io->ops->list(io, flip->dir_path, name, flip) != OT_OK || flip->file[0] == 0 || ot_io_read_file(io, flip->file, 32u << 20, &data, &bytes) != OT_OK) return false;
    struct ot_reader cursor = ot_reader_over(data, bytes);
    struct eng_batch_piece piece;
    while (!found && eng_batch_split(&cursor, &piece) == OT_OK && eng_batch_parse(piece.data, piece.bytes, &info) == OT_OK) {
        flip->batch_pos = (uint64_t)(piece.data - (const uint8_t *)data);
        found = info.base_offset == flip->victim.base;
    }
    if (found) {
        static const uint8_t outside[][2] = { { 0, 8 }, { 8, 4 }, { 12, 4 }, { 12, 4 }, { 16, 1 }, { 17, 4 } };
        const uint8_t *field = outside[ot_rng_below(&world->rng, OT_ARRAY_COUNT(outside))];
        bool covered = ot_rng_chance(&world->rng, 0.5);
        flip->pos = flip->batch_pos + (covered ? ot_rng_below(&world->rng, (uint64_t)info.batch_bytes) : field[0] + ot_rng_below(&world->rng, field[1]));
        flip->before = (uint8_t)data[flip->pos];
    }
    free(data);
    return found;
}

/* ---- judging ---- */

static void fault(void *arg, const char *text)
{
    struct flip *flip = arg;
    (void)text;
    flip->faults++;
}

static void aside(void *arg, const struct ot_io_entry *entry)
{
    size_t bytes = strlen(entry->name);
    if (bytes > 4 && strcmp(entry->name + bytes - 4, ".cut") == 0) *(bool *)arg = true;
}

static bool mended(struct flip *flip)
{
    char *data = NULL;
    size_t bytes = 0;
    if (ot_io_read_file(sim_disk_io(flip->world->disk), flip->file, 32u << 20, &data, &bytes) != OT_OK) return false;
    bool same = flip->pos < bytes && (uint8_t)data[flip->pos] == flip->before;
    free(data);
    return same;
}

static void judge(struct flip *flip, struct broker_partition *partition)
{
    struct sim_world *world = flip->world;
    struct ot_io *io = sim_disk_io(world->disk);
    long long at = (long long)flip->victim.base, in = (long long)(flip->pos - flip->batch_pos);
    if (atomic_load(&partition->stage) != BROKER_PARTITION_OPEN) return;       /* told by the start */
    int64_t end = eng_log_end_offset(partition->log);
    SIM_CHECK(world, end <= flip->end, "partition %d ends at %lld, it ended at %lld before byte %lld of the batch at %lld was damaged", flip->partition, (long long)end,
        (long long)flip->end, in, at);
    bool kept = false;
    ot_ignore(io->ops->list(io, flip->dir_path, aside, &kept), "none then");
    SIM_CHECK(world, end == flip->end || kept || (end == at && at == flip->batches[flip->count - 1].base), "partition %d ends at %lld of %lld, the batch at %lld was damaged, and nothing was kept aside",
        flip->partition, (long long)end, (long long)flip->end, at);
    flip->told |= end < flip->end;
    if (!each_batch(flip, partition->log, compare)) flip->told = true;
    enum ot_err verified = eng_log_verify(partition->log, fault, flip);
    flip->told |= verified != OT_OK || flip->faults > 0;
    SIM_CHECK(world, flip->told || !flip->wrong, "partition %d: bit %lld of the batch at %lld is another, it is served, and nobody can tell", flip->partition, in * 8, at);
    SIM_CHECK(world, flip->told || mended(flip), "partition %d: byte %lld of the batch at %lld is damaged, and nothing says so", flip->partition, in, at);
}

void sim_flip(struct sim_world *world)
{
    struct flip *flip = calloc(1, sizeof(*flip));
    OT_ASSERT(flip != NULL);
    *flip = (struct flip){ .world = world, .partition = (int)ot_rng_below(&world->rng, SIM_PARTITIONS) };
    struct broker_partition *partition = find(flip);
    bool open = atomic_load(&partition->stage) == BROKER_PARTITION_OPEN;
    if (open) {
        snprintf(flip->dir_path, sizeof(flip->dir_path), "%s", eng_log_dir_path(partition->log));
        flip->start = eng_log_start_offset(partition->log);
        flip->end = eng_log_end_offset(partition->log);
        SIM_CHECK(world, each_batch(flip, partition->log, remember), "partition %d cannot be read", flip->partition);
    }
    broker_partition_put(partition);
    int how = (int)ot_rng_below(&world->rng, 3);           /* a clean stop, a killed process, one whose checkpoints are lost too */
    if (how == 0) sim_world_stop(world);
    else sim_world_crash(world, false);
    if (how == 2) {
        struct ot_io *io = sim_disk_io(world->disk);
        ot_ignore(io->ops->unlink(io, "/sim/a/recovery-point-offset-checkpoint"), "never written then");
        ot_ignore(io->ops->unlink(io, "/sim/b/recovery-point-offset-checkpoint"), "never written then");
    }
    flip->scanned = how == 2;
    world->flipping = true;
    bool flipped = open && flip->count > 0 && choose(flip) && sim_disk_flip(world->disk, flip->file, flip->pos, (uint8_t)ot_rng_below(&world->rng, 8));
    world->totals.flips += flipped;
    sim_note(world, 15, flipped ? flip->pos : 0, (uint64_t)how);
    sim_world_open(world);
    sim_world_drain(world);
    for (int i = 0; i < SIM_PARTITIONS; i++) {
        struct flip other = { .world = world, .partition = i };
        bool hit = flipped && i == flip->partition;
        partition = find(&other);
        if (hit) judge(flip, partition);
        bool takes = atomic_load(&partition->stage) == BROKER_PARTITION_OPEN;
        SIM_CHECK(world, takes || hit, "partition %d does not open, and another one was damaged", i);
        SIM_CHECK(world, !takes || sim_client_put(world, i), "partition %d takes no records after byte %llu of %s was damaged", i, (unsigned long long)(flip->pos - flip->batch_pos), flip->file);
        broker_partition_put(partition);
    }
    sim_world_stop(world);
    free(flip);
}
