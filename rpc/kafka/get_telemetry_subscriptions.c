/* GetTelemetrySubscriptions (KIP-714): which metrics this client shall push about itself, and how often. */
#include "rpc/kafka/request.h"

#include "base/wire/get_telemetry_subscriptions_request.h"
#include "base/wire/get_telemetry_subscriptions_response.h"

#include <string.h>

static bool metrics_fill(struct rpc_request *request, const char *prefixes, struct ot_str_array *to)
{
    const size_t most = strlen(prefixes) / 2 + 1;
    to->items = rpc_alloc(request, most, sizeof *to->items);
    if (to->items == NULL) return false;
    for (const char *at = prefixes; *at != '\0';) {
        at += strspn(at, ", ");
        const size_t bytes = strcspn(at, ", ");
        /* the empty prefix is that of every metric */
        if (bytes > 0) to->items[to->count++] = bytes == 1 && *at == '*' ? ot_str_of("") : (struct ot_str){ at, (uint32_t)bytes, false };
        at += bytes;
    }
    return true;
}

RPC_HANDLER(get_telemetry_subscriptions)
{
    static int8_t compressions[] = { 4, 3, 1, 2 };         /* zstd, lz4, gzip, snappy: the best first */
    const struct ot_get_telemetry_subscriptions_request *asked = body;
    struct ot_get_telemetry_subscriptions_response response;
    struct broker_telemetry_subscription subscription;
    ot_get_telemetry_subscriptions_response_defaults(&response);
    broker_telemetry_subscription(broker_config(request->server->broker), &subscription);
    response.client_instance_id = asked->client_instance_id;
    if (ot_uuid_is_zero(&asked->client_instance_id)) ot_uuid_random(&response.client_instance_id);
    response.subscription_id = subscription.id;
    response.accepted_compression_types = (struct ot_i8_array){ compressions, (int32_t)OT_ARRAY_COUNT(compressions) };
    response.push_interval_ms = subscription.interval_ms;
    response.telemetry_max_bytes = BROKER_TELEMETRY_BYTES_MAX;
    response.delta_temporality = true;
    if (metrics_fill(request, subscription.prefixes, &response.requested_metrics)) rpc_respond(request, &response);
    else rpc_reject(request, "no memory for its answer");
}
