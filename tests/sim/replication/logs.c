/* The engine's own logs under the replicas: each record of the array is a batch in a log on a simulated disk. The array says what has to be there; after a crash, what recovery brings up
 * is the array. Power goes off at any disk call, recovery's own among them; epoch files, checkpoints, truncation and flush rounds are the engine's. */
#include "world.h"
#include "../disk.h"
#include "../spans.h"
#include "broker/follow.h"
#include "batches.h"
#include "engine/log.h"
#include "engine/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIR_PATH "/sim/a"
enum { READ_BYTES = 1 << 16 };

struct files {
    struct sim_disk *disk; struct eng_store *store; struct ot_pool *pool;
    bool machine_crashed, clean;               /* how it went down */
    bool appending[PARTITIONS], dropping[PARTITIONS];      /* when the power went off */
    int64_t recovery_point[PARTITIONS], start[PARTITIONS];
};
static const char *const dirs[] = { DIR_PATH };

static struct eng_log_config log_config(void)
{
    return (struct eng_log_config){ .segment_bytes = 4000, .segment_ms = INT64_MAX, .segment_index_bytes = 4096, .index_interval_bytes = 64, .retention_ms = -1, .retention_bytes = -1,
        .append_io = ENG_APPEND_PWRITEV, .producer_expiry_ms = INT64_MAX, .producers_max = 10 };
}

static int64_t wall_ms(const struct world *w) { return 1750000000000 + (int64_t)(w->now_us / 1000); }

/* A call of the engine failed: the power is off, and the broker is down. */
static bool down(struct world *w, struct broker *broker)
{
    CHECK(sim_disk_is_off(broker->files->disk));
    bool machine = ot_rng_chance(&w->rng, 0.5) && sim_may_lose(w);
    w->losses += machine;
    w->power_cuts++;
    broker_crash(w, broker, machine);
    return false;
}

/* ---- reading */

/* Is what the engine has in [from, to) what the array has? Fewer if the power goes off. */
static void compare(struct world *w, struct broker *broker, uint32_t partition, int64_t from, int64_t to)
{
    struct held *held = &broker->held[partition];
    static uint8_t data[2 * READ_BYTES];
    while (from < to) {
        struct eng_read how = { .offset = from, .limit_offset = to, .max_bytes = READ_BYTES, .min_one = true, .may_block = true };
        struct eng_read_result result = { 0 };
        enum ot_err err = eng_log_read(held->engine, &how, &result);
        if (err != OT_OK && sim_disk_is_off(broker->files->disk)) {
            return;
        }
        CHECK(err == OT_OK && result.bytes > 0);
        struct ot_reader cursor = ot_reader_over(data, sim_spans_copy(sim_disk_io(broker->files->disk), &result, data, sizeof data));
        struct eng_batch_piece piece;
        struct eng_batch_info info;
        result.pin->release(result.pin);
        if (sim_disk_is_off(broker->files->disk)) {
            return;
        }
        int64_t before = from;
        while (eng_batch_split(&cursor, &piece) == OT_OK) {
            CHECK(eng_batch_parse(piece.data, piece.bytes, &info) == OT_OK && info.base_offset == from);
            struct record record = batch_record(&piece, &info);
            CHECK(record.id == held->log[from].id && record.epoch == held->log[from].epoch);
            from++;
        }
        CHECK(from > before);
        w->read++;
    }
}

void logs_check_read(struct world *w, const struct broker *broker, uint32_t partition, int64_t from, int64_t to)
{
    if (broker->files != NULL && from < to) {
        compare(w, (struct broker *)(uintptr_t)broker, partition, from, to);
    }
}

/* ---- opening */

static void row(void *arg, const struct eng_checkpoint_row *row)
{
    if (strcmp(row->topic, "t") == 0 && row->partition >= 0 && row->partition < PARTITIONS) {
        ((int64_t *)arg)[row->partition] = row->offset;
    }
}

static enum ot_err open_log(struct world *w, struct broker *broker, uint32_t partition)
{
    struct files *files = broker->files;
    struct eng_recovery recovery;
    char path[64];
    snprintf(path, sizeof path, DIR_PATH "/t-%u", partition);
    struct eng_log_open how = { .dir_path = path, .config = log_config(), .recovery_point = files->recovery_point[partition], .clean = files->clean, .wall_ms = wall_ms(w) };
    memset(how.topic_id.bytes, 9, sizeof how.topic_id.bytes);
    enum ot_err err = eng_log_open(files->store, &how, &broker->held[partition].engine, &recovery);
    if (err == OT_ERR_MISMATCH && how.recovery_point == 0) {   /* nothing was ever synced, not even whose folder it is: set aside, as a broker does */
        err = eng_store_set_aside(files->store, 0, "t", (int32_t)partition);
        if (err == OT_OK) err = eng_log_open(files->store, &how, &broker->held[partition].engine, &recovery);
    }
    return err;
}

/* What came up against what was promised; then the array is what came up. */
static bool take_over(struct world *w, struct broker *broker, uint32_t partition)
{
    struct files *files = broker->files;
    struct held *held = &broker->held[partition];
    int64_t end = eng_log_end_offset(held->engine), most = held->end + files->appending[partition], least = files->machine_crashed ? held->flushed : held->end, flushed;
    least = held->cutting_to >= 0 ? OT_MIN(least, held->cutting_to) : least;
    least = files->dropping[partition] ? 0 : least;
    if (end < least || end > most) {
        fprintf(stderr, "broker %d partition %u: [%lld, %lld] was promised, %lld came up (machine %d)\n", broker->id, partition, (long long)least, (long long)most, (long long)end,
            files->machine_crashed);
    }
    HOLDS(18, end >= least);
    CHECK(end <= most && eng_log_start_offset(held->engine) == 0);
    compare(w, broker, partition, 0, end);
    if (eng_log_flush(held->engine, &flushed) != OT_OK) {
        return false;
    }
    if (end > held->end) {
        check_append(w, broker, partition, held->end);
    }
    held->end = held->flushed = end;
    held->cutting_to = -1;
    files->appending[partition] = files->dropping[partition] = false;
    return true;
}

static bool open_all(struct world *w, struct broker *broker)
{
    struct files *files = broker->files;
    struct eng_store_config config = { .dirs = dirs, .dir_count = 1, .files_max = 8, .maps_max = 4, .append_mapped_bytes_max = 1u << 20 };
    uint32_t bad = 0;
    memset(files->recovery_point, 0, sizeof files->recovery_point);
    if (eng_store_open(sim_disk_io(files->disk), &config, &files->store, &bad) != OT_OK
        || eng_store_checkpoint_load(files->store, 0, ENG_CHECKPOINT_RECOVERY, row, files->recovery_point) != OT_OK) {
        return false;
    }
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        enum ot_err err = open_log(w, broker, i);
        if (err != OT_OK) {
            CHECK(sim_disk_is_off(files->disk));
            return false;
        }
        if (!take_over(w, broker, i) || sim_disk_is_off(files->disk)) {
            return false;
        }
    }
    return true;
}

bool logs_open(struct world *w, struct broker *broker)
{
    struct files *files = broker->files;
    if (!w->swarm.engine) {
        return true;
    }
    if (files == NULL) {
        files = broker->files = calloc(1, sizeof *files);
        files->disk = sim_disk_new(ot_rng_next(&w->rng));
        files->pool = ot_pool_new("sim", 8u << 20, 1u << 18);
        CHECK(files->pool != NULL);
        for (uint32_t i = 0; i < PARTITIONS; i++) {
            broker->held[i].cutting_to = -1;
        }
    }
    sim_disk_set_wall(files->disk, wall_ms(w));
    sim_disk_faults(files->disk, &(struct sim_faults){ .short_write = 0.02, .short_read = 0.02 });
    sim_disk_power_off_after(files->disk, w->swarm.cuts_power && ot_rng_chance(&w->rng, 0.2) ? 1 + ot_rng_below(&w->rng, 200) : UINT64_MAX);
    if (!open_all(w, broker)) {
        return down(w, broker);
    }
    files->clean = files->machine_crashed = false;
    sim_disk_power_off_after(files->disk, w->swarm.cuts_power && ot_rng_chance(&w->rng, 0.5) ? 1 + ot_rng_below(&w->rng, 4000) : UINT64_MAX);
    return true;
}

/* ---- writing */

bool logs_append(struct world *w, struct broker *broker, uint32_t partition, struct record record)
{
    struct files *files = broker->files;
    struct held *held = &broker->held[partition];
    if (files == NULL) {
        return true;
    }
    struct ot_blob none = { 0 };
    uint32_t appended = 0;
    struct ot_buf *buf = batch_of(files->pool, record, held->end, wall_ms(w), NULL);
    struct eng_append_batch batch = { .data = buf->data, .bytes = (uint32_t)buf->bytes, .leader_epoch = record.epoch, .base_offset = held->end, .last_offset = held->end,
        .max_timestamp = wall_ms(w), .max_timestamp_offset = held->end };
    sim_disk_set_wall(files->disk, wall_ms(w));
    files->appending[partition] = true;
    enum ot_err err = eng_log_fits(held->engine, &batch, 1, wall_ms(w)) == 0 ? eng_log_roll(held->engine, &none, wall_ms(w)) : OT_OK;
    if (err == OT_OK) {
        err = eng_log_append(held->engine, &batch, 1, wall_ms(w), &appended);
    }
    ot_buf_unref(buf);
    if (err != OT_OK || appended != 1) {
        return down(w, broker);
    }
    files->appending[partition] = false;
    CHECK(eng_log_end_offset(held->engine) == held->end + 1);
    return true;
}

bool logs_cut(struct world *w, struct broker *broker, uint32_t partition, int64_t to)
{
    struct held *held = &broker->held[partition];
    if (broker->files == NULL) {
        return true;
    }
    held->cutting_to = to;
    if (eng_log_truncate(held->engine, to, wall_ms(w)) != OT_OK) {
        return down(w, broker);
    }
    held->cutting_to = -1;
    CHECK(eng_log_end_offset(held->engine) == to);
    return true;
}

bool logs_flush(struct world *w, struct broker *broker, uint32_t partition)
{
    int64_t flushed;
    return broker->files == NULL || eng_log_flush(broker->held[partition].engine, &flushed) == OT_OK || down(w, broker);
}

bool logs_drop(struct world *w, struct broker *broker, uint32_t partition)
{
    struct held *held = &broker->held[partition];
    if (broker->files == NULL || held->end == 0) {
        return true;
    }
    struct files *files = broker->files;
    struct eng_checkpoint_row rows[PARTITIONS];
    uint32_t count = 0;
    files->dropping[partition] = true;
    for (uint32_t i = 0; i < PARTITIONS; i++) {            /* a recovery point of what is gone would be believed of what comes */
        if (i != partition) {
            rows[count++] = (struct eng_checkpoint_row){ "t", (int32_t)i, eng_log_flushed_end(broker->held[i].engine) };
        }
    }
    if (eng_store_checkpoint_write(files->store, 0, ENG_CHECKPOINT_RECOVERY, rows, count, true) != OT_OK) {
        return down(w, broker);
    }
    enum ot_err err = eng_log_delete(held->engine);
    held->engine = NULL;
    files->recovery_point[partition] = 0;
    if (err != OT_OK || open_log(w, broker, partition) != OT_OK) {
        return down(w, broker);
    }
    files->dropping[partition] = false;
    CHECK(eng_log_end_offset(held->engine) == 0);
    return true;
}

void logs_checkpoint(struct world *w, struct broker *broker)
{
    struct eng_checkpoint_row rows[PARTITIONS];
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        rows[i] = (struct eng_checkpoint_row){ "t", (int32_t)i, eng_log_flushed_end(broker->held[i].engine) };
    }
    if (eng_store_checkpoint_write(broker->files->store, 0, ENG_CHECKPOINT_RECOVERY, rows, PARTITIONS, true) != OT_OK) {
        (void)down(w, broker);
    }
}

/* ---- the end of a process, a machine, a disk */

static void close_all(struct broker *broker, bool sync)
{
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        ot_ignore(eng_log_close(broker->held[i].engine, sync), "the power may be off");
        broker->held[i].engine = NULL;
    }
    if (broker->files->store != NULL) {
        eng_store_close(broker->files->store);
    }
    broker->files->store = NULL;
}

void logs_crash(struct world *w, struct broker *broker, bool machine)
{
    struct files *files = broker->files;
    if (files == NULL) {
        return;
    }
    files->clean = broker->clean && !machine && !sim_disk_is_off(files->disk);
    for (uint32_t i = 0; i < PARTITIONS && files->clean; i++) {
        int64_t flushed;
        files->clean = eng_log_flush(broker->held[i].engine, &flushed) == OT_OK;
    }
    if (!files->clean) {
        sim_disk_power_off_after(files->disk, 0);
    }
    close_all(broker, files->clean);
    files->clean &= !sim_disk_is_off(files->disk);
    broker->clean = files->clean;
    files->machine_crashed |= machine;         /* until it came up: the power may go off again while it does */
    if (machine) {
        sim_disk_crash_machine(files->disk);
    } else {
        sim_disk_crash_process(files->disk);
    }
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        broker->lost |= machine && broker->held[i].end > broker->held[i].flushed;
    }
    (void)w;
}

void logs_wipe(struct world *w, struct broker *broker)
{
    struct files *files = broker->files;
    if (files == NULL) {
        return;
    }
    sim_disk_free(files->disk);
    files->disk = sim_disk_new(ot_rng_next(&w->rng));
    memset(files->appending, 0, sizeof files->appending);
    files->clean = false;
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        broker->held[i].cutting_to = -1;
    }
}

void logs_free(struct broker *broker)
{
    struct files *files = broker->files;
    if (files == NULL) {
        return;
    }
    if (files->store != NULL) {
        sim_disk_power_off_after(files->disk, 0);
        close_all(broker, false);
    }
    sim_disk_free(files->disk);
    ot_pool_free(files->pool);
    free(files);
    broker->files = NULL;
}

void logs_calm(struct broker *broker)
{
    if (broker->files != NULL && !sim_disk_is_off(broker->files->disk)) {
        sim_disk_power_off_after(broker->files->disk, UINT64_MAX);
    }
}

uint64_t logs_hash(const struct broker *broker) { return broker->files == NULL ? 0 : sim_disk_hash(broker->files->disk); }

/* ---- epochs */

struct replica_epoch_end logs_epoch_end(const struct held *held, int32_t epoch)        /* the largest epoch <= it, and where it ends */
{
    if (held->engine != NULL) {
        return broker_follow_log_parts(held->engine, epoch, held->end);
    }
    int64_t at = held->end;
    while (at > 0 && held->log[at - 1].epoch > epoch) {
        at--;
    }
    return (struct replica_epoch_end){ at == 0 ? -1 : held->log[at - 1].epoch, at };
}

int32_t logs_last_epoch(const struct held *held)
{
    if (held->engine != NULL) {
        return eng_epochs_latest(eng_log_epochs(held->engine));
    }
    return held->end == 0 ? -1 : held->log[held->end - 1].epoch;
}
