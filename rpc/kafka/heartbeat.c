/* Heartbeat: a sign of life, and how a member learns that the group rebalances. */
#include "rpc/kafka/request.h"

#include "base/wire/heartbeat_request.h"
#include "base/wire/heartbeat_response.h"

static void heartbeat_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    struct ot_heartbeat_response *response = rpc_group_response(request);
    /* a coordinator that is only just loading is no reason to look for another one: as Kafka, the member carries on */
    if (request->call.group.error == OT_ERR_COORDINATOR_LOAD_IN_PROGRESS) request->error = OT_OK;
    if (request->call.group.error != OT_OK) response->error_code = ot_err_kafka(request->error);
    rpc_respond(request, response);
}

RPC_HANDLER(heartbeat)
{
    const struct ot_heartbeat_request *asked = body;
    if (rpc_group_begin(request, GROUP_ASK_HEARTBEAT, asked->group_id, sizeof(struct ot_heartbeat_response), heartbeat_done))
        broker_group(request->server->broker, &request->call.group);
}
