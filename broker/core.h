/* Private to broker/: what produce, fetch and housekeeping share. The coordinator's side (broker.c) embeds it as the first member of struct broker. */
#ifndef OT_BROKER_CORE_H
#define OT_BROKER_CORE_H

#include "base/map.h"
#include "broker/broker.h"
#include "broker/cleaner.h"
#include "broker/metrics.h"
#include "coordinator/replica.h"
#include "broker/openings.h"
#include "broker/refused.h"
#include "broker/throttle.h"
#include "engine/codec.h"
#include <pthread.h>
#include <time.h>

#define BROKER_DIRS_MAX 64
#define BROKER_CONFIG_GRACE_TICKS 60           /* by ticks and not by the clock: a process that was stopped for an hour goes on where it was */

struct broker_core;
struct broker_topic {                          /* a topic with partitions here; lives as long as one of them */
    _Atomic uint32_t refs;
    struct broker_core *core;
    struct ot_task end_task;                   /* the last reference may go under any lock: what the end needs of others is done later */
    struct ot_uuid id;
    char *name;
    bool internal;
    _Atomic(const struct broker_topic_config *) config;    /* replaced as a whole; read it and be done with it: an old one is freed BROKER_CONFIG_GRACE_TICKS later */
    struct broker_topic_config_node { struct broker_topic_config_node *next; struct broker_topic_config config; uint64_t until_tick; } *configs;      /* newest first */
    struct { struct ot_series *bytes_in, *bytes_out, *records_in, *produce_requests, *fetch_requests; } series;
    struct broker_partition **partitions;      /* by index; NULL where not hosted; guarded by the registry */
    int32_t partition_count;
};

enum broker_dir_space { BROKER_SPACE_OK, BROKER_SPACE_WARN, BROKER_SPACE_REFUSE };

struct broker_fetch_sessions;
struct broker_losses;

struct broker_core {
    struct ot_io *io;
    struct ot_exec *io_exec, *flush_exec, *background_exec;
    struct broker_config_store *config;
    struct eng_store *store;
    struct ot_pool *decode_pool;
    struct ot_metrics *metrics;                /* NULL: nothing is counted */
    struct { struct ot_series *append_us, *append_batches, *append_writes, *flush_us, *flush_rounds, *corrupt; } series;
    int32_t node_id;
    _Atomic int64_t lease_end_us;              /* until then the coordinator takes this broker for alive (coordinator.md §8); 0: it is not asked */
    _Atomic bool stopping;
    _Atomic bool handing_over;                 /* others are about to lead what is led here: what acks=1 asks for is answered when all in sync have it, as for acks=all */
    bool transactions_served;                  /* there is a coordinator that ends them; without one produce refuses them */
    bool transactions_verified;                /* and it is asked before one begins in a partition */
    /* for the state machines on internal topics (shard.h), no lock held; NULL: nobody asks. A partition of one opened, changed its role or went; a marker was committed */
    void (*internal_changed)(struct broker_core *core, const char *topic, int32_t partition);
    /* a log directory failed; on background_exec, before its partitions go offline. False: what lay there must not be made anew. NULL: it may */
    bool (*dir_failed)(struct broker_core *core, uint32_t dir);
    void (*ticked)(struct broker_core *core, int64_t now_us);  /* each tick of the housekeeper; NULL: nobody wants it */
    /* no lock held; NULL: what is not here is not anywhere. Does the cluster have this partition (index below 0: this topic)? By name, or by id when that is null */
    bool (*broker_in_rack)(struct broker_core *core, int32_t broker_id, struct ot_str rack);       /* no lock held; NULL: nobody is anywhere */
    bool (*partition_exists)(struct broker_core *core, struct ot_str topic, const struct ot_uuid *topic_id, int32_t partition);
    void (*marker_committed)(struct broker_core *core, const char *topic, int32_t partition, int64_t offset, const struct eng_marker *marker, int64_t producer_id,
        int16_t producer_epoch);

    pthread_rwlock_t registry;
    struct ot_map topics_by_name, topics_by_id;
    _Atomic uint32_t partitions_total, partitions_open, partitions_pending, partitions_failed /* did not open when they were to */;

    pthread_mutex_t decoders_mutex;
    struct broker_decoder { struct broker_decoder *next; struct eng_decode *decode; struct eng_encode *encode; } *decoders;

    _Atomic int dir_space[BROKER_DIRS_MAX];
    bool reserve_held[BROKER_DIRS_MAX], space_looked[BROKER_DIRS_MAX];
    _Atomic uint64_t dir_free_bytes[BROKER_DIRS_MAX], dir_appended_bytes[BROKER_DIRS_MAX];     /* at the last look; appended since */

    /* found on disk at start and not yet open: "topic\0partition" -> struct broker_found *; names whose old folders are not yet out of the way -> how many; names that checkpoint
     * files may speak of though no folder is theirs. All guarded by the registry */
    struct ot_map found, dying, stale;
    uint64_t stale_added;                      /* how often a name was put into stale; guarded by the registry */
    pthread_mutex_t checkpoints_mutex;         /* one writes the checkpoint files at a time; held over its I/O */
    bool clean[BROKER_DIRS_MAX];               /* shut down cleanly last time */
    bool settled[BROKER_DIRS_MAX];             /* was not, but all that the last life wrote is on disk since */
    bool dir_missing;                          /* a log directory of an earlier start is offline or not in the list any more; known before the first partition is applied */
    bool survived;                             /* no machine crash since the last life: all that it wrote is there */
    _Atomic uint64_t kept_dirs;                /* failed, and what lay there must not be made anew (dir_failed) */
    _Atomic uint64_t unclean;                  /* a bit for each directory in which a log did not close whole */

    struct broker_openings openings;
    struct broker_fetch_sessions *sessions;
    struct { struct broker_throttle leader, follower; } throttles;
    _Atomic uint64_t replication_bytes_out;    /* record batch bytes that followers were given */
    struct broker_replication *replication;    /* NULL: nothing is fetched from others, and nothing proposed */
    struct broker_losses *losses;              /* NULL: what is lost is told in the log alone */
    struct ot_timer tick;                      /* on background_exec */
    struct ot_task tick_task, stop_task;
    _Atomic(struct broker_partition *) later;  /* flushes that nobody waits for (flush.c); counted in work_open, with a reference each */
    struct ot_task later_task;
    struct ot_timer later_timer;               /* on background_exec */
    int64_t retention_due_us, checkpoint_due_us, expiry_due_us;
    struct broker_cleaner cleaner;
    _Atomic int64_t waiting_produces, waiting_fetches;         /* acks=all requests under way; parked fetches */
    _Atomic bool ticking;
    _Atomic uint64_t ticks;                    /* of the housekeeper, a second apart or more */
    _Atomic int64_t work_open;                 /* partition opens, lane writes, flushes, deletions under way */
    void (*nap)(void *arg); void *nap_arg;     /* how stop waits: a short sleep; the simulator runs its scheduler instead */
};
bool broker_lease_over(const struct broker_core *core, int64_t now_us);        /* may another broker lead what is led here? any thread */
static inline struct broker_core *broker_core_of(struct broker *broker) { return (struct broker_core *)(void *)broker; }
static inline struct broker *broker_of_core(struct broker_core *core) { return (struct broker *)(void *)core; }

/* store is open already; reads the checkpoints of every online directory. */
OT_MUST_CHECK enum ot_err broker_core_init(struct broker_core *core, const struct broker_setup *setup, struct eng_store *store, int32_t node_id);
void broker_core_start(struct broker_core *core);      /* starts the housekeeping timer (posts to background_exec) */
/* Refuse new work; then wait for lanes, flush every log, write checkpoints. True when all is flushed. Blocks up to timeout_ms. */
bool broker_core_stop(struct broker_core *core, int64_t timeout_ms);
/* Closes every log. Answers the log directories, one bit each, in which one did not close whole: its index files or its true size may not be on disk, so the next start
 * may not believe them unseen, and no clean marker is left there. */
uint64_t broker_core_free(struct broker_core *core);

/* ---- partition internals ---- */

enum broker_partition_stage { BROKER_PARTITION_OPENING, BROKER_PARTITION_OPEN, BROKER_PARTITION_OFFLINE, BROKER_PARTITION_REMOVED };
struct broker_fetch_node;
struct broker_partition {
    _Atomic uint32_t refs;
    int32_t index;
    struct broker_core *core;
    struct broker_topic *topic;
    _Atomic(struct eng_log *) log;             /* before stage OPEN is published; another one when a log that was opened on a full disk is opened again */
    struct broker_opening_node *waits_to_open; /* guarded by the queue of openings */
    struct eng_log *former;                    /* that one: who reads it may go on. Freed with the partition */
    pthread_mutex_t mutex;
    _Atomic int stage;
    bool is_leader, opening_busy, roll_asked, lane_closed, lane_busy, flush_busy, flush_again, flush_owed, flush_later, keeper_busy, cleaner_busy, retiring, retired;
    bool stray;                                /* removed, and its records are kept: what says that it is gone may have lost it */
    int32_t leader_id, leader_epoch, partition_epoch, min_isr, isr_count, replica_count;
    uint32_t store_dir;
    _Atomic int64_t high_watermark, last_stable_offset;
    uint32_t keeper_users;                     /* offset questions under way: retirement waits for them */
    int64_t reserved_end;                      /* next offset to give */
    int64_t state_end;                         /* producer state and transaction index hold all below: the high watermark goes no further, whatever the log's end is */
    struct eng_completed_txn *unindexed;       /* of the lane: aborted transactions that the index file had no room for; they hold state_end back */
    uint32_t unindexed_count;                  /* written by the lane under the mutex. Above 0: no flush, so that a recovery finds the marker again */
    uint64_t bytes_since_state;                /* appended since producer state was last written out */
    int64_t unflushed_since_us;                /* 0: nothing since the last flush */
    bool open_full;                            /* offline because its log did not open for want of room */
    int64_t heal_due_us;                       /* of the housekeeper: when a log that met a full disk is tried again */
    struct broker_produce_part *queue_first, *queue_last;      /* the lane */
    struct broker_produce_part *wait_first, *wait_last;        /* appended, waiting for the high watermark or the log end; by what they wait for */
    uint32_t wait_log_ends;                    /* how many of them wait for the log end, */
    uint32_t wait_handovers;                   /* and how many of acks=1 for the high watermark, as long as this leader hands over */
    struct broker_produce_part *verify_first;  /* whose coordinator is being asked (produce_verify.c) */
    struct broker_txn_guard *guards;           /* likewise, of appends that come by a shard */
    struct broker_refused *refused;
    struct broker_fetch_node *fetch_nodes;     /* entries of fetch sets hung in here */
    struct broker_cleaner_state cleaner;       /* under the mutex */
    struct broker_isr_change *isr_change;      /* likewise; with the ids that it has. NULL: none is known */
    struct broker_partition *later_next;       /* of core->later, while flush_later */
    struct ot_task lane_task, flush_task, end_task;    /* end_task: retire, later free */
    /* replication (role.c). The mirrors above (is_leader, leader_id, …) are what clients are told: of the newest row that was applied, is_leader only once `replica` has it too */
    struct replica replica;                    /* begins with the open log; its log end is state_end */
    struct replica_peer *peers;
    struct broker_role *next_role;             /* a row that waits: for the log to open, or for what the lane writes in the old epoch */
    struct broker_follow *follow;              /* what the leader answered, until the lane has done it */
    uint32_t follower_nodes;                   /* entries of followers among fetch_nodes: they are woken by every append */
    bool throttled_leader, throttled_follower; /* its topic lists this replica as throttled, as leader or follower (throttle.h) */
    bool yielding;                             /* takes no records from producers: another one is to lead as soon as it has all */
    bool cutting;                              /* the log is being cut: its producer state is not to be looked at */
    _Atomic bool look_posted;
    struct ot_task look_task;                  /* on the replication's executor: whom to fetch from, what to propose */
    struct broker_fetch_slot *slot;            /* of the replication: where this partition is fetched; */
    int64_t asked_number, ask_due_us;          /* what was asked of the coordinator last, and when it is asked again */
    bool in_news;                              /* it is in the list of those that may have something to ask; of the replication's executor */
    /* the replica here is no good any more: the coordinator is told, and once others are seen to hold the partition it is made anew (apply.c) */
    bool lost, anew_failed, holds /* by the newest row it is in isr or elr */;
    int32_t lost_epoch;                        /* leader epoch up to which it may have been fetched into what was lost; -1: it was not open in this life */
};

/* Everything below is called with the partition's mutex held, except where said. */

/* role.c: the replica machine of an open log. A row changes the role at once, or, when it begins another epoch while the lane writes in the old one, as soon as that write is done. */
struct broker_role { struct coord_partition row; struct replica_broker brokers[COORD_REPLICAS_MAX]; };
/* A committed row: what clients are told changes at once, the role when it may (broker_role_settle, which says what is answered). */
bool broker_role_apply(struct broker_partition *partition, const struct broker_partition_row *row, struct broker_produce_part **done);
void broker_role_begin(struct broker_partition *partition);            /* the log is open: state_end, its flushed end and the high watermark are what it begins with */
/* Takes what waits, if it may. True: the role or epoch changed; tell the internal topics' machines once the mutex is free. */
bool broker_role_settle(struct broker_partition *partition, struct broker_produce_part **done);
bool broker_role_has_news(const struct broker_partition *partition);   /* is there something to ask of the coordinator? */
bool broker_role_tells_loss(const struct broker_partition *partition); /* is it that the replica here is lost? */
void broker_role_configure(struct broker_partition *partition);        /* the topic's config changed: class, lag */
struct eng_producers *broker_partition_producer_state(struct broker_partition *partition);     /* NULL: no log, or it is being cut */

enum broker_durability broker_durability_parse(const char *name);
enum broker_durability broker_partition_durability(const struct broker_partition *partition);      /* effective: auto is resolved */
/* Recompute high watermark and last stable offset, take out the waiters that are satisfied and wake fetches. Satisfied parts are chained to *done. */
void broker_partition_advance(struct broker_partition *partition, struct broker_produce_part **done);
/* All waiters and queued parts fail with error. */
void broker_partition_fail_all(struct broker_partition *partition, enum ot_err error, const char *text, struct broker_produce_part **done);
void broker_partition_wake_fetches(struct broker_partition *partition);
void broker_partition_followers_hold(struct broker_partition *partition);      /* mutex held: the machine hears of those whose sessions go on without naming this partition */
void broker_partition_wake_followers(struct broker_partition *partition);      /* those fetches alone that read up to the log's end */
/* A removed partition whose last writer and housekeeper left gives its name back. */
void broker_partition_settle_end(struct broker_partition *partition);
void broker_partition_set_stage(struct broker_partition *partition, enum broker_partition_stage stage);       /* mutex held; counted for readiness */
/* Without the mutex: tells the calls of chained parts. */
void broker_parts_complete(struct broker_produce_part *done);

/* lane.c */
/* Give the part its offset and queue it. ANSWERED: the part is filled in (an error, or a duplicate) and not queued. RUN_HERE: the caller runs the lane's task
 * (partition->lane_task) once it has let the mutex go: the write is a copy into resident mapped pages and cannot block. */
enum broker_lane_fate { BROKER_LANE_ANSWERED, BROKER_LANE_QUEUED, BROKER_LANE_RUN_HERE };
enum broker_lane_fate broker_lane_put(struct broker_partition *partition, struct broker_produce_part *part, int64_t wall_ms);
/* For the one that holds the lane (lane_busy), no mutex: write what fits, rolling first if need be; then commit producer state and transaction index up to the log's end. */
OT_MUST_CHECK enum ot_err broker_lane_write(struct broker_partition *partition, const struct eng_append_batch *batches, uint32_t count, uint32_t *written);
OT_MUST_CHECK enum ot_err broker_lane_commit(struct broker_partition *partition);
OT_MUST_CHECK enum ot_err broker_lane_index_again(struct broker_partition *partition);      /* what had no room in the transaction index */
void broker_lane_ask_roll(struct broker_partition *partition);         /* retention wants the active segment closed */
void broker_lane_run(struct ot_task *task);            /* on io_exec */
bool broker_part_stop_waiting(struct broker_produce_part *part);      /* takes the mutex; false: it does not wait (any more) */
void broker_part_time_out(struct broker_produce_part *part);           /* says so in the part */
/* follow.c (follow.h has the rest). On the lane, no mutex: the leader's answer into the log. True: something was appended. */
struct broker_follow;
bool broker_follow_run(struct broker_partition *partition, struct broker_follow *follow);
/* Mutex held: the largest epoch <= that in the log, and its end, for a follower whose log begins there (-1: it does not say). Epoch -1: it has to begin anew where it ends. */
struct replica_epoch_end broker_follow_parts(struct broker_partition *partition, int32_t epoch, int64_t log_start_offset);
/* For clients, no mutex held: eng_epochs_end. Epochs above the latest with records, up to the leader's own, have none: they end where the log of the leader does (ListOffsets tells clients of
 * epochs in which nothing was written, and "unknown" is a cut to them). Of an empty log without a history: its start. */
struct eng_epoch_end broker_follow_end(struct broker_partition *partition, int32_t epoch);
/* produce_verify.c: a batch that would begin its producer's transaction here goes on when the coordinator knows of it. begin: no mutex; true: it must be asked, the
 * part is in the list. marker, end: with the mutex; end takes it out, false: the answer is stale. */
bool broker_verify_begin(struct broker_produce_part *part);
void broker_verify_marker(struct broker_partition *partition, const struct broker_produce_part *marker);
bool broker_verify_end(struct broker_partition *partition, struct broker_produce_part *part);
/* With the mutex: may it be appended, by its guards and by what was seen when nobody was asked? And is that of this leader epoch? */
bool broker_verify_holds(struct broker_partition *partition, struct broker_produce_part *part);
bool broker_verify_of_epoch(const struct broker_partition *partition, const struct broker_produce_part *part);
void broker_verify_start(struct broker *broker, struct broker_produce *produce);       /* asks for all parts that began, then broker_produce_verified for each, on home */
/* produce.c: part->error says how it went. */
void broker_produce_verified(struct broker_produce_part *part);
/* flush.c */
void broker_flush_ask(struct broker_partition *partition);     /* mutex held */
/* Mutex held: something lies above the high watermark of a class that syncs. At once when somebody waits for it or reads here; else within 50 ms. */
void broker_flush_want(struct broker_partition *partition);
void broker_flush_look(struct broker_partition *partition);    /* no mutex, may block: somebody is about to look at the high watermark; a flush put off is made now */
void broker_flush_init(struct broker_core *core);
void broker_flush_run(struct ot_task *task);           /* on flush_exec */
/* partition.c, no mutex */
void broker_engine_config(const struct broker_core *core, const struct broker_topic_config *topic, struct eng_log_config *out);
void broker_partition_went_offline(struct broker_partition *partition, enum ot_err why);
/* Mutex held: see `lost`. Without a replication nothing. */
void broker_partition_lose(struct broker_partition *partition);
void broker_partition_tell_internal(struct broker_partition *partition);      /* whoever sits on an internal topic looks again */
void broker_partition_wanted(struct broker_partition *partition);     /* a client asks for it: if its log waits to be opened, it is among the next */
/* heal.c: on the housekeeper's thread, which has not entered the partition. A log that was opened read-only on a full disk, or not at all, is opened again once its directory takes
 * records; true: the partition is busy with it. */
bool broker_partition_heal(struct broker_partition *partition, int64_t now_us);
/* partition.c: one above the leader epoch that the coordinator committed; 0: none is known. */
int32_t broker_partition_leader_epochs(struct broker_partition *partition);
/* partition.c: open it (again), on io_exec; told to opened(arg, err) on home, which may be NULL. Counts as pending work from here. */
OT_MUST_CHECK enum ot_err broker_partition_open(struct broker_partition *partition);
struct broker_partition **broker_partitions_copy(struct broker_core *core, uint32_t *count_out);     /* counted references; free() the array */
/* housekeeping.c, no mutex: the housekeeper's place in a partition, one at a time; false: taken, or the partition is not open */
bool broker_keeper_enter(struct broker_partition *partition);
void broker_keeper_leave(struct broker_partition *partition);
/* registry.c, no mutex */
/* What a client is told of a partition that is not hosted here: NOT_LEADER_OR_FOLLOWER when another broker has it, UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION. */
enum ot_err broker_partition_missing(struct broker *broker, struct ot_str topic, const struct ot_uuid *topic_id, int32_t partition);
OT_MUST_CHECK enum ot_err broker_registry_add(struct broker_core *core, const struct broker_partition_row *row, const struct broker_topic_config *config,
    struct broker_partition **out, bool *is_new_out);
void broker_topic_put(struct broker_topic *topic);
/* decoders, any thread; NULL: no memory */
struct broker_decoder *broker_decoder_take(struct broker_core *core);
void broker_decoder_give(struct broker_core *core, struct broker_decoder *decoder);
/* space.c */
bool broker_space_refuses(struct broker_core *core, uint32_t dir);      /* any thread, cheap */
void broker_space_check(struct broker_core *core);     /* may block: background thread */
/* partition.c: does cordoned.log.dirs name every directory? */
bool broker_all_cordoned(struct broker_core *core);

/* checkpoints.c */
struct broker_found { uint32_t dir; bool folder, taken /* somebody opens it */; int64_t offsets[ENG_CHECKPOINT_COUNT]; /* by enum eng_checkpoint; -1 unknown */ struct broker_found *other; /* of that name */ };
void broker_found_choose(struct broker_core *core, struct broker_partition *partition);        /* puts the right one of several first */
void broker_found_free(struct broker_found *found);                    /* NULL is fine; the others too */
size_t broker_name_key(char out[static 320], const char *topic, int32_t partition);    /* "topic\0" + partition as text */
OT_MUST_CHECK enum ot_err broker_checkpoints_load(struct broker_core *core);
struct timespec broker_until(uint32_t ms);     /* from now, on CLOCK_MONOTONIC: for pthread_cond_clockwait */
void broker_settle_dirs(struct broker_core *core, const struct broker_setup *setup);     /* before any partition opens. Blocks */
void broker_checkpoints_free(struct broker_core *core);
/* Answers the log directories, one bit each, whose files do not say what holds now: failed, offline, or no memory for it. sync: on a full disk the reserve is given for it. */
uint64_t broker_checkpoints_write(struct broker_core *core, bool sync);
/* fetch_session.c */
OT_MUST_CHECK enum ot_err broker_fetch_sessions_new(struct ot_mem_pool *pool /* NULL: 64 MiB of its own */, struct broker_fetch_sessions **out);
void broker_fetch_sessions_free(struct broker_fetch_sessions *sessions);

#endif
