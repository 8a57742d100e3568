/* Producer state to and from Kafka's snapshot format; the bytes are in engine/snapshots.h. */
#include "engine/producers_inner.h"
#include "engine/snapshots.h"
#include "base/util.h"
#include <stdlib.h>

OT_STATIC_ASSERT(ENG_SNAPSHOT_OLDER_MAX == ENG_PRODUCER_BATCHES - 1, "the last batch is in the entry, the others behind it");

static uint32_t known_count(const struct eng_producers *producers, uint32_t *older_out)
{
    uint32_t count = 0;
    *older_out = 0;
    for (const struct eng_producer *at = producers->table.idle_first; at != NULL; at = at->idle_next) {
        if (!at->committed.known) continue;
        count++;
        if (at->committed.batch_count > 1) *older_out += at->committed.batch_count - 1u;
    }
    return count;
}

size_t eng_producers_snapshot_bytes(const struct eng_producers *producers)
{
    uint32_t older;
    size_t count = known_count(producers, &older);
    if (count == 0) return ENG_SNAPSHOT_HEAD_BYTES;
    return ENG_SNAPSHOT_HEAD_BYTES + count * ENG_SNAPSHOT_ENTRY_BYTES + 4 + count * 9 + older * (size_t)ENG_SNAPSHOT_OLDER_BYTES;
}

static void entry_write(const struct eng_producer *producer, struct ot_writer *out)
{
    const struct eng_producer_state *state = &producer->committed;
    const struct eng_producer_batch none = { .last_offset = -1, .last_sequence = -1 };
    const struct eng_producer_batch *last = state->batch_count == 0 ? &none : &state->batches[state->batch_count - 1];
    eng_snapshot_write_entry(out, &(struct eng_snapshot_entry){ .producer_id = producer->producer_id, .epoch = state->epoch,
        .last_sequence = last->last_sequence, .last_offset = last->last_offset, .offset_delta = last->offset_delta,
        .timestamp_ms = state->last_timestamp_ms, .coordinator_epoch = state->coordinator_epoch, .txn_first_offset = state->txn_first_offset });
}

static void item_write(const struct eng_producer *producer, struct ot_writer *out)
{
    const struct eng_producer_state *state = &producer->committed;
    struct eng_snapshot_item item = { .touched_ms = producer->touched_ms, .older_count = state->batch_count == 0 ? 0 : state->batch_count - 1u };
    for (uint32_t i = 0; i < item.older_count; i++) {
        const struct eng_producer_batch *batch = &state->batches[i];
        item.older[i] = (struct eng_snapshot_older){ batch->last_offset, batch->timestamp_ms, batch->last_sequence, batch->offset_delta };
    }
    eng_snapshot_write_item(out, &item);
}

enum ot_err eng_producers_snapshot(const struct eng_producers *producers, struct ot_writer *out)
{
    uint32_t older, count = known_count(producers, &older);
    size_t bytes = eng_producers_snapshot_bytes(producers);
    if (out->err != OT_OK || (size_t)(out->end - out->at) < bytes) return OT_ERR_TOO_LARGE;
    uint8_t *start = out->at;
    eng_snapshot_write_head(out, 0, count);
    for (const struct eng_producer *at = producers->table.idle_first; at != NULL; at = at->idle_next) {
        if (at->committed.known) entry_write(at, out);
    }
    if (count > 0) eng_snapshot_write_section(out);
    for (const struct eng_producer *at = producers->table.idle_first; at != NULL; at = at->idle_next) {
        if (at->committed.known) item_write(at, out);
    }
    OT_ASSERT((size_t)(out->at - start) == bytes);
    ot_store_u32(start + 2, ot_crc32c(0, start + 6, bytes - 6));
    return OT_OK;
}

/* ---- load ---- */

/* Sound by its checksum, and still outside input: whoever wrote it may have had other ideas. */
static bool entry_sane(const struct eng_snapshot_entry *entry)
{
    return entry->producer_id >= 0 && entry->epoch >= -1 && entry->last_sequence >= -1 && entry->offset_delta >= 0
        && (entry->last_offset < 0 || entry->last_offset >= entry->offset_delta);
}

static bool older_sane(const struct eng_snapshot_item *item)
{
    for (uint32_t i = 0; i < item->older_count; i++) {
        const struct eng_snapshot_older *older = &item->older[i];
        if (older->last_sequence < -1 || older->offset_delta < 0 || older->last_offset < older->offset_delta) return false;
    }
    return true;
}

static void state_remember(struct eng_producer_state *state, int64_t last_offset, int64_t timestamp_ms, int32_t last_sequence, int32_t offset_delta)
{
    state->batches[state->batch_count++] = (struct eng_producer_batch){ last_offset, timestamp_ms, last_sequence, offset_delta };
}

static void producer_fill(struct eng_producer *producer, const struct eng_snapshot_entry *entry, const struct eng_snapshot_item *item)
{
    struct eng_producer_state *state = &producer->committed;
    *state = eng_producer_state_none();
    state->known = true;
    state->epoch = entry->epoch;
    state->coordinator_epoch = entry->coordinator_epoch;
    state->last_timestamp_ms = entry->timestamp_ms;
    state->txn_first_offset = entry->txn_first_offset < 0 ? -1 : entry->txn_first_offset;
    for (uint32_t i = 0; entry->last_offset >= 0 && i < item->older_count; i++) {
        const struct eng_snapshot_older *older = &item->older[i];
        state_remember(state, older->last_offset, older->timestamp_ms, older->last_sequence, older->offset_delta);
    }
    if (entry->last_offset >= 0) state_remember(state, entry->last_offset, entry->timestamp_ms, entry->last_sequence, entry->offset_delta);
    producer->touched_ms = item->touched_ms >= 0 ? item->touched_ms : entry->timestamp_ms;
    producer->ahead = *state;
}

static int compare_txns(const void *left, const void *right)
{
    const struct eng_producer *const *a = left, *const *b = right;
    int64_t x = (*a)->committed.txn_first_offset, y = (*b)->committed.txn_first_offset;
    return (x > y) - (x < y);
}

static bool producer_open(const struct eng_producer *producer)
{
    return producer->committed.txn_first_offset >= 0 && producer->txn_prev == NULL && producer->txn_next == NULL;
}

/* Sorted first, so that linking stays linear however many there are. */
static enum ot_err link_open(struct eng_producers *producers)
{
    uint32_t count = 0, at_index = 0;
    for (const struct eng_producer *at = producers->table.idle_first; at != NULL; at = at->idle_next) count += producer_open(at) ? 1 : 0;
    if (count == 0) return OT_OK;
    struct eng_producer **open = calloc(count, sizeof(struct eng_producer *));
    if (open == NULL) return OT_ERR_NO_MEMORY;
    for (struct eng_producer *at = producers->table.idle_first; at != NULL; at = at->idle_next) {
        if (producer_open(at)) open[at_index++] = at;
    }
    qsort(open, count, sizeof(struct eng_producer *), compare_txns);
    for (uint32_t i = 0; i < count; i++) eng_producer_table_txn_link(&producers->table, open[i]);
    free(open);
    return OT_OK;
}

/* Entries come longest idle first. Those that do not fit are the first ones without an open transaction. */
static enum ot_err load_entries(struct eng_producers *producers, struct eng_snapshot *snapshot, int64_t wall_ms)
{
    for (uint32_t i = 0; i < snapshot->entry_count; i++) {
        struct eng_snapshot_entry entry;
        struct eng_snapshot_item item;
        eng_snapshot_next_entry(snapshot, &entry);
        (void)eng_snapshot_next_item(snapshot, &item);
        if (!entry_sane(&entry) || !older_sane(&item)) return OT_ERR_CORRUPT;
        int64_t touched_ms = item.touched_ms >= 0 ? item.touched_ms : entry.timestamp_ms;
        if (entry.txn_first_offset < 0 && touched_ms <= wall_ms - producers->expiry_ms) continue;
        struct eng_producer *producer = eng_producers_entry(producers, entry.producer_id);
        if (producer == NULL) return OT_ERR_NO_MEMORY;
        if (producer->committed.known) return OT_ERR_CORRUPT;      /* twice the same id */
        producer_fill(producer, &entry, &item);
    }
    return link_open(producers);
}

enum ot_err eng_producers_load(struct eng_producers *producers, const void *data, size_t bytes, int64_t wall_ms)
{
    struct eng_snapshot snapshot;
    eng_producers_reset(producers);
    if (eng_snapshot_parse(data, bytes, &snapshot) != OT_OK) return OT_ERR_CORRUPT;
    enum ot_err err = load_entries(producers, &snapshot, wall_ms);
    if (err != OT_OK) eng_producers_reset(producers);
    return err;
}
