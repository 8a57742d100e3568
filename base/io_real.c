/* The real disk. What fails in a way that an operator should see is logged here with path and errno, once per kind of failure and
 * file within ten minutes; a file that is not there, or there already, is an ordinary answer and no line. */
#include "base/io.h"
#include "base/log.h"
#include "base/util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifndef IOV_MAX
#define IOV_MAX 1024
#endif
#define PAGE_BYTES 4096u
#define RELOG_US   (600 * (int64_t)1000000)

static enum ot_err err_of(int number)
{
    switch (number) {
    case ENOSPC:
    case EDQUOT: return OT_ERR_NO_SPACE;
    case ENOENT: return OT_ERR_NOT_FOUND;
    case EEXIST:
    case ENOTEMPTY: return OT_ERR_EXISTS;
    case ENOMEM:
    case EMFILE:
    case ENFILE: return OT_ERR_NO_MEMORY;
    default: return OT_ERR_IO;
    }
}

/* True when this failure was not told in the last ten minutes. A lost race tells once too often. */
static bool news(const char *call, const char *path, int number)
{
    static struct {
        _Atomic uint64_t hash;
        _Atomic int64_t told_us;
    } told[256];
    const uint64_t hash = ot_hash64(path, strlen(path), ot_hash64(call, strlen(call), (uint64_t)number)) | 1;
    const int64_t now_us = ot_clock_boot_us();
    const size_t slot = hash >> 56;
    if (atomic_load(&told[slot].hash) == hash && now_us - atomic_load(&told[slot].told_us) < RELOG_US) return false;
    atomic_store(&told[slot].hash, hash);
    atomic_store(&told[slot].told_us, now_us);
    return true;
}

static enum ot_err failed_path(const char *call, const char *path)
{
    const int number = errno;
    const enum ot_err err = err_of(number);
    if (err == OT_ERR_NOT_FOUND || err == OT_ERR_EXISTS || !news(call, path, number)) return err;
    char field[OT_LOG_FIELD_BYTES];
    ot_log(OT_LOG_ERROR, "disk", "io_failed", "call=%s path=%s errno=%s error=%s", call, ot_log_field(field, path),
        strerrorname_np(number), ot_err_name(err));
    return err;
}

static enum ot_err failed_fd(const char *call, int fd)
{
    const int number = errno;
    char link[64], path[PATH_MAX] = "?";
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const ssize_t bytes = readlink(link, path, sizeof(path) - 1);
    path[bytes < 0 ? 1 : bytes] = '\0';
    errno = number;
    return failed_path(call, path);
}

static enum ot_err real_open(struct ot_io *io, const char *path, int flags, int *fd_out)
{
    (void)io;
    int native = O_CLOEXEC | O_NOCTTY | ((flags & OT_IO_WRITE) ? O_RDWR : O_RDONLY);
    if (flags & OT_IO_CREATE) native |= O_CREAT;
    if (flags & OT_IO_EXCLUSIVE) native |= O_EXCL;
    if (flags & OT_IO_TRUNCATE) native |= O_TRUNC;
    int fd;
    do fd = open(path, native, 0640);
    while (fd < 0 && errno == EINTR);
    if (fd < 0) return failed_path("open", path);
    *fd_out = fd;
    return OT_OK;
}

static void real_close(struct ot_io *io, int fd)
{
    (void)io;
    if (fd >= 0) close(fd); /* EINTR too has closed it, on Linux */
}

static enum ot_err real_pwritev(struct ot_io *io, int fd, const struct iovec *iov, int iov_count, uint64_t pos, size_t *written_out)
{
    (void)io;
    ssize_t written;
    do written = pwritev(fd, iov, OT_MIN(iov_count, IOV_MAX), (off_t)pos);
    while (written < 0 && errno == EINTR);
    if (written < 0) return failed_fd("pwritev", fd);
    *written_out = (size_t)written;
    return OT_OK;
}

static enum ot_err real_pread(struct ot_io *io, int fd, void *data, size_t bytes, uint64_t pos, size_t *got_out)
{
    (void)io;
    ssize_t got;
    do got = pread(fd, data, bytes, (off_t)pos);
    while (got < 0 && errno == EINTR);
    if (got < 0) return failed_fd("pread", fd);
    *got_out = (size_t)got;
    return OT_OK;
}

static enum ot_err real_fdatasync(struct ot_io *io, int fd)
{
    (void)io;
    int result;
    do result = fdatasync(fd); /* interrupted has not failed: the pages are still dirty */
    while (result != 0 && errno == EINTR);
    return result == 0 ? OT_OK : failed_fd("fdatasync", fd);
}

static enum ot_err real_sync_dir(struct ot_io *io, const char *path)
{
    (void)io;
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return failed_path("open", path);
    int result;
    do result = fsync(fd);
    while (result != 0 && errno == EINTR);
    const enum ot_err err = result == 0 ? OT_OK : failed_path("fsync", path);
    close(fd);
    return err;
}

/* Those whose syncfs waits for contents and names and tells of failures; others (FUSE, network file systems) answer before their server has done it. */
static bool tells_all(int fd)
{
    static const unsigned long trusted[] = { 0xEF53 /* ext2, 3, 4 */, 0x58465342 /* xfs */, 0x9123683E /* btrfs */, 0xF2F52010 /* f2fs */, 0x01021994 /* tmpfs */ };
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0) return false;
    for (size_t i = 0; i < OT_ARRAY_COUNT(trusted); i++)
        if ((unsigned long)fs.f_type == trusted[i]) return true;
    return false;
}

/* Before 5.8 syncfs said nothing of failed writes, and before 5.17 nothing of a journal that failed. */
static bool kernel_tells(void)
{
    struct utsname name;
    unsigned major = 0, minor = 0;
    return uname(&name) == 0 && sscanf(name.release, "%u.%u", &major, &minor) == 2 && (major > 5 || (major == 5 && minor >= 17));
}

static enum ot_err real_sync_all(struct ot_io *io, const char *path)
{
    (void)io;
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return failed_path("open", path);
    enum ot_err err = OT_ERR_NOT_FOUND;
    if (kernel_tells() && tells_all(fd)) {
        int result;
        do result = syncfs(fd);
        while (result != 0 && errno == EINTR);
        err = result == 0 ? OT_OK : failed_path("syncfs", path);
        if (err != OT_OK) err = OT_ERR_IO;
    }
    close(fd);
    return err;
}

static enum ot_err real_truncate(struct ot_io *io, int fd, uint64_t bytes)
{
    (void)io;
    int result;
    do result = ftruncate(fd, (off_t)bytes);
    while (result != 0 && errno == EINTR);
    return result == 0 ? OT_OK : failed_fd("ftruncate", fd);
}

/* A failed fallocate may have taken blocks already: give back what lies behind the old end. What an earlier call had reserved there
 * goes too, which costs a later append no more than its own allocation. Blocks filled in below the old end (holes) stay. */
static enum ot_err real_preallocate(struct ot_io *io, int fd, uint64_t pos, uint64_t bytes, bool keep_size)
{
    (void)io;
    struct stat old;
    if (fstat(fd, &old) != 0) return failed_fd("fstat", fd);
    int result;
    do result = fallocate(fd, keep_size ? FALLOC_FL_KEEP_SIZE : 0, (off_t)pos, (off_t)bytes);
    while (result != 0 && errno == EINTR);
    if (result == 0) return OT_OK;
    const enum ot_err err = failed_fd("fallocate", fd);
    if (ftruncate(fd, old.st_size) != 0)
        ot_ignore(failed_fd("ftruncate", fd), "the preallocation has failed anyway, and it is logged");
    return err;
}

static void fill_stat(const struct stat *native, struct ot_io_stat *out)
{
    out->bytes = S_ISREG(native->st_mode) ? (uint64_t)native->st_size : 0;
    out->modified_ms = (int64_t)native->st_mtim.tv_sec * 1000 + native->st_mtim.tv_nsec / 1000000;
    out->is_dir = S_ISDIR(native->st_mode);
}

static enum ot_err real_fstat(struct ot_io *io, int fd, struct ot_io_stat *out)
{
    (void)io;
    struct stat native;
    if (fstat(fd, &native) != 0) return failed_fd("fstat", fd);
    fill_stat(&native, out);
    return OT_OK;
}

static enum ot_err real_stat(struct ot_io *io, const char *path, struct ot_io_stat *out)
{
    (void)io;
    struct stat native;
    if (stat(path, &native) != 0) return failed_path("stat", path);
    fill_stat(&native, out);
    return OT_OK;
}

static enum ot_err real_rename(struct ot_io *io, const char *from, const char *to)
{
    (void)io;
    return rename(from, to) == 0 ? OT_OK : failed_path("rename", from);
}

static enum ot_err real_unlink(struct ot_io *io, const char *path)
{
    (void)io;
    return unlink(path) == 0 ? OT_OK : failed_path("unlink", path);
}

static enum ot_err real_mkdir(struct ot_io *io, const char *path)
{
    (void)io;
    return mkdir(path, 0750) == 0 ? OT_OK : failed_path("mkdir", path);
}

static enum ot_err real_rmdir(struct ot_io *io, const char *path)
{
    (void)io;
    return rmdir(path) == 0 ? OT_OK : failed_path("rmdir", path);
}

static bool entry_is_dir(DIR *dir, const struct dirent *entry)
{
    if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_LNK) return entry->d_type == DT_DIR;
    struct stat native;
    return fstatat(dirfd(dir), entry->d_name, &native, 0) == 0 && S_ISDIR(native.st_mode);
}

static enum ot_err real_list(
    struct ot_io *io, const char *path, void (*each)(void *arg, const struct ot_io_entry *entry), void *arg)
{
    (void)io;
    DIR *dir = opendir(path);
    if (dir == NULL) return failed_path("opendir", path);
    enum ot_err err = OT_OK;
    for (;;) {
        errno = 0;
        const struct dirent *native = readdir(dir);
        if (native == NULL) {
            if (errno != 0) err = failed_path("readdir", path);
            break;
        }
        if (strcmp(native->d_name, ".") == 0 || strcmp(native->d_name, "..") == 0) continue;
        const struct ot_io_entry entry = {.name = native->d_name, .is_dir = entry_is_dir(dir, native)};
        each(arg, &entry);
    }
    closedir(dir);
    return err;
}

static enum ot_err real_space(struct ot_io *io, const char *path, struct ot_io_space *out)
{
    (void)io;
    struct statvfs native;
    int result;
    do result = statvfs(path, &native);
    while (result != 0 && errno == EINTR);
    if (result != 0) return failed_path("statvfs", path);
    out->total_bytes = (uint64_t)native.f_blocks * native.f_frsize;
    out->free_bytes = (uint64_t)native.f_bavail * native.f_frsize;
    return OT_OK;
}

static enum ot_err real_map(struct ot_io *io, int fd, uint64_t bytes, bool writable, void **out)
{
    (void)io;
    OT_ASSERT(bytes > 0);
    void *map = mmap(NULL, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) return failed_fd("mmap", fd);
    *out = map;
    return OT_OK;
}

static void real_unmap(struct ot_io *io, void *map, uint64_t bytes)
{
    (void)io;
    if (map != NULL) munmap(map, bytes);
}

/* The system call that Linux 6.5 brought, which no header of ours knows yet. */
struct cachestat_range {
    uint64_t pos, bytes;
};
struct cachestat {
    uint64_t cached_pages, dirty_pages, writeback_pages, evicted_pages, recently_evicted_pages;
};
#define CACHESTAT_NUMBER 451

/* mincore over a map of at most 1 MiB at a time; a range that cannot be asked about counts as cached. */
static bool is_cached_mincore(int fd, uint64_t pos, uint64_t bytes)
{
    enum { CHUNK_BYTES = 1 << 20 };
    unsigned char resident[CHUNK_BYTES / PAGE_BYTES];
    for (uint64_t done = 0; done < bytes; done += CHUNK_BYTES) {
        const size_t chunk = (size_t)OT_MIN(bytes - done, (uint64_t)CHUNK_BYTES), pages = (chunk + PAGE_BYTES - 1) / PAGE_BYTES;
        void *map = mmap(NULL, chunk, PROT_READ, MAP_SHARED, fd, (off_t)(pos + done));
        if (map == MAP_FAILED) return true;
        bool all = true;
        if (mincore(map, chunk, resident) == 0) {
            for (size_t i = 0; i < pages; i++) all &= resident[i] & 1;
        }
        munmap(map, chunk);
        if (!all) return false;
    }
    return true;
}

bool ot_io_real_is_cached_with(int fd, uint64_t pos, uint64_t bytes, bool try_cachestat)
{
    static _Atomic bool missing; /* an older kernel: asked once */
    if (bytes == 0) return true;
    const uint64_t start = pos & ~(uint64_t)(PAGE_BYTES - 1), end = (pos + bytes + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
    if (try_cachestat && !atomic_load_explicit(&missing, memory_order_relaxed)) {
        const struct cachestat_range range = {start, end - start};
        struct cachestat found;
        if (syscall(CACHESTAT_NUMBER, fd, &range, &found, 0u) == 0) return found.cached_pages >= (end - start) / PAGE_BYTES;
        if (errno == ENOSYS) atomic_store_explicit(&missing, true, memory_order_relaxed);
    }
    return is_cached_mincore(fd, start, end - start);
}

static bool real_is_cached(struct ot_io *io, int fd, uint64_t pos, uint64_t bytes)
{
    (void)io;
    return ot_io_real_is_cached_with(fd, pos, bytes, true);
}

static void real_drop_cache(struct ot_io *io, int fd, uint64_t pos, uint64_t bytes)
{
    (void)io;
    if (bytes > 0) posix_fadvise(fd, (off_t)pos, (off_t)bytes, POSIX_FADV_DONTNEED);
}

static void real_will_need(struct ot_io *io, int fd, uint64_t pos, uint64_t bytes)
{
    (void)io;
    if (bytes > 0) posix_fadvise(fd, (off_t)pos, (off_t)bytes, POSIX_FADV_WILLNEED);
}

/* An open file description lock: it conflicts with the POSIX lock that a Kafka broker takes on its .lock, and a second open of this
 * process conflicts as well. */
static enum ot_err real_lock(struct ot_io *io, const char *path, int *fd_out)
{
    int fd = -1;
    const enum ot_err err = real_open(io, path, OT_IO_WRITE | OT_IO_CREATE, &fd);
    if (err != OT_OK) return err;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_OFD_SETLK, &whole) == 0) {
        *fd_out = fd;
        return OT_OK;
    }
    const enum ot_err why = errno == EAGAIN || errno == EACCES ? OT_ERR_LOCKED : failed_path("lock", path);
    close(fd);
    return why;
}

static const struct ot_io_ops real_ops = {
    .open = real_open,
    .close = real_close,
    .pwritev = real_pwritev,
    .pread = real_pread,
    .fdatasync = real_fdatasync,
    .sync_dir = real_sync_dir,
    .truncate = real_truncate,
    .preallocate = real_preallocate,
    .fstat = real_fstat,
    .stat = real_stat,
    .rename = real_rename,
    .unlink = real_unlink,
    .mkdir = real_mkdir,
    .rmdir = real_rmdir,
    .list = real_list,
    .space = real_space,
    .map = real_map,
    .unmap = real_unmap,
    .is_cached = real_is_cached,
    .drop_cache = real_drop_cache,
    .will_need = real_will_need,
    .lock = real_lock,
    .sync_all = real_sync_all,
};

struct ot_io *ot_io_real(void)
{
    static struct ot_io real = {&real_ops};
    return &real;
}
