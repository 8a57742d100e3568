/* What the files of this room share: the server with its one thread, calls and their tags, and the ways to answer.
 *
 * thread  One completion queue, one thread: it owns every grpc_call, decodes, starts batches, and is the executor (`home`) of all calls into the broker. Whoever
 *         completes a request posts a task; the thread is woken by an empty batch on a call of our own, which the core puts on the queue at once
 *         from any thread. Never blocks: what may wait for the disk or is long work goes to io_exec and comes back as a task.
 * life    A call is held by its open tags and by work under way (`holds`); the last one gives it back. Every call ends with exactly one of rpcg_reply,
 *         rpcg_fail and rpcg_end; what comes back to a call that is ending is dropped by its handler. */
#ifndef OT_RPC_GRPC_DOOR_H
#define OT_RPC_GRPC_DOOR_H

#include "broker/broker.h"
#include "rpc/grpc/maps.h"
#include "rpc/grpc/messages.h"
#include "rpc/grpc/server.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

#include <pthread.h>

struct rpcg_call;

struct rpcg_tag { void (*run)(struct rpcg_tag *tag, bool ok); struct rpcg_call *call; };

/* TSan does not see how the library hands a tag from the starting thread to the next one */
#if defined(__SANITIZE_THREAD__)
void __tsan_acquire(void *at);
void __tsan_release(void *at);
#define RPCG_TAG_GONE(tag) __tsan_release(tag)
#define RPCG_TAG_BACK(tag) __tsan_acquire(tag)
#else
#define RPCG_TAG_GONE(tag) ((void)(tag))
#define RPCG_TAG_BACK(tag) ((void)(tag))
#endif

enum rpcg_kind { RPCG_UNARY, RPCG_SERVER_STREAM, RPCG_BIDI };
struct rpcg_method {
    const char *path, *name;               /* name: of the metrics */
    enum rpcg_kind kind;
    bool registered;                       /* the hot ones; the others are found by path, and know the host that the client called */
    bool watched;                          /* cancel is told while the call is in work; a unary call that cannot be stopped spares itself that event */
    const size_t *own_bytes;               /* of call->own, zeroed */
    void (*start)(struct rpcg_call *call);                                  /* UNARY, SERVER_STREAM: body is there. BIDI: before anything is read */
    void (*message)(struct rpcg_call *call, grpc_byte_buffer *message);     /* BIDI: passes over; NULL: the client has ended its side */
    void (*sent)(struct rpcg_call *call);                                   /* streams: what rpcg_send sent has left */
    void (*cancel)(struct rpcg_call *call, bool draining);                  /* the client is gone, or the server stops: end soon */
    void (*freed)(struct rpcg_call *call);                                  /* last words; may be NULL */
};
extern const struct rpcg_method rpcg_methods[];
extern const uint32_t rpcg_method_count;
#define RPCG_METHODS_MAX 32u
#define RPCG_CODES 17u

#define RPCG_FIRST_BYTES 4096u
#define RPCG_ARENA_BYTES (16u << 20)       /* of one call, whatever it asks */
struct rpcg_call {
    struct rpcg_tag accepted, read, write, finish, closed;
    struct rpc_grpc_server *server;
    const struct rpcg_method *method;      /* NULL until a call by path is known */
    struct rpcg_call *next, *prev;         /* among the open ones; next: free list */
    grpc_call *call;
    gpr_timespec deadline;
    grpc_metadata_array metadata;
    grpc_call_details details;
    grpc_byte_buffer *in, *out;
    grpc_slice flat;                       /* body lies in it */
    struct ot_blob body;
    uint32_t holds;
    bool by_path, is_flat, headers_sent, ending, close_asked, cancelled, linked, writing;
    int close_cancelled, code;
    int64_t started_us, write_started_us;
    void *own;
    struct ot_arena arena;
    _Alignas(16) uint8_t first[RPCG_FIRST_BYTES];
};

struct rpc_grpc_server {
    struct ot_exec exec;                   /* the thread's own: home of every call into the broker */
    struct broker *broker;
    struct ot_pool *request_pool, *response_pool;
    struct ot_io *io;
    struct ot_exec *io_exec;
    struct ot_metrics *metrics;
    struct rpc_grpc_security security;
    struct rpcg_maps *maps;
    grpc_server *core;
    grpc_completion_queue *queue;
    grpc_channel *lame;                    /* carries the call that wakes the thread */
    grpc_call *waker;
    struct rpcg_tag woken, stopped;
    void *handles[RPCG_METHODS_MAX];       /* of registered methods */
    uint16_t ports[16];
    pthread_t thread;
    bool has_thread, serving, shut, is_stopped;    /* shut, is_stopped: the thread's own */
    _Atomic bool draining, drain_asked;
    struct ot_task drain_task;
    /* tasks: under the mutex */
    pthread_mutex_t mutex;
    struct ot_task *first_task, **last_task;
    bool sleeping, ending;
    pthread_cond_t drained;                /* stopped came, under the mutex */
    bool was_stopped;
    struct ot_timer_heap timers;
    struct rpcg_call *open, *free;
    uint32_t open_count, free_count, calls_max;
    uint32_t away;                         /* tasks on io_exec that come back */
    struct rpcg_row *line_first, *line_last;               /* rows that wait to have their records taken out, oldest first: they hold no memory yet */
    uint32_t taking, taking_max;           /* rows whose records are being taken out: so few that appends find free I/O threads */
    struct rpcg_append *waiting_first, **waiting_last;     /* messages that wait for memory, oldest first */
    struct ot_pool_waiter waiter;
    struct ot_task waiter_task;
    _Atomic bool waiter_posted;
    struct rpcg_consume *consumers;        /* members of groups (consume.h) */
    struct ot_timer sweep;
    int64_t progress_us;
    int32_t message_bytes_max, heartbeat_ms;
    uint64_t inflight_bytes_max;
    _Atomic uint32_t round_robin;
    struct ot_series *answered[RPCG_METHODS_MAX + 1][RPCG_CODES], *duration[RPCG_METHODS_MAX + 1], *calls[RPCG_METHODS_MAX + 1], *received, *sent_mapped, *sent_copy, *cold_reads;
};

/* ---- call.c: the life of calls */

void rpcg_call_post(struct rpc_grpc_server *server, const struct rpcg_method *method);    /* wait for the next one; method NULL: of any other path */
static inline void rpcg_hold(struct rpcg_call *call) { call->holds++; }
void rpcg_release(struct rpcg_call *call);
/* Encodes by put, measured first; NULL: no memory. */
grpc_byte_buffer *rpcg_message(void (*put)(struct ot_writer *writer, const void *arg), const void *arg);
/* The end of a unary call with its answer, which passes over; NULL: no memory for it. */
void rpcg_reply(struct rpcg_call *call, grpc_byte_buffer *message);
/* The end with an error. */
void rpcg_fail(struct rpcg_call *call, const struct rpcg_error *error);
void rpcg_fail_text(struct rpcg_call *call, enum ot_err error, const char *text);
/* The end with a status of gRPC's own and no error of ours. */
void rpcg_end(struct rpcg_call *call, grpc_status_code code, const char *text);
/* Streams: one message at a time, which passes over; method->sent follows. */
void rpcg_send(struct rpcg_call *call, grpc_byte_buffer *message);
void rpcg_read(struct rpcg_call *call);        /* one message at a time; method->message follows */
void rpcg_sweep(struct rpc_grpc_server *server);       /* calls whose peer takes nothing for too long are cancelled */
struct ot_str rpcg_metadata(const void *call, const char *name);       /* null: none */
struct broker_client rpcg_client(const struct rpcg_call *call);
/* What is left until the call's deadline, at most max_ms. */
int32_t rpcg_time_left_ms(const struct rpcg_call *call, int32_t max_ms);

/* ---- status.c */

int rpcg_code(const struct rpc_grpc_server *server, enum ot_err error);
/* An error about a partition; for one that is led elsewhere with the leader's address. */
struct rpcg_error rpcg_error_of(struct rpc_grpc_server *server, enum ot_err error, const char *text, struct ot_str topic, int32_t partition, int32_t leader_id,
    int32_t leader_epoch);
/* "host:port" where a broker takes gRPC calls; false: it does not, or is unknown. */
struct broker_view_broker;
bool rpcg_address_of(const struct broker_view_broker *broker, char *out, size_t out_bytes);
#define RPCG_LISTENER "GRPC"                   /* the name of our endpoints in the cluster's state */

/* ---- append.c: one produce request, of a call or of a stream */

struct rpcg_append {
    struct broker_produce produce;
    struct broker_produce_part one;
    struct rpcg_call *call;
    struct rpcg_append *next;              /* of its stream */
    struct rpcg_append *wait_next;         /* among those that wait for memory */
    void (*queued)(struct rpcg_append *append);        /* the next request of a stream may start */
    void (*done)(struct rpcg_append *append);          /* answered; ack and error say how */
    grpc_byte_buffer *message;             /* until it is in buf */
    struct ot_buf *buf, *packed;
    uint32_t bytes;
    struct rpcg_produce_ask ask;
    struct broker_records_round round;
    struct rpcg_ack ack;
    struct rpcg_error error;
    struct broker_admin admin;             /* makes a topic that is missing */
    struct broker_admin_item item;
    bool is_queued, is_done, made;
    enum ot_err pack_error;
    struct ot_task task;
    struct ot_arena arena;
    _Alignas(16) uint8_t first[1024];
};
/* Takes the message (which passes over) into a buffer of the pool, waiting for room if need be, and appends. queued is called once and before done, both possibly
 * before this returns. The call is held until done returned. */
void rpcg_append_start(struct rpcg_append *append, struct rpcg_call *call, grpc_byte_buffer *message);
void rpcg_append_free(struct rpcg_append *append);         /* what it holds, not itself */
void rpcg_appends_wake(struct rpc_grpc_server *server);
void rpcg_appends_refuse(struct rpc_grpc_server *server);  /* those that wait for memory, when the server stops */

/* ---- rows.c: what a fetch read, as a message */

#define RPCG_PIECES_MAX (2 * ENG_READ_SPANS_MAX)
struct rpcg_row_hold;                      /* keeps the log's bytes in place until the core is done with them */
struct rpcg_row {
    struct rpcg_call *call;
    const struct broker_fetch_row *row;
    int64_t from_offset;
    enum rpcg_format format;
    uint32_t bytes_max;                    /* of records */
    void (*ready)(struct rpcg_row *row);   /* on home; error says */
    /* answered */
    enum ot_err error;
    int64_t next_offset;
    uint32_t bytes;                        /* of whole batches, or of encoded records */
    /* own */
    struct { const uint8_t *data; uint32_t bytes; } pieces[RPCG_PIECES_MAX];
    uint32_t piece_count;
    struct rpcg_row_hold *hold;
    struct ot_buf *encoded;
    struct ot_task task;
    struct rpcg_row *prev, *next;          /* in the line */
    bool waiting;                          /* in the line */
    struct broker_records records;
};
/* Maps or decodes what the row read, off the thread if that may block; ready may be called before this returns. The fetch is released by the caller after ready. */
void rpcg_row_prepare(struct rpcg_row *row);
/* Between prepare and ready: nobody wants it any more. ready comes soon, and not before this returns; error may be CANCELLED. */
void rpcg_row_cancel(struct rpcg_row *row);
/* The message: head, then records or batches as field 8 or 15. Takes what the row holds over into it. NULL: no memory. */
grpc_byte_buffer *rpcg_row_message(struct rpcg_row *row, const struct rpcg_row_head *head);
void rpcg_row_free(struct rpcg_row *row);

/* ---- the methods */

void rpcg_produce_start(struct rpcg_call *call);
void rpcg_produce_stream_start(struct rpcg_call *call);
void rpcg_produce_stream_message(struct rpcg_call *call, grpc_byte_buffer *message);
void rpcg_produce_stream_sent(struct rpcg_call *call);
void rpcg_produce_stream_cancel(struct rpcg_call *call, bool draining);
void rpcg_produce_stream_freed(struct rpcg_call *call);
void rpcg_fetch_start(struct rpcg_call *call);
void rpcg_fetch_cancel(struct rpcg_call *call, bool draining);
void rpcg_subscribe_start(struct rpcg_call *call);
void rpcg_subscribe_sent(struct rpcg_call *call);
void rpcg_subscribe_cancel(struct rpcg_call *call, bool draining);
void rpcg_subscribe_freed(struct rpcg_call *call);
void rpcg_list_offsets_start(struct rpcg_call *call);
void rpcg_metadata_start(struct rpcg_call *call);
void rpcg_init_producer_start(struct rpcg_call *call);
void rpcg_end_transaction_start(struct rpcg_call *call);
void rpcg_commit_offsets_start(struct rpcg_call *call);
void rpcg_fetch_offsets_start(struct rpcg_call *call);
void rpcg_consume_start(struct rpcg_call *call);
void rpcg_consume_message(struct rpcg_call *call, grpc_byte_buffer *message);
void rpcg_consume_sent(struct rpcg_call *call);
void rpcg_consume_cancel(struct rpcg_call *call, bool draining);
void rpcg_consume_freed(struct rpcg_call *call);
void rpcg_health_check_start(struct rpcg_call *call);
void rpcg_health_watch_start(struct rpcg_call *call);
void rpcg_health_watch_sent(struct rpcg_call *call);
void rpcg_health_watch_cancel(struct rpcg_call *call, bool draining);
void rpcg_reflection_start(struct rpcg_call *call);
void rpcg_reflection_message(struct rpcg_call *call, grpc_byte_buffer *message);
void rpcg_reflection_sent(struct rpcg_call *call);
void rpcg_reflection_cancel(struct rpcg_call *call, bool draining);
extern const size_t rpcg_own_produce, rpcg_own_produce_stream, rpcg_own_fetch, rpcg_own_subscribe, rpcg_own_list_offsets, rpcg_own_metadata, rpcg_own_init_producer,
    rpcg_own_group_offsets, rpcg_own_consume, rpcg_own_health, rpcg_own_reflection;

/* The whole message in one piece, which lives as long as *flat_out is not unref'ed. */
struct ot_blob rpcg_flatten(grpc_byte_buffer *message, grpc_slice *flat_out);

#endif
