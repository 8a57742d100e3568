#include "engine/producer_table.h"
#include <stdlib.h>

#define BUCKETS_FIRST 8u

struct eng_producer_state eng_producer_state_none(void)
{
    return (struct eng_producer_state){ .last_timestamp_ms = -1, .txn_first_offset = -1, .coordinator_epoch = -1, .epoch = -1 };
}

static uint32_t bucket_of(const struct eng_producer_table *table, int64_t producer_id)
{
    uint64_t x = (uint64_t)producer_id ^ table->seed;      /* finalizer of splitmix64: every bit of the id reaches every bit of the result */
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return (uint32_t)(x ^ (x >> 31)) & (table->bucket_count - 1);
}

void eng_producer_table_init(struct eng_producer_table *table, uint64_t seed)
{
    *table = (struct eng_producer_table){ .seed = seed };
}

void eng_producer_table_clear(struct eng_producer_table *table)
{
    struct eng_producer *next;
    for (struct eng_producer *at = table->idle_first; at != NULL; at = next) {
        next = at->idle_next;
        free(at);
    }
    free(table->buckets);
    eng_producer_table_init(table, table->seed);
}

struct eng_producer *eng_producer_table_find(const struct eng_producer_table *table, int64_t producer_id)
{
    if (table->bucket_count == 0) return NULL;
    struct eng_producer *at = table->buckets[bucket_of(table, producer_id)];
    while (at != NULL && at->producer_id != producer_id) at = at->bucket_next;
    return at;
}

static bool buckets_grow(struct eng_producer_table *table)
{
    uint32_t old_count = table->bucket_count;
    uint32_t count = old_count == 0 ? BUCKETS_FIRST : old_count * 2;
    struct eng_producer **buckets = calloc(count, sizeof *buckets);
    if (buckets == NULL) return old_count != 0;            /* longer chains are still right */
    free(table->buckets);
    table->buckets = buckets;
    table->bucket_count = count;
    for (struct eng_producer *at = table->idle_first; at != NULL; at = at->idle_next) {
        uint32_t slot = bucket_of(table, at->producer_id);
        at->bucket_next = buckets[slot];
        buckets[slot] = at;
    }
    return true;
}

static void idle_append(struct eng_producer_table *table, struct eng_producer *producer)
{
    producer->idle_prev = table->idle_last;
    producer->idle_next = NULL;
    if (table->idle_last != NULL) table->idle_last->idle_next = producer;
    else table->idle_first = producer;
    table->idle_last = producer;
}

static void idle_unlink(struct eng_producer_table *table, struct eng_producer *producer)
{
    if (producer->idle_prev != NULL) producer->idle_prev->idle_next = producer->idle_next;
    else table->idle_first = producer->idle_next;
    if (producer->idle_next != NULL) producer->idle_next->idle_prev = producer->idle_prev;
    else table->idle_last = producer->idle_prev;
}

struct eng_producer *eng_producer_table_add(struct eng_producer_table *table, int64_t producer_id)
{
    OT_ASSERT_SLOW(eng_producer_table_find(table, producer_id) == NULL);
    if (table->count >= table->bucket_count && !buckets_grow(table)) return NULL;
    struct eng_producer *producer = calloc(1, sizeof *producer);
    if (producer == NULL) return NULL;
    producer->producer_id = producer_id;
    producer->touched_ms = -1;
    producer->committed = eng_producer_state_none();
    producer->ahead = eng_producer_state_none();
    uint32_t slot = bucket_of(table, producer_id);
    producer->bucket_next = table->buckets[slot];
    table->buckets[slot] = producer;
    idle_append(table, producer);
    table->count++;
    return producer;
}

void eng_producer_table_remove(struct eng_producer_table *table, struct eng_producer *producer)
{
    OT_ASSERT(producer->pending == 0);
    OT_ASSERT(producer->committed.txn_first_offset < 0);
    struct eng_producer **link = &table->buckets[bucket_of(table, producer->producer_id)];
    while (*link != producer) {
        OT_ASSERT(*link != NULL);
        link = &(*link)->bucket_next;
    }
    *link = producer->bucket_next;
    idle_unlink(table, producer);
    table->count--;
    free(producer);
}

void eng_producer_table_touch(struct eng_producer_table *table, struct eng_producer *producer)
{
    if (table->idle_last == producer) return;
    idle_unlink(table, producer);
    idle_append(table, producer);
}

void eng_producer_table_txn_link(struct eng_producer_table *table, struct eng_producer *producer)
{
    OT_ASSERT(producer->committed.txn_first_offset >= 0);
    struct eng_producer *before = table->txn_last;
    /* one step in log order; only a loaded snapshot could make more, and it is linked in sorted order */
    while (before != NULL && before->committed.txn_first_offset > producer->committed.txn_first_offset) before = before->txn_prev;
    producer->txn_prev = before;
    producer->txn_next = before != NULL ? before->txn_next : table->txn_first;
    if (producer->txn_next != NULL) producer->txn_next->txn_prev = producer;
    else table->txn_last = producer;
    if (before != NULL) before->txn_next = producer;
    else table->txn_first = producer;
}

void eng_producer_table_txn_unlink(struct eng_producer_table *table, struct eng_producer *producer)
{
    OT_ASSERT(producer->committed.txn_first_offset >= 0);
    if (producer->txn_prev != NULL) producer->txn_prev->txn_next = producer->txn_next;
    else table->txn_first = producer->txn_next;
    if (producer->txn_next != NULL) producer->txn_next->txn_prev = producer->txn_prev;
    else table->txn_last = producer->txn_prev;
    producer->txn_prev = producer->txn_next = NULL;
}
