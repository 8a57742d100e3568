/* ApiVersions: what is served, and the features behind it.
 *
 * Traps: N1 an unknown version is answered in layout v0 with error 35 and the keys. N3 odd client names get INVALID_REQUEST. N4 minima as Kafka's. N8, N9 versions that go with a
 * feature are advertised only with it: Produce 12 and 13 with transaction.version 2, which is final here from the start (what it promises of transactions holds as soon as
 * there are any). N10 features with minimum 0 are left out below v4. N14 v5 may name the cluster and node it expects. */
#include "rpc/kafka/request.h"

#include "base/wire/api_versions_request.h"
#include "base/wire/api_versions_response.h"
#include "broker/features.h"

#include <string.h>

/* [a-zA-Z0-9] with [-.] in between, as KIP-511. */
static bool name_valid(struct ot_str name)
{
    if (name.null || name.bytes == 0) return false;
    for (uint32_t i = 0; i < name.bytes; i++) {
        const char c = name.data[i];
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        const bool inner = i > 0 && i + 1 < name.bytes && (c == '-' || c == '.');
        if (!plain && !inner) return false;
    }
    return true;
}

static void keep(char to[static RPC_NAME_BYTES], struct ot_str name)
{
    const size_t bytes = OT_MIN((size_t)name.bytes, (size_t)RPC_NAME_BYTES - 1);
    memcpy(to, name.data, bytes);
    to[bytes] = '\0';
}

static bool keys_fill(struct rpc_request *request, struct ot_api_versions_response *response)
{
    struct ot_api_versions_response_api_version *keys = rpc_alloc(request, rpc_api_count, sizeof *keys);
    if (keys == NULL) return false;
    int32_t count = 0;
    for (uint32_t i = 0; i < rpc_api_count; i++) {
        const struct ot_api *api = ot_api_find(rpc_apis[i].key);
        if (!rpc_peer_lists(request->server, api->key)) continue;
        keys[count++] = (struct ot_api_versions_response_api_version){ .api_key = api->key, .min_version = api->advertised_min, .max_version = rpc_api_max(&rpc_apis[i], api) };
    }
    response->api_keys.items = keys;
    response->api_keys.count = count;
    return true;
}

static void features_fill(struct rpc_request *request, struct ot_api_versions_response *response)
{
    uint32_t feature_count = 0;
    const struct broker_feature *features = broker_features(&feature_count);
    struct ot_api_versions_response_supported_feature_key *supported = rpc_alloc(request, feature_count, sizeof *supported);
    struct ot_api_versions_response_finalized_feature_key *final = rpc_alloc(request, feature_count, sizeof *final);
    if (supported == NULL || final == NULL) return;
    const struct broker_view *view = broker_view_take(request->server->broker);
    struct broker_view_cluster cluster;
    broker_view_cluster(view, &cluster);
    broker_view_give(view);
    int32_t count = 0, final_count = 0;
    for (uint32_t i = 0; i < feature_count; i++) {
        const int16_t level = broker_feature_level(request->server->broker, &features[i]);
        final[final_count].name = ot_str_of(features[i].name);
        final[final_count].max_version_level = final[final_count].min_version_level = level;
        final_count += level > 0;              /* at 0 it is as if there were none, as in Kafka */
        if (features[i].min == 0 && request->header.version < 4) continue;
        supported[count].name = ot_str_of(features[i].name);
        supported[count].min_version = features[i].min;
        supported[count++].max_version = features[i].max;
    }
    response->supported_features.items = supported;
    response->supported_features.count = count;
    response->finalized_features.items = final;
    response->finalized_features.count = final_count;
    response->finalized_features_epoch = OT_MAX(cluster.version, 0);
}

/* The client means another cluster or broker than this: it follows a stale address. What cluster a peer is of its hello says: a broker that starts may not know yet which one it is in. */
static bool is_elsewhere(struct rpc_request *request, const struct ot_api_versions_request *asked)
{
    if (asked->node_id >= 0 && asked->node_id != broker_node_id(request->server->broker)) return true;
    if (asked->cluster_id.null || request->server->peer) return false;
    const struct broker_view *view = broker_view_take(request->server->broker);
    struct broker_view_cluster cluster;
    broker_view_cluster(view, &cluster);
    const bool other = !ot_str_equal(cluster.cluster_id, asked->cluster_id);
    broker_view_give(view);
    return other;
}

RPC_HANDLER(api_versions)
{
    const struct ot_api_versions_request *asked = body;
    struct ot_api_versions_response response;
    ot_api_versions_response_defaults(&response);
    int16_t version = request->header.version;
    if (asked == NULL) {
        version = 0;
        request->error = OT_ERR_UNSUPPORTED_VERSION;
    } else if (version >= 3 && (!name_valid(asked->client_software_name) || !name_valid(asked->client_software_version))) {
        request->error = OT_ERR_INVALID_REQUEST;
    } else if (version >= 5 && is_elsewhere(request, asked)) {
        request->error = OT_ERR_REBOOTSTRAP_REQUIRED;
    } else if (version >= 3) {
        const struct ot_str none = { .null = true };
        keep(request->door->software_name, asked->client_software_name);
        keep(request->door->software_version, asked->client_software_version);
        ot_conn_describe(request->conn, none, asked->client_software_name, asked->client_software_version);
    }
    response.error_code = ot_err_kafka(request->error);
    if ((request->error == OT_OK || request->error == OT_ERR_UNSUPPORTED_VERSION) && !keys_fill(request, &response)) {
        rpc_reject(request, "no memory for its answer");
        return;
    }
    if (request->error == OT_OK && version >= 3 && !request->server->peer) features_fill(request, &response);
    rpc_respond_version(request, version, &response);
}
