/* The whole log against the model: offsets without gaps, each batch where its client was told, nothing twice, nothing lost below what was promised, indexes and
 * producer state equal to the log. */
#include "world.h"
#include "engine/record.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct scan_txn { int64_t producer_id, first, last; bool aborted; };
struct scan_time { int64_t offset, timestamp_ms; };
struct scan {
    struct sim_world *world;
    int index;
    int64_t next_offset;
    struct eng_decode *decode;
    struct { bool seen; int32_t last_sequence; int64_t txn_first; } producers[SIM_PRODUCERS];
    int crashed;
    struct scan_txn txns[4000]; uint32_t txn_count;
    struct scan_time times[20000]; uint32_t time_count;
};

/* What transactions the log itself tells of. */
static void note_txn(struct scan *scan, const uint8_t *data, const struct eng_batch_info *info)
{
    int p = (int)(info->producer_id - 1000);
    struct eng_marker marker;
    if (!info->transactional || p < SIM_TXN_FIRST || p >= SIM_PRODUCERS) return;
    if (!info->control) {
        if (scan->producers[p].txn_first < 0) scan->producers[p].txn_first = info->base_offset;
        return;
    }
    eng_batch_marker(data, info, &marker);
    SIM_CHECK(scan->world, marker.is_marker, "a control batch without marker at %lld", (long long)info->base_offset);
    if (scan->producers[p].txn_first >= 0) {
        OT_ASSERT(scan->txn_count < OT_ARRAY_COUNT(scan->txns));
        scan->txns[scan->txn_count++] = (struct scan_txn){ info->producer_id, scan->producers[p].txn_first, info->base_offset, !marker.commit };
    }
    scan->producers[p].txn_first = -1;
}

static void check_sequence(struct scan *scan, const struct sim_batch *batch)
{
    struct sim_world *world = scan->world;
    int32_t *last = &scan->producers[batch->producer].last_sequence;
    SIM_CHECK(world, !scan->producers[batch->producer].seen || batch->sequence == *last + 1, "producer %d: sequence %d follows %d in partition %d", batch->producer, batch->sequence,
        *last, scan->index);
    scan->producers[batch->producer].seen = true;
    *last = batch->sequence + batch->record_count - 1;
}

static void note_times(struct scan *scan, const uint8_t *data, const struct eng_batch_info *info)
{
    struct eng_record_iter iter;
    struct eng_record record;
    if (eng_record_open(&iter, scan->decode, data, (size_t)info->batch_bytes, 0) != OT_OK) return;
    while (eng_record_skim(&iter, &record) == OT_OK && scan->time_count < OT_ARRAY_COUNT(scan->times))
        scan->times[scan->time_count++] = (struct scan_time){ record.offset, record.timestamp };
}

static void check_batch(struct scan *scan, const uint8_t *data, const struct eng_batch_info *info)
{
    struct sim_world *world = scan->world;
    SIM_CHECK(world, info->base_offset == scan->next_offset || scan->next_offset < 0, "partition %d: offset %lld follows %lld", scan->index, (long long)info->base_offset,
        (long long)scan->next_offset);
    scan->next_offset = eng_batch_last_offset(info) + 1;
    uint32_t id = sim_content_check(world, scan->decode, scan->index, data, info);
    note_txn(scan, data, info);
    note_times(scan, data, info);
    if (id == 0) return;
    struct sim_batch *batch = &world->batches[id - 1];
    SIM_CHECK(world, batch->at_offset < 0 || batch->at_offset == info->base_offset || scan->crashed == 2, "batch %u lay at %lld and lies at %lld", id, (long long)batch->at_offset,
        (long long)info->base_offset);
    SIM_CHECK(world, !(batch->certain_refusal && scan->crashed < 2), "batch %u was refused and is there", id);
    if (batch->producer >= 0) check_sequence(scan, batch);
    batch->at_offset = info->base_offset;
}

static void read_all(struct scan *scan, struct eng_log *log, int64_t end)
{
    struct sim_world *world = scan->world;
    int64_t offset = eng_log_start_offset(log);
    uint8_t *data = malloc(1u << 20);
    OT_ASSERT(data != NULL);
    while (offset < end) {
        struct eng_read how = { .offset = offset, .limit_offset = end, .max_bytes = 1u << 19, .min_one = true, .may_block = true };
        struct eng_read_result result = { 0 };
        enum ot_err err = eng_log_read(log, &how, &result);
        SIM_CHECK(world, err == OT_OK && result.bytes > 0, "partition %d cannot be read at %lld of [%lld, %lld): %s", scan->index, (long long)offset,
            (long long)eng_log_start_offset(log), (long long)end, ot_err_name(err));
        size_t bytes = sim_content_read(world, &result, data, 1u << 20);
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

/* Aborted transactions as the index tells them, and how far open ones hold back readers. */
static void check_transactions(struct scan *scan, struct broker_partition *partition)
{
    struct sim_world *world = scan->world;
    struct eng_aborted list[512];
    uint32_t count = 0, expected = 0;
    int64_t start = eng_log_start_offset(partition->log), high_watermark = atomic_load(&partition->high_watermark), stable = high_watermark;
    SIM_CHECK(world, eng_log_aborted(partition->log, start, scan->next_offset, list, OT_ARRAY_COUNT(list), &count) == OT_OK, "partition %d: no aborted transactions", scan->index);
    for (uint32_t i = 0; i < scan->txn_count; i++) {
        const struct scan_txn *txn = &scan->txns[i];
        if (txn->last >= high_watermark) stable = OT_MIN(stable, txn->first);
        if (!txn->aborted || txn->last < start) continue;
        bool found = false;
        expected++;
        for (uint32_t k = 0; k < OT_MIN(count, OT_ARRAY_COUNT(list)) && !found; k++) found = list[k].producer_id == txn->producer_id && (list[k].first_offset == txn->first || list[k].first_offset < start);
        SIM_CHECK(world, found || expected > OT_ARRAY_COUNT(list), "partition %d: the aborted transaction of %lld at [%lld, %lld] is not in the index", scan->index,
            (long long)txn->producer_id, (long long)txn->first, (long long)txn->last);
    }
    for (uint32_t k = 1; k < OT_MIN(count, OT_ARRAY_COUNT(list)); k++)
        SIM_CHECK(world, list[k - 1].first_offset <= list[k].first_offset, "partition %d: aborted transactions are not sorted", scan->index);
    for (uint32_t k = 0; k < OT_MIN(count, OT_ARRAY_COUNT(list)); k++) {
        bool known = list[k].first_offset < start;
        for (uint32_t i = 0; i < scan->txn_count && !known; i++)
            known = scan->txns[i].aborted && scan->txns[i].producer_id == list[k].producer_id && scan->txns[i].first == list[k].first_offset;
        SIM_CHECK(world, known, "partition %d: the index tells of an aborted transaction of %lld at %lld that is not in the log", scan->index, (long long)list[k].producer_id,
            (long long)list[k].first_offset);
    }
    for (int p = SIM_TXN_FIRST; p < SIM_PRODUCERS; p++) {
        bool open = scan->producers[p].txn_first >= 0;
        if (open) stable = OT_MIN(stable, scan->producers[p].txn_first);
        if (world->producers[p].marker[scan->index] != SIM_MARKER_OPEN && world->producers[p].open[scan->index] == 0) {
            if (world->producers[p].stuck[scan->index] == 0) world->producers[p].txn_open[scan->index] = open;
            world->producers[p].marker[scan->index] = SIM_MARKER_NONE;
        }
    }
    int64_t told = atomic_load(&partition->last_stable_offset);
    bool begun_before = told == start && eng_producers_first_unstable(eng_log_producers(partition->log)) < start;     /* its first records are deleted already */
    SIM_CHECK(world, told == stable || begun_before, "partition %d: last stable offset %lld, by the log %lld", scan->index, (long long)told, (long long)stable);
}

struct ask_time { struct broker_offsets offsets; struct broker_offsets_part part; bool done; };
static void time_told(struct broker_call *call) { OT_CONTAINER(call, struct ask_time, offsets.call)->done = true; }

static void check_time(struct scan *scan, int64_t at_ms, int64_t from, int64_t limit)
{
    struct sim_world *world = scan->world;
    struct ask_time ask = { .part = { .topic = ot_str_of("sim"), .partition = scan->index, .current_leader_epoch = -1, .at = at_ms } };
    int64_t expected = -1;
    ask.offsets = (struct broker_offsets){ .call = { .home = world->home, .done = time_told }, .kind = BROKER_LIST_OFFSETS, .parts = &ask.part, .part_count = 1 };
    for (uint32_t i = 0; i < scan->time_count && expected < 0; i++)
        if (scan->times[i].offset >= from && scan->times[i].offset < limit && scan->times[i].timestamp_ms >= at_ms) expected = scan->times[i].offset;
    broker_offsets(broker_of_core(world->core), &ask.offsets);
    sim_world_drain(world);
    SIM_CHECK(world, ask.done && ask.part.error == OT_OK && ask.part.offset == expected, "partition %d: the first record at %lld is %lld, told %lld (%s)", scan->index, (long long)at_ms,
        (long long)expected, (long long)ask.part.offset, ot_err_name(ask.part.error));
}

static void check_times(struct scan *scan, int64_t from, int64_t limit)
{
    int64_t largest = 0;
    for (uint32_t i = 0; i < scan->time_count; i++) largest = OT_MAX(largest, scan->times[i].timestamp_ms);
    check_time(scan, 0, from, limit);
    check_time(scan, largest, from, limit);
    check_time(scan, largest + 1, from, limit);
    for (uint32_t i = 0; i < 4 && scan->time_count > 0; i++) check_time(scan, scan->times[ot_rng_below(&scan->world->rng, scan->time_count)].timestamp_ms, from, limit);
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
    partition->class_floor = OT_MIN(partition->class_floor, log_end);
    partition->consumer_offset = OT_MIN(partition->consumer_offset, log_end);
    for (int r = 0; r < SIM_READERS; r++) world->readers[r].offsets[index] = OT_MIN(world->readers[r].offsets[index], log_end);
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
            if (batch->producer != p || batch->partition != scan->index || batch->generation != world->generation) continue;
            if (batch->fate == SIM_REFUSED && batch->sequence >= have) lost = true;
            if (batch->fate != SIM_UNKNOWN || !lost || batch->at_offset >= 0) continue;
            batch->fate = SIM_REFUSED;
            world->producers[p].stuck[scan->index]--;
        }
        if (lost) world->producers[p].next_sequence[scan->index] = have;
    }
}

static void verify_one(struct sim_world *world, struct broker_partition *partition, int index, int crashed)
{
    struct eng_decode_limits limits = { 0 };
    struct scan *scan = calloc(1, sizeof(*scan));
    struct eng_log *log = partition->log;
    int64_t log_start = eng_log_start_offset(log), log_end = eng_log_end_offset(log);
    OT_ASSERT(scan != NULL);
    *scan = (struct scan){ .world = world, .index = index, .next_offset = -1, .crashed = crashed };
    for (int p = 0; p < SIM_PRODUCERS; p++) scan->producers[p].txn_first = -1;
    OT_ASSERT(eng_decode_new(world->decoding, &limits, &scan->decode) == OT_OK);
    /* one that nobody was told of may come again when the machine lost it, even if it lay below the log start by then: what knew it went with it */
    for (uint32_t id = 1; crashed == 2 && id <= world->batch_count; id++) {
        struct sim_batch *batch = &world->batches[id - 1];
        if (batch->partition == index && (batch->at_offset >= log_start || batch->fate == SIM_UNKNOWN)) batch->at_offset = batch->leader_epoch = -1;
    }
    read_all(scan, log, log_end);
    int64_t high_watermark = atomic_load(&partition->high_watermark);
    SIM_CHECK(world, log_start <= high_watermark && high_watermark <= log_end, "partition %d: start %lld hw %lld end %lld", index, (long long)log_start, (long long)high_watermark,
        (long long)log_end);
    check_promises(scan, log_start, log_end);
    SIM_CHECK(world, eng_log_verify(log, fault, scan) == OT_OK, "verify of partition %d failed", index);
    check_producers(scan, log);
    check_transactions(scan, partition);
    if (world->calls_open == 0) check_times(scan, log_start, high_watermark);
    for (uint32_t id = 1; crashed == 2 && id <= world->batch_count; id++)      /* a machine may bring back what was cut and not synced */
        if (world->batches[id - 1].partition == index) world->batches[id - 1].certain_refusal = false;
    if (crashed == 2) {
        forget_lost(world, index, log_end);
        resync_producers(scan, log);
    }
    eng_decode_free(scan->decode);
    free(scan);
}

/* A flush that nobody waits for is put off for 50 ms, and looking at the high watermark makes it: what is compared here would move under us. */
static void let_flushes_come(struct sim_world *world)
{
    for (int64_t end_us = sim_sched_now_us(world->sched) + 60000; sim_sched_now_us(world->sched) < end_us;) {
        (void)sim_sched_skip(world->sched, end_us - sim_sched_now_us(world->sched));
        sim_world_drain(world);
    }
}

void sim_verify(struct sim_world *world, int crashed)
{
    let_flushes_come(world);
    for (int index = 0; index < SIM_PARTITIONS; index++) {
        struct broker_partition *partition = broker_partition_find(broker_of_core(world->core), ot_str_of("sim"), index);
        SIM_CHECK(world, partition != NULL, "partition %d is gone", index);
        int *owed = &world->partitions[index].crash_owed;
        *owed = OT_MAX(*owed, crashed);
        bool broken = world->broken_dir >= 0 && sim_world_dir_of(world, index) == world->broken_dir;       /* it may not have noticed */
        if (atomic_load(&partition->stage) == BROKER_PARTITION_OPEN && !broken) {
            verify_one(world, partition, index, *owed);
            *owed = 0;
        } else {
            SIM_CHECK(world, world->faults_on || world->broken_dir >= 0, "partition %d is not open", index);
        }
        broker_partition_put(partition);
    }
}
