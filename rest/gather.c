/* The same question to all brokers at once. The own answer comes from an inner call, those of others by hops; whoever is late is named. */
#include "base/wire/apis.h"
#include "broker/peer_rest.h"
#include "rest/hop.h"
#include "rest/inside.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GATHERS_MAX = 64, BROKERS_MAX = 2048, ANSWER_BYTES_MAX = 16 << 20, ARENA_BYTES = 64 << 10 };
#define BYTES_MAX (64u << 20)                  /* of answers that are held as JSON, by all gatherings together: as trees they take several times that */

struct leg {
    struct broker_peer_call peer;
    struct ot_peer_rest_response response;
    struct ot_arena arena;
    struct gathering *of;
    uint32_t index;
    bool asking;
};
struct gathering {
    struct rest_gather told;
    struct ot_task task;
    struct ot_peer_rest_request request;
    size_t bytes;                              /* of the answers that are held */
    uint32_t open;                             /* legs that have not answered, and one while they are made */
    struct leg *legs;
    void (*cancel)(struct rest_call *call);    /* of the handler, before */
};

static void end(struct gathering *all)
{
    struct rest_call *call = all->told.call;
    struct rest_server *server = call->server;
    call->cancel = all->cancel;
    call->gather = NULL;
    server->gathers--;
    server->gathered_bytes -= all->bytes;      /* nothing else runs here before they are let go below */
    for (uint32_t i = 0; i < all->told.count; i++) all->told.missing += all->told.brokers[i].status != 200 || all->told.brokers[i].json == NULL;
    all->told.done(&all->told);                /* from here on the call may be gone */
    for (uint32_t i = 0; i < all->told.count; i++) {
        json_decref(all->told.brokers[i].json);
        ot_arena_free(&all->legs[i].arena);
    }
    free(all->told.brokers);
    free(all->legs);
    free(all);
}

static void end_run(struct ot_task *task) { end(OT_CONTAINER(task, struct gathering, task)); }

static void one_less(struct gathering *all)
{
    if (--all->open > 0) return;
    all->task.run = end_run;
    ot_exec_post(all->told.call->home, &all->task);
}

/* What has no room is as if it had not come: its broker is named. */
static void take(struct gathering *all, uint32_t index, int status, const char *text, size_t bytes)
{
    struct rest_gathered *one = &all->told.brokers[index];
    struct rest_server *server = all->told.call->server;
    struct rest_faults faults = { .count = 0 };
    one->status = status;
    if (bytes == 0 || bytes > BYTES_MAX - server->gathered_bytes) return;
    server->gathered_bytes += bytes;
    all->bytes += bytes;
    if (rest_json_parse(text, bytes, &one->json, &faults) != OT_OK) one->json = NULL;
}

static void own_answered(struct rest_call *inner)
{
    struct leg *leg = inner->inner_arg;
    struct gathering *all = leg->of;
    if (inner->out.data != NULL) take(all, leg->index, inner->status, inner->out.data, inner->out.bytes);
    rest_inner_free(inner);
    one_less(all);
}

static void answered(struct broker_peer_call *peer)
{
    struct leg *leg = OT_CONTAINER(peer, struct leg, peer);
    struct gathering *all = leg->of;
    leg->asking = false;
    if (peer->error == OT_OK && leg->response.status > 0)
        take(all, leg->index, leg->response.status, (const char *)leg->response.body.data, leg->response.body.bytes);
    broker_peer_call_end(peer);
    one_less(all);
}

static void cancel(struct rest_call *call)
{
    struct gathering *all = call->gather;
    for (uint32_t i = 0; i < all->told.count; i++)
        if (all->legs[i].asking) broker_peer_call_abort(call->broker, &all->legs[i].peer);
}

static void ask(struct gathering *all, uint32_t index, const char *target)
{
    struct rest_call *call = all->told.call;
    struct leg *leg = &all->legs[index];
    if (all->told.brokers[index].broker == broker_node_id(call->broker)) {
        const struct rest_inner_ask own = { .server = call->server, .method = "GET", .target = target, .request_id = call->request_id, .address = call->peer,
            .principal = call->principal, .timeout_ms = REST_GATHER_US / 1000 };
        if (rest_inner_start(&own, own_answered, leg) == NULL) one_less(all);
        return;
    }
    leg->peer = (struct broker_peer_call){ .node_id = all->told.brokers[index].broker, .api = OT_API_PEER_REST, .request = &all->request, .response = &leg->response,
        .arena = &leg->arena, .answer_bytes_max = ANSWER_BYTES_MAX + ARENA_BYTES, .deadline_us = ot_exec_now_us(call->home) + REST_GATHER_US, .home = call->home, .done = answered,
        .alone = true };
    leg->asking = true;
    broker_peer_call(call->broker, &leg->peer);
}

static struct gathering *gathering_new(struct rest_call *call, const int32_t *ids, uint32_t count)
{
    struct gathering *all = call->server->gathers >= GATHERS_MAX ? NULL : calloc(1, sizeof(*all));
    if (all == NULL) return NULL;
    all->told.brokers = calloc(OT_MAX(count, 1u), sizeof(*all->told.brokers));
    all->legs = calloc(OT_MAX(count, 1u), sizeof(*all->legs));
    if (all->told.brokers == NULL || all->legs == NULL) {
        free(all->told.brokers);
        free(all->legs);
        free(all);
        return NULL;
    }
    all->told.call = call;
    all->told.count = count;
    for (uint32_t i = 0; i < count; i++) {
        all->told.brokers[i].broker = ids[i];
        all->legs[i].of = all;
        all->legs[i].index = i;
        ot_arena_init(&all->legs[i].arena, ARENA_BYTES);
    }
    return all;
}

void rest_gather_of(struct rest_call *call, const char *target, const int32_t *ids, uint32_t count, void *arg, void (*done)(struct rest_gather *gather))
{
    OT_ASSERT(!call->arrived);
    struct gathering *all = target == NULL || count > BROKERS_MAX ? NULL : gathering_new(call, ids, count);
    if (all == NULL) {
        rest_problem(call, call->server->gathers >= GATHERS_MAX ? OT_ERR_BUSY : OT_ERR_NO_MEMORY, "the other brokers could not be asked now");
        return;
    }
    call->server->gathers++;
    call->gather = all;
    all->cancel = call->cancel;
    call->cancel = cancel;
    all->told.arg = arg;
    all->told.done = done;
    ot_peer_rest_request_defaults(&all->request);
    all->request.method = REST_GET;
    all->request.target = ot_str_of(target);
    all->request.request_id = ot_str_of(call->request_id);
    all->request.principal = ot_str_of(call->principal);
    all->request.address = ot_str_of(call->peer);
    all->request.timeout_ms = (int32_t)(REST_GATHER_US / 1000);
    all->request.answer_bytes_max = ANSWER_BYTES_MAX;
    all->open = count + 1;
    for (uint32_t i = 0; i < count; i++) ask(all, i, target);
    if (call->stopping) cancel(call);
    one_less(all);
}

/* Who lives, by the metadata here; this broker in any case. *count_out 0: no memory. */
static int32_t *live(struct rest_call *call, uint32_t *count_out)
{
    struct broker_view_broker row;
    const int32_t own = broker_node_id(call->broker);
    int32_t *ids = ot_arena_array(&call->arena, BROKERS_MAX, sizeof(*ids));
    uint32_t count = 0;
    bool seen = false;
    const struct broker_view *view = broker_view_take(call->broker);
    for (int32_t after = INT32_MIN; ids != NULL && count < BROKERS_MAX - 1 && broker_view_next_broker(view, after, &call->arena, &row); after = row.id) {
        if (row.fenced && row.id != own) continue;
        if (!seen && row.id > own) ids[count++] = own;
        seen |= row.id >= own;
        ids[count++] = row.id;
    }
    broker_view_give(view);
    if (ids != NULL && !seen) ids[count++] = own;
    *count_out = count;
    return ids;
}

bool rest_gather_wanted(struct rest_call *call)
{
    struct broker_view_broker row;
    bool others = false;
    if (call->arrived) return false;
    const struct broker_view *view = broker_view_take(call->broker);
    for (int32_t after = INT32_MIN; !others && broker_view_next_broker(view, after, &call->arena, &row); after = row.id) others = !row.fenced && row.id != broker_node_id(call->broker);
    broker_view_give(view);
    return others;
}

void rest_gather(struct rest_call *call, const char *target, void *arg, void (*done)(struct rest_gather *gather))
{
    uint32_t count;
    const int32_t *ids = live(call, &count);
    rest_gather_of(call, ids == NULL ? NULL : target, ids, count, arg, done);
}

/* ---- what came */

json_t *rest_gathered_of(const struct rest_gather *gather, int32_t broker)
{
    for (uint32_t i = 0; i < gather->count; i++)
        if (gather->brokers[i].broker == broker) return gather->brokers[i].status == 200 ? gather->brokers[i].json : NULL;
    return NULL;
}

bool rest_gather_refused(const struct rest_gather *gather)
{
    struct rest_call *call = gather->call;
    for (uint32_t i = 0; i < gather->count; i++) {
        const struct rest_gathered *one = &gather->brokers[i];
        if (one->broker != broker_node_id(call->broker) || one->status < 400 || one->status >= 500 || one->json == NULL) continue;
        call->problem = ot_arena_str(&call->arena, ot_str_of(json_string_value(json_object_get(one->json, "error")) != NULL ? json_string_value(json_object_get(one->json, "error")) : ""));
        rest_json_free(&call->out);
        rest_json_init(&call->out, REST_ANSWER_MAX);
        rest_json_copy(&call->out, NULL, one->json);
        rest_reply_raw(call, one->status, "application/problem+json");
        return true;
    }
    return false;
}

static void write_partial(const struct rest_gather *gather, struct rest_json *out)
{
    rest_json_bool(out, "partial", true);
    rest_json_open(out, "missing_brokers", '[');
    for (uint32_t i = 0; i < gather->count; i++)
        if (rest_gathered_of(gather, gather->brokers[i].broker) == NULL) rest_json_int(out, NULL, gather->brokers[i].broker);
    rest_json_close(out, ']');
}

void rest_gather_tell(const struct rest_gather *gather)
{
    struct rest_call *call = gather->call;
    if (gather->missing == 0) return;
    char *text = ot_arena_alloc(&call->arena, 12 * (size_t)gather->missing + 1);
    size_t at = 0;
    for (uint32_t i = 0; text != NULL && i < gather->count; i++) {
        if (rest_gathered_of(gather, gather->brokers[i].broker) != NULL) continue;
        at += (size_t)snprintf(text + at, 12, "%s%d", at > 0 ? "," : "", gather->brokers[i].broker);
    }
    rest_header(call, "Ottla-Partial", text);
}

void rest_gather_partial(const struct rest_gather *gather)
{
    if (gather->missing == 0) return;
    rest_gather_tell(gather);
    write_partial(gather, &gather->call->out);
}

void rest_gather_mend(const struct rest_gather *gather)
{
    struct rest_json *out = &gather->call->out;
    if (gather->missing == 0 || out->bytes == 0 || rest_json_failed(out)) return;
    out->bytes--;                              /* its bracket */
    out->comma = true;
    rest_gather_partial(gather);
    rest_json_close(out, '}');
}

const char *rest_gather_extra(const struct rest_gather *gather)
{
    struct rest_json out;
    if (gather->missing == 0) return NULL;
    rest_gather_tell(gather);
    rest_json_init(&out, 1 << 20);
    write_partial(gather, &out);
    const char *text = rest_json_failed(&out) ? NULL : ot_arena_str(&gather->call->arena, (struct ot_str){ out.data, (uint32_t)out.bytes, false });
    rest_json_free(&out);
    return text;
}

static bool is_one_of(const char *list, const char *name, size_t bytes)
{
    while (list != NULL && *list != 0) {
        const size_t length = strcspn(list, ",");
        if (length == bytes && memcmp(list, name, bytes) == 0) return true;
        list += length + (list[length] == ',');
    }
    return false;
}

const char *rest_gather_target(struct rest_call *call, const char *without, const char *more)
{
    const size_t path = strcspn(call->target, "?#"), bytes = strlen(call->target) + (more == NULL ? 0 : strlen(more)) + 4;
    char *out = ot_arena_alloc(&call->arena, bytes);
    if (out == NULL) return NULL;
    size_t at = (size_t)snprintf(out, bytes, "%.*s", (int)path, call->target);
    char mark = '?';
    uint32_t index = 0;
    for (const char *pair = call->target + path + (call->target[path] == '?'); *pair != 0 && *pair != '#';) {      /* in the order of call->uri.query, where names are decoded */
        const size_t length = strcspn(pair, "&#");
        const struct ot_str name = length > 0 ? call->uri.query[index++].name : (struct ot_str){ .null = true };
        if (length > 0 && !is_one_of("fields,format,pretty", name.data, name.bytes) && !is_one_of(without, name.data, name.bytes)) {
            at += (size_t)snprintf(out + at, bytes - at, "%c%.*s", mark, (int)length, pair);
            mark = '&';
        }
        pair += length + (pair[length] == '&');
    }
    if (more != NULL && more[0] != 0) snprintf(out + at, bytes - at, "%c%s", mark, more);
    return out;
}
