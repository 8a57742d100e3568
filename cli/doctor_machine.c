/* This machine: limits, kernel settings, memory, the clock. */
#include "base/mem.h"
#include "base/os.h"
#include "base/util.h"
#include "cli/doctor.h"
#include "cli/text.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <time.h>

enum { FILES_WANTED = 65536, FILES_LEAST = 4096, MAPS_WANTED = 262144, BACKLOG_WANTED = 1024, YEAR_2024_S = 1704067200 };

/* The first number in a file of /proc or /sys; -1: there is none. */
static int64_t number_in(const char *path)
{
    char text[64] = "";
    FILE *file = fopen(path, "re");
    if (file == NULL) return -1;
    const bool read = fgets(text, sizeof(text), file) != NULL;
    (void)fclose(file);
    char *end = NULL;
    const int64_t number = read ? strtoll(text, &end, 10) : -1;
    return end == text || end == NULL ? -1 : number;
}

static void files(struct cli_doctor *doctor)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    const unsigned long long hard = limit.rlim_max == RLIM_INFINITY ? 1048576 : (unsigned long long)limit.rlim_max;
    const char *advice = "LimitNOFILE=1048576 in the unit, or nofile in /etc/security/limits.conf";
    if (hard < FILES_LEAST) cli_doctor_tell(doctor, CLI_FINDING_PROBLEM, "open files", advice, "at most %llu descriptors: connections and segments run out of them soon", hard);
    else if (hard < FILES_WANTED) cli_doctor_tell(doctor, CLI_FINDING_WARNING, "open files", advice, "at most %llu descriptors, %d and more are usual for a broker", hard, FILES_WANTED);
    else cli_doctor_tell(doctor, CLI_FINDING_OK, "open files", NULL, "up to %llu descriptors", hard);
}

static void processes(struct cli_doctor *doctor)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NPROC, &limit) != 0 || limit.rlim_max == RLIM_INFINITY || limit.rlim_max >= 512) return;
    cli_doctor_tell(doctor, CLI_FINDING_PROBLEM, "threads", "raise nproc in /etc/security/limits.conf or TasksMax= in the unit", "at most %llu threads for this user", (unsigned long long)limit.rlim_max);
}

static void maps(struct cli_doctor *doctor)
{
    const int64_t count = number_in("/proc/sys/vm/max_map_count");
    if (count < 0) return;
    if (count < MAPS_WANTED)
        cli_doctor_tell(doctor, count < 65530 ? CLI_FINDING_WARNING : CLI_FINDING_NOTE, "max_map_count", "sysctl -w vm.max_map_count=262144 for tens of thousands of partitions", "vm.max_map_count is %lld", (long long)count);
    else cli_doctor_tell(doctor, CLI_FINDING_OK, "max_map_count", NULL, "vm.max_map_count is %lld", (long long)count);
}

static void backlog(struct cli_doctor *doctor)
{
    const int64_t most = number_in("/proc/sys/net/core/somaxconn");
    if (most < 0) return;
    if (doctor->config != NULL && most < doctor->config->socket_listen_backlog_size)
        cli_doctor_tell(doctor, CLI_FINDING_WARNING, "somaxconn", "sysctl -w net.core.somaxconn=4096", "net.core.somaxconn is %lld, below socket.listen.backlog.size=%d: the kernel cuts it",
            (long long)most, doctor->config->socket_listen_backlog_size);
    else cli_doctor_tell(doctor, CLI_FINDING_OK, "somaxconn", most < BACKLOG_WANTED ? "sysctl -w net.core.somaxconn=4096 before thousands of clients come at once" : NULL, "net.core.somaxconn is %lld", (long long)most);
}

static void swap(struct cli_doctor *doctor)
{
    const int64_t swappiness = number_in("/proc/sys/vm/swappiness");
    if (swappiness > 10) cli_doctor_tell(doctor, CLI_FINDING_NOTE, "swappiness", "sysctl -w vm.swappiness=1, so that the page cache is not traded for the broker's own memory", "vm.swappiness is %lld", (long long)swappiness);
    else if (swappiness >= 0) cli_doctor_tell(doctor, CLI_FINDING_OK, "swappiness", NULL, "vm.swappiness is %lld", (long long)swappiness);
}

static void memory(struct cli_doctor *doctor)
{
    struct ot_mem_budget budget = {0};
    char bytes[24];
    const uint64_t wanted = doctor->config == NULL ? 0 : (uint64_t)doctor->config->ottla_memory_bytes;
    if (ot_mem_budget_init(&budget, wanted, ot_mem_specs, OT_MEM_POOL_COUNT, NULL, 0) != OT_OK) return;
    cli_human_bytes(budget.limit_bytes, bytes);
    if (budget.limit_bytes < (128u << 20)) cli_doctor_tell(doctor, CLI_FINDING_WARNING, "memory", "give the cgroup more, or set ottla.memory.bytes", "a budget of %s (%s) is tight", bytes, budget.source);
    else cli_doctor_tell(doctor, CLI_FINDING_OK, "memory", NULL, "a budget of %s (%s)", bytes, budget.source);
    ot_mem_budget_free(&budget);
}

static void clock_state(struct cli_doctor *doctor)
{
    struct timex state = {0};
    const int64_t now_ms = ot_clock_wall_ms();
    if (now_ms / 1000 < YEAR_2024_S) {
        cli_doctor_tell(doctor, CLI_FINDING_PROBLEM, "clock", "set the clock: timedatectl set-ntp true", "it says a year before 2024: retention and timestamps will be wrong");
        return;
    }
    const int answer = adjtimex(&state);
    if (answer < 0) cli_doctor_tell(doctor, CLI_FINDING_NOTE, "clock", NULL, "the kernel does not say whether it is synchronised (%s)", strerrorname_np(errno));
    else if (answer == TIME_ERROR || (state.status & STA_UNSYNC) != 0)
        cli_doctor_tell(doctor, CLI_FINDING_WARNING, "clock", "run chrony or systemd-timesyncd (timedatectl set-ntp true); in a container it is the host's matter",
            "it is not synchronised: record times and retention are as right as it is");
    else cli_doctor_tell(doctor, CLI_FINDING_OK, "clock", NULL, "synchronised, estimated error %.1f ms", (double)state.esterror / 1000);
}

static void kernel(struct cli_doctor *doctor)
{
    struct utsname name;
    int major = 0, minor = 0;
    if (uname(&name) != 0 || sscanf(name.release, "%d.%d", &major, &minor) != 2) return;
    if (major < 5) cli_doctor_tell(doctor, CLI_FINDING_WARNING, "kernel", "5.10 or later is what it is tested on", "Linux %.40s", name.release);
    else if (major < 6 || (major == 6 && minor < 5)) cli_doctor_tell(doctor, CLI_FINDING_NOTE, "kernel", NULL, "Linux %.40s has no cachestat (6.5): cold ranges are found by mincore", name.release);
    else cli_doctor_tell(doctor, CLI_FINDING_OK, "kernel", NULL, "Linux %.40s", name.release);
}

static void cpus(struct cli_doctor *doctor)
{
    const uint32_t count = ot_os_cpu_count(&ot_os_files_real);
    cli_doctor_tell(doctor, CLI_FINDING_OK, "processors", NULL, "%u to use", count);
}

void cli_doctor_machine(struct cli_doctor *doctor)
{
    static void (*const checks[])(struct cli_doctor *doctor) = {kernel, cpus, memory, files, processes, maps, backlog, swap, clock_state};
    for (size_t i = 0; i < OT_ARRAY_COUNT(checks); i++) checks[i](doctor);
}
