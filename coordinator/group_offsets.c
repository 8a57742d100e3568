/* Committed offsets: plain ones count at once, those of a transaction when its marker comes. Common to every type of group. */
#include "coordinator/group_inner.h"

#include "base/wire/frame.h"
#include "base/wire/legacy_offset_commit_key.h"
#include "base/wire/legacy_offset_commit_value.h"
#include "base/wire/offset_commit_key.h"
#include "base/wire/offset_commit_value.h"

#include <string.h>

enum { EXPIRE_GROUPS_MAX = 500, EXPIRE_OFFSETS_MAX = 2000, EXPIRE_AGAIN_US = 10000 };

/* ---- where an offset lies */

static int name_order(struct ot_str a, struct ot_str b)
{
    const int order = memcmp(a.data, b.data, OT_MIN(a.bytes, b.bytes));
    return order != 0 ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

static uint32_t topic_place(const struct group *group, struct ot_str name, bool *found)
{
    uint32_t low = 0, high = group->topic_count;
    *found = false;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int order = name_order(group->topics[middle].name, name);
        if (order == 0) *found = true;
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return low;
}

static uint32_t offset_place(const struct group_topic *topic, int32_t partition, bool *found)
{
    uint32_t low = 0, high = topic->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (topic->offsets[middle].partition < partition) low = middle + 1;
        else high = middle;
    }
    *found = low < topic->count && topic->offsets[low].partition == partition;
    return low;
}

static struct group_topic *topic_find(const struct group *group, struct ot_str name)
{
    bool found = false;
    const uint32_t at = group == NULL || name.null ? 0 : topic_place(group, name, &found);
    return found ? &group->topics[at] : NULL;
}

static struct group_offset *offset_find(const struct group *group, struct ot_str name, int32_t partition)
{
    struct group_topic *topic = topic_find(group, name);
    bool found = false;
    const uint32_t at = topic == NULL ? 0 : offset_place(topic, partition, &found);
    return found ? &topic->offsets[at] : NULL;
}

/* An array of the set with room for one more. */
static void *grown(struct group_set *set, void *items, uint32_t count, uint32_t *cap, size_t bytes)
{
    if (count < *cap) return items;
    const uint32_t more = *cap == 0 ? 1 : *cap * 2;
    void *copy = group_alloc(set, more * bytes);
    if (copy == NULL) return NULL;
    if (count > 0) memcpy(copy, items, count * bytes);
    group_free(set, items, *cap * bytes);
    *cap = more;
    return copy;
}

static struct group_topic *topic_add(struct group *group, struct ot_str name)
{
    bool found;
    const uint32_t at = topic_place(group, name, &found);
    struct group_topic topic = { 0 };
    if (found) return &group->topics[at];
    struct group_topic *topics = grown(group->set, group->topics, group->topic_count, &group->topic_cap, sizeof *topics);
    if (topics != NULL) group->topics = topics;
    if (topics == NULL || !group_str_copy(group->set, name, &topic.name)) return NULL;
    memmove(topics + at + 1, topics + at, (group->topic_count - at) * sizeof *topics);
    topics[at] = topic;
    group->topic_count++;
    return &topics[at];
}

static struct group_offset *offset_add(struct group *group, struct ot_str name, int32_t partition)
{
    struct group_topic *topic = topic_add(group, name);
    bool found;
    if (topic == NULL) return NULL;
    const uint32_t at = offset_place(topic, partition, &found);
    if (found) return &topic->offsets[at];
    struct group_offset *offsets = grown(group->set, topic->offsets, topic->count, &topic->cap, sizeof *offsets);
    if (offsets == NULL) return NULL;
    topic->offsets = offsets;
    memmove(offsets + at + 1, offsets + at, (topic->count - at) * sizeof *offsets);
    offsets[at] = (struct group_offset){ .partition = partition, .leader_epoch = -1, .offset = -1, .commit_ms = -1, .expire_ms = -1, .order = -1 };
    topic->count++;
    return &offsets[at];
}

static void topic_drop(struct group *group, struct group_topic *topic)
{
    group_free(group->set, topic->offsets, topic->cap * sizeof *topic->offsets);
    group_str_free(group->set, &topic->name);
    const uint32_t at = (uint32_t)(topic - group->topics);
    group->topic_count--;
    memmove(topic, topic + 1, (group->topic_count - at) * sizeof *topic);
}

static void metadata_free(struct group_set *set, struct group_offset *offset)
{
    if (offset->metadata != NULL) group_free(set, offset->metadata, (size_t)offset->metadata_bytes + 1);
    offset->metadata = NULL;
    offset->metadata_bytes = 0;
}

/* No commit is there any more; the place stays as long as transactions have one under way. True: the topic is gone with it. */
static bool offset_drop(struct group *group, struct group_topic *topic, uint32_t at)
{
    struct group_offset *offset = &topic->offsets[at];
    if (offset->offset >= 0) {
        group->offset_count--;
        group->set->counts.offsets--;
    }
    metadata_free(group->set, offset);
    offset->offset = -1;
    if (offset->pending > 0) return false;
    topic->count--;
    memmove(offset, offset + 1, (topic->count - at) * sizeof *offset);
    if (topic->count > 0) return false;
    topic_drop(group, topic);
    return true;
}

void group_offsets_free(struct group *group)
{
    while (group->topic_count > 0) {
        struct group_topic *topic = &group->topics[group->topic_count - 1];
        for (uint32_t i = 0; i < topic->count; i++) {
            metadata_free(group->set, &topic->offsets[i]);
            if (topic->offsets[i].offset >= 0) group->set->counts.offsets--;
        }
        topic_drop(group, topic);
    }
    group_free(group->set, group->topics, group->topic_cap * sizeof *group->topics);
    group->topics = NULL;
    group->topic_cap = group->offset_count = 0;
}

/* What a commit says, taken over whole or not at all. */
struct commit { int64_t offset, commit_ms, expire_ms, order; int32_t leader_epoch; struct ot_str metadata; struct ot_uuid topic_id; };

static bool offset_put(struct group *group, struct ot_str topic, int32_t partition, const struct commit *commit)
{
    struct ot_str metadata = { .null = true };
    struct group_offset *offset = offset_add(group, topic, partition);
    if (offset == NULL) return false;
    if (commit->order <= offset->order) return true;   /* a later one is there already */
    if (!commit->metadata.null && commit->metadata.bytes > 0 && !group_str_copy(group->set, commit->metadata, &metadata)) return false;
    metadata_free(group->set, offset);
    if (offset->offset < 0) {
        group->offset_count++;
        group->set->counts.offsets++;
    }
    offset->metadata = (char *)(uintptr_t)metadata.data;
    offset->metadata_bytes = metadata.bytes;
    offset->offset = commit->offset;
    offset->leader_epoch = commit->leader_epoch;
    offset->commit_ms = commit->commit_ms;
    offset->expire_ms = commit->expire_ms;
    offset->order = commit->order;
    offset->topic_id = commit->topic_id;
    return true;
}

/* ---- records */

static void emit(struct group_set *set, struct ot_str group, struct ot_str topic, int32_t partition, const struct commit *commit)
{
    struct ot_offset_commit_key key;
    struct ot_offset_commit_value value;
    ot_offset_commit_key_defaults(&key);
    key.group = group;
    key.topic = topic;
    key.partition = partition;
    if (commit == NULL) {
        group_emit(set, &ot_offset_commit_key_message, &key, NULL, 0, NULL);
        return;
    }
    ot_offset_commit_value_defaults(&value);
    value.offset = commit->offset;
    value.leader_epoch = commit->leader_epoch;
    value.metadata = commit->metadata.null ? ot_str_of("") : commit->metadata;
    value.commit_timestamp = commit->commit_ms;
    value.expire_timestamp = commit->expire_ms;
    value.topic_id = commit->topic_id;
    /* as Kafka: only version 1 has an expiry; 4 brought the topic's id, which a reader of 3 would not know */
    const int16_t version = commit->expire_ms >= 0 ? 1 : ot_uuid_is_zero(&commit->topic_id) ? 3 : 4;
    group_emit(set, &ot_offset_commit_key_message, &key, &ot_offset_commit_value_message, version, &value);
}

void group_offsets_tombstones(struct group *group)
{
    for (uint32_t t = 0; t < group->topic_count; t++) {
        const struct group_topic *topic = &group->topics[t];
        for (uint32_t i = 0; i < topic->count; i++)
            if (topic->offsets[i].offset >= 0) emit(group->set, group->id, topic->name, topic->offsets[i].partition, NULL);
    }
}

/* ---- transactions */

struct txn_part { struct txn_part *next; struct ot_str group, topic, metadata; int32_t partition; struct commit commit; };
struct group_txn { int64_t producer_id; struct txn_part *first; };

static void txn_part_free(struct group_set *set, struct txn_part *part)
{
    group_str_free(set, &part->group);
    group_str_free(set, &part->topic);
    group_str_free(set, &part->metadata);
    group_free(set, part, sizeof *part);
}

static void txn_free(struct group_set *set, struct group_txn *txn)
{
    while (txn->first != NULL) {
        struct txn_part *next = txn->first->next;
        txn_part_free(set, txn->first);
        txn->first = next;
    }
    (void)ot_map_remove(&set->txns, &txn->producer_id, sizeof txn->producer_id);
    group_free(set, txn, sizeof *txn);
}

void group_txns_free(struct group_set *set)
{
    while (set->txns.count > 0) txn_free(set, set->txns.entries[set->txns.count - 1].value);
}

static struct group *group_for_commit(struct group_set *set, struct ot_str id)
{
    struct group *group = group_find(set, id);
    if (group != NULL) return group;
    group = group_add(set, id);
    if (group == NULL || group_classic_begin(group)) return group;
    group_remove(group);
    return NULL;
}

static enum ot_err pend(struct group_set *set, int64_t producer_id, struct ot_str group_id, struct ot_str topic, int32_t partition, const struct commit *commit)
{
    struct group_txn *txn = ot_map_get(&set->txns, &producer_id, sizeof producer_id);
    struct group *group = group_for_commit(set, group_id);
    struct group_offset *offset = group == NULL ? NULL : offset_add(group, topic, partition);
    struct txn_part *part = offset == NULL ? NULL : group_alloc(set, sizeof *part);
    if (part == NULL) return OT_ERR_NO_MEMORY;
    *part = (struct txn_part){ .partition = partition, .commit = *commit };
    if (!group_str_copy(set, group_id, &part->group) || !group_str_copy(set, topic, &part->topic) || !group_str_copy(set, commit->metadata, &part->metadata)) goto fail;
    part->commit.metadata = part->metadata;
    if (txn == NULL) {
        if ((txn = group_alloc(set, sizeof *txn)) == NULL) goto fail;
        txn->producer_id = producer_id;
        if (ot_map_put(&set->txns, &producer_id, sizeof producer_id, txn) != OT_OK) {
            group_free(set, txn, sizeof *txn);
            goto fail;
        }
    }
    part->next = txn->first;
    txn->first = part;
    offset->pending++;
    return OT_OK;
fail:
    txn_part_free(set, part);
    return OT_ERR_NO_MEMORY;
}

void group_offsets_marker(struct group_set *set, int64_t producer_id, int16_t producer_epoch, bool commit)
{
    struct group_txn *txn = ot_map_get(&set->txns, &producer_id, sizeof producer_id);
    (void)producer_epoch;                      /* of version 2 it is one above the records'; the log has checked it */
    if (txn == NULL) return;
    for (struct txn_part *part = txn->first; part != NULL; part = part->next) {
        struct group *group = commit ? group_for_commit(set, part->group) : group_find(set, part->group);
        struct group_topic *topic = topic_find(group, part->topic);
        bool found = false;
        uint32_t at = topic == NULL ? 0 : offset_place(topic, part->partition, &found);
        if (found && topic->offsets[at].pending > 0) topic->offsets[at].pending--;
        if (commit && group != NULL && !offset_put(group, part->topic, part->partition, &part->commit)) set->counts.unknown_records++;
        if (!commit && found && topic->offsets[at].pending == 0 && topic->offsets[at].offset < 0) (void)offset_drop(group, topic, at);
    }
    txn_free(set, txn);
}

/* ---- replay */

struct replayed { struct ot_str group, topic; int32_t partition; struct commit commit; };

static enum ot_err read_record(const struct group_set_record *record, int16_t type, struct ot_arena *arena, struct replayed *out)
{
    struct ot_reader key_in = ot_reader_over(record->key.data, record->key.bytes), value_in = ot_reader_over(record->value.data, record->value.bytes);
    struct ot_wire_error error;
    struct ot_offset_commit_key key;           /* both key messages have the same fields */
    struct ot_legacy_offset_commit_key legacy;
    struct ot_offset_commit_value value;
    int16_t version;
    enum ot_err err;
    if (type == 0) {
        err = ot_wire_framed_decode(&ot_legacy_offset_commit_key_message, &key_in, arena, &legacy, &version, &error);
        if (err == OT_OK) *out = (struct replayed){ legacy.group, legacy.topic, legacy.partition, { 0 } };
    } else {
        err = ot_wire_framed_decode(&ot_offset_commit_key_message, &key_in, arena, &key, &version, &error);
        if (err == OT_OK) *out = (struct replayed){ key.group, key.topic, key.partition, { 0 } };
    }
    if (err != OT_OK || record->value.null) return err;
    err = ot_wire_framed_decode(&ot_offset_commit_value_message, &value_in, arena, &value, &version, &error);
    if (err == OT_OK)
        out->commit = (struct commit){ value.offset, value.commit_timestamp, version == 1 ? value.expire_timestamp : -1, record->offset, value.leader_epoch, value.metadata,
            value.topic_id };
    return err;
}

enum ot_err group_offsets_replay(struct group_set *set, const struct group_set_record *record, int16_t type, struct ot_arena *arena)
{
    struct replayed read;
    enum ot_err err = read_record(record, type, arena, &read);
    if (err != OT_OK) return err;
    if (record->transactional && !record->value.null && record->producer_id >= 0)
        return pend(set, record->producer_id, read.group, read.topic, read.partition, &read.commit);
    if (record->value.null) {
        struct group *group = group_find(set, read.group);
        struct group_topic *topic = topic_find(group, read.topic);
        bool found = false;
        const uint32_t at = topic == NULL ? 0 : offset_place(topic, read.partition, &found);
        if (found) (void)offset_drop(group, topic, at);
        return OT_OK;
    }
    struct group *group = group_for_commit(set, read.group);
    return group == NULL || !offset_put(group, read.topic, read.partition, &read.commit) ? OT_ERR_NO_MEMORY : OT_OK;
}

/* ---- asks */

static struct commit commit_of(const struct group_set *set, const struct group_ask *ask, const struct group_part *part, int64_t order)
{
    const int64_t now_ms = set->env->wall_ms;
    return (struct commit){ part->offset, now_ms, ask->retention_ms >= 0 ? now_ms + ask->retention_ms : -1, order, part->leader_epoch, part->metadata, part->topic_id };
}

/* Of what is committed, whatever its order; never 0. It outlives a restart, since all of it lies in the log. */
static uint64_t offsets_version(const struct group *group)
{
    uint64_t sum = 1;
    for (uint32_t t = 0; group != NULL && t < group->topic_count; t++) {
        const struct group_topic *topic = &group->topics[t];
        const uint64_t name = ot_hash64(topic->name.data, topic->name.bytes, 0);
        for (uint32_t i = 0; i < topic->count; i++) {
            const struct group_offset *offset = &topic->offsets[i];
            const int64_t words[] = { offset->partition, offset->leader_epoch, offset->offset, offset->commit_ms };
            if (offset->offset >= 0) sum += ot_hash64(offset->metadata_bytes > 0 ? offset->metadata : "", offset->metadata_bytes, ot_hash64(words, sizeof words, name));
        }
    }
    return sum >> 1 | 1;                       /* 63 bits, for those who keep it signed */
}

bool group_offsets_on(const struct group *group, struct ot_str topic)
{
    const struct group_topic *found = topic_find(group, topic);
    for (uint32_t i = 0; found != NULL && i < found->count; i++)
        if (found->offsets[i].offset >= 0) return true;
    return false;
}

static enum ot_err commit_check(struct group *group, const struct group_ask *ask)
{
    if (ask->admin && ask->offsets_version != 0 && ask->offsets_version != offsets_version(group)) return OT_ERR_MISMATCH;
    if (group == NULL) {
        if (ask->generation < 0) return OT_OK;
        return ask->version >= 9 && ask->kind == GROUP_ASK_OFFSET_COMMIT ? OT_ERR_GROUP_ID_NOT_FOUND : OT_ERR_ILLEGAL_GENERATION;
    }
    if (ask->admin) return group->ops->empty(group) ? OT_OK : OT_ERR_NON_EMPTY_GROUP;
    return group->ops->commit_check(group, ask);
}

static enum ot_err part_check(struct group_set *set, const struct group_part *part)
{
    if (!part->metadata.null && part->metadata.bytes > (uint32_t)OT_MAX(set->env->config->offset_metadata_bytes_max, 0)) return OT_ERR_OFFSET_METADATA_TOO_LARGE;
    return part->offset < 0 ? OT_ERR_OFFSET_OUT_OF_RANGE : OT_OK;
}

static void ask_commit(struct group_set *set, struct group_ask *ask)
{
    struct group *group = group_find(set, ask->group_id);
    const bool is_new = group == NULL;
    enum ot_err err = commit_check(group, ask);
    if (err == OT_OK && (group = group_for_commit(set, ask->group_id)) == NULL) err = OT_ERR_COORDINATOR_NOT_AVAILABLE;
    ask->order = set->order;
    for (uint32_t i = 0; err == OT_OK && i < ask->part_count; i++) {
        struct group_part *part = &ask->parts[i];
        if (part->error != OT_OK || (part->error = part_check(set, part)) != OT_OK) continue;
        const struct commit commit = commit_of(set, ask, part, ++set->order);
        if (ask->kind == GROUP_ASK_OFFSET_COMMIT && !offset_put(group, part->topic, part->partition, &commit)) {
            part->error = OT_ERR_COORDINATOR_NOT_AVAILABLE;
            continue;
        }
        emit(set, ask->group_id, part->topic, part->partition, &commit);
    }
    if (ask->kind == GROUP_ASK_TXN_OFFSET_COMMIT && set->out->record_count > 0) {
        set->out->producer_id = ask->producer_id;
        set->out->producer_epoch = ask->producer_epoch;
    }
    if (is_new && group != NULL && group->topic_count == 0) group_remove(group);
    group_answer(set, ask, err);
}

enum ot_err group_offsets_pend(struct group_set *set, const struct group_ask *ask)
{
    enum ot_err err = OT_OK;
    int64_t order = ask->order;                /* of the records as they lie in the log, whatever was appended since */
    for (uint32_t i = 0; err == OT_OK && i < ask->part_count; i++) {
        const struct group_part *part = &ask->parts[i];
        if (part->error != OT_OK) continue;
        const struct commit commit = commit_of(set, ask, part, ++order);
        err = pend(set, ask->producer_id, ask->group_id, part->topic, part->partition, &commit);
    }
    return err;
}

static void part_fill(struct group_part *part, const struct group_offset *offset, struct group_ask *ask)
{
    const bool other = offset != NULL && !ot_uuid_is_zero(&part->topic_id) && !ot_uuid_is_zero(&offset->topic_id) && !ot_uuid_equal(&part->topic_id, &offset->topic_id);
    part->offset = part->commit_ms = part->expire_ms = -1;
    part->leader_epoch = -1;
    part->metadata = ot_str_of("");
    if (offset == NULL || other) return;
    if (ask->require_stable && offset->pending > 0) {
        part->error = OT_ERR_UNSTABLE_OFFSET_COMMIT;
        return;
    }
    if (offset->offset < 0) return;
    part->offset = offset->offset;
    part->leader_epoch = offset->leader_epoch;
    part->commit_ms = offset->commit_ms;
    part->expire_ms = offset->expire_ms;
    if (offset->metadata != NULL && !group_arena_str(ask->arena, (struct ot_str){ offset->metadata, offset->metadata_bytes, false }, &part->metadata)) {
        part->metadata = ot_str_of("");
        part->error = OT_ERR_UNKNOWN_SERVER_ERROR;
    }
}

static enum ot_err fetch_all(const struct group *group, struct group_ask *ask)
{
    uint32_t count = 0;
    for (uint32_t t = 0; t < group->topic_count; t++) count += group->topics[t].count;
    ask->parts = ot_arena_array(ask->arena, OT_MAX(count, 1u), sizeof *ask->parts);
    if (ask->parts == NULL) return OT_ERR_UNKNOWN_SERVER_ERROR;
    for (uint32_t t = 0; t < group->topic_count; t++) {
        const struct group_topic *topic = &group->topics[t];
        struct ot_str name;
        if (!group_arena_str(ask->arena, topic->name, &name)) return OT_ERR_UNKNOWN_SERVER_ERROR;
        for (uint32_t i = 0; i < topic->count; i++) {
            struct group_part *part = &ask->parts[ask->part_count];
            if (topic->offsets[i].offset < 0 && !(ask->require_stable && topic->offsets[i].pending > 0)) continue;
            *part = (struct group_part){ .topic = name, .partition = topic->offsets[i].partition };
            part_fill(part, &topic->offsets[i], ask);
            part->topic_id = topic->offsets[i].topic_id;
            ask->part_count++;
        }
    }
    return OT_OK;
}

static void ask_fetch(struct group_set *set, struct group_ask *ask)
{
    struct group *group = group_find(set, ask->group_id);
    enum ot_err err = group != NULL && group->ops->fetch_check != NULL ? group->ops->fetch_check(group, ask) : OT_OK;
    if (err == OT_OK && ask->all) {
        ask->parts = NULL;
        ask->part_count = 0;
        if (group != NULL) err = fetch_all(group, ask);
        ask->offsets_version = offsets_version(group);
    }
    for (uint32_t i = 0; err == OT_OK && !ask->all && i < ask->part_count; i++) {
        struct group_part *part = &ask->parts[i];
        if (part->error != OT_OK) part_fill(part, NULL, ask);
        else part_fill(part, offset_find(group, part->topic, part->partition), ask);
    }
    group_answer(set, ask, err);
}

static void ask_delete(struct group_set *set, struct group_ask *ask)
{
    struct group *group = group_find(set, ask->group_id);
    enum ot_err err = OT_OK;
    if (group == NULL) err = OT_ERR_GROUP_ID_NOT_FOUND;
    else if (ask->admin && ask->offsets_version != 0 && ask->offsets_version != offsets_version(group)) err = OT_ERR_MISMATCH;
    else if (!group->ops->empty(group) && !ot_str_equal(group->ops->protocol_type(group), ot_str_of("consumer"))) err = OT_ERR_NON_EMPTY_GROUP;
    if (err == OT_OK && ask->all) err = fetch_all(group, ask);
    for (uint32_t i = 0; err == OT_OK && i < ask->part_count; i++) {
        struct group_part *part = &ask->parts[i];
        if (part->error != OT_OK) continue;
        struct group_topic *topic = topic_find(group, part->topic);
        bool found = false;
        const uint32_t at = topic == NULL ? 0 : offset_place(topic, part->partition, &found);
        if (!part->topic.null && group->ops->subscribed(group, part->topic)) {
            part->error = OT_ERR_GROUP_SUBSCRIBED_TO_TOPIC;
        } else if (found && topic->offsets[at].offset >= 0) {
            emit(set, group->id, part->topic, part->partition, NULL);
            (void)offset_drop(group, topic, at);
        }
    }
    group_answer(set, ask, err);
}

/* Its offsets mean nothing any more; a new topic of the same name begins anew. */
static void ask_topic_gone(struct group_set *set, struct group_ask *ask)
{
    const struct group_part *gone = &ask->parts[0];
    for (uint32_t g = 0; g < set->groups.count && set->out->fail == OT_OK; g++) {
        struct group *group = set->groups.entries[g].value;
        struct group_topic *topic = topic_find(group, gone->topic);
        for (uint32_t i = topic == NULL ? 0 : topic->count; i > 0; i--) {
            const struct group_offset *offset = &topic->offsets[i - 1];
            if (offset->offset < 0 || (!ot_uuid_is_zero(&offset->topic_id) && !ot_uuid_equal(&offset->topic_id, &gone->topic_id))) continue;
            emit(set, group->id, gone->topic, offset->partition, NULL);
            if (offset_drop(group, topic, i - 1)) break;
        }
    }
    group_answer(set, ask, OT_OK);
}

void group_offsets_ask(struct group_set *set, struct group_ask *ask)
{
    if (ask->kind == GROUP_ASK_OFFSET_FETCH) ask_fetch(set, ask);
    else if (ask->kind == GROUP_ASK_OFFSET_DELETE) ask_delete(set, ask);
    else if (ask->kind == GROUP_ASK_TOPIC_GONE) ask_topic_gone(set, ask);
    else ask_commit(set, ask);
}

/* ---- expiry */

/* A wall clock that jumps ahead for an hour must not cost anybody what was committed. */
static int64_t expiry_now_ms(const struct group_env *env) { return env->steady_ms == 0 ? env->wall_ms : OT_MIN(env->wall_ms, env->steady_ms); }

static bool expired(const struct group_set *set, const struct group_offset *offset, int64_t base_ms)
{
    const int64_t now_ms = expiry_now_ms(set->env);
    if (offset->offset < 0 || offset->pending > 0) return false;
    if (offset->expire_ms >= 0) return now_ms >= offset->expire_ms;
    return now_ms - OT_MAX(offset->commit_ms, base_ms) >= set->env->config->offsets_retention_ms;
}

/* Somebody will ask where it went. Without memory it is not told, and goes all the same. */
static void tell_expired(struct group *group, const struct group_topic *topic, const struct group_offset *offset)
{
    struct group_out *out = group->set->out;
    struct group_expiry *expiry = ot_arena_alloc(out->arena, sizeof *expiry);
    if (expiry == NULL) return;
    *expiry = (struct group_expiry){ .next = out->expired, .partition = offset->partition, .offset = offset->offset, .commit_ms = offset->commit_ms };
    if (group_arena_str(out->arena, group->id, &expiry->group) && group_arena_str(out->arena, topic->name, &expiry->topic)) out->expired = expiry;
}

/* True: the group is gone. */
static bool expire_group(struct group *group, uint32_t *budget)
{
    struct group_set *set = group->set;
    const int64_t base_ms = group->ops->expiry_base_ms(group);
    if (base_ms == INT64_MAX) return false;
    for (uint32_t t = group->topic_count; t > 0; t--) {
        struct group_topic *topic = &group->topics[t - 1];
        if (group->ops->subscribed(group, topic->name)) continue;
        for (uint32_t i = topic->count; i > 0 && *budget > 0; i--) {
            if (!expired(set, &topic->offsets[i - 1], base_ms)) continue;
            emit(set, group->id, topic->name, topic->offsets[i - 1].partition, NULL);
            tell_expired(group, topic, &topic->offsets[i - 1]);
            set->counts.expired_offsets++;
            --*budget;
            if (offset_drop(group, topic, i - 1)) break;
        }
    }
    if (group->topic_count > 0 || !group->ops->empty(group)) return false;
    group_delete(group);
    return true;
}

void group_offsets_expire(struct group_set *set)
{
    uint32_t budget = EXPIRE_OFFSETS_MAX, looked = 0;
    while (set->expiry_at < set->groups.count && looked++ < EXPIRE_GROUPS_MAX && budget > 0 && set->out->fail == OT_OK) {
        if (!expire_group(set->groups.entries[set->expiry_at].value, &budget)) set->expiry_at++;      /* else another one is in its place */
    }
    const bool more = set->expiry_at < set->groups.count;
    if (!more) set->expiry_at = 0;
    group_timer_set(set, &set->expiry, set->env->now_us + (more ? (int64_t)EXPIRE_AGAIN_US : set->env->config->offsets_check_interval_ms * 1000));
}
