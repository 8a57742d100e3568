/* Shards: the partitions of an internal topic (`__consumer_offsets`, `__transaction_state`) with a state machine on top.
 *
 *   CLOSED ──(this broker leads it)──► LOADING ──► SERVING ──(append failed, leadership lost)──► FAILING ──► CLOSED, and again if still leader
 *
 * State changes the moment a record is handed to broker_shard_append; whoever is answered for it waits for `done`, when the high watermark covers the
 * record. So an append that fails is undone in one way only: the state is closed and loaded anew from the log.
 *
 * thread  everything of one shard (ops, done, loaded, close, timers) runs on its one serial executor, a few threads for all shards; only open and replay
 *         run elsewhere (I/O threads), while nobody else has the state. */
#ifndef OT_BROKER_SHARD_H
#define OT_BROKER_SHARD_H

#include "broker/call.h"

struct broker_config;
struct broker_shard;
enum broker_shard_kind_id { BROKER_SHARD_GROUPS, BROKER_SHARD_TRANSACTIONS, BROKER_SHARD_KIND_COUNT };

struct broker_shard_record {                   /* of the log, borrowed during the call */
    int64_t offset, timestamp_ms;
    int64_t producer_id; int16_t producer_epoch;       /* -1, -1: none */
    bool transactional;
    struct ot_blob key, value;                 /* value null: tombstone */
};
struct broker_shard_config { const char *key; char value[24]; };
#define BROKER_SHARD_CONFIGS_MAX 8

struct broker_shard_kind {
    const char *topic;
    int32_t (*partitions)(const struct broker_config *config);     /* of the topic, when it is made */
    /* How the topic is made: replication factor, and its own settings (at most BROKER_SHARD_CONFIGS_MAX); how many. */
    uint32_t (*topic_configs)(const struct broker_config *config, int16_t *replication_factor_out, struct broker_shard_config *out);
    /* An empty state; NULL: no memory. On an I/O thread, as replay; leader_epoch is that of this leadership. */
    void *(*open)(struct broker *broker, struct broker_shard *shard, int32_t partition, int32_t leader_epoch);
    /* In log order. Records that cannot be read (an unknown version of a newer server) are the kind's to log and pass over; an error ends the load (NO_MEMORY). */
    enum ot_err (*replay)(void *state, const struct broker_shard_record *record);
    void (*replay_marker)(void *state, int64_t producer_id, int16_t producer_epoch, bool commit);
    void (*loaded)(void *state);               /* serving begins: arm timers, write what is owed */
    /* Serving ends, for one of the errors of an op. Answer whoever waits, cancel timers, free. The done of every append under way was called before. Also
     * called for a state whose load failed (loaded was not called then). */
    void (*close)(void *state, enum ot_err why);
    /* A transaction's end marker was committed in this partition (control batch). Not during loading: replay_marker says it there. NULL: of no interest. */
    void (*marker)(void *state, int64_t producer_id, int16_t producer_epoch, bool commit);
};

/* ---- for whoever has something to do on a state */

/* run is called once, on the shard's executor: with the state, or with NULL and an error: COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR (another broker has it, no replica of
 * it is here, or we stop), COORDINATOR_NOT_AVAILABLE (the topic is not there yet, or its disk failed). A load that began just now is waited for (half a second at most). */
struct broker_shard_op {
    struct ot_task task;
    void (*run)(struct broker_shard_op *op, void *state, enum ot_err err);
    bool patient;                              /* a load, and one that is about to begin, is waited for as long as it takes; then it is the first */
    struct broker_shard *shard;                /* the driver's; valid in run */
    struct broker_shard_op *next;
};
/* Any thread; run is never called before this returns unless there is no such partition (then at once, on this thread, COORDINATOR_NOT_AVAILABLE). */
void broker_shard_run(struct broker *broker, enum broker_shard_kind_id kind, int32_t partition, struct broker_shard_op *op);
/* Which partition has this key: as Kafka, from String.hashCode and the number of partitions that the topic really has; -1: there is no topic yet. */
int32_t broker_shard_of(struct broker *broker, enum broker_shard_kind_id kind, struct ot_str key);
int32_t broker_shard_count(struct broker *broker, enum broker_shard_kind_id kind);     /* 0: no topic yet */

bool broker_shard_served(struct broker *broker, enum broker_shard_kind_id kind);        /* is there such a kind at all? */
/* The broker that leads the partition of this key, -1: none does, or there is no topic. */
int32_t broker_shard_leader(struct broker *broker, enum broker_shard_kind_id kind, struct ot_str key);

/* Is the topic there? It is made if not. done on home, never before this returns: OK, or COORDINATOR_NOT_AVAILABLE (text says why). */
struct broker_shard_topic {
    struct broker_call call;
    enum ot_err error;
    struct broker_shard_topic *next;           /* the driver's */
};
void broker_shard_topic(struct broker *broker, enum broker_shard_kind_id kind, struct broker_shard_topic *ask);

/* ---- for the kinds, on the shard's executor */

struct broker_shard_append_record { struct ot_blob key, value; };      /* value null: tombstone */
struct broker_shard_write {
    /* asked; records are copied during broker_shard_append */
    const struct broker_shard_append_record *records; uint32_t count;
    int64_t producer_id; int16_t producer_epoch; bool transactional;       /* -1, -1, false: plain records */
    struct broker_txn_guard *guard;            /* transactional records: of whoever asked (transactions.h); NULL: none. Lives until done */
    /* Committed (OK), or not for sure: NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE (then the state is about to be closed), REQUEST_TIMED_OUT (it may yet be committed; the
     * state stands). Writes are told in the order of their appends. */
    void (*done)(struct broker_shard_write *write, void *state, enum ot_err err);
    bool unsure;                               /* told, with an error: it was appended, or may have been, and may yet be committed */
    struct broker_shard_write *next;           /* the driver's until done */
};
/* Append as one batch (with neighbours of the same producer, if there are any), acks=all. Not OK: nothing was appended, done will not be called, and the shard is
 * about to be closed and loaded anew, since the state has changed already. TOO_LARGE is what broker_shard_batch_max would have told before. */
OT_MUST_CHECK enum ot_err broker_shard_append(struct broker_shard *shard, struct broker_shard_write *write);
/* Would an append be taken now? Ask before the state is changed: OK, or what to answer (COORDINATOR_NOT_AVAILABLE: full disk, too few replicas, full buffers). */
enum ot_err broker_shard_writable(struct broker_shard *shard);
uint32_t broker_shard_batch_max(struct broker_shard *shard);           /* bytes that key, value and overhead of one write may take */
/* done(write) is called when everything appended so far is committed, what timed out included; at once when that is so already. For answers that tell of state: so nobody is
 * told of what a failed append, or another leader, takes back. records and count are ignored. Not OK: as of a write. */
void broker_shard_barrier(struct broker_shard *shard, struct broker_shard_write *write);
/* The state cannot go on (no memory in the middle of a change): close it and load anew. Takes effect after the present task. */
void broker_shard_fail(struct broker_shard *shard, enum ot_err why);
struct ot_exec *broker_shard_exec(struct broker_shard *shard);
struct broker *broker_shard_broker(struct broker_shard *shard);
int32_t broker_shard_partition(const struct broker_shard *shard);

/* ---- for views, any thread */
struct broker_shard_view { bool serving, loading; int32_t leader_epoch; int64_t loaded_records; int64_t load_ms; uint32_t writes_open; };
bool broker_shard_view(struct broker *broker, enum broker_shard_kind_id kind, int32_t partition, struct broker_shard_view *out);

/* ---- for broker/ itself: shard_inner.h */
#endif
