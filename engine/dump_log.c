/* The .log file: batches and their records. */
#include "engine/dump_inner.h"
#include "base/util.h"
#include <inttypes.h>
#include <stdlib.h>

#define DECODE_POOL_BYTES ((size_t)512 << 20)
#define RESUME_BYTES_MAX ((uint64_t)4 << 30)       /* of checksums while looking for sound batches behind damage, in one file */

/* ---- walk ---- */

/* After damage: the next position where a header parses and its checksum is right, so that a single bad length does not hide the rest. */
static enum ot_err walk_resume(struct eng_dumper *dumper, struct eng_dump_buffer *buffer, uint64_t *budget_io, uint64_t *pos_io)
{
    for (uint64_t pos = *pos_io + 1; pos + ENG_BATCH_HEADER_BYTES <= dumper->file_bytes; pos++) {
        const uint8_t *data;
        struct eng_batch_info info;
        enum ot_err err = eng_dump_at(dumper, buffer, pos, ENG_BATCH_HEADER_BYTES, &data);
        if (err != OT_OK) return err;
        if (data[16] != 2 || eng_batch_parse(data, ENG_BATCH_HEADER_BYTES, &info) != OT_OK) continue;
        if (info.batch_bytes > (int64_t)ENG_DUMP_BATCH_BYTES_MAX || (uint64_t)info.batch_bytes > dumper->file_bytes - pos) continue;
        if (*budget_io < (uint64_t)info.batch_bytes) return OT_ERR_NOT_FOUND;
        *budget_io -= (uint64_t)info.batch_bytes;
        err = eng_dump_at(dumper, buffer, pos, (size_t)info.batch_bytes, &data);
        if (err != OT_OK) return err;
        if (eng_batch_check_crc(data, &info) != OT_OK) continue;
        *pos_io = pos;
        return OT_OK;
    }
    return OT_ERR_NOT_FOUND;
}

static bool is_zero(struct eng_dumper *dumper, struct eng_dump_buffer *buffer, uint64_t pos)
{
    for (uint64_t at = pos; at < dumper->file_bytes;) {
        const uint8_t *data;
        size_t bytes = (size_t)OT_MIN(dumper->file_bytes - at, (uint64_t)65536);
        if (eng_dump_at(dumper, buffer, at, bytes, &data) != OT_OK) return false;
        for (size_t i = 0; i < bytes; i++) {
            if (data[i] != 0) return false;
        }
        at += bytes;
    }
    return true;
}

/* The batch at pos. OK also when damaged: batch->data is NULL then, and *broken_out says that its length cannot be trusted. */
static enum ot_err walk_one(struct eng_dumper *dumper, struct eng_dump_buffer *buffer, uint64_t pos, struct eng_dump_batch *batch, bool *broken_out)
{
    const uint8_t *data;
    uint64_t left = dumper->file_bytes - pos;
    *batch = (struct eng_dump_batch){ .pos = pos };
    *broken_out = true;
    size_t header_bytes = (size_t)OT_MIN(left, (uint64_t)ENG_BATCH_HEADER_BYTES);
    enum ot_err err = eng_dump_at(dumper, buffer, pos, header_bytes, &data);
    if (err != OT_OK) return err;
    if (eng_batch_parse(data, header_bytes, &batch->info) != OT_OK || (uint64_t)batch->info.batch_bytes > left) return OT_OK;
    *broken_out = false;
    if (batch->info.batch_bytes > (int64_t)ENG_DUMP_BATCH_BYTES_MAX) return OT_OK;
    err = eng_dump_at(dumper, buffer, pos, (size_t)batch->info.batch_bytes, &data);
    if (err != OT_OK) return err;
    batch->data = data;
    batch->crc_right = eng_batch_check_crc(data, &batch->info) == OT_OK;
    return OT_OK;
}

static enum ot_err walk(struct eng_dumper *dumper, struct eng_dump_buffer *buffer, eng_dump_each_batch *each, void *arg)
{
    uint64_t pos = 0, budget = RESUME_BYTES_MAX;
    while (pos < dumper->file_bytes) {
        struct eng_dump_batch batch;
        bool broken;
        enum ot_err err = walk_one(dumper, buffer, pos, &batch, &broken);
        if (err == OT_OK && !broken) err = each(arg, dumper, &batch);
        if (err != OT_OK) return err;
        if (!broken && (batch.crc_right || batch.data == NULL)) {
            pos += (uint64_t)batch.info.batch_bytes;
            continue;
        }
        uint64_t resumed = pos;
        err = walk_resume(dumper, buffer, &budget, &resumed);
        if (err != OT_OK && err != OT_ERR_NOT_FOUND) return err;
        uint64_t to = err == OT_OK ? resumed : dumper->file_bytes;
        if (broken || to != pos + (uint64_t)batch.info.batch_bytes) {
            eng_dump_fault(dumper, pos, "%" PRIu64 " bytes are no whole batch%s%s", to - pos, is_zero(dumper, buffer, pos) ? " (all zero: a preallocated tail)" : "",
                err == OT_OK ? ", a sound one follows" : "");
        }
        pos = to;
    }
    return OT_OK;
}

enum ot_err eng_dump_walk(struct eng_dumper *dumper, eng_dump_each_batch *each, void *arg)
{
    struct eng_dump_buffer buffer = { 0 };
    enum ot_err err = walk(dumper, &buffer, each, arg);
    free(buffer.data);
    return err;
}

/* ---- rows ---- */

static const char *time_name(enum eng_timestamp_type type)
{
    return type == ENG_TIMESTAMP_APPEND ? "LogAppendTime" : type == ENG_TIMESTAMP_CREATE ? "CreateTime" : "NoTimestampType";
}

static void batch_row(struct eng_dumper *dumper, const struct eng_dump_batch *batch)
{
    const struct eng_batch_info *info = &batch->info;
    struct eng_dump_row row;
    eng_dump_begin(&row, ENG_DUMP_BATCH);
    eng_dump_number(&row, "baseOffset", info->base_offset);
    eng_dump_number(&row, "lastOffset", eng_batch_last_offset(info));
    eng_dump_number(&row, "count", info->record_count);
    eng_dump_number(&row, "baseSequence", info->base_sequence);
    eng_dump_number(&row, "lastSequence", eng_batch_last_sequence(info));
    eng_dump_number(&row, "producerId", info->producer_id);
    eng_dump_number(&row, "producerEpoch", info->producer_epoch);
    eng_dump_number(&row, "partitionLeaderEpoch", info->partition_leader_epoch);
    eng_dump_bool(&row, "isTransactional", info->transactional);
    eng_dump_bool(&row, "isControl", info->control);
    eng_dump_optional(&row, "deleteHorizonMs", info->has_delete_horizon ? info->base_timestamp : -1);
    eng_dump_number(&row, "position", (int64_t)batch->pos);
    eng_dump_number(&row, time_name(info->timestamp_type), info->max_timestamp);
    eng_dump_number(&row, "size", info->batch_bytes);
    eng_dump_number(&row, "magic", info->magic);
    eng_dump_word(&row, "compresscodec", eng_codec_name(info->codec));
    eng_dump_number(&row, "crc", info->crc);
    eng_dump_bool(&row, "isvalid", batch->crc_right);
    eng_dump_emit(dumper, &row);
}

static void control_fields(struct eng_dump_row *row, const struct eng_dump_batch *batch, const struct eng_record *record)
{
    static const char *const types[] = { "ABORT", "COMMIT", "LEADER_CHANGE", "SNAPSHOT_HEADER", "SNAPSHOT_FOOTER", "KRAFT_VERSION", "KRAFT_VOTERS" };
    struct eng_marker marker;
    int16_t type = record->key.null || record->key.bytes < 4 ? -1 : ot_load_i16(record->key.data + 2);
    eng_batch_marker(batch->data, &batch->info, &marker);
    if (marker.is_marker) {
        eng_dump_word(row, "endTxnMarker", marker.commit ? "COMMIT" : "ABORT");
        eng_dump_number(row, "coordinatorEpoch", marker.coordinator_epoch);
    } else {
        eng_dump_word(row, "controlType", type >= 0 && (size_t)type < OT_ARRAY_COUNT(types) ? types[type] : "UNKNOWN");
        eng_dump_number(row, "controlTypeId", type);
    }
}

static void record_row(struct eng_dumper *dumper, const struct eng_dump_batch *batch, const struct eng_record *record)
{
    struct eng_dump_row row;
    eng_dump_begin(&row, ENG_DUMP_RECORD);
    eng_dump_number(&row, "offset", record->offset);
    eng_dump_number(&row, time_name(batch->info.timestamp_type), record->timestamp);
    eng_dump_number(&row, "keySize", record->key.null ? -1 : (int64_t)record->key.bytes);
    eng_dump_number(&row, "valueSize", record->value.null ? -1 : (int64_t)record->value.bytes);
    if (batch->info.magic == 2) {
        eng_dump_number(&row, "sequence", record->sequence);
        eng_dump_headers(&row, "headerKeys", record->headers);
    }
    if (batch->info.control) {
        control_fields(&row, batch, record);
    } else {
        if (!record->key.null) eng_dump_bytes(&row, "key", record->key);
        eng_dump_bytes(&row, "payload", record->value);
    }
    eng_dump_emit(dumper, &row);
}

struct logging {
    struct ot_pool *pool;
    struct eng_decode *decode;
    int64_t last_offset;
    int32_t leader_epoch;
};

static enum ot_err records_of(struct logging *logging, struct eng_dumper *dumper, const struct eng_dump_batch *batch)
{
    const struct eng_dump_options *options = dumper->options;
    struct eng_record_iter iter;
    struct eng_record record;
    enum ot_err err = eng_record_open(&iter, logging->decode, batch->data, (size_t)batch->info.batch_bytes, 0);
    while (err == OT_OK && (err = eng_record_next(&iter, &record)) == OT_OK) {
        dumper->summary->records++;
        if (options->records && record.offset >= options->from_offset && record.offset < options->to_offset) record_row(dumper, batch, &record);
    }
    if (err == OT_ERR_NO_MEMORY) return err;
    if (err != OT_ERR_NOT_FOUND) eng_dump_fault(dumper, batch->pos, "the records of the batch at offset %" PRId64 " cannot be read: %s", batch->info.base_offset, ot_err_text(err));
    return OT_OK;
}

static void order_check(struct logging *logging, struct eng_dumper *dumper, const struct eng_dump_batch *batch)
{
    const struct eng_batch_info *info = &batch->info;
    if (info->base_offset < dumper->base_offset) {
        eng_dump_fault(dumper, batch->pos, "batch at offset %" PRId64 " is below the segment's base offset %" PRId64, info->base_offset, dumper->base_offset);
    }
    if (info->magic == 2 && info->base_offset <= logging->last_offset) {
        eng_dump_fault(dumper, batch->pos, "batch at offset %" PRId64 " does not follow offset %" PRId64, info->base_offset, logging->last_offset);
    }
    if (info->magic == 2 && info->partition_leader_epoch < logging->leader_epoch) {
        eng_dump_fault(dumper, batch->pos, "leader epoch %" PRId32 " falls below %" PRId32, info->partition_leader_epoch, logging->leader_epoch);
    }
    logging->last_offset = OT_MAX(logging->last_offset, eng_batch_last_offset(info));
    logging->leader_epoch = OT_MAX(logging->leader_epoch, info->partition_leader_epoch);
}

static enum ot_err log_batch(void *arg, struct eng_dumper *dumper, const struct eng_dump_batch *batch)
{
    struct logging *logging = arg;
    const struct eng_dump_options *options = dumper->options;
    dumper->summary->batches++;
    if (batch->crc_right) {
        dumper->summary->sound_bytes += (uint64_t)batch->info.batch_bytes;
        order_check(logging, dumper, batch);
    }
    bool shown = eng_batch_last_offset(&batch->info) >= options->from_offset && batch->info.base_offset < options->to_offset;
    if (shown) batch_row(dumper, batch);
    if (batch->data == NULL) {
        eng_dump_fault(dumper, batch->pos, "batch of %" PRId64 " bytes is too large to be checked", batch->info.batch_bytes);
        return OT_OK;
    }
    if (!batch->crc_right) {
        eng_dump_fault(dumper, batch->pos, "checksum of the batch at offset %" PRId64 " is wrong", batch->info.base_offset);
        return OT_OK;
    }
    return options->deep || (options->records && shown) ? records_of(logging, dumper, batch) : OT_OK;
}

enum ot_err eng_dump_log(struct eng_dumper *dumper)
{
    struct logging logging = { .last_offset = -1, .leader_epoch = -1 };
    enum ot_err err = OT_ERR_NO_MEMORY;
    logging.pool = ot_pool_new("dump", DECODE_POOL_BYTES, 0);
    if (logging.pool != NULL) err = eng_decode_new(logging.pool, &(struct eng_decode_limits){ 0 }, &logging.decode);
    if (err == OT_OK) err = eng_dump_walk(dumper, log_batch, &logging);
    eng_decode_free(logging.decode);
    if (logging.pool != NULL) ot_pool_free(logging.pool);
    return err;
}
