/* The failing disk itself, and the shorthands of base/io.h on it: every call is made to fail once, and to come short once. */
#include "testing.h"

#include "base/io_fault.h"

static char dir[200], path[300], temporary[310];
static struct ot_io_fault fault;

static void read_back(const char *want)
{
    char *data = NULL;
    assert_int_equal(ot_io_read_file(ot_io_real(), path, 1000, &data, NULL), OT_OK);
    assert_string_equal(data, want);
    free(data);
}

static void a_replaced_file_is_the_old_or_the_new_one_whatever_fails(void **state)
{
    (void)state;
    struct ot_io_stat stat;
    for (uint64_t n = 1;; n++) {
        assert_true(n < 50);
        ot_io_fault_init(&fault, ot_io_real());
        assert_int_equal(ot_io_replace_file(&fault.io, path, "old", 3, true), OT_OK);
        ot_io_fault_at(&fault, OT_IO_CALL_ANY, n, OT_ERR_NO_SPACE);
        const enum ot_err err = ot_io_replace_file(&fault.io, path, "newer", 5, true);
        assert_int_equal(fault.open_fds, 0);
        if (!fault.fired) {
            assert_int_equal(err, OT_OK);
            read_back("newer");
            assert_int_equal(n, 6); /* open, write, fdatasync, rename, sync of the folder */
            break;
        }
        assert_int_equal(err, OT_ERR_NO_SPACE);
        read_back(n < 5 ? "old" : "newer"); /* after the rename it is only not known to last */
        assert_int_equal(ot_io_real()->ops->stat(ot_io_real(), temporary, &stat), OT_ERR_NOT_FOUND);
    }
}

static void without_sync_nothing_is_synced(void **state)
{
    (void)state;
    ot_io_fault_init(&fault, ot_io_real());
    assert_int_equal(ot_io_replace_file(&fault.io, path, "x", 1, false), OT_OK);
    assert_int_equal(fault.counts[OT_IO_CALL_FDATASYNC] + fault.counts[OT_IO_CALL_SYNC_DIR], 0);
    assert_int_equal(ot_io_replace_file(&fault.io, path, "x", 1, true), OT_OK);
    assert_int_equal(fault.counts[OT_IO_CALL_FDATASYNC], 1);
    assert_int_equal(fault.counts[OT_IO_CALL_SYNC_DIR], 1);
}

static void short_reads_and_writes_are_carried_on(void **state)
{
    (void)state;
    ot_io_fault_init(&fault, ot_io_real());
    ot_io_fault_at(&fault, OT_IO_CALL_PWRITEV, 1, OT_OK);
    fault.sticky = true;
    assert_int_equal(ot_io_replace_file(&fault.io, path, "0123456789", 10, false), OT_OK);
    assert_true(fault.counts[OT_IO_CALL_PWRITEV] > 3);
    ot_io_fault_at(&fault, OT_IO_CALL_PREAD, 1, OT_OK);
    fault.sticky = true;
    char *data = NULL;
    size_t bytes = 0;
    assert_int_equal(ot_io_read_file(&fault.io, path, 1000, &data, &bytes), OT_OK);
    assert_int_equal(bytes, 10);
    assert_string_equal(data, "0123456789");
    free(data);
    assert_true(fault.fired);
}

static void a_failed_read_of_a_file_leaks_nothing(void **state)
{
    (void)state;
    ot_io_fault_init(&fault, ot_io_real());
    assert_int_equal(ot_io_replace_file(&fault.io, path, "data", 4, false), OT_OK);
    for (uint64_t n = 1;; n++) {
        char *data = NULL;
        ot_io_fault_at(&fault, OT_IO_CALL_ANY, n, OT_ERR_IO);
        const enum ot_err err = ot_io_read_file(&fault.io, path, 100, &data, NULL);
        assert_int_equal(fault.open_fds, 0);
        if (!fault.fired) {
            assert_int_equal(err, OT_OK);
            free(data);
            assert_true(n > 3);
            break;
        }
        assert_int_equal(err, OT_ERR_IO);
        assert_null(data);
    }
}

static enum ot_err write_nothing(
    struct ot_io *io, int fd, const struct iovec *iov, int iov_count, uint64_t pos, size_t *written_out)
{
    (void)io, (void)fd, (void)iov, (void)iov_count, (void)pos;
    *written_out = 0;
    return OT_OK;
}

static void a_file_that_takes_nothing_is_an_error_not_a_loop(void **state)
{
    (void)state;
    const struct ot_io_ops ops = {.pwritev = write_nothing};
    struct ot_io dull = {&ops};
    assert_int_equal(ot_io_write_all(&dull, 3, "x", 1, 0), OT_ERR_IO);
}

static void the_nth_call_of_a_kind_fails_and_only_that(void **state)
{
    (void)state;
    struct ot_io *io = &fault.io;
    int fd = -1, other = -1;
    char byte;
    size_t got;
    ot_io_fault_init(&fault, ot_io_real());
    assert_int_equal(io->ops->open(io, path, OT_IO_WRITE | OT_IO_CREATE, &fd), OT_OK);
    ot_io_fault_at(&fault, OT_IO_CALL_PREAD, 2, OT_ERR_IO);
    assert_int_equal(io->ops->pread(io, fd, &byte, 1, 0, &got), OT_OK);
    assert_int_equal(io->ops->fdatasync(io, fd), OT_OK);
    assert_false(fault.fired);
    assert_int_equal(io->ops->pread(io, fd, &byte, 1, 0, &got), OT_ERR_IO);
    assert_true(fault.fired);
    assert_int_equal(io->ops->pread(io, fd, &byte, 1, 0, &got), OT_OK);
    ot_io_fault_at(&fault, OT_IO_CALL_FDATASYNC, 1, OT_ERR_NO_SPACE);
    fault.sticky = true;
    assert_int_equal(io->ops->fdatasync(io, fd), OT_ERR_NO_SPACE);
    assert_int_equal(io->ops->fdatasync(io, fd), OT_ERR_NO_SPACE);
    assert_int_equal(io->ops->lock(io, temporary, &other), OT_OK);
    assert_int_equal(fault.open_fds, 2);
    void *map = NULL;
    assert_int_equal(io->ops->truncate(io, fd, 4096), OT_OK);
    assert_int_equal(io->ops->map(io, fd, 4096, false, &map), OT_OK);
    assert_int_equal(fault.open_maps, 1);
    io->ops->unmap(io, map, 4096);
    io->ops->close(io, fd);
    io->ops->close(io, other);
    io->ops->close(io, -1);
    assert_int_equal(fault.open_fds, 0);
    assert_int_equal(fault.open_maps, 0);
    assert_string_equal(ot_io_call_name(OT_IO_CALL_LOCK), "lock");
}

static void ignore_entry(void *arg, const struct ot_io_entry *entry)
{
    (void)arg, (void)entry;
}

/* Each kind by itself, so that no function of the table is forgotten or miswired. */
static enum ot_err call(enum ot_io_call kind, int fd)
{
    struct ot_io *io = &fault.io;
    struct ot_io_stat stat;
    struct ot_io_space space;
    const struct iovec iov = {.iov_base = "x", .iov_len = 1};
    int other = -1;
    char byte;
    size_t count;
    void *map = NULL;
    enum ot_err err = OT_OK;
    switch (kind) {
    case OT_IO_CALL_OPEN: err = io->ops->open(io, path, OT_IO_READ, &other); break;
    case OT_IO_CALL_PWRITEV: return io->ops->pwritev(io, fd, &iov, 1, 0, &count);
    case OT_IO_CALL_PREAD: return io->ops->pread(io, fd, &byte, 1, 0, &count);
    case OT_IO_CALL_FDATASYNC: return io->ops->fdatasync(io, fd);
    case OT_IO_CALL_SYNC_DIR: return io->ops->sync_dir(io, dir);
    case OT_IO_CALL_TRUNCATE: return io->ops->truncate(io, fd, 1);
    case OT_IO_CALL_PREALLOCATE: return io->ops->preallocate(io, fd, 0, 4096, true);
    case OT_IO_CALL_FSTAT: return io->ops->fstat(io, fd, &stat);
    case OT_IO_CALL_STAT: return io->ops->stat(io, path, &stat);
    case OT_IO_CALL_RENAME: return io->ops->rename(io, path, path);
    case OT_IO_CALL_MKDIR: return io->ops->mkdir(io, temporary);
    case OT_IO_CALL_RMDIR: return io->ops->rmdir(io, temporary);
    case OT_IO_CALL_LIST: return io->ops->list(io, dir, ignore_entry, NULL);
    case OT_IO_CALL_SPACE: return io->ops->space(io, dir, &space);
    case OT_IO_CALL_MAP: err = io->ops->map(io, fd, 1, false, &map); break;
    case OT_IO_CALL_LOCK: err = io->ops->lock(io, path, &other); break;
    case OT_IO_CALL_SYNC_ALL: err = io->ops->sync_all(io, dir); return err == OT_ERR_NOT_FOUND ? OT_OK : err;      /* not every file system has it */
    case OT_IO_CALL_UNLINK: return io->ops->unlink(io, path);
    default: fail_msg("no such kind: %d", (int)kind);
    }
    io->ops->close(io, other);
    io->ops->unmap(io, map, 1);
    return err;
}

static void every_kind_of_call_can_be_made_to_fail(void **state)
{
    (void)state;
    static const enum ot_io_call order[] = {OT_IO_CALL_OPEN, OT_IO_CALL_PWRITEV, OT_IO_CALL_PREAD, OT_IO_CALL_FDATASYNC,
        OT_IO_CALL_SYNC_DIR, OT_IO_CALL_TRUNCATE, OT_IO_CALL_FSTAT, OT_IO_CALL_STAT, OT_IO_CALL_RENAME, OT_IO_CALL_MKDIR,
        OT_IO_CALL_RMDIR, OT_IO_CALL_LIST, OT_IO_CALL_SPACE, OT_IO_CALL_MAP, OT_IO_CALL_LOCK, OT_IO_CALL_SYNC_ALL, OT_IO_CALL_UNLINK};
    int fd = -1;
    ot_io_fault_init(&fault, ot_io_real());
    assert_int_equal(fault.io.ops->open(&fault.io, path, OT_IO_WRITE | OT_IO_CREATE, &fd), OT_OK);
    for (size_t i = 0; i < OT_ARRAY_COUNT(order); i++) {
        ot_io_fault_at(&fault, order[i], 1, OT_ERR_BUSY);
        assert_int_equal(call(order[i], fd), OT_ERR_BUSY);
        assert_true(fault.fired);
        assert_int_equal(call(order[i], fd), OT_OK); /* and what it passes on is the same call */
        assert_int_equal(fault.counts[order[i]], order[i] == OT_IO_CALL_OPEN ? 3 : 2);
    }
    ot_io_fault_at(&fault, OT_IO_CALL_PREALLOCATE, 1, OT_ERR_BUSY);
    assert_int_equal(call(OT_IO_CALL_PREALLOCATE, fd), OT_ERR_BUSY);
    fault.io.ops->close(&fault.io, fd);
    assert_int_equal(fault.open_fds, 0);
    assert_int_equal(fault.open_maps, 0);
}

static int setup(void **state)
{
    (void)state;
    temp_dir_make(dir, sizeof(dir));
    snprintf(path, sizeof(path), "%s/file", dir);
    snprintf(temporary, sizeof(temporary), "%s.tmp", path);
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
        TEST(a_replaced_file_is_the_old_or_the_new_one_whatever_fails),
        TEST(without_sync_nothing_is_synced),
        TEST(short_reads_and_writes_are_carried_on),
        TEST(a_failed_read_of_a_file_leaks_nothing),
        TEST(a_file_that_takes_nothing_is_an_error_not_a_loop),
        TEST(the_nth_call_of_a_kind_fails_and_only_that),
        TEST(every_kind_of_call_can_be_made_to_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
