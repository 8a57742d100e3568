/* What the log directories said at start (folders, recovery points, log starts, high watermarks), and writing the same down again.
 *
 * A value that is behind is harmless: each is clamped to the log when it opens. A recovery point is lowered on disk before a truncation goes below it. What the
 * files say of a deleted topic must be gone before a new one of that name takes records, else its log start would hide them after a crash: such names are kept in
 * core->stale until a write of the files succeeded. A partition that is not open yet keeps the row it was found with. */
#include "broker/core.h"
#include "engine/compact.h"
#include "base/log.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t broker_name_key(char out[static 320], const char *topic, int32_t partition)
{
    size_t name_bytes = strnlen(topic, 300);
    memcpy(out, topic, name_bytes);
    out[name_bytes] = 0;
    int digits = snprintf(out + name_bytes + 1, 320 - name_bytes - 1, "%d", partition);
    return name_bytes + 1 + (size_t)digits;
}

struct load { struct broker_core *core; uint32_t dir; enum eng_checkpoint kind; enum ot_err err; };

/* One for each directory that has a folder of that name: a topic may have been deleted, and one of its name made, while a directory was offline. */
static void folder(void *arg, uint32_t dir, const char *topic, int32_t partition)
{
    struct load *load = arg;
    char key[320];
    size_t key_bytes = broker_name_key(key, topic, partition);
    struct broker_found *first = ot_map_get(&load->core->found, key, key_bytes), *found = malloc(sizeof(*found));
    if (first != NULL)
        ot_log(OT_LOG_ERROR, "log", "duplicate_folder", "topic=%s partition=%d log_dir=%s", topic, partition, eng_store_dir_path(load->core->store, dir));
    if (found != NULL) *found = (struct broker_found){ .dir = dir, .folder = true, .offsets = { -1, -1, -1, -1 }, .other = first };
    if (found != NULL && ot_map_put(&load->core->found, key, key_bytes, found) == OT_OK) return;
    free(found);
    load->err = OT_ERR_NO_MEMORY;
}

/* Of several folders of one name the topic's own, by its id; else one that says nothing; else any. May block. */
void broker_found_choose(struct broker_core *core, struct broker_partition *partition)
{
    char key[320];
    size_t key_bytes = broker_name_key(key, partition->topic->name, partition->index);
    struct broker_found *best = NULL, **best_link = NULL;
    int best_rank = -1;
    pthread_rwlock_rdlock(&core->registry);
    struct broker_found *first = ot_map_get(&core->found, key, key_bytes);
    bool several = first != NULL && first->other != NULL && ot_map_get(&core->dying, key, key_bytes) == NULL;     /* else an older topic of the name may still let go of them */
    pthread_rwlock_unlock(&core->registry);
    if (!several) return;
    for (struct broker_found **link = &first; *link != NULL; link = &(*link)->other) {         /* the chain changes here alone, and the partition opens once at a time */
        struct ot_uuid id;
        enum ot_err err = eng_store_topic_id(core->store, (*link)->dir, partition->topic->name, partition->index, &id);
        int rank = err == OT_OK ? (ot_uuid_equal(&id, &partition->topic->id) ? 2 : 0) : 1;
        if (rank > best_rank) best = *link, best_link = link, best_rank = rank;
    }
    if (best != first) {
        pthread_rwlock_wrlock(&core->registry);
        *best_link = best->other;
        best->other = first;
        ot_ignore(ot_map_put(&core->found, key, key_bytes, best), "replaces a value: needs no memory");
        pthread_rwlock_unlock(&core->registry);
    }
    /* the others are out of the way before a start that finds only them, the right directory being offline, takes one for the partition */
    for (struct broker_found *other = best->other; best_rank == 2 && other != NULL; other = other->other)
        ot_ignore(eng_store_set_aside(core->store, other->dir, partition->topic->name, partition->index), "it is found again at the next start");
}

void broker_found_free(struct broker_found *found)
{
    while (found != NULL) {
        struct broker_found *other = found->other;
        free(found);
        found = other;
    }
}

static void row(void *arg, const struct eng_checkpoint_row *row)
{
    struct load *load = arg;
    char key[320];
    size_t key_bytes = broker_name_key(key, row->topic, row->partition);
    struct broker_found *found = ot_map_get(&load->core->found, key, key_bytes);
    if (found == NULL && ot_map_put(&load->core->stale, key, key_bytes, &load->core->stale) != OT_OK) load->err = OT_ERR_NO_MEMORY;
    for (; found != NULL; found = found->other)
        if (found->dir == load->dir) found->offsets[load->kind] = row->offset;
}

enum ot_err broker_checkpoints_load(struct broker_core *core)
{
    for (uint32_t dir = 0; dir < eng_store_dir_count(core->store) && dir < BROKER_DIRS_MAX; dir++) {
        struct load load = { .core = core, .dir = dir };
        if (eng_store_dir_offline(core->store, dir)) continue;
        enum ot_err err = eng_store_scan(core->store, dir, folder, &load);
        if (err == OT_OK) err = load.err;
        if (err != OT_OK) return err;
        for (load.kind = ENG_CHECKPOINT_RECOVERY; load.kind < ENG_CHECKPOINT_COUNT; load.kind++)
            ot_ignore(eng_store_checkpoint_load(core->store, dir, load.kind, row, &load), "a damaged one was logged; its offsets count as unknown");
        if (load.err != OT_OK) return load.err;
    }
    return OT_OK;
}

struct timespec broker_until(uint32_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000L;
    if (until.tv_nsec < 1000000000) return until;
    until.tv_nsec -= 1000000000;
    until.tv_sec++;
    return until;
}

/* One sync of a file system, on another thread: others may have much to write there, and a start does not wait for that. One that was given up on holds that thread until the kernel
 * lets it go, so it is none that flushes: there is at most one for each directory, and the end of the process does not wait for them. */
struct settling { struct ot_task task; struct ot_io *io; pthread_mutex_t mutex; pthread_cond_t changed; int users; bool done; enum ot_err err; char path[4096]; };

static void settling_leave(struct settling *settling)      /* with its mutex */
{
    bool last = --settling->users == 0;
    pthread_mutex_unlock(&settling->mutex);
    if (!last) return;
    pthread_mutex_destroy(&settling->mutex);
    pthread_cond_destroy(&settling->changed);
    free(settling);
}

static void settling_run(struct ot_task *task)
{
    struct settling *settling = OT_CONTAINER(task, struct settling, task);
    enum ot_err err = settling->io->ops->sync_all(settling->io, settling->path);
    pthread_mutex_lock(&settling->mutex);
    settling->err = err;
    settling->done = true;
    pthread_cond_signal(&settling->changed);
    settling_leave(settling);
}

static bool settle(struct broker_core *core, uint32_t dir, const struct broker_setup *setup)
{
    const char *path = eng_store_dir_path(core->store, dir);
    const uint32_t most_ms = setup->sync_wait_ms;
    if (most_ms == 0) return core->io->ops->sync_all(core->io, path) == OT_OK;
    struct settling *settling = calloc(1, sizeof(*settling));
    const struct timespec until = broker_until(most_ms);
    if (settling == NULL) return false;
    *settling = (struct settling){ .task = { .run = settling_run }, .io = core->io, .users = 2 };
    snprintf(settling->path, sizeof(settling->path), "%s", path);
    pthread_mutex_init(&settling->mutex, NULL);
    pthread_cond_init(&settling->changed, NULL);
    const bool begun = setup->apart == NULL || setup->apart("settle", &settling->task);
    if (setup->apart == NULL) ot_exec_post(core->flush_exec, &settling->task);
    pthread_mutex_lock(&settling->mutex);
    settling->users -= begun ? 0 : 1;
    for (int waited = begun ? 0 : ETIMEDOUT; !settling->done && waited == 0;) waited = pthread_cond_clockwait(&settling->changed, &settling->mutex, CLOCK_MONOTONIC, &until);
    bool settled = settling->done && settling->err == OT_OK;
    if (!settling->done) ot_log(OT_LOG_INFO, "broker", "file_system_busy", "log_dir=%s text=\"its sync takes long: each partition is synced by itself instead\"", path);
    settling_leave(settling);
    return settled;
}

/* Of thousands of partitions each would wait for several syncs of its own before it serves, when its process was killed: one sync of the file system does for all. Where that fails
 * each is on its own again. */
void broker_settle_dirs(struct broker_core *core, const struct broker_setup *setup)
{
    uint32_t counts[BROKER_DIRS_MAX] = { 0 };
    for (uint32_t i = 0; i < core->found.count; i++)
        for (const struct broker_found *found = core->found.entries[i].value; found != NULL; found = found->other)
            counts[found->dir] += found->folder;
    for (uint32_t dir = 0; dir < eng_store_dir_count(core->store) && dir < BROKER_DIRS_MAX; dir++) {
        if (core->clean[dir] || counts[dir] <= setup->sync_each_max || eng_store_dir_offline(core->store, dir)) continue;
        core->settled[dir] = settle(core, dir, setup);
    }
}

void broker_checkpoints_free(struct broker_core *core)
{
    for (uint32_t i = 0; i < core->found.count; i++) broker_found_free(core->found.entries[i].value);
    ot_map_free(&core->found);
    ot_map_free(&core->dying);
    ot_map_free(&core->stale);
}

static int64_t value_of(struct broker_partition *partition, enum eng_checkpoint kind)
{
    switch (kind) {
    case ENG_CHECKPOINT_RECOVERY: return eng_log_flushed_end(partition->log);
    case ENG_CHECKPOINT_START: return eng_log_start_offset(partition->log);
    case ENG_CHECKPOINT_HIGH_WATERMARK: return atomic_load(&partition->high_watermark);
    case ENG_CHECKPOINT_CLEANER: return broker_partition_compacts(partition) ? eng_log_first_dirty(partition->log) : -1;
    case ENG_CHECKPOINT_COUNT: break;
    }
    return 0;
}

/* The value to write, or -1: none. Under the registry's lock: what was found leaves the map only after the log is there. A partition that is offline keeps its rows
 * too: without them the next start would scan from 0, and cut at the batch that this one refused to cut at; and deleted records would come back. */
static int64_t row_offset(struct broker_core *core, struct broker_partition *partition, uint32_t dir, enum eng_checkpoint kind)
{
    char key[320];
    pthread_mutex_lock(&partition->mutex);
    bool has_log = partition->log != NULL, removed = atomic_load(&partition->stage) == BROKER_PARTITION_REMOVED;
    pthread_mutex_unlock(&partition->mutex);
    if (removed) return -1;
    if (has_log) return partition->store_dir == dir ? value_of(partition, kind) : -1;
    const struct broker_found *found = ot_map_get(&core->found, key, broker_name_key(key, partition->topic->name, partition->index));
    return found != NULL && found->folder && found->dir == dir ? found->offsets[kind] : -1;
}

static bool write_dir(struct broker_core *core, uint32_t dir, struct broker_partition **list, uint32_t count, struct eng_checkpoint_row *rows, bool sync)
{
    bool written = true;
    for (enum eng_checkpoint kind = ENG_CHECKPOINT_RECOVERY; kind < ENG_CHECKPOINT_COUNT; kind++) {
        uint32_t row_count = 0;
        pthread_rwlock_rdlock(&core->registry);
        for (uint32_t i = 0; i < count; i++) {
            int64_t offset = row_offset(core, list[i], dir, kind);
            if (offset >= 0) rows[row_count++] = (struct eng_checkpoint_row){ list[i]->topic->name, list[i]->index, offset };
        }
        pthread_rwlock_unlock(&core->registry);
        enum ot_err err = eng_store_checkpoint_write(core->store, dir, kind, rows, row_count, sync);
        if (err == OT_ERR_NO_SPACE && sync) {  /* somebody waits for it: the reserve is there for this */
            eng_store_reserve_release(core->store, dir);
            err = eng_store_checkpoint_write(core->store, dir, kind, rows, row_count, sync);
        }
        if (err == OT_OK) continue;
        written = false;
        ot_log(OT_LOG_WARN, "log", "checkpoint_failed", "log_dir=%s error=%s", eng_store_dir_path(core->store, dir), ot_err_name(err));
        if (err == OT_ERR_IO) {                /* a disk that takes no small file takes no record either; and others need not wait for its files */
            eng_store_fail_dir(core->store, dir, err, "checkpoint");
            break;
        }
    }
    return written;
}

/* Unless a name became stale while we wrote: its row may be in what we wrote. */
static void stale_is_gone(struct broker_core *core, uint64_t added)
{
    pthread_rwlock_wrlock(&core->registry);
    if (core->stale_added == added) {
        ot_map_free(&core->stale);
        ot_map_init(&core->stale);
    }
    pthread_rwlock_unlock(&core->registry);
}

/* One at a time, from looking to writing: else a slower one would put back a log start that DeleteRecords has moved and told. */
uint64_t broker_checkpoints_write(struct broker_core *core, bool sync)
{
    uint32_t count = 0;
    uint64_t failed = 0;
    pthread_mutex_lock(&core->checkpoints_mutex);
    pthread_rwlock_rdlock(&core->registry);
    uint64_t added = core->stale_added;
    pthread_rwlock_unlock(&core->registry);
    struct broker_partition **list = broker_partitions_copy(core, &count);
    struct eng_checkpoint_row *rows = calloc((size_t)count + 1, sizeof(*rows));
    bool memory = list != NULL && rows != NULL, written = memory;
    for (uint32_t dir = 0; dir < eng_store_dir_count(core->store) && dir < BROKER_DIRS_MAX; dir++) {
        bool offline = eng_store_dir_offline(core->store, dir);        /* its files say what they said: nobody can change that */
        bool good = memory && !offline && write_dir(core, dir, list, count, rows, sync);
        if (!good) failed |= UINT64_C(1) << dir;
        written = written && (good || offline || eng_store_dir_offline(core->store, dir));
    }
    for (uint32_t i = 0; list != NULL && i < count; i++) broker_partition_put(list[i]);
    free(rows);
    free(list);
    if (written && sync) stale_is_gone(core, added);
    pthread_mutex_unlock(&core->checkpoints_mutex);
    return failed;
}
