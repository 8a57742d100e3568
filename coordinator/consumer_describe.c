#include "base/wire/consumer_group_describe_response.h"
#include "coordinator/consumer_inner.h"

/* Topics that are gone have no name and are left out. */
static enum ot_err describe_parts(struct coord_cg_call *call, const struct coord_cg_parts *parts, struct ot_consumer_group_describe_response_assignment *out)
{
    struct ot_consumer_group_describe_response_topic_partitions *list = ot_arena_array(cg_answers(call), parts->count, sizeof(*list));
    int32_t *partitions = ot_arena_array(cg_answers(call), parts->count, sizeof(*partitions)), count = 0;
    struct coord_cg_topic topic;
    bool known = false;
    if (list == NULL || partitions == NULL) return OT_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < parts->count; i++) {
        partitions[i] = parts->items[i].partition;
        if (i == 0 || !ot_uuid_equal(&parts->items[i - 1].topic_id, &parts->items[i].topic_id)) {
            known = call->topics->by_id(call->topics->arg, &parts->items[i].topic_id, &topic);
            if (known) {
                const char *name = ot_arena_str(cg_answers(call), topic.name);
                if (name == NULL) return OT_ERR_NO_MEMORY;
                list[count].topic_id = parts->items[i].topic_id;
                list[count].topic_name = (struct ot_str){ name, topic.name.bytes, false };
                list[count++].partitions.items = &partitions[i];
            }
        }
        if (known) list[count - 1].partitions.count++;
    }
    out->topic_partitions = (struct ot_consumer_group_describe_response_topic_partitions_array){ list, count };
    return OT_OK;
}

static struct ot_str text(struct ot_arena *arena, struct ot_str from, bool *full)
{
    if (from.null) return from;
    const char *copy = ot_arena_str(arena, from);
    *full = *full || copy == NULL;
    return (struct ot_str){ copy, from.bytes, copy == NULL };
}

static enum ot_err describe_member(struct coord_cg_call *call, const struct cg_member *member, struct ot_consumer_group_describe_response_member *out)
{
    struct coord_cg_parts has = cg_parts_room(call->arena, (size_t)member->assigned.count + member->revoking.count);
    const struct cg_meta *meta = member->meta;
    bool full = has.items == NULL;
    ot_consumer_group_describe_response_member_defaults(out);
    out->member_id = text(cg_answers(call), member->id, &full);
    out->instance_id = text(cg_answers(call), meta->instance_id, &full);
    out->rack_id = text(cg_answers(call), meta->rack_id, &full);
    out->member_epoch = member->epoch;
    out->client_id = text(cg_answers(call), meta->client_id, &full);
    out->client_host = text(cg_answers(call), meta->client_host, &full);
    out->subscribed_topic_names.items = ot_arena_array(cg_answers(call), meta->topic_count, sizeof(struct ot_str));
    out->subscribed_topic_names.count = (int32_t)meta->topic_count;
    full = full || out->subscribed_topic_names.items == NULL;
    for (uint32_t i = 0; i < meta->topic_count && !full; i++) out->subscribed_topic_names.items[i] = text(cg_answers(call), meta->topics[i], &full);
    out->subscribed_topic_regex = text(cg_answers(call), meta->regex, &full);
    out->member_type = meta->classic ? 0 : 1;
    if (full) return OT_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < member->assigned.count; i++) has.items[has.count++] = member->assigned.items[i];
    for (uint32_t i = 0; i < member->revoking.count; i++) has.items[has.count++] = member->revoking.items[i];
    cg_parts_sort(&has);
    const enum ot_err err = describe_parts(call, &has, &out->assignment);
    return err == OT_OK ? describe_parts(call, &member->target, &out->target_assignment) : err;
}

enum ot_err coord_cg_describe(const struct coord_cg *cg, struct coord_cg_call *call, struct ot_consumer_group_describe_response_described_group *out)
{
    const struct cg_member **members = cg_members_sorted(cg, call->arena);
    bool full = members == NULL;
    ot_consumer_group_describe_response_described_group_defaults(out);
    out->group_id = text(cg_answers(call), cg->id, &full);
    out->group_state = ot_str_of(coord_cg_state_name(coord_cg_state(cg)));
    out->group_epoch = cg->epoch;
    out->assignment_epoch = cg->assignment_epoch;
    out->assignor_name = ot_str_of(cg_assignor_name(cg, call->config, call->arena));
    out->members.items = ot_arena_array(cg_answers(call), cg->member_count, sizeof(*out->members.items));
    if (full || out->members.items == NULL) return OT_ERR_NO_MEMORY;
    enum ot_err err = OT_OK;
    for (uint32_t i = 0; i < cg->member_count && err == OT_OK; i++) err = describe_member(call, members[i], &out->members.items[out->members.count++]);
    return err;
}

/* ---- who may commit and fetch offsets */

static enum ot_err stale(const struct cg_member *member)
{
    return member->meta->classic ? OT_ERR_ILLEGAL_GENERATION : OT_ERR_STALE_MEMBER_EPOCH;
}

enum ot_err coord_cg_commit_check(const struct coord_cg *cg, struct ot_str member_id, struct ot_str instance_id, int32_t member_epoch, bool transactional, int16_t version,
    bool *partially_out)
{
    *partially_out = false;
    if (member_epoch < 0 && cg->member_count == 0) return OT_OK;       /* an administrator, or somebody who manages its own partitions */
    if (transactional && member_epoch == -1 && member_id.bytes == 0 && instance_id.null) return OT_OK;
    const struct cg_member *member = cg_member(cg, member_id);
    if (member == NULL) return OT_ERR_UNKNOWN_MEMBER_ID;
    if (!transactional && !member->meta->classic && version < 9) return OT_ERR_UNSUPPORTED_VERSION;
    if (member_epoch > member->epoch) return stale(member);
    *partially_out = member_epoch < member->epoch;
    return OT_OK;
}

enum ot_err coord_cg_commit_partition(const struct coord_cg *cg, struct ot_str member_id, int32_t member_epoch, const struct ot_uuid *topic_id, int32_t partition)
{
    const struct cg_member *member = cg_member(cg, member_id);
    int32_t since = INT32_MAX;
    if (member == NULL) return OT_ERR_UNKNOWN_MEMBER_ID;
    if (!cg_parts_have(&member->assigned, topic_id, partition, &since) && !cg_parts_have(&member->revoking, topic_id, partition, &since)) return stale(member);
    return member_epoch < since ? stale(member) : OT_OK;
}

enum ot_err coord_cg_fetch_check(const struct coord_cg *cg, struct ot_str member_id, int32_t member_epoch)
{
    if (member_id.null && member_epoch < 0) return OT_OK;
    const struct cg_member *member = cg_member(cg, member_id);
    if (member == NULL) return OT_ERR_UNKNOWN_MEMBER_ID;
    return member_epoch == member->epoch ? OT_OK : stale(member);
}
