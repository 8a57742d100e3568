/* Log.InitProducer and Log.EndTransaction: ids of idempotent producers, and the transactions of those that have a transactional id. */
#include "rpc/grpc/group.h"

#include "broker/admin.h"

#define TRANSACTION_TIMEOUT_MS 60000       /* when nothing is said, as Kafka's producers do */

struct init_own {
    struct rpcg_call *call;
    struct broker_producer_id ask;
    struct broker_txn txn;
};
const size_t rpcg_own_init_producer = sizeof(struct init_own);

struct producer { int64_t id; int32_t epoch; };

static void put_answer(struct ot_writer *writer, const void *arg)
{
    const struct producer *made = arg;
    rpcg_put_int(writer, 1, made->id);
    rpcg_put_int(writer, 2, made->epoch);
}

static void fail(struct rpcg_call *call, enum ot_err error, struct ot_str transactional_id)
{
    struct rpc_grpc_server *server = call->server;
    const int32_t leader = error == OT_ERR_NOT_COORDINATOR ? broker_shard_leader(server->broker, BROKER_SHARD_TRANSACTIONS, transactional_id) : -1;
    const struct rpcg_error words = rpcg_error_of(server, error, NULL, (struct ot_str){ .null = true }, -1, leader, -1);
    rpcg_fail(call, &words);
}

static void answer(struct rpcg_call *call, enum ot_err error, struct ot_str transactional_id, int64_t id, int32_t epoch)
{
    const struct producer producer = { id, epoch };
    if (error != OT_OK) fail(call, error, transactional_id);
    else rpcg_reply(call, rpcg_message(put_answer, &producer));
    rpcg_release(call);
}

static void made(struct broker_call *broker_call)
{
    const struct init_own *own = OT_CONTAINER(broker_call, struct init_own, ask.call);
    answer(own->call, own->ask.error, ot_str_of(""), own->ask.producer_id, own->ask.producer_epoch);
}

static void txn_done(struct broker_call *broker_call)
{
    const struct init_own *own = OT_CONTAINER(broker_call, struct init_own, txn.call);
    const struct coord_txn_request *request = &own->txn.request;
    const bool same = request->ask == COORD_TXN_END && request->producer_id_out < 0;       /* the old protocol: it goes on as it is */
    answer(own->call, request->error, request->id, same ? request->producer_id : request->producer_id_out, same ? request->producer_epoch : request->producer_epoch_out);
}

static struct coord_txn_request *txn_init(struct init_own *own, enum coord_txn_ask ask, struct ot_str id)
{
    own->txn = (struct broker_txn){ .call = { .home = &own->call->server->exec, .done = txn_done }, .request = coord_txn_request_default(ask, id) };
    return &own->txn.request;
}

void rpcg_init_producer_start(struct rpcg_call *call)
{
    struct init_own *own = call->own;
    struct rpcg_init_ask ask;
    const char *why = NULL;
    own->call = call;
    if (rpcg_init_decode(call->body, &ask, &why) != OT_OK) {
        rpcg_fail_text(call, OT_ERR_INVALID_REQUEST, why);
        return;
    }
    rpcg_hold(call);
    if (ask.transactional_id.bytes == 0) {
        own->ask.call = (struct broker_call){ .home = &call->server->exec, .done = made };
        broker_producer_id(call->server->broker, &own->ask);
        return;
    }
    struct coord_txn_request *request = txn_init(own, COORD_TXN_INIT, ask.transactional_id);
    request->timeout_ms = ask.timeout_ms > 0 ? ask.timeout_ms : TRANSACTION_TIMEOUT_MS;
    request->producer_id = ask.producer_id;
    request->producer_epoch = ask.producer_epoch;
    broker_txn(call->server->broker, &own->txn);
}

void rpcg_end_transaction_start(struct rpcg_call *call)
{
    struct init_own *own = call->own;
    struct rpcg_end_txn_ask ask;
    const char *why = NULL;
    own->call = call;
    if (rpcg_end_txn_decode(call->body, &ask, &why) != OT_OK) {
        rpcg_fail_text(call, OT_ERR_INVALID_REQUEST, why);
        return;
    }
    struct coord_txn_request *request = txn_init(own, COORD_TXN_END, ask.transactional_id);
    request->producer_id = ask.producer_id;
    request->producer_epoch = ask.producer_epoch;
    request->commit = ask.commit;
    request->version = 2;
    rpcg_hold(call);
    broker_txn(call->server->broker, &own->txn);
}
