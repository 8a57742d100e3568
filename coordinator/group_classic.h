/* Private: groups of the classic protocol, where a member assigns and the coordinator keeps order.
 *
 *                    first member joins                 all are here, or time is up               the leader's SyncGroup
 *   EMPTY ────────────────────────────► PREPARING ─────────────────────────────► COMPLETING ─────────────────────────► STABLE
 *     ▲      (initial delay)              │  ▲     │ nobody is left                  │                                    │
 *     └───────────────────────────────────┘  └─────┴──── joins, leaves, expiries, missing syncs ──────────────────────────┘
 *
 * Each state but EMPTY and STABLE ends by a deadline: PREPARING by the largest rebalance time-out of its members, COMPLETING by the same again (who has not
 * synced by then is removed). STABLE is held by heartbeats. group_classic.c has states, members and timers, group_classic_join.c the ways in. */
#ifndef OT_COORDINATOR_GROUP_CLASSIC_H
#define OT_COORDINATOR_GROUP_CLASSIC_H

#include "coordinator/group_inner.h"

enum classic_state { CLASSIC_EMPTY, CLASSIC_PREPARING, CLASSIC_COMPLETING, CLASSIC_STABLE };
enum classic_wait { CLASSIC_WAIT_NONE, CLASSIC_WAIT_INITIAL, CLASSIC_WAIT_JOIN, CLASSIC_WAIT_SYNC };

struct classic_protocol { struct ot_str name; struct ot_blob metadata; };
struct classic_member {
    struct classic_member *next, *prev;        /* in the order of their coming */
    struct group *group;
    struct ot_str id, instance_id, client_id, client_host;     /* instance_id null: a dynamic member */
    int32_t session_timeout_ms, rebalance_timeout_ms;
    struct classic_protocol *protocols; uint32_t protocol_count;
    struct ot_blob assignment;                 /* of the generation that it was synced for */
    struct group_ask *joining, *syncing;       /* held; NULL with awaiting set: the asker is gone, the member waits all the same */
    bool awaiting_join, awaiting_sync;
    bool is_new;                               /* has no answer to its first join yet */
    bool unsynced;                             /* of this generation */
    struct ot_timer timer;
    int64_t deadline_us, heard_us;             /* the timer may stand earlier: it looks here when it fires */
};
struct classic_pending {                       /* a member id that was given out and has not joined yet */
    struct classic_pending *next, **prev;
    struct group *group;
    struct ot_str id;
    struct ot_timer timer;
};
struct classic_vote { struct ot_str name; uint32_t members; };         /* how many members know a protocol */
struct classic {
    enum classic_state state;
    int32_t generation;
    struct ot_str protocol_type, protocol;     /* null: none yet */
    struct classic_member *leader;
    struct ot_map members, statics;            /* member id -> member; instance id -> member */
    struct classic_member *first, *last;
    uint32_t awaiting_join_count, unsynced_count, pending_count;
    struct classic_pending *pending;
    struct classic_vote *votes; uint32_t vote_count, vote_cap;
    struct ot_timer timer; enum classic_wait wait;
    int64_t remaining_us;                      /* of the initial delay */
    bool new_member_added;
    bool initial;                              /* PREPARING came from EMPTY: it is the delay that ends it */
    bool recorded;                             /* the log knows this group: deleting it takes a tombstone */
    int64_t state_since_ms;                    /* wall; -1: never changed */
};

/* ---- group_classic.c */
static inline struct classic *classic_of(const struct group *group) { return group->body; }
struct classic_member *classic_member(const struct group *group, struct ot_str id);
struct classic_member *classic_static(const struct group *group, struct ot_str instance_id);   /* NULL also for a null id */
/* UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID. */
enum ot_err classic_member_check(const struct group *group, struct ot_str member_id, struct ot_str instance_id);
/* A member with protocols of the ask, in no state yet; NULL: no memory, nothing changed. */
struct classic_member *classic_member_add(struct group *group, struct group_ask *ask, struct ot_str id);
/* It rejoins with what the ask says. false: no memory, nothing changed. */
bool classic_member_update(struct classic_member *member, struct group_ask *ask);
/* A static member came back under another id: the old one is fenced. false: no memory. */
bool classic_member_rename(struct classic_member *member, struct ot_str id);
void classic_member_remove(struct classic_member *member, enum ot_err told);      /* told: to asks that it holds */
void classic_member_alive(struct classic_member *member);                      /* its session begins anew */
void classic_member_session_new(struct classic_member *member);               /* first join: five minutes, as Kafka */
bool classic_member_matches(const struct classic_member *member, const struct group_ask *ask);       /* joins with the same protocols as before */
struct ot_blob classic_metadata(const struct classic_member *member, struct ot_str protocol);
bool classic_knows_protocols(const struct group *group, const struct group_ask *ask);
struct ot_str classic_select(const struct group *group);                       /* the protocol most members like best among those that all know */
bool classic_pending_add(struct group *group, struct ot_str id, int32_t session_timeout_ms);
struct classic_pending *classic_pending_find(const struct group *group, struct ot_str id);
void classic_pending_remove(struct classic_pending *pending);
void classic_prepare(struct group *group, enum group_reason reason, const struct classic_member *member, struct ot_str member_id, struct ot_str text);
/* prepare if the group may rebalance, else see whether the joins are complete. */
void classic_rebalance(struct group *group, enum group_reason reason, const struct classic_member *member, struct ot_str text);
void classic_maybe_complete(struct group *group);
/* ---- group_classic_record.c: the record of the group as it is; assignments: of the members as they stand */
void classic_emit(struct group *group);
/* How large that record would be with these assignments in place (bytes more or less). */
size_t classic_record_bytes(const struct group *group);
void classic_tombstones(struct group *group);

struct ot_group_metadata_value;
struct ot_group_metadata_value_member_metadata;
/* A member as the log has it: it knows the one protocol that was chosen. false: no memory. */
bool classic_member_replay(struct group *group, const struct ot_group_metadata_value *value, const struct ot_group_metadata_value_member_metadata *from);

/* ---- group_classic_join.c */
void classic_join(struct group_set *set, struct group_ask *ask);
void classic_join_answer(struct group_set *set, struct group_ask *ask, enum ot_err error, struct ot_str member_id);
/* The answer of the generation as it is. with_members: the leader's. */
void classic_join_tell(struct classic_member *member, struct group_ask *ask, bool with_members, struct ot_str leader_id, bool skip_assignment);
/* ---- group_classic_sync.c */
void classic_sync(struct group_set *set, struct group_ask *ask);
void classic_sync_answer(struct classic_member *member, struct group_ask *ask, enum ot_err error);
void classic_sync_tell(struct group *group, enum ot_err error);               /* every sync that is held; OK: with its assignment */
void classic_heartbeat(struct group_set *set, struct group_ask *ask);
void classic_leave(struct group_set *set, struct group_ask *ask);

#endif
