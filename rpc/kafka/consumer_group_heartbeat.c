/* ConsumerGroupHeartbeat (KIP-848): joining, staying, reconciling and leaving are all this one request. */
#include "rpc/kafka/request.h"

#include "base/wire/consumer_group_heartbeat_request.h"
#include "base/wire/consumer_group_heartbeat_response.h"
#include "broker/features.h"

static void consumer_group_heartbeat_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    struct ot_consumer_group_heartbeat_response *response = rpc_group_response(request);
    if (request->call.group.error != OT_OK) {
        response->error_code = ot_err_kafka(request->error);
        response->error_message = ot_str_of(ot_err_text(request->error));
    }
    rpc_respond(request, response);
}

RPC_HANDLER(consumer_group_heartbeat)
{
    const struct ot_consumer_group_heartbeat_request *asked = body;
    if (!broker_consumer_groups_served(request->server->broker)) {
        struct ot_consumer_group_heartbeat_response response;
        ot_consumer_group_heartbeat_response_defaults(&response);
        request->error = OT_ERR_UNSUPPORTED_VERSION;
        response.error_code = ot_err_kafka(request->error);
        response.error_message = ot_str_of("the feature group.version is at 0");
        rpc_respond(request, &response);
    } else if (rpc_group_begin(request, GROUP_ASK_CONSUMER_HEARTBEAT, asked->group_id, sizeof(struct ot_consumer_group_heartbeat_response), consumer_group_heartbeat_done))
        broker_group(request->server->broker, &request->call.group);
}
