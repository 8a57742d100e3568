#include "base/net/address.h"
#include "base/net/inside.h"
#include "base/net/limits.h"

#include "base/log.h"
#include "base/map.h"
#include "base/util.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ACCEPTS_PER_TURN 64
#define ACCEPT_BACK_OFF_US 100000          /* out of descriptors or memory */
#define SLAB_BYTES 65536u

struct net_listener {
    struct net_listener *next;
    struct ot_net *net;
    struct net_loop *loop;
    struct ot_loop_fd event;
    struct ot_task start_task, resume_task, stop_task;
    struct ot_timer timer;
    const struct ot_conn_handler *handler;
    void *arg;
    bool full, stopped;                    /* full: waits for a connection to close (under the net's mutex) */
    bool closed, gone;                     /* ot_net_unserve, and its socket is closed (under the net's mutex). The struct stays: connections borrow its name */
    char name[];
};

struct ot_net {
    struct ot_net_setup setup;
    struct net_loop *loops;
    uint32_t loop_count;
    pthread_mutex_t mutex;                 /* listeners, per_ip, open_count, live_count */
    pthread_cond_t changed;
    struct net_listener *listeners;
    struct ot_map per_ip;                  /* 16 address bytes -> count */
    struct ot_net_ip_limits *ip_limits;    /* under the mutex, as the pace */
    struct ot_net_pace pace;
    uint32_t open_count;                   /* connections; with those on their way to their loop */
    uint32_t live_count;                   /* with those that still wait for a door's answer */
    uint32_t listener_count;               /* still accepting */
    int spare_fd;                          /* given up for a moment to refuse a connection when descriptors run out */
    bool draining;
    _Atomic uint32_t connections_max, connections_per_ip_max;
    _Atomic uint64_t next_id, accepted, refused_limit, refused_limit_ip, refused_no_descriptor;
};

const struct ot_net_setup *net_setup(const struct ot_net *net) { return &net->setup; }

/* ---- per loop: free lists. Slabs are kept until the end, so that a loop allocates only while it grows. */

static void *slab_items(struct net_loop *loop, size_t item_bytes, uint32_t *count_out)
{
    struct net_slab *slab = malloc(SLAB_BYTES);
    if (slab == NULL) return NULL;
    slab->next = loop->slabs;
    loop->slabs = slab;
    *count_out = (uint32_t)((SLAB_BYTES - 64) / item_bytes);
    return (uint8_t *)slab + 64;
}

struct ot_reply *net_reply_new(struct net_loop *loop)
{
    if (loop->replies_free == NULL) {
        uint32_t count = 0;
        struct ot_reply *items = slab_items(loop, sizeof *items, &count);
        if (items == NULL) return NULL;
        for (uint32_t i = 0; i < count; i++) net_reply_free(loop, &items[i]);
    }
    struct ot_reply *reply = loop->replies_free;
    loop->replies_free = reply->next;
    *reply = (struct ot_reply){ 0 };
    return reply;
}

void net_reply_free(struct net_loop *loop, struct ot_reply *reply)
{
    reply->state = NET_REPLY_FREE;
    reply->next = loop->replies_free;
    loop->replies_free = reply;
}

struct ot_net_part *net_part_new(struct net_loop *loop)
{
    if (loop->parts_free == NULL) {
        uint32_t count = 0;
        struct ot_net_part *items = slab_items(loop, sizeof *items, &count);
        if (items == NULL) return NULL;
        for (uint32_t i = 0; i < count; i++) net_part_free(loop, &items[i]);
    }
    struct ot_net_part *part = loop->parts_free;
    loop->parts_free = part->next;
    return part;
}

void net_part_free(struct net_loop *loop, struct ot_net_part *part)
{
    part->next = loop->parts_free;
    loop->parts_free = part;
}

struct net_stash *net_stash_new(struct net_loop *loop)
{
    struct net_stash *stash = loop->stashes_free;
    if (stash == NULL) return malloc(sizeof *stash);
    loop->stashes_free = stash->next;
    return stash;
}

void net_stash_free(struct net_loop *loop, struct net_stash *stash)
{
    if (stash == NULL) return;
    stash->next = loop->stashes_free;
    loop->stashes_free = stash;
}

/* ---- starving: connections that wait for memory */

static void pool_woken(struct ot_pool_waiter *waiter)              /* any thread, under the pool's mutex */
{
    struct net_pool_wait *wait = OT_CONTAINER(waiter, struct net_pool_wait, waiter);
    ot_exec_post(wait->loop->exec, &wait->task);
}

static void pool_woken_here(struct ot_task *task)
{
    struct net_pool_wait *wait = OT_CONTAINER(task, struct net_pool_wait, task);
    wait->waiting = false;
    net_unstarve(wait->loop);
}

void net_unstarve(struct net_loop *loop)
{
    struct ot_conn *conn = loop->starved;
    loop->starved = NULL;
    while (conn != NULL) {
        struct ot_conn *next = conn->starved_next;
        conn->starved_next = NULL;
        conn->starving = false;
        conn_schedule(conn);
        conn = next;
    }
}

void net_starve(struct net_loop *loop, struct ot_conn *conn, struct net_pool_wait *wait)
{
    NET_COUNT(loop, starved, 1);
    conn->starving = true;
    struct ot_conn **end = &loop->starved;             /* first come, first served */
    while (*end != NULL) end = &(*end)->starved_next;
    conn->starved_next = NULL;
    *end = conn;
    if (wait == NULL || wait->waiting) return;
    wait->waiting = true;
    ot_pool_wait(wait->pool, &wait->waiter);
    net_unstarve(loop);                    /* once more: a buffer may have come back between the refusal and the arming */
}

void net_starve_cancel(struct net_loop *loop, struct ot_conn *conn)
{
    for (struct ot_conn **at = &loop->starved; *at != NULL; at = &(*at)->starved_next) {
        if (*at != conn) continue;
        *at = conn->starved_next;
        break;
    }
    conn->starving = false;
}

/* ---- limits */

static void ip_of(int fd, uint8_t out[16])
{
    struct sockaddr_storage name = { 0 };
    socklen_t bytes = sizeof name;
    memset(out, 0, 16);
    if (getpeername(fd, (struct sockaddr *)(void *)&name, &bytes) != 0) return;
    if (name.ss_family == AF_INET6) {
        memcpy(out, &((struct sockaddr_in6 *)(void *)&name)->sin6_addr, 16);
    } else if (name.ss_family == AF_INET) {
        out[10] = out[11] = 0xff;          /* as the mapped address, so that both families count as one */
        memcpy(out + 12, &((struct sockaddr_in *)(void *)&name)->sin_addr, 4);
    }
}

static void ip_count(struct ot_net *net, const uint8_t ip[16], int step)      /* under the mutex */
{
    const uintptr_t before = (uintptr_t)ot_map_get(&net->per_ip, ip, 16), count = before + (uintptr_t)step;
    if (before == 0 && step < 0) return;               /* it was not counted */
    if (count == 0) {
        (void)ot_map_remove(&net->per_ip, ip, 16);
        return;
    }
    const enum ot_err err = ot_map_put(&net->per_ip, ip, 16, (void *)count);
    ot_ignore(err, "an uncounted connection is better than none");
}

static struct net_loop *loop_least(struct ot_net *net)
{
    struct net_loop *least = &net->loops[0];
    for (uint32_t i = 1; i < net->loop_count; i++) {
        if (atomic_load_explicit(&net->loops[i].conn_count, memory_order_relaxed) < atomic_load_explicit(&least->conn_count, memory_order_relaxed))
            least = &net->loops[i];
    }
    return least;
}

struct ot_conn *net_conn_new(struct ot_net *net, int fd, const char *listener, const struct ot_conn_handler *handler, void *arg)
{
    struct ot_conn *conn = calloc(1, sizeof *conn + handler->conn_bytes);
    if (conn == NULL) return NULL;
    conn->handler = handler;
    conn->arg = arg;
    conn->listener = listener;
    conn->id = atomic_fetch_add(&net->next_id, 1) + 1;
    conn->refs = 1;
    conn->opened_wall_ms = ot_clock_wall_ms();
    ot_transport_plain(&conn->transport, fd);
    ot_net_socket_name(fd, false, conn->peer, conn->peer_host, NULL);
    ot_net_socket_name(fd, true, conn->local, conn->local_host, &conn->local_port);
    ip_of(fd, conn->ip);
    pthread_mutex_lock(&net->mutex);
    conn->loop = loop_least(net);
    atomic_fetch_add_explicit(&conn->loop->conn_count, 1, memory_order_relaxed);
    ip_count(net, conn->ip, 1);
    net->open_count++;
    net->live_count++;
    pthread_mutex_unlock(&net->mutex);
    return conn;
}

void net_conn_gone(struct ot_net *net, struct ot_conn *conn, bool freed)
{
    pthread_mutex_lock(&net->mutex);
    if (!freed) {
        atomic_fetch_sub_explicit(&conn->loop->conn_count, 1, memory_order_relaxed);
        ip_count(net, conn->ip, -1);
        net->open_count--;
        for (struct net_listener *listener = net->listeners; listener != NULL; listener = listener->next) {
            if (!listener->full) continue;
            listener->full = false;
            ot_exec_post(listener->loop->exec, &listener->resume_task);
        }
    } else {
        net->live_count--;
    }
    pthread_cond_broadcast(&net->changed);
    pthread_mutex_unlock(&net->mutex);
    if (freed) free(conn);
}

static bool is_closed(const struct ot_net *net, const char *listener)      /* under the mutex */
{
    const struct net_listener *one = net->listeners;
    while (one != NULL && one->name != listener) one = one->next;
    return one != NULL && one->closed;
}

static void conn_start_task(struct ot_task *task)
{
    struct ot_conn *conn = OT_CONTAINER(task, struct ot_conn, task);
    struct ot_net *net = conn->loop->net;
    conn->scheduled = false;
    pthread_mutex_lock(&net->mutex);
    const bool draining = net->draining || is_closed(net, conn->listener);
    pthread_mutex_unlock(&net->mutex);
    conn_ref(conn);
    conn_start(conn);
    if (draining) ot_conn_finish(conn, "stopping");
    conn_unref(conn);
}

enum ot_err ot_net_adopt(struct ot_net *net, int fd, const char *name, const struct ot_conn_handler *handler, void *arg)
{
    struct ot_conn *conn = net_conn_new(net, fd, name, handler, arg);
    if (conn == NULL) {
        close(fd);
        return OT_ERR_NO_MEMORY;
    }
    conn->scheduled = true;                /* nothing may post its task before it has run */
    conn->task.run = conn_start_task;
    ot_exec_post(conn->loop->exec, &conn->task);
    return OT_OK;
}

/* ---- accepting */

static void listener_watch(struct net_listener *listener, bool on)
{
    if (!listener->stopped) ot_loop_fd_change(listener->loop->loop, &listener->event, on ? (uint32_t)EPOLLIN : 0, true);
}

static void listener_resume(struct ot_task *task) { listener_watch(OT_CONTAINER(task, struct net_listener, resume_task), true); }
static void listener_retry(struct ot_timer *timer) { listener_watch(OT_CONTAINER(timer, struct net_listener, timer), true); }

/* As Kafka: at max.connections nobody is accepted until somebody leaves; above max.connections.per.ip the connection is closed. */
static bool listener_full(struct net_listener *listener)
{
    struct ot_net *net = listener->net;
    pthread_mutex_lock(&net->mutex);
    const bool full = net->open_count >= atomic_load_explicit(&net->connections_max, memory_order_relaxed);
    if (full) listener->full = true;
    pthread_mutex_unlock(&net->mutex);
    if (!full) return false;
    atomic_fetch_add_explicit(&net->refused_limit, 1, memory_order_relaxed);
    ot_log(OT_LOG_WARN, "net", "connections_max", "listener=%s max=%u", listener->name, atomic_load(&net->connections_max));
    listener_watch(listener, false);
    return true;
}

static bool over_ip_limit(struct ot_net *net, int fd)
{
    uint8_t ip[16];
    const uint32_t max = atomic_load_explicit(&net->connections_per_ip_max, memory_order_relaxed);
    ip_of(fd, ip);
    pthread_mutex_lock(&net->mutex);
    const bool over = (uintptr_t)ot_map_get(&net->per_ip, ip, 16) >= ot_net_ip_limits_find(net->ip_limits, ip, max);
    pthread_mutex_unlock(&net->mutex);
    return over;
}

/* max.connection.creation.rate: who comes faster waits in the backlog. */
static bool listener_paced(struct net_listener *listener)
{
    struct ot_net *net = listener->net;
    const int64_t now_us = ot_exec_now_us(listener->loop->exec);
    pthread_mutex_lock(&net->mutex);
    const int64_t wait_us = ot_net_pace_wait_us(&net->pace, now_us);
    pthread_mutex_unlock(&net->mutex);
    if (wait_us == 0) return false;
    listener_watch(listener, false);
    ot_exec_timer_set(listener->loop->exec, &listener->timer, now_us + wait_us);
    return true;
}

static void pace_take(struct net_listener *listener)
{
    pthread_mutex_lock(&listener->net->mutex);
    ot_net_pace_take(&listener->net->pace, ot_exec_now_us(listener->loop->exec));
    pthread_mutex_unlock(&listener->net->mutex);
}

/* No descriptor left: refuse one connection with the spare one, so that the peer learns of it now, and pause. */
static void listener_refuse(struct net_listener *listener, int code)
{
    struct ot_net *net = listener->net;
    atomic_fetch_add_explicit(&net->refused_no_descriptor, 1, memory_order_relaxed);
    ot_log(OT_LOG_ERROR, "net", "accept_failed", "listener=%s errno=%d hint=\"raise the limit of open files\"", listener->name, code);
    pthread_mutex_lock(&net->mutex);
    if (net->spare_fd >= 0 && (code == EMFILE || code == ENFILE)) {
        close(net->spare_fd);
        const int fd = accept4(listener->event.fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) close(fd);
        net->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    pthread_mutex_unlock(&net->mutex);
    listener_watch(listener, false);
    ot_exec_timer_set(listener->loop->exec, &listener->timer, ot_exec_now_us(listener->loop->exec) + ACCEPT_BACK_OFF_US);
}

static void listener_ready(struct ot_loop_fd *event, uint32_t events)
{
    struct net_listener *listener = OT_CONTAINER(event, struct net_listener, event);
    struct ot_net *net = listener->net;
    (void)events;
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        if (listener_full(listener) || listener_paced(listener)) return;
        const int fd = accept4(event->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EAGAIN || errno == EWOULDBLOCK) return;
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                listener_refuse(listener, errno);
                return;
            }
            continue;                      /* that peer went away before it was accepted */
        }
        pace_take(listener);
        if (over_ip_limit(net, fd)) {
            atomic_fetch_add_explicit(&net->refused_limit_ip, 1, memory_order_relaxed);
            char peer[OT_NET_NAME_BYTES];
            ot_net_socket_name(fd, false, peer, NULL, NULL);
            ot_log(OT_LOG_WARN, "net", "connections_per_ip_max", "listener=%s peer=%s", listener->name, peer);
            close(fd);
            continue;
        }
        atomic_fetch_add_explicit(&net->accepted, 1, memory_order_relaxed);
        if (ot_net_adopt(net, fd, listener->name, listener->handler, listener->arg) != OT_OK)
            ot_log(OT_LOG_ERROR, "net", "accept_failed", "listener=%s hint=\"out of memory\"", listener->name);
    }
}

static void listener_stop(struct net_listener *listener)           /* on its loop */
{
    if (listener->stopped) return;
    listener->stopped = true;
    ot_loop_fd_remove(listener->loop->loop, &listener->event);
    ot_exec_timer_cancel(listener->loop->exec, &listener->timer);
    close(listener->event.fd);
}

static void listener_stop_run(struct ot_task *task)
{
    struct net_listener *listener = OT_CONTAINER(task, struct net_listener, stop_task);
    listener_stop(listener);
    pthread_mutex_lock(&listener->net->mutex);
    listener->gone = true;
    pthread_cond_broadcast(&listener->net->changed);
    pthread_mutex_unlock(&listener->net->mutex);
}

static void listener_start(struct ot_task *task)
{
    struct net_listener *listener = OT_CONTAINER(task, struct net_listener, start_task);
    if (!listener->stopped && ot_loop_fd_add(listener->loop->loop, &listener->event, EPOLLIN, true) != OT_OK)
        ot_log(OT_LOG_ERROR, "net", "listen_failed", "listener=%s", listener->name);
}

enum ot_err ot_net_serve(struct ot_net *net, int listen_fd, const char *name, const struct ot_conn_handler *handler, void *arg)
{
    struct net_listener *listener = calloc(1, sizeof *listener + strlen(name) + 1);
    if (listener == NULL) {
        close(listen_fd);
        return OT_ERR_NO_MEMORY;
    }
    memcpy(listener->name, name, strlen(name) + 1);
    listener->net = net;
    listener->handler = handler;
    listener->arg = arg;
    listener->event = (struct ot_loop_fd){ .ready = listener_ready, .fd = listen_fd };
    listener->start_task.run = listener_start;
    listener->resume_task.run = listener_resume;
    listener->stop_task.run = listener_stop_run;
    listener->timer.fired = listener_retry;
    pthread_mutex_lock(&net->mutex);
    listener->loop = &net->loops[net->listener_count++ % net->loop_count];
    listener->next = net->listeners;
    net->listeners = listener;
    pthread_mutex_unlock(&net->mutex);
    ot_exec_post(listener->loop->exec, &listener->start_task);
    return OT_OK;
}

/* ---- one listener goes, the others stay */

struct net_unserve { struct ot_task task; struct net_loop *loop; };

static void unserve_run(struct ot_task *task)
{
    struct net_unserve *unserve = OT_CONTAINER(task, struct net_unserve, task);
    struct net_loop *loop = unserve->loop;
    for (struct ot_conn *conn = loop->conns, *next; conn != NULL; conn = next) {
        next = conn->next;
        pthread_mutex_lock(&loop->net->mutex);
        const bool closed = is_closed(loop->net, conn->listener);
        pthread_mutex_unlock(&loop->net->mutex);
        if (closed) ot_conn_finish(conn, "its listener was closed");
    }
    free(unserve);
}

static bool is_going(const struct ot_net *net)      /* under the mutex */
{
    const struct net_listener *one = net->listeners;
    while (one != NULL && (!one->closed || one->gone)) one = one->next;
    return one != NULL;
}

/* Who was accepted before the mark is on its loop already, or finds it when it starts there. */
enum ot_err ot_net_unserve(struct ot_net *net, const char *name)
{
    struct net_unserve *rounds[256];
    OT_ASSERT(net->loop_count <= OT_ARRAY_COUNT(rounds));
    for (uint32_t i = 0; i < net->loop_count; i++) {
        if ((rounds[i] = malloc(sizeof *rounds[i])) != NULL) {
            *rounds[i] = (struct net_unserve){ .task = { .run = unserve_run }, .loop = &net->loops[i] };
            continue;
        }
        while (i > 0) free(rounds[--i]);
        return OT_ERR_NO_MEMORY;
    }
    pthread_mutex_lock(&net->mutex);
    for (struct net_listener *listener = net->listeners; listener != NULL; listener = listener->next) {
        if (listener->closed || strcmp(listener->name, name) != 0) continue;
        listener->closed = true;
        ot_exec_post(listener->loop->exec, &listener->stop_task);
    }
    while (is_going(net)) pthread_cond_wait(&net->changed, &net->mutex);
    pthread_mutex_unlock(&net->mutex);
    for (uint32_t i = 0; i < net->loop_count; i++) ot_exec_post(net->loops[i].exec, &rounds[i]->task);
    return OT_OK;
}

/* ---- life */

static void loop_drain(struct ot_task *task)
{
    struct net_loop *loop = OT_CONTAINER(task, struct net_loop, drain_task);
    pthread_mutex_lock(&loop->net->mutex);
    for (struct net_listener *listener = loop->net->listeners; listener != NULL; listener = listener->next) {
        if (listener->loop == loop) listener_stop(listener);
    }
    pthread_mutex_unlock(&loop->net->mutex);
    for (struct ot_conn *conn = loop->conns, *next; conn != NULL; conn = next) {
        next = conn->next;
        ot_conn_finish(conn, "stopping");
    }
}

static void loop_abort(struct ot_task *task)
{
    struct net_loop *loop = OT_CONTAINER(task, struct net_loop, abort_task);
    while (loop->conns != NULL) ot_conn_abort(loop->conns, "stopped");
}

static void loop_clear(struct net_loop *loop)
{
    ot_loop_stop(loop->loop);
    ot_pool_wait_cancel(loop->requests.wait.pool, &loop->requests.wait.waiter);
    if (loop->small.wait.pool != NULL) ot_pool_wait_cancel(loop->small.wait.pool, &loop->small.wait.waiter);
    if (loop->response_wait.pool != NULL) ot_pool_wait_cancel(loop->response_wait.pool, &loop->response_wait.waiter);
    for (struct net_slab *slab = loop->slabs, *next; slab != NULL; slab = next) {
        next = slab->next;
        free(slab);
    }
    for (struct net_stash *stash = loop->stashes_free, *next; stash != NULL; stash = next) {
        next = stash->next;
        free(stash);
    }
    pthread_mutex_destroy(&loop->mutex);
}

static void net_free(struct ot_net *net)
{
    for (uint32_t i = 0; i < net->loop_count; i++) loop_clear(&net->loops[i]);
    for (struct net_listener *listener = net->listeners, *next; listener != NULL; listener = next) {
        next = listener->next;
        free(listener);
    }
    if (net->spare_fd >= 0) close(net->spare_fd);
    ot_map_free(&net->per_ip);
    ot_net_ip_limits_free(net->ip_limits);
    pthread_mutex_destroy(&net->mutex);
    pthread_cond_destroy(&net->changed);
    free(net->loops);
    free(net);
}

static void pool_wait_init(struct net_pool_wait *wait, struct net_loop *loop, struct ot_pool *pool)
{
    *wait = (struct net_pool_wait){ .waiter.woken = pool_woken, .task.run = pool_woken_here, .pool = pool, .loop = loop };
}

enum ot_err ot_net_open(const struct ot_net_setup *setup, struct ot_net **out)
{
    struct ot_net *net = calloc(1, sizeof *net);
    if (net == NULL) return OT_ERR_NO_MEMORY;
    enum ot_err err = OT_ERR_NO_MEMORY;
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const uint32_t count = setup->loop_count > 0 ? setup->loop_count : cores > 0 ? (uint32_t)OT_MIN(cores, 256) : 1;
    pthread_condattr_t attr;
    net->setup = *setup;
    if (net->setup.output_bytes_max == 0) net->setup.output_bytes_max = 64u << 20;
    if (net->setup.requests_max == 0) net->setup.requests_max = 1;
    atomic_store(&net->connections_max, setup->connections_max);
    atomic_store(&net->connections_per_ip_max, setup->connections_per_ip_max);
    pthread_mutex_init(&net->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&net->changed, &attr);
    pthread_condattr_destroy(&attr);
    ot_map_init(&net->per_ip);
    net->pace.per_second = UINT32_MAX;
    net->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if ((net->loops = calloc(count, sizeof *net->loops)) == NULL) goto fail;
    for (uint32_t i = 0; i < count; i++) {
        struct net_loop *loop = &net->loops[i];
        loop->net = net;
        loop->index = i;
        loop->drain_task.run = loop_drain;
        loop->abort_task.run = loop_abort;
        pool_wait_init(&loop->requests.wait, loop, setup->request_pool);
        pool_wait_init(&loop->small.wait, loop, setup->small_pool);
        pool_wait_init(&loop->response_wait, loop, setup->response_pool);
        if ((err = ot_loop_start("ot-net", &loop->loop)) != OT_OK) goto fail;
        loop->exec = ot_loop_exec(loop->loop);
        pthread_mutex_init(&loop->mutex, NULL);
        net->loop_count++;
    }
    *out = net;
    return OT_OK;
fail:
    net_free(net);
    return err;
}

static void net_wait(struct ot_net *net, const uint32_t *count, int64_t timeout_ms)    /* -1: without end */
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += timeout_ms / 1000;
    end.tv_nsec += timeout_ms % 1000 * 1000000;
    if (end.tv_nsec >= 1000000000) {
        end.tv_sec++;
        end.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&net->mutex);
    while (*count > 0) {
        if (timeout_ms < 0) pthread_cond_wait(&net->changed, &net->mutex);
        else if (pthread_cond_timedwait(&net->changed, &net->mutex, &end) != 0) break;
    }
    pthread_mutex_unlock(&net->mutex);
}

void ot_net_drain(struct ot_net *net, int64_t timeout_ms)
{
    pthread_mutex_lock(&net->mutex);
    const bool before = net->draining;
    net->draining = true;
    pthread_mutex_unlock(&net->mutex);
    if (before) return;
    for (uint32_t i = 0; i < net->loop_count; i++) ot_exec_post(net->loops[i].exec, &net->loops[i].drain_task);
    net_wait(net, &net->open_count, timeout_ms);
    for (uint32_t i = 0; i < net->loop_count; i++) ot_exec_post(net->loops[i].exec, &net->loops[i].abort_task);
    net_wait(net, &net->open_count, -1);
}

void ot_net_close(struct ot_net *net)
{
    if (net == NULL) return;
    ot_net_drain(net, 0);
    net_wait(net, &net->live_count, -1);
    net_free(net);
}

void ot_net_limits(struct ot_net *net, const struct ot_net_limits *limits)
{
    struct ot_net_ip_limits *ips = NULL;
    char why[160];
    const bool good = ot_net_ip_limits_parse(limits->per_ip_overrides == NULL ? "" : limits->per_ip_overrides, &ips, why, sizeof why);
    atomic_store(&net->connections_max, limits->connections_max);
    atomic_store(&net->connections_per_ip_max, limits->connections_per_ip_max);
    pthread_mutex_lock(&net->mutex);
    if (good) {
        struct ot_net_ip_limits *old = net->ip_limits;
        net->ip_limits = ips;
        ips = old;
    }
    net->pace.per_second = limits->connections_per_second;
    net->pace.next_us = 0;
    for (struct net_listener *listener = net->listeners; listener != NULL; listener = listener->next) {
        if (!listener->full) continue;
        listener->full = false;
        ot_exec_post(listener->loop->exec, &listener->resume_task);
    }
    pthread_mutex_unlock(&net->mutex);
    ot_net_ip_limits_free(ips);
}

uint32_t ot_net_loop_count(const struct ot_net *net) { return net->loop_count; }
struct ot_exec *ot_net_loop_exec(struct ot_net *net, uint32_t index) { return net->loops[index].exec; }
double ot_net_loop_busy_ratio(struct ot_net *net, uint32_t index) { return ot_loop_busy_ratio(net->loops[index].loop); }

void ot_net_stats(struct ot_net *net, struct ot_net_stats *out)
{
    *out = (struct ot_net_stats){ .accepted = atomic_load(&net->accepted), .refused_limit = atomic_load(&net->refused_limit),
        .refused_limit_ip = atomic_load(&net->refused_limit_ip), .refused_no_descriptor = atomic_load(&net->refused_no_descriptor) };
    for (uint32_t i = 0; i < net->loop_count; i++) {
        struct net_loop *loop = &net->loops[i];
#define ADD(what) out->what += atomic_load_explicit(&loop->counts.what, memory_order_relaxed)
        ADD(closed);
        ADD(closed_idle);
        ADD(closed_no_progress);
        ADD(closed_bad_frame);
        ADD(closed_short_range);
        ADD(requests);
        ADD(bytes_in);
        ADD(bytes_out);
        ADD(sendfile_bytes);
        ADD(cold_reads);
        ADD(cold_read_bytes);
        ADD(starved);
#undef ADD
        out->connections += atomic_load_explicit(&loop->conn_count, memory_order_relaxed);
    }
}

void ot_net_connections(struct ot_net *net, void (*each)(void *arg, const struct ot_conn_view *view), void *arg)
{
    for (uint32_t i = 0; i < net->loop_count; i++) {
        struct net_loop *loop = &net->loops[i];
        pthread_mutex_lock(&loop->mutex);
        const int64_t now_us = ot_clock_boot_us();
        for (struct ot_conn *conn = loop->conns; conn != NULL; conn = conn->next) {
            const struct ot_conn_view view = { .id = conn->id, .peer = conn->peer, .local = conn->local, .listener = conn->listener,
                .client_id = conn->client_id, .software_name = conn->software_name, .software_version = conn->software_version,
                .opened_wall_ms = conn->opened_wall_ms, .idle_us = now_us - atomic_load(&conn->active_us), .requests = atomic_load(&conn->requests),
                .bytes_in = atomic_load(&conn->bytes_in), .bytes_out = atomic_load(&conn->bytes_out), .output_bytes = atomic_load(&conn->output_bytes),
                .requests_in_work = atomic_load(&conn->in_work), .loop = i };
            each(arg, &view);
        }
        pthread_mutex_unlock(&loop->mutex);
    }
}

/* ---- closing one from outside: its loop looks for it once more, since only there it may end */

struct net_kick { struct ot_task task; struct net_loop *loop; uint64_t id; const char *reason; };

static void kick_run(struct ot_task *task)
{
    struct net_kick *kick = OT_CONTAINER(task, struct net_kick, task);
    struct ot_conn *conn = kick->loop->conns;
    while (conn != NULL && conn->id != kick->id) conn = conn->next;
    if (conn != NULL) ot_conn_abort(conn, kick->reason);
    free(kick);
}

bool ot_net_kick(struct ot_net *net, uint64_t id, const char *reason)
{
    for (uint32_t i = 0; i < net->loop_count; i++) {
        struct net_loop *loop = &net->loops[i];
        pthread_mutex_lock(&loop->mutex);
        struct ot_conn *conn = loop->conns;
        while (conn != NULL && conn->id != id) conn = conn->next;
        pthread_mutex_unlock(&loop->mutex);
        if (conn == NULL) continue;
        struct net_kick *kick = malloc(sizeof(*kick));
        if (kick == NULL) return false;
        *kick = (struct net_kick){ .task = { .run = kick_run }, .loop = loop, .id = id, .reason = reason };
        ot_exec_post(loop->exec, &kick->task);
        return true;
    }
    return false;
}
