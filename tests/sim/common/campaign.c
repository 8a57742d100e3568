#include "campaign.h"
#include "../cluster/bugs.h"
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

enum { JOBS_MAX = 64, SEED_SECONDS_MAX = 300 };

int sim_only;
static uint64_t seed_now;
static const uint64_t *clock_now;

void sim_now(uint64_t seed, const uint64_t *clock_us) { seed_now = seed; clock_now = clock_us; }

OT_NORETURN void sim_failed(int invariant, const char *fact, const char *file, int line)
{
    char which[32] = "";
    if (invariant != 0) snprintf(which, sizeof which, "invariant %d, ", invariant);
    fprintf(stderr, "FAILED seed %llu at %.3f s, %s%s:%d: %s\n", (unsigned long long)seed_now, clock_now == NULL ? 0.0 : (double)*clock_now / 1e6, which, file, line, fact);
    fflush(stdout);
    _exit(invariant == 0 ? 1 : SIM_FAILED_AS + invariant);
}

struct shared { _Atomic uint64_t next, passed; _Atomic bool stop; uint64_t current[JOBS_MAX]; };
struct options { uint64_t from, seeds, jobs, stop_after; double seconds; bool verbose, one; };

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static uint64_t run_timed(const struct sim_program *program, uint64_t seed, bool verbose)
{
    (void)alarm(SEED_SECONDS_MAX);
    uint64_t trace = program->run(seed, verbose);
    clock_now = NULL;
    return trace;
}

/* 25. */
static void run_again(const struct sim_program *program, uint64_t seed, uint64_t trace)
{
    uint64_t again = run_timed(program, seed, false);
    HOLDS(25, again == trace);
}

static void work(const struct sim_program *program, struct shared *shared, const struct options *options, uint64_t job, double end_s)
{
    while (!shared->stop && (options->seconds <= 0 || now_s() < end_s)) {
        uint64_t index = shared->next++;
        if (index >= options->seeds) {
            break;
        }
        uint64_t seed = options->from + index;
        shared->current[job] = seed;
        uint64_t trace = run_timed(program, seed, options->verbose);
        if (options->one || index % 50 == 0 || sim_only == 25) {
            run_again(program, seed, trace);
        }
        if (options->one) {
            printf("trace %016llx\n", (unsigned long long)trace);
        }
        shared->passed++;
    }
    fflush(stdout);
    _exit(0);
}

static pid_t start(const struct sim_program *program, struct shared *shared, const struct options *options, uint64_t job, double end_s)
{
    fflush(stdout);
    pid_t pid = fork();
    OT_ASSERT(pid >= 0);
    if (pid == 0) {
        work(program, shared, options, job, end_s);
    }
    return pid;
}

/* Did this end of a process say what was to be shown? */
static bool note(const struct shared *shared, const struct options *options, uint64_t job, int status)
{
    uint64_t seed = shared->current[job];
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (sim_only == 0) {
        char how[40] = "";
        if (WIFSIGNALED(status)) {
            snprintf(how, sizeof how, WTERMSIG(status) == SIGALRM ? ": it hangs" : ": signal %d", WTERMSIG(status));
        }
        printf("seed %llu failed%s\n", (unsigned long long)seed, how);
        return true;
    }
    if (code != SIM_FAILED_AS + sim_only) {
        return false;
    }
    printf("seed %llu breaks invariant %d, the %llu. of %llu\n", (unsigned long long)seed, sim_only, (unsigned long long)(seed - options->from + 1), (unsigned long long)options->seeds);
    return true;
}

static uint64_t run_all(const struct sim_program *program, struct shared *shared, const struct options *options)
{
    pid_t pids[JOBS_MAX];
    uint64_t running = options->jobs, failed = 0;
    double end_s = now_s() + options->seconds;
    for (uint64_t job = 0; job < options->jobs; job++) {
        pids[job] = start(program, shared, options, job, end_s);
    }
    while (running > 0) {
        int status = 0;
        pid_t pid = wait(&status);
        uint64_t job = 0;
        while (job < options->jobs && pids[job] != pid) {
            job++;
        }
        if (job == options->jobs) {
            continue;
        }
        if (status == 0) {
            running--;
            continue;
        }
        failed += note(shared, options, job, status);
        if (failed >= options->stop_after) {
            shared->stop = true;
        }
        pids[job] = start(program, shared, options, job, end_s);
    }
    return failed;
}

static int usage(const struct sim_program *program)
{
    fprintf(stderr, "usage: %s [--seed N] [--seeds N [--from N]] [--seconds S] [--jobs J] [--bug NAME [--breaks INVARIANT]] [--stop-after N]%s [-v]\nbugs:", program->name,
        program->flags);
    coord_bugs_print(stderr);
    return 2;
}

static bool parse(const struct sim_program *program, int argc, char **argv, struct options *options)
{
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--seed") == 0 && more) options->from = strtoull(argv[++i], NULL, 10), options->one = true, options->seeds = 1;
        else if (strcmp(argv[i], "--seeds") == 0 && more) options->seeds = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--from") == 0 && more) options->from = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--seconds") == 0 && more) options->seconds = strtod(argv[++i], NULL), options->seeds = UINT64_MAX;
        else if (strcmp(argv[i], "--jobs") == 0 && more) options->jobs = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--stop-after") == 0 && more) options->stop_after = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--breaks") == 0 && more) sim_only = atoi(argv[++i]), options->stop_after = 1;
        else if (strcmp(argv[i], "--bug") == 0 && more && coord_bug_choose(argv[i + 1])) i++;
        else if (strcmp(argv[i], "-v") == 0) options->verbose = true;
        else if (program->flag == NULL || !program->flag(argv[i])) return false;
    }
    options->jobs = OT_MIN(options->jobs, OT_MIN(options->seeds, (uint64_t)JOBS_MAX));
    return options->jobs > 0 && options->stop_after > 0 && sim_only >= 0 && sim_only <= SIM_INVARIANTS;
}

int sim_campaign(const struct sim_program *program, int argc, char **argv)
{
    struct options options = { .from = 1, .seeds = 100, .jobs = (uint64_t)OT_MAX(sysconf(_SC_NPROCESSORS_ONLN), 1), .stop_after = 20 };
    if (!parse(program, argc, argv, &options)) {
        return usage(program);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    ot_log_setup(OT_LOG_ERROR, OT_LOG_TEXT, open("/dev/null", O_WRONLY | O_CLOEXEC));
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    OT_ASSERT(shared != MAP_FAILED);
    uint64_t failed = run_all(program, shared, &options);
    printf("%llu passed, %llu failed\n", (unsigned long long)shared->passed, (unsigned long long)failed);
    return (sim_only == 0) == (failed == 0) ? 0 : 1;
}
