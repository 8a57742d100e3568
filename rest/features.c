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

/* The level of transaction.version, which alone may be another. */
static void set_level(struct rest_call *call, const char *level)
{
    struct rest_change *change = rest_change_new(call, BROKER_ALTER_BROKER_CONFIG, (struct ot_str){ .null = true });
    struct broker_config_entry *entry = change == NULL ? NULL : ot_arena_alloc(&call->arena, sizeof(*entry));
    const char *copy = ot_arena_str(&call->arena, ot_str_of(level));
    if (change == NULL) return;
    if (entry == NULL || copy == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        return;
    }
    *entry = (struct broker_config_entry){ ot_str_of(BROKER_FEATURE_CONFIG), ot_str_of(copy) };
    change->item.broker_id = -1;
    change->item.configs = entry;
    change->item.config_count = 1;
    rest_change_start(change, changed);
}

/* {"transaction.version": 2}; a level below the present one needs "allow_downgrade": "safe" or "unsafe" in the query. */
void rest_features_patch(struct rest_call *call)
{
    static const char *const downgrades[] = { "safe", "unsafe" };
    json_t *body = rest_body_object(call, REST_VALUES_SMALL), *value;
    const char *name;
    size_t bytes;
    char place[REST_POINTER_MAX], text[BROKER_TEXT_MAX], level[8] = "";
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
        bool sets = false;
        const enum ot_err err = broker_feature_update(broker_node_id(call->broker), broker_transaction_version(call->broker), (struct ot_str){ name, (uint32_t)bytes, false },
            (int16_t)json_integer_value(value), change, &sets, text);
        if (sets) (void)snprintf(level, sizeof level, "%d", (int)(int16_t)json_integer_value(value));
        if (err == OT_OK) continue;
        rest_problem_more(call, err, NULL, "GET /v1/cluster/features", "%s", text);
        return;
    }
    if (level[0] != 0 && !validate_only) set_level(call, level);
    else write_all(call, validate_only);
}
