/* Metrics for scrapers: the exposition and its catalog. */
#include "rest/handlers.h"
#include "rest/inside.h"
#include <string.h>

static bool put_text(void *arg, const char *text, size_t bytes)
{
    rest_json_put(arg, text, bytes);
    return !rest_json_failed(arg);
}

void rest_metrics_text(struct rest_call *call)
{
    if (call->server->setup.metrics != NULL) (void)ot_metrics_write_text(call->server->setup.metrics, put_text, &call->out);
    rest_reply_raw(call, 200, "text/plain; version=0.0.4; charset=utf-8");
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

void rest_metrics_catalog(struct rest_call *call)
{
    int64_t total = 0, last = 0;
    bool more = false;
    if (!rest_list_begin(call, 'm', true)) return;
    const struct ot_str prefix = call->list.prefix;
    for (int i = 0; i < OT_METRIC_COUNT; i++) {
        const struct ot_metric_info *info = ot_metric_info((enum ot_metric)i);
        if (!prefix.null && (strlen(info->name) < prefix.bytes || memcmp(info->name, prefix.data, prefix.bytes) != 0)) continue;
        total++;
        if (i <= call->list.after_int) continue;
        if (call->list.count == call->list.limit) {
            more = true;
            continue;
        }
        write_row(call, info);
        last = i;
    }
    rest_list_reply_int(call, 'm', more, last, total, NULL);
}
