/* Private to broker/: the entries that a fetch works on, hung into their partitions.
 *
 *   partition.fetch_nodes ──► node ──► set.ready (stack of signalled nodes) ──► the fetch that is parked on the set, if any
 *
 * Who changes what: the hang list under the partition's mutex; `ready` and `parked` by compare-and-swap from any thread; all else only by the one fetch that
 * owns the set at the time (a session lets one in at a time). Why no wake-up is lost: a waker publishes the new offsets, then signals, then takes the parked fetch;
 * a fetch clears the signal before it reads offsets, and looks at `ready` again after it parked. */
#ifndef OT_BROKER_FETCH_SET_H
#define OT_BROKER_FETCH_SET_H

#include "broker/core.h"

#define BROKER_FETCH_FOLLOWERS_MAX 4096u       /* sessions of all followers together */

struct broker_fetch_node {
    struct broker_fetch_set *set;
    struct broker_partition *partition;        /* counted; NULL while unknown */
    struct broker_fetch_node *hang_next, **hang_link;
    _Atomic bool signalled;
    struct broker_fetch_node *ready_next;
    struct broker_fetch_node *dirty_next, *dirty_prev;
    bool dirty, known;                         /* known: hw and start were told to the client */
    bool behind;                               /* more is readable than was given */
    bool unshown;                              /* at the last look a flush was due or under way: what was appended may lie above the high watermark */
    int32_t row;                               /* in the fetch's rows at its last read; -1: none */
    bool by_id;
    struct ot_str topic;                       /* own memory in a session, else the request's */
    struct ot_uuid topic_id;
    int32_t index;
    int64_t offset, log_start_offset, sent_high_watermark, sent_log_start;
    int32_t leader_epoch, last_epoch, max_bytes;
    int64_t flushed_end, known_high_watermark, log_end;        /* of a follower; log_end: the leader's, when it was admitted */
    bool throttled;                            /* of a follower: it is held back while the leader's throttle is shut */
    bool counted;                              /* what the follower asked for was told to the replica machine */
    struct replica_fetch told; int64_t told_us; bool holds;    /* the last that it was told, and when. Under the partition's mutex, as whether it holds */
    uint64_t order;                            /* session: order of arrival */
};

struct broker_fetch_set {
    _Atomic(struct broker_fetch_node *) ready;
    _Atomic(struct broker_fetch *) parked;
    struct broker_fetch_node *dirty_first, *dirty_last; uint32_t dirty_count;
    uint32_t node_count;
    uint32_t counted;                          /* of them in the sessions' total; under their mutex, for the fetch inside may be changing node_count */
    bool incremental;                          /* answer only what changed */
    bool follower;
    /* session only */
    struct ot_map nodes;
    int32_t id, epoch;
    bool busy, closing, by_ids;
    int64_t used_us;
    _Atomic int64_t asked_us;                  /* when its last request came: until then it holds what its entries say */
    uint64_t orders, client_hash;
    struct broker_fetch_set *lru_prev, *lru_next;
};

void broker_fetch_node_init(struct broker_fetch_node *node, struct broker_fetch_set *set, const struct broker_fetch_ask *ask);
void broker_fetch_node_ask(struct broker_fetch_node *node, const struct broker_fetch_ask *ask);    /* new numbers; becomes dirty */
void broker_fetch_node_unhang(struct broker_fetch_node *node);         /* drops its partition too */
void broker_fetch_node_resolve(struct broker *broker, struct broker_fetch_node *node);
void broker_fetch_dirty(struct broker_fetch_node *node);               /* to the end of the dirty list, if not in it */
void broker_fetch_clean(struct broker_fetch_node *node);
void broker_fetch_collect(struct broker_fetch_set *set);               /* signalled nodes become dirty */

/* Read what the dirty entries have. BUSY: a disk would be waited for (only with may_block false). OK: rows, row_count and bytes are set; *answer_now: an error,
 * a divergence or a change that a session must tell is among them. */
OT_MUST_CHECK enum ot_err broker_fetch_read(struct broker_fetch *fetch, bool may_block, bool *answer_now);

/* Session side: the set for this request, or an error code in fetch->error. leave gives it back. */
struct broker_fetch_set *broker_fetch_session_enter(struct broker_fetch *fetch);
void broker_fetch_session_leave(struct broker_fetch *fetch);
/* A set of one request, in the request's arena. */
struct broker_fetch_set *broker_fetch_set_of_request(struct broker_fetch *fetch);
void broker_fetch_set_unhang_request(struct broker_fetch_set *set);

#endif
