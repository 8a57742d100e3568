/* Offsets of a group set anew by a strategy, with a preview: what each partition had, what it would have, and how far that is. */
#include "broker/offsets_away.h"
#include "rest/groups.h"
#include "rest/handlers.h"

#include "base/util.h"

#include <string.h>

enum { PARTS_MAX = 10000 };
enum strategy { EARLIEST, LATEST, CURRENT, OFFSET, SHIFT, TIMESTAMP, DURATION, GROUP, STRATEGIES };
static const char *const names[STRATEGIES] = { "earliest", "latest", "current", "offset", "shift", "timestamp", "duration", "group" };

struct wanted_topic { struct ot_str topic; json_t *partitions; };
struct reset_row { struct group_part part; int64_t from, to; bool clamped, from_given; };
struct reset {
    enum strategy strategy;
    bool dry_run;
    int64_t offset, by, at_ms;
    struct ot_str group;
    struct wanted_topic *topics; uint32_t topic_count;
    struct reset_row *rows; uint32_t row_count, row_cap;
    const struct broker_lag_part *ends;        /* of each row */
};

/* ---- the body */

/* P1DT2H3M4S: days, hours, minutes, seconds, and weeks. */
static bool duration_parse(struct ot_str text, int64_t *ms_out)
{
    static const struct { char unit; bool in_time; int64_t ms; } units[] = { { 'W', false, 604800000 }, { 'D', false, 86400000 }, { 'H', true, 3600000 }, { 'M', true, 60000 }, { 'S', true, 1000 } };
    int64_t total = 0, number = -1;
    bool in_time = false, any = false;
    if (text.null || text.bytes < 2 || text.data[0] != 'P') return false;
    for (uint32_t i = 1; i < text.bytes; i++) {
        const char c = text.data[i];
        if (c == 'T' && !in_time && number < 0) {
            in_time = true;
            continue;
        }
        if (c >= '0' && c <= '9') {
            number = (number < 0 ? 0 : number) * 10 + (c - '0');
            if (number > 1000000000) return false;
            continue;
        }
        uint32_t u = 0;
        while (u < OT_ARRAY_COUNT(units) && (units[u].unit != c || units[u].in_time != in_time)) u++;
        if (u == OT_ARRAY_COUNT(units) || number < 0) return false;
        total += number * units[u].ms;
        number = -1;
        any = true;
    }
    *ms_out = total;
    return any && number < 0;
}

static bool read_topics(struct rest_call *call, json_t *list, struct reset *reset)
{
    const size_t count = json_array_size(list);
    reset->topics = ot_arena_array(&call->arena, OT_MAX(count, (size_t)1), sizeof *reset->topics);
    if (reset->topics == NULL) return false;
    for (size_t i = 0; i < count; i++) {
        struct wanted_topic *topic = &reset->topics[reset->topic_count++];
        char pointer[REST_POINTER_MAX];
        rest_pointer_index(pointer, "/topics", i);
        const struct rest_member members[] = { { .name = "topic", .kind = REST_TEXT, .required = true, .out = &topic->topic, .min = 1, .max = 249 },
            { .name = "partitions", .kind = REST_ARRAY, .out = &topic->partitions, .min = 1, .max = PARTS_MAX } };
        (void)rest_members(json_array_get(list, i), pointer, members, OT_ARRAY_COUNT(members), &call->faults);
        for (size_t k = 0; k < json_array_size(topic->partitions); k++)
            if (!json_is_integer(json_array_get(topic->partitions, k))) rest_fault_add(&call->faults, pointer, "partitions are numbers");
    }
    return true;
}

struct given { bool offset, by, timestamp, duration, group; };

/* Each strategy wants its own member, and no other's. */
static void check_given(struct rest_call *call, const struct reset *reset, const struct given *given)
{
    const struct { const char *name; bool given; enum strategy strategy; } members[] = { { "offset", given->offset, OFFSET }, { "by", given->by, SHIFT },
        { "timestamp", given->timestamp, TIMESTAMP }, { "duration", given->duration, DURATION }, { "group", given->group, GROUP } };
    for (size_t i = 0; i < OT_ARRAY_COUNT(members); i++) {
        char pointer[REST_POINTER_MAX];
        rest_pointer_join(pointer, "", members[i].name, strlen(members[i].name));
        if (members[i].given && members[i].strategy != reset->strategy) rest_fault_add(&call->faults, pointer, "belongs to another strategy");
        if (!members[i].given && members[i].strategy == reset->strategy) rest_fault_add(&call->faults, pointer, "is required by this strategy");
    }
}

static bool read_time(struct rest_call *call, const json_t *at, int64_t *out)
{
    if (json_is_integer(at)) *out = json_integer_value(at);
    else if (!json_is_string(at) || !ot_time_parse(json_string_value(at), out)) rest_fault_add(&call->faults, "/timestamp", "epoch milliseconds, or RFC 3339");
    return true;
}

static struct reset *read_body(struct rest_call *call)
{
    json_t *body = rest_body_object(call, REST_VALUES_SMALL), *topics = NULL, *at = NULL;
    struct reset *reset = body == NULL ? NULL : ot_arena_alloc(&call->arena, sizeof *reset);
    struct ot_str strategy = { .null = true }, duration = { .null = true };
    struct given given = { 0 };
    int64_t back_ms = 0;
    if (body == NULL) return NULL;
    if (reset == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        return NULL;
    }
    const struct rest_member members[] = {
        { .name = "dry_run", .kind = REST_BOOL, .required = true, .out = &reset->dry_run },
        { .name = "strategy", .kind = REST_TEXT, .required = true, .out = &strategy },
        { .name = "topics", .kind = REST_ARRAY, .out = &topics, .min = 1, .max = PARTS_MAX },
        { .name = "offset", .kind = REST_INT, .out = &reset->offset, .min = 0, .max = INT64_MAX, .given = &given.offset },
        { .name = "by", .kind = REST_INT, .out = &reset->by, .min = INT64_MIN, .max = INT64_MAX, .given = &given.by },
        { .name = "timestamp", .kind = REST_ANY, .out = &at, .given = &given.timestamp },
        { .name = "duration", .kind = REST_TEXT, .out = &duration, .given = &given.duration },
        { .name = "group", .kind = REST_TEXT, .out = &reset->group, .min = 1, .max = 32767, .given = &given.group },
    };
    (void)rest_members(body, "", members, OT_ARRAY_COUNT(members), &call->faults);
    while (reset->strategy < STRATEGIES && !ot_str_equal(strategy, ot_str_of(names[reset->strategy]))) reset->strategy++;
    if (reset->strategy == STRATEGIES) rest_fault_add(&call->faults, "/strategy", "earliest, latest, current, offset, shift, timestamp, duration or group");
    else check_given(call, reset, &given);
    if (reset->strategy == TIMESTAMP && at != NULL) (void)read_time(call, at, &reset->at_ms);
    if (reset->strategy == DURATION && given.duration && !duration_parse(duration, &back_ms)) rest_fault_add(&call->faults, "/duration", "ISO 8601, like P1DT12H or PT30M");
    if (reset->strategy == DURATION) reset->at_ms = ot_exec_wall_ms(call->home) - back_ms;
    if (topics != NULL && !read_topics(call, topics, reset)) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        return NULL;
    }
    return rest_faulty(call) ? NULL : reset;
}

/* ---- which partitions */

static void row_add(struct reset *reset, struct ot_arena *arena, struct ot_str topic, int32_t partition, enum ot_err error)
{
    if (reset->row_count == reset->row_cap) {
        const uint32_t cap = reset->row_cap == 0 ? 64 : reset->row_cap * 2;
        struct reset_row *rows = cap > 4 * PARTS_MAX ? NULL : ot_arena_array(arena, cap, sizeof *rows);
        if (rows == NULL) return;              /* what is beyond is not touched, and not shown */
        if (reset->row_count > 0) memcpy(rows, reset->rows, reset->row_count * sizeof *rows);
        reset->rows = rows;
        reset->row_cap = cap;
    }
    reset->rows[reset->row_count++] = (struct reset_row){ .part = { .topic = topic, .partition = partition, .error = error, .leader_epoch = -1, .metadata = ot_str_of("") },
        .from = -1, .to = -1 };
}

static void rows_of_topic(struct rest_call *call, const struct broker_view *view, struct reset *reset, const struct wanted_topic *wanted)
{
    struct broker_view_topic topic;
    const bool found = broker_view_topic(view, wanted->topic, &topic);
    if (!found && wanted->partitions == NULL) row_add(reset, &call->arena, wanted->topic, 0, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    for (int32_t p = 0; found && wanted->partitions == NULL && p < topic.partition_count; p++) row_add(reset, &call->arena, wanted->topic, p, OT_OK);
    for (size_t k = 0; k < json_array_size(wanted->partitions); k++) {
        const json_int_t p = json_integer_value(json_array_get(wanted->partitions, k));
        const bool there = found && p >= 0 && p < topic.partition_count;
        row_add(reset, &call->arena, wanted->topic, there ? (int32_t)p : (int32_t)OT_MIN(OT_MAX(p, 0), INT32_MAX), there ? OT_OK : OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    }
}

static int64_t committed_of(const struct rest_group *job, const struct group_part *part)
{
    for (uint32_t i = 0; i < job->part_count; i++)
        if (job->parts[i].partition == part->partition && ot_str_equal(job->parts[i].topic, part->topic)) return job->parts[i].offset;
    return -1;
}

static void rows_fill(struct rest_group *job)
{
    struct reset *reset = job->own;
    const struct broker_view *view = broker_view_take(job->call->broker);
    for (uint32_t i = 0; i < reset->topic_count; i++) rows_of_topic(job->call, view, reset, &reset->topics[i]);
    for (uint32_t i = 0; reset->topic_count == 0 && i < job->part_count; i++) row_add(reset, &job->call->arena, job->parts[i].topic, job->parts[i].partition, OT_OK);
    for (uint32_t i = 0; i < reset->row_count; i++) {
        struct group_part *part = &reset->rows[i].part;
        struct broker_view_topic topic;
        reset->rows[i].from = committed_of(job, part);
        if (broker_view_topic(view, part->topic, &topic)) part->topic_id = topic.id;
    }
    broker_view_give(view);
}

/* ---- where to */

static void clamp(struct reset_row *row, const struct broker_lag_part *ends)
{
    if (row->part.error != OT_OK) return;
    if (ends->error != OT_OK) {
        row->part.error = ends->error;
        return;
    }
    const int64_t to = OT_MIN(OT_MAX(row->to, ends->log_start_offset), ends->high_watermark);
    row->clamped = to != row->to;
    row->to = to;
}

static void reply(struct rest_group *job)
{
    struct rest_json *out = &job->call->out;
    const struct reset *reset = job->own;
    uint32_t failed = 0;
    rest_json_open(out, NULL, '{');
    rest_json_bool(out, "dry_run", reset->dry_run);
    rest_json_bool(out, "applied", !reset->dry_run);
    rest_json_open(out, "items", '[');
    for (uint32_t i = 0; i < reset->row_count; i++) {
        const struct reset_row *row = &reset->rows[i];
        const bool good = row->part.error == OT_OK;
        failed += !good;
        rest_json_open(out, NULL, '{');
        rest_json_str(out, "topic", row->part.topic);
        rest_json_int(out, "partition", row->part.partition);
        rest_json_big_or_null(out, "from", row->from);
        rest_json_big_or_null(out, "to", good ? row->to : -1);
        if (good && row->from >= 0) rest_json_big(out, "change", row->to - row->from);
        else rest_json_null(out, "change");
        rest_json_bool(out, "clamped", row->clamped);
        rest_json_text(out, "error", good ? NULL : ot_err_name(row->part.error));
        rest_json_close(out, '}');
    }
    rest_json_close(out, ']');
    rest_json_close(out, '}');
    rest_reply_json(job->call, failed == 0 ? 200 : 207);
}

static void applied(struct rest_group *job)
{
    struct reset *reset = job->own;
    for (uint32_t i = 0; i < reset->row_count; i++) reset->rows[i].part.error = job->ask.ask.parts[i].error;
    reply(job);
}

static void apply(struct rest_group *job)
{
    struct reset *reset = job->own;
    for (uint32_t i = 0; i < reset->row_count; i++) clamp(&reset->rows[i], &reset->ends[i]);
    if (reset->dry_run || reset->row_count == 0) {
        reply(job);
        return;
    }
    struct group_part *parts = ot_arena_array(&job->call->arena, reset->row_count, sizeof *parts);
    if (parts == NULL) {
        rest_problem(job->call, OT_ERR_NO_MEMORY, "no memory for the request");
        return;
    }
    for (uint32_t i = 0; i < reset->row_count; i++) {
        parts[i] = reset->rows[i].part;
        parts[i].offset = OT_MAX(reset->rows[i].to, 0);
    }
    rest_group_change(job, GROUP_ASK_OFFSET_COMMIT, parts, reset->row_count, applied);
}

/* By time: the first record at or after it, else the end. */
static void timed(struct broker_call *broker_call)
{
    struct rest_group *job = OT_CONTAINER(broker_call, struct rest_group, offsets.call);
    struct reset *reset = job->own;
    for (uint32_t i = 0; i < reset->row_count; i++) {
        if (reset->rows[i].part.error == OT_OK) reset->rows[i].part.error = job->places[i].error;
        reset->rows[i].to = job->places[i].offset < 0 ? INT64_MAX : job->places[i].offset;
    }
    for (uint32_t i = 0; i < reset->row_count; i++)
        if (reset->rows[i].to == INT64_MAX && reset->ends[i].error == OT_OK) reset->rows[i].to = reset->ends[i].high_watermark;
    apply(job);
}

static void ask_times(struct rest_group *job)
{
    struct reset *reset = job->own;
    job->places = ot_arena_array(&job->call->arena, OT_MAX(reset->row_count, 1u), sizeof *job->places);
    if (job->places == NULL) {
        rest_problem(job->call, OT_ERR_NO_MEMORY, "no memory for the request");
        return;
    }
    for (uint32_t i = 0; i < reset->row_count; i++)
        job->places[i] = (struct broker_offsets_part){ .topic = reset->rows[i].part.topic, .partition = reset->rows[i].part.partition, .current_leader_epoch = -1, .at = reset->at_ms };
    job->offsets = (struct broker_offsets){ .call = { .home = job->call->home, .done = timed }, .kind = BROKER_LIST_OFFSETS, .api_version = 11,
        .timeout_ms = (int32_t)job->call->timeout_ms, .parts = job->places, .part_count = reset->row_count };
    broker_offsets_anywhere(job->call->broker, &job->offsets);
}

static void other_fetched(struct rest_group *job)
{
    struct reset *reset = job->own;
    for (uint32_t i = 0; i < reset->row_count; i++) {
        reset->rows[i].to = committed_of(job, &reset->rows[i].part);
        if (reset->rows[i].to < 0 && reset->rows[i].part.error == OT_OK) reset->rows[i].part.error = OT_ERR_OFFSET_NOT_AVAILABLE;
    }
    apply(job);
}

static int64_t shifted(int64_t from, int64_t by)
{
    int64_t to;
    return __builtin_add_overflow(from, by, &to) ? (by < 0 ? 0 : INT64_MAX) : to;
}

static void ends_known(struct rest_group *job)
{
    struct reset *reset = job->own;
    const int32_t other = reset->strategy == GROUP ? broker_shard_leader(job->call->broker, BROKER_SHARD_GROUPS, reset->group) : -1;
    reset->ends = job->lag.parts;
    for (uint32_t i = 0; i < reset->row_count; i++) {
        struct reset_row *row = &reset->rows[i];
        const struct broker_lag_part *ends = &reset->ends[i];
        const bool needs_commit = reset->strategy == CURRENT || reset->strategy == SHIFT;
        if (needs_commit && row->from < 0 && row->part.error == OT_OK) row->part.error = OT_ERR_OFFSET_NOT_AVAILABLE;
        row->to = reset->strategy == EARLIEST ? ends->log_start_offset : reset->strategy == LATEST ? ends->high_watermark : reset->strategy == OFFSET ? reset->offset
            : reset->strategy == SHIFT ? shifted(row->from, reset->by) : row->from;
    }
    if (reset->strategy == TIMESTAMP || reset->strategy == DURATION) ask_times(job);
    else if (reset->strategy == GROUP && other >= 0 && other != broker_node_id(job->call->broker)) rest_group_fetch_from(job, other, reset->group, other_fetched);
    else if (reset->strategy == GROUP) rest_group_fetch(job, reset->group, other_fetched);
    else apply(job);
}

static void fetched(struct rest_group *job)
{
    struct reset *reset = job->own;
    rows_fill(job);
    struct group_part *parts = ot_arena_array(&job->call->arena, OT_MAX(reset->row_count, 1u), sizeof *parts);
    if (parts == NULL) {
        rest_problem(job->call, OT_ERR_NO_MEMORY, "no memory for the request");
        return;
    }
    for (uint32_t i = 0; i < reset->row_count; i++) parts[i] = reset->rows[i].part;
    rest_group_ends(job, parts, reset->row_count, ends_known);
}

static void viewed(struct rest_group *job)
{
    const struct reset *reset = job->own;
    if (job->ask.ask.error == OT_OK && job->view.member_count > 0 && !reset->dry_run)
        rest_problem_more(job->call, OT_ERR_NON_EMPTY_GROUP, NULL, "stop its consumers, or DELETE /v1/groups/{group}/members/{member}", "the group has %u members, which would not hear of it",
            job->view.member_count);
    else rest_group_fetch(job, rest_param(job->call, 0), fetched);
}

void rest_group_reset(struct rest_call *call)
{
    struct reset *reset = read_body(call);
    struct rest_group *job = reset == NULL ? NULL : rest_group_new(call);
    if (job == NULL) return;
    job->own = reset;
    job->absent_is_fine = reset->topic_count > 0;      /* a group may be given offsets before its first consumer comes */
    rest_group_ask(job, GROUP_ASK_VIEW, viewed);
}
