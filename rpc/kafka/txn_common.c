/* What the handlers of transactions share. */
#include "rpc/kafka/request.h"

enum ot_err rpc_fenced_error(const struct rpc_request *request, enum ot_err error, int16_t since_version)
{
    return error == OT_ERR_PRODUCER_FENCED && request->header.version < since_version ? OT_ERR_INVALID_PRODUCER_EPOCH : error;
}

struct coord_txn_request *rpc_txn_init(struct rpc_request *request, enum coord_txn_ask ask, struct ot_str id, void (*done)(struct broker_call *call))
{
    request->call.txn = (struct broker_txn){ .request = coord_txn_request_default(ask, id) };
    rpc_call_init(request, done);
    return &request->call.txn.request;
}

void rpc_offsets_place(const struct rpc_request *request, struct ot_str group_id, struct coord_txn_place *out)
{
    *out = (struct coord_txn_place){ .topic = ot_str_of("__consumer_offsets"), .partition = broker_shard_of(request->server->broker, BROKER_SHARD_GROUPS, group_id) };
}
