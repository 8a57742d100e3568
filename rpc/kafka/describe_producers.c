/* DescribeProducers: who produces to partitions of which this broker holds a replica, led here or not, and their open transactions. Who looks for hanging ones asks a broker about all that it holds. */
#include "rpc/kafka/request.h"

#include "base/wire/describe_producers_request.h"
#include "base/wire/describe_producers_response.h"

typedef struct ot_describe_producers_response_partition_response partition_row;

static enum ot_err producers_fill(struct rpc_request *request, struct broker_partition *partition, partition_row *to)
{
    struct broker_partition_state state;
    broker_partition_state(partition, &state);
    if (!state.open) return state.offline ? OT_ERR_KAFKA_STORAGE_ERROR : OT_ERR_NOT_LEADER_OR_FOLLOWER;
    struct eng_producer_view *found = rpc_alloc(request, state.producer_count, sizeof *found);
    to->active_producers.items = rpc_alloc(request, state.producer_count, sizeof *to->active_producers.items);
    if (state.producer_count > 0 && (found == NULL || to->active_producers.items == NULL)) return OT_ERR_NO_MEMORY;
    const uint32_t count = OT_MIN(broker_partition_producers(partition, found, state.producer_count), state.producer_count);
    for (uint32_t i = 0; i < count; i++) {
        to->active_producers.items[i] = (struct ot_describe_producers_response_producer_state){ .producer_id = found[i].producer_id, .producer_epoch = found[i].epoch,
            .last_sequence = found[i].last_sequence, .last_timestamp = found[i].last_timestamp_ms, .coordinator_epoch = found[i].coordinator_epoch,
            .current_txn_start_offset = found[i].current_txn_first_offset };
    }
    to->active_producers.count = (int32_t)count;
    return OT_OK;
}

/* No replica of it is here: whether there is such a partition at all. */
static enum ot_err elsewhere(const struct rpc_request *request, struct ot_str topic, int32_t index)
{
    int32_t leader;
    const struct broker_view *view = broker_view_take(request->server->broker);
    const bool known = broker_view_leader(view, topic, index, &leader);
    broker_view_give(view);
    return known ? OT_ERR_NOT_LEADER_OR_FOLLOWER : OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
}

static bool partition_answer(struct rpc_request *request, struct ot_str topic, int32_t index, partition_row *to)
{
    enum ot_err error = broker_topic_name_check(topic);
    *to = (partition_row){ .partition_index = index, .error_message.null = true };
    if (error == OT_OK) {
        struct broker_partition *partition = broker_partition_find(request->server->broker, topic, index);
        error = partition == NULL ? elsewhere(request, topic, index) : producers_fill(request, partition, to);
        broker_partition_put(partition);
    }
    if (error == OT_ERR_NO_MEMORY) return false;
    to->error_code = ot_err_kafka(error);
    to->error_message = rpc_error_text(error, NULL);
    if (request->error == OT_OK) request->error = error;
    return true;
}

RPC_HANDLER(describe_producers)
{
    const struct ot_describe_producers_request *asked = body;
    struct ot_describe_producers_response response;
    ot_describe_producers_response_defaults(&response);
    request->arena.cap_bytes = RPC_ARENA_MAX_BYTES;        /* a partition has many producers for the few bytes that ask */
    response.topics.count = asked->topics.count;
    response.topics.items = rpc_alloc(request, (size_t)asked->topics.count, sizeof *response.topics.items);
    bool enough = response.topics.items != NULL || asked->topics.count == 0;
    for (int32_t i = 0; i < asked->topics.count && enough; i++) {
        const struct ot_describe_producers_request_topic_request *topic = &asked->topics.items[i];
        struct ot_describe_producers_response_topic_response *to = &response.topics.items[i];
        *to = (struct ot_describe_producers_response_topic_response){ .name = topic->name, .partitions.count = topic->partition_indexes.count };
        to->partitions.items = rpc_alloc(request, (size_t)topic->partition_indexes.count, sizeof *to->partitions.items);
        enough = to->partitions.items != NULL || topic->partition_indexes.count == 0;
        for (int32_t j = 0; j < topic->partition_indexes.count && enough; j++)
            enough = partition_answer(request, topic->name, topic->partition_indexes.items[j], &to->partitions.items[j]);
    }
    if (enough) rpc_respond(request, &response);
    else rpc_reject(request, "no memory for its answer");
}
