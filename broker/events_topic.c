/* The topic of events, wherever its leader is: one batch to it, and reads from it. A broker that leads it does so in its own log; the others ask as clients do, on the connection that
 * peers keep for calls. Nothing waits there: requests of others go behind these. */
#include "broker/events_inner.h"

#include "base/log.h"
#include "base/util.h"
#include "base/wire/apis.h"
#include "base/wire/fetch_request.h"
#include "base/wire/fetch_response.h"
#include "base/wire/list_offsets_request.h"
#include "base/wire/list_offsets_response.h"
#include "base/wire/produce_request.h"
#include "base/wire/produce_response.h"
#include "broker/records.h"
#include "broker/room.h"
#include <stdlib.h>

enum { VERSION_PRODUCE = 12, VERSION_FETCH = 13, VERSION_LIST_OFFSETS = 5, LATEST = -1, EARLIEST = -2 };
#define ARENA_BYTES (1u << 20)
#define DEADLINE_US 3000000
#define WRITE_TIMEOUT_MS 3000
#define BATCH_ROOM_BYTES (2u << 20)            /* an answer has one whole batch at least */

bool broker_event_topic(struct broker *broker, struct broker_event_topic *out)
{
    struct broker_view_topic topic;
    struct broker_view_partition partition;
    struct ot_arena arena;
    ot_arena_init(&arena, ARENA_BYTES);
    const struct broker_view *view = broker_view_take(broker);
    const bool found = broker_view_topic(view, ot_str_of(BROKER_EVENTS_TOPIC), &topic);
    if (found) *out = (struct broker_event_topic){ topic.id, broker_view_partition(view, &topic.id, 0, &arena, &partition) ? partition.leader : -1 };
    broker_view_give(view);
    ot_arena_free(&arena);
    return found;
}

/* ---- writing */

struct broker_event_writing {
    struct broker_event_write *write;
    struct broker_produce produce;
    struct broker_produce_part part;
    struct broker_peer_call call;
    struct ot_arena arena;
    struct ot_produce_response response;
    struct ot_task task;
};

static void write_done(struct broker_event_write *write, enum ot_err err)
{
    struct broker_event_writing *writing = write->writing;
    ot_buf_unref(write->buf);
    write->buf = NULL;
    write->writing = NULL;
    write->error = err;
    if (writing != NULL) ot_arena_free(&writing->arena);
    free(writing);
    write->done(write);
}

static void produced(struct broker_call *call)
{
    struct broker_event_writing *writing = OT_CONTAINER(call, struct broker_event_writing, produce.call);
    write_done(writing->write, writing->part.error);
}

static void queued(struct broker_produce *produce) { (void)produce; }

static void write_here(struct broker_event_writing *writing)
{
    struct broker_event_write *write = writing->write;
    writing->produce = (struct broker_produce){ .call = { .home = write->home, .done = produced }, .buf = write->buf, .acks = -1, .timeout_ms = WRITE_TIMEOUT_MS, .api_version = VERSION_PRODUCE,
        .transactional_id = { .null = true }, .origin = ENG_ORIGIN_COORDINATOR, .parts = &writing->part, .part_count = 1, .queued = queued };
    writing->part = (struct broker_produce_part){ .topic = ot_str_of(BROKER_EVENTS_TOPIC), .records = write->buf->data, .records_bytes = write->buf->bytes };
    (void)broker_produce(write->broker, &writing->produce);
}

static enum ot_err produce_error(const struct ot_produce_response *response)
{
    if (response->responses.count != 1 || response->responses.items[0].partition_responses.count != 1) return OT_ERR_MALFORMED;
    return (enum ot_err)response->responses.items[0].partition_responses.items[0].error_code;
}

static void write_there(struct broker_event_writing *writing, int32_t leader, bool alone);

static void produced_there(struct broker_peer_call *call)
{
    struct broker_event_writing *writing = OT_CONTAINER(call, struct broker_event_writing, call);
    if (call->error == OT_ERR_BUSY && call->alone) {           /* readers have all of them: what happened is written all the same */
        broker_peer_call_end(call);
        write_there(writing, call->node_id, false);
        return;
    }
    const enum ot_err err = call->error != OT_OK ? call->error : produce_error(&writing->response);
    broker_peer_call_end(call);
    write_done(writing->write, err);
}

/* alone: it waits for replicas, and one that died would hold up what transactions ask there. */
static void write_there(struct broker_event_writing *writing, int32_t leader, bool alone)
{
    struct broker_event_write *write = writing->write;
    struct ot_produce_request request;
    struct ot_produce_request_topic_produce_data topic;
    struct ot_produce_request_partition_produce_data part;
    ot_produce_request_defaults(&request);
    ot_produce_request_topic_produce_data_defaults(&topic);
    ot_produce_request_partition_produce_data_defaults(&part);
    part.records = (struct ot_blob){ write->buf->data, write->buf->bytes, false };
    topic.name = ot_str_of(BROKER_EVENTS_TOPIC);
    topic.partition_data = (struct ot_produce_request_partition_produce_data_array){ &part, 1 };
    request.acks = -1;
    request.timeout_ms = WRITE_TIMEOUT_MS;
    request.topic_data = (struct ot_produce_request_topic_produce_data_array){ &topic, 1 };
    writing->call = (struct broker_peer_call){ .node_id = leader, .api = OT_API_PRODUCE, .version = VERSION_PRODUCE, .request = &request, .response = &writing->response, .arena = &writing->arena,
        .deadline_us = ot_exec_now_us(write->home) + WRITE_TIMEOUT_MS * 1000 + DEADLINE_US, .home = write->home, .done = produced_there, .alone = alone };
    broker_peer_call(write->broker, &writing->call);
}

static void write_refused(struct ot_task *task)
{
    struct broker_event_writing *writing = OT_CONTAINER(task, struct broker_event_writing, task);
    write_done(writing->write, OT_ERR_LEADER_NOT_AVAILABLE);
}

void broker_event_write(struct broker *broker, struct broker_event_write *write)
{
    struct broker_event_topic topic = { .leader = -1 };
    struct broker_event_writing *writing = calloc(1, sizeof *writing);
    write->broker = broker;
    write->writing = writing;
    if (writing == NULL) {
        write_done(write, OT_ERR_NO_MEMORY);
        return;
    }
    writing->write = write;
    ot_arena_init(&writing->arena, ARENA_BYTES);
    const bool found = broker_event_topic(broker, &topic);
    if (found && topic.leader == broker->node_id) {
        write_here(writing);
    } else if (found && topic.leader != -1 && broker->peers != NULL) {
        write_there(writing, topic.leader, true);
    } else {
        writing->task.run = write_refused;
        ot_exec_post(write->home, &writing->task);
    }
}

/* ---- reading */

struct broker_event_reading {
    struct broker_event_read *read;
    struct broker *broker;
    struct ot_uuid topic_id;
    struct ot_task task;
    struct ot_arena arena;
    struct broker_fetch fetch; struct broker_fetch_ask ask; bool fetched;
    struct broker_fetch_row row;               /* what another broker sent, as a fetch here would have it */
    struct broker_records records;
    struct broker_peer_call call; int32_t leader;
    struct ot_fetch_response fetch_response; bool called;
    struct ot_list_offsets_response list_response;
    struct broker_offsets offsets; struct broker_offsets_part ends[2];
    bool out_of_range;
};

static void read_done_run(struct ot_task *task)
{
    struct broker_event_reading *reading = OT_CONTAINER(task, struct broker_event_reading, task);
    struct broker_event_read *read = reading->read;
    ot_arena_free(&reading->arena);
    free(reading);
    read->reading = NULL;
    read->call.done(&read->call);
}

static void read_done(struct broker_event_reading *reading, enum ot_err err)
{
    struct broker_event_read *read = reading->read;
    if (reading->fetched) broker_fetch_release(&reading->fetch);
    if (reading->called) broker_peer_call_end(&reading->call);
    reading->fetched = reading->called = false;
    read->error = err;
    if (err != OT_OK && err != OT_ERR_OFFSET_OUT_OF_RANGE) read->first = read->end = -1;
    reading->task.run = read_done_run;
    ot_exec_post(read->call.home, &reading->task);
}

static bool each_record(struct broker_records *records, const struct broker_record_view *record)
{
    struct broker_event_reading *reading = OT_CONTAINER(records, struct broker_event_reading, records);
    struct broker_event_read *read = reading->read;
    if (record->offset >= read->end) return false;
    if (!read->each(read, record->offset, record->value)) return false;
    read->next = record->offset + 1;
    return true;
}

static void records_read(struct broker_call *call)
{
    struct broker_event_reading *reading = OT_CONTAINER(call, struct broker_event_reading, records.call);
    read_done(reading, reading->records.error);
}

static void walk_row(struct broker_event_reading *reading, const struct broker_fetch_row *row)
{
    struct broker_event_read *read = reading->read;
    if (row->read.bytes == 0) {
        read_done(reading, OT_OK);
        return;
    }
    reading->records = (struct broker_records){ .call = { .home = read->call.home, .done = records_read }, .row = row, .from_offset = read->from, .pool = read->pool, .each = each_record };
    broker_records_read(reading->broker, &reading->records);
}

/* ---- a replica here */

static void fetched_here(struct broker_call *call)
{
    struct broker_event_reading *reading = OT_CONTAINER(call, struct broker_event_reading, fetch.call);
    const struct broker_fetch_row *row = reading->fetch.row_count > 0 ? &reading->fetch.rows[0] : NULL;
    reading->fetched = true;
    const enum ot_err err = reading->fetch.error != OT_OK ? reading->fetch.error : row == NULL ? OT_ERR_LEADER_NOT_AVAILABLE : row->error;
    if (err == OT_OK) walk_row(reading, row);
    else read_done(reading, err);
}

/* As a client is told them: a new leader says where the log ends once its high watermark has reached its epoch. */
static void ends_told(struct broker_call *call)
{
    struct broker_event_reading *reading = OT_CONTAINER(call, struct broker_event_reading, offsets.call);
    const enum ot_err err = reading->ends[0].error != OT_OK ? reading->ends[0].error : reading->ends[1].error;
    reading->read->first = reading->ends[0].offset;
    reading->read->end = reading->ends[1].offset;
    read_done(reading, err == OT_OK ? OT_OK : OT_ERR_LEADER_NOT_AVAILABLE);
}

static void ask_ends(struct broker_event_reading *reading)
{
    for (int i = 0; i < 2; i++)
        reading->ends[i] = (struct broker_offsets_part){ .topic = ot_str_of(BROKER_EVENTS_TOPIC), .current_leader_epoch = -1, .at = i == 0 ? EARLIEST : LATEST };
    reading->offsets = (struct broker_offsets){ .call = { .home = reading->read->call.home, .done = ends_told }, .kind = BROKER_LIST_OFFSETS, .api_version = VERSION_LIST_OFFSETS, .parts = reading->ends,
        .part_count = 2 };
    broker_offsets(reading->broker, &reading->offsets);
}

/* False: there is none. */
static bool read_here(struct broker_event_reading *reading)
{
    struct broker_event_read *read = reading->read;
    struct broker_partition *partition = broker_partition_find_id(reading->broker, &reading->topic_id, 0);
    struct broker_partition_state state;
    if (partition == NULL) return false;
    broker_partition_state(partition, &state);
    broker_partition_put(partition);
    if (!state.open || state.offline || (read->leader_only && !state.leader)) return false;
    if (read->from < 0 && state.leader && read->leader_only) {
        ask_ends(reading);
        return true;
    }
    read->first = state.log_start_offset;
    read->end = OT_MAX(state.high_watermark, state.log_start_offset);
    read->next = read->from;
    if (read->from < 0 || read->from == read->end) {
        read_done(reading, OT_OK);
        return true;
    }
    if (read->from < read->first || read->from > read->end) {
        read_done(reading, OT_ERR_OFFSET_OUT_OF_RANGE);
        return true;
    }
    reading->ask = (struct broker_fetch_ask){ .topic = { .null = true }, .topic_id = reading->topic_id, .offset = read->from, .log_start_offset = -1, .leader_epoch = -1, .last_epoch = -1,
        .max_bytes = read->max_bytes };
    /* a rack, so that a follower answers too */
    reading->fetch = (struct broker_fetch){ .call = { .home = read->call.home, .done = fetched_here }, .api_version = VERSION_FETCH, .replica_id = -1, .replica_epoch = -1, .min_bytes = 1,
        .max_bytes = read->max_bytes, .session_epoch = -1, .rack = ot_str_of(".events"), .asks = &reading->ask, .ask_count = 1, .arena = &reading->arena,
        .client = { .client_id = ot_str_of("events"), .software_name = { .null = true }, .software_version = { .null = true }, .address = ot_str_of(""), .listener = ot_str_of("EVENTS") } };
    broker_fetch(reading->broker, &reading->fetch);
    return true;
}

/* ---- the leader elsewhere */

static void silent(struct broker_event_reading *reading)       /* it did not answer, or leads no longer */
{
    if (reading->called) broker_peer_call_end(&reading->call);
    reading->called = false;
    if (!read_here(reading)) read_done(reading, OT_ERR_LEADER_NOT_AVAILABLE);
}

static void bounds(struct broker_event_reading *reading, int64_t which, void (*done)(struct broker_peer_call *call))
{
    struct ot_list_offsets_request request;
    struct ot_list_offsets_request_list_offsets_topic topic;
    struct ot_list_offsets_request_list_offsets_partition part;
    ot_list_offsets_request_defaults(&request);
    ot_list_offsets_request_list_offsets_topic_defaults(&topic);
    ot_list_offsets_request_list_offsets_partition_defaults(&part);
    part.timestamp = which;
    topic.name = ot_str_of(BROKER_EVENTS_TOPIC);
    topic.partitions = (struct ot_list_offsets_request_list_offsets_partition_array){ &part, 1 };
    request.replica_id = -1;
    request.topics = (struct ot_list_offsets_request_list_offsets_topic_array){ &topic, 1 };
    if (reading->called) broker_peer_call_end(&reading->call);
    reading->called = true;
    reading->call = (struct broker_peer_call){ .node_id = reading->leader, .api = OT_API_LIST_OFFSETS, .version = VERSION_LIST_OFFSETS, .request = &request, .response = &reading->list_response,
        .arena = &reading->arena, .deadline_us = ot_exec_now_us(reading->read->call.home) + DEADLINE_US, .home = reading->read->call.home, .done = done };
    broker_peer_call(reading->broker, &reading->call);
}

static bool bound_of(struct broker_event_reading *reading, int64_t *out)
{
    const struct ot_list_offsets_response *response = &reading->list_response;
    if (reading->call.error != OT_OK || response->topics.count != 1 || response->topics.items[0].partitions.count != 1) return false;
    const struct ot_list_offsets_response_list_offsets_partition_response *part = &response->topics.items[0].partitions.items[0];
    *out = part->offset;
    return part->error_code == 0 && part->offset >= 0;
}

static void latest_told(struct broker_peer_call *call)
{
    struct broker_event_reading *reading = OT_CONTAINER(call, struct broker_event_reading, call);
    if (bound_of(reading, &reading->read->end)) read_done(reading, reading->out_of_range ? OT_ERR_OFFSET_OUT_OF_RANGE : OT_OK);
    else silent(reading);
}

static void earliest_told(struct broker_peer_call *call)
{
    struct broker_event_reading *reading = OT_CONTAINER(call, struct broker_event_reading, call);
    if (bound_of(reading, &reading->read->first)) bounds(reading, LATEST, latest_told);
    else silent(reading);
}

static void fetched_there(struct broker_peer_call *call)
{
    struct broker_event_reading *reading = OT_CONTAINER(call, struct broker_event_reading, call);
    const struct ot_fetch_response *response = &reading->fetch_response;
    if (call->error != OT_OK || response->error_code != 0 || response->responses.count != 1 || response->responses.items[0].partitions.count != 1) {
        silent(reading);
        return;
    }
    const struct ot_fetch_response_partition_data *part = &response->responses.items[0].partitions.items[0];
    if (part->error_code == OT_ERR_OFFSET_OUT_OF_RANGE) {
        reading->out_of_range = true;
        bounds(reading, EARLIEST, earliest_told);
        return;
    }
    if (part->error_code != 0) {
        silent(reading);
        return;
    }
    reading->read->first = part->log_start_offset;
    reading->read->end = part->high_watermark;
    const uint32_t bytes = part->records.null ? 0 : part->records.bytes;
    reading->row = (struct broker_fetch_row){ .aborted_count = -1, .read = { .span_count = 1, .bytes = bytes, .spans = { { .memory = part->records.data, .fd = -1, .bytes = bytes } } } };
    walk_row(reading, &reading->row);
}

static void read_there(struct broker_event_reading *reading)
{
    struct broker_event_read *read = reading->read;
    struct ot_fetch_request request;
    struct ot_fetch_request_fetch_topic topic;
    struct ot_fetch_request_fetch_partition part;
    read->next = read->from;
    if (read->from < 0) {
        bounds(reading, EARLIEST, earliest_told);
        return;
    }
    ot_fetch_request_defaults(&request);
    ot_fetch_request_fetch_topic_defaults(&topic);
    ot_fetch_request_fetch_partition_defaults(&part);
    part.fetch_offset = read->from;
    part.partition_max_bytes = read->max_bytes;
    topic.topic_id = reading->topic_id;
    topic.partitions = (struct ot_fetch_request_fetch_partition_array){ &part, 1 };
    request.max_wait_ms = 0;
    request.min_bytes = 0;
    request.max_bytes = read->max_bytes;
    request.topics = (struct ot_fetch_request_fetch_topic_array){ &topic, 1 };
    reading->called = true;
    reading->call = (struct broker_peer_call){ .node_id = reading->leader, .api = OT_API_FETCH, .version = VERSION_FETCH, .request = &request, .response = &reading->fetch_response,
        .arena = &reading->arena, .answer_bytes_max = (uint32_t)read->max_bytes + BATCH_ROOM_BYTES, .deadline_us = ot_exec_now_us(read->call.home) + DEADLINE_US, .home = read->call.home,
        .done = fetched_there };
    broker_peer_call(reading->broker, &reading->call);
}

static void read_refused(struct ot_task *task)
{
    struct broker_event_reading *reading = OT_CONTAINER(task, struct broker_event_reading, task);
    read_done(reading, reading->read->error);
}

static void no_memory_run(struct ot_task *task)
{
    struct broker_event_read *read = OT_CONTAINER(task, struct broker_event_read, call.task);
    read->call.done(&read->call);
}

void broker_event_read(struct broker *broker, struct broker_event_read *read)
{
    struct broker_event_topic topic = { .leader = -1 };
    struct broker_event_reading *reading = calloc(1, sizeof *reading);
    read->reading = reading;
    read->first = read->end = -1;
    read->next = read->from;
    if (reading == NULL) {
        read->error = OT_ERR_NO_MEMORY;
        read->call.task.run = no_memory_run;
        ot_exec_post(read->call.home, &read->call.task);
        return;
    }
    reading->read = read;
    reading->broker = broker;
    ot_arena_init(&reading->arena, ARENA_BYTES);
    const bool found = broker_event_topic(broker, &topic);
    reading->topic_id = topic.id;
    reading->leader = topic.leader;
    if (found && topic.leader != -1 && topic.leader != broker->node_id && broker->peers != NULL) {
        read_there(reading);
    } else if (!found || !read_here(reading)) {
        read->error = found ? OT_ERR_LEADER_NOT_AVAILABLE : OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
        reading->task.run = read_refused;
        ot_exec_post(read->call.home, &reading->task);
    }
}
