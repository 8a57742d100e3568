/* Producer state of one partition: idempotence, open transactions, the last stable offset.
 *
 * Rules (Kafka 4.4; compatibility-traps W6-W8, T4-T7): no state: any first sequence is accepted; a higher epoch must start at sequence 0; a lower one is
 * INVALID_PRODUCER_EPOCH; any of the last five batches repeated is a duplicate; a gap is OUT_OF_ORDER_SEQUENCE_NUMBER. Control batches (markers) end
 * transactions; with transaction version 2 the marker's epoch is one above the data's (KIP-890).
 *
 * Committed state follows the log, pending state what is queued in the append lane: check sees both, commit moves the oldest pending entry over,
 * drop_pending forgets all pending ones (a failed write). No I/O, no lock: the owner (the partition's mutex) guards it. Memory is bounded by
 * producers_max; at the cap the longest idle producer without open transaction is forgotten first (counted, logged by the owner). */
#ifndef OT_ENGINE_PRODUCERS_H
#define OT_ENGINE_PRODUCERS_H

#include "base/bytes.h"

struct eng_producers;
struct eng_batch_info;         /* engine/batch.h */

enum eng_origin { ENG_ORIGIN_CLIENT, ENG_ORIGIN_COORDINATOR, ENG_ORIGIN_REPLICATION };

OT_MUST_CHECK enum ot_err eng_producers_new(uint32_t producers_max, int64_t expiry_ms, struct eng_producers **out);
void eng_producers_free(struct eng_producers *producers);

struct eng_producer_check {
    enum ot_err error;                     /* OK: append it.  Else the code for the client */
    bool duplicate;                        /* error is OK: do not append, answer these: */
    int64_t duplicate_base_offset, duplicate_last_offset, duplicate_timestamp_ms;
    char text[160];                        /* for error_message, empty when OK */
};
/* Check one batch against committed plus pending state. batch has offsets only for origin REPLICATION. transaction_version: of the coordinator for
 * markers (1 or 2), else 0. */
void eng_producers_check(struct eng_producers *producers, const struct eng_batch_info *batch, enum eng_origin origin,
    int16_t transaction_version, int64_t wall_ms, struct eng_producer_check *out);
/* Queue the batch just checked, with its offsets. Batches without producer id are ignored. marker: of a control batch. NO_MEMORY. */
struct eng_marker { bool is_marker, commit; int32_t coordinator_epoch; };
OT_MUST_CHECK enum ot_err eng_producers_pend(struct eng_producers *producers, const struct eng_batch_info *batch, int64_t base_offset, int64_t last_offset,
    const struct eng_marker *marker, int64_t wall_ms);
/* The appends up to (excluding) log_end_offset are in the log: their pending entries become committed. Completed aborted transactions are handed to aborted(arg, …) for
 * the transaction index. Never allocates (pend did). */
struct eng_completed_txn { int64_t producer_id, first_offset, last_offset, last_stable_offset; bool aborted; };
void eng_producers_commit(struct eng_producers *producers, int64_t log_end_offset,
    void (*completed)(void *arg, const struct eng_completed_txn *txn), void *arg);
void eng_producers_drop_pending(struct eng_producers *producers);

/* First offset of the earliest transaction still open in committed state (or completed but not yet below the high watermark); INT64_MAX when none.
 * last stable offset = min(high_watermark, this). */
int64_t eng_producers_first_unstable(const struct eng_producers *producers);
/* The high watermark passed: completed transactions below it no longer hold back the last stable offset. */
void eng_producers_advance(struct eng_producers *producers, int64_t high_watermark);

/* Kafka's snapshot format (schema ProducerSnapshot: int16 version, CRC-32C behind it). */
size_t eng_producers_snapshot_bytes(const struct eng_producers *producers);
OT_MUST_CHECK enum ot_err eng_producers_snapshot(const struct eng_producers *producers, struct ot_writer *out);
OT_MUST_CHECK enum ot_err eng_producers_load(struct eng_producers *producers, const void *data, size_t bytes, int64_t wall_ms);  /* CORRUPT: start from an older one */
/* Replay one batch of the log (open, truncate, start_at) into committed state. */
OT_MUST_CHECK enum ot_err eng_producers_replay(struct eng_producers *producers, const struct eng_batch_info *batch, const struct eng_marker *marker);
void eng_producers_reset(struct eng_producers *producers);
uint32_t eng_producers_expire(struct eng_producers *producers, int64_t wall_ms);      /* how many went */
void eng_producers_limits(struct eng_producers *producers, uint32_t producers_max, int64_t expiry_ms);

struct eng_producer_view {
    int64_t producer_id, last_timestamp_ms, current_txn_first_offset;      /* -1: none open */
    int16_t epoch;
    int32_t last_sequence, coordinator_epoch;
};
uint32_t eng_producers_list(const struct eng_producers *producers, struct eng_producer_view *out, uint32_t max);    /* how many there are */

#endif
