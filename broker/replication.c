/* The executor of replication: looks at partitions whose role is new, its clock, its beginning and end. */
#include "broker/replication_inner.h"

#include "broker/balance.h"
#include "broker/decommission.h"
#include "broker/move_throttle.h"

#include "base/log.h"
#include <stdlib.h>

#define TICK_US_MAX 500000

/* ---- looking at a partition */

static void look_run(struct ot_task *task)
{
    struct broker_partition *partition = OT_CONTAINER(task, struct broker_partition, look_task);
    struct broker_replication *all = partition->core->replication;
    atomic_store(&partition->look_posted, false);
    pthread_mutex_lock(&partition->mutex);
    const bool open = atomic_load(&partition->stage) == BROKER_PARTITION_OPEN && !partition->lane_closed;
    const int32_t leader = open && partition->replica.role == REPLICA_FOLLOWER ? partition->replica.row.leader : -1;
    const bool news = (open && broker_role_has_news(partition)) || broker_role_tells_loss(partition);
    pthread_mutex_unlock(&partition->mutex);
    if (!atomic_load(&all->stopping)) {
        broker_fetch_assign(all, partition, leader);
        broker_fetch_pump(all);
        if (news) {
            broker_news_add(all, partition);
            broker_news_pump(all);
        }
    }
    atomic_fetch_sub(&all->looks_open, 1);
    broker_partition_put(partition);
}

void broker_replication_look(struct broker_partition *partition)
{
    struct broker_replication *all = partition->core->replication;
    if (all == NULL || atomic_load_explicit(&all->stopping, memory_order_relaxed) || atomic_exchange(&partition->look_posted, true)) return;
    broker_partition_ref(partition);
    atomic_fetch_add(&all->looks_open, 1);
    partition->look_task.run = look_run;
    ot_exec_post(all->setup.exec, &partition->look_task);
}

/* ---- the clock */

static void tick_partition(struct broker_replication *all, struct broker_partition *partition, uint64_t now_us)
{
    struct broker_produce_part *done = NULL;
    pthread_mutex_lock(&partition->mutex);
    const bool open = atomic_load(&partition->stage) == BROKER_PARTITION_OPEN && partition->replica.row.replica_count > 1;
    if (open && partition->replica.role == REPLICA_LEADER) {
        broker_partition_followers_hold(partition);
        replica_tick(&partition->replica, now_us);
        broker_partition_advance(partition, &done);
    }
    const bool news = (open && broker_role_has_news(partition)) || broker_role_tells_loss(partition);
    pthread_mutex_unlock(&partition->mutex);
    broker_parts_complete(done);
    if (news) broker_news_add(all, partition);
}

static void tick_set(struct broker_replication *all)
{
    const int64_t lag_us = broker_config_current(all->core->config)->replica_lag_time_max_ms * 1000;
    ot_exec_timer_set(all->setup.exec, &all->tick_timer, ot_exec_now_us(all->setup.exec) + OT_MIN(OT_MAX(lag_us / 4, 10000), TICK_US_MAX));
}

static void tick_fired(struct ot_timer *timer)
{
    struct broker_replication *all = OT_CONTAINER(timer, struct broker_replication, tick_timer);
    const uint64_t now_us = (uint64_t)ot_exec_now_us(all->core->background_exec);
    uint32_t count = 0;
    if (atomic_load(&all->stopping)) return;
    struct broker_partition **list = broker_partitions_copy(all->core, &count);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        tick_partition(all, list[i], now_us);
        broker_partition_put(list[i]);
    }
    free(list);
    broker_news_pump(all);
    if (all->setup.balances) {
        broker_balance_tick(all);
        broker_decommission_tick(all);
        broker_move_throttle_tick(all);
    }
    tick_set(all);
}

static void fetch_fired(struct ot_timer *timer) { broker_fetch_pump(OT_CONTAINER(timer, struct broker_replication, fetch_timer)); }
static void alter_fired(struct ot_timer *timer) { broker_news_pump(OT_CONTAINER(timer, struct broker_replication, alter_timer)); }

/* ---- life */

static void start_run(struct ot_task *task)
{
    struct broker_replication *all = OT_CONTAINER(task, struct broker_replication, stop_task);
    tick_set(all);
    atomic_fetch_sub(&all->looks_open, 1);
}

enum ot_err broker_replication_start(const struct broker_replication_setup *setup, struct broker_replication **out)
{
    struct broker_replication *all = calloc(1, sizeof *all);
    if (all == NULL) return OT_ERR_NO_MEMORY;
    all->setup = *setup;
    all->core = broker_core_of(setup->broker);
    all->fetch_timer.fired = fetch_fired;
    all->tick_timer.fired = tick_fired;
    all->alter_timer.fired = alter_fired;
    all->core->replication = all;
    *out = all;
    atomic_fetch_add(&all->looks_open, 1);
    all->stop_task.run = start_run;
    ot_exec_post(setup->exec, &all->stop_task);
    return OT_OK;
}

static void stop_run(struct ot_task *task)
{
    struct broker_replication *all = OT_CONTAINER(task, struct broker_replication, stop_task);
    ot_exec_timer_cancel(all->setup.exec, &all->fetch_timer);
    ot_exec_timer_cancel(all->setup.exec, &all->tick_timer);
    ot_exec_timer_cancel(all->setup.exec, &all->alter_timer);
    broker_fetch_stop(all);
    broker_news_drop(all);
    if (all->setup.hang_up != NULL) all->setup.hang_up(all->setup.arg);
    atomic_fetch_sub(&all->looks_open, 1);
}

void broker_replication_stop(struct broker_replication *replication)
{
    struct broker_core *core = replication == NULL ? NULL : replication->core;
    if (replication == NULL || atomic_exchange(&replication->stopping, true)) return;
    while (atomic_load(&replication->looks_open) > 0) core->nap(core->nap_arg);
    atomic_fetch_add(&replication->looks_open, 1);
    replication->stop_task.run = stop_run;
    ot_exec_post(replication->setup.exec, &replication->stop_task);
    while (atomic_load(&replication->looks_open) > 0 || atomic_load(&replication->busy) > 0) core->nap(core->nap_arg);
}

void broker_replication_free(struct broker_replication *replication)
{
    if (replication == NULL) return;
    broker_fetch_sources_free(replication);
    replication->core->replication = NULL;
    free(replication->news);
    broker_balance_end(replication);
    free(replication);
}

void broker_replication_counts(struct broker_replication *replication, struct broker_replication_counts *out)
{
    *out = (struct broker_replication_counts){ 0 };
    if (replication == NULL) return;
    *out = (struct broker_replication_counts){ .sources = atomic_load(&replication->source_count), .partitions = atomic_load(&replication->partition_count),
        .fetches = atomic_load(&replication->fetches), .failures = atomic_load(&replication->failures), .bytes = atomic_load(&replication->bytes),
        .proposals = atomic_load(&replication->proposals), .refusals = atomic_load(&replication->refusals) };
}
