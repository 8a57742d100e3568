/* base/threads.h: the threads of a process by name, and where each is right now. */
#include "testing.h"

#include "base/threads.h"
#include <pthread.h>
#include <semaphore.h>

static sem_t started, go;

__attribute__((noinline)) static void wait_in_a_function_with_a_name(void)
{
    sem_post(&started);
    while (sem_wait(&go) != 0) {}          /* asked where it is, it is woken with EINTR when the system does not restart the call */
    __asm__ volatile("" ::: "memory");
}

static void *thread_main(void *arg)
{
    pthread_setname_np(pthread_self(), arg);
    wait_in_a_function_with_a_name();
    return NULL;
}

static const struct ot_thread_view *named(const struct ot_thread_view *views, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(views[i].name, name) == 0) return &views[i];
    return NULL;
}

static bool stands_in(const struct ot_thread_view *view, const char *function)
{
    char text[OT_FRAME_TEXT_BYTES];
    bool found = false;
    struct ot_functions *functions = ot_functions_open();
    assert_non_null(functions);
    for (uint32_t i = 0; i < view->frame_count && !found; i++) {
        ot_threads_frame_text(functions, view->frames[i], text);
        found = strncmp(text, function, strlen(function)) == 0;
    }
    ot_functions_close(functions);
    return found;
}

static void every_thread_says_where_it_is_as_often_as_it_is_asked(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip();                                    /* it holds signals back until the thread's next call into it: a thread that sleeps says nothing */
#endif
    static char names[2][16] = { "one (of two)", "two" };
    pthread_t threads[2];
    struct ot_thread_view views[64];
    sem_init(&started, 0, 0);
    sem_init(&go, 0, 0);
    ot_threads_install();
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, thread_main, names[i]), 0);
    for (int i = 0; i < 2; i++) sem_wait(&started);
    for (int round = 0; round < 20; round++) {
        const uint32_t count = ot_threads_list(views, 64, true);
        assert_in_range(count, 3, 64);
        for (uint32_t i = 1; i < count; i++) assert_true(views[i - 1].id < views[i].id);
        for (int i = 0; i < 2; i++) {
            const struct ot_thread_view *view = named(views, count, names[i]);
            assert_non_null(view);
            assert_in_range(view->frame_count, 2, OT_STACK_FRAMES_MAX);
            assert_true(stands_in(view, "wait_in_a_function_with_a_name+"));
        }
    }
    assert_int_equal(ot_threads_list(views, 1, false), 1);
    assert_int_equal(views[0].frame_count, 0);
    for (int i = 0; i < 2; i++) sem_post(&go);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

static void an_address_of_nobody_is_told_as_it_is(void **state)
{
    (void)state;
    char text[OT_FRAME_TEXT_BYTES];
    ot_threads_frame_text(NULL, (void *)(uintptr_t)0x10, text);
    assert_string_equal(text, "0x10");
    ot_threads_frame_text(NULL, (const void *)(uintptr_t)&named, text);    /* without a table of names */
    assert_non_null(strstr(text, "+0x"));
    assert_null(strstr(text, "named"));
}

TEST_MAIN(cmocka_unit_test(every_thread_says_where_it_is_as_often_as_it_is_asked), cmocka_unit_test(an_address_of_nobody_is_told_as_it_is))
