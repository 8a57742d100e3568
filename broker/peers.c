#include "broker/peers_inner.h"

#include "base/log.h"
#include "base/util.h"
#include "base/wire/apis.h"
#include "broker/room.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLIENT_ID "ottla"
#define ANSWER_BYTES_MAX (16u << 20)
#define CALLS_MAX 256u
#define ALONE_SILENCE_US 300000000             /* of a call that is alone: its deadline decides */
#define SILENCE_US 3000000                     /* an answer is due and nothing comes: another connection may do better */
#define CONNECT_US 2000000
#define MISSES 4u                              /* tries in vain before another place is tried */

/* ---- who there is */

static struct ot_link *link_of(struct broker_peer *peer, enum broker_peer_kind kind);

static uint32_t place_of(const struct broker_peers *peers, int32_t id)         /* of it, or where it belongs */
{
    uint32_t low = 0, high = peers->count;
    while (low < high) {
        const uint32_t mid = (low + high) / 2;
        if (peers->all[mid]->id < id) low = mid + 1;
        else high = mid;
    }
    return low;
}

struct broker_peer *broker_peers_find(const struct broker_peers *peers, int32_t id)
{
    const uint32_t at = place_of(peers, id);
    return at < peers->count && peers->all[at]->id == id ? peers->all[at] : NULL;
}

static struct broker_peer *find_or_add(struct broker_peers *peers, int32_t id)
{
    const uint32_t at = place_of(peers, id);
    if (at < peers->count && peers->all[at]->id == id) return peers->all[at];
    struct broker_peer *peer = peers->count < BROKER_PEERS_MAX ? calloc(1, sizeof *peer) : NULL;
    if (peer == NULL) return NULL;
    peer->peers = peers;
    peer->id = id;
    memmove(&peers->all[at + 1], &peers->all[at], (peers->count - at) * sizeof(struct broker_peer *));
    peers->all[at] = peer;
    peers->count++;
    return peer;
}

static bool text_is(const char *text, struct ot_str is) { return strlen(text) == is.bytes && memcmp(text, is.data, is.bytes) == 0; }

static void text_copy(char out[static BROKER_PEER_HOST_BYTES], struct ot_str text)
{
    memcpy(out, text.data, text.bytes);
    out[text.bytes] = 0;
}

static void links_close(struct broker_peer *peer)
{
    for (int kind = 0; kind < BROKER_PEER_KINDS; kind++) {
        ot_link_close(peer->links[kind]);
        peer->links[kind] = NULL;
    }
    for (int i = 0; i < BROKER_PEER_LANES; i++) {
        ot_link_close(peer->lanes[i].link);
        peer->lanes[i].link = NULL;
    }
}

static void other(struct broker_peer *peer, struct ot_str host, int32_t port)  /* mutex held: another place to look */
{
    text_copy(peer->other_host, host);
    peer->other_port = port;
}

static void move(struct broker_peer *peer, struct ot_str host, int32_t port)   /* mutex held */
{
    if (text_is(peer->host, host) && peer->port == port) return;
    memcpy(peer->other_host, peer->host, sizeof peer->host);
    peer->other_port = peer->port;
    text_copy(peer->host, host);
    peer->port = port;
    atomic_store(&peer->elsewhere, false);
    atomic_store(&peer->lost, false);          /* that nobody listens at the new place says nothing of who was at the old one */
    links_close(peer);                         /* what is under way is answered, and goes to the new place when it is asked again */
}

static bool usable(struct ot_str host, int32_t port) { return !host.null && host.bytes > 0 && host.bytes < BROKER_PEER_HOST_BYTES && port > 0 && port <= 65535; }

static bool reached(const struct broker_peer *peer) { return peer->links[BROKER_PEER_MESSAGES] != NULL && ot_link_up(peer->links[BROKER_PEER_MESSAGES]); }

/* A hello moves a peer that is not reached. One that is may have a double, with its node.id and the right secret: where that one is, is looked at when the peer is lost. */
void broker_peers_address(struct broker_peers *peers, int32_t id, struct ot_str host, int32_t port, bool hello)
{
    if (id < 0 || id == peers->node_id || !usable(host, port)) return;
    pthread_mutex_lock(&peers->mutex);
    struct broker_peer *peer = peers->stopped ? NULL : find_or_add(peers, id);
    if (peer != NULL && (peer->port == 0 || (hello && !reached(peer)))) {
        move(peer, host, port);
    } else if (peer != NULL && hello && (!text_is(peer->host, host) || peer->port != port)) {
        other(peer, host, port);
        atomic_store(&peer->elsewhere, true);
    }
    pthread_mutex_unlock(&peers->mutex);
}

/* The rows count when they change: between two changes the peer itself may have said something newer. What they said before this start is only another place to look. */
static void row_says(struct broker_peers *peers, int32_t id, struct ot_str host, int32_t port)
{
    if (id == peers->node_id || !usable(host, port)) return;
    struct broker_peer *peer = peers->stopped ? NULL : find_or_add(peers, id);
    if (peer == NULL || (text_is(peer->row_host, host) && peer->row_port == port)) return;
    const bool first = peer->row_port == 0 && peer->port != 0;
    text_copy(peer->row_host, host);
    peer->row_port = port;
    if (!first) {
        move(peer, host, port);
    } else if (!text_is(peer->host, host) || peer->port != port) {
        other(peer, host, port);
    }
}

static void look_elsewhere(struct broker_peer *peer)       /* on the links' loop */
{
    struct broker_peers *peers = peer->peers;
    if (++peer->misses % MISSES != 0) return;
    pthread_mutex_lock(&peers->mutex);
    if (!peers->stopped && peer->other_port != 0) {
        char host[BROKER_PEER_HOST_BYTES];
        memcpy(host, peer->other_host, sizeof host);
        move(peer, ot_str_of(host), peer->other_port);
        (void)link_of(peer, BROKER_PEER_MESSAGES);
    }
    pthread_mutex_unlock(&peers->mutex);
}

static bool broker_says(const struct ot_coord_broker_row *row, struct ot_str *host_out, int32_t *port_out)
{
    for (int32_t i = 0; i < row->endpoints.count; i++) {
        const struct ot_coord_broker_row_endpoint *one = &row->endpoints.items[i];
        if (!ot_str_equal(one->name, ot_str_of(BROKER_PEER_LISTENER)) || one->host.null) continue;
        *host_out = one->host;
        *port_out = one->port;
        return true;
    }
    return false;
}

void broker_peers_rows(struct broker_peers *peers, const struct coord_value *value)
{
    uint8_t room[32768];
    struct ot_coord_voter_row voter;
    struct ot_coord_broker_row row;
    struct ot_str host;
    int32_t port, id = INT32_MIN;
    pthread_mutex_lock(&peers->mutex);
    while (coord_voter_next(value, id, &id, &voter) == OT_OK) {
        struct ot_arena arena;
        ot_arena_init_with(&arena, room, sizeof room, 0);
        if (coord_broker_get(value, id, &arena, &row) != OT_OK || !broker_says(&row, &host, &port)) row_says(peers, id, voter.host, voter.port);
    }
    id = INT32_MIN;
    for (;;) {
        struct ot_arena arena;
        ot_arena_init_with(&arena, room, sizeof room, 0);
        if (coord_broker_next(value, id, &arena, &id, &row) != OT_OK) break;
        if (broker_says(&row, &host, &port)) row_says(peers, id, host, port);
    }
    pthread_mutex_unlock(&peers->mutex);
}

void broker_peers_cluster(struct broker_peers *peers, struct ot_str cluster_id)
{
    if (cluster_id.null || cluster_id.bytes == 0 || cluster_id.bytes >= sizeof peers->cluster_id) return;
    pthread_mutex_lock(&peers->mutex);
    memcpy(peers->cluster_id, cluster_id.data, cluster_id.bytes);
    peers->cluster_id[cluster_id.bytes] = 0;
    pthread_mutex_unlock(&peers->mutex);
}

/* ---- links */

static void link_event(void *arg, enum ot_link_event event)        /* of the connection for messages */
{
    struct broker_peer *peer = arg;
    const bool failing = event == OT_LINK_FAILED || event == OT_LINK_REFUSED;
    if (event == OT_LINK_UP) {
        atomic_store(&peer->failing, false);
        ot_log(OT_LOG_INFO, "peer", "connected", "node=%d", peer->id);
    } else if (event == OT_LINK_LOST) {
        ot_log(OT_LOG_WARN, "peer", "connection_lost", "node=%d", peer->id);
    } else if (failing && !atomic_exchange(&peer->failing, true)) {
        ot_log(OT_LOG_WARN, "peer", "not_reached", "node=%d reason=%s", peer->id, event == OT_LINK_REFUSED ? "refused" : "failed");
    }
    if (event == OT_LINK_UP) {
        atomic_store(&peer->lost, false);
        atomic_store(&peer->elsewhere, false); /* it is here */
        peer->misses = 0;
    }
    if (event == OT_LINK_LOST) {
        atomic_store(&peer->lost, true);
        if (atomic_load(&peer->elsewhere)) peer->misses = MISSES - 1;      /* it said that it moved: one more try at the old place */
    }
    const bool dead = atomic_load(&peer->lost) && event == OT_LINK_REFUSED, news = atomic_exchange(&peer->dead, dead) != dead;
    if (dead && news && peer->peers->gone != NULL) peer->peers->gone(peer->peers->gone_arg, peer->id);
    if (failing) look_elsewhere(peer);
}

void broker_peers_tell_dead(struct broker_peers *peers)
{
    pthread_mutex_lock(&peers->mutex);
    for (uint32_t i = 0; i < peers->count; i++) {
        if (atomic_load(&peers->all[i]->dead) && peers->gone != NULL) peers->gone(peers->gone_arg, peers->all[i]->id);
    }
    pthread_mutex_unlock(&peers->mutex);
}

static struct ot_link_setup setup_of(struct broker_peer *peer)
{
    return (struct ot_link_setup){ .host = peer->host, .port = (uint16_t)peer->port, .pool = peer->peers->pool, .connect_us = CONNECT_US, .greet = broker_peer_greet, .greet_arg = peer };
}

static struct ot_link *link_of(struct broker_peer *peer, enum broker_peer_kind kind)   /* mutex held; NULL: not to be had */
{
    if (peer == NULL || peer->port == 0) return NULL;
    if (peer->links[kind] != NULL) return peer->links[kind];
    struct ot_link_setup setup = setup_of(peer);
    setup.calls_max = CALLS_MAX;
    setup.silence_us = kind == BROKER_PEER_MESSAGES ? SILENCE_US : 0;
    setup.keep = kind == BROKER_PEER_MESSAGES;
    setup.arg = peer;
    setup.event = kind == BROKER_PEER_MESSAGES ? link_event : NULL;
    return ot_link_open(peer->peers->links, &setup, &peer->links[kind]) == OT_OK ? peer->links[kind] : NULL;
}

static void answered_here(struct ot_task *task)
{
    struct ot_link_call *call = OT_CONTAINER(task, struct ot_link_call, task);
    call->answered(call);
}

void broker_peers_send(struct broker_peers *peers, int32_t id, enum broker_peer_kind kind, struct ot_link_call *call)
{
    pthread_mutex_lock(&peers->mutex);
    struct ot_link *link = peers->stopped ? NULL : link_of(broker_peers_find(peers, id), kind);
    if (link != NULL) ot_link_send(link, call);        /* under the mutex: the link is not closed before it */
    pthread_mutex_unlock(&peers->mutex);
    if (link != NULL) return;
    ot_buf_unref(call->request);
    call->request = NULL;
    call->answer = NULL;
    call->sent = false;
    call->error = OT_ERR_CLOSED;
    call->task.run = answered_here;
    ot_exec_post(call->home, &call->task);
}

uint32_t broker_peers_up(struct broker_peers *peers)
{
    uint32_t up = 0;
    pthread_mutex_lock(&peers->mutex);
    for (uint32_t i = 0; i < peers->count; i++) {
        const struct ot_link *link = peers->all[i]->links[BROKER_PEER_MESSAGES];
        up += link != NULL && ot_link_up(link);
    }
    pthread_mutex_unlock(&peers->mutex);
    return up;
}

void broker_peers_missing(struct broker_peers *peers, char *out, size_t out_bytes)
{
    size_t used = 0;
    out[0] = 0;
    pthread_mutex_lock(&peers->mutex);
    for (uint32_t i = 0; i < peers->count && used + 13 < out_bytes; i++) {
        const struct ot_link *link = peers->all[i]->links[BROKER_PEER_MESSAGES];
        if (link == NULL || !ot_link_up(link)) used += (size_t)snprintf(out + used, out_bytes - used, "%s%d", used > 0 ? "," : "", peers->all[i]->id);
    }
    pthread_mutex_unlock(&peers->mutex);
}

void broker_peers_hang_up(struct broker_peers *peers, enum broker_peer_kind kind)
{
    pthread_mutex_lock(&peers->mutex);
    for (uint32_t i = 0; i < peers->count; i++) {
        ot_link_close(peers->all[i]->links[kind]);
        peers->all[i]->links[kind] = NULL;
    }
    pthread_mutex_unlock(&peers->mutex);
}

/* ---- life */

enum ot_err broker_peers_new(const struct broker_peer_setup *setup, int32_t node_id, struct broker_peers **out)
{
    uint64_t seed;
    struct broker_peers *peers = setup->secret_bytes > BROKER_SECRET_BYTES_MAX || strlen(setup->host) >= sizeof peers->host ? NULL : calloc(1, sizeof *peers);
    if (peers == NULL) return OT_ERR_NO_MEMORY;
    ot_random_bytes(&seed, sizeof seed);
    peers->pool = setup->pool;
    peers->node_id = node_id;
    peers->port = setup->port;
    snprintf(peers->host, sizeof peers->host, "%s", setup->host);
    if (setup->secret_bytes > 0) memcpy(peers->secret, setup->secret, setup->secret_bytes);
    peers->secret_bytes = setup->secret_bytes;
    pthread_mutex_init(&peers->mutex, NULL);
    const enum ot_err err = ot_links_open("peers", setup->resolve_exec, seed, &peers->links);
    if (err != OT_OK) {
        broker_peers_free(peers);
        return err;
    }
    *out = peers;
    return OT_OK;
}

void broker_peers_stop(struct broker_peers *peers)
{
    if (peers == NULL) return;
    pthread_mutex_lock(&peers->mutex);
    peers->stopped = true;
    for (uint32_t i = 0; i < peers->count; i++) links_close(peers->all[i]);
    pthread_mutex_unlock(&peers->mutex);
}

void broker_peers_free(struct broker_peers *peers)
{
    if (peers == NULL) return;
    broker_peers_stop(peers);
    ot_links_close(peers->links);
    for (uint32_t i = 0; i < peers->count; i++) free(peers->all[i]);
    pthread_mutex_destroy(&peers->mutex);
    explicit_bzero(peers->secret, sizeof peers->secret);
    free(peers);
}

/* ---- frames */

struct ot_buf *broker_peer_frame(struct ot_pool *pool, int16_t key, int16_t version, const void *request)
{
    const struct ot_api *api = ot_api_find(key);
    const struct ot_wire_request_header header = { .api = api, .key = key, .version = version, .client_id = ot_str_of(CLIENT_ID) };
    const size_t bytes = ot_wire_size(api->request, version, request);
    if (bytes > INT32_MAX - 64) return NULL;
    struct ot_buf *buf = ot_buf_new(pool, bytes + 64);
    if (buf == NULL && bytes <= BROKER_PEER_SMALL_BYTES - 64) buf = ot_buf_new_forced(pool, bytes + 64);       /* a link has few of them */
    if (buf == NULL) return NULL;
    struct ot_writer out = ot_writer_over(buf->data + 4, bytes + 60);
    if (ot_wire_request_header_encode(&header, &out) != OT_OK || ot_wire_encode(api->request, version, request, &out, NULL) != OT_OK) {
        ot_buf_unref(buf);
        return NULL;
    }
    buf->bytes = (uint32_t)(out.at - buf->data);
    return buf;
}

enum ot_err broker_peer_answer(int16_t key, int16_t version, const struct ot_buf *answer, struct ot_arena *arena, struct ot_reader *in)
{
    int32_t correlation_id;
    *in = ot_reader_over(answer->data, answer->bytes);
    return ot_wire_response_header_decode(ot_api_find(key), version, in, arena, &correlation_id, NULL) == OT_OK ? OT_OK : OT_ERR_MALFORMED;
}

/* ---- calls that are alone on a connection */

/* Mutex held. One that is up already, else one that is to be made. NULL: all are in use, or there is no such peer. */
static struct broker_peer_lane *lane_take(struct broker_peer *peer)
{
    struct broker_peer_lane *lane = NULL;
    struct ot_link_setup setup;
    if (peer == NULL || peer->port == 0) return NULL;
    for (int i = 0; i < BROKER_PEER_LANES; i++) {
        struct broker_peer_lane *one = &peer->lanes[i];
        if (one->call == NULL && (lane == NULL || (one->link != NULL && ot_link_up(one->link)))) lane = one;
        if (lane != NULL && lane->link != NULL && ot_link_up(lane->link)) break;
    }
    if (lane == NULL || lane->link != NULL) return lane;
    setup = setup_of(peer);
    setup.calls_max = 4;
    setup.silence_us = ALONE_SILENCE_US;
    return ot_link_open(peer->peers->links, &setup, &lane->link) == OT_OK ? lane : NULL;
}

static void call_alone(struct broker_peers *peers, struct broker_peer_call *call)
{
    enum ot_err err = OT_ERR_CLOSED;
    pthread_mutex_lock(&peers->mutex);
    struct broker_peer *peer = peers->stopped ? NULL : broker_peers_find(peers, call->node_id);
    if (peer != NULL && peer->port != 0) {
        err = OT_ERR_BUSY;
        call->lane = lane_take(peer);
    }
    const bool sent = call->lane != NULL;
    if (sent) {
        call->lane->call = call;
        ot_link_send(call->lane->link, &call->link);       /* under the mutex: the link is not closed before it */
    }
    pthread_mutex_unlock(&peers->mutex);
    if (sent) return;                          /* on another home it may have been answered, and be gone, by now */
    ot_buf_unref(call->link.request);
    call->link.request = NULL;
    call->link.error = err;
    call->link.task.run = answered_here;
    ot_exec_post(call->home, &call->link.task);
}

/* A connection whose answer was not waited for would hold up the next one. */
static void lane_give(struct broker_peers *peers, struct broker_peer_call *call)
{
    if (call->lane == NULL) return;
    pthread_mutex_lock(&peers->mutex);
    call->lane->call = NULL;
    if (call->link.error != OT_OK) {
        ot_link_close(call->lane->link);
        call->lane->link = NULL;
    }
    pthread_mutex_unlock(&peers->mutex);
    call->lane = NULL;
}

void broker_peer_call_abort(struct broker *broker, struct broker_peer_call *call)
{
    struct broker_peers *peers = broker->peers;
    if (call->lane == NULL) return;            /* answered, or on its way */
    pthread_mutex_lock(&peers->mutex);
    ot_link_close(call->lane->link);
    call->lane->link = NULL;
    pthread_mutex_unlock(&peers->mutex);
}

/* ---- calls of others */

static void call_answered(struct ot_link_call *link)
{
    struct broker_peer_call *call = OT_CONTAINER(link, struct broker_peer_call, link);
    struct ot_reader in;
    lane_give(call->peers, call);
    call->error = link->error;
    if (call->error == OT_OK && (call->error = broker_peer_answer(call->api, call->version, link->answer, call->arena, &in)) == OT_OK
        && ot_wire_decode(ot_api_find(call->api)->response, call->version, &in, call->arena, call->response, NULL) != OT_OK) call->error = OT_ERR_MALFORMED;
    call->done(call);
}

static void call_refused(struct ot_task *task)
{
    struct broker_peer_call *call = OT_CONTAINER(task, struct broker_peer_call, link.task);
    call->done(call);
}

void broker_peer_call(struct broker *broker, struct broker_peer_call *call)
{
    struct broker_peers *peers = call->peers = broker->peers;
    call->error = OT_ERR_CLOSED;
    call->lane = NULL;
    if (peers != NULL && broker_peer_api_own(call->api)) call->version = broker_peers_version(peers, call->node_id, call->api);
    call->link = (struct ot_link_call){ .answered = call_answered, .home = call->home, .deadline_us = call->deadline_us,
        .answer_bytes_max = call->answer_bytes_max == 0 ? ANSWER_BYTES_MAX : call->answer_bytes_max };
    if (peers != NULL && (call->link.request = broker_peer_frame(peers->pool, call->api, call->version, call->request)) != NULL) {
        if (call->alone) call_alone(peers, call);
        else broker_peers_send(peers, call->node_id, BROKER_PEER_CALLS, &call->link);
        return;
    }
    call->error = peers == NULL ? OT_ERR_CLOSED : OT_ERR_NO_MEMORY;
    call->link.task.run = call_refused;
    ot_exec_post(call->home, &call->link.task);
}

void broker_peer_call_end(struct broker_peer_call *call)
{
    ot_buf_unref(call->link.answer);
    call->link.answer = NULL;
}

enum ot_err broker_peer_link(struct broker *broker, int32_t node_id, char host_out[static BROKER_PEER_HOST_BYTES], struct ot_link_setup *out)
{
    struct broker_peers *peers = broker->peers;
    if (peers == NULL) return OT_ERR_CLOSED;
    pthread_mutex_lock(&peers->mutex);
    struct broker_peer *peer = peers->stopped ? NULL : broker_peers_find(peers, node_id);
    const bool known = peer != NULL && peer->port != 0;
    if (known) {
        memcpy(host_out, peer->host, BROKER_PEER_HOST_BYTES);
        *out = setup_of(peer);
        out->host = host_out;
    }
    pthread_mutex_unlock(&peers->mutex);
    return known ? OT_OK : peers->stopped ? OT_ERR_CLOSED : OT_ERR_NOT_FOUND;
}
