/* Names that others' dashboards query, for GET /metrics?compat=. Private to rest/. */
#ifndef OT_REST_COMPAT_H
#define OT_REST_COMPAT_H

#include "rest/call.h"
#include "base/metrics.h"

/* Appends to call->out. openmetrics: families of counters without _total. */
void rest_compat_kafka_exporter(struct rest_call *call, bool openmetrics);
void rest_compat_jmx(struct rest_call *call, struct ot_metrics *metrics, bool openmetrics);

#endif
