/* Reactors, listeners and the connections on them, with their limits.
 *
 * Accepted connections go to the loop that has the fewest. All that a peer can make us hold is bounded: request bytes by request_pool, answers by response_pool (while it is at its cap
 * a request is started only for who has read all answers before it, and none at twice the cap), answers not yet read by output_bytes_max per connection, requests in work by
 * requests_max per connection. At a cap a connection is not read until others finish; one request per loop may go beyond the cap of request_pool, so that something always moves. */
#ifndef OT_NET_NET_H
#define OT_NET_NET_H

#include "base/io.h"
#include "base/net/conn.h"

struct ot_net;
struct ot_net_setup {
    uint32_t loop_count;                   /* 0: one per core */
    struct ot_pool *request_pool, *response_pool;      /* outlive the net */
    struct ot_io *io;                      /* probes and reads cold ranges; with io_exec, a pool. NULL: every range is taken as cached */
    struct ot_exec *io_exec;
    uint32_t request_bytes_max;            /* socket.request.max.bytes */
    int32_t send_buffer_bytes, receive_buffer_bytes;   /* -1: the system's */
    uint32_t connections_max, connections_per_ip_max;
    int64_t idle_us;                       /* connections.max.idle.ms; -1: never */
    int64_t progress_us;                   /* ottla.connection.progress.timeout.ms */
    uint32_t requests_max;                 /* ottla.connection.requests.max */
    struct ot_pool *small_pool;            /* of requests of at most small_bytes; outlives the net. Large ones, which may be long on their way, take no room from them; at its cap they go into request_pool. NULL: all are there */
    uint32_t small_bytes;
    uint32_t probation_max;                /* connections of one loop that have yet to say who they are; 0: any number */
    uint64_t output_bytes_max;             /* answers of one connection that wait to be sent; 0: 64 MiB. One answer may be larger */
};

OT_MUST_CHECK enum ot_err ot_net_open(const struct ot_net_setup *setup, struct ot_net **out);       /* NO_MEMORY, IO */
/* Accept on a listening socket (address.h), which passes over in any case. name is copied; handler lives as long as the net; arg: ot_conn_arg. Any thread. */
OT_MUST_CHECK enum ot_err ot_net_serve(struct ot_net *net, int listen_fd, const char *name, const struct ot_conn_handler *handler, void *arg);
/* No longer accept on the listeners of this name, and end the connections that came over them: what is in work is answered first. Their sockets are closed when this
 * returns, and the name may be served anew. Blocks for a turn of the loops: not on one of them. */
OT_MUST_CHECK enum ot_err ot_net_unserve(struct ot_net *net, const char *name);     /* NO_MEMORY: nothing changed */
/* Take in a connected, non-blocking socket as if it had been accepted. It passes over in any case. Any thread. name lives as long as the net. */
OT_MUST_CHECK enum ot_err ot_net_adopt(struct ot_net *net, int fd, const char *name, const struct ot_conn_handler *handler, void *arg);
struct ot_net_limits {
    uint32_t connections_max, connections_per_ip_max;
    uint32_t connections_per_second;       /* UINT32_MAX: as many as come */
    const char *per_ip_overrides;          /* limits.h; NULL or "": none. A text that is none changes nothing */
};
void ot_net_limits(struct ot_net *net, const struct ot_net_limits *limits);     /* any thread; for new connections */
/* Stop accepting, let requests in work finish and answers leave for up to timeout_ms, then close every connection. Not on a loop. */
void ot_net_drain(struct ot_net *net, int64_t timeout_ms);
/* After drain: waits for the answers that doors still owe, stops the loops, frees. NULL is fine. Not on a loop. */
void ot_net_close(struct ot_net *net);

uint32_t ot_net_loop_count(const struct ot_net *net);
struct ot_exec *ot_net_loop_exec(struct ot_net *net, uint32_t index);
double ot_net_loop_busy_ratio(struct ot_net *net, uint32_t index);      /* since the last call */

/* Counters since start and gauges of now, summed over the loops. Any thread. */
struct ot_net_stats {
    uint64_t accepted, refused_limit, refused_limit_ip, refused_no_descriptor, closed;
    uint64_t closed_idle, closed_no_progress, closed_bad_frame, closed_short_range;
    uint64_t requests, bytes_in, bytes_out, sendfile_bytes, cold_reads, cold_read_bytes, starved;
    uint32_t connections;
};
void ot_net_stats(struct ot_net *net, struct ot_net_stats *out);

/* One row per open connection. The texts live during the call of each only; each runs under a lock: copy and return. Any thread. */
struct ot_conn_view {
    uint64_t id;
    const char *peer, *local, *listener, *client_id, *software_name, *software_version;
    int64_t opened_wall_ms, idle_us;
    uint64_t requests, bytes_in, bytes_out, output_bytes;
    uint32_t requests_in_work, loop;
};
void ot_net_connections(struct ot_net *net, void (*each)(void *arg, const struct ot_conn_view *view), void *arg);
/* Close the connection of that id soon, whatever is in work on it. False: there is none (any more), or no memory. Any thread. */
bool ot_net_kick(struct ot_net *net, uint64_t id, const char *reason /* static text, for the log */);

#endif
