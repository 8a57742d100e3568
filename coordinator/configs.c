/* Config overrides (their meaning is checked by who asks), producer-id blocks, and the one config that lives in partition rows: min.insync.replicas. */
#include "coordinator/state.h"
#include <string.h>

static const struct coord_scope cluster_scope = { .kind = COORD_SCOPE_CLUSTER };
#define MIN_ISR ot_str_of("min.insync.replicas")

static bool parse_i32(struct ot_str text, int32_t *out)
{
    int64_t number = 0;
    for (uint32_t i = 0; i < text.bytes; i++) {
        if (text.data[i] < '0' || text.data[i] > '9' || (number = number * 10 + (text.data[i] - '0')) > INT32_MAX) {
            return false;
        }
    }
    *out = (int32_t)number;
    return text.bytes > 0 && number > 0;
}

int32_t coord_min_isr(const struct coord *coord, const struct coord_value *value, const struct ot_uuid *topic_id)
{
    struct ot_str text;
    int32_t number;
    if (topic_id != NULL) {
        struct coord_scope scope = { .kind = COORD_SCOPE_TOPIC, .topic_id = *topic_id };
        if (coord_config_get(value, &scope, MIN_ISR, &text) == OT_OK && parse_i32(text, &number)) {
            return number;
        }
    }
    return coord_config_get(value, &cluster_scope, MIN_ISR, &text) == OT_OK && parse_i32(text, &number) ? number : coord->config.min_isr_default;
}

/* Carry a changed min.insync.replicas into the rows of one topic. */
static enum ot_err spread_to_topic(struct coord_turn *turn, const struct ot_uuid *topic_id, int32_t partition_count)
{
    struct coord_partition row;
    int32_t min_isr = coord_min_isr(turn->coord, turn->edit.value, topic_id);
    for (int32_t index = 0; index < partition_count; index++) {
        enum ot_err err = coord_partition_get(turn->edit.value, topic_id, index, &row);
        if (err == OT_OK && coord_partition_set_min_isr(&row, min_isr)) {
            err = coord_partition_put(&turn->edit, topic_id, index, &row);
        }
        if (err != OT_OK) {
            return err;
        }
    }
    return OT_OK;
}

static enum ot_err spread_to_all(struct coord_turn *turn)
{
    struct coord_value before = coord_value_share(turn->edit.value);       /* the walk must not meet its own changes */
    struct ot_str name = { 0 };
    struct ot_coord_topic_name_row row;
    struct ot_coord_topic_row topic;
    enum ot_err err;
    while ((err = coord_topic_name_next(&before, name, &name, &row)) == OT_OK) {
        if (ot_uuid_is_zero(&row.topic_id)) {
            continue;
        }
        if ((err = coord_topic_get(&before, &row.topic_id, &topic)) != OT_OK
            || (err = spread_to_topic(turn, &row.topic_id, topic.partition_count)) != OT_OK) {
            break;
        }
    }
    coord_value_drop(&before);
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

static enum ot_err find_scope(struct coord_turn *turn, struct coord_scope *scope, struct ot_coord_topic_row *topic, int64_t *version_out)
{
    const struct coord_configs_ask *ask = &turn->request->u.configs;
    *scope = ask->scope;
    if (scope->kind != COORD_SCOPE_TOPIC) {
        *version_out = coord_config_version(turn->edit.value, scope);
        return OT_OK;
    }
    struct ot_coord_topic_name_row name;
    if (ot_uuid_is_zero(&scope->topic_id) && coord_topic_name_get(turn->edit.value, ask->topic, &name) == OT_OK) {
        scope->topic_id = name.topic_id;
    }
    enum ot_err err = coord_topic_get(turn->edit.value, &scope->topic_id, topic);
    if (err == OT_ERR_NOT_FOUND) {
        return coord_refuse(turn->request, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION, "The topic '%.*s' does not exist.", (int)ask->topic.bytes, ask->topic.data);
    }
    *version_out = topic->version;
    return err;
}

static bool is_named(const struct coord_configs_ask *ask, struct ot_str name)
{
    for (uint32_t i = 0; i < ask->change_count; i++) {
        if (ot_str_equal(ask->changes[i].name, name)) {
            return true;
        }
    }
    return false;
}

static enum ot_err remove_others(struct coord_turn *turn, const struct coord_scope *scope)
{
    struct coord_value before = coord_value_share(turn->edit.value);
    struct ot_str name = { 0 }, text;
    enum ot_err err;
    while ((err = coord_config_next(&before, scope, name, &name, &text)) == OT_OK) {
        if (!is_named(&turn->request->u.configs, name) && (err = coord_config_remove(&turn->edit, scope, name)) != OT_OK) {
            break;
        }
    }
    coord_value_drop(&before);
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

static enum ot_err apply_changes(struct coord_turn *turn, const struct coord_scope *scope)
{
    const struct coord_configs_ask *ask = &turn->request->u.configs;
    struct ot_str old;
    enum ot_err err = ask->replace_all ? remove_others(turn, scope) : OT_OK;
    for (uint32_t i = 0; err == OT_OK && i < ask->change_count; i++) {
        const struct coord_config_change *change = &ask->changes[i];
        if (change->value.null) {
            err = coord_config_remove(&turn->edit, scope, change->name);
            err = err == OT_ERR_NOT_FOUND ? OT_OK : err;
        } else if (change->name.bytes > COORD_CONFIG_NAME_BYTES_MAX || change->value.bytes > COORD_CONFIG_VALUE_BYTES_MAX) {
            err = coord_refuse(turn->request, OT_ERR_INVALID_CONFIG, "a value may have %d bytes at most, %u were given", COORD_CONFIG_VALUE_BYTES_MAX,
                change->value.bytes);
        } else if (scope->kind > COORD_SCOPE_BROKER && coord_memory_is_short(turn->coord) && coord_config_get(turn->edit.value, scope, change->name, &old) != OT_OK) {
            err = coord_refuse(turn->request, OT_ERR_POLICY_VIOLATION, "the memory for metadata is used up: delete topics or configs, or raise ottla.partitions.max");
        } else {
            err = coord_config_put(&turn->edit, scope, change->name, change->value);
        }
    }
    return err;
}

/* Names are without number (each group that is gone had one): one that has no configs left leaves nothing behind. */
static enum ot_err note_version(struct coord_turn *turn, const struct coord_scope *scope)
{
    struct ot_str name, text;
    if (!coord_scope_is_named(scope) || coord_config_next(turn->edit.value, scope, (struct ot_str){ 0 }, &name, &text) != OT_ERR_NOT_FOUND) {
        return coord_config_version_put(&turn->edit, scope, turn->version);
    }
    const enum ot_err err = coord_config_version_remove(&turn->edit, scope);
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

enum ot_err coord_ask_configs(struct coord_turn *turn)
{
    struct coord_scope scope;
    struct ot_coord_topic_row topic;
    int64_t version = -1;
    enum ot_err err = find_scope(turn, &scope, &topic, &version);
    if (err != OT_OK) {
        return err;
    }
    if (turn->request->if_version != -1 && turn->request->if_version != version) {
        return coord_refuse(turn->request, OT_ERR_MISMATCH, "it was changed meanwhile: its version is %lld, not %lld", (long long)version,
            (long long)turn->request->if_version);
    }
    uint32_t rows_before = turn->edit.delta->row_count;
    if ((err = apply_changes(turn, &scope)) != OT_OK) {
        return err;
    }
    turn->request->topic_id = scope.topic_id;
    if (turn->edit.delta->row_count == rows_before) {      /* all as it was: no new version */
        turn->request->version = version;
        return OT_OK;
    }
    if (scope.kind == COORD_SCOPE_TOPIC) {
        err = coord_topic_get(turn->edit.value, &scope.topic_id, &topic);  /* anew: the edits may have moved its bytes */
        topic.version = turn->version;
        err = err == OT_OK ? coord_topic_put(&turn->edit, &scope.topic_id, &topic) : err;
    } else {
        err = note_version(turn, &scope);
    }
    if (err == OT_OK && scope.kind == COORD_SCOPE_BROKER) {
        err = coord_live_load(turn->coord);    /* what operators asked of it is among them */
    }
    if (err == OT_OK && (turn->request->u.configs.replace_all || is_named(&turn->request->u.configs, MIN_ISR))) {
        err = scope.kind == COORD_SCOPE_CLUSTER ? spread_to_all(turn)
            : scope.kind == COORD_SCOPE_TOPIC ? spread_to_topic(turn, &scope.topic_id, topic.partition_count) : OT_OK;
    }
    return err;
}

enum ot_err coord_ask_producer_ids(struct coord_turn *turn)
{
    struct ot_coord_cluster_row cluster;
    enum ot_err err = coord_cluster_get(turn->edit.value, &cluster);
    int32_t count = turn->request->u.producer_ids.count;
    if (err != OT_OK) {
        return err;
    }
    if (count < 1 || cluster.next_producer_id > INT64_MAX - count) {
        return coord_refuse(turn->request, OT_ERR_INVALID_REQUEST, "no producer ids are left");
    }
    turn->request->producer_id_first = cluster.next_producer_id;
    cluster.next_producer_id += count;
    return coord_cluster_put(&turn->edit, &cluster);
}
