/* broker/slow.h: the last slow requests, newest first, in a ring. */
#include "broker/slow.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static struct broker_slow slow;
static struct broker_slow_request rows[BROKER_SLOW_KEPT + 1];

static void the_newest_are_kept_and_told_first(void **state)
{
    (void)state;
    broker_slow_init(&slow);
    assert_int_equal(broker_slow_list(&slow, 0, rows, 10), 0);
    for (int64_t i = 1; i <= BROKER_SLOW_KEPT + 10; i++) broker_slow_note(&slow, &(struct broker_slow_request){ .door = "kafka", .waited_us = i });
    assert_int_equal(broker_slow_list(&slow, 0, rows, BROKER_SLOW_KEPT + 1), BROKER_SLOW_KEPT);
    for (uint64_t i = 0; i < BROKER_SLOW_KEPT; i++) {
        assert_int_equal(rows[i].id, BROKER_SLOW_KEPT + 10 - i);
        assert_int_equal(rows[i].waited_us, rows[i].id);
        assert_true(rows[i].at_ms > 0);
    }
    broker_slow_free(&slow);
}

static void pages_go_on_where_the_last_one_ended(void **state)
{
    (void)state;
    broker_slow_init(&slow);
    for (int64_t i = 1; i <= 5; i++) broker_slow_note(&slow, &(struct broker_slow_request){ .door = "rest" });
    assert_int_equal(broker_slow_list(&slow, 0, rows, 2), 2);
    assert_int_equal(rows[1].id, 4);
    assert_int_equal(broker_slow_list(&slow, 4, rows, 2), 2);
    assert_int_equal(rows[0].id, 3);
    assert_int_equal(broker_slow_list(&slow, 2, rows, 2), 1);
    assert_int_equal(broker_slow_list(&slow, 1, rows, 2), 0);
    assert_int_equal(broker_slow_list(&slow, 1000, rows, 1), 1);       /* a token from before a restart */
    assert_int_equal(rows[0].id, 5);
    broker_slow_note(NULL, &rows[0]);
    broker_slow_free(&slow);
}

static void a_threshold_may_say_never(void **state)
{
    (void)state;
    assert_true(broker_slow_is(0, 0));
    assert_true(broker_slow_is(500, 500000));
    assert_false(broker_slow_is(500, 499999));
    assert_false(broker_slow_is(-1, INT64_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_newest_are_kept_and_told_first), cmocka_unit_test(pages_go_on_where_the_last_one_ended),
        cmocka_unit_test(a_threshold_may_say_never) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
