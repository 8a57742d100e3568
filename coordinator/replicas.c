/* What leaders and operators ask of partitions: who is in sync, who leads, where the replicas lie (§7, §9). One row change each, so that a crash never leaves half of it. */
#include "coordinator/contest.h"
#include "coordinator/state.h"
#include <string.h>

#define REFUSE(turn, error, ...) coord_refuse((turn)->request, OT_ERR_##error, __VA_ARGS__)

/* ---- rows */

static enum ot_err get_row(struct coord_turn *turn, const struct ot_uuid *topic_id, int32_t partition, struct coord_partition *row)
{
    enum ot_err err = coord_partition_get(turn->edit.value, topic_id, partition, row);
    return err == OT_ERR_NOT_FOUND ? OT_ERR_UNKNOWN_TOPIC_OR_PARTITION : err;
}

static uint64_t moved(const struct coord_partition *old, uint64_t set, const struct coord_partition *now)
{
    uint64_t out = 0;
    for (int32_t i = 0; i < old->replica_count; i++) {
        out |= (set >> i & 1) != 0 ? coord_replica_bit(now, old->replicas[i]) : 0;
    }
    return out;
}

/* The same row over another list of replicas; sets lose who is not on it. */
static void set_replicas(struct coord_partition *row, const int32_t *replicas, int32_t count)
{
    struct coord_partition now = *row;
    memcpy(now.replicas, replicas, (size_t)count * sizeof now.replicas[0]);
    now.replica_count = count;
    now.isr = moved(row, row->isr, &now);
    now.elr = moved(row, row->elr, &now);
    now.adding = moved(row, row->adding, &now);
    now.removing = moved(row, row->removing, &now);
    now.last_members = moved(row, row->last_members, &now);
    now.successor = moved(row, row->successor, &now);
    *row = now;
}

static bool enough(const struct coord_partition *row) { return __builtin_popcountll(row->isr) >= row->min_isr; }

static void set_leader(struct coord_partition *row, int32_t leader)
{
    row->leader = leader;
    row->leader_epoch++;
    row->successor = 0;
    row->last_leader = row->last_leader_epoch = -1;
    if (row->durable_class == COORD_DURABLE_LEADER) {
        row->durable_since = -1;               /* it may not have flushed what it acknowledged as a follower */
    }
}

/* A leader that lives is not replaced at once: it is told who is to lead, and what acks=1 asks for waits for all in sync from there on. Once that one has everything it says so
 * (COORD_HANDS_OVER). Nothing of this is kept but in the row: who coordinates next goes on with it, and a leader that dies meanwhile is followed by the rules, as ever. */
static bool hand_over(struct coord_turn *turn, struct coord_partition *row, int32_t to)
{
    const struct coord_live_broker *leader = coord_live_find(&turn->coord->live, row->leader);
    if (leader == NULL || !leader->live || COORD_BUG(MOVES_AT_ONCE)) {
        return false;
    }
    row->successor = coord_replica_bit(row, to);
    return true;
}

/* All that were to come are in sync: those that were to go, go; a leader among them hands over first. */
static void maybe_finish(struct coord_turn *turn, struct coord_partition *row, const struct ot_uuid *topic_id)
{
    int32_t kept[COORD_REPLICAS_MAX] = { 0 }, count = 0;
    if (!coord_move_is_ready(row)) {
        return;
    }
    const bool leaves = row->leader != -1 && (coord_replica_bit(row, row->leader) & row->removing) != 0;
    const int32_t to = leaves ? coord_first_live(row, row->isr & ~row->removing, &turn->coord->live) : -1;
    if (to != -1 && hand_over(turn, row, to)) {
        return;
    }
    const struct coord_live_broker *leader = leaves ? coord_live_find(&turn->coord->live, row->leader) : NULL;
    if (to == -1 && leader != NULL && leader->live) {
        row->successor = 0;                    /* all that stay are about to stop: it leads until one is back */
        return;
    }
    for (int32_t i = 0; i < row->replica_count; i++) {
        if ((row->removing >> i & 1) == 0) {
            kept[count++] = row->replicas[i];
        }
    }
    row->adding = 0;
    set_replicas(row, kept, count);
    row->removing = 0;
    row->min_isr = OT_MAX(1, OT_MIN(coord_min_isr(turn->coord, turn->edit.value, topic_id), count));
    row->elr = enough(row) ? 0 : row->elr;
    if (row->leader != -1 && coord_replica_bit(row, row->leader) == 0) {
        const int32_t next = coord_first_live(row, row->isr, &turn->coord->live);
        if (next == -1) {                      /* nobody in sync lives: as when all were fenced */
            row->last_leader = row->leader;
            row->last_leader_epoch = row->leader_epoch;
            row->leader = -1;
            row->leader_epoch++;
        } else {
            set_leader(row, next);
        }
    }
}

static void remember_members(struct coord_partition *row)
{
    if ((row->isr | row->elr) != 0) {
        row->last_members = row->isr | row->elr;
    }
}

/* ---- AlterPartition: a leader says who is in sync */

static enum ot_err broker_epoch_of(struct coord_turn *turn, int32_t id, int64_t *epoch_out)
{
    struct ot_coord_broker_row broker;
    struct ot_arena arena;
    ot_arena_init_with(&arena, turn->coord->scratch, COORD_SCRATCH_BYTES, 0);
    enum ot_err err = coord_broker_get(turn->edit.value, id, &arena, &broker);
    *epoch_out = err == OT_OK ? broker.broker_epoch : -1;
    return err;
}

static enum ot_err check_alter(struct coord_turn *turn, const struct coord_alter *one, const struct coord_partition *row)
{
    int32_t broker_id = turn->request->u.alter.broker_id;
    if (one->leader_epoch != row->leader_epoch || row->leader != broker_id) {
        return one->leader_epoch > row->leader_epoch ? OT_ERR_NOT_CONTROLLER : OT_ERR_FENCED_LEADER_EPOCH;
    }
    if (one->partition_epoch != row->partition_epoch && !COORD_BUG(ALTER_ANY_EPOCH)) {
        return OT_ERR_INVALID_UPDATE_VERSION;
    }
    uint64_t isr = 0;
    for (uint32_t i = 0; i < one->member_count; i++) {
        uint64_t bit = coord_replica_bit(row, one->members[i].broker_id);
        if (bit == 0 || (isr & bit) != 0) {
            return OT_ERR_INVALID_REQUEST;
        }
        isr |= bit;
        if ((row->isr & bit) != 0) {
            continue;
        }
        int64_t epoch;
        if (!coord_live_may_lead(&turn->coord->live, one->members[i].broker_id) || broker_epoch_of(turn, one->members[i].broker_id, &epoch) != OT_OK
            || (epoch != one->members[i].broker_epoch && !COORD_BUG(MEMBER_ANY_EPOCH))) {
            return OT_ERR_INELIGIBLE_REPLICA;
        }
    }
    return (isr & coord_replica_bit(row, broker_id)) != 0 ? OT_OK : OT_ERR_INVALID_REQUEST;
}

static enum ot_err alter_one(struct coord_turn *turn, struct coord_alter *one)
{
    struct coord_partition row;
    enum ot_err err = get_row(turn, &one->topic_id, one->partition, &row);
    if (err == OT_ERR_UNKNOWN_TOPIC_OR_PARTITION) {
        one->error = OT_ERR_UNKNOWN_TOPIC_ID;
        return OT_OK;
    }
    if (err != OT_OK || (one->error = check_alter(turn, one, &row)) != OT_OK) {
        return err;
    }
    uint64_t isr = 0, before = row.isr;
    for (uint32_t i = 0; i < one->member_count; i++) {
        isr |= coord_replica_bit(&row, one->members[i].broker_id);
    }
    row.isr = isr;
    row.elr = enough(&row) && !COORD_BUG(ELR_STAYS) ? 0 : (row.elr | before) & ~isr;
    row.successor &= isr;
    if (row.durable_class == COORD_DURABLE_ALL && row.elr != 0) {
        row.durable_since = -1;                /* its members are not asked any more */
    }
    if (row.durable_class == COORD_DURABLE_LEADER && __builtin_popcountll(before) <= 1 && __builtin_popcountll(isr) > 1
        && !COORD_BUG(CLASS_LEFT_EARLY)) {
        row.durable_since = -1;                /* auto ends with the second member; in class fsync the leader says so again */
        row.durable_class = COORD_DURABLE_NONE;
    }
    if (one->handover == COORD_HANDS_OVER && row.successor != 0) {
        set_leader(&row, row.replicas[__builtin_ctzll(row.successor)]);
    }
    row.successor = one->handover == COORD_GIVES_UP ? 0 : row.successor;
    if (one->handover != COORD_GIVES_UP) {     /* else it asks again when it has rested */
        maybe_finish(turn, &row, &one->topic_id);
    }
    remember_members(&row);
    if (row.isr == coord_all_replicas(&row)) {
        row.loss_count = 0;                    /* every log goes on from this leader's: none holds what an earlier election gave up */
    }
    row.partition_epoch++;
    return coord_partition_put(&turn->edit, &one->topic_id, one->partition, &row);
}

/* Only when all is done: what does not fit into this publication is asked of the next one, as it was asked. */
static enum ot_err tell_epochs(struct coord_turn *turn, struct coord_alter *one)
{
    struct coord_partition row;
    enum ot_err err = one->error != OT_OK ? OT_OK : get_row(turn, &one->topic_id, one->partition, &row);
    if (one->error == OT_OK && err == OT_OK) {
        one->leader_epoch = row.leader_epoch;
        one->partition_epoch = row.partition_epoch;
    }
    return err;
}

enum ot_err coord_ask_alter(struct coord_turn *turn)
{
    struct coord_alter_ask *ask = &turn->request->u.alter;
    int64_t epoch;
    enum ot_err err = broker_epoch_of(turn, ask->broker_id, &epoch);
    if (err == OT_ERR_NOT_FOUND || (err == OT_OK && epoch != ask->broker_epoch)) {
        return REFUSE(turn, STALE_BROKER_EPOCH, "broker %d is registered with epoch %lld, not %lld", ask->broker_id, (long long)epoch, (long long)ask->broker_epoch);
    }
    if (err == OT_OK && ask->term != 0 && ask->term != turn->coord->term.term) {       /* a refusal of another coordinator may have ended that proposal */
        return REFUSE(turn, NOT_CONTROLLER, "it was meant for the coordinator of term %d, this is term %d", ask->term, turn->coord->term.term);
    }
    if (err == OT_OK && !coord_session_in_order(turn->coord, ask->broker_id, ask->broker_epoch, ask->sequence)) {
        return REFUSE(turn, REQUEST_TIMED_OUT, "a younger request of broker %d came first", ask->broker_id);
    }
    for (uint32_t i = 0; err == OT_OK && i < ask->count; i++) {
        err = alter_one(turn, &ask->items[i]);
    }
    for (uint32_t i = 0; err == OT_OK && i < ask->count; i++) {
        err = tell_epochs(turn, &ask->items[i]);
    }
    if (err != OT_ERR_TOO_LARGE) {             /* else it may come once more, in the next publication */
        coord_session_came(turn->coord, ask->broker_id, ask->sequence);
    }
    return err;
}

/* ---- elections by request */

/* The first replica; while that one is in maintenance, or whoever leads is (the first may be gone, or behind), the first of those in sync that are not. */
static int32_t preferred_of(const struct coord_partition *row, const struct coord_live *live)
{
    const int32_t other = coord_first_live(row, row->isr, live);
    const bool drains = coord_live_may_lead(live, row->replicas[0]) && !coord_live_should_lead(live, row->replicas[0]);
    const bool steps_back = row->leader >= 0 && coord_live_may_lead(live, row->leader) && !coord_live_should_lead(live, row->leader);
    return !drains && !steps_back ? row->replicas[0] : coord_live_should_lead(live, other) ? other : row->leader;
}

static enum ot_err elect_preferred(struct coord_turn *turn, struct coord_partition *row, int32_t *leader_out)
{
    const int32_t preferred = *leader_out = preferred_of(row, &turn->coord->live);
    if (row->leader == preferred) {
        return OT_ERR_ELECTION_NOT_NEEDED;
    }
    if ((row->isr & coord_replica_bit(row, preferred)) == 0 || !coord_live_may_lead(&turn->coord->live, preferred)) {
        return OT_ERR_PREFERRED_LEADER_NOT_AVAILABLE;
    }
    if (!hand_over(turn, row, preferred)) {
        set_leader(row, preferred);
    }
    return OT_OK;
}

enum ot_err coord_ask_prefer(struct coord_turn *turn)
{
    struct coord_prefer_ask *ask = &turn->request->u.prefer;
    enum ot_err err = OT_OK;
    for (uint32_t i = 0; err == OT_OK && i < ask->count; i++) {
        struct coord_prefer *one = &ask->items[i];
        struct coord_partition row;
        one->error = get_row(turn, &one->topic_id, one->partition, &row);
        const uint64_t before = one->error == OT_OK ? row.successor : 0;
        if (one->error == OT_OK) {
            one->error = elect_preferred(turn, &row, &one->leader);
        }
        if (one->error == OT_OK && (before == 0 || row.successor != before)) {     /* else that is under way already */
            row.partition_epoch++;
            err = coord_partition_put(&turn->edit, &one->topic_id, one->partition, &row);
        }
    }
    return err;
}

/* Does everybody who answered live the life in which it did? answered_out: their bits. */
static bool same_lives(struct coord_turn *turn, const struct coord_partition *row, uint64_t *answered_out)
{
    const struct coord_elect_ask *ask = &turn->request->u.elect;
    *answered_out = 0;
    for (uint32_t i = 0; i < ask->answer_count; i++) {
        int64_t epoch;
        if (broker_epoch_of(turn, ask->answers[i].broker_id, &epoch) != OT_OK || epoch != ask->answers[i].broker_epoch) {
            return false;
        }
        *answered_out |= coord_replica_bit(row, ask->answers[i].broker_id);
    }
    return true;
}

static enum ot_err elect_unclean(struct coord_turn *turn, struct coord_partition *row)
{
    const struct coord_elect_ask *ask = &turn->request->u.elect;
    uint64_t bit = coord_replica_bit(row, ask->candidate), answered;
    if (row->leader != -1) {
        return REFUSE(turn, ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.");
    }
    if (ask->partition_epoch != row->partition_epoch) {
        return REFUSE(turn, INVALID_UPDATE_VERSION, "partition epoch is %d, not %d", row->partition_epoch, ask->partition_epoch);
    }
    if (bit == 0 || !coord_live_may_lead(&turn->coord->live, ask->candidate)) {
        return REFUSE(turn, ELIGIBLE_LEADERS_NOT_AVAILABLE, "No live replica can lead the partition.");
    }
    if (!same_lives(turn, row, &answered) || (answered & bit) == 0) {
        return REFUSE(turn, INELIGIBLE_REPLICA, "a replica started anew since it said what it has");
    }
    if (ask->loss == COORD_LOSS_CRASH && ((row->isr | row->elr) != 0 || (row->last_members & ~answered) != 0)) {
        return REFUSE(turn, INELIGIBLE_REPLICA, "not everybody who may have more has said what it has");
    }
    row->loss_version = turn->version;
    row->loss_epoch = row->leader_epoch;
    row->loss = ask->loss;
    row->loss_from = OT_MAX(ask->loss_from, 0);
    row->loss_leader = ask->candidate;
    row->isr = bit;
    row->elr = 0;
    row->durable_since = -1;
    set_leader(row, ask->candidate);
    coord_losses_add(row, row->leader_epoch, row->loss_from);
    return OT_OK;
}

enum ot_err coord_ask_elect(struct coord_turn *turn)
{
    const struct coord_elect_ask *ask = &turn->request->u.elect;
    struct coord_partition row;
    enum ot_err err = get_row(turn, &ask->topic_id, ask->partition, &row);
    if (err == OT_ERR_UNKNOWN_TOPIC_OR_PARTITION) {
        return REFUSE(turn, UNKNOWN_TOPIC_OR_PARTITION, "No such partition.");
    }
    if (err != OT_OK || (err = elect_unclean(turn, &row)) != OT_OK) {
        return err;
    }
    remember_members(&row);
    row.partition_epoch++;
    return coord_partition_put(&turn->edit, &ask->topic_id, ask->partition, &row);
}

/* ---- reassignment: replicas = target, then those that are still to go; done when all that come are in sync */

static int32_t without(const struct coord_partition *row, uint64_t set, int32_t *out)
{
    int32_t count = 0;
    for (int32_t i = 0; i < row->replica_count; i++) {
        if ((set >> i & 1) == 0) {
            out[count++] = row->replicas[i];
        }
    }
    return count;
}

/* The same row with those that stay first, so that nobody who is to go is preferred, and without those that were to come and are in no such set. */
static void back_without(struct coord_partition *row, uint64_t needed)
{
    int32_t kept[COORD_REPLICAS_MAX] = { 0 };
    int32_t count = without(row, row->adding, kept);
    count += without(row, ~(row->adding & needed), kept + count);
    row->removing = 0;
    set_replicas(row, kept, count);
    row->removing = row->adding;
    row->min_isr = OT_MIN(row->min_isr, count);
    row->elr = enough(row) ? 0 : row->elr;
}

/* Nobody leads: of those that go nobody in sync is waited for, as if it had been fenced. */
static void elect_back(struct coord_turn *turn, struct coord_partition *row)
{
    for (int32_t i = 0; i < row->replica_count; i++) {
        const struct coord_leaving leaving = { .broker_id = row->replicas[i] };
        if (row->leader == -1 && (row->isr & row->removing & UINT64_C(1) << i) != 0) {
            coord_partition_recompute(row, &turn->coord->live, &leaving, turn->version);
        }
    }
    if (row->leader == -1) {                   /* also where only those that went were in the way */
        coord_partition_recompute(row, &turn->coord->live, NULL, turn->version);
    }
}

/* Those that were to come go: at once, or at the end of what is now a move back (maybe_finish), while they hold what too few of the others do, or while one of them leads, until another one
 * has all that it acknowledged. */
static enum ot_err cancel(struct coord_turn *turn, struct coord_partition *row)
{
    if ((row->adding | row->removing) == 0 || coord_move_goes_back(row)) {
        return REFUSE(turn, NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.");
    }
    const uint64_t members = (row->isr | row->elr) != 0 ? row->isr | row->elr : row->last_members;
    if ((members & ~row->adding) == 0 && members != 0) {
        return REFUSE(turn, INVALID_REPLICA_ASSIGNMENT, "only the replicas that were to be added are in sync: it cannot be undone");
    }
    const uint64_t leader = row->leader == -1 ? 0 : coord_replica_bit(row, row->leader);
    if (coord_coming(row) == 0 && row->successor != 0 && (leader & row->removing) != 0) {
        return REFUSE(turn, NO_REASSIGNMENT_IN_PROGRESS, "the reassignment is at its last step: the leader, which is to go, hands over");
    }
    const bool leaves = (leader & row->adding) != 0;
    const struct coord_live_broker *broker = leaves ? coord_live_find(&turn->coord->live, row->leader) : NULL;
    const bool leads_on = broker != NULL && broker->live && !COORD_BUG(MOVES_AT_ONCE);
    row->successor = 0;
    if (leaves && !leads_on) {
        row->last_leader = row->leader;
        row->last_leader_epoch = row->leader_epoch;
        row->leader = -1;
        row->leader_epoch++;
    }
    const bool unsure = (row->isr | row->elr) == 0;           /* rule 4 has to hear them all: each may be the one that holds what was committed */
    back_without(row, leads_on || unsure || !coord_may_go(row, row->adding, members) ? members | leader : 0);
    elect_back(turn, row);
    return OT_OK;
}

static enum ot_err check_target(struct coord_turn *turn, const struct coord_partition *row, const struct coord_reassign_ask *ask)
{
    if (ask->count < 1 || ask->count > COORD_REPLICAS_MAX) {
        return REFUSE(turn, INVALID_REPLICA_ASSIGNMENT, "The replica assignment is empty or has more than %d replicas.", COORD_REPLICAS_MAX);
    }
    for (int32_t i = 0; i < ask->count; i++) {
        for (int32_t j = 0; j < i; j++) {
            if (ask->target[i] == ask->target[j]) {
                return REFUSE(turn, INVALID_REPLICA_ASSIGNMENT, "The assignment has broker %d twice.", ask->target[i]);
            }
        }
        const struct coord_live_broker *broker = coord_live_find(&turn->coord->live, ask->target[i]);
        if (broker == NULL) {
            return REFUSE(turn, INVALID_REPLICA_ASSIGNMENT, "The assignment has broker %d, but no such broker is registered.", ask->target[i]);
        }
        if (broker->leaving && coord_replica_bit(row, broker->id) == 0) {
            return REFUSE(turn, INVALID_REPLICA_ASSIGNMENT, "The assignment has broker %d, which is being decommissioned.", broker->id);
        }
    }
    return OT_OK;
}

static bool has(const int32_t *list, int32_t count, int32_t id)
{
    for (int32_t i = 0; i < count; i++) {
        if (list[i] == id) {
            return true;
        }
    }
    return false;
}

static enum ot_err start(struct coord_turn *turn, struct coord_partition *row)
{
    const struct coord_reassign_ask *ask = &turn->request->u.reassign;
    int32_t all[2 * COORD_REPLICAS_MAX], original[COORD_REPLICAS_MAX] = { 0 };
    enum ot_err err = check_target(turn, row, ask);
    if (err != OT_OK) {
        return err;
    }
    if ((row->adding | row->removing) == 0 && ask->count == row->replica_count && memcmp(ask->target, row->replicas, (size_t)ask->count * sizeof row->replicas[0]) == 0) {
        return REFUSE(turn, ELECTION_NOT_NEEDED, "The replicas are there already.");
    }
    int32_t original_count = without(row, row->adding, original), count = ask->count;
    const uint64_t members = row->isr | row->elr, needed = members != 0 ? members : row->last_members;     /* rule 4 waits for the last ones */
    memcpy(all, ask->target, (size_t)ask->count * sizeof all[0]);
    for (int32_t i = 0; i < row->replica_count; i++) {     /* who is in sync or held it before stays until the end */
        bool keeps = has(original, original_count, row->replicas[i]) || (needed >> i & 1) != 0 || row->leader == row->replicas[i];
        if (keeps && !has(all, count, row->replicas[i])) {
            all[count++] = row->replicas[i];
        }
    }
    if (count > COORD_REPLICAS_MAX) {
        return REFUSE(turn, INVALID_REPLICA_ASSIGNMENT, "the old and the new replicas together are more than %d", COORD_REPLICAS_MAX);
    }
    set_replicas(row, all, count);
    row->adding = row->removing = row->successor = 0;
    for (int32_t i = 0; i < count; i++) {
        row->removing |= i >= ask->count ? UINT64_C(1) << i : 0;
        row->adding |= !has(original, original_count, all[i]) ? UINT64_C(1) << i : 0;
    }
    row->min_isr = OT_MIN(row->min_isr, count);    /* the list that this one replaces may have been longer */
    row->elr = enough(row) ? 0 : row->elr;
    if (coord_coming(row) != 0 && row->leader != -1 && !COORD_BUG(READDED_AS_BEFORE)) {
        row->leader_epoch++;                   /* one that was a replica before may have deleted what its late fetches still speak of: those are of the old epoch */
    }
    return OT_OK;
}

enum ot_err coord_ask_reassign(struct coord_turn *turn)
{
    const struct coord_reassign_ask *ask = &turn->request->u.reassign;
    struct coord_partition row;
    enum ot_err err = get_row(turn, &ask->topic_id, ask->partition, &row);
    if (err == OT_ERR_UNKNOWN_TOPIC_OR_PARTITION) {
        return REFUSE(turn, UNKNOWN_TOPIC_OR_PARTITION, "No such partition.");
    }
    if (err == OT_OK) {
        err = ask->target == NULL ? cancel(turn, &row) : start(turn, &row);
    }
    if (err != OT_OK) {
        return err;
    }
    maybe_finish(turn, &row, &ask->topic_id);
    remember_members(&row);
    row.partition_epoch++;
    return coord_partition_put(&turn->edit, &ask->topic_id, ask->partition, &row);
}
