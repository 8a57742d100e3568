/* ottla_sim_cluster: the coordinators of a cluster against everything that may befall them. Options: common/campaign.h, and
 *   --refounds   in every seed all founders but one lose everything (else in one of seventeen)
 *   --outlives   in every seed coordinators go on when others have followed (else in one of sixteen) */
#include "world.h"

#include <string.h>

#define CALM_US UINT64_C(60000000)

static uint64_t run_seed(uint64_t seed, bool verbose)
{
    struct cluster *w = cluster_new(&(struct cluster_setup){ .seed = seed, .verbose = verbose, .min_isr = 1 });
    sim_now(seed, &w->now_us);
    cluster_run_until(w, 40000000 + ot_rng_below(&w->rng, 60000000));
    cluster_calm(w);
    cluster_run_until(w, w->now_us + CALM_US);
    cluster_quiet(w);
    cluster_run_until(w, w->now_us + 5000000);
    check_cluster_end(w);
    uint64_t trace = cluster_trace(w);
    if (verbose) {
        cluster_print(w);
    }
    sim_now(seed, NULL);
    cluster_free(w);
    return trace;
}

static bool flag(const char *word)
{
    const bool refounds = strcmp(word, "--refounds") == 0, outlives = strcmp(word, "--outlives") == 0;
    cluster_refounds |= refounds;
    cluster_outlives |= outlives;
    return refounds || outlives;
}

int main(int argc, char **argv)
{
    return sim_campaign(&(struct sim_program){ "ottla_sim_cluster", " [--refounds] [--outlives]", run_seed, flag }, argc, argv);
}
