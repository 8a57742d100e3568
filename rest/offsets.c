/* Questions about offsets, and cutting records off the head of a partition. */
#include "rest/handlers.h"
#include "rest/topic_view.h"
#include <inttypes.h>
#include <stdio.h>

#define FOLLOWERS_MS 10000                     /* until those that live have cut their logs too */

struct job { struct broker_offsets offsets; struct broker_offsets_part part; struct rest_call *call; bool dry_run; int64_t log_start_offset, high_watermark; };

/* Topic and partition of the path, checked against the committed state; NULL: answered. */
static struct job *job_new(struct rest_call *call, enum broker_offsets_kind kind)
{
    struct broker_view_topic topic;
    int32_t index = 0;
    const struct broker_view *view = broker_view_take(call->broker);
    const bool found = rest_partition_find(call, view, &topic, &index);
    broker_view_give(view);
    struct job *job = found ? ot_arena_alloc(&call->arena, sizeof(*job)) : NULL;
    if (job == NULL) {
        if (found) rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        return NULL;
    }
    job->call = call;
    job->part = (struct broker_offsets_part){ .topic = rest_param(call, 0), .partition = index, .current_leader_epoch = -1 };
    job->offsets = (struct broker_offsets){ .call = { .home = call->home }, .kind = kind, .api_version = 11, .timeout_ms = (int32_t)call->timeout_ms, .parts = &job->part,
        .part_count = 1 };
    return job;
}

/* Log start and high watermark as far as this broker knows them. */
static void ends_of(struct job *job)
{
    struct broker_partition_state state;
    struct broker_partition *partition = broker_partition_find(job->call->broker, job->part.topic, job->part.partition);
    job->log_start_offset = job->high_watermark = -1;
    if (partition == NULL) return;
    broker_partition_state(partition, &state);
    broker_partition_put(partition);
    job->log_start_offset = state.log_start_offset;
    job->high_watermark = state.high_watermark;
}

static void told(struct broker_call *broker_call)
{
    struct job *job = OT_CONTAINER(broker_call, struct job, offsets.call);
    struct rest_call *call = job->call;
    struct rest_json *out = &call->out;
    if (job->part.error != OT_OK) {
        rest_problem(call, job->part.error, "%s", ot_err_text(job->part.error));
        return;
    }
    ends_of(job);
    rest_json_open(out, NULL, '{');
    rest_json_str(out, "topic", job->part.topic);
    rest_json_int(out, "partition", job->part.partition);
    rest_json_big_or_null(out, "offset", job->part.offset);
    rest_json_big_or_null(out, "timestamp_ms", job->part.timestamp_ms);
    rest_json_big_or_null(out, "leader_epoch", job->part.leader_epoch);
    rest_json_big_or_null(out, "log_start_offset", job->log_start_offset);
    rest_json_big_or_null(out, "high_watermark", job->high_watermark);
    rest_json_close(out, '}');
    rest_reply_json(call, 200);
}

static int64_t asked_at(struct rest_call *call)
{
    const struct ot_str at = rest_query_text(call, "at");
    if (at.null || ot_str_equal(at, ot_str_of("latest"))) return -1;
    if (ot_str_equal(at, ot_str_of("earliest"))) return -2;
    if (ot_str_equal(at, ot_str_of("max_timestamp"))) return -3;
    return rest_query_time(call, "at", -1);
}

void rest_partition_offsets(struct rest_call *call)
{
    static const char *const isolations[] = { "read_uncommitted", "read_committed" };
    struct job *job = job_new(call, BROKER_LIST_OFFSETS);
    if (job == NULL) return;
    job->part.at = asked_at(call);
    job->offsets.read_committed = rest_query_choice(call, "isolation", isolations, 2, 0) == 1;
    if (rest_faulty(call)) return;
    job->offsets.call.done = told;
    broker_offsets(call->broker, &job->offsets);
}

/* ---- records/delete */

static void reply_cut(struct job *job, int64_t from, int64_t to)
{
    struct rest_json *out = &job->call->out;
    rest_json_open(out, NULL, '{');
    rest_json_str(out, "topic", job->part.topic);
    rest_json_int(out, "partition", job->part.partition);
    rest_json_bool(out, "dry_run", job->dry_run);
    rest_json_bool(out, "applied", !job->dry_run);
    rest_json_big(out, "log_start_offset", to);
    rest_json_big(out, "deleted_offsets", OT_MAX(to - from, 0));
    rest_json_big(out, "high_watermark", job->high_watermark);
    rest_json_close(out, '}');
    rest_reply_json(job->call, 200);
}

static void out_of_range(struct job *job)
{
    char extra[120];
    snprintf(extra, sizeof(extra), "\"log_start_offset\":%" PRId64 ",\"high_watermark\":%" PRId64, job->log_start_offset, job->high_watermark);
    rest_problem_more(job->call, OT_ERR_OFFSET_OUT_OF_RANGE, extra, NULL, "before_offset is %" PRId64 ", the high watermark is %" PRId64, job->part.at, job->high_watermark);
}

static void cut(struct broker_call *broker_call)
{
    struct job *job = OT_CONTAINER(broker_call, struct job, offsets.call);
    if (job->part.error == OT_OK) reply_cut(job, job->log_start_offset, job->part.offset);
    else if (job->part.error == OT_ERR_OFFSET_OUT_OF_RANGE) out_of_range(job);
    else if (job->part.error == OT_ERR_POLICY_VIOLATION) rest_problem(job->call, job->part.error, "the topic is compacted only: nothing may be cut off its head");
    else rest_problem(job->call, job->part.error, "%s", ot_err_text(job->part.error));
}

void rest_records_delete(struct rest_call *call)
{
    json_t *body = rest_body_object(call, REST_VALUES_SMALL);
    int64_t before = -1;
    bool dry_run = true;
    if (body == NULL) return;
    const struct rest_member members[] = {
        { .name = "before_offset", .kind = REST_INT, .required = true, .out = &before, .min = -1, .max = INT64_MAX },
        { .name = "dry_run", .kind = REST_BOOL, .required = true, .out = &dry_run },
    };
    rest_members(body, "", members, OT_ARRAY_COUNT(members), &call->faults);
    if (rest_faulty(call)) return;
    struct job *job = job_new(call, BROKER_DELETE_RECORDS);
    if (job == NULL) return;
    job->part.at = before;
    job->offsets.timeout_ms = FOLLOWERS_MS;
    job->dry_run = dry_run;
    job->offsets.call.done = cut;
    ends_of(job);
    if (!dry_run) {
        broker_offsets(call->broker, &job->offsets);
        return;
    }
    const int64_t to = before == -1 ? job->high_watermark : before;
    if (job->high_watermark < 0) rest_problem(call, OT_ERR_NOT_LEADER_OR_FOLLOWER, "this broker does not lead the partition");
    else if (to > job->high_watermark) out_of_range(job);
    else reply_cut(job, job->log_start_offset, OT_MAX(to, job->log_start_offset));
}
