/* Partitions: state, segments, producers. */
#include "rest/handlers.h"
#include "rest/rows.h"
#include "rest/topic_view.h"
#include <stdlib.h>

enum { SEGMENTS_MAX = 20000, PRODUCERS_MAX = 20000 };

static void list(struct rest_call *call, const char *extra)
{
    struct broker_view_topic topic;
    const struct broker_view *view = broker_view_take(call->broker);
    if (!rest_topic_find(call, view, &topic)) {
        broker_view_give(view);
        return;
    }
    int32_t index = call->list.after_int < 0 ? 0 : (int32_t)OT_MIN(call->list.after_int + 1, (int64_t)topic.partition_count);
    const int32_t end = (int32_t)OT_MIN((int64_t)topic.partition_count, (int64_t)index + call->list.limit);
    for (; index < end; index++) {
        struct broker_view_partition row;
        if (!broker_view_partition(view, &topic.id, index, &call->arena, &row)) continue;
        rest_list_item(call);
        rest_partition_write(call, view, &topic, &row);
    }
    broker_view_give(view);
    rest_etag(call, topic.version);
    rest_list_reply_int(call, 'p', end < topic.partition_count, end - 1, topic.partition_count, extra);
}

static void one(struct rest_call *call, const struct rest_gather *all)
{
    struct broker_view_topic topic;
    struct broker_view_partition row;
    int32_t index = 0;
    const struct broker_view *view = broker_view_take(call->broker);
    if (!rest_partition_find(call, view, &topic, &index)) {
        broker_view_give(view);
        return;
    }
    const bool found = broker_view_partition(view, &topic.id, index, &call->arena, &row);
    if (found) rest_partition_write(call, view, &topic, &row);
    broker_view_give(view);
    if (found && all != NULL) rest_gather_mend(all);
    if (found) rest_reply_json(call, 200);
    else rest_problem(call, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition");
}

/* ---- from what all brokers told */

static void list_told(struct rest_gather *all)
{
    struct rest_rows rows;
    if (rest_rows_places(&rows, all)) all->call->rows = &rows;
    list(all->call, rest_gather_extra(all));
    rest_rows_free(&rows);
}

static void one_told(struct rest_gather *all)
{
    struct rest_rows rows;
    if (rest_rows_places(&rows, all)) all->call->rows = &rows;
    one(all->call, all);
    rest_rows_free(&rows);
}

void rest_partitions_list(struct rest_call *call)
{
    if (!rest_list_begin(call, 'p', true)) return;
    if (rest_gather_wanted(call)) rest_gather(call, rest_gather_target(call, REST_GATHER_SHAPE, NULL), NULL, list_told);
    else list(call, NULL);
}

void rest_partition_get(struct rest_call *call)
{
    if (rest_gather_wanted(call)) rest_gather(call, rest_gather_target(call, REST_GATHER_SHAPE, NULL), NULL, one_told);
    else one(call, NULL);
}

/* The partition of the path as this broker holds it, open; counted. NULL: answered. */
static struct broker_partition *local_partition(struct rest_call *call)
{
    struct broker_view_topic topic;
    struct broker_partition_state state;
    int32_t index = 0;
    const struct broker_view *view = broker_view_take(call->broker);
    const bool found = rest_partition_find(call, view, &topic, &index);
    const struct ot_uuid id = found ? topic.id : (struct ot_uuid){ 0 };
    broker_view_give(view);
    if (!found) return NULL;
    struct broker_partition *partition = broker_partition_find_id(call->broker, &id, index);
    if (partition == NULL) {
        rest_problem(call, OT_ERR_NOT_LEADER_OR_FOLLOWER, "this broker holds no replica of the partition");
        return NULL;
    }
    broker_partition_state(partition, &state);
    if (state.open) return partition;
    broker_partition_put(partition);
    rest_problem(call, state.offline ? OT_ERR_KAFKA_STORAGE_ERROR : OT_ERR_LEADER_NOT_AVAILABLE, state.offline ? "the log directory of the replica is offline" : "the replica is being opened");
    return NULL;
}

static void write_segment(struct rest_call *call, const struct eng_segment_info *segment)
{
    struct rest_json *out = &call->out;
    rest_list_item(call);
    rest_json_open(out, NULL, '{');
    rest_json_big(out, "base_offset", segment->base_offset);
    rest_json_big(out, "end_offset", segment->end_offset);
    rest_json_big(out, "size_bytes", (int64_t)segment->log_bytes);
    rest_json_big(out, "index_bytes", (int64_t)segment->index_bytes);
    rest_json_big(out, "time_index_bytes", (int64_t)segment->time_index_bytes);
    rest_json_big_or_null(out, "max_timestamp_ms", segment->max_timestamp_ms);
    rest_json_big_or_null(out, "last_append_ms", segment->last_append_ms);
    rest_json_bool(out, "active", segment->active);
    rest_json_close(out, '}');
}

void rest_partition_segments(struct rest_call *call)
{
    if (!rest_list_begin(call, 's', true)) return;
    struct broker_partition *partition = local_partition(call);
    if (partition == NULL) return;
    struct eng_segment_info *segments = malloc(SEGMENTS_MAX * sizeof(*segments));
    const uint32_t there = segments == NULL ? 0 : broker_partition_segments(partition, segments, SEGMENTS_MAX);
    const uint32_t count = OT_MIN(there, (uint32_t)SEGMENTS_MAX);
    broker_partition_put(partition);
    if (segments == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the list");
        return;
    }
    uint32_t first = 0;
    while (first < count && segments[first].base_offset <= call->list.after_int) first++;
    const uint32_t end = OT_MIN(count, first + call->list.limit);
    for (uint32_t i = first; i < end; i++) write_segment(call, &segments[i]);
    const int64_t last = end > first ? segments[end - 1].base_offset : 0;
    free(segments);
    rest_list_reply_int(call, 's', end < count, last, there, NULL);
}

static int by_id(const void *a, const void *b)
{
    const struct eng_producer_view *one = a, *two = b;
    return (one->producer_id > two->producer_id) - (one->producer_id < two->producer_id);
}

void rest_producer_members(struct rest_json *out, const struct eng_producer_view *producer)
{
    rest_json_big(out, "producer_id", producer->producer_id);
    rest_json_int(out, "epoch", producer->epoch);
    rest_json_big_or_null(out, "last_sequence", producer->last_sequence);
    rest_json_big_or_null(out, "last_timestamp_ms", producer->last_timestamp_ms);
    rest_json_big_or_null(out, "coordinator_epoch", producer->coordinator_epoch);
    rest_json_big_or_null(out, "current_transaction_start_offset", producer->current_txn_first_offset);
}

static void write_producer(struct rest_call *call, const struct eng_producer_view *producer)
{
    rest_list_item(call);
    rest_json_open(&call->out, NULL, '{');
    rest_producer_members(&call->out, producer);
    rest_json_close(&call->out, '}');
}

void rest_partition_producers(struct rest_call *call)
{
    if (!rest_list_begin(call, 'i', true)) return;
    struct broker_partition *partition = local_partition(call);
    if (partition == NULL) return;
    struct eng_producer_view *producers = malloc(PRODUCERS_MAX * sizeof(*producers));
    const uint32_t there = producers == NULL ? 0 : broker_partition_producers(partition, producers, PRODUCERS_MAX);
    const uint32_t count = OT_MIN(there, (uint32_t)PRODUCERS_MAX);
    broker_partition_put(partition);
    if (producers == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the list");
        return;
    }
    if (count > 0) qsort(producers, count, sizeof(*producers), by_id);
    uint32_t first = 0;
    while (first < count && producers[first].producer_id <= call->list.after_int) first++;
    const uint32_t end = OT_MIN(count, first + call->list.limit);
    for (uint32_t i = first; i < end; i++) write_producer(call, &producers[i]);
    const int64_t last = end > first ? producers[end - 1].producer_id : 0;
    free(producers);
    rest_list_reply_int(call, 'i', end < count, last, there, NULL);
}
