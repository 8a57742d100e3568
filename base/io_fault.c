#include "base/io_fault.h"

#include <string.h>

static struct ot_io_fault *fault_of(struct ot_io *io)
{
    return OT_CONTAINER(io, struct ot_io_fault, io);
}

/* Counts the call; true when it is the one to be spoilt. */
static bool hit(struct ot_io_fault *fault, enum ot_io_call call)
{
    atomic_fetch_add(&fault->counts[call], 1);
    atomic_fetch_add(&fault->counts[OT_IO_CALL_ANY], 1);
    if (fault->at == 0 || (fault->call != OT_IO_CALL_ANY && fault->call != call)) return false;
    const uint64_t seen = atomic_fetch_add(&fault->seen, 1) + 1;
    if (seen != fault->at && !(fault->sticky && seen > fault->at)) return false;
    atomic_store(&fault->fired, true);
    return true;
}

/* The call fails with fault->err; a short one passes unless it moves bytes. */
static bool fails(struct ot_io_fault *fault, enum ot_io_call call)
{
    return hit(fault, call) && fault->err != OT_OK;
}

static enum ot_err fault_open(struct ot_io *io, const char *path, int flags, int *fd_out)
{
    struct ot_io_fault *fault = fault_of(io);
    if (fails(fault, OT_IO_CALL_OPEN)) return fault->err;
    const enum ot_err err = fault->under->ops->open(fault->under, path, flags, fd_out);
    if (err == OT_OK) atomic_fetch_add(&fault->open_fds, 1);
    return err;
}

static void fault_close(struct ot_io *io, int fd)
{
    struct ot_io_fault *fault = fault_of(io);
    if (fd >= 0) atomic_fetch_sub(&fault->open_fds, 1);
    fault->under->ops->close(fault->under, fd);
}

static enum ot_err fault_pwritev(
    struct ot_io *io, int fd, const struct iovec *iov, int iov_count, uint64_t pos, size_t *written_out)
{
    struct ot_io_fault *fault = fault_of(io);
    struct iovec part[64];
    if (hit(fault, OT_IO_CALL_PWRITEV)) {
        if (fault->err != OT_OK) return fault->err;
        size_t bytes = 0, left;
        const int count = OT_MIN(iov_count, (int)OT_ARRAY_COUNT(part));
        for (int i = 0; i < count; i++) bytes += iov[i].iov_len;
        left = bytes > 1 ? bytes / 2 : bytes; /* never nothing: that would be another kind of failure */
        int parts = 0;
        for (; parts < count && left > 0; parts++) {
            part[parts] = iov[parts];
            part[parts].iov_len = OT_MIN(part[parts].iov_len, left);
            left -= part[parts].iov_len;
        }
        iov = part;
        iov_count = parts;
    }
    return fault->under->ops->pwritev(fault->under, fd, iov, iov_count, pos, written_out);
}

static enum ot_err fault_pread(struct ot_io *io, int fd, void *data, size_t bytes, uint64_t pos, size_t *got_out)
{
    struct ot_io_fault *fault = fault_of(io);
    if (hit(fault, OT_IO_CALL_PREAD)) {
        if (fault->err != OT_OK) return fault->err;
        if (bytes > 1) bytes /= 2;
    }
    return fault->under->ops->pread(fault->under, fd, data, bytes, pos, got_out);
}

static enum ot_err fault_map(struct ot_io *io, int fd, uint64_t bytes, bool writable, void **out)
{
    struct ot_io_fault *fault = fault_of(io);
    if (fails(fault, OT_IO_CALL_MAP)) return fault->err;
    const enum ot_err err = fault->under->ops->map(fault->under, fd, bytes, writable, out);
    if (err == OT_OK) atomic_fetch_add(&fault->open_maps, 1);
    return err;
}

static void fault_unmap(struct ot_io *io, void *map, uint64_t bytes)
{
    struct ot_io_fault *fault = fault_of(io);
    if (map != NULL) atomic_fetch_sub(&fault->open_maps, 1);
    fault->under->ops->unmap(fault->under, map, bytes);
}

static enum ot_err fault_lock(struct ot_io *io, const char *path, int *fd_out)
{
    struct ot_io_fault *fault = fault_of(io);
    if (fails(fault, OT_IO_CALL_LOCK)) return fault->err;
    const enum ot_err err = fault->under->ops->lock(fault->under, path, fd_out);
    if (err == OT_OK) atomic_fetch_add(&fault->open_fds, 1);
    return err;
}

/* Those that only pass or fail are all alike. */
#define PASS(name, CALL, params, args)                                                                                             \
    static enum ot_err fault_##name params                                                                                         \
    {                                                                                                                              \
        struct ot_io_fault *fault = fault_of(io);                                                                                  \
        if (fails(fault, OT_IO_CALL_##CALL)) return fault->err;                                                                    \
        io = fault->under;                                                                                                         \
        return io->ops->name args;                                                                                                 \
    }
PASS(fdatasync, FDATASYNC, (struct ot_io * io, int fd), (io, fd))
PASS(sync_dir, SYNC_DIR, (struct ot_io * io, const char *path), (io, path))
PASS(sync_all, SYNC_ALL, (struct ot_io * io, const char *path), (io, path))
PASS(truncate, TRUNCATE, (struct ot_io * io, int fd, uint64_t bytes), (io, fd, bytes))
PASS(preallocate, PREALLOCATE, (struct ot_io * io, int fd, uint64_t pos, uint64_t bytes, bool keep_size),
    (io, fd, pos, bytes, keep_size))
PASS(fstat, FSTAT, (struct ot_io * io, int fd, struct ot_io_stat *out), (io, fd, out))
PASS(stat, STAT, (struct ot_io * io, const char *path, struct ot_io_stat *out), (io, path, out))
PASS(rename, RENAME, (struct ot_io * io, const char *from, const char *to), (io, from, to))
PASS(unlink, UNLINK, (struct ot_io * io, const char *path), (io, path))
PASS(mkdir, MKDIR, (struct ot_io * io, const char *path), (io, path))
PASS(rmdir, RMDIR, (struct ot_io * io, const char *path), (io, path))
PASS(list, LIST, (struct ot_io * io, const char *path, void (*each)(void *arg, const struct ot_io_entry *entry), void *arg),
    (io, path, each, arg))
PASS(space, SPACE, (struct ot_io * io, const char *path, struct ot_io_space *out), (io, path, out))

static bool fault_is_cached(struct ot_io *io, int fd, uint64_t pos, uint64_t bytes)
{
    struct ot_io *under = fault_of(io)->under;
    return under->ops->is_cached(under, fd, pos, bytes);
}

static void fault_drop_cache(struct ot_io *io, int fd, uint64_t pos, uint64_t bytes)
{
    struct ot_io *under = fault_of(io)->under;
    under->ops->drop_cache(under, fd, pos, bytes);
}

static void fault_will_need(struct ot_io *io, int fd, uint64_t pos, uint64_t bytes)
{
    struct ot_io *under = fault_of(io)->under;
    under->ops->will_need(under, fd, pos, bytes);
}

static const struct ot_io_ops fault_ops = {
    .open = fault_open,
    .close = fault_close,
    .pwritev = fault_pwritev,
    .pread = fault_pread,
    .fdatasync = fault_fdatasync,
    .sync_dir = fault_sync_dir,
    .truncate = fault_truncate,
    .preallocate = fault_preallocate,
    .fstat = fault_fstat,
    .stat = fault_stat,
    .rename = fault_rename,
    .unlink = fault_unlink,
    .mkdir = fault_mkdir,
    .rmdir = fault_rmdir,
    .list = fault_list,
    .space = fault_space,
    .map = fault_map,
    .unmap = fault_unmap,
    .is_cached = fault_is_cached,
    .drop_cache = fault_drop_cache,
    .will_need = fault_will_need,
    .lock = fault_lock,
    .sync_all = fault_sync_all,
};

void ot_io_fault_init(struct ot_io_fault *fault, struct ot_io *under)
{
    memset(fault, 0, sizeof(*fault));
    fault->io.ops = &fault_ops;
    fault->under = under;
}

void ot_io_fault_at(struct ot_io_fault *fault, enum ot_io_call call, uint64_t at, enum ot_err err)
{
    fault->at = 0;
    fault->call = call;
    fault->err = err;
    fault->sticky = false;
    atomic_store(&fault->fired, false);
    atomic_store(&fault->seen, 0);
    fault->at = at;
}

const char *ot_io_call_name(enum ot_io_call call)
{
    static const char *const names[OT_IO_CALL_COUNT] = {"any", "open", "pwritev", "pread", "fdatasync", "sync_dir", "truncate",
        "preallocate", "fstat", "stat", "rename", "unlink", "mkdir", "rmdir", "list", "space", "map", "lock", "sync_all"};
    return (unsigned)call < OT_IO_CALL_COUNT ? names[call] : "?";
}
