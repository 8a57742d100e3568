/* A run: which segments, the passes over them, the groups that become one segment. */
#include "base/log.h"
#include "engine/compact_inner.h"
#include <inttypes.h>
#include <stdlib.h>

#define PACE_BYTES (256u << 10)
#define BUFFER_BYTES_MIN (16u << 10)
#define BUFFER_BYTES_MAX (64u << 20)
#define READ_BYTES_MAX (8u << 20)

int64_t eng_log_first_dirty(const struct eng_log *log) { return atomic_load_explicit(&log->first_dirty, memory_order_acquire); }

/* ---- what there is to do ---- */

struct candidate { struct eng_segment *seg; uint64_t bytes; int64_t base_offset, end_offset, first_timestamp_ms; bool sealed; };

static bool candidate_at(struct eng_log *log, int64_t offset, struct candidate *out)
{
    pthread_mutex_lock(&log->lock);
    bool any = log->segment_count > 0;
    if (any) {
        uint32_t slot = eng_log_slot(log, offset);
        struct eng_segment *seg = log->segments[slot];
        eng_segment_ref(seg);
        *out = (struct candidate){ seg, seg->bytes, seg->base_offset, seg->end_offset, seg->first_timestamp_ms, slot + 1 < log->segment_count };
        if (out->sealed) out->end_offset = log->segments[slot + 1]->base_offset;
    }
    pthread_mutex_unlock(&log->lock);
    return any;
}

/* Of the first batch of a segment, as Kafka reckons the age of dirty records. */
static enum ot_err first_timestamp(struct eng_log *log, struct candidate *candidate)
{
    uint8_t header[ENG_BATCH_HEADER_BYTES];
    struct eng_batch_info info;
    int fd = -1;
    if (candidate->first_timestamp_ms != INT64_MIN || candidate->bytes < sizeof header) return OT_OK;
    enum ot_err err = eng_segment_acquire(candidate->seg, log->dir_path, ENG_SEGMENT_LOG, true, &fd);
    if (err != OT_OK) return err;
    err = ot_io_read_exact(log->io, fd, header, sizeof header, 0);
    eng_segment_release(candidate->seg, ENG_SEGMENT_LOG);
    if (err != OT_OK || eng_batch_parse(header, sizeof header, &info) != OT_OK) return err;
    candidate->first_timestamp_ms = info.max_timestamp;
    pthread_mutex_lock(&log->lock);
    if (candidate->seg->first_timestamp_ms == INT64_MIN) candidate->seg->first_timestamp_ms = info.max_timestamp;
    pthread_mutex_unlock(&log->lock);
    return OT_OK;
}

/* May this dirty segment be cleaned by its age? And how overdue is it? */
static enum ot_err look_dirty(struct eng_log *log, const struct eng_compact_rules *rules, int64_t wall_ms, struct candidate *candidate, bool *may_out,
    struct eng_cleanable *out)
{
    struct eng_indexing times;
    enum ot_err err = OT_OK;
    *may_out = true;
    if (rules->min_lag_ms > 0) {
        if ((err = eng_log_segment_times(log, candidate->seg, &times)) != OT_OK) return err;
        *may_out = times.max_timestamp_ms <= wall_ms - OT_MIN(rules->min_lag_ms, wall_ms);
    }
    if (!*may_out || rules->max_lag_ms <= 0 || rules->max_lag_ms > wall_ms) return OT_OK;
    if ((err = first_timestamp(log, candidate)) != OT_OK || candidate->first_timestamp_ms < 0) return err;
    out->overdue_ms = OT_MAX(out->overdue_ms, wall_ms - rules->max_lag_ms - candidate->first_timestamp_ms);
    return OT_OK;
}

enum ot_err eng_log_cleanable(struct eng_log *log, const struct eng_compact_rules *rules, int64_t limit_offset, int64_t wall_ms, struct eng_cleanable *out)
{
    struct candidate candidate;
    int64_t first = OT_MAX(eng_log_first_dirty(log), eng_log_start_offset(log)), flushed = eng_log_flushed_end(log);
    *out = (struct eng_cleanable){ .first_dirty = first, .end_offset = first, .overdue_ms = 0 };
    if (atomic_load(&log->closed)) return OT_ERR_CLOSED;
    enum ot_err err = OT_OK;
    for (int64_t at = 0; err == OT_OK && candidate_at(log, at, &candidate);) {
        bool may = candidate.sealed && candidate.end_offset <= limit_offset;
        if (may && candidate.end_offset > flushed) {
            out->flush_wanted = true;
            may = false;
        }
        bool dirty = candidate.end_offset > first;
        if (may && dirty) err = look_dirty(log, rules, wall_ms, &candidate, &may, out);
        if (err == OT_OK && may) {
            if (!dirty) out->clean_bytes += candidate.bytes;
            else out->cleanable_bytes += candidate.bytes;
            out->end_offset = OT_MAX(out->end_offset, candidate.end_offset);
        }
        eng_segment_unref(candidate.seg);
        if (!may || candidate.end_offset <= at) break;
        at = candidate.end_offset;
    }
    return err == OT_ERR_CANCELLED ? OT_ERR_BUSY : err;
}

/* ---- the run's things ---- */

enum ot_err eng_compact_pace(struct eng_compaction *run, uint64_t bytes)
{
    run->unpaced_bytes += bytes;
    if (run->unpaced_bytes < PACE_BYTES || run->how->pace == NULL) return OT_OK;
    bytes = run->unpaced_bytes;
    run->unpaced_bytes = 0;
    return run->how->pace(run->how->arg, bytes) ? OT_OK : OT_ERR_CANCELLED;
}

static void drop_sources(struct eng_compaction *run)
{
    for (uint32_t i = 0; i < run->source_count; i++) eng_segment_unref(run->sources[i].seg);
    run->source_count = 0;
}

/* All segments that end at or below end_offset. */
static enum ot_err take_sources(struct eng_compaction *run, int64_t end_offset)
{
    struct eng_log *log = run->log;
    enum ot_err err = OT_OK;
    drop_sources(run);
    pthread_mutex_lock(&log->lock);
    if (run->source_cap < log->segment_count) {
        struct eng_compact_source *grown = realloc(run->sources, log->segment_count * sizeof *grown);
        if (grown == NULL) err = OT_ERR_NO_MEMORY;
        else {
            run->sources = grown;
            run->source_cap = log->segment_count;
        }
    }
    for (uint32_t i = 0; err == OT_OK && i + 1 < log->segment_count; i++) {
        struct eng_segment *seg = log->segments[i];
        int64_t end = log->segments[i + 1]->base_offset;
        if (end > end_offset) break;
        eng_segment_ref(seg);
        run->sources[run->source_count++] = (struct eng_compact_source){ seg, seg->bytes, seg->base_offset, end, seg->last_append_ms };
    }
    run->truncations = log->truncations;
    run->segment_bytes = log->config.segment_bytes;
    run->index_bytes_max = log->config.segment_index_bytes;
    run->out.interval_bytes = log->config.index_interval_bytes;
    pthread_mutex_unlock(&log->lock);
    return err;
}

static int compare_producers(const void *a, const void *b)
{
    int64_t left = ((const struct eng_producer_last *)a)->producer_id, right = ((const struct eng_producer_last *)b)->producer_id;
    return (left > right) - (left < right);
}

static enum ot_err prepare(struct eng_compaction *run, int64_t first_dirty, int64_t end_offset)
{
    const struct eng_compact *how = run->how;
    uint32_t bytes = OT_MIN(OT_MAX(how->buffer_bytes, BUFFER_BYTES_MIN), BUFFER_BYTES_MAX);
    run->read_buffer = malloc(bytes);
    run->read_bytes = bytes;
    run->out.buffer = malloc(bytes);
    run->out.buffer_bytes = bytes;
    run->out.indexes = calloc(1, sizeof *run->out.indexes);
    run->producers = calloc((size_t)how->producer_count + 1, sizeof *run->producers);
    run->stretch_cap = 256;
    run->stretches = calloc(run->stretch_cap, sizeof *run->stretches);
    if (run->read_buffer == NULL || run->out.buffer == NULL || run->out.indexes == NULL || run->producers == NULL || run->stretches == NULL) return OT_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < how->producer_count; i++) run->producers[i] = how->producers[i];
    if (how->producer_count > 1) qsort(run->producers, how->producer_count, sizeof *run->producers, compare_producers);
    return eng_compact_map_init(&run->map, how->map_bytes, how->load_factor, (uint64_t)(end_offset - first_dirty), how->hash_seed);
}

static void finish(struct eng_compaction *run)
{
    eng_compact_out_discard(&run->out);
    drop_sources(run);
    eng_compact_txns_free(&run->txns);
    eng_compact_map_free(&run->map);
    eng_sink_free(&run->sink);
    free(run->sources);
    free(run->read_buffer);
    free(run->out.buffer);
    free(run->out.indexes);
    free(run->producers);
    free(run->stretches);
}

/* ---- scanning ---- */

/* Gives each batch of a source from pos on, checked, to each. */
typedef enum ot_err (*batch_fn)(struct eng_compaction *run, const uint8_t *data, const struct eng_batch_info *info, void *arg);

/* A buffer that holds the largest batch is read into once for each byte. One beyond reason is loaded by itself. */
static void make_room(struct eng_compaction *run, struct eng_scan *scan, uint64_t bytes)
{
    if (bytes <= scan->buffer_cap || bytes > READ_BYTES_MAX) return;
    uint8_t *grown = realloc(run->read_buffer, bytes);
    if (grown == NULL) return;
    run->read_buffer = scan->buffer = grown;
    run->read_bytes = scan->buffer_cap = (uint32_t)bytes;
}

static enum ot_err each_batch(struct eng_compaction *run, const struct eng_compact_source *source, uint64_t pos, batch_fn each, void *arg)
{
    struct eng_log *log = run->log;
    struct eng_scan scan;
    struct eng_batch_info info;
    int64_t expected = source->base_offset;
    int fd = -1;
    enum ot_err err = eng_segment_acquire(source->seg, log->dir_path, ENG_SEGMENT_LOG, true, &fd);
    if (err != OT_OK) return err;
    eng_scan_init(&scan, log->io, fd, pos, source->bytes, run->read_buffer, run->read_bytes);
    scan.check_crc = true;
    for (;;) {
        const uint8_t *data = NULL;
        uint8_t *owned = NULL;
        err = eng_scan_next(&scan, &info);
        if (err == OT_ERR_NOT_FOUND) {
            err = OT_OK;
            break;
        }
        if (err != OT_OK) break;
        make_room(run, &scan, (uint64_t)info.batch_bytes);
        err = eng_scan_load(&scan, &info, ENG_COMPACT_BATCH_BYTES_MAX, &data, &owned);
        if (err == OT_OK) err = each(run, data, &info, arg);
        free(owned);
        run->result->read_bytes += (uint64_t)info.batch_bytes;
        if (err == OT_OK) err = eng_compact_pace(run, (uint64_t)info.batch_bytes);
        if (err != OT_OK) break;
        expected = eng_batch_last_offset(&info) + 1;
    }
    eng_segment_release(source->seg, ENG_SEGMENT_LOG);
    if (err == OT_ERR_CORRUPT || err == OT_ERR_SHORT || err == OT_ERR_TOO_LARGE) {
        pthread_mutex_lock(&log->lock);
        bool cut = run->truncations != log->truncations;
        pthread_mutex_unlock(&log->lock);
        if (cut || atomic_load(&source->seg->retired)) return OT_ERR_CANCELLED;        /* the file ended under us */
        run->result->damaged_offset = expected;
        return OT_ERR_CORRUPT;
    }
    return err;
}

/* ---- pass, first half: the map ---- */

struct mapping { int64_t from_offset; bool full; };

static enum ot_err map_batch(struct eng_compaction *run, const uint8_t *data, const struct eng_batch_info *info, void *arg)
{
    struct mapping *mapping = arg;
    enum ot_err err = eng_compact_map_batch(run, data, info, mapping->from_offset, &mapping->full);
    return err == OT_OK && mapping->full ? OT_ERR_EXISTS : err;        /* ends the scan */
}

static enum ot_err build_map(struct eng_compaction *run, int64_t from_offset)
{
    struct mapping mapping = { from_offset, false };
    enum ot_err err = OT_OK;
    eng_compact_map_clear(&run->map, from_offset);
    eng_compact_txns_free(&run->txns);
    eng_compact_txns_init(&run->txns, run->log);
    run->map_end = from_offset;
    for (uint32_t i = 0; i < run->source_count && err == OT_OK; i++) {
        const struct eng_compact_source *source = &run->sources[i];
        struct eng_found found = { 0 };
        if (source->end_offset <= from_offset || source->bytes == 0) continue;
        if (from_offset > source->base_offset) {
            err = eng_segment_find(source->seg, run->log->dir_path, from_offset, source->bytes, UINT64_MAX, true, &found);
            if (err == OT_ERR_NOT_FOUND) {
                err = OT_OK;
                continue;
            }
        }
        if (err == OT_OK) err = eng_compact_txns_segment(&run->txns, source->seg, source->end_offset);
        if (err == OT_OK) err = each_batch(run, source, found.pos, map_batch, &mapping);
    }
    if (err == OT_ERR_EXISTS) err = OT_OK;
    /* all seen: what lies between the last batch and the end is a hole */
    if (err == OT_OK && !mapping.full) run->map_end = run->sources[run->source_count - 1].end_offset;
    run->result->map_used = OT_MAX(run->result->map_used, eng_compact_map_fill(&run->map));
    return err;
}

/* ---- second half: writing ---- */

static enum ot_err write_batch(struct eng_compaction *run, const uint8_t *data, const struct eng_batch_info *info, void *arg)
{
    uint64_t before = run->out.verbatim != NULL ? 0 : run->out.bytes;
    (void)arg;
    enum ot_err err = eng_compact_filter_batch(run, data, info);
    uint64_t after = run->out.verbatim != NULL ? 0 : run->out.bytes;
    return err == OT_OK ? eng_compact_pace(run, after - before) : err;
}

/* May the next source become part of the segment that is being made? */
static bool joins(const struct eng_compaction *run, const struct eng_compact_source *next)
{
    const struct eng_compact_out *out = &run->out;
    uint64_t entries = (out->bytes + next->bytes) / OT_MAX(out->interval_bytes, 1u) + 2;
    if (out->verbatim != NULL && out->bytes > run->segment_bytes / 2) return false;        /* a large one that stays as it is is not written again for a small one */
    return out->bytes + next->bytes <= run->segment_bytes && next->end_offset - out->base_offset <= INT32_MAX &&
        entries * ENG_INDEX_ENTRY_BYTES <= run->index_bytes_max && entries * ENG_TIME_ENTRY_BYTES <= run->index_bytes_max;
}

/* Sources from `first` on become one segment. *count_out: how many. */
static enum ot_err write_group(struct eng_compaction *run, uint32_t first, uint32_t limit, uint32_t *count_out)
{
    struct eng_compact_source *head = &run->sources[first];
    uint64_t before = 0;
    uint32_t count = 0;
    enum ot_err err = eng_compact_out_begin(&run->out, head->seg, atomic_load(&head->seg->txn_bytes) > 0);
    while (err == OT_OK && first + count < limit && (count == 0 || joins(run, &run->sources[first + count]))) {
        struct eng_compact_source *source = &run->sources[first + count];
        run->legacy_tombstones_stay = source->last_append_ms > run->how->wall_ms - OT_MIN(run->how->rules.delete_retention_ms, run->how->wall_ms);
        if (count > 0) err = eng_compact_out_differ(&run->out);
        if (err == OT_OK) err = eng_compact_txns_segment(&run->txns, source->seg, source->end_offset);
        if (err == OT_OK && source->bytes > 0) err = each_batch(run, source, 0, write_batch, NULL);
        before += source->bytes;
        count++;
    }
    *count_out = count;
    if (err != OT_OK || (count == 1 && !run->out.changed) || (run->out.bytes == 0 && !run->out.tail_held)) {
        if (err == OT_OK) {                /* as it was: the old files stay */
            run->result->size_before += before;
            run->result->size_after += before;
            run->result->segments_after += count;
            run->result->segments_before += count;
        }
        eng_compact_out_discard(&run->out);
        return err;
    }
    err = eng_compact_out_finish(&run->out);
    run->result->written_bytes += run->out.bytes;
    if (err == OT_OK) err = eng_compact_swap(run, first, count);
    if (err != OT_OK) {
        eng_compact_out_discard(&run->out);
        return err;
    }
    run->result->size_before += before;
    run->result->size_after += run->out.bytes;
    run->result->segments_before += count;
    run->result->segments_after++;
    return OT_OK;
}

static enum ot_err write_segments(struct eng_compaction *run)
{
    uint32_t limit = 0;
    enum ot_err err = OT_OK;
    eng_compact_txns_free(&run->txns);
    eng_compact_txns_init(&run->txns, run->log);
    while (limit < run->source_count && run->sources[limit].base_offset < run->map_end) limit++;
    for (uint32_t at = 0, count = 0; at < limit && err == OT_OK; at += count) err = write_group(run, at, limit, &count);
    return err;
}

/* ---- the run ---- */

/* Before the first batch goes: recovery must not look for it, so its point on disk is at or above the end; and the producer state that replay would no longer find in
 * full is in the snapshot there. */
static enum ot_err keep_state(struct eng_compaction *run, int64_t end_offset)
{
    struct eng_log *log = run->log;
    enum ot_err err = take_sources(run, end_offset);
    if (err != OT_OK || run->source_count == 0) return err == OT_OK ? OT_ERR_CANCELLED : err;
    struct eng_segment **segs = calloc(run->source_count, sizeof(struct eng_segment *));
    if (segs == NULL) return OT_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < run->source_count; i++) segs[i] = run->sources[i].seg;
    err = eng_log_keep_state(log, segs, run->source_count, end_offset, run->how->wall_ms);
    free(segs);
    return err == OT_OK ? eng_store_recovery_raise(log->store, log->store_dir, log->name, end_offset) : err;
}

static void clean_up_to(struct eng_compaction *run, int64_t offset)
{
    struct eng_log *log = run->log;
    pthread_mutex_lock(&log->lock);
    if (run->truncations == log->truncations && offset > atomic_load(&log->first_dirty)) atomic_store_explicit(&log->first_dirty, offset, memory_order_release);
    pthread_mutex_unlock(&log->lock);
}

static enum ot_err passes(struct eng_compaction *run, int64_t first_dirty, int64_t end_offset)
{
    enum ot_err err = OT_OK;
    while (err == OT_OK && first_dirty < end_offset) {
        if ((err = take_sources(run, end_offset)) != OT_OK) break;
        if (run->source_count == 0) return OT_ERR_CANCELLED;
        if ((err = build_map(run, first_dirty)) != OT_OK) break;
        if (run->map_end <= first_dirty) return OT_ERR_NO_MEMORY;      /* not one key found room */
        if ((err = write_segments(run)) != OT_OK) break;
        run->result->passes++;
        first_dirty = run->map_end;
        clean_up_to(run, first_dirty);
    }
    return err;
}

enum ot_err eng_log_compact(struct eng_log *log, const struct eng_compact *how, struct eng_compacted *out)
{
    struct eng_cleanable cleanable;
    *out = (struct eng_compacted){ .first_dirty = eng_log_first_dirty(log), .damaged_offset = -1 };
    if (eng_log_read_only(log)) return eng_log_why(log);
    enum ot_err err = eng_log_cleanable(log, &how->rules, how->limit_offset, how->wall_ms, &cleanable);
    if (err != OT_OK || cleanable.end_offset <= cleanable.first_dirty) return err;
    struct eng_compaction *run = calloc(1, sizeof *run);
    if (run == NULL) return OT_ERR_NO_MEMORY;
    run->log = run->out.log = log;
    run->how = how;
    run->result = out;
    run->out.log_fd = run->out.txn_fd = -1;
    eng_compact_txns_init(&run->txns, log);
    eng_sink_malloc(&run->sink, INT32_MAX);
    err = prepare(run, cleanable.first_dirty, cleanable.end_offset);
    if (err == OT_OK) err = keep_state(run, cleanable.end_offset);
    if (err == OT_OK) err = passes(run, cleanable.first_dirty, cleanable.end_offset);
    out->first_dirty = eng_log_first_dirty(log);
    finish(run);
    free(run);
    eng_store_reap(log->store, 256ull << 20);
    if (err == OT_ERR_TOO_LARGE || err == OT_ERR_MISMATCH) err = OT_ERR_CORRUPT;
    return err;
}
