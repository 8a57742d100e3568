/* One produce request on its way: message ──► buffer of the pool ──► (records are packed into batches) ──► broker_produce ──► ack.
 *
 * Memory is asked for before the message is read into it; while the pool is full the message waits in the core's slices, in line behind those that came before. Records
 * that the server must compress, or many of them, are packed on an I/O thread. A topic that is missing is made at the first append, if the server does that. */
#include "rpc/grpc/door.h"

#include "base/util.h"
#include "broker/admin.h"

#include <stdio.h>
#include <string.h>

#define INLINE_BYTES 65536u                /* records up to this much are packed on the door's thread, uncompressed ones */
#define ARENA_BASE_BYTES (64u << 10)
#define ARENA_FACTOR 32u                   /* a record of two bytes on the wire takes about 80 here, twice */

static void produce_go(struct rpcg_append *append);

/* ---- the answer */

static void tell_queued(struct rpcg_append *append)
{
    if (append->is_queued) return;
    append->is_queued = true;
    append->queued(append);
}

static void end(struct rpcg_append *append)
{
    struct rpcg_call *call = append->call;
    tell_queued(append);
    append->is_done = true;
    ot_buf_unref(append->packed);
    ot_buf_unref(append->buf);             /* room for others */
    append->packed = append->buf = NULL;
    append->done(append);
    rpcg_release(call);
}

/* The topic's name for an error, which outlives the message that it lies in; null when there is no memory for it, or no name. */
static struct ot_str topic_kept(struct rpcg_append *append)
{
    const struct ot_str topic = append->ask.topic;
    const char *copy = topic.null || topic.bytes == 0 ? NULL : ot_arena_str(&append->arena, topic);
    return (struct ot_str){ copy, copy == NULL ? 0 : topic.bytes, copy == NULL };
}

static void end_error(struct rpcg_append *append, enum ot_err error, const char *text)
{
    append->error = rpcg_error_of(append->call->server, error, text, topic_kept(append), append->ask.partition, -1, -1);
    append->ack.error = &append->error;
    append->ack.base_offset = append->ack.append_time_ms = append->ack.log_start_offset = -1;
    end(append);
}

static bool positions_fill(struct rpcg_append *append)
{
    const uint32_t count = append->ask.record_count;
    struct rpcg_position *positions = ot_arena_array(&append->arena, count, sizeof *positions);
    if (positions == NULL) return false;
    for (uint32_t i = 0; i < count; i++) {
        const struct broker_record *record = &append->ask.records[i];
        const struct broker_produce_part *part = &append->round.parts[record->part];
        positions[i] = (struct rpcg_position){ record->partition, part->base_offset < 0 ? -1 : part->base_offset + record->delta };
    }
    append->ack.positions = positions;
    append->ack.position_count = count;
    return true;
}

/* ---- a missing topic */

static void made_done(struct broker_call *call)
{
    struct rpcg_append *append = OT_CONTAINER(call, struct rpcg_append, admin.call);
    const enum ot_err err = append->item.error;
    append->made = true;
    if (err == OT_OK || err == OT_ERR_TOPIC_ALREADY_EXISTS) produce_go(append);
    else end_error(append, err, append->item.text);
}

static bool topic_make(struct rpcg_append *append)
{
    struct broker *broker = append->call->server->broker;
    if (append->made || append->is_queued || !broker_auto_create_allowed(broker, append->ask.topic) || broker_topic_known(broker, append->ask.topic, NULL, NULL)) return false;
    append->item = (struct broker_admin_item){ .kind = BROKER_CREATE_TOPIC, .topic = append->ask.topic, .partition_count = -1, .replication_factor = -1, .if_version = -1 };
    append->admin = (struct broker_admin){ .call = { .home = &append->call->server->exec, .done = made_done },
        .timeout_ms = broker_config(broker)->request_timeout_ms, .items = &append->item, .item_count = 1 };
    broker_admin(broker, &append->admin);
    return true;
}

/* ---- the append itself */

static void produce_done(struct broker_call *call)
{
    struct rpcg_append *append = OT_CONTAINER(call, struct rpcg_append, produce.call);
    const struct broker_produce *produce = &append->produce;
    const struct broker_produce_part *first = &produce->parts[0], *bad = NULL;
    for (uint32_t i = 0; i < produce->part_count && bad == NULL; i++)
        if (produce->parts[i].error != OT_OK) bad = &produce->parts[i];
    append->ack.partition = first->partition;
    append->ack.base_offset = produce->part_count == 1 && bad == NULL ? first->base_offset : -1;
    append->ack.append_time_ms = first->append_time_ms;
    append->ack.log_start_offset = first->log_start_offset;
    if (append->ask.partition == -1 && bad == NULL && !positions_fill(append)) append->ack.position_count = 0;
    if (bad != NULL) {
        append->error = rpcg_error_of(append->call->server, bad->error, bad->text, topic_kept(append), bad->partition, bad->leader_id, bad->leader_epoch);
        append->ack.error = &append->error;
    }
    end(append);
}

static void produce_queued(struct broker_produce *produce) { tell_queued(OT_CONTAINER(produce, struct rpcg_append, produce)); }

static void produce_run(struct rpcg_append *append)
{
    struct rpcg_call *call = append->call;
    struct broker_produce *produce = &append->produce;
    const int32_t asked_ms = append->ask.timeout_ms > 0 ? append->ask.timeout_ms : broker_config(call->server->broker)->request_timeout_ms;
    produce->call = (struct broker_call){ .home = &call->server->exec, .done = produce_done };
    produce->client = rpcg_client(call);
    produce->buf = append->packed != NULL ? append->packed : append->buf;
    produce->acks = append->ask.acks;
    produce->timeout_ms = rpcg_time_left_ms(call, asked_ms);
    produce->api_version = 13;
    produce->transactional_id = append->ask.transactional_id;
    produce->origin = ENG_ORIGIN_CLIENT;
    produce->queued = produce_queued;
    produce->parts = append->round.parts;
    produce->part_count = append->round.part_count;
    if (broker_produce(call->server->broker, produce)) tell_queued(append);
}

/* The sequence of the producer goes under the CRC, which is made anew: the packed batch is ours. */
static void producer_stamp(struct rpcg_append *append)
{
    for (uint32_t i = 0; append->ask.has_producer && i < append->round.part_count; i++)
        broker_records_stamp(&append->round.parts[i], append->ask.producer_id, append->ask.producer_epoch, append->ask.producer_sequence,
            !append->ask.transactional_id.null);
}

static void packed(struct rpcg_append *append)
{
    append->packed = append->round.buf;
    if (append->pack_error == OT_OK) {
        producer_stamp(append);
        produce_run(append);
    } else {
        end_error(append, append->pack_error, append->pack_error == OT_ERR_MESSAGE_TOO_LARGE ? "the records of a partition do not fit into one batch (max.message.bytes): send fewer at a time" : NULL);
    }
}

static void pack(struct rpcg_append *append)
{
    struct rpc_grpc_server *server = append->call->server;
    const int32_t batch_max = broker_records_batch_max(server->broker, append->ask.topic);
    const uint32_t rounds = broker_records_rounds(append->ask.records, append->ask.record_count, (size_t)OT_MAX(batch_max, 1), &append->arena);
    append->pack_error = rounds == 0 ? OT_ERR_NO_MEMORY : rounds > 1 ? OT_ERR_MESSAGE_TOO_LARGE : OT_OK;
    if (append->pack_error != OT_OK) return;
    const size_t bytes_max = (size_t)append->bytes * 4 + (1u << 16);       /* frames are small beside the message that brought the records */
    append->pack_error = broker_records_pack(server->broker, append->ask.topic, append->ask.records, append->ask.record_count, 0, ot_str_of(append->ask.codec),
        server->request_pool, bytes_max, &append->arena, &append->round);
}

static void packed_back(struct ot_task *task)
{
    struct rpcg_append *append = OT_CONTAINER(task, struct rpcg_append, task);
    append->call->server->away--;
    packed(append);
}

static void pack_io(struct ot_task *task)
{
    struct rpcg_append *append = OT_CONTAINER(task, struct rpcg_append, task);
    pack(append);
    append->task.run = packed_back;
    ot_exec_post(&append->call->server->exec, &append->task);
}

static bool partitions_choose(struct rpcg_append *append)
{
    struct rpc_grpc_server *server = append->call->server;
    int32_t count = 1;
    if (append->ask.partition == -1 && (!broker_topic_known(server->broker, append->ask.topic, NULL, &count) || count <= 0)) return false;
    for (uint32_t i = 0; i < append->ask.record_count; i++) {
        struct broker_record *record = &append->ask.records[i];
        record->partition = append->ask.partition >= 0 ? append->ask.partition : broker_records_partition(record->key, count, &server->round_robin);
    }
    return true;
}

static void produce_go(struct rpcg_append *append)
{
    struct rpc_grpc_server *server = append->call->server;
    if (!append->made && !broker_topic_known(server->broker, append->ask.topic, NULL, NULL) && topic_make(append)) return;
    if (!append->ask.batches.null) {
        append->one = (struct broker_produce_part){ .topic = append->ask.topic, .partition = append->ask.partition,
            .records = (uint8_t *)(uintptr_t)append->ask.batches.data, .records_bytes = append->ask.batches.bytes };    /* stamped in place: buf is ours to write */
        append->round = (struct broker_records_round){ NULL, &append->one, 1 };
        produce_run(append);
        return;
    }
    if (!partitions_choose(append)) {
        end_error(append, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION, NULL);
        return;
    }
    if (append->bytes <= INLINE_BYTES && strcmp(append->ask.codec, "none") == 0) {
        pack(append);
        packed(append);
        return;
    }
    append->task.run = pack_io;
    server->away++;
    ot_exec_post(server->io_exec, &append->task);
}

/* ---- the message */

/* The one copy of a produced record in user space: the broker stamps and writes one contiguous buffer that its memory budget counts, and the core's
 * slices are neither. A message is in the cache when it is copied. */
static void gather(struct rpcg_append *append)
{
    grpc_byte_buffer_reader reader;
    grpc_slice *slice;
    if (grpc_byte_buffer_reader_init(&reader, append->message) == 0) return;
    while (grpc_byte_buffer_reader_peek(&reader, &slice) != 0) {
        const size_t bytes = GRPC_SLICE_LENGTH(*slice);
        OT_ASSERT(bytes <= append->buf->cap_bytes - append->buf->bytes);
        memcpy(append->buf->data + append->buf->bytes, GRPC_SLICE_START_PTR(*slice), bytes);
        append->buf->bytes += (uint32_t)bytes;
    }
    grpc_byte_buffer_reader_destroy(&reader);
}

static void memory_there(struct rpcg_append *append)
{
    const char *why = NULL;
    gather(append);
    grpc_byte_buffer_destroy(append->message);
    append->message = NULL;
    const struct ot_blob body = { append->buf->data, append->buf->bytes, false };
    const enum ot_err err = rpcg_produce_decode(body, ot_clock_wall_ms(), &append->arena, &append->ask, &why);
    append->ack.id = append->ask.id;
    append->ack.partition = append->ask.partition;
    if (err != OT_OK) append->ask.acks = -1;       /* what is not understood is told */
    if (err != OT_OK) end_error(append, err == OT_ERR_NO_MEMORY ? OT_ERR_MESSAGE_TOO_LARGE : OT_ERR_INVALID_REQUEST, why);
    else produce_go(append);
}

/* May be beyond the cap when nothing else is in work: one message must always move. */
static bool memory_take(struct rpcg_append *append)
{
    struct ot_pool *pool = append->call->server->request_pool;
    append->buf = ot_buf_new(pool, OT_MAX(append->bytes, 1u));
    if (append->buf == NULL && ot_pool_used_bytes(pool) == 0) append->buf = ot_buf_new_forced(pool, OT_MAX(append->bytes, 1u));
    return append->buf != NULL;
}

void rpcg_appends_wake(struct rpc_grpc_server *server)
{
    while (server->waiting_first != NULL) {
        struct rpcg_append *append = server->waiting_first;
        ot_pool_wait(server->request_pool, &server->waiter);
        if (!memory_take(append)) return;
        ot_pool_wait_cancel(server->request_pool, &server->waiter);
        server->waiting_first = append->wait_next;
        if (server->waiting_first == NULL) server->waiting_last = &server->waiting_first;
        append->wait_next = NULL;
        memory_there(append);
    }
}

void rpcg_appends_refuse(struct rpc_grpc_server *server)
{
    struct rpcg_append *append = server->waiting_first;
    server->waiting_first = NULL;
    server->waiting_last = &server->waiting_first;
    ot_pool_wait_cancel(server->request_pool, &server->waiter);
    for (struct rpcg_append *next; append != NULL; append = next) {
        next = append->wait_next;
        append->wait_next = NULL;
        end_error(append, OT_ERR_NOT_LEADER_OR_FOLLOWER, "the server is stopping");
    }
}

void rpcg_append_start(struct rpcg_append *append, struct rpcg_call *call, grpc_byte_buffer *message)
{
    struct rpc_grpc_server *server = call->server;
    append->call = call;
    append->message = message;
    append->bytes = (uint32_t)grpc_byte_buffer_length(message);
    append->ask = (struct rpcg_produce_ask){ .topic = { .null = true }, .acks = -1 };
    ot_arena_init_with(&append->arena, append->first, sizeof append->first, OT_MIN(ARENA_BASE_BYTES + (size_t)append->bytes * ARENA_FACTOR, (size_t)64 << 20));
    rpcg_hold(call);
    if (server->waiting_first == NULL && memory_take(append)) {
        memory_there(append);
        return;
    }
    if (atomic_load(&server->draining)) {
        end_error(append, OT_ERR_NOT_LEADER_OR_FOLLOWER, "the server is stopping");
        return;
    }
    append->wait_next = NULL;
    *server->waiting_last = append;
    server->waiting_last = &append->wait_next;
    rpcg_appends_wake(server);             /* arms the waiter, and looks again */
}

void rpcg_append_free(struct rpcg_append *append)
{
    grpc_byte_buffer_destroy(append->message);
    ot_buf_unref(append->packed);
    ot_buf_unref(append->buf);
    append->message = NULL;
    append->packed = append->buf = NULL;
    ot_arena_free(&append->arena);
}
