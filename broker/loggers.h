/* Log levels as Kafka's BROKER_LOGGER resource shows them: "root", and one logger for each subsystem. They count from now to the end of the process, as in
 * Kafka; ottla.log.level is what lasts, and sets them all when it changes. Any thread. */
#ifndef OT_BROKER_LOGGERS_H
#define OT_BROKER_LOGGERS_H

#include "broker/admin.h"
#include "broker/config.h"

extern const char *const broker_logger_names[];
extern const uint32_t broker_logger_count;
const char *broker_logger_level(const char *name);         /* "ERROR" … "TRACE" */

/* All of one request's changes, or none. INVALID_CONFIG: no such logger or level. INVALID_REQUEST: a list operation, no root level, or a logger twice. */
OT_MUST_CHECK enum ot_err broker_loggers_alter(const struct broker_config_entry *entries, const enum broker_config_op *ops, uint32_t count, bool validate_only,
    char text[static BROKER_TEXT_MAX]);

/* From the configuration: at start, and whenever it changes. before: the text that was applied last, or NULL. Answers what is applied now. */
const char *broker_loggers_follow(const struct broker_config *config, const char *before);

#endif
