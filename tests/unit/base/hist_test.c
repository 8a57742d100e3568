#include "testing.h"

#include "base/hist.h"
#include "base/util.h"

static struct ot_hist hist;

static uint64_t one(int64_t us)
{
    memset(&hist, 0, sizeof(hist));
    ot_hist_record(&hist, us);
    ot_hist_record(&hist, INT64_C(1) << 40); /* so that the largest seen does not help */
    return ot_hist_quantile_us(&hist, 0.5);
}

static void a_quantile_is_at_most_five_percent_too_high_and_never_too_low(void **state)
{
    (void)state;
    struct ot_rng rng;
    ot_rng_seed(&rng, 5);
    for (int64_t us = 0; us < 5000; us++) assert_in_range(one(us), us, us + us / 20);
    for (int i = 0; i < 20000; i++) {
        const int64_t us = (int64_t)ot_rng_below(&rng, (uint64_t)1 << (1 + ot_rng_below(&rng, 30)));
        assert_in_range(one(us), us, us + us / 20);
    }
    assert_in_range(one(1000000000), 1000000000, 1050000000); /* 1000 s */
}

static void edges_of_octaves_are_kept(void **state)
{
    (void)state;
    for (unsigned e = 0; e < 30; e++) {
        for (int64_t off = -1; off <= 1; off++) {
            const int64_t us = (INT64_C(1) << e) + off;
            assert_in_range(one(us), us, us + us / 20);
        }
    }
}

static void quantiles_of_a_known_set(void **state)
{
    (void)state;
    memset(&hist, 0, sizeof(hist));
    assert_int_equal(ot_hist_quantile_us(&hist, 0.99), 0);
    for (int64_t us = 1; us <= 1000; us++) ot_hist_record(&hist, us);
    assert_in_range(ot_hist_quantile_us(&hist, 0.5), 500, 525);
    assert_in_range(ot_hist_quantile_us(&hist, 0.99), 990, 1000);
    assert_int_equal(ot_hist_quantile_us(&hist, 1.0), 1000); /* not above the largest seen */
    assert_int_equal(ot_hist_quantile_us(&hist, 0.0), 1);
    assert_int_equal(ot_hist_quantile_us(&hist, 2.0), 1000);
    assert_int_equal(hist.count, 1000);
    assert_int_equal(hist.sum_us, 500500);
}

static void what_is_beyond_all_buckets_still_counts(void **state)
{
    (void)state;
    memset(&hist, 0, sizeof(hist));
    ot_hist_record(&hist, INT64_MAX);
    ot_hist_record(&hist, INT64_MIN);
    assert_true(ot_hist_quantile_us(&hist, 1.0) == (uint64_t)INT64_MAX);
    assert_int_equal(ot_hist_quantile_us(&hist, 0.5), 0);
    assert_int_equal(ot_hist_count_below(&hist, 0), 1);
    assert_int_equal(ot_hist_count_below(&hist, UINT64_MAX), 2);
}

static void counts_below_bounds_rise_and_agree_in_one_pass(void **state)
{
    (void)state;
    static const uint64_t bounds[] = {0, 10, 31, 32, 100, 5000, 1000000, UINT64_MAX};
    uint64_t counts[OT_ARRAY_COUNT(bounds)];
    struct ot_rng rng;
    ot_rng_seed(&rng, 9);
    memset(&hist, 0, sizeof(hist));
    for (int i = 0; i < 5000; i++) ot_hist_record(&hist, (int64_t)ot_rng_below(&rng, (uint64_t)1 << (1 + ot_rng_below(&rng, 24))));
    assert_int_equal(ot_hist_count_below_each(&hist, bounds, OT_ARRAY_COUNT(bounds), counts), 5000);
    for (size_t i = 0; i < OT_ARRAY_COUNT(bounds); i++) {
        assert_int_equal(counts[i], ot_hist_count_below(&hist, bounds[i]));
        assert_true(i == 0 || counts[i] >= counts[i - 1]);
    }
}

static void a_merge_is_as_if_all_had_been_recorded_in_one(void **state)
{
    (void)state;
    static struct ot_hist other, both;
    memset(&hist, 0, sizeof(hist));
    for (int64_t us = 1; us < 3000; us += 7) {
        ot_hist_record(us % 2 ? &hist : &other, us);
        ot_hist_record(&both, us);
    }
    ot_hist_merge(&hist, &other);
    for (double q = 0.1; q <= 1.0; q += 0.1) assert_int_equal(ot_hist_quantile_us(&hist, q), ot_hist_quantile_us(&both, q));
    assert_int_equal(hist.sum_us, both.sum_us);
    assert_int_equal(hist.count, both.count);
    assert_int_equal(hist.max_us, both.max_us);
}

TEST_MAIN(cmocka_unit_test(a_quantile_is_at_most_five_percent_too_high_and_never_too_low),
    cmocka_unit_test(edges_of_octaves_are_kept), cmocka_unit_test(quantiles_of_a_known_set),
    cmocka_unit_test(what_is_beyond_all_buckets_still_counts), cmocka_unit_test(counts_below_bounds_rise_and_agree_in_one_pass),
    cmocka_unit_test(a_merge_is_as_if_all_had_been_recorded_in_one))
