/* The whole log against the model: offsets without gaps, each batch where its client was told, nothing twice, nothing lost below what was promised, indexes and
 * producer state equal to the log. */
#include "world.h"
#include "engine/record.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct scan {
    struct sim_world *world;
    int index;
    int64_t next_offset, first_offset;
    struct eng_decode *decode;
    struct { bool seen; int32_t last_sequence; } producers[SIM_PRODUCERS];
    int crashed;
};

static void check_batch(struct scan *scan, const uint8_t *data, const struct eng_batch_info *info)
{
    struct sim_world *world = scan->world;
    struct eng_record_iter iter;
    struct eng_record record;
    uint32_t id = 0, index = 0;
    SIM_CHECK(world, info->base_offset == scan->next_offset || scan->next_offset < 0, "partition %d: offset %lld follows %lld", scan->index, (long long)info->base_offset,
        (long long)scan->next_offset);
    SIM_CHECK(world, eng_batch_check_crc(data, info) == OT_OK, "partition %d: bad CRC at %lld", scan->index, (long long)info->base_offset);
    scan->next_offset = eng_batch_last_offset(info) + 1;
    SIM_CHECK(world, eng_record_open(&iter, scan->decode, data, (size_t)info->batch_bytes, 0) == OT_OK, "batch at %lld does not open", (long long)info->base_offset);
    while (eng_record_next(&iter, &record) == OT_OK) {
        char key[32];
        uint32_t this_id = 0, this_index = 0;
        snprintf(key, sizeof(key), "%.*s", (int)record.key.bytes, (const char *)record.key.data);
        SIM_CHECK(world, sscanf(key, "%u/%u", &this_id, &this_index) == 2 && this_index == index && (id == 0 || id == this_id), "strange key %s", key);
        id = this_id;
        index++;
        world->totals.records_read++;
    }
    SIM_CHECK(world, iter.err == OT_ERR_NOT_FOUND || iter.err == OT_OK, "batch at %lld: %s", (long long)info->base_offset, ot_err_name(iter.err));
    SIM_CHECK(world, id >= 1 && id <= world->batch_count, "batch at %lld has id %u", (long long)info->base_offset, id);
    struct sim_batch *batch = &world->batches[id - 1];
    SIM_CHECK(world, (int32_t)index == batch->record_count && batch->partition == scan->index, "batch %u has %u records in partition %d", id, index, scan->index);
    SIM_CHECK(world, batch->fate != SIM_ACKED || batch->offset == info->base_offset, "batch %u was acknowledged at %lld and lies at %lld", id, (long long)batch->offset,
        (long long)info->base_offset);
    SIM_CHECK(world, batch->at_offset < 0 || batch->at_offset == info->base_offset || scan->crashed == 2, "batch %u lay at %lld and lies at %lld", id, (long long)batch->at_offset,
        (long long)info->base_offset);
    SIM_CHECK(world, !(batch->certain_refusal && scan->crashed < 2), "batch %u was refused and is there", id);
    if (batch->producer >= 0) {
        int32_t *last = &scan->producers[batch->producer].last_sequence;
        SIM_CHECK(world, !scan->producers[batch->producer].seen || batch->sequence == *last + 1, "producer %d: sequence %d follows %d in partition %d", batch->producer, batch->sequence,
            *last, scan->index);
        scan->producers[batch->producer].seen = true;
        *last = batch->sequence + batch->record_count - 1;
    }
    batch->at_offset = info->base_offset;
}

static void read_all(struct scan *scan, struct eng_log *log, int64_t end)
{
    struct sim_world *world = scan->world;
    struct ot_io *io = sim_disk_io(world->disk);
    int64_t offset = eng_log_start_offset(log);
    uint8_t *data = malloc(1u << 20);
    OT_ASSERT(data != NULL);
    while (offset < end) {
        struct eng_read how = { .offset = offset, .limit_offset = end, .max_bytes = 1u << 19, .min_one = true, .may_block = true };
        struct eng_read_result result = { 0 };
        enum ot_err err = eng_log_read(log, &how, &result);
        SIM_CHECK(world, err == OT_OK && result.bytes > 0, "partition %d cannot be read at %lld of [%lld, %lld): %s", scan->index, (long long)offset,
            (long long)eng_log_start_offset(log), (long long)end, ot_err_name(err));
        size_t bytes = 0;
        for (uint32_t i = 0; i < result.span_count; i++) {
            SIM_CHECK(world, ot_io_read_exact(io, result.spans[i].fd, data + bytes, result.spans[i].bytes, result.spans[i].pos) == OT_OK, "a span is short");
            bytes += result.spans[i].bytes;
        }
        result.pin->release(result.pin);
        struct ot_reader cursor = ot_reader_over(data, bytes);
        struct eng_batch_piece piece;
        bool any = false;
        while (eng_batch_split(&cursor, &piece) == OT_OK) {
            struct eng_batch_info info;
            SIM_CHECK(world, eng_batch_parse(piece.data, piece.bytes, &info) == OT_OK, "what was read is no batch");
            if (eng_batch_last_offset(&info) < offset || info.base_offset >= end) continue;
            check_batch(scan, piece.data, &info);
            any = true;
        }
        SIM_CHECK(world, any, "no batch at %lld", (long long)offset);
        offset = scan->next_offset;
    }
    free(data);
}

static void fault(void *arg, const char *text)
{
    struct scan *scan = arg;
    SIM_CHECK(scan->world, text == NULL, "partition %d: %s", scan->index, text);
}

static void check_producers(struct scan *scan, struct eng_log *log)
{
    struct eng_producer_view views[64];
    struct sim_world *world = scan->world;
    uint32_t count = eng_producers_list(eng_log_producers(log), views, OT_ARRAY_COUNT(views));
    for (int p = 0; p < SIM_PRODUCERS; p++) {
        bool found = !scan->producers[p].seen;
        for (uint32_t i = 0; i < count && !found; i++) {
            if (views[i].producer_id != 1000 + p) continue;
            found = true;
            SIM_CHECK(world, views[i].last_sequence == scan->producers[p].last_sequence, "partition %d producer %d: state says sequence %d, the log %d", scan->index, p,
                views[i].last_sequence, scan->producers[p].last_sequence);
        }
        SIM_CHECK(world, found, "partition %d forgot producer %d", scan->index, p);
    }
}

static void check_promises(struct scan *scan, int64_t log_start, int64_t log_end)
{
    struct sim_world *world = scan->world;
    struct sim_partition *partition = &world->partitions[scan->index];
    int64_t promised = scan->crashed == 2 ? partition->machine_end : partition->process_end;
    SIM_CHECK(world, log_end >= promised, "partition %d ends at %lld, promised was %lld (crash kind %d)", scan->index, (long long)log_end, (long long)promised, scan->crashed);
    SIM_CHECK(world, log_start >= partition->start_promised, "partition %d starts at %lld, deleted was up to %lld", scan->index, (long long)log_start,
        (long long)partition->start_promised);
    for (uint32_t id = 1; id <= world->batch_count; id++) {
        struct sim_batch *batch = &world->batches[id - 1];
        if (batch->partition != scan->index || batch->fate != SIM_ACKED || batch->offset < log_start) continue;
        if (batch->offset + batch->record_count > promised) continue;
        SIM_CHECK(world, batch->at_offset == batch->offset, "batch %u was acknowledged at %lld and is lost", id, (long long)batch->offset);
    }
}

/* After a machine crash what was never promised may be gone; its clients' knowledge is void. */
static void forget_lost(struct sim_world *world, int index, int64_t log_end)
{
    struct sim_partition *partition = &world->partitions[index];
    for (uint32_t id = 1; id <= world->batch_count; id++) {
        struct sim_batch *batch = &world->batches[id - 1];
        if (batch->partition != index || batch->at_offset >= 0) continue;
        if (batch->fate == SIM_ACKED && batch->offset >= log_end) {
            batch->fate = SIM_REFUSED;         /* acks=1 or 0, lost with the machine: allowed, and counted nowhere else */
            batch->offset = -1;
        }
    }
    partition->process_end = OT_MIN(partition->process_end, log_end);
    partition->consumer_offset = OT_MIN(partition->consumer_offset, log_end);
}

/* A producer whose batches went down with a machine starts over behind what is left, as a client with fresh state would. */
static void resync_producers(struct scan *scan, struct eng_log *log)
{
    struct sim_world *world = scan->world;
    struct eng_producer_view views[64];
    uint32_t count = eng_producers_list(eng_log_producers(log), views, OT_ARRAY_COUNT(views));
    for (int p = 0; p < SIM_PRODUCERS; p++) {
        int32_t have = 0;
        bool lost = false;
        for (uint32_t i = 0; i < count; i++)
            if (views[i].producer_id == 1000 + p) have = views[i].last_sequence + 1;
        for (uint32_t id = 1; id <= world->batch_count; id++) {
            struct sim_batch *batch = &world->batches[id - 1];
            if (batch->producer != p || batch->partition != scan->index) continue;
            if (batch->fate == SIM_REFUSED && batch->sequence >= have) lost = true;
            if (batch->fate != SIM_UNKNOWN || !lost || batch->at_offset >= 0) continue;
            batch->fate = SIM_REFUSED;
            world->producers[p].stuck[scan->index]--;
        }
        if (lost) world->producers[p].next_sequence[scan->index] = have;
    }
}

void sim_verify(struct sim_world *world, int crashed)
{
    struct eng_decode_limits limits = { 0 };
    for (int index = 0; index < SIM_PARTITIONS; index++) {
        struct broker_partition *partition = broker_partition_find(broker_of_core(world->core), ot_str_of("sim"), index);
        SIM_CHECK(world, partition != NULL, "partition %d is gone", index);
        if (atomic_load(&partition->stage) == BROKER_PARTITION_OPEN) {
            struct scan scan = { .world = world, .index = index, .next_offset = -1, .crashed = crashed };
            struct eng_log *log = partition->log;
            int64_t log_start = eng_log_start_offset(log), log_end = eng_log_end_offset(log);
            OT_ASSERT(eng_decode_new(world->decoding, &limits, &scan.decode) == OT_OK);
            for (uint32_t id = 1; crashed == 2 && id <= world->batch_count; id++)
                if (world->batches[id - 1].partition == index && world->batches[id - 1].at_offset >= log_start) world->batches[id - 1].at_offset = -1;
            read_all(&scan, log, log_end);
            eng_decode_free(scan.decode);
            SIM_CHECK(world, log_start <= atomic_load(&partition->high_watermark) && atomic_load(&partition->high_watermark) <= log_end, "partition %d: start %lld hw %lld end %lld",
                index, (long long)log_start, (long long)atomic_load(&partition->high_watermark), (long long)log_end);
            check_promises(&scan, log_start, log_end);
            SIM_CHECK(world, eng_log_verify(log, fault, &scan) == OT_OK, "verify of partition %d failed", index);
            check_producers(&scan, log);
            for (uint32_t id = 1; crashed == 2 && id <= world->batch_count; id++)      /* a machine may bring back what was cut and not synced */
                if (world->batches[id - 1].partition == index) world->batches[id - 1].certain_refusal = false;
            if (crashed == 2) {
                forget_lost(world, index, log_end);
                resync_producers(&scan, log);
            }
        } else {
            SIM_CHECK(world, world->faults_on, "partition %d is not open", index);
        }
        broker_partition_put(partition);
    }
}
