/* Would it hurt if this broker stopped now? By the metadata: partitions that would have no leader, or too few in sync for acks=all; the coordinator's majority. */
#include "rest/handlers.h"
#include "rest/hop.h"
#include "rest/topic_view.h"
#include <stdio.h>

enum { SHOWN_MAX = 100 };

struct check {
    struct rest_call *call;
    const struct broker_view *view;
    int32_t id;
    int offline, under_min_isr, leaders, groups_led, transactions_led;
    int shown;
    int voters, voters_live; bool votes, alive, only_one;
};

static bool among(struct broker_view_ids ids, int32_t id)
{
    for (int32_t i = 0; i < ids.count; i++)
        if (ids.ids[i] == id) return true;
    return false;
}

static int live_others(const struct broker_view_partition *row, struct broker_view_ids ids, int32_t id)
{
    int count = 0;
    for (int32_t i = 0; i < ids.count; i++) count += ids.ids[i] != id && !among(row->offline, ids.ids[i]);
    return count;
}

static void show(struct check *check, const struct broker_view_topic *topic, const struct broker_view_partition *row, const char *effect)
{
    struct rest_json *out = &check->call->out;
    if (check->shown++ >= SHOWN_MAX) return;
    rest_json_open(out, NULL, '{');
    rest_json_str(out, "topic", topic->name);
    rest_json_int(out, "partition", row->index);
    rest_json_text(out, "effect", effect);
    rest_ids_write(out, "replicas", row->replicas);
    rest_ids_write(out, "isr", row->isr);
    rest_json_int(out, "min_insync_replicas", row->min_isr);
    rest_json_close(out, '}');
}

static void look(struct check *check, const struct broker_view_topic *topic, const struct broker_view_partition *row)
{
    if (row->leader == check->id) {
        check->leaders++;
        check->groups_led += ot_str_equal(topic->name, ot_str_of("__consumer_offsets"));
        check->transactions_led += ot_str_equal(topic->name, ot_str_of("__transaction_state"));
    }
    if (!among(row->isr, check->id)) return;                   /* it is missed already */
    if (row->leader >= 0 && live_others(row, row->isr, check->id) == 0) {
        check->offline++;
        show(check, topic, row, "offline");
    } else if (row->isr.count >= row->min_isr && row->isr.count - 1 < row->min_isr) {
        check->under_min_isr++;
        show(check, topic, row, "under_min_isr");
    }
}

static void walk(struct check *check)
{
    struct broker_view_topic topic;
    struct broker_view_partition row;
    struct ot_arena arena;
    uint8_t room[8192];
    ot_arena_init_with(&arena, room, sizeof(room), 256 << 10);
    for (struct ot_str after = { .null = true }; broker_view_next_topic(check->view, after, &topic); after = topic.name) {
        for (int32_t i = 0; i < topic.partition_count; i++) {
            ot_arena_reset(&arena);
            if (broker_view_partition(check->view, &topic.id, i, &arena, &row)) look(check, &topic, &row);
        }
    }
    ot_arena_free(&arena);
}

static void count_voters(struct check *check)
{
    struct broker_view_broker row;
    struct broker_view_voter voter;
    int brokers = 0;
    for (int32_t after = INT32_MIN; broker_view_next_broker(check->view, after, &check->call->arena, &row); after = row.id) {
        const bool live = !row.fenced && !row.stopping, votes = broker_view_voter(check->view, row.id, &voter);
        brokers++;
        check->voters += votes;
        check->voters_live += votes && live && row.id != check->id;
        check->votes |= votes && row.id == check->id;
        check->alive |= live && row.id == check->id;
    }
    check->only_one = brokers == 1;
}

static void reason(struct rest_json *out, int count, const char *one, const char *many)
{
    char text[120];
    if (count == 0) return;
    snprintf(text, sizeof(text), "%d %s", count, count == 1 ? one : many);
    rest_json_text(out, NULL, text);
}

static int64_t total_of(const struct rest_gather *gather, int32_t id)
{
    const json_t *total = gather == NULL ? NULL : json_object_get(rest_gathered_of(gather, id), "total");
    return json_is_integer(total) ? (int64_t)json_integer_value(total) : -1;
}

struct counts { int32_t id; int64_t groups, transactions; };

static void reply(struct rest_call *call, const struct counts *counts)
{
    struct rest_json *out = &call->out;
    struct check check = { .call = call, .id = counts->id, .view = broker_view_take(call->broker) };
    struct broker_view_cluster cluster;
    broker_view_cluster(check.view, &cluster);
    count_voters(&check);
    const bool blind = check.alive && cluster.controller_id < 0;               /* who died since the coordinator did lives on in this view */
    const bool majority_gone = check.votes && check.alive && !check.only_one && 2 * check.voters_live <= check.voters;
    rest_json_open(out, NULL, '{');
    rest_json_int(out, "broker", check.id);
    rest_json_open(out, "partitions", '[');
    if (check.alive) walk(&check);
    rest_json_close(out, ']');
    rest_hints_write(out, check.view);
    broker_view_give(check.view);
    rest_json_bool(out, "safe", check.offline + check.under_min_isr == 0 && !majority_gone && !blind);
    rest_json_open(out, "reasons", '[');
    reason(out, check.offline, "partition would have no leader", "partitions would have no leader");
    reason(out, check.under_min_isr, "partition would be under min.insync.replicas", "partitions would be under min.insync.replicas");
    if (majority_gone) rest_json_text(out, NULL, "the coordinator would have no majority of its voters");
    if (blind) rest_json_text(out, NULL, "there is no coordinator now, so what is known here may be old");
    rest_json_close(out, ']');
    rest_json_int(out, "would_be_offline", check.offline);
    rest_json_int(out, "would_be_under_min_isr", check.under_min_isr);
    rest_json_int(out, "leaders", check.leaders);
    rest_json_open(out, "coordinates", '{');
    rest_json_int(out, "group_partitions", check.groups_led);
    rest_json_int(out, "transaction_partitions", check.transactions_led);
    rest_json_big_or_null(out, "groups", counts->groups);
    rest_json_big_or_null(out, "transactions", counts->transactions);
    rest_json_close(out, '}');
    rest_json_close(out, '}');
    rest_reply_json(call, 200);
}

/* How many groups and transactional ids: its own lists tell. */
static void transactions_told(struct rest_gather *gather)
{
    struct counts *counts = gather->arg;
    counts->transactions = total_of(gather, counts->id);
    reply(gather->call, counts);
}

static void groups_told(struct rest_gather *gather)
{
    struct counts *counts = gather->arg;
    counts->groups = total_of(gather, counts->id);
    rest_gather_of(gather->call, "/v1/transactions?limit=1", &counts->id, 1, counts, transactions_told);
}

void rest_restart_check(struct rest_call *call)
{
    struct broker_view_broker row;
    struct counts *counts = ot_arena_alloc(&call->arena, sizeof(*counts));
    const struct broker_view *view = broker_view_take(call->broker);
    const bool found = rest_broker_find(call, view, &row);
    broker_view_give(view);
    if (!found) return;
    if (counts == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        return;
    }
    *counts = (struct counts){ row.id, -1, -1 };
    if (call->arrived) reply(call, counts);
    else rest_gather_of(call, "/v1/groups?limit=1", &counts->id, 1, counts, groups_told);
}
