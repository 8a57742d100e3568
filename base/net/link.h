/* Outgoing connections that carry frames: int32 size, then that many bytes; of a request int16 key, int16 version, int32 correlation id and more, of an
 * answer int32 correlation id and more. What lies behind is the caller's business.
 *
 * A link is one connection to one address, made when the first call comes (with `keep` at once) and made again after it was lost: at once when it had
 * been up, else after a pause that doubles, with jitter. Several calls may be in flight; answers are matched by correlation id, which the link gives. A lost
 * connection answers every call that was sent with CLOSED; those that still wait are sent on the next one. A connection that could not be made answers all with CLOSED.
 * A call whose deadline passes is answered with REQUEST_TIMED_OUT and what comes for it later is thrown away; a connection on which an answer is due and nothing is heard
 * for silence_us is given up.
 *
 * bounds  calls_max calls per link, sent and waiting; more are answered with BUSY. An answer is refused (TOO_LARGE, the link stays) beyond the call's answer_bytes_max; it is taken
 *         from the link's pool, beyond the pool's cap if need be: one such answer per link.
 * thread  every link of one ot_links lives on its loop: event and greet run there. open, send and close: any thread; send and close are taken in the order in which they were called. */
#ifndef OT_NET_LINK_H
#define OT_NET_LINK_H

#include "base/buf.h"
#include "base/exec.h"

struct ot_links;
struct ot_link;

/* name: of the thread, static text under 16 bytes. resolve_exec: a pool on which host names are looked up (blocks there); NULL: numeric addresses only. seed: of the jitter. */
OT_MUST_CHECK enum ot_err ot_links_open(const char *name, struct ot_exec *resolve_exec, uint64_t seed, struct ot_links **out);       /* NO_MEMORY, IO */
/* Every link was closed before; waits until they are gone. NULL is fine. Not on the loop. */
void ot_links_close(struct ot_links *links);
struct ot_exec *ot_links_exec(struct ot_links *links);

enum ot_link_event {
    OT_LINK_UP,                            /* connected and greeted */
    OT_LINK_LOST,                          /* was up, is not any more */
    OT_LINK_REFUSED,                       /* nobody listens there: the machine said so */
    OT_LINK_FAILED                         /* not connected for another reason: no answer in time, no such name, greeting refused… */
};
#define OT_LINK_GREET_BYTES 256u           /* memory of one connection's greeting */

struct ot_link_setup {
    const char *host; uint16_t port;       /* copied */
    struct ot_pool *pool;                  /* of answers; outlives the link */
    bool keep;                             /* stay connected though nobody calls */
    /* 0: the usual */
    uint32_t calls_max;                    /* 64; at most 1024 */
    int64_t connect_us;                    /* 5 s: to connect and be greeted */
    int64_t silence_us;                    /* 30 s */
    int64_t pause_us, pause_max_us;        /* 50 ms, 1 s */
    int32_t send_buffer_bytes, receive_buffer_bytes;       /* below 1: the system's */
    void *arg, *greet_arg;
    /* What is said before any call, NULL: nothing. Asked again with the answer of what it said last (NULL at first), until it says nothing: *bytes_out 0. It writes a request (key, version, four
     * bytes for the correlation id, …) to out; memory is OT_LINK_GREET_BYTES, zeroed for each connection. An error: the connection is given up. */
    enum ot_err (*greet)(void *greet_arg, void *memory, const uint8_t *answer, uint32_t answer_bytes, uint8_t *out, uint32_t cap_bytes, uint32_t *bytes_out);
    void (*event)(void *arg, enum ot_link_event event);    /* may be NULL; never again once closed() ran */
    void (*closed)(void *arg);             /* the last of it, after ot_link_close; may be NULL */
};
OT_MUST_CHECK enum ot_err ot_link_open(struct ot_links *links, const struct ot_link_setup *setup, struct ot_link **out);      /* NO_MEMORY */
/* Answers every call with CLOSED and goes. The handle is not used after this. NULL is fine. */
void ot_link_close(struct ot_link *link);
bool ot_link_up(const struct ot_link *link);               /* any thread; a hint */

struct ot_link_call {                      /* the caller's memory until answered */
    void (*answered)(struct ot_link_call *call);
    struct ot_exec *home;                  /* where answered runs; NULL: on the links' loop */
    struct ot_buf *request;                /* bytes: four for the size, then the request; sizes and the correlation id are put in by the link. Its reference passes over with ot_link_send */
    uint32_t answer_bytes_max;             /* with the correlation id */
    int64_t deadline_us;                   /* ot_exec_now_us */
    /* answered */
    enum ot_err error;                     /* OK, CLOSED, REQUEST_TIMED_OUT, BUSY, TOO_LARGE, NO_MEMORY */
    bool sent;                             /* it may have reached the other side */
    struct ot_buf *answer;                 /* with OK: data is behind the size, the correlation id first. The caller's reference */
    /* of the link */
    struct ot_task task;
    struct ot_link_call *next;
    struct ot_link *link;
};
void ot_link_send(struct ot_link *link, struct ot_link_call *call);

#endif
