/* Log.Metadata: brokers with their gRPC addresses, topics, and who leads them. Written straight from the view, twice: to measure and to fill. */
#include "rpc/grpc/door.h"

#include "broker/admin.h"

struct metadata_own {
    struct rpcg_call *call;
    struct rpcg_metadata_ask ask;
    enum ot_err *fates;                    /* of the topics asked for, by index */
    const struct broker_view *view;        /* while the answer is written */
    struct ot_arena scratch;
    struct broker_admin admin;
    struct broker_admin_item *items;
};
const size_t rpcg_own_metadata = sizeof(struct metadata_own);

#define TOPICS_MAX 10000u

struct one { struct rpcg_call *call; struct metadata_own *own; const void *row; enum ot_err error; struct ot_str name; };

static void put_broker(struct ot_writer *writer, const void *arg)
{
    const struct one *one = arg;
    const struct broker_view_broker *broker = one->row;
    const grpc_slice *host = &one->call->details.host;
    char address[300];
    rpcg_put_int(writer, 1, broker->id);
    /* where a listener on every address is reached: as this client did */
    if (rpcg_address_of(broker, address, sizeof address)) rpcg_put_text(writer, 2, address);
    else if (broker->id == broker_node_id(one->call->server->broker)) rpcg_put_bytes(writer, 2, GRPC_SLICE_START_PTR(*host), GRPC_SLICE_LENGTH(*host));
    rpcg_put_str(writer, 3, broker->rack);
}

static void put_partition(struct ot_writer *writer, const void *arg)
{
    const struct broker_view_partition *partition = arg;
    rpcg_put_int(writer, 1, partition->index);
    rpcg_put_int(writer, 2, partition->leader);
    rpcg_put_int(writer, 3, partition->leader_epoch);
    rpcg_put_i32s(writer, 4, partition->replicas.ids, partition->replicas.count);
    rpcg_put_i32s(writer, 5, partition->isr.ids, partition->isr.count);
}

static void put_topic(struct ot_writer *writer, const void *arg)
{
    const struct one *one = arg;
    const struct broker_view_topic *topic = one->row;
    char id[23];
    if (topic == NULL) {
        const struct rpcg_error error = { .error = one->error, .topic = one->name, .partition = -1, .leader_id = -1, .leader_epoch = -1 };
        rpcg_put_str(writer, 1, one->name);
        rpcg_put_message(writer, 5, rpcg_put_error, &error);
        return;
    }
    ot_uuid_text(&topic->id, id);
    rpcg_put_str(writer, 1, topic->name);
    rpcg_put_text(writer, 2, id);
    rpcg_put_int(writer, 3, topic->internal ? 1 : 0);
    for (int32_t i = 0; i < topic->partition_count; i++) {
        struct broker_view_partition partition;
        ot_arena_reset(&one->own->scratch);
        if (broker_view_partition(one->own->view, &topic->id, i, &one->own->scratch, &partition)) rpcg_put_message(writer, 4, put_partition, &partition);
    }
}

static void put_answer(struct ot_writer *writer, const void *arg)
{
    const struct one *all = arg;
    struct one one = *all;
    struct metadata_own *own = all->own;
    struct broker_view_cluster cluster;
    struct broker_view_broker broker;
    struct broker_view_topic topic;
    broker_view_cluster(own->view, &cluster);
    rpcg_put_str(writer, 1, cluster.cluster_id);
    rpcg_put_int(writer, 2, cluster.controller_id);
    for (int32_t after = INT32_MIN; broker_view_next_broker(own->view, after, &own->scratch, &broker); after = broker.id) {
        if (broker.fenced && broker.id != cluster.this_broker) continue;
        one.row = &broker;
        rpcg_put_message(writer, 3, put_broker, &one);
    }
    struct ot_str after = { .null = true };
    for (one.row = &topic; own->ask.topic_count == 0 && broker_view_next_topic(own->view, after, &topic); after = topic.name) rpcg_put_message(writer, 4, put_topic, &one);
    for (uint32_t i = 0; i < own->ask.topic_count; i++) {
        one.name = own->ask.topics[i];
        one.error = own->fates[i];
        one.row = broker_view_topic(own->view, one.name, &topic) ? &topic : NULL;
        rpcg_put_message(writer, 4, put_topic, &one);
    }
}

static void answer(struct rpcg_call *call)
{
    struct metadata_own *own = call->own;
    const struct one all = { .call = call, .own = own };
    own->view = broker_view_take(call->server->broker);
    ot_arena_init(&own->scratch, 1u << 20);
    grpc_byte_buffer *message = rpcg_message(put_answer, &all);
    ot_arena_free(&own->scratch);
    broker_view_give(own->view);
    rpcg_reply(call, message);
}

static void created(struct broker_call *broker_call)
{
    struct metadata_own *own = OT_CONTAINER(broker_call, struct metadata_own, admin.call);
    struct rpcg_call *call = own->call;
    for (uint32_t i = 0, item = 0; i < own->ask.topic_count; i++) {
        if (own->fates[i] != OT_ERR_LEADER_NOT_AVAILABLE) continue;
        const enum ot_err error = own->items[item++].error;    /* what failed for now is asked again by the client */
        if (error == OT_ERR_INVALID_TOPIC_EXCEPTION || error == OT_ERR_INVALID_REPLICATION_FACTOR || error == OT_ERR_POLICY_VIOLATION) own->fates[i] = error;
    }
    answer(call);
    rpcg_release(call);
}

/* What is to be said of topics that are not there; how many of them are to be made. */
static uint32_t fates_find(struct rpcg_call *call)
{
    struct metadata_own *own = call->own;
    struct broker *broker = call->server->broker;
    const struct broker_view *view = broker_view_take(broker);
    struct broker_view_topic topic;
    uint32_t missing = 0;
    for (uint32_t i = 0; i < own->ask.topic_count; i++) {
        const struct ot_str name = own->ask.topics[i];
        own->fates[i] = broker_topic_name_check(name);
        if (own->fates[i] != OT_OK || broker_view_topic(view, name, &topic)) continue;
        const bool make = own->ask.create && broker_auto_create_allowed(broker, name);
        own->fates[i] = make ? OT_ERR_LEADER_NOT_AVAILABLE : OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
        missing += make ? 1u : 0u;
    }
    broker_view_give(view);
    return missing;
}

static void create(struct rpcg_call *call, uint32_t missing)
{
    struct metadata_own *own = call->own;
    uint32_t at = 0;
    own->items = ot_arena_array(&call->arena, missing, sizeof *own->items);
    if (own->items == NULL) {
        rpcg_fail_text(call, OT_ERR_NO_MEMORY, NULL);
        return;
    }
    for (uint32_t i = 0; i < own->ask.topic_count; i++) {
        if (own->fates[i] != OT_ERR_LEADER_NOT_AVAILABLE) continue;
        own->items[at++] = (struct broker_admin_item){ .kind = BROKER_CREATE_TOPIC, .topic = own->ask.topics[i], .partition_count = -1, .replication_factor = -1, .if_version = -1 };
    }
    own->admin = (struct broker_admin){ .call = { .home = &call->server->exec, .done = created }, .items = own->items, .item_count = missing,
        .timeout_ms = broker_config(call->server->broker)->request_timeout_ms };
    rpcg_hold(call);
    broker_admin(call->server->broker, &own->admin);
}

void rpcg_metadata_start(struct rpcg_call *call)
{
    struct metadata_own *own = call->own;
    const char *why = NULL;
    own->call = call;
    const enum ot_err err = rpcg_metadata_decode(call->body, &call->arena, &own->ask, &why);
    if (err != OT_OK || own->ask.topic_count > TOPICS_MAX) {
        rpcg_fail_text(call, OT_ERR_INVALID_REQUEST, err == OT_OK ? "too many topics in one request" : why);
        return;
    }
    own->fates = ot_arena_array(&call->arena, own->ask.topic_count, sizeof *own->fates);
    if (own->ask.topic_count > 0 && own->fates == NULL) {
        rpcg_fail_text(call, OT_ERR_NO_MEMORY, NULL);
        return;
    }
    const uint32_t missing = fates_find(call);
    if (missing > 0) create(call, missing);
    else answer(call);
}
