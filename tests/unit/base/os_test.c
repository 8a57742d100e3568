#include "testing.h"

#include "base/os.h"
#include "base/util.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

static void the_boot_id_is_the_same_twice(void **state)
{
    (void)state;
    char a[37], b[37];
    assert_int_equal(ot_os_boot_id(a), OT_OK);
    assert_int_equal(ot_os_boot_id(b), OT_OK);
    assert_int_equal(strlen(a), 36);
    assert_int_equal(strspn(a, "0123456789abcdef-"), 36);
    assert_string_equal(a, b);
}

static void the_mount_of_a_folder_is_that_of_what_is_in_it(void **state)
{
    (void)state;
    char dir[200], a[OT_OS_MOUNT_BYTES], b[OT_OS_MOUNT_BYTES], other[OT_OS_MOUNT_BYTES], inside[300];
    temp_dir_make(dir, sizeof(dir));
    snprintf(inside, sizeof(inside), "%s/file", dir);
    const int fd = open(inside, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(ot_os_mount_id(dir, a), OT_OK);
    assert_int_equal(ot_os_mount_id(inside, b), OT_OK);
    assert_string_equal(a, b);
    assert_int_equal(ot_os_mount_id("/proc", other), OT_OK);
    assert_string_not_equal(a, other);
    temp_dir_remove(dir);
    assert_int_equal(ot_os_mount_id(inside, b), OT_ERR_NOT_FOUND);
}

static void the_process_tells_what_it_uses(void **state)
{
    (void)state;
    struct ot_os_process before, after;
    ot_os_process(&before);
    assert_true(before.resident_bytes > 100000 && before.virtual_bytes >= before.resident_bytes);
    assert_true(before.threads >= 1);
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(before.fds_max, limit.rlim_cur);
    assert_true(before.open_fds >= 3);
    const int64_t now_ms = ot_clock_wall_ms();
    assert_true(before.started_wall_ms <= now_ms + 1000 && before.started_wall_ms > now_ms - 3600000);
    const int fd = memfd_create("one", 0);
    const size_t bytes = 32 << 20;
    uint8_t *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    memset(memory, 1, bytes);
    uint32_t crc = 0;
    for (int i = 0; i < 10; i++) crc = ot_crc32c_portable(crc, memory, bytes);
    assert_int_not_equal(crc, 0);
    ot_os_process(&after);
    assert_int_equal(after.open_fds, before.open_fds + 1);
    assert_true(after.resident_bytes >= before.resident_bytes + bytes / 2);
    assert_true(after.cpu_us > before.cpu_us);
    munmap(memory, bytes);
    close(fd);
}

TEST_MAIN(cmocka_unit_test(the_boot_id_is_the_same_twice), cmocka_unit_test(the_mount_of_a_folder_is_that_of_what_is_in_it),
    cmocka_unit_test(the_process_tells_what_it_uses))
