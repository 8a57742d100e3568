/* IncrementalAlterConfigs: set, delete, append to and subtract from single settings of topics and brokers (trap M9). */
#include "rpc/kafka/request.h"

#include "base/wire/enums.h"
#include "base/wire/incremental_alter_configs_request.h"
#include "base/wire/incremental_alter_configs_response.h"
#include "broker/loggers.h"
#include "rpc/kafka/config_changes.h"

#include <stdio.h>

static void incremental_alter_configs_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct ot_incremental_alter_configs_request *asked = request->body;
    struct ot_incremental_alter_configs_response response;
    ot_incremental_alter_configs_response_defaults(&response);
    response.responses.count = asked->resources.count;
    response.responses.items = rpc_alloc(request, (size_t)asked->resources.count, sizeof *response.responses.items);
    if (response.responses.items == NULL && asked->resources.count > 0) {
        rpc_reject(request, "no memory for its answer");
        return;
    }
    for (int32_t i = 0; i < asked->resources.count; i++) {
        struct ot_str text;
        const enum ot_err error = rpc_config_changes_error(request, i, &text);
        response.responses.items[i] = (struct ot_incremental_alter_configs_response_alter_configs_resource_response){ .error_code = ot_err_kafka(error),
            .error_message = text, .resource_type = asked->resources.items[i].resource_type, .resource_name = asked->resources.items[i].resource_name };
    }
    rpc_respond(request, &response);
}

static bool op_of(int8_t number, enum broker_config_op *out)
{
    switch (number) {
    case OT_ALTER_CONFIG_OP_SET: *out = BROKER_CONFIG_SET; return true;
    case OT_ALTER_CONFIG_OP_DELETE: *out = BROKER_CONFIG_DELETE; return true;
    case OT_ALTER_CONFIG_OP_APPEND: *out = BROKER_CONFIG_APPEND; return true;
    case OT_ALTER_CONFIG_OP_SUBTRACT: *out = BROKER_CONFIG_SUBTRACT; return true;
    default: return false;
    }
}

/* Into item, up to the first operation that is none: then item->config_count is lower than asked and the resource is refused. */
static bool configs_read(struct rpc_request *request, const struct ot_incremental_alter_configs_request_alterable_config_array *from, struct broker_admin_item *item)
{
    struct broker_config_entry *entries = rpc_alloc(request, (size_t)from->count, sizeof *entries);
    enum broker_config_op *ops = rpc_alloc(request, (size_t)from->count + 1, sizeof *ops);
    if (ops == NULL || (entries == NULL && from->count > 0)) return false;
    item->configs = entries;
    item->ops = ops;
    for (item->config_count = 0; item->config_count < (uint32_t)from->count; item->config_count++) {
        const struct ot_incremental_alter_configs_request_alterable_config *one = &from->items[item->config_count];
        entries[item->config_count] = (struct broker_config_entry){ one->name, one->value };
        if (op_of(one->config_operation, &ops[item->config_count])) continue;
        rpc_config_changes_refuse(request, OT_ERR_INVALID_REQUEST, "an operation is SET (0), DELETE (1), APPEND (2) or SUBTRACT (3)");
        break;
    }
    return true;
}

/* Log levels change here and now; nothing is asked of the broker. */
static bool loggers_alter(struct rpc_request *request, const struct ot_incremental_alter_configs_request_alter_configs_resource *resource)
{
    const struct ot_incremental_alter_configs_request *asked = request->body;
    const int32_t mine = broker_node_id(request->server->broker);
    char number[16];
    struct broker_admin_item item = { 0 };
    char *text = rpc_alloc(request, 1, BROKER_TEXT_MAX);
    const struct rpc_config_changes *changes = request->own;
    const struct rpc_config_change *row = &changes->rows[changes->count - 1];
    if (text == NULL || !configs_read(request, &resource->configs, &item)) return false;
    (void)snprintf(number, sizeof number, "%d", mine);
    enum ot_err error = OT_ERR_INVALID_REQUEST;
    if (item.config_count != (uint32_t)resource->configs.count) (void)snprintf(text, BROKER_TEXT_MAX, "%s", row->text);
    else if (!ot_str_equal(resource->resource_name, ot_str_of(number)))
        (void)snprintf(text, BROKER_TEXT_MAX, "Unexpected node id. Expected %d, but received %.*s", mine, (int)OT_MIN(resource->resource_name.bytes, 60u), resource->resource_name.data);
    else error = broker_loggers_alter(item.configs, item.ops, item.config_count, asked->validate_only, text);
    rpc_config_changes_refuse(request, error, text);
    return true;
}

RPC_HANDLER(incremental_alter_configs)
{
    const struct ot_incremental_alter_configs_request *asked = body;
    bool enough = rpc_config_changes_begin(request, asked->resources.count);
    for (int32_t i = 0; i < asked->resources.count && enough; i++) {
        const struct ot_incremental_alter_configs_request_alter_configs_resource *resource = &asked->resources.items[i];
        struct broker_admin_item *item = NULL;
        rpc_config_changes_add(request, resource->resource_type, resource->resource_name, asked->validate_only, &item);
        if (resource->resource_type == OT_CONFIG_RESOURCE_BROKER_LOGGER) enough = loggers_alter(request, resource);
        else enough = item == NULL || configs_read(request, &resource->configs, item);
    }
    if (enough) rpc_config_changes_ask(request, incremental_alter_configs_done);
    else rpc_reject(request, "too much in one request");
}
