/* Is it alive, may clients be sent here, is anything wrong.
 *
 * alive   our executor runs (it answers) and the I/O pool takes work: a task that has not come back for ten seconds says no
 * ready   recovery is done, the broker is registered and serves, no log directory is offline
 * checks  what an operator would be woken for */
#include "base/util.h"
#include "broker/log_dirs.h"
#include "rest/checks.h"
#include "rest/handlers.h"
#include "rest/inside.h"
#include "rest/topic_view.h"
#include <string.h>

enum { DIRS_MAX = 64, OFFENDERS_MAX = 100, BEAT_LATE_US = 10000000 };

/* ---- checks */

struct check_run {
    struct rest_call *call;
    const struct broker_view *view;
    bool write;                                /* offenders into call->out */
    uint32_t count;
};

static void offend_partition(struct check_run *run, const struct broker_view_topic *topic, const struct broker_view_partition *row)
{
    struct rest_json *out = &run->call->out;
    if (run->count++ >= OFFENDERS_MAX || !run->write) return;
    rest_json_open(out, NULL, '{');
    rest_json_str(out, "topic", topic->name);
    rest_json_int(out, "partition", row->index);
    rest_osr_write(out, "osr", row);
    rest_json_close(out, '}');
}

static void each_partition(struct check_run *run, uint32_t flag)
{
    struct broker_view_topic topic;
    struct broker_view_partition row;
    uint8_t room[8192];
    struct ot_arena arena;
    ot_arena_init_with(&arena, room, sizeof(room), 256 << 10);
    for (struct ot_str after = { .null = true }; broker_view_next_topic(run->view, after, &topic); after = topic.name) {
        for (int32_t i = 0; i < topic.partition_count; i++) {
            ot_arena_reset(&arena);
            if (broker_view_partition(run->view, &topic.id, i, &arena, &row) && (rest_partition_flags(&row) & flag) != 0) offend_partition(run, &topic, &row);
        }
    }
    ot_arena_free(&arena);
}

static void no_offline_partitions(struct check_run *run) { each_partition(run, REST_PART_OFFLINE); }
static void no_under_min_isr(struct check_run *run) { each_partition(run, REST_PART_UNDER_MIN_ISR); }
static void no_under_replicated(struct check_run *run) { each_partition(run, REST_PART_UNDER_REPLICATED); }

static void controller_active(struct check_run *run)
{
    struct broker_view_cluster cluster;
    broker_view_cluster(run->view, &cluster);
    run->count += cluster.controller_id < 0;
}

static void disks(struct check_run *run, bool space)
{
    struct broker_log_dir dirs[DIRS_MAX];
    const uint32_t count = OT_MIN(broker_log_dirs(run->call->broker, dirs, DIRS_MAX), (uint32_t)DIRS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        if (space ? dirs[i].space == BROKER_LOG_DIR_OK : !dirs[i].offline) continue;
        if (run->count++ >= OFFENDERS_MAX || !run->write) continue;
        rest_json_open(&run->call->out, NULL, '{');
        rest_json_int(&run->call->out, "broker", broker_node_id(run->call->broker));
        rest_json_text(&run->call->out, "log_dir", dirs[i].path);
        if (space) rest_json_big(&run->call->out, "free_bytes", (int64_t)dirs[i].free_bytes);
        rest_json_close(&run->call->out, '}');
    }
}

static void disk_free(struct check_run *run) { disks(run, true); }
static void log_dirs_online(struct check_run *run) { disks(run, false); }

static const struct { const char *name; bool failing; void (*run)(struct check_run *run); } checks[] = {
    { "no_offline_partitions", true, no_offline_partitions },
    { "no_under_min_isr", true, no_under_min_isr },
    { "no_under_replicated", false, no_under_replicated },
    { "controller_active", true, controller_active },
    { "disk_free", false, disk_free },
    { "log_dirs_online", false, log_dirs_online },
};

const char *rest_checks_status(struct rest_call *call, const struct broker_view *view)
{
    bool degraded = false;
    for (uint32_t i = 0; i < OT_ARRAY_COUNT(checks); i++) {
        struct check_run run = { .call = call, .view = view };
        checks[i].run(&run);
        if (run.count > 0 && checks[i].failing) return "failing";
        degraded |= run.count > 0;
    }
    return degraded ? "degraded" : "ok";
}

static bool write_check(struct rest_call *call, const struct broker_view *view, uint32_t index)
{
    struct rest_json *out = &call->out;
    struct check_run run = { .call = call, .view = view, .write = true };
    rest_json_open(out, NULL, '{');
    rest_json_text(out, "name", checks[index].name);
    rest_json_open(out, "offenders", '[');
    checks[index].run(&run);
    rest_json_close(out, ']');
    rest_json_bool(out, "ok", run.count == 0);
    rest_json_int(out, "count", run.count);
    rest_json_close(out, '}');
    return run.count == 0;
}

void rest_cluster_health(struct rest_call *call)
{
    const struct broker_view *view = broker_view_take(call->broker);
    rest_json_open(&call->out, NULL, '{');
    rest_json_text(&call->out, "status", rest_checks_status(call, view));
    rest_json_open(&call->out, "checks", '[');
    for (uint32_t i = 0; i < OT_ARRAY_COUNT(checks); i++) (void)write_check(call, view, i);
    rest_json_close(&call->out, ']');
    rest_json_close(&call->out, '}');
    broker_view_give(view);
    rest_reply_json(call, 200);
}

void rest_health_check(struct rest_call *call)
{
    const struct ot_str name = rest_param(call, 0);
    for (uint32_t i = 0; i < OT_ARRAY_COUNT(checks); i++) {
        if (!ot_str_equal(name, ot_str_of(checks[i].name))) continue;
        const struct broker_view *view = broker_view_take(call->broker);
        const bool good = write_check(call, view, i);
        broker_view_give(view);
        rest_reply_json(call, good ? 200 : 503);
        return;
    }
    rest_problem_more(call, OT_ERR_RESOURCE_NOT_FOUND, NULL, "GET /v1/cluster/health", "there is no check of that name");
}

/* ---- probes */

void rest_healthz(struct rest_call *call)
{
    const struct rest_server *server = call->server;
    const bool late = server->beat_us != 0 && ot_clock_boot_us() - server->beat_us > BEAT_LATE_US;
    rest_json_open(&call->out, NULL, '{');
    rest_json_text(&call->out, "status", late ? "failing" : "ok");
    if (late) rest_json_text(&call->out, "reason", "the I/O threads have taken no work for more than 10 s");
    rest_json_close(&call->out, '}');
    rest_reply_json(call, late ? 503 : 200);
}

static void write_row(struct rest_json *out, const char *name, bool good, const char *detail)
{
    rest_json_open(out, NULL, '{');
    rest_json_text(out, "name", name);
    rest_json_bool(out, "ok", good);
    rest_json_text(out, "detail", detail);
    rest_json_close(out, '}');
}

void rest_readyz(struct rest_call *call)
{
    struct rest_json *out = &call->out;
    struct broker_health health;
    struct check_run offline = { .call = call };
    const bool verbose = rest_query_flag(call, "verbose");
    if (rest_faulty(call)) return;
    broker_health(call->broker, &health);
    log_dirs_online(&offline);
    const bool recovered = health.partitions_open >= health.partitions_total || offline.count > 0;
    const bool ready = health.ready && recovered;
    rest_json_open(out, NULL, '{');
    rest_json_text(out, "status", ready ? "ready" : "not_ready");
    rest_json_text(out, "reason", health.ready ? recovered ? NULL : "logs are being recovered" : health.reason);
    if (verbose) {
        rest_json_open(out, "checks", '[');
        write_row(out, "serving", health.ready, health.ready ? NULL : health.reason);
        write_row(out, "logs_recovered", recovered, NULL);
        write_row(out, "log_dirs_online", offline.count == 0, NULL);
        rest_json_close(out, ']');
        rest_json_int(out, "partitions", health.partitions_total);
        rest_json_int(out, "partitions_open", health.partitions_open);
    }
    rest_json_close(out, '}');
    rest_reply_json(call, ready ? 200 : 503);
}
