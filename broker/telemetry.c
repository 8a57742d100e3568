#include "broker/telemetry.h"
#include "base/util.h"
#include <string.h>

void broker_telemetry_init(struct broker_telemetry *telemetry, struct ot_metrics *metrics)
{
    memset(telemetry, 0, sizeof *telemetry);
    pthread_mutex_init(&telemetry->mutex, NULL);
    broker_client_metrics_init(&telemetry->subscriptions);
    ot_map_init(&telemetry->series);
    telemetry->metrics = metrics;
}

void broker_telemetry_free(struct broker_telemetry *telemetry)
{
    broker_client_metrics_free(&telemetry->subscriptions);
    for (uint32_t i = 0; i < telemetry->series.count; i++) ot_series_release(telemetry->metrics, telemetry->series.entries[i].value);
    ot_map_free(&telemetry->series);
    pthread_mutex_destroy(&telemetry->mutex);
}

static void count(struct broker_telemetry *telemetry, enum ot_metric metric, const struct broker_client *client, uint64_t n)
{
    char software[OT_METRIC_LABEL_BYTES_MAX], version[OT_METRIC_LABEL_BYTES_MAX];
    const char *const labels[] = { software, version };
    if (telemetry->metrics == NULL) return;
    const struct { char *to; struct ot_str from; } texts[] = { { software, client->software_name }, { version, client->software_version } };
    for (size_t i = 0; i < OT_ARRAY_COUNT(texts); i++) {
        const size_t bytes = texts[i].from.null ? 0 : OT_MIN((size_t)texts[i].from.bytes, (size_t)OT_METRIC_LABEL_BYTES_MAX - 1);
        if (bytes > 0) memcpy(texts[i].to, texts[i].from.data, bytes);
        texts[i].to[bytes] = 0;
    }
    struct ot_series *series = ot_series_get(telemetry->metrics, metric, labels);
    ot_series_add(series, n);
    ot_series_release(telemetry->metrics, series);
}

/* A push that comes too early is told to wait for the rest of its interval. */
static void count_held(struct broker_telemetry *telemetry, int64_t us)
{
    const char *const labels[] = { "client_metrics" };
    if (telemetry->metrics == NULL || us <= 0) return;
    struct ot_series *series = ot_series_get(telemetry->metrics, OT_METRIC_throttle_seconds_total, labels);
    ot_series_add(series, (uint64_t)us);
    ot_series_release(telemetry->metrics, series);
}

/* One push per interval, and one more that says it is the last. */
static enum ot_err take_turn(struct broker_telemetry *telemetry, const struct broker_telemetry_push *push, int64_t interval_us, int64_t now_us)
{
    enum ot_err err = OT_OK;
    int64_t held_us = 0;
    struct broker_telemetry_client *client = &telemetry->clients[ot_hash64(push->client.bytes, sizeof push->client.bytes, 0) % BROKER_TELEMETRY_CLIENTS];
    pthread_mutex_lock(&telemetry->mutex);
    const bool known = ot_uuid_equal(&client->id, &push->client);
    if (known && client->ended) err = OT_ERR_INVALID_REQUEST;
    else if (known && !push->terminating && (held_us = interval_us - (now_us - client->pushed_us)) > 0) err = OT_ERR_THROTTLING_QUOTA_EXCEEDED;
    else *client = (struct broker_telemetry_client){ push->client, now_us, push->terminating };
    pthread_mutex_unlock(&telemetry->mutex);
    if (err == OT_ERR_THROTTLING_QUOTA_EXCEEDED) count_held(telemetry, held_us);
    return err;
}

enum ot_err broker_telemetry_take(struct broker_telemetry *telemetry, const struct broker_telemetry_subscription *subscription, const struct broker_client *client,
    const struct broker_telemetry_push *push, int64_t now_us)
{
    if (ot_uuid_is_zero(&push->client)) return OT_ERR_INVALID_REQUEST;
    if (push->subscription_id != subscription->id) return OT_ERR_UNKNOWN_SUBSCRIPTION_ID;
    if (push->compression < 0 || push->compression > 4) return OT_ERR_UNSUPPORTED_COMPRESSION_TYPE;
    if (push->bytes > push->bytes_max) return OT_ERR_TELEMETRY_TOO_LARGE;
    const enum ot_err err = take_turn(telemetry, push, (int64_t)subscription->interval_ms * 1000, now_us);
    if (err != OT_OK) return err;
    count(telemetry, OT_METRIC_client_metrics_pushes_total, client, 1);
    count(telemetry, OT_METRIC_client_metrics_bytes_total, client, push->bytes);
    return OT_OK;
}
