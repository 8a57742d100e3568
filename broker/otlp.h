/* Numbers out of OpenTelemetry's metrics (opentelemetry.proto.metrics.v1.MetricsData, as clients push them by KIP-714): the name of each metric, its kind, and the sum of its points.
 * Histograms and the like are passed over. Nothing is allocated; depth is fixed by the format. */
#ifndef OT_BROKER_OTLP_H
#define OT_BROKER_OTLP_H

#include "base/bytes.h"

struct broker_otlp_number {
    struct ot_str name;                        /* borrowed from the data */
    bool sum;                                  /* else a gauge */
    bool delta;                                /* of a sum: since the last push, else since the client began */
    double value;                              /* finite; of all points together */
};
/* False: that is no such message; what was well formed before the fault was given. */
bool broker_otlp_each(const uint8_t *data, size_t bytes, void (*each)(void *arg, const struct broker_otlp_number *number), void *arg);

#endif
