#include "base/os.h"
#include "base/io.h"
#include "base/util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define NO_LIMIT         UINT64_MAX
#define SMALL_FILE_BYTES 65536u

const struct ot_os_files ot_os_files_real = {"/proc/self/cgroup", "/sys/fs/cgroup", "/sys/fs/cgroup", "/proc/meminfo"};

/* The text of a small file, or NULL. Not through struct ot_io: a file that is missing here is no event of the disk. */
static char *read_text(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NULL;
    char *text = malloc(SMALL_FILE_BYTES);
    size_t bytes = 0;
    while (text != NULL && bytes < SMALL_FILE_BYTES - 1) {
        const ssize_t got = read(fd, text + bytes, SMALL_FILE_BYTES - 1 - bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        bytes += (size_t)got;
    }
    close(fd);
    if (text != NULL) text[bytes] = '\0';
    return text;
}

/* A number alone in its file; NO_LIMIT for `max`, for what is no number and for no file. */
static uint64_t read_limit(const char *path)
{
    char *text = read_text(path);
    char *end = text;
    const unsigned long long value = text == NULL || text[0] < '0' || text[0] > '9' ? 0 : strtoull(text, &end, 10);
    const bool found = end != text;
    free(text);
    return found ? value : NO_LIMIT;
}

/* Calls look(arg, dir) with every cgroup folder from root/path up to root itself. Folders that a container does not see are skipped
 * by look, which finds no file there. */
static void walk_up(const char *root, const char *path, size_t path_bytes, void (*look)(void *arg, const char *dir), void *arg)
{
    char dir[PATH_MAX];
    const size_t root_bytes = strlen(root);
    const int length = snprintf(dir, sizeof(dir) - 64, "%s%.*s", root, (int)path_bytes, path);
    if (length < 0 || (size_t)length >= sizeof(dir) - 64) return;
    size_t bytes = (size_t)length;
    while (bytes > root_bytes && dir[bytes - 1] == '/') dir[--bytes] = '\0';
    for (;;) {
        look(arg, dir);
        if (bytes <= root_bytes) return;
        while (bytes > root_bytes && dir[bytes - 1] != '/') bytes--;
        if (bytes > root_bytes) bytes--;
        dir[bytes] = '\0';
    }
}

/* True when the comma-separated list names the controller. */
static bool names(const char *list, size_t bytes, const char *controller)
{
    const size_t want = strlen(controller);
    for (size_t at = 0; at < bytes;) {
        const char *comma = memchr(list + at, ',', bytes - at);
        const size_t length = comma == NULL ? bytes - at : (size_t)(comma - list) - at;
        if (length == want && memcmp(list + at, controller, want) == 0) return true;
        at += length + 1;
    }
    return false;
}

struct looks {
    void (*v2)(void *arg, const char *dir), (*v1)(void *arg, const char *dir);
    void *arg;
};

/* Lines are `0::/path` for version 2 and `N:controllers:/path` for version 1. */
static void walk_cgroups(const struct ot_os_files *files, const char *controller, const struct looks *looks)
{
    char *text = read_text(files->self_cgroup), root[PATH_MAX];
    for (const char *line = text; line != NULL && *line != '\0';) {
        const char *end = strchrnul(line, '\n');
        const char *list = memchr(line, ':', (size_t)(end - line));
        const char *path = list == NULL ? NULL : memchr(list + 1, ':', (size_t)(end - list - 1));
        if (path != NULL) {
            const size_t list_bytes = (size_t)(path - list - 1), path_bytes = (size_t)(end - path - 1);
            if (list_bytes == 0) {
                walk_up(files->cgroup2_root, path + 1, path_bytes, looks->v2, looks->arg);
                snprintf(root, sizeof(root), "%s/unified", files->cgroup2_root);
                walk_up(root, path + 1, path_bytes, looks->v2, looks->arg);
            } else if (names(list + 1, list_bytes, controller)) {
                snprintf(root, sizeof(root), "%s/%s", files->cgroup1_root, controller);
                walk_up(root, path + 1, path_bytes, looks->v1, looks->arg);
            }
        }
        line = *end == '\0' ? end : end + 1;
    }
    free(text);
}

struct memory_found {
    uint64_t v2_bytes, v1_bytes;
};

static void lower(uint64_t *limit, const char *dir, const char *file)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof(path), "%s/%s", dir, file);
    *limit = OT_MIN(*limit, read_limit(path));
}

static void look_memory_v2(void *arg, const char *dir)
{
    struct memory_found *found = arg;
    lower(&found->v2_bytes, dir, "memory.max");
    lower(&found->v2_bytes, dir, "memory.high"); /* beyond it the kernel reclaims from us and slows us down */
}

static void look_memory_v1(void *arg, const char *dir)
{
    struct memory_found *found = arg;
    lower(&found->v1_bytes, dir, "memory.limit_in_bytes");
}

static uint64_t physical_bytes(const struct ot_os_files *files)
{
    char *text = read_text(files->meminfo);
    const char *line = text == NULL ? NULL : strstr(text, "MemTotal:");
    unsigned long long kib = 0;
    if (line == NULL || sscanf(line, "MemTotal: %llu kB", &kib) != 1) kib = 0;
    free(text);
    if (kib > 0) return (uint64_t)kib * 1024;
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_bytes > 0 ? (uint64_t)pages * (uint64_t)page_bytes : (uint64_t)1 << 30;
}

uint64_t ot_os_memory_limit_bytes(const struct ot_os_files *files, const char **source_out)
{
    struct memory_found found = {NO_LIMIT, NO_LIMIT};
    walk_cgroups(files, "memory", &(struct looks){look_memory_v2, look_memory_v1, &found});
    const uint64_t physical = physical_bytes(files), cgroup = OT_MIN(found.v2_bytes, found.v1_bytes);
    if (cgroup == 0 || cgroup >= physical) { /* version 1 says `none` with a number near 2^63 */
        *source_out = "physical memory";
        return physical;
    }
    *source_out = found.v2_bytes <= found.v1_bytes ? "cgroup v2" : "cgroup v1";
    return cgroup;
}

static void lower_cpus(double *cpus, double quota, double period)
{
    if (quota > 0 && period > 0 && quota / period < *cpus) *cpus = quota / period;
}

static void look_cpu_v2(void *arg, const char *dir)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof(path), "%s/cpu.max", dir);
    char *text = read_text(path);
    double quota, period;
    if (text != NULL && sscanf(text, "%lf %lf", &quota, &period) == 2) lower_cpus(arg, quota, period); /* `max` is no number */
    free(text);
}

static void look_cpu_v1(void *arg, const char *dir)
{
    uint64_t quota = NO_LIMIT, period = NO_LIMIT;
    lower(&quota, dir, "cpu.cfs_quota_us"); /* -1 is no number for read_limit either */
    lower(&period, dir, "cpu.cfs_period_us");
    if (quota != NO_LIMIT && period != NO_LIMIT) lower_cpus(arg, (double)quota, (double)period);
}

uint32_t ot_os_cpu_count(const struct ot_os_files *files)
{
    cpu_set_t set;
    double cpus = sched_getaffinity(0, sizeof(set), &set) == 0 ? (double)CPU_COUNT(&set) : (double)sysconf(_SC_NPROCESSORS_ONLN);
    walk_cgroups(files, "cpu", &(struct looks){look_cpu_v2, look_cpu_v1, &cpus});
    if (!(cpus > 1)) return 1;
    const uint32_t whole = (uint32_t)cpus;
    return (double)whole < cpus ? whole + 1 : whole;
}

enum ot_err ot_os_boot_id(char out[static 37])
{
    char *text = read_text("/proc/sys/kernel/random/boot_id");
    const bool good = text != NULL && strlen(text) >= 36;
    if (good) {
        memcpy(out, text, 36);
        out[36] = '\0';
    }
    free(text);
    return good ? OT_OK : OT_ERR_IO;
}

#ifndef STATX_MNT_ID
#define STATX_MNT_ID 0x1000u
#endif
#define MNT_ID_UNIQUE 0x4000u /* Linux 6.8 */

enum ot_err ot_os_mount_id(const char *path, char out[static OT_OS_MOUNT_BYTES])
{
    struct statx facts;
    struct statfs system;
    if (statx(AT_FDCWD, path, 0, STATX_MNT_ID | MNT_ID_UNIQUE, &facts) != 0 || statfs(path, &system) != 0) {
        return errno == ENOENT ? OT_ERR_NOT_FOUND : OT_ERR_IO;
    }
    uint64_t fsid;
    OT_STATIC_ASSERT(sizeof(system.f_fsid) == sizeof(fsid), "the file system id is 64 bits");
    memcpy(&fsid, &system.f_fsid, sizeof(fsid));
    snprintf(out, OT_OS_MOUNT_BYTES, "dev=%u:%u fsid=%016llx %s=%llu", facts.stx_dev_major, facts.stx_dev_minor,
        (unsigned long long)fsid, (facts.stx_mask & MNT_ID_UNIQUE) != 0 ? "mount" : "mount-reusable",
        (unsigned long long)facts.stx_mnt_id);
    return OT_OK;
}

static uint32_t count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    uint32_t count = 0;
    if (dir == NULL) return 0;
    while (readdir(dir) != NULL) count++;
    closedir(dir);
    return count > 3 ? count - 3 : 0; /* `.`, `..`, and the descriptor of this listing */
}

/* The fields of /proc/self/stat behind the name, which may hold blanks and parentheses: field 3 is the first. */
static void fill_from_stat(struct ot_os_process *out)
{
    char *text = read_text("/proc/self/stat");
    const char *at = text == NULL ? NULL : strrchr(text, ')');
    unsigned long long started_ticks = 0;
    long threads = 0;
    if (at != NULL && sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu", &threads,
                          &started_ticks) == 2) {
        const int64_t up_ms = ot_clock_boot_us() / 1000,
                      start_ms = (int64_t)(started_ticks * 1000 / (unsigned long long)sysconf(_SC_CLK_TCK));
        out->threads = (uint32_t)threads;
        out->started_wall_ms = ot_clock_wall_ms() - up_ms + start_ms;
    }
    free(text);
}

void ot_os_process(struct ot_os_process *out)
{
    *out = (struct ot_os_process){.open_fds = count_fds()};
    fill_from_stat(out);
    char *text = read_text("/proc/self/statm");
    unsigned long long total_pages = 0, resident_pages = 0;
    if (text != NULL && sscanf(text, "%llu %llu", &total_pages, &resident_pages) == 2) {
        const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
        out->virtual_bytes = total_pages * page_bytes;
        out->resident_bytes = resident_pages * page_bytes;
    }
    free(text);
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        out->cpu_us = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
                      (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    }
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) out->fds_max = limit.rlim_cur;
}
