/* Appending: one produce request of any door, with batches for any number of partitions.
 *
 * Order: two requests that a door starts one after the other on the same home are appended in that order per partition, provided the door waits
 * for `queued` of the first before it starts the second (compressed batches are checked on an I/O thread first). */
#ifndef OT_BROKER_PRODUCE_H
#define OT_BROKER_PRODUCE_H

#include "broker/call.h"
#include "engine/batch.h"
#include "engine/log.h"

struct broker_partition;
struct broker_produce;

struct broker_produce_part {
    /* asked */
    struct ot_str topic;                       /* or, when null, topic_id */
    struct ot_uuid topic_id;
    int32_t partition;
    uint8_t *records;                          /* batches, in the call's buf; stamped in place (base offset, epoch, append time) */
    uint32_t records_bytes;
    struct broker_txn_guard *guards;           /* origin COORDINATOR: of transactional records; NULL: none */
    bool of_epoch; int32_t epoch;              /* it rests on what was known in this leader epoch: NOT_LEADER_OR_FOLLOWER in any other */
    /* answered */
    enum ot_err error;
    /* -1 each on error or unknown; append_time -1 for CreateTime. An error with a base_offset: it was appended there before, and whether it is kept is not known */
    int64_t base_offset, append_time_ms, log_start_offset;
    int32_t leader_id, leader_epoch;           /* of the current leader when error is NOT_LEADER_OR_FOLLOWER, else -1 */
    char text[BROKER_TEXT_MAX];                /* error_message; empty when OK */
    struct eng_batch_verdict verdict;          /* record_errors of it go into the answer */
    /* the broker's own */
    struct broker_produce *call;
    struct broker_partition *owner;
    struct ot_task task;
    struct broker_produce_part *next, *prev;   /* in the lane's queue, then among the waiters */
    struct eng_append_batch append;
    struct eng_marker marker;
    int64_t wait_offset;                       /* answered when the high watermark (acks=all) or the log end reaches it */
    bool waiting, wait_log_end;
    bool too_few;                              /* fewer members than min.insync.replicas when it stopped waiting */
    bool verifying, verify_stale;              /* the coordinator is asked; meanwhile a marker of its producer came */
    int32_t verify_epoch;                      /* leader epoch in which it began to be asked; -1: it is not */
    bool only_open;                            /* nobody was asked, since the transaction was open here: it must be still */
    struct ot_buf *own_buf;                    /* recompressed batch */
};

struct broker_produce {
    struct broker_call call;
    /* asked */
    struct broker_client client;
    struct ot_buf *buf;                        /* holds the batches; the broker takes references of its own while it needs them */
    int16_t acks;                              /* 0, 1, -1; else INVALID_REQUIRED_ACKS for every part */
    int32_t timeout_ms;
    int16_t api_version;                       /* of Kafka's Produce (13 from other doors) */
    struct ot_str transactional_id;
    enum eng_origin origin;
    bool from_peer;                            /* another broker of the cluster: it may write events too */
    int16_t transaction_version;               /* of markers (origin COORDINATOR): 1 or 2; else 0 */
    struct broker_produce_part *parts;
    uint32_t part_count;
    void (*queued)(struct broker_produce *produce);    /* on home; only if broker_produce answered false */
    /* the broker's own */
    struct broker *broker;
    struct ot_timer timer;
    struct ot_task queued_task;
    _Atomic uint32_t open_parts, unqueued_parts;
    _Atomic bool expired;                      /* timeout_ms went by: no part begins to wait any more */
    int64_t started_us;
    int64_t started_wall_ms;                   /* what its batches are held against, and stamped with where append time is wanted */
};

/* True: every part is queued or refused already. False: checks still run; queued(produce) will be called before done. done is never called before this returns. */
bool broker_produce(struct broker *broker, struct broker_produce *produce);

#endif
