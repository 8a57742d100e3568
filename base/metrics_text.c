/* Prometheus text format 0.0.4: HELP and TYPE once a metric, then its series; histograms as cumulative buckets with `le` in seconds. */
#include "base/metrics.h"
#include "base/util.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const uint64_t ot_metric_bounds_us[OT_METRIC_BOUNDS] = {10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000,
    200000, 500000, 1000000, 2000000, 5000000, 10000000, 20000000, 50000000, 100000000};

struct writer {
    bool (*write)(void *arg, const char *text, size_t bytes);
    void *arg;
    bool stopped, openmetrics;
    int last_metric;
    size_t bytes;
    char text[8192];
};

static void flush(struct writer *w)
{
    if (w->bytes > 0 && !w->stopped) w->stopped = !w->write(w->arg, w->text, w->bytes);
    w->bytes = 0;
}

static void put(struct writer *w, const char *text, size_t bytes)
{
    while (bytes > 0) {
        if (w->bytes == sizeof(w->text)) flush(w);
        const size_t piece = OT_MIN(bytes, sizeof(w->text) - w->bytes);
        memcpy(w->text + w->bytes, text, piece);
        w->bytes += piece;
        text += piece;
        bytes -= piece;
    }
}

static void put_text(struct writer *w, const char *text)
{
    put(w, text, strlen(text));
}

static void put_escaped(struct writer *w, const char *text)
{
    const size_t bytes = strlen(text);
    const bool valid = ot_utf8_valid(text, bytes);
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] == '\\' || text[i] == '"') put(w, "\\", 1);
        if (text[i] == '\n')
            put(w, "\\n", 2);
        else
            put(w, !valid && (text[i] & 0x80) != 0 ? "?" : text + i, 1);
    }
}

/* Whole numbers as such, so that counters and offsets keep every digit; else 15 digits, which a double always has: 0.1 and not 0.10000000000000001. */
static void put_number(struct writer *w, double value)
{
    char text[40];
    if (isnan(value))
        put_text(w, "NaN");
    else if (isinf(value))
        put_text(w, value > 0 ? "+Inf" : "-Inf");
    else {
        const int bytes = value == floor(value) && fabs(value) < 1e15 ? snprintf(text, sizeof(text), "%.0f", value)
                                                                      : snprintf(text, sizeof(text), "%.15g", value);
        put(w, text, (size_t)bytes);
    }
}

static void put_count(struct writer *w, uint64_t value)
{
    char text[24];
    put(w, text, (size_t)snprintf(text, sizeof(text), "%llu", (unsigned long long)value));
}

/* `name_suffix{a="x",b="y",le="…"} `; le may be NULL. */
static void put_series(struct writer *w, const struct ot_metric_reading *reading, const char *suffix, const char *le)
{
    const struct ot_metric_info *info = reading->info;
    put_text(w, info->name);
    put_text(w, suffix);
    if (info->label_count > 0 || le != NULL) put(w, "{", 1);
    for (uint32_t i = 0; i < info->label_count; i++) {
        if (i > 0) put(w, ",", 1);
        put_text(w, info->labels[i]);
        put(w, "=\"", 2);
        put_escaped(w, reading->label_values[i]);
        put(w, "\"", 1);
    }
    if (le != NULL) {
        put_text(w, info->label_count > 0 ? ",le=\"" : "le=\"");
        put_text(w, le);
        put(w, "\"", 1);
    }
    if (info->label_count > 0 || le != NULL) put(w, "}", 1);
    put(w, " ", 1);
}

static void put_hist(struct writer *w, const struct ot_metric_reading *reading)
{
    uint64_t counts[OT_METRIC_BOUNDS];
    const uint64_t total = ot_hist_count_below_each(reading->hist, ot_metric_bounds_us, OT_METRIC_BOUNDS, counts);
    for (size_t i = 0; i < OT_METRIC_BOUNDS; i++) {
        char le[24];
        snprintf(le, sizeof(le), "%g", (double)ot_metric_bounds_us[i] / 1e6);
        if (w->openmetrics && strpbrk(le, ".e") == NULL) snprintf(le + strlen(le), sizeof(le) - strlen(le), ".0");
        put_series(w, reading, "_bucket", le);
        put_count(w, counts[i]);
        put(w, "\n", 1);
    }
    put_series(w, reading, "_bucket", "+Inf");
    put_count(w, total);
    put(w, "\n", 1);
    put_series(w, reading, "_sum", NULL);
    put_number(w, (double)atomic_load_explicit(&reading->hist->sum_us, memory_order_relaxed) / 1e6);
    put(w, "\n", 1);
    put_series(w, reading, "_count", NULL);
    put_count(w, total);
    put(w, "\n", 1);
}

/* What follows # HELP: a quote is escaped in OpenMetrics and nowhere else. */
static void put_help(struct writer *w, const char *help)
{
    if (w->openmetrics) put_escaped(w, help);
    else put_text(w, help);
}

/* The family of ottla_x_total is ottla_x. */
static void put_family(struct writer *w, const struct ot_metric_info *info)
{
    const size_t bytes = strlen(info->name);
    const bool cut = info->type == OT_METRIC_COUNTER && bytes > 6 && strcmp(info->name + bytes - 6, "_total") == 0;
    put(w, info->name, cut ? bytes - 6 : bytes);
}

static void put_open_head(struct writer *w, const struct ot_metric_info *info)
{
    put_text(w, "# HELP ");
    put_family(w, info);
    put_text(w, " ");
    put_help(w, info->help);
    put_text(w, "\n# TYPE ");
    put_family(w, info);
    put_text(w, " ");
    put_text(w, ot_metric_type_name(info->type));
    put_text(w, "\n");
}

static void put_head(struct writer *w, const struct ot_metric_info *info)
{
    const char *const parts[] = {
        "# HELP ", info->name, " ", info->help, "\n# TYPE ", info->name, " ", ot_metric_type_name(info->type), "\n"};
    if (w->openmetrics) {
        put_open_head(w, info);
        return;
    }
    for (size_t i = 0; i < OT_ARRAY_COUNT(parts); i++) put_text(w, parts[i]);
}

static void write_reading(void *arg, const struct ot_metric_reading *reading)
{
    struct writer *w = arg;
    if (w->stopped) return;
    if ((int)reading->metric != w->last_metric) put_head(w, reading->info);
    w->last_metric = (int)reading->metric;
    if (reading->info->type == OT_METRIC_HISTOGRAM) {
        put_hist(w, reading);
        return;
    }
    put_series(w, reading, "", NULL);
    if (reading->total > 0 && reading->info->unit != OT_METRIC_SECONDS)
        put_count(w, reading->total);
    else
        put_number(w, reading->value);
    put(w, "\n", 1);
}

static bool write_all(struct ot_metrics *metrics, bool (*write)(void *arg, const char *text, size_t bytes), void *arg, bool openmetrics)
{
    struct writer w;
    w.write = write;
    w.arg = arg;
    w.stopped = false;
    w.openmetrics = openmetrics;
    w.last_metric = -1;
    w.bytes = 0;
    ot_metrics_each(metrics, write_reading, &w);
    flush(&w);
    return !w.stopped;
}

bool ot_metrics_write_text(struct ot_metrics *metrics, bool (*write)(void *arg, const char *text, size_t bytes), void *arg) { return write_all(metrics, write, arg, false); }

bool ot_metrics_write_openmetrics(struct ot_metrics *metrics, bool (*write)(void *arg, const char *text, size_t bytes), void *arg) { return write_all(metrics, write, arg, true); }
