/* Reading topics. */
#include "rest/handlers.h"
#include "rest/rows.h"
#include "rest/topic_view.h"
#include <stdlib.h>
#include <string.h>

static bool has_prefix(struct ot_str name, struct ot_str prefix)
{
    return prefix.null || (name.bytes >= prefix.bytes && (prefix.bytes == 0 || memcmp(name.data, prefix.data, prefix.bytes) == 0));
}

static int compare(struct ot_str a, struct ot_str b)
{
    const int order = a.bytes == 0 || b.bytes == 0 ? 0 : memcmp(a.data, b.data, OT_MIN(a.bytes, b.bytes));
    return order != 0 ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

enum { SORT_TOPIC, SORT_SIZE, SORT_PARTITIONS, SORT_CREATED };
static const char *const sort_names[] = { "topic", "size_bytes", "partitions", "created_at", "-topic", "-size_bytes", "-partitions", "-created_at" };
enum { STATE_OFFLINE, STATE_UNDER_MIN_ISR, STATE_UNDER_REPLICATED, STATE_ONLINE };
static const char *const state_names[] = { "offline", "under_min_isr", "under_replicated", "online" };

struct entry { struct broker_view_topic topic; int64_t key; };
struct listing {
    struct rest_call *call;
    const struct broker_view *view;
    int sort, state;                           /* -1: any */
    bool descending, only_internal, no_internal, sizes, rates;
    const struct rest_rows *rows;              /* what all brokers told of sizes and rates; NULL: this one is asked alone */
    const char *extra;
    struct entry *entries; uint32_t count, cap;
};

static bool wanted(struct listing *listing, const struct broker_view_topic *topic)
{
    if ((listing->only_internal && !topic->internal) || (listing->no_internal && topic->internal)) return false;
    if (listing->state < 0) return true;
    struct rest_topic_sum sum;
    rest_topic_sum(listing->call, listing->view, topic, false, &sum);
    return strcmp(rest_topic_state_name(&sum), state_names[listing->state]) == 0;
}

static void sum_of(const struct listing *listing, const struct broker_view_topic *topic, bool sizes, struct rest_topic_sum *out)
{
    rest_topic_sum(listing->call, listing->view, topic, sizes && listing->rows == NULL, out);
    if (listing->rows != NULL) rest_topic_share_take(out, rest_rows_topic(listing->rows, topic->name));
}

static int64_t key_of(struct listing *listing, const struct broker_view_topic *topic)
{
    struct rest_topic_sum sum;
    if (listing->sort == SORT_PARTITIONS) return topic->partition_count;
    if (listing->sort == SORT_CREATED) return topic->created_ms;
    if (listing->sort != SORT_SIZE) return 0;
    sum_of(listing, topic, true, &sum);
    return sum.size_bytes;
}

/* All topics that are asked for, by name. False: no memory. */
static bool collect(struct listing *listing)
{
    struct broker_view_topic topic;
    struct ot_str after = { .null = true };
    while (broker_view_next_topic(listing->view, after, &topic)) {
        after = topic.name;
        if (!has_prefix(topic.name, listing->call->list.prefix) || !wanted(listing, &topic)) continue;
        if (listing->count == listing->cap) {
            const uint32_t cap = OT_MAX(listing->cap * 2, 256u);
            struct entry *grown = realloc(listing->entries, cap * sizeof(*grown));
            if (grown == NULL) return false;
            listing->entries = grown;
            listing->cap = cap;
        }
        listing->entries[listing->count++] = (struct entry){ topic, key_of(listing, &topic) };
    }
    return true;
}

static int by_key(const void *a, const void *b, void *arg)
{
    const struct entry *one = a, *two = b;
    const int order = one->key != two->key ? (one->key > two->key) - (one->key < two->key) : compare(one->topic.name, two->topic.name);
    return ((const struct listing *)arg)->descending ? -order : order;
}

/* Where a page begins: behind (key, name) of the token "key:name", wherever that now would be. */
static uint32_t first_of_page(struct listing *listing)
{
    const struct ot_str after = listing->call->list.after;
    struct entry last = { 0 };
    uint32_t skip = 0;
    if (after.null) return 0;
    const char *colon = memchr(after.data, ':', after.bytes);
    if (colon == NULL) return 0;
    char number[24] = "";
    if (colon - after.data < (long)sizeof(number)) memcpy(number, after.data, (size_t)(colon - after.data));
    last.key = strtoll(number, NULL, 10);
    last.topic.name = (struct ot_str){ colon + 1, (uint32_t)(after.bytes - (uint32_t)(colon + 1 - after.data)), false };
    while (skip < listing->count && by_key(&listing->entries[skip], &last, listing) <= 0) skip++;
    return skip;
}

static void write_page(struct listing *listing)
{
    struct rest_call *call = listing->call;
    const uint32_t first = first_of_page(listing), end = OT_MIN(listing->count, first + call->list.limit);
    struct rest_topic_sum sum;
    for (uint32_t i = first; i < end; i++) {
        sum_of(listing, &listing->entries[i].topic, listing->sizes, &sum);
        if (!listing->sizes) sum.size_bytes = sum.records_estimate = -1;
        call->no_rates = !listing->rates;
        rest_list_item(call);
        rest_topic_write(call, NULL, listing->view, &listing->entries[i].topic, &sum, false);
    }
    struct ot_str next = { .null = true };
    char token[24 + 256];
    if (end < listing->count && end > first) {
        const struct entry *last = &listing->entries[end - 1];
        const int bytes = snprintf(token, sizeof(token), "%lld:%.*s", (long long)last->key, (int)last->topic.name.bytes, last->topic.name.data);
        next = (struct ot_str){ token, (uint32_t)bytes, false };
    }
    const int64_t total = listing->count;
    free(listing->entries);
    broker_view_give(listing->view);
    rest_list_reply(call, 't', next, total, listing->extra);
}

static void run(struct listing *listing)
{
    struct rest_call *call = listing->call;
    listing->view = broker_view_take(call->broker);
    if (!collect(listing)) {
        free(listing->entries);
        broker_view_give(listing->view);
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the list");
        return;
    }
    if (listing->count > 0) qsort_r(listing->entries, listing->count, sizeof(listing->entries[0]), by_key, listing);
    write_page(listing);
}

static void shares_known(struct rest_gather *all)
{
    struct listing *listing = all->arg;
    struct rest_rows rows;
    if (rest_rows_topics(&rows, all)) {
        listing->rows = &rows;
        listing->extra = rest_gather_extra(all);
        run(listing);
    } else {
        rest_problem(all->call, OT_ERR_NO_MEMORY, "no memory for the list");
    }
    rest_rows_free(&rows);
}

#define SHARES "fields=topic,size_bytes,records_estimate,bytes_in_per_second,bytes_out_per_second"

void rest_topics_list(struct rest_call *call)
{
    struct listing *listing = ot_arena_alloc(&call->arena, sizeof(*listing));
    if (listing == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the list");
        return;
    }
    listing->call = call;
    const int sort = rest_query_choice(call, "sort", sort_names, OT_ARRAY_COUNT(sort_names), SORT_TOPIC);
    static const char *const withs[] = { "size", "rates", "size,rates", "rates,size", "" };
    const int with = rest_query_choice(call, "with", withs, OT_ARRAY_COUNT(withs), 2);     /* what costs a look at every partition */
    listing->sizes = with == 0 || with == 2 || with == 3;
    listing->rates = with >= 1 && with <= 3;
    listing->sort = sort % 4;
    listing->descending = sort >= 4;
    listing->state = rest_query_choice(call, "state", state_names, OT_ARRAY_COUNT(state_names), -1);
    const bool internal_asked = rest_query(call, "internal") != NULL, by_size = listing->sort == SORT_SIZE;
    listing->only_internal = rest_query_flag(call, "internal");
    listing->no_internal = internal_asked && !listing->only_internal;
    if (!rest_list_begin(call, 't', false)) return;
    if ((!listing->sizes && !listing->rates && !by_size) || !rest_gather_wanted(call)) run(listing);
    else if (by_size) rest_gather(call, rest_gather_target(call, REST_GATHER_SHAPE ",sort,limit,page_token,with", "with=size,rates&limit=100000&" SHARES), listing, shares_known);
    else rest_gather(call, rest_gather_target(call, REST_GATHER_SHAPE, SHARES), listing, shares_known);      /* the same page everywhere */
}

/* Taken is given back here; rows as in the listing. */
static void write_topic(struct rest_call *call, const struct broker_view *view, const struct broker_view_topic *topic, const struct rest_gather *all, const struct rest_rows *rows)
{
    struct rest_topic_sum sum;
    rest_topic_sum(call, view, topic, rows == NULL, &sum);
    if (rows != NULL) rest_topic_share_take(&sum, rest_rows_topic(rows, topic->name));
    rest_topic_write(call, NULL, view, topic, &sum, true);
    broker_view_give(view);
    if (all != NULL) rest_gather_mend(all);
    rest_reply_json(call, 200);
}

/* The topic of the path, by name or id. False: answered; the view is given back. */
static bool find(struct rest_call *call, const struct broker_view *view, struct broker_view_topic *topic)
{
    struct ot_uuid id;
    const struct ot_str text = rest_param(call, 0);
    if (strcmp(call->route->operation, "getTopicById") != 0) {
        if (rest_topic_find(call, view, topic)) return true;
    } else {
        if (ot_uuid_parse(text.data, text.bytes, &id) && broker_view_topic_by_id(view, &id, topic)) return true;
        rest_problem(call, OT_ERR_UNKNOWN_TOPIC_ID, "no topic has this id");
    }
    broker_view_give(view);
    return false;
}

static void share_known(struct rest_gather *all)
{
    struct rest_call *call = all->call;
    struct broker_view_topic topic;
    struct rest_rows rows;
    const struct broker_view *view = broker_view_take(call->broker);
    const bool good = rest_rows_topics(&rows, all);
    if (find(call, view, &topic)) write_topic(call, view, &topic, all, good ? &rows : NULL);
    rest_rows_free(&rows);
}

static void get(struct rest_call *call)
{
    struct broker_view_topic topic;
    const struct broker_view *view = broker_view_take(call->broker);
    if (!find(call, view, &topic)) return;
    if (rest_not_modified(call, topic.version)) {
        broker_view_give(view);
    } else if (rest_gather_wanted(call)) {
        broker_view_give(view);
        rest_gather(call, rest_gather_target(call, REST_GATHER_SHAPE, NULL), NULL, share_known);
    } else {
        write_topic(call, view, &topic, NULL, NULL);
    }
}

void rest_topic_get(struct rest_call *call) { get(call); }
void rest_topic_get_by_id(struct rest_call *call) { get(call); }
