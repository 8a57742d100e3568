#include "testing.h"

#include "base/io.h"
#include "base/log.h"
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

static struct ot_io *io;
static char dir[200];

static const char *at(const char *name)
{
    static char paths[4][400];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
    return path;
}

static int open_new(const char *name)
{
    int fd = -1;
    assert_int_equal(io->ops->open(io, at(name), OT_IO_WRITE | OT_IO_CREATE, &fd), OT_OK);
    assert_true(fd >= 0);
    return fd;
}

static void what_is_written_is_read_where_it_was_put(void **state)
{
    (void)state;
    const int fd = open_new("log");
    char back[16] = "";
    size_t count = 0;
    const struct iovec iov[2] = {{.iov_base = "abc", .iov_len = 3}, {.iov_base = "defg", .iov_len = 4}};
    assert_int_equal(io->ops->pwritev(io, fd, iov, 2, 10, &count), OT_OK);
    assert_int_equal(count, 7);
    assert_int_equal(io->ops->pread(io, fd, back, sizeof(back), 9, &count), OT_OK);
    assert_int_equal(count, 8);
    assert_memory_equal(back, "\0abcdefg", 8);
    assert_int_equal(io->ops->pread(io, fd, back, sizeof(back), 17, &count), OT_OK);
    assert_int_equal(count, 0);
    struct ot_io_stat stat;
    assert_int_equal(io->ops->fstat(io, fd, &stat), OT_OK);
    assert_int_equal(stat.bytes, 17);
    assert_false(stat.is_dir);
    assert_true(stat.modified_ms > 1600000000000);
    assert_int_equal(io->ops->truncate(io, fd, 5), OT_OK);
    assert_int_equal(io->ops->stat(io, at("log"), &stat), OT_OK);
    assert_int_equal(stat.bytes, 5);
    assert_int_equal(io->ops->fdatasync(io, fd), OT_OK);
    assert_int_equal(io->ops->sync_dir(io, dir), OT_OK);
    enum ot_err all = io->ops->sync_all(io, dir);
    assert_true(all == OT_OK || all == OT_ERR_NOT_FOUND);      /* by kernel and file system */
    io->ops->close(io, fd);
    io->ops->close(io, -1);
}

static void more_pieces_than_the_kernel_takes_are_a_short_write(void **state)
{
    (void)state;
    enum { COUNT = 1500 };
    static struct iovec iov[COUNT];
    for (int i = 0; i < COUNT; i++) iov[i] = (struct iovec){.iov_base = "x", .iov_len = 1};
    const int fd = open_new("pieces");
    size_t written = 0;
    assert_int_equal(io->ops->pwritev(io, fd, iov, COUNT, 0, &written), OT_OK);
    assert_in_range(written, 1, COUNT - 1);
    io->ops->close(io, fd);
}

static void open_means_what_its_flags_say(void **state)
{
    (void)state;
    int fd = -1;
    assert_int_equal(io->ops->open(io, at("absent"), OT_IO_READ, &fd), OT_ERR_NOT_FOUND);
    assert_int_equal(fd, -1);
    fd = open_new("here");
    assert_int_equal(ot_io_write_all(io, fd, "data", 4, 0), OT_OK);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    io->ops->close(io, fd);
    assert_int_equal(io->ops->open(io, at("here"), OT_IO_WRITE | OT_IO_CREATE | OT_IO_EXCLUSIVE, &fd), OT_ERR_EXISTS);
    assert_int_equal(io->ops->open(io, at("here"), OT_IO_READ, &fd), OT_OK);
    size_t count;
    const struct iovec iov = {.iov_base = "x", .iov_len = 1};
    assert_int_equal(io->ops->pwritev(io, fd, &iov, 1, 0, &count), OT_ERR_IO);
    io->ops->close(io, fd);
    assert_int_equal(io->ops->open(io, at("here"), OT_IO_WRITE | OT_IO_TRUNCATE, &fd), OT_OK);
    struct ot_io_stat stat;
    assert_int_equal(io->ops->fstat(io, fd, &stat), OT_OK);
    assert_int_equal(stat.bytes, 0);
    io->ops->close(io, fd);
}

static void a_full_device_has_no_space(void **state)
{
    (void)state;
    int fd = -1;
    if (io->ops->open(io, "/dev/full", OT_IO_WRITE, &fd) != OT_OK) skip();
    size_t count;
    const struct iovec iov = {.iov_base = "x", .iov_len = 1};
    assert_int_equal(io->ops->pwritev(io, fd, &iov, 1, 0, &count), OT_ERR_NO_SPACE);
    io->ops->close(io, fd);
}

struct listing {
    int files, dirs;
    bool dots;
};

static void count_entry(void *arg, const struct ot_io_entry *entry)
{
    struct listing *listing = arg;
    if (entry->is_dir)
        listing->dirs++;
    else
        listing->files++;
    listing->dots |= entry->name[0] == '.';
}

static void folders_are_made_listed_renamed_and_removed(void **state)
{
    (void)state;
    struct listing listing = {0};
    assert_int_equal(io->ops->mkdir(io, at("d")), OT_OK);
    assert_int_equal(io->ops->mkdir(io, at("d")), OT_ERR_EXISTS);
    assert_int_equal(io->ops->mkdir(io, at("d/sub")), OT_OK);
    io->ops->close(io, open_new("d/a"));
    io->ops->close(io, open_new("d/b"));
    assert_int_equal(symlink("sub", at("d/link")), 0);
    assert_int_equal(io->ops->list(io, at("d"), count_entry, &listing), OT_OK);
    assert_int_equal(listing.files, 2);
    assert_int_equal(listing.dirs, 2); /* the link leads to a folder */
    assert_false(listing.dots);
    assert_int_equal(io->ops->list(io, at("none"), count_entry, &listing), OT_ERR_NOT_FOUND);
    assert_int_equal(io->ops->rmdir(io, at("d")), OT_ERR_EXISTS); /* not empty */
    assert_int_equal(io->ops->rename(io, at("d/a"), at("d/b")), OT_OK);
    assert_int_equal(io->ops->rename(io, at("d/a"), at("d/b")), OT_ERR_NOT_FOUND);
    assert_int_equal(io->ops->unlink(io, at("d/b")), OT_OK);
    assert_int_equal(io->ops->unlink(io, at("d/b")), OT_ERR_NOT_FOUND);
    assert_int_equal(io->ops->unlink(io, at("d/link")), OT_OK);
    assert_int_equal(io->ops->rmdir(io, at("d/sub")), OT_OK);
    assert_int_equal(io->ops->rmdir(io, at("d")), OT_OK);
    assert_int_equal(io->ops->sync_dir(io, at("d")), OT_ERR_NOT_FOUND);
    assert_int_equal(io->ops->sync_all(io, at("d")), OT_ERR_NOT_FOUND);
}

static uint64_t allocated_bytes(int fd)
{
    struct stat native;
    assert_int_equal(fstat(fd, &native), 0);
    return (uint64_t)native.st_blocks * 512;
}

static void preallocation_keeps_the_size_when_asked(void **state)
{
    (void)state;
    const int fd = open_new("pre");
    struct ot_io_stat stat;
    assert_int_equal(ot_io_write_all(io, fd, "abc", 3, 0), OT_OK);
    if (io->ops->preallocate(io, fd, 0, 1 << 20, true) != OT_OK) skip(); /* a file system without fallocate */
    assert_int_equal(io->ops->fstat(io, fd, &stat), OT_OK);
    assert_int_equal(stat.bytes, 3);
    assert_true(allocated_bytes(fd) >= 1 << 20);
    assert_int_equal(io->ops->preallocate(io, fd, 0, 1 << 20, false), OT_OK);
    assert_int_equal(io->ops->fstat(io, fd, &stat), OT_OK);
    assert_int_equal(stat.bytes, 1 << 20);
    io->ops->close(io, fd);
}

static void space_is_told(void **state)
{
    (void)state;
    struct ot_io_space space = {0};
    assert_int_equal(io->ops->space(io, dir, &space), OT_OK);
    assert_true(space.total_bytes > 0 && space.free_bytes <= space.total_bytes);
    assert_int_equal(io->ops->space(io, at("none"), &space), OT_ERR_NOT_FOUND);
}

static void a_map_is_the_file(void **state)
{
    (void)state;
    const int fd = open_new("map");
    void *map = NULL;
    char back[4];
    assert_int_equal(ot_io_write_all(io, fd, "0123456789", 10, 0), OT_OK);
    assert_int_equal(io->ops->map(io, fd, 10, true, &map), OT_OK);
    assert_memory_equal(map, "0123456789", 10);
    memcpy((char *)map + 2, "ab", 2);
    assert_int_equal(ot_io_read_exact(io, fd, back, 4, 1), OT_OK);
    assert_memory_equal(back, "1ab4", 4);
    io->ops->unmap(io, map, 10);
    io->ops->unmap(io, NULL, 10);
    io->ops->close(io, fd);
}

static void a_written_range_is_cached_and_a_hole_is_not(void **state)
{
    (void)state;
    const int fd = open_new("cache");
    char page[8192];
    memset(page, 1, sizeof(page));
    assert_int_equal(ot_io_write_all(io, fd, page, sizeof(page), 0), OT_OK);
    assert_int_equal(io->ops->truncate(io, fd, 4 << 20), OT_OK);
    io->ops->will_need(io, fd, 0, 0);
    for (int method = 0; method < 2; method++) {
        assert_true(ot_io_real_is_cached_with(fd, 0, 8192, method));
        assert_true(ot_io_real_is_cached_with(fd, 100, 5000, method));
        assert_true(ot_io_real_is_cached_with(fd, 0, 0, method));
        assert_false(ot_io_real_is_cached_with(fd, 1 << 20, 4096, method));
        assert_false(ot_io_real_is_cached_with(fd, 4096, (3 << 20) + 1, method)); /* begins cached */
    }
    assert_true(io->ops->is_cached(io, fd, 0, 8192));
    assert_int_equal(io->ops->fdatasync(io, fd), OT_OK);
    io->ops->drop_cache(io, fd, 0, 8192); /* advice: it may stay, but both methods see the same */
    assert_int_equal(ot_io_real_is_cached_with(fd, 0, 8192, true), ot_io_real_is_cached_with(fd, 0, 8192, false));
    io->ops->close(io, fd);
}

static void a_lock_is_held_against_this_and_other_processes(void **state)
{
    (void)state;
    int first = -1, second = -1, status = 0;
    assert_int_equal(io->ops->lock(io, at(".lock"), &first), OT_OK);
    assert_int_equal(io->ops->lock(io, at(".lock"), &second), OT_ERR_LOCKED);
    assert_int_equal(second, -1);
    pid_t child = fork();
    if (child == 0) {
        close(first); /* the lock is of the open file, which the parent still has */
        _exit(io->ops->lock(io, at(".lock"), &second) == OT_ERR_LOCKED ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    child = fork();
    if (child == 0) { /* as Kafka's broker takes it */
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        const int fd = open(at(".lock"), O_RDWR);
        _exit(fcntl(fd, F_SETLK, &whole) != 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    io->ops->close(io, first);
    assert_int_equal(io->ops->lock(io, at(".lock"), &second), OT_OK);
    io->ops->close(io, second);
}

/* In a mount namespace of its own, where the machine allows that. 0: held, 77: not possible here. */
static int on_a_full_file_system(void)
{
    char map[40];
    snprintf(map, sizeof(map), "0 %u 1", getuid());
    if (unshare(CLONE_NEWNS) != 0) { /* not root: then root of a user namespace */
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return 77;
        const int fd = open("/proc/self/uid_map", O_WRONLY);
        if (fd < 0 || write(fd, map, strlen(map)) < 0) return 77;
        close(fd);
    }
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return 77;
    if (mount("small", dir, "tmpfs", 0, "size=256k") != 0) return 77;
    int fd = -1;
    char data[8192] = {1};
    struct ot_io_stat stat;
    if (io->ops->open(io, at("log"), OT_IO_WRITE | OT_IO_CREATE, &fd) != OT_OK) return 1;
    if (ot_io_write_all(io, fd, data, sizeof(data), 0) != OT_OK) return 2;
    const uint64_t before = allocated_bytes(fd);
    if (io->ops->preallocate(io, fd, 0, 1 << 20, true) != OT_ERR_NO_SPACE) return 3;
    if (io->ops->preallocate(io, fd, 0, 1 << 20, false) != OT_ERR_NO_SPACE) return 4;
    if (io->ops->fstat(io, fd, &stat) != OT_OK || stat.bytes != sizeof(data) || allocated_bytes(fd) != before) return 5;
    enum ot_err err = OT_OK;
    uint64_t pos = sizeof(data);
    for (; err == OT_OK && pos < 1 << 20; pos += sizeof(data)) err = ot_io_write_all(io, fd, data, sizeof(data), pos);
    if (err != OT_ERR_NO_SPACE) return 6;
    if (ot_io_replace_file(io, at("checkpoint"), data, sizeof(data), true) != OT_ERR_NO_SPACE) return 7;
    if (io->ops->stat(io, at("checkpoint"), &stat) != OT_ERR_NOT_FOUND ||
        io->ops->stat(io, at("checkpoint.tmp"), &stat) != OT_ERR_NOT_FOUND)
        return 8;
    return 0;
}

static void on_a_full_file_system_nothing_is_left_half_done(void **state)
{
    (void)state;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) _exit(on_a_full_file_system());
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_failure_is_logged_with_path_and_errno_once(void **state)
{
    (void)state;
    const int log_fd = memfd_create("log", 0);
    assert_true(log_fd >= 0);
    ot_log_setup(OT_LOG_INFO, OT_LOG_TEXT, log_fd);
    const int fd = open_new("not a folder");
    io->ops->close(io, fd);
    struct listing listing = {0};
    for (int i = 0; i < 3; i++) assert_int_equal(io->ops->list(io, at("not a folder"), count_entry, &listing), OT_ERR_IO);
    assert_int_equal(io->ops->list(io, at("absent"), count_entry, &listing), OT_ERR_NOT_FOUND);
    char text[2000] = "";
    assert_true(pread(log_fd, text, sizeof(text) - 1, 0) > 0);
    assert_non_null(strstr(text, "ERROR disk io_failed call=opendir path=\""));
    assert_non_null(strstr(text, "/not a folder\" errno=ENOTDIR error=IO\n"));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1); /* one line */
    ot_log_setup(OT_LOG_INFO, OT_LOG_TEXT, 2);
    close(log_fd);
}

static void small_files_are_read_whole_within_their_bound(void **state)
{
    (void)state;
    char *data = NULL;
    size_t bytes = 0;
    char big[3000];
    memset(big, 'x', sizeof(big));
    const int fd = open_new("small");
    assert_int_equal(ot_io_read_file(io, at("small"), 100, &data, &bytes), OT_OK);
    assert_int_equal(bytes, 0);
    assert_string_equal(data, "");
    free(data);
    assert_int_equal(ot_io_write_all(io, fd, big, sizeof(big), 0), OT_OK);
    assert_int_equal(ot_io_read_file(io, at("small"), sizeof(big), &data, &bytes), OT_OK);
    assert_int_equal(bytes, sizeof(big));
    assert_int_equal(strlen(data), sizeof(big));
    free(data);
    assert_int_equal(ot_io_read_file(io, at("small"), sizeof(big) - 1, &data, &bytes), OT_ERR_TOO_LARGE);
    assert_int_equal(ot_io_read_file(io, at("absent"), 100, &data, &bytes), OT_ERR_NOT_FOUND);
    assert_int_equal(ot_io_read_file(io, "/proc/self/status", 100000, &data, NULL), OT_OK); /* says it is empty */
    assert_true(strlen(data) > 300);
    free(data);
    assert_int_equal(ot_io_read_file(io, "/proc/self/status", 20, &data, NULL), OT_ERR_TOO_LARGE);
    assert_int_equal(ot_io_read_exact(io, fd, big, 10, sizeof(big) - 5), OT_ERR_SHORT);
    io->ops->close(io, fd);
}

static int setup(void **state)
{
    (void)state;
    io = ot_io_real();
    temp_dir_make(dir, sizeof(dir));
    ot_log_set_level(NULL, OT_LOG_ERROR);
    return 0;
}
static int teardown(void **state)
{
    return (void)state, temp_dir_remove(dir), 0;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(what_is_written_is_read_where_it_was_put),
        TEST(more_pieces_than_the_kernel_takes_are_a_short_write),
        TEST(open_means_what_its_flags_say),
        TEST(a_full_device_has_no_space),
        TEST(folders_are_made_listed_renamed_and_removed),
        TEST(preallocation_keeps_the_size_when_asked),
        TEST(space_is_told),
        TEST(a_map_is_the_file),
        TEST(a_written_range_is_cached_and_a_hole_is_not),
        TEST(a_lock_is_held_against_this_and_other_processes),
        TEST(on_a_full_file_system_nothing_is_left_half_done),
        TEST(a_failure_is_logged_with_path_and_errno_once),
        TEST(small_files_are_read_whole_within_their_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
