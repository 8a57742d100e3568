/* The roles of a partition: rows that the coordinator committed, on their way to the replica machine.
 *
 *   applied row ──► next_role ──(log open, and nothing of another epoch in the lane)──► replica machine ──► is_leader, waiters, fetchers
 *
 * A leader that is told of another epoch takes no appends from that moment on; what its lane is writing ends first, since where the new epoch starts, or where a follower asks to be
 * cut, is the end of the log once nothing is on its way to it. */
#include "broker/core.h"
#include "broker/losses_inner.h"
#include "base/log.h"
#include "broker/replication.h"
#include <stdlib.h>
#include <string.h>

static enum replica_class class_of(const struct broker_partition *partition)
{
    static const enum replica_class classes[] = { [BROKER_DURABILITY_AUTO] = REPLICA_AUTO, [BROKER_DURABILITY_REPLICATED] = REPLICA_REPLICATED,
        [BROKER_DURABILITY_FSYNC] = REPLICA_FSYNC, [BROKER_DURABILITY_REPLICATED_FSYNC] = REPLICA_FSYNC_ALL };
    return classes[broker_durability_parse(atomic_load_explicit(&partition->topic->config, memory_order_acquire)->durability)];
}

enum broker_durability broker_partition_durability(const struct broker_partition *partition)
{
    static const enum broker_durability names[] = { [REPLICA_AUTO] = BROKER_DURABILITY_AUTO, [REPLICA_REPLICATED] = BROKER_DURABILITY_REPLICATED,
        [REPLICA_FSYNC] = BROKER_DURABILITY_FSYNC, [REPLICA_FSYNC_ALL] = BROKER_DURABILITY_REPLICATED_FSYNC };
    if (partition->replica.applied) return names[replica_class_now(&partition->replica)];
    const enum replica_class asked = class_of(partition);
    /* a lone member has nobody to lean on, so an acks=all answer waits for its disk */
    return asked != REPLICA_AUTO ? names[asked] : partition->isr_count <= 1 ? BROKER_DURABILITY_FSYNC : BROKER_DURABILITY_REPLICATED;
}

void broker_role_configure(struct broker_partition *partition)
{
    partition->replica.lag_us_max = (uint64_t)broker_config_current(partition->core->config)->replica_lag_time_max_ms * 1000;
    const struct broker_topic_config *config = atomic_load_explicit(&partition->topic->config, memory_order_acquire);
    partition->throttled_leader = broker_throttle_lists(config->leader_throttled, partition->index, partition->core->node_id);
    partition->throttled_follower = broker_throttle_lists(config->follower_throttled, partition->index, partition->core->node_id);
    replica_set_class(&partition->replica, class_of(partition));
}

bool broker_role_has_news(const struct broker_partition *partition)
{
    const struct replica *replica = &partition->replica;
    enum coord_durable durable;
    struct replica_proposal proposal;
    /* a sole replica is always the one to elect: that its disk has everything is of no interest */
    return replica->role == REPLICA_LEADER && replica->row.replica_count > 1 && (replica_proposal(replica, &proposal) || replica_durable_due(replica, &durable));
}

bool broker_role_tells_loss(const struct broker_partition *partition)
{
    if (!partition->lost || partition->replica_count <= 1 || atomic_load(&partition->stage) != BROKER_PARTITION_OFFLINE) return false;
    return partition->holds || partition->leader_id >= 0;
}

struct eng_producers *broker_partition_producer_state(struct broker_partition *partition)
{
    return partition->log == NULL || partition->cutting ? NULL : eng_log_producers(partition->log);
}

void broker_role_begin(struct broker_partition *partition)
{
    struct replica *replica = &partition->replica;
    const uint32_t room = replica->peers_max;
    replica_init(replica, partition->core->node_id, partition->peers, room, partition->state_end, eng_log_flushed_end(partition->log), atomic_load(&partition->high_watermark));
    broker_role_configure(partition);
}

/* Room for the peers of a row. False: no memory, the row waits. */
static bool make_room(struct broker_partition *partition, uint32_t count)
{
    struct replica *replica = &partition->replica;
    if (count <= replica->peers_max && partition->peers != NULL) return true;
    struct replica_peer *peers = realloc(partition->peers, OT_MAX(count, 1u) * sizeof(*peers));
    if (peers == NULL) return false;
    partition->peers = replica->peers = peers;
    replica->peers_max = OT_MAX(count, 1u);
    return true;
}

static bool may_settle(const struct broker_partition *partition)
{
    if (partition->next_role == NULL || atomic_load(&partition->stage) != BROKER_PARTITION_OPEN) return false;
    return !partition->lane_busy || (partition->replica.applied && partition->next_role->row.leader_epoch == partition->replica.row.leader_epoch);
}

bool broker_role_settle(struct broker_partition *partition, struct broker_produce_part **done)
{
    struct replica *replica = &partition->replica;
    enum replica_change change = REPLICA_SAME;
    if (!may_settle(partition)) return false;
    struct broker_role *role = partition->next_role;
    if (!make_room(partition, (uint32_t)OT_MAX(role->row.replica_count, 0))) return false;
    partition->next_role = NULL;
    const bool led = replica->role == REPLICA_LEADER;
    replica->answered_end = eng_log_end_offset(partition->log);
    enum ot_err err = replica_apply(replica, &role->row, role->brokers, (uint64_t)ot_exec_now_us(partition->core->background_exec), &change);
    free(role);
    if (err != OT_OK) {
        ot_log(OT_LOG_ERROR, "partition", "row_not_applied", "topic=%s partition=%d error=%s", partition->topic->name, partition->index, ot_err_name(err));
        return false;
    }
    partition->is_leader = replica->role == REPLICA_LEADER;
    if (change == REPLICA_BECAME_LEADER) broker_loss_of_election(partition);
    if (led && !partition->is_leader) broker_partition_fail_all(partition, OT_ERR_NOT_LEADER_OR_FOLLOWER, "another broker leads this partition now", done);
    broker_partition_advance(partition, done);
    broker_partition_wake_fetches(partition);
    if (replica->row.replica_count > 1 || change >= REPLICA_BECAME_LEADER) broker_replication_look(partition);
    return change >= REPLICA_BECAME_LEADER;
}

/* ---- rows */

static void set_of(const struct coord_partition *row, const int32_t *ids, int32_t count, uint64_t *out)
{
    *out = 0;
    for (int32_t i = 0; i < count; i++) *out |= coord_replica_bit(row, ids[i]);
}

/* The row, and who its replicas are; NULL: no memory. */
static struct broker_role *role_of(const struct broker_partition_row *row)
{
    struct broker_role *role = calloc(1, sizeof(*role));
    if (role == NULL) return NULL;
    if (row->state != NULL) {
        role->row = *row->state;
    } else {
        role->row = (struct coord_partition){ .leader = row->leader, .leader_epoch = row->leader_epoch, .partition_epoch = row->partition_epoch, .min_isr = row->min_isr,
            .last_leader = -1, .durable_since = -1, .loss_version = -1, .loss_epoch = -1, .loss_from = -1, .loss_leader = -1, .replica_count = OT_MIN(row->replica_count, (int32_t)COORD_REPLICAS_MAX) };
        memcpy(role->row.replicas, row->replicas, (size_t)role->row.replica_count * sizeof(row->replicas[0]));
        set_of(&role->row, row->isr, row->isr_count, &role->row.isr);
    }
    for (int32_t i = 0; i < role->row.replica_count; i++) role->brokers[i] = row->brokers != NULL ? row->brokers[i] : (struct replica_broker){ 1, true };
    return role;
}

/* What clients are told from now on. */
static void take_mirrors(struct broker_partition *partition, const struct broker_partition_row *row)
{
    const bool new_epoch = !partition->replica.applied || row->leader_epoch != partition->replica.row.leader_epoch;
    partition->leader_id = row->leader;
    partition->leader_epoch = row->leader_epoch;
    partition->partition_epoch = row->partition_epoch;
    partition->min_isr = row->min_isr;
    partition->isr_count = row->isr_count;
    partition->replica_count = row->replica_count;
    partition->holds = false;
    for (int32_t i = 0; i < row->isr_count; i++) partition->holds |= row->isr[i] == partition->core->node_id;
    if (row->state != NULL) partition->holds |= (coord_replica_bit(row->state, partition->core->node_id) & row->state->elr) != 0;
    if (new_epoch) partition->is_leader = false;       /* until the role is settled */
}

bool broker_role_apply(struct broker_partition *partition, const struct broker_partition_row *row, struct broker_produce_part **done)
{
    struct broker_role *role = role_of(row);
    if (role == NULL) {
        ot_log(OT_LOG_ERROR, "partition", "row_not_applied", "topic=%s partition=%d error=NO_MEMORY", partition->topic->name, partition->index);
        return false;
    }
    take_mirrors(partition, row);
    free(partition->next_role);
    partition->next_role = role;
    return broker_role_settle(partition, done);
}

void broker_partitions_brokers(struct broker *broker, void (*brokers_of)(void *arg, const struct coord_partition *row, struct replica_broker *out), void *arg)
{
    struct broker_core *core = broker_core_of(broker);
    struct replica_broker brokers[COORD_REPLICAS_MAX];
    uint32_t count = 0;
    struct broker_partition **list = broker_partitions_copy(core, &count);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        struct broker_partition *partition = list[i];
        struct broker_produce_part *done = NULL;
        enum replica_change change;
        pthread_mutex_lock(&partition->mutex);
        if (partition->next_role != NULL) {
            brokers_of(arg, &partition->next_role->row, partition->next_role->brokers);
        } else if (partition->replica.applied && partition->replica.row.replica_count > 1) {
            brokers_of(arg, &partition->replica.row, brokers);
            ot_ignore(replica_apply(&partition->replica, &partition->replica.row, brokers, (uint64_t)ot_exec_now_us(core->background_exec), &change), "the same row fits");
            if (atomic_load(&partition->stage) == BROKER_PARTITION_OPEN) broker_partition_advance(partition, &done);
        }
        pthread_mutex_unlock(&partition->mutex);
        broker_parts_complete(done);
        broker_partition_put(partition);
    }
    free(list);
}
