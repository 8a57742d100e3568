/* Private to broker/: what the broker counts, and the gauges that are asked for when the metrics are read. */
#ifndef OT_BROKER_METRICS_H
#define OT_BROKER_METRICS_H

#include "base/metrics.h"

struct broker_core;
struct broker_topic;
void broker_metrics_watch(struct broker_core *core);                   /* before threads start; core->metrics may be NULL */
void broker_metrics_topic(struct broker_core *core, struct broker_topic *topic);       /* its series; freed with the topic */
void broker_metrics_topic_gone(struct broker_core *core, struct broker_topic *topic);  /* no longer shown */
void broker_metrics_topic_end(struct broker_core *core, struct broker_topic *topic);   /* gives the series back; under no lock */
void broker_metrics_rejected(struct broker_core *core, const char *topic, const char *reason, uint64_t bytes);
void broker_metrics_corrupt(struct broker_core *core, uint32_t batches);               /* failed a check after they had been stored */
void broker_metrics_segments_deleted(struct broker_core *core, const char *reason, uint32_t count);

#endif
