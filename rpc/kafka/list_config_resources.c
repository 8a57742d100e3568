/* ListConfigResources: what has, or may have, a configuration of its own. v0 lists client metrics subscriptions alone. */
#include "rpc/kafka/request.h"

#include "base/wire/enums.h"
#include "base/wire/list_config_resources_request.h"
#include "base/wire/list_config_resources_response.h"

#include <stdio.h>

typedef struct ot_list_config_resources_response_config_resource resource;

struct listing { struct rpc_request *request; resource *rows; int32_t count, cap; };

/* An empty list asks for all. */
static bool wanted(const struct rpc_request *request, int8_t type)
{
    const struct ot_list_config_resources_request *asked = request->body;
    if (request->header.version == 0) return type == OT_CONFIG_RESOURCE_CLIENT_METRICS;
    for (int32_t i = 0; i < asked->resource_types.count; i++) {
        if (asked->resource_types.items[i] == type) return true;
    }
    return asked->resource_types.count <= 0;
}

static bool is_known(int8_t type)
{
    return type == OT_CONFIG_RESOURCE_TOPIC || type == OT_CONFIG_RESOURCE_BROKER || type == OT_CONFIG_RESOURCE_BROKER_LOGGER || type == OT_CONFIG_RESOURCE_CLIENT_METRICS
        || type == OT_CONFIG_RESOURCE_GROUP;
}

static bool add(struct listing *listing, struct ot_str name, int8_t type)
{
    if (listing->count == listing->cap) return false;
    listing->rows[listing->count++] = (resource){ .resource_name = name, .resource_type = type };
    return true;
}

static bool add_brokers(struct listing *listing, const struct broker_view *view, int8_t type)
{
    struct broker_view_broker broker;
    for (int32_t after = INT32_MIN; broker_view_next_broker(view, after, &listing->request->arena, &broker); after = broker.id) {
        char *name = rpc_alloc(listing->request, 1, 16);
        if (name == NULL) return false;
        (void)snprintf(name, 16, "%d", broker.id);
        if (!add(listing, ot_str_of(name), type)) return false;
    }
    return true;
}

static bool add_topics(struct listing *listing, const struct broker_view *view)
{
    struct broker_view_topic topic;
    struct ot_str after = { .null = true };
    for (; broker_view_next_topic(view, after, &topic); after = topic.name) {
        const char *name = ot_arena_str(&listing->request->arena, topic.name);
        if (name == NULL || !add(listing, ot_str_of(name), OT_CONFIG_RESOURCE_TOPIC)) return false;
    }
    return true;
}

static bool add_named(struct listing *listing, const struct broker_view *view, enum broker_view_named kind, int8_t type)
{
    struct ot_str after = { .null = true }, at;
    for (; broker_view_next_named(view, kind, after, &at); after = at) {
        const char *name = ot_arena_str(&listing->request->arena, at);
        if (name == NULL || !add(listing, (struct ot_str){ name, at.bytes, false }, type)) return false;
    }
    return true;
}

static int32_t count_named(const struct broker_view *view, enum broker_view_named kind)
{
    struct ot_str after = { .null = true }, at;
    int32_t count = 0;
    for (; broker_view_next_named(view, kind, after, &at) && count < INT32_MAX / 8; after = at) count++;
    return count;
}

static bool list(struct listing *listing, const struct broker_view *view)
{
    const struct rpc_request *request = listing->request;
    struct broker_view_broker broker;
    int32_t brokers = 0;
    for (int32_t after = INT32_MIN; broker_view_next_broker(view, after, &listing->request->arena, &broker); after = broker.id) brokers++;
    listing->cap = 2 * brokers + count_named(view, BROKER_VIEW_GROUP) + count_named(view, BROKER_VIEW_CLIENT_METRICS)
        + (int32_t)OT_MIN(broker_view_topic_count(view), (int64_t)INT32_MAX / 4);
    listing->rows = rpc_alloc(listing->request, (size_t)listing->cap + 1, sizeof *listing->rows);
    return listing->rows != NULL && (!wanted(request, OT_CONFIG_RESOURCE_BROKER_LOGGER) || add_brokers(listing, view, OT_CONFIG_RESOURCE_BROKER_LOGGER))
        && (!wanted(request, OT_CONFIG_RESOURCE_BROKER) || add_brokers(listing, view, OT_CONFIG_RESOURCE_BROKER))
        && (!wanted(request, OT_CONFIG_RESOURCE_TOPIC) || add_topics(listing, view))
        && (!wanted(request, OT_CONFIG_RESOURCE_GROUP) || add_named(listing, view, BROKER_VIEW_GROUP, OT_CONFIG_RESOURCE_GROUP))
        && (!wanted(request, OT_CONFIG_RESOURCE_CLIENT_METRICS) || add_named(listing, view, BROKER_VIEW_CLIENT_METRICS, OT_CONFIG_RESOURCE_CLIENT_METRICS));
}

RPC_HANDLER(list_config_resources)
{
    const struct ot_list_config_resources_request *asked = body;
    struct ot_list_config_resources_response response;
    struct listing listing = { .request = request };
    ot_list_config_resources_response_defaults(&response);
    request->arena.cap_bytes = RPC_ANSWER_ARENA_BYTES;
    for (int32_t i = 0; i < asked->resource_types.count; i++) {
        if (!is_known(asked->resource_types.items[i])) request->error = OT_ERR_UNSUPPORTED_VERSION;
    }
    bool enough = true;
    if (request->error == OT_OK) {
        const struct broker_view *view = broker_view_take(request->server->broker);
        enough = list(&listing, view);
        broker_view_give(view);
    }
    response.error_code = ot_err_kafka(request->error);
    response.config_resources.items = listing.rows;
    response.config_resources.count = listing.count;
    if (enough) rpc_respond(request, &response);
    else rpc_reject(request, "no memory for its answer");
}
