#include "rpc/kafka/config_changes.h"

#include "base/wire/enums.h"

#include <stdio.h>

static struct rpc_config_changes *changes_of(struct rpc_request *request) { return request->own; }

bool rpc_config_changes_begin(struct rpc_request *request, int32_t count)
{
    struct rpc_config_changes *changes = rpc_alloc(request, 1, sizeof *changes);
    struct broker_admin *admin = &request->call.admin;
    if (changes == NULL) return false;
    changes->rows = rpc_alloc(request, (size_t)count, sizeof *changes->rows);
    admin->items = rpc_alloc(request, (size_t)count, sizeof *admin->items);
    admin->item_count = 0;
    request->own = changes;
    return count == 0 || (changes->rows != NULL && admin->items != NULL);
}

void rpc_config_changes_refuse(struct rpc_request *request, enum ot_err error, const char *text)
{
    struct rpc_config_changes *changes = changes_of(request);
    struct rpc_config_change *row = &changes->rows[changes->count - 1];
    if (row->item != NULL) request->call.admin.item_count--;
    row->item = NULL;
    row->error = error;
    row->text = text;
}

/* A number without sign, or -1. */
static int32_t number_of(struct ot_str text)
{
    int64_t number = 0;
    for (uint32_t i = 0; i < text.bytes; i++) {
        if (text.data[i] < '0' || text.data[i] > '9' || (number = number * 10 + (text.data[i] - '0')) > INT32_MAX) return -1;
    }
    return text.bytes > 0 ? (int32_t)number : -1;
}

static void refuse_name(struct rpc_request *request, struct ot_str name)
{
    enum { BYTES = 120 };
    char *text = rpc_alloc(request, 1, BYTES);
    if (text != NULL) (void)snprintf(text, BYTES, "Node id must be an integer, but it is: %.*s", (int)OT_MIN(name.bytes, 60u), name.data);
    rpc_config_changes_refuse(request, OT_ERR_INVALID_REQUEST, text);
}

static void refuse_type(struct rpc_request *request, int8_t type)
{
    enum { BYTES = 120 };
    char *text = rpc_alloc(request, 1, BYTES);
    if (text != NULL) (void)snprintf(text, BYTES, "Unknown resource type %d", type);
    rpc_config_changes_refuse(request, OT_ERR_INVALID_REQUEST, text);
}

void rpc_config_changes_add(struct rpc_request *request, int8_t type, struct ot_str name, bool validate_only, struct broker_admin_item **item_out)
{
    struct rpc_config_changes *changes = changes_of(request);
    struct broker_admin_item *item = &request->call.admin.items[request->call.admin.item_count++];
    const enum broker_admin_kind kind = type == OT_CONFIG_RESOURCE_TOPIC ? BROKER_ALTER_TOPIC_CONFIG : type == OT_CONFIG_RESOURCE_GROUP ? BROKER_ALTER_GROUP_CONFIG
        : type == OT_CONFIG_RESOURCE_CLIENT_METRICS ? BROKER_ALTER_CLIENT_METRICS : BROKER_ALTER_BROKER_CONFIG;
    *item = (struct broker_admin_item){ .kind = kind, .topic = name,
        .broker_id = -1, .validate_only = validate_only, .if_version = -1 };
    changes->rows[changes->count++] = (struct rpc_config_change){ .type = type, .name = name, .item = item };
    *item_out = item;
    if (type == OT_CONFIG_RESOURCE_BROKER && name.bytes > 0) {
        item->broker_id = number_of(name);
        if (item->broker_id < 0) refuse_name(request, name);
    } else if (kind == BROKER_ALTER_BROKER_CONFIG && type != OT_CONFIG_RESOURCE_BROKER) {
        refuse_type(request, type);
    }
    if (changes->rows[changes->count - 1].item == NULL) *item_out = NULL;
}

void rpc_config_changes_ask(struct rpc_request *request, void (*done)(struct broker_call *call))
{
    rpc_call_init(request, done);
    broker_admin(request->server->broker, &request->call.admin);
}

enum ot_err rpc_config_changes_error(struct rpc_request *request, int32_t at, struct ot_str *text_out)
{
    const struct rpc_config_change *row = &changes_of(request)->rows[at];
    const enum ot_err error = row->item != NULL ? row->item->error : row->error;
    *text_out = rpc_error_text(error, row->item != NULL ? row->item->text : row->text);
    if (request->error == OT_OK) request->error = error;
    return error;
}
