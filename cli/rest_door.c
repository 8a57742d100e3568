#include "cli/rest_door.h"
#include "cli/version.h"
#include <stdio.h>
#include <unistd.h>

int cli_rest_bind(struct cli_rest_door *door, const struct broker_config *config)
{
    char why[400] = "";
    const int count = cli_addresses_parse(config->rest_listeners, door->addresses, CLI_LISTENERS_MAX, why, sizeof(why));
    if (count < 0) return cli_fail(CLI_USAGE, NULL, "rest.listeners: %s", why);
    for (int i = 0; i < count; i++) {
        const struct ot_net_address *address = &door->addresses[i];
        struct rest_listener *listener = &door->listeners[i];
        enum ot_err err = ot_net_listen(address->host, address->port, config->socket_listen_backlog_size, listener->fds, &listener->fd_count, &listener->port, why, sizeof(why));
        if (err != OT_OK)
            return cli_fail(CLI_FAILED, "ottla server --set rest.listeners=http://127.0.0.1:19095", "cannot listen on %s:%d: %s", address->host, address->port,
                why[0] != 0 ? why : ot_err_text(err));
        listener->host = address->host;
        door->listener_count++;
    }
    return -1;
}

enum ot_err cli_rest_start(struct cli_rest_door *door, struct broker *broker, struct ot_mem_budget *budget, struct ot_metrics *metrics, char *text_out, size_t text_bytes)
{
    struct rest_setup setup = {
        .listeners = door->listeners,
        .listener_count = door->listener_count,
        .metrics = metrics,
        .body_pool = ot_mem_pool_buffers(&budget->pools[OT_MEM_rest]),
        .version = OTTLA_VERSION,
        .commit = OTTLA_COMMIT,
        .allow_exposed = broker_config(broker)->rest_auth_anonymous,
    };
    text_out[0] = 0;
    if (door->listener_count == 0) return OT_OK;
    return setup.body_pool == NULL ? OT_ERR_NO_MEMORY : rest_server_start(broker, &setup, &door->server, text_out, text_bytes);
}

void cli_rest_stop(struct cli_rest_door *door)
{
    for (uint32_t i = 0; door->server == NULL && i < door->listener_count; i++)
        for (uint32_t k = 0; k < door->listeners[i].fd_count; k++) close(door->listeners[i].fds[k]);
    rest_server_stop(door->server);
    door->server = NULL;
    door->listener_count = 0;
}
