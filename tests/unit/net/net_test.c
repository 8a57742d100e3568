/* Listeners, limits, timeouts and stopping, over TCP on loopback; addresses. */
#include "door.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

static uint16_t serve(const char *host)
{
    int fds[OT_NET_SOCKETS_MAX];
    uint32_t count = 0;
    uint16_t port = 0;
    char text[200] = "";
    assert_int_equal(ot_net_listen(host, 0, 50, fds, &count, &port, text, sizeof text), OT_OK);
    assert_true(count > 0 && port > 0);
    for (uint32_t i = 0; i < count; i++) assert_int_equal(ot_net_serve(door.net, fds[i], "PLAINTEXT", &door_handler, &door), OT_OK);
    return port;
}

static int connect_from(const char *from, uint16_t port)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) }, mine = { .sin_family = AF_INET };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    inet_pton(AF_INET, from, &mine.sin_addr);
    assert_int_equal(bind(fd, (struct sockaddr *)&mine, sizeof mine), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    patience(fd);
    return fd;
}

static void count_loops(void *arg, const struct ot_conn_view *view)
{
    uint32_t *per_loop = arg;
    assert_string_equal(view->listener, "PLAINTEXT");
    assert_memory_equal(view->peer, "127.0.0.1:", 10);
    per_loop[view->loop]++;
}

static void connections_are_spread_over_the_loops(void **state)
{
    (void)state;
    door_init();
    door.setup.loop_count = 4;
    door_start();
    const uint16_t port = serve("127.0.0.1");
    int fds[40];
    for (int i = 0; i < 40; i++) {
        fds[i] = connect_from("127.0.0.1", port);
        say_text(fds[i], "e");
        hear_text(fds[i], "e");
    }
    uint32_t per_loop[4] = { 0 };
    ot_net_connections(door.net, count_loops, per_loop);
    for (int i = 0; i < 4; i++) assert_int_equal(per_loop[i], 10);
    for (int i = 0; i < 40; i++) close(fds[i]);
    door_stop();
}

static void localhost_listens_on_both_families(void **state)
{
    (void)state;
    door_init();
    door_start();
    const uint16_t port = serve("localhost");
    const int four = connect_from("127.0.0.1", port);
    say_text(four, "e4");
    hear_text(four, "e4");
    const int six = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (six >= 0) {
        struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_loopback };
        struct sockaddr_in6 try = { .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };
        const int probe = socket(AF_INET6, SOCK_STREAM, 0);
        const bool has_six = bind(probe, (struct sockaddr *)&try, sizeof try) == 0;
        close(probe);
        patience(six);
        if (has_six && connect(six, (struct sockaddr *)&to, sizeof to) == 0) {
            say_text(six, "e6");
            hear_text(six, "e6");
        }
        close(six);
    }
    close(four);
    door_stop();
}

static void one_address_gets_no_more_than_its_share(void **state)
{
    (void)state;
    door_init();
    door.setup.connections_per_ip_max = 2;
    door_start();
    const uint16_t port = serve("127.0.0.1");
    int fds[4];
    for (int i = 0; i < 2; i++) {
        fds[i] = connect_from("127.0.0.2", port);
        say_text(fds[i], "e");
        hear_text(fds[i], "e");
    }
    fds[2] = connect_from("127.0.0.2", port);
    hear_end(fds[2]);
    fds[3] = connect_from("127.0.0.3", port);                      /* another address is not touched */
    say_text(fds[3], "e");
    hear_text(fds[3], "e");
    close(fds[0]);
    until(&door.closed, 1);
    close(fds[2]);
    fds[2] = connect_from("127.0.0.2", port);                      /* there is room again */
    say_text(fds[2], "e");
    hear_text(fds[2], "e");
    struct ot_net_stats stats;
    ot_net_stats(door.net, &stats);
    assert_int_equal(stats.refused_limit_ip, 1);
    for (int i = 1; i < 4; i++) close(fds[i]);
    door_stop();
}

static void above_max_connections_one_waits_until_another_leaves(void **state)
{
    (void)state;
    door_init();
    door.setup.connections_max = 2;
    door_start();
    const uint16_t port = serve("127.0.0.1");
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = connect_from("127.0.0.1", port);
        say_text(fds[i], "e");
        if (i < 2) hear_text(fds[i], "e");
    }
    struct ot_net_stats stats;
    for (int i = 0; i < 30000; i++) {
        ot_net_stats(door.net, &stats);
        if (stats.refused_limit > 0) break;
        struct timeval pause = { .tv_usec = 1000 };
        select(0, NULL, NULL, NULL, &pause);
    }
    assert_true(stats.refused_limit > 0);
    assert_int_equal(stats.connections, 2);
    close(fds[0]);
    hear_text(fds[2], "e");
    close(fds[1]);
    close(fds[2]);
    door_stop();
}

static void without_descriptors_a_peer_is_told_and_later_ones_are_served(void **state)
{
    (void)state;
    door_init();
    door_start();
    const uint16_t port = serve("127.0.0.1");
    const int first = connect_from("127.0.0.1", port);
    say_text(first, "e");
    hear_text(first, "e");
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int second = socket(AF_INET, SOCK_STREAM, 0);
    patience(second);
    struct rlimit before, low;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    low = before;
    const int top = dup(second);           /* the lowest free number: all below it are taken */
    low.rlim_cur = (rlim_t)top;
    close(top);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    const int done = connect(second, (struct sockaddr *)&to, sizeof to);
    uint8_t byte;
    const ssize_t got = recv(second, &byte, 1, 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(done, 0);
    assert_true(got <= 0);
    struct ot_net_stats stats;
    ot_net_stats(door.net, &stats);
    assert_true(stats.refused_no_descriptor > 0);
    const int third = connect_from("127.0.0.1", port);
    say_text(third, "e3");
    hear_text(third, "e3");
    close(first);
    close(second);
    close(third);
    door_stop();
}

static void an_idle_connection_is_closed_and_a_waiting_one_is_not(void **state)
{
    (void)state;
    door_init();
    door.setup.idle_us = 40000;
    door_start();
    const int idle = door_client(), waiting = door_client();
    say_text(waiting, "h1");
    until(&door.held_count, 1);
    hear_end(idle);
    until(&door.closed, 1);
    assert_int_equal(now(&door.closed), 1);
    door_release();
    hear_text(waiting, "h1");
    struct ot_net_stats stats;
    ot_net_stats(door.net, &stats);
    assert_true(stats.closed_idle >= 1);
    close(idle);
    close(waiting);
    door_stop();
}

static void a_request_that_stops_halfway_is_closed(void **state)
{
    (void)state;
    door_init();
    door.setup.progress_us = 40000;
    door_start();
    const int fd = door_client();
    const uint8_t half[] = { 0, 0, 0, 9, 'e', 'e' };
    say(fd, half, sizeof half);
    hear_end(fd);
    const int head = door_client();
    say(head, half, 2);
    hear_end(head);
    struct ot_net_stats stats;
    ot_net_stats(door.net, &stats);
    assert_int_equal(stats.closed_no_progress, 2);
    close(fd);
    close(head);
    door_stop();
}

static void *drain_in_a_thread(void *arg)
{
    (void)arg;
    ot_net_drain(door.net, 30000);
    return NULL;
}

static void a_stop_finishes_what_is_in_work_and_takes_nothing_more(void **state)
{
    (void)state;
    door_init();
    door_start();
    const uint16_t port = serve("127.0.0.1");
    const int busy = connect_from("127.0.0.1", port), idle = connect_from("127.0.0.1", port);
    pthread_t thread;
    say_text(idle, "e");
    hear_text(idle, "e");
    say_text(busy, "h1");
    until(&door.held_count, 1);
    assert_int_equal(pthread_create(&thread, NULL, drain_in_a_thread, NULL), 0);
    hear_end(idle);
    until(&door.ended, 2);
    say_text(busy, "e2");
    door_release();
    hear_text(busy, "h1");
    hear_end(busy);
    pthread_join(thread, NULL);
    assert_int_equal(now(&door.taken), 2);
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int late = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_not_equal(connect(late, (struct sockaddr *)&to, sizeof to), 0);
    close(late);
    close(busy);
    close(idle);
    door_stop();
}

static void a_stop_does_not_wait_for_ever(void **state)
{
    (void)state;
    door_init();
    door_start();
    const int fd = door_client();
    say_text(fd, "h1");
    until(&door.held_count, 1);
    ot_net_drain(door.net, 20);
    hear_end(fd);
    door_release();                        /* the door still owes the answer, and gives it to nobody */
    close(fd);
    door_stop();
}

static void addresses_are_read_as_configuration_writes_them(void **state)
{
    (void)state;
    static const struct { const char *text, *scheme, *host; uint16_t port; } good[] = {
        { "PLAINTEXT://127.0.0.1:9092", "PLAINTEXT", "127.0.0.1", 9092 }, { "http://[::1]:9095", "http", "::1", 9095 },
        { "127.0.0.1:0", "", "127.0.0.1", 0 }, { "SSL://:9093", "SSL", "", 9093 }, { "[fe80::1]:65535", "", "fe80::1", 65535 },
        { "EXTERNAL://kafka-1.example.org:443", "EXTERNAL", "kafka-1.example.org", 443 } };
    static const char *const bad[] = { "", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "::1:9092", "[::1:9092", "[::1]9092", "[::1]", "://x:1",
        "a b:1", "PLAINTEXT://127.0.0.1:9092/", "127.0.0.1:90x", ":123456" };
    struct ot_net_address address;
    char text[200];
    for (size_t i = 0; i < OT_ARRAY_COUNT(good); i++) {
        assert_int_equal(ot_net_address_parse(good[i].text, strlen(good[i].text), &address, text, sizeof text), OT_OK);
        assert_string_equal(address.scheme, good[i].scheme);
        assert_string_equal(address.host, good[i].host);
        assert_int_equal(address.port, good[i].port);
    }
    for (size_t i = 0; i < OT_ARRAY_COUNT(bad); i++) {
        text[0] = '\0';
        assert_int_equal(ot_net_address_parse(bad[i], strlen(bad[i]), &address, text, sizeof text), OT_ERR_MALFORMED);
        assert_true(text[0] != '\0');
    }
}

static void a_port_in_use_is_named(void **state)
{
    (void)state;
    int fds[OT_NET_SOCKETS_MAX], more[OT_NET_SOCKETS_MAX];
    uint32_t count = 0, none = 0;
    uint16_t port = 0, other = 0;
    char text[200] = "", port_text[8];
    assert_int_equal(ot_net_listen("127.0.0.1", 0, 50, fds, &count, &port, text, sizeof text), OT_OK);
    assert_int_equal(ot_net_listen("127.0.0.1", port, 50, more, &none, &other, text, sizeof text), OT_ERR_EXISTS);
    (void)snprintf(port_text, sizeof port_text, ":%u", port);
    assert_non_null(strstr(text, port_text));
    assert_int_equal(none, 0);
    assert_int_equal(ot_net_listen("198.51.100.7", 0, 50, more, &none, &other, text, sizeof text), OT_ERR_NOT_FOUND);
    for (uint32_t i = 0; i < count; i++) close(fds[i]);
}

static void congestion_of_accepted(const char *name, char now[static 16])
{
    int fds[OT_NET_SOCKETS_MAX];
    uint32_t count = 0;
    uint16_t port = 0;
    char text[200] = "";
    socklen_t bytes = 15;
    assert_int_equal(ot_net_listen("127.0.0.1", 0, 5, fds, &count, &port, text, sizeof text), OT_OK);
    if (name != NULL) assert_int_equal(ot_net_congestion(fds[0], name), OT_OK);
    const struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(client, (const struct sockaddr *)&to, sizeof to), 0);
    const int fd = accept4(fds[0], NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    memset(now, 0, 16);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, now, &bytes), 0);
    close(fd);
    close(client);
    close(fds[0]);
}

static void what_is_accepted_has_the_congestion_control_of_its_listener(void **state)
{
    (void)state;
    char usual[16], found[16];
    congestion_of_accepted(NULL, usual);
    congestion_of_accepted("auto", found);
    assert_string_equal(found, strncmp(usual, "bbr", 3) == 0 ? "cubic" : usual);
    congestion_of_accepted("reno", found);             /* every kernel has it */
    assert_string_equal(found, "reno");
    int fds[OT_NET_SOCKETS_MAX];
    uint32_t count = 0;
    uint16_t port = 0;
    char text[200] = "";
    assert_int_equal(ot_net_listen("127.0.0.1", 0, 5, fds, &count, &port, text, sizeof text), OT_OK);
    assert_int_equal(ot_net_congestion(fds[0], "no-such"), OT_ERR_NOT_FOUND);
    close(fds[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_are_spread_over_the_loops),
        cmocka_unit_test(localhost_listens_on_both_families),
        cmocka_unit_test(one_address_gets_no_more_than_its_share),
        cmocka_unit_test(above_max_connections_one_waits_until_another_leaves),
        cmocka_unit_test(without_descriptors_a_peer_is_told_and_later_ones_are_served),
        cmocka_unit_test(an_idle_connection_is_closed_and_a_waiting_one_is_not),
        cmocka_unit_test(a_request_that_stops_halfway_is_closed),
        cmocka_unit_test(a_stop_finishes_what_is_in_work_and_takes_nothing_more),
        cmocka_unit_test(a_stop_does_not_wait_for_ever),
        cmocka_unit_test(addresses_are_read_as_configuration_writes_them),
        cmocka_unit_test(a_port_in_use_is_named),
        cmocka_unit_test(what_is_accepted_has_the_congestion_control_of_its_listener),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
