/* Totals every five seconds, for rates over the last ten seconds and longer windows; and a beat through the I/O pool. All on the server's executor. */
#include "base/io.h"
#include "base/log.h"
#include "base/util.h"
#include "rest/checks.h"
#include "rest/sample.h"
#include "rest/topic_view.h"
#include <stdlib.h>
#include <string.h>

enum { CHECK_TICKS = 6 };                      /* half a minute */
#define HISTORY_BYTES_MAX (256u << 20)

struct reading { struct rest_server *server; struct rest_sample *sample; bool topics; };

static void add_api(struct rest_sample *sample, const char *api, double requests, bool failed)
{
    uint32_t i = 0;
    while (i < sample->api_count && strcmp(sample->apis[i].api, api) != 0) i++;
    if (i == REST_SAMPLE_APIS) return;
    if (i == sample->api_count) {
        snprintf(sample->apis[i].api, sizeof(sample->apis[i].api), "%s", api);
        sample->api_count++;
    }
    sample->apis[i].requests += requests;
    if (failed) sample->apis[i].errors += requests;
}

static void note_topic(struct rest_server *server, const char *topic, double value, bool in)
{
    struct rest_topic_rate *rate = ot_map_get(&server->topic_rates, topic, strlen(topic));
    if (rate == NULL) {
        rate = calloc(1, sizeof(*rate));
        if (rate == NULL || ot_map_put(&server->topic_rates, topic, strlen(topic), rate) != OT_OK) {
            free(rate);
            return;
        }
        for (int i = 0; i < 3; i++) rate->in[i] = rate->out[i] = -1;
    }
    if (rate->tick != server->ticks) {
        memmove(&rate->in[1], &rate->in[0], 2 * sizeof(rate->in[0]));
        memmove(&rate->out[1], &rate->out[0], 2 * sizeof(rate->out[0]));
        rate->in[0] = rate->out[0] = 0;
        rate->tick = server->ticks;
    }
    if (in) rate->in[0] = value;
    else rate->out[0] = value;
}

static void read_one(void *arg, const struct ot_metric_reading *one)
{
    struct reading *reading = arg;
    struct rest_totals *totals = &reading->sample->totals;
    switch (one->metric) {
    case OT_METRIC_topic_bytes_in_total:
        totals->bytes_in += one->value;
        if (reading->topics) note_topic(reading->server, one->label_values[0], one->value, true);
        break;
    case OT_METRIC_topic_bytes_out_total:
        totals->bytes_out += one->value;
        if (reading->topics) note_topic(reading->server, one->label_values[0], one->value, false);
        break;
    case OT_METRIC_topic_records_in_total: totals->records_in += one->value; break;
    case OT_METRIC_topic_produce_requests_total: totals->produce += one->value; break;
    case OT_METRIC_topic_fetch_requests_total: totals->fetch += one->value; break;
    case OT_METRIC_requests_total: add_api(reading->sample, one->label_values[0], one->value, strcmp(one->label_values[1], "NONE") != 0); break;
    default: break;
    }
}

void rest_sample_now(struct rest_server *server, struct rest_sample *out, bool topics)
{
    struct reading reading = { server, out, topics };
    memset(out, 0, sizeof(*out));
    out->at_us = ot_clock_boot_us();
    if (server->setup.metrics != NULL) ot_metrics_each(server->setup.metrics, read_one, &reading);
}

const struct rest_sample *rest_sample_before(const struct rest_server *server, int64_t at_us)
{
    const struct rest_sample *best = NULL;
    for (uint32_t i = 1; i <= server->sample_count; i++) {     /* newest first */
        const struct rest_sample *sample = &server->samples[(server->sample_next + REST_SAMPLES - i) % REST_SAMPLES];
        best = sample;
        if (sample->at_us <= at_us) break;
    }
    return best;
}

bool rest_topic_rates(struct rest_call *call, struct ot_str topic, double *in_out, double *out_out)
{
    struct rest_server *server = call->server;
    const struct rest_topic_rate *rate = ot_map_get(&server->topic_rates, topic.data, topic.bytes);
    if (rate == NULL || rate->tick != server->ticks) return false;
    const int back = rate->in[2] >= 0 ? 2 : rate->in[1] >= 0 ? 1 : 0;
    if (back == 0) return false;
    const double seconds = back * (double)REST_SAMPLE_US / 1e6;
    *in_out = OT_MAX(rate->in[0] - rate->in[back], 0) / seconds;
    *out_out = OT_MAX(rate->out[0] - rate->out[back], 0) / seconds;
    return true;
}

bool rest_broker_rates(struct rest_call *call, double *in_out, double *out_out)
{
    struct rest_server *server = call->server;
    if (server->sample_count < 2) return false;
    const struct rest_sample *now = &server->samples[(server->sample_next + REST_SAMPLES - 1) % REST_SAMPLES];
    const struct rest_sample *before = rest_sample_before(server, now->at_us - 2 * REST_SAMPLE_US);
    const double seconds = (double)(now->at_us - before->at_us) / 1e6;
    if (seconds < 1) return false;
    *in_out = OT_MAX(now->totals.bytes_in - before->totals.bytes_in, 0) / seconds;
    *out_out = OT_MAX(now->totals.bytes_out - before->totals.bytes_out, 0) / seconds;
    return true;
}

/* Topics that are gone. */
static void forget_topics(struct rest_server *server)
{
    for (uint32_t i = server->topic_rates.count; i > 0; i--) {
        const struct ot_map_entry *entry = &server->topic_rates.entries[i - 1];
        if (((struct rest_topic_rate *)entry->value)->tick == server->ticks) continue;
        free(ot_map_remove(&server->topic_rates, entry->key, entry->key_bytes));
    }
}

/* ---- the beat */

static void beat_back(struct ot_task *task)
{
    struct rest_server *server = OT_CONTAINER(task, struct rest_server, beat_back);
    server->beat_us = 0;
    rest_server_let_go(server);
}

static void beat(struct ot_task *task)
{
    struct rest_server *server = OT_CONTAINER(task, struct rest_server, beat);
    ot_exec_post(server->exec, &server->beat_back);
}

static void tick(struct ot_timer *timer)
{
    struct rest_server *server = OT_CONTAINER(timer, struct rest_server, sample_timer);
    if (atomic_load(&server->stopping)) return;
    server->ticks++;
    rest_sample_now(server, &server->samples[server->sample_next], true);
    server->sample_next = (server->sample_next + 1) % REST_SAMPLES;
    server->sample_count = OT_MIN(server->sample_count + 1, (uint32_t)REST_SAMPLES);
    forget_topics(server);
    rest_history_tick(&server->history, ot_clock_wall_ms());
    rest_clock_look(&server->clock, ot_clock_wall_ms(), ot_clock_boot_us());
    if (server->ticks % CHECK_TICKS == 1) rest_checks_tick(server);
    if (server->beat_us == 0) {
        rest_server_hold(server);
        server->beat_us = ot_clock_boot_us();
        ot_exec_post(broker_io_exec(server->broker), &server->beat);
    }
    ot_exec_timer_set(server->exec, &server->sample_timer, ot_exec_now_us(server->exec) + REST_SAMPLE_US);
}

/* ---- the past, over a stop */

static void history_read(struct rest_server *server)
{
    char *data = NULL;
    size_t bytes = 0;
    if (server->history_path == NULL || ot_io_read_file(ot_io_real(), server->history_path, HISTORY_BYTES_MAX, &data, &bytes) != OT_OK) return;
    const enum ot_err err = rest_history_unpack(&server->history, data, bytes, ot_clock_wall_ms());
    if (err != OT_OK) ot_log(OT_LOG_WARN, "rest", "history_not_read", "error=%s", ot_err_name(err));
    free(data);
}

static void history_keep(struct rest_server *server)
{
    size_t bytes = 0;
    if (server->history_path == NULL || server->history.ticks == 0) return;
    char *data = rest_history_pack(&server->history, &bytes);
    const enum ot_err err = data == NULL ? OT_ERR_NO_MEMORY : ot_io_replace_file(ot_io_real(), server->history_path, data, bytes, true);
    if (err != OT_OK) ot_log(OT_LOG_WARN, "rest", "history_not_kept", "error=%s", ot_err_name(err));
    free(data);
}

void rest_sampler_start(struct rest_server *server)
{
    server->samples = calloc(REST_SAMPLES, sizeof(*server->samples));
    server->sample_timer = (struct ot_timer){ .fired = tick };
    server->beat.run = beat;
    server->beat_back.run = beat_back;
    history_read(server);
    if (server->samples != NULL) tick(&server->sample_timer);
}

void rest_sampler_free(struct rest_server *server)
{
    for (uint32_t i = 0; i < server->topic_rates.count; i++) free(server->topic_rates.entries[i].value);
    ot_map_free(&server->topic_rates);
    free(server->samples);
    history_keep(server);
    rest_history_free(&server->history);
    free(server->history_path);
}
