/* Puts the house together and takes it apart: knows everyone, decides nothing.
 *
 * Up: configuration, memory budget, executors, broker (blocks until every log is open), doors.
 * Down: gRPC streams are told to connect again, doors stop accepting, broker flushes and writes its marker, doors close, broker goes, executors go. */
#include "cli/server.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/os.h"
#include "base/threads.h"
#include "base/util.h"
#include "broker/broker.h"
#include "broker/loggers.h"
#include "cli/dev_cluster.h"
#include "cli/grpc_door.h"
#include "cli/kafka_door.h"
#include "cli/peer_door.h"
#include "cli/rest_door.h"
#include "cli/server_config.h"
#include "cli/version.h"
#include "base/metrics.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

const struct cli_flag cli_server_flags[] = {
    { "config", 0, "FILE", false, "server.properties; default /etc/ottla/server.properties when it is there" },
    { "set", 0, "KEY=VALUE", true, "one configuration value, stronger than file and environment" },
    { "data", 0, "DIR", false, "short for --set log.dirs=DIR; default ./ottla-data" },
    { "dev", 0, "N", false, "N brokers on this machine as one cluster, for trying: ports in steps of ten, data in ./ottla-dev (or --data)" },
    { "check", 0, NULL, false, "read the configuration, say what is wrong with it, and exit" },
    { "print-config", 0, NULL, false, "print every value with its source, and exit" },
    { 0 },
};

enum { SHARD_THREADS_MAX = 16, CLEANER_THREADS_MAX = 16, SYNC_EACH_MAX = 32, START_WAIT_MS = 1000, SYNC_WAIT_MS = 3000 };
#define SMALL_REQUEST_BYTES 16384u            /* below a batch of the usual size: what clients ask, tell and poll for */

struct house {
    const struct cli_args *args;
    struct broker_config_store *config;
    struct ot_mem_budget budget;
    struct ot_exec_pool *io_pool, *flush_pool, *cleaner_pool;
    uint32_t cleaner_threads, io_threads;
    struct ot_exec_thread *background, *coordinator, *shards[SHARD_THREADS_MAX];
    struct ot_exec *shard_execs[SHARD_THREADS_MAX]; uint32_t shard_count;
    struct broker *broker;
    struct cli_kafka_door kafka;
    struct cli_rest_door rest;
    struct cli_grpc_door grpc;
    bool grpc_told;                        /* behind the Kafka listeners: where gRPC calls are taken */
    struct cli_peer_door peer;
    struct ot_metrics *metrics;
    struct broker_slow slow;               /* requests that took long, of every door */
    const char *log_level;                 /* as applied last */
    int64_t started_us;
};

static void config_changed(void *arg, const struct broker_config *now)
{
    struct house *house = arg;
    house->log_level = broker_loggers_follow(now, house->log_level);
}

static void set_up_log(struct house *house, const struct broker_config *config)
{
    ot_log_setup(OT_LOG_INFO, strcmp(config->ottla_log_format, "json") == 0 ? OT_LOG_JSON : OT_LOG_TEXT, STDERR_FILENO);
    house->log_level = broker_loggers_follow(config, NULL);
    broker_config_watch(house->config, config_changed, house);
}

static void raise_limits(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) ot_log(OT_LOG_WARN, "server", "descriptor_limit", "errno=%d", errno);
}

static enum ot_err start_executors(struct house *house, const struct broker_config *config)
{
    uint32_t cpus = ot_os_cpu_count(&ot_os_files_real);
    uint32_t io_threads = config->ottla_io_threads > 0 ? (uint32_t)config->ottla_io_threads : OT_MIN(OT_MAX(cpus * 2, 4u), 32u);
    house->io_threads = io_threads;
    enum ot_err err = ot_exec_pool_start("io", io_threads, &house->io_pool);
    if (err == OT_OK) err = ot_exec_pool_start("flush", 4, &house->flush_pool);
    house->cleaner_threads = OT_MIN(OT_MAX((uint32_t)config->log_cleaner_threads, cpus), (uint32_t)CLEANER_THREADS_MAX);
    if (err == OT_OK && config->log_cleaner_enable) err = ot_exec_pool_start("cleaner", house->cleaner_threads, &house->cleaner_pool);
    if (err == OT_OK) err = ot_exec_thread_start("background", &house->background);
    if (err == OT_OK) err = ot_exec_thread_start("coordinator", &house->coordinator);
    const uint32_t shards = OT_MIN(OT_MIN((uint32_t)config->group_coordinator_threads, OT_MAX(cpus, 1u)), (uint32_t)SHARD_THREADS_MAX);
    for (uint32_t i = 0; err == OT_OK && i < shards; i++) {
        err = ot_exec_thread_start("groups", &house->shards[i]);
        if (err == OT_OK) house->shard_execs[house->shard_count++] = ot_exec_thread_exec(house->shards[i]);
    }
    return err;
}

static enum ot_err start_budget(struct house *house, const struct broker_config *config)
{
    struct ot_mem_override overrides[] = {
        { "requests", config->queued_max_request_bytes > 0 ? (uint64_t)config->queued_max_request_bytes : 0 },
        { "decoding", (uint64_t)config->ottla_decode_bytes_max },
    };
    enum ot_err err = ot_mem_budget_init(&house->budget, (uint64_t)config->ottla_memory_bytes, ot_mem_specs, OT_MEM_POOL_COUNT, overrides, OT_ARRAY_COUNT(overrides));
    if (err == OT_OK)
        ot_log(OT_LOG_INFO, "server", "memory_budget", "bytes=%llu source=\"%s\"", (unsigned long long)house->budget.limit_bytes, house->budget.source);
    return err;
}

/* While the start waits for other brokers, signals are asked for. */
static bool told_to_stop(void *arg)
{
    sigset_t signals, pending;
    (void)arg;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    return sigpending(&pending) == 0 && (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

static enum ot_err start_broker(struct house *house)
{
    house->peer.setup.pool = ot_mem_pool_buffers(&house->budget.pools[OT_MEM_peers]);
    house->peer.setup.resolve_exec = ot_exec_pool_exec(house->io_pool);
    const uint32_t more = (house->grpc_told = cli_grpc_endpoint(&house->grpc, &house->kafka.listeners[house->kafka.listener_count])) ? 1 : 0;
    struct broker_setup setup = {
        .io = ot_io_real(),
        .config = house->config,
        .io_exec = ot_exec_pool_exec(house->io_pool),
        .sync_each_max = SYNC_EACH_MAX,
        .sync_wait_ms = SYNC_WAIT_MS,
        .apart = ot_exec_apart,
        .openings_max = OT_MAX(house->io_threads - 1, 1u),
        .start_wait_ms = START_WAIT_MS,
        .flush_exec = ot_exec_pool_exec(house->flush_pool),
        .background_exec = ot_exec_thread_exec(house->background),
        .coord_exec = ot_exec_thread_exec(house->coordinator),
        .shard_execs = house->shard_execs,
        .shard_exec_count = house->shard_count,
        .cleaner_exec = house->cleaner_pool == NULL ? NULL : ot_exec_pool_exec(house->cleaner_pool),
        .cleaner_threads = house->cleaner_threads,
        .cleaner_memory = &house->budget.pools[OT_MEM_cleaning],
        .groups_pool = &house->budget.pools[OT_MEM_groups],
        .sessions_pool = &house->budget.pools[OT_MEM_sessions],
        .metrics = house->metrics,
        .decode_pool = ot_mem_pool_buffers(&house->budget.pools[OT_MEM_decoding]),
        .listeners = house->kafka.listeners,
        .listener_count = house->kafka.listener_count + more,
        .peer = house->peer.wanted ? &house->peer.setup : NULL,
        .release = OTTLA_VERSION,
        .give_up = told_to_stop,
    };
    if (setup.decode_pool == NULL || house->peer.setup.pool == NULL) return OT_ERR_NO_MEMORY;
    enum ot_err err = broker_make(&setup, &house->broker);
    if (err == OT_OK) err = cli_peer_start(&house->peer, house->broker, &house->budget, ot_exec_pool_exec(house->io_pool), house->metrics);
    return err == OT_OK ? broker_begin(house->broker) : err;
}

static enum ot_err start_doors(struct house *house)
{
    struct rpc_kafka_setup kafka = {
        .listeners = house->kafka.doors,
        .listener_count = house->kafka.listener_count,
        .request_pool = ot_mem_pool_buffers(&house->budget.pools[OT_MEM_requests]),
        .small_pool = ot_mem_pool_buffers(&house->budget.pools[OT_MEM_small_requests]),
        .small_bytes = SMALL_REQUEST_BYTES,
        .response_pool = ot_mem_pool_buffers(&house->budget.pools[OT_MEM_responses]),
        .io = ot_io_real(),
        .io_exec = ot_exec_pool_exec(house->io_pool),
        .metrics = house->metrics,
        .slow = &house->slow,
    };
    if (kafka.request_pool == NULL || kafka.small_pool == NULL || kafka.response_pool == NULL) return OT_ERR_NO_MEMORY;
    return rpc_kafka_server_start(house->broker, &kafka, &house->kafka.server);
}

static void tell_build(struct house *house, double start_ms)
{
    const char *labels[] = { OTTLA_VERSION, OTTLA_COMMIT };
    ot_series_set(ot_series_get(house->metrics, OT_METRIC_build_info, labels), 1);
    ot_series_set(ot_series_get(house->metrics, OT_METRIC_start_duration_seconds, NULL), start_ms / 1000.0);
}

/* Commands that can be pasted: as this program was called, and with the address when it is not the usual one. */
static void say_next(const struct house *house, double ms)
{
    const struct broker_listener *first = &house->kafka.listeners[0];
    const bool everywhere = first->host[0] == 0 || strcmp(first->host, "0.0.0.0") == 0 || strcmp(first->host, "::") == 0;
    const char *host = everywhere ? "127.0.0.1" : first->host;
    char where[300] = "";
    if (strcmp(host, "127.0.0.1") != 0 || first->port != 9092)
        snprintf(where, sizeof(where), " -b %s%s%s:%d", strchr(host, ':') != NULL ? "[" : "", host, strchr(host, ':') != NULL ? "]" : "", first->port);
    fprintf(stderr, "ready in %.0f ms.  Next:  %s produce hello%s     %s consume hello --from earliest%s     Ctrl-C stops\n", ms, program_invocation_name, where,
        program_invocation_name, where);
}

/* The voters, and who of them coordinates; a lone one is said to be that. */
static void say_cluster(const struct broker_view *view, const struct broker_view_cluster *cluster, char *out, size_t out_bytes)
{
    struct broker_view_broker row;
    struct broker_view_voter voter;
    struct ot_arena arena;
    char voters[200] = "";
    size_t at = 0;
    uint32_t brokers = 0;
    ot_arena_init(&arena, 1 << 20);
    for (int32_t after = INT32_MIN; broker_view_next_broker(view, after, &arena, &row); after = row.id) {
        brokers++;
        if (!broker_view_voter(view, row.id, &voter) || at >= sizeof(voters) - 16) continue;
        at += (size_t)snprintf(voters + at, sizeof(voters) - at, "%s%d", at > 0 ? ", " : "", row.id);
    }
    ot_arena_free(&arena);
    if (brokers <= 1 && cluster->controller_id == cluster->this_broker) snprintf(out, out_bytes, "coordinator          (single node, replication factor 1)");
    else if (cluster->controller_id < 0) snprintf(out, out_bytes, "voters %s, no coordinator yet", voters);
    else snprintf(out, out_bytes, "voters %s, coordinator %d%s", voters, cluster->controller_id, cluster->controller_id == cluster->this_broker ? " (this one)" : "");
}

static void say_ready(struct house *house)
{
    const struct broker_config *config = broker_config_current(house->config);
    const struct broker_view *view = broker_view_take(house->broker);
    struct broker_view_cluster cluster;
    char dirs[4096], gib[64] = "", rest[1024];
    const char *paths[CLI_DIRS_MAX];
    struct statvfs space;
    double ms = (double)(ot_clock_boot_us() - house->started_us) / 1000.0;
    broker_view_cluster(view, &cluster);
    cli_rest_told(&house->rest, rest, sizeof(rest));
    tell_build(house, ms);
    uint32_t dir_count = cli_dirs_split(config->log_dirs, dirs, sizeof(dirs), paths, CLI_DIRS_MAX);
    if (dir_count > 0 && statvfs(paths[0], &space) == 0) snprintf(gib, sizeof(gib), "%.0f GiB free", (double)space.f_bavail * (double)space.f_frsize / 1073741824.0);
    if (isatty(STDERR_FILENO)) {
        char about[300];
        say_cluster(view, &cluster, about, sizeof(about));
        fprintf(stderr, "ottla %s   cluster %.*s   broker %d, %s\n", OTTLA_VERSION, (int)cluster.cluster_id.bytes, cluster.cluster_id.data, cluster.this_broker, about);
        fprintf(stderr, "  data     %-16s %s\n", config->log_dirs, gib);
        for (uint32_t i = 0; i < house->kafka.listener_count; i++) fprintf(stderr, "  kafka    %s:%d\n", house->kafka.listeners[i].host, house->kafka.listeners[i].port);
        if (house->peer.server != NULL) fprintf(stderr, "  peers    %s:%d\n", house->peer.advertised.host, house->peer.advertised.port);
        if (house->grpc.server != NULL) fprintf(stderr, "  grpc     %s\n", config->grpc_listeners);
        if (rest[0] != 0) fprintf(stderr, "  rest     %s\n", rest);
        say_next(house, ms);
    } else {
        ot_log(OT_LOG_INFO, "server", "ready", "version=%s cluster=%.*s broker=%d kafka=%s grpc=%s rest=%s data=%s start_ms=%.1f", OTTLA_VERSION,
            (int)cluster.cluster_id.bytes, cluster.cluster_id.data, cluster.this_broker, config->listeners, config->grpc_listeners == NULL ? "" : config->grpc_listeners, rest, config->log_dirs, ms);
    }
    broker_view_give(view);
}

static void take_down(struct house *house)
{
    cli_grpc_drain(&house->grpc);
    cli_kafka_unfollow(&house->kafka);
    if (house->broker != NULL) broker_stop(house->broker);
    cli_grpc_stop(&house->grpc, broker_config_current(house->config)->grpc_shutdown_grace_ms);
    cli_rest_stop(&house->rest);
    rpc_kafka_server_stop(house->kafka.server, 2000);
    rpc_kafka_server_free(house->kafka.server);
    if (house->broker != NULL) broker_leave(house->broker);
    cli_peer_stop(&house->peer);
    if (house->broker != NULL) broker_close(house->broker);
    for (uint32_t i = 0; i < house->shard_count; i++) ot_exec_thread_stop(house->shards[i]);
    ot_exec_thread_stop(house->coordinator);
    ot_exec_pool_stop(house->io_pool);
    ot_exec_pool_stop(house->flush_pool);
    ot_exec_pool_stop(house->cleaner_pool);
    ot_exec_thread_stop(house->background);
    ot_metrics_free(house->metrics);
    ot_mem_budget_free(&house->budget);
    broker_slow_free(&house->slow);
    broker_config_store_free(house->config);
}

/* The file may be half written, or wrong: then all stays as it is. */
static void reload(struct house *house)
{
    struct broker_config_store *fresh = NULL;
    char why[512] = "", field[OT_LOG_FIELD_BYTES];
    const char *path = cli_server_config_file(house->args);
    if (path == NULL) {
        ot_log(OT_LOG_INFO, "config", "no_file_to_reload", "reason=\"the server was started without a configuration file\"");
        return;
    }
    enum ot_err err = broker_config_store_new(&fresh);
    if (err == OT_OK) err = broker_config_load_file(fresh, path, why, sizeof(why));
    if (err == OT_OK) broker_reload(house->broker, fresh);
    else ot_log(OT_LOG_ERROR, "config", "file_not_reloaded", "path=%s reason=%s", path, ot_log_field(field, why[0] != 0 ? why : ot_err_text(err)));
    broker_config_store_free(fresh);
}

static int wait_for_signal(struct house *house, const sigset_t *signals)
{
    for (;;) {
        int number = 0;
        if (sigwait(signals, &number) != 0) continue;
        if (number == SIGHUP) {
            reload(house);
            continue;
        }
        ot_log(OT_LOG_INFO, "server", "stopping", "signal=%s", number == SIGINT ? "SIGINT" : "SIGTERM");
        return number;
    }
}

static int run(struct house *house)
{
    const struct broker_config *config = broker_config_current(house->config);
    char why[300] = "";
    sigset_t signals;
    set_up_log(house, config);
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);            /* before threads: they inherit it */
    ot_guard_install();
    ot_threads_install();
    raise_limits();
    int code = cli_kafka_read(&house->kafka, config);
    if (code < 0) code = cli_grpc_read(&house->grpc, config);
    if (code < 0) code = cli_peer_read(&house->peer, config);
    if (code < 0) code = cli_kafka_bind(&house->kafka, config);
    if (code < 0) code = cli_peer_bind(&house->peer, config);
    if (code < 0) code = cli_rest_bind(&house->rest, config);
    if (code >= 0) return code;
    house->metrics = ot_metrics_new((uint32_t)config->metrics_series_max);
    enum ot_err err = house->metrics == NULL ? OT_ERR_NO_MEMORY : start_budget(house, config);
    if (err == OT_OK) err = start_executors(house, config);
    if (err == OT_OK) {
        ot_metrics_watch_process(house->metrics);
        ot_mem_watch(&house->budget, house->metrics);
        ot_exec_pool_watch(house->io_pool, house->metrics);
    }
    if (err == OT_OK && (code = cli_grpc_bind(&house->grpc, config, &house->budget, ot_exec_pool_exec(house->io_pool), house->io_threads, house->metrics)) >= 0) return code;
    if (err == OT_OK) cli_rest_wait(&house->rest);
    if (err == OT_OK) err = start_broker(house);
    if (err == OT_OK) err = start_doors(house);
    if (err == OT_OK) cli_kafka_follow(&house->kafka, house->broker, house->config, ot_exec_pool_exec(house->io_pool), house->grpc_told ? &house->kafka.listeners[house->kafka.listener_count] : NULL);
    if (err == OT_OK) err = cli_grpc_start(&house->grpc, house->broker);
    if (err == OT_OK) err = cli_rest_start(&house->rest, house->broker, house->kafka.server, &house->budget, house->metrics, &house->slow, house->peer.wanted, why, sizeof(why));
    if (err == OT_ERR_CANCELLED) {
        ot_log(OT_LOG_INFO, "server", "stopping", "text=\"told to stop while it waited for other brokers\"");
        return CLI_DONE;
    }
    if (err == OT_ERR_LOCKED)
        return cli_fail(CLI_CONFLICT, "ottla server --data OTHER-DIRECTORY, or stop the other one", "the server did not start: another server uses the data in %s", config->log_dirs);
    if (err != OT_OK) return cli_fail(CLI_FAILED, NULL, "the server did not start: %s", why[0] != 0 ? why : ot_err_text(err));
    broker_wait_electable(house->broker);
    say_ready(house);
    (void)wait_for_signal(house, &signals);
    return CLI_DONE;
}

/* What would stop a start before anything is opened, beyond single values. */
static int check(struct house *house)
{
    const struct broker_config *config = broker_config_current(house->config);
    struct ot_net_address rest[CLI_LISTENERS_MAX];
    char why[400] = "";
    if (cli_rest_addresses(config->rest_listeners, rest, CLI_LISTENERS_MAX, why, sizeof(why)) < 0) return cli_fail(CLI_USAGE, NULL, "rest.listeners: %s", why);
    const int code = cli_kafka_read(&house->kafka, config);
    if (code >= 0) return code;
    struct cli_peer_door peer = { 0 };
    const int wrong = cli_peer_read(&peer, config);
    explicit_bzero(peer.secret, sizeof(peer.secret));
    return wrong < 0 ? cli_grpc_read(&house->grpc, config) : wrong;
}

int cli_server_run(const struct cli_args *args)
{
    struct house house = { .args = args, .started_us = ot_clock_boot_us() };
    broker_slow_init(&house.slow);
    if (broker_config_store_new(&house.config) != OT_OK) return cli_fail(CLI_FAILED, NULL, "out of memory");
    int code = cli_server_config(args, house.config);
    if (code < 0 && cli_flag_given(args, "print-config")) code = cli_server_print_config(house.config);
    if (code < 0 && cli_flag_given(args, "check")) code = check(&house);
    if (code < 0 && cli_flag_given(args, "check")) {
        puts("the configuration is good");
        code = CLI_DONE;
    }
    if (code < 0 && cli_flag_given(args, "dev")) code = cli_dev_cluster_run(args, broker_config_current(house.config), cli_flag_value(args, "dev"));
    if (code < 0) code = run(&house);
    take_down(&house);
    return code;
}
