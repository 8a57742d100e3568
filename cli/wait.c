/* A pipe beside the descriptors makes the flag and the waiting free of races: a signal between the look at the flag and poll() leaves a byte. */
#include "cli/wait.h"
#include "base/util.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t interrupts;
static bool taken;
static int pipe_fds[2] = {-1, -1};

static void on_signal(int number)
{
    (void)number;
    const int kept = errno;
    if (interrupts != 0) _exit(130);
    interrupts = 1;
    const ssize_t wrote = write(pipe_fds[1], "", 1); /* one byte into an empty pipe: never refused */
    (void)wrote;
    errno = kept;
}

enum ot_err cli_interrupt_install(void)
{
    if (pipe_fds[0] >= 0) return OT_OK;
    if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) != 0) return OT_ERR_IO;
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL); /* no SA_RESTART: a read of the terminal returns too */
    sigaction(SIGTERM, &action, NULL);
    return OT_OK;
}

bool cli_interrupted(void)
{
    return interrupts != 0 && !taken;
}

void cli_interrupt_take(void)
{
    char byte;
    while (read(pipe_fds[0], &byte, 1) > 0) {}
    taken = true;
}

int64_t cli_deadline_us(int64_t timeout_ms)
{
    return ot_clock_boot_us() + timeout_ms * 1000;
}

static int wait_ms(int64_t deadline_us)
{
    if (deadline_us == INT64_MAX) return -1;
    const int64_t left_us = deadline_us - ot_clock_boot_us();
    return left_us <= 0 ? 0 : left_us >= INT64_C(3600000000) ? 3600000 : (int)((left_us + 999) / 1000);
}

enum ot_err cli_wait(struct pollfd *fds, uint32_t count, int64_t deadline_us)
{
    struct pollfd all[CLI_WAIT_MAX + 1];
    if (count > CLI_WAIT_MAX) return OT_ERR_TOO_LARGE;
    if (count > 0) memcpy(all, fds, count * sizeof(*fds));
    all[count] = (struct pollfd){.fd = pipe_fds[0], .events = POLLIN};
    for (;;) {
        if (cli_interrupted()) return OT_ERR_CANCELLED;
        const int timeout = wait_ms(deadline_us);
        const int got = poll(all, count + 1, timeout);
        if (got < 0 && errno != EINTR) return OT_ERR_IO;
        if (cli_interrupted()) return OT_ERR_CANCELLED;
        if (got > 0) break;
        if (got == 0 && timeout >= 0 && wait_ms(deadline_us) == 0) {
            for (uint32_t i = 0; i < count; i++) fds[i].revents = 0;
            return OT_ERR_REQUEST_TIMED_OUT;
        }
    }
    if (count > 0) memcpy(fds, all, count * sizeof(*fds));
    return OT_OK;
}

enum ot_err cli_wait_one(int fd, short events, int64_t deadline_us)
{
    struct pollfd one = {.fd = fd, .events = events};
    return cli_wait(&one, 1, deadline_us);
}
