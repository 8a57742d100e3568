/* Log.ProduceStream: appends one after the other without waiting, acknowledged in their order.
 *
 *   read ─► append (the next read waits until it is queued: that keeps the order per partition) ─► FIFO ─► acks of the finished head ─► write
 *
 * Not read on while more than grpc.stream.inflight.bytes.max, or MESSAGES_MAX messages, are unanswered. The stream ends when the client has ended its side and all is
 * acknowledged, when the server stops, or when an append that has no answer (acks none) fails. */
#include "rpc/grpc/door.h"

#include <stdlib.h>

#define MESSAGES_MAX 1024u
#define ACKS_MAX 256u                      /* in one message */
#define KEPT_MAX 64u

struct stream_own {
    struct rpcg_append *first, **last;     /* unacknowledged, in order */
    struct rpcg_append *kept;              /* to be used again */
    uint32_t count, kept_count;
    uint64_t bytes;
    bool reading, held, half_closed, draining, failed;
    struct rpcg_error error;
    char text[BROKER_TEXT_MAX], topic[256];        /* what error points at outlives the append */
};
const size_t rpcg_own_produce_stream = sizeof(struct stream_own);

static void read_more(struct rpcg_call *call)
{
    struct stream_own *own = call->own;
    const bool ended = call->ending || call->cancelled || own->half_closed || own->draining || own->failed;
    if (ended || own->reading || own->held || own->bytes >= call->server->inflight_bytes_max || own->count >= MESSAGES_MAX) return;
    own->reading = true;
    rpcg_read(call);
}

/* ---- appends */

static struct rpcg_append *append_take(struct stream_own *own)
{
    struct rpcg_append *append = own->kept;
    if (append == NULL) return calloc(1, sizeof *append);
    own->kept = append->next;
    own->kept_count--;
    __builtin_memset(append, 0, offsetof(struct rpcg_append, first));
    return append;
}

static void append_give(struct stream_own *own, struct rpcg_append *append)
{
    rpcg_append_free(append);
    if (own->kept_count >= KEPT_MAX) {
        free(append);
        return;
    }
    append->next = own->kept;
    own->kept = append;
    own->kept_count++;
}

static struct rpcg_append *pop(struct stream_own *own)
{
    struct rpcg_append *append = own->first;
    own->first = append->next;
    if (own->first == NULL) own->last = &own->first;
    own->count--;
    own->bytes -= append->bytes;
    return append;
}

/* ---- acknowledgements */

struct acks { struct rpcg_append *list[ACKS_MAX]; uint32_t count; };

static void put_acks(struct ot_writer *writer, const void *arg)
{
    const struct acks *acks = arg;
    for (uint32_t i = 0; i < acks->count; i++) rpcg_put_message(writer, 1, rpcg_put_ack, &acks->list[i]->ack);
}

static void fail(struct stream_own *own, const struct rpcg_append *append)
{
    if (own->failed) return;
    own->failed = true;
    own->error = append->error;
    own->text[0] = '\0';
    if (append->error.text != NULL) (void)__builtin_snprintf(own->text, sizeof own->text, "%s", append->error.text);
    own->error.text = own->text;
    const uint32_t bytes = append->error.topic.null ? 0 : OT_MIN(append->error.topic.bytes, (uint32_t)sizeof own->topic);
    if (bytes > 0) __builtin_memcpy(own->topic, append->error.topic.data, bytes);
    own->error.topic = (struct ot_str){ own->topic, bytes, bytes == 0 };
}

static void end_if_done(struct rpcg_call *call)
{
    struct stream_own *own = call->own;
    if (own->count > 0 || call->writing || call->ending) return;
    if (own->failed) rpcg_fail(call, &own->error);
    else if (own->half_closed) rpcg_end(call, GRPC_STATUS_OK, "");
    else if (own->draining) rpcg_end(call, GRPC_STATUS_UNAVAILABLE, "the server is stopping: connect again, and send again what was not acknowledged");
}

static void flush(struct rpcg_call *call)
{
    struct stream_own *own = call->own;
    struct acks acks = { .count = 0 };
    if (call->writing || call->ending) return;
    while (own->first != NULL && own->first->is_done && acks.count < ACKS_MAX) {
        struct rpcg_append *append = pop(own);
        if (append->ask.acks != 0) {
            acks.list[acks.count++] = append;
            continue;
        }
        if (append->ack.error != NULL) fail(own, append);
        append_give(own, append);
    }
    if (acks.count > 0) rpcg_send(call, rpcg_message(put_acks, &acks));
    for (uint32_t i = 0; i < acks.count; i++) append_give(own, acks.list[i]);
    end_if_done(call);
    read_more(call);
}

static void queued(struct rpcg_append *append)
{
    struct stream_own *own = append->call->own;
    own->held = false;
    read_more(append->call);
}

static void done(struct rpcg_append *append) { flush(append->call); }

/* ---- the call */

void rpcg_produce_stream_start(struct rpcg_call *call)
{
    struct stream_own *own = call->own;
    own->last = &own->first;
    read_more(call);
}

void rpcg_produce_stream_message(struct rpcg_call *call, grpc_byte_buffer *message)
{
    struct stream_own *own = call->own;
    own->reading = false;
    if (message == NULL || own->draining || own->failed) {
        own->half_closed |= message == NULL;
        grpc_byte_buffer_destroy(message);
        flush(call);
        return;
    }
    struct rpcg_append *append = append_take(own);
    if (append == NULL) {
        grpc_byte_buffer_destroy(message);
        rpcg_fail_text(call, OT_ERR_NO_MEMORY, NULL);
        return;
    }
    append->queued = queued;
    append->done = done;
    *own->last = append;
    own->last = &append->next;
    own->count++;
    own->bytes += grpc_byte_buffer_length(message);
    own->held = true;
    rpcg_append_start(append, call, message);
}

void rpcg_produce_stream_sent(struct rpcg_call *call) { flush(call); }

void rpcg_produce_stream_cancel(struct rpcg_call *call, bool draining)
{
    struct stream_own *own = call->own;
    if (!draining) {
        rpcg_end(call, GRPC_STATUS_CANCELLED, "");     /* what is queued is written all the same; nobody is told */
        return;
    }
    own->draining = true;
    flush(call);
}

void rpcg_produce_stream_freed(struct rpcg_call *call)
{
    struct stream_own *own = call->own;
    for (struct rpcg_append *append = own->first, *next; append != NULL; append = next) {
        next = append->next;
        rpcg_append_free(append);
        free(append);
    }
    for (struct rpcg_append *append = own->kept, *next; append != NULL; append = next) {
        next = append->next;
        free(append);
    }
}
