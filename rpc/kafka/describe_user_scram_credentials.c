/* DescribeUserScramCredentials: there are none; a user named twice is told so, once. In the order of their names. */
#include "rpc/kafka/request.h"

#include "base/wire/describe_user_scram_credentials_request.h"
#include "base/wire/describe_user_scram_credentials_response.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct ot_describe_user_scram_credentials_response_describe_user_scram_credentials_result user_row;

static int by_name(const void *a, const void *b)
{
    const struct ot_str left = *(const struct ot_str *)a, right = *(const struct ot_str *)b;
    const uint32_t bytes = OT_MIN(left.bytes, right.bytes);
    const int order = bytes == 0 ? 0 : memcmp(left.data, right.data, bytes);
    return order != 0 ? order : left.bytes < right.bytes ? -1 : left.bytes > right.bytes;
}

static bool user_answer(struct rpc_request *request, struct ot_str name, bool twice, user_row *to)
{
    enum { BYTES = 200 };
    const enum ot_err error = twice ? OT_ERR_DUPLICATE_RESOURCE : OT_ERR_RESOURCE_NOT_FOUND;
    char *text = rpc_alloc(request, 1, BYTES);
    if (text == NULL) return false;
    (void)snprintf(text, BYTES, twice ? "Cannot describe SCRAM credentials for the same user twice in a single request: %.*s"
        : "Attempt to describe a user credential that does not exist: %.*s", (int)OT_MIN(name.bytes, 80u), name.bytes > 0 ? name.data : "");
    *to = (user_row){ .user = name, .error_code = ot_err_kafka(error), .error_message = rpc_error_text(error, text) };
    if (request->error == OT_OK) request->error = error;
    return true;
}

RPC_HANDLER(describe_user_scram_credentials)
{
    const struct ot_describe_user_scram_credentials_request *asked = body;
    const int32_t count = OT_MAX(asked->users.count, 0);
    struct ot_describe_user_scram_credentials_response response;
    ot_describe_user_scram_credentials_response_defaults(&response);
    response.error_message.null = true;
    struct ot_str *names = rpc_alloc(request, (size_t)count + 1, sizeof *names);
    response.results.items = rpc_alloc(request, (size_t)count, sizeof(user_row));
    bool enough = names != NULL && (response.results.items != NULL || count == 0);
    for (int32_t i = 0; i < count && enough; i++) names[i] = asked->users.items[i].name;
    if (enough && count > 1) qsort(names, (size_t)count, sizeof *names, by_name);
    for (int32_t i = 0, next; i < count && enough; i = next) {
        for (next = i + 1; next < count && ot_str_equal(names[i], names[next]); next++) {}
        enough = user_answer(request, names[i], next - i > 1, &response.results.items[response.results.count++]);
    }
    if (enough) rpc_respond(request, &response);
    else rpc_reject(request, "too much in one request");
}
