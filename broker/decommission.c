/* Replicas away from brokers that are decommissioned (ottla.broker.decommission): the broker that leads the coordinator looks, and asks for reassignments, so many at a time.
 *
 * What it goes by is the committed state alone: which brokers leave, which replicas they hold, which of those are being moved. So it needs no memory of its own, and whoever leads next
 * goes on where it was. */
#include "broker/decommission.h"

#include "base/log.h"
#include "broker/moves.h"
#include "broker/plan.h"
#include "broker/replication_inner.h"
#include <stdlib.h>

#define LOOK_US 250000
#define TOLD_US 60000000                       /* that a partition cannot move is said again after that */
enum { RUNNING_MAX = 16, LEAVING_MAX = 64, PLAN_ARENA_BYTES = 1 << 20 };

struct broker_decommission {
    struct broker_moves moves;
    struct broker_replication *all;
    struct ot_arena arena;
    struct broker_move list[RUNNING_MAX];
};

static void end(struct broker_decommission *work)
{
    work->all->decommission = NULL;
    ot_arena_free(&work->arena);
    free(work);
}

static void moved(struct broker_call *call)
{
    struct broker_decommission *work = OT_CONTAINER(call, struct broker_decommission, moves.call);
    struct broker_replication *all = work->all;
    uint32_t begun = 0;
    for (uint32_t i = 0; i < work->moves.count; i++) {
        const struct broker_move *move = &work->list[i];
        begun += move->error == OT_OK;
        if (move->error != OT_OK)
            ot_log(OT_LOG_WARN, "broker", "decommission_refused", "topic=%.*s partition=%d error=%s text=\"%s\"", (int)move->topic.bytes, move->topic.data, move->partition,
                ot_err_name(move->error), move->text);
    }
    ot_log(OT_LOG_INFO, "broker", "decommission_moves", "asked=%u begun=%u", work->moves.count, begun);
    end(work);
    atomic_fetch_sub(&all->busy, 1);
}

/* The partitions that are on their way from brokers that leave, or to them: what somebody began before would keep one that is dead for good. */
static void moves_walk(const struct broker_view *view, void (*each)(void *arg, const struct broker_view_topic *topic, const struct broker_view_partition *row), void *arg)
{
    struct broker_view_topic topic;
    struct broker_view_partition row;
    struct ot_arena arena;
    uint8_t room[4096];
    ot_arena_init_with(&arena, room, sizeof room, 64u << 10);
    for (struct ot_str after = { .null = true }; broker_view_next_topic(view, after, &topic); after = topic.name) {
        for (int32_t i = 0; i < topic.partition_count; i++) {
            bool leaves = false;
            ot_arena_reset(&arena);
            if (!broker_view_partition(view, &topic.id, i, &arena, &row) || row.goes_back) continue;       /* it was cancelled, and may be planned anew */
            for (int32_t k = 0; k < row.removing.count; k++) leaves |= broker_view_leaving(view, row.removing.ids[k]);
            for (int32_t k = 0; k < row.adding.count; k++) leaves |= broker_view_leaving(view, row.adding.ids[k]);
            if (leaves) each(arg, &topic, &row);
        }
    }
    ot_arena_free(&arena);
}

/* Does it wait for a broker that is not there? */
static bool is_stuck(const struct broker_view_partition *row)
{
    for (int32_t i = 0; i < row->adding.count; i++)
        for (int32_t k = 0; k < row->offline.count; k++)
            if (row->adding.ids[i] == row->offline.ids[k]) return true;
    return false;
}

struct under_way { uint32_t count, stuck; };
static void count_one(void *arg, const struct broker_view_topic *topic, const struct broker_view_partition *row)
{
    struct under_way *out = arg;
    (void)topic;
    out->count++;
    out->stuck += is_stuck(row);
}

static uint32_t leaving_of(const struct broker_view *view, int32_t out[static LEAVING_MAX])
{
    struct broker_view_broker row;
    struct ot_arena arena;
    uint32_t count = 0;
    ot_arena_init(&arena, 16u << 20);
    for (int32_t after = INT32_MIN; count < LEAVING_MAX && broker_view_next_broker(view, after, &arena, &row); after = row.id) {
        if (row.leaving) out[count++] = row.id;
        ot_arena_reset(&arena);
    }
    ot_arena_free(&arena);
    return count;
}

static void tell_stuck(struct broker_replication *all, const struct broker_plan *plan, int64_t now_us)
{
    if (plan->stuck == 0 || now_us < all->decommission_told_us) return;
    all->decommission_told_us = now_us + TOLD_US;
    ot_log(OT_LOG_WARN, "broker", "decommission_stuck", "partitions=%u topic=%.*s partition=%d text=\"no other broker can take them\"", plan->stuck, (int)plan->stuck_topic.bytes,
        plan->stuck_topic.data, plan->stuck_partition);
}

/* The next moves, at most so many; none: NULL. */
static struct broker_decommission *next_of(struct broker_replication *all, const struct broker_view *view, uint32_t most, int64_t now_us)
{
    int32_t leaving[LEAVING_MAX], unknown = -1;
    struct broker_plan plan;
    struct broker_decommission *work = calloc(1, sizeof *work);
    if (work == NULL) return NULL;
    work->all = all;
    ot_arena_init(&work->arena, PLAN_ARENA_BYTES);
    const struct broker_plan_ask ask = { .goal = BROKER_PLAN_EMPTY, .empty = leaving, .empty_count = leaving_of(view, leaving), .moves_max = most };
    const enum ot_err err = broker_plan(view, &ask, &work->arena, &plan, &unknown);
    if (err == OT_OK) {
        tell_stuck(all, &plan, now_us);
        for (uint32_t i = 0; i < plan.move_count; i++)
            work->list[work->moves.count++] = (struct broker_move){ .kind = BROKER_MOVE_REASSIGN, .topic = plan.moves[i].topic, .partition = plan.moves[i].partition,
                .target = plan.moves[i].to, .count = plan.moves[i].to_count };
    }
    if (work->moves.count > 0) return work;
    end(work);
    return NULL;
}

static void cancel_one(void *arg, const struct broker_view_topic *topic, const struct broker_view_partition *row)
{
    struct broker_decommission *work = arg;
    const char *name = is_stuck(row) && work->moves.count < RUNNING_MAX ? ot_arena_str(&work->arena, topic->name) : NULL;
    if (name != NULL) work->list[work->moves.count++] = (struct broker_move){ .kind = BROKER_MOVE_REASSIGN, .topic = ot_str_of(name), .partition = row->index };
}

/* Those whose target is gone are taken back; what they wanted is planned anew, with those that live. */
static struct broker_decommission *cancels_of(struct broker_replication *all, const struct broker_view *view, uint32_t stuck)
{
    struct broker_decommission *work = calloc(1, sizeof *work);
    if (work == NULL) return NULL;
    work->all = all;
    ot_arena_init(&work->arena, PLAN_ARENA_BYTES);
    moves_walk(view, cancel_one, work);
    ot_log(OT_LOG_WARN, "broker", "decommission_cancels", "moves=%u of=%u text=\"their new replicas are on brokers that are gone\"", work->moves.count, stuck);
    if (work->moves.count > 0) return work;
    end(work);
    return NULL;
}

/* A target that was away for so long is not waited for. Since when one has been is known to whoever coordinates now. */
static bool stuck_for_long(struct broker_replication *all, const struct under_way *now, int64_t now_us)
{
    if (now->stuck == 0) all->decommission_stuck_us = 0;
    else if (all->decommission_stuck_us == 0) all->decommission_stuck_us = now_us;
    return now->stuck > 0 && now_us - all->decommission_stuck_us >= broker_config_current(all->core->config)->replica_lag_time_max_ms * 1000;
}

void broker_decommission_tick(struct broker_replication *all)
{
    const int64_t now_us = ot_exec_now_us(all->setup.exec);
    struct broker_view_cluster cluster;
    if (all->decommission != NULL || now_us < all->decommission_due_us) return;
    all->decommission_due_us = now_us + LOOK_US;
    const struct broker_view *view = broker_view_take(broker_of_core(all->core));
    broker_view_cluster(view, &cluster);
    struct broker_decommission *work = NULL;
    if (cluster.controller_id == all->core->node_id && broker_view_marked(view, true) > 0) {
        struct under_way under_way = { 0 };
        moves_walk(view, count_one, &under_way);
        if (stuck_for_long(all, &under_way, now_us)) work = cancels_of(all, view, under_way.stuck);
        else if (under_way.count < RUNNING_MAX) work = next_of(all, view, RUNNING_MAX - under_way.count, now_us);
    }
    broker_view_give(view);
    if (work == NULL) return;
    all->decommission = work;
    atomic_fetch_add(&all->busy, 1);
    work->moves.moves = work->list;
    work->moves.timeout_ms = 10000;
    work->moves.call.home = all->setup.exec;
    work->moves.call.done = moved;
    broker_moves(broker_of_core(all->core), &work->moves);
}
