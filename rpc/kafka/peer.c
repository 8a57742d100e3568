/* What only other brokers of the cluster ask, on the peer listener: hello, the coordinator's messages, and requests to the coordinator. Kafka's own requests are served there
 * too, once the other side has said who it is. */
#include "rpc/kafka/request.h"

#include "base/wire/peer_ask_request.h"
#include "base/wire/peer_ask_response.h"
#include "base/wire/peer_hello_request.h"
#include "base/wire/peer_hello_response.h"
#include "base/wire/peer_message_request.h"
#include "base/wire/peer_message_response.h"

static bool is_own(int16_t key) { return key >= 10000; }

bool rpc_peer_serves(const struct rpc_kafka_server *server, const struct rpc_conn *door, int16_t key)
{
    struct broker_health health;
    if (!server->peer) return !is_own(key);
    if (key == OT_API_PEER_HELLO || key == OT_API_API_VERSIONS) return true;
    if (!door->hello->done) return false;
    if (is_own(key)) return true;
    broker_health(server->broker, &health);            /* it starts: its partitions and its view are not there yet */
    return health.ready;
}

bool rpc_peer_lists(const struct rpc_kafka_server *server, int16_t key) { return server->peer || !is_own(key); }

RPC_HANDLER(peer_hello)
{
    struct ot_peer_hello_response response;
    const enum ot_err err = broker_peer_hello(request->server->broker, request->door->hello, body, &response);
    request->error = err;
    if (err != OT_OK) ot_conn_finish(request->conn, "its hello was refused");
    else if (request->door->hello->done) ot_conn_trust(request->conn);
    rpc_respond(request, &response);
}

static void message_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    struct ot_peer_message_response response;
    ot_peer_message_response_defaults(&response);
    rpc_respond(request, &response);
}

RPC_HANDLER(peer_message)
{
    const struct ot_peer_message_request *asked = body;
    rpc_call_init(request, message_done);
    request->call.peer_message.peer = request->door->hello->node_id;
    request->call.peer_message.body = asked->message;
    broker_peer_message(request->server->broker, &request->call.peer_message);
}

static void ask_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    rpc_respond(request, &request->call.peer_ask.out);
}

RPC_HANDLER(peer_ask)
{
    rpc_call_init(request, ask_done);
    request->arena.cap_bytes = RPC_ANSWER_ARENA_BYTES;
    request->call.peer_ask.peer = request->door->hello->node_id;
    request->call.peer_ask.in = body;
    request->call.peer_ask.arena = &request->arena;
    broker_peer_ask(request->server->broker, &request->call.peer_ask);
}
