/* GET /v1/metrics/series: what rest/history.h kept, here or at every broker, as columns that a plotting library takes as they are, as rows, or as CSV. */
#include "base/util.h"
#include "rest/handlers.h"
#include "rest/hop.h"
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
    bool cluster, by_broker;
    int format;
    struct column *columns; uint32_t column_count;             /* what is told */
    const struct rest_gather *all;             /* of all brokers; NULL: of this one */
};
struct column { const struct rest_history_row *row; const char *broker /* NULL: of all together */; double *values; };

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
    ask->cluster = rest_query_choice(call, "scope", scopes, 2, 0) == 1;
    ask->by_broker = rest_query_choice(call, "by", bys, 1, -1) == 0;
    if (!window.null && !read_span(window, &window_ms)) rest_fault_query(call, "window", "must be like 90s, 15m, 1h, 7d");
    const int64_t to_ms = rest_query_time(call, "to", now_ms), from_ms = rest_query_time(call, "from", OT_MAX(to_ms - window_ms, 0));
    if (to_ms <= from_ms || from_ms < 0) rest_fault_query(call, "to", "must be later than from");
    read_names(ask);
    if (call->faults.count == 0) read_step(ask, from_ms, to_ms, now_ms, rest_query(call, "to") == NULL);
    return !rest_faulty(call);
}

/* ---- columns */

static uint32_t points(const struct ask *ask) { return (uint32_t)(ask->end - ask->first); }

/* False: no memory. */
static bool add_columns(struct ask *ask, uint32_t brokers)
{
    const size_t count = (size_t)ask->row_count * brokers;
    ask->columns = ot_arena_array(&ask->call->arena, OT_MAX(count, (size_t)1), sizeof(*ask->columns));
    for (size_t i = 0; ask->columns != NULL && i < count; i++) {
        double *values = ot_arena_array(&ask->call->arena, OT_MAX(points(ask), 1u), sizeof(double));
        if (values == NULL) return false;
        for (uint32_t k = 0; k < points(ask); k++) values[k] = (double)NAN;
        ask->columns[i] = (struct column){ .row = ask->rows[i % ask->row_count], .values = values };
    }
    ask->column_count = (uint32_t)count;
    return ask->columns != NULL;
}

static const struct rest_history_series *series_of(const struct ask *ask, const struct rest_history_row *row)
{
    const struct rest_history_entity *entity = rest_history_find(&ask->call->server->history, ask->kind, ask->name);
    for (uint32_t i = 0; entity != NULL && i < entity->series_count; i++)
        if (entity->series[i].row == row) return &entity->series[i];
    return NULL;
}

static void fill_own(struct ask *ask)
{
    for (uint32_t i = 0; i < ask->column_count; i++) {
        const struct rest_history_series *series = series_of(ask, ask->columns[i].row);
        ask->columns[i].broker = ask->call->server->served_by;
        for (uint32_t k = 0; series != NULL && k < points(ask); k++) ask->columns[i].values[k] = rest_history_value(&ask->call->server->history, series, ask->ring, ask->first + k);
    }
}

/* Several brokers' values of one step: rates and amounts add up; of percentiles and maxima the worst broker's is told, since they can be neither added nor averaged. */
static void join(const struct rest_history_row *row, double *value, double more)
{
    if (isnan(more)) return;
    if (isnan(*value)) *value = more;
    else if (row->how == REST_HISTORY_QUANTILE || row->how == REST_HISTORY_MAX) *value = OT_MAX(*value, more);
    else *value += more;
}

static void fill_told(struct ask *ask, const json_t *told, uint32_t first_column, const char *broker)
{
    const json_t *list = json_object_get(told, "series");
    for (uint32_t i = 0; i < ask->row_count && i < json_array_size(list); i++) {       /* in the order of names, as asked */
        struct column *column = &ask->columns[first_column + i];
        const json_t *values = json_object_get(json_array_get(list, i), "values");
        column->broker = broker;
        for (uint32_t k = 0; k < points(ask) && k < json_array_size(values); k++) {
            const json_t *value = json_array_get(values, k);
            join(column->row, &column->values[k], json_is_number(value) ? json_number_value(value) : (double)NAN);
        }
    }
}

/* ---- what is told */

/* They were kept as floats: seven digits are all there is. */
static void write_value(struct rest_json *out, const char *key, double value)
{
    char text[40];
    if (isnan(value)) rest_json_null(out, key);
    else rest_json_raw(out, key, text, (size_t)snprintf(text, sizeof(text), "%.7g", value));
}

static void write_labels(const struct ask *ask, const struct column *column, struct rest_json *out)
{
    if (column->broker != NULL) rest_json_text(out, "broker", column->broker);
    if (ask->kind != REST_HISTORY_BROKER) rest_json_text(out, kind_names[ask->kind], ask->name);
}

static void columns(const struct ask *ask)
{
    struct rest_json *out = &ask->call->out;
    rest_json_open(out, NULL, '{');
    rest_json_int(out, "from_ms", ask->first * ask->step_ms);
    rest_json_int(out, "to_ms", ask->end * ask->step_ms);
    rest_json_int(out, "step_ms", ask->step_ms);
    if (ask->all != NULL && ask->all->missing > 0) rest_gather_partial(ask->all);
    else rest_json_bool(out, "partial", false);
    rest_json_open(out, "time_ms", '[');
    for (int64_t slot = ask->first; slot < ask->end; slot++) rest_json_int(out, NULL, slot * ask->step_ms);
    rest_json_close(out, ']');
    rest_json_open(out, "series", '[');
    for (uint32_t i = 0; i < ask->column_count; i++) {
        const struct column *column = &ask->columns[i];
        rest_json_open(out, NULL, '{');
        rest_json_text(out, "name", column->row->name);
        rest_json_text(out, "unit", column->row->unit);
        rest_json_open(out, "labels", '{');
        write_labels(ask, column, out);
        rest_json_close(out, '}');
        rest_json_open(out, "values", '[');
        for (uint32_t k = 0; k < points(ask); k++) write_value(out, NULL, column->values[k]);
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
    if (ask->all != NULL) rest_gather_partial(ask->all);
    rest_json_open(out, "rows", '[');
    for (uint32_t k = 0; k < points(ask); k++) {
        for (uint32_t i = 0; i < ask->column_count; i++) {
            rest_json_open(out, NULL, '{');
            rest_json_int(out, "time_ms", (ask->first + k) * ask->step_ms);
            rest_json_text(out, "name", ask->columns[i].row->name);
            write_labels(ask, &ask->columns[i], out);
            write_value(out, "value", ask->columns[i].values[k]);
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
    if (ask->all != NULL) rest_gather_tell(ask->all);
    rest_json_put(out, "time_ms", 7);
    for (uint32_t i = 0; i < ask->column_count; i++) {
        const struct column *column = &ask->columns[i];
        rest_json_put(out, ",", 1);
        rest_json_put(out, column->row->name, strlen(column->row->name));
        if (!ask->by_broker || column->broker == NULL) continue;
        rest_json_put(out, ".", 1);
        rest_json_put(out, column->broker, strlen(column->broker));
    }
    rest_json_put(out, "\r\n", 2);
    for (uint32_t k = 0; k < points(ask); k++) {
        rest_json_put(out, text, (size_t)snprintf(text, sizeof(text), "%lld", (long long)((ask->first + k) * ask->step_ms)));
        for (uint32_t i = 0; i < ask->column_count; i++) {
            const double value = ask->columns[i].values[k];
            rest_json_put(out, text, isnan(value) ? (size_t)snprintf(text, sizeof(text), ",") : (size_t)snprintf(text, sizeof(text), ",%.7g", value));
        }
        rest_json_put(out, "\r\n", 2);
    }
    rest_reply_raw(ask->call, 200, "text/csv; charset=utf-8; header=present");
}

static void tell(const struct ask *ask)
{
    if (ask->format == 2) csv(ask);
    else if (ask->format == 1) rows_of(ask);
    else columns(ask);
}

static void all_told(struct rest_gather *all)
{
    struct ask *ask = all->arg;
    uint32_t told = 0;
    ask->all = all;
    if (rest_gather_refused(all)) return;
    if (!add_columns(ask, ask->by_broker ? all->count : 1)) {
        rest_problem(ask->call, OT_ERR_NO_MEMORY, "no memory for the answer");
        return;
    }
    for (uint32_t i = 0; i < all->count; i++) {
        char *name = ot_arena_alloc(&ask->call->arena, 16);
        const json_t *one = rest_gathered_of(all, all->brokers[i].broker);
        if (one == NULL || name == NULL) continue;
        snprintf(name, 16, "%d", all->brokers[i].broker);
        fill_told(ask, one, ask->by_broker ? told * ask->row_count : 0, ask->by_broker ? name : NULL);
        told++;
    }
    if (ask->by_broker) ask->column_count = told * ask->row_count;
    tell(ask);
}

/* The same steps everywhere: the ends are said. */
static const char *target_of(struct ask *ask)
{
    char *more = ot_arena_alloc(&ask->call->arena, 120);
    if (more == NULL) return NULL;
    snprintf(more, 120, "from=%lld&to=%lld&step=%llds", (long long)(ask->first * ask->step_ms), (long long)(ask->end * ask->step_ms), (long long)(ask->step_ms / 1000));
    return rest_gather_target(ask->call, "scope,by,window,from,to,step,broker", more);
}

void rest_metrics_series(struct rest_call *call)
{
    static const char *const formats[] = { "columns", "rows", "csv" };
    struct ask *ask = ot_arena_alloc(&call->arena, sizeof(*ask));
    if (ask == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        return;
    }
    ask->call = call;
    ask->format = rest_query_choice(call, "format", formats, 3, 0);
    if (!read_ask(ask)) return;
    if (ask->cluster && rest_gather_wanted(call)) {
        rest_gather(call, target_of(ask), ask, all_told);
    } else if (add_columns(ask, 1)) {
        fill_own(ask);
        tell(ask);
    } else {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the answer");
    }
}
