#include "broker/placement.h"
#include <stdio.h>

enum { REPLICAS_MAX = 64 /* of a partition */, NAME_SHOWN = 100 };

static int shown(struct ot_str name) { return name.null ? 0 : (int)OT_MIN(name.bytes, (uint32_t)NAME_SHOWN); }

/* The partition's row, or what Kafka says about one that is not there. */
static enum ot_err find(const struct broker_view *view, struct ot_str topic, int32_t partition, struct ot_arena *arena, struct broker_view_partition *out,
    const char *no_topic, const char *no_partition, char *text)
{
    struct broker_view_topic row;
    if (!broker_view_topic(view, topic, &row)) {
        snprintf(text, BROKER_TEXT_MAX, "%s %.*s", no_topic, shown(topic), topic.data);
        return OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    }
    if (broker_view_partition(view, &row.id, partition, arena, out)) return OT_OK;
    snprintf(text, BROKER_TEXT_MAX, "%s %.*s-%d", no_partition, shown(topic), topic.data, partition);
    return OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
}

static bool has(const struct broker_view_ids *ids, int32_t id)
{
    for (int32_t i = 0; i < ids->count; i++)
        if (ids->ids[i] == id) return true;
    return false;
}

static bool steps_back(const struct broker_view *view, int32_t id) { return broker_view_draining(view, id) || broker_view_leaving(view, id); }

bool broker_another_could_lead(const struct broker_view *view, const struct broker_view_partition *row, int32_t id)
{
    for (int32_t i = 0; i < row->isr.count; i++) {
        const int32_t other = row->isr.ids[i];
        if (other != id && !has(&row->offline, other) && !steps_back(view, other)) return true;
    }
    return false;
}

int32_t broker_preferred(const struct broker_view *view, const struct broker_view_partition *row)
{
    const int32_t first = row->replicas.ids[0];
    const bool drains = !has(&row->offline, first) && steps_back(view, first);
    if (!drains && !(row->leader >= 0 && steps_back(view, row->leader))) return first;
    for (int32_t i = 0; i < row->isr.count; i++)
        if (!has(&row->offline, row->isr.ids[i]) && !steps_back(view, row->isr.ids[i])) return row->isr.ids[i];
    return row->leader;
}

static enum ot_err elect(const struct broker_view *view, enum broker_election election, struct ot_str topic, int32_t partition, struct ot_arena *arena, char *text)
{
    struct broker_view_partition row;
    const enum ot_err err = find(view, topic, partition, arena, &row, "No such topic as", "No such partition as", text);
    if (err != OT_OK) return err;
    if (row.replicas.count == 0) return OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    const int32_t preferred = broker_preferred(view, &row);
    if (election == BROKER_ELECT_UNCLEAN ? row.leader >= 0 : row.leader == preferred) {
        snprintf(text, BROKER_TEXT_MAX, "Leader election not needed for topic partition.");
        return OT_ERR_ELECTION_NOT_NEEDED;
    }
    if (election == BROKER_ELECT_UNCLEAN) return row.offline.count < row.replicas.count ? OT_OK : OT_ERR_ELIGIBLE_LEADERS_NOT_AVAILABLE;
    return has(&row.isr, preferred) && !has(&row.offline, preferred) ? OT_OK : OT_ERR_PREFERRED_LEADER_NOT_AVAILABLE;
}

/* A request may be about very many partitions: what was looked at for one is not kept for the next. */
enum ot_err broker_elect(const struct broker_view *view, enum broker_election election, struct ot_str topic, int32_t partition, struct ot_arena *arena,
    char text[static BROKER_TEXT_MAX])
{
    const struct ot_arena_mark mark = ot_arena_mark(arena);
    text[0] = 0;
    const enum ot_err err = elect(view, election, topic, partition, arena, text);
    ot_arena_rewind(arena, &mark);
    return err;
}

enum ot_err broker_elect_named(const struct broker_view *view, enum broker_election election, struct ot_str topic, int32_t partition, struct ot_arena *arena,
    char text[static BROKER_TEXT_MAX])
{
    const enum ot_err err = broker_elect(view, election, topic, partition, arena, text);
    if (election != BROKER_ELECT_PREFERRED || (err != OT_ERR_ELECTION_NOT_NEEDED && err != OT_ERR_PREFERRED_LEADER_NOT_AVAILABLE)) return err;
    text[0] = 0;
    return OT_OK;
}

static bool is_registered(const struct broker_view *view, int32_t id, struct ot_arena *arena)
{
    struct broker_view_broker broker;
    return id >= 0 && broker_view_next_broker(view, id - 1, arena, &broker) && broker.id == id;
}

static enum ot_err check_replicas(const struct broker_view *view, const int32_t *replicas, int32_t count, struct ot_arena *arena, char *text)
{
    if (count == 0) {
        snprintf(text, BROKER_TEXT_MAX, "The manual partition assignment includes an empty replica list.");
        return OT_ERR_INVALID_REPLICA_ASSIGNMENT;
    }
    if (count > REPLICAS_MAX) {
        snprintf(text, BROKER_TEXT_MAX, "The manual partition assignment has %d replicas, more than %d.", count, REPLICAS_MAX);
        return OT_ERR_INVALID_REPLICA_ASSIGNMENT;
    }
    for (int32_t i = 0; i < count; i++) {
        if (!is_registered(view, replicas[i], arena)) {
            snprintf(text, BROKER_TEXT_MAX, "The manual partition assignment includes broker %d, but no such broker is registered.", replicas[i]);
            return OT_ERR_INVALID_REPLICA_ASSIGNMENT;
        }
        if (has(&(struct broker_view_ids){ replicas, i }, replicas[i])) {
            snprintf(text, BROKER_TEXT_MAX, "The manual partition assignment includes the broker %d more than once.", replicas[i]);
            return OT_ERR_INVALID_REPLICA_ASSIGNMENT;
        }
    }
    return OT_OK;
}

static enum ot_err reassign(const struct broker_view *view, struct ot_str topic, int32_t partition, const int32_t *replicas, int32_t count, bool factor_may_change,
    struct ot_arena *arena, bool *same_out, char *text)
{
    struct broker_view_partition row;
    enum ot_err err = find(view, topic, partition, arena, &row, "Unable to find a topic named", "Unable to find partition", text);
    if (err != OT_OK) return err;
    if (count < 0) {                           /* whether there is one to cancel is the coordinator's to say */
        *same_out = row.goes_back || (row.adding.count == 0 && row.removing.count == 0);
        return OT_OK;
    }
    if ((err = check_replicas(view, replicas, count, arena, text)) != OT_OK) return err;
    if (!factor_may_change && count != row.replicas.count) {
        snprintf(text, BROKER_TEXT_MAX, "The replication factor is changed from %d to %d", row.replicas.count, count);
        return OT_ERR_INVALID_REPLICATION_FACTOR;
    }
    bool same = count == row.replicas.count && row.adding.count == 0 && row.removing.count == 0;
    for (int32_t i = 0; same && i < count; i++) same = replicas[i] == row.replicas.ids[i];
    *same_out = same;
    return OT_OK;
}

enum ot_err broker_reassign(const struct broker_view *view, struct ot_str topic, int32_t partition, const int32_t *replicas, int32_t count, bool factor_may_change,
    struct ot_arena *arena, bool *same_out, char text[static BROKER_TEXT_MAX])
{
    const struct ot_arena_mark mark = ot_arena_mark(arena);
    text[0] = 0;
    *same_out = false;
    const enum ot_err err = reassign(view, topic, partition, replicas, count, factor_may_change, arena, same_out, text);
    ot_arena_rewind(arena, &mark);
    return err;
}
