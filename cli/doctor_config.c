/* The configuration: what does not go together, whether its directories can be written and have room, whether its ports are free. */
#include "base/net/address.h"
#include "broker/config_checks.h"
#include "cli/doctor.h"
#include "cli/port.h"
#include "cli/rest_door.h"
#include "cli/server_config.h"
#include "cli/text.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

/* ---- keys that do not go together */

static void traps(struct cli_doctor *doctor)
{
    const struct broker_config *config = doctor->config;
    uint32_t found = doctor->problems + doctor->warnings;
    if (config->default_replication_factor > 0 && config->min_insync_replicas > config->default_replication_factor)
        cli_doctor_tell(doctor, CLI_FINDING_WARNING, "configuration", "lower min.insync.replicas, or raise default.replication.factor",
            "min.insync.replicas=%d is above default.replication.factor=%d: acks=all needs every replica of a new topic, and is refused while one is away", config->min_insync_replicas, config->default_replication_factor);
    if (config->message_max_bytes > config->socket_request_max_bytes)
        cli_doctor_tell(doctor, CLI_FINDING_PROBLEM, "configuration", "raise socket.request.max.bytes", "message.max.bytes=%d is above socket.request.max.bytes=%d: such a batch is never taken",
            config->message_max_bytes, config->socket_request_max_bytes);
    if (config->message_max_bytes > config->log_segment_bytes)
        cli_doctor_tell(doctor, CLI_FINDING_WARNING, "configuration", "raise log.segment.bytes", "message.max.bytes=%d is above log.segment.bytes=%d: one batch can fill a segment", config->message_max_bytes,
            config->log_segment_bytes);
    if (config->unclean_leader_election_enable)
        cli_doctor_tell(doctor, CLI_FINDING_WARNING, "configuration", "set unclean.leader.election.enable=false, and true for topics that may lose records",
            "unclean.leader.election.enable=true: a replica that lags may lead, and what it lacks is lost");
    if (config->log_retention_ms >= 0 && config->log_retention_ms < 60000)
        cli_doctor_tell(doctor, CLI_FINDING_WARNING, "configuration", "log.retention.ms is in milliseconds; log.retention.hours and .minutes are taken too", "records are kept for %lld ms", (long long)config->log_retention_ms);
    if (config->log_flush_interval_messages == 1)
        cli_doctor_tell(doctor, CLI_FINDING_NOTE, "configuration", "ottla.durability says the same by name, and gathers", "log.flush.interval.messages=1: every batch waits for the disk");
    if (strcmp(config->ottla_durability, "replicated") == 0 && config->default_replication_factor == 1)
        cli_doctor_tell(doctor, CLI_FINDING_WARNING, "configuration", "ottla.durability=auto, or more replicas", "ottla.durability=replicated with one replica: acknowledged records are lost with the power");
    if (config->auto_create_topics_enable) cli_doctor_tell(doctor, CLI_FINDING_NOTE, "configuration", "auto.create.topics.enable=false where a mistyped name must not make a topic", "topics are made when a client first asks for them");
    if (found == doctor->problems + doctor->warnings) cli_doctor_tell(doctor, CLI_FINDING_OK, "configuration", NULL, "its keys go together");
}

static void exposure(struct cli_doctor *doctor)
{
    struct ot_net_address list[CLI_LISTENERS_MAX];
    char why[300];
    const int count = cli_addresses_parse(doctor->config->listeners, list, CLI_LISTENERS_MAX, why, sizeof(why));
    for (int i = 0; i < count; i++)
        if (!ot_net_is_loopback(list[i].host) && !broker_config_listener_is_controllers(doctor->config->controller_listener_names, list[i].scheme))
            cli_doctor_tell(doctor, CLI_FINDING_WARNING, "exposure", "listen on loopback, or let a firewall decide who reaches it", "listeners names %s port %u without authentication: whoever reaches it may do everything",
                list[i].host[0] == 0 ? "every address" : list[i].host, list[i].port);
    const int told = cli_addresses_parse(doctor->config->advertised_listeners, list, CLI_LISTENERS_MAX, why, sizeof(why));
    for (int i = 0; i < told; i++)
        if (list[i].host[0] == 0 || strcmp(list[i].host, "0.0.0.0") == 0 || strcmp(list[i].host, "::") == 0)
            cli_doctor_tell(doctor, CLI_FINDING_PROBLEM, "advertised", "name the host as clients reach it", "advertised.listeners says %s: clients cannot connect to that", list[i].host[0] == 0 ? "no host" : list[i].host);
}

/* ---- disks */

/* Kinds that lose or delay what is synced. */
static const char *bad_kind(const char *path, bool *lost_out)
{
    static const struct { long magic; const char *name; bool lost; } kinds[] = {
        {0x01021994, "tmpfs", true}, {0x858458f6, "ramfs", true}, {0x794c7630, "overlayfs", true}, {0x6969, "NFS", false}, {0xff534d42, "CIFS", false}, {0x65735546, "FUSE", false},
    };
    struct statfs kind;
    if (statfs(path, &kind) != 0) return NULL;
    for (size_t i = 0; i < OT_ARRAY_COUNT(kinds); i++) {
        if ((long)kind.f_type != kinds[i].magic) continue;
        *lost_out = kinds[i].lost;
        return kinds[i].name;
    }
    return NULL;
}

/* The directory, or what it would be made in. */
static const char *existing(const char *dir, char *out, size_t out_bytes)
{
    struct stat stat_of;
    snprintf(out, out_bytes, "%s", dir);
    while (stat(out, &stat_of) != 0) {
        char *slash = strrchr(out, '/');
        if (slash == NULL) snprintf(out, out_bytes, ".");
        else if (slash == out) snprintf(out, out_bytes, "/");
        else *slash = 0;
        if (strcmp(out, ".") == 0 || strcmp(out, "/") == 0) break;
    }
    return out;
}

static void room(struct cli_doctor *doctor, const char *dir, const struct statvfs *space)
{
    const uint64_t free_bytes = (uint64_t)space->f_bavail * space->f_frsize, total = (uint64_t)space->f_blocks * space->f_frsize;
    const uint64_t warn = (uint64_t)doctor->config->ottla_disk_free_warn_bytes, refuse = (uint64_t)doctor->config->ottla_disk_free_refuse_bytes;
    char left[24], all[24], limit[24];
    cli_human_bytes(free_bytes, left);
    cli_human_bytes(total, all);
    if (free_bytes < refuse)
        cli_doctor_tell(doctor, CLI_FINDING_PROBLEM, "disk", "delete topics or records, shorten retention, or add space", "%s: %s of %s free, produce is refused below %s (ottla.disk.free.refuse.bytes)", dir, left, all,
            cli_human_bytes(refuse, limit));
    else if (free_bytes < warn)
        cli_doctor_tell(doctor, CLI_FINDING_WARNING, "disk", "shorten retention or add space before it is refused", "%s: %s of %s free, below ottla.disk.free.warn.bytes", dir, left, all);
    else cli_doctor_tell(doctor, CLI_FINDING_OK, "disk", NULL, "%s: %s of %s free", dir, left, all);
    if (space->f_files > 0 && space->f_favail < 10000)
        cli_doctor_tell(doctor, CLI_FINDING_WARNING, "inodes", "a file system made with more inodes", "%s: %llu inodes free, and a segment takes four", dir, (unsigned long long)space->f_favail);
}

static void disk(struct cli_doctor *doctor, const char *dir)
{
    char path[4200];
    struct statvfs space;
    bool lost = false;
    const char *at = existing(dir, path, sizeof(path));
    if (access(at, W_OK) != 0) {
        cli_doctor_tell(doctor, CLI_FINDING_PROBLEM, "disk", "chown it to the user of the server, or name another with --data", "%s cannot be written: %s", at, strerrorname_np(errno));
        return;
    }
    if (statvfs(at, &space) != 0) {
        cli_doctor_tell(doctor, CLI_FINDING_PROBLEM, "disk", NULL, "%s: the system tells nothing of its file system (%s)", at, strerrorname_np(errno));
        return;
    }
    if ((space.f_flag & ST_RDONLY) != 0) cli_doctor_tell(doctor, CLI_FINDING_PROBLEM, "disk", "mount it for writing", "%s lies on a read-only file system", dir);
    room(doctor, dir, &space);
    const char *kind = bad_kind(at, &lost);
    if (kind != NULL && lost) cli_doctor_tell(doctor, CLI_FINDING_WARNING, "disk", "a volume of its own, on a disk", "%s lies on %s: its records go with it", dir, kind);
    else if (kind != NULL) cli_doctor_tell(doctor, CLI_FINDING_WARNING, "disk", "a local disk", "%s lies on %s: syncs are slow, and locks and mapped files may not be what they seem", dir, kind);
}

static void disks(struct cli_doctor *doctor)
{
    char storage[4096];
    const char *dirs[CLI_DIRS_MAX];
    const uint32_t count = cli_dirs_split(doctor->config->log_dirs, storage, sizeof(storage), dirs, CLI_DIRS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        struct stat mine, other;
        disk(doctor, dirs[i]);
        for (uint32_t k = 0; k < i; k++)
            if (stat(dirs[i], &mine) == 0 && stat(dirs[k], &other) == 0 && mine.st_dev == other.st_dev)
                cli_doctor_tell(doctor, CLI_FINDING_NOTE, "disk", "one directory for each file system", "%s and %s share a file system: they fill up and fail together", dirs[k], dirs[i]);
    }
}

/* ---- ports */

static void port(struct cli_doctor *doctor, const char *key, const struct ot_net_address *address)
{
    char holder[128] = "a process that this user may not see", why[300], advice[200];
    int fds[OT_NET_SOCKETS_MAX];
    uint32_t count = 0;
    uint16_t bound;
    if (address->port == 0) return;
    const unsigned long inode = cli_port_inode(address->port);
    if (inode != 0 && cli_port_holder(inode, holder, sizeof(holder)) && strncmp(holder, "ottla ", 6) == 0) {
        cli_doctor_tell(doctor, CLI_FINDING_OK, "port", NULL, "%s: %u is held by %s", key, address->port, holder);
        return;
    }
    const enum ot_err err = ot_net_listen(address->host, address->port, 1, fds, &count, &bound, why, sizeof(why));
    for (uint32_t i = 0; err == OT_OK && i < count; i++) close(fds[i]);
    snprintf(advice, sizeof(advice), "end it, or another port: --set %s=…", key);
    if (err == OT_OK) cli_doctor_tell(doctor, CLI_FINDING_OK, "port", NULL, "%s: %u is free", key, address->port);
    else if (err == OT_ERR_EXISTS) cli_doctor_tell(doctor, CLI_FINDING_PROBLEM, "port", advice, "%s: %u is held by %s", key, address->port, holder);
    else cli_doctor_tell(doctor, CLI_FINDING_PROBLEM, "port", "an address of this machine, and a port that the user may bind", "%s: %s", key, why[0] != 0 ? why : ot_err_text(err));
}

static void ports(struct cli_doctor *doctor)
{
    const struct { const char *key, *list; } lists[] = {
        {"listeners", doctor->config->listeners}, {"rest.listeners", doctor->config->rest_listeners}, {"grpc.listeners", doctor->config->grpc_listeners}, {"peer.listeners", doctor->config->peer_listeners},
    };
    for (size_t i = 0; i < OT_ARRAY_COUNT(lists); i++) {
        struct ot_net_address addresses[CLI_LISTENERS_MAX];
        char why[300];
        const int count = cli_rest_addresses(lists[i].list, addresses, CLI_LISTENERS_MAX, why, sizeof(why));
        if (count < 0) cli_doctor_tell(doctor, CLI_FINDING_PROBLEM, "configuration", "PLAINTEXT://host:port, http://host:port, host:port", "%s: %s", lists[i].key, why);
        for (int k = 0; k < count; k++) {
            const bool left_out = i == 0 && broker_config_listener_is_controllers(doctor->config->controller_listener_names, addresses[k].scheme);
            if (strcmp(addresses[k].scheme, "unix") != 0 && !left_out) port(doctor, lists[i].key, &addresses[k]);
        }
    }
}

void cli_doctor_config(struct cli_doctor *doctor)
{
    traps(doctor);
    exposure(doctor);
    disks(doctor);
    ports(doctor);
}
