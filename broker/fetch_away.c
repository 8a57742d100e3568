#include "broker/fetch_away.h"

#include "base/wire/apis.h"
#include "base/wire/fetch_request.h"
#include "base/wire/fetch_response.h"

enum { VERSION = 13 };

static bool row_of(struct broker_fetch_away *away, const struct ot_uuid *topic_id, const struct ot_fetch_response_partition_data *from, struct broker_fetch_row *out)
{
    *out = (struct broker_fetch_row){ .topic = { .null = true }, .topic_id = *topic_id, .partition = from->partition_index, .error = (enum ot_err)from->error_code,
        .high_watermark = from->high_watermark, .last_stable_offset = from->last_stable_offset, .log_start_offset = from->log_start_offset, .diverging_epoch = -1,
        .diverging_end_offset = -1, .leader_id = -1, .leader_epoch = -1, .preferred_replica = -1, .aborted_count = -1 };
    if (!from->records.null && from->records.bytes > 0) {
        out->read.spans[0] = (struct ot_span){ .memory = from->records.data, .fd = -1, .bytes = from->records.bytes };
        out->read.span_count = 1;
        out->read.bytes = from->records.bytes;
    }
    if (from->aborted_transactions.count <= 0) return true;
    struct eng_aborted *aborted = ot_arena_array(away->arena, (size_t)from->aborted_transactions.count, sizeof *aborted);
    if (aborted == NULL) return false;
    for (int32_t i = 0; i < from->aborted_transactions.count; i++)
        aborted[i] = (struct eng_aborted){ from->aborted_transactions.items[i].producer_id, from->aborted_transactions.items[i].first_offset, -1 };
    out->aborted = aborted;
    out->aborted_count = from->aborted_transactions.count;
    return true;
}

static enum ot_err rows_take(struct broker_fetch_away *away, const struct ot_fetch_response *response)
{
    uint32_t count = 0;
    if (response->error_code != 0) return (enum ot_err)response->error_code;
    for (int32_t t = 0; t < response->responses.count; t++) count += (uint32_t)OT_MAX(response->responses.items[t].partitions.count, 0);
    away->rows = ot_arena_array(away->arena, OT_MAX(count, 1u), sizeof *away->rows);
    if (away->rows == NULL) return OT_ERR_NO_MEMORY;
    for (int32_t t = 0; t < response->responses.count; t++)
        for (int32_t p = 0; p < response->responses.items[t].partitions.count; p++)
            if (!row_of(away, &response->responses.items[t].topic_id, &response->responses.items[t].partitions.items[p], &away->rows[away->row_count++])) return OT_ERR_NO_MEMORY;
    return OT_OK;
}

static void answered(struct broker_peer_call *call)
{
    struct broker_fetch_away *away = OT_CONTAINER(call, struct broker_fetch_away, call);
    away->error = call->error == OT_OK ? rows_take(away, call->response) : call->error == OT_ERR_NO_MEMORY || call->error == OT_ERR_BUSY ? call->error : OT_ERR_LEADER_NOT_AVAILABLE;
    if (away->error != OT_OK) away->row_count = 0;
    away->done(away);
}

static bool fill(const struct broker_fetch_away *away, struct ot_fetch_request *out)
{
    struct ot_fetch_request_fetch_topic *topic = ot_arena_array(away->arena, 1, sizeof *topic);
    struct ot_fetch_request_fetch_partition *parts = ot_arena_array(away->arena, OT_MAX(away->ask_count, 1u), sizeof *parts);
    if (topic == NULL || parts == NULL) return false;
    ot_fetch_request_defaults(out);
    out->min_bytes = 1;
    out->max_bytes = away->max_bytes;
    out->isolation_level = away->read_committed;
    out->topics.items = topic;
    out->topics.count = 1;
    ot_fetch_request_fetch_topic_defaults(topic);
    topic->topic_id = away->asks[0].topic_id;
    topic->partitions.items = parts;
    topic->partitions.count = (int32_t)away->ask_count;
    for (uint32_t i = 0; i < away->ask_count; i++) {
        ot_fetch_request_fetch_partition_defaults(&parts[i]);
        parts[i].partition = away->asks[i].partition;
        parts[i].fetch_offset = away->asks[i].offset;
        parts[i].partition_max_bytes = away->asks[i].max_bytes;
    }
    return true;
}

static void refused(struct ot_task *task)
{
    struct broker_fetch_away *away = OT_CONTAINER(task, struct broker_fetch_away, call.link.task);
    away->done(away);
}

void broker_fetch_away(struct broker *broker, struct broker_fetch_away *away)
{
    struct ot_fetch_request request;
    struct ot_fetch_response *response = ot_arena_array(away->arena, 1, sizeof *response);
    away->rows = NULL;
    away->row_count = 0;
    away->call = (struct broker_peer_call){ .node_id = away->leader, .api = OT_API_FETCH, .version = VERSION, .request = &request, .response = response, .arena = away->arena,
        .deadline_us = away->deadline_us, .home = away->home, .done = answered, .alone = true };
    if (response != NULL && away->ask_count > 0 && fill(away, &request)) {
        broker_peer_call(broker, &away->call);
        return;
    }
    away->error = away->ask_count == 0 ? OT_OK : OT_ERR_NO_MEMORY;
    away->call.link.task.run = refused;
    ot_exec_post(away->home, &away->call.link.task);
}

void broker_fetch_away_cancel(struct broker *broker, struct broker_fetch_away *away) { broker_peer_call_abort(broker, &away->call); }

void broker_fetch_away_release(struct broker_fetch_away *away) { broker_peer_call_end(&away->call); }
