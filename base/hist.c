/* Buckets: 0 to 31 us exactly, then each octave [2^e, 2^(e+1)) in 19 parts, 11 in its lower half and 8 in its upper: no part is
 * wider than 1/22 of where it begins. 25 octaves reach 2^30 us, about 1074 s; the last bucket holds all beyond. */
#include "base/hist.h"

#define EXACT           32u
#define LOW_PARTS       11u
#define HIGH_PARTS      8u
#define OCTAVE_PARTS    (LOW_PARTS + HIGH_PARTS)
#define FIRST_OCTAVE    5u
#define LAST_OCTAVE     29u
#define OVERFLOW_BUCKET (EXACT + (LAST_OCTAVE - FIRST_OCTAVE + 1) * OCTAVE_PARTS)
OT_STATIC_ASSERT(OVERFLOW_BUCKET < OT_HIST_BUCKETS, "all buckets fit");

static unsigned bucket_of(uint64_t us)
{
    if (us < EXACT) return (unsigned)us;
    const unsigned octave = 63u - (unsigned)__builtin_clzll(us);
    if (octave > LAST_OCTAVE) return OVERFLOW_BUCKET;
    const uint64_t half = (uint64_t)1 << (octave - 1), in_octave = us - 2 * half;
    const uint64_t part = in_octave < half ? (in_octave * LOW_PARTS) >> (octave - 1)
                                           : LOW_PARTS + (((in_octave - half) * HIGH_PARTS) >> (octave - 1));
    return EXACT + (octave - FIRST_OCTAVE) * OCTAVE_PARTS + (unsigned)part;
}

/* The largest value that falls into the bucket. */
static uint64_t bucket_edge_us(unsigned bucket)
{
    if (bucket < EXACT) return bucket;
    if (bucket >= OVERFLOW_BUCKET) return UINT64_MAX;
    const unsigned octave = FIRST_OCTAVE + (bucket - EXACT) / OCTAVE_PARTS, part = (bucket - EXACT) % OCTAVE_PARTS + 1;
    const uint64_t half = (uint64_t)1 << (octave - 1);
    if (part <= LOW_PARTS) return 2 * half + (part * half + LOW_PARTS - 1) / LOW_PARTS - 1;
    return 3 * half + ((part - LOW_PARTS) * half + HIGH_PARTS - 1) / HIGH_PARTS - 1;
}

static void raise_max(_Atomic uint64_t *max, uint64_t value)
{
    uint64_t seen = atomic_load_explicit(max, memory_order_relaxed);
    while (seen < value && !atomic_compare_exchange_weak_explicit(max, &seen, value, memory_order_relaxed, memory_order_relaxed)) {
    }
}

void ot_hist_record(struct ot_hist *hist, int64_t us)
{
    const uint64_t value = us < 0 ? 0 : (uint64_t)us;
    atomic_fetch_add_explicit(&hist->counts[bucket_of(value)], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&hist->count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&hist->sum_us, value, memory_order_relaxed);
    raise_max(&hist->max_us, value);
}

uint64_t ot_hist_quantile_us(const struct ot_hist *hist, double q)
{
    uint64_t counts[OVERFLOW_BUCKET + 1], total = 0; /* count may run ahead of the buckets: sum what is there */
    for (unsigned i = 0; i <= OVERFLOW_BUCKET; i++)
        total += counts[i] = atomic_load_explicit(&hist->counts[i], memory_order_relaxed);
    if (total == 0) return 0;
    const double exact = q * (double)total;
    uint64_t rank = exact <= 1.0 || !(exact > 1.0) ? 1 : (uint64_t)exact;
    if ((double)rank < exact) rank++;
    rank = OT_MIN(rank, total);
    unsigned bucket = 0;
    for (uint64_t seen = counts[0]; seen < rank; seen += counts[bucket]) bucket++;
    const uint64_t max_us = atomic_load_explicit(&hist->max_us, memory_order_relaxed);
    return OT_MIN(bucket_edge_us(bucket), max_us); /* nothing was slower than the slowest */
}

uint64_t ot_hist_count_below(const struct ot_hist *hist, uint64_t us)
{
    uint64_t count = 0;
    for (unsigned i = 0; i <= OVERFLOW_BUCKET && bucket_edge_us(i) <= us; i++) {
        count += atomic_load_explicit(&hist->counts[i], memory_order_relaxed);
    }
    return count;
}

uint64_t ot_hist_count_below_each(const struct ot_hist *hist, const uint64_t *bounds_us, size_t count, uint64_t *counts_out)
{
    uint64_t total = 0;
    size_t bound = 0;
    for (unsigned i = 0; i <= OVERFLOW_BUCKET; i++) {
        for (; bound < count && bucket_edge_us(i) > bounds_us[bound]; bound++) counts_out[bound] = total;
        total += atomic_load_explicit(&hist->counts[i], memory_order_relaxed);
    }
    for (; bound < count; bound++) counts_out[bound] = total;
    return total;
}

void ot_hist_merge(struct ot_hist *into, const struct ot_hist *from)
{
    for (unsigned i = 0; i <= OVERFLOW_BUCKET; i++) {
        const uint64_t count = atomic_load_explicit(&from->counts[i], memory_order_relaxed);
        if (count > 0) atomic_fetch_add_explicit(&into->counts[i], count, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&into->count, atomic_load_explicit(&from->count, memory_order_relaxed), memory_order_relaxed);
    atomic_fetch_add_explicit(&into->sum_us, atomic_load_explicit(&from->sum_us, memory_order_relaxed), memory_order_relaxed);
    raise_max(&into->max_us, atomic_load_explicit(&from->max_us, memory_order_relaxed));
}
