/* OffsetDelete: committed offsets of topics that nobody in the group subscribes to. */
#include "rpc/kafka/request.h"

#include "base/wire/offset_delete_request.h"
#include "base/wire/offset_delete_response.h"

static bool parts_fill(struct rpc_request *request, const struct ot_offset_delete_request *asked)
{
    struct group_ask *ask = &request->call.group.ask;
    size_t count = 0;
    for (int32_t i = 0; i < asked->topics.count; i++) count += (size_t)asked->topics.items[i].partitions.count;
    ask->parts = rpc_alloc(request, count, sizeof *ask->parts);
    if (ask->parts == NULL && count > 0) return false;
    const struct broker_view *view = broker_view_take(request->server->broker);
    for (int32_t i = 0; i < asked->topics.count; i++) {
        const struct ot_offset_delete_request_offset_delete_request_topic *topic = &asked->topics.items[i];
        struct broker_view_topic known;
        const bool there = broker_view_topic(view, topic->name, &known);
        for (int32_t j = 0; j < topic->partitions.count; j++)
            ask->parts[ask->part_count++] = (struct group_part){ .topic = topic->name, .partition = topic->partitions.items[j].partition_index,
                .error = there ? OT_OK : OT_ERR_UNKNOWN_TOPIC_OR_PARTITION };
    }
    broker_view_give(view);
    return true;
}

static void offset_delete_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct ot_offset_delete_request *asked = request->body;
    const struct group_part *part = request->call.group.ask.parts;
    struct ot_offset_delete_response response;
    ot_offset_delete_response_defaults(&response);
    request->error = broker_group_error(&request->call.group);
    response.error_code = ot_err_kafka(request->error);
    if (request->error != OT_OK) {
        rpc_respond(request, &response);
        return;
    }
    response.topics.count = asked->topics.count;
    response.topics.items = rpc_alloc(request, (size_t)asked->topics.count, sizeof *response.topics.items);
    bool enough = response.topics.items != NULL || asked->topics.count == 0;
    for (int32_t i = 0; i < asked->topics.count && enough; i++) {
        struct ot_offset_delete_response_offset_delete_response_topic *to = &response.topics.items[i];
        to->name = asked->topics.items[i].name;
        to->partitions.count = asked->topics.items[i].partitions.count;
        to->partitions.items = rpc_alloc(request, (size_t)to->partitions.count, sizeof *to->partitions.items);
        enough = to->partitions.items != NULL || to->partitions.count == 0;
        for (int32_t j = 0; j < to->partitions.count && enough; j++, part++)
            to->partitions.items[j] = (struct ot_offset_delete_response_offset_delete_response_partition){ part->partition, ot_err_kafka(part->error) };
    }
    if (enough) rpc_respond(request, &response);
    else rpc_reject(request, "no memory for its answer");
}

RPC_HANDLER(offset_delete)
{
    const struct ot_offset_delete_request *asked = body;
    if (!rpc_group_begin(request, GROUP_ASK_OFFSET_DELETE, asked->group_id, 1, offset_delete_done)) return;
    if (parts_fill(request, asked)) broker_group(request->server->broker, &request->call.group);
    else rpc_reject(request, "too much in one request");
}
