/* One batch at a time: what stays of it, and how that is written.
 *
 * A batch that keeps all its records goes over byte for byte. One that loses some is made anew around the bytes of those that stay: their timestamp and offset deltas
 * count from bases that do not change, unless a delete horizon is set, which takes the place of the base timestamp. */
#include "base/util.h"
#include "engine/compact_inner.h"
#include "engine/record.h"
#include "engine/record_frame.h"
#include <stdlib.h>
#include <string.h>

#define ATTRIBUTE_DELETE_HORIZON 0x40

/* ---- looking at records ---- */

/* What is needed of a record once the next one is read. */
struct seen {
    struct eng_compact_hash hash;
    int64_t offset, timestamp;
    uint32_t from, to;                     /* see struct eng_compact_stretch */
    bool key_null, value_null;
};
struct window { struct seen list[ENG_COMPACT_WINDOW]; uint32_t count; };

static enum ot_err record_error(enum ot_err err)
{
    return err == OT_ERR_CORRUPT_MESSAGE || err == OT_ERR_INVALID_RECORD || err == OT_ERR_UNSUPPORTED_COMPRESSION_TYPE ? OT_ERR_CORRUPT : err;
}

static enum ot_err open_records(struct eng_compaction *run, const uint8_t *data, const struct eng_batch_info *info, struct eng_record_iter *iter)
{
    return record_error(eng_record_open(iter, run->how->decode, data, (size_t)info->batch_bytes, 0));
}

static bool by_bytes(const struct eng_batch_info *info) { return info->magic >= 2 && info->codec == ENG_CODEC_NONE; }

/* Offset deltas are a producer's word, and Kafka takes odd ones. One that reaches past its batch would supersede records that come later. */
static int64_t sane_offset(const struct eng_record_iter *iter, int64_t offset)
{
    int64_t last_offset = eng_batch_last_offset(&iter->info);
    if (iter->info.magic >= 2 && offset < iter->info.base_offset) return iter->info.base_offset;
    return OT_MIN(offset, last_offset);
}

/* Fills the window. NOT_FOUND: the batch ended, with what is in the window. */
static enum ot_err fill_window(struct eng_compaction *run, struct eng_record_iter *iter, const uint8_t *data, struct window *window)
{
    struct eng_record record;
    enum ot_err err = OT_OK;
    bool bytes = by_bytes(&iter->info);
    window->count = 0;
    while (window->count < ENG_COMPACT_WINDOW) {
        uint32_t from = bytes ? (uint32_t)(iter->at - data) : (uint32_t)iter->index;
        if ((err = eng_record_next(iter, &record)) != OT_OK) break;
        struct seen *seen = &window->list[window->count++];
        *seen = (struct seen){ .offset = sane_offset(iter, record.offset), .timestamp = record.timestamp, .from = from, .to = bytes ? (uint32_t)(iter->at - data) : (uint32_t)iter->index,
            .key_null = record.key.null, .value_null = record.value.null };
        if (record.key.null) continue;
        seen->hash = eng_compact_map_hash(&run->map, record.key.data, record.key.bytes);
        eng_compact_map_prefetch(&run->map, &seen->hash);
    }
    return record_error(err);
}

/* ---- the map ---- */

static bool put_window(struct eng_compaction *run, const struct window *window, int64_t from_offset)
{
    for (uint32_t i = 0; i < window->count; i++) {
        const struct seen *seen = &window->list[i];
        if (!seen->key_null && seen->offset >= from_offset && !eng_compact_map_put(&run->map, &seen->hash, seen->offset)) {
            run->map_end = seen->offset;
            return false;
        }
    }
    return true;
}

enum ot_err eng_compact_map_batch(struct eng_compaction *run, const uint8_t *data, const struct eng_batch_info *info, int64_t from_offset, bool *full_out)
{
    struct eng_record_iter iter;
    struct window window;
    bool skip = info->control || (info->magic >= 2 && info->record_count == 0);
    *full_out = false;
    enum ot_err err = OT_OK;
    if (info->control) {
        struct eng_marker marker;
        bool empty;
        eng_batch_marker(data, info, &marker);
        if (marker.is_marker) err = eng_compact_txns_marker(&run->txns, info, &empty);
    } else {
        bool aborted;
        err = eng_compact_txns_data(&run->txns, info, &aborted);
        skip = skip || aborted;
    }
    if (err == OT_OK && !skip) err = open_records(run, data, info, &iter);
    while (err == OT_OK && !skip) {
        err = fill_window(run, &iter, data, &window);
        if ((err == OT_OK || err == OT_ERR_NOT_FOUND) && !put_window(run, &window, from_offset)) {
            *full_out = true;
            return OT_OK;
        }
    }
    if (err != OT_OK && err != OT_ERR_NOT_FOUND) return err;
    run->map_end = eng_batch_last_offset(info) + 1;
    return OT_OK;
}

/* ---- what stays ---- */

struct verdict {
    uint32_t total, kept;
    bool tombstones;                       /* among those kept */
    int64_t max_timestamp, first_kept;
};

static bool stays(const struct eng_compaction *run, const struct eng_batch_info *info, const struct seen *seen)
{
    if (seen->offset >= run->map_end) return true;         /* the map does not know what comes then */
    if (seen->key_null) return false;
    if (seen->offset < eng_compact_map_get(&run->map, &seen->hash)) return false;
    if (!seen->value_null) return true;
    if (info->magic < 2) return run->legacy_tombstones_stay;
    return !info->has_delete_horizon || run->how->wall_ms < info->base_timestamp;
}

static enum ot_err keep_stretch(struct eng_compaction *run, uint32_t from, uint32_t to)
{
    if (run->stretch_count > 0 && run->stretches[run->stretch_count - 1].to == from) {
        run->stretches[run->stretch_count - 1].to = to;
        return OT_OK;
    }
    if (run->stretch_count == run->stretch_cap) {
        uint32_t cap = run->stretch_cap == 0 ? 256 : run->stretch_cap * 2;
        struct eng_compact_stretch *grown = realloc(run->stretches, (size_t)cap * sizeof *grown);
        if (grown == NULL) return OT_ERR_NO_MEMORY;
        run->stretches = grown;
        run->stretch_cap = cap;
    }
    run->stretches[run->stretch_count++] = (struct eng_compact_stretch){ from, to };
    return OT_OK;
}

static enum ot_err judge_window(struct eng_compaction *run, const struct eng_batch_info *info, const struct window *window, struct verdict *verdict)
{
    enum ot_err err = OT_OK;
    for (uint32_t i = 0; i < window->count && err == OT_OK; i++) {
        const struct seen *seen = &window->list[i];
        verdict->total++;
        if (!stays(run, info, seen)) continue;
        if (verdict->kept++ == 0) verdict->first_kept = seen->offset;
        verdict->tombstones = verdict->tombstones || seen->value_null;
        verdict->max_timestamp = OT_MAX(verdict->max_timestamp, seen->timestamp);
        err = keep_stretch(run, seen->from, seen->to);
    }
    return err;
}

static enum ot_err judge(struct eng_compaction *run, const uint8_t *data, const struct eng_batch_info *info, struct verdict *verdict)
{
    struct eng_record_iter iter;
    struct window window;
    *verdict = (struct verdict){ .max_timestamp = -1 };
    run->stretch_count = 0;
    if (info->magic >= 2 && info->record_count == 0) return OT_OK;
    enum ot_err err = open_records(run, data, info, &iter);
    while (err == OT_OK) {
        err = fill_window(run, &iter, data, &window);
        if (err != OT_OK && err != OT_ERR_NOT_FOUND) break;
        enum ot_err judged = judge_window(run, info, &window, verdict);
        if (judged != OT_OK) return judged;
    }
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

/* ---- made anew ---- */

struct rebuild { const struct eng_batch_info *info; int64_t base_timestamp; bool moved; };

static enum ot_err plain_write(struct eng_compaction *run, const struct rebuild *rebuild, const void *data, size_t bytes)
{
    return rebuild->info->codec == ENG_CODEC_NONE ? eng_sink_write(&run->sink, data, bytes) : eng_encode_write(run->how->encode, data, bytes);
}

static enum ot_err write_record(struct eng_compaction *run, const struct rebuild *rebuild, const struct eng_record *record)
{
    uint8_t head[32];
    const uint8_t *at = record->raw.data, *end = record->raw.data + record->raw.bytes;
    struct ot_writer w = ot_writer_over(head, sizeof head);
    if (!rebuild->moved) {
        ot_write_varint(&w, (int32_t)record->raw.bytes);
    } else {
        int64_t delta;
        at++;
        if (!eng_frame_varlong(&at, end, &delta)) return OT_ERR_CORRUPT;
        /* wraps as the format does; what stands in the record counts, also where the batch's append time is what readers see */
        delta = (int64_t)((uint64_t)rebuild->info->base_timestamp + (uint64_t)delta - (uint64_t)rebuild->base_timestamp);
        ot_write_varint(&w, (int32_t)(1 + ot_varlong_bytes(delta) + (size_t)(end - at)));
        ot_write_u8(&w, (uint8_t)record->attributes);
        ot_write_varlong(&w, delta);
    }
    enum ot_err err = plain_write(run, rebuild, head, w.needed);
    return err == OT_OK ? plain_write(run, rebuild, at, (size_t)(end - at)) : err;
}

static enum ot_err write_records(struct eng_compaction *run, const uint8_t *data, const struct rebuild *rebuild)
{
    struct eng_record_iter iter;
    struct eng_record record;
    uint32_t stretch = 0;
    bool bytes = by_bytes(rebuild->info);
    enum ot_err err = open_records(run, data, rebuild->info, &iter);
    while (err == OT_OK && stretch < run->stretch_count) {
        uint32_t at = bytes ? (uint32_t)(iter.at - data) : (uint32_t)iter.index;
        if ((err = record_error(eng_record_next(&iter, &record))) != OT_OK) break;
        if (at >= run->stretches[stretch].to) stretch++;
        if (stretch < run->stretch_count && at >= run->stretches[stretch].from) err = write_record(run, rebuild, &record);
    }
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

static enum ot_err write_body(struct eng_compaction *run, const uint8_t *data, const struct rebuild *rebuild)
{
    enum ot_err err = OT_OK;
    if (by_bytes(rebuild->info) && !rebuild->moved) {
        for (uint32_t i = 0; i < run->stretch_count && err == OT_OK; i++)
            err = eng_sink_write(&run->sink, data + run->stretches[i].from, run->stretches[i].to - run->stretches[i].from);
        return err;
    }
    if (rebuild->info->codec != ENG_CODEC_NONE) err = eng_encode_begin(run->how->encode, rebuild->info->codec, ENG_CODEC_LEVEL_DEFAULT, &run->sink);
    if (err == OT_OK) err = write_records(run, data, rebuild);
    if (err == OT_OK && rebuild->info->codec != ENG_CODEC_NONE) err = eng_encode_finish(run->how->encode);
    return err;
}

/* horizon_ms: to be set, or -1. */
static enum ot_err rebuild_batch(struct eng_compaction *run, const uint8_t *data, const struct eng_batch_info *info, const struct verdict *verdict, int64_t horizon_ms)
{
    struct rebuild rebuild = { info, horizon_ms >= 0 ? horizon_ms : info->base_timestamp, horizon_ms >= 0 && horizon_ms != info->base_timestamp };
    run->sink.bytes = 0;
    enum ot_err err = eng_sink_reserve(&run->sink, ENG_BATCH_HEADER_BYTES);
    if (err != OT_OK) return err;
    run->sink.bytes = ENG_BATCH_HEADER_BYTES;
    if ((err = write_body(run, data, &rebuild)) != OT_OK) return err == OT_ERR_TOO_LARGE ? OT_ERR_CORRUPT : err;
    uint8_t *to = run->sink.data;
    size_t bytes = run->sink.bytes;
    memcpy(to, data, ENG_BATCH_HEADER_BYTES);
    ot_store_u32(to + 8, (uint32_t)(bytes - 12));
    if (horizon_ms >= 0) ot_store_u16(to + 21, (uint16_t)(ot_load_u16(data + 21) | ATTRIBUTE_DELETE_HORIZON));
    ot_store_u64(to + 27, (uint64_t)rebuild.base_timestamp);
    if (info->timestamp_type != ENG_TIMESTAMP_APPEND) ot_store_u64(to + 35, (uint64_t)verdict->max_timestamp);
    ot_store_u32(to + 57, verdict->kept);
    ot_store_u32(to + ENG_BATCH_CRC_POS, ot_crc32c(0, to + ENG_BATCH_CRC_FROM, bytes - ENG_BATCH_CRC_FROM));
    struct eng_batch_info made;
    err = eng_batch_parse(to, bytes, &made);
    if (err != OT_OK) return OT_ERR_CORRUPT;
    err = eng_compact_out_differ(&run->out);
    return err == OT_OK ? eng_compact_out_batch(&run->out, to, &made) : err;
}

/* A wrapper of magic 0 or 1 that loses some of its records comes back as a batch of magic 2: nobody writes the old formats any more. */
static enum ot_err rebuild_legacy(struct eng_compaction *run, const uint8_t *data, const struct eng_batch_info *info, const struct verdict *verdict)
{
    struct eng_batch_builder builder;
    struct eng_batch_fields fields = eng_batch_fields_default();
    struct eng_record_iter iter;
    struct eng_record record;
    struct eng_batch_info made;
    uint32_t stretch = 0;
    fields.base_offset = verdict->first_kept;
    fields.last_offset_delta = info->base_offset - verdict->first_kept;
    fields.codec = info->codec;
    fields.append_time = info->timestamp_type == ENG_TIMESTAMP_APPEND ? info->max_timestamp : -1;
    if (fields.last_offset_delta < 0 || fields.last_offset_delta > INT32_MAX) return OT_ERR_CORRUPT;
    run->sink.bytes = 0;
    enum ot_err err = eng_batch_build_begin(&builder, &fields, run->how->encode, &run->sink);
    if (err == OT_OK) err = open_records(run, data, info, &iter);
    while (err == OT_OK && stretch < run->stretch_count) {
        uint32_t at = (uint32_t)iter.index;
        if ((err = record_error(eng_record_next(&iter, &record))) != OT_OK) break;
        if (at >= run->stretches[stretch].to) stretch++;
        if (stretch < run->stretch_count && at >= run->stretches[stretch].from)
            err = record_error(eng_batch_build_record(&builder, record.offset, record.timestamp, record.key, record.value, NULL, 0));
    }
    if (err == OT_ERR_NOT_FOUND) err = OT_OK;
    if (err == OT_OK) err = record_error(eng_batch_build_finish(&builder));
    if (err == OT_OK) err = record_error(eng_batch_parse(run->sink.data, run->sink.bytes, &made));
    if (err == OT_OK) err = eng_compact_out_differ(&run->out);
    return err == OT_OK ? eng_compact_out_batch(&run->out, run->sink.data, &made) : err;
}

/* ---- the filter ---- */

static const struct eng_producer_last *producer_of(const struct eng_compaction *run, int64_t producer_id)
{
    uint32_t low = 0, high = run->how->producer_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (run->producers[middle].producer_id == producer_id) return &run->producers[middle];
        if (run->producers[middle].producer_id < producer_id) low = middle + 1;
        else high = middle;
    }
    return NULL;
}

/* Nothing of it stays but, where it is the last one of a producer still remembered, its header: a replay finds the sequence there. */
static enum ot_err drop(struct eng_compaction *run, const uint8_t *data, const struct eng_batch_info *info)
{
    uint8_t header[ENG_BATCH_HEADER_BYTES];
    struct eng_batch_info made;
    const struct eng_producer_last *last = info->magic >= 2 && info->producer_id >= 0 ? producer_of(run, info->producer_id) : NULL;
    bool was_empty = info->magic >= 2 && info->record_count == 0;
    if (last == NULL || last->last_offset != eng_batch_last_offset(info)) {
        run->result->batches_dropped++;
        return eng_compact_out_hold(&run->out, info, was_empty);
    }
    if (was_empty) return eng_compact_out_batch(&run->out, data, info);
    eng_compact_empty_batch(info, header);
    enum ot_err err = eng_batch_parse(header, sizeof header, &made);
    run->result->batches_emptied++;
    if (err != OT_OK) return OT_ERR_CORRUPT;
    err = eng_compact_out_differ(&run->out);
    return err == OT_OK ? eng_compact_out_batch(&run->out, header, &made) : err;
}

static int64_t horizon_from(const struct eng_compaction *run)
{
    int64_t now = OT_MAX(run->how->wall_ms, 0), stay = OT_MAX(run->how->rules.delete_retention_ms, 0);
    return stay > INT64_MAX - now ? INT64_MAX : now + stay;
}

static enum ot_err filter_marker(struct eng_compaction *run, const uint8_t *data, const struct eng_batch_info *info, const struct eng_marker *marker)
{
    struct eng_txn_entry entry;
    bool empty;
    enum ot_err err = eng_compact_txns_marker(&run->txns, info, &empty);
    if (err != OT_OK) return err;
    if (!empty && !marker->commit && eng_compact_txns_entry(&run->txns, eng_batch_last_offset(info), &entry)) {
        if ((err = eng_compact_out_aborted(&run->out, &entry)) != OT_OK) return err;
    }
    /* it is all that tells the epoch of a producer without batches: a fenced one must stay so */
    const struct eng_producer_last *last = producer_of(run, info->producer_id);
    bool needed = last != NULL && last->last_offset < 0 && last->epoch == info->producer_epoch;
    if (!empty || needed || info->codec != ENG_CODEC_NONE) return eng_compact_out_batch(&run->out, data, info);
    if (!info->has_delete_horizon) {
        struct verdict verdict = { .total = 1, .kept = (uint32_t)info->record_count, .max_timestamp = info->max_timestamp };
        run->stretches[0] = (struct eng_compact_stretch){ ENG_BATCH_HEADER_BYTES, (uint32_t)info->batch_bytes };
        run->stretch_count = 1;
        return rebuild_batch(run, data, info, &verdict, horizon_from(run));
    }
    if (run->how->wall_ms < info->base_timestamp) return eng_compact_out_batch(&run->out, data, info);
    return drop(run, data, info);
}

static enum ot_err filter_data(struct eng_compaction *run, const uint8_t *data, const struct eng_batch_info *info)
{
    struct verdict verdict;
    bool aborted;
    enum ot_err err = eng_compact_txns_data(&run->txns, info, &aborted);
    if (err != OT_OK) return err;
    if (aborted) {
        run->result->records_read += (uint64_t)OT_MAX(info->record_count, 0);
        return drop(run, data, info);
    }
    if ((err = judge(run, data, info, &verdict)) != OT_OK) return err;
    run->result->records_read += verdict.total;
    run->result->records_kept += verdict.kept;
    if (verdict.kept == 0) return drop(run, data, info);
    bool horizon = info->magic >= 2 && verdict.tombstones && !info->has_delete_horizon;
    if (verdict.kept == verdict.total && !horizon) return eng_compact_out_batch(&run->out, data, info);
    if (info->magic < 2) return rebuild_legacy(run, data, info, &verdict);
    return rebuild_batch(run, data, info, &verdict, horizon ? horizon_from(run) : -1);
}

enum ot_err eng_compact_filter_batch(struct eng_compaction *run, const uint8_t *data, const struct eng_batch_info *info)
{
    struct eng_marker marker;
    if (!info->control) return filter_data(run, data, info);
    if (info->record_count == 0) return drop(run, data, info);
    eng_batch_marker(data, info, &marker);
    if (marker.is_marker) return filter_marker(run, data, info, &marker);
    return eng_compact_out_batch(&run->out, data, info);
}
