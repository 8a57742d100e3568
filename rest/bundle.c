/* GET /v1/diagnostics/bundle: what those who help would ask for one after the other, in one file: the answers of our own routes, the last log lines, and what the system says
 * about the process. No record, no password, no token: secrets are not in those answers, and the log never holds them. Names of topics, groups, clients and addresses are. */
#include "base/log.h"
#include "base/util.h"
#include "rest/handlers.h"
#include "rest/inside.h"
#include "rest/tar.h"
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FILE_BYTES_MAX = 256 << 10 };

static const struct { const char *name, *target; /* %d: this broker */ } answers[] = {
    { "version.json", "/v1/version" },
    { "cluster.json", "/v1/cluster" },
    { "health.json", "/v1/cluster/health" },
    { "ready.json", "/readyz?verbose" },
    { "brokers.json", "/v1/brokers?limit=1000" },
    { "features.json", "/v1/cluster/features" },
    { "config-cluster.json", "/v1/cluster/config" },
    { "config-broker.json", "/v1/brokers/%d/config" },
    { "loggers.json", "/v1/brokers/%d/loggers" },
    { "log-dirs.json", "/v1/log-dirs" },
    { "connections.json", "/v1/brokers/%d/connections?limit=1000" },
    { "topics.json", "/v1/topics?limit=1000&with=size" },
    { "partitions.json", "/v1/brokers/%d/partitions?limit=1000" },
    { "groups.json", "/v1/groups?limit=1000" },
    { "transactions.json", "/v1/transactions?limit=1000" },
    { "producers.json", "/v1/producers?limit=1000" },
    { "jobs.json", "/v1/jobs?limit=1000" },
    { "metrics.json", "/v1/metrics?window=5m" },
    { "metrics.txt", "/metrics" },
    { "memory.json", "/v1/diagnostics/memory" },
    { "slow-requests.json", "/v1/diagnostics/slow-requests?limit=1000" },
    { "threads.json", "/v1/diagnostics/threads?stacks&limit=1000" },
};

static const struct { const char *name, *path; } files[] = {
    { "system/status.txt", "/proc/self/status" },
    { "system/limits.txt", "/proc/self/limits" },
    { "system/io.txt", "/proc/self/io" },
    { "system/cgroup.txt", "/proc/self/cgroup" },
    { "system/mounts.txt", "/proc/self/mountinfo" },
    { "system/meminfo.txt", "/proc/meminfo" },
    { "system/loadavg.txt", "/proc/loadavg" },
    { "system/cpu-pressure.txt", "/proc/pressure/cpu" },
    { "system/io-pressure.txt", "/proc/pressure/io" },
    { "system/memory-pressure.txt", "/proc/pressure/memory" },
    { "system/diskstats.txt", "/proc/diskstats" },
    { "system/netstat.txt", "/proc/net/netstat" },
    { "system/sockets.txt", "/proc/net/sockstat" },
    { "system/kernel.txt", "/proc/version" },
};

static const char about[] =
    "Diagnostics of one ottla broker, made at one moment: what its REST API answers (*.json, metrics.txt), its last log lines (log.txt), and what the\n"
    "system says about the process (system/). Records, passwords and tokens are not in it; names of topics, groups, clients, hosts and addresses are.\n"
    "Lists hold at most 1000 rows. threads.json says where every thread was; slow-requests.json what took longer than ottla.slow.request.ms, and where.\n";

struct bundle { struct rest_call *call; struct rest_tar *tar; uint32_t at; char folder[64]; };

static void add(struct bundle *bundle, const char *name, const char *data, size_t bytes)
{
    char path[100];
    snprintf(path, sizeof(path), "%s/%s", bundle->folder, name);
    rest_tar_file(bundle->tar, path, data, bytes);
}

/* Nothing when it cannot be read: not every kernel has each. */
static void add_file(struct bundle *bundle, const char *name, const char *path)
{
    char *text = malloc(FILE_BYTES_MAX);
    const int fd = text == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    size_t bytes = 0;
    for (ssize_t more; fd >= 0 && bytes < FILE_BYTES_MAX && (more = read(fd, text + bytes, FILE_BYTES_MAX - bytes)) > 0;) bytes += (size_t)more;
    if (fd >= 0) close(fd);
    if (bytes > 0) add(bundle, name, text, bytes);
    free(text);
}

static void add_log(struct bundle *bundle)
{
    char *text = malloc(OT_LOG_RECENT_BYTES);
    if (text != NULL) add(bundle, "log.txt", text, ot_log_recent(text, OT_LOG_RECENT_BYTES));
    free(text);
}

static void end(struct bundle *bundle)
{
    struct rest_call *call = bundle->call;
    char *disposition = ot_arena_alloc(&call->arena, 160);
    call->server->bundling = false;
    for (size_t i = 0; i < OT_ARRAY_COUNT(files); i++) add_file(bundle, files[i].name, files[i].path);
    add_log(bundle);
    if (!rest_tar_end(bundle->tar) || disposition == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the bundle");
        return;
    }
    snprintf(disposition, 160, "attachment; filename=\"%s.tar.gz\"", bundle->folder);
    rest_header(call, "Content-Disposition", disposition);
    rest_reply_raw(call, 200, "application/gzip");
}

static void next(struct bundle *bundle);

static void answered(struct rest_call *inner)
{
    struct bundle *bundle = inner->inner_arg;
    if (inner->out.data != NULL) add(bundle, answers[bundle->at].name, inner->out.data, inner->out.bytes);
    rest_inner_free(inner);
    bundle->at++;
    next(bundle);
}

/* One after the other; what cannot be asked is left out. */
static void next(struct bundle *bundle)
{
    for (; bundle->at < OT_ARRAY_COUNT(answers) && !bundle->call->stopping; bundle->at++) {
        const char *target = answers[bundle->at].target, *broker = strstr(target, "%d");
        char whole[128];
        if (broker == NULL) snprintf(whole, sizeof(whole), "%s", target);
        else snprintf(whole, sizeof(whole), "%.*s%d%s", (int)(broker - target), target, broker_node_id(bundle->call->broker), broker + 2);
        if (rest_inner_get(bundle->call, whole, true, answered, bundle)) return;
    }
    end(bundle);
}

void rest_bundle(struct rest_call *call)
{
    const int64_t now_s = ot_clock_wall_ms() / 1000;
    const time_t now = (time_t)now_s;
    struct tm parts;
    char stamp[32] = "";
    if (call->server->bundling) {
        rest_problem_http(call, "HTTP_SERVICE_UNAVAILABLE", "a bundle is being made for somebody else");
        return;
    }
    struct bundle *bundle = ot_arena_alloc(&call->arena, sizeof(*bundle));
    if (bundle != NULL) bundle->tar = rest_tar_begin(&call->out, now_s);
    if (bundle == NULL || bundle->tar == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the bundle");
        return;
    }
    bundle->call = call;
    if (gmtime_r(&now, &parts) != NULL) strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &parts);
    snprintf(bundle->folder, sizeof(bundle->folder), "ottla-diagnostics-%d-%s", broker_node_id(call->broker), stamp);
    call->server->bundling = true;
    add(bundle, "README.txt", about, sizeof(about) - 1);
    next(bundle);
}
