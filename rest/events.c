/* GET /v1/events and …/isr-history: what happened, from the topic of events; the newest first, or the oldest.
 *
 * The log is read forwards, so for the newest a stretch is read from its end backwards, what passes is kept as text, and given out in reverse. Bounded: 100 000 events or ten seconds a
 * request; the page_token goes on where it ended. */
#include "base/util.h"
#include "rest/event_filter.h"
#include "rest/handlers.h"
#include "rest/inside.h"
#include "rest/problem.h"
#include "rest/topic_view.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { READ_BYTES = 1 << 20, STRETCH_ALL = 1000, STRETCH_FILTERED = 10000, SCAN_EVENTS = 100000, SCAN_US = 8000000, KEPT_BYTES_MAX = 16 << 20 };
#define FIRST_WAIT_US 2000000
#define LOOK_US 50000

struct kept { int64_t id; char *text; uint32_t bytes; };
struct events {
    struct broker_event_read read;
    struct rest_call *call;
    struct rest_event_filter filter;
    struct rest_event_seen seen;
    bool ascending, no_memory;
    int64_t since_id;                          /* events up to it are not wanted; -1: all */
    int64_t low, high;                         /* of what may be given out: [low, high) */
    int64_t from, stop;                        /* the stretch that is read: [from, stop) */
    int64_t scanned, last;                     /* last: the id that the next page goes on from */
    struct kept *kept; uint32_t count, cap; size_t kept_bytes;
    int64_t began_us;
};

static void read_stretch(struct events *events, int64_t from);

static void drop(struct events *events)
{
    for (uint32_t i = 0; i < events->count; i++) free(events->kept[i].text);
    events->count = 0;
    events->kept_bytes = 0;
}

static void finish(struct events *events, bool more)
{
    struct rest_call *call = events->call;
    drop(events);
    free(events->kept);
    rest_list_reply_int(call, 'e', more, events->last, -1, NULL);
}

static void fail(struct events *events, enum ot_err err)
{
    drop(events);
    free(events->kept);
    rest_problem(events->call, err, "%s", err == OT_ERR_LEADER_NOT_AVAILABLE ? "no broker that holds the events can be reached" : ot_err_text(err));
}

/* ---- reading; each_event on an I/O thread, which has events for itself meanwhile */

static bool keep(struct events *events, int64_t id, struct ot_blob json)
{
    struct rest_json text;
    if (events->count == events->cap) {
        const uint32_t cap = OT_MAX(events->cap * 2, 64u);
        struct kept *grown = realloc(events->kept, cap * sizeof(*grown));
        if (grown == NULL) return false;
        events->kept = grown;
        events->cap = cap;
    }
    rest_json_init(&text, 1 << 20);
    text.big_as_text = events->call->out.big_as_text;
    rest_event_write(&text, id, json);
    if (rest_json_failed(&text)) {
        rest_json_free(&text);
        return false;
    }
    events->kept[events->count++] = (struct kept){ id, text.data, (uint32_t)text.bytes };
    events->kept_bytes += text.bytes;
    return true;
}

static bool each_event(struct broker_event_read *read, int64_t id, struct ot_blob json)
{
    struct events *events = OT_CONTAINER(read, struct events, read);
    struct rest_event event;
    if (id >= events->stop || (events->ascending && events->call->list.count + events->count >= events->call->list.limit)) return false;
    events->scanned++;
    if (!rest_event_passes(&events->filter, json, &event) || rest_event_again(&events->seen, &event)) return true;
    events->no_memory = events->kept_bytes > KEPT_BYTES_MAX || !keep(events, id, json);
    return !events->no_memory;
}

/* ---- giving out */

static void give(struct events *events, const struct kept *kept)
{
    rest_list_item(events->call);
    rest_json_put(&events->call->out, kept->text, kept->bytes);
    events->last = kept->id;
}

static bool over(struct events *events)
{
    return events->call->stopping || events->scanned >= SCAN_EVENTS || ot_clock_boot_us() - events->began_us > SCAN_US;
}

static void gave_ascending(struct events *events)
{
    for (uint32_t i = 0; i < events->count; i++) give(events, &events->kept[i]);
    drop(events);
    if (events->call->list.count >= events->call->list.limit) {
        finish(events, events->read.next < events->high);
    } else if (events->read.next >= events->high || events->read.next == events->read.from) {
        finish(events, false);
    } else if (over(events)) {
        events->last = events->read.next - 1;
        finish(events, true);
    } else {
        read_stretch(events, events->read.next);
    }
}

static void gave_descending(struct events *events)
{
    uint32_t left = events->count;
    while (left > 0 && events->call->list.count < events->call->list.limit) give(events, &events->kept[--left]);
    const bool full = events->call->list.count >= events->call->list.limit;
    const int64_t low = events->from;
    drop(events);
    if (full) {
        finish(events, events->last > events->low);
    } else if (low <= events->low) {
        finish(events, false);
    } else if (over(events)) {
        events->last = low;
        finish(events, true);
    } else {
        const bool all = events->call->list.limit >= STRETCH_ALL || events->filter.types == (UINT64_C(1) << BROKER_EVENT_TYPE_COUNT) - 1;
        events->seen = (struct rest_event_seen){ 0, -1 };
        events->stop = low;
        events->from = OT_MAX(events->low, low - (all ? STRETCH_ALL : STRETCH_FILTERED));
        read_stretch(events, events->from);
    }
}

static void stretch_read(struct broker_call *call)
{
    struct events *events = OT_CONTAINER(call, struct events, read.call);
    struct broker_event_read *read = &events->read;
    if (events->no_memory) {
        fail(events, OT_ERR_NO_MEMORY);
    } else if (read->error == OT_ERR_OFFSET_OUT_OF_RANGE) {    /* retention was faster: there is nothing older any more */
        events->low = events->high;
        finish(events, false);
    } else if (read->error != OT_OK) {
        fail(events, read->error);
    } else if (events->ascending) {
        gave_ascending(events);
    } else if (read->next < events->stop && read->next > read->from) {
        read_stretch(events, read->next);
    } else {
        gave_descending(events);
    }
}

static void read_stretch(struct events *events, int64_t from)
{
    struct rest_call *call = events->call;
    events->read = (struct broker_event_read){ .call = { .home = call->home, .done = stretch_read }, .from = from, .max_bytes = READ_BYTES, .pool = call->server->setup.body_pool,
        .each = each_event };
    broker_event_read(call->broker, &events->read);
}

/* ---- the ends of the log, which are asked first */

static void ask_ends(struct events *events);

static void look_again(struct ot_timer *timer)
{
    struct rest_call *call = OT_CONTAINER(timer, struct rest_call, timer);
    ask_ends(call->state);
}

static void gone(struct events *events, int64_t first)
{
    rest_problem_http(events->call, "HTTP_GONE", "events up to %" PRId64 " are no longer kept: since=%" PRId64 " is older", first - 1, events->since_id);
}

static void begin(struct events *events, int64_t first, int64_t end)
{
    const int64_t after = events->call->list.after_int;
    if (events->since_id >= 0 && events->since_id + 1 < first) {
        gone(events, first);
        return;
    }
    events->low = OT_MAX(first, events->since_id + 1);
    events->high = end;
    if (after != INT64_MIN && events->ascending) events->low = OT_MAX(events->low, OT_MIN(after, INT64_MAX - 1) + 1);
    if (after != INT64_MIN && !events->ascending) events->high = OT_MIN(events->high, after);
    if (events->low >= events->high) {
        finish(events, false);
        return;
    }
    events->stop = events->high;
    events->from = events->ascending ? events->low : OT_MAX(events->low, events->high - STRETCH_ALL);
    read_stretch(events, events->from);
}

static void ends_told(struct broker_call *broker_call)
{
    struct events *events = OT_CONTAINER(broker_call, struct events, read.call);
    struct rest_call *call = events->call;
    const struct broker_event_read *read = &events->read;
    const bool none = read->error == OT_ERR_UNKNOWN_TOPIC_OR_PARTITION || (read->error == OT_OK && read->end == 0);
    const bool soon = (none || read->error == OT_ERR_LEADER_NOT_AVAILABLE) && !call->stopping && ot_clock_boot_us() - events->began_us < FIRST_WAIT_US;
    if (soon) {                                /* it is being made, and what is remembered is written into it */
        broker_events_wanted(call->broker);
        call->timer.fired = look_again;
        ot_exec_timer_set(call->home, &call->timer, ot_exec_now_us(call->home) + LOOK_US);
    } else if (none) {
        finish(events, false);
    } else if (read->error != OT_OK) {
        fail(events, read->error);
    } else {
        begin(events, read->first, read->end);
    }
}

static void ask_ends(struct events *events)
{
    struct rest_call *call = events->call;
    events->read = (struct broker_event_read){ .call = { .home = call->home, .done = ends_told }, .from = -1, .max_bytes = READ_BYTES, .pool = call->server->setup.body_pool, .each = each_event };
    broker_event_read(call->broker, &events->read);
}

/* ---- asked */

static struct events *events_new(struct rest_call *call)
{
    struct events *events = ot_arena_alloc(&call->arena, sizeof(*events));
    if (events == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the request");
        return NULL;
    }
    events->call = call;
    events->since_id = -1;
    events->seen = (struct rest_event_seen){ 0, -1 };
    events->began_us = ot_clock_boot_us();
    call->state = events;
    return events;
}

/* since: an id, or a time. */
static void read_since(struct rest_call *call, struct events *events)
{
    const struct ot_str since = rest_query_text(call, "since");
    bool digits = !since.null && since.bytes > 0;
    for (uint32_t i = 0; i < since.bytes && digits; i++) digits = since.data[i] >= '0' && since.data[i] <= '9';
    if (digits) events->since_id = rest_query_int(call, "since", 0, INT64_MAX - 1, -1);
    else if (!since.null) events->filter.since_ms = rest_query_time(call, "since", -1);
}

static void start(struct rest_call *call, struct events *events)
{
    static const char *const orders[] = { "newest", "oldest" };
    events->ascending = rest_query_choice(call, "order", orders, 2, 0) == 1;
    read_since(call, events);
    if (rest_list_begin(call, 'e', true)) ask_ends(events);
}

void rest_events_list(struct rest_call *call)
{
    struct events *events = events_new(call);
    if (events == NULL) return;
    rest_event_filter_read(call, false, &events->filter);
    start(call, events);
}

void rest_isr_history(struct rest_call *call)
{
    struct broker_view_topic topic;
    int32_t index = 0;
    const struct broker_view *view = broker_view_take(call->broker);
    const bool found = rest_partition_find(call, view, &topic, &index);
    broker_view_give(view);
    struct events *events = found ? events_new(call) : NULL;
    if (events == NULL) return;
    rest_event_filter_read(call, false, &events->filter);
    events->filter.types = UINT64_C(1) << BROKER_EVENT_ISR_SHRINK | UINT64_C(1) << BROKER_EVENT_ISR_EXPAND | UINT64_C(1) << BROKER_EVENT_LEADER_CHANGED | UINT64_C(1) << BROKER_EVENT_RECORDS_LOST
        | UINT64_C(1) << BROKER_EVENT_REASSIGNMENT_BEGUN | UINT64_C(1) << BROKER_EVENT_REASSIGNMENT_ENDED | UINT64_C(1) << BROKER_EVENT_REASSIGNMENT_CANCELLED;
    events->filter.topic = rest_param(call, 0);
    events->filter.partition = index;
    start(call, events);
}
