/* Whole runs of the simulator: one seed, one scenario; and the totals that say how much was exercised. */
#ifndef OT_SIM_RUN_H
#define OT_SIM_RUN_H

#include "base/err.h"

struct sim_totals {
    uint64_t acked, refused, crashes, records_read, records_fetched, transactions, truncations, topics_removed, offline, disk_full, flips;
};
void sim_totals_add(struct sim_totals *to, const struct sim_totals *from);
void sim_totals_print(const struct sim_totals *totals);

/* Runs a seed to its end; exits with 1 and words when a check fails. Returns the trace: equal for equal seeds. */
uint64_t sim_run_seed(uint64_t seed, bool verbose, struct sim_totals *totals);

/* A small scenario of this seed, the power cut at its n-th disk call and the machine or the process gone (n even, odd). */
uint64_t sim_exhaust_cuts(uint64_t seed);      /* how many there are */
uint64_t sim_exhaust_cut(uint64_t seed, uint64_t cut, struct sim_totals *totals);

#endif
