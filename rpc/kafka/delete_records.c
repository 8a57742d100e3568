/* DeleteRecords: raise the start of logs; the answer has the new low watermark (trap F11). */
#include "rpc/kafka/request.h"

#include "base/wire/delete_records_request.h"
#include "base/wire/delete_records_response.h"

static void delete_records_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct ot_delete_records_request *asked = request->body;
    const struct broker_offsets_part *part = request->call.offsets.parts;
    struct ot_delete_records_response response;
    ot_delete_records_response_defaults(&response);
    response.topics.count = asked->topics.count;
    response.topics.items = rpc_alloc(request, (size_t)asked->topics.count, sizeof *response.topics.items);
    bool enough = response.topics.items != NULL || asked->topics.count == 0;
    for (int32_t i = 0; i < asked->topics.count && enough; i++) {
        const struct ot_delete_records_request_delete_records_topic *topic = &asked->topics.items[i];
        struct ot_delete_records_response_delete_records_topic_result *to = &response.topics.items[i];
        to->name = topic->name;
        to->partitions.count = topic->partitions.count;
        to->partitions.items = rpc_alloc(request, (size_t)topic->partitions.count, sizeof *to->partitions.items);
        enough = to->partitions.items != NULL || topic->partitions.count == 0;
        for (int32_t j = 0; j < topic->partitions.count && enough; j++, part++) {
            to->partitions.items[j] = (struct ot_delete_records_response_delete_records_partition_result){ .partition_index = part->partition,
                .low_watermark = part->error == OT_OK ? part->offset : -1, .error_code = ot_err_kafka(part->error) };
            if (request->error == OT_OK) request->error = part->error;
        }
    }
    if (enough) rpc_respond(request, &response);
    else rpc_reject(request, "no memory for its answer");
}

RPC_HANDLER(delete_records)
{
    const struct ot_delete_records_request *asked = body;
    struct broker_offsets *offsets = &request->call.offsets;
    size_t count = 0;
    for (int32_t i = 0; i < asked->topics.count; i++) count += (size_t)asked->topics.items[i].partitions.count;
    struct broker_offsets_part *parts = rpc_alloc(request, count, sizeof *parts), *part = parts;
    if (parts == NULL && count > 0) {
        rpc_reject(request, "too many partitions in one request");
        return;
    }
    for (int32_t i = 0; i < asked->topics.count; i++) {
        const struct ot_delete_records_request_delete_records_topic *topic = &asked->topics.items[i];
        for (int32_t j = 0; j < topic->partitions.count; j++) {
            *part++ = (struct broker_offsets_part){ .topic = topic->name, .partition = topic->partitions.items[j].partition_index, .current_leader_epoch = -1,
                .at = topic->partitions.items[j].offset };
        }
    }
    rpc_call_init(request, delete_records_done);
    offsets->kind = BROKER_DELETE_RECORDS;
    offsets->api_version = request->header.version;
    offsets->timeout_ms = asked->timeout_ms;
    offsets->parts = parts;
    offsets->part_count = (uint32_t)count;
    broker_offsets(request->server->broker, offsets);
}
