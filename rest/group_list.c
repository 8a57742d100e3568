/* Lists of groups: all, or those of one topic; with=lag asks for each on the page how far it is behind. */
#include "rest/groups.h"
#include "rest/handlers.h"
#include "rest/merge.h"
#include "rest/topic_view.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct listing {
    struct rest_call *call;
    struct broker_group_calls calls;
    struct group_part topic;                   /* asked for: its name; null: all groups */
    int state, type;
    bool lag;
    const struct group_list_row **rows; uint32_t count, at, end;       /* at: the one that is being written */
    struct rest_group *group;                  /* asks for its lag */
};
static const char *const states[] = { "empty", "preparingrebalance", "completingrebalance", "stable", "dead", "assigning", "reconciling" };

static int by_group(const void *a, const void *b)
{
    const struct group_list_row *const *one = a, *const *two = b;
    const int bytes = memcmp((*one)->id.data, (*two)->id.data, OT_MIN((*one)->id.bytes, (*two)->id.bytes));
    return bytes != 0 ? bytes : ((*one)->id.bytes > (*two)->id.bytes) - ((*one)->id.bytes < (*two)->id.bytes);
}

static bool wants(const struct listing *listing, const struct group_list_row *row)
{
    const struct ot_str prefix = listing->call->list.prefix;
    if (listing->state >= 0 && strcasecmp(row->state, states[listing->state]) != 0) return false;
    if (listing->type >= 0 && (int)row->type != listing->type) return false;
    return prefix.bytes <= row->id.bytes && (prefix.bytes == 0 || memcmp(prefix.data, row->id.data, prefix.bytes) == 0);
}

/* ---- writing, one after the other */

static void write_open(struct listing *listing)
{
    struct rest_json *out = &listing->call->out;
    const struct group_list_row *row = listing->rows[listing->at];
    rest_list_item(listing->call);
    rest_json_open(out, NULL, '{');
    rest_json_str(out, "group", row->id);
    rest_json_text(out, "type", rest_group_types[row->type]);
    rest_json_text(out, "state", row->state);
    rest_json_str(out, "protocol_type", row->protocol_type);
    rest_json_int(out, "generation", row->generation);
    rest_json_int(out, "members", row->member_count);
    rest_json_int(out, "coordinator", broker_node_id(listing->call->broker));
    if (listing->topic.topic.null) return;
    rest_json_bool(out, "subscribed", row->subscribed);
    rest_json_bool(out, "committed", row->committed);
}

static void write_next(struct listing *listing);

static void lags_known(struct rest_group *group)
{
    struct listing *listing = group->own;
    write_open(listing);
    rest_group_lag_write(group);
    rest_json_close(&listing->call->out, '}');
    listing->at++;
    write_next(listing);
}

/* Of one topic, when it is about one. */
static void offsets_known(struct rest_group *group)
{
    const struct listing *listing = group->own;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < group->part_count; i++)
        if (listing->topic.topic.null || ot_str_equal(group->parts[i].topic, listing->topic.topic)) group->parts[kept++] = group->parts[i];
    rest_group_lags(group, 0, kept, lags_known);
}

static void write_next(struct listing *listing)
{
    struct rest_call *call = listing->call;
    if (listing->lag && listing->at < listing->end && !call->stopping) {
        rest_group_fetch(listing->group, listing->rows[listing->at]->id, offsets_known);
        return;
    }
    for (; listing->at < listing->end; listing->at++) {
        write_open(listing);
        rest_json_close(&call->out, '}');
    }
    const bool more = listing->end < listing->count && listing->end > 0;
    rest_list_reply(call, 'g', more ? listing->rows[listing->end - 1]->id : (struct ot_str){ .null = true }, listing->count, NULL);
}

static void write_page(struct listing *listing)
{
    struct rest_call *call = listing->call;
    const struct group_list_row wanted = { .id = call->list.after }, *key = &wanted;
    if (listing->count > 0) qsort(listing->rows, listing->count, sizeof *listing->rows, by_group);
    while (listing->at < listing->count && !call->list.after.null && by_group(&listing->rows[listing->at], &key) <= 0) listing->at++;
    listing->end = OT_MIN(listing->count, listing->at + call->list.limit);
    write_next(listing);
}

/* ---- asking */

static void listed(struct broker_call *broker_call)
{
    struct listing *listing = OT_CONTAINER(broker_call, struct listing, calls.call);
    uint32_t total = 0;
    for (uint32_t i = 0; i < listing->calls.count; i++) {
        const enum ot_err err = broker_group_error(&listing->calls.items[i]);
        if (err != OT_OK && err != OT_ERR_NOT_COORDINATOR) {
            rest_problem(listing->call, err, "%s", ot_err_text(err));
            return;
        }
        if (err == OT_OK) total += ((const struct group_list *)listing->calls.items[i].ask.response)->count;
    }
    listing->rows = ot_arena_array(&listing->call->arena, OT_MAX(total, 1u), sizeof(const struct group_list_row *));
    if (listing->rows == NULL) {
        rest_problem(listing->call, OT_ERR_NO_MEMORY, "no memory for the answer");
        return;
    }
    for (uint32_t i = 0; i < listing->calls.count; i++) {
        const struct group_list *list = listing->calls.items[i].ask.response;
        for (uint32_t k = 0; broker_group_error(&listing->calls.items[i]) == OT_OK && k < list->count; k++)
            if (wants(listing, &list->rows[k])) listing->rows[listing->count++] = &list->rows[k];
    }
    write_page(listing);
}

static void list(struct rest_call *call, struct ot_str topic)
{
    static const char *const extras[] = { "lag" };
    struct listing *listing = ot_arena_alloc(&call->arena, sizeof *listing);
    struct rest_group *group = listing == NULL ? NULL : ot_arena_alloc(&call->arena, sizeof *group);
    if (group == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        return;
    }
    group->call = call;
    group->own = listing;
    group->absent_is_fine = true;              /* it was deleted meanwhile */
    listing->call = call;
    listing->group = group;
    listing->topic.topic = topic;
    listing->state = topic.null ? rest_query_choice(call, "state", states, OT_ARRAY_COUNT(states), -1) : -1;
    listing->type = topic.null ? rest_query_choice(call, "type", rest_group_types, REST_GROUP_TYPES, -1) : -1;
    listing->lag = rest_query_choice(call, "with", extras, OT_ARRAY_COUNT(extras), -1) == 0;
    if (!rest_list_begin(call, 'g', false)) return;
    const enum ot_err err = broker_group_lists(call->broker, &call->arena, &listing->calls);
    listing->calls.call = (struct broker_call){ .home = call->home, .done = listed };
    for (uint32_t i = 0; i < listing->calls.count && !topic.null; i++) {
        listing->calls.items[i].ask.parts = &listing->topic;
        listing->calls.items[i].ask.part_count = 1;
    }
    if (err == OT_OK) broker_group_all(call->broker, &listing->calls);
    else if (err == OT_ERR_NOT_FOUND) write_page(listing);
    else rest_problem(call, err, "%s", ot_err_text(err));
}

static const struct rest_merging by_name = { .kind = 'g', .keys = { "group" }, .token = "0" };

void rest_groups_list(struct rest_call *call)
{
    if (!rest_merge_list(call, &by_name)) list(call, (struct ot_str){ .null = true });
}

void rest_topic_groups(struct rest_call *call)
{
    struct broker_view_topic topic;
    const struct broker_view *view = broker_view_take(call->broker);
    const bool found = rest_topic_find(call, view, &topic);
    broker_view_give(view);
    if (found && !rest_merge_list(call, &by_name)) list(call, rest_param(call, 0));
}
