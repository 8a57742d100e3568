/* Many seeds of one simulator, in processes; and checks that know which invariant of the design they hold (docs/simulation.md has the list).
 *
 *   NAME [--seed N] [--seeds N [--from N]] [--seconds S] [--jobs J] [--stop-after N] [--bug NAME [--breaks N]] [-v]
 * --seed runs one seed twice: both must leave the same trace. Of many seeds every 50th runs twice. Last line: N passed, N failed.
 * --breaks N: a test of the test. Only the check of invariant N counts, and it has to fail within these seeds: a bug that is caught by anything else (or by a crash) is not caught. */
#ifndef OT_SIM_CAMPAIGN_H
#define OT_SIM_CAMPAIGN_H

#include "base/util.h"

enum { SIM_INVARIANTS = 30, SIM_FAILED_AS = 100 /* exit code: this and the number of the invariant */ };

#define CHECK(fact) ((fact) ? (void)0 : sim_failed(0, #fact, __FILE__, __LINE__))
#define HOLDS(invariant, fact) ((fact) || (sim_only != 0 && sim_only != (invariant)) ? (void)0 : sim_failed(invariant, #fact, __FILE__, __LINE__))
OT_NORETURN void sim_failed(int invariant, const char *fact, const char *file, int line);
extern int sim_only;                           /* --breaks; 0: all count */

struct sim_program {
    const char *name, *flags;                  /* flags: words for the usage line */
    uint64_t (*run)(uint64_t seed, bool verbose);      /* the trace */
    bool (*flag)(const char *word);            /* takes a flag of its own; NULL: there are none */
};
int sim_campaign(const struct sim_program *program, int argc, char **argv);
void sim_now(uint64_t seed, const uint64_t *clock_us);     /* for messages: what runs, and where its clock is (NULL: none) */

#endif
