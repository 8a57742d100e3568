/* The disk, as a table of functions: the real one, and the simulator's that loses, tears and refuses.
 *
 * errno ends here: it becomes an ot_err (ENOSPC, EDQUOT: NO_SPACE; ENOENT: NOT_FOUND; EEXIST: EXISTS; ENOMEM, EMFILE, ENFILE:
 * NO_MEMORY; others: IO) and is logged with the path by the real disk, once per kind of failure and file. All may block, except where
 * said; call them on I/O threads. Short reads and writes happen: the count tells. EINTR is handled inside. */
#ifndef OT_BASE_IO_H
#define OT_BASE_IO_H

#include "base/err.h"
#include <sys/uio.h>

enum ot_io_open {              /* flags of open */
    OT_IO_READ = 0, OT_IO_WRITE = 1, OT_IO_CREATE = 2, OT_IO_EXCLUSIVE = 4, OT_IO_TRUNCATE = 8
};
struct ot_io_space { uint64_t total_bytes, free_bytes; };      /* free: to an unprivileged user */
struct ot_io_entry { const char *name; bool is_dir; };         /* of list; the name is borrowed during the call */
struct ot_io_stat { uint64_t bytes; int64_t modified_ms; bool is_dir; };

struct ot_io;
struct ot_io_ops {
    enum ot_err (*open)(struct ot_io *io, const char *path, int flags, int *fd_out);
    void (*close)(struct ot_io *io, int fd);                   /* -1 is fine */
    enum ot_err (*pwritev)(struct ot_io *io, int fd, const struct iovec *iov, int iov_count, uint64_t pos, size_t *written_out);
    enum ot_err (*pread)(struct ot_io *io, int fd, void *data, size_t bytes, uint64_t pos, size_t *got_out);   /* 0 at the end */
    enum ot_err (*fdatasync)(struct ot_io *io, int fd);        /* a failure is final for that file: never retried */
    enum ot_err (*sync_dir)(struct ot_io *io, const char *path);
    enum ot_err (*truncate)(struct ot_io *io, int fd, uint64_t bytes);
    enum ot_err (*preallocate)(struct ot_io *io, int fd, uint64_t pos, uint64_t bytes, bool keep_size);  /* failed: as before the call */
    enum ot_err (*fstat)(struct ot_io *io, int fd, struct ot_io_stat *out);
    enum ot_err (*stat)(struct ot_io *io, const char *path, struct ot_io_stat *out);
    enum ot_err (*rename)(struct ot_io *io, const char *from, const char *to);
    enum ot_err (*unlink)(struct ot_io *io, const char *path);
    enum ot_err (*mkdir)(struct ot_io *io, const char *path);
    enum ot_err (*rmdir)(struct ot_io *io, const char *path);
    enum ot_err (*list)(struct ot_io *io, const char *path, void (*each)(void *arg, const struct ot_io_entry *entry), void *arg);
    enum ot_err (*space)(struct ot_io *io, const char *path, struct ot_io_space *out);
    enum ot_err (*map)(struct ot_io *io, int fd, uint64_t bytes, bool writable, void **out);       /* shared, from position 0 */
    void (*unmap)(struct ot_io *io, void *map, uint64_t bytes);
    bool (*is_cached)(struct ot_io *io, int fd, uint64_t pos, uint64_t bytes);     /* does not block; cachestat, else mincore */
    void (*drop_cache)(struct ot_io *io, int fd, uint64_t pos, uint64_t bytes);    /* advice */
    void (*will_need)(struct ot_io *io, int fd, uint64_t pos, uint64_t bytes);     /* advice */
    enum ot_err (*lock)(struct ot_io *io, const char *path, int *fd_out);          /* LOCKED when another process holds it */
    /* All that anybody wrote so far to the file system that holds path is on disk, contents and names. NOT_FOUND: kernel or file system have no such call that tells of a
     * write that failed. IO: one did, of whichever file, and this says nothing of the others: what counts is to be synced by itself. */
    enum ot_err (*sync_all)(struct ot_io *io, const char *path);
};
struct ot_io { const struct ot_io_ops *ops; };

struct ot_io *ot_io_real(void);
/* is_cached of the real disk, by mincore alone when try_cachestat is false: for the test of what old kernels do. */
bool ot_io_real_is_cached_with(int fd, uint64_t pos, uint64_t bytes, bool try_cachestat);

/* Shorthands over the table. */
OT_MUST_CHECK enum ot_err ot_io_write_all(struct ot_io *io, int fd, const void *data, size_t bytes, uint64_t pos);
OT_MUST_CHECK enum ot_err ot_io_read_exact(struct ot_io *io, int fd, void *data, size_t bytes, uint64_t pos);   /* fewer: SHORT */
/* Whole small file; TOO_LARGE above max_bytes. *data_out is malloc'ed and zero-terminated; the caller frees it. */
OT_MUST_CHECK enum ot_err ot_io_read_file(struct ot_io *io, const char *path, size_t max_bytes, char **data_out, size_t *bytes_out);
/* Replace a small file so that a crash leaves the old or the new one: temporary name, write, fdatasync, rename, sync of the directory. */
OT_MUST_CHECK enum ot_err ot_io_replace_file(struct ot_io *io, const char *path, const void *data, size_t bytes, bool sync);

/* SIGBUS in a mapped file (truncated or failing under us) becomes an error: memcpy that answers IO instead of dying. */
OT_MUST_CHECK enum ot_err ot_guarded_copy(void *to, const void *from, size_t bytes);
/* Before threads; again when somebody else has set a handler of SIGBUS since (test frameworks do, for every test). */
void ot_guard_install(void);

#endif
