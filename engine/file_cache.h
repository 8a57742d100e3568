/* Open descriptors, bounded: a handle names a file, acquire opens and pins it, release lets the cache close it when room is needed.
 *
 * A descriptor behind a pin never closes. At the cap the longest unused unpinned one goes, clean ones before those with unsynced
 * writes (a write-back error must be seen by a descriptor that was open when it happened). All pinned: the cache grows past its cap rather
 * than fail. The mutex is never held across a system call. Any thread. */
#ifndef OT_ENGINE_FILE_CACHE_H
#define OT_ENGINE_FILE_CACHE_H

#include "base/io.h"
#include <pthread.h>
#include <stdatomic.h>

struct eng_file {
    struct eng_file *newer, *older;        /* in the cache's list, while open and unpinned */
    int fd;                                /* -1 while not open */
    uint32_t pins;
    bool writable, listed;
    bool doomed;                           /* closed at the last release; until then not acquired again: BUSY */
    _Atomic bool dirty;                            /* the owner's word: written and not yet synced */
};
#define ENG_FILE_NONE ((struct eng_file){ .fd = -1 })

struct eng_file_cache {
    struct ot_io *io;
    pthread_mutex_t lock;
    struct eng_file *newest, *oldest;
    uint32_t open_count, open_max;
    uint64_t opens_total, evictions_total;
};

void eng_file_cache_init(struct eng_file_cache *cache, struct ot_io *io, uint32_t open_max);
void eng_file_cache_free(struct eng_file_cache *cache);
/* flags: OT_IO_READ, or OT_IO_WRITE with OT_IO_CREATE as needed; path is used only when it must be opened. An open read-only handle
 * that is asked for writing is opened anew when unpinned, else BUSY. */
OT_MUST_CHECK enum ot_err eng_file_acquire(struct eng_file_cache *cache, struct eng_file *file, const char *path, int flags, int *fd_out);
/* As acquire, but only if it is open already: never blocks. */
bool eng_file_try_acquire(struct eng_file_cache *cache, struct eng_file *file, int *fd_out);
void eng_file_release(struct eng_file_cache *cache, struct eng_file *file);
void eng_file_forget(struct eng_file_cache *cache, struct eng_file *file);    /* closes now, or dooms it until unpinned */
bool eng_file_is_open(struct eng_file_cache *cache, struct eng_file *file);

#endif
