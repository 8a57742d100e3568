/* The coordinator's driver with real threads: snapshots under way, failing disks, closing in the middle. */
#include "testing.h"

#include "base/io_fault.h"
#include "base/log.h"
#include "base/util.h"
#include "broker/coordinator_inner.h"
#include <pthread.h>

enum { ASKS = 64 };
struct bench {
    char root[256], dir[300];
    struct ot_exec_pool *io;
    struct ot_exec_thread *thread;
    struct ot_io_fault fault;
    struct broker_coordinator *coordinator;
    pthread_mutex_t mutex; pthread_cond_t changed;
    bool leading; enum ot_err halted;
    int64_t applied_version; uint64_t applied_hash;
    bool hold;                                 /* keep the batch of the next state open until let_go */
    struct broker_batch *held;
    struct broker_ask asks[ASKS]; uint32_t answered, answered_ok, answered_early;
    char text[400];
};

static void signal_bench(struct bench *bench) { pthread_cond_broadcast(&bench->changed); }

static void hook_applied(void *arg, const struct coord_value *value, struct ot_blob delta, bool whole, struct broker_batch *batch)
{
    struct bench *bench = arg;
    (void)delta;
    assert_false(whole);
    pthread_mutex_lock(&bench->mutex);
    assert_true(value->stamp.version > bench->applied_version);
    bench->applied_version = value->stamp.version;
    bench->applied_hash = value->state_hash;
    if (bench->hold) {
        broker_batch_add(batch);
        bench->held = batch;
        bench->hold = false;
    }
    pthread_mutex_unlock(&bench->mutex);
}

static void hook_role(void *arg, bool leading, int32_t leader, int32_t term)
{
    struct bench *bench = arg;
    (void)leader, (void)term;
    pthread_mutex_lock(&bench->mutex);
    bench->leading |= leading;
    signal_bench(bench);
    pthread_mutex_unlock(&bench->mutex);
}

static void hook_halted(void *arg, enum ot_err err, const char *text)
{
    struct bench *bench = arg;
    (void)text;
    pthread_mutex_lock(&bench->mutex);
    bench->halted = err;
    signal_bench(bench);
    pthread_mutex_unlock(&bench->mutex);
}

static void hook_closing(void *arg) { (void)arg; }

static struct bench *the_bench;                /* asks find it here: they lie in an array */
static void bench_answered(struct broker_ask *ask)
{
    struct bench *bench = the_bench;
    pthread_mutex_lock(&bench->mutex);
    bench->answered++;
    bench->answered_ok += ask->request.error == OT_OK;
    bench->answered_early += ask->request.error == OT_OK && ask->request.version > bench->applied_version;
    signal_bench(bench);
    pthread_mutex_unlock(&bench->mutex);
}

static int setup(void **state)
{
    struct bench *bench = the_bench = calloc(1, sizeof *bench);
    temp_dir_make(bench->root, sizeof bench->root);
    snprintf(bench->dir, sizeof bench->dir, "%s/meta", bench->root);
    pthread_mutex_init(&bench->mutex, NULL);
    pthread_cond_init(&bench->changed, NULL);
    ot_io_fault_init(&bench->fault, ot_io_real());
    ot_log_set_level(NULL, OT_LOG_ERROR);
    *state = bench;
    return ot_exec_pool_start("io", 2, &bench->io) == OT_OK && ot_exec_thread_start("coord", &bench->thread) == OT_OK ? 0 : -1;
}

static void close_bench(struct bench *bench)
{
    broker_coordinator_close(bench->coordinator);
    bench->coordinator = NULL;
}

static int teardown(void **state)
{
    struct bench *bench = *state;
    close_bench(bench);
    ot_exec_thread_stop(bench->thread);
    ot_exec_pool_stop(bench->io);
    temp_dir_remove(bench->root);
    free(bench);
    return 0;
}

static void wait_until(struct bench *bench, const bool *fact, const enum ot_err *or_error, uint32_t or_answered)
{
    pthread_mutex_lock(&bench->mutex);
    while (!(fact != NULL && *fact) && !(or_error != NULL && *or_error != OT_OK) && !(or_answered > 0 && bench->answered >= or_answered)) {
        pthread_cond_wait(&bench->changed, &bench->mutex);
    }
    pthread_mutex_unlock(&bench->mutex);
}

static void open_bench(struct bench *bench)
{
    struct broker_coordinator_setup how = { .io = &bench->fault.io, .exec = ot_exec_thread_exec(bench->thread), .io_exec = ot_exec_pool_exec(bench->io),
        .dir = bench->dir, .pages_bytes_max = 32 << 20, .hooks = { bench, hook_applied, hook_role, hook_halted, hook_closing } };
    struct coord_config config = { .node_id = 1, .dir_id = { { 1 } }, .cluster_id = ot_str_of("bench"), .min_isr_default = 1, .partitions_max = 100000,
        .brokers_max = 8, .delta_bytes_max = 1 << 20, .snapshot_after_bytes = 128 << 10 };
    bench->leading = false;
    bench->halted = OT_OK;
    bench->applied_version = 0;
    if (broker_coordinator_load(&how, &bench->coordinator, bench->text, sizeof bench->text) != OT_OK
        || broker_coordinator_start(bench->coordinator, &config, 9, bench->text, sizeof bench->text) != OT_OK) {
        fail_msg("%s", bench->text);
    }
    wait_until(bench, &bench->leading, &bench->halted, 0);
}

/* A producer-id block each: needs no broker, changes the cluster row. */
static void ask_many(struct bench *bench, uint32_t count)
{
    bench->answered = bench->answered_ok = 0;
    for (uint32_t i = 0; i < count; i++) {
        bench->asks[i] = (struct broker_ask){ .request = { .ask = COORD_ASK_PRODUCER_IDS, .if_version = -1, .u.producer_ids = { 10 } }, .answered = bench_answered };
        broker_coordinator_ask(bench->coordinator, &bench->asks[i]);
    }
}

static int64_t next_id(struct bench *bench)
{
    ask_many(bench, 1);
    wait_until(bench, NULL, NULL, 1);
    assert_int_equal(bench->asks[0].request.error, OT_OK);
    return bench->asks[0].request.producer_id_first;
}

static void snapshots_under_load_lose_nothing(void **state)
{
    struct bench *bench = *state;
    open_bench(bench);
    int64_t last = next_id(bench);
    for (int round = 0; round < 150; round++) {
        ask_many(bench, 3);
        wait_until(bench, NULL, NULL, 3);
        assert_int_equal(bench->answered_ok, 3);
    }
    assert_int_equal(bench->answered_early, 0);
    uint64_t renames = bench->fault.counts[OT_IO_CALL_RENAME];
    assert_true(renames >= 4);                 /* two for each snapshot: the file, the journal */
    last = next_id(bench);
    uint64_t hash = bench->applied_hash;
    close_bench(bench);
    open_bench(bench);
    assert_true(bench->applied_hash == hash);
    assert_int_equal(next_id(bench), last + 10);
}

static void closing_in_the_middle_answers_everybody(void **state)
{
    struct bench *bench = *state;
    open_bench(bench);
    for (int round = 0; round < 20; round++) {
        ask_many(bench, ASKS);
        close_bench(bench);
        assert_int_equal(bench->answered, ASKS);
        open_bench(bench);
    }
}

static void a_failed_sync_halts_and_answers_closed(void **state)
{
    struct bench *bench = *state;
    open_bench(bench);
    int64_t last = next_id(bench);
    ot_io_fault_at(&bench->fault, OT_IO_CALL_FDATASYNC, 1, OT_ERR_IO);
    ask_many(bench, 8);
    wait_until(bench, NULL, NULL, 8);
    assert_int_equal(bench->halted, OT_ERR_IO);
    assert_int_equal(bench->answered_ok, 0);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(bench->asks[i].request.error, OT_ERR_CLOSED);
    }
    ask_many(bench, 1);
    wait_until(bench, NULL, NULL, 1);
    assert_int_equal(bench->asks[0].request.error, OT_ERR_CLOSED);
    close_bench(bench);
    ot_io_fault_at(&bench->fault, OT_IO_CALL_ANY, 0, OT_OK);
    open_bench(bench);
    assert_true(next_id(bench) > last);        /* what was not answered may have happened; nothing is given twice */
}

static void a_full_disk_refuses_and_recovers(void **state)
{
    struct bench *bench = *state;
    open_bench(bench);
    int64_t last = next_id(bench);
    ot_io_fault_at(&bench->fault, OT_IO_CALL_PWRITEV, 1, OT_ERR_NO_SPACE);
    ask_many(bench, 1);
    wait_until(bench, NULL, NULL, 1);
    assert_int_equal(bench->asks[0].request.error, OT_ERR_NO_SPACE);
    assert_int_equal(bench->halted, OT_OK);
    assert_int_equal(next_id(bench), last + 10);
}

/* The first attempt did it and its answer was lost: the second one finds it done. Who asks for the first time is told that there is no such thing. */
static void what_an_attempt_without_an_answer_did_is_told_as_done(void **state)
{
    static const struct { enum coord_ask ask; enum ot_err error; bool done; } rows[] = {
        { COORD_ASK_UNREGISTER, OT_ERR_BROKER_ID_NOT_REGISTERED, true }, { COORD_ASK_UNREGISTER, OT_ERR_INVALID_REQUEST, false },
        { COORD_ASK_HEARTBEAT, OT_ERR_BROKER_ID_NOT_REGISTERED, false }, { COORD_ASK_DELETE_TOPIC, OT_ERR_UNKNOWN_TOPIC_ID, true },
        { COORD_ASK_DELETE_TOPIC, OT_ERR_MISMATCH, false } };
    const struct coord_value none = { 0 };
    (void)state;
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) {
        for (int uncertain = 0; uncertain <= 1; uncertain++) {
            struct broker_ask ask = { .uncertain = uncertain != 0, .request = { .ask = rows[i].ask, .error = rows[i].error, .text = "words" } };
            forward_look_back(&none, &ask);
            assert_int_equal(ask.request.error, uncertain != 0 && rows[i].done ? OT_OK : rows[i].error);
            assert_int_equal(ask.request.text[0], ask.request.error == OT_OK ? 0 : 'w');
        }
    }
}

static void let_go(void *arg)
{
    struct bench *bench = arg;
    broker_batch_opened(bench->held, OT_OK);
}

static void answers_wait_for_what_their_state_opens_but_not_for_ever(void **state)
{
    struct bench *bench = *state;
    open_bench(bench);
    bench->hold = true;
    ask_many(bench, 1);
    wait_until(bench, NULL, NULL, 1);          /* after a quarter of a second, although nobody let go */
    assert_non_null(bench->held);
    assert_int_equal(bench->answered_ok, 1);
    broker_coordinator_run(ot_exec_thread_exec(bench->thread), let_go, bench);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(snapshots_under_load_lose_nothing),
        TEST(closing_in_the_middle_answers_everybody),
        TEST(a_failed_sync_halts_and_answers_closed),
        TEST(a_full_disk_refuses_and_recovers),
        TEST(answers_wait_for_what_their_state_opens_but_not_for_ever),
        TEST(what_an_attempt_without_an_answer_did_is_told_as_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
