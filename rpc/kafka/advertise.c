/* What address a client is told (trap A1): the configured one; else the one that it reached, which works through any interface and both families of
 * localhost; but a client that comes through the gateway of the container that we run in is on the host, where only the published port on localhost leads here. */
#include "rpc/kafka/request.h"

#include "base/log.h"
#include "base/net/address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void gateway_read(char out[static 46])
{
    char line[256];
    FILE *routes = fopen("/proc/net/route", "re");
    if (routes == NULL) return;
    while (fgets(line, sizeof line, routes) != NULL) {
        unsigned destination = 1, gateway = 0;
        if (sscanf(line, "%*31s %8x %8x", &destination, &gateway) != 2 || destination != 0 || gateway == 0) continue;
        const struct in_addr address = { .s_addr = gateway };      /* printed as it lies in memory */
        (void)inet_ntop(AF_INET, &address, out, 46);
        break;
    }
    (void)fclose(routes);
}

/* Does a listener without a configured name take connections from outside? */
static bool is_guessing(const struct rpc_kafka_setup *setup)
{
    char name[OT_NET_NAME_BYTES], host[46];
    for (uint32_t i = 0; i < setup->listener_count; i++) {
        if (setup->listeners[i].advertised_host != NULL) continue;
        for (uint32_t j = 0; j < setup->listeners[i].fd_count; j++) {
            ot_net_socket_name(setup->listeners[i].fds[j], true, name, host, NULL);
            if (!ot_net_is_loopback(host)) return true;
        }
    }
    return false;
}

void rpc_advertise_init(struct rpc_kafka_server *server, const struct rpc_kafka_setup *setup)
{
    if (access("/.dockerenv", F_OK) != 0 && access("/run/.containerenv", F_OK) != 0) return;
    if (!is_guessing(setup)) return;
    gateway_read(server->gateway);
    ot_log(OT_LOG_WARN, "kafka", "advertised_address_guessed",
        "gateway=%s hint=\"in a container clients are told the address they reached, or localhost when they come from the gateway; behind a port mapping to another "
        "port or host set advertised.listeners\"", server->gateway[0] != '\0' ? server->gateway : "-");
}

void rpc_advertised(const struct rpc_request *request, struct ot_str *host_out, int32_t *port_out)
{
    const struct rpc_listener *listener = request->door->listener;
    *port_out = ot_conn_local_port(request->conn);
    if (listener->advertised_host != NULL) {
        *host_out = ot_str_of(listener->advertised_host);
        *port_out = listener->advertised_port;
    } else if (request->server->gateway[0] != '\0' && strcmp(ot_conn_peer_host(request->conn), request->server->gateway) == 0) {
        *host_out = ot_str_of("localhost");
    } else {
        *host_out = ot_str_of(ot_conn_local_host(request->conn));
    }
}

bool rpc_advertised_of(const struct rpc_request *request, const struct broker_view_broker *broker, struct ot_str *host_out, int32_t *port_out)
{
    if (broker->id == broker_node_id(request->server->broker)) {
        rpc_advertised(request, host_out, port_out);
        return true;
    }
    for (uint32_t i = 0; i < broker->endpoint_count; i++) {
        if (!ot_str_equal(broker->endpoints[i].listener, ot_str_of(request->door->listener->name))) continue;
        *host_out = broker->endpoints[i].host;
        *port_out = broker->endpoints[i].port;
        return true;
    }
    return false;
}
