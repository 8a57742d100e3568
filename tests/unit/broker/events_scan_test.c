/* Where the topic of events ends is looked for from its end: before that is known nothing is written, or it is written twice. The topic is the test's. */
#include "broker/events_state.h"
#include "sim_sched.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct scan { struct sim_sched *sched; struct broker *broker; struct broker_events *events; struct broker_event_read *read; };

static struct scan *now;

void broker_event_read(struct broker *broker, struct broker_event_read *read)
{
    (void)broker;
    now->read = read;
}

void broker_event_write(struct broker *broker, struct broker_event_write *write)
{
    (void)broker;
    (void)write;
    fail();
}

bool broker_event_topic(struct broker *broker, struct broker_event_topic *out)
{
    (void)broker;
    *out = (struct broker_event_topic){ .leader = 2 };
    return true;
}

static int setup(void **state)
{
    struct scan *scan = now = calloc(1, sizeof *scan);
    scan->sched = sim_sched_new(1, 0);
    scan->broker = calloc(1, sizeof *scan->broker);
    scan->broker->setup.background_exec = sim_sched_exec(scan->sched, "events", true);
    assert_int_equal(broker_events_new(scan->broker, &scan->events), OT_OK);
    scan->events->leading = true;
    *state = scan;
    return 0;
}

static int teardown(void **state)
{
    struct scan *scan = *state;
    ot_exec_timer_cancel(scan->events->exec, &scan->events->timer);
    broker_events_free(scan->events);
    sim_sched_free(scan->sched);
    free(scan->broker);
    free(scan);
    return 0;
}

/* The topic has [first, end), and the read came to next. */
static void answer(struct scan *scan, enum ot_err err, int64_t first, int64_t end, int64_t next)
{
    struct broker_event_read *read = scan->read;
    assert_non_null(read);
    scan->read = NULL;
    read->error = err;
    read->first = first;
    read->end = end;
    read->next = next;
    read->call.done(&read->call);
}

static void begin(struct scan *scan, int64_t first, int64_t end, int64_t from)
{
    broker_events_read_on(scan->events, -1);
    answer(scan, OT_OK, first, end, -1);
    assert_int_equal(scan->read->from, from);
}

static void the_whole_of_a_short_topic_is_looked_at(void **state)
{
    struct scan *scan = *state;
    begin(scan, 0, 100, 0);
    answer(scan, OT_OK, 0, 100, 60);
    assert_false(scan->events->synced);
    assert_int_equal(scan->read->from, 60);
    answer(scan, OT_OK, 0, 100, 100);
    assert_true(scan->events->synced);
}

static void a_leader_that_does_not_show_all_yet_is_asked_again(void **state)
{
    struct scan *scan = *state;
    begin(scan, 0, 100, 0);
    answer(scan, OT_OK, 0, 40, 40);            /* its high watermark is behind what the one before has shown */
    assert_int_equal(scan->read->from, 40);
    answer(scan, OT_OK, 0, 40, 40);
    assert_false(scan->events->synced);
    assert_true(scan->events->again_us > 0);
}

static void nor_does_one_whose_log_ends_below_tell_that_nothing_is_written(void **state)
{
    struct scan *scan = *state;
    begin(scan, 0, 1500, 500);
    answer(scan, OT_ERR_OFFSET_OUT_OF_RANGE, 0, 400, 500);
    assert_false(scan->events->synced);
    assert_true(scan->events->again_us > 0);
}

static void what_retention_took_is_not_waited_for(void **state)
{
    struct scan *scan = *state;
    begin(scan, 0, 1500, 500);
    answer(scan, OT_ERR_OFFSET_OUT_OF_RANGE, 1500, 1500, 500);
    assert_true(scan->events->synced);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(the_whole_of_a_short_topic_is_looked_at),
        TEST(a_leader_that_does_not_show_all_yet_is_asked_again),
        TEST(nor_does_one_whose_log_ends_below_tell_that_nothing_is_written),
        TEST(what_retention_took_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
