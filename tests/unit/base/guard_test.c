#include "testing.h"

#include "base/io.h"
#include <pthread.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

/* A map of two pages over a file that then shrinks to one. */
static uint8_t *map_over_cut_file(int *fd_out)
{
    const int fd = memfd_create("cut", 0);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 2 * PAGE), 0);
    uint8_t *map = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(map, MAP_FAILED);
    memset(map, 7, 2 * PAGE);
    assert_int_equal(ftruncate(fd, PAGE), 0);
    *fd_out = fd;
    return map;
}

static void a_copy_from_or_to_a_file_that_was_cut_is_an_error(void **state)
{
    (void)state;
    int fd;
    uint8_t *map = map_over_cut_file(&fd), data[2 * PAGE];
    ot_guard_install();
    for (int i = 0; i < 3; i++) { /* again: the handler is still there and nothing is left blocked */
        assert_int_equal(ot_guarded_copy(data, map, PAGE), OT_OK);
        assert_int_equal(data[PAGE - 1], 7);
        assert_int_equal(ot_guarded_copy(data, map, 2 * PAGE), OT_ERR_IO);
        assert_int_equal(ot_guarded_copy(data, map + PAGE, 1), OT_ERR_IO);
        assert_int_equal(ot_guarded_copy(map + PAGE, data, 100), OT_ERR_IO);
        assert_int_equal(ot_guarded_copy(map, data, PAGE), OT_OK);
        assert_int_equal(ot_guarded_copy(data, map, 0), OT_OK);
    }
    munmap(map, 2 * PAGE);
    close(fd);
}

static void *copy_often(void *arg)
{
    uint8_t data[2 * PAGE];
    uintptr_t errors = 0;
    for (int i = 0; i < 200; i++) errors += ot_guarded_copy(data, arg, i % 2 ? PAGE : 2 * PAGE) == OT_ERR_IO;
    return (void *)errors;
}

static void threads_fault_each_for_itself(void **state)
{
    (void)state;
    int fd;
    uint8_t *map = map_over_cut_file(&fd);
    pthread_t threads[4];
    ot_guard_install();
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, copy_often, map), 0);
    for (int i = 0; i < 4; i++) {
        void *errors = NULL;
        pthread_join(threads[i], &errors);
        assert_int_equal((uintptr_t)errors, 100);
    }
    munmap(map, 2 * PAGE);
    close(fd);
}

static void any_other_fault_still_ends_the_process(void **state)
{
    (void)state;
    int fd, status = 0;
    uint8_t *map = map_over_cut_file(&fd);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stderr) == NULL) _exit(3);
        signal(SIGBUS, SIG_DFL); /* not the test program's own handler */
        ot_guard_install();
        _exit(*(volatile uint8_t *)(map + PAGE));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    munmap(map, 2 * PAGE);
    close(fd);
}

TEST_MAIN(cmocka_unit_test(any_other_fault_still_ends_the_process),
    cmocka_unit_test(a_copy_from_or_to_a_file_that_was_cut_is_an_error), cmocka_unit_test(threads_fault_each_for_itself))
