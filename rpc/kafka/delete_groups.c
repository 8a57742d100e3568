/* DeleteGroups: groups without members, with their offsets. */
#include "rpc/kafka/request.h"

#include "base/wire/delete_groups_request.h"
#include "base/wire/delete_groups_response.h"

static void delete_groups_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct ot_delete_groups_request *asked = request->body;
    struct ot_delete_groups_response response;
    ot_delete_groups_response_defaults(&response);
    response.results.count = asked->groups_names.count;
    response.results.items = rpc_alloc(request, (size_t)asked->groups_names.count, sizeof *response.results.items);
    if (response.results.items == NULL && asked->groups_names.count > 0) {
        rpc_reject(request, "no memory for its answer");
        return;
    }
    for (int32_t i = 0; i < asked->groups_names.count; i++) {
        const struct broker_group_call *item = &request->call.groups.items[i];
        const enum ot_err error = item->error == OT_ERR_COORDINATOR_NOT_AVAILABLE && broker_shard_count(request->server->broker, BROKER_SHARD_GROUPS) == 0
            ? OT_ERR_GROUP_ID_NOT_FOUND : broker_group_error(item);
        response.results.items[i] = (struct ot_delete_groups_response_deletable_group_result){ .group_id = asked->groups_names.items[i], .error_code = ot_err_kafka(error),
            .error_message = rpc_error_text(error, item->ask.text) };
        if (request->error == OT_OK) request->error = error;
    }
    rpc_respond(request, &response);
}

RPC_HANDLER(delete_groups)
{
    const struct ot_delete_groups_request *asked = body;
    const size_t count = (size_t)asked->groups_names.count;
    struct broker_group_call *items = rpc_alloc(request, count, sizeof *items);
    bool enough = count == 0 || items != NULL;
    for (size_t i = 0; i < count && enough; i++) enough = rpc_group_init(request, &items[i], GROUP_ASK_DELETE, asked->groups_names.items[i]);
    if (!enough) {
        rpc_reject(request, "too much in one request");
        return;
    }
    rpc_call_init(request, delete_groups_done);
    request->call.groups.items = items;
    request->call.groups.count = (uint32_t)count;
    broker_group_all(request->server->broker, &request->call.groups);
}
