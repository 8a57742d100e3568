#include "cli/kafka_door.h"

#include "base/log.h"
#include "broker/config_checks.h"
#include "cli/port.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* A listener that promises encryption or authentication must not be served without: what its name stands for is in the map. */
static int check_protocol(const struct broker_config *config, const char *listener)
{
    char protocol[16];
    if (!broker_config_protocol_of(config->listener_security_protocol_map, listener, protocol))
        return cli_fail(CLI_USAGE, "ottla server --set listener.security.protocol.map=NAME:PLAINTEXT", "No security protocol defined for listener %s in listener.security.protocol.map", listener);
    if (strcasecmp(protocol, "PLAINTEXT") != 0)
        return cli_fail(CLI_USAGE, "ottla server --set listeners=PLAINTEXT://127.0.0.1:9092", "listeners: %s is not served yet, and nothing less is served in its place", protocol);
    return -1;
}

/* What is left of the addresses once those of Kafka's controllers are taken out. */
static int leave_out_controllers(const struct broker_config *config, struct ot_net_address *addresses, int count)
{
    int kept = 0;
    for (int i = 0; i < count; i++) {
        if (broker_config_listener_is_controllers(config->controller_listener_names, addresses[i].scheme)) {
            ot_log(OT_LOG_WARN, "net", "controller_listener_left_out", "listener=%s port=%d text=\"controller.listener.names: brokers speak to each other on peer.listeners\"",
                addresses[i].scheme, addresses[i].port);
            continue;
        }
        addresses[kept++] = addresses[i];
    }
    return kept;
}

/* Without an advertised name clients are told the address that they reached. */
static struct broker_listener told_of(const struct cli_kafka_door *door, const struct ot_net_address *address, int32_t port)
{
    struct broker_listener out = { .name = address->scheme, .host = address->host, .port = port, .advertised_port = port, .security = "PLAINTEXT" };
    for (uint32_t i = 0; i < door->advertised_count; i++) {
        if (strcmp(door->advertised[i].scheme, address->scheme) != 0) continue;
        out.advertised_host = door->advertised[i].host;
        out.advertised_port = door->advertised[i].port;
    }
    return out;
}

int cli_kafka_read(struct cli_kafka_door *door, const struct broker_config *config)
{
    char why[400];
    int count = cli_addresses_parse(config->listeners, door->addresses, CLI_LISTENERS_MAX, why, sizeof(why));
    const int advertised = count < 0 ? 0 : cli_addresses_parse(config->advertised_listeners, door->advertised, CLI_LISTENERS_MAX, why, sizeof(why));
    if (count < 0 || advertised < 0) return cli_fail(CLI_USAGE, NULL, "%s: %s", count < 0 ? "listeners" : "advertised.listeners", why);
    if (count == 0) return cli_fail(CLI_USAGE, NULL, "listeners is empty: a broker without a Kafka listener serves nobody");
    door->advertised_count = (uint32_t)advertised;
    count = leave_out_controllers(config, door->addresses, count);
    if (count == 0)
        return cli_fail(CLI_USAGE, "ottla server --set listeners=PLAINTEXT://127.0.0.1:9092",
            "listeners: all are in controller.listener.names: a broker without another one serves nobody (every voter here is a broker, too)");
    for (int i = 0; i < count; i++) {
        struct ot_net_address *address = &door->addresses[i];
        if (address->scheme[0] == 0) snprintf(address->scheme, sizeof(address->scheme), "PLAINTEXT");
        const int wrong = check_protocol(config, address->scheme);
        if (wrong >= 0) return wrong;
        door->listeners[i] = told_of(door, address, address->port);
        if (!ot_net_is_loopback(address->host))
            ot_log(OT_LOG_WARN, "net", "exposed", "listener=%s host=%s port=%d authentication=none", address->scheme, address->host, address->port);
    }
    door->listener_count = (uint32_t)count;
    door->listeners_text = config->listeners;
    door->map_text = config->listener_security_protocol_map;
    return -1;
}

int cli_kafka_bind(struct cli_kafka_door *door, const struct broker_config *config)
{
    for (uint32_t i = 0; i < door->listener_count; i++) {
        struct broker_listener *listener = &door->listeners[i];
        uint16_t port = 0;
        struct rpc_kafka_listener *one = &door->doors[i];
        char why[300] = "", taken[CLI_PORT_TAKEN_BYTES];
        *one = (struct rpc_kafka_listener){ .name = listener->name, .advertised_host = listener->advertised_host, .advertised_port = listener->advertised_port };
        enum ot_err err = ot_net_listen(listener->host, (uint16_t)listener->port, config->socket_listen_backlog_size, one->fds, &one->fd_count, &port, why, sizeof(why));
        if (err != OT_OK)
            return cli_fail(CLI_FAILED, "ottla server --set listeners=PLAINTEXT://127.0.0.1:19092", "%s%s", why[0] != 0 ? why : ot_err_text(err), err == OT_ERR_EXISTS ? cli_port_taken((uint16_t)listener->port, taken) : "");
        listener->port = port;
        if (listener->advertised_host == NULL) listener->advertised_port = port;
        door->live.addresses[i] = door->addresses[i];
        door->live.ports[i] = port;
    }
    door->live.count = door->listener_count;
    return -1;
}

/* ---- while the server runs */

/* What the configuration says now. False: nothing that can be served; the log has words. */
static bool read_next(const struct broker_config *config, struct cli_kafka_live *next)
{
    char why[400] = "", field[OT_LOG_FIELD_BYTES];
    int count = 0;
    *next = (struct cli_kafka_live){ .count = 0 };
    if (!broker_config_listeners_valid(config, NULL, NULL, why, sizeof(why)) || (count = cli_addresses_parse(config->listeners, next->addresses, CLI_LISTENERS_MAX, why, sizeof(why))) < 0) {
        ot_log(OT_LOG_ERROR, "net", "listeners_unchanged", "reason=%s", ot_log_field(field, why));
        return false;
    }
    next->count = (uint32_t)leave_out_controllers(config, next->addresses, count);
    for (uint32_t i = 0; i < next->count; i++)
        if (next->addresses[i].scheme[0] == 0) snprintf(next->addresses[i].scheme, sizeof(next->addresses[i].scheme), "PLAINTEXT");
    return true;
}

static bool same_place(const struct ot_net_address *a, const struct ot_net_address *b)
{
    return strcmp(a->scheme, b->scheme) == 0 && strcmp(a->host, b->host) == 0 && a->port == b->port;
}

static uint32_t of_name(const struct cli_kafka_live *live, const char *name)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < live->count; i++) count += strcmp(live->addresses[i].scheme, name) == 0;
    return count;
}

/* All that has this name in one is in the other, too, and nothing else. */
static bool same_of_name(const struct cli_kafka_live *a, const struct cli_kafka_live *b, const char *name)
{
    for (uint32_t i = 0; i < a->count; i++) {
        bool there = strcmp(a->addresses[i].scheme, name) != 0;
        for (uint32_t k = 0; k < b->count && !there; k++) there = same_place(&a->addresses[i], &b->addresses[k]);
        if (!there) return false;
    }
    return of_name(a, name) == of_name(b, name);
}

static void drop(struct cli_kafka_live *live, uint32_t at)
{
    live->count--;
    for (uint32_t i = at; i < live->count; i++) {
        live->addresses[i] = live->addresses[i + 1];
        live->ports[i] = live->ports[i + 1];
    }
}

/* First all that goes: what comes may want its port. */
static void close_old(struct cli_kafka_door *door, const struct cli_kafka_live *next)
{
    struct cli_kafka_live *live = &door->live;
    for (uint32_t i = 0; i < live->count;) {
        char name[sizeof(live->addresses[0].scheme)];
        snprintf(name, sizeof(name), "%s", live->addresses[i].scheme);
        if (same_of_name(live, next, name)) {
            i++;
            continue;
        }
        const enum ot_err err = rpc_kafka_server_unlisten(door->server, name);
        ot_log(err == OT_OK ? OT_LOG_INFO : OT_LOG_ERROR, "net", "listener_closed", "listener=%s host=%s port=%d error=%s", name, live->addresses[i].host, live->ports[i], ot_err_name(err));
        if (err != OT_OK) {
            i++;
            continue;
        }
        for (uint32_t k = live->count; k-- > 0;)
            if (strcmp(live->addresses[k].scheme, name) == 0) drop(live, k);
        i = 0;
    }
}

static void open_one(struct cli_kafka_door *door, const struct broker_config *config, const struct ot_net_address *address)
{
    struct cli_kafka_live *live = &door->live;
    uint16_t port = 0;
    char why[300] = "", taken[CLI_PORT_TAKEN_BYTES] = "", field[OT_LOG_FIELD_BYTES];
    if (live->count == CLI_LISTENERS_MAX) return;      /* cannot be: those that are to stay and those that come are no more than the configuration may name */
    struct broker_listener told = told_of(door, address, address->port);
    struct rpc_kafka_listener one = { .name = told.name, .advertised_host = told.advertised_host, .advertised_port = told.advertised_port };
    enum ot_err err = ot_net_listen(address->host, address->port, config->socket_listen_backlog_size, one.fds, &one.fd_count, &port, why, sizeof(why));
    if (err == OT_ERR_EXISTS) (void)cli_port_taken(address->port, taken);
    if (err == OT_OK) err = rpc_kafka_server_listen(door->server, &one);
    if (err != OT_OK) {
        char whole[CLI_PORT_TAKEN_BYTES + 300];
        snprintf(whole, sizeof(whole), "%s%s", why[0] != 0 ? why : err == OT_ERR_TOO_LARGE ? "too many changes of listeners since the start" : ot_err_text(err), taken);
        ot_log(OT_LOG_ERROR, "net", "listener_not_opened", "listener=%s host=%s port=%d reason=%s", address->scheme, address->host, address->port, ot_log_field(field, whole));
        return;
    }
    live->addresses[live->count] = *address;
    live->ports[live->count++] = port;
    ot_log(OT_LOG_INFO, "net", "listener_opened", "listener=%s host=%s port=%d", address->scheme, address->host, port);
    if (!ot_net_is_loopback(address->host)) ot_log(OT_LOG_WARN, "net", "exposed", "listener=%s host=%s port=%d authentication=none", address->scheme, address->host, port);
}

static void tell_cluster(struct cli_kafka_door *door)
{
    struct broker_listener all[CLI_LISTENERS_MAX + 1];
    uint32_t count = 0;
    for (; count < door->live.count; count++) all[count] = told_of(door, &door->live.addresses[count], door->live.ports[count]);
    if (door->more != NULL) all[count++] = *door->more;
    broker_listeners_changed(door->broker, all, count);
}

static void follow(struct cli_kafka_door *door)
{
    const struct broker_config *config = broker_config_current(door->config);
    struct cli_kafka_live next;
    bool same = true;
    if (!read_next(config, &next)) return;
    for (uint32_t i = 0; i < next.count; i++) same = same && same_of_name(&door->live, &next, next.addresses[i].scheme);
    if (same && next.count == door->live.count) return;
    close_old(door, &next);
    for (uint32_t i = 0; i < next.count; i++) {
        bool there = false;
        for (uint32_t k = 0; k < door->live.count && !there; k++) there = same_place(&next.addresses[i], &door->live.addresses[k]);
        if (!there) open_one(door, config, &next.addresses[i]);
    }
    tell_cluster(door);
}

static void follow_run(struct ot_task *task)
{
    struct cli_kafka_door *door = OT_CONTAINER(task, struct cli_kafka_door, task);
    bool more = true;
    while (more) {
        follow(door);
        pthread_mutex_lock(&door->mutex);
        more = door->again && !door->ended;
        door->again = false;
        if (!more) {
            door->running = false;
            pthread_cond_signal(&door->changed);
        }
        pthread_mutex_unlock(&door->mutex);
    }
}

/* Texts of the configuration are interned: the same text is the same pointer. Blocks on nothing that takes long. */
static void config_changed(void *arg, const struct broker_config *now)
{
    struct cli_kafka_door *door = arg;
    pthread_mutex_lock(&door->mutex);
    if (now->listeners != door->listeners_text || now->listener_security_protocol_map != door->map_text) {
        const bool post = !door->running && !door->ended;
        door->listeners_text = now->listeners;
        door->map_text = now->listener_security_protocol_map;
        door->again = door->running;
        door->running = door->running || post;
        if (post) ot_exec_post(door->exec, &door->task);
    }
    pthread_mutex_unlock(&door->mutex);
}

void cli_kafka_follow(struct cli_kafka_door *door, struct broker *broker, struct broker_config_store *config, struct ot_exec *exec, const struct broker_listener *more)
{
    door->broker = broker;
    door->config = config;
    door->exec = exec;
    door->more = more;
    door->task.run = follow_run;
    pthread_mutex_init(&door->mutex, NULL);
    pthread_cond_init(&door->changed, NULL);
    door->following = true;
    broker_config_watch(config, config_changed, door);
    config_changed(door, broker_config_current(config));       /* what the cluster keeps about this broker's listeners came after they were bound */
}

void cli_kafka_unfollow(struct cli_kafka_door *door)
{
    if (!door->following) return;
    broker_config_unwatch(door->config, config_changed, door);
    pthread_mutex_lock(&door->mutex);
    door->ended = true;
    while (door->running) pthread_cond_wait(&door->changed, &door->mutex);
    pthread_mutex_unlock(&door->mutex);
    pthread_mutex_destroy(&door->mutex);
    pthread_cond_destroy(&door->changed);
    door->following = false;
}
