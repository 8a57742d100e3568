#include "cli/rest_waiting.h"
#include "base/util.h"
#include "cli/server_config.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD_BYTES_MAX = 8192, READS_MAX = 64, SILENT_MS = 1000, REFUSED_MS = 100 };

#define WAITS "the broker is starting: it opens its logs, or waits for the other brokers of its cluster; its log says which"

static bool stopping(const struct cli_rest_waiting *waiting, int fd, short events, int timeout_ms)
{
    struct pollfd both[2] = { { .fd = waiting->stop_fd, .events = POLLIN }, { .fd = fd, .events = events } };
    return poll(both, 2, timeout_ms) <= 0 || both[0].revents != 0;
}

/* The head of a request; who sends none within a second, or none that ends, is let go. */
static bool read_head(const struct cli_rest_waiting *waiting, int fd, char head[static HEAD_BYTES_MAX])
{
    size_t used = 0;
    for (uint32_t i = 0; i < READS_MAX && used < HEAD_BYTES_MAX - 1; i++) {
        if (stopping(waiting, fd, POLLIN, SILENT_MS)) return false;
        const ssize_t got = recv(fd, head + used, HEAD_BYTES_MAX - 1 - used, MSG_DONTWAIT);
        if (got <= 0) return false;
        used += (size_t)got;
        head[used] = 0;
        if (strstr(head, "\r\n\r\n") != NULL) return true;
    }
    return false;
}

static void answer(int fd, const char *head)
{
    const char *target = strchr(head, ' ');
    const bool bodiless = strncmp(head, "HEAD ", 5) == 0;
    const size_t bytes = target == NULL ? 0 : strcspn(target + 1, " ?\r\n");
    const bool alive = bytes == 8 && strncmp(target + 1, "/healthz", 8) == 0, probe = bytes == 7 && strncmp(target + 1, "/readyz", 7) == 0;
    const char *body = alive ? "{\"status\":\"ok\"}\n"
        : probe              ? "{\"status\":\"not_ready\",\"reason\":\"" WAITS "\"}\n"
                             : "{\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,\"detail\":\"" WAITS "\",\"retriable\":true,\"outcome\":\"not_applied\"}\n";
    char out[1024];
    const int length = snprintf(out, sizeof(out), "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%sConnection: close\r\n\r\n%s", alive ? "200 OK" : "503 Service Unavailable",
        alive || probe ? "application/json" : "application/problem+json", strlen(body), alive ? "" : "Retry-After: 1\r\n", bodiless ? "" : body);
    if (length <= 0 || (size_t)length >= sizeof(out)) return;
    if (send(fd, out, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)length) (void)shutdown(fd, SHUT_WR);
}

static void *waiting_main(void *arg)
{
    const struct cli_rest_waiting *waiting = arg;
    struct pollfd fds[1 + CLI_LISTENERS_MAX * OT_NET_SOCKETS_MAX] = { { .fd = waiting->stop_fd, .events = POLLIN } };
    char head[HEAD_BYTES_MAX], rest[HEAD_BYTES_MAX];
    nfds_t count = 1;
    pthread_setname_np(pthread_self(), "rest-waiting");
    for (uint32_t i = 0; i < waiting->listener_count; i++)
        for (uint32_t k = 0; k < waiting->listeners[i].fd_count && count < OT_ARRAY_COUNT(fds); k++) fds[count++] = (struct pollfd){ .fd = waiting->listeners[i].fds[k], .events = POLLIN };
    while (poll(fds, count, -1) < 0 || fds[0].revents == 0) {
        for (nfds_t i = 1; i < count; i++) {
            if ((fds[i].revents & POLLIN) == 0) continue;
            const int fd = accept4(fds[i].fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
            if (fd < 0 && errno != EAGAIN) (void)stopping(waiting, -1, 0, REFUSED_MS);      /* no descriptors: not asked without end */
            if (fd < 0) continue;
            if (read_head(waiting, fd, head)) answer(fd, head);
            (void)recv(fd, rest, sizeof(rest), MSG_DONTWAIT);      /* a body: what is unread at the close would take the answer with it */
            close(fd);
        }
    }
    return NULL;
}

void cli_rest_waiting_start(struct cli_rest_waiting *waiting, const struct rest_listener *listeners, uint32_t listener_count)
{
    *waiting = (struct cli_rest_waiting){ .listeners = listeners, .listener_count = listener_count, .stop_fd = -1 };
    if (listener_count == 0) return;
    waiting->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (waiting->stop_fd < 0) return;
    waiting->runs = pthread_create(&waiting->thread, NULL, waiting_main, waiting) == 0;
    if (!waiting->runs) close(waiting->stop_fd);
}

void cli_rest_waiting_stop(struct cli_rest_waiting *waiting)
{
    if (!waiting->runs) return;
    (void)eventfd_write(waiting->stop_fd, 1);
    pthread_join(waiting->thread, NULL);
    close(waiting->stop_fd);
    waiting->runs = false;
}
