/* Connections that carry frames: int32 size, then that many bytes. What a frame means is the door's business.
 *
 * A connection belongs to one loop; every call and callback here is made on that loop's thread. Requests of one connection may be in work at the same time; answers
 * leave in the order of the requests, whatever order they are given in. Reading pauses while too many requests are in work, too many bytes wait to be
 * sent, the door says "later", or a pool is at its cap; the peer then feels TCP's own back-pressure. */
#ifndef OT_NET_CONN_H
#define OT_NET_CONN_H

#include "base/buf.h"
#include "base/exec.h"
#include "base/span.h"

struct ot_conn;
struct ot_net_part;
struct net_room;

/* One request from its arrival to its answer. The door answers each that it took exactly once: ot_reply_send or ot_reply_none. */
struct ot_reply {
    struct ot_conn *conn;
    struct ot_buf *buf;                    /* holds the request; the door takes references for what outlives the answer */
    const uint8_t *data;                   /* behind the size */
    uint32_t bytes;
    int64_t received_us;
    void *door;                            /* the door's own; NULL at first */
    /* of the connection */
    struct ot_reply *next;
    struct ot_net_part *parts, *parts_last;
    uint64_t output_bytes;
    uint8_t state;
    bool failed, none;
    struct net_room *forced;               /* it is that room's one request beyond the cap; NULL: it is not */
};

enum ot_request_fate {
    OT_REQUEST_TAKEN,
    OT_REQUEST_LATER,                      /* offered again when a request of this connection was answered, or after ot_conn_kick */
    OT_REQUEST_STARVED                     /* offered again when a request of any connection of this loop was answered */
};

struct ot_conn_handler {
    size_t conn_bytes;                     /* zeroed memory of the door in every connection: ot_conn_door */
    void (*opened)(struct ot_conn *conn);                                    /* may be NULL */
    enum ot_request_fate (*request)(struct ot_conn *conn, struct ot_reply *reply);
    void (*ending)(struct ot_conn *conn);  /* cut short what waits (long polls): the peer is gone, or we stop. Once; answers still have to be given. May be NULL */
    void (*closed)(struct ot_conn *conn);  /* the last callback; every request was answered. May be NULL */
};

void *ot_conn_door(struct ot_conn *conn);
void *ot_conn_arg(struct ot_conn *conn);                   /* as given with the listener */
struct ot_exec *ot_conn_exec(struct ot_conn *conn);        /* its loop */
uint32_t ot_conn_loop_index(const struct ot_conn *conn);   /* for memory kept per loop */
bool ot_conn_open(const struct ot_conn *conn);             /* false: answers go nowhere */
const char *ot_conn_peer(const struct ot_conn *conn);      /* "127.0.0.1:50412" */
const char *ot_conn_peer_host(const struct ot_conn *conn); /* "127.0.0.1" */
const char *ot_conn_local_host(const struct ot_conn *conn);/* the address that the peer reached */
uint16_t ot_conn_local_port(const struct ot_conn *conn);
const char *ot_conn_listener(const struct ot_conn *conn);  /* name of its listener */
uint64_t ot_conn_id(const struct ot_conn *conn);

/* For lists of connections; cut to what fits. A null text leaves what is there. */
void ot_conn_describe(struct ot_conn *conn, struct ot_str client_id, struct ot_str software_name, struct ot_str software_version);

/* Offer again the request that was put off. */
void ot_conn_kick(struct ot_conn *conn);
/* Take no further request (the one that is being offered included, if it is not taken), send the answers that are due, then close. For garbage on the wire, errors of unanswered requests… */
void ot_conn_finish(struct ot_conn *conn, const char *why);
/* Until ot_conn_trust a request may have no more than so many bytes, nor may answers that wait to be sent (but for the last of them), and the connection is closed after that time:
 * for who has yet to say who it is. In `opened`.
 * Where there are too many of those on its loop (probation_max), the one that came first goes. */
void ot_conn_probation(struct ot_conn *conn, uint32_t request_bytes_max, int64_t us);
void ot_conn_trust(struct ot_conn *conn);
/* Close at once. Requests in work still have to be answered, which then does nothing but give memory back. */
void ot_conn_abort(struct ot_conn *conn, const char *why);

/* ---- answers */

/* Add memory, sent in the order added. It is kept alive by `give`, whose reference passes over with this call: it is dropped once this part, and
 * with it all before it, were sent or never will be. NULL: a later part of this answer gives the buffer. */
void ot_reply_memory(struct ot_reply *reply, const void *data, uint32_t bytes, struct ot_buf *give);
/* Add a span (of a file, or borrowed memory); pin likewise passes over, and NULL means that a later part of this answer brings it. */
void ot_reply_span(struct ot_reply *reply, const struct ot_span *span, struct ot_pin *pin);
/* The answer is complete. The request's buffer is let go, and `reply` is no longer the door's. */
void ot_reply_send(struct ot_reply *reply);
/* There is no answer (acks=0). */
void ot_reply_none(struct ot_reply *reply);
/* Bytes added so far. */
static inline uint64_t ot_reply_bytes(const struct ot_reply *reply) { return reply->output_bytes; }

#endif
