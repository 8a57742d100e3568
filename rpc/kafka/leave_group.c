/* LeaveGroup: v3 and later name several members, and may be an administrator's. */
#include "rpc/kafka/request.h"

#include "base/wire/leave_group_request.h"
#include "base/wire/leave_group_response.h"

static void leave_group_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    struct ot_leave_group_response *response = rpc_group_response(request);
    if (request->call.group.error != OT_OK) response->error_code = ot_err_kafka(request->error);
    rpc_respond(request, response);
}

RPC_HANDLER(leave_group)
{
    const struct ot_leave_group_request *asked = body;
    if (rpc_group_begin(request, GROUP_ASK_LEAVE, asked->group_id, sizeof(struct ot_leave_group_response), leave_group_done))
        broker_group(request->server->broker, &request->call.group);
}
