/* DescribeGroups: groups of the classic protocol. A group that is not there is "Dead" before v6, and an error from v6 on. */
#include "rpc/kafka/request.h"

#include "base/wire/describe_groups_request.h"
#include "base/wire/describe_groups_response.h"

#include <stdio.h>
#include <string.h>

typedef struct ot_describe_groups_response_described_group group_row;
typedef struct ot_describe_groups_response_described_group_member member_row;

#define OPERATIONS_UNKNOWN INT32_MIN
#define OPERATIONS_OF_A_GROUP 328              /* READ, DELETE, DESCRIBE as bits, and no authorizer forbids any */

static bool members_fill(struct rpc_request *request, const struct group_view *view, group_row *to)
{
    const bool stable = strcmp(view->state, "Stable") == 0;
    to->members.count = (int32_t)view->member_count;
    to->members.items = rpc_alloc(request, view->member_count, sizeof *to->members.items);
    if (to->members.items == NULL && view->member_count > 0) return false;
    for (uint32_t i = 0; i < view->member_count; i++) {
        const struct group_view_member *member = &view->members[i];
        to->members.items[i] = (member_row){ .member_id = member->member_id, .group_instance_id = member->instance_id, .client_id = member->client_id,
            .client_host = member->client_host };
        if (!stable) continue;
        to->members.items[i].member_metadata = member->metadata;
        to->members.items[i].member_assignment = member->assignment;
    }
    return true;
}

static bool absent(struct rpc_request *request, struct ot_str id, const char *what, group_row *to)
{
    to->group_state = ot_str_of("Dead");
    if (request->header.version < 6) return true;
    const size_t cap = (size_t)id.bytes + 64;
    char *text = rpc_alloc(request, cap, 1);
    if (text == NULL) return false;
    (void)snprintf(text, cap, "Group %.*s %s", (int)id.bytes, id.data, what);
    to->error_code = ot_err_kafka(OT_ERR_GROUP_ID_NOT_FOUND);
    to->error_message = ot_str_of(text);
    return true;
}

static bool group_fill(struct rpc_request *request, const struct broker_group_call *call, bool with_operations, group_row *to)
{
    const struct group_view *view = call->ask.response;
    const enum ot_err error = broker_group_error(call);
    *to = (group_row){ .group_id = call->ask.group_id, .group_state = ot_str_of(""), .protocol_type = ot_str_of(""), .protocol_data = ot_str_of(""), .error_message.null = true,
        .authorized_operations = OPERATIONS_UNKNOWN };
    const bool no_topic = call->error == OT_ERR_COORDINATOR_NOT_AVAILABLE && broker_shard_count(request->server->broker, BROKER_SHARD_GROUPS) == 0;
    if (error == OT_ERR_GROUP_ID_NOT_FOUND || no_topic) return absent(request, call->ask.group_id, "not found.", to);
    if (error != OT_OK) {
        to->error_code = ot_err_kafka(error);
        return true;
    }
    if (view->type != GROUP_CLASSIC) return absent(request, call->ask.group_id, "is not a classic group.", to);
    to->group_state = ot_str_of(view->state);
    to->protocol_type = view->protocol_type;
    if (strcmp(view->state, "Stable") == 0 && !view->protocol.null) to->protocol_data = view->protocol;
    if (with_operations) to->authorized_operations = OPERATIONS_OF_A_GROUP;
    return members_fill(request, view, to);
}

static void describe_groups_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct ot_describe_groups_request *asked = request->body;
    struct ot_describe_groups_response response;
    ot_describe_groups_response_defaults(&response);
    response.groups.count = asked->groups.count;
    response.groups.items = rpc_alloc(request, (size_t)asked->groups.count, sizeof *response.groups.items);
    bool enough = response.groups.items != NULL || asked->groups.count == 0;
    for (int32_t i = 0; i < asked->groups.count && enough; i++)
        enough = group_fill(request, &request->call.groups.items[i], asked->include_authorized_operations, &response.groups.items[i]);
    if (enough) rpc_respond(request, &response);
    else rpc_reject(request, "no memory for its answer");
}

RPC_HANDLER(describe_groups)
{
    const struct ot_describe_groups_request *asked = body;
    const size_t count = (size_t)asked->groups.count;
    request->arena.cap_bytes = RPC_ANSWER_ARENA_BYTES;
    struct broker_group_call *items = rpc_alloc(request, count, sizeof *items);
    struct group_view *views = rpc_alloc(request, count, sizeof *views);
    bool enough = count == 0 || (items != NULL && views != NULL);
    for (size_t i = 0; i < count && enough; i++) {
        enough = rpc_group_init(request, &items[i], GROUP_ASK_VIEW, asked->groups.items[i]);
        items[i].ask.response = &views[i];
    }
    if (!enough) {
        rpc_reject(request, "too much in one request");
        return;
    }
    rpc_call_init(request, describe_groups_done);
    request->call.groups.items = items;
    request->call.groups.count = (uint32_t)count;
    broker_group_all(request->server->broker, &request->call.groups);
}
