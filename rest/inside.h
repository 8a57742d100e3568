/* Private to rest/: the server itself. */
#ifndef OT_REST_INSIDE_H
#define OT_REST_INSIDE_H

#include "base/map.h"
#include "rest/call.h"
#include "rest/checks.h"
#include "rest/history.h"
#include "rest/server.h"
#include <pthread.h>

#define REST_DAEMONS_MAX 32
#define REST_NAMES_MAX 20
#define REST_TARGET_MAX 8192u
#define REST_HEADER_BLOCK_MAX 32768u

#define REST_LARGE_BODIES_MAX 4
#define REST_HOP_BYTES_MAX (32u << 20)         /* of an answer that another broker gives */
/* Instead of an answer that would have more, or for which there is no memory: what was asked for was done, or refused, all the same. */
#define REST_HOP_TOO_LARGE "TOO_LARGE"
#define REST_HOP_UNTOLD "UNTOLD"

struct MHD_Daemon;

/* Requests by address, a token bucket each; a full table takes over the bucket that was not used for longest. Any thread. */
#define REST_BUCKETS 1024
struct rest_bucket { uint64_t key; int64_t at_us; double tokens; };
struct rest_limits { pthread_mutex_t mutex; double per_second, burst; struct rest_bucket buckets[REST_BUCKETS]; };
void rest_limits_init(struct rest_limits *limits, double per_second, double burst);
/* False: too many; *retry_s_out says in how many seconds there will be room. */
bool rest_limits_take(struct rest_limits *limits, const char *principal, int64_t now_us, int *retry_s_out);

/* Totals every few seconds, so that rates can be told: a ring that reaches five minutes back. On the server's executor. */
#define REST_SAMPLES 64
#define REST_SAMPLE_US INT64_C(5000000)
#define REST_SAMPLE_APIS 64
struct rest_totals { double bytes_in, bytes_out, records_in, produce, fetch, errors; };
struct rest_sample { int64_t at_us; struct rest_totals totals; uint32_t api_count; struct { char api[40]; double requests, errors; } apis[REST_SAMPLE_APIS]; };
struct rest_topic_rate { double in[3], out[3]; uint32_t tick; };       /* totals at the last three samples */

/* What was copied of a move when somebody asked for it first: the next one is told how long it will take. */
#define REST_PROGRESS 256
struct rest_progress { struct ot_uuid topic_id; int32_t partition; int64_t at_us, done, seen_us; };

#define REST_CHECKS_MAX 16
struct rest_check_since { int64_t at_ms; bool ok; };

struct rest_server {
    struct broker *broker;
    struct rest_setup setup;
    struct rest_listener listeners[REST_DAEMONS_MAX];
    struct MHD_Daemon *daemons[REST_DAEMONS_MAX]; uint32_t daemon_count;
    struct ot_exec_thread *thread;
    struct ot_exec *exec;
    char names[REST_NAMES_MAX][256]; const char *name_list[REST_NAMES_MAX]; uint32_t name_count;      /* ours, for the Host header */
    char served_by[16];
    size_t body_max;
    struct rest_limits limits;
    pthread_mutex_t login_mutex; uint32_t login_uid; char login[64];   /* the last user who came by a socket file */
    _Atomic bool stopping;
    _Atomic uint64_t next_request;
    _Atomic uint32_t round_robin;              /* of records without key */
    struct rest_call *first;                   /* in work; on exec */
    struct rest_stream *streams; uint32_t stream_count;        /* open ones; on exec */
    struct rest_onces *onces;                  /* on exec */
    pthread_mutex_t mutex; pthread_cond_t idle;
    uint32_t working;                          /* suspended connections and heartbeats under way; guarded by mutex */
    uint32_t sending;                          /* answers that were given in work and are on their way to their clients; guarded by mutex */
    struct ot_task cancel_task, start_task;
    uint32_t large_bodies, browses, hops, gathers;     /* in work, on exec */
    size_t gathered_bytes;                     /* of answers of other brokers that are held; on exec */
    /* sampler.c, on exec */
    struct ot_timer sample_timer;
    struct rest_sample *samples; uint32_t sample_next, sample_count;
    struct rest_check_since check_since[REST_CHECKS_MAX];      /* health.c */
    struct rest_clock clock;
    struct rest_history history;
    char *history_path;
    struct ot_map topic_rates; uint32_t ticks;
    struct ot_task beat, beat_back;            /* through the I/O pool and back: is it alive? */
    int64_t beat_us;                           /* posted; 0: none is under way */
    struct rest_progress progress[REST_PROGRESS];              /* on exec */
    bool bundling;                             /* a bundle of diagnostics is being made; on exec */
};

/* One more, one less thing that stop waits for. Any thread. */
void rest_server_hold(struct rest_server *server);
void rest_server_let_go(struct rest_server *server);

/* admit.c, on libmicrohttpd's thread: everything that can be judged before a body is read. False: the call was answered. */
bool rest_admit(struct rest_call *call, const char *method);
/* The part of it that looks at the request alone: also for those that came without a connection. */
bool rest_admit_request(struct rest_call *call, const char *method);
/* reply.c: hand the finished answer to the connection (on libmicrohttpd's thread); MHD_YES or MHD_NO as an int. */
int rest_queue(struct rest_call *call);

/* server.c, on exec: find what was asked for and do it */
void rest_work(struct rest_call *call);
void rest_begin(struct rest_call *call);           /* its handler, here */
/* inner.c, on exec: requests without a connection, to our own routes. They are answered here, whoever leads what they are about: `arrived` is set. */
struct rest_inner_ask {
    struct rest_server *server;
    const char *method, *target;               /* copied */
    const struct rest_header *headers; uint32_t header_count;  /* as a client would send them; live until the answer, as the body */
    struct ot_blob body;
    const char *request_id, *address, *principal;
    int64_t timeout_ms;                        /* 0: what the target says */
    bool pretty;
};
/* done runs later on exec: inner->status, content_type, headers and out are the answer; then it calls rest_inner_free. NULL: no memory. */
OT_MUST_CHECK struct rest_call *rest_inner_start(const struct rest_inner_ask *ask, void (*done)(struct rest_call *inner), void *arg);
/* What a GET of target would answer, with the principal of `as`. False: no memory, or nothing is served there. */
OT_MUST_CHECK bool rest_inner_get(struct rest_call *as, const char *target, bool pretty, void (*done)(struct rest_call *inner), void *arg);
void rest_inner_free(struct rest_call *inner);     /* any thread */

/* peer.c: requests that other brokers pass on. open: at the start; close: no further one comes; those in work are answered. */
void rest_peer_open(struct rest_server *server);
void rest_peer_close(struct rest_server *server);

/* sampler.c */
void rest_sampler_start(struct rest_server *server);       /* on exec */
void rest_sampler_free(struct rest_server *server);

#endif
