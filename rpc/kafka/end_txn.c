/* EndTxn: commit or abort. From v5 on (transaction.version 2) the answer has the id and the epoch that the producer goes on with. T2, T3, T7. */
#include "rpc/kafka/request.h"

#include "base/wire/end_txn_request.h"
#include "base/wire/end_txn_response.h"

enum { VERSION_BUMPS = 5 };

static void end_txn_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct coord_txn_request *ended = &request->call.txn.request;
    struct ot_end_txn_response response;
    ot_end_txn_response_defaults(&response);
    request->error = rpc_fenced_error(request, ended->error, 2);
    response.error_code = ot_err_kafka(request->error);
    if (request->header.version >= VERSION_BUMPS && ended->error == OT_OK) {
        response.producer_id = ended->producer_id_out;
        response.producer_epoch = ended->producer_epoch_out;
    }
    rpc_respond(request, &response);
}

RPC_HANDLER(end_txn)
{
    const struct ot_end_txn_request *asked = body;
    struct coord_txn_request *ask = rpc_txn_init(request, COORD_TXN_END, asked->transactional_id, end_txn_done);
    ask->producer_id = asked->producer_id;
    ask->producer_epoch = asked->producer_epoch;
    ask->commit = asked->committed;
    ask->version = request->header.version >= VERSION_BUMPS ? 2 : 0;
    broker_txn(request->server->broker, &request->call.txn);
}
