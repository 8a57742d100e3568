#include "testing.h"

#include "base/buf.h"
#include <pthread.h>

static void buffers_are_charged_and_given_back(void **state)
{
    (void)state;
    struct ot_pool *pool = ot_pool_new("requests", 10000, 0);
    struct ot_buf *a = ot_buf_new(pool, 1000), *b = ot_buf_new(pool, 4096);
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(a->bytes, 0);
    assert_true(a->cap_bytes >= 1000 && b->cap_bytes >= 4096);
    assert_int_equal(ot_pool_used_bytes(pool), a->cap_bytes + b->cap_bytes);
    memset(a->data, 1, a->cap_bytes);
    memset(b->data, 2, b->cap_bytes);
    ot_buf_unref(a);
    ot_buf_unref(b);
    ot_buf_unref(NULL);
    assert_int_equal(ot_pool_used_bytes(pool), 0);
    assert_int_equal(ot_pool_cap_bytes(pool), 10000);
    assert_string_equal(ot_pool_name(pool), "requests");
    ot_pool_free(pool);
    ot_pool_free(NULL);
}

static void every_size_gets_room_and_little_more(void **state)
{
    (void)state;
    struct ot_pool *pool = ot_pool_new("sizes", 1 << 30, 1 << 20);
    for (size_t bytes = 0; bytes < (9u << 20); bytes += 1 + bytes / 3) {
        struct ot_buf *buf = ot_buf_new(pool, bytes);
        assert_non_null(buf);
        assert_true(buf->cap_bytes >= bytes);
        assert_true(buf->cap_bytes <= OT_MAX(bytes + bytes / 2 + 8, (size_t)512));
        assert_int_equal((uintptr_t)buf->data % 64, 0);
        buf->data[buf->cap_bytes - 1] = 1;
        ot_buf_unref(buf);
    }
    assert_null(ot_buf_new(pool, (size_t)1 << 32));
    assert_null(ot_buf_new(pool, SIZE_MAX));
    assert_int_equal(ot_pool_used_bytes(pool), 0);
    ot_pool_free(pool);
}

static void at_the_cap_there_is_none_but_the_forced_one(void **state)
{
    (void)state;
    struct ot_pool *pool = ot_pool_new("cap", 4096, 4096);
    struct ot_buf *a = ot_buf_new(pool, 4096);
    assert_non_null(a);
    assert_null(ot_buf_new(pool, 1));
    struct ot_buf *b = ot_buf_new_forced(pool, 100000);
    assert_non_null(b);
    assert_true(ot_pool_used_bytes(pool) > 100000);
    ot_buf_unref(a);
    assert_null(ot_buf_new(pool, 1)); /* still over it */
    ot_buf_unref(b);
    a = ot_buf_new(pool, 4096);
    assert_non_null(a);
    ot_buf_unref(a);
    ot_pool_free(pool);
}

static void a_freed_buffer_of_its_class_is_used_again(void **state)
{
    (void)state;
    struct ot_pool *pool = ot_pool_new("kept", 1 << 20, 8192);
    struct ot_buf *a = ot_buf_new(pool, 4096);
    ot_buf_unref(a);
    struct ot_buf *b = ot_buf_new(pool, 4000);
    assert_ptr_equal(a, b);
    assert_int_equal(b->bytes, 0);
    ot_buf_unref(b);
    ot_pool_free(pool);
}

static void the_last_reference_frees(void **state)
{
    (void)state;
    struct ot_pool *pool = ot_pool_new("refs", 1 << 20, 0);
    struct ot_buf *buf = ot_buf_new(pool, 10);
    assert_ptr_equal(ot_buf_ref(buf), buf);
    ot_buf_unref(buf);
    assert_true(ot_pool_used_bytes(pool) > 0);
    ot_buf_unref(buf);
    assert_int_equal(ot_pool_used_bytes(pool), 0);
    ot_pool_free(pool);
}

static void free_pool(void *pool)
{
    ot_pool_free(pool);
}

static void a_pool_with_buffers_out_is_not_freed(void **state)
{
    (void)state;
    struct ot_pool *pool = ot_pool_new("out", 1 << 20, 0);
    struct ot_buf *buf = ot_buf_new(pool, 10);
    assert_true(test_aborts(free_pool, pool));
    ot_buf_unref(buf);
    ot_pool_free(pool);
}

struct waiter {
    struct ot_pool_waiter waiter;
    int woken;
};

static void count_wake(struct ot_pool_waiter *waiter)
{
    OT_CONTAINER(waiter, struct waiter, waiter)->woken++;
}

static void who_waits_is_woken_once_when_memory_comes_back(void **state)
{
    (void)state;
    struct ot_pool *pool = ot_pool_new("wait", 4096, 4096);
    struct waiter w[4] = {0};
    struct ot_buf *buf = ot_buf_new(pool, 4096);
    for (int i = 0; i < 4; i++) {
        w[i].waiter.woken = count_wake;
        ot_pool_wait(pool, &w[i].waiter);
    }
    ot_pool_wait(pool, &w[0].waiter);        /* armed already */
    ot_pool_wait_cancel(pool, &w[3].waiter); /* the last in the row, then the first */
    ot_pool_wait_cancel(pool, &w[0].waiter);
    ot_pool_wait_cancel(pool, &w[0].waiter);
    ot_pool_wait(pool, &w[0].waiter); /* and again, at the end */
    ot_buf_unref(buf);
    assert_int_equal(w[0].woken, 1);
    assert_int_equal(w[1].woken, 1);
    assert_int_equal(w[2].woken, 1);
    assert_int_equal(w[3].woken, 0);
    buf = ot_buf_new(pool, 4096);
    ot_buf_unref(buf);
    assert_int_equal(w[1].woken, 1);
    ot_pool_free(pool);
}

enum { THREADS = 4, ROUNDS = 3000 };

static void *take_and_give(void *arg)
{
    struct ot_pool *pool = arg;
    for (int i = 0; i < ROUNDS; i++) {
        struct ot_buf *buf = ot_buf_new(pool, (size_t)(i * 37 % 20000));
        if (buf == NULL) continue;
        memset(buf->data, i, buf->cap_bytes);
        ot_buf_unref(ot_buf_ref(buf));
        assert_int_equal(buf->data[buf->cap_bytes - 1], (uint8_t)i);
        ot_buf_unref(buf);
    }
    return NULL;
}

static void threads_share_a_pool(void **state)
{
    (void)state;
    struct ot_pool *pool = ot_pool_new("shared", 40000, 20000);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, pool), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(ot_pool_used_bytes(pool), 0);
    ot_pool_free(pool);
}

static void *unref(void *arg)
{
    return ot_buf_unref(arg), NULL;
}

static void what_one_thread_wrote_the_last_holder_sees(void **state)
{
    (void)state;
    struct ot_pool *pool = ot_pool_new("handed", 1 << 20, 1 << 20);
    for (int i = 0; i < 200; i++) {
        struct ot_buf *buf = ot_buf_new(pool, 512);
        buf->data[0] = (uint8_t)i;
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, unref, ot_buf_ref(buf)), 0);
        ot_buf_unref(buf);
        pthread_join(thread, NULL);
    }
    assert_int_equal(ot_pool_used_bytes(pool), 0);
    ot_pool_free(pool);
}

/* Takers that wait as a connection does: arm, try once more, else sleep until woken. A lost wake would hang here. */
struct taker {
    struct ot_pool_waiter waiter;
    struct ot_pool *pool;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool woken;
};

static void wake_taker(struct ot_pool_waiter *waiter)
{
    struct taker *taker = OT_CONTAINER(waiter, struct taker, waiter);
    pthread_mutex_lock(&taker->mutex);
    taker->woken = true;
    pthread_cond_signal(&taker->cond);
    pthread_mutex_unlock(&taker->mutex);
}

static struct ot_buf *take_waiting(struct taker *taker)
{
    for (;;) {
        struct ot_buf *buf = ot_buf_new(taker->pool, 4096);
        if (buf != NULL) return buf;
        taker->woken = false;
        ot_pool_wait(taker->pool, &taker->waiter);
        if ((buf = ot_buf_new(taker->pool, 4096)) != NULL) {
            ot_pool_wait_cancel(taker->pool, &taker->waiter);
            return buf;
        }
        pthread_mutex_lock(&taker->mutex);
        while (!taker->woken) pthread_cond_wait(&taker->cond, &taker->mutex);
        pthread_mutex_unlock(&taker->mutex);
    }
}

static void *take_in_turns(void *arg)
{
    struct taker taker = {
        .waiter = {.woken = wake_taker}, .pool = arg, .mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER};
    for (int i = 0; i < 500; i++) ot_buf_unref(take_waiting(&taker));
    return NULL;
}

static void no_wake_is_lost(void **state)
{
    (void)state;
    struct ot_pool *pool = ot_pool_new("turns", 4096, 4096);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, take_in_turns, pool), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    ot_pool_free(pool);
}

TEST_MAIN(cmocka_unit_test(buffers_are_charged_and_given_back), cmocka_unit_test(every_size_gets_room_and_little_more),
    cmocka_unit_test(at_the_cap_there_is_none_but_the_forced_one), cmocka_unit_test(a_freed_buffer_of_its_class_is_used_again),
    cmocka_unit_test(the_last_reference_frees), cmocka_unit_test(a_pool_with_buffers_out_is_not_freed),
    cmocka_unit_test(who_waits_is_woken_once_when_memory_comes_back), cmocka_unit_test(threads_share_a_pool),
    cmocka_unit_test(what_one_thread_wrote_the_last_holder_sees), cmocka_unit_test(no_wake_is_lost))
