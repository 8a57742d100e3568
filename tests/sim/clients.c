/* Clients of the simulated broker: they remember what they were told. */
#include "world.h"
#include "engine/batch_build.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct produce {
    struct broker_produce produce;
    struct broker_produce_part parts[SIM_PARTITIONS];
    uint32_t ids[SIM_PARTITIONS];
    struct sim_world *world;
};

static enum eng_codec codec_of(uint32_t id) { return (enum eng_codec)(id % 7 < ENG_CODEC_COUNT ? id % 7 : 0); }

/* The same id always gives the same bytes. */
static void build(struct eng_sink *sink, uint32_t id, const struct sim_batch *batch)
{
    struct eng_encode *encode = NULL;
    struct eng_batch_builder builder;
    struct eng_batch_fields fields = eng_batch_fields_default();
    fields.codec = codec_of(id);
    if (batch->producer >= 0) {
        fields.producer_id = 1000 + batch->producer;
        fields.producer_epoch = 0;
        fields.base_sequence = batch->sequence;
        fields.transactional = batch->producer >= SIM_TXN_FIRST;
    }
    OT_ASSERT(eng_encode_new(&encode) == OT_OK);
    OT_ASSERT(eng_batch_build_begin(&builder, &fields, encode, sink) == OT_OK);
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
}

static void promise(struct sim_world *world, const struct sim_batch *batch)
{
    struct sim_partition *partition = &world->partitions[batch->partition];
    int64_t end = batch->offset + batch->record_count;
    partition->process_end = OT_MAX(partition->process_end, end);
    if (batch->acks == -1 && sim_class_syncs(world->durability) && end > partition->class_floor) partition->machine_end = OT_MAX(partition->machine_end, end);
}

static void accepted(struct sim_world *world, uint32_t id, struct sim_batch *batch, const struct broker_produce_part *part)
{
    SIM_CHECK(world, batch->acks == 0 || part->base_offset >= 0, "batch %u acknowledged without an offset", id);
    SIM_CHECK(world, batch->at_offset < 0 || part->base_offset == batch->at_offset || batch->acks == 0, "batch %u lies at %lld and was acknowledged at %lld", id,
        (long long)batch->at_offset, (long long)part->base_offset);
    batch->fate = batch->acks == 0 ? SIM_UNKNOWN : SIM_ACKED;
    batch->offset = part->base_offset;
    if (batch->acks != 0) {
        world->totals.acked++;
        promise(world, batch);
    }
}

static void refused(struct sim_world *world, uint32_t id, struct sim_batch *batch, const struct broker_produce_part *part)
{
    batch->fate = batch->producer >= 0 ? SIM_UNKNOWN : SIM_REFUSED;
    /* with acks=all a storage error may come after the append, while it waited for the disk */
    batch->certain_refusal = batch->producer < 0 && (batch->acks != -1 || part->error == OT_ERR_NO_SPACE);
    world->totals.refused++;
    int dir = part->error == OT_ERR_KAFKA_STORAGE_ERROR ? sim_world_dir_of(world, batch->partition) : -1;
    SIM_CHECK(world, dir < 0 || dir == world->broken_dir || world->faults_on || world->flipping, "batch %u: partition %d is refused, and its directory is whole: %s", id, batch->partition,
        part->text);
    SIM_CHECK(world, part->error != OT_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER || world->producers[batch->producer].stuck[batch->partition] > 0,
        "batch %u of producer %d, sequence %d: %s", id, batch->producer, batch->sequence, part->text);
    SIM_CHECK(world, part->error == OT_ERR_NO_SPACE || part->error == OT_ERR_KAFKA_STORAGE_ERROR || part->error == OT_ERR_NOT_LEADER_OR_FOLLOWER
        || part->error == OT_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER || part->error == OT_ERR_LEADER_NOT_AVAILABLE || part->error == OT_ERR_NO_MEMORY,
        "batch %u was refused: %s %s", id, ot_err_name(part->error), part->text);
}

static void settle(struct sim_world *world, uint32_t id, const struct broker_produce_part *part, bool off)
{
    struct sim_batch *batch = &world->batches[id - 1];
    sim_note(world, 2, id, (uint64_t)(uint32_t)part->error);
    if (batch->generation != world->generation) return;        /* of a topic that is gone */
    if (batch->producer >= 0) world->producers[batch->producer].open[batch->partition]--;
    if (off || part->error == OT_ERR_REQUEST_TIMED_OUT) {
        batch->fate = SIM_UNKNOWN;
    } else if (part->error == OT_OK) {
        accepted(world, id, batch, part);
    } else {
        refused(world, id, batch, part);
    }
    if (batch->fate == SIM_UNKNOWN && batch->producer >= 0) world->producers[batch->producer].stuck[batch->partition]++;
}

static void produced(struct broker_call *call)
{
    struct produce *ask = OT_CONTAINER(call, struct produce, produce.call);
    bool off = sim_disk_is_off(ask->world->disk);
    ask->world->calls_open--;
    for (uint32_t i = 0; i < ask->produce.part_count; i++) settle(ask->world, ask->ids[i], &ask->parts[i], off);
    ot_buf_unref(ask->produce.buf);
    free(ask);
}

static void queued(struct broker_produce *produce) { (void)produce; }

static void send(struct sim_world *world, const uint32_t *ids, uint32_t count)
{
    struct produce *ask = calloc(1, sizeof(*ask));
    struct eng_sink sink;
    size_t starts[SIM_PARTITIONS + 1] = { 0 };
    OT_ASSERT(ask != NULL && count <= SIM_PARTITIONS);
    ask->world = world;
    eng_sink_pool(&sink, world->requests, 1u << 20);
    for (uint32_t i = 0; i < count; i++) {
        build(&sink, ids[i], &world->batches[ids[i] - 1]);
        starts[i + 1] = sink.bytes;
    }
    const struct sim_batch *first = &world->batches[ids[0] - 1];
    ask->produce = (struct broker_produce){ .call = { .home = world->home, .done = produced }, .buf = eng_sink_take(&sink), .acks = first->acks,
        .timeout_ms = ot_rng_chance(&world->rng, 0.02) ? 1 : 30000, .api_version = 13, .origin = ENG_ORIGIN_CLIENT, .parts = ask->parts, .part_count = count, .queued = queued };
    if (first->producer >= SIM_TXN_FIRST) ask->produce.transactional_id = ot_str_of("txn");
    else ask->produce.transactional_id.null = true;
    for (uint32_t i = 0; i < count; i++) {
        struct sim_batch *batch = &world->batches[ids[i] - 1];
        ask->ids[i] = ids[i];
        ask->parts[i] = (struct broker_produce_part){ .topic = ot_str_of("sim"), .partition = batch->partition, .records = ask->produce.buf->data + starts[i],
            .records_bytes = (uint32_t)(starts[i + 1] - starts[i]) };
        batch->fate = SIM_OPEN;
        if (batch->producer >= 0) world->producers[batch->producer].open[batch->partition]++;
        sim_note(world, 1, ids[i], (uint64_t)batch->partition);
    }
    world->calls_open++;
    (void)broker_produce(broker_of_core(world->core), &ask->produce);
}

/* a compressed batch is checked on an I/O thread: a door would not send the next one of its connection before that; here one is open at a time then */
static bool may_send(const struct sim_world *world, int producer, int partition)
{
    if (producer < 0) return true;
    const struct sim_producer *from = &world->producers[producer];
    return from->stuck[partition] == 0 && from->open[partition] == 0 && from->marker[partition] == SIM_MARKER_NONE;
}

static uint32_t batch_new(struct sim_world *world, int partition, int producer, int16_t acks)
{
    struct sim_batch *batch = &world->batches[world->batch_count++];
    *batch = (struct sim_batch){ .partition = partition, .producer = producer, .acks = acks, .offset = -1, .at_offset = -1, .generation = world->generation, .leader_epoch = -1,
        .record_count = 1 + (int32_t)ot_rng_below(&world->rng, ot_rng_chance(&world->rng, 0.2) ? 20 : 3) };
    if (producer >= 0) {
        batch->sequence = world->producers[producer].next_sequence[partition];
        world->producers[producer].next_sequence[partition] += batch->record_count;
        if (producer >= SIM_TXN_FIRST) world->producers[producer].txn_open[partition] = true;
    }
    return world->batch_count;
}

void sim_client_produce(struct sim_world *world)
{
    static const int16_t acks_of[] = { -1, -1, 1, 1, 0 };
    uint32_t ids[SIM_PARTITIONS], count = 0, parts = ot_rng_chance(&world->rng, 0.2) ? SIM_PARTITIONS : 1;
    int first = (int)ot_rng_below(&world->rng, SIM_PARTITIONS), producer = (int)ot_rng_below(&world->rng, SIM_PRODUCERS * 2) - SIM_PRODUCERS;
    if (world->batch_count + SIM_PARTITIONS > SIM_IDS_MAX) return;
    if (producer < 0) producer = -1;
    int16_t acks = acks_of[ot_rng_below(&world->rng, producer >= 0 ? 4 : 5)];
    for (uint32_t i = 0; i < parts; i++) {
        int partition = (first + (int)i) % SIM_PARTITIONS;
        if (may_send(world, producer, partition)) ids[count++] = batch_new(world, partition, producer, acks);
    }
    if (count > 0) send(world, ids, count);
}

bool sim_client_put(struct sim_world *world, int partition)
{
    uint32_t id = batch_new(world, partition, -1, -1);
    send(world, &id, 1);
    sim_world_drain(world);
    return world->batches[id - 1].fate == SIM_ACKED;
}

/* ---- transactions ---- */

struct marker { struct broker_produce produce; struct broker_produce_part part; struct sim_world *world; int producer, partition; uint32_t generation; };

static void marked(struct broker_call *call)
{
    struct marker *ask = OT_CONTAINER(call, struct marker, produce.call);
    struct sim_world *world = ask->world;
    struct sim_producer *producer = &world->producers[ask->producer];
    world->calls_open--;
    sim_note(world, 6, (uint64_t)ask->producer, (uint64_t)(uint32_t)ask->part.error);
    bool good = ask->part.error == OT_OK && !sim_disk_is_off(world->disk), old = ask->generation != world->generation;
    if (!old) producer->marker[ask->partition] = good ? SIM_MARKER_NONE : SIM_MARKER_UNKNOWN;
    if (old) {
        good = false;
    } else if (good) {
        producer->txn_open[ask->partition] = false;
        world->totals.transactions++;
        sim_promise_visible(world, ask->partition, ask->part.base_offset + 1);
    } else {
        SIM_CHECK(world, ask->part.error != OT_ERR_INVALID_TXN_STATE && ask->part.error != OT_ERR_INVALID_PRODUCER_EPOCH && ask->part.error != OT_ERR_INVALID_RECORD,
            "a marker was refused: %s %s", ot_err_name(ask->part.error), ask->part.text);
    }
    ot_buf_unref(ask->produce.buf);
    free(ask);
}

void sim_client_end_txn(struct sim_world *world)
{
    int p = SIM_TXN_FIRST + (int)ot_rng_below(&world->rng, SIM_PRODUCERS - SIM_TXN_FIRST), partition = (int)ot_rng_below(&world->rng, SIM_PARTITIONS);
    struct sim_producer *producer = &world->producers[p];
    if (!producer->txn_open[partition] || producer->open[partition] > 0 || producer->stuck[partition] > 0 || producer->marker[partition] == SIM_MARKER_OPEN) return;
    if (producer->marker[partition] == SIM_MARKER_NONE) producer->commit[partition] = ot_rng_chance(&world->rng, 0.5);
    struct marker *ask = calloc(1, sizeof(*ask));
    OT_ASSERT(ask != NULL);
    ask->world = world;
    ask->producer = p;
    ask->partition = partition;
    ask->generation = world->generation;
    struct ot_buf *buf = ot_buf_new(world->requests, ENG_MARKER_BYTES);
    OT_ASSERT(buf != NULL);
    size_t bytes = eng_batch_build_marker(buf->data, 1000 + p, 0, 0, 0, producer->commit[partition], sim_sched_wall_ms(world->sched));
    ask->part = (struct broker_produce_part){ .topic = ot_str_of("sim"), .partition = partition, .records = buf->data, .records_bytes = (uint32_t)bytes };
    ask->produce = (struct broker_produce){ .call = { .home = world->home, .done = marked }, .buf = buf, .acks = -1, .timeout_ms = 30000, .api_version = 13,
        .origin = ENG_ORIGIN_COORDINATOR, .transaction_version = 1, .parts = &ask->part, .part_count = 1, .queued = queued };
    ask->produce.transactional_id.null = true;
    producer->marker[partition] = SIM_MARKER_OPEN;
    world->calls_open++;
    (void)broker_produce(broker_of_core(world->core), &ask->produce);
}

/* ---- others ---- */

void sim_client_configure(struct sim_world *world)
{
    static const char *const classes[] = { "auto", "fsync", "replicated", "replicated+fsync" };
    static const int64_t ms[] = { -1, -1, 20000 }, sizes[] = { -1, -1, 60000 };
    struct broker_topic_config config;
    struct ot_uuid id = sim_topic_id(world);
    const char *durability = classes[ot_rng_below(&world->rng, OT_ARRAY_COUNT(classes))];
    for (int i = 0; i < SIM_PARTITIONS && !sim_class_syncs(world->durability); i++) {      /* a class that begins says nothing of what was acknowledged before */
        struct broker_partition *partition = broker_partition_find(broker_of_core(world->core), ot_str_of("sim"), i);
        if (partition != NULL) world->partitions[i].class_floor = atomic_load(&partition->high_watermark);
        broker_partition_put(partition);
    }
    world->durability = durability;
    world->retention_ms = ms[ot_rng_below(&world->rng, OT_ARRAY_COUNT(ms))];
    world->retention_bytes = sizes[ot_rng_below(&world->rng, OT_ARRAY_COUNT(sizes))];
    sim_topic_config(world, &config);
    broker_partition_configure(broker_of_core(world->core), &id, &config);
    sim_note(world, 7, (uint64_t)world->retention_ms, (uint64_t)world->retention_bytes);
}

void sim_client_recreate(struct sim_world *world)
{
    sim_note(world, 8, world->generation, 0);
    sim_world_new_topic(world);
}

void sim_client_retry(struct sim_world *world)
{
    for (uint32_t id = 1; id <= world->batch_count; id++) {
        struct sim_batch *batch = &world->batches[id - 1];
        if (batch->producer < 0 || batch->fate != SIM_UNKNOWN || world->producers[batch->producer].open[batch->partition] > 0) continue;
        world->producers[batch->producer].stuck[batch->partition]--;
        batch->retries++;
        send(world, &id, 1);
    }
}

struct offsets { struct broker_offsets offsets; struct broker_offsets_part part; struct sim_world *world; uint32_t generation; };

static void deleted(struct broker_call *call)
{
    struct offsets *ask = OT_CONTAINER(call, struct offsets, offsets.call);
    struct sim_world *world = ask->world;
    struct sim_partition *partition = &world->partitions[ask->part.partition];
    world->calls_open--;
    sim_note(world, 4, (uint64_t)ask->part.error + 1, (uint64_t)ask->part.offset);
    if (!sim_disk_is_off(world->disk) && ask->part.error == OT_OK && ask->generation == world->generation)
        partition->start_promised = OT_MAX(partition->start_promised, ask->part.offset);
    free(ask);
}

void sim_client_delete_records(struct sim_world *world)
{
    struct offsets *ask = calloc(1, sizeof(*ask));
    OT_ASSERT(ask != NULL);
    ask->world = world;
    ask->generation = world->generation;
    int partition = (int)ot_rng_below(&world->rng, SIM_PARTITIONS);
    ask->part = (struct broker_offsets_part){ .topic = ot_str_of("sim"), .partition = partition, .current_leader_epoch = -1,
        .at = world->partitions[partition].start_promised + (int64_t)ot_rng_below(&world->rng, 30) };
    ask->offsets = (struct broker_offsets){ .call = { .home = world->home, .done = deleted }, .kind = BROKER_DELETE_RECORDS, .parts = &ask->part, .part_count = 1 };
    world->calls_open++;
    broker_offsets(broker_of_core(world->core), &ask->offsets);
}
