/* One request to one other broker, and its answer as ours. */
#include "rest/hop.h"
#include "base/util.h"
#include "base/wire/apis.h"
#include "broker/peer_rest.h"
#include "rest/inside.h"
#include <string.h>

enum { HOPS_MAX = 128, HEADERS_OUT_MAX = 8, LOOK_US = 20000, ARENA_BYTES = 1 << 20 };
#define GRACE_US   INT64_C(2000000)            /* more than the other side is given: its answer has to come back */
#define READ_US    INT64_C(10000000)           /* a reader has another try when the broker asked first says nothing */
#define FOLLOW_US  INT64_C(1000000)            /* so long the metadata may take to follow */

struct rest_hop {
    struct rest_call *call;
    struct broker_peer_call peer;
    struct ot_peer_rest_request request;
    struct ot_peer_rest_request_header headers[HEADERS_OUT_MAX];
    struct ot_peer_rest_response response;
    struct ot_arena arena;
    int32_t node, tries;
    int64_t waits_ms;                          /* for how long the request itself says that it may wait */
    int64_t follow_until_us;
    bool asking;
    enum ot_err silence;                       /* why the last one did not answer */
};

static const char *name_of(const struct rest_call *call)
{
    return (call->route->flags & REST_AT_LEADER) != 0 ? "leads the partition" : (call->route->flags & (REST_AT_GROUP | REST_AT_NODE)) != 0 ? "coordinates the group"
        : (call->route->flags & REST_AT_TRANSACTION) != 0 ? "coordinates the transaction" : (call->route->flags & REST_AT_JOB) != 0 ? "has the job" : (call->route->flags & REST_ONCE) != 0 ? "is the controller" : "is asked";
}

static void leave(struct rest_hop *hop)
{
    struct rest_call *call = hop->call;
    call->server->hops--;
    call->hop = NULL;
    call->cancel = NULL;
    ot_arena_free(&hop->arena);
}

static void give_up(struct rest_hop *hop, bool may_be_done)
{
    struct rest_call *call = hop->call;
    const int32_t node = hop->node;
    const enum ot_err why = hop->silence;
    leave(hop);
    if (may_be_done) rest_problem(call, OT_ERR_REQUEST_TIMED_OUT, "broker %d %s and has not answered; whether it did what was asked is not known", node, name_of(call));
    else if (why == OT_ERR_BUSY) rest_problem(call, OT_ERR_BUSY, "too many requests are on their way to broker %d, which %s", node, name_of(call));
    else if (why == OT_ERR_NO_MEMORY) rest_problem(call, OT_ERR_NO_MEMORY, "no memory to pass the request on to broker %d, which %s", node, name_of(call));
    else if ((call->route->flags & REST_AT_LEADER) != 0) rest_problem(call, OT_ERR_LEADER_NOT_AVAILABLE, "broker %d %s and was not reached from here", node, name_of(call));
    else if ((call->route->flags & (REST_AT_GROUP | REST_AT_TRANSACTION | REST_AT_NODE)) != 0) rest_problem(call, OT_ERR_COORDINATOR_NOT_AVAILABLE, "broker %d %s and was not reached from here", node, name_of(call));
    else rest_problem_http(call, "HTTP_SERVICE_UNAVAILABLE", "broker %d %s and was not reached from here", node, name_of(call));
}

/* ---- its answer */

static const char *kept(struct rest_call *call, struct ot_str text) { return text.null ? NULL : ot_arena_str(&call->arena, text); }

static void deliver(struct rest_hop *hop)
{
    struct rest_call *call = hop->call;
    const struct ot_peer_rest_response *in = &hop->response;
    char *served_by = ot_arena_alloc(&call->arena, 16);
    const char *type = kept(call, in->content_type);
    const int status = in->status;
    call->problem = in->error.bytes > 0 ? kept(call, in->error) : NULL;
    call->header_count = 0;                    /* what was said of this broker's own metadata */
    for (int32_t i = 0; i < in->headers.count && call->header_count < REST_HEADERS_MAX; i++) {
        const char *name = kept(call, in->headers.items[i].name), *value = kept(call, in->headers.items[i].value);
        if (name != NULL && value != NULL && name[0] != 0) rest_header(call, name, value);
    }
    if (served_by != NULL) snprintf(served_by, 16, "%d", hop->node);
    call->served_by = served_by;
    rest_json_free(&call->out);
    rest_json_init(&call->out, REST_ANSWER_MAX);
    if (in->body.bytes > 0) rest_json_put(&call->out, (const char *)in->body.data, in->body.bytes);
    broker_peer_call_end(&hop->peer);
    leave(hop);
    if (status == 204 || status == 304) rest_reply_empty(call, status);
    else rest_reply_raw(call, status, type);
}

/* What another broker may do better. */
static bool is_stale(const struct ot_peer_rest_response *in)
{
    static const char *const names[] = { "NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR", "NOT_CONTROLLER", "FENCED_LEADER_EPOCH", "STOPPING" };
    for (size_t i = 0; i < OT_ARRAY_COUNT(names); i++)
        if (ot_str_equal(in->error, ot_str_of(names[i]))) return true;
    return false;
}

static void refused(struct rest_hop *hop)
{
    struct rest_call *call = hop->call;
    const int32_t node = hop->node;
    const char *why = kept(call, hop->response.error);
    const bool large = why != NULL && strcmp(why, REST_HOP_TOO_LARGE) == 0, untold = why != NULL && strcmp(why, REST_HOP_UNTOLD) == 0;
    broker_peer_call_end(&hop->peer);
    if (untold || (large && call->method != REST_GET)) {
        hop->silence = OT_ERR_NO_MEMORY;
        give_up(hop, call->method != REST_GET);
        return;
    }
    leave(hop);
    if (large) rest_problem_http(call, "HTTP_CONTENT_TOO_LARGE", "the answer has more than %u bytes, which is the most that goes from broker to broker: ask for less, or ask broker %d itself", REST_HOP_BYTES_MAX, node);
    else if (why != NULL && why[0] == 0) rest_problem_http(call, "HTTP_SERVICE_UNAVAILABLE", "broker %d %s and serves no REST (now)", node, name_of(call));
    else rest_problem_http(call, "HTTP_SERVICE_UNAVAILABLE", "broker %d %s and does not take the request: %s", node, name_of(call), why == NULL ? "no memory here" : why);
}

/* ---- again, once the metadata had time to follow */

static void send(struct rest_hop *hop);
static void follow(struct rest_hop *hop);

static void look_again(struct ot_timer *timer)
{
    struct rest_call *call = OT_CONTAINER(timer, struct rest_call, timer);
    follow(call->hop);
}

static void follow(struct rest_hop *hop)
{
    struct rest_call *call = hop->call;
    const int32_t now = call->whither != NULL ? call->whither(call) : hop->node;
    const bool moved = now >= 0 && now != hop->node, over = ot_exec_now_us(call->home) >= hop->follow_until_us;
    if (call->stopping) {
        give_up(hop, false);
    } else if (moved && now == broker_node_id(call->broker)) {
        leave(hop);
        rest_begin(call);
    } else if (moved || over) {
        if (moved) hop->node = now;
        send(hop);
    } else {
        call->timer.fired = look_again;
        ot_exec_timer_set(call->home, &call->timer, ot_exec_now_us(call->home) + LOOK_US);
    }
}

static void try_again(struct rest_hop *hop)
{
    hop->follow_until_us = ot_exec_now_us(hop->call->home) + FOLLOW_US;
    follow(hop);
}

static void answered(struct broker_peer_call *peer)
{
    struct rest_hop *hop = OT_CONTAINER(peer, struct rest_hop, peer);
    struct rest_call *call = hop->call;
    hop->asking = false;
    if (peer->error == OT_OK && hop->response.status >= 200 && hop->response.status <= 599) {
        if (!is_stale(&hop->response) || hop->tries > 1 || call->stopping) {
            deliver(hop);
            return;
        }
    } else if (peer->error == OT_OK && !is_stale(&hop->response)) {
        refused(hop);
        return;
    } else {
        const bool unsure = peer->error != OT_OK && call->method != REST_GET && peer->link.sent;
        hop->silence = peer->error == OT_OK ? OT_ERR_CLOSED : peer->error;
        if (unsure || hop->tries > 1 || call->stopping || hop->silence == OT_ERR_BUSY || hop->silence == OT_ERR_NO_MEMORY) {
            broker_peer_call_end(peer);
            give_up(hop, unsure);
            return;
        }
    }
    broker_peer_call_end(peer);
    try_again(hop);
}

/* ---- asking */

static void add_header(struct rest_hop *hop, const char *name, const char *value)
{
    if (value == NULL) return;
    OT_ASSERT(hop->request.headers.count < HEADERS_OUT_MAX);
    struct ot_peer_rest_request_header *header = &hop->headers[hop->request.headers.count++];
    ot_peer_rest_request_header_defaults(header);
    header->name = ot_str_of(name);
    header->value = ot_str_of(value);
}

static void cancel(struct rest_call *call)
{
    struct rest_hop *hop = call->hop;
    if (hop->asking) broker_peer_call_abort(call->broker, &hop->peer);
    else give_up(hop, false);                  /* it waits for the metadata */
}

static void send(struct rest_hop *hop)
{
    struct rest_call *call = hop->call;
    const int64_t now_us = ot_exec_now_us(call->home), left_us = OT_MAX(call->timeout_ms * 1000 - (ot_clock_boot_us() - call->started_us), INT64_C(1000));
    int64_t patience_us = left_us + hop->waits_ms * 1000 + GRACE_US;
    if (call->method == REST_GET) patience_us = OT_MIN(patience_us, READ_US + hop->waits_ms * 1000);
    hop->tries++;
    hop->request.timeout_ms = (int32_t)(left_us / 1000);
    hop->peer = (struct broker_peer_call){ .node_id = hop->node, .api = OT_API_PEER_REST, .request = &hop->request, .response = &hop->response, .arena = &hop->arena,
        .answer_bytes_max = REST_HOP_BYTES_MAX + ARENA_BYTES, .deadline_us = now_us + patience_us, .home = call->home, .done = answered, .alone = true };
    hop->asking = true;
    broker_peer_call(call->broker, &hop->peer);
}

void rest_hop_to(struct rest_call *call, int32_t node_id)
{
    struct rest_server *server = call->server;
    if (call->arrived) {                       /* never two hops */
        rest_problem(call, (call->route->flags & REST_ONCE) != 0 ? OT_ERR_NOT_CONTROLLER : (call->route->flags & (REST_AT_GROUP | REST_AT_TRANSACTION | REST_AT_NODE)) != 0 ? OT_ERR_NOT_COORDINATOR : OT_ERR_NOT_LEADER_OR_FOLLOWER,
            "broker %d %s, as far as broker %d knows", node_id, name_of(call), broker_node_id(call->broker));
        return;
    }
    struct rest_hop *hop = server->hops >= HOPS_MAX ? NULL : ot_arena_alloc(&call->arena, sizeof(*hop));
    if (hop == NULL) {
        rest_problem(call, server->hops >= HOPS_MAX ? OT_ERR_BUSY : OT_ERR_NO_MEMORY, "%u requests are on their way to other brokers", server->hops);
        return;
    }
    server->hops++;
    hop->call = call;
    hop->node = node_id;
    hop->waits_ms = rest_query_int(call, "max_wait_ms", 0, 120000, 0) + rest_query_int(call, "wait_ms", 0, 120000, 0);
    call->faults.count = 0;                    /* the other one says what is wrong with them */
    call->granted_us = hop->waits_ms * 1000;
    ot_arena_init(&hop->arena, ARENA_BYTES);
    ot_peer_rest_request_defaults(&hop->request);
    hop->request.method = (int8_t)call->method;
    hop->request.target = ot_str_of(call->target);
    hop->request.request_id = ot_str_of(call->request_id);
    hop->request.principal = ot_str_of(call->principal);
    hop->request.address = ot_str_of(call->peer);
    hop->request.answer_bytes_max = (int32_t)REST_HOP_BYTES_MAX;
    hop->request.headers.items = hop->headers;
    if (call->body != NULL) hop->request.body = (struct ot_blob){ .data = call->body->data, .bytes = call->body->bytes };
    add_header(hop, "Accept", call->accept);
    add_header(hop, "Content-Type", call->body_type);
    add_header(hop, "If-Match", call->if_match);
    add_header(hop, "If-None-Match", call->if_none_match);
    add_header(hop, "Idempotency-Key", call->once_key);
    call->hop = hop;
    call->cancel = cancel;
    if (call->stopping) give_up(hop, false);
    else send(hop);
}
