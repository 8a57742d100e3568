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
    const struct broker_client client = rpc_telemetry_client(request);
    struct broker_telemetry_subscription subscription;
    const struct broker_telemetry_push push = { .client = asked->client_instance_id, .subscription_id = asked->subscription_id, .terminating = asked->terminating,
        .compression = asked->compression_type, .bytes = asked->metrics.bytes, .bytes_max = (size_t)broker_config(broker)->telemetry_max_bytes };
    const struct broker_view *view = broker_view_take(broker);
    const bool enough = broker_client_metrics_find(&broker_telemetry(broker)->subscriptions, view, &client, &push.client, NULL, &subscription);
    broker_view_give(view);
    request->error = enough ? broker_telemetry_take(broker_telemetry(broker), &subscription, &client, &push, ot_exec_now_us(ot_conn_exec(request->conn))) : OT_ERR_NO_MEMORY;
    response.error_code = ot_err_kafka(request->error);
    rpc_respond(request, &response);
}
