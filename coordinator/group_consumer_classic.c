#include "coordinator/group_consumer.h"

#include "base/wire/heartbeat_request.h"
#include "base/wire/heartbeat_response.h"
#include "base/wire/join_group_request.h"
#include "base/wire/join_group_response.h"
#include "base/wire/leave_group_request.h"
#include "base/wire/leave_group_response.h"
#include "base/wire/sync_group_request.h"
#include "base/wire/sync_group_response.h"
#include "coordinator/group_classic.h"

#include <stdio.h>
#include <string.h>

static const struct ot_str no_text = { .null = true };

/* ---- conversions */

struct coord_cg_classic *consumer_export(const struct group *group, struct ot_arena *arena)
{
    const struct classic *classic = classic_of(group);
    struct coord_cg_classic *out = ot_arena_alloc(arena, sizeof *out);
    struct coord_cg_classic_member *members = ot_arena_array(arena, OT_MAX(classic->members.count, 1u), sizeof *members);
    if (out == NULL || members == NULL) return NULL;
    *out = (struct coord_cg_classic){ .generation_id = classic->generation, .protocol_name = classic->protocol.null ? classic_select(group) : classic->protocol, .members = members };
    for (const struct classic_member *member = classic->first; member != NULL; member = member->next) {
        struct coord_cg_protocol *protocols = ot_arena_array(arena, OT_MAX(member->protocol_count, 1u), sizeof *protocols);
        if (protocols == NULL) return NULL;
        for (uint32_t i = 0; i < member->protocol_count; i++) protocols[i] = (struct coord_cg_protocol){ member->protocols[i].name, member->protocols[i].metadata };
        members[out->member_count++] = (struct coord_cg_classic_member){ member->id, member->instance_id, member->client_id, member->client_host,
            member->rebalance_timeout_ms, member->session_timeout_ms, protocols, member->protocol_count, member->assignment };
    }
    return out;
}

static bool import_member(struct group *group, const struct coord_cg_classic_member *from)
{
    struct group_set *set = group->set;
    struct ot_join_group_request request;
    struct group_ask ask = { .request = &request, .client_id = from->client_id, .client_host = from->client_host, .arena = set->out->arena };
    ot_join_group_request_defaults(&request);
    request.group_instance_id = from->instance_id;
    request.protocol_type = ot_str_of("consumer");
    request.session_timeout_ms = from->session_timeout_ms;
    request.rebalance_timeout_ms = from->rebalance_timeout_ms;
    request.protocols.items = ot_arena_array(set->out->arena, OT_MAX(from->protocol_count, 1u), sizeof *request.protocols.items);
    if (request.protocols.items == NULL) return false;
    for (uint32_t i = 0; i < from->protocol_count; i++) {
        struct ot_join_group_request_join_group_request_protocol *protocol = &request.protocols.items[request.protocols.count++];
        *protocol = (struct ot_join_group_request_join_group_request_protocol){ .name = from->protocols[i].name, .metadata = from->protocols[i].metadata };
    }
    struct classic_member *member = classic_member_add(group, &ask, from->member_id);
    return member != NULL && group_blob_copy(set, from->assignment, &member->assignment);
}

void consumer_import(struct group *group, const struct coord_cg_classic *from)
{
    struct group_set *set = group->set;
    bool made = group_classic_begin(group);
    for (uint32_t i = 0; made && i < from->member_count; i++) made = import_member(group, &from->members[i]);
    if (made) made = group_str_copy(set, classic_select(group), &classic_of(group)->protocol);
    if (!made) {
        set->out->fail = OT_ERR_NO_MEMORY;
        if (group->ops == NULL) group->ops = &group_lost_ops;
        return;
    }
    struct classic *classic = classic_of(group);
    classic->generation = from->generation_id;
    classic->state = CLASSIC_STABLE;
    classic->state_since_ms = set->env->wall_ms;
    for (struct classic_member *member = classic->first; member != NULL; member = member->next) classic_member_alive(member);
    classic_emit(group);
    if (group_rebalance_event(group) != NULL) group_rebalance_end(group, classic->generation, 0, 0);
    if (from->rebalance) classic_prepare(group, GROUP_REASON_TYPE_CHANGED, NULL, no_text, ot_str_of(from->reason));
}

/* ---- JoinGroup */

static void join_refuse(struct group *group, struct group_ask *ask, enum ot_err err, struct ot_str member_id)
{
    classic_join_answer(group->set, ask, err, member_id);
}

/* "client-uuid", as Kafka's: made from the set's own generator. */
static bool make_id(struct group_set *set, const struct group_ask *ask, struct ot_str *out)
{
    char text[23];
    struct ot_uuid id;
    const uint64_t halves[2] = { ot_rng_next(&set->rng), ot_rng_next(&set->rng) };
    memcpy(&id, halves, sizeof id);
    id.bytes[0] &= 0x7f;
    ot_uuid_text(&id, text);
    return group_arena_str(ask->arena, ot_str_of(text), out);
}

static bool join_read(struct group *group, const struct group_ask *ask, struct coord_cg_join *out)
{
    const struct ot_join_group_request *request = ask->request;
    struct coord_cg_protocol *protocols = ot_arena_array(group->set->out->arena, (size_t)OT_MAX(request->protocols.count, 1), sizeof *protocols);
    if (protocols == NULL) return false;
    for (int32_t i = 0; i < request->protocols.count; i++) protocols[i] = (struct coord_cg_protocol){ request->protocols.items[i].name, request->protocols.items[i].metadata };
    const int32_t rebalance_ms = request->rebalance_timeout_ms < 0 ? request->session_timeout_ms : request->rebalance_timeout_ms;
    *out = (struct coord_cg_join){ .member_id = request->member_id, .instance_id = request->group_instance_id, .client_id = ask->client_id, .client_host = ask->client_host,
        .protocol_type = request->protocol_type, .is_new = request->member_id.bytes == 0, .session_timeout_ms = request->session_timeout_ms,
        .rebalance_timeout_ms = rebalance_ms, .protocols = protocols, .protocol_count = (uint32_t)OT_MAX(request->protocols.count, 0) };
    return !out->is_new || make_id(group->set, ask, &out->member_id);
}

static void join_tell(struct group_set *set, struct group_ask *ask, struct ot_str member_id, const struct coord_cg_joined *joined)
{
    struct ot_join_group_response *response = ask->response;
    ot_join_group_response_defaults(response);
    response->generation_id = joined->generation_id;
    response->protocol_type = ot_str_of("consumer");
    response->leader = ot_str_of("");          /* nobody: the server assigns */
    if (group_arena_str(ask->arena, member_id, &response->member_id) && group_arena_str(ask->arena, joined->protocol_name, &response->protocol_name)) group_answer(set, ask, OT_OK);
    else classic_join_answer(set, ask, OT_ERR_UNKNOWN_SERVER_ERROR, ot_str_of(""));
}

void consumer_join(struct group *group, struct group_ask *ask)
{
    struct group_set *set = group->set;
    struct coord_cg_join join;
    struct coord_cg_joined joined;
    struct consumer_step step;
    consumer_step_init(&step, set, group->id, ask->arena);
    if (coord_cg_member_count(consumer_of(group)->cg) == 0) {  /* nobody is in it: a classic group takes its place */
        group->ops->tombstones(group);
        group->ops->free(group);
        if (group_classic_begin(group)) {
            classic_join(set, ask);
            return;
        }
        group->ops = &group_lost_ops;
        set->out->fail = OT_ERR_NO_MEMORY;
        classic_join_answer(set, ask, OT_ERR_COORDINATOR_NOT_AVAILABLE, ot_str_of(""));
        return;
    }
    if (!join_read(group, ask, &join)) {
        join_refuse(group, ask, OT_ERR_COORDINATOR_NOT_AVAILABLE, ot_str_of(""));
        return;
    }
    if (join.is_new && join.instance_id.null && ask->version >= 4) {
        join_refuse(group, ask, OT_ERR_MEMBER_ID_REQUIRED, join.member_id);
        return;
    }
    const enum ot_err err = coord_cg_classic_join(consumer_of(group)->cg, &step.call, &join, &joined);
    if (err != OT_OK) {
        join_refuse(group, ask, consumer_error(set, &step, err, true), join.member_id);
        return;
    }
    consumer_took(group, &step, join.member_id, ask->client_id);
    join_tell(set, ask, join.member_id, &joined);
}

/* ---- SyncGroup, Heartbeat */

void consumer_sync(struct group *group, struct group_ask *ask)
{
    const struct ot_sync_group_request *request = ask->request;
    struct ot_sync_group_response *response = ask->response;
    struct consumer_step step;
    struct ot_blob assignment = { NULL, 0, false };
    consumer_step_init(&step, group->set, group->id, ask->arena);
    enum ot_err err = coord_cg_classic_sync(consumer_of(group)->cg, &step.call, request->member_id, request->group_instance_id, request->generation_id,
        ask->version >= 5 ? request->protocol_type : no_text, ask->version >= 5 ? request->protocol_name : no_text, &assignment);
    err = consumer_error(group->set, &step, err, false);
    ot_sync_group_response_defaults(response);
    response->error_code = ot_err_kafka(err);
    if (err == OT_OK) {
        response->protocol_type = request->protocol_type;
        response->protocol_name = request->protocol_name;
        response->assignment = assignment;
        consumer_took(group, &step, request->member_id, ask->client_id);
    }
    group_answer(group->set, ask, err);
}

void consumer_heartbeat(struct group *group, struct group_ask *ask)
{
    const struct ot_heartbeat_request *request = ask->request;
    struct ot_heartbeat_response *response = ask->response;
    struct consumer_step step;
    consumer_step_init(&step, group->set, group->id, ask->arena);
    const enum ot_err err = coord_cg_classic_heartbeat(consumer_of(group)->cg, &step.call, request->member_id, request->group_instance_id, request->generation_id);
    ot_heartbeat_response_defaults(response);
    response->error_code = ot_err_kafka(err);
    if (err == OT_OK || err == OT_ERR_REBALANCE_IN_PROGRESS) consumer_took(group, &step, request->member_id, ask->client_id);
    group_answer(group->set, ask, err);
}

/* ---- LeaveGroup */

static enum ot_err leave(struct group *group, struct group_ask *ask, struct coord_cg_leaver *leavers, uint32_t count, enum ot_err *errors)
{
    struct consumer_step step;
    consumer_step_init(&step, group->set, group->id, ask->arena);
    const enum ot_err err = coord_cg_classic_leave(consumer_of(group)->cg, &step.call, leavers, count, errors);
    if (err == OT_OK) consumer_took(group, &step, count > 0 ? leavers[0].member_id : no_text, ask->client_id);
    return consumer_error(group->set, &step, err, true);
}

void consumer_leave(struct group *group, struct group_ask *ask)
{
    const struct ot_leave_group_request *request = ask->request;
    struct ot_leave_group_response *response = ask->response;
    const uint32_t count = ask->version >= 3 ? (uint32_t)OT_MAX(request->members.count, 0) : 1;
    struct coord_cg_leaver *leavers = ot_arena_array(ask->arena, count + 1, sizeof *leavers);
    enum ot_err *errors = ot_arena_array(ask->arena, count + 1, sizeof *errors), err = leavers == NULL || errors == NULL ? OT_ERR_UNKNOWN_SERVER_ERROR : OT_OK;
    ot_leave_group_response_defaults(response);
    for (uint32_t i = 0; err == OT_OK && i < count; i++)
        leavers[i] = ask->version < 3 ? (struct coord_cg_leaver){ request->member_id, no_text }
            : (struct coord_cg_leaver){ request->members.items[i].member_id, request->members.items[i].group_instance_id };
    if (err == OT_OK) err = leave(group, ask, leavers, count, errors);
    if (err == OT_OK && ask->version < 3) err = errors[0];
    if (err == OT_OK && ask->version >= 3) {
        response->members.items = ot_arena_array(ask->arena, count + 1, sizeof *response->members.items);
        if (response->members.items == NULL) err = OT_ERR_UNKNOWN_SERVER_ERROR;
        for (uint32_t i = 0; err == OT_OK && i < count; i++)
            response->members.items[response->members.count++] = (struct ot_leave_group_response_member_response){ .member_id = leavers[i].member_id,
                .group_instance_id = leavers[i].instance_id, .error_code = ot_err_kafka(errors[i]) };
    }
    response->error_code = ot_err_kafka(err);
    group_answer(group->set, ask, err);
}
