/* Feature levels of the cluster: what they are, and changes of them as far as this version takes any. */
#include "broker/control.h"
#include "broker/features.h"
#include "rest/handlers.h"
#include "rest/topic_view.h"
#include <stdio.h>
#include <string.h>

void rest_features_write(struct rest_json *out, const char *key, struct broker *broker)
{
    uint32_t count = 0;
    const struct broker_feature *features = broker_features(&count);
    rest_json_open(out, key, '{');
    for (uint32_t i = 0; i < count; i++) rest_json_int(out, features[i].name, broker_feature_level(broker, &features[i]));
    rest_json_close(out, '}');
}

void rest_hints_write(struct rest_json *out, const struct broker_view *view)
{
    char text[200];
    const int16_t level = broker_feature_raisable(view);
    rest_json_open(out, "hints", '[');
    if (level != 0) {
        (void)snprintf(text, sizeof text, "all brokers know " BROKER_FEATURE_OWN " %d: once nobody has to go back to the build before, ottla cluster feature upgrade " BROKER_FEATURE_OWN "=%d", level, level);
        rest_json_text(out, NULL, text);
    }
    rest_json_close(out, ']');
}

static void write_all(struct rest_call *call, bool validate_only)
{
    struct rest_json *out = &call->out;
    uint32_t count = 0;
    const struct broker_feature *features = broker_features(&count);
    const struct broker_view *view = broker_view_take(call->broker);
    const int16_t raisable = broker_feature_raisable(view);
    broker_view_give(view);
    rest_json_open(out, NULL, '{');
    rest_json_open(out, "features", '[');
    for (uint32_t i = 0; i < count; i++) {
        rest_json_open(out, NULL, '{');
        rest_json_text(out, "name", features[i].name);
        rest_json_int(out, "level", broker_feature_level(call->broker, &features[i]));
        rest_json_int(out, "min", features[i].min);
        rest_json_int(out, "max", features[i].max);
        if (features[i].key == NULL) {
            if (raisable == 0) rest_json_null(out, "raisable_to");
            else rest_json_int(out, "raisable_to", raisable);
        }
        rest_json_close(out, '}');
    }
    rest_json_close(out, ']');
    if (validate_only) rest_json_bool(out, "validate_only", true);
    rest_json_close(out, '}');
    rest_reply_json(call, 200);
}

void rest_features_get(struct rest_call *call) { write_all(call, false); }

static void changed(struct rest_change *change) { write_all(change->call, change->item.validate_only); }

struct levels { struct broker_config_entry entries[BROKER_FEATURE_COUNT]; char texts[BROKER_FEATURE_COUNT][8]; uint32_t count; };

struct raise { struct broker_control control; struct rest_call *call; };

static void raised(struct broker_call *broker_call)
{
    struct raise *raise = OT_CONTAINER(broker_call, struct raise, control.call);
    const struct broker_control *control = &raise->control;
    if (control->error == OT_OK) {
        if (!control->validate_only) rest_wrote(raise->call, control->version_out);
        write_all(raise->call, control->validate_only);
    } else {
        rest_problem_more(raise->call, control->error, NULL, "GET /v1/brokers", "%s", control->text[0] != 0 ? control->text : ot_err_text(control->error));
    }
}

/* Also when it is only to be checked: the coordinator knows what the others know. */
static void raise_own(struct rest_call *call, int16_t level)
{
    struct raise *raise = ot_arena_alloc(&call->arena, sizeof *raise);
    if (raise == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        return;
    }
    *raise = (struct raise){ .call = call, .control = { .call = { .home = call->home, .done = raised }, .kind = BROKER_RAISE, .broker_id = -1, .level = level,
        .timeout_ms = (int32_t)call->timeout_ms, .validate_only = rest_validate_only(call) } };
    broker_control(call->broker, &raise->control);
}

static void set_levels(struct rest_call *call, const struct levels *levels)
{
    struct rest_change *change = rest_change_new(call, BROKER_ALTER_BROKER_CONFIG, (struct ot_str){ .null = true });
    struct broker_config_entry *entries = change == NULL ? NULL : ot_arena_array(&call->arena, levels->count, sizeof *entries);
    if (change == NULL) return;
    for (uint32_t i = 0; i < levels->count && entries != NULL; i++) {
        const char *copy = ot_arena_str(&call->arena, ot_str_of(levels->texts[i]));
        if (copy == NULL) entries = NULL;
        else entries[i] = (struct broker_config_entry){ levels->entries[i].name, ot_str_of(copy) };
    }
    if (entries == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        return;
    }
    change->item.broker_id = -1;
    change->item.configs = entries;
    change->item.config_count = levels->count;
    rest_change_start(change, changed);
}

/* {"transaction.version": 2}; a level below the present one needs "allow_downgrade": "safe" or "unsafe" in the query. */
void rest_features_patch(struct rest_call *call)
{
    static const char *const downgrades[] = { "safe", "unsafe" };
    json_t *body = rest_body_object(call, REST_VALUES_SMALL), *value;
    const char *name;
    size_t bytes;
    char place[REST_POINTER_MAX], text[BROKER_TEXT_MAX];
    struct levels levels = { 0 };
    struct broker_view_cluster cluster;
    const struct broker_view *view = broker_view_take(call->broker);
    broker_view_cluster(view, &cluster);
    broker_view_give(view);
    int16_t raise = 0;
    const int downgrade = rest_query_choice(call, "allow_downgrade", downgrades, 2, -1);
    const bool validate_only = rest_validate_only(call);
    if (body == NULL) return;
    json_object_keylen_foreach(body, name, bytes, value) {
        rest_pointer_join(place, "", name, bytes);
        if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > INT16_MAX)
            rest_fault_add(&call->faults, place, "must be a level, 0 or more");
    }
    if (rest_faulty(call)) return;
    json_object_keylen_foreach(body, name, bytes, value) {
        const int8_t change = (int8_t)(downgrade < 0 ? BROKER_FEATURE_UPGRADE : BROKER_FEATURE_SAFE_DOWNGRADE + downgrade);
        const char *key = NULL;
        const enum ot_err err = broker_feature_update(broker_node_id(call->broker), broker_config(call->broker), cluster.level, (struct ot_str){ name, (uint32_t)bytes, false },
            (int16_t)json_integer_value(value), change, &key, text);
        if (key != NULL && strcmp(key, BROKER_FEATURE_OWN) == 0) {
            raise = (int16_t)json_integer_value(value);
        } else if (key != NULL) {              /* each once: the body is an object */
            (void)snprintf(levels.texts[levels.count], sizeof levels.texts[0], "%d", (int)(int16_t)json_integer_value(value));
            levels.entries[levels.count++].name = ot_str_of(key);
        }
        if (err == OT_OK) continue;
        rest_problem_more(call, err, NULL, "GET /v1/cluster/features", "%s", text);
        return;
    }
    if (raise != 0 && json_object_size(body) > 1) rest_problem(call, OT_ERR_INVALID_REQUEST, BROKER_FEATURE_OWN " is changed in a request of its own");
    else if (raise != 0) raise_own(call, raise);
    else if (levels.count > 0 && !validate_only) set_levels(call, &levels);
    else write_all(call, validate_only);
}
