/* How two brokers begin a connection. Who connects speaks first:
 *
 *   PeerHello  node id, whom it expects, cluster id, where it is reached, nonce A               ->
 *                                                   <-  node id, cluster id, nonce B, proof "server"
 *   PeerHello  the same, and proof "client"         ->                                                  only where there is a secret
 *                                                   <-  no error
 *   ApiVersions                                     ->
 *                                                   <-  which versions of what it knows (peer_versions.c)
 *
 *   proof   HMAC-SHA-256, key: the secret, of "ottla-peer-1" | role | node ids of both | nonce A | nonce B | port and host of who connects
 * Each side proves that it knows the secret for two nonces of which one is its own choice, so neither an old answer nor one made for the other role serves. The bytes that
 * follow are neither encrypted nor signed: a network on which somebody may change them needs a tunnel. */
#include "broker/peers_inner.h"

#include "base/log.h"
#include "base/util.h"
#include "base/wire/apis.h"
#include "broker/room.h"
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

enum hello_role { HELLO_SERVER = 1, HELLO_CLIENT = 2 };
struct hello_facts { int32_t client, server, port; const char *host; const uint8_t *client_nonce, *server_nonce; };

/* Empty without a secret. */
static uint32_t proof_of(const struct broker_peers *peers, enum hello_role role, const struct hello_facts *facts, uint8_t out[static BROKER_PROOF_BYTES])
{
    static const char label[] = "ottla-peer-1";
    uint8_t said[sizeof label + 1 + 12 + 2 * BROKER_NONCE_BYTES + BROKER_PEER_HOST_BYTES], *at = said;
    unsigned int bytes = 0;
    if (peers->secret_bytes == 0) return 0;
    memcpy(at, label, sizeof label);
    at += sizeof label;
    *at++ = (uint8_t)role;
    ot_store_u32(at, (uint32_t)facts->client);
    ot_store_u32(at + 4, (uint32_t)facts->server);
    ot_store_u32(at + 8, (uint32_t)facts->port);
    at += 12;
    memcpy(at, facts->client_nonce, BROKER_NONCE_BYTES);
    memcpy(at + BROKER_NONCE_BYTES, facts->server_nonce, BROKER_NONCE_BYTES);
    at += 2 * BROKER_NONCE_BYTES;
    const size_t host_bytes = strnlen(facts->host, BROKER_PEER_HOST_BYTES - 1);
    memcpy(at, facts->host, host_bytes);
    at += host_bytes;
    OT_ASSERT(HMAC(EVP_sha256(), peers->secret, (int)peers->secret_bytes, said, (size_t)(at - said), out, &bytes) != NULL && bytes == BROKER_PROOF_BYTES);
    return bytes;
}

static bool proves(const struct broker_peers *peers, enum hello_role role, const struct hello_facts *facts, struct ot_blob proof)
{
    uint8_t expected[BROKER_PROOF_BYTES];
    const uint32_t bytes = proof_of(peers, role, facts, expected);
    return proof.bytes == bytes && (bytes == 0 || CRYPTO_memcmp(proof.data, expected, bytes) == 0);
}

static void own_cluster(struct broker_peers *peers, char out[static 64])
{
    pthread_mutex_lock(&peers->mutex);
    memcpy(out, peers->cluster_id, sizeof peers->cluster_id);
    pthread_mutex_unlock(&peers->mutex);
}

static bool other_cluster(const char *ours, struct ot_str theirs)
{
    return ours[0] != 0 && !theirs.null && theirs.bytes > 0 && !ot_str_equal(theirs, ot_str_of(ours));
}

/* ---- who is connected to */

static enum ot_err refuse(const struct ot_peer_hello_request *in, struct ot_peer_hello_response *out, enum ot_err error, const char *text)
{
    out->error_code = ot_err_kafka(error);
    out->error_message = ot_str_of(text);
    ot_log(OT_LOG_WARN, "peer", "hello_refused", "node=%d text=\"%s\"", in->node_id, text);
    return error;
}

static bool same_facts(const struct broker_hello *hello, const struct ot_peer_hello_request *in)
{
    return in->node_id == hello->node_id && in->port == hello->port && ot_str_equal(in->host, ot_str_of(hello->host)) && in->nonce.bytes == BROKER_NONCE_BYTES
        && memcmp(in->nonce.data, hello->theirs, BROKER_NONCE_BYTES) == 0;
}

static void begin(struct broker_peers *peers, struct broker_hello *hello, const struct ot_peer_hello_request *in)
{
    hello->asked = true;
    hello->node_id = in->node_id;
    hello->port = in->port;
    memcpy(hello->host, in->host.data, in->host.bytes);
    hello->host[in->host.bytes] = 0;
    memcpy(hello->theirs, in->nonce.data, BROKER_NONCE_BYTES);
    ot_random_bytes(hello->ours, sizeof hello->ours);
    own_cluster(peers, hello->cluster_id);
}

enum ot_err broker_peer_hello(struct broker *broker, struct broker_hello *hello, const struct ot_peer_hello_request *in, struct ot_peer_hello_response *out)
{
    struct broker_peers *peers = broker->peers;
    ot_peer_hello_response_defaults(out);
    if (peers == NULL) return refuse(in, out, OT_ERR_INVALID_REQUEST, "this broker has no peers");
    out->node_id = peers->node_id;
    if (in->node_id < 0 || in->port < 0 || in->port > 65535 || in->host.null || in->host.bytes >= BROKER_PEER_HOST_BYTES || memchr(in->host.data, 0, in->host.bytes) != NULL
        || in->nonce.bytes != BROKER_NONCE_BYTES) return refuse(in, out, OT_ERR_INVALID_REQUEST, "a hello that says what cannot be");
    if (in->node_id == peers->node_id) return refuse(in, out, OT_ERR_DUPLICATE_BROKER_REGISTRATION, "another broker has the same node.id as this one");
    if (in->expects >= 0 && in->expects != peers->node_id) return refuse(in, out, OT_ERR_INVALID_REQUEST, "another broker was expected at this address");
    const bool second = hello->asked;
    if (second && (hello->done || !same_facts(hello, in))) return refuse(in, out, OT_ERR_INVALID_REQUEST, "a hello out of turn");
    if (!second) begin(peers, hello, in);
    if (other_cluster(hello->cluster_id, in->cluster_id)) return refuse(in, out, OT_ERR_INCONSISTENT_CLUSTER_ID, "it belongs to another cluster");
    const struct hello_facts facts = { hello->node_id, peers->node_id, hello->port, hello->host, hello->theirs, hello->ours };
    if ((second || peers->secret_bytes == 0) && !proves(peers, HELLO_CLIENT, &facts, in->proof))
        return refuse(in, out, OT_ERR_CLUSTER_AUTHORIZATION_FAILED, "peer.secret.file is not the same on both sides");
    out->cluster_id = hello->cluster_id[0] == 0 ? (struct ot_str){ .null = true } : ot_str_of(hello->cluster_id);
    out->nonce = (struct ot_blob){ .data = hello->ours, .bytes = sizeof hello->ours };
    if (!second) out->proof = (struct ot_blob){ .data = hello->proof, .bytes = proof_of(peers, HELLO_SERVER, &facts, hello->proof) };
    hello->done = second || peers->secret_bytes == 0;
    if (hello->done && hello->port > 0) broker_peers_address(peers, hello->node_id, ot_str_of(hello->host), hello->port, true);
    return OT_OK;
}

/* ---- who connects */

struct greeting { uint8_t mine[BROKER_NONCE_BYTES], theirs[BROKER_NONCE_BYTES]; int said; bool met /* versions are asked for */; };
OT_STATIC_ASSERT(sizeof(struct greeting) <= OT_LINK_GREET_BYTES, "the link keeps it");

static enum ot_err say(struct broker_peer *peer, struct greeting *greeting, struct ot_blob proof, uint8_t *out, uint32_t cap_bytes, uint32_t *bytes_out)
{
    struct broker_peers *peers = peer->peers;
    char cluster[64];
    struct ot_peer_hello_request hello;
    ot_peer_hello_request_defaults(&hello);
    own_cluster(peers, cluster);
    hello.node_id = peers->node_id;
    hello.expects = peer->id;
    hello.cluster_id = cluster[0] == 0 ? (struct ot_str){ .null = true } : ot_str_of(cluster);
    hello.host = ot_str_of(peers->host);
    hello.port = peers->port;
    hello.nonce = (struct ot_blob){ .data = greeting->mine, .bytes = sizeof greeting->mine };
    hello.proof = proof;
    const struct ot_api *api = ot_api_find(OT_API_PEER_HELLO);
    const struct ot_wire_request_header header = { .api = api, .key = OT_API_PEER_HELLO, .client_id = ot_str_of("ottla") };
    struct ot_writer writer = ot_writer_over(out, cap_bytes);
    enum ot_err err = ot_wire_request_header_encode(&header, &writer);
    if (err == OT_OK) err = ot_wire_encode(api->request, 0, &hello, &writer, NULL);
    *bytes_out = (uint32_t)(writer.at - out);
    greeting->said++;
    return err;
}

static enum ot_err wrong(struct broker_peer *peer, struct ot_str text)
{
    if (!atomic_exchange(&peer->failing, true)) ot_log(OT_LOG_ERROR, "peer", "hello_failed", "node=%d text=\"%.*s\"", peer->id, (int)text.bytes, text.data);
    return OT_ERR_CLUSTER_AUTHORIZATION_FAILED;
}

static enum ot_err heard(struct broker_peer *peer, struct greeting *greeting, const uint8_t *answer, uint32_t answer_bytes, struct ot_peer_hello_response *out, struct ot_arena *arena)
{
    int32_t correlation_id;
    char cluster[64];
    struct ot_reader in = ot_reader_over(answer, answer_bytes);
    const struct ot_api *api = ot_api_find(OT_API_PEER_HELLO);
    if (ot_wire_response_header_decode(api, 0, &in, arena, &correlation_id, NULL) != OT_OK || ot_wire_decode(api->response, 0, &in, arena, out, NULL) != OT_OK)
        return wrong(peer, ot_str_of("its answer to the hello cannot be read"));
    own_cluster(peer->peers, cluster);
    if (out->error_code != 0) return wrong(peer, out->error_message.null ? ot_str_of("it refused the hello") : out->error_message);
    if (out->node_id != peer->id) return wrong(peer, ot_str_of("another broker answers at its address"));
    if (other_cluster(cluster, out->cluster_id)) return wrong(peer, ot_str_of("it belongs to another cluster"));
    if (out->nonce.bytes != BROKER_NONCE_BYTES) return wrong(peer, ot_str_of("its answer to the hello says what cannot be"));
    if (greeting->said == 1) memcpy(greeting->theirs, out->nonce.data, BROKER_NONCE_BYTES);
    return OT_OK;
}

enum ot_err broker_peer_greet(void *arg, void *memory, const uint8_t *answer, uint32_t answer_bytes, uint8_t *out, uint32_t cap_bytes, uint32_t *bytes_out)
{
    struct broker_peer *peer = arg;
    struct greeting *greeting = memory;
    struct ot_peer_hello_response said;
    struct ot_arena arena;
    uint8_t proof[BROKER_PROOF_BYTES];
    *bytes_out = 0;
    if (answer == NULL) {
        ot_random_bytes(greeting->mine, sizeof greeting->mine);
        return say(peer, greeting, (struct ot_blob){ .data = proof, .bytes = 0 }, out, cap_bytes, bytes_out);
    }
    ot_arena_init(&arena, 65536);
    if (greeting->met) {
        const enum ot_err known = broker_peer_versions_heard(peer, answer, answer_bytes, &arena);
        ot_arena_free(&arena);
        return known == OT_ERR_MALFORMED ? wrong(peer, ot_str_of("it does not say which versions it knows")) : known;
    }
    enum ot_err err = heard(peer, greeting, answer, answer_bytes, &said, &arena);
    const struct hello_facts facts = { peer->peers->node_id, peer->id, peer->peers->port, peer->peers->host, greeting->mine, greeting->theirs };
    if (err == OT_OK && greeting->said == 1 && !proves(peer->peers, HELLO_SERVER, &facts, said.proof)) {
        err = wrong(peer, ot_str_of("peer.secret.file is not the same on both sides"));
    } else if (err == OT_OK && greeting->said == 1 && peer->peers->secret_bytes > 0) {
        const uint32_t bytes = proof_of(peer->peers, HELLO_CLIENT, &facts, proof);
        err = say(peer, greeting, (struct ot_blob){ .data = proof, .bytes = bytes }, out, cap_bytes, bytes_out);
    } else if (err == OT_OK) {
        greeting->met = true;
        err = broker_peer_versions_ask(out, cap_bytes, bytes_out);
    }
    ot_arena_free(&arena);
    return err;
}
