#include "engine/store.h"
#include "base/log.h"
#include "engine/store_inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum ot_err eng_path_join(char out[static ENG_PATH_BYTES], const char *dir, const char *name)
{
    int bytes = snprintf(out, ENG_PATH_BYTES, "%s/%s", dir, name);
    return bytes < 0 || (uint32_t)bytes >= ENG_PATH_BYTES ? OT_ERR_TOO_LARGE : OT_OK;
}

/* ---- open and close ---- */

#define LOCK_NAME ".lock"

/* Each new directory with its entry synced: a log directory that a crash takes away takes every flushed record along. One that is there may have been made by a start that was killed before it
 * synced that, or by hand; the lock file, which is made last, says that a start got past this. */
static enum ot_err make_dirs(struct ot_io *io, const char *path, const char *lock_path)
{
    char part[ENG_PATH_BYTES], parent[ENG_PATH_BYTES] = ".";
    struct ot_io_stat stat;
    size_t bytes = strlen(path);
    if (bytes == 0 || bytes >= sizeof part) return OT_ERR_TOO_LARGE;
    if (io->ops->stat(io, path, &stat) == OT_OK) {
        if (!stat.is_dir) return OT_ERR_IO;
        if (io->ops->stat(io, lock_path, &stat) == OT_OK) return OT_OK;
    }
    for (size_t at = 1; at <= bytes; at++) {           /* each prefix that ends before a slash, then the whole */
        if (path[at] != '/' && path[at] != '\0') continue;
        memcpy(part, path, at);
        part[at] = '\0';
        const char *above = path[0] == '/' && strcmp(parent, ".") == 0 ? "/" : parent;
        if (io->ops->stat(io, part, &stat) != OT_OK) {
            enum ot_err err = io->ops->mkdir(io, part);
            if (err != OT_OK && err != OT_ERR_EXISTS) return err;
            if ((err = io->ops->sync_dir(io, above)) != OT_OK) return err;
        } else {
            ot_ignore(io->ops->sync_dir(io, above), "what lies far above may not be ours to open, and was made by others");
        }
        memcpy(parent, part, at + 1);
    }
    return OT_OK;
}

static enum ot_err dir_open(struct eng_store *store, struct eng_store_dir *dir)
{
    char path[ENG_PATH_BYTES];
    enum ot_err err = eng_path_join(path, dir->path, LOCK_NAME);
    if (err == OT_OK) err = make_dirs(store->io, dir->path, path);
    return err == OT_OK ? store->io->ops->lock(store->io, path, &dir->lock_fd) : err;
}

static enum ot_err dirs_open(struct eng_store *store, uint32_t *bad_dir_out)
{
    uint32_t good = 0;
    for (uint32_t i = 0; i < store->dir_count; i++) {
        enum ot_err err = dir_open(store, &store->dirs[i]);
        if (err == OT_ERR_LOCKED) {
            *bad_dir_out = i;
            return err;
        }
        if (err == OT_OK) {
            good++;
            continue;
        }
        *bad_dir_out = i;
        atomic_store(&store->dirs[i].offline, true);
        ot_log(OT_LOG_ERROR, "storage", "log_dir_offline", "dir=%s error=%s during=start", store->dirs[i].path, ot_err_name(err));
    }
    return good == 0 ? OT_ERR_IO : OT_OK;
}

enum ot_err eng_store_open(struct ot_io *io, const struct eng_store_config *config, struct eng_store **out, uint32_t *bad_dir_out)
{
    enum ot_err err = OT_ERR_NO_MEMORY;
    *bad_dir_out = UINT32_MAX;
    struct eng_store *store = calloc(1, sizeof *store);
    if (store == NULL) return err;
    store->io = io;
    store->append_mapped_bytes_max = config->append_mapped_bytes_max;
    eng_file_cache_init(&store->files, io, config->files_max);
    pthread_mutex_init(&store->lock, NULL);
    pthread_mutex_init(&store->rebuild_lock, NULL);
    if ((store->dirs = calloc(config->dir_count, sizeof *store->dirs)) == NULL) goto fail;
    store->dir_count = config->dir_count;
    for (uint32_t i = 0; i < store->dir_count; i++) {
        struct eng_store_dir *dir = &store->dirs[i];
        dir->lock_fd = -1;
        pthread_mutex_init(&dir->checkpoint_lock, NULL);
        ot_map_init(&dir->open_logs);
        dir->path = strdup(config->dirs[i]);
    }
    for (uint32_t i = 0; i < store->dir_count; i++)
        if (store->dirs[i].path == NULL) goto fail;
    if ((err = dirs_open(store, bad_dir_out)) != OT_OK) goto fail;
    *out = store;
    return OT_OK;
fail:
    eng_store_close(store);
    return err;
}

void eng_store_close(struct eng_store *store)
{
    if (store == NULL) return;
    eng_store_reap(store, UINT64_MAX);
    for (uint32_t i = 0; i < store->dir_count; i++) {
        struct eng_store_dir *dir = &store->dirs[i];
        store->io->ops->close(store->io, dir->lock_fd);
        ot_map_free(&dir->open_logs);
        pthread_mutex_destroy(&dir->checkpoint_lock);
        free(dir->path);
    }
    free(store->dirs);
    eng_read_pins_free(store);
    eng_file_cache_free(&store->files);
    pthread_mutex_destroy(&store->lock);
    pthread_mutex_destroy(&store->rebuild_lock);
    free(store);
}

struct ot_io *eng_store_io(struct eng_store *store) { return store->io; }
struct eng_file_cache *eng_store_files(struct eng_store *store) { return &store->files; }
uint32_t eng_store_dir_count(const struct eng_store *store) { return store->dir_count; }

const char *eng_store_dir_path(const struct eng_store *store, uint32_t dir)
{
    OT_ASSERT(dir < store->dir_count);
    return store->dirs[dir].path;
}

/* ---- failing directories ---- */

bool eng_store_dir_offline(const struct eng_store *store, uint32_t dir)
{
    OT_ASSERT(dir < store->dir_count);
    return atomic_load(&store->dirs[dir].offline);
}

void eng_store_fail_dir(struct eng_store *store, uint32_t dir, enum ot_err why, const char *what)
{
    OT_ASSERT(dir < store->dir_count);
    if (atomic_exchange(&store->dirs[dir].offline, true)) return;
    ot_log(OT_LOG_ERROR, "storage", "log_dir_offline", "dir=%s error=%s during=%s", store->dirs[dir].path, ot_err_name(why), what);
    pthread_mutex_lock(&store->lock);
    void (*offline)(void *, uint32_t) = store->offline;
    void *arg = store->offline_arg;
    pthread_mutex_unlock(&store->lock);
    if (offline != NULL) offline(arg, dir);
}

void eng_store_on_offline(struct eng_store *store, void (*offline)(void *arg, uint32_t dir), void *arg)
{
    pthread_mutex_lock(&store->lock);
    store->offline = offline;
    store->offline_arg = arg;
    pthread_mutex_unlock(&store->lock);
}

/* ---- placement ---- */

/* Is (free, count) a better home than (best_free, best_count)? Space within a tenth counts as equal. */
static bool place_better(uint64_t free_bytes, uint32_t count, uint64_t best_free, uint32_t best_count)
{
    uint64_t larger = OT_MAX(free_bytes, best_free), smaller = OT_MIN(free_bytes, best_free);
    if (larger - smaller <= larger / 10) return count < best_count;
    return free_bytes > best_free;
}

static enum ot_err place_among(struct eng_store *store, uint64_t avoid, uint32_t *dir_out)
{
    bool found = false;
    uint64_t best_free = 0;
    uint32_t best_count = 0;
    for (uint32_t i = 0; i < store->dir_count; i++) {
        struct ot_io_space space = { 0, 0 };
        if (eng_store_dir_offline(store, i) || (avoid >> OT_MIN(i, 63u) & 1) != 0) continue;
        enum ot_err err = store->io->ops->space(store->io, store->dirs[i].path, &space);
        if (err != OT_OK) {
            eng_store_fail_dir(store, i, err, "statfs");
            continue;
        }
        uint32_t count = atomic_load(&store->dirs[i].partition_count);
        if (found && !place_better(space.free_bytes, count, best_free, best_count)) continue;
        found = true;
        best_free = space.free_bytes;
        best_count = count;
        *dir_out = i;
    }
    return found ? OT_OK : OT_ERR_IO;
}

enum ot_err eng_store_place(struct eng_store *store, uint64_t avoid, uint32_t *dir_out)
{
    enum ot_err err = place_among(store, avoid, dir_out);
    return err == OT_OK || avoid == 0 ? err : place_among(store, 0, dir_out);
}

void eng_store_count_partition(struct eng_store *store, uint32_t dir, int32_t change)
{
    OT_ASSERT(dir < store->dir_count);
    atomic_fetch_add(&store->dirs[dir].partition_count, (uint32_t)change);
}

/* ---- reserve ---- */

#define RESERVE_NAME "ottla.reserve"

enum ot_err eng_store_reserve_hold(struct eng_store *store, uint32_t dir, uint64_t bytes)
{
    char path[ENG_PATH_BYTES];
    struct ot_io_stat stat = { 0 };
    struct ot_io *io = store->io;
    int fd = -1;
    OT_ASSERT(dir < store->dir_count);
    enum ot_err err = eng_path_join(path, store->dirs[dir].path, RESERVE_NAME);
    if (err != OT_OK) return err;
    if (bytes == 0) {
        eng_store_reserve_release(store, dir);
        return OT_OK;
    }
    if ((err = io->ops->open(io, path, OT_IO_WRITE | OT_IO_CREATE, &fd)) != OT_OK) return err;
    if ((err = io->ops->fstat(io, fd, &stat)) != OT_OK) goto done;
    if (stat.bytes == bytes) goto done;
    if (stat.bytes > bytes) err = io->ops->truncate(io, fd, bytes);
    else err = io->ops->preallocate(io, fd, stat.bytes, bytes - stat.bytes, false);
done:
    io->ops->close(io, fd);
    if (err != OT_OK && stat.bytes == 0) ot_ignore(io->ops->unlink(io, path), "an empty reserve is as good as none");
    return err;
}

void eng_store_reserve_release(struct eng_store *store, uint32_t dir)
{
    char path[ENG_PATH_BYTES];
    OT_ASSERT(dir < store->dir_count);
    if (eng_path_join(path, store->dirs[dir].path, RESERVE_NAME) != OT_OK) return;
    ot_ignore(store->io->ops->unlink(store->io, path), "not there: nothing was held");
}

/* ---- maps and counters ---- */

bool eng_store_map_room(struct eng_store *store, int64_t bytes)
{
    if (bytes <= 0) {
        atomic_fetch_sub(&store->mapped_append_bytes, (uint64_t)-bytes);
        return true;
    }
    uint64_t now = atomic_load(&store->mapped_append_bytes);
    do {
        if (now + (uint64_t)bytes > store->append_mapped_bytes_max) return false;
    } while (!atomic_compare_exchange_weak(&store->mapped_append_bytes, &now, now + (uint64_t)bytes));
    return true;
}

uint32_t eng_store_recovering(const struct eng_store *store) { return atomic_load(&store->recovering); }

void eng_store_stats(struct eng_store *store, struct eng_store_stats *out)
{
    pthread_mutex_lock(&store->files.lock);
    *out = (struct eng_store_stats){
        .open_files = store->files.open_count, .opens_total = store->files.opens_total, .evictions_total = store->files.evictions_total,
    };
    pthread_mutex_unlock(&store->files.lock);
    out->open_maps = atomic_load(&store->open_maps);
    out->mapped_append_bytes = atomic_load(&store->mapped_append_bytes);
}
