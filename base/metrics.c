/* Series live in lists by metric, in the order they were made, and in one map from metric and label values. The lock guards lists and
 * map: read for look-ups and readings, write for making and dropping. */
#include "base/metrics.h"
#include "base/map.h"
#include "base/os.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct ot_series {
    struct ot_series *next;
    enum ot_metric metric;
    _Atomic uint32_t holds;
    bool listed;           /* in list and map; under the lock */
    bool counted;          /* against the cap */
    _Atomic uint64_t bits; /* a counter, or a gauge's double */
    struct ot_hist *hist;
    const char *label_values[OT_METRIC_LABELS_MAX];
    size_t key_bytes;
    char key[]; /* the metric's number, then the values, each with its zero */
};

struct hook {
    void (*fill)(void *arg, struct ot_metrics *metrics);
    void *arg;
};
struct source {
    struct source *next;
    void (*fill)(void *arg, struct ot_metric_sink *sink);
    void *arg;
};

struct ot_metrics {
    pthread_rwlock_t lock;
    struct ot_map map;
    struct ot_series *first[OT_METRIC_COUNT], **end[OT_METRIC_COUNT];
    struct source *sources[OT_METRIC_COUNT];
    struct hook hooks[16];
    uint32_t hook_count, series_max, series_count;
    struct ot_series *refused_total, *series_gauge;
    struct ot_series *void_series[3]; /* by type, never shown: given out when even "_other" cannot be made */
};

#define KEY_BYTES_MAX (4 + OT_METRIC_LABELS_MAX * (OT_METRIC_LABEL_BYTES_MAX + 1))

static struct ot_metric_info infos[OT_METRIC_COUNT] = {
#define X(name, type, unit, labels, help) {"ottla_" #name, help, OT_METRIC_##type, OT_METRIC_##unit, 0, {labels}},
    OT_METRICS(X)
#undef X
};
static pthread_once_t infos_once = PTHREAD_ONCE_INIT;

/* The table writes labels as "a,b"; here they become texts of their own. */
static void infos_split(void)
{
    static char pool[4096];
    size_t used = 0;
    for (size_t i = 0; i < OT_METRIC_COUNT; i++) {
        struct ot_metric_info *info = &infos[i];
        if (strncmp(info->name, "ottla_process_", 14) == 0) info->name += 6;
        const char *at = info->labels[0];
        while (*at != '\0') {
            const size_t bytes = strcspn(at, ",");
            OT_ASSERT(info->label_count < OT_METRIC_LABELS_MAX && used + bytes + 1 <= sizeof(pool));
            memcpy(pool + used, at, bytes);
            info->labels[info->label_count++] = pool + used;
            used += bytes + 1;
            at += bytes + (at[bytes] == ',');
        }
    }
}

const struct ot_metric_info *ot_metric_info(enum ot_metric metric)
{
    pthread_once(&infos_once, infos_split);
    OT_ASSERT((unsigned)metric < OT_METRIC_COUNT);
    return &infos[metric];
}

const char *ot_metric_type_name(enum ot_metric_type type)
{
    static const char *const names[] = {"counter", "gauge", "histogram"};
    return names[type];
}

const char *ot_metric_unit_name(enum ot_metric_unit unit)
{
    static const char *const names[] = {"", "bytes", "seconds", "ratio"};
    return names[unit];
}

static size_t make_key(enum ot_metric metric, const char *const *label_values, char key[static KEY_BYTES_MAX])
{
    const struct ot_metric_info *info = ot_metric_info(metric);
    const uint32_t number = (uint32_t)metric;
    memcpy(key, &number, 4);
    size_t bytes = 4;
    for (uint32_t i = 0; i < info->label_count; i++) {
        const char *value = label_values == NULL ? "_other" : label_values[i];
        size_t value_bytes = strnlen(value, OT_METRIC_LABEL_BYTES_MAX + 1);
        if (value_bytes > OT_METRIC_LABEL_BYTES_MAX) {
            value_bytes = OT_METRIC_LABEL_BYTES_MAX;
            while (value_bytes > 0 && (value[value_bytes] & 0xc0) == 0x80) value_bytes--; /* not inside a character */
        }
        memcpy(key + bytes, value, value_bytes);
        key[bytes + value_bytes] = '\0';
        bytes += value_bytes + 1;
    }
    return bytes;
}

static struct ot_series *series_alloc(enum ot_metric metric, const char *key, size_t key_bytes)
{
    const struct ot_metric_info *info = ot_metric_info(metric);
    struct ot_series *series = calloc(1, sizeof(*series) + key_bytes);
    if (series == NULL) return NULL;
    if (info->type == OT_METRIC_HISTOGRAM && (series->hist = calloc(1, sizeof(*series->hist))) == NULL) {
        free(series);
        return NULL;
    }
    series->metric = metric;
    series->key_bytes = key_bytes;
    memcpy(series->key, key, key_bytes);
    const char *at = series->key + 4;
    for (uint32_t i = 0; i < info->label_count && key_bytes > 4; i++, at += strlen(at) + 1) series->label_values[i] = at;
    return series;
}

static void series_free(struct ot_series *series)
{
    if (series == NULL) return;
    free(series->hist);
    free(series);
}

/* Makes and lists a series; NULL when there is no memory. Under the write lock. */
static struct ot_series *series_add(
    struct ot_metrics *metrics, enum ot_metric metric, const char *key, size_t key_bytes, bool counted)
{
    struct ot_series *series = series_alloc(metric, key, key_bytes);
    if (series == NULL) return NULL;
    if (ot_map_put(&metrics->map, key, key_bytes, series) != OT_OK) {
        series_free(series);
        return NULL;
    }
    series->listed = true;
    *metrics->end[metric] = series;
    metrics->end[metric] = &series->next;
    series->counted = counted;
    metrics->series_count += counted;
    return series;
}

/* At the cap: the metric's "_other". It is not counted against the cap, there is at most one for each row. */
static struct ot_series *series_other(struct ot_metrics *metrics, enum ot_metric metric)
{
    ot_series_add(metrics->refused_total, 1);
    char key[KEY_BYTES_MAX];
    const size_t key_bytes = make_key(metric, NULL, key);
    struct ot_series *series = ot_map_get(&metrics->map, key, key_bytes);
    if (series == NULL) series = series_add(metrics, metric, key, key_bytes, false);
    return series != NULL ? series : metrics->void_series[ot_metric_info(metric)->type];
}

struct ot_series *ot_series_get(struct ot_metrics *metrics, enum ot_metric metric, const char *const *label_values)
{
    if (metrics == NULL) return NULL;
    OT_ASSERT(label_values != NULL || ot_metric_info(metric)->label_count == 0);
    char key[KEY_BYTES_MAX];
    const size_t key_bytes = make_key(metric, label_values, key);
    pthread_rwlock_rdlock(&metrics->lock);
    struct ot_series *series = ot_map_get(&metrics->map, key, key_bytes);
    if (series != NULL) atomic_fetch_add_explicit(&series->holds, 1, memory_order_relaxed);
    pthread_rwlock_unlock(&metrics->lock);
    if (series != NULL) return series;
    pthread_rwlock_wrlock(&metrics->lock);
    series = ot_map_get(&metrics->map, key, key_bytes);
    if (series == NULL && metrics->series_count < metrics->series_max) series = series_add(metrics, metric, key, key_bytes, true);
    if (series == NULL) series = series_other(metrics, metric);
    atomic_fetch_add_explicit(&series->holds, 1, memory_order_relaxed);
    pthread_rwlock_unlock(&metrics->lock);
    return series;
}

void ot_series_release(struct ot_metrics *metrics, struct ot_series *series)
{
    if (series == NULL) return;
    pthread_rwlock_wrlock(&metrics->lock);
    const uint32_t before = atomic_fetch_sub_explicit(&series->holds, 1, memory_order_relaxed);
    OT_ASSERT(before > 0);
    const bool gone = before == 1 && !series->listed && series != metrics->void_series[ot_metric_info(series->metric)->type];
    if (gone && series->counted) metrics->series_count--;
    pthread_rwlock_unlock(&metrics->lock);
    if (gone) series_free(series);
}

void ot_series_drop(struct ot_metrics *metrics, enum ot_metric metric, const char *const *label_values)
{
    if (metrics == NULL || ot_metric_info(metric)->label_count == 0) return;
    char key[KEY_BYTES_MAX];
    const size_t key_bytes = make_key(metric, label_values, key);
    pthread_rwlock_wrlock(&metrics->lock);
    struct ot_series *series = ot_map_remove(&metrics->map, key, key_bytes);
    if (series != NULL) {
        struct ot_series **link = &metrics->first[metric];
        while (*link != series) link = &(*link)->next;
        *link = series->next;
        if (metrics->end[metric] == &series->next) metrics->end[metric] = link;
        series->next = NULL;
        series->listed = false;
        if (atomic_load_explicit(&series->holds, memory_order_relaxed) == 0) {
            metrics->series_count -= series->counted;
            series_free(series);
        }
    }
    pthread_rwlock_unlock(&metrics->lock);
}

struct ot_metrics *ot_metrics_new(uint32_t series_max)
{
    struct ot_metrics *metrics = calloc(1, sizeof(*metrics));
    if (metrics == NULL) return NULL;
    pthread_rwlock_init(&metrics->lock, NULL);
    ot_map_init(&metrics->map);
    metrics->series_max = series_max;
    bool whole = true;
    for (size_t i = 0; i < OT_METRIC_COUNT; i++) {
        const enum ot_metric metric = (enum ot_metric)i;
        const struct ot_metric_info *info = ot_metric_info(metric);
        metrics->end[i] = &metrics->first[i];
        struct ot_series **none = &metrics->void_series[info->type];
        if (*none == NULL) whole &= (*none = series_alloc(metric, "\0\0\0", 4)) != NULL;
        if (info->label_count > 0) continue;
        char key[KEY_BYTES_MAX];
        whole &= series_add(metrics, metric, key, make_key(metric, NULL, key), false) != NULL;
    }
    if (!whole) {
        ot_metrics_free(metrics);
        return NULL;
    }
    metrics->refused_total = ot_series_get(metrics, OT_METRIC_metrics_series_refused_total, NULL);
    metrics->series_gauge = ot_series_get(metrics, OT_METRIC_metrics_series, NULL);
    return metrics;
}

void ot_metrics_free(struct ot_metrics *metrics)
{
    if (metrics == NULL) return;
    for (size_t i = 0; i < OT_METRIC_COUNT; i++) {
        for (struct ot_series *series = metrics->first[i], *next; series != NULL; series = next) {
            next = series->next;
            series_free(series);
        }
        for (struct source *source = metrics->sources[i], *next; source != NULL; source = next) {
            next = source->next;
            free(source);
        }
    }
    for (size_t i = 0; i < OT_ARRAY_COUNT(metrics->void_series); i++) series_free(metrics->void_series[i]);
    ot_map_free(&metrics->map);
    pthread_rwlock_destroy(&metrics->lock);
    free(metrics);
}

/* --- counting --- */

void ot_series_add(struct ot_series *series, uint64_t n)
{
    if (series != NULL) atomic_fetch_add_explicit(&series->bits, n, memory_order_relaxed);
}

void ot_series_set_total(struct ot_series *series, uint64_t total)
{
    if (series != NULL) atomic_store_explicit(&series->bits, total, memory_order_relaxed);
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

void ot_series_set(struct ot_series *series, double value)
{
    if (series != NULL) atomic_store_explicit(&series->bits, bits_of(value), memory_order_relaxed);
}

void ot_series_move(struct ot_series *series, double by)
{
    if (series == NULL) return;
    uint64_t bits = atomic_load_explicit(&series->bits, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(
        &series->bits, &bits, bits_of(double_of(bits) + by), memory_order_relaxed, memory_order_relaxed)) {
    }
}

void ot_series_observe_us(struct ot_series *series, int64_t us)
{
    if (series != NULL) ot_hist_record(series->hist, us);
}

uint64_t ot_series_total(const struct ot_series *series)
{
    return series == NULL ? 0 : atomic_load_explicit(&series->bits, memory_order_relaxed);
}

double ot_series_value(const struct ot_series *series)
{
    return double_of(ot_series_total(series));
}
const struct ot_hist *ot_series_hist(const struct ot_series *series)
{
    return series == NULL ? NULL : series->hist;
}

/* --- reading --- */

void ot_metrics_before_read(struct ot_metrics *metrics, void (*fill)(void *arg, struct ot_metrics *metrics), void *arg)
{
    OT_ASSERT(metrics->hook_count < OT_ARRAY_COUNT(metrics->hooks));
    metrics->hooks[metrics->hook_count++] = (struct hook){fill, arg};
}

void ot_metrics_source(
    struct ot_metrics *metrics, enum ot_metric metric, void (*fill)(void *arg, struct ot_metric_sink *sink), void *arg)
{
    OT_ASSERT(ot_metric_info(metric)->type != OT_METRIC_HISTOGRAM);
    struct source *source = calloc(1, sizeof(*source));
    OT_ASSERT(source != NULL); /* at start */
    source->fill = fill;
    source->arg = arg;
    pthread_rwlock_wrlock(&metrics->lock);
    struct source **link = &metrics->sources[metric];
    while (*link != NULL) link = &(*link)->next;
    *link = source;
    pthread_rwlock_unlock(&metrics->lock);
}

struct ot_metric_sink {
    struct ot_metric_reading reading;
    void (*each)(void *arg, const struct ot_metric_reading *reading);
    void *arg;
};

void ot_metric_give(struct ot_metric_sink *sink, const char *const *label_values, double value)
{
    sink->reading.label_values = label_values;
    sink->reading.value = value;
    sink->each(sink->arg, &sink->reading);
}

static void read_series(const struct ot_series *series, struct ot_metric_sink *sink)
{
    const struct ot_metric_info *info = sink->reading.info;
    struct ot_metric_reading *reading = &sink->reading;
    reading->hist = series->hist;
    reading->total = info->type == OT_METRIC_COUNTER ? ot_series_total(series) : 0;
    double value = 0;
    if (info->type == OT_METRIC_GAUGE) value = ot_series_value(series);
    if (info->type == OT_METRIC_COUNTER) value = (double)reading->total * (info->unit == OT_METRIC_SECONDS ? 1e-6 : 1.0);
    ot_metric_give(sink, series->label_values, value);
    reading->hist = NULL;
    reading->total = 0;
}

void ot_metrics_each(struct ot_metrics *metrics, void (*each)(void *arg, const struct ot_metric_reading *reading), void *arg)
{
    for (uint32_t i = 0; i < metrics->hook_count; i++) metrics->hooks[i].fill(metrics->hooks[i].arg, metrics);
    pthread_rwlock_rdlock(&metrics->lock);
    ot_series_set(metrics->series_gauge, metrics->series_count);
    for (size_t i = 0; i < OT_METRIC_COUNT; i++) {
        const enum ot_metric metric = (enum ot_metric)i;
        struct ot_metric_sink sink = {.each = each, .arg = arg};
        sink.reading.metric = metric;
        sink.reading.info = ot_metric_info(metric);
        for (const struct ot_series *series = metrics->first[i]; series != NULL; series = series->next) {
            /* a source replaces the one series of a metric without labels */
            if (metrics->sources[i] == NULL || sink.reading.info->label_count > 0) read_series(series, &sink);
        }
        for (const struct source *source = metrics->sources[i]; source != NULL; source = source->next)
            source->fill(source->arg, &sink);
    }
    pthread_rwlock_unlock(&metrics->lock);
}

static void fill_process(void *arg, struct ot_metrics *metrics)
{
    (void)arg;
    struct ot_os_process now;
    ot_os_process(&now);
    struct {
        enum ot_metric metric;
        double value;
    } const rows[] = {
        {OT_METRIC_process_resident_memory_bytes, (double)now.resident_bytes},
        {OT_METRIC_process_virtual_memory_bytes, (double)now.virtual_bytes},
        {OT_METRIC_process_open_fds, now.open_fds},
        {OT_METRIC_process_max_fds, (double)now.fds_max},
        {OT_METRIC_process_threads, now.threads},
        {OT_METRIC_process_start_time_seconds, (double)now.started_wall_ms / 1000.0},
    };
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) ot_series_set(metrics->first[rows[i].metric], rows[i].value);
    ot_series_set_total(metrics->first[OT_METRIC_process_cpu_seconds_total], now.cpu_us);
}

void ot_metrics_watch_process(struct ot_metrics *metrics)
{
    ot_metrics_before_read(metrics, fill_process, NULL);
}
