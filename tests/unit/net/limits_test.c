#include "testing.h"

#include "base/net/limits.h"

#include <arpa/inet.h>

static struct ot_net_ip_limits *limits;
static char why[160];

static uint32_t of(const char *text)
{
    uint8_t ip[16] = { [10] = 0xff, [11] = 0xff };
    assert_true(inet_pton(AF_INET, text, ip + 12) == 1 || inet_pton(AF_INET6, text, ip) == 1);
    return ot_net_ip_limits_find(limits, ip, 99);
}

static void addresses_have_limits_of_their_own(void **state)
{
    (void)state;
    assert_true(ot_net_ip_limits_parse(" 10.0.0.1:5, [::1]:7,fe80::1:9 ,localhost:3,", &limits, why, sizeof why));
    assert_int_equal(of("10.0.0.1"), 5);
    assert_int_equal(of("10.0.0.2"), 99);
    assert_int_equal(of("::1"), 7);            /* the first one counts */
    assert_int_equal(of("fe80::1"), 9);
    assert_int_equal(of("127.0.0.1"), 3);
    ot_net_ip_limits_free(limits);
    assert_true(ot_net_ip_limits_parse("", &limits, why, sizeof why));
    assert_null(limits);
    assert_int_equal(of("10.0.0.1"), 99);
}

static void what_is_no_address_and_count_is_refused(void **state)
{
    (void)state;
    for (const char *const *bad = (const char *const[]){ "10.0.0.1", "10.0.0.1:", ":5", "10.0.0.1:-1", "10.0.0.1:2147483648", "example.org:5", "10.0.0.256:1", "10.0.0.1:1,x", NULL }; *bad != NULL;
         bad++) {
        why[0] = 0;
        assert_false(ot_net_ip_limits_parse(*bad, &limits, why, sizeof why));
        assert_null(limits);
        assert_int_not_equal(why[0], 0);
    }
}

static void a_pace_is_even_after_a_second_at_once(void **state)
{
    (void)state;
    struct ot_net_pace pace = { .per_second = 4 };
    int64_t now_us = 50000000;
    for (int i = 0; i < 4; i++) {              /* what a second has, at once */
        assert_int_equal(ot_net_pace_wait_us(&pace, now_us), 0);
        ot_net_pace_take(&pace, now_us);
    }
    assert_int_equal(ot_net_pace_wait_us(&pace, now_us), 250000);
    now_us += 250000;
    assert_int_equal(ot_net_pace_wait_us(&pace, now_us), 0);
    ot_net_pace_take(&pace, now_us);
    assert_int_equal(ot_net_pace_wait_us(&pace, now_us), 250000);
    now_us += 5000000;                         /* a long pause saves up no more than a second */
    for (int i = 0; i < 4; i++) ot_net_pace_take(&pace, now_us);
    assert_true(ot_net_pace_wait_us(&pace, now_us) > 0);
    pace.per_second = UINT32_MAX;
    assert_int_equal(ot_net_pace_wait_us(&pace, now_us), 0);
    pace.per_second = 0;
    assert_true(ot_net_pace_wait_us(&pace, now_us) > 0);
}

TEST_MAIN(cmocka_unit_test(addresses_have_limits_of_their_own), cmocka_unit_test(what_is_no_address_and_count_is_refused), cmocka_unit_test(a_pace_is_even_after_a_second_at_once))
