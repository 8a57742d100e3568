/* From a classic group to a consumer group and back, while members go on (KIP-848, migration). Both ways the generation goes on as epoch, members keep what they
 * have, and who speaks the classic protocol is told to join again when its assignment is to change. */
#include "base/wire/consumer_protocol_assignment.h"
#include "base/wire/consumer_protocol_subscription.h"
#include "coordinator/consumer_convert.h"

/* int16 version, then the message; a later version begins with what the last known one has. */
static enum ot_err versioned(struct ot_blob blob, int16_t version_max, int16_t *version_out, struct ot_reader *in)
{
    *in = ot_reader_over(blob.data, blob.bytes);
    *version_out = ot_read_i16(in);
    if (in->err != OT_OK || *version_out < 0) return OT_ERR_MALFORMED;
    *version_out = OT_MIN(*version_out, version_max);
    return OT_OK;
}

static enum ot_err named_parts(const struct coord_cg_topics *topics, struct ot_arena *arena, struct ot_str topic, const struct ot_i32_array *partitions,
    struct coord_cg_parts *parts, uint32_t *cap)
{
    struct coord_cg_topic known;
    if (!topics->by_name(topics->arg, topic, &known)) return OT_OK;        /* deleted meanwhile */
    if (parts->count + (uint32_t)OT_MAX(partitions->count, 0) > *cap) {
        const uint32_t more = OT_MAX(*cap * 2, parts->count + (uint32_t)partitions->count);
        struct coord_cg_parts room = cg_parts_room(arena, more);
        if (room.items == NULL) return OT_ERR_NO_MEMORY;
        if (parts->count > 0) memcpy(room.items, parts->items, parts->count * sizeof(*room.items));
        parts->items = room.items;
        *cap = more;
    }
    for (int32_t i = 0; i < partitions->count; i++) parts->items[parts->count++] = (struct coord_cg_part){ known.id, partitions->items[i], 0 };
    return OT_OK;
}

enum ot_err cg_read_subscription(struct coord_cg_call *call, struct ot_blob metadata, struct cg_subscription *out)
{
    struct ot_consumer_protocol_subscription value;
    struct ot_reader in;
    int16_t version;
    uint32_t cap = 0;
    *out = (struct cg_subscription){ .rack_id = ot_str_of(NULL) };
    enum ot_err err = versioned(metadata, OT_CONSUMER_PROTOCOL_SUBSCRIPTION_VERSION_MAX, &version, &in);
    if (err == OT_OK) err = ot_consumer_protocol_subscription_decode(&value, version, &in, call->arena, NULL);
    if (err != OT_OK) return err == OT_ERR_NO_MEMORY ? err : OT_ERR_MALFORMED;
    out->topics = value.topics.items;
    out->topic_count = (uint32_t)OT_MAX(value.topics.count, 0);
    cg_names_sort(out->topics, &out->topic_count);
    if (value.rack_id.bytes > 0) out->rack_id = value.rack_id;
    for (int32_t i = 0; i < value.owned_partitions.count && err == OT_OK; i++)
        err = named_parts(call->topics, call->arena, value.owned_partitions.items[i].topic, &value.owned_partitions.items[i].partitions, &out->owned, &cap);
    if (err == OT_OK) cg_parts_sort(&out->owned);
    return err;
}

enum ot_err cg_read_assignment(struct coord_cg_call *call, struct ot_blob assignment, struct coord_cg_parts *out, bool *user_data_out)
{
    struct ot_consumer_protocol_assignment value;
    struct ot_reader in;
    int16_t version;
    uint32_t cap = 0;
    *out = (struct coord_cg_parts){ NULL, 0 };
    *user_data_out = false;
    if (assignment.bytes == 0) return OT_OK;
    enum ot_err err = versioned(assignment, OT_CONSUMER_PROTOCOL_ASSIGNMENT_VERSION_MAX, &version, &in);
    if (err == OT_OK) err = ot_consumer_protocol_assignment_decode(&value, version, &in, call->arena, NULL);
    if (err != OT_OK) return err == OT_ERR_NO_MEMORY ? err : OT_ERR_MALFORMED;
    *user_data_out = value.user_data.bytes > 0;
    for (int32_t i = 0; i < value.assigned_partitions.count && err == OT_OK; i++)
        err = named_parts(call->topics, call->arena, value.assigned_partitions.items[i].topic, &value.assigned_partitions.items[i].partitions, out, &cap);
    if (err == OT_OK) cg_parts_sort(out);
    return err;
}

enum ot_err cg_write_assignment(struct coord_cg_call *call, const struct coord_cg_parts *parts, struct ot_blob metadata, struct ot_blob *out)
{
    struct ot_consumer_protocol_assignment value;
    struct ot_consumer_protocol_assignment_topic_partition *list = ot_arena_array(call->arena, parts->count, sizeof(*list));
    int32_t *partitions = ot_arena_array(call->arena, parts->count, sizeof(*partitions)), count = 0;
    struct coord_cg_topic topic;
    struct ot_reader in;
    int16_t version;
    if (list == NULL || partitions == NULL) return OT_ERR_NO_MEMORY;
    if (versioned(metadata, OT_CONSUMER_PROTOCOL_ASSIGNMENT_VERSION_MAX, &version, &in) != OT_OK) return OT_ERR_MALFORMED;
    ot_consumer_protocol_assignment_defaults(&value);
    bool known = false;
    for (uint32_t i = 0; i < parts->count; i++) {
        partitions[i] = parts->items[i].partition;
        if (i == 0 || !ot_uuid_equal(&parts->items[i - 1].topic_id, &parts->items[i].topic_id)) {
            known = call->topics->by_id(call->topics->arg, &parts->items[i].topic_id, &topic);
            const char *name = known ? ot_arena_str(call->arena, topic.name) : NULL;
            if (known && name == NULL) return OT_ERR_NO_MEMORY;
            if (known) {
                list[count].topic = (struct ot_str){ name, topic.name.bytes, false };
                list[count++].partitions.items = &partitions[i];
            }
        }
        if (known) list[count - 1].partitions.count++;
    }
    value.assigned_partitions = (struct ot_consumer_protocol_assignment_topic_partition_array){ list, count };
    const size_t bytes = 2 + ot_consumer_protocol_assignment_size(&value, version);
    uint8_t *data = ot_arena_alloc(cg_answers(call), bytes);
    if (data == NULL || bytes > UINT32_MAX) return OT_ERR_NO_MEMORY;
    struct ot_writer writer = ot_writer_over(data, bytes);
    ot_write_u16(&writer, (uint16_t)version);
    *out = (struct ot_blob){ data, (uint32_t)bytes, false };
    return ot_consumer_protocol_assignment_encode(&value, version, &writer);
}

/* ---- classic to consumer */

static const struct coord_cg_protocol *chosen(const struct coord_cg_classic *classic, const struct coord_cg_classic_member *member)
{
    for (uint32_t i = 0; i < member->protocol_count; i++)
        if (ot_str_equal(member->protocols[i].name, classic->protocol_name)) return &member->protocols[i];
    return member->protocol_count == 0 ? NULL : &member->protocols[0];
}

/* librdkafka's sticky assignors repeat the assignment in their user data: nothing is lost with that. What others keep there would be. */
static bool repeats_itself(struct ot_str protocol)
{
    return ot_str_equal(protocol, ot_str_of("cooperative-sticky")) || ot_str_equal(protocol, ot_str_of("sticky"));
}

static enum ot_err take_classic_member(struct coord_cg *cg, struct coord_cg_call *call, const struct coord_cg_classic *classic, const struct coord_cg_classic_member *member)
{
    const struct coord_cg_protocol *protocol = chosen(classic, member);
    struct cg_subscription subscription;
    struct coord_cg_parts target;
    bool user_data;
    enum ot_err err = protocol == NULL ? OT_ERR_MALFORMED : cg_read_subscription(call, protocol->metadata, &subscription);
    if (err == OT_OK) err = cg_read_assignment(call, member->assignment, &target, &user_data);
    if (err == OT_ERR_MALFORMED) return cg_error(call, OT_ERR_GROUP_ID_NOT_FOUND, "Cannot upgrade classic group %.*s to consumer group because the embedded consumer protocol is malformed.", CG_S(cg->id));
    if (err != OT_OK) return err;
    if (user_data && !repeats_itself(protocol->name)) return cg_error(call, OT_ERR_GROUP_ID_NOT_FOUND, "Cannot upgrade classic group %.*s to consumer group because an unsupported custom assignor is in use.", CG_S(cg->id));
    struct cg_draft draft = { .id = member->member_id, .epoch = classic->generation_id, .previous_epoch = classic->generation_id, .state = COORD_CG_MEMBER_STABLE,
        .meta = { .instance_id = member->instance_id, .rack_id = subscription.rack_id, .client_id = member->client_id, .client_host = member->client_host,
            .regex = ot_str_of(NULL), .assignor = ot_str_of(NULL), .topics = subscription.topics, .topic_count = subscription.topic_count,
            .rebalance_timeout_ms = member->rebalance_timeout_ms, .classic = true, .session_timeout_ms = member->session_timeout_ms,
            .protocols = (struct coord_cg_protocol *)(uintptr_t)member->protocols, .protocol_count = member->protocol_count } };
    draft.assigned = cg_parts_room(call->arena, target.count);
    if (draft.assigned.items == NULL) return OT_ERR_NO_MEMORY;
    for (; draft.assigned.count < target.count; draft.assigned.count++) {
        draft.assigned.items[draft.assigned.count] = target.items[draft.assigned.count];
        draft.assigned.items[draft.assigned.count].epoch = classic->generation_id;
    }
    err = cg_put_member(cg, call, draft.id, &draft.meta);
    if (err == OT_OK) err = cg_put_target(cg, call, draft.id, &target);
    return err == OT_OK ? cg_put_current(cg, call, &draft) : err;
}

enum ot_err coord_cg_from_classic(struct coord_cg *cg, struct coord_cg_call *call, const struct coord_cg_classic *classic)
{
    enum ot_err err = OT_OK;
    int64_t hash = 0;
    call->event = COORD_CG_FROM_CLASSIC;
    for (uint32_t i = 0; i < classic->member_count && err == OT_OK; i++) err = take_classic_member(cg, call, classic, &classic->members[i]);
    if (err == OT_OK) err = cg_apply(cg, call);
    if (err == OT_OK) err = cg_hash_without(cg, call, NULL, 0, &hash);
    if (err == OT_OK) err = cg_put_epoch(cg, call, classic->generation_id, hash);
    if (err == OT_OK) err = cg_put_assignment(cg, call, classic->generation_id, 0);
    if (err == OT_OK) err = cg_apply(cg, call);
    if (err == OT_OK) coord_cg_loaded(cg, call->now_us, call->config);
    return err;
}

/* ---- consumer to classic */

bool cg_would_downgrade(const struct coord_cg *cg, const struct coord_cg_call *call, const struct cg_member *const *leavers, uint32_t count)
{
    uint32_t classic = cg->classic_count, left = cg->member_count - count;
    for (uint32_t i = 0; i < count; i++) classic -= leavers[i]->meta->classic;
    return left > 0 && classic == left && (call->config->migration & COORD_CG_DOWNGRADE) != 0 && left <= (uint32_t)call->config->classic_size_max;
}

static enum ot_err give_classic_member(struct coord_cg_call *call, struct ot_str id, const struct cg_meta *meta, const struct coord_cg_parts *target,
    struct coord_cg_classic_member *out)
{
    *out = (struct coord_cg_classic_member){ id, meta->instance_id, meta->client_id, meta->client_host, meta->rebalance_timeout_ms, meta->session_timeout_ms,
        meta->protocols, meta->protocol_count, { NULL, 0, false } };
    if (meta->protocol_count == 0) return OT_ERR_MALFORMED;
    return cg_write_assignment(call, target, meta->protocols[0].metadata, &out->assignment);
}

enum ot_err cg_downgrade(struct coord_cg *cg, struct coord_cg_call *call, const struct cg_member *const *leavers, uint32_t count, const struct cg_draft *joining,
    int32_t generation_id, const char *reason)
{
    struct coord_cg_classic *classic = ot_arena_alloc(call->arena, sizeof(*classic));
    struct coord_cg_classic_member *members = ot_arena_array(call->arena, cg->member_count, sizeof(*members));
    if (classic == NULL || members == NULL) return OT_ERR_NO_MEMORY;
    *classic = (struct coord_cg_classic){ generation_id, ot_str_of(NULL), members, 0, joining == NULL, reason };
    enum ot_err err = cg_put_gone(cg, call);
    for (uint32_t i = 0; i < cg->members.count && err == OT_OK; i++) {
        const struct cg_member *member = cg->members.entries[i].value;
        bool stays = member->meta != NULL && (joining == NULL || (member != joining->replaced && member != joining->old));
        for (uint32_t k = 0; k < count; k++) stays = stays && leavers[k] != member;
        if (stays) err = give_classic_member(call, member->id, member->meta, &member->target, &members[classic->member_count++]);
    }
    if (err == OT_OK && joining != NULL) err = give_classic_member(call, joining->id, &joining->meta, &joining->target, &members[classic->member_count++]);
    if (err == OT_ERR_MALFORMED) return cg_error(call, OT_ERR_GROUP_ID_NOT_FOUND, "Cannot downgrade the consumer group %.*s.", CG_S(cg->id));
    if (err == OT_OK) call->classic = classic;
    return err;
}

/* ---- for those who look */

static enum ot_err write_subscription(struct coord_cg_call *call, const struct cg_meta *meta, struct ot_blob *out)
{
    struct ot_consumer_protocol_subscription value;
    ot_consumer_protocol_subscription_defaults(&value);
    value.topics = (struct ot_str_array){ meta->topics, (int32_t)meta->topic_count };
    const size_t bytes = 2 + ot_consumer_protocol_subscription_size(&value, 0);
    uint8_t *data = ot_arena_alloc(cg_answers(call), bytes);
    if (data == NULL || bytes > UINT32_MAX) return OT_ERR_NO_MEMORY;
    struct ot_writer writer = ot_writer_over(data, bytes);
    ot_write_u16(&writer, 0);
    *out = (struct ot_blob){ data, (uint32_t)bytes, false };
    return ot_consumer_protocol_subscription_encode(&value, 0, &writer);
}

enum ot_err coord_cg_member_blobs(const struct coord_cg *cg, struct coord_cg_call *call, struct ot_str member_id, struct ot_blob *subscription_out, struct ot_blob *assignment_out)
{
    static const uint8_t version_0[] = { 0, 0 };
    const struct cg_member *member = cg_member(cg, member_id);
    if (member == NULL) return OT_ERR_UNKNOWN_MEMBER_ID;
    struct coord_cg_parts has;
    enum ot_err err = cg_parts_union(call->arena, &member->assigned, &member->revoking, &has);
    if (err == OT_OK) err = cg_write_assignment(call, &has, (struct ot_blob){ version_0, sizeof(version_0), false }, assignment_out);
    return err == OT_OK ? write_subscription(call, member->meta, subscription_out) : err;
}
