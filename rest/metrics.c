/* Metrics for scrapers: the exposition and its catalog. */
#include "rest/accept.h"
#include "rest/compat.h"
#include "rest/handlers.h"
#include "rest/inside.h"
#include <string.h>

static bool put_text(void *arg, const char *text, size_t bytes)
{
    rest_json_put(arg, text, bytes);
    return !rest_json_failed(arg);
}

/* Is the word in the list of ?compat= */
static bool asked(const struct rest_call *call, const char *word)
{
    const struct ot_str list = rest_query_text(call, "compat");
    for (uint32_t at = 0; !list.null && at < list.bytes;) {
        uint32_t end = at;
        while (end < list.bytes && list.data[end] != ',') end++;
        if (end - at == strlen(word) && memcmp(list.data + at, word, end - at) == 0) return true;
        at = end + 1;
    }
    return false;
}

static bool compat_is_known(const struct rest_call *call)
{
    const struct ot_str list = rest_query_text(call, "compat");
    const char *const words[] = { "kafka_exporter", "jmx" };
    size_t bytes = 0;
    for (size_t i = 0; i < 2; i++)
        if (asked(call, words[i])) bytes += strlen(words[i]) + (bytes > 0);
    return list.null || (bytes > 0 && bytes == list.bytes);
}

void rest_metrics_text(struct rest_call *call)
{
    static const char *const offers[] = { "text/plain", "application/openmetrics-text" };
    struct ot_metrics *metrics = call->server->setup.metrics;
    const bool openmetrics = rest_accept_best(call->accept, offers, 2) == 1;
    const bool exporter = asked(call, "kafka_exporter"), jmx = asked(call, "jmx");
    if (!compat_is_known(call)) rest_fault_query(call, "compat", "must be kafka_exporter, jmx, or both with a comma");
    if (rest_faulty(call)) return;
    if (metrics != NULL) (void)(openmetrics ? ot_metrics_write_openmetrics : ot_metrics_write_text)(metrics, put_text, &call->out);
    if (exporter) rest_compat_kafka_exporter(call, openmetrics);
    if (jmx && metrics != NULL) rest_compat_jmx(call, metrics, openmetrics);
    if (openmetrics) put_text(&call->out, "# EOF\n", 6);
    rest_reply_raw(call, 200, openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8" : "text/plain; version=0.0.4; charset=utf-8");
}

static void write_row(struct rest_call *call, const struct ot_metric_info *info)
{
    struct rest_json *out = &call->out;
    rest_list_item(call);
    rest_json_open(out, NULL, '{');
    rest_json_text(out, "name", info->name);
    rest_json_text(out, "type", ot_metric_type_name(info->type));
    rest_json_text(out, "unit", ot_metric_unit_name(info->unit));
    rest_json_open(out, "labels", '[');
    for (uint32_t i = 0; i < info->label_count; i++) rest_json_text(out, NULL, info->labels[i]);
    rest_json_close(out, ']');
    rest_json_text(out, "help", info->help);
    rest_json_close(out, '}');
}

static void write_series(struct rest_call *call, const struct rest_history_row *row)
{
    static const char *const labels[] = { NULL, "topic", "group" };
    struct rest_json *out = &call->out;
    rest_list_item(call);
    rest_json_open(out, NULL, '{');
    rest_json_text(out, "name", row->name);
    rest_json_text(out, "type", "series");
    rest_json_text(out, "unit", row->unit);
    rest_json_open(out, "labels", '[');
    rest_json_text(out, NULL, "broker");
    if (labels[row->kind] != NULL) rest_json_text(out, NULL, labels[row->kind]);
    rest_json_close(out, ']');
    rest_json_text(out, "help", row->help);
    rest_json_close(out, '}');
}

/* The metrics of the exposition, then the series that are kept (GET /v1/metrics/series). */
void rest_metrics_catalog(struct rest_call *call)
{
    uint32_t series_count;
    const struct rest_history_row *series = rest_history_rows(&series_count);
    int64_t total = 0, last = 0;
    bool more = false;
    if (!rest_list_begin(call, 'm', true)) return;
    const struct ot_str prefix = call->list.prefix;
    for (int i = 0; i < OT_METRIC_COUNT + (int)series_count; i++) {
        const struct rest_history_row *row = i < OT_METRIC_COUNT ? NULL : &series[i - OT_METRIC_COUNT];
        const struct ot_metric_info *info = row != NULL ? NULL : ot_metric_info((enum ot_metric)i);
        const char *name = row != NULL ? row->name : info->name;
        if (!prefix.null && (strlen(name) < prefix.bytes || memcmp(name, prefix.data, prefix.bytes) != 0)) continue;
        total++;
        if (i <= call->list.after_int) continue;
        if (call->list.count == call->list.limit) {
            more = true;
            continue;
        }
        if (row != NULL) write_series(call, row);
        else write_row(call, info);
        last = i;
    }
    rest_list_reply_int(call, 'm', more, last, total, NULL);
}
