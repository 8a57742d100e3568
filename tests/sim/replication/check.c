/* What must hold at every step (the numbers are those of the design's invariants). */
#include "world.h"

#include <stdio.h>
#include <string.h>

/* 14. A record of an epoch is what its leader wrote there, in every log. */
void check_append(struct world *w, const struct broker *broker, uint32_t partition, int64_t offset)
{
    const struct record *record = &broker->held[partition].log[offset];
    CHECK(offset == 0 || broker->held[partition].log[offset - 1].epoch <= record->epoch);
    for (uint32_t i = 0; i < w->broker_count; i++) {
        const struct held *other = &w->brokers[i].held[partition];
        if (&w->brokers[i] != broker && other->end > offset && other->log[offset].epoch == record->epoch) {
            HOLDS(14, other->log[offset].id == record->id);
            HOLDS(14, offset == 0 || (other->log[offset - 1].id == record[-1].id && other->log[offset - 1].epoch == record[-1].epoch));     /* and so all before it */
        }
    }
}

static bool holds(const struct world *w, const struct held *held, uint32_t partition)
{
    if (held->end < w->committed_end[partition]) {
        return false;
    }
    for (int64_t at = OT_MAX(w->committed_end[partition] - 200, (int64_t)0); at < w->committed_end[partition]; at++) {
        if (held->log[at].id != w->committed[partition][at].id) {
            return false;
        }
    }
    return true;
}

/* 15. Whoever is in sync or eligible holds all that was committed, unless it lost something and has not told yet. */
static void check_members(struct world *w, uint32_t partition, const struct coord_partition *row)
{
    for (int32_t i = 0; i < row->replica_count; i++) {
        const struct broker *member = &w->brokers[row->replicas[i] - 1];
        if (((row->isr | row->elr) >> i & 1) != 0 && !member->lost) {
            if (!holds(w, &member->held[partition], partition)) {
                fprintf(stderr, "broker %d, partition %u: log end %lld, committed %lld, isr %llx elr %llx leader %d epoch %d\n", member->id, partition,
                    (long long)member->held[partition].end, (long long)w->committed_end[partition], (unsigned long long)row->isr, (unsigned long long)row->elr,
                    row->leader, row->leader_epoch);
            }
            HOLDS(15, holds(w, &member->held[partition], partition));
        }
    }
}

/* 19: whatever a follower shows to consumers was committed. */
void check_follower(struct world *w, const struct broker *broker, uint32_t partition)
{
    const struct held *held = &broker->held[partition];
    int64_t shown = held->replica.high_watermark;
    if (!broker->up || shown == 0 || w->swarm.beyond) {        /* what was shown may be lost there */
        return;
    }
    HOLDS(19, shown <= w->committed_end[partition]);
    HOLDS(19, held->log[shown - 1].id == w->committed[partition][shown - 1].id);
}

/* A leader that does not know yet that another one was elected uncleanly: what it calls committed now is covered by what that election said. */
static bool is_covered(const struct world *w, uint32_t partition, int32_t epoch, int64_t at)
{
    for (uint32_t i = 0; i < w->ledger_count[partition]; i++) {
        if (epoch <= w->ledger[partition][i].epoch && at >= w->ledger[partition][i].from) {
            return true;
        }
    }
    return false;
}

/* 16 and 19: what a leader calls committed stays what it is, and its watermark never goes back. */
void check_watermark(struct world *w, const struct broker *broker, uint32_t partition)
{
    struct held *held = (struct held *)(uintptr_t)&broker->held[partition];
    const struct replica *replica = &held->replica;
    HOLDS(19, replica->high_watermark <= replica->log_end);
    CHECK(replica->log_end == held->end || (w->lane && replica->log_end < held->end));
    if (replica->role != REPLICA_LEADER) {
        check_follower(w, broker, partition);
        return;
    }
    HOLDS(19, held->seen_epoch != replica->row.leader_epoch || held->seen_watermark <= replica->high_watermark);
    bool moved = held->seen_epoch != replica->row.leader_epoch || held->seen_watermark != replica->high_watermark;
    held->seen_epoch = replica->row.leader_epoch;
    held->seen_watermark = replica->high_watermark;
    if (!moved) {
        return;
    }
    bool more = false;
    for (int64_t at = OT_MIN(OT_MAX(replica->high_watermark - 300, (int64_t)0), w->committed_end[partition]); at < replica->high_watermark; at++) {
        if (is_covered(w, partition, replica->row.leader_epoch, at)) {
            continue;
        }
        if (at < w->committed_end[partition]) {
            HOLDS(16, w->committed[partition][at].id == held->log[at].id);
        } else {
            CHECK(at == w->committed_end[partition]);
            w->committed[partition][at] = held->log[at];
            w->committed_end[partition] = at + 1;
            w->committed_most[partition] = OT_MAX(w->committed_most[partition], at + 1);
            more = true;
        }
    }
    if (more) {
        check_members(w, partition, &w->rows[partition]);
    }
}

static bool same_row(const struct coord_partition *a, const struct coord_partition *b)
{
    return a->replica_count == b->replica_count && memcmp(a->replicas, b->replicas, (size_t)a->replica_count * sizeof a->replicas[0]) == 0 && a->isr == b->isr && a->elr == b->elr
        && a->leader == b->leader && a->leader_epoch == b->leader_epoch && a->min_isr == b->min_isr && a->durable_since == b->durable_since && a->adding == b->adding
        && a->removing == b->removing;
}

/* 17: a leader comes from isr, or from elr if nobody is left in isr; or its record says that something was lost; or it joined the isr in the change that
 * ended a move of replicas, and with which the leader before went. */
static bool elected_cleanly(const struct coord_partition *old, const struct coord_partition *row)
{
    if (row->leader == -1 || row->leader == old->leader || row->loss_version != old->loss_version || (old->isr & coord_replica_bit(old, row->leader)) != 0) {
        return true;
    }
    bool eligible = (old->elr & coord_replica_bit(old, row->leader)) != 0 && row->isr == coord_replica_bit(row, row->leader);
    bool ended = (old->removing & coord_replica_bit(old, old->leader)) != 0 && (row->adding | row->removing) == 0 && coord_replica_bit(row, old->leader) == 0
        && (row->isr & coord_replica_bit(row, row->leader)) != 0;
    return eligible || ended;
}

/* Does one of those who were asked hold that record? */
static bool somebody_has(const struct world *w, uint32_t partition, const struct coord_partition *old, int64_t at)
{
    for (int32_t i = 0; i < old->replica_count; i++) {
        const struct held *held = &w->brokers[old->replicas[i] - 1].held[partition];
        if ((old->last_members >> i & 1) != 0 && held->end > at && held->log[at].id == w->committed[partition][at].id) {
            return true;
        }
    }
    return false;
}

/* An election said that records may be lost: those that its winner does not have are given up. Each of them is covered by what the row says, and after a crash none is held by
 * anybody who was in sync or eligible last. */
static void give_up(struct world *w, uint32_t partition, const struct coord_partition *old, const struct coord_partition *row)
{
    const struct held *winner = &w->brokers[row->leader - 1].held[partition];
    int64_t kept = 0;
    if (w->ledger_count[partition] < LEDGER_MAX) {
        w->ledger[partition][w->ledger_count[partition]].epoch = row->loss_epoch;
        w->ledger[partition][w->ledger_count[partition]++].from = row->loss_from >= 0 ? row->loss_from : winner->end;
    }
    while (kept < OT_MIN(winner->end, w->committed_end[partition]) && winner->log[kept].id == w->committed[partition][kept].id) {
        kept++;
    }
    for (int64_t at = kept; at < w->committed_end[partition]; at++) {
        HOLDS(18, w->committed[partition][at].epoch <= row->loss_epoch && at >= row->loss_from);       /* the event says so */
        HOLDS(15, row->loss != COORD_LOSS_CRASH || !somebody_has(w, partition, old, at));
        w->lost++;
    }
    if (kept < w->committed_end[partition]) {
        HOLDS(15, w->swarm.beyond);            /* what the durability class promised is not lost */
        w->producers[partition].open = false;  /* it was told, and has to begin anew */
        w->producers[partition].id = PRODUCED | ++w->ids;
    }
    w->committed_end[partition] = kept;
}

static int64_t same_end(const struct held *a, const struct held *b)
{
    int64_t end = OT_MIN(a->end, b->end);
    while (end > 0 && (a->log[end - 1].id != b->log[end - 1].id || a->log[end - 1].epoch != b->log[end - 1].epoch)) {
        end--;
    }
    return end;
}

/* 26: a leader that lives was moved, by an operator or because it stops: whoever leads from here has all that it acknowledged with acks=1. */
static void check_move(struct world *w, const struct coord_value *view, uint32_t partition, const struct coord_partition *old, const struct coord_partition *row)
{
    struct ot_coord_broker_row broker;
    struct ot_arena arena;
    uint8_t room[4096];
    ot_arena_init_with(&arena, room, sizeof room, 0);
    if (old->leader == -1 || row->leader == -1 || row->leader == old->leader || coord_broker_get(view, old->leader, &arena, &broker) != OT_OK || broker.fenced) {
        return;
    }
    const struct broker *from = &w->brokers[old->leader - 1], *to = &w->brokers[row->leader - 1];
    const struct held *held = &from->held[partition], *heir = &to->held[partition];
    if ((broker.in_controlled_shutdown && from->tails_lost) || held->offline || held->unseen) {     /* without its log it leads nothing */
        return;
    }
    w->moved++;
    w->moved_end[partition][old->leader_epoch] = to->lost ? INT64_MAX : 1 + same_end(held, heir);
    for (int64_t at = OT_MAX(held->end - 500, (int64_t)0); at < held->end && !to->lost; at++) {
        HOLDS(26, w->once[partition][at] != held->log[at].id || (at < heir->end && heir->log[at].id == held->log[at].id));
    }
}

void check_once(struct world *w, const struct broker *broker, uint32_t partition)
{
    const struct held *held = &broker->held[partition];
    w->once[partition][held->end - 1] = held->log[held->end - 1].id;
    w->acked_once++;
    HOLDS(26, w->moved_end[partition][held->replica.row.leader_epoch] == 0);
}

/* 11, 12 and 17, of one row. */
static void check_row(struct world *w, const struct coord_value *view, uint32_t partition, const struct coord_partition *row)
{
    const struct coord_partition *old = &w->rows[partition];
    uint64_t all = coord_all_replicas(row);
    HOLDS(11, row->leader == -1 || (row->isr & coord_replica_bit(row, row->leader)) != 0);
    HOLDS(11, ((row->isr | row->elr) & ~all) == 0 && (row->isr & row->elr) == 0);
    HOLDS(11, row->elr == 0 || __builtin_popcountll(row->isr) < row->min_isr);
    HOLDS(11, row->successor == 0 || (row->leader != -1 && (row->isr & row->successor) != 0));
    if (old->replica_count > 0) {
        HOLDS(12, same_row(old, row) || row->partition_epoch > old->partition_epoch);
        HOLDS(12, row->partition_epoch >= old->partition_epoch && row->leader_epoch >= old->leader_epoch);
        HOLDS(12, row->leader == old->leader || row->leader_epoch > old->leader_epoch);
        HOLDS(17, elected_cleanly(old, row) || (w->lane && row->partition_epoch > old->partition_epoch + 1));     /* of two versions that a node applies in one step the first is not seen */
        if (!w->lane || view->stamp.version == w->rows_version + 1) {      /* or it was moved and taken for gone, in what order is not seen */
            check_move(w, view, partition, old, row);
        }
        if (row->loss_version != old->loss_version && row->leader != -1) {
            give_up(w, partition, old, row);
        }
    }
    w->rows[partition] = *row;
}

/* 11, 12, 15 and 17, at each state that the coordinator commits. */
void check_rows(struct world *w, const struct coord_value *view)
{
    struct coord_partition row;
    if (w->verbose) {
        for (uint32_t i = 0; i < PARTITIONS && w->topic_made; i++) {
            if (coord_partition_get(view, &w->topic, (int32_t)i, &row) == OT_OK && row.partition_epoch != w->rows[i].partition_epoch) {
                printf("%.3f partition %u: leader %d epoch %d/%d isr %llx elr %llx replicas %d %d %d (%d) min %d durable %lld/%d adding %llx last %llx committed %lld\n",
                    (double)w->now_us / 1e6, i, row.leader, row.leader_epoch, row.partition_epoch, (unsigned long long)row.isr, (unsigned long long)row.elr, row.replicas[0],
                    row.replicas[1], row.replicas[2], row.replica_count, row.min_isr, (long long)row.durable_since, (int)row.durable_class,
                    (unsigned long long)row.adding, (unsigned long long)row.last_members, (long long)w->committed_end[i]);
            }
        }
    }
    for (uint32_t i = 0; i < PARTITIONS && w->topic_made; i++) {
        if (coord_partition_get(view, &w->topic, (int32_t)i, &row) != OT_OK) {
            continue;
        }
        check_row(w, view, i, &row);
        check_members(w, i, &row);
    }
    w->rows_version = view->stamp.version;
}

/* 18: what the producer gave is there in its order and once, and ends with what it was told of. A record that was deleted before its producer was told of it may come again: a replica that is
 * made afterwards has no memory of producers from before the start of the log. */
static void check_producer(struct world *w, uint32_t partition, const struct held *leader)
{
    const struct producer *producer = &w->producers[partition];
    uint64_t last = 0;
    int64_t last_at = -1;
    for (int64_t at = 0; at < leader->end; at++) {
        if ((leader->log[at].id & PRODUCED) != 0) {
            HOLDS(18, leader->log[at].id > last || (leader->log[at].id == last && last_at < leader->start));
            last = leader->log[at].id;
            last_at = at;
        }
    }
    HOLDS(18, w->swarm.beyond || last >= producer->acked);
}

/* 30: what a leader has deleted its followers have deleted too, and no log begins where nobody deleted anything. Where records go because they are old each one does it by itself. */
void check_start(const struct world *w, const struct held *held, uint32_t partition)
{
    HOLDS(30, held->start <= (w->swarm.retains ? w->committed_most[partition] : w->deleted_to[partition]));
    if (held->start < held->told_start) {
        fprintf(stderr, "partition %u: log %lld..%lld, told %lld, role %d epoch %d\n", partition, (long long)held->start, (long long)held->end, (long long)held->told_start, held->replica.role, held->replica.row.leader_epoch);
    }
    HOLDS(30, held->start >= held->told_start);
}

static void check_starts(const struct world *w, const struct coord_partition *row, uint32_t partition, const struct held *leader)
{
    for (int32_t i = 0; i < row->replica_count; i++) {
        const struct held *held = &w->brokers[row->replicas[i] - 1].held[partition];
        HOLDS(30, held->start >= leader->start);
        check_start(w, held, partition);
    }
}

/* 18 and 23: all that was ever committed is there, everybody is in sync again, and something new was committed. */
void check_end(struct world *w)
{
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        const struct coord_partition row = w->rows[i];
        CHECK(row.replica_count > 0);
        if (row.leader == -1 || row.isr != coord_all_replicas(&row)) {
            fprintf(stderr, "partition %u: leader %d epoch %d isr %llx of %llx elr %llx adding %llx removing %llx\n", i, row.leader, row.leader_epoch, (unsigned long long)row.isr,
                (unsigned long long)coord_all_replicas(&row), (unsigned long long)row.elr, (unsigned long long)row.adding, (unsigned long long)row.removing);
        }
        HOLDS(23, row.leader != -1);
        HOLDS(23, row.isr == coord_all_replicas(&row));
        HOLDS(23, (row.adding | row.removing) == 0);
        const struct held *leader = &w->brokers[row.leader - 1].held[i];
        HOLDS(18, leader->end >= w->committed_end[i]);
        HOLDS(23, w->committed_end[i] > 0 || w->swarm.beyond);
        for (int64_t at = 0; at < w->committed_end[i]; at++) {
            HOLDS(18, leader->log[at].id == w->committed[i][at].id);
        }
        check_producer(w, i, leader);
        HOLDS(23, leader->replica.high_watermark == leader->end);
        check_starts(w, &row, i, leader);
    }
}
