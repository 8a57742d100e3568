/* Flush rounds, one partition at a time: whoever asks while a round runs is served by the next one (group commit).
 *
 * A round samples the log end, syncs every unflushed file, and only then moves flushed_end: eng_log_flush does that; here the round is
 * scheduled, and what it allows (the high watermark in the fsync classes) is published. */
#include "broker/core.h"
#include "base/log.h"

#define NOBODY_LOOKS_US 50000          /* so long may the high watermark of a lone leader stay behind while nobody looks at it */

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

/* ---- flushes that nobody waits for: a sync for each append of an acks=1 producer would cost four times what the append does ---- */

void broker_flush_want(struct broker_partition *partition)
{
    struct broker_core *core = partition->core;
    bool lone = partition->is_leader && partition->isr_count <= 1;
    if (!lone || partition->wait_first != NULL || partition->fetch_nodes != NULL || atomic_load(&core->stopping)) {
        broker_flush_ask(partition);
        return;
    }
    if (partition->flush_busy || partition->flush_later) return;       /* the end of that round comes here again */
    partition->flush_later = true;
    broker_partition_ref(partition);
    atomic_fetch_add_explicit(&core->work_open, 1, memory_order_relaxed);
    struct broker_partition *head = atomic_load(&core->later);
    do partition->later_next = head;
    while (!atomic_compare_exchange_weak(&core->later, &head, partition));
    if (head == NULL) ot_exec_post(core->background_exec, &core->later_task);      /* it has run, and its timer fired, when the list is empty */
}

static void later_fired(struct ot_timer *timer)
{
    struct broker_core *core = OT_CONTAINER(timer, struct broker_core, later_timer);
    struct broker_partition *partition = atomic_exchange(&core->later, NULL);
    while (partition != NULL) {
        struct broker_partition *next = partition->later_next;
        pthread_mutex_lock(&partition->mutex);
        partition->flush_later = false;
        bool behind = atomic_load(&partition->stage) == BROKER_PARTITION_OPEN && eng_log_flushed_end(partition->log) < eng_log_end_offset(partition->log);
        if (behind) broker_flush_ask(partition);
        pthread_mutex_unlock(&partition->mutex);
        atomic_fetch_sub(&core->work_open, 1);
        broker_partition_put(partition);
        partition = next;
    }
}

static void later_run(struct ot_task *task)
{
    struct broker_core *core = OT_CONTAINER(task, struct broker_core, later_task);
    int64_t wait_us = atomic_load(&core->stopping) ? 0 : NOBODY_LOOKS_US;
    ot_exec_timer_set(core->background_exec, &core->later_timer, ot_exec_now_us(core->background_exec) + wait_us);
}

void broker_flush_init(struct broker_core *core)
{
    core->later_task.run = later_run;
    core->later_timer.fired = later_fired;
}

void broker_flush_look(struct broker_partition *partition)
{
    pthread_mutex_lock(&partition->mutex);
    bool go = partition->flush_later && !partition->flush_busy && atomic_load(&partition->stage) == BROKER_PARTITION_OPEN;
    if (go) {
        partition->flush_busy = true;
        broker_partition_ref(partition);
        atomic_fetch_add_explicit(&partition->core->work_open, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&partition->mutex);
    if (go) broker_flush_run(&partition->flush_task);
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
