/* GET /v1/events/stream: events as they happen, as server-sent events.
 *
 *   look (four times a second, once where another broker leads the topic) ─► events of one read, on an I/O thread ─► into the stream ─► look
 *
 * `event:` names the family (isr, leader, broker, …), `id:` is the event's, so that Last-Event-ID goes on behind it; `event: gap` tells of ids that are no longer kept, or is an event of
 * that type. With types=metrics there are ticks of GET /v1/metrics beside them, without id; one that the reader has no room for is left out. A reader that takes nothing for ten
 * seconds while 256 events wait is told `event: overflow`, and the stream ends. A comment comes every ten seconds. */
#include "base/util.h"
#include "rest/event_filter.h"
#include "rest/handlers.h"
#include "rest/inside.h"
#include "rest/record_text.h"
#include "rest/stream.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READ_BYTES = 256 << 10, TURN_BYTES = 128 << 10, EVENT_BYTES_MAX = 8 << 20, OVERFLOW_EVENTS = 256, INTERVAL_MS = 2000 };
#define LOOK_US 250000
#define LOOK_FAR_US 1000000
#define COMMENT_US 9800000
#define PATIENCE_US 10000000

struct following {
    struct broker_event_read read;
    struct rest_server *server;
    struct broker *broker;
    struct rest_stream *stream;
    struct rest_event_filter filter;
    struct rest_event_seen seen;
    struct ot_arena memory;
    struct ot_timer timer, tick;
    struct rest_call as;                       /* whose name the ticks are asked with */
    int64_t next, end;                         /* next -1: at the end, which is not known yet */
    int64_t interval_us, put_us, paused_us;
    struct rest_json out;
    bool reading, ticking, paused, ending;
};

static void look(struct following *following);

static void following_free(struct following *following)
{
    ot_arena_free(&following->memory);
    rest_json_free(&following->out);
    free(following);
}

/* Once nothing is under way. */
static void end(struct following *following)
{
    if (following->reading || following->ticking) return;
    ot_exec_timer_cancel(following->server->exec, &following->timer);
    ot_exec_timer_cancel(following->server->exec, &following->tick);
    rest_stream_end(following->stream);
    following_free(following);
}

static void put(struct following *following, const char *text, size_t bytes)
{
    if (!rest_stream_put(following->stream, text, bytes)) following->ending = true;
    following->put_us = ot_clock_boot_us();
}

static void begin_out(struct following *following)
{
    const bool big_as_text = following->out.big_as_text;
    rest_json_free(&following->out);
    rest_json_init(&following->out, EVENT_BYTES_MAX);
    following->out.big_as_text = big_as_text;
}

static void send_out(struct following *following)
{
    if (rest_json_failed(&following->out)) following->ending = true;
    else if (following->out.bytes > 0) put(following, following->out.data, following->out.bytes);
    begin_out(following);
}

static void put_event(struct rest_json *out, const char *event)
{
    rest_json_put(out, "event: ", 7);
    rest_json_put(out, event, strlen(event));
    rest_json_put(out, "\ndata: ", 7);
    out->comma = false;
}

static void put_range(struct following *following, const char *event, const char *detail, int64_t from, int64_t to)
{
    struct rest_json *out = &following->out;
    put_event(out, event);
    rest_json_open(out, NULL, '{');
    rest_json_text(out, "detail", detail);
    rest_json_big(out, "from_id", from);
    rest_json_big(out, "to_id", to);
    rest_json_close(out, '}');
    rest_json_put(out, "\n\n", 2);
    send_out(following);
}

/* ---- reading; each_event on an I/O thread */

static bool each_event(struct broker_event_read *read, int64_t id, struct ot_blob json)
{
    struct following *following = OT_CONTAINER(read, struct following, read);
    struct rest_json *out = &following->out;
    struct rest_event event;
    char text[40];
    if (out->bytes > TURN_BYTES) return false;
    if (!rest_event_passes(&following->filter, json, &event) || rest_event_again(&following->seen, &event)) return true;
    rest_json_put(out, text, (size_t)snprintf(text, sizeof(text), "id: %" PRId64 "\n", id));
    put_event(out, broker_event_kind(event.type)->family);
    const size_t from = out->bytes;
    rest_event_write(out, id, json);
    rest_one_line(out, from);
    rest_json_put(out, "\n\n", 2);
    return true;
}

static bool is_near(struct following *following)
{
    int32_t leader = -1;
    const struct broker_view *view = broker_view_take(following->broker);
    (void)broker_view_leader(view, ot_str_of(BROKER_EVENTS_TOPIC), 0, &leader);
    broker_view_give(view);
    return leader == broker_node_id(following->broker);
}

static void look_later(struct following *following)
{
    const int64_t now_us = ot_exec_now_us(following->server->exec);
    if (ot_clock_boot_us() - following->put_us >= COMMENT_US) put(following, ": nothing new\n\n", 15);
    ot_exec_timer_set(following->server->exec, &following->timer, now_us + (is_near(following) ? LOOK_US : LOOK_FAR_US));
}

static void fell_behind(struct following *following)
{
    if (following->read.error == OT_OK) following->end = following->read.end;
    if (ot_clock_boot_us() - following->paused_us <= PATIENCE_US || following->end - following->next <= OVERFLOW_EVENTS) {
        look_later(following);
        return;
    }
    put_range(following, "overflow", "the reader is too slow", following->next, following->end);
    following->ending = true;
    end(following);
}

static void read_told(struct broker_call *call)
{
    struct following *following = OT_CONTAINER(call, struct following, read.call);
    const struct broker_event_read *read = &following->read;
    following->reading = false;
    send_out(following);
    if (following->ending) {
        end(following);
        return;
    }
    if (read->from < 0 && following->next >= 0) {              /* asked while it was paused */
        if (following->paused) fell_behind(following);
        else look(following);
    } else if (read->error == OT_ERR_UNKNOWN_TOPIC_OR_PARTITION && following->next < 0) {
        following->next = 0;
        look_later(following);
    } else if (read->error == OT_ERR_OFFSET_OUT_OF_RANGE) {
        const int64_t to = read->first > following->next ? read->first : read->end;
        put_range(following, "gap", "these events are no longer kept", following->next, to);
        following->next = to;
        look_later(following);
    } else if (read->error != OT_OK) {
        look_later(following);                 /* nobody who has them can be reached: that may change */
    } else if (following->next < 0) {
        following->next = following->end = read->end;
        look_later(following);
    } else {
        const bool more = read->next > following->next;
        following->next = read->next;
        following->end = read->end;
        if (!rest_stream_room(following->stream)) {
            following->paused = true;
            following->paused_us = ot_clock_boot_us();
            look_later(following);
        } else if (more && following->next < following->end) {
            look(following);
        } else {
            look_later(following);
        }
    }
}

static void ask(struct following *following, int64_t from)
{
    following->reading = true;
    following->read = (struct broker_event_read){ .call = { .home = following->server->exec, .done = read_told }, .from = from, .max_bytes = READ_BYTES,
        .pool = following->server->setup.body_pool, .each = each_event };
    broker_event_read(following->broker, &following->read);
}

static void look(struct following *following)
{
    if (following->reading) return;
    if (following->ending) end(following);
    else ask(following, following->paused ? -1 : following->next);     /* paused: only how far it falls behind */
}

static void fired(struct ot_timer *timer) { look(OT_CONTAINER(timer, struct following, timer)); }

/* ---- ticks of metrics */

static void tick_later(struct following *following)
{
    ot_exec_timer_set(following->server->exec, &following->tick, ot_exec_now_us(following->server->exec) + following->interval_us);
}

static void ticked(struct rest_call *inner)
{
    struct following *following = inner->inner_arg;
    following->ticking = false;
    if (!following->ending && inner->status == 200 && !rest_json_failed(&inner->out) && !following->paused && rest_stream_room(following->stream)) {
        struct rest_json out;
        rest_json_init(&out, EVENT_BYTES_MAX);
        put_event(&out, "metrics");
        const size_t from = out.bytes;
        rest_json_put(&out, inner->out.data, inner->out.bytes);
        rest_one_line(&out, from);
        rest_json_put(&out, "\n\n", 2);
        if (!rest_json_failed(&out)) put(following, out.data, out.bytes);
        rest_json_free(&out);
    }
    rest_inner_free(inner);
    if (following->ending) end(following);
    else tick_later(following);
}

static void tick(struct ot_timer *timer)
{
    struct following *following = OT_CONTAINER(timer, struct following, tick);
    following->ticking = true;
    if (rest_inner_get(&following->as, "/v1/metrics", false, ticked, following)) return;
    following->ticking = false;
    tick_later(following);
}

/* ---- the stream's side */

static void drained(void *arg)
{
    struct following *following = arg;
    following->paused = false;
    look(following);
}

static void left(void *arg)
{
    struct following *following = arg;
    following->ending = true;
    end(following);
}

/* ---- starting */

static bool go_on_behind(struct following *following, const char *id)
{
    char *stop = NULL;
    const long long number = strtoll(id, &stop, 10);
    if (stop == id || *stop != 0 || number < 0 || number >= INT64_MAX - 1) return false;
    following->next = number + 1;
    return true;
}

static struct following *following_new(struct rest_call *call)
{
    struct following *following = calloc(1, sizeof(*following));
    if (following == NULL) return NULL;
    following->server = call->server;
    following->broker = call->broker;
    following->next = -1;
    following->seen = (struct rest_event_seen){ 0, -1 };
    following->put_us = ot_clock_boot_us();
    following->timer.fired = fired;
    following->tick.fired = tick;
    following->as = (struct rest_call){ .server = call->server, .broker = call->broker, .home = call->home, .timeout_ms = call->timeout_ms };
    memcpy(following->as.peer, call->peer, sizeof(call->peer));
    memcpy(following->as.principal, call->principal, sizeof(call->principal));
    memcpy(following->as.request_id, call->request_id, sizeof(call->request_id));
    following->out.big_as_text = call->out.big_as_text;
    ot_arena_init(&following->memory, 64 << 10);
    begin_out(following);
    return following;
}

/* False: answered. */
static bool read_wishes(struct rest_call *call, struct following *following)
{
    rest_event_filter_read(call, true, &following->filter);
    following->interval_us = rest_query_int(call, "interval_ms", 500, 60000, INTERVAL_MS) * 1000;
    if (rest_faulty(call)) return false;
    if (!rest_event_filter_keep(&following->filter, &following->memory)) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the stream");
        return false;
    }
    if (call->last_event_id == NULL || call->last_event_id[0] == 0 /* none yet */ || go_on_behind(following, call->last_event_id)) return true;
    rest_problem_http(call, "HTTP_BAD_REQUEST", "Last-Event-ID is not one of this stream");
    return false;
}

void rest_events_stream(struct rest_call *call)
{
    static const struct rest_stream_ops ops = { drained, left };
    struct following *following = following_new(call);
    if (following == NULL) {
        rest_problem(call, OT_ERR_NO_MEMORY, "no memory for the stream");
        return;
    }
    if (!read_wishes(call, following)) {
        following_free(following);
        return;
    }
    following->stream = rest_stream_start(call, &ops, following);
    if (following->stream == NULL) {
        following_free(following);
        return;
    }
    put(following, "retry: 2000\n\n", 13);
    if (following->filter.metrics) ot_exec_timer_set(following->server->exec, &following->tick, ot_exec_now_us(following->server->exec));
    broker_events_wanted(call->broker);
    ask(following, following->next);
}
