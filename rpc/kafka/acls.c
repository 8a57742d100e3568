/* DescribeAcls, CreateAcls, DeleteAcls without an authorizer: SECURITY_DISABLED, once for each asked item, as Kafka without security. */
#include "rpc/kafka/request.h"

#include "base/wire/create_acls_request.h"
#include "base/wire/create_acls_response.h"
#include "base/wire/delete_acls_request.h"
#include "base/wire/delete_acls_response.h"
#include "base/wire/describe_acls_response.h"

#define NO_AUTHORIZER "no authorizer is configured"

RPC_HANDLER(describe_acls)
{
    struct ot_describe_acls_response response;
    (void)body;
    ot_describe_acls_response_defaults(&response);
    request->error = OT_ERR_SECURITY_DISABLED;
    response.error_code = ot_err_kafka(request->error);
    response.error_message = ot_str_of(NO_AUTHORIZER);
    rpc_respond(request, &response);
}

RPC_HANDLER(create_acls)
{
    const struct ot_create_acls_request *asked = body;
    struct ot_create_acls_response response;
    ot_create_acls_response_defaults(&response);
    request->error = OT_ERR_SECURITY_DISABLED;
    response.results.count = asked->creations.count;
    response.results.items = rpc_alloc(request, (size_t)asked->creations.count, sizeof *response.results.items);
    if (response.results.items == NULL && asked->creations.count > 0) {
        rpc_reject(request, "no memory for its answer");
        return;
    }
    for (int32_t i = 0; i < asked->creations.count; i++) {
        response.results.items[i] = (struct ot_create_acls_response_acl_creation_result){ .error_code = ot_err_kafka(request->error), .error_message = ot_str_of(NO_AUTHORIZER) };
    }
    rpc_respond(request, &response);
}

RPC_HANDLER(delete_acls)
{
    const struct ot_delete_acls_request *asked = body;
    struct ot_delete_acls_response response;
    ot_delete_acls_response_defaults(&response);
    request->error = OT_ERR_SECURITY_DISABLED;
    response.filter_results.count = asked->filters.count;
    response.filter_results.items = rpc_alloc(request, (size_t)asked->filters.count, sizeof *response.filter_results.items);
    if (response.filter_results.items == NULL && asked->filters.count > 0) {
        rpc_reject(request, "no memory for its answer");
        return;
    }
    for (int32_t i = 0; i < asked->filters.count; i++) {
        response.filter_results.items[i] = (struct ot_delete_acls_response_delete_acls_filter_result){ .error_code = ot_err_kafka(request->error),
            .error_message = ot_str_of(NO_AUTHORIZER) };
    }
    rpc_respond(request, &response);
}
