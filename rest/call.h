/* One request of a client, from its first header to its last byte, and what handlers use to read it and to answer it. Private to rest/.
 *
 * A handler runs on the server's executor. It answers exactly once, at once or later from the same executor, with one of the rest_reply_… or rest_problem…
 * functions below; after that the call is gone for it. Everything in the arena lives until the answer is sent. */
#ifndef OT_REST_CALL_H
#define OT_REST_CALL_H

#include "base/arena.h"
#include "base/exec.h"
#include "broker/broker.h"
#include "rest/json_in.h"
#include "rest/json_out.h"
#include "rest/list.h"
#include "rest/route.h"
#include "rest/uri.h"

#define REST_ARENA_MAX (64u << 20)
#define REST_ANSWER_MAX (96u << 20)
#define REST_HEADERS_MAX 12
#define REST_VALUES_SMALL 10000u                /* of a body that is kept while its request is in work */

struct rest_server;
struct MHD_Connection;

enum rest_stage { REST_NEW, REST_READING, REST_OVERFULL, REST_WORKING, REST_ANSWERED, REST_QUEUED };
enum rest_body { REST_BODY_NONE, REST_BODY_IS_JSON, REST_BODY_IS_TEXT, REST_BODY_IS_BYTES, REST_BODY_IS_LINES };

struct rest_header { const char *name, *value; };

struct rest_call {
    struct ot_task task;
    struct rest_server *server;
    struct broker *broker;
    struct ot_exec *home;                      /* the server's executor, for calls into the broker */
    struct MHD_Connection *connection;
    struct rest_call *next, *prev;             /* of those in work; on the server's executor */
    _Atomic int stage;
    struct ot_arena arena;
    /* asked */
    char *target;                              /* raw, as it came */
    uintptr_t version_at;                      /* where the request line goes on when the target is all of what was sent */
    bool target_cut, old_http;                 /* the target holds a NUL; HTTP/1.0 */
    enum rest_method method;
    bool head;
    const struct rest_route *route;            /* NULL until one was found */
    struct rest_uri uri;
    struct ot_str params[REST_PARAMS_MAX];     /* by the order of {…} in the pattern */
    const char *if_match, *if_none_match, *accept, *body_type, *last_event_id, *once_key;      /* headers, or NULL */
    const struct rest_header *given; uint32_t given_count; struct ot_blob given_body;      /* of a request that came without a connection of its own */
    char request_id[65], peer[64], principal[80];
    enum rest_body body_kind;
    struct ot_buf *body;                       /* NULL: none */
    size_t discarded_bytes;                    /* of a body that is too large */
    int64_t started_us, begun_us;              /* its first header was read; its handler began */
    int64_t granted_us;                        /* how long the client said that it may wait; does not make it slow */
    bool pretty, no_rates;
    bool arrived;                              /* from another broker, or asked by a handler of ours: it is answered here and goes no further */
    enum rest_format format;
    int64_t timeout_ms;
    /* answered */
    int status;
    const char *content_type;
    const char *problem;                       /* name of the error that it was, or NULL */
    const char *served_by;                     /* another broker did; NULL: this one */
    struct rest_header headers[REST_HEADERS_MAX]; uint32_t header_count;
    struct rest_json out;                      /* the body */
    struct rest_list list;
    struct rest_faults faults;
    /* in work */
    bool stopping;                             /* set before cancel is called */
    bool sending;                              /* answered in work, and not sent yet: its server counts it; the connection's thread reads it from the answer on */
    void (*cancel)(struct rest_call *call);    /* hurry: the server stops. NULL: nothing to do */
    struct ot_timer timer;
    json_t *json; bool large;                  /* the body as parsed; large: counted as one of few */
    void *state;                               /* of the handler */
    struct rest_once *once;                    /* the answer is kept under its Idempotency-Key */
    struct rest_stream *stream;                /* the answer is a stream */
    void (*inner_done)(struct rest_call *call); void *inner_arg;       /* asked without a connection: inner.c */
    const struct rest_rows *rows;              /* what each broker told of its replicas, while the answer is written from it; NULL: this one's are told */
    struct gathering *gather;                  /* other brokers are asked for their part of the answer */
    struct rest_hop *hop;                      /* it is on its way to another broker */
    int32_t (*whither)(struct rest_call *call);                        /* which broker it is for, looked up anew; NULL: that does not change */
};

/* ---- reading ---- */

static inline struct ot_str rest_param(const struct rest_call *call, uint32_t index) { return call->params[index]; }
/* Query parameters. The typed ones answer false after they added a fault: a handler reads all it wants and then calls rest_faulty. */
const struct rest_pair *rest_query(const struct rest_call *call, const char *name);        /* NULL: not given */
bool rest_query_flag(struct rest_call *call, const char *name);                            /* ?x, ?x=true; a bad value is a fault */
int64_t rest_query_int(struct rest_call *call, const char *name, int64_t min, int64_t max, int64_t otherwise);
struct ot_str rest_query_text(const struct rest_call *call, const char *name);             /* null: not given */
int rest_query_choice(struct rest_call *call, const char *name, const char *const *choices, uint32_t count, int otherwise);
/* Epoch ms or RFC 3339. */
int64_t rest_query_time(struct rest_call *call, const char *name, int64_t otherwise);
void rest_fault_query(struct rest_call *call, const char *name, const char *format, ...) OT_PRINTF(3, 4);
/* True: there were faults, and the call was answered with them (400). */
bool rest_faulty(struct rest_call *call);
/* A {p} of the path. False: answered. */
bool rest_param_int(struct rest_call *call, uint32_t index, const char *what, int64_t min, int64_t max, int64_t *out);
/* The JSON body, an object of at most so many values; NULL: answered with what is wrong. It goes with the call. */
json_t *rest_body_object(struct rest_call *call, uint32_t values_max);
void rest_body_drop(struct rest_call *call);               /* its tree is no longer needed; answering does it too */

/* ---- answering ---- */

/* Values are kept as they are: static text, or from the arena. NULL value: no header. */
void rest_header(struct rest_call *call, const char *name, const char *value);
void rest_header_int(struct rest_call *call, const char *name, int64_t value);
void rest_reply_json(struct rest_call *call, int status);          /* call->out holds one JSON value */
void rest_reply_raw(struct rest_call *call, int status, const char *content_type);     /* call->out holds bytes; content_type may be NULL */
void rest_reply_empty(struct rest_call *call, int status);
void rest_reply_stream(struct rest_call *call);                    /* 200, from call->stream */
/* RFC 9457. err: by the error table, house errors under the name of their kind. hint may be NULL. */
void rest_problem(struct rest_call *call, enum ot_err err, const char *format, ...) OT_PRINTF(3, 4);
/* A problem of HTTP's own: row of rest/problem.h by name ("HTTP_NOT_FOUND"). */
void rest_problem_http(struct rest_call *call, const char *name, const char *format, ...) OT_PRINTF(3, 4);
/* With members of the problem's own: extra is JSON text like `"log_start_offset":0` or NULL; hint NULL: none. */
void rest_problem_more(struct rest_call *call, enum ot_err err, const char *extra, const char *hint, const char *format, ...) OT_PRINTF(5, 6);
/* The member "error" of one item among several: null when err is OK. text may be empty: that of the table then. */
void rest_item_error(struct rest_json *out, enum ot_err err, const char *text);

/* ---- versions ---- */

void rest_etag(struct rest_call *call, int64_t version);
/* Sets ETag; true: If-None-Match has it, and the call was answered 304. */
bool rest_not_modified(struct rest_call *call, int64_t version);
/* *if_version_out: the version when If-Match names it, -1 when there is no If-Match. False: it names others, answered 412. */
bool rest_if_match(struct rest_call *call, int64_t version, int64_t *if_version_out);
bool rest_validate_only(struct rest_call *call);
/* How a write went: Ottla-Metadata-Offset. */
void rest_wrote(struct rest_call *call, int64_t version);

/* For the log: one line for each write. resource may be null. */
void rest_audit(const struct rest_call *call);

#endif
