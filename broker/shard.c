/* Stages of a shard, and the ops that wait for them. Everything here runs on the shard's executor unless it says otherwise. */
#include "broker/room.h"

#include "base/log.h"
#include "base/util.h"
#include <stdlib.h>

enum { PARK_US = 500000, RETRY_US = 1000000, SETTLE_US = 5000 };

static void stage_set(struct broker_shard *shard, enum broker_shard_stage stage)
{
    shard->stage = stage;
    atomic_store(&shard->view_stage, (int)stage);
}

struct broker_shard *broker_shard_find(struct broker *broker, enum broker_shard_kind_id kind, int32_t partition)
{
    struct broker_shard_list *list = atomic_load_explicit(&broker->shards.kinds[kind].list, memory_order_acquire);
    return list == NULL || partition < 0 || (uint32_t)partition >= list->count ? NULL : list->shards[partition];
}

/* By the metadata: another broker leads this partition, or this one is not among its replicas. False: it is ours, or not known. */
static bool is_elsewhere(struct broker *broker, const struct broker_view *view, const struct broker_view_topic *topic, int32_t partition)
{
    struct broker_view_partition row;
    struct ot_arena arena;
    uint8_t room[1024];
    bool mine = false;
    ot_arena_init_with(&arena, room, sizeof room, 64u << 10);
    const bool known = broker_view_partition(view, &topic->id, partition, &arena, &row);
    for (int32_t i = 0; known && i < row.replicas.count; i++) mine |= row.replicas.ids[i] == broker->node_id;
    const bool elsewhere = known && (!mine || (row.leader >= 0 && row.leader != broker->node_id));
    ot_arena_free(&arena);
    return elsewhere;
}

/* A topic of which nothing is here has its shards too: each says that another broker coordinates, and keys have their places. Where some of it is, they come with the first partition. */
static void list_of_others(struct broker *broker, enum broker_shard_kind_id kind)
{
    struct broker_shards *all = &broker->shards;
    struct broker_view_topic topic;
    if (all->broker == NULL || all->kinds[kind].kind == NULL || atomic_load(&all->stopping)) return;
    const struct broker_view *view = broker_view_take(broker);
    bool others = broker_view_topic(view, ot_str_of(all->kinds[kind].kind->topic), &topic) && topic.partition_count > 0;
    for (int32_t i = 0; others && i < topic.partition_count; i++) others = is_elsewhere(broker, view, &topic, i);
    if (others && broker_shards_list(all, kind, (uint32_t)topic.partition_count) != OT_OK)
        ot_log(OT_LOG_ERROR, "shard", "no_memory", "topic=%s partitions=%d", all->kinds[kind].kind->topic, topic.partition_count);
    broker_view_give(view);
}

int32_t broker_shard_count(struct broker *broker, enum broker_shard_kind_id kind)
{
    if (atomic_load_explicit(&broker->shards.kinds[kind].list, memory_order_acquire) == NULL) list_of_others(broker, kind);
    struct broker_shard_list *list = atomic_load_explicit(&broker->shards.kinds[kind].list, memory_order_acquire);
    return list == NULL ? 0 : (int32_t)list->count;
}

int32_t broker_shard_of(struct broker *broker, enum broker_shard_kind_id kind, struct ot_str key)
{
    const int32_t count = broker_shard_count(broker, kind);
    return count == 0 ? -1 : ot_coordinator_partition(key, count);
}

bool broker_shard_served(struct broker *broker, enum broker_shard_kind_id kind) { return broker->shards.kinds[kind].kind != NULL; }

int32_t broker_shard_leader(struct broker *broker, enum broker_shard_kind_id kind, struct ot_str key)
{
    struct broker_view_topic topic;
    int32_t leader = -1;
    if (!broker_shard_served(broker, kind)) return -1;
    const struct broker_view *view = broker_view_take(broker);
    if (broker_view_topic(view, ot_str_of(broker->shards.kinds[kind].kind->topic), &topic))
        (void)broker_view_leader(view, topic.name, ot_coordinator_partition(key, topic.partition_count), &leader);
    broker_view_give(view);
    return leader;
}

/* ---- ops */

static bool another_has_it(const struct broker_shard *shard)
{
    struct broker_view_topic topic;
    const struct broker_view *view = broker_view_take(shard->broker);
    const bool has = broker_view_topic(view, ot_str_of(shard->kind->topic), &topic) && is_elsewhere(shard->broker, view, &topic, shard->partition);
    broker_view_give(view);
    return has;
}

static enum ot_err refusal(const struct broker_shard *shard)
{
    switch (shard->stage) {
    case BROKER_SHARD_SERVING:                 /* asked to fail */
    case BROKER_SHARD_LOADING:
    case BROKER_SHARD_FAILING: return OT_ERR_COORDINATOR_LOAD_IN_PROGRESS;
    case BROKER_SHARD_STOPPED: return OT_ERR_NOT_COORDINATOR;
    default:
        if (atomic_load(&shard->examine_posted)) return OT_ERR_COORDINATOR_LOAD_IN_PROGRESS;      /* about to load */
        if (shard->fail_why != OT_ERR_NOT_COORDINATOR && another_has_it(shard)) return OT_ERR_NOT_COORDINATOR;
        return shard->fail_why != OT_OK ? shard->fail_why : OT_ERR_COORDINATOR_NOT_AVAILABLE;
    }
}

static void park(struct broker_shard *shard, struct broker_shard_op *op)
{
    if (shard->parked == NULL) {
        shard->parked_until_us = ot_exec_now_us(shard->exec) + PARK_US;
        ot_exec_timer_set(shard->exec, &shard->retry, shard->parked_until_us);
    }
    op->next = NULL;
    *shard->parked_last = op;
    shard->parked_last = &op->next;
}

static void unpark(struct broker_shard *shard)
{
    struct broker_shard_op *op = shard->parked;
    shard->parked = NULL;
    shard->parked_last = &shard->parked;
    while (op != NULL) {
        struct broker_shard_op *next = op->next;
        const bool serving = shard->stage == BROKER_SHARD_SERVING && !shard->fail_asked;
        const enum ot_err err = serving ? OT_OK : refusal(shard);
        if (op->patient && err == OT_ERR_COORDINATOR_LOAD_IN_PROGRESS) park(shard, op);
        else op->run(op, serving ? shard->state : NULL, err);
        op = next;
    }
}

static void op_run(struct ot_task *task)
{
    struct broker_shard_op *op = OT_CONTAINER(task, struct broker_shard_op, task);
    struct broker_shard *shard = op->shard;
    const int64_t now_us = ot_exec_now_us(shard->exec);
    if (shard->stage == BROKER_SHARD_SERVING && !shard->fail_asked) {
        op->run(op, shard->state, OT_OK);
        return;
    }
    const enum ot_err err = refusal(shard);
    const bool loads_now = shard->stage == BROKER_SHARD_LOADING && now_us < shard->load_started_us + PARK_US;
    if (loads_now || (op->patient && err == OT_ERR_COORDINATOR_LOAD_IN_PROGRESS)) park(shard, op);
    else op->run(op, NULL, err);
}

void broker_shard_run(struct broker *broker, enum broker_shard_kind_id kind, int32_t partition, struct broker_shard_op *op)
{
    op->shard = broker_shard_find(broker, kind, partition);
    if (op->shard == NULL) {
        op->run(op, NULL, OT_ERR_COORDINATOR_NOT_AVAILABLE);
        return;
    }
    op->task.run = op_run;
    ot_exec_post(op->shard->exec, &op->task);
}

/* ---- from stage to stage */

static void markers_drop(struct broker_shard *shard)
{
    while (shard->markers != NULL) {
        struct broker_shard_marker *marker = shard->markers;
        shard->markers = marker->next;
        free(marker);
    }
    shard->markers_last = &shard->markers;
}

/* A marker counts once the writes before it in the log have told: pending offsets come to be there. */
static void markers_run(struct broker_shard *shard)
{
    while (shard->stage == BROKER_SHARD_SERVING && shard->markers != NULL) {
        struct broker_shard_marker *marker = shard->markers;
        const struct broker_shard_batch *first = shard->sent;
        if (first != NULL && first->part.base_offset >= 0 && first->part.base_offset < marker->offset) return;
        shard->markers = marker->next;
        if (shard->markers == NULL) shard->markers_last = &shard->markers;
        if (marker->offset >= shard->load_end && shard->kind->marker != NULL)
            shard->kind->marker(shard->state, marker->producer_id, marker->producer_epoch, marker->commit);
        free(marker);
    }
}

static void stopped(struct broker_shard *shard)
{
    stage_set(shard, BROKER_SHARD_STOPPED);
    ot_exec_timer_cancel(shard->exec, &shard->retry);
    unpark(shard);
    atomic_fetch_sub(&shard->all->stopping_open, 1);
}

/* Nothing is on its way for this shard any more. */
static void closed(struct broker_shard *shard)
{
    if (atomic_load(&shard->all->stopping)) {
        stopped(shard);
        return;
    }
    stage_set(shard, BROKER_SHARD_CLOSED);
    broker_shard_examine(shard);
}

static void fail_now(struct broker_shard *shard, enum ot_err why)
{
    if (!atomic_load(&shard->all->stopping)) ot_log(why == OT_ERR_NOT_COORDINATOR ? OT_LOG_INFO : OT_LOG_WARN, "shard", "closed", "topic=%s partition=%d error=%s", shard->kind->topic, shard->partition,
        ot_err_name(why));
    stage_set(shard, BROKER_SHARD_FAILING);
    shard->fail_asked = false;
    shard->fail_why = why;
    broker_shard_writes_fail(shard, why);
    void *state = shard->state;
    shard->state = NULL;
    shard->kind->close(state, why);
    markers_drop(shard);
    broker_partition_put(shard->owner);
    shard->owner = NULL;
    if (shard->sent == NULL) closed(shard);
}

void broker_shard_settle(struct broker_shard *shard)
{
    if (shard->stage == BROKER_SHARD_FAILING && shard->sent == NULL) closed(shard);
    else if (shard->stage == BROKER_SHARD_SERVING) markers_run(shard);
}

static void fail_run(struct ot_task *task)
{
    struct broker_shard *shard = OT_CONTAINER(task, struct broker_shard, fail_task);
    if (shard->stage == BROKER_SHARD_SERVING && shard->fail_asked) fail_now(shard, shard->fail_why);
    shard->fail_asked = false;
}

void broker_shard_fail(struct broker_shard *shard, enum ot_err why)
{
    if (shard->stage != BROKER_SHARD_SERVING || shard->fail_asked) return;
    shard->fail_asked = true;
    shard->fail_why = why == OT_ERR_NOT_COORDINATOR ? why : OT_ERR_COORDINATOR_NOT_AVAILABLE;
    ot_exec_post(shard->exec, &shard->fail_task);
}

bool broker_shard_committed(struct broker_shard *shard, int64_t end)
{
    struct broker_partition *owner = shard->owner;
    if (end == 0) return true;
    pthread_mutex_lock(&owner->mutex);         /* of our epoch: who follows has a high watermark too, over what may be another log */
    const bool is = owner->is_leader && owner->leader_epoch == shard->leader_epoch && atomic_load(&owner->high_watermark) >= end;
    pthread_mutex_unlock(&owner->mutex);
    return is;
}

/* Is all that was loaded committed? What lies above the high watermark will be, since we lead, but until then nobody may be told of it. */
static bool load_committed(struct broker_shard *shard)
{
    struct broker_partition *owner = shard->owner;
    if (broker_shard_committed(shard, shard->load_end)) return true;
    pthread_mutex_lock(&owner->mutex);
    if (atomic_load(&owner->stage) == BROKER_PARTITION_OPEN) broker_flush_ask(owner);      /* it may be our own disk that it waits for */
    pthread_mutex_unlock(&owner->mutex);
    ot_exec_timer_set(shard->exec, &shard->settle, ot_exec_now_us(shard->exec) + SETTLE_US);
    return false;
}

static void settle_fired(struct ot_timer *timer) { broker_shard_loaded(OT_CONTAINER(timer, struct broker_shard, settle)); }

void broker_shard_loaded(struct broker_shard *shard)
{
    const bool stopping = atomic_load(&shard->all->stopping), cancelled = atomic_load(&shard->load_cancelled) || stopping;
    const enum ot_err err = cancelled ? OT_ERR_NOT_COORDINATOR : shard->load_error;
    if (err == OT_OK && !load_committed(shard)) return;
    if (err == OT_OK) {
        stage_set(shard, BROKER_SHARD_SERVING);
        shard->fail_why = OT_OK;
        shard->kind->loaded(shard->state);
        markers_run(shard);
        if (shard->parked == NULL) ot_exec_timer_cancel(shard->exec, &shard->retry);
        unpark(shard);
        broker_shard_examine(shard);           /* its role may have changed meanwhile */
        return;
    }
    if (!cancelled)
        ot_log(OT_LOG_ERROR, "shard", "load_failed", "topic=%s partition=%d offset=%lld error=%s", shard->kind->topic, shard->partition, (long long)shard->load_offset,
            ot_err_name(err));
    void *state = shard->state;
    shard->state = NULL;
    if (state != NULL) shard->kind->close(state, OT_ERR_NOT_COORDINATOR);
    markers_drop(shard);
    broker_partition_put(shard->owner);
    shard->owner = NULL;
    shard->fail_why = cancelled ? OT_ERR_NOT_COORDINATOR : OT_ERR_COORDINATOR_NOT_AVAILABLE;
    if (stopping || cancelled) {
        closed(shard);
        return;
    }
    stage_set(shard, BROKER_SHARD_CLOSED);
    unpark(shard);
    ot_exec_timer_set(shard->exec, &shard->retry, ot_exec_now_us(shard->exec) + RETRY_US);
}

static void retry_fired(struct ot_timer *timer)
{
    struct broker_shard *shard = OT_CONTAINER(timer, struct broker_shard, retry);
    unpark(shard);
    if (shard->stage == BROKER_SHARD_CLOSED) broker_shard_examine(shard);
}

/* What the partition is now: do we lead it, and since which epoch? */
static struct broker_partition *led(struct broker_shard *shard, int32_t *epoch_out)
{
    struct broker_partition *partition = broker_partition_find(shard->broker, ot_str_of(shard->kind->topic), shard->partition);
    if (partition == NULL) {               /* what was here went away by a reassignment, or with its topic: whoever has it now coordinates */
        shard->fail_why = shard->owner != NULL ? OT_ERR_NOT_COORDINATOR : OT_ERR_COORDINATOR_NOT_AVAILABLE;
        return NULL;
    }
    pthread_mutex_lock(&partition->mutex);
    const bool open = atomic_load(&partition->stage) == BROKER_PARTITION_OPEN, leads = partition->is_leader;
    *epoch_out = partition->leader_epoch;
    pthread_mutex_unlock(&partition->mutex);
    if (open && leads) return partition;
    shard->fail_why = open ? OT_ERR_NOT_COORDINATOR : OT_ERR_COORDINATOR_NOT_AVAILABLE;
    broker_partition_put(partition);
    return NULL;
}

static void examine_run(struct ot_task *task)
{
    struct broker_shard *shard = OT_CONTAINER(task, struct broker_shard, examine_task);
    int32_t epoch = -1;
    atomic_store(&shard->examine_posted, false);
    if (atomic_load(&shard->all->stopping)) return;
    const enum ot_err why = shard->fail_why;
    struct broker_partition *partition = led(shard, &epoch);
    const bool same = partition != NULL && partition == shard->owner && epoch == shard->leader_epoch;
    const bool missed = atomic_exchange(&shard->marker_missed, false);
    switch (shard->stage) {
    case BROKER_SHARD_CLOSED:
        if (partition == NULL) {
            unpark(shard);
            break;
        }
        shard->owner = broker_partition_ref(partition);
        shard->leader_epoch = epoch;
        atomic_store(&shard->view_epoch, epoch);
        stage_set(shard, BROKER_SHARD_LOADING);
        shard->load_started_us = ot_exec_now_us(shard->exec);
        broker_shard_load(shard);
        break;
    case BROKER_SHARD_LOADING:
        if (!same || missed) atomic_store(&shard->load_cancelled, true);       /* loaded looks again */
        break;
    case BROKER_SHARD_SERVING:
        if (!same) fail_now(shard, partition == NULL ? shard->fail_why : OT_ERR_NOT_COORDINATOR);
        else if (missed) fail_now(shard, OT_ERR_COORDINATOR_NOT_AVAILABLE);
        else shard->fail_why = why;            /* of a failure that was asked for */
        break;
    case BROKER_SHARD_FAILING:
    case BROKER_SHARD_STOPPED: break;
    }
    broker_partition_put(partition);
}

void broker_shard_examine(struct broker_shard *shard)
{
    if (!atomic_exchange(&shard->examine_posted, true)) ot_exec_post(shard->exec, &shard->examine_task);
}

static void stop_run(struct ot_task *task)
{
    struct broker_shard *shard = OT_CONTAINER(task, struct broker_shard, stop_task);
    switch (shard->stage) {
    case BROKER_SHARD_SERVING: fail_now(shard, OT_ERR_NOT_COORDINATOR); break;
    case BROKER_SHARD_LOADING: atomic_store(&shard->load_cancelled, true); break;
    case BROKER_SHARD_CLOSED: stopped(shard); break;
    case BROKER_SHARD_FAILING:
    case BROKER_SHARD_STOPPED: break;
    }
}

/* ---- made and unmade, with the list that they are in */

static struct broker_shard *shard_new(struct broker_shards *all, enum broker_shard_kind_id kind, int32_t partition)
{
    struct broker_shard *shard = calloc(1, sizeof *shard);
    if (shard == NULL) return NULL;
    shard->broker = all->broker;
    shard->all = all;
    shard->kind = all->kinds[kind].kind;
    shard->partition = partition;
    shard->exec = all->execs[(uint32_t)partition % all->exec_count];
    shard->fail_why = OT_ERR_COORDINATOR_NOT_AVAILABLE;
    shard->fail_task.run = fail_run;
    shard->examine_task.run = examine_run;
    shard->stop_task.run = stop_run;
    shard->retry.fired = retry_fired;
    shard->settle.fired = settle_fired;
    shard->parked_last = &shard->parked;
    shard->markers_last = &shard->markers;
    atomic_store(&shard->view_epoch, -1);
    broker_shard_writes_init(shard);
    return shard;
}

enum ot_err broker_shards_list(struct broker_shards *all, enum broker_shard_kind_id kind, uint32_t count)
{
    enum ot_err err = OT_OK;
    pthread_mutex_lock(&all->mutex);
    struct broker_shard_list *now = atomic_load(&all->kinds[kind].list);
    if (now == NULL || now->count < count) {
        const uint32_t known = now == NULL ? 0 : now->count;
        struct broker_shard_list *list = count > BROKER_SHARDS_MAX ? NULL : calloc(1, sizeof *list + count * sizeof list->shards[0]);
        if (list == NULL) err = OT_ERR_NO_MEMORY;
        for (uint32_t i = 0; err == OT_OK && i < count; i++) {
            list->shards[i] = i < known ? now->shards[i] : shard_new(all, kind, (int32_t)i);
            if (list->shards[i] == NULL) err = OT_ERR_NO_MEMORY;
        }
        if (err == OT_OK) {
            list->count = count;
            list->older = now;                 /* a reader may have it still */
            atomic_store_explicit(&all->kinds[kind].list, list, memory_order_release);
        } else if (list != NULL) {
            for (uint32_t i = known; i < count; i++) free(list->shards[i]);
            free(list);
        }
    }
    pthread_mutex_unlock(&all->mutex);
    return err;
}

enum ot_err broker_shards_init(struct broker *broker)
{
    struct broker_shards *all = &broker->shards;
    all->broker = broker;
    pthread_mutex_init(&all->mutex, NULL);
    for (uint32_t i = 0; i < OT_MIN(broker->setup.shard_exec_count, (uint32_t)BROKER_SHARD_EXECS_MAX); i++) all->execs[all->exec_count++] = broker->setup.shard_execs[i];
    if (all->exec_count == 0) all->execs[all->exec_count++] = broker->setup.background_exec;
    for (int kind = 0; kind < BROKER_SHARD_KIND_COUNT; kind++) all->kinds[kind].kind = (broker->setup.shard_kinds != NULL ? broker->setup.shard_kinds : broker_shard_kinds)[kind];
    all->pool = ot_pool_new("shards", 64u << 20, 1u << 20);
    return all->pool == NULL ? OT_ERR_NO_MEMORY : OT_OK;
}

void broker_shards_stop(struct broker *broker)
{
    struct broker_shards *all = &broker->shards;
    if (all->broker == NULL || atomic_exchange(&all->stopping, true)) return;
    pthread_mutex_lock(&all->mutex);
    for (int kind = 0; kind < BROKER_SHARD_KIND_COUNT; kind++) {
        struct broker_shard_list *list = atomic_load(&all->kinds[kind].list);
        for (uint32_t i = 0; list != NULL && i < list->count; i++) {
            atomic_fetch_add(&all->stopping_open, 1);
            ot_exec_post(list->shards[i]->exec, &list->shards[i]->stop_task);
        }
    }
    pthread_mutex_unlock(&all->mutex);
    while (atomic_load(&all->stopping_open) > 0) broker->core.nap(broker->core.nap_arg);
}

static void nothing(void *arg) { (void)arg; }

void broker_shards_free(struct broker *broker)
{
    struct broker_shards *all = &broker->shards;
    if (all->broker == NULL) return;
    for (uint32_t i = 0; i < all->exec_count; i++) broker_coordinator_run(all->execs[i], nothing, NULL);       /* what was posted late has run */
    for (int kind = 0; kind < BROKER_SHARD_KIND_COUNT; kind++) {
        struct broker_shard_list *list = atomic_load(&all->kinds[kind].list);
        for (uint32_t i = 0; list != NULL && i < list->count; i++) free(list->shards[i]);
        while (list != NULL) {
            struct broker_shard_list *older = list->older;
            free(list);
            list = older;
        }
    }
    if (all->pool != NULL) ot_pool_free(all->pool);
    pthread_mutex_destroy(&all->mutex);
    all->broker = NULL;
}

/* ---- from the core, any thread */

static struct broker_shard_kinds *kind_of(struct broker *broker, const char *topic, enum broker_shard_kind_id *out)
{
    for (int kind = 0; broker->shards.broker != NULL && kind < BROKER_SHARD_KIND_COUNT; kind++) {
        struct broker_shard_kinds *kinds = &broker->shards.kinds[kind];
        *out = (enum broker_shard_kind_id)kind;
        if (kinds->kind != NULL && __builtin_strcmp(kinds->kind->topic, topic) == 0) return kinds;
    }
    return NULL;
}

void broker_shards_partition_changed(struct broker_core *core, const char *topic, int32_t partition)
{
    struct broker *broker = broker_of_core(core);
    enum broker_shard_kind_id kind;
    struct broker_view_topic row;
    if (kind_of(broker, topic, &kind) == NULL || atomic_load(&broker->shards.stopping)) return;
    /* the number as first seen stays: keys must not move while we live, whatever CreatePartitions does */
    const struct broker_view *view = broker_shard_count(broker, kind) > 0 ? NULL : broker_view_take(broker);
    if (view != NULL && broker_view_topic(view, ot_str_of(topic), &row) && broker_shards_list(&broker->shards, kind, (uint32_t)row.partition_count) != OT_OK)
        ot_log(OT_LOG_ERROR, "shard", "no_memory", "topic=%s partitions=%d", topic, row.partition_count);
    if (view != NULL) broker_view_give(view);
    struct broker_shard *shard = broker_shard_find(broker, kind, partition);
    if (shard != NULL) broker_shard_examine(shard);
}

struct marker_task { struct ot_task task; struct broker_shard *shard; struct broker_shard_marker *marker; };

static void marker_run(struct ot_task *task)
{
    struct marker_task *sent = OT_CONTAINER(task, struct marker_task, task);
    struct broker_shard *shard = sent->shard;
    struct broker_shard_marker *marker = sent->marker;
    free(sent);
    if (shard->stage != BROKER_SHARD_LOADING && shard->stage != BROKER_SHARD_SERVING) {
        free(marker);                          /* the load to come reads it */
        return;
    }
    *shard->markers_last = marker;
    shard->markers_last = &marker->next;
    markers_run(shard);
}

void broker_shards_marker(struct broker_core *core, const char *topic, int32_t partition, int64_t offset, const struct eng_marker *marker, int64_t producer_id,
    int16_t producer_epoch)
{
    enum broker_shard_kind_id kind;
    struct broker *broker = broker_of_core(core);
    struct broker_shard *shard = kind_of(broker, topic, &kind) == NULL ? NULL : broker_shard_find(broker, kind, partition);
    if (shard == NULL) return;
    struct marker_task *sent = calloc(1, sizeof *sent);
    struct broker_shard_marker *copy = calloc(1, sizeof *copy);
    if (sent == NULL || copy == NULL) {        /* it must not be missed: the load anew reads it */
        free(sent);
        free(copy);
        ot_log(OT_LOG_ERROR, "shard", "marker_lost", "topic=%s partition=%d offset=%lld error=NO_MEMORY text=\"its state is loaded anew\"", topic, partition, (long long)offset);
        atomic_store(&shard->marker_missed, true);
        broker_shard_examine(shard);
        return;
    }
    *copy = (struct broker_shard_marker){ NULL, offset, producer_id, producer_epoch, marker->commit };
    *sent = (struct marker_task){ { NULL, marker_run }, shard, copy };
    ot_exec_post(shard->exec, &sent->task);
}

/* ---- views */

bool broker_shard_view(struct broker *broker, enum broker_shard_kind_id kind, int32_t partition, struct broker_shard_view *out)
{
    struct broker_shard *shard = broker_shard_find(broker, kind, partition);
    if (shard == NULL) return false;
    const int stage = atomic_load(&shard->view_stage);
    *out = (struct broker_shard_view){ stage == BROKER_SHARD_SERVING, stage == BROKER_SHARD_LOADING, atomic_load(&shard->view_epoch), atomic_load(&shard->loaded_records),
        atomic_load(&shard->load_ms), atomic_load(&shard->writes_open) };
    return true;
}

struct ot_exec *broker_shard_exec(struct broker_shard *shard) { return shard->exec; }
struct broker *broker_shard_broker(struct broker_shard *shard) { return shard->broker; }
int32_t broker_shard_partition(const struct broker_shard *shard) { return shard->partition; }
