/* A broker that knows its peers by a word: the hello's proof is "friend". */
#include "fake_broker.h"

#include "broker/peers.h"
#include "broker/voter_change.h"

#include <string.h>

struct fake_peers fake_peers;

enum ot_err broker_peer_hello(struct broker *broker, struct broker_hello *hello, const struct ot_peer_hello_request *in, struct ot_peer_hello_response *out)
{
    (void)broker;
    ot_peer_hello_response_defaults(out);
    out->node_id = 1;
    if (in->proof.bytes != 6 || memcmp(in->proof.data, "friend", 6) != 0) {
        out->error_code = ot_err_kafka(OT_ERR_CLUSTER_AUTHORIZATION_FAILED);
        return OT_ERR_CLUSTER_AUTHORIZATION_FAILED;
    }
    hello->done = true;
    hello->node_id = in->node_id;
    return OT_OK;
}

static void done(struct ot_task *task)
{
    struct broker_call *call = OT_CONTAINER(task, struct broker_call, task);
    call->done(call);
}

void broker_peer_message(struct broker *broker, struct broker_peer_message *message)
{
    (void)broker;
    fake_peers.from = message->peer;
    fake_peers.bytes = message->body.bytes;
    message->call.task.run = done;
    ot_exec_post(message->call.home, &message->call.task);
}

void broker_peer_ask(struct broker *broker, struct broker_peer_ask *ask)
{
    (void)broker;
    fake_peers.from = ask->peer;
    fake_peers.ask = ask->in->ask;
    ot_peer_ask_response_defaults(&ask->out);
    ask->out.error = ot_str_of("NOT_CONTROLLER");
    ask->out.leader = 7;
    ask->call.task.run = done;
    ot_exec_post(ask->call.home, &ask->call.task);
}

void broker_voter_change(struct broker *broker, struct broker_voter_change *change)
{
    (void)broker;
    fake_peers.voter = change->id;
    fake_peers.add = change->add;
    fake_peers.port = change->port;
    change->error = change->id == 9 ? OT_ERR_VOTER_NOT_FOUND : OT_OK;
    change->text[0] = 0;
    change->call.task.run = done;
    ot_exec_post(change->call.home, &change->call.task);
}

/* the gRPC door's tests have their own */
__attribute__((weak)) void broker_health(struct broker *broker, struct broker_health *out)
{
    (void)broker;
    *out = (struct broker_health){ .ready = true, .reason = "" };
}
