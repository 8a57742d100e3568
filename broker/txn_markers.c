/* Transaction markers: one control batch for each partition, acks=all; into those that this broker leads, and by request into those that others lead. */
#include "broker/room.h"

#include "broker/transactions.h"
#include "broker/txn_away.h"
#include "engine/batch_build.h"
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_MS = 10000 };

struct broker_marker_call {
    struct broker_produce produce; struct broker_markers *of; struct broker_marker *marker;
    struct broker_produce_part *parts;
    int32_t *leaders;                          /* of each place */
    uint32_t *places;                          /* of each part: which place */
};

static void one_done(struct broker_markers *markers);

static void done_run(struct ot_task *task)
{
    struct broker_markers *markers = OT_CONTAINER(task, struct broker_markers, call.task);
    ot_buf_unref(markers->buf);
    free(markers->calls);
    free(markers->parts);
    free(markers->numbers);
    markers->buf = NULL;
    markers->calls = NULL;
    markers->parts = NULL;
    markers->numbers = NULL;
    markers->call.done(&markers->call);
}

static void last_run(struct ot_task *task) { one_done(OT_CONTAINER(task, struct broker_markers, call.task)); }

/* A partition of a topic that the cluster knows but that is not here yet, or any more: another time. */
static enum ot_err judge(const struct broker_view *view, const struct coord_txn_place *place, enum ot_err err)
{
    struct broker_view_topic topic;
    if (err != OT_ERR_UNKNOWN_TOPIC_OR_PARTITION || place->partition < 0) return err;
    return broker_view_topic(view, place->topic, &topic) && place->partition < topic.partition_count ? OT_ERR_NOT_LEADER_OR_FOLLOWER : err;
}

static void one_done(struct broker_markers *markers)
{
    if (--markers->open == 0) done_run(&markers->call.task);
}

static void produced(struct broker_call *call)
{
    struct broker_marker_call *mine = OT_CONTAINER(call, struct broker_marker_call, produce.call);
    struct broker_markers *markers = mine->of;
    struct broker_marker *marker = mine->marker;
    const struct broker_view *view = broker_view_take(markers->broker);
    for (uint32_t i = 0; i < mine->produce.part_count; i++) {
        struct coord_txn_place *place = &marker->places[mine->places[i]];
        place->error = judge(view, place, mine->produce.parts[i].error);
    }
    broker_view_give(view);
    one_done(markers);
}

static void queued(struct broker_produce *produce) { (void)produce; }

/* Who leads each place; this broker where nobody is known to, or where the others are not asked. */
static void leaders_find(const struct broker_markers *markers, const struct broker_marker *marker, int32_t *leaders)
{
    const struct broker *broker = markers->broker;
    const struct broker_view *view = markers->anywhere && broker->peers != NULL ? broker_view_take(markers->broker) : NULL;
    for (uint32_t i = 0; i < marker->place_count; i++) {
        int32_t leader;
        const bool known = view != NULL && broker_view_leader(view, marker->places[i].topic, marker->places[i].partition, &leader) && leader >= 0;
        leaders[i] = known ? leader : broker->node_id;
    }
    if (view != NULL) broker_view_give(view);
}

/* The batches for the places that are led here. */
static void fill(struct broker_markers *markers, struct broker_marker *marker, struct broker_marker_call *call, uint8_t *data)
{
    const int64_t wall_ms = ot_exec_wall_ms(markers->call.home);
    uint32_t count = 0;
    for (uint32_t i = 0; i < marker->place_count; i++) {
        if (call->leaders[i] != markers->broker->node_id) continue;
        uint8_t *batch = data + (size_t)count * ENG_MARKER_BYTES;
        const size_t bytes = eng_batch_build_marker(batch, marker->producer_id, marker->producer_epoch, -1, marker->coordinator_epoch, marker->commit, wall_ms);
        struct broker_produce_part *part = &call->parts[count];
        part->topic = marker->places[i].topic;
        part->partition = marker->places[i].partition;
        part->records = batch;
        part->records_bytes = (uint32_t)bytes;
        call->places[count++] = i;
    }
    call->of = markers;
    call->marker = marker;
    call->produce = (struct broker_produce){ .call = { .home = markers->call.home, .done = produced }, .buf = markers->buf, .acks = -1, .timeout_ms = TIMEOUT_MS,
        .api_version = 13, .transactional_id = { .null = true }, .origin = ENG_ORIGIN_COORDINATOR, .transaction_version = marker->version >= 2 ? 2 : 1, .parts = call->parts,
        .part_count = count, .queued = queued };
}

/* To the other leaders, one request each. */
static void send_away(struct broker_markers *markers, struct broker_marker *marker, const int32_t *leaders)
{
    for (uint32_t i = 0; i < marker->place_count; i++) {
        bool asked = leaders[i] == markers->broker->node_id;
        for (uint32_t j = 0; j < i && !asked; j++) asked = leaders[j] == leaders[i];
        if (asked) continue;
        markers->open++;
        if (broker_markers_away(markers, marker, leaders, leaders[i], one_done)) continue;
        markers->open--;
        for (uint32_t j = i; j < marker->place_count; j++)
            if (leaders[j] == leaders[i]) marker->places[j].error = OT_ERR_NOT_LEADER_OR_FOLLOWER;
    }
}

void broker_markers(struct broker *broker, struct broker_markers *markers)
{
    size_t places = 0;
    for (uint32_t i = 0; i < markers->marker_count; i++) places += markers->markers[i].place_count;
    markers->broker = broker;
    markers->error = OT_OK;
    markers->open = 1;                         /* ours, until all are on their way */
    markers->call.task.run = last_run;
    markers->calls = calloc(OT_MAX(markers->marker_count, 1u), sizeof *markers->calls);
    markers->parts = calloc(OT_MAX(places, 1u), sizeof *markers->parts);
    markers->numbers = calloc(OT_MAX(2 * places, 1u), sizeof *markers->numbers);
    markers->buf = ot_buf_new(broker->core.decode_pool, OT_MAX(places, 1u) * ENG_MARKER_BYTES);
    if (markers->calls == NULL || markers->parts == NULL || markers->numbers == NULL || markers->buf == NULL) {
        markers->error = OT_ERR_NO_MEMORY;
        ot_exec_post(markers->call.home, &markers->call.task);
        return;
    }
    markers->buf->bytes = (uint32_t)(places * ENG_MARKER_BYTES);
    struct broker_produce_part *parts = markers->parts;
    int32_t *numbers = markers->numbers;
    uint8_t *data = markers->buf->data;
    for (uint32_t i = 0; i < markers->marker_count; i++) {
        struct broker_marker *marker = &markers->markers[i];
        struct broker_marker_call *call = &markers->calls[i];
        call->parts = parts;
        call->leaders = numbers;
        call->places = (uint32_t *)(numbers + marker->place_count);
        leaders_find(markers, marker, call->leaders);
        fill(markers, marker, call, data);
        parts += marker->place_count;
        numbers += 2 * marker->place_count;
        data += (size_t)marker->place_count * ENG_MARKER_BYTES;
        if (call->produce.part_count > 0) {
            markers->open++;
            (void)broker_produce(broker, &call->produce);
        }
        send_away(markers, marker, call->leaders);
    }
    ot_exec_post(markers->call.home, &markers->call.task);     /* done never before this returns */
}
