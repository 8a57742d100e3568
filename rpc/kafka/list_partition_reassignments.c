/* ListPartitionReassignments: partitions whose replicas are being moved. */
#include "rpc/kafka/request.h"

#include "base/wire/list_partition_reassignments_request.h"
#include "base/wire/list_partition_reassignments_response.h"

#include <string.h>

typedef struct ot_list_partition_reassignments_response_ongoing_partition_reassignment partition_row;
typedef struct ot_list_partition_reassignments_response_ongoing_topic_reassignment topic_row;

/* begun: how many rows there were when the mention at hand began; rows of a topic are sized for one mention of it. */
struct listing { struct rpc_request *request; const struct broker_view *view; topic_row *topics; int32_t count, cap, begun; };

static bool copied(struct rpc_request *request, struct broker_view_ids from, struct ot_i32_array *to)
{
    to->items = rpc_alloc(request, (size_t)from.count, sizeof *to->items);
    if (to->items == NULL && from.count > 0) return false;
    if (from.count > 0) memcpy(to->items, from.ids, (size_t)from.count * sizeof *to->items);
    to->count = from.count;
    return true;
}

static topic_row *topic_row_of(struct listing *listing, struct ot_str name)
{
    if (listing->count > listing->begun) return &listing->topics[listing->count - 1];
    if (listing->count == listing->cap) {
        const int32_t cap = OT_MAX(2 * listing->cap, 16);
        topic_row *rows = rpc_alloc(listing->request, (size_t)cap, sizeof *rows);
        if (rows == NULL) return NULL;
        if (listing->count > 0) memcpy(rows, listing->topics, (size_t)listing->count * sizeof *rows);
        listing->topics = rows;
        listing->cap = cap;
    }
    const char *kept = ot_arena_str(&listing->request->arena, name);
    if (kept == NULL) return NULL;
    listing->topics[listing->count] = (topic_row){ .name = ot_str_of(kept) };
    return &listing->topics[listing->count++];
}

/* most: partitions of this topic that may still come. */
static bool partition_add(struct listing *listing, const struct broker_view_topic *topic, int32_t index, int32_t most)
{
    struct broker_view_partition row;
    const struct ot_arena_mark mark = ot_arena_mark(&listing->request->arena);
    if (!broker_view_partition(listing->view, &topic->id, index, &listing->request->arena, &row) || (row.adding.count == 0 && row.removing.count == 0)) {
        ot_arena_rewind(&listing->request->arena, &mark);      /* most of them stand still */
        return true;
    }
    topic_row *to = topic_row_of(listing, topic->name);
    if (to == NULL) return false;
    if (to->partitions.items == NULL && (to->partitions.items = rpc_alloc(listing->request, (size_t)most, sizeof *to->partitions.items)) == NULL) return false;
    partition_row *one = &to->partitions.items[to->partitions.count++];
    *one = (partition_row){ .partition_index = index };
    return copied(listing->request, row.replicas, &one->replicas) && copied(listing->request, row.adding, &one->adding_replicas)
        && copied(listing->request, row.removing, &one->removing_replicas);
}

static bool named_fill(struct listing *listing, const struct ot_list_partition_reassignments_request *asked)
{
    struct broker_view_topic topic;
    for (int32_t i = 0; i < asked->topics.count; i++) {
        const struct ot_i32_array *indexes = &asked->topics.items[i].partition_indexes;
        if (!broker_view_topic(listing->view, asked->topics.items[i].name, &topic)) continue;
        listing->begun = listing->count;
        for (int32_t j = 0; j < indexes->count; j++)
            if (!partition_add(listing, &topic, indexes->items[j], indexes->count - j)) return false;
    }
    return true;
}

static bool all_fill(struct listing *listing)
{
    struct broker_view_topic topic;
    struct ot_str after = { .null = true };
    for (; broker_view_next_topic(listing->view, after, &topic); after = topic.name) {
        listing->begun = listing->count;
        for (int32_t i = 0; i < topic.partition_count; i++)
            if (!partition_add(listing, &topic, i, topic.partition_count - i)) return false;
    }
    return true;
}

RPC_HANDLER(list_partition_reassignments)
{
    const struct ot_list_partition_reassignments_request *asked = body;
    struct ot_list_partition_reassignments_response response;
    ot_list_partition_reassignments_response_defaults(&response);
    request->arena.cap_bytes = asked->topics.count < 0 ? RPC_ANSWER_ARENA_BYTES : RPC_ARENA_MAX_BYTES;
    struct listing listing = { .request = request, .view = broker_view_take(request->server->broker) };
    const bool enough = asked->topics.count < 0 ? all_fill(&listing) : named_fill(&listing, asked);
    broker_view_give(listing.view);
    response.error_message.null = true;
    response.topics.items = listing.topics;
    response.topics.count = listing.count;
    if (enough) rpc_respond(request, &response);
    else rpc_reject(request, "no memory for its answer");
}
