/* AddRaftVoter, RemoveRaftVoter: who votes for the coordinator, in Kafka's words, so that its quorum tool changes it. */
#include "rpc/kafka/request.h"

#include "base/wire/add_raft_voter_request.h"
#include "base/wire/add_raft_voter_response.h"
#include "base/wire/remove_raft_voter_request.h"
#include "base/wire/remove_raft_voter_response.h"

#define REMOVE_WAIT_MS 30000

static bool other_cluster(struct rpc_request *request, struct ot_str cluster_id)
{
    struct broker_view_cluster cluster;
    if (cluster_id.null) return false;
    const struct broker_view *view = broker_view_take(request->server->broker);
    broker_view_cluster(view, &cluster);
    const bool other = !ot_str_equal(cluster.cluster_id, cluster_id);
    broker_view_give(view);
    return other;
}

static void add_answer(struct rpc_request *request, enum ot_err error, const char *text)
{
    struct ot_add_raft_voter_response response;
    ot_add_raft_voter_response_defaults(&response);
    request->error = error;
    response.error_code = ot_err_kafka(error);
    response.error_message = rpc_error_text(error, text);
    rpc_respond(request, &response);
}

static void add_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    add_answer(request, request->call.voter_change.error, request->call.voter_change.text);
}

RPC_HANDLER(add_raft_voter)
{
    const struct ot_add_raft_voter_request *asked = body;
    if (other_cluster(request, asked->cluster_id)) {
        add_answer(request, OT_ERR_INCONSISTENT_CLUSTER_ID, NULL);
        return;
    }
    rpc_call_init(request, add_done);
    struct broker_voter_change *change = &request->call.voter_change;
    change->add = true;
    change->remove = false;
    change->id = asked->voter_id;
    change->dir_id = asked->voter_directory_id;
    change->timeout_ms = asked->timeout_ms;
    change->host = (struct ot_str){ .null = true };
    change->port = 0;
    if (asked->listeners.count > 0) {
        change->host = asked->listeners.items[0].host;
        change->port = asked->listeners.items[0].port;
    }
    broker_voter_change(request->server->broker, change);
}

static void remove_answer(struct rpc_request *request, enum ot_err error, const char *text)
{
    struct ot_remove_raft_voter_response response;
    ot_remove_raft_voter_response_defaults(&response);
    request->error = error;
    response.error_code = ot_err_kafka(error);
    response.error_message = rpc_error_text(error, text);
    rpc_respond(request, &response);
}

static void remove_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    remove_answer(request, request->call.voter_change.error, request->call.voter_change.text);
}

RPC_HANDLER(remove_raft_voter)
{
    const struct ot_remove_raft_voter_request *asked = body;
    if (other_cluster(request, asked->cluster_id)) {
        remove_answer(request, OT_ERR_INCONSISTENT_CLUSTER_ID, NULL);
        return;
    }
    rpc_call_init(request, remove_done);
    struct broker_voter_change *change = &request->call.voter_change;
    change->add = false;
    change->remove = true;
    change->id = asked->voter_id;
    change->dir_id = asked->voter_directory_id;
    change->timeout_ms = REMOVE_WAIT_MS;
    change->host = (struct ot_str){ .null = true };
    change->port = 0;
    broker_voter_change(request->server->broker, change);
}
