/* AlterClientQuotas: one result for each entity. */
#include "rpc/kafka/request.h"

#include "base/wire/alter_client_quotas_request.h"
#include "base/wire/alter_client_quotas_response.h"
#include "broker/client_quotas.h"

typedef struct ot_alter_client_quotas_response_entry_data entry_row;

static bool entry_answer(struct rpc_request *request, const struct ot_alter_client_quotas_request_entry_data *asked, entry_row *to)
{
    char text[BROKER_TEXT_MAX];
    struct broker_quota_entity *entity = rpc_alloc(request, (size_t)asked->entity.count + 1, sizeof *entity);
    struct broker_quota_op *ops = rpc_alloc(request, (size_t)asked->ops.count + 1, sizeof *ops);
    *to = (entry_row){ .entity.count = asked->entity.count, .entity.items = rpc_alloc(request, (size_t)asked->entity.count + 1, sizeof *to->entity.items) };
    if (entity == NULL || ops == NULL || to->entity.items == NULL) return false;
    for (int32_t i = 0; i < asked->entity.count; i++) {
        entity[i] = (struct broker_quota_entity){ asked->entity.items[i].entity_type, asked->entity.items[i].entity_name };
        to->entity.items[i] = (struct ot_alter_client_quotas_response_entity_data){ .entity_type = entity[i].type, .entity_name = entity[i].name };
    }
    for (int32_t i = 0; i < asked->ops.count; i++) ops[i] = (struct broker_quota_op){ asked->ops.items[i].key, asked->ops.items[i].value, asked->ops.items[i].remove };
    const enum ot_err error = broker_quota_alter(entity, (uint32_t)asked->entity.count, ops, (uint32_t)asked->ops.count, text);
    const char *kept = ot_arena_str(&request->arena, ot_str_of(text));
    to->error_code = ot_err_kafka(error);
    to->error_message = rpc_error_text(error, kept);
    if (request->error == OT_OK) request->error = error;
    return kept != NULL;
}

RPC_HANDLER(alter_client_quotas)
{
    const struct ot_alter_client_quotas_request *asked = body;
    struct ot_alter_client_quotas_response response;
    ot_alter_client_quotas_response_defaults(&response);
    response.entries.count = asked->entries.count;
    response.entries.items = rpc_alloc(request, (size_t)asked->entries.count, sizeof(entry_row));
    bool enough = response.entries.items != NULL || asked->entries.count == 0;
    for (int32_t i = 0; i < asked->entries.count && enough; i++) enough = entry_answer(request, &asked->entries.items[i], &response.entries.items[i]);
    if (enough) rpc_respond(request, &response);
    else rpc_reject(request, "too much in one request");
}
