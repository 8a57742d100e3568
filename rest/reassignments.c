/* Moves of replicas: proposed, started, watched, cancelled. A proposal changes nothing; what it answers can be sent back as it is to start it. */
#include "base/util.h"
#include "broker/plan.h"
#include "broker/move_throttle.h"
#include "rest/handlers.h"
#include "rest/hop.h"
#include "rest/inside.h"
#include "rest/rows.h"
#include "rest/topic_view.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOVES_MAX = 10000, REPLICAS_MAX = 64, PAGES_MAX = 20 };

static void write_ids(struct rest_json *out, const char *key, const int32_t *ids, int32_t count) { rest_ids_write(out, key, (struct broker_view_ids){ ids, count }); }

static bool has(const int32_t *ids, int32_t count, int32_t id)
{
    for (int32_t i = 0; i < count; i++)
        if (ids[i] == id) return true;
    return false;
}

/* ---- one move as it is told: a proposal, or one that is (to be) started */

struct move {
    struct ot_str topic; int32_t partition;
    const int32_t *from, *to; int32_t from_count, to_count;
    int64_t size;                              /* of the partition; -1: its leader did not say */
};

static int32_t added(const struct move *move)
{
    int32_t count = 0;
    for (int32_t i = 0; i < move->to_count; i++) count += !has(move->from, move->from_count, move->to[i]);
    return count;
}

/* -1: not known. Order alone costs nothing. */
static int64_t bytes_of(const struct move *move)
{
    const int32_t count = added(move);
    return count == 0 ? 0 : move->size < 0 ? -1 : move->size * count;
}

static void write_move(struct rest_json *out, const struct move *move)
{
    rest_json_str(out, "topic", move->topic);
    rest_json_int(out, "partition", move->partition);
    write_ids(out, "from", move->from, move->from_count);
    write_ids(out, "replicas", move->to, move->to_count);
    rest_json_open(out, "adding", '[');
    for (int32_t i = 0; i < move->to_count; i++)
        if (!has(move->from, move->from_count, move->to[i])) rest_json_int(out, NULL, move->to[i]);
    rest_json_close(out, ']');
    rest_json_open(out, "removing", '[');
    for (int32_t i = 0; i < move->from_count; i++)
        if (!has(move->to, move->to_count, move->from[i])) rest_json_int(out, NULL, move->from[i]);
    rest_json_close(out, ']');
    rest_json_big_or_null(out, "bytes_to_move", bytes_of(move));
}

static void write_total(struct rest_json *out, const struct move *moves, uint32_t count)
{
    int64_t total = 0;
    for (uint32_t i = 0; i < count && total >= 0; i++) total = bytes_of(&moves[i]) < 0 ? -1 : total + bytes_of(&moves[i]);
    rest_json_big_or_null(out, "bytes_to_move", total);
}

/* ---- sizes of the partitions that move: pages of all partitions, from every broker, until the last one that matters was seen */

struct sizing {
    struct rest_call *call;
    struct move *moves; uint32_t count, next;  /* in the order of (topic, partition) */
    uint32_t pages;
    void (*then)(struct sizing *sizing);
    void *arg;
};

static void size_here(struct sizing *sizing)
{
    for (uint32_t i = 0; i < sizing->count; i++) {
        struct broker_partition_state state;
        struct broker_partition *partition = broker_partition_find(sizing->call->broker, sizing->moves[i].topic, sizing->moves[i].partition);
        if (partition == NULL) continue;
        broker_partition_state(partition, &state);
        broker_partition_put(partition);
        if (state.open) sizing->moves[i].size = (int64_t)state.size_bytes;
    }
}

static int order(struct ot_str a, int32_t pa, struct ot_str b, int32_t pb)
{
    const int bytes = memcmp(a.data, b.data, OT_MIN(a.bytes, b.bytes));
    return bytes != 0 ? bytes : a.bytes != b.bytes ? (a.bytes > b.bytes) - (a.bytes < b.bytes) : (pa > pb) - (pa < pb);
}

static int by_place(const void *a, const void *b)
{
    const struct move *one = a, *two = b;
    return order(one->topic, one->partition, two->topic, two->partition);
}

static struct move *move_of(struct sizing *sizing, const json_t *row)
{
    const json_t *topic = json_object_get(row, "topic");
    if (!json_is_string(topic)) return NULL;
    const struct move key = { .topic = rest_json_string(topic), .partition = (int32_t)rest_row_int(row, "partition") };
    return bsearch(&key, sizing->moves, sizing->count, sizeof(key), by_place);
}

static void sizes_told(struct rest_gather *gather);

static void size_page(struct sizing *sizing, const char *target)
{
    sizing->pages++;
    rest_gather(sizing->call, target, sizing, sizes_told);
}

static void sizes_told(struct rest_gather *gather)
{
    struct sizing *sizing = gather->arg;
    const char *token = NULL;
    for (uint32_t b = 0; b < gather->count; b++) {
        const json_t *page = rest_gathered_of(gather, gather->brokers[b].broker), *row;
        size_t i;
        if (gather->brokers[b].broker == broker_node_id(gather->call->broker)) token = json_string_value(json_object_get(page, "next_page_token"));
        json_array_foreach(json_object_get(page, "items"), i, row) {
            struct move *move = move_of(sizing, row);
            if (move != NULL) move->size = OT_MAX(move->size, rest_row_int(row, "size_bytes"));
        }
    }
    char *target = token == NULL ? NULL : ot_arena_alloc(&gather->call->arena, strlen(token) + 64);
    if (target == NULL || sizing->pages >= PAGES_MAX) {
        sizing->then(sizing);
        return;
    }
    snprintf(target, strlen(token) + 64, "/v1/partitions?limit=1000&page_token=%s", token);
    size_page(sizing, target);
}

static void size_all(struct sizing *sizing)
{
    bool copies = false;
    for (uint32_t i = 0; i < sizing->count; i++) {
        sizing->moves[i].size = -1;
        copies |= added(&sizing->moves[i]) > 0;
    }
    if (sizing->count > 0) qsort(sizing->moves, sizing->count, sizeof(*sizing->moves), by_place);
    size_here(sizing);
    if (copies && rest_gather_wanted(sizing->call)) size_page(sizing, "/v1/partitions?limit=1000");
    else sizing->then(sizing);
}

/* ---- POST /v1/reassignments/plan */

struct planned { struct sizing sizing; struct broker_plan plan; };

static void plan_reply(struct sizing *sizing)
{
    const struct planned *planned = sizing->arg;
    struct rest_json *out = &sizing->call->out;
    rest_json_open(out, NULL, '{');
    rest_json_open(out, "moves", '[');
    for (uint32_t i = 0; i < sizing->count; i++) {
        rest_json_open(out, NULL, '{');
        write_move(out, &sizing->moves[i]);
        rest_json_close(out, '}');
    }
    rest_json_close(out, ']');
    rest_json_bool(out, "cut", planned->plan.cut);
    rest_json_int(out, "being_moved", planned->plan.busy);
    rest_json_int(out, "stuck", planned->plan.stuck);
    write_total(out, sizing->moves, sizing->count);
    rest_json_close(out, '}');
    rest_reply_json(sizing->call, 200);
}

static bool read_ids(struct rest_call *call, json_t *array, const char *pointer, int32_t *out, int32_t max, int32_t *count_out)
{
    size_t i;
    json_t *one;
    *count_out = 0;
    json_array_foreach(array, i, one) {
        char at[REST_POINTER_MAX];
        rest_pointer_index(at, pointer, i);
        if (!json_is_integer(one) || json_integer_value(one) < 0 || json_integer_value(one) > INT32_MAX) rest_fault_add(&call->faults, at, "must be the id of a broker");
        else if (has(out, *count_out, (int32_t)json_integer_value(one))) rest_fault_add(&call->faults, at, "is there twice");
        else if (*count_out < max) out[(*count_out)++] = (int32_t)json_integer_value(one);
    }
    return call->faults.count == 0;
}

static const struct ot_str *read_topics(struct rest_call *call, json_t *array)
{
    struct ot_str *topics = ot_arena_array(&call->arena, OT_MAX(json_array_size(array), (size_t)1), sizeof(*topics));
    size_t i;
    json_t *one;
    json_array_foreach(array, i, one) {
        char at[REST_POINTER_MAX];
        rest_pointer_index(at, "/topics", i);
        if (!json_is_string(one)) rest_fault_add(&call->faults, at, "must be the name of a topic");
        else if (topics != NULL) topics[i] = rest_json_string(one);
    }
    return topics;
}

static bool read_goal(struct rest_call *call, struct ot_str goal, enum broker_plan_goal *out)
{
    static const struct { const char *name; enum broker_plan_goal goal; } goals[] = { { "rebalance", BROKER_PLAN_BALANCE }, { "empty", BROKER_PLAN_EMPTY }, { "replication_factor", BROKER_PLAN_FACTOR } };
    for (size_t i = 0; i < OT_ARRAY_COUNT(goals); i++) {
        *out = goals[i].goal;
        if (ot_str_equal(goal, ot_str_of(goals[i].name))) return true;
    }
    rest_fault_add(&call->faults, "/goal", "is none of rebalance, empty, replication_factor");
    return false;
}

static void plan_refused(struct rest_call *call, enum ot_err err, int32_t id, const struct broker_plan_ask *ask)
{
    if (err == OT_ERR_BROKER_ID_NOT_REGISTERED) rest_problem_more(call, err, NULL, "GET /v1/brokers", "no broker has the id %d", id);
    else if (err == OT_ERR_UNKNOWN_TOPIC_OR_PARTITION) rest_problem_more(call, err, NULL, "GET /v1/topics", "there is no topic '%.*s'", (int)OT_MIN(ask->topics[id].bytes, 249u), ask->topics[id].data);
    else if (err == OT_ERR_INVALID_REPLICATION_FACTOR) rest_problem(call, err, "replication factor %d cannot be reached: %d broker%s may hold replicas", ask->factor, id, id == 1 ? "" : "s");
    else rest_problem(call, err, "%s", ot_err_text(err));
}

void rest_reassignment_plan(struct rest_call *call)
{
    json_t *body = rest_body_object(call, REST_VALUES_SMALL * 4), *brokers = NULL, *topics = NULL;
    struct planned *planned = ot_arena_alloc(&call->arena, sizeof(*planned));
    struct ot_str goal = { .null = true };
    int64_t factor = 0, most = MOVES_MAX;
    int32_t *empty = ot_arena_array(&call->arena, 1000, sizeof(*empty)), empty_count = 0, id = -1;
    struct broker_plan_ask ask = { 0 };
    if (body == NULL) return;
    const struct rest_member members[] = {
        { .name = "goal", .kind = REST_TEXT, .required = true, .out = &goal },
        { .name = "brokers", .kind = REST_ARRAY, .out = &brokers, .min = 1, .max = 1000 },
        { .name = "topics", .kind = REST_ARRAY, .out = &topics, .min = 1, .max = MOVES_MAX },
        { .name = "replication_factor", .kind = REST_INT, .out = &factor, .min = 1, .max = REPLICAS_MAX },
        { .name = "max_moves", .kind = REST_INT, .out = &most, .min = 1, .max = MOVES_MAX },
    };
    rest_members(body, "", members, OT_ARRAY_COUNT(members), &call->faults);
    if (call->faults.count == 0 && read_goal(call, goal, &ask.goal)) {
        if (ask.goal == BROKER_PLAN_EMPTY && brokers == NULL) rest_fault_add(&call->faults, "/brokers", "must name the brokers to empty");
        if (ask.goal == BROKER_PLAN_FACTOR && factor == 0) rest_fault_add(&call->faults, "/replication_factor", "must be there");
        if (ask.goal == BROKER_PLAN_FACTOR && topics == NULL) rest_fault_add(&call->faults, "/topics", "must name the topics that are meant");
    }
    if (planned != NULL && empty != NULL && call->faults.count == 0) {
        (void)read_ids(call, brokers, "/brokers", empty, 1000, &empty_count);
        ask.topics = read_topics(call, topics);
        ask.topic_count = (uint32_t)json_array_size(topics);
    }
    if (rest_faulty(call)) return;
    if (planned == NULL || empty == NULL || ask.topics == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        return;
    }
    ask.empty = empty;
    ask.empty_count = (uint32_t)empty_count;
    ask.factor = (int32_t)factor;
    ask.moves_max = (uint32_t)most;
    const struct broker_view *view = broker_view_take(call->broker);
    const enum ot_err err = broker_plan(view, &ask, &call->arena, &planned->plan, &id);
    broker_view_give(view);
    struct move *moves = err == OT_OK ? ot_arena_array(&call->arena, OT_MAX(planned->plan.move_count, 1u), sizeof(*moves)) : NULL;
    if (moves == NULL) {
        plan_refused(call, err == OT_OK ? OT_ERR_NO_MEMORY : err, id, &ask);
        return;
    }
    for (uint32_t i = 0; i < planned->plan.move_count; i++) {
        const struct broker_plan_move *from = &planned->plan.moves[i];
        moves[i] = (struct move){ from->topic, from->partition, from->from, from->to, from->from_count, from->to_count, -1 };
    }
    planned->sizing = (struct sizing){ .call = call, .moves = moves, .count = planned->plan.move_count, .then = plan_reply, .arg = planned };
    size_all(&planned->sizing);
}

/* ---- POST /v1/reassignments */

struct starting {
    struct sizing sizing;
    struct broker_move_throttle throttle;
    struct broker_moves asked;
    bool dry_run;
    int64_t throttle_bytes;                    /* 0: none */
};

static bool is_fault(const struct broker_move *move) { return move->error != OT_OK && move->error != OT_ERR_ELECTION_NOT_NEEDED; }

static const struct broker_move *asked_of(const struct starting *starting, const struct move *move)
{
    for (uint32_t i = 0; i < starting->asked.count; i++)
        if (starting->asked.moves[i].partition == move->partition && ot_str_equal(starting->asked.moves[i].topic, move->topic)) return &starting->asked.moves[i];
    return NULL;
}

static void start_reply(struct starting *starting)
{
    struct rest_call *call = starting->sizing.call;
    struct rest_json *out = &call->out;
    const struct sizing *sizing = &starting->sizing;
    uint32_t failed = 0;
    bool alike = true;
    for (uint32_t i = 0; i < starting->asked.count; i++) {
        failed += is_fault(&starting->asked.moves[i]);
        alike &= starting->asked.moves[i].error == starting->asked.moves[0].error;
    }
    if (failed > 0 && failed == starting->asked.count && alike) {
        const struct broker_move *move = &starting->asked.moves[0];
        rest_problem(call, move->error, "%.*s-%d: %s", (int)OT_MIN(move->topic.bytes, 100u), move->topic.data, move->partition, move->text[0] != 0 ? move->text : ot_err_text(move->error));
        return;
    }
    rest_json_open(out, NULL, '{');
    rest_json_bool(out, "dry_run", starting->dry_run);
    rest_json_big_or_null(out, "throttle_bytes_per_second", starting->throttle_bytes > 0 ? starting->throttle_bytes : -1);
    rest_json_open(out, "items", '[');
    for (uint32_t i = 0; i < sizing->count; i++) {
        rest_json_open(out, NULL, '{');
        write_move(out, &sizing->moves[i]);
        const struct broker_move *move = asked_of(starting, &sizing->moves[i]);
        rest_item_error(out, move != NULL && is_fault(move) ? move->error : OT_OK, move != NULL ? move->text : "");
        rest_json_close(out, '}');
    }
    rest_json_close(out, ']');
    write_total(out, sizing->moves, sizing->count);
    rest_json_close(out, '}');
    if (!starting->dry_run && failed == 0) rest_header(call, "Location", "/v1/reassignments");
    rest_reply_json(call, failed > 0 ? 207 : starting->dry_run ? 200 : 202);
}

static void started(struct broker_call *broker_call) { start_reply(OT_CONTAINER(broker_call, struct starting, asked.call)); }

static void start_moves(struct starting *starting)
{
    starting->asked.call.home = starting->sizing.call->home;
    starting->asked.call.done = started;
    starting->asked.timeout_ms = (int32_t)starting->sizing.call->timeout_ms;
    broker_moves(starting->sizing.call->broker, &starting->asked);
}

static void throttled(struct broker_call *broker_call)
{
    struct starting *starting = OT_CONTAINER(broker_call, struct starting, throttle.call);
    if (starting->throttle.error == OT_OK) start_moves(starting);
    else rest_problem(starting->sizing.call, starting->throttle.error, "the throttle could not be set, so nothing was started: %s", starting->throttle.text);
}

static void sized(struct sizing *sizing)
{
    struct starting *starting = sizing->arg;
    uint32_t good = 0;
    for (uint32_t i = 0; i < starting->asked.count; i++) good += starting->asked.moves[i].error == OT_OK;
    if (starting->dry_run || good == 0) {
        start_reply(starting);
        return;
    }
    if (starting->throttle_bytes == 0) {
        start_moves(starting);
        return;
    }
    starting->throttle = (struct broker_move_throttle){ .call = { .home = sizing->call->home, .done = throttled }, .bytes_per_second = starting->throttle_bytes, .moves = starting->asked.moves,
        .move_count = starting->asked.count, .timeout_ms = (int32_t)sizing->call->timeout_ms };
    broker_move_throttle_set(sizing->call->broker, &starting->throttle);
}

static bool read_move(struct rest_call *call, json_t *one, size_t index, struct broker_move *out)
{
    char pointer[REST_POINTER_MAX], replicas_at[REST_POINTER_MAX];
    struct ot_str topic = { .null = true };
    int64_t partition = -1, ignored;
    json_t *replicas = NULL, *nothing = NULL;
    int32_t *ids = ot_arena_array(&call->arena, REPLICAS_MAX, sizeof(*ids)), count = 0;
    const struct rest_member members[] = {
        { .name = "topic", .kind = REST_TEXT, .required = true, .out = &topic },
        { .name = "partition", .kind = REST_INT, .required = true, .out = &partition, .min = 0, .max = INT32_MAX },
        { .name = "replicas", .kind = REST_ARRAY, .required = true, .out = &replicas, .min = 1, .max = REPLICAS_MAX },
        { .name = "from", .kind = REST_ARRAY, .out = &nothing },               /* of a proposal that is sent back as it came */
        { .name = "adding", .kind = REST_ARRAY, .out = &nothing },
        { .name = "removing", .kind = REST_ARRAY, .out = &nothing },
        { .name = "bytes_to_move", .kind = REST_INT, .nullable = true, .out = &ignored, .min = 0, .max = INT64_MAX },
    };
    rest_pointer_index(pointer, "/moves", index);
    rest_pointer_join(replicas_at, pointer, "replicas", strlen("replicas"));
    if (!json_is_object(one)) {
        rest_fault_add(&call->faults, pointer, "must be an object");
        return false;
    }
    if (ids == NULL || !rest_members(one, pointer, members, OT_ARRAY_COUNT(members), &call->faults) || !read_ids(call, replicas, replicas_at, ids, REPLICAS_MAX, &count)) return false;
    *out = (struct broker_move){ .kind = BROKER_MOVE_REASSIGN, .topic = topic, .partition = (int32_t)partition, .target = ids, .count = count };
    return true;
}

/* What is there now, and may it go where it shall? */
static void judge(struct rest_call *call, const struct broker_view *view, bool dry_run, struct broker_move *asked, struct move *move)
{
    struct broker_view_topic topic;
    struct broker_view_partition row;
    bool same = false;
    *move = (struct move){ .topic = asked->topic, .partition = asked->partition, .to = asked->target, .to_count = asked->count, .size = -1 };
    asked->error = broker_reassign(view, asked->topic, asked->partition, asked->target, asked->count, true, &call->arena, &same, asked->text);
    if (asked->error == OT_OK && same && dry_run) asked->error = OT_ERR_ELECTION_NOT_NEEDED;       /* it is where it shall be; else the coordinator says so, this view may be behind */
    if (!broker_view_topic(view, asked->topic, &topic) || !broker_view_partition(view, &topic.id, asked->partition, &call->arena, &row)) return;
    move->from = row.replicas.ids;
    move->from_count = row.replicas.count;
    if (asked->error == OT_OK && row.adding.count + row.removing.count > 0 && !row.goes_back) {
        asked->error = OT_ERR_REASSIGNMENT_IN_PROGRESS;
        snprintf(asked->text, sizeof(asked->text), "the partition is being moved already: cancel that first");
    }
}

void rest_reassignments_start(struct rest_call *call)
{
    json_t *body = rest_body_object(call, REST_JSON_VALUES_MAX), *list = NULL, *one;
    struct starting *starting = ot_arena_alloc(&call->arena, sizeof(*starting));
    int64_t throttle = 0;
    bool dry_run = true;
    size_t i;
    if (body == NULL) return;
    const struct rest_member members[] = {
        { .name = "moves", .kind = REST_ARRAY, .required = true, .out = &list, .min = 1, .max = MOVES_MAX },
        { .name = "throttle_bytes_per_second", .kind = REST_INT, .nullable = true, .out = &throttle, .min = 1, .max = INT64_MAX },
        { .name = "dry_run", .kind = REST_BOOL, .required = true, .out = &dry_run },
    };
    rest_members(body, "", members, OT_ARRAY_COUNT(members), &call->faults);
    if (rest_faulty(call)) return;
    struct broker_move *asked = ot_arena_array(&call->arena, json_array_size(list), sizeof(*asked));
    struct move *moves = ot_arena_array(&call->arena, json_array_size(list), sizeof(*moves));
    if (starting == NULL || asked == NULL || moves == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        return;
    }
    uint32_t count = 0;
    json_array_foreach(list, i, one) count += read_move(call, one, i, &asked[count]);
    if (rest_faulty(call)) return;
    const struct broker_view *view = broker_view_take(call->broker);
    for (uint32_t k = 0; k < count; k++) judge(call, view, dry_run, &asked[k], &moves[k]);
    broker_view_give(view);
    *starting = (struct starting){ .sizing = { .call = call, .moves = moves, .count = count, .then = sized, .arg = starting }, .asked = { .moves = asked, .count = count },
        .dry_run = dry_run, .throttle_bytes = throttle };
    size_all(&starting->sizing);
}

/* ---- how fast it goes: what was copied when somebody asked first and now */

#define PROGRESS_KEPT_US INT64_C(600000000)

/* Its entry, or the one that was not asked for for longest. */
static struct rest_progress *progress_of(struct rest_server *server, const struct ot_uuid *id, int32_t partition)
{
    struct rest_progress *oldest = &server->progress[0];
    for (uint32_t i = 0; i < REST_PROGRESS; i++) {
        struct rest_progress *one = &server->progress[i];
        if (one->seen_us > 0 && one->partition == partition && ot_uuid_equal(&one->topic_id, id)) return one;
        if (one->seen_us < oldest->seen_us) oldest = one;
    }
    *oldest = (struct rest_progress){ .topic_id = *id, .partition = partition };
    return oldest;
}

/* -1: not known. */
static int64_t eta_ms_of(struct rest_server *server, const struct broker_view_topic *topic, int32_t partition, int64_t done, int64_t total, int64_t throttle)
{
    const int64_t now_us = ot_clock_boot_us();
    if (total < 0) return -1;
    struct rest_progress *seen = progress_of(server, &topic->id, partition);
    if (seen->seen_us == 0 || done < seen->done || now_us - seen->seen_us > PROGRESS_KEPT_US) {
        seen->at_us = now_us;
        seen->done = done;
    }
    seen->seen_us = now_us;
    const double copied = (double)(done - seen->done), took_us = (double)(now_us - seen->at_us), left = (double)(total - done);
    if (done >= total) return 0;
    if (copied > 0 && took_us > 0) return (int64_t)(left / copied * took_us / 1000.0);
    return throttle > 0 ? (int64_t)(left * 1000.0 / (double)throttle) : -1;
}

/* ---- GET /v1/reassignments */

static void write_running(struct rest_call *call, const struct broker_view *view, const struct broker_view_topic *topic, const struct broker_view_partition *row, const struct rest_rows *rows)
{
    struct rest_json *out = &call->out;
    int32_t from[REPLICAS_MAX], to[REPLICAS_MAX], from_count = 0, to_count = 0;
    int64_t done, total;
    for (int32_t i = 0; i < row->replicas.count && i < REPLICAS_MAX; i++) {
        const int32_t id = row->replicas.ids[i];
        if (!has(row->adding.ids, row->adding.count, id)) from[from_count++] = id;
        if (!has(row->removing.ids, row->removing.count, id)) to[to_count++] = id;
    }
    rest_move_copied(rows, topic, row, &done, &total);
    const int64_t throttle = broker_move_throttle_of(view), eta_ms = eta_ms_of(call->server, topic, row->index, done, total, throttle);
    rest_list_item(call);
    rest_json_open(out, NULL, '{');
    rest_json_str(out, "topic", topic->name);
    rest_json_int(out, "partition", row->index);
    write_ids(out, "from", from, from_count);
    write_ids(out, "to", to, to_count);
    rest_ids_write(out, "adding", row->adding);
    rest_ids_write(out, "removing", row->removing);
    rest_json_bool(out, "goes_back", row->goes_back);
    rest_ids_write(out, "isr", row->isr);
    rest_json_big_or_null(out, "copied_bytes", total < 0 ? -1 : done);
    rest_json_big_or_null(out, "total_bytes", total);
    rest_json_big_or_null(out, "throttle_bytes_per_second", throttle);
    rest_json_big_or_null(out, "eta_ms", eta_ms);
    rest_json_close(out, '}');
}

static void list_running(struct rest_call *call, const struct rest_gather *gather, const struct rest_rows *rows)
{
    struct broker_view_topic topic;
    struct broker_view_partition row;
    struct ot_arena arena;
    uint8_t room[8192];
    char last[300] = "";
    int64_t total = 0;
    bool more = false;
    const struct rest_place after_place = rest_place_of(call->list.after);
    ot_arena_init_with(&arena, room, sizeof(room), 256 << 10);
    const struct broker_view *view = broker_view_take(call->broker);
    for (struct ot_str after = { .null = true }; broker_view_next_topic(view, after, &topic); after = topic.name) {
        for (int32_t i = 0; i < topic.partition_count; i++) {
            ot_arena_reset(&arena);
            if (!broker_view_partition(view, &topic.id, i, &arena, &row) || row.adding.count + row.removing.count == 0) continue;
            total++;
            if (rest_place_passed(&after_place, topic.name, i)) continue;
            more |= call->list.count == call->list.limit;
            if (call->list.count == call->list.limit) continue;
            write_running(call, view, &topic, &row, rows);
            snprintf(last, sizeof(last), "%d:%.*s", i, (int)topic.name.bytes, topic.name.data);
        }
    }
    broker_view_give(view);
    ot_arena_free(&arena);
    rest_list_reply(call, 'm', more ? ot_str_of(last) : (struct ot_str){ .null = true }, total, gather == NULL ? NULL : rest_gather_extra(gather));
}

static void running_told(struct rest_gather *gather)
{
    struct rest_rows rows;
    const bool told = rest_rows_places(&rows, gather);
    list_running(gather->call, gather, told ? &rows : NULL);
    rest_rows_free(&rows);
}

void rest_reassignments_list(struct rest_call *call)
{
    if (!rest_list_begin(call, 'm', false)) return;
    if (rest_gather_wanted(call)) rest_gather(call, rest_place_target(call, "state=reassigning"), NULL, running_told);
    else list_running(call, NULL, NULL);
}

/* ---- DELETE /v1/reassignments/{topic}/{partition} */

struct cancelling { struct broker_moves moves; struct broker_move move; struct rest_call *call; };

static void write_cancelled(struct cancelling *cancelling)
{
    struct rest_call *call = cancelling->call;
    const struct broker_move *move = &cancelling->move;
    if (move->error != OT_OK) {
        rest_problem(call, move->error, "%s", move->text[0] != 0 ? move->text : ot_err_text(move->error));
        return;
    }
    rest_json_open(&call->out, NULL, '{');
    rest_json_str(&call->out, "topic", move->topic);
    rest_json_int(&call->out, "partition", move->partition);
    struct broker_view_topic topic;
    struct broker_view_partition row;
    const struct broker_view *view = broker_view_take(call->broker);
    if (broker_view_topic(view, move->topic, &topic) && broker_view_partition(view, &topic.id, move->partition, &call->arena, &row)) rest_ids_write(&call->out, "replicas", row.replicas);
    else rest_json_null(&call->out, "replicas");
    broker_view_give(view);
    rest_json_close(&call->out, '}');
    rest_reply_json(call, 202);
}

static void cancelled(struct broker_call *broker_call) { write_cancelled(OT_CONTAINER(broker_call, struct cancelling, moves.call)); }

void rest_reassignment_cancel(struct rest_call *call)
{
    struct cancelling *cancelling = ot_arena_alloc(&call->arena, sizeof(*cancelling));
    struct broker_view_topic topic;
    int32_t index = 0;
    bool same = false;
    const bool validate_only = rest_validate_only(call);
    if (rest_faulty(call)) return;
    const struct broker_view *view = broker_view_take(call->broker);
    const bool found = rest_partition_find(call, view, &topic, &index);
    const char *name = found ? ot_arena_str(&call->arena, topic.name) : NULL;
    if (found && name != NULL && cancelling != NULL) {
        *cancelling = (struct cancelling){ .call = call, .move = { .kind = BROKER_MOVE_REASSIGN, .topic = ot_str_of(name), .partition = index } };
        cancelling->move.error = broker_reassign(view, cancelling->move.topic, index, NULL, -1, true, &call->arena, &same, cancelling->move.text);
        if (cancelling->move.error == OT_OK && same && validate_only) cancelling->move.error = OT_ERR_NO_REASSIGNMENT_IN_PROGRESS;
        if (cancelling->move.error != OT_OK && cancelling->move.text[0] == 0) snprintf(cancelling->move.text, sizeof(cancelling->move.text), "%s-%d is not being moved", name, index);
    }
    broker_view_give(view);
    if (!found) return;
    if (name == NULL || cancelling == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
    } else if (validate_only || cancelling->move.error != OT_OK) {
        write_cancelled(cancelling);
    } else {
        cancelling->moves = (struct broker_moves){ .call = { .home = call->home, .done = cancelled }, .moves = &cancelling->move, .count = 1, .timeout_ms = (int32_t)call->timeout_ms };
        broker_moves(call->broker, &cancelling->moves);
    }
}
