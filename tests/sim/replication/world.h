/* Partitions replicated by real replica machines, under a real coordinator's rows: brokers that crash with and without their page cache, states applied late, fetches and
 * AlterPartitions that come late, twice or never. Logs are arrays of (epoch, id). One seed, one trace. */
#ifndef OT_SIM_REPLICATION_WORLD_H
#define OT_SIM_REPLICATION_WORLD_H

#include "base/util.h"
#include "coordinator/bug.h"
#include "coordinator/coord.h"
#include "coordinator/replica.h"

enum { BROKERS_MAX = 5, PARTITIONS = 2, LOG_MAX = 20000, EVENTS_MAX = 32768, BATCH_MAX = 4 };
#define CHECK(fact) ((fact) ? (void)0 : sim_failed(#fact, __FILE__, __LINE__))
OT_NORETURN void sim_failed(const char *fact, const char *file, int line);

struct record { int32_t epoch; uint64_t id; };
struct held {                                  /* a replica: log and machine */
    struct record *log; int64_t end, flushed, truncations;
    struct replica replica; struct replica_peer room[COORD_REPLICAS_MAX];
    int64_t fetch_number; uint64_t fetch_due_us;       /* the one under way */
    uint64_t propose_due_us;
    int64_t seen_watermark; int32_t seen_epoch;        /* 19: it never goes back in an epoch */
};
struct broker {
    int32_t id;
    bool up, registered, stopping;
    bool lost;                                 /* its machine lost something, and it has not told yet */
    uint64_t life, incarnation;
    enum coord_boot boot;
    int64_t alters;
    int64_t epoch;                             /* -1: not registered in this life */
    int64_t applied_version; struct coord_value applied;
    uint64_t apply_at_us;                      /* states come in order */
    struct held held[PARTITIONS];
};
enum event_kind { EVENT_START, EVENT_APPLY, EVENT_FETCH, EVENT_ANSWER, EVENT_ASK, EVENT_FLUSHED, EVENT_HEARTBEAT };
struct ask {                                   /* to the coordinator: lives until answered */
    struct coord_request request; uint32_t broker, partition; uint64_t life; int64_t number; bool settled;
    struct coord_alter alter; struct coord_member members[COORD_REPLICAS_MAX]; int32_t target[BROKERS_MAX]; struct ot_uuid dir;
    struct coord_endpoint endpoint;
};
struct event {
    enum event_kind kind; uint64_t at_us, order, life; uint32_t broker, from, partition;
    struct coord_value value;                  /* APPLY */
    struct replica_fetch fetch; int32_t last_epoch; int64_t number;        /* FETCH */
    struct replica_answer answer; struct record records[BATCH_MAX]; uint32_t record_count; bool diverges; struct replica_epoch_end cut;     /* ANSWER */
    struct ask *ask;                           /* ASK */
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
    uint32_t losses, losses_max;
    enum replica_class class_; int32_t min_isr;
    uint64_t next_fault_us, next_produce_us;
    struct record *committed[PARTITIONS]; int64_t committed_end[PARTITIONS];
    int32_t *appends_of[PARTITIONS];           /* by epoch: who appended in it, plus one */
    int32_t row_epoch[PARTITIONS], row_leader_epoch[PARTITIONS];
    uint64_t appended, crashes, machine_crashes, elections, truncated, proposals, asks_out, at_calm;
};
extern struct world *sim_world;

void sim_event(struct world *w, const struct event *event);
bool sim_cut(struct world *w, uint32_t from, uint32_t to);     /* lost */
uint64_t sim_delay(struct world *w);
/* brokers.c */
void broker_start(struct world *w, struct broker *broker);
void broker_crash(struct world *w, struct broker *broker, bool machine);
void broker_event(struct world *w, struct event *event);
void broker_look(struct world *w, struct broker *broker);      /* whatever is due */
bool produce(struct world *w);
struct ask *ask_new(struct world *w, struct broker *broker, enum coord_ask kind);
void ask_send(struct world *w, struct ask *ask);
void ask_answered(struct world *w, struct coord_request *request);
/* check.c */
void check_watermark(struct world *w, const struct broker *broker, uint32_t partition);
void check_append(struct world *w, const struct broker *broker, uint32_t partition, int64_t offset);
void check_rows(struct world *w);
void check_end(struct world *w);

#endif
