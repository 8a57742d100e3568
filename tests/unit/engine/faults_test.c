/* By counter, every call to the disk and every allocation is made to fail once: no crash, nothing that was flushed is lost, and the log opens again. */
#include "testing.h"
#include "log_fixture.h"

/* Allocations of the code under test are counted while `failing.armed`; the sanitizers have their own allocator, so there this part is left out. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CAN_FAIL_MALLOC 1
static struct { bool armed, fired; uint64_t seen, at; } failing;
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *old, size_t bytes);
static bool fails(void)
{
    if (!failing.armed || ++failing.seen != failing.at) return false;
    failing.fired = true;
    return true;
}
void *malloc(size_t bytes) { return fails() ? NULL : __libc_malloc(bytes); }
void *calloc(size_t count, size_t bytes) { return fails() ? NULL : __libc_calloc(count, bytes); }
void *realloc(void *old, size_t bytes) { return fails() ? NULL : __libc_realloc(old, bytes); }
#else
#define CAN_FAIL_MALLOC 0
static struct { bool armed, fired; uint64_t seen, at; } failing;
#endif

static int setup(void **state)
{
    struct fx *fx = malloc(sizeof *fx);
    fx_init(fx);
    fx->config.segment_bytes = 4000;
    fx->config.index_interval_bytes = 500;
    ot_log_setup(OT_LOG_ERROR, OT_LOG_TEXT, open("/dev/null", O_WRONLY));
    *state = fx;
    return 0;
}

static int teardown(void **state)
{
    fx_free(*state);
    free(*state);
    return 0;
}

#define BATCHES 24
static struct fx_batch made[2][BATCHES * 2];   /* built before anything fails */

static void append_some(struct fx *fx, int epoch_slot, int count, int64_t *acked)
{
    for (int i = 0; i < count; i++) {
        uint32_t appended = 0;
        int64_t flushed = 0, end = eng_log_end_offset(fx->log);
        if (end >= BATCHES * 2) return;
        struct fx_batch *batch = &made[epoch_slot][end];
        if (eng_log_fits(fx->log, &batch->append, 1, FX_NOW) == 0 && eng_log_roll(fx->log, NULL, FX_NOW) != OT_OK) continue;
        if (eng_log_append(fx->log, &batch->append, 1, FX_NOW, &appended) != OT_OK) continue;
        assert_int_equal(eng_log_end_offset(fx->log), end + 1);
        if (i % 3 == 2 && eng_log_flush(fx->log, &flushed) == OT_OK) *acked = flushed;
    }
}

/* A life of a log; errors are borne, promises are kept count of. */
static void live(struct fx *fx, int64_t *acked)
{
    struct eng_retained retained;
    struct eng_read_result result;
    struct eng_time_offset at;
    *acked = 0;
    if (fx_try_open(fx, 0, 0, false) != OT_OK) return;
    append_some(fx, 0, BATCHES, acked);
    struct eng_read how = { .offset = 1, .limit_offset = *acked, .max_bytes = 3000, .min_one = true, .may_block = true };
    if (eng_log_read(fx->log, &how, &result) == OT_OK && result.pin != NULL) {
        *acked = OT_MIN(*acked, 10);
        ot_ignore(eng_log_truncate(fx->log, 10, FX_NOW), "either way");
        result.pin->release(result.pin);
    }
    *acked = OT_MIN(*acked, 7);
    ot_ignore(eng_log_truncate(fx->log, 7, FX_NOW), "either way");
    if (!eng_log_read_only(fx->log)) append_some(fx, 1, 12, acked);
    ot_ignore(eng_log_for_time(fx->log, FX_NOW + 5, INT64_MAX, &at), "either way");
    ot_ignore(eng_log_max_timestamp(fx->log, &at), "either way");
    eng_log_set_start(fx->log, 5);
    ot_ignore(eng_log_retain(fx->log, *acked, FX_NOW, &retained), "either way");
    enum ot_err err = eng_log_close(fx->log, true);
    ot_ignore(err, "either way");
    fx->log = NULL;
}

/* The disk is well again, the process starts anew: without and with the word of a clean close. */
static void come_back(struct fx *fx, int64_t acked)
{
    eng_store_close(fx->store);
    fx->store = NULL;
    assert_int_equal(fx->fault.open_fds, 0);
    assert_int_equal(fx->fault.open_maps, 0);
    enum ot_err err = fx_try_open(fx, 0, 0, false);
    if (err != OT_OK) fail_msg("opens with %s", ot_err_name(err));
    assert_true(eng_log_end_offset(fx->log) >= acked);
    assert_true(eng_log_start_offset(fx->log) <= OT_MAX(acked, 5));
    if (eng_log_end_offset(fx->log) > eng_log_start_offset(fx->log)) {
        int64_t start = eng_log_start_offset(fx->log), end = eng_log_end_offset(fx->log);
        assert_int_equal(fx_read_all(fx, start, end, 1000), end - start);
    }
    assert_int_equal(fx_faults(fx), 0);
    if (eng_log_end_offset(fx->log) < BATCHES) {
        int64_t end = eng_log_end_offset(fx->log);
        append_some(fx, 1, 1, &acked);
        assert_int_equal(eng_log_end_offset(fx->log), end + 1);
    }
    assert_int_equal(eng_log_delete(fx->log), OT_OK);
    fx->log = NULL;
    eng_store_close(fx->store);
    fx->store = NULL;
    temp_dir_remove(fx->dir);
}

static void make_batches(struct fx *fx)
{
    for (int slot = 0; slot < 2; slot++) {
        fx->epoch = slot;
        fx->next_timestamp = FX_NOW;
        for (int i = 0; i < BATCHES * 2; i++) made[slot][i] = fx_batch(fx, i, 1, 400);
    }
    fx->epoch = 0;
}

static void free_batches(void)
{
    for (int slot = 0; slot < 2; slot++)
        for (int i = 0; i < BATCHES * 2; i++) eng_sink_free(&made[slot][i].sink);
}

static void every_call_fails_once(struct fx *fx, enum ot_err err, bool sticky)
{
    make_batches(fx);
    for (uint64_t n = 1; n < 5000; n++) {
        int64_t acked = 0;
        ot_io_fault_at(&fx->fault, OT_IO_CALL_ANY, n, err);
        fx->fault.sticky = sticky;
        live(fx, &acked);
        bool fired = fx->fault.fired;
        ot_io_fault_at(&fx->fault, OT_IO_CALL_ANY, 0, OT_OK);
        come_back(fx, acked);
        if (!fired) {
            assert_true(n > 100);
            assert_true(acked > 7);
            free_batches();
            return;
        }
    }
    fail_msg("it never ended");
}

static void every_disk_call_fails_once_with_an_io_error(void **state) { every_call_fails_once(*state, OT_ERR_IO, false); }
static void every_disk_call_fails_once_with_a_full_disk(void **state) { every_call_fails_once(*state, OT_ERR_NO_SPACE, false); }
static void every_transfer_is_short_once(void **state) { every_call_fails_once(*state, OT_OK, false); }
static void the_disk_dies_at_every_call(void **state) { every_call_fails_once(*state, OT_ERR_IO, true); }
static void mapped_every_disk_call_fails_once(void **state)
{
    struct fx *fx = *state;
    fx->config.append_io = ENG_APPEND_MMAP;
    every_call_fails_once(fx, OT_ERR_IO, false);
}

static void every_allocation_fails_once(void **state)
{
    struct fx *fx = *state;
    if (!CAN_FAIL_MALLOC) skip();
    make_batches(fx);
    for (uint64_t n = 1; n < 20000; n++) {
        int64_t acked = 0;
        failing.seen = 0;
        failing.at = n;
        failing.fired = false;
        failing.armed = true;
        live(fx, &acked);
        failing.armed = false;
        come_back(fx, acked);
        if (!failing.fired) {
            assert_true(n > 20);
            free_batches();
            return;
        }
    }
    fail_msg("it never ended");
}

#define LOG_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

TEST_MAIN(
    LOG_TEST(every_disk_call_fails_once_with_an_io_error),
    LOG_TEST(every_disk_call_fails_once_with_a_full_disk),
    LOG_TEST(every_transfer_is_short_once),
    LOG_TEST(the_disk_dies_at_every_call),
    LOG_TEST(mapped_every_disk_call_fails_once),
    LOG_TEST(every_allocation_fails_once))
