/* A link's socket: looking up, connecting, sending and receiving. */
#include "base/net/link_inner.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define RECEIVE_TURN_BYTES (4u << 20)      /* then others get their turn */
#define SEND_PIECES 16

/* ---- where to */

enum ot_err link_numeric(struct ot_link *link)
{
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(link->setup.port) };
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(link->setup.port) };
    if (inet_pton(AF_INET, link->host, &four.sin_addr) == 1) {
        memcpy(&link->addresses[0].name, &four, link->addresses[0].bytes = sizeof four);
    } else if (inet_pton(AF_INET6, link->host, &six.sin6_addr) == 1) {
        memcpy(&link->addresses[0].name, &six, link->addresses[0].bytes = sizeof six);
    } else {
        return OT_ERR_NOT_FOUND;
    }
    link->address_count = 1;
    return OT_OK;
}

void link_resolve(struct ot_link *link)
{
    const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
    struct addrinfo *list = NULL;
    char port[8];
    snprintf(port, sizeof port, "%u", link->setup.port);
    link->address_count = 0;
    if (getaddrinfo(link->host, port, &hints, &list) != 0) return;
    for (const struct addrinfo *one = list; one != NULL && link->address_count < LINK_ADDRESSES_MAX; one = one->ai_next) {
        if (one->ai_addrlen > sizeof link->addresses[0].name) continue;
        memcpy(&link->addresses[link->address_count].name, one->ai_addr, one->ai_addrlen);
        link->addresses[link->address_count++].bytes = one->ai_addrlen;
    }
    freeaddrinfo(list);
}

/* ---- connecting */

static void set_options(const struct ot_link *link, int fd)
{
    const int one = 1;                     /* what a system refuses of these costs speed only */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    if (link->setup.send_buffer_bytes > 0) (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &link->setup.send_buffer_bytes, sizeof(int));
    if (link->setup.receive_buffer_bytes > 0) (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &link->setup.receive_buffer_bytes, sizeof(int));
}

void link_connect(struct ot_link *link)
{
    const uint32_t at = link->address_at % link->address_count;
    const int fd = socket(link->addresses[at].name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    link->event.fd = fd;
    if (fd < 0) {
        link_lost(link, OT_LINK_FAILED);
        return;
    }
    set_options(link, fd);
    ot_transport_plain(&link->transport, fd);
    link->state = LINK_CONNECTING;
    link->readable = link->writable = false;
    link->head_got = link->skip = 0;
    int done;
    do {
        done = connect(fd, (const struct sockaddr *)&link->addresses[at].name, link->addresses[at].bytes);
    } while (done != 0 && errno == EINTR);
    if (done != 0 && errno != EINPROGRESS) {
        link_lost(link, errno == ECONNREFUSED ? OT_LINK_REFUSED : OT_LINK_FAILED);
        return;
    }
    if (ot_loop_fd_add(link->links->loop, &link->event, EPOLLIN | EPOLLOUT | EPOLLRDHUP, false) != OT_OK) link_lost(link, OT_LINK_FAILED);
}

/* On loopback a connect to a free port may meet itself: the kernel picked that very port for our side. Nobody listens there. */
static bool met_itself(int fd)
{
    struct sockaddr_storage mine = { 0 }, theirs = { 0 };
    socklen_t my_bytes = sizeof mine, their_bytes = sizeof theirs;
    return getsockname(fd, (struct sockaddr *)&mine, &my_bytes) == 0 && getpeername(fd, (struct sockaddr *)&theirs, &their_bytes) == 0 && my_bytes == their_bytes
        && memcmp(&mine, &theirs, my_bytes) == 0;
}

static void connecting(struct ot_link *link)
{
    int code = 0;
    socklen_t bytes = sizeof code;
    struct sockaddr_storage theirs;
    socklen_t their_bytes = sizeof theirs;
    if (!link->writable) return;
    if (getsockopt(link->event.fd, SOL_SOCKET, SO_ERROR, &code, &bytes) != 0) code = errno;
    if (code == 0 && getpeername(link->event.fd, (struct sockaddr *)&theirs, &their_bytes) != 0) {
        link->writable = false;            /* not yet */
        return;
    }
    if (code != 0 || met_itself(link->event.fd)) link_lost(link, code == 0 || code == ECONNREFUSED ? OT_LINK_REFUSED : OT_LINK_FAILED);
    else link_connected(link);
}

void link_close_fd(struct ot_link *link)
{
    if (link->event.fd >= 0) {
        ot_loop_fd_remove(link->links->loop, &link->event);
        close(link->event.fd);
        link->event.fd = -1;
    }
    for (; link->out_count > 0; link->out_count--) {
        ot_buf_unref(link->out[link->out_first]);
        link->out_first = (link->out_first + 1) % (link->setup.calls_max + 1);
    }
    link->out_pos = 0;
    ot_buf_unref(link->frame);
    link->frame = NULL;
}

/* ---- sending */

void link_put(struct ot_link *link, struct ot_buf *request)
{
    const uint32_t cap = link->setup.calls_max + 1;
    OT_ASSERT(link->out_count < cap);      /* as many as there are slots */
    link->out[(link->out_first + link->out_count++) % cap] = request;
}

static bool flush(struct ot_link *link)
{
    const uint32_t cap = link->setup.calls_max + 1;
    while (link->out_count > 0 && link->writable) {
        struct iovec pieces[SEND_PIECES];
        int count = 0;
        size_t sent = 0;
        for (uint32_t i = 0; i < link->out_count && count < SEND_PIECES; i++) {
            const struct ot_buf *buf = link->out[(link->out_first + i) % cap];
            const uint32_t from = i == 0 ? link->out_pos : 0;
            pieces[count++] = (struct iovec){ buf->data + from, buf->bytes - from };
        }
        const enum ot_moved moved = link->transport.ops->sendmsg(&link->transport, pieces, count, false, &sent);
        if (moved == OT_MOVED_AGAIN) {
            link->writable = false;
            return true;
        }
        if (moved != OT_MOVED) return false;
        while (sent > 0) {
            struct ot_buf *buf = link->out[link->out_first];
            const size_t rest = buf->bytes - link->out_pos;
            if (sent < rest) {
                link->out_pos += (uint32_t)sent;
                break;
            }
            sent -= rest;
            link->out_pos = 0;
            link->out_first = (link->out_first + 1) % cap;
            link->out_count--;
            ot_buf_unref(buf);
        }
    }
    return true;
}

/* ---- receiving */

/* The head is whole. False: garbage. */
static bool frame_begin(struct ot_link *link)
{
    const uint32_t bytes = ot_load_u32(link->head);
    const int32_t id = (int32_t)ot_load_u32(link->head + 4);
    struct link_slot *slot = link_slot_find(link, id);
    if (bytes < 4 || bytes > INT32_MAX || slot == NULL) return false;
    link->skip = bytes - 4;
    link->frame_id = id;
    if (slot->call == NULL) return true;
    if (bytes > slot->call->answer_bytes_max) {
        struct ot_link_call *call = slot->call;
        if (call == &link->greet_call) return false;
        slot->call = NULL;
        link_answer(link, call, OT_ERR_TOO_LARGE, NULL);
        return true;
    }
    if ((link->frame = ot_buf_new(link->setup.pool, bytes)) == NULL && (link->frame = ot_buf_new_forced(link->setup.pool, bytes)) == NULL) return false;
    memcpy(link->frame->data, link->head + 4, 4);
    link->frame->bytes = bytes;
    link->frame_got = 4;
    link->skip = 0;
    return true;
}

/* Is what began over? Then it is answered. */
static void frame_maybe_end(struct ot_link *link)
{
    if (link->head_got < 8 || link->skip > 0 || (link->frame != NULL && link->frame_got < link->frame->bytes)) return;
    struct ot_buf *frame = link->frame;
    link->frame = NULL;
    link->head_got = 0;
    link_slot_answered(link, link->frame_id, OT_OK, frame);
}

/* False: garbage. The connection may be lost after it. */
static bool feed(struct ot_link *link, const uint8_t *data, size_t bytes)
{
    const int fd = link->event.fd;
    while (bytes > 0) {
        size_t step;
        if (link->head_got < 8) {
            step = OT_MIN(bytes, (size_t)8 - link->head_got);
            memcpy(link->head + link->head_got, data, step);
            link->head_got += (uint32_t)step;
            if (link->head_got == 8 && !frame_begin(link)) return false;
        } else if (link->skip > 0) {
            step = OT_MIN(bytes, (size_t)link->skip);
            link->skip -= (uint32_t)step;
        } else {                           /* what came with the scratch: at most LINK_SCRATCH_BYTES of a frame are copied, the rest is received in place */
            step = OT_MIN(bytes, (size_t)(link->frame->bytes - link->frame_got));
            memcpy(link->frame->data + link->frame_got, data, step);
            link->frame_got += (uint32_t)step;
        }
        data += step;
        bytes -= step;
        frame_maybe_end(link);
        if (link->event.fd != fd) return true;     /* the answer was a refusal */
    }
    return true;
}

/* False: the connection is over. */
static bool receive(struct ot_link *link)
{
    const int fd = link->event.fd;
    size_t total = 0;
    while (link->readable && total < RECEIVE_TURN_BYTES) {
        struct iovec pieces[2];
        int count = 0;
        size_t got = 0;
        const size_t rest = link->frame != NULL ? link->frame->bytes - link->frame_got : 0;
        if (rest > 0) pieces[count++] = (struct iovec){ link->frame->data + link->frame_got, rest };
        pieces[count++] = (struct iovec){ link->links->scratch, LINK_SCRATCH_BYTES };
        const enum ot_moved moved = link->transport.ops->recv(&link->transport, pieces, count, &got);
        if (moved == OT_MOVED_AGAIN) {
            link->readable = false;
            return true;
        }
        if (moved != OT_MOVED) return false;
        total += got;
        link->heard_us = link_now(link);
        const size_t direct = OT_MIN(got, rest);
        if (direct > 0) {
            link->frame_got += (uint32_t)direct;
            frame_maybe_end(link);
            if (link->event.fd != fd) return true;
        }
        if (!feed(link, link->links->scratch, got - direct)) return false;
        if (link->event.fd != fd) return true;
    }
    if (link->readable && !link->again) {
        link->again = true;
        ot_exec_post(link->links->exec, &link->again_task);
    }
    return true;
}

void link_run(struct ot_link *link)
{
    if (link->state == LINK_CONNECTING) connecting(link);
    if (link->state != LINK_GREETING && link->state != LINK_UP) return;
    if (!flush(link)) {
        link_lost(link, OT_LINK_FAILED);
        return;
    }
    const int fd = link->event.fd;
    if (!receive(link)) {
        if (link->event.fd == fd) link_lost(link, OT_LINK_FAILED);
    } else if (link->event.fd >= 0 && link->out_count > 0 && !flush(link)) {       /* the greeting's next word, or what waited for a place */
        link_lost(link, OT_LINK_FAILED);
    }
}
