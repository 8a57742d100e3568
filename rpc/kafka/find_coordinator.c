/* FindCoordinator: with one broker every group and transactional id is coordinated here. v0 to 3 ask for one key, v4 and later for many (trap G9). */
#include "rpc/kafka/request.h"

#include "base/wire/enums.h"
#include "base/wire/find_coordinator_request.h"
#include "base/wire/find_coordinator_response.h"

static enum ot_err key_error(const struct ot_find_coordinator_request *asked)
{
    return asked->key_type == OT_COORDINATOR_TYPE_GROUP || asked->key_type == OT_COORDINATOR_TYPE_TRANSACTION ? OT_OK : OT_ERR_INVALID_REQUEST;
}

RPC_HANDLER(find_coordinator)
{
    const struct ot_find_coordinator_request *asked = body;
    struct ot_find_coordinator_response response;
    struct ot_str host = ot_str_of("");
    int32_t port = -1, node_id = -1;
    ot_find_coordinator_response_defaults(&response);
    const enum ot_err error = request->error = key_error(asked);
    const struct ot_str text = rpc_error_text(error, error == OT_OK ? "" : "coordinators of this key type are not served");
    if (error == OT_OK) {
        rpc_advertised(request, &host, &port);
        node_id = broker_node_id(request->server->broker);
    }
    if (request->header.version <= 3) {
        response.error_code = ot_err_kafka(error);
        if (request->header.version >= 1) response.error_message = text;
        response.node_id = node_id;
        response.host = host;
        response.port = port;
        rpc_respond(request, &response);
        return;
    }
    response.coordinators.count = asked->coordinator_keys.count;
    response.coordinators.items = rpc_alloc(request, (size_t)asked->coordinator_keys.count, sizeof *response.coordinators.items);
    if (response.coordinators.items == NULL && asked->coordinator_keys.count > 0) {
        rpc_reject(request, "no memory for its answer");
        return;
    }
    for (int32_t i = 0; i < asked->coordinator_keys.count; i++) {
        response.coordinators.items[i] = (struct ot_find_coordinator_response_coordinator){ .key = asked->coordinator_keys.items[i], .node_id = node_id, .host = host,
            .port = port, .error_code = ot_err_kafka(error), .error_message = text };
    }
    rpc_respond(request, &response);
}
