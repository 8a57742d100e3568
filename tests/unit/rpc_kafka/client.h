/* A client of the Kafka door over a socket pair, with the fake broker behind the door. */
#ifndef TEST_RPC_CLIENT_H
#define TEST_RPC_CLIENT_H

#include "testing.h"

#include "base/net/address.h"
#include "base/util.h"
#include "base/wire/apis.h"
#include "fake_broker.h"
#include "rpc/kafka/server.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>

#pragma GCC diagnostic ignored "-Wunused-function"      /* not every test uses all of it */

static struct { struct rpc_kafka_server *server; struct ot_pool *requests, *answers; struct ot_metrics *metrics; struct ot_arena arena; int32_t correlation; bool peer; uint32_t strangers_max; } door;

static void door_start_with(const struct rpc_kafka_listener *listeners, uint32_t count)
{
    door.requests = ot_pool_new("requests", 16u << 20, 1u << 20);
    door.answers = ot_pool_new("answers", 64u << 20, 1u << 20);
    door.metrics = ot_metrics_new(1000);
    const struct rpc_kafka_setup setup = { .listeners = listeners, .listener_count = count, .peer = door.peer, .strangers_max = door.strangers_max, .request_pool = door.requests, .response_pool = door.answers,
        .io = ot_io_real(), .io_exec = ot_exec_pool_exec(fake.pool), .metrics = door.metrics };
    assert_int_equal(rpc_kafka_server_start(fake_pointer(), &setup, &door.server), OT_OK);
    ot_arena_init(&door.arena, 64u << 20);
}

static void door_start(void)
{
    fake_init();
    door_start_with(NULL, 0);
}

static void door_stop(void)
{
    rpc_kafka_server_stop(door.server, 10000);
    fake_release();
    rpc_kafka_server_free(door.server);
    ot_metrics_free(door.metrics);
    ot_arena_free(&door.arena);
    fake_free();
    ot_pool_free(door.requests);           /* asserts that every buffer came back */
    ot_pool_free(door.answers);
    assert_int_equal(atomic_load(&fake.pins_out), 0);
    if (fake.file >= 0) close(fake.file);
}

static void patience(int fd)
{
    const struct timeval limit = { .tv_sec = 30 };
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit), 0);
}

static int client(void)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(fcntl(pair[1], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(rpc_kafka_server_adopt(door.server, pair[1]), OT_OK);
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

/* A request of bytes after the header. Answers its correlation id. */
static int32_t ask_bytes(int fd, int16_t key, int16_t version, const void *body, size_t body_bytes)
{
    const struct ot_api *api = ot_api_find(key);
    const struct ot_wire_request_header header = { .api = api, .key = key, .version = version, .correlation_id = ++door.correlation, .client_id = ot_str_of("test-client") };
    uint8_t *frame = malloc(body_bytes + 256);
    struct ot_writer out = ot_writer_over(frame, body_bytes + 256);
    ot_write_u32(&out, 0);
    if (api != NULL) {
        assert_int_equal(ot_wire_request_header_encode(&header, &out), OT_OK);
    } else {
        ot_write_u16(&out, (uint16_t)key);
        ot_write_u16(&out, (uint16_t)version);
        ot_write_u32(&out, (uint32_t)header.correlation_id);
        ot_write_u16(&out, 0xffff);
    }
    ot_write_bytes(&out, body, body_bytes);
    assert_int_equal(out.err, OT_OK);
    const size_t bytes = (size_t)(out.at - frame);
    ot_store_u32(frame, (uint32_t)bytes - 4);
    say(fd, frame, bytes);
    free(frame);
    return header.correlation_id;
}

static int32_t ask(int fd, int16_t key, int16_t version, const void *request)
{
    const struct ot_api *api = ot_api_find(key);
    const size_t bytes = ot_wire_size(api->request, version, request);
    struct ot_wire_error error = { "", "" };
    if (ot_wire_encode_check(api->request, version, request, &error) != OT_OK) fail_msg("%s: %s", error.field, error.reason);
    uint8_t *body = malloc(bytes + 1);
    struct ot_writer out = ot_writer_over(body, bytes);
    assert_int_equal(ot_wire_encode(api->request, version, request, &out, NULL), OT_OK);
    const int32_t correlation = ask_bytes(fd, key, version, body, bytes);
    free(body);
    return correlation;
}

static bool hear_bytes(int fd, void *out, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t step = recv(fd, (uint8_t *)out + done, bytes - done, 0);
        if (step <= 0) return false;
        done += (size_t)step;
    }
    return true;
}

/* The next frame, in the arena (which door_stop frees). */
static uint8_t *hear_frame(int fd, uint32_t *bytes_out)
{
    uint8_t head[4];
    if (!hear_bytes(fd, head, 4)) fail_msg("no answer");
    *bytes_out = ot_load_u32(head);
    uint8_t *frame = ot_arena_alloc(&door.arena, *bytes_out + 1);
    assert_non_null(frame);
    if (!hear_bytes(fd, frame, *bytes_out)) fail_msg("half an answer");
    return frame;
}

/* The next answer, decoded: it must be of this request and of this version, to the last byte. */
static void hear(int fd, int16_t key, int16_t version, int32_t correlation, void *response)
{
    const struct ot_api *api = ot_api_find(key);
    uint32_t bytes = 0;
    int32_t told = 0;
    struct ot_wire_error error = { "", "" };
    const uint8_t *frame = hear_frame(fd, &bytes);
    struct ot_reader in = ot_reader_over(frame, bytes);
    assert_int_equal(ot_wire_response_header_decode(api, version, &in, &door.arena, &told, &error), OT_OK);
    assert_int_equal(told, correlation);
    if (ot_wire_decode_all(api->response, version, &in, &door.arena, response, &error) != OT_OK) fail_msg("%s v%d: %s: %s", api->name, version, error.field, error.reason);
}

static void exchange(int fd, int16_t key, int16_t version, const void *request, void *response)
{
    hear(fd, key, version, ask(fd, key, version, request), response);
}

static void hear_end(int fd)
{
    uint8_t byte;
    const ssize_t got = recv(fd, &byte, 1, 0);
    if (got > 0) fail_msg("a byte where the end was due");
    if (got < 0 && errno != ECONNRESET) fail_msg("no end: errno %d", errno);
}

static uint32_t fake_now(const uint32_t *value)
{
    pthread_mutex_lock(&fake.mutex);
    const uint32_t is = *value;
    pthread_mutex_unlock(&fake.mutex);
    return is;
}

static void until(const uint32_t *value, uint32_t least)
{
    for (int i = 0; i < 30000; i++) {
        if (fake_now(value) >= least) return;
        struct timeval pause = { .tv_usec = 1000 };
        select(0, NULL, NULL, NULL, &pause);
    }
    fail_msg("waited in vain");
}

static void assert_str(struct ot_str is, const char *should)
{
    if (!ot_str_equal(is, ot_str_of(should))) fail_msg("\"%.*s\" instead of \"%s\"", is.null ? 6 : (int)is.bytes, is.null ? "(null)" : is.data, should == NULL ? "(null)" : should);
}

static struct ot_str none(void) { return (struct ot_str){ .null = true }; }

#endif
