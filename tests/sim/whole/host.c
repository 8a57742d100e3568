/* The processes: a node of the coordinators and a broker's server, which start, pause and stop together; links between servers; heartbeats. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t clock_us(const struct world *w, const struct host *host)
{
    return 1000000 + (int64_t)((double)(w->now_us - host->started_us) * w->brokers[host->index].rate);
}

static int64_t wall_ms(const struct world *w) { return 1750000000000 + (int64_t)(w->now_us / 1000); }

/* ---- links */

static void link_drop(struct whole *whole, struct link *link)
{
    *(link->prev == NULL ? &whole->links : &link->prev->next) = link->next;
    if (link->next != NULL) {
        link->next->prev = link->prev;
    }
    ot_buf_unref(link->bytes);
    free(link);
}

static void link_event(struct whole *whole, struct link *link, enum event_kind kind, uint64_t after_us)
{
    sim_event(&whole->w, &(struct event){ .kind = kind, .at_us = whole->w.now_us + after_us, .broker = kind == EVENT_LINK_ASKED ? link->to : link->from, .link = link });
}

/* Nobody answers: the connection breaks at once, or stays half open until the caller has had enough. */
static void link_breaks(struct whole *whole, struct link *link)
{
    link_event(whole, link, EVENT_LINK_CLOSED, ot_rng_chance(&whole->w.rng, 0.5) ? 1000 : ot_rng_below(&whole->w.rng, 1500000));
}

static void link_send(void *arg, int32_t node_id, struct ot_link_call *call)
{
    struct host *host = arg;
    struct whole *whole = host->whole;
    struct world *w = &whole->w;
    struct link *link = calloc(1, sizeof *link);
    *link = (struct link){ .call = call, .from = host->index, .to = (uint32_t)node_id - 1, .bytes = call->request, .whole = whole, .next = whole->links };
    if (link->next != NULL) {
        link->next->prev = link;
    }
    whole->links = link;
    CHECK(node_id >= 1 && node_id <= (int32_t)w->broker_count);
    if (!w->brokers[host->index].up) {         /* it goes down */
        link->call = NULL;
        server_call_answered(host->server, call, OT_ERR_CLOSED, NULL);
        link_drop(whole, link);
    } else if (cluster_lost(whole->cluster, link->from, link->to)) {
        link_breaks(whole, link);
    } else {
        link_event(whole, link, EVENT_LINK_ASKED, cluster_delay_us(whole->cluster, link->to));
    }
}

static void link_served(void *arg, struct ot_buf *answer)
{
    struct link *link = arg;
    struct whole *whole = link->whole;
    link->bytes = answer;
    if (answer == NULL || cluster_lost(whole->cluster, link->to, link->from)) {
        link_breaks(whole, link);
    } else {
        link_event(whole, link, EVENT_LINK_ANSWERED, cluster_delay_us(whole->cluster, link->from));
    }
}

static void link_asked(struct whole *whole, struct link *link)
{
    struct broker *to = &whole->w.brokers[link->to];
    if (!to->up) {
        link_breaks(whole, link);
        return;
    }
    struct ot_buf *bytes = link->bytes;
    link->bytes = NULL;
    server_serve(whole->hosts[link->to].server, bytes, link_served, link);
    mirror_look(whole, link->to);
}

static void link_answered(struct whole *whole, struct link *link, bool closed)
{
    if (link->call != NULL) {
        struct ot_buf *bytes = closed ? NULL : link->bytes;
        link->bytes = closed ? link->bytes : NULL;
        server_call_answered(whole->hosts[link->from].server, link->call, closed ? OT_ERR_CLOSED : OT_OK, bytes);
    }
    link_drop(whole, link);
}

/* ---- the coordinator */

static void heartbeat(struct whole *whole, uint32_t index)
{
    struct world *w = &whole->w;
    struct broker *broker = &w->brokers[index];
    struct ask *ask;
    if (broker->registered) {
        ask = ask_new(w, broker, COORD_ASK_HEARTBEAT);
        ask->sent_us = clock_us(w, &whole->hosts[index]);
        ask->request.u.heartbeat = (struct coord_heartbeat){ .broker_id = broker->id, .broker_epoch = broker->epoch, .applied_version = broker->applied_version,
            .want_shutdown = broker->stopping && server_may_go(whole->hosts[index].server, &broker->tails_lost) };
    } else {
        ask = ask_new(w, broker, COORD_ASK_REGISTER);
        ot_store_u32(ask->dir.bytes, (uint32_t)broker->id + broker->dir_number * BROKERS_MAX);
        ask->request.u.register_ = (struct coord_register){ .broker_id = broker->id, .dir_ids = &ask->dir, .dir_count = 1, .boot_class = broker->boot, .rack = { .null = true } };
        ot_store_u64(ask->request.u.register_.incarnation_id.bytes, broker->incarnation);
    }
    ask_send(w, ask);
    sim_event(w, &(struct event){ .kind = EVENT_HEARTBEAT, .at_us = w->now_us + 400000, .broker = index, .life = broker->life });
}

static void apply(struct whole *whole, uint32_t index)
{
    struct broker *broker = &whole->w.brokers[index];
    struct host *host = &whole->hosts[index];
    const struct coord_value *view = cluster_view(whole->cluster, index);
    if (broker->registered && view->stamp.version >= broker->epoch && view->stamp.version > broker->applied_version) {
        server_apply(host->server, view, host->dir_missing);
        broker->applied_version = view->stamp.version;
    }
    host->apply_due_us = UINT64_MAX;
}

static int32_t server_term(void *arg) { return cluster_term(((struct host *)arg)->whole->cluster, ((struct host *)arg)->index); }
static int64_t server_epoch(void *arg) { return ((struct host *)arg)->whole->w.brokers[((struct host *)arg)->index].epoch; }

static void server_asks(void *arg, struct coord_request *request)
{
    struct host *host = arg;
    if (host->whole->w.brokers[host->index].up) {
        host_asks(host->whole, host, request);
    } else {
        request->error = OT_ERR_CLOSED;
        server_ask_answered(host->server, request);
    }
}

static void server_stepped(void *arg) { mirror_look(((struct host *)arg)->whole, ((struct host *)arg)->index); }

/* ---- life */

static void server_make(struct whole *whole, uint32_t index)
{
    struct host *host = &whole->hosts[index];
    *host = (struct host){ .whole = whole, .index = index };
    host->server = server_new(&(struct server_setup){ .id = (int32_t)index + 1, .strict = whole->w.swarm.strict, .retains = whole->w.swarm.retains, .session_ms = SESSION_US / 1000, .seed = ot_rng_next(&whole->w.rng), .pool = whole->pool, .host = host, .send = link_send,
        .ask = server_asks, .term = server_term, .broker_epoch = server_epoch, .stepped = server_stepped });
}

static uint64_t power_off_after(struct world *w)
{
    return w->swarm.cuts_power && ot_rng_chance(&w->rng, 0.4) ? 1 + ot_rng_below(&w->rng, ot_rng_chance(&w->rng, 0.3) ? 200 : 6000) : UINT64_MAX;
}

static void down(struct whole *whole, uint32_t index)
{
    struct world *w = &whole->w;
    const bool machine = ot_rng_chance(&w->rng, 0.5) && sim_may_lose(w);
    w->losses += machine;
    w->power_cuts++;
    host_crash(whole, index, machine);
}

void host_start(struct whole *whole, uint32_t index)
{
    struct world *w = &whole->w;
    struct broker *broker = &w->brokers[index];
    struct host *host = &whole->hosts[index];
    if (host->server == NULL) {
        server_make(whole, index);
    }
    if (broker->up || !cluster_node_start(whole->cluster, index)) {
        return;
    }
    broker->up = true;
    broker->registered = broker->stopping = broker->clean = broker->tails_lost = false;
    broker->epoch = -1;
    broker->incarnation = ot_rng_next(&w->rng);
    broker->applied_version = 0;
    host->asked = NULL;
    host->dir_missing = false;
    host->class_ = w->class_;
    host->started_us = w->now_us;
    host->apply_due_us = UINT64_MAX;
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        broker->held[p].replica = (struct replica){ 0 };
        broker->held[p].seen_epoch = -1;
        broker->held[p].offline = false;
        broker->held[p].unseen = true;
        host->mirrors[p].seen = false;
    }
    if (!server_start(host->server, wall_ms(w), w->class_, power_off_after(w))) {
        down(whole, index);
        return;
    }
    heartbeat(whole, index);
}

static void hang_up(struct whole *whole, struct host *host)
{
    for (struct link *link = whole->links; link != NULL; link = link->next) {
        if (link->from == host->index && link->call != NULL) {
            server_call_answered(host->server, link->call, OT_ERR_CLOSED, NULL);
            link->call = NULL;
        }
    }
    if (host->asked != NULL) {
        host->asked->error = OT_ERR_CLOSED;
        server_ask_answered(host->server, host->asked);
        host->asked = NULL;
    }
}

void host_crash(struct whole *whole, uint32_t index, bool machine)
{
    struct world *w = &whole->w;
    struct broker *broker = &w->brokers[index];
    struct host *host = &whole->hosts[index];
    if (!broker->up) {
        return;
    }
    if (w->verbose) {
        printf("%.3f broker %d stops, machine %d, clean %d, logs %lld/%lld %lld/%lld\n", (double)w->now_us / 1e6, broker->id, machine, broker->clean, (long long)broker->held[0].flushed,
            (long long)broker->held[0].end, (long long)broker->held[1].flushed, (long long)broker->held[1].end);
    }
    mirror_look(whole, index);
    broker->up = false;
    broker->life++;
    w->crashes++;
    w->machine_crashes += machine;
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        struct server_log log;
        server_log(host->server, (int32_t)p, &log);
        host->mirrors[p].cutting |= log.cutting || (host->mirrors[p].seen && !log.hosted);
        host->mirrors[p].machine |= machine;
        broker->lost |= machine && broker->held[p].end > broker->held[p].flushed;
    }
    hang_up(whole, host);
    broker->boot = OT_MAX(broker->registered ? COORD_BOOT_PROCESS_CRASH : broker->boot, machine ? COORD_BOOT_MACHINE_CRASH : COORD_BOOT_PROCESS_CRASH);
    if (server_end(host->server, !broker->clean, machine)) {
        broker->boot = COORD_BOOT_CLEAN;
    }
    broker->clean = false;
    sim_event(w, &(struct event){ .kind = EVENT_START, .at_us = w->now_us + 1000 + ot_rng_below(&w->rng, w->swarm.storms && !w->calm ? 200000 : 3000000), .broker = index, .life = broker->life });
    cluster_node_stop(whole->cluster, index, machine);
}

void host_free(struct host *host)
{
    if (host->server == NULL) {
        return;
    }
    host->whole->w.brokers[host->index].up = false;
    hang_up(host->whole, host);
    (void)server_end(host->server, true, false);
    server_free(host->server);
}

void host_leaves(struct whole *whole, uint32_t index)
{
    struct broker *broker = &whole->w.brokers[index];
    if (!broker->up || !broker->registered || broker->stopping || cluster_paused_until_us(whole->cluster, index) > whole->w.now_us || server_is_off(whole->hosts[index].server)) {
        return;
    }
    broker->stopping = true;
    server_leave(whole->hosts[index].server);
}

/* ---- what the coordinators' nodes do */

static void node_starts(void *arg, uint32_t node) { host_start(arg, node); }

static void node_stopped(void *arg, uint32_t node)
{
    asks_of_stopped(arg, node);
    host_crash(arg, node, false);              /* its machine may be off: by then all was written, if more may not be lost */
}

static void node_applied(void *arg, uint32_t node)
{
    struct whole *whole = arg;
    struct world *w = &whole->w;
    uint64_t due_us = w->now_us + ot_rng_below(&w->rng, ot_rng_chance(&w->rng, 0.1) ? 300000 : 5000);
    whole->hosts[node].apply_due_us = OT_MIN(whole->hosts[node].apply_due_us, due_us);
}

static void node_committed(void *arg, const struct coord_value *view)
{
    struct whole *whole = arg;
    struct ot_coord_topic_name_row row;
    if (!whole->w.topic_made && coord_topic_name_get(view, ot_str_of("t"), &row) == OT_OK) {
        whole->w.topic = row.topic_id;
        whole->w.topic_made = true;
    }
    check_rows(&whole->w, view);
}

static void node_answered(void *arg, struct coord_request *request) { ask_here(arg, request); }

void hosts_hooks(struct whole *whole, struct cluster_setup *setup)
{
    setup->host = whole;
    setup->starts = node_starts;
    setup->stopped = node_stopped;
    setup->applied = node_applied;
    setup->committed = node_committed;
    setup->answered = node_answered;
}

/* ---- what happens */

void host_event(struct whole *whole, struct event *event)
{
    struct world *w = &whole->w;
    if (event->kind == EVENT_TOLD) {
        ask_told(whole, OT_CONTAINER(event->ask, struct passed, ask));
        return;
    }
    struct broker *broker = &w->brokers[event->broker];
    if (broker->up && cluster_paused_until_us(whole->cluster, event->broker) > w->now_us) {       /* it waits in the socket */
        event->at_us = cluster_paused_until_us(whole->cluster, event->broker);
        sim_event(w, event);
        return;
    }
    switch (event->kind) {
    case EVENT_START:
        if (broker->life == event->life) {
            host_start(whole, event->broker);
            if (!broker->up && broker->life == event->life) {
                event->at_us = w->now_us + 500000;
                sim_event(w, event);
            }
        }
        break;
    case EVENT_ASK: ask_came(whole, event); break;
    case EVENT_LINK_ASKED: link_asked(whole, event->link); break;
    case EVENT_LINK_ANSWERED: link_answered(whole, event->link, false); break;
    case EVENT_LINK_CLOSED: link_answered(whole, event->link, true); break;
    case EVENT_HEARTBEAT:
        if (broker->up && broker->life == event->life) {
            heartbeat(whole, event->broker);
        }
        break;
    default: CHECK(!"an event of the whole");
    }
}

/* Is it still there, and does nothing break what has to hold? */
static bool goes_on(struct whole *whole, uint32_t index)
{
    struct host *host = &whole->hosts[index];
    mirror_look(whole, index);
    if (whole->w.brokers[index].up && server_is_off(host->server)) {
        down(whole, index);
    }
    return whole->w.brokers[index].up;
}

void host_look(struct whole *whole, uint32_t index)
{
    struct world *w = &whole->w;
    struct broker *broker = &w->brokers[index];
    struct host *host = &whole->hosts[index];
    if (!broker->up || cluster_paused_until_us(whole->cluster, index) > w->now_us) {
        return;
    }
    if (server_now_us(host->server) < clock_us(w, host) - 100000) {     /* it paused */
        server_wake(host->server, clock_us(w, host));
    }
    if (host->apply_due_us <= w->now_us) {
        apply(whole, index);
    }
    if (host->class_ != w->class_ && broker->registered && ot_rng_chance(&w->rng, 0.02)) {
        host->class_ = w->class_;
        server_set_class(host->server, cluster_view(whole->cluster, index), w->class_);
    }
    if (!goes_on(whole, index)) {
        return;
    }
    uint32_t steps = w->calm ? 10000 : (uint32_t)ot_rng_below(&w->rng, whole->steps_max);
    const int64_t to_us = clock_us(w, host);
    for (;;) {
        bool ran = steps > 0 && server_step(host->server);
        steps -= ran;
        if (!ran && server_now_us(host->server) >= to_us) {
            return;
        }
        if (!ran) {
            server_pass(host->server, to_us);
        }
        if (!goes_on(whole, index)) {
            return;
        }
    }
}
