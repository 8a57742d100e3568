/* The brokers: their registration and what they hold by the metadata here; version, disk and load as each says itself; when it was heard of, as the coordinator says. */
#include "broker/control.h"
#include "broker/log_dirs.h"
#include "broker/placement.h"
#include "rest/handlers.h"
#include "rest/hop.h"
#include "rest/inside.h"
#include "rest/topic_view.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIRS_MAX = 64 };

/* ---- what a broker holds, for all of a page in one walk */

static struct rest_broker_sum *sum_of(struct rest_broker_sum *sums, uint32_t count, int32_t id)
{
    for (uint32_t i = 0; i < count; i++)
        if (sums[i].id == id) return &sums[i];
    return NULL;
}

static bool among(struct broker_view_ids ids, int32_t id)
{
    for (int32_t i = 0; i < ids.count; i++)
        if (ids.ids[i] == id) return true;
    return false;
}

static void add_partition(const struct broker_view *view, const struct broker_view_partition *row, struct rest_broker_sum *sums, uint32_t count)
{
    for (int32_t i = 0; i < row->replicas.count; i++) {
        const int32_t id = row->replicas.ids[i];
        struct rest_broker_sum *sum = sum_of(sums, count, id);
        if (sum == NULL) continue;
        sum->replicas++;
        sum->osr += !among(row->isr, id);
        sum->moving_away += among(row->removing, id);
        if (row->leader != id) continue;
        sum->leaders++;
        sum->leaders_to_move += broker_another_could_lead(view, row, id);
    }
}

void rest_broker_sums(const struct broker_view *view, struct rest_broker_sum *sums, uint32_t count)
{
    struct broker_view_topic topic;
    struct broker_view_partition row;
    uint8_t room[8192];
    struct ot_arena arena;
    ot_arena_init_with(&arena, room, sizeof(room), 256 << 10);
    for (struct ot_str after = { .null = true }; broker_view_next_topic(view, after, &topic); after = topic.name) {
        for (int32_t i = 0; i < topic.partition_count; i++) {
            ot_arena_reset(&arena);
            if (broker_view_partition(view, &topic.id, i, &arena, &row)) add_partition(view, &row, sums, count);
        }
    }
    ot_arena_free(&arena);
}

const char *rest_broker_state_name(const struct broker_view_broker *row, const struct rest_broker_sum *sum)
{
    if (row->fenced) return "fenced";
    if (row->stopping) return "shutting_down";
    if (row->leaving) return sum->replicas > 0 ? "decommissioning" : "decommissioned";
    return !row->draining ? "running" : sum->leaders_to_move > 0 ? "draining" : "drained";
}

/* ---- one row */

static void write_disk(struct rest_call *call)
{
    struct broker_log_dir dirs[DIRS_MAX];
    const uint32_t count = OT_MIN(broker_log_dirs(call->broker, dirs, DIRS_MAX), (uint32_t)DIRS_MAX);
    uint64_t total = 0, free_bytes = 0, log_bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        total += dirs[i].total_bytes;
        free_bytes += dirs[i].free_bytes;
        log_bytes += dirs[i].log_bytes;
    }
    rest_json_open(&call->out, "disk", '{');
    rest_json_big(&call->out, "total_bytes", (int64_t)total);
    rest_json_big(&call->out, "free_bytes", (int64_t)free_bytes);
    rest_json_big(&call->out, "log_bytes", (int64_t)log_bytes);
    rest_json_close(&call->out, '}');
}

static void write_listeners(struct rest_json *out, const struct broker_view_broker *row)
{
    rest_json_open(out, "listeners", '[');
    for (uint32_t i = 0; i < row->endpoint_count; i++) {
        rest_json_open(out, NULL, '{');
        rest_json_str(out, "name", row->endpoints[i].listener);
        rest_json_str(out, "host", row->endpoints[i].host);
        rest_json_int(out, "port", row->endpoints[i].port);
        rest_json_str(out, "security", row->endpoints[i].security);
        rest_json_close(out, '}');
    }
    rest_json_close(out, ']');
}

/* What only the broker itself knows. */
static void write_inside(struct rest_call *call)
{
    double in = 0, from = 0;
    if (!rest_broker_rates(call, &in, &from)) in = from = (double)NAN;
    rest_json_text(&call->out, "version", call->server->setup.version);
    rest_json_time(&call->out, "started_at", broker_started_wall_ms(call->broker));
    rest_json_real(&call->out, "bytes_in_per_second", in);
    rest_json_real(&call->out, "bytes_out_per_second", from);
    write_disk(call);
}

/* Who does not answer is shown with the release that it registered with. */
static void copy_inside(struct rest_json *out, const struct broker_view_broker *row, const json_t *said)
{
    static const char *const members[] = { "started_at", "bytes_in_per_second", "bytes_out_per_second", "disk" };
    const json_t *version = json_object_get(said, "version");
    if (version == NULL) rest_json_str(out, "version", row->release);
    else rest_json_copy(out, "version", version);
    for (size_t i = 0; i < OT_ARRAY_COUNT(members); i++) {
        const json_t *value = json_object_get(said, members[i]);
        if (value == NULL) rest_json_null(out, members[i]);
        else rest_json_copy(out, members[i], value);
    }
}

/* The row of broker `of` in what broker `by` said. */
static const json_t *said(const struct rest_gather *gather, int32_t by, int32_t of)
{
    const json_t *all = gather == NULL ? NULL : rest_gathered_of(gather, by), *items = json_object_get(all, "items"), *one;
    size_t i;
    if (items == NULL) return json_integer_value(json_object_get(all, "broker")) == of ? all : NULL;
    json_array_foreach((json_t *)(uintptr_t)items, i, one)
        if (json_integer_value(json_object_get(one, "broker")) == of) return one;
    return NULL;
}

static void write_heard(struct rest_call *call, int32_t id, int32_t controller, const struct rest_gather *gather)
{
    const json_t *heard = controller == broker_node_id(call->broker) ? NULL : json_object_get(said(gather, controller, id), "last_heartbeat_ms_ago");
    if (json_is_integer(heard)) rest_json_big(&call->out, "last_heartbeat_ms_ago", (int64_t)json_integer_value(heard));
    else rest_json_big_or_null(&call->out, "last_heartbeat_ms_ago", broker_heard_ms_ago(call->broker, id));
}

static void write_broker(struct rest_call *call, const struct broker_view *view, const struct broker_view_broker *row, const struct rest_broker_sum *sum, const struct rest_gather *gather)
{
    struct rest_json *out = &call->out;
    struct broker_view_cluster cluster;
    struct broker_view_voter voter;
    broker_view_cluster(view, &cluster);
    rest_json_open(out, NULL, '{');
    rest_json_int(out, "broker", row->id);
    rest_json_big(out, "epoch", row->epoch);
    rest_json_text(out, "state", rest_broker_state_name(row, sum));
    rest_json_bool(out, "maintenance", row->draining);
    rest_json_bool(out, "decommission", row->leaving);
    rest_json_str(out, "rack", row->rack);
    rest_json_bool(out, "is_controller", row->id == cluster.controller_id);
    rest_json_bool(out, "is_voter", broker_view_voter(view, row->id, &voter));
    write_heard(call, row->id, cluster.controller_id, gather);
    write_listeners(out, row);
    rest_json_open(out, "ottla_version", '{');
    rest_json_int(out, "min", row->level_min);
    rest_json_int(out, "max", row->level_max);
    rest_json_close(out, '}');
    rest_json_int(out, "leaders", sum->leaders);
    rest_json_int(out, "replicas", sum->replicas);
    rest_json_int(out, "osr_replicas", sum->osr);
    if (row->id == broker_node_id(call->broker)) write_inside(call);
    else copy_inside(out, row, said(gather, row->id, row->id));
    rest_json_close(out, '}');
}

/* ---- the list, and one of them */

static void list(struct rest_call *call, const struct rest_gather *gather)
{
    struct broker_view_broker row, *page = ot_arena_array(&call->arena, call->list.limit, sizeof(*page));
    struct rest_broker_sum *sums = ot_arena_array(&call->arena, call->list.limit, sizeof(*sums));
    uint32_t count = 0;
    int64_t total = 0;
    bool more = false;
    if (page == NULL || sums == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the list");
        return;
    }
    const struct broker_view *view = broker_view_take(call->broker);
    for (int32_t after = INT32_MIN; broker_view_next_broker(view, after, &call->arena, &row); after = row.id) {
        total++;
        if (row.id <= call->list.after_int) continue;
        more |= count == call->list.limit;
        if (count == call->list.limit) continue;
        sums[count] = (struct rest_broker_sum){ .id = row.id };
        page[count++] = row;
    }
    rest_broker_sums(view, sums, count);
    for (uint32_t i = 0; i < count; i++) {
        rest_list_item(call);
        write_broker(call, view, &page[i], &sums[i], gather);
    }
    broker_view_give(view);
    rest_list_reply_int(call, 'b', more, count > 0 ? page[count - 1].id : 0, total, gather == NULL ? NULL : rest_gather_extra(gather));
}

static void listed(struct rest_gather *gather) { list(gather->call, gather); }

void rest_brokers_list(struct rest_call *call)
{
    if (!rest_list_begin(call, 'b', true)) return;
    if (rest_gather_wanted(call)) rest_gather(call, rest_gather_target(call, NULL, NULL), NULL, listed);
    else list(call, NULL);
}

static void get(struct rest_call *call, const struct rest_gather *gather)
{
    struct broker_view_broker row;
    const struct broker_view *view = broker_view_take(call->broker);
    const bool found = rest_broker_find(call, view, &row);
    if (found) {
        struct rest_broker_sum sum = { .id = row.id };
        rest_broker_sums(view, &sum, 1);
        write_broker(call, view, &row, &sum, gather);
    }
    broker_view_give(view);
    if (found) rest_reply_json(call, 200);
}

static void got(struct rest_gather *gather) { get(gather->call, gather); }

void rest_broker_get(struct rest_call *call)
{
    struct broker_view_broker row;
    struct broker_view_cluster cluster;
    const struct broker_view *view = broker_view_take(call->broker);
    broker_view_cluster(view, &cluster);
    const bool found = rest_broker_find(call, view, &row);
    broker_view_give(view);
    if (!found) return;
    const int32_t ids[] = { OT_MIN(row.id, cluster.controller_id), OT_MAX(row.id, cluster.controller_id) };
    const uint32_t skipped = ids[0] == ids[1] || ids[0] < 0;
    if (rest_gather_wanted(call)) rest_gather_of(call, rest_gather_target(call, NULL, NULL), ids + skipped, 2 - skipped, NULL, got);
    else get(call, NULL);
}

/* ---- what is asked of the coordinator */

struct control { struct broker_control control; struct rest_call *call; };

static struct control *control_new(struct rest_call *call, enum broker_control_kind kind, int32_t id, void (*done)(struct broker_call *))
{
    struct control *control = ot_arena_alloc(&call->arena, sizeof(*control));
    if (control == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        return NULL;
    }
    *control = (struct control){ .call = call, .control = { .call = { .home = call->home, .done = done }, .kind = kind, .broker_id = id, .timeout_ms = (int32_t)call->timeout_ms,
        .validate_only = rest_validate_only(call) } };
    return control;
}

static void forgotten(struct broker_call *broker_call)
{
    struct control *own = OT_CONTAINER(broker_call, struct control, control.call);
    const struct broker_control *control = &own->control;
    if (control->error == OT_OK) {
        rest_wrote(own->call, control->version_out);
        rest_reply_empty(own->call, 204);
    } else if (control->error == OT_ERR_INVALID_REQUEST) {
        rest_problem_http(own->call, "HTTP_CONFLICT", "%s", control->text);
    } else {
        rest_problem(own->call, control->error, "%s", control->text[0] != 0 ? control->text : ot_err_text(control->error));
    }
}

void rest_broker_forget(struct rest_call *call)
{
    struct broker_view_broker row;
    const struct broker_view *view = broker_view_take(call->broker);
    const bool found = rest_broker_find(call, view, &row);
    broker_view_give(view);
    struct control *control = found ? control_new(call, BROKER_FORGET, row.id, forgotten) : NULL;
    if (control != NULL && !rest_faulty(call)) broker_control(call->broker, &control->control);
}

static void resigned(struct broker_call *broker_call)
{
    struct control *own = OT_CONTAINER(broker_call, struct control, control.call);
    struct rest_call *call = own->call;
    if (own->control.error != OT_OK) {
        rest_problem(call, own->control.error, "%s", own->control.text[0] != 0 ? own->control.text : ot_err_text(own->control.error));
        return;
    }
    rest_json_open(&call->out, NULL, '{');
    rest_json_int(&call->out, "resigned", own->control.broker_id);
    rest_json_close(&call->out, '}');
    rest_reply_json(call, 202);
}

void rest_controller_resign(struct rest_call *call)
{
    struct broker_view_cluster cluster;
    const struct broker_view *view = broker_view_take(call->broker);
    broker_view_cluster(view, &cluster);
    broker_view_give(view);
    struct control *control = control_new(call, BROKER_RESIGN, cluster.controller_id, resigned);
    if (control != NULL && !rest_faulty(call)) broker_control(call->broker, &control->control);
}
