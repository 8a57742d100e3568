#include "engine/file_cache.h"

void eng_file_cache_init(struct eng_file_cache *cache, struct ot_io *io, uint32_t open_max)
{
    *cache = (struct eng_file_cache){ .io = io, .open_max = OT_MAX(open_max, 8u) };
    pthread_mutex_init(&cache->lock, NULL);
}

void eng_file_cache_free(struct eng_file_cache *cache)
{
    OT_ASSERT(cache->open_count == 0);     /* every handle was forgotten by its owner */
    pthread_mutex_destroy(&cache->lock);
}

static void list_remove(struct eng_file_cache *cache, struct eng_file *file)
{
    if (!file->listed) return;
    if (file->newer != NULL) file->newer->older = file->older;
    else cache->newest = file->older;
    if (file->older != NULL) file->older->newer = file->newer;
    else cache->oldest = file->newer;
    file->newer = file->older = NULL;
    file->listed = false;
}

static void list_push(struct eng_file_cache *cache, struct eng_file *file)
{
    file->older = cache->newest;
    file->newer = NULL;
    if (cache->newest != NULL) cache->newest->newer = file;
    else cache->oldest = file;
    cache->newest = file;
    file->listed = true;
}

/* Takes the descriptor out of the handle; the caller closes it outside the lock. */
static int detach(struct eng_file_cache *cache, struct eng_file *file)
{
    int fd = file->fd;
    list_remove(cache, file);
    file->fd = -1;
    file->writable = false;
    file->doomed = false;
    cache->open_count--;
    return fd;
}

/* One victim, or -1. Looks at a bounded number of dirty ones before it takes one of them. */
static int evict_one(struct eng_file_cache *cache)
{
    struct eng_file *victim = cache->oldest;
    uint32_t looked = 0;
    for (struct eng_file *file = victim; file != NULL && looked < 64; file = file->newer, looked++) {
        if (!file->dirty) {
            victim = file;
            break;
        }
    }
    if (victim == NULL) return -1;
    cache->evictions_total++;
    return detach(cache, victim);
}

bool eng_file_try_acquire(struct eng_file_cache *cache, struct eng_file *file, int *fd_out)
{
    pthread_mutex_lock(&cache->lock);
    bool open = file->fd >= 0 && !file->doomed;
    if (open) {
        list_remove(cache, file);
        file->pins++;
        *fd_out = file->fd;
    }
    pthread_mutex_unlock(&cache->lock);
    return open;
}

/* Makes room before an open. With all pinned there is none to be had and the cap gives way. */
static void make_room(struct eng_file_cache *cache, uint32_t leave)
{
    for (;;) {
        int victim = -1;
        pthread_mutex_lock(&cache->lock);
        if (cache->open_count > leave) victim = evict_one(cache);
        pthread_mutex_unlock(&cache->lock);
        if (victim < 0) return;
        cache->io->ops->close(cache->io, victim);
    }
}

static enum ot_err open_fresh(struct eng_file_cache *cache, struct eng_file *file, const char *path, int flags, int *fd_out)
{
    int fd = -1, extra = -1;
    make_room(cache, cache->open_max - 1);
    enum ot_err err = cache->io->ops->open(cache->io, path, flags, &fd);
    if (err == OT_ERR_NO_MEMORY) {         /* the process is out of descriptors: give back half of ours, once */
        make_room(cache, cache->open_max / 2);
        err = cache->io->ops->open(cache->io, path, flags, &fd);
    }
    if (err != OT_OK) return err;
    bool writable = (flags & OT_IO_WRITE) != 0;
    pthread_mutex_lock(&cache->lock);
    cache->opens_total++;
    if (file->fd < 0 && !file->doomed) {
        file->fd = fd;
        file->writable = writable;
        cache->open_count++;
    } else {
        extra = fd;                        /* another thread opened it meanwhile */
    }
    if (file->doomed || (writable && !file->writable)) {
        err = OT_ERR_BUSY;
    } else {
        list_remove(cache, file);
        file->pins++;
        *fd_out = file->fd;
    }
    pthread_mutex_unlock(&cache->lock);
    cache->io->ops->close(cache->io, extra);
    return err;
}

enum ot_err eng_file_acquire(struct eng_file_cache *cache, struct eng_file *file, const char *path, int flags, int *fd_out)
{
    enum ot_err err = OT_OK;
    bool have = false;
    int stale = -1;
    pthread_mutex_lock(&cache->lock);
    if (file->doomed) {
        err = OT_ERR_BUSY;
    } else if (file->fd >= 0 && (flags & OT_IO_WRITE) != 0 && !file->writable) {
        if (file->pins > 0) err = OT_ERR_BUSY;
        else stale = detach(cache, file);
    } else if (file->fd >= 0) {
        list_remove(cache, file);
        file->pins++;
        *fd_out = file->fd;
        have = true;
    }
    pthread_mutex_unlock(&cache->lock);
    if (stale >= 0) cache->io->ops->close(cache->io, stale);
    if (have || err != OT_OK) return err;
    return open_fresh(cache, file, path, flags, fd_out);
}

void eng_file_release(struct eng_file_cache *cache, struct eng_file *file)
{
    int fd = -1;
    pthread_mutex_lock(&cache->lock);
    OT_ASSERT(file->pins > 0);
    if (--file->pins == 0) {
        if (file->doomed || cache->open_count > cache->open_max) fd = detach(cache, file);
        else list_push(cache, file);
    }
    pthread_mutex_unlock(&cache->lock);
    if (fd >= 0) cache->io->ops->close(cache->io, fd);
}

void eng_file_forget(struct eng_file_cache *cache, struct eng_file *file)
{
    int fd = -1;
    pthread_mutex_lock(&cache->lock);
    if (file->pins > 0) file->doomed = true;
    else if (file->fd >= 0) fd = detach(cache, file);
    pthread_mutex_unlock(&cache->lock);
    if (fd >= 0) cache->io->ops->close(cache->io, fd);
}

bool eng_file_is_open(struct eng_file_cache *cache, struct eng_file *file)
{
    pthread_mutex_lock(&cache->lock);
    bool open = file->fd >= 0;
    pthread_mutex_unlock(&cache->lock);
    return open;
}
