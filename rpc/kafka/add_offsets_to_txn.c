/* AddOffsetsToTxn: the partition of __consumer_offsets that has the group's offsets joins the transaction (clients before transaction.version 2). */
#include "rpc/kafka/request.h"

#include "base/wire/add_offsets_to_txn_request.h"
#include "base/wire/add_offsets_to_txn_response.h"

static void answer(struct rpc_request *request, enum ot_err error)
{
    struct ot_add_offsets_to_txn_response response;
    ot_add_offsets_to_txn_response_defaults(&response);
    request->error = rpc_fenced_error(request, error, 2);
    response.error_code = ot_err_kafka(request->error);
    rpc_respond(request, &response);
}

static void add_offsets_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    answer(request, request->call.txn.request.error);
}

static void add(struct rpc_request *request)
{
    const struct ot_add_offsets_to_txn_request *asked = request->body;
    struct coord_txn_place *place = rpc_alloc(request, 1, sizeof *place);
    if (place == NULL) {
        rpc_reject(request, "no memory for its answer");
        return;
    }
    rpc_offsets_place(request, asked->group_id, place);
    if (place->partition < 0) {                /* there is no telling yet which one it will be */
        answer(request, OT_ERR_COORDINATOR_NOT_AVAILABLE);
        return;
    }
    struct coord_txn_request *ask = rpc_txn_init(request, COORD_TXN_ADD, asked->transactional_id, add_offsets_done);
    ask->producer_id = asked->producer_id;
    ask->producer_epoch = asked->producer_epoch;
    ask->places = place;
    ask->place_count = 1;
    broker_txn(request->server->broker, &request->call.txn);
}

static void topic_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    if (request->call.shard_topic.error != OT_OK) answer(request, request->call.shard_topic.error);
    else add(request);
}

RPC_HANDLER(add_offsets_to_txn)
{
    const struct ot_add_offsets_to_txn_request *asked = body;
    if (asked->group_id.bytes == 0) {
        answer(request, OT_ERR_INVALID_GROUP_ID);
        return;
    }
    rpc_call_init(request, topic_done);
    broker_shard_topic(request->server->broker, BROKER_SHARD_GROUPS, &request->call.shard_topic);
}
