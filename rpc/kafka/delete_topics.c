/* DeleteTopics: by name, or from v6 by id. One result per asked item, with name and id as far as they are known. */
#include "rpc/kafka/request.h"

#include "base/wire/delete_topics_request.h"
#include "base/wire/delete_topics_response.h"

struct delete_own { enum ot_err *refused; struct ot_str *names; struct ot_uuid *ids; int32_t count; };

static void delete_topics_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct delete_own *own = request->own;
    const struct broker_admin_item *item = request->call.admin.items;
    struct ot_delete_topics_response response;
    ot_delete_topics_response_defaults(&response);
    response.responses.count = own->count;
    response.responses.items = rpc_alloc(request, (size_t)own->count, sizeof *response.responses.items);
    if (response.responses.items == NULL && own->count > 0) {
        rpc_reject(request, "no memory for its answer");
        return;
    }
    for (int32_t i = 0; i < own->count; i++) {
        const bool asked = own->refused[i] == OT_OK;
        const enum ot_err error = asked ? item->error : own->refused[i];
        struct ot_delete_topics_response_deletable_topic_result *row = &response.responses.items[i];
        *row = (struct ot_delete_topics_response_deletable_topic_result){ .name = own->names[i], .topic_id = own->ids[i], .error_code = ot_err_kafka(error),
            .error_message = rpc_error_text(error, asked ? item->text : error == OT_ERR_INVALID_REQUEST ? "give either the name or the id of a topic" : "") };
        if (request->header.version < 6 && row->name.null) row->name = ot_str_of("");
        if (request->error == OT_OK) request->error = error;
        if (asked) item++;
    }
    rpc_respond(request, &response);
}

/* Names and ids of what is asked; a name is also looked up for an id, so that the answer can tell both. */
static bool targets_fill(struct rpc_request *request, const struct ot_delete_topics_request *asked, struct delete_own *own)
{
    const bool with_ids = request->header.version >= 6;
    own->count = with_ids ? asked->topics.count : asked->topic_names.count;
    own->refused = rpc_alloc(request, (size_t)own->count, sizeof *own->refused);
    own->names = rpc_alloc(request, (size_t)own->count, sizeof *own->names);
    own->ids = rpc_alloc(request, (size_t)own->count, sizeof *own->ids);
    if (own->count > 0 && (own->refused == NULL || own->names == NULL || own->ids == NULL)) return false;
    const struct broker_view *view = broker_view_take(request->server->broker);
    bool enough = true;
    for (int32_t i = 0; i < own->count; i++) {
        struct broker_view_topic topic;
        own->names[i] = with_ids ? asked->topics.items[i].name : asked->topic_names.items[i];
        if (with_ids) own->ids[i] = asked->topics.items[i].topic_id;
        const bool has_id = !ot_uuid_is_zero(&own->ids[i]);
        if (has_id == !own->names[i].null) {
            own->refused[i] = OT_ERR_INVALID_REQUEST;
        } else if (has_id && broker_view_topic_by_id(view, &own->ids[i], &topic)) {
            char *name = ot_arena_str(&request->arena, topic.name);
            enough &= name != NULL;
            own->names[i] = ot_str_of(name);
        } else if (!has_id && broker_view_topic(view, own->names[i], &topic)) {
            own->ids[i] = topic.id;
        }
    }
    broker_view_give(view);
    return enough;
}

RPC_HANDLER(delete_topics)
{
    const struct ot_delete_topics_request *asked = body;
    struct delete_own *own = rpc_alloc(request, 1, sizeof *own);
    if (own == NULL || !targets_fill(request, asked, own)) {
        rpc_reject(request, "too much in one request");
        return;
    }
    struct broker_admin_item *items = rpc_alloc(request, (size_t)own->count, sizeof *items);
    if (items == NULL && own->count > 0) {
        rpc_reject(request, "too much in one request");
        return;
    }
    uint32_t count = 0;
    for (int32_t i = 0; i < own->count; i++) {
        const bool by_id = request->header.version >= 6 && asked->topics.items[i].name.null;
        if (own->refused[i] != OT_OK) continue;
        items[count] = (struct broker_admin_item){ .kind = BROKER_DELETE_TOPIC, .topic = own->names[i], .if_version = -1 };
        if (by_id) {
            items[count].topic = (struct ot_str){ .null = true };
            items[count].topic_id = own->ids[i];
        }
        count++;
    }
    rpc_call_init(request, delete_topics_done);
    request->own = own;
    request->call.admin.timeout_ms = asked->timeout_ms;
    request->call.admin.items = items;
    request->call.admin.item_count = count;
    broker_admin(request->server->broker, &request->call.admin);
}
