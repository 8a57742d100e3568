/* One partition's replication, as leader or follower: the high watermark over the maximal ISR, who joins and leaves the ISR, epochs, divergence, durability classes (§10).
 *
 * Pure: no clock, I/O or memory of its own. The driver steps it under the partition's mutex: it says what was applied, appended, flushed, fetched and answered, and asks what
 * follows (the high watermark, a proposal for the coordinator, a flush that is wanted, a truncation).
 *
 *   committed isr ∪ proposed isr = maximal isr: the high watermark waits for all of it, from the moment something is proposed until a newer partition epoch is
 *   applied or that proposal is refused for good. A time-out clears nothing.
 *
 * units   offsets: records; *_end: the next one to be written. A follower's end counts only once its log was seen to match there, in this leader epoch, from
 *         the broker epoch that the applied version names.
 * thread  under the partition's mutex */
#ifndef OT_COORDINATOR_REPLICA_H
#define OT_COORDINATOR_REPLICA_H

#include "coordinator/rows.h"

enum replica_class { REPLICA_REPLICATED, REPLICA_FSYNC, REPLICA_FSYNC_ALL /* replicated+fsync */, REPLICA_AUTO };
enum replica_role { REPLICA_NONE, REPLICA_FOLLOWER, REPLICA_LEADER };

struct replica_peer {                          /* one for each of row.replicas, in that order */
    int32_t id;
    int64_t broker_epoch;                      /* by the applied version */
    int64_t proposed_epoch;                    /* broker_epoch when the pending proposal was made: the life that was seen to be caught up */
    bool live;                                 /* unfenced and not stopping, by the applied version */
    int64_t end, flushed_end;                  /* acknowledged in this leader epoch; -1: nothing yet */
    int64_t log_start;                         /* of its log when it fetched last in this epoch; -1: nothing yet */
    int64_t fetched_log_end;                   /* the leader's log end when it fetched last */
    uint64_t fetched_us, caught_up_us;
};
/* A leader whose row names a successor: from then on acks=1 is answered once all in sync have it, as acks=all is; so what it answered before, up to `end`, is all that could be lost.
 *
 *   KEEPS ──row.successor──► WAITS ──the successor has `end`──► YIELDS ──a row with another leader
 *     ▲                        │ REPLICA_HANDOVER_US
 *     └──a row without one─────┴──► STAYS (acks=1 as ever)
 *
 * YIELDS and STAYS are final for that row: what was said to the coordinator may come true at any time, and is said again until a row shows that it was heard. */
#define REPLICA_HANDOVER_US UINT64_C(5000000)
enum replica_handover { REPLICA_KEEPS, REPLICA_WAITS, REPLICA_YIELDS, REPLICA_STAYS };
struct replica {
    int32_t self;
    enum replica_role role;
    enum replica_class class_;
    uint64_t lag_us_max;                       /* replica.lag.time.max.ms */
    struct coord_partition row;                /* as applied last */
    bool applied;
    struct replica_peer *peers;                /* the driver's memory, peers_max of them */
    uint32_t peers_max;
    int64_t log_end, flushed_end, high_watermark;
    int64_t answered_end;                      /* the driver's: where what acks=1 may have been answered for ends, though it is not published yet; below log_end: no further than that */
    int64_t joins_from;                        /* the driver's, of a leader that is about to stop: who joins the isr has all that acks=1 was answered for, up to there */
    int64_t epoch_start;                       /* leader: log end when it became that */
    bool flush_wanted;                         /* the high watermark, or a proposal, waits for the disk */
    struct { bool pending; uint64_t isr; int64_t number; } proposal;
    int64_t proposals;                         /* number of the last one */
    struct { enum replica_handover state; int32_t to; int64_t end, number; uint64_t until_us, rests_us; bool finishes; } handover;     /* rests_us: nothing is asked before */
    bool durable_reported; enum coord_durable durable_told;    /* for this row */
};

/* room: memory for as many replicas as the partition may have. high_watermark: from the checkpoint, clamped to the log. */
void replica_init(struct replica *replica, int32_t self, struct replica_peer *room, uint32_t room_count, int64_t log_end, int64_t flushed_end,
    int64_t high_watermark);

/* What a version that was applied says: the row, and broker_epoch and liveness of each replica in its order. Rows whose partition epoch is not newer change
 * liveness and broker epochs only. */
struct replica_broker { int64_t broker_epoch; bool live; };
enum replica_change { REPLICA_SAME, REPLICA_ROW_CHANGED, REPLICA_BECAME_LEADER, REPLICA_BECAME_FOLLOWER, REPLICA_BECAME_NONE };
/* BECAME_LEADER: persist (leader_epoch, log end) in the epoch file before the first append; everything known of followers is forgotten, the high watermark stays.
 * BECAME_FOLLOWER: also of a new epoch of the same leader: what was fetched under the old one is void. TOO_LARGE: more replicas than there is room for. */
OT_MUST_CHECK enum ot_err replica_apply(struct replica *replica, const struct coord_partition *row, const struct replica_broker *brokers, uint64_t now_us,
    enum replica_change *change_out);
void replica_set_class(struct replica *replica, enum replica_class class_);    /* the high watermark stands, a flush is wanted */

/* ---- both */
void replica_appended(struct replica *replica, int64_t log_end);               /* published: readable */
void replica_flushed(struct replica *replica, int64_t flushed_end);            /* of a round that no truncation overtook */
void replica_truncated(struct replica *replica, int64_t log_end);              /* lowers the flushed end, and asserts that nothing committed is cut when it leads */

void replica_restarted(struct replica *replica, int64_t offset);               /* a follower dropped its whole log and goes on at offset, above its old end */

/* ---- leader */
struct replica_fetch {
    int32_t follower; int64_t broker_epoch; int32_t leader_epoch;
    int64_t offset;                            /* its log end */
    int64_t flushed_end;                       /* -1: it does not say */
    bool matches;                              /* replica_diverges was asked and said no */
    int64_t log_start;                         /* -1: it does not say */
};
/* NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH (older), UNKNOWN_LEADER_EPOCH (newer), REPLICA_NOT_AVAILABLE (no replica of this partition), STALE_BROKER_EPOCH (older than
 * applied; or newer: UNKNOWN too, ask again once it is applied). */
OT_MUST_CHECK enum ot_err replica_fetched(struct replica *replica, const struct replica_fetch *fetch, uint64_t now_us);
/* Where all live replicas begin at the latest, this leader's own start given: the least of what each said last. -1: one has not said anything yet. */
int64_t replica_low_watermark(const struct replica *replica, int64_t own_start);
/* May an append that wants acks=all begin? NOT_ENOUGH_REPLICAS. */
OT_MUST_CHECK enum ot_err replica_may_append(const struct replica *replica, bool acks_all);
/* Followers that lag for too long leave: by the clock. Call it every half of lag_us_max or more often. */
void replica_tick(struct replica *replica, uint64_t now_us);
/* Is what acks=1 asks for answered only when all in sync have it? While this leader hands over. */
bool replica_hands_over(const struct replica *replica);
/* Do all of the maximal isr have what lies below? Where the isr is too small the high watermark does not tell it. */
bool replica_all_have(const struct replica *replica, int64_t end);
bool replica_living_have(const struct replica *replica, int64_t end);          /* or are those that do not fenced or stopping, by the applied version? */
uint64_t replica_maximal_isr(const struct replica *replica);
/* What is to be asked of the coordinator, again and again until it is settled, for members as of their proposed_epoch: another life since then is refused (INELIGIBLE_REPLICA),
 * which ends it. Without another isr: a handover that came to its end, or (neither) a move of replicas that the coordinator could finish. False: nothing. */
struct replica_proposal { int64_t number; int32_t leader_epoch, partition_epoch; uint64_t isr; enum coord_handover handover; };
bool replica_proposal(const struct replica *replica, struct replica_proposal *out);
/* The coordinator answered that proposal with an error of its partition. Only INELIGIBLE_REPLICA and INVALID_REQUEST end it: a partition or leader epoch that moved on may have
 * been moved by an earlier copy of this very proposal, and then the new members are in the isr before this leader hears of it. */
void replica_refused(struct replica *replica, int64_t number, enum ot_err error);
/* Is it time to tell the coordinator that the class holds for all that is committed (durable_since)? */
bool replica_durable_due(const struct replica *replica, enum coord_durable *class_out);
void replica_durable_told(struct replica *replica);
/* In force. auto is resolved by the committed isr and the one proposed; a class that durable_since vouches for stays until that is struck out. */
enum replica_class replica_class_now(const struct replica *replica);

/* ---- divergence: by the largest epoch that both know */
struct replica_epoch_end { int32_t epoch; int64_t end; };      /* the largest epoch <= the one asked for (-1: none), and where it ends in that log */
/* The leader's side: the follower has `offset` as its log end, last_epoch as the epoch of its last record (-1: empty); found is of the leader's log. */
bool replica_diverges(int64_t offset, int32_t last_epoch, struct replica_epoch_end found);
/* The follower's side: where to cut. leader: what it named; own: the largest epoch <= that in the own log. Never by the high watermark. */
int64_t replica_cut(struct replica_epoch_end leader, struct replica_epoch_end own);

/* ---- follower */
struct replica_answer { int32_t leader_epoch; int64_t asked_offset; int32_t asked_last_epoch; int64_t high_watermark; };
/* False: the answer is void: of another epoch, or the own log changed since. last_epoch: of the own log's last record now (-1: empty). The end alone is not enough: a log that
 * was cut and grew again to the same end would be cut a second time by a late answer, below what it has acknowledged. */
bool replica_answer_counts(const struct replica *replica, const struct replica_answer *answer, int32_t last_epoch);
void replica_follow_watermark(struct replica *replica, int64_t leader_high_watermark);     /* after the append of an answer */

#endif
