/* Records of __consumer_offsets into the state of a consumer group. A key alone decides what a record replaces, so the same function serves a log that was compacted
 * and the call that just made the records.
 *
 *   int16 type | group id, member id or regex (int16-length texts)      key
 *   int16 version | message                                             value
 *   3 group epoch  4 partition metadata (Kafka before 4.0)  5 member  6 target epoch  7 target of a member  8 current assignment  16 regular expression */
#include "base/wire/consumer_group_current_member_assignment_value.h"
#include "base/wire/consumer_group_member_metadata_value.h"
#include "base/wire/consumer_group_metadata_value.h"
#include "base/wire/consumer_group_regular_expression_value.h"
#include "base/wire/consumer_group_target_assignment_member_value.h"
#include "base/wire/consumer_group_target_assignment_metadata_value.h"
#include "base/wire/frame.h"
#include "coordinator/consumer_inner.h"

enum { KEY_EPOCH = 3, KEY_PARTITION_METADATA, KEY_MEMBER, KEY_TARGET_EPOCH, KEY_TARGET, KEY_CURRENT, KEY_REGEX = 16, DECODE_BYTES_MAX = 64 << 20 };

/* ---- who owns what */

static void part_key(uint8_t key[static 20], const struct coord_cg_part *part)
{
    memcpy(key, &part->topic_id, 16);
    ot_store_u32(key + 16, (uint32_t)part->partition);
}

const struct cg_member *cg_owner(const struct coord_cg *cg, const struct ot_uuid *topic_id, int32_t partition)
{
    uint8_t key[20];
    part_key(key, &(struct coord_cg_part){ *topic_id, partition, 0 });
    return ot_map_get(&cg->owners, key, sizeof(key));
}

static void owns_no_more(struct coord_cg *cg, const struct cg_member *member, const struct coord_cg_parts *parts)
{
    uint8_t key[20];
    for (uint32_t i = 0; i < parts->count; i++) {
        part_key(key, &parts->items[i]);
        if (ot_map_get(&cg->owners, key, sizeof(key)) == member) (void)ot_map_remove(&cg->owners, key, sizeof(key));
    }
}

/* The last record of a log wins: while it is loaded, an owner of before may not have been seen to let go. */
static enum ot_err owns_now(struct coord_cg *cg, struct cg_member *member, const struct coord_cg_parts *parts)
{
    uint8_t key[20];
    enum ot_err err = OT_OK;
    for (uint32_t i = 0; i < parts->count && err == OT_OK; i++) {
        part_key(key, &parts->items[i]);
        err = ot_map_put(&cg->owners, key, sizeof(key), member);
    }
    return err;
}

/* ---- members */

static struct cg_member *member_made(struct coord_cg *cg, struct ot_str id)
{
    struct cg_member *member = ot_map_get(&cg->members, id.data, id.bytes);
    if (member != NULL) return member;
    if (!cg_charge(cg, CG_MEMBER_MAPS_BYTES)) return NULL;
    member = cg_alloc(cg, sizeof(*member) + id.bytes);
    if (member == NULL) {
        cg_uncharge(cg, CG_MEMBER_MAPS_BYTES);
        return NULL;
    }
    memcpy(member + 1, id.data, id.bytes);
    member->id = (struct ot_str){ (const char *)(member + 1), id.bytes, false };
    member->state = COORD_CG_MEMBER_STABLE;
    member->previous_epoch = -1;
    member->session_due_us = member->rebalance_due_us = member->join_due_us = member->sync_due_us = INT64_MAX;
    if (ot_map_put(&cg->members, id.data, id.bytes, member) == OT_OK) return member;
    cg_uncharge(cg, CG_MEMBER_MAPS_BYTES);
    cg_release(cg, member);
    return NULL;
}

/* A member of which no record is left goes. */
static void member_settle(struct coord_cg *cg, struct cg_member *member)
{
    if (member == NULL || member->meta != NULL || member->has_current || member->has_target) return;
    (void)ot_map_remove(&cg->members, member->id.data, member->id.bytes);
    cg_uncharge(cg, CG_MEMBER_MAPS_BYTES);
    cg_release(cg, member);
}

static void meta_unlink(struct coord_cg *cg, struct cg_member *member)
{
    if (member->meta == NULL) return;
    const struct ot_str instance = member->meta->instance_id;
    if (!instance.null && cg_static_member(cg, instance) == member) (void)ot_map_remove(&cg->statics, instance.data, instance.bytes);
    cg->member_count--;
    cg->classic_count -= member->meta->classic;
    cg_release(cg, member->meta);
    member->meta = NULL;
}

struct block { uint8_t *at; size_t bytes; };       /* measures while at is NULL, then hands out */

static void *block_take(struct block *block, const void *data, size_t bytes, size_t align)
{
    block->bytes = (block->bytes + align - 1) & ~(align - 1);
    void *to = block->at == NULL ? NULL : block->at + block->bytes;
    if (to != NULL && bytes > 0 && data != NULL) memcpy(to, data, bytes);
    block->bytes += bytes;
    return to;
}

static struct ot_str block_str(struct block *block, struct ot_str text)
{
    return text.null ? text : (struct ot_str){ block_take(block, text.data, text.bytes, 1), text.bytes, false };
}

static struct ot_str *block_names(struct block *block, const struct ot_str *names, uint32_t count)
{
    struct ot_str *out = block_take(block, NULL, count * sizeof(*out), 16);
    for (uint32_t i = 0; i < count; i++) {
        const struct ot_str copy = block_str(block, names[i]);
        if (out != NULL) out[i] = copy;
    }
    return out;
}

static void *meta_pack(struct block *block, const struct cg_meta *from)
{
    struct cg_meta copy = *from, *to = block_take(block, NULL, sizeof(*to), 16);
    copy.topics = block_names(block, from->topics, from->topic_count);
    copy.protocols = block_take(block, NULL, from->protocol_count * sizeof(*copy.protocols), 16);
    for (uint32_t i = 0; i < from->protocol_count; i++) {
        const struct coord_cg_protocol *protocol = &from->protocols[i];
        const struct ot_str name = block_str(block, protocol->name);
        uint8_t *metadata = block_take(block, protocol->metadata.data, protocol->metadata.bytes, 1);
        if (copy.protocols != NULL) copy.protocols[i] = (struct coord_cg_protocol){ name, { metadata, protocol->metadata.bytes, false } };
    }
    copy.instance_id = block_str(block, from->instance_id);
    copy.rack_id = block_str(block, from->rack_id);
    copy.client_id = block_str(block, from->client_id);
    copy.client_host = block_str(block, from->client_host);
    copy.regex = block_str(block, from->regex);
    copy.assignor = block_str(block, from->assignor);
    if (to != NULL) *to = copy;
    return to;
}

static enum ot_err meta_take(struct coord_cg *cg, struct ot_str id, const struct cg_meta *from)
{
    struct block block = { NULL, 0 };
    (void)meta_pack(&block, from);
    struct cg_member *member = member_made(cg, id);
    block = (struct block){ member == NULL ? NULL : cg_alloc(cg, block.bytes), 0 };
    if (block.at == NULL) return OT_ERR_NO_MEMORY;
    struct cg_meta *meta = meta_pack(&block, from);
    if (!meta->instance_id.null && ot_map_put(&cg->statics, meta->instance_id.data, meta->instance_id.bytes, member) != OT_OK) {
        cg_release(cg, meta);
        return OT_ERR_NO_MEMORY;
    }
    meta_unlink(cg, member);
    if (!meta->instance_id.null) ot_ignore(ot_map_put(&cg->statics, meta->instance_id.data, meta->instance_id.bytes, member), "its place was made just now");
    member->meta = meta;
    cg->member_count++;
    cg->classic_count += meta->classic;
    return OT_OK;
}

static enum ot_err replay_member(struct coord_cg *cg, struct ot_str id, struct ot_reader *in, struct ot_arena *arena)
{
    struct ot_consumer_group_member_metadata_value value;
    int16_t version;
    const enum ot_err err = ot_wire_framed_decode(&ot_consumer_group_member_metadata_value_message, in, arena, &value, &version, NULL);
    if (err != OT_OK) return err;
    struct cg_meta meta = { .instance_id = value.instance_id, .rack_id = value.rack_id, .client_id = value.client_id, .client_host = value.client_host,
        .regex = value.subscribed_topic_regex, .assignor = value.server_assignor, .topics = value.subscribed_topic_names.items,
        .topic_count = (uint32_t)OT_MAX(value.subscribed_topic_names.count, 0), .rebalance_timeout_ms = value.rebalance_timeout_ms };
    if (meta.regex.bytes == 0) meta.regex = ot_str_of(NULL);
    cg_names_sort(meta.topics, &meta.topic_count);
    if (value.classic_member_metadata != NULL) {
        const struct ot_consumer_group_member_metadata_value_classic_protocol_array *list = &value.classic_member_metadata->supported_protocols;
        meta.classic = true;
        meta.session_timeout_ms = value.classic_member_metadata->session_timeout_ms;
        meta.protocol_count = (uint32_t)OT_MAX(list->count, 0);
        meta.protocols = ot_arena_array(arena, meta.protocol_count, sizeof(*meta.protocols));
        if (meta.protocols == NULL) return OT_ERR_NO_MEMORY;
        for (uint32_t i = 0; i < meta.protocol_count; i++) meta.protocols[i] = (struct coord_cg_protocol){ list->items[i].name, list->items[i].metadata };
    }
    return meta_take(cg, id, &meta);
}

/* ---- assignments */

static enum ot_err current_parts(const struct ot_consumer_group_current_member_assignment_value_topic_partitions_array *from, int32_t epoch, struct ot_arena *arena,
    struct coord_cg_parts *out)
{
    size_t count = 0;
    for (int32_t i = 0; i < from->count; i++) count += (size_t)OT_MAX(from->items[i].partitions.count, 0);
    *out = cg_parts_room(arena, count);
    if (out->items == NULL) return OT_ERR_NO_MEMORY;
    for (int32_t i = 0; i < from->count; i++) {
        const struct ot_i32_array *partitions = &from->items[i].partitions, *epochs = &from->items[i].assignment_epochs;
        for (int32_t k = 0; k < partitions->count; k++)
            out->items[out->count++] = (struct coord_cg_part){ from->items[i].topic_id, partitions->items[k],
                epochs->count == partitions->count ? epochs->items[k] : OT_MAX(epoch, 0) };
    }
    cg_parts_sort(out);
    return OT_OK;
}

static void current_drop(struct coord_cg *cg, struct cg_member *member)
{
    owns_no_more(cg, member, &member->assigned);
    owns_no_more(cg, member, &member->revoking);
    cg_uncharge(cg, ((size_t)member->assigned.count + member->revoking.count) * CG_PART_MAP_BYTES);
    cg_release(cg, member->assigned.items);
    cg_release(cg, member->revoking.items);
    member->assigned = member->revoking = (struct coord_cg_parts){ NULL, 0 };
}

static enum ot_err replay_current(struct coord_cg *cg, struct ot_str id, struct ot_reader *in, struct ot_arena *arena)
{
    struct ot_consumer_group_current_member_assignment_value value;
    struct coord_cg_parts assigned, revoking, own_assigned = { NULL, 0 }, own_revoking = { NULL, 0 };
    int16_t version;
    enum ot_err err = ot_wire_framed_decode(&ot_consumer_group_current_member_assignment_value_message, in, arena, &value, &version, NULL);
    if (err == OT_OK) err = current_parts(&value.assigned_partitions, value.member_epoch, arena, &assigned);
    if (err == OT_OK) err = current_parts(&value.partitions_pending_revocation, value.member_epoch, arena, &revoking);
    if (err != OT_OK) return err;
    struct cg_member *member = member_made(cg, id);
    if (member == NULL) return OT_ERR_NO_MEMORY;
    const size_t map_bytes = ((size_t)assigned.count + revoking.count) * CG_PART_MAP_BYTES;
    const bool charged = cg_charge(cg, map_bytes);
    if (!charged || cg_parts_copy(cg, &assigned, &own_assigned) != OT_OK || cg_parts_copy(cg, &revoking, &own_revoking) != OT_OK) {
        if (charged) cg_uncharge(cg, map_bytes);
        cg_release(cg, own_assigned.items);
        member_settle(cg, member);
        return OT_ERR_NO_MEMORY;
    }
    current_drop(cg, member);
    member->has_current = true;
    member->epoch = value.member_epoch;
    member->previous_epoch = value.previous_member_epoch;
    const bool known = value.state >= COORD_CG_MEMBER_STABLE && value.state <= COORD_CG_MEMBER_UNRELEASED;
    member->state = known ? (enum coord_cg_member_state)value.state : COORD_CG_MEMBER_UNKNOWN;
    member->assigned = own_assigned;
    member->revoking = own_revoking;
    err = owns_now(cg, member, &member->assigned);
    return err == OT_OK ? owns_now(cg, member, &member->revoking) : err;
}

static enum ot_err replay_target(struct coord_cg *cg, struct ot_str id, struct ot_reader *in, struct ot_arena *arena)
{
    struct ot_consumer_group_target_assignment_member_value value;
    int16_t version;
    const enum ot_err err = ot_wire_framed_decode(&ot_consumer_group_target_assignment_member_value_message, in, arena, &value, &version, NULL);
    if (err != OT_OK) return err;
    size_t count = 0;
    for (int32_t i = 0; i < value.topic_partitions.count; i++) count += (size_t)OT_MAX(value.topic_partitions.items[i].partitions.count, 0);
    struct coord_cg_parts parts = cg_parts_room(arena, count), own;
    if (parts.items == NULL) return OT_ERR_NO_MEMORY;
    for (int32_t i = 0; i < value.topic_partitions.count; i++)
        for (int32_t k = 0; k < value.topic_partitions.items[i].partitions.count; k++)
            parts.items[parts.count++] = (struct coord_cg_part){ value.topic_partitions.items[i].topic_id, value.topic_partitions.items[i].partitions.items[k], 0 };
    cg_parts_sort(&parts);
    struct cg_member *member = member_made(cg, id);
    if (member == NULL) return OT_ERR_NO_MEMORY;
    if (cg_parts_copy(cg, &parts, &own) != OT_OK) {
        member_settle(cg, member);
        return OT_ERR_NO_MEMORY;
    }
    cg_release(cg, member->target.items);
    member->target = own;
    member->has_target = true;
    return OT_OK;
}

/* ---- the rest */

static enum ot_err replay_regex(struct coord_cg *cg, struct ot_str pattern, struct ot_reader *in, struct ot_arena *arena)
{
    struct ot_consumer_group_regular_expression_value value;
    struct block block = { NULL, 0 };
    int16_t version;
    const enum ot_err err = ot_wire_framed_decode(&ot_consumer_group_regular_expression_value_message, in, arena, &value, &version, NULL);
    if (err != OT_OK) return err;
    uint32_t count = (uint32_t)OT_MAX(value.topics.count, 0);
    cg_names_sort(value.topics.items, &count);
    (void)block_take(&block, NULL, sizeof(struct cg_regex), 16);
    (void)block_names(&block, value.topics.items, count);
    block = (struct block){ cg_alloc(cg, block.bytes), 0 };
    if (block.at == NULL) return OT_ERR_NO_MEMORY;
    struct cg_regex *regex = block_take(&block, NULL, sizeof(*regex), 16), *before = ot_map_get(&cg->regexes, pattern.data, pattern.bytes);
    regex->topics = block_names(&block, value.topics.items, count);
    regex->topic_count = count;
    if (ot_map_put(&cg->regexes, pattern.data, pattern.bytes, regex) != OT_OK) {
        cg_release(cg, regex);
        return OT_ERR_NO_MEMORY;
    }
    cg_release(cg, before);
    return OT_OK;
}

static enum ot_err replay_epoch(struct coord_cg *cg, struct ot_reader *in, struct ot_arena *arena)
{
    struct ot_consumer_group_metadata_value value;
    int16_t version;
    const enum ot_err err = ot_wire_framed_decode(&ot_consumer_group_metadata_value_message, in, arena, &value, &version, NULL);
    if (err != OT_OK) return err;
    cg->epoch = value.epoch;
    cg->metadata_hash = value.metadata_hash;
    return OT_OK;
}

static enum ot_err replay_target_epoch(struct coord_cg *cg, struct ot_reader *in, struct ot_arena *arena)
{
    struct ot_consumer_group_target_assignment_metadata_value value;
    int16_t version;
    const enum ot_err err = ot_wire_framed_decode(&ot_consumer_group_target_assignment_metadata_value_message, in, arena, &value, &version, NULL);
    if (err != OT_OK) return err;
    cg->assignment_epoch = value.assignment_epoch;
    cg->assigned_ms = value.assignment_timestamp;
    return OT_OK;
}

static enum ot_err replay_value(struct coord_cg *cg, int16_t type, struct ot_str name, struct ot_blob value, struct ot_arena *arena)
{
    struct ot_reader in = ot_reader_over(value.data, value.bytes);
    switch (type) {
    case KEY_EPOCH: return replay_epoch(cg, &in, arena);
    case KEY_PARTITION_METADATA: cg->has_partition_metadata = true; return OT_OK;
    case KEY_MEMBER: return replay_member(cg, name, &in, arena);
    case KEY_TARGET_EPOCH: return replay_target_epoch(cg, &in, arena);
    case KEY_TARGET: return replay_target(cg, name, &in, arena);
    case KEY_CURRENT: return replay_current(cg, name, &in, arena);
    default: return replay_regex(cg, name, &in, arena);
    }
}

static void replay_tombstone(struct coord_cg *cg, int16_t type, struct ot_str name, bool *gone_out)
{
    struct cg_member *member = ot_map_get(&cg->members, name.data, name.bytes);
    if (type == KEY_EPOCH) *gone_out = true;
    if (type == KEY_PARTITION_METADATA) cg->has_partition_metadata = false;
    if (type == KEY_REGEX) cg_release(cg, ot_map_remove(&cg->regexes, name.data, name.bytes));
    if (type == KEY_TARGET_EPOCH) {
        cg->assignment_epoch = -1;
        cg->assigned_ms = 0;
    }
    if (member == NULL || type < KEY_MEMBER || type > KEY_CURRENT || type == KEY_TARGET_EPOCH) return;
    if (type == KEY_MEMBER) meta_unlink(cg, member);
    if (type == KEY_TARGET) {
        cg_release(cg, member->target.items);
        member->target = (struct coord_cg_parts){ NULL, 0 };
        member->has_target = false;
    }
    if (type == KEY_CURRENT) {
        current_drop(cg, member);
        member->has_current = false;
        member->epoch = member->previous_epoch = -1;
        member->state = COORD_CG_MEMBER_STABLE;
    }
    member_settle(cg, member);
}

static struct ot_str key_text(struct ot_reader *in)
{
    const uint16_t bytes = ot_read_u16(in);
    const uint8_t *data = bytes > INT16_MAX ? NULL : ot_read_bytes(in, bytes);
    if (data == NULL) ot_reader_fail(in, OT_ERR_MALFORMED);
    return (struct ot_str){ (const char *)data, data == NULL ? 0 : bytes, data == NULL };
}

bool coord_cg_record_is_ours(struct ot_blob key, struct ot_str *group_id_out)
{
    struct ot_reader in = ot_reader_over(key.data, key.bytes);
    const int16_t type = ot_read_i16(&in);
    *group_id_out = key_text(&in);
    return in.err == OT_OK && ((type >= KEY_EPOCH && type <= KEY_CURRENT) || type == KEY_REGEX);
}

enum ot_err coord_cg_replay(struct coord_cg *cg, struct ot_blob key, struct ot_blob value, bool *gone_out)
{
    struct ot_reader in = ot_reader_over(key.data, key.bytes);
    struct ot_str group_id, name = { "", 0, false };
    *gone_out = false;
    if (!coord_cg_record_is_ours(key, &group_id) || !ot_str_equal(group_id, cg->id)) return OT_ERR_MISMATCH;
    const int16_t type = ot_read_i16(&in);
    (void)key_text(&in);
    if (type == KEY_MEMBER || type == KEY_TARGET || type == KEY_CURRENT || type == KEY_REGEX) name = key_text(&in);
    if (in.err != OT_OK || in.at != in.end) return OT_ERR_MALFORMED;
    if (value.null) {
        replay_tombstone(cg, type, name, gone_out);
        return OT_OK;
    }
    struct ot_arena arena;
    ot_arena_init(&arena, DECODE_BYTES_MAX);
    const enum ot_err err = replay_value(cg, type, name, value, &arena);
    ot_arena_free(&arena);
    return err;
}
