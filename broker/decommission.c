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

/* How many partitions are on their way from them already. */
static uint32_t running(const struct broker_view *view)
{
    struct broker_view_topic topic;
    struct broker_view_partition row;
    struct ot_arena arena;
    uint8_t room[4096];
    uint32_t count = 0;
    ot_arena_init_with(&arena, room, sizeof room, 64u << 10);
    for (struct ot_str after = { .null = true }; broker_view_next_topic(view, after, &topic); after = topic.name) {
        for (int32_t i = 0; i < topic.partition_count; i++) {
            bool leaves = false;
            ot_arena_reset(&arena);
            if (!broker_view_partition(view, &topic.id, i, &arena, &row)) continue;
            for (int32_t k = 0; k < row.removing.count; k++) leaves |= broker_view_leaving(view, row.removing.ids[k]);
            count += leaves;
        }
    }
    ot_arena_free(&arena);
    return count;
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
        const uint32_t under_way = running(view);
        if (under_way < RUNNING_MAX) work = next_of(all, view, RUNNING_MAX - under_way, now_us);
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
