/* UpdateFeatures: all or nothing. Up to v1 each feature has its own result, which is empty when one failed. Levels are kept as settings of the cluster, but for ottla.version, which is raised, and
 * alone: two changes of two kinds would not be one. */
#include "rpc/kafka/request.h"

#include "base/wire/update_features_request.h"
#include "base/wire/update_features_response.h"
#include "broker/features.h"

#include <stdio.h>
#include <string.h>

struct own { int16_t raise; struct broker_admin_item item; struct broker_config_entry entries[BROKER_FEATURE_COUNT]; char levels[BROKER_FEATURE_COUNT][8], text[BROKER_TEXT_MAX]; };

static void set_level(struct own *own, const char *key, int16_t level)
{
    uint32_t at = 0;
    while (at < own->item.config_count && !ot_str_equal(own->entries[at].name, ot_str_of(key))) at++;  /* asked twice: the later one */
    (void)snprintf(own->levels[at], sizeof own->levels[at], "%d", level);
    own->entries[at] = (struct broker_config_entry){ ot_str_of(key), ot_str_of(own->levels[at]) };
    own->item.config_count = OT_MAX(own->item.config_count, at + 1);
}

static enum ot_err check_all(struct rpc_request *request, struct own *own)
{
    const struct ot_update_features_request *asked = request->body;
    struct broker *broker = request->server->broker;
    struct broker_view_cluster cluster;
    const struct broker_view *view = broker_view_take(broker);
    broker_view_cluster(view, &cluster);
    broker_view_give(view);
    const int16_t own_level = cluster.level;
    for (int32_t i = 0; i < asked->feature_updates.count; i++) {
        const struct ot_update_features_request_feature_update_key *one = &asked->feature_updates.items[i];
        const int8_t change = request->header.version > 0 ? one->upgrade_type : one->allow_downgrade ? BROKER_FEATURE_SAFE_DOWNGRADE : BROKER_FEATURE_UPGRADE;
        const char *key = NULL;
        const enum ot_err error = broker_feature_update(broker_node_id(broker), broker_config(broker), own_level, one->feature, one->max_version_level, change, &key, own->text);
        if (error != OT_OK) return error;
        if (key != NULL && strcmp(key, BROKER_FEATURE_OWN) == 0) own->raise = one->max_version_level;
        else if (key != NULL) set_level(own, key, one->max_version_level);
    }
    if (own->raise == 0 || asked->feature_updates.count == 1) return OT_OK;
    (void)snprintf(own->text, sizeof own->text, BROKER_FEATURE_OWN " is changed in a request of its own.");
    return OT_ERR_INVALID_REQUEST;
}

static void answer(struct rpc_request *request, enum ot_err error, const char *text)
{
    const struct ot_update_features_request *asked = request->body;
    struct ot_update_features_response response;
    char whole[BROKER_TEXT_MAX + 100];
    ot_update_features_response_defaults(&response);
    request->error = error;
    (void)snprintf(whole, sizeof whole, "The update failed for all features since the following feature had an error: %s", text);
    response.error_code = ot_err_kafka(request->error);
    response.error_message = rpc_error_text(request->error, request->error == OT_OK ? NULL : whole);
    if (request->header.version <= 1 && request->error == OT_OK) {
        response.results.count = asked->feature_updates.count;
        response.results.items = rpc_alloc(request, (size_t)asked->feature_updates.count, sizeof *response.results.items);
        if (response.results.items == NULL && asked->feature_updates.count > 0) {
            rpc_reject(request, "too much in one request");
            return;
        }
        for (int32_t i = 0; i < asked->feature_updates.count; i++)
            response.results.items[i] = (struct ot_update_features_response_updatable_feature_result){ .feature = asked->feature_updates.items[i].feature, .error_message.null = true };
    }
    rpc_respond(request, &response);
}

static void set_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct own *own = request->own;
    answer(request, own->item.error, own->item.text);
}

static void raised(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    struct own *own = request->own;
    (void)snprintf(own->text, sizeof own->text, "%s", request->call.control.text);
    answer(request, request->call.control.error, own->text);
}

/* Also when it is only to be checked: the coordinator knows what the others know. */
static void raise_own(struct rpc_request *request, int16_t level)
{
    const struct ot_update_features_request *asked = request->body;
    rpc_call_init(request, raised);
    struct broker_control *control = &request->call.control;
    control->kind = BROKER_RAISE;
    control->broker_id = -1;
    control->level = level;
    control->validate_only = asked->validate_only;
    control->timeout_ms = asked->timeout_ms;
    broker_control(request->server->broker, control);
}

RPC_HANDLER(update_features)
{
    const struct ot_update_features_request *asked = body;
    struct own *own = request->own = rpc_alloc(request, 1, sizeof *own);
    if (own == NULL) {
        rpc_reject(request, "too much in one request");
        return;
    }
    own->item = (struct broker_admin_item){ .kind = BROKER_ALTER_BROKER_CONFIG, .broker_id = -1, .configs = own->entries, .if_version = -1 };
    const enum ot_err error = check_all(request, own);
    if (error == OT_OK && own->raise != 0) {
        raise_own(request, own->raise);
        return;
    }
    if (error != OT_OK || own->item.config_count == 0 || asked->validate_only) {
        answer(request, error, own->text);
        return;
    }
    rpc_call_init(request, set_done);
    request->call.admin.timeout_ms = asked->timeout_ms;
    request->call.admin.items = &own->item;
    request->call.admin.item_count = 1;
    broker_admin(request->server->broker, &request->call.admin);
}
