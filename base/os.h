/* What the system says about this machine and process. Linux; reads /proc and /sys, so not for hot paths. Any thread. */
#ifndef OT_BASE_OS_H
#define OT_BASE_OS_H

#include "base/err.h"

/* Where the system's files lie; tests bring their own. */
struct ot_os_files {
    const char *self_cgroup;       /* /proc/self/cgroup */
    const char *cgroup2_root;      /* /sys/fs/cgroup; a second one, /sys/fs/cgroup/unified, is asked when the hierarchies are mixed */
    const char *cgroup1_root;      /* /sys/fs/cgroup: its folders are memory and cpu */
    const char *meminfo;           /* /proc/meminfo */
};
extern const struct ot_os_files ot_os_files_real;

/* The smallest limit of the cgroups that hold this process, version 2 (memory.max, memory.high) or 1 (memory.limit_in_bytes), from its
 * own up to the root, or the memory of the machine. source_out is static text: "cgroup v2", "cgroup v1", "physical memory". */
uint64_t ot_os_memory_limit_bytes(const struct ot_os_files *files, const char **source_out);
/* CPUs that this process may use: affinity, bounded by the quota of its cgroups (rounded up). At least 1. */
uint32_t ot_os_cpu_count(const struct ot_os_files *files);

/* The kernel's boot id, 36 characters; it changes with each boot. IO when it cannot be read. */
OT_MUST_CHECK enum ot_err ot_os_boot_id(char out[static 37]);

/* The mount that holds path, as text to be compared: device, file system id, mount id. Unequal after an unmount and mount, and (so it is
 * careful, not exact) when a container is made anew. Before Linux 6.8 mount ids may be used again and a quick remount can go unseen. */
#define OT_OS_MOUNT_BYTES 96
OT_MUST_CHECK enum ot_err ot_os_mount_id(const char *path, char out[static OT_OS_MOUNT_BYTES]);

struct ot_os_process {
    uint64_t resident_bytes, virtual_bytes;
    uint64_t cpu_us;               /* user and system, of all threads */
    uint32_t open_fds, threads;
    uint64_t fds_max;              /* the soft limit */
    int64_t started_wall_ms;
};
/* What cannot be read stays 0. */
void ot_os_process(struct ot_os_process *out);

#endif
