/* The life of one partition: opening its log, taking its role from the committed state, going offline, leaving. */
#include "broker/config_checks.h"
#include "broker/core.h"
#include "broker/losses_inner.h"
#include "broker/replication.h"
#include "base/log.h"
#include "engine/compact.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct broker_partition_opening {
    struct ot_task task;
    struct broker_opening_node node;
    struct broker_partition *partition;
    struct ot_exec *home;
    void (*opened)(void *arg, enum ot_err err);
    void *arg;
    enum ot_err err;
    bool must_exist, anew, in_background;
};

void broker_engine_config(const struct broker_core *core, const struct broker_topic_config *topic, struct eng_log_config *out)
{
    const struct broker_config *config = broker_config_current(core->config);
    const char *io = config->log_append_io;
    bool compact = strstr(topic->cleanup_policy, "compact") != NULL;
    *out = (struct eng_log_config){
        .segment_bytes = (uint32_t)topic->segment_bytes,
        .segment_ms = compact ? OT_MIN(topic->segment_ms, topic->max_compaction_lag_ms) : topic->segment_ms,      /* what is overdue must be sealed first */
        .segment_jitter_ms = topic->segment_jitter_ms,
        .segment_index_bytes = (uint32_t)topic->segment_index_bytes,
        .index_interval_bytes = (uint32_t)topic->index_interval_bytes,
        .retention_ms = topic->retention_ms,
        .retention_bytes = topic->retention_bytes,
        .delete_enabled = strstr(topic->cleanup_policy, "delete") != NULL,
        .compact_enabled = compact,
        .preallocate = topic->preallocate,
        .append_io = strcmp(io, "mmap") == 0 ? ENG_APPEND_MMAP : strcmp(io, "auto") == 0 ? ENG_APPEND_AUTO : ENG_APPEND_PWRITEV,
        .producer_expiry_ms = config->producer_id_expiration_ms,
        .producers_max = (uint32_t)config->ottla_producers_per_partition_max,
    };
}

enum broker_durability broker_durability_parse(const char *name)
{
    if (strcmp(name, "replicated") == 0) return BROKER_DURABILITY_REPLICATED;
    if (strcmp(name, "fsync") == 0) return BROKER_DURABILITY_FSYNC;
    if (strcmp(name, "replicated+fsync") == 0) return BROKER_DURABILITY_REPLICATED_FSYNC;
    return BROKER_DURABILITY_AUTO;
}

const char *broker_durability_name(enum broker_durability durability)
{
    static const char *const names[] = { "auto", "replicated", "fsync", "replicated+fsync" };
    return names[durability];
}

/* ---- opening ---- */

/* No checkpoint file may speak of a deleted topic of this name once records come in. On the background thread. */
static void forget_stale(struct broker_partition_opening *opening, const char *key, size_t key_bytes)
{
    struct broker_core *core = opening->partition->core;
    (void)broker_checkpoints_write(core, true);
    pthread_rwlock_rdlock(&core->registry);
    bool gone = ot_map_get(&core->stale, key, key_bytes) == NULL;
    pthread_rwlock_unlock(&core->registry);
    if (gone) return;
    opening->err = OT_ERR_KAFKA_STORAGE_ERROR;
    ot_log(OT_LOG_ERROR, "log", "checkpoint_stale", "topic=%s partition=%d text=\"the checkpoint files still name a deleted topic and could not be written\"",
        opening->partition->topic->name, opening->partition->index);
}

/* What was found at start has served: the checkpoints are written from the log from now on. */
static void found_is_used(struct broker_core *core, const char *key, size_t key_bytes)
{
    pthread_rwlock_wrlock(&core->registry);
    broker_found_free(ot_map_remove(&core->found, key, key_bytes));
    pthread_rwlock_unlock(&core->registry);
}

/* A folder without this topic's id may be an empty one that lost its races to one in a directory that is missing now. */
static bool named_for(struct broker_partition *partition, uint32_t dir)
{
    struct ot_uuid id;
    return eng_store_topic_id(partition->core->store, dir, partition->topic->name, partition->index, &id) == OT_OK && ot_uuid_equal(&id, &partition->topic->id);
}

/* Bits of the directories that cordoned.log.dirs names. */
static uint64_t cordoned(struct broker_core *core)
{
    const char *list = broker_config_current(core->config)->cordoned_log_dirs;
    uint64_t bits = 0;
    for (uint32_t dir = 0; list != NULL && list[0] != 0 && dir < eng_store_dir_count(core->store) && dir < 64; dir++)
        if (broker_config_list_has(list, eng_store_dir_path(core->store, dir))) bits |= UINT64_C(1) << dir;
    return bits;
}

bool broker_all_cordoned(struct broker_core *core)
{
    const uint32_t count = OT_MIN(eng_store_dir_count(core->store), 64u);
    return cordoned(core) == (count >= 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1);
}

/* Whatever lies there under its name is no good: its retirement had no log, or could not rename the folder. */
static void set_all_aside(struct broker_partition_opening *opening)
{
    struct broker_partition *partition = opening->partition;
    struct eng_store *store = partition->core->store;
    struct ot_io *io = partition->core->io;
    char path[4096];
    for (uint32_t dir = 0; dir < eng_store_dir_count(store) && opening->err == OT_OK; dir++) {
        struct ot_io_stat stat;
        if (eng_store_dir_offline(store, dir)) continue;
        snprintf(path, sizeof(path), "%s/%s-%d", eng_store_dir_path(store, dir), partition->topic->name, partition->index);
        if (io->ops->stat(io, path, &stat) == OT_OK) opening->err = eng_store_set_aside(store, dir, partition->topic->name, partition->index);
    }
}

/* Which directory, and what the checkpoints said. WAIT: try again on the background thread, when the old folders of that name are gone. SKIP: removed before it
 * had a folder; one opened now would take, and its retirement rename, the folder of the topic made after it. A folder of the last life is opened even so, to
 * be deleted with its log. */
enum place { PLACE_OPEN, PLACE_WAIT, PLACE_SKIP };

static bool is_one_of_several(struct broker_partition *partition)
{
    pthread_mutex_lock(&partition->mutex);
    const bool is = partition->replica_count > 1;
    pthread_mutex_unlock(&partition->mutex);
    return is;
}

static enum place place(struct broker_partition_opening *opening, struct eng_log_open *how)
{
    struct broker_partition *partition = opening->partition;
    struct broker_core *core = partition->core;
    char key[320];
    size_t key_bytes = broker_name_key(key, partition->topic->name, partition->index);
    bool known = false, stale = false;
    const bool doubts = is_one_of_several(partition);      /* whatever this start is: a life between may have been killed before it opened this log */
    enum place where = PLACE_OPEN;
    broker_found_choose(core, partition);
    pthread_rwlock_wrlock(&core->registry);
    struct broker_found *found = ot_map_get(&core->found, key, key_bytes);
    bool removed = atomic_load(&partition->stage) == BROKER_PARTITION_REMOVED;
    if (removed && (found == NULL || !found->folder || found->taken)) {
        where = PLACE_SKIP;
    } else if (!removed && ot_map_get(&core->dying, key, key_bytes) != NULL) {
        where = PLACE_WAIT;
    } else {
        stale = ot_map_get(&core->stale, key, key_bytes) != NULL;
        if (found != NULL) {
            known = found->folder;
            how->settled = known && !found->taken && core->settled[found->dir];      /* an opening that failed may have changed the files since */
            found->taken = true;
            how->store_dir = found->dir;
            how->recovery_point = OT_MAX(found->offsets[ENG_CHECKPOINT_RECOVERY], 0);
            how->doubts_holes = doubts && found->offsets[ENG_CHECKPOINT_RECOVERY] >= 0;      /* else nothing is known of what was on disk */
            how->log_start_offset = OT_MAX(found->offsets[ENG_CHECKPOINT_START], 0);
            how->first_dirty = OT_MAX(found->offsets[ENG_CHECKPOINT_CLEANER], 0);
            if (known) atomic_store(&partition->high_watermark, OT_MAX(found->offsets[ENG_CHECKPOINT_HIGH_WATERMARK], 0));
        }
    }
    pthread_rwlock_unlock(&core->registry);
    if (where == PLACE_OPEN && (stale || opening->anew) && !opening->in_background) where = PLACE_WAIT;
    if (where != PLACE_OPEN) return where;
    if (stale) forget_stale(opening, key, key_bytes);
    if (opening->anew) set_all_aside(opening);
    if (opening->must_exist && (!known || !named_for(partition, how->store_dir))) {
        opening->err = OT_ERR_KAFKA_STORAGE_ERROR;
        ot_log(OT_LOG_ERROR, "log", "folder_missing", "topic=%s partition=%d text=\"a log directory of this server is missing and may hold it: not made anew\"",
            partition->topic->name, partition->index);
    } else if (!known) {
        how->recovery_point = how->log_start_offset = 0;
        if (opening->err == OT_OK) opening->err = eng_store_place(core->store, cordoned(core), &how->store_dir);
    }
    how->clean = known && core->clean[how->store_dir];
    how->survived = known && core->survived;
    return PLACE_OPEN;
}

static void opened_run(struct ot_task *task)
{
    struct broker_partition_opening *opening = OT_CONTAINER(task, struct broker_partition_opening, task);
    if (opening->opened != NULL) opening->opened(opening->arg, opening->err);
    broker_partition_put(opening->partition);
    free(opening);
}

void broker_partition_tell_internal(struct broker_partition *partition)
{
    struct broker_core *core = partition->core;
    if (partition->topic->internal && core->internal_changed != NULL) core->internal_changed(core, partition->topic->name, partition->index);
}

static void publish(struct broker_partition *partition, struct eng_log *log)
{
    struct broker_produce_part *done = NULL;
    pthread_mutex_lock(&partition->mutex);
    partition->opening_busy = false;
    partition->log = log;
    partition->store_dir = eng_log_store_dir(log);
    partition->reserved_end = partition->state_end = eng_log_end_offset(log);
    int64_t high_watermark = atomic_load(&partition->high_watermark);      /* a checkpoint may be stale either way */
    high_watermark = OT_MIN(OT_MAX(high_watermark, eng_log_start_offset(log)), eng_log_end_offset(log));
    atomic_store(&partition->high_watermark, high_watermark);
    eng_producers_advance(eng_log_producers(log), high_watermark);
    int64_t unstable = OT_MAX(eng_producers_first_unstable(eng_log_producers(log)), eng_log_start_offset(log));
    atomic_store(&partition->last_stable_offset, OT_MIN(high_watermark, unstable));
    broker_role_begin(partition);
    if (atomic_load(&partition->stage) == BROKER_PARTITION_OPENING) {
        partition->lane_closed = eng_log_read_only(log);
        broker_partition_set_stage(partition, BROKER_PARTITION_OPEN);
        (void)broker_role_settle(partition, &done);
        broker_partition_wake_fetches(partition);
    } else {
        broker_partition_settle_end(partition);
    }
    pthread_mutex_unlock(&partition->mutex);
    broker_parts_complete(done);
    broker_partition_tell_internal(partition);
}

void broker_partition_set_stage(struct broker_partition *partition, enum broker_partition_stage stage)
{
    struct broker_core *core = partition->core;
    const int before = atomic_exchange(&partition->stage, (int)stage);
    if (before == (int)stage) return;
    if (before == BROKER_PARTITION_OPEN) atomic_fetch_sub(&core->partitions_open, 1);
    if (before == BROKER_PARTITION_OFFLINE) atomic_fetch_sub(&core->partitions_failed, 1);
    if (stage == BROKER_PARTITION_OPEN) atomic_fetch_add(&core->partitions_open, 1);
    if (stage == BROKER_PARTITION_OFFLINE) atomic_fetch_add(&core->partitions_failed, 1);
    if (stage == BROKER_PARTITION_REMOVED) atomic_fetch_sub(&core->partitions_total, 1);
}

/* The folder bears the id of another topic: somebody copied it in. It is set aside, and this topic begins empty. */
static enum ot_err open_anew(struct broker_partition_opening *opening, struct eng_log_open *how, struct eng_log **log_out, struct eng_recovery *recovery_out)
{
    struct broker_partition *partition = opening->partition;
    enum ot_err err = eng_store_set_aside(partition->core->store, how->store_dir, partition->topic->name, partition->index);
    if (err != OT_OK) return err;
    how->recovery_point = how->log_start_offset = 0;
    how->clean = how->settled = false;
    atomic_store(&partition->high_watermark, 0);
    return eng_log_open(partition->core->store, how, log_out, recovery_out);
}

int32_t broker_partition_leader_epochs(struct broker_partition *partition)
{
    pthread_mutex_lock(&partition->mutex);
    int32_t epoch = partition->leader_epoch;
    pthread_mutex_unlock(&partition->mutex);
    return epoch < 0 || epoch == INT32_MAX ? 0 : epoch + 1;
}

/* The server stops before it was its turn: the folder is left as it is. */
static void give_up(struct broker_partition_opening *opening)
{
    struct broker_partition *partition = opening->partition;
    opening->err = OT_ERR_CLOSED;
    pthread_mutex_lock(&partition->mutex);
    partition->opening_busy = false;
    broker_partition_settle_end(partition);
    pthread_mutex_unlock(&partition->mutex);
}

static void opening_ended(struct broker_partition_opening *opening)
{
    struct broker_core *core = opening->partition->core;
    atomic_fetch_sub(&core->partitions_pending, 1);
    atomic_fetch_sub(&core->work_open, 1);
    opening->task.run = opened_run;
    ot_exec_post(opening->home, &opening->task);
}

static void open_one(struct broker_partition_opening *opening);

static void waited_run(struct ot_task *task) { open_one(OT_CONTAINER(task, struct broker_partition_opening, task)); }

static void open_one(struct broker_partition_opening *opening)
{
    struct broker_partition *partition = opening->partition;
    struct broker_core *core = partition->core;
    if (atomic_load(&core->stopping)) {
        give_up(opening);
        opening_ended(opening);
        return;
    }
    struct eng_log_open how = { .topic_id = partition->topic->id, .wall_ms = ot_exec_wall_ms(core->background_exec), .leader_epochs = broker_partition_leader_epochs(partition),
        .named = core->dir_missing, .gone = broker_loss_of_gone, .gone_arg = partition };
    struct eng_recovery recovery = { .cut_offset = -1 };
    char path[4096];
    enum place where = place(opening, &how);
    if (where == PLACE_WAIT) {
        opening->in_background = true;
        opening->task.run = waited_run;
        ot_exec_post(core->background_exec, &opening->task);     /* behind the retirement that it waits for; comes back below */
        return;
    }
    struct eng_log *log = NULL;
    if (where == PLACE_SKIP) opening->err = OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    if (opening->err == OT_OK) {
        snprintf(path, sizeof(path), "%s/%s-%d", eng_store_dir_path(core->store, how.store_dir), partition->topic->name, partition->index);
        how.dir_path = path;
        broker_engine_config(core, atomic_load_explicit(&partition->topic->config, memory_order_acquire), &how.config);
        opening->err = eng_log_open(core->store, &how, &log, &recovery);
        if (opening->err == OT_ERR_MISMATCH && !opening->must_exist) opening->err = open_anew(opening, &how, &log, &recovery);
    }
    if (log != NULL && eng_log_flushed_end(log) < eng_log_end_offset(log)) {
        /* The last run may have committed and shown what its checkpoint does not know of. It is on disk before we serve, so that the high watermark starts
         * at the log end and never below what clients saw. Files that were synced cost next to nothing. */
        int64_t flushed_end;
        enum ot_err err = eng_log_flush(log, &flushed_end);
        if (err != OT_OK && err != OT_ERR_NO_SPACE) eng_store_fail_dir(core->store, how.store_dir, err, partition->topic->name);
    }
    broker_metrics_corrupt(core, recovery.epochs_mended + (recovery.kept_aside || opening->err == OT_ERR_CORRUPT));
    if (log != NULL) {
        eng_store_count_partition(core->store, how.store_dir, 1);
        if (recovery.cut_bytes > 0)
            ot_log(recovery.kept_aside ? OT_LOG_ERROR : OT_LOG_WARN, "log", "tail_cut", "topic=%s partition=%d offset=%lld bytes=%llu kept_aside=%s",
                partition->topic->name, partition->index, (long long)recovery.cut_offset, (unsigned long long)recovery.cut_bytes,
                recovery.kept_aside ? "yes" : "no");
        broker_loss_of_recovery(partition, log, &recovery);
        publish(partition, log);
        char key[320];
        found_is_used(core, key, broker_name_key(key, partition->topic->name, partition->index));
        /* a directory that failed while we opened told only the partitions that had their log by then */
        if (eng_store_dir_offline(core->store, how.store_dir)) broker_partition_went_offline(partition, OT_ERR_IO);
    } else {
        if (where != PLACE_SKIP)
            ot_log(OT_LOG_ERROR, "log", "open_failed", "topic=%s partition=%d error=%s", partition->topic->name, partition->index, ot_err_name(opening->err));
        partition->anew_failed = opening->anew;          /* once is enough: it does not come out of isr again and again */
        broker_partition_went_offline(partition, opening->err);
    }
    opening_ended(opening);
}

static void open_run(struct ot_task *task)
{
    struct broker_partition_opening *opening = OT_CONTAINER(task, struct broker_partition_opening, task);
    struct broker_core *core = opening->partition->core;
    atomic_fetch_add(&core->work_open, 1);     /* ours: with the last opening everything else may be over */
    open_one(opening);
    broker_openings_next(&core->openings);
    atomic_fetch_sub(&core->work_open, 1);
}

static void start_opening(struct broker_partition_opening *opening)
{
    struct broker_core *core = opening->partition->core;
    atomic_fetch_add(&core->partitions_pending, 1);
    atomic_fetch_add(&core->work_open, 1);
    opening->task.run = open_run;
    opening->node = (struct broker_opening_node){ .at = &opening->partition->waits_to_open, .task = &opening->task };
    broker_openings_add(&core->openings, &opening->node);
}

void broker_partition_wanted(struct broker_partition *partition) { broker_openings_want(&partition->core->openings, &partition->waits_to_open); }

enum ot_err broker_partition_open(struct broker_partition *partition)
{
    struct broker_partition_opening *opening = calloc(1, sizeof(*opening));
    if (opening == NULL) {
        broker_partition_went_offline(partition, OT_ERR_NO_MEMORY);
        return OT_ERR_NO_MEMORY;
    }
    opening->partition = broker_partition_ref(partition);
    opening->home = partition->core->background_exec;
    start_opening(opening);
    return OT_OK;
}

void broker_partition_apply(struct broker *broker, const struct broker_partition_row *row, const struct broker_topic_config *config, struct ot_exec *home,
    void (*opened)(void *arg, enum ot_err err), void *arg)
{
    struct broker_core *core = broker_core_of(broker);
    struct broker_partition *partition = NULL;
    struct broker_produce_part *done = NULL;
    bool is_new = false;
    struct broker_partition_opening *opening = calloc(1, sizeof(*opening));
    if (opening == NULL) {
        opened(arg, OT_ERR_NO_MEMORY);
        return;
    }
    opening->err = broker_registry_add(core, row, config, &partition, &is_new);
    opening->partition = partition;
    opening->home = home;
    opening->must_exist = row->must_exist;
    opening->anew = row->anew;
    opening->opened = opened;
    opening->arg = arg;
    opening->task.run = opened_run;
    if (partition != NULL) {
        pthread_mutex_lock(&partition->mutex);
        (void)broker_role_apply(partition, row, &done);
        pthread_mutex_unlock(&partition->mutex);
        broker_parts_complete(done);
        if (!is_new) broker_partition_tell_internal(partition);
    }
    if (partition != NULL && is_new) {
        atomic_fetch_add(&core->partitions_total, 1);
        start_opening(opening);
    } else {
        ot_exec_post(home, &opening->task);
    }
}

/* Is what lies there to be given up once others are seen to hold it? Not when it was only not the time to open it. */
static bool is_loss(enum ot_err why)
{
    return why != OT_ERR_NO_SPACE && why != OT_ERR_NO_MEMORY && why != OT_ERR_CLOSED && why != OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
}

void broker_partition_lose(struct broker_partition *partition)
{
    const bool kept = partition->log != NULL && partition->store_dir < 64 && (atomic_load(&partition->core->kept_dirs) >> partition->store_dir & 1) != 0;
    if (partition->core->replication == NULL || partition->lost || partition->anew_failed || kept) return;
    partition->lost = true;
    partition->lost_epoch = partition->log == NULL ? -1 : partition->leader_epoch;
    broker_replication_look(partition);
}

void broker_partition_went_offline(struct broker_partition *partition, enum ot_err why)
{
    struct broker_produce_part *done = NULL;
    pthread_mutex_lock(&partition->mutex);
    int stage = atomic_load(&partition->stage);
    if (partition->log == NULL) {              /* its open failed */
        partition->opening_busy = false;
        partition->open_full = why == OT_ERR_NO_SPACE;
    }
    partition->lane_closed = true;
    broker_partition_settle_end(partition);
    if (stage != BROKER_PARTITION_REMOVED && stage != BROKER_PARTITION_OFFLINE) {
        broker_partition_set_stage(partition, BROKER_PARTITION_OFFLINE);
        if (is_loss(why)) broker_partition_lose(partition);
        ot_log(OT_LOG_ERROR, "log", "partition_offline", "topic=%s partition=%d error=%s", partition->topic->name, partition->index, ot_err_name(why));
        broker_partition_fail_all(partition, OT_ERR_KAFKA_STORAGE_ERROR, "the disk of this partition failed", &done);
        broker_partition_wake_fetches(partition);
    }
    pthread_mutex_unlock(&partition->mutex);
    broker_parts_complete(done);
    broker_partition_tell_internal(partition);
}

/* ---- leaving ---- */

static void free_run(struct ot_task *task)
{
    struct broker_partition *partition = OT_CONTAINER(task, struct broker_partition, end_task);
    struct broker_core *core = partition->core;
    bool removed = atomic_load(&partition->stage) == BROKER_PARTITION_REMOVED;
    if (partition->log != NULL) {
        eng_store_count_partition(core->store, partition->store_dir, -1);
        if (removed) ot_ignore(eng_log_delete(partition->log), "what is left of a retired folder goes at the next start");
        else if (eng_log_close(partition->log, false) != OT_OK) atomic_fetch_or(&core->unclean, UINT64_C(1) << partition->store_dir);      /* only at the end of the process */
    }
    eng_log_abandon(partition->former);
    broker_topic_put(partition->topic);
    free(partition->refused);
    free(partition->unindexed);
    free(partition->next_role);
    free(partition->peers);
    free(partition->isr_change);
    pthread_mutex_destroy(&partition->mutex);
    free(partition);
    atomic_fetch_sub(&core->work_open, 1);
}

void broker_partition_put(struct broker_partition *partition)
{
    if (partition == NULL || atomic_fetch_sub_explicit(&partition->refs, 1, memory_order_acq_rel) != 1) return;
    atomic_fetch_add(&partition->core->work_open, 1);
    partition->end_task.run = free_run;
    ot_exec_post(partition->core->background_exec, &partition->end_task);
}

static void retire_run(struct ot_task *task)
{
    struct broker_partition *partition = OT_CONTAINER(task, struct broker_partition, end_task);
    struct broker_core *core = partition->core;
    char key[320];
    pthread_mutex_lock(&partition->mutex);
    const bool stray = partition->stray;
    pthread_mutex_unlock(&partition->mutex);
    enum ot_err err = partition->log == NULL ? OT_OK : stray ? eng_log_set_aside(partition->log) : eng_log_retire(partition->log);
    if (err != OT_OK)
        ot_log(OT_LOG_WARN, "log", "retire_failed", "topic=%s partition=%d error=%s", partition->topic->name, partition->index, ot_err_name(err));
    size_t key_bytes = broker_name_key(key, partition->topic->name, partition->index);
    pthread_rwlock_wrlock(&core->registry);
    uintptr_t dying = (uintptr_t)ot_map_get(&core->dying, key, key_bytes);
    if (dying > 1) ot_ignore(ot_map_put(&core->dying, key, key_bytes, (void *)(dying - 1)), "replaces a value: needs no memory");
    else (void)ot_map_remove(&core->dying, key, key_bytes);
    broker_found_free(ot_map_remove(&core->found, key, key_bytes));
    core->stale_added++;
    if (ot_map_put(&core->stale, key, key_bytes, &core->stale) != OT_OK)
        ot_log(OT_LOG_WARN, "log", "checkpoint_stale", "topic=%s partition=%d error=NO_MEMORY", partition->topic->name, partition->index);
    pthread_rwlock_unlock(&core->registry);
    pthread_mutex_lock(&partition->mutex);
    partition->retired = true;
    pthread_mutex_unlock(&partition->mutex);
    /* not with its last user: the session of a client that went without a word has it for hours, and the disk would be full of what was deleted */
    if (partition->log != NULL && !stray) ot_ignore(eng_log_remove(partition->log), "tried again with its last user, and at the next start");
    atomic_fetch_sub(&core->work_open, 1);
    broker_partition_put(partition);
}

void broker_partition_settle_end(struct broker_partition *partition)
{
    if (atomic_load(&partition->stage) != BROKER_PARTITION_REMOVED || partition->retiring || partition->opening_busy) return;
    if (partition->lane_busy || partition->flush_busy || partition->keeper_busy || partition->cleaner_busy || partition->keeper_users > 0) return;
    partition->retiring = true;
    atomic_fetch_add(&partition->core->work_open, 1);
    broker_partition_ref(partition);
    partition->end_task.run = retire_run;
    ot_exec_post(partition->core->background_exec, &partition->end_task);
}

/* ---- views ---- */

void broker_partition_state(struct broker_partition *partition, struct broker_partition_state *out)
{
    memset(out, 0, sizeof(*out));
    pthread_mutex_lock(&partition->mutex);
    const struct broker_topic_config *config = atomic_load_explicit(&partition->topic->config, memory_order_acquire);
    int stage = atomic_load(&partition->stage);
    out->topic_id = partition->topic->id;
    out->topic = partition->topic->name;
    out->partition = partition->index;
    out->leader = partition->is_leader;
    out->open = stage == BROKER_PARTITION_OPEN;
    out->offline = stage == BROKER_PARTITION_OFFLINE;
    out->leader_id = partition->leader_id;
    out->leader_epoch = partition->leader_epoch;
    out->partition_epoch = partition->partition_epoch;
    out->durability = broker_durability_parse(config->durability);
    out->effective_durability = broker_partition_durability(partition);
    out->log_dir = "";
    out->last_epoch = -1;
    struct eng_producers *producers = broker_partition_producer_state(partition);
    if (producers != NULL) out->producer_count = eng_producers_list(producers, NULL, 0);
    if (partition->log != NULL) {
        out->log_dir = eng_store_dir_path(partition->core->store, partition->store_dir);
    }
    out->compacts = broker_partition_compacts(partition);
    out->compacting = partition->cleaner_busy;
    out->uncleanable = partition->cleaner.uncleanable;
    out->cleaned_ms = partition->cleaner.cleaned_ms;
    out->damaged_offset = out->uncleanable ? partition->cleaner.damaged_offset : -1;
    out->dirty_bytes = partition->cleaner.dirty_bytes;
    out->clean_bytes = partition->cleaner.clean_bytes;
    out->cleaner_error = partition->cleaner.error;
    pthread_mutex_unlock(&partition->mutex);
    if (partition->log == NULL) return;
    out->first_dirty = eng_log_first_dirty(partition->log);
    out->log_start_offset = eng_log_start_offset(partition->log);
    out->high_watermark = atomic_load(&partition->high_watermark);
    out->last_stable_offset = atomic_load(&partition->last_stable_offset);
    out->log_end_offset = eng_log_end_offset(partition->log);
    out->flushed_end = eng_log_flushed_end(partition->log);
    out->size_bytes = eng_log_size_bytes(partition->log);
    out->last_epoch = eng_epochs_latest(eng_log_epochs(partition->log));
    out->segment_count = eng_log_segments(partition->log, NULL, 0);
}

static size_t isr_change_bytes(const struct broker_isr_change *change)
{
    return offsetof(struct broker_isr_change, ids) + sizeof(change->ids[0]) * ((size_t)change->from_count + (size_t)change->to_count);
}

void broker_partition_isr_changed(struct broker_partition *partition, const struct broker_isr_change *change)
{
    const size_t bytes = change == NULL ? 0 : isr_change_bytes(change);
    struct broker_isr_change *kept = change == NULL ? NULL : malloc(bytes);       /* without memory it is not known */
    if (kept != NULL) memcpy(kept, change, bytes);
    pthread_mutex_lock(&partition->mutex);
    struct broker_isr_change *before = partition->isr_change;
    partition->isr_change = kept;
    pthread_mutex_unlock(&partition->mutex);
    free(before);
}

void broker_partition_isr_change(struct broker_partition *partition, struct broker_isr_change *out)
{
    pthread_mutex_lock(&partition->mutex);
    if (partition->isr_change != NULL) memcpy(out, partition->isr_change, isr_change_bytes(partition->isr_change));
    else out->at_ms = 0;
    pthread_mutex_unlock(&partition->mutex);
}

uint32_t broker_partition_followers(struct broker_partition *partition, struct broker_follower *out, uint32_t max)
{
    const struct replica *replica = &partition->replica;
    const uint64_t now_us = (uint64_t)ot_exec_now_us(partition->core->background_exec);
    uint32_t count = 0;
    pthread_mutex_lock(&partition->mutex);
    for (int32_t i = 0; partition->is_leader && replica->applied && i < replica->row.replica_count; i++) {
        const struct replica_peer *peer = &replica->peers[i];
        const bool fetched = peer->end >= 0;
        if (peer->id == replica->self) continue;
        if (count < max)
            out[count] = (struct broker_follower){ .broker_id = peer->id, .log_end_offset = peer->end, .flushed_end = peer->flushed_end,
                .lag = fetched ? OT_MAX(replica->log_end - peer->end, 0) : -1, .fetched_ms_ago = fetched ? (int64_t)(now_us - OT_MIN(peer->fetched_us, now_us)) / 1000 : -1,
                .caught_up_ms_ago = fetched && peer->end >= replica->log_end ? 0 : fetched ? (int64_t)(now_us - OT_MIN(peer->caught_up_us, now_us)) / 1000 : -1 };
        count++;
    }
    pthread_mutex_unlock(&partition->mutex);
    return count;
}

uint32_t broker_partition_segments(struct broker_partition *partition, struct eng_segment_info *out, uint32_t max)
{
    return atomic_load(&partition->stage) == BROKER_PARTITION_OPEN ? eng_log_segments(partition->log, out, max) : 0;
}

uint32_t broker_partition_producers(struct broker_partition *partition, struct eng_producer_view *out, uint32_t max)
{
    pthread_mutex_lock(&partition->mutex);
    struct eng_producers *producers = broker_partition_producer_state(partition);
    uint32_t count = producers == NULL ? 0 : eng_producers_list(producers, out, max);
    pthread_mutex_unlock(&partition->mutex);
    return count;
}
