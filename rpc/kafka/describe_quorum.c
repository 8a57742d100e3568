/* DescribeQuorum: the coordinator as Kafka's quorum: its versions are offsets of the metadata log, its term is the leader epoch. */
#include "rpc/kafka/request.h"

#include "base/wire/describe_quorum_request.h"
#include "base/wire/describe_quorum_response.h"

#define METADATA_TOPIC "__cluster_metadata"

typedef struct ot_describe_quorum_response_replica_state replica_row;
typedef struct ot_describe_quorum_response_partition_data partition_row;
typedef struct ot_describe_quorum_response_topic_data topic_row;
typedef struct ot_describe_quorum_response_node node_row;

static bool is_metadata(const struct ot_describe_quorum_request *asked)
{
    return asked->topics.count == 1 && ot_str_equal(asked->topics.items[0].topic_name, ot_str_of(METADATA_TOPIC)) && asked->topics.items[0].partitions.count == 1
        && asked->topics.items[0].partitions.items[0].partition_index == 0;
}

static bool rows_alloc(struct rpc_request *request, struct ot_describe_quorum_response *response)
{
    const struct ot_describe_quorum_request *asked = request->body;
    response->topics.count = asked->topics.count;
    response->topics.items = rpc_alloc(request, (size_t)asked->topics.count, sizeof(topic_row));
    bool enough = response->topics.items != NULL || asked->topics.count == 0;
    for (int32_t i = 0; i < asked->topics.count && enough; i++) {
        const int32_t count = asked->topics.items[i].partitions.count;
        topic_row *topic = &response->topics.items[i];
        *topic = (topic_row){ .topic_name = asked->topics.items[i].topic_name, .partitions.count = count };
        topic->partitions.items = rpc_alloc(request, (size_t)count, sizeof(partition_row));
        enough = topic->partitions.items != NULL || count == 0;
        for (int32_t j = 0; j < count && enough; j++) {
            topic->partitions.items[j] = (partition_row){ .partition_index = asked->topics.items[i].partitions.items[j].partition_index,
                .error_code = ot_err_kafka(OT_ERR_UNKNOWN_TOPIC_OR_PARTITION), .error_message = rpc_error_text(OT_ERR_UNKNOWN_TOPIC_OR_PARTITION, NULL) };
        }
    }
    return enough;
}

static bool node_fill(struct rpc_request *request, int32_t id, const struct broker_view_voter *voter, node_row *to)
{
    const char *host = ot_arena_str(&request->arena, voter->host);
    to->node_id = id;
    to->listeners.items = rpc_alloc(request, 1, sizeof *to->listeners.items);
    if (host == NULL || to->listeners.items == NULL) return false;
    to->listeners.count = 1;
    to->listeners.items[0] = (struct ot_describe_quorum_response_listener){ .name = ot_str_of("PEER"), .host = ot_str_of(host), .port = (uint16_t)voter->port };
    return true;
}

static bool quorum_fill(struct rpc_request *request, const struct broker_view *view, struct ot_describe_quorum_response *response)
{
    partition_row *to = &response->topics.items[0].partitions.items[0];
    struct broker_view_cluster cluster;
    struct broker_view_broker broker;
    struct broker_view_voter voter;
    int32_t most = 0;
    broker_view_cluster(view, &cluster);
    for (int32_t after = INT32_MIN; broker_view_next_broker(view, after, &request->arena, &broker); after = broker.id) most++;
    replica_row *voters = rpc_alloc(request, (size_t)most + 1, sizeof *voters), *observers = rpc_alloc(request, (size_t)most + 1, sizeof *observers);
    node_row *nodes = rpc_alloc(request, (size_t)most + 1, sizeof *nodes);
    if (voters == NULL || observers == NULL || nodes == NULL) return false;
    /* one past the last version, as a log's end is one past its last record */
    *to = (partition_row){ .leader_id = cluster.controller_id, .leader_epoch = cluster.term, .high_watermark = cluster.version + 1, .current_voters.items = voters,
        .observers.items = observers };
    const int64_t now_ms = ot_exec_wall_ms(ot_conn_exec(request->conn));
    for (int32_t after = INT32_MIN; broker_view_next_broker(view, after, &request->arena, &broker); after = broker.id) {
        const bool votes = broker_view_voter(view, broker.id, &voter), leads = broker.id == cluster.controller_id;
        replica_row *row = votes ? &voters[to->current_voters.count++] : &observers[to->observers.count++];
        *row = (replica_row){ .replica_id = broker.id, .log_end_offset = cluster.version + 1, .last_fetch_timestamp = leads ? now_ms : -1,
            .last_caught_up_timestamp = leads ? now_ms : -1 };
        if (!votes || request->header.version < 2) continue;
        row->replica_directory_id = voter.dir_id;
        if (!node_fill(request, broker.id, &voter, &nodes[response->nodes.count++])) return false;
    }
    response->nodes.items = nodes;
    return true;
}

RPC_HANDLER(describe_quorum)
{
    struct ot_describe_quorum_response response;
    ot_describe_quorum_response_defaults(&response);
    bool enough = rows_alloc(request, &response);
    if (enough && is_metadata(body)) {
        const struct broker_view *view = broker_view_take(request->server->broker);
        enough = quorum_fill(request, view, &response);
        broker_view_give(view);
    }
    if (enough) rpc_respond(request, &response);
    else rpc_reject(request, "too much in one request");
}
