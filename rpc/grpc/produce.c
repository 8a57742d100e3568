/* Log.Produce: one append, one answer. */
#include "rpc/grpc/door.h"

const size_t rpcg_own_produce = sizeof(struct rpcg_append);

static void queued(struct rpcg_append *append) { (void)append; }

static void done(struct rpcg_append *append)
{
    struct rpcg_call *call = append->call;
    if (append->ack.error != NULL) rpcg_fail(call, append->ack.error);
    else rpcg_reply(call, rpcg_message(rpcg_put_produce_response, &append->ack));
    rpcg_append_free(append);
}

void rpcg_produce_start(struct rpcg_call *call)
{
    struct rpcg_append *append = call->own;
    grpc_byte_buffer *message = call->in;
    call->in = NULL;
    append->queued = queued;
    append->done = done;
    rpcg_append_start(append, call, message);
}
