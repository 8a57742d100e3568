/* The Kafka door: listeners of the wire protocol, and every request kind that is served, translated into calls of the broker. */
#ifndef OT_RPC_KAFKA_SERVER_H
#define OT_RPC_KAFKA_SERVER_H

#include "base/io.h"
#include "base/metrics.h"
#include "base/net/net.h"
#include "broker/broker.h"
#include "broker/slow.h"

struct rpc_kafka_server;

struct rpc_kafka_listener {
    const char *name;                      /* "PLAINTEXT": as in `listeners` */
    int fds[8];                            /* bound and listening (ot_net_listen); they pass over */
    uint32_t fd_count;
    const char *advertised_host;           /* NULL: the address that a client reached */
    int32_t advertised_port;               /* used with advertised_host */
};

#define RPC_HELLO_BYTES_MAX 4096u          /* of a request to a peer server before the hello, and of the answers to such that wait to be sent (but for the last) */

struct rpc_kafka_setup {
    const struct rpc_kafka_listener *listeners;        /* copied */
    uint32_t listener_count;
    bool peer;                             /* its connections come from other brokers: they say hello first (broker/peers.h) */
    uint32_t strangers_max;                /* so many may be there that said no hello yet: for one more the oldest of them goes. 0: any number */
    struct ot_pool *request_pool;          /* request bytes in flight (queued.max.request.bytes); outlives the server */
    struct ot_pool *small_pool; uint32_t small_bytes;  /* requests of at most so many bytes are there instead, whatever large ones take; outlives the server. NULL: none */
    bool system_buffers;                   /* of sockets: the system's sizes, whatever socket.send.buffer.bytes and socket.receive.buffer.bytes say */
    struct ot_pool *response_pool;         /* answers not yet sent, without the file ranges in them; outlives the server */
    struct ot_io *io;                      /* probes and reads cold ranges */
    struct ot_exec *io_exec;
    struct ot_metrics *metrics;            /* may be NULL. Of a peer server what it sent and read cold alone: the others speak of clients */
    struct broker_slow *slow;              /* takes what was slow; outlives the server; may be NULL */
};

/* Starts the reactors and accepts from here on. Sizes and limits come from broker_config. NO_MEMORY, IO; the listeners' sockets are closed then. */
OT_MUST_CHECK enum ot_err rpc_kafka_server_start(struct broker *broker, const struct rpc_kafka_setup *setup, struct rpc_kafka_server **out);
/* One more while it runs. Its sockets pass over in any case. One thread at a time. TOO_LARGE: there were too many since the start; NO_MEMORY. */
OT_MUST_CHECK enum ot_err rpc_kafka_server_listen(struct rpc_kafka_server *server, const struct rpc_kafka_listener *listener);
/* Those of this name go, and the connections that came over them once their answers left. Blocks for a moment. NO_MEMORY: nothing happened. */
OT_MUST_CHECK enum ot_err rpc_kafka_server_unlisten(struct rpc_kafka_server *server, const char *name);
/* Stop accepting; long polls are answered with what there is, what is in work is finished, for up to timeout_ms; then every connection is closed. NULL is fine. */
void rpc_kafka_server_stop(struct rpc_kafka_server *server, int64_t timeout_ms);
/* Waits until the broker has answered every call (so after broker_stop), then frees. NULL is fine. */
void rpc_kafka_server_free(struct rpc_kafka_server *server);
struct ot_net *rpc_kafka_server_net(struct rpc_kafka_server *server);      /* for lists of connections and numbers */

/* Take in a connected socket on listener 0, as if it had been accepted. For tests and fuzzing. */
OT_MUST_CHECK enum ot_err rpc_kafka_server_adopt(struct rpc_kafka_server *server, int fd);

#endif
