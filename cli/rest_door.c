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
            return cli_fail(CLI_FAILED, "ottla server --set rest.listeners=http://127.0.0.1:19095", "%s", why[0] != 0 ? why : ot_err_text(err));
        listener->host = address->host;
        door->listener_count++;
    }
    return -1;
}

static uint32_t list_apis(struct rest_api_row *out)
{
    for (uint32_t i = 0; i < rpc_api_count; i++) {
        const struct ot_api *api = ot_api_find(rpc_apis[i].key);
        out[i] = (struct rest_api_row){ api->key, api->advertised_min, rpc_api_max(&rpc_apis[i], api), api->name };
    }
    return rpc_api_count;
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

enum ot_err cli_rest_start(struct cli_rest_door *door, struct broker *broker, struct rpc_kafka_server *kafka, struct ot_mem_budget *budget, struct ot_metrics *metrics,
    char *text_out, size_t text_bytes)
{
    struct rest_setup setup = {
        .listeners = door->listeners,
        .listener_count = door->listener_count,
        .metrics = metrics,
        .body_pool = ot_mem_pool_buffers(&budget->pools[OT_MEM_rest]),
        .version = OTTLA_VERSION,
        .commit = OTTLA_COMMIT,
        .apis = door->apis,
        .api_count = list_apis(door->apis),
        .connections = list_connections,
        .connections_arg = kafka,
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
