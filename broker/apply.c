/* Committed states on their way to this broker's configs and partitions. Runs on the coordinator's thread. Configs go first, so that a partition opens with
 * what the same state says about it. */
#include "broker/room.h"

#include "base/log.h"
#include "broker/groups.h"
#include <stdlib.h>
#include <string.h>

enum { CONFIGS_MAX = 256, CONFIG_ARENA_BYTES = 1 << 20 };

struct applying {
    struct broker *broker;
    const struct coord_value *value;
    struct broker_batch *batch;
    struct ot_uuid topic_id;                   /* whose config and name are loaded */
    bool loaded;
    struct ot_arena arena;
    struct broker_topic_config config;
    const char *name;
    bool internal;
    bool must_exist;
    bool forced;                               /* the value was forced since the one before: what is missing in it may only have been lost, and is not deleted */
};

static void applying_begin(struct applying *a, struct broker *broker, const struct coord_value *value, struct broker_batch *batch)
{
    *a = (struct applying){ .broker = broker, .value = value, .batch = batch };
    ot_arena_init(&a->arena, CONFIG_ARENA_BYTES);
}

/* Name and effective config of a topic. False: it is not there (any more). */
static bool load_topic(struct applying *a, const struct ot_uuid *id)
{
    const char *keys[CONFIGS_MAX], *values[CONFIGS_MAX];
    uint32_t count = 0;
    struct ot_coord_topic_row row;
    struct coord_scope scope = { .kind = COORD_SCOPE_TOPIC, .topic_id = *id };
    struct ot_str name = { 0 }, text;
    if (a->loaded && ot_uuid_equal(&a->topic_id, id)) {
        return true;
    }
    a->loaded = false;
    ot_arena_reset(&a->arena);
    if (coord_topic_get(a->value, id, &row) != OT_OK || (a->name = ot_arena_str(&a->arena, row.name)) == NULL) {
        return false;
    }
    while (count < CONFIGS_MAX && coord_config_next(a->value, &scope, name, &name, &text) == OT_OK) {
        keys[count] = ot_arena_str(&a->arena, name);
        values[count] = ot_arena_str(&a->arena, text);
        if (keys[count] == NULL || values[count] == NULL) {
            return false;
        }
        count++;
    }
    broker_topic_config_effective(a->broker->setup.config, keys, values, count, &a->config);
    a->internal = row.internal;
    a->topic_id = *id;
    a->loaded = true;
    return true;
}

static int32_t ids_of(const struct coord_partition *row, uint64_t set, int32_t *out)
{
    int32_t count = 0;
    for (int32_t i = 0; i < row->replica_count; i++) {
        if ((set >> i & 1) != 0) {
            out[count++] = row->replicas[i];
        }
    }
    return count;
}

/* Epoch and liveness of each replica of a row. */
static void brokers_of(void *arg, const struct coord_partition *row, struct replica_broker *out)
{
    struct applying *a = arg;
    for (int32_t i = 0; i < row->replica_count; i++) {
        struct ot_coord_broker_row broker;
        struct ot_arena arena;
        uint8_t room[4096];
        ot_arena_init_with(&arena, room, sizeof room, 64u << 10);
        bool known = coord_broker_get(a->value, row->replicas[i], &arena, &broker) == OT_OK;
        out[i] = (struct replica_broker){ known ? broker.broker_epoch : -1, known && !broker.fenced && !broker.in_controlled_shutdown };
        ot_arena_free(&arena);
    }
}

/* Do others hold what was committed, so that an empty log here can never lead and misses nothing that it does not fetch? Not when this broker is in isr or elr, nor when it was the last that was
 * (what it held may come back with its directory, and nobody else is known to have it), nor when there is no other replica. */
static bool held_elsewhere(const struct coord_partition *row, int32_t self)
{
    const uint64_t bit = coord_replica_bit(row, self), members = row->isr | row->elr;
    return row->replica_count > 1 && (members & bit) == 0 && (members != 0 || (row->last_members & bit) == 0);
}

static void apply_partition(struct applying *a, const struct ot_uuid *topic_id, int32_t index, const struct coord_partition *row)
{
    int32_t isr[COORD_REPLICAS_MAX];
    struct replica_broker brokers[COORD_REPLICAS_MAX];
    if (coord_replica_bit(row, a->broker->node_id) == 0) {
        broker_partition_remove(a->broker, topic_id, index, a->forced);
        return;
    }
    if (!load_topic(a, topic_id)) {
        return;
    }
    const bool elsewhere = held_elsewhere(row, a->broker->node_id);
    const bool anew = elsewhere && broker_partition_take_lost(a->broker, topic_id, index, row->leader_epoch);
    brokers_of(a, row, brokers);
    struct broker_partition_row out = { .topic_id = *topic_id, .topic = a->name, .partition = index, .leader = row->leader, .leader_epoch = row->leader_epoch,
        .partition_epoch = row->partition_epoch, .min_isr = row->min_isr, .isr = isr, .isr_count = ids_of(row, row->isr, isr), .replicas = row->replicas,
        .replica_count = row->replica_count, .state = row, .brokers = brokers, .internal = a->internal, .must_exist = a->must_exist && !elsewhere,
        .anew = anew };
    broker_batch_add(a->batch);
    broker_partition_apply(a->broker, &out, &a->config, a->broker->setup.coord_exec, broker_batch_opened, a->batch);
}

static void configure_topic(struct applying *a, const struct ot_uuid *id)
{
    a->loaded = false;
    if (load_topic(a, id)) {
        broker_partition_configure(a->broker, id, &a->config);
    }
}

static void configure_all(struct applying *a)
{
    struct ot_coord_topic_name_row row;
    struct ot_str name = { 0 };
    while (coord_topic_name_next(a->value, name, &name, &row) == OT_OK) {
        configure_topic(a, &row.topic_id);
    }
}

static bool apply_broker_config(struct applying *a, const struct coord_scope *scope, struct ot_str name, const struct ot_str *text)
{
    ot_arena_reset(&a->arena);
    a->loaded = false;
    int32_t id = scope->kind == COORD_SCOPE_CLUSTER ? -1 : scope->broker_id;
    if (id != -1 && id != a->broker->node_id) {
        return false;
    }
    const char *key = ot_arena_str(&a->arena, name), *value = text == NULL ? NULL : ot_arena_str(&a->arena, *text);
    enum ot_err err = key == NULL ? OT_ERR_NO_MEMORY : broker_config_apply_dynamic(a->broker->setup.config, id, key, value);
    if (err != OT_OK) {
        ot_log(OT_LOG_WARN, "config", "dynamic_config_not_applied", "key=%s error=%s", key == NULL ? "?" : key, ot_err_name(err));
    }
    return err == OT_OK;
}

void broker_apply_configs(struct broker *broker, const struct coord_value *value)
{
    struct applying a;
    struct coord_scope scopes[2] = { { .kind = COORD_SCOPE_CLUSTER }, { .kind = COORD_SCOPE_BROKER, .broker_id = broker->node_id } };
    applying_begin(&a, broker, value, NULL);
    for (int i = 0; i < 2; i++) {
        struct ot_str name = { 0 }, text;
        while (coord_config_next(value, &scopes[i], name, &name, &text) == OT_OK) {
            apply_broker_config(&a, &scopes[i], name, &text);
        }
    }
    ot_arena_free(&a.arena);
}

/* Committed offsets of a topic go with it, whoever held its partitions. Its name is in the row that remembers it. False: there is none (any more). */
static bool forget_offsets(struct applying *a, const struct ot_uuid *topic_id)
{
    struct coord_deleted_topic row;
    for (enum ot_err err = coord_deleted_next(a->value, NULL, &row); err == OT_OK; err = coord_deleted_next(a->value, &row, &row)) {
        if (ot_uuid_equal(&row.id, topic_id)) {
            broker_groups_topic_gone(a->broker, row.name, topic_id);
            return true;
        }
    }
    return false;
}

/* What is here and not in the value went while we did not look. */
static void remove_gone(struct applying *a)
{
    struct broker_core *core = broker_core_of(a->broker);
    uint32_t count = 0;
    struct broker_partition **list = broker_partitions_copy(core, &count);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        struct ot_coord_topic_row topic;
        struct coord_partition row;
        const struct ot_uuid *id = &list[i]->topic->id;
        if (coord_topic_get(a->value, id, &topic) == OT_ERR_NOT_FOUND) {
            const bool deleted = forget_offsets(a, id);
            broker_topic_remove(a->broker, id, a->forced && !deleted);
        } else if (coord_partition_get(a->value, id, list[i]->index, &row) == OT_ERR_NOT_FOUND) {
            broker_partition_remove(a->broker, id, list[i]->index, a->forced);
        }
        broker_partition_put(list[i]);
    }
    free(list);
}

bool broker_apply_in_rack(struct broker_core *core, int32_t broker_id, struct ot_str rack)
{
    struct broker_view_broker broker;
    struct ot_arena arena;
    uint8_t room[4096];
    ot_arena_init_with(&arena, room, sizeof room, 64u << 10);
    const struct broker_view *view = broker_view_take(broker_of_core(core));
    const bool there = broker_view_next_broker(view, broker_id - 1, &arena, &broker) && broker.id == broker_id && !broker.fenced && !broker.rack.null && ot_str_equal(broker.rack, rack);
    broker_view_give(view);
    ot_arena_free(&arena);
    return there;
}

bool broker_apply_exists(struct broker_core *core, struct ot_str topic, const struct ot_uuid *topic_id, int32_t partition)
{
    struct broker_view_topic row;
    const struct broker_view *view = broker_view_take(broker_of_core(core));
    const bool known = topic.null ? broker_view_topic_by_id(view, topic_id, &row) : broker_view_topic(view, topic, &row);
    broker_view_give(view);
    return known && partition < row.partition_count;
}

static void apply_all(struct applying *a)
{
    struct coord_cursor cursor;
    struct ot_uuid id;
    struct coord_partition row;
    int32_t index;
    remove_gone(a);                            /* first: one of its name waits for its folder */
    coord_partitions_begin(a->value, &cursor);
    while (coord_partitions_next(&cursor, &id, &index, &row) == OT_OK) {
        apply_partition(a, &id, index, &row);
    }
    broker_partitions_brokers(a->broker, brokers_of, a);
}

void broker_apply_all(struct broker *broker, const struct coord_value *value, bool first, struct broker_batch *batch)
{
    struct applying a;
    applying_begin(&a, broker, value, batch);
    a.must_exist = first && broker->core.dir_missing;
    apply_all(&a);
    ot_arena_free(&a.arena);
}

/* Configs of the delta; true when a default changed under all topics. */
static bool delta_configs(struct applying *a, struct ot_blob delta)
{
    struct coord_delta_reader in = coord_delta_reader_over(delta);
    struct coord_delta_row row;
    struct coord_key_parts key;
    struct ot_str text;
    bool defaults = false;
    while (coord_delta_next(&in, &row)) {
        if (coord_key_parse(row.key, &key) && key.table == COORD_TABLE_CONFIG && key.scope.kind <= COORD_SCOPE_BROKER) {
            bool there = coord_config_get(a->value, &key.scope, key.name, &text) == OT_OK;
            defaults |= apply_broker_config(a, &key.scope, key.name, there ? &text : NULL);
        }
    }
    return defaults;
}

static void delta_topics(struct applying *a, struct ot_blob delta, bool configs_too)
{
    struct coord_delta_reader in = coord_delta_reader_over(delta);
    struct coord_delta_row row;
    struct coord_key_parts key;
    struct coord_partition partition;
    struct ot_uuid configured = { { 0 } };
    bool brokers_changed = false;
    while (coord_delta_next(&in, &row)) {
        if (!coord_key_parse(row.key, &key)) {
            continue;
        }
        brokers_changed |= key.table == COORD_TABLE_BROKER;
        if (key.table == COORD_TABLE_TOPIC && row.removed) {
            (void)forget_offsets(a, &key.topic_id);
            broker_topic_remove(a->broker, &key.topic_id, false);
        } else if (key.table == COORD_TABLE_PARTITION && !row.removed
            && coord_partition_get(a->value, &key.topic_id, key.index, &partition) == OT_OK) {
            apply_partition(a, &key.topic_id, key.index, &partition);
        } else if (configs_too && key.table == COORD_TABLE_CONFIG && key.scope.kind == COORD_SCOPE_TOPIC && !ot_uuid_equal(&configured, &key.scope.topic_id)) {
            configured = key.scope.topic_id;
            configure_topic(a, &key.scope.topic_id);
        }
    }
    if (brokers_changed) {
        broker_partitions_brokers(a->broker, brokers_of, a);
    }
}

void broker_apply_delta(struct broker *broker, const struct coord_value *value, struct ot_blob delta, struct broker_batch *batch)
{
    struct applying a;
    applying_begin(&a, broker, value, batch);
    bool defaults = delta_configs(&a, delta);
    delta_topics(&a, delta, !defaults);
    if (defaults) {
        configure_all(&a);
    }
    ot_arena_free(&a.arena);
}

void broker_apply_defaults(struct broker *broker, const struct coord_value *value)
{
    struct applying a;
    applying_begin(&a, broker, value, NULL);
    configure_all(&a);
    ot_arena_free(&a.arena);
}

/* Dynamic values that are not there any more go back to what is below them. */
static void drop_configs(struct applying *a, const struct coord_value *before)
{
    struct coord_scope scopes[2] = { { .kind = COORD_SCOPE_CLUSTER }, { .kind = COORD_SCOPE_BROKER, .broker_id = a->broker->node_id } };
    for (int i = 0; before != NULL && i < 2; i++) {
        struct ot_str name = { 0 }, text;
        while (coord_config_next(before, &scopes[i], name, &name, &text) == OT_OK) {
            if (coord_config_get(a->value, &scopes[i], name, &text) == OT_ERR_NOT_FOUND) {
                apply_broker_config(a, &scopes[i], name, NULL);
            }
        }
    }
}

/* Of the value that an operator made of what one node knew (broker/force_voters.h), and all that came of it. */
static int64_t forced_version(const struct coord_value *value)
{
    struct ot_coord_cluster_row cluster;
    return coord_cluster_get(value, &cluster) == OT_OK ? cluster.forced_version : -1;
}

void broker_apply_whole(struct broker *broker, const struct coord_value *before, const struct coord_value *value, struct broker_batch *batch)
{
    struct applying a;
    applying_begin(&a, broker, value, batch);
    drop_configs(&a, before);
    broker_apply_configs(broker, value);
    configure_all(&a);
    a.forced = before != NULL && forced_version(before) != forced_version(value);
    apply_all(&a);
    ot_arena_free(&a.arena);
}
