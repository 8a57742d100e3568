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
/* What a control batch says (eng_batch_marker); NULL or is_marker false: no end of a transaction. */
struct eng_marker { bool is_marker, commit; int32_t coordinator_epoch; };
/* Check one batch against committed plus pending state; nothing changes. marker: of a control batch, else NULL. transaction_version: of the
 * coordinator for markers (1 or 2), else 0; from 2 on a marker's epoch must be above the data's, unless it repeats one that was written already.
 * CLIENT: everything; COORDINATOR: epochs, markers and transaction state, but no sequences (its batches have none); REPLICATION: the leader has
 * checked. Errors: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE, TRANSACTION_COORDINATOR_FENCED. */
void eng_producers_check(const struct eng_producers *producers, const struct eng_batch_info *batch, const struct eng_marker *marker,
    enum eng_origin origin, int16_t transaction_version, struct eng_producer_check *out);
/* Queue the batch just checked, with its offsets, which grow from call to call. Batches without producer id and control batches without marker are
 * ignored. Allocates only for a new producer id, and when more is queued than ever before. NO_MEMORY: nothing was queued; either malloc failed, or the
 * cap is reached and every producer has an open transaction or something queued. */
OT_MUST_CHECK enum ot_err eng_producers_pend(struct eng_producers *producers, const struct eng_batch_info *batch, int64_t base_offset, int64_t last_offset,
    const struct eng_marker *marker, int64_t wall_ms);
/* The appends up to (excluding) log_end_offset are in the log: their pending entries become committed. Each transaction that a marker completed is handed
 * to completed(arg, …), which may be NULL; the aborted ones go into the transaction index. Never allocates (pend did). */
struct eng_completed_txn { int64_t producer_id, first_offset, last_offset, last_stable_offset; bool aborted; };
void eng_producers_commit(struct eng_producers *producers, int64_t log_end_offset,
    void (*completed)(void *arg, const struct eng_completed_txn *txn), void *arg);
void eng_producers_drop_pending(struct eng_producers *producers);

/* First offset of the earliest transaction still open in committed state (or completed but not yet below the high watermark); INT64_MAX when none.
 * last stable offset = min(high_watermark, this). */
int64_t eng_producers_first_unstable(const struct eng_producers *producers);
/* The high watermark passed: completed transactions below it no longer hold back the last stable offset. */
void eng_producers_advance(struct eng_producers *producers, int64_t high_watermark);

/* Kafka's snapshot format with our own section behind it, which Kafka's readers pass over (engine/snapshots.h): Kafka remembers only the last batch of each
 * producer across a restart, we all five. Committed state alone. TOO_LARGE: out has less room than snapshot_bytes. load replaces everything; after CORRUPT and
 * NO_MEMORY the state is empty. At the cap the longest idle ones are left out. wall_ms: producers that are expired by then are left out. */
size_t eng_producers_snapshot_bytes(const struct eng_producers *producers);
OT_MUST_CHECK enum ot_err eng_producers_snapshot(const struct eng_producers *producers, struct ot_writer *out);
OT_MUST_CHECK enum ot_err eng_producers_load(struct eng_producers *producers, const void *data, size_t bytes, int64_t wall_ms);  /* CORRUPT: start from an older one */
/* Replay one batch of the log (open, truncate, start_at) into committed state, which nothing pending may follow. NO_MEMORY as in pend; CORRUPT: offsets that
 * no log has. */
OT_MUST_CHECK enum ot_err eng_producers_replay(struct eng_producers *producers, const struct eng_batch_info *batch, const struct eng_marker *marker);
/* The same for recovery, which rebuilds the transaction index: *completed_out is what the batch completed; producer_id -1 when nothing. */
OT_MUST_CHECK enum ot_err eng_producers_replay_completed(struct eng_producers *producers, const struct eng_batch_info *batch,
    const struct eng_marker *marker, struct eng_completed_txn *completed_out);
void eng_producers_reset(struct eng_producers *producers);
/* Forget producers whose last append is expiry_ms or more ago, never those with an open transaction or something queued. By the wall time of the append,
 * not the record's timestamp as Kafka has it: a producer of old records is not forgotten between two of its batches, one of future records not kept
 * for ever. After a restart that time comes from our section of the snapshot, else from the timestamps. Returns how many went. */
uint32_t eng_producers_expire(struct eng_producers *producers, int64_t wall_ms);
void eng_producers_limits(struct eng_producers *producers, uint32_t producers_max, int64_t expiry_ms);

struct eng_producer_view {
    int64_t producer_id, last_timestamp_ms, current_txn_first_offset;      /* -1: none open */
    int16_t epoch;
    int32_t last_sequence, coordinator_epoch;
};
/* Committed state, longest idle first. Returns how many there are. */
uint32_t eng_producers_list(const struct eng_producers *producers, struct eng_producer_view *out, uint32_t max);
/* One producer; pending counts what is queued as well (is a transaction open for this batch?). False: unknown. */
bool eng_producers_find(const struct eng_producers *producers, int64_t producer_id, bool pending, struct eng_producer_view *out);
/* The last batch that tells each producer's state, for compaction, which keeps it. In no order; returns how many there are. Committed state. */
struct eng_producer_last { int64_t producer_id, last_offset; int16_t epoch; };         /* last_offset -1: only a marker */
uint32_t eng_producers_last(const struct eng_producers *producers, struct eng_producer_last *out, uint32_t max);
uint64_t eng_producers_forgotten(const struct eng_producers *producers);      /* at the cap, since new; for a metric and the owner's log line */
/* Make room for so many queued batches now, so that pend allocates for new producers only. NO_MEMORY. */
OT_MUST_CHECK enum ot_err eng_producers_reserve(struct eng_producers *producers, uint32_t pending_max);

#endif
