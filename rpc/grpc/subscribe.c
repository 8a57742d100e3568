/* Log.Subscribe: partitions followed from where each begins.
 *
 *   decode ─► ListOffsets (where the starts are) ─► first heartbeat ─► ┌ fetch of all partitions, up to the next heartbeat ─► a message for each that has data ┐
 *                                                                     └───────────────────────────── heartbeat of those that were quiet ◄──────────────────────┘
 *
 * One message is under way at a time: a reader that does not read holds that one, and the log's pages that it points at, and nothing more. */
#include "rpc/grpc/door.h"

#include "base/util.h"
#include "broker/partition.h"

#include <stdlib.h>

#define PARTS_MAX 1000u
#define BYTES_DEFAULT (1 << 20)
#define BYTES_MAX (64 << 20)

struct part {
    struct rpcg_progress at;
    enum rpcg_start start;
    int64_t timestamp_ms;
    uint32_t first_question;               /* among the offsets asked */
    int64_t told_us;                       /* when a message said where it stands */
};

struct subscribe_own {
    struct rpcg_call *call;
    struct rpcg_subscribe_ask ask;
    struct part *parts;
    uint32_t part_count, turn;             /* turn: who is first this time, so that none starves */
    struct broker_fetch_ask *asks;
    struct broker_offsets offsets;
    struct broker_fetch fetch;
    struct ot_arena arena;                 /* of one fetch */
    struct rpcg_row row;
    uint32_t row_at;
    int64_t heartbeat_us;
    bool fetching, preparing, draining;
};
const size_t rpcg_own_subscribe = sizeof(struct subscribe_own);

static void round_begin(struct subscribe_own *own);
static void rows_go(struct subscribe_own *own);

static void fail_part(struct subscribe_own *own, enum ot_err error, const struct rpcg_progress *at, int32_t leader_id, int32_t leader_epoch)
{
    const struct rpcg_error words = rpcg_error_of(own->call->server, error, NULL, at->topic, at->partition, leader_id, leader_epoch);
    rpcg_fail(own->call, &words);
}

static bool ended(struct subscribe_own *own)
{
    struct rpcg_call *call = own->call;
    if (call->ending) return true;
    if (call->cancelled) rpcg_end(call, GRPC_STATUS_CANCELLED, "");
    else if (own->draining) rpcg_end(call, GRPC_STATUS_UNAVAILABLE, "the server is stopping: subscribe again from next_offset");
    return call->ending;
}

/* ---- heartbeats */

struct beat { struct subscribe_own *own; int64_t before_us; };

static void put_partitions(struct ot_writer *writer, const void *arg)
{
    const struct beat *beat = arg;
    for (uint32_t i = 0; i < beat->own->part_count; i++)
        if (beat->own->parts[i].told_us <= beat->before_us) rpcg_put_message(writer, 1, rpcg_put_progress, &beat->own->parts[i].at);
}

static void put_beat(struct ot_writer *writer, const void *arg) { rpcg_put_message(writer, RPCG_FIELD_HEARTBEAT, put_partitions, arg); }

static void refresh(struct subscribe_own *own, struct rpcg_progress *at)
{
    struct broker_partition *partition = broker_partition_find(own->call->server->broker, at->topic, at->partition);
    struct broker_partition_state state;
    if (partition == NULL) return;
    broker_partition_state(partition, &state);
    at->high_watermark = state.high_watermark;
    at->last_stable_offset = state.last_stable_offset;
    at->log_start_offset = state.log_start_offset;
    at->log_end_offset = state.log_end_offset;
    broker_partition_put(partition);
}

/* Of those that were told nothing since before_us; false: there are none. */
static bool beat_send(struct subscribe_own *own, int64_t now_us, int64_t before_us)
{
    const struct beat beat = { own, before_us };
    uint32_t count = 0;
    for (uint32_t i = 0; i < own->part_count; i++) {
        if (own->parts[i].told_us > before_us) continue;
        refresh(own, &own->parts[i].at);
        count++;
    }
    if (count == 0) return false;
    rpcg_send(own->call, rpcg_message(put_beat, &beat));
    for (uint32_t i = 0; i < own->part_count; i++)
        if (own->parts[i].told_us <= before_us) own->parts[i].told_us = now_us;
    return true;
}

/* ---- a round */

static struct part *part_of(struct subscribe_own *own, const struct broker_fetch_row *row)
{
    struct part *likely = &own->parts[(own->turn + (uint32_t)(row - own->fetch.rows)) % own->part_count];      /* answers come in the order asked */
    if (likely->at.partition == row->partition && ot_str_equal(likely->at.topic, row->topic)) return likely;
    for (uint32_t i = 0; i < own->part_count; i++)
        if (own->parts[i].at.partition == row->partition && ot_str_equal(own->parts[i].at.topic, row->topic)) return &own->parts[i];
    return NULL;
}

static void round_end(struct subscribe_own *own)
{
    const int64_t now_us = ot_clock_boot_us();
    broker_fetch_release(&own->fetch);
    own->fetch.row_count = 0;
    ot_arena_reset(&own->arena);
    if (ended(own)) return;
    if (!beat_send(own, now_us, now_us - own->heartbeat_us)) round_begin(own);
}

static void row_ready(struct rpcg_row *row)
{
    struct subscribe_own *own = OT_CONTAINER(row, struct subscribe_own, row);
    struct rpcg_call *call = own->call;
    struct part *part = part_of(own, row->row);
    const bool batches = own->ask.format == RPCG_FORMAT_BATCHES;
    own->preparing = false;
    if (!ended(own) && row->error != OT_OK) fail_part(own, row->error, &part->at, -1, -1);
    if (call->ending) {
        rpcg_row_free(row);
        round_end(own);
    } else {
        part->at.next_offset = row->next_offset;
        part->at.high_watermark = row->row->high_watermark;
        part->at.last_stable_offset = row->row->last_stable_offset;
        part->at.log_start_offset = row->row->log_start_offset;
        if (row->bytes > 0) {
            const struct rpcg_row_head head = { .at = part->at, .aborted = row->row->aborted, .aborted_count = batches ? row->row->aborted_count : 0 };
            part->told_us = ot_clock_boot_us();
            rpcg_send(call, rpcg_row_message(row, &head));
        } else {
            rpcg_row_free(row);            /* nothing whole, or nothing visible: go on */
            rows_go(own);
        }
    }
    rpcg_release(call);
}

/* The rows from row_at on: the first with data is sent, and rpcg_subscribe_sent comes back here. */
static void rows_go(struct subscribe_own *own)
{
    struct rpcg_call *call = own->call;
    while (own->row_at < own->fetch.row_count && !ended(own)) {
        const struct broker_fetch_row *row = &own->fetch.rows[own->row_at++];
        struct part *part = part_of(own, row);
        if (part == NULL) continue;
        if (row->error != OT_OK) {
            fail_part(own, row->error, &part->at, row->leader_id, row->leader_epoch);
            break;
        }
        if (row->read.bytes == 0) continue;
        own->row = (struct rpcg_row){ .call = call, .row = row, .from_offset = part->at.next_offset, .format = own->ask.format,
            .bytes_max = (uint32_t)own->ask.max_bytes, .ready = row_ready };
        own->preparing = true;
        rpcg_hold(call);
        rpcg_row_prepare(&own->row);
        return;
    }
    round_end(own);
}

static void fetch_done(struct broker_call *broker_call)
{
    struct subscribe_own *own = OT_CONTAINER(broker_call, struct subscribe_own, fetch.call);
    struct rpcg_call *call = own->call;
    own->fetching = false;
    own->row_at = 0;
    if (!ended(own) && own->fetch.error != OT_OK) rpcg_fail_text(call, own->fetch.error, NULL);
    rows_go(own);
    rpcg_release(call);
}

static int64_t until_beat_us(const struct subscribe_own *own)
{
    int64_t first_us = INT64_MAX;
    for (uint32_t i = 0; i < own->part_count; i++) first_us = OT_MIN(first_us, own->parts[i].told_us);
    return OT_MAX(first_us + own->heartbeat_us - ot_clock_boot_us(), 1000);
}

static void round_begin(struct subscribe_own *own)
{
    struct rpcg_call *call = own->call;
    own->turn = own->part_count > 1 ? (own->turn + 1) % own->part_count : 0;
    for (uint32_t i = 0; i < own->part_count; i++) {
        const struct part *part = &own->parts[(own->turn + i) % own->part_count];
        own->asks[i] = (struct broker_fetch_ask){ .topic = part->at.topic, .partition = part->at.partition, .offset = part->at.next_offset, .log_start_offset = -1,
            .leader_epoch = -1, .last_epoch = -1, .max_bytes = own->ask.max_bytes };
    }
    own->fetch = (struct broker_fetch){ .call = { .home = &call->server->exec, .done = fetch_done }, .client = rpcg_client(call), .api_version = 17, .replica_id = -1,
        .replica_epoch = -1, .max_wait_ms = (int32_t)OT_MIN(until_beat_us(own) / 1000, (int64_t)INT32_MAX), .min_bytes = 1, .max_bytes = own->ask.max_bytes,
        .read_committed = own->ask.read_committed, .session_id = 0, .session_epoch = -1, .rack = { .null = true }, .asks = own->asks, .ask_count = own->part_count,
        .arena = &own->arena };
    own->fetching = true;
    rpcg_hold(call);
    broker_fetch(call->server->broker, &own->fetch);
}

void rpcg_subscribe_sent(struct rpcg_call *call)
{
    struct subscribe_own *own = call->own;
    if (own->fetch.row_count > 0) rows_go(own);
    else if (!ended(own)) round_begin(own);        /* that was a heartbeat */
}

/* ---- where it begins */

static void offsets_done(struct broker_call *broker_call)
{
    struct subscribe_own *own = OT_CONTAINER(broker_call, struct subscribe_own, offsets.call);
    struct rpcg_call *call = own->call;
    const int64_t now_us = ot_clock_boot_us();
    for (uint32_t i = 0; i < own->part_count && !call->ending; i++) {
        struct part *part = &own->parts[i];
        const struct broker_offsets_part *found = &own->offsets.parts[part->first_question];
        if (found->error != OT_OK) {
            fail_part(own, found->error, &part->at, -1, -1);
            break;
        }
        if (part->start == RPCG_START_TIMESTAMP && found->offset < 0) found++;         /* no record is as young: the end */
        if (part->start != RPCG_START_OFFSET) part->at.next_offset = found->offset;
    }
    if (!ended(own)) (void)beat_send(own, now_us, INT64_MAX - 1);
    rpcg_release(call);
}

static void starts_find(struct subscribe_own *own)
{
    struct rpcg_call *call = own->call;
    struct broker_offsets_part *parts = ot_arena_array(&call->arena, (size_t)own->part_count * 2, sizeof *parts);
    uint32_t count = 0;
    if (parts == NULL) {
        rpcg_fail_text(call, OT_ERR_NO_MEMORY, NULL);
        return;
    }
    for (uint32_t i = 0; i < own->part_count; i++) {
        struct part *part = &own->parts[i];
        struct broker_offsets_part question = { .topic = part->at.topic, .partition = part->at.partition, .current_leader_epoch = -1, .at = -1 };
        part->first_question = count;
        if (part->start == RPCG_START_EARLIEST) question.at = -2;
        if (part->start == RPCG_START_TIMESTAMP) {
            question.at = part->timestamp_ms;
            parts[count++] = question;
            question.at = -1;
        }
        parts[count++] = question;
    }
    own->offsets = (struct broker_offsets){ .call = { .home = &call->server->exec, .done = offsets_done }, .kind = BROKER_LIST_OFFSETS, .api_version = 10,
        .read_committed = own->ask.read_committed, .timeout_ms = 30000, .parts = parts, .part_count = count };
    rpcg_hold(call);
    broker_offsets(call->server->broker, &own->offsets);
}

/* How many partitions an entry means; 0: there is no such topic. */
static uint32_t meant(struct rpcg_call *call, const struct rpcg_subscribe_part *asked)
{
    int32_t count = 0;
    if (asked->partition >= 0) return 1;
    return broker_topic_known(call->server->broker, asked->topic, NULL, &count) && count > 0 ? (uint32_t)count : 0;
}

static bool leads(struct rpcg_call *call, struct ot_str topic, int32_t index)
{
    struct broker_partition *partition = broker_partition_find(call->server->broker, topic, index);
    struct broker_partition_state state = { .leader = false };
    if (partition != NULL) broker_partition_state(partition, &state);
    broker_partition_put(partition);
    return state.leader;
}

static bool part_add(struct subscribe_own *own, const struct rpcg_subscribe_part *asked, int32_t index)
{
    for (uint32_t i = 0; i < own->part_count; i++)
        if (own->parts[i].at.partition == index && ot_str_equal(own->parts[i].at.topic, asked->topic)) return false;
    own->parts[own->part_count++] = (struct part){ .at = { .topic = asked->topic, .partition = index, .next_offset = asked->offset }, .start = asked->start,
        .timestamp_ms = asked->timestamp_ms };
    return true;
}

static bool parts_make(struct subscribe_own *own)
{
    struct rpcg_call *call = own->call;
    uint32_t count = 0;
    for (uint32_t i = 0; i < own->ask.part_count && count <= PARTS_MAX; i++) {
        const struct rpcg_subscribe_part *asked = &own->ask.parts[i];
        const uint32_t more = meant(call, asked);
        const struct rpcg_progress at = { .topic = asked->topic, .partition = asked->partition };
        if (more == 0) return fail_part(own, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION, &at, -1, -1), false;
        count += OT_MIN(more, PARTS_MAX + 1);
    }
    if (count > PARTS_MAX) return rpcg_fail_text(call, OT_ERR_INVALID_REQUEST, "more than 1000 partitions in one subscription"), false;
    own->parts = ot_arena_array(&call->arena, count, sizeof *own->parts);
    own->asks = ot_arena_array(&call->arena, count, sizeof *own->asks);
    if (own->parts == NULL || own->asks == NULL) return rpcg_fail_text(call, OT_ERR_NO_MEMORY, NULL), false;
    for (uint32_t i = 0; i < own->ask.part_count; i++) {
        const struct rpcg_subscribe_part *asked = &own->ask.parts[i];
        const uint32_t more = OT_MIN(meant(call, asked), count);
        for (uint32_t k = 0; k < more; k++) {
            if (asked->partition < 0 && !leads(call, asked->topic, (int32_t)k)) continue;
            if (own->part_count == count || !part_add(own, asked, asked->partition < 0 ? (int32_t)k : asked->partition))
                return rpcg_fail_text(call, OT_ERR_INVALID_REQUEST, "a partition is named twice"), false;
        }
    }
    if (own->part_count == 0) return rpcg_fail_text(call, OT_ERR_NOT_LEADER_OR_FOLLOWER, "this broker leads no partition of the topic"), false;
    return true;
}

void rpcg_subscribe_start(struct rpcg_call *call)
{
    struct subscribe_own *own = call->own;
    const char *why = NULL;
    own->call = call;
    ot_arena_init(&own->arena, RPCG_ARENA_BYTES);
    if (rpcg_subscribe_decode(call->body, &call->arena, &own->ask, &why) != OT_OK) {
        rpcg_fail_text(call, OT_ERR_INVALID_REQUEST, why);
        return;
    }
    own->ask.max_bytes = OT_MIN(own->ask.max_bytes > 0 ? own->ask.max_bytes : BYTES_DEFAULT, BYTES_MAX);
    own->heartbeat_us = (int64_t)OT_MAX(own->ask.heartbeat_ms > 0 ? own->ask.heartbeat_ms : call->server->heartbeat_ms, 10) * 1000;
    if (parts_make(own)) starts_find(own);
}

void rpcg_subscribe_cancel(struct rpcg_call *call, bool draining)
{
    struct subscribe_own *own = call->own;
    if (own == NULL || own->call == NULL) return;
    own->draining |= draining;
    if (own->fetching) broker_fetch_cancel(&own->fetch);       /* done comes soon, and ends it */
    else if (own->preparing) rpcg_row_cancel(&own->row);       /* so does ready */
    else if (!call->writing) (void)ended(own);
    else if (call->cancelled) (void)ended(own);
}

void rpcg_subscribe_freed(struct rpcg_call *call)
{
    struct subscribe_own *own = call->own;
    broker_fetch_release(&own->fetch);
    ot_arena_free(&own->arena);
}
