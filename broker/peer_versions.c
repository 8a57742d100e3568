/* Which version of each of our own requests a peer is asked in: the highest that it and this build know. It says so on every connection, right after the hello, by Kafka's ApiVersions; until it has
 * said so for the first time, requests go in the lowest. One that changed its build between two connections may refuse a request that was written for the other: that one is asked again. */
#include "broker/peers_inner.h"

#include "base/log.h"
#include "base/wire/api_versions_request.h"
#include "base/wire/api_versions_response.h"
#include "base/wire/apis.h"

#define OWN_FIRST OT_API_PEER_HELLO

int16_t broker_peers_version(struct broker_peers *peers, int32_t id, int16_t key)
{
    OT_ASSERT(key >= OWN_FIRST && key < OWN_FIRST + BROKER_PEER_APIS);
    pthread_mutex_lock(&peers->mutex);
    const struct broker_peer *peer = broker_peers_find(peers, id);
    const int16_t version = peer == NULL ? 0 : (int16_t)atomic_load(&peer->versions[key - OWN_FIRST]);
    pthread_mutex_unlock(&peers->mutex);
    return version;
}

enum ot_err broker_peer_versions_ask(uint8_t *out, uint32_t cap_bytes, uint32_t *bytes_out)
{
    const struct ot_api *api = ot_api_find(OT_API_API_VERSIONS);
    const struct ot_wire_request_header header = { .api = api, .key = OT_API_API_VERSIONS, .client_id = ot_str_of("ottla") };
    struct ot_api_versions_request request;
    struct ot_writer writer = ot_writer_over(out, cap_bytes);
    ot_api_versions_request_defaults(&request);
    enum ot_err err = ot_wire_request_header_encode(&header, &writer);
    if (err == OT_OK) err = ot_wire_encode(api->request, 0, &request, &writer, NULL);
    *bytes_out = (uint32_t)(writer.at - out);
    return err;
}

static const struct ot_api_versions_response_api_version *said_of(const struct ot_api_versions_response *said, int16_t key)
{
    for (int32_t i = 0; i < said->api_keys.count; i++)
        if (said->api_keys.items[i].api_key == key) return &said->api_keys.items[i];
    return NULL;
}

/* A request that the peer does not know at all is one that it was never asked before: asking it is an error of its own, and none of the connection. */
static enum ot_err note(struct broker_peer *peer, const struct ot_api *api, const struct ot_api_versions_response *said)
{
    const struct ot_api_versions_response_api_version *theirs = said_of(said, api->key);
    const int16_t max = broker_peer_api_max(api);
    if (theirs == NULL) return OT_OK;
    if (theirs->min_version > max || theirs->max_version < api->version_min) {
        if (!atomic_exchange(&peer->failing, true))
            ot_log(OT_LOG_ERROR, "peer", "no_common_version", "node=%d request=%s theirs=%d-%d ours=%d-%d text=\"one of the two builds is too old for the other: it is not used\"", peer->id, api->name,
                theirs->min_version, theirs->max_version, api->version_min, max);
        return OT_ERR_UNSUPPORTED_VERSION;
    }
    atomic_store(&peer->versions[api->key - OWN_FIRST], OT_MIN(theirs->max_version, max));
    return OT_OK;
}

enum ot_err broker_peer_versions_heard(struct broker_peer *peer, const uint8_t *answer, uint32_t answer_bytes, struct ot_arena *arena)
{
    const struct ot_api *api = ot_api_find(OT_API_API_VERSIONS);
    struct ot_api_versions_response said;
    struct ot_reader in = ot_reader_over(answer, answer_bytes);
    int32_t correlation_id;
    if (ot_wire_response_header_decode(api, 0, &in, arena, &correlation_id, NULL) != OT_OK || ot_wire_decode(api->response, 0, &in, arena, &said, NULL) != OT_OK || said.error_code != 0)
        return OT_ERR_MALFORMED;
    enum ot_err err = OT_OK;
    for (int16_t key = OWN_FIRST; err == OT_OK && key < OWN_FIRST + BROKER_PEER_APIS; key++) err = note(peer, ot_api_find(key), &said);
    return err;
}
