/* OffsetForLeaderEpoch: where an epoch ended (trap F10). */
#include "rpc/kafka/request.h"

#include "base/wire/offset_for_leader_epoch_request.h"
#include "base/wire/offset_for_leader_epoch_response.h"

static void epoch_end_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct ot_offset_for_leader_epoch_request *asked = request->body;
    const struct broker_offsets_part *part = request->call.offsets.parts;
    struct ot_offset_for_leader_epoch_response response;
    ot_offset_for_leader_epoch_response_defaults(&response);
    response.topics.count = asked->topics.count;
    response.topics.items = rpc_alloc(request, (size_t)asked->topics.count, sizeof *response.topics.items);
    bool enough = response.topics.items != NULL || asked->topics.count == 0;
    for (int32_t i = 0; i < asked->topics.count && enough; i++) {
        const struct ot_offset_for_leader_epoch_request_offset_for_leader_topic *topic = &asked->topics.items[i];
        struct ot_offset_for_leader_epoch_response_offset_for_leader_topic_result *to = &response.topics.items[i];
        to->topic = topic->topic;
        to->partitions.count = topic->partitions.count;
        to->partitions.items = rpc_alloc(request, (size_t)topic->partitions.count, sizeof *to->partitions.items);
        enough = to->partitions.items != NULL || topic->partitions.count == 0;
        for (int32_t j = 0; j < topic->partitions.count && enough; j++, part++) {
            const bool known = part->error == OT_OK;
            to->partitions.items[j] = (struct ot_offset_for_leader_epoch_response_epoch_end_offset){ .error_code = ot_err_kafka(part->error), .partition = part->partition,
                .leader_epoch = known ? part->leader_epoch : -1, .end_offset = known ? part->offset : -1 };
            if (request->error == OT_OK) request->error = part->error;
        }
    }
    if (enough) rpc_respond(request, &response);
    else rpc_reject(request, "no memory for its answer");
}

RPC_HANDLER(offset_for_leader_epoch)
{
    const struct ot_offset_for_leader_epoch_request *asked = body;
    struct broker_offsets *offsets = &request->call.offsets;
    size_t count = 0;
    for (int32_t i = 0; i < asked->topics.count; i++) count += (size_t)asked->topics.items[i].partitions.count;
    struct broker_offsets_part *parts = rpc_alloc(request, count, sizeof *parts), *part = parts;
    if (parts == NULL && count > 0) {
        rpc_reject(request, "too many partitions in one request");
        return;
    }
    for (int32_t i = 0; i < asked->topics.count; i++) {
        const struct ot_offset_for_leader_epoch_request_offset_for_leader_topic *topic = &asked->topics.items[i];
        for (int32_t j = 0; j < topic->partitions.count; j++) {
            const struct ot_offset_for_leader_epoch_request_offset_for_leader_partition *one = &topic->partitions.items[j];
            *part++ = (struct broker_offsets_part){ .topic = topic->topic, .partition = one->partition, .current_leader_epoch = one->current_leader_epoch, .at = one->leader_epoch };
        }
    }
    rpc_call_init(request, epoch_end_done);
    offsets->kind = BROKER_EPOCH_END;
    offsets->api_version = request->header.version;
    offsets->parts = parts;
    offsets->part_count = (uint32_t)count;
    broker_offsets(request->server->broker, offsets);
}
