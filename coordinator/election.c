#include "coordinator/election.h"
#include "coordinator/bug.h"

const struct coord_live_broker *coord_live_find(const struct coord_live *live, int32_t id)
{
    for (uint32_t low = 0, high = live->count; low < high;) {
        uint32_t mid = (low + high) / 2;
        if (live->brokers[mid].id == id) {
            return &live->brokers[mid];
        }
        *(live->brokers[mid].id < id ? &low : &high) = mid + (live->brokers[mid].id < id);
    }
    return NULL;
}

bool coord_live_may_lead(const struct coord_live *live, int32_t id)
{
    const struct coord_live_broker *broker = coord_live_find(live, id);
    return broker != NULL && broker->live && !broker->stopping;
}

bool coord_live_should_lead(const struct coord_live *live, int32_t id)
{
    const struct coord_live_broker *broker = coord_live_find(live, id);
    return coord_live_may_lead(live, id) && !broker->draining && !broker->leaving;
}

int32_t coord_first_live(const struct coord_partition *row, uint64_t set, const struct coord_live *live)
{
    int32_t last_resort = -1;
    for (int32_t i = 0; i < row->replica_count; i++) {
        if ((set >> i & 1) == 0 || !coord_live_may_lead(live, row->replicas[i])) {
            continue;
        }
        if (coord_live_should_lead(live, row->replicas[i])) {
            return row->replicas[i];
        }
        last_resort = last_resort == -1 ? row->replicas[i] : last_resort;
    }
    return last_resort;
}

/* Does the disk of this member hold all that was committed, whatever its machine did? (durable_since, §7) */
static bool is_durable(const struct coord_partition *row, int32_t broker_id)
{
    int32_t last = row->leader != -1 ? row->leader : row->last_leader;
    return row->durable_since >= 0
        && (row->durable_class == COORD_DURABLE_ALL || (row->durable_class == COORD_DURABLE_LEADER && last == broker_id));
}

static bool enough(const struct coord_partition *row) { return __builtin_popcountll(row->isr) >= row->min_isr; }

static void lead_alone(struct coord_partition *row, int32_t broker_id)
{
    row->leader = broker_id;
    row->isr = coord_replica_bit(row, broker_id);
    row->elr = enough(row) ? 0 : row->elr & ~row->isr;
}

static void elect(struct coord_partition *row, const struct coord_live *live, int64_t version)
{
    const struct coord_live_broker *leader = row->leader == -1 ? NULL : coord_live_find(live, row->leader);
    bool keep = leader != NULL && leader->live && (coord_replica_bit(row, row->leader) & row->isr) != 0;       /* one that stops leads until its turn to hand over has come */
    int32_t last_leader = row->leader != -1 ? row->leader : row->last_leader, last_epoch = row->leader != -1 ? row->leader_epoch : row->last_leader_epoch;
    int32_t was = row->leader;
    if (!keep) {
        row->leader = coord_first_live(row, row->isr, live);
        int32_t eligible = row->isr == 0 ? coord_first_live(row, COORD_BUG(ELECT_OUTSIDER) ? coord_all_replicas(row) : row->elr, live) : -1;
        if (eligible != -1) {
            lead_alone(row, eligible);
        } else if ((row->isr | row->elr) == 0 && row->replica_count == 1 && coord_live_may_lead(live, row->replicas[0])) {
            lead_alone(row, row->replicas[0]);
            row->loss_version = version;
            row->loss_epoch = row->leader_epoch;
            row->loss = COORD_LOSS_CRASH;
            row->loss_leader = row->leader;
            row->loss_from = -1;               /* from the end of its log, which nobody else can know */
        }
    }
    if (row->leader == was) {
        return;
    }
    row->successor = 0;
    row->leader_epoch += !COORD_BUG(SAME_LEADER_EPOCH);
    row->last_leader = row->leader == -1 ? last_leader : -1;
    row->last_leader_epoch = row->leader == -1 ? last_epoch : -1;
    if (row->leader != -1 && row->leader != last_leader && row->durable_class == COORD_DURABLE_LEADER) {
        row->durable_since = -1;               /* the new one may not have flushed what it acknowledged as a follower */
    }
}

static bool differs(const struct coord_partition *a, const struct coord_partition *b)
{
    return a->isr != b->isr || a->elr != b->elr || a->leader != b->leader || a->leader_epoch != b->leader_epoch || a->last_members != b->last_members
        || a->durable_since != b->durable_since || a->min_isr != b->min_isr || a->last_leader != b->last_leader || a->loss_version != b->loss_version
        || a->successor != b->successor;
}

bool coord_partition_recompute(struct coord_partition *row, const struct coord_live *live, const struct coord_leaving *leaving, int64_t version)
{
    struct coord_partition before = *row;
    uint64_t bit = leaving == NULL ? 0 : coord_replica_bit(row, leaving->broker_id);
    uint64_t lost = bit != 0 && leaving->lost && !COORD_BUG(ELR_KEPT) && (leaving->disk_gone || !is_durable(row, leaving->broker_id)) ? bit : 0;
    row->isr &= ~bit;
    row->successor &= row->isr;
    row->elr = enough(row) ? 0 : (row->elr | before.isr) & ~row->isr & ~lost;
    elect(row, live, version);
    const bool members_changed = row->isr != before.isr || row->elr != before.elr || row->leader != before.leader;
    if (lost == 0 && members_changed && (row->isr | row->elr) != 0) {  /* one that lost something stays among them when all that happens is that it is live again */
        row->last_members = row->isr | row->elr;
    }
    if (!differs(row, &before)) {
        return false;
    }
    row->partition_epoch++;
    return true;
}

bool coord_partition_set_min_isr(struct coord_partition *row, int32_t min_isr)
{
    min_isr = OT_MAX(1, OT_MIN(min_isr, row->replica_count));
    if (row->min_isr == min_isr) {
        return false;
    }
    row->min_isr = min_isr;
    if (enough(row)) {
        row->elr = 0;
        row->last_members = row->isr;
    }
    row->partition_epoch++;
    return true;
}

void coord_partition_found(struct coord_partition *row, const int32_t *replicas, int32_t replica_count, int32_t min_isr, int32_t leader_epoch,
    const struct coord_live *live)
{
    OT_ASSERT(replica_count >= 1 && replica_count <= COORD_REPLICAS_MAX);
    *row = (struct coord_partition){ .replica_count = replica_count, .leader = -1, .leader_epoch = leader_epoch, .last_leader = -1, .last_leader_epoch = -1,
        .durable_since = -1, .loss_version = -1, .loss_epoch = -1, .loss_from = -1, .loss_leader = -1 };
    row->min_isr = OT_MAX(1, OT_MIN(min_isr, replica_count));
    for (int32_t i = 0; i < replica_count; i++) {
        row->replicas[i] = replicas[i];
        row->isr |= coord_live_may_lead(live, replicas[i]) ? UINT64_C(1) << i : 0;
    }
    row->leader = coord_first_live(row, row->isr, live);
    row->elr = row->isr == 0 ? coord_all_replicas(row) : 0;    /* an empty log lacks nothing */
    row->last_members = row->isr | row->elr;
}

static bool takes_replicas(const struct coord_live *live, uint32_t index)
{
    return live->brokers[index].live && !live->brokers[index].stopping && !live->brokers[index].leaving;
}

uint32_t coord_live_count(const struct coord_live *live)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < live->count; i++) {
        count += takes_replicas(live, i);
    }
    return count;
}

/* How many live brokers of its rack stand before it. */
static uint32_t turn_of(const struct coord_live *live, uint32_t index)
{
    uint32_t turn = 0;
    for (uint32_t i = 0; i < index; i++) {
        turn += live->brokers[i].rack == live->brokers[index].rack && takes_replicas(live, i);
    }
    return turn;
}

/* Each turn is counted once, and kept beside the index while they are sorted: of a thousand brokers, counting it at each comparison took seconds a topic. */
uint32_t coord_place_order(const struct coord_live *live, uint32_t *order_out)
{
    uint32_t count = 0;
    OT_ASSERT(live->count <= 1u << 16);
    for (uint32_t i = 0; i < live->count; i++) {       /* insertion by (turn, rack); equal racks cannot have equal turns */
        if (!takes_replicas(live, i)) {
            continue;
        }
        uint32_t turn = turn_of(live, i), at = count++;
        for (; at > 0; at--) {
            uint32_t other = order_out[at - 1] >> 16;
            if (other < turn || (other == turn && live->brokers[order_out[at - 1] & 0xffff].rack < live->brokers[i].rack)) {
                break;
            }
            order_out[at] = order_out[at - 1];
        }
        order_out[at] = turn << 16 | i;
    }
    for (uint32_t i = 0; i < count; i++) {
        order_out[i] &= 0xffff;
    }
    return count;
}

uint32_t coord_place_away(const struct coord_live *live, uint32_t *order_out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < live->count; i++) {
        if (!takes_replicas(live, i) && !live->brokers[i].leaving) {
            order_out[count++] = i;
        }
    }
    return count;
}

static uint32_t chosen_of_rack(const struct coord_live *live, const int32_t *chosen, int32_t count, const struct coord_live_broker *candidate, bool *is_chosen_out)
{
    uint32_t same = 0;
    *is_chosen_out = false;
    for (int32_t i = 0; i < count; i++) {
        *is_chosen_out |= chosen[i] == candidate->id;
        same += coord_live_find(live, chosen[i])->rack == candidate->rack;
    }
    return same;
}

bool coord_place(const struct coord_live *live, const uint32_t *order, uint32_t order_count, uint32_t away_count, int32_t replica_count, uint32_t start, int32_t index,
    int32_t *replicas_out)
{
    if (replica_count < 1 || order_count == 0 || (uint32_t)replica_count > order_count + away_count) {
        return false;
    }
    const int32_t here = (int32_t)OT_MIN((uint32_t)replica_count, order_count);
    uint64_t place = (uint64_t)start + (uint32_t)index;
    uint32_t first = (uint32_t)(place % order_count), shift = (uint32_t)(place / order_count);     /* shift: the next round of leaders gets other followers */
    replicas_out[0] = live->brokers[order[first]].id;
    for (int32_t k = 1; k < here; k++) {
        const struct coord_live_broker *best = NULL;
        uint32_t best_same = UINT32_MAX;
        for (uint32_t step = 0; step < order_count - 1 && best_same > 0; step++) {
            uint32_t n = (first + 1 + (shift + (uint32_t)k - 1 + step) % (order_count - 1)) % order_count;
            const struct coord_live_broker *candidate = &live->brokers[order[n]];
            bool is_chosen;
            uint32_t same = chosen_of_rack(live, replicas_out, k, candidate, &is_chosen);
            if (!is_chosen && same < best_same) {
                best = candidate;
                best_same = same;
            }
        }
        OT_ASSERT(best != NULL);
        replicas_out[k] = best->id;
    }
    for (int32_t k = here; k < replica_count; k++) {
        replicas_out[k] = live->brokers[order[order_count + (place + (uint32_t)(k - here)) % away_count]].id;
    }
    return true;
}
