/* OffsetCommit: names up to v9, ids from v10 on. Topics that are not there are refused here, the rest is the group's to say. */
#include "rpc/kafka/request.h"

#include "base/wire/offset_commit_request.h"
#include "base/wire/offset_commit_response.h"

static bool parts_fill(struct rpc_request *request, const struct ot_offset_commit_request *asked)
{
    struct group_ask *ask = &request->call.group.ask;
    size_t count = 0;
    for (int32_t i = 0; i < asked->topics.count; i++) count += (size_t)asked->topics.items[i].partitions.count;
    ask->parts = rpc_alloc(request, count, sizeof *ask->parts);
    if (ask->parts == NULL && count > 0) return false;
    const struct broker_view *view = broker_view_take(request->server->broker);
    for (int32_t i = 0; i < asked->topics.count; i++) {
        const struct ot_offset_commit_request_offset_commit_request_topic *topic = &asked->topics.items[i];
        struct ot_str name;
        struct ot_uuid id;
        const enum ot_err err = rpc_group_topic(request, view, request->header.version >= 10, topic->name, &topic->topic_id, &name, &id);
        for (int32_t j = 0; j < topic->partitions.count; j++) {
            const struct ot_offset_commit_request_offset_commit_request_partition *from = &topic->partitions.items[j];
            ask->parts[ask->part_count++] = (struct group_part){ .topic = name, .topic_id = id, .partition = from->partition_index, .error = err,
                .offset = from->committed_offset, .leader_epoch = from->committed_leader_epoch, .metadata = from->committed_metadata };
        }
    }
    broker_view_give(view);
    return true;
}

static void offset_commit_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct ot_offset_commit_request *asked = request->body;
    const struct group_part *part = request->call.group.ask.parts;
    struct ot_offset_commit_response response;
    ot_offset_commit_response_defaults(&response);
    const enum ot_err whole = request->error = broker_group_error(&request->call.group);
    response.topics.count = asked->topics.count;
    response.topics.items = rpc_alloc(request, (size_t)asked->topics.count, sizeof *response.topics.items);
    bool enough = response.topics.items != NULL || asked->topics.count == 0;
    for (int32_t i = 0; i < asked->topics.count && enough; i++) {
        const struct ot_offset_commit_request_offset_commit_request_topic *topic = &asked->topics.items[i];
        struct ot_offset_commit_response_offset_commit_response_topic *to = &response.topics.items[i];
        *to = (struct ot_offset_commit_response_offset_commit_response_topic){ .name = topic->name, .topic_id = topic->topic_id, .partitions.count = topic->partitions.count };
        to->partitions.items = rpc_alloc(request, (size_t)to->partitions.count, sizeof *to->partitions.items);
        enough = to->partitions.items != NULL || to->partitions.count == 0;
        for (int32_t j = 0; j < to->partitions.count && enough; j++, part++) {
            const enum ot_err err = part->error != OT_OK ? part->error : whole;
            to->partitions.items[j] = (struct ot_offset_commit_response_offset_commit_response_partition){ .partition_index = part->partition, .error_code = ot_err_kafka(err) };
            if (request->error == OT_OK) request->error = err;
        }
    }
    if (enough) rpc_respond(request, &response);
    else rpc_reject(request, "no memory for its answer");
}

RPC_HANDLER(offset_commit)
{
    const struct ot_offset_commit_request *asked = body;
    if (!rpc_group_begin(request, GROUP_ASK_OFFSET_COMMIT, asked->group_id, 1, offset_commit_done)) return;
    struct group_ask *ask = &request->call.group.ask;
    ask->member_id = asked->member_id;
    ask->instance_id = asked->group_instance_id;
    ask->generation = asked->generation_id_or_member_epoch;
    ask->retention_ms = request->header.version <= 4 ? asked->retention_time_ms : -1;
    if (parts_fill(request, asked)) broker_group(request->server->broker, &request->call.group);
    else rpc_reject(request, "too much in one request");
}
