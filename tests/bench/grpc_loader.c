/* Load for ./dev bench over gRPC, on the C core as the server is: messages built once and sent again and again, answers counted and dropped.
 *
 *   unary     HOST:PORT TOPIC COUNT RECORD_BYTES IN_FLIGHT        Produce, one batch of one record a call, acks=1
 *   stream    HOST:PORT TOPIC BYTES BATCH_BYTES IN_FLIGHT         ProduceStream, acks=1
 *   subscribe HOST:PORT TOPIC BYTES MESSAGE_BYTES                 Subscribe to record batches from the start
 *   consume   HOST:PORT TOPIC BYTES MESSAGE_BYTES GROUP           the same as a member of a group that acknowledges each message, or the latest one while it writes
 *   append    FILE BYTES BATCH_BYTES     checksum and pwritev of batches to a growing, preallocated file, one a call: what an append costs whoever makes it
 *   bare      HOST:PORT FILE     the least that a C core server can do with these calls: answer, count, or send slices of the mapped FILE
 *
 * The client modes print one JSON line. Latencies are of a call (unary), from a message's sending to its acknowledgement (stream), or between
 * one message and the next (subscribe). */
#include <fcntl.h>
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include "base/util.h"

enum { HEAD = 61, IN_FLIGHT_MAX = 1024, PIECE = 1 << 20, APPEND_BUFFERS = 64, POSITION_MAX = 4096 };

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "grpc_loader: %s\n", what);
    exit(1);
}

static int64_t now_us(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000 + at.tv_nsec / 1000;
}

/* ---- messages */
static uint8_t *put_varint(uint8_t *at, uint64_t value)
{
    for (; value > 0x7f; value >>= 7) *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    return at;
}

static uint8_t *put_zigzag(uint8_t *at, int64_t value) { return put_varint(at, ((uint64_t)value << 1) ^ (uint64_t)(value >> 63)); }

static uint8_t *put_text(uint8_t *at, uint8_t tag, const char *text)
{
    const size_t bytes = strlen(text);
    *at++ = tag;
    at = put_varint(at, bytes);
    memcpy(at, text, bytes);
    return at + bytes;
}

/* One batch of records of record_bytes each, about batch_bytes in all. */
static uint8_t *batch_build(size_t batch_bytes, size_t record_bytes, size_t *bytes_out)
{
    const uint32_t count = (uint32_t)(batch_bytes / record_bytes > 0 ? batch_bytes / record_bytes : 1);
    uint8_t *data = calloc(1, HEAD + count * (record_bytes + 32)), *at = data + HEAD;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t head[32], *end = head;
        *end++ = 0;
        end = put_zigzag(end, 0);
        end = put_zigzag(end, (int64_t)i);
        end = put_zigzag(end, -1);
        end = put_zigzag(end, (int64_t)record_bytes);
        at = put_zigzag(at, (int64_t)((size_t)(end - head) + record_bytes + 1));
        memcpy(at, head, (size_t)(end - head));
        at += end - head;
        for (size_t k = 0; k < record_bytes; k++) at[k] = (uint8_t)('a' + (k * 7 + i) % 26);
        at += record_bytes;
        at = put_zigzag(at, 0);
    }
    const size_t bytes = (size_t)(at - data);
    const uint64_t wall_ms = (uint64_t)ot_clock_wall_ms();
    ot_store_u32(data + 8, (uint32_t)bytes - 12);
    data[16] = 2;
    ot_store_u32(data + 23, count - 1);
    ot_store_u64(data + 27, wall_ms);
    ot_store_u64(data + 35, wall_ms);
    memset(data + 43, 0xff, 14);
    ot_store_u32(data + 57, count);
    ot_store_u32(data + 17, ot_crc32c(0, data + 21, bytes - 21));
    *bytes_out = bytes;
    return data;
}

/* ProduceRequest, or with an id ProduceStreamRequest. */
static grpc_slice request_build(const char *topic, size_t batch_bytes, size_t record_bytes)
{
    size_t bytes;
    uint8_t *batch = batch_build(batch_bytes, record_bytes, &bytes), head[300], *at = put_text(head, 0x0a, topic);
    *at++ = 0x18;
    *at++ = 2;                             /* ACKS_LEADER */
    *at++ = 0x7a;
    at = put_varint(at, bytes);
    grpc_slice slice = grpc_slice_malloc((size_t)(at - head) + bytes);
    memcpy(GRPC_SLICE_START_PTR(slice), head, (size_t)(at - head));
    memcpy(GRPC_SLICE_START_PTR(slice) + (at - head), batch, bytes);
    free(batch);
    return slice;
}

static grpc_byte_buffer *message_of(grpc_slice slice) { return grpc_raw_byte_buffer_create(&slice, 1); }

/* ---- times */
static uint32_t *times;
static size_t time_count, time_cap;

static void time_add(int64_t us)
{
    if (time_count == time_cap) times = realloc(times, (time_cap = time_cap * 2 + 65536) * sizeof *times);
    times[time_count++] = (uint32_t)(us > UINT32_MAX ? UINT32_MAX : us);
}

static int by_value(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void report(uint64_t requests, uint64_t bytes, int64_t begun_us)
{
    const double seconds = (double)(now_us() - begun_us) / 1e6;
    if (time_count == 0) time_add(0);
    qsort(times, time_count, sizeof *times, by_value);
    printf("{\"requests\": %llu, \"bytes\": %llu, \"seconds\": %.6f, \"p50_us\": %u, \"p99_us\": %u, \"p999_us\": %u}\n", (unsigned long long)requests,
        (unsigned long long)bytes, seconds, times[time_count / 2], times[time_count * 99 / 100], times[time_count * 999 / 1000]);
}

/* ---- the client */
static grpc_completion_queue *queue;
static grpc_channel *channel;

static void dial(const char *target)
{
    grpc_arg args[] = { { .type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, .value.integer = 128 << 20 } };
    const grpc_channel_args list = { 1, args };
    grpc_channel_credentials *plain = grpc_insecure_credentials_create();
    queue = grpc_completion_queue_create_for_next(NULL);
    channel = grpc_channel_create(target, plain, &list);
    grpc_channel_credentials_release(plain);
}

static grpc_call *call_new(const char *path)
{
    return grpc_channel_create_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue, grpc_slice_from_static_string(path), NULL, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
}

struct slot {
    grpc_call *call;
    grpc_byte_buffer *answer;
    grpc_metadata_array first, last;
    grpc_status_code status;
    grpc_slice words;
    int64_t begun_us;
};

static void unary_go(struct slot *slot, grpc_byte_buffer *message)
{
    grpc_op ops[6] = { { .op = GRPC_OP_SEND_INITIAL_METADATA }, { .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message },
        { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT }, { .op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &slot->first },
        { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &slot->answer },
        { .op = GRPC_OP_RECV_STATUS_ON_CLIENT, .data.recv_status_on_client = { .trailing_metadata = &slot->last, .status = &slot->status, .status_details = &slot->words } } };
    memset(slot, 0, sizeof *slot);
    grpc_metadata_array_init(&slot->first);
    grpc_metadata_array_init(&slot->last);
    slot->begun_us = now_us();
    slot->call = call_new("/ottla.v1.Log/Produce");
    if (grpc_call_start_batch(slot->call, ops, 6, slot, NULL) != GRPC_CALL_OK) die("start");
}

static void unary_end(struct slot *slot)
{
    if (slot->status != GRPC_STATUS_OK) {
        fprintf(stderr, "status %d: %.*s\n", (int)slot->status, (int)GRPC_SLICE_LENGTH(slot->words), (const char *)GRPC_SLICE_START_PTR(slot->words));
        die("a call failed");
    }
    time_add(now_us() - slot->begun_us);
    grpc_byte_buffer_destroy(slot->answer);
    grpc_metadata_array_destroy(&slot->first);
    grpc_metadata_array_destroy(&slot->last);
    grpc_slice_unref(slot->words);
    grpc_call_unref(slot->call);
}

static int unary(char **words)
{
    static struct slot slots[IN_FLIGHT_MAX];
    const uint64_t count = strtoull(words[2], NULL, 10);
    const size_t record_bytes = strtoull(words[3], NULL, 10);
    const uint64_t in_flight = strtoull(words[4], NULL, 10);
    grpc_slice slice = request_build(words[1], record_bytes, record_bytes);
    uint64_t sent = 0, done = 0;
    if (in_flight == 0 || in_flight > IN_FLIGHT_MAX) die("in flight: 1 to 1024");
    dial(words[0]);
    const int64_t begun_us = now_us();
    grpc_byte_buffer *message = message_of(slice);
    for (; sent < in_flight && sent < count; sent++) unary_go(&slots[sent], grpc_byte_buffer_copy(message));
    while (done < count) {
        const grpc_event event = grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        struct slot *slot = event.tag;
        unary_end(slot);
        done++;
        if (sent < count) {
            sent++;
            unary_go(slot, grpc_byte_buffer_copy(message));
        }
    }
    report(done, done * GRPC_SLICE_LENGTH(slice), begun_us);
    return 0;
}

/* ---- streams of the client: one read, one write and the status are tags of their own */
enum tag { WROTE = 1, READ, ENDED, BEGUN };
static void *tag_of(enum tag tag) { return (void *)(intptr_t)tag; }

static void start(grpc_call *call, const grpc_op *ops, size_t count, enum tag tag)
{
    if (grpc_call_start_batch(call, ops, count, tag_of(tag), NULL) != GRPC_CALL_OK) die("start");
}

/* How often field 1 occurs at the top: the acknowledgements of one answer. */
static uint32_t acks_in(grpc_byte_buffer *message)
{
    grpc_byte_buffer_reader reader;
    uint32_t count = 0;
    grpc_byte_buffer_reader_init(&reader, message);
    grpc_slice flat = grpc_byte_buffer_reader_readall(&reader);
    const uint8_t *at = GRPC_SLICE_START_PTR(flat), *end = at + GRPC_SLICE_LENGTH(flat);
    for (; at < end; count++) {
        uint64_t bytes = 0;
        int shift = 0;
        if (*at++ != 0x0a) die("no acknowledgement");
        do bytes |= (uint64_t)(*at & 0x7f) << shift, shift += 7;
        while (*at++ & 0x80);
        if (memmem(at, bytes, "\x3a", 1) != NULL && bytes > 40) die("an append failed");
        at += bytes;
    }
    grpc_slice_unref(flat);
    grpc_byte_buffer_reader_destroy(&reader);
    return count;
}

static int stream(char **words)
{
    static int64_t sent_us[IN_FLIGHT_MAX];
    const uint64_t batch_bytes = strtoull(words[3], NULL, 10), count = strtoull(words[2], NULL, 10) / batch_bytes, in_flight = strtoull(words[4], NULL, 10);
    grpc_slice slice = request_build(words[1], batch_bytes, batch_bytes < 1000 ? batch_bytes : 1000);
    grpc_byte_buffer *message = message_of(slice), *answer = NULL;
    grpc_metadata_array first, last;
    grpc_status_code status = GRPC_STATUS_OK;
    grpc_slice text = grpc_empty_slice();
    uint64_t sent = 0, done = 0;
    bool writing = false;
    if (in_flight == 0 || in_flight > IN_FLIGHT_MAX) die("in flight: 1 to 1024");
    dial(words[0]);
    grpc_metadata_array_init(&first);
    grpc_metadata_array_init(&last);
    const int64_t begun_us = now_us();
    grpc_call *call = call_new("/ottla.v1.Log/ProduceStream");
    const grpc_op begin[] = { { .op = GRPC_OP_SEND_INITIAL_METADATA }, { .op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &first } };
    const grpc_op end = { .op = GRPC_OP_RECV_STATUS_ON_CLIENT, .data.recv_status_on_client = { .trailing_metadata = &last, .status = &status, .status_details = &text } };
    const grpc_op read = { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &answer };
    start(call, begin, 2, BEGUN);
    start(call, &end, 1, ENDED);
    start(call, &read, 1, READ);
    grpc_byte_buffer *out = NULL;
    while (done < count) {
        if (!writing && sent < count && sent - done < in_flight) {
            out = grpc_byte_buffer_copy(message);
            const grpc_op write = { .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = out };
            sent_us[sent++ % IN_FLIGHT_MAX] = now_us();
            start(call, &write, 1, WROTE);
            writing = true;
        }
        const grpc_event event = grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        if (event.tag == tag_of(ENDED)) {
            fprintf(stderr, "status %d: %.*s\n", (int)status, (int)GRPC_SLICE_LENGTH(text), (const char *)GRPC_SLICE_START_PTR(text));
            die("the stream ended");
        }
        if (event.tag == tag_of(WROTE)) {
            writing = false;
            grpc_byte_buffer_destroy(out);
        }
        if (event.tag == tag_of(READ) && answer != NULL) {
            for (uint32_t acks = acks_in(answer); acks > 0; acks--) time_add(now_us() - sent_us[done++ % IN_FLIGHT_MAX]);
            grpc_byte_buffer_destroy(answer);
            answer = NULL;
            start(call, &read, 1, READ);
        }
    }
    report(done, done * GRPC_SLICE_LENGTH(slice), begun_us);
    grpc_call_cancel(call, NULL);
    return 0;
}

static int subscribe(char **words)
{
    const uint64_t bytes_max = strtoull(words[2], NULL, 10);
    uint8_t part[300], body[400], *at = put_text(part, 0x0a, words[1]), *body_at = body;
    *at++ = 0x18;
    *at++ = 2;                             /* START_EARLIEST */
    *body_at++ = 0x0a;
    body_at = put_varint(body_at, (uint64_t)(at - part));
    memcpy(body_at, part, (size_t)(at - part));
    body_at += at - part;
    *body_at++ = 0x18;
    *body_at++ = 2;                        /* record batches */
    *body_at++ = 0x20;
    body_at = put_varint(body_at, strtoull(words[3], NULL, 10));
    grpc_byte_buffer *message = message_of(grpc_slice_from_copied_buffer((const char *)body, (size_t)(body_at - body))), *answer = NULL;
    grpc_metadata_array first, last;
    grpc_status_code status = GRPC_STATUS_OK;
    grpc_slice text = grpc_empty_slice();
    uint64_t bytes = 0, messages = 0;
    dial(words[0]);
    grpc_metadata_array_init(&first);
    grpc_metadata_array_init(&last);
    const int64_t begun_us = now_us();
    int64_t last_us = begun_us;
    grpc_call *call = call_new("/ottla.v1.Log/Subscribe");
    const grpc_op begin[] = { { .op = GRPC_OP_SEND_INITIAL_METADATA }, { .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message },
        { .op = GRPC_OP_SEND_CLOSE_FROM_CLIENT }, { .op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &first } };
    const grpc_op end = { .op = GRPC_OP_RECV_STATUS_ON_CLIENT, .data.recv_status_on_client = { .trailing_metadata = &last, .status = &status, .status_details = &text } };
    const grpc_op read = { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &answer };
    start(call, begin, 4, BEGUN);
    start(call, &end, 1, ENDED);
    start(call, &read, 1, READ);
    while (bytes < bytes_max) {
        const grpc_event event = grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        if (event.tag == tag_of(ENDED)) {
            fprintf(stderr, "status %d: %.*s\n", (int)status, (int)GRPC_SLICE_LENGTH(text), (const char *)GRPC_SLICE_START_PTR(text));
            die("the stream ended");
        }
        if (event.tag != tag_of(READ) || answer == NULL) continue;
        const int64_t came_us = now_us();
        time_add(came_us - last_us);
        last_us = came_us;
        bytes += grpc_byte_buffer_length(answer);
        messages++;
        grpc_byte_buffer_destroy(answer);
        answer = NULL;
        start(call, &read, 1, READ);
    }
    report(messages, bytes, begun_us);
    grpc_call_cancel(call, NULL);
    return 0;
}

/* The first bytes of a message, whose slices are cut where the transport cut its frames. */
static size_t head_of(grpc_byte_buffer *message, uint8_t *head, size_t cap)
{
    grpc_byte_buffer_reader reader;
    grpc_slice *piece;
    size_t bytes = 0;
    grpc_byte_buffer_reader_init(&reader, message);
    while (bytes < cap && grpc_byte_buffer_reader_peek(&reader, &piece) != 0) {
        const size_t more = GRPC_SLICE_LENGTH(*piece) < cap - bytes ? GRPC_SLICE_LENGTH(*piece) : cap - bytes;
        memcpy(head + bytes, GRPC_SLICE_START_PTR(*piece), more);
        bytes += more;
    }
    grpc_byte_buffer_reader_destroy(&reader);
    return bytes;
}

/* The request that acknowledges an answer: its position, field 1 at its begin, as field 2. NULL: it has none. */
static grpc_byte_buffer *acknowledgement(grpc_byte_buffer *answer)
{
    uint8_t head[POSITION_MAX];
    const size_t cap = head_of(answer, head, sizeof head);
    if (cap == 0 || head[0] != 0x0a) return NULL;
    uint64_t bytes = 0;
    size_t at = 1;
    int shift = 0;
    do {
        if (at >= cap || shift > 28) die("a position");
        bytes |= (uint64_t)(head[at] & 0x7f) << shift;
        shift += 7;
    } while ((head[at++] & 0x80) != 0);
    if (bytes > cap - at) die("a position");
    head[0] = 0x12;
    return message_of(grpc_slice_from_copied_buffer((const char *)head, at + bytes));
}

static int consume(char **words)
{
    const uint64_t bytes_max = strtoull(words[2], NULL, 10);
    uint8_t join[700], body[800], *at = put_text(join, 0x0a, words[4]), *body_at = body;
    at = put_text(at, 0x12, words[1]);
    *at++ = 0x20;
    *at++ = 2;                             /* START_EARLIEST */
    *at++ = 0x38;
    *at++ = 2;                             /* record batches */
    *at++ = 0x40;
    at = put_varint(at, strtoull(words[3], NULL, 10));
    *body_at++ = 0x0a;
    body_at = put_varint(body_at, (uint64_t)(at - join));
    memcpy(body_at, join, (size_t)(at - join));
    body_at += at - join;
    grpc_byte_buffer *out = message_of(grpc_slice_from_copied_buffer((const char *)body, (size_t)(body_at - body))), *answer = NULL, *next = NULL;
    grpc_metadata_array first, last;
    grpc_status_code status = GRPC_STATUS_OK;
    grpc_slice text = grpc_empty_slice();
    uint64_t bytes = 0, messages = 0;
    dial(words[0]);
    grpc_metadata_array_init(&first);
    grpc_metadata_array_init(&last);
    int64_t begun_us = now_us(), last_us = begun_us;
    grpc_call *call = call_new("/ottla.v1.Log/Consume");
    const grpc_op begin[] = { { .op = GRPC_OP_SEND_INITIAL_METADATA }, { .op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &first } };
    const grpc_op end = { .op = GRPC_OP_RECV_STATUS_ON_CLIENT, .data.recv_status_on_client = { .trailing_metadata = &last, .status = &status, .status_details = &text } };
    const grpc_op read = { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &answer };
    const grpc_op write = { .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = out };
    start(call, begin, 2, BEGUN);
    start(call, &end, 1, ENDED);
    start(call, &write, 1, WROTE);
    start(call, &read, 1, READ);
    while (bytes < bytes_max) {
        const grpc_event event = grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        if (event.tag == tag_of(ENDED)) {
            fprintf(stderr, "status %d: %.*s\n", (int)status, (int)GRPC_SLICE_LENGTH(text), (const char *)GRPC_SLICE_START_PTR(text));
            die("the stream ended");
        }
        if (event.tag == tag_of(WROTE)) {
            grpc_byte_buffer_destroy(out);
            out = NULL;
        }
        if (event.tag == tag_of(READ) && answer != NULL) {
            grpc_byte_buffer *ack = acknowledgement(answer);
            if (ack != NULL) {
                const int64_t came_us = now_us();
                if (messages == 0) begun_us = came_us;         /* joining a group takes its time */
                else time_add(came_us - last_us);
                last_us = came_us;
                bytes += grpc_byte_buffer_length(answer);
                messages++;
                grpc_byte_buffer_destroy(next);
                next = ack;
            }
            grpc_byte_buffer_destroy(answer);
            answer = NULL;
            start(call, &read, 1, READ);
        }
        if (out == NULL && next != NULL) {
            const grpc_op more = { .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = out = next };
            next = NULL;
            start(call, &more, 1, WROTE);
        }
    }
    report(messages, bytes, begun_us);
    grpc_call_cancel(call, NULL);
    return 0;
}

/* ---- the bare server: the same calls, and nothing behind them */
struct bare;
struct bare_tag { void (*run)(struct bare *bare, bool ok); struct bare *bare; };
struct bare {
    struct bare_tag accepted, read, wrote, ended;
    grpc_call *call;
    gpr_timespec deadline;
    grpc_metadata_array metadata;
    grpc_byte_buffer *in, *out;
    void *method;
    int kind, cancelled, holds;
    bool begun, over;
    uint64_t pos;
};
static grpc_server *server;
static void *methods[3];
static const uint8_t *file_data;
static uint64_t file_bytes;
static _Atomic uint64_t bytes_counted;

static void bare_post(int kind);

static void bare_drop(struct bare *bare)
{
    if (--bare->holds > 0) return;
    grpc_byte_buffer_destroy(bare->in);
    grpc_metadata_array_destroy(&bare->metadata);
    grpc_call_unref(bare->call);
    free(bare);
}

static void bare_start(struct bare *bare, const grpc_op *ops, size_t count, struct bare_tag *tag)
{
    bare->holds++;
    if (grpc_call_start_batch(bare->call, ops, count, tag, NULL) != GRPC_CALL_OK) die("start");
}

static void bare_read(struct bare *bare)
{
    const grpc_op op = { .op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &bare->in };
    bare_start(bare, &op, 1, &bare->read);
}

static void bare_write(struct bare *bare, grpc_byte_buffer *message)
{
    grpc_op ops[2];
    size_t count = 0;
    if (!bare->begun) ops[count++] = (grpc_op){ .op = GRPC_OP_SEND_INITIAL_METADATA };
    bare->begun = true;
    ops[count++] = (grpc_op){ .op = GRPC_OP_SEND_MESSAGE, .flags = GRPC_WRITE_NO_COMPRESS, .data.send_message.send_message = message };
    bare->out = message;
    bare_start(bare, ops, count, &bare->wrote);
}

static void bare_ended(struct bare *bare, bool ok)
{
    (void)ok;
    bare->over = true;
    bare_drop(bare);
}

static void no_free(void *data) { (void)data; }

static void bare_piece(struct bare *bare)
{
    const uint64_t bytes = file_bytes < PIECE ? file_bytes : PIECE;
    if (bare->pos + bytes > file_bytes) bare->pos = 0;
    uint8_t head[8] = { 0x10, 1, 0x7a }, *end = put_varint(head + 3, bytes);
    grpc_slice slices[2] = { grpc_slice_from_copied_buffer((const char *)head, (size_t)(end - head)),
        grpc_slice_new_with_user_data((void *)(uintptr_t)(file_data + bare->pos), bytes, no_free, NULL) };
    bare->pos += bytes;
    grpc_byte_buffer *message = grpc_raw_byte_buffer_create(slices, 2);
    grpc_slice_unref(slices[0]);
    grpc_slice_unref(slices[1]);
    bare_write(bare, message);
}

static void bare_wrote(struct bare *bare, bool ok)
{
    grpc_byte_buffer_destroy(bare->out);
    bare->out = NULL;
    if (ok && !bare->over && bare->kind == 2) bare_piece(bare);
    if (ok && !bare->over && bare->kind == 1) bare_read(bare);
    bare_drop(bare);
}

static void bare_readed(struct bare *bare, bool ok)
{
    if (ok && bare->in != NULL && !bare->over) {
        bytes_counted += grpc_byte_buffer_length(bare->in);
        grpc_byte_buffer_destroy(bare->in);
        bare->in = NULL;
        bare_write(bare, message_of(grpc_slice_from_static_buffer("\x0a\x04\x08\x01\x18\x01", 6)));
    }
    bare_drop(bare);
}

static void bare_answer(struct bare *bare)
{
    bytes_counted += grpc_byte_buffer_length(bare->in);
    grpc_byte_buffer *message = message_of(grpc_slice_from_static_buffer("\x10\x01", 2));
    const grpc_op ops[] = { { .op = GRPC_OP_SEND_INITIAL_METADATA }, { .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message },
        { .op = GRPC_OP_SEND_STATUS_FROM_SERVER, .data.send_status_from_server = { .status = GRPC_STATUS_OK } },
        { .op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &bare->cancelled } };
    bare_start(bare, ops, 4, &bare->ended);
    grpc_byte_buffer_destroy(message);
}

static void bare_accepted(struct bare *bare, bool ok)
{
    if (!ok) die("the server stopped");
    bare_post(bare->kind);
    if (bare->kind == 0) {
        bare_answer(bare);
    } else {
        const grpc_op close = { .op = GRPC_OP_RECV_CLOSE_ON_SERVER, .data.recv_close_on_server.cancelled = &bare->cancelled };
        bare_start(bare, &close, 1, &bare->ended);
        if (bare->kind == 1) bare_read(bare);
        else bare_piece(bare);
    }
    bare_drop(bare);
}

static void bare_post(int kind)
{
    struct bare *bare = calloc(1, sizeof *bare);
    *bare = (struct bare){ .accepted = { bare_accepted, bare }, .read = { bare_readed, bare }, .wrote = { bare_wrote, bare }, .ended = { bare_ended, bare }, .kind = kind, .holds = 1 };
    grpc_metadata_array_init(&bare->metadata);
    if (grpc_server_request_registered_call(server, methods[kind], &bare->call, &bare->deadline, &bare->metadata, kind == 1 ? NULL : &bare->in, queue, queue,
            &bare->accepted) != GRPC_CALL_OK) die("request");
}

static int bare(char **words)
{
    static const char *const paths[] = { "/ottla.v1.Log/Produce", "/ottla.v1.Log/ProduceStream", "/ottla.v1.Log/Subscribe" };
    grpc_arg args[] = { { .type = GRPC_ARG_INTEGER, .key = (char *)(uintptr_t)GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, .value.integer = 128 << 20 } };
    const grpc_channel_args list = { 1, args };
    struct stat info;
    const int fd = open(words[1], O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info) != 0) die("open");
    file_bytes = (uint64_t)info.st_size;
    file_data = mmap(NULL, file_bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (file_data == MAP_FAILED) die("mmap");
    server = grpc_server_create(&list, NULL);
    queue = grpc_completion_queue_create_for_next(NULL);
    grpc_server_register_completion_queue(server, queue, NULL);
    for (int i = 0; i < 3; i++) methods[i] = grpc_server_register_method(server, paths[i], NULL, i == 1 ? GRPC_SRM_PAYLOAD_NONE : GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
    grpc_server_credentials *plain = grpc_insecure_server_credentials_create();
    if (grpc_server_add_http2_port(server, words[0], plain) == 0) die("listen");
    grpc_server_start(server);
    for (int kind = 0; kind < 3; kind++)
        for (int i = 0; i < 32; i++) bare_post(kind);
    puts("ready");
    fflush(stdout);
    for (;;) {
        const grpc_event event = grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        const struct bare_tag *tag = event.tag;
        tag->run(tag->bare, event.success != 0);
    }
}

/* ---- an append and nothing else. The batches lie in 64 buffers that take turns: what a server appends came in just now, and is in nobody's cache for the third time. */
static int append(char **words)
{
    const uint64_t bytes_max = strtoull(words[1], NULL, 10), batch_bytes = strtoull(words[2], NULL, 10);
    const int fd = open(words[0], O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
    uint8_t *batches = malloc(batch_bytes * APPEND_BUFFERS);
    struct rusage before, after;
    uint64_t pos = 0, count = 0, sums = 0;
    if (fd < 0 || batches == NULL) die("append");
    memset(batches, 'x', batch_bytes * APPEND_BUFFERS);
    getrusage(RUSAGE_SELF, &before);
    for (; pos < bytes_max; pos += batch_bytes, count++) {
        const struct iovec one = { batches + count % APPEND_BUFFERS * batch_bytes, batch_bytes };
        sums += ot_crc32c(0, one.iov_base, batch_bytes);
        if (pos % (64 << 20) < batch_bytes) (void)fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)pos, 64 << 20);
        if (pwritev(fd, &one, 1, (off_t)pos) != (ssize_t)batch_bytes) die("pwritev");
    }
    getrusage(RUSAGE_SELF, &after);
    const double cpu_s = (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec + after.ru_stime.tv_sec - before.ru_stime.tv_sec) +
        (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec + after.ru_stime.tv_usec - before.ru_stime.tv_usec) / 1e6;
    printf("{\"requests\": %llu, \"bytes\": %llu, \"sums\": %llu, \"cpu_s\": %.6f}\n", (unsigned long long)count, (unsigned long long)pos, (unsigned long long)sums, cpu_s);
    return 0;
}

int main(int count, char **words)
{
    static const struct { const char *name; int words; int (*run)(char **words); } modes[] = { { "unary", 7, unary }, { "stream", 7, stream }, { "subscribe", 6, subscribe },
        { "consume", 7, consume }, { "append", 5, append }, { "bare", 4, bare } };
    (void)mallopt(M_MMAP_THRESHOLD, 8 << 20);      /* as the server does */
    (void)mallopt(M_TRIM_THRESHOLD, 64 << 20);
    (void)mallopt(M_TOP_PAD, 4 << 20);
    grpc_init();
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (count == modes[i].words && strcmp(words[1], modes[i].name) == 0) return modes[i].run(words + 2);
    die("unary | stream | subscribe | consume | append | bare: see the head of its source");
}
