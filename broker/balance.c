/* Leaders back to their preferred replicas, as Kafka does it: the broker that leads the coordinator looks every leader.imbalance.check.interval.seconds, and where more than
 * leader.imbalance.per.broker.percentage of what a broker should lead is led by others, asks for preferred elections: only to members of the ISR that live, and bounded in each round.
 * Only to those, too, that are unfenced for ottla.leader.imbalance.unfenced.ms: a broker that comes and goes would take its leaders to and fro. Since when each is so is in memory; a
 * new coordinator counts from when it sees them first.
 *
 * And leaders away from brokers in maintenance and from those that leave, at once and as long as somebody else in the ISR can lead: it looks at every new state while there are such
 * brokers. What they should lead goes home when that ends, without waiting for the next round. */
#include "broker/balance.h"

#include "base/log.h"
#include "broker/moves.h"
#include "broker/replication_inner.h"
#include <stdlib.h>

#define DRAIN_AGAIN_US 5000000                 /* a refused move is tried again after that, though nothing changed */
enum { MOVES_MAX = 5000, BROKERS_MAX = 1024 };

struct broker_steady {                         /* brokers in the order of ids, as they were seen last and, in the other half, before */
    int64_t version;                           /* the state that was looked at */
    uint32_t count, half;
    struct steady { int32_t id; int64_t epoch, since_us; } brokers[2][BROKERS_MAX];
};

struct broker_balance {
    struct broker_moves moves;
    struct broker_replication *all;
    const struct broker_view *view;            /* while it is being made */
    struct ot_arena arena;
    struct count { int32_t id; uint32_t preferred, elsewhere; int64_t from_us /* not before that */; } counts[BROKERS_MAX]; uint32_t count_count;
    struct broker_move list[MOVES_MAX];
};

/* ---- since when each broker is unfenced, without another registration in between */

static void steady_look(struct broker_replication *all, const struct broker_view *view, int64_t version, int64_t now_us)
{
    if (all->steady == NULL && (all->steady = calloc(1, sizeof *all->steady)) == NULL) return;
    struct broker_steady *steady = all->steady;
    if (steady->version == version) return;
    const struct steady *before = steady->brokers[steady->half];
    struct steady *to = steady->brokers[1 - steady->half];
    uint32_t at = 0, count = 0;
    struct broker_view_broker broker;
    struct ot_arena arena;
    uint8_t room[4096];
    ot_arena_init_with(&arena, room, sizeof room, 64u << 10);
    for (int32_t after = INT32_MIN; count < BROKERS_MAX && broker_view_next_broker(view, after, &arena, &broker); after = broker.id) {
        ot_arena_reset(&arena);
        while (at < steady->count && before[at].id < broker.id) at++;
        const bool goes_on = at < steady->count && before[at].id == broker.id && before[at].epoch == broker.epoch;
        if (!broker.fenced) to[count++] = (struct steady){ broker.id, broker.epoch, goes_on ? before[at].since_us : now_us };
    }
    ot_arena_free(&arena);
    steady->half = 1 - steady->half;
    steady->count = count;
    steady->version = version;
}

void broker_balance_end(struct broker_replication *all)
{
    free(all->steady);
    all->steady = NULL;
}

/* From when on leaders may go back to it; INT64_MAX: it is fenced. */
static int64_t steady_from(const struct broker_replication *all, int32_t id)
{
    const struct broker_steady *steady = all->steady;
    for (uint32_t i = 0; steady != NULL && i < steady->count; i++)
        if (steady->brokers[steady->half][i].id == id)
            return steady->brokers[steady->half][i].since_us + OT_MIN(broker_config_current(all->core->config)->ottla_leader_imbalance_unfenced_ms * 1000, INT64_MAX / 2);
    return INT64_MAX;
}

static struct count *count_of(struct broker_balance *balance, int32_t id)
{
    for (uint32_t i = 0; i < balance->count_count; i++)
        if (balance->counts[i].id == id) return &balance->counts[i];
    if (balance->count_count == BROKERS_MAX) return NULL;
    balance->counts[balance->count_count] = (struct count){ .id = id, .from_us = steady_from(balance->all, id) };
    return &balance->counts[balance->count_count++];
}

static bool among(const struct broker_view_ids *ids, int32_t id)
{
    for (int32_t i = 0; i < ids->count; i++)
        if (ids->ids[i] == id) return true;
    return false;
}

static bool may_become(const struct broker_view_partition *row, int32_t id) { return row->leader != id && among(&row->isr, id) && !among(&row->offline, id); }

/* The preferred replica could lead and does not. */
static bool is_elsewhere(const struct broker_balance *balance, const struct broker_view_partition *row)
{
    return may_become(row, row->replicas.ids[0]) && broker_preferred(balance->view, row) == row->replicas.ids[0];
}

static void walk(struct broker_balance *balance, void (*each)(struct broker_balance *balance, const struct broker_view_topic *topic,
    const struct broker_view_partition *row))
{
    struct broker_view_topic topic;
    struct broker_view_partition row;
    struct ot_arena arena;
    uint8_t room[4096];
    ot_arena_init_with(&arena, room, sizeof room, 64u << 10);
    for (struct ot_str after = { .null = true }; broker_view_next_topic(balance->view, after, &topic); after = topic.name) {
        for (int32_t i = 0; i < topic.partition_count; i++) {
            ot_arena_reset(&arena);
            if (broker_view_partition(balance->view, &topic.id, i, &arena, &row) && row.replicas.count > 0) each(balance, &topic, &row);
        }
    }
    ot_arena_free(&arena);
}

static void count_one(struct broker_balance *balance, const struct broker_view_topic *topic, const struct broker_view_partition *row)
{
    struct count *count = count_of(balance, row->replicas.ids[0]);
    (void)topic;
    if (count == NULL) return;
    count->preferred++;
    count->elsewhere += is_elsewhere(balance, row);
}

static void take(struct broker_balance *balance, const struct broker_view_topic *topic, const struct broker_view_partition *row)
{
    const char *name = balance->moves.count == MOVES_MAX ? NULL : ot_arena_str(&balance->arena, topic->name);
    if (name != NULL)
        balance->list[balance->moves.count++] = (struct broker_move){ .kind = BROKER_MOVE_ELECT_PREFERRED, .topic = ot_str_of(name), .partition = row->index };
}

static void take_one(struct broker_balance *balance, const struct broker_view_topic *topic, const struct broker_view_partition *row)
{
    const struct broker_config *config = broker_config_current(balance->all->core->config);
    const struct count *count = count_of(balance, row->replicas.ids[0]);
    if (count == NULL || !is_elsewhere(balance, row)) return;
    if ((uint64_t)count->elsewhere * 100 <= (uint64_t)count->preferred * (uint64_t)config->leader_imbalance_per_broker_percentage) return;
    if (count->from_us <= ot_exec_now_us(balance->all->setup.exec)) take(balance, topic, row);
    else balance->all->balance_due_us = OT_MIN(balance->all->balance_due_us, count->from_us);
}

static void take_drained(struct broker_balance *balance, const struct broker_view_topic *topic, const struct broker_view_partition *row)
{
    const bool steps_back = row->leader >= 0 && (broker_view_draining(balance->view, row->leader) || broker_view_leaving(balance->view, row->leader));
    if (steps_back && may_become(row, broker_preferred(balance->view, row))) take(balance, topic, row);
}

static void balance_free(struct broker_balance *balance)
{
    ot_arena_free(&balance->arena);
    free(balance);
}

static void moved(struct broker_call *call)
{
    struct broker_balance *balance = OT_CONTAINER(call, struct broker_balance, moves.call);
    struct broker_replication *all = balance->all;
    uint32_t done = 0;
    for (uint32_t i = 0; i < balance->moves.count; i++) done += balance->list[i].error == OT_OK;
    ot_log(OT_LOG_INFO, "broker", "leaders_balanced", "asked=%u moved=%u", balance->moves.count, done);
    balance_free(balance);
    all->balancing = false;
    atomic_fetch_sub(&all->busy, 1);
}

static bool preferred_due(struct broker_replication *all, int64_t now_us)
{
    const struct broker_config *config = broker_config_current(all->core->config);
    const int64_t every_us = (int64_t)config->leader_imbalance_check_interval_seconds * 1000000;
    if (all->balance_due_us == 0) all->balance_due_us = now_us + every_us;
    if (now_us < all->balance_due_us || !config->auto_leader_rebalance_enable) return false;
    all->balance_due_us = now_us + every_us;
    return true;
}

/* A state that was not looked at, with brokers in it that are to lead nothing. */
static bool drain_due(struct broker_replication *all, const struct broker_view *view, int64_t version, int64_t now_us)
{
    const uint32_t marked = broker_view_marked(view, false) + broker_view_marked(view, true);
    if (marked < all->drained) all->balance_due_us = now_us;           /* home again */
    all->drained = marked;
    if (marked == 0 || (version == all->drain_version && now_us < all->drain_due_us)) return false;
    all->drain_version = version;
    all->drain_due_us = now_us + DRAIN_AGAIN_US;
    return true;
}

static void start(struct broker_replication *all, struct broker_balance *balance)
{
    balance->moves.moves = balance->list;
    balance->moves.call.home = all->setup.exec;
    balance->moves.call.done = moved;
    balance->moves.timeout_ms = 10000;
    all->balancing = true;
    atomic_fetch_add(&all->busy, 1);
    broker_moves(broker_of_core(all->core), &balance->moves);
}

void broker_balance_tick(struct broker_replication *all)
{
    const int64_t now_us = ot_exec_now_us(all->setup.exec);
    struct broker_view_cluster cluster;
    if (all->balancing) return;
    const struct broker_view *view = broker_view_take(broker_of_core(all->core));
    broker_view_cluster(view, &cluster);
    const bool leads = cluster.controller_id == all->core->node_id;
    if (leads) steady_look(all, view, cluster.version, now_us);
    else broker_balance_end(all);
    const bool drains = leads && drain_due(all, view, cluster.version, now_us), due = preferred_due(all, now_us) && leads;
    struct broker_balance *balance = drains || due ? calloc(1, sizeof *balance) : NULL;
    if (balance != NULL) {
        balance->all = all;
        balance->view = view;
        ot_arena_init(&balance->arena, 4u << 20);
        if (drains) walk(balance, take_drained);
        if (due) {
            walk(balance, count_one);
            walk(balance, take_one);
        }
        balance->view = NULL;
    }
    broker_view_give(view);
    if (balance != NULL && balance->moves.count > 0) start(all, balance);
    else if (balance != NULL) balance_free(balance);
}
