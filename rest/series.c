/* GET /v1/metrics/series: what rest/history.h kept, as columns that a plotting library takes as they are, as rows, or as CSV. */
#include "base/util.h"
#include "rest/handlers.h"
#include "rest/inside.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_MAX = 32, POINTS_MAX = 2000 };
static const char *const kind_names[REST_HISTORY_KINDS] = { "broker", "topic", "group" };

struct ask {
    struct rest_call *call;
    enum rest_history_kind kind;
    char name[300];                            /* of the topic or group */
    const struct rest_history_row *rows[NAMES_MAX]; uint32_t row_count;
    uint32_t ring;
    int64_t step_ms, first, end;               /* slots [first, end) */
};

/* "90s", "15m", "1h", "7d"; false: it is none. */
static bool read_span(struct ot_str text, int64_t *ms_out)
{
    static const struct { char unit; int64_t ms; } units[] = { { 's', 1000 }, { 'm', 60000 }, { 'h', 3600000 }, { 'd', 86400000 } };
    int64_t number = 0;
    if (text.bytes < 2 || text.bytes > 8) return false;
    for (uint32_t i = 0; i + 1 < text.bytes; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return false;
        number = number * 10 + (text.data[i] - '0');
    }
    for (size_t i = 0; i < OT_ARRAY_COUNT(units); i++) {
        if (units[i].unit != text.data[text.bytes - 1]) continue;
        if (number > 0) *ms_out = number * units[i].ms;
        return number > 0;
    }
    return false;
}

/* ---- what is asked */

static void read_names(struct ask *ask)
{
    uint32_t count;
    const struct rest_history_row *rows = rest_history_rows(&count);
    const char *known[64];
    uint32_t known_count = 0;
    const struct ot_str list = rest_query_text(ask->call, "names");
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].kind != ask->kind) continue;
        if (known_count < 64) known[known_count++] = rows[i].name;
        if (list.null && ask->row_count < NAMES_MAX) ask->rows[ask->row_count++] = &rows[i];
    }
    uint32_t asked = 1;
    for (uint32_t i = 0; i < list.bytes && !list.null; i++) asked += list.data[i] == ',';
    if (asked > NAMES_MAX) {
        rest_fault_query(ask->call, "names", "has %u names, at most %d are taken", asked, NAMES_MAX);
        return;
    }
    for (uint32_t at = 0; !list.null && at <= list.bytes;) {
        uint32_t end = at;
        char name[64];
        const uint32_t before = ask->row_count;
        while (end < list.bytes && list.data[end] != ',') end++;
        snprintf(name, sizeof(name), "%.*s", (int)OT_MIN(end - at, 63u), list.data + at);
        for (uint32_t i = 0; i < count && ask->row_count < NAMES_MAX; i++)
            if (rows[i].kind == ask->kind && strcmp(rows[i].name, name) == 0) ask->rows[ask->row_count++] = &rows[i];
        if (ask->row_count == before) {
            const char *near = ot_nearest(name, known, known_count);
            rest_fault_query(ask->call, "names", near == NULL ? "`%s` is no series of a %s%s" : "`%s` is no series of a %s; did you mean `%s`?", name, kind_names[ask->kind], near == NULL ? "" : near);
            return;
        }
        at = end + 1;
    }
}

/* The finest step whose ring reaches back as far as is asked, or the one that is named. */
static void read_step(struct ask *ask, int64_t from_ms, int64_t to_ms, int64_t now_ms, bool until_now)
{
    const struct rest_history_ring *rings = rest_history_rings[ask->kind];
    const struct ot_str text = rest_query_text(ask->call, "step");
    int64_t step_ms = 0;
    if (!text.null && !read_span(text, &step_ms)) step_ms = -1;
    uint32_t ring = 0;
    if (text.null) {
        while (ring + 1 < REST_HISTORY_RINGS && rings[ring + 1].slots > 0 && now_ms - from_ms > rings[ring].step_ms * rings[ring].slots) ring++;
    } else {
        while (ring < REST_HISTORY_RINGS && (rings[ring].slots == 0 || rings[ring].step_ms != step_ms)) ring++;
        if (ring == REST_HISTORY_RINGS) {
            rest_fault_query(ask->call, "step", ask->kind == REST_HISTORY_BROKER ? "must be 10s, 1m or 15m" : "must be 10s or 2m for topics and groups");
            return;
        }
    }
    ask->ring = ring;
    ask->step_ms = rings[ring].step_ms;
    ask->first = from_ms / ask->step_ms;
    ask->end = until_now ? to_ms / ask->step_ms : (to_ms + ask->step_ms - 1) / ask->step_ms;       /* not the step that is under way */
    if (ask->end - ask->first > POINTS_MAX) rest_fault_query(ask->call, "step", "from, to and this step make more than %d points", POINTS_MAX);
}

static bool read_ask(struct ask *ask)
{
    static const char *const scopes[] = { "local", "cluster" }, *const bys[] = { "broker" };
    struct rest_call *call = ask->call;
    const struct ot_str topic = rest_query_text(call, "topic"), group = rest_query_text(call, "group"), window = rest_query_text(call, "window");
    const int64_t now_ms = ot_clock_wall_ms();
    int64_t window_ms = 3600000;
    ask->kind = !topic.null ? REST_HISTORY_TOPIC : !group.null ? REST_HISTORY_GROUP : REST_HISTORY_BROKER;
    if (!topic.null && !group.null) rest_fault_query(call, "group", "topic and group do not go together");
    const struct ot_str name = !topic.null ? topic : group;
    if (!name.null) snprintf(ask->name, sizeof(ask->name), "%.*s", (int)OT_MIN(name.bytes, 299u), name.data);
    (void)rest_query_choice(call, "scope", scopes, 2, 0);
    (void)rest_query_choice(call, "by", bys, 1, 0);
    if (!window.null && !read_span(window, &window_ms)) rest_fault_query(call, "window", "must be like 90s, 15m, 1h, 7d");
    const int64_t to_ms = rest_query_time(call, "to", now_ms), from_ms = rest_query_time(call, "from", OT_MAX(to_ms - window_ms, 0));
    if (to_ms <= from_ms || from_ms < 0) rest_fault_query(call, "to", "must be later than from");
    read_names(ask);
    if (call->faults.count == 0) read_step(ask, from_ms, to_ms, now_ms, rest_query(call, "to") == NULL);
    return !rest_faulty(call);
}

/* ---- what is told */

static const struct rest_history_series *series_of(const struct ask *ask, const struct rest_history_row *row)
{
    const struct rest_history_entity *entity = rest_history_find(&ask->call->server->history, ask->kind, ask->name);
    for (uint32_t i = 0; entity != NULL && i < entity->series_count; i++)
        if (entity->series[i].row == row) return &entity->series[i];
    return NULL;
}

static double value_at(const struct ask *ask, const struct rest_history_series *series, int64_t slot)
{
    return series == NULL ? NAN : rest_history_value(&ask->call->server->history, series, ask->ring, slot);
}

/* They were kept as floats: seven digits are all there is. */
static void write_value(struct rest_json *out, const char *key, double value)
{
    char text[40];
    if (isnan(value)) rest_json_null(out, key);
    else rest_json_raw(out, key, text, (size_t)snprintf(text, sizeof(text), "%.7g", value));
}

static void write_labels(const struct ask *ask, struct rest_json *out)
{
    rest_json_text(out, "broker", ask->call->server->served_by);
    if (ask->kind != REST_HISTORY_BROKER) rest_json_text(out, kind_names[ask->kind], ask->name);
}

static void columns(const struct ask *ask)
{
    struct rest_json *out = &ask->call->out;
    rest_json_open(out, NULL, '{');
    rest_json_int(out, "from_ms", ask->first * ask->step_ms);
    rest_json_int(out, "to_ms", ask->end * ask->step_ms);
    rest_json_int(out, "step_ms", ask->step_ms);
    rest_json_bool(out, "partial", false);
    rest_json_open(out, "time_ms", '[');
    for (int64_t slot = ask->first; slot < ask->end; slot++) rest_json_int(out, NULL, slot * ask->step_ms);
    rest_json_close(out, ']');
    rest_json_open(out, "series", '[');
    for (uint32_t i = 0; i < ask->row_count; i++) {
        const struct rest_history_series *series = series_of(ask, ask->rows[i]);
        rest_json_open(out, NULL, '{');
        rest_json_text(out, "name", ask->rows[i]->name);
        rest_json_text(out, "unit", ask->rows[i]->unit);
        rest_json_open(out, "labels", '{');
        write_labels(ask, out);
        rest_json_close(out, '}');
        rest_json_open(out, "values", '[');
        for (int64_t slot = ask->first; slot < ask->end; slot++) write_value(out, NULL, value_at(ask, series, slot));
        rest_json_close(out, ']');
        rest_json_close(out, '}');
    }
    rest_json_close(out, ']');
    rest_json_close(out, '}');
    rest_reply_json(ask->call, 200);
}

static void rows_of(const struct ask *ask)
{
    struct rest_json *out = &ask->call->out;
    rest_json_open(out, NULL, '{');
    rest_json_open(out, "rows", '[');
    for (int64_t slot = ask->first; slot < ask->end; slot++) {
        for (uint32_t i = 0; i < ask->row_count; i++) {
            rest_json_open(out, NULL, '{');
            rest_json_int(out, "time_ms", slot * ask->step_ms);
            rest_json_text(out, "name", ask->rows[i]->name);
            write_labels(ask, out);
            write_value(out, "value", value_at(ask, series_of(ask, ask->rows[i]), slot));
            rest_json_close(out, '}');
        }
    }
    rest_json_close(out, ']');
    rest_json_close(out, '}');
    rest_reply_json(ask->call, 200);
}

/* A column for each series, as spreadsheets like it; a gap is an empty cell. */
static void csv(const struct ask *ask)
{
    struct rest_json *out = &ask->call->out;
    char text[64];
    rest_json_put(out, "time_ms", 7);
    for (uint32_t i = 0; i < ask->row_count; i++) {
        rest_json_put(out, ",", 1);
        rest_json_put(out, ask->rows[i]->name, strlen(ask->rows[i]->name));
    }
    rest_json_put(out, "\r\n", 2);
    for (int64_t slot = ask->first; slot < ask->end; slot++) {
        rest_json_put(out, text, (size_t)snprintf(text, sizeof(text), "%lld", (long long)(slot * ask->step_ms)));
        for (uint32_t i = 0; i < ask->row_count; i++) {
            const double value = value_at(ask, series_of(ask, ask->rows[i]), slot);
            rest_json_put(out, text, isnan(value) ? (size_t)snprintf(text, sizeof(text), ",") : (size_t)snprintf(text, sizeof(text), ",%.7g", value));
        }
        rest_json_put(out, "\r\n", 2);
    }
    rest_reply_raw(ask->call, 200, "text/csv; charset=utf-8; header=present");
}

void rest_metrics_series(struct rest_call *call)
{
    static const char *const formats[] = { "columns", "rows", "csv" };
    struct ask ask = { .call = call };
    const int format = rest_query_choice(call, "format", formats, 3, 0);
    if (!read_ask(&ask)) return;
    if (format == 2) csv(&ask);
    else if (format == 1) rows_of(&ask);
    else columns(&ask);
}
