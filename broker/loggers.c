#include "broker/loggers.h"
#include "base/log.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define ROOT "root"
const char *const broker_logger_names[] = { ROOT, "audit", "broker", "config", "coordinator", "disk", "kafka", "log", "net", "rest", "server", "storage" };
const uint32_t broker_logger_count = OT_ARRAY_COUNT(broker_logger_names);

static const char *const levels[] = { "ERROR", "WARN", "INFO", "DEBUG", "TRACE" };

static enum ot_log_level level_now(const char *name)
{
    for (int level = OT_LOG_TRACE; level > OT_LOG_ERROR; level--)
        if (ot_log_enabled(name, (enum ot_log_level)level)) return (enum ot_log_level)level;
    return OT_LOG_ERROR;
}

const char *broker_logger_level(const char *name) { return levels[level_now(name)]; }

static enum ot_err refuse(char *text, enum ot_err error, const char *format, ...) OT_PRINTF(3, 4);
static enum ot_err refuse(char *text, enum ot_err error, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(text, BROKER_TEXT_MAX, format, args);
    va_end(args);
    return error;
}

static int shown(struct ot_str text) { return text.null ? 0 : (int)OT_MIN(text.bytes, 60u); }

static const char *find(struct ot_str name)
{
    for (uint32_t i = 0; i < broker_logger_count; i++)
        if (ot_str_equal(name, ot_str_of(broker_logger_names[i]))) return broker_logger_names[i];
    return NULL;
}

static bool parse(struct ot_str text, enum ot_log_level *out)
{
    if (ot_str_equal(text, ot_str_of("FATAL"))) {          /* of Kafka's levels the one that we have no event of */
        *out = OT_LOG_ERROR;
        return true;
    }
    for (size_t i = 0; i < OT_ARRAY_COUNT(levels); i++) {
        if (!ot_str_equal(text, ot_str_of(levels[i]))) continue;
        *out = (enum ot_log_level)i;
        return true;
    }
    return false;
}

static enum ot_err check(const struct broker_config_entry *entry, enum broker_config_op op, char *text)
{
    enum ot_log_level level;
    const char *name = find(entry->name);
    if (op != BROKER_CONFIG_SET && op != BROKER_CONFIG_DELETE)
        return refuse(text, OT_ERR_INVALID_REQUEST, "%s operation is not allowed for the BROKER_LOGGER resource", op == BROKER_CONFIG_APPEND ? "APPEND" : "SUBTRACT");
    if (name == NULL) return refuse(text, OT_ERR_INVALID_CONFIG, "Logger %.*s does not exist!", shown(entry->name), entry->name.data);
    if (op == BROKER_CONFIG_DELETE)
        return strcmp(name, ROOT) == 0 ? refuse(text, OT_ERR_INVALID_REQUEST, "Removing the log level of the root logger is not allowed") : OT_OK;
    if (!parse(entry->value, &level))
        return refuse(text, OT_ERR_INVALID_CONFIG, "Cannot set the log level of %s to %.*s as it is not a supported log level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
            name, shown(entry->value), entry->value.null ? "" : entry->value.data);
    return OT_OK;
}

enum ot_err broker_loggers_alter(const struct broker_config_entry *entries, const enum broker_config_op *ops, uint32_t count, bool validate_only,
    char text[static BROKER_TEXT_MAX])
{
    text[0] = 0;
    if (count > broker_logger_count) return refuse(text, OT_ERR_INVALID_REQUEST, "%u changes of %u loggers", count, broker_logger_count);
    for (uint32_t i = 0; i < count; i++) {
        const enum ot_err err = check(&entries[i], ops[i], text);
        if (err != OT_OK) return err;
        for (uint32_t k = 0; k < i; k++)
            if (ot_str_equal(entries[i].name, entries[k].name)) return refuse(text, OT_ERR_INVALID_REQUEST, "Error due to duplicate config keys");
    }
    for (uint32_t i = 0; i < count && !validate_only; i++) {
        enum ot_log_level level = level_now(ROOT);
        const char *name = find(entries[i].name);
        if (ops[i] == BROKER_CONFIG_SET) (void)parse(entries[i].value, &level);
        ot_log_set_level(strcmp(name, ROOT) == 0 ? NULL : name, level);
        ot_log(OT_LOG_INFO, "config", "log_level", "logger=%s level=%s", name, levels[level]);
    }
    return OT_OK;
}

const char *broker_loggers_follow(const struct broker_config *config, const char *before)
{
    if (before != NULL && strcmp(before, config->ottla_log_level) == 0) return before;
    for (size_t i = 0; i < OT_ARRAY_COUNT(levels); i++)
        if (strcasecmp(config->ottla_log_level, levels[i]) == 0) ot_log_set_level(NULL, (enum ot_log_level)i);
    return config->ottla_log_level;
}
