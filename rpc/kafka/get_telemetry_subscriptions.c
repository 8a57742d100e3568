/* GetTelemetrySubscriptions (KIP-714): which metrics this client shall push about itself, and how often. */
#include "rpc/kafka/request.h"

#include "base/wire/get_telemetry_subscriptions_request.h"
#include "base/wire/get_telemetry_subscriptions_response.h"

#include <stdlib.h>
#include <string.h>

struct broker_client rpc_telemetry_client(const struct rpc_request *request)
{
    struct broker_client client = rpc_client(request);
    const char *colon = strrchr(ot_conn_peer(request->conn), ':');
    client.port = colon == NULL ? 0 : (uint16_t)strtoul(colon + 1, NULL, 10);
    return client;
}

RPC_HANDLER(get_telemetry_subscriptions)
{
    static int8_t compressions[] = { 4, 3, 1, 2 };         /* zstd, lz4, gzip, snappy: the best first */
    const struct ot_get_telemetry_subscriptions_request *asked = body;
    struct ot_get_telemetry_subscriptions_response response;
    struct broker_telemetry_subscription subscription;
    ot_get_telemetry_subscriptions_response_defaults(&response);
    const struct broker_client client = rpc_telemetry_client(request);
    response.client_instance_id = asked->client_instance_id;
    if (ot_uuid_is_zero(&asked->client_instance_id)) ot_uuid_random(&response.client_instance_id);
    const struct broker_view *view = broker_view_take(request->server->broker);
    const bool enough = broker_client_metrics_find(&broker_telemetry(request->server->broker)->subscriptions, view, &client, &response.client_instance_id, &request->arena, &subscription);
    broker_view_give(view);
    response.subscription_id = subscription.id;
    response.accepted_compression_types = (struct ot_i8_array){ compressions, (int32_t)OT_ARRAY_COUNT(compressions) };
    response.push_interval_ms = subscription.interval_ms;
    response.telemetry_max_bytes = broker_config(request->server->broker)->telemetry_max_bytes;
    response.delta_temporality = true;
    response.requested_metrics = (struct ot_str_array){ subscription.prefixes, (int32_t)subscription.prefix_count };
    if (enough) rpc_respond(request, &response);
    else rpc_reject(request, "no memory for its answer");
}
