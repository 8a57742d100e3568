/* Is it alive, may clients be sent here, is anything wrong.
 *
 * alive   our executor runs (it answers) and the I/O pool takes work: a task that has not come back for ten seconds says no
 * ready   recovery is done, the broker is registered and serves, no log directory is offline
 * checks  what an operator would be woken for; looked at when asked and every few samples, so that it is known since when each is as it is */
#include "base/util.h"
#include "broker/log_dirs.h"
#include "rest/checks.h"
#include "rest/handlers.h"
#include "rest/hop.h"
#include "rest/inside.h"
#include "rest/topic_view.h"
#include <stdlib.h>
#include <string.h>

enum { DIRS_MAX = 64, OFFENDERS_MAX = 100, PRODUCERS_MAX = 20000, TRANSACTION_MAX_MS = 900000, BEAT_LATE_US = 10000000 };

/* ---- checks */

struct check_run {
    struct rest_server *server;
    struct broker *broker;
    const struct broker_view *view;
    struct rest_json *out;                     /* for offenders; NULL: they are only counted */
    uint32_t count;
};

static void offend_partition(struct check_run *run, const struct broker_view_topic *topic, const struct broker_view_partition *row)
{
    struct rest_json *out = run->out;
    if (run->count++ >= OFFENDERS_MAX || out == NULL) return;
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
    const uint32_t count = OT_MIN(broker_log_dirs(run->broker, dirs, DIRS_MAX), (uint32_t)DIRS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        if (space ? dirs[i].space == BROKER_LOG_DIR_OK : !dirs[i].offline) continue;
        if (run->count++ >= OFFENDERS_MAX || run->out == NULL) continue;
        rest_json_open(run->out, NULL, '{');
        rest_json_int(run->out, "broker", broker_node_id(run->broker));
        rest_json_text(run->out, "log_dir", dirs[i].path);
        if (space) rest_json_big(run->out, "free_bytes", (int64_t)dirs[i].free_bytes);
        rest_json_close(run->out, '}');
    }
}

static void disk_free(struct check_run *run) { disks(run, true); }
static void log_dirs_online(struct check_run *run) { disks(run, false); }

/* A producer whose transaction is open and has written nothing for longer than any transaction may take holds back every read_committed reader. */
struct stuck { struct check_run *run; struct eng_producer_view *producers; int64_t now_ms; };

static void find_stuck(void *arg, struct broker_partition *partition)
{
    struct stuck *stuck = arg;
    struct broker_partition_state state;
    broker_partition_state(partition, &state);
    if (!state.open || !state.leader || state.last_stable_offset >= state.high_watermark) return;
    const uint32_t count = OT_MIN(broker_partition_producers(partition, stuck->producers, PRODUCERS_MAX), (uint32_t)PRODUCERS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        const struct eng_producer_view *producer = &stuck->producers[i];
        if (producer->current_txn_first_offset < 0 || stuck->now_ms - producer->last_timestamp_ms < TRANSACTION_MAX_MS) continue;
        struct rest_json *out = stuck->run->out;
        if (stuck->run->count++ >= OFFENDERS_MAX || out == NULL) continue;
        rest_json_open(out, NULL, '{');
        rest_json_text(out, "topic", state.topic);
        rest_json_int(out, "partition", state.partition);
        rest_json_big(out, "producer_id", producer->producer_id);
        rest_json_big(out, "current_transaction_start_offset", producer->current_txn_first_offset);
        rest_json_big(out, "last_timestamp_ms", producer->last_timestamp_ms);
        rest_json_close(out, '}');
    }
}

static void no_stuck_transactions(struct check_run *run)
{
    struct stuck stuck = { .run = run, .producers = malloc(PRODUCERS_MAX * sizeof(*stuck.producers)), .now_ms = ot_clock_wall_ms() };
    if (stuck.producers != NULL) broker_partitions_each(run->broker, find_stuck, &stuck);
    free(stuck.producers);
}

/* Voters were forced (ottla cluster force-voters): what the lost ones had decided and nobody else knew is gone. */
static void metadata_whole(struct check_run *run)
{
    struct broker_view_cluster cluster;
    broker_view_cluster(run->view, &cluster);
    if (cluster.forced_ms == 0) return;
    run->count = 1;
    if (run->out == NULL) return;
    rest_json_open(run->out, NULL, '{');
    rest_json_time(run->out, "voters_forced_at", cluster.forced_ms);
    rest_json_close(run->out, '}');
}

/* Of this broker alone: how far brokers are apart is not measured. */
static void clock_skew(struct check_run *run)
{
    const struct rest_clock *clock = &run->server->clock;
    if (rest_clock_steady(clock, ot_clock_boot_us())) return;
    run->count = 1;
    if (run->out == NULL) return;
    rest_json_open(run->out, NULL, '{');
    rest_json_int(run->out, "broker", broker_node_id(run->broker));
    rest_json_big(run->out, "stepped_ms", clock->stepped_ms);
    rest_json_big(run->out, "stepped_ms_ago", (ot_clock_boot_us() - clock->stepped_us) / 1000);
    rest_json_close(run->out, '}');
}

/* failing: something is refused while it is not well. local: each broker knows its own part alone. */
static const struct { const char *name; bool failing, local; void (*run)(struct check_run *run); } checks[] = {
    { "no_offline_partitions", true, false, no_offline_partitions },
    { "no_under_min_isr", true, false, no_under_min_isr },
    { "no_under_replicated", false, false, no_under_replicated },
    { "controller_active", true, false, controller_active },
    { "disk_free", false, true, disk_free },
    { "log_dirs_online", false, true, log_dirs_online },
    { "no_stuck_transactions", false, true, no_stuck_transactions },
    { "clock_skew", false, true, clock_skew },
    { "metadata_whole", false, false, metadata_whole },
};
OT_STATIC_ASSERT(OT_ARRAY_COUNT(checks) <= REST_CHECKS_MAX, "since when each is as it is");

/* Runs one and takes note of when it changed. */
static struct check_run look(struct rest_server *server, const struct broker_view *view, uint32_t index, struct rest_json *out)
{
    struct check_run run = { .server = server, .broker = server->broker, .view = view, .out = out };
    struct rest_check_since *since = &server->check_since[index];
    checks[index].run(&run);
    if (since->at_ms == 0 || since->ok != (run.count == 0)) *since = (struct rest_check_since){ .at_ms = ot_clock_wall_ms(), .ok = run.count == 0 };
    return run;
}

void rest_checks_tick(struct rest_server *server)
{
    const struct broker_view *view = broker_view_take(server->broker);
    for (uint32_t i = 0; i < OT_ARRAY_COUNT(checks); i++) (void)look(server, view, i, NULL);
    broker_view_give(view);
}

const char *rest_checks_status(struct rest_call *call, const struct broker_view *view)
{
    bool degraded = false, failing = false;
    for (uint32_t i = 0; i < OT_ARRAY_COUNT(checks); i++) {
        const struct check_run run = look(call->server, view, i, NULL);
        failing |= run.count > 0 && checks[i].failing;
        degraded |= run.count > 0;
    }
    return failing ? "failing" : degraded ? "degraded" : "ok";
}

static bool write_check(struct rest_call *call, const struct broker_view *view, uint32_t index)
{
    struct rest_json *out = &call->out;
    rest_json_open(out, NULL, '{');
    rest_json_text(out, "name", checks[index].name);
    rest_json_open(out, "offenders", '[');
    const struct check_run run = look(call->server, view, index, out);
    rest_json_close(out, ']');
    rest_json_bool(out, "ok", run.count == 0);
    rest_json_time(out, "since", call->server->check_since[index].at_ms);
    rest_json_int(out, "count", run.count);
    rest_json_close(out, '}');
    return run.count == 0;
}

/* ---- of all brokers: what each knows of itself alone is put together */

static json_t *told_of(const struct rest_gather *all, int32_t broker, const char *name)
{
    const json_t *list = json_object_get(rest_gathered_of(all, broker), "checks");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *of = json_string_value(json_object_get(json_array_get(list, i), "name"));
        if (of != NULL && strcmp(of, name) == 0) return json_array_get(list, i);
    }
    return NULL;
}

struct put_together { int64_t count; const char *since; };

/* Since when: of those that are not well the first that was not, else the last that became so. Texts in RFC 3339 sort as times. */
static struct put_together put_together(const struct rest_gather *all, uint32_t index)
{
    struct put_together out = { 0 };
    for (uint32_t i = 0; i < all->count; i++) {
        const int32_t broker = all->brokers[i].broker;
        const json_t *told = checks[index].local || broker == broker_node_id(all->call->broker) ? told_of(all, broker, checks[index].name) : NULL;
        const json_t *count = json_object_get(told, "count");
        if (json_is_integer(count)) out.count += json_integer_value(count);
    }
    for (uint32_t i = 0; i < all->count; i++) {
        const int32_t broker = all->brokers[i].broker;
        const json_t *told = checks[index].local || broker == broker_node_id(all->call->broker) ? told_of(all, broker, checks[index].name) : NULL;
        const char *since = json_string_value(json_object_get(told, "since"));
        const bool well = json_is_true(json_object_get(told, "ok"));
        if (since == NULL || well != (out.count == 0)) continue;
        if (out.since == NULL || (well ? strcmp(since, out.since) > 0 : strcmp(since, out.since) < 0)) out.since = since;
    }
    return out;
}

static void write_together(const struct rest_gather *all, uint32_t index, const struct put_together *sum)
{
    struct rest_json *out = &all->call->out;
    uint32_t offenders = 0;
    rest_json_open(out, NULL, '{');
    rest_json_text(out, "name", checks[index].name);
    rest_json_open(out, "offenders", '[');
    for (uint32_t i = 0; i < all->count; i++) {
        const int32_t broker = all->brokers[i].broker;
        const json_t *told = checks[index].local || broker == broker_node_id(all->call->broker) ? told_of(all, broker, checks[index].name) : NULL;
        const json_t *list = json_object_get(told, "offenders");
        for (size_t k = 0; k < json_array_size(list) && offenders < OFFENDERS_MAX; k++, offenders++) rest_json_copy(out, NULL, json_array_get(list, k));
    }
    rest_json_close(out, ']');
    rest_json_bool(out, "ok", sum->count == 0);
    rest_json_text(out, "since", sum->since);
    rest_json_big(out, "count", sum->count);
    rest_json_close(out, '}');
}

const char *rest_checks_told(const struct rest_gather *all)
{
    bool degraded = all->missing > 0, failing = false;
    for (uint32_t i = 0; i < OT_ARRAY_COUNT(checks); i++) {
        const struct put_together sum = put_together(all, i);
        failing |= sum.count > 0 && checks[i].failing;
        degraded |= sum.count > 0;
    }
    return failing ? "failing" : degraded ? "degraded" : "ok";
}

static void health_told(struct rest_gather *all)
{
    struct rest_json *out = &all->call->out;
    rest_json_open(out, NULL, '{');
    rest_json_text(out, "status", rest_checks_told(all));
    rest_json_open(out, "checks", '[');
    for (uint32_t i = 0; i < OT_ARRAY_COUNT(checks); i++) {
        const struct put_together sum = put_together(all, i);
        write_together(all, i, &sum);
    }
    rest_json_close(out, ']');
    const struct broker_view *view = broker_view_take(all->call->broker);
    rest_hints_write(out, view);
    broker_view_give(view);
    rest_gather_partial(all);
    rest_json_close(out, '}');
    rest_reply_json(all->call, 200);
}

static void health_here(struct rest_call *call)
{
    const struct broker_view *view = broker_view_take(call->broker);
    rest_json_open(&call->out, NULL, '{');
    rest_json_text(&call->out, "status", rest_checks_status(call, view));
    rest_json_open(&call->out, "checks", '[');
    for (uint32_t i = 0; i < OT_ARRAY_COUNT(checks); i++) (void)write_check(call, view, i);
    rest_json_close(&call->out, ']');
    rest_hints_write(&call->out, view);
    rest_json_close(&call->out, '}');
    broker_view_give(view);
    rest_reply_json(call, 200);
}

void rest_cluster_health(struct rest_call *call)
{
    if (rest_gather_wanted(call)) rest_gather(call, REST_CHECKS_TARGET, NULL, health_told);
    else health_here(call);
}

static void check_told(struct rest_gather *all)
{
    const uint32_t index = *(uint32_t *)all->arg;
    const struct put_together sum = put_together(all, index);
    write_together(all, index, &sum);
    rest_gather_mend(all);
    rest_reply_json(all->call, sum.count == 0 ? 200 : 503);
}

void rest_health_check(struct rest_call *call)
{
    const struct ot_str name = rest_param(call, 0);
    uint32_t *index = ot_arena_alloc(&call->arena, sizeof(*index));
    while (index != NULL && *index < OT_ARRAY_COUNT(checks) && !ot_str_equal(name, ot_str_of(checks[*index].name))) ++*index;
    if (index == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
    } else if (*index == OT_ARRAY_COUNT(checks)) {
        rest_problem_more(call, OT_ERR_RESOURCE_NOT_FOUND, NULL, "GET /v1/cluster/health", "there is no check of that name");
    } else if (checks[*index].local && rest_gather_wanted(call)) {
        rest_gather(call, REST_CHECKS_TARGET, index, check_told);
    } else {
        const struct broker_view *view = broker_view_take(call->broker);
        const bool good = write_check(call, view, *index);
        broker_view_give(view);
        rest_reply_json(call, good ? 200 : 503);
    }
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
    struct check_run offline = { .broker = call->broker };
    const bool verbose = rest_query_flag(call, "verbose");
    if (rest_faulty(call)) return;
    broker_health(call->broker, &health);
    log_dirs_online(&offline);
    const bool recovered = health.partitions_open + health.partitions_failed >= health.partitions_total || offline.count > 0;
    const bool ready = health.ready && recovered && !health.cut_off;
    const char *silent = health.cut_off ? "no coordinator has answered for broker.session.timeout.ms: others may lead what this broker leads" : NULL;
    rest_json_open(out, NULL, '{');
    rest_json_text(out, "status", ready ? "ready" : "not_ready");
    rest_json_text(out, "reason", health.ready ? recovered ? silent : "logs are being recovered" : health.reason);
    if (verbose) {
        rest_json_open(out, "checks", '[');
        write_row(out, "serving", health.ready, health.ready ? NULL : health.reason);
        write_row(out, "logs_recovered", recovered, NULL);
        write_row(out, "coordinator_heard", silent == NULL, silent);
        write_row(out, "log_dirs_online", offline.count == 0, NULL);
        rest_json_close(out, ']');
        rest_json_int(out, "partitions", health.partitions_total);
        rest_json_int(out, "partitions_open", health.partitions_open);
    }
    rest_json_close(out, '}');
    rest_reply_json(call, ready ? 200 : 503);
}
