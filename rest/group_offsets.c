/* Committed offsets of a group: read with their lag, set and dropped. Setting is refused while the group has members: they would not hear of it. */
#include "rest/groups.h"
#include "rest/handlers.h"
#include "rest/topic_view.h"

#include <inttypes.h>
#include <stdio.h>

enum { PARTS_MAX = 10000, METADATA_BYTES_MAX = 4096 };

static void write_offset(struct rest_group *job, const struct group_part *part, const struct broker_lag_part *lag)
{
    struct rest_json *out = &job->call->out;
    rest_json_open(out, NULL, '{');
    rest_json_str(out, "topic", part->topic);
    rest_json_int(out, "partition", part->partition);
    rest_json_big_or_null(out, "offset", part->offset);
    rest_json_big_or_null(out, "leader_epoch", part->leader_epoch);
    rest_json_str(out, "metadata", part->metadata);
    rest_json_time(out, "committed_at", part->commit_ms);
    rest_json_time(out, "expires_at", part->expire_ms);
    rest_json_big_or_null(out, "log_start_offset", lag->log_start_offset);
    rest_json_big_or_null(out, "high_watermark", lag->high_watermark);
    rest_json_big_or_null(out, "last_stable_offset", lag->last_stable_offset);
    rest_json_big_or_null(out, "lag", lag->all.records);
    rest_json_big_or_null(out, "lag_read_committed", lag->committed.records);
    rest_json_bool(out, "lag_exact", lag->all.exact && lag->committed.exact);
    rest_json_big_or_null(out, "lag_offsets", part->offset < 0 || lag->high_watermark < 0 ? -1 : OT_MAX(lag->high_watermark - part->offset, 0));
    rest_json_big_or_null(out, "lag_ms", lag->all.ms);
    rest_json_str(out, "owner", rest_group_owner(job, part->topic, part->partition));
    rest_json_close(out, '}');
}

/* ---- all */

struct page { int64_t first, end; };

static struct page page_of(const struct rest_group *job)
{
    const struct rest_call *call = job->call;
    const int64_t count = job->part_count, first = call->list.after_int == INT64_MIN ? 0 : OT_MIN(OT_MAX(call->list.after_int + 1, 0), count);
    return (struct page){ first, OT_MIN(count, first + call->list.limit) };
}

static void all_write(struct rest_group *job)
{
    struct rest_call *call = job->call;
    const struct page page = page_of(job);
    for (int64_t i = page.first; i < page.end; i++) {
        rest_list_item(call);
        write_offset(job, &job->parts[i], &job->lag.parts[i - page.first]);
    }
    rest_etag(call, job->offsets_version);
    rest_list_reply_int(call, 'o', page.end < (int64_t)job->part_count, page.end - 1, job->part_count, NULL);
}

static void all_fetched(struct rest_group *job)
{
    const struct page page = page_of(job);
    rest_group_lags(job, (uint32_t)page.first, (uint32_t)(page.end - page.first), all_write);
}

static void all_viewed(struct rest_group *job) { rest_group_fetch(job, rest_param(job->call, 0), all_fetched); }

void rest_group_offsets(struct rest_call *call)
{
    if (!rest_list_begin(call, 'o', true)) return;
    struct rest_group *job = rest_group_new(call);
    if (job != NULL) rest_group_ask(job, GROUP_ASK_VIEW, all_viewed);
}

/* ---- setting */

/* The topic's id. */
static enum ot_err find_topic(struct rest_call *call, struct group_part *part)
{
    struct broker_view_topic topic;
    const struct broker_view *view = broker_view_take(call->broker);
    const bool found = broker_view_topic(view, part->topic, &topic) && part->partition >= 0 && part->partition < topic.partition_count;
    if (found) part->topic_id = topic.id;
    broker_view_give(view);
    return found ? OT_OK : OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
}

/* Does the offset lie in the log? */
static enum ot_err check_part(const struct group_part *part, const struct broker_lag_part *ends)
{
    if (part->error != OT_OK) return part->error;
    if (ends->error != OT_OK) return ends->error;
    return part->offset < ends->log_start_offset || part->offset > ends->high_watermark ? OT_ERR_OFFSET_OUT_OF_RANGE : OT_OK;
}

struct setting { struct group_part *parts; uint32_t count; };

static void write_result(struct rest_json *out, const struct group_part *part)
{
    rest_json_open(out, NULL, '{');
    rest_json_str(out, "topic", part->topic);
    rest_json_int(out, "partition", part->partition);
    rest_json_big(out, "offset", part->offset);
    rest_json_text(out, "error", part->error == OT_OK ? NULL : ot_err_name(part->error));
    rest_json_close(out, '}');
}

static void many_set(struct rest_group *job)
{
    struct rest_json *out = &job->call->out;
    const struct group_ask *ask = &job->ask.ask;
    uint32_t failed = 0;
    rest_json_open(out, NULL, '{');
    rest_json_open(out, "items", '[');
    for (uint32_t i = 0; i < ask->part_count; i++) {
        failed += ask->parts[i].error != OT_OK;
        write_result(out, &ask->parts[i]);
    }
    rest_json_close(out, ']');
    rest_json_close(out, '}');
    rest_reply_json(job->call, failed == 0 ? 200 : 207);
}

static bool read_part(struct rest_call *call, json_t *from, size_t index, struct group_part *part)
{
    char pointer[REST_POINTER_MAX];
    int64_t partition = 0;
    rest_pointer_index(pointer, "/offsets", index);
    *part = (struct group_part){ .leader_epoch = -1, .metadata = ot_str_of("") };
    const struct rest_member members[] = {
        { .name = "topic", .kind = REST_TEXT, .required = true, .out = &part->topic, .min = 1, .max = 249 },
        { .name = "partition", .kind = REST_INT, .required = true, .out = &partition, .min = 0, .max = INT32_MAX },
        { .name = "offset", .kind = REST_INT, .required = true, .out = &part->offset, .min = 0, .max = INT64_MAX },
        { .name = "metadata", .kind = REST_TEXT, .out = &part->metadata, .min = 0, .max = METADATA_BYTES_MAX },
    };
    const bool read = rest_members(from, pointer, members, OT_ARRAY_COUNT(members), &call->faults);
    part->partition = (int32_t)partition;
    return read;
}

static void many_ends_known(struct rest_group *job)
{
    const struct setting *setting = job->own;
    for (uint32_t i = 0; i < setting->count; i++) setting->parts[i].error = check_part(&setting->parts[i], &job->lag.parts[i]);
    rest_group_change(job, GROUP_ASK_OFFSET_COMMIT, setting->parts, setting->count, many_set);
}

void rest_group_offsets_put(struct rest_call *call)
{
    json_t *body = rest_body_object(call, REST_VALUES_SMALL), *list = NULL;
    if (body == NULL) return;
    const struct rest_member members[] = { { .name = "offsets", .kind = REST_ARRAY, .required = true, .out = &list, .min = 1, .max = PARTS_MAX } };
    struct rest_group *job = rest_group_new(call);
    if (job == NULL) return;
    (void)rest_members(body, "", members, 1, &call->faults);
    const size_t count = json_array_size(list);
    struct group_part *parts = ot_arena_array(&call->arena, OT_MAX(count, (size_t)1), sizeof *parts);
    for (size_t i = 0; parts != NULL && i < count; i++)
        if (read_part(call, json_array_get(list, i), i, &parts[i])) parts[i].error = find_topic(call, &parts[i]);
    if (rest_faulty(call)) return;
    struct setting *setting = ot_arena_alloc(&call->arena, sizeof *setting);
    if (parts == NULL || setting == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        return;
    }
    *setting = (struct setting){ parts, (uint32_t)count };
    job->own = setting;
    rest_group_ends(job, parts, setting->count, many_ends_known);
}

/* ---- one */

/* Topic and partition of the path into part 0 of the ask; NULL: answered. */
static struct rest_group *one_new(struct rest_call *call)
{
    struct broker_view_topic topic;
    int64_t partition;
    if (!rest_param_int(call, 2, "partition", 0, INT32_MAX, &partition)) return NULL;
    const struct broker_view *view = broker_view_take(call->broker);
    const bool found = broker_view_topic(view, rest_param(call, 1), &topic) && partition < topic.partition_count;
    broker_view_give(view);
    if (!found) {
        rest_problem(call, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION, "no such topic or partition");
        return NULL;
    }
    struct rest_group *job = rest_group_new(call);
    struct group_part *part = job == NULL ? NULL : ot_arena_alloc(&call->arena, sizeof *part);
    if (part == NULL) {
        if (job != NULL) rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        return NULL;
    }
    *part = (struct group_part){ .topic = rest_param(call, 1), .topic_id = topic.id, .partition = (int32_t)partition, .leader_epoch = -1, .metadata = ot_str_of("") };
    job->own = part;
    job->ask.ask.parts = part;
    job->ask.ask.part_count = 1;
    return job;
}

static void one_write(struct rest_group *job)
{
    write_offset(job, &job->parts[0], &job->lag.parts[0]);
    rest_reply_json(job->call, 200);
}

static void one_fetched(struct rest_group *job)
{
    if (job->parts[0].offset < 0) {
        rest_problem(job->call, OT_ERR_NOT_FOUND, "the group has committed nothing for this partition");
        return;
    }
    rest_group_lags(job, 0, 1, one_write);
}

static void one_viewed(struct rest_group *job)
{
    job->ask.ask = (struct group_ask){ .parts = job->own, .part_count = 1 };
    rest_group_ask(job, GROUP_ASK_OFFSET_FETCH, one_fetched);
}

void rest_group_offset_get(struct rest_call *call)
{
    struct rest_group *job = one_new(call);
    if (job != NULL) rest_group_ask(job, GROUP_ASK_VIEW, one_viewed);
}

static void one_set(struct rest_group *job)
{
    const struct group_part *part = &job->ask.ask.parts[0];
    if (part->error != OT_OK) {
        rest_problem(job->call, part->error, "%s", ot_err_text(part->error));
        return;
    }
    write_result(&job->call->out, part);
    rest_reply_json(job->call, 200);
}

static void one_ends_known(struct rest_group *job)
{
    struct group_part *part = job->own;
    const struct broker_lag_part *ends = &job->lag.parts[0];
    const enum ot_err err = check_part(part, ends);
    char extra[120];
    if (err == OT_OK) {
        rest_group_change(job, GROUP_ASK_OFFSET_COMMIT, part, 1, one_set);
        return;
    }
    (void)snprintf(extra, sizeof extra, "\"log_start_offset\":%" PRId64 ",\"high_watermark\":%" PRId64, ends->log_start_offset, ends->high_watermark);
    rest_problem_more(job->call, err, err == OT_ERR_OFFSET_OUT_OF_RANGE ? extra : NULL, NULL, "%s", ot_err_text(err));
}

void rest_group_offset_put(struct rest_call *call)
{
    json_t *body = rest_body_object(call, REST_VALUES_SMALL);
    int64_t offset = 0;
    struct ot_str metadata = ot_str_of("");
    if (body == NULL) return;
    const struct rest_member members[] = { { .name = "offset", .kind = REST_INT, .required = true, .out = &offset, .min = 0, .max = INT64_MAX },
        { .name = "metadata", .kind = REST_TEXT, .out = &metadata, .min = 0, .max = METADATA_BYTES_MAX } };
    (void)rest_members(body, "", members, OT_ARRAY_COUNT(members), &call->faults);
    if (rest_faulty(call)) return;
    struct rest_group *job = one_new(call);
    if (job == NULL) return;
    struct group_part *part = job->own;
    part->offset = offset;
    part->metadata = metadata;
    rest_group_ends(job, part, 1, one_ends_known);
}

/* ---- dropping */

static void dropped(struct rest_group *job)
{
    for (uint32_t i = 0; i < job->ask.ask.part_count; i++) {
        const enum ot_err err = job->ask.ask.parts[i].error;
        if (err == OT_OK) continue;
        rest_problem(job->call, err, "%s", ot_err_text(err));
        return;
    }
    rest_reply_empty(job->call, 204);
}

void rest_group_offset_delete(struct rest_call *call)
{
    struct rest_group *job = one_new(call);
    if (job != NULL) rest_group_change(job, GROUP_ASK_OFFSET_DELETE, job->own, 1, dropped);
}

/* What the group has of one topic. */
static void topic_fetched(struct rest_group *job)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < job->part_count; i++)
        if (ot_str_equal(job->parts[i].topic, rest_param(job->call, 1))) job->parts[count++] = job->parts[i];
    rest_group_change(job, GROUP_ASK_OFFSET_DELETE, job->parts, count, dropped);
}

void rest_group_offsets_delete(struct rest_call *call)
{
    struct broker_view_topic topic;
    const struct broker_view *view = broker_view_take(call->broker);
    const bool found = broker_view_topic(view, rest_param(call, 1), &topic);
    broker_view_give(view);
    struct rest_group *job = NULL;
    if (!found) rest_problem(call, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION, "no such topic");
    else job = rest_group_new(call);
    if (job != NULL) rest_group_fetch(job, rest_param(call, 0), topic_fetched);
}
