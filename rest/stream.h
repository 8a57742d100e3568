/* An answer without an end: server-sent events, written piece by piece from the server's executor. Private to rest/.
 *
 *   executor: rest_stream_put ─► queue ─► libmicrohttpd's reader ─► socket
 *                                 empty: the connection is suspended, put resumes it
 *
 * The executor's side holds the stream from rest_stream_start to rest_stream_end; the connection's side from the answer to its end. Neither waits for the
 * other: whichever leaves last frees it. The queue is bounded by its writers, who ask rest_stream_room and go on when drained is called. */
#ifndef OT_REST_STREAM_H
#define OT_REST_STREAM_H

#include "rest/call.h"

#define REST_STREAMS_MAX 128
#define REST_STREAM_ROOM_BYTES (64u << 10)        /* more than this waits: no further pieces until half of it has left */

struct rest_stream;
struct rest_stream_ops {                       /* on the executor */
    void (*drained)(void *arg);                /* there is room again; only after rest_stream_room said no */
    void (*left)(void *arg);                   /* the client is gone, or the server stops: end it soon. Once; not after rest_stream_end */
};
/* Answers the call with 200 and an event stream; the call is gone then, so what the stream's life needs must lie elsewhere. NULL: answered with a problem
 * (503 at REST_STREAMS_MAX, or no memory). */
struct rest_stream *rest_stream_start(struct rest_call *call, const struct rest_stream_ops *ops, void *arg);
bool rest_stream_room(struct rest_stream *stream);
/* False: no memory, or the client is gone. */
bool rest_stream_put(struct rest_stream *stream, const char *text, size_t bytes);
/* What was put still leaves, then the connection ends. The stream is gone for the caller. */
void rest_stream_end(struct rest_stream *stream);

/* The connection's side, on libmicrohttpd's thread. */
struct MHD_Response;
struct MHD_Response *rest_stream_response(struct rest_stream *stream);     /* NULL: no memory */
void rest_stream_gone(struct rest_stream *stream);         /* the request is over */
void rest_streams_stop(struct rest_server *server);        /* on the executor: left for each */

#endif
