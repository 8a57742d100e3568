#include "cli/socket.h"
#include "cli/wait.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static bool port_parse(const char *text, size_t bytes, uint16_t *out)
{
    uint32_t port = 0;
    if (bytes == 0 || bytes > 5) return false;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        port = port * 10 + (uint32_t)(text[i] - '0');
    }
    *out = (uint16_t)port;
    return port >= 1 && port <= UINT16_MAX;
}

bool cli_address_split(const char *text, size_t bytes, uint16_t default_port, char host_out[static CLI_HOST_BYTES], uint16_t *port_out)
{
    const char *host = text, *end = text + bytes, *colon;
    size_t host_bytes = bytes;
    *port_out = default_port;
    if (bytes > 0 && text[0] == '[') {
        const char *close = memchr(text, ']', bytes);
        if (close == NULL) return false;
        host = text + 1;
        host_bytes = (size_t)(close - host);
        if (close + 1 < end && (close[1] != ':' || !port_parse(close + 2, (size_t)(end - close - 2), port_out))) return false;
    } else if ((colon = memchr(text, ':', bytes)) != NULL && memchr(colon + 1, ':', (size_t)(end - colon - 1)) == NULL) {
        host_bytes = (size_t)(colon - text);
        if (!port_parse(colon + 1, (size_t)(end - colon - 1), port_out)) return false;
    }
    if (host_bytes == 0 || host_bytes >= CLI_HOST_BYTES || memchr(host, 0, host_bytes) != NULL) return false;
    memcpy(host_out, host, host_bytes);
    host_out[host_bytes] = 0;
    return true;
}

static enum ot_err connect_one(const struct addrinfo *address, int64_t deadline_us, int *fd_out, int *errno_out)
{
    const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1, error = 0;
    socklen_t bytes = sizeof(error);
    enum ot_err err = OT_ERR_NETWORK_EXCEPTION;
    *errno_out = errno;
    if (fd < 0) return err;
    if (connect(fd, address->ai_addr, address->ai_addrlen) != 0) {
        *errno_out = errno;
        if (errno != EINPROGRESS && errno != EINTR) goto fail;
        if ((err = cli_wait_one(fd, POLLOUT, deadline_us)) != OT_OK) goto fail;
        err = OT_ERR_NETWORK_EXCEPTION;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0 || error != 0) {
            *errno_out = error;
            goto fail;
        }
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    *fd_out = fd;
    return OT_OK;
fail:
    close(fd);
    return err;
}

enum ot_err cli_socket_connect(const char *host, uint16_t port, int64_t deadline_us, int *fd_out, char why[static CLI_WHY_BYTES])
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG}, *all = NULL;
    char service[8];
    snprintf(service, sizeof(service), "%u", port);
    int error = getaddrinfo(host, service, &hints, &all);
    if (error == EAI_NONAME || error == EAI_ADDRFAMILY) {      /* only the loopback is up: the name may still mean it */
        hints.ai_flags = 0;
        error = getaddrinfo(host, service, &hints, &all);
    }
    if (error != 0) {
        snprintf(why, CLI_WHY_BYTES, "%.120s: %s", host, gai_strerror(error));
        return OT_ERR_NETWORK_EXCEPTION;
    }
    enum ot_err err = OT_ERR_NETWORK_EXCEPTION;
    int number = 0;
    for (const struct addrinfo *at = all; at != NULL; at = at->ai_next) {
        err = connect_one(at, deadline_us, fd_out, &number);
        if (err == OT_OK || err == OT_ERR_CANCELLED) break;
    }
    freeaddrinfo(all);
    const char *words = err == OT_ERR_REQUEST_TIMED_OUT ? "no answer in time" : number == ECONNREFUSED ? "nothing listens there" : strerror(number);
    if (err != OT_OK) snprintf(why, CLI_WHY_BYTES, "%.120s:%u: %s", host, port, err == OT_ERR_CANCELLED ? "interrupted" : words);
    return err;
}

enum ot_err cli_socket_connect_unix(const char *path, int *fd_out, char why[static CLI_WHY_BYTES])
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path)) {
        snprintf(why, CLI_WHY_BYTES, "%.120s: the path is too long for a socket", path);
        return OT_ERR_NETWORK_EXCEPTION;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        const int number = errno;
        snprintf(why, CLI_WHY_BYTES, "%.120s: %s", path, number == ENOENT ? "no such socket" : number == ECONNREFUSED ? "nothing listens there" : strerror(number));
        if (fd >= 0) close(fd);
        return OT_ERR_NETWORK_EXCEPTION;
    }
    *fd_out = fd;
    return OT_OK;
}

enum ot_err cli_socket_send(int fd, const void *data, size_t bytes, int64_t deadline_us)
{
    const uint8_t *at = data;
    while (bytes > 0) {
        const ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL);
        if (sent > 0) {
            at += sent;
            bytes -= (size_t)sent;
        } else if (sent < 0 && errno == EAGAIN) {
            const enum ot_err err = cli_wait_one(fd, POLLOUT, deadline_us);
            if (err != OT_OK) return err;
        } else if (sent < 0 && errno != EINTR) {
            return OT_ERR_NETWORK_EXCEPTION;
        }
    }
    return OT_OK;
}

enum ot_err cli_socket_receive(int fd, void *data, size_t bytes, int64_t deadline_us, size_t *got_out)
{
    for (;;) {
        const ssize_t got = recv(fd, data, bytes, 0);
        if (got >= 0) {
            *got_out = (size_t)got;
            return OT_OK;
        }
        if (errno != EAGAIN && errno != EINTR) return OT_ERR_NETWORK_EXCEPTION;
        const enum ot_err err = cli_wait_one(fd, POLLIN, deadline_us);
        if (err != OT_OK) return err;
    }
}
