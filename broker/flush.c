/* Flush rounds, one partition at a time: whoever asks while a round runs is served by the next one (group commit).
 *
 * A round samples the log end, syncs every unflushed file, and only then moves flushed_end: eng_log_flush does that; here the round is
 * scheduled, and what it allows (the high watermark in the fsync classes) is published. */
#include "broker/core.h"
#include "base/log.h"

void broker_flush_ask(struct broker_partition *partition)
{
    if (partition->flush_busy) {
        partition->flush_again = true;
        return;
    }
    if (atomic_load(&partition->stage) != BROKER_PARTITION_OPEN) return;
    partition->flush_busy = true;
    broker_partition_ref(partition);
    atomic_fetch_add_explicit(&partition->core->work_open, 1, memory_order_relaxed);
    ot_exec_post(partition->core->flush_exec, &partition->flush_task);
}

void broker_flush_run(struct ot_task *task)
{
    struct broker_partition *partition = OT_CONTAINER(task, struct broker_partition, flush_task);
    struct broker_core *core = partition->core;
    struct broker_produce_part *done = NULL;
    int64_t flushed_end = 0;
    pthread_mutex_lock(&partition->mutex);
    partition->flush_again = false;
    bool open = atomic_load(&partition->stage) == BROKER_PARTITION_OPEN && partition->unindexed_count == 0;
    partition->unflushed_since_us = 0;
    pthread_mutex_unlock(&partition->mutex);
    int64_t start_us = ot_exec_now_us(core->background_exec);
    enum ot_err err = open ? eng_log_flush(partition->log, &flushed_end) : OT_ERR_CLOSED;
    ot_series_observe_us(core->series.flush_us, ot_exec_now_us(core->background_exec) - start_us);
    ot_series_add(core->series.flush_rounds, 1);
    pthread_mutex_lock(&partition->mutex);
    bool again = err == OT_OK && partition->flush_again && eng_log_flushed_end(partition->log) < eng_log_end_offset(partition->log);
    if (!again) partition->flush_busy = false;
    if (err == OT_ERR_NO_SPACE) partition->flush_owed = true;      /* asked for again each second */
    if (err == OT_OK && atomic_load(&partition->stage) == BROKER_PARTITION_OPEN) broker_partition_advance(partition, &done);
    if (!again && !partition->flush_busy) broker_partition_settle_end(partition);
    pthread_mutex_unlock(&partition->mutex);
    broker_parts_complete(done);
    if (err == OT_ERR_NO_SPACE) eng_store_reserve_release(core->store, partition->store_dir);
    else if (err != OT_OK && err != OT_ERR_CLOSED) eng_store_fail_dir(core->store, partition->store_dir, err, "flush");
    if (again) {
        ot_exec_post(core->flush_exec, &partition->flush_task);
        return;
    }
    atomic_fetch_sub(&core->work_open, 1);
    broker_partition_put(partition);
}
