/* PushTelemetry (KIP-714): metrics that a client has about itself, kept by its software. */
#include "rpc/kafka/request.h"

#include "base/wire/push_telemetry_request.h"
#include "base/wire/push_telemetry_response.h"

static void answer(struct rpc_request *request, enum ot_err error)
{
    struct ot_push_telemetry_response response;
    ot_push_telemetry_response_defaults(&response);
    request->error = error;
    response.error_code = ot_err_kafka(error);
    rpc_respond(request, &response);
}

static void push_telemetry_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    answer(request, request->call.telemetry.error);
}

RPC_HANDLER(push_telemetry)
{
    const struct ot_push_telemetry_request *asked = body;
    struct broker *broker = request->server->broker;
    const struct broker_client client = rpc_telemetry_client(request);
    struct broker_telemetry_subscription subscription;
    const struct broker_telemetry_push push = { .client = asked->client_instance_id, .subscription_id = asked->subscription_id, .terminating = asked->terminating,
        .compression = asked->compression_type, .bytes = asked->metrics.bytes, .bytes_max = (size_t)broker_config(broker)->telemetry_max_bytes };
    const struct broker_view *view = broker_view_take(broker);
    enum ot_err error = broker_client_metrics_find(&broker_telemetry(broker)->subscriptions, view, &client, &push.client, NULL, &subscription) ? OT_OK : OT_ERR_NO_MEMORY;
    broker_view_give(view);
    if (error == OT_OK) error = broker_telemetry_take(broker_telemetry(broker), &subscription, &client, &push, ot_exec_now_us(ot_conn_exec(request->conn)));
    if (error != OT_OK || asked->metrics.bytes == 0) {
        answer(request, error);
        return;
    }
    rpc_call_init(request, push_telemetry_done);
    struct broker_telemetry_store *store = &request->call.telemetry;
    store->client = client;
    store->data = asked->metrics.data;
    store->bytes = asked->metrics.bytes;
    store->compression = asked->compression_type;
    broker_telemetry_store(broker, store);
}
