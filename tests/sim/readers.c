/* Consumers: each sees every offset once, in order, never above what may be read, and nothing that later vanishes. */
#include "world.h"
#include <stdlib.h>
#include <string.h>

struct fetch {
    struct broker_fetch fetch;
    struct broker_fetch_ask asks[SIM_PARTITIONS];
    struct ot_arena arena;
    struct sim_world *world;
    struct sim_reader *reader;         /* NULL: without a session */
    uint32_t wait, generation;
};

void sim_promise_visible(struct sim_world *world, int index, int64_t high_watermark)
{
    struct sim_partition *partition = &world->partitions[index];
    partition->process_end = OT_MAX(partition->process_end, high_watermark);
    if (sim_class_syncs(world->durability) && high_watermark > partition->class_floor) partition->machine_end = OT_MAX(partition->machine_end, high_watermark);
}

/* Walks what was returned; answers the next offset to read. */
static int64_t walk(struct sim_world *world, const struct broker_fetch_row *row, int64_t offset, int64_t limit, uint8_t *data, size_t bytes)
{
    struct ot_reader cursor = ot_reader_over(data, bytes);
    struct eng_batch_piece piece;
    struct eng_decode_limits limits = { 0 };
    struct eng_decode *decode = NULL;
    OT_ASSERT(eng_decode_new(world->decoding, &limits, &decode) == OT_OK);
    while (eng_batch_split(&cursor, &piece) == OT_OK) {
        struct eng_batch_info info;
        SIM_CHECK(world, eng_batch_parse(piece.data, piece.bytes, &info) == OT_OK, "what was fetched is no batch");
        int64_t last = eng_batch_last_offset(&info);
        if (last < offset) continue;
        SIM_CHECK(world, info.base_offset <= offset, "partition %d: a reader at %lld got %lld", row->partition, (long long)offset, (long long)info.base_offset);
        SIM_CHECK(world, last < limit, "partition %d: a reader with limit %lld got %lld", row->partition, (long long)limit, (long long)last);
        uint32_t id = sim_content_check(world, decode, row->partition, piece.data, &info);
        if (id != 0) {
            struct sim_batch *batch = &world->batches[id - 1];
            SIM_CHECK(world, batch->at_offset < 0 || batch->at_offset == info.base_offset, "batch %u was seen at %lld and now at %lld", id, (long long)batch->at_offset,
                (long long)info.base_offset);
            SIM_CHECK(world, !batch->certain_refusal, "batch %u was refused and is read", id);
            batch->at_offset = info.base_offset;
        }
        world->totals.records_fetched += (uint64_t)(last + 1 - offset);
        offset = last + 1;
    }
    eng_decode_free(decode);
    return offset;
}

static void check_aborted(struct sim_world *world, const struct broker_fetch_row *row, bool committed)
{
    SIM_CHECK(world, committed || row->aborted_count <= 0, "aborted transactions for a reader that wants all");
    for (int32_t i = 1; i < row->aborted_count; i++)
        SIM_CHECK(world, row->aborted[i - 1].first_offset <= row->aborted[i].first_offset, "aborted transactions are not sorted");
}

static int64_t take_row(struct sim_world *world, const struct fetch *ask, const struct broker_fetch_row *row, int64_t offset)
{
    int64_t limit = ask->fetch.read_committed ? row->last_stable_offset : row->high_watermark;
    SIM_CHECK(world, row->last_stable_offset <= row->high_watermark && row->log_start_offset >= 0, "partition %d: stable %lld high watermark %lld start %lld", row->partition,
        (long long)row->last_stable_offset, (long long)row->high_watermark, (long long)row->log_start_offset);
    sim_promise_visible(world, row->partition, row->high_watermark);
    check_aborted(world, row, ask->fetch.read_committed);
    if (row->read.bytes == 0) return offset;
    uint8_t *data = malloc(row->read.bytes);
    OT_ASSERT(data != NULL);
    size_t bytes = sim_content_read(world, &row->read, data, row->read.bytes);
    int64_t next = walk(world, row, offset, limit, data, bytes);
    free(data);
    return next;
}

/* Outside the log: true only if it really is. The reader goes to the start. */
static int64_t reset(struct sim_world *world, int index, int64_t offset)
{
    struct broker_partition *partition = broker_partition_find(broker_of_core(world->core), ot_str_of("sim"), index);
    SIM_CHECK(world, partition != NULL && partition->log != NULL, "partition %d is gone", index);
    int64_t start = eng_log_start_offset(partition->log);
    SIM_CHECK(world, offset < start || offset > eng_log_end_offset(partition->log), "offset %lld is in [%lld, %lld] and was out of range", (long long)offset, (long long)start,
        (long long)eng_log_end_offset(partition->log));
    broker_partition_put(partition);
    return start;
}

static int64_t *position(struct fetch *ask, int index)
{
    return ask->reader != NULL ? &ask->reader->offsets[index] : &ask->world->partitions[index].consumer_offset;
}

static void fetched(struct broker_call *call)
{
    struct fetch *ask = OT_CONTAINER(call, struct fetch, fetch.call);
    struct sim_world *world = ask->world;
    bool off = sim_disk_is_off(world->disk);
    world->calls_open--;
    sim_wait_end(world, ask->wait);
    sim_note(world, 3, (uint64_t)ask->fetch.error, ask->fetch.row_count);
    if (ask->reader != NULL) {
        ask->reader->busy = false;
        if (ask->fetch.error == OT_OK && ask->fetch.session_id_out != 0) {
            SIM_CHECK(world, ask->reader->session_id == 0 || ask->reader->session_id == ask->fetch.session_id_out, "another session's id");
            ask->reader->session_id = ask->fetch.session_id_out;
            ask->reader->session_epoch++;
        } else {
            SIM_CHECK(world, ask->fetch.error != OT_ERR_INVALID_FETCH_SESSION_EPOCH, "the session counts its epochs otherwise");
            ask->reader->session_id = ask->reader->session_epoch = 0;
        }
    }
    bool old = ask->generation != world->generation;           /* what it was told of a topic that is gone is nobody's business */
    for (uint32_t i = 0; i < ask->fetch.row_count && !off && !old; i++) {
        const struct broker_fetch_row *row = &ask->fetch.rows[i];
        int64_t *at = position(ask, row->partition), before = ask->reader != NULL ? *at : ask->asks[0].offset, next = before;
        sim_note(world, 5, (uint64_t)row->error + 1, (uint64_t)row->high_watermark);
        if (row->error == OT_OK) next = take_row(world, ask, row, before);
        else if (row->error == OT_ERR_OFFSET_OUT_OF_RANGE) next = reset(world, row->partition, before);
        if (ask->reader != NULL && next != before) ask->reader->moved[row->partition] = true;
        if (*at == before) *at = next;
    }
    broker_fetch_release(&ask->fetch);
    ot_arena_free(&ask->arena);
    free(ask);
}

static struct fetch *fetch_new(struct sim_world *world, struct sim_reader *reader)
{
    struct fetch *ask = calloc(1, sizeof(*ask));
    OT_ASSERT(ask != NULL);
    ask->world = world;
    ask->reader = reader;
    ask->generation = world->generation;
    ot_arena_init(&ask->arena, 1u << 20);
    ask->fetch = (struct broker_fetch){ .call = { .home = world->home, .done = fetched }, .api_version = 12, .replica_id = -1, .max_wait_ms = (int32_t)ot_rng_below(&world->rng, 500),
        .min_bytes = 1 + (int32_t)ot_rng_below(&world->rng, 200), .max_bytes = 10000, .session_id = 0, .session_epoch = -1, .asks = ask->asks, .arena = &ask->arena };
    return ask;
}

static void add(struct fetch *ask, int partition, int64_t offset)
{
    ask->asks[ask->fetch.ask_count++] = (struct broker_fetch_ask){ .topic = ot_str_of("sim"), .partition = partition, .offset = offset, .log_start_offset = -1, .leader_epoch = -1,
        .last_epoch = -1, .max_bytes = 1 + (int32_t)ot_rng_below(&ask->world->rng, 5000) };
}

static void go(struct fetch *ask)
{
    struct sim_world *world = ask->world;
    world->calls_open++;
    ask->wait = sim_wait_begin(world, sim_sched_now_us(world->sched) + (int64_t)ask->fetch.max_wait_ms * 1000);
    broker_fetch(broker_of_core(world->core), &ask->fetch);
    if (ot_rng_chance(&world->rng, 0.05)) broker_fetch_cancel(&ask->fetch);        /* its connection closed */
}

void sim_client_fetch(struct sim_world *world)
{
    struct fetch *ask = fetch_new(world, NULL);
    int partition = (int)ot_rng_below(&world->rng, SIM_PARTITIONS);
    ask->fetch.read_committed = ot_rng_chance(&world->rng, 0.3);
    add(ask, partition, world->partitions[partition].consumer_offset);
    go(ask);
}

void sim_client_poll(struct sim_world *world)
{
    struct sim_reader *reader = &world->readers[ot_rng_below(&world->rng, SIM_READERS)];
    if (reader->busy) return;
    struct fetch *ask = fetch_new(world, reader);
    reader->busy = true;
    reader->committed = reader == &world->readers[0];
    ask->fetch.read_committed = reader->committed;
    ask->fetch.session_id = reader->session_id;
    ask->fetch.session_epoch = reader->session_epoch;
    for (int i = 0; i < SIM_PARTITIONS; i++) {
        if (reader->session_id == 0 || reader->moved[i]) add(ask, i, reader->offsets[i]);
        reader->moved[i] = false;
    }
    go(ask);
}
