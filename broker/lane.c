/* The append lane: one queue per partition, one write at a time.
 *
 *   put (mutex)            queue: [ a b c | d e ]      reserved_end is behind e
 *   run (I/O thread)              ^ in the write         log_end_offset is before a
 *   after the write (mutex)  whole ones leave, producer state commits in lane order, waiters move
 *
 * Why it cannot leave a gap: offsets are given at put and taken back when a write fails, and behind the first batch that is not whole in the file
 * nothing survives: the rest of the queue fails, pending producer state is dropped, reserved_end returns to the log end. */
#include "broker/core.h"
#include "base/log.h"
#include "broker/replication.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SNAPSHOT_BYTES (256u << 20)
#define SOON_BYTES_MAX (16u << 10)    /* a write of this much is shorter than waking a thread for it */

static bool care_due(const struct broker_partition *partition);

static void fail_part(struct broker_produce_part *part, enum ot_err error, const char *text)
{
    part->error = error;
    snprintf(part->text, sizeof(part->text), "%s", text);
    part->base_offset = part->append_time_ms = -1;
}

void broker_part_time_out(struct broker_produce_part *part)
{
    fail_part(part, part->too_few ? OT_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND : OT_ERR_REQUEST_TIMED_OUT, "");
    snprintf(part->text, sizeof(part->text), "not committed within %d ms", part->call->timeout_ms);
}

static void chain(struct broker_produce_part **list, struct broker_produce_part *part)
{
    part->next = *list;
    *list = part;
}

/* Among the waiters, kept in the order of what they wait for: an append comes last, a duplicate may go before. */
static void wait_put(struct broker_partition *partition, struct broker_produce_part *part, int64_t offset, bool log_end)
{
    struct broker_produce_part *before = partition->wait_last;
    while (before != NULL && before->wait_offset > offset) before = before->prev;
    part->wait_offset = offset;
    part->wait_log_end = log_end;
    part->waiting = true;
    part->prev = before;
    part->next = before == NULL ? partition->wait_first : before->next;
    if (part->next != NULL) part->next->prev = part;
    else partition->wait_last = part;
    if (before != NULL) before->next = part;
    else partition->wait_first = part;
    if (log_end) partition->wait_log_ends++;
    else if (part->call->acks == 1) partition->wait_handovers++;
}

static void wait_take(struct broker_partition *partition, struct broker_produce_part *part)
{
    if (part->prev != NULL) part->prev->next = part->next;
    else partition->wait_first = part->next;
    if (part->next != NULL) part->next->prev = part->prev;
    else partition->wait_last = part->prev;
    part->next = part->prev = NULL;
    part->waiting = false;
    part->too_few = partition->isr_count < partition->min_isr;
    if (part->wait_log_end) partition->wait_log_ends--;
    else if (part->call->acks == 1) partition->wait_handovers--;
}

bool broker_part_stop_waiting(struct broker_produce_part *part)
{
    struct broker_partition *partition = part->owner;
    pthread_mutex_lock(&partition->mutex);
    bool waited = part->waiting;
    if (waited) wait_take(partition, part);
    pthread_mutex_unlock(&partition->mutex);
    return waited;
}

/* All that this broker leads, or this partition. */
static bool hands_over(const struct broker_partition *partition) { return atomic_load(&partition->core->handing_over) || replica_hands_over(&partition->replica); }

/* Is it answered once all in sync have it? While this broker hands over, acks=1 is too: what is in this log alone goes when another one leads. */
static bool waits_for_all(const struct broker_partition *partition, const struct broker_produce_part *part)
{
    return part->call->acks == -1 || (part->call->acks == 1 && partition->replica_count > 1 && hands_over(partition));
}

/* A repeated batch is answered as its original, and no earlier than that. */
static enum broker_lane_fate put_duplicate(struct broker_partition *partition, struct broker_produce_part *part, const struct eng_producer_check *check)
{
    part->base_offset = check->duplicate_base_offset;
    part->append_time_ms = part->append_time_ms >= 0 ? check->duplicate_timestamp_ms : -1;
    bool written = check->duplicate_last_offset < partition->state_end;
    if (waits_for_all(partition, part) && check->duplicate_last_offset >= atomic_load(&partition->high_watermark)) {
        if (atomic_load(&part->call->expired)) {
            broker_part_time_out(part);
            return BROKER_LANE_ANSWERED;
        }
        wait_put(partition, part, check->duplicate_last_offset + 1, false);
        if (broker_partition_durability(partition) != BROKER_DURABILITY_REPLICATED) broker_flush_ask(partition);
        return BROKER_LANE_QUEUED;
    }
    if (part->call->acks == 1 && !written) {
        wait_put(partition, part, check->duplicate_last_offset + 1, true);
        return BROKER_LANE_QUEUED;
    }
    return BROKER_LANE_ANSWERED;               /* OK at once */
}

static void name_leader(const struct broker_partition *partition, struct broker_produce_part *part)
{
    if (part->error != OT_ERR_NOT_LEADER_OR_FOLLOWER) return;
    part->leader_id = partition->leader_id;
    part->leader_epoch = partition->leader_epoch;
}

static bool may_append(struct broker_partition *partition, struct broker_produce_part *part)
{
    int stage = atomic_load(&partition->stage);
    if (stage == BROKER_PARTITION_REMOVED) fail_part(part, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION, "the topic was deleted");
    else if (stage == BROKER_PARTITION_OFFLINE) fail_part(part, OT_ERR_KAFKA_STORAGE_ERROR, "the disk of this partition failed");
    else if (stage == BROKER_PARTITION_OPENING) {
        broker_partition_wanted(partition);
        fail_part(part, OT_ERR_LEADER_NOT_AVAILABLE, "the log is being opened");
    }
    else if (!partition->is_leader || partition->yielding) fail_part(part, OT_ERR_NOT_LEADER_OR_FOLLOWER, "another broker leads this partition");
    else if (partition->lane_closed) fail_part(part, OT_ERR_KAFKA_STORAGE_ERROR, "the log takes no appends now");
    else if (part->call->acks == -1 && partition->isr_count < partition->min_isr) {
        part->error = OT_ERR_NOT_ENOUGH_REPLICAS;
        snprintf(part->text, sizeof(part->text), "%d in-sync replicas, min.insync.replicas is %d", partition->isr_count, partition->min_isr);
    } else return true;
    name_leader(partition, part);
    broker_refused_note(&partition->refused, &part->verdict.info, part->error, part->call->started_us);
    return false;
}

/* Is the batch before it, which it cannot do without, one that was refused here just now? Then it is as well. */
static bool follows_refused(struct broker_partition *partition, struct broker_produce_part *part)
{
    if (part->call->origin != ENG_ORIGIN_CLIENT) return false;
    const enum ot_err error = broker_refused_before(partition->refused, eng_log_producers(partition->log), &part->verdict.info, part->call->started_us);
    if (error == OT_OK) return false;
    fail_part(part, error, "the batch before this one was refused: it has to come first");
    name_leader(partition, part);
    return true;
}

enum broker_lane_fate broker_lane_put(struct broker_partition *partition, struct broker_produce_part *part, int64_t wall_ms)
{
    struct eng_batch_info *info = &part->verdict.info;
    struct eng_producers *producers;
    struct eng_producer_check check;
    if (part->verifying && !broker_verify_end(partition, part)) {
        fail_part(part, OT_ERR_INVALID_TXN_STATE, "the transaction ended before this batch was appended");
        return BROKER_LANE_ANSWERED;
    }
    if (!may_append(partition, part)) return BROKER_LANE_ANSWERED;
    if (!broker_verify_of_epoch(partition, part)) {        /* sent again, it is asked about again */
        fail_part(part, OT_ERR_NOT_LEADER_OR_FOLLOWER, "another broker has led this partition since what this rests on was looked at");
        name_leader(partition, part);
        broker_refused_note(&partition->refused, info, part->error, part->call->started_us);
        return BROKER_LANE_ANSWERED;
    }
    if (!broker_verify_holds(partition, part)) {
        fail_part(part, OT_ERR_INVALID_TXN_STATE, "the transaction ended before this was appended");
        return BROKER_LANE_ANSWERED;
    }
    producers = eng_log_producers(partition->log);
    part->log_start_offset = eng_log_start_offset(partition->log);
    if (info->producer_id >= 0) {
        eng_producers_check(producers, info, &part->marker, part->call->origin, part->call->transaction_version, &check);
        if ((check.error == OT_OK ? !check.duplicate : check.error == OT_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER) && follows_refused(partition, part)) return BROKER_LANE_ANSWERED;
        if (check.error != OT_OK) {
            fail_part(part, check.error, check.text);
            return BROKER_LANE_ANSWERED;
        }
        if (check.duplicate) return put_duplicate(partition, part, &check);
        if (part->marker.is_marker) broker_verify_marker(partition, part);
    }
    int64_t base_offset = partition->reserved_end, last_offset = base_offset + info->last_offset_delta;
    if (info->producer_id >= 0) {
        struct eng_batch_info stored = *info;
        stored.max_timestamp = part->verdict.max_timestamp;    /* as the log will have it: an append-time topic stamped its own */
        enum ot_err err = eng_producers_pend(producers, &stored, base_offset, last_offset, &part->marker, wall_ms);
        if (err != OT_OK) {
            fail_part(part, err, "no room to remember another producer");
            return BROKER_LANE_ANSWERED;
        }
    }
    eng_batch_stamp(part->records, base_offset, partition->leader_epoch);
    part->append = (struct eng_append_batch){
        .data = part->records, .bytes = part->records_bytes, .leader_epoch = partition->leader_epoch, .base_offset = base_offset,
        .last_offset = last_offset, .max_timestamp = part->verdict.max_timestamp,
        .max_timestamp_offset = base_offset + OT_MAX(part->verdict.max_timestamp_index, 0),
    };
    part->base_offset = base_offset;
    partition->reserved_end = last_offset + 1;
    part->next = NULL;
    if (partition->queue_last != NULL) partition->queue_last->next = part;
    else partition->queue_first = part;
    partition->queue_last = part;
    if (!partition->lane_busy) {
        partition->lane_busy = true;
        broker_partition_ref(partition);
        atomic_fetch_add_explicit(&partition->core->work_open, 1, memory_order_relaxed);
        if (!care_due(partition) && eng_log_append_inline(partition->log, &part->append)) return BROKER_LANE_RUN_HERE;
        if (part->records_bytes <= SOON_BYTES_MAX) ot_exec_post_soon(partition->core->io_exec, &partition->lane_task, partition->store_dir);
        else ot_exec_post(partition->core->io_exec, &partition->lane_task);
    }
    return BROKER_LANE_QUEUED;
}

/* ---- the high watermark ---- */

/* Sorted: costs what it satisfies, and the rest is not looked at. A leader that gave up handing over leads on, and owes acks=1 nothing but the write. */
static void satisfy(struct broker_partition *partition, int64_t high_watermark, struct broker_produce_part **done)
{
    struct broker_produce_part *next;
    const bool leads_on = partition->wait_handovers > 0 && !hands_over(partition);
    for (struct broker_produce_part *part = partition->wait_first; part != NULL && part->wait_offset <= partition->state_end; part = next) {
        next = part->next;
        if (part->wait_offset <= high_watermark || part->wait_log_end || (leads_on && part->call->acks == 1)) {
            wait_take(partition, part);
            chain(done, part);
        } else if (partition->wait_log_ends == 0 && !leads_on) {
            break;
        }
    }
}

/* Last stable offset: before the first open transaction, but never before the log start (its first records may be deleted). True: it moved. */
static bool advance_stable(struct broker_partition *partition, int64_t high_watermark)
{
    int64_t unstable = OT_MAX(eng_producers_first_unstable(eng_log_producers(partition->log)), eng_log_start_offset(partition->log));
    int64_t stable = OT_MIN(high_watermark, unstable);
    if (stable <= atomic_load_explicit(&partition->last_stable_offset, memory_order_relaxed)) return false;
    atomic_store_explicit(&partition->last_stable_offset, stable, memory_order_release);
    return true;
}

void broker_partition_advance(struct broker_partition *partition, struct broker_produce_part **done)
{
    struct eng_log *log = partition->log;
    struct replica *replica = &partition->replica;
    int64_t before = atomic_load_explicit(&partition->high_watermark, memory_order_relaxed);
    bool moved = false, appended = partition->state_end > replica->log_end;
    if (partition->cutting) return;            /* whoever cuts calls again */
    if (appended) replica_appended(replica, partition->state_end);
    if (replica->flushed_end < replica->log_end) {
        const int64_t flushed_end = eng_log_flushed_end(log);
        if (flushed_end > replica->flushed_end) {
            replica_flushed(replica, flushed_end);
            if (replica->role == REPLICA_FOLLOWER && replica_class_now(replica) == REPLICA_FSYNC_ALL) broker_replication_look(partition);      /* its leader waits to hear of it */
        }
    }
    if (replica->high_watermark > before) {
        before = replica->high_watermark;
        OT_ASSERT(before <= eng_log_end_offset(log));
        atomic_store_explicit(&partition->high_watermark, before, memory_order_release);
        eng_producers_advance(eng_log_producers(log), before);
        moved = true;
    }
    moved |= advance_stable(partition, before);
    satisfy(partition, before, done);
    if (replica->flush_wanted) {
        replica->flush_wanted = false;         /* it says so again as long as it is so */
        broker_flush_want(partition);
    }
    if (moved && partition->fetch_nodes != NULL) broker_partition_wake_fetches(partition);
    else if (appended && partition->follower_nodes > 0) broker_partition_wake_followers(partition);
    if (broker_role_has_news(partition)) broker_replication_look(partition);
}

void broker_partition_fail_all(struct broker_partition *partition, enum ot_err error, const char *text, struct broker_produce_part **done)
{
    while (partition->wait_first != NULL) {
        struct broker_produce_part *part = partition->wait_first;
        const int64_t base_offset = part->base_offset;
        wait_take(partition, part);
        fail_part(part, error, text);
        part->base_offset = base_offset;       /* it is in the log, whatever becomes of that */
        chain(done, part);
    }
    /* what is queued belongs to the lane's task, which finds the lane closed and fails it */
}

/* ---- the I/O thread's side ---- */

static uint32_t gather(struct broker_partition *partition, struct eng_append_batch *batches)
{
    uint32_t count = 0;
    for (struct broker_produce_part *part = partition->queue_first; part != NULL && count < ENG_APPEND_BATCHES_MAX; part = part->next)
        batches[count++] = part->append;
    return count;
}

/* Producer state as of the log end, written out: with a new segment behind it, or alone. */
static enum ot_err write_state(struct broker_partition *partition, bool with_roll, int64_t wall_ms)
{
    struct eng_producers *producers = eng_log_producers(partition->log);
    pthread_mutex_lock(&partition->mutex);
    size_t bytes = eng_producers_snapshot_bytes(producers);
    pthread_mutex_unlock(&partition->mutex);
    uint8_t *data = malloc(bytes == 0 ? 1 : bytes);      /* once per segment or SNAPSHOT_BYTES: not the hot path */
    if (data == NULL) return OT_ERR_NO_MEMORY;
    struct ot_writer writer = ot_writer_over(data, bytes);
    pthread_mutex_lock(&partition->mutex);               /* no write is in flight: committed state ends at the log end */
    enum ot_err err = eng_producers_snapshot(producers, &writer);
    partition->bytes_since_state = 0;
    pthread_mutex_unlock(&partition->mutex);
    struct ot_blob snapshot = { data, (uint32_t)(writer.at - writer.start), false };
    if (err == OT_OK) err = with_roll ? eng_log_roll(partition->log, &snapshot, wall_ms) : eng_log_snapshot(partition->log, &snapshot);
    free(data);
    return err;
}

/* What only the writer may do and no batch asked for: a roll that retention wants, and now and then the producer state, so that a restart replays at most
 * SNAPSHOT_BYTES. On an I/O thread. */
static void care(struct broker_partition *partition, bool roll_asked)
{
    enum ot_err err = write_state(partition, roll_asked, ot_exec_wall_ms(partition->core->background_exec));
    if (err != OT_OK)
        ot_log(OT_LOG_WARN, "log", "lane_care_failed", "topic=%s partition=%d roll=%s error=%s", partition->topic->name, partition->index, roll_asked ? "yes" : "no",
            ot_err_name(err));
}

static bool care_due(const struct broker_partition *partition) { return partition->roll_asked || partition->bytes_since_state >= SNAPSHOT_BYTES; }

void broker_lane_ask_roll(struct broker_partition *partition)
{
    partition->roll_asked = true;
    if (partition->lane_busy || partition->lane_closed) return;        /* its next turn sees it */
    partition->lane_busy = true;
    broker_partition_ref(partition);
    atomic_fetch_add_explicit(&partition->core->work_open, 1, memory_order_relaxed);
    ot_exec_post(partition->core->io_exec, &partition->lane_task);
}

struct aborted_list { struct eng_completed_txn txns[ENG_APPEND_BATCHES_MAX]; uint32_t count; };
static void note_completed(void *arg, const struct eng_completed_txn *txn)
{
    struct aborted_list *list = arg;
    OT_ASSERT(list->count < ENG_APPEND_BATCHES_MAX);     /* a batch ends one transaction at most */
    if (txn->aborted) list->txns[list->count++] = *txn;
}

static void fail_unleased(struct broker_produce_part *part, struct broker_produce_part **done)
{
    fail_part(part, OT_ERR_REQUEST_TIMED_OUT, "another broker may have begun to lead before this was written (ottla.leader.lease=strict)");
    chain(done, part);
}

/* Those with acks=1 that wait for what was written now: they are duplicates of it. */
static void fail_unleased_duplicates(struct broker_partition *partition, int64_t from, int64_t to, struct broker_produce_part **done)
{
    struct broker_produce_part *before;
    for (struct broker_produce_part *part = partition->wait_last; part != NULL && part->wait_offset > from; part = before) {
        before = part->prev;
        if (part->call->acks != 1 || part->wait_offset > to) continue;
        wait_take(partition, part);
        fail_unleased(part, done);
    }
}

/* Written batches leave the queue: answered at once, or moved to those who wait for the high watermark. True: the time of some is up already. written_us: a clock that was read when they were. */
static bool leave(struct broker_partition *partition, uint32_t count, int64_t written_us, struct broker_produce_part **done)
{
    /* May others have written before this was? The lease ran out since they came in; or the write took so long that it was over and there is a new one, with the row that names another leader */
    const bool led_elsewhere = atomic_load(&partition->core->lease_end_us) != 0 && !partition->is_leader;
    const bool unleased = broker_lease_over(partition->core, written_us) || led_elsewhere;
    bool late = false;
    if (unleased && count > 0) fail_unleased_duplicates(partition, partition->queue_first->append.base_offset, eng_log_end_offset(partition->log), done);
    for (uint32_t i = 0; i < count; i++) {
        struct broker_produce_part *part = partition->queue_first;
        partition->queue_first = part->next;
        if (partition->queue_first == NULL) partition->queue_last = NULL;
        partition->bytes_since_state += part->append.bytes;
        atomic_fetch_add_explicit(&partition->core->dir_appended_bytes[partition->store_dir], part->append.bytes, memory_order_relaxed);
        ot_series_add(partition->topic->series.bytes_in, part->append.bytes);
        ot_series_add(partition->topic->series.records_in, (uint64_t)part->verdict.info.record_count);
        if (unleased && part->call->acks == 1) {           /* also while this broker hands over: it may give that up, and then the write is all that is waited for */
            fail_unleased(part, done);
        } else if (waits_for_all(partition, part)) {
            late |= atomic_load(&part->call->expired);
            wait_put(partition, part, part->append.last_offset + 1, false);
        } else {
            chain(done, part);
        }
    }
    return late;
}

/* Parts whose time was up before their write was done have nobody left to end their wait. */
static void time_out_late(struct broker_partition *partition, struct broker_produce_part **done)
{
    struct broker_produce_part *next;
    for (struct broker_produce_part *part = partition->wait_first; part != NULL; part = next) {
        next = part->next;
        if (!atomic_load(&part->call->expired)) continue;
        wait_take(partition, part);
        broker_part_time_out(part);
        chain(done, part);
    }
}

/* The first batch that is not whole in the file, and all behind it. */
static void fail_queue(struct broker_partition *partition, enum ot_err err, struct broker_produce_part **done)
{
    const char *text = err == OT_ERR_NO_SPACE ? "the disk is full" : err == OT_ERR_CLOSED ? "the log is closing" : "the write failed";
    enum ot_err told = err == OT_ERR_IO || err == OT_ERR_CLOSED ? OT_ERR_KAFKA_STORAGE_ERROR : err;
    if (atomic_load(&partition->stage) == BROKER_PARTITION_REMOVED) {
        told = OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
        text = "the topic was deleted";
    } else if (!partition->is_leader) {
        told = OT_ERR_NOT_LEADER_OR_FOLLOWER;
        text = "another broker leads this partition now";
    }
    struct broker_produce_part *failed = partition->queue_first;
    partition->queue_first = partition->queue_last = NULL;
    while (failed != NULL) {
        struct broker_produce_part *next = failed->next;
        fail_part(failed, told, text);
        broker_refused_note(&partition->refused, &failed->verdict.info, told, failed->call->started_us);
        chain(done, failed);
        failed = next;
    }
    int64_t log_end_offset = eng_log_end_offset(partition->log);
    while (partition->wait_last != NULL && partition->wait_last->wait_offset > log_end_offset) {      /* duplicates of what just failed */
        struct broker_produce_part *part = partition->wait_last;
        wait_take(partition, part);
        fail_part(part, told, text);
        chain(done, part);
    }
    eng_producers_drop_pending(eng_log_producers(partition->log));
    partition->reserved_end = log_end_offset;
}

enum ot_err broker_lane_write(struct broker_partition *partition, const struct eng_append_batch *batches, uint32_t count, uint32_t *written)
{
    int64_t wall_ms = ot_exec_wall_ms(partition->core->background_exec);
    uint32_t fits = eng_log_fits(partition->log, batches, count, wall_ms);
    *written = 0;
    if (fits == 0) {
        enum ot_err err = write_state(partition, true, wall_ms);
        if (err != OT_OK) return err;
        fits = eng_log_fits(partition->log, batches, count, wall_ms);
    }
    if (fits == 0) {                           /* an empty segment takes any batch of this leader's; what a follower copies may be too far above the log's end (follow.c has looked at it) */
        enum ot_err err = eng_log_skip(partition->log, batches[0].base_offset, wall_ms);
        if (err != OT_OK) return err;
        fits = eng_log_fits(partition->log, batches, count, wall_ms);
    }
    return eng_log_append(partition->log, batches, fits, wall_ms, written);
}

/* Keep what could not be indexed for the next run. A failure here is one of the log. */
static enum ot_err keep_unindexed(struct broker_partition *partition, const struct eng_completed_txn *txns, uint32_t count)
{
    if (count == 0) return OT_OK;
    struct eng_completed_txn *more = realloc(partition->unindexed, (partition->unindexed_count + count) * sizeof(*more));
    if (more == NULL) return OT_ERR_IO;
    memcpy(more + partition->unindexed_count, txns, count * sizeof(*more));
    partition->unindexed = more;
    pthread_mutex_lock(&partition->mutex);
    partition->unindexed_count += count;
    pthread_mutex_unlock(&partition->mutex);
    return OT_OK;
}

/* As many as the disk takes; the reserve is there for this. */
static enum ot_err index_some(struct broker_partition *partition, const struct eng_completed_txn *txns, uint32_t count, uint32_t *added)
{
    enum ot_err err = OT_OK;
    for (bool again = false; *added < count;) {
        err = eng_log_add_aborted(partition->log, &txns[*added]);
        if (err == OT_OK) {
            ++*added;
        } else if (err == OT_ERR_NO_SPACE && !again) {
            again = true;
            eng_store_reserve_release(partition->core->store, partition->store_dir);
        } else {
            break;
        }
    }
    return err;
}

enum ot_err broker_lane_index_again(struct broker_partition *partition)
{
    uint32_t added = 0;
    enum ot_err err = index_some(partition, partition->unindexed, partition->unindexed_count, &added);
    pthread_mutex_lock(&partition->mutex);
    partition->unindexed_count -= added;
    memmove(partition->unindexed, partition->unindexed + added, partition->unindexed_count * sizeof(*partition->unindexed));
    pthread_mutex_unlock(&partition->mutex);
    return err;
}

/* Entries of the transaction index are in their file before the last stable offset can pass them: state_end moves only then. */
enum ot_err broker_lane_commit(struct broker_partition *partition)
{
    struct aborted_list aborted;
    uint32_t added = 0;
    aborted.count = 0;
    pthread_mutex_lock(&partition->mutex);
    eng_producers_commit(eng_log_producers(partition->log), eng_log_end_offset(partition->log), note_completed, &aborted);
    pthread_mutex_unlock(&partition->mutex);
    enum ot_err err = index_some(partition, aborted.txns, aborted.count, &added);
    enum ot_err kept = keep_unindexed(partition, aborted.txns + added, aborted.count - added);
    return kept != OT_OK ? kept : err;
}

static void flush_if_due(struct broker_partition *partition, int64_t now_us)
{
    const struct broker_topic_config *config = atomic_load_explicit(&partition->topic->config, memory_order_acquire);
    if (partition->unflushed_since_us == 0) partition->unflushed_since_us = now_us;
    if (eng_log_end_offset(partition->log) - eng_log_flushed_end(partition->log) >= config->flush_messages) broker_flush_ask(partition);
}

void broker_lane_run(struct ot_task *task)
{
    struct broker_partition *partition = OT_CONTAINER(task, struct broker_partition, lane_task);
    struct broker_core *core = partition->core;
    struct eng_append_batch batches[ENG_APPEND_BATCHES_MAX];
    struct broker_produce_part *done = NULL;
    enum ot_err err = OT_ERR_CLOSED;
    uint32_t written = 0;
    pthread_mutex_lock(&partition->mutex);
    const bool alive = !partition->lane_closed && partition->log != NULL, roll_asked = partition->roll_asked, cared = alive && care_due(partition), open = alive && partition->is_leader;
    struct broker_follow *follow = partition->follow;
    uint32_t count = open ? gather(partition, batches) : 0;
    partition->roll_asked = false;
    pthread_mutex_unlock(&partition->mutex);
    if (open) err = OT_OK;
    if (cared) care(partition, roll_asked);
    const bool followed = follow != NULL && broker_follow_run(partition, follow);
    int64_t start_us = ot_exec_now_us(core->background_exec);
    if (count > 0) err = partition->unindexed_count > 0 ? broker_lane_index_again(partition) : OT_OK;
    if (count > 0 && err == OT_OK) err = broker_lane_write(partition, batches, count, &written);
    const int64_t end_us = written > 0 || followed ? ot_exec_now_us(core->background_exec) : start_us;
    if (written > 0) {
        ot_series_observe_us(core->series.append_us, end_us - start_us);
        ot_series_add(core->series.append_batches, written);
        ot_series_add(core->series.append_writes, 1);
    }
    enum ot_err index_err = written > 0 ? broker_lane_commit(partition) : OT_OK;
    if (err == OT_OK) err = index_err;
    pthread_mutex_lock(&partition->mutex);
    bool late = leave(partition, written, end_us, &done);
    if (partition->unindexed_count == 0 && partition->log != NULL) partition->state_end = eng_log_end_offset(partition->log);
    if (err != OT_OK) fail_queue(partition, err, &done);
    if (written > 0 || followed) flush_if_due(partition, end_us);
    if (atomic_load(&partition->stage) == BROKER_PARTITION_OPEN) broker_partition_advance(partition, &done);
    if (late) time_out_late(partition, &done);
    bool more = partition->queue_first != NULL || partition->follow != NULL, role = false;
    if (!more) {
        partition->lane_busy = false;
        role = broker_role_settle(partition, &done);
        broker_partition_settle_end(partition);
    }
    bool dead = err == OT_ERR_IO;
    pthread_mutex_unlock(&partition->mutex);
    broker_parts_complete(done);
    if (role) broker_partition_tell_internal(partition);
    if (dead) eng_store_fail_dir(core->store, partition->store_dir, err, partition->topic->name);
    if (err == OT_ERR_NO_SPACE) atomic_store(&core->dir_space[partition->store_dir], BROKER_SPACE_REFUSE);    /* the next check may relax it */
    if (more) {
        ot_exec_post(core->io_exec, &partition->lane_task);    /* to the end of the line: other partitions come between */
        return;
    }
    atomic_fetch_sub(&core->work_open, 1);
    broker_partition_put(partition);
}
