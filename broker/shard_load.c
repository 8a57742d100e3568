/* A shard's state made anew from its log: on the I/O pool, a piece at a time, so that many loads share the threads. The log's end at the beginning is where it
 * ends, whatever the high watermark is then, and serving begins when that has come there; as leader of the partition only we append, and nothing of ours is on its way.
 * Markers may be appended meanwhile: they come to the executor with their offset. */
#include "broker/room.h"

#include "base/log.h"
#include "engine/batch.h"
#include "engine/record.h"
#include <stdlib.h>

enum { PIECE_BYTES = 1 << 20 };

static void loaded_run(struct ot_task *task)
{
    struct broker_shard *shard = OT_CONTAINER(task, struct broker_shard, load_task);
    broker_shard_loaded(shard);
}

static void finish(struct broker_shard *shard, enum ot_err err)
{
    struct broker_partition *owner = shard->owner;
    shard->load_error = err;
    pthread_mutex_lock(&owner->mutex);
    owner->keeper_users--;
    broker_partition_settle_end(owner);
    pthread_mutex_unlock(&owner->mutex);
    const int64_t now_us = ot_exec_now_us(shard->broker->core.background_exec);
    atomic_store(&shard->load_ms, (now_us - shard->load_started_us) / 1000);
    if (err == OT_OK && atomic_load(&shard->loaded_records) > 0)
        ot_log(OT_LOG_INFO, "shard", "loaded", "topic=%s partition=%d records=%lld ms=%lld", shard->kind->topic, shard->partition,
            (long long)atomic_load(&shard->loaded_records), (long long)atomic_load(&shard->load_ms));
    shard->load_task.run = loaded_run;
    ot_exec_post(shard->exec, &shard->load_task);
}

static enum ot_err gather(struct ot_io *io, const struct eng_read_result *read, uint8_t *out)
{
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < read->span_count; i++) {
        const struct ot_span *span = &read->spans[i];
        enum ot_err err = span->memory != NULL ? ot_guarded_copy(out + bytes, span->memory, span->bytes)
                                               : ot_io_read_exact(io, span->fd, out + bytes, span->bytes, span->pos);
        if (err != OT_OK) return err == OT_ERR_SHORT ? OT_ERR_IO : err;
        bytes += span->bytes;
    }
    return OT_OK;
}

static enum ot_err replay_records(struct broker_shard *shard, const struct eng_batch_piece *piece, struct eng_decode *decode)
{
    struct eng_record_iter iter;
    struct eng_record record;
    enum ot_err err = eng_record_open(&iter, decode, piece->data, piece->bytes, 0);
    while (err == OT_OK && (err = eng_record_next(&iter, &record)) == OT_OK) {
        const struct broker_shard_record out = { .offset = record.offset, .timestamp_ms = record.timestamp, .producer_id = iter.info.producer_id,
            .producer_epoch = iter.info.producer_epoch, .transactional = iter.info.transactional, .key = record.key, .value = record.value };
        if (record.offset < shard->load_offset) continue;      /* the batch began before */
        err = shard->kind->replay(shard->state, &out);
        atomic_fetch_add_explicit(&shard->loaded_records, 1, memory_order_relaxed);
    }
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

static enum ot_err replay_batch(struct broker_shard *shard, const struct eng_batch_piece *piece, struct eng_decode *decode)
{
    struct eng_batch_info info;
    struct eng_marker marker = { 0 };
    enum ot_err err = eng_batch_parse(piece->data, piece->bytes, &info);
    if (err == OT_OK) err = eng_batch_check_crc(piece->data, &info);
    if (err != OT_OK) return err;
    if (info.control) eng_batch_marker(piece->data, &info, &marker);
    if (marker.is_marker) shard->kind->replay_marker(shard->state, info.producer_id, info.producer_epoch, marker.commit);
    if (!info.control) err = replay_records(shard, piece, decode);
    if (err == OT_OK) shard->load_offset = OT_MAX(shard->load_offset, eng_batch_last_offset(&info) + 1);
    return err;
}

static enum ot_err replay_piece(struct broker_shard *shard, const uint8_t *data, uint32_t bytes)
{
    struct broker_core *core = broker_core_of(shard->broker);
    struct broker_decoder *decoder = broker_decoder_take(core);
    struct ot_reader cursor = ot_reader_over(data, bytes);
    struct eng_batch_piece piece;
    enum ot_err err = decoder == NULL ? OT_ERR_NO_MEMORY : OT_OK;
    while (err == OT_OK && (err = eng_batch_split(&cursor, &piece)) == OT_OK) err = replay_batch(shard, &piece, decoder->decode);
    if (decoder != NULL) broker_decoder_give(core, decoder);
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

/* One piece of the log. CORRUPT: it is there, but no batch could be read from it. */
static enum ot_err step(struct broker_shard *shard)
{
    const struct eng_read how = { .offset = shard->load_offset, .limit_offset = shard->load_end, .max_bytes = PIECE_BYTES, .min_one = true, .may_block = true };
    struct eng_read_result read = { 0 };
    enum ot_err err = eng_log_read(shard->owner->log, &how, &read);
    if (err != OT_OK) return err;
    if (read.bytes == 0) {                     /* a hole up to the end: compaction took what was there */
        shard->load_offset = shard->load_end;
    } else {
        const int64_t before = shard->load_offset;
        uint8_t *data = malloc(read.bytes);
        err = data == NULL ? OT_ERR_NO_MEMORY : gather(shard->broker->core.io, &read, data);
        if (err == OT_OK) err = replay_piece(shard, data, read.bytes);
        if (err == OT_OK && shard->load_offset == before) err = OT_ERR_CORRUPT;
        free(data);
    }
    if (read.pin != NULL) read.pin->release(read.pin);
    return err;
}

static void load_run(struct ot_task *task)
{
    struct broker_shard *shard = OT_CONTAINER(task, struct broker_shard, load_task);
    enum ot_err err = OT_OK;
    if (shard->state == NULL) shard->state = shard->kind->open(shard->broker, shard, shard->partition, shard->leader_epoch);
    if (shard->state == NULL) err = OT_ERR_NO_MEMORY;
    else if (shard->load_offset < shard->load_end && !atomic_load(&shard->load_cancelled)) err = step(shard);
    if (err != OT_OK || shard->load_offset >= shard->load_end || atomic_load(&shard->load_cancelled)) finish(shard, err);
    else ot_exec_post(shard->broker->core.io_exec, &shard->load_task);
}

void broker_shard_load(struct broker_shard *shard)
{
    struct broker_partition *owner = shard->owner;
    pthread_mutex_lock(&owner->mutex);
    owner->keeper_users++;                     /* holds off retirement while we read */
    pthread_mutex_unlock(&owner->mutex);
    atomic_store(&shard->load_cancelled, false);
    atomic_store(&shard->loaded_records, 0);
    shard->load_error = OT_OK;
    shard->load_offset = eng_log_start_offset(owner->log);
    shard->load_end = eng_log_end_offset(owner->log);
    shard->load_task.run = load_run;
    ot_exec_post(shard->broker->core.io_exec, &shard->load_task);
}
