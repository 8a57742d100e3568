/* Private to rpc/grpc/consume*.c: one member of a consumer group, behind one Consume stream.
 *
 *   consume.c          the call: what the client says, what it is told, fetches, the end
 *   consume_member.c   the member: heartbeats to the group (KIP-848), and the partitions that it is given and gives up
 *   consume_offsets.c  where partitions begin, and commits
 *
 * A partition on its way:
 *
 *   NEW ──offset asked──► LOOKUP ──committed──► ACTIVE ──(taken away)──► REVOKING ──all acknowledged, or time is up; acknowledged is committed──► gone
 *                            └──nothing──► START ──ListOffsets──┘   (before ACTIVE: gone at once; led elsewhere: ACTIVE with the first acknowledgement)
 *
 * The group hears that a partition is given up (it is missing in the next heartbeat) only when it is gone here, so nobody else reads it before what was acknowledged is committed. A
 * member that the group does not know, or has fenced, loses all at once and joins anew.
 *
 * thread  the door's. Every callback ends with rpcg_consume_step, which begins whatever can be begun; there is no other place that decides. */
#ifndef OT_RPC_GRPC_CONSUME_H
#define OT_RPC_GRPC_CONSUME_H

#include "base/wire/consumer_group_heartbeat_request.h"
#include "base/wire/consumer_group_heartbeat_response.h"
#include "rpc/grpc/group.h"

#define CONSUME_DELIVERIES_MAX 256u        /* messages that are not acknowledged */
#define CONSUME_PARTS_MAX 20000u
#define CONSUME_AGAIN_US 200000            /* before what failed for now is tried again */
#define CONSUME_ARENA_BYTES (16u << 20)

enum consume_stage { CONSUME_NEW, CONSUME_LOOKUP, CONSUME_START, CONSUME_START_ASKED, CONSUME_ACTIVE, CONSUME_REVOKING };
struct consume_topic { struct consume_topic *next; struct ot_uuid id; bool used; uint32_t bytes; char name[256]; };
struct consume_part {
    struct consume_topic *topic;
    int32_t partition;
    enum consume_stage stage;
    int64_t assignment_id;
    int64_t next, acked, committed;        /* to be given; acknowledged up to; committed up to, -1: nothing */
    int64_t told;                          /* committed, as the client knows it */
    int64_t again_us;                      /* not asked for before; 0: at once */
    int64_t revoke_us;                     /* REVOKING: when it goes whatever was acknowledged */
    bool elsewhere;                        /* led by another broker, whose records the client fetches itself */
    char leader_address[128];
};
struct consume_delivery { int64_t assignment_id, next; uint32_t bytes; };
struct consume_place { struct ot_uuid topic_id; int32_t partition; };

enum consume_state { CONSUME_NO_JOIN, CONSUME_WAITS /* for an older stream of this member, or for the groups' topic */, CONSUME_JOINED, CONSUME_LEFT };
struct rpcg_consume {
    struct rpcg_call *call;
    struct rpcg_consume *next, **link;     /* among those of the server that have joined */
    enum consume_state state;
    /* as it joined */
    struct rpcg_join_ask join;             /* texts in the call's arena */
    char member_id[256], host[80];
    /* the member */
    int32_t epoch;                         /* 0: not in the group */
    struct broker_group_call beat;
    struct ot_arena beat_arena;
    struct ot_consumer_group_heartbeat_request request;
    struct ot_consumer_group_heartbeat_response response;
    struct broker_shard_topic groups_topic;
    int64_t beat_us;                       /* when the next one is due */
    int32_t last_sent;                     /* epoch of the heartbeat under way */
    bool beating, making_topic, topic_ok;
    struct consume_place *target; uint32_t target_count;
    struct consume_topic *topics;
    struct consume_part *parts; uint32_t part_count, part_cap, part_hint;       /* hint: where the last one was found */
    int64_t assignment_ids;
    /* offsets */
    struct broker_group_call commit, lookup;
    struct ot_arena commit_arena, lookup_arena, start_arena;
    int64_t *lookup_ids, *commit_ids;
    struct broker_offsets starts;
    int64_t *start_ids, commit_again_us;
    bool committing, looking, starting;
    /* what is given */
    struct consume_delivery deliveries[CONSUME_DELIVERIES_MAX];
    uint32_t delivery_count;
    int64_t unacknowledged;
    struct broker_fetch fetch;
    struct broker_fetch_ask *asks; int64_t *ask_ids; uint32_t ask_cap;
    struct ot_arena fetch_arena;
    struct rpcg_row row;
    int64_t row_assignment_id;
    uint32_t row_at, turn;
    bool fetching, fetched, preparing, prepared;       /* fetched: rows wait to be given; prepared: the next one is ready */
    bool tell_assignment, tell_committed;
    /* the end */
    bool reading, joined, half_closed, draining, superseded, failed, leaving, fetch_stale, fetch_cancelled;
    int64_t close_us;                      /* when the end began; 0: not yet */
    struct rpcg_error error;
    char error_text[BROKER_TEXT_MAX], error_topic[256];
    struct ot_timer timer;
    bool stepping, step_again;
};

void rpcg_consume_step(struct rpcg_consume *own);
void rpcg_consume_fail(struct rpcg_consume *own, enum ot_err error, const char *text);     /* the stream ends with it, once what is under way is over */
/* Who ends its side before it is in the group hears first whether it could be. */
static inline bool rpcg_consume_closing(const struct rpcg_consume *own)
{
    return (own->half_closed && own->joined) || own->draining || own->superseded || own->failed || own->call->cancelled;
}

/* ---- consume_member.c */
struct consume_part *rpcg_consume_part(struct rpcg_consume *own, int64_t assignment_id);   /* NULL: gone */
void rpcg_consume_part_drop(struct rpcg_consume *own, struct consume_part *part);          /* moves the last one to its place */
void rpcg_consume_deliveries_drop(struct rpcg_consume *own, int64_t assignment_id);        /* what was given under it is acknowledged by nobody any more */
void rpcg_consume_lost(struct rpcg_consume *own);                      /* the group does not know the member: nothing is its own any more */
void rpcg_consume_revoke_step(struct rpcg_consume *own, int64_t now_us);       /* those that may go are gone */
bool rpcg_consume_member_step(struct rpcg_consume *own, int64_t now_us);       /* heartbeats; false: it waits for something before it can join */
void rpcg_consume_leave(struct rpcg_consume *own);
void rpcg_consume_member_free(struct rpcg_consume *own);
int64_t rpcg_consume_member_due_us(const struct rpcg_consume *own, int64_t now_us);

/* ---- consume_offsets.c */
void rpcg_consume_offsets_step(struct rpcg_consume *own, int64_t now_us);
void rpcg_consume_elsewhere(struct rpcg_consume *own, struct consume_part *part, int32_t leader_id);   /* not led here; leader_id -1: not known */
bool rpcg_consume_uncommitted(const struct rpcg_consume *own);         /* something is acknowledged and not committed */

#endif
