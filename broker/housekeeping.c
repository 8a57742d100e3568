/* The broker's slow clock, on the background thread: disk space each second, checkpoints each 5 s, retention, producer expiry, flush.ms.
 * And the start and end of the core. */
#include "broker/core.h"
#include "base/log.h"
#include <stdlib.h>
#include <time.h>

#define TICK_US 1000000
#define CHECKPOINT_US 5000000
#define EXPIRY_US 60000000

bool broker_keeper_enter(struct broker_partition *partition)
{
    pthread_mutex_lock(&partition->mutex);
    bool may = atomic_load(&partition->stage) == BROKER_PARTITION_OPEN && !partition->keeper_busy;
    if (may) partition->keeper_busy = true;
    pthread_mutex_unlock(&partition->mutex);
    return may;
}

void broker_keeper_leave(struct broker_partition *partition)
{
    pthread_mutex_lock(&partition->mutex);
    partition->keeper_busy = false;
    broker_partition_settle_end(partition);
    pthread_mutex_unlock(&partition->mutex);
}

static void retain(struct broker_partition *partition, int64_t wall_ms)
{
    struct eng_retained retained = { 0 };
    enum ot_err err = eng_log_retain(partition->log, atomic_load(&partition->high_watermark), wall_ms, &retained);
    if (err != OT_OK) ot_log(OT_LOG_WARN, "log", "retention_failed", "topic=%s partition=%d error=%s", partition->topic->name, partition->index, ot_err_name(err));
    if (retained.roll_wanted) {                /* goes at the next look, once the lane has closed it: soon, not an interval later */
        partition->core->retention_due_us = OT_MIN(partition->core->retention_due_us, ot_exec_now_us(partition->core->background_exec) + TICK_US);
        pthread_mutex_lock(&partition->mutex);
        broker_lane_ask_roll(partition);
        pthread_mutex_unlock(&partition->mutex);
    }
    if (retained.segments == 0) return;
    broker_metrics_segments_deleted(partition->core, "retention", retained.segments);
    ot_log(OT_LOG_INFO, "log", "retention", "topic=%s partition=%d segments=%u bytes=%llu log_start_offset=%lld", partition->topic->name, partition->index,
        retained.segments, (unsigned long long)retained.bytes, (long long)retained.log_start_offset);
    struct broker_produce_part *done = NULL;
    pthread_mutex_lock(&partition->mutex);
    if (atomic_load(&partition->stage) == BROKER_PARTITION_OPEN) broker_partition_advance(partition, &done);      /* the last stable offset is not below the start */
    broker_partition_wake_fetches(partition);
    pthread_mutex_unlock(&partition->mutex);
    broker_parts_complete(done);
}

/* All checkpoints are written together, as often as the most impatient of their keys wants. */
static int64_t checkpoint_us(const struct broker_config *config)
{
    const int64_t ends_ms = OT_MIN(config->log_flush_offset_checkpoint_interval_ms, config->log_flush_start_offset_checkpoint_interval_ms);
    const int64_t asked_ms = OT_MIN(config->replica_high_watermark_checkpoint_interval_ms, ends_ms);
    return OT_MAX(TICK_US, OT_MIN(asked_ms, CHECKPOINT_US / 1000) * 1000);
}

static void keep_one(struct broker_partition *partition, int64_t now_us, int64_t wall_ms, bool retention, bool expiry)
{
    const struct broker_topic_config *config = atomic_load_explicit(&partition->topic->config, memory_order_acquire);
    if (broker_partition_heal(partition, now_us) || !broker_keeper_enter(partition)) return;
    if (retention) retain(partition, wall_ms);
    pthread_mutex_lock(&partition->mutex);
    struct eng_producers *producers = expiry ? broker_partition_producer_state(partition) : NULL;
    if (producers != NULL) (void)eng_producers_expire(producers, wall_ms);
    if (partition->flush_owed) {
        partition->flush_owed = false;
        broker_flush_ask(partition);
    }
    if (partition->unflushed_since_us != 0 && (now_us - partition->unflushed_since_us) / 1000 >= config->flush_ms) broker_flush_ask(partition);
    pthread_mutex_unlock(&partition->mutex);
    broker_keeper_leave(partition);
}

static void tick_run(struct ot_task *task)
{
    struct broker_core *core = OT_CONTAINER(task, struct broker_core, tick_task);
    const struct broker_config *config = broker_config_current(core->config);
    int64_t now_us = ot_exec_now_us(core->background_exec), wall_ms = ot_exec_wall_ms(core->background_exec);
    uint32_t count = 0;
    if (atomic_load(&core->stopping)) return;  /* stop_run is on its way */
    atomic_fetch_add(&core->ticks, 1);
    broker_config_tick(core->config);
    broker_space_check(core);
    bool retention = now_us >= core->retention_due_us, expiry = now_us >= core->expiry_due_us;
    if (retention) core->retention_due_us = now_us + OT_MIN(config->log_retention_check_interval_ms, INT64_MAX / 2000) * 1000;
    if (expiry) core->expiry_due_us = now_us + EXPIRY_US;
    struct broker_partition **list = broker_partitions_copy(core, &count);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        keep_one(list[i], now_us, wall_ms, retention, expiry);
        broker_partition_put(list[i]);
    }
    free(list);
    broker_cleaner_look(core, now_us);
    if (core->ticked != NULL) core->ticked(core, now_us);
    if (now_us >= core->checkpoint_due_us) {
        core->checkpoint_due_us = now_us + checkpoint_us(config);
        pthread_rwlock_rdlock(&core->registry);
        bool stale = core->stale.count > 0;
        pthread_rwlock_unlock(&core->registry);
        (void)broker_checkpoints_write(core, stale);   /* said in the log; a value that is behind is harmless */
    }
    ot_exec_timer_set(core->background_exec, &core->tick, now_us + TICK_US);
}

/* A task of its own: the first tick may still be queued when a server stops right after its start, and a task is queued once. */
static void stop_run(struct ot_task *task)
{
    struct broker_core *core = OT_CONTAINER(task, struct broker_core, stop_task);
    ot_exec_timer_cancel(core->background_exec, &core->tick);
    atomic_store(&core->ticking, false);
}

static void tick_fired(struct ot_timer *timer)
{
    struct broker_core *core = OT_CONTAINER(timer, struct broker_core, tick);
    tick_run(&core->tick_task);
}

static void dir_offline_run(void *arg, uint32_t dir)
{
    struct broker_core *core = arg;
    uint32_t count = 0;
    if (dir < 64 && core->dir_failed != NULL && !core->dir_failed(core, dir)) atomic_fetch_or(&core->kept_dirs, UINT64_C(1) << dir);
    struct broker_partition **list = broker_partitions_copy(core, &count);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        pthread_mutex_lock(&list[i]->mutex);
        bool here = list[i]->log != NULL && list[i]->store_dir == dir;     /* one that is being opened looks itself */
        pthread_mutex_unlock(&list[i]->mutex);
        if (here) broker_partition_went_offline(list[i], OT_ERR_IO);
        broker_partition_put(list[i]);
    }
    free(list);
}

struct offline_note { struct ot_task task; struct broker_core *core; uint32_t dir; };
static void offline_run(struct ot_task *task)
{
    struct offline_note *note = OT_CONTAINER(task, struct offline_note, task);
    dir_offline_run(note->core, note->dir);
    atomic_fetch_sub(&note->core->work_open, 1);
    free(note);
}

static void went_offline(void *arg, uint32_t dir)
{
    struct broker_core *core = arg;
    struct offline_note *note = calloc(1, sizeof(*note));      /* once per directory and process */
    OT_ASSERT(note != NULL);
    *note = (struct offline_note){ .task = { .run = offline_run }, .core = core, .dir = dir };
    atomic_fetch_add(&core->work_open, 1);
    ot_exec_post(core->background_exec, &note->task);
}

static void nap(void *arg)
{
    (void)arg;
    nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
}

enum ot_err broker_core_init(struct broker_core *core, const struct broker_setup *setup, struct eng_store *store, int32_t node_id)
{
    core->io = setup->io;
    core->io_exec = setup->io_exec;
    core->flush_exec = setup->flush_exec;
    core->background_exec = setup->background_exec;
    core->config = setup->config;
    core->store = store;
    core->decode_pool = setup->decode_pool;
    core->metrics = setup->metrics;
    broker_openings_init(&core->openings, setup->io_exec, setup->openings_max);
    broker_cleaner_init(core, setup);
    core->node_id = node_id;
    if (core->nap == NULL) core->nap = nap;
    core->tick.fired = tick_fired;
    core->tick_task.run = tick_run;
    core->stop_task.run = stop_run;
    broker_flush_init(core);
    broker_throttle_init(&core->throttles.leader);
    broker_throttle_init(&core->throttles.follower);
    pthread_rwlock_init(&core->registry, NULL);
    pthread_mutex_init(&core->decoders_mutex, NULL);
    pthread_mutex_init(&core->checkpoints_mutex, NULL);
    ot_map_init(&core->topics_by_name);
    ot_map_init(&core->topics_by_id);
    ot_map_init(&core->found);
    ot_map_init(&core->dying);
    ot_map_init(&core->stale);
    eng_store_on_offline(store, went_offline, core);
    enum ot_err err = broker_fetch_sessions_new(setup->sessions_pool, &core->sessions);
    if (err == OT_OK) err = broker_checkpoints_load(core);
    if (err == OT_OK) broker_settle_dirs(core, setup);
    broker_space_check(core);
    broker_metrics_watch(core);
    return err;
}

void broker_core_start(struct broker_core *core)
{
    const struct broker_config *config = broker_config_current(core->config);
    int64_t now_us = ot_exec_now_us(core->background_exec);
    core->checkpoint_due_us = now_us + checkpoint_us(broker_config_current(core->config));
    core->expiry_due_us = now_us + EXPIRY_US;
    core->retention_due_us = now_us + OT_MIN(OT_MIN(config->log_retention_check_interval_ms, config->log_initial_task_delay_ms), INT64_MAX / 2000) * 1000;
    atomic_store(&core->ticking, true);
    ot_exec_post(core->background_exec, &core->tick_task);
}

/* ---- the end ---- */

static bool wait_idle(struct broker_core *core, int64_t deadline_us)
{
    while (atomic_load(&core->work_open) > 0 || atomic_load(&core->ticking)) {
        if (ot_exec_now_us(core->background_exec) > deadline_us) return false;
        core->nap(core->nap_arg);
    }
    return true;
}

static void flush_each(struct broker_core *core)
{
    uint32_t count = 0;
    struct broker_partition **list = broker_partitions_copy(core, &count);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        pthread_mutex_lock(&list[i]->mutex);
        if (list[i]->log != NULL && eng_log_flushed_end(list[i]->log) < eng_log_end_offset(list[i]->log)) broker_flush_ask(list[i]);
        pthread_mutex_unlock(&list[i]->mutex);
        broker_partition_put(list[i]);
    }
    free(list);
}

static bool close_each(struct broker_core *core, bool idle)
{
    uint32_t count = 0;
    bool flushed = idle;
    struct broker_partition **list = broker_partitions_copy(core, &count);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        struct broker_produce_part *done = NULL;
        pthread_mutex_lock(&list[i]->mutex);
        list[i]->lane_closed = true;
        broker_partition_fail_all(list[i], OT_ERR_NOT_LEADER_OR_FOLLOWER, "the server is stopping", &done);
        if (list[i]->log == NULL) flushed = false;     /* never opened: nobody may believe its files unseen at the next start */
        if (list[i]->log != NULL && (list[i]->unindexed_count > 0 || eng_log_flushed_end(list[i]->log) < eng_log_end_offset(list[i]->log))) flushed = false;
        pthread_mutex_unlock(&list[i]->mutex);
        broker_parts_complete(done);
        broker_partition_put(list[i]);
    }
    free(list);
    return flushed;
}

bool broker_core_stop(struct broker_core *core, int64_t timeout_ms)
{
    int64_t deadline_us = ot_exec_now_us(core->background_exec) + timeout_ms * 1000;
    atomic_store(&core->stopping, true);
    atomic_store(&core->ticking, true);
    ot_exec_post(core->background_exec, &core->stop_task);      /* ends the ticking */
    bool idle = wait_idle(core, deadline_us);
    flush_each(core);
    idle = wait_idle(core, deadline_us) && idle;
    bool flushed = close_each(core, idle);
    atomic_fetch_or(&core->unclean, broker_checkpoints_write(core, true));     /* a clean start holds the ends of its logs against them */
    return flushed;
}

uint64_t broker_core_free(struct broker_core *core)
{
    /* No thread is left inside: doors are closed, executors are about to stop; whatever is queued runs first. */
    broker_fetch_sessions_free(core->sessions);
    while (core->topics_by_id.count > 0) {
        struct broker_topic *topic = core->topics_by_id.entries[0].value;
        (void)ot_map_remove(&core->topics_by_id, topic->id.bytes, sizeof(topic->id.bytes));
        for (int32_t i = 0; i < topic->partition_count; i++) broker_partition_put(topic->partitions[i]);
        topic->partition_count = 0;
        broker_topic_put(topic);
    }
    if (atomic_load(&core->ticking)) ot_exec_post(core->background_exec, &core->stop_task);        /* freed without a stop, as the simulator's crashes do */
    ot_ignore(wait_idle(core, INT64_MAX) ? OT_OK : OT_ERR_BUSY, "waits for ever");
    ot_map_free(&core->topics_by_id);
    ot_map_free(&core->topics_by_name);
    broker_checkpoints_free(core);
    while (core->decoders != NULL) {
        struct broker_decoder *next = core->decoders->next;
        eng_decode_free(core->decoders->decode);
        eng_encode_free(core->decoders->encode);
        free(core->decoders);
        core->decoders = next;
    }
    broker_cleaner_free(core);
    broker_openings_free(&core->openings);
    pthread_rwlock_destroy(&core->registry);
    pthread_mutex_destroy(&core->decoders_mutex);
    broker_throttle_free(&core->throttles.leader);
    broker_throttle_free(&core->throttles.follower);
    pthread_mutex_destroy(&core->checkpoints_mutex);
    return atomic_load(&core->unclean);
}
