/* ConsumerGroupDescribe: groups of the new protocol, with what each member has and what it should have. */
#include "rpc/kafka/request.h"

#include "base/wire/consumer_group_describe_request.h"
#include "base/wire/consumer_group_describe_response.h"
#include "broker/features.h"

typedef struct ot_consumer_group_describe_response_described_group group_row;

#define OPERATIONS_OF_A_GROUP 328              /* READ, DELETE, DESCRIBE as bits, and no authorizer forbids any */

static void group_fill(struct rpc_request *request, const struct broker_group_call *call, bool with_operations, group_row *to)
{
    const enum ot_err error = !broker_consumer_groups_served(request->server->broker) ? OT_ERR_UNSUPPORTED_VERSION : broker_group_error(call);
    if (request->error == OT_OK) request->error = error;
    if (error == OT_OK) {
        *to = *(const group_row *)call->ask.response;
    } else {
        ot_consumer_group_describe_response_described_group_defaults(to);
        to->error_code = ot_err_kafka(error);
        to->error_message = rpc_error_text(error, call->ask.text);
    }
    to->group_id = call->ask.group_id;
    if (with_operations && error == OT_OK) to->authorized_operations = OPERATIONS_OF_A_GROUP;
}

static void consumer_group_describe_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct ot_consumer_group_describe_request *asked = request->body;
    struct ot_consumer_group_describe_response response;
    ot_consumer_group_describe_response_defaults(&response);
    response.groups.items = rpc_alloc(request, (size_t)asked->group_ids.count, sizeof *response.groups.items);
    if (response.groups.items == NULL && asked->group_ids.count > 0) {
        rpc_reject(request, "no memory for its answer");
        return;
    }
    response.groups.count = asked->group_ids.count;
    for (int32_t i = 0; i < asked->group_ids.count; i++)
        group_fill(request, &request->call.groups.items[i], asked->include_authorized_operations, &response.groups.items[i]);
    rpc_respond(request, &response);
}

RPC_HANDLER(consumer_group_describe)
{
    const struct ot_consumer_group_describe_request *asked = body;
    const size_t count = (size_t)OT_MAX(asked->group_ids.count, 0);
    request->arena.cap_bytes = RPC_ANSWER_ARENA_BYTES;
    struct broker_group_call *items = rpc_alloc(request, count, sizeof *items);
    group_row *rows = rpc_alloc(request, count, sizeof *rows);
    bool enough = count == 0 || (items != NULL && rows != NULL);
    for (size_t i = 0; i < count && enough; i++) {
        enough = rpc_group_init(request, &items[i], GROUP_ASK_CONSUMER_VIEW, asked->group_ids.items[i]);
        items[i].ask.response = &rows[i];
    }
    if (!enough) {
        rpc_reject(request, "too much in one request");
        return;
    }
    rpc_call_init(request, consumer_group_describe_done);
    request->call.groups.items = items;
    request->call.groups.count = (uint32_t)count;
    broker_group_all(request->server->broker, &request->call.groups);
}
