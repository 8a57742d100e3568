/* Groups behind the fake broker: the real state machine with no log behind it, so that what a handler sends and answers can be followed to the byte. */
#include "fake_broker.h"

#include "base/util.h"
#include "broker/groups.h"
#include "coordinator/consumer_group.h"

#include <stdlib.h>
#include <string.h>

static struct {
    pthread_mutex_t mutex;
    struct group_set *set;
    struct ot_mem_pool pool;
    struct ot_arena arena;
    struct group_config config;
} groups = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* one topic is known: orders, with three partitions */
static bool orders_by_name(const struct group_catalog *catalog, struct ot_str name, struct group_catalog_topic *out)
{
    (void)catalog;
    *out = (struct group_catalog_topic){ ot_str_of("orders"), { { 7 } }, 3 };
    return ot_str_equal(name, out->name);
}

static bool orders_by_id(const struct group_catalog *catalog, const struct ot_uuid *id, struct group_catalog_topic *out)
{
    return orders_by_name(catalog, ot_str_of("orders"), out) && ot_uuid_equal(id, &out->id);
}

static bool orders_next(const struct group_catalog *catalog, struct ot_str after, struct group_catalog_topic *out)
{
    return after.null && orders_by_name(catalog, ot_str_of("orders"), out);
}

static const struct group_catalog catalog = { .version = 1, .by_name = orders_by_name, .by_id = orders_by_id, .next = orders_next };
static const enum coord_assignor assignors[] = { COORD_ASSIGN_UNIFORM, COORD_ASSIGN_RANGE };
static const struct consumer_group_config consumer = { .all = { .session_timeout_ms = 45000, .heartbeat_interval_ms = 5000, .size_max = 10, .regex_refresh_ms = 600000,
    .migration = COORD_CG_UPGRADE | COORD_CG_DOWNGRADE, .assignors = assignors, .assignor_count = 2, .record_bytes_max = 1 << 20 } };

static void done_here(struct ot_task *task)
{
    struct broker_group_call *call = OT_CONTAINER(task, struct broker_group_call, call.task);
    struct broker_group_calls *all = call->all;
    if (all == NULL) call->call.done(&call->call);
    else if (++all->at == all->count) all->call.done(&all->call);
}

static void tell(struct group_out *out)
{
    struct group_ask *next;
    for (struct group_ask *ask = out->answered; ask != NULL; ask = next) {
        struct broker_group_call *call = OT_CONTAINER(ask, struct broker_group_call, ask);
        next = ask->next;
        call->error = OT_OK;
        call->call.task.run = done_here;
        ot_exec_post(call->call.home, &call->call.task);
    }
}

void fake_groups_free(void)
{
    pthread_mutex_lock(&groups.mutex);
    if (groups.set != NULL) {
        struct group_out out;
        group_out_init(&out, &groups.arena);
        group_set_close(groups.set, OT_ERR_NOT_COORDINATOR, &out);
        tell(&out);
        group_set_free(groups.set);
        ot_arena_free(&groups.arena);
    }
    groups.set = NULL;
    pthread_mutex_unlock(&groups.mutex);
}

void broker_group(struct broker *broker, struct broker_group_call *call)
{
    (void)broker;
    struct group_out out;
    if (fake.group_error != OT_OK) {
        call->error = fake.group_error;
        call->call.task.run = done_here;
        ot_exec_post(call->call.home, &call->call.task);
        return;
    }
    pthread_mutex_lock(&groups.mutex);
    if (groups.set == NULL) {
        groups.pool = (struct ot_mem_pool){ .name = "groups", .cap_bytes = 16u << 20 };
        groups.config = (struct group_config){ .initial_rebalance_delay_ms = 0, .session_timeout_min_ms = 6000, .session_timeout_max_ms = 1800000, .group_size_max = 100,
            .offset_metadata_bytes_max = 4096, .offsets_retention_ms = 604800000, .offsets_check_interval_ms = 600000, .record_bytes_max = 1 << 20,
            .consumer = &consumer };
        ot_arena_init(&groups.arena, 16u << 20);
        if (group_set_new(&groups.pool, 1, &groups.set) != OT_OK) abort();
    }
    const struct group_env env = { .now_us = ot_clock_boot_us(), .wall_ms = 1750000000000, .config = &groups.config, .catalog = &catalog };
    group_out_init(&out, &groups.arena);
    group_set_ask(groups.set, &env, &call->ask, &out);
    tell(&out);
    group_out_init(&out, &groups.arena);
    group_set_tick(groups.set, &env, &out);    /* the initial delay is none */
    tell(&out);
    ot_arena_reset(&groups.arena);
    pthread_mutex_unlock(&groups.mutex);
}

static void none_here(struct ot_task *task)
{
    struct broker_group_calls *all = OT_CONTAINER(task, struct broker_group_calls, call.task);
    all->call.done(&all->call);
}

void broker_group_all(struct broker *broker, struct broker_group_calls *calls)
{
    calls->at = 0;
    if (calls->count == 0) {
        calls->call.task.run = none_here;
        ot_exec_post(calls->call.home, &calls->call.task);
        return;
    }
    for (uint32_t i = 0; i < calls->count; i++) {
        calls->items[i].all = calls;
        calls->items[i].call.home = calls->call.home;
    }
    const uint32_t count = calls->count;
    for (uint32_t i = 0; i < count; i++) broker_group(broker, &calls->items[i]);
}

enum ot_err broker_group_lists(struct broker *broker, struct ot_arena *arena, struct broker_group_calls *calls)
{
    (void)broker;
    calls->items = ot_arena_array(arena, 1, sizeof *calls->items);
    struct group_list *list = ot_arena_array(arena, 1, sizeof *list);
    if (calls->items == NULL || list == NULL) return OT_ERR_NO_MEMORY;
    calls->items[0] = (struct broker_group_call){ .ask = { .kind = GROUP_ASK_LIST, .response = list, .arena = arena } };
    calls->count = 1;
    return OT_OK;
}

void broker_group_cancel(struct broker_group_call *call)
{
    struct group_out out;
    pthread_mutex_lock(&groups.mutex);
    group_out_init(&out, &groups.arena);
    if (groups.set != NULL) group_set_forget(groups.set, &call->ask, &out);
    tell(&out);
    pthread_mutex_unlock(&groups.mutex);
}

bool broker_shard_served(struct broker *broker, enum broker_shard_kind_id kind) { return (void)broker, (void)kind, true; }
int32_t broker_shard_count(struct broker *broker, enum broker_shard_kind_id kind) { return (void)broker, (void)kind, 5; }
int32_t broker_shard_leader(struct broker *broker, enum broker_shard_kind_id kind, struct ot_str key) { return (void)broker, (void)kind, (void)key, fake.coordinator != 0 ? fake.coordinator : fake.node_id; }
