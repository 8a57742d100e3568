/* Partitions replicated by real replica machines, under a real coordinator's rows: brokers that crash with and without their page cache, pause, come back with an empty disk, states
 * applied late, fetches and AlterPartitions that come late, twice or never, clocks that run at different rates. Logs are arrays of (epoch, id), in a share of the seeds beside the engine's
 * own logs on a simulated disk that is cut off from power at any call (logs.c). Which faults there are, and how much of them, is drawn for each seed. One seed, one trace. */
#ifndef OT_SIM_REPLICATION_WORLD_H
#define OT_SIM_REPLICATION_WORLD_H

#include "base/util.h"
#include "coordinator/bug.h"
#include "coordinator/coord.h"
#include "coordinator/replica.h"
#include "../common/campaign.h"

enum { BROKERS_MAX = 7, PARTITIONS = 2, LOG_MAX = 20000, EVENTS_MAX = 32768, BATCH_MAX = 4, LEDGER_MAX = 256, SESSION_US = 3000000 };
#define PRODUCED (UINT64_C(1) << 62)           /* of ids that the acks=all producer of the partition gave */

struct record { int32_t epoch; uint64_t id; };
struct held {                                  /* a replica: log and machine */
    struct record *log; int64_t end, flushed, truncations;
    struct replica replica; struct replica_peer room[COORD_REPLICAS_MAX];
    int64_t fetch_number; uint64_t fetch_due_us;       /* the one under way */
    uint64_t propose_due_us;
    int64_t seen_watermark; int32_t seen_epoch;        /* 19: it never goes back in an epoch */
    struct eng_log *engine;                    /* NULL: the array is all there is */
    int64_t cutting_to;                        /* a truncation that is under way; -1 */
    int64_t start, told_start;                 /* of the whole: where its log begins, and where somebody was told that it does */
    bool unseen;                               /* of the whole: of this life its log was not looked at yet */
    bool offline;                              /* of the whole: its server lives and has no log to open, as a directory is missing that may hold it */
};
struct files;                                  /* the engine's store of one broker */
struct broker {
    int32_t id;
    bool up, registered, stopping;
    bool tails_lost; uint64_t tails_until_us;  /* stopping: it did not wait until all in sync had what acks=1 acknowledged; how long it does */
    uint64_t paused_until_us; double rate;     /* its clock: now * rate */
    uint32_t dir_number;                       /* another one: it came back with an empty disk */
    int64_t lease_end_us;                      /* by its clock */
    struct files *files;
    bool clean;                                /* it stops because it may */
    bool lost;                                 /* its machine lost something, and it has not told yet */
    uint64_t life, incarnation;
    enum coord_boot boot;
    int64_t alters;
    int64_t epoch;                             /* -1: not registered in this life */
    int64_t applied_version; struct coord_value applied;
    uint64_t apply_at_us;                      /* states come in order */
    struct held held[PARTITIONS];
};
enum event_kind { EVENT_START, EVENT_APPLY, EVENT_FETCH, EVENT_ANSWER, EVENT_ASK, EVENT_FLUSHED, EVENT_HEARTBEAT,
    EVENT_LINK_ASKED, EVENT_LINK_ANSWERED, EVENT_LINK_CLOSED, EVENT_TOLD      /* of the whole */ };
/* An idempotent producer with acks=all, one record in flight. */
struct producer { uint64_t id; bool open, placed; uint32_t broker; uint64_t life; int32_t epoch; int64_t offset; uint64_t give_up_us; uint64_t acked; };
struct swarm {
    bool engine, strict, beyond, pauses, storms, wipes, min_flips, class_flips, moves, stops, cuts_power, doubles, unclean /* elections, in what goes beyond */, deletes, retains /* of the whole */;
    double twice, rate_spread;
};
struct ask {                                   /* to the coordinator: lives until answered */
    struct coord_request request; uint32_t broker, partition; uint64_t life; int64_t number; bool settled; int64_t sent_us;
    struct coord_alter alter; struct coord_report report; struct coord_prefer prefer; struct coord_member members[COORD_REPLICAS_MAX]; int32_t target[BROKERS_MAX]; struct ot_uuid dir;
    struct coord_endpoint endpoint; struct coord_config_change change;
};
struct event {
    enum event_kind kind; uint64_t at_us, order, life; uint32_t broker, from, partition;
    struct coord_value value;                  /* APPLY */
    struct replica_fetch fetch; int32_t last_epoch; int64_t number;        /* FETCH */
    struct replica_answer answer; struct record records[BATCH_MAX]; uint32_t record_count; bool diverges; struct replica_epoch_end cut;     /* ANSWER */
    struct ask *ask;                           /* ASK, TOLD */
    void *link;                                /* LINK_ */
    int64_t flushed, truncations;              /* FLUSHED */
};
struct world {
    uint64_t seed, now_us, order, trace, ids;
    struct ot_rng rng;
    struct coord *coord; struct coord_pages *pages;
    struct ot_uuid topic; bool topic_made;
    struct broker brokers[BROKERS_MAX]; uint32_t broker_count;
    struct event *events; uint32_t event_count;
    bool cut[BROKERS_MAX + 1][BROKERS_MAX + 1];        /* the last one is the coordinator */
    double drop, slow;
    bool calm, verbose;
    bool lane;                                 /* records are in a log before the machine hears of them */
    struct swarm swarm;
    struct producer producers[PARTITIONS];
    uint32_t losses, losses_max, doubled /* of the whole: places of brokers that doubles took, over another disk */;
    enum replica_class class_; int32_t min_isr;
    uint64_t next_fault_us, next_produce_us;
    struct record *committed[PARTITIONS]; int64_t committed_end[PARTITIONS];
    int32_t *appends_of[PARTITIONS];           /* by epoch: who appended in it, plus one */
    int32_t last_append_epoch[PARTITIONS];
    uint64_t *once[PARTITIONS];                /* by offset: what a leader acknowledged as soon as it had it (acks=1) */
    int64_t *moved_end[PARTITIONS];            /* by epoch: it ended because its leader, which lived, was moved; up to where its successor had the same, plus one. 0: it did not */
    int64_t committed_most[PARTITIONS], deleted_to[PARTITIONS];        /* of the whole: committed_end before anything was lost; what somebody asked to delete */
    int64_t rows_version;                      /* looked at last */
    struct { int32_t epoch; int64_t from; } ledger[PARTITIONS][LEDGER_MAX]; uint32_t ledger_count[PARTITIONS];     /* what rows said may be lost: epochs up to this, from there without end */
    struct coord_partition rows[PARTITIONS]; bool rows_seen;
    uint64_t appended, crashes, machine_crashes, doubles, elections, truncated, proposals, asks_out, at_calm, acked, acked_once /* acks=1 */, moved, lost, wiped, power_cuts, read;
};
/* events.c */
void sim_event(struct world *w, const struct event *event);
bool sim_event_next(struct world *w, uint64_t before_us, struct event *out);
/* main.c */
bool sim_cut(struct world *w, uint32_t from, uint32_t to);     /* lost */
uint64_t sim_delay(struct world *w);
bool sim_may_lose(const struct world *w);      /* one more machine may forget what it has not flushed */
bool sim_may_double(const struct world *w);    /* of the whole: one more double may take a place */
int64_t sim_clock_us(const struct world *w, const struct broker *broker);
/* operator.c */
void operate_make_topic(struct world *w);
void operate_configure(struct world *w);       /* durability class, min.insync.replicas */
void operate_move(struct world *w);            /* to the preferred leader, or other replicas */
void operate_recover(struct world *w, uint32_t partition);     /* when nobody is left in isr and elr */
/* brokers.c */
void broker_start(struct world *w, struct broker *broker);
void broker_crash(struct world *w, struct broker *broker, bool machine);
void sim_broker_event(struct world *w, struct event *event);
void broker_look(struct world *w, struct broker *broker);      /* whatever is due */
void broker_goes(struct world *w, struct broker *broker);      /* it hands over, and goes when all know */
void broker_wipe(struct world *w, struct broker *broker);      /* it is down */
bool produce(struct world *w);
void produce_acked(struct world *w, uint32_t partition);       /* the producer with acks=all goes on */
struct ask *ask_new(struct world *w, struct broker *broker, enum coord_ask kind);
void ask_send(struct world *w, struct ask *ask);
void ask_answered(struct world *w, struct coord_request *request);
/* logs.c: what the array says is done to the engine's log, if there is one. False: the power went off, and the broker is down. */
bool logs_open(struct world *w, struct broker *broker);        /* and the arrays are what came up */
bool logs_append(struct world *w, struct broker *broker, uint32_t partition, struct record record);
bool logs_cut(struct world *w, struct broker *broker, uint32_t partition, int64_t to);
bool logs_flush(struct world *w, struct broker *broker, uint32_t partition);
bool logs_drop(struct world *w, struct broker *broker, uint32_t partition);    /* no replica any more: the files go */
void logs_crash(struct world *w, struct broker *broker, bool machine);
void logs_wipe(struct world *w, struct broker *broker);
void logs_checkpoint(struct world *w, struct broker *broker);
void logs_calm(struct broker *broker);         /* the power stays on */
void logs_free(struct broker *broker);
uint64_t logs_hash(const struct broker *broker);
struct replica_epoch_end logs_epoch_end(const struct held *held, int32_t epoch);
int32_t logs_last_epoch(const struct held *held);
void logs_check_read(struct world *w, const struct broker *broker, uint32_t partition, int64_t from, int64_t to);      /* the engine reads what the array has */
/* check.c */
void check_follower(struct world *w, const struct broker *broker, uint32_t partition);
void check_watermark(struct world *w, const struct broker *broker, uint32_t partition);
void check_append(struct world *w, const struct broker *broker, uint32_t partition, int64_t offset);
void check_rows(struct world *w, const struct coord_value *view);
void check_once(struct world *w, const struct broker *broker, uint32_t partition);      /* the last record was acknowledged just now, with acks=1 */
void check_start(const struct world *w, const struct held *held, uint32_t partition);   /* of the whole: a log begins somewhere else */
void check_end(struct world *w);

#endif
