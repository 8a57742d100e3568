/* Topics and configs: what Kafka's clients may ask, checked here as far as names, numbers and config texts go, and decided by the coordinator as far as the state goes. */
#include "broker/room.h"
#include "broker/client_metrics.h"
#include "broker/group_configs.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_WAIT_MS INT64_C(1500)              /* a hop to the coordinator and back, and for all brokers to hear of it, whatever the client says */
enum { TRIES_MAX = 8 /* of a change that is computed from the value it replaces */, ITEMS_MAX = 10000, CONFIGS_MAX = 256 /* more than there are keys */ };

struct work {                                  /* one item on its way */
    struct broker_ask ask;
    struct request *request;
    struct broker_admin_item *item;
    struct coord_config_change *changes;
    struct coord_assignment *assignments;
    char **texts; uint32_t text_count;         /* computed values */
    uint32_t tries;
};
struct request { struct broker_admin *admin; struct broker *broker; uint32_t open; struct ot_task finish; struct work works[]; };

static bool refuse(struct broker_admin_item *item, enum ot_err error, const char *format, ...) OT_PRINTF(3, 4);
static bool refuse(struct broker_admin_item *item, enum ot_err error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(item->text, sizeof item->text, format, args);
    va_end(args);
    item->error = error;
    return false;
}

/* ---- names */

static bool is_reserved_name(struct ot_str name)
{
    return ot_str_equal(name, ot_str_of("__cluster_metadata")) || ot_str_equal(name, ot_str_of(BROKER_META_FOLDER));
}

/* ---- config texts */

static char *text_of(struct work *work, struct ot_str text)
{
    char **grown = realloc(work->texts, (work->text_count + 1) * sizeof *grown), *copy = malloc((size_t)text.bytes + 1);
    if (grown != NULL) {
        work->texts = grown;
    }
    if (grown == NULL || copy == NULL) {
        free(copy);
        return NULL;
    }
    if (text.bytes > 0) {
        memcpy(copy, text.data, text.bytes);
    }
    copy[text.bytes] = 0;
    work->texts[work->text_count++] = copy;
    return copy;
}

static bool config_fits(struct work *work, const struct broker_config_entry *entry)
{
    struct broker_admin_item *item = work->item;
    if (entry->name.null || entry->name.bytes == 0 || entry->name.bytes > COORD_CONFIG_NAME_BYTES_MAX || memchr(entry->name.data, 0, entry->name.bytes) != NULL) {
        return refuse(item, OT_ERR_INVALID_CONFIG, "a config name has 1 to %d characters", COORD_CONFIG_NAME_BYTES_MAX);
    }
    const int shown = (int)OT_MIN(entry->name.bytes, 80u);
    if (!entry->value.null && entry->value.bytes > COORD_CONFIG_VALUE_BYTES_MAX) {
        return refuse(item, OT_ERR_INVALID_CONFIG, "the value of %.*s has %u bytes, more than %d", shown, entry->name.data, entry->value.bytes, COORD_CONFIG_VALUE_BYTES_MAX);
    }
    if (!entry->value.null && entry->value.bytes > 0 && memchr(entry->value.data, 0, entry->value.bytes) != NULL) {
        return refuse(item, OT_ERR_INVALID_CONFIG, "the value of %.*s has a zero byte", shown, entry->name.data);
    }
    return true;
}

static bool check_config(struct work *work, const struct broker_config_entry *entry, struct ot_str value)
{
    struct broker_admin_item *item = work->item;
    if (item->kind == BROKER_ALTER_GROUP_CONFIG) {
        item->error = broker_group_config_check(broker_config_current(work->request->broker->setup.config), entry->name, value, item->text, sizeof item->text);
        return item->error == OT_OK;
    }
    if (item->kind == BROKER_ALTER_CLIENT_METRICS) {
        item->error = broker_client_metrics_check(entry->name, value, item->text, sizeof item->text);
        return item->error == OT_OK;
    }
    const char *key = text_of(work, entry->name), *text = value.null ? NULL : text_of(work, value);
    if (key == NULL || (text == NULL && !value.null)) {
        return refuse(item, OT_ERR_NO_MEMORY, "out of memory");
    }
    enum ot_err err = item->kind == BROKER_ALTER_BROKER_CONFIG
        ? broker_config_check_dynamic(work->request->broker->setup.config, item->broker_id, key, text, item->text, sizeof item->text)
        : broker_topic_config_check(key, text, item->text, sizeof item->text);
    if (err == OT_ERR_INVALID_CONFIG && item->kind == BROKER_ALTER_BROKER_CONFIG && broker_config_known(key)) {
        err = OT_ERR_INVALID_REQUEST;          /* as Kafka: of a topic's value it says INVALID_CONFIG, of a broker's this */
    }
    if (err != OT_OK) {
        item->error = err;
        return false;
    }
    item->text[0] = 0;
    return true;
}

static bool check_duplicates(struct broker_admin_item *item)
{
    if (item->config_count > CONFIGS_MAX) {
        return refuse(item, OT_ERR_INVALID_REQUEST, "%u configs in one change; at most %d are taken", item->config_count, CONFIGS_MAX);
    }
    for (uint32_t i = 0; i < item->config_count; i++) {
        for (uint32_t k = 0; k < i; k++) {
            if (ot_str_equal(item->configs[i].name, item->configs[k].name)) {
                return refuse(item, OT_ERR_INVALID_REQUEST, "Error due to duplicate config keys: %.*s", (int)OT_MIN(item->configs[i].name.bytes, 100u),
                    item->configs[i].name.data);
            }
        }
    }
    return true;
}

/* The value that append and subtract start from: the override, else what counts without one. */
static char *current_value(struct work *work, const struct broker_view *view, struct ot_str name, const struct broker_config_row **row_out);
struct wanted { const char *key; char *value; struct work *work; const struct broker_config_row *row; };

static void note_current(void *arg, const struct broker_config_value *value)
{
    struct wanted *wanted = arg;
    if (strcmp(value->row->key, wanted->key) == 0) {
        wanted->row = value->row;
        wanted->value = text_of(wanted->work, value->value == NULL ? ot_str_of("") : ot_str_of(value->value));
    }
}

static char *current_of_subscription(struct work *work, const struct broker_view *view, struct ot_str name, const struct broker_config_row **row_out)
{
    static const struct broker_config_row list = { .type = BROKER_CONFIG_LIST }, number = { .key = "interval.ms", .type = BROKER_CONFIG_INT };
    const struct broker_client_metrics_row *row = broker_client_metrics_row(name);
    struct broker_view_config own;
    struct ot_str at = { .null = true };
    if (row == NULL) return NULL;
    *row_out = row->type == BROKER_CONFIG_LIST ? &list : &number;
    while (broker_view_next_named_config(view, BROKER_VIEW_CLIENT_METRICS, work->item->topic, at, &own)) {
        at = own.name;
        if (ot_str_equal(own.name, name)) return text_of(work, own.value);
    }
    return text_of(work, ot_str_of(row->fallback));
}

static char *current_value(struct work *work, const struct broker_view *view, struct ot_str name, const struct broker_config_row **row_out)
{
    struct broker_admin_item *item = work->item;
    if (item->kind == BROKER_ALTER_CLIENT_METRICS) return current_of_subscription(work, view, name, row_out);
    struct broker_config_store *store = work->request->broker->setup.config;
    struct wanted wanted = { .key = text_of(work, name), .work = work };
    struct broker_view_topic topic;
    struct broker_view_config own = { 0 };
    bool found = false;
    struct ot_str at = { 0 };
    if (wanted.key == NULL) {
        return NULL;
    }
    if (item->kind == BROKER_ALTER_BROKER_CONFIG) {
        broker_config_describe(store, work->request->broker->node_id, note_current, &wanted);
        while (!found && broker_view_next_broker_config(view, item->broker_id, at, &own)) {
            at = own.name;
            found = ot_str_equal(own.name, name);
        }
    } else {
        broker_topic_config_describe(store, NULL, NULL, 0, note_current, &wanted);
        bool there = broker_view_topic(view, item->topic, &topic);
        while (there && !found && broker_view_next_topic_config(view, &topic.id, at, &own)) {
            at = own.name;
            found = ot_str_equal(own.name, name);
        }
    }
    *row_out = wanted.row;
    return found ? text_of(work, own.value) : wanted.value;
}

static bool list_has(const char *list, const char *one, size_t bytes)
{
    for (const char *at = list; at != NULL;) {
        const char *end = strchr(at, ',');
        size_t item_bytes = end == NULL ? strlen(at) : (size_t)(end - at);
        if (item_bytes == bytes && memcmp(at, one, bytes) == 0) {
            return true;
        }
        at = end == NULL ? NULL : end + 1;
    }
    return false;
}

/* Items of `from` for which keep(list_has(against)) … joined into out, which begins with what it has. */
static void join(char *out, size_t cap, const char *from, const char *against, bool wanted)
{
    for (const char *at = from; at != NULL && *at != 0;) {
        const char *end = strchr(at, ',');
        size_t bytes = end == NULL ? strlen(at) : (size_t)(end - at);
        if (bytes > 0 && list_has(against, at, bytes) == wanted && !list_has(out[0] == 0 ? NULL : out, at, bytes)) {
            size_t used = strlen(out);
            snprintf(out + used, cap - used, "%s%.*s", used == 0 ? "" : ",", (int)bytes, at);
        }
        at = end == NULL ? NULL : end + 1;
    }
}

static bool compute_list(struct work *work, const struct broker_view *view, const struct broker_config_entry *entry, bool append, struct ot_str *out)
{
    const struct broker_config_row *row = NULL;
    char *now = current_value(work, view, entry->name, &row), *more = text_of(work, entry->value);
    char result[2 * COORD_CONFIG_VALUE_BYTES_MAX + 2] = "";
    if (row != NULL && row->type != BROKER_CONFIG_LIST) {
        return refuse(work->item, OT_ERR_INVALID_CONFIG, "Can't %s to key %s because its type is not LIST.", append ? "APPEND" : "SUBTRACT", row->key);
    }
    if (now == NULL || more == NULL) {
        return refuse(work->item, row == NULL ? OT_ERR_INVALID_CONFIG : OT_ERR_NO_MEMORY, "Unknown config name: %.*s", (int)OT_MIN(entry->name.bytes, 100u), entry->name.data);
    }
    join(result, sizeof result, now, append ? "" : more, false);
    if (append) {
        join(result, sizeof result, more, "", false);
    }
    if (strlen(result) > COORD_CONFIG_VALUE_BYTES_MAX) {
        return refuse(work->item, OT_ERR_INVALID_CONFIG, "the value of %s would have %zu bytes, more than %d", row->key, strlen(result), COORD_CONFIG_VALUE_BYTES_MAX);
    }
    char *kept = text_of(work, ot_str_of(result));
    *out = ot_str_of(kept);
    return kept != NULL || refuse(work->item, OT_ERR_NO_MEMORY, "out of memory");
}

static bool build_change(struct work *work, const struct broker_view *view, uint32_t at)
{
    struct broker_admin_item *item = work->item;
    const struct broker_config_entry *entry = &item->configs[at];
    enum broker_config_op op = item->ops == NULL ? BROKER_CONFIG_SET : item->ops[at];
    struct ot_str value = entry->value;
    if (!config_fits(work, entry)) {
        return false;
    }
    if (op == BROKER_CONFIG_DELETE || (item->ops == NULL && item->kind != BROKER_CREATE_TOPIC && value.null)) {
        value = (struct ot_str){ .null = true };
    } else if (value.null) {
        return refuse(item, item->kind == BROKER_CREATE_TOPIC ? OT_ERR_INVALID_CONFIG : OT_ERR_INVALID_REQUEST, "Null value not supported for : %.*s",
            (int)OT_MIN(entry->name.bytes, 100u), entry->name.data);
    } else if ((op == BROKER_CONFIG_APPEND || op == BROKER_CONFIG_SUBTRACT) && item->kind == BROKER_ALTER_GROUP_CONFIG) {
        return refuse(item, OT_ERR_INVALID_CONFIG, "Can't %s to key %.*s because its type is not LIST.", op == BROKER_CONFIG_APPEND ? "APPEND" : "SUBTRACT",
            (int)OT_MIN(entry->name.bytes, 100u), entry->name.data);
    } else if ((op == BROKER_CONFIG_APPEND || op == BROKER_CONFIG_SUBTRACT) && !compute_list(work, view, entry, op == BROKER_CONFIG_APPEND, &value)) {
        return false;
    }
    if (item->kind == BROKER_ALTER_BROKER_CONFIG && item->broker_id != -1 && !value.null && ot_str_equal(entry->name, ot_str_of("min.insync.replicas"))) {
        /* it is a fact of the partition, which no single broker may see otherwise than the coordinator does; Kafka refuses it too */
        return refuse(item, OT_ERR_INVALID_CONFIG, "min.insync.replicas is set for topics or as the cluster's default, not for one broker");
    }
    work->changes[at] = (struct coord_config_change){ entry->name, value };
    return value.null || check_config(work, entry, value);     /* what is not set may be removed, whatever it is */
}

static bool build_changes(struct work *work, const struct broker_view *view)
{
    struct broker_admin_item *item = work->item;
    if (!check_duplicates(item)) {
        return false;
    }
    work->changes = work->changes != NULL ? work->changes : calloc(OT_MAX(item->config_count, 1u), sizeof *work->changes);
    if (work->changes == NULL) {
        return refuse(item, OT_ERR_NO_MEMORY, "out of memory");
    }
    for (uint32_t i = 0; i < item->config_count; i++) {
        if (!build_change(work, view, i)) {
            return false;
        }
    }
    return true;
}

/* ---- one item into one request; false: answered already */

static int by_partition(const void *a, const void *b)
{
    int32_t x = ((const struct coord_assignment *)a)->partition, y = ((const struct coord_assignment *)b)->partition;
    return (x > y) - (x < y);
}

static bool build_assignments(struct work *work)
{
    struct broker_admin_item *item = work->item;
    if (item->assignment_count == 0) {
        return true;
    }
    work->assignments = calloc(item->assignment_count, sizeof *work->assignments);
    if (work->assignments == NULL) {
        return refuse(item, OT_ERR_NO_MEMORY, "out of memory");
    }
    for (uint32_t i = 0; i < item->assignment_count; i++) {
        work->assignments[i] = (struct coord_assignment){ item->assignments[i].partition, item->assignments[i].brokers, item->assignments[i].broker_count };
    }
    if (item->kind == BROKER_CREATE_TOPIC) {   /* the coordinator wants them in order; clients send them in any */
        qsort(work->assignments, item->assignment_count, sizeof *work->assignments, by_partition);
    }
    work->ask.request.u.topic.assignments = work->assignments;
    work->ask.request.u.topic.assignment_count = item->assignment_count;
    return true;
}

static bool check_numbers(struct broker_admin_item *item)
{
    if (item->assignment_count > 0 && item->replication_factor != -1) {
        return refuse(item, OT_ERR_INVALID_REQUEST, "A manual partition assignment was specified, but replication factor was not set to -1.");
    }
    if (item->assignment_count > 0 && item->partition_count != -1) {
        return refuse(item, OT_ERR_INVALID_REQUEST, "A manual partition assignment was specified, but numPartitions was not set to -1.");
    }
    if (item->replication_factor == 0 || item->replication_factor < -1) {
        return refuse(item, OT_ERR_INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0, or -1 to use the default value; it was %d.", item->replication_factor);
    }
    if (item->partition_count == 0 || item->partition_count < -1) {
        return refuse(item, OT_ERR_INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value: %d.", item->partition_count);
    }
    return true;
}

/* Where new partitions would go if this were the only broker: a directory that takes them. */
static bool check_room(struct work *work, const struct broker_view *view)
{
    struct broker *broker = work->request->broker;
    struct ot_arena arena;
    struct broker_view_broker first, second;
    if (!broker_all_cordoned(&broker->core)) return true;
    ot_arena_init(&arena, 65536);
    const bool alone = broker_view_next_broker(view, INT32_MIN, &arena, &first) && !broker_view_next_broker(view, first.id, &arena, &second);
    ot_arena_free(&arena);
    return !alone || refuse(work->item, OT_ERR_INVALID_REPLICATION_FACTOR, "Unable to replicate the partition: all log directories are cordoned (cordoned.log.dirs).");
}

static bool build_create(struct work *work, const struct broker_view *view)
{
    struct broker_admin_item *item = work->item;
    struct broker *broker = work->request->broker;
    const struct broker_config *config = broker_config_current(broker->setup.config);
    struct broker_view_topic there;
    if (is_reserved_name(item->topic)) {
        return refuse(item, OT_ERR_INVALID_REQUEST, "Creation of internal topic %.*s is prohibited.", (int)item->topic.bytes, item->topic.data);
    }
    if (!broker_topic_name_valid(item->topic, item->text, sizeof item->text)) {
        item->error = OT_ERR_INVALID_TOPIC_EXCEPTION;
        return false;
    }
    if (broker_view_topic(view, item->topic, &there)) {
        item->topic_id_out = there.id;
        return refuse(item, OT_ERR_TOPIC_ALREADY_EXISTS, "Topic '%.*s' already exists.", (int)OT_MIN(item->topic.bytes, 150u), item->topic.data);
    }
    if (!build_changes(work, view) || !check_numbers(item) || !check_room(work, view) || !build_assignments(work)) {
        return false;
    }
    work->ask.request.ask = COORD_ASK_CREATE_TOPIC;
    struct coord_topic_ask *ask = &work->ask.request.u.topic;
    ask->name = item->topic;
    ask->partition_count = item->partition_count == -1 ? config->num_partitions : item->partition_count;
    ask->replication_factor = item->replication_factor == -1 ? config->default_replication_factor : item->replication_factor;
    ask->configs = work->changes;
    ask->config_count = item->config_count;
    ask->internal = item->internal || broker_topic_name_internal(item->topic);
    ask->created_ms = ot_exec_wall_ms(broker->setup.coord_exec);
    return true;
}

static bool build_delete(struct work *work)
{
    struct broker_admin_item *item = work->item;
    if (!broker_config_current(work->request->broker->setup.config)->delete_topic_enable) {
        return refuse(item, OT_ERR_TOPIC_DELETION_DISABLED, "Topic deletion is disabled (delete.topic.enable=false).");
    }
    if (!item->topic.null && !ot_uuid_is_zero(&item->topic_id)) {
        return refuse(item, OT_ERR_INVALID_REQUEST, "Topic name and topic ID can not both be specified.");
    }
    if (item->topic.null && ot_uuid_is_zero(&item->topic_id)) {
        return refuse(item, OT_ERR_INVALID_REQUEST, "Neither topic name nor id were specified.");
    }
    work->ask.request.ask = COORD_ASK_DELETE_TOPIC;
    work->ask.request.u.topic.name = item->topic;
    work->ask.request.u.topic.topic_id = item->topic_id;
    return true;
}

static bool build_grow(struct work *work, const struct broker_view *view)
{
    struct broker_admin_item *item = work->item;
    if (!check_room(work, view) || !build_assignments(work)) {
        return false;
    }
    struct broker_view_topic topic;
    if (ot_str_equal(item->topic, ot_str_of("__consumer_offsets")) || ot_str_equal(item->topic, ot_str_of("__transaction_state"))) {
        return refuse(item, OT_ERR_INVALID_PARTITIONS, "%.*s cannot grow: groups and transactional ids would move away from what they have written.", (int)item->topic.bytes, item->topic.data);
    }
    int32_t first = broker_view_topic(view, item->topic, &topic) ? topic.partition_count : 0;
    for (uint32_t i = 0; i < item->assignment_count; i++) {            /* CreatePartitions names no numbers: they follow the present ones */
        work->assignments[i].partition = first + (int32_t)i;
    }
    work->ask.request.ask = COORD_ASK_CREATE_PARTITIONS;
    work->ask.request.u.topic.name = item->topic.null ? ot_str_of("") : item->topic;
    work->ask.request.u.topic.partition_count = item->partition_count;
    return true;
}

static bool has_list_ops(const struct broker_admin_item *item)
{
    for (uint32_t i = 0; item->ops != NULL && i < item->config_count; i++) {
        if (item->ops[i] == BROKER_CONFIG_APPEND || item->ops[i] == BROKER_CONFIG_SUBTRACT) {
            return true;
        }
    }
    return false;
}

static bool is_one_too_many(const struct broker_admin_item *item, const struct broker_view *view)
{
    struct ot_str after = { .null = true }, name;
    uint32_t others = 0;
    for (; others < BROKER_CLIENT_METRICS_MAX && broker_view_next_named(view, BROKER_VIEW_CLIENT_METRICS, after, &name); after = name)
        others += !ot_str_equal(name, item->topic);
    return others >= BROKER_CLIENT_METRICS_MAX;
}

/* A group need not be there: what it may have otherwise can be said before it is. A subscription is nothing but its configs. */
static bool build_alter_named(struct work *work, const struct broker_view *view)
{
    struct broker_admin_item *item = work->item;
    struct coord_configs_ask *ask = &work->ask.request.u.configs;
    const bool of_group = item->kind == BROKER_ALTER_GROUP_CONFIG;
    if (item->topic.null || item->topic.bytes == 0) return refuse(item, OT_ERR_INVALID_REQUEST, of_group ? "Group name is empty." : "Subscription name can't be empty");
    if (item->topic.bytes > COORD_SCOPE_NAME_BYTES_MAX)
        return refuse(item, OT_ERR_INVALID_REQUEST, "a %s with a configuration of its own has a name of %d bytes at most", of_group ? "group" : "subscription", COORD_SCOPE_NAME_BYTES_MAX);
    if (!of_group && is_one_too_many(item, view)) return refuse(item, OT_ERR_POLICY_VIOLATION, "there are %d client metrics subscriptions, which is the most", BROKER_CLIENT_METRICS_MAX);
    if (!build_changes(work, view)) return false;
    work->ask.request.ask = COORD_ASK_CONFIGS;
    ask->scope = (struct coord_scope){ .kind = of_group ? COORD_SCOPE_GROUP : COORD_SCOPE_CLIENT_METRICS, .name = item->topic };
    if (item->if_version == -1 && has_list_ops(item))
        work->ask.request.if_version = broker_view_named_config_version(view, of_group ? BROKER_VIEW_GROUP : BROKER_VIEW_CLIENT_METRICS, item->topic);
    ask->changes = work->changes;
    ask->change_count = item->config_count;
    ask->replace_all = item->replace_all;
    return true;
}

static bool is_registered(const struct broker_view *view, int32_t id)
{
    struct ot_arena arena;
    struct broker_view_broker broker;
    ot_arena_init(&arena, 65536);
    const bool there = id >= 0 && broker_view_next_broker(view, id - 1, &arena, &broker) && broker.id == id;
    ot_arena_free(&arena);
    return there;
}

static bool build_alter(struct work *work, const struct broker_view *view)
{
    struct broker_admin_item *item = work->item;
    struct coord_configs_ask *ask = &work->ask.request.u.configs;
    struct broker_view_topic topic = { 0 };
    bool of_topic = item->kind == BROKER_ALTER_TOPIC_CONFIG;
    if (of_topic && (item->topic.null || item->topic.bytes == 0)) {
        return refuse(item, OT_ERR_INVALID_REQUEST, "Default topic resources are not allowed.");
    }
    if (of_topic && !broker_topic_name_valid(item->topic, item->text, sizeof item->text)) {
        item->error = OT_ERR_INVALID_TOPIC_EXCEPTION;
        return false;
    }
    if (of_topic && !broker_view_topic(view, item->topic, &topic)) {
        return refuse(item, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION, "The topic '%.*s' does not exist.", (int)OT_MIN(item->topic.bytes, 150u),
            item->topic.null ? "" : item->topic.data);
    }
    if (!of_topic && item->of_any_broker && !is_registered(view, item->broker_id)) {
        return refuse(item, OT_ERR_BROKER_ID_NOT_REGISTERED, "no broker has the id %d", item->broker_id);
    }
    if (!of_topic && !item->of_any_broker && item->broker_id != -1 && item->broker_id != work->request->broker->node_id) {
        return refuse(item, OT_ERR_INVALID_REQUEST, "Unexpected broker id, expected %d or the cluster default, but received %d", work->request->broker->node_id,
            item->broker_id);
    }
    if (!build_changes(work, view)) {
        return false;
    }
    work->ask.request.ask = COORD_ASK_CONFIGS;
    ask->scope = of_topic ? (struct coord_scope){ .kind = COORD_SCOPE_TOPIC, .topic_id = topic.id }
        : (struct coord_scope){ .kind = item->broker_id == -1 ? COORD_SCOPE_CLUSTER : COORD_SCOPE_BROKER, .broker_id = OT_MAX(item->broker_id, 0) };
    ask->topic = item->topic;
    ask->changes = work->changes;
    ask->change_count = item->config_count;
    ask->replace_all = item->replace_all;
    if (item->if_version == -1 && has_list_ops(item)) {    /* computed from this version: it must still be the one */
        int64_t version = of_topic ? topic.version : broker_view_broker_config_version(view, item->broker_id);
        work->ask.request.if_version = version;
    }
    return true;
}

static bool build(struct work *work)
{
    struct broker_admin_item *item = work->item;
    work->ask.request = (struct coord_request){ .validate_only = item->validate_only, .if_version = item->if_version };
    const struct broker_view *view = broker_view_take(work->request->broker);
    bool built = false;
    switch (item->kind) {
    case BROKER_CREATE_TOPIC: built = build_create(work, view); break;
    case BROKER_DELETE_TOPIC: built = build_delete(work); break;
    case BROKER_CREATE_PARTITIONS: built = build_grow(work, view); break;
    case BROKER_ALTER_TOPIC_CONFIG:
    case BROKER_ALTER_BROKER_CONFIG: built = build_alter(work, view); break;
    case BROKER_ALTER_GROUP_CONFIG:
    case BROKER_ALTER_CLIENT_METRICS: built = build_alter_named(work, view); break;
    }
    broker_view_give(view);
    return built;
}

/* ---- the whole request */

static void work_free(struct work *work)
{
    for (uint32_t i = 0; i < work->text_count; i++) {
        free(work->texts[i]);
    }
    free(work->texts);
    free(work->changes);
    free(work->assignments);
    work->texts = NULL;
    work->changes = NULL;
    work->assignments = NULL;
    work->text_count = 0;
}

static void finish_run(struct ot_task *task)   /* on the coordinator's thread */
{
    struct request *request = OT_CONTAINER(task, struct request, finish);
    struct broker_admin *admin = request->admin;
    for (uint32_t i = 0; i < admin->item_count; i++) {
        work_free(&request->works[i]);
    }
    free(request);
    ot_exec_post(admin->call.home, &admin->call.task);
}

static void one_done(struct request *request)
{
    if (--request->open == 0) {
        finish_run(&request->finish);
    }
}

static void work_answered(struct broker_ask *ask)
{
    struct work *work = OT_CONTAINER(ask, struct work, ask);
    struct broker_admin_item *item = work->item;
    if (ask->request.error == OT_ERR_MISMATCH && item->if_version == -1 && ++work->tries < TRIES_MAX) {
        work_free(work);                       /* somebody changed what this change was computed from: again, from what it is now */
        if (build(work)) {
            broker_coordinator_ask(work->request->broker->coordinator, ask);
            return;
        }
        one_done(work->request);
        return;
    }
    const bool unsure = ask->request.error == OT_ERR_MISMATCH && ask->uncertain && !item->validate_only;
    if (unsure) snprintf(ask->request.text, sizeof ask->request.text, "the coordinator changed meanwhile, and so did the version; whether this change did it is not known");
    item->error = unsure ? OT_ERR_REQUEST_TIMED_OUT : ask->request.error;
    item->topic_id_out = ask->request.topic_id;
    item->partition_count_out = ask->request.partition_count;
    item->replication_factor_out = (int16_t)ask->request.replication_factor;
    item->version_out = ask->request.version;
    snprintf(item->text, sizeof item->text, "%s", ask->request.error == OT_OK ? "" : ask->request.text);
    one_done(work->request);
}

static void done_run(struct ot_task *task)
{
    struct broker_call *call = OT_CONTAINER(task, struct broker_call, task);
    call->done(call);
}

/* What an item is about, within its kind. 0: nothing that could be there twice. */
static size_t subject(const struct broker_admin_item *item, char key[static 300])
{
    const char *from = item->topic.data;
    size_t bytes = item->topic.bytes;
    key[0] = (char)item->kind;
    if (item->kind == BROKER_ALTER_BROKER_CONFIG) {
        from = (const char *)&item->broker_id;
        bytes = sizeof item->broker_id;
    } else if (item->topic.null) {
        from = (const char *)item->topic_id.bytes;
        bytes = ot_uuid_is_zero(&item->topic_id) ? 0 : sizeof item->topic_id;
    }
    if (bytes == 0 || bytes > 280) {
        return 0;
    }
    memcpy(key + 1, from, bytes);
    return 1 + bytes;
}

/* Duplicates of a topic or broker within one request: every one of them is refused. */
static void refuse_duplicates(struct broker_admin *admin, struct ot_map *seen)
{
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < admin->item_count; i++) {
            struct broker_admin_item *item = &admin->items[i];
            char key[300];
            const size_t bytes = subject(item, key);
            if (bytes == 0) {
                continue;
            }
            uintptr_t count = (uintptr_t)ot_map_get(seen, key, bytes);
            if (pass == 0) {
                ot_ignore(ot_map_put(seen, key, bytes, (void *)(count + 1)), "then the coordinator decides one after the other");
            } else if (count > 1) {
                bool alter = item->kind >= BROKER_ALTER_TOPIC_CONFIG;
                refuse(item, OT_ERR_INVALID_REQUEST, alter ? "Each resource must appear at most once." : "Duplicate topic name.");
            }
        }
    }
}

static void begin_run(struct ot_task *task)    /* on the coordinator's thread: answers cannot come before all are asked */
{
    struct broker_admin *admin = OT_CONTAINER(task, struct broker_admin, to_coordinator);
    struct broker *broker = admin->broker;
    struct request *request = admin->item_count > ITEMS_MAX ? NULL : calloc(1, sizeof *request + admin->item_count * sizeof request->works[0]);
    struct ot_map seen;
    ot_map_init(&seen);
    for (uint32_t i = 0; i < admin->item_count; i++) {
        admin->items[i].error = OT_OK;
        admin->items[i].text[0] = 0;
        admin->items[i].version_out = -1;
        admin->items[i].topic_id_out = admin->items[i].topic_id;
    }
    if (request == NULL || atomic_load(&broker->stage) != BROKER_SERVING) {
        for (uint32_t i = 0; i < admin->item_count; i++) {
            if (admin->item_count > ITEMS_MAX) {
                refuse(&admin->items[i], OT_ERR_POLICY_VIOLATION, "%u items in one request; at most %d are taken", admin->item_count, ITEMS_MAX);
            } else {
                refuse(&admin->items[i], request == NULL ? OT_ERR_NO_MEMORY : OT_ERR_NOT_CONTROLLER, request == NULL ? "out of memory" : "the server is not serving");
            }
        }
        free(request);
        ot_exec_post(admin->call.home, &admin->call.task);
        return;
    }
    *request = (struct request){ .admin = admin, .broker = broker, .open = 1 };
    refuse_duplicates(admin, &seen);
    ot_map_free(&seen);
    for (uint32_t i = 0; i < admin->item_count; i++) {
        struct work *work = &request->works[i];
        *work = (struct work){ .ask.answered = work_answered, .ask.timeout_us = admin->timeout_ms <= 0 ? 0 : OT_MAX((int64_t)admin->timeout_ms, LEAST_WAIT_MS) * 1000, .request = request, .item = &admin->items[i] };
        if (work->item->error == OT_OK && build(work)) {
            request->open++;
            broker_coordinator_ask(broker->coordinator, &work->ask);
        }
    }
    one_done(request);
}

void broker_admin(struct broker *broker, struct broker_admin *admin)
{
    admin->broker = broker;
    admin->call.task.run = done_run;
    admin->to_coordinator.run = begin_run;
    ot_exec_post(broker->setup.coord_exec, &admin->to_coordinator);
}
