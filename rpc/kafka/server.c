#include "rpc/kafka/request.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PEER_LOOPS 2u
#define HELLO_US 5000000
#define PEER_REQUEST_BYTES_MAX (256u << 20)    /* one publication of the coordinator may have 200 MiB */
#define LISTENERS_MAX 1000u                /* since the start, however often they change */

enum ot_request_fate rpc_dispatch(struct ot_conn *conn, struct ot_reply *reply);

/* The limits of connections may change while we run. They are those of clients: brokers that cannot reach each other any more would be no cluster. */
static void limits_look(struct rpc_kafka_server *server)
{
    if (server->peer) return;
    const struct broker_config *config = broker_config(server->broker);
    const struct ot_net_limits now = { .connections_max = (uint32_t)config->max_connections, .connections_per_ip_max = (uint32_t)config->max_connections_per_ip,
        .connections_per_second = config->max_connection_creation_rate == INT32_MAX ? UINT32_MAX : (uint32_t)config->max_connection_creation_rate,
        .per_ip_overrides = config->max_connections_per_ip_overrides };     /* texts of the configuration are interned: the same text is the same pointer */
    pthread_mutex_lock(&server->limits_mutex);
    const struct ot_net_limits *old = &server->limits;
    const bool same = old->connections_max == now.connections_max && old->connections_per_ip_max == now.connections_per_ip_max
        && old->connections_per_second == now.connections_per_second && old->per_ip_overrides == now.per_ip_overrides;
    server->limits = now;
    if (!same) ot_net_limits(server->net, &now);
    pthread_mutex_unlock(&server->limits_mutex);
}

/* So that a raised limit lets in who is waiting: connections opened and closed look too, but there may be none. */
static void config_changed(void *arg, const struct broker_config *now)
{
    (void)now;
    limits_look(arg);
}

static void conn_opened(struct ot_conn *conn)
{
    struct rpc_kafka_server *server = ot_conn_arg(conn);
    struct rpc_conn *door = ot_conn_door(conn);
    const struct rpc_listener *listener = atomic_load_explicit(&server->listeners, memory_order_acquire);
    while (listener->older != NULL && strcmp(listener->name, ot_conn_listener(conn)) != 0) listener = listener->older;
    door->listener = listener;
    ot_series_move(door->listener->open, 1);
    ot_series_add(door->listener->accepted, 1);
    limits_look(server);
}

static void peer_opened(struct ot_conn *conn)
{
    struct rpc_peer_conn *door = ot_conn_door(conn);
    door->conn.hello = &door->hello;
    ot_conn_probation(conn, RPC_HELLO_BYTES_MAX, HELLO_US);
    conn_opened(conn);
}

static void conn_ending(struct ot_conn *conn)
{
    struct rpc_conn *door = ot_conn_door(conn);
    door->ending = true;
    for (struct rpc_request *request = door->in_work, *next; request != NULL; request = next) {
        next = request->next;
        if (request->row->cancel != NULL) request->row->cancel(request);
    }
}

static void conn_closed(struct ot_conn *conn)
{
    struct rpc_kafka_server *server = ot_conn_arg(conn);
    struct rpc_conn *door = ot_conn_door(conn);
    if (door->listener != NULL) ot_series_move(door->listener->open, -1);
    limits_look(server);
}

static const struct ot_conn_handler peer_handler = { sizeof(struct rpc_peer_conn), peer_opened, rpc_dispatch, conn_ending, conn_closed };
static const struct ot_conn_handler handler = { sizeof(struct rpc_conn), conn_opened, rpc_dispatch, conn_ending, conn_closed };

static char *copy(const char *text)
{
    const size_t bytes = strlen(text) + 1;
    char *to = malloc(bytes);
    if (to != NULL) memcpy(to, text, bytes);
    return to;
}

static void listener_free(struct rpc_listener *listener)
{
    if (listener == NULL) return;
    free(listener->name);
    free(listener->advertised_host);
    free(listener);
}

/* From here on connections that come over a listener of this name have it. */
static bool listener_add(struct rpc_kafka_server *server, const char *name, const char *advertised_host, int32_t advertised_port)
{
    struct rpc_listener *to = calloc(1, sizeof *to);
    const bool advertised = advertised_host != NULL && advertised_host[0] != '\0';
    if (to == NULL || (to->name = copy(name)) == NULL || (advertised && (to->advertised_host = copy(advertised_host)) == NULL)) {
        listener_free(to);
        return false;
    }
    to->advertised_port = advertised_port;
    rpc_metrics_listener(server, to);
    to->older = atomic_load(&server->listeners);
    atomic_store_explicit(&server->listeners, to, memory_order_release);
    server->listener_count++;
    return true;
}

/* The first of the setup becomes the newest, and with it the one that stands for names that nobody knows. */
static bool listeners_copy(struct rpc_kafka_server *server, const struct rpc_kafka_setup *setup)
{
    if (setup->listener_count == 0) return listener_add(server, "PLAINTEXT", NULL, 0);     /* one without sockets for those who only adopt */
    for (uint32_t i = setup->listener_count; i-- > 0;) {
        const struct rpc_kafka_listener *from = &setup->listeners[i];
        if (!listener_add(server, from->name, from->advertised_host, from->advertised_port)) return false;
    }
    return true;
}

/* A peer that falls silent within a message holds memory that the others' messages need: it goes before they take this broker for gone. */
static int64_t progress_ms(const struct broker_config *config, bool peer)
{
    const int64_t ms = OT_MIN(config->ottla_connection_progress_timeout_ms, INT64_MAX / 1000);
    return peer ? OT_MIN(ms, OT_MAX((int64_t)config->broker_session_timeout_ms / 2, 1)) : ms;
}

static struct ot_net_setup net_setup(const struct broker_config *config, const struct rpc_kafka_setup *setup)
{
    return (struct ot_net_setup){
        .loop_count = setup->peer ? PEER_LOOPS : (uint32_t)config->ottla_network_threads,
        .request_pool = setup->request_pool, .response_pool = setup->response_pool,
        .small_pool = setup->small_pool, .small_bytes = setup->small_bytes,
        .probation_max = setup->strangers_max == 0 ? 0 : OT_MAX(setup->strangers_max / PEER_LOOPS, 1u),
        .io = setup->io, .io_exec = setup->io_exec,
        .request_bytes_max = setup->peer ? OT_MAX((uint32_t)config->socket_request_max_bytes, PEER_REQUEST_BYTES_MAX) : (uint32_t)config->socket_request_max_bytes,
        .send_buffer_bytes = setup->system_buffers ? -1 : config->socket_send_buffer_bytes, .receive_buffer_bytes = setup->system_buffers ? -1 : config->socket_receive_buffer_bytes,
        .connections_max = setup->peer ? INT32_MAX : (uint32_t)config->max_connections, .connections_per_ip_max = setup->peer ? INT32_MAX : (uint32_t)config->max_connections_per_ip,
        .idle_us = config->connections_max_idle_ms < 0 || config->connections_max_idle_ms > INT64_MAX / 1000 ? -1 : config->connections_max_idle_ms * 1000,
        .progress_us = progress_ms(config, setup->peer) * 1000,
        .requests_max = setup->peer ? OT_MAX((uint32_t)config->ottla_connection_requests_max, 256u) : (uint32_t)config->ottla_connection_requests_max,
    };
}

static void server_clear(struct rpc_kafka_server *server)
{
    broker_config_unwatch(broker_config_store(server->broker), config_changed, server);
    ot_net_close(server->net);
    if (server->loops != NULL) {
        for (uint32_t i = 0; i < 256; i++) {
            struct rpc_request *request = server->loops[i].free, *next;
            for (; request != NULL; request = next) {
                next = request->next;
                free(request);
            }
        }
    }
    for (struct rpc_listener *listener = atomic_load(&server->listeners), *older; listener != NULL; listener = older) {
        older = listener->older;
        listener_free(listener);
    }
    pthread_mutex_destroy(&server->refused_mutex);
    pthread_mutex_destroy(&server->limits_mutex);
    free(server->loops);
    free(server);
}

enum ot_err rpc_kafka_server_start(struct broker *broker, const struct rpc_kafka_setup *setup, struct rpc_kafka_server **out)
{
    const struct broker_config *config = broker_config(broker);
    const struct ot_net_setup net = net_setup(config, setup);
    struct rpc_kafka_server *server = calloc(1, sizeof *server);
    enum ot_err err = OT_ERR_NO_MEMORY;
    uint32_t served = 0;                   /* listeners whose sockets have passed over */
    if (server == NULL) goto fail;
    server->broker = broker;
    server->peer = setup->peer;
    server->response_pool = setup->response_pool;
    server->metrics = setup->metrics;
    server->slow = setup->slow;
    pthread_mutex_init(&server->refused_mutex, NULL);
    pthread_mutex_init(&server->limits_mutex, NULL);
    if (!listeners_copy(server, setup) || (server->loops = calloc(256, sizeof *server->loops)) == NULL) goto fail;
    rpc_advertise_init(server, setup);
    if ((err = ot_net_open(&net, &server->net)) != OT_OK) goto fail;
    OT_ASSERT(ot_net_loop_count(server->net) <= 256);
    limits_look(server);
    rpc_metrics_init(server);
    broker_config_watch(broker_config_store(broker), config_changed, server);
    for (; served < setup->listener_count; served++) {
        const struct rpc_kafka_listener *listener = &setup->listeners[served];
        for (uint32_t i = 0; i < listener->fd_count; i++) {
            const enum ot_err one = ot_net_serve(server->net, listener->fds[i], listener->name, server->peer ? &peer_handler : &handler, server);
            if (one != OT_OK) err = one;
        }
    }
    if (err != OT_OK) goto fail;
    *out = server;
    return OT_OK;
fail:
    for (; served < setup->listener_count; served++) {
        for (uint32_t i = 0; i < setup->listeners[served].fd_count; i++) close(setup->listeners[served].fds[i]);
    }
    if (server != NULL) server_clear(server);
    return err;
}

enum ot_err rpc_kafka_server_listen(struct rpc_kafka_server *server, const struct rpc_kafka_listener *listener)
{
    enum ot_err err = server->listener_count >= LISTENERS_MAX ? OT_ERR_TOO_LARGE
        : listener_add(server, listener->name, listener->advertised_host, listener->advertised_port) ? OT_OK : OT_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < listener->fd_count; i++) {
        const enum ot_err one = err != OT_OK ? err : ot_net_serve(server->net, listener->fds[i], listener->name, server->peer ? &peer_handler : &handler, server);
        if (err != OT_OK) close(listener->fds[i]);
        err = one;
    }
    return err;
}

enum ot_err rpc_kafka_server_unlisten(struct rpc_kafka_server *server, const char *name) { return ot_net_unserve(server->net, name); }

void rpc_kafka_server_stop(struct rpc_kafka_server *server, int64_t timeout_ms)
{
    if (server != NULL) ot_net_drain(server->net, timeout_ms);
}

void rpc_kafka_server_free(struct rpc_kafka_server *server)
{
    if (server != NULL) server_clear(server);
}

struct ot_net *rpc_kafka_server_net(struct rpc_kafka_server *server) { return server->net; }

enum ot_err rpc_kafka_server_adopt(struct rpc_kafka_server *server, int fd)
{
    return ot_net_adopt(server->net, fd, atomic_load(&server->listeners)->name, server->peer ? &peer_handler : &handler, server);
}
