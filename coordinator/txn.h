/* The transaction coordinator of one partition of __transaction_state, as a state machine: what happened comes in, what is to be done comes out.
 *
 *           ADD                    END                       markers written
 *   Empty ───────▶ Ongoing ─────────────────▶ PrepareCommit ─────────────────▶ CompleteCommit ──▶ (ADD: Ongoing again; INIT: Empty)
 *                     └─ END, INIT, time-out ▶ PrepareAbort  ─────────────────▶ CompleteAbort
 *
 * Rules of Kafka 4.4 (KIP-98, 360, 447, 890; compatibility-traps T1-T7). State changes the moment a record is handed out, so several steps of one
 * transactional id may be under way; an answer, or the markers of a decision, come out only when every record that they rest on is committed. A record that
 * cannot be written is undone by closing this state and replaying the log into a new one. Each open transaction has a deadline; what is decided is repeated
 * until it is done. Where Kafka answers CONCURRENT_TRANSACTIONS at once, a request waits here first for what is under way, for wait_us at most.
 *
 * No clock, I/O, thread or random source. Memory is bounded by bytes_max.
 * thread  one at a time. owner: a request belongs to the machine from coord_txns_request until it comes out as ID or REPLY; what out points to
 *         holds until coord_txns_next says that there is no more. */
#ifndef OT_COORDINATOR_TXN_H
#define OT_COORDINATOR_TXN_H

#include "base/bytes.h"
#include "base/wire/enums.h"

struct coord_txns;
struct coord_txn;

struct coord_txns_config {
    int32_t timeout_ms_max;                    /* transaction.max.timeout.ms */
    int64_t expiration_ms;                     /* transactional.id.expiration.ms */
    int16_t version;                           /* final level of the feature transaction.version: 0 to 2 */
    int64_t wait_us;                           /* how long a request waits for the end of what is under way */
    uint64_t bytes_max;                        /* of all state; INIT and ADD are refused above it (NO_MEMORY) */
    uint32_t record_bytes_max;                 /* of one value; ADD of more partitions is refused (TOO_LARGE) */
};
/* now_us is monotonic and drives deadlines; wall_ms goes into records. How much of a deadline is left after a restart says the earlier of it and steady_ms: as wall_ms,
 * but by a clock that nobody sets; 0: none. A clock that jumped ahead aborts and forgets nothing. */
struct coord_txn_time { int64_t now_us, wall_ms, steady_ms; };

OT_MUST_CHECK enum ot_err coord_txns_new(const struct coord_txns_config *config, struct coord_txns **out);
void coord_txns_free(struct coord_txns *txns);                 /* NULL is fine. No request may be left: close first */
void coord_txns_configure(struct coord_txns *txns, const struct coord_txns_config *config);

/* ---- loading: the records in order of the log, then loaded. A null value is a tombstone. */
/* Records of kinds that are not known are passed over (UNSUPPORTED_VERSION). NO_MEMORY; CORRUPT: it does not decode or says what cannot be: that record is
 * passed over, the state stays usable. */
OT_MUST_CHECK enum ot_err coord_txns_replay(struct coord_txns *txns, struct ot_blob key, struct ot_blob value);
void coord_txns_loaded(struct coord_txns *txns, struct coord_txn_time now);

/* ---- requests */

enum coord_txn_ask { COORD_TXN_INIT, COORD_TXN_ADD, COORD_TXN_VERIFY, COORD_TXN_END, COORD_TXN_ABORT };
struct coord_txn_place { struct ot_str topic; int32_t partition; enum ot_err error; /* VERIFY: of this one */ };
struct coord_txn_request {
    enum coord_txn_ask ask;
    struct ot_str id;                          /* transactional id, not empty; borrowed until REPLY like the places */
    int64_t producer_id;                       /* INIT: of the producer that goes on (KIP-360), or -1 */
    int16_t producer_epoch;
    int32_t timeout_ms;                        /* INIT */
    struct coord_txn_place *places; uint32_t place_count;      /* ADD, VERIFY */
    bool commit;                               /* END */
    int16_t version;                           /* ADD, END: of the client's protocol: 2 for EndTxn 5, Produce 12, AddPartitionsToTxn 5 of a broker; else 0 */
    /* answered; by version PRODUCER_FENCED becomes INVALID_PRODUCER_EPOCH at the door */
    enum ot_err error;
    int64_t producer_id_out;                   /* INIT, END of version 2; else -1 */
    int16_t producer_epoch_out;
    /* the driver's answer to ID: a fresh producer id, or -1. The request is then handed in again */
    int64_t spare_id;
    /* the machine's own */
    struct coord_txn_request *next, *prev;
    uint64_t seq;
    int64_t deadline_us;
    bool waited, fenced;
};
/* Start a request from this, so that what the machine reads is set. */
static inline struct coord_txn_request coord_txn_request_default(enum coord_txn_ask ask, struct ot_str id)
{
    return (struct coord_txn_request){ .ask = ask, .id = id, .producer_id = -1, .producer_epoch = -1, .spare_id = -1, .producer_id_out = -1, .producer_epoch_out = -1 };
}

/* ---- inputs */
void coord_txns_request(struct coord_txns *txns, struct coord_txn_request *request, struct coord_txn_time now);
void coord_txns_committed(struct coord_txns *txns, uint64_t seq, struct coord_txn_time now);       /* all APPENDs up to this one are */
/* What became of markers: OK; UNKNOWN_TOPIC_OR_PARTITION: the topic is gone; INVALID_PRODUCER_EPOCH: a later marker is there already; anything else is tried
 * again. Places that are not named are tried again too. Of a transaction that has moved on: nothing. */
struct coord_txn_marked { struct ot_str id; int64_t producer_id; int16_t producer_epoch; const struct coord_txn_place *places; uint32_t place_count; };
void coord_txns_marked(struct coord_txns *txns, const struct coord_txn_marked *marked, struct coord_txn_time now);
void coord_txns_tick(struct coord_txns *txns, struct coord_txn_time now);
int64_t coord_txns_deadline_us(const struct coord_txns *txns);         /* of the next tick; INT64_MAX: none */
/* Everybody who waits is answered with why; nothing else comes out any more, and requests that come are answered so too. */
void coord_txns_close(struct coord_txns *txns, enum ot_err why);
/* A record could not be made in the middle of a step: close, and load anew. Nobody is answered OK any more: COORDINATOR_NOT_AVAILABLE instead. */
bool coord_txns_broken(const struct coord_txns *txns);

/* ---- outputs */
enum coord_txn_out_kind { COORD_TXN_APPEND, COORD_TXN_MARKERS, COORD_TXN_ID, COORD_TXN_REPLY, COORD_TXN_EVENT };
enum coord_txn_event { COORD_TXN_TIMED_OUT, COORD_TXN_FENCED, COORD_TXN_EXPIRED, COORD_TXN_MARKER_DROPPED };
struct coord_txn_topic { uint32_t refs, bytes; char name[]; /* zero-terminated */ };
struct coord_txn_part { const struct coord_txn_topic *topic; int32_t partition; bool done; };
struct coord_txn_out {
    enum coord_txn_out_kind kind;
    uint64_t seq;                              /* APPEND: from 1, by one each */
    struct ot_blob key, value;                 /* APPEND; a null value is a tombstone */
    struct coord_txn_request *request;         /* ID, REPLY: the driver's again */
    /* MARKERS, EVENT */
    struct ot_str id;
    int64_t producer_id;
    int16_t producer_epoch, version;           /* MARKERS: version of the transaction, 1 or 2 */
    bool commit, again;                        /* again: it was tried before */
    const struct coord_txn_part *parts; uint32_t part_count;   /* MARKERS: to those that are not done */
    enum coord_txn_event event;
    int64_t age_ms;                            /* EVENT TIMED_OUT, FENCED: of the transaction */
    enum ot_err error; char place[280];        /* EVENT MARKER_DROPPED: topic-partition, and why */
};
bool coord_txns_next(struct coord_txns *txns, struct coord_txn_out *out);

/* ---- views: the state as of the last record handed out */
struct coord_txn_view {
    struct ot_str id;
    enum ot_transaction_state state;
    int64_t producer_id, previous_producer_id, start_ms /* -1: none */, update_ms;
    int32_t timeout_ms;
    int16_t producer_epoch, version;
    const struct coord_txn_part *parts; uint32_t part_count;
};
static inline bool coord_txn_view_is_open(const struct coord_txn_view *view)
{
    return view->state == OT_TRANSACTION_STATE_ONGOING || view->state == OT_TRANSACTION_STATE_PREPARE_COMMIT || view->state == OT_TRANSACTION_STATE_PREPARE_ABORT;
}
bool coord_txns_find(const struct coord_txns *txns, struct ot_str id, struct coord_txn_view *out);
uint32_t coord_txns_count(const struct coord_txns *txns);
void coord_txns_at(const struct coord_txns *txns, uint32_t index, struct coord_txn_view *out);     /* index < count; no order */
/* open: Ongoing or being completed; late: of these, whose markers could not be written at the first try. The others count since new: what was decided, by whom. */
struct coord_txn_counts { uint32_t open, late; uint64_t committed, aborted, timed_out, fenced; };
void coord_txns_counts(const struct coord_txns *txns, struct coord_txn_counts *out);
uint64_t coord_txns_bytes(const struct coord_txns *txns);

#endif
