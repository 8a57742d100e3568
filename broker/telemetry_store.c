/* What a push says becomes series by client software: on an I/O thread, since it may have to be decompressed. */
#include "broker/room.h"
#include "broker/otlp.h"
#include "engine/codec.h"

#include <string.h>

enum { PLAIN_BYTES_MAX = 4 << 20 /* of one push */, NAME_BYTES_MAX = 120 };

struct store { struct broker_telemetry *telemetry; char software[OT_METRIC_LABEL_BYTES_MAX], version[OT_METRIC_LABEL_BYTES_MAX]; };

/* Names of metrics are made of few characters; what else comes is not kept. */
static bool name_fits(struct ot_str name)
{
    for (uint32_t i = 0; i < name.bytes; i++) {
        const char c = name.data[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && memchr("._-/", c, 4) == NULL) return false;
    }
    return name.bytes > 0 && name.bytes <= NAME_BYTES_MAX;
}

/* The series of that name and software; beyond as many as clients may make, the one for all others. Under the mutex. */
static struct ot_series *series_of(struct store *store, struct ot_str name)
{
    struct broker_telemetry *telemetry = store->telemetry;
    char text[NAME_BYTES_MAX + 1], key[2 * OT_METRIC_LABEL_BYTES_MAX + NAME_BYTES_MAX];
    const size_t software = strlen(store->software) + 1, version = strlen(store->version) + 1;
    memcpy(key, store->software, software);
    memcpy(key + software, store->version, version);
    memcpy(key + software + version, name.data, name.bytes);
    const size_t bytes = software + version + name.bytes;
    struct ot_series *series = ot_map_get(&telemetry->series, key, bytes);
    if (series != NULL) return series;
    memcpy(text, name.data, name.bytes);
    text[name.bytes] = 0;
    const char *const labels[] = { store->software, store->version, text }, *const others[] = { "_other", "_other", "_other" };
    const bool full = telemetry->series.count >= BROKER_TELEMETRY_SERIES;
    series = ot_series_get(telemetry->metrics, OT_METRIC_client_metrics_value, full ? others : labels);
    if (full || ot_map_put(&telemetry->series, key, bytes, series) != OT_OK) ot_series_release(telemetry->metrics, series);
    return series;                             /* held by the map, or one that stays because it was made once */
}

static void one(void *arg, const struct broker_otlp_number *number)
{
    struct store *store = arg;
    if (!name_fits(number->name)) return;
    pthread_mutex_lock(&store->telemetry->mutex);
    struct ot_series *series = series_of(store, number->name);
    if (number->sum && number->delta) ot_series_move(series, number->value);
    else ot_series_set(series, number->value);
    pthread_mutex_unlock(&store->telemetry->mutex);
}

static void label(char to[static OT_METRIC_LABEL_BYTES_MAX], struct ot_str from)
{
    const size_t bytes = from.null ? 0 : OT_MIN((size_t)from.bytes, (size_t)OT_METRIC_LABEL_BYTES_MAX - 1);
    if (bytes > 0) memcpy(to, from.data, bytes);
    to[bytes] = 0;
}

static enum ot_err plain(struct broker_core *core, const struct broker_telemetry_store *ask, struct eng_sink *sink)
{
    const struct eng_decode_limits limits = { 0 };
    struct eng_decode *decode = NULL;
    const uint8_t *chunk;
    size_t bytes = 1;
    enum ot_err err = eng_decode_new(core->decode_pool, &limits, &decode);
    if (err == OT_OK) err = eng_decode_begin(decode, (enum eng_codec)ask->compression, ask->data, ask->bytes, false);
    while (err == OT_OK && bytes > 0) {
        err = eng_decode_next(decode, &chunk, &bytes);
        if (err == OT_OK && bytes > 0) err = eng_sink_write(sink, chunk, bytes);
    }
    eng_decode_free(decode);
    return err;
}

static void done_run(struct ot_task *task)
{
    struct broker_call *call = OT_CONTAINER(task, struct broker_call, task);
    call->done(call);
}

static void store_run(struct ot_task *task)
{
    struct broker_telemetry_store *ask = OT_CONTAINER(task, struct broker_telemetry_store, io_task);
    struct broker_core *core = &ask->broker->core;
    struct store store = { .telemetry = &ask->broker->telemetry };
    struct eng_sink sink;
    label(store.software, ask->client.software_name);
    label(store.version, ask->client.software_version);
    eng_sink_pool(&sink, core->decode_pool, PLAIN_BYTES_MAX);
    const enum ot_err err = plain(core, ask, &sink);
    ask->error = err == OT_ERR_NO_MEMORY ? err : err != OT_OK || !broker_otlp_each(sink.data, sink.bytes, one, &store) ? OT_ERR_INVALID_RECORD : OT_OK;
    eng_sink_free(&sink);
    ask->call.task.run = done_run;
    ot_exec_post(ask->call.home, &ask->call.task);
}

void broker_telemetry_store(struct broker *broker, struct broker_telemetry_store *ask)
{
    ask->broker = broker;
    ask->io_task.run = store_run;
    ot_exec_post(broker->core.io_exec, &ask->io_task);
}
