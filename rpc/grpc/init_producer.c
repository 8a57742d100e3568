/* Log.InitProducer: ids of idempotent producers. */
#include "rpc/grpc/door.h"

#include "broker/admin.h"

struct init_own {
    struct rpcg_call *call;
    struct broker_producer_id ask;
};
const size_t rpcg_own_init_producer = sizeof(struct init_own);

static void put_answer(struct ot_writer *writer, const void *arg)
{
    const struct broker_producer_id *made = arg;
    rpcg_put_int(writer, 1, made->producer_id);
    rpcg_put_int(writer, 2, made->producer_epoch);
}

static void made(struct broker_call *broker_call)
{
    struct init_own *own = OT_CONTAINER(broker_call, struct init_own, ask.call);
    struct rpcg_call *call = own->call;
    if (own->ask.error != OT_OK) rpcg_fail_text(call, own->ask.error, NULL);
    else rpcg_reply(call, rpcg_message(put_answer, &own->ask));
    rpcg_release(call);
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
    if (ask.transactional_id.bytes > 0) {
        rpcg_fail_text(call, OT_ERR_UNSUPPORTED_VERSION, "transactions are not served over gRPC yet");
        return;
    }
    own->ask.call = (struct broker_call){ .home = &call->server->exec, .done = made };
    rpcg_hold(call);
    broker_producer_id(call->server->broker, &own->ask);
}
