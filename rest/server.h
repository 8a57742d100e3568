/* The REST door: the control plane over HTTP/1.1. It translates and nothing else; what a request means is written in broker/.
 *
 * Threads: libmicrohttpd has one per listening socket, which reads requests and writes answers; everything between runs on one serial executor of ours
 * ("rest"), the home of our calls into the broker. A connection is suspended while its request is in work, so nobody blocks on a long one. */
#ifndef OT_REST_SERVER_H
#define OT_REST_SERVER_H

#include "base/mem.h"
#include "base/metrics.h"
#include "base/net/address.h"
#include "broker/slow.h"

struct broker;
struct rest_server;

struct rest_listener {
    const char *host;                          /* as configured: a name that the Host header may carry; "" for every address */
    int fds[OT_NET_SOCKETS_MAX];               /* bound and listening (ot_net_listen, or AF_UNIX) */
    uint32_t fd_count;
    uint16_t port;
};
struct rest_connection_row {                   /* a client connection of another door, for GET /v1/brokers/{id}/connections */
    uint64_t id;
    const char *listener, *address, *client_id, *software_name, *software_version;     /* NULL: unknown */
    int64_t opened_wall_ms;
    uint64_t requests, bytes_in, bytes_out;
};
struct rest_api_row { int16_t key, min_version, max_version; const char *name; };      /* a Kafka API that another door serves, for GET /v1/version */
struct rest_setup {
    const struct rest_listener *listeners; uint32_t listener_count;
    struct ot_metrics *metrics;                /* read by /metrics and /v1/metrics, fed with rest_*; NULL: none */
    const struct ot_mem_budget *budget;        /* told by /v1/diagnostics/memory; outlives the server; NULL: none */
    const char *history_path;                  /* numbers of the past are read from there at the start and written there at the stop; copied; NULL: they are lost */
    struct broker_slow *slow;                  /* what was slow, of every door; outlives the server; NULL: none */
    struct ot_pool *body_pool;                 /* request bodies and what is read for a fetch: the budget's pool "rest" */
    const char *version, *commit;              /* of the build; commit may be NULL */
    const struct rest_api_row *apis; uint32_t api_count;       /* outlive the server */
    uint32_t connections_max, connections_per_address_max;     /* 0: 512, 64 */
    uint32_t requests_per_second, requests_burst;              /* of one address; 0: 200, 400 */
    bool allow_exposed;                        /* serve without authentication on addresses other than loopback */
    /* Lists open client connections, each(each_arg, row), in any order; the rows are borrowed during the call. Any thread. May be NULL. */
    void (*connections)(void *arg, void (*each)(void *each_arg, const struct rest_connection_row *row), void *each_arg);
    /* Closes the one of that id soon; false: there is none. Any thread. May be NULL. */
    bool (*close_connection)(void *arg, uint64_t id);
    void *connections_arg;
};

/* Takes the sockets over when it succeeds. What setup points to (texts, metrics, pool) outlives the server; setup itself and the listeners are copied.
 * INVALID_CONFIG: a socket is bound to more than loopback, and allow_exposed is not set; words in text_out. NO_MEMORY, IO. */
OT_MUST_CHECK enum ot_err rest_server_start(struct broker *broker, const struct rest_setup *setup, struct rest_server **out, char *text_out, size_t text_bytes);

/* Answers what is in work (long polls at once), closes the sockets, frees. After broker_stop, so that nothing waits for a commit any more, and before
 * broker_close. Blocks. NULL is fine. */
void rest_server_stop(struct rest_server *server);

#endif
