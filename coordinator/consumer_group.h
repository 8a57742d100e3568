/* Consumer groups of the new protocol (KIP-848, KIP-1251): one group as a state machine. Members send heartbeats; the group has an epoch that grows with each change
 * of members, subscriptions or topics, a target assignment of some epoch, and walks each member there: first it gives up what it should not have, then it gets
 * what nobody holds any more. So a partition has one owner at any time.
 *
 *   STABLE -----target is newer------> UNREVOKED (told to give up; bounded by its rebalance timeout)
 *     ^  \                                 | heartbeat without them
 *     |   `--some are held by others--> UNRELEASED (has all that is free, asks again)
 *     `--------- all given ----------------'
 *
 * records A change is a list of records in Kafka's format of __consumer_offsets, and nothing else: a call computes them from the state, then applies them by
 *         coord_cg_replay, as a restart does. The caller appends them and holds the answer until they are committed; when that fails it loads the state anew.
 *         A call that returns an error made no record and changed nothing but time-outs.
 * time    comes in. What has a deadline is bounded by coord_cg_deadline_us: call coord_cg_expire then.
 * memory  counted in the pool that coord_cg_new got; at its cap calls answer NO_MEMORY (COORDINATOR_NOT_AVAILABLE for clients is the caller's choice)
 * thread  one at a time */
#ifndef OT_COORDINATOR_CONSUMER_GROUP_H
#define OT_COORDINATOR_CONSUMER_GROUP_H

#include "base/mem.h"
#include "base/wire/codec.h"
#include "coordinator/assign.h"

#define COORD_CG_TEXT_MAX 200

/* ---- what comes in */

struct coord_cg_topic { struct ot_uuid id; struct ot_str name; int32_t partition_count; uint64_t hash; };       /* hash: by_name's alone; coord_cg_topic_hash */
/* What Kafka calls the hash of a topic (KIP-1101): of its id, name, partitions and the racks of their replicas, as racks tells them (at most max; how many), in no order. It is
 * kept in records, by the group: a log that Kafka wrote and one of ours are the same. racks NULL: none are known. */
uint64_t coord_cg_topic_hash(const struct ot_uuid *id, struct ot_str name, int32_t partition_count,
    uint32_t (*racks)(const void *arg, int32_t partition, struct ot_str *out, uint32_t max), const void *arg);
struct coord_cg_topics {                                       /* what the metadata says, for the time of one call */
    void *arg;
    int64_t version, names_version;                            /* of the last change of anything; and of the last time that a topic came (or later) */
    bool (*by_name)(void *arg, struct ot_str name, struct coord_cg_topic *out);
    bool (*by_id)(void *arg, const struct ot_uuid *id, struct coord_cg_topic *out);
    bool (*next)(void *arg, struct ot_str after, struct coord_cg_topic *out);      /* in name order; null: the first */
};

enum coord_cg_migration { COORD_CG_NO_MIGRATION = 0, COORD_CG_UPGRADE = 1, COORD_CG_DOWNGRADE = 2 };       /* bits: group.consumer.migration.policy */
struct coord_cg_config {
    int32_t session_timeout_ms, heartbeat_interval_ms, assignment_interval_ms;     /* of this group, dynamic ones included */
    int32_t size_max, classic_size_max;
    int64_t regex_refresh_ms;
    int migration;
    const enum coord_assignor *assignors; uint32_t assignor_count;                 /* group.consumer.assignors: the first is the default */
    uint32_t record_bytes_max;                                 /* all records of one call, keys and values */
};
struct consumer_group_config {                                 /* what struct group_config points to */
    struct coord_cg_config all;
    /* What one group has otherwise (dynamic configs of the resource GROUP); NULL: nothing. */
    void (*of_group)(const struct consumer_group_config *config, struct ot_str group_id, struct coord_cg_config *inout);
};

struct coord_cg_record { struct coord_cg_record *next; struct ot_blob key, value; };       /* value null: a tombstone */

/* A member of the classic protocol as both kinds of groups see it, for the conversions. */
struct coord_cg_protocol { struct ot_str name; struct ot_blob metadata; };
struct coord_cg_classic_member {
    struct ot_str member_id, instance_id /* null: dynamic */, client_id, client_host;
    int32_t rebalance_timeout_ms, session_timeout_ms;
    const struct coord_cg_protocol *protocols; uint32_t protocol_count;
    struct ot_blob assignment;                                 /* ConsumerProtocolAssignment; empty: none */
};
struct coord_cg_classic {
    int32_t generation_id;
    struct ot_str protocol_name;
    struct coord_cg_classic_member *members; uint32_t member_count;
    bool rebalance;                                            /* as soon as it is classic */
    const char *reason;                                        /* static words */
};

enum coord_cg_event {
    COORD_CG_NOTHING, COORD_CG_JOINED, COORD_CG_LEFT, COORD_CG_SESSION_OVER, COORD_CG_REBALANCE_OVER, COORD_CG_EVICTED, COORD_CG_SUBSCRIPTION, COORD_CG_ASSIGNOR,
    COORD_CG_TOPICS, COORD_CG_FROM_CLASSIC
};
struct coord_cg_call {
    int64_t now_us, wall_ms;
    const struct coord_cg_config *config;
    const struct coord_cg_topics *topics;
    struct ot_arena *arena;                                    /* records live there, and what is worked with; its cap bounds the call */
    struct ot_arena *answers;                                  /* what answers point to; NULL: arena */
    /* answered */
    struct coord_cg_record *records, *records_last, *applied; uint32_t record_count; size_t record_bytes;
    struct coord_cg_classic *classic;                          /* the group is to become this classic group, whose words are its own: records hold its tombstones, free it last */
    char text[COORD_CG_TEXT_MAX];                              /* words for an error */
    enum coord_cg_event event;                                 /* what bumped the group epoch */
    bool target_kept;                                          /* the first time that a new target took too many bytes: the group keeps the old one */
    uint32_t moved;                                            /* partitions that were given to somebody */
    bool broken;                                               /* with NO_MEMORY: records could not be applied; load the state anew */
};

/* ---- the group */

struct coord_cg;
OT_MUST_CHECK enum ot_err coord_cg_new(struct ot_str group_id, struct ot_mem_pool *pool, struct coord_cg **out);   /* epoch 1; pool NULL: not counted */
void coord_cg_free(struct coord_cg *cg);                       /* NULL is fine */

enum coord_cg_state { COORD_CG_EMPTY, COORD_CG_ASSIGNING, COORD_CG_RECONCILING, COORD_CG_STABLE };
enum coord_cg_state coord_cg_state(const struct coord_cg *cg);
const char *coord_cg_state_name(enum coord_cg_state state);    /* Kafka's: "Empty", … */
struct ot_str coord_cg_id(const struct coord_cg *cg);
int32_t coord_cg_epoch(const struct coord_cg *cg);
uint32_t coord_cg_member_count(const struct coord_cg *cg);
bool coord_cg_subscribed(const struct coord_cg *cg, struct ot_str topic);      /* OffsetDelete asks */

/* One record of the kinds 3 to 8 and 16 of this group. gone_out: it was the tombstone of the group itself. An unknown version or a malformed record: an error, and nothing
 * changed. Order matters only per key: a compacted log gives the same state. */
bool coord_cg_record_is_ours(struct ot_blob key, struct ot_str *group_id_out);
OT_MUST_CHECK enum ot_err coord_cg_replay(struct coord_cg *cg, struct ot_blob key, struct ot_blob value, bool *gone_out);
void coord_cg_loaded(struct coord_cg *cg, int64_t now_us, const struct coord_cg_config *config);       /* time-outs begin */
/* Records that end the group, of an empty one as DeleteGroups and expiry want it. */
OT_MUST_CHECK enum ot_err coord_cg_tombstones(struct coord_cg *cg, struct coord_cg_call *call);

int64_t coord_cg_deadline_us(const struct coord_cg *cg);       /* not later than the first time-out; INT64_MAX: none */
OT_MUST_CHECK enum ot_err coord_cg_expire(struct coord_cg *cg, struct coord_cg_call *call);

/* ---- the new protocol */

struct ot_consumer_group_heartbeat_request;
struct ot_consumer_group_heartbeat_response;
struct ot_consumer_group_describe_response_described_group;
/* What can be said of a request without its group: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR, INVALID_REGULAR_EXPRESSION. */
OT_MUST_CHECK enum ot_err coord_cg_check(const struct ot_consumer_group_heartbeat_request *request, int16_t version, struct coord_cg_call *call);
/* A checked one. For a group that was made for it (epoch 1, empty) an error means: forget it. member_id empty (v0): give it one first. */
OT_MUST_CHECK enum ot_err coord_cg_heartbeat(struct coord_cg *cg, struct coord_cg_call *call, const struct ot_consumer_group_heartbeat_request *request,
    struct ot_str client_id, struct ot_str client_host, struct ot_consumer_group_heartbeat_response *out);
OT_MUST_CHECK enum ot_err coord_cg_describe(const struct coord_cg *cg, struct coord_cg_call *call, struct ot_consumer_group_describe_response_described_group *out);
/* Takes a member out as if it had left; UNKNOWN_MEMBER_ID. For administrators. */
OT_MUST_CHECK enum ot_err coord_cg_evict(struct coord_cg *cg, struct coord_cg_call *call, struct ot_str member_id);

/* Whether offsets may be committed, or fetched. version is that of OffsetCommit; a transactional commit has none (INT16_MAX). partially_out: ask
 * coord_cg_commit_partition for each partition, since the epoch is older than the member's (KIP-1251). */
OT_MUST_CHECK enum ot_err coord_cg_commit_check(const struct coord_cg *cg, struct ot_str member_id, struct ot_str instance_id, int32_t member_epoch, bool transactional,
    int16_t version, bool *partially_out);
OT_MUST_CHECK enum ot_err coord_cg_commit_partition(const struct coord_cg *cg, struct ot_str member_id, int32_t member_epoch, const struct ot_uuid *topic_id, int32_t partition);
OT_MUST_CHECK enum ot_err coord_cg_fetch_check(const struct coord_cg *cg, struct ot_str member_id /* null: none given */, int32_t member_epoch);

/* ---- members of the classic protocol in here, and the conversions */

/* Becomes what the classic group was. GROUP_ID_NOT_FOUND, with words: its members speak something that cannot be taken over. cg is new and empty. */
OT_MUST_CHECK enum ot_err coord_cg_from_classic(struct coord_cg *cg, struct coord_cg_call *call, const struct coord_cg_classic *classic);

struct coord_cg_join {
    struct ot_str member_id /* never empty: the caller gives new ones an id */, instance_id, client_id, client_host, protocol_type;
    bool is_new;                                               /* the member id was given just now */
    int32_t session_timeout_ms, rebalance_timeout_ms;
    const struct coord_cg_protocol *protocols; uint32_t protocol_count;
};
struct coord_cg_joined { int32_t generation_id; struct ot_str protocol_name; };
OT_MUST_CHECK enum ot_err coord_cg_classic_join(struct coord_cg *cg, struct coord_cg_call *call, const struct coord_cg_join *join, struct coord_cg_joined *out);
OT_MUST_CHECK enum ot_err coord_cg_classic_sync(struct coord_cg *cg, struct coord_cg_call *call, struct ot_str member_id, struct ot_str instance_id,
    int32_t generation_id, struct ot_str protocol_type, struct ot_str protocol_name, struct ot_blob *assignment_out);
OT_MUST_CHECK enum ot_err coord_cg_classic_heartbeat(struct coord_cg *cg, struct coord_cg_call *call, struct ot_str member_id, struct ot_str instance_id, int32_t generation_id);
/* LeaveGroup of some members; errors_out has one for each. */
struct coord_cg_leaver { struct ot_str member_id, instance_id; };
OT_MUST_CHECK enum ot_err coord_cg_classic_leave(struct coord_cg *cg, struct coord_cg_call *call, const struct coord_cg_leaver *leavers, uint32_t count, enum ot_err *errors_out);

/* ---- for those who look: REST, tests */

struct coord_cg_part { struct ot_uuid topic_id; int32_t partition, epoch; };
struct coord_cg_parts { struct coord_cg_part *items; uint32_t count; };        /* by topic id and partition, each once */
enum coord_cg_member_state { COORD_CG_MEMBER_STABLE = 1, COORD_CG_MEMBER_UNREVOKED = 2, COORD_CG_MEMBER_UNRELEASED = 3, COORD_CG_MEMBER_UNKNOWN = 127 };   /* as in records */
struct coord_cg_member_view {
    struct ot_str member_id, instance_id, client_id, client_host;
    int32_t epoch, previous_epoch;
    enum coord_cg_member_state state;
    bool classic;
    const struct coord_cg_parts *assigned, *revoking, *target;
};
/* What a member subscribes to and what it has, as the classic protocol would say it (ConsumerProtocolSubscription and -Assignment). */
OT_MUST_CHECK enum ot_err coord_cg_member_blobs(const struct coord_cg *cg, struct coord_cg_call *call, struct ot_str member_id, struct ot_blob *subscription_out,
    struct ot_blob *assignment_out);
bool coord_cg_next_member(const struct coord_cg *cg, uint32_t *at, struct coord_cg_member_view *out);      /* at starts at 0; borrowed until the next call */

#endif
