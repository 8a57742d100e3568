#include "broker/moves.h"

#include "base/log.h"
#include "broker/room.h"
#include <stdio.h>
#include <stdlib.h>

struct asking { struct broker_ask ask; struct broker_moves *of; struct broker_move *move; };
struct broker_moves_asks { struct ot_task begin; struct broker_moves *of; struct asking all[BROKER_MOVES_ASKED_MAX]; };

static void done_run(struct ot_task *task)
{
    struct broker_moves *moves = OT_CONTAINER(task, struct broker_moves, call.task);
    free(moves->asks);
    moves->asks = NULL;
    moves->call.done(&moves->call);
}

static void one_less(struct broker_moves *moves)
{
    if (atomic_fetch_sub(&moves->open, 1) != 1) return;
    moves->call.task.run = done_run;
    ot_exec_post(moves->call.home, &moves->call.task);
}

static bool topic_id_of(struct broker *broker, struct ot_str name, struct ot_uuid *out)
{
    struct broker_view_topic topic;
    const struct broker_view *view = broker_view_take(broker);
    const bool known = broker_view_topic(view, name, &topic);
    broker_view_give(view);
    if (known) *out = topic.id;
    return known;
}

static void answered(struct broker_ask *ask);

/* On the coordinator's thread: the next move that is to be asked for, with this ask. False: there is none. */
static bool ask_next(struct asking *asking)
{
    struct broker_moves *moves = asking->of;
    while (moves->next < moves->count) {
        struct broker_move *move = &moves->moves[moves->next++];
        struct ot_uuid topic_id;
        if (move->error != OT_OK) continue;
        if (!topic_id_of(moves->broker, move->topic, &topic_id)) {
            move->error = OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
            continue;
        }
        asking->move = move;
        asking->ask = (struct broker_ask){ .answered = answered, .timeout_us = moves->timeout_ms > 0 ? (int64_t)moves->timeout_ms * 1000 : 0, .request = { .if_version = -1 } };
        struct coord_request *request = &asking->ask.request;
        if (move->kind == BROKER_MOVE_REASSIGN) {
            request->ask = COORD_ASK_REASSIGN;
            request->u.reassign = (struct coord_reassign_ask){ topic_id, move->partition, move->target, move->count };
        } else {
            request->ask = COORD_ASK_ELECT;
            request->u.elect = (struct coord_elect_ask){ topic_id, move->partition, move->kind == BROKER_MOVE_ELECT_UNCLEAN, -1 };
        }
        broker_coordinator_ask(moves->broker->coordinator, &asking->ask);
        return true;
    }
    return false;
}

static void answered(struct broker_ask *ask)
{
    struct asking *asking = OT_CONTAINER(ask, struct asking, ask);
    struct broker_move *move = asking->move;
    move->error = ask->request.error;
    if (move->error != OT_OK) (void)snprintf(move->text, sizeof move->text, "%s", ask->request.text);
    else
        ot_log(OT_LOG_INFO, "partition", "moved", "topic=%.*s partition=%d by=%s", (int)move->topic.bytes, move->topic.data, move->partition,
            move->kind == BROKER_MOVE_REASSIGN ? "reassignment" : move->kind == BROKER_MOVE_ELECT_UNCLEAN ? "unclean_election" : "preferred_election");
    if (!ask_next(asking)) one_less(asking->of);
}

static void begin_run(struct ot_task *task)
{
    struct broker_moves_asks *asks = OT_CONTAINER(task, struct broker_moves_asks, begin);
    struct broker_moves *moves = asks->of;
    for (uint32_t i = 0; i < BROKER_MOVES_ASKED_MAX; i++) {
        asks->all[i].of = moves;
        atomic_fetch_add(&moves->open, 1);
        if (!ask_next(&asks->all[i])) {
            one_less(moves);
            break;
        }
    }
    one_less(moves);
}

void broker_moves(struct broker *broker, struct broker_moves *moves)
{
    moves->broker = broker;
    moves->next = 0;
    atomic_store(&moves->open, 1);
    moves->asks = calloc(1, sizeof *moves->asks);
    if (moves->asks == NULL) {
        for (uint32_t i = 0; i < moves->count; i++)
            if (moves->moves[i].error == OT_OK) moves->moves[i].error = OT_ERR_NO_MEMORY;
        one_less(moves);
        return;
    }
    moves->asks->of = moves;
    moves->asks->begin.run = begin_run;
    ot_exec_post(broker->setup.coord_exec, &moves->asks->begin);
}
