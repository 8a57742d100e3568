/* DescribeConfigs of topics, brokers and groups (trap M8): value, source, synonyms if asked, type, text if asked, read-only and sensitive marks. */
#include "rpc/kafka/request.h"

#include "base/wire/describe_configs_request.h"
#include "base/wire/describe_configs_response.h"
#include "base/wire/enums.h"
#include "rpc/kafka/config_values.h"

#include <stdio.h>

#define TEXT_BYTES BROKER_TEXT_MAX
#define KEYS_MAX 100000                    /* in one request: each is looked for among all rows */

struct result { enum ot_err error; char *text; };      /* text: TEXT_BYTES, in the arena */

static bool row_fill(struct rpc_request *request, const struct rpc_config_row *from, struct ot_describe_configs_response_describe_configs_resource_result *to)
{
    const struct ot_describe_configs_request *asked = request->body;
    *to = (struct ot_describe_configs_response_describe_configs_resource_result){ .name = from->name, .value = from->value, .read_only = from->read_only,
        .config_source = from->source, .is_sensitive = from->sensitive, .config_type = from->type, .documentation.null = true };
    if (asked->include_documentation) to->documentation = from->text;
    if (!asked->include_synonyms || from->synonym_count == 0) return true;
    to->synonyms.items = rpc_alloc(request, from->synonym_count, sizeof *to->synonyms.items);
    if (to->synonyms.items == NULL) return false;
    to->synonyms.count = (int32_t)from->synonym_count;
    for (uint32_t i = 0; i < from->synonym_count; i++) {
        to->synonyms.items[i] = (struct ot_describe_configs_response_describe_configs_synonym){ .name = from->synonyms[i].name, .value = from->synonyms[i].value,
            .source = from->synonyms[i].source };
    }
    return true;
}

static bool values_of_topic(struct rpc_request *request, struct ot_str name, struct rpc_config_values *values, struct result *result)
{
    const char *const *keys = NULL, *const *texts = NULL;
    struct broker_view_topic topic;
    if (!broker_topic_name_valid(name, result->text, TEXT_BYTES)) {
        result->error = OT_ERR_INVALID_TOPIC_EXCEPTION;
        return true;
    }
    const struct broker_view *view = broker_view_take(request->server->broker);
    const bool found = broker_view_topic(view, name, &topic);
    const uint32_t count = found ? broker_view_topic_configs(view, &topic.id, &request->arena, &keys, &texts) : 0;
    broker_view_give(view);
    if (!found) {
        result->error = OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
        return true;
    }
    return rpc_config_values_topic(request, values, keys, texts, count);
}

static bool values_of_broker(struct rpc_request *request, struct ot_str name, struct rpc_config_values *values, struct result *result)
{
    const int32_t mine = broker_node_id(request->server->broker);
    char number[16];
    (void)snprintf(number, sizeof number, "%d", mine);
    if (name.bytes == 0) return rpc_config_values_broker(request, values, -1);
    if (!ot_str_equal(name, ot_str_of(number))) {
        result->error = OT_ERR_INVALID_REQUEST;
        (void)snprintf(result->text, TEXT_BYTES, "a broker tells its own configuration: ask for \"%s\", or \"\" for the cluster's defaults", number);
        return true;
    }
    return rpc_config_values_broker(request, values, mine);
}

static bool is_mine(struct rpc_request *request, struct ot_str name)
{
    char number[16];
    (void)snprintf(number, sizeof number, "%d", broker_node_id(request->server->broker));
    return ot_str_equal(name, ot_str_of(number));
}

static bool resource_answer(struct rpc_request *request, const struct ot_describe_configs_request_describe_configs_resource *asked,
    struct ot_describe_configs_response_describe_configs_result *row)
{
    struct rpc_config_values values = { .only = asked->configuration_keys.items, .only_count = asked->configuration_keys.count };
    struct result result = { OT_OK, rpc_alloc(request, 1, TEXT_BYTES) };
    bool enough = result.text != NULL;
    if (asked->resource_type == OT_CONFIG_RESOURCE_TOPIC) {
        enough = enough && values_of_topic(request, asked->resource_name, &values, &result);
    } else if (asked->resource_type == OT_CONFIG_RESOURCE_BROKER) {
        enough = enough && values_of_broker(request, asked->resource_name, &values, &result);
    } else if (asked->resource_type == OT_CONFIG_RESOURCE_BROKER_LOGGER && is_mine(request, asked->resource_name)) {
        enough = enough && rpc_config_values_loggers(request, &values);
    } else if (asked->resource_type == OT_CONFIG_RESOURCE_GROUP && asked->resource_name.bytes > 0) {
        enough = enough && rpc_config_values_group(request, &values, asked->resource_name);
    } else if (asked->resource_type == OT_CONFIG_RESOURCE_CLIENT_METRICS && asked->resource_name.bytes > 0) {
        enough = enough && rpc_config_values_client_metrics(request, &values, asked->resource_name);
    } else if (enough) {
        result.error = OT_ERR_INVALID_REQUEST;
        (void)snprintf(result.text, TEXT_BYTES, asked->resource_type == OT_CONFIG_RESOURCE_GROUP ? "Default group resources are not allowed (resource type %d)."
            : asked->resource_type == OT_CONFIG_RESOURCE_CLIENT_METRICS ? "Client metrics subscription name must not be empty (resource type %d)"
            : asked->resource_type == OT_CONFIG_RESOURCE_BROKER_LOGGER ? "another broker's loggers are not told here (resource type %d)" : "configuration of resource type %d is not served", asked->resource_type);
    }
    if (!enough) return false;
    *row = (struct ot_describe_configs_response_describe_configs_result){ .error_code = ot_err_kafka(result.error), .error_message = rpc_error_text(result.error, result.text),
        .resource_type = asked->resource_type, .resource_name = asked->resource_name };
    if (request->error == OT_OK) request->error = result.error;
    row->configs.items = rpc_alloc(request, values.count, sizeof *row->configs.items);
    if (row->configs.items == NULL && values.count > 0) return false;
    for (uint32_t i = 0; i < values.count; i++) {
        if (!row_fill(request, &values.rows[i], &row->configs.items[i])) return false;
    }
    row->configs.count = (int32_t)values.count;
    return true;
}

RPC_HANDLER(describe_configs)
{
    const struct ot_describe_configs_request *asked = body;
    struct ot_describe_configs_response response;
    ot_describe_configs_response_defaults(&response);
    request->arena.cap_bytes = RPC_ANSWER_ARENA_BYTES;
    response.results.count = asked->resources.count;
    response.results.items = rpc_alloc(request, (size_t)asked->resources.count, sizeof *response.results.items);
    int64_t keys = 0;
    for (int32_t i = 0; i < asked->resources.count; i++) keys += OT_MAX(asked->resources.items[i].configuration_keys.count, 0);
    bool enough = (response.results.items != NULL || asked->resources.count == 0) && keys <= KEYS_MAX;
    for (int32_t i = 0; i < asked->resources.count && enough; i++) enough = resource_answer(request, &asked->resources.items[i], &response.results.items[i]);
    if (enough) rpc_respond(request, &response);
    else rpc_reject(request, "too much in one request");
}
