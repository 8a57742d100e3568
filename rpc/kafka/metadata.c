/* Metadata: brokers, topics and who leads them; and topics made at first sight.
 *
 * Traps: M1 v0 empty = all, v1+ null = all, empty = none. M2 the answering broker is always listed, the controller is listed or -1. M4 auto-creation answers once
 * the topic is there. A1 our own address is the one that the client reached. */
#include "rpc/kafka/request.h"

#include "base/map.h"
#include "base/wire/metadata_request.h"
#include "base/wire/metadata_response.h"

#include <string.h>

/* All that an authorizer could allow, which without one everybody may: bits by Kafka's operation numbers. */
#define TOPIC_OPERATIONS 3576              /* read, write, create, delete, alter, describe, describe configs, alter configs */
#define CLUSTER_OPERATIONS 8096            /* create, alter, describe, cluster action, describe configs, alter configs, idempotent write */

struct answer {
    struct rpc_request *request;
    const struct ot_metadata_request *asked;
    const struct broker_view *view;
    struct ot_metadata_response response;
    int32_t topics_cap;
    bool failed;
};
/* Of the request's topics: what became of each. */
struct fate { enum ot_err error; bool make; const struct broker_admin_item *made; };

static bool brokers_fill(struct answer *answer, const struct broker_view_cluster *cluster)
{
    struct rpc_request *request = answer->request;
    struct broker_view_broker broker;
    int32_t count = 0, at = 0, after = INT32_MIN;
    bool here = false, controller = false;
    for (; broker_view_next_broker(answer->view, after, &request->arena, &broker); after = broker.id) count++;
    struct ot_metadata_response_metadata_response_broker *rows = rpc_alloc(request, (size_t)count + 1, sizeof *rows);
    if (rows == NULL) return false;
    const int32_t mine = broker_node_id(request->server->broker);
    for (after = INT32_MIN; at < count && broker_view_next_broker(answer->view, after, &request->arena, &broker); after = broker.id) {
        struct ot_metadata_response_metadata_response_broker *row = &rows[at];
        if (broker.fenced && broker.id != mine) continue;
        if (!rpc_advertised_of(request, &broker, &row->host, &row->port)) continue;
        row->node_id = broker.id;
        row->rack = broker.rack;
        here |= broker.id == mine;
        controller |= broker.id == cluster->controller_id;
        at++;
    }
    if (!here) {                           /* not registered yet; a client must never see an empty list */
        rows[at] = (struct ot_metadata_response_metadata_response_broker){ .node_id = mine, .rack.null = true };
        rpc_advertised(request, &rows[at].host, &rows[at].port);
        controller |= mine == cluster->controller_id;
        at++;
    }
    answer->response.brokers.items = rows;
    answer->response.brokers.count = at;
    answer->response.controller_id = controller ? cluster->controller_id : -1;
    return true;
}

static struct ot_i32_array ids(struct broker_view_ids from) { return (struct ot_i32_array){ (int32_t *)(uintptr_t)from.ids, from.count }; }    /* encoding only reads */

static bool partitions_fill(struct answer *answer, const struct broker_view_topic *topic, struct ot_metadata_response_metadata_response_topic *row)
{
    struct rpc_request *request = answer->request;
    struct ot_metadata_response_metadata_response_partition *parts = rpc_alloc(request, (size_t)topic->partition_count, sizeof *parts);
    if (parts == NULL && topic->partition_count > 0) return false;
    int32_t count = 0;
    for (int32_t i = 0; i < topic->partition_count; i++) {
        struct broker_view_partition partition;
        int32_t leader;
        if (!broker_view_partition(answer->view, &topic->id, i, &request->arena, &partition)) {
            if (broker_view_leader(answer->view, topic->name, i, &leader)) return false;       /* it is there, and memory is not: producers would spread keys over those that were told */
            continue;
        }
        parts[count++] = (struct ot_metadata_response_metadata_response_partition){
            .error_code = ot_err_kafka(partition.leader < 0 ? OT_ERR_LEADER_NOT_AVAILABLE : OT_OK), .partition_index = i, .leader_id = partition.leader,
            .leader_epoch = partition.leader_epoch, .replica_nodes = ids(partition.replicas), .isr_nodes = ids(partition.isr),
            .offline_replicas = ids(partition.offline) };
    }
    row->partitions.items = parts;
    row->partitions.count = count;
    return true;
}

static void topic_add(struct answer *answer, const struct broker_view_topic *topic)
{
    if (answer->response.topics.count >= answer->topics_cap) return;
    struct ot_metadata_response_metadata_response_topic *row = &answer->response.topics.items[answer->response.topics.count++];
    *row = (struct ot_metadata_response_metadata_response_topic){ .name = topic->name, .topic_id = topic->id, .is_internal = topic->internal,
        .topic_authorized_operations = answer->asked->include_topic_authorized_operations ? TOPIC_OPERATIONS : INT32_MIN };
    if (!partitions_fill(answer, topic, row)) answer->failed = true;
}

static void topic_missing(struct answer *answer, const struct ot_metadata_request_metadata_request_topic *asked, enum ot_err error)
{
    if (answer->response.topics.count >= answer->topics_cap) return;
    struct ot_metadata_response_metadata_response_topic *row = &answer->response.topics.items[answer->response.topics.count++];
    *row = (struct ot_metadata_response_metadata_response_topic){ .error_code = ot_err_kafka(error), .name = asked->name, .topic_id = asked->topic_id,
        .topic_authorized_operations = INT32_MIN };
    if (asked->name.null && answer->request->header.version < 12) row->name = ot_str_of("");
}

static bool wants_all(const struct rpc_request *request, const struct ot_metadata_request *asked)
{
    return asked->topics.count < 0 || (request->header.version == 0 && asked->topics.count == 0);
}

static bool topics_fill(struct answer *answer, const struct fate *fates)
{
    struct rpc_request *request = answer->request;
    const struct ot_metadata_request *asked = answer->asked;
    const bool all = wants_all(request, asked);
    const int64_t cap = all ? broker_view_topic_count(answer->view) : asked->topics.count;
    answer->topics_cap = (int32_t)cap;
    answer->response.topics.items = rpc_alloc(request, (size_t)cap, sizeof *answer->response.topics.items);
    answer->response.topics.count = 0;
    if (answer->response.topics.items == NULL && cap > 0) return false;
    struct broker_view_topic topic;
    if (all) {
        struct ot_str after = { .null = true };
        for (; !answer->failed && broker_view_next_topic(answer->view, after, &topic); after = topic.name) topic_add(answer, &topic);
        return !answer->failed;
    }
    for (int32_t i = 0; i < asked->topics.count && !answer->failed; i++) {
        const struct ot_metadata_request_metadata_request_topic *one = &asked->topics.items[i];
        if (fates[i].error == OT_ERR_INVALID_REQUEST) topic_missing(answer, one, OT_ERR_INVALID_REQUEST);
        else if (one->name.null ? broker_view_topic_by_id(answer->view, &one->topic_id, &topic) : broker_view_topic(answer->view, one->name, &topic)) topic_add(answer, &topic);
        else topic_missing(answer, one, fates[i].error);
    }
    return !answer->failed;
}

static void metadata_answer(struct rpc_request *request, const struct fate *fates)
{
    struct answer answer = { .request = request, .asked = request->body, .view = broker_view_take(request->server->broker) };
    struct broker_view_cluster cluster;
    ot_metadata_response_defaults(&answer.response);
    /* all topics: as much as the cluster has. Named ones: a request that repeats names must not make more of it */
    request->arena.cap_bytes = wants_all(request, answer.asked) ? RPC_ANSWER_ARENA_BYTES : RPC_ARENA_MAX_BYTES;
    broker_view_cluster(answer.view, &cluster);
    answer.response.cluster_id = cluster.cluster_id;
    if (answer.asked->include_cluster_authorized_operations) answer.response.cluster_authorized_operations = CLUSTER_OPERATIONS;
    if (brokers_fill(&answer, &cluster) && topics_fill(&answer, fates)) rpc_respond(request, &answer.response);
    else rpc_reject(request, "no memory for its answer");
    broker_view_give(answer.view);         /* the answer's texts point into it until they are encoded */
}

/* ---- auto-creation */

static void created(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    struct fate *fates = request->own;
    const struct ot_metadata_request *asked = request->body;
    for (int32_t i = 0; i < asked->topics.count; i++) {
        if (fates[i].made == NULL) continue;
        const enum ot_err error = fates[i].made->error;
        /* somebody else was faster: as good. What failed for now is asked again by the client, what failed for good is told */
        if (error == OT_OK || error == OT_ERR_TOPIC_ALREADY_EXISTS) fates[i].error = OT_ERR_LEADER_NOT_AVAILABLE;
        else if (error == OT_ERR_INVALID_TOPIC_EXCEPTION || error == OT_ERR_INVALID_REPLICATION_FACTOR || error == OT_ERR_POLICY_VIOLATION) fates[i].error = error;
        else fates[i].error = OT_ERR_LEADER_NOT_AVAILABLE;
    }
    metadata_answer(request, fates);
}

/* One item for each missing name, however often it is named. False: no memory. */
static bool missing_items(struct rpc_request *request, struct fate *fates, struct broker_admin_item *items, uint32_t *count_out)
{
    const struct ot_metadata_request *asked = request->body;
    enum ot_err err = OT_OK;
    struct ot_map seen;
    ot_map_init(&seen);
    for (int32_t i = 0; i < asked->topics.count && err == OT_OK; i++) {
        const struct ot_str name = asked->topics.items[i].name;
        if (!fates[i].make) continue;
        fates[i].made = ot_map_get(&seen, name.data, name.bytes);
        if (fates[i].made != NULL) continue;
        struct broker_admin_item *item = &items[(*count_out)++];
        *item = (struct broker_admin_item){ .kind = BROKER_CREATE_TOPIC, .topic = name, .partition_count = -1, .replication_factor = -1, .if_version = -1 };
        fates[i].made = item;
        err = ot_map_put(&seen, name.data, name.bytes, item);
    }
    ot_map_free(&seen);
    return err == OT_OK;
}

/* True: an admin call is under way. */
static bool create_missing(struct rpc_request *request, struct fate *fates)
{
    const struct ot_metadata_request *asked = request->body;
    struct broker_admin_item *items = rpc_alloc(request, (size_t)asked->topics.count, sizeof *items);
    uint32_t count = 0;
    if (items == NULL || !missing_items(request, fates, items, &count) || count == 0) return false;
    request->own = fates;
    rpc_call_init(request, created);
    request->call.admin.items = items;
    request->call.admin.item_count = count;
    request->call.admin.timeout_ms = broker_config(request->server->broker)->request_timeout_ms;
    broker_admin(request->server->broker, &request->call.admin);
    return true;
}

RPC_HANDLER(metadata)
{
    const struct ot_metadata_request *asked = body;
    if (wants_all(request, asked) || asked->topics.count == 0) {
        metadata_answer(request, NULL);
        return;
    }
    struct fate *fates = rpc_alloc(request, (size_t)asked->topics.count, sizeof *fates);
    if (fates == NULL) {
        rpc_reject(request, "no memory for its answer");
        return;
    }
    bool missing = false;
    const struct broker_view *view = broker_view_take(request->server->broker);
    for (int32_t i = 0; i < asked->topics.count; i++) {
        const struct ot_metadata_request_metadata_request_topic *one = &asked->topics.items[i];
        struct broker_view_topic topic;
        char why[BROKER_TEXT_MAX];
        const bool by_id = one->name.null;
        if (request->header.version < 12 && (by_id || !ot_uuid_is_zero(&one->topic_id))) {
            fates[i].error = OT_ERR_INVALID_REQUEST;   /* ids may be asked for from v12 */
        } else if (by_id) {
            fates[i].error = OT_ERR_UNKNOWN_TOPIC_ID;
        } else if (!broker_topic_name_valid(one->name, why, sizeof why)) {
            fates[i].error = OT_ERR_INVALID_TOPIC_EXCEPTION;
        } else if (!broker_view_topic(view, one->name, &topic)) {
            fates[i].error = OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
            fates[i].make = asked->allow_auto_topic_creation && broker_auto_create_allowed(request->server->broker, one->name);
            missing |= fates[i].make;
        }
    }
    broker_view_give(view);
    if (missing && create_missing(request, fates)) return;
    metadata_answer(request, fates);
}
