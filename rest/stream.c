#include "rest/stream.h"
#include "rest/inside.h"
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES 32768u

struct rest_stream {
    pthread_mutex_t mutex;                     /* guards what follows to the blank line; never held while a connection is resumed */
    char *data;
    size_t bytes, cap_bytes, at;               /* [at, bytes) waits */
    bool ended, gone, suspended, full, telling_drained;
    uint32_t refs;

    struct rest_server *server;
    struct MHD_Connection *connection;
    struct rest_stream *next, *prev;           /* on the executor, of the server's open ones */
    const struct rest_stream_ops *ops;
    void *arg;
    bool closed, left_told;                    /* of the executor's side */
    struct ot_task drained_task, gone_task;
};

static void unref(struct rest_stream *stream)
{
    pthread_mutex_lock(&stream->mutex);
    const bool last = --stream->refs == 0;
    pthread_mutex_unlock(&stream->mutex);
    if (!last) return;
    pthread_mutex_destroy(&stream->mutex);
    free(stream->data);
    free(stream);
}

static void count(const struct rest_server *server)
{
    if (server->setup.metrics != NULL) ot_series_set(ot_series_get(server->setup.metrics, OT_METRIC_rest_streams, NULL), server->stream_count);
}

/* ---- the executor's side */

static void tell_left(struct rest_stream *stream)
{
    if (stream->closed || stream->left_told) return;
    stream->left_told = true;
    stream->ops->left(stream->arg);
}

static void drained(struct ot_task *task)
{
    struct rest_stream *stream = OT_CONTAINER(task, struct rest_stream, drained_task);
    pthread_mutex_lock(&stream->mutex);
    stream->telling_drained = false;
    pthread_mutex_unlock(&stream->mutex);
    if (!stream->closed) stream->ops->drained(stream->arg);
    unref(stream);
}

static void gone(struct ot_task *task)
{
    struct rest_stream *stream = OT_CONTAINER(task, struct rest_stream, gone_task);
    tell_left(stream);
    unref(stream);
}

struct rest_stream *rest_stream_start(struct rest_call *call, const struct rest_stream_ops *ops, void *arg)
{
    struct rest_server *server = call->server;
    struct rest_stream *stream = server->stream_count < REST_STREAMS_MAX ? calloc(1, sizeof(*stream)) : NULL;
    if (stream == NULL) {
        if (server->stream_count >= REST_STREAMS_MAX) rest_problem_http(call, "HTTP_SERVICE_UNAVAILABLE", "%u streams are open, at most %d are served", server->stream_count, REST_STREAMS_MAX);
        else rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the stream");
        return NULL;
    }
    pthread_mutex_init(&stream->mutex, NULL);
    stream->refs = 2;
    stream->server = server;
    stream->connection = call->connection;
    stream->ops = ops;
    stream->arg = arg;
    stream->drained_task.run = drained;
    stream->gone_task.run = gone;
    stream->next = server->streams;
    if (stream->next != NULL) stream->next->prev = stream;
    server->streams = stream;
    server->stream_count++;
    count(server);
    rest_server_hold(server);
    call->stream = stream;
    rest_reply_stream(call);
    return stream;
}

bool rest_stream_room(struct rest_stream *stream)
{
    pthread_mutex_lock(&stream->mutex);
    stream->full = stream->bytes - stream->at > REST_STREAM_ROOM_BYTES && !stream->gone;
    const bool room = !stream->full;
    pthread_mutex_unlock(&stream->mutex);
    return room;
}

/* Under the mutex. */
static bool keep(struct rest_stream *stream, const char *text, size_t bytes)
{
    if (stream->at > 0) {
        memmove(stream->data, stream->data + stream->at, stream->bytes - stream->at);
        stream->bytes -= stream->at;
        stream->at = 0;
    }
    if (stream->bytes + bytes > stream->cap_bytes) {
        const size_t cap = OT_MAX(stream->cap_bytes * 2, stream->bytes + bytes);
        char *grown = realloc(stream->data, cap);
        if (grown == NULL) return false;
        stream->data = grown;
        stream->cap_bytes = cap;
    }
    memcpy(stream->data + stream->bytes, text, bytes);
    stream->bytes += bytes;
    return true;
}

/* Takes note that the connection is to be resumed; call resume with the answer, after the mutex. */
static bool take_suspended(struct rest_stream *stream)
{
    const bool suspended = stream->suspended;
    stream->suspended = false;
    return suspended;
}

bool rest_stream_put(struct rest_stream *stream, const char *text, size_t bytes)
{
    pthread_mutex_lock(&stream->mutex);
    const bool kept = !stream->gone && keep(stream, text, bytes);
    const bool resume = kept && take_suspended(stream);
    pthread_mutex_unlock(&stream->mutex);
    if (resume) MHD_resume_connection(stream->connection);
    return kept;
}

void rest_stream_end(struct rest_stream *stream)
{
    struct rest_server *server = stream->server;
    stream->closed = true;
    if (stream->prev != NULL) stream->prev->next = stream->next;
    else server->streams = stream->next;
    if (stream->next != NULL) stream->next->prev = stream->prev;
    server->stream_count--;
    count(server);
    pthread_mutex_lock(&stream->mutex);
    stream->ended = true;
    const bool resume = take_suspended(stream);
    pthread_mutex_unlock(&stream->mutex);
    if (resume) MHD_resume_connection(stream->connection);
    unref(stream);
    rest_server_let_go(server);
}

void rest_streams_stop(struct rest_server *server)
{
    for (struct rest_stream *stream = server->streams, *next; stream != NULL; stream = next) {
        next = stream->next;                   /* left may end it */
        tell_left(stream);
    }
}

/* ---- the connection's side */

static ssize_t read_piece(void *arg, uint64_t pos, char *to, size_t max)
{
    struct rest_stream *stream = arg;
    (void)pos;
    pthread_mutex_lock(&stream->mutex);
    const size_t bytes = OT_MIN(stream->bytes - stream->at, max);
    ssize_t answer = (ssize_t)bytes;
    if (bytes > 0) {
        memcpy(to, stream->data + stream->at, bytes);
        stream->at += bytes;
        if (stream->full && stream->bytes - stream->at < REST_STREAM_ROOM_BYTES / 2 && !stream->telling_drained) {
            stream->full = false;
            stream->telling_drained = true;
            stream->refs++;
            ot_exec_post(stream->server->exec, &stream->drained_task);
        }
    } else if (stream->ended) {
        answer = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        stream->suspended = true;
        MHD_suspend_connection(stream->connection);            /* under the mutex, so that put does not resume before this */
    }
    pthread_mutex_unlock(&stream->mutex);
    return answer;
}

struct MHD_Response *rest_stream_response(struct rest_stream *stream)
{
    return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, PIECE_BYTES, read_piece, stream, NULL);
}

void rest_stream_gone(struct rest_stream *stream)
{
    pthread_mutex_lock(&stream->mutex);
    stream->gone = true;
    pthread_mutex_unlock(&stream->mutex);
    ot_exec_post(stream->server->exec, &stream->gone_task);    /* with the connection's reference */
}
