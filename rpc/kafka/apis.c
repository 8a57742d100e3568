/* The dispatcher's rows. An API is a row here, a handler, and a byte-exact test; ranges and messages come from base/wire's table. */
#include "rpc/kafka/request.h"

#include "base/wire/add_offsets_to_txn_request.h"
#include "base/wire/add_partitions_to_txn_request.h"
#include "base/wire/add_raft_voter_request.h"
#include "base/wire/alter_client_quotas_request.h"
#include "base/wire/alter_configs_request.h"
#include "base/wire/alter_partition_reassignments_request.h"
#include "base/wire/alter_replica_log_dirs_request.h"
#include "base/wire/api_versions_request.h"
#include "base/wire/consumer_group_describe_request.h"
#include "base/wire/consumer_group_heartbeat_request.h"
#include "base/wire/create_acls_request.h"
#include "base/wire/create_partitions_request.h"
#include "base/wire/create_topics_request.h"
#include "base/wire/delete_acls_request.h"
#include "base/wire/delete_groups_request.h"
#include "base/wire/delete_records_request.h"
#include "base/wire/delete_topics_request.h"
#include "base/wire/describe_acls_request.h"
#include "base/wire/describe_client_quotas_request.h"
#include "base/wire/describe_cluster_request.h"
#include "base/wire/describe_configs_request.h"
#include "base/wire/describe_groups_request.h"
#include "base/wire/describe_log_dirs_request.h"
#include "base/wire/describe_producers_request.h"
#include "base/wire/describe_quorum_request.h"
#include "base/wire/describe_topic_partitions_request.h"
#include "base/wire/describe_transactions_request.h"
#include "base/wire/describe_user_scram_credentials_request.h"
#include "base/wire/elect_leaders_request.h"
#include "base/wire/end_txn_request.h"
#include "base/wire/fetch_request.h"
#include "base/wire/find_coordinator_request.h"
#include "base/wire/get_telemetry_subscriptions_request.h"
#include "base/wire/heartbeat_request.h"
#include "base/wire/incremental_alter_configs_request.h"
#include "base/wire/init_producer_id_request.h"
#include "base/wire/join_group_request.h"
#include "base/wire/leave_group_request.h"
#include "base/wire/list_config_resources_request.h"
#include "base/wire/list_groups_request.h"
#include "base/wire/list_offsets_request.h"
#include "base/wire/list_partition_reassignments_request.h"
#include "base/wire/list_transactions_request.h"
#include "base/wire/metadata_request.h"
#include "base/wire/offset_commit_request.h"
#include "base/wire/offset_delete_request.h"
#include "base/wire/offset_fetch_request.h"
#include "base/wire/offset_for_leader_epoch_request.h"
#include "base/wire/peer_ask_request.h"
#include "base/wire/peer_hello_request.h"
#include "base/wire/peer_lag_request.h"
#include "base/wire/peer_log_ends_request.h"
#include "base/wire/peer_message_request.h"
#include "base/wire/peer_rest_request.h"
#include "base/wire/produce_request.h"
#include "base/wire/push_telemetry_request.h"
#include "base/wire/remove_raft_voter_request.h"
#include "base/wire/sasl_authenticate_request.h"
#include "base/wire/sasl_handshake_request.h"
#include "base/wire/sync_group_request.h"
#include "base/wire/txn_offset_commit_request.h"
#include "base/wire/unregister_broker_request.h"
#include "base/wire/update_features_request.h"
#include "base/wire/write_txn_markers_request.h"

#define ROW(key, overlap, name, cancel) { OT_API_##key, overlap, -1, sizeof(struct ot_##name##_request), rpc_handle_##name, cancel }

const struct rpc_api rpc_apis[] = {
    ROW(PRODUCE, RPC_WITH_PRODUCE, produce, NULL),
    ROW(FETCH, RPC_WITH_FETCH, fetch, rpc_fetch_cancel),
    ROW(LIST_OFFSETS, RPC_ALONE, list_offsets, NULL),
    ROW(METADATA, RPC_ALONE, metadata, NULL),
    ROW(OFFSET_COMMIT, RPC_ALONE, offset_commit, NULL),
    ROW(OFFSET_FETCH, RPC_ALONE, offset_fetch, NULL),
    ROW(FIND_COORDINATOR, RPC_ALONE, find_coordinator, NULL),
    ROW(JOIN_GROUP, RPC_ALONE, join_group, rpc_group_cancel),
    ROW(HEARTBEAT, RPC_ALONE, heartbeat, NULL),
    ROW(LEAVE_GROUP, RPC_ALONE, leave_group, NULL),
    ROW(SYNC_GROUP, RPC_ALONE, sync_group, rpc_group_cancel),
    ROW(DESCRIBE_GROUPS, RPC_ALONE, describe_groups, NULL),
    ROW(LIST_GROUPS, RPC_ALONE, list_groups, NULL),
    ROW(SASL_HANDSHAKE, RPC_ALONE, sasl_handshake, NULL),
    ROW(API_VERSIONS, RPC_ALONE, api_versions, NULL),
    ROW(CREATE_TOPICS, RPC_ALONE, create_topics, NULL),
    ROW(DELETE_TOPICS, RPC_ALONE, delete_topics, NULL),
    ROW(DELETE_RECORDS, RPC_ALONE, delete_records, NULL),
    ROW(INIT_PRODUCER_ID, RPC_ALONE, init_producer_id, NULL),
    ROW(ADD_PARTITIONS_TO_TXN, RPC_ALONE, add_partitions_to_txn, NULL),
    ROW(ADD_OFFSETS_TO_TXN, RPC_ALONE, add_offsets_to_txn, NULL),
    ROW(END_TXN, RPC_ALONE, end_txn, NULL),
    ROW(TXN_OFFSET_COMMIT, RPC_ALONE, txn_offset_commit, NULL),
    ROW(WRITE_TXN_MARKERS, RPC_ALONE, write_txn_markers, NULL),
    ROW(OFFSET_FOR_LEADER_EPOCH, RPC_ALONE, offset_for_leader_epoch, NULL),
    ROW(DESCRIBE_ACLS, RPC_ALONE, describe_acls, NULL),
    ROW(CREATE_ACLS, RPC_ALONE, create_acls, NULL),
    ROW(DELETE_ACLS, RPC_ALONE, delete_acls, NULL),
    ROW(DESCRIBE_CONFIGS, RPC_ALONE, describe_configs, NULL),
    ROW(ALTER_CONFIGS, RPC_ALONE, alter_configs, NULL),
    ROW(ALTER_REPLICA_LOG_DIRS, RPC_ALONE, alter_replica_log_dirs, NULL),
    ROW(DESCRIBE_LOG_DIRS, RPC_ALONE, describe_log_dirs, NULL),
    ROW(SASL_AUTHENTICATE, RPC_ALONE, sasl_authenticate, NULL),
    ROW(CREATE_PARTITIONS, RPC_ALONE, create_partitions, NULL),
    ROW(DELETE_GROUPS, RPC_ALONE, delete_groups, NULL),
    ROW(ELECT_LEADERS, RPC_ALONE, elect_leaders, NULL),
    ROW(INCREMENTAL_ALTER_CONFIGS, RPC_ALONE, incremental_alter_configs, NULL),
    ROW(OFFSET_DELETE, RPC_ALONE, offset_delete, NULL),
    ROW(ALTER_PARTITION_REASSIGNMENTS, RPC_ALONE, alter_partition_reassignments, NULL),
    ROW(LIST_PARTITION_REASSIGNMENTS, RPC_ALONE, list_partition_reassignments, NULL),
    ROW(DESCRIBE_CLIENT_QUOTAS, RPC_ALONE, describe_client_quotas, NULL),
    ROW(ALTER_CLIENT_QUOTAS, RPC_ALONE, alter_client_quotas, NULL),
    ROW(DESCRIBE_USER_SCRAM_CREDENTIALS, RPC_ALONE, describe_user_scram_credentials, NULL),
    ROW(DESCRIBE_QUORUM, RPC_ALONE, describe_quorum, NULL),
    ROW(UPDATE_FEATURES, RPC_ALONE, update_features, NULL),
    ROW(DESCRIBE_CLUSTER, RPC_ALONE, describe_cluster, NULL),
    ROW(DESCRIBE_PRODUCERS, RPC_ALONE, describe_producers, NULL),
    ROW(GET_TELEMETRY_SUBSCRIPTIONS, RPC_ALONE, get_telemetry_subscriptions, NULL),
    ROW(UNREGISTER_BROKER, RPC_ALONE, unregister_broker, NULL),
    ROW(PUSH_TELEMETRY, RPC_ALONE, push_telemetry, NULL),
    ROW(LIST_CONFIG_RESOURCES, RPC_ALONE, list_config_resources, NULL),
    ROW(DESCRIBE_TRANSACTIONS, RPC_ALONE, describe_transactions, NULL),
    ROW(LIST_TRANSACTIONS, RPC_ALONE, list_transactions, NULL),
    ROW(CONSUMER_GROUP_HEARTBEAT, RPC_ALONE, consumer_group_heartbeat, NULL),
    ROW(CONSUMER_GROUP_DESCRIBE, RPC_ALONE, consumer_group_describe, NULL),
    ROW(DESCRIBE_TOPIC_PARTITIONS, RPC_ALONE, describe_topic_partitions, NULL),
    ROW(ADD_RAFT_VOTER, RPC_ALONE, add_raft_voter, NULL),
    ROW(REMOVE_RAFT_VOTER, RPC_ALONE, remove_raft_voter, NULL),
    ROW(PEER_HELLO, RPC_ALONE, peer_hello, NULL),
    ROW(PEER_MESSAGE, RPC_WITH_PEERS, peer_message, NULL),
    ROW(PEER_ASK, RPC_WITH_PEERS, peer_ask, NULL),
    ROW(PEER_REST, RPC_WITH_PEERS, peer_rest, rpc_peer_rest_cancel),
    ROW(PEER_LAG, RPC_WITH_PEERS, peer_lag, NULL),
    ROW(PEER_LOG_ENDS, RPC_WITH_PEERS, peer_log_ends, NULL),
};
const uint32_t rpc_api_count = OT_ARRAY_COUNT(rpc_apis);
OT_STATIC_ASSERT(OT_ARRAY_COUNT(rpc_apis) <= RPC_APIS_MAX, "series are kept per row");

int16_t rpc_api_max(const struct rpc_api *row, const struct ot_api *api)
{
    const int16_t stable = broker_peer_api_own(api->key) ? broker_peer_api_max(api) : ot_api_version_max(api, false);
    return row->max_version >= 0 && row->max_version < stable ? row->max_version : stable;
}

bool rpc_api_serves(const struct rpc_api *row, const struct ot_api *api, int16_t version)
{
    return version >= api->version_min && version <= rpc_api_max(row, api);
}
