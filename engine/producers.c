/* Rules and bookkeeping of producer state.
 *
 *            check: reads ahead                 commit, in lane order
 *   batch ───────────────────────▶ queue ──────────────────────────────▶ committed
 *            pend: step onto ahead    │          step onto committed         │
 *                                     └─ drop_pending: ahead = committed ◀───┘
 *
 * One function, state_step, changes a state: for a queued batch, a committed one and a replayed one alike. That is why replaying the log
 * gives what the live server had. */
#include "engine/producers_inner.h"
#include "engine/batch.h"
#include "base/util.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUEUE_FIRST 16u
#define HELD_FIRST 8u
#define HELD_MAX 4096u         /* beyond it neighbours are merged: the last stable offset then waits a little longer than it had to */

/* ---- life ---- */

enum ot_err eng_producers_new(uint32_t producers_max, int64_t expiry_ms, struct eng_producers **out)
{
    struct eng_producers *producers = calloc(1, sizeof *producers);
    if (producers == NULL) return OT_ERR_NO_MEMORY;
    uint64_t seed;
    ot_random_bytes(&seed, sizeof seed);
    eng_producer_table_init(&producers->table, seed);
    producers->producers_max = OT_MAX(producers_max, 1u);
    producers->expiry_ms = expiry_ms;
    *out = producers;
    return OT_OK;
}

void eng_producers_free(struct eng_producers *producers)
{
    if (producers == NULL) return;
    eng_producer_table_clear(&producers->table);
    free(producers->queue);
    free(producers->held);
    free(producers);
}

void eng_producers_reset(struct eng_producers *producers)
{
    eng_producer_table_clear(&producers->table);
    producers->queue_first = producers->queue_count = producers->queue_ends = 0;
    producers->held_first = producers->held_count = 0;
}

static bool may_forget(const struct eng_producer *producer)
{
    return producer->pending == 0 && producer->committed.txn_first_offset < 0;
}

static bool forget_idle(struct eng_producers *producers)
{
    struct eng_producer *at = producers->table.idle_first;
    while (at != NULL && !may_forget(at)) at = at->idle_next;
    if (at == NULL) return false;
    eng_producer_table_remove(&producers->table, at);
    producers->forgotten++;
    return true;
}

void eng_producers_limits(struct eng_producers *producers, uint32_t producers_max, int64_t expiry_ms)
{
    producers->producers_max = OT_MAX(producers_max, 1u);
    producers->expiry_ms = expiry_ms;
    while (producers->table.count > producers->producers_max && forget_idle(producers)) {
    }
}

struct eng_producer *eng_producers_entry(struct eng_producers *producers, int64_t producer_id)
{
    struct eng_producer *producer = eng_producer_table_find(&producers->table, producer_id);
    if (producer != NULL) return producer;
    while (producers->table.count >= producers->producers_max) {
        if (!forget_idle(producers)) return NULL;
    }
    return eng_producer_table_add(&producers->table, producer_id);
}

uint32_t eng_producers_expire(struct eng_producers *producers, int64_t wall_ms)
{
    uint32_t gone = 0;
    struct eng_producer *next;
    for (struct eng_producer *at = producers->table.idle_first; at != NULL; at = next) {
        next = at->idle_next;
        if (at->touched_ms > wall_ms) at->touched_ms = wall_ms;    /* the clock went back, or a replayed timestamp is in the future */
        if (!may_forget(at) || at->touched_ms > wall_ms - producers->expiry_ms) continue;
        eng_producer_table_remove(&producers->table, at);
        gone++;
    }
    return gone;
}

/* ---- one step of one producer ---- */

static int32_t sequence_back(int32_t sequence, int32_t count)
{
    return sequence >= count ? sequence - count : (int32_t)(INT32_MAX - ((int64_t)count - sequence) + 1);
}

static bool sequence_follows(int32_t last, int32_t next)
{
    return last == INT32_MAX ? next == 0 : next == last + 1;
}

static int32_t state_last_sequence(const struct eng_producer_state *state)
{
    return state->batch_count == 0 ? -1 : state->batches[state->batch_count - 1].last_sequence;
}

static void state_epoch(struct eng_producer_state *state, int16_t epoch)
{
    if (state->epoch == epoch) return;
    state->epoch = epoch;
    state->batch_count = 0;
}

static void state_remember(struct eng_producer_state *state, const struct eng_producer_step *step)
{
    if (state->batch_count == ENG_PRODUCER_BATCHES) {
        memmove(state->batches, state->batches + 1, (ENG_PRODUCER_BATCHES - 1) * sizeof state->batches[0]);
        state->batch_count--;
    }
    state->batches[state->batch_count++] = (struct eng_producer_batch){ .last_offset = step->last_offset, .timestamp_ms = step->timestamp_ms,
        .last_sequence = step->last_sequence, .offset_delta = (int32_t)(step->last_offset - step->base_offset) };
}

static void state_step(struct eng_producer_state *state, const struct eng_producer_step *step)
{
    state->known = true;
    state->last_timestamp_ms = step->timestamp_ms;
    state_epoch(state, step->epoch);
    if (step->marker) {
        state->coordinator_epoch = step->coordinator_epoch;
        state->txn_first_offset = -1;
        return;
    }
    state_remember(state, step);
    if (step->transactional && state->txn_first_offset < 0) state->txn_first_offset = step->base_offset;
}

/* False: this batch says nothing about producers. */
static bool step_of(const struct eng_batch_info *batch, int64_t base_offset, int64_t last_offset, const struct eng_marker *marker, int64_t wall_ms,
    struct eng_producer_step *out)
{
    bool is_marker = batch->control && marker != NULL && marker->is_marker;
    if (batch->producer_id < 0 || (batch->control && !is_marker)) return false;
    *out = (struct eng_producer_step){ .base_offset = base_offset, .last_offset = last_offset, .timestamp_ms = batch->max_timestamp,
        .wall_ms = wall_ms, .last_sequence = eng_batch_last_sequence(batch), .epoch = batch->producer_epoch,
        .coordinator_epoch = is_marker ? marker->coordinator_epoch : -1,
        .transactional = batch->transactional, .marker = is_marker, .commit = is_marker && marker->commit };
    return true;
}

/* ---- check ---- */

static void OT_PRINTF(3, 4) refuse(struct eng_producer_check *out, enum ot_err err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    out->error = err;
    (void)vsnprintf(out->text, sizeof out->text, format, args);
    va_end(args);
}

static bool check_duplicate(const struct eng_producer_state *state, const struct eng_batch_info *batch, struct eng_producer_check *out)
{
    if (batch->producer_epoch != state->epoch) return false;
    int32_t last_sequence = eng_batch_last_sequence(batch);
    for (uint32_t i = 0; i < state->batch_count; i++) {
        const struct eng_producer_batch *old = &state->batches[i];
        if (old->last_sequence != last_sequence || sequence_back(old->last_sequence, old->offset_delta) != batch->base_sequence) continue;
        out->duplicate = true;
        out->duplicate_last_offset = old->last_offset;
        out->duplicate_base_offset = old->last_offset - old->offset_delta;
        out->duplicate_timestamp_ms = old->timestamp_ms;
        return true;
    }
    return false;
}

static void check_epoch(const struct eng_producer_state *state, const struct eng_batch_info *batch, struct eng_producer_check *out)
{
    if (batch->producer_epoch >= state->epoch) return;
    refuse(out, OT_ERR_INVALID_PRODUCER_EPOCH, "epoch %d of producer %lld is below %d, the last one seen", batch->producer_epoch,
        (long long)batch->producer_id, state->epoch);
}

static void check_sequence(const struct eng_producer_state *state, const struct eng_batch_info *batch, struct eng_producer_check *out)
{
    if (state->epoch < 0) return;                      /* nothing known, or forgotten: any sequence may begin */
    if (batch->producer_epoch != state->epoch) {
        if (batch->base_sequence == 0) return;
        refuse(out, OT_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, "producer %lld begins epoch %d (was %d) at sequence %d instead of 0",
            (long long)batch->producer_id, batch->producer_epoch, state->epoch, batch->base_sequence);
        return;
    }
    int32_t last = state_last_sequence(state);
    if (sequence_follows(last, batch->base_sequence)) return;
    refuse(out, OT_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, "sequence %d of producer %lld does not follow %d, the last one seen", batch->base_sequence,
        (long long)batch->producer_id, last);
}

/* Transactions of version 2 end with an epoch above that of their data, so a late or repeated marker can be told from the one of a later
 * transaction. The very same marker again, with nothing open, is a coordinator that lost our answer: it is written once more. */
static void check_marker(const struct eng_producer_state *state, const struct eng_batch_info *batch, const struct eng_marker *marker,
    int16_t transaction_version, struct eng_producer_check *out)
{
    bool repeat = batch->producer_epoch == state->epoch && state->txn_first_offset < 0;
    bool above = transaction_version >= 2 ? batch->producer_epoch > state->epoch || repeat : batch->producer_epoch >= state->epoch;
    if (!above) {
        refuse(out, OT_ERR_INVALID_PRODUCER_EPOCH, "epoch %d of a marker for producer %lld is %s %d, the last one seen (transaction version %d)",
            batch->producer_epoch, (long long)batch->producer_id, transaction_version >= 2 ? "not above" : "below", state->epoch, transaction_version);
    } else if (marker->coordinator_epoch < state->coordinator_epoch) {
        refuse(out, OT_ERR_TRANSACTION_COORDINATOR_FENCED, "coordinator epoch %d of a marker for producer %lld is below %d, the last one seen",
            marker->coordinator_epoch, (long long)batch->producer_id, state->coordinator_epoch);
    }
}

void eng_producers_check(const struct eng_producers *producers, const struct eng_batch_info *batch, const struct eng_marker *marker,
    enum eng_origin origin, int16_t transaction_version, struct eng_producer_check *out)
{
    *out = (struct eng_producer_check){ .error = OT_OK, .duplicate_base_offset = -1, .duplicate_last_offset = -1, .duplicate_timestamp_ms = -1 };
    if (batch->producer_id < 0 || origin == ENG_ORIGIN_REPLICATION) return;
    const struct eng_producer *producer = eng_producer_table_find(&producers->table, batch->producer_id);
    const struct eng_producer_state none = eng_producer_state_none();
    const struct eng_producer_state *state = producer == NULL ? &none : &producer->ahead;
    if (batch->control) {
        if (marker != NULL && marker->is_marker) check_marker(state, batch, marker, transaction_version, out);
        return;
    }
    if (origin == ENG_ORIGIN_CLIENT && check_duplicate(state, batch, out)) return;
    check_epoch(state, batch, out);
    if (out->error == OT_OK && origin == ENG_ORIGIN_CLIENT) check_sequence(state, batch, out);
    if (out->error == OT_OK && state->txn_first_offset >= 0 && !batch->transactional) {
        refuse(out, OT_ERR_INVALID_TXN_STATE, "producer %lld has a transaction open since offset %lld and sent a batch outside of it",
            (long long)batch->producer_id, (long long)state->txn_first_offset);
    }
}

/* ---- completed transactions above the high watermark ---- */

static bool ring_grow(void **ring, uint32_t *cap, uint32_t *first, uint32_t count, size_t each_bytes, uint32_t cap_new)
{
    uint8_t *grown = malloc((size_t)cap_new * each_bytes);
    if (grown == NULL) return false;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(grown + (size_t)i * each_bytes, (uint8_t *)*ring + (size_t)((*first + i) & (*cap - 1)) * each_bytes, each_bytes);
    }
    free(*ring);
    *ring = grown;
    *cap = cap_new;
    *first = 0;
    return true;
}

static struct eng_held_txn *held_at(const struct eng_producers *producers, uint32_t index)
{
    return &producers->held[(producers->held_first + index) & (producers->held_cap - 1)];
}

static bool held_reserve(struct eng_producers *producers, uint32_t more)
{
    if (producers->held_count + more <= producers->held_cap || producers->held_cap >= HELD_MAX) return true;
    void *ring = producers->held;
    uint32_t cap = producers->held_cap == 0 ? HELD_FIRST : producers->held_cap * 2;
    while (cap < producers->held_count + more && cap < HELD_MAX) cap *= 2;
    if (!ring_grow(&ring, &producers->held_cap, &producers->held_first, producers->held_count, sizeof producers->held[0], cap)) return false;
    producers->held = ring;
    return true;
}

static void held_push(struct eng_producers *producers, int64_t first_offset, int64_t last_offset)
{
    while (producers->held_count > 0 && held_at(producers, producers->held_count - 1)->first_offset >= first_offset) producers->held_count--;
    if (producers->held_count == producers->held_cap) {        /* at HELD_MAX: the lower first offset is held until the later marker */
        held_at(producers, producers->held_count - 1)->last_offset = last_offset;
        return;
    }
    *held_at(producers, producers->held_count++) = (struct eng_held_txn){ first_offset, last_offset };
}

void eng_producers_advance(struct eng_producers *producers, int64_t high_watermark)
{
    while (producers->held_count > 0 && held_at(producers, 0)->last_offset < high_watermark) {
        producers->held_first++;
        producers->held_count--;
    }
}

int64_t eng_producers_first_unstable(const struct eng_producers *producers)
{
    int64_t open = producers->table.txn_first == NULL ? INT64_MAX : producers->table.txn_first->committed.txn_first_offset;
    int64_t held = producers->held_count == 0 ? INT64_MAX : held_at(producers, 0)->first_offset;
    return OT_MIN(open, held);
}

/* ---- pending and committed ---- */

static bool queue_reserve(struct eng_producers *producers, uint32_t count)
{
    if (count <= producers->queue_cap) return true;
    if (count > 1u << 30) return false;
    void *ring = producers->queue;
    uint32_t cap = producers->queue_cap == 0 ? QUEUE_FIRST : producers->queue_cap;
    while (cap < count) cap *= 2;
    if (!ring_grow(&ring, &producers->queue_cap, &producers->queue_first, producers->queue_count, sizeof producers->queue[0], cap)) return false;
    producers->queue = ring;
    return true;
}

static struct eng_producer_step *queue_at(const struct eng_producers *producers, uint32_t index)
{
    return &producers->queue[(producers->queue_first + index) & (producers->queue_cap - 1)];
}

enum ot_err eng_producers_reserve(struct eng_producers *producers, uint32_t pending_max)
{
    return queue_reserve(producers, pending_max) ? OT_OK : OT_ERR_NO_MEMORY;
}

enum ot_err eng_producers_pend(struct eng_producers *producers, const struct eng_batch_info *batch, int64_t base_offset, int64_t last_offset,
    const struct eng_marker *marker, int64_t wall_ms)
{
    struct eng_producer_step step;
    if (!step_of(batch, base_offset, last_offset, marker, wall_ms, &step)) return OT_OK;
    OT_ASSERT(base_offset >= 0 && base_offset <= last_offset);
    OT_ASSERT(producers->queue_count == 0 || queue_at(producers, producers->queue_count - 1)->last_offset < base_offset);
    if (!queue_reserve(producers, producers->queue_count + 1)) return OT_ERR_NO_MEMORY;
    if (step.marker && !held_reserve(producers, producers->queue_ends + 1)) return OT_ERR_NO_MEMORY;
    step.producer = eng_producers_entry(producers, batch->producer_id);
    if (step.producer == NULL) return OT_ERR_NO_MEMORY;
    state_step(&step.producer->ahead, &step);
    step.producer->pending++;
    producers->queue_ends += step.marker ? 1 : 0;
    *queue_at(producers, producers->queue_count++) = step;
    return OT_OK;
}

/* Moves committed state over one batch; says which transaction it completed. */
static bool commit_step(struct eng_producers *producers, const struct eng_producer_step *step, struct eng_completed_txn *txn)
{
    struct eng_producer *producer = step->producer;
    struct eng_producer_table *table = &producers->table;
    int64_t open_since = producer->committed.txn_first_offset;
    bool completes = step->marker && open_since >= 0;
    if (completes) {
        eng_producer_table_txn_unlink(table, producer);
        int64_t stable = table->txn_first == NULL ? step->last_offset + 1 : table->txn_first->committed.txn_first_offset;
        *txn = (struct eng_completed_txn){ .producer_id = producer->producer_id, .first_offset = open_since, .last_offset = step->last_offset,
            .last_stable_offset = stable, .aborted = !step->commit };
        held_push(producers, open_since, step->last_offset);
    }
    state_step(&producer->committed, step);
    if (open_since < 0 && producer->committed.txn_first_offset >= 0) eng_producer_table_txn_link(table, producer);
    producer->touched_ms = step->wall_ms;
    eng_producer_table_touch(table, producer);
    return completes;
}

void eng_producers_commit(struct eng_producers *producers, int64_t log_end_offset, void (*completed)(void *arg, const struct eng_completed_txn *txn),
    void *arg)
{
    while (producers->queue_count > 0 && queue_at(producers, 0)->last_offset < log_end_offset) {
        const struct eng_producer_step *step = queue_at(producers, 0);
        struct eng_completed_txn txn;
        bool completes = commit_step(producers, step, &txn);
        OT_ASSERT(step->producer->pending > 0);
        step->producer->pending--;
        OT_ASSERT_SLOW(step->producer->pending > 0 || memcmp(&step->producer->committed.batches, &step->producer->ahead.batches,
            step->producer->committed.batch_count * sizeof(struct eng_producer_batch)) == 0);
        producers->queue_ends -= step->marker ? 1 : 0;
        producers->queue_first++;
        producers->queue_count--;
        if (completes && completed != NULL) completed(arg, &txn);
    }
}

void eng_producers_drop_pending(struct eng_producers *producers)
{
    for (uint32_t i = 0; i < producers->queue_count; i++) {
        struct eng_producer *producer = queue_at(producers, i)->producer;
        OT_ASSERT(producer->pending > 0);
        if (--producer->pending > 0) continue;                     /* its last queued batch comes yet */
        producer->ahead = producer->committed;
        if (!producer->committed.known) eng_producer_table_remove(&producers->table, producer);
    }
    producers->queue_first = producers->queue_count = producers->queue_ends = 0;
}

enum ot_err eng_producers_replay_completed(struct eng_producers *producers, const struct eng_batch_info *batch, const struct eng_marker *marker,
    struct eng_completed_txn *completed_out)
{
    struct eng_producer_step step;
    *completed_out = (struct eng_completed_txn){ .producer_id = -1 };
    int64_t last_offset = eng_batch_last_offset(batch);
    OT_ASSERT(producers->queue_count == 0);
    if (batch->base_offset < 0 || last_offset < batch->base_offset || last_offset == INT64_MAX) return OT_ERR_CORRUPT;
    if (!step_of(batch, batch->base_offset, last_offset, marker, batch->max_timestamp, &step)) return OT_OK;
    if (step.marker && !held_reserve(producers, 1)) return OT_ERR_NO_MEMORY;
    step.producer = eng_producers_entry(producers, batch->producer_id);
    if (step.producer == NULL) return OT_ERR_NO_MEMORY;
    step.wall_ms = OT_MAX(step.wall_ms, step.producer->touched_ms);
    if (!commit_step(producers, &step, completed_out)) completed_out->producer_id = -1;
    step.producer->ahead = step.producer->committed;
    return OT_OK;
}

enum ot_err eng_producers_replay(struct eng_producers *producers, const struct eng_batch_info *batch, const struct eng_marker *marker)
{
    struct eng_completed_txn completed;
    return eng_producers_replay_completed(producers, batch, marker, &completed);
}

/* ---- views ---- */

static struct eng_producer_view view_of(const struct eng_producer *producer, const struct eng_producer_state *state)
{
    return (struct eng_producer_view){ .producer_id = producer->producer_id, .last_timestamp_ms = state->last_timestamp_ms,
        .current_txn_first_offset = state->txn_first_offset, .epoch = state->epoch, .last_sequence = state_last_sequence(state),
        .coordinator_epoch = state->coordinator_epoch };
}

uint32_t eng_producers_list(const struct eng_producers *producers, struct eng_producer_view *out, uint32_t max)
{
    uint32_t count = 0;
    for (const struct eng_producer *at = producers->table.idle_first; at != NULL; at = at->idle_next) {
        if (!at->committed.known) continue;
        if (count < max) out[count] = view_of(at, &at->committed);
        count++;
    }
    return count;
}

uint32_t eng_producers_last(const struct eng_producers *producers, struct eng_producer_last *out, uint32_t max)
{
    uint32_t count = 0;
    for (const struct eng_producer *at = producers->table.idle_first; at != NULL; at = at->idle_next) {
        const struct eng_producer_state *state = &at->committed;
        if (!state->known) continue;
        int64_t last_offset = state->batch_count == 0 ? -1 : state->batches[state->batch_count - 1].last_offset;
        if (count < max) out[count] = (struct eng_producer_last){ at->producer_id, last_offset, state->epoch };
        count++;
    }
    return count;
}

bool eng_producers_find(const struct eng_producers *producers, int64_t producer_id, bool pending, struct eng_producer_view *out)
{
    const struct eng_producer *producer = eng_producer_table_find(&producers->table, producer_id);
    if (producer == NULL) return false;
    const struct eng_producer_state *state = pending ? &producer->ahead : &producer->committed;
    if (state->known) *out = view_of(producer, state);
    return state->known;
}

uint64_t eng_producers_forgotten(const struct eng_producers *producers)
{
    return producers->forgotten;
}
