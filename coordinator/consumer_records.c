#include "base/wire/consumer_group_current_member_assignment_value.h"
#include "base/wire/consumer_group_member_metadata_value.h"
#include "base/wire/consumer_group_metadata_value.h"
#include "base/wire/consumer_group_regular_expression_value.h"
#include "base/wire/consumer_group_target_assignment_member_value.h"
#include "base/wire/consumer_group_target_assignment_metadata_value.h"
#include "base/wire/frame.h"
#include "coordinator/consumer_inner.h"

enum { KEY_EPOCH = 3, KEY_PARTITION_METADATA, KEY_MEMBER, KEY_TARGET_EPOCH, KEY_TARGET, KEY_CURRENT, KEY_REGEX = 16 };

static void write_text(struct ot_writer *out, struct ot_str text)
{
    ot_write_u16(out, (uint16_t)text.bytes);
    ot_write_bytes(out, text.data, text.bytes);
}

/* name null: the key has none. message NULL: a tombstone. */
static enum ot_err put(struct coord_cg *cg, struct coord_cg_call *call, int type, struct ot_str name, const struct ot_wire_message *message, const void *value)
{
    const uint32_t key_bytes = 4 + cg->id.bytes + (name.null ? 0 : 2 + name.bytes);
    struct coord_cg_record *record = ot_arena_alloc(call->arena, sizeof(*record) + key_bytes);
    if (record == NULL) return OT_ERR_NO_MEMORY;
    struct ot_writer key = ot_writer_over(record + 1, key_bytes);
    ot_write_u16(&key, (uint16_t)type);
    write_text(&key, cg->id);
    if (!name.null) write_text(&key, name);
    *record = (struct coord_cg_record){ NULL, { (const uint8_t *)(record + 1), key_bytes, false }, { NULL, 0, message == NULL } };
    if (message != NULL) {
        const size_t bytes = 2 + ot_wire_size(message, 0, value);
        uint8_t *data = bytes > UINT32_MAX ? NULL : ot_arena_alloc(call->arena, bytes);
        if (data == NULL) return OT_ERR_NO_MEMORY;
        struct ot_writer writer = ot_writer_over(data, bytes);
        const enum ot_err err = ot_wire_framed_encode(message, 0, value, &writer);
        if (err != OT_OK) return cg_error(call, OT_ERR_INVALID_REQUEST, "A text of the request is too long to be kept.");
        record->value.data = data;
        record->value.bytes = (uint32_t)bytes;
    }
    if (call->records_last == NULL) call->records = record;
    else call->records_last->next = record;
    call->records_last = record;
    call->record_count++;
    call->record_bytes += key_bytes + record->value.bytes;
    return OT_OK;
}

static const struct ot_str no_name = { NULL, 0, true };

enum ot_err cg_put_member(struct coord_cg *cg, struct coord_cg_call *call, struct ot_str member_id, const struct cg_meta *meta)
{
    struct ot_consumer_group_member_metadata_value value;
    struct ot_consumer_group_member_metadata_value_classic_member_metadata classic;
    ot_consumer_group_member_metadata_value_defaults(&value);
    ot_consumer_group_member_metadata_value_classic_member_metadata_defaults(&classic);
    value.instance_id = meta->instance_id;
    value.rack_id = meta->rack_id;
    value.client_id = meta->client_id;
    value.client_host = meta->client_host;
    value.subscribed_topic_names = (struct ot_str_array){ meta->topics, (int32_t)meta->topic_count };
    value.subscribed_topic_regex = meta->regex;
    value.rebalance_timeout_ms = meta->rebalance_timeout_ms;
    value.server_assignor = meta->assignor;
    value.classic_member_metadata = NULL;                      /* said: left out it would mean an empty one */
    if (meta->classic) {
        struct ot_consumer_group_member_metadata_value_classic_protocol *list = ot_arena_array(call->arena, meta->protocol_count, sizeof(*list));
        if (list == NULL) return OT_ERR_NO_MEMORY;
        for (uint32_t i = 0; i < meta->protocol_count; i++) {
            ot_consumer_group_member_metadata_value_classic_protocol_defaults(&list[i]);
            list[i].name = meta->protocols[i].name;
            list[i].metadata = meta->protocols[i].metadata;
        }
        classic.session_timeout_ms = meta->session_timeout_ms;
        classic.supported_protocols = (struct ot_consumer_group_member_metadata_value_classic_protocol_array){ list, (int32_t)meta->protocol_count };
        value.classic_member_metadata = &classic;
    }
    return put(cg, call, KEY_MEMBER, member_id, &ot_consumer_group_member_metadata_value_message, &value);
}

static uint32_t topics_of(const struct coord_cg_parts *parts)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < parts->count; i++) count += i == 0 || !ot_uuid_equal(&parts->items[i - 1].topic_id, &parts->items[i].topic_id);
    return count;
}

enum ot_err cg_put_target(struct coord_cg *cg, struct coord_cg_call *call, struct ot_str member_id, const struct coord_cg_parts *target)
{
    struct ot_consumer_group_target_assignment_member_value value;
    struct ot_consumer_group_target_assignment_member_value_topic_partition *list = ot_arena_array(call->arena, topics_of(target), sizeof(*list));
    int32_t *partitions = ot_arena_array(call->arena, target->count, sizeof(*partitions)), count = 0;
    if (list == NULL || partitions == NULL) return OT_ERR_NO_MEMORY;
    ot_consumer_group_target_assignment_member_value_defaults(&value);
    for (uint32_t i = 0; i < target->count; i++) {
        partitions[i] = target->items[i].partition;
        if (i == 0 || !ot_uuid_equal(&target->items[i - 1].topic_id, &target->items[i].topic_id)) {
            list[count].topic_id = target->items[i].topic_id;
            list[count++].partitions.items = &partitions[i];
        }
        list[count - 1].partitions.count++;
    }
    value.topic_partitions = (struct ot_consumer_group_target_assignment_member_value_topic_partition_array){ list, count };
    return put(cg, call, KEY_TARGET, member_id, &ot_consumer_group_target_assignment_member_value_message, &value);
}

static enum ot_err current_list(struct ot_arena *arena, const struct coord_cg_parts *parts,
    struct ot_consumer_group_current_member_assignment_value_topic_partitions_array *out)
{
    int32_t *partitions = ot_arena_array(arena, parts->count, sizeof(*partitions)), *epochs = ot_arena_array(arena, parts->count, sizeof(*epochs));
    out->items = ot_arena_array(arena, topics_of(parts), sizeof(*out->items));
    out->count = 0;
    if (partitions == NULL || epochs == NULL || out->items == NULL) return OT_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < parts->count; i++) {
        partitions[i] = parts->items[i].partition;
        epochs[i] = parts->items[i].epoch;
        if (i == 0 || !ot_uuid_equal(&parts->items[i - 1].topic_id, &parts->items[i].topic_id)) {
            out->items[out->count].topic_id = parts->items[i].topic_id;
            out->items[out->count].partitions.items = &partitions[i];
            out->items[out->count++].assignment_epochs.items = &epochs[i];
        }
        out->items[out->count - 1].partitions.count++;
        out->items[out->count - 1].assignment_epochs.count++;
    }
    return OT_OK;
}

enum ot_err cg_put_current(struct coord_cg *cg, struct coord_cg_call *call, const struct cg_draft *draft)
{
    struct ot_consumer_group_current_member_assignment_value value;
    ot_consumer_group_current_member_assignment_value_defaults(&value);
    value.member_epoch = draft->epoch;
    value.previous_member_epoch = draft->previous_epoch;
    value.state = (int8_t)draft->state;
    enum ot_err err = current_list(call->arena, &draft->assigned, &value.assigned_partitions);
    if (err == OT_OK) err = current_list(call->arena, &draft->revoking, &value.partitions_pending_revocation);
    return err != OT_OK ? err : put(cg, call, KEY_CURRENT, draft->id, &ot_consumer_group_current_member_assignment_value_message, &value);
}

enum ot_err cg_put_epoch(struct coord_cg *cg, struct coord_cg_call *call, int32_t epoch, int64_t metadata_hash)
{
    struct ot_consumer_group_metadata_value value;
    ot_consumer_group_metadata_value_defaults(&value);
    value.epoch = epoch;
    value.metadata_hash = metadata_hash;
    return put(cg, call, KEY_EPOCH, no_name, &ot_consumer_group_metadata_value_message, &value);
}

enum ot_err cg_put_assignment(struct coord_cg *cg, struct coord_cg_call *call, int32_t epoch, int64_t assigned_ms)
{
    struct ot_consumer_group_target_assignment_metadata_value value;
    ot_consumer_group_target_assignment_metadata_value_defaults(&value);
    value.assignment_epoch = epoch;
    value.assignment_timestamp = assigned_ms;
    return put(cg, call, KEY_TARGET_EPOCH, no_name, &ot_consumer_group_target_assignment_metadata_value_message, &value);
}

enum ot_err cg_put_regex(struct coord_cg *cg, struct coord_cg_call *call, struct ot_str regex, const struct ot_str *topics, uint32_t count)
{
    struct ot_consumer_group_regular_expression_value value;
    ot_consumer_group_regular_expression_value_defaults(&value);
    value.topics = (struct ot_str_array){ (struct ot_str *)(uintptr_t)topics, (int32_t)count };
    value.version = call->topics->version;
    value.timestamp = call->wall_ms;
    return put(cg, call, KEY_REGEX, regex, &ot_consumer_group_regular_expression_value_message, &value);
}

enum ot_err cg_put_regex_gone(struct coord_cg *cg, struct coord_cg_call *call, struct ot_str regex)
{
    return put(cg, call, KEY_REGEX, regex, NULL, NULL);
}

enum ot_err cg_put_partition_metadata_gone(struct coord_cg *cg, struct coord_cg_call *call)
{
    return put(cg, call, KEY_PARTITION_METADATA, no_name, NULL, NULL);
}

enum ot_err cg_put_member_gone(struct coord_cg *cg, struct coord_cg_call *call, struct ot_str member_id)
{
    enum ot_err err = put(cg, call, KEY_CURRENT, member_id, NULL, NULL);
    if (err == OT_OK) err = put(cg, call, KEY_TARGET, member_id, NULL, NULL);
    return err == OT_OK ? put(cg, call, KEY_MEMBER, member_id, NULL, NULL) : err;
}

/* Kafka's order: it asserts at each step that what hangs below is gone. */
enum ot_err cg_put_gone(struct coord_cg *cg, struct coord_cg_call *call)
{
    static const int kinds[] = { KEY_CURRENT, KEY_TARGET, KEY_TARGET_EPOCH, KEY_MEMBER };
    enum ot_err err = OT_OK;
    for (size_t k = 0; k < OT_ARRAY_COUNT(kinds) && err == OT_OK; k++) {
        if (kinds[k] == KEY_TARGET_EPOCH) err = put(cg, call, KEY_TARGET_EPOCH, no_name, NULL, NULL);
        for (uint32_t i = 0; i < cg->members.count && err == OT_OK && kinds[k] != KEY_TARGET_EPOCH; i++)
            err = put(cg, call, kinds[k], ((const struct cg_member *)cg->members.entries[i].value)->id, NULL, NULL);
    }
    for (uint32_t i = 0; i < cg->regexes.count && err == OT_OK; i++)
        err = cg_put_regex_gone(cg, call, (struct ot_str){ (const char *)cg->regexes.entries[i].key, cg->regexes.entries[i].key_bytes, false });
    if (err == OT_OK) err = cg_put_partition_metadata_gone(cg, call);
    return err == OT_OK ? put(cg, call, KEY_EPOCH, no_name, NULL, NULL) : err;
}

enum ot_err coord_cg_tombstones(struct coord_cg *cg, struct coord_cg_call *call)
{
    return cg_put_gone(cg, call);
}

enum ot_err cg_check_size(struct coord_cg_call *call)
{
    if (call->record_bytes <= call->config->record_bytes_max) return OT_OK;
    return cg_error(call, OT_ERR_UNKNOWN_SERVER_ERROR, "The change of the group takes %zu bytes of records, more than %u.", call->record_bytes, call->config->record_bytes_max);
}

enum ot_err cg_apply(struct coord_cg *cg, struct coord_cg_call *call)
{
    bool gone;
    const enum ot_err size_err = cg_check_size(call);
    if (size_err != OT_OK) return size_err;
    for (struct coord_cg_record *record = call->applied == NULL ? call->records : call->applied->next; record != NULL; record = record->next) {
        const enum ot_err err = coord_cg_replay(cg, record->key, record->value, &gone);
        if (err != OT_OK) {
            call->broken = true;
            return err;
        }
        call->applied = record;
    }
    return OT_OK;
}
