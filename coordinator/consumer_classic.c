/* Members that speak the classic protocol in a consumer group: JoinGroup is a heartbeat that carries the subscription, SyncGroup fetches the assignment, Heartbeat
 * says when to join again. */
#include "coordinator/consumer_convert.h"

static const char protocol_type_consumer[] = "consumer";

static bool all_support(const struct coord_cg *cg, struct ot_str name)
{
    for (uint32_t i = 0; i < cg->members.count; i++) {
        const struct cg_member *member = cg->members.entries[i].value;
        bool has = member->meta == NULL || !member->meta->classic;
        for (uint32_t k = 0; !has && k < member->meta->protocol_count; k++) has = ot_str_equal(member->meta->protocols[k].name, name);
        if (!has) return false;
    }
    return true;
}

static enum ot_err check_join(const struct coord_cg *cg, struct coord_cg_call *call, const struct coord_cg_join *join)
{
    bool supported = false;
    if (call->config->migration == COORD_CG_NO_MIGRATION)
        return cg_error(call, OT_ERR_INCONSISTENT_GROUP_PROTOCOL, "Cannot join the consumer group %.*s with the classic protocol because the group migration is disabled.", CG_S(cg->id));
    for (uint32_t i = 0; i < join->protocol_count && !supported; i++) supported = all_support(cg, join->protocols[i].name);
    if (supported && ot_str_equal(join->protocol_type, ot_str_of(protocol_type_consumer))) return OT_OK;
    return cg_error(call, OT_ERR_INCONSISTENT_GROUP_PROTOCOL, "Member %.*s's protocols are not supported.", CG_S(join->member_id));
}

static enum ot_err enter(struct cg_step *step, const struct coord_cg_join *join, bool *downgrade)
{
    struct coord_cg *cg = step->cg;
    struct cg_member *member = cg_static_member(cg, join->instance_id);
    *downgrade = false;
    if (join->instance_id.null) {
        cg_draft_of(step, cg_member(cg, join->member_id), join->member_id);
        return OT_OK;
    }
    if (member != NULL && !member->meta->classic)
        *downgrade = cg->classic_count == cg->member_count - 1 && (step->call->config->migration & COORD_CG_DOWNGRADE) != 0 &&
            cg->member_count <= (uint32_t)step->call->config->classic_size_max;
    if (!join->is_new) {
        const enum ot_err err = cg_find(cg, step->call, join->member_id, join->instance_id, &member);
        if (err == OT_OK) cg_draft_of(step, member, member->id);
        return err;
    }
    if (member == NULL) {
        cg_draft_of(step, NULL, join->member_id);
        return OT_OK;
    }
    if (!*downgrade) return cg_replace(step, member, join->member_id);
    cg_draft_of(step, member, join->member_id);                /* the group ends: no records of the exchange */
    step->draft.id = join->member_id;
    step->draft.replaced = member;
    step->draft.old = NULL;
    return OT_OK;
}

static void take_meta(struct cg_step *step, const struct coord_cg_join *join, const struct cg_subscription *subscription)
{
    struct cg_meta *meta = &step->draft.meta;
    if (!join->instance_id.null) meta->instance_id = join->instance_id;
    if (!subscription->rack_id.null) meta->rack_id = subscription->rack_id;
    if (join->rebalance_timeout_ms != -1) meta->rebalance_timeout_ms = join->rebalance_timeout_ms;
    meta->topics = subscription->topics;
    meta->topic_count = subscription->topic_count;
    meta->regex = ot_str_of(NULL);
    meta->client_id = join->client_id.null ? (struct ot_str){ "", 0, false } : join->client_id;
    meta->client_host = join->client_host;
    meta->classic = true;
    meta->session_timeout_ms = join->session_timeout_ms;
    meta->protocols = (struct coord_cg_protocol *)(uintptr_t)join->protocols;
    meta->protocol_count = join->protocol_count;
}

static enum ot_err joined(struct cg_step *step, const struct coord_cg_join *join)
{
    struct cg_member *member;
    const enum ot_err err = cg_finish(step, &member);
    if (err != OT_OK) return err;
    cg_due(step->cg, &member->session_due_us, step->call->now_us + (int64_t)join->session_timeout_ms * 1000);
    cg_due(step->cg, &member->sync_due_us, step->call->now_us + (int64_t)join->rebalance_timeout_ms * 1000);
    member->join_due_us = member->rebalance_due_us = INT64_MAX;
    return OT_OK;
}

enum ot_err coord_cg_classic_join(struct coord_cg *cg, struct coord_cg_call *call, const struct coord_cg_join *join, struct coord_cg_joined *out)
{
    struct cg_step step = { .cg = cg, .call = call, .joins = true };
    struct cg_subscription subscription;
    bool downgrade = false;
    enum ot_err err = check_join(cg, call, join);
    if (err == OT_OK) err = cg_check_full(cg, call, join->member_id, join->instance_id);
    if (err == OT_OK) err = cg_read_subscription(call, join->protocols[0].metadata, &subscription);
    if (err == OT_ERR_MALFORMED) return cg_error(call, OT_ERR_INCONSISTENT_GROUP_PROTOCOL, "Malformed embedded consumer protocol in subscription deserialization.");
    if (err == OT_OK) err = enter(&step, join, &downgrade);
    if (err != OT_OK) return err;
    take_meta(&step, join, &subscription);
    *out = (struct coord_cg_joined){ cg->epoch, join->protocols[0].name };
    if (downgrade) {                                           /* the last of the new protocol came back as a classic one */
        err = cg_downgrade(cg, call, NULL, 0, &step.draft, cg->epoch, "static member came back with the classic protocol");
        if (err == OT_OK) call->classic->rebalance = cg->assignment_epoch < cg->epoch ||
            !cg_names_equal(step.before.topics, step.before.topic_count, step.draft.meta.topics, step.draft.meta.topic_count);
        return err;
    }
    err = cg_advance(&step, &subscription.owned);
    if (err == OT_OK) out->generation_id = step.draft.epoch;
    return err == OT_OK ? joined(&step, join) : err;
}

static enum ot_err find_classic(struct coord_cg *cg, struct coord_cg_call *call, struct ot_str member_id, struct ot_str instance_id, int32_t generation_id, struct cg_member **out)
{
    const enum ot_err err = cg_find(cg, call, member_id, instance_id, out);
    if (err != OT_OK) return err;
    if (!(*out)->meta->classic) return cg_error(call, OT_ERR_UNKNOWN_MEMBER_ID, "Member %.*s does not use the classic protocol.", CG_S(member_id));
    if ((*out)->epoch == generation_id) return OT_OK;
    return cg_error(call, OT_ERR_ILLEGAL_GENERATION, "The request generation id %d is not equal to the member epoch %d of member %.*s.", generation_id, (*out)->epoch, CG_S(member_id));
}

static void must_join(struct coord_cg *cg, const struct coord_cg_call *call, struct cg_member *member)
{
    if (member->join_due_us == INT64_MAX) cg_due(cg, &member->join_due_us, call->now_us + (int64_t)member->meta->rebalance_timeout_ms * 1000);
}

enum ot_err coord_cg_classic_sync(struct coord_cg *cg, struct coord_cg_call *call, struct ot_str member_id, struct ot_str instance_id, int32_t generation_id,
    struct ot_str protocol_type, struct ot_str protocol_name, struct ot_blob *assignment_out)
{
    struct cg_member *member;
    enum ot_err err = find_classic(cg, call, member_id, instance_id, generation_id, &member);
    if (err != OT_OK) return err;
    const bool type_differs = !protocol_type.null && !ot_str_equal(protocol_type, ot_str_of(protocol_type_consumer));
    if (type_differs || (!protocol_name.null && !ot_str_equal(protocol_name, member->meta->protocols[0].name)))
        return cg_error(call, OT_ERR_INCONSISTENT_GROUP_PROTOCOL, "The protocol of member %.*s is not the one that its join was answered with.", CG_S(member_id));
    if (cg->assignment_epoch > member->epoch && member->state != COORD_CG_MEMBER_UNREVOKED) {
        must_join(cg, call, member);
        return cg_error(call, OT_ERR_REBALANCE_IN_PROGRESS, "A new rebalance is triggered in group %.*s and member %.*s should rejoin to catch up.", CG_S(cg->id), CG_S(member_id));
    }
    err = cg_write_assignment(call, &member->assigned, member->meta->protocols[0].metadata, assignment_out);
    if (err != OT_OK) return err == OT_ERR_MALFORMED ? OT_ERR_INCONSISTENT_GROUP_PROTOCOL : err;
    member->sync_due_us = INT64_MAX;
    cg_due(cg, &member->session_due_us, call->now_us + (int64_t)member->meta->session_timeout_ms * 1000);
    return OT_OK;
}

/* Does it wait for what others still hold? Then joining again would change nothing. */
static bool waits_for_others(const struct coord_cg *cg, const struct cg_member *member)
{
    for (uint32_t i = 0; i < member->target.count; i++) {
        const struct coord_cg_part *part = &member->target.items[i];
        if (cg_parts_have(&member->assigned, &part->topic_id, part->partition, NULL)) continue;
        if (cg_owner(cg, &part->topic_id, part->partition) != NULL) return true;
    }
    return false;
}

enum ot_err coord_cg_classic_heartbeat(struct coord_cg *cg, struct coord_cg_call *call, struct ot_str member_id, struct ot_str instance_id, int32_t generation_id)
{
    struct cg_member *member;
    const enum ot_err err = find_classic(cg, call, member_id, instance_id, generation_id, &member);
    if (err != OT_OK) return err;
    cg_due(cg, &member->session_due_us, call->now_us + (int64_t)member->meta->session_timeout_ms * 1000);
    if (member->epoch >= cg->assignment_epoch && member->state != COORD_CG_MEMBER_UNREVOKED &&
        (member->state != COORD_CG_MEMBER_UNRELEASED || waits_for_others(cg, member))) return OT_OK;
    must_join(cg, call, member);
    return OT_ERR_REBALANCE_IN_PROGRESS;
}

static enum ot_err find_leaver(const struct coord_cg *cg, const struct coord_cg_leaver *leaver, const struct cg_member **out)
{
    *out = leaver->instance_id.null ? cg_member(cg, leaver->member_id) : cg_static_member(cg, leaver->instance_id);
    if (*out == NULL) return OT_ERR_UNKNOWN_MEMBER_ID;
    const bool other = !leaver->instance_id.null && leaver->member_id.bytes > 0 && !ot_str_equal((*out)->id, leaver->member_id);
    return other ? OT_ERR_FENCED_INSTANCE_ID : OT_OK;
}

enum ot_err coord_cg_classic_leave(struct coord_cg *cg, struct coord_cg_call *call, const struct coord_cg_leaver *leavers, uint32_t count, enum ot_err *errors_out)
{
    const struct cg_member **leaving = ot_arena_array(call->arena, count, sizeof(*leaving));
    uint32_t found = 0;
    if (leaving == NULL) return OT_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        const struct cg_member *member;
        errors_out[i] = find_leaver(cg, &leavers[i], &member);
        bool again = false;
        for (uint32_t k = 0; k < found; k++) again = again || leaving[k] == member;
        if (errors_out[i] == OT_OK && !again) leaving[found++] = member;
    }
    return found == 0 ? OT_OK : cg_fence(cg, call, leaving, found, COORD_CG_LEFT);
}
