/* ListGroups: the groups whose coordinator this broker is, by state from v4 on, by type from v5 on. */
#include "rpc/kafka/request.h"

#include "base/wire/list_groups_request.h"
#include "base/wire/list_groups_response.h"

#include <string.h>
#include <strings.h>

typedef struct ot_list_groups_response_listed_group group_row;

static bool wanted(const struct ot_str_array *filter, const char *value)
{
    for (int32_t i = 0; i < filter->count; i++)
        if (filter->items[i].bytes == strlen(value) && strncasecmp(filter->items[i].data, value, filter->items[i].bytes) == 0) return true;
    return filter->count <= 0;
}

static void rows_fill(const struct ot_list_groups_request *asked, const struct group_list *list, struct ot_list_groups_response *response)
{
    for (uint32_t i = 0; i < list->count; i++) {
        const struct group_list_row *row = &list->rows[i];
        if (!wanted(&asked->states_filter, row->state) || !wanted(&asked->types_filter, group_type_name(row->type))) continue;
        response->groups.items[response->groups.count++] = (group_row){ .group_id = row->id, .protocol_type = row->protocol_type, .group_state = ot_str_of(row->state),
            .group_type = ot_str_of(group_type_name(row->type)) };
    }
}

static void list_groups_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct broker_group_calls *calls = &request->call.groups;
    struct ot_list_groups_response response;
    size_t count = 0;
    ot_list_groups_response_defaults(&response);
    for (uint32_t i = 0; i < calls->count; i++) {
        const enum ot_err error = broker_group_error(&calls->items[i]);
        if (error == OT_OK) count += ((const struct group_list *)calls->items[i].ask.response)->count;
        else if (error != OT_ERR_NOT_COORDINATOR) request->error = error;      /* what another broker coordinates, it tells itself */
    }
    response.groups.items = rpc_alloc(request, count, sizeof *response.groups.items);
    if (response.groups.items == NULL && count > 0) {
        rpc_reject(request, "no memory for its answer");
        return;
    }
    for (uint32_t i = 0; i < calls->count; i++)
        if (broker_group_error(&calls->items[i]) == OT_OK) rows_fill(request->body, calls->items[i].ask.response, &response);
    response.error_code = ot_err_kafka(request->error);
    rpc_respond(request, &response);
}

RPC_HANDLER(list_groups)
{
    (void)body;
    struct ot_list_groups_response none;
    rpc_call_init(request, list_groups_done);
    request->arena.cap_bytes = RPC_ANSWER_ARENA_BYTES;
    const enum ot_err err = broker_group_lists(request->server->broker, &request->arena, &request->call.groups);
    if (err == OT_OK) {
        broker_group_all(request->server->broker, &request->call.groups);
    } else if (err == OT_ERR_NOT_FOUND) {
        ot_list_groups_response_defaults(&none);
        rpc_respond(request, &none);
    } else {
        rpc_reject(request, "no memory for its answer");
    }
}
