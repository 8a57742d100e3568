/* Appends of a shard. Writes of one turn become one batch; at most two batches are on their way, so that what comes meanwhile gathers in the next.
 *
 *   append ► building ─(full, other producer)─► ready ─► sent (broker_produce, acks=all) ─► done: told in this order, whatever order the lane answers in */
#include "broker/room.h"

#include "base/log.h"
#include "broker/transactions.h"
#include <stdlib.h>

enum { RECORD_OVERHEAD_BYTES = 32, WRITES_WAITING_BYTES_MAX = 32 << 20, HELD_LOOK_US = 5000 };

static void batch_free(struct broker_shard_batch *batch)
{
    if (batch == NULL) return;
    ot_buf_unref(batch->produce.buf);
    eng_sink_free(&batch->sink);
    free(batch);
}

static size_t write_bytes(const struct broker_shard_write *write)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < write->count; i++) bytes += RECORD_OVERHEAD_BYTES + (size_t)write->records[i].key.bytes + write->records[i].value.bytes;
    return bytes;
}

uint32_t broker_shard_batch_max(struct broker_shard *shard)
{
    const int32_t bytes = shard->owner == NULL ? 0 : atomic_load_explicit(&shard->owner->topic->config, memory_order_acquire)->max_message_bytes;
    return (uint32_t)OT_MAX(bytes - (int32_t)ENG_BATCH_HEADER_BYTES, 0);
}

/* What the lane said, as the callers of a coordinator know it. */
static enum ot_err told(const struct broker_shard_batch *batch)
{
    switch (batch->error) {
    case OT_OK:
    case OT_ERR_REQUEST_TIMED_OUT: return batch->error;
    case OT_ERR_INVALID_PRODUCER_EPOCH:
    case OT_ERR_INVALID_TXN_STATE:
    case OT_ERR_INVALID_PRODUCER_ID_MAPPING:
    case OT_ERR_TRANSACTION_COORDINATOR_FENCED:
        if (batch->transactional) return batch->error;
        return OT_ERR_COORDINATOR_NOT_AVAILABLE;
    case OT_ERR_NOT_LEADER_OR_FOLLOWER: return OT_ERR_NOT_COORDINATOR;
    default: return OT_ERR_COORDINATOR_NOT_AVAILABLE;
    }
}

static bool fails_state(const struct broker_shard_batch *batch, enum ot_err err)
{
    return err != OT_OK && err != OT_ERR_REQUEST_TIMED_OUT && !(batch->transactional && err == batch->error);
}

/* It was appended all the same, or may have been. */
static bool is_unsure(const struct broker_shard_batch *batch)
{
    return batch->error != OT_OK && (batch->part.base_offset >= 0 || batch->error == OT_ERR_REQUEST_TIMED_OUT || batch->error == OT_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND);
}

static void tell_one(struct broker_shard *shard, struct broker_shard_write *write, enum ot_err err, bool unsure)
{
    write->unsure = unsure;
    write->done(write, shard->state, err);
}

/* ---- barriers with nothing on its way before them: at once, unless something timed out and is not committed yet. Until it is, another leader may take it back. */

static void held_tell(struct broker_shard *shard, enum ot_err err)
{
    struct broker_shard_write *write = shard->held;
    shard->held = NULL;
    shard->held_last = &shard->held;
    ot_exec_timer_cancel(shard->exec, &shard->held_timer);
    while (write != NULL) {
        struct broker_shard_write *next = write->next;
        atomic_fetch_sub_explicit(&shard->writes_open, 1, memory_order_relaxed);
        tell_one(shard, write, err, err != OT_OK);
        write = next;
    }
}

static bool passes(struct broker_shard *shard)
{
    if (!broker_shard_committed(shard, shard->unsure_end)) return false;
    shard->unsure_end = 0;
    return true;
}

static void held_look(struct ot_timer *timer)
{
    struct broker_shard *shard = OT_CONTAINER(timer, struct broker_shard, held_timer);
    const int64_t now_us = ot_exec_now_us(shard->exec);
    if (shard->fail_asked) return;             /* they are told with all the others */
    if (passes(shard)) held_tell(shard, OT_OK);
    else if (now_us >= shard->held_until_us) held_tell(shard, OT_ERR_REQUEST_TIMED_OUT);
    else ot_exec_timer_set(shard->exec, timer, now_us + HELD_LOOK_US);
}

static void pass(struct broker_shard *shard, struct broker_shard_write *write)
{
    const int64_t now_us = ot_exec_now_us(shard->exec);
    if (passes(shard)) {
        tell_one(shard, write, OT_OK, false);
        return;
    }
    if (shard->held == NULL) {
        shard->held_until_us = now_us + (int64_t)broker_config_current(shard->broker->setup.config)->offsets_commit_timeout_ms * 1000;
        ot_exec_timer_set(shard->exec, &shard->held_timer, now_us + HELD_LOOK_US);
    }
    write->next = NULL;
    *shard->held_last = write;
    shard->held_last = &write->next;
    atomic_fetch_add_explicit(&shard->writes_open, 1, memory_order_relaxed);
}

/* Records of a transaction change nothing before they are committed: what was refused of them is no concern of a barrier that came with the batch, which may be somebody else's. */
static void tell(struct broker_shard *shard, struct broker_shard_batch *batch, enum ot_err err, bool unsure)
{
    struct broker_shard_write *write = batch->first;
    const bool harmless = err != OT_OK && batch->transactional && err == batch->error;
    batch->first = NULL;
    batch->last = &batch->first;
    while (write != NULL) {
        struct broker_shard_write *next = write->next;
        atomic_fetch_sub_explicit(&shard->writes_open, 1, memory_order_relaxed);
        if (harmless && write->count == 0 && !shard->fail_asked) pass(shard, write);
        else tell_one(shard, write, harmless && write->count == 0 ? OT_ERR_COORDINATOR_NOT_AVAILABLE : err, unsure);
        write = next;
    }
}

static int64_t log_end_of(struct broker_partition *owner)
{
    pthread_mutex_lock(&owner->mutex);
    const int64_t end = owner->log == NULL ? 0 : eng_log_end_offset(owner->log);
    pthread_mutex_unlock(&owner->mutex);
    return end;
}

static struct broker_shard_batch *pop_sent(struct broker_shard *shard)
{
    struct broker_shard_batch *batch = shard->sent;
    shard->sent = batch->next;
    if (shard->sent == NULL) shard->sent_last = &shard->sent;
    shard->sent_count--;
    return batch;
}

static void flush_ask(struct broker_shard *shard)
{
    if (shard->flush_asked) return;
    shard->flush_asked = true;
    ot_exec_post(shard->exec, &shard->flush_task);
}

static void batch_done(struct broker_call *call)
{
    struct broker_shard_batch *batch = OT_CONTAINER(call, struct broker_shard_batch, produce.call);
    struct broker_shard *shard = batch->shard;
    batch->done = true;
    batch->error = batch->part.error;
    while (shard->sent != NULL && shard->sent->done) {
        struct broker_shard_batch *first = pop_sent(shard);
        const bool serving = shard->stage == BROKER_SHARD_SERVING, late = shard->refused && first->error == OT_OK;
        const enum ot_err err = late ? OT_ERR_COORDINATOR_NOT_AVAILABLE : told(first);     /* it may rest on what is not in the log */
        if (first->error != OT_OK && first->first != NULL)
            ot_log(OT_LOG_WARN, "shard", "append_failed", "topic=%s partition=%d error=%s text=\"%s\"", shard->kind->topic, shard->partition, ot_err_name(first->error),
                first->part.text);
        const bool fatal = serving && fails_state(first, err);
        shard->refused |= fatal;
        if (serving && err == OT_ERR_REQUEST_TIMED_OUT && !first->transactional) shard->unsure_end = log_end_of(shard->owner);
        tell(shard, first, err, late || is_unsure(first));
        batch_free(first);
        if (fatal) broker_shard_fail(shard, err);
    }
    broker_shard_settle(shard);
    if (shard->ready != NULL || shard->building != NULL) flush_ask(shard);
}

/* The next one may follow: where batches are compressed, one that is small would overtake. */
static void queued(struct broker_produce *produce)
{
    struct broker_shard *shard = OT_CONTAINER(produce, struct broker_shard_batch, produce)->shard;
    shard->unqueued = false;
    if (shard->ready != NULL || shard->building != NULL) flush_ask(shard);
}

static void send(struct broker_shard *shard, struct broker_shard_batch *batch)
{
    const struct broker_config *config = broker_config_current(shard->broker->setup.config);
    batch->next = NULL;
    *shard->sent_last = batch;
    shard->sent_last = &batch->next;
    shard->sent_count++;
    enum ot_err err = eng_batch_build_finish(&batch->builder);
    if (err != OT_OK) {                        /* records were added already, so this cannot be; but then nothing may be believed */
        batch->done = true;
        batch->error = err;
        broker_shard_fail(shard, OT_ERR_COORDINATOR_NOT_AVAILABLE);
        return;
    }
    batch->produce = (struct broker_produce){ .call = { .home = shard->exec, .done = batch_done }, .buf = eng_sink_take(&batch->sink), .acks = -1,
        .timeout_ms = config->offsets_commit_timeout_ms, .api_version = 13, .transactional_id = { .null = true }, .origin = ENG_ORIGIN_COORDINATOR, .parts = &batch->part,
        .part_count = 1, .queued = queued };
    batch->part = (struct broker_produce_part){ .topic = ot_str_of(shard->kind->topic), .partition = shard->partition, .records = batch->produce.buf->data,
        .records_bytes = batch->produce.buf->bytes, .of_epoch = true, .epoch = shard->leader_epoch };
    for (struct broker_shard_write *write = batch->first; write != NULL; write = write->next) {
        if (write->guard == NULL || write->guard == batch->part.guards) continue;      /* one ask may be several writes, one behind the other */
        write->guard->also = batch->part.guards;
        batch->part.guards = write->guard;
    }
    shard->unqueued = !broker_produce(shard->broker, &batch->produce);
}

static void to_ready(struct broker_shard *shard)
{
    struct broker_shard_batch *batch = shard->building;
    shard->building = NULL;
    batch->next = NULL;
    *shard->ready_last = batch;
    shard->ready_last = &batch->next;
}

static void flush_run(struct ot_task *task)
{
    struct broker_shard *shard = OT_CONTAINER(task, struct broker_shard, flush_task);
    shard->flush_asked = false;
    while (shard->stage == BROKER_SHARD_SERVING && !shard->fail_asked && !shard->unqueued && shard->sent_count < BROKER_SHARD_IN_FLIGHT_MAX) {
        if (shard->ready == NULL && shard->building != NULL) to_ready(shard);
        struct broker_shard_batch *batch = shard->ready;
        if (batch == NULL) return;
        shard->ready = batch->next;
        if (shard->ready == NULL) shard->ready_last = &shard->ready;
        send(shard, batch);
    }
}

static enum ot_err batch_begin(struct broker_shard *shard, const struct broker_shard_write *write, struct broker_shard_batch **out)
{
    struct broker_shard_batch *batch = calloc(1, sizeof *batch);
    struct eng_batch_fields fields = eng_batch_fields_default();
    if (batch == NULL) return OT_ERR_NO_MEMORY;
    batch->shard = shard;
    batch->last = &batch->first;
    batch->producer_id = write->producer_id;
    batch->producer_epoch = write->producer_epoch;
    batch->transactional = write->transactional;
    fields.producer_id = write->producer_id;
    fields.producer_epoch = write->producer_epoch;
    fields.transactional = write->transactional;
    fields.base_sequence = -1;
    eng_sink_pool(&batch->sink, shard->all->pool, broker_shard_batch_max(shard) + ENG_BATCH_HEADER_BYTES);
    enum ot_err err = eng_batch_build_begin(&batch->builder, &fields, NULL, &batch->sink);
    if (err == OT_OK) *out = batch;
    else batch_free(batch);
    return err;
}

static bool fits(const struct broker_shard *shard, const struct broker_shard_batch *batch, const struct broker_shard_write *write, size_t bytes, uint32_t max)
{
    (void)shard;
    return batch->producer_id == write->producer_id && batch->producer_epoch == write->producer_epoch && batch->transactional == write->transactional
        && batch->sink.bytes + bytes <= max;
}

enum ot_err broker_shard_append(struct broker_shard *shard, struct broker_shard_write *write)
{
    const size_t bytes = write_bytes(write);
    const uint32_t max = broker_shard_batch_max(shard);
    enum ot_err err = OT_OK;
    if (shard->stage != BROKER_SHARD_SERVING) return OT_ERR_NOT_COORDINATOR;
    if (shard->fail_asked) return OT_ERR_COORDINATOR_NOT_AVAILABLE;
    if (bytes > max) err = OT_ERR_TOO_LARGE;
    if (err == OT_OK && shard->building != NULL && !fits(shard, shard->building, write, bytes, max)) to_ready(shard);
    if (err == OT_OK && shard->building == NULL) err = batch_begin(shard, write, &shard->building);
    const int64_t wall_ms = ot_exec_wall_ms(shard->exec);
    for (uint32_t i = 0; err == OT_OK && i < write->count; i++)
        err = eng_batch_build_next(&shard->building->builder, wall_ms, write->records[i].key, write->records[i].value, NULL, 0);
    if (err != OT_OK) {
        ot_log(OT_LOG_WARN, "shard", "append_refused", "topic=%s partition=%d bytes=%zu error=%s", shard->kind->topic, shard->partition, bytes, ot_err_name(err));
        broker_shard_fail(shard, OT_ERR_COORDINATOR_NOT_AVAILABLE);
        return err;
    }
    write->next = NULL;
    *shard->building->last = write;
    shard->building->last = &write->next;
    atomic_fetch_add_explicit(&shard->writes_open, 1, memory_order_relaxed);
    flush_ask(shard);
    return OT_OK;
}

/* The batch behind which nothing is appended yet; NULL: all is committed. */
static struct broker_shard_batch *newest(struct broker_shard *shard)
{
    struct broker_shard_batch *batch = shard->building;
    if (batch == NULL && shard->ready != NULL) batch = OT_CONTAINER(shard->ready_last, struct broker_shard_batch, next);
    if (batch == NULL && shard->sent != NULL) batch = OT_CONTAINER(shard->sent_last, struct broker_shard_batch, next);
    return batch;
}

void broker_shard_barrier(struct broker_shard *shard, struct broker_shard_write *write)
{
    const bool serving = shard->stage == BROKER_SHARD_SERVING;
    write->count = 0;
    if (!serving || shard->fail_asked) {
        tell_one(shard, write, serving ? OT_ERR_COORDINATOR_NOT_AVAILABLE : OT_ERR_NOT_COORDINATOR, false);
        return;
    }
    struct broker_shard_batch *batch = newest(shard);
    if (batch == NULL) {
        pass(shard, write);
        return;
    }
    write->next = NULL;
    *batch->last = write;
    batch->last = &write->next;
    atomic_fetch_add_explicit(&shard->writes_open, 1, memory_order_relaxed);
}

enum ot_err broker_shard_writable(struct broker_shard *shard)
{
    struct broker_core *core = broker_core_of(shard->broker);
    struct broker_partition *owner = shard->owner;
    if (shard->stage != BROKER_SHARD_SERVING || owner == NULL) return OT_ERR_NOT_COORDINATOR;
    if (shard->fail_asked || ot_pool_used_bytes(shard->all->pool) > WRITES_WAITING_BYTES_MAX) return OT_ERR_COORDINATOR_NOT_AVAILABLE;
    if (broker_space_refuses(core, owner->store_dir)) return OT_ERR_COORDINATOR_NOT_AVAILABLE;
    pthread_mutex_lock(&owner->mutex);
    const bool enough = owner->isr_count >= owner->min_isr && !owner->lane_closed;
    pthread_mutex_unlock(&owner->mutex);
    return enough ? OT_OK : OT_ERR_COORDINATOR_NOT_AVAILABLE;
}

void broker_shard_writes_init(struct broker_shard *shard)
{
    shard->flush_task.run = flush_run;
    shard->ready_last = &shard->ready;
    shard->sent_last = &shard->sent;
    shard->held_last = &shard->held;
    shard->held_timer.fired = held_look;
}

/* Everybody is told, in order; what is on its way to the lane comes back by itself. */
void broker_shard_writes_fail(struct broker_shard *shard, enum ot_err why)
{
    held_tell(shard, why);
    for (struct broker_shard_batch *batch = shard->sent; batch != NULL; batch = batch->next) tell(shard, batch, why, true);
    while (shard->ready != NULL) {
        struct broker_shard_batch *batch = shard->ready;
        shard->ready = batch->next;
        tell(shard, batch, why, false);
        batch_free(batch);
    }
    shard->ready_last = &shard->ready;
    if (shard->building != NULL) {
        tell(shard, shard->building, why, false);
        batch_free(shard->building);
        shard->building = NULL;
    }
    while (shard->sent != NULL && shard->sent->done) batch_free(pop_sent(shard));      /* never handed to the lane */
    shard->refused = false;
    shard->unsure_end = 0;
}
