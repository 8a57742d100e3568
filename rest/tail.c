/* GET /v1/topics/{topic}/tail: records as they are committed, as server-sent events.
 *
 *   fetch (waits up to ten seconds) ─► rows ─► records of one row on an I/O thread ─► into the stream ─► next row … ─► fetch
 *
 * `event: record` carries one record, its id says where all partitions go on, so that Last-Event-ID loses nothing; `event: gap` tells offsets that were deleted
 * before they could be read; `event: end` why the stream is over. A comment comes every ten seconds. A reader that is slow is waited for: nothing is
 * read for it meanwhile, and nothing is lost. */
#include "base/util.h"
#include "rest/filter.h"
#include "rest/handlers.h"
#include "rest/inside.h"
#include "rest/problem.h"
#include "rest/record_text.h"
#include "rest/stream.h"
#include "rest/topic_view.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_MS = 10000, BYTES = 1 << 20, PARTITION_BYTES = 256 << 10, PARTITIONS_MAX = 1000, IDS_MAX = 32, TURN_BYTES = 128 << 10, EVENT_BYTES_MAX = 64 << 20 };

struct place { int32_t partition; int64_t offset; };

struct tail {
    struct rest_server *server;
    struct broker *broker;
    struct rest_stream *stream;
    struct broker_fetch fetch;
    struct broker_fetch_ask *asks;             /* as many as places */
    struct broker_records records;
    struct ot_arena rows, memory;              /* of one fetch; of the filter */
    struct place *places; uint32_t place_count;
    struct ot_uuid topic_id;
    char topic[256], address[64];
    struct rest_filter filter;
    struct rest_record_form form;
    bool read_committed, fetching, reading, paused, ending, big_as_text, cut;
    uint32_t row, place;                       /* being read */
    struct rest_json out;                      /* events of one read */
    int64_t put_us;
};

static void fetch(struct tail *tail);
static void next_row(struct tail *tail);

static void tail_free(struct tail *tail)
{
    ot_arena_free(&tail->rows);
    ot_arena_free(&tail->memory);
    rest_json_free(&tail->out);
    free(tail->places);
    free(tail->asks);
    free(tail);
}

static void end(struct tail *tail)
{
    rest_stream_end(tail->stream);
    tail_free(tail);
}

static void put(struct tail *tail, const char *text, size_t bytes)
{
    if (!rest_stream_put(tail->stream, text, bytes)) tail->ending = true;
    tail->put_us = ot_clock_boot_us();
}

/* ---- events */

static void event_open(struct rest_json *out, const char *event)
{
    rest_json_put(out, "event: ", 7);
    rest_json_put(out, event, strlen(event));
    rest_json_put(out, "\ndata: ", 7);
    out->comma = false;
    rest_json_open(out, NULL, '{');
}

static void event_close(struct rest_json *out)
{
    rest_json_close(out, '}');
    rest_json_put(out, "\n\n", 2);
}

/* Where everything goes on: "0:42,1:17". The partition that is being read is at `offset`. */
static void put_id(struct tail *tail, int64_t offset)
{
    char text[48];
    if (tail->place_count > IDS_MAX) return;
    rest_json_put(&tail->out, "id: ", 4);
    for (uint32_t i = 0; i < tail->place_count; i++) {
        const int bytes = snprintf(text, sizeof(text), "%s%d:%" PRId64, i == 0 ? "" : ",", tail->places[i].partition, i == tail->place ? offset : tail->places[i].offset);
        rest_json_put(&tail->out, text, (size_t)bytes);
    }
    rest_json_put(&tail->out, "\n", 1);
}

static void begin_events(struct tail *tail)
{
    rest_json_free(&tail->out);
    rest_json_init(&tail->out, EVENT_BYTES_MAX);
    tail->out.big_as_text = tail->big_as_text;
}

static void send_events(struct tail *tail)
{
    if (rest_json_failed(&tail->out)) tail->ending = true;
    else if (tail->out.bytes > 0) put(tail, tail->out.data, tail->out.bytes);
    begin_events(tail);
}

static void end_with(struct tail *tail, enum ot_err err)
{
    struct rest_problem_facts facts;
    rest_problem_of(err, &facts);
    event_open(&tail->out, "end");
    rest_json_text(&tail->out, "error", facts.name);
    rest_json_text(&tail->out, "detail", facts.title);
    event_close(&tail->out);
    send_events(tail);
    tail->ending = true;
}

static void gap(struct tail *tail, struct place *place, int64_t to)
{
    event_open(&tail->out, "gap");
    rest_json_int(&tail->out, "partition", place->partition);
    rest_json_big(&tail->out, "from_offset", place->offset);
    rest_json_big(&tail->out, "to_offset", to);
    event_close(&tail->out);
    send_events(tail);
    place->offset = to;
}

/* ---- reading one row; each_record on an I/O thread, which has the tail for itself meanwhile */

static bool each_record(struct broker_records *records, const struct broker_record_view *record)
{
    struct tail *tail = OT_CONTAINER(records, struct tail, records);
    struct rest_json *out = &tail->out;
    if (out->bytes > TURN_BYTES) {
        tail->cut = true;
        return false;
    }
    if (!rest_filter_passes(&tail->filter, record)) return true;
    put_id(tail, record->offset + 1);
    rest_json_put(out, "event: record\ndata: ", 20);
    out->comma = false;
    const size_t from = out->bytes;
    rest_record_write(out, record, &tail->form, tail->places[tail->place].partition);
    rest_one_line(out, from);
    rest_json_put(out, "\n\n", 2);
    return true;
}

static void rows_over(struct tail *tail)
{
    broker_fetch_release(&tail->fetch);
    if (ot_clock_boot_us() - tail->put_us >= (int64_t)WAIT_MS * 1000 - 200000) put(tail, ": nothing new\n\n", 15);
    if (tail->ending) end(tail);
    else if (rest_stream_room(tail->stream)) fetch(tail);
    else tail->paused = true;
}

static void row_read(struct broker_call *call)
{
    struct tail *tail = OT_CONTAINER(call, struct tail, records.call);
    tail->reading = false;
    tail->places[tail->place].offset = OT_MAX(tail->places[tail->place].offset, tail->records.next_offset);
    send_events(tail);
    if (tail->records.error != OT_OK) end_with(tail, tail->records.error);
    if (!tail->cut) tail->row++;               /* cut: the rest of it is read once more, when this has left */
    if (tail->ending || tail->cut) rows_over(tail);
    else next_row(tail);
}

static struct place *place_of(struct tail *tail, int32_t partition)
{
    for (uint32_t i = 0; i < tail->place_count; i++)
        if (tail->places[i].partition == partition) return &tail->places[i];
    return NULL;
}

/* Trimmed or truncated past where we are. */
static void out_of_range(struct tail *tail, struct place *place)
{
    struct broker_partition_state state;
    struct broker_partition *partition = broker_partition_find_id(tail->broker, &tail->topic_id, place->partition);
    if (partition == NULL) {
        end_with(tail, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
        return;
    }
    broker_partition_state(partition, &state);
    broker_partition_put(partition);
    gap(tail, place, place->offset < state.log_start_offset ? state.log_start_offset : state.high_watermark);
}

static void next_row(struct tail *tail)
{
    for (; tail->row < tail->fetch.row_count && !tail->ending; tail->row++) {
        const struct broker_fetch_row *row = &tail->fetch.rows[tail->row];
        struct place *place = place_of(tail, row->partition);
        if (place == NULL || (row->error == OT_OK && row->read.bytes == 0)) continue;
        if (row->error == OT_ERR_OFFSET_OUT_OF_RANGE) {
            out_of_range(tail, place);
            continue;
        }
        if (row->error != OT_OK) {
            end_with(tail, row->error == OT_ERR_UNKNOWN_TOPIC_ID ? OT_ERR_UNKNOWN_TOPIC_OR_PARTITION : row->error);      /* deleted */
            break;
        }
        tail->place = (uint32_t)(place - tail->places);
        tail->cut = false;
        tail->reading = true;
        tail->records = (struct broker_records){ .call = { .home = tail->server->exec, .done = row_read }, .row = row, .from_offset = place->offset,
            .pool = tail->server->setup.body_pool, .each = each_record };
        broker_records_read(tail->broker, &tail->records);
        return;
    }
    rows_over(tail);
}

/* ---- fetching */

static void fetched(struct broker_call *call)
{
    struct tail *tail = OT_CONTAINER(call, struct tail, fetch.call);
    tail->fetching = false;
    if (tail->fetch.error != OT_OK && !tail->ending) end_with(tail, tail->fetch.error);
    tail->row = 0;
    if (tail->ending) rows_over(tail);
    else next_row(tail);
}

/* Partitions that were added since; without a choice of the client all are followed. */
static void take_new_partitions(struct tail *tail)
{
    struct broker_view_topic topic;
    const struct broker_view *view = broker_view_take(tail->broker);
    const bool found = broker_view_topic_by_id(view, &tail->topic_id, &topic);
    broker_view_give(view);
    if (!found) end_with(tail, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    if (!found || tail->filter.partition_count > 0) return;
    while (tail->place_count < (uint32_t)OT_MIN(topic.partition_count, PARTITIONS_MAX)) {
        struct place *places = realloc(tail->places, (tail->place_count + 1) * sizeof(*places));
        struct broker_fetch_ask *asks = realloc(tail->asks, (tail->place_count + 1) * sizeof(*asks));
        if (places != NULL) tail->places = places;
        if (asks != NULL) tail->asks = asks;
        if (places == NULL || asks == NULL) return;            /* with the next fetch, then */
        tail->places[tail->place_count] = (struct place){ (int32_t)tail->place_count, 0 };
        tail->place_count++;
    }
}

static void fetch(struct tail *tail)
{
    take_new_partitions(tail);
    if (tail->ending) {
        end(tail);
        return;
    }
    for (uint32_t i = 0; i < tail->place_count; i++)
        tail->asks[i] = (struct broker_fetch_ask){ .topic = { .null = true }, .topic_id = tail->topic_id, .partition = tail->places[i].partition, .offset = tail->places[i].offset,
            .log_start_offset = -1, .leader_epoch = -1, .last_epoch = -1, .max_bytes = PARTITION_BYTES };
    ot_arena_reset(&tail->rows);
    tail->fetch = (struct broker_fetch){ .call = { .home = tail->server->exec, .done = fetched }, .api_version = 18, .replica_id = -1, .replica_epoch = -1,
        .max_wait_ms = WAIT_MS, .min_bytes = 1, .max_bytes = BYTES, .read_committed = tail->read_committed, .session_id = 0, .session_epoch = -1, .asks = tail->asks,
        .ask_count = tail->place_count, .arena = &tail->rows,
        .client = { .client_id = ot_str_of("rest"), .software_name = { .null = true }, .software_version = { .null = true }, .address = ot_str_of(tail->address),
            .listener = ot_str_of("REST") } };
    tail->fetching = true;
    broker_fetch(tail->broker, &tail->fetch);
}

/* ---- the stream's side */

static void drained(void *arg)
{
    struct tail *tail = arg;
    if (!tail->paused) return;
    tail->paused = false;
    fetch(tail);
}

static void left(void *arg)
{
    struct tail *tail = arg;
    tail->ending = true;
    if (tail->fetching) broker_fetch_cancel(&tail->fetch);
    else if (!tail->reading) end(tail);        /* paused */
}

/* ---- starting */

/* Last-Event-ID: "0:42,1:17". False: none of ours. */
static bool go_on_from(struct tail *tail, const char *id)
{
    for (const char *at = id; *at != 0;) {
        char *stop = NULL;
        const long partition = strtol(at, &stop, 10);
        if (stop == at || *stop != ':') return false;
        const char *number = stop + 1;
        const long long offset = strtoll(number, &stop, 10);
        struct place *place = partition < 0 || partition > INT32_MAX ? NULL : place_of(tail, (int32_t)partition);
        if (stop == number || offset < 0 || place == NULL || (*stop != ',' && *stop != 0)) return false;
        place->offset = offset;
        at = stop + (*stop == ',');
    }
    return id[0] != 0;
}

static bool set_places(struct tail *tail, int32_t partition_count)
{
    const uint32_t count = tail->filter.partition_count > 0 ? tail->filter.partition_count : (uint32_t)partition_count;
    tail->places = calloc(count, sizeof(*tail->places));
    tail->asks = calloc(count, sizeof(*tail->asks));
    if (tail->places == NULL || tail->asks == NULL) return false;
    tail->place_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct broker_partition_state state = { 0 };
        const int32_t index = tail->filter.partition_count > 0 ? tail->filter.partitions[i] : (int32_t)i;
        struct broker_partition *partition = broker_partition_find_id(tail->broker, &tail->topic_id, index);
        if (partition != NULL) broker_partition_state(partition, &state);
        broker_partition_put(partition);
        tail->places[i] = (struct place){ index, tail->read_committed ? state.last_stable_offset : state.high_watermark };
    }
    return true;
}

static struct tail *tail_new(struct rest_call *call, const struct broker_view_topic *topic)
{
    struct tail *tail = calloc(1, sizeof(*tail));
    if (tail == NULL) return NULL;
    tail->server = call->server;
    tail->broker = call->broker;
    tail->topic_id = topic->id;
    tail->big_as_text = call->out.big_as_text;
    tail->put_us = ot_clock_boot_us();
    snprintf(tail->topic, sizeof(tail->topic), "%.*s", (int)topic->name.bytes, topic->name.data);
    snprintf(tail->address, sizeof(tail->address), "%s", call->peer);
    ot_arena_init(&tail->rows, 4 << 20);
    ot_arena_init(&tail->memory, 64 << 10);
    begin_events(tail);
    return tail;
}

/* False: answered. */
static bool read_wishes(struct rest_call *call, struct tail *tail, const struct broker_view_topic *topic)
{
    static const char *const isolations[] = { "read_uncommitted", "read_committed" };
    rest_filter_read(call, topic->partition_count, &tail->filter);
    rest_record_form_read(call, &tail->form);
    tail->read_committed = rest_query_choice(call, "isolation", isolations, 2, 0) == 1;
    if (topic->partition_count > PARTITIONS_MAX && tail->filter.partition_count == 0) rest_fault_query(call, "partition", "must choose: the topic has %d partitions", topic->partition_count);
    if (rest_faulty(call)) return false;
    if (!rest_filter_keep(&tail->filter, &tail->memory) || !set_places(tail, topic->partition_count)) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the stream");
        return false;
    }
    if (call->last_event_id == NULL || go_on_from(tail, call->last_event_id)) return true;
    rest_problem_http(call, "HTTP_BAD_REQUEST", "Last-Event-ID is not one of this stream");
    return false;
}

void rest_tail(struct rest_call *call)
{
    static const struct rest_stream_ops ops = { drained, left };
    struct broker_view_topic topic;
    const struct broker_view *view = broker_view_take(call->broker);
    struct tail *tail = NULL;
    if (rest_topic_find(call, view, &topic)) {
        tail = tail_new(call, &topic);
        if (tail == NULL) {
            rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the stream");
        } else if (!read_wishes(call, tail, &topic)) {
            tail_free(tail);
            tail = NULL;
        }
    }
    broker_view_give(view);
    if (tail == NULL) return;
    tail->stream = rest_stream_start(call, &ops, tail);
    if (tail->stream == NULL) {
        tail_free(tail);
        return;
    }
    put(tail, "retry: 2000\n\n", 13);
    fetch(tail);
}
