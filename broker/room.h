/* Private to broker/: the broker as a whole. core.h has the half that holds partitions; here is the half that the coordinator feeds. */
#ifndef OT_BROKER_ROOM_H
#define OT_BROKER_ROOM_H

#include "broker/coordinator.h"
#include "base/mem.h"
#include "broker/core.h"
#include "broker/elections.h"
#include "broker/events_inner.h"
#include "broker/peer_rest.h"
#include "broker/peers_inner.h"
#include "broker/shard_inner.h"
#include "broker/telemetry.h"
#include "broker/view.h"

/* ---- views: the committed states that readers hold ---- */
struct broker_view {
    uint32_t refs;                             /* guarded by the mutex */
    struct broker_view *next;                  /* among the retired */
    struct broker_views *views;
    struct coord_value value;
    int32_t controller_id, term, this_broker;
    struct broker_view_live { int32_t id; bool fenced, draining, leaving; } *brokers; uint32_t broker_count;      /* ascending */
};
struct broker_views { pthread_mutex_t mutex; struct broker_view *current, *retired; };
void broker_views_init(struct broker_views *views);
/* On the coordinator's thread: a new current view; retired ones that nobody holds are given back. NO_MEMORY: the old one stays. */
OT_MUST_CHECK enum ot_err broker_views_publish(struct broker_views *views, const struct coord_value *value, int32_t controller_id, int32_t term, int32_t this_broker);
void broker_views_free(struct broker_views *views);        /* nobody holds one any more */

/* ---- producer ids ---- */
struct broker_producer_ids {
    pthread_mutex_t mutex;
    int64_t next, end;                         /* of the present block */
    int64_t floor;                             /* nothing below is given out */
    int64_t spare_first, spare_end;            /* fetched ahead of need; equal: none */
    bool asking;
    struct broker_ask ask;
    struct broker_producer_id *first, **last;  /* who waits for a block */
};
void broker_producer_ids_init(struct broker *broker);
void broker_producer_ids_free(struct broker *broker);

/* admin.c: one of the topics that the system keeps for itself. */
bool broker_topic_name_internal(struct ot_str name);

/* ---- scrub.c: a thread of its own */
struct broker_scrub { struct ot_exec_thread *thread; struct ot_task task; pthread_mutex_t mutex; pthread_cond_t changed; bool stopping /* guarded */; int64_t due_us; };
void broker_scrub_init(struct broker *broker);
void broker_scrub_free(struct broker *broker);
void broker_scrub_start(struct broker *broker);
void broker_scrub_stop(struct broker *broker);         /* before logs are closed; waits for what it reads now */

/* ---- jobs.c ---- */
struct broker_job;
struct broker_jobs {
    pthread_mutex_t mutex;
    struct broker_job *newest; uint32_t count, waiting;        /* waiting: not ended */
    uint64_t last;
    struct ot_exec_thread *thread;             /* NULL until the first job */
    bool stopping;
};
void broker_jobs_init(struct broker *broker);
void broker_jobs_stop(struct broker *broker);          /* cancels all and waits for the one that runs: before logs are closed */
void broker_jobs_free(struct broker *broker);

struct broker_auto { pthread_mutex_t mutex; struct ot_map names; };    /* being created now */

/* Of all machines together (txn.c). */
struct broker_txn_totals { _Atomic int64_t open, late; struct ot_series *committed, *aborted, *timed_out, *fenced; };
void broker_txns_init(struct broker *broker);          /* before the first shard */
/* ---- groups: totals over all shards */
struct broker_groups {
    struct ot_mem_pool own_pool, *pool;        /* own_pool: when the setup brings none */
    _Atomic int64_t groups[4], members, offsets, rebalancing;
    _Atomic uint64_t rebalances, expired_offsets, expired_members;
    pthread_mutex_t mutex;                     /* of what follows */
    struct broker_group_expiry *expiries; uint64_t expiry_count;       /* a ring of BROKER_GROUP_EXPIRIES */
    struct broker_group_lags *lags;            /* the last look; NULL: none yet */
    struct broker_groups_look *look;           /* under way, or kept for the next */
    int64_t look_due_us;
    bool watched;                              /* the mutex is there */
    uint32_t tells_left; int64_t told_us;      /* events of groups that may be told now */
};

/* ---- member.c: this broker's place in the cluster ---- */
struct broker_member {                         /* of the coordinator's thread, but for what is marked */
    struct ot_timer timer;
    struct ot_task begin_task, serve_task, leave_task;
    struct broker_ask ask;
    bool asking, registering, begun, serving, leaving, ended;
    int64_t sent_us;
    struct ot_uuid incarnation_id;
    struct coord_endpoint endpoints[16]; uint32_t endpoint_count;
    uint64_t endpoints_version, asked_version, told_version;   /* they change with the listeners; the coordinator is told until it knows the newest */
    struct broker_moved *moved;                /* what the endpoints borrow since the start, all of it: an ask under way may still */
    struct ot_uuid dirs[BROKER_DIRS_MAX]; uint32_t dir_count;
    pthread_mutex_t mutex; pthread_cond_t changed;
    int64_t tails_end_us, gone_end_us;         /* leaving: until when the ends of logs are waited for (0: no more), and until when if only those lack them that are gone or stop, too */
    bool may_stop;                             /* guarded */
    bool electable;                            /* guarded: it was told once that it may lead */
    int64_t answered_us;                       /* guarded: the last time that the coordinator answered */
};
/* Waits on changed, at most a tenth of a second where somebody else is waited for. The mutex is held. */
void broker_wait_a_little(struct broker *broker, pthread_mutex_t *mutex, pthread_cond_t *changed);
void broker_member_init(struct broker *broker);
void broker_member_free(struct broker *broker);
struct broker_identity;
/* Until it is registered and has applied that; blocks. CANCELLED: the server is to stop. */
struct broker_evidence { enum coord_boot boot; int64_t stopped_epoch; /* that all clean markers name; 0: there is none */ };
OT_MUST_CHECK enum ot_err broker_member_register(struct broker *broker, const struct broker_identity *identity, const struct broker_evidence *evidence);
void broker_member_serve(struct broker *broker);           /* it may lead from here on; blocks until the coordinator said so when it is alone */
void broker_readmit_look(struct broker *broker);           /* readmit.c: does the cluster know this voter by another directory? On the coordinator's thread */
bool broker_member_electable(struct broker *broker);       /* since the start it was told so once; any thread */
bool broker_member_cut_off(struct broker *broker);         /* no coordinator has answered for a session; any thread */
void broker_member_leave(struct broker *broker);           /* hands over what it leads; blocks, bounded */
/* Leaving: from the first on acks=1 is answered as acks=all is; the others are the coordinator's thread. The last: may others lead, as far as what was answered before goes?
 * tails_end_us is 0 when they may only because the time for it is over. */
void broker_tails_begin(struct broker *broker);
void broker_tails_wait(struct broker *broker);
bool broker_tails_settled(struct broker *broker);
/* ottla.leader.lease=strict: there is none before a heartbeat of this life, sent then, was answered. It is of the shorter one of the sessions here and of the coordinator that answered (0: that one
 * does not say): while the setting is being changed they differ. Else nothing. */
void broker_lease_begin(struct broker *broker);
void broker_lease_renew(struct broker *broker, int64_t sent_us, uint64_t told_session_us);
void broker_member_end(void *arg /* the broker */);         /* on the coordinator's thread: no further heartbeat */
void broker_member_applied(struct broker *broker, struct ot_blob delta);   /* on the coordinator's thread */

enum broker_stage { BROKER_STARTING, BROKER_SERVING, BROKER_STOPPING, BROKER_HALTED };
struct broker {
    struct broker_core core;                   /* first: broker_core_of */
    struct broker_setup setup;
    struct broker_coordinator *coordinator;
    struct broker_peers *peers;                /* NULL: there are none */
    struct broker_replication_links *replication;          /* likewise */
    struct broker_member member;
    struct { struct broker_ask ask; bool asking; } readmit;    /* of the coordinator's thread */
    struct broker_elections elections;
    struct broker_views views;
    struct broker_producer_ids producer_ids;
    struct broker_auto auto_creates;
    struct broker_telemetry telemetry;
    struct broker_jobs jobs;
    struct broker_scrub scrub;
    struct broker_txn_totals txns;
    struct broker_shards shards;
    struct broker_groups groups;
    struct broker_events *events;
    struct { pthread_mutex_t mutex; bool open; struct broker_rest_door door; } rest;
    _Atomic int stage;
    _Atomic(const char *) halted_text; char halted_words[COORD_TEXT_MAX];      /* written before stage */
    int32_t node_id;
    _Atomic int64_t broker_epoch;
    int64_t started_wall_ms, started_us;
    struct broker_identity *identity;          /* between make and begin */
    uint32_t meta_dir;                         /* index of the log directory that holds the metadata */
    char *meta_path;
    bool applying;                             /* coordinator's thread: committed states go to the partitions */
    bool has_core, has_store, flushed, first_start;
    struct ot_uuid dir_ids[BROKER_DIRS_MAX];   /* of the log directories, by index */
    struct broker_ask open_ask;                /* answered when every partition of the start is open */
    struct { pthread_mutex_t mutex; pthread_cond_t changed; bool founded /* there is a cluster */, failed, opened; int64_t applied /* version; of the thread that begins */; } starting;
};

/* apply.c, on the coordinator's thread: carry a committed state into configs and partitions. */
void broker_apply_configs(struct broker *broker, const struct coord_value *value);     /* all dynamic broker configs */
void broker_apply_all(struct broker *broker, const struct coord_value *value, bool first /* of this life: a partition may have been here before */, struct broker_batch *batch);
bool broker_apply_in_rack(struct broker_core *core, int32_t broker_id, struct ot_str rack);      /* core.broker_in_rack */
bool broker_apply_exists(struct broker_core *core, struct ot_str topic, const struct ot_uuid *topic_id, int32_t partition);     /* core.partition_exists */
void broker_apply_delta(struct broker *broker, const struct coord_value *value, struct ot_blob delta, struct broker_batch *batch);
void broker_apply_defaults(struct broker *broker, const struct coord_value *value);    /* the broker's values changed: topics take their defaults from them */
/* Anything may differ from what was before (the state that before has, or NULL). */
void broker_apply_whole(struct broker *broker, const struct coord_value *before, const struct coord_value *value, struct broker_batch *batch);

/* evidence.c (coordinator.md §7): what the last life left behind. */
OT_MUST_CHECK enum ot_err broker_evidence_judge(struct broker *broker, struct broker_evidence *out);
/* Once the registration that reports it is committed, and before anything is written: the markers go, meta.boot is of this life. May block. */
OT_MUST_CHECK enum ot_err broker_evidence_renew(struct broker *broker);
/* Before any log is opened: of partitions that lie in a directory that was away, and in one that was not, the first are set aside; then meta.dirs says what is there now. May block. */
OT_MUST_CHECK enum ot_err broker_evidence_returned(struct broker *broker);
bool broker_evidence_dirs(struct broker *broker);          /* writes meta.dirs; false: it could not. May block */

/* cluster_metrics.c: the series that describe the cluster, filled from the current view when they are read. Once, after the partitions are open. */
void broker_metrics_cluster_watch(struct broker *broker);

/* identity.c: whose directories are these? MISMATCH with words that name both. */
struct broker_identity { char cluster_id[64]; struct ot_uuid dir_ids[BROKER_DIRS_MAX]; bool formatted[BROKER_DIRS_MAX]; };
OT_MUST_CHECK enum ot_err broker_identity_find(struct broker *broker, char *text, size_t text_bytes);      /* where the metadata lies or will lie: meta_dir, meta_path */
OT_MUST_CHECK enum ot_err broker_identity_check(struct broker *broker, const struct coord_disk_image *image, struct broker_identity *identity, char *text,
    size_t text_bytes);
OT_MUST_CHECK enum ot_err broker_identity_write(struct broker *broker, const struct broker_identity *identity);
/* Folders of topics that are gone from the committed state for good, and of replicas that are elsewhere by it. The value has this broker's own registration. */
void broker_identity_sweep(struct broker *broker, const struct coord_value *value);

/* groups.c, groups_metrics.c, groups_expiries.c, groups_events.c, groups_watch.c */
extern const struct broker_shard_kind broker_groups_kind;
void broker_groups_init(struct broker *broker);
/* What a shard had changed from one to the other: the totals follow. */
struct group_set_counts;
void broker_groups_count(struct broker *broker, const struct group_set_counts *before, const struct group_set_counts *now);
struct group_expiry;
void broker_groups_expired(struct broker *broker, const struct group_expiry *expired, int64_t wall_ms);
struct group_out;
void broker_groups_tell(struct broker *broker, const struct group_out *out);  /* rebalances that ended, and offsets that expired, as events */
void broker_groups_ticked(struct broker_core *core, int64_t now_us);   /* on the housekeeper's thread: looks at all groups now and then */
void broker_groups_free(struct broker *broker);        /* no thread is left inside */

#define BROKER_META_FOLDER "__ottla_meta"

#endif
