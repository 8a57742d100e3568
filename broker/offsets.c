/* ListOffsets, OffsetForLeaderEpoch and DeleteRecords: all parts of a call run on one I/O thread, since any of them may have to read. */
#include "broker/core.h"
#include "broker/events.h"

#include <string.h>

#define LOOK_US 5000                           /* at the followers' starts: they come with their next fetch */

static enum ot_err owner_of(struct broker_offsets *offsets, struct broker_offsets_part *part, struct broker_partition **out)
{
    struct broker *broker = offsets->broker;
    bool by_id = part->topic.null;
    struct broker_partition *owner = by_id ? broker_partition_find_id(broker, &part->topic_id, part->partition)
                                           : broker_partition_find(broker, part->topic, part->partition);
    *out = owner;
    if (owner == NULL) return broker_partition_missing(broker, part->topic, &part->topic_id, part->partition);
    enum ot_err err = OT_OK;
    pthread_mutex_lock(&owner->mutex);
    int stage = atomic_load(&owner->stage);
    if (stage == BROKER_PARTITION_REMOVED) err = OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    else if (stage == BROKER_PARTITION_OFFLINE) err = OT_ERR_KAFKA_STORAGE_ERROR;
    else if (stage == BROKER_PARTITION_OPENING || !owner->is_leader) err = OT_ERR_NOT_LEADER_OR_FOLLOWER;
    else if (part->current_leader_epoch >= 0 && part->current_leader_epoch < owner->leader_epoch) err = OT_ERR_FENCED_LEADER_EPOCH;
    else if (part->current_leader_epoch > owner->leader_epoch) err = OT_ERR_UNKNOWN_LEADER_EPOCH;
    if (err == OT_OK) owner->keeper_users++;   /* holds off retirement while we read */
    pthread_mutex_unlock(&owner->mutex);
    if (stage == BROKER_PARTITION_OPENING) broker_partition_wanted(owner);
    return err;
}

static void leave(struct broker_partition *owner)
{
    pthread_mutex_lock(&owner->mutex);
    owner->keeper_users--;
    broker_partition_settle_end(owner);
    pthread_mutex_unlock(&owner->mutex);
}

static void set_offset(struct broker_offsets_part *part, struct broker_partition *owner, int64_t offset)
{
    part->offset = offset;
    part->leader_epoch = eng_epochs_for_offset(eng_log_epochs(owner->log), offset);
    if (part->leader_epoch < 0) part->leader_epoch = eng_epochs_latest(eng_log_epochs(owner->log));
}

/* A new leader's high watermark may be behind what the last one has shown, until its followers have fetched: what is above it cannot be told yet. */
static bool lags(struct broker_partition *owner)
{
    pthread_mutex_lock(&owner->mutex);
    const struct replica *replica = &owner->replica;
    const bool is = replica->role == REPLICA_LEADER && replica->row.replica_count > 1 && replica->high_watermark < replica->epoch_start;
    pthread_mutex_unlock(&owner->mutex);
    return is;
}

static enum ot_err not_yet(const struct broker_offsets *offsets) { return offsets->api_version >= 5 ? OT_ERR_OFFSET_NOT_AVAILABLE : OT_ERR_LEADER_NOT_AVAILABLE; }

static enum ot_err list(const struct broker_offsets *offsets, struct broker_offsets_part *part, struct broker_partition *owner)
{
    struct eng_log *log = owner->log;
    const bool behind = lags(owner);           /* before the limit is read: it only rises */
    int64_t limit = offsets->read_committed ? atomic_load(&owner->last_stable_offset) : atomic_load(&owner->high_watermark);
    struct eng_time_offset found = { -1, -1, -1 };
    enum ot_err err;
    switch (part->at) {
    case -1:
        if (behind) return not_yet(offsets);
        set_offset(part, owner, limit);
        part->leader_epoch = owner->leader_epoch;
        return OT_OK;
    case -2:
    case -4:                                   /* all there is is local */
        set_offset(part, owner, eng_log_start_offset(log));
        return OT_OK;
    case -5:                                   /* no remote tier: nothing is tiered */
    case -6:
        part->offset = -1;
        return OT_OK;
    case -3:
        err = eng_log_max_timestamp(log, &found);
        break;
    default:
        if (part->at < 0) return OT_ERR_UNSUPPORTED_VERSION;      /* a special value that nobody knows */
        err = eng_log_for_time(log, part->at, limit, &found);
    }
    if (err == OT_OK && found.offset >= limit) found = (struct eng_time_offset){ -1, -1, -1 };
    if (err == OT_OK && found.offset < 0 && behind) return not_yet(offsets);
    part->offset = found.offset;
    part->timestamp_ms = found.timestamp_ms;
    part->leader_epoch = found.leader_epoch;
    return err == OT_ERR_IO ? OT_ERR_KAFKA_STORAGE_ERROR : err;
}

static enum ot_err keep_name(struct broker_partition *owner)
{
    enum ot_err err = eng_log_keep_name(owner->log);
    if (err != OT_ERR_NO_SPACE) return err;
    eng_store_reserve_release(owner->core->store, owner->store_dir);   /* it is there for this */
    return eng_log_keep_name(owner->log);
}

static enum ot_err delete_records(struct broker_offsets_part *part, struct broker_partition *owner)
{
    const struct broker_topic_config *config = atomic_load_explicit(&owner->topic->config, memory_order_acquire);
    int64_t high_watermark = atomic_load(&owner->high_watermark);
    int64_t before = part->at == -1 ? high_watermark : part->at;
    /* whatever the policy is: it would cost groups their offsets, or transactions their outcome */
    if (owner->topic->internal && strcmp(owner->topic->name, BROKER_EVENTS_TOPIC) != 0) return OT_ERR_INVALID_TOPIC_EXCEPTION;
    for (const char *policy = config->cleanup_policy;; policy++) {      /* compacted only: nothing may be cut off its head */
        if (*policy == 0) return OT_ERR_POLICY_VIOLATION;
        if (*policy == 'd') break;
    }
    if (before < 0 || before > high_watermark) return OT_ERR_OFFSET_OUT_OF_RANGE;
    if (before > eng_log_start_offset(owner->log) && keep_name(owner) != OT_OK) return OT_ERR_KAFKA_STORAGE_ERROR;
    struct broker_produce_part *done = NULL;
    pthread_mutex_lock(&owner->mutex);         /* under it no other log takes the place of this one */
    eng_log_set_start(owner->log, before);
    part->offset = eng_log_start_offset(owner->log);
    part->store_dir = owner->store_dir;
    part->deleted_to = part->offset;
    part->waits = owner->replica.applied && owner->replica.row.replica_count > 1;
    if (atomic_load(&owner->stage) == BROKER_PARTITION_OPEN) broker_partition_advance(owner, &done);      /* the last stable offset is not below the start */
    broker_partition_wake_fetches(owner);
    pthread_mutex_unlock(&owner->mutex);
    broker_parts_complete(done);
    return OT_OK;
}

static void one(struct broker_offsets *offsets, struct broker_offsets_part *part)
{
    struct broker_partition *owner = NULL;
    part->offset = part->timestamp_ms = -1;
    part->leader_epoch = -1;
    part->waits = false;
    part->error = owner_of(offsets, part, &owner);
    if (part->error == OT_OK) {
        struct eng_epoch_end end;
        if (offsets->kind != BROKER_EPOCH_END) broker_flush_look(owner);
        switch (offsets->kind) {
        case BROKER_LIST_OFFSETS: part->error = list(offsets, part, owner); break;
        case BROKER_DELETE_RECORDS: part->error = delete_records(part, owner); break;
        case BROKER_EPOCH_END:
            end = broker_follow_end(owner, (int32_t)part->at);
            part->leader_epoch = end.epoch;
            part->offset = end.end_offset;
            break;
        }
        leave(owner);
    }
    broker_partition_put(owner);
}

static void done_run(struct ot_task *task)
{
    struct broker_offsets *offsets = OT_CONTAINER(task, struct broker_offsets, call.task);
    offsets->call.done(&offsets->call);
}

/* What was deleted stays deleted after a crash, or the answer does not say that it is. The log start in memory has moved by then: asked again, only the writing is left. */
static void keep_deleted(struct broker_offsets *offsets)
{
    uint64_t failed = broker_checkpoints_write(broker_core_of(offsets->broker), true);
    for (uint32_t i = 0; failed != 0 && i < offsets->part_count; i++)
        if (offsets->parts[i].error == OT_OK && (failed >> offsets->parts[i].store_dir & 1) != 0) offsets->parts[i].error = OT_ERR_KAFKA_STORAGE_ERROR;
}

/* ---- DeleteRecords, as Kafka's: answered once every live replica begins there, with the least of where they do */

static void low_watermark(struct broker_offsets *offsets, struct broker_offsets_part *part)
{
    struct broker_partition *owner = NULL;
    part->error = owner_of(offsets, part, &owner);
    if (part->error == OT_OK) {
        pthread_mutex_lock(&owner->mutex);
        part->offset = replica_low_watermark(&owner->replica, eng_log_start_offset(owner->log));
        pthread_mutex_unlock(&owner->mutex);
        part->waits = part->offset < part->deleted_to;
        leave(owner);
    } else {
        part->waits = false;
    }
    broker_partition_put(owner);
}

static void wait_for_followers(struct broker_offsets *offsets)
{
    struct ot_exec *exec = broker_core_of(offsets->broker)->background_exec;
    const bool late = ot_exec_now_us(exec) >= offsets->deadline_us || atomic_load(&broker_core_of(offsets->broker)->stopping);
    bool waits = false;
    for (uint32_t i = 0; i < offsets->part_count; i++) {
        struct broker_offsets_part *part = &offsets->parts[i];
        if (part->error == OT_OK && part->waits) low_watermark(offsets, part);
        if (part->waits && late) part->error = OT_ERR_REQUEST_TIMED_OUT;
        waits |= part->waits;
    }
    if (waits && !late) {
        ot_exec_timer_set(exec, &offsets->timer, ot_exec_now_us(exec) + LOOK_US);
        return;
    }
    offsets->call.task.run = done_run;
    ot_exec_post(offsets->call.home, &offsets->call.task);
}

static void look_again(struct ot_timer *timer) { wait_for_followers(OT_CONTAINER(timer, struct broker_offsets, timer)); }      /* on the background executor, as the first look */
static void look_run(struct ot_task *task) { wait_for_followers(OT_CONTAINER(task, struct broker_offsets, io_task)); }

static void io_run(struct ot_task *task)
{
    struct broker_offsets *offsets = OT_CONTAINER(task, struct broker_offsets, io_task);
    bool deleted = false;
    for (uint32_t i = 0; i < offsets->part_count; i++) {
        one(offsets, &offsets->parts[i]);
        deleted |= offsets->kind == BROKER_DELETE_RECORDS && offsets->parts[i].error == OT_OK;
    }
    if (deleted) {
        struct broker_core *core = broker_core_of(offsets->broker);
        keep_deleted(offsets);
        offsets->timer = (struct ot_timer){ .fired = look_again };
        offsets->deadline_us = ot_exec_now_us(core->background_exec) + (int64_t)OT_MAX(offsets->timeout_ms, 0) * 1000;
        offsets->io_task.run = look_run;
        ot_exec_post(core->background_exec, &offsets->io_task);
        return;
    }
    offsets->call.task.run = done_run;
    ot_exec_post(offsets->call.home, &offsets->call.task);
}

void broker_offsets(struct broker *broker, struct broker_offsets *offsets)
{
    offsets->broker = broker;
    offsets->io_task.run = io_run;
    ot_exec_post(broker_core_of(broker)->io_exec, &offsets->io_task);
}
