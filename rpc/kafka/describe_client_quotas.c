/* DescribeClientQuotas: there are none. */
#include "rpc/kafka/request.h"

#include "base/wire/describe_client_quotas_request.h"
#include "base/wire/describe_client_quotas_response.h"
#include "broker/client_quotas.h"

RPC_HANDLER(describe_client_quotas)
{
    const struct ot_describe_client_quotas_request *asked = body;
    struct ot_describe_client_quotas_response response;
    char text[BROKER_TEXT_MAX] = "";
    ot_describe_client_quotas_response_defaults(&response);
    struct broker_quota_filter *filters = rpc_alloc(request, (size_t)asked->components.count, sizeof *filters);
    if (filters == NULL && asked->components.count > 0) {
        rpc_reject(request, "too much in one request");
        return;
    }
    for (int32_t i = 0; i < asked->components.count; i++) filters[i] = (struct broker_quota_filter){ asked->components.items[i].entity_type, asked->components.items[i].match_type };
    request->error = broker_quota_filter_check(filters, (uint32_t)asked->components.count, text);
    response.error_code = ot_err_kafka(request->error);
    response.error_message = rpc_error_text(request->error, text);
    response.entries.count = request->error == OT_OK ? 0 : -1;
    rpc_respond(request, &response);
}
