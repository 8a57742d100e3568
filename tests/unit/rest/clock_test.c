/* rest/checks.h: a wall clock that jumps is told for a while; one that is slewed is not. */
#include "rest/checks.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { TICK_MS = 5000 };

static void jumps_are_told_and_slewing_is_not(void **state)
{
    (void)state;
    struct rest_clock clock = { 0 };
    int64_t wall_ms = INT64_C(1700000000000), boot_us = 77000000;
    rest_clock_look(&clock, wall_ms, boot_us);
    for (int i = 0; i < 1000; i++) {           /* 500 ppm, the most that a clock is slewed by */
        boot_us += TICK_MS * 1000;
        wall_ms += TICK_MS + 2 + i % 2;
        rest_clock_look(&clock, wall_ms, boot_us);
        assert_true(rest_clock_steady(&clock, boot_us));
    }
    boot_us += TICK_MS * 1000;
    wall_ms += TICK_MS - 3600000;
    rest_clock_look(&clock, wall_ms, boot_us);
    assert_false(rest_clock_steady(&clock, boot_us));
    assert_int_equal(clock.stepped_ms, -3600000);
    rest_clock_look(&clock, wall_ms + TICK_MS, boot_us + TICK_MS * 1000);
    assert_false(rest_clock_steady(&clock, boot_us + REST_CLOCK_TOLD_US));
    assert_int_equal(clock.stepped_ms, -3600000);
    assert_true(rest_clock_steady(&clock, boot_us + REST_CLOCK_TOLD_US + 1));
}

/* Suspended for a night: both clocks went on, since CLOCK_BOOTTIME counts it. */
static void a_long_gap_is_no_jump(void **state)
{
    (void)state;
    struct rest_clock clock = { 0 };
    rest_clock_look(&clock, 1000000, 5000000);
    rest_clock_look(&clock, 1000000 + 36000000, 5000000 + INT64_C(36000000) * 1000);
    assert_true(rest_clock_steady(&clock, 5000000 + INT64_C(36000000) * 1000));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(jumps_are_told_and_slewing_is_not), cmocka_unit_test(a_long_gap_is_no_jump) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
