/* What the log keeps of a classic group: one record that has all of it, Kafka's GroupMetadataValue. It is written when an assignment is complete, when the last member
 * left, and when a static member came back under another id; so what is loaded is always a whole generation. */
#include "coordinator/group_classic.h"

#include "base/wire/frame.h"
#include "base/wire/group_metadata_key.h"
#include "base/wire/group_metadata_value.h"

static const struct ot_str no_text = { .null = true };

static bool record_fill(const struct group *group, struct ot_arena *arena, struct ot_group_metadata_value *value)
{
    const struct classic *classic = classic_of(group);
    ot_group_metadata_value_defaults(value);
    value->protocol_type = classic->protocol_type.null ? ot_str_of("") : classic->protocol_type;
    value->generation = classic->generation;
    value->protocol = classic->protocol;
    value->leader = classic->leader == NULL || classic->state == CLASSIC_EMPTY ? no_text : classic->leader->id;
    value->current_state_timestamp = classic->state_since_ms;
    if (classic->state == CLASSIC_EMPTY) return true;
    value->members.items = ot_arena_array(arena, OT_MAX(classic->members.count, 1u), sizeof *value->members.items);
    if (value->members.items == NULL) return false;
    for (const struct classic_member *member = classic->first; member != NULL; member = member->next) {
        struct ot_group_metadata_value_member_metadata *to = &value->members.items[value->members.count++];
        ot_group_metadata_value_member_metadata_defaults(to);
        to->member_id = member->id;
        to->group_instance_id = member->instance_id;
        to->client_id = member->client_id;
        to->client_host = member->client_host;
        to->rebalance_timeout = member->rebalance_timeout_ms;
        to->session_timeout = member->session_timeout_ms;
        to->subscription = classic_metadata(member, classic->protocol);
        to->assignment = member->assignment;
    }
    return true;
}

enum { RECORD_VERSION = 3 };

void classic_emit(struct group *group)
{
    struct ot_group_metadata_key key = { .group = group->id };
    struct ot_group_metadata_value value;
    if (!record_fill(group, group->set->out->arena, &value)) {
        group->set->out->fail = OT_ERR_NO_MEMORY;
        return;
    }
    group_emit(group->set, &ot_group_metadata_key_message, &key, &ot_group_metadata_value_message, RECORD_VERSION, &value);
    classic_of(group)->recorded = true;
}

size_t classic_record_bytes(const struct group *group)
{
    struct ot_group_metadata_value value;
    if (!record_fill(group, group->set->out->arena, &value)) return SIZE_MAX / 2;
    return ot_wire_size(&ot_group_metadata_value_message, RECORD_VERSION, &value) + group->id.bytes + 16;
}

static enum ot_err replay_value(struct group_set *set, struct ot_str id, const struct ot_group_metadata_value *value)
{
    struct group *group = group_find(set, id);
    if (group == NULL && ((group = group_add(set, id)) == NULL || !group_classic_begin(group))) {
        if (group != NULL) group_remove(group);
        return OT_ERR_NO_MEMORY;
    }
    if (group->ops != &group_classic_ops) {    /* it was of another type before this record */
        group->ops->free(group);
        if (!group_classic_begin(group)) return OT_ERR_NO_MEMORY;
    }
    struct classic *classic = classic_of(group);
    while (classic->first != NULL) classic_member_remove(classic->first, OT_ERR_UNKNOWN_MEMBER_ID);
    group_str_free(set, &classic->protocol_type);
    group_str_free(set, &classic->protocol);
    classic->recorded = true;
    classic->generation = value->generation;
    classic->state_since_ms = value->current_state_timestamp;
    classic->state = value->members.count == 0 ? CLASSIC_EMPTY : CLASSIC_STABLE;
    const struct ot_str type = value->protocol_type.bytes == 0 ? no_text : value->protocol_type;
    bool made = group_str_copy(set, type, &classic->protocol_type) && group_str_copy(set, value->protocol, &classic->protocol);
    for (int32_t i = 0; made && i < value->members.count; i++) made = classic_member_replay(group, value, &value->members.items[i]);
    return made ? OT_OK : OT_ERR_NO_MEMORY;
}

enum ot_err group_classic_replay(struct group_set *set, const struct group_set_record *record, struct ot_arena *arena)
{
    struct ot_reader key_in = ot_reader_over(record->key.data, record->key.bytes), value_in = ot_reader_over(record->value.data, record->value.bytes);
    struct ot_group_metadata_key key;
    struct ot_group_metadata_value value;
    struct ot_wire_error error;
    int16_t version;
    enum ot_err err = ot_wire_framed_decode(&ot_group_metadata_key_message, &key_in, arena, &key, &version, &error);
    if (err != OT_OK) return err;
    if (!record->value.null) {
        err = ot_wire_framed_decode(&ot_group_metadata_value_message, &value_in, arena, &value, &version, &error);
        return err == OT_OK ? replay_value(set, key.group, &value) : err;
    }
    struct group *group = group_find(set, key.group);
    if (group == NULL || group->ops != &group_classic_ops) return OT_OK;
    if (group->topic_count == 0) {
        group_remove(group);
        return OT_OK;
    }
    /* offsets that outlive their group: a tombstone of it and theirs are written together, but pending ones of a transaction stay */
    group->ops->free(group);
    return group_classic_begin(group) ? OT_OK : OT_ERR_NO_MEMORY;
}

void classic_tombstones(struct group *group)
{
    struct ot_group_metadata_key key = { .group = group->id };
    if (classic_of(group)->recorded) group_emit(group->set, &ot_group_metadata_key_message, &key, NULL, 0, NULL);
}
