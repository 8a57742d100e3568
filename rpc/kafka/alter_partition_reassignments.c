/* AlterPartitionReassignments: where the replicas of partitions shall lie; null cancels. */
#include "rpc/kafka/request.h"

#include "base/wire/alter_partition_reassignments_request.h"
#include "base/wire/alter_partition_reassignments_response.h"
#include "broker/placement.h"

typedef struct ot_alter_partition_reassignments_response_reassignable_partition_response partition_row;
typedef struct ot_alter_partition_reassignments_response_reassignable_topic_response topic_row;

static bool topic_answer(struct rpc_request *request, const struct broker_view *view, const struct ot_alter_partition_reassignments_request_reassignable_topic *topic, topic_row *to)
{
    const struct ot_alter_partition_reassignments_request *asked = request->body;
    const bool factor_may_change = request->header.version == 0 || asked->allow_replication_factor_change;
    char text[BROKER_TEXT_MAX];
    *to = (topic_row){ .name = topic->name, .partitions.count = topic->partitions.count };
    to->partitions.items = rpc_alloc(request, (size_t)topic->partitions.count, sizeof *to->partitions.items);
    bool enough = to->partitions.items != NULL || topic->partitions.count == 0;
    for (int32_t i = 0; i < topic->partitions.count && enough; i++) {
        const struct ot_alter_partition_reassignments_request_reassignable_partition *one = &topic->partitions.items[i];
        const enum ot_err error = broker_reassign(view, topic->name, one->partition_index, one->replicas.items, one->replicas.count, factor_may_change, &request->arena, text);
        const char *kept = ot_arena_str(&request->arena, ot_str_of(text));
        to->partitions.items[i] = (partition_row){ .partition_index = one->partition_index, .error_code = ot_err_kafka(error), .error_message = rpc_error_text(error, kept) };
        if (request->error == OT_OK) request->error = error;
        enough = kept != NULL;
    }
    return enough;
}

RPC_HANDLER(alter_partition_reassignments)
{
    const struct ot_alter_partition_reassignments_request *asked = body;
    struct ot_alter_partition_reassignments_response response;
    ot_alter_partition_reassignments_response_defaults(&response);
    response.error_message.null = true;
    request->arena.cap_bytes = RPC_ARENA_MAX_BYTES;
    if (request->header.version >= 1) response.allow_replication_factor_change = asked->allow_replication_factor_change;
    response.responses.count = asked->topics.count;
    response.responses.items = rpc_alloc(request, (size_t)asked->topics.count, sizeof *response.responses.items);
    bool enough = response.responses.items != NULL || asked->topics.count == 0;
    const struct broker_view *view = broker_view_take(request->server->broker);
    for (int32_t i = 0; i < asked->topics.count && enough; i++) enough = topic_answer(request, view, &asked->topics.items[i], &response.responses.items[i]);
    broker_view_give(view);
    if (enough) rpc_respond(request, &response);
    else rpc_reject(request, "too much in one request");
}
