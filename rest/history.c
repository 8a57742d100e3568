#include "rest/history.h"
#include "base/util.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORGET_MS = 3600000 };                  /* a topic or group that is gone, as long as its finest ring reaches back */
#define OTHER "_other"

const struct rest_history_ring rest_history_rings[REST_HISTORY_KINDS][REST_HISTORY_RINGS] = {
    [REST_HISTORY_BROKER] = { { 10000, 360 }, { 60000, 1440 }, { 900000, 672 } },
    [REST_HISTORY_TOPIC] = { { 10000, 360 }, { 120000, 720 } },
    [REST_HISTORY_GROUP] = { { 10000, 360 }, { 120000, 720 } },
};

#define B REST_HISTORY_BROKER
#define T REST_HISTORY_TOPIC
#define G REST_HISTORY_GROUP
#define LATENCY(api, word, q, digits) { B, word "_latency_p" digits "_ms", "ms", "of " api " requests, waiting included", REST_HISTORY_QUANTILE, OT_METRIC_request_duration_seconds, api, q, 1 }
static const struct rest_history_row rows[] = {
    { B, "bytes_in_per_second", "bytes/s", "record batch bytes appended by producers", REST_HISTORY_RATE, OT_METRIC_topic_bytes_in_total, NULL, 0, 1 },
    { B, "bytes_out_per_second", "bytes/s", "record batch bytes sent to consumers", REST_HISTORY_RATE, OT_METRIC_topic_bytes_out_total, NULL, 0, 1 },
    { B, "records_in_per_second", "records/s", "records appended by producers", REST_HISTORY_RATE, OT_METRIC_topic_records_in_total, NULL, 0, 1 },
    { B, "requests_per_second", "requests/s", "Kafka requests answered", REST_HISTORY_RATE, OT_METRIC_requests_total, NULL, 0, 1 },
    { B, "request_errors_per_second", "requests/s", "Kafka requests answered with an error", REST_HISTORY_ERRORS, OT_METRIC_requests_total, NULL, 0, 1 },
    { B, "rest_requests_per_second", "requests/s", "REST requests answered", REST_HISTORY_RATE, OT_METRIC_rest_requests_total, NULL, 0, 1 },
    LATENCY("Produce", "produce", 0.5, "50"), LATENCY("Produce", "produce", 0.99, "99"), LATENCY("Produce", "produce", 0.999, "999"),
    LATENCY("Fetch", "fetch", 0.5, "50"), LATENCY("Fetch", "fetch", 0.99, "99"), LATENCY("Fetch", "fetch", 0.999, "999"),
    { B, "append_p99_ms", "ms", "one write of an append lane", REST_HISTORY_QUANTILE, OT_METRIC_log_append_duration_seconds, NULL, 0.99, 1 },
    { B, "flush_p99_ms", "ms", "one fdatasync of a segment", REST_HISTORY_QUANTILE, OT_METRIC_log_flush_duration_seconds, NULL, 0.99, 1 },
    { B, "connections", "", "open connections", REST_HISTORY_SUM, OT_METRIC_connections, NULL, 0, 1 },
    { B, "offline_partitions", "", "partitions without a leader, told by the controller", REST_HISTORY_SUM, OT_METRIC_cluster_offline_partitions, NULL, 0, 1 },
    { B, "under_replicated", "", "led partitions with replicas out of sync", REST_HISTORY_SUM, OT_METRIC_partitions_under_replicated, NULL, 0, 1 },
    { B, "under_min_isr", "", "led partitions with fewer in-sync replicas than required", REST_HISTORY_SUM, OT_METRIC_partitions_under_min_isr, NULL, 0, 1 },
    { B, "partitions_led", "", "partitions that this broker leads", REST_HISTORY_SUM, OT_METRIC_partitions_led, NULL, 0, 1 },
    { B, "groups", "", "groups coordinated here", REST_HISTORY_SUM, OT_METRIC_groups, NULL, 0, 1 },
    { B, "group_members", "", "members of those groups", REST_HISTORY_SUM, OT_METRIC_group_members, NULL, 0, 1 },
    { B, "group_lag_records", "records", "what all groups have not read", REST_HISTORY_SUM, OT_METRIC_group_lag_records, NULL, 0, 1 },
    { B, "transactions_open", "", "transactions open or being completed", REST_HISTORY_SUM, OT_METRIC_transactions_open, NULL, 0, 1 },
    { B, "disk_free_bytes", "bytes", "free in the log directories' file systems", REST_HISTORY_SUM, OT_METRIC_disk_free_bytes, NULL, 0, 1 },
    { B, "cpu_ratio", "ratio", "cores used", REST_HISTORY_RATE, OT_METRIC_process_cpu_seconds_total, NULL, 0, 1 },
    { B, "rss_bytes", "bytes", "resident memory", REST_HISTORY_SUM, OT_METRIC_process_resident_memory_bytes, NULL, 0, 1 },
    { B, "open_fds", "", "open file descriptors", REST_HISTORY_SUM, OT_METRIC_process_open_fds, NULL, 0, 1 },
    { T, "bytes_in_per_second", "bytes/s", "record batch bytes appended by producers", REST_HISTORY_RATE, OT_METRIC_topic_bytes_in_total, NULL, 0, 1 },
    { T, "bytes_out_per_second", "bytes/s", "record batch bytes sent to consumers", REST_HISTORY_RATE, OT_METRIC_topic_bytes_out_total, NULL, 0, 1 },
    { T, "records_in_per_second", "records/s", "records appended by producers", REST_HISTORY_RATE, OT_METRIC_topic_records_in_total, NULL, 0, 1 },
    { G, "lag_records", "records", "what the group has not read", REST_HISTORY_SUM, OT_METRIC_group_lag_records, NULL, 0, 1 },
    { G, "lag_ms", "ms", "age of the oldest record that it has not read", REST_HISTORY_MAX, OT_METRIC_group_lag_seconds, NULL, 0, 1000 },
};
#undef B
#undef T
#undef G

const struct rest_history_row *rest_history_rows(uint32_t *count_out)
{
    *count_out = OT_ARRAY_COUNT(rows);
    return rows;
}

/* Counts of a row's histogram: now, and when each ring's step began. */
struct rest_history_hist { uint64_t now[OT_HIST_BUCKETS], base[REST_HISTORY_RINGS][OT_HIST_BUCKETS]; uint64_t max_us; };

/* ---- entities */

static size_t key_of(char out[static 320], enum rest_history_kind kind, const char *name) { return (size_t)snprintf(out, 320, "%d/%.300s", (int)kind, name); }

const struct rest_history_entity *rest_history_find(const struct rest_history *history, enum rest_history_kind kind, const char *name)
{
    char key[320];
    const size_t bytes = key_of(key, kind, name);
    return ot_map_get(&history->entities, key, bytes);
}

static void entity_free(struct rest_history *history, struct rest_history_entity *entity)
{
    for (uint32_t i = 0; i < entity->series_count; i++)
        for (int r = 0; r < REST_HISTORY_RINGS; r++) free(entity->series[i].values[r]);
    if (entity->kind != REST_HISTORY_BROKER) history->series_count -= entity->series_count;
    if (history->pool != NULL) ot_mem_give(history->pool, entity->bytes);
    free(entity->series);
    free(entity);
}

static bool series_make(struct rest_history_series *series, enum rest_history_kind kind)
{
    for (int r = 0; r < REST_HISTORY_RINGS; r++) {
        const uint32_t slots = rest_history_rings[kind][r].slots;
        if (slots == 0) continue;
        if ((series->values[r] = malloc(slots * sizeof(float))) == NULL) return false;
        for (uint32_t i = 0; i < slots; i++) series->values[r][i] = NAN;
    }
    return true;
}

static uint64_t bytes_of(enum rest_history_kind kind, uint32_t series)
{
    uint64_t slots = 0;
    for (int r = 0; r < REST_HISTORY_RINGS; r++) slots += rest_history_rings[kind][r].slots;
    return sizeof(struct rest_history_entity) + series * (sizeof(struct rest_history_series) + slots * sizeof(float));
}

static uint32_t series_of(enum rest_history_kind kind)
{
    uint32_t count = 0;
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) count += rows[i].kind == kind;
    return count;
}

static bool has_room(const struct rest_history *history, enum rest_history_kind kind)
{
    return kind == REST_HISTORY_BROKER || history->series_count + series_of(kind) <= history->series_max;
}

static struct rest_history_entity *entity_make(struct rest_history *history, enum rest_history_kind kind, const char *name)
{
    char key[320];
    const uint32_t count = series_of(kind);
    const uint64_t bytes = bytes_of(kind, count);
    if (history->pool != NULL && !ot_mem_take(history->pool, bytes)) return NULL;
    struct rest_history_entity *entity = calloc(1, sizeof(*entity));
    if (entity == NULL || (entity->series = calloc(count, sizeof(*entity->series))) == NULL) goto fail;
    entity->kind = kind;
    entity->bytes = bytes;
    snprintf(entity->name, sizeof(entity->name), "%s", name);
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) {
        if (rows[i].kind != kind) continue;
        struct rest_history_series *series = &entity->series[entity->series_count++];
        series->row = &rows[i];
        if (!series_make(series, kind)) goto fail;
    }
    if (ot_map_put(&history->entities, key, key_of(key, kind, name), entity) != OT_OK) goto fail;
    if (kind != REST_HISTORY_BROKER) history->series_count += count;
    return entity;
fail:
    if (entity != NULL) {
        if (kind != REST_HISTORY_BROKER) history->series_count += entity->series_count;        /* entity_free takes it off again */
        entity_free(history, entity);
    } else if (history->pool != NULL) {
        ot_mem_give(history->pool, bytes);
    }
    return NULL;
}

/* The one of that name, else the one of all that have no room of their own; NULL: no memory even for that. */
static struct rest_history_entity *entity_of(struct rest_history *history, enum rest_history_kind kind, const char *name)
{
    struct rest_history_entity *entity = (struct rest_history_entity *)(uintptr_t)rest_history_find(history, kind, name);
    if (entity == NULL && has_room(history, kind)) entity = entity_make(history, kind, name);
    if (entity != NULL || kind == REST_HISTORY_BROKER) return entity;
    entity = (struct rest_history_entity *)(uintptr_t)rest_history_find(history, kind, OTHER);
    return entity != NULL ? entity : entity_make(history, kind, OTHER);
}

void rest_history_init(struct rest_history *history, struct ot_metrics *metrics, struct ot_mem_pool *pool, uint32_t series_max)
{
    *history = (struct rest_history){ .metrics = metrics, .pool = pool, .series_max = series_max };
    ot_map_init(&history->entities);
}

void rest_history_free(struct rest_history *history)
{
    for (uint32_t i = 0; i < history->entities.count; i++) entity_free(history, history->entities.entries[i].value);
    ot_map_free(&history->entities);
    free(history->hists);
}

/* ---- gathering */

static void add(struct rest_history *history, enum rest_history_kind kind, const char *name, const struct ot_metric_reading *one)
{
    struct rest_history_entity *entity = entity_of(history, kind, name);
    for (uint32_t i = 0; entity != NULL && i < entity->series_count; i++) {
        struct rest_history_series *series = &entity->series[i];
        if (series->row->metric != one->metric || series->row->how == REST_HISTORY_QUANTILE) continue;
        if (series->row->how == REST_HISTORY_ERRORS && strcmp(one->label_values[1], "NONE") == 0) {
            series->seen = true;
            continue;
        }
        const double value = one->value * series->row->factor;
        series->now = series->row->how == REST_HISTORY_MAX && series->seen ? fmax(series->now, value) : series->row->how == REST_HISTORY_MAX ? value : series->now + value;
        series->seen = true;
    }
}

static void add_hist(struct rest_history *history, const struct ot_metric_reading *one)
{
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) {
        struct rest_history_hist *hist = &history->hists[i];
        if (rows[i].how != REST_HISTORY_QUANTILE || rows[i].metric != one->metric || (rows[i].label != NULL && strcmp(rows[i].label, one->label_values[0]) != 0)) continue;
        for (int k = 0; k < OT_HIST_BUCKETS; k++) hist->now[k] += atomic_load_explicit(&one->hist->counts[k], memory_order_relaxed);
        const uint64_t max_us = atomic_load_explicit(&one->hist->max_us, memory_order_relaxed);
        hist->max_us = OT_MAX(hist->max_us, max_us);
    }
}

static void read_one(void *arg, const struct ot_metric_reading *one)
{
    struct rest_history *history = arg;
    if (one->hist != NULL) {
        add_hist(history, one);
        return;
    }
    for (int kind = 0; kind < REST_HISTORY_KINDS; kind++) {
        bool wanted = false;
        for (size_t i = 0; i < OT_ARRAY_COUNT(rows) && !wanted; i++) wanted = (int)rows[i].kind == kind && rows[i].metric == one->metric;
        if (wanted) add(history, (enum rest_history_kind)kind, kind == REST_HISTORY_BROKER ? "" : one->label_values[0], one);
    }
}

/* ---- steps */

static float quantile_of(const struct rest_history_hist *hist, uint32_t ring, double q)
{
    static struct ot_hist between;             /* on the executor alone */
    uint64_t count = 0;
    memset(&between, 0, sizeof(between));
    for (int k = 0; k < OT_HIST_BUCKETS; k++) {
        const uint64_t more = hist->now[k] - OT_MIN(hist->now[k], hist->base[ring][k]);
        atomic_store_explicit(&between.counts[k], more, memory_order_relaxed);
        count += more;
    }
    atomic_store(&between.count, count);
    atomic_store(&between.max_us, hist->max_us);
    return count == 0 ? NAN : (float)((double)ot_hist_quantile_us(&between, q) / 1000);
}

static float value_of(const struct rest_history *history, const struct rest_history_series *series, uint32_t ring, double seconds)
{
    const struct rest_history_row *row = series->row;
    if (row->how == REST_HISTORY_QUANTILE) return quantile_of(&history->hists[row - rows], ring, row->quantile);
    if (row->how == REST_HISTORY_SUM || row->how == REST_HISTORY_MAX) return series->n[ring] == 0 ? NAN : (float)(series->sum[ring] / series->n[ring]);
    return !series->seen || series->now < series->base[ring] || seconds <= 0 ? NAN : (float)((series->now - series->base[ring]) / seconds);
}

/* The step that ended is written, those that nobody saw are gaps, and the next one begins. */
static void turn_entity(struct rest_history *history, struct rest_history_entity *entity, uint32_t ring, int64_t from, int64_t to, double seconds, bool whole)
{
    const uint32_t slots = rest_history_rings[entity->kind][ring].slots;
    for (uint32_t i = 0; i < entity->series_count; i++) {
        struct rest_history_series *series = &entity->series[i];
        if (from > 0) series->values[ring][from % slots] = whole ? value_of(history, series, ring, seconds) : NAN;
        for (int64_t gap = OT_MAX(from + 1, to - (int64_t)slots + 1); gap <= to; gap++) series->values[ring][gap % slots] = NAN;
        series->base[ring] = series->now;
        series->sum[ring] = 0;
        series->n[ring] = 0;
    }
}

static void turn(struct rest_history *history, enum rest_history_kind kind, uint32_t ring, int64_t wall_ms)
{
    const struct rest_history_ring *shape = &rest_history_rings[kind][ring];
    const int64_t from = history->slot[kind][ring], to = shape->slots == 0 ? from : wall_ms / shape->step_ms;
    if (to <= from) return;                    /* within the step; or the clock went back: nothing is written twice */
    const double seconds = (double)(wall_ms - history->begun_ms[kind][ring]) / 1000;
    const bool whole = from > 0 && history->begun_ms[kind][ring] > 0 && seconds * 1000 < 2.5 * (double)shape->step_ms;      /* else it is no step that we saw */
    for (uint32_t i = 0; i < history->entities.count; i++) {
        struct rest_history_entity *entity = history->entities.entries[i].value;
        if (entity->kind == kind) turn_entity(history, entity, ring, from, to, seconds, whole);
    }
    for (size_t i = 0; kind == REST_HISTORY_BROKER && i < OT_ARRAY_COUNT(rows); i++) memcpy(history->hists[i].base[ring], history->hists[i].now, sizeof(history->hists[i].now));
    history->slot[kind][ring] = to;
    history->begun_ms[kind][ring] = wall_ms;
}

static void begin(struct rest_history *history)
{
    for (uint32_t i = 0; i < history->entities.count; i++) {
        struct rest_history_entity *entity = history->entities.entries[i].value;
        for (uint32_t k = 0; k < entity->series_count; k++) {
            entity->series[k].now = 0;
            entity->series[k].seen = false;
        }
    }
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) memset(history->hists[i].now, 0, sizeof(history->hists[i].now));
}

static void gather_gauges(struct rest_history *history, int64_t wall_ms)
{
    for (uint32_t i = history->entities.count; i > 0; i--) {
        struct rest_history_entity *entity = history->entities.entries[i - 1].value;
        bool seen = false;
        for (uint32_t k = 0; k < entity->series_count; k++) {
            struct rest_history_series *series = &entity->series[k];
            seen |= series->seen;
            if (!series->seen || (series->row->how != REST_HISTORY_SUM && series->row->how != REST_HISTORY_MAX)) continue;
            for (int r = 0; r < REST_HISTORY_RINGS; r++) {
                series->sum[r] += series->now;
                series->n[r]++;
            }
        }
        if (seen) entity->seen_ms = wall_ms;
        if (entity->kind == REST_HISTORY_BROKER || wall_ms - entity->seen_ms < FORGET_MS) continue;
        ot_ignore(ot_map_remove(&history->entities, history->entities.entries[i - 1].key, history->entities.entries[i - 1].key_bytes) == entity ? OT_OK : OT_ERR_NOT_FOUND, "it is in there");
        entity_free(history, entity);
    }
}

void rest_history_tick(struct rest_history *history, int64_t wall_ms)
{
    if (history->metrics == NULL) return;
    if (history->hists == NULL && (history->hists = calloc(OT_ARRAY_COUNT(rows), sizeof(*history->hists))) == NULL) return;
    begin(history);
    ot_metrics_each(history->metrics, read_one, history);
    gather_gauges(history, wall_ms);
    for (int kind = 0; kind < REST_HISTORY_KINDS; kind++)
        for (uint32_t ring = 0; ring < REST_HISTORY_RINGS; ring++) turn(history, (enum rest_history_kind)kind, ring, wall_ms);
    history->ticks++;
}

double rest_history_value(const struct rest_history *history, const struct rest_history_series *series, uint32_t ring, int64_t slot)
{
    const enum rest_history_kind kind = series->row->kind;
    const int64_t slots = rest_history_rings[kind][ring].slots, now = history->slot[kind][ring];
    return slots == 0 || slot < 0 || slot >= now || slot <= now - slots ? NAN : (double)series->values[ring][slot % slots];
}

/* ---- as bytes: "OTHIST01", then for each kind and ring its slot, then each entity: kind u8, name, and for each series its name and rings; a checksum at the end. Little-endian, as
 * the machine has it: the file stays on it. */

static const char magic[8] = { 'O', 'T', 'H', 'I', 'S', 'T', '0', '1' };

static char *put(char *to, const void *data, size_t bytes) { return (char *)memcpy(to, data, bytes) + bytes; }

static char *put_text(char *to, const char *text)
{
    const uint16_t bytes = (uint16_t)strlen(text);
    return put(put(to, &bytes, sizeof(bytes)), text, bytes);
}

char *rest_history_pack(const struct rest_history *history, size_t *bytes_out)
{
    size_t need = sizeof(magic) + sizeof(history->slot) + 16;
    for (uint32_t i = 0; i < history->entities.count; i++) {
        const struct rest_history_entity *entity = history->entities.entries[i].value;
        need += 400 + bytes_of(entity->kind, entity->series_count) + entity->series_count * 80;
    }
    char *data = malloc(need), *at = data;
    if (data == NULL) return NULL;
    at = put(at, magic, sizeof(magic));
    at = put(at, history->slot, sizeof(history->slot));
    at = put(at, &history->entities.count, sizeof(uint32_t));
    for (uint32_t i = 0; i < history->entities.count; i++) {
        const struct rest_history_entity *entity = history->entities.entries[i].value;
        *at++ = (char)entity->kind;
        at = put_text(at, entity->name);
        at = put(at, &entity->series_count, sizeof(uint32_t));
        for (uint32_t k = 0; k < entity->series_count; k++) {
            at = put_text(at, entity->series[k].row->name);
            for (int r = 0; r < REST_HISTORY_RINGS; r++)
                if (rest_history_rings[entity->kind][r].slots > 0) at = put(at, entity->series[k].values[r], rest_history_rings[entity->kind][r].slots * sizeof(float));
        }
    }
    const uint64_t sum = ot_hash64(data, (size_t)(at - data), 0);
    at = put(at, &sum, sizeof(sum));
    *bytes_out = (size_t)(at - data);
    return data;
}

struct reader { const char *at, *end; bool bad; };

static void take(struct reader *in, void *out, size_t bytes)
{
    in->bad |= (size_t)(in->end - in->at) < bytes;
    if (in->bad) memset(out, 0, bytes);
    else memcpy(out, in->at, bytes);
    in->at += in->bad ? 0 : bytes;
}

static void take_text(struct reader *in, char *out, size_t out_bytes)
{
    uint16_t bytes = 0;
    take(in, &bytes, sizeof(bytes));
    in->bad |= bytes >= out_bytes;
    if (!in->bad) take(in, out, bytes);
    out[in->bad ? 0 : bytes] = 0;
}

/* A series that there is no more is passed over, and so is one that has no room. */
static void take_series(struct reader *in, enum rest_history_kind kind, struct rest_history_entity *entity)
{
    char name[64];
    static float passed[1440];
    struct rest_history_series *series = NULL;
    take_text(in, name, sizeof(name));
    for (uint32_t i = 0; entity != NULL && i < entity->series_count; i++)
        if (strcmp(entity->series[i].row->name, name) == 0) series = &entity->series[i];
    for (int r = 0; r < REST_HISTORY_RINGS; r++)
        if (rest_history_rings[kind][r].slots > 0) take(in, series != NULL ? series->values[r] : passed, rest_history_rings[kind][r].slots * sizeof(float));
}

enum ot_err rest_history_unpack(struct rest_history *history, const char *data, size_t bytes, int64_t wall_ms)
{
    struct reader in = { data, data + bytes, false };
    char head[sizeof(magic)], name[300];
    uint64_t sum = 0;
    uint32_t entities = 0;
    if (bytes < sizeof(magic) + sizeof(sum)) return OT_ERR_MALFORMED;
    memcpy(&sum, data + bytes - sizeof(sum), sizeof(sum));
    in.end -= sizeof(sum);
    if (ot_hash64(data, bytes - sizeof(sum), 0) != sum) return OT_ERR_MALFORMED;
    take(&in, head, sizeof(head));
    if (memcmp(head, magic, sizeof(magic)) != 0) return OT_ERR_MISMATCH;
    take(&in, history->slot, sizeof(history->slot));
    for (int k = 0; k < REST_HISTORY_KINDS; k++)
        for (int r = 0; r < REST_HISTORY_RINGS; r++) in.bad |= history->slot[k][r] < 0 || (rest_history_rings[k][r].slots > 0 && history->slot[k][r] > wall_ms / rest_history_rings[k][r].step_ms);
    take(&in, &entities, sizeof(entities));
    for (uint32_t i = 0; i < entities && !in.bad; i++) {
        uint8_t kind = 0;
        uint32_t count = 0;
        take(&in, &kind, 1);
        take_text(&in, name, sizeof(name));
        take(&in, &count, sizeof(count));
        in.bad = in.bad || kind >= REST_HISTORY_KINDS || rest_history_find(history, (enum rest_history_kind)kind, name) != NULL;
        if (in.bad) break;
        struct rest_history_entity *entity = has_room(history, (enum rest_history_kind)kind) ? entity_make(history, (enum rest_history_kind)kind, name) : NULL;
        if (entity != NULL) entity->seen_ms = wall_ms;
        for (uint32_t k = 0; k < count && !in.bad; k++) take_series(&in, (enum rest_history_kind)kind, entity);
    }
    if (!in.bad) return OT_OK;
    struct ot_metrics *metrics = history->metrics;
    struct ot_mem_pool *pool = history->pool;
    const uint32_t series_max = history->series_max;
    rest_history_free(history);
    rest_history_init(history, metrics, pool, series_max);
    return OT_ERR_MALFORMED;
}
