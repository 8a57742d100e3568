#include "cli/rest_door.h"
#include "cli/port.h"
#include "cli/version.h"
#include "base/log.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define UNIX_SCHEME "unix"
#define USUAL_SOCKET "/run/ottla/admin.sock"

int cli_rest_addresses(const char *list, struct ot_net_address *out, uint32_t max, char *why, size_t why_bytes)
{
    uint32_t count = 0;
    for (const char *at = list == NULL ? "" : list; *at != 0;) {
        const size_t length = strcspn(at, ",");
        const char *from = at + strspn(at, " ");
        size_t bytes = from > at + length ? 0 : length - (size_t)(from - at);
        while (bytes > 0 && from[bytes - 1] == ' ') bytes--;
        if (bytes > 0 && count == max) {
            snprintf(why, why_bytes, "more than %u addresses", max);
            return -1;
        }
        if (bytes > 6 && strncmp(from, UNIX_SCHEME ":/", 6) == 0) {
            if (bytes - 5 >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
                snprintf(why, why_bytes, "%.*s: longer than a socket's path may be", (int)bytes, from);
                return -1;
            }
            struct ot_net_address *address = &out[count++];
            *address = (struct ot_net_address){ .scheme = UNIX_SCHEME };
            memcpy(address->host, from + 5, bytes - 5);
        } else if (bytes > 0 && ot_net_address_parse(from, bytes, &out[count++], why, why_bytes) != OT_OK) {
            return -1;
        }
        at += length + (at[length] == ',');
    }
    return (int)count;
}

/* Left over from a server that was killed: nobody answers. */
static bool is_stale(const struct sockaddr_un *address)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool refused = fd >= 0 && connect(fd, (const struct sockaddr *)(const void *)address, sizeof(*address)) != 0 && errno == ECONNREFUSED;
    if (fd >= 0) close(fd);
    return refused;
}

/* 0660: whoever is in the group of the process may administer. -1 with errno. */
static int listen_at(const char *path, int backlog)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    if (access(path, F_OK) == 0 && is_stale(&address)) (void)unlink(path);
    const mode_t before = umask(0117);         /* no threads yet */
    const bool bound = bind(fd, (const struct sockaddr *)(const void *)&address, sizeof(address)) == 0;
    umask(before);
    if (bound && listen(fd, backlog) == 0) return fd;
    const int why = errno;
    close(fd);
    errno = why;
    return -1;
}

/* -1: go on. The usual place is left out where it cannot be had: no /run/ottla, not ours, or the socket of another server. */
static int bind_path(struct rest_listener *listener, const char *path, int backlog, bool *left_out)
{
    const int fd = listen_at(path, backlog);
    *left_out = fd < 0 && strcmp(path, USUAL_SOCKET) == 0;
    if (*left_out) ot_log(errno == ENOENT ? OT_LOG_DEBUG : OT_LOG_INFO, "rest", "no_admin_socket", "path=%s reason=%s", path, strerrorname_np(errno));
    if (*left_out) return -1;
    if (fd < 0 && errno == EADDRINUSE) return cli_fail(CLI_FAILED, NULL, "rest.listeners: another server listens on %s", path);
    if (fd < 0) return cli_fail(CLI_FAILED, NULL, "rest.listeners: no socket at %s: %s", path, strerror(errno));
    listener->fds[listener->fd_count++] = fd;
    return -1;
}

int cli_rest_bind(struct cli_rest_door *door, const struct broker_config *config)
{
    char why[400] = "", taken[CLI_PORT_TAKEN_BYTES];
    const int count = cli_rest_addresses(config->rest_listeners, door->addresses, CLI_LISTENERS_MAX, why, sizeof(why));
    if (count < 0) return cli_fail(CLI_USAGE, NULL, "rest.listeners: %s", why);
    for (int i = 0; i < count; i++) {
        const struct ot_net_address *address = &door->addresses[i];
        struct rest_listener *listener = &door->listeners[door->listener_count];
        if (strcmp(address->scheme, UNIX_SCHEME) == 0) {
            bool left_out = false;
            const int code = bind_path(listener, address->host, config->socket_listen_backlog_size, &left_out);
            if (code >= 0) return code;
            if (left_out) continue;
            door->paths[door->path_count++] = address->host;
            listener->host = "localhost";
        } else {
            enum ot_err err = ot_net_listen(address->host, address->port, config->socket_listen_backlog_size, listener->fds, &listener->fd_count, &listener->port, why, sizeof(why));
            if (err != OT_OK)
                return cli_fail(CLI_FAILED, "ottla server --set rest.listeners=http://127.0.0.1:19095", "%s%s", why[0] != 0 ? why : ot_err_text(err), err == OT_ERR_EXISTS ? cli_port_taken(address->port, taken) : "");
            listener->host = address->host;
        }
        door->listener_count++;
    }
    return -1;
}

void cli_rest_wait(struct cli_rest_door *door) { cli_rest_waiting_start(&door->waiting, door->listeners, door->listener_count); }

static uint32_t list_apis(struct rest_api_row *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < rpc_api_count; i++) {
        const struct ot_api *api = ot_api_find(rpc_apis[i].key);
        if ((api->flags & OT_API_ON_PEER) != 0) continue;
        out[count++] = (struct rest_api_row){ api->key, api->advertised_min, rpc_api_max(&rpc_apis[i], api), api->name };
    }
    return count;
}

struct listing { void (*each)(void *arg, const struct rest_connection_row *row); void *arg; };

static void pass_on(void *arg, const struct ot_conn_view *view)
{
    const struct listing *listing = arg;
    const struct rest_connection_row row = { .id = view->id, .listener = view->listener, .address = view->peer, .client_id = view->client_id,
        .software_name = view->software_name, .software_version = view->software_version, .opened_wall_ms = view->opened_wall_ms, .requests = view->requests,
        .bytes_in = view->bytes_in, .bytes_out = view->bytes_out };
    listing->each(listing->arg, &row);
}

static void list_connections(void *arg, void (*each)(void *each_arg, const struct rest_connection_row *row), void *each_arg)
{
    struct listing listing = { each, each_arg };
    ot_net_connections(rpc_kafka_server_net(arg), pass_on, &listing);
}

static bool close_connection(void *arg, uint64_t id) { return ot_net_kick(rpc_kafka_server_net(arg), id, "closed by an operator"); }

enum ot_err cli_rest_start(struct cli_rest_door *door, struct broker *broker, struct rpc_kafka_server *kafka, struct ot_mem_budget *budget, struct ot_metrics *metrics,
    struct broker_slow *slow, bool peers, char *text_out, size_t text_bytes)
{
    char dirs[4096], history[4200] = "";
    const char *paths[CLI_DIRS_MAX];
    struct rest_setup setup = {
        .listeners = door->listeners,
        .listener_count = door->listener_count,
        .metrics = metrics,
        .body_pool = ot_mem_pool_buffers(&budget->pools[OT_MEM_rest]),
        .budget = budget,
        .slow = slow,
        .history_path = history,
        .version = OTTLA_VERSION,
        .commit = OTTLA_COMMIT,
        .apis = door->apis,
        .api_count = list_apis(door->apis),
        .connections = list_connections,
        .close_connection = close_connection,
        .connections_arg = kafka,
        .allow_exposed = broker_config(broker)->rest_auth_anonymous,
    };
    text_out[0] = 0;
    cli_rest_waiting_stop(&door->waiting);
    if (cli_dirs_split(broker_config(broker)->log_dirs, dirs, sizeof(dirs), paths, CLI_DIRS_MAX) > 0) snprintf(history, sizeof(history), "%s/metrics.history", paths[0]);
    if (door->listener_count == 0 && !peers) return OT_OK;     /* other brokers' clients are answered without a listener too */
    return setup.body_pool == NULL ? OT_ERR_NO_MEMORY : rest_server_start(broker, &setup, &door->server, text_out, text_bytes);
}

void cli_rest_stop(struct cli_rest_door *door)
{
    cli_rest_waiting_stop(&door->waiting);
    for (uint32_t i = 0; door->server == NULL && i < door->listener_count; i++)
        for (uint32_t k = 0; k < door->listeners[i].fd_count; k++) close(door->listeners[i].fds[k]);
    rest_server_stop(door->server);
    for (uint32_t i = 0; i < door->path_count; i++) (void)unlink(door->paths[i]);
    door->server = NULL;
    door->listener_count = door->path_count = 0;
}

void cli_rest_told(const struct cli_rest_door *door, char *out, size_t out_bytes)
{
    size_t used = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < door->listener_count; i++) {
        const struct rest_listener *listener = &door->listeners[i];
        if (listener->port == 0 || used >= out_bytes) continue;        /* a socket file */
        const bool six = strchr(listener->host, ':') != NULL;
        const int more = snprintf(out + used, out_bytes - used, "%shttp://%s%s%s:%u", used > 0 ? "," : "", six ? "[" : "", listener->host, six ? "]" : "", listener->port);
        used += more > 0 ? (size_t)more : 0;
    }
    for (uint32_t i = 0; i < door->path_count && used < out_bytes; i++) {
        const int more = snprintf(out + used, out_bytes - used, "%s" UNIX_SCHEME ":%s", used > 0 ? "," : "", door->paths[i]);
        used += more > 0 ? (size_t)more : 0;
    }
}
