/* Log.Consume: the stream of a member of a consumer group (consume.h says how its parts go together). */
#include "rpc/grpc/consume.h"

#include "base/util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES_DEFAULT (1 << 20)
#define BYTES_MAX (64 << 20)
#define REBALANCE_MS_DEFAULT 30000
#define REBALANCE_MS_MAX 3600000
#define ROW_AGAIN_US 500000                /* before a partition that cannot be read for now is tried again */
#define WAIT_MS 30000
#define CLOSE_US 10000000                  /* how long the end waits for a last commit that does not succeed */
#define MESSAGE_BYTES_MAX (1u << 20)

const size_t rpcg_own_consume = sizeof(struct rpcg_consume);

static struct ot_str name_of(const struct consume_part *part) { return (struct ot_str){ part->topic->name, part->topic->bytes, false }; }

void rpcg_consume_fail(struct rpcg_consume *own, enum ot_err error, const char *text)
{
    if (own->failed) return;
    own->failed = true;
    own->error = rpcg_group_error(own->call->server, error, NULL, own->join.group);
    (void)snprintf(own->error_text, sizeof own->error_text, "%s", text == NULL ? "" : text);
    own->error.text = own->error_text;
}

static void fail_part(struct rpcg_consume *own, enum ot_err error, const char *text, struct ot_str topic, int32_t partition)
{
    if (own->failed) return;
    rpcg_consume_fail(own, error, text);
    const uint32_t bytes = OT_MIN(topic.bytes, (uint32_t)sizeof own->error_topic);
    if (bytes > 0) memcpy(own->error_topic, topic.data, bytes);
    own->error.topic = (struct ot_str){ own->error_topic, bytes, bytes == 0 };
    own->error.partition = partition;
}

/* ---- what the member is told */

static void put_position(struct ot_writer *writer, uint32_t number, const struct consume_part *part, int64_t next_offset)
{
    const struct rpcg_position_row row = { { name_of(part), part->partition, next_offset, part->assignment_id }, part->elsewhere ? part->leader_address : NULL };
    rpcg_put_message(writer, number, rpcg_put_consume_position, &row);
}

/* A partition without commits that is led elsewhere is told without a place: there the client finds out where it begins. */
static bool is_placed(const struct consume_part *part) { return part->stage == CONSUME_ACTIVE || part->stage == CONSUME_REVOKING || part->elsewhere; }

static void put_assignment(struct ot_writer *writer, const void *arg)
{
    const struct rpcg_consume *own = arg;
    rpcg_put_text(writer, 1, own->member_id);
    rpcg_put_int(writer, 2, own->epoch);
    for (uint32_t i = 0; i < own->part_count; i++)
        if (is_placed(&own->parts[i])) put_position(writer, 3, &own->parts[i], own->parts[i].next);
    for (uint32_t i = 0; i < own->part_count; i++)
        if (own->parts[i].stage == CONSUME_REVOKING) put_position(writer, 4, &own->parts[i], own->parts[i].next);
}

static void put_event(struct ot_writer *writer, const void *arg)
{
    const struct rpcg_consume *own = arg;
    if (own->tell_assignment) rpcg_put_message(writer, 9, put_assignment, own);
    for (uint32_t i = 0; i < own->part_count; i++)
        if (own->parts[i].committed > own->parts[i].told) put_position(writer, 10, &own->parts[i], own->parts[i].committed);
}

static void tell(struct rpcg_consume *own)
{
    grpc_byte_buffer *message = rpcg_message(put_event, own);
    own->tell_assignment = own->tell_committed = false;
    for (uint32_t i = 0; i < own->part_count; i++) own->parts[i].told = OT_MAX(own->parts[i].told, own->parts[i].committed);
    own->step_again = true;                /* what waited for this may go */
    rpcg_send(own->call, message);
}

/* ---- records */

static bool has_room(const struct rpcg_consume *own)
{
    return own->delivery_count < CONSUME_DELIVERIES_MAX && (own->delivery_count == 0 || own->unacknowledged < own->join.max_unacknowledged_bytes);
}

static void rows_end(struct rpcg_consume *own)
{
    broker_fetch_release(&own->fetch);
    own->fetch.row_count = 0;
    own->fetched = false;
    ot_arena_reset(&own->fetch_arena);
}

/* The partition that a row is of, if it is still where it was when it was asked for. Answers come in the order asked. */
static struct consume_part *part_of(struct rpcg_consume *own, uint32_t at)
{
    const struct broker_fetch_row *row = &own->fetch.rows[at];
    uint32_t k = at;
    if (own->asks[k].partition != row->partition || !ot_uuid_equal(&own->asks[k].topic_id, &row->topic_id))
        for (k = 0; k < own->fetch.ask_count && !(own->asks[k].partition == row->partition && ot_uuid_equal(&own->asks[k].topic_id, &row->topic_id)); k++) {
        }
    struct consume_part *part = k == own->fetch.ask_count ? NULL : rpcg_consume_part(own, own->ask_ids[k]);
    return part != NULL && part->stage == CONSUME_ACTIVE && part->next == own->asks[k].offset ? part : NULL;
}

static void row_failed(struct rpcg_consume *own, struct consume_part *part, enum ot_err error, int32_t leader_id)
{
    if (error == OT_ERR_OFFSET_OUT_OF_RANGE) {
        rpcg_consume_deliveries_drop(own, part->assignment_id);
        part->stage = CONSUME_START;       /* retention has passed it by, or the log was cut: from where the member wants to begin */
        part->assignment_id = ++own->assignment_ids;       /* acknowledgements of what was before are not of this */
        return;
    }
    part->again_us = ot_clock_boot_us() + ROW_AGAIN_US;
    if (error == OT_ERR_NOT_LEADER_OR_FOLLOWER) {
        rpcg_consume_elsewhere(own, part, leader_id);
    } else if (!ot_err_retriable(error) && error != OT_ERR_UNKNOWN_TOPIC_ID) {
        fail_part(own, error, NULL, name_of(part), part->partition);
    }
}

/* The row that is ready, to the client, unless its partition has gone meanwhile. */
static void row_give(struct rpcg_consume *own)
{
    struct rpcg_row *row = &own->row;
    struct consume_part *part = rpcg_consume_part(own, own->row_assignment_id);
    const bool wanted = part != NULL && part->stage == CONSUME_ACTIVE && part->next == row->from_offset && !rpcg_consume_closing(own);
    own->prepared = false;
    own->step_again = true;
    if (wanted && row->error != OT_OK) row_failed(own, part, row->error, -1);
    if (!wanted || row->error != OT_OK || row->bytes == 0) {
        if (wanted && row->error == OT_OK) {       /* markers, or what was aborted: nobody has to acknowledge that */
            if (part->acked == part->next) part->acked = row->next_offset;
            part->next = row->next_offset;
        }
        rpcg_row_free(row);
    } else {
        const struct broker_fetch_row *read = row->row;
        const struct rpcg_row_head head = { .at = { name_of(part), part->partition, row->next_offset, read->high_watermark, read->last_stable_offset, read->log_start_offset, 0 },
            .aborted = read->aborted, .aborted_count = own->join.format == RPCG_FORMAT_BATCHES ? read->aborted_count : 0, .assignment_id = part->assignment_id };
        part->next = row->next_offset;
        own->deliveries[own->delivery_count++] = (struct consume_delivery){ part->assignment_id, row->next_offset, row->bytes };
        own->unacknowledged += row->bytes;
        rpcg_send(own->call, rpcg_row_message(row, &head));
    }
}

static void row_ready(struct rpcg_row *row)
{
    struct rpcg_consume *own = OT_CONTAINER(row, struct rpcg_consume, row);
    struct rpcg_call *call = own->call;
    own->preparing = false;
    own->prepared = true;                  /* a message of another kind may be on its way just now */
    rpcg_consume_step(own);
    rpcg_release(call);
}

static void rows_go(struct rpcg_consume *own)
{
    while (own->row_at < own->fetch.row_count && has_room(own)) {
        const uint32_t at = own->row_at++;
        const struct broker_fetch_row *row = &own->fetch.rows[at];
        struct consume_part *part = part_of(own, at);
        if (part == NULL) continue;
        if (row->error == OT_OK && part->elsewhere) {
            part->elsewhere = false;
            own->tell_assignment = true;
        }
        if (row->error != OT_OK) {
            row_failed(own, part, row->error, row->leader_id);
        } else if (row->read.bytes > 0) {
            own->row = (struct rpcg_row){ .call = own->call, .row = row, .from_offset = part->next, .format = own->join.format, .bytes_max = (uint32_t)own->join.max_bytes,
                .ready = row_ready };
            own->row_assignment_id = part->assignment_id;
            own->preparing = true;
            rpcg_hold(own->call);
            rpcg_row_prepare(&own->row);
            return;
        }
    }
    rows_end(own);
    own->step_again = true;
}

static void fetch_done(struct broker_call *broker_call)
{
    struct rpcg_consume *own = OT_CONTAINER(broker_call, struct rpcg_consume, fetch.call);
    struct rpcg_call *call = own->call;
    own->fetching = own->fetch_cancelled = false;
    own->fetched = true;
    own->row_at = 0;
    if (own->fetch.error != OT_OK) rpcg_consume_fail(own, own->fetch.error, NULL);
    rpcg_consume_step(own);
    rpcg_release(call);
}

static bool asks_room(struct rpcg_consume *own)
{
    if (own->part_count <= own->ask_cap) return true;
    const uint32_t cap = own->part_cap;
    struct broker_fetch_ask *asks = realloc(own->asks, cap * sizeof *asks);
    if (asks != NULL) own->asks = asks;
    int64_t *ids = realloc(own->ask_ids, cap * sizeof *ids);
    if (ids != NULL) own->ask_ids = ids;
    if (asks == NULL || ids == NULL) return false;
    own->ask_cap = cap;
    return true;
}

static void fetch_begin(struct rpcg_consume *own, int64_t now_us)
{
    struct rpcg_call *call = own->call;
    uint32_t count = 0;
    if (own->part_count == 0 || !has_room(own)) return;
    if (!asks_room(own)) {
        rpcg_consume_fail(own, OT_ERR_NO_MEMORY, NULL);
        return;
    }
    own->turn = (own->turn + 1) % own->part_count;
    for (uint32_t i = 0; i < own->part_count; i++) {
        struct consume_part *part = &own->parts[(own->turn + i) % own->part_count];
        if (part->stage != CONSUME_ACTIVE || part->again_us > now_us) continue;
        part->again_us = 0;
        own->ask_ids[count] = part->assignment_id;
        /* by id: another topic of the same name is none of this member's yet */
        own->asks[count++] = (struct broker_fetch_ask){ .topic = { .null = true }, .topic_id = part->topic->id, .partition = part->partition, .offset = part->next,
            .log_start_offset = -1, .leader_epoch = -1, .last_epoch = -1, .max_bytes = own->join.max_bytes };
    }
    if (count == 0) return;
    own->fetch = (struct broker_fetch){ .call = { .home = &call->server->exec, .done = fetch_done }, .client = rpcg_client(call), .api_version = 17, .replica_id = -1,
        .replica_epoch = -1, .max_wait_ms = WAIT_MS, .min_bytes = 1, .max_bytes = own->join.max_bytes, .read_committed = own->join.read_committed, .session_id = 0,
        .session_epoch = -1, .rack = { .null = true }, .asks = own->asks, .ask_count = count, .arena = &own->fetch_arena };
    own->fetching = true;
    own->fetch_stale = false;
    rpcg_hold(call);
    broker_fetch(call->server->broker, &own->fetch);
}

/* A fetch that waits does not know of partitions that came, or may be tried again, since it began. */
static void fetch_renew(struct rpcg_consume *own, int64_t now_us)
{
    for (uint32_t i = 0; i < own->part_count && !own->fetch_stale; i++) {
        const struct consume_part *part = &own->parts[i];
        own->fetch_stale = part->stage == CONSUME_ACTIVE && part->again_us > 0 && part->again_us <= now_us;
    }
    if (!own->fetching || !own->fetch_stale || own->fetch_cancelled) return;
    own->fetch_cancelled = true;
    broker_fetch_cancel(&own->fetch);
}

static void give(struct rpcg_consume *own, int64_t now_us)
{
    fetch_renew(own, now_us);
    if (own->call->writing) return;
    if (own->prepared) row_give(own);
    else if (own->tell_assignment || own->tell_committed) tell(own);
    else if (own->fetched && !own->preparing) rows_go(own);
    else if (!own->fetched && !own->fetching && !own->preparing) fetch_begin(own, now_us);
}

/* ---- what the client says */

static void read_more(struct rpcg_consume *own)
{
    if (own->reading || own->half_closed || rpcg_consume_closing(own)) return;
    own->reading = true;
    rpcg_read(own->call);
}

static void acknowledge(struct rpcg_consume *own, const struct rpcg_consume_position *position)
{
    struct consume_part *part = rpcg_consume_part(own, position->assignment_id);
    if (position->topic.bytes == 0 || part == NULL || !is_placed(part)) return;
    if (part->partition != position->partition || !ot_str_equal(position->topic, name_of(part))) {
        fail_part(own, OT_ERR_INVALID_REQUEST, "an acknowledgement's assignment_id is of another partition", position->topic, position->partition);
        return;
    }
    if (part->elsewhere) part->next = OT_MAX(part->next, position->next_offset);
    if (part->elsewhere && part->stage != CONSUME_REVOKING) part->stage = CONSUME_ACTIVE;
    if (position->next_offset > part->next) {
        fail_part(own, OT_ERR_INVALID_REQUEST, "an acknowledgement is beyond what was given", position->topic, position->partition);
        return;
    }
    part->acked = OT_MAX(part->acked, position->next_offset);
    for (uint32_t i = own->delivery_count; i-- > 0;) {
        if (own->deliveries[i].assignment_id != part->assignment_id || own->deliveries[i].next > part->acked) continue;
        own->unacknowledged -= own->deliveries[i].bytes;
        own->deliveries[i] = own->deliveries[--own->delivery_count];
    }
}

static struct ot_str kept(struct rpcg_call *call, struct ot_str text, bool *full)
{
    const char *copy = ot_arena_str(&call->arena, text);
    *full |= copy == NULL;
    return (struct ot_str){ copy, copy == NULL ? 0 : text.bytes, false };
}

static void join(struct rpcg_consume *own, const struct rpcg_join_ask *asked)
{
    struct rpcg_call *call = own->call;
    struct rpcg_join_ask *to = &own->join;
    const int64_t most = (int64_t)OT_MIN(call->server->inflight_bytes_max, (uint64_t)INT64_MAX);
    bool full = false;
    *to = *asked;
    to->group = kept(call, asked->group, &full);
    to->instance_id = kept(call, asked->instance_id, &full);
    to->assignor = kept(call, asked->assignor, &full);
    to->rack = kept(call, asked->rack, &full);
    to->pattern = kept(call, asked->pattern, &full);
    to->topics = ot_arena_array(&call->arena, asked->topic_count, sizeof *to->topics);
    full |= to->topics == NULL && asked->topic_count > 0;
    for (uint32_t i = 0; i < asked->topic_count && !full; i++) to->topics[i] = kept(call, asked->topics[i], &full);
    if (full) {
        to->topic_count = 0;
        rpcg_consume_fail(own, OT_ERR_INVALID_REQUEST, "too many topics");
        return;
    }
    to->max_bytes = OT_MIN(asked->max_bytes > 0 ? asked->max_bytes : BYTES_DEFAULT, BYTES_MAX);
    to->max_unacknowledged_bytes = asked->max_unacknowledged_bytes > 0 ? OT_MIN(asked->max_unacknowledged_bytes, most) : most;
    to->rebalance_timeout_ms = asked->rebalance_timeout_ms > 0 ? OT_MIN(asked->rebalance_timeout_ms, REBALANCE_MS_MAX) : REBALANCE_MS_DEFAULT;
    (void)snprintf(own->member_id, sizeof own->member_id, "%.*s", (int)asked->member_id.bytes, asked->member_id.data == NULL ? "" : asked->member_id.data);
    if (own->member_id[0] == '\0') {
        struct ot_uuid id;
        char text[23];
        ot_uuid_random(&id);
        ot_uuid_text(&id, text);
        (void)snprintf(own->member_id, sizeof own->member_id, "%s", text);
    }
    rpcg_peer_host(call, own->host, sizeof own->host);
    own->state = CONSUME_WAITS;
    own->next = call->server->consumers;
    if (own->next != NULL) own->next->link = &own->next;
    own->link = &call->server->consumers;
    call->server->consumers = own;
}

static void request_take(struct rpcg_consume *own, struct ot_blob body)
{
    struct rpcg_consume_ask ask;
    struct ot_arena arena;
    uint8_t first[2048];
    const char *why = NULL;
    ot_arena_init_with(&arena, first, sizeof first, CONSUME_ARENA_BYTES);
    const enum ot_err err = body.bytes > MESSAGE_BYTES_MAX ? OT_ERR_INVALID_REQUEST : rpcg_consume_decode(body, &arena, &ask, &why);
    if (err != OT_OK) rpcg_consume_fail(own, OT_ERR_INVALID_REQUEST, why == NULL ? "the request is larger than 1 MiB" : why);
    else if (ask.has_join == (own->state != CONSUME_NO_JOIN)) rpcg_consume_fail(own, OT_ERR_INVALID_REQUEST, "the first request joins, and no other one");
    else if (ask.has_join) join(own, &ask.join);
    else for (uint32_t i = 0; i < ask.position_count; i++) acknowledge(own, &ask.positions[i]);
    ot_arena_free(&arena);
}

void rpcg_consume_message(struct rpcg_call *call, grpc_byte_buffer *message)
{
    struct rpcg_consume *own = call->own;
    own->reading = false;
    if (message == NULL) {
        own->half_closed = true;
        if (own->state == CONSUME_NO_JOIN) rpcg_consume_fail(own, OT_ERR_INVALID_REQUEST, "the first request joins: there was none");
    } else if (!rpcg_consume_closing(own)) {
        grpc_slice flat;
        const struct ot_blob body = rpcg_flatten(message, &flat);
        request_take(own, body);
        grpc_slice_unref(flat);
    }
    grpc_byte_buffer_destroy(message);
    rpcg_consume_step(own);
}

/* ---- the end */

static void unlink_member(struct rpcg_consume *own)
{
    if (own->link == NULL) return;
    *own->link = own->next;
    if (own->next != NULL) own->next->link = own->link;
    own->link = NULL;
    own->next = NULL;
}

static void end(struct rpcg_consume *own)
{
    struct rpcg_call *call = own->call;
    unlink_member(own);
    ot_exec_timer_cancel(&call->server->exec, &own->timer);
    if (call->cancelled) rpcg_end(call, GRPC_STATUS_CANCELLED, "");
    else if (own->failed) rpcg_fail(call, &own->error);
    else if (own->superseded) rpcg_end(call, GRPC_STATUS_ABORTED, "another stream has joined as this member");
    else if (own->half_closed) rpcg_end(call, GRPC_STATUS_OK, "");
    else rpcg_end(call, GRPC_STATUS_UNAVAILABLE, "the server is stopping: join again");
}

/* What was acknowledged is committed, then the member leaves, then the call ends. */
static void close_step(struct rpcg_consume *own, int64_t now_us)
{
    struct rpcg_call *call = own->call;
    if (own->close_us == 0) own->close_us = now_us;
    if (own->fetching && !own->fetch_cancelled) {
        own->fetch_cancelled = true;
        broker_fetch_cancel(&own->fetch);
    }
    if (own->preparing) rpcg_row_cancel(&own->row);
    if (own->prepared) row_give(own);      /* which nobody wants any more */
    if (own->fetched && !own->preparing) rows_end(own);
    if (own->state == CONSUME_JOINED && !own->leaving) {
        rpcg_consume_offsets_step(own, now_us);
        if (own->committing || own->beating) return;
        if (own->epoch > 0 && rpcg_consume_uncommitted(own) && now_us - own->close_us < CLOSE_US) return;
        rpcg_consume_leave(own);
    }
    if (own->state == CONSUME_JOINED || own->making_topic || own->looking || own->starting || own->fetching || own->fetched || own->preparing) return;
    if (call->writing && !call->cancelled) return;
    if (own->tell_committed && !call->cancelled) tell(own);        /* the last word, and the end when it has left */
    else end(own);
}

static void timer_fired(struct ot_timer *timer) { rpcg_consume_step(OT_CONTAINER(timer, struct rpcg_consume, timer)); }

static void step(struct rpcg_consume *own)
{
    const int64_t now_us = ot_clock_boot_us();
    if (rpcg_consume_closing(own)) {
        close_step(own, now_us);
        return;
    }
    read_more(own);
    if (own->state == CONSUME_NO_JOIN) return;
    rpcg_consume_revoke_step(own, now_us);
    if (!rpcg_consume_member_step(own, now_us)) return;
    rpcg_consume_offsets_step(own, now_us);
    give(own, now_us);
}

static void timer_arm(struct rpcg_consume *own)
{
    const int64_t now_us = ot_clock_boot_us();
    int64_t due_us = rpcg_consume_member_due_us(own, now_us);
    if (own->commit_again_us > now_us) due_us = OT_MIN(due_us, own->commit_again_us);
    if (rpcg_consume_closing(own) && own->beat_us <= now_us) due_us = OT_MAX(due_us, now_us + CONSUME_AGAIN_US);
    if (due_us == INT64_MAX) ot_exec_timer_cancel(&own->call->server->exec, &own->timer);
    else if (own->timer.heap_index == 0 || own->timer.deadline_us != due_us) ot_exec_timer_set(&own->call->server->exec, &own->timer, due_us);
}

void rpcg_consume_step(struct rpcg_consume *own)
{
    struct rpcg_call *call = own->call;
    if (call->ending) return;
    if (own->stepping) {
        own->step_again = true;
        return;
    }
    rpcg_hold(call);
    own->stepping = true;
    do {
        own->step_again = false;
        step(own);
    } while (own->step_again && !call->ending);
    own->stepping = false;
    if (!call->ending) timer_arm(own);
    rpcg_release(call);
}

/* ---- the call */

void rpcg_consume_start(struct rpcg_call *call)
{
    struct rpcg_consume *own = call->own;
    own->call = call;
    own->timer.fired = timer_fired;
    ot_arena_init(&own->beat_arena, CONSUME_ARENA_BYTES);
    ot_arena_init(&own->commit_arena, CONSUME_ARENA_BYTES);
    ot_arena_init(&own->lookup_arena, CONSUME_ARENA_BYTES);
    ot_arena_init(&own->start_arena, CONSUME_ARENA_BYTES);
    ot_arena_init(&own->fetch_arena, RPCG_ARENA_BYTES);
    rpcg_consume_step(own);
}

void rpcg_consume_sent(struct rpcg_call *call) { rpcg_consume_step(call->own); }

void rpcg_consume_cancel(struct rpcg_call *call, bool draining)
{
    struct rpcg_consume *own = call->own;
    if (own == NULL || own->call == NULL) {
        if (!draining) rpcg_end(call, GRPC_STATUS_CANCELLED, "");
        return;
    }
    own->draining |= draining;
    rpcg_consume_step(own);
}

void rpcg_consume_freed(struct rpcg_call *call)
{
    struct rpcg_consume *own = call->own;
    if (own->call == NULL) return;
    unlink_member(own);
    broker_fetch_release(&own->fetch);
    rpcg_consume_member_free(own);
    free(own->asks);
    free(own->ask_ids);
    ot_arena_free(&own->commit_arena);
    ot_arena_free(&own->lookup_arena);
    ot_arena_free(&own->start_arena);
    ot_arena_free(&own->fetch_arena);
}
