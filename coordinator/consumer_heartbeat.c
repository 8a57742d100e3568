#include "base/wire/consumer_group_heartbeat_request.h"
#include "base/wire/consumer_group_heartbeat_response.h"
#include "coordinator/consumer_inner.h"
#include <stdio.h>

enum { EPOCH_JOIN = 0, EPOCH_LEAVE = -1, EPOCH_LEAVE_STATIC = -2, SOON_MS_MIN = 200, ID_BYTES_MAX = 255, KEPT_US = 30000000 };

/* ---- what can be said without the group */

static bool blank(struct ot_str text)
{
    for (uint32_t i = 0; i < text.bytes; i++)
        if ((unsigned char)text.data[i] > ' ') return false;
    return !text.null;
}

static enum ot_err check_join(const struct ot_consumer_group_heartbeat_request *request, struct coord_cg_call *call)
{
    if (request->rebalance_timeout_ms == -1) return cg_error(call, OT_ERR_INVALID_REQUEST, "RebalanceTimeoutMs must be provided in first request.");
    if (request->topic_partitions.count != 0) return cg_error(call, OT_ERR_INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining.");
    if (request->subscribed_topic_names.count < 0 && request->subscribed_topic_regex.null)
        return cg_error(call, OT_ERR_INVALID_REQUEST, "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.");
    return OT_OK;
}

/* Each change of the target names the members that it is for: ids of any length would fill it. */
static enum ot_err check_lengths(const struct ot_consumer_group_heartbeat_request *request, struct coord_cg_call *call)
{
    const bool joins = request->member_epoch == EPOCH_JOIN;    /* who is in the group may stay, and leave */
    if (joins && request->member_id.bytes > ID_BYTES_MAX) return cg_error(call, OT_ERR_INVALID_REQUEST, "MemberId is longer than %d bytes.", ID_BYTES_MAX);
    if (joins && request->instance_id.bytes > ID_BYTES_MAX) return cg_error(call, OT_ERR_INVALID_REQUEST, "InstanceId is longer than %d bytes.", ID_BYTES_MAX);
    if (request->rack_id.bytes > ID_BYTES_MAX) return cg_error(call, OT_ERR_INVALID_REQUEST, "RackId is longer than %d bytes.", ID_BYTES_MAX);
    return OT_OK;
}

static enum ot_err check_assignor(struct ot_str name, struct coord_cg_call *call)
{
    char all[64] = "";
    size_t at = 0;
    for (uint32_t i = 0; i < call->config->assignor_count; i++) {
        const char *known = coord_assignor_name(call->config->assignors[i]);
        if (ot_str_equal(name, ot_str_of(known))) return OT_OK;
        at += (size_t)snprintf(all + at, sizeof(all) - at, "%s%s", i == 0 ? "" : ", ", known);
    }
    return cg_error(call, OT_ERR_UNSUPPORTED_ASSIGNOR, "ServerAssignor %.*s is not supported. Supported assignors: %s.", CG_S(name), all);
}

enum ot_err coord_cg_check(const struct ot_consumer_group_heartbeat_request *request, int16_t version, struct coord_cg_call *call)
{
    const int32_t epoch = request->member_epoch;
    if ((version >= 1 || epoch > 0 || epoch == EPOCH_LEAVE) && blank(request->member_id)) return cg_error(call, OT_ERR_INVALID_REQUEST, "MemberId can't be empty.");
    if (blank(request->group_id)) return cg_error(call, OT_ERR_INVALID_REQUEST, "GroupId can't be empty.");
    if (blank(request->instance_id)) return cg_error(call, OT_ERR_INVALID_REQUEST, "InstanceId can't be empty.");
    if (blank(request->rack_id)) return cg_error(call, OT_ERR_INVALID_REQUEST, "RackId can't be empty.");
    enum ot_err err = check_lengths(request, call);
    if (err == OT_OK && epoch == EPOCH_JOIN) err = check_join(request, call);
    if (err != OT_OK) return err;
    if (epoch == EPOCH_LEAVE_STATIC && request->instance_id.null) return cg_error(call, OT_ERR_INVALID_REQUEST, "InstanceId can't be null.");
    if (epoch < EPOCH_LEAVE_STATIC) return cg_error(call, OT_ERR_INVALID_REQUEST, "MemberEpoch is invalid.");
    if (request->rebalance_timeout_ms < -1) return cg_error(call, OT_ERR_INVALID_REQUEST, "RebalanceTimeoutMs is invalid.");
    return request->server_assignor.null ? OT_OK : check_assignor(request->server_assignor, call);
}

/* ---- who is it */

void cg_draft_of(struct cg_step *step, const struct cg_member *member, struct ot_str id)
{
    struct cg_draft *draft = &step->draft;
    *draft = (struct cg_draft){ .old = member, .id = id, .state = COORD_CG_MEMBER_STABLE, .previous_epoch = -1, .meta = { .rebalance_timeout_ms = -1 } };
    draft->meta.instance_id = draft->meta.rack_id = draft->meta.regex = draft->meta.assignor = draft->meta.client_id = draft->meta.client_host = ot_str_of(NULL);
    step->is_new = member == NULL;
    if (member == NULL) return;
    draft->id = member->id;
    draft->meta = step->before = *member->meta;
    draft->epoch = member->epoch;
    draft->previous_epoch = member->previous_epoch;
    draft->state = member->state;
    draft->assigned = member->assigned;
    draft->revoking = member->revoking;
    draft->target = member->target;
}

/* A static member comes back under another id: it takes over everything but the epochs. */
enum ot_err cg_replace(struct cg_step *step, const struct cg_member *old, struct ot_str new_id)
{
    cg_draft_of(step, old, new_id);
    step->draft.id = new_id;
    step->draft.epoch = step->draft.previous_epoch = 0;
    step->draft.replaced = old;
    step->draft.old = NULL;
    enum ot_err err = cg_put_member_gone(step->cg, step->call, old->id);
    if (err == OT_OK) err = cg_put_member(step->cg, step->call, new_id, &step->draft.meta);
    if (err == OT_OK) err = cg_put_target(step->cg, step->call, new_id, &step->draft.target);
    return err == OT_OK ? cg_put_current(step->cg, step->call, &step->draft) : err;
}

enum ot_err cg_find(struct coord_cg *cg, struct coord_cg_call *call, struct ot_str member_id, struct ot_str instance_id, struct cg_member **out)
{
    *out = instance_id.null ? cg_member(cg, member_id) : cg_static_member(cg, instance_id);
    if (*out == NULL && instance_id.null)
        return cg_error(call, OT_ERR_UNKNOWN_MEMBER_ID, "Member %.*s is not a member of group %.*s.", CG_S(member_id), CG_S(cg->id));
    if (*out == NULL) return cg_error(call, OT_ERR_UNKNOWN_MEMBER_ID, "Instance id %.*s is unknown.", CG_S(instance_id));
    if (ot_str_equal((*out)->id, member_id)) return OT_OK;
    return cg_error(call, OT_ERR_FENCED_INSTANCE_ID, "Static member %.*s with instance id %.*s was fenced by member %.*s.", (int)OT_MIN(member_id.bytes, 40u), member_id.data,
        (int)OT_MIN(instance_id.bytes, 40u), instance_id.data, (int)OT_MIN((*out)->id.bytes, 40u), (*out)->id.data);
}

enum ot_err cg_check_full(struct coord_cg *cg, struct coord_cg_call *call, struct ot_str member_id, struct ot_str instance_id)
{
    if (cg_static_member(cg, instance_id) != NULL || cg->member_count < (uint32_t)call->config->size_max || cg_member(cg, member_id) != NULL) return OT_OK;
    return cg_error(call, OT_ERR_GROUP_MAX_SIZE_REACHED, "The consumer group has reached its maximum capacity of %d members.", call->config->size_max);
}

static enum ot_err check_epoch(const struct cg_member *member, struct coord_cg_call *call, int32_t epoch, const struct coord_cg_parts *owned)
{
    if (epoch == EPOCH_JOIN || epoch == member->epoch) return OT_OK;
    /* the answer that told it of its new epoch may have been lost: fine as long as it has nothing that it was not given */
    if (epoch < member->epoch && epoch == member->previous_epoch && owned != NULL && cg_parts_within(owned, &member->assigned)) return OT_OK;
    return cg_error(call, OT_ERR_FENCED_MEMBER_EPOCH, "The consumer group member has a %s member epoch (%d) than the one known by the group coordinator (%d). "
        "The member must abandon all its partitions and rejoin.", epoch > member->epoch ? "greater" : "smaller", epoch, member->epoch);
}

static enum ot_err enter(struct cg_step *step, const struct ot_consumer_group_heartbeat_request *request, const struct coord_cg_parts *owned)
{
    struct coord_cg *cg = step->cg;
    struct cg_member *member;
    step->joins = request->member_epoch == EPOCH_JOIN;
    if (!step->joins) {
        enum ot_err err = cg_find(cg, step->call, request->member_id, request->instance_id, &member);
        if (err == OT_OK) err = check_epoch(member, step->call, request->member_epoch, owned);
        if (err == OT_OK) cg_draft_of(step, member, member->id);
        return err;
    }
    member = request->instance_id.null ? cg_member(cg, request->member_id) : cg_static_member(cg, request->instance_id);
    if (request->instance_id.null || member == NULL) {
        cg_draft_of(step, member == NULL ? cg_member(cg, request->member_id) : member, request->member_id);
        return OT_OK;
    }
    if (!member->meta->classic && member->epoch != EPOCH_LEAVE_STATIC)
        return cg_error(step->call, OT_ERR_UNRELEASED_INSTANCE_ID, "Static member %.*s with instance id %.*s cannot join the group because the instance id is owned by %.*s member.",
            (int)OT_MIN(request->member_id.bytes, 36u), request->member_id.data, (int)OT_MIN(request->instance_id.bytes, 24u), request->instance_id.data,
            (int)OT_MIN(member->id.bytes, 36u), member->id.data);
    if (ot_str_equal(member->id, request->member_id)) {        /* the same process joins anew: nothing to replace */
        cg_draft_of(step, member, member->id);
        step->draft.epoch = step->draft.previous_epoch = 0;
        return OT_OK;
    }
    return cg_replace(step, member, request->member_id);
}

/* ---- the step of a heartbeat, and of a classic member's join */

static void undo_to(struct coord_cg_call *call, const struct coord_cg_call *at)
{
    call->records = at->records;
    call->records_last = at->records_last;
    if (call->records_last != NULL) call->records_last->next = NULL;
    call->record_count = at->record_count;
    call->record_bytes = at->record_bytes;
    call->moved = at->moved;
}

/* A new target is one change, whoever's heartbeat it comes with. One that does not fit must not be the fault of all of them: the group goes on with the target it has,
 * and tries again later. Without any target there is nothing to go on with. */
static enum ot_err towards_target(struct cg_step *step, bool subscription_changed, const struct coord_cg_parts *owned)
{
    struct coord_cg *cg = step->cg;
    struct coord_cg_call *call = step->call;
    const struct coord_cg_call call_before = *call;
    const struct cg_draft draft_before = step->draft;
    enum ot_err err = cg_take_target(step);
    if (err == OT_OK) err = cg_reconcile(step, subscription_changed, owned);
    if (err != OT_OK || step->assignment_epoch == cg->assignment_epoch) return err;
    if (call->record_bytes <= call->config->record_bytes_max) {
        cg->kept_epoch = 0;
        return OT_OK;
    }
    if (cg->assigned_ms == 0) return OT_OK;                    /* refused in the end */
    undo_to(call, &call_before);
    step->draft = draft_before;
    step->assignment_epoch = cg->assignment_epoch;
    call->target_kept = cg->kept_epoch == 0;
    cg->kept_epoch = step->epoch;
    cg->kept_until_us = call->now_us + KEPT_US;
    return cg_reconcile(step, subscription_changed, owned);
}

enum ot_err cg_advance(struct cg_step *step, const struct coord_cg_parts *owned)
{
    struct cg_draft *draft = &step->draft;
    bool names_changed = false, regex_changed, moved;
    enum coord_assignor before = COORD_ASSIGN_UNIFORM, after = COORD_ASSIGN_UNIFORM;
    enum ot_err err = OT_OK;
    if (step->is_new || !cg_meta_equal(&step->before, &draft->meta)) {
        names_changed = step->is_new ? draft->meta.topic_count > 0 :
            !cg_names_equal(step->before.topics, step->before.topic_count, draft->meta.topics, draft->meta.topic_count);
        err = cg_put_member(step->cg, step->call, draft->id, &draft->meta);
        if (err == OT_OK) err = cg_check_size(step->call);     /* before its names are looked up one by one */
    }
    if (err == OT_OK) err = cg_take_regexes(step, &regex_changed, &moved);
    const bool votes = !ot_str_equal(step->is_new ? ot_str_of(NULL) : step->before.assignor, draft->meta.assignor);
    if (err == OT_OK && votes) err = cg_assignors(step, &before, &after);
    if (err != OT_OK) return err;
    if (before != after) step->call->event = COORD_CG_ASSIGNOR;
    if (names_changed || regex_changed) step->call->event = step->is_new ? COORD_CG_JOINED : COORD_CG_SUBSCRIPTION;
    err = cg_take_epoch(step, names_changed || moved || before != after);
    return err == OT_OK ? towards_target(step, names_changed || regex_changed, owned) : err;
}

enum ot_err cg_finish(struct cg_step *step, struct cg_member **member_out)
{
    struct coord_cg *cg = step->cg;
    const struct ot_str id = step->draft.id;
    const struct coord_cg_topics *topics = step->call->topics;
    *member_out = NULL;
    const enum ot_err err = cg_apply(cg, step->call);
    if (err != OT_OK) return err;
    cg->seen_version = topics->version;
    if (step->refreshed) {
        cg->regex_names_version = topics->names_version;
        cg->regex_done_us = step->call->now_us;
    }
    *member_out = cg_member(cg, id);
    OT_ASSERT(*member_out != NULL);
    return OT_OK;
}

static enum ot_err take_meta(struct cg_step *step, const struct ot_consumer_group_heartbeat_request *request, struct ot_str client_id, struct ot_str client_host)
{
    struct cg_meta *meta = &step->draft.meta;
    if (!request->instance_id.null) meta->instance_id = request->instance_id;
    if (!request->rack_id.null) meta->rack_id = request->rack_id;
    if (request->rebalance_timeout_ms != -1) meta->rebalance_timeout_ms = request->rebalance_timeout_ms;
    if (!request->server_assignor.null) meta->assignor = request->server_assignor;
    if (!request->subscribed_topic_regex.null) meta->regex = request->subscribed_topic_regex.bytes == 0 ? ot_str_of(NULL) : request->subscribed_topic_regex;
    meta->client_id = client_id.null ? (struct ot_str){ "", 0, false } : client_id;
    meta->client_host = client_host;
    meta->classic = false;
    meta->session_timeout_ms = 0;
    meta->protocols = NULL;
    meta->protocol_count = 0;
    if (request->subscribed_topic_names.count < 0) return OT_OK;
    meta->topic_count = (uint32_t)request->subscribed_topic_names.count;
    meta->topics = ot_arena_array(step->call->arena, meta->topic_count, sizeof(*meta->topics));
    if (meta->topics == NULL) return OT_ERR_NO_MEMORY;
    if (meta->topic_count > 0) memcpy(meta->topics, request->subscribed_topic_names.items, meta->topic_count * sizeof(*meta->topics));
    cg_names_sort(meta->topics, &meta->topic_count);
    return OT_OK;
}

static enum ot_err take_owned(struct ot_arena *arena, const struct ot_consumer_group_heartbeat_request *request, struct coord_cg_parts *out)
{
    size_t count = 0;
    for (int32_t i = 0; i < request->topic_partitions.count; i++) count += (size_t)OT_MAX(request->topic_partitions.items[i].partitions.count, 0);
    *out = cg_parts_room(arena, count);
    if (out->items == NULL) return OT_ERR_NO_MEMORY;
    for (int32_t i = 0; i < request->topic_partitions.count; i++)
        for (int32_t k = 0; k < request->topic_partitions.items[i].partitions.count; k++)
            out->items[out->count++] = (struct coord_cg_part){ request->topic_partitions.items[i].topic_id, request->topic_partitions.items[i].partitions.items[k], 0 };
    cg_parts_sort(out);
    return OT_OK;
}

/* ---- the answer */

static enum ot_err answer_assignment(struct ot_arena *arena, const struct coord_cg_parts *parts, struct ot_consumer_group_heartbeat_response *out)
{
    struct ot_consumer_group_heartbeat_response_assignment *assignment = ot_arena_alloc(arena, sizeof(*assignment));
    struct ot_consumer_group_heartbeat_response_topic_partitions *list = ot_arena_array(arena, parts->count, sizeof(*list));
    int32_t *partitions = ot_arena_array(arena, parts->count, sizeof(*partitions)), count = 0;
    if (assignment == NULL || list == NULL || partitions == NULL) return OT_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < parts->count; i++) {
        partitions[i] = parts->items[i].partition;
        if (i == 0 || !ot_uuid_equal(&parts->items[i - 1].topic_id, &parts->items[i].topic_id)) {
            list[count].topic_id = parts->items[i].topic_id;
            list[count++].partitions.items = &partitions[i];
        }
        list[count - 1].partitions.count++;
    }
    assignment->topic_partitions = (struct ot_consumer_group_heartbeat_response_topic_partitions_array){ list, count };
    out->assignment = assignment;
    return OT_OK;
}

static bool wants_assignment(const struct cg_step *step, const struct ot_consumer_group_heartbeat_request *request)
{
    const bool full = request->rebalance_timeout_ms != -1 && (request->subscribed_topic_names.count >= 0 || !request->subscribed_topic_regex.null) &&
        request->topic_partitions.count >= 0;
    const struct coord_cg_parts nothing = { NULL, 0 };
    return request->member_epoch == EPOCH_JOIN || full || !cg_parts_equal(step->draft.old == NULL ? &nothing : &step->draft.old->assigned, &step->draft.assigned);
}

/* Who waits for others, or for the next target, is told to ask again soon: a rebalance then takes the heartbeat in which the last member hears of it and not two. */
static int32_t next_heartbeat_ms(const struct cg_step *step)
{
    const int32_t usual_ms = step->call->config->heartbeat_interval_ms;
    if (step->draft.state != COORD_CG_MEMBER_UNRELEASED && (step->assignment_epoch >= step->epoch || step->cg->kept_epoch == step->epoch)) return usual_ms;
    return OT_MAX(OT_MIN(usual_ms, SOON_MS_MIN), usual_ms / 10);
}

static enum ot_err answer(const struct cg_step *step, const struct ot_consumer_group_heartbeat_request *request, struct ot_consumer_group_heartbeat_response *out)
{
    const char *id = ot_arena_str(cg_answers(step->call), step->draft.id);
    ot_consumer_group_heartbeat_response_defaults(out);
    out->member_id = (struct ot_str){ id, step->draft.id.bytes, false };
    out->member_epoch = step->draft.epoch;
    out->heartbeat_interval_ms = next_heartbeat_ms(step);
    if (id == NULL) return OT_ERR_NO_MEMORY;
    return wants_assignment(step, request) ? answer_assignment(cg_answers(step->call), &step->draft.assigned, out) : OT_OK;
}

/* ---- leaving */

enum ot_err cg_fence(struct coord_cg *cg, struct coord_cg_call *call, const struct cg_member *const *leavers, uint32_t count, enum coord_cg_event event)
{
    enum ot_err err = OT_OK;
    int64_t hash = 0;
    call->event = event;
    if (cg_would_downgrade(cg, call, leavers, count)) return cg_downgrade(cg, call, leavers, count, NULL, cg->epoch, "the last member of the new protocol left");
    for (uint32_t i = 0; i < count && err == OT_OK; i++) err = cg_put_member_gone(cg, call, leavers[i]->id);
    for (uint32_t r = 0; r < cg->regexes.count && err == OT_OK; r++) {
        const struct ot_str pattern = { (const char *)cg->regexes.entries[r].key, cg->regexes.entries[r].key_bytes, false };
        uint32_t users = 0;
        for (uint32_t i = 0; i < count; i++) users += ot_str_equal(leavers[i]->meta->regex, pattern);
        if (users > 0 && cg_regex_users(cg, pattern) == users) err = cg_put_regex_gone(cg, call, pattern);
    }
    if (err == OT_OK) err = cg_hash_without(cg, call, leavers, count, &hash);
    if (err == OT_OK) err = cg_put_epoch(cg, call, cg->epoch + 1, hash);
    if (err == OT_OK && count == cg->member_count) err = cg_put_assignment(cg, call, cg->epoch + 1, 0);
    return err == OT_OK ? cg_apply(cg, call) : err;
}

enum ot_err coord_cg_evict(struct coord_cg *cg, struct coord_cg_call *call, struct ot_str member_id)
{
    const struct cg_member *member = cg_member(cg, member_id);
    if (member == NULL) return cg_error(call, OT_ERR_UNKNOWN_MEMBER_ID, "Member %.*s is not a member of group %.*s.", CG_S(member_id), CG_S(cg->id));
    return cg_fence(cg, call, &member, 1, COORD_CG_EVICTED);
}

static enum ot_err leave(struct coord_cg *cg, struct coord_cg_call *call, const struct ot_consumer_group_heartbeat_request *request,
    struct ot_consumer_group_heartbeat_response *out)
{
    struct cg_member *member;
    struct cg_step step = { .cg = cg, .call = call };
    enum ot_err err = cg_find(cg, call, request->member_id, request->instance_id, &member);
    if (err != OT_OK) return err;
    ot_consumer_group_heartbeat_response_defaults(out);
    out->member_id = request->member_id;
    out->member_epoch = request->member_epoch;
    if (request->member_epoch == EPOCH_LEAVE) return cg_fence(cg, call, (const struct cg_member *const *)&member, 1, COORD_CG_LEFT);
    /* a static member that will be back before its session ends: it keeps what it has */
    cg_draft_of(&step, member, member->id);
    step.draft.epoch = EPOCH_LEAVE_STATIC;
    step.draft.revoking = (struct coord_cg_parts){ NULL, 0 };
    struct coord_cg_parts kept = cg_parts_room(call->arena, member->assigned.count);
    if (kept.items == NULL) return OT_ERR_NO_MEMORY;
    for (; kept.count < member->assigned.count; kept.count++) {
        kept.items[kept.count] = member->assigned.items[kept.count];
        kept.items[kept.count].epoch = 0;
    }
    step.draft.assigned = kept;
    err = cg_put_current(cg, call, &step.draft);
    if (err == OT_OK) err = cg_apply(cg, call);
    if (err == OT_OK) member->rebalance_due_us = INT64_MAX;
    return err;
}

/* ---- a heartbeat */

enum ot_err coord_cg_heartbeat(struct coord_cg *cg, struct coord_cg_call *call, const struct ot_consumer_group_heartbeat_request *request, struct ot_str client_id,
    struct ot_str client_host, struct ot_consumer_group_heartbeat_response *out)
{
    struct cg_step step = { .cg = cg, .call = call };
    struct coord_cg_parts owned;
    struct cg_member *member;
    if (request->member_epoch < EPOCH_JOIN) return leave(cg, call, request, out);
    enum ot_err err = cg_check_full(cg, call, request->member_id, request->instance_id);
    if (err == OT_OK) err = take_owned(call->arena, request, &owned);
    const struct coord_cg_parts *owned_or_not = request->topic_partitions.count < 0 ? NULL : &owned;
    if (err == OT_OK) err = enter(&step, request, owned_or_not);
    if (err == OT_OK) err = take_meta(&step, request, client_id, client_host);
    if (err == OT_OK) err = cg_advance(&step, owned_or_not);
    if (err == OT_OK) err = answer(&step, request, out);
    const struct cg_member *old = step.draft.old;
    const bool waits_anew = old == NULL || old->state != COORD_CG_MEMBER_UNREVOKED || !cg_parts_equal(&old->revoking, &step.draft.revoking);
    if (err == OT_OK) err = cg_finish(&step, &member);
    if (err != OT_OK) return err;
    cg_due(cg, &member->session_due_us, call->now_us + (int64_t)call->config->session_timeout_ms * 1000);
    member->join_due_us = member->sync_due_us = INT64_MAX;
    if (member->state != COORD_CG_MEMBER_UNREVOKED) member->rebalance_due_us = INT64_MAX;
    else if (waits_anew)
        cg_due(cg, &member->rebalance_due_us, call->now_us + (int64_t)member->meta->rebalance_timeout_ms * 1000);
    return OT_OK;
}
