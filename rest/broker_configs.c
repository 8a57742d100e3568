/* Configs of brokers: what one runs with and what is set for it alone, and the defaults that are set for all of them. */
#include "rest/handlers.h"
#include "rest/topic_view.h"
#include <inttypes.h>
#include <stdio.h>

enum { CLUSTER = -1 };

static void write_entry(void *arg, const struct broker_config_value *value) { rest_config_write(arg, value); }

static void write_all(struct rest_call *call, int32_t broker_id)
{
    struct rest_json *out = &call->out;
    char id[16];
    snprintf(id, sizeof(id), "%d", broker_id);
    rest_json_open(out, NULL, '{');
    rest_json_open(out, "resource", '{');
    rest_json_text(out, "type", broker_id == CLUSTER ? "cluster" : "broker");
    rest_json_text(out, "name", broker_id == CLUSTER ? "default" : id);
    rest_json_close(out, '}');
    rest_json_open(out, "entries", '[');
    broker_config_describe(broker_config_store(call->broker), broker_id, write_entry, out);
    rest_json_close(out, ']');
    rest_json_close(out, '}');
}

/* What a reader sees changes with the broker's own settings and with the cluster's. */
static int64_t version_of(const struct broker_view *view, int32_t broker_id)
{
    const int64_t cluster = broker_view_broker_config_version(view, CLUSTER);
    return broker_id == CLUSTER ? cluster : OT_MAX(cluster, broker_view_broker_config_version(view, broker_id));
}

/* {broker} of the path, which is this one (what its file and environment say is known to itself), or the cluster. False: answered. */
static bool find(struct rest_call *call, const struct broker_view *view, bool cluster, int32_t *id_out)
{
    struct broker_view_broker row;
    *id_out = CLUSTER;
    if (cluster) return true;
    if (!rest_broker_find(call, view, &row)) return false;
    *id_out = row.id;
    if (row.id == broker_node_id(call->broker)) return true;
    rest_problem(call, OT_ERR_BROKER_NOT_AVAILABLE, "broker %d is away, and what it is configured with is known to itself alone", row.id);
    return false;
}

static void get(struct rest_call *call, bool cluster)
{
    int32_t id = CLUSTER;
    const struct broker_view *view = broker_view_take(call->broker);
    const bool found = find(call, view, cluster, &id);
    const int64_t version = found ? version_of(view, id) : 0;
    broker_view_give(view);
    if (!found || rest_not_modified(call, version)) return;
    write_all(call, id);
    rest_reply_json(call, 200);
}

void rest_broker_config(struct rest_call *call) { get(call, false); }
void rest_cluster_config(struct rest_call *call) { get(call, true); }

/* ---- changes */

static void patched(struct rest_change *change)
{
    struct rest_call *call = change->call;
    const struct broker_view *view = broker_view_take(call->broker);
    const int64_t version = version_of(view, change->item.broker_id);
    broker_view_give(view);
    rest_etag(call, version);
    write_all(call, change->item.broker_id);
    rest_reply_json(call, 200);
}

static void patch(struct rest_call *call, bool cluster)
{
    json_t *body = rest_body_object(call, REST_VALUES_SMALL);
    int32_t id = CLUSTER;
    int64_t seen = -1;
    if (body == NULL) return;
    const struct broker_view *view = broker_view_take(call->broker);
    const bool found = find(call, view, cluster, &id);
    const int64_t version = found ? version_of(view, id) : 0, own = found ? broker_view_broker_config_version(view, id) : 0;
    broker_view_give(view);
    if (!found || !rest_if_match(call, version, &seen)) return;
    struct rest_change *change = rest_change_new(call, BROKER_ALTER_BROKER_CONFIG, (struct ot_str){ .null = true });
    if (change == NULL) return;
    change->item.broker_id = id;
    change->item.if_version = seen < 0 ? -1 : own;             /* the coordinator compares with the version of this scope alone */
    if (rest_configs_read(call, body, &change->item)) rest_change_start(change, patched);
}

void rest_broker_config_patch(struct rest_call *call) { patch(call, false); }
void rest_cluster_config_patch(struct rest_call *call) { patch(call, true); }
