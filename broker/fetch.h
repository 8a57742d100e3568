/* Reading: long polls over any number of partitions, with Kafka's incremental sessions (KIP-227).
 *
 * A fetch works on a set of entries: those of the request, or those that a session keeps. The entries of a set are hung into their partitions, so that an append
 * marks just them; a poll of an idle session costs its changes and not its partitions. Answers are file spans under pins: the door sends them and
 * then calls broker_fetch_release. */
#ifndef OT_BROKER_FETCH_H
#define OT_BROKER_FETCH_H

#include "broker/call.h"
#include "engine/log.h"

struct broker_partition;
struct broker_fetch;
struct broker_fetch_set;

struct broker_fetch_ask {                      /* one partition as a request names it */
    struct ot_str topic;                       /* or, when null, topic_id */
    struct ot_uuid topic_id;
    int32_t partition;
    int64_t offset, log_start_offset;          /* log_start_offset: of a follower, else -1 */
    int32_t leader_epoch, last_epoch;          /* -1: not said */
    int32_t max_bytes;
    int64_t flushed_end, high_watermark;       /* of a follower: how far its disk has it, and the high watermark that it knows. -1: not said */
};

struct broker_fetch_row {                      /* one partition as it is answered, in the order asked (session: order of its entries) */
    struct ot_str topic;                       /* lives until release */
    struct ot_uuid topic_id;
    int32_t partition;
    enum ot_err error;
    int64_t high_watermark, last_stable_offset, log_start_offset;      /* -1 on error */
    int32_t diverging_epoch; int64_t diverging_end_offset;             /* -1, -1: none */
    int32_t leader_id, leader_epoch;           /* of the current leader on NOT_LEADER_OR_FOLLOWER or FENCED_LEADER_EPOCH, else -1 */
    int32_t preferred_replica;                 /* -1 */
    const struct eng_aborted *aborted;         /* read_committed only */
    int32_t aborted_count;                     /* -1: null */
    struct eng_read_result read;
    bool throttled;                            /* the broker's own: it counts for the leader's throttle */
    struct broker_topic *counted;              /* the broker's own: whose series count the answer */
};

struct broker_fetch {
    struct broker_call call;
    /* asked */
    struct broker_client client;
    int16_t api_version;
    int32_t replica_id; int64_t replica_epoch; /* -1: a consumer */
    bool follower;                             /* a member of the cluster, as which replica_id is believed: it reads up to the log's end, and what it asks for says what it has */
    int32_t max_wait_ms, min_bytes, max_bytes;
    bool read_committed;
    int32_t session_id, session_epoch;         /* Kafka's rules: 0/-1 none, 0/0 new, n/k incremental */
    struct ot_str rack;
    const struct broker_fetch_ask *asks; uint32_t ask_count;
    const struct broker_fetch_ask *forgotten; uint32_t forgotten_count;
    struct ot_arena *arena;                    /* rows and aborted lists come from here */
    /* answered */
    enum ot_err error;                         /* of the whole request (session errors); then no rows */
    int32_t session_id_out;
    struct broker_fetch_row *rows; uint32_t row_count;     /* incremental: only what changed or has data */
    uint64_t bytes;
    /* the broker's own */
    struct broker *broker;
    struct broker_fetch_set *set;
    struct ot_timer timer;
    struct ot_task step;                       /* to the I/O pool, back home, or a wake-up */
    bool on_io, waits, expired, cancelled, ended, unshown;      /* unshown: somewhere an append is on its way to the disk and will be shown then */
    uint32_t rows_cap;
    int64_t started_us;
};

/* done is called on home, by max_wait_ms at the latest; never before this returns. The connection's close: broker_fetch_cancel (on home), after which
 * done comes soon. Every answered fetch ends with broker_fetch_release (any thread), which unpins what was not handed on. */
void broker_fetch(struct broker *broker, struct broker_fetch *fetch);
void broker_fetch_cancel(struct broker_fetch *fetch);
void broker_fetch_release(struct broker_fetch *fetch);

#endif
