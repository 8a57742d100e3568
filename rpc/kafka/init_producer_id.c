/* InitProducerId: ids of idempotent producers. Transactions are not served yet: a transactional id gets a final error, not one that clients retry for ever. */
#include "rpc/kafka/request.h"

#include "base/wire/init_producer_id_request.h"
#include "base/wire/init_producer_id_response.h"

static void answer(struct rpc_request *request, enum ot_err error, int64_t producer_id, int16_t producer_epoch)
{
    struct ot_init_producer_id_response response;
    ot_init_producer_id_response_defaults(&response);
    request->error = error;
    response.error_code = ot_err_kafka(error);
    response.producer_id = error == OT_OK ? producer_id : -1;
    response.producer_epoch = error == OT_OK ? producer_epoch : -1;
    rpc_respond(request, &response);
}

static void init_producer_id_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct broker_producer_id *made = &request->call.producer_id;
    answer(request, made->error, made->producer_id, made->producer_epoch);
}

RPC_HANDLER(init_producer_id)
{
    const struct ot_init_producer_id_request *asked = body;
    const bool half = (asked->producer_id == -1) != (asked->producer_epoch == -1);
    if (half || asked->producer_id < -1 || asked->producer_epoch < -1 || (!asked->transactional_id.null && asked->transactional_id.bytes == 0)) {
        answer(request, OT_ERR_INVALID_REQUEST, -1, -1);
        return;
    }
    if (!asked->transactional_id.null) {
        answer(request, OT_ERR_UNSUPPORTED_VERSION, -1, -1);
        return;
    }
    rpc_call_init(request, init_producer_id_done);
    broker_producer_id(request->server->broker, &request->call.producer_id);
}
