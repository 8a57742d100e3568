/* From what a member has to what it should have, one step at a time:
 *   stays    what it has and should have, with the epoch it got it in
 *   revoking what it has and should not: it must say that it has it no more, until then its epoch stands still
 *   comes    what it should have and nobody holds: given at once, in the epoch of the target
 *   held     what it should have and others still hold: it asks again with each heartbeat */
#include "coordinator/consumer_inner.h"

struct sets { struct coord_cg_parts stays, revoking, comes; bool held; };

static bool subscribed_to(const struct ot_uuid *ids, uint32_t count, const struct ot_uuid *id)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (memcmp(&ids[middle], id, sizeof(*id)) < 0) low = middle + 1;
        else high = middle;
    }
    return low < count && ot_uuid_equal(&ids[low], id);
}

static bool is_free(const struct cg_step *step, const struct coord_cg_part *part)
{
    const struct cg_member *owner = cg_owner(step->cg, &part->topic_id, part->partition);
    if (owner == NULL) return true;
    const bool own = owner == step->draft.old || owner == step->draft.replaced;
    return own && cg_parts_have(&step->draft.revoking, &part->topic_id, part->partition, NULL);
}

static enum ot_err split(const struct cg_step *step, const struct ot_uuid *ids, uint32_t id_count, struct sets *out)
{
    const struct coord_cg_parts *has = &step->draft.assigned, *target = &step->draft.target;
    *out = (struct sets){ cg_parts_room(step->call->arena, has->count), cg_parts_room(step->call->arena, has->count), cg_parts_room(step->call->arena, target->count), false };
    if (out->stays.items == NULL || out->revoking.items == NULL || out->comes.items == NULL) return OT_ERR_NO_MEMORY;
    for (uint32_t i = 0, k = 0; i < has->count || k < target->count;) {
        const int order = i == has->count ? 1 : k == target->count ? -1 : cg_part_order(&has->items[i], &target->items[k]);
        const bool wanted = order >= 0 && subscribed_to(ids, id_count, &target->items[k].topic_id);
        if (order == 0 && wanted) out->stays.items[out->stays.count++] = has->items[i];
        else if (order <= 0) out->revoking.items[out->revoking.count++] = has->items[i];
        else if (wanted && is_free(step, &target->items[k])) {
            out->comes.items[out->comes.count] = target->items[k];
            out->comes.items[out->comes.count++].epoch = step->assignment_epoch;
        } else if (wanted) out->held = true;
        i += order <= 0;
        k += order >= 0;
    }
    return OT_OK;
}

static bool still_owns(const struct coord_cg_parts *owned, const struct coord_cg_parts *revoking)
{
    return owned == NULL || cg_parts_meet(owned, revoking);
}

static void draft_epoch(struct cg_draft *draft, int32_t epoch)
{
    draft->previous_epoch = draft->epoch;
    draft->epoch = epoch;
}

static enum ot_err next_assignment(struct cg_step *step, const struct coord_cg_parts *owned)
{
    struct cg_draft *draft = &step->draft;
    struct ot_uuid *ids;
    uint32_t id_count;
    struct sets sets;
    enum ot_err err = cg_subscribed_ids(step, &ids, &id_count);
    if (err == OT_OK) err = split(step, ids, id_count, &sets);
    if (err != OT_OK) return err;
    /* That it does not have it is proof only from who joins: a member that is about to take up what it was given does not have it yet either, and will. */
    if (sets.revoking.count > 0 && (!step->joins || still_owns(owned, &sets.revoking))) {
        draft->state = COORD_CG_MEMBER_UNREVOKED;
        draft_epoch(draft, draft->epoch);
        draft->assigned = sets.stays;
        draft->revoking = sets.revoking;
        return OT_OK;
    }
    step->call->moved += sets.comes.count;
    draft->state = sets.held ? COORD_CG_MEMBER_UNRELEASED : COORD_CG_MEMBER_STABLE;
    draft_epoch(draft, step->assignment_epoch);
    draft->revoking = (struct coord_cg_parts){ NULL, 0 };
    return cg_parts_union(step->call->arena, &sets.stays, &sets.comes, &draft->assigned);
}

/* The subscription shrank, and there is no new target yet: what it does not want any more is taken back at once. */
static enum ot_err shrink(struct cg_step *step, const struct coord_cg_parts *owned)
{
    struct cg_draft *draft = &step->draft;
    struct ot_uuid *ids;
    uint32_t id_count;
    enum ot_err err = cg_subscribed_ids(step, &ids, &id_count);
    struct coord_cg_parts stays = cg_parts_room(step->call->arena, draft->assigned.count), gone = cg_parts_room(step->call->arena, draft->assigned.count), revoking;
    if (err != OT_OK) return err;
    if (stays.items == NULL || gone.items == NULL) return OT_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < draft->assigned.count; i++) {
        struct coord_cg_parts *to = subscribed_to(ids, id_count, &draft->assigned.items[i].topic_id) ? &stays : &gone;
        to->items[to->count++] = draft->assigned.items[i];
    }
    if (gone.count == 0) return OT_OK;
    err = cg_parts_union(step->call->arena, &draft->revoking, &gone, &revoking);
    if (err != OT_OK) return err;
    draft_epoch(draft, draft->epoch);
    draft->assigned = stays;
    if (!step->joins || still_owns(owned, &revoking)) {
        draft->state = COORD_CG_MEMBER_UNREVOKED;
        draft->revoking = revoking;
    }
    return OT_OK;
}

static enum ot_err walk(struct cg_step *step, bool subscription_changed, const struct coord_cg_parts *owned)
{
    struct cg_draft *draft = &step->draft;
    switch (draft->state) {
    case COORD_CG_MEMBER_STABLE:
        if (draft->epoch != step->assignment_epoch) return next_assignment(step, owned);
        return subscription_changed ? shrink(step, owned) : OT_OK;
    case COORD_CG_MEMBER_UNREVOKED:
        if (!still_owns(owned, &draft->revoking)) return next_assignment(step, owned);
        return subscription_changed ? shrink(step, owned) : OT_OK;
    case COORD_CG_MEMBER_UNKNOWN:                              /* written by a later version: begin from nothing */
        if (owned == NULL || owned->count > 0)
            return cg_error(step->call, OT_ERR_FENCED_MEMBER_EPOCH, "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.");
        draft->epoch = step->assignment_epoch;
        return next_assignment(step, owned);
    default: return next_assignment(step, owned);
    }
}

enum ot_err cg_reconcile(struct cg_step *step, bool subscription_changed, const struct coord_cg_parts *owned)
{
    const struct cg_draft before = step->draft;
    struct cg_draft *draft = &step->draft;
    if (!subscription_changed && draft->state == COORD_CG_MEMBER_STABLE && draft->epoch == step->assignment_epoch) return OT_OK;
    const enum ot_err err = walk(step, subscription_changed, owned);
    if (err != OT_OK) return err;
    if (before.epoch == draft->epoch && before.previous_epoch == draft->previous_epoch && before.state == draft->state &&
        cg_parts_equal(&before.assigned, &draft->assigned) && cg_parts_equal(&before.revoking, &draft->revoking)) return OT_OK;
    return cg_put_current(step->cg, step->call, draft);
}
