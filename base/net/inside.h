/* What net.c, conn.c and output.c share. Nobody else includes this. */
#ifndef OT_NET_INSIDE_H
#define OT_NET_INSIDE_H

#include "base/net/loop.h"
#include "base/net/net.h"
#include "base/net/transport.h"

#include <pthread.h>

/* One recv takes this much beyond the request that is being received. Whole small requests are copied from here into buffers of their own: at most 16 KiB
 * that lie in the first cache levels, half a microsecond, where a recv apiece costs more than that. */
#define NET_SCRATCH_BYTES 16384u
#define NET_CHUNK_BYTES (1u << 20)         /* unit of probing, reading in and dropping cold ranges */
#define NET_SEND_TURN_BYTES (4u << 20)     /* then other connections get their turn */
#define NET_REQUESTS_PER_TURN 128u
#define NET_CLIENT_BYTES 128u

enum net_reply_state { NET_REPLY_FREE, NET_REPLY_OFFERED, NET_REPLY_IN_WORK, NET_REPLY_DONE };

struct ot_net_part {                       /* one piece of an answer in a queue */
    struct ot_net_part *next;
    struct ot_span span;                   /* what is left of it */
    struct ot_buf *buf;                    /* given back behind it */
    struct ot_pin *pin;
    uint64_t warm_end;                     /* of cold files: probed or read in up to here */
    uint64_t drop_pos; uint32_t drop_bytes;/* read in by us and sent: to be dropped */
    uint64_t drew_pos; uint32_t drew_bytes;/* read in by us, not yet all sent */
    struct ot_task task;                   /* of the final drop */
    struct ot_conn *conn;
};

struct net_stash { struct net_stash *next; uint32_t at, end; uint8_t bytes[NET_SCRATCH_BYTES]; };      /* received, but not yet taken */

struct net_counts { _Atomic uint64_t requests, bytes_in, bytes_out, sendfile_bytes, cold_reads, cold_read_bytes, starved, closed, closed_idle, closed_no_progress,
    closed_bad_frame, closed_short_range; };

struct net_loop;
struct net_pool_wait { struct ot_pool_waiter waiter; struct ot_task task; struct ot_pool *pool; struct net_loop *loop; bool waiting; };
struct net_room { struct net_pool_wait wait; bool forced_out; };       /* for requests of one size; forced_out: this loop's one beyond the cap is in work */

struct net_loop {
    struct ot_net *net;
    struct ot_loop *loop;
    struct ot_exec *exec;
    uint32_t index;
    struct ot_reply *replies_free;
    struct ot_net_part *parts_free;
    struct net_stash *stashes_free;
    struct net_slab { struct net_slab *next; } *slabs;
    struct ot_conn *starved;
    struct net_room requests, small;       /* small: a pool of its own, if there is one */
    struct net_pool_wait response_wait;
    struct ot_conn *probation_first, *probation_last; uint32_t probation_count;        /* in the order in which they came */
    struct ot_task drain_task, abort_task;
    pthread_mutex_t mutex;                 /* guards conns and the texts in them, for lists */
    struct ot_conn *conns;
    _Atomic uint32_t conn_count;
    struct net_counts counts;
    uint8_t scratch[NET_SCRATCH_BYTES];
};

struct net_cold { struct ot_task task; uint64_t pos, drop_pos; uint32_t bytes, drop_bytes; int fd; enum ot_err err; };

struct ot_conn {
    struct ot_conn *next, *prev;           /* of the loop's list */
    struct ot_conn *starved_next;
    struct net_loop *loop;
    const struct ot_conn_handler *handler;
    void *arg;
    const char *listener;
    uint64_t id;
    struct ot_loop_fd event;
    struct ot_transport transport;
    struct ot_timer timer;
    struct ot_task task;
    uint32_t refs;                         /* 1 while open, 1 per request in work, 1 per task out */
    bool scheduled, closed, ended, finishing, eof, running, readable, writable, hung_up, starving, io_busy;
    /* input */
    uint8_t head[4];
    uint32_t head_got, frame_got;
    struct ot_buf *frame;
    struct net_room *frame_forced;         /* as ot_reply.forced */
    struct net_stash *stash;
    struct ot_reply *waiting;              /* offered, put off */
    int64_t read_us;                       /* last byte in */
    uint32_t bytes_max;                    /* of a request, while it is on probation; 0: as the setup says */
    int64_t probation_us;                  /* closed then; 0: not on probation */
    struct ot_conn *probation_next, *probation_prev;
    /* requests, oldest first */
    struct ot_reply *replies, *replies_last;
    uint32_t reply_count;
    /* output */
    struct ot_net_part *out, *out_last;
    int64_t sent_us;                       /* last byte out, or when the queue began */
    struct net_cold cold;
    /* for lists: written by the loop */
    _Atomic uint64_t requests, bytes_in, bytes_out, output_bytes;
    _Atomic uint32_t in_work;
    _Atomic int64_t active_us;
    int64_t opened_wall_ms;
    uint8_t ip[16];
    char peer[64], local[64], peer_host[46], local_host[46];
    uint16_t local_port;
    char client_id[NET_CLIENT_BYTES], software_name[NET_CLIENT_BYTES], software_version[NET_CLIENT_BYTES];
    _Alignas(16) uint8_t door[];
};

#define NET_COUNT(loop, what, n) ((void)atomic_fetch_add_explicit(&(loop)->counts.what, (uint64_t)(n), memory_order_relaxed))

/* net.c */
const struct ot_net_setup *net_setup(const struct ot_net *net);
struct ot_conn *net_conn_new(struct ot_net *net, int fd, const char *listener, const struct ot_conn_handler *handler, void *arg);    /* the fd stays the caller's on NULL */
void net_conn_gone(struct ot_net *net, struct ot_conn *conn, bool freed);       /* closed (limits), then freed (drain waits) */
struct ot_reply *net_reply_new(struct net_loop *loop);
void net_reply_free(struct net_loop *loop, struct ot_reply *reply);
struct ot_net_part *net_part_new(struct net_loop *loop);
void net_part_free(struct net_loop *loop, struct ot_net_part *part);
struct net_stash *net_stash_new(struct net_loop *loop);
void net_stash_free(struct net_loop *loop, struct net_stash *stash);
void net_starve(struct net_loop *loop, struct ot_conn *conn, struct net_pool_wait *wait /* NULL: for any answer */);
void net_unstarve(struct net_loop *loop);                                        /* offer again to all */
void net_starve_cancel(struct net_loop *loop, struct ot_conn *conn);

/* conn.c */
void conn_start(struct ot_conn *conn);                                           /* on its loop */
void conn_schedule(struct ot_conn *conn);
void conn_ref(struct ot_conn *conn);
void conn_unref(struct ot_conn *conn);
void conn_end(struct ot_conn *conn);

/* output.c */
bool conn_flush(struct ot_conn *conn);                                           /* false: the connection was closed */
void conn_parts_release(struct ot_conn *conn, struct ot_net_part *parts);

#endif
