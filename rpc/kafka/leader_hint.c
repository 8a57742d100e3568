#include "rpc/kafka/leader_hint.h"

#include "broker/broker.h"

bool rpc_leader_hint(struct broker *broker, struct ot_arena *arena, enum ot_err error, struct ot_str topic, const struct ot_uuid *topic_id, int32_t partition, int32_t *leader_id, int32_t *leader_epoch)
{
    struct broker_view_topic found;
    struct broker_view_partition row;
    if (*leader_id >= 0 || error != OT_ERR_NOT_LEADER_OR_FOLLOWER) return *leader_id >= 0;
    const struct broker_view *view = broker_view_take(broker);
    if ((topic.null ? broker_view_topic_by_id(view, topic_id, &found) : broker_view_topic(view, topic, &found)) && broker_view_partition(view, &found.id, partition, arena, &row)
        && row.leader != broker_node_id(broker)) {
        *leader_id = row.leader;
        *leader_epoch = row.leader_epoch;
    }
    broker_view_give(view);
    return *leader_id >= 0;
}
