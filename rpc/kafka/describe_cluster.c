/* DescribeCluster: the brokers, as Metadata tells them, and who is the controller (traps M2, M11, A1). */
#include "rpc/kafka/request.h"

#include "base/wire/describe_cluster_request.h"
#include "base/wire/describe_cluster_response.h"

#define CLUSTER_OPERATIONS 8096            /* see metadata.c */
#define ENDPOINT_BROKERS 1

static bool brokers_fill(struct rpc_request *request, const struct broker_view *view, const struct broker_view_cluster *cluster, struct ot_describe_cluster_response *response)
{
    const struct ot_describe_cluster_request *asked = request->body;
    const int32_t mine = broker_node_id(request->server->broker);
    struct broker_view_broker broker;
    int32_t count = 0, at = 0, after = INT32_MIN;
    bool here = false, controller = false;
    for (; broker_view_next_broker(view, after, &request->arena, &broker); after = broker.id) count++;
    struct ot_describe_cluster_response_describe_cluster_broker *rows = rpc_alloc(request, (size_t)count + 1, sizeof *rows);
    if (rows == NULL) return false;
    for (after = INT32_MIN; at < count && broker_view_next_broker(view, after, &request->arena, &broker); after = broker.id) {
        if (broker.fenced && broker.id != mine && !asked->include_fenced_brokers) continue;
        if (!rpc_advertised_of(request, &broker, &rows[at].host, &rows[at].port)) continue;
        rows[at].broker_id = broker.id;
        rows[at].rack = broker.rack;
        rows[at].is_fenced = request->header.version >= 2 && broker.fenced;
        here |= broker.id == mine;
        controller |= broker.id == cluster->controller_id;
        at++;
    }
    if (!here) {
        rows[at] = (struct ot_describe_cluster_response_describe_cluster_broker){ .broker_id = mine, .rack.null = true };
        rpc_advertised(request, &rows[at].host, &rows[at].port);
        controller |= mine == cluster->controller_id;
        at++;
    }
    response->brokers.items = rows;
    response->brokers.count = at;
    response->controller_id = controller ? cluster->controller_id : -1;
    return true;
}

RPC_HANDLER(describe_cluster)
{
    const struct ot_describe_cluster_request *asked = body;
    struct ot_describe_cluster_response response;
    struct broker_view_cluster cluster;
    ot_describe_cluster_response_defaults(&response);
    response.endpoint_type = asked->endpoint_type;
    if (asked->endpoint_type != ENDPOINT_BROKERS) {
        request->error = asked->endpoint_type == 2 ? OT_ERR_MISMATCHED_ENDPOINT_TYPE : OT_ERR_UNSUPPORTED_ENDPOINT_TYPE;
        response.error_code = ot_err_kafka(request->error);
        response.error_message = ot_str_of("this is a broker's listener: ask for the endpoints of brokers");
        response.cluster_id = ot_str_of("");
        rpc_respond(request, &response);
        return;
    }
    const struct broker_view *view = broker_view_take(request->server->broker);
    broker_view_cluster(view, &cluster);
    response.cluster_id = cluster.cluster_id;
    if (asked->include_cluster_authorized_operations) response.cluster_authorized_operations = CLUSTER_OPERATIONS;
    if (brokers_fill(request, view, &cluster, &response)) rpc_respond(request, &response);
    else rpc_reject(request, "no memory for its answer");
    broker_view_give(view);
}
