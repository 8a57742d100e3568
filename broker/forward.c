/* Between the coordinator of this node and those of others: its messages out and in, and requests on their way to whoever leads.
 *
 * A request is tried where the leader is known to be, and again while its time lasts. Each is a compare-and-set or says the same when it comes twice; where an attempt whose answer was lost
 * makes the next one fail (the topic exists already, or is gone, or the broker is), that is recognised. */
#include "broker/coordinator_inner.h"

#include "base/log.h"
#include "base/util.h"
#include "base/wire/apis.h"
#include "base/wire/peer_message_request.h"
#include "broker/peer_ask.h"
#include "broker/room.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_US 30000000
#define RETRY_US 50000
#define MESSAGE_US 1000000                     /* what waited so long for a connection is news no more */
#define BEHIND_US 5000000                      /* an answer waits so long at most for this broker to apply what it tells of */
#define TOLD_US 1000000                         /* an answer waits so long at most for the other brokers to apply what it tells of */
#define ARENA_BYTES ((size_t)64 << 20)
#define ANSWER_BYTES_MAX (32u << 20)

static int64_t now_of(const struct broker_coordinator *c) { return ot_exec_now_us(c->setup.exec); }

/* ---- requests */

static void refuse(struct broker_coordinator *c, struct broker_ask *ask, enum ot_err error, const char *text)
{
    ask->request.error = error;
    snprintf(ask->request.text, sizeof ask->request.text, "%s", text);
    coordinator_answer(c, ask);
}

static void look_soon(struct broker_coordinator *c)
{
    if (c->forward.timer.heap_index == 0) ot_exec_timer_set(c->setup.exec, &c->forward.timer, now_of(c) + RETRY_US);
}

/* Nobody is asked any more. What an attempt whose answer was lost did is not known, and said so. */
static void refuse_at_stop(struct broker_coordinator *c, struct broker_ask *ask)
{
    if (ask->uncertain) refuse(c, ask, OT_ERR_REQUEST_TIMED_OUT, "the server is stopping; whether the change was made is not known");
    else refuse(c, ask, OT_ERR_CLOSED, "the server is stopping");
}

static void hold(struct broker_coordinator *c, struct broker_ask *ask)
{
    if (c->forward.refusing) {
        refuse_at_stop(c, ask);
        return;
    }
    ask->next = NULL;
    *c->forward.held_last = ask;
    c->forward.held_last = &ask->next;
    look_soon(c);
}

static struct broker_ask *take_held(struct broker_coordinator *c)
{
    struct broker_ask *held = c->forward.held;
    c->forward.held = NULL;
    c->forward.held_last = &c->forward.held;
    return held;
}

static void done_before(struct broker_ask *ask, const struct ot_uuid *id, const struct ot_coord_topic_row *row, int32_t replica_count)
{
    ask->request.error = OT_OK;
    ask->request.text[0] = 0;
    ask->request.topic_id = *id;
    ask->request.partition_count = row->partition_count;
    ask->request.replication_factor = replica_count;
    ask->request.version = row->version;
}

/* Are all configs that it names as this request wants them, and no others where it replaces all? */
static bool configs_stand(const struct coord_value *value, const struct coord_configs_ask *ask, int64_t *version_out)
{
    struct ot_coord_topic_row topic;
    struct ot_str at = { 0 }, text;
    uint32_t set = 0, there = 0;
    if (ask->scope.kind == COORD_SCOPE_TOPIC && coord_topic_get(value, &ask->scope.topic_id, &topic) != OT_OK) return false;
    for (uint32_t i = 0; i < ask->change_count; i++) {
        const struct coord_config_change *change = &ask->changes[i];
        const bool is_set = coord_config_get(value, &ask->scope, change->name, &text) == OT_OK;
        if (is_set == change->value.null || (is_set && !ot_str_equal(text, change->value))) return false;
        set += is_set;
    }
    while (ask->replace_all && coord_config_next(value, &ask->scope, at, &at, &text) == OT_OK) there++;
    *version_out = ask->scope.kind == COORD_SCOPE_TOPIC ? topic.version : coord_config_version(value, &ask->scope);
    return !ask->replace_all || there == set;
}

/* Is what it asked for as it asked for it, where there is no more to tell? */
static bool stands(const struct coord_value *value, struct coord_request *request)
{
    const enum ot_err error = request->error;
    if (request->ask == COORD_ASK_DELETE_TOPIC) return error == OT_ERR_UNKNOWN_TOPIC_OR_PARTITION || error == OT_ERR_UNKNOWN_TOPIC_ID;
    if (request->ask == COORD_ASK_UNREGISTER) return error == OT_ERR_BROKER_ID_NOT_REGISTERED;
    return request->ask == COORD_ASK_CONFIGS && error == OT_ERR_MISMATCH && configs_stand(value, &request->u.configs, &request->version);
}

void forward_look_back(const struct coord_value *value, struct broker_ask *ask)
{
    const struct coord_topic_ask *topic = &ask->request.u.topic;
    const enum ot_err error = ask->request.error;
    struct ot_coord_topic_name_row name;
    struct ot_coord_topic_row row;
    struct coord_partition partition;
    if (!ask->uncertain || error == OT_OK || ask->request.validate_only) return;
    if (stands(value, &ask->request)) {
        if (ask->request.ask != COORD_ASK_CONFIGS) ask->request.version = value->stamp.version;        /* that of the refusal is not committed */
        ask->request.error = OT_OK;
        ask->request.text[0] = 0;
        return;
    }
    if (ask->request.ask == COORD_ASK_REASSIGN && ask->request.u.reassign.target == NULL && error == OT_ERR_NO_REASSIGNMENT_IN_PROGRESS) {     /* cancelled then, or at its end before */
        ask->request.error = OT_ERR_REQUEST_TIMED_OUT;
        snprintf(ask->request.text, sizeof ask->request.text, "the coordinator changed meanwhile; nothing moves any more, and whether it was cancelled is not known");
        return;
    }
    const bool created = ask->request.ask == COORD_ASK_CREATE_TOPIC && error == OT_ERR_TOPIC_ALREADY_EXISTS;
    const bool grown = ask->request.ask == COORD_ASK_CREATE_PARTITIONS && (error == OT_ERR_INVALID_PARTITIONS || error == OT_ERR_MISMATCH);
    if ((!created && !grown) || topic->name.null || coord_topic_name_get(value, topic->name, &name) != OT_OK || coord_topic_get(value, &name.topic_id, &row) != OT_OK
        || coord_partition_get(value, &name.topic_id, 0, &partition) != OT_OK) return;
    if (created ? row.created_ms == topic->created_ms : row.partition_count == topic->partition_count) done_before(ask, &name.topic_id, &row, partition.replica_count);
}

/* The version that this broker has to have applied before the answer is given: who asked looks at its effect next; and what happened in an attempt whose answer was lost is
 * looked up. 0: at once. */
static int64_t version_to_see(const struct broker_ask *ask)
{
    switch (ask->request.ask) {
    case COORD_ASK_HEARTBEAT:
    case COORD_ASK_ALTER:
    case COORD_ASK_DURABLE:
    case COORD_ASK_PRODUCER_IDS: return 0;
    default:
        if (ask->request.error == OT_OK) return ask->request.validate_only ? 0 : ask->request.version;
        return ask->uncertain ? ask->request.version - 1 : 0;      /* it was refused on the state before that one */
    }
}

static void answer_seen(struct broker_coordinator *c, struct broker_ask *ask)
{
    if (coord_view(c->coord)->stamp.version >= version_to_see(ask)) {
        forward_look_back(coord_view(c->coord), ask);
        coordinator_answer(c, ask);
        return;
    }
    ask->deadline_us = now_of(c) + BEHIND_US;
    ask->next = c->forward.behind;
    c->forward.behind = ask;
    look_soon(c);
}

/* What clients look at next, at any broker. */
static bool is_shown(const struct broker_ask *ask)
{
    switch (ask->request.ask) {
    case COORD_ASK_CREATE_TOPIC:
    case COORD_ASK_DELETE_TOPIC:
    case COORD_ASK_CREATE_PARTITIONS:
    case COORD_ASK_CONFIGS:
    case COORD_ASK_LEVEL: return ask->request.error == OT_OK && !ask->request.validate_only;
    default: return false;
    }
}

void forward_give(struct broker_ask *ask)
{
    struct broker_coordinator *c = ask->to;
    if (!is_shown(ask) || c->stopping || c->forward.refusing || ask->request.version <= coord_told_version(c->coord)) {
        ask->answered(ask);
        return;
    }
    ask->deadline_us = now_of(c) + TOLD_US;
    ask->next = NULL;
    *(c->forward.untold == NULL ? &c->forward.untold : &c->forward.untold_last->next) = ask;
    c->forward.untold_last = ask;
    look_soon(c);
}

void forward_told(struct broker_coordinator *c)
{
    struct broker_ask *waiting = c->forward.untold, *told = NULL, **last = &told;
    if (waiting == NULL) return;
    const int64_t now_us = now_of(c), version = coord_told_version(c->coord);
    c->forward.untold = NULL;
    for (struct broker_ask *ask = waiting, *next; ask != NULL; ask = next) {
        next = ask->next;
        ask->next = NULL;
        if (now_us < ask->deadline_us && !c->forward.refusing && ask->request.version > version) {
            *(c->forward.untold == NULL ? &c->forward.untold : &c->forward.untold_last->next) = ask;
            c->forward.untold_last = ask;
        } else {
            *last = ask;
            last = &ask->next;
        }
    }
    for (struct broker_ask *next; told != NULL; told = next) {
        next = told->next;
        told->answered(told);
    }
}

/* What the next coordinator may do better. */
static bool may_try_again(const struct broker_coordinator *c, struct broker_ask *ask)
{
    const enum ot_err error = ask->request.error;
    if (c->stopping || c->setup.peers == NULL || ask->from_peer) return false;
    if (error == OT_ERR_CLOSED) ask->uncertain = true;
    return error == OT_ERR_NOT_CONTROLLER || error == OT_ERR_CLOSED;
}

void forward_reply(struct broker_coordinator *c, struct broker_ask *ask)
{
    if (may_try_again(c, ask)) {
        hold(c, ask);
        return;
    }
    forward_look_back(coord_view(c->coord), ask);
    coordinator_answer(c, ask);
}

static enum ot_err read_answer(struct broker_ask *ask, const struct ot_buf *answer)
{
    struct ot_peer_ask_response response;
    struct ot_reader in;
    struct ot_arena arena;
    ot_arena_init(&arena, ARENA_BYTES);
    enum ot_err err = broker_peer_answer(OT_API_PEER_ASK, ask->version, answer, &arena, &in);
    if (err == OT_OK) err = ot_wire_decode(ot_api_find(OT_API_PEER_ASK)->response, ask->version, &in, &arena, &response, NULL);
    if (err == OT_OK) err = broker_peer_answer_read(&response, &ask->request);
    ot_arena_free(&arena);
    return err;
}

static void passed(struct ot_link_call *call)      /* on the coordinator's thread */
{
    struct broker_ask *ask = OT_CONTAINER(call, struct broker_ask, link);
    struct broker_coordinator *c = ask->to;
    enum ot_err err = call->error;
    c->forward.passed--;
    if (err == OT_OK) err = read_answer(ask, call->answer);
    ot_buf_unref(call->answer);
    if (err != OT_OK) {
        ask->uncertain |= call->sent;
        hold(c, ask);
    } else if (may_try_again(c, ask)) {
        hold(c, ask);
    } else {
        answer_seen(c, ask);
    }
    if (c->stopping) forward_stop(c);
    coordinator_settle(c);
}

static void pass_on(struct broker_coordinator *c, struct broker_ask *ask, int32_t leader)
{
    struct ot_peer_ask_request wire;
    struct ot_arena arena;
    ot_arena_init(&arena, ARENA_BYTES);
    if (ask->request.ask == COORD_ASK_ALTER) ask->request.u.alter.term = coord_term(c->coord);
    ask->version = broker_peers_version(c->setup.peers, leader, OT_API_PEER_ASK);
    struct ot_buf *request = broker_peer_ask_write(&ask->request, &arena, &wire) == OT_OK ? broker_peer_frame(c->setup.peers->pool, OT_API_PEER_ASK, ask->version, &wire) : NULL;
    ot_arena_free(&arena);
    if (request == NULL) {
        hold(c, ask);                          /* memory comes back */
        return;
    }
    ask->link = (struct ot_link_call){ .answered = passed, .home = c->setup.exec, .request = request, .answer_bytes_max = ANSWER_BYTES_MAX, .deadline_us = ask->deadline_us };
    c->forward.passed++;
    c->forward.passed_to = leader;
    broker_peers_send(c->setup.peers, leader, BROKER_PEER_ASKS, &ask->link);
}

static void step_here(struct broker_coordinator *c, struct broker_ask *ask)
{
    if (ask->request.ask == COORD_ASK_ALTER && !ask->from_peer) ask->request.u.alter.term = coord_term(c->coord);
    coordinator_turn(c, (struct coord_in){ .kind = COORD_REQUEST, .request = &ask->request });
}

static void time_out(struct broker_coordinator *c, struct broker_ask *ask)
{
    if (ask->uncertain) refuse(c, ask, OT_ERR_REQUEST_TIMED_OUT, "the coordinator changed meanwhile; whether the change was made is not known");
    else refuse(c, ask, OT_ERR_REQUEST_TIMED_OUT, "no coordinator could be reached");
}

static void route(struct broker_coordinator *c, struct broker_ask *ask)
{
    const int32_t leader = coord_leader(c->coord);
    if (ask->request.ask == COORD_ASK_RESIGN && ask->request.u.resign.node_id < 0) ask->request.u.resign.node_id = leader;     /* once: the next one is not meant */
    if (now_of(c) >= ask->deadline_us) time_out(c, ask);
    else if (leader == c->setup.peers->node_id) step_here(c, ask);
    else if (leader >= 0) pass_on(c, ask, leader);
    else hold(c, ask);
}

void forward_ask(struct broker_coordinator *c, struct broker_ask *ask)
{
    ask->deadline_us = now_of(c) + (ask->timeout_us > 0 ? ask->timeout_us : ASK_US);
    ask->uncertain = false;
    if (c->stopping) refuse(c, ask, OT_ERR_CLOSED, "the server is stopping");
    else if (c->setup.peers == NULL || ask->from_peer) step_here(c, ask);
    else route(c, ask);
}

static void look(struct broker_coordinator *c)
{
    struct broker_ask *held = take_held(c);
    ot_exec_timer_cancel(c->setup.exec, &c->forward.timer);
    while (held != NULL) {
        struct broker_ask *ask = held;
        held = ask->next;
        route(c, ask);
    }
    const int64_t now_us = now_of(c);
    for (struct broker_ask **at = &c->forward.behind; *at != NULL;) {
        struct broker_ask *ask = *at;
        if (now_us < ask->deadline_us) {
            at = &ask->next;
            continue;
        }
        *at = ask->next;                       /* it was decided; this broker is slow to hear of it */
        forward_look_back(coord_view(c->coord), ask);
        coordinator_answer(c, ask);
    }
    forward_told(c);
    if (c->forward.held != NULL || c->forward.behind != NULL || c->forward.untold != NULL) look_soon(c);
}

static void timer_fired(struct ot_timer *timer) { look(OT_CONTAINER(timer, struct broker_coordinator, forward.timer)); }

static void look_run(struct ot_task *task)
{
    struct broker_coordinator *c = OT_CONTAINER(task, struct broker_coordinator, forward.look_task);
    c->forward.look_task.run = NULL;
    if (!c->stopping) look(c);
}

void forward_role(struct broker_coordinator *c, bool leading)      /* within a turn: what waits is asked after it */
{
    if (leading && c->setup.peers != NULL) broker_peers_tell_dead(c->setup.peers);
    if (c->forward.passed > 0 && coord_leader(c->coord) != c->forward.passed_to) broker_peers_hang_up(c->setup.peers, BROKER_PEER_ASKS);   /* it may never answer: to the next one */
    if (c->forward.held == NULL || c->forward.look_task.run != NULL) return;
    c->forward.look_task.run = look_run;
    ot_exec_post(c->setup.exec, &c->forward.look_task);
}

void forward_applied(struct broker_coordinator *c)
{
    const int64_t version = coord_view(c->coord)->stamp.version;
    for (struct broker_ask **at = &c->forward.behind; *at != NULL;) {
        struct broker_ask *ask = *at;
        if (version_to_see(ask) > version) {
            at = &ask->next;
            continue;
        }
        *at = ask->next;
        forward_look_back(coord_view(c->coord), ask);
        coordinator_answer(c, ask);
    }
}

void forward_init(struct broker_coordinator *c)
{
    c->forward.timer.fired = timer_fired;
    c->forward.held_last = &c->forward.held;
}

void forward_stop(struct broker_coordinator *c)
{
    struct broker_ask *lists[3] = { take_held(c), c->forward.behind, c->forward.untold };
    c->forward.behind = c->forward.untold = NULL;
    ot_exec_timer_cancel(c->setup.exec, &c->forward.timer);
    for (int i = 0; i < 3; i++) {
        for (struct broker_ask *ask = lists[i], *next; ask != NULL; ask = next) {
            next = ask->next;
            if (i == 0) refuse_at_stop(c, ask);
            else coordinator_answer(c, ask);
        }
    }
}

static void refuse_run(struct ot_task *task)
{
    struct broker_coordinator *c = OT_CONTAINER(task, struct broker_coordinator, forward.refuse_task);
    struct broker_ask *held = take_held(c);
    c->forward.refusing = true;
    forward_told(c);
    for (struct broker_ask *ask = held, *next; ask != NULL; ask = next) {
        next = ask->next;
        hold(c, ask);
    }
}

void broker_coordinator_refuse(struct broker_coordinator *coordinator)
{
    if (coordinator->setup.peers == NULL) return;
    coordinator->forward.refuse_task.run = refuse_run;
    ot_exec_post(coordinator->setup.exec, &coordinator->forward.refuse_task);
    broker_peers_hang_up(coordinator->setup.peers, BROKER_PEER_ASKS);
}

bool forward_busy(const struct broker_coordinator *c) { return c->forward.passed > 0 || c->forward.look_task.run != NULL; }

/* ---- messages of the machine */

struct message_out { struct ot_link_call link; };

static void message_sent(struct ot_link_call *call)    /* on the links' loop. What was lost is said again by the machine */
{
    ot_buf_unref(call->answer);
    free(OT_CONTAINER(call, struct message_out, link));
}

void forward_message(struct broker_coordinator *c, uint32_t peer, struct ot_blob body)
{
    struct broker_peers *peers = c->setup.peers;
    struct ot_peer_message_request wire;
    if (peers == NULL) return;
    ot_peer_message_request_defaults(&wire);
    wire.message = body;
    struct ot_buf *request = broker_peer_frame(peers->pool, OT_API_PEER_MESSAGE, broker_peers_version(peers, (int32_t)peer, OT_API_PEER_MESSAGE), &wire);
    struct message_out *out = request == NULL ? NULL : malloc(sizeof *out);
    if (out == NULL) {
        ot_buf_unref(request);
        return;
    }
    out->link = (struct ot_link_call){ .answered = message_sent, .home = ot_links_exec(peers->links), .request = request, .answer_bytes_max = 4096,
        .deadline_us = now_of(c) + MESSAGE_US };
    broker_peers_send(peers, (int32_t)peer, BROKER_PEER_MESSAGES, &out->link);
}

static void message_done(struct ot_task *task)
{
    struct broker_call *call = OT_CONTAINER(task, struct broker_call, task);
    call->done(call);
}

static void message_run(struct ot_task *task)
{
    struct broker_call *call = OT_CONTAINER(task, struct broker_call, task);
    struct broker_peer_message *message = OT_CONTAINER(call, struct broker_peer_message, call);
    struct broker_coordinator *c = message->broker->coordinator;
    if (!c->stopping) coordinator_turn(c, (struct coord_in){ .kind = COORD_MSG, .peer = (uint32_t)message->peer, .body = message->body });
    call->task.run = message_done;
    ot_exec_post(call->home, &call->task);
}

void broker_coordinator_message(struct broker_coordinator *coordinator, struct broker_peer_message *message)
{
    message->call.task.run = message_run;
    ot_exec_post(coordinator->setup.exec, &message->call.task);
}

void broker_peer_message(struct broker *broker, struct broker_peer_message *message)
{
    message->broker = broker;
    broker_coordinator_message(broker->coordinator, message);
}

/* ---- requests of peers */

struct broker_peer_asked { struct broker_ask ask; struct broker_peer_ask *of; };

static void peer_done(struct broker_peer_ask *peer)
{
    peer->call.task.run = message_done;
    ot_exec_post(peer->call.home, &peer->call.task);
}

static void peer_answered(struct broker_ask *ask)  /* on the coordinator's thread */
{
    struct broker_peer_asked *asked = OT_CONTAINER(ask, struct broker_peer_asked, ask);
    struct broker_peer_ask *peer = asked->of;
    /* its texts point into asked, which lives as long as the arena that it is of */
    if (broker_peer_answer_write(&ask->request, peer->arena, &peer->out) != OT_OK) {
        ot_peer_ask_response_defaults(&peer->out);
        peer->out.error = ot_str_of(ot_err_name(OT_ERR_CLOSED));
    }
    peer_done(peer);
}

void broker_peer_ask(struct broker *broker, struct broker_peer_ask *peer)
{
    struct broker_peer_asked *asked = ot_arena_alloc(peer->arena, sizeof *asked);
    enum ot_err err = asked == NULL ? OT_ERR_NO_MEMORY : broker_peer_ask_read(peer->in, peer->peer, peer->arena, &asked->ask.request);
    if (err != OT_OK) {
        ot_peer_ask_response_defaults(&peer->out);
        peer->out.error = ot_str_of(ot_err_name(err == OT_ERR_MALFORMED ? OT_ERR_INVALID_REQUEST : err));
        peer->out.error_message = ot_str_of(ot_err_text(err));
        peer_done(peer);
        return;
    }
    peer->asked = asked;
    asked->of = peer;
    asked->ask.from_peer = true;
    asked->ask.answered = peer_answered;
    broker_coordinator_ask(broker->coordinator, &asked->ask);
}

/* ---- evidence of death */

struct gone { struct broker_ask ask; struct ot_task task; struct broker_coordinator *c; int32_t node_id; };

static void gone_answered(struct broker_ask *ask) { free(OT_CONTAINER(ask, struct gone, ask)); }

static void gone_run(struct ot_task *task)
{
    struct gone *gone = OT_CONTAINER(task, struct gone, task);
    struct broker_coordinator *c = gone->c;
    uint8_t room[32768];
    struct ot_arena arena;
    struct ot_coord_broker_row row;
    ot_arena_init_with(&arena, room, sizeof room, 0);
    if (c->stopping || coord_leader(c->coord) != c->setup.peers->node_id || coord_broker_get(coord_view(c->coord), gone->node_id, &arena, &row) != OT_OK || row.fenced) {
        free(gone);
        return;
    }
    ot_log(OT_LOG_WARN, "coordinator", "broker_gone", "node=%d text=\"its connection broke and nobody listens at its address any more: it is fenced\"", gone->node_id);
    gone->ask = (struct broker_ask){ .request = { .ask = COORD_ASK_FENCE, .if_version = -1, .u.fence = { gone->node_id, row.broker_epoch } }, .answered = gone_answered,
        .from_peer = true };
    gone->ask.to = c;
    forward_ask(c, &gone->ask);
}

void broker_coordinator_gone(struct broker_coordinator *coordinator, int32_t node_id)
{
    struct gone *gone = calloc(1, sizeof *gone);
    if (gone == NULL) return;                  /* its session will end */
    gone->c = coordinator;
    gone->node_id = node_id;
    gone->task.run = gone_run;
    ot_exec_post(coordinator->setup.exec, &gone->task);
}
