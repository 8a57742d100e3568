/* What a fetch read, as a gRPC message: a small head of ours, then the log's bytes where they lie in the page cache, as slices over mapped windows under the fetch's pin.
 *
 *   warm:  map ─► walk the batch headers (whole batches only; where to go on) ─► ready
 *   cold:  map ─► an I/O thread reads the pages in ─► walk ─► ready
 *   records: wait in line ─► an I/O thread decodes into a buffer of the response pool ─► ready
 *
 * The hold is counted by the slices; the core lets go of them from any thread, when the socket has the bytes or never will. */
#include "rpc/grpc/door.h"

#include "base/util.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct rpcg_row_hold {
    _Atomic uint32_t users;
    struct ot_pin *pin;
    struct rpcg_map *maps[RPCG_PIECES_MAX];
    uint32_t map_count;
};

static void hold_drop(void *arg)
{
    struct rpcg_row_hold *hold = arg;
    if (atomic_fetch_sub_explicit(&hold->users, 1, memory_order_acq_rel) != 1) return;
    for (uint32_t i = 0; i < hold->map_count; i++) rpcg_map_give(hold->maps[i]);
    if (hold->pin != NULL) hold->pin->release(hold->pin);
    free(hold);
}

static void buf_drop(void *buf) { ot_buf_unref(buf); }

/* ---- batches */

static bool pieces_map(struct rpcg_row *row)
{
    struct rpc_grpc_server *server = row->call->server;
    const struct eng_read_result *read = &row->row->read;
    const int64_t now_us = ot_clock_boot_us();
    for (uint32_t i = 0; i < read->span_count; i++) {
        const struct ot_span *span = &read->spans[i];
        for (uint32_t at = 0; at < span->bytes;) {
            const uint8_t *data = (const uint8_t *)span->memory + at;
            uint64_t bytes = span->bytes - at, window = bytes;
            if (row->piece_count == RPCG_PIECES_MAX) return true;      /* what fits is whole batches all the same */
            if (span->memory == NULL) {
                struct rpcg_map *map = rpcg_map_take(server->maps, span->fd, span->pos + at, now_us, &data, &window);
                if (map == NULL) return false;
                row->hold->maps[row->hold->map_count++] = map;
            }
            bytes = OT_MIN(bytes, window);
            row->pieces[row->piece_count].data = data;
            row->pieces[row->piece_count++].bytes = (uint32_t)bytes;
            at += (uint32_t)bytes;
        }
    }
    return true;
}

/* Headers only: offset, length and count of each batch. A window's page behind its end lets a header that begins in it be read whole. */
static void walk(struct rpcg_row *row)
{
    uint32_t piece = 0, inside = 0, total = 0;
    uint64_t at = 0;
    uint8_t header[27];
    for (uint32_t i = 0; i < row->piece_count; i++) total += row->pieces[i].bytes;
    row->next_offset = row->from_offset;
    row->bytes = 0;
    while (at + ENG_BATCH_HEADER_BYTES <= total) {
        while (piece < row->piece_count && inside >= row->pieces[piece].bytes) inside -= row->pieces[piece++].bytes;
        if (piece == row->piece_count) break;
        if (ot_guarded_copy(header, row->pieces[piece].data + inside, sizeof header) != OT_OK) {
            row->error = OT_ERR_KAFKA_STORAGE_ERROR;
            return;
        }
        const uint64_t bytes = 12 + (uint64_t)ot_load_u32(header + 8);
        if (bytes < ENG_BATCH_HEADER_BYTES || at + bytes > total) break;      /* the last one may be cut by max_bytes */
        row->next_offset = OT_MAX(row->next_offset, ot_load_i64(header) + ot_load_i32(header + 23) + 1);
        at += bytes;
        inside += (uint32_t)bytes;
    }
    row->bytes = (uint32_t)at;
}

static void populated_back(struct ot_task *task)
{
    struct rpcg_row *row = OT_CONTAINER(task, struct rpcg_row, task);
    row->call->server->away--;
    if (row->error == OT_OK) walk(row);
    row->ready(row);
}

/* The read that may wait for the disk. A page that goes again before it is sent costs the sender a wait: rare, and bounded by a message. */
static void populate_io(struct ot_task *task)
{
    struct rpcg_row *row = OT_CONTAINER(task, struct rpcg_row, task);
    const uintptr_t page = 4095;
    for (uint32_t i = 0; i < row->piece_count; i++) {
        if (atomic_load_explicit(&row->records.cancelled, memory_order_relaxed)) {
            row->error = OT_ERR_CANCELLED;
            break;
        }
        const uintptr_t from = (uintptr_t)row->pieces[i].data & ~page, to = ((uintptr_t)row->pieces[i].data + row->pieces[i].bytes + page) & ~page;
        if (madvise((void *)from, to - from, MADV_POPULATE_READ) != 0 && row->pieces[i].bytes > 0) {
            uint8_t byte;                  /* an old kernel, or a bad disk: the guarded touch tells */
            if (ot_guarded_copy(&byte, row->pieces[i].data, 1) != OT_OK) row->error = OT_ERR_KAFKA_STORAGE_ERROR;
        }
    }
    row->task.run = populated_back;
    ot_exec_post(&row->call->server->exec, &row->task);
}

static bool is_cold(const struct rpcg_row *row)
{
    struct ot_io *io = row->call->server->io;
    for (uint32_t i = 0; i < row->row->read.span_count; i++) {
        const struct ot_span *span = &row->row->read.spans[i];
        if (span->memory == NULL && span->cold && !io->ops->is_cached(io, span->fd, span->pos, span->bytes)) return true;
    }
    return false;
}

static void batches_prepare(struct rpcg_row *row)
{
    struct rpc_grpc_server *server = row->call->server;
    row->hold = calloc(1, sizeof *row->hold);
    if (row->hold != NULL) atomic_store(&row->hold->users, 1);
    if (row->hold == NULL || !pieces_map(row)) {
        row->error = OT_ERR_NO_MEMORY;
        row->ready(row);
        return;
    }
    if (is_cold(row)) {
        ot_series_add(server->cold_reads, 1);
        row->task.run = populate_io;
        server->away++;
        ot_exec_post(server->io_exec, &row->task);
        return;
    }
    walk(row);
    row->ready(row);
}

/* ---- records */

/* Room for bytes more, within cap; the buffer grows by doubling, and what is in it moves. */
static bool encoded_room(struct rpcg_row *row, size_t bytes, size_t cap)
{
    struct ot_buf *old = row->encoded;
    const size_t have = old == NULL ? 0 : old->bytes, want = have + bytes;
    if (old != NULL && want <= old->cap_bytes) return true;
    if (want > cap) return false;
    struct ot_buf *more = ot_buf_new(row->call->server->response_pool, OT_MIN(OT_MAX(want, have * 2), cap));
    if (more == NULL) {
        row->error = have == 0 ? OT_ERR_NO_MEMORY : OT_OK;     /* what is there goes out */
        return false;
    }
    if (old != NULL) memcpy(more->data, old->data, have);      /* decoded records, not the log's bytes */
    more->bytes = (uint32_t)have;
    ot_buf_unref(old);
    row->encoded = more;
    return true;
}

static bool record_each(struct broker_records *records, const struct broker_record_view *view)
{
    struct rpcg_row *row = OT_CONTAINER(records, struct rpcg_row, records);
    struct ot_writer measure = ot_writer_over(NULL, 0);
    rpcg_put_message(&measure, RPCG_FIELD_RECORDS, rpcg_put_record, view);
    const bool first = row->encoded == NULL || row->encoded->bytes == 0;
    const size_t cap = first ? (size_t)row->call->server->message_bytes_max : OT_MIN((size_t)row->bytes_max, (size_t)row->call->server->message_bytes_max);
    if (!encoded_room(row, measure.needed, cap)) {
        if (first && row->error == OT_OK) row->error = OT_ERR_MESSAGE_TOO_LARGE;
        return false;
    }
    struct ot_writer writer = ot_writer_over(row->encoded->data + row->encoded->bytes, measure.needed);
    rpcg_put_message(&writer, RPCG_FIELD_RECORDS, rpcg_put_record, view);
    OT_ASSERT(writer.err == OT_OK);
    row->encoded->bytes += (uint32_t)measure.needed;
    return true;
}

static void take(struct rpcg_row *row)
{
    struct rpc_grpc_server *server = row->call->server;
    server->taking++;
    server->away++;
    broker_records_read(server->broker, &row->records);
}

static void line_leave(struct rpcg_row *row)
{
    struct rpc_grpc_server *server = row->call->server;
    *(row->prev != NULL ? &row->prev->next : &server->line_first) = row->next;
    *(row->next != NULL ? &row->next->prev : &server->line_last) = row->prev;
    row->prev = row->next = NULL;
    row->waiting = false;
}

static void line_enter(struct rpcg_row *row)
{
    struct rpc_grpc_server *server = row->call->server;
    row->prev = server->line_last;
    row->next = NULL;
    *(row->prev != NULL ? &row->prev->next : &server->line_first) = row;
    server->line_last = row;
    row->waiting = true;
}

static void line_go(struct rpc_grpc_server *server)
{
    while (server->line_first != NULL && server->taking < server->taking_max) {
        struct rpcg_row *row = server->line_first;
        line_leave(row);
        take(row);
    }
}

static void dropped_back(struct ot_task *task)
{
    struct rpcg_row *row = OT_CONTAINER(task, struct rpcg_row, task);
    row->call->server->away--;
    row->ready(row);
}

static void drop(struct rpcg_row *row)
{
    line_leave(row);
    row->error = OT_ERR_CANCELLED;
    row->task.run = dropped_back;
    row->call->server->away++;
    ot_exec_post(&row->call->server->exec, &row->task);
}

static void records_done(struct broker_call *call)
{
    struct rpcg_row *row = OT_CONTAINER(call, struct rpcg_row, records.call);
    struct rpc_grpc_server *server = row->call->server;
    const bool some = row->encoded != NULL && row->encoded->bytes > 0;
    server->away--;
    server->taking--;
    row->next_offset = row->records.next_offset;
    row->bytes = some ? row->encoded->bytes : 0;
    if (row->error == OT_OK && !some) row->error = row->records.error;         /* what came before a fault goes out first */
    line_go(server);
    row->ready(row);
}

static void records_prepare(struct rpcg_row *row)
{
    struct rpc_grpc_server *server = row->call->server;
    row->records = (struct broker_records){ .call = { .home = &server->exec, .done = records_done }, .row = row->row, .from_offset = row->from_offset,
        .pool = server->response_pool, .each = record_each };
    line_enter(row);
    line_go(server);
    if (row->waiting && server->shut) drop(row);       /* the stop waits for what is under way, and for nothing that has not begun */
}

void rpcg_row_cancel(struct rpcg_row *row)
{
    atomic_store_explicit(&row->records.cancelled, true, memory_order_relaxed);
    if (row->waiting) drop(row);
}

void rpcg_row_prepare(struct rpcg_row *row)
{
    row->error = OT_OK;
    row->next_offset = row->from_offset;
    row->bytes = row->piece_count = 0;
    row->hold = NULL;
    row->encoded = NULL;
    if (row->row->read.bytes == 0) row->ready(row);
    else if (row->format == RPCG_FORMAT_BATCHES) batches_prepare(row);
    else records_prepare(row);
}

/* ---- the message */

static grpc_slice head_slice(const struct rpcg_row *row, const struct rpcg_row_head *head)
{
    const bool tail = row->format == RPCG_FORMAT_BATCHES && row->bytes > 0;
    struct ot_writer measure = ot_writer_over(NULL, 0);
    rpcg_put_row_head(&measure, head);
    if (tail) rpcg_put_head(&measure, RPCG_FIELD_BATCHES, row->bytes);
    grpc_slice slice = grpc_slice_malloc(measure.needed);
    struct ot_writer writer = ot_writer_over(GRPC_SLICE_START_PTR(slice), measure.needed);
    rpcg_put_row_head(&writer, head);
    if (tail) rpcg_put_head(&writer, RPCG_FIELD_BATCHES, row->bytes);
    return slice;
}

grpc_byte_buffer *rpcg_row_message(struct rpcg_row *row, const struct rpcg_row_head *head)
{
    struct rpc_grpc_server *server = row->call->server;
    grpc_slice slices[RPCG_PIECES_MAX + 1];
    size_t count = 0;
    slices[count++] = head_slice(row, head);
    if (row->encoded != NULL && row->bytes > 0) {
        slices[count++] = grpc_slice_new_with_user_data(row->encoded->data, row->encoded->bytes, buf_drop, row->encoded);
        ot_series_add(server->sent_copy, row->bytes);
        row->encoded = NULL;
    }
    if (row->hold != NULL && row->bytes > 0) {
        row->hold->pin = row->row->read.pin;
        ((struct broker_fetch_row *)(uintptr_t)row->row)->read.pin = NULL;     /* handed on, as the Kafka door does with its output queue */
        for (uint32_t i = 0, left = row->bytes; i < row->piece_count && left > 0; i++) {
            const uint32_t bytes = OT_MIN(left, row->pieces[i].bytes);
            atomic_fetch_add_explicit(&row->hold->users, 1, memory_order_relaxed);
            slices[count++] = grpc_slice_new_with_user_data((void *)(uintptr_t)row->pieces[i].data, bytes, hold_drop, row->hold);
            left -= bytes;
        }
        ot_series_add(server->sent_mapped, row->bytes);
    }
    grpc_byte_buffer *message = grpc_raw_byte_buffer_create(slices, count);
    for (size_t i = 0; i < count; i++) grpc_slice_unref(slices[i]);
    rpcg_row_free(row);
    return message;
}

void rpcg_row_free(struct rpcg_row *row)
{
    if (row->hold != NULL) hold_drop(row->hold);
    ot_buf_unref(row->encoded);
    row->hold = NULL;
    row->encoded = NULL;
}
