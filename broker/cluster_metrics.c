/* What this broker knows of the cluster, as series. Only the controller tells of topics and partitions, so that a sum over brokers is right. */
#include "broker/room.h"

#include "base/arena.h"

static void set(struct ot_metrics *metrics, enum ot_metric metric, const char *label, double value)
{
    const char *labels[] = { label };
    struct ot_series *series = ot_series_get(metrics, metric, label == NULL ? NULL : labels);
    ot_series_set(series, value);
    ot_series_release(metrics, series);
}

static uint64_t count_offline(const struct broker_view *view, struct ot_arena *arena)
{
    uint64_t offline = 0;
    struct broker_view_topic topic;
    for (struct ot_str after = { .null = true }; broker_view_next_topic(view, after, &topic); after = topic.name) {
        for (int32_t index = 0; index < topic.partition_count; index++) {
            struct broker_view_partition partition;
            ot_arena_reset(arena);
            offline += broker_view_partition(view, &topic.id, index, arena, &partition) && partition.leader < 0;
        }
    }
    return offline;
}

/* Of those that were heard within a session: who was not is fenced, and of no interest. */
static int64_t behind_max(const struct broker *broker, int64_t version)
{
    const int64_t session_us = broker_config_current(broker->setup.config)->broker_session_timeout_ms * INT64_C(1000);
    return OT_MAX(version - broker_coordinator_applied_least(broker->coordinator, ot_exec_now_us(broker->setup.coord_exec) - session_us), INT64_C(0));
}

static void fill(void *arg, struct ot_metrics *metrics)
{
    struct broker *broker = arg;
    struct broker_view_cluster cluster;
    struct broker_view_broker row;
    struct ot_arena arena;
    uint32_t alive = 0, fenced = 0;
    const struct broker_view *view = broker_view_take(broker);
    ot_arena_init(&arena, 1u << 20);
    broker_view_cluster(view, &cluster);
    for (int32_t after = INT32_MIN; broker_view_next_broker(view, after, &arena, &row); after = row.id) {
        alive += !row.fenced;
        fenced += row.fenced;
    }
    const bool controller = cluster.controller_id == cluster.this_broker;
    set(metrics, OT_METRIC_controller_active, NULL, controller);
    set(metrics, OT_METRIC_metadata_offset, NULL, (double)cluster.version);
    set(metrics, OT_METRIC_cluster_brokers, "alive", alive);
    set(metrics, OT_METRIC_cluster_brokers, "fenced", fenced);
    set(metrics, OT_METRIC_cluster_topics, NULL, controller ? (double)broker_view_topic_count(view) : 0);
    set(metrics, OT_METRIC_cluster_partitions, NULL, controller ? (double)broker_view_partition_count(view) : 0);
    set(metrics, OT_METRIC_cluster_offline_partitions, NULL, controller ? (double)count_offline(view, &arena) : 0);
    set(metrics, OT_METRIC_cluster_metadata_behind_max, NULL, controller ? (double)behind_max(broker, cluster.version) : 0);
    set(metrics, OT_METRIC_transactions_open, NULL, (double)atomic_load(&broker->txns.open));
    set(metrics, OT_METRIC_transactions_late, NULL, (double)atomic_load(&broker->txns.late));
    ot_arena_free(&arena);
    broker_view_give(view);
}


void broker_metrics_cluster_watch(struct broker *broker)
{
    struct ot_metrics *metrics = broker->setup.metrics;
    if (metrics == NULL) return;
    ot_metrics_before_read(metrics, fill, broker);
}
