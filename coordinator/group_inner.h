/* Private to the group machines of coordinator/: the container, the common part of every group, and what the types offer. */
#ifndef OT_COORDINATOR_GROUP_INNER_H
#define OT_COORDINATOR_GROUP_INNER_H

#include "base/exec.h"
#include "base/map.h"
#include "base/util.h"
#include "coordinator/group.h"

/* ---- committed offsets, common to all types */

struct group_offset {
    int32_t partition, leader_epoch;
    int64_t offset;                            /* -1: none is committed */
    int64_t commit_ms, expire_ms;              /* expire -1: by the retention */
    int64_t order;                             /* of its record among all records of the set */
    struct ot_uuid topic_id;
    char *metadata; uint32_t metadata_bytes;
    uint32_t pending;                          /* commits in open transactions */
};
struct group_topic { struct ot_str name; struct group_offset *offsets; uint32_t count, cap; };     /* by partition */
struct group_timeline { struct group_event events[GROUP_EVENTS_MAX]; uint64_t count; bool open; };  /* open: the last one runs */

/* ---- groups */

struct group_ops {
    enum group_type type;
    const char *(*state)(const struct group *group);
    bool (*empty)(const struct group *group);          /* no members: may be deleted, its offsets set from outside, and expire */
    uint32_t (*member_count)(const struct group *group);
    int32_t (*generation)(const struct group *group);
    struct ot_str (*protocol_type)(const struct group *group);
    /* May this commit (or transactional commit) be taken? member_id "" and generation -1: from outside. Also notes the sign of life. */
    enum ot_err (*commit_check)(struct group *group, const struct group_ask *ask);
    enum ot_err (*fetch_check)(struct group *group, const struct group_ask *ask);      /* NULL: anybody may read */
    bool (*subscribed)(const struct group *group, struct ot_str topic);        /* DELETE of offsets and expiry: in use */
    /* From when on the retention counts: for groups that know when they became empty. -1: each offset's own commit. INT64_MAX: nothing expires. */
    int64_t (*expiry_base_ms)(const struct group *group);
    enum ot_err (*view)(const struct group *group, const struct group_ask *ask, struct group_view *out);     /* members and what is the type's own; NO_MEMORY */
    enum ot_err (*evict)(struct group *group, const struct group_ask *ask);    /* UNKNOWN_MEMBER_ID */
    void (*loaded)(struct group *group);               /* after the replay: arm timers */
    void (*tombstones)(struct group *group);           /* emits them for all records of the type */
    /* The classic protocol's asks for a group that is not classic, when members of both are in it; NULL: there are none. */
    void (*join)(struct group *group, struct group_ask *ask);
    void (*sync)(struct group *group, struct group_ask *ask);
    void (*heartbeat)(struct group *group, struct group_ask *ask);
    void (*leave)(struct group *group, struct group_ask *ask);
    void (*forget)(struct group *group, struct group_ask *ask);        /* let go of an ask that it holds; the member stays */
    void (*close)(struct group *group, enum ot_err why);       /* answers every ask it holds */
    void (*free)(struct group *group);                 /* body; timers were in use: cancel them */
};

struct group {
    struct group_set *set;
    const struct group_ops *ops;
    void *body;                                /* struct classic *, struct consumer_group *, …; made with group_alloc */
    struct ot_str id;
    struct group_topic *topics; uint32_t topic_count, topic_cap;       /* by name */
    uint32_t offset_count;                     /* committed ones */
    struct group_timeline *timeline;           /* NULL until the first rebalance */
    struct group *rebalancing_next, **rebalancing_prev;        /* among those between two assignments; prev NULL: not */
    int64_t rebalancing_since_us;
};

struct group_set {
    struct ot_mem_pool *pool;
    struct ot_rng rng;
    struct ot_map groups;                      /* id -> struct group */
    struct ot_map txns;                        /* producer id -> struct group_txn */
    struct ot_timer_heap timers; uint32_t timers_wanted;
    struct ot_timer expiry;                    /* of offsets */
    uint32_t expiry_at;                        /* next group to look at */
    int64_t order;
    struct group *rebalancing;
    struct group_set_counts counts;
    bool loading;
    /* of the step under way */
    const struct group_env *env;
    struct group_out *out;
};

/* Memory of the set; NULL: the pool is full. bytes is given back as it was asked. */
void *group_alloc(struct group_set *set, size_t bytes);                        /* zeroed */
void group_free(struct group_set *set, void *memory, size_t bytes);           /* NULL is fine */
bool group_str_copy(struct group_set *set, struct ot_str from, struct ot_str *out);        /* null stays null; false: no memory */
void group_str_free(struct group_set *set, struct ot_str *text);
bool group_blob_copy(struct group_set *set, struct ot_blob from, struct ot_blob *out);
void group_blob_free(struct group_set *set, struct ot_blob *blob);
bool group_arena_str(struct ot_arena *arena, struct ot_str from, struct ot_str *out);      /* zero-terminated copy; false: the arena is full */
bool group_arena_blob(struct ot_arena *arena, struct ot_blob from, struct ot_blob *out);

struct group *group_find(const struct group_set *set, struct ot_str id);       /* NULL: none */
/* A group without a body: the caller gives it ops and body at once. NULL: no memory. */
struct group *group_add(struct group_set *set, struct ot_str id);
void group_remove(struct group *group);        /* body, offsets and all; its records are the caller's (group_delete) */
/* Tombstones for offsets and the type's records, then remove. */
void group_delete(struct group *group);

/* Timers in the set's heap; the space was reserved with group_timers_more (false: no memory) by whoever owns the timer. */
bool group_timers_more(struct group_set *set, uint32_t count);
void group_timers_less(struct group_set *set, uint32_t count);
void group_timer_set(struct group_set *set, struct ot_timer *timer, int64_t deadline_us);
void group_timer_cancel(struct group_set *set, struct ot_timer *timer);

/* Answer an ask: it leaves whoever held it and is among the answered of this step. */
void group_answer(struct group_set *set, struct group_ask *ask, enum ot_err error);
/* A record of this step. value NULL: tombstone. Structs are of the wire, with the versions that Kafka writes. On no memory out->fail is set. */
struct ot_wire_message;
void group_emit(struct group_set *set, const struct ot_wire_message *key_message, const void *key, const struct ot_wire_message *value_message, int16_t value_version,
    const void *value);

/* Timeline: a rebalance begins (if none runs), and ends. who is the member that caused it; text its own words. */
void group_rebalance_begin(struct group *group, enum group_reason reason, struct ot_str member, struct ot_str client, struct ot_str text);
void group_rebalance_end(struct group *group, int32_t generation, uint32_t partitions, uint32_t moved);       /* assigned */
struct group_event *group_rebalance_event(struct group *group);                /* the one that runs, to count in; NULL */

/* ---- files of the room: each handles its kinds of asks and records */

/* group_offsets.c */
bool group_offsets_on(const struct group *group, struct ot_str topic);     /* is anything committed for it? */
void group_offsets_ask(struct group_set *set, struct group_ask *ask);
enum ot_err group_offsets_replay(struct group_set *set, const struct group_set_record *record, int16_t type, struct ot_arena *arena);
void group_offsets_marker(struct group_set *set, int64_t producer_id, int16_t producer_epoch, bool commit);
enum ot_err group_offsets_pend(struct group_set *set, const struct group_ask *ask);
void group_offsets_tombstones(struct group *group);
void group_offsets_free(struct group *group);
void group_offsets_expire(struct group_set *set);       /* some groups */
void group_txns_free(struct group_set *set);
/* group_classic.c */
extern const struct group_ops group_classic_ops;
void group_classic_ask(struct group_set *set, struct group_ask *ask);
enum ot_err group_classic_replay(struct group_set *set, const struct group_set_record *record, struct ot_arena *arena);
bool group_classic_begin(struct group *group);          /* an empty classic body: also of groups that are only offsets. false: no memory */
/* group_view.c */
void group_view_ask(struct group_set *set, struct group_ask *ask);
/* consumer_group.c; until it is there group_consumer_absent.c */
void group_consumer_ask(struct group_set *set, struct group_ask *ask);
/* Record types 3 to 8 and 16. OT_ERR_NOT_FOUND: not one of its types. */
enum ot_err group_consumer_replay(struct group_set *set, const struct group_set_record *record, int16_t type, struct ot_arena *arena);

#endif
