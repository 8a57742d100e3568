/* Log levels at run time, as in Kafka until the process ends; ottla.log.level is what lasts. */
#include "broker/loggers.h"
#include "rest/handlers.h"
#include "rest/topic_view.h"
#include <ctype.h>
#include <string.h>

enum { LEVEL_BYTES = 8, LOGGERS_MAX = 64 };

static void write_all(struct rest_call *call)
{
    struct rest_json *out = &call->out;
    rest_json_open(out, NULL, '{');
    rest_json_open(out, "loggers", '{');
    for (uint32_t i = 0; i < broker_logger_count; i++) {
        char level[LEVEL_BYTES] = "";
        const char *upper = broker_logger_level(broker_logger_names[i]);
        for (size_t k = 0; upper[k] != 0 && k + 1 < sizeof(level); k++) level[k] = (char)tolower((unsigned char)upper[k]);
        rest_json_text(out, broker_logger_names[i], level);
    }
    rest_json_close(out, '}');
    rest_json_close(out, '}');
    rest_reply_json(call, 200);
}

void rest_loggers_get(struct rest_call *call)
{
    if (rest_broker_is_here(call)) write_all(call);
}

/* A level in upper case, as the broker reads it; null: none of them has that length. */
static struct ot_str upper_level(struct rest_call *call, const json_t *value)
{
    const struct ot_str text = rest_json_string(value);
    char *upper = text.bytes >= LEVEL_BYTES ? NULL : ot_arena_str(&call->arena, text);
    for (uint32_t i = 0; upper != NULL && i < text.bytes; i++) upper[i] = (char)toupper((unsigned char)upper[i]);
    return upper == NULL ? text : (struct ot_str){ upper, text.bytes, false };
}

/* {"rest":"debug","net":null}: null goes back to the root logger's level. All or none. */
void rest_loggers_patch(struct rest_call *call)
{
    json_t *body = rest_body_object(call, REST_VALUES_SMALL), *value;
    struct broker_config_entry entries[LOGGERS_MAX];
    enum broker_config_op ops[LOGGERS_MAX];
    const char *name;
    size_t bytes;
    uint32_t count = 0;
    char place[REST_POINTER_MAX], text[BROKER_TEXT_MAX];
    const bool validate_only = rest_validate_only(call);
    if (body == NULL || !rest_broker_is_here(call)) return;
    json_object_keylen_foreach(body, name, bytes, value) {
        rest_pointer_join(place, "", name, bytes);
        if (!json_is_string(value) && !json_is_null(value)) rest_fault_add(&call->faults, place, "must be a level or null");
        if (count == LOGGERS_MAX) rest_fault_add(&call->faults, "", "must have at most %d members", LOGGERS_MAX);
        if (call->faults.count > 0) continue;
        ops[count] = json_is_null(value) ? BROKER_CONFIG_DELETE : BROKER_CONFIG_SET;
        entries[count++] = (struct broker_config_entry){ { name, (uint32_t)bytes, false }, json_is_null(value) ? (struct ot_str){ .null = true } : upper_level(call, value) };
    }
    if (rest_faulty(call)) return;
    const enum ot_err err = broker_loggers_alter(entries, ops, count, validate_only, text);
    if (err == OT_OK) write_all(call);
    else rest_problem(call, err, "%s", text);
}
