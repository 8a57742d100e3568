/* The groups' shards: coordinator/group.h over broker/shard.h.
 *
 * One step: an ask, a timer or a commit goes into the machine; its records go to the log; what it answered is told when the log has everything up to here, so that
 * nobody hears of what a failed append takes back. Heartbeats alone are told at once: they tell of nothing that was written. */
#include "broker/room.h"

#include "base/log.h"
#include "base/util.h"
#include "broker/groups.h"
#include "broker/groups_consumer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEP_ARENA_BYTES = 128 << 20, WRITES_KEPT = 64, RECORD_OVERHEAD_BYTES = 32, LOOK_US = 1000000, HEARD_MS_MAX = 15000 };

struct groups_write { struct broker_shard_write write; struct groups_write *next; struct groups_state *state; struct group_ask *answered; };
struct groups_state {
    struct broker *broker;
    struct broker_shard *shard;
    struct group_set *set;
    struct ot_arena arena;                     /* of one step */
    struct ot_timer timer; int64_t heard_until_us;     /* before it nobody's time is up */
    struct groups_write *kept; uint32_t kept_count;
    struct group_set_counts told;              /* as last counted */
    struct catalog { struct group_catalog ops; struct groups_state *state; const struct broker_view *view; struct ot_arena arena; } catalog;
    struct group_config config;
    struct broker_groups_consumer consumer;
    bool closing;
};

/* ---- answers */

static void start(struct broker *broker, struct broker_group_call *call);

static void done_run(struct ot_task *task)
{
    struct broker_group_call *call = OT_CONTAINER(task, struct broker_group_call, call.task);
    struct broker_group_calls *all = call->all;
    if (all == NULL) {
        call->call.done(&call->call);
        return;
    }
    if (++all->at < all->count) start(call->broker, &all->items[all->at]);
    else all->call.done(&all->call);
}

static void release(struct broker_group_call *call)
{
    if (atomic_fetch_sub_explicit(&call->open, 1, memory_order_acq_rel) != 1) return;
    call->call.task.run = done_run;
    ot_exec_post(call->call.home, &call->call.task);
}

static struct broker_group_call *call_of(struct group_ask *ask) { return OT_CONTAINER(ask, struct broker_group_call, ask); }

static void answer(struct group_ask *ask, enum ot_err error)
{
    while (ask != NULL) {
        struct group_ask *next = ask->next;
        call_of(ask)->error = error;
        release(call_of(ask));
        ask = next;
    }
}

/* ---- the environment of a step */

static const struct broker_view *view_of(const struct group_catalog *ops)
{
    struct catalog *catalog = OT_CONTAINER(ops, struct catalog, ops);
    if (catalog->view == NULL) catalog->view = broker_view_take(catalog->state->broker);
    return catalog->view;
}

static bool fill_topic(const struct broker_view_topic *topic, struct group_catalog_topic *out)
{
    *out = (struct group_catalog_topic){ topic->name, topic->id, topic->partition_count };
    return true;
}

static bool catalog_by_name(const struct group_catalog *ops, struct ot_str name, struct group_catalog_topic *out)
{
    struct broker_view_topic topic;
    return broker_view_topic(view_of(ops), name, &topic) && fill_topic(&topic, out);
}

static bool catalog_by_id(const struct group_catalog *ops, const struct ot_uuid *id, struct group_catalog_topic *out)
{
    struct broker_view_topic topic;
    return broker_view_topic_by_id(view_of(ops), id, &topic) && fill_topic(&topic, out);
}

static bool catalog_next(const struct group_catalog *ops, struct ot_str after, struct group_catalog_topic *out)
{
    struct broker_view_topic topic;
    return broker_view_next_topic(view_of(ops), after, &topic) && fill_topic(&topic, out);
}

static uint32_t catalog_racks(const struct group_catalog *ops, const struct ot_uuid *id, int32_t partition, struct ot_str *out, uint32_t max)
{
    struct catalog *catalog = OT_CONTAINER(ops, struct catalog, ops);
    const struct broker_view *view = view_of(ops);
    struct broker_view_partition row;
    struct broker_view_broker live;
    uint32_t count = 0;
    if (!broker_view_partition(view, id, partition, &catalog->arena, &row)) return 0;
    for (int32_t after = INT32_MIN; count < max && broker_view_next_broker(view, after, &catalog->arena, &live); after = live.id) {
        for (int32_t i = 0; i < row.replicas.count && count < max; i++)
            if (row.replicas.ids[i] == live.id && !live.rack.null) out[count++] = live.rack;
    }
    return count;
}

static void config_read(struct groups_state *state)
{
    const struct broker_config *config = broker_config(state->broker);
    state->config = (struct group_config){ .initial_rebalance_delay_ms = config->group_initial_rebalance_delay_ms, .session_timeout_min_ms = config->group_min_session_timeout_ms,
        .session_timeout_max_ms = config->group_max_session_timeout_ms, .group_size_max = config->group_max_size, .offset_metadata_bytes_max = config->offset_metadata_max_bytes,
        .offsets_retention_ms = (int64_t)config->offsets_retention_minutes * 60000, .offsets_check_interval_ms = config->offsets_retention_check_interval_ms,
        .record_bytes_max = broker_shard_batch_max(state->shard), .consumer = &state->consumer.config };
    broker_groups_consumer_config(state->broker, broker_shard_batch_max(state->shard), &state->consumer);
}

static struct group_env env_begin(struct groups_state *state)
{
    struct ot_exec *exec = broker_shard_exec(state->shard);
    config_read(state);
    struct broker_view_cluster cluster;
    broker_view_cluster(view_of(&state->catalog.ops), &cluster);
    state->catalog.ops.version = cluster.version;
    const int64_t now_us = ot_exec_now_us(exec);
    return (struct group_env){ .now_us = now_us, .wall_ms = ot_exec_wall_ms(exec), .config = &state->config, .catalog = &state->catalog.ops,
        .steady_ms = broker_steady_wall_ms(state->broker, now_us) };
}

static void env_end(struct groups_state *state)
{
    if (state->catalog.view != NULL) broker_view_give(state->catalog.view);
    state->catalog.view = NULL;
    ot_arena_reset(&state->catalog.arena);
}

/* ---- what a step leaves */

static struct groups_write *write_take(struct groups_state *state)
{
    struct groups_write *write = state->kept;
    if (write != NULL) {
        state->kept = write->next;
        state->kept_count--;
    } else {
        write = malloc(sizeof *write);
    }
    if (write != NULL) *write = (struct groups_write){ .state = state };
    return write;
}

static void write_give(struct groups_state *state, struct groups_write *write)
{
    if (state == NULL || state->kept_count >= WRITES_KEPT) {
        free(write);
        return;
    }
    write->next = state->kept;
    state->kept = write;
    state->kept_count++;
}

/* Transactional offsets are committed as records: from now on they are pending. */
static void txn_written(struct groups_state *state, struct group_ask *answered)
{
    struct group_out out;
    if (answered == NULL || answered->kind != GROUP_ASK_TXN_OFFSET_COMMIT || answered->error != OT_OK) return;
    const struct group_env env = env_begin(state);
    group_out_init(&out, &state->arena);
    group_set_txn_written(state->set, &env, answered, &out);
    env_end(state);
    if (out.fail != OT_OK) broker_shard_fail(state->shard, out.fail);
}

static void written(struct broker_shard_write *ended, void *arg, enum ot_err err)
{
    struct groups_write *write = OT_CONTAINER(ended, struct groups_write, write);
    struct groups_state *state = arg;
    struct group_ask *answered = write->answered;
    if (err == OT_OK && state != NULL) txn_written(state, answered);
    for (struct group_ask *ask = answered; ask != NULL; ask = ask->next) call_of(ask)->unsure = ended->unsure;
    write_give(state, write);
    answer(answered, err == OT_ERR_REQUEST_TIMED_OUT ? OT_ERR_COORDINATOR_NOT_AVAILABLE : err);
}

/* As few writes as the batch size allows; the answers wait for the last. */
static enum ot_err append(struct groups_state *state, struct group_out *out, struct groups_write **last)
{
    const uint32_t max = broker_shard_batch_max(state->shard);
    struct broker_shard_append_record *records = ot_arena_array(out->arena, out->record_count, sizeof *records);
    const struct group_record *record = out->records;
    enum ot_err err = records == NULL ? OT_ERR_NO_MEMORY : OT_OK;
    while (err == OT_OK && record != NULL) {
        struct groups_write *write = write_take(state);
        size_t bytes = 0;
        uint32_t count = 0;
        if (write == NULL) return OT_ERR_NO_MEMORY;
        for (; record != NULL; record = record->next) {
            bytes += RECORD_OVERHEAD_BYTES + (size_t)record->key.bytes + record->value.bytes;
            if (count > 0 && bytes > max) break;
            records[count++] = (struct broker_shard_append_record){ record->key, record->value };
        }
        write->write = (struct broker_shard_write){ .records = records, .count = count, .producer_id = out->producer_id, .producer_epoch = out->producer_epoch,
            .transactional = out->producer_id >= 0, .done = written };
        if (out->producer_id >= 0 && out->answered != NULL) write->write.guard = call_of(out->answered)->guard;     /* of the one ask in this step */
        if (record == NULL) {                  /* before the append: done comes later at the earliest */
            write->answered = out->answered;
            *last = write;
        }
        err = broker_shard_append(state->shard, &write->write);
        if (err != OT_OK) {
            write_give(state, write);
            *last = NULL;
        }
    }
    return err;
}

static bool tells_nothing(const struct group_ask *ask) { return ask->kind == GROUP_ASK_HEARTBEAT || ask->kind == GROUP_ASK_LIST || ask->kind == GROUP_ASK_SURVEY; }

static void count_changes(struct groups_state *state)
{
    struct group_set_counts now;
    group_set_counts(state->set, &now);
    broker_groups_count(state->broker, &state->told, &now);
    state->told = now;
}

static void finish(struct groups_state *state, struct group_out *out)
{
    struct groups_write *last = NULL;
    enum ot_err err = out->fail;
    if (err == OT_OK && out->records != NULL) err = append(state, out, &last);
    if (err != OT_OK) {
        broker_shard_fail(state->shard, err);
        answer(out->answered, OT_ERR_COORDINATOR_NOT_AVAILABLE);
    } else if (last == NULL && out->answered != NULL) {
        last = tells_nothing(out->answered) && out->answered->next == NULL ? NULL : write_take(state);
        if (last == NULL) {
            answer(out->answered, OT_OK);
        } else {
            last->answered = out->answered;
            last->write = (struct broker_shard_write){ .producer_id = -1, .producer_epoch = -1, .done = written };
            broker_shard_barrier(state->shard, &last->write);
        }
    }
    const int64_t deadline_us = group_set_deadline_us(state->set);
    struct ot_exec *exec = broker_shard_exec(state->shard);
    if (deadline_us == INT64_MAX) ot_exec_timer_cancel(exec, &state->timer);
    else if (state->timer.heap_index == 0 || state->timer.deadline_us != deadline_us) ot_exec_timer_set(exec, &state->timer, deadline_us);
    count_changes(state);
    broker_groups_expired(state->broker, out->expired, ot_exec_wall_ms(exec));
    broker_groups_tell(state->broker, out);
    ot_arena_reset(&state->arena);
}

/* Too few replicas, a full disk: what is due stays due, since its records would be refused and the whole state closed for it, and loaded when the high watermark has
 * come to its end, which may be long. Members of consumer groups were refused meanwhile: they are heard before anybody's time is up. */
static bool ticks(struct groups_state *state)
{
    struct ot_exec *exec = broker_shard_exec(state->shard);
    const int64_t now_us = ot_exec_now_us(exec);
    const bool writable = broker_shard_writable(state->shard) == OT_OK;
    if (!writable) state->heard_until_us = now_us + (int64_t)OT_MIN(broker_config(state->broker)->group_consumer_heartbeat_interval_ms, HEARD_MS_MAX) * 1000;
    if (writable && now_us >= state->heard_until_us) return true;
    ot_exec_timer_set(exec, &state->timer, writable ? state->heard_until_us : now_us + LOOK_US);
    return false;
}

static void timer_fired(struct ot_timer *timer)
{
    struct groups_state *state = OT_CONTAINER(timer, struct groups_state, timer);
    struct group_out out;
    if (!ticks(state)) return;
    const struct group_env env = env_begin(state);
    group_out_init(&out, &state->arena);
    group_set_tick(state->set, &env, &out);
    env_end(state);
    finish(state, &out);
}

/* ---- asks */

static bool writes(enum group_ask_kind kind)
{
    return kind != GROUP_ASK_HEARTBEAT && kind != GROUP_ASK_OFFSET_FETCH && kind != GROUP_ASK_VIEW && kind != GROUP_ASK_LIST && kind != GROUP_ASK_SURVEY && kind != GROUP_ASK_CONSUMER_VIEW;
}

static void op_run(struct broker_shard_op *op, void *arg, enum ot_err err)
{
    struct broker_group_call *call = OT_CONTAINER(op, struct broker_group_call, op);
    struct groups_state *state = arg;
    if (err == OT_OK && writes(call->ask.kind)) err = broker_shard_writable(op->shard);
    if (err != OT_OK) {
        call->error = err;
        release(call);
        return;
    }
    struct group_out out;
    const struct group_env env = env_begin(state);
    group_out_init(&out, &state->arena);
    group_set_ask(state->set, &env, &call->ask, &out);
    env_end(state);
    finish(state, &out);
}

static void start(struct broker *broker, struct broker_group_call *call)
{
    call->broker = broker;
    call->error = OT_OK;
    call->op.run = op_run;
    call->op.patient = call->ask.kind == GROUP_ASK_TOPIC_GONE;     /* nobody says it again, and offsets of a new topic by that name come behind it */
    call->ask.held = NULL;
    call->cancelled = false;
    atomic_store(&call->open, 1);
    if (call->ask.kind != GROUP_ASK_LIST && call->ask.kind != GROUP_ASK_SURVEY && call->ask.kind != GROUP_ASK_TOPIC_GONE) call->partition = broker_shard_of(broker, BROKER_SHARD_GROUPS, call->ask.group_id);
    broker_shard_run(broker, BROKER_SHARD_GROUPS, call->partition, &call->op);
}

void broker_group(struct broker *broker, struct broker_group_call *call)
{
    call->all = NULL;
    call->unsure = false;
    start(broker, call);
}

static void cancel_run(struct broker_shard_op *op, void *arg, enum ot_err err)
{
    struct broker_group_call *call = OT_CONTAINER(op, struct broker_group_call, cancel_op);
    struct groups_state *state = arg;
    if (err == OT_OK && call->ask.held != NULL) {
        struct group_out out;
        group_out_init(&out, &state->arena);
        group_set_forget(state->set, &call->ask, &out);
        answer(out.answered, OT_OK);
    }
    release(call);
}

void broker_group_cancel(struct broker_group_call *call)
{
    uint32_t open = atomic_load(&call->open);
    if (call->cancelled) return;
    call->cancelled = true;
    call->cancel_op.run = cancel_run;
    do if (open == 0) return;                  /* answered already: done is on its way home */
    while (!atomic_compare_exchange_weak(&call->open, &open, open + 1));
    broker_shard_run(call->broker, BROKER_SHARD_GROUPS, call->partition, &call->cancel_op);
}

static void none_run(struct ot_task *task)
{
    struct broker_group_calls *calls = OT_CONTAINER(task, struct broker_group_calls, call.task);
    calls->call.done(&calls->call);
}

void broker_group_all(struct broker *broker, struct broker_group_calls *calls)
{
    calls->at = 0;
    if (calls->count == 0) {
        calls->call.task.run = none_run;
        ot_exec_post(calls->call.home, &calls->call.task);
        return;
    }
    for (uint32_t i = 0; i < calls->count; i++) {
        calls->items[i].all = calls;
        calls->items[i].call.home = calls->call.home;
    }
    start(broker, &calls->items[0]);
}

enum ot_err broker_group_lists(struct broker *broker, struct ot_arena *arena, struct broker_group_calls *calls)
{
    const int32_t count = broker_shard_count(broker, BROKER_SHARD_GROUPS);
    calls->count = 0;
    if (count == 0) return OT_ERR_NOT_FOUND;
    calls->items = ot_arena_array(arena, (size_t)count, sizeof *calls->items);
    struct group_list *lists = ot_arena_array(arena, (size_t)count, sizeof *lists);
    if (calls->items == NULL || lists == NULL) return OT_ERR_NO_MEMORY;
    for (int32_t i = 0; i < count; i++)
        calls->items[i] = (struct broker_group_call){ .partition = i, .ask = { .kind = GROUP_ASK_LIST, .response = &lists[i], .arena = arena } };
    calls->count = (uint32_t)count;
    return OT_OK;
}

/* ---- topics that go */

struct gone { struct broker_group_call call; struct group_part part; char name[]; };

static void gone_done(struct broker_call *call)
{
    struct gone *gone = OT_CONTAINER(call, struct gone, call.call);
    if (broker_group_error(&gone->call) != OT_OK && gone->call.error != OT_ERR_NOT_COORDINATOR)
        ot_log(OT_LOG_WARN, "groups", "offsets_of_topic_kept", "topic=%s partition=%d error=%s", gone->name, gone->call.partition, ot_err_name(broker_group_error(&gone->call)));
    free(gone);
}

void broker_groups_topic_gone(struct broker *broker, struct ot_str topic, const struct ot_uuid *topic_id)
{
    const int32_t count = broker_shard_count(broker, BROKER_SHARD_GROUPS);
    for (int32_t i = 0; i < count; i++) {
        struct gone *gone = calloc(1, sizeof *gone + topic.bytes + 1);
        if (gone == NULL) return;              /* what stays carries the old id, and is not shown for a new topic */
        memcpy(gone->name, topic.data, topic.bytes);
        gone->part = (struct group_part){ .topic = { gone->name, topic.bytes, false }, .topic_id = *topic_id };
        gone->call = (struct broker_group_call){ .call = { .home = broker->setup.background_exec, .done = gone_done }, .partition = i,
            .ask = { .kind = GROUP_ASK_TOPIC_GONE, .parts = &gone->part, .part_count = 1 } };
        broker_group(broker, &gone->call);
    }
}

/* ---- the kind */

static int32_t kind_partitions(const struct broker_config *config) { return config->offsets_topic_num_partitions; }

static uint32_t kind_configs(const struct broker_config *config, int16_t *replication_factor_out, struct broker_shard_config *out)
{
    *replication_factor_out = (int16_t)config->offsets_topic_replication_factor;
    out[0] = (struct broker_shard_config){ "cleanup.policy", "compact" };
    out[1] = (struct broker_shard_config){ "compression.type", "producer" };
    out[2].key = "segment.bytes";
    snprintf(out[2].value, sizeof out[2].value, "%d", OT_MAX(config->offsets_topic_segment_bytes, 1 << 20));
    return 3;
}

static void *kind_open(struct broker *broker, struct broker_shard *shard, int32_t partition, int32_t leader_epoch)
{
    (void)partition, (void)leader_epoch;
    uint64_t seed;
    struct groups_state *state = calloc(1, sizeof *state);
    if (state == NULL) return NULL;
    ot_random_bytes(&seed, sizeof seed);
    state->broker = broker;
    state->shard = shard;
    state->timer.fired = timer_fired;
    state->catalog.state = state;
    state->catalog.ops = (struct group_catalog){ 0, catalog_by_name, catalog_by_id, catalog_next, catalog_racks };
    ot_arena_init(&state->arena, STEP_ARENA_BYTES);
    ot_arena_init(&state->catalog.arena, 1u << 20);
    if (group_set_new(broker->groups.pool, seed, &state->set) == OT_OK) return state;
    free(state);
    return NULL;
}

static enum ot_err kind_replay(void *arg, const struct broker_shard_record *record)
{
    struct groups_state *state = arg;
    const struct group_set_record one = { record->offset, record->producer_id, record->producer_epoch, record->transactional, record->key, record->value };
    return group_set_replay(state->set, &one);
}

static void kind_marker(void *arg, int64_t producer_id, int16_t producer_epoch, bool commit)
{
    group_set_marker(((struct groups_state *)arg)->set, producer_id, producer_epoch, commit);
}

static void kind_loaded(void *arg)
{
    struct groups_state *state = arg;
    struct group_out out;
    const struct group_env env = env_begin(state);
    group_out_init(&out, &state->arena);
    group_set_loaded(state->set, &env, &out);
    env_end(state);
    finish(state, &out);
    if (state->told.unknown_records > 0)
        ot_log(OT_LOG_WARN, "groups", "records_not_understood", "partition=%d count=%llu", broker_shard_partition(state->shard), (unsigned long long)state->told.unknown_records);
}

static void kind_close(void *arg, enum ot_err why)
{
    struct groups_state *state = arg;
    struct group_out out;
    const struct group_set_counts none = { 0 };
    group_out_init(&out, &state->arena);
    group_set_close(state->set, why, &out);
    for (struct group_ask *ask = out.answered; ask != NULL; ask = ask->next) ask->error = why;
    answer(out.answered, why);
    ot_exec_timer_cancel(broker_shard_exec(state->shard), &state->timer);
    broker_groups_count(state->broker, &state->told, &none);
    group_set_free(state->set);
    while (state->kept != NULL) {
        struct groups_write *next = state->kept->next;
        free(state->kept);
        state->kept = next;
    }
    ot_arena_free(&state->arena);
    ot_arena_free(&state->catalog.arena);
    free(state);
}

const struct broker_shard_kind broker_groups_kind = { "__consumer_offsets", kind_partitions, kind_configs, kind_open, kind_replay, kind_marker, kind_loaded, kind_close,
    kind_marker };
