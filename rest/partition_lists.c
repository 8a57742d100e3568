/* Partitions and replicas across topics: by state, by broker, one row a replica; and the producers that write to them. */
#include "rest/handlers.h"
#include "rest/merge.h"
#include "rest/rows.h"
#include "rest/topic_view.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_id(struct broker_view_ids ids, int32_t id)
{
    for (int32_t i = 0; i < ids.count; i++)
        if (ids.ids[i] == id) return true;
    return false;
}

/* ---- a walk over partitions in the order of (topic, partition), from where the page before ended */

struct walk {
    struct rest_call *call;
    const struct broker_view *view;
    struct ot_str only_topic;                  /* null: all */
    int32_t broker;                            /* -1: any; else with a replica there */
    uint32_t flags;                            /* 0: any; else one of these */
    bool at_reassigning, more;
    struct rest_place after;
    char last[300];                            /* key of the last row of the page */
    int64_t total;
    void (*write)(struct walk *walk, const struct broker_view_topic *topic, const struct broker_view_partition *row);
};

static int compare(struct ot_str a, struct ot_str b)
{
    const int order = a.bytes == 0 || b.bytes == 0 ? 0 : memcmp(a.data, b.data, OT_MIN(a.bytes, b.bytes));
    return order != 0 ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

struct rest_place rest_place_of(struct ot_str key)
{
    struct rest_place out = { .topic = { .null = true } };
    const char *colon = key.null ? NULL : memchr(key.data, ':', key.bytes);
    char digits[16] = "";
    if (colon == NULL || (size_t)(colon - key.data) >= sizeof(digits)) return out;
    memcpy(digits, key.data, (size_t)(colon - key.data));
    out.partition = (int32_t)strtol(digits, NULL, 10);
    out.topic = (struct ot_str){ colon + 1, key.bytes - (uint32_t)(colon + 1 - key.data), false };
    return out;
}

bool rest_place_passed(const struct rest_place *after, struct ot_str topic, int32_t partition)
{
    if (after->topic.null) return false;
    const int order = compare(topic, after->topic);
    return order < 0 || (order == 0 && partition <= after->partition);
}

const char *rest_place_target(struct rest_call *call, const char *which)
{
    const char *token = call->list.after.null ? NULL : rest_list_token(call, 'P', call->list.after);
    const size_t bytes = strlen(which) + (token == NULL ? 0 : strlen(token)) + 80;
    char *target = token == NULL && !call->list.after.null ? NULL : ot_arena_alloc(&call->arena, bytes);
    if (target != NULL) snprintf(target, bytes, "/v1/partitions?%s&limit=%u%s%s", which, call->list.limit, token == NULL ? "" : "&page_token=", token == NULL ? "" : token);
    return target;
}

static bool wanted(const struct walk *walk, const struct broker_view_partition *row)
{
    if (walk->broker >= 0 && !has_id(row->replicas, walk->broker)) return false;
    if (walk->at_reassigning) return row->adding.count + row->removing.count > 0;
    return walk->flags == 0 || (rest_partition_flags(row) & walk->flags) != 0;
}

static void walk_topic(struct walk *walk, const struct broker_view_topic *topic, struct ot_arena *arena)
{
    struct rest_call *call = walk->call;
    for (int32_t i = 0; i < topic->partition_count; i++) {
        struct broker_view_partition row;
        ot_arena_reset(arena);
        if (!broker_view_partition(walk->view, &topic->id, i, arena, &row) || !wanted(walk, &row)) continue;
        walk->total++;
        if (rest_place_passed(&walk->after, topic->name, i)) continue;
        if (call->list.count == call->list.limit) {
            walk->more = true;
            continue;
        }
        rest_list_item(call);
        walk->write(walk, topic, &row);
        snprintf(walk->last, sizeof(walk->last), "%d:%.*s", i, (int)topic->name.bytes, topic->name.data);
    }
}

static void walk_all(struct walk *walk)
{
    struct broker_view_topic topic;
    struct ot_arena arena;
    uint8_t room[8192];
    ot_arena_init_with(&arena, room, sizeof(room), 256 << 10);
    walk->after = rest_place_of(walk->call->list.after);
    for (struct ot_str after = { .null = true }; broker_view_next_topic(walk->view, after, &topic); after = topic.name)
        if (walk->only_topic.null || ot_str_equal(topic.name, walk->only_topic)) walk_topic(walk, &topic, &arena);
    ot_arena_free(&arena);
}

static void reply(struct walk *walk, char kind, const char *extra)
{
    rest_list_reply(walk->call, kind, walk->more ? ot_str_of(walk->last) : (struct ot_str){ .null = true }, walk->total, extra);
}

/* ---- GET /v1/partitions */

static void write_partition(struct walk *walk, const struct broker_view_topic *topic, const struct broker_view_partition *row)
{
    rest_partition_write(walk->call, walk->view, topic, row);
}

static void all_partitions(struct rest_call *call, const char *extra)
{
    static const char *const states[] = { "offline", "under_replicated", "under_min_isr", "at_min_isr", "not_preferred", "reassigning" };
    static const uint32_t flags[] = { REST_PART_OFFLINE, REST_PART_UNDER_REPLICATED, REST_PART_UNDER_MIN_ISR, REST_PART_AT_MIN_ISR, REST_PART_NOT_PREFERRED, 0 };
    struct walk walk = { .call = call, .write = write_partition, .only_topic = rest_query_text(call, "topic") };
    const int state = rest_query_choice(call, "state", states, OT_ARRAY_COUNT(states), -1);
    walk.broker = (int32_t)rest_query_int(call, "broker", 0, INT32_MAX, -1);
    if (!rest_list_begin(call, 'P', false)) return;
    walk.flags = state < 0 ? 0 : flags[state];
    walk.at_reassigning = state >= 0 && flags[state] == 0;
    walk.view = broker_view_take(call->broker);
    walk_all(&walk);
    broker_view_give(walk.view);
    reply(&walk, 'P', extra);
}

static void all_told(struct rest_gather *all)
{
    struct rest_rows rows;
    if (rest_rows_places(&rows, all)) all->call->rows = &rows;
    all_partitions(all->call, rest_gather_extra(all));
    rest_rows_free(&rows);
}

void rest_all_partitions(struct rest_call *call)
{
    if (rest_gather_wanted(call)) rest_gather(call, rest_gather_target(call, REST_GATHER_SHAPE, NULL), NULL, all_told);
    else all_partitions(call, NULL);
}

/* ---- GET /v1/brokers/{broker}/partitions */

static void write_hosted(struct walk *walk, const struct broker_view_topic *topic, const struct broker_view_partition *row)
{
    rest_replica_write(walk->call, topic, row, walk->broker);
}

static void hosted(struct rest_call *call, const struct rest_gather *all)
{
    struct broker_view_broker row;
    struct walk walk = { .call = call, .write = write_hosted, .only_topic = rest_query_text(call, "topic") };
    walk.view = broker_view_take(call->broker);
    const bool found = rest_broker_find(call, walk.view, &row);
    walk.broker = found ? row.id : -1;
    if (found) walk_all(&walk);
    broker_view_give(walk.view);
    char missing[64];
    const char *extra = all == NULL ? NULL : rest_gather_extra(all);
    const bool told = walk.broker == broker_node_id(call->broker) || (all != NULL && rest_gathered_of(all, walk.broker) != NULL);
    if (!told && extra == NULL) {              /* it is away: what the metadata and the leaders tell */
        snprintf(missing, sizeof(missing), "\"partial\":true,\"missing_brokers\":[%d]", walk.broker);
        extra = missing;
    }
    if (found) reply(&walk, 'B', extra);
}

static void hosted_told(struct rest_gather *all)
{
    struct rest_rows rows;
    if (rest_rows_places(&rows, all)) all->call->rows = &rows;
    hosted(all->call, all);
    rest_rows_free(&rows);
}

/* The same partitions as every broker has them: how far a replica is behind is the leader's to say. NULL: no memory. */
static const char *hosted_target(struct rest_call *call, int32_t broker)
{
    const struct ot_str topic = rest_query_text(call, "topic");
    const char *only = topic.null ? "" : rest_percent_encode(&call->arena, topic);
    const size_t bytes = only == NULL ? 0 : strlen(only) + 40;
    char *which = only == NULL ? NULL : ot_arena_alloc(&call->arena, bytes);
    if (which != NULL) snprintf(which, bytes, "broker=%d%s%s", broker, topic.null ? "" : "&topic=", only);
    return which == NULL ? NULL : rest_place_target(call, which);
}

void rest_broker_partitions(struct rest_call *call)
{
    int64_t id = 0;
    if (!rest_list_begin(call, 'B', false) || !rest_param_int(call, 0, "broker", 0, INT32_MAX, &id)) return;
    if (rest_gather_wanted(call)) rest_gather(call, hosted_target(call, (int32_t)id), NULL, hosted_told);
    else hosted(call, NULL);
}

/* ---- …/partitions/{partition}/replicas */

static bool find_row(struct rest_call *call, const struct broker_view *view, struct broker_view_topic *topic, struct broker_view_partition *row)
{
    int32_t index = 0;
    if (!rest_partition_find(call, view, topic, &index)) return false;
    if (broker_view_partition(view, &topic->id, index, &call->arena, row)) return true;
    rest_problem(call, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition");
    return false;
}

static void replicas(struct rest_call *call, const char *extra)
{
    struct broker_view_topic topic;
    struct broker_view_partition row;
    const struct broker_view *view = broker_view_take(call->broker);
    if (!find_row(call, view, &topic, &row)) {
        broker_view_give(view);
        return;
    }
    /* by place in the assignment, whose order says who is preferred */
    const int32_t count = row.replicas.count, first = call->list.after_int < 0 ? 0 : (int32_t)OT_MIN(call->list.after_int + 1, (int64_t)count);
    const int32_t end = (int32_t)OT_MIN((int64_t)count, (int64_t)first + call->list.limit);
    for (int32_t i = first; i < end; i++) {
        rest_list_item(call);
        rest_replica_write(call, &topic, &row, row.replicas.ids[i]);
    }
    broker_view_give(view);
    rest_list_reply_int(call, 'r', end < count, end - 1, count, extra);
}

static void replicas_told(struct rest_gather *all)
{
    struct rest_rows rows;
    if (rest_rows_places(&rows, all)) all->call->rows = &rows;
    replicas(all->call, rest_gather_extra(all));
    rest_rows_free(&rows);
}

/* The partition as every broker has it: how far a replica is behind is the leader's to say. NULL: no memory. */
static const char *partition_target(struct rest_call *call)
{
    const char *stop = strstr(call->target, "/replicas");
    return ot_arena_str(&call->arena, (struct ot_str){ call->target, stop == NULL ? (uint32_t)strlen(call->target) : (uint32_t)(stop - call->target), false });
}

void rest_replicas_list(struct rest_call *call)
{
    if (!rest_list_begin(call, 'r', true)) return;
    if (rest_gather_wanted(call)) rest_gather(call, partition_target(call), NULL, replicas_told);
    else replicas(call, NULL);
}

static void replica(struct rest_call *call, const struct rest_gather *all)
{
    struct broker_view_topic topic;
    struct broker_view_partition row;
    int64_t id = 0;
    if (!rest_param_int(call, 2, "broker", 0, INT32_MAX, &id)) return;
    const struct broker_view *view = broker_view_take(call->broker);
    const bool found = find_row(call, view, &topic, &row), holds = found && has_id(row.replicas, (int32_t)id);
    if (holds) rest_replica_write(call, &topic, &row, (int32_t)id);
    broker_view_give(view);
    if (holds && all != NULL) rest_gather_mend(all);
    if (holds) rest_reply_json(call, 200);
    else if (found) rest_problem(call, OT_ERR_RESOURCE_NOT_FOUND, "broker %lld holds no replica of the partition", (long long)id);
}

static void replica_told(struct rest_gather *all)
{
    struct rest_rows rows;
    if (rest_rows_places(&rows, all)) all->call->rows = &rows;
    replica(all->call, all);
    rest_rows_free(&rows);
}

void rest_replica_get(struct rest_call *call)
{
    if (rest_gather_wanted(call)) rest_gather(call, partition_target(call), NULL, replica_told);
    else replica(call, NULL);
}

/* ---- GET /v1/producers: one row a producer and partition */

enum { PRODUCERS_OF_ONE_MAX = 20000, PRODUCERS_MAX = 100000 };
struct producer_row { const char *topic; int32_t partition; struct eng_producer_view view; };
struct producers { struct rest_call *call; struct ot_str only_topic; struct producer_row *rows; uint32_t count, cap; bool cut; struct eng_producer_view *scratch; };

static bool grow(struct producers *list)
{
    if (list->count < list->cap) return true;
    const uint32_t cap = OT_MIN(OT_MAX(list->cap * 2, 256u), (uint32_t)PRODUCERS_MAX);
    struct producer_row *grown = cap == list->cap ? NULL : realloc(list->rows, cap * sizeof(*grown));
    if (grown == NULL) {
        list->cut = true;
        return false;
    }
    list->rows = grown;
    list->cap = cap;
    return true;
}

static void gather_producers(void *arg, struct broker_partition *partition)
{
    struct producers *list = arg;
    struct broker_partition_state state;
    broker_partition_state(partition, &state);
    if (!state.open || !state.leader || state.producer_count == 0) return;      /* followers keep the same */
    if (!list->only_topic.null && !ot_str_equal(list->only_topic, ot_str_of(state.topic))) return;
    const char *topic = ot_arena_str(&list->call->arena, ot_str_of(state.topic));
    const uint32_t count = OT_MIN(broker_partition_producers(partition, list->scratch, PRODUCERS_OF_ONE_MAX), (uint32_t)PRODUCERS_OF_ONE_MAX);
    for (uint32_t i = 0; topic != NULL && i < count && grow(list); i++)
        list->rows[list->count++] = (struct producer_row){ topic, state.partition, list->scratch[i] };
}

static int by_producer(const void *a, const void *b)
{
    const struct producer_row *one = a, *two = b;
    if (one->view.producer_id != two->view.producer_id) return one->view.producer_id > two->view.producer_id ? 1 : -1;
    const int order = strcmp(one->topic, two->topic);
    return order != 0 ? order : (one->partition > two->partition) - (one->partition < two->partition);
}

static void write_producer(struct rest_call *call, const struct producer_row *row)
{
    struct rest_json *out = &call->out;
    rest_list_item(call);
    rest_json_open(out, NULL, '{');
    rest_json_text(out, "topic", row->topic);
    rest_json_int(out, "partition", row->partition);
    rest_producer_members(out, &row->view);
    rest_json_close(out, '}');
}

/* A token's key is "producer:partition:topic". */
static uint32_t first_of_page(const struct producers *list)
{
    const struct ot_str after = list->call->list.after;
    char text[320];
    struct producer_row last = { 0 };
    uint32_t first = 0;
    if (after.null || after.bytes >= sizeof(text)) return 0;
    memcpy(text, after.data, after.bytes);
    text[after.bytes] = 0;
    char *end = text;
    last.view.producer_id = strtoll(text, &end, 10);
    last.partition = *end == ':' ? (int32_t)strtol(end + 1, &end, 10) : 0;
    last.topic = *end == ':' ? end + 1 : "";
    while (first < list->count && by_producer(&list->rows[first], &last) <= 0) first++;
    return first;
}

void rest_producers_list(struct rest_call *call)
{
    static const struct rest_merging by_id = { .kind = 'w', .keys = { "#producer_id", "topic", "#partition" }, .token = "0:2:1", .repeats = false };
    struct producers list = { .call = call, .only_topic = rest_query_text(call, "topic") };
    char token[320];
    if (rest_merge_list(call, &by_id)) return;
    if (!rest_list_begin(call, 'w', false)) return;
    list.scratch = malloc(PRODUCERS_OF_ONE_MAX * sizeof(*list.scratch));
    if (list.scratch == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the list");
        return;
    }
    broker_partitions_each(call->broker, gather_producers, &list);
    if (list.count > 0) qsort(list.rows, list.count, sizeof(*list.rows), by_producer);
    const uint32_t first = first_of_page(&list), end = OT_MIN(list.count, first + call->list.limit);
    for (uint32_t i = first; i < end; i++) write_producer(call, &list.rows[i]);
    struct ot_str next = { .null = true };
    if (end < list.count && end > first) {
        const struct producer_row *last = &list.rows[end - 1];
        snprintf(token, sizeof(token), "%lld:%d:%s", (long long)last->view.producer_id, last->partition, last->topic);
        next = ot_str_of(token);
    }
    free(list.scratch);
    free(list.rows);
    rest_list_reply(call, 'w', next, list.cut ? -1 : (int64_t)list.count, NULL);
}
