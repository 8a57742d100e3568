#include "broker/core.h"
#include "broker/losses_inner.h"
#include "broker/replication.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DETAIL_PARTITIONS_MAX 2000             /* metrics.partition.detail=auto shows single partitions up to this many */

void broker_metrics_topic(struct broker_core *core, struct broker_topic *topic)
{
    const char *labels[] = { topic->name };
    if (core->metrics == NULL) return;
    topic->series.bytes_in = ot_series_get(core->metrics, OT_METRIC_topic_bytes_in_total, labels);
    topic->series.bytes_out = ot_series_get(core->metrics, OT_METRIC_topic_bytes_out_total, labels);
    topic->series.records_in = ot_series_get(core->metrics, OT_METRIC_topic_records_in_total, labels);
    topic->series.produce_requests = ot_series_get(core->metrics, OT_METRIC_topic_produce_requests_total, labels);
    topic->series.fetch_requests = ot_series_get(core->metrics, OT_METRIC_topic_fetch_requests_total, labels);
}

void broker_metrics_topic_gone(struct broker_core *core, struct broker_topic *topic)
{
    static const enum ot_metric rows[] = { OT_METRIC_topic_bytes_in_total, OT_METRIC_topic_bytes_out_total, OT_METRIC_topic_records_in_total,
        OT_METRIC_topic_produce_requests_total, OT_METRIC_topic_fetch_requests_total };
    const char *labels[] = { topic->name };
    if (core->metrics == NULL) return;
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) ot_series_drop(core->metrics, rows[i], labels);
}

void broker_metrics_topic_end(struct broker_core *core, struct broker_topic *topic)
{
    struct ot_series *all[] = { topic->series.bytes_in, topic->series.bytes_out, topic->series.records_in, topic->series.produce_requests,
        topic->series.fetch_requests };
    if (core->metrics == NULL) return;
    for (size_t i = 0; i < OT_ARRAY_COUNT(all); i++) ot_series_release(core->metrics, all[i]);
}

void broker_metrics_rejected(struct broker_core *core, const char *topic, const char *reason, uint64_t bytes)
{
    const char *labels[] = { topic, reason };
    if (core->metrics == NULL) return;
    struct ot_series *series = ot_series_get(core->metrics, OT_METRIC_topic_rejected_bytes_total, labels);
    ot_series_add(series, bytes);
    ot_series_release(core->metrics, series);
}

void broker_metrics_segments_deleted(struct broker_core *core, const char *reason, uint32_t count)
{
    const char *labels[] = { reason };
    if (core->metrics == NULL) return;
    struct ot_series *series = ot_series_get(core->metrics, OT_METRIC_log_segments_deleted_total, labels);
    ot_series_add(series, count);
    ot_series_release(core->metrics, series);
}

void broker_metrics_corrupt(struct broker_core *core, uint32_t batches)
{
    if (batches > 0) ot_series_add(core->series.corrupt, batches);
}

static void set_waiting(struct ot_metrics *metrics, const char *kind, int64_t count)
{
    const char *labels[] = { kind };
    struct ot_series *series = ot_series_get(metrics, OT_METRIC_purgatory_requests, labels);
    ot_series_set(series, (double)OT_MAX(count, 0));
    ot_series_release(metrics, series);
}

static void set(struct ot_metrics *metrics, enum ot_metric metric, double value)
{
    struct ot_series *series = ot_series_get(metrics, metric, NULL);
    ot_series_set(series, value);
    ot_series_release(metrics, series);
}

static void set_total(struct ot_metrics *metrics, enum ot_metric metric, uint64_t total)
{
    struct ot_series *series = ot_series_get(metrics, metric, NULL);
    ot_series_set_total(series, total);
    ot_series_release(metrics, series);
}

/* Mutex held, it leads: how far the farthest of its followers is behind. */
static int64_t farthest(const struct replica *replica)
{
    int64_t lag = 0;
    for (int32_t i = 0; replica->applied && i < replica->row.replica_count; i++) {
        const struct replica_peer *peer = &replica->peers[i];
        if (peer->id != replica->self && peer->end >= 0) lag = OT_MAX(lag, replica->log_end - peer->end);
    }
    return lag;
}

static void set_dir(struct ot_metrics *metrics, enum ot_metric metric, const char *dir, double value)
{
    const char *labels[] = { dir };
    struct ot_series *series = ot_series_get(metrics, metric, labels);
    ot_series_set(series, value);
    ot_series_release(metrics, series);
}

static void fill(void *arg, struct ot_metrics *metrics)
{
    struct broker_core *core = arg;
    uint32_t count = 0, led = 0, offline = 0, under = 0, under_min = 0, at_min = 0, moving = 0, out_of_sync = 0, not_preferred = 0, producers = 0, uncleanable = 0;
    uint64_t uncleanable_bytes = 0;
    int64_t lag = 0;
    struct broker_partition **list = broker_partitions_copy(core, &count);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        struct broker_partition *partition = list[i];
        pthread_mutex_lock(&partition->mutex);
        led += partition->is_leader;
        offline += atomic_load(&partition->stage) == BROKER_PARTITION_OFFLINE;
        if (partition->is_leader) {
            const int32_t missing = OT_MAX(partition->replica_count - partition->isr_count, 0);
            under += missing > 0;
            out_of_sync += (uint32_t)missing;
            lag = OT_MAX(lag, farthest(&partition->replica));
            not_preferred += partition->replica.applied && partition->replica.row.replica_count > 0 && partition->replica.row.replicas[0] != core->node_id;
            moving += partition->replica.applied && (partition->replica.row.adding | partition->replica.row.removing) != 0;
        }
        under_min += partition->is_leader && partition->isr_count < partition->min_isr;
        at_min += partition->is_leader && partition->isr_count == partition->min_isr && partition->replica_count > 1;
        uncleanable += partition->cleaner.uncleanable;
        uncleanable_bytes += partition->cleaner.uncleanable ? partition->cleaner.dirty_bytes : 0;
        struct eng_producers *state = broker_partition_producer_state(partition);
        if (state != NULL) producers += eng_producers_list(state, NULL, 0);
        pthread_mutex_unlock(&partition->mutex);
        broker_partition_put(partition);
    }
    free(list);
    set(metrics, OT_METRIC_partitions_hosted, count);
    set(metrics, OT_METRIC_partitions_led, led);
    set(metrics, OT_METRIC_replicas_offline, offline);
    set(metrics, OT_METRIC_partitions_under_replicated, under);
    set(metrics, OT_METRIC_partitions_reassigning, moving);
    set(metrics, OT_METRIC_replicas_out_of_sync, out_of_sync);
    set(metrics, OT_METRIC_replica_max_lag_records, (double)lag);
    set(metrics, OT_METRIC_preferred_replica_imbalance, not_preferred);
    set(metrics, OT_METRIC_partitions_under_min_isr, under_min);
    set(metrics, OT_METRIC_partitions_at_min_isr, at_min);
    set(metrics, OT_METRIC_producer_ids, producers);
    set(metrics, OT_METRIC_cleaner_running, atomic_load(&core->cleaner.running));
    set(metrics, OT_METRIC_cleaner_uncleanable_partitions, uncleanable);
    set(metrics, OT_METRIC_cleaner_uncleanable_bytes, (double)uncleanable_bytes);
    struct broker_replication_counts fetched;
    broker_replication_counts(core->replication, &fetched);
    set_total(metrics, OT_METRIC_replication_bytes_in_total, fetched.bytes);
    set_total(metrics, OT_METRIC_replication_bytes_out_total, atomic_load(&core->replication_bytes_out));
    struct broker_loss_counts losses;
    broker_losses_counts(core->losses, &losses);
    set(metrics, OT_METRIC_loss_ledger_entries, (double)losses.entries);
    set(metrics, OT_METRIC_loss_kept_bytes, (double)losses.kept_bytes);
    set(metrics, OT_METRIC_log_recovery_remaining_segments, eng_store_recovering(core->store));
    set_waiting(metrics, "produce", atomic_load(&core->waiting_produces));
    set_waiting(metrics, "fetch", atomic_load(&core->waiting_fetches));
    for (uint32_t dir = 0; dir < eng_store_dir_count(core->store); dir++) {
        struct ot_io_space space;
        const char *path = eng_store_dir_path(core->store, dir);
        bool dir_offline = eng_store_dir_offline(core->store, dir);
        set_dir(metrics, OT_METRIC_log_dir_offline, path, dir_offline);
        if (dir_offline || core->io->ops->space(core->io, path, &space) != OT_OK) continue;
        set_dir(metrics, OT_METRIC_disk_total_bytes, path, (double)space.total_bytes);
        set_dir(metrics, OT_METRIC_disk_free_bytes, path, (double)space.free_bytes);
    }
}

struct detail { struct broker_core *core; enum ot_metric metric; };

static double value_of(struct broker_partition *partition, enum ot_metric metric)
{
    switch (metric) {
    case OT_METRIC_log_size_bytes: return (double)eng_log_size_bytes(partition->log);
    case OT_METRIC_log_segments: return eng_log_segments(partition->log, NULL, 0);
    case OT_METRIC_log_start_offset: return (double)eng_log_start_offset(partition->log);
    case OT_METRIC_log_end_offset: return (double)eng_log_end_offset(partition->log);
    default: return (double)atomic_load(&partition->high_watermark);
    }
}

static void give_lag(struct broker_partition *partition, const char *index, enum ot_metric metric, struct ot_metric_sink *sink)
{
    struct broker_follower followers[COORD_REPLICAS_MAX];
    const uint32_t count = OT_MIN(broker_partition_followers(partition, followers, COORD_REPLICAS_MAX), (uint32_t)COORD_REPLICAS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        char id[12];
        const char *labels[] = { partition->topic->name, index, id };
        snprintf(id, sizeof(id), "%d", followers[i].broker_id);
        if (followers[i].lag >= 0) ot_metric_give(sink, labels, metric == OT_METRIC_replica_lag_records ? (double)followers[i].lag : (double)followers[i].caught_up_ms_ago / 1000);
    }
}

static void give(void *arg, struct ot_metric_sink *sink)
{
    struct detail *detail = arg;
    struct broker_core *core = detail->core;
    const bool is_lag = detail->metric == OT_METRIC_replica_lag_records || detail->metric == OT_METRIC_replica_lag_seconds;
    const char *mode = broker_config_current(core->config)->metrics_partition_detail;
    uint32_t count = 0;
    if (strcmp(mode, "off") == 0 || (strcmp(mode, "auto") == 0 && atomic_load(&core->partitions_total) > DETAIL_PARTITIONS_MAX)) return;
    struct broker_partition **list = broker_partitions_copy(core, &count);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        char index[16];
        const char *labels[] = { list[i]->topic->name, index };
        snprintf(index, sizeof(index), "%d", list[i]->index);
        const bool open = atomic_load(&list[i]->stage) == BROKER_PARTITION_OPEN;
        if (open && is_lag) give_lag(list[i], index, detail->metric, sink);
        else if (open) ot_metric_give(sink, labels, value_of(list[i], detail->metric));
        broker_partition_put(list[i]);
    }
    free(list);
}

void broker_metrics_watch(struct broker_core *core)
{
    static const enum ot_metric details[] = { OT_METRIC_log_size_bytes, OT_METRIC_log_segments, OT_METRIC_log_start_offset, OT_METRIC_log_end_offset,
        OT_METRIC_log_high_watermark, OT_METRIC_replica_lag_records, OT_METRIC_replica_lag_seconds };
    static struct detail rows[OT_ARRAY_COUNT(details)];        /* one broker in a process */
    struct ot_metrics *metrics = core->metrics;
    if (metrics == NULL) return;
    core->series.append_us = ot_series_get(metrics, OT_METRIC_log_append_duration_seconds, NULL);
    core->series.append_batches = ot_series_get(metrics, OT_METRIC_log_append_batches_total, NULL);
    core->series.append_writes = ot_series_get(metrics, OT_METRIC_log_append_writes_total, NULL);
    core->series.flush_us = ot_series_get(metrics, OT_METRIC_log_flush_duration_seconds, NULL);
    core->series.corrupt = ot_series_get(metrics, OT_METRIC_log_corrupt_batches_total, NULL);
    core->series.flush_rounds = ot_series_get(metrics, OT_METRIC_log_flush_rounds_total, NULL);
    ot_metrics_before_read(metrics, fill, core);
    for (size_t i = 0; i < OT_ARRAY_COUNT(details); i++) {
        rows[i] = (struct detail){ core, details[i] };
        ot_metrics_source(metrics, details[i], give, &rows[i]);
    }
}
