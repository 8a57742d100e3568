/* Brokers out of the way: drained of leadership for a while, or of everything for good. Both are a mark in the cluster's state, kept as a config of that broker; whoever leads the
 * coordinator acts on it (broker/balance.c, broker/decommission.c). */
#include "broker/moves.h"
#include "broker/plan.h"
#include "rest/decommission.h"
#include "rest/handlers.h"
#include "rest/hop.h"
#include "rest/rows.h"
#include "rest/topic_view.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAINTENANCE "ottla.broker.maintenance"
#define DECOMMISSION "ottla.broker.decommission"
#define MOVES "/v1/partitions?state=reassigning&limit=1000"
#define JOB "decommission-"

static bool find(struct rest_call *call, struct broker_view_broker *row, struct rest_broker_sum *sum)
{
    const struct broker_view *view = broker_view_take(call->broker);
    const bool found = rest_broker_find(call, view, row);
    if (found) {
        *sum = (struct rest_broker_sum){ .id = row->id };
        rest_broker_sums(view, sum, 1);
    }
    broker_view_give(view);
    return found;
}

/* ---- a mark set or taken back */

static struct rest_change *mark(struct rest_call *call, int32_t broker_id, const char *key, bool set)
{
    struct broker_config_entry *entry = ot_arena_alloc(&call->arena, sizeof(*entry));
    struct rest_change *change = entry == NULL ? NULL : rest_change_new(call, BROKER_ALTER_BROKER_CONFIG, (struct ot_str){ .null = true });
    if (entry == NULL) rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
    if (change == NULL) return NULL;
    *entry = (struct broker_config_entry){ ot_str_of(key), set ? ot_str_of("true") : (struct ot_str){ .null = true } };
    change->item.broker_id = broker_id;
    change->item.of_any_broker = true;
    change->item.configs = entry;
    change->item.config_count = 1;
    return change;
}

static void unmarked(struct rest_change *change) { rest_reply_empty(change->call, 204); }

/* ---- maintenance */

static void write_maintenance(struct rest_call *call, const struct broker_view_broker *row, const struct rest_broker_sum *sum)
{
    struct rest_json *out = &call->out;
    rest_json_open(out, NULL, '{');
    rest_json_int(out, "broker", row->id);
    rest_json_bool(out, "maintenance", row->draining);
    rest_json_text(out, "state", !row->draining ? "none" : sum->leaders_to_move > 0 ? "draining" : "drained");
    rest_json_int(out, "leaders", sum->leaders);
    rest_json_int(out, "leaders_to_move", sum->leaders_to_move);
    rest_json_close(out, '}');
}

static void reply_maintenance(struct rest_call *call, bool changed)
{
    struct broker_view_broker row;
    struct rest_broker_sum sum;
    if (!find(call, &row, &sum)) return;
    write_maintenance(call, &row, &sum);
    rest_reply_json(call, changed && row.draining && sum.leaders_to_move > 0 ? 202 : 200);
}

void rest_maintenance_get(struct rest_call *call) { reply_maintenance(call, false); }

static void drained(struct rest_change *change) { reply_maintenance(change->call, true); }

static void change_mark(struct rest_call *call, const char *key, bool set, void (*then)(struct rest_change *change))
{
    struct broker_view_broker row;
    struct rest_broker_sum sum;
    if (!find(call, &row, &sum)) return;
    struct rest_change *change = mark(call, row.id, key, set);
    if (change != NULL && !rest_faulty(call)) rest_change_start(change, then);
}

void rest_maintenance_put(struct rest_call *call) { change_mark(call, MAINTENANCE, true, drained); }
void rest_maintenance_delete(struct rest_call *call) { change_mark(call, MAINTENANCE, false, unmarked); }

/* ---- decommission */

struct copied { int64_t done, total; bool known; };

void rest_move_copied(const struct rest_rows *rows, const struct broker_view_topic *topic, const struct broker_view_partition *row, int64_t *done_out, int64_t *total_out)
{
    const int64_t size = rows == NULL || row->leader < 0 ? -1 : rest_row_int(rest_rows_place(rows, row->leader, topic->name, row->index), "size_bytes");
    *done_out = 0;
    *total_out = size < 0 ? -1 : size * row->adding.count;
    for (int32_t i = 0; size >= 0 && i < row->adding.count; i++) {
        const json_t *list = json_object_get(rest_rows_place(rows, row->adding.ids[i], topic->name, row->index), "replica_state"), *one;
        size_t k;
        json_array_foreach((json_t *)(uintptr_t)list, k, one)
            if (rest_row_int(one, "broker") == row->adding.ids[i]) *done_out += OT_MIN(OT_MAX(rest_row_int(one, "size_bytes"), 0), size);
    }
}

static bool among(struct broker_view_ids ids, int32_t id)
{
    for (int32_t i = 0; i < ids.count; i++)
        if (ids.ids[i] == id) return true;
    return false;
}

static struct copied copied_of(const struct broker_view *view, int32_t id, const struct rest_rows *rows)
{
    struct copied out = { .known = true };
    struct broker_view_topic topic;
    struct broker_view_partition row;
    struct ot_arena arena;
    uint8_t room[8192];
    ot_arena_init_with(&arena, room, sizeof(room), 256 << 10);
    for (struct ot_str after = { .null = true }; broker_view_next_topic(view, after, &topic); after = topic.name) {
        for (int32_t i = 0; i < topic.partition_count; i++) {
            int64_t done, total;
            ot_arena_reset(&arena);
            if (!broker_view_partition(view, &topic.id, i, &arena, &row) || !among(row.removing, id)) continue;
            rest_move_copied(rows, &topic, &row, &done, &total);
            out.known &= total >= 0;
            out.done += done;
            out.total += OT_MAX(total, 0);
        }
    }
    ot_arena_free(&arena);
    return out;
}

static void write_decommission(struct rest_call *call, const struct rest_gather *gather, const struct rest_rows *rows)
{
    struct rest_json *out = &call->out;
    struct broker_view_broker row;
    struct broker_view_voter voter;
    struct rest_broker_sum sum;
    struct broker_plan_room room;
    if (!find(call, &row, &sum)) return;
    const struct broker_view *view = broker_view_take(call->broker);
    const struct copied copied = copied_of(view, row.id, rows);
    const bool votes = broker_view_voter(view, row.id, &voter);
    broker_plan_room(view, row.id, &room);
    broker_view_give(view);
    rest_json_open(out, NULL, '{');
    rest_json_int(out, "broker", row.id);
    rest_json_bool(out, "decommission", row.leaving);
    rest_json_text(out, "state", !row.leaving ? "none" : sum.replicas > 0 ? "running" : "done");
    rest_json_int(out, "replicas", sum.replicas);
    rest_json_int(out, "moving", sum.moving_away);
    rest_json_big_or_null(out, "copied_bytes", copied.known ? copied.done : -1);
    rest_json_big_or_null(out, "total_bytes", copied.known ? copied.total : -1);
    rest_json_bool(out, "stuck", room.factor_max > room.brokers);
    rest_json_bool(out, "is_voter", votes);
    if (gather != NULL) rest_gather_partial(gather);
    rest_json_close(out, '}');
    const bool begun = call->method == REST_PUT && sum.replicas > 0 && row.leaving;
    char *location = ot_arena_alloc(&call->arena, sizeof("/v1/jobs/" JOB) + 12);
    if (location != NULL) snprintf(location, sizeof("/v1/jobs/" JOB) + 12, "/v1/jobs/" JOB "%d", row.id);
    if (begun) rest_header(call, "Location", location);
    rest_reply_json(call, begun ? 202 : 200);
}

static void gathered(struct rest_gather *gather)
{
    struct rest_rows rows;
    const bool told = rest_rows_places(&rows, gather);
    write_decommission(gather->call, gather, told ? &rows : NULL);
    rest_rows_free(&rows);
}

static void reply_decommission(struct rest_call *call)
{
    if (rest_gather_wanted(call)) rest_gather(call, MOVES, NULL, gathered);
    else write_decommission(call, NULL, NULL);
}

void rest_decommission_get(struct rest_call *call)
{
    struct broker_view_broker row;
    struct rest_broker_sum sum;
    if (find(call, &row, &sum)) reply_decommission(call);
}

static void leaving(struct rest_change *change) { reply_decommission(change->call); }

void rest_decommission_put(struct rest_call *call)
{
    struct broker_view_broker row;
    struct rest_broker_sum sum;
    struct broker_plan_room room;
    if (!find(call, &row, &sum)) return;
    const struct broker_view *view = broker_view_take(call->broker);
    broker_plan_room(view, row.id, &room);
    broker_view_give(view);
    if (room.factor_max > room.brokers) {
        rest_problem_more(call, OT_ERR_INVALID_REPLICATION_FACTOR, NULL, "add a broker, or lower the replication factor by POST /v1/reassignments/plan",
            "broker %d holds partitions with %d replicas, and %d other broker%s could take them", row.id, room.factor_max, room.brokers, room.brokers == 1 ? "" : "s");
        return;
    }
    struct rest_change *change = mark(call, row.id, DECOMMISSION, true);
    if (change != NULL && !rest_faulty(call)) rest_change_start(change, leaving);
}

/* ---- the end of it: what is on its way stays */

struct ending { struct broker_moves moves; struct rest_call *call; };

static void write_job(struct rest_call *call, const struct rest_broker_sum *sum, const char *state, const struct copied *copied);

/* Asked as a decommission or as a job. */
static void stayed(struct rest_call *call)
{
    const struct copied nothing = { 0 };
    struct rest_broker_sum sum = { .id = -1 };
    if (!rest_decommission_job(rest_param(call, 0), &sum.id)) {
        rest_reply_empty(call, 204);
        return;
    }
    const struct broker_view *view = broker_view_take(call->broker);
    rest_broker_sums(view, &sum, 1);
    broker_view_give(view);
    write_job(call, &sum, "cancelled", &nothing);
    rest_reply_json(call, 202);
}

static void cancelled(struct broker_call *broker_call)
{
    struct ending *ending = OT_CONTAINER(broker_call, struct ending, moves.call);
    stayed(ending->call);                      /* one that cannot be undone any more ends by itself */
}

static void stays(struct rest_change *change)
{
    enum { MOST = 1000 };
    struct rest_call *call = change->call;
    struct broker_view_topic topic;
    struct broker_view_partition row;
    struct ending *ending = ot_arena_alloc(&call->arena, sizeof(*ending));
    struct broker_move *list = ot_arena_array(&call->arena, MOST, sizeof(*list));
    struct ot_arena arena;
    uint8_t room[8192];
    if (change->item.validate_only || ending == NULL || list == NULL) {
        stayed(call);
        return;
    }
    *ending = (struct ending){ .call = call, .moves = { .call = { .home = call->home, .done = cancelled }, .moves = list, .timeout_ms = (int32_t)call->timeout_ms } };
    ot_arena_init_with(&arena, room, sizeof(room), 256 << 10);
    const struct broker_view *view = broker_view_take(call->broker);
    for (struct ot_str after = { .null = true }; broker_view_next_topic(view, after, &topic); after = topic.name) {
        for (int32_t i = 0; i < topic.partition_count && ending->moves.count < MOST; i++) {
            ot_arena_reset(&arena);
            if (!broker_view_partition(view, &topic.id, i, &arena, &row) || !among(row.removing, change->item.broker_id)) continue;
            const char *name = ot_arena_str(&call->arena, topic.name);
            if (name != NULL) list[ending->moves.count++] = (struct broker_move){ .kind = BROKER_MOVE_REASSIGN, .topic = ot_str_of(name), .partition = i };
        }
    }
    broker_view_give(view);
    ot_arena_free(&arena);
    broker_moves(call->broker, &ending->moves);
}

void rest_decommission_delete(struct rest_call *call) { change_mark(call, DECOMMISSION, false, stays); }

/* ---- the same as a job */

bool rest_decommission_job(struct ot_str id, int32_t *broker_out)
{
    const uint32_t prefix = sizeof(JOB) - 1;
    int64_t number = 0;
    if (id.null || id.bytes <= prefix || id.bytes > prefix + 10 || memcmp(id.data, JOB, prefix) != 0) return false;
    for (uint32_t i = prefix; i < id.bytes; i++) {
        if (id.data[i] < '0' || id.data[i] > '9') return false;
        number = number * 10 + (id.data[i] - '0');
    }
    *broker_out = (int32_t)OT_MIN(number, (int64_t)INT32_MAX);
    return number <= INT32_MAX && (id.data[prefix] != '0' || id.bytes == prefix + 1);
}

static const char *state_of(const struct rest_broker_sum *sum) { return sum->replicas > 0 ? "running" : "done"; }

static void write_job(struct rest_call *call, const struct rest_broker_sum *sum, const char *state, const struct copied *copied)
{
    struct rest_json *out = &call->out;
    struct broker_plan_room room;
    char id[sizeof(JOB) + 12];
    const struct broker_view *view = broker_view_take(call->broker);
    broker_plan_room(view, sum->id, &room);
    broker_view_give(view);
    snprintf(id, sizeof(id), JOB "%d", sum->id);
    rest_json_open(out, NULL, '{');
    rest_json_text(out, "job_id", id);
    rest_json_text(out, "kind", "decommission");
    rest_json_text(out, "state", state);
    rest_json_null(out, "topic");
    rest_json_null(out, "partition");
    rest_json_open(out, "progress", '{');      /* of the moves that are under way */
    rest_json_big(out, "done", copied->known ? copied->done : 0);
    rest_json_big(out, "total", copied->known ? copied->total : 0);
    rest_json_text(out, "unit", "bytes");
    rest_json_close(out, '}');
    rest_json_null(out, "eta_ms");
    rest_json_null(out, "started_at");
    rest_json_null(out, "ended_at");
    rest_json_null(out, "error");
    rest_json_open(out, "result", '{');
    rest_json_int(out, "partitions", sum->replicas);
    rest_json_int(out, "skipped", 0);
    rest_json_big(out, "faults", 0);
    rest_json_open(out, "details", '[');
    if (room.factor_max > room.brokers) rest_json_text(out, NULL, "the other brokers are too few for the replication factors");
    rest_json_close(out, ']');
    rest_json_close(out, '}');
    rest_json_close(out, '}');
}

/* False: it is not on its way out, and the call was answered with that. */
static bool leaves(struct rest_call *call, int32_t id, struct rest_broker_sum *sum)
{
    struct broker_view_broker row;
    const struct broker_view *view = broker_view_take(call->broker);
    const bool found = broker_view_next_broker(view, id - 1, &call->arena, &row) && row.id == id && row.leaving;
    *sum = (struct rest_broker_sum){ .id = id };
    if (found) rest_broker_sums(view, sum, 1);
    broker_view_give(view);
    if (!found) rest_no_such_job(call);
    return found;
}

static void tell_job(struct rest_call *call, const struct rest_rows *rows, int status)
{
    struct rest_broker_sum sum;
    int32_t id = -1;
    if (!rest_decommission_job(rest_param(call, 0), &id) || !leaves(call, id, &sum)) return;
    const struct broker_view *view = broker_view_take(call->broker);
    const struct copied copied = copied_of(view, id, rows);
    broker_view_give(view);
    write_job(call, &sum, state_of(&sum), &copied);
    rest_reply_json(call, status);
}

static void job_gathered(struct rest_gather *gather)
{
    struct rest_rows rows;
    const bool told = rest_rows_places(&rows, gather);
    tell_job(gather->call, told ? &rows : NULL, 200);
    rest_rows_free(&rows);
}

void rest_decommission_job_get(struct rest_call *call, int32_t broker)
{
    struct rest_broker_sum sum;
    if (!leaves(call, broker, &sum)) return;
    if (rest_gather_wanted(call)) rest_gather(call, MOVES, NULL, job_gathered);
    else tell_job(call, NULL, 200);
}

void rest_decommission_job_cancel(struct rest_call *call, int32_t broker)
{
    struct rest_broker_sum sum;
    if (!leaves(call, broker, &sum)) return;
    if (sum.replicas == 0) {
        rest_problem_http(call, "HTTP_CONFLICT", "the job is done");
        return;
    }
    if (rest_validate_only(call)) {
        if (!rest_faulty(call)) tell_job(call, NULL, 202);
        return;
    }
    struct rest_change *change = mark(call, broker, DECOMMISSION, false);
    if (change != NULL && !rest_faulty(call)) rest_change_start(change, stays);
}

uint32_t rest_decommission_jobs(struct rest_call *call, uint32_t from, const char *state)
{
    const struct copied unknown = { 0 };
    struct broker_view_broker row;
    uint32_t count = 0;
    const struct broker_view *view = broker_view_take(call->broker);
    for (int32_t after = INT32_MIN; broker_view_next_broker(view, after, &call->arena, &row); after = row.id) {
        struct rest_broker_sum sum = { .id = row.id };
        if (!row.leaving) continue;
        rest_broker_sums(view, &sum, 1);
        if ((state != NULL && strcmp(state, state_of(&sum)) != 0) || count++ < from || call->list.count >= call->list.limit) continue;
        rest_list_item(call);
        write_job(call, &sum, state_of(&sum), &unknown);
    }
    broker_view_give(view);
    return count;
}
