/* A connection: frames in, answers out in order, and the rules for pausing and closing.
 *
 *   socket --recv--> [rest of the frame in work | scratch] --> frame --> offered to the door --> in work --> done --> output queue --> socket
 *                                        \--> stash (what came along while nothing may be taken)
 *
 * conn_run does all that can be done now and is called for events, and as a task after answers; everything else only schedules it. */
#include "base/net/inside.h"

#include "base/log.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define TICK_US_MIN 10000
#define TICK_US_MAX 15000000

static void conn_run(struct ot_conn *conn);

static int64_t conn_now(const struct ot_conn *conn) { return ot_exec_now_us(conn->loop->exec); }
static int64_t conn_turn(const struct ot_conn *conn) { return ot_loop_turn_us(conn->loop->loop); }
static void bump(_Atomic uint64_t *counter, uint64_t by)           /* one writer: no locked instruction */
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by, memory_order_relaxed);
}

/* ---- life */

void conn_ref(struct ot_conn *conn) { conn->refs++; }

void conn_unref(struct ot_conn *conn)
{
    OT_ASSERT(conn->refs > 0);
    if (--conn->refs > 0) return;
    OT_ASSERT(conn->closed);
    OT_ASSERT(conn->replies == NULL && conn->out == NULL);
    if (conn->handler->closed != NULL) conn->handler->closed(conn);
    net_conn_gone(conn->loop->net, conn, true);
}

static void conn_task(struct ot_task *task)
{
    struct ot_conn *conn = OT_CONTAINER(task, struct ot_conn, task);
    conn->scheduled = false;
    conn_run(conn);
    conn_unref(conn);
}

void conn_schedule(struct ot_conn *conn)
{
    if (conn->scheduled || conn->closed) return;
    conn->scheduled = true;
    conn->task.run = conn_task;
    conn_ref(conn);
    ot_exec_post(conn->loop->exec, &conn->task);
}

static void conn_ready(struct ot_loop_fd *fd, uint32_t events)
{
    struct ot_conn *conn = OT_CONTAINER(fd, struct ot_conn, event);
    if ((events & (uint32_t)(EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) conn->readable = true;
    if ((events & (uint32_t)(EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) conn->writable = true;
    if ((events & (uint32_t)(EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) conn->hung_up = true;
    if ((events & (uint32_t)(EPOLLHUP | EPOLLERR)) != 0 && (events & (uint32_t)EPOLLIN) == 0) {
        ot_conn_abort(conn, "the peer is gone");
        return;
    }
    conn_run(conn);
}

/* Who has yet to say who it is has no more answers waiting than a request of its may have bytes. */
static uint64_t output_bytes_max(const struct ot_conn *conn) { return conn->bytes_max > 0 ? conn->bytes_max : net_setup(conn->loop->net)->output_bytes_max; }

/* May a further request be begun? The first reason that forbids it is also what resumes it: an answer, bytes sent, a kick, a pool. */
static bool conn_may_take(const struct ot_conn *conn)
{
    const struct ot_net_setup *setup = net_setup(conn->loop->net);
    return !conn->closed && !conn->finishing && !conn->starving && conn->waiting == NULL && conn->reply_count < setup->requests_max
        && atomic_load_explicit(&conn->output_bytes, memory_order_relaxed) < output_bytes_max(conn);
}

static void conn_tick(struct ot_timer *timer)
{
    struct ot_conn *conn = OT_CONTAINER(timer, struct ot_conn, timer);
    const struct ot_net_setup *setup = net_setup(conn->loop->net);
    const int64_t now_us = conn_now(conn);
    const bool partial = conn->frame != NULL || conn->head_got > 0;
    if (!conn_may_take(conn)) conn->read_us = now_us;             /* we are not reading: the peer is not to blame */
    if (conn->probation_us != 0 && now_us >= conn->probation_us) {
        ot_conn_abort(conn, "it did not say in time who it is");
        return;
    }
    if (conn->out != NULL && !conn->io_busy && now_us - conn->sent_us >= setup->progress_us) {
        NET_COUNT(conn->loop, closed_no_progress, 1);
        ot_conn_abort(conn, "an answer made no progress");
        return;
    }
    if (partial && now_us - conn->read_us >= setup->progress_us) {
        NET_COUNT(conn->loop, closed_no_progress, 1);
        ot_conn_abort(conn, "a request made no progress");
        return;
    }
    if (setup->idle_us >= 0 && conn->replies == NULL && conn->out == NULL && !partial
        && now_us - atomic_load_explicit(&conn->active_us, memory_order_relaxed) >= setup->idle_us) {
        NET_COUNT(conn->loop, closed_idle, 1);
        ot_conn_abort(conn, "idle");
        return;
    }
    int64_t tick_us = setup->progress_us / 4;
    if (setup->idle_us >= 0) tick_us = OT_MIN(tick_us, setup->idle_us / 4);
    if (conn->probation_us != 0) tick_us = OT_MIN(tick_us, conn->probation_us - now_us);
    ot_exec_timer_set(conn->loop->exec, timer, now_us + OT_MAX(TICK_US_MIN, OT_MIN(tick_us, TICK_US_MAX)));
}

/* Who speaks in earnest is through with it in a moment, so those that came first are those that are silent. */
static void probation_crowd(struct net_loop *loop)
{
    const uint32_t max = net_setup(loop->net)->probation_max;
    if (max == 0 || loop->probation_count <= max) return;
    struct ot_conn *first = loop->probation_first;
    ot_log(OT_LOG_WARN, "net", "probation_max", "peer=%s listener=%s max=%u text=\"too many connections that do not say who they are: the first of them goes\"", first->peer, first->listener, max);
    ot_conn_abort(first, "others came that did not say who they are either");
}

static void probation_leave(struct ot_conn *conn)
{
    struct net_loop *loop = conn->loop;
    if (conn->probation_us == 0) return;
    conn->probation_us = 0;
    loop->probation_count--;
    *(conn->probation_prev != NULL ? &conn->probation_prev->probation_next : &loop->probation_first) = conn->probation_next;
    *(conn->probation_next != NULL ? &conn->probation_next->probation_prev : &loop->probation_last) = conn->probation_prev;
    conn->probation_next = conn->probation_prev = NULL;
}

void ot_conn_probation(struct ot_conn *conn, uint32_t request_bytes_max, int64_t us)
{
    struct net_loop *loop = conn->loop;
    if (conn->closed) return;
    probation_leave(conn);
    conn->bytes_max = request_bytes_max;
    conn->probation_us = OT_MAX(conn_now(conn) + us, 1);
    conn->probation_prev = loop->probation_last;
    *(loop->probation_last != NULL ? &loop->probation_last->probation_next : &loop->probation_first) = conn;
    loop->probation_last = conn;
    loop->probation_count++;
    conn_tick(&conn->timer);
    probation_crowd(loop);
}

void ot_conn_trust(struct ot_conn *conn)
{
    conn->bytes_max = 0;
    probation_leave(conn);
}

static void conn_socket_options(struct ot_conn *conn)
{
    const struct ot_net_setup *setup = net_setup(conn->loop->net);
    const int fd = conn->transport.fd, on = 1;
    /* not one of these is worth refusing a connection for; a socket pair has no TCP */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    if (setup->send_buffer_bytes > 0) (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &setup->send_buffer_bytes, sizeof(int));
    if (setup->receive_buffer_bytes > 0) (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &setup->receive_buffer_bytes, sizeof(int));
}

void conn_start(struct ot_conn *conn)
{
    struct net_loop *loop = conn->loop;
    const int64_t now_us = conn_now(conn);
    conn_socket_options(conn);
    conn->read_us = conn->sent_us = now_us;
    atomic_store_explicit(&conn->active_us, now_us, memory_order_relaxed);
    conn->event.ready = conn_ready;
    conn->event.fd = conn->transport.fd;
    conn->readable = conn->writable = true;            /* edges before this are not reported again */
    pthread_mutex_lock(&loop->mutex);
    conn->next = loop->conns;
    if (loop->conns != NULL) loop->conns->prev = conn;
    loop->conns = conn;
    pthread_mutex_unlock(&loop->mutex);
    if (ot_loop_fd_add(loop->loop, &conn->event, conn->transport.ops->wants(&conn->transport, true, true), false) != OT_OK) {
        ot_conn_abort(conn, "no memory for its events");
        return;
    }
    conn->timer.fired = conn_tick;
    conn_ref(conn);
    conn_tick(&conn->timer);
    if (conn->handler->opened != NULL) conn->handler->opened(conn);
    conn_run(conn);
    conn_unref(conn);
}

static void conn_forced_back(struct net_loop *loop, struct net_room *room)
{
    room->forced_out = false;
    if (loop->starved != NULL) net_unstarve(loop);
}

static void reply_free(struct ot_conn *conn, struct ot_reply *reply)
{
    struct net_loop *loop = conn->loop;
    ot_buf_unref(reply->buf);
    conn_parts_release(conn, reply->parts);
    struct net_room *forced = reply->forced;
    net_reply_free(loop, reply);
    if (forced != NULL) conn_forced_back(loop, forced);
}

/* Tell the door once that waiting is of no use any more. */
static void conn_ending(struct ot_conn *conn)
{
    if (conn->ended) return;
    conn->ended = true;
    if (conn->handler->ending != NULL) conn->handler->ending(conn);
}

void conn_end(struct ot_conn *conn)
{
    struct net_loop *loop = conn->loop;
    if (conn->closed) return;
    conn->closed = true;
    probation_leave(conn);
    ot_exec_timer_cancel(loop->exec, &conn->timer);
    ot_loop_fd_remove(loop->loop, &conn->event);
    conn->transport.ops->shutdown(&conn->transport);
    close(conn->transport.fd);
    conn->transport.fd = -1;
    if (conn->starving) net_starve_cancel(loop, conn);
    ot_buf_unref(conn->frame);
    conn->frame = NULL;
    net_stash_free(loop, conn->stash);
    conn->stash = NULL;
    if (!conn->io_busy) {                  /* else when the I/O thread has let go of the head */
        conn_parts_release(conn, conn->out);
        conn->out = conn->out_last = NULL;
    }
    /* answered or not taken yet: ours to free; in work: when the door answers */
    struct ot_reply *reply = conn->replies;
    conn->replies = conn->replies_last = conn->waiting = NULL;
    conn->reply_count = 0;
    while (reply != NULL) {
        struct ot_reply *next = reply->next;
        reply->next = NULL;
        if (reply->state != NET_REPLY_IN_WORK) reply_free(conn, reply);
        reply = next;
    }
    if (conn->frame_forced != NULL) {
        conn_forced_back(loop, conn->frame_forced);
        conn->frame_forced = NULL;
    }
    pthread_mutex_lock(&loop->mutex);
    if (conn->prev != NULL) conn->prev->next = conn->next;
    else loop->conns = conn->next;
    if (conn->next != NULL) conn->next->prev = conn->prev;
    pthread_mutex_unlock(&loop->mutex);
    NET_COUNT(loop, closed, 1);
    net_conn_gone(loop->net, conn, false);
    conn_ending(conn);
    conn_unref(conn);
}

void ot_conn_abort(struct ot_conn *conn, const char *why)
{
    if (conn->closed) return;
    ot_log(OT_LOG_DEBUG, "net", "connection_closed", "peer=%s listener=%s why=\"%s\"", conn->peer, conn->listener, why);
    conn_end(conn);
}

void ot_conn_finish(struct ot_conn *conn, const char *why)
{
    if (conn->closed || conn->finishing) return;
    ot_log(OT_LOG_DEBUG, "net", "connection_finishing", "peer=%s listener=%s why=\"%s\"", conn->peer, conn->listener, why);
    conn->finishing = true;
    conn_ending(conn);
    conn_schedule(conn);
}

void ot_conn_kick(struct ot_conn *conn) { conn_schedule(conn); }

/* ---- input */

static void reply_push(struct ot_conn *conn, struct ot_reply *reply)
{
    if (conn->replies_last != NULL) conn->replies_last->next = reply;
    else conn->replies = reply;
    conn->replies_last = reply;
    conn->reply_count++;
}

/* While answers are at their cap, who has none of its own waiting goes on, up to twice the cap: one that does not read holds up those that do not read either, and nobody else. */
static bool may_answer(const struct ot_conn *conn, const struct ot_reply *reply)
{
    const struct ot_pool *answers = net_setup(conn->loop->net)->response_pool;
    const size_t used = answers == NULL ? 0 : ot_pool_used_bytes(answers), cap = answers == NULL ? 1 : ot_pool_cap_bytes(answers);
    return used < cap || (used - cap < cap && conn->out == NULL && conn->replies == reply);
}

/* Offer a request to the door. False: nothing further may be taken now. */
static bool conn_offer(struct ot_conn *conn, struct ot_reply *reply)
{
    struct net_loop *loop = conn->loop;
    conn->waiting = NULL;
    if (!may_answer(conn, reply)) {
        conn->waiting = reply;
        net_starve(loop, conn, &loop->response_wait);
        return false;
    }
    reply->state = NET_REPLY_IN_WORK;      /* the door may answer before it returns */
    atomic_fetch_add_explicit(&conn->in_work, 1, memory_order_relaxed);
    conn_ref(conn);
    const enum ot_request_fate fate = conn->handler->request(conn, reply);
    if (fate == OT_REQUEST_TAKEN) {
        bump(&conn->requests, 1);
        NET_COUNT(loop, requests, 1);
        return conn_may_take(conn);
    }
    atomic_fetch_sub_explicit(&conn->in_work, 1, memory_order_relaxed);
    conn->refs--;                          /* the caller holds one */
    if (conn->closed) {                    /* closed by the door while it was offered: conn_end took it for one in work */
        reply_free(conn, reply);
        return false;
    }
    reply->state = NET_REPLY_OFFERED;
    conn->waiting = reply;
    if (fate == OT_REQUEST_STARVED) net_starve(loop, conn, NULL);
    return false;
}

static bool conn_deliver(struct ot_conn *conn)
{
    struct ot_reply *reply = net_reply_new(conn->loop);
    if (reply == NULL) {
        ot_conn_abort(conn, "no memory for a request");
        return false;
    }
    reply->conn = conn;
    reply->buf = conn->frame;
    reply->data = conn->frame->data;
    reply->bytes = conn->frame->bytes;
    reply->forced = conn->frame_forced;
    reply->state = NET_REPLY_OFFERED;
    reply->received_us = conn->read_us;
    conn->frame = NULL;
    conn->frame_forced = NULL;
    conn->head_got = 0;
    reply_push(conn, reply);
    return conn_offer(conn, reply);
}

/* The size is known: get a buffer for the request. */
static bool frame_begin(struct ot_conn *conn)
{
    struct net_loop *loop = conn->loop;
    const struct ot_net_setup *setup = net_setup(loop->net);
    const int32_t size = ot_load_i32(conn->head);
    const uint32_t max = conn->bytes_max > 0 ? OT_MIN(conn->bytes_max, setup->request_bytes_max) : setup->request_bytes_max;
    if (size <= 0 || (uint32_t)size > max) {
        NET_COUNT(loop, closed_bad_frame, 1);
        ot_log(OT_LOG_WARN, "net", "bad_frame", "peer=%s listener=%s size=%d max=%u", conn->peer, conn->listener, size, max);
        ot_conn_finish(conn, "a request of an impossible size");
        return false;
    }
    struct net_room *room = setup->small_pool != NULL && (uint32_t)size <= setup->small_bytes ? &loop->small : &loop->requests;
    conn->frame = ot_buf_new(room->wait.pool, (size_t)size);
    if (conn->frame == NULL && room == &loop->small) conn->frame = ot_buf_new(setup->request_pool, (size_t)size);      /* what the large ones leave is theirs as well */
    if (conn->frame == NULL && !room->forced_out) {
        conn->frame = ot_buf_new_forced(room->wait.pool, (size_t)size);
        if (conn->frame == NULL) {
            ot_conn_abort(conn, "no memory for a request");
            return false;
        }
        conn->frame_forced = room;
        room->forced_out = true;
    }
    if (conn->frame == NULL) {
        net_starve(loop, conn, &room->wait);
        return false;
    }
    conn->frame->bytes = (uint32_t)size;
    conn->frame_got = 0;
    return true;
}

/* Take bytes; how many were taken tells whether more may come. Every whole request is offered. */
static uint32_t conn_feed(struct ot_conn *conn, const uint8_t *data, uint32_t bytes, uint32_t *budget)
{
    uint32_t at = 0;
    for (;;) {
        if (conn->frame == NULL) {
            if (!conn_may_take(conn) || *budget == 0) return at;
            if (conn->head_got < 4) {
                const uint32_t step = OT_MIN(4 - conn->head_got, bytes - at);
                memcpy(conn->head + conn->head_got, data + at, step);
                conn->head_got += step;
                at += step;
                if (conn->head_got < 4) return at;
            }
            if (!frame_begin(conn)) return at;
        }
        /* small requests, and the first part of large ones (at most NET_SCRATCH_BYTES): see there why a copy is the cheaper way */
        const uint32_t step = OT_MIN(conn->frame->bytes - conn->frame_got, bytes - at);
        memcpy(conn->frame->data + conn->frame_got, data + at, step);
        conn->frame_got += step;
        at += step;
        if (conn->frame_got < conn->frame->bytes) return at;
        (*budget)--;
        if (!conn_deliver(conn)) return at;
    }
}

static void stash_put(struct ot_conn *conn, const uint8_t *data, uint32_t bytes)
{
    OT_ASSERT(conn->stash == NULL);
    if ((conn->stash = net_stash_new(conn->loop)) == NULL) {
        ot_conn_abort(conn, "no memory for its input");
        return;
    }
    memcpy(conn->stash->bytes, data, bytes);
    conn->stash->at = 0;
    conn->stash->end = bytes;
}

/* What is stashed goes first. False: it is not used up. */
static bool stash_feed(struct ot_conn *conn, uint32_t *budget)
{
    struct net_stash *stash = conn->stash;
    if (stash == NULL) return true;
    stash->at += conn_feed(conn, stash->bytes + stash->at, stash->end - stash->at, budget);
    if (conn->closed || stash->at < stash->end) return false;
    conn->stash = NULL;
    net_stash_free(conn->loop, stash);
    return true;
}

/* One recv. False: nothing more for now. */
static bool conn_receive(struct ot_conn *conn, uint32_t *budget)
{
    struct iovec iov[2];
    int count = 0;
    size_t got = 0;
    const uint32_t rest = conn->frame != NULL ? conn->frame->bytes - conn->frame_got : 0;
    if (rest > 0) iov[count++] = (struct iovec){ conn->frame->data + conn->frame_got, rest };
    iov[count++] = (struct iovec){ conn->loop->scratch, NET_SCRATCH_BYTES };
    const enum ot_moved moved = conn->transport.ops->recv(&conn->transport, iov, count, &got);
    if (moved == OT_MOVED_AGAIN) {
        conn->readable = false;
        return false;
    }
    if (moved == OT_MOVED_END) {
        conn->eof = true;
        conn->readable = false;
        return false;
    }
    if (moved == OT_MOVED_FAILED) {
        ot_conn_abort(conn, "receiving failed");
        return false;
    }
    conn->read_us = conn_turn(conn);
    atomic_store_explicit(&conn->active_us, conn->read_us, memory_order_relaxed);
    /* less than asked for: the socket is empty, the next byte makes a new edge. An end makes none if it came with these bytes */
    if (got < (size_t)rest + NET_SCRATCH_BYTES && !conn->hung_up) conn->readable = false;
    bump(&conn->bytes_in, got);
    NET_COUNT(conn->loop, bytes_in, got);
    const uint32_t direct = (uint32_t)OT_MIN(got, (size_t)rest), extra = (uint32_t)(got - direct);
    uint32_t fed = 0;
    bool more = true;
    if (direct > 0) {
        conn->frame_got += direct;
        if (conn->frame_got == conn->frame->bytes) {
            (*budget)--;
            more = conn_deliver(conn);
        }
    }
    if (more) fed = conn_feed(conn, conn->loop->scratch, extra, budget);
    if (!conn->closed && fed < extra) stash_put(conn, conn->loop->scratch + fed, extra - fed);
    return true;
}

static void conn_input(struct ot_conn *conn)
{
    uint32_t budget = NET_REQUESTS_PER_TURN;
    if (conn->waiting != NULL && !conn->starving && !conn->finishing) (void)conn_offer(conn, conn->waiting);
    while (!conn->closed && budget > 0) {
        if (conn->frame == NULL && !conn_may_take(conn)) break;
        if (conn->waiting != NULL || conn->finishing) break;      /* a frame in work waits for what was put off before it */
        if (!stash_feed(conn, &budget) || !conn->readable) break;
        if (conn->frame == NULL && !conn_may_take(conn)) break;
        if (!conn_receive(conn, &budget)) break;
    }
    if (!conn->closed && budget == 0) conn_schedule(conn);
}

/* ---- answers in order */

static void conn_collect(struct ot_conn *conn)
{
    while (conn->replies != NULL && conn->replies->state == NET_REPLY_DONE) {
        struct ot_reply *reply = conn->replies;
        if (reply->failed) {
            ot_conn_abort(conn, "no memory for an answer");
            return;
        }
        conn->replies = reply->next;
        if (conn->replies == NULL) conn->replies_last = NULL;
        conn->reply_count--;
        if (reply->parts != NULL) {
            if (conn->out != NULL) conn->out_last->next = reply->parts;
            else {
                conn->out = reply->parts;
                conn->sent_us = conn_turn(conn);
            }
            conn->out_last = reply->parts_last;
            reply->parts = NULL;
        }
        reply_free(conn, reply);
    }
}

static void conn_settle(struct ot_conn *conn)
{
    if (conn->closed) return;
    const bool nothing_due = conn->replies == NULL && conn->out == NULL && !conn->io_busy;
    if (conn->finishing && conn->waiting != NULL && conn->waiting == conn->replies && conn->replies->next == NULL && conn->out == NULL) {
        conn_end(conn);                    /* only a request is left that was never taken */
        return;
    }
    if (conn->finishing && nothing_due) {
        conn_end(conn);
        return;
    }
    /* the peer will not read answers; what it sent before it left (acks=0!) is still taken */
    if (conn->eof && conn->waiting == NULL && conn->stash == NULL) ot_conn_abort(conn, "closed by the peer");
}

static void conn_run(struct ot_conn *conn)
{
    if (conn->closed || conn->running) return;
    conn_ref(conn);
    conn->running = true;
    /* again when answers given at once made room for requests that are already here */
    for (int round = 0; round < 4 && !conn->closed; round++) {
        const uint64_t before = atomic_load_explicit(&conn->requests, memory_order_relaxed);
        conn_input(conn);
        if (conn->closed) break;
        conn_collect(conn);
        if (conn->closed || !conn_flush(conn)) break;
        if (atomic_load_explicit(&conn->requests, memory_order_relaxed) == before) break;
    }
    if (!conn->closed && (conn->stash != NULL || conn->readable) && conn_may_take(conn)) conn_schedule(conn);
    conn->running = false;
    conn_settle(conn);
    conn_unref(conn);
}

static void reply_done(struct ot_reply *reply)
{
    struct ot_conn *conn = reply->conn;
    OT_ASSERT(reply->state == NET_REPLY_IN_WORK);
    reply->state = NET_REPLY_DONE;
    atomic_fetch_sub_explicit(&conn->in_work, 1, memory_order_relaxed);
    ot_buf_unref(reply->buf);
    reply->buf = NULL;
    if (conn->closed) {
        reply_free(conn, reply);
    } else {
        bump(&conn->output_bytes, reply->output_bytes);
        atomic_store_explicit(&conn->active_us, conn_turn(conn), memory_order_relaxed);
        if (!conn->running) conn_schedule(conn);      /* else it looks for answers after its input */
    }
    if (conn->loop->starved != NULL) net_unstarve(conn->loop);
    conn_unref(conn);
}

void ot_reply_send(struct ot_reply *reply) { reply_done(reply); }

void ot_reply_none(struct ot_reply *reply)
{
    conn_parts_release(reply->conn, reply->parts);
    reply->parts = reply->parts_last = NULL;
    reply->output_bytes = 0;
    reply_done(reply);
}

/* ---- for doors */

void *ot_conn_door(struct ot_conn *conn) { return conn->door; }
void *ot_conn_arg(struct ot_conn *conn) { return conn->arg; }
struct ot_exec *ot_conn_exec(struct ot_conn *conn) { return conn->loop->exec; }
uint32_t ot_conn_loop_index(const struct ot_conn *conn) { return conn->loop->index; }
bool ot_conn_open(const struct ot_conn *conn) { return !conn->closed; }
const char *ot_conn_peer(const struct ot_conn *conn) { return conn->peer; }
const char *ot_conn_peer_host(const struct ot_conn *conn) { return conn->peer_host; }
const char *ot_conn_local_host(const struct ot_conn *conn) { return conn->local_host; }
uint16_t ot_conn_local_port(const struct ot_conn *conn) { return conn->local_port; }
const char *ot_conn_listener(const struct ot_conn *conn) { return conn->listener; }
uint64_t ot_conn_id(const struct ot_conn *conn) { return conn->id; }

static void describe_one(char *to, struct ot_str text)
{
    if (text.null) return;
    const size_t bytes = OT_MIN((size_t)text.bytes, (size_t)NET_CLIENT_BYTES - 1);
    memcpy(to, text.data, bytes);
    to[bytes] = '\0';
}

void ot_conn_describe(struct ot_conn *conn, struct ot_str client_id, struct ot_str software_name, struct ot_str software_version)
{
    pthread_mutex_lock(&conn->loop->mutex);
    describe_one(conn->client_id, client_id);
    describe_one(conn->software_name, software_name);
    describe_one(conn->software_version, software_version);
    pthread_mutex_unlock(&conn->loop->mutex);
}
