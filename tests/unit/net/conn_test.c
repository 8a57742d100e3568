/* Framing, order of answers, back-pressure and closing, over socket pairs. */
#include "door.h"

static void a_request_sent_byte_by_byte_is_answered(void **state)
{
    (void)state;
    door_init();
    door_start();
    const int fd = door_client();
    const uint8_t frame[] = { 0, 0, 0, 5, 'h', 'e', 'l', 'l', 'o', 0, 0, 0, 1, 'e' };
    for (size_t i = 0; i < sizeof frame; i++) {
        say(fd, &frame[i], 1);
        if (i == 8) {
            until(&door.taken, 1);         /* whole with its last byte, not later */
            door_release();
        }
    }
    hear_text(fd, "hello");
    hear_text(fd, "e");
    close(fd);
    door_stop();
}

static void answers_leave_in_the_order_of_the_requests(void **state)
{
    (void)state;
    door_init();
    door_start();
    const int fd = door_client();
    char text[16];
    for (int i = 0; i < 50; i++) {
        (void)snprintf(text, sizeof text, "%c%d", i % 7 == 3 ? 'e' : i % 7 == 5 ? 'n' : 'h', i);       /* some at once, some never, the rest later and backwards */
        say_text(fd, text);
    }
    until(&door.taken, 50);
    door_release();
    for (int i = 0; i < 50; i++) {
        if (i % 7 == 5) continue;
        (void)snprintf(text, sizeof text, "%c%d", i % 7 == 3 ? 'e' : 'h', i);
        hear_text(fd, text);
    }
    close(fd);
    door_stop();
}

static void *say_tiny_requests(void *arg)
{
    const int fd = *(int *)arg;
    uint8_t all[64 * 9];
    for (uint32_t i = 0; i < 10000; i += 64) {
        uint32_t count = OT_MIN(64u, 10000 - i);
        for (uint32_t j = 0; j < count; j++) {
            ot_store_u32(all + j * 9, 5);
            all[j * 9 + 4] = 'e';
            ot_store_u32(all + j * 9 + 5, i + j);
        }
        for (size_t done = 0; done < count * 9;) {
            const ssize_t step = send(fd, all + done, count * 9 - done, MSG_NOSIGNAL);
            if (step <= 0) return NULL;
            done += (size_t)step;
        }
    }
    return NULL;
}

static void ten_thousand_tiny_requests_share_few_reads(void **state)
{
    (void)state;
    door_init();
    door_start();
    int fd = door_client();
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, say_tiny_requests, &fd), 0);
    for (uint32_t i = 0; i < 10000; i++) {
        uint8_t answer[9];
        assert_true(hear_bytes(fd, answer, 9));
        assert_int_equal(ot_load_u32(answer), 5);
        assert_int_equal(ot_load_u32(answer + 5), i);
    }
    pthread_join(writer, NULL);
    close(fd);
    until(&door.closed, 1);                /* what was sent last is counted behind the send */
    struct ot_net_stats stats;
    ot_net_stats(door.net, &stats);
    assert_int_equal(stats.requests, 10000);
    assert_int_equal(stats.bytes_in, 90000);
    assert_int_equal(stats.bytes_out, 90000);
    door_stop();
}

static void *say_large(void *arg)
{
    const int fd = *(int *)arg;
    const uint32_t bytes = 9u << 20;
    uint8_t *frame = malloc(bytes + 4 + 6);
    ot_store_u32(frame, bytes);
    for (uint32_t i = 0; i < bytes; i++) frame[4 + i] = (uint8_t)(i * 2654435761u >> 24);
    frame[4] = 'e';
    ot_store_u32(frame + 4 + bytes, 2);    /* and a small one that begins in the same read */
    frame[8 + bytes] = 'e';
    frame[9 + bytes] = '2';
    for (size_t done = 0; done < bytes + 10;) {
        const ssize_t step = send(fd, frame + done, bytes + 10 - done, MSG_NOSIGNAL);
        if (step <= 0) break;
        done += (size_t)step;
    }
    free(frame);
    return NULL;
}

static void a_large_request_arrives_whole_and_the_next_one_too(void **state)
{
    (void)state;
    door_init();
    door_start();
    int fd = door_client();
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, say_large, &fd), 0);
    uint32_t bytes = 0;
    uint8_t *data = hear(fd, &bytes);
    assert_int_equal(bytes, 9u << 20);
    for (uint32_t i = 1; i < bytes; i++) {
        if (data[i] != (uint8_t)(i * 2654435761u >> 24)) fail_msg("byte %u differs", i);
    }
    free(data);
    hear_text(fd, "e2");
    pthread_join(writer, NULL);
    close(fd);
    door_stop();
}

static void kick_here(struct ot_task *task)
{
    (void)task;
    pthread_mutex_lock(&door.mutex);
    door.wait_on = false;
    pthread_mutex_unlock(&door.mutex);
    ot_conn_kick(door.last);
}

static void a_request_that_is_put_off_comes_after_a_kick_and_before_its_followers(void **state)
{
    (void)state;
    door_init();
    door_start();
    door.wait_on = true;
    const int fd = door_client();
    say_text(fd, "e1");
    say_text(fd, "w2");
    say_text(fd, "e3");
    hear_text(fd, "e1");
    until(&door.put_off, 1);
    assert_int_equal(now(&door.taken), 1);
    struct ot_task task = { .run = kick_here };
    pthread_mutex_lock(&door.mutex);
    struct ot_exec *exec = ot_conn_exec(door.last);
    pthread_mutex_unlock(&door.mutex);
    ot_exec_post(exec, &task);
    hear_text(fd, "w2");
    hear_text(fd, "e3");
    close(fd);
    door_stop();
}

static void a_request_that_is_put_off_comes_again_after_an_answer(void **state)
{
    (void)state;
    door_init();
    door_start();
    door.wait_on = true;
    const int fd = door_client();
    say_text(fd, "h1");
    say_text(fd, "w2");
    until(&door.put_off, 1);
    pthread_mutex_lock(&door.mutex);
    door.wait_on = false;
    pthread_mutex_unlock(&door.mutex);
    door_release();
    hear_text(fd, "h1");
    hear_text(fd, "w2");
    close(fd);
    door_stop();
}

static void no_more_than_requests_max_are_in_work(void **state)
{
    (void)state;
    door_init();
    door.setup.requests_max = 4;
    door_start();
    const int fd = door_client();
    char text[16];
    for (int i = 0; i < 40; i++) {
        (void)snprintf(text, sizeof text, "h%d", i);
        say_text(fd, text);
    }
    for (int i = 0; i < 40; i += 4) {
        until(&door.held_count, 4);
        assert_int_equal(now(&door.held_count), 4);
        assert_int_equal(now(&door.taken), i + 4);
        door_release();
        for (int j = 0; j < 4; j++) {
            (void)snprintf(text, sizeof text, "h%d", i + j);
            hear_text(fd, text);
        }
    }
    close(fd);
    door_stop();
}

static void a_peer_that_does_not_read_is_not_read(void **state)
{
    (void)state;
    door_init();
    door.setup.output_bytes_max = 65536;
    door.setup.requests_max = 1000;
    door_start();
    const int fd = door_client();
    uint8_t big[5] = { 'b' };
    ot_store_u32(big + 1, 1u << 20);
    for (int i = 0; i < 200; i++) say_frame(fd, big, 5);           /* 200 MiB of answers */
    until(&door.taken, 1);
    uint8_t *data;
    uint32_t bytes = 0;
    for (int i = 0; i < 200; i++) {
        pthread_mutex_lock(&door.mutex);
        const uint32_t ahead = door.taken - (uint32_t)i;
        pthread_mutex_unlock(&door.mutex);
        assert_in_range(ahead, 0, 8);      /* those in flight, not all that were asked */
        data = hear(fd, &bytes);
        assert_int_equal(bytes, 1u << 20);
        free(data);
    }
    close(fd);
    door_stop();
}

static void a_pool_at_its_cap_slows_down_and_never_stops(void **state)
{
    (void)state;
    door_init();
    ot_pool_free(door.requests);
    door.requests = door.setup.request_pool = ot_pool_new("requests", 100000, 100000);
    door_start();
    int fds[12];
    struct ot_net_stats stats;
    uint8_t *data = malloc(60000);
    memset(data, 'e', 60000);
    for (int i = 0; i < 12; i++) fds[i] = door_client();
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 12; i++) {     /* the first half of each, so that all of them want a buffer at once */
            uint8_t head[4];
            ot_store_u32(head, 60000);
            say(fds[i], head, 4);
            say(fds[i], data, 30000);
        }
        for (int i = 0; i < 30000 && round == 0; i++) {            /* one fits, one per loop is forced: the others wait */
            ot_net_stats(door.net, &stats);
            if (stats.starved >= 9) break;
            struct timeval pause = { .tv_usec = 1000 };
            select(0, NULL, NULL, NULL, &pause);
        }
        for (int i = 0; i < 12; i++) say(fds[i], data, 30000);
        for (int i = 0; i < 12; i++) {
            uint32_t bytes = 0;
            free(hear(fds[i], &bytes));
            assert_int_equal(bytes, 60000);
        }
    }
    assert_true(stats.starved >= 9);
    /* and one that is larger than the pool */
    uint8_t *large = calloc(1, 200000);
    large[0] = 'e';
    say_frame(fds[0], large, 200000);
    uint32_t bytes = 0;
    free(hear(fds[0], &bytes));
    assert_int_equal(bytes, 200000);
    free(large);
    free(data);
    for (int i = 0; i < 12; i++) close(fds[i]);
    door_stop();
}

static void nothing_is_begun_while_the_answers_are_at_their_cap(void **state)
{
    (void)state;
    door_init();
    ot_pool_free(door.answers);
    door.answers = door.setup.response_pool = ot_pool_new("answers", 1u << 20, 1u << 20);
    door.setup.loop_count = 1;
    door_start();
    const int slow = door_client(), other = door_client();
    uint8_t big[5] = { 'b' };
    ot_store_u32(big + 1, 4u << 20);
    say_frame(slow, big, 5);               /* larger than the pool and not read */
    until(&door.taken, 1);
    say_text(other, "e");
    uint32_t bytes = 0;
    free(hear(slow, &bytes));              /* its memory comes back, which wakes the other */
    assert_int_equal(bytes, 4u << 20);
    hear_text(other, "e");
    close(slow);
    close(other);
    door_stop();
}

static void who_reads_is_answered_while_others_leave_theirs_unread(void **state)
{
    (void)state;
    door_init();
    ot_pool_free(door.answers);
    door.answers = door.setup.response_pool = ot_pool_new("answers", 3u << 19, 1u << 20);
    door.setup.loop_count = 1;
    door_start();
    const int deaf = door_client(), other = door_client();
    uint8_t big[5] = { 'b' };
    uint32_t bytes = 0;
    ot_store_u32(big + 1, 3u << 19);
    say_frame(deaf, big, 5);               /* at the cap, and not read */
    until(&door.taken, 1);
    say_text(deaf, "e");                   /* it gets no more */
    for (uint32_t i = 0; i < 50; i++) {
        say_text(other, "e");
        hear_text(other, "e");
        assert_int_equal(now(&door.taken), i + 2);
    }
    free(hear(deaf, &bytes));
    assert_int_equal(bytes, 3u << 19);
    hear_text(deaf, "e");
    close(deaf);
    close(other);
    door_stop();
}

static void who_is_on_probation_leaves_few_answers_unread(void **state)
{
    (void)state;
    door_init();
    door.setup.loop_count = 1;
    door.probation_bytes = 4096;
    door.probation_us = 60000000;
    door_start();
    const int deaf = door_client();
    uint8_t big[5] = { 'b' };
    uint32_t bytes = 0;
    ot_store_u32(big + 1, 200000);
    for (int i = 0; i < 100; i++) say_frame(deaf, big, 5);
    for (uint32_t i = 0; i < 100; i++) {
        free(hear(deaf, &bytes));
        assert_int_equal(bytes, 200000);
        assert_in_range(now(&door.taken) - i, 0, 6);       /* what the socket holds, and one behind it */
    }
    close(deaf);
    door_stop();
}

static void an_impossible_size_closes_behind_the_answers_that_are_due(void **state)
{
    (void)state;
    static const uint32_t sizes[] = { 0, 0xffffffff, 0x80000000, (64u << 20) + 1 };
    for (size_t i = 0; i < OT_ARRAY_COUNT(sizes); i++) {
        door_init();
        door_start();
        const int fd = door_client();
        uint8_t head[4];
        ot_store_u32(head, sizes[i]);
        say_text(fd, "h1");
        until(&door.held_count, 1);
        say(fd, head, 4);
        door_release();
        hear_text(fd, "h1");
        hear_end(fd);
        close(fd);
        struct ot_net_stats stats;
        ot_net_stats(door.net, &stats);
        assert_int_equal(stats.closed_bad_frame, 1);
        door_stop();
    }
}

static void who_is_on_probation_announces_little_and_is_soon_gone(void **state)
{
    (void)state;
    static uint8_t large[8192] = "e";
    uint8_t head[4];
    door_init();
    door.probation_bytes = 4096;
    door.probation_us = 200000;
    door_start();
    const int greedy = door_client(), idle = door_client(), slow = door_client(), known = door_client();
    ot_store_u32(head, 4097);
    say(greedy, head, 4);
    hear_end(greedy);
    ot_store_u32(head, 4096);
    say(slow, head, 4);                    /* and nothing of it */
    say_text(known, "t");
    hear_text(known, "t");
    hear_end(idle);
    hear_end(slow);
    say_frame(known, large, sizeof large);
    say_text(known, "e");
    uint8_t *heard = malloc(sizeof large + 4);
    assert_true(hear_bytes(known, heard, sizeof large + 4));
    free(heard);
    hear_text(known, "e");
    struct ot_net_stats stats;
    ot_net_stats(door.net, &stats);
    assert_int_equal(stats.closed_bad_frame, 1);
    close(greedy);
    close(idle);
    close(slow);
    close(known);
    door_stop();
}

/* Two of a loop announce more than the pool has and fall silent: one beyond its cap, one that waits. What is small goes on, and what is large once they are gone. */
static void large_requests_that_do_not_come_take_no_room_from_small_ones(void **state)
{
    (void)state;
    uint8_t head[4];
    struct ot_net_stats stats;
    door_init();
    ot_pool_free(door.requests);
    door.requests = door.setup.request_pool = ot_pool_new("requests", 100000, 0);
    struct ot_pool *small = door.setup.small_pool = ot_pool_new("small", 8192, 0);
    door.setup.small_bytes = 4096;
    door.setup.loop_count = 1;
    door_start();
    const int silent = door_client(), waits = door_client(), lives = door_client();
    ot_store_u32(head, 200000);
    say(silent, head, 4);
    do ot_net_stats(door.net, &stats);
    while (stats.bytes_in < 4);
    say(waits, head, 4);
    do ot_net_stats(door.net, &stats);
    while (stats.starved < 1);
    for (int i = 0; i < 1000; i++) {
        say_text(lives, "e");
        hear_text(lives, "e");
    }
    uint8_t edge[4096] = "n";
    say_frame(lives, edge, sizeof edge);   /* the largest that is small; without an answer */
    say_text(lives, "e");
    hear_text(lives, "e");
    uint8_t *large = calloc(1, 200000);
    large[0] = 'e';
    close(silent);
    say(waits, large, 200000);
    uint32_t bytes = 0;
    free(hear(waits, &bytes));
    assert_int_equal(bytes, 200000);
    free(large);
    close(waits);
    close(lives);
    door_stop();
    ot_pool_free(small);
}

static void small_requests_use_what_is_left_and_go_on_at_the_cap(void **state)
{
    (void)state;
    int fds[8];
    uint8_t data[4096] = "e";
    struct ot_net_stats stats;
    door_init();
    ot_pool_free(door.requests);
    door.requests = door.setup.request_pool = ot_pool_new("requests", 10000, 0);
    struct ot_pool *small = door.setup.small_pool = ot_pool_new("small", 8192, 0);
    door.setup.small_bytes = 4096;
    door.setup.loop_count = 1;
    door_start();
    for (int i = 0; i < 8; i++) fds[i] = door_client();
    for (int i = 0; i < 8; i++) {          /* half of each, so that all of them want a buffer at once */
        uint8_t head[4];
        ot_store_u32(head, sizeof data);
        say(fds[i], head, 4);
        say(fds[i], data, 2000);
    }
    do ot_net_stats(door.net, &stats);
    while (stats.starved < 1);
    assert_true(ot_pool_used_bytes(door.requests) >= 4096);
    assert_true(ot_pool_used_bytes(small) + ot_pool_used_bytes(door.requests) <= 8192 + 10000 + 8192);     /* one is beyond the caps */
    for (int i = 0; i < 8; i++) say(fds[i], data + 2000, sizeof data - 2000);
    for (int i = 0; i < 8; i++) {
        uint32_t bytes = 0;
        free(hear(fds[i], &bytes));
        assert_int_equal(bytes, sizeof data);
        close(fds[i]);
    }
    door_stop();
    ot_pool_free(small);
}

/* Of those that say nothing the oldest go, whatever time they would have had: there is always room for who speaks. */
static void a_crowd_on_probation_loses_those_that_came_first(void **state)
{
    (void)state;
    int fds[12];
    door_init();
    door.probation_bytes = 4096;
    door.probation_us = 60000000;
    door.setup.loop_count = 1;
    door.setup.probation_max = 4;
    door_start();
    for (int i = 0; i < 12; i++) {
        fds[i] = door_client();
        until(&door.opened, (uint32_t)i + 1);
        if (i != 2) continue;
        say_text(fds[i], "t");             /* this one is known from here on */
        hear_text(fds[i], "t");
    }
    for (int i = 0; i < 8; i++)
        if (i != 2) hear_end(fds[i]);
    for (int i = 8; i < 12; i++) {
        say_text(fds[i], "t");
        hear_text(fds[i], "t");
    }
    say_text(fds[2], "e");
    hear_text(fds[2], "e");
    for (int i = 0; i < 12; i++) close(fds[i]);
    door_stop();
}

static void a_request_that_the_door_refuses_closes_behind_the_answers_that_are_due(void **state)
{
    (void)state;
    door_init();
    door_start();
    const int fd = door_client();
    say_text(fd, "h1");
    say_text(fd, "x");
    say_text(fd, "e3");
    until(&door.taken, 2);
    door_release();
    hear_text(fd, "h1");
    hear_end(fd);
    assert_int_equal(now(&door.taken), 2);
    close(fd);
    door_stop();
}

static void what_was_sent_before_the_end_is_taken(void **state)
{
    (void)state;
    door_init();
    door.setup.requests_max = 2;
    door_start();
    const int fd = door_client();
    for (int i = 0; i < 500; i++) say_text(fd, "n0");              /* acks=0, and gone */
    close(fd);
    until(&door.taken, 500);
    until(&door.closed, 1);
    door_stop();
}

static void a_peer_that_leaves_frees_all_once_the_door_has_answered(void **state)
{
    (void)state;
    door_init();
    door_start();
    const int fd = door_client();
    say_text(fd, "h1");
    say_text(fd, "h2");
    until(&door.held_count, 2);
    close(fd);
    until(&door.ended, 1);
    assert_int_equal(now(&door.closed), 0);      /* two answers are owed */
    door_release();
    until(&door.closed, 1);
    door_stop();
}

static void note_connection(void *arg, const struct ot_conn_view *view)
{
    void **to = arg;
    *(struct ot_conn_view *)to[0] = *view;
    (void)snprintf(to[1], 128, "%s %s %s %s", view->listener, view->client_id, view->software_name, view->software_version);
}

static void connections_are_listed(void **state)
{
    (void)state;
    door_init();
    door_start();
    const int fd = door_client();
    say_text(fd, "e1");
    hear_text(fd, "e1");
    say_text(fd, "h2");
    until(&door.held_count, 1);
    struct ot_conn_view seen = { 0 };
    char texts[128] = "";
    void *out[2] = { &seen, texts };
    ot_net_connections(door.net, note_connection, out);
    assert_string_equal(texts, "TEST client-1 librdkafka 2.3.0");
    assert_int_equal(seen.requests, 2);
    assert_int_equal(seen.requests_in_work, 1);
    assert_int_equal(seen.bytes_in, 12);
    assert_int_equal(seen.bytes_out, 6);
    door_release();
    hear_text(fd, "h2");
    close(fd);
    door_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_sent_byte_by_byte_is_answered),
        cmocka_unit_test(answers_leave_in_the_order_of_the_requests),
        cmocka_unit_test(ten_thousand_tiny_requests_share_few_reads),
        cmocka_unit_test(a_large_request_arrives_whole_and_the_next_one_too),
        cmocka_unit_test(a_request_that_is_put_off_comes_after_a_kick_and_before_its_followers),
        cmocka_unit_test(a_request_that_is_put_off_comes_again_after_an_answer),
        cmocka_unit_test(no_more_than_requests_max_are_in_work),
        cmocka_unit_test(a_peer_that_does_not_read_is_not_read),
        cmocka_unit_test(a_pool_at_its_cap_slows_down_and_never_stops),
        cmocka_unit_test(nothing_is_begun_while_the_answers_are_at_their_cap),
        cmocka_unit_test(who_reads_is_answered_while_others_leave_theirs_unread),
        cmocka_unit_test(who_is_on_probation_leaves_few_answers_unread),
        cmocka_unit_test(an_impossible_size_closes_behind_the_answers_that_are_due),
        cmocka_unit_test(who_is_on_probation_announces_little_and_is_soon_gone),
        cmocka_unit_test(large_requests_that_do_not_come_take_no_room_from_small_ones),
        cmocka_unit_test(small_requests_use_what_is_left_and_go_on_at_the_cap),
        cmocka_unit_test(a_crowd_on_probation_loses_those_that_came_first),
        cmocka_unit_test(a_request_that_the_door_refuses_closes_behind_the_answers_that_are_due),
        cmocka_unit_test(what_was_sent_before_the_end_is_taken),
        cmocka_unit_test(a_peer_that_leaves_frees_all_once_the_door_has_answered),
        cmocka_unit_test(connections_are_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
