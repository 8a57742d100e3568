/* What one group may have otherwise than the server says: dynamic configs of the resource type GROUP (Kafka's names). */
#ifndef OT_BROKER_GROUP_CONFIGS_H
#define OT_BROKER_GROUP_CONFIGS_H

#include "broker/config.h"
#include "broker/view.h"

/*  field, key, least and most (fields of struct broker_config), the broker's own, doc */
#define BROKER_GROUP_CONFIG_ROWS(X) \
    X(assignment_interval_ms, "consumer.assignment.interval.ms", group_consumer_min_assignment_interval_ms, group_consumer_max_assignment_interval_ms, \
        group_consumer_assignment_interval_ms, "group.consumer.assignment.interval.ms", "time between two target assignments, at least") \
    X(heartbeat_interval_ms, "consumer.heartbeat.interval.ms", group_consumer_min_heartbeat_interval_ms, group_consumer_max_heartbeat_interval_ms, \
        group_consumer_heartbeat_interval_ms, "group.consumer.heartbeat.interval.ms", "how often members are told to ask") \
    X(session_timeout_ms, "consumer.session.timeout.ms", group_consumer_min_session_timeout_ms, group_consumer_max_session_timeout_ms, \
        group_consumer_session_timeout_ms, "group.consumer.session.timeout.ms", "when a silent member is put out") \
    /* end */

struct broker_group_config { int32_t assignment_interval_ms, heartbeat_interval_ms, session_timeout_ms; };
/* The broker's values, then the group's own, held within the broker's bounds of now. */
void broker_group_config_effective(const struct broker_config *config, const struct broker_view *view, struct ot_str group, struct broker_group_config *out);
/* INVALID_CONFIG: text_out says why. */
OT_MUST_CHECK enum ot_err broker_group_config_check(const struct broker_config *config, struct ot_str key, struct ot_str value, char *text_out, size_t text_bytes);

struct broker_group_config_value { const char *key, *text, *broker_key; char broker_value[16], own_value[16]; bool own; };
enum { BROKER_GROUP_CONFIG_COUNT = 3 };
void broker_group_config_describe(const struct broker_config *config, const struct broker_view *view, struct ot_str group,
    struct broker_group_config_value out[static BROKER_GROUP_CONFIG_COUNT]);

#endif
