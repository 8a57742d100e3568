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

static void row_fill(const struct broker_quorum_row *from, replica_row *to)
{
    *to = (replica_row){ .replica_id = from->id, .log_end_offset = from->log_end, .last_fetch_timestamp = from->fetched_ms, .last_caught_up_timestamp = from->caught_up_ms };
}

static bool quorum_fill(struct rpc_request *request, const struct broker_view *view, struct ot_describe_quorum_response *response)
{
    const struct broker_quorum *quorum = &request->call.quorum;
    partition_row *to = &response->topics.items[0].partitions.items[0];
    const size_t most = (size_t)quorum->row_count + 1;
    struct broker_view_voter voter;
    replica_row *voters = rpc_alloc(request, most, sizeof *voters), *observers = rpc_alloc(request, most, sizeof *observers);
    node_row *nodes = rpc_alloc(request, most, sizeof *nodes);
    if (quorum->error != OT_OK || voters == NULL || observers == NULL || nodes == NULL) return false;
    *to = (partition_row){ .leader_id = quorum->leader, .leader_epoch = quorum->term, .high_watermark = quorum->high_watermark, .current_voters.items = voters,
        .observers.items = observers };
    for (uint32_t i = 0; i < quorum->row_count; i++) {
        const struct broker_quorum_row *from = &quorum->rows[i];
        replica_row *row = from->votes ? &voters[to->current_voters.count++] : &observers[to->observers.count++];
        row_fill(from, row);
        if (!from->votes || request->header.version < 2 || !broker_view_voter(view, from->id, &voter)) continue;
        row->replica_directory_id = voter.dir_id;
        if (!node_fill(request, from->id, &voter, &nodes[response->nodes.count++])) return false;
    }
    response->nodes.items = nodes;
    return true;
}

static void respond(struct rpc_request *request, bool metadata)
{
    struct ot_describe_quorum_response response;
    ot_describe_quorum_response_defaults(&response);
    bool enough = rows_alloc(request, &response);
    if (enough && metadata) {
        const struct broker_view *view = broker_view_take(request->server->broker);
        enough = quorum_fill(request, view, &response);
        broker_view_give(view);
    }
    if (enough) rpc_respond(request, &response);
    else rpc_reject(request, "too much in one request");
}

static void described(struct broker_call *call) { respond(rpc_request_of(call), true); }

RPC_HANDLER(describe_quorum)
{
    if (!is_metadata(body)) {
        respond(request, false);
        return;
    }
    rpc_call_init(request, described);
    request->call.quorum.arena = &request->arena;
    request->call.quorum.here = request->server->peer;         /* it asks the coordinator, and this is what it is told */
    broker_quorum(request->server->broker, &request->call.quorum);
}
