/* OffsetFetch: one group up to v7, several from v8 on; topics by name up to v9, by id from v10 on; no topics: all that are committed. */
#include "rpc/kafka/request.h"

#include "base/wire/offset_fetch_request.h"
#include "base/wire/offset_fetch_response.h"

typedef struct ot_offset_fetch_request_offset_fetch_request_topics asked_topic;
typedef struct ot_offset_fetch_request_offset_fetch_request_group asked_group;
typedef struct ot_offset_fetch_response_offset_fetch_response_group group_row;
typedef struct ot_offset_fetch_response_offset_fetch_response_topics topic_row;
typedef struct ot_offset_fetch_response_offset_fetch_response_partitions partition_row;

struct fetch_own { const asked_group *groups; int32_t group_count; };

/* v1 to v7 in the shape of v8. */
static bool groups_of(struct rpc_request *request, const struct ot_offset_fetch_request *asked, struct fetch_own *own)
{
    if (request->header.version >= 8) {
        *own = (struct fetch_own){ asked->groups.items, asked->groups.count };
        return true;
    }
    asked_group *group = rpc_alloc(request, 1, sizeof *group);
    if (group == NULL) return false;
    *group = (asked_group){ .group_id = asked->group_id, .member_id.null = true, .member_epoch = -1, .topics.count = asked->topics.count };
    if (asked->topics.count > 0 && (group->topics.items = rpc_alloc(request, (size_t)asked->topics.count, sizeof *group->topics.items)) == NULL) return false;
    for (int32_t i = 0; i < asked->topics.count; i++) {
        const struct ot_offset_fetch_request_offset_fetch_request_topic *topic = &asked->topics.items[i];
        group->topics.items[i] = (asked_topic){ .name = topic->name, .partition_indexes = topic->partition_indexes };
    }
    *own = (struct fetch_own){ group, 1 };
    return true;
}

/* Name and id of what is asked. A name without a topic may still have commits. */
static enum ot_err topic_find(struct rpc_request *request, const struct broker_view *view, const asked_topic *asked, struct ot_str *name, struct ot_uuid *id)
{
    struct broker_view_topic topic;
    *name = asked->name;
    *id = (struct ot_uuid){ { 0 } };
    if (request->header.version < 10) {
        if (broker_view_topic(view, asked->name, &topic)) *id = topic.id;
        return OT_OK;
    }
    *id = asked->topic_id;
    if (!broker_view_topic_by_id(view, &asked->topic_id, &topic)) return OT_ERR_UNKNOWN_TOPIC_ID;
    const char *copy = ot_arena_str(&request->arena, topic.name);
    *name = ot_str_of(copy);
    return copy == NULL ? OT_ERR_UNKNOWN_SERVER_ERROR : OT_OK;
}

static bool parts_fill(struct rpc_request *request, const struct broker_view *view, const asked_group *group, struct group_ask *ask)
{
    size_t count = 0;
    ask->all = group->topics.count < 0;
    for (int32_t i = 0; i < group->topics.count; i++) count += (size_t)group->topics.items[i].partition_indexes.count;
    ask->parts = rpc_alloc(request, count, sizeof *ask->parts);
    if (ask->parts == NULL && count > 0) return false;
    for (int32_t i = 0; i < group->topics.count; i++) {
        const asked_topic *topic = &group->topics.items[i];
        struct ot_str name;
        struct ot_uuid id;
        const enum ot_err err = topic_find(request, view, topic, &name, &id);
        for (int32_t j = 0; j < topic->partition_indexes.count; j++)
            ask->parts[ask->part_count++] = (struct group_part){ .topic = name, .topic_id = id, .partition = topic->partition_indexes.items[j], .error = err, .offset = -1,
                .leader_epoch = -1, .metadata = ot_str_of("") };
    }
    return true;
}

/* ---- answers */

static partition_row partition_of(const struct group_part *part, enum ot_err whole)
{
    const enum ot_err err = whole != OT_OK ? whole : part->error;
    const bool told = err == OT_OK;
    return (partition_row){ .partition_index = part->partition, .committed_offset = told ? part->offset : -1, .committed_leader_epoch = told ? part->leader_epoch : -1,
        .metadata = told ? part->metadata : ot_str_of(""), .error_code = ot_err_kafka(err) };
}

static bool asked_rows(struct rpc_request *request, const asked_group *group, const struct group_ask *ask, enum ot_err whole, group_row *to)
{
    const struct group_part *part = ask->parts;
    to->topics.count = OT_MAX(group->topics.count, 0);
    to->topics.items = rpc_alloc(request, (size_t)to->topics.count, sizeof *to->topics.items);
    if (to->topics.items == NULL && to->topics.count > 0) return false;
    for (int32_t i = 0; i < to->topics.count; i++) {
        topic_row *topic = &to->topics.items[i];
        *topic = (topic_row){ .name = group->topics.items[i].name, .topic_id = group->topics.items[i].topic_id, .partitions.count = group->topics.items[i].partition_indexes.count };
        topic->partitions.items = rpc_alloc(request, (size_t)topic->partitions.count, sizeof *topic->partitions.items);
        if (topic->partitions.items == NULL && topic->partitions.count > 0) return false;
        for (int32_t j = 0; j < topic->partitions.count; j++) topic->partitions.items[j] = partition_of(part++, whole);
    }
    return true;
}

/* All that are committed: parts come topic by topic. v10 has ids: topics that are gone have none, and are left out. */
static bool all_rows(struct rpc_request *request, const struct broker_view *view, const struct group_ask *ask, group_row *to)
{
    to->topics.items = rpc_alloc(request, ask->part_count, sizeof *to->topics.items);
    partition_row *rows = rpc_alloc(request, ask->part_count, sizeof *rows);
    if (ask->part_count > 0 && (to->topics.items == NULL || rows == NULL)) return false;
    for (uint32_t i = 0, next; i < ask->part_count; i = next) {
        const struct ot_str name = ask->parts[i].topic;
        struct broker_view_topic known = { 0 };
        const bool there = broker_view_topic(view, name, &known);
        topic_row *topic = &to->topics.items[to->topics.count];
        *topic = (topic_row){ .name = name, .topic_id = known.id, .partitions.items = &rows[i] };
        for (next = i; next < ask->part_count && ot_str_equal(ask->parts[next].topic, name); next++) rows[next] = partition_of(&ask->parts[next], OT_OK);
        topic->partitions.count = (int32_t)(next - i);
        if (there || request->header.version < 10) to->topics.count++;
    }
    return true;
}

static bool group_rows(struct rpc_request *request, const struct broker_view *view, const asked_group *group, const struct broker_group_call *call, group_row *to)
{
    const enum ot_err whole = broker_group_error(call);
    if (request->error == OT_OK) request->error = whole;
    *to = (group_row){ .group_id = group->group_id, .error_code = ot_err_kafka(whole) };
    if (whole != OT_OK && request->header.version >= 8) return true;
    return call->ask.all ? whole != OT_OK || all_rows(request, view, &call->ask, to) : asked_rows(request, group, &call->ask, whole, to);
}

/* Back to the shape of v1 to v7. */
static bool old_rows(struct rpc_request *request, const group_row *from, struct ot_offset_fetch_response *to)
{
    to->error_code = from->error_code;
    to->topics.count = from->topics.count;
    to->topics.items = rpc_alloc(request, (size_t)from->topics.count, sizeof *to->topics.items);
    if (to->topics.items == NULL && from->topics.count > 0) return false;
    for (int32_t i = 0; i < from->topics.count; i++) {
        struct ot_offset_fetch_response_offset_fetch_response_topic *topic = &to->topics.items[i];
        *topic = (struct ot_offset_fetch_response_offset_fetch_response_topic){ .name = from->topics.items[i].name, .partitions.count = from->topics.items[i].partitions.count };
        topic->partitions.items = rpc_alloc(request, (size_t)topic->partitions.count, sizeof *topic->partitions.items);
        if (topic->partitions.items == NULL && topic->partitions.count > 0) return false;
        for (int32_t j = 0; j < topic->partitions.count; j++) {
            const partition_row *row = &from->topics.items[i].partitions.items[j];
            topic->partitions.items[j] = (struct ot_offset_fetch_response_offset_fetch_response_partition){ row->partition_index, row->committed_offset, row->committed_leader_epoch,
                row->metadata, row->error_code, { 0 } };
        }
    }
    return true;
}

static void offset_fetch_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct fetch_own *own = request->own;
    struct ot_offset_fetch_response response;
    ot_offset_fetch_response_defaults(&response);
    group_row *rows = rpc_alloc(request, (size_t)own->group_count, sizeof *rows);
    bool enough = rows != NULL || own->group_count == 0;
    const struct broker_view *view = broker_view_take(request->server->broker);
    for (int32_t i = 0; i < own->group_count && enough; i++) enough = group_rows(request, view, &own->groups[i], &request->call.groups.items[i], &rows[i]);
    if (enough && request->header.version < 8) {
        enough = old_rows(request, &rows[0], &response);
    } else if (enough) {
        response.groups.items = rows;
        response.groups.count = own->group_count;
    }
    if (enough) rpc_respond(request, &response);
    else rpc_reject(request, "no memory for its answer");
    broker_view_give(view);
}

RPC_HANDLER(offset_fetch)
{
    const struct ot_offset_fetch_request *asked = body;
    struct fetch_own *own = rpc_alloc(request, 1, sizeof *own);
    struct broker_group_calls *calls = &request->call.groups;
    request->arena.cap_bytes = RPC_ANSWER_ARENA_BYTES;
    request->own = own;
    bool enough = own != NULL && groups_of(request, asked, own);
    struct broker_group_call *items = enough ? rpc_alloc(request, (size_t)own->group_count, sizeof *items) : NULL;
    if (items == NULL && (!enough || own->group_count > 0)) {
        rpc_reject(request, "too much in one request");
        return;
    }
    const struct broker_view *view = broker_view_take(request->server->broker);
    for (int32_t i = 0; i < own->group_count && enough; i++) {
        const asked_group *group = &own->groups[i];
        enough = rpc_group_init(request, &items[i], GROUP_ASK_OFFSET_FETCH, group->group_id) && parts_fill(request, view, group, &items[i].ask);
        items[i].ask.require_stable = asked->require_stable;
        items[i].ask.generation = group->member_epoch;
        if (!group->member_id.null) items[i].ask.member_id = group->member_id;
    }
    broker_view_give(view);
    if (!enough) {
        rpc_reject(request, "too much in one request");
        return;
    }
    rpc_call_init(request, offset_fetch_done);
    calls->items = items;
    calls->count = (uint32_t)own->group_count;
    broker_group_all(request->server->broker, calls);
}
