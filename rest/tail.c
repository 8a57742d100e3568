/* GET /v1/topics/{topic}/tail: records as they are committed, as server-sent events.
 *
 *   turn ─► fetch of what this broker leads ─► of what the next one leads, over the peer connection ─► … ─► turn
 *             └─► rows ─► records of one row on an I/O thread ─► into the stream ─► next row …
 *
 * Where this broker leads all of it, its fetch waits up to ten seconds for a record; else all are asked without waiting, and again after 200 ms in which nothing came.
 *
 * `event: record` carries one record, its id says where all partitions go on, so that Last-Event-ID loses nothing; `event: gap` tells offsets that were deleted
 * before they could be read; `event: end` why the stream is over. A partition that nobody leads is waited for. A comment comes every ten seconds. A reader that is slow is waited
 * for: nothing is read for it meanwhile, and nothing is lost. */
#include "base/util.h"
#include "broker/fetch_away.h"
#include "broker/lag.h"
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

enum { WAIT_MS = 10000, BYTES = 1 << 20, PARTITION_BYTES = 256 << 10, PARTITIONS_MAX = 1000, IDS_MAX = 32, TURN_BYTES = 128 << 10, EVENT_BYTES_MAX = 64 << 20, POLL_US = 200000,
    AWAY_US = 2000000, ENDS_US = 1000000 };

struct place {
    int32_t partition;
    int64_t offset;                            /* -1: where it begins is not known yet */
    int32_t leader;                            /* in this turn; -1 none */
    bool lost;                                 /* offset is not in the log any more: looked up where it goes on */
};

struct tail {
    struct rest_server *server;
    struct broker *broker;
    struct rest_stream *stream;                /* NULL: not begun */
    struct rest_call *call;                    /* until it has begun */
    struct broker_fetch fetch;
    struct broker_fetch_away away;
    struct broker_lag ends;
    struct broker_fetch_ask *asks; uint32_t ask_count;         /* room for as many as places */
    struct broker_records records;
    struct ot_arena rows, memory;              /* of one fetch; of the filter */
    struct place *places; uint32_t place_count;
    struct ot_uuid topic_id;
    char topic[256], address[64];
    struct rest_filter filter;
    struct rest_record_form form;
    bool read_committed, fetching, reading, looking, paused, ending, big_as_text, cut;
    int32_t leader;                            /* who is being fetched from */
    bool alone, got;                           /* this broker leads all of it; something came in this turn */
    const struct broker_fetch_row *row_list; uint32_t row_count, row, place;       /* being read */
    struct rest_json out;                      /* events of one read */
    struct ot_timer timer;                     /* until the next turn */
    int64_t put_us, looked_us;
};

static void turn(struct tail *tail);
static void next_leader(struct tail *tail);
static void next_row(struct tail *tail);

static bool is_here(const struct tail *tail) { return tail->leader == broker_node_id(tail->broker); }

static void tail_free(struct tail *tail)
{
    ot_arena_free(&tail->rows);
    ot_arena_free(&tail->memory);
    rest_json_free(&tail->out);
    free(tail->ends.parts);
    free(tail->places);
    free(tail->asks);
    free(tail);
}

static void end(struct tail *tail)
{
    ot_exec_timer_cancel(tail->server->exec, &tail->timer);
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

static void go_on(struct tail *tail)
{
    if (tail->ending) end(tail);
    else if (rest_stream_room(tail->stream)) next_leader(tail);
    else tail->paused = true;
}

static void rows_over(struct tail *tail)
{
    if (is_here(tail)) broker_fetch_release(&tail->fetch);
    else broker_fetch_away_release(&tail->away);
    tail->got |= tail->cut;
    go_on(tail);
}

static void row_read(struct broker_call *call)
{
    struct tail *tail = OT_CONTAINER(call, struct tail, records.call);
    tail->reading = false;
    tail->places[tail->place].offset = OT_MAX(tail->places[tail->place].offset, tail->records.next_offset);
    tail->got = true;
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
static void out_of_range(struct tail *tail, struct place *place, int64_t log_start_offset, int64_t high_watermark)
{
    place->lost = false;
    gap(tail, place, place->offset < log_start_offset ? log_start_offset : high_watermark);
    tail->got = true;
}

/* True: it passes, or another broker does better; false: the stream is over. */
static bool row_error(struct tail *tail, struct place *place, enum ot_err err)
{
    tail->alone = false;                       /* not at once again: the metadata here may be behind */
    const bool gone = err == OT_ERR_UNKNOWN_TOPIC_ID || err == OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    if (err == OT_ERR_OFFSET_OUT_OF_RANGE) {
        place->lost = true;
        return true;
    }
    if (ot_err_retriable(err) && !(gone && is_here(tail))) return true;        /* of another broker that does not know the topic yet */
    end_with(tail, gone ? OT_ERR_UNKNOWN_TOPIC_OR_PARTITION : err);
    return false;
}

static void next_row(struct tail *tail)
{
    for (; tail->row < tail->row_count && !tail->ending; tail->row++) {
        const struct broker_fetch_row *row = &tail->row_list[tail->row];
        struct place *place = place_of(tail, row->partition);
        if (place == NULL || (row->error == OT_OK && row->read.bytes == 0)) continue;
        if (row->error != OT_OK) {
            if (!row_error(tail, place, row->error)) break;
            continue;
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

static void rows_came(struct tail *tail, const struct broker_fetch_row *rows, uint32_t count)
{
    tail->fetching = false;
    tail->row_list = rows;
    tail->row_count = count;
    tail->row = 0;
    tail->cut = false;
    if (tail->ending) rows_over(tail);
    else next_row(tail);
}

static void fetched(struct broker_call *call)
{
    struct tail *tail = OT_CONTAINER(call, struct tail, fetch.call);
    if (tail->fetch.error != OT_OK && !tail->ending) end_with(tail, tail->fetch.error);
    rows_came(tail, tail->fetch.rows, tail->fetch.error == OT_OK ? tail->fetch.row_count : 0);
}

static void fetched_away(struct broker_fetch_away *away)       /* an error: its partitions are another's soon, or it is back */
{
    struct tail *tail = OT_CONTAINER(away, struct tail, away);
    rows_came(tail, away->rows, away->error == OT_OK ? away->row_count : 0);
}

static void fetch(struct tail *tail)
{
    ot_arena_reset(&tail->rows);
    tail->ask_count = 0;
    for (uint32_t i = 0; i < tail->place_count; i++) {
        const struct place *place = &tail->places[i];
        if (place->leader != tail->leader || place->offset < 0 || place->lost) continue;
        tail->asks[tail->ask_count++] = (struct broker_fetch_ask){ .topic = { .null = true }, .topic_id = tail->topic_id, .partition = place->partition, .offset = place->offset,
            .log_start_offset = -1, .leader_epoch = -1, .last_epoch = -1, .max_bytes = PARTITION_BYTES };
    }
    tail->fetching = true;
    if (!is_here(tail)) {
        tail->away = (struct broker_fetch_away){ .home = tail->server->exec, .done = fetched_away, .leader = tail->leader, .asks = tail->asks, .ask_count = tail->ask_count,
            .max_bytes = BYTES, .read_committed = tail->read_committed, .arena = &tail->rows, .deadline_us = ot_exec_now_us(tail->server->exec) + AWAY_US };
        broker_fetch_away(tail->broker, &tail->away);
        return;
    }
    tail->fetch = (struct broker_fetch){ .call = { .home = tail->server->exec, .done = fetched }, .api_version = 18, .replica_id = -1, .replica_epoch = -1,
        .max_wait_ms = tail->alone ? WAIT_MS : 0, .min_bytes = 1, .max_bytes = BYTES, .read_committed = tail->read_committed, .session_id = 0, .session_epoch = -1,
        .asks = tail->asks, .ask_count = tail->ask_count, .arena = &tail->rows,
        .client = { .client_id = ot_str_of("rest"), .software_name = { .null = true }, .software_version = { .null = true }, .address = ot_str_of(tail->address),
            .listener = ot_str_of("REST") } };
    broker_fetch(tail->broker, &tail->fetch);
}

/* ---- turns */

static void timer_fired(struct ot_timer *timer) { turn(OT_CONTAINER(timer, struct tail, timer)); }

static void turn_over(struct tail *tail)
{
    if (ot_clock_boot_us() - tail->put_us >= (int64_t)WAIT_MS * 1000 - 200000) put(tail, ": nothing new\n\n", 15);
    if (tail->ending) {
        end(tail);
    } else if (tail->alone || tail->got) {
        turn(tail);
    } else {
        tail->timer.fired = timer_fired;
        ot_exec_timer_set(tail->server->exec, &tail->timer, ot_exec_now_us(tail->server->exec) + POLL_US);
    }
}

static void next_leader(struct tail *tail)
{
    int32_t next = INT32_MAX;
    bool any = false;
    for (uint32_t i = 0; i < tail->place_count; i++) {
        const struct place *place = &tail->places[i];
        if (place->offset < 0 || place->lost || place->leader < 0 || place->leader <= tail->leader || (any && place->leader >= next)) continue;
        next = place->leader;
        any = true;
    }
    if (!any) {
        turn_over(tail);
        return;
    }
    tail->leader = next;
    fetch(tail);
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
        tail->places[tail->place_count] = (struct place){ .partition = (int32_t)tail->place_count, .leader = -1 };
        tail->place_count++;
    }
}

/* Where those begin that are not known, and go on that were lost. The answer is for the places as they were then: new ones come behind them. */
static void ends_take(struct tail *tail)
{
    for (uint32_t i = 0; i < tail->ends.part_count; i++) {
        const struct broker_lag_part *ends = &tail->ends.parts[i];
        struct place *place = place_of(tail, ends->partition);
        if (ends->error != OT_OK || place == NULL) continue;
        if (place->offset < 0) place->offset = tail->read_committed ? ends->last_stable_offset : ends->high_watermark;
        else out_of_range(tail, place, ends->log_start_offset, ends->high_watermark);
    }
    free(tail->ends.parts);
    tail->ends.parts = NULL;
}

/* False: none is to be looked up, or there is no memory (then with the next turn). */
static bool look_up(struct tail *tail, void (*done)(struct broker_call *call))
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < tail->place_count; i++) count += tail->places[i].offset < 0 || tail->places[i].lost;
    struct broker_lag_part *parts = count == 0 ? NULL : calloc(count, sizeof(*parts));
    if (parts == NULL) return false;
    count = 0;
    for (uint32_t i = 0; i < tail->place_count; i++)
        if (tail->places[i].offset < 0 || tail->places[i].lost)
            parts[count++] = (struct broker_lag_part){ .topic = ot_str_of(tail->topic), .partition = tail->places[i].partition, .offset = -1 };
    tail->ends = (struct broker_lag){ .call = { .home = tail->server->exec, .done = done }, .parts = parts, .part_count = count };
    tail->looking = true;
    tail->looked_us = ot_clock_boot_us();
    broker_lag(tail->broker, &tail->ends);
    return true;
}

static void looked_up(struct broker_call *call)
{
    struct tail *tail = OT_CONTAINER(call, struct tail, ends.call);
    tail->looking = false;
    if (!tail->ending) ends_take(tail);
    go_on(tail);
}

static void find_leaders(struct tail *tail)
{
    uint8_t room[8192];
    struct ot_arena arena;
    const int32_t own = broker_node_id(tail->broker);
    tail->alone = true;
    ot_arena_init_with(&arena, room, sizeof(room), 256 << 10);
    const struct broker_view *view = broker_view_take(tail->broker);
    for (uint32_t i = 0; i < tail->place_count; i++) {
        struct broker_view_partition row;
        ot_arena_reset(&arena);
        tail->places[i].leader = broker_view_partition(view, &tail->topic_id, tail->places[i].partition, &arena, &row) ? row.leader : -1;
        tail->alone &= tail->places[i].leader == own && tail->places[i].offset >= 0 && !tail->places[i].lost;
    }
    broker_view_give(view);
    ot_arena_free(&arena);
}

static void turn(struct tail *tail)
{
    take_new_partitions(tail);
    if (tail->ending) {
        end(tail);
        return;
    }
    find_leaders(tail);
    tail->got = false;
    tail->leader = INT32_MIN;
    if (ot_clock_boot_us() - tail->looked_us < ENDS_US || !look_up(tail, looked_up)) next_leader(tail);
}

/* ---- the stream's side */

static void drained(void *arg)
{
    struct tail *tail = arg;
    if (!tail->paused) return;
    tail->paused = false;
    next_leader(tail);
}

static void left(void *arg)
{
    struct tail *tail = arg;
    tail->ending = true;
    if (tail->fetching && is_here(tail)) broker_fetch_cancel(&tail->fetch);
    else if (tail->fetching) broker_fetch_away_cancel(tail->broker, &tail->away);
    else if (!tail->reading && !tail->looking) end(tail);      /* it is paused, or waits for its next turn */
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
    for (uint32_t i = 0; i < count; i++)
        tail->places[i] = (struct place){ .partition = tail->filter.partition_count > 0 ? tail->filter.partitions[i] : (int32_t)i, .offset = -1, .leader = -1 };
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

static void begin(struct tail *tail)
{
    static const struct rest_stream_ops ops = { drained, left };
    if (tail->call->stopping) rest_problem_http(tail->call, "HTTP_SERVICE_UNAVAILABLE", "the server is stopping");
    else tail->stream = rest_stream_start(tail->call, &ops, tail);
    tail->call = NULL;
    if (tail->stream == NULL) {
        tail_free(tail);
        return;
    }
    put(tail, "retry: 2000\n\n", 13);
    turn(tail);
}

/* Before the answer: what is written after it was seen is told. */
static void places_known(struct broker_call *call)
{
    struct tail *tail = OT_CONTAINER(call, struct tail, ends.call);
    tail->looking = false;
    ends_take(tail);
    begin(tail);
}

void rest_tail(struct rest_call *call)
{
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
    tail->call = call;
    if (!look_up(tail, places_known)) begin(tail);
}
