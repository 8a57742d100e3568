#include "broker/voter_change.h"

#include "base/log.h"
#include "base/util.h"
#include "broker/room.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN_US 100000
#define ATTEMPT_US 3000000

struct broker_voter_asked {
    struct broker_ask ask;
    struct broker *broker;
    struct broker_voter_change *change;
    struct ot_task task;
    struct ot_timer timer;
    int64_t deadline_us;
    bool uncertain;                            /* an attempt whose answer was lost may have done it */
    struct ot_uuid dir_id;
    char host[BROKER_PEER_HOST_BYTES]; int32_t port;
};

static void done_run(struct ot_task *task)
{
    struct broker_call *call = OT_CONTAINER(task, struct broker_call, task);
    call->done(call);
}

static void end(struct broker_voter_asked *asked, enum ot_err error, const char *text)
{
    struct broker_voter_change *change = asked->change;
    ot_log(error == OT_OK ? OT_LOG_INFO : OT_LOG_WARN, "coordinator", "voter_change", "node=%d add=%s remove=%s error=%s text=\"%s\"", change->id, change->add ? "yes" : "no",
        change->remove ? "yes" : "no", ot_err_name(error), text);
    change->error = error;
    snprintf(change->text, sizeof change->text, "%s", text);
    free(asked);
    change->call.task.run = done_run;
    ot_exec_post(change->call.home, &change->call.task);
}

/* What was not said is taken from the broker's registration. */
static enum ot_err fill(struct broker_voter_asked *asked)
{
    const struct broker_voter_change *change = asked->change;
    const struct coord_value *value = broker_coordinator_value(asked->broker->coordinator);
    uint8_t room[32768];
    struct ot_arena arena;
    struct ot_coord_broker_row row;
    ot_arena_init_with(&arena, room, sizeof room, 0);
    const bool said = !ot_uuid_is_zero(&change->dir_id) && change->port != 0;
    asked->dir_id = change->dir_id;
    if (change->port != 0) {
        snprintf(asked->host, sizeof asked->host, "%.*s", (int)change->host.bytes, change->host.data);
        asked->port = change->port;
    }
    if (said) return OT_OK;
    if (coord_broker_get(value, change->id, &arena, &row) != OT_OK) return OT_ERR_NOT_FOUND;
    if (ot_uuid_is_zero(&asked->dir_id) && row.dir_ids.count > 0) asked->dir_id = row.dir_ids.items[0];
    for (int32_t i = 0; i < row.endpoints.count && asked->port == 0; i++) {
        const struct ot_coord_broker_row_endpoint *one = &row.endpoints.items[i];
        if (!ot_str_equal(one->name, ot_str_of(BROKER_PEER_LISTENER)) || one->host.null) continue;
        snprintf(asked->host, sizeof asked->host, "%.*s", (int)one->host.bytes, one->host.data);
        asked->port = one->port;
    }
    return asked->port == 0 ? OT_ERR_INVALID_REQUEST : OT_OK;
}

static bool is_other_key(struct broker_voter_asked *asked)
{
    struct ot_coord_voter_row row;
    const struct broker_voter_change *change = asked->change;
    return !change->add && !ot_uuid_is_zero(&change->dir_id)
        && coord_voter_get(broker_coordinator_value(asked->broker->coordinator), change->id, &row) == OT_OK && !ot_uuid_equal(&row.dir_id, &change->dir_id);
}

/* Is the set of voters as this change wants it? */
static bool is_done(const struct broker_voter_asked *asked)
{
    struct ot_coord_voter_row row;
    const struct broker_voter_change *change = asked->change;
    const enum ot_err err = coord_voter_get(broker_coordinator_value(asked->broker->coordinator), change->id, &row);
    return change->add ? err == OT_OK && ot_uuid_equal(&row.dir_id, &asked->dir_id) : err == OT_ERR_NOT_FOUND;
}

static void answered(struct broker_ask *ask)
{
    struct broker_voter_asked *asked = OT_CONTAINER(ask, struct broker_voter_asked, ask);
    struct ot_exec *exec = asked->broker->setup.coord_exec;
    const enum ot_err error = ask->request.error;
    asked->uncertain |= ask->uncertain;
    const bool repeats = asked->uncertain && (error == OT_ERR_VOTER_NOT_FOUND || error == OT_ERR_DUPLICATE_VOTER);     /* as it is after the lost attempt, once it is seen here */
    const bool again = (error == OT_ERR_REQUEST_TIMED_OUT || repeats) && ot_exec_now_us(exec) < asked->deadline_us && atomic_load(&asked->broker->stage) == BROKER_SERVING;
    if (repeats && is_done(asked)) end(asked, OT_OK, "");
    else if (again) ot_exec_timer_set(exec, &asked->timer, ot_exec_now_us(exec) + AGAIN_US);
    else end(asked, ask->request.error, ask->request.text);
}

static void attempt(struct broker_voter_asked *asked)
{
    const struct broker_voter_change *change = asked->change;
    if (is_other_key(asked)) {
        end(asked, OT_ERR_INVALID_VOTER_KEY, "the voter of that id has another directory");
        return;
    }
    const enum ot_err err = change->add ? fill(asked) : OT_OK;
    if (err != OT_OK) {
        end(asked, err, err == OT_ERR_NOT_FOUND ? "no broker of that id is registered: start it with coordinator.join" : "that broker has no peer listener");
        return;
    }
    asked->ask.answered = answered;
    asked->ask.timeout_us = ATTEMPT_US;
    asked->ask.request = (struct coord_request){ .ask = COORD_ASK_VOTERS, .if_version = -1, .u.voters = { .add = change->add, .remove = change->remove, .id = change->id,
        .remove_id = change->id, .dir_id = asked->dir_id, .host = ot_str_of(asked->host), .port = asked->port } };
    broker_coordinator_ask(asked->broker->coordinator, &asked->ask);
}

static void begin_run(struct ot_task *task) { attempt(OT_CONTAINER(task, struct broker_voter_asked, task)); }
static void timer_fired(struct ot_timer *timer) { attempt(OT_CONTAINER(timer, struct broker_voter_asked, timer)); }

static enum ot_err check(struct broker *broker, const struct broker_voter_change *change, const char **text_out)
{
    *text_out = "this broker has no peer listener (peer.listeners), so nobody can vote with it";
    if (broker->peers == NULL) return OT_ERR_INVALID_REQUEST;
    *text_out = "the server is not serving";
    if (atomic_load(&broker->stage) != BROKER_SERVING) return OT_ERR_NOT_CONTROLLER;
    *text_out = "a voter has an id, a host and a port from 1 to 65535";
    return change->id < 0 || change->port < 0 || change->port > 65535 || (change->port != 0 && (change->host.null || change->host.bytes == 0 || change->host.bytes >= BROKER_PEER_HOST_BYTES))
        ? OT_ERR_INVALID_REQUEST : OT_OK;
}

void broker_voter_change(struct broker *broker, struct broker_voter_change *change)
{
    const char *text = "";
    enum ot_err err = check(broker, change, &text);
    struct broker_voter_asked *asked = err == OT_OK ? calloc(1, sizeof *asked) : NULL;
    if (asked == NULL) {
        change->error = err == OT_OK ? OT_ERR_NO_MEMORY : err;
        snprintf(change->text, sizeof change->text, "%s", err == OT_OK ? "out of memory" : text);
        change->call.task.run = done_run;
        ot_exec_post(change->call.home, &change->call.task);
        return;
    }
    *asked = (struct broker_voter_asked){ .broker = broker, .change = change, .task.run = begin_run, .timer.fired = timer_fired,
        .deadline_us = ot_exec_now_us(change->call.home) + (int64_t)OT_MAX(change->timeout_ms, 0) * 1000 };
    ot_exec_post(broker->setup.coord_exec, &asked->task);
}
