/* The gRPC door: the services of rpc/proto, served by the C core of gRPC (no C++), each call translated into calls of the broker. */
#ifndef OT_RPC_GRPC_SERVER_H
#define OT_RPC_GRPC_SERVER_H

#include "base/io.h"
#include "base/metrics.h"
#include "broker/broker.h"

struct rpc_grpc_server;

/* What the security of a listener adds; all zero is plain text for everybody. Called before the first call, and on the door's thread. */
struct rpc_grpc_security {
    void *arg;
    /* A grpc_server_credentials of the C core, which passes over; NULL: plain text. */
    void *(*credentials)(void *arg);
    /* May this caller call? metadata_get finds a header of the call (lower case name), null when there is none. OK, or an error that the call ends with. */
    enum ot_err (*admit)(void *arg, const void *call, struct ot_str (*metadata_get)(const void *call, const char *name), const char *method);
};

struct rpc_grpc_listener { const char *host; uint16_t port; };             /* host "": every address; port 0: a free one */
struct rpc_grpc_setup {
    const struct rpc_grpc_listener *listeners; uint32_t listener_count;
    const struct broker_config *config;    /* grpc.*: as at start */
    struct ot_pool *request_pool;          /* messages in work; outlives the server */
    struct ot_pool *response_pool;         /* records taken out of batches, until they are sent; outlives the server */
    uint64_t quota_bytes;                  /* of the C core's own memory, where it closes calls: grpc.memory.bytes, or from the budget */
    struct ot_io *io;                      /* probes cold ranges */
    struct ot_exec *io_exec;
    uint32_t taking_max;                   /* how many answers have their records taken out at once, on io_exec: part of its threads, so that appends find others; 0: 1 */
    struct ot_metrics *metrics;            /* may be NULL */
    struct rpc_grpc_security security;
};

/* Sockets are bound and calls wait from here on, but none is served before start. NO_MEMORY; IO with words in text_out (an address that cannot be had). */
OT_MUST_CHECK enum ot_err rpc_grpc_server_open(const struct rpc_grpc_setup *setup, struct rpc_grpc_server **out, char *text_out, size_t text_bytes);
uint16_t rpc_grpc_server_port(const struct rpc_grpc_server *server, uint32_t listener);
OT_MUST_CHECK enum ot_err rpc_grpc_server_start(struct rpc_grpc_server *server, struct broker *broker);
/* Before broker_stop: no new calls, health answers NOT_SERVING, streams end with UNAVAILABLE ("connect again"), appends under way go on. NULL is fine. */
void rpc_grpc_server_drain(struct rpc_grpc_server *server);
/* After broker_stop, when every call of the broker is or will be answered: waits up to timeout_ms for calls to end, then cancels them, and frees. NULL is fine; so is one
 * that was never started. */
void rpc_grpc_server_stop(struct rpc_grpc_server *server, int64_t timeout_ms);

#endif
