/* Clients of the simulated broker: they remember what they were told. */
#include "world.h"
#include "engine/batch_build.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct produce {
    struct broker_produce produce;
    struct broker_produce_part part;
    struct sim_world *world;
    uint32_t id;
};

static enum eng_codec codec_of(uint32_t id) { return (enum eng_codec)(id % 7 < ENG_CODEC_COUNT ? id % 7 : 0); }

/* The same id always gives the same bytes. */
static struct ot_buf *build(struct sim_world *world, uint32_t id, const struct sim_batch *batch)
{
    struct eng_sink sink;
    struct eng_encode *encode = NULL;
    struct eng_batch_builder builder;
    struct eng_batch_fields fields = eng_batch_fields_default();
    fields.codec = codec_of(id);
    if (batch->producer >= 0) {
        fields.producer_id = 1000 + batch->producer;
        fields.producer_epoch = 0;
        fields.base_sequence = batch->sequence;
    }
    OT_ASSERT(eng_encode_new(&encode) == OT_OK);
    eng_sink_pool(&sink, world->requests, 1u << 20);
    OT_ASSERT(eng_batch_build_begin(&builder, &fields, encode, &sink) == OT_OK);
    for (int32_t i = 0; i < batch->record_count; i++) {
        char key[24], value[600];
        int key_bytes = snprintf(key, sizeof(key), "%u/%d", id, i);
        size_t value_bytes = (id * 37u + (uint32_t)i * 11u) % sizeof(value);
        memset(value, 'a' + (int)(id % 26), value_bytes);
        int64_t timestamp = 1750000000000 + (int64_t)(ot_hash64(&id, sizeof(id), 5) % 4000) + (id % 97 == 0 ? 3000000 : 0);
        OT_ASSERT(eng_batch_build_next(&builder, timestamp, (struct ot_blob){ (uint8_t *)key, (uint32_t)key_bytes, false },
            (struct ot_blob){ (uint8_t *)value, (uint32_t)value_bytes, false }, NULL, 0) == OT_OK);
    }
    OT_ASSERT(eng_batch_build_finish(&builder) == OT_OK);
    eng_encode_free(encode);
    return eng_sink_take(&sink);
}

static void promise(struct sim_world *world, const struct sim_batch *batch)
{
    struct sim_partition *partition = &world->partitions[batch->partition];
    int64_t end = batch->offset + batch->record_count;
    partition->process_end = OT_MAX(partition->process_end, end);
    bool on_disk = strcmp(world->durability, "replicated") != 0;       /* one replica: auto is fsync */
    if (batch->acks == -1 && on_disk) partition->machine_end = OT_MAX(partition->machine_end, end);
}

static void produced(struct broker_call *call)
{
    struct produce *ask = OT_CONTAINER(call, struct produce, produce.call);
    struct sim_world *world = ask->world;
    struct sim_batch *batch = &world->batches[ask->id - 1];
    bool off = sim_disk_is_off(world->disk);
    world->calls_open--;
    if (batch->producer >= 0) world->producers[batch->producer].open[batch->partition]--;
    sim_note(world, 2, ask->id, (uint64_t)(uint32_t)ask->part.error);
    if (off || ask->part.error == OT_ERR_REQUEST_TIMED_OUT) {
        batch->fate = SIM_UNKNOWN;
    } else if (ask->part.error == OT_OK) {
        SIM_CHECK(world, batch->acks == 0 || ask->part.base_offset >= 0, "batch %u acknowledged without an offset", ask->id);
        SIM_CHECK(world, batch->at_offset < 0 || ask->part.base_offset == batch->at_offset || batch->acks == 0, "batch %u lies at %lld and was acknowledged at %lld", ask->id,
            (long long)batch->at_offset, (long long)ask->part.base_offset);
        batch->fate = batch->acks == 0 ? SIM_UNKNOWN : SIM_ACKED;
        batch->offset = ask->part.base_offset;
        if (batch->acks != 0) {
            world->totals.acked++;
            promise(world, batch);
        }
    } else {
        batch->fate = batch->producer >= 0 ? SIM_UNKNOWN : SIM_REFUSED;
        /* with acks=all a storage error may come after the append, while it waited for the disk */
        batch->certain_refusal = batch->producer < 0 && (batch->acks != -1 || ask->part.error == OT_ERR_NO_SPACE);
        world->totals.refused++;
        SIM_CHECK(world, ask->part.error != OT_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER || world->producers[batch->producer].stuck[batch->partition] > 0,
            "batch %u of producer %d, sequence %d: %s", ask->id, batch->producer, batch->sequence, ask->part.text);
        SIM_CHECK(world, ask->part.error == OT_ERR_NO_SPACE || ask->part.error == OT_ERR_KAFKA_STORAGE_ERROR || ask->part.error == OT_ERR_NOT_LEADER_OR_FOLLOWER
            || ask->part.error == OT_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER || ask->part.error == OT_ERR_LEADER_NOT_AVAILABLE || ask->part.error == OT_ERR_NO_MEMORY,
            "batch %u was refused: %s %s", ask->id, ot_err_name(ask->part.error), ask->part.text);
    }
    if (batch->fate == SIM_UNKNOWN && batch->producer >= 0) world->producers[batch->producer].stuck[batch->partition]++;
    ot_buf_unref(ask->produce.buf);
    free(ask);
}

static void queued(struct broker_produce *produce) { (void)produce; }

static void send(struct sim_world *world, uint32_t id)
{
    struct sim_batch *batch = &world->batches[id - 1];
    struct produce *ask = calloc(1, sizeof(*ask));
    OT_ASSERT(ask != NULL);
    ask->world = world;
    ask->id = id;
    ask->produce = (struct broker_produce){ .call = { .home = world->home, .done = produced }, .buf = build(world, id, batch), .acks = batch->acks,
        .timeout_ms = ot_rng_chance(&world->rng, 0.02) ? 1 : 30000, .api_version = 13, .origin = ENG_ORIGIN_CLIENT, .parts = &ask->part, .part_count = 1, .queued = queued };
    ask->part = (struct broker_produce_part){ .topic = ot_str_of("sim"), .partition = batch->partition, .records = ask->produce.buf->data, .records_bytes = ask->produce.buf->bytes };
    ask->produce.transactional_id.null = true;
    batch->fate = SIM_OPEN;
    world->calls_open++;
    if (batch->producer >= 0) world->producers[batch->producer].open[batch->partition]++;
    sim_note(world, 1, id, (uint64_t)batch->partition);
    (void)broker_produce(broker_of_core(world->core), &ask->produce);
}

void sim_client_produce(struct sim_world *world)
{
    if (world->batch_count == SIM_IDS_MAX) return;
    int partition = (int)ot_rng_below(&world->rng, SIM_PARTITIONS), producer = (int)ot_rng_below(&world->rng, SIM_PRODUCERS * 2) - SIM_PRODUCERS;
    uint32_t id = world->batch_count + 1;
    if (producer < 0) producer = -1;
    /* a compressed batch is checked on an I/O thread: a door would not send the next one of its connection before that; here one is open at a time then */
    if (producer >= 0 && (world->producers[producer].stuck[partition] > 0 || world->producers[producer].open[partition] > 0)) return;
    static const int16_t acks[] = { -1, -1, 1, 1, 0 };
    struct sim_batch *batch = &world->batches[world->batch_count++];
    *batch = (struct sim_batch){ .partition = partition, .producer = producer, .acks = acks[ot_rng_below(&world->rng, producer >= 0 ? 4 : 5)], .offset = -1, .at_offset = -1,
        .record_count = 1 + (int32_t)ot_rng_below(&world->rng, ot_rng_chance(&world->rng, 0.2) ? 20 : 3) };
    if (producer >= 0) {
        batch->sequence = world->producers[producer].next_sequence[partition];
        world->producers[producer].next_sequence[partition] += batch->record_count;
    }
    send(world, id);
}

void sim_client_retry(struct sim_world *world)
{
    for (uint32_t id = 1; id <= world->batch_count; id++) {
        struct sim_batch *batch = &world->batches[id - 1];
        if (batch->producer < 0 || batch->fate != SIM_UNKNOWN || world->producers[batch->producer].open[batch->partition] > 0) continue;
        world->producers[batch->producer].stuck[batch->partition]--;
        batch->retries++;
        send(world, id);
    }
}

/* ---- reading ---- */

struct fetch {
    struct broker_fetch fetch;
    struct broker_fetch_ask ask;
    struct ot_arena arena;
    struct sim_world *world;
    int partition;
};

static void fetched(struct broker_call *call)
{
    struct fetch *ask = OT_CONTAINER(call, struct fetch, fetch.call);
    struct sim_world *world = ask->world;
    struct sim_partition *partition = &world->partitions[ask->partition];
    world->calls_open--;
    if (!sim_disk_is_off(world->disk) && ask->fetch.error == OT_OK && ask->fetch.row_count == 1) {
        const struct broker_fetch_row *row = &ask->fetch.rows[0];
        sim_note(world, 3, (uint64_t)row->error + 1, (uint64_t)row->high_watermark);
        if (row->error == OT_OK) {
            SIM_CHECK(world, row->high_watermark >= ask->fetch.asks[0].offset || ask->fetch.bytes == 0, "records above the high watermark");
            /* what a consumer may have seen must not vanish */
            partition->process_end = OT_MAX(partition->process_end, row->high_watermark);
            if (strcmp(world->durability, "replicated") != 0) partition->machine_end = OT_MAX(partition->machine_end, row->high_watermark);
            if (row->read.bytes > 0) partition->consumer_offset = ask->ask.offset + 1;
        } else if (row->error == OT_ERR_OFFSET_OUT_OF_RANGE) {
            partition->consumer_offset = partition->start_promised;
        }
    }
    broker_fetch_release(&ask->fetch);
    ot_arena_free(&ask->arena);
    free(ask);
}

void sim_client_fetch(struct sim_world *world)
{
    struct fetch *ask = calloc(1, sizeof(*ask));
    OT_ASSERT(ask != NULL);
    ask->world = world;
    ask->partition = (int)ot_rng_below(&world->rng, SIM_PARTITIONS);
    ot_arena_init(&ask->arena, 1u << 20);
    ask->ask = (struct broker_fetch_ask){ .topic = ot_str_of("sim"), .partition = ask->partition, .offset = world->partitions[ask->partition].consumer_offset, .log_start_offset = -1,
        .leader_epoch = -1, .last_epoch = -1, .max_bytes = 1 + (int32_t)ot_rng_below(&world->rng, 5000) };
    ask->fetch = (struct broker_fetch){ .call = { .home = world->home, .done = fetched }, .api_version = 12, .replica_id = -1, .max_wait_ms = (int32_t)ot_rng_below(&world->rng, 500),
        .min_bytes = 1 + (int32_t)ot_rng_below(&world->rng, 200), .max_bytes = 10000, .session_id = 0, .session_epoch = -1, .asks = &ask->ask, .ask_count = 1, .arena = &ask->arena };
    world->calls_open++;
    broker_fetch(broker_of_core(world->core), &ask->fetch);
}

struct offsets { struct broker_offsets offsets; struct broker_offsets_part part; struct sim_world *world; };

static void deleted(struct broker_call *call)
{
    struct offsets *ask = OT_CONTAINER(call, struct offsets, offsets.call);
    struct sim_world *world = ask->world;
    struct sim_partition *partition = &world->partitions[ask->part.partition];
    world->calls_open--;
    sim_note(world, 4, (uint64_t)ask->part.error + 1, (uint64_t)ask->part.offset);
    if (!sim_disk_is_off(world->disk) && ask->part.error == OT_OK && !world->faults_on)
        partition->start_promised = OT_MAX(partition->start_promised, ask->part.offset);
    free(ask);
}

void sim_client_delete_records(struct sim_world *world)
{
    struct offsets *ask = calloc(1, sizeof(*ask));
    OT_ASSERT(ask != NULL);
    ask->world = world;
    int partition = (int)ot_rng_below(&world->rng, SIM_PARTITIONS);
    ask->part = (struct broker_offsets_part){ .topic = ot_str_of("sim"), .partition = partition, .current_leader_epoch = -1,
        .at = world->partitions[partition].start_promised + (int64_t)ot_rng_below(&world->rng, 30) };
    ask->offsets = (struct broker_offsets){ .call = { .home = world->home, .done = deleted }, .kind = BROKER_DELETE_RECORDS, .parts = &ask->part, .part_count = 1 };
    world->calls_open++;
    broker_offsets(broker_of_core(world->core), &ask->offsets);
}
