/* UnregisterBroker: a broker that is gone for good is forgotten. Unlike Kafka's, ours is fenced, without replicas and without a vote by then: what it holds cannot be orphaned. */
#include "rpc/kafka/request.h"

#include "base/wire/unregister_broker_request.h"
#include "base/wire/unregister_broker_response.h"

#define FORGET_WAIT_MS 30000

static void forgotten(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct broker_control *control = &request->call.control;
    struct ot_unregister_broker_response response;
    ot_unregister_broker_response_defaults(&response);
    request->error = control->error;
    response.error_code = ot_err_kafka(control->error);
    response.error_message = rpc_error_text(control->error, control->text);
    rpc_respond(request, &response);
}

RPC_HANDLER(unregister_broker)
{
    const struct ot_unregister_broker_request *asked = body;
    rpc_call_init(request, forgotten);
    struct broker_control *control = &request->call.control;
    control->kind = BROKER_FORGET;
    control->broker_id = asked->broker_id;
    control->validate_only = false;
    control->timeout_ms = FORGET_WAIT_MS;
    broker_control(request->server->broker, control);
}
