/* Totals of groups over all shards, and their series. */
#include "broker/room.h"

#include "broker/groups.h"
#include "broker/groups_watch.h"

static void move(_Atomic int64_t *total, uint64_t before, uint64_t now) { atomic_fetch_add_explicit(total, (int64_t)now - (int64_t)before, memory_order_relaxed); }

static void grow(_Atomic uint64_t *total, uint64_t before, uint64_t now)
{
    if (now > before) atomic_fetch_add_explicit(total, now - before, memory_order_relaxed);    /* a state that closes takes nothing back */
}

void broker_groups_count(struct broker *broker, const struct group_set_counts *before, const struct group_set_counts *now)
{
    struct broker_groups *groups = &broker->groups;
    for (int type = 0; type < GROUP_TYPE_COUNT; type++) move(&groups->groups[type], before->groups[type], now->groups[type]);
    move(&groups->members, before->members, now->members);
    move(&groups->offsets, before->offsets, now->offsets);
    move(&groups->rebalancing, before->rebalancing, now->rebalancing);
    grow(&groups->rebalances, before->rebalances, now->rebalances);
    grow(&groups->expired_offsets, before->expired_offsets, now->expired_offsets);
    grow(&groups->expired_members, before->expired_members, now->expired_members);
}

static struct ot_series *series(struct ot_metrics *metrics, enum ot_metric metric, const char *label)
{
    const char *labels[] = { label };
    return ot_series_get(metrics, metric, label == NULL ? NULL : labels);
}

static void gauge(struct ot_metrics *metrics, enum ot_metric metric, const char *label, int64_t value)
{
    struct ot_series *one = series(metrics, metric, label);
    ot_series_set(one, (double)value);
    ot_series_release(metrics, one);
}

static void counter(struct ot_metrics *metrics, enum ot_metric metric, uint64_t total)
{
    struct ot_series *one = series(metrics, metric, NULL);
    ot_series_set_total(one, total);
    ot_series_release(metrics, one);
}

static void fill(void *arg, struct ot_metrics *metrics)
{
    static const char *const types[GROUP_TYPE_COUNT] = { "classic", "consumer", "share", "streams" };
    struct broker_groups *groups = &((struct broker *)arg)->groups;
    for (int type = 0; type <= GROUP_CONSUMER; type++) gauge(metrics, OT_METRIC_groups, types[type], atomic_load(&groups->groups[type]));
    gauge(metrics, OT_METRIC_group_members, NULL, atomic_load(&groups->members));
    gauge(metrics, OT_METRIC_groups_rebalancing, NULL, atomic_load(&groups->rebalancing));
    gauge(metrics, OT_METRIC_group_offsets, NULL, atomic_load(&groups->offsets));
    counter(metrics, OT_METRIC_group_rebalances_total, atomic_load(&groups->rebalances));
    counter(metrics, OT_METRIC_group_members_expired_total, atomic_load(&groups->expired_members));
    counter(metrics, OT_METRIC_group_offsets_expired_total, atomic_load(&groups->expired_offsets));
}

void broker_groups_init(struct broker *broker)
{
    struct broker_groups *groups = &broker->groups;
    OT_STATIC_ASSERT(GROUP_TYPE_COUNT == 4, "a total for each type");
    groups->own_pool = (struct ot_mem_pool){ .name = "groups", .cap_bytes = 64u << 20 };
    groups->pool = broker->setup.groups_pool != NULL ? broker->setup.groups_pool : &groups->own_pool;
    pthread_mutex_init(&groups->mutex, NULL);
    groups->watched = true;
    if (broker->setup.metrics == NULL) return;
    ot_metrics_before_read(broker->setup.metrics, fill, broker);
    ot_metrics_source(broker->setup.metrics, OT_METRIC_group_lag_records, broker_groups_give_records, broker);
    ot_metrics_source(broker->setup.metrics, OT_METRIC_group_lag_seconds, broker_groups_give_seconds, broker);
}
