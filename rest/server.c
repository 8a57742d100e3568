/* The daemons, and the way of a request through them:
 *
 *   libmicrohttpd's thread     target ─► admit ──refused──► queue ─────────────────────────────► completed
 *                                          └─► body, piece by piece ─► suspend            queue ─► completed
 *   our executor ("rest")                                                └─► handler … answer ─► resume ┘
 */
#include "rest/inside.h"
#include "base/log.h"
#include "rest/hop.h"
#include "rest/once.h"
#include "rest/stream.h"
#include "base/util.h"
#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEADER_READ_S = 15, SEND_S = 2, KEEP_ALIVE_S = 60, CONNECTIONS = 512, PER_ADDRESS = 64, PER_SECOND = 200, BURST = 400 };
#define CONNECTION_MEMORY_BYTES (56u << 10)
#define DISCARD_MAX (32u << 20)        /* of a body that turned out too large; then the connection is cut */

void rest_server_hold(struct rest_server *server)
{
    pthread_mutex_lock(&server->mutex);
    server->working++;
    pthread_mutex_unlock(&server->mutex);
}

void rest_server_let_go(struct rest_server *server)
{
    pthread_mutex_lock(&server->mutex);
    if (--server->working == 0) pthread_cond_broadcast(&server->idle);
    pthread_mutex_unlock(&server->mutex);
}

static void sent(struct rest_server *server)
{
    pthread_mutex_lock(&server->mutex);
    if (--server->sending == 0) pthread_cond_broadcast(&server->idle);
    pthread_mutex_unlock(&server->mutex);
}

/* ---- one request */

/* The login of a user of this machine; asked for once in a row, since that may read files. */
static void name_login(struct rest_server *server, uid_t uid, char *out, size_t out_bytes)
{
    char room[1024];
    struct passwd entry, *found = NULL;
    pthread_mutex_lock(&server->login_mutex);
    if (server->login_uid != uid || server->login[0] == 0) {
        if (getpwuid_r(uid, &entry, room, sizeof(room), &found) != 0 || found == NULL) snprintf(server->login, sizeof(server->login), "uid-%u", (unsigned)uid);
        else snprintf(server->login, sizeof(server->login), "%s", entry.pw_name);
        server->login_uid = uid;
    }
    snprintf(out, out_bytes, "User:%s", server->login);
    pthread_mutex_unlock(&server->login_mutex);
}

static void name_peer(struct rest_call *call)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(call->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info == NULL ? NULL : info->client_addr;
    if (address != NULL && address->sa_family == AF_INET) {
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)address)->sin_addr, call->peer, sizeof(call->peer));
    } else if (address != NULL && address->sa_family == AF_INET6) {
        const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
        inet_ntop(AF_INET6, six, call->peer, sizeof(call->peer));
        if (IN6_IS_ADDR_V4MAPPED(six)) inet_ntop(AF_INET, &six->s6_addr[12], call->peer, sizeof(call->peer));
    } else {
        struct ucred peer = { .uid = (uid_t)-1 };
        socklen_t bytes = sizeof(peer);
        const union MHD_ConnectionInfo *fd = MHD_get_connection_info(call->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        snprintf(call->peer, sizeof(call->peer), "unix");
        if (fd != NULL && getsockopt(fd->connect_fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0) {
            name_login(call->server, peer.uid, call->principal, sizeof(call->principal));
            return;
        }
    }
    snprintf(call->principal, sizeof(call->principal), "User:ANONYMOUS@%.40s", call->peer);
}

static void *target_seen(void *arg, const char *target, struct MHD_Connection *connection)
{
    struct rest_server *server = arg;
    struct rest_call *call = calloc(1, sizeof(*call));
    if (call == NULL || (call->target = strdup(target)) == NULL) {
        free(call);
        return NULL;
    }
    call->version_at = (uintptr_t)target + strlen(target) + 1;
    call->server = server;
    call->broker = server->broker;
    call->home = server->exec;
    call->connection = connection;
    call->started_us = ot_clock_boot_us();
    call->timeout_ms = 30000;
    ot_arena_init(&call->arena, REST_ARENA_MAX);
    rest_json_init(&call->out, REST_ANSWER_MAX);
    snprintf(call->request_id, sizeof(call->request_id), "r-%x-%llx", (unsigned)(broker_started_wall_ms(server->broker) / 1000 & 0xffffffff),
        (unsigned long long)atomic_fetch_add(&server->next_request, 1));
    name_peer(call);
    return call;
}

static void completed(void *arg, struct MHD_Connection *connection, void **slot, enum MHD_RequestTerminationCode why)
{
    (void)arg; (void)connection; (void)why;
    struct rest_call *call = *slot;
    *slot = NULL;
    if (call == NULL) return;
    OT_ASSERT(atomic_load(&call->stage) != REST_WORKING);      /* a suspended connection does not end */
    struct rest_server *server = call->sending ? call->server : NULL;
    ot_buf_unref(call->body);
    rest_json_free(&call->out);
    json_decref(call->json);
    if (call->stream != NULL) rest_stream_gone(call->stream);
    ot_arena_free(&call->arena);
    free(call->target);
    free(call);
    if (server != NULL) sent(server);
}

/* Keep a piece of the body; true: go on reading. */
static bool take_piece(struct rest_call *call, const char *data, size_t bytes)
{
    struct ot_buf *body = call->body;
    const size_t body_max = call->server->body_max;
    if (atomic_load(&call->stage) == REST_OVERFULL || body == NULL || bytes > body_max - body->bytes) {
        atomic_store(&call->stage, REST_OVERFULL);
        return (call->discarded_bytes += bytes) <= DISCARD_MAX;
    }
    if (body->bytes + bytes > body->cap_bytes) {               /* chunked: it grows as it comes */
        struct ot_buf *grown = ot_buf_new(call->server->setup.body_pool, OT_MIN(OT_MAX((size_t)body->cap_bytes * 2, body->bytes + bytes), body_max));
        if (grown == NULL) {
            atomic_store(&call->stage, REST_OVERFULL);
            return true;
        }
        memcpy(grown->data, body->data, body->bytes);          /* only bodies without a length are moved */
        grown->bytes = body->bytes;
        ot_buf_unref(body);
        call->body = body = grown;
    }
    memcpy(body->data + body->bytes, data, bytes);             /* out of the connection's small read buffer */
    body->bytes += (uint32_t)bytes;
    return true;
}

static void wait_for_metadata(struct rest_call *call);

static void metadata_timer(struct ot_timer *timer) { wait_for_metadata(OT_CONTAINER(timer, struct rest_call, timer)); }

void rest_begin(struct rest_call *call)
{
    if ((call->route->flags & REST_ONCE) == 0 || !rest_once_begin(call)) call->route->handler(call);
}

static int32_t controller_of(struct rest_call *call)
{
    struct broker_view_cluster cluster;
    const struct broker_view *view = broker_view_take(call->broker);
    broker_view_cluster(view, &cluster);
    broker_view_give(view);
    return cluster.controller_id;
}

/* min_metadata_offset: read what was written elsewhere, or wait for it. */
static void wait_for_metadata(struct rest_call *call)
{
    struct broker_view_cluster cluster;
    static const char *const consistencies[] = { "local", "controller" };
    const int64_t wanted = rest_query_int(call, "min_metadata_offset", 0, INT64_MAX, 0);
    const int consistency = rest_query_choice(call, "consistency", consistencies, 2, 0);
    if (rest_faulty(call)) return;
    const struct broker_view *view = broker_view_take(call->broker);
    broker_view_cluster(view, &cluster);
    broker_view_give(view);
    if (cluster.version >= wanted) {
        const bool controls = cluster.controller_id == cluster.this_broker;
        if (consistency == 1 && !controls) {
            if (cluster.controller_id < 0) {
                rest_problem_more(call, OT_ERR_NOT_CONTROLLER, NULL, "GET /v1/cluster", "no broker is the controller now");
            } else if (call->arrived) {
                rest_problem_more(call, OT_ERR_NOT_CONTROLLER, NULL, "GET /v1/cluster", "broker %d is the controller", cluster.controller_id);
            } else {
                call->whither = controller_of;
                rest_hop_to(call, cluster.controller_id);
            }
            return;
        }
        rest_header_int(call, "Ottla-Metadata-Offset", cluster.version);
        if (controls) rest_header(call, "Ottla-Metadata-Lag-Ms", "0");
        rest_begin(call);
    } else if (call->stopping || ot_clock_boot_us() - call->started_us >= call->timeout_ms * 1000) {
        rest_problem_http(call, "HTTP_SERVICE_UNAVAILABLE", "metadata is at %lld here, %lld was asked for", (long long)cluster.version, (long long)wanted);
    } else {
        call->timer.fired = metadata_timer;
        ot_exec_timer_set(call->server->exec, &call->timer, ot_exec_now_us(call->server->exec) + 20000);
    }
}

void rest_work(struct rest_call *call)
{
    struct rest_server *server = call->server;
    call->begun_us = ot_clock_boot_us();
    call->next = server->first;
    if (server->first != NULL) server->first->prev = call;
    server->first = call;
    if (!rest_whither_good(call)) return;
    const int32_t to = rest_whither(call);
    if (to != broker_node_id(call->broker)) {
        call->whither = rest_whither;
        rest_hop_to(call, to);
    } else if ((call->route->flags & REST_META) != 0) {
        wait_for_metadata(call);
    } else {
        rest_begin(call);
    }
}

static void work(struct ot_task *task) { rest_work(OT_CONTAINER(task, struct rest_call, task)); }

static enum MHD_Result hand_over(struct rest_call *call)
{
    if (atomic_load(&call->stage) == REST_OVERFULL) {
        atomic_store(&call->stage, REST_NEW);
        rest_problem_http(call, "HTTP_CONTENT_TOO_LARGE", "the body is larger than %zu bytes, or than the memory there is for it now", call->server->body_max);
        return (enum MHD_Result)rest_queue(call);
    }
    rest_server_hold(call->server);            /* first: whoever stops sees either the hold, or we see that it stops */
    if (atomic_load(&call->server->stopping)) {
        rest_server_let_go(call->server);
        rest_problem_http(call, "HTTP_SERVICE_UNAVAILABLE", "the server is stopping");
        return (enum MHD_Result)rest_queue(call);
    }
    atomic_store(&call->stage, REST_WORKING);
    call->task.run = work;
    MHD_suspend_connection(call->connection);
    ot_exec_post(call->server->exec, &call->task);
    return MHD_YES;
}

static enum MHD_Result access_handler(void *arg, struct MHD_Connection *connection, const char *url, const char *method, const char *version, const char *data,
    size_t *data_bytes, void **slot)
{
    (void)arg; (void)url;
    struct rest_call *call = *slot;
    if (call == NULL) return MHD_NO;
    switch (atomic_load(&call->stage)) {
    case REST_NEW:
        MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)KEEP_ALIVE_S);
        call->target_cut = (uintptr_t)version != call->version_at;     /* both lie in the one line that was read */
        call->old_http = strcmp(version, "HTTP/1.1") != 0;
        if (!rest_admit(call, method)) return (enum MHD_Result)rest_queue(call);
        atomic_store(&call->stage, REST_READING);
        return MHD_YES;
    case REST_READING:
    case REST_OVERFULL:
        if (*data_bytes == 0) return hand_over(call);
        if (!take_piece(call, data, *data_bytes)) return MHD_NO;
        *data_bytes = 0;
        return MHD_YES;
    case REST_ANSWERED: return (enum MHD_Result)rest_queue(call);
    default: return MHD_YES;                                   /* WORKING: not called while suspended; QUEUED: nothing more to say */
    }
}

/* Paths are split before they are decoded, by us: the library's own unescaping would lose %2F. */
static size_t leave_escapes(void *arg, struct MHD_Connection *connection, char *text)
{
    (void)arg; (void)connection;
    return strlen(text);
}

OT_PRINTF(2, 0) static void library_log(void *arg, const char *format, va_list args)
{
    char text[300], field[OT_LOG_FIELD_BYTES];
    (void)arg;
    if (!ot_log_enabled("rest", OT_LOG_DEBUG)) return;
    vsnprintf(text, sizeof(text), format, args);
    text[strcspn(text, "\n")] = 0;
    ot_log(OT_LOG_DEBUG, "rest", "http_library", "text=%s", ot_log_field(field, text));
}

/* ---- start and stop */

static bool is_loopback(int fd)
{
    struct sockaddr_storage address = { 0 };
    socklen_t bytes = sizeof(address);
    if (getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) return false;
    if (address.ss_family == AF_UNIX) return true;
    if (address.ss_family == AF_INET) return (ntohl(((struct sockaddr_in *)&address)->sin_addr.s_addr) >> 24) == 127;
    return address.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((struct sockaddr_in6 *)&address)->sin6_addr);
}

static enum ot_err check_exposure(const struct rest_setup *setup, char *text_out, size_t text_bytes)
{
    for (uint32_t i = 0; i < setup->listener_count; i++) {
        for (uint32_t k = 0; k < setup->listeners[i].fd_count; k++) {
            if (setup->allow_exposed || is_loopback(setup->listeners[i].fds[k])) continue;
            snprintf(text_out, text_bytes, "rest.listeners names %s, which is reachable from other machines, and REST knows no authentication yet: "
                "listen on 127.0.0.1, or set rest.auth.anonymous=true to serve everybody", setup->listeners[i].host[0] == 0 ? "every address" : setup->listeners[i].host);
            return OT_ERR_INVALID_CONFIG;
        }
    }
    return OT_OK;
}

static void add_name(struct rest_server *server, const char *name)
{
    if (name == NULL || name[0] == 0 || server->name_count == REST_NAMES_MAX) return;
    char *slot = server->names[server->name_count];
    snprintf(slot, sizeof(server->names[0]), "%s", name);
    server->name_list[server->name_count++] = slot;
}

static struct MHD_Daemon *start_daemon(struct rest_server *server, int fd)
{
    const struct rest_setup *setup = &server->setup;
    const unsigned connections = setup->connections_max > 0 ? setup->connections_max : CONNECTIONS;
    const unsigned per_address = setup->connections_per_address_max > 0 ? setup->connections_per_address_max : PER_ADDRESS;
    return MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL, access_handler, server,
        MHD_OPTION_EXTERNAL_LOGGER, library_log, NULL,
        MHD_OPTION_LISTEN_SOCKET, (MHD_socket)fd,
        MHD_OPTION_URI_LOG_CALLBACK, target_seen, server,
        MHD_OPTION_UNESCAPE_CALLBACK, leave_escapes, NULL,
        MHD_OPTION_NOTIFY_COMPLETED, completed, server,
        MHD_OPTION_CONNECTION_LIMIT, connections,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, per_address,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HEADER_READ_S,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY_BYTES,
        MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_END);
}

static void started(struct ot_task *task) { rest_sampler_start(OT_CONTAINER(task, struct rest_server, start_task)); }

static enum ot_err start_daemons(struct rest_server *server)
{
    for (uint32_t i = 0; i < server->setup.listener_count; i++) {
        for (uint32_t k = 0; k < server->listeners[i].fd_count; k++) {
            if (server->daemon_count == REST_DAEMONS_MAX) return OT_ERR_TOO_LARGE;
            struct MHD_Daemon *daemon = start_daemon(server, server->listeners[i].fds[k]);
            if (daemon == NULL) return OT_ERR_IO;
            server->daemons[server->daemon_count++] = daemon;
        }
    }
    return OT_OK;
}

enum ot_err rest_server_start(struct broker *broker, const struct rest_setup *setup, struct rest_server **out, char *text_out, size_t text_bytes)
{
    char machine[256] = "";
    enum ot_err err = check_exposure(setup, text_out, text_bytes);
    if (err != OT_OK) return err;
    text_out[0] = 0;
    struct rest_server *server = setup->listener_count > REST_DAEMONS_MAX ? NULL : calloc(1, sizeof(*server));
    if (server == NULL) return OT_ERR_NO_MEMORY;
    server->broker = broker;
    server->setup = *setup;
    memcpy(server->listeners, setup->listeners, setup->listener_count * sizeof(server->listeners[0]));
    pthread_mutex_init(&server->mutex, NULL);
    pthread_mutex_init(&server->login_mutex, NULL);
    pthread_cond_init(&server->idle, NULL);
    ot_map_init(&server->topic_rates);
    rest_history_init(&server->history, setup->metrics, setup->budget == NULL ? NULL : &setup->budget->pools[OT_MEM_metrics], (uint32_t)broker_config(broker)->metrics_history_max_series);
    server->history_path = setup->history_path == NULL || setup->history_path[0] == 0 ? NULL : strdup(setup->history_path);
    for (uint32_t i = 0; i < setup->listener_count; i++) add_name(server, setup->listeners[i].host);
    if (gethostname(machine, sizeof(machine) - 1) == 0) add_name(server, machine);
    snprintf(server->served_by, sizeof(server->served_by), "%d", broker_node_id(broker));
    server->body_max = OT_MIN((size_t)broker_config(broker)->rest_max_request_bytes, ot_pool_cap_bytes(setup->body_pool));
    rest_limits_init(&server->limits, setup->requests_per_second > 0 ? setup->requests_per_second : PER_SECOND, setup->requests_burst > 0 ? setup->requests_burst : BURST);
    err = ot_exec_thread_start("rest", &server->thread);
    if (err == OT_OK) {
        server->exec = ot_exec_thread_exec(server->thread);
        server->start_task.run = started;
        ot_exec_post(server->exec, &server->start_task);
        err = start_daemons(server);
    }
    if (err != OT_OK) {
        rest_server_stop(server);
        return err;
    }
    rest_peer_open(server);
    *out = server;
    return OT_OK;
}

static void cancel_all(struct ot_task *task)
{
    struct rest_server *server = OT_CONTAINER(task, struct rest_server, cancel_task);
    for (struct rest_call *call = server->first, *next; call != NULL; call = next) {
        next = call->next;
        call->stopping = true;
        if (call->cancel != NULL) call->cancel(call);
    }
    rest_streams_stop(server);
    rest_server_let_go(server);
}

/* Under the mutex. What was done is told to who asked for it: the library drops with its connections what has not left. A client that reads nothing is waited for no longer than that. */
static void wait_until_sent(struct rest_server *server)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += SEND_S;
    for (int waited = 0; server->sending > 0 && waited == 0;) waited = pthread_cond_clockwait(&server->idle, &server->mutex, CLOCK_MONOTONIC, &until);
}

void rest_server_stop(struct rest_server *server)
{
    if (server == NULL) return;
    atomic_store(&server->stopping, true);
    rest_peer_close(server);
    if (server->thread != NULL) {
        rest_server_hold(server);
        server->cancel_task.run = cancel_all;
        ot_exec_post(server->exec, &server->cancel_task);
        pthread_mutex_lock(&server->mutex);
        while (server->working > 0) pthread_cond_wait(&server->idle, &server->mutex);
        wait_until_sent(server);
        pthread_mutex_unlock(&server->mutex);
    }
    for (uint32_t i = 0; i < server->daemon_count; i++) MHD_stop_daemon(server->daemons[i]);
    ot_exec_thread_stop(server->thread);
    rest_sampler_free(server);
    rest_onces_free(server);
    pthread_mutex_destroy(&server->limits.mutex);
    pthread_mutex_destroy(&server->login_mutex);
    pthread_mutex_destroy(&server->mutex);
    pthread_cond_destroy(&server->idle);
    free(server);
}
