/* CreatePartitions: raise the number of partitions of topics. */
#include "rpc/kafka/request.h"

#include "base/wire/create_partitions_request.h"
#include "base/wire/create_partitions_response.h"

static void create_partitions_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct broker_admin *admin = &request->call.admin;
    struct ot_create_partitions_response response;
    ot_create_partitions_response_defaults(&response);
    response.results.count = (int32_t)admin->item_count;
    response.results.items = rpc_alloc(request, admin->item_count, sizeof *response.results.items);
    if (response.results.items == NULL && admin->item_count > 0) {
        rpc_reject(request, "no memory for its answer");
        return;
    }
    for (uint32_t i = 0; i < admin->item_count; i++) {
        const struct broker_admin_item *item = &admin->items[i];
        response.results.items[i] = (struct ot_create_partitions_response_create_partitions_topic_result){ .name = item->topic, .error_code = ot_err_kafka(item->error),
            .error_message = rpc_error_text(item->error, item->text) };
        if (request->error == OT_OK) request->error = item->error;
    }
    rpc_respond(request, &response);
}

/* Assignments are of the new partitions only, in order. Their numbers end at the new total. */
static bool assignments_fill(struct rpc_request *request, const struct ot_create_partitions_request_create_partitions_topic *topic, struct broker_admin_item *item)
{
    if (topic->assignments.count < 0) return true;
    struct broker_assignment *rows = rpc_alloc(request, (size_t)topic->assignments.count + 1, sizeof *rows);
    if (rows == NULL) return false;
    const int32_t first = topic->count >= topic->assignments.count ? topic->count - topic->assignments.count : 0;      /* else the broker refuses the total */
    for (int32_t i = 0; i < topic->assignments.count; i++) {
        const struct ot_i32_array *ids = &topic->assignments.items[i].broker_ids;
        rows[i] = (struct broker_assignment){ .partition = first + i, .brokers = ids->items, .broker_count = ids->count };
    }
    item->assignments = rows;
    item->assignment_count = (uint32_t)topic->assignments.count;
    return true;
}

RPC_HANDLER(create_partitions)
{
    const struct ot_create_partitions_request *asked = body;
    struct broker_admin_item *items = rpc_alloc(request, (size_t)asked->topics.count, sizeof *items);
    bool enough = items != NULL || asked->topics.count == 0;
    for (int32_t i = 0; i < asked->topics.count && enough; i++) {
        const struct ot_create_partitions_request_create_partitions_topic *topic = &asked->topics.items[i];
        items[i] = (struct broker_admin_item){ .kind = BROKER_CREATE_PARTITIONS, .topic = topic->name, .partition_count = topic->count, .replication_factor = -1,
            .validate_only = asked->validate_only, .if_version = -1 };
        enough = assignments_fill(request, topic, &items[i]);
    }
    if (!enough) {
        rpc_reject(request, "too much in one request");
        return;
    }
    rpc_call_init(request, create_partitions_done);
    request->call.admin.timeout_ms = asked->timeout_ms;
    request->call.admin.items = items;
    request->call.admin.item_count = (uint32_t)asked->topics.count;
    broker_admin(request->server->broker, &request->call.admin);
}
