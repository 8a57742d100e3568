/* Groups: the state machine of one `__consumer_offsets` partition. Pure: time and messages come in, records and answers go out.
 *
 *   asks ─► group_set_ask ─┐                         ┌─► out.records   to be appended, in order, as one change
 *   time ─► group_set_tick ─┼── state changes at once ─┼─► out.answered  each to be told once everything appended so far is committed
 *   log  ─► group_set_replay┘                         └─► out.fail      the change is half done (no memory): close the set, load it anew
 *
 * A set holds groups of every type in one container, with one common part: id, committed offsets, timeline, timers. What a type adds hangs on
 * group->body and is reached through group->ops; turning a group from one type into another (KIP-848's upgrade) replaces body and ops and keeps the rest.
 *
 * memory  everything is charged to the pool; when it is full, what would grow the state is refused with COORDINATOR_NOT_AVAILABLE.
 * thread  one at a time. */
#ifndef OT_COORDINATOR_GROUP_H
#define OT_COORDINATOR_GROUP_H

#include "base/arena.h"
#include "base/mem.h"

struct group_set;
struct group;

enum group_type { GROUP_CLASSIC, GROUP_CONSUMER, GROUP_SHARE, GROUP_STREAMS, GROUP_TYPE_COUNT };
const char *group_type_name(enum group_type type);     /* "Classic", "Consumer", as ListGroups says it */

/* Read anew at each step, so that values may change while the set lives. */
struct group_config {
    int64_t initial_rebalance_delay_ms;        /* group.initial.rebalance.delay.ms */
    int32_t session_timeout_min_ms, session_timeout_max_ms;       /* group.{min,max}.session.timeout.ms */
    int32_t group_size_max;                    /* group.max.size */
    int32_t offset_metadata_bytes_max;         /* offset.metadata.max.bytes */
    int64_t offsets_retention_ms;              /* offsets.retention.minutes */
    int64_t offsets_check_interval_ms;         /* offsets.retention.check.interval.ms */
    uint32_t record_bytes_max;                 /* key and value of one record */
    const struct consumer_group_config *consumer;      /* of the KIP-848 groups (consumer_group.h); NULL: not served */
};

/* The cluster's topics, for those who assign partitions. Names and ids are borrowed until the step ends. */
struct group_catalog_topic { struct ot_str name; struct ot_uuid id; int32_t partition_count; };
struct group_catalog {
    int64_t version;                           /* grows when anything in it changes */
    bool (*by_name)(const struct group_catalog *catalog, struct ot_str name, struct group_catalog_topic *out);
    bool (*by_id)(const struct group_catalog *catalog, const struct ot_uuid *id, struct group_catalog_topic *out);
    bool (*next)(const struct group_catalog *catalog, struct ot_str after, struct group_catalog_topic *out);      /* in name order; after null: the first */
    /* Racks of a partition's replicas, at most max; how many. */
    uint32_t (*racks)(const struct group_catalog *catalog, const struct ot_uuid *id, int32_t partition, struct ot_str *out, uint32_t max);
};
struct group_env {
    int64_t now_us;                            /* never goes back */
    int64_t wall_ms;
    const struct group_config *config;
    const struct group_catalog *catalog;       /* NULL: nothing is known of topics */
    int64_t steady_ms;                         /* as wall_ms, but by a clock that nobody sets; 0: none. What cannot be undone (expiry) believes the earlier one */
};

/* ---- asks */

enum group_ask_kind {
    GROUP_ASK_JOIN, GROUP_ASK_SYNC, GROUP_ASK_HEARTBEAT, GROUP_ASK_LEAVE,                  /* request and response are the wire's */
    GROUP_ASK_OFFSET_COMMIT, GROUP_ASK_TXN_OFFSET_COMMIT, GROUP_ASK_OFFSET_FETCH, GROUP_ASK_OFFSET_DELETE,       /* parts */
    GROUP_ASK_VIEW,                            /* response: struct group_view */
    GROUP_ASK_LIST,                            /* response: struct group_list; group_id is not used. A part: only groups with members or offsets on its topic */
    GROUP_ASK_DELETE,
    GROUP_ASK_EVICT,                           /* member_id or instance_id: an operator takes it out */
    GROUP_ASK_TOPIC_GONE,                      /* topic_id of part 0: drop its offsets; group_id is not used */
    GROUP_ASK_SURVEY,                          /* response: struct group_survey; group_id is not used */
    GROUP_ASK_CONSUMER_HEARTBEAT, GROUP_ASK_CONSUMER_VIEW,         /* request and response are the wire's (consumer_group.h) */
    GROUP_ASK_KIND_COUNT
};

struct group_part {                            /* a partition in an ask about offsets */
    struct ot_str topic; struct ot_uuid topic_id;      /* id zero: not known */
    int32_t partition;
    enum ot_err error;                         /* answered. One that comes with an error is passed over and keeps it */
    int64_t offset; int32_t leader_epoch; struct ot_str metadata;  /* asked by a commit, answered by a fetch (-1, -1, "": none) */
    int64_t commit_ms, expire_ms;              /* answered by a fetch; -1 */
};

struct group_ask {                             /* the asker's memory until it is among the answered */
    struct group_ask *next;
    enum group_ask_kind kind;
    int16_t version;                           /* of the Kafka API */
    struct ot_str group_id, client_id, client_host;    /* these, request and everything in it live until answered */
    const void *request;
    void *response;                            /* memory of the response struct, defaults set by the machine */
    struct ot_arena *arena;                    /* for what the answer holds */
    /* offsets, DELETE, EVICT */
    struct group_part *parts; uint32_t part_count;
    bool all;                                  /* FETCH: every partition that has one; parts are made in the arena */
    bool require_stable;
    bool admin;                                /* COMMIT, DELETE: an operator's; the group must be empty */
    uint64_t offsets_version;                  /* FETCH of all answers what COMMIT and DELETE may ask for: MISMATCH when something was committed since; 0: whatever it is */
    struct ot_str member_id, instance_id; int32_t generation;      /* or epoch; "" and -1: none */
    int64_t retention_ms;                      /* COMMIT v2 to v4; -1: the server's */
    int64_t producer_id; int16_t producer_epoch;       /* TXN_OFFSET_COMMIT */
    /* answered */
    enum ot_err error;                         /* of the whole ask. JOIN, SYNC, HEARTBEAT, LEAVE and CONSUMER_…: also in the response */
    const char *text;                          /* static words beyond the error's own, or NULL */
    /* the machine's own */
    struct group *held;                        /* who holds it until something happens; NULL: nobody */
    int64_t order;                             /* of a transactional commit's first record */
};

struct group_record { struct group_record *next; struct ot_blob key, value; };         /* value null: tombstone */
struct group_expiry { struct group_expiry *next; struct ot_str group, topic; int32_t partition; int64_t offset, commit_ms; };      /* an offset that was dropped for its age */
struct group_rebalanced;
struct group_out {                             /* of one step; begin with group_out_init */
    struct ot_arena *arena;                    /* holds the records; the caller resets it between steps */
    struct group_record *records, **records_last;
    uint32_t record_count;
    int64_t producer_id; int16_t producer_epoch;       /* -1: plain records; else transactional ones, of the one ask in this step */
    struct group_ask *answered, **answered_last;
    struct group_expiry *expired;              /* told as events; in the arena */
    struct group_rebalanced *rebalanced;       /* likewise */
    enum ot_err fail;
};
void group_out_init(struct group_out *out, struct ot_arena *arena);

/* ---- the set */

OT_MUST_CHECK enum ot_err group_set_new(struct ot_mem_pool *pool, uint64_t seed, struct group_set **out);
void group_set_free(struct group_set *set);                        /* every ask was answered: group_set_close comes before */

/* Loading: records and markers in log order, then loaded. An unknown record type or version is counted and passed over. NO_MEMORY. */
struct group_set_record { int64_t offset; int64_t producer_id; int16_t producer_epoch; bool transactional; struct ot_blob key, value; };
OT_MUST_CHECK enum ot_err group_set_replay(struct group_set *set, const struct group_set_record *record);
void group_set_loaded(struct group_set *set, const struct group_env *env, struct group_out *out);
/* The end of a producer's transaction, while loading and later: its pending offsets count, or are forgotten. */
void group_set_marker(struct group_set *set, int64_t producer_id, int16_t producer_epoch, bool commit);

/* The ask is answered in this step or later. */
void group_set_ask(struct group_set *set, const struct group_env *env, struct group_ask *ask, struct group_out *out);
/* The records of a TXN_OFFSET_COMMIT are committed: only now they are pending (the append alone can be refused for a fenced producer). */
void group_set_txn_written(struct group_set *set, const struct group_env *env, const struct group_ask *ask, struct group_out *out);
/* The asker is gone: answered at once if the set holds it. The member stays until its own time is up. */
void group_set_forget(struct group_set *set, struct group_ask *ask, struct group_out *out);
/* When the next deadline is (INT64_MAX: none), and what is due then. Does a bounded amount of work; the deadline may have passed still. */
int64_t group_set_deadline_us(const struct group_set *set);
void group_set_tick(struct group_set *set, const struct group_env *env, struct group_out *out);
/* Every ask held is answered with why; nothing else is called afterwards but free. */
void group_set_close(struct group_set *set, enum ot_err why, struct group_out *out);

struct group_set_counts { uint32_t groups[GROUP_TYPE_COUNT]; uint64_t offsets, members, unknown_records; uint64_t rebalances, expired_offsets, expired_members; uint32_t rebalancing; };
void group_set_counts(const struct group_set *set, struct group_set_counts *out);
/* Longest time that any group has been in a state between two assignments. */
int64_t group_set_rebalance_age_us(const struct group_set *set, int64_t now_us);

/* ---- views: everything is copied into the ask's arena */

enum group_reason {                            /* of a rebalance */
    GROUP_REASON_JOINED, GROUP_REASON_REJOINED, GROUP_REASON_LEFT, GROUP_REASON_EXPIRED, GROUP_REASON_SYNC_EXPIRED, GROUP_REASON_EVICTED, GROUP_REASON_METADATA,
    GROUP_REASON_LEADER_REJOINED, GROUP_REASON_STATIC_CHANGED, GROUP_REASON_OVER_CAPACITY, GROUP_REASON_TOPICS_CHANGED, GROUP_REASON_TYPE_CHANGED, GROUP_REASON_COUNT
};
const char *group_reason_name(enum group_reason reason);   /* "member_joined", … */
struct group_event {                           /* one rebalance */
    int64_t at_ms;                             /* when it began */
    int64_t duration_ms;                       /* until the assignment was there; -1: not yet, or never */
    int32_t generation;                        /* that it led to */
    enum group_reason reason;
    uint32_t members_before, members_after, members_joined, members_gone;
    uint32_t partitions, partitions_moved;     /* consumer protocol: assigned; of them with another owner than before */
    char member[96], client[64], text[96];     /* who caused it, and the words it gave; cut */
};
#define GROUP_EVENTS_MAX 16                    /* kept per group */
struct group_rebalanced { struct group_rebalanced *next; struct ot_str group; struct group_event event; };      /* one that ended in this step */

struct group_view_member {
    struct ot_str member_id, instance_id /* null */, client_id, client_host;
    int32_t session_timeout_ms, rebalance_timeout_ms;
    int64_t heartbeat_age_ms;                  /* -1 unknown */
    struct ot_blob metadata, assignment;       /* of the chosen protocol, as the client gave them */
    int32_t epoch;                             /* of the new protocol; -1 */
};
struct group_view {
    struct ot_str id, protocol_type, protocol;
    enum group_type type;
    const char *state;                         /* static: "Stable", … */
    int32_t generation;                        /* or epoch */
    struct ot_str leader;
    int64_t state_since_ms;                    /* wall; -1 unknown */
    int64_t empty_since_ms;                    /* -1: has members */
    const struct group_view_member *members; uint32_t member_count;
    const struct group_event *events; uint32_t event_count;        /* oldest first */
};
struct group_list_row { struct ot_str id, protocol_type; const char *state; enum group_type type; uint32_t member_count; int32_t generation; bool subscribed, committed; /* to the part's topic */ };
/* Every group with what it committed, for whoever watches them all. */
struct group_survey_group { struct ot_str id; enum group_type type; uint32_t member_count, first, count; };      /* its rows */
struct group_survey_row { struct ot_str topic; int32_t partition; int64_t offset; };
struct group_survey {
    uint32_t *left;                            /* asked: rows at most, counted down; what is beyond is left out */
    struct group_survey_group *groups; uint32_t group_count;
    struct group_survey_row *rows; uint32_t row_count;
    bool cut;
};
struct group_list { struct group_list_row *rows; uint32_t count; };

#endif
