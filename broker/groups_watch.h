/* All groups of this broker at a glance, looked at now and then: for metrics and lists, which cannot wait for every shard and log. */
#ifndef OT_BROKER_GROUPS_WATCH_H
#define OT_BROKER_GROUPS_WATCH_H

#include "base/metrics.h"
#include "broker/groups.h"
#include "broker/lag.h"

#define BROKER_GROUP_LAG_PARTS_MAX 20000u      /* committed offsets that one look takes in */

struct broker_group_lags_group { struct ot_str id; enum group_type type; uint32_t member_count, first, count; };     /* its parts; id is zero-terminated */
struct broker_group_lags {
    int64_t at_ms;                             /* wall time of the look */
    const struct broker_group_lags_group *groups; uint32_t group_count;
    const struct broker_lag_part *parts; uint32_t part_count;          /* of one group together, by topic; topics are zero-terminated */
    bool cut;                                  /* there were more offsets than one look takes in */
    /* own */
    uint32_t refs;
    struct ot_arena arena;
};
/* The last look, or NULL: none yet. Any thread; give it back soon. */
const struct broker_group_lags *broker_group_lags_take(struct broker *broker);
void broker_group_lags_give(struct broker *broker, const struct broker_group_lags *lags);      /* NULL is fine */

/* Offsets that were dropped for their age, newest first, as far as they are remembered: since the start, and the last BROKER_GROUP_EXPIRIES of all groups. */
#define BROKER_GROUP_EXPIRIES 1024u
struct broker_group_expiry { int64_t at_ms, offset, commit_ms; int32_t partition; char *group, *topic; };
/* Copies those of a group into the arena; how many, at most max. */
uint32_t broker_group_expiries(struct broker *broker, struct ot_str group, struct ot_arena *arena, struct broker_group_expiry *out, uint32_t max);

/* Sources of metrics; arg is the broker. */
void broker_groups_give_records(void *arg, struct ot_metric_sink *sink);
void broker_groups_give_seconds(void *arg, struct ot_metric_sink *sink);

#endif
