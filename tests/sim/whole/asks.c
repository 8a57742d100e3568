/* Questions to the coordinator: passed on by a process to the node that it takes for the coordinator, as copies of what was asked; answers may not come. */
#include "world.h"

#include <stdlib.h>

enum { TIMED_OUT_US = 700000 };

static struct passed *passed_of(struct ask *ask) { return OT_CONTAINER(ask, struct passed, ask); }

static bool is_double(const struct passed *passed) { return passed->ask.request.ask == COORD_ASK_REGISTER && passed->ask.broker == BROKERS_MAX; }

struct ask *ask_new(struct world *w, struct broker *broker, enum coord_ask kind)
{
    struct whole *whole = whole_of(w);
    struct passed *passed = calloc(1, sizeof *passed);
    struct ask *ask = &passed->ask;
    ask->request.ask = kind;
    ask->request.if_version = -1;
    ask->broker = broker == NULL ? BROKERS_MAX : (uint32_t)(broker - w->brokers);
    ask->life = broker == NULL ? 0 : broker->life;
    passed->from = ask->broker == BROKERS_MAX ? (uint32_t)ot_rng_below(&w->rng, w->broker_count) : ask->broker;
    passed->at = BROKERS_MAX;
    passed->next = whole->passed;
    if (whole->passed != NULL) {
        whole->passed->prev = passed;
    }
    whole->passed = passed;
    return ask;
}

static void drop(struct whole *whole, struct passed *passed)
{
    *(passed->prev == NULL ? &whole->passed : &passed->prev->next) = passed->next;
    if (passed->next != NULL) {
        passed->next->prev = passed->prev;
    }
    free(passed);
}

/* It is told after so long: error. */
static void tell(struct whole *whole, struct passed *passed, enum ot_err error, uint64_t after_us)
{
    passed->at = BROKERS_MAX;
    passed->ask.request.error = error;
    sim_event(&whole->w, &(struct event){ .kind = EVENT_TOLD, .at_us = whole->w.now_us + after_us, .ask = &passed->ask });
}

void ask_send(struct world *w, struct ask *ask)
{
    struct whole *whole = whole_of(w);
    struct passed *passed = passed_of(ask);
    const bool up = cluster_node_up(whole->cluster, passed->from);
    const int32_t leader = up ? cluster_leader(whole->cluster, passed->from) : -1;
    if (leader < 1 || (leader - 1 != (int32_t)passed->from && cluster_lost(whole->cluster, passed->from, (uint32_t)leader - 1))) {
        tell(whole, passed, OT_ERR_REQUEST_TIMED_OUT, 1 + ot_rng_below(&w->rng, TIMED_OUT_US));
        return;
    }
    if (ask->request.ask == COORD_ASK_ALTER) {
        ask->request.u.alter.term = cluster_term(whole->cluster, passed->from);
    }
    sim_event(w, &(struct event){ .kind = EVENT_ASK, .at_us = w->now_us + cluster_delay_us(whole->cluster, (uint32_t)leader - 1), .broker = (uint32_t)leader - 1, .ask = ask });
}

void ask_came(struct whole *whole, struct event *event)
{
    struct passed *passed = passed_of(event->ask);
    if (!cluster_node_up(whole->cluster, event->broker)) {
        tell(whole, passed, OT_ERR_REQUEST_TIMED_OUT, TIMED_OUT_US);
        return;
    }
    if (is_double(passed) && (passed->ask.request.u.register_.broker_id == (int32_t)event->broker + 1 || !sim_may_double(&whole->w))) {
        tell(whole, passed, OT_ERR_DUPLICATE_BROKER_REGISTRATION, cluster_delay_us(whole->cluster, passed->from));       /* a double of this very process: its hello is refused (broker/peer_hello.c); of others: they are spared */
        return;
    }
    whole->w.doubled += is_double(passed);
    passed->at = event->broker;
    cluster_ask(whole->cluster, event->broker, &passed->ask.request);
}

void ask_here(struct whole *whole, struct coord_request *request)
{
    struct passed *passed = OT_CONTAINER(request, struct passed, ask.request);
    whole->w.doubled -= is_double(passed) && request->error == OT_ERR_DUPLICATE_BROKER_REGISTRATION;       /* it took no place */
    const bool lost = passed->at != passed->from && cluster_lost(whole->cluster, passed->at, passed->from);
    tell(whole, passed, lost ? OT_ERR_REQUEST_TIMED_OUT : request->error, lost ? TIMED_OUT_US : cluster_delay_us(whole->cluster, passed->from));
}

void asks_of_stopped(struct whole *whole, uint32_t node)
{
    for (struct passed *passed = whole->passed; passed != NULL; passed = passed->next) {
        if (passed->at == node) {
            tell(whole, passed, OT_ERR_CLOSED, 1 + ot_rng_below(&whole->w.rng, TIMED_OUT_US));
        }
    }
}

/* ---- answers */

static void registered(struct whole *whole, struct broker *broker, const struct coord_request *request)
{
    struct host *host = &whole->hosts[broker - whole->w.brokers];
    if (request->error == OT_OK && !broker->registered) {
        broker->registered = true;
        broker->epoch = request->version;
        broker->lost = false;
        host->dir_missing = request->dir_missing;
        host->apply_due_us = whole->w.now_us;
    }
}

static void beaten(struct whole *whole, struct broker *broker, const struct ask *ask)
{
    const struct coord_request *request = &ask->request;
    if (request->error == OT_OK && !request->fenced) {
        server_leased(whole->hosts[broker - whole->w.brokers].server, ask->sent_us);
    }
    if (request->error == OT_OK && broker->stopping && request->may_stop) {
        broker->clean = true;
        host_crash(whole, (uint32_t)(broker - whole->w.brokers), false);
    } else if (request->error == OT_ERR_STALE_BROKER_EPOCH || request->error == OT_ERR_BROKER_ID_NOT_REGISTERED) {
        broker->registered = false;            /* "register again", as the same one */
    }
}

/* A server's question: what came of each item is in the copy. */
static void server_told(struct host *host, struct passed *passed)
{
    struct coord_request *of = passed->of;
    const struct coord_request *request = &passed->ask.request;
    for (uint32_t i = 0; of->ask == COORD_ASK_ALTER && i < of->u.alter.count; i++) {
        of->u.alter.items[i].error = passed->items[i].error;
        of->u.alter.items[i].leader_epoch = passed->items[i].leader_epoch;
        of->u.alter.items[i].partition_epoch = passed->items[i].partition_epoch;
    }
    for (uint32_t i = 0; of->ask == COORD_ASK_LOST && i < of->u.lost.count; i++) {
        of->u.lost.items[i].error = passed->losses[i].error;
    }
    for (uint32_t i = 0; of->ask == COORD_ASK_DURABLE && i < of->u.durable.count; i++) {
        of->u.durable.items[i].error = passed->reports[i].error;
    }
    of->error = request->error;
    of->version = request->version;
    host->asked = NULL;
    server_ask_answered(host->server, of);
}

void ask_told(struct whole *whole, struct passed *passed)
{
    struct ask *ask = &passed->ask;
    struct broker *broker = ask->broker < whole->w.broker_count ? &whole->w.brokers[ask->broker] : NULL;
    if (broker != NULL && broker->up && broker->life == ask->life) {
        if (passed->of != NULL) {
            server_told(&whole->hosts[ask->broker], passed);
        } else if (ask->request.ask == COORD_ASK_REGISTER) {
            registered(whole, broker, &ask->request);
        } else if (ask->request.ask == COORD_ASK_HEARTBEAT) {
            beaten(whole, broker, ask);
        }
    }
    drop(whole, passed);
}

/* ---- the server asks */

void host_asks(struct whole *whole, struct host *host, struct coord_request *request)
{
    struct world *w = &whole->w;
    struct passed *passed = passed_of(ask_new(w, &w->brokers[host->index], request->ask));
    struct coord_request *copy = &passed->ask.request;
    host->asked = passed->of = request;
    copy->u = request->u;
    if (request->ask == COORD_ASK_ALTER) {
        struct coord_member *members = passed->members;
        CHECK(request->u.alter.count <= PARTITIONS);
        copy->u.alter.items = passed->items;
        for (uint32_t i = 0; i < request->u.alter.count; i++) {
            passed->items[i] = request->u.alter.items[i];
            passed->items[i].members = members;
            for (uint32_t m = 0; m < passed->items[i].member_count; m++) {
                *members++ = request->u.alter.items[i].members[m];
            }
        }
        w->proposals += request->u.alter.count;
    } else if (request->ask == COORD_ASK_LOST) {
        CHECK(request->u.lost.count <= PARTITIONS);
        copy->u.lost.items = passed->losses;
        for (uint32_t i = 0; i < request->u.lost.count; i++) {
            passed->losses[i] = request->u.lost.items[i];
        }
    } else if (request->ask == COORD_ASK_DURABLE) {
        CHECK(request->u.durable.count <= PARTITIONS);
        copy->u.durable.items = passed->reports;
        for (uint32_t i = 0; i < request->u.durable.count; i++) {
            passed->reports[i] = request->u.durable.items[i];
        }
    }
    ask_send(w, &passed->ask);
}
