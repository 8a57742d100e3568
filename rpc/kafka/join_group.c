/* JoinGroup: answered when the generation that it joins begins, which may be minutes later. */
#include "rpc/kafka/request.h"

#include "base/wire/join_group_request.h"
#include "base/wire/join_group_response.h"

static void join_group_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    struct ot_join_group_response *response = rpc_group_response(request);
    const struct ot_join_group_request *asked = request->body;
    if (request->call.group.error != OT_OK) {
        response->error_code = ot_err_kafka(request->error);
        response->member_id = asked->member_id;
        if (request->header.version < 7) response->protocol_name = ot_str_of("");
    }
    rpc_respond(request, response);
}

RPC_HANDLER(join_group)
{
    const struct ot_join_group_request *asked = body;
    if (rpc_group_begin(request, GROUP_ASK_JOIN, asked->group_id, sizeof(struct ot_join_group_response), join_group_done))
        broker_group(request->server->broker, &request->call.group);
}
