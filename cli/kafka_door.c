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
int cli_kafka_read(struct cli_kafka_door *door, const struct broker_config *config)
{
    char why[400];
    int count = cli_addresses_parse(config->listeners, door->addresses, CLI_LISTENERS_MAX, why, sizeof(why));
    const int advertised = count < 0 ? 0 : cli_addresses_parse(config->advertised_listeners, door->advertised, CLI_LISTENERS_MAX, why, sizeof(why));
    if (count < 0 || advertised < 0) return cli_fail(CLI_USAGE, NULL, "%s: %s", count < 0 ? "listeners" : "advertised.listeners", why);
    if (count == 0) return cli_fail(CLI_USAGE, NULL, "listeners is empty: a broker without a Kafka listener serves nobody");
    count = leave_out_controllers(config, door->addresses, count);
    if (count == 0)
        return cli_fail(CLI_USAGE, "ottla server --set listeners=PLAINTEXT://127.0.0.1:9092",
            "listeners: all are in controller.listener.names: a broker without another one serves nobody (every voter here is a broker, too)");
    for (int i = 0; i < count; i++) {
        struct ot_net_address *address = &door->addresses[i];
        if (address->scheme[0] == 0) snprintf(address->scheme, sizeof(address->scheme), "PLAINTEXT");
        const int wrong = check_protocol(config, address->scheme);
        if (wrong >= 0) return wrong;
        door->listeners[i] = (struct broker_listener){ .name = address->scheme, .host = address->host, .port = address->port, .advertised_port = address->port,
            .security = "PLAINTEXT" };
        for (int k = 0; k < advertised; k++) {
            if (strcmp(door->advertised[k].scheme, address->scheme) != 0) continue;
            door->listeners[i].advertised_host = door->advertised[k].host;
            door->listeners[i].advertised_port = door->advertised[k].port;
        }
        if (!ot_net_is_loopback(address->host))
            ot_log(OT_LOG_WARN, "net", "exposed", "listener=%s host=%s port=%d authentication=none", address->scheme, address->host, address->port);
    }
    door->listener_count = (uint32_t)count;
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
    }
    return -1;
}
