#include "base/net/transport.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

static enum ot_moved moved(ssize_t count, size_t *moved_out)
{
    if (count > 0) {
        *moved_out = (size_t)count;
        return OT_MOVED;
    }
    *moved_out = 0;
    if (count == 0) return OT_MOVED_END;
    return errno == EAGAIN || errno == EWOULDBLOCK ? OT_MOVED_AGAIN : OT_MOVED_FAILED;
}

static enum ot_moved plain_recv(struct ot_transport *transport, struct iovec *iov, int iov_count, size_t *moved_out)
{
    struct msghdr message = { .msg_iov = iov, .msg_iovlen = (size_t)iov_count };
    ssize_t count;
    do {
        count = recvmsg(transport->fd, &message, 0);
    } while (count < 0 && errno == EINTR);
    return moved(count, moved_out);
}

static enum ot_moved plain_sendmsg(struct ot_transport *transport, const struct iovec *iov, int iov_count, bool more, size_t *moved_out)
{
    /* sendmsg takes a pointer to what it only reads */
    struct msghdr message = { .msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)iov_count };
    ssize_t count;
    do {
        count = sendmsg(transport->fd, &message, MSG_NOSIGNAL | (more ? MSG_MORE : 0));
    } while (count < 0 && errno == EINTR);
    return moved(count, moved_out);
}

static enum ot_moved plain_sendfile(struct ot_transport *transport, int fd, uint64_t pos, size_t bytes, bool more, size_t *moved_out)
{
    (void)more;                            /* sendfile knows no such flag; the kernel gathers within one call */
    off_t at = (off_t)pos;
    ssize_t count;
    do {
        count = sendfile(transport->fd, fd, &at, bytes);
    } while (count < 0 && errno == EINTR);
    return moved(count, moved_out);
}

static void plain_shutdown(struct ot_transport *transport) { (void)transport; }

static uint32_t plain_wants(struct ot_transport *transport, bool reading, bool writing)
{
    (void)transport;
    return (reading ? (uint32_t)EPOLLIN | (uint32_t)EPOLLRDHUP : 0) | (writing ? (uint32_t)EPOLLOUT : 0);
}

static const struct ot_transport_ops plain_ops = { plain_recv, plain_sendmsg, plain_sendfile, plain_shutdown, plain_wants };

void ot_transport_plain(struct ot_transport *transport, int fd) { *transport = (struct ot_transport){ &plain_ops, fd }; }
