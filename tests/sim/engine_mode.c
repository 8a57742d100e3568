/* One log without a broker: append, roll, flush, truncate, start anew at an offset, retention, crash, reopen; against a list of the batches that should be there.
 *
 * The model keeps what is in the log now, and what a crash may bring back: while a truncation runs the old tail is still possible, once it returned nothing of it.
 * A machine crash may lose what was not flushed, a process crash nothing; neither may bring a batch that was cut off. */
#include "world.h"
#include "engine/batch_build.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIR_PATH "/sim/a/cut-0"
#define KEPT_MAX 4000

struct kept { uint32_t id; int64_t base, last; };
struct engine_world {
    struct sim_world *world;           /* disk, chance, pools; no broker */
    struct eng_store *store;
    struct eng_log *log;
    struct kept kept[KEPT_MAX]; uint32_t count;
    int64_t end, flushed, start;       /* of the model */
    int64_t start_synced;              /* a log start that is surely on the platter: one that only a killed process wrote may be taken back by the next crash of the machine */
    int64_t checkpoint, start_checkpoint;      /* what the broker would have read from its files */
    uint32_t ids;
    int32_t epoch;
    struct sim_faults faults;
    bool anew;                         /* the last open found a folder of nobody and set it aside */
    int64_t flushed_at_open;
    bool unsure;                       /* a call failed since the last check: what it did is open */
    int64_t unsure_end, unsure_start;
};

static const char *const dirs[] = { "/sim/a" };

static void checkpoint_row(void *arg, const struct eng_checkpoint_row *row)
{
    if (strcmp(row->topic, "cut") == 0) *(int64_t *)arg = row->offset;
}

static bool open_log(struct engine_world *w, bool clean)
{
    w->anew = false;
    struct eng_store_config config = { .dirs = dirs, .dir_count = 1, .files_max = 4, .maps_max = 2, .append_mapped_bytes_max = 1u << 20 };
    struct eng_log_open how = { .dir_path = DIR_PATH, .clean = clean, .wall_ms = sim_sched_wall_ms(w->world->sched) };
    struct eng_recovery recovery;
    uint32_t bad = 0;
    int64_t recovery_point = 0, log_start = 0;
    bool mmap = strcmp(w->world->append_io, "mmap") == 0;
    how.config = (struct eng_log_config){ .segment_bytes = 4000, .segment_ms = INT64_MAX, .segment_index_bytes = 4096, .index_interval_bytes = 64, .retention_ms = -1,
        .retention_bytes = 20000, .delete_enabled = true, .append_io = mmap ? ENG_APPEND_MMAP : ENG_APPEND_PWRITEV, .producer_expiry_ms = INT64_MAX, .producers_max = 100 };
    memset(how.topic_id.bytes, 9, sizeof(how.topic_id.bytes));
    if (eng_store_open(sim_disk_io(w->world->disk), &config, &w->store, &bad) != OT_OK) return false;
    ot_ignore(eng_store_checkpoint_load(w->store, 0, ENG_CHECKPOINT_RECOVERY, checkpoint_row, &recovery_point), "0 then");
    ot_ignore(eng_store_checkpoint_load(w->store, 0, ENG_CHECKPOINT_START, checkpoint_row, &log_start), "0 then");
    how.recovery_point = recovery_point;
    how.log_start_offset = log_start;
    struct ot_io *io = eng_store_io(w->store);
    how.settled = !clean && w->world->seed / 5 % 3 == 1 && io->ops->sync_all(io, dirs[0]) == OT_OK;
    enum ot_err err = eng_log_open(w->store, &how, &w->log, &recovery);
    how.settled = false;
    if (err == OT_ERR_MISMATCH && recovery_point == 0 && log_start == 0) {     /* nothing was ever synced, not even whose folder it is: set aside, as a broker does */
        w->anew = true;
        err = eng_store_set_aside(w->store, 0, "cut", 0);
        if (err == OT_OK) err = eng_log_open(w->store, &how, &w->log, &recovery);
    }
    SIM_CHECK(w->world, err != OT_OK || w->anew || w->unsure || !recovery.epochs_rebuilt, "the leader epochs were not on the disk before their records were");
    return err == OT_OK;
}

static void close_log(struct engine_world *w)
{
    ot_ignore(eng_log_close(w->log, true), "the power may be off");
    eng_store_close(w->store);
    w->log = NULL;
    w->store = NULL;
}

static void write_checkpoints(struct engine_world *w)
{
    struct eng_checkpoint_row row = { "cut", 0, eng_log_flushed_end(w->log) }, start = { "cut", 0, eng_log_start_offset(w->log) };
    ot_ignore(eng_store_checkpoint_write(w->store, 0, ENG_CHECKPOINT_RECOVERY, &row, 1, true), "a stale one is good too");
    if (eng_store_checkpoint_write(w->store, 0, ENG_CHECKPOINT_START, &start, 1, true) == OT_OK) w->start_synced = start.offset;       /* else a stale one, which is good too */
}

/* ---- what may be there ---- */

static const struct kept *find(const struct engine_world *w, int64_t base)
{
    for (uint32_t i = 0; i < w->count; i++)
        if (w->kept[i].base == base) return &w->kept[i];
    return NULL;
}

static uint32_t id_of(struct engine_world *w, const uint8_t *data, const struct eng_batch_info *info)
{
    struct eng_record_iter iter;
    struct eng_record record;
    uint32_t id = 0;
    char key[24];
    SIM_CHECK(w->world, eng_batch_check_crc(data, info) == OT_OK, "bad CRC at %lld", (long long)info->base_offset);
    SIM_CHECK(w->world, eng_record_open(&iter, NULL, data, (size_t)info->batch_bytes, 0) == OT_OK && eng_record_next(&iter, &record) == OT_OK, "no record at %lld",
        (long long)info->base_offset);
    snprintf(key, sizeof(key), "%.*s", (int)record.key.bytes, (const char *)record.key.data);
    SIM_CHECK(w->world, sscanf(key, "%u", &id) == 1, "strange key %s", key);
    return id;
}

/* Everything from the log's start to its end is what the model holds; nothing else. */
static void check_content(struct engine_world *w)
{
    struct sim_world *world = w->world;
    int64_t offset = eng_log_start_offset(w->log), end = eng_log_end_offset(w->log);
    uint8_t *data = malloc(1u << 17);
    OT_ASSERT(data != NULL);
    while (offset < end) {
        struct eng_read how = { .offset = offset, .limit_offset = end, .max_bytes = 1u << 16, .min_one = true, .may_block = true };
        struct eng_read_result result = { 0 };
        enum ot_err err = eng_log_read(w->log, &how, &result);
        SIM_CHECK(world, err == OT_OK && result.bytes > 0, "nothing at %lld of %lld: %s", (long long)offset, (long long)end, ot_err_name(err));
        size_t bytes = sim_content_read(world, &result, data, 1u << 17);
        result.pin->release(result.pin);
        struct ot_reader cursor = ot_reader_over(data, bytes);
        struct eng_batch_piece piece;
        int64_t before = offset;
        while (eng_batch_split(&cursor, &piece) == OT_OK) {
            struct eng_batch_info info;
            SIM_CHECK(world, eng_batch_parse(piece.data, piece.bytes, &info) == OT_OK, "no batch at %lld", (long long)offset);
            int64_t last = eng_batch_last_offset(&info);
            if (last < offset) continue;
            SIM_CHECK(world, info.base_offset <= offset, "offset %lld follows %lld", (long long)info.base_offset, (long long)offset);
            const struct kept *kept = find(w, info.base_offset);
            uint32_t id = id_of(w, piece.data, &info);
            SIM_CHECK(world, kept != NULL && kept->id == id && kept->last == last, "at %lld lies batch %u, the model has %u: a cut batch came back", (long long)info.base_offset, id,
                kept == NULL ? 0 : kept->id);
            offset = last + 1;
        }
        SIM_CHECK(world, offset > before, "no progress at %lld", (long long)offset);
    }
    free(data);
}

static void fault(void *arg, const char *text)
{
    struct engine_world *w = arg;
    SIM_CHECK(w->world, text == NULL, "%s", text);
}

/* The model takes over what came up. */
static void take_over(struct engine_world *w)
{
    w->end = eng_log_end_offset(w->log);
    w->flushed = eng_log_flushed_end(w->log);  /* what a recovery read need not be on the platter */
    w->flushed_at_open = w->flushed;
    w->start = eng_log_start_offset(w->log);
    while (w->count > 0 && w->kept[w->count - 1].last >= w->end) w->count--;
    uint32_t gone = 0;
    while (gone < w->count && w->kept[gone].last < OT_MIN(w->start, w->start_synced)) gone++;
    memmove(w->kept, w->kept + gone, (w->count - gone) * sizeof(w->kept[0]));
    w->count -= gone;
    w->unsure = false;
}

static void reopen(struct engine_world *w, int how)
{
    struct sim_world *world = w->world;
    bool clean = false;
    if (how == 0 && !sim_disk_is_off(world->disk) && !eng_log_read_only(w->log)) {
        int64_t flushed = 0;
        clean = eng_log_flush(w->log, &flushed) == OT_OK;
        if (clean) w->flushed = flushed;
        write_checkpoints(w);
    } else {
        sim_disk_power_off_after(world->disk, 0);
    }
    close_log(w);
    if (how == 2) sim_disk_crash_machine(world->disk);
    else sim_disk_crash_process(world->disk);
    world->totals.crashes += how != 0;
    SIM_CHECK(world, open_log(w, clean && how == 0), "the log does not open");
    if (w->unsure) {                           /* as a broker does before it serves what came up: else the next crash may bring up another state of what was under way */
        int64_t flushed;
        SIM_CHECK(world, eng_log_flush(w->log, &flushed) == OT_OK, "what came up cannot be flushed");
    }
    int64_t end = eng_log_end_offset(w->log), start = eng_log_start_offset(w->log), least = how == 2 ? w->flushed : w->end;
    if (w->unsure) least = OT_MIN(least, w->unsure_end);
    if (w->anew && w->flushed == w->flushed_at_open) least = 0;        /* it began at an offset, and nothing was synced since */
    SIM_CHECK(world, end >= least, "the log ends at %lld, at least %lld was promised (crash kind %d)", (long long)end, (long long)least, how);
    SIM_CHECK(world, start <= end, "the log starts at %lld and ends at %lld", (long long)start, (long long)end);
    check_content(w);
    SIM_CHECK(world, eng_log_verify(w->log, fault, w) == OT_OK, "verify failed");
    take_over(w);
}

/* ---- acts ---- */

/* What a failed append left behind the last whole batch is cut off at once (where a file has its true size all the time). */
static void check_cut_back(struct engine_world *w)
{
    struct eng_segment_info info[256];
    struct ot_io *io = sim_disk_io(w->world->disk);
    struct ot_io_stat stat;
    char path[100];
    uint32_t count = eng_log_segments(w->log, info, OT_ARRAY_COUNT(info));
    if (strcmp(w->world->append_io, "mmap") == 0 || count == 0 || count > OT_ARRAY_COUNT(info)) return;
    snprintf(path, sizeof(path), DIR_PATH "/%020lld.log", (long long)info[count - 1].base_offset);
    if (io->ops->stat(io, path, &stat) != OT_OK) return;
    SIM_CHECK(w->world, stat.bytes == info[count - 1].log_bytes, "a failed append left %llu bytes of which %llu are the log's", (unsigned long long)stat.bytes,
        (unsigned long long)info[count - 1].log_bytes);
}

static void append(struct engine_world *w)
{
    struct eng_append_batch batches[4];
    struct ot_buf *bufs[4];
    uint32_t count = 1 + (uint32_t)ot_rng_below(&w->world->rng, 4), appended = 0;
    int64_t offset = eng_log_end_offset(w->log), wall_ms = sim_sched_wall_ms(w->world->sched);
    if (w->count + count > KEPT_MAX) return;
    if (ot_rng_chance(&w->world->rng, 0.1)) w->epoch++;
    for (uint32_t i = 0; i < count; i++) {
        struct eng_sink sink;
        struct eng_batch_builder builder;
        struct eng_batch_fields fields = eng_batch_fields_default();
        uint32_t records = 1 + (uint32_t)ot_rng_below(&w->world->rng, 4), id = ++w->ids;
        char key[24], value[400];
        eng_sink_pool(&sink, w->world->requests, 1u << 16);
        fields.base_offset = offset;
        fields.leader_epoch = w->epoch;
        OT_ASSERT(eng_batch_build_begin(&builder, &fields, NULL, &sink) == OT_OK);
        int key_bytes = snprintf(key, sizeof(key), "%u", id);
        memset(value, 'a' + (int)(id % 26), sizeof(value));
        for (uint32_t r = 0; r < records; r++)
            OT_ASSERT(eng_batch_build_next(&builder, wall_ms + id, (struct ot_blob){ (uint8_t *)key, (uint32_t)key_bytes, false },
                (struct ot_blob){ (uint8_t *)value, (uint32_t)(id * 31 % sizeof(value)), false }, NULL, 0) == OT_OK);
        OT_ASSERT(eng_batch_build_finish(&builder) == OT_OK);
        bufs[i] = eng_sink_take(&sink);
        batches[i] = (struct eng_append_batch){ .data = bufs[i]->data, .bytes = (uint32_t)bufs[i]->bytes, .leader_epoch = w->epoch, .base_offset = offset,
            .last_offset = offset + records - 1, .max_timestamp = wall_ms + id, .max_timestamp_offset = offset };
        w->kept[w->count + i] = (struct kept){ id, offset, offset + records - 1 };
        offset += records;
    }
    struct sim_faults faults = w->faults;
    bool full = ot_rng_chance(&w->world->rng, 0.08);
    if (full) faults.capacity_bytes = sim_disk_used_bytes(w->world->disk) + ot_rng_below(&w->world->rng, 3) * 4096;
    sim_disk_faults(w->world->disk, &faults);
    uint32_t fits = eng_log_fits(w->log, batches, count, wall_ms);
    struct ot_blob none = { 0 };
    enum ot_err err = fits == 0 ? eng_log_roll(w->log, &none, wall_ms) : OT_OK;
    if (fits == 0 && err == OT_OK) fits = eng_log_fits(w->log, batches, count, wall_ms);
    if (err == OT_OK) err = eng_log_append(w->log, batches, fits, wall_ms, &appended);
    for (uint32_t i = 0; i < count; i++) ot_buf_unref(bufs[i]);
    sim_disk_faults(w->world->disk, &w->faults);
    w->world->totals.disk_full += err == OT_ERR_NO_SPACE;
    /* a power cut: what was in the middle of being written may come up whole */
    w->count += sim_disk_is_off(w->world->disk) ? fits : appended;
    w->end = appended > 0 ? batches[appended - 1].last_offset + 1 : w->end;
    SIM_CHECK(w->world, err == OT_OK || (full && err == OT_ERR_NO_SPACE) || sim_disk_is_off(w->world->disk), "append: %s", ot_err_name(err));
    if (err == OT_ERR_NO_SPACE) check_cut_back(w);
    SIM_CHECK(w->world, eng_log_end_offset(w->log) == w->end, "the log ends at %lld, the model at %lld", (long long)eng_log_end_offset(w->log), (long long)w->end);
}

static void cut(struct engine_world *w)
{
    int64_t at = w->start + (int64_t)ot_rng_below(&w->world->rng, (uint64_t)(w->end - w->start) + 1);
    w->unsure = true;
    w->unsure_end = at;                        /* if the power goes now: the old end, or anything down to the cut */
    for (uint32_t i = 0; i < w->count; i++)
        if (w->kept[i].base <= at && at <= w->kept[i].last) w->unsure_end = w->kept[i].base;
    if (w->unsure_end < w->start) {            /* the batch that the log start cuts through */
        w->unsure = false;
        return;
    }
    enum ot_err err = eng_log_truncate(w->log, at, sim_sched_wall_ms(w->world->sched));
    SIM_CHECK(w->world, err == OT_OK || sim_disk_is_off(w->world->disk), "truncate: %s", ot_err_name(err));
    if (err != OT_OK) return;
    w->end = eng_log_end_offset(w->log);
    SIM_CHECK(w->world, w->end == w->unsure_end, "cut at %lld, the end is %lld, a batch starts at %lld", (long long)at, (long long)w->end, (long long)w->unsure_end);
    while (w->count > 0 && w->kept[w->count - 1].base >= w->end) w->count--;
    w->flushed = OT_MIN(w->flushed, w->end);
    w->unsure = false;
    w->world->totals.truncations++;
}

static void start_anew(struct engine_world *w)
{
    int64_t at = w->end + (int64_t)ot_rng_below(&w->world->rng, 50);
    w->unsure = true;
    w->unsure_end = 0;
    enum ot_err err = eng_log_start_at(w->log, at);
    SIM_CHECK(w->world, err == OT_OK || sim_disk_is_off(w->world->disk), "start_at: %s", ot_err_name(err));
    if (err != OT_OK) return;
    SIM_CHECK(w->world, eng_log_start_offset(w->log) == at && eng_log_end_offset(w->log) == at, "the log is [%lld, %lld) and began anew at %lld",
        (long long)eng_log_start_offset(w->log), (long long)eng_log_end_offset(w->log), (long long)at);
    if (ot_rng_chance(&w->world->rng, 0.5)) write_checkpoints(w);      /* it has to come up there without */
    if (sim_disk_is_off(w->world->disk)) return;
    w->count = 0;
    w->end = w->start = w->flushed = at;
    w->unsure = false;
    w->world->totals.truncations++;
}

static void flush(struct engine_world *w)
{
    int64_t flushed = 0;
    if (eng_log_flush(w->log, &flushed) == OT_OK) w->flushed = OT_MAX(w->flushed, flushed);
    SIM_CHECK(w->world, w->flushed == w->end || sim_disk_is_off(w->world->disk), "a flush ends at %lld of %lld", (long long)w->flushed, (long long)w->end);
}

static void retain(struct engine_world *w)
{
    struct eng_retained retained;
    if (w->flushed > w->start && ot_rng_chance(&w->world->rng, 0.3)) eng_log_set_start(w->log, w->start + (int64_t)ot_rng_below(&w->world->rng, (uint64_t)(w->flushed - w->start) + 1));
    write_checkpoints(w);
    ot_ignore(eng_log_retain(w->log, w->flushed, sim_sched_wall_ms(w->world->sched), &retained), "the power may be off");
    w->start = eng_log_start_offset(w->log);
    SIM_CHECK(w->world, w->start <= w->end, "retention past the end");
}

static void engine_act(struct engine_world *w)
{
    uint64_t dice = ot_rng_below(&w->world->rng, 100);
    (void)sim_sched_skip(w->world->sched, 10000);
    sim_disk_set_wall(w->world->disk, sim_sched_wall_ms(w->world->sched));
    struct ot_blob none = { 0 };
    if (dice < 62) append(w);
    else if (dice < 74) flush(w);
    else if (dice < 84) cut(w);
    else if (dice < 86) start_anew(w);
    else if (dice < 90) ot_ignore(eng_log_roll(w->log, &none, sim_sched_wall_ms(w->world->sched)), "the power may be off");
    else if (dice < 94) retain(w);
    else write_checkpoints(w);
    sim_note(w->world, 12, dice, (uint64_t)w->end);
    sim_note(w->world, 13, (uint64_t)w->start, (uint64_t)w->flushed);
}

void sim_engine_run(struct sim_world *world)
{
    struct engine_world *w = calloc(1, sizeof(*w));
    OT_ASSERT(w != NULL);
    w->world = world;
    SIM_CHECK(world, open_log(w, false), "an empty log does not open");
    take_over(w);
    w->faults = (struct sim_faults){ .short_write = ot_rng_chance(&world->rng, 0.5) ? 0.1 : 0, .short_read = ot_rng_chance(&world->rng, 0.5) ? 0.1 : 0 };
    sim_disk_faults(world->disk, &w->faults);
    if (world->seed / 5 % 3 == 0) start_anew(w);       /* a new follower of an old leader */
    uint32_t rounds = 3 + (uint32_t)ot_rng_below(&world->rng, 8);
    for (uint32_t round = 0; round < rounds; round++) {
        int how = (int)ot_rng_below(&world->rng, 3);
        uint64_t acts = 5 + ot_rng_below(&world->rng, 60);
        if (how != 0 && ot_rng_chance(&world->rng, 0.8)) sim_disk_power_off_after(world->disk, ot_rng_below(&world->rng, 300));
        for (uint64_t i = 0; i < acts && !sim_disk_is_off(world->disk); i++) engine_act(w);
        sim_note(world, 11, (uint64_t)how, (uint64_t)w->end);
        reopen(w, how);
    }
    reopen(w, 0);
    close_log(w);
    free(w);
}
