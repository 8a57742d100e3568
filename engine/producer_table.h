/* The producers of one partition by id: a hash table of fixed-size entries, a list from the longest idle to the last used, and a list of those
 * with an open transaction by first offset. Lookup, touch and removal are O(1). Only engine/producers*.c use it; no lock. */
#ifndef OT_ENGINE_PRODUCER_TABLE_H
#define OT_ENGINE_PRODUCER_TABLE_H

#include "base/bytes.h"

#define ENG_PRODUCER_BATCHES 5u            /* how many appends are remembered, as many as a client keeps in flight */

struct eng_producer_batch {
    int64_t last_offset, timestamp_ms;
    int32_t last_sequence, offset_delta;   /* the first sequence is offset_delta below, modulo 2^31 */
};

/* What is known of a producer at one point of the log. */
struct eng_producer_state {
    int64_t last_timestamp_ms;             /* of the last batch (its largest) or marker */
    int64_t txn_first_offset;              /* -1: no transaction is open */
    struct eng_producer_batch batches[ENG_PRODUCER_BATCHES];       /* of this epoch, oldest first */
    int32_t coordinator_epoch;             /* of the last marker, -1 */
    int16_t epoch;                         /* -1: none yet */
    uint8_t batch_count;
    bool known;                            /* false: nothing of this producer is in the log up to here */
};

struct eng_producer {
    int64_t producer_id;
    int64_t touched_ms;                    /* wall time of the last append; after a replay the batch's timestamp */
    struct eng_producer_state committed;   /* of what is in the log */
    struct eng_producer_state ahead;       /* of that and all that is queued; equal to committed while pending is 0 */
    uint32_t pending;                      /* batches queued */
    struct eng_producer *bucket_next;
    struct eng_producer *idle_prev, *idle_next;
    struct eng_producer *txn_prev, *txn_next;          /* by committed.txn_first_offset */
};

struct eng_producer_table {
    struct eng_producer **buckets;
    uint32_t bucket_count, count;
    uint64_t seed;                         /* ids come from clients: they shall not be able to choose our chains */
    struct eng_producer *idle_first, *idle_last;
    struct eng_producer *txn_first, *txn_last;
};

void eng_producer_table_init(struct eng_producer_table *table, uint64_t seed);
void eng_producer_table_clear(struct eng_producer_table *table);           /* frees all entries and buckets */
struct eng_producer *eng_producer_table_find(const struct eng_producer_table *table, int64_t producer_id);
struct eng_producer *eng_producer_table_add(struct eng_producer_table *table, int64_t producer_id);   /* as last used; NULL: no memory */
void eng_producer_table_remove(struct eng_producer_table *table, struct eng_producer *producer);
void eng_producer_table_touch(struct eng_producer_table *table, struct eng_producer *producer);       /* now the last used */
/* Keep the list of open transactions: link after committed.txn_first_offset was set, unlink before it is cleared. In log order the place is the end. */
void eng_producer_table_txn_link(struct eng_producer_table *table, struct eng_producer *producer);
void eng_producer_table_txn_unlink(struct eng_producer_table *table, struct eng_producer *producer);

/* A state before the first batch of a producer. */
struct eng_producer_state eng_producer_state_none(void);

#endif
