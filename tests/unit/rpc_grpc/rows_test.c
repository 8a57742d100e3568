/* The line of rows whose records are to be taken out: as many at once as allowed, in order, and none that nobody wants. */
#include "testing.h"

#include "rpc/grpc/door.h"

extern struct broker_records *fake_reading[64];
extern uint32_t fake_reading_count;

enum { ROWS = 6 };
static struct ot_task *posted;
static uint32_t ready_count;
static enum ot_err ready_error[ROWS];
static struct rpcg_row rows[ROWS];

static void post(struct ot_exec *exec, struct ot_task *task)
{
    (void)exec;
    task->next = posted;
    posted = task;
}
static const struct ot_exec_ops ops = { .post = post };
static struct rpc_grpc_server server;
static struct rpcg_call call;

static void ready(struct rpcg_row *row)
{
    ready_error[row - rows] = row->error;
    ready_count++;
}

static void run_posted(void)
{
    while (posted != NULL) {
        struct ot_task *task = posted;
        posted = task->next;
        task->run(task);
    }
}

static void begin(uint32_t taking_max)
{
    static const struct broker_fetch_row read = { .read = { .bytes = 1 } };
    server = (struct rpc_grpc_server){ .exec = { &ops }, .taking_max = taking_max };
    call = (struct rpcg_call){ .server = &server };
    fake_reading_count = ready_count = 0;
    for (uint32_t i = 0; i < ROWS; i++) {
        ready_error[i] = OT_ERR_UNKNOWN_SERVER_ERROR;
        rows[i] = (struct rpcg_row){ .call = &call, .row = &read, .format = RPCG_FORMAT_RECORDS, .ready = ready };
    }
}

static void finish(uint32_t at) { fake_reading[at]->call.done(&fake_reading[at]->call); }

static void as_many_at_once_as_allowed(void **state)
{
    (void)state;
    begin(2);
    for (uint32_t i = 0; i < ROWS; i++) rpcg_row_prepare(&rows[i]);
    assert_int_equal(fake_reading_count, 2);
    for (uint32_t i = 0; i < ROWS; i++) {
        assert_ptr_equal(fake_reading[i], &rows[i].records);       /* oldest first */
        finish(i);
        assert_int_equal(ready_count, i + 1);
        assert_int_equal(fake_reading_count, OT_MIN(i + 3, (uint32_t)ROWS));
        assert_int_equal(ready_error[i], OT_OK);
    }
    assert_int_equal(server.taking, 0);
    assert_int_equal(server.away, 0);
    assert_null(server.line_first);
    assert_null(server.line_last);
}

static void what_nobody_wants_leaves_the_line(void **state)
{
    (void)state;
    begin(1);
    for (uint32_t i = 0; i < 4; i++) rpcg_row_prepare(&rows[i]);
    rpcg_row_cancel(&rows[0]);                                     /* under way: told to stop */
    assert_true(atomic_load(&fake_reading[0]->cancelled));
    rpcg_row_cancel(&rows[2]);                                     /* the middle, then the end of the line */
    rpcg_row_cancel(&rows[3]);
    rpcg_row_cancel(&rows[3]);
    assert_int_equal(ready_count, 0);                              /* not before it returns */
    run_posted();
    assert_int_equal(ready_count, 2);
    assert_int_equal(ready_error[2], OT_ERR_CANCELLED);
    assert_int_equal(ready_error[3], OT_ERR_CANCELLED);
    rpcg_row_prepare(&rows[4]);
    fake_reading[0]->error = OT_ERR_CANCELLED;
    finish(0);
    assert_int_equal(ready_error[0], OT_ERR_CANCELLED);
    assert_ptr_equal(fake_reading[1], &rows[1].records);
    finish(1);
    assert_ptr_equal(fake_reading[2], &rows[4].records);
    finish(2);
    assert_int_equal(fake_reading_count, 3);
    assert_int_equal(ready_count, 5);
    assert_int_equal(server.taking, 0);
    assert_int_equal(server.away, 0);
}

static void a_stop_begins_nothing_that_would_wait(void **state)
{
    (void)state;
    begin(1);
    server.shut = true;
    rpcg_row_prepare(&rows[0]);
    rpcg_row_prepare(&rows[1]);
    run_posted();
    assert_int_equal(ready_count, 1);
    assert_int_equal(ready_error[1], OT_ERR_CANCELLED);
    finish(0);
    assert_int_equal(ready_error[0], OT_OK);
    assert_int_equal(fake_reading_count, 1);
    assert_int_equal(server.away, 0);
}

TEST_MAIN(cmocka_unit_test(as_many_at_once_as_allowed), cmocka_unit_test(what_nobody_wants_leaves_the_line), cmocka_unit_test(a_stop_begins_nothing_that_would_wait))
