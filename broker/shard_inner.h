/* Private to broker/: the inside of shards. shard.c has stages and ops, shard_load.c the replay, shard_write.c the appends, shard_topic.c the topics. */
#ifndef OT_BROKER_SHARD_INNER_H
#define OT_BROKER_SHARD_INNER_H

#include "broker/core.h"
#include "broker/shard.h"
#include "engine/batch_build.h"

enum { BROKER_SHARD_EXECS_MAX = 16, BROKER_SHARDS_MAX = 10000, BROKER_SHARD_IN_FLIGHT_MAX = 2 };

enum broker_shard_stage { BROKER_SHARD_CLOSED, BROKER_SHARD_LOADING, BROKER_SHARD_SERVING, BROKER_SHARD_FAILING, BROKER_SHARD_STOPPED };

struct broker_shard_marker { struct broker_shard_marker *next; int64_t offset, producer_id; int16_t producer_epoch; bool commit; };

struct broker_shard_batch {                    /* writes that are one batch in the log */
    struct broker_shard_batch *next;
    struct broker_shard *shard;
    struct broker_shard_write *first, **last;  /* whom to tell; none any more once the shard failed */
    struct eng_sink sink;
    struct eng_batch_builder builder;
    int64_t producer_id; int16_t producer_epoch; bool transactional;
    bool done;
    enum ot_err error;
    struct broker_produce produce;
    struct broker_produce_part part;
};

struct broker_shard {
    struct broker *broker;
    struct broker_shards *all;
    const struct broker_shard_kind *kind;
    int32_t partition;
    struct ot_exec *exec;
    /* of the executor */
    enum broker_shard_stage stage;
    void *state;
    int32_t leader_epoch;                      /* of the state */
    struct broker_partition *owner;            /* held while there is a state */
    bool fail_asked, flush_asked;
    enum ot_err fail_why;
    struct ot_task fail_task, flush_task, load_task, examine_task, stop_task;
    struct ot_timer retry;                     /* of a load that failed, and of ops that wait for a load */
    struct ot_timer settle;                    /* loaded, and waiting for the high watermark */
    _Atomic bool examine_posted;
    bool examine_again;
    struct broker_shard_op *parked, **parked_last; int64_t parked_until_us;
    struct broker_shard_batch *building, *ready, **ready_last, *sent, **sent_last;     /* in this order they go */
    uint32_t sent_count;
    bool unqueued;                             /* the last that was sent is not in the lane yet */
    bool refused;                              /* one was not appended: nothing that came behind it is told OK */
    int64_t unsure_end;                        /* below it lies what was told of as timed out: others may never have it */
    struct broker_shard_write *held, **held_last; int64_t held_until_us;   /* barriers that wait until all below unsure_end is committed */
    struct ot_timer held_timer;
    struct broker_shard_marker *markers, **markers_last;       /* that came during the load */
    _Atomic bool marker_missed;                /* for want of memory: the log has it */
    /* of the load */
    enum ot_err load_error;
    int64_t load_offset, load_end, load_started_us;
    _Atomic bool load_cancelled;
    /* views */
    _Atomic int view_stage, view_epoch;
    _Atomic int64_t loaded_records, load_ms;
    _Atomic uint32_t writes_open;
};

struct broker_shard_list { uint32_t count; struct broker_shard_list *older; struct broker_shard *shards[]; };
struct broker_shards {
    struct broker *broker;
    struct ot_exec *execs[BROKER_SHARD_EXECS_MAX]; uint32_t exec_count;
    struct ot_pool *pool;                      /* batches on their way to the log */
    pthread_mutex_t mutex;                     /* lists, topic asks, stopping */
    _Atomic bool stopping;
    _Atomic uint32_t stopping_open;            /* shards that have not stopped yet */
    struct broker_shard_kinds {
        const struct broker_shard_kind *kind;  /* NULL: not served */
        _Atomic(struct broker_shard_list *) list;      /* NULL until the topic was seen */
        struct broker_shard_topic *asks;
        bool creating;
        struct broker_admin admin; struct broker_admin_item item;
        struct broker_config_entry entries[BROKER_SHARD_CONFIGS_MAX]; struct broker_shard_config configs[BROKER_SHARD_CONFIGS_MAX];
    } kinds[BROKER_SHARD_KIND_COUNT];
};
extern const struct broker_shard_kind *const broker_shard_kinds[BROKER_SHARD_KIND_COUNT];      /* shard_kinds.c */

OT_MUST_CHECK enum ot_err broker_shards_init(struct broker *broker);
/* Blocks until every state is closed and nothing is on its way any more; before the core stops. */
void broker_shards_stop(struct broker *broker);
void broker_shards_free(struct broker *broker);
/* From the core: a partition of an internal topic opened, changed its role or went away. Any thread, no lock held. */
void broker_shards_partition_changed(struct broker_core *core, const char *topic, int32_t partition);
/* From produce: a marker was committed. On the producer's home. */
void broker_shards_marker(struct broker_core *core, const char *topic, int32_t partition, int64_t offset, const struct eng_marker *marker, int64_t producer_id,
    int16_t producer_epoch);

/* shard.c */
void broker_shard_examine(struct broker_shard *shard);         /* posts; any thread */
struct broker_shard *broker_shard_find(struct broker *broker, enum broker_shard_kind_id kind, int32_t partition);
void broker_shard_settle(struct broker_shard *shard);          /* on the executor: a batch or a load came back */
bool broker_shard_committed(struct broker_shard *shard, int64_t end);  /* with a state: all below end is, by this leadership */
/* shard_load.c */
void broker_shard_load(struct broker_shard *shard);            /* begins; broker_shard_loaded is called on the executor */
void broker_shard_loaded(struct broker_shard *shard);          /* shard.c */
/* shard_write.c */
void broker_shard_writes_init(struct broker_shard *shard);
void broker_shard_writes_fail(struct broker_shard *shard, enum ot_err why);
/* shard_topic.c: the list for so many partitions is there afterwards. NO_MEMORY. */
OT_MUST_CHECK enum ot_err broker_shards_list(struct broker_shards *all, enum broker_shard_kind_id kind, uint32_t count);

#endif
