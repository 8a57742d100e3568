/* The inside of struct eng_producers, for producers.c and producers_snapshot.c alone. */
#ifndef OT_ENGINE_PRODUCERS_INNER_H
#define OT_ENGINE_PRODUCERS_INNER_H

#include "engine/producer_table.h"
#include "engine/producers.h"

/* What one batch does to the state of its producer. */
struct eng_producer_step {
    struct eng_producer *producer;
    int64_t base_offset, last_offset, timestamp_ms, wall_ms;
    int32_t last_sequence, coordinator_epoch;
    int16_t epoch;
    bool transactional, marker, commit;
};

/* A completed transaction whose marker may still be above the high watermark. */
struct eng_held_txn { int64_t first_offset, last_offset; };

/* Rings of a power of two; at counts from 0 and never wraps in practice. */
struct eng_producers {
    struct eng_producer_table table;
    uint32_t producers_max;
    int64_t expiry_ms;
    struct eng_producer_step *queue;
    uint32_t queue_cap, queue_first, queue_count, queue_ends;      /* queue_ends: markers among them */
    /* Only those that can still be the minimum: both offsets ascend. A younger transaction with a lower first offset outlives its elders. */
    struct eng_held_txn *held;
    uint32_t held_cap, held_first, held_count;
    uint64_t forgotten;
};

/* The entry of an id, made if need be (at the cap in the place of the longest idle one). NULL: no memory or no place. */
struct eng_producer *eng_producers_entry(struct eng_producers *producers, int64_t producer_id);

#endif
