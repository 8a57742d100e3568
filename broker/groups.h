/* Groups, for every door: one ask of coordinator/group.h to the shard that has the group. */
#ifndef OT_BROKER_GROUPS_H
#define OT_BROKER_GROUPS_H

#include "broker/call.h"
#include "broker/shard.h"
#include "coordinator/group.h"

struct broker_group_call {
    struct broker_call call;
    /* asked: kind, version, group_id, client, request, response, arena, and what the kind wants (coordinator/group.h). Everything lives until done */
    struct group_ask ask;
    struct broker_txn_guard *guard;            /* TXN_OFFSET_COMMIT: of the asker, until done; or NULL */
    /* answered. The whole ask was refused or lost before the group said anything: COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE; then
     * response is not to be used. Else ask.error and the response count. */
    enum ot_err error;
    bool unsure;                               /* with such an error: what was asked may have been done, and stay so */
    /* the broker's own */
    struct broker *broker;
    int32_t partition;                         /* of the offsets topic */
    struct broker_shard_op op, cancel_op;
    _Atomic uint32_t open;                     /* who has it still: the shard until it answered, a cancel until it looked */
    bool cancelled;                            /* of home */
    struct broker_group_calls *all;
};
static inline enum ot_err broker_group_error(const struct broker_group_call *call) { return call->error != OT_OK ? call->error : call->ask.error; }

/* done on home; never before this returns. JOIN and SYNC wait for others: for as long as the group's time-outs say. */
void broker_group(struct broker *broker, struct broker_group_call *call);
/* The asker is gone (on home, before done ran): done comes soon. */
void broker_group_cancel(struct broker_group_call *call);

/* Several, one after the other (so they may share an arena), answered when the last one is. items have their asks set; their own call is not used. */
struct broker_group_calls {
    struct broker_call call;
    struct broker_group_call *items; uint32_t count;
    uint32_t at;                               /* the broker's own */
};
void broker_group_all(struct broker *broker, struct broker_group_calls *calls);
/* LIST of every shard: items are made in the arena (one for each; response: struct group_list). NO_MEMORY; NOT_FOUND: there is no offsets topic, hence no group. */
OT_MUST_CHECK enum ot_err broker_group_lists(struct broker *broker, struct ot_arena *arena, struct broker_group_calls *calls);

/* A topic was deleted: its committed offsets go. Any thread. */
void broker_groups_topic_gone(struct broker *broker, struct ot_str topic, const struct ot_uuid *topic_id);

#endif
