/* Which state machines lie on which internal topic. */
#include "broker/room.h"
#include "broker/transactions.h"

const struct broker_shard_kind *const broker_shard_kinds[BROKER_SHARD_KIND_COUNT] = { [BROKER_SHARD_GROUPS] = &broker_groups_kind, [BROKER_SHARD_TRANSACTIONS] = &broker_txn_kind };
