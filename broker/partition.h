/* One partition as this broker holds it: a log, its append lane, its role, and who waits on it.
 *
 * Lock order: partitions registry (read) > partition mutex > nothing. The mutex guards the lane, the producer state, roles and waiter lists; it is never held across
 * anything that can block. High watermark, last stable offset and the log's ends are atomics. References: found partitions are counted and must be put.
 *
 * Durability (architecture.md): `fsync` classes hold the high watermark at flushed_end and ask for flush rounds; see broker/flush.h. */
#ifndef OT_BROKER_PARTITION_H
#define OT_BROKER_PARTITION_H

#include "base/exec.h"
#include "broker/config.h"
#include "engine/log.h"

struct broker;
struct broker_partition;
struct coord_partition;
struct replica_broker;

enum broker_durability { BROKER_DURABILITY_AUTO, BROKER_DURABILITY_REPLICATED, BROKER_DURABILITY_FSYNC, BROKER_DURABILITY_REPLICATED_FSYNC };
const char *broker_durability_name(enum broker_durability durability);

/* ---- registry: who finds partitions. Any thread. ---- */
struct broker_partition *broker_partition_find(struct broker *broker, struct ot_str topic, int32_t partition);        /* counted, or NULL */
struct broker_partition *broker_partition_find_id(struct broker *broker, const struct ot_uuid *topic_id, int32_t partition);
bool broker_topic_known(struct broker *broker, struct ot_str topic, const struct ot_uuid *topic_id /* or NULL */, int32_t *partition_count_out);
struct broker_partition *broker_partition_ref(struct broker_partition *partition);
void broker_partition_put(struct broker_partition *partition);          /* NULL is fine */
/* Calls each for every partition hosted here; the list is copied first, no lock is held during calls. */
void broker_partitions_each(struct broker *broker, void (*each)(void *arg, struct broker_partition *partition), void *arg);

/* ---- from the coordinator's applied states (the coordinator thread only) ---- */
struct broker_partition_row {                  /* what the committed state says */
    struct ot_uuid topic_id;
    const char *topic;
    int32_t partition;
    int32_t leader, leader_epoch, partition_epoch, min_isr;
    const int32_t *isr; int32_t isr_count;
    const int32_t *replicas; int32_t replica_count;
    const struct coord_partition *state;       /* the whole row; NULL: made from the fields above */
    const struct replica_broker *brokers;      /* of each replica, in that order; NULL: all live, with epoch 1 */
    bool internal;
    bool must_exist;                           /* it was here before and a log directory is missing: without its folder it is offline, never begun anew */
    bool anew;                                 /* what lies here under its name is no good: set aside, and begun anew */
};
/* Create or change. Opening the log happens on the I/O pool; opened(arg, err) is posted to home. A partition is found at once but answers
 * until then LEADER_NOT_AVAILABLE (new) or NOT_LEADER_OR_FOLLOWER. config: effective topic config. */
void broker_partition_apply(struct broker *broker, const struct broker_partition_row *row, const struct broker_topic_config *config,
    struct ot_exec *home, void (*opened)(void *arg, enum ot_err err), void *arg);
/* Which brokers live, and in which incarnation: brokers_of(arg, row, out) says it for the replicas of a row. For every partition here. */
void broker_partitions_brokers(struct broker *broker, void (*brokers_of)(void *arg, const struct coord_partition *row, struct replica_broker *out), void *arg);
void broker_partition_configure(struct broker *broker, const struct ot_uuid *topic_id, const struct broker_topic_config *config);    /* all of a topic */
/* Stop serving, answer all waiters UNKNOWN_TOPIC_OR_PARTITION, delete the files in the background. stray: the files are kept, under a name that no partition has. */
void broker_topic_remove(struct broker *broker, const struct ot_uuid *topic_id, bool stray);
/* The same for one partition that lies elsewhere from now on: waiters are told NOT_LEADER_OR_FOLLOWER. One that is not here: nothing. */
void broker_partition_remove(struct broker *broker, const struct ot_uuid *topic_id, int32_t partition, bool stray);
/* Is it here, lost, and by the row of this leader epoch no longer relied upon? Then it is gone from here, and is to be applied as `anew`. */
bool broker_partition_take_lost(struct broker *broker, const struct ot_uuid *topic_id, int32_t partition, int32_t leader_epoch);

/* ---- views, any thread ---- */
/* The last change of the ISR that this broker has seen. at_ms 0: none since it started, or it missed which was the last. */
enum { BROKER_ISR_MAX = 64 };
struct broker_isr_change {
    int64_t at_ms; bool expand; const char *reason; /* static text; NULL: not known */
    int32_t broker;                            /* that left or came, the first of several */
    int32_t from_count, to_count, ids[2 * BROKER_ISR_MAX];     /* the ISR before, and behind it the ISR after; no more of them than there are is kept */
};
struct broker_partition_state {
    struct ot_uuid topic_id; const char *topic; int32_t partition;      /* topic lives as long as the reference */
    bool leader, open, offline;
    int32_t leader_id, leader_epoch, partition_epoch;
    int64_t log_start_offset, high_watermark, last_stable_offset, log_end_offset, flushed_end;
    uint64_t size_bytes; uint32_t segment_count;
    enum broker_durability durability, effective_durability;
    const char *log_dir;
    uint32_t producer_count;
    bool compacts, compacting, uncleanable;    /* cleanup.policy has compact; a run is under way; the last one failed for damage or an I/O error */
    int64_t first_dirty, cleaned_ms, damaged_offset;       /* compacted below; wall time of the last run, 0 none; -1 not known */
    uint64_t dirty_bytes, clean_bytes;         /* at the cleaner's last look */
    enum ot_err cleaner_error;                 /* of the last run */
    int32_t last_epoch;                        /* leader epoch of the last record; -1: none is known */
};
void broker_partition_state(struct broker_partition *partition, struct broker_partition_state *out);
void broker_partition_isr_changed(struct broker_partition *partition, const struct broker_isr_change *change);     /* NULL: what changed it last is not known any more */
void broker_partition_isr_change(struct broker_partition *partition, struct broker_isr_change *out);
/* What a leader knows of the other replicas, in the order of the assignment; how many there are. 0: it does not lead. */
struct broker_follower {
    int32_t broker_id;
    int64_t log_end_offset, flushed_end;       /* acknowledged in this leader epoch; -1: nothing yet */
    int64_t lag;                               /* behind the leader's log end; -1: not known */
    int64_t fetched_ms_ago, caught_up_ms_ago;  /* -1: not in this leader epoch */
};
uint32_t broker_partition_followers(struct broker_partition *partition, struct broker_follower *out, uint32_t max);
uint32_t broker_partition_segments(struct broker_partition *partition, struct eng_segment_info *out, uint32_t max);
uint32_t broker_partition_producers(struct broker_partition *partition, struct eng_producer_view *out, uint32_t max);

#endif
