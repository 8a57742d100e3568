/* What must hold at every step (the numbers are those of the design's invariants). */
#include "world.h"

#include <stdio.h>

/* 14. A record of an epoch is what its leader wrote there, in every log. */
void check_append(struct world *w, const struct broker *broker, uint32_t partition, int64_t offset)
{
    const struct record *record = &broker->held[partition].log[offset];
    CHECK(offset == 0 || broker->held[partition].log[offset - 1].epoch <= record->epoch);
    for (uint32_t i = 0; i < w->broker_count; i++) {
        const struct held *other = &w->brokers[i].held[partition];
        if (&w->brokers[i] != broker && other->end > offset && other->log[offset].epoch == record->epoch) {
            CHECK(other->log[offset].id == record->id);
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
            CHECK(holds(w, &member->held[partition], partition));
        }
    }
}

/* 16 and 19: what a leader calls committed stays what it is, and its watermark never goes back. */
void check_watermark(struct world *w, const struct broker *broker, uint32_t partition)
{
    struct held *held = (struct held *)(uintptr_t)&broker->held[partition];
    const struct replica *replica = &held->replica;
    CHECK(replica->high_watermark <= replica->log_end && replica->log_end == held->end);
    if (replica->role != REPLICA_LEADER) {
        return;
    }
    CHECK(held->seen_epoch != replica->row.leader_epoch || held->seen_watermark <= replica->high_watermark);
    bool moved = held->seen_epoch != replica->row.leader_epoch || held->seen_watermark != replica->high_watermark;
    held->seen_epoch = replica->row.leader_epoch;
    held->seen_watermark = replica->high_watermark;
    if (!moved) {
        return;
    }
    bool more = false;
    for (int64_t at = OT_MAX(replica->high_watermark - 300, (int64_t)0); at < replica->high_watermark; at++) {
        if (at < w->committed_end[partition]) {
            CHECK(w->committed[partition][at].id == held->log[at].id);
        } else {
            w->committed[partition][at] = held->log[at];
            w->committed_end[partition] = at + 1;
            more = true;
        }
    }
    struct coord_partition row;
    if (more && coord_partition_get(coord_view(w->coord), &w->topic, (int32_t)partition, &row) == OT_OK) {
        check_members(w, partition, &row);
    }
}

/* 11, 12 and 15, at each state that the coordinator commits. */
void check_rows(struct world *w)
{
    struct coord_partition row;
    if (w->verbose) {
        for (uint32_t i = 0; i < PARTITIONS && w->topic_made; i++) {
            if (coord_partition_get(coord_view(w->coord), &w->topic, (int32_t)i, &row) == OT_OK && row.partition_epoch != w->row_epoch[i]) {
                printf("%.3f partition %u: leader %d epoch %d/%d isr %llx elr %llx replicas %d %d %d (%d) min %d durable %lld/%d adding %llx last %llx committed %lld\n",
                    (double)w->now_us / 1e6, i, row.leader, row.leader_epoch, row.partition_epoch, (unsigned long long)row.isr, (unsigned long long)row.elr, row.replicas[0],
                    row.replicas[1], row.replicas[2], row.replica_count, row.min_isr, (long long)row.durable_since, (int)row.durable_class,
                    (unsigned long long)row.adding, (unsigned long long)row.last_members, (long long)w->committed_end[i]);
            }
        }
    }
    for (uint32_t i = 0; i < PARTITIONS && w->topic_made; i++) {
        if (coord_partition_get(coord_view(w->coord), &w->topic, (int32_t)i, &row) != OT_OK) {
            continue;
        }
        CHECK(row.partition_epoch >= w->row_epoch[i] && row.leader_epoch >= w->row_leader_epoch[i]);
        w->row_epoch[i] = row.partition_epoch;
        w->row_leader_epoch[i] = row.leader_epoch;
        check_members(w, i, &row);
    }
}

/* 18 and 23: all that was ever committed is there, everybody is in sync again, and something new was committed. */
void check_end(struct world *w)
{
    struct coord_partition row;
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        CHECK(coord_partition_get(coord_view(w->coord), &w->topic, (int32_t)i, &row) == OT_OK);
        if (row.leader == -1 || row.isr != coord_all_replicas(&row)) {
            fprintf(stderr, "partition %u: leader %d epoch %d isr %llx of %llx elr %llx adding %llx removing %llx\n", i, row.leader, row.leader_epoch, (unsigned long long)row.isr,
                (unsigned long long)coord_all_replicas(&row), (unsigned long long)row.elr, (unsigned long long)row.adding, (unsigned long long)row.removing);
        }
        CHECK(row.leader != -1);
        CHECK(row.isr == coord_all_replicas(&row));
        const struct held *leader = &w->brokers[row.leader - 1].held[i];
        CHECK(leader->end >= w->committed_end[i] && w->committed_end[i] > 0);
        for (int64_t at = 0; at < w->committed_end[i]; at++) {
            CHECK(leader->log[at].id == w->committed[i][at].id);
        }
        CHECK(leader->replica.high_watermark == leader->end);
    }
}
