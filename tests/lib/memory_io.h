/* A small disk in memory for fuzzing: flat, at most MEMORY_FILES_MAX files of at most MEMORY_FILE_BYTES_MAX, no maps, everything is always synced. Folders exist
 * when something below them does, or when made. An unlinked or replaced file lives on behind its open descriptors. One thread. */
#ifndef OT_TESTS_MEMORY_IO_H
#define OT_TESTS_MEMORY_IO_H

#include "base/io.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_FILES_MAX 64
#define MEMORY_FDS_MAX 64
#define MEMORY_FILE_BYTES_MAX ((uint64_t)16 << 20)

struct memory_file { char path[256]; uint8_t *data; size_t bytes; int opens; bool named, dir; };
struct memory_io { struct ot_io io; struct memory_file files[MEMORY_FILES_MAX]; struct memory_file *fds[MEMORY_FDS_MAX]; };

static inline struct memory_io *memory_of(struct ot_io *io) { return OT_CONTAINER(io, struct memory_io, io); }

static inline struct memory_file *memory_find(struct memory_io *memory, const char *path)
{
    for (int i = 0; i < MEMORY_FILES_MAX; i++) {
        if (memory->files[i].named && strcmp(memory->files[i].path, path) == 0) return &memory->files[i];
    }
    return NULL;
}

static inline void memory_drop(struct memory_file *file)
{
    if (file->named || file->opens > 0) return;
    free(file->data);
    memset(file, 0, sizeof *file);
}

static inline struct memory_file *memory_make(struct memory_io *memory, const char *path)
{
    for (int i = 0; i < MEMORY_FILES_MAX; i++) {
        struct memory_file *file = &memory->files[i];
        if (file->named || file->opens > 0 || strlen(path) >= sizeof file->path) continue;
        (void)snprintf(file->path, sizeof file->path, "%s", path);
        file->named = true;
        return file;
    }
    return NULL;
}

static inline bool memory_resize(struct memory_file *file, uint64_t bytes)
{
    if (bytes > MEMORY_FILE_BYTES_MAX) return false;
    if (bytes > file->bytes) {
        uint8_t *data = (uint8_t *)realloc(file->data, bytes);
        if (data == NULL) return false;
        memset(data + file->bytes, 0, bytes - file->bytes);
        file->data = data;
    }
    file->bytes = bytes;
    return true;
}

static inline enum ot_err memory_open(struct ot_io *io, const char *path, int flags, int *fd_out)
{
    struct memory_io *memory = memory_of(io);
    struct memory_file *file = memory_find(memory, path);
    *fd_out = -1;
    if (file != NULL && file->dir) return OT_ERR_IO;
    if (file != NULL && (flags & OT_IO_EXCLUSIVE) != 0) return OT_ERR_EXISTS;
    if (file == NULL && (flags & OT_IO_CREATE) == 0) return OT_ERR_NOT_FOUND;
    if (file == NULL && (file = memory_make(memory, path)) == NULL) return OT_ERR_NO_SPACE;
    if ((flags & OT_IO_TRUNCATE) != 0) file->bytes = 0;
    for (int fd = 0; fd < MEMORY_FDS_MAX; fd++) {
        if (memory->fds[fd] != NULL) continue;
        memory->fds[fd] = file;
        file->opens++;
        *fd_out = fd;
        return OT_OK;
    }
    return OT_ERR_NO_MEMORY;
}

static inline void memory_close(struct ot_io *io, int fd)
{
    struct memory_io *memory = memory_of(io);
    if (fd < 0) return;
    OT_ASSERT(fd < MEMORY_FDS_MAX && memory->fds[fd] != NULL);
    memory->fds[fd]->opens--;
    memory_drop(memory->fds[fd]);
    memory->fds[fd] = NULL;
}

static inline struct memory_file *memory_fd(struct ot_io *io, int fd)
{
    OT_ASSERT(fd >= 0 && fd < MEMORY_FDS_MAX && memory_of(io)->fds[fd] != NULL);
    return memory_of(io)->fds[fd];
}

static inline enum ot_err memory_pwritev(struct ot_io *io, int fd, const struct iovec *iov, int iov_count, uint64_t pos, size_t *written_out)
{
    struct memory_file *file = memory_fd(io, fd);
    *written_out = 0;
    for (int i = 0; i < iov_count; i++) {
        if (pos + iov[i].iov_len > file->bytes && !memory_resize(file, pos + iov[i].iov_len)) return OT_ERR_NO_SPACE;
        if (iov[i].iov_len > 0) memcpy(file->data + pos, iov[i].iov_base, iov[i].iov_len);
        pos += iov[i].iov_len;
        *written_out += iov[i].iov_len;
    }
    return OT_OK;
}

static inline enum ot_err memory_pread(struct ot_io *io, int fd, void *data, size_t bytes, uint64_t pos, size_t *got_out)
{
    struct memory_file *file = memory_fd(io, fd);
    *got_out = pos >= file->bytes ? 0 : OT_MIN(bytes, file->bytes - (size_t)pos);
    if (*got_out > 0) memcpy(data, file->data + pos, *got_out);
    return OT_OK;
}

static inline enum ot_err memory_sync(struct ot_io *io, int fd) { (void)memory_fd(io, fd); return OT_OK; }
static inline enum ot_err memory_sync_dir(struct ot_io *io, const char *path) { (void)io, (void)path; return OT_OK; }

static inline enum ot_err memory_truncate(struct ot_io *io, int fd, uint64_t bytes)
{
    return memory_resize(memory_fd(io, fd), bytes) ? OT_OK : OT_ERR_NO_SPACE;
}

static inline enum ot_err memory_preallocate(struct ot_io *io, int fd, uint64_t pos, uint64_t bytes, bool keep_size)
{
    struct memory_file *file = memory_fd(io, fd);
    if (pos + bytes > MEMORY_FILE_BYTES_MAX) return OT_ERR_NO_SPACE;
    return keep_size || pos + bytes <= file->bytes || memory_resize(file, pos + bytes) ? OT_OK : OT_ERR_NO_SPACE;
}

static inline enum ot_err memory_fstat(struct ot_io *io, int fd, struct ot_io_stat *out)
{
    *out = (struct ot_io_stat){ memory_fd(io, fd)->bytes, 0, false };
    return OT_OK;
}

static inline bool memory_below(const char *path, const char *dir)
{
    size_t bytes = strlen(dir);
    return strncmp(path, dir, bytes) == 0 && path[bytes] == '/';
}

static inline enum ot_err memory_stat(struct ot_io *io, const char *path, struct ot_io_stat *out)
{
    struct memory_io *memory = memory_of(io);
    struct memory_file *file = memory_find(memory, path);
    bool dir = file != NULL && file->dir;
    for (int i = 0; file == NULL && i < MEMORY_FILES_MAX; i++) dir = dir || (memory->files[i].named && memory_below(memory->files[i].path, path));
    *out = (struct ot_io_stat){ file == NULL ? 0 : file->bytes, 0, dir };
    return file != NULL || dir ? OT_OK : OT_ERR_NOT_FOUND;
}

static inline enum ot_err memory_unlink(struct ot_io *io, const char *path)
{
    struct memory_file *file = memory_find(memory_of(io), path);
    if (file == NULL) return OT_ERR_NOT_FOUND;
    file->named = false;
    memory_drop(file);
    return OT_OK;
}

/* Of a file, or of a folder with all below it. */
static inline enum ot_err memory_rename(struct ot_io *io, const char *from, const char *to)
{
    struct memory_io *memory = memory_of(io);
    bool any = false;
    for (int i = 0; i < MEMORY_FILES_MAX; i++) {
        struct memory_file *file = &memory->files[i];
        char path[512];
        if (!file->named || (strcmp(file->path, from) != 0 && !memory_below(file->path, from))) continue;
        (void)snprintf(path, sizeof path, "%s%s", to, file->path + strlen(from));
        if (strlen(path) >= sizeof file->path) return OT_ERR_IO;
        struct memory_file *old = memory_find(memory, path);
        if (old != NULL && old != file) (void)memory_unlink(io, path);
        memcpy(file->path, path, strlen(path) + 1);
        any = true;
    }
    return any ? OT_OK : OT_ERR_NOT_FOUND;
}

static inline enum ot_err memory_mkdir(struct ot_io *io, const char *path)
{
    struct ot_io_stat stat;
    if (memory_stat(io, path, &stat) == OT_OK) return OT_ERR_EXISTS;
    struct memory_file *file = memory_make(memory_of(io), path);
    if (file == NULL) return OT_ERR_NO_SPACE;
    file->dir = true;
    return OT_OK;
}

static inline enum ot_err memory_rmdir(struct ot_io *io, const char *path)
{
    return memory_unlink(io, path);
}

static inline enum ot_err memory_list(struct ot_io *io, const char *path, void (*each)(void *arg, const struct ot_io_entry *entry), void *arg)
{
    struct memory_io *memory = memory_of(io);
    struct ot_io_stat stat;
    if (memory_stat(io, path, &stat) != OT_OK) return OT_ERR_NOT_FOUND;
    for (int i = 0; i < MEMORY_FILES_MAX; i++) {
        struct memory_file *file = &memory->files[i];
        if (!file->named || !memory_below(file->path, path) || strchr(file->path + strlen(path) + 1, '/') != NULL) continue;
        each(arg, &(struct ot_io_entry){ file->path + strlen(path) + 1, file->dir });
    }
    return OT_OK;
}

static inline enum ot_err memory_space(struct ot_io *io, const char *path, struct ot_io_space *out)
{
    (void)io, (void)path;
    *out = (struct ot_io_space){ (uint64_t)1 << 40, (uint64_t)1 << 39 };
    return OT_OK;
}

static inline enum ot_err memory_map(struct ot_io *io, int fd, uint64_t bytes, bool writable, void **out)
{
    (void)io, (void)fd, (void)bytes, (void)writable;
    *out = NULL;
    return OT_ERR_NO_MEMORY;
}

static inline void memory_unmap(struct ot_io *io, void *map, uint64_t bytes) { (void)io, (void)map, (void)bytes; }
static inline bool memory_is_cached(struct ot_io *io, int fd, uint64_t pos, uint64_t bytes) { (void)io, (void)fd, (void)pos, (void)bytes; return true; }
static inline void memory_advice(struct ot_io *io, int fd, uint64_t pos, uint64_t bytes) { (void)io, (void)fd, (void)pos, (void)bytes; }
static inline enum ot_err memory_lock(struct ot_io *io, const char *path, int *fd_out) { return memory_open(io, path, OT_IO_WRITE | OT_IO_CREATE, fd_out); }

static inline void memory_io_init(struct memory_io *memory)
{
    static const struct ot_io_ops ops = { memory_open, memory_close, memory_pwritev, memory_pread, memory_sync, memory_sync_dir, memory_truncate,
        memory_preallocate, memory_fstat, memory_stat, memory_rename, memory_unlink, memory_mkdir, memory_rmdir, memory_list, memory_space, memory_map,
        memory_unmap, memory_is_cached, memory_advice, memory_advice, memory_lock, memory_sync_dir };
    memset(memory, 0, sizeof *memory);
    memory->io.ops = &ops;
}

/* Every descriptor must have been closed. */
static inline void memory_io_free(struct memory_io *memory)
{
    for (int fd = 0; fd < MEMORY_FDS_MAX; fd++) OT_ASSERT(memory->fds[fd] == NULL);
    for (int i = 0; i < MEMORY_FILES_MAX; i++) {
        memory->files[i].named = false;
        memory_drop(&memory->files[i]);
    }
}

static inline bool memory_io_put(struct memory_io *memory, const char *path, const void *data, size_t bytes)
{
    struct memory_file *file = memory_find(memory, path);
    if (file == NULL) file = memory_make(memory, path);
    if (file == NULL || !memory_resize(file, bytes)) return false;
    if (bytes > 0) memcpy(file->data, data, bytes);
    return true;
}

#endif
