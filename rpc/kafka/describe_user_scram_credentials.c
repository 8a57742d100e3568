/* DescribeUserScramCredentials: there are none; a user named twice is told so, once. */
#include "rpc/kafka/request.h"

#include "base/map.h"
#include "base/wire/describe_user_scram_credentials_request.h"
#include "base/wire/describe_user_scram_credentials_response.h"

#include <stdio.h>

typedef struct ot_describe_user_scram_credentials_response_describe_user_scram_credentials_result user_row;

static bool user_answer(struct rpc_request *request, struct ot_str name, struct ot_map *seen, struct ot_describe_user_scram_credentials_response *response)
{
    enum { BYTES = 200 };
    user_row *row = ot_map_get(seen, name.bytes > 0 ? name.data : "", name.bytes);
    char *text = rpc_alloc(request, 1, BYTES);
    if (text == NULL) return false;
    const bool twice = row != NULL;
    const enum ot_err error = twice ? OT_ERR_DUPLICATE_RESOURCE : OT_ERR_RESOURCE_NOT_FOUND;
    (void)snprintf(text, BYTES, twice ? "Cannot describe SCRAM credentials for the same user twice in a single request: %.*s"
        : "Attempt to describe a user credential that does not exist: %.*s", (int)OT_MIN(name.bytes, 80u), name.bytes > 0 ? name.data : "");
    if (!twice) row = &response->results.items[response->results.count++];
    *row = (user_row){ .user = name, .error_code = ot_err_kafka(error), .error_message = rpc_error_text(error, text) };
    if (request->error == OT_OK) request->error = error;
    return twice || ot_map_put(seen, name.bytes > 0 ? name.data : "", name.bytes, row) == OT_OK;
}

RPC_HANDLER(describe_user_scram_credentials)
{
    const struct ot_describe_user_scram_credentials_request *asked = body;
    const int32_t count = OT_MAX(asked->users.count, 0);
    struct ot_describe_user_scram_credentials_response response;
    struct ot_map seen;
    ot_describe_user_scram_credentials_response_defaults(&response);
    ot_map_init(&seen);
    response.error_message.null = true;
    response.results.items = rpc_alloc(request, (size_t)count, sizeof(user_row));
    bool enough = response.results.items != NULL || count == 0;
    for (int32_t i = 0; i < count && enough; i++) enough = user_answer(request, asked->users.items[i].name, &seen, &response);
    ot_map_free(&seen);
    if (enough) rpc_respond(request, &response);
    else rpc_reject(request, "too much in one request");
}
