/* Configs of one topic: all keys, one key, merge-patch. */
#include "rest/handlers.h"
#include "rest/topic_view.h"
#include <string.h>

static void write_entry(void *arg, const struct broker_config_value *value) { rest_config_write(arg, value); }

static void write_all(struct rest_call *call, const struct broker_view *view, const struct broker_view_topic *topic)
{
    rest_json_open(&call->out, NULL, '{');
    rest_json_open(&call->out, "resource", '{');
    rest_json_text(&call->out, "type", "topic");
    rest_json_str(&call->out, "name", topic->name);
    rest_json_close(&call->out, '}');
    rest_json_open(&call->out, "entries", '[');
    rest_topic_config_each(call, view, topic, write_entry, &call->out);
    rest_json_close(&call->out, ']');
    rest_json_close(&call->out, '}');
}

void rest_topic_config_list(struct rest_call *call)
{
    struct broker_view_topic topic;
    const struct broker_view *view = broker_view_take(call->broker);
    bool answered = !rest_topic_find(call, view, &topic) || rest_not_modified(call, topic.version);
    if (!answered) write_all(call, view, &topic);
    broker_view_give(view);
    if (!answered) rest_reply_json(call, 200);
}

/* ---- one key */

struct wanted { struct rest_json *out; struct ot_str name; bool found, overridden; };

static void write_wanted(void *arg, const struct broker_config_value *value)
{
    struct wanted *wanted = arg;
    if (!ot_str_equal(wanted->name, ot_str_of(value->row->key))) return;
    wanted->found = true;
    wanted->overridden = value->source == BROKER_SOURCE_TOPIC;
    if (wanted->out != NULL) rest_config_write(wanted->out, value);
}

/* False: answered. */
static bool find_key(struct rest_call *call, const struct broker_view *view, struct broker_view_topic *topic, struct wanted *wanted)
{
    wanted->name = rest_param(call, 1);
    if (!rest_topic_find(call, view, topic)) return false;
    rest_topic_config_each(call, view, topic, write_wanted, wanted);
    if (wanted->found) return true;
    rest_problem_more(call, OT_ERR_RESOURCE_NOT_FOUND, NULL, "GET /v1/config-schema?scope=topic", "there is no topic key '%.*s'", (int)OT_MIN(wanted->name.bytes, 100u),
        wanted->name.data);
    return false;
}

void rest_topic_config_get(struct rest_call *call)
{
    struct broker_view_topic topic;
    struct wanted wanted = { .out = &call->out };
    const struct broker_view *view = broker_view_take(call->broker);
    bool answered = !find_key(call, view, &topic, &wanted) || rest_not_modified(call, topic.version);
    broker_view_give(view);
    if (!answered) rest_reply_json(call, 200);
}

/* ---- changes */

static void patched(struct rest_change *change)
{
    struct rest_call *call = change->call;
    struct broker_view_topic topic;
    const struct broker_view *view = broker_view_take(call->broker);
    const bool found = rest_topic_find(call, view, &topic);
    if (found) write_all(call, view, &topic);
    if (found) rest_etag(call, topic.version);
    broker_view_give(view);
    if (found) rest_reply_json(call, 200);
}

static void put(struct rest_change *change)
{
    struct rest_call *call = change->call;
    struct broker_view_topic topic;
    struct wanted wanted = { .out = &call->out };
    const struct broker_view *view = broker_view_take(call->broker);
    const bool found = find_key(call, view, &topic, &wanted);
    if (found) rest_etag(call, topic.version);
    broker_view_give(view);
    if (found) rest_reply_json(call, 200);
}

static void deleted(struct rest_change *change) { rest_reply_empty(change->call, 204); }

/* The topic of the path and a change of its configs, with If-Match heeded; NULL: answered. */
static struct rest_change *change_of(struct rest_call *call, const char *key)
{
    struct broker_view_topic topic;
    struct wanted wanted = { 0 };
    const struct broker_view *view = broker_view_take(call->broker);
    const bool found = key == NULL ? rest_topic_find(call, view, &topic) : find_key(call, view, &topic, &wanted);
    broker_view_give(view);
    struct rest_change *change = found ? rest_change_new(call, BROKER_ALTER_TOPIC_CONFIG, rest_param(call, 0)) : NULL;
    if (change == NULL || !rest_if_match(call, topic.version, &change->item.if_version)) return NULL;
    if (call->if_none_match != NULL && strcmp(call->if_none_match, "*") == 0 && wanted.overridden) {
        rest_problem_http(call, "HTTP_PRECONDITION_FAILED", "the topic overrides this key already");
        return NULL;
    }
    return change;
}

void rest_topic_config_patch(struct rest_call *call)
{
    json_t *body = rest_body_object(call, REST_VALUES_SMALL);
    struct rest_change *change = body == NULL ? NULL : change_of(call, NULL);
    if (change != NULL && rest_configs_read(call, body, &change->item)) rest_change_start(change, patched);
}

/* One entry, in the arena; NULL: answered. */
static struct broker_config_entry *entry_of(struct rest_change *change, struct ot_str value)
{
    struct rest_call *call = change->call;
    struct broker_config_entry *entry = ot_arena_alloc(&call->arena, sizeof(*entry));
    if (entry == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        return NULL;
    }
    *entry = (struct broker_config_entry){ rest_param(call, 1), value };
    change->item.configs = entry;
    change->item.config_count = 1;
    return entry;
}

void rest_topic_config_put(struct rest_call *call)
{
    json_t *body = rest_body_object(call, REST_VALUES_SMALL);
    struct ot_str value = { .null = true };
    if (body == NULL) return;
    const struct rest_member members[] = { { .name = "value", .kind = REST_TEXT, .required = true, .out = &value } };
    rest_members(body, "", members, 1, &call->faults);
    if (rest_faulty(call)) return;
    struct rest_change *change = change_of(call, "");
    if (change != NULL && entry_of(change, value) != NULL && !rest_faulty(call)) rest_change_start(change, put);
}

void rest_topic_config_delete(struct rest_call *call)
{
    struct rest_change *change = change_of(call, "");
    if (change != NULL && entry_of(change, (struct ot_str){ .null = true }) != NULL && !rest_faulty(call)) rest_change_start(change, deleted);
}
