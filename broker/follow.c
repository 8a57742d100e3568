/* One answer of the leader, in the lane's turn:
 *
 *   append   batches are checked (whole, CRC, offsets and epochs that grow), join the producer state as pending, are written as they came, and commit with the log's end
 *   cut      waiters are none, readers lose the tail, the file is cut and synced, producer state is made anew; then log end, high watermark and flushed end go back
 *
 * The lane is this answer's alone for that time: lane_busy says so to everybody who would write. */
#include "broker/follow.h"

#include "base/log.h"
#include "broker/core.h"
#include "broker/losses_inner.h"
#include "engine/batch.h"
#include <inttypes.h>

/* The largest epoch of the own log that is not above `epoch`, and where it ends. A log that is empty and knows no epoch (a restart forgets those without records) has
 * nothing that differs: whatever came before ended where it begins. */
static struct replica_epoch_end epoch_end(struct eng_log *log, int32_t epoch, int64_t log_end)
{
    struct eng_epochs *epochs = eng_log_epochs(log);
    const int32_t latest = eng_epochs_latest(epochs);
    struct replica_epoch_end none = { -1, eng_log_start_offset(log) };
    if (epoch < 0) return none;
    if (latest < 0) return (struct replica_epoch_end){ epoch, none.end };
    const struct eng_epoch_end end = eng_epochs_end(epochs, OT_MIN(epoch, latest), log_end);
    return end.epoch < 0 ? none : (struct replica_epoch_end){ end.epoch, end.end_offset };
}

struct replica_epoch_end broker_follow_log_parts(struct eng_log *log, int32_t epoch, int64_t log_end) { return epoch_end(log, epoch, log_end); }

/* Where that epoch ended here is deleted, and the other log still has what lies below: it may have gone on elsewhere before our start, and nobody knows where. */
struct replica_epoch_end broker_follow_parts(struct broker_partition *partition, int32_t epoch, int64_t log_start_offset)
{
    const int64_t start = eng_log_start_offset(partition->log);
    struct eng_epoch_end first;
    if (epoch >= 0 && log_start_offset >= 0 && log_start_offset < start && eng_epochs_list(eng_log_epochs(partition->log), &first, 1) > 0 && epoch < first.epoch)
        return (struct replica_epoch_end){ -1, start };
    return epoch_end(partition->log, epoch, partition->state_end);
}

struct eng_epoch_end broker_follow_end(struct broker_partition *partition, int32_t epoch)
{
    struct eng_log *log = partition->log;
    const int64_t log_end = eng_log_end_offset(log);
    const int32_t latest = eng_epochs_latest(eng_log_epochs(log));
    const struct eng_epoch_end end = eng_epochs_end(eng_log_epochs(log), epoch, log_end);
    if (end.epoch >= 0 || epoch < 0 || (latest < 0 && eng_log_start_offset(log) < log_end)) return end;
    pthread_mutex_lock(&partition->mutex);
    const bool leads = partition->is_leader, own = epoch == partition->leader_epoch, known = epoch <= partition->leader_epoch;
    pthread_mutex_unlock(&partition->mutex);
    if (!known || (latest >= 0 && !leads)) return end;                             /* a follower may lack its end yet */
    return (struct eng_epoch_end){ own || latest < 0 ? epoch : latest, eng_log_end_offset(log) };     /* it may have copied more before it led */
}

bool broker_follow_place(struct broker_partition *partition, struct broker_follow_place *out)
{
    const struct replica *replica = &partition->replica;
    pthread_mutex_lock(&partition->mutex);
    const bool ready = atomic_load(&partition->stage) == BROKER_PARTITION_OPEN && replica->role == REPLICA_FOLLOWER && partition->next_role == NULL && !partition->lane_closed
        && partition->follow == NULL && replica->row.leader >= 0;
    const bool follows = ready && (replica_class_now(replica) != REPLICA_FSYNC_ALL || replica->flushed_end == replica->log_end);
    if (ready && !follows) broker_flush_ask(partition);        /* what its last write as a leader left: nobody else asks for that any more */
    if (follows) {
        *out = (struct broker_follow_place){ .leader = replica->row.leader, .leader_epoch = replica->row.leader_epoch, .offset = replica->log_end,
            .last_epoch = eng_epochs_latest(eng_log_epochs(partition->log)), .flushed_end = replica->flushed_end, .log_start_offset = eng_log_start_offset(partition->log),
            .high_watermark = replica->high_watermark, .throttled = partition->throttled_follower,
            .in_sync = (replica->row.isr & coord_replica_bit(&replica->row, replica->self)) != 0 };
    }
    pthread_mutex_unlock(&partition->mutex);
    return follows;
}

void broker_follow_put(struct broker_partition *partition, struct broker_follow *follow)
{
    struct broker_core *core = partition->core;
    follow->error = OT_OK;
    follow->void_answer = false;
    follow->appended_bytes = 0;
    follow->cut_records = 0;
    pthread_mutex_lock(&partition->mutex);
    const bool takes = atomic_load(&partition->stage) == BROKER_PARTITION_OPEN && !partition->lane_closed && partition->follow == NULL;
    if (takes) {
        partition->follow = follow;
        if (!partition->lane_busy) {
            partition->lane_busy = true;
            broker_partition_ref(partition);
            atomic_fetch_add_explicit(&core->work_open, 1, memory_order_relaxed);
            ot_exec_post(core->io_exec, &partition->lane_task);
        }
    }
    pthread_mutex_unlock(&partition->mutex);
    if (takes) return;
    follow->void_answer = true;
    follow->done(follow);
}

/* ---- appending */

struct batches { struct eng_append_batch rows[ENG_APPEND_BATCHES_MAX]; uint32_t count; int64_t end; int32_t epoch; };

/* The next batch of the answer into the list and into pending producer state. NOT_FOUND: no whole one is left. One of an old format, of a folder that was adopted, has no epoch: it comes before
 * all that have one. */
static enum ot_err take_batch(struct broker_partition *partition, const struct broker_follow *follow, struct ot_reader *cursor, struct batches *list, int64_t wall_ms)
{
    struct eng_batch_piece piece;
    struct eng_batch_info info;
    struct eng_marker marker = { 0 };
    enum ot_err err = eng_batch_split(cursor, &piece);
    if (err == OT_OK) err = eng_batch_parse(piece.data, piece.bytes, &info);
    if (err == OT_OK) err = eng_batch_check_crc(piece.data, &info);
    if (err != OT_OK) return err;
    const int64_t last_offset = eng_batch_last_offset(&info);
    if (info.base_offset < list->end || last_offset < info.base_offset || last_offset == INT64_MAX) return OT_ERR_CORRUPT_MESSAGE;
    /* a hole that no segment spans: compaction, which takes only what is committed, made it, or the offset is wrong */
    if (info.base_offset - list->end > INT32_MAX && info.base_offset > follow->answer.high_watermark) return OT_ERR_CORRUPT_MESSAGE;
    if (info.partition_leader_epoch < list->epoch || info.partition_leader_epoch > follow->answer.leader_epoch) return OT_ERR_FENCED_LEADER_EPOCH;
    if (info.control) eng_batch_marker(piece.data, &info, &marker);
    pthread_mutex_lock(&partition->mutex);
    err = info.producer_id < 0 ? OT_OK : eng_producers_pend(eng_log_producers(partition->log), &info, info.base_offset, last_offset, &marker, wall_ms);
    pthread_mutex_unlock(&partition->mutex);
    if (err != OT_OK) return err;
    list->rows[list->count++] = (struct eng_append_batch){ .data = piece.data, .bytes = piece.bytes, .leader_epoch = info.partition_leader_epoch, .base_offset = info.base_offset,
        .last_offset = last_offset, .max_timestamp = info.max_timestamp, .max_timestamp_offset = last_offset };
    list->end = last_offset + 1;
    list->epoch = info.partition_leader_epoch;
    return OT_OK;
}

static enum ot_err write_list(struct broker_partition *partition, const struct batches *list, struct broker_follow *follow)
{
    enum ot_err err = OT_OK;
    for (uint32_t at = 0, written = 0; at < list->count && err == OT_OK; at += written) {
        err = broker_lane_write(partition, list->rows + at, list->count - at, &written);
        for (uint32_t i = 0; i < written; i++) follow->appended_bytes += list->rows[at + i].bytes;
        if (written == 0) break;
        enum ot_err committed = broker_lane_commit(partition);
        if (err == OT_OK) err = committed;
    }
    return err;
}

static enum ot_err append_all(struct broker_partition *partition, struct broker_follow *follow)
{
    const int64_t wall_ms = ot_exec_wall_ms(partition->core->background_exec);
    struct ot_reader cursor = ot_reader_over(follow->records, follow->records_bytes);
    struct batches list = { .end = eng_log_end_offset(partition->log), .epoch = eng_epochs_latest(eng_log_epochs(partition->log)) };
    enum ot_err err = partition->unindexed_count > 0 ? broker_lane_index_again(partition) : OT_OK, taken = OT_OK;
    while (err == OT_OK && taken == OT_OK) {
        list.count = 0;
        while (list.count < ENG_APPEND_BATCHES_MAX && (taken = take_batch(partition, follow, &cursor, &list, wall_ms)) == OT_OK) continue;
        if (list.count > 0) err = write_list(partition, &list, follow);
    }
    if (err != OT_OK || taken != OT_ERR_NOT_FOUND) {
        pthread_mutex_lock(&partition->mutex);
        eng_producers_drop_pending(eng_log_producers(partition->log));
        pthread_mutex_unlock(&partition->mutex);
    }
    return err != OT_OK ? err : taken == OT_ERR_NOT_FOUND ? OT_OK : taken;
}

/* ---- cutting */

static void begin_cut(struct broker_partition *partition)
{
    pthread_mutex_lock(&partition->mutex);
    partition->cutting = true;
    pthread_mutex_unlock(&partition->mutex);
}

/* The transaction index entries that had no room: what is left of their markers. */
static void drop_unindexed(struct broker_partition *partition, int64_t log_end)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < partition->unindexed_count; i++)
        if (partition->unindexed[i].last_offset < log_end) partition->unindexed[kept++] = partition->unindexed[i];
    partition->unindexed_count = kept;
}

/* Log end, high watermark and last stable offset are those of the log that is left; its producers are made. */
static void end_cut(struct broker_partition *partition)
{
    struct eng_log *log = partition->log;
    struct eng_producers *producers = eng_log_producers(log);
    pthread_mutex_lock(&partition->mutex);
    const int64_t log_end = eng_log_end_offset(log), start = eng_log_start_offset(log);
    drop_unindexed(partition, log_end);
    partition->reserved_end = log_end;
    if (partition->unindexed_count == 0 || partition->state_end > log_end) partition->state_end = log_end;
    replica_truncated(&partition->replica, log_end);
    if (log_end > partition->replica.log_end || log_end == start) replica_restarted(&partition->replica, log_end);      /* it is empty: whatever was below is committed, or deleted */
    const int64_t high_watermark = OT_MAX(partition->replica.high_watermark, start);
    atomic_store(&partition->high_watermark, high_watermark);
    eng_producers_advance(producers, high_watermark);
    atomic_store(&partition->last_stable_offset, OT_MIN(high_watermark, OT_MAX(eng_producers_first_unstable(producers), start)));
    partition->cutting = false;
    pthread_mutex_unlock(&partition->mutex);
}

/* Before it goes: who is killed in the middle has told it all the same. */
static void say_cut(const struct broker_partition *partition, const struct broker_loss *loss)
{
    const bool below = loss->from < loss->high_watermark;
    ot_log(below ? OT_LOG_ERROR : OT_LOG_INFO, "replica", below ? "cut_below_high_watermark" : "cut",
        "topic=%s partition=%d from=%" PRId64 " to=%" PRId64 " high_watermark=%" PRId64 " epochs=%d..%d leader_epoch=%d reason=%s entry=%" PRIu64, partition->topic->name, partition->index,
        loss->end, loss->from, loss->high_watermark, loss->epoch_count > 0 ? loss->epochs[0].epoch : -1, loss->last_epoch, loss->leader_epoch, loss->reason, loss->number);
}

/* The leader's log has nothing left of the epochs of this one: what is below its start is deleted there, what this one has behind that is of another history, and where they part
 * nobody knows any more. Nothing is kept: below a log start that a crash may put back, records would lie that were never committed. */
static enum ot_err cut_all(struct broker_partition *partition, struct broker_follow *follow)
{
    struct broker_cut cut;
    const int64_t end = eng_log_end_offset(partition->log), to = follow->parts.end;
    const bool more = to < end;
    if (more && broker_loss_before_cut(partition, to, follow->answer.leader_epoch, &cut) != OT_OK) return OT_ERR_BUSY;
    if (more) say_cut(partition, &cut.loss);
    begin_cut(partition);
    enum ot_err err = eng_log_start_at(partition->log, to);
    end_cut(partition);
    follow->cut_records = more ? end - to : 0;
    if (err == OT_OK && more) broker_loss_cut_done(partition, &cut);
    ot_log(OT_LOG_WARN, "replica", "restarted", "topic=%s partition=%d from=%" PRId64 " to=%" PRId64 " error=%s text=\"the leader's log begins behind the epochs of this one\"",
        partition->topic->name, partition->index, end, to, ot_err_name(err));
    return err;
}

/* The log begins below where it began: a crash must not find the old start, and hide or drop for it what is fetched from here on and acknowledged. */
static void start_went_back(struct broker_partition *partition, int64_t before)
{
    if (eng_log_start_offset(partition->log) < before) ot_ignore(broker_checkpoints_write(partition->core, true) == 0 ? OT_OK : OT_ERR_IO, "said in the log; the next round writes it");
}

static enum ot_err cut(struct broker_partition *partition, struct broker_follow *follow)
{
    if (follow->parts.epoch < 0 && follow->parts.end > eng_log_start_offset(partition->log)) return cut_all(partition, follow);
    struct broker_cut cut;
    const int64_t end = eng_log_end_offset(partition->log), start = eng_log_start_offset(partition->log);
    const int64_t to = replica_cut(follow->parts, epoch_end(partition->log, follow->parts.epoch, end));
    if (to >= end) return OT_ERR_CORRUPT_MESSAGE;      /* the leader says that we differ, and names nothing to cut */
    if (broker_loss_before_cut(partition, to, follow->answer.leader_epoch, &cut) != OT_OK) return OT_ERR_BUSY;       /* nothing goes before it is noted */
    say_cut(partition, &cut.loss);
    begin_cut(partition);
    enum ot_err err = eng_log_truncate(partition->log, to, ot_exec_wall_ms(partition->core->background_exec));
    end_cut(partition);
    start_went_back(partition, start);
    follow->cut_records = end - eng_log_end_offset(partition->log);
    if (err == OT_OK) broker_loss_cut_done(partition, &cut);
    else ot_log(OT_LOG_ERROR, "replica", "cut_failed", "topic=%s partition=%d from=%" PRId64 " to=%" PRId64 " error=%s", partition->topic->name, partition->index, end, to, ot_err_name(err));
    return err;
}

static enum ot_err restart(struct broker_partition *partition, struct broker_follow *follow)
{
    struct broker_cut cut;
    const int64_t end = eng_log_end_offset(partition->log), start = eng_log_start_offset(partition->log);
    broker_loss_of_restart(partition, follow->answer.leader_epoch, &cut);
    begin_cut(partition);
    enum ot_err err = eng_log_start_at(partition->log, follow->log_start_offset);
    end_cut(partition);
    start_went_back(partition, start);
    if (err == OT_OK && cut.loss.from < cut.loss.end) broker_loss_cut_done(partition, &cut);
    ot_log(OT_LOG_WARN, "replica", "restarted", "topic=%s partition=%d from=%" PRId64 " to=%" PRId64 " error=%s text=\"the leader's log %s\"",
        partition->topic->name, partition->index, end, follow->log_start_offset, ot_err_name(err),
        follow->log_start_offset > end ? "begins behind the end of this one" : "ends before this one, which is empty, begins");
    return err;
}

/* Where the leader's log begins within a batch that batch is given whole: an empty log begins with all of it. Readers begin where the leader's do (follow_marks). */
static enum ot_err begin_whole(struct broker_partition *partition, const struct broker_follow *follow)
{
    const int64_t end = eng_log_end_offset(partition->log);
    struct ot_reader cursor = ot_reader_over(follow->records, follow->records_bytes);
    struct eng_batch_piece piece;
    struct eng_batch_info info;
    if (eng_log_start_offset(partition->log) < end || eng_batch_split(&cursor, &piece) != OT_OK || eng_batch_parse(piece.data, piece.bytes, &info) != OT_OK
        || eng_batch_check_crc(piece.data, &info) != OT_OK || piece.magic != 2 || info.base_offset < 0 || info.base_offset >= end || eng_batch_last_offset(&info) < end) return OT_OK;
    begin_cut(partition);
    const enum ot_err err = eng_log_start_at(partition->log, info.base_offset);
    end_cut(partition);
    ot_log(OT_LOG_INFO, "replica", "begun_below_start", "topic=%s partition=%d from=%" PRId64 " to=%" PRId64 " error=%s text=\"the leader's log begins within a batch\"",
        partition->topic->name, partition->index, end, info.base_offset, ot_err_name(err));
    return err;
}

static enum ot_err append(struct broker_partition *partition, struct broker_follow *follow)
{
    const enum ot_err err = begin_whole(partition, follow);
    return err == OT_OK ? append_all(partition, follow) : err;
}

/* ---- one turn */

/* Mutex held: is the log still what the answer is for? */
static bool counts(struct broker_partition *partition, const struct broker_follow *follow)
{
    return atomic_load(&partition->stage) == BROKER_PARTITION_OPEN && !partition->lane_closed && partition->next_role == NULL
        && replica_answer_counts(&partition->replica, &follow->answer, eng_epochs_latest(eng_log_epochs(partition->log)));
}

/* Mutex held, after the append: what is known of the leader's watermarks. */
static void follow_marks(struct broker_partition *partition, const struct broker_follow *follow)
{
    struct replica *replica = &partition->replica;
    if (partition->state_end > replica->log_end) replica_appended(replica, partition->state_end);
    replica_follow_watermark(replica, follow->answer.high_watermark);
    const int64_t start = OT_MIN(follow->log_start_offset, replica->high_watermark);
    if (start > eng_log_start_offset(partition->log)) eng_log_set_start(partition->log, start);
    if (replica_class_now(replica) == REPLICA_FSYNC_ALL && replica->flushed_end < replica->log_end) broker_flush_ask(partition);
}

bool broker_follow_note(struct broker_partition *partition, const struct broker_follow *follow)
{
    struct broker_produce_part *done = NULL;
    pthread_mutex_lock(&partition->mutex);
    const bool now = !partition->lane_busy && partition->follow == NULL;
    if (now && counts(partition, follow)) {
        follow_marks(partition, follow);
        broker_partition_advance(partition, &done);
    }
    pthread_mutex_unlock(&partition->mutex);
    broker_parts_complete(done);
    return now;
}

bool broker_follow_run(struct broker_partition *partition, struct broker_follow *follow)
{
    struct broker_produce_part *done = NULL;
    pthread_mutex_lock(&partition->mutex);
    const bool counted = counts(partition, follow);
    pthread_mutex_unlock(&partition->mutex);
    if (!counted) {
        follow->void_answer = true;
    } else {
        follow->error = follow->kind == BROKER_FOLLOW_CUT ? cut(partition, follow)
            : follow->kind == BROKER_FOLLOW_RESTART ? restart(partition, follow) : append(partition, follow);
    }
    pthread_mutex_lock(&partition->mutex);
    if (partition->unindexed_count == 0) partition->state_end = eng_log_end_offset(partition->log);
    partition->bytes_since_state += follow->appended_bytes;
    if (counted && follow->kind == BROKER_FOLLOW_APPEND && atomic_load(&partition->stage) == BROKER_PARTITION_OPEN) {
        follow_marks(partition, follow);
        broker_partition_advance(partition, &done);
    }
    partition->follow = NULL;
    const bool appended = follow->appended_bytes > 0;
    const enum ot_err err = follow->error;
    pthread_mutex_unlock(&partition->mutex);
    broker_parts_complete(done);
    follow->done(follow);
    if (err == OT_ERR_IO) eng_store_fail_dir(partition->core->store, partition->store_dir, err, partition->topic->name);
    return appended;
}
