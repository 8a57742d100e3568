/* Transactions, as the doors ask for them: requests to the coordinator of a transactional id, lists of what it knows, and markers written at another's word.
 *
 * The machine is coordinator/txn.h, one for each partition of __transaction_state, run by broker/txn.c as a kind of shard. */
#ifndef OT_BROKER_TRANSACTIONS_H
#define OT_BROKER_TRANSACTIONS_H

#include "broker/admin.h"
#include "broker/call.h"
#include "broker/produce.h"
#include "broker/shard.h"
#include "coordinator/txn.h"

/* ---- one request about one transactional id */
struct broker_txn {
    struct broker_call call;
    /* asked: from coord_txn_request_default, so that nothing is forgotten. Texts and places are borrowed until done. Answered in it too; beyond the machine's errors
     * COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE. INIT without an id that is not empty: INVALID_REQUEST */
    struct coord_txn_request request;
    bool anywhere;                             /* ADD, VERIFY: on behalf of a partition here; asked of whichever broker coordinates the id */
    /* the broker's own */
    struct broker *broker;
    struct broker_shard_op op;
    struct broker_producer_id fresh;
    struct broker_shard_topic topic;
    bool asked_topic;
};
/* done on home, never before this returns. INIT makes the internal topic if need be. */
void broker_txn(struct broker *broker, struct broker_txn *txn);

/* Between the word of the coordinator (or the look that says that nobody need be asked) and the append, a transaction may end: what is appended then would begin one that nobody
 * ends. A guard that was taken before, and goes along with the append (shard.h), is stale once a marker of the producer went through the partition: INVALID_TXN_STATE. */
struct broker_txn_guard {
    struct broker_partition *partition;        /* held; NULL: no guard, the append will be refused for what it is */
    int64_t producer_id; int16_t producer_epoch;
    int32_t leader_epoch;                      /* in which it was begun */
    struct broker_txn_guard *next, *prev;      /* of the partition, while on; under its mutex */
    struct broker_txn_guard *also;             /* of one batch */
    bool on, stale;
};
/* True: this producer, with this epoch, has a transaction open in this partition, which we lead; so the coordinator knows of it. Any thread. */
bool broker_txn_guard(struct broker *broker, const struct coord_txn_place *place, int64_t producer_id, int16_t producer_epoch, struct broker_txn_guard *guard);
void broker_txn_guard_end(struct broker_txn_guard *guard);             /* when the append was answered, or will not be made; again is fine */

/* ---- what there is */
struct broker_txn_row {
    struct broker_txn_row *next;
    enum ot_err error;                         /* of this id: TRANSACTIONAL_ID_NOT_FOUND, …; the rest is unset then */
    struct ot_str id;
    int32_t coordinator_partition;
    enum ot_transaction_state state;
    int64_t producer_id, start_ms /* -1: none */, update_ms;
    int32_t timeout_ms;
    int16_t producer_epoch, version;
    const struct coord_txn_place *places; uint32_t place_count;        /* by topic and partition; places NULL unless with_places */
};
struct broker_txn_list {
    struct broker_call call;
    /* asked: these ids, one row each in their order; or, ids NULL, all that wants says yes to (NULL: all), from whatever this broker coordinates */
    const struct ot_str *ids; uint32_t id_count;
    bool (*wants)(const struct broker_txn_list *list, const struct coord_txn_view *view, int64_t wall_ms);     /* on the coordinator's threads: reads only */
    const void *wants_arg;
    bool with_places;
    struct ot_arena *arena;                    /* rows and texts; the broker's until done */
    /* answered. NO_MEMORY: the arena is full; COORDINATOR_LOAD_IN_PROGRESS: some are not known yet */
    enum ot_err error;
    struct broker_txn_row *rows;
    uint32_t row_count;
    /* the broker's own */
    struct broker *broker;
    struct broker_shard_op op;
    struct broker_txn_row **last;
    uint32_t at;
};
void broker_txn_list(struct broker *broker, struct broker_txn_list *list);     /* done on home, never before this returns */

/* ---- markers: at the word of a coordinator elsewhere, or of an operator who ends what no coordinator knows any more */
struct broker_marker {
    int64_t producer_id;
    int16_t producer_epoch;
    int32_t coordinator_epoch;
    int16_t version;                           /* 0 and 1: the epoch of the data; 2: above it */
    bool commit;
    struct coord_txn_place *places; uint32_t place_count;      /* error: answered */
};
struct broker_markers {
    struct broker_call call;
    struct broker_marker *markers; uint32_t marker_count;      /* asked; borrowed until done */
    bool anywhere;                             /* places that other brokers lead are theirs to write; else NOT_LEADER_OR_FOLLOWER */
    enum ot_err error;                         /* NO_MEMORY: nothing was written */
    /* the broker's own */
    struct broker *broker;
    struct broker_marker_call *calls;
    struct broker_produce_part *parts;
    int32_t *numbers;
    struct ot_buf *buf;
    uint32_t open;
};
/* On home's thread; done there, never before this returns: each place is OK when its marker is committed. */
void broker_markers(struct broker *broker, struct broker_markers *markers);

/* ---- for broker/ itself */
extern const struct broker_shard_kind broker_txn_kind;                 /* of BROKER_SHARD_TRANSACTIONS */
const struct coord_txns *broker_txn_machine(const void *state);

#endif
