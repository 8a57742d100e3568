/* The simulator's executors and clock: tasks of all executors in one scheduler, which picks the next by its seed. A serial executor keeps its order; a
 * pool's queue is taken from anywhere. Time moves only when nothing can run. */
#ifndef OT_SIM_SCHED_H
#define OT_SIM_SCHED_H

#include "base/exec.h"
#include "base/util.h"

struct sim_sched;
struct sim_sched *sim_sched_new(uint64_t seed, int64_t wall_ms);
void sim_sched_free(struct sim_sched *sched);
struct ot_exec *sim_sched_exec(struct sim_sched *sched, const char *name, bool serial);
bool sim_sched_step(struct sim_sched *sched);              /* one task; false: nothing is queued */
bool sim_sched_idle(const struct sim_sched *sched);         /* no task is queued and no timer is due */
bool sim_sched_step_of(struct sim_sched *sched, struct ot_exec *exec);
bool sim_sched_skip(struct sim_sched *sched, int64_t max_us);      /* to the next timer, at most max_us ahead; runs it. False: none that near, time moved by max_us */
void sim_sched_wake(struct sim_sched *sched, int64_t now_us);      /* the process stood still until then: what was due meanwhile is late */
void sim_sched_forget(struct sim_sched *sched);            /* drop everything queued and every timer: the process died */
int64_t sim_sched_now_us(const struct sim_sched *sched);
int64_t sim_sched_wall_ms(const struct sim_sched *sched);
uint64_t sim_sched_steps(const struct sim_sched *sched);

#endif
