/* What carries a connection's bytes: a plain socket, and later TLS over one. Framing, output queues and doors see only this table, so that TLS
 * (in user space, or kTLS, which keeps sendfile) is another row and no other code.
 *
 * Calls never block, are made by the connection's loop only, and handle EINTR inside. `*moved_out` counts plain bytes. */
#ifndef OT_NET_TRANSPORT_H
#define OT_NET_TRANSPORT_H

#include "base/macros.h"
#include <sys/uio.h>

enum ot_moved {
    OT_MOVED,                  /* at least one byte */
    OT_MOVED_AGAIN,            /* nothing now: wait for what `wants` says */
    OT_MOVED_END,              /* recv: the peer closed its side. sendfile: the file ends here */
    OT_MOVED_FAILED            /* the connection is broken (sendfile: or the file cannot be read) */
};

struct ot_transport;
struct ot_transport_ops {
    enum ot_moved (*recv)(struct ot_transport *transport, struct iovec *iov, int iov_count, size_t *moved_out);
    enum ot_moved (*sendmsg)(struct ot_transport *transport, const struct iovec *iov, int iov_count, bool more, size_t *moved_out);
    enum ot_moved (*sendfile)(struct ot_transport *transport, int fd, uint64_t pos, size_t bytes, bool more, size_t *moved_out);
    void (*shutdown)(struct ot_transport *transport);      /* says goodbye if that can be done at once, and frees what it holds; the descriptor is closed by the owner */
    /* EPOLL… bits that the owner should wait for if it wants to read, to write, or both: a TLS handshake may need the other direction. */
    uint32_t (*wants)(struct ot_transport *transport, bool reading, bool writing);
};
struct ot_transport { const struct ot_transport_ops *ops; int fd; };

/* A connected, non-blocking stream socket. */
void ot_transport_plain(struct ot_transport *transport, int fd);

#endif
