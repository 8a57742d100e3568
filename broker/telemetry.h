/* Metrics that clients push about themselves (KIP-714): whom to ask for what, how often, and what is taken in.
 *
 * What clients are asked for is what the subscriptions say (client_metrics.h). A push is bounded in size and rate, checked, counted by client software, and what it
 * says is kept as series by software and version: sums of all clients together, gauges as last told by any of them. Memory is fixed: a table of recent clients in which a new one takes the place of another with the same slot; a client that lost its
 * slot may push once earlier than its interval, nothing else. */
#ifndef OT_BROKER_TELEMETRY_H
#define OT_BROKER_TELEMETRY_H

#include "base/map.h"
#include "base/metrics.h"
#include "broker/call.h"
#include "broker/client_metrics.h"
#include <pthread.h>

#define BROKER_TELEMETRY_CLIENTS 4096
#define BROKER_TELEMETRY_SERIES 2000           /* that clients may make; the others are one */

struct broker_telemetry {
    struct broker_client_metrics subscriptions;
    pthread_mutex_t mutex;                     /* guards the table and the series */
    struct ot_map series;                      /* software, version and name -> what is told; held */
    struct ot_metrics *metrics;                /* NULL: nothing is counted */
    struct broker_telemetry_client { struct ot_uuid id; int64_t pushed_us; bool ended; } clients[BROKER_TELEMETRY_CLIENTS];
};
struct broker;
struct broker_telemetry *broker_telemetry(struct broker *broker);      /* of broker.c */
void broker_telemetry_init(struct broker_telemetry *telemetry, struct ot_metrics *metrics);
void broker_telemetry_free(struct broker_telemetry *telemetry);

/* bytes_max: telemetry.max.bytes */
struct broker_telemetry_push { struct ot_uuid client; int32_t subscription_id; bool terminating; int8_t compression; size_t bytes, bytes_max; };
/* INVALID_REQUEST: no client id, or it said before that it ends. UNKNOWN_SUBSCRIPTION_ID: ask for the subscription again. UNSUPPORTED_COMPRESSION_TYPE.
 * TELEMETRY_TOO_LARGE. THROTTLING_QUOTA_EXCEEDED: before its interval has passed. Any thread. */
OT_MUST_CHECK enum ot_err broker_telemetry_take(struct broker_telemetry *telemetry, const struct broker_telemetry_subscription *subscription,
    const struct broker_client *client, const struct broker_telemetry_push *push, int64_t now_us);

/* Keep what a push says that was taken. done is never called before this returns; data and texts are borrowed until then. */
struct broker_telemetry_store {
    struct broker_call call;
    struct broker_client client; const uint8_t *data; size_t bytes; int8_t compression;
    enum ot_err error;                         /* INVALID_RECORD: no metrics of OpenTelemetry, or more than 4 MiB of them. NO_MEMORY */
    struct broker *broker;                     /* own from here */
    struct ot_task io_task;
};
void broker_telemetry_store(struct broker *broker, struct broker_telemetry_store *ask);

#endif
