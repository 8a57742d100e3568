#include "base/net/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SAY(...) (void)snprintf(text_out, text_bytes, __VA_ARGS__)

static bool address_port(const char *text, size_t bytes, uint16_t *out)
{
    uint32_t port = 0;
    if (bytes == 0 || bytes > 5) return false;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        port = port * 10 + (uint32_t)(text[i] - '0');
    }
    if (port > 65535) return false;
    *out = (uint16_t)port;
    return true;
}

bool ot_net_is_loopback(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (strcmp(host, "localhost") == 0) return true;
    if (inet_pton(AF_INET, host, &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

enum ot_err ot_net_address_parse(const char *text, size_t bytes, struct ot_net_address *out, char *text_out, size_t text_bytes)
{
    const char *at = text, *end = text + bytes;
    *out = (struct ot_net_address){ 0 };
    for (const char *p = text; p + 3 <= end; p++) {
        if (memcmp(p, "://", 3) != 0) continue;
        if ((size_t)(p - text) >= sizeof out->scheme || p == text) goto bad;
        memcpy(out->scheme, text, (size_t)(p - text));
        at = p + 3;
        break;
    }
    const char *host = at, *host_end, *colon = NULL;
    if (at < end && *at == '[') {
        host = at + 1;
        host_end = memchr(host, ']', (size_t)(end - host));
        if (host_end == NULL || host_end + 1 >= end || host_end[1] != ':') goto bad;
        colon = host_end + 1;
    } else {
        for (const char *p = at; p < end; p++) {
            if (*p != ':') continue;
            if (colon != NULL) goto bad;   /* an IPv6 address without brackets */
            colon = p;
        }
        if (colon == NULL) goto bad;
        host_end = colon;
    }
    if ((size_t)(host_end - host) >= sizeof out->host) goto bad;
    for (const char *p = host; p < host_end; p++) {
        if (*p <= ' ' || *p == '/' || *p == 127) goto bad;
    }
    memcpy(out->host, host, (size_t)(host_end - host));
    if (!address_port(colon + 1, (size_t)(end - colon - 1), &out->port)) goto bad;
    return OT_OK;
bad:
    SAY("\"%.*s\" is not [SCHEME://]HOST:PORT (an IPv6 address stands in brackets)", (int)(bytes > 100 ? 100 : bytes), text);
    return OT_ERR_MALFORMED;
}

/* One socket; -1 with errno. */
static int listen_one(const struct addrinfo *address, uint16_t port, int backlog, bool both_families)
{
    struct sockaddr_storage name = { 0 };
    const int on = 1, off = 0;
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    memcpy(&name, address->ai_addr, address->ai_addrlen);
    if (address->ai_family == AF_INET6) ((struct sockaddr_in6 *)(void *)&name)->sin6_port = htons(port);
    else ((struct sockaddr_in *)(void *)&name)->sin_port = htons(port);
    /* a socket in TIME_WAIT of the last run must not keep us from starting */
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) goto fail;
    if (address->ai_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, both_families ? &off : &on, sizeof on) != 0) goto fail;
    if (bind(fd, (struct sockaddr *)(void *)&name, address->ai_addrlen) != 0 || listen(fd, backlog) != 0) goto fail;
    return fd;
fail:;
    const int code = errno;
    close(fd);
    errno = code;
    return -1;
}

static uint16_t bound_port(int fd)
{
    char name[OT_NET_NAME_BYTES];
    uint16_t port = 0;
    ot_net_socket_name(fd, true, name, NULL, &port);
    return port;
}

static enum ot_err listen_error(int code, const char *host, uint16_t port, char *text_out, size_t text_bytes)
{
    SAY("cannot listen on %s:%u: %s", host[0] == '\0' ? "*" : host, (unsigned)port, strerror(code));
    return code == EADDRINUSE ? OT_ERR_EXISTS : code == EADDRNOTAVAIL ? OT_ERR_NOT_FOUND : OT_ERR_IO;
}

static bool named_before(const struct addrinfo *first, const struct addrinfo *one)
{
    for (; first != one; first = first->ai_next) {
        if (first->ai_addrlen == one->ai_addrlen && memcmp(first->ai_addr, one->ai_addr, one->ai_addrlen) == 0) return true;
    }
    return false;
}

/* On the socket that listens: one that was accepted under bbr paces for ever, whatever it is told afterwards. */
enum ot_err ot_net_congestion(int listen_fd, const char *name)
{
    char now[16] = "";                     /* the kernel's TCP_CA_NAME_MAX */
    socklen_t bytes = sizeof now - 1;
    if (strcmp(name, "auto") != 0) return setsockopt(listen_fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0 ? OT_OK : OT_ERR_NOT_FOUND;
    if (getsockopt(listen_fd, IPPROTO_TCP, TCP_CONGESTION, now, &bytes) == 0 && strncmp(now, "bbr", 3) == 0)
        (void)setsockopt(listen_fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5);      /* a kernel without it: bbr */
    return OT_OK;
}

enum ot_err ot_net_listen(const char *host, uint16_t port, int backlog, int fds_out[static OT_NET_SOCKETS_MAX], uint32_t *count_out,
    uint16_t *port_out, char *text_out, size_t text_bytes)
{
    const bool everywhere = host[0] == '\0' || strcmp(host, "*") == 0;
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE }, *found = NULL;
    *count_out = 0;
    *port_out = port;
    if (everywhere) {
        /* one IPv6 socket takes both families; without IPv6 the loop below falls through to IPv4 */
        const struct sockaddr_in6 six = { .sin6_family = AF_INET6 };
        const struct sockaddr_in four = { .sin_family = AF_INET };
        const struct addrinfo any[2] = {
            { .ai_family = AF_INET6, .ai_addr = (struct sockaddr *)(uintptr_t)&six, .ai_addrlen = sizeof six },
            { .ai_family = AF_INET, .ai_addr = (struct sockaddr *)(uintptr_t)&four, .ai_addrlen = sizeof four } };
        int fd = listen_one(&any[0], port, backlog, true);
        if (fd < 0 && errno != EADDRINUSE) fd = listen_one(&any[1], port, backlog, false);
        if (fd < 0) return listen_error(errno, host, port, text_out, text_bytes);
        fds_out[(*count_out)++] = fd;
        *port_out = bound_port(fd);
        return OT_OK;
    }
    const int code = getaddrinfo(host, NULL, &hints, &found);
    if (code != 0) {
        SAY("cannot listen on %s: %s", host, gai_strerror(code));
        return OT_ERR_NOT_FOUND;
    }
    enum ot_err err = OT_ERR_NOT_FOUND;
    SAY("cannot listen on %s: no address", host);
    for (const struct addrinfo *one = found; one != NULL && *count_out < OT_NET_SOCKETS_MAX; one = one->ai_next) {
        if ((one->ai_family != AF_INET && one->ai_family != AF_INET6) || named_before(found, one)) continue;
        const int fd = listen_one(one, *port_out, backlog, false);
        if (fd >= 0) {
            fds_out[(*count_out)++] = fd;
            *port_out = bound_port(fd);
            err = OT_OK;
            continue;
        }
        if (one->ai_family == AF_INET6 && (errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT)) continue;
        err = listen_error(errno, host, *port_out, text_out, text_bytes);
        break;
    }
    freeaddrinfo(found);
    if (err != OT_OK) {
        while (*count_out > 0) close(fds_out[--*count_out]);
    }
    return err;
}

void ot_net_socket_name(int fd, bool local, char out[static OT_NET_NAME_BYTES], char *host_out, uint16_t *port_out)
{
    struct sockaddr_storage name = { 0 };
    socklen_t bytes = sizeof name;
    char host[INET6_ADDRSTRLEN] = "";
    uint16_t port = 0;
    bool six = false;
    if ((local ? getsockname(fd, (struct sockaddr *)(void *)&name, &bytes) : getpeername(fd, (struct sockaddr *)(void *)&name, &bytes)) != 0) bytes = 0;
    if (bytes > 0 && name.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)&name;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        port = ntohs(in->sin_port);
    } else if (bytes > 0 && name.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)(const void *)&name;
        six = !IN6_IS_ADDR_V4MAPPED(&in->sin6_addr);
        if (six) inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof host);
        else inet_ntop(AF_INET, &in->sin6_addr.s6_addr[12], host, sizeof host);
        port = ntohs(in->sin6_port);
    } else {
        memcpy(host, "local", sizeof "local");     /* a socket pair of a test */
    }
    (void)snprintf(out, OT_NET_NAME_BYTES, six ? "[%s]:%u" : "%s:%u", host, (unsigned)port);
    if (host_out != NULL) (void)snprintf(host_out, INET6_ADDRSTRLEN, "%s", host);
    if (port_out != NULL) *port_out = port;
}
