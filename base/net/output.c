/* The output queue: memory is gathered into one sendmsg, files leave by sendfile.
 *
 * A range outside the recently appended window (span.cold) is probed a MiB at a time, because sendfile waits for the disk even on a non-blocking socket: what is
 * not cached is read in by an I/O thread while the connection is parked. What was read in for this reader is dropped behind it, one chunk late (the last bytes may
 * still be referenced by the socket), so that a far-behind reader does not push the tail out of the page cache. */
#include "base/net/inside.h"

#include "base/log.h"

#include <stdlib.h>

#define IOV_MAX_HERE 64
#define READ_IN_BYTES 65536u

static void part_gone(struct ot_conn *conn, struct ot_net_part *part)
{
    ot_buf_unref(part->buf);
    if (part->pin != NULL) part->pin->release(part->pin);
    net_part_free(conn->loop, part);
}

static void part_dropped(struct ot_task *task)                     /* on the loop again */
{
    struct ot_net_part *part = OT_CONTAINER(task, struct ot_net_part, task);
    struct ot_conn *conn = part->conn;
    part_gone(conn, part);
    conn_unref(conn);
}

static void part_drop(struct ot_task *task)                        /* on an I/O thread */
{
    struct ot_net_part *part = OT_CONTAINER(task, struct ot_net_part, task);
    struct ot_io *io = net_setup(part->conn->loop->net)->io;
    io->ops->drop_cache(io, part->span.fd, part->drop_pos, part->drop_bytes);
    task->run = part_dropped;
    ot_exec_post(part->conn->loop->exec, task);
}

/* Sent, or never to be sent. */
static void part_release(struct ot_conn *conn, struct ot_net_part *part)
{
    if (part->drew_bytes > 0) {            /* never more than one chunk: the one before it went with the reading in of this */
        part->drop_pos = part->drew_pos;
        part->drop_bytes = part->drew_bytes;
    }
    if (part->drop_bytes == 0 || conn->closed || part->pin == NULL) {
        part_gone(conn, part);
        return;
    }
    part->conn = conn;                     /* the pin keeps the descriptor open meanwhile */
    part->task.run = part_drop;
    conn_ref(conn);
    ot_exec_post(net_setup(conn->loop->net)->io_exec, &part->task);
}

void conn_parts_release(struct ot_conn *conn, struct ot_net_part *parts)
{
    while (parts != NULL) {
        struct ot_net_part *next = parts->next;
        part_release(conn, parts);
        parts = next;
    }
}

static void cold_back(struct ot_task *task)                        /* on the loop again */
{
    struct ot_conn *conn = OT_CONTAINER(task, struct ot_conn, cold.task);
    struct ot_net_part *part = conn->out;
    conn->io_busy = false;
    if (conn->closed) {
        conn_parts_release(conn, conn->out);
        conn->out = conn->out_last = NULL;
    } else if (conn->cold.err != OT_OK) {
        NET_COUNT(conn->loop, closed_short_range, 1);
        ot_conn_abort(conn, "a range of a log file could not be read");
    } else {
        part->warm_end = conn->cold.pos + conn->cold.bytes;
        part->drew_pos = conn->cold.pos;
        part->drew_bytes = conn->cold.bytes;
        conn->sent_us = ot_exec_now_us(conn->loop->exec);         /* the disk's time is not the peer's */
        conn_schedule(conn);
    }
    conn_unref(conn);
}

static void cold_read(struct ot_task *task)                        /* on an I/O thread */
{
    struct ot_conn *conn = OT_CONTAINER(task, struct ot_conn, cold.task);
    struct net_cold *cold = &conn->cold;
    struct ot_io *io = net_setup(conn->loop->net)->io;
    uint8_t bytes[READ_IN_BYTES];
    uint32_t done = 0;
    if (cold->drop_bytes > 0) io->ops->drop_cache(io, cold->fd, cold->drop_pos, cold->drop_bytes);
    io->ops->will_need(io, cold->fd, cold->pos, cold->bytes);
    cold->err = OT_OK;
    while (done < cold->bytes && cold->err == OT_OK) {            /* advice alone does not wait for the pages */
        size_t got = 0;
        cold->err = io->ops->pread(io, cold->fd, bytes, OT_MIN(READ_IN_BYTES, cold->bytes - done), cold->pos + done, &got);
        if (cold->err == OT_OK && got == 0) cold->err = OT_ERR_SHORT;
        done += (uint32_t)got;
    }
    task->run = cold_back;
    ot_exec_post(conn->loop->exec, task);
}

static void cold_start(struct ot_conn *conn, struct ot_net_part *part, uint32_t bytes)
{
    conn->cold = (struct net_cold){ .task.run = cold_read, .pos = part->span.pos, .bytes = bytes, .fd = part->span.fd,
        .drop_pos = part->drew_pos, .drop_bytes = part->drew_bytes };
    part->drew_bytes = 0;
    conn->io_busy = true;
    conn_ref(conn);
    NET_COUNT(conn->loop, cold_reads, 1);
    NET_COUNT(conn->loop, cold_read_bytes, bytes);
    ot_exec_post(net_setup(conn->loop->net)->io_exec, &conn->cold.task);
}

/* How many bytes of the file part at the head may be sent now; 0: it is being read in. */
static uint32_t file_ready_bytes(struct ot_conn *conn, struct ot_net_part *part)
{
    const struct ot_net_setup *setup = net_setup(conn->loop->net);
    const struct ot_span *span = &part->span;
    if (!span->cold || setup->io == NULL || setup->io_exec == NULL) return span->bytes;
    if (span->pos >= part->warm_end) {
        const uint32_t chunk = OT_MIN(span->bytes, NET_CHUNK_BYTES - (uint32_t)(span->pos % NET_CHUNK_BYTES));
        if (!setup->io->ops->is_cached(setup->io, span->fd, span->pos, chunk)) {
            cold_start(conn, part, chunk);
            return 0;
        }
        part->warm_end = span->pos + chunk;
    }
    return (uint32_t)OT_MIN((uint64_t)span->bytes, part->warm_end - span->pos);
}

static void out_moved(struct ot_conn *conn, size_t bytes)
{
    atomic_store_explicit(&conn->bytes_out, atomic_load_explicit(&conn->bytes_out, memory_order_relaxed) + bytes, memory_order_relaxed);
    atomic_store_explicit(&conn->output_bytes, atomic_load_explicit(&conn->output_bytes, memory_order_relaxed) - bytes, memory_order_relaxed);
    NET_COUNT(conn->loop, bytes_out, bytes);
    while (conn->out != NULL) {
        struct ot_net_part *part = conn->out;
        const uint32_t step = (uint32_t)OT_MIN(bytes, (size_t)part->span.bytes);
        part->span.bytes -= step;
        bytes -= step;
        if (part->span.memory != NULL) part->span.memory = (const uint8_t *)part->span.memory + step;
        else part->span.pos += step;
        if (part->span.bytes > 0) return;
        conn->out = part->next;
        if (conn->out == NULL) conn->out_last = NULL;
        part_release(conn, part);
        if (bytes == 0 && (conn->out == NULL || conn->out->span.bytes > 0)) return;
    }
}

static enum ot_moved send_memory(struct ot_conn *conn, size_t *moved_out)
{
    struct iovec iov[IOV_MAX_HERE];
    int count = 0;
    struct ot_net_part *part = conn->out;
    for (; part != NULL && part->span.memory != NULL && count < IOV_MAX_HERE; part = part->next) {
        iov[count++] = (struct iovec){ (void *)(uintptr_t)part->span.memory, part->span.bytes };
    }
    return conn->transport.ops->sendmsg(&conn->transport, iov, count, part != NULL, moved_out);
}

bool conn_flush(struct ot_conn *conn)
{
    size_t turn_bytes = 0;
    while (conn->out != NULL && conn->writable && !conn->io_busy) {
        struct ot_net_part *part = conn->out;
        size_t bytes = 0;
        enum ot_moved moved;
        if (turn_bytes >= NET_SEND_TURN_BYTES) {
            conn_schedule(conn);
            return true;
        }
        if (part->span.bytes == 0) {       /* only carries something to release */
            out_moved(conn, 0);
            continue;
        }
        if (part->span.memory != NULL) {
            moved = send_memory(conn, &bytes);
        } else {
            const uint32_t ready = file_ready_bytes(conn, part);
            if (ready == 0) return true;
            moved = conn->transport.ops->sendfile(&conn->transport, part->span.fd, part->span.pos, ready, ready < part->span.bytes || part->next != NULL, &bytes);
            NET_COUNT(conn->loop, sendfile_bytes, bytes);
        }
        if (moved == OT_MOVED_AGAIN) {
            conn->writable = false;
        } else if (moved == OT_MOVED) {
            turn_bytes += bytes;
            conn->sent_us = ot_loop_turn_us(conn->loop->loop);
            out_moved(conn, bytes);
        } else if (moved == OT_MOVED_END) {
            /* the length is promised already: nothing but a close tells the peer */
            NET_COUNT(conn->loop, closed_short_range, 1);
            ot_log(OT_LOG_ERROR, "net", "short_range", "peer=%s pos=%llu missing_bytes=%u", conn->peer, (unsigned long long)part->span.pos, part->span.bytes);
            ot_conn_abort(conn, "a range of a log file is shorter than it was");
            return false;
        } else {
            ot_conn_abort(conn, "sending failed");
            return false;
        }
    }
    return true;
}

/* ---- answers */

static void reply_part(struct ot_reply *reply, const struct ot_span *span, struct ot_buf *buf, struct ot_pin *pin)
{
    struct ot_net_part *part = net_part_new(reply->conn->loop);
    if (part == NULL) {                    /* the answer cannot be whole: its connection will be closed instead */
        reply->failed = true;
        struct ot_conn *conn = reply->conn;
        conn_parts_release(conn, reply->parts);        /* in order: what buf and pin keep alive goes before them */
        reply->parts = reply->parts_last = NULL;
        ot_buf_unref(buf);
        if (pin != NULL) pin->release(pin);
        return;
    }
    *part = (struct ot_net_part){ .span = *span, .buf = buf, .pin = pin };
    if (reply->parts_last != NULL) reply->parts_last->next = part;
    else reply->parts = part;
    reply->parts_last = part;
    reply->output_bytes += span->bytes;
}

void ot_reply_memory(struct ot_reply *reply, const void *data, uint32_t bytes, struct ot_buf *give)
{
    const struct ot_span span = { .memory = data != NULL ? data : "", .fd = -1, .bytes = bytes };
    reply_part(reply, &span, give, NULL);
}

void ot_reply_span(struct ot_reply *reply, const struct ot_span *span, struct ot_pin *pin) { reply_part(reply, span, NULL, pin); }
