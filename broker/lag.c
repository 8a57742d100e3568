/* Lag by counting batch headers. One I/O thread for all parts of a call, with one bound on batches and time for them together. */
#include "broker/lag.h"

#include "broker/core.h"
#include "engine/record.h"
#include "engine/scan.h"
#include <stdlib.h>

enum { BATCHES_MAX = 16384, BATCHES_PART_MIN = 4, TIME_MAX_US = 50000, SPAN_BYTES = 1 << 30, DECODE_BYTES_MAX = 1 << 20, ABORTED_MAX = 256 };

struct walk {
    struct broker_core *core;
    struct eng_log *log;
    const struct broker_lag_part *part;
    int64_t at, end, stable;                   /* next offset to be counted; high watermark, last stable offset as sampled */
    int64_t budget, sure;                      /* batches; so many of them whatever the time is */
    int64_t deadline_us;
    int64_t records, stable_records;
    int64_t first_ms, stable_first_ms;         /* time of the first one counted; -1 none yet */
    bool inexact;
    struct eng_aborted aborted[ABORTED_MAX]; uint32_t aborted_count;
    uint8_t buffer[ENG_SCAN_BUFFER_BYTES];
};

static bool is_aborted(const struct walk *walk, const struct eng_batch_info *info)
{
    for (uint32_t i = 0; info->transactional && i < walk->aborted_count; i++) {
        const struct eng_aborted *one = &walk->aborted[i];
        if (one->producer_id == info->producer_id && one->first_offset <= info->base_offset && info->base_offset <= one->last_offset) return true;
    }
    return false;
}

/* How many records of the batch are at or above from, and the time of the first of them: by its records, where the header does not say it. */
static enum ot_err count_records(struct walk *walk, struct eng_scan *scan, const struct eng_batch_info *info, int64_t from, int64_t *count_out, int64_t *first_ms_out)
{
    const uint8_t *data = NULL;
    uint8_t *owned = NULL;
    struct eng_record_iter iter;
    struct eng_record record;
    struct broker_decoder *decoder = broker_decoder_take(walk->core);
    enum ot_err err = decoder == NULL ? OT_ERR_NO_MEMORY : eng_scan_load(scan, info, DECODE_BYTES_MAX, &data, &owned);
    *count_out = 0;
    *first_ms_out = -1;
    if (err == OT_OK) err = eng_record_open(&iter, decoder->decode, data, (size_t)info->batch_bytes, 0);
    while (err == OT_OK && (err = eng_record_skim(&iter, &record)) == OT_OK) {
        if (record.offset < from) continue;
        if (++*count_out == 1) *first_ms_out = record.timestamp;
    }
    if (decoder != NULL) broker_decoder_give(walk->core, decoder);
    free(owned);
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

static void add(struct walk *walk, const struct eng_batch_info *info, int64_t count, int64_t first_ms)
{
    if (count == 0) return;
    walk->records += count;
    if (walk->first_ms < 0) walk->first_ms = first_ms;
    if (eng_batch_last_offset(info) >= walk->stable || is_aborted(walk, info)) return;
    walk->stable_records += count;
    if (walk->stable_first_ms < 0) walk->stable_first_ms = first_ms;
}

static void batch(struct walk *walk, struct eng_scan *scan, const struct eng_batch_info *info)
{
    const int64_t last = eng_batch_last_offset(info);
    const bool whole = walk->at <= info->base_offset;
    int64_t count = info->record_count, first_ms = info->timestamp_type == ENG_TIMESTAMP_APPEND ? info->max_timestamp : info->base_timestamp;
    if (last < walk->at) return;
    if (!info->control && info->magic >= 2 && whole && !info->has_delete_horizon) {
        add(walk, info, count, first_ms);      /* the first record's time is the base: its delta is zero */
    } else if (!info->control && count_records(walk, scan, info, walk->at, &count, &first_ms) == OT_OK) {
        add(walk, info, count, first_ms);
    } else if (!info->control) {               /* too large to be looked into, or damaged: by its offsets, and no younger than its youngest */
        walk->inexact = true;
        add(walk, info, last + 1 - OT_MAX(walk->at, info->base_offset), info->max_timestamp);
    }
    walk->at = last + 1;
}

static bool enough(struct walk *walk)
{
    return walk->at >= walk->end || walk->budget <= 0 || (walk->sure <= 0 && ot_exec_now_us(walk->core->background_exec) > walk->deadline_us);
}

static enum ot_err span(struct walk *walk, const struct ot_span *span)
{
    struct eng_scan scan;
    struct eng_batch_info info;
    enum ot_err err = OT_OK;
    if (span->memory != NULL) return OT_ERR_NOT_FOUND;
    eng_scan_init(&scan, walk->core->io, span->fd, span->pos, span->pos + span->bytes, walk->buffer, sizeof walk->buffer);
    while (!enough(walk) && (err = eng_scan_next(&scan, &info)) == OT_OK) {
        walk->budget--;
        walk->sure--;
        batch(walk, &scan, &info);
    }
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

/* As far as bounds allow; an error only ends the counting. */
static void count(struct walk *walk)
{
    enum ot_err err = OT_OK;
    while (err == OT_OK && !enough(walk)) {
        const struct eng_read how = { .offset = walk->at, .limit_offset = walk->end, .max_bytes = SPAN_BYTES, .min_one = true, .may_block = true };
        const int64_t before = walk->at;
        struct eng_read_result read = { 0 };
        err = eng_log_read(walk->log, &how, &read);
        if (err == OT_OK && read.bytes == 0) walk->at = walk->end;         /* a hole up to the end */
        for (uint32_t i = 0; err == OT_OK && i < read.span_count && !enough(walk); i++) err = span(walk, &read.spans[i]);
        if (err == OT_ERR_SHORT && walk->at > before) err = OT_OK;         /* the stretch ended inside a batch */
        if (err == OT_OK && walk->at == before && read.bytes > 0) err = OT_ERR_CORRUPT;
        if (read.pin != NULL) read.pin->release(read.pin);
    }
}

static struct broker_lag_count result(const struct walk *walk, int64_t records, int64_t first_ms, int64_t end, int64_t wall_ms)
{
    const int64_t left = OT_MAX(end - walk->at, 0);
    struct broker_lag_count out = { .records = records + left, .exact = left == 0 && !walk->inexact };
    if (out.records == 0) out.ms = 0;
    else out.ms = first_ms < 0 ? -1 : OT_MAX(wall_ms - first_ms, 0);
    return out;
}

static void look(struct walk *walk, struct broker_lag_part *part)
{
    const int64_t wall_ms = ot_exec_wall_ms(walk->core->background_exec);
    uint32_t aborted = 0;
    walk->at = OT_MAX(part->offset, part->log_start_offset);
    walk->records = walk->stable_records = 0;
    walk->first_ms = walk->stable_first_ms = -1;
    walk->inexact = false;
    walk->aborted_count = 0;
    if (walk->at < walk->stable && eng_log_has_aborted(walk->log)) {
        if (eng_log_aborted(walk->log, walk->at, walk->stable, walk->aborted, ABORTED_MAX, &aborted) != OT_OK) aborted = ABORTED_MAX + 1;
        walk->aborted_count = OT_MIN(aborted, (uint32_t)ABORTED_MAX);
        walk->inexact = aborted > ABORTED_MAX;
    }
    count(walk);
    part->all = result(walk, walk->records, walk->first_ms, walk->end, wall_ms);
    part->all.exact |= aborted > ABORTED_MAX && walk->at >= walk->end;
    part->committed = result(walk, walk->stable_records, walk->stable_first_ms, walk->stable, wall_ms);
}

static struct broker_lag_count aged(struct broker_lag_count count, int64_t ms)
{
    if (count.ms >= 0 && count.records > 0) count.ms = OT_MAX(count.ms + ms, 0);
    return count;
}

/* True: the last answer is still the right one. */
static bool unchanged(const struct walk *walk, struct broker_lag_part *part)
{
    const struct broker_lag_part *before = part->before;
    if (before == NULL || before->error != OT_OK || before->offset != part->offset || before->high_watermark != part->high_watermark
        || before->last_stable_offset != part->last_stable_offset || before->log_start_offset != part->log_start_offset || !before->all.exact || !before->committed.exact)
        return false;
    const int64_t passed_ms = ot_exec_wall_ms(walk->core->background_exec) - part->before_ms;
    part->all = aged(before->all, passed_ms);
    part->committed = aged(before->committed, passed_ms);
    return true;
}

static enum ot_err enter(struct broker *broker, const struct broker_lag_part *part, struct broker_partition **out)
{
    struct broker_partition *owner = *out = broker_partition_find(broker, part->topic, part->partition);
    enum ot_err err = OT_OK;
    if (owner == NULL) return OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
    pthread_mutex_lock(&owner->mutex);
    if (atomic_load(&owner->stage) != BROKER_PARTITION_OPEN || !owner->is_leader) err = OT_ERR_NOT_LEADER_OR_FOLLOWER;
    else owner->keeper_users++;                /* holds off retirement while we read */
    pthread_mutex_unlock(&owner->mutex);
    return err;
}

static void one(struct broker *broker, struct walk *walk, struct broker_lag_part *part)
{
    struct broker_partition *owner = NULL;
    part->log_start_offset = part->high_watermark = part->last_stable_offset = -1;
    part->all = part->committed = (struct broker_lag_count){ -1, -1, false };
    part->error = enter(broker, part, &owner);
    if (part->error == OT_OK) {
        walk->log = owner->log;
        part->last_stable_offset = walk->stable = atomic_load(&owner->last_stable_offset);     /* before the high watermark, so never above it */
        part->high_watermark = walk->end = OT_MAX(atomic_load(&owner->high_watermark), walk->stable);
        part->log_start_offset = OT_MIN(eng_log_start_offset(walk->log), walk->end);
        if (part->offset >= 0 && !unchanged(walk, part)) look(walk, part);
        pthread_mutex_lock(&owner->mutex);
        owner->keeper_users--;
        broker_partition_settle_end(owner);
        pthread_mutex_unlock(&owner->mutex);
    }
    broker_partition_put(owner);
}

void broker_lag_settle(struct broker_lag *lag)
{
    if (--lag->open == 0) lag->call.done(&lag->call);
}

static void done_run(struct ot_task *task) { broker_lag_settle(OT_CONTAINER(task, struct broker_lag, call.task)); }

static void io_run(struct ot_task *task)
{
    struct broker_lag *lag = OT_CONTAINER(task, struct broker_lag, io_task);
    struct broker_core *core = broker_core_of(lag->broker);
    struct walk *walk = malloc(sizeof *walk);
    uint32_t left = 0;
    int64_t budget = BATCHES_MAX, now_us = ot_exec_now_us(core->background_exec);
    const int64_t end_us = now_us + TIME_MAX_US;
    if (walk != NULL) *walk = (struct walk){ .core = core };
    for (uint32_t i = 0; i < lag->part_count; i++) left += lag->parts[i].away < 0;
    for (uint32_t i = 0; i < lag->part_count; i++) {
        if (lag->parts[i].away >= 0) continue;
        if (walk == NULL) {
            lag->parts[i].error = OT_ERR_NO_MEMORY;
            continue;
        }
        const int64_t share = walk->budget = OT_MAX(budget / left, (int64_t)BATCHES_PART_MIN);
        walk->sure = BATCHES_PART_MIN;
        walk->deadline_us = now_us + OT_MAX((end_us - now_us) / left, 0);
        one(lag->broker, walk, &lag->parts[i]);
        now_us = ot_exec_now_us(core->background_exec);
        budget = OT_MAX(budget - (share - walk->budget), 0);
        left--;
    }
    free(walk);
    lag->call.task.run = done_run;
    ot_exec_post(lag->call.home, &lag->call.task);
}

/* A peer may ask as soon as this broker listens, before there is a log, or a thread to read it. */
static bool is_early(struct broker *broker, struct broker_lag *lag)
{
    struct broker_health health;
    if (!lag->here) return false;
    broker_health(broker, &health);
    for (uint32_t i = 0; i < lag->part_count && !health.serves_peers; i++) {
        struct broker_lag_part *part = &lag->parts[i];
        part->error = OT_ERR_NOT_LEADER_OR_FOLLOWER;
        part->log_start_offset = part->high_watermark = part->last_stable_offset = -1;
        part->all = part->committed = (struct broker_lag_count){ -1, -1, false };
    }
    return !health.serves_peers;
}

void broker_lag(struct broker *broker, struct broker_lag *lag)
{
    lag->broker = broker;
    lag->open = 1;
    for (uint32_t i = 0; i < lag->part_count; i++) lag->parts[i].away = -1;
    if (is_early(broker, lag)) {
        lag->call.task.run = done_run;
        ot_exec_post(lag->call.home, &lag->call.task);
        return;
    }
    if (!lag->here) broker_lag_away(broker, lag);
    lag->io_task.run = io_run;
    ot_exec_post(broker_core_of(broker)->io_exec, &lag->io_task);
}
