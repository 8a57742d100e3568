#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/epochs.h"
#include "base/io_fault.h"
#include "base/util.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct bench { char dir[256], file[300]; struct eng_epochs *epochs; };

static int setup(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);
    assert_non_null(bench);
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(bench->dir, sizeof bench->dir, "%s/epochs-XXXXXX", tmp == NULL ? "/tmp" : tmp);
    assert_non_null(mkdtemp(bench->dir));
    (void)snprintf(bench->file, sizeof bench->file, "%s/leader-epoch-checkpoint", bench->dir);
    assert_int_equal(eng_epochs_open(ot_io_real(), bench->dir, &bench->epochs), OT_OK);
    *state = bench;
    return 0;
}

static int teardown(void **state)
{
    struct bench *bench = *state;
    eng_epochs_close(bench->epochs);
    (void)unlink(bench->file);
    (void)rmdir(bench->dir);
    free(bench);
    return 0;
}

static void reopen(struct bench *bench, enum ot_err expected)
{
    eng_epochs_close(bench->epochs);
    assert_int_equal(eng_epochs_open(ot_io_real(), bench->dir, &bench->epochs), expected);
    assert_non_null(bench->epochs);
}

static void assign(struct bench *bench, int32_t epoch, int64_t start)
{
    assert_int_equal(eng_epochs_assign(bench->epochs, epoch, start), OT_OK);
}

static void file_is(struct bench *bench, const char *text)
{
    char *data;
    size_t bytes;
    assert_int_equal(ot_io_read_file(ot_io_real(), bench->file, 4096, &data, &bytes), OT_OK);
    assert_string_equal(data, text);
    free(data);
}

static void file_write(struct bench *bench, const char *text)
{
    assert_int_equal(ot_io_replace_file(ot_io_real(), bench->file, text, strlen(text), false), OT_OK);
}

static void end_is(struct bench *bench, int32_t asked, int32_t epoch, int64_t end)
{
    struct eng_epoch_end got = eng_epochs_end(bench->epochs, asked, 100);
    assert_int_equal(got.epoch, epoch);
    assert_int_equal(got.end_offset, end);
}

static void an_empty_history_knows_nothing_and_has_no_file(void **state)
{
    struct bench *bench = *state;
    assert_int_equal(eng_epochs_latest(bench->epochs), -1);
    assert_int_equal(eng_epochs_for_offset(bench->epochs, 0), -1);
    end_is(bench, 0, -1, -1);
    assert_int_not_equal(access(bench->file, F_OK), 0);
}

static void the_file_is_kafkas_text(void **state)
{
    struct bench *bench = *state;
    assign(bench, 0, 0);
    assign(bench, 3, 1587);
    assign(bench, 3, 2000);
    file_is(bench, "0\n2\n0 0\n3 1587\n");
    reopen(bench, OT_OK);
    assert_int_equal(eng_epochs_latest(bench->epochs), 3);
    assert_int_equal(eng_epochs_for_offset(bench->epochs, 1586), 0);
    assert_int_equal(eng_epochs_for_offset(bench->epochs, 1587), 3);
}

static void an_epoch_without_records_gives_way(void **state)
{
    struct bench *bench = *state;
    assign(bench, 1, 10);
    assign(bench, 2, 20);
    assign(bench, 4, 20);
    file_is(bench, "0\n2\n1 10\n4 20\n");
    assign(bench, 5, 5);
    file_is(bench, "0\n1\n5 5\n");
}

static void a_falling_epoch_is_refused(void **state)
{
    struct bench *bench = *state;
    assign(bench, 4, 10);
    assert_int_equal(eng_epochs_assign(bench->epochs, 3, 20), OT_ERR_FENCED_LEADER_EPOCH);
    assert_int_equal(eng_epochs_assign(bench->epochs, -1, 20), OT_ERR_MALFORMED);
    file_is(bench, "0\n1\n4 10\n");
}

static void the_end_of_an_epoch_is_the_start_of_the_next(void **state)
{
    struct bench *bench = *state;
    assign(bench, 2, 10);
    assign(bench, 4, 30);
    assign(bench, 7, 60);
    end_is(bench, 2, 2, 30);
    end_is(bench, 3, 2, 30);
    end_is(bench, 4, 4, 60);
    end_is(bench, 6, 4, 60);
    end_is(bench, 7, 7, 100);
    end_is(bench, 8, -1, -1);
    end_is(bench, -1, -1, -1);
    end_is(bench, 1, 1, 10);               /* gone from the log: what is asked ends where the log begins */
}

static void truncating_the_end_drops_what_starts_there(void **state)
{
    struct bench *bench = *state;
    assign(bench, 2, 10);
    assign(bench, 4, 30);
    assign(bench, 7, 60);
    assert_int_equal(eng_epochs_truncate_end(bench->epochs, 61, true), OT_OK);
    assert_int_equal(eng_epochs_latest(bench->epochs), 7);
    assert_int_equal(eng_epochs_truncate_end(bench->epochs, 60, true), OT_OK);
    file_is(bench, "0\n2\n2 10\n4 30\n");
    assert_int_equal(eng_epochs_truncate_end(bench->epochs, 0, false), OT_OK);
    file_is(bench, "0\n0\n");
    reopen(bench, OT_OK);
    assert_int_equal(eng_epochs_latest(bench->epochs), -1);
}

static void truncating_the_start_moves_the_first_entry(void **state)
{
    struct bench *bench = *state;
    assign(bench, 2, 10);
    assign(bench, 4, 30);
    assign(bench, 7, 60);
    assert_int_equal(eng_epochs_truncate_start(bench->epochs, 5), OT_OK);
    file_is(bench, "0\n3\n2 10\n4 30\n7 60\n");
    assert_int_equal(eng_epochs_truncate_start(bench->epochs, 45), OT_OK);
    file_is(bench, "0\n2\n4 45\n7 60\n");
    assert_int_equal(eng_epochs_truncate_start(bench->epochs, 60), OT_OK);
    file_is(bench, "0\n1\n7 60\n");
    assert_int_equal(eng_epochs_truncate_start(bench->epochs, 99), OT_OK);
    file_is(bench, "0\n1\n7 99\n");
}

static void a_damaged_file_is_named_and_can_be_replaced(void **state)
{
    struct bench *bench = *state;
    static const char *const bad[] = { "", "0", "0\n", "1\n0\n", "0\n1\n", "0\n2\n0 0\n", "0\n1\n0 0", "0\n1\n0  0\n", "0\n1\n-1 0\n", "0\n1\n0 -1\n",
        "0\n2\n0 0\n0 5\n", "0\n2\n0 0\n1 0\n", "0\n2\n3 0\n1 5\n", "0\n0\n0 0\n", "0\n1\n2147483648 0\n", "0\n1\n0 9223372036854775808\n",
        "0\n99999999999999999999\n", "x\n", "0\n1\n0 0\n\n" };
    for (size_t i = 0; i < OT_ARRAY_COUNT(bad); i++) {
        file_write(bench, bad[i]);
        reopen(bench, OT_ERR_CORRUPT);
        assert_int_equal(eng_epochs_latest(bench->epochs), -1);
    }
    struct eng_epoch_end starts[] = { { 1, 0 }, { 2, 7 } };
    assert_int_equal(eng_epochs_replace(bench->epochs, starts, 2), OT_OK);
    reopen(bench, OT_OK);
    assert_int_equal(eng_epochs_for_offset(bench->epochs, 6), 1);
    starts[1].end_offset = 0;
    assert_int_equal(eng_epochs_replace(bench->epochs, starts, 2), OT_ERR_MALFORMED);
    file_write(bench, "0\n2\n0 0\n2147483647 9223372036854775807\n");
    reopen(bench, OT_OK);
    struct eng_epoch_end listed[2];
    assert_int_equal(eng_epochs_list(bench->epochs, listed, 2), 2);
    assert_int_equal(listed[1].epoch, INT32_MAX);
    assert_int_equal(listed[1].end_offset, INT64_MAX);
}

static void a_failed_write_leaves_the_history_as_it_was(void **state)
{
    struct bench *bench = *state;
    assign(bench, 1, 0);
    char away[300];
    (void)snprintf(away, sizeof away, "%s-away", bench->dir);
    assert_int_equal(rename(bench->dir, away), 0);
    assert_int_not_equal(eng_epochs_assign(bench->epochs, 2, 5), OT_OK);
    assert_int_not_equal(eng_epochs_truncate_end(bench->epochs, 0, true), OT_OK);
    assert_int_equal(eng_epochs_latest(bench->epochs), 1);
    assert_int_equal(rename(away, bench->dir), 0);
    assign(bench, 2, 5);
}

/* Every call to the disk fails once: the change is refused whole and can be made again. */
static void each_failing_call_leaves_memory_and_disk_usable(void **state)
{
    struct bench *bench = *state;
    struct ot_io_fault fault;
    uint64_t at = 1;
    eng_epochs_close(bench->epochs);
    ot_io_fault_init(&fault, ot_io_real());
    assert_int_equal(eng_epochs_open(&fault.io, bench->dir, &bench->epochs), OT_OK);
    for (int32_t epoch = 1;; epoch++, at++) {
        ot_io_fault_at(&fault, OT_IO_CALL_ANY, at, OT_ERR_IO);
        int32_t before = epoch == 1 ? -1 : epoch - 1;
        enum ot_err err = eng_epochs_assign(bench->epochs, epoch, epoch * 10);
        assert_int_equal(eng_epochs_latest(bench->epochs), err == OT_OK ? epoch : before);
        assert_int_equal(fault.open_fds, 0);
        if (!fault.fired) break;
        assert_int_equal(err, OT_ERR_IO);
        ot_io_fault_at(&fault, OT_IO_CALL_ANY, 0, OT_OK);
        reopen(bench, OT_OK);              /* what is on the disk is one of the two */
        int32_t latest = eng_epochs_latest(bench->epochs);
        assert_true(latest == epoch || latest == before);
        eng_epochs_close(bench->epochs);
        assert_int_equal(eng_epochs_open(&fault.io, bench->dir, &bench->epochs), OT_OK);
        assert_int_equal(eng_epochs_assign(bench->epochs, epoch, epoch * 10), OT_OK);
    }
    assert_true(at > 4);
}

struct racing { struct eng_epochs *epochs; _Atomic bool done; };

static void *race_reader(void *arg)
{
    struct racing *racing = arg;
    struct eng_epoch_end listed[64];
    while (!atomic_load(&racing->done)) {
        uint32_t count = eng_epochs_list(racing->epochs, listed, 64);
        for (uint32_t i = 1; i < count && i < 64; i++) {
            if (listed[i].epoch <= listed[i - 1].epoch || listed[i].end_offset <= listed[i - 1].end_offset) return racing;
        }
        struct eng_epoch_end end = eng_epochs_end(racing->epochs, 5, 1000);
        if (end.epoch > 5 || end.end_offset > 1000) return racing;
    }
    return NULL;
}

static void readers_beside_changes_see_whole_histories(void **state)
{
    struct bench *bench = *state;
    struct racing racing = { bench->epochs, false };
    pthread_t readers[2];
    void *wrong;
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&readers[i], NULL, race_reader, &racing), 0);
    for (int32_t epoch = 0; epoch < 60; epoch++) {
        assign(bench, epoch, epoch * 10);
        if (epoch % 7 == 6) assert_int_equal(eng_epochs_truncate_start(bench->epochs, epoch * 5), OT_OK);
        if (epoch % 9 == 8) assert_int_equal(eng_epochs_truncate_end(bench->epochs, epoch * 10, false), OT_OK);
    }
    atomic_store(&racing.done, true);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(readers[i], &wrong), 0);
        assert_null(wrong);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        T(an_empty_history_knows_nothing_and_has_no_file), T(the_file_is_kafkas_text), T(an_epoch_without_records_gives_way), T(a_falling_epoch_is_refused),
        T(the_end_of_an_epoch_is_the_start_of_the_next), T(truncating_the_end_drops_what_starts_there),
        T(truncating_the_start_moves_the_first_entry), T(a_damaged_file_is_named_and_can_be_replaced), T(a_failed_write_leaves_the_history_as_it_was),
        T(each_failing_call_leaves_memory_and_disk_usable), T(readers_beside_changes_see_whole_histories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
