/* Transaction markers into partitions that this broker leads: one control batch each, acks=all. */
#include "broker/room.h"

#include "broker/transactions.h"
#include "engine/batch_build.h"
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_MS = 10000 };

struct broker_marker_call { struct broker_produce produce; struct broker_markers *of; struct broker_marker *marker; };

static void done_run(struct ot_task *task)
{
    struct broker_markers *markers = OT_CONTAINER(task, struct broker_markers, call.task);
    ot_buf_unref(markers->buf);
    free(markers->calls);
    free(markers->parts);
    markers->buf = NULL;
    markers->calls = NULL;
    markers->parts = NULL;
    markers->call.done(&markers->call);
}

/* A partition of a topic that the cluster knows but that is not here yet, or any more: another time. */
static enum ot_err judge(const struct broker_view *view, const struct coord_txn_place *place, enum ot_err err)
{
    struct broker_view_topic topic;
    if (err != OT_ERR_UNKNOWN_TOPIC_OR_PARTITION || place->partition < 0) return err;
    return broker_view_topic(view, place->topic, &topic) && place->partition < topic.partition_count ? OT_ERR_NOT_LEADER_OR_FOLLOWER : err;
}

static void produced(struct broker_call *call)
{
    struct broker_marker_call *mine = OT_CONTAINER(call, struct broker_marker_call, produce.call);
    struct broker_markers *markers = mine->of;
    struct broker_marker *marker = mine->marker;
    const struct broker_view *view = broker_view_take(markers->broker);
    for (uint32_t i = 0; i < marker->place_count; i++) marker->places[i].error = judge(view, &marker->places[i], mine->produce.parts[i].error);
    broker_view_give(view);
    if (--markers->open == 0) done_run(&markers->call.task);
}

static void queued(struct broker_produce *produce) { (void)produce; }

static void fill(struct broker_markers *markers, struct broker_marker *marker, struct broker_marker_call *call, struct broker_produce_part *parts, uint8_t *data)
{
    const int64_t wall_ms = ot_exec_wall_ms(markers->call.home);
    for (uint32_t i = 0; i < marker->place_count; i++) {
        uint8_t *batch = data + (size_t)i * ENG_MARKER_BYTES;
        const size_t bytes = eng_batch_build_marker(batch, marker->producer_id, marker->producer_epoch, -1, marker->coordinator_epoch, marker->commit, wall_ms);
        parts[i].topic = marker->places[i].topic;
        parts[i].partition = marker->places[i].partition;
        parts[i].records = batch;
        parts[i].records_bytes = (uint32_t)bytes;
    }
    call->of = markers;
    call->marker = marker;
    call->produce = (struct broker_produce){ .call = { .home = markers->call.home, .done = produced }, .buf = markers->buf, .acks = -1, .timeout_ms = TIMEOUT_MS,
        .api_version = 13, .transactional_id = { .null = true }, .origin = ENG_ORIGIN_COORDINATOR, .transaction_version = marker->version >= 2 ? 2 : 1, .parts = parts,
        .part_count = marker->place_count, .queued = queued };
}

void broker_markers(struct broker *broker, struct broker_markers *markers)
{
    size_t places = 0;
    for (uint32_t i = 0; i < markers->marker_count; i++) places += markers->markers[i].place_count;
    markers->broker = broker;
    markers->error = OT_OK;
    markers->open = 0;
    markers->call.task.run = done_run;
    markers->calls = calloc(OT_MAX(markers->marker_count, 1u), sizeof *markers->calls);
    markers->parts = calloc(OT_MAX(places, 1u), sizeof *markers->parts);
    markers->buf = ot_buf_new(broker->core.decode_pool, OT_MAX(places, 1u) * ENG_MARKER_BYTES);
    if (markers->calls == NULL || markers->parts == NULL || markers->buf == NULL) {
        markers->error = OT_ERR_NO_MEMORY;
        ot_exec_post(markers->call.home, &markers->call.task);
        return;
    }
    markers->buf->bytes = (uint32_t)(places * ENG_MARKER_BYTES);
    for (uint32_t i = 0; i < markers->marker_count; i++) markers->open += markers->markers[i].place_count > 0 ? 1 : 0;
    if (markers->open == 0) ot_exec_post(markers->call.home, &markers->call.task);
    struct broker_produce_part *parts = markers->parts;
    uint8_t *data = markers->buf->data;
    for (uint32_t i = 0; i < markers->marker_count; i++) {
        struct broker_marker *marker = &markers->markers[i];
        if (marker->place_count == 0) continue;
        fill(markers, marker, &markers->calls[i], parts, data);
        parts += marker->place_count;
        data += (size_t)marker->place_count * ENG_MARKER_BYTES;
        (void)broker_produce(broker, &markers->calls[i].produce);
    }
}
