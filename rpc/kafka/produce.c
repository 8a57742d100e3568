/* Produce: batches go to the broker where they lie in the request; the answer says what became of each.
 *
 * Traps: A8 acks=0 is never answered, an error there closes the connection. W11 v5+ log start offset, v8+ record errors and text, v10+ the current leader. */
#include "rpc/kafka/leader_hint.h"
#include "rpc/kafka/request.h"

#include "base/wire/produce_request.h"
#include "base/wire/produce_response.h"

struct produce_own { uint32_t part_count; bool queued; };

static void acks_0_end(struct rpc_request *request)
{
    const struct broker_produce *produce = &request->call.produce;
    for (uint32_t i = 0; i < produce->part_count; i++) {
        if (produce->parts[i].error == OT_OK) continue;
        rpc_reject(request, "an error of a request that has no answer");
        return;
    }
    rpc_respond_none(request);
}

static bool record_errors_fill(struct rpc_request *request, const struct broker_produce_part *part, struct ot_produce_response_partition_produce_response *row)
{
    const uint32_t count = OT_MIN(part->verdict.record_error_count, (uint32_t)ENG_RECORD_ERRORS_MAX);
    if (part->error == OT_OK || count == 0) return true;
    struct ot_produce_response_batch_index_and_error_message *errors = rpc_alloc(request, count, sizeof *errors);
    if (errors == NULL) return false;
    for (uint32_t i = 0; i < count; i++) {
        errors[i].batch_index = part->verdict.record_errors[i];
        errors[i].batch_index_error_message = rpc_error_text(part->error, part->verdict.text);
    }
    row->record_errors.items = errors;
    row->record_errors.count = (int32_t)count;
    return true;
}

static bool part_answer(struct rpc_request *request, const struct broker_produce_part *part, struct ot_produce_response_partition_produce_response *row)
{
    const int16_t version = request->header.version;
    *row = (struct ot_produce_response_partition_produce_response){ .index = part->partition, .error_code = ot_err_kafka(part->error),
        .base_offset = part->error == OT_OK || request->call.produce.from_peer ? part->base_offset : -1, .log_append_time_ms = part->append_time_ms, .log_start_offset = part->log_start_offset,
        .error_message.null = true, .current_leader = { .leader_id = -1, .leader_epoch = -1 } };
    if (version < 8) return true;
    row->error_message = rpc_error_text(part->error, part->text);
    if (version >= 10 && part->leader_id >= 0) {
        row->current_leader.leader_id = part->leader_id;
        row->current_leader.leader_epoch = part->leader_epoch;
    }
    return record_errors_fill(request, part, row);
}

/* v10+: where the leaders named in the answer are. */
static void endpoints_fill(struct rpc_request *request, const struct broker_view *view, struct ot_produce_response *response)
{
    const struct broker_produce *produce = &request->call.produce;
    struct ot_produce_response_node_endpoint *rows = NULL;
    struct broker_view_broker broker;
    int32_t count = 0;
    for (int32_t after = INT32_MIN; broker_view_next_broker(view, after, &request->arena, &broker); after = broker.id) {
        bool named = false;
        for (uint32_t i = 0; i < produce->part_count && !named; i++) named = produce->parts[i].leader_id == broker.id;
        if (!named) continue;
        struct ot_produce_response_node_endpoint *more = rpc_alloc(request, (size_t)count + 1, sizeof *more);
        if (more == NULL) return;
        for (int32_t i = 0; i < count; i++) more[i] = rows[i];
        rows = more;
        if (!rpc_advertised_of(request, &broker, &rows[count].host, &rows[count].port)) continue;
        rows[count].node_id = broker.id;
        rows[count++].rack = broker.rack;
    }
    response->node_endpoints.items = rows;
    response->node_endpoints.count = count;
}

static void produce_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct ot_produce_request *asked = request->body;
    const struct broker_produce *produce = &request->call.produce;
    struct broker_produce_part *part = produce->parts;
    struct ot_produce_response response;
    bool enough = true, moved = false;
    if (produce->acks == 0) {
        acks_0_end(request);
        return;
    }
    ot_produce_response_defaults(&response);
    struct ot_produce_response_topic_produce_response *topics = rpc_alloc(request, (size_t)asked->topic_data.count, sizeof *topics);
    enough = topics != NULL || asked->topic_data.count == 0;
    for (int32_t i = 0; i < asked->topic_data.count && enough; i++) {
        const struct ot_produce_request_topic_produce_data *topic = &asked->topic_data.items[i];
        topics[i].name = topic->name;
        topics[i].topic_id = topic->topic_id;
        topics[i].partition_responses.count = topic->partition_data.count;
        topics[i].partition_responses.items = rpc_alloc(request, (size_t)topic->partition_data.count, sizeof *topics[i].partition_responses.items);
        enough = topics[i].partition_responses.items != NULL || topic->partition_data.count == 0;
        for (int32_t j = 0; j < topic->partition_data.count && enough; j++, part++) {
            if (request->header.version >= 10)
                moved |= rpc_leader_hint(request->server->broker, &request->arena, part->error, part->topic, &part->topic_id, part->partition, &part->leader_id, &part->leader_epoch);
            enough = part_answer(request, part, &topics[i].partition_responses.items[j]);
            if (request->error == OT_OK) request->error = part->error;
        }
    }
    if (!enough) {
        rpc_reject(request, "no memory for its answer");
        return;
    }
    response.responses.items = topics;
    response.responses.count = asked->topic_data.count;
    const struct broker_view *view = moved && request->header.version >= 10 ? broker_view_take(request->server->broker) : NULL;
    if (view != NULL) endpoints_fill(request, view, &response);
    rpc_respond(request, &response);
    if (view != NULL) broker_view_give(view);
}

static void produce_queued(struct broker_produce *produce)
{
    struct rpc_request *request = rpc_request_of(&produce->call);
    request->door->hold = false;
    ot_conn_kick(request->conn);
}

RPC_HANDLER(produce)
{
    const struct ot_produce_request *asked = body;
    struct broker_produce *produce = &request->call.produce;
    size_t count = 0;
    for (int32_t i = 0; i < asked->topic_data.count; i++) count += (size_t)asked->topic_data.items[i].partition_data.count;
    struct broker_produce_part *parts = rpc_alloc(request, count, sizeof *parts);
    if (parts == NULL && count > 0) {
        rpc_reject(request, "too many partitions in one request");
        return;
    }
    struct broker_produce_part *part = parts;
    for (int32_t i = 0; i < asked->topic_data.count; i++) {
        const struct ot_produce_request_topic_produce_data *topic = &asked->topic_data.items[i];
        for (int32_t j = 0; j < topic->partition_data.count; j++, part++) {
            const struct ot_blob *records = &topic->partition_data.items[j].records;
            part->topic = topic->name;
            part->topic.null = request->header.version >= 13;
            part->topic_id = topic->topic_id;
            part->partition = topic->partition_data.items[j].index;
            part->records = (uint8_t *)(uintptr_t)records->data;   /* stamped in place: the request's buffer is ours to write */
            part->records_bytes = records->null ? 0 : records->bytes;
        }
    }
    rpc_call_init(request, produce_done);
    produce->client = rpc_client(request);
    produce->buf = request->reply->buf;
    produce->acks = asked->acks;
    produce->timeout_ms = asked->timeout_ms;
    produce->api_version = request->header.version;
    produce->transactional_id = asked->transactional_id;
    produce->origin = ENG_ORIGIN_CLIENT;
    produce->from_peer = request->door->hello != NULL && request->door->hello->done;
    produce->parts = parts;
    produce->part_count = (uint32_t)count;
    produce->queued = produce_queued;
    request->door->hold = true;            /* queued may be told before this returns only by the return value */
    if (broker_produce(request->server->broker, produce)) request->door->hold = false;
}
