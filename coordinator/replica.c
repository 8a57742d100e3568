#include "coordinator/replica.h"
#include "coordinator/bug.h"
#include <string.h>

void replica_init(struct replica *replica, int32_t self, struct replica_peer *room, uint32_t room_count, int64_t log_end, int64_t flushed_end,
    int64_t high_watermark)
{
    *replica = (struct replica){ .self = self, .peers = room, .peers_max = room_count, .log_end = log_end, .flushed_end = OT_MIN(flushed_end, log_end),
        .high_watermark = OT_MIN(high_watermark, log_end), .lag_us_max = UINT64_C(30000000) };
}

static struct replica_peer *peer_of(struct replica *replica, int32_t id)
{
    for (int32_t i = 0; i < replica->row.replica_count; i++) {
        if (replica->peers[i].id == id) {
            return &replica->peers[i];
        }
    }
    return NULL;
}

static bool in_set(const struct replica *replica, uint64_t set, int32_t index) { (void)replica; return (set >> index & 1) != 0; }

/* ---- classes */

uint64_t replica_maximal_isr(const struct replica *replica)
{
    return replica->row.isr | (replica->proposal.pending && !COORD_BUG(COMMITTED_ISR_ONLY) ? replica->proposal.isr : 0);
}

static bool have(const struct replica *replica, int64_t end, bool living)
{
    const uint64_t isr = replica_maximal_isr(replica);
    for (int32_t i = 0; i < replica->row.replica_count; i++) {
        const struct replica_peer *peer = &replica->peers[i];
        if (in_set(replica, isr, i) && (peer->live || !living) && (peer->id == replica->self ? replica->log_end : peer->end) < end) {
            return false;
        }
    }
    return true;
}

bool replica_all_have(const struct replica *replica, int64_t end) { return have(replica, end, false); }
bool replica_living_have(const struct replica *replica, int64_t end) { return have(replica, end, true); }

/* What the configuration asks for; auto resolved. */
static enum replica_class class_wanted(const struct replica *replica)
{
    if (replica->class_ != REPLICA_AUTO) {
        return replica->class_;
    }
    bool alone = __builtin_popcountll(replica->row.isr) <= 1;
    bool soon_alone = replica->proposal.pending && __builtin_popcountll(replica->proposal.isr) <= 1;       /* a proposed second one does not count yet */
    return alone || soon_alone ? REPLICA_FSYNC : REPLICA_REPLICATED;
}

/* As long as the row says that a disk holds all that is committed, it has to: a class is left when the coordinator has struck that out, not before. */
enum replica_class replica_class_now(const struct replica *replica)
{
    enum replica_class wanted = class_wanted(replica);
    if (!replica->applied || replica->row.durable_since < 0 || COORD_BUG(CLASS_LEFT_EARLY)) {
        return wanted;
    }
    if (replica->row.durable_class == COORD_DURABLE_ALL) {
        return REPLICA_FSYNC_ALL;
    }
    return replica->row.durable_class == COORD_DURABLE_LEADER && wanted == REPLICA_REPLICATED ? REPLICA_FSYNC : wanted;
}

static int64_t end_of(const struct replica *replica, int32_t index, enum replica_class class_)
{
    const struct replica_peer *peer = &replica->peers[index];
    if (COORD_BUG(FLUSH_IGNORED) || (COORD_BUG(FOLLOWERS_UNFLUSHED) && peer->id != replica->self)) {
        class_ = REPLICA_REPLICATED;
    }
    if (peer->id == replica->self) {
        return class_ == REPLICA_REPLICATED ? replica->log_end : replica->flushed_end;
    }
    return class_ == REPLICA_FSYNC_ALL ? peer->flushed_end : peer->end;
}

/* ---- the high watermark: the least end over the maximal isr, while the committed one is large enough */

static void advance(struct replica *replica)
{
    if (replica->role != REPLICA_LEADER || (__builtin_popcountll(replica->row.isr) < replica->row.min_isr && !COORD_BUG(SMALL_ISR))) {
        return;
    }
    enum replica_class class_ = replica_class_now(replica);
    uint64_t isr = replica_maximal_isr(replica);
    int64_t least = INT64_MAX, least_in_memory = INT64_MAX;
    for (int32_t i = 0; i < replica->row.replica_count; i++) {
        if (in_set(replica, isr, i)) {
            least = OT_MIN(least, end_of(replica, i, class_));
            least_in_memory = OT_MIN(least_in_memory, end_of(replica, i, REPLICA_REPLICATED));
        }
    }
    if (least != INT64_MAX && least >= 0 && (least > replica->high_watermark || COORD_BUG(WATERMARK_BACK))) {
        replica->high_watermark = least;
    }
    if (class_ != REPLICA_REPLICATED && replica->flushed_end < OT_MIN(least_in_memory, replica->log_end)) {
        replica->flush_wanted = true;
    }
}

/* ---- handing over */

bool replica_hands_over(const struct replica *replica)
{
    return replica->role == REPLICA_LEADER && (replica->handover.state == REPLICA_WAITS || replica->handover.state == REPLICA_YIELDS) && !COORD_BUG(ACKS_WHILE_MOVING);
}

static void handover_goes_on(struct replica *replica, uint64_t now_us)
{
    if (replica->role != REPLICA_LEADER || replica->handover.state != REPLICA_WAITS) {
        return;
    }
    const struct replica_peer *to = peer_of(replica, replica->handover.to);
    if (to->end >= replica->handover.end || COORD_BUG(HANDS_OVER_EARLY)) {
        replica->handover.state = REPLICA_YIELDS;
    } else if (now_us >= replica->handover.until_us) {
        replica->handover.state = REPLICA_STAYS;
        replica->handover.rests_us = now_us + replica->lag_us_max;         /* by then it caught up, or is in sync no more */
    }
}

/* The row is new. */
static void handover_begin(struct replica *replica, bool new_epoch, uint64_t now_us)
{
    const bool named = replica->role == REPLICA_LEADER && replica->row.successor != 0;
    const int32_t to = named ? replica->row.replicas[__builtin_ctzll(replica->row.successor)] : -1;
    replica->handover.finishes = false;
    if (!named) {
        replica->handover.state = REPLICA_KEEPS;
    } else if (new_epoch || replica->handover.state == REPLICA_KEEPS || replica->handover.to != to) {
        replica->handover.state = REPLICA_WAITS;
        replica->handover.to = to;
        replica->handover.end = OT_MAX(replica->log_end, replica->answered_end);
        replica->handover.until_us = now_us + REPLICA_HANDOVER_US;
        replica->handover.number = ++replica->proposals;
    }
    handover_goes_on(replica, now_us);
}

/* Who led before may have died, or given up, when the move was at its end but for that. */
static void finish_by_and_by(struct replica *replica, uint64_t now_us)
{
    const bool due = coord_move_is_ready(&replica->row) && replica->row.successor == 0 && now_us >= replica->handover.rests_us;
    if (!due || replica->handover.finishes || replica->proposal.pending) {
        return;
    }
    replica->handover.finishes = true;
    replica->handover.number = ++replica->proposals;
    replica->handover.rests_us = now_us + replica->lag_us_max;
}

/* ---- proposals */

/* Somebody who was not heard of for so long that it would have to leave again does not join, whatever it has. */
static bool may_join(const struct replica *replica, int32_t index, uint64_t now_us)
{
    const struct replica_peer *peer = &replica->peers[index];
    int64_t end = end_of(replica, index, replica_class_now(replica));
    return peer->id != replica->self && peer->live && now_us <= peer->fetched_us + replica->lag_us_max && end >= 0 && peer->end >= replica->joins_from && (end >= replica->high_watermark || COORD_BUG(JOINS_BEHIND))
        && (end >= replica->epoch_start || COORD_BUG(JOINS_BELOW_START) || COORD_BUG(JOINS_BEHIND));
}

static void propose(struct replica *replica, uint64_t isr)
{
    if (replica->proposal.pending || isr == replica->row.isr) {
        return;
    }
    replica->proposal.pending = true;
    replica->proposal.isr = isr;
    replica->proposal.number = ++replica->proposals;
    for (int32_t i = 0; i < replica->row.replica_count; i++) {
        replica->peers[i].proposed_epoch = replica->peers[i].broker_epoch;
    }
    advance(replica);
}

static void maybe_expand(struct replica *replica, uint64_t now_us)
{
    uint64_t isr = replica->row.isr;
    if (replica->role != REPLICA_LEADER || replica->proposal.pending) {
        return;
    }
    for (int32_t i = 0; i < replica->row.replica_count; i++) {
        if (!in_set(replica, isr, i) && may_join(replica, i, now_us)) {
            isr |= UINT64_C(1) << i;
        }
    }
    propose(replica, isr);
}

void replica_tick(struct replica *replica, uint64_t now_us)
{
    uint64_t isr = replica->row.isr;
    if (COORD_BUG(TIMEOUT_CLEARS) && replica->proposal.pending && now_us % 7 == 0) {
        replica->proposal.pending = false;
        advance(replica);
    }
    handover_goes_on(replica, now_us);
    if (replica->role != REPLICA_LEADER || replica->proposal.pending) {
        return;
    }
    finish_by_and_by(replica, now_us);
    for (int32_t i = 0; i < replica->row.replica_count; i++) {
        const struct replica_peer *peer = &replica->peers[i];
        bool behind = peer->end < replica->log_end || now_us - peer->fetched_us > replica->lag_us_max;
        if (in_set(replica, isr, i) && peer->id != replica->self && behind && now_us > peer->caught_up_us && now_us - peer->caught_up_us > replica->lag_us_max) {
            isr &= ~(UINT64_C(1) << i);
        }
    }
    if (isr == replica->row.isr) {
        maybe_expand(replica, now_us);
        return;
    }
    if (replica->class_ == REPLICA_AUTO && __builtin_popcountll(isr) <= 1 && replica->flushed_end < replica->high_watermark) {
        replica->flush_wanted = true;          /* about to be alone: what was acknowledged goes to the disk first */
        return;
    }
    propose(replica, isr);
}

bool replica_proposal(const struct replica *replica, struct replica_proposal *out)
{
    const enum replica_handover state = replica->handover.state;
    if (replica->role != REPLICA_LEADER) {
        return false;
    }
    *out = (struct replica_proposal){ replica->proposal.number, replica->row.leader_epoch, replica->row.partition_epoch, replica->proposal.isr, COORD_STAYS };
    if (replica->proposal.pending) {
        return true;
    }
    out->number = replica->handover.number;
    out->isr = replica->row.isr;
    out->handover = state == REPLICA_YIELDS ? COORD_HANDS_OVER : state == REPLICA_STAYS ? COORD_GIVES_UP : COORD_STAYS;
    return out->handover != COORD_STAYS || replica->handover.finishes;
}

void replica_refused(struct replica *replica, int64_t number, enum ot_err error)
{
    bool ends = error == OT_ERR_INELIGIBLE_REPLICA || error == OT_ERR_INVALID_REQUEST || COORD_BUG(ANY_REFUSAL_ENDS);
    if (ends && !COORD_BUG(REFUSAL_LOST) && replica->proposal.pending && replica->proposal.number == number) {
        replica->proposal.pending = false;
        advance(replica);
    }
}

/* ---- what the coordinator published */

static void load_peers(struct replica *replica, const struct coord_partition *row, const struct replica_broker *brokers)
{
    struct replica_peer old[COORD_REPLICAS_MAX];
    int32_t old_count = replica->applied ? replica->row.replica_count : 0;
    memcpy(old, replica->peers, (size_t)old_count * sizeof old[0]);
    for (int32_t i = 0; i < row->replica_count; i++) {
        struct replica_peer fresh = { .id = row->replicas[i], .end = -1, .flushed_end = -1, .log_start = -1 };
        for (int32_t j = 0; j < old_count; j++) {
            if (old[j].id != row->replicas[i]) {
                continue;
            }
            fresh.proposed_epoch = old[j].proposed_epoch;
            if (old[j].broker_epoch == brokers[i].broker_epoch) {
                fresh = old[j];                /* another incarnation has to show its log anew */
            }
        }
        fresh.broker_epoch = brokers[i].broker_epoch;
        fresh.live = brokers[i].live;
        replica->peers[i] = fresh;
    }
}

static void lead(struct replica *replica, uint64_t now_us)
{
    replica->role = REPLICA_LEADER;
    replica->epoch_start = replica->log_end;
    replica->durable_reported = false;
    for (int32_t i = 0; i < replica->row.replica_count; i++) {
        struct replica_peer *peer = &replica->peers[i];
        peer->end = peer->flushed_end = peer->fetched_log_end = peer->log_start = -1;
        peer->fetched_us = peer->caught_up_us = now_us;        /* everybody gets the full time to show up */
    }
}

static enum replica_change follow_or_none(struct replica *replica)
{
    replica->role = replica->row.leader == -1 ? REPLICA_NONE : REPLICA_FOLLOWER;
    return replica->role == REPLICA_NONE ? REPLICA_BECAME_NONE : REPLICA_BECAME_FOLLOWER;
}

enum ot_err replica_apply(struct replica *replica, const struct coord_partition *row, const struct replica_broker *brokers, uint64_t now_us,
    enum replica_change *change_out)
{
    *change_out = REPLICA_SAME;
    if (row->replica_count < 0 || (uint32_t)row->replica_count > replica->peers_max || row->replica_count > COORD_REPLICAS_MAX) {
        return OT_ERR_TOO_LARGE;
    }
    bool newer = !replica->applied || row->partition_epoch > replica->row.partition_epoch;
    if (!newer) {
        load_peers(replica, &replica->row, brokers);
        maybe_expand(replica, now_us);
        return OT_OK;
    }
    bool new_epoch = !replica->applied || row->leader_epoch > replica->row.leader_epoch;
    bool new_class = replica->applied && (row->durable_since < 0 || row->durable_class != replica->row.durable_class);      /* struck out, or of another class */
    load_peers(replica, row, brokers);
    replica->row = *row;
    replica->applied = true;
    replica->proposal.pending = false;
    replica->durable_reported &= !new_class;
    *change_out = REPLICA_ROW_CHANGED;
    if (new_epoch) {
        if (row->leader == replica->self) {
            lead(replica, now_us);
            *change_out = REPLICA_BECAME_LEADER;
        } else {
            *change_out = follow_or_none(replica);
        }
    }
    advance(replica);
    handover_begin(replica, new_epoch, now_us);
    maybe_expand(replica, now_us);
    return OT_OK;
}

void replica_set_class(struct replica *replica, enum replica_class class_)
{
    if (replica->class_ != class_) {
        replica->class_ = class_;
        replica->durable_reported = false;
        replica->flush_wanted |= replica_class_now(replica) != REPLICA_REPLICATED && replica->flushed_end < replica->log_end;
        advance(replica);
    }
}

/* ---- the own log */

void replica_appended(struct replica *replica, int64_t log_end)
{
    OT_ASSERT(log_end >= replica->log_end);
    replica->log_end = log_end;
    advance(replica);
}

void replica_flushed(struct replica *replica, int64_t flushed_end)
{
    replica->flushed_end = OT_MAX(replica->flushed_end, OT_MIN(flushed_end, replica->log_end));
    replica->flush_wanted = false;
    advance(replica);
}

void replica_truncated(struct replica *replica, int64_t log_end)
{
    OT_ASSERT(replica->role != REPLICA_LEADER || log_end >= replica->high_watermark);
    replica->log_end = OT_MIN(replica->log_end, log_end);
    replica->flushed_end = OT_MIN(replica->flushed_end, log_end);
    replica->high_watermark = OT_MIN(replica->high_watermark, log_end);
}

void replica_restarted(struct replica *replica, int64_t offset)
{
    OT_ASSERT(replica->role != REPLICA_LEADER);
    replica->log_end = replica->flushed_end = replica->high_watermark = offset;
}

/* ---- leader */

enum ot_err replica_may_append(const struct replica *replica, bool acks_all)
{
    if (replica->role != REPLICA_LEADER) {
        return OT_ERR_NOT_LEADER_OR_FOLLOWER;
    }
    return acks_all && __builtin_popcountll(replica->row.isr) < replica->row.min_isr ? OT_ERR_NOT_ENOUGH_REPLICAS : OT_OK;
}

enum ot_err replica_fetched(struct replica *replica, const struct replica_fetch *fetch, uint64_t now_us)
{
    if (replica->role != REPLICA_LEADER) {
        return OT_ERR_NOT_LEADER_OR_FOLLOWER;
    }
    if (fetch->leader_epoch != replica->row.leader_epoch && !COORD_BUG(FETCH_ANY_EPOCH)) {
        return fetch->leader_epoch < replica->row.leader_epoch ? OT_ERR_FENCED_LEADER_EPOCH : OT_ERR_UNKNOWN_LEADER_EPOCH;
    }
    struct replica_peer *peer = peer_of(replica, fetch->follower);
    if (peer == NULL || peer->id == replica->self) {
        return OT_ERR_REPLICA_NOT_AVAILABLE;
    }
    if (fetch->broker_epoch != peer->broker_epoch) {
        return fetch->broker_epoch < peer->broker_epoch ? OT_ERR_STALE_BROKER_EPOCH : OT_ERR_UNKNOWN_LEADER_EPOCH;
    }
    if (!fetch->matches || fetch->offset > replica->log_end) {
        return OT_OK;                          /* it will be told where to cut */
    }
    if (fetch->offset >= replica->log_end) {
        peer->caught_up_us = now_us;
    } else if (fetch->offset >= peer->fetched_log_end && peer->fetched_log_end >= 0) {
        peer->caught_up_us = OT_MAX(peer->caught_up_us, peer->fetched_us);
    }
    peer->log_start = OT_MAX(peer->log_start, fetch->log_start);
    peer->fetched_us = now_us;
    peer->fetched_log_end = replica->log_end;
    peer->end = OT_MAX(peer->end, fetch->offset);
    peer->flushed_end = OT_MAX(peer->flushed_end, OT_MIN(fetch->flushed_end, fetch->offset));
    advance(replica);
    handover_goes_on(replica, now_us);
    maybe_expand(replica, now_us);
    return OT_OK;
}

int64_t replica_low_watermark(const struct replica *replica, int64_t own_start)
{
    int64_t least = own_start;
    for (int32_t i = 0; i < replica->row.replica_count; i++) {
        const struct replica_peer *peer = &replica->peers[i];
        if (peer->id != replica->self && peer->live) {
            least = OT_MIN(least, peer->log_start);
        }
    }
    return least;
}

/* ---- durable_since (§7) */

static bool all_flushed(const struct replica *replica, int64_t to)
{
    for (int32_t i = 0; i < replica->row.replica_count; i++) {
        if (in_set(replica, replica->row.isr, i) && end_of(replica, i, REPLICA_FSYNC_ALL) < to) {
            return false;
        }
    }
    return replica->row.elr == 0;              /* eligible replicas outside the isr were not asked */
}

static enum coord_durable durable_of(enum replica_class class_)
{
    return class_ == REPLICA_FSYNC ? COORD_DURABLE_LEADER : class_ == REPLICA_FSYNC_ALL ? COORD_DURABLE_ALL : COORD_DURABLE_NONE;
}

bool replica_durable_due(const struct replica *replica, enum coord_durable *class_out)
{
    enum coord_durable now = durable_of(class_wanted(replica));
    bool recorded = replica->row.durable_since >= 0;
    if (replica->role != REPLICA_LEADER || replica->proposal.pending || (replica->durable_reported && replica->durable_told == now)) {
        return false;
    }
    *class_out = now;
    if (now == COORD_DURABLE_NONE) {
        return recorded || replica->row.durable_class != COORD_DURABLE_NONE;
    }
    if (recorded && replica->row.durable_class == now) {
        return false;
    }
    int64_t to = OT_MAX(replica->high_watermark, replica->epoch_start);        /* a new leader's high watermark may be stale */
    return replica->flushed_end >= to && (now == COORD_DURABLE_LEADER || all_flushed(replica, to));
}

void replica_durable_told(struct replica *replica)
{
    replica->durable_reported = true;
    replica->durable_told = durable_of(class_wanted(replica));
}

/* ---- divergence */

bool replica_diverges(int64_t offset, int32_t last_epoch, struct replica_epoch_end found)
{
    return found.epoch < last_epoch || (last_epoch >= 0 && found.end < offset);
}

int64_t replica_cut(struct replica_epoch_end leader, struct replica_epoch_end own)
{
    return OT_MIN(leader.end, own.end);
}

/* ---- follower */

bool replica_answer_counts(const struct replica *replica, const struct replica_answer *answer, int32_t last_epoch)
{
    return replica->role == REPLICA_FOLLOWER && answer->leader_epoch == replica->row.leader_epoch && answer->asked_offset == replica->log_end
        && (answer->asked_last_epoch == last_epoch || COORD_BUG(ANSWER_BY_END));
}

void replica_follow_watermark(struct replica *replica, int64_t leader_high_watermark)
{
    if (replica->role == REPLICA_FOLLOWER) {
        replica->high_watermark = OT_MAX(replica->high_watermark, OT_MIN(leader_high_watermark, replica->log_end));
    }
}
