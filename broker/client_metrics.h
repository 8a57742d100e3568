/* Client metrics subscriptions (KIP-714): configs of the resource type CLIENT_METRICS, by Kafka's names. Each says of which clients it speaks (match), what they shall push
 * (metrics) and how often (interval.ms). A client gets what all that match it ask for, at the shortest of their intervals. */
#ifndef OT_BROKER_CLIENT_METRICS_H
#define OT_BROKER_CLIENT_METRICS_H

#include "broker/call.h"
#include "broker/config.h"
#include "broker/view.h"
#include <pthread.h>

enum { BROKER_CLIENT_METRICS_INTERVAL_MS = 300000 /* of clients that no subscription matches */, BROKER_CLIENT_METRICS_MAX = 1000 /* subscriptions */ };

struct broker_client_metrics_row { const char *key; enum broker_config_type type; const char *fallback, *text; };
extern const struct broker_client_metrics_row broker_client_metrics_rows[];
extern const uint32_t broker_client_metrics_row_count;
const struct broker_client_metrics_row *broker_client_metrics_row(struct ot_str key);      /* NULL: no such key */
/* The errors are Kafka's. INVALID_REQUEST: no such key, or an interval out of bounds. INVALID_CONFIG: no number, or an illegal match. text_out says why. */
OT_MUST_CHECK enum ot_err broker_client_metrics_check(struct ot_str key, struct ot_str value, char *text_out, size_t text_bytes);

/* All subscriptions as they were last seen, their expressions compiled. */
struct broker_client_metrics { pthread_mutex_t mutex; uint64_t seen; struct broker_client_metrics_one *ones; uint32_t count; };
void broker_client_metrics_init(struct broker_client_metrics *set);
void broker_client_metrics_free(struct broker_client_metrics *set);

struct broker_telemetry_subscription {
    int32_t id;                                /* another one when the wish is another */
    int32_t interval_ms;
    struct ot_str *prefixes; uint32_t prefix_count;        /* none: nothing; one that is "*": all */
};
/* What this client shall push. prefixes come from the arena (NULL: only the rest is told). Any thread. False: no memory. */
OT_MUST_CHECK bool broker_client_metrics_find(struct broker_client_metrics *set, const struct broker_view *view, const struct broker_client *client, const struct ot_uuid *instance,
    struct ot_arena *arena, struct broker_telemetry_subscription *out);

#endif
