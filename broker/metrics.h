/* What the broker counts. The mechanism (types, series, exposition) is base/metrics.h; here are the handles of the rows that the broker feeds. */
#ifndef OT_BROKER_METRICS_H
#define OT_BROKER_METRICS_H

struct broker_metrics;

#endif
