/* A latency histogram: log-scaled buckets from 1 µs to 1000 s with an error of at most 5 %, updated with relaxed atomics. */
#ifndef OT_BASE_HIST_H
#define OT_BASE_HIST_H

#include "base/macros.h"
#include <stdatomic.h>

#define OT_HIST_BUCKETS 512
struct ot_hist { _Atomic uint64_t counts[OT_HIST_BUCKETS]; _Atomic uint64_t count, sum_us; _Atomic uint64_t max_us; };

void ot_hist_record(struct ot_hist *hist, int64_t us);                    /* negative counts as 0 */
uint64_t ot_hist_quantile_us(const struct ot_hist *hist, double q);       /* largest value of the bucket, or the largest seen if that is smaller; 0 when empty */
/* For classic Prometheus buckets: how many were at most us, short by those in the one bucket that us cuts (at most 5 % below it). */
uint64_t ot_hist_count_below(const struct ot_hist *hist, uint64_t us);
/* The same for count rising bounds in one pass; answers how many there were in all. */
uint64_t ot_hist_count_below_each(const struct ot_hist *hist, const uint64_t *bounds_us, size_t count, uint64_t *counts_out);
void ot_hist_merge(struct ot_hist *into, const struct ot_hist *from);

#endif
