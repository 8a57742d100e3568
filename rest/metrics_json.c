/* GET /v1/metrics: flat enough for a dashboard; of this broker, or summed over all. Rates are over the window (10 s, or ?window=1m|5m), totals and percentiles since start. */
#include "base/util.h"
#include "rest/handlers.h"
#include "rest/hop.h"
#include "rest/sample.h"
#include <string.h>

struct latency { char api[40]; double p50_ms, p99_ms, p999_ms, max_ms; };
struct gathered {
    double log_append_p99_ms, flush_p99_ms;
    double values[OT_METRIC_COUNT];            /* sums over labels, of counters and gauges */
    struct latency apis[REST_SAMPLE_APIS]; uint32_t api_count;
};

static void gather(void *arg, const struct ot_metric_reading *one)
{
    struct gathered *gathered = arg;
    if (one->hist == NULL) {
        gathered->values[one->metric] += one->value;
        return;
    }
    if (one->metric == OT_METRIC_log_flush_duration_seconds) gathered->flush_p99_ms = (double)ot_hist_quantile_us(one->hist, 0.99) / 1000;
    if (one->metric == OT_METRIC_log_append_duration_seconds) gathered->log_append_p99_ms = (double)ot_hist_quantile_us(one->hist, 0.99) / 1000;
    if (one->metric != OT_METRIC_request_duration_seconds || gathered->api_count == REST_SAMPLE_APIS) return;
    struct latency *latency = &gathered->apis[gathered->api_count++];
    snprintf(latency->api, sizeof(latency->api), "%s", one->label_values[0]);
    latency->p50_ms = (double)ot_hist_quantile_us(one->hist, 0.5) / 1000;
    latency->p99_ms = (double)ot_hist_quantile_us(one->hist, 0.99) / 1000;
    latency->p999_ms = (double)ot_hist_quantile_us(one->hist, 0.999) / 1000;
    latency->max_ms = (double)atomic_load(&one->hist->max_us) / 1000;
}

static void rate(struct rest_json *out, const char *key, double now, double before, double seconds)
{
    if (seconds < 1) rest_json_null(out, key);
    else rest_json_real(out, key, OT_MAX(now - before, 0) / seconds);
}

/* "ListOffsets" → "list_offsets" */
static void snake(const char *name, char out[static 80])
{
    size_t at = 0;
    for (size_t i = 0; name[i] != 0 && at < 77; i++) {
        const bool upper = name[i] >= 'A' && name[i] <= 'Z';
        if (upper && i > 0) out[at++] = '_';
        out[at++] = upper ? (char)(name[i] + 32) : name[i];
    }
    out[at] = 0;
}

static const struct latency *latency_of(const struct gathered *gathered, const char *api)
{
    for (uint32_t i = 0; i < gathered->api_count; i++)
        if (strcmp(gathered->apis[i].api, api) == 0) return &gathered->apis[i];
    return NULL;
}

static void write_requests(struct rest_json *out, const struct rest_sample *now, const struct rest_sample *before, const struct gathered *gathered, double seconds)
{
    rest_json_open(out, "requests", '{');
    for (uint32_t i = 0; i < now->api_count; i++) {
        char name[80];
        double requests = 0, errors = 0;
        if (now->apis[i].requests <= 0) continue;
        const struct latency *latency = latency_of(gathered, now->apis[i].api);
        for (uint32_t k = 0; before != NULL && k < before->api_count; k++) {
            if (strcmp(before->apis[k].api, now->apis[i].api) != 0) continue;
            requests = before->apis[k].requests;
            errors = before->apis[k].errors;
        }
        snake(now->apis[i].api, name);
        rest_json_open(out, name, '{');
        rate(out, "per_second", now->apis[i].requests, requests, seconds);
        rate(out, "errors_per_second", now->apis[i].errors, errors, seconds);
        rest_json_real(out, "total", now->apis[i].requests);
        rest_json_real(out, "p50_ms", latency == NULL ? 0 : latency->p50_ms);
        rest_json_real(out, "p99_ms", latency == NULL ? 0 : latency->p99_ms);
        rest_json_real(out, "p999_ms", latency == NULL ? 0 : latency->p999_ms);
        rest_json_real(out, "max_ms", latency == NULL ? 0 : latency->max_ms);
        rest_json_close(out, '}');
    }
    rest_json_close(out, '}');
}

static void write_throughput(struct rest_json *out, const struct rest_totals *now, const struct rest_totals *before, double seconds)
{
    rest_json_open(out, "throughput", '{');
    rate(out, "bytes_in_per_second", now->bytes_in, before->bytes_in, seconds);
    rate(out, "bytes_out_per_second", now->bytes_out, before->bytes_out, seconds);
    rate(out, "records_in_per_second", now->records_in, before->records_in, seconds);
    rate(out, "produce_requests_per_second", now->produce, before->produce, seconds);
    rate(out, "fetch_requests_per_second", now->fetch, before->fetch, seconds);
    rest_json_big(out, "bytes_in_total", (int64_t)now->bytes_in);
    rest_json_big(out, "bytes_out_total", (int64_t)now->bytes_out);
    rest_json_big(out, "records_in_total", (int64_t)now->records_in);
    rest_json_close(out, '}');
}

static void write_gauges(struct rest_json *out, const struct gathered *gathered)
{
    static const struct { const char *group, *key; enum ot_metric metric; } rows[] = {
        { "replication", "partitions_led", OT_METRIC_partitions_led },
        { "replication", "partitions_hosted", OT_METRIC_partitions_hosted },
        { "replication", "under_replicated", OT_METRIC_partitions_under_replicated },
        { "replication", "under_min_isr", OT_METRIC_partitions_under_min_isr },
        { "replication", "at_min_isr", OT_METRIC_partitions_at_min_isr },
        { "replication", "reassigning", OT_METRIC_partitions_reassigning },
        { "replication", "not_preferred", OT_METRIC_preferred_replica_imbalance },
        { "replication", "osr_replicas", OT_METRIC_replicas_out_of_sync },
        { "replication", "offline_replicas", OT_METRIC_replicas_offline },
        { "replication", "max_lag", OT_METRIC_replica_max_lag_records },
        { "replication", "isr_shrinks_total", OT_METRIC_isr_shrinks_total },
        { "replication", "isr_expands_total", OT_METRIC_isr_expands_total },
        { "storage", "log_bytes", OT_METRIC_log_size_bytes },
        { "storage", "disk_free_bytes", OT_METRIC_disk_free_bytes },
        { "storage", "disk_total_bytes", OT_METRIC_disk_total_bytes },
        { "storage", "log_dirs_offline", OT_METRIC_log_dir_offline },
        { "network", "connections", OT_METRIC_connections },
        { "process", "cpu_seconds_total", OT_METRIC_process_cpu_seconds_total },
        { "process", "rss_bytes", OT_METRIC_process_resident_memory_bytes },
        { "process", "open_fds", OT_METRIC_process_open_fds },
        { "process", "threads", OT_METRIC_process_threads },
    };
    for (uint32_t i = 0; i < OT_ARRAY_COUNT(rows); i++) {
        const bool first = i == 0 || strcmp(rows[i].group, rows[i - 1].group) != 0;
        if (first && i > 0) rest_json_close(out, '}');
        if (first) rest_json_open(out, rows[i].group, '{');
        if (first && strcmp(rows[i].group, "storage") == 0) {
            rest_json_real(out, "append_p99_ms", gathered->log_append_p99_ms);
            rest_json_real(out, "flush_p99_ms", gathered->flush_p99_ms);
        }
        rest_json_real(out, rows[i].key, gathered->values[rows[i].metric]);
    }
    rest_json_close(out, '}');
}

static int64_t others_in_work(const struct rest_call *call)
{
    int64_t count = 0;
    for (const struct rest_call *one = call->server->first; one != NULL; one = one->next) count += one != call;
    return count;
}

/* ---- of all brokers */

static bool adds_up(const char *name)
{
    const size_t bytes = strlen(name);
    return bytes < 3 || strcmp(name + bytes - 3, "_ms") != 0;  /* percentiles and maxima do not: they stay with their broker */
}

/* The members of this object at every broker: summed, or the largest of a max_…. */
static void write_sums(const struct rest_gather *all, const char *group)
{
    struct rest_json *out = &all->call->out;
    const json_t *own = json_object_get(rest_gathered_of(all, broker_node_id(all->call->broker)), group);
    for (void *at = json_object_iter((json_t *)(uintptr_t)own); at != NULL; at = json_object_iter_next((json_t *)(uintptr_t)own, at)) {
        const char *name = json_object_iter_key(at);
        const bool largest = strncmp(name, "max_", 4) == 0;
        double sum = 0;
        bool any = false;
        if (!adds_up(name)) continue;
        for (uint32_t i = 0; i < all->count; i++) {
            const json_t *told = json_object_get(rest_gathered_of(all, all->brokers[i].broker), group);
            const json_t *value = json_object_get(told, name);
            if (!json_is_number(value)) continue;
            sum = largest ? OT_MAX(sum, json_number_value(value)) : sum + json_number_value(value);
            any = true;
        }
        if (any) rest_json_real(out, name, sum);
        else rest_json_null(out, name);
    }
}

static void all_told(struct rest_gather *all)
{
    static const char *const groups[] = { "throughput", "replication", "storage", "network", "process", "rest" };
    struct rest_json *out = &all->call->out;
    if (rest_gather_refused(all)) return;
    rest_json_open(out, NULL, '{');
    rest_json_time(out, "at", ot_clock_wall_ms());
    rest_json_text(out, "scope", "cluster");
    for (uint32_t i = 0; i < OT_ARRAY_COUNT(groups); i++) {
        rest_json_open(out, groups[i], '{');
        write_sums(all, groups[i]);
        rest_json_close(out, '}');
    }
    rest_json_open(out, "brokers", '[');
    for (uint32_t i = 0; i < all->count; i++) {
        const json_t *told = rest_gathered_of(all, all->brokers[i].broker);
        if (told != NULL) rest_json_copy(out, NULL, told);
    }
    rest_json_close(out, ']');
    rest_gather_partial(all);
    rest_json_close(out, '}');
    rest_reply_json(all->call, 200);
}

void rest_metrics_json(struct rest_call *call)
{
    static const char *const windows[] = { "10s", "1m", "5m" }, *const scopes[] = { "local", "cluster" };
    static const int64_t windows_us[] = { 10000000, 60000000, 300000000 };
    struct rest_sample *now = ot_arena_alloc(&call->arena, sizeof(*now));
    struct gathered *gathered = ot_arena_alloc(&call->arena, sizeof(*gathered));
    struct rest_json *out = &call->out;
    const int window = rest_query_choice(call, "window", windows, 3, 0);
    const bool cluster = rest_query_choice(call, "scope", scopes, 2, 0) == 1;
    if (rest_faulty(call)) return;
    if (cluster && !call->arrived) {
        rest_gather(call, rest_gather_target(call, "int64,scope,broker", NULL), NULL, all_told);
        return;
    }
    if (now == NULL || gathered == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        return;
    }
    rest_sample_now(call->server, now, false);
    if (call->server->setup.metrics != NULL) ot_metrics_each(call->server->setup.metrics, gather, gathered);
    const struct rest_sample *before = rest_sample_before(call->server, now->at_us - windows_us[window]);
    const double seconds = before == NULL ? 0 : (double)(now->at_us - before->at_us) / 1e6;
    const struct rest_totals none = { 0 };
    rest_json_open(out, NULL, '{');
    rest_json_time(out, "at", ot_clock_wall_ms());
    rest_json_int(out, "broker", broker_node_id(call->broker));
    rest_json_big(out, "uptime_ms", ot_clock_wall_ms() - broker_started_wall_ms(call->broker));
    rest_json_real(out, "window_seconds", seconds);
    write_throughput(out, &now->totals, before == NULL ? &none : &before->totals, seconds);
    write_requests(out, now, before, gathered, seconds);
    write_gauges(out, gathered);
    rest_json_open(out, "rest", '{');
    rest_json_int(out, "requests_in_work", others_in_work(call));
    rest_json_close(out, '}');
    rest_json_close(out, '}');
    rest_reply_json(call, 200);
}
