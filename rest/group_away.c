/* Committed offsets of a group that another broker coordinates: Kafka's OffsetFetch to it. For what is copied from one group to another. */
#include "base/wire/apis.h"
#include "base/wire/offset_fetch_request.h"
#include "base/wire/offset_fetch_response.h"
#include "broker/peers.h"
#include "rest/groups.h"
#include "rest/inside.h"

enum { VERSION = 8, ARENA_BYTES = 16 << 20 };
#define DEADLINE_US 10000000

struct asking {
    struct broker_peer_call call;
    struct rest_group *job;
    void (*next)(struct rest_group *job);
    struct ot_arena arena;
    struct ot_offset_fetch_response response;
};

/* Copied into the call's arena. False: no memory. */
static bool take(struct rest_group *job, const struct ot_offset_fetch_response_offset_fetch_response_group *group)
{
    struct ot_arena *arena = &job->call->arena;
    uint32_t count = 0;
    for (int32_t t = 0; t < group->topics.count; t++) count += (uint32_t)OT_MAX(group->topics.items[t].partitions.count, 0);
    job->parts = ot_arena_array(arena, OT_MAX(count, 1u), sizeof *job->parts);
    job->part_count = 0;
    for (int32_t t = 0; job->parts != NULL && t < group->topics.count; t++) {
        const char *name = ot_arena_str(arena, group->topics.items[t].name);
        if (name == NULL) return false;
        for (int32_t p = 0; p < group->topics.items[t].partitions.count; p++)
            job->parts[job->part_count++] = (struct group_part){ .topic = { name, group->topics.items[t].name.bytes, false },
                .partition = group->topics.items[t].partitions.items[p].partition_index, .offset = group->topics.items[t].partitions.items[p].committed_offset };
    }
    return job->parts != NULL;
}

static void cancel(struct rest_call *call)
{
    struct asking *asking = call->state;
    broker_peer_call_abort(call->broker, &asking->call);
}

static void answered(struct broker_peer_call *call)
{
    struct asking *asking = OT_CONTAINER(call, struct asking, call);
    struct rest_group *job = asking->job;
    job->call->cancel = NULL;
    enum ot_err err = call->error == OT_OK && asking->response.groups.count == 1 ? (enum ot_err)asking->response.groups.items[0].error_code : OT_ERR_COORDINATOR_NOT_AVAILABLE;
    if (err == OT_OK && !take(job, &asking->response.groups.items[0])) err = OT_ERR_NO_MEMORY;
    broker_peer_call_end(call);
    ot_arena_free(&asking->arena);
    if (err == OT_OK) asking->next(job);
    else rest_problem(job->call, err, "the offsets of the other group could not be read: %s", ot_err_text(err));
}

void rest_group_fetch_from(struct rest_group *job, int32_t coordinator, struct ot_str group, void (*next)(struct rest_group *job))
{
    struct rest_call *call = job->call;
    struct asking *asking = ot_arena_alloc(&call->arena, sizeof *asking);
    struct ot_offset_fetch_request request;
    struct ot_offset_fetch_request_offset_fetch_request_group one;
    if (asking == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        return;
    }
    asking->job = job;
    asking->next = next;
    ot_arena_init(&asking->arena, ARENA_BYTES);
    ot_offset_fetch_request_defaults(&request);
    ot_offset_fetch_request_offset_fetch_request_group_defaults(&one);
    one.group_id = group;
    one.topics.count = -1;                     /* all */
    request.groups.items = &one;
    request.groups.count = 1;
    asking->call = (struct broker_peer_call){ .node_id = coordinator, .api = OT_API_OFFSET_FETCH, .version = VERSION, .request = &request, .response = &asking->response,
        .arena = &asking->arena, .deadline_us = ot_exec_now_us(call->home) + DEADLINE_US, .home = call->home, .done = answered, .alone = true };
    call->state = asking;
    call->cancel = cancel;
    broker_peer_call(call->broker, &asking->call);
}
