#include "broker/core.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/util.h"
#include "engine/compact.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RETRY_US 60000000                      /* after the first failure; doubled up to */
#define RETRY_MAX_US INT64_C(3600000000)
#define PACE_SLICE_US 50000                    /* how long a paced run sleeps before it looks whether it should stop */

bool broker_partition_compacts(const struct broker_partition *partition)
{
    const struct broker_topic_config *config = atomic_load_explicit(&partition->topic->config, memory_order_acquire);
    return strstr(config->cleanup_policy, "compact") != NULL;
}

/* ---- a run ---- */

struct run {
    struct ot_task task;
    struct broker_partition *partition;
    struct eng_producer_last *producers;
    struct eng_compact how;
    uint64_t memory_bytes;                     /* taken from the pool */
};

static void run_free(struct run *run)
{
    struct broker_cleaner *cleaner = &run->partition->core->cleaner;
    if (cleaner->memory != NULL && run->memory_bytes > 0) ot_mem_give(cleaner->memory, run->memory_bytes);
    free(run->producers);
    free(run);
}

static bool should_stop(const struct broker_partition *partition)
{
    return atomic_load(&partition->core->stopping) || atomic_load(&partition->stage) != BROKER_PARTITION_OPEN;
}

/* log.cleaner.io.max.bytes.per.second, for all runs together: each stretch books its time, and waits until it has come. */
static bool pace(void *arg, uint64_t bytes)
{
    struct run *run = arg;
    struct broker_core *core = run->partition->core;
    double rate = broker_config_current(core->config)->log_cleaner_io_max_bytes_per_second;
    if (should_stop(run->partition)) return false;
    if (rate >= 1e15) return true;             /* no limit */
    double cost_us = (double)bytes * 1e6 / (rate < 1 ? 1 : rate);
    int64_t now_us = ot_exec_now_us(core->background_exec);
    pthread_mutex_lock(&core->cleaner.pace_mutex);
    int64_t until_us = OT_MAX(core->cleaner.pace_free_us, now_us) + (int64_t)OT_MIN(cost_us, 1e15);
    core->cleaner.pace_free_us = until_us;
    pthread_mutex_unlock(&core->cleaner.pace_mutex);
    while ((now_us = ot_exec_now_us(core->background_exec)) < until_us) {
        if (should_stop(run->partition)) return false;
        /* a limit that was lifted meanwhile holds nobody up */
        if (broker_config_current(core->config)->log_cleaner_io_max_bytes_per_second >= 1e15) break;
        int64_t wait_us = OT_MIN(until_us - now_us, (int64_t)PACE_SLICE_US);
        nanosleep(&(struct timespec){ .tv_nsec = (long)wait_us * 1000 }, NULL);
    }
    return !should_stop(run->partition);
}

static void count_run(struct broker_core *core, const struct eng_compacted *done, enum ot_err err, int64_t took_us)
{
    const char *labels[] = { err == OT_OK ? "ok" : err == OT_ERR_CANCELLED ? "cancelled" : "failed" };
    if (core->metrics == NULL) return;
    struct ot_series *runs = ot_series_get(core->metrics, OT_METRIC_cleaner_runs_total, labels);
    ot_series_add(runs, 1);
    ot_series_release(core->metrics, runs);
    struct ot_series *used = ot_series_get(core->metrics, OT_METRIC_cleaner_buffer_used_ratio, NULL);
    ot_series_set(used, done->map_used);
    ot_series_release(core->metrics, used);
    ot_series_add(core->cleaner.read_bytes, done->read_bytes);
    ot_series_add(core->cleaner.written_bytes, done->written_bytes);
    ot_series_add(core->cleaner.removed, done->records_read - done->records_kept);
    ot_series_observe_us(core->cleaner.run_us, took_us);
}

/* Mutex held. */
static void note_result(struct broker_partition *partition, const struct eng_compacted *done, enum ot_err err, int64_t now_us)
{
    struct broker_cleaner_state *state = &partition->cleaner;
    state->error = err;
    state->first_dirty = done->first_dirty;
    if (err == OT_OK) {
        state->uncleanable = false;
        state->failures = 0;
        state->damaged_offset = -1;
        state->retry_us = 0;
        state->dirty_bytes = 0;
        state->ratio = 0;
        state->clean_bytes = done->size_after;
        state->overdue_ms = 0;
        state->cleaned_ms = ot_exec_wall_ms(partition->core->background_exec);
        return;
    }
    if (err == OT_ERR_CANCELLED) {             /* what took segments away goes first */
        state->retry_us = now_us + 1000000;
        return;
    }
    state->uncleanable = err == OT_ERR_CORRUPT || err == OT_ERR_IO;
    state->damaged_offset = done->damaged_offset;
    int64_t pause_us = (int64_t)RETRY_US << OT_MIN(state->failures, 10u);
    state->retry_us = now_us + OT_MIN(pause_us, RETRY_MAX_US);
    state->failures++;
}

static void tell_result(const struct broker_partition *partition, const struct eng_compacted *done, enum ot_err err, int64_t took_us)
{
    const char *topic = partition->topic->name;
    if (err == OT_OK && done->passes > 0)
        ot_log(OT_LOG_INFO, "cleaner", "compacted", "topic=%s partition=%d segments=%u to=%u bytes=%llu to_bytes=%llu records=%llu kept=%llu passes=%u first_dirty=%lld ms=%lld",
            topic, partition->index, done->segments_before, done->segments_after, (unsigned long long)done->size_before, (unsigned long long)done->size_after,
            (unsigned long long)done->records_read, (unsigned long long)done->records_kept, done->passes, (long long)done->first_dirty, (long long)(took_us / 1000));
    else if (err == OT_ERR_CORRUPT || err == OT_ERR_IO)
        ot_log(OT_LOG_ERROR, "cleaner", "uncleanable", "topic=%s partition=%d error=%s offset=%lld failures=%u text=\"the partition is served but not compacted; tried again later\"",
            topic, partition->index, ot_err_name(err), (long long)done->damaged_offset, partition->cleaner.failures + 1);
    else if (err != OT_OK && err != OT_ERR_CANCELLED)
        ot_log(OT_LOG_WARN, "cleaner", "compaction_failed", "topic=%s partition=%d error=%s", topic, partition->index, ot_err_name(err));
}

static void look_run(struct ot_task *task)
{
    struct broker_core *core = OT_CONTAINER(task, struct broker_core, cleaner.look_task);
    atomic_store(&core->cleaner.look_posted, false);
    if (!atomic_load(&core->stopping)) broker_cleaner_look(core, ot_exec_now_us(core->background_exec));
    atomic_fetch_sub(&core->work_open, 1);
}

/* Another one may be due: seen at once. */
static void look_again(struct broker_core *core)
{
    atomic_store(&core->cleaner.look_again, true);
    if (atomic_load(&core->stopping) || atomic_exchange(&core->cleaner.look_posted, true)) return;
    atomic_fetch_add(&core->work_open, 1);
    ot_exec_post(core->background_exec, &core->cleaner.look_task);
}

static void clean_run(struct ot_task *task)
{
    struct run *run = OT_CONTAINER(task, struct run, task);
    struct broker_partition *partition = run->partition;
    struct broker_core *core = partition->core;
    struct eng_compacted done = { .damaged_offset = -1 };
    int64_t start_us = ot_exec_now_us(core->background_exec);
    struct broker_decoder *decoder = broker_decoder_take(core);
    enum ot_err err = decoder == NULL ? OT_ERR_NO_MEMORY : should_stop(partition) ? OT_ERR_CANCELLED : OT_OK;
    if (err == OT_OK) {
        run->how.decode = decoder->decode;
        run->how.encode = decoder->encode;
        err = eng_log_compact(partition->log, &run->how, &done);
    }
    if (decoder != NULL) broker_decoder_give(core, decoder);
    int64_t now_us = ot_exec_now_us(core->background_exec);
    if (err != OT_OK && err != OT_ERR_CANCELLED && eng_log_read_only(partition->log))     /* a swap stopped between the names: a restart completes it */
        eng_store_fail_dir(core->store, partition->store_dir, err, "compaction");
    count_run(core, &done, err, now_us - start_us);
    tell_result(partition, &done, err, now_us - start_us);
    pthread_mutex_lock(&partition->mutex);
    note_result(partition, &done, err, now_us);
    partition->cleaner_busy = false;
    broker_partition_settle_end(partition);
    pthread_mutex_unlock(&partition->mutex);
    run_free(run);
    atomic_fetch_sub(&core->cleaner.running, 1);
    look_again(core);
    atomic_fetch_sub(&core->work_open, 1);
    broker_partition_put(partition);
}

/* ---- which one ---- */

struct look { struct broker_partition *best; struct eng_cleanable cleanable; double ratio, ratio_max; int64_t overdue_max_ms; };

/* The lower of high watermark and last stable offset, as they were when all below that high watermark had come to the disk: a marker decides what becomes of a
 * transaction's records, and a crash must not take it back once they are gone. Mutex held. */
static int64_t limit_of(struct broker_partition *partition)
{
    struct broker_cleaner_state *state = &partition->cleaner;
    int64_t high_watermark = atomic_load(&partition->high_watermark), flushed_end = eng_log_flushed_end(partition->log);
    if (state->limit_flushed > flushed_end && high_watermark > flushed_end) {      /* what was asked for is under way */
        broker_flush_ask(partition);
        return state->settled_limit;
    }
    if (state->limit_flushed <= flushed_end) state->settled_limit = state->limit_offset;
    state->limit_offset = OT_MIN(high_watermark, atomic_load(&partition->last_stable_offset));
    state->limit_flushed = high_watermark;
    if (high_watermark <= flushed_end) state->settled_limit = state->limit_offset;
    else broker_flush_ask(partition);
    return state->settled_limit;
}

static struct eng_compact_rules rules_of(const struct broker_partition *partition)
{
    const struct broker_topic_config *config = atomic_load_explicit(&partition->topic->config, memory_order_acquire);
    return (struct eng_compact_rules){ .min_lag_ms = config->min_compaction_lag_ms, .max_lag_ms = config->max_compaction_lag_ms, .delete_retention_ms = config->delete_retention_ms };
}

/* On a disk that is nearly full a run may still free more than it needs, if what it writes surely finds room. */
static bool has_room(const struct broker_partition *partition, const struct eng_cleanable *cleanable)
{
    const struct broker_core *core = partition->core;
    const struct broker_topic_config *config = atomic_load_explicit(&partition->topic->config, memory_order_acquire);
    if (atomic_load(&core->dir_space[partition->store_dir]) != BROKER_SPACE_REFUSE) return true;
    uint64_t needed = OT_MIN(cleanable->clean_bytes + cleanable->cleanable_bytes, (uint64_t)config->segment_bytes);
    return atomic_load(&core->dir_free_bytes[partition->store_dir]) / 2 > needed;
}

/* The housekeeper's place is taken. True: it may be cleaned now, and how urgently. */
static bool judge(struct broker_partition *partition, int64_t now_us, int64_t wall_ms, struct eng_cleanable *cleanable, double *ratio_out)
{
    const struct broker_topic_config *config = atomic_load_explicit(&partition->topic->config, memory_order_acquire);
    struct broker_cleaner_state *state = &partition->cleaner;
    struct eng_compact_rules rules = rules_of(partition);
    pthread_mutex_lock(&partition->mutex);
    int64_t limit_offset = limit_of(partition);
    pthread_mutex_unlock(&partition->mutex);
    enum ot_err err = eng_log_cleanable(partition->log, &rules, limit_offset, wall_ms, cleanable);
    if (err != OT_OK) return false;
    uint64_t all = cleanable->clean_bytes + cleanable->cleanable_bytes;
    *ratio_out = all == 0 ? 0 : (double)cleanable->cleanable_bytes / (double)all;
    pthread_mutex_lock(&partition->mutex);
    state->clean_bytes = cleanable->clean_bytes;
    state->dirty_bytes = cleanable->cleanable_bytes;
    state->first_dirty = cleanable->first_dirty;
    state->overdue_ms = cleanable->overdue_ms;
    state->ratio = *ratio_out;
    if (cleanable->flush_wanted) broker_flush_ask(partition);  /* only what is on disk is taken */
    bool may = !partition->cleaner_busy && now_us >= state->retry_us && !eng_log_read_only(partition->log);
    pthread_mutex_unlock(&partition->mutex);
    if (!may || cleanable->cleanable_bytes == 0 || !has_room(partition, cleanable)) return false;
    return cleanable->overdue_ms > 0 || *ratio_out > config->min_cleanable_dirty_ratio;
}

static bool comes_before(const struct look *look, const struct eng_cleanable *cleanable, double ratio)
{
    if (look->best == NULL) return true;
    if ((cleanable->overdue_ms > 0) != (look->cleanable.overdue_ms > 0)) return cleanable->overdue_ms > 0;
    return ratio > look->ratio;
}

static void look_at(struct look *look, struct broker_partition *partition, int64_t now_us, int64_t wall_ms)
{
    struct eng_cleanable cleanable = { 0 };
    double ratio = 0;
    if (!broker_partition_compacts(partition) || !broker_keeper_enter(partition)) return;
    bool wanted = judge(partition, now_us, wall_ms, &cleanable, &ratio);
    broker_keeper_leave(partition);
    look->ratio_max = OT_MAX(look->ratio_max, ratio);
    look->overdue_max_ms = OT_MAX(look->overdue_max_ms, cleanable.overdue_ms);
    if (!wanted || !comes_before(look, &cleanable, ratio)) return;
    broker_partition_put(look->best);
    look->best = broker_partition_ref(partition);
    look->cleanable = cleanable;
    look->ratio = ratio;
}

/* What a run may take for its keys: its share of the buffer, less when the budget has less. */
static uint64_t take_memory(struct broker_core *core, const struct broker_config *config, struct run *run)
{
    uint64_t bytes = (uint64_t)config->log_cleaner_dedupe_buffer_size / (uint64_t)OT_MAX(config->log_cleaner_threads, 1);
    bytes = OT_MAX(bytes, UINT64_C(65536));
    while (core->cleaner.memory != NULL && bytes > 65536 && !ot_mem_take(core->cleaner.memory, bytes)) bytes /= 2;
    run->memory_bytes = core->cleaner.memory != NULL && bytes > 65536 ? bytes : 0;
    return bytes;
}

/* The producers as they are now: what their last batches tell is kept. */
static bool take_producers(struct broker_partition *partition, struct run *run)
{
    pthread_mutex_lock(&partition->mutex);
    struct eng_producers *producers = broker_partition_producer_state(partition);
    uint32_t room = producers == NULL ? 0 : eng_producers_list(producers, NULL, 0) + 64;
    pthread_mutex_unlock(&partition->mutex);
    if (producers == NULL) return false;
    if ((run->producers = calloc(room, sizeof(*run->producers))) == NULL) return false;
    pthread_mutex_lock(&partition->mutex);
    producers = broker_partition_producer_state(partition);
    uint32_t count = producers == NULL ? UINT32_MAX : eng_producers_last(producers, run->producers, room);
    pthread_mutex_unlock(&partition->mutex);
    run->how.producers = run->producers;
    run->how.producer_count = count;
    return count <= room;                      /* else many came just now: at the next look */
}

static bool start(struct broker_core *core, struct broker_partition *partition, int64_t wall_ms)
{
    const struct broker_config *config = broker_config_current(core->config);
    uint32_t threads = (uint32_t)OT_MAX(config->log_cleaner_threads, 1);
    struct run *run = calloc(1, sizeof(*run));
    if (run == NULL) return false;
    run->partition = partition;
    run->task.run = clean_run;
    run->how = (struct eng_compact){ .rules = rules_of(partition), .wall_ms = wall_ms,
        .load_factor = config->log_cleaner_io_buffer_load_factor, .buffer_bytes = (uint32_t)config->log_cleaner_io_buffer_size / threads / 2,
        .hash_seed = { core->cleaner.hash_seed[0], core->cleaner.hash_seed[1] }, .pace = pace, .arg = run };
    pthread_mutex_lock(&partition->mutex);
    run->how.limit_offset = partition->cleaner.settled_limit;
    pthread_mutex_unlock(&partition->mutex);
    bool may = take_producers(partition, run);
    if (may) run->how.map_bytes = take_memory(core, config, run);
    pthread_mutex_lock(&partition->mutex);
    may = may && atomic_load(&partition->stage) == BROKER_PARTITION_OPEN && !partition->keeper_busy && !partition->cleaner_busy && !partition->retiring;
    if (may) partition->cleaner_busy = true;
    pthread_mutex_unlock(&partition->mutex);
    if (!may) {
        run_free(run);
        return false;
    }
    broker_partition_ref(partition);
    atomic_fetch_add(&core->work_open, 1);
    atomic_fetch_add(&core->cleaner.running, 1);
    ot_exec_post(core->cleaner.exec, &run->task);
    return true;
}

static void set_gauge(struct broker_core *core, enum ot_metric metric, double value)
{
    if (core->metrics == NULL) return;
    struct ot_series *series = ot_series_get(core->metrics, metric, NULL);
    ot_series_set(series, value);
    ot_series_release(core->metrics, series);
}

static bool look_once(struct broker_core *core, int64_t now_us)
{
    struct look look = { 0 };
    uint32_t count = 0;
    int64_t wall_ms = ot_exec_wall_ms(core->background_exec);
    struct broker_partition **list = broker_partitions_copy(core, &count);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        look_at(&look, list[i], now_us, wall_ms);
        broker_partition_put(list[i]);
    }
    free(list);
    set_gauge(core, OT_METRIC_cleaner_dirty_ratio_max, look.ratio_max);
    set_gauge(core, OT_METRIC_cleaner_delay_max_seconds, (double)look.overdue_max_ms / 1000);
    bool started = look.best != NULL && start(core, look.best, wall_ms);
    broker_partition_put(look.best);
    return started;
}

void broker_cleaner_look(struct broker_core *core, int64_t now_us)
{
    const struct broker_config *config = broker_config_current(core->config);
    uint32_t threads = OT_MIN((uint32_t)OT_MAX(config->log_cleaner_threads, 0), core->cleaner.threads_max);
    bool ended = atomic_exchange(&core->cleaner.look_again, false);
    if (core->cleaner.exec == NULL || !config->log_cleaner_enable || (!ended && now_us - core->cleaner.looked_us < OT_MIN(config->log_cleaner_backoff_ms, INT64_C(86400000)) * 1000)) return;
    core->cleaner.looked_us = now_us;
    while (atomic_load(&core->cleaner.running) < threads && look_once(core, now_us)) continue;
}

void broker_cleaner_init(struct broker_core *core, const struct broker_setup *setup)
{
    struct broker_cleaner *cleaner = &core->cleaner;
    cleaner->exec = setup->cleaner_exec;
    cleaner->threads_max = setup->cleaner_threads;
    cleaner->memory = setup->cleaner_memory;
    cleaner->look_task.run = look_run;
    pthread_mutex_init(&cleaner->pace_mutex, NULL);
    ot_random_bytes(cleaner->hash_seed, sizeof(cleaner->hash_seed));
    if (core->metrics == NULL) return;
    cleaner->read_bytes = ot_series_get(core->metrics, OT_METRIC_cleaner_read_bytes_total, NULL);
    cleaner->written_bytes = ot_series_get(core->metrics, OT_METRIC_cleaner_written_bytes_total, NULL);
    cleaner->removed = ot_series_get(core->metrics, OT_METRIC_cleaner_records_removed_total, NULL);
    cleaner->run_us = ot_series_get(core->metrics, OT_METRIC_cleaner_run_duration_seconds, NULL);
}

void broker_cleaner_free(struct broker_core *core)
{
    pthread_mutex_destroy(&core->cleaner.pace_mutex);
}
