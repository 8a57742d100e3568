#include "cli/port.h"
#include "base/macros.h"
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PIDS_MAX = 65536 };

unsigned long cli_port_inode(uint16_t port)
{
    static const char *const files[] = {"/proc/net/tcp", "/proc/net/tcp6"};
    for (size_t i = 0; i < OT_ARRAY_COUNT(files); i++) {
        char line[512];
        FILE *file = fopen(files[i], "re");
        while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
            unsigned local_port = 0, state = 0;
            unsigned long inode = 0;
            if (sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*s %*s %lu", &local_port, &state, &inode) == 3 && state == 0x0a && local_port == port) {
                (void)fclose(file);
                return inode;
            }
        }
        if (file != NULL) (void)fclose(file);
    }
    return 0;
}

static bool holds(const char *pid, unsigned long inode)
{
    char path[300], wanted[40], link[64];
    bool found = false;
    snprintf(path, sizeof(path), "/proc/%s/fd", pid);
    snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
    DIR *fds = opendir(path);
    for (struct dirent *entry; fds != NULL && !found && (entry = readdir(fds)) != NULL;) {
        char fd_path[600];
        snprintf(fd_path, sizeof(fd_path), "%s/%s", path, entry->d_name);
        const ssize_t bytes = readlink(fd_path, link, sizeof(link) - 1);
        if (bytes <= 0) continue;
        link[bytes] = 0;
        found = strcmp(link, wanted) == 0;
    }
    if (fds != NULL) (void)closedir(fds);
    return found;
}

static bool holder_pid(unsigned long inode, char pid[static 24])
{
    DIR *all = opendir("/proc");
    bool found = false;
    int seen = 0;
    for (struct dirent *entry; all != NULL && !found && seen < PIDS_MAX && (entry = readdir(all)) != NULL;) {
        if (!isdigit((unsigned char)entry->d_name[0])) continue;
        seen++;
        if (!holds(entry->d_name, inode)) continue;
        snprintf(pid, 24, "%.20s", entry->d_name);
        found = true;
    }
    if (all != NULL) (void)closedir(all);
    return found;
}

bool cli_port_holder(unsigned long inode, char *out, size_t out_bytes)
{
    char pid[24], path[64], name[64] = "?";
    if (!holder_pid(inode, pid)) return false;
    snprintf(path, sizeof(path), "/proc/%s/comm", pid);
    FILE *file = fopen(path, "re");
    if (file != NULL && fgets(name, sizeof(name), file) != NULL) name[strcspn(name, "\n")] = 0;
    if (file != NULL) (void)fclose(file);
    snprintf(out, out_bytes, "%s (pid %s)", name, pid);
    return true;
}

bool cli_port_holder_cwd(uint16_t port, char *out, size_t out_bytes)
{
    char pid[24], path[64];
    const unsigned long inode = port == 0 ? 0 : cli_port_inode(port);
    if (inode == 0 || !holder_pid(inode, pid)) return false;
    snprintf(path, sizeof(path), "/proc/%s/cwd", pid);
    const ssize_t bytes = readlink(path, out, out_bytes - 1);
    if (bytes <= 0 || (size_t)bytes == out_bytes - 1) return false;
    out[bytes] = 0;
    return true;
}

const char *cli_port_taken(uint16_t port, char out[static CLI_PORT_TAKEN_BYTES])
{
    char holder[128];
    const unsigned long inode = port == 0 ? 0 : cli_port_inode(port);
    out[0] = 0;
    if (inode != 0 && cli_port_holder(inode, holder, sizeof(holder))) snprintf(out, CLI_PORT_TAKEN_BYTES, ": %s has it", holder);
    return out;
}
