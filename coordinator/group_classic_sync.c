/* SyncGroup, Heartbeat and LeaveGroup of classic groups. */
#include "coordinator/group_classic.h"

#include "base/wire/heartbeat_request.h"
#include "base/wire/heartbeat_response.h"
#include "base/wire/leave_group_request.h"
#include "base/wire/leave_group_response.h"
#include "base/wire/sync_group_request.h"
#include "base/wire/sync_group_response.h"
#include "coordinator/bug.h"
#include "coordinator/group_protocol.h"

#include <string.h>

static const struct ot_str no_text = { .null = true };

/* ---- SyncGroup */

static void sync_refuse(struct group_set *set, struct group_ask *ask, enum ot_err error)
{
    struct ot_sync_group_response *response = ask->response;
    ot_sync_group_response_defaults(response);
    response->error_code = ot_err_kafka(error);
    group_answer(set, ask, error);
}

void classic_sync_answer(struct classic_member *member, struct group_ask *ask, enum ot_err error)
{
    struct group *group = member->group;
    const struct classic *classic = classic_of(group);
    struct ot_sync_group_response *response = ask->response;
    if (member->syncing == ask) member->syncing = NULL;
    ot_sync_group_response_defaults(response);
    const bool made = error != OT_OK || (group_arena_str(ask->arena, classic->protocol_type, &response->protocol_type)
        && group_arena_str(ask->arena, classic->protocol, &response->protocol_name) && group_arena_blob(ask->arena, member->assignment, &response->assignment));
    if (!made) error = OT_ERR_UNKNOWN_SERVER_ERROR;
    response->error_code = ot_err_kafka(error);
    group_answer(group->set, ask, error);
}

void classic_sync_tell(struct group *group, enum ot_err error)
{
    for (struct classic_member *member = classic_of(group)->first; member != NULL; member = member->next) {
        struct group_ask *ask = member->syncing;
        const bool waited = member->awaiting_sync;
        member->awaiting_sync = false;
        if (ask != NULL) classic_sync_answer(member, ask, error);
        if (waited) classic_member_alive(member);
    }
}

static enum ot_err sync_check(const struct group *group, const struct ot_sync_group_request *request)
{
    const struct classic *classic = classic_of(group);
    const enum ot_err err = classic_member_check(group, request->member_id, request->group_instance_id);
    if (err != OT_OK) return err;
    if (request->generation_id != classic->generation && !COORD_BUG(SYNC_ANY_GENERATION)) return OT_ERR_ILLEGAL_GENERATION;
    if (!request->protocol_type.null && !ot_str_equal(request->protocol_type, classic->protocol_type)) return OT_ERR_INCONSISTENT_GROUP_PROTOCOL;
    if (!request->protocol_name.null && !ot_str_equal(request->protocol_name, classic->protocol)) return OT_ERR_INCONSISTENT_GROUP_PROTOCOL;
    return OT_OK;
}

static void synced(struct group *group, struct classic_member *member)
{
    struct classic *classic = classic_of(group);
    if (!member->unsynced) return;
    member->unsynced = false;
    if (--classic->unsynced_count > 0 || classic->wait != CLASSIC_WAIT_SYNC) return;
    classic->wait = CLASSIC_WAIT_NONE;
    group_timer_cancel(group->set, &classic->timer);
}

struct moved { uint32_t partitions, moved; };

static bool assignment_put(struct classic_member *member, struct ot_blob assignment, struct moved *moved)
{
    struct ot_blob copy;
    uint32_t partitions = 0, changed = 0;
    if (!group_blob_copy(member->group->set, assignment, &copy)) return false;
    if (group_assignment_moved(member->assignment, copy, &partitions, &changed)) {
        moved->partitions += partitions;
        moved->moved += changed;
    }
    group_blob_free(member->group->set, &member->assignment);
    member->assignment = copy;
    return true;
}

/* What the leader says; who is not in it has nothing. */
static bool assignments_put(struct group *group, const struct ot_sync_group_request *request, struct moved *moved)
{
    struct classic *classic = classic_of(group);
    struct ot_map given;
    bool made = true;
    ot_map_init(&given);
    for (int32_t i = 0; made && i < request->assignments.count; i++) {
        struct ot_sync_group_request_sync_group_request_assignment *one = &request->assignments.items[i];
        if (classic_member(group, one->member_id) != NULL) made = ot_map_put(&given, one->member_id.data, one->member_id.bytes, one) == OT_OK;
    }
    for (struct classic_member *member = classic->first; made && member != NULL; member = member->next) {
        const struct ot_sync_group_request_sync_group_request_assignment *one = ot_map_get(&given, member->id.data, member->id.bytes);
        made = assignment_put(member, one == NULL ? (struct ot_blob){ 0 } : one->assignment, moved);
    }
    ot_map_free(&given);
    return made;
}

static void to_stable(struct group *group, const struct ot_sync_group_request *request)
{
    struct classic *classic = classic_of(group);
    struct moved moved = { 0, 0 };
    if (!assignments_put(group, request, &moved) || classic_record_bytes(group) > group->set->env->config->record_bytes_max) {
        /* no record can hold it, or no memory can: they are told, and try again from the beginning, as in Kafka */
        classic_sync_tell(group, OT_ERR_UNKNOWN_SERVER_ERROR);
        classic_prepare(group, GROUP_REASON_METADATA, classic->leader, no_text, ot_str_of("the assignment is larger than a record may be"));
        return;
    }
    classic->state = CLASSIC_STABLE;
    classic->state_since_ms = group->set->env->wall_ms;
    classic_emit(group);
    group_rebalance_end(group, classic->generation, moved.partitions, moved.moved);
    classic_sync_tell(group, OT_OK);           /* all who wait get theirs */
}

static void sync_member(struct group *group, struct group_ask *ask, struct classic_member *member)
{
    struct classic *classic = classic_of(group);
    switch (classic->state) {
    case CLASSIC_EMPTY: sync_refuse(group->set, ask, OT_ERR_UNKNOWN_MEMBER_ID); break;
    case CLASSIC_PREPARING: sync_refuse(group->set, ask, OT_ERR_REBALANCE_IN_PROGRESS); break;
    case CLASSIC_COMPLETING: {
        struct group_ask *before = member->syncing;
        member->syncing = ask;
        member->awaiting_sync = true;
        ask->held = group;
        synced(group, member);
        if (before != NULL) sync_refuse(group->set, before, OT_ERR_REBALANCE_IN_PROGRESS);
        if (classic->leader == member) to_stable(group, ask->request);
        break;
    }
    case CLASSIC_STABLE:
        synced(group, member);
        classic_member_alive(member);
        classic_sync_answer(member, ask, OT_OK);
        break;
    }
}

void classic_sync(struct group_set *set, struct group_ask *ask)
{
    const struct ot_sync_group_request *request = ask->request;
    struct group *group = group_find(set, ask->group_id);
    if (ask->group_id.null || ask->group_id.bytes == 0) {
        sync_refuse(set, ask, OT_ERR_INVALID_GROUP_ID);
        return;
    }
    if (group != NULL && group->ops->sync != NULL) {
        group->ops->sync(group, ask);
        return;
    }
    const enum ot_err err = group == NULL || group->ops != &group_classic_ops ? OT_ERR_UNKNOWN_MEMBER_ID : sync_check(group, request);
    if (err != OT_OK) sync_refuse(set, ask, err);
    else sync_member(group, ask, classic_member(group, request->member_id));
}

/* ---- Heartbeat */

static enum ot_err heartbeat(struct group *group, const struct ot_heartbeat_request *request)
{
    const struct classic *classic = classic_of(group);
    const enum ot_err err = classic_member_check(group, request->member_id, request->group_instance_id);
    if (err != OT_OK) return err;
    if (request->generation_id != classic->generation) return OT_ERR_ILLEGAL_GENERATION;
    if (classic->state == CLASSIC_EMPTY) return OT_ERR_UNKNOWN_MEMBER_ID;
    struct classic_member *member = classic_member(group, request->member_id);
    if (!member->is_new) classic_member_alive(member);
    return classic->state == CLASSIC_PREPARING ? OT_ERR_REBALANCE_IN_PROGRESS : OT_OK;
}

void classic_heartbeat(struct group_set *set, struct group_ask *ask)
{
    struct ot_heartbeat_response *response = ask->response;
    struct group *group = group_find(set, ask->group_id);
    enum ot_err err = OT_ERR_UNKNOWN_MEMBER_ID;
    if (group != NULL && group->ops->heartbeat != NULL) {
        group->ops->heartbeat(group, ask);
        return;
    }
    if (ask->group_id.null || ask->group_id.bytes == 0) err = OT_ERR_INVALID_GROUP_ID;
    else if (group != NULL && group->ops == &group_classic_ops) err = heartbeat(group, ask->request);
    ot_heartbeat_response_defaults(response);
    response->error_code = ot_err_kafka(err);
    group_answer(set, ask, err);
}

/* ---- LeaveGroup */

static enum ot_err leave_one(struct group *group, struct ot_str member_id, struct ot_str instance_id)
{
    struct classic_pending *pending = classic_pending_find(group, member_id);
    struct classic_member *member;
    if (member_id.bytes == 0) {                /* an administrator takes a static member out */
        member = classic_static(group, instance_id);
        if (member == NULL) return OT_ERR_UNKNOWN_MEMBER_ID;
    } else if (pending != NULL) {
        classic_pending_remove(pending);
        return OT_OK;
    } else {
        const enum ot_err err = classic_member_check(group, member_id, instance_id);
        if (err != OT_OK) return err;
        member = classic_member(group, member_id);
    }
    classic_member_remove(member, OT_ERR_UNKNOWN_MEMBER_ID);
    return OT_OK;
}

static void left(struct group *group, struct ot_str member_id, struct ot_str reason)
{
    const struct classic *classic = classic_of(group);
    if (classic->state == CLASSIC_STABLE || classic->state == CLASSIC_COMPLETING) classic_prepare(group, GROUP_REASON_LEFT, NULL, member_id, reason);
    else classic_maybe_complete(group);
}

static enum ot_err leave_members(struct group *group, struct group_ask *ask)
{
    const struct ot_leave_group_request *request = ask->request;
    struct ot_leave_group_response *response = ask->response;
    bool any = false;
    struct ot_str who = no_text, why = no_text;
    response->members.items = ot_arena_array(ask->arena, OT_MAX((size_t)request->members.count, (size_t)1), sizeof *response->members.items);
    if (response->members.items == NULL) return OT_ERR_UNKNOWN_SERVER_ERROR;
    response->members.count = request->members.count;
    for (int32_t i = 0; i < request->members.count; i++) {
        const struct ot_leave_group_request_member_identity *asked = &request->members.items[i];
        const enum ot_err err = group == NULL ? OT_ERR_UNKNOWN_MEMBER_ID : leave_one(group, asked->member_id, asked->group_instance_id);
        response->members.items[i] = (struct ot_leave_group_response_member_response){ .member_id = asked->member_id, .group_instance_id = asked->group_instance_id,
            .error_code = ot_err_kafka(err) };
        if (err != OT_OK || any) continue;
        any = true;
        who = asked->member_id;
        why = asked->reason;
    }
    if (any) left(group, who, why);
    return OT_OK;
}

void classic_leave(struct group_set *set, struct group_ask *ask)
{
    const struct ot_leave_group_request *request = ask->request;
    struct ot_leave_group_response *response = ask->response;
    struct group *group = group_find(set, ask->group_id);
    enum ot_err err;
    if (group != NULL && group->ops->leave != NULL) {
        group->ops->leave(group, ask);
        return;
    }
    if (group != NULL && group->ops != &group_classic_ops) group = NULL;
    ot_leave_group_response_defaults(response);
    if (ask->group_id.null || ask->group_id.bytes == 0) {
        err = OT_ERR_INVALID_GROUP_ID;
    } else if (ask->version >= 3) {
        err = leave_members(group, ask);
    } else {
        err = group == NULL ? OT_ERR_UNKNOWN_MEMBER_ID : leave_one(group, request->member_id, no_text);
        if (err == OT_OK) left(group, request->member_id, no_text);
    }
    response->error_code = ot_err_kafka(err);
    group_answer(set, ask, err);
}
