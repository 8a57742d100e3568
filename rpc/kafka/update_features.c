/* UpdateFeatures: all or nothing. Up to v1 each feature has its own result, which is empty when one failed. */
#include "rpc/kafka/request.h"

#include "base/wire/update_features_request.h"
#include "base/wire/update_features_response.h"
#include "broker/features.h"

#include <stdio.h>

static enum ot_err check_all(struct rpc_request *request, char text[static BROKER_TEXT_MAX])
{
    const struct ot_update_features_request *asked = request->body;
    for (int32_t i = 0; i < asked->feature_updates.count; i++) {
        const struct ot_update_features_request_feature_update_key *one = &asked->feature_updates.items[i];
        const int8_t change = request->header.version > 0 ? one->upgrade_type : one->allow_downgrade ? BROKER_FEATURE_SAFE_DOWNGRADE : BROKER_FEATURE_UPGRADE;
        const enum ot_err error = broker_feature_update(broker_node_id(request->server->broker), one->feature, one->max_version_level, change, text);
        if (error != OT_OK) return error;
    }
    return OT_OK;
}

RPC_HANDLER(update_features)
{
    const struct ot_update_features_request *asked = body;
    struct ot_update_features_response response;
    char text[BROKER_TEXT_MAX] = "", whole[BROKER_TEXT_MAX + 100];
    ot_update_features_response_defaults(&response);
    request->error = check_all(request, text);
    (void)snprintf(whole, sizeof whole, "The update failed for all features since the following feature had an error: %s", text);
    response.error_code = ot_err_kafka(request->error);
    response.error_message = rpc_error_text(request->error, whole);
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
