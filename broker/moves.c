#include "broker/moves.h"

#include "base/log.h"
#include "broker/room.h"
#include <stdio.h>
#include <stdlib.h>

#define SURVEY_US 2000000
#define AGAIN_US 200000
#define LONG_US 30000000                       /* when nobody says how long */
#define LOOK_US 10000                          /* at leaders that hand over */
enum { PREFERRED_MAX = 1000 };                 /* in one request: they hand over at one time */

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
/* Preferred elections, as many as fit in one request; the next when all of these have ended. */
struct preferring {
    struct broker_ask ask;
    struct broker_moves *of;
    struct ot_timer timer;
    int64_t deadline_us;
    uint32_t next, count;                      /* next: of the moves */
    struct coord_prefer items[PREFERRED_MAX];
    struct broker_move *moves[PREFERRED_MAX];  /* NULL: ended */
};
struct broker_moves_asks { struct ot_task begin; struct broker_moves *of; struct preferring preferring; struct asking all[BROKER_MOVES_ASKED_MAX]; };

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
        if (move->error != OT_OK || move->kind == BROKER_MOVE_ELECT_PREFERRED) continue;
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
        request->ask = COORD_ASK_REASSIGN;
        request->u.reassign = (struct coord_reassign_ask){ topic_id, move->partition, move->target, move->count };
        broker_coordinator_ask(moves->broker->coordinator, &asking->ask);
        return true;
    }
    return false;
}

static void end_of(struct broker_move *move, enum ot_err error, const char *text)
{
    move->error = error;
    if (error != OT_OK) (void)snprintf(move->text, sizeof move->text, "%s", text);
    else
        ot_log(OT_LOG_INFO, "partition", "moved", "topic=%.*s partition=%d by=%s", (int)move->topic.bytes, move->topic.data, move->partition,
            move->kind == BROKER_MOVE_REASSIGN ? "reassignment" : move->kind == BROKER_MOVE_ELECT_UNCLEAN ? "unclean_election" : "preferred_election");
}

static void settled(struct asking *asking, enum ot_err error, const char *text)
{
    end_of(asking->move, error, text);
    if (!ask_next(asking)) one_less(asking->of);
}

static void answered(struct broker_ask *ask)
{
    struct asking *asking = OT_CONTAINER(ask, struct asking, ask);
    settled(asking, ask->request.error, ask->request.text);
}

/* ---- preferred elections: the leader hands over, which its row tells */

static void prefer_next(struct preferring *preferring);

static struct ot_exec *coord_exec_of(const struct broker_moves *moves) { return moves->broker->setup.coord_exec; }
static int64_t most_us_of(const struct broker_moves *moves) { return moves->timeout_ms > 0 ? (int64_t)moves->timeout_ms * 1000 : LONG_US; }

/* Does it still hand over to that one? Else the move has ended, well or not. */
static bool hands_over(struct preferring *preferring, uint32_t i)
{
    const struct coord_prefer *item = &preferring->items[i];
    struct broker_move *move = preferring->moves[i];
    struct coord_partition row;
    const enum ot_err err = coord_partition_get(broker_coordinator_value(preferring->of->broker->coordinator), &item->topic_id, item->partition, &row);
    if (err != OT_OK) end_of(move, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION, "No such partition.");
    else if (row.leader == item->leader) end_of(move, OT_OK, "");
    else if (row.successor != coord_replica_bit(&row, item->leader) || row.successor == 0)
        end_of(move, OT_ERR_PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader did not get all records in time, or is not in sync any more.");
    else return true;
    return false;
}

static void look_at(struct preferring *preferring)
{
    const int64_t now_us = ot_exec_now_us(coord_exec_of(preferring->of));
    const bool over = now_us >= preferring->deadline_us || atomic_load(&preferring->of->broker->stage) != BROKER_SERVING;
    uint32_t open = 0;
    for (uint32_t i = 0; i < preferring->count; i++) {
        if (preferring->moves[i] == NULL) continue;
        const bool waits = hands_over(preferring, i);
        if (waits && over) end_of(preferring->moves[i], OT_ERR_REQUEST_TIMED_OUT, "The leader has not handed over yet.");
        if (waits && !over) open++;
        else preferring->moves[i] = NULL;
    }
    if (open > 0) ot_exec_timer_set(coord_exec_of(preferring->of), &preferring->timer, now_us + LOOK_US);
    else prefer_next(preferring);
}

static void look_fired(struct ot_timer *timer) { look_at(OT_CONTAINER(timer, struct preferring, timer)); }

static void preferred(struct broker_ask *ask)
{
    struct preferring *preferring = OT_CONTAINER(ask, struct preferring, ask);
    for (uint32_t i = 0; i < preferring->count; i++) {
        const enum ot_err error = ask->request.error != OT_OK ? ask->request.error : preferring->items[i].error;
        const bool made = error == OT_ERR_ELECTION_NOT_NEEDED && ask->uncertain;       /* an attempt whose answer was lost did it, or it needed none */
        if (error == OT_OK) continue;
        if (made) {
            end_of(preferring->moves[i], OT_OK, "");
            preferring->moves[i] = NULL;
            continue;
        }
        end_of(preferring->moves[i], error, ask->request.error != OT_OK ? ask->request.text : error == OT_ERR_ELECTION_NOT_NEEDED ? "Leader election not needed for topic partition."
            : error == OT_ERR_PREFERRED_LEADER_NOT_AVAILABLE ? "The preferred leader is not available or not in sync." : ot_err_text(error));
        preferring->moves[i] = NULL;
    }
    look_at(preferring);
}

/* On the coordinator's thread. */
static void prefer_next(struct preferring *preferring)
{
    struct broker_moves *moves = preferring->of;
    preferring->count = 0;
    while (preferring->next < moves->count && preferring->count < PREFERRED_MAX) {
        struct broker_move *move = &moves->moves[preferring->next++];
        struct coord_prefer *item = &preferring->items[preferring->count];
        if (move->error != OT_OK || move->kind != BROKER_MOVE_ELECT_PREFERRED) continue;
        *item = (struct coord_prefer){ .partition = move->partition, .leader = -1 };
        if (topic_id_of(moves->broker, move->topic, &item->topic_id)) preferring->moves[preferring->count++] = move;
        else end_of(move, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION, "No such topic.");
    }
    if (preferring->count == 0) {
        one_less(moves);
        return;
    }
    preferring->timer.fired = look_fired;
    preferring->deadline_us = ot_exec_now_us(coord_exec_of(moves)) + most_us_of(moves);
    preferring->ask = (struct broker_ask){ .answered = preferred, .timeout_us = most_us_of(moves),
        .request = { .ask = COORD_ASK_PREFER, .if_version = -1, .u.prefer = { preferring->items, preferring->count } } };
    broker_coordinator_ask(moves->broker->coordinator, &preferring->ask);
}

/* ---- unclean elections: by the longest log (elections.h does the same without being told to) */

static struct ot_exec *exec_of(const struct asking *asking) { return coord_exec_of(asking->of); }

static void unclean_again(struct asking *asking, enum ot_err error, const char *text)
{
    const int64_t now_us = ot_exec_now_us(exec_of(asking));
    if (now_us + AGAIN_US < asking->deadline_us && atomic_load(&asking->of->broker->stage) == BROKER_SERVING) ot_exec_timer_set(exec_of(asking), &asking->timer, now_us + AGAIN_US);
    else settled(asking, error, text);
}

/* Did an attempt whose answer was lost elect it? It is the one that this very election makes, in the epoch behind the one that was looked at. */
static bool was_made(const struct asking *asking)
{
    const struct broker_survey_part *part = &asking->part;
    const int32_t candidate = asking->ask.request.u.elect.candidate;
    struct coord_partition row;
    return asking->ask.uncertain && coord_partition_get(broker_coordinator_value(asking->of->broker->coordinator), &part->topic_id, part->partition, &row) == OT_OK
        && row.loss_version >= 0 && row.loss_leader == candidate && row.loss_epoch == part->row.leader_epoch;
}

static void unclean_answered(struct broker_ask *ask)
{
    struct asking *asking = OT_CONTAINER(ask, struct asking, ask);
    const bool made = ask->request.error != OT_OK && was_made(asking);
    const enum ot_err error = made ? OT_OK : ask->request.error;
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
    const struct coord_contest contest = { .unclean = true, .waited = ot_exec_now_us(exec_of(asking)) >= asking->waited_us,
        .named = asking->move->named, .leader = asking->move->leader };
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
        unclean_again(asking, OT_ERR_ELIGIBLE_LEADERS_NOT_AVAILABLE, asking->move->named ? "The replica that is to lead the partition does not live, or cannot lead it yet." : "No live replica can lead the partition.");
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
    const int64_t now_us = ot_exec_now_us(exec_of(asking)), most_us = most_us_of(moves);
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
    atomic_fetch_add(&moves->open, 1);
    asks->preferring.of = moves;
    prefer_next(&asks->preferring);
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
