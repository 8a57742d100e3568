/* What is served: the index, versions, the contract, the configuration schema. */
#include "rest/handlers.h"
#include "rest/inside.h"
#include "rest/openapi.h"
#include "rest/topic_view.h"
#include <stdlib.h>
#include <string.h>

static void write_query(struct rest_json *out, const struct rest_route *route)
{
    const char *names[REST_ROUTE_QUERY_MAX];
    char storage[512];
    const uint32_t count = rest_route_query(route, names, storage);
    rest_json_open(out, "query", '[');
    for (uint32_t i = 0; i < count; i++) rest_json_text(out, NULL, names[i]);
    rest_json_close(out, ']');
}

void rest_index_get(struct rest_call *call)
{
    struct rest_json *out = &call->out;
    uint32_t count = 0;
    const struct rest_route *routes = rest_routes(&count);
    rest_json_open(out, NULL, '{');
    rest_json_text(out, "name", "ottla");
    rest_json_text(out, "version", call->server->setup.version);
    rest_json_text(out, "openapi", "/openapi.json");
    rest_json_open(out, "operations", '[');
    for (uint32_t i = 0; i < count; i++) {
        rest_json_open(out, NULL, '{');
        rest_json_text(out, "method", rest_method_name(routes[i].method));
        rest_json_text(out, "path", routes[i].pattern);
        rest_json_text(out, "operation", routes[i].operation);
        rest_json_text(out, "summary", routes[i].summary);
        write_query(out, &routes[i]);
        rest_json_close(out, '}');
    }
    rest_json_close(out, ']');
    rest_json_close(out, '}');
    rest_reply_json(call, 200);
}

void rest_version_get(struct rest_call *call)
{
    struct rest_json *out = &call->out;
    const struct rest_setup *setup = &call->server->setup;
    rest_json_open(out, NULL, '{');
    rest_json_text(out, "version", setup->version);
    rest_json_text(out, "commit", setup->commit);
    rest_json_text(out, "rest", "v1");
    rest_features_write(out, "feature_levels", call->broker);
    rest_json_open(out, "kafka_apis", '[');
    for (uint32_t i = 0; i < setup->api_count; i++) {
        rest_json_open(out, NULL, '{');
        rest_json_int(out, "key", setup->apis[i].key);
        rest_json_text(out, "name", setup->apis[i].name);
        rest_json_int(out, "min_version", setup->apis[i].min_version);
        rest_json_int(out, "max_version", setup->apis[i].max_version);
        rest_json_close(out, '}');
    }
    rest_json_close(out, ']');
    rest_json_close(out, '}');
    rest_reply_json(call, 200);
}

void rest_whoami(struct rest_call *call)
{
    struct rest_json *out = &call->out;
    const bool by_socket = strcmp(call->peer, "unix") == 0;
    rest_json_open(out, NULL, '{');
    rest_json_text(out, "principal", call->principal);
    rest_json_bool(out, "authenticated", by_socket);           /* the kernel vouches for who is at the other end of a socket file */
    rest_json_text(out, "mechanism", by_socket ? "socket_peer" : NULL);
    rest_json_text(out, "address", call->peer);
    rest_json_close(out, '}');
    rest_reply_json(call, 200);
}

static void contract(struct rest_call *call, const char *text, const char *end, const char *type)
{
    rest_json_put(&call->out, text, (size_t)(end - text));
    rest_reply_raw(call, 200, type);
}

void rest_openapi_json(struct rest_call *call) { contract(call, rest_openapi_json_text, rest_openapi_json_end, "application/json"); }
void rest_openapi_yaml(struct rest_call *call) { contract(call, rest_openapi_yaml_text, rest_openapi_yaml_end, "application/yaml"); }

/* ---- configuration schema: broker keys and topic keys in one list, by "scope/key" */

static const char *change_name(enum broker_config_change change)
{
    static const char *const names[] = { "restart", "per_broker", "cluster_wide", "per_topic" };
    return names[change];
}

static void write_key(struct rest_call *call, const char *scope, const struct broker_config_row *row)
{
    struct rest_json *out = &call->out;
    rest_list_item(call);
    rest_json_open(out, NULL, '{');
    rest_json_text(out, "name", row->key);
    rest_json_text(out, "scope", scope);
    rest_json_text(out, "type", rest_config_type_name(row->type));
    rest_json_text(out, "default", row->fallback);
    rest_json_text(out, "valid", row->valid != NULL && row->valid[0] != 0 ? row->valid : NULL);
    rest_json_text(out, "change", change_name(row->change));
    rest_json_bool(out, "honoured", row->honoured);
    rest_json_bool(out, "sensitive", row->sensitive);
    rest_json_text(out, "text", row->text);
    rest_json_close(out, '}');
}

struct walk { struct rest_call *call; uint32_t total; char last[200]; bool more; };

static void add_rows(struct walk *walk, const char *scope, const struct broker_config_row *rows, uint32_t count)
{
    struct rest_call *call = walk->call;
    const struct ot_str prefix = call->list.prefix, after = call->list.after;
    for (uint32_t i = 0; i < count; i++) {
        char key[200];
        if (!prefix.null && (strlen(rows[i].key) < prefix.bytes || memcmp(rows[i].key, prefix.data, prefix.bytes) != 0)) continue;
        walk->total++;
        const int bytes = snprintf(key, sizeof(key), "%s/%s", scope, rows[i].key);
        const int order = after.null ? 1 : memcmp(key, after.data, OT_MIN((size_t)bytes, (size_t)after.bytes));
        if (order < 0 || (order == 0 && (size_t)bytes <= after.bytes)) continue;
        if (call->list.count == call->list.limit) {
            walk->more = true;
            continue;
        }
        write_key(call, scope, &rows[i]);
        memcpy(walk->last, key, sizeof(key));
    }
}

void rest_config_schema(struct rest_call *call)
{
    static const char *const scopes[] = { "broker", "topic" };
    struct walk walk = { .call = call };
    uint32_t count = 0;
    const int scope = rest_query_choice(call, "scope", scopes, 2, -1);
    if (!rest_list_begin(call, 'c', false)) return;
    const struct broker_config_row *rows = broker_config_rows(&count);
    if (scope != 1) add_rows(&walk, "broker", rows, count);
    rows = broker_topic_config_rows(&count);
    if (scope != 0) add_rows(&walk, "topic", rows, count);
    rest_list_reply(call, 'c', walk.more ? ot_str_of(walk.last) : (struct ot_str){ .null = true }, walk.total, NULL);
}
