/* InitProducerId: ids of idempotent producers, and of transactional ones from the coordinator of their transactional id.
 *
 * T1 another producer of the same id is fenced, what it left open is aborted; CONCURRENT_TRANSACTIONS while that takes long. Before v4 a fenced producer is told
 * INVALID_PRODUCER_EPOCH. */
#include "rpc/kafka/request.h"

#include "base/wire/init_producer_id_request.h"
#include "base/wire/init_producer_id_response.h"

static void answer(struct rpc_request *request, enum ot_err error, int64_t producer_id, int16_t producer_epoch)
{
    struct ot_init_producer_id_response response;
    ot_init_producer_id_response_defaults(&response);
    request->error = rpc_fenced_error(request, error, 4);
    response.error_code = ot_err_kafka(request->error);
    response.producer_id = error == OT_OK ? producer_id : -1;
    response.producer_epoch = error == OT_OK ? producer_epoch : -1;
    rpc_respond(request, &response);
}

static void init_producer_id_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct broker_producer_id *made = &request->call.producer_id;
    /* as Kafka: told COORDINATOR_NOT_AVAILABLE, Java's producers look for the coordinator of the transactional id that they do not have, and fail at that */
    answer(request, made->error == OT_ERR_COORDINATOR_NOT_AVAILABLE ? OT_ERR_COORDINATOR_LOAD_IN_PROGRESS : made->error, made->producer_id, made->producer_epoch);
}

static void init_transactional_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct coord_txn_request *made = &request->call.txn.request;
    answer(request, made->error, made->producer_id_out, made->producer_epoch_out);
}

RPC_HANDLER(init_producer_id)
{
    const struct ot_init_producer_id_request *asked = body;
    const bool half = (asked->producer_id == -1) != (asked->producer_epoch == -1);
    if (half || asked->producer_id < -1 || asked->producer_epoch < -1 || (!asked->transactional_id.null && asked->transactional_id.bytes == 0)) {
        answer(request, OT_ERR_INVALID_REQUEST, -1, -1);
        return;
    }
    if (asked->transactional_id.null) {
        rpc_call_init(request, init_producer_id_done);
        broker_producer_id(request->server->broker, &request->call.producer_id);
        return;
    }
    struct coord_txn_request *ask = rpc_txn_init(request, COORD_TXN_INIT, asked->transactional_id, init_transactional_done);
    ask->timeout_ms = asked->transaction_timeout_ms;
    ask->producer_id = asked->producer_id;
    ask->producer_epoch = asked->producer_epoch;
    broker_txn(request->server->broker, &request->call.txn);
}
