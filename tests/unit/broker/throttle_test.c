/* Replication throttles: a bucket by a clock that the test moves, and the lists of replicas. */
#include "broker/throttle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define SECOND_US INT64_C(1000000)

/* Bytes that get through in so long, in pieces, when whoever asks comes again as soon as it is told to. */
static uint64_t through(struct broker_throttle *throttle, int64_t rate, int64_t *now_us, int64_t for_us, uint64_t piece_bytes)
{
    const int64_t end_us = *now_us + for_us;
    const uint64_t before = broker_throttle_spent(throttle);
    while (*now_us < end_us) {
        const int64_t wait_us = broker_throttle_wait_us(throttle, rate, *now_us);
        assert_true(wait_us >= 0 && wait_us <= SECOND_US);
        if (wait_us == 0) broker_throttle_spend(throttle, piece_bytes);
        *now_us += wait_us == 0 ? 1000 : wait_us;
    }
    return broker_throttle_spent(throttle) - before;
}

static void a_rate_is_kept_over_time(void **state)
{
    (void)state;
    static const int64_t rates[] = { 10000, 1000000, 250000000 };
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        struct broker_throttle throttle;
        int64_t now_us = 77;
        broker_throttle_init(&throttle);
        const uint64_t piece = 1u << 20, seconds = 2000, most = (uint64_t)rates[i] * (seconds + 1) + piece;
        const uint64_t got = through(&throttle, rates[i], &now_us, (int64_t)seconds * SECOND_US, piece);
        assert_true(got <= most);
        assert_true(got + 2 * piece >= (uint64_t)rates[i] * (seconds - 2));
        broker_throttle_free(&throttle);
    }
}

static void a_second_is_saved_up_and_no_more(void **state)
{
    (void)state;
    struct broker_throttle throttle;
    int64_t now_us = 0;
    broker_throttle_init(&throttle);
    (void)broker_throttle_wait_us(&throttle, 1000000, now_us);
    now_us += 3600 * SECOND_US;
    const uint64_t got = through(&throttle, 1000000, &now_us, SECOND_US, 100000);
    assert_true(got >= 1900000 && got <= 2200000);
    broker_throttle_free(&throttle);
}

static void no_rate_holds_nobody_and_a_new_one_forgives(void **state)
{
    (void)state;
    struct broker_throttle throttle;
    int64_t now_us = 5;
    broker_throttle_init(&throttle);
    broker_throttle_spend(&throttle, UINT64_C(1) << 50);
    assert_int_equal(broker_throttle_wait_us(&throttle, BROKER_THROTTLE_NONE, now_us), 0);
    broker_throttle_spend(&throttle, UINT64_C(1) << 50);
    now_us += SECOND_US;
    assert_true(broker_throttle_wait_us(&throttle, 1000, now_us) > 0);         /* begins empty, and owes nothing */
    now_us += SECOND_US;
    assert_int_equal(broker_throttle_wait_us(&throttle, 1000, now_us), 0);
    assert_true(broker_throttle_wait_us(&throttle, 0, now_us) > 0);            /* 0 lets nothing through */
    assert_int_equal(broker_throttle_wait_us(&throttle, BROKER_THROTTLE_NONE, now_us), 0);
    broker_throttle_free(&throttle);
}

static void lists_name_partitions_of_brokers(void **state)
{
    (void)state;
    assert_false(broker_throttle_lists(NULL, 0, 1));
    assert_false(broker_throttle_lists("", 0, 1));
    assert_true(broker_throttle_lists("*", 7, 1));
    assert_true(broker_throttle_lists("0:1", 0, 1));
    assert_false(broker_throttle_lists("0:1", 1, 0));
    assert_true(broker_throttle_lists("3:2,0:1,17:4", 17, 4));
    assert_false(broker_throttle_lists("3:2,0:1,17:4", 1, 4));
    assert_false(broker_throttle_lists("0:1x", 5, 5));
    assert_false(broker_throttle_lists("x", 0, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_rate_is_kept_over_time), cmocka_unit_test(a_second_is_saved_up_and_no_more),
        cmocka_unit_test(no_rate_holds_nobody_and_a_new_one_forgives), cmocka_unit_test(lists_name_partitions_of_brokers) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
