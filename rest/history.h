/* Numbers of this broker as they went: rings of values in steps of wall time, so that a dashboard has a past and needs no other server.
 *
 * of the broker: 10 s for an hour, 1 min for a day, 15 min for a week. Of topics and groups: 10 s for an hour, 2 min for a day. A value belongs to the step [slot * step, +step):
 * rates are over the step, gauges its mean, percentiles come from the histogram of the step, never from other percentiles. A step without a value is NaN.
 * On the server's executor. Private to rest/. */
#ifndef OT_REST_HISTORY_H
#define OT_REST_HISTORY_H

#include "base/map.h"
#include "base/mem.h"
#include "base/metrics.h"

enum rest_history_kind { REST_HISTORY_BROKER, REST_HISTORY_TOPIC, REST_HISTORY_GROUP, REST_HISTORY_KINDS };
enum rest_history_how { REST_HISTORY_RATE, REST_HISTORY_ERRORS /* a rate, of what did not go well */, REST_HISTORY_SUM, REST_HISTORY_MAX, REST_HISTORY_QUANTILE };
struct rest_history_row {
    enum rest_history_kind kind;
    const char *name, *unit, *help;
    enum rest_history_how how;
    enum ot_metric metric;
    const char *label;             /* QUANTILE: only the series of this first label; NULL: any */
    double quantile, factor;
};
const struct rest_history_row *rest_history_rows(uint32_t *count_out);

#define REST_HISTORY_RINGS 3
struct rest_history_ring { int64_t step_ms; uint32_t slots; };         /* slots 0: there is none */
extern const struct rest_history_ring rest_history_rings[REST_HISTORY_KINDS][REST_HISTORY_RINGS];

struct rest_history_series {
    const struct rest_history_row *row;
    float *values[REST_HISTORY_RINGS];         /* by slot modulo the ring's length */
    double now, base[REST_HISTORY_RINGS], sum[REST_HISTORY_RINGS];
    uint32_t n[REST_HISTORY_RINGS];
    bool seen;
};
struct rest_history_entity {                   /* the broker, a topic, a group */
    enum rest_history_kind kind;
    char name[300];
    int64_t seen_ms;
    uint64_t bytes;                            /* as taken from the pool */
    struct rest_history_series *series; uint32_t series_count;
};
struct rest_history_hist;
struct rest_history {
    struct ot_metrics *metrics;
    struct ot_mem_pool *pool;                  /* may be NULL */
    uint32_t series_max, series_count;         /* of topics and groups */
    int64_t slot[REST_HISTORY_KINDS][REST_HISTORY_RINGS];      /* the one that is being gathered; 0: none was */
    int64_t begun_ms[REST_HISTORY_KINDS][REST_HISTORY_RINGS];  /* when that was begun */
    struct ot_map entities;                    /* "kind\0name" → entity */
    struct rest_history_hist *hists;           /* of the percentiles: counts at the beginning of each ring's step */
    uint64_t ticks;
};

/* metrics NULL: it stays empty. Topics and groups beyond series_max, or beyond what pool gives, are summed under "_other". */
void rest_history_init(struct rest_history *history, struct ot_metrics *metrics, struct ot_mem_pool *pool, uint32_t series_max);
void rest_history_free(struct rest_history *history);
void rest_history_tick(struct rest_history *history, int64_t wall_ms);         /* every few seconds */
/* NULL: it was never seen. */
const struct rest_history_entity *rest_history_find(const struct rest_history *history, enum rest_history_kind kind, const char *name);
/* The value of a step; NaN: none, or not kept (any more). */
double rest_history_value(const struct rest_history *history, const struct rest_history_series *series, uint32_t ring, int64_t slot);

/* The whole as bytes, to be written at a stop and read at the next start. NULL: no memory. MALFORMED, MISMATCH (another version): nothing was taken over. */
char *rest_history_pack(const struct rest_history *history, size_t *bytes_out);
OT_MUST_CHECK enum ot_err rest_history_unpack(struct rest_history *history, const char *data, size_t bytes, int64_t wall_ms);

#endif
