#include "coordinator/rows.h"
#include "base/wire/coord_config_row.h"
#include "base/wire/coord_config_scope_row.h"
#include "base/wire/coord_name_row.h"
#include "base/wire/coord_partition_row.h"
#include "base/wire/frame.h"
#include "coordinator/bug.h"
#include <stdio.h>
#include <string.h>

/* ---- keys */

static void key_start(struct coord_key *key, enum coord_table table)
{
    key->bytes = 1;
    key->data[0] = (uint8_t)table;
}

static void key_i32(struct coord_key *key, int32_t number)
{
    ot_store_u32(key->data + key->bytes, (uint32_t)number ^ UINT32_C(0x80000000));
    key->bytes += 4;
}

static void key_i64(struct coord_key *key, int64_t number)
{
    ot_store_u64(key->data + key->bytes, (uint64_t)number ^ UINT64_C(0x8000000000000000));
    key->bytes += 8;
}

static int32_t load_key_i32(const uint8_t *at) { return (int32_t)(ot_load_u32(at) ^ UINT32_C(0x80000000)); }

static void key_data(struct coord_key *key, const void *data, size_t bytes)
{
    bytes = OT_MIN(bytes, COORD_KEY_BYTES_MAX - key->bytes);   /* callers bound names; a longer one is no key of ours and is not found */
    if (bytes > 0) {
        memcpy(key->data + key->bytes, data, bytes);
    }
    key->bytes += (uint32_t)bytes;
}

static void key_scope(struct coord_key *key, const struct coord_scope *scope)
{
    uint8_t kind = (uint8_t)scope->kind;
    key_data(key, &kind, 1);
    if (scope->kind == COORD_SCOPE_BROKER) {
        key_i32(key, scope->broker_id);
    } else if (scope->kind == COORD_SCOPE_TOPIC) {
        key_data(key, scope->topic_id.bytes, 16);
    } else if (coord_scope_is_named(scope)) {
        const uint8_t bytes = (uint8_t)OT_MIN(scope->name.bytes, (uint32_t)COORD_SCOPE_NAME_BYTES_MAX);
        key_data(key, &bytes, 1);
        key_data(key, scope->name.data, bytes);
    }
}

static struct coord_key key_number(enum coord_table table, int32_t number)
{
    struct coord_key key;
    key_start(&key, table);
    key_i32(&key, number);
    return key;
}

static struct coord_key key_name(struct ot_str name)
{
    struct coord_key key;
    key_start(&key, COORD_TABLE_TOPIC_NAME);
    key_data(&key, name.data, name.bytes);
    return key;
}

static struct coord_key key_topic(enum coord_table table, const struct ot_uuid *id)
{
    struct coord_key key;
    key_start(&key, table);
    key_data(&key, id->bytes, 16);
    return key;
}

static struct coord_key key_partition(const struct ot_uuid *topic_id, int32_t index)
{
    struct coord_key key = key_topic(COORD_TABLE_PARTITION, topic_id);
    key_i32(&key, index);
    return key;
}

static struct coord_key key_config(const struct coord_scope *scope, struct ot_str name)
{
    struct coord_key key;
    key_start(&key, COORD_TABLE_CONFIG);
    key_scope(&key, scope);
    key_data(&key, name.data, name.bytes);
    return key;
}

static void key_after(struct coord_key *key)               /* the least key above this one */
{
    if (key->bytes < COORD_KEY_BYTES_MAX) {
        key->data[key->bytes++] = 0;
    }
}

static bool parse_scope(struct ot_reader *in, struct coord_scope *out)
{
    uint8_t kind = ot_read_u8(in);
    out->kind = kind;
    if (kind == COORD_SCOPE_BROKER) {
        out->broker_id = (int32_t)(ot_read_u32(in) ^ UINT32_C(0x80000000));
    } else if (kind == COORD_SCOPE_TOPIC) {
        const uint8_t *id = ot_read_bytes(in, 16);
        memcpy(out->topic_id.bytes, id == NULL ? (const uint8_t[16]){ 0 } : id, 16);
    } else if (coord_scope_is_named(out)) {
        out->name.bytes = ot_read_u8(in);
        out->name.data = (const char *)ot_read_bytes(in, out->name.bytes);
    }
    return in->err == OT_OK && kind <= COORD_SCOPE_CLIENT_METRICS;
}

bool coord_key_parse(struct ot_blob key, struct coord_key_parts *out)
{
    struct ot_reader in = ot_reader_over(key.data, key.bytes);
    memset(out, 0, sizeof *out);
    out->table = ot_read_u8(&in);
    switch (out->table) {
    case COORD_TABLE_CLUSTER: return in.err == OT_OK && ot_reader_left(&in) == 0;
    case COORD_TABLE_VOTER:
    case COORD_TABLE_BROKER: out->id = (int32_t)(ot_read_u32(&in) ^ UINT32_C(0x80000000)); break;
    case COORD_TABLE_TOPIC_NAME:
    case COORD_TABLE_FOLDED_NAME: break;
    case COORD_TABLE_TOPIC:
    case COORD_TABLE_PARTITION: {
        const uint8_t *id = ot_read_bytes(&in, 16);
        memcpy(out->topic_id.bytes, id == NULL ? (const uint8_t[16]){ 0 } : id, 16);
        out->index = out->table == COORD_TABLE_PARTITION ? (int32_t)(ot_read_u32(&in) ^ UINT32_C(0x80000000)) : 0;
        break;
    }
    case COORD_TABLE_DELETED_TOPIC: return key.bytes == 25;
    case COORD_TABLE_CONFIG:
    case COORD_TABLE_CONFIG_SCOPE:
        if (!parse_scope(&in, &out->scope)) {
            return false;
        }
        break;
    default: return false;
    }
    out->name = (struct ot_str){ (const char *)in.at, (uint32_t)ot_reader_left(&in), false };
    return in.err == OT_OK;
}

/* First row at or after key within its first prefix_bytes. */
static bool first_from(const struct coord_value *value, const struct coord_key *key, uint32_t prefix_bytes, struct ot_blob *key_out, struct ot_blob *row_out)
{
    struct coord_cursor cursor;
    coord_cursor_seek(&cursor, &value->tree, coord_key_blob(key));
    return coord_cursor_next(&cursor, key_out, row_out) && key_out->bytes >= prefix_bytes && memcmp(key_out->data, key->data, prefix_bytes) == 0;
}

/* ---- rows: to and from their messages */

static enum ot_err put(struct coord_edit *edit, struct coord_key key, const struct ot_wire_message *message, const void *row)
{
    uint8_t data[COORD_ROW_BYTES_MAX];
    struct ot_writer out = ot_writer_over(data, sizeof data);
    const int16_t version = COORD_BUG(NEWEST_ROWS) ? message->version_max : message->version_max == 0 ? 0 : coord_level_version(coord_value_level(edit->value), message);
    enum ot_err err = ot_wire_framed_encode(message, version, row, &out);
    if (err != OT_OK) {
        return err;
    }
    struct ot_blob old, now = coord_blob(data, (size_t)(out.at - data));
    if (coord_value_get(edit->value, coord_key_blob(&key), &old) && old.bytes == now.bytes && memcmp(old.data, now.data, now.bytes) == 0) {
        return OT_OK;                          /* as it was: no change to publish */
    }
    return coord_delta_set(edit->delta, edit->value, coord_key_blob(&key), now);
}

static enum ot_err cut(struct coord_edit *edit, struct coord_key key) { return coord_delta_remove(edit->delta, edit->value, coord_key_blob(&key)); }

static enum ot_err decode(const struct ot_wire_message *message, struct ot_blob bytes, struct ot_arena *arena, void *out)
{
    struct ot_reader in = ot_reader_over(bytes.data, bytes.bytes);
    int16_t version;
    return ot_wire_framed_decode(message, &in, arena, out, &version, NULL) == OT_OK && version <= coord_level_version_max(message) ? OT_OK : OT_ERR_CORRUPT;
}

static enum ot_err decode_flat(const struct ot_wire_message *message, struct ot_blob bytes, void *out)     /* rows without arrays */
{
    struct ot_arena none;
    ot_arena_init(&none, 0);
    return decode(message, bytes, &none, out);
}

static enum ot_err get_flat(const struct coord_value *value, struct coord_key key, const struct ot_wire_message *message, void *out)
{
    struct ot_blob bytes;
    return coord_value_get(value, coord_key_blob(&key), &bytes) ? decode_flat(message, bytes, out) : OT_ERR_NOT_FOUND;
}

/* ---- rows of a delta */

struct coord_key coord_key_broker(int32_t id) { return key_number(COORD_TABLE_BROKER, id); }

struct coord_key coord_key_topic(const struct ot_uuid *id) { return key_topic(COORD_TABLE_TOPIC, id); }

enum ot_err coord_voter_of(struct ot_blob bytes, struct ot_coord_voter_row *out) { return decode_flat(&ot_coord_voter_row_message, bytes, out); }

enum ot_err coord_broker_of(struct ot_blob bytes, struct ot_arena *arena, struct ot_coord_broker_row *out)
{
    return decode(&ot_coord_broker_row_message, bytes, arena, out);
}

enum ot_err coord_topic_of(struct ot_blob bytes, struct ot_coord_topic_row *out) { return decode_flat(&ot_coord_topic_row_message, bytes, out); }

enum ot_err coord_cluster_of(struct ot_blob bytes, struct ot_coord_cluster_row *out) { return decode_flat(&ot_coord_cluster_row_message, bytes, out); }

enum ot_err coord_config_of(struct ot_blob bytes, struct ot_str *value_out)
{
    struct ot_coord_config_row row;
    enum ot_err err = decode_flat(&ot_coord_config_row_message, bytes, &row);
    if (err == OT_OK) {
        *value_out = row.value;
    }
    return err;
}

/* ---- cluster, voters, brokers */

enum ot_err coord_cluster_get(const struct coord_value *value, struct ot_coord_cluster_row *out)
{
    struct coord_key key;
    key_start(&key, COORD_TABLE_CLUSTER);
    return get_flat(value, key, &ot_coord_cluster_row_message, out);
}

void coord_level_words(int16_t level, struct coord_levels known, char *text_out, size_t text_bytes)
{
    snprintf(text_out, text_bytes, "the cluster is at " COORD_FEATURE_LEVEL " %d, and this build knows %d to %d: start one that knows it", level, known.min, known.max);
}

int16_t coord_value_level(const struct coord_value *value)
{
    struct ot_coord_cluster_row row;
    return coord_cluster_get(value, &row) == OT_OK ? row.feature_level : COORD_LEVEL_FIRST;
}

enum ot_err coord_cluster_put(struct coord_edit *edit, const struct ot_coord_cluster_row *row)
{
    struct coord_key key;
    key_start(&key, COORD_TABLE_CLUSTER);
    return put(edit, key, &ot_coord_cluster_row_message, row);
}

enum ot_err coord_voter_get(const struct coord_value *value, int32_t id, struct ot_coord_voter_row *out)
{
    return get_flat(value, key_number(COORD_TABLE_VOTER, id), &ot_coord_voter_row_message, out);
}

enum ot_err coord_voter_put(struct coord_edit *edit, int32_t id, const struct ot_coord_voter_row *row)
{
    return put(edit, key_number(COORD_TABLE_VOTER, id), &ot_coord_voter_row_message, row);
}

enum ot_err coord_voter_remove(struct coord_edit *edit, int32_t id) { return cut(edit, key_number(COORD_TABLE_VOTER, id)); }

enum ot_err coord_voter_next(const struct coord_value *value, int32_t after, int32_t *id_out, struct ot_coord_voter_row *out)
{
    struct coord_key key = key_number(COORD_TABLE_VOTER, after);
    key_after(&key);
    struct ot_blob found, bytes;
    if (!first_from(value, &key, 1, &found, &bytes)) {
        return OT_ERR_NOT_FOUND;
    }
    if (found.bytes != 5) {
        return OT_ERR_CORRUPT;
    }
    *id_out = load_key_i32(found.data + 1);
    return decode_flat(&ot_coord_voter_row_message, bytes, out);
}

enum ot_err coord_broker_get(const struct coord_value *value, int32_t id, struct ot_arena *arena, struct ot_coord_broker_row *out)
{
    struct coord_key key = key_number(COORD_TABLE_BROKER, id);
    struct ot_blob bytes;
    return coord_value_get(value, coord_key_blob(&key), &bytes) ? decode(&ot_coord_broker_row_message, bytes, arena, out) : OT_ERR_NOT_FOUND;
}

enum ot_err coord_broker_next(const struct coord_value *value, int32_t after, struct ot_arena *arena, int32_t *id_out, struct ot_coord_broker_row *out)
{
    struct coord_key key = key_number(COORD_TABLE_BROKER, after);
    key_after(&key);
    struct ot_blob found, bytes;
    if (!first_from(value, &key, 1, &found, &bytes)) {
        return OT_ERR_NOT_FOUND;
    }
    if (found.bytes != 5) {
        return OT_ERR_CORRUPT;
    }
    *id_out = load_key_i32(found.data + 1);
    return decode(&ot_coord_broker_row_message, bytes, arena, out);
}

enum ot_err coord_broker_remove(struct coord_edit *edit, int32_t id) { return cut(edit, key_number(COORD_TABLE_BROKER, id)); }

enum ot_err coord_broker_put(struct coord_edit *edit, int32_t id, const struct ot_coord_broker_row *row)
{
    return put(edit, key_number(COORD_TABLE_BROKER, id), &ot_coord_broker_row_message, row);
}

/* ---- topics and names */

enum ot_err coord_topic_get(const struct coord_value *value, const struct ot_uuid *id, struct ot_coord_topic_row *out)
{
    return get_flat(value, key_topic(COORD_TABLE_TOPIC, id), &ot_coord_topic_row_message, out);
}

enum ot_err coord_topic_put(struct coord_edit *edit, const struct ot_uuid *id, const struct ot_coord_topic_row *row)
{
    return put(edit, key_topic(COORD_TABLE_TOPIC, id), &ot_coord_topic_row_message, row);
}

enum ot_err coord_topic_remove(struct coord_edit *edit, const struct ot_uuid *id) { return cut(edit, key_topic(COORD_TABLE_TOPIC, id)); }

enum ot_err coord_topic_name_get(const struct coord_value *value, struct ot_str name, struct ot_coord_topic_name_row *out)
{
    return get_flat(value, key_name(name), &ot_coord_topic_name_row_message, out);
}

enum ot_err coord_topic_name_put(struct coord_edit *edit, struct ot_str name, const struct ot_coord_topic_name_row *row)
{
    return put(edit, key_name(name), &ot_coord_topic_name_row_message, row);
}

enum ot_err coord_topic_name_remove(struct coord_edit *edit, struct ot_str name) { return cut(edit, key_name(name)); }

enum ot_err coord_topic_name_next(const struct coord_value *value, struct ot_str after, struct ot_str *name_out, struct ot_coord_topic_name_row *out)
{
    struct coord_key key = key_name(after);
    if (after.bytes > 0) {
        key_after(&key);
    }
    struct ot_blob found, bytes;
    if (!first_from(value, &key, 1, &found, &bytes)) {
        return OT_ERR_NOT_FOUND;
    }
    *name_out = (struct ot_str){ (const char *)found.data + 1, found.bytes - 1, false };
    return decode_flat(&ot_coord_topic_name_row_message, bytes, out);
}

static bool key_folded(struct ot_str name, struct coord_key *key)
{
    bool folds = false;
    key_start(key, COORD_TABLE_FOLDED_NAME);
    key_data(key, name.data, name.bytes);
    for (uint32_t i = 1; i < key->bytes; i++) {
        folds |= key->data[i] == '.' || key->data[i] == '_';
        key->data[i] = key->data[i] == '.' ? '_' : key->data[i];
    }
    return folds;
}

enum ot_err coord_folded_name_get(const struct coord_value *value, struct ot_str name, struct ot_str *holder_out)
{
    struct coord_key key;
    struct ot_coord_name_row row;
    enum ot_err err = key_folded(name, &key) ? get_flat(value, key, &ot_coord_name_row_message, &row) : OT_ERR_NOT_FOUND;
    if (err == OT_OK) {
        *holder_out = row.name;
    }
    return err;
}

enum ot_err coord_folded_name_put(struct coord_edit *edit, struct ot_str name)
{
    struct coord_key key;
    struct ot_coord_name_row row;
    ot_coord_name_row_defaults(&row);
    row.name = name;
    return key_folded(name, &key) ? put(edit, key, &ot_coord_name_row_message, &row) : OT_OK;
}

enum ot_err coord_folded_name_remove(struct coord_edit *edit, struct ot_str name)
{
    struct coord_key key;
    return key_folded(name, &key) ? cut(edit, key) : OT_OK;
}

/* ---- partitions */

uint64_t coord_replica_bit(const struct coord_partition *row, int32_t broker_id)
{
    for (int32_t i = 0; i < row->replica_count; i++) {
        if (row->replicas[i] == broker_id) {
            return UINT64_C(1) << i;
        }
    }
    return 0;
}

enum ot_err coord_partition_of(struct ot_blob bytes, struct coord_partition *out)
{
    struct ot_coord_partition_row row;
    uint8_t room[COORD_REPLICAS_MAX * 4 + COORD_LOSSES_MAX * 64 + 128];
    struct ot_arena arena;
    ot_arena_init_with(&arena, room, sizeof room, 0);
    if (decode(&ot_coord_partition_row_message, bytes, &arena, &row) != OT_OK || row.replicas.count < 1 || row.replicas.count > COORD_REPLICAS_MAX
        || row.losses.count > COORD_LOSSES_MAX) {
        return OT_ERR_CORRUPT;
    }
    *out = (struct coord_partition){ .replica_count = row.replicas.count, .isr = (uint64_t)row.isr, .elr = (uint64_t)row.elr, .adding = (uint64_t)row.adding,
        .removing = (uint64_t)row.removing, .last_members = (uint64_t)row.last_members, .leader = row.leader, .leader_epoch = row.leader_epoch,
        .partition_epoch = row.partition_epoch, .min_isr = row.min_isr, .last_leader = row.last_leader, .last_leader_epoch = row.last_leader_epoch,
        .durable_since = row.durable_since, .durable_class = (enum coord_durable)row.durable_class, .successor = (uint64_t)row.successor,
        .loss_version = row.loss_version, .loss_epoch = row.loss_epoch, .loss = (enum coord_loss)row.loss_reason, .loss_from = row.loss_from, .loss_leader = row.loss_leader,
        .loss_count = row.losses.count };
    for (int32_t i = 0; i < row.losses.count; i++) {
        out->losses[i] = (struct coord_loss_start){ row.losses.items[i].epoch, row.losses.items[i].start };
    }
    memcpy(out->replicas, row.replicas.items, (size_t)row.replicas.count * sizeof out->replicas[0]);
    return OT_OK;
}

enum ot_err coord_partition_get(const struct coord_value *value, const struct ot_uuid *topic_id, int32_t index, struct coord_partition *out)
{
    struct coord_key key = key_partition(topic_id, index);
    struct ot_blob bytes;
    return coord_value_get(value, coord_key_blob(&key), &bytes) ? coord_partition_of(bytes, out) : OT_ERR_NOT_FOUND;
}

static void partition_check(const struct coord_partition *row)         /* §14, invariant 11 */
{
    uint64_t all = coord_all_replicas(row);
    OT_ASSERT(((row->isr | row->elr | row->adding | row->removing | row->last_members) & ~all) == 0);
    OT_ASSERT((row->isr & row->elr) == 0);
    OT_ASSERT(row->elr == 0 || __builtin_popcountll(row->isr) < row->min_isr || COORD_BUG(ELR_STAYS));
    OT_ASSERT(row->leader == -1 || (coord_replica_bit(row, row->leader) & row->isr) != 0);
    OT_ASSERT(row->min_isr >= 1 && row->min_isr <= row->replica_count);
    OT_ASSERT(row->successor == 0 || (row->leader != -1 && (row->successor & row->isr) == row->successor && row->successor != coord_replica_bit(row, row->leader)));
}

enum ot_err coord_partition_put(struct coord_edit *edit, const struct ot_uuid *topic_id, int32_t index, const struct coord_partition *row)
{
    partition_check(row);
    struct ot_coord_partition_row out;
    int32_t replicas[COORD_REPLICAS_MAX];
    memcpy(replicas, row->replicas, sizeof replicas);
    ot_coord_partition_row_defaults(&out);
    out.replicas = (struct ot_i32_array){ replicas, row->replica_count };
    out.isr = (int64_t)row->isr;
    out.elr = (int64_t)row->elr;
    out.adding = (int64_t)row->adding;
    out.removing = (int64_t)row->removing;
    out.last_members = (int64_t)row->last_members;
    out.leader = row->leader;
    out.leader_epoch = row->leader_epoch;
    out.partition_epoch = row->partition_epoch;
    out.min_isr = row->min_isr;
    out.last_leader = row->last_leader;
    out.last_leader_epoch = row->last_leader_epoch;
    out.durable_since = row->durable_since;
    out.durable_class = (int8_t)row->durable_class;
    out.successor = (int64_t)row->successor;
    out.loss_version = row->loss_version;
    out.loss_epoch = row->loss_epoch;
    out.loss_reason = (int8_t)row->loss;
    out.loss_from = row->loss_from;
    out.loss_leader = row->loss_leader;
    struct ot_coord_partition_row_loss losses[COORD_LOSSES_MAX];
    memset(losses, 0, sizeof losses);
    for (int32_t i = 0; i < row->loss_count; i++) {
        losses[i].epoch = row->losses[i].epoch;
        losses[i].start = row->losses[i].start;
    }
    out.losses = (struct ot_coord_partition_row_loss_array){ losses, row->loss_count };
    return put(edit, key_partition(topic_id, index), &ot_coord_partition_row_message, &out);
}

enum ot_err coord_partition_remove(struct coord_edit *edit, const struct ot_uuid *topic_id, int32_t index)
{
    return cut(edit, key_partition(topic_id, index));
}

void coord_partitions_begin(const struct coord_value *value, struct coord_cursor *cursor)
{
    struct coord_key key;
    key_start(&key, COORD_TABLE_PARTITION);
    coord_cursor_seek(cursor, &value->tree, coord_key_blob(&key));
}

static enum ot_err next_partition(struct ot_blob key, struct ot_blob bytes, struct ot_uuid *topic_id_out, int32_t *index_out, struct coord_partition *out)
{
    if (key.bytes != 21) {
        return OT_ERR_CORRUPT;
    }
    memcpy(topic_id_out->bytes, key.data + 1, 16);
    *index_out = load_key_i32(key.data + 17);
    return coord_partition_of(bytes, out);
}

enum ot_err coord_partitions_next(struct coord_cursor *cursor, struct ot_uuid *topic_id_out, int32_t *index_out, struct coord_partition *out)
{
    struct ot_blob key, bytes;
    const bool any = coord_cursor_next(cursor, &key, &bytes) && key.data[0] == COORD_TABLE_PARTITION;
    return any ? next_partition(key, bytes, topic_id_out, index_out, out) : OT_ERR_NOT_FOUND;
}

static bool is_among(int32_t id, const int32_t *ids, uint32_t count)
{
    uint32_t from = 0, to = count;
    while (from < to) {
        const uint32_t middle = (from + to) / 2;
        if (ids[middle] < id) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from < count && ids[from] == id;
}

/* Reads only as far as the replicas, which come first; true also when that fails, and the decoder says so. */
static bool may_hold(struct ot_blob bytes, const int32_t *ids, uint32_t count)
{
    struct ot_reader in = ot_reader_over(bytes.data, bytes.bytes);
    if (ot_read_i16(&in) != ot_coord_partition_row_message.version_max) {
        return true;
    }
    const uint32_t replicas = ot_read_uvarint(&in);
    for (uint32_t i = 1; i < replicas && in.err == OT_OK; i++) {
        if (is_among(ot_read_i32(&in), ids, count)) {
            return true;
        }
    }
    return in.err != OT_OK;
}

enum ot_err coord_partitions_next_of(struct coord_cursor *cursor, const int32_t *ids, uint32_t count, struct ot_uuid *topic_id_out, int32_t *index_out,
    struct coord_partition *out)
{
    struct ot_blob key, bytes;
    while (coord_cursor_next(cursor, &key, &bytes) && key.data[0] == COORD_TABLE_PARTITION) {
        if (!may_hold(bytes, ids, count)) {
            continue;
        }
        const enum ot_err err = next_partition(key, bytes, topic_id_out, index_out, out);
        if (err != OT_OK) {
            return err;
        }
        for (int32_t i = 0; i < out->replica_count; i++) {
            if (is_among(out->replicas[i], ids, count)) {
                return OT_OK;
            }
        }
    }
    return OT_ERR_NOT_FOUND;
}

/* ---- topics that were deleted */

static struct coord_key key_deleted(const struct coord_deleted_topic *row)
{
    struct coord_key key;
    key_start(&key, COORD_TABLE_DELETED_TOPIC);
    key_i64(&key, row->version);
    key_data(&key, row->id.bytes, 16);
    return key;
}

enum ot_err coord_deleted_next(const struct coord_value *value, const struct coord_deleted_topic *after, struct coord_deleted_topic *out)
{
    struct coord_key key;
    struct ot_blob found, bytes;
    if (after == NULL) {
        key_start(&key, COORD_TABLE_DELETED_TOPIC);
    } else {
        key = key_deleted(after);
        key_after(&key);
    }
    if (!first_from(value, &key, 1, &found, &bytes)) {
        return OT_ERR_NOT_FOUND;
    }
    struct ot_coord_name_row row;
    if (found.bytes != 25 || decode_flat(&ot_coord_name_row_message, bytes, &row) != OT_OK) {
        return OT_ERR_CORRUPT;
    }
    out->version = (int64_t)(ot_load_u64(found.data + 1) ^ UINT64_C(0x8000000000000000));
    memcpy(out->id.bytes, found.data + 9, 16);
    out->name = row.name;
    return OT_OK;
}

enum ot_err coord_deleted_put(struct coord_edit *edit, const struct coord_deleted_topic *row)
{
    struct ot_coord_name_row out;
    ot_coord_name_row_defaults(&out);
    out.name = row->name;
    return put(edit, key_deleted(row), &ot_coord_name_row_message, &out);
}

enum ot_err coord_deleted_remove(struct coord_edit *edit, const struct coord_deleted_topic *row) { return cut(edit, key_deleted(row)); }

/* ---- configs */

enum ot_err coord_config_get(const struct coord_value *value, const struct coord_scope *scope, struct ot_str name, struct ot_str *value_out)
{
    struct ot_coord_config_row row;
    enum ot_err err = get_flat(value, key_config(scope, name), &ot_coord_config_row_message, &row);
    if (err == OT_OK) {
        *value_out = row.value;
    }
    return err;
}

enum ot_err coord_config_put(struct coord_edit *edit, const struct coord_scope *scope, struct ot_str name, struct ot_str text)
{
    if (name.bytes > COORD_CONFIG_NAME_BYTES_MAX || text.bytes > COORD_CONFIG_VALUE_BYTES_MAX) {
        return OT_ERR_TOO_LARGE;
    }
    struct ot_coord_config_row row;
    ot_coord_config_row_defaults(&row);
    row.value = text;
    return put(edit, key_config(scope, name), &ot_coord_config_row_message, &row);
}

enum ot_err coord_config_remove(struct coord_edit *edit, const struct coord_scope *scope, struct ot_str name) { return cut(edit, key_config(scope, name)); }

enum ot_err coord_config_next(const struct coord_value *value, const struct coord_scope *scope, struct ot_str after, struct ot_str *name_out,
    struct ot_str *value_out)
{
    struct coord_key key = key_config(scope, (struct ot_str){ 0 });
    uint32_t prefix = key.bytes;
    if (after.bytes > 0) {
        key = key_config(scope, after);
        key_after(&key);
    }
    struct ot_blob found, bytes;
    if (!first_from(value, &key, prefix, &found, &bytes)) {
        return OT_ERR_NOT_FOUND;
    }
    struct ot_coord_config_row row;
    if (decode_flat(&ot_coord_config_row_message, bytes, &row) != OT_OK) {
        return OT_ERR_CORRUPT;
    }
    *name_out = (struct ot_str){ (const char *)found.data + prefix, found.bytes - prefix, false };
    *value_out = row.value;
    return OT_OK;
}

static struct coord_key key_config_scope(const struct coord_scope *scope)
{
    struct coord_key key;
    key_start(&key, COORD_TABLE_CONFIG_SCOPE);
    key_scope(&key, scope);
    return key;
}

enum ot_err coord_config_next_named(const struct coord_value *value, struct coord_scope scope, struct ot_str *name_out)
{
    struct coord_key key;
    struct coord_key_parts parts;
    struct ot_blob found, row;
    const uint8_t prefix[2] = { COORD_TABLE_CONFIG_SCOPE, (uint8_t)scope.kind };
    key_start(&key, COORD_TABLE_CONFIG_SCOPE);
    if (scope.name.null) key_data(&key, prefix + 1, 1);
    else key_scope(&key, &scope);
    if (!scope.name.null) key_after(&key);
    if (!first_from(value, &key, 0, &found, &row) || found.bytes < 2 || memcmp(found.data, prefix, 2) != 0) return OT_ERR_NOT_FOUND;
    if (!coord_key_parse(found, &parts)) return OT_ERR_CORRUPT;
    *name_out = parts.scope.name;
    return OT_OK;
}

int64_t coord_config_version(const struct coord_value *value, const struct coord_scope *scope)
{
    struct ot_coord_config_scope_row row;
    return get_flat(value, key_config_scope(scope), &ot_coord_config_scope_row_message, &row) == OT_OK ? row.version : 0;
}

enum ot_err coord_config_version_put(struct coord_edit *edit, const struct coord_scope *scope, int64_t version)
{
    struct ot_coord_config_scope_row row;
    ot_coord_config_scope_row_defaults(&row);
    row.version = version;
    return put(edit, key_config_scope(scope), &ot_coord_config_scope_row_message, &row);
}

enum ot_err coord_config_version_remove(struct coord_edit *edit, const struct coord_scope *scope) { return cut(edit, key_config_scope(scope)); }
