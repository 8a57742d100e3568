/* ottla_sim: engine and append lane over a simulated disk, one seed one exact trace.
 *
 *   ottla_sim --seed N [-v]              one seed, twice: both runs must leave the same trace
 *   ottla_sim --seeds N [--seed M]       seeds M, M+1, … (M = 1)
 *   ottla_sim --seconds S [--seed M]     as many as fit
 *   ottla_sim --exhaust [--seed M]       one small scenario, the power cut at each of its disk calls in turn
 *   --jobs J     that many processes (the number of processors)
 *   --bug NAME   with a known bug put into the disk's behaviour or the code: a test of the test, see mutations.h
 * Seeds run in processes of their own kind: one that fails or hangs is named, the others go on. Last line: N passed, N failed. */
#include "run.h"
#include "mutations.h"
#include "base/log.h"
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define JOBS_MAX 64
#define SEED_SECONDS_MAX 120                   /* a seed that takes longer hangs */

struct shared {                                /* between the processes */
    _Atomic uint64_t next, passed;
    _Atomic bool stop;
    uint64_t current[JOBS_MAX];
    struct sim_totals totals[JOBS_MAX];
};
struct options { uint64_t from, count; double seconds; uint32_t jobs, stop_after; bool verbose, twice, exhaust; };

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static uint64_t run(uint64_t seed, bool verbose, const struct options *options, struct sim_totals *totals)
{
    (void)alarm(SEED_SECONDS_MAX);
    return options->exhaust ? sim_exhaust_cut(options->from, seed - options->from, totals) : sim_run_seed(seed, verbose, totals);
}

/* Some seeds run twice, so that a source of chance outside the seed does not go unnoticed. */
static void work(struct shared *shared, const struct options *options, uint32_t job, double end_s)
{
    while (!atomic_load(&shared->stop) && (options->seconds <= 0 || now_s() < end_s)) {
        uint64_t index = atomic_fetch_add(&shared->next, 1);
        if (index >= options->count) break;
        uint64_t seed = options->from + index;
        struct sim_totals again = { 0 };
        shared->current[job] = seed;
        uint64_t trace = run(seed, options->verbose, options, &shared->totals[job]);
        if ((options->twice || index % 50 == 0) && run(seed, false, options, &again) != trace) {
            printf("seed %llu: two runs differ\n", (unsigned long long)seed);
            exit(1);
        }
        if (options->twice) printf("trace %016llx\n", (unsigned long long)trace);
        atomic_fetch_add(&shared->passed, 1);
    }
    fflush(stdout);
    _exit(0);
}

static pid_t start(struct shared *shared, const struct options *options, uint32_t job, double end_s)
{
    fflush(stdout);
    pid_t pid = fork();
    OT_ASSERT(pid >= 0);
    if (pid == 0) work(shared, options, job, end_s);
    return pid;
}

static uint32_t run_all(struct shared *shared, const struct options *options)
{
    pid_t pids[JOBS_MAX];
    double end_s = now_s() + options->seconds;
    uint32_t failed = 0, running = options->jobs;
    for (uint32_t job = 0; job < options->jobs; job++) pids[job] = start(shared, options, job, end_s);
    while (running > 0) {
        int status = 0;
        pid_t pid = wait(&status);
        uint32_t job = 0;
        while (job < options->jobs && pids[job] != pid) job++;
        if (job == options->jobs) continue;
        if (status == 0) {
            running--;
            continue;
        }
        printf("seed %llu failed%s\n", (unsigned long long)shared->current[job], WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? ": it hangs" : "");
        if (++failed >= options->stop_after) atomic_store(&shared->stop, true);
        pids[job] = start(shared, options, job, end_s);
    }
    return failed;
}

static int usage(void)
{
    fprintf(stderr, "usage: ottla_sim [--seed N] [--seeds N] [--seconds S] [--exhaust] [--jobs J] [--bug NAME] [--stop-after FAILURES] [-v]\nbugs:");
    sim_mutations_print(stderr);
    return 2;
}

static bool parse(int argc, char **argv, struct options *options)
{
    bool counted = false;
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if ((strcmp(argv[i], "--seed") == 0 || strcmp(argv[i], "--from") == 0) && more) options->from = strtoull(argv[++i], NULL, 10), options->twice = true;
        else if (strcmp(argv[i], "--seeds") == 0 && more) options->count = strtoull(argv[++i], NULL, 10), counted = true;
        else if (strcmp(argv[i], "--seconds") == 0 && more) options->seconds = strtod(argv[++i], NULL), options->count = UINT64_MAX, counted = true;
        else if (strcmp(argv[i], "--jobs") == 0 && more) options->jobs = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--stop-after") == 0 && more) options->stop_after = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--bug") == 0 && more) { if (!sim_mutation_choose(argv[++i])) return false; }
        else if (strcmp(argv[i], "--exhaust") == 0) options->exhaust = true;
        else if (strcmp(argv[i], "-v") == 0) options->verbose = true;
        else return false;
    }
    if (counted) options->twice = false;
    else if (options->twice) options->count = 1;
    if (options->exhaust) options->count = sim_exhaust_cuts(options->from), options->twice = false;
    if (options->count < options->jobs) options->jobs = (uint32_t)OT_MAX(options->count, 1);
    return options->jobs >= 1 && options->jobs <= JOBS_MAX && options->stop_after > 0;
}

int main(int argc, char **argv)
{
    struct options options = { .from = 1, .count = 100, .jobs = (uint32_t)OT_MAX(sysconf(_SC_NPROCESSORS_ONLN), 1), .stop_after = 20 };
    struct sim_totals totals = { 0 };
    if (!isatty(STDERR_FILENO)) setvbuf(stdout, NULL, _IOLBF, 0);
    bool loud = false;
    for (int i = 1; i < argc; i++) loud |= strcmp(argv[i], "-v") == 0;
    if (!loud) ot_log_setup(OT_LOG_ERROR, OT_LOG_TEXT, open("/dev/null", O_WRONLY | O_CLOEXEC));
    if (!parse(argc, argv, &options)) return usage();
    double start_s = now_s();
    struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    OT_ASSERT(shared != MAP_FAILED);
    uint32_t failed = run_all(shared, &options);
    for (uint32_t job = 0; job < options.jobs; job++) sim_totals_add(&totals, &shared->totals[job]);
    double seconds = now_s() - start_s;
    uint64_t passed = atomic_load(&shared->passed);
    printf("%.1f s, %.0f seeds/s; ", seconds, (double)passed / OT_MAX(seconds, 0.001));
    sim_totals_print(&totals);
    printf("%llu passed, %u failed\n", (unsigned long long)passed, failed);
    return failed == 0 ? 0 : 1;
}
