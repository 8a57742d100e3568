/* Replication as a whole: whom this broker fetches from, and what the partitions it leads want of the coordinator.
 *
 *   partition ──look──► its leader's source ──► a stream of fetches (Kafka's Fetch, as a member) ──► broker/follow.h, in the partition's lane
 *             └───────► proposals and durable reports, many in one request, asked again until they are settled
 *
 * Of each leader there are num.replica.fetchers streams and one more: while one is parked at the leader, what has become due goes out on another. A partition is in one stream at a time.
 *
 * A leader may be a broker of another cluster, of Kafka (from 2.7 on) or of ottla: then it is read as a consumer reads (replica id -1, up to its high watermark), in the newest version
 * of Fetch that both know, and its batches come over byte for byte, offsets and leader epochs included.
 *
 * thread  one serial executor with timers does all of it; look may be called from anywhere. */
#ifndef OT_BROKER_REPLICATION_H
#define OT_BROKER_REPLICATION_H

#include "base/net/link.h"
#include "broker/coordinator.h"

struct broker;
struct broker_partition;
struct broker_replication;

/* A partition as the cluster knows it that it is mirrored from. The row of the partition here has a leader epoch that is not below any of the source's: batches keep theirs. */
struct broker_fetch_origin {
    struct ot_uuid topic_id;
    const char *topic;                         /* its name there: of leaders that know no ids. Borrowed, valid until the partition has another leader */
    int32_t leader_epoch;                      /* of the source; -1: not known, its leader does not compare it */
};
struct broker_replication_foreign {            /* arg is the setup's; all on its exec */
    bool (*leads)(void *arg, int32_t node_id);             /* is that a broker of another cluster? Asked once for each node id, which no member may have */
    bool (*origin)(void *arg, struct broker_partition *partition, int32_t node_id, struct broker_fetch_origin *out);     /* false: not known now, asked again soon */
    /* It does not give the partition: NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_TOPIC_ID… Leader and epoch as it says, -1 where it does not. The fetch is tried again, with
     * a pause that grows, until the partition has another row. OFFSET_OUT_OF_RANGE: the log here ends behind its end, and it cannot say where histories part: nothing is cut */
    void (*refused)(void *arg, struct broker_partition *partition, enum ot_err error, int32_t leader, int32_t leader_epoch);
};
struct broker_replication_setup {
    struct broker *broker;
    struct ot_exec *exec;                      /* serial, with timers */
    struct ot_pool *pool;                      /* requests */
    void *arg;                                 /* of all below */
    /* One request to a member, over a connection of its own for each (node, stream). call->request is complete but for size and correlation id; answered as ot_link_send says. */
    void (*send)(void *arg, int32_t node_id, uint32_t stream, struct ot_link_call *call);
    void (*hang_up)(void *arg);                            /* the end: what is under way is answered soon; NULL: it is in any case. On exec */
    void (*ask)(void *arg, struct broker_ask *ask);        /* the coordinator, wherever it is */
    int32_t (*term)(void *arg);                            /* of the coordinator that is asked; 0: any */
    int64_t (*broker_epoch)(void *arg);
    const struct broker_replication_foreign *foreign;      /* NULL: every leader is a member. Outlives the replication */
    bool balances;                             /* it looks after preferred leaders too */
};
OT_MUST_CHECK enum ot_err broker_replication_start(const struct broker_replication_setup *setup, struct broker_replication **out);
/* Nothing is sent or asked any more; waits for what is under way with broker->core.nap. Not on its executor. NULL is fine. */
void broker_replication_stop(struct broker_replication *replication);
void broker_replication_free(struct broker_replication *replication);       /* after broker_core_stop, before broker_core_free; NULL is fine */
/* Something about the partition is new: its role, a proposal. Cheap; mutex held or not. Without a replication (one broker, tests) nothing. */
void broker_replication_look(struct broker_partition *partition);

/* For views: how a partition is fetched. */
struct broker_replication_counts { uint32_t sources, partitions; uint64_t fetches, failures, bytes, proposals, refusals; };
void broker_replication_counts(struct broker_replication *replication, struct broker_replication_counts *out);

#endif
