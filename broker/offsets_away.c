#include "broker/offsets_away.h"

#include "base/wire/apis.h"
#include "base/wire/list_offsets_request.h"
#include "base/wire/list_offsets_response.h"
#include "broker/room.h"
#include <stdlib.h>

enum { VERSION = 7, ASKED = -1 };
#define ARENA_BYTES (16u << 20)
#define DEADLINE_US 10000000

struct everywhere {
    struct broker_offsets *of, own;            /* own: parts that this broker answers, copied */
    int32_t *leaders;                          /* of each part; this broker's id for those that it answers; ASKED: its leader was asked for it */
    uint32_t open;
    struct ot_arena arena;
};
struct asking {
    struct broker_peer_call call;
    struct everywhere *all;
    uint32_t *parts, part_count;               /* by index */
    struct ot_arena arena;
    struct ot_list_offsets_response response;
};

static void settle(struct everywhere *all)
{
    struct broker_offsets *of = all->of;
    if (--all->open > 0) return;
    ot_arena_free(&all->arena);
    free(all);
    of->call.done(&of->call);
}

static void own_answered(struct broker_call *call)
{
    struct everywhere *all = OT_CONTAINER(call, struct everywhere, own.call);
    for (uint32_t i = 0, k = 0; i < all->of->part_count; i++)
        if (all->leaders[i] == all->of->broker->node_id) all->of->parts[i] = all->own.parts[k++];
    settle(all);
}

/* Answers come in the order asked: each part is a topic of its own. */
static void answered(struct broker_peer_call *call)
{
    struct asking *asking = OT_CONTAINER(call, struct asking, call);
    struct everywhere *all = asking->all;
    const struct ot_list_offsets_response *response = &asking->response;
    const bool good = call->error == OT_OK && response->topics.count == (int32_t)asking->part_count;
    for (uint32_t i = 0; good && i < asking->part_count; i++) {
        struct broker_offsets_part *part = &all->of->parts[asking->parts[i]];
        if (response->topics.items[i].partitions.count != 1) continue;
        const struct ot_list_offsets_response_list_offsets_partition_response *from = &response->topics.items[i].partitions.items[0];
        part->error = (enum ot_err)from->error_code;
        part->offset = from->offset;
        part->timestamp_ms = from->timestamp;
        part->leader_epoch = from->leader_epoch;
    }
    broker_peer_call_end(call);
    ot_arena_free(&asking->arena);
    free(asking);
    settle(all);
}

static bool fill(const struct asking *asking, struct ot_arena *arena, struct ot_list_offsets_request *out)
{
    struct ot_list_offsets_request_list_offsets_topic *topics = ot_arena_array(arena, asking->part_count, sizeof *topics);
    struct ot_list_offsets_request_list_offsets_partition *parts = ot_arena_array(arena, asking->part_count, sizeof *parts);
    if (topics == NULL || parts == NULL) return false;
    ot_list_offsets_request_defaults(out);
    out->replica_id = -1;
    out->isolation_level = asking->all->of->read_committed;
    out->topics.items = topics;
    out->topics.count = (int32_t)asking->part_count;
    for (uint32_t i = 0; i < asking->part_count; i++) {
        const struct broker_offsets_part *part = &asking->all->of->parts[asking->parts[i]];
        ot_list_offsets_request_list_offsets_topic_defaults(&topics[i]);
        ot_list_offsets_request_list_offsets_partition_defaults(&parts[i]);
        topics[i].name = part->topic;
        topics[i].partitions.items = &parts[i];
        topics[i].partitions.count = 1;
        parts[i].partition_index = part->partition;
        parts[i].timestamp = part->at;
    }
    return true;
}

static void ask(struct everywhere *all, int32_t leader, uint32_t first)
{
    struct broker *broker = all->of->broker;
    struct asking *asking = calloc(1, sizeof *asking);
    struct ot_list_offsets_request request;
    if (asking == NULL) return;
    asking->all = all;
    ot_arena_init(&asking->arena, ARENA_BYTES);
    asking->parts = ot_arena_array(&asking->arena, all->of->part_count - first, sizeof *asking->parts);
    for (uint32_t i = first; asking->parts != NULL && i < all->of->part_count; i++)
        if (all->leaders[i] == leader) asking->parts[asking->part_count++] = i;
    for (uint32_t i = 0; i < asking->part_count; i++) all->leaders[asking->parts[i]] = ASKED;
    if (asking->parts == NULL || !fill(asking, &asking->arena, &request)) {
        ot_arena_free(&asking->arena);
        free(asking);
        return;
    }
    asking->call = (struct broker_peer_call){ .node_id = leader, .api = OT_API_LIST_OFFSETS, .version = VERSION, .request = &request, .response = &asking->response,
        .arena = &asking->arena, .deadline_us = ot_exec_now_us(all->of->call.home) + DEADLINE_US, .home = all->of->call.home, .done = answered, .alone = true };
    all->open++;
    broker_peer_call(broker, &asking->call);
}

/* False: no memory. */
static bool divide(struct everywhere *all)
{
    struct broker_offsets *of = all->of;
    all->leaders = ot_arena_array(&all->arena, OT_MAX(of->part_count, 1u), sizeof *all->leaders);
    all->own.parts = ot_arena_array(&all->arena, OT_MAX(of->part_count, 1u), sizeof *all->own.parts);
    if (all->leaders == NULL || all->own.parts == NULL) return false;
    const struct broker_view *view = broker_view_take(of->broker);
    for (uint32_t i = 0; i < of->part_count; i++) {
        struct broker_offsets_part *part = &of->parts[i];
        int32_t leader;
        const bool led = broker_view_leader(view, part->topic, part->partition, &leader) && leader >= 0;
        all->leaders[i] = led ? leader : of->broker->node_id;
        if (all->leaders[i] == of->broker->node_id) {
            all->own.parts[all->own.part_count++] = *part;
            continue;
        }
        part->error = OT_ERR_LEADER_NOT_AVAILABLE;             /* until it answered */
        part->offset = part->timestamp_ms = part->leader_epoch = -1;
    }
    broker_view_give(view);
    return true;
}

void broker_offsets_anywhere(struct broker *broker, struct broker_offsets *offsets)
{
    struct everywhere *all = broker->peers == NULL ? NULL : calloc(1, sizeof *all);
    if (all != NULL) {
        offsets->broker = broker;
        all->of = offsets;
        all->own = *offsets;
        all->own.part_count = 0;
        ot_arena_init(&all->arena, ARENA_BYTES);
    }
    if (all == NULL || !divide(all)) {         /* alone; or without memory: what is led elsewhere then answers that it is not led here */
        if (all != NULL) ot_arena_free(&all->arena);
        free(all);
        broker_offsets(broker, offsets);
        return;
    }
    all->open = 1;
    for (uint32_t i = 0; i < offsets->part_count; i++)
        if (all->leaders[i] != broker->node_id && all->leaders[i] != ASKED) ask(all, all->leaders[i], i);
    all->own.call.done = own_answered;
    broker_offsets(broker, &all->own);
}
