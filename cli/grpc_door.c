#include "cli/grpc_door.h"

#include "base/log.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>

#define QUOTA_MIN_BYTES (UINT64_C(256) << 20)      /* below, the core closes healthy calls */

int cli_grpc_read(struct cli_grpc_door *door, const struct broker_config *config)
{
    struct ot_net_address advertised[CLI_LISTENERS_MAX];
    char why[400] = "";
    const int count = cli_addresses_parse(config->grpc_listeners, door->addresses, CLI_LISTENERS_MAX, why, sizeof why);
    if (count < 0) return cli_fail(CLI_USAGE, NULL, "grpc.listeners: %s", why);
    const int told = cli_addresses_parse(config->grpc_advertised_listeners, advertised, CLI_LISTENERS_MAX, why, sizeof why);
    if (told < 0) return cli_fail(CLI_USAGE, NULL, "grpc.advertised.listeners: %s", why);
    for (int i = 0; i < count; i++) {
        const struct ot_net_address *address = &door->addresses[i];
        if (address->scheme[0] != '\0' && strcmp(address->scheme, "http") != 0 && strcmp(address->scheme, "grpc") != 0)
            return cli_fail(CLI_USAGE, "ottla server --set grpc.listeners=127.0.0.1:9094", "grpc.listeners: %s is not served yet, and nothing less is served in its place", address->scheme);
        door->listeners[i] = (struct rpc_grpc_listener){ address->host, address->port };
        if (!ot_net_is_loopback(address->host))
            ot_log(OT_LOG_WARN, "net", "exposed", "listener=grpc host=%s port=%d authentication=none", address->host, address->port);
    }
    door->listener_count = (uint32_t)count;
    door->is_advertised = told > 0;
    if (told > 0) door->advertised = advertised[0];
    return -1;
}

int cli_grpc_bind(struct cli_grpc_door *door, const struct broker_config *config, struct ot_mem_budget *budget, struct ot_exec *io_exec, uint32_t io_threads,
    struct ot_metrics *metrics)
{
    if (door->listener_count == 0) return -1;
    const struct rpc_grpc_setup setup = {
        .listeners = door->listeners,
        .listener_count = door->listener_count,
        .config = config,
        .request_pool = ot_mem_pool_buffers(&budget->pools[OT_MEM_requests]),
        .response_pool = ot_mem_pool_buffers(&budget->pools[OT_MEM_responses]),
        .quota_bytes = config->grpc_memory_bytes > 0 ? (uint64_t)config->grpc_memory_bytes : OT_MAX(budget->limit_bytes / 8, QUOTA_MIN_BYTES),
        .io = ot_io_real(),
        .io_exec = io_exec,
        .taking_max = OT_MAX(io_threads / 2, 1u),
        .metrics = metrics,
    };
    char why[400] = "";
    if (setup.request_pool == NULL || setup.response_pool == NULL) return cli_fail(CLI_FAILED, NULL, "out of memory");
    /* else glibc gives the core's receive buffers back to the kernel with every message and takes them anew: twice the cost of taking in large messages */
    (void)mallopt(M_MMAP_THRESHOLD, 8 << 20);
    (void)mallopt(M_TRIM_THRESHOLD, 64 << 20);
    (void)mallopt(M_TOP_PAD, 4 << 20);
    const enum ot_err err = rpc_grpc_server_open(&setup, &door->server, why, sizeof why);
    if (err == OT_OK) return -1;
    return cli_fail(CLI_FAILED, "ottla server --set grpc.listeners=127.0.0.1:19094", "%s", why[0] != '\0' ? why : ot_err_text(err));
}

bool cli_grpc_endpoint(const struct cli_grpc_door *door, struct broker_listener *out)
{
    if (door->server == NULL) return false;
    const char *host = door->is_advertised ? door->advertised.host : door->listeners[0].host;
    const bool everywhere = host[0] == '\0' || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
    const int32_t port = door->is_advertised ? door->advertised.port : rpc_grpc_server_port(door->server, 0);
    *out = (struct broker_listener){ .name = "GRPC", .host = door->listeners[0].host, .advertised_host = everywhere ? NULL : host,
        .port = rpc_grpc_server_port(door->server, 0), .advertised_port = port, .security = "PLAINTEXT" };
    return true;
}

enum ot_err cli_grpc_start(struct cli_grpc_door *door, struct broker *broker) { return door->server == NULL ? OT_OK : rpc_grpc_server_start(door->server, broker); }
void cli_grpc_drain(struct cli_grpc_door *door) { rpc_grpc_server_drain(door->server); }

void cli_grpc_stop(struct cli_grpc_door *door, int64_t timeout_ms)
{
    rpc_grpc_server_stop(door->server, timeout_ms);
    door->server = NULL;
}
