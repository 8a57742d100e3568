#include "cli/peer_door.h"

#include "base/io.h"
#include "base/log.h"
#include "broker/voters.h"
#include "cli/port.h"
#include "cli/server_config.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define USUAL_PORT 9093
#define SECRET_BYTES_MIN 16
#define STRANGERS_MAX 2048                 /* whatever memory there is: each is a descriptor, and the brokers of a large cluster may all come at once */

static bool given(const char *text) { return text != NULL && text[0] != 0; }

static bool is_everywhere(const char *host) { return host[0] == 0 || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0; }

static int read_one(const char *key, const char *text, struct ot_net_address *out)
{
    char why[300] = "";
    struct ot_net_address list[CLI_LISTENERS_MAX];
    const int count = cli_addresses_parse(text, list, CLI_LISTENERS_MAX, why, sizeof(why));
    if (count < 0) return cli_fail(CLI_USAGE, NULL, "%s: %s", key, why);
    if (count > 1) return cli_fail(CLI_USAGE, NULL, "%s: one address is enough: an address of the machine, or 0.0.0.0 for all", key);
    if (count == 1) *out = list[0];
    return -1;
}

/* This node's own place in coordinator.voters; false: it is not there. */
static int own_place(const struct broker_config *config, struct ot_net_address *out, bool *there)
{
    struct coord_listed_voter voters[COORD_VOTERS_MAX];
    char hosts[COORD_VOTERS_MAX][BROKER_VOTER_HOST_BYTES], why[300] = "";
    const int joins = broker_voters_parse(config->coordinator_join, voters, hosts, why, sizeof(why));
    if (joins < 0) return cli_fail(CLI_USAGE, NULL, "coordinator.join: %s", why);
    const int count = broker_voters_parse(config->coordinator_voters, voters, hosts, why, sizeof(why));
    if (count < 0) return cli_fail(CLI_USAGE, NULL, "coordinator.voters: %s", why);
    *there = false;
    for (int i = 0; i < count; i++) {
        if (voters[i].id != config->node_id) continue;
        *there = true;
        *out = (struct ot_net_address){ .port = (uint16_t)voters[i].port };
        memcpy(out->host, hosts[i], sizeof(out->host));
    }
    return -1;
}

static int read_secret(struct cli_peer_door *door, const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    struct stat status;
    enum ot_err err = ot_io_read_file(ot_io_real(), path, sizeof(door->secret), &text, &bytes);
    if (err != OT_OK) return cli_fail(CLI_USAGE, NULL, "peer.secret.file: %s cannot be read: %s", path, ot_err_text(err));
    while (bytes > 0 && strchr(" \t\r\n", text[bytes - 1]) != NULL) bytes--;
    memcpy(door->secret, text, bytes);
    explicit_bzero(text, bytes);
    free(text);
    if (bytes < SECRET_BYTES_MIN) return cli_fail(CLI_USAGE, NULL, "peer.secret.file: a secret in %s of %zu characters is too short: it has to have %d", path, bytes, SECRET_BYTES_MIN);
    if (stat(path, &status) == 0 && (status.st_mode & 0137) != 0) ot_log(OT_LOG_WARN, "peer", "secret_exposed", "file=%s text=\"its mode is wider than 0640\"", path);
    door->setup.secret = door->secret;
    door->setup.secret_bytes = (uint32_t)bytes;
    return -1;
}

int cli_peer_read(struct cli_peer_door *door, const struct broker_config *config)
{
    struct ot_net_address own = { 0 };
    bool listed = false;
    int code = own_place(config, &own, &listed);
    if (code >= 0) return code;
    door->wanted = given(config->peer_listeners) || given(config->coordinator_voters) || given(config->coordinator_join);
    if (!door->wanted) return -1;
    door->listener = listed ? own : (struct ot_net_address){ .host = "127.0.0.1", .port = USUAL_PORT };
    if ((code = read_one("peer.listeners", config->peer_listeners, &door->listener)) >= 0) return code;
    door->advertised = listed ? own : door->listener;
    if ((code = read_one("peer.advertised.listeners", config->peer_advertised_listeners, &door->advertised)) >= 0) return code;
    if (is_everywhere(door->advertised.host))
        return cli_fail(CLI_USAGE, "ottla server --set peer.advertised.listeners=broker1.example.com:9093",
            "peer.listeners is on every address of this machine: say in peer.advertised.listeners where other brokers find it");
    return given(config->peer_secret_file) ? read_secret(door, config->peer_secret_file) : -1;
}

/* Who is not on loopback can be reached by anybody, so brokers there prove that they belong together. */
static bool needs_secret(const struct cli_peer_door *door)
{
    char name[OT_NET_NAME_BYTES], host[46];
    for (uint32_t i = 0; i < door->door.fd_count; i++) {
        ot_net_socket_name(door->door.fds[i], true, name, host, NULL);
        if (!ot_net_is_loopback(host)) return true;
    }
    return false;
}

int cli_peer_bind(struct cli_peer_door *door, const struct broker_config *config)
{
    char why[300] = "", taken[CLI_PORT_TAKEN_BYTES];
    uint16_t port = 0;
    if (!door->wanted) return -1;
    door->door = (struct rpc_kafka_listener){ .name = BROKER_PEER_LISTENER };
    enum ot_err err = ot_net_listen(door->listener.host, door->listener.port, config->socket_listen_backlog_size, door->door.fds, &door->door.fd_count, &port, why, sizeof(why));
    if (err != OT_OK) return cli_fail(CLI_FAILED, NULL, "peer.listeners: %s%s", why[0] != 0 ? why : ot_err_text(err), err == OT_ERR_EXISTS ? cli_port_taken(door->listener.port, taken) : "");
    for (uint32_t i = 0; i < door->door.fd_count; i++)
        if (ot_net_congestion(door->door.fds[i], config->peer_congestion_control) != OT_OK)
            return cli_fail(CLI_USAGE, NULL, "peer.congestion.control: this system has no %s", config->peer_congestion_control);
    if (door->setup.secret_bytes == 0 && needs_secret(door))
        return cli_fail(CLI_USAGE, "head -c 32 /dev/urandom | base64 > peer.secret, on every broker, and --set peer.secret.file=peer.secret",
            "peer.listeners is not on loopback, and without peer.secret.file anybody who reaches it could speak as a broker");
    if (door->advertised.port == 0) door->advertised.port = port;
    door->setup.host = door->advertised.host;
    door->setup.port = door->advertised.port;
    return -1;
}

/* A connection that said no hello yet may hold a request in work and one on its way, and as much of answers. All of them together hold half of either memory at most: the rest is the brokers'. */
static uint32_t strangers_max(const struct ot_pool *requests, const struct ot_pool *answers)
{
    const size_t each_bytes = 2 * RPC_HELLO_BYTES_MAX, bytes = OT_MIN(ot_pool_cap_bytes(requests), ot_pool_cap_bytes(answers)) / 2;
    return (uint32_t)OT_MIN(OT_MAX(bytes / each_bytes, (size_t)1), (size_t)STRANGERS_MAX);
}

enum ot_err cli_peer_start(struct cli_peer_door *door, struct broker *broker, struct ot_mem_budget *budget, struct ot_exec *io_exec, struct ot_metrics *metrics)
{
    if (!door->wanted) return OT_OK;
    struct rpc_kafka_setup setup = { .listeners = &door->door, .listener_count = 1, .peer = true, .io = ot_io_real(), .io_exec = io_exec,
        .metrics = metrics,
        .system_buffers = true,            /* followers read in megabytes: Kafka's 102400 is a wake-up for every hundred kilobytes */
        .small_pool = ot_mem_pool_buffers(&budget->pools[OT_MEM_peer_requests]), .small_bytes = BROKER_PEER_SMALL_BYTES,
        .request_pool = ot_mem_pool_buffers(&budget->pools[OT_MEM_peers]), .response_pool = ot_mem_pool_buffers(&budget->pools[OT_MEM_peer_responses]) };
    if (setup.request_pool == NULL || setup.small_pool == NULL || setup.response_pool == NULL) return OT_ERR_NO_MEMORY;
    setup.strangers_max = strangers_max(setup.small_pool, setup.response_pool);
    const enum ot_err err = rpc_kafka_server_start(broker, &setup, &door->server);
    door->door.fd_count = 0;               /* they passed over in any case */
    return err;
}

void cli_peer_stop(struct cli_peer_door *door)
{
    rpc_kafka_server_stop(door->server, 1000);
    rpc_kafka_server_free(door->server);
    door->server = NULL;
    for (uint32_t i = 0; i < door->door.fd_count; i++) close(door->door.fds[i]);
    door->door.fd_count = 0;
    explicit_bzero(door->secret, sizeof(door->secret));
}
