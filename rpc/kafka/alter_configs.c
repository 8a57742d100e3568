/* AlterConfigs: the whole set of a topic's or broker's own settings; what is not named goes back to its default. */
#include "rpc/kafka/request.h"

#include "base/wire/alter_configs_request.h"
#include "base/wire/alter_configs_response.h"
#include "rpc/kafka/config_changes.h"

static void alter_configs_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct ot_alter_configs_request *asked = request->body;
    struct ot_alter_configs_response response;
    ot_alter_configs_response_defaults(&response);
    response.responses.count = asked->resources.count;
    response.responses.items = rpc_alloc(request, (size_t)asked->resources.count, sizeof *response.responses.items);
    if (response.responses.items == NULL && asked->resources.count > 0) {
        rpc_reject(request, "no memory for its answer");
        return;
    }
    for (int32_t i = 0; i < asked->resources.count; i++) {
        struct ot_str text;
        const enum ot_err error = rpc_config_changes_error(request, i, &text);
        response.responses.items[i] = (struct ot_alter_configs_response_alter_configs_resource_response){ .error_code = ot_err_kafka(error), .error_message = text,
            .resource_type = asked->resources.items[i].resource_type, .resource_name = asked->resources.items[i].resource_name };
    }
    rpc_respond(request, &response);
}

static bool configs_fill(struct rpc_request *request, const struct ot_alter_configs_request_alterable_config_array *from, struct broker_admin_item *item)
{
    struct broker_config_entry *entries = rpc_alloc(request, (size_t)from->count, sizeof *entries);
    enum broker_config_op *ops = rpc_alloc(request, (size_t)from->count + 1, sizeof *ops);      /* all SET: a null value is refused, not a removal */
    if (ops == NULL || (entries == NULL && from->count > 0)) return false;
    for (int32_t i = 0; i < from->count; i++) entries[i] = (struct broker_config_entry){ from->items[i].name, from->items[i].value };
    item->configs = entries;
    item->ops = ops;
    item->config_count = (uint32_t)from->count;
    item->replace_all = true;
    return true;
}

RPC_HANDLER(alter_configs)
{
    const struct ot_alter_configs_request *asked = body;
    bool enough = rpc_config_changes_begin(request, asked->resources.count);
    for (int32_t i = 0; i < asked->resources.count && enough; i++) {
        const struct ot_alter_configs_request_alter_configs_resource *resource = &asked->resources.items[i];
        struct broker_admin_item *item = NULL;
        rpc_config_changes_add(request, resource->resource_type, resource->resource_name, asked->validate_only, &item);
        enough = item == NULL || configs_fill(request, &resource->configs, item);
    }
    if (enough) rpc_config_changes_ask(request, alter_configs_done);
    else rpc_reject(request, "too much in one request");
}
