/* Changing topics: create, delete, grow. */
#include "rest/handlers.h"
#include "rest/topic_view.h"
#include <string.h>

enum { ASSIGNMENTS_MAX = 2000, REPLICAS_MAX = 64, CONFIGS_MAX = 200 };

/* ---- bodies */

/* "config": {"retention.ms":"1000"}; null only where it means "inherit". */
static bool read_configs(struct rest_call *call, json_t *object, const char *pointer, bool nulls, struct broker_admin_item *item)
{
    const char *name;
    size_t bytes;
    json_t *value;
    char place[REST_POINTER_MAX];
    const size_t count = object == NULL ? 0 : json_object_size(object);
    if (count == 0) return true;
    if (count > CONFIGS_MAX) {
        rest_fault_add(&call->faults, pointer, "must have at most %d members", CONFIGS_MAX);
        return false;
    }
    struct broker_config_entry *entries = ot_arena_array(&call->arena, count, sizeof(*entries));
    if (entries == NULL) return false;
    json_object_keylen_foreach(object, name, bytes, value) {
        rest_pointer_join(place, pointer, name, bytes);
        if (!json_is_string(value) && !(nulls && json_is_null(value))) {
            rest_fault_add(&call->faults, place, "must be a string%s", nulls ? " or null" : "");
            continue;
        }
        entries[item->config_count++] = (struct broker_config_entry){ { name, (uint32_t)bytes, false },
            json_is_null(value) ? (struct ot_str){ .null = true } : rest_json_string(value) };
    }
    item->configs = entries;
    return call->faults.count == 0;
}

static bool read_brokers(struct rest_call *call, json_t *list, const char *pointer, struct broker_assignment *out)
{
    char place[REST_POINTER_MAX];
    const size_t count = json_array_size(list);
    if (!json_is_array(list) || count == 0 || count > REPLICAS_MAX) {
        rest_fault_add(&call->faults, pointer, "must be an array of 1 to %d broker ids", REPLICAS_MAX);
        return false;
    }
    int32_t *ids = ot_arena_array(&call->arena, count, sizeof(*ids));
    for (size_t i = 0; ids != NULL && i < count; i++) {
        json_t *id = json_array_get(list, i);
        rest_pointer_index(place, pointer, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX) rest_fault_add(&call->faults, place, "must be a broker id");
        else ids[i] = (int32_t)json_integer_value(id);
    }
    out->brokers = ids;
    out->broker_count = (int32_t)count;
    return ids != NULL;
}

/* "assignments": [[1,2,3],[2,3,1]], the first one for partition `first`. */
static bool read_assignments(struct rest_call *call, json_t *list, int32_t first, struct broker_admin_item *item)
{
    char place[REST_POINTER_MAX];
    const size_t count = list == NULL ? 0 : json_array_size(list);
    if (list == NULL) return true;
    struct broker_assignment *assignments = ot_arena_array(&call->arena, OT_MAX(count, 1u), sizeof(*assignments));
    for (size_t i = 0; assignments != NULL && i < count; i++) {
        rest_pointer_index(place, "/assignments", i);
        assignments[i].partition = first + (int32_t)i;
        if (!read_brokers(call, json_array_get(list, i), place, &assignments[i])) break;
    }
    item->assignments = assignments;
    item->assignment_count = (uint32_t)count;
    return assignments != NULL && call->faults.count == 0;
}

static bool stands(struct rest_call *call, bool read)
{
    if (rest_faulty(call)) return false;
    if (!read) rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
    return read;
}

/* ---- create */

static void reply_with_topic(struct rest_change *change, int status)
{
    struct rest_call *call = change->call;
    struct broker_view_topic topic;
    struct rest_topic_sum sum;
    const struct broker_view *view = broker_view_take(call->broker);
    const bool found = broker_view_topic_by_id(view, &change->item.topic_id_out, &topic) || broker_view_topic(view, change->item.topic, &topic);
    if (found) {
        rest_etag(call, topic.version);
        rest_topic_sum(call, view, &topic, true, &sum);
        rest_topic_write(call, NULL, view, &topic, &sum, true);
    }
    broker_view_give(view);
    if (found) rest_reply_json(call, status);
    else rest_problem(call, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION, "the topic was deleted meanwhile");
}

/* validate_only: what would be. */
static void reply_with_plan(struct rest_change *change)
{
    struct rest_json *out = &change->call->out;
    rest_json_open(out, NULL, '{');
    rest_json_str(out, "topic", change->item.topic);
    rest_json_int(out, "partitions", change->item.partition_count_out);
    rest_json_int(out, "replication_factor", change->item.replication_factor_out);
    rest_json_bool(out, "validate_only", true);
    rest_json_close(out, '}');
    rest_reply_json(change->call, 200);
}

static void created(struct rest_change *change)
{
    struct rest_call *call = change->call;
    if (change->item.validate_only) {
        reply_with_plan(change);
        return;
    }
    char *name = rest_percent_encode(&call->arena, change->item.topic);
    char *location = name == NULL ? NULL : ot_arena_alloc(&call->arena, strlen(name) + 16);
    if (location != NULL) {
        snprintf(location, strlen(name) + 16, "/v1/topics/%s", name);
        rest_header(call, "Location", location);
    }
    reply_with_topic(change, 201);
}

void rest_topic_create(struct rest_call *call)
{
    json_t *body = rest_body_object(call, REST_VALUES_SMALL), *configs = NULL, *assignments = NULL;
    int64_t partitions = -1, replication_factor = -1;
    struct ot_str name = { .null = true };
    bool partitions_given = false, factor_given = false;
    if (body == NULL) return;
    const struct rest_member members[] = {
        { .name = "name", .kind = REST_TEXT, .required = true, .out = &name },
        { .name = "partitions", .kind = REST_INT, .out = &partitions, .min = 1, .max = INT32_MAX, .given = &partitions_given },
        { .name = "replication_factor", .kind = REST_INT, .out = &replication_factor, .min = 1, .max = INT16_MAX, .given = &factor_given },
        { .name = "assignments", .kind = REST_ARRAY, .out = &assignments, .min = 1, .max = ASSIGNMENTS_MAX },
        { .name = "config", .kind = REST_OBJECT, .out = &configs },
    };
    rest_members(body, "", members, OT_ARRAY_COUNT(members), &call->faults);
    if (assignments != NULL && (partitions_given || factor_given))
        rest_fault_add(&call->faults, "/assignments", "replaces partitions and replication_factor: give one or the other");
    struct rest_change *change = rest_change_new(call, BROKER_CREATE_TOPIC, name);
    if (change == NULL) return;
    change->item.partition_count = (int32_t)partitions;
    change->item.replication_factor = (int16_t)replication_factor;
    const bool read = read_configs(call, configs, "/config", false, &change->item) && read_assignments(call, assignments, 0, &change->item);
    if (stands(call, read || call->faults.count > 0)) rest_change_start(change, created);
}

/* ---- delete */

static void deleted(struct rest_change *change) { rest_reply_empty(change->call, 204); }

void rest_topic_delete(struct rest_call *call)
{
    struct broker_view_topic topic;
    const struct broker_view *view = broker_view_take(call->broker);
    const bool found = rest_topic_find(call, view, &topic);
    broker_view_give(view);
    struct rest_change *change = found ? rest_change_new(call, BROKER_DELETE_TOPIC, rest_param(call, 0)) : NULL;
    if (change == NULL || !rest_if_match(call, topic.version, &change->item.if_version) || rest_faulty(call)) return;
    rest_change_start(change, deleted);
}

/* ---- grow */

static void grown(struct rest_change *change)
{
    if (change->item.validate_only) reply_with_plan(change);
    else reply_with_topic(change, 200);
}

void rest_topic_grow(struct rest_call *call)
{
    json_t *body = rest_body_object(call, REST_VALUES_SMALL), *assignments = NULL;
    int64_t count = 0;
    struct broker_view_topic topic;
    if (body == NULL) return;
    const struct rest_member members[] = {
        { .name = "count", .kind = REST_INT, .required = true, .out = &count, .min = 1, .max = INT32_MAX },
        { .name = "assignments", .kind = REST_ARRAY, .out = &assignments, .min = 1, .max = ASSIGNMENTS_MAX },
    };
    rest_members(body, "", members, OT_ARRAY_COUNT(members), &call->faults);
    const struct broker_view *view = broker_view_take(call->broker);
    const bool found = rest_topic_find(call, view, &topic);
    broker_view_give(view);
    struct rest_change *change = found ? rest_change_new(call, BROKER_CREATE_PARTITIONS, rest_param(call, 0)) : NULL;
    if (change == NULL || !rest_if_match(call, topic.version, &change->item.if_version)) return;
    change->item.partition_count = (int32_t)count;
    if (stands(call, read_assignments(call, assignments, topic.partition_count, &change->item) || call->faults.count > 0)) rest_change_start(change, grown);
}

/* ---- configs (the handlers are in configs.c) */

bool rest_configs_read(struct rest_call *call, json_t *object, struct broker_admin_item *item)
{
    const bool read = read_configs(call, object, "", true, item);
    return stands(call, read || call->faults.count > 0);
}
