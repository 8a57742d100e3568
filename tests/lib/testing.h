/* What nearly every cmocka test includes, a temporary folder among it. Include first. */
#ifndef OT_TESTS_TESTING_H
#define OT_TESTS_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "temp_dir.h"
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* True when body(arg) ends the process by SIGABRT, as a failed assertion does; its words go nowhere. */
__attribute__((unused)) static bool test_aborts(void (*body)(void *arg), void *arg)
{
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        if (freopen("/dev/null", "w", stderr) == NULL) _exit(3);
        signal(SIGABRT, SIG_DFL); /* cmocka catches signals */
        body(arg);
        _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) fail_msg("no child process");
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

#define TEST_MAIN(...)                                                                                                             \
    int main(void)                                                                                                                 \
    {                                                                                                                              \
        const struct CMUnitTest tests[] = {__VA_ARGS__};                                                                           \
        return cmocka_run_group_tests(tests, NULL, NULL);                                                                          \
    }

#endif
