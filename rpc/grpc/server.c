/* The server as a whole: the thread with its completion queue, tasks and timers; opening, draining, stopping.
 *
 * The end (the order is the C core's): shutdown_and_notify, calls end or are cancelled, its tag comes, server destroyed, queue shut down and drained, queue destroyed. */
#include "rpc/grpc/door.h"

#include "base/log.h"
#include "base/net/address.h"
#include "base/util.h"

#include <errno.h>
#include <grpc/grpc_security.h>
#include <grpc/support/log.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POSTED 32u                         /* calls waited for at once, of each method */
#define SWEEP_US 1000000
#define ROUNDS 8u                          /* of tasks, before the queue is looked at again */

/* ---- the executor */

static struct rpc_grpc_server *server_of(struct ot_exec *exec) { return OT_CONTAINER(exec, struct rpc_grpc_server, exec); }

/* The wake is under the mutex: the thread takes it before it lets go of the waker, so nobody is inside then. */
static void server_post_many(struct ot_exec *exec, struct ot_task *first, struct ot_task *last, uint32_t count)
{
    struct rpc_grpc_server *server = server_of(exec);
    (void)count;
    last->next = NULL;
    pthread_mutex_lock(&server->mutex);
    *server->last_task = first;
    server->last_task = &last->next;
    if (server->sleeping) {
        server->sleeping = false;
        RPCG_TAG_GONE(&server->woken);
        const grpc_call_error err = grpc_call_start_batch(server->waker, NULL, 0, &server->woken, NULL);
        OT_ASSERT(err == GRPC_CALL_OK);
    }
    pthread_mutex_unlock(&server->mutex);
}

static void server_post(struct ot_exec *exec, struct ot_task *task) { server_post_many(exec, task, task, 1); }
static void server_timer_set(struct ot_exec *exec, struct ot_timer *timer, int64_t deadline_us) { ot_timer_heap_set(&server_of(exec)->timers, timer, deadline_us); }
static void server_timer_cancel(struct ot_exec *exec, struct ot_timer *timer) { ot_timer_heap_cancel(&server_of(exec)->timers, timer); }
static int64_t boot_us(struct ot_exec *exec) { return (void)exec, ot_clock_boot_us(); }
static int64_t wall_ms(struct ot_exec *exec) { return (void)exec, ot_clock_wall_ms(); }
static const struct ot_exec_ops server_ops = { server_post, server_post_many, server_timer_set, server_timer_cancel, boot_us, wall_ms };

static void woken_run(struct rpcg_tag *tag, bool ok) { (void)tag, (void)ok; }

static struct ot_task *tasks_take(struct rpc_grpc_server *server)
{
    pthread_mutex_lock(&server->mutex);
    struct ot_task *tasks = server->first_task;
    server->first_task = NULL;
    server->last_task = &server->first_task;
    server->sleeping = tasks == NULL;
    pthread_mutex_unlock(&server->mutex);
    return tasks;
}

static bool tasks_none(struct rpc_grpc_server *server)
{
    pthread_mutex_lock(&server->mutex);
    const bool none = server->first_task == NULL;
    pthread_mutex_unlock(&server->mutex);
    return none;
}

static bool tasks_run(struct rpc_grpc_server *server)
{
    struct ot_task *task = NULL;
    for (uint32_t round = 0; round < ROUNDS && (task = tasks_take(server)) != NULL; round++) {
        for (struct ot_task *next; task != NULL; task = next) {
            next = task->next;
            task->run(task);               /* the task may be gone afterwards, or posted again */
        }
    }
    return task == NULL;
}

static void timers_fire(struct rpc_grpc_server *server)
{
    if (ot_timer_heap_first(&server->timers) == NULL) return;
    const int64_t now_us = ot_clock_boot_us();
    for (uint32_t bound = server->timers.count; bound > 0; bound--) {
        struct ot_timer *timer = ot_timer_heap_first(&server->timers);
        if (timer == NULL || timer->deadline_us > now_us) return;
        ot_timer_heap_cancel(&server->timers, timer);
        timer->fired(timer);
    }
}

static gpr_timespec wait_until(struct rpc_grpc_server *server, bool idle)
{
    const struct ot_timer *first = ot_timer_heap_first(&server->timers);
    if (!idle) return gpr_inf_past(GPR_CLOCK_MONOTONIC);
    if (first == NULL) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    const int64_t left_us = OT_MAX(first->deadline_us - ot_clock_boot_us(), 0);
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_micros(left_us, GPR_TIMESPAN));
}

static void event_run(const grpc_event *event)
{
    struct rpcg_tag *tag = event->tag;
    if (event->type != GRPC_OP_COMPLETE) return;
    RPCG_TAG_BACK(tag);
    tag->run(tag, event->success != 0);
}

static void queue_end(struct rpc_grpc_server *server)
{
    ot_pool_wait_cancel(server->request_pool, &server->waiter);
    grpc_server_destroy(server->core);
    server->core = NULL;
    pthread_mutex_lock(&server->mutex);    /* nobody is in server_post any more, and nobody will come */
    server->sleeping = false;
    pthread_mutex_unlock(&server->mutex);
    grpc_call_unref(server->waker);
    grpc_channel_destroy(server->lame);
    grpc_completion_queue_shutdown(server->queue);
    grpc_event event;
    do {
        event = grpc_completion_queue_next(server->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        event_run(&event);
    } while (event.type != GRPC_QUEUE_SHUTDOWN);
}

static void *thread_main(void *arg)
{
    struct rpc_grpc_server *server = arg;
    (void)pthread_setname_np(pthread_self(), "grpc");
    ot_exec_turns_begin();
    for (;;) {
        const bool idle = tasks_run(server);
        timers_fire(server);
        ot_exec_turn_end();
        if (server->is_stopped && server->open_count == 0 && server->away == 0 && tasks_none(server)) break;
        const grpc_event event = grpc_completion_queue_next(server->queue, wait_until(server, idle), NULL);
        event_run(&event);
    }
    queue_end(server);
    return NULL;
}

/* ---- housekeeping: only while there is something to look at */

static void sweep_fired(struct ot_timer *timer)
{
    struct rpc_grpc_server *server = OT_CONTAINER(timer, struct rpc_grpc_server, sweep);
    rpcg_maps_sweep(server->maps, ot_clock_boot_us());
    rpcg_sweep(server);
    if (server->open_count > 0 || rpcg_maps_count(server->maps) > 0) ot_timer_heap_set(&server->timers, timer, ot_clock_boot_us() + SWEEP_US);
}

static void memory_back(struct ot_pool_waiter *waiter)
{
    struct rpc_grpc_server *server = OT_CONTAINER(waiter, struct rpc_grpc_server, waiter);
    /* armed again before the task has run, it may be told again: one task is enough, and it must not be posted twice */
    if (!atomic_exchange(&server->waiter_posted, true)) ot_exec_post(&server->exec, &server->waiter_task);
}

static void memory_back_run(struct ot_task *task)
{
    struct rpc_grpc_server *server = OT_CONTAINER(task, struct rpc_grpc_server, waiter_task);
    atomic_store(&server->waiter_posted, false);
    rpcg_appends_wake(server);
}

/* ---- opening */

static void library_log(gpr_log_func_args *args)
{
    char field[OT_LOG_FIELD_BYTES];
    const enum ot_log_level level = args->severity == GPR_LOG_SEVERITY_ERROR ? OT_LOG_WARN : OT_LOG_DEBUG;
    if (ot_log_enabled("grpc", level)) ot_log(level, "grpc", "library", "at=%s:%d text=%s", args->file, args->line, ot_log_field(field, args->message));
}

static grpc_arg int_arg(const char *key, int64_t value)
{
    return (grpc_arg){ .type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)key, .value.integer = (int)OT_MIN(OT_MAX(value, 0), (int64_t)INT32_MAX) };
}

static int64_t or_never(int64_t ms) { return ms < 0 ? INT32_MAX : ms; }

static grpc_server *core_new(const struct broker_config *config, uint64_t quota_bytes)
{
    grpc_resource_quota *quota = grpc_resource_quota_create("ottla");
    grpc_resource_quota_resize(quota, (size_t)quota_bytes);
    grpc_arg list[] = {
        int_arg(GRPC_ARG_ALLOW_REUSEPORT, 0),              /* else a second broker binds the same port without an error */
        int_arg(GRPC_ARG_MAX_CONCURRENT_STREAMS, config->grpc_max_concurrent_streams),
        int_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, config->grpc_max_message_bytes),
        int_arg(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1),      /* none: a message would be inflated before its size is looked at */
        int_arg(GRPC_ARG_KEEPALIVE_TIME_MS, or_never(config->grpc_keepalive_time_ms)),
        int_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, config->grpc_keepalive_timeout_ms),
        int_arg(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
        int_arg(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, config->grpc_ping_interval_min_ms),
        int_arg(GRPC_ARG_MAX_CONNECTION_IDLE_MS, or_never(config->grpc_connection_max_idle_ms)),
        int_arg(GRPC_ARG_MAX_CONNECTION_AGE_MS, or_never(config->grpc_connection_max_age_ms)),
        { .type = GRPC_ARG_POINTER, .key = (char *)(uintptr_t)GRPC_ARG_RESOURCE_QUOTA, .value.pointer = { quota, grpc_resource_quota_arg_vtable() } },
    };
    const grpc_channel_args args = { OT_ARRAY_COUNT(list), list };
    grpc_server *core = grpc_server_create(&args, NULL);
    grpc_resource_quota_unref(quota);
    return core;
}

/* The core only says that it did not work; a socket of our own says why. */
static void port_words(const struct rpc_grpc_listener *listener, char *text_out, size_t text_bytes)
{
    int fds[OT_NET_SOCKETS_MAX];
    uint32_t count = 0;
    uint16_t port = 0;
    text_out[0] = '\0';
    const enum ot_err err = ot_net_listen(listener->host, listener->port, 1, fds, &count, &port, text_out, text_bytes);
    for (uint32_t i = 0; err == OT_OK && i < count; i++) (void)close(fds[i]);
    if (text_out[0] == '\0') (void)snprintf(text_out, text_bytes, "grpc.listeners: cannot listen on %s:%u", listener->host, listener->port);
}

static enum ot_err ports_open(struct rpc_grpc_server *server, const struct rpc_grpc_setup *setup, char *text_out, size_t text_bytes)
{
    OT_ASSERT(setup->listener_count <= OT_ARRAY_COUNT(server->ports));
    for (uint32_t i = 0; i < setup->listener_count; i++) {
        const struct rpc_grpc_listener *one = &setup->listeners[i];
        const bool bare_v6 = strchr(one->host, ':') != NULL;
        char address[300];
        (void)snprintf(address, sizeof address, "%s%s%s:%u", bare_v6 ? "[" : "", one->host[0] == '\0' ? "[::]" : one->host, bare_v6 ? "]" : "", one->port);
        grpc_server_credentials *credentials = setup->security.credentials != NULL ? setup->security.credentials(setup->security.arg) : NULL;
        if (credentials == NULL) credentials = grpc_insecure_server_credentials_create();
        server->ports[i] = (uint16_t)grpc_server_add_http2_port(server->core, address, credentials);
        grpc_server_credentials_release(credentials);
        if (server->ports[i] == 0) {
            port_words(one, text_out, text_bytes);
            return OT_ERR_IO;
        }
    }
    return OT_OK;
}

static void methods_register(struct rpc_grpc_server *server)
{
    for (uint32_t i = 0; i < rpcg_method_count; i++) {
        const struct rpcg_method *method = &rpcg_methods[i];
        if (!method->registered) continue;
        const grpc_server_register_method_payload_handling payload = method->kind == RPCG_BIDI ? GRPC_SRM_PAYLOAD_NONE : GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER;
        server->handles[i] = grpc_server_register_method(server->core, method->path, NULL, payload, 0);
        OT_ASSERT(server->handles[i] != NULL);
    }
}

static void metrics_init(struct rpc_grpc_server *server)
{
    if (server->metrics == NULL) return;
    for (uint32_t i = 0; i <= rpcg_method_count; i++) {
        const char *labels[] = { i < rpcg_method_count ? rpcg_methods[i].name : "unknown" };
        server->duration[i] = ot_series_get(server->metrics, OT_METRIC_grpc_request_duration_seconds, labels);
        server->calls[i] = ot_series_get(server->metrics, OT_METRIC_grpc_calls, labels);
    }
    server->received = ot_series_get(server->metrics, OT_METRIC_grpc_received_bytes_total, NULL);
    server->sent_mapped = ot_series_get(server->metrics, OT_METRIC_sent_bytes_total, (const char *[]){ "mapped" });
    server->sent_copy = ot_series_get(server->metrics, OT_METRIC_sent_bytes_total, (const char *[]){ "copy" });
    server->cold_reads = ot_series_get(server->metrics, OT_METRIC_log_cold_reads_total, NULL);
}

static void queue_open(struct rpc_grpc_server *server)
{
    server->queue = grpc_completion_queue_create_for_next(NULL);
    server->lame = grpc_lame_client_channel_create("wake", GRPC_STATUS_UNAVAILABLE, "wakes the thread");
    server->waker = grpc_channel_create_call(server->lame, NULL, GRPC_PROPAGATE_DEFAULTS, server->queue, grpc_slice_from_static_string("/wake"), NULL,
        gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    OT_ASSERT(server->waker != NULL);
}

enum ot_err rpc_grpc_server_open(const struct rpc_grpc_setup *setup, struct rpc_grpc_server **out, char *text_out, size_t text_bytes)
{
    const struct broker_config *config = setup->config;
    struct rpc_grpc_server *server = calloc(1, sizeof *server);
    text_out[0] = '\0';
    if (server == NULL) return OT_ERR_NO_MEMORY;
    *server = (struct rpc_grpc_server){ .exec = { &server_ops }, .request_pool = setup->request_pool, .response_pool = setup->response_pool, .io = setup->io,
        .io_exec = setup->io_exec, .taking_max = OT_MAX(setup->taking_max, 1u), .metrics = setup->metrics, .security = setup->security,
        .woken = { woken_run, NULL }, .last_task = &server->first_task,
        .waiter = { .woken = memory_back }, .waiter_task = { .run = memory_back_run }, .sweep = { .fired = sweep_fired }, .calls_max = (uint32_t)config->grpc_calls_max,
        .progress_us = OT_MIN(config->ottla_connection_progress_timeout_ms, INT64_MAX / 1000) * 1000, .message_bytes_max = config->grpc_max_message_bytes,
        .heartbeat_ms = config->grpc_heartbeat_interval_ms, .inflight_bytes_max = (uint64_t)config->grpc_stream_inflight_bytes_max };
    server->waiting_last = &server->waiting_first;
    pthread_mutex_init(&server->mutex, NULL);
    pthread_cond_init(&server->drained, NULL);
    gpr_set_log_function(library_log);
    gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
    grpc_init();
    server->maps = rpcg_maps_new(setup->io_exec);
    OT_ASSERT(rpcg_method_count <= RPCG_METHODS_MAX);
    queue_open(server);
    server->core = core_new(config, setup->quota_bytes);
    grpc_server_register_completion_queue(server->core, server->queue, NULL);
    methods_register(server);
    metrics_init(server);
    enum ot_err err = server->maps == NULL || server->core == NULL ? OT_ERR_NO_MEMORY : ports_open(server, setup, text_out, text_bytes);
    if (err != OT_OK) {
        rpc_grpc_server_stop(server, 0);
        return err;
    }
    *out = server;
    return OT_OK;
}

uint16_t rpc_grpc_server_port(const struct rpc_grpc_server *server, uint32_t listener) { return server->ports[listener]; }

enum ot_err rpc_grpc_server_start(struct rpc_grpc_server *server, struct broker *broker)
{
    server->broker = broker;
    server->serving = true;
    grpc_server_start(server->core);
    for (uint32_t i = 0; i < rpcg_method_count; i++)
        for (uint32_t k = 0; rpcg_methods[i].registered && k < POSTED; k++) rpcg_call_post(server, &rpcg_methods[i]);
    for (uint32_t k = 0; k < POSTED; k++) rpcg_call_post(server, NULL);
    server->has_thread = pthread_create(&server->thread, NULL, thread_main, server) == 0;
    return server->has_thread ? OT_OK : OT_ERR_NO_MEMORY;
}

/* ---- the end */

static void stopped_run(struct rpcg_tag *tag, bool ok)
{
    struct rpc_grpc_server *server = OT_CONTAINER(tag, struct rpc_grpc_server, stopped);
    (void)ok;
    server->is_stopped = true;
    pthread_mutex_lock(&server->mutex);
    server->was_stopped = true;
    pthread_cond_broadcast(&server->drained);
    pthread_mutex_unlock(&server->mutex);
}

static void drain_run(struct ot_task *task)
{
    struct rpc_grpc_server *server = OT_CONTAINER(task, struct rpc_grpc_server, drain_task);
    server->shut = true;
    atomic_store(&server->draining, true);
    server->stopped = (struct rpcg_tag){ stopped_run, NULL };
    RPCG_TAG_GONE(&server->stopped);
    grpc_server_shutdown_and_notify(server->core, server->queue, &server->stopped);
    rpcg_appends_refuse(server);
    for (struct rpcg_call *call = server->open, *next; call != NULL; call = next) {
        next = call->next;
        if (!call->ending && call->method != NULL && call->method->cancel != NULL) call->method->cancel(call, true);
    }
}

/* Once: the thread may end as soon as it has run. */
void rpc_grpc_server_drain(struct rpc_grpc_server *server)
{
    if (server == NULL || atomic_exchange(&server->drain_asked, true)) return;
    server->drain_task.run = drain_run;
    ot_exec_post(&server->exec, &server->drain_task);
}

static bool wait_stopped(struct rpc_grpc_server *server, int64_t timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += timeout_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    pthread_mutex_lock(&server->mutex);
    while (!server->was_stopped && pthread_cond_clockwait(&server->drained, &server->mutex, CLOCK_MONOTONIC, &until) != ETIMEDOUT) {
    }
    const bool stopped = server->was_stopped;
    pthread_mutex_unlock(&server->mutex);
    return stopped;
}

void rpc_grpc_server_stop(struct rpc_grpc_server *server, int64_t timeout_ms)
{
    if (server == NULL) return;
    rpc_grpc_server_drain(server);
    if (server->has_thread) {
        if (!wait_stopped(server, timeout_ms)) grpc_server_cancel_all_calls(server->core);     /* open health watches never end by themselves */
        pthread_join(server->thread, NULL);
    } else {
        (void)thread_main(server);         /* nobody was served: the same way down, here */
    }
    grpc_completion_queue_destroy(server->queue);
    grpc_shutdown_blocking();
    while (server->free != NULL) {
        struct rpcg_call *call = server->free;
        server->free = call->next;
        free(call);
    }
    rpcg_maps_free(server->maps);
    ot_timer_heap_free(&server->timers);
    pthread_cond_destroy(&server->drained);
    pthread_mutex_destroy(&server->mutex);
    free(server);
}
