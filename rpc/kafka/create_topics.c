/* CreateTopics: exactly one result per asked topic (traps M5, M6); v5+ tells the configuration that the topic has, v7+ its id. */
#include "rpc/kafka/request.h"

#include "base/wire/create_topics_request.h"
#include "base/wire/create_topics_response.h"
#include "rpc/kafka/config_values.h"

static bool assignments_fill(struct rpc_request *request, const struct ot_create_topics_request_creatable_topic *topic, struct broker_admin_item *item)
{
    struct broker_assignment *rows = rpc_alloc(request, (size_t)topic->assignments.count, sizeof *rows);
    if (rows == NULL && topic->assignments.count > 0) return false;
    for (int32_t i = 0; i < topic->assignments.count; i++) {
        const struct ot_create_topics_request_creatable_replica_assignment *one = &topic->assignments.items[i];
        rows[i] = (struct broker_assignment){ .partition = one->partition_index, .brokers = one->broker_ids.items, .broker_count = one->broker_ids.count };
    }
    item->assignments = rows;
    item->assignment_count = (uint32_t)topic->assignments.count;
    return true;
}

static bool configs_fill(struct rpc_request *request, const struct ot_create_topics_request_creatable_topic *topic, struct broker_admin_item *item)
{
    struct broker_config_entry *entries = rpc_alloc(request, (size_t)topic->configs.count, sizeof *entries);
    if (entries == NULL && topic->configs.count > 0) return false;
    for (int32_t i = 0; i < topic->configs.count; i++) entries[i] = (struct broker_config_entry){ topic->configs.items[i].name, topic->configs.items[i].value };
    item->configs = entries;
    item->config_count = (uint32_t)topic->configs.count;
    return true;
}

/* The configuration that this topic has, from what was asked and the broker's defaults. */
static bool configs_answer(struct rpc_request *request, const struct broker_admin_item *item, struct ot_create_topics_response_creatable_topic_result *row)
{
    struct rpc_config_values values = { .only_count = -1 };
    const char **keys = rpc_alloc(request, item->config_count + 1, sizeof *keys), **texts = rpc_alloc(request, item->config_count + 1, sizeof *texts);
    if (keys == NULL || texts == NULL) return false;
    for (uint32_t i = 0; i < item->config_count; i++) {
        keys[i] = ot_arena_str(&request->arena, item->configs[i].name);
        texts[i] = item->configs[i].value.null ? NULL : ot_arena_str(&request->arena, item->configs[i].value);
        if (keys[i] == NULL) return false;
    }
    if (!rpc_config_values_topic(request, &values, keys, texts, item->config_count)) return false;
    row->configs.items = rpc_alloc(request, values.count, sizeof *row->configs.items);
    if (row->configs.items == NULL) return false;
    row->configs.count = (int32_t)values.count;
    for (uint32_t i = 0; i < values.count; i++) {
        row->configs.items[i] = (struct ot_create_topics_response_creatable_topic_configs){ .name = values.rows[i].name, .value = values.rows[i].value,
            .read_only = values.rows[i].read_only, .config_source = values.rows[i].source, .is_sensitive = values.rows[i].sensitive };
    }
    return true;
}

static void create_topics_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct broker_admin *admin = &request->call.admin;
    struct ot_create_topics_response response;
    ot_create_topics_response_defaults(&response);
    request->arena.cap_bytes = RPC_ANSWER_ARENA_BYTES;
    response.topics.count = (int32_t)admin->item_count;
    response.topics.items = rpc_alloc(request, admin->item_count, sizeof *response.topics.items);
    bool enough = response.topics.items != NULL || admin->item_count == 0;
    for (uint32_t i = 0; i < admin->item_count && enough; i++) {
        const struct broker_admin_item *item = &admin->items[i];
        struct ot_create_topics_response_creatable_topic_result *row = &response.topics.items[i];
        const bool made = item->error == OT_OK;
        *row = (struct ot_create_topics_response_creatable_topic_result){ .name = item->topic, .error_code = ot_err_kafka(item->error),
            .error_message = rpc_error_text(item->error, item->text), .num_partitions = made ? item->partition_count_out : -1,
            .replication_factor = made ? item->replication_factor_out : (int16_t)-1 };
        if (made && !item->validate_only) row->topic_id = item->topic_id_out;
        if (made && request->header.version >= 5) enough = configs_answer(request, item, row);
        if (request->error == OT_OK) request->error = item->error;
    }
    if (enough) rpc_respond(request, &response);
    else rpc_reject(request, "no memory for its answer");
}

RPC_HANDLER(create_topics)
{
    const struct ot_create_topics_request *asked = body;
    struct broker_admin_item *items = rpc_alloc(request, (size_t)asked->topics.count, sizeof *items);
    bool enough = items != NULL || asked->topics.count == 0;
    for (int32_t i = 0; i < asked->topics.count && enough; i++) {
        const struct ot_create_topics_request_creatable_topic *topic = &asked->topics.items[i];
        items[i] = (struct broker_admin_item){ .kind = BROKER_CREATE_TOPIC, .topic = topic->name, .partition_count = topic->num_partitions,
            .replication_factor = topic->replication_factor, .validate_only = asked->validate_only, .if_version = -1 };
        enough = assignments_fill(request, topic, &items[i]) && configs_fill(request, topic, &items[i]);
    }
    if (!enough) {
        rpc_reject(request, "too much in one request");
        return;
    }
    rpc_call_init(request, create_topics_done);
    request->call.admin.timeout_ms = asked->timeout_ms;
    request->call.admin.items = items;
    request->call.admin.item_count = (uint32_t)asked->topics.count;
    broker_admin(request->server->broker, &request->call.admin);
}
