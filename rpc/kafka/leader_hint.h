/* Who leads a partition that is not here (KIP-951): what has no replica at this broker is known from the metadata alone. */
#ifndef RPC_KAFKA_LEADER_HINT_H
#define RPC_KAFKA_LEADER_HINT_H

#include "broker/view.h"

/* When error is NOT_LEADER_OR_FOLLOWER and *leader_id is -1 (the broker had no replica to ask): both are filled from the metadata, if that names another broker. topic null: by id. True: *leader_id is
 * known now, or was. arena has to be the request's; broker_view_take and give are in it. Any thread. */
bool rpc_leader_hint(struct broker *broker, struct ot_arena *arena, enum ot_err error, struct ot_str topic, const struct ot_uuid *topic_id, int32_t partition, int32_t *leader_id, int32_t *leader_epoch);

#endif
