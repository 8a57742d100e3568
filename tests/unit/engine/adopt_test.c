/* Taking in a folder: a verified copy, or nothing. */
#include "testing.h"
#include "log_fixture.h"
#include "engine/adopt.h"

static int setup(void **state)
{
    struct fx *fx = malloc(sizeof *fx);
    char command[1500];
    fx_init(fx);
    fx->config.segment_bytes = 10000;
    fx_open(fx, 0, false);
    for (int i = 0; i < 60; i++) {
        fx_append(fx, 1, 500);
        if (i % 20 == 19) fx->epoch++;
    }
    fx_close(fx);
    snprintf(command, sizeof command, "mv %s %s/theirs", fx->path, fx->root);       /* a folder from elsewhere */
    assert_int_equal(system(command), 0);
    ot_log_setup(OT_LOG_ERROR, OT_LOG_TEXT, open("/dev/null", O_WRONLY));
    assert_int_equal(fx_store(fx), OT_OK);
    *state = fx;
    return 0;
}

static int teardown(void **state)
{
    fx_free(*state);
    free(*state);
    return 0;
}

static enum ot_err adopt(struct fx *fx, bool cut, struct eng_adopted *out)
{
    char from[400];
    snprintf(from, sizeof from, "%s/theirs", fx->root);
    struct eng_adopt how = { .from_path = from, .topic = "mine", .partition = 3, .cut_damaged_tail = cut, .wall_ms = FX_NOW };
    return eng_adopt(fx->store, &how, out);
}

static void run(struct fx *fx, const char *format)
{
    char command[1500];
    snprintf(command, sizeof command, "cd %s/theirs && %s", fx->root, format);
    assert_int_equal(system(command), 0);
}

static void open_mine(struct fx *fx)
{
    snprintf(fx->path, sizeof fx->path, "%s/mine-3", fx->dir);
    fx_open(fx, 60, false);
    assert_int_equal(fx_read_all(fx, 0, 60, 1 << 20), 60);
    assert_int_equal(fx_faults(fx), 0);
    assert_int_equal(eng_epochs_latest(eng_log_epochs(fx->log)), 2);
    fx_append(fx, 1, 10);
    fx_close(fx);
}

static uint32_t things_in(struct fx *fx)
{
    char command[500];
    uint32_t count = 0;
    snprintf(command, sizeof command, "ls -d %s/*/ 2>/dev/null | wc -l", fx->dir);
    FILE *pipe = popen(command, "r");
    assert_int_equal(fscanf(pipe, "%u", &count), 1);
    pclose(pipe);
    return count;
}

static void a_sound_folder_comes_in(void **state)
{
    struct fx *fx = *state;
    struct eng_adopted out;
    assert_int_equal(adopt(fx, false, &out), OT_OK);
    assert_int_equal(out.log_end_offset, 60);
    assert_true(out.segments > 2);
    assert_true(ot_uuid_equal(&out.topic_id, &fx->topic_id));
    assert_int_equal(adopt(fx, false, &out), OT_ERR_EXISTS);
    open_mine(fx);
}

static void what_is_missing_is_made_anew(void **state)
{
    struct fx *fx = *state;
    struct eng_adopted out;
    run(fx, "rm -f *.index *.timeindex *.snapshot leader-epoch-checkpoint");
    assert_int_equal(adopt(fx, false, &out), OT_OK);
    assert_true(out.epochs_rebuilt);
    open_mine(fx);
}

static void epochs_begin_anew_when_asked(void **state)
{
    struct fx *fx = *state;
    struct eng_adopted out;
    char from[400];
    snprintf(from, sizeof from, "%s/theirs", fx->root);
    struct eng_adopt how = { .from_path = from, .topic = "mine", .partition = 3, .restart_epochs = true, .wall_ms = FX_NOW };
    assert_int_equal(eng_adopt(fx->store, &how, &out), OT_OK);
    assert_int_equal(out.log_end_offset, 60);
    assert_true(out.epochs_rebuilt);
    snprintf(fx->path, sizeof fx->path, "%s/mine-3", fx->dir);
    fx_open(fx, 60, false);
    assert_int_equal(fx_read_all(fx, 0, 60, 1 << 20), 60);
    assert_int_equal(fx_faults(fx), 0);
    assert_int_equal(eng_epochs_latest(eng_log_epochs(fx->log)), 0);
    fx->epoch = 0;                                 /* what a new topic begins with: it would fall, were the old ones kept */
    fx_append(fx, 1, 10);
    fx_close(fx);
}

static void damage_is_refused_and_leaves_nothing(void **state)
{
    struct fx *fx = *state;
    struct eng_adopted out;
    run(fx, "printf '\\377\\377' | dd of=00000000000000000000.log bs=1 seek=700 conv=notrunc 2>/dev/null");
    assert_int_equal(adopt(fx, false, &out), OT_ERR_CORRUPT);
    assert_non_null(strstr(out.text, "offset 1"));
    assert_int_equal(things_in(fx), 0);
}

static void a_torn_end_is_cut_only_when_asked(void **state)
{
    struct fx *fx = *state;
    struct eng_adopted out;
    run(fx, "f=$(ls *.log | tail -1); truncate -s -10 $f");
    assert_int_equal(adopt(fx, false, &out), OT_ERR_CORRUPT);
    assert_int_equal(things_in(fx), 0);
    assert_int_equal(adopt(fx, true, &out), OT_OK);
    assert_int_equal(out.log_end_offset, 59);
    assert_true(out.cut_bytes > 0);
}

static void an_unfinished_compaction_or_no_log_is_refused(void **state)
{
    struct fx *fx = *state;
    struct eng_adopted out;
    run(fx, "touch 00000000000000000000.log.swap");
    assert_int_equal(adopt(fx, false, &out), OT_ERR_MISMATCH);
    run(fx, "rm -f *.swap *.log");
    assert_int_equal(adopt(fx, false, &out), OT_ERR_NOT_FOUND);
    assert_int_equal(things_in(fx), 0);
}

static void every_disk_call_fails_once_and_leaves_all_or_nothing(void **state)
{
    struct fx *fx = *state;
    struct eng_adopted out;
    char command[500];
    for (uint64_t n = 1; n < 5000; n++) {
        ot_io_fault_at(&fx->fault, OT_IO_CALL_ANY, n, OT_ERR_IO);
        enum ot_err err = adopt(fx, false, &out);
        bool fired = fx->fault.fired;
        ot_io_fault_at(&fx->fault, OT_IO_CALL_ANY, 0, OT_OK);
        assert_true(fired || err == OT_OK);
        if (err == OT_OK) assert_int_equal(things_in(fx), 1);
        if (!fired) return;
        snprintf(command, sizeof command, "rm -rf %s/*-3*", fx->dir);
        assert_int_equal(system(command), 0);
    }
    fail_msg("it never ended");
}

#define ADOPT_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

TEST_MAIN(
    ADOPT_TEST(a_sound_folder_comes_in),
    ADOPT_TEST(what_is_missing_is_made_anew),
    ADOPT_TEST(epochs_begin_anew_when_asked),
    ADOPT_TEST(damage_is_refused_and_leaves_nothing),
    ADOPT_TEST(a_torn_end_is_cut_only_when_asked),
    ADOPT_TEST(an_unfinished_compaction_or_no_log_is_refused),
    ADOPT_TEST(every_disk_call_fails_once_and_leaves_all_or_nothing))
