/* How far a group is behind: asked of the broker for what the group committed, and told by partition and in all. */
#include "rest/groups.h"
#include "rest/handlers.h"

static void lags_known(struct broker_call *broker_call)
{
    struct rest_group *job = OT_CONTAINER(broker_call, struct rest_group, lag.call);
    job->next(job);
}

/* With their committed offsets, or -1 for their ends alone. */
static void ask(struct rest_group *job, const struct group_part *from, uint32_t count, bool ends, void (*next)(struct rest_group *job))
{
    struct broker_lag_part *parts = ot_arena_array(&job->call->arena, OT_MAX(count, 1u), sizeof *parts);
    if (parts == NULL) {
        rest_problem(job->call, OT_ERR_NO_MEMORY, "no memory for the answer");
        return;
    }
    for (uint32_t i = 0; i < count; i++) parts[i] = (struct broker_lag_part){ .topic = from[i].topic, .partition = from[i].partition, .offset = ends ? -1 : from[i].offset };
    job->next = next;
    job->lag = (struct broker_lag){ .call = { .home = job->call->home, .done = lags_known }, .parts = parts, .part_count = count };
    broker_lag(job->call->broker, &job->lag);
}

void rest_group_lags(struct rest_group *job, uint32_t first, uint32_t count, void (*next)(struct rest_group *job)) { ask(job, count == 0 ? NULL : job->parts + first, count, false, next); }

void rest_group_ends(struct rest_group *job, const struct group_part *parts, uint32_t count, void (*next)(struct rest_group *job)) { ask(job, parts, count, true, next); }

/* ---- in all */

struct total { int64_t records, ms; bool exact; const struct broker_lag_part *most_at; int64_t most; };

static void add(struct total *total, const struct broker_lag_part *part, const struct broker_lag_count *count)
{
    if (count->records < 0) return;
    total->records += count->records;
    total->ms = OT_MAX(total->ms, count->ms);
    total->exact &= count->exact;
    if (count->records <= total->most) return;
    total->most = count->records;
    total->most_at = part;
}

static void write_place(struct rest_json *out, const struct broker_lag_part *part)
{
    if (part == NULL) {
        rest_json_null(out, "max_at");
        return;
    }
    rest_json_open(out, "max_at", '{');
    rest_json_str(out, "topic", part->topic);
    rest_json_int(out, "partition", part->partition);
    rest_json_close(out, '}');
}

void rest_group_lag_write(struct rest_group *job)
{
    struct rest_json *out = &job->call->out;
    struct total all = { .ms = -1, .exact = true, .most = -1 }, committed = all;
    for (uint32_t i = 0; i < job->lag.part_count; i++) {
        add(&all, &job->lag.parts[i], &job->lag.parts[i].all);
        add(&committed, &job->lag.parts[i], &job->lag.parts[i].committed);
    }
    rest_json_open(out, "lag", '{');
    rest_json_big(out, "total", all.records);
    rest_json_big(out, "total_read_committed", committed.records);
    rest_json_bool(out, "exact", all.exact && committed.exact);
    rest_json_big_or_null(out, "max", all.most);
    write_place(out, all.most_at);
    rest_json_big_or_null(out, "max_ms", all.ms);
    rest_json_close(out, '}');
}

/* ---- by partition */

static void write_part(struct rest_json *out, const struct broker_lag_part *part)
{
    rest_json_open(out, NULL, '{');
    rest_json_str(out, "topic", part->topic);
    rest_json_int(out, "partition", part->partition);
    rest_json_big(out, "offset", part->offset);
    rest_json_big_or_null(out, "lag", part->all.records);
    rest_json_big_or_null(out, "lag_read_committed", part->committed.records);
    rest_json_bool(out, "lag_exact", part->all.exact && part->committed.exact);
    rest_json_big_or_null(out, "lag_offsets", part->high_watermark < 0 ? -1 : OT_MAX(part->high_watermark - part->offset, 0));
    rest_json_big_or_null(out, "lag_ms", part->all.ms);
    rest_json_big_or_null(out, "lag_ms_read_committed", part->committed.ms);
    rest_json_close(out, '}');
}

static void lag_write(struct rest_group *job)
{
    struct rest_json *out = &job->call->out;
    struct total all = { .ms = -1, .exact = true, .most = -1 }, committed = all;
    int64_t unknown = 0;
    rest_json_open(out, NULL, '{');
    rest_json_str(out, "group", job->view.id);
    rest_json_open(out, "items", '[');
    for (uint32_t i = 0; i < job->lag.part_count; i++) {
        const struct broker_lag_part *part = &job->lag.parts[i];
        unknown += part->all.records < 0;
        add(&all, part, &part->all);
        add(&committed, part, &part->committed);
        write_part(out, part);
    }
    rest_json_close(out, ']');
    rest_json_big(out, "total", all.records);
    rest_json_big(out, "total_read_committed", committed.records);
    rest_json_bool(out, "exact", all.exact && committed.exact);
    rest_json_big_or_null(out, "max_ms", all.ms);
    rest_json_big_or_null(out, "max_ms_read_committed", committed.ms);
    rest_json_big(out, "partitions_unknown", unknown);
    rest_json_close(out, '}');
    rest_reply_json(job->call, 200);
}

static void lag_fetched(struct rest_group *job) { rest_group_lags(job, 0, job->part_count, lag_write); }
static void lag_viewed(struct rest_group *job) { rest_group_fetch(job, rest_param(job->call, 0), lag_fetched); }

void rest_group_lag(struct rest_call *call)
{
    struct rest_group *job = rest_group_new(call);
    if (job != NULL) rest_group_ask(job, GROUP_ASK_VIEW, lag_viewed);
}
