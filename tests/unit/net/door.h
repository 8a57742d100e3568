/* A small door for tests of connections: the first byte of a request says what to do with it. */
#ifndef TEST_NET_DOOR_H
#define TEST_NET_DOOR_H

#include "base/net/address.h"
#include "base/net/net.h"
#include "base/util.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wunused-function"      /* not every test uses all of it */
#define HELD_MAX 4096

struct door {
    struct ot_net *net;
    struct ot_pool *requests, *answers;
    struct ot_exec_pool *io_pool;
    struct ot_net_setup setup;
    pthread_mutex_t mutex;
    struct ot_reply *held[HELD_MAX];       /* 'h': answered by door_release */
    uint32_t held_count, taken, put_off, opened, closed, ended;
    uint32_t probation_bytes; int64_t probation_us;        /* of who comes; 't' ends it */
    bool wait_on;                          /* 'w' is put off while set */
    _Atomic uint32_t pins_out;
    int file;                              /* 'f': bytes from here */
    bool cold;
    uint32_t span_bytes;                   /* of 'f'; 0: as in the request */
    struct ot_task task;
    struct ot_conn *last;
};
static struct door door;

struct test_pin { struct ot_pin pin; bool released; };
static void pin_release(struct ot_pin *pin)
{
    struct test_pin *mine = OT_CONTAINER(pin, struct test_pin, pin);
    if (mine->released) abort();
    mine->released = true;
    atomic_fetch_sub(&door.pins_out, 1);
    free(mine);
}

static void door_echo(struct ot_reply *reply, uint32_t bytes)
{
    struct ot_buf *buf = ot_buf_new_forced(door.answers, bytes + 4);
    ot_store_u32(buf->data, bytes);
    for (uint32_t i = 0; i < bytes; i++) buf->data[4 + i] = reply->data[i % reply->bytes];
    ot_reply_memory(reply, buf->data, 2, NULL);        /* in pieces, so that gathering is seen */
    ot_reply_memory(reply, buf->data + 2, bytes + 2, buf);
    ot_reply_send(reply);
}

static void door_file(struct ot_reply *reply)
{
    const uint32_t pos = ot_load_u32(reply->data + 1), bytes = ot_load_u32(reply->data + 5);
    struct ot_buf *buf = ot_buf_new_forced(door.answers, 4);
    struct test_pin *pin = calloc(1, sizeof *pin);
    pin->pin.release = pin_release;
    atomic_fetch_add(&door.pins_out, 1);
    ot_store_u32(buf->data, bytes);
    ot_reply_memory(reply, buf->data, 4, buf);
    const struct ot_span first = { .fd = door.file, .pos = pos, .bytes = bytes / 2, .cold = door.cold };
    const struct ot_span second = { .fd = door.file, .pos = pos + bytes / 2, .bytes = bytes - bytes / 2, .cold = door.cold };
    ot_reply_span(reply, &first, NULL);
    ot_reply_span(reply, &second, &pin->pin);
    ot_reply_send(reply);
}

static enum ot_request_fate door_request(struct ot_conn *conn, struct ot_reply *reply)
{
    pthread_mutex_lock(&door.mutex);
    door.last = conn;
    const bool wait = door.wait_on && reply->data[0] == 'w';
    if (wait) door.put_off++;
    else door.taken++;
    if (reply->data[0] == 'h') door.held[door.held_count++] = reply;
    pthread_mutex_unlock(&door.mutex);
    if (wait) return OT_REQUEST_LATER;
    if (reply->data[0] == 't') ot_conn_trust(conn);
    switch (reply->data[0]) {
    case 'h': break;
    case 'n': ot_reply_none(reply); break;
    case 'f': door_file(reply); break;
    case 'b': door_echo(reply, ot_load_u32(reply->data + 1)); break;       /* a big answer */
    case 'x':
        ot_conn_finish(conn, "garbage");
        return OT_REQUEST_LATER;
    default: door_echo(reply, reply->bytes);
    }
    return OT_REQUEST_TAKEN;
}

static void door_opened(struct ot_conn *conn)
{
    *(uint32_t *)ot_conn_door(conn) = 77;
    ot_conn_describe(conn, ot_str_of("client-1"), ot_str_of("librdkafka"), ot_str_of("2.3.0"));
    if (door.probation_us > 0) ot_conn_probation(conn, door.probation_bytes, door.probation_us);
    pthread_mutex_lock(&door.mutex);
    door.opened++;
    pthread_mutex_unlock(&door.mutex);
}

static void door_ending(struct ot_conn *conn)
{
    (void)conn;
    pthread_mutex_lock(&door.mutex);
    door.ended++;
    pthread_mutex_unlock(&door.mutex);
}

static void door_closed(struct ot_conn *conn)
{
    if (*(uint32_t *)ot_conn_door(conn) != 77) abort();
    pthread_mutex_lock(&door.mutex);
    door.closed++;
    pthread_mutex_unlock(&door.mutex);
}

static const struct ot_conn_handler door_handler = { sizeof(uint32_t), door_opened, door_request, door_ending, door_closed };

static void door_start(void)
{
    assert_int_equal(ot_net_open(&door.setup, &door.net), OT_OK);
}

/* Start over with the defaults; then change door.setup and call door_start. */
static void door_init(void)
{
    memset(&door, 0, sizeof door);
    pthread_mutex_init(&door.mutex, NULL);
    door.file = -1;
    door.requests = ot_pool_new("requests", 16u << 20, 1u << 20);
    door.answers = ot_pool_new("answers", 64u << 20, 1u << 20);
    assert_int_equal(ot_exec_pool_start("io", 1, &door.io_pool), OT_OK);
    door.setup = (struct ot_net_setup){ .loop_count = 2, .request_pool = door.requests, .response_pool = door.answers, .io = ot_io_real(),
        .io_exec = ot_exec_pool_exec(door.io_pool), .request_bytes_max = 64u << 20, .send_buffer_bytes = -1, .receive_buffer_bytes = -1,
        .connections_max = 1000, .connections_per_ip_max = 1000, .idle_us = -1, .progress_us = 60000000, .requests_max = 64 };
}

static void door_stop(void)
{
    ot_net_close(door.net);
    ot_exec_pool_stop(door.io_pool);
    assert_int_equal(atomic_load(&door.pins_out), 0);
    assert_int_equal(door.opened, door.closed);
    assert_int_equal(door.opened, door.ended);
    ot_pool_free(door.requests);           /* asserts that every buffer came back */
    ot_pool_free(door.answers);
    if (door.file >= 0) close(door.file);
}

static void patience(int fd)
{
    const struct timeval limit = { .tv_sec = 30 };
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit), 0);
}

/* One more client over a socket pair. */
static int door_client(void)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(fcntl(pair[1], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(ot_net_adopt(door.net, pair[1], "TEST", &door_handler, &door), OT_OK);
    patience(pair[0]);
    return pair[0];
}

static void say(int fd, const void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t step = send(fd, (const uint8_t *)data + done, bytes - done, MSG_NOSIGNAL);
        if (step <= 0) fail_msg("send: errno %d", errno);
        done += (size_t)step;
    }
}

static void say_frame(int fd, const void *data, uint32_t bytes)
{
    uint8_t *frame = malloc(bytes + 4);
    ot_store_u32(frame, bytes);
    memcpy(frame + 4, data, bytes);
    say(fd, frame, bytes + 4);
    free(frame);
}

static void say_text(int fd, const char *text) { say_frame(fd, text, (uint32_t)strlen(text)); }

static bool hear_bytes(int fd, void *out, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t step = recv(fd, (uint8_t *)out + done, bytes - done, 0);
        if (step <= 0) return false;
        done += (size_t)step;
    }
    return true;
}

/* The next answer, malloc'ed; fails the test when there is none. */
static uint8_t *hear(int fd, uint32_t *bytes_out)
{
    uint8_t head[4];
    if (!hear_bytes(fd, head, 4)) fail_msg("no answer");
    *bytes_out = ot_load_u32(head);
    uint8_t *data = malloc(*bytes_out + 1);
    if (!hear_bytes(fd, data, *bytes_out)) fail_msg("half an answer");
    data[*bytes_out] = 0;
    return data;
}

static void hear_text(int fd, const char *text)
{
    uint32_t bytes = 0;
    uint8_t *data = hear(fd, &bytes);
    assert_string_equal((char *)data, text);
    free(data);
}

static void hear_end(int fd)
{
    uint8_t byte;
    const ssize_t got = recv(fd, &byte, 1, 0);
    if (got > 0) fail_msg("a byte where the end was due");
    if (got < 0 && errno != ECONNRESET) fail_msg("no end: errno %d", errno);
}

static uint32_t now(const uint32_t *value)
{
    pthread_mutex_lock(&door.mutex);
    const uint32_t is = *value;
    pthread_mutex_unlock(&door.mutex);
    return is;
}

/* Wait, bounded, until *value is at least what is asked. */
static void until(const uint32_t *value, uint32_t least)
{
    for (int i = 0; i < 30000; i++) {
        if (now(value) >= least) return;
        struct timeval pause = { .tv_usec = 1000 };
        select(0, NULL, NULL, NULL, &pause);
    }
    fail_msg("waited in vain");
}

static void release_here(struct ot_task *task)
{
    (void)task;
    pthread_mutex_lock(&door.mutex);
    const uint32_t count = door.held_count;
    door.held_count = 0;
    pthread_mutex_unlock(&door.mutex);
    for (uint32_t i = count; i-- > 0;) door_echo(door.held[i], door.held[i]->bytes);        /* the newest first */
}

/* Answer what is held, newest first. All held requests are of one loop in the tests that use it. */
static void door_release(void)
{
    pthread_mutex_lock(&door.mutex);
    struct ot_exec *exec = ot_conn_exec(door.held[0]->conn);
    pthread_mutex_unlock(&door.mutex);
    door.task.run = release_here;
    ot_exec_post(exec, &door.task);
}

#endif
