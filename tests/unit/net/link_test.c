/* Outgoing connections: calls, deadlines, losses, greetings, over TCP on loopback. The server's side is a listener whose answers the request asks for in its ninth byte. */
#include "base/net/address.h"
#include "base/net/link.h"
#include "base/net/net.h"
#include "base/util.h"

#include <stdarg.h>
#include <setjmp.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

static struct {
    struct ot_net *net;
    struct ot_pool *requests, *answers, *pool;
    struct ot_exec_pool *io;
    struct ot_links *links;
    uint16_t port;
    pthread_mutex_t mutex;
    struct ot_reply *held[64]; uint32_t held_count;
    uint32_t greeted, refuse_greeting;
    uint32_t events[4], gone;
    uint32_t listen_count; int listen_fds[OT_NET_SOCKETS_MAX];
} t;

static void lock(void) { pthread_mutex_lock(&t.mutex); }
static void unlock(void) { pthread_mutex_unlock(&t.mutex); }

static void until(const uint32_t *value, uint32_t least)
{
    for (int i = 0; i < 30000; i++) {
        lock();
        const bool enough = *value >= least;
        unlock();
        if (enough) return;
        select(0, NULL, NULL, NULL, &(struct timeval){ .tv_usec = 1000 });
    }
    fail_msg("waited in vain");
}

/* ---- the other side */

static void echo(struct ot_reply *reply, uint32_t bytes)
{
    struct ot_buf *buf = ot_buf_new_forced(t.answers, (size_t)bytes + 4);
    ot_store_u32(buf->data, bytes);
    memset(buf->data + 4, 'x', bytes);
    memcpy(buf->data + 4, reply->data + 4, OT_MIN(bytes, reply->bytes - 4));
    ot_reply_memory(reply, buf->data, bytes + 4, buf);
    ot_reply_send(reply);
}

static enum ot_request_fate serve_request(struct ot_conn *conn, struct ot_reply *reply)
{
    switch (reply->data[8]) {
    case 'h':
        lock();
        t.held[t.held_count++] = reply;
        unlock();
        break;
    case 'b': echo(reply, ot_load_u32(reply->data + 9)); break;            /* a big answer */
    case 'x':
        ot_conn_abort(conn, "asked for");
        return OT_REQUEST_LATER;
    case 'w': {                                                            /* an answer to nothing */
        struct ot_buf *buf = ot_buf_new_forced(t.answers, 12);
        memset(buf->data, 0, 12);
        ot_store_u32(buf->data, 8);
        ot_reply_memory(reply, buf->data, 12, buf);
        ot_reply_send(reply);
        break;
    }
    case 'g':
        lock();
        t.greeted++;
        const bool refuse = t.refuse_greeting > 0;
        if (refuse) t.refuse_greeting--;
        unlock();
        if (refuse) ((uint8_t *)(uintptr_t)reply->data)[9] = 'n';
        echo(reply, reply->bytes - 4);
        break;
    default: echo(reply, reply->bytes - 4);
    }
    return OT_REQUEST_TAKEN;
}

static const struct ot_conn_handler other_side = { 0, NULL, serve_request, NULL, NULL };

static void listen_on(uint16_t port)
{
    char text[200] = "";
    t.listen_count = 0;
    assert_int_equal(ot_net_listen("127.0.0.1", port, 50, t.listen_fds, &t.listen_count, &t.port, text, sizeof text), OT_OK);
}

static void serve(void)
{
    struct ot_net_setup setup = { .loop_count = 1, .request_pool = t.requests, .response_pool = t.answers, .request_bytes_max = 64u << 20, .send_buffer_bytes = -1,
        .receive_buffer_bytes = -1, .connections_max = 1000, .connections_per_ip_max = 1000, .idle_us = -1, .progress_us = 60000000, .requests_max = 64 };
    assert_int_equal(ot_net_open(&setup, &t.net), OT_OK);
    for (uint32_t i = 0; i < t.listen_count; i++) assert_int_equal(ot_net_serve(t.net, t.listen_fds[i], "PEER", &other_side, NULL), OT_OK);
}

static void stop_serving(void)
{
    ot_net_drain(t.net, 0);
    ot_net_close(t.net);
    t.net = NULL;
}

static void begin(void)
{
    memset(&t, 0, sizeof t);
    pthread_mutex_init(&t.mutex, NULL);
    t.requests = ot_pool_new("requests", 64u << 20, 1u << 20);
    t.answers = ot_pool_new("answers", 64u << 20, 1u << 20);
    t.pool = ot_pool_new("links", 1u << 20, 1u << 16);
    assert_int_equal(ot_exec_pool_start("io", 1, &t.io), OT_OK);
    assert_int_equal(ot_links_open("links", ot_exec_pool_exec(t.io), 1, &t.links), OT_OK);
    listen_on(0);
}

static void end(struct ot_link *link)
{
    ot_link_close(link);
    ot_links_close(t.links);
    if (t.net != NULL) stop_serving();
    ot_exec_pool_stop(t.io);
    ot_pool_free(t.requests);
    ot_pool_free(t.answers);
    ot_pool_free(t.pool);                  /* asserts that every buffer came back */
}

/* A held request is answered on its connection's loop. */
struct let_go { struct ot_task task; struct ot_reply *reply; bool answer; };

static void let_go_run(struct ot_task *task)
{
    struct let_go *go = OT_CONTAINER(task, struct let_go, task);
    if (go->answer) echo(go->reply, go->reply->bytes - 4);
    else ot_reply_none(go->reply);
    free(go);
}

static void let_go(struct ot_reply *reply, bool answer)
{
    struct let_go *go = calloc(1, sizeof *go);
    *go = (struct let_go){ .task.run = let_go_run, .reply = reply, .answer = answer };
    ot_exec_post(ot_conn_exec(reply->conn), &go->task);
}

static void give_up(struct ot_reply *reply) { let_go(reply, false); }

/* ---- this side */

static void noted(void *arg, enum ot_link_event event)
{
    (void)arg;
    lock();
    t.events[event]++;
    unlock();
}

static void went(void *arg)
{
    (void)arg;
    lock();
    t.gone++;
    unlock();
}

static struct ot_link *open_link(struct ot_link_setup setup)
{
    struct ot_link *link = NULL;
    setup.host = setup.host == NULL ? "127.0.0.1" : setup.host;
    setup.port = setup.port == 0 ? t.port : setup.port;
    setup.pool = t.pool;
    setup.event = noted;
    setup.closed = went;
    assert_int_equal(ot_link_open(t.links, &setup, &link), OT_OK);
    return link;
}

struct call { struct ot_link_call call; uint32_t done; };

static void call_answered(struct ot_link_call *call)
{
    lock();
    OT_CONTAINER(call, struct call, call)->done++;
    unlock();
}

static void send_call(struct ot_link *link, struct call *call, const char *what, int64_t wait_ms)
{
    const uint32_t bytes = (uint32_t)strlen(what);
    struct ot_buf *request = ot_buf_new_forced(t.pool, 12 + bytes);
    memset(request->data, 0, 12);
    memcpy(request->data + 12, what, bytes);
    request->bytes = 12 + bytes;
    *call = (struct call){ .call = { .answered = call_answered, .request = request, .answer_bytes_max = call->call.answer_bytes_max == 0 ? 1u << 20 : call->call.answer_bytes_max,
        .deadline_us = ot_clock_boot_us() + wait_ms * 1000 } };
    ot_link_send(link, &call->call);
}

static void expect(struct call *call, enum ot_err error)
{
    until(&call->done, 1);
    assert_int_equal(call->call.error, error);
    ot_buf_unref(call->call.answer);
}

static void expect_text(struct call *call, const char *text)
{
    until(&call->done, 1);
    assert_int_equal(call->call.error, OT_OK);
    assert_int_equal(call->call.answer->bytes, 4 + strlen(text));
    assert_memory_equal(call->call.answer->data + 4, text, strlen(text));
    ot_buf_unref(call->call.answer);
}

static void calls_are_answered_by_their_own_answers(void **state)
{
    (void)state;
    begin();
    serve();
    struct ot_link *link = open_link((struct ot_link_setup){ 0 });
    struct call calls[40] = { 0 };
    char text[40][24];
    for (int i = 0; i < 40; i++) {
        snprintf(text[i], sizeof text[i], "echo %d", i);
        send_call(link, &calls[i], text[i], 30000);
    }
    for (int i = 0; i < 40; i++) expect_text(&calls[i], text[i]);
    assert_true(ot_link_up(link));
    assert_int_equal(t.events[OT_LINK_UP], 1);
    end(link);
    assert_int_equal(t.gone, 1);
}

static void a_name_is_looked_up(void **state)
{
    (void)state;
    begin();
    serve();
    struct ot_link *link = open_link((struct ot_link_setup){ .host = "localhost" });
    struct call call = { 0 };
    for (int i = 0; i < 5; i++) {          /* it may mean ::1 first, where nobody listens: the next try takes the next address */
        send_call(link, &call, "echo", 30000);
        until(&call.done, 1);
        if (call.call.error == OT_OK) break;
        assert_int_equal(call.call.error, OT_ERR_CLOSED);
    }
    expect_text(&call, "echo");
    end(link);
}

enum { BIG_MAX = 8 << 20 };
static void send_big(struct ot_link *link, struct call *call, uint32_t answer_bytes)
{
    struct ot_buf *request = ot_buf_new_forced(t.pool, 17);
    memset(request->data, 0, 17);
    request->data[12] = 'b';
    ot_store_u32(request->data + 13, answer_bytes);
    request->bytes = 17;
    *call = (struct call){ .call = { .answered = call_answered, .request = request, .answer_bytes_max = BIG_MAX, .deadline_us = ot_clock_boot_us() + 30000000 } };
    ot_link_send(link, &call->call);
}

static void a_big_answer_arrives_whole_and_a_too_big_one_is_refused(void **state)
{
    (void)state;
    begin();
    serve();
    struct ot_link *link = open_link((struct ot_link_setup){ 0 });
    struct call big = { 0 }, huge = { 0 }, after = { 0 };
    send_big(link, &big, 5000000);
    until(&big.done, 1);
    assert_int_equal(big.call.error, OT_OK);
    assert_int_equal(big.call.answer->bytes, 5000000);
    for (uint32_t i = 20; i < 5000000; i += 4999) assert_int_equal(big.call.answer->data[i], 'x');
    ot_buf_unref(big.call.answer);
    send_big(link, &huge, BIG_MAX + 1);
    send_call(link, &after, "echo", 30000);
    expect(&huge, OT_ERR_TOO_LARGE);
    expect_text(&after, "echo");           /* the link goes on behind what was thrown away */
    assert_int_equal(t.events[OT_LINK_LOST], 0);
    end(link);
}

static void a_deadline_ends_the_call_and_not_the_link(void **state)
{
    (void)state;
    begin();
    serve();
    struct ot_link *link = open_link((struct ot_link_setup){ 0 });
    struct call held = { 0 }, after = { 0 };
    send_call(link, &held, "h", 50);
    until(&t.held_count, 1);
    expect(&held, OT_ERR_REQUEST_TIMED_OUT);
    assert_true(held.call.sent);
    send_call(link, &after, "echo", 30000);
    let_go(t.held[0], true);               /* comes late: nobody waits */
    expect_text(&after, "echo");
    assert_int_equal(t.events[OT_LINK_LOST], 0);
    end(link);
}

static void silence_ends_the_link(void **state)
{
    (void)state;
    begin();
    serve();
    struct ot_link *link = open_link((struct ot_link_setup){ .silence_us = 50000 });
    struct call held = { 0 }, after = { 0 };
    send_call(link, &held, "h", 30000);
    expect(&held, OT_ERR_CLOSED);
    assert_true(held.call.sent);
    send_call(link, &after, "echo", 30000);
    expect_text(&after, "echo");
    assert_int_equal(t.events[OT_LINK_LOST], 1);
    assert_int_equal(t.events[OT_LINK_UP], 2);
    until(&t.held_count, 1);
    give_up(t.held[0]);
    end(link);
}

static void a_lost_connection_answers_what_was_sent_and_is_made_again(void **state)
{
    (void)state;
    begin();
    serve();
    struct ot_link *link = open_link((struct ot_link_setup){ 0 });
    struct call held = { 0 }, cut = { 0 }, after = { 0 };
    send_call(link, &held, "h", 30000);
    until(&t.held_count, 1);
    give_up(t.held[0]);
    send_call(link, &cut, "x", 30000);
    expect(&held, OT_ERR_CLOSED);
    expect(&cut, OT_ERR_CLOSED);
    send_call(link, &after, "echo", 30000);
    expect_text(&after, "echo");
    end(link);
}

static void an_answer_to_nothing_ends_the_connection(void **state)
{
    (void)state;
    begin();
    serve();
    struct ot_link *link = open_link((struct ot_link_setup){ 0 });
    struct call call = { 0 };
    send_call(link, &call, "w", 30000);
    expect(&call, OT_ERR_CLOSED);
    end(link);
}

static void nobody_there_is_told_and_tried_again(void **state)
{
    (void)state;
    begin();
    const uint16_t port = t.port;
    for (uint32_t i = 0; i < t.listen_count; i++) close(t.listen_fds[i]);
    struct ot_link *link = open_link((struct ot_link_setup){ .keep = true, .pause_us = 1000, .pause_max_us = 5000 });
    struct call call = { 0 };
    until(&t.events[OT_LINK_REFUSED], 2);
    send_call(link, &call, "echo", 30000);
    expect(&call, OT_ERR_CLOSED);
    assert_false(call.call.sent);
    listen_on(port);
    serve();
    until(&t.events[OT_LINK_UP], 1);
    send_call(link, &call, "echo", 30000);
    expect_text(&call, "echo");
    stop_serving();
    until(&t.events[OT_LINK_LOST], 1);
    end(link);
}

/* Of a name with two addresses the one that was up is the one whose refusal counts. */
static void another_address_that_refuses_says_nothing(void **state)
{
    (void)state;
    const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    struct addrinfo *list = NULL;
    assert_int_equal(getaddrinfo("localhost", NULL, &hints, &list), 0);
    const bool several = list->ai_next != NULL;
    freeaddrinfo(list);
    begin();
    serve();
    struct ot_link *link = open_link((struct ot_link_setup){ .host = "localhost", .keep = true, .pause_us = 1000, .pause_max_us = 5000 });
    until(&t.events[OT_LINK_UP], 1);
    assert_int_equal(t.events[OT_LINK_FAILED], 0);
    stop_serving();
    until(&t.events[OT_LINK_REFUSED], 3);
    if (several) until(&t.events[OT_LINK_FAILED], 2);
    end(link);
}

static void who_does_not_accept_is_given_up(void **state)
{
    (void)state;
    begin();                               /* listens, and nobody accepts: connected by the kernel, greeted by nobody */
    struct ot_link *link = open_link((struct ot_link_setup){ .silence_us = 30000 });
    struct call call = { 0 };
    send_call(link, &call, "echo", 30000);
    expect(&call, OT_ERR_CLOSED);
    ot_link_close(link);
    for (uint32_t i = 0; i < t.listen_count; i++) close(t.listen_fds[i]);
    end(NULL);
}

static void more_calls_than_allowed_are_answered_at_once(void **state)
{
    (void)state;
    begin();
    serve();
    struct ot_link *link = open_link((struct ot_link_setup){ .calls_max = 3 });
    struct call calls[4] = { 0 };
    for (int i = 0; i < 4; i++) send_call(link, &calls[i], "h", 30000);
    expect(&calls[3], OT_ERR_BUSY);
    ot_link_close(link);
    for (int i = 0; i < 3; i++) expect(&calls[i], OT_ERR_CLOSED);
    until(&t.gone, 1);
    until(&t.held_count, 3);
    for (uint32_t i = 0; i < 3; i++) give_up(t.held[i]);
    end(NULL);
}

static enum ot_err greet(void *arg, void *memory, const uint8_t *answer, uint32_t answer_bytes, uint8_t *out, uint32_t cap_bytes, uint32_t *bytes_out)
{
    uint32_t *step = memory;
    (void)arg;
    assert_true(cap_bytes >= 10);
    if (answer != NULL && (answer_bytes < 6 || answer[5] == 'n')) return OT_ERR_CLUSTER_AUTHORIZATION_FAILED;
    *bytes_out = 0;
    if ((*step)++ < 2) {
        memset(out, 0, 10);
        out[8] = 'g';
        out[9] = 'y';
        *bytes_out = 10;
    }
    return OT_OK;
}

static void the_greeting_comes_before_every_call(void **state)
{
    (void)state;
    begin();
    serve();
    t.refuse_greeting = 1;
    struct ot_link *link = open_link((struct ot_link_setup){ .greet = greet, .pause_us = 1000 });
    struct call call = { 0 };
    send_call(link, &call, "echo", 30000);
    expect(&call, OT_ERR_CLOSED);          /* refused: nothing was sent */
    assert_false(call.call.sent);
    assert_int_equal(t.events[OT_LINK_FAILED], 1);
    send_call(link, &call, "echo", 30000);
    expect_text(&call, "echo");
    assert_int_equal(t.greeted, 3);
    end(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_answered_by_their_own_answers),
        cmocka_unit_test(a_name_is_looked_up),
        cmocka_unit_test(a_big_answer_arrives_whole_and_a_too_big_one_is_refused),
        cmocka_unit_test(a_deadline_ends_the_call_and_not_the_link),
        cmocka_unit_test(silence_ends_the_link),
        cmocka_unit_test(a_lost_connection_answers_what_was_sent_and_is_made_again),
        cmocka_unit_test(an_answer_to_nothing_ends_the_connection),
        cmocka_unit_test(nobody_there_is_told_and_tried_again),
        cmocka_unit_test(another_address_that_refuses_says_nothing),
        cmocka_unit_test(who_does_not_accept_is_given_up),
        cmocka_unit_test(more_calls_than_allowed_are_answered_at_once),
        cmocka_unit_test(the_greeting_comes_before_every_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
