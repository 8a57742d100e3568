/* A partition whose log met a full disk when it was opened.
 *
 * Two ways it can have gone: recovery found no room for the bytes that it had to keep aside or for the leader epochs, and the log is read-only; or the log did not open at all, and the
 * partition is offline. Neither waits for a restart: once the directory takes records again, the log is opened anew. The first kind goes on serving readers from the old object
 * meanwhile and after; both see the same batches, for nothing was written since. */
#include "broker/core.h"
#include "broker/losses_inner.h"
#include "base/log.h"
#include <stdlib.h>

#define HEAL_EACH_US 10000000

struct healing { struct ot_task task; struct broker_partition *partition; };

/* The new log takes over. Its end is where the old one's was: both read the same bytes. */
static void take_over(struct broker_partition *partition, struct eng_log *fresh, struct broker_produce_part **done)
{
    struct eng_log *old = partition->log;
    int64_t high_watermark = atomic_load(&partition->high_watermark);
    eng_log_set_start(fresh, eng_log_start_offset(old));       /* DeleteRecords went on */
    partition->former = old;
    partition->log = fresh;
    partition->reserved_end = partition->state_end = eng_log_end_offset(fresh);
    eng_producers_advance(eng_log_producers(fresh), high_watermark);
    if (partition->replica.log_end > partition->state_end) replica_truncated(&partition->replica, partition->state_end);
    if (atomic_load(&partition->stage) != BROKER_PARTITION_OPEN) return;
    partition->lane_closed = false;
    broker_partition_advance(partition, done);
    broker_partition_wake_fetches(partition);
}

static enum ot_err reopen(struct broker_partition *partition, struct eng_log **out)
{
    struct broker_core *core = partition->core;
    struct eng_log *old = partition->log;
    const struct broker_topic_config *config = atomic_load_explicit(&partition->topic->config, memory_order_acquire);
    struct eng_log_open how = { .dir_path = eng_log_dir_path(old), .store_dir = partition->store_dir, .topic_id = partition->topic->id, .recovery_point = eng_log_flushed_end(old),
        .log_start_offset = eng_log_start_offset(old), .leader_epochs = broker_partition_leader_epochs(partition), .survived = true, .wall_ms = ot_exec_wall_ms(core->background_exec) };
    struct eng_recovery recovery;
    int64_t flushed_end;
    broker_engine_config(core, config, &how.config);
    enum ot_err err = eng_log_reopen(old, &how, out, &recovery);
    if (*out != NULL) broker_loss_of_recovery(partition, *out, &recovery);     /* what the first open had no room to keep aside */
    if (err == OT_OK && eng_log_end_offset(*out) < atomic_load(&partition->high_watermark)) err = OT_ERR_CORRUPT;       /* what was read before is not there now */
    if (err == OT_OK && (err = eng_log_flush(*out, &flushed_end)) == OT_ERR_NO_SPACE) err = OT_OK;
    return err;
}

static void heal_run(struct ot_task *task)
{
    struct healing *healing = OT_CONTAINER(task, struct healing, task);
    struct broker_partition *partition = healing->partition;
    struct broker_core *core = partition->core;
    struct broker_produce_part *done = NULL;
    struct eng_log *fresh = NULL;
    enum ot_err err = reopen(partition, &fresh);
    if (err != OT_ERR_NO_SPACE)
        ot_log(err == OT_OK ? OT_LOG_INFO : OT_LOG_ERROR, "log", "log_healed", "topic=%s partition=%d error=%s text=\"%s\"", partition->topic->name, partition->index, ot_err_name(err),
            err == OT_OK ? "opened on a full disk; there is room now, it takes records again" : "opened on a full disk, and not again");
    pthread_mutex_lock(&partition->mutex);
    if (fresh != NULL) take_over(partition, fresh, &done);
    pthread_mutex_unlock(&partition->mutex);
    broker_parts_complete(done);
    if (err != OT_OK && err != OT_ERR_NO_SPACE) broker_partition_went_offline(partition, err);
    pthread_mutex_lock(&partition->mutex);
    partition->keeper_busy = false;
    broker_partition_settle_end(partition);
    pthread_mutex_unlock(&partition->mutex);
    atomic_fetch_sub(&core->work_open, 1);
    broker_partition_put(partition);
    free(healing);
}

/* Read-only: the housekeeper's place in it is taken until the new log is there. */
static bool begin_reopen(struct broker_partition *partition)
{
    struct broker_core *core = partition->core;
    struct healing *healing = calloc(1, sizeof(*healing));
    if (healing == NULL) return false;
    pthread_mutex_lock(&partition->mutex);
    bool may = atomic_load(&partition->stage) == BROKER_PARTITION_OPEN && !partition->keeper_busy && !partition->cleaner_busy && !partition->flush_busy && partition->former == NULL;
    if (may) partition->keeper_busy = true;
    pthread_mutex_unlock(&partition->mutex);
    if (!may) {
        free(healing);
        return false;
    }
    *healing = (struct healing){ .task = { .run = heal_run }, .partition = broker_partition_ref(partition) };
    atomic_fetch_add(&core->work_open, 1);
    ot_exec_post(core->io_exec, &healing->task);
    return true;
}

static bool begin_open(struct broker_partition *partition)
{
    pthread_mutex_lock(&partition->mutex);
    bool may = atomic_load(&partition->stage) == BROKER_PARTITION_OFFLINE && partition->log == NULL && partition->open_full;
    if (may) {
        partition->open_full = false;
        partition->opening_busy = true;
        broker_partition_set_stage(partition, BROKER_PARTITION_OPENING);
    }
    pthread_mutex_unlock(&partition->mutex);
    return may && broker_partition_open(partition) == OT_OK;
}

bool broker_partition_heal(struct broker_partition *partition, int64_t now_us)
{
    struct broker_core *core = partition->core;
    pthread_mutex_lock(&partition->mutex);
    bool full = partition->log != NULL && eng_log_full(partition->log), unopened = partition->open_full;
    uint32_t dir = partition->store_dir;
    pthread_mutex_unlock(&partition->mutex);
    if (!full && !unopened) return false;
    if (now_us < partition->heal_due_us || atomic_load(&core->stopping)) return false;
    if (full && (eng_store_dir_offline(core->store, dir) || atomic_load(&core->dir_space[dir]) == BROKER_SPACE_REFUSE)) return false;
    partition->heal_due_us = now_us + HEAL_EACH_US;
    return full ? begin_reopen(partition) : begin_open(partition);
}
