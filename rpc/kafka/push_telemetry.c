/* PushTelemetry (KIP-714): metrics that a client has about itself, counted by its software. */
#include "rpc/kafka/request.h"

#include "base/wire/push_telemetry_request.h"
#include "base/wire/push_telemetry_response.h"

RPC_HANDLER(push_telemetry)
{
    const struct ot_push_telemetry_request *asked = body;
    struct broker *broker = request->server->broker;
    struct ot_push_telemetry_response response;
    ot_push_telemetry_response_defaults(&response);
    const struct broker_client client = rpc_client(request);
    const struct broker_telemetry_push push = { .client = asked->client_instance_id, .subscription_id = asked->subscription_id, .terminating = asked->terminating,
        .compression = asked->compression_type, .bytes = asked->metrics.bytes };
    request->error = broker_telemetry_take(broker_telemetry(broker), broker_config(broker), &client, &push, ot_exec_now_us(ot_conn_exec(request->conn)));
    response.error_code = ot_err_kafka(request->error);
    rpc_respond(request, &response);
}
