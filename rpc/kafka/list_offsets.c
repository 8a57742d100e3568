/* ListOffsets: offsets by time and at the ends. Special times exist from the version that brought them (trap F9). */
#include "rpc/kafka/request.h"

#include "base/wire/list_offsets_request.h"
#include "base/wire/list_offsets_response.h"

#define TIME_LATEST (-1)
#define TIME_EARLIEST (-2)

/* -3 max timestamp, -4 earliest local, -5 latest tiered, -6 earliest pending upload */
static bool time_known(int64_t at, int16_t version)
{
    static const struct { int64_t at; int16_t version; } special[] = { { -3, 7 }, { -4, 8 }, { -5, 9 }, { -6, 11 } };
    if (at >= TIME_EARLIEST) return true;
    for (size_t i = 0; i < OT_ARRAY_COUNT(special); i++) {
        if (special[i].at == at) return version >= special[i].version;
    }
    return false;
}

/* What is wrong with the asking itself, so that the broker is not asked. Found quadratically, but only within one topic's partitions that repeat an index. */
static enum ot_err ask_error(const struct rpc_request *request, const struct ot_list_offsets_request_list_offsets_topic *topic, int32_t index)
{
    const struct ot_list_offsets_request_list_offsets_partition *part = &topic->partitions.items[index];
    return time_known(part->timestamp, request->header.version) ? OT_OK : OT_ERR_UNSUPPORTED_VERSION;
}

static void list_offsets_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct ot_list_offsets_request *asked = request->body;
    const struct broker_offsets_part *part = request->call.offsets.parts;
    struct ot_list_offsets_response response;
    ot_list_offsets_response_defaults(&response);
    response.topics.count = asked->topics.count;
    response.topics.items = rpc_alloc(request, (size_t)asked->topics.count, sizeof *response.topics.items);
    bool enough = response.topics.items != NULL || asked->topics.count == 0;
    for (int32_t i = 0; i < asked->topics.count && enough; i++) {
        const struct ot_list_offsets_request_list_offsets_topic *topic = &asked->topics.items[i];
        struct ot_list_offsets_response_list_offsets_topic_response *to = &response.topics.items[i];
        to->name = topic->name;
        to->partitions.count = topic->partitions.count;
        to->partitions.items = rpc_alloc(request, (size_t)topic->partitions.count, sizeof *to->partitions.items);
        enough = to->partitions.items != NULL || topic->partitions.count == 0;
        for (int32_t j = 0; j < topic->partitions.count && enough; j++) {
            enum ot_err error = ask_error(request, topic, j);
            const bool ask = error == OT_OK;
            if (ask) error = part->error;
            const bool known = error == OT_OK;
            to->partitions.items[j] = (struct ot_list_offsets_response_list_offsets_partition_response){ .partition_index = topic->partitions.items[j].partition_index,
                .error_code = ot_err_kafka(error), .timestamp = known ? part->timestamp_ms : -1, .offset = known ? part->offset : -1,
                .leader_epoch = known && request->header.version >= 4 ? part->leader_epoch : -1 };
            if (request->error == OT_OK) request->error = error;
            if (ask) part++;
        }
    }
    if (enough) rpc_respond(request, &response);
    else rpc_reject(request, "no memory for its answer");
}

RPC_HANDLER(list_offsets)
{
    const struct ot_list_offsets_request *asked = body;
    struct broker_offsets *offsets = &request->call.offsets;
    size_t count = 0;
    for (int32_t i = 0; i < asked->topics.count; i++) count += (size_t)asked->topics.items[i].partitions.count;
    struct broker_offsets_part *parts = rpc_alloc(request, count, sizeof *parts), *part = parts;
    if (parts == NULL && count > 0) {
        rpc_reject(request, "too many partitions in one request");
        return;
    }
    for (int32_t i = 0; i < asked->topics.count; i++) {
        const struct ot_list_offsets_request_list_offsets_topic *topic = &asked->topics.items[i];
        for (int32_t j = 0; j < topic->partitions.count; j++) {
            const struct ot_list_offsets_request_list_offsets_partition *one = &topic->partitions.items[j];
            if (ask_error(request, topic, j) != OT_OK) continue;
            *part++ = (struct broker_offsets_part){ .topic = topic->name, .partition = one->partition_index, .current_leader_epoch = one->current_leader_epoch, .at = one->timestamp };
        }
    }
    rpc_call_init(request, list_offsets_done);
    offsets->kind = BROKER_LIST_OFFSETS;
    offsets->api_version = request->header.version;
    offsets->read_committed = asked->isolation_level == 1;
    offsets->timeout_ms = asked->timeout_ms;
    offsets->parts = parts;
    offsets->part_count = (uint32_t)(part - parts);
    broker_offsets(request->server->broker, offsets);
}
