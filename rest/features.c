/* Feature levels of the cluster: what they are, and changes of them as far as this version takes any. */
#include "broker/features.h"
#include "rest/handlers.h"
#include "rest/topic_view.h"
#include <stdio.h>

void rest_features_write(struct rest_json *out, const char *key, struct broker *broker)
{
    uint32_t count = 0;
    const struct broker_feature *features = broker_features(&count);
    rest_json_open(out, key, '{');
    for (uint32_t i = 0; i < count; i++) rest_json_int(out, features[i].name, broker_feature_level(broker, &features[i]));
    rest_json_close(out, '}');
}

static void write_all(struct rest_call *call, bool validate_only)
{
    struct rest_json *out = &call->out;
    uint32_t count = 0;
    const struct broker_feature *features = broker_features(&count);
    rest_json_open(out, NULL, '{');
    rest_json_open(out, "features", '[');
    for (uint32_t i = 0; i < count; i++) {
        rest_json_open(out, NULL, '{');
        rest_json_text(out, "name", features[i].name);
        rest_json_int(out, "level", broker_feature_level(call->broker, &features[i]));
        rest_json_int(out, "min", features[i].min);
        rest_json_int(out, "max", features[i].max);
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
        const enum ot_err err = broker_feature_update(broker_node_id(call->broker), broker_config(call->broker), (struct ot_str){ name, (uint32_t)bytes, false },
            (int16_t)json_integer_value(value), change, &key, text);
        if (key != NULL) {                     /* each once: the body is an object */
            (void)snprintf(levels.texts[levels.count], sizeof levels.texts[0], "%d", (int)(int16_t)json_integer_value(value));
            levels.entries[levels.count++].name = ot_str_of(key);
        }
        if (err == OT_OK) continue;
        rest_problem_more(call, err, NULL, "GET /v1/cluster/features", "%s", text);
        return;
    }
    if (levels.count > 0 && !validate_only) set_levels(call, &levels);
    else write_all(call, validate_only);
}
