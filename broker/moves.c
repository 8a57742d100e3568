#include "broker/moves.h"

#include "base/log.h"
#include "broker/room.h"
#include <stdio.h>
#include <stdlib.h>

#define SURVEY_US 2000000
#define AGAIN_US 200000
#define UNCLEAN_US 30000000                    /* when nobody says how long */

struct asking {
    struct broker_ask ask;
    struct broker_moves *of;
    struct broker_move *move;
    /* an unclean election: whoever has most is asked for, again until it is elected or the time is over */
    struct broker_survey survey;
    struct broker_survey_part part;
    struct coord_verdict verdict;
    struct coord_member members[COORD_REPLICAS_MAX];
    struct ot_timer timer;
    int64_t waited_us, deadline_us;
};
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
static void unclean_begin(struct asking *asking, const struct ot_uuid *topic_id);

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
        if (move->kind == BROKER_MOVE_ELECT_UNCLEAN) {
            unclean_begin(asking, &topic_id);
            return true;
        }
        if (move->kind == BROKER_MOVE_REASSIGN) {
            request->ask = COORD_ASK_REASSIGN;
            request->u.reassign = (struct coord_reassign_ask){ topic_id, move->partition, move->target, move->count };
        } else {
            request->ask = COORD_ASK_ELECT;
            request->u.elect = (struct coord_elect_ask){ .topic_id = topic_id, .partition = move->partition };
        }
        broker_coordinator_ask(moves->broker->coordinator, &asking->ask);
        return true;
    }
    return false;
}

static void settled(struct asking *asking, enum ot_err error, const char *text)
{
    struct broker_move *move = asking->move;
    move->error = error;
    if (error != OT_OK) (void)snprintf(move->text, sizeof move->text, "%s", text);
    else
        ot_log(OT_LOG_INFO, "partition", "moved", "topic=%.*s partition=%d by=%s", (int)move->topic.bytes, move->topic.data, move->partition,
            move->kind == BROKER_MOVE_REASSIGN ? "reassignment" : move->kind == BROKER_MOVE_ELECT_UNCLEAN ? "unclean_election" : "preferred_election");
    if (!ask_next(asking)) one_less(asking->of);
}

static void answered(struct broker_ask *ask)
{
    struct asking *asking = OT_CONTAINER(ask, struct asking, ask);
    settled(asking, ask->request.error, ask->request.text);
}

/* ---- unclean elections: by the longest log (elections.h does the same without being told to) */

static struct ot_exec *exec_of(const struct asking *asking) { return asking->of->broker->setup.coord_exec; }

static void unclean_again(struct asking *asking, enum ot_err error, const char *text)
{
    const int64_t now_us = ot_exec_now_us(exec_of(asking));
    if (now_us + AGAIN_US < asking->deadline_us && atomic_load(&asking->of->broker->stage) == BROKER_SERVING) ot_exec_timer_set(exec_of(asking), &asking->timer, now_us + AGAIN_US);
    else settled(asking, error, text);
}

static void unclean_answered(struct broker_ask *ask)
{
    struct asking *asking = OT_CONTAINER(ask, struct asking, ask);
    const enum ot_err error = ask->request.error;
    if (error == OT_ERR_INVALID_UPDATE_VERSION || error == OT_ERR_INELIGIBLE_REPLICA) {        /* something moved on meanwhile: look again */
        unclean_again(asking, OT_ERR_ELIGIBLE_LEADERS_NOT_AVAILABLE, ask->request.text);
        return;
    }
    if (error == OT_OK) broker_election_tell(&asking->part, &asking->verdict, ask->request.u.elect.loss, asking->move->topic);
    settled(asking, error, ask->request.text);
}

static void unclean_surveyed(struct broker_call *call)
{
    struct asking *asking = OT_CONTAINER(call, struct asking, survey.call);
    const struct broker_survey_part *part = &asking->part;
    const struct coord_contest contest = { .unclean = true, .waited = ot_exec_now_us(exec_of(asking)) >= asking->waited_us };
    if (!part->known) {
        settled(asking, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION, "No such partition.");
        return;
    }
    if (part->row.leader != -1) {
        settled(asking, OT_ERR_ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.");
        return;
    }
    coord_contest_decide(&part->row, part->answers, part->answer_count, &contest, &asking->verdict);
    if (!asking->verdict.elects) {
        unclean_again(asking, OT_ERR_ELIGIBLE_LEADERS_NOT_AVAILABLE, "No live replica can lead the partition.");
        return;
    }
    const enum coord_loss loss = asking->verdict.loss == COORD_LOSS_UNCLEAN ? COORD_LOSS_OPERATOR : asking->verdict.loss;
    asking->ask = (struct broker_ask){ .answered = unclean_answered, .timeout_us = OT_MAX(asking->deadline_us - ot_exec_now_us(exec_of(asking)), AGAIN_US) };
    broker_election_ask(part, &asking->verdict, loss, asking->members, &asking->ask.request);
    broker_coordinator_ask(asking->of->broker->coordinator, &asking->ask);
}

static void unclean_survey(struct asking *asking)
{
    asking->survey = (struct broker_survey){ .parts = &asking->part, .count = 1, .wait_us = OT_MIN(OT_MAX(asking->deadline_us - ot_exec_now_us(exec_of(asking)), AGAIN_US), SURVEY_US),
        .call = { .home = exec_of(asking), .done = unclean_surveyed } };
    broker_survey(asking->of->broker, &asking->survey);
}

static void unclean_fired(struct ot_timer *timer) { unclean_survey(OT_CONTAINER(timer, struct asking, timer)); }

static void unclean_begin(struct asking *asking, const struct ot_uuid *topic_id)
{
    const struct broker_moves *moves = asking->of;
    const int64_t now_us = ot_exec_now_us(exec_of(asking)), most_us = moves->timeout_ms > 0 ? (int64_t)moves->timeout_ms * 1000 : UNCLEAN_US;
    const int64_t wait_us = broker_config_current(moves->broker->setup.config)->ottla_unclean_election_wait_ms * 1000;
    asking->deadline_us = now_us + most_us;
    asking->waited_us = now_us + OT_MIN(wait_us, most_us / 2);
    asking->timer.fired = unclean_fired;
    asking->part.topic_id = *topic_id;
    asking->part.partition = asking->move->partition;
    unclean_survey(asking);
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
