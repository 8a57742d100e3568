/* Metrics: the rows of base/metrics_table.h, their labelled series, and ways to read them all.
 *
 * A series is looked up (or made at its first use) once and then counted on by its pointer: relaxed atomics, any thread, no lock. Without
 * labels a metric is one series from the start. The number of series is capped: beyond the cap a look-up gives the one series of
 * the metric whose labels all say "_other". The functions that count take NULL and do nothing, for callers without metrics. */
#ifndef OT_BASE_METRICS_H
#define OT_BASE_METRICS_H

#include "base/hist.h"
#include "base/metrics_table.h"

enum ot_metric {
#define X(name, type, unit, labels, help) OT_METRIC_##name,
    OT_METRICS(X)
#undef X
    OT_METRIC_COUNT
};
enum ot_metric_type { OT_METRIC_COUNTER, OT_METRIC_GAUGE, OT_METRIC_HISTOGRAM };
enum ot_metric_unit { OT_METRIC_NONE, OT_METRIC_BYTES, OT_METRIC_SECONDS, OT_METRIC_RATIO };
#define OT_METRIC_LABELS_MAX 4
#define OT_METRIC_LABEL_BYTES_MAX 256      /* a longer value is cut */

struct ot_metric_info {
    const char *name;                      /* as exposed: "ottla_connections", "process_open_fds" */
    const char *help;
    enum ot_metric_type type;
    enum ot_metric_unit unit;
    uint32_t label_count;
    const char *labels[OT_METRIC_LABELS_MAX];
};
const struct ot_metric_info *ot_metric_info(enum ot_metric metric);
const char *ot_metric_type_name(enum ot_metric_type type);      /* "counter", "gauge", "histogram" */
const char *ot_metric_unit_name(enum ot_metric_unit unit);      /* "", "bytes", "seconds", "ratio" */

struct ot_metrics;
struct ot_series;
struct ot_metrics *ot_metrics_new(uint32_t series_max);         /* NULL: no memory */
void ot_metrics_free(struct ot_metrics *metrics);               /* and all series, held or not */

/* The series of these label values (one for each label of the row, in its order; NULL without labels). Never NULL. Held: the pointer stays
 * good until ot_series_release, or forever if that is never called. Takes a lock and may allocate: keep what you get. */
struct ot_series *ot_series_get(struct ot_metrics *metrics, enum ot_metric metric, const char *const *label_values);
void ot_series_release(struct ot_metrics *metrics, struct ot_series *series);       /* NULL is fine */
/* The topic is gone: its series no longer appears, and is freed when nobody holds it any more. Should the topic come
 * again, get again: the held one stays hidden. */
void ot_series_drop(struct ot_metrics *metrics, enum ot_metric metric, const char *const *label_values);

void ot_series_add(struct ot_series *series, uint64_t n);                /* counters; SECONDS: microseconds */
void ot_series_set_total(struct ot_series *series, uint64_t total);      /* counters that somebody else keeps */
void ot_series_set(struct ot_series *series, double value);              /* gauges */
void ot_series_move(struct ot_series *series, double by);                /* gauges, up and down */
void ot_series_observe_us(struct ot_series *series, int64_t us);         /* histograms */
uint64_t ot_series_total(const struct ot_series *series);
double ot_series_value(const struct ot_series *series);
const struct ot_hist *ot_series_hist(const struct ot_series *series);

/* Called before every reading, to set gauges that are cheaper asked for than kept. Add them before threads start. */
void ot_metrics_before_read(struct ot_metrics *metrics, void (*fill)(void *arg, struct ot_metrics *metrics), void *arg);
/* Gauges and counters that exist only while they are read (one for each partition, say): fill calls ot_metric_give for each. */
struct ot_metric_sink;
void ot_metrics_source(struct ot_metrics *metrics, enum ot_metric metric, void (*fill)(void *arg, struct ot_metric_sink *sink), void *arg);
void ot_metric_give(struct ot_metric_sink *sink, const char *const *label_values, double value);
void ot_metrics_watch_process(struct ot_metrics *metrics);      /* feeds process_* */

/* One series as read: value of counters (in the unit shown) and gauges; hist of histograms. All borrowed during the call. */
struct ot_metric_reading {
    enum ot_metric metric;
    const struct ot_metric_info *info;
    const char *const *label_values;
    double value;
    uint64_t total;                        /* counters, as counted; 0 when it came from a source */
    const struct ot_hist *hist;
};
/* Every series, grouped by metric in the order of the table, series in the order they were made. No series is made meanwhile, so neither each nor
 * a source may look one up, drop or release one. */
void ot_metrics_each(struct ot_metrics *metrics, void (*each)(void *arg, const struct ot_metric_reading *reading), void *arg);

/* The bounds of exposed histograms: 1-2-5 from 10 us to 100 s. */
#define OT_METRIC_BOUNDS 22
extern const uint64_t ot_metric_bounds_us[OT_METRIC_BOUNDS];

/* Prometheus text format 0.0.4, in pieces of some KiB; a false answer of write stops. Metrics without a series are left out. */
/* The same as OpenMetrics 1.0: families of counters without _total, canonical bounds; its end, "# EOF", is the caller's. */
bool ot_metrics_write_openmetrics(struct ot_metrics *metrics, bool (*write)(void *arg, const char *text, size_t bytes), void *arg);
bool ot_metrics_write_text(struct ot_metrics *metrics, bool (*write)(void *arg, const char *text, size_t bytes), void *arg);

#endif
