/* SyncGroup: answered when the leader of the generation has said who does what, and the log has it. */
#include "rpc/kafka/request.h"

#include "base/wire/sync_group_request.h"
#include "base/wire/sync_group_response.h"

static void sync_group_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    struct ot_sync_group_response *response = rpc_group_response(request);
    if (request->call.group.error != OT_OK) response->error_code = ot_err_kafka(request->error);
    rpc_respond(request, response);
}

RPC_HANDLER(sync_group)
{
    const struct ot_sync_group_request *asked = body;
    if (rpc_group_begin(request, GROUP_ASK_SYNC, asked->group_id, sizeof(struct ot_sync_group_response), sync_group_done))
        broker_group(request->server->broker, &request->call.group);
}
