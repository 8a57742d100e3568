/* Long work: how far it is, its end, and what may be started. */
#include "broker/jobs.h"
#include "rest/decommission.h"
#include "rest/handlers.h"
#include "rest/hop.h"
#include "rest/topic_view.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_result(struct rest_json *out, const struct broker_job_view *job)
{
    rest_json_open(out, "result", '{');
    rest_json_int(out, "partitions", job->partitions);
    rest_json_int(out, "skipped", job->skipped);
    rest_json_big(out, "faults", (int64_t)job->faults);
    rest_json_open(out, "details", '[');
    for (uint32_t i = 0; i < job->fault_count; i++) rest_json_text(out, NULL, job->fault_texts[i]);
    rest_json_close(out, ']');
    rest_json_close(out, '}');
}

static void write_job(struct rest_json *out, const struct broker_job_view *job)
{
    rest_json_open(out, NULL, '{');
    rest_json_text(out, "job_id", job->id);
    rest_json_text(out, "kind", job->kind);
    rest_json_text(out, "state", broker_job_state_name(job->state));
    rest_json_text(out, "topic", job->topic[0] == 0 ? NULL : job->topic);
    if (job->partition >= 0) rest_json_int(out, "partition", job->partition);
    else rest_json_null(out, "partition");
    rest_json_open(out, "progress", '{');
    rest_json_big(out, "done", (int64_t)job->done_bytes);
    rest_json_big(out, "total", (int64_t)job->total_bytes);
    rest_json_text(out, "unit", "bytes");
    rest_json_close(out, '}');
    rest_json_big_or_null(out, "eta_ms", job->eta_ms);
    rest_json_time(out, "started_at", job->started_ms);
    rest_json_time(out, "ended_at", job->ended_ms);
    rest_json_text(out, "error", job->error == OT_OK ? NULL : ot_err_name(job->error));
    write_result(out, job);
    rest_json_close(out, '}');
}

static const char *const states[] = { "queued", "running", "cancelling", "done", "failed", "cancelled" };
static int asked_state(struct rest_call *call) { return rest_query_choice(call, "state", states, OT_ARRAY_COUNT(states), -1); }

/* Those that are no broker's own come first; an answer to another broker, or about one, has none of them. */
static uint32_t shared(struct rest_call *call, uint32_t from)
{
    const int state = asked_state(call);
    return call->arrived || rest_query(call, "broker") != NULL ? 0 : rest_decommission_jobs(call, from, state < 0 ? NULL : states[state]);
}

/* Newest first; a token is the id of the last one told, and when that is forgotten the list is over. */
static void list(struct rest_call *call)
{
    struct broker_job_view *job = ot_arena_alloc(&call->arena, sizeof(*job));
    const int state = asked_state(call);
    char last[BROKER_JOB_ID_BYTES] = "", at[BROKER_JOB_ID_BYTES] = "";
    bool more = false;
    if (!rest_list_begin(call, 'j', false)) return;
    if (job == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the list");
        return;
    }
    const uint32_t of_all = shared(call, call->list.after.null ? 0 : UINT32_MAX);
    for (struct ot_str after = call->list.after; broker_job_next(call->broker, after, job); after = ot_str_of(at)) {
        snprintf(at, sizeof(at), "%s", job->id);
        if (state >= 0 && (int)job->state != state) continue;
        if (call->list.count == call->list.limit) {
            more = true;
            break;
        }
        rest_list_item(call);
        write_job(&call->out, job);
        snprintf(last, sizeof(last), "%s", job->id);
    }
    rest_list_reply(call, 'j', more ? ot_str_of(last) : (struct ot_str){ .null = true }, state < 0 ? (int64_t)broker_job_count(call->broker) + of_all : -1, NULL);
}

/* ---- of all brokers: those that have not begun first, then the one that began last */

static int by_start(const void *a, const void *b)
{
    json_t *const *one = a, *const *two = b;
    const char *first = json_string_value(json_object_get(*one, "started_at")), *second = json_string_value(json_object_get(*two, "started_at"));
    if (first == NULL || second == NULL) return (first != NULL) - (second != NULL);
    const int order = strcmp(second, first);
    return order != 0 ? order : strcmp(json_string_value(json_object_get(*two, "job_id")), json_string_value(json_object_get(*one, "job_id")));
}

/* There are few at each broker, so all of them come; a token is a number of items. */
static void told(struct rest_gather *all)
{
    struct rest_call *call = all->call;
    size_t count = 0, at = call->list.after_int > 0 ? (size_t)call->list.after_int : 0;
    if (rest_gather_refused(all)) return;
    for (uint32_t i = 0; i < all->count; i++) count += json_array_size(json_object_get(rest_gathered_of(all, all->brokers[i].broker), "items"));
    json_t **jobs = calloc(OT_MAX(count, (size_t)1), sizeof(json_t *));
    if (jobs == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the list");
        return;
    }
    count = 0;
    for (uint32_t i = 0; i < all->count; i++) {
        const json_t *items = json_object_get(rest_gathered_of(all, all->brokers[i].broker), "items");
        for (size_t k = 0; k < json_array_size(items); k++)
            if (json_is_string(json_object_get(json_array_get(items, k), "job_id"))) jobs[count++] = json_array_get(items, k);
    }
    if (count > 1) qsort(jobs, count, sizeof(json_t *), by_start);
    const size_t of_all = shared(call, (uint32_t)OT_MIN(at, (size_t)UINT32_MAX));
    at = OT_MAX(at, OT_MIN(of_all, at + call->list.count));
    for (; at >= of_all && at < of_all + count && call->list.count < call->list.limit; at++) {
        rest_list_item(call);
        rest_json_copy(&call->out, NULL, jobs[at - of_all]);
    }
    free(jobs);
    rest_list_reply_int(call, 'J', at < of_all + count, (int64_t)at, (int64_t)(of_all + count), rest_gather_extra(all));
}

void rest_jobs_list(struct rest_call *call)
{
    if (rest_query(call, "broker") != NULL || !rest_gather_wanted(call)) list(call);
    else if (rest_list_begin(call, 'J', true)) rest_gather(call, rest_gather_target(call, "limit,page_token", "limit=100000"), NULL, told);
}

void rest_no_such_job(struct rest_call *call)
{
    const struct ot_str id = rest_param(call, 0);
    rest_problem_more(call, OT_ERR_RESOURCE_NOT_FOUND, NULL, "GET /v1/jobs", "there is no job '%.*s': it never was, ended long ago, or was of a broker that began again since", (int)OT_MIN(id.bytes, 60u), id.data);
}

/* From the arena: it holds texts of faults. NULL: answered. */
static struct broker_job_view *view_new(struct rest_call *call)
{
    struct broker_job_view *job = ot_arena_alloc(&call->arena, sizeof(*job));
    if (job == NULL) rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
    return job;
}

void rest_job_get(struct rest_call *call)
{
    int32_t leaves;
    if (rest_decommission_job(rest_param(call, 0), &leaves)) {
        rest_decommission_job_get(call, leaves);
        return;
    }
    struct broker_job_view *job = view_new(call);
    if (job == NULL) return;
    if (!broker_job_find(call->broker, rest_param(call, 0), job)) {
        rest_no_such_job(call);
        return;
    }
    write_job(&call->out, job);
    rest_reply_json(call, 200);
}

void rest_job_cancel(struct rest_call *call)
{
    int32_t leaves;
    if (rest_decommission_job(rest_param(call, 0), &leaves)) {
        rest_decommission_job_cancel(call, leaves);
        return;
    }
    struct broker_job_view *job = view_new(call);
    const bool validate_only = rest_validate_only(call);
    if (job == NULL || rest_faulty(call)) return;
    enum ot_err err = OT_OK;
    if (!validate_only) err = broker_job_cancel(call->broker, rest_param(call, 0), job);
    else if (!broker_job_find(call->broker, rest_param(call, 0), job)) err = OT_ERR_NOT_FOUND;
    else if (job->ended_ms >= 0) err = OT_ERR_MISMATCH;
    if (err == OT_ERR_NOT_FOUND) {
        rest_no_such_job(call);
    } else if (err != OT_OK) {
        rest_problem_http(call, "HTTP_CONFLICT", "the job is %s", broker_job_state_name(job->state));
    } else {
        write_job(&call->out, job);
        rest_reply_json(call, 202);
    }
}

void rest_verify_start(struct rest_call *call)
{
    json_t *body = rest_body_object(call, REST_VALUES_SMALL);
    struct broker_job_view *job = body == NULL ? NULL : view_new(call);
    struct ot_str topic = { .null = true };
    int64_t partition = -1, bytes_per_second = 0;
    if (job == NULL) return;
    const struct rest_member members[] = {
        { .name = "topic", .kind = REST_TEXT, .nullable = true, .out = &topic },
        { .name = "partition", .kind = REST_INT, .nullable = true, .out = &partition, .min = 0, .max = INT32_MAX },
        { .name = "max_bytes_per_second", .kind = REST_INT, .nullable = true, .out = &bytes_per_second, .min = 1, .max = INT64_MAX },
    };
    rest_members(body, "", members, OT_ARRAY_COUNT(members), &call->faults);
    if (partition >= 0 && topic.null) rest_fault_add(&call->faults, "/partition", "needs a topic");
    if (rest_faulty(call)) return;
    const enum ot_err err = broker_job_verify(call->broker, topic, (int32_t)partition, bytes_per_second, job);
    if (err == OT_ERR_UNKNOWN_TOPIC_OR_PARTITION) {
        rest_problem_more(call, err, NULL, "GET /v1/topics", "there is nothing of topic '%.*s' here%s", (int)OT_MIN(topic.bytes, 249u), topic.data, partition >= 0 ? ", or not this partition" : "");
        return;
    }
    if (err != OT_OK) {
        rest_problem(call, err, "%s", err == OT_ERR_BUSY ? "too many jobs wait already" : ot_err_text(err));
        return;
    }
    char *location = ot_arena_alloc(&call->arena, sizeof("/v1/jobs/") + BROKER_JOB_ID_BYTES);
    if (location != NULL) snprintf(location, sizeof("/v1/jobs/") + BROKER_JOB_ID_BYTES, "/v1/jobs/%s", job->id);
    rest_header(call, "Location", location);
    write_job(&call->out, job);
    rest_reply_json(call, 202);
}
