#include "broker/records.h"
#include "broker/core.h"
#include "base/util.h"
#include "engine/batch_build.h"
#include <stdlib.h>
#include <string.h>

/* ---- writing */

int32_t broker_records_partition(struct ot_blob key, int32_t partition_count, _Atomic uint32_t *round_robin)
{
    if (!key.null) return ot_partition_for_key(key.data, key.bytes, partition_count);
    return (int32_t)(atomic_fetch_add_explicit(round_robin, 1, memory_order_relaxed) % (uint32_t)partition_count);
}

static bool codec_of(struct ot_str name, enum eng_codec *out)
{
    static const enum eng_codec codecs[] = { ENG_CODEC_NONE, ENG_CODEC_GZIP, ENG_CODEC_SNAPPY, ENG_CODEC_LZ4, ENG_CODEC_ZSTD };
    *out = ENG_CODEC_NONE;
    if (name.null) return true;
    for (uint32_t i = 0; i < OT_ARRAY_COUNT(codecs); i++) {
        *out = codecs[i];
        if (ot_str_equal(name, ot_str_of(eng_codec_name(codecs[i])))) return true;
    }
    return false;
}

bool broker_records_codec_known(struct ot_str name)
{
    enum eng_codec codec;
    return codec_of(name, &codec);
}

static size_t record_bytes(const struct broker_record *record)
{
    size_t bytes = 32 + (size_t)record->key.bytes + record->value.bytes;       /* lengths, deltas and attributes take less */
    for (uint32_t i = 0; i < record->header_count; i++) bytes += 10 + (size_t)record->headers[i].key.bytes + record->headers[i].value.bytes;
    return bytes;
}

uint32_t broker_records_rounds(struct broker_record *records, uint32_t count, size_t batch_bytes_max, struct ot_arena *arena)
{
    struct filling { int32_t partition; uint32_t round; size_t bytes; } *fillings = ot_arena_array(arena, OT_MAX(count, 1u), sizeof(*fillings));
    uint32_t known = 0, rounds = 1;
    if (fillings == NULL) return 0;
    for (uint32_t i = 0; i < count; i++) {
        const size_t bytes = record_bytes(&records[i]);
        uint32_t k = known;                                    /* the last ones first: runs of one partition are usual */
        while (k > 0 && fillings[k - 1].partition != records[i].partition) k--;
        struct filling *filling = k > 0 ? &fillings[k - 1] : &fillings[known++];
        if (k == 0) *filling = (struct filling){ .partition = records[i].partition, .bytes = ENG_BATCH_HEADER_BYTES };
        if (filling->bytes > ENG_BATCH_HEADER_BYTES && filling->bytes + bytes > batch_bytes_max) {
            filling->round++;
            filling->bytes = ENG_BATCH_HEADER_BYTES;
        }
        filling->bytes += bytes;
        records[i].round = filling->round;
        rounds = OT_MAX(rounds, filling->round + 1);
    }
    return rounds;
}

static enum ot_err add_record(struct eng_batch_builder *builder, const struct broker_record *record, struct ot_arena *arena)
{
    struct eng_record_header few[8], *headers = few;
    if (record->header_count > OT_ARRAY_COUNT(few)) headers = ot_arena_array(arena, record->header_count, sizeof(*headers));
    if (headers == NULL) return OT_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < record->header_count; i++)
        headers[i] = (struct eng_record_header){ { (const uint8_t *)record->headers[i].key.data, record->headers[i].key.bytes, false }, record->headers[i].value };
    return eng_batch_build_next(builder, record->timestamp_ms, record->key, record->value, headers, record->header_count);
}

/* All records of one partition in this round, from the first of them on. */
static enum ot_err pack_part(struct broker_record *records, uint32_t first, uint32_t count, uint32_t round, uint32_t part, enum eng_codec codec,
    struct eng_encode *encode, struct eng_sink *sink, struct ot_arena *arena)
{
    struct eng_batch_fields fields = eng_batch_fields_default();
    struct eng_batch_builder builder;
    uint32_t delta = 0;
    fields.codec = codec;
    fields.level = ENG_CODEC_LEVEL_DEFAULT;
    enum ot_err err = eng_batch_build_begin(&builder, &fields, encode, sink);
    for (uint32_t i = first; err == OT_OK && i < count; i++) {
        if (records[i].round != round || records[i].partition != records[first].partition) continue;
        records[i].part = part;
        records[i].delta = delta++;
        err = add_record(&builder, &records[i], arena);
    }
    return err == OT_OK ? eng_batch_build_finish(&builder) : err;
}

/* Batches follow each other in one buffer; parts remember where theirs begins. */
static enum ot_err pack_all(struct ot_str topic, struct broker_record *records, uint32_t count, uint32_t round, enum eng_codec codec, struct eng_encode *encode,
    struct eng_sink *sink, struct ot_arena *arena, struct broker_records_round *out, size_t *starts)
{
    for (uint32_t i = 0; i < count; i++) records[i].part = records[i].round == round ? UINT32_MAX : records[i].part;
    for (uint32_t i = 0; i < count; i++) {
        if (records[i].round != round || records[i].part != UINT32_MAX) continue;
        const size_t start = sink->bytes;
        enum ot_err err = pack_part(records, i, count, round, out->part_count, codec, encode, sink, arena);
        if (err != OT_OK) return err;
        starts[out->part_count] = start;
        out->parts[out->part_count++] = (struct broker_produce_part){ .topic = topic, .partition = records[i].partition, .records_bytes = (uint32_t)(sink->bytes - start) };
    }
    return OT_OK;
}

static uint32_t partitions_of(const struct broker_record *records, uint32_t count, uint32_t round, struct ot_arena *arena)
{
    int32_t *seen = ot_arena_array(arena, OT_MAX(count, 1u), sizeof(*seen));
    uint32_t known = 0;
    for (uint32_t i = 0; seen != NULL && i < count; i++) {
        uint32_t k = known;
        if (records[i].round != round) continue;
        while (k > 0 && seen[k - 1] != records[i].partition) k--;
        if (k == 0) seen[known++] = records[i].partition;
    }
    return known;
}

enum ot_err broker_records_pack(struct broker *broker, struct ot_str topic, struct broker_record *records, uint32_t count, uint32_t round, struct ot_str codec_name,
    struct ot_pool *pool, size_t bytes_max, struct ot_arena *arena, struct broker_records_round *out)
{
    enum eng_codec codec;
    struct eng_sink sink;
    const uint32_t partitions = partitions_of(records, count, round, arena);
    *out = (struct broker_records_round){ 0 };
    if (!codec_of(codec_name, &codec)) return OT_ERR_UNSUPPORTED_COMPRESSION_TYPE;
    out->parts = ot_arena_array(arena, OT_MAX(partitions, 1u), sizeof(*out->parts));
    size_t *starts = ot_arena_array(arena, OT_MAX(partitions, 1u), sizeof(*starts));
    struct broker_decoder *decoder = broker_decoder_take(broker_core_of(broker));
    enum ot_err err = out->parts == NULL || starts == NULL || decoder == NULL ? OT_ERR_NO_MEMORY : OT_OK;
    eng_sink_pool(&sink, pool, bytes_max);
    if (err == OT_OK) err = pack_all(topic, records, count, round, codec, decoder->encode, &sink, arena, out, starts);
    if (err == OT_OK) {
        out->buf = eng_sink_take(&sink);
        for (uint32_t i = 0; i < out->part_count; i++) out->parts[i].records = out->buf->data + starts[i];
    }
    eng_sink_free(&sink);
    if (decoder != NULL) broker_decoder_give(broker_core_of(broker), decoder);
    return err;
}

void broker_records_stamp(struct broker_produce_part *part, int64_t producer_id, int16_t producer_epoch, int32_t base_sequence, bool transactional)
{
    uint8_t *batch = part->records;
    if (transactional) ot_store_u16(batch + 21, (uint16_t)(ot_load_u16(batch + 21) | 0x10));     /* attributes */
    ot_store_u64(batch + 43, (uint64_t)producer_id);
    ot_store_u16(batch + 51, (uint16_t)producer_epoch);
    ot_store_u32(batch + 53, (uint32_t)base_sequence);
    ot_store_u32(batch + ENG_BATCH_CRC_POS, ot_crc32c(0, batch + ENG_BATCH_CRC_FROM, part->records_bytes - ENG_BATCH_CRC_FROM));
}

int32_t broker_records_batch_max(struct broker *broker, struct ot_str topic)
{
    struct broker_partition *partition = broker_partition_find(broker, topic, 0);
    int32_t bytes = broker_config_current(broker_core_of(broker)->config)->message_max_bytes;
    if (partition == NULL) return bytes;
    bytes = atomic_load_explicit(&partition->topic->config, memory_order_acquire)->max_message_bytes;
    broker_partition_put(partition);
    return bytes;
}

/* ---- reading */

static bool is_cancelled(struct broker_records *records) { return atomic_load_explicit(&records->cancelled, memory_order_relaxed); }

static enum ot_err gather(struct broker_records *records, struct ot_io *io, struct ot_buf *buf)
{
    const struct eng_read_result *read = &records->row->read;
    for (uint32_t i = 0; i < read->span_count; i++) {
        const struct ot_span *span = &read->spans[i];
        if (is_cancelled(records)) return OT_ERR_CANCELLED;
        if (span->bytes > buf->cap_bytes - buf->bytes) return OT_ERR_TOO_LARGE;
        /* into one piece, a copy: records are looked at here, not sent */
        enum ot_err err = span->memory != NULL ? ot_guarded_copy(buf->data + buf->bytes, span->memory, span->bytes)
                                               : ot_io_read_exact(io, span->fd, buf->data + buf->bytes, span->bytes, span->pos);
        if (err != OT_OK) return err == OT_ERR_SHORT ? OT_ERR_IO : err;      /* a range was promised that is not there */
        buf->bytes += span->bytes;
    }
    return OT_OK;
}

/* Transactions that were aborted, told by the fetch: from first_offset on, until their marker passes. */
struct aborting { const struct eng_aborted *list; int32_t count; bool *ended; };

static bool is_aborted(const struct aborting *aborting, const struct eng_batch_info *info)
{
    for (int32_t i = 0; info->transactional && i < aborting->count; i++)
        if (!aborting->ended[i] && aborting->list[i].producer_id == info->producer_id && aborting->list[i].first_offset <= info->base_offset) return true;
    return false;
}

static void marker_passed(struct aborting *aborting, const struct eng_batch_info *info)
{
    for (int32_t i = 0; i < aborting->count; i++)
        if (aborting->list[i].producer_id == info->producer_id && aborting->list[i].first_offset <= info->base_offset) aborting->ended[i] = true;
}

/* OK: go on; CANCELLED: the caller has enough. */
static enum ot_err walk_batch(struct broker_records *records, const struct eng_batch_piece *piece, struct eng_decode *decode, int64_t record_max)
{
    struct eng_record_iter iter;
    struct eng_record record;
    enum ot_err err = eng_record_open(&iter, decode, piece->data, piece->bytes, record_max);
    while (err == OT_OK && (err = eng_record_next(&iter, &record)) == OT_OK) {
        if (record.offset < records->from_offset || record.offset < records->next_offset) continue;
        const struct broker_record_view view = { .offset = record.offset, .timestamp_ms = record.timestamp,
            .append_time = iter.info.timestamp_type == ENG_TIMESTAMP_APPEND, .key = record.key, .value = record.value, .header_count = record.header_count,
            .producer_id = iter.info.producer_id, .transactional = iter.info.transactional, .codec = eng_codec_name(iter.info.codec),
            .size_bytes = record.raw.bytes > 0 ? record.raw.bytes : record.key.bytes + record.value.bytes, .headers = record.headers };
        if (!records->each(records, &view)) return OT_ERR_CANCELLED;
        records->next_offset = record.offset + 1;
    }
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

static enum ot_err walk(struct broker_records *records, const struct ot_buf *buf, struct eng_decode *decode, struct aborting *aborting)
{
    struct ot_reader cursor = ot_reader_over(buf->data, buf->bytes);
    struct eng_batch_piece piece;
    enum ot_err err;
    const int64_t record_max = (int64_t)OT_MIN(ot_pool_cap_bytes(records->pool), (size_t)INT32_MAX);
    while ((err = eng_batch_split(&cursor, &piece)) == OT_OK) {
        struct eng_batch_info info;
        if (is_cancelled(records)) return OT_ERR_CANCELLED;
        if ((err = eng_batch_parse(piece.data, piece.bytes, &info)) != OT_OK || (err = eng_batch_check_crc(piece.data, &info)) != OT_OK) return err;
        const int64_t end = eng_batch_last_offset(&info) + 1;
        if (info.control) marker_passed(aborting, &info);
        else if (!is_aborted(aborting, &info)) err = walk_batch(records, &piece, decode, record_max);
        if (err != OT_OK) return err;
        records->next_offset = OT_MAX(records->next_offset, end);
    }
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

static void done_run(struct ot_task *task)
{
    struct broker_records *records = OT_CONTAINER(task, struct broker_records, call.task);
    records->call.done(&records->call);
}

static enum ot_err convert(struct broker_records *records)
{
    struct broker_core *core = broker_core_of(records->broker);
    const struct broker_fetch_row *row = records->row;
    struct aborting aborting = { .list = row->aborted, .count = OT_MAX(row->aborted_count, 0) };
    struct broker_decoder *decoder = broker_decoder_take(core);
    struct ot_buf *buf = ot_buf_new(records->pool, OT_MAX(row->read.bytes, 1u));
    aborting.ended = calloc((size_t)OT_MAX(aborting.count, 1), sizeof(*aborting.ended));
    enum ot_err err = decoder == NULL || buf == NULL || aborting.ended == NULL ? OT_ERR_NO_MEMORY : gather(records, core->io, buf);
    if (err == OT_OK) err = walk(records, buf, decoder->decode, &aborting);
    free(aborting.ended);
    ot_buf_unref(buf);
    if (decoder != NULL) broker_decoder_give(core, decoder);
    return err;
}

static void io_run(struct ot_task *task)
{
    struct broker_records *records = OT_CONTAINER(task, struct broker_records, io_task);
    const enum ot_err err = is_cancelled(records) ? OT_ERR_CANCELLED : convert(records);
    records->error = err == OT_ERR_CANCELLED && !is_cancelled(records) ? OT_OK : err;     /* the caller has enough: fine */
    records->call.task.run = done_run;
    ot_exec_post(records->call.home, &records->call.task);
}

void broker_records_read(struct broker *broker, struct broker_records *records)
{
    records->broker = broker;
    records->error = OT_OK;
    records->next_offset = records->from_offset;
    records->io_task.run = io_run;
    ot_exec_post(broker_io_exec(broker), &records->io_task);
}

bool broker_record_headers(struct ot_reader *cursor, struct broker_record_header *out)
{
    struct eng_record_header header;
    if (!eng_record_header(cursor, &header)) return false;
    *out = (struct broker_record_header){ { (const char *)header.key.data, header.key.bytes, false }, header.value };
    return true;
}
