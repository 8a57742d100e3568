/* Who may lead a partition: the rules of "partition leader election" over one row. Pure functions.
 *
 *   1 the new isr: the fenced and the registering leave it, nobody joins it here
 *   2 the new elr: none if |isr| >= min_isr, else (elr ∪ old isr) \ new isr \ those known to have lost data
 *   3 the leader: the present one if it is in isr and live; else the preferred, else the first live one in isr; else, only if isr is empty, a live elr
 *     member, and isr becomes {it}; else none. leader_epoch grows whenever the leader changes. Of several that may lead, those in maintenance come last
 *   4 isr and elr empty because their members lost data: when the sole replica has come back it leads (no better copy can exist), and the row remembers that
 *     records up to that epoch may be gone. Of several replicas the one with the longest log must be asked for first: contest.h */
#ifndef OT_COORDINATOR_ELECTION_H
#define OT_COORDINATOR_ELECTION_H

#include "coordinator/rows.h"

struct coord_live_broker {
    int32_t id;
    bool live;                                 /* registered, not fenced */
    bool stopping;
    uint32_t rack;                             /* number of its rack; brokers without one share 0 */
    bool draining;                             /* in maintenance: leads only what nobody else can */
    bool leaving;                              /* decommissioned: likewise, and no new replica is placed there */
};
struct coord_live { const struct coord_live_broker *brokers; uint32_t count; };        /* ids ascend */
const struct coord_live_broker *coord_live_find(const struct coord_live *live, int32_t id);
bool coord_live_may_lead(const struct coord_live *live, int32_t id);
/* It may lead, and nobody asked that it does not. */
bool coord_live_should_lead(const struct coord_live *live, int32_t id);
/* Who of the set is to lead, in the order of the replicas: the first that should, else the first that may. -1: nobody. */
int32_t coord_first_live(const struct coord_partition *row, uint64_t set, const struct coord_live *live);

/* A broker that leaves isr: fenced, or registering. lost: its log may lack committed records (after a machine crash, or a missing directory). */
struct coord_leaving {
    int32_t broker_id;
    bool lost;
    bool disk_gone;                            /* a directory is missing: nobody knows what lay there, so durable_since does not count */
};

/* Recompute one row. leaving may be NULL (a broker became live). True when the row changed; partition_epoch was bumped then. version: of the change. */
bool coord_partition_recompute(struct coord_partition *row, const struct coord_live *live, const struct coord_leaving *leaving, int64_t version);
/* A new min.insync.replicas, cut to the number of replicas; lowering it empties elr in the same change. True when the row changed. */
bool coord_partition_set_min_isr(struct coord_partition *row, int32_t min_isr);
/* A new partition: isr are the live ones, in order. No live replica: the row is still made, without a leader and with everybody eligible. */
void coord_partition_found(struct coord_partition *row, const int32_t *replicas, int32_t replica_count, int32_t min_isr, int32_t leader_epoch,
    const struct coord_live *live);

/* ---- placement: replicas over racks in turn, leaders over brokers in turn ---- */
/* The live brokers in an order that changes the rack at each step while it can, as indexes into live->brokers (room for live->count). Returns how many. */
uint32_t coord_place_order(const struct coord_live *live, uint32_t *order_out);
/* Those that would take replicas and are away at the moment, in the order of their ids, likewise. */
uint32_t coord_place_away(const struct coord_live *live, uint32_t *order_out);
/* Replicas of partition `index`. start: where this topic begins (any number). order: the live ones, and behind them those that are away, which stand last and only where the live ones do not
 * suffice, as with Kafka: they are not in sync before they are back. False: nobody lives, or there are fewer brokers than asked. */
bool coord_place(const struct coord_live *live, const uint32_t *order, uint32_t order_count, uint32_t away_count, int32_t replica_count, uint32_t start, int32_t index,
    int32_t *replicas_out);
uint32_t coord_live_count(const struct coord_live *live);     /* that take replicas */

#endif
