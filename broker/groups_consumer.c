/* What consumer groups of the new protocol are run with: the server's configuration, and what single groups have otherwise. */
#include "broker/room.h"

#include "broker/group_configs.h"
#include "broker/groups_consumer.h"
#include <string.h>
#include <strings.h>

static uint32_t assignors_of(const char *list, enum coord_assignor *out, uint32_t max)
{
    uint32_t count = 0;
    while (list != NULL && *list != 0 && count < max) {
        const size_t bytes = strcspn(list, ",");
        size_t skip = strspn(list, " ");
        if (skip > bytes) skip = bytes;
        const struct ot_str name = { list + skip, (uint32_t)(bytes - skip), false };
        if (coord_assignor_by_name(name, &out[count])) count++;
        list += bytes + (list[bytes] == ',');
    }
    if (count == 0) out[count++] = COORD_ASSIGN_UNIFORM;       /* an empty list: the default, since a group needs one */
    return count;
}

static int migration_of(const char *policy)
{
    if (policy == NULL || strcasecmp(policy, "bidirectional") == 0) return COORD_CG_UPGRADE | COORD_CG_DOWNGRADE;
    if (strcasecmp(policy, "upgrade") == 0) return COORD_CG_UPGRADE;
    return strcasecmp(policy, "downgrade") == 0 ? COORD_CG_DOWNGRADE : COORD_CG_NO_MIGRATION;
}

static void of_group(const struct consumer_group_config *config, struct ot_str group_id, struct coord_cg_config *inout)
{
    const struct broker_groups_consumer *own = (const struct broker_groups_consumer *)(const void *)config;
    struct broker_group_config group;
    const struct broker_view *view = broker_view_take(own->broker);
    broker_group_config_effective(broker_config(own->broker), view, group_id, &group);
    broker_view_give(view);
    inout->session_timeout_ms = group.session_timeout_ms;
    inout->heartbeat_interval_ms = group.heartbeat_interval_ms;
    inout->assignment_interval_ms = group.assignment_interval_ms;
}

void broker_groups_consumer_config(struct broker *broker, uint32_t record_bytes_max, struct broker_groups_consumer *out)
{
    const struct broker_config *config = broker_config(broker);
    if (out->broker == NULL) out->assignor_count = assignors_of(config->group_consumer_assignors, out->assignors, OT_ARRAY_COUNT(out->assignors));
    out->broker = broker;
    out->config.of_group = of_group;
    out->config.all = (struct coord_cg_config){ .session_timeout_ms = config->group_consumer_session_timeout_ms,
        .heartbeat_interval_ms = config->group_consumer_heartbeat_interval_ms, .assignment_interval_ms = config->group_consumer_assignment_interval_ms,
        .size_max = config->group_consumer_max_size, .regex_refresh_ms = config->group_consumer_regex_refresh_interval_ms,
        .migration = migration_of(config->group_consumer_migration_policy), .assignors = out->assignors, .assignor_count = out->assignor_count,
        .record_bytes_max = record_bytes_max };
}
