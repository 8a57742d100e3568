/* Compaction of one log over the simulated disk: appends, transactions, rolls, flushes, runs with tiny maps, the power cut at any call of them, restarts; against a
 * list of all that was ever appended.
 *
 *   ottla_sim_compact [--seed N] [--seeds N] [--from N] [--bug NAME] [--verbose]
 * After every run and restart: what lies at an offset is what was appended there; the last value of each key is there, below what was cleaned and above; a tombstone
 * is there until its horizon is past; nothing above the cleaned stretch has changed; a transaction has its marker while anything of it is left, and an aborted one its
 * entry in the index; producers are remembered as if nothing had been removed, their last five batches too; files and indexes are sound. After a run that ended well
 * superseded, aborted and keyless records below its end are gone. A failing seed replays exactly. */
#include "base/log.h"
#include "disk.h"
#include "mutations.h"
#include "engine/batch_build.h"
#include "engine/compact.h"
#include "engine/compact_inner.h"
#include "engine/store.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIR_PATH "/sim/a/keys-0"
enum { BATCHES_MAX = 3000, RECORDS_MAX = 6, KEYS = 14, PLAIN = 3, TXNS = 3, PRODUCERS = PLAIN + TXNS };
static const char *const dirs[] = { "/sim/a" };

/* ---- bugs put in on purpose, by the linker's --wrap ---- */

static const char *const bugs[] = { "none", "drops-last-value", "aborted-kept", "markers-go-early", "swap-not-completed", "recovery-not-raised", "state-not-kept",
    "forgets-producers", "no-dir-sync", "no-file-sync", "tombstones-go-at-once", "offsets-shift", "torn-group" };
enum bug { NONE, DROPS_LAST_VALUE, ABORTED_KEPT, MARKERS_GO_EARLY, SWAP_NOT_COMPLETED, RECOVERY_NOT_RAISED, STATE_NOT_KEPT, FORGETS_PRODUCERS, NO_DIR_SYNC, NO_FILE_SYNC,
    TOMBSTONES_GO_AT_ONCE, OFFSETS_SHIFT, TORN_GROUP };
static enum bug bug;

#define WRAP(type, name, ...) type __real_##name(__VA_ARGS__); type __wrap_##name(__VA_ARGS__); type __wrap_##name(__VA_ARGS__)

WRAP(int64_t, eng_compact_map_get, const struct eng_compact_map *map, const struct eng_compact_hash *hash)
{
    int64_t offset = __real_eng_compact_map_get(map, hash);
    return bug == DROPS_LAST_VALUE && offset % 7 == 3 ? offset + 1 : offset;
}

WRAP(enum ot_err, eng_compact_txns_data, struct eng_compact_txns *txns, const struct eng_batch_info *info, bool *aborted_out)
{
    enum ot_err err = __real_eng_compact_txns_data(txns, info, aborted_out);
    if (bug == ABORTED_KEPT) *aborted_out = false;
    return err;
}

WRAP(enum ot_err, eng_compact_txns_marker, struct eng_compact_txns *txns, const struct eng_batch_info *info, bool *empty_out)
{
    enum ot_err err = __real_eng_compact_txns_marker(txns, info, empty_out);
    if (bug == MARKERS_GO_EARLY) *empty_out = true;
    return err;
}

WRAP(enum ot_err, eng_log_recover_swap, struct eng_log *log) { return bug == SWAP_NOT_COMPLETED ? OT_OK : __real_eng_log_recover_swap(log); }

WRAP(enum ot_err, eng_store_recovery_raise, struct eng_store *store, uint32_t dir, const char *name, int64_t offset)
{
    return bug == RECOVERY_NOT_RAISED ? OT_OK : __real_eng_store_recovery_raise(store, dir, name, offset);
}

WRAP(enum ot_err, eng_log_keep_state, struct eng_log *log, struct eng_segment *const *segs, uint32_t count, int64_t end_offset, int64_t wall_ms)
{
    return bug == STATE_NOT_KEPT ? OT_OK : __real_eng_log_keep_state(log, segs, count, end_offset, wall_ms);
}

WRAP(enum ot_err, eng_compact_out_hold, struct eng_compact_out *out, const struct eng_batch_info *info, bool was_empty)
{
    if (bug == TORN_GROUP) return eng_compact_out_differ(out);         /* a segment need not end with its last batch */
    return __real_eng_compact_out_hold(out, info, was_empty);
}

WRAP(enum ot_err, eng_compact_out_batch, struct eng_compact_out *out, const uint8_t *data, const struct eng_batch_info *info)
{
    struct eng_batch_info moved = *info;
    uint8_t copy[4096];
    if (bug != OFFSETS_SHIFT || info->record_count != 1 || (size_t)info->batch_bytes > sizeof copy) return __real_eng_compact_out_batch(out, data, info);
    memcpy(copy, data, (size_t)info->batch_bytes);         /* the base is not under the CRC */
    moved.base_offset += moved.last_offset_delta > 0;
    eng_batch_stamp(copy, moved.base_offset, info->partition_leader_epoch);
    return __real_eng_compact_out_batch(out, copy, &moved);
}

static struct ot_io_ops real_ops, lying_ops;
static enum ot_err no_file_sync(struct ot_io *io, int fd) { (void)io, (void)fd; return OT_OK; }

/* ---- the model ---- */

struct record { int key; uint32_t value; bool tombstone; };            /* key -1: none */
struct batch {
    int64_t base, last, timestamp;
    int producer;                          /* index, -1 none */
    int32_t sequence;
    bool transactional, marker, commit;
    struct record records[RECORDS_MAX];
    int count;
    uint8_t header[ENG_BATCH_HEADER_BYTES];
};
struct world {
    uint64_t seed, trace;
    struct ot_rng rng;
    struct sim_disk *disk;
    struct eng_store *store;
    struct eng_log *log;
    struct ot_pool *pool;
    struct eng_decode *decode;
    struct eng_encode *encode;
    struct batch *batches; uint32_t count;
    int64_t flushed, wall_ms;
    int32_t sequences[PRODUCERS];
    bool open[PRODUCERS];
    uint32_t values;
    /* what runs may have done: ranges tried so far, and their times */
    int64_t tried_end;                     /* no run went above */
    int64_t decided_end;                   /* what runs took for committed: never cut again */
    int64_t done_end;                      /* a run that ended well cleaned up to here */
    struct try { int64_t end, wall_ms; } tries[400]; uint32_t try_count;
    int64_t retention_ms;
    uint64_t runs, crashes, removed, swaps;
    bool verbose;
    bool gentle;                           /* no machine crash, no truncation: then producers are known without snapshots too, by what runs kept for them */
    bool no_snapshots;                     /* they were taken away */
    bool holes;                            /* the machine lost batches before others that stayed: only a compacted log goes on with such */
};

static void tell(const struct world *w, const char *what, int64_t a, int64_t b)
{
    if (!w->verbose || w->log == NULL) return;
    struct eng_segment_info info[64];
    uint32_t count = eng_log_segments(w->log, info, 64);
    fprintf(stderr, "%s %lld %lld: end %lld flushed %lld:", what, (long long)a, (long long)b, (long long)eng_log_end_offset(w->log), (long long)eng_log_flushed_end(w->log));
    for (uint32_t s = 0; s < OT_MIN(count, 64u); s++) fprintf(stderr, " [%lld,%lld)%llu", (long long)info[s].base_offset, (long long)info[s].end_offset, (unsigned long long)info[s].log_bytes);
    fprintf(stderr, "\n");
}

#define CHECK(w, fact, ...) do { if (!(fact)) fail(w, __LINE__, #fact, __VA_ARGS__); } while (0)
OT_NORETURN static void OT_PRINTF(4, 5) fail(const struct world *w, int line, const char *fact, const char *format, ...)
{
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "FAILED seed %llu line %d: %s: %s\n", (unsigned long long)w->seed, line, fact, text);
    tell(w, "cleaned", w->done_end, w->tried_end);
    exit(1);
}

static void note(struct world *w, uint64_t a, uint64_t b) { w->trace = w->trace * 0x9e3779b97f4a7c15u + a * 31 + b; }

static const struct batch *batch_at(const struct world *w, int64_t offset)
{
    uint32_t low = 0, high = w->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (w->batches[middle].last < offset) low = middle + 1;
        else high = middle;
    }
    return low < w->count && w->batches[low].base <= offset ? &w->batches[low] : NULL;
}

/* The marker that ended the transaction of this data batch; NULL: open. */
static const struct batch *marker_of(const struct world *w, const struct batch *batch)
{
    for (const struct batch *at = batch + 1; at < w->batches + w->count; at++)
        if (at->marker && at->producer == batch->producer) return at;
    return NULL;
}

static bool counts(const struct world *w, const struct batch *batch)
{
    if (batch->marker) return false;
    const struct batch *marker = batch->transactional ? marker_of(w, batch) : NULL;
    return !batch->transactional || (marker != NULL && marker->commit);
}

/* Is there a later record of the key below end? */
static bool superseded(const struct world *w, const struct batch *batch, int index, int64_t end)
{
    int key = batch->records[index].key;
    for (const struct batch *at = batch; at < w->batches + w->count && at->base < end; at++) {
        if (!counts(w, at)) continue;
        for (int i = at == batch ? index + 1 : 0; i < at->count; i++)
            if (at->records[i].key == key && at->base + i < end) return true;
    }
    return false;
}

/* May a tombstone be gone? Only when a run that covered it came a retention after another one that did. */
static bool horizon_past(const struct world *w, int64_t offset)
{
    int64_t first = -1;
    for (uint32_t i = 0; i < w->try_count; i++) {
        if (w->tries[i].end <= offset) continue;
        if (first >= 0 && w->tries[i].wall_ms >= first + w->retention_ms) return true;
        if (first < 0 || w->tries[i].wall_ms < first) first = w->tries[i].wall_ms;
    }
    return false;
}

static bool must_be_there(const struct world *w, const struct batch *batch, int index)
{
    int64_t offset = batch->base + index;
    const struct record *record = &batch->records[index];
    if (offset >= w->tried_end) return true;
    if (!counts(w, batch)) return false;
    if (record->key < 0 || superseded(w, batch, index, w->tried_end)) return false;
    return !record->tombstone || !horizon_past(w, offset);
}

static bool must_be_gone(const struct world *w, const struct batch *batch, int index)
{
    if (batch->base + index >= w->done_end) return false;
    return !counts(w, batch) || batch->records[index].key < 0 || superseded(w, batch, index, w->done_end);
}

/* ---- the log and its store ---- */

static void checkpoint_row(void *arg, const struct eng_checkpoint_row *row)
{
    if (strcmp(row->topic, "keys") == 0) *(int64_t *)arg = row->offset;
}

static struct eng_log_config log_config(struct world *w)
{
    bool compact = ot_rng_chance(&w->rng, 0.7) || w->holes;        /* the operator changed cleanup.policy: what was compacted stays */
    return (struct eng_log_config){ .segment_bytes = 1500, .segment_ms = INT64_MAX, .segment_index_bytes = 4096, .index_interval_bytes = 200, .retention_ms = -1,
        .retention_bytes = -1, .delete_enabled = false, .compact_enabled = compact, .producer_expiry_ms = INT64_MAX, .producers_max = 100 };
}

static bool open_log(struct world *w, bool clean)
{
    struct eng_store_config config = { .dirs = dirs, .dir_count = 1, .files_max = 4 + (uint32_t)ot_rng_below(&w->rng, 20), .maps_max = 2, .append_mapped_bytes_max = 1u << 20 };
    struct eng_log_open how = { .dir_path = DIR_PATH, .clean = clean, .wall_ms = w->wall_ms, .config = log_config(w) };
    struct eng_recovery recovery;
    uint32_t bad = 0;
    memset(how.topic_id.bytes, 9, sizeof how.topic_id.bytes);
    if (eng_store_open(sim_disk_io(w->disk), &config, &w->store, &bad) != OT_OK) return false;
    ot_ignore(eng_store_checkpoint_load(w->store, 0, ENG_CHECKPOINT_RECOVERY, checkpoint_row, &how.recovery_point), "0 then");
    ot_ignore(eng_store_checkpoint_load(w->store, 0, ENG_CHECKPOINT_START, checkpoint_row, &how.log_start_offset), "0 then");
    ot_ignore(eng_store_checkpoint_load(w->store, 0, ENG_CHECKPOINT_CLEANER, checkpoint_row, &how.first_dirty), "0 then");
    how.settled = !clean && w->seed % 3 == 1 && sim_disk_io(w->disk)->ops->sync_all(sim_disk_io(w->disk), dirs[0]) == OT_OK;
    enum ot_err err = eng_log_open(w->store, &how, &w->log, &recovery);
    how.settled = false;
    if (err != OT_ERR_MISMATCH || w->flushed > 0) return err == OT_OK;
    /* a crash before the first sync left records and no partition.metadata: the broker sets such a folder aside and begins anew */
    if (eng_store_set_aside(w->store, 0, "keys", 0) != OT_OK) return false;
    how.recovery_point = how.log_start_offset = how.first_dirty = 0;
    w->tried_end = w->decided_end = w->done_end = 0;
    w->try_count = 0;
    return eng_log_open(w->store, &how, &w->log, &recovery) == OT_OK;
}

static void close_log(struct world *w)
{
    ot_ignore(eng_log_close(w->log, true), "the power may be off");
    eng_store_close(w->store);
    w->log = NULL;
    w->store = NULL;
}

static void write_checkpoints(struct world *w)
{
    static const enum eng_checkpoint kinds[] = { ENG_CHECKPOINT_RECOVERY, ENG_CHECKPOINT_START, ENG_CHECKPOINT_CLEANER };
    int64_t offsets[] = { eng_log_flushed_end(w->log), eng_log_start_offset(w->log), eng_log_first_dirty(w->log) };
    for (size_t i = 0; i < OT_ARRAY_COUNT(kinds); i++) {
        struct eng_checkpoint_row row = { "keys", 0, offsets[i] };
        if (ot_rng_chance(&w->rng, 0.8)) ot_ignore(eng_store_checkpoint_write(w->store, 0, kinds[i], &row, 1, true), "a stale one is good too");
    }
}

/* ---- checks ---- */

static bool *present_offsets(struct world *w, int64_t end)
{
    bool *present = calloc((size_t)end + 1, sizeof(bool));
    CHECK(w, present != NULL, "%s", "memory");
    return present;
}

static void check_records(struct world *w, const struct batch *batch, const uint8_t *data, const struct eng_batch_info *info, bool *present)
{
    struct eng_record_iter iter;
    struct eng_record record;
    enum ot_err err;
    CHECK(w, eng_record_open(&iter, w->decode, data, (size_t)info->batch_bytes, 0) == OT_OK, "batch %lld does not open", (long long)info->base_offset);
    while ((err = eng_record_next(&iter, &record)) == OT_OK) {
        int64_t index = record.offset - batch->base;
        char key[24] = "", value[24] = "", want_key[24], want_value[24];
        CHECK(w, index >= 0 && index < OT_MAX(batch->count, 1), "a record at %lld of batch %lld", (long long)record.offset, (long long)batch->base);
        present[record.offset] = true;
        if (batch->marker) continue;
        const struct record *want = &batch->records[index];
        snprintf(key, sizeof key, "%.*s", (int)record.key.bytes, record.key.null ? "" : (const char *)record.key.data);
        snprintf(value, sizeof value, "%.*s", (int)record.value.bytes, record.value.null ? "" : (const char *)record.value.data);
        snprintf(want_key, sizeof want_key, "k%d", want->key);
        snprintf(want_value, sizeof want_value, "%u", want->value);
        CHECK(w, record.key.null == (want->key < 0) && (want->key < 0 || strcmp(key, want_key) == 0), "key %s at %lld, it was %s", key, (long long)record.offset, want_key);
        CHECK(w, record.value.null == want->tombstone && (want->tombstone || strcmp(value, want_value) == 0), "value %s at %lld, it was %s", value, (long long)record.offset, want_value);
        CHECK(w, record.timestamp == batch->timestamp + index, "timestamp %lld at %lld", (long long)record.timestamp, (long long)record.offset);
    }
    CHECK(w, err == OT_ERR_NOT_FOUND, "batch %lld: %s", (long long)info->base_offset, ot_err_name(err));
}

/* Of a batch that lies in the log: is it as it was, and is its transaction's end known? */
static void check_batch(struct world *w, const uint8_t *data, const struct eng_batch_info *info, bool *present)
{
    struct eng_batch_info was;
    const struct batch *batch = batch_at(w, eng_batch_last_offset(info));
    CHECK(w, eng_batch_check_crc(data, info) == OT_OK, "bad CRC at %lld", (long long)info->base_offset);
    CHECK(w, batch != NULL && batch->base == info->base_offset && batch->last == eng_batch_last_offset(info), "a batch [%lld, %lld] that nobody wrote",
        (long long)info->base_offset, (long long)eng_batch_last_offset(info));
    CHECK(w, eng_batch_parse(batch->header, sizeof batch->header, &was) == OT_OK && was.producer_id == info->producer_id && was.producer_epoch == info->producer_epoch &&
        was.base_sequence == info->base_sequence && was.transactional == info->transactional && was.control == info->control &&
        was.partition_leader_epoch == info->partition_leader_epoch, "the header at %lld has changed", (long long)info->base_offset);
    CHECK(w, info->base_offset < w->tried_end || memcmp(data, batch->header, sizeof batch->header) == 0, "the batch at %lld lies above and has changed", (long long)info->base_offset);
    CHECK(w, info->record_count == 0 || info->codec == was.codec, "another codec at %lld", (long long)info->base_offset);
    check_records(w, batch, data, info, present);
}

static void check_aborted(struct world *w, const struct batch *batch, const struct batch *marker)
{
    struct eng_aborted list[256];
    uint32_t count = 0;
    enum ot_err err = eng_log_aborted(w->log, batch->base, batch->last + 1, list, 256, &count);
    CHECK(w, err == OT_OK && count <= 256, "aborted transactions of %lld: %s", (long long)batch->base, ot_err_name(err));
    for (uint32_t i = 0; i < count; i++)
        if (list[i].producer_id == batch->producer + 100 && list[i].first_offset <= batch->base && list[i].last_offset == marker->last) return;
    CHECK(w, false, "the aborted batch at %lld is not indexed", (long long)batch->base);
}

static void check_transactions(struct world *w, const bool *present, const bool *batch_there, int64_t end)
{
    for (uint32_t i = 0; i < w->count && w->batches[i].base < end; i++) {
        const struct batch *batch = &w->batches[i];
        if (batch->marker || !batch->transactional || !batch_there[batch->base]) continue;
        const struct batch *marker = marker_of(w, batch);
        if (marker == NULL || marker->last >= end) continue;
        CHECK(w, present[marker->base], "the batch at %lld is there, its marker at %lld is not", (long long)batch->base, (long long)marker->base);
        if (!marker->commit && present[batch->base]) check_aborted(w, batch, marker);
    }
}

static size_t read_spans(struct world *w, const struct eng_read_result *result, uint8_t *data, size_t cap)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < result->span_count; i++) {
        OT_ASSERT(bytes + result->spans[i].bytes <= cap);
        enum ot_err err = ot_io_read_exact(sim_disk_io(w->disk), result->spans[i].fd, data + bytes, result->spans[i].bytes, result->spans[i].pos);
        CHECK(w, err == OT_OK, "a span is short: %s", ot_err_name(err));
        bytes += result->spans[i].bytes;
    }
    return bytes;
}

static void check_content(struct world *w)
{
    int64_t offset = eng_log_start_offset(w->log), end = eng_log_end_offset(w->log);
    bool *present = present_offsets(w, end), *batch_there = present_offsets(w, end);
    uint8_t *data = malloc(1u << 18);
    OT_ASSERT(data != NULL);
    while (offset < end) {
        struct eng_read how = { .offset = offset, .limit_offset = end, .max_bytes = 1 + (uint32_t)ot_rng_below(&w->rng, 1u << 14), .min_one = true, .may_block = true };
        struct eng_read_result result = { 0 };
        enum ot_err err = eng_log_read(w->log, &how, &result);
        /* a hole up to the end: the last segment is empty, and a crash took what lay before it */
        if (err == OT_OK && result.bytes == 0 && (w->count == 0 || w->batches[w->count - 1].last < offset)) break;
        CHECK(w, err == OT_OK && result.bytes > 0, "nothing at %lld of %lld: %s", (long long)offset, (long long)end, ot_err_name(err));
        size_t bytes = read_spans(w, &result, data, 1u << 18);
        result.pin->release(result.pin);
        struct ot_reader cursor = ot_reader_over(data, bytes);
        struct eng_batch_piece piece;
        int64_t before = offset;
        while (eng_batch_split(&cursor, &piece) == OT_OK) {
            struct eng_batch_info info;
            CHECK(w, eng_batch_parse(piece.data, piece.bytes, &info) == OT_OK, "no batch at %lld", (long long)offset);
            if (eng_batch_last_offset(&info) < offset) continue;
            check_batch(w, piece.data, &info, present);
            batch_there[info.base_offset] = true;
            offset = eng_batch_last_offset(&info) + 1;
        }
        CHECK(w, offset > before, "no progress at %lld", (long long)offset);
    }
    int64_t start = eng_log_start_offset(w->log);
    for (uint32_t i = 0; i < w->count && w->batches[i].base < end; i++) {
        const struct batch *batch = &w->batches[i];
        CHECK(w, !batch->marker || batch->base < w->tried_end || present[batch->base], "the marker at %lld is gone", (long long)batch->base);
        for (int r = 0; r < batch->count; r++) {
            int64_t at = batch->base + r;
            if (at < start || batch->marker) continue;
            CHECK(w, present[at] || !must_be_there(w, batch, r), "the record at %lld (key %d) is gone; cleaned below %lld", (long long)at, batch->records[r].key, (long long)w->tried_end);
            CHECK(w, !present[at] || !must_be_gone(w, batch, r), "the record at %lld (key %d) is still there; cleaned below %lld", (long long)at, batch->records[r].key,
                (long long)w->done_end);
            w->removed += !present[at];
        }
    }
    check_transactions(w, present, batch_there, end);
    free(present);
    free(batch_there);
    free(data);
}

/* The log's producers against a replay of everything. */
static void check_producers(struct world *w)
{
    struct eng_producers *producers = NULL;
    int64_t end = eng_log_end_offset(w->log);
    OT_ASSERT(eng_producers_new(100, INT64_MAX, &producers) == OT_OK);
    for (uint32_t i = 0; i < w->count && w->batches[i].last < end; i++) {
        struct eng_batch_info info;
        struct eng_marker marker = { .is_marker = w->batches[i].marker, .commit = w->batches[i].commit };
        OT_ASSERT(eng_batch_parse(w->batches[i].header, ENG_BATCH_HEADER_BYTES, &info) == OT_OK);
        if (info.producer_id >= 0) OT_ASSERT(eng_producers_replay(producers, &info, info.control ? &marker : NULL) == OT_OK);
    }
    for (int p = 0; p < PRODUCERS; p++) {
        struct eng_producer_view want, have;
        bool known = eng_producers_find(producers, p + 100, false, &want);
        bool there = eng_producers_find(eng_log_producers(w->log), p + 100, false, &have);
        CHECK(w, known == there, "producer %d is %s", p, there ? "known and wrote nothing" : "forgotten");
        if (!known) continue;
        CHECK(w, have.last_sequence == want.last_sequence && have.epoch == want.epoch, "producer %d: sequence %d epoch %d, it was %d and %d", p, have.last_sequence, have.epoch,
            want.last_sequence, want.epoch);
        CHECK(w, have.current_txn_first_offset == want.current_txn_first_offset, "producer %d: transaction from %lld, it was %lld", p, (long long)have.current_txn_first_offset,
            (long long)want.current_txn_first_offset);
    }
    for (uint32_t i = 0; i < w->count && w->batches[i].last < end && !w->no_snapshots; i++) {      /* what is a duplicate stays one */
        struct eng_producer_check want, have;
        struct eng_batch_info info;
        if (w->batches[i].producer < 0 || w->batches[i].producer >= PLAIN) continue;
        OT_ASSERT(eng_batch_parse(w->batches[i].header, ENG_BATCH_HEADER_BYTES, &info) == OT_OK);
        eng_producers_check(producers, &info, NULL, ENG_ORIGIN_CLIENT, 0, &want);
        eng_producers_check(eng_log_producers(w->log), &info, NULL, ENG_ORIGIN_CLIENT, 0, &have);
        CHECK(w, want.duplicate == have.duplicate && (!want.duplicate || want.duplicate_base_offset == have.duplicate_base_offset), "the batch at %lld: duplicate %d, it was %d",
            (long long)info.base_offset, have.duplicate, want.duplicate);
    }
    eng_producers_free(producers);
}

static void fault(void *arg, const char *text)
{
    struct world *w = arg;
    CHECK(w, text == NULL, "%s", text);
}

static void check_all(struct world *w)
{
    check_content(w);
    check_producers(w);
    CHECK(w, eng_log_verify(w->log, fault, w) == OT_OK, "%s", "verify");
}

/* ---- acts ---- */

static void completed(void *arg, const struct eng_completed_txn *txn)
{
    struct world *w = arg;
    ot_ignore(eng_log_add_aborted(w->log, txn), "the power may be off");
    eng_producers_advance(eng_log_producers(w->log), INT64_MAX);
}

static enum ot_err roll(struct world *w)
{
    struct eng_producers *producers = eng_log_producers(w->log);
    size_t bytes = eng_producers_snapshot_bytes(producers);
    uint8_t *data = malloc(bytes + 1);
    OT_ASSERT(data != NULL);
    struct ot_writer writer = ot_writer_over(data, bytes);
    OT_ASSERT(eng_producers_snapshot(producers, &writer) == OT_OK);
    struct ot_blob blob = { data, (uint32_t)bytes, false };
    enum ot_err err = ot_rng_chance(&w->rng, 0.15) ? eng_log_snapshot(w->log, &blob) : eng_log_roll(w->log, &blob, w->wall_ms);
    free(data);
    return err;
}

/* As the lane does it. False: the power went off; the batch may be there or not. */
static bool put(struct world *w, struct batch *batch, const uint8_t *data, size_t bytes)
{
    struct eng_batch_info info;
    struct eng_marker marker = { .is_marker = batch->marker, .commit = batch->commit };
    uint32_t written = 0;
    OT_ASSERT(eng_batch_parse(data, bytes, &info) == OT_OK);
    memcpy(batch->header, data, ENG_BATCH_HEADER_BYTES);
    struct eng_append_batch append = { .data = data, .bytes = (uint32_t)bytes, .base_offset = batch->base, .last_offset = batch->last, .max_timestamp = info.max_timestamp,
        .max_timestamp_offset = batch->last };
    enum ot_err err = OT_OK;
    if (eng_log_fits(w->log, &append, 1, w->wall_ms) == 0) {
        while (err == OT_OK && eng_log_fits(w->log, &append, 1, w->wall_ms) == 0) err = roll(w);
    }
    w->batches[w->count++] = *batch;
    if (err != OT_OK) return false;
    if (info.producer_id >= 0) OT_ASSERT(eng_producers_pend(eng_log_producers(w->log), &info, batch->base, batch->last, info.control ? &marker : NULL, w->wall_ms) == OT_OK);
    if (eng_log_append(w->log, &append, 1, w->wall_ms, &written) != OT_OK || written != 1) return false;
    eng_producers_commit(eng_log_producers(w->log), eng_log_end_offset(w->log), completed, w);
    return true;
}

static void append_data(struct world *w)
{
    struct batch batch = { .base = eng_log_end_offset(w->log), .timestamp = w->wall_ms, .producer = -1, .sequence = -1 };
    struct eng_sink sink;
    struct eng_batch_builder builder;
    struct eng_batch_fields fields = eng_batch_fields_default();
    if (ot_rng_chance(&w->rng, 0.6)) {
        batch.producer = (int)ot_rng_below(&w->rng, PRODUCERS);
        batch.transactional = batch.producer >= PLAIN;
        batch.sequence = w->sequences[batch.producer];
        fields.producer_id = batch.producer + 100;
        fields.producer_epoch = 0;
        fields.base_sequence = batch.sequence;
        fields.transactional = batch.transactional;
    }
    fields.base_offset = batch.base;
    fields.leader_epoch = 0;
    fields.codec = ot_rng_chance(&w->rng, 0.4) ? (enum eng_codec)ot_rng_below(&w->rng, ENG_CODEC_COUNT) : ENG_CODEC_NONE;
    batch.count = 1 + (int)ot_rng_below(&w->rng, RECORDS_MAX);
    batch.last = batch.base + batch.count - 1;
    eng_sink_malloc(&sink, 1u << 16);
    OT_ASSERT(eng_batch_build_begin(&builder, &fields, w->encode, &sink) == OT_OK);
    for (int i = 0; i < batch.count; i++) {
        struct record *record = &batch.records[i];
        char key[24], value[24];
        *record = (struct record){ ot_rng_chance(&w->rng, 0.05) ? -1 : (int)ot_rng_below(&w->rng, KEYS), ++w->values, ot_rng_chance(&w->rng, 0.15) };
        int key_bytes = snprintf(key, sizeof key, "k%d", record->key), value_bytes = snprintf(value, sizeof value, "%u", record->value);
        OT_ASSERT(eng_batch_build_record(&builder, batch.base + i, batch.timestamp + i, (struct ot_blob){ (uint8_t *)key, (uint32_t)key_bytes, record->key < 0 },
            (struct ot_blob){ (uint8_t *)value, (uint32_t)value_bytes, record->tombstone }, NULL, 0) == OT_OK);
    }
    OT_ASSERT(eng_batch_build_finish(&builder) == OT_OK);
    bool done = put(w, &batch, sink.data + builder.start, sink.bytes - builder.start);
    eng_sink_free(&sink);
    if (!done || batch.producer < 0) return;
    w->sequences[batch.producer] += batch.count;
    if (batch.transactional) w->open[batch.producer] = true;
}

static void append_marker(struct world *w)
{
    int producer = PLAIN + (int)ot_rng_below(&w->rng, TXNS);
    struct batch batch = { .base = eng_log_end_offset(w->log), .last = eng_log_end_offset(w->log), .timestamp = w->wall_ms, .producer = producer, .sequence = -1,
        .transactional = true, .marker = true, .commit = ot_rng_chance(&w->rng, 0.6) };
    uint8_t data[ENG_MARKER_BYTES];
    if (!w->open[producer]) return;
    size_t bytes = eng_batch_build_marker(data, producer + 100, 0, 0, 0, batch.commit, w->wall_ms);
    eng_batch_stamp(data, batch.base, 0);
    if (put(w, &batch, data, bytes)) w->open[producer] = false;
}

static int64_t first_open(const struct world *w)
{
    for (uint32_t i = 0; i < w->count; i++)
        if (w->batches[i].transactional && !w->batches[i].marker) {
            const struct batch *marker = marker_of(w, &w->batches[i]);
            if (marker == NULL || marker->last >= w->flushed) return w->batches[i].base;       /* a crash may take the marker back */
        }
    return INT64_MAX;
}

static void compact(struct world *w)
{
    struct eng_producer_last producers[PRODUCERS];
    struct eng_compacted done;
    struct eng_cleanable cleanable;
    struct eng_compact how = { .rules = { .min_lag_ms = ot_rng_chance(&w->rng, 0.2) ? 300 : 0, .max_lag_ms = INT64_MAX, .delete_retention_ms = w->retention_ms },
        .limit_offset = OT_MIN(w->flushed, first_open(w)), .wall_ms = w->wall_ms, .map_bytes = 16 * (4 + ot_rng_below(&w->rng, 40)), .load_factor = 0.9,
        .buffer_bytes = 1, .hash_seed = { w->seed, 77 }, .decode = w->decode, .encode = w->encode, .producers = producers };
    how.producer_count = bug == FORGETS_PRODUCERS ? 0 : eng_producers_last(eng_log_producers(w->log), producers, PRODUCERS);
    if (bug == TOMBSTONES_GO_AT_ONCE) how.rules.delete_retention_ms = 0;
    if (eng_log_cleanable(w->log, &how.rules, how.limit_offset, w->wall_ms, &cleanable) != OT_OK || cleanable.end_offset <= cleanable.first_dirty) return;
    if (w->try_count == OT_ARRAY_COUNT(w->tries)) return;
    w->tries[w->try_count++] = (struct try){ cleanable.end_offset, w->wall_ms };
    w->tried_end = OT_MAX(w->tried_end, cleanable.end_offset);
    w->decided_end = OT_MAX(w->decided_end, w->flushed);
    if (ot_rng_chance(&w->rng, 0.3)) sim_disk_power_off_after(w->disk, ot_rng_below(&w->rng, ot_rng_chance(&w->rng, 0.5) ? 60 : 400));
    enum ot_err err = eng_log_compact(w->log, &how, &done);
    CHECK(w, err == OT_OK || sim_disk_is_off(w->disk), "compaction: %s", ot_err_name(err));
    tell(w, "compacted", cleanable.end_offset, (int64_t)err);
    w->runs++;
    w->swaps += done.segments_before;
    note(w, 20, done.read_bytes + (uint64_t)done.first_dirty);
    if (err != OT_OK) return;
    CHECK(w, done.first_dirty == cleanable.end_offset, "clean up to %lld, not %lld", (long long)done.first_dirty, (long long)cleanable.end_offset);
    w->done_end = OT_MAX(w->done_end, done.first_dirty);
    if (sim_disk_is_off(w->disk)) return;                  /* in a call whose failure costs nothing */
    sim_disk_power_off_after(w->disk, UINT64_MAX);
    check_all(w);
}

static void flush(struct world *w)
{
    int64_t flushed = 0;
    if (eng_log_flush(w->log, &flushed) == OT_OK) w->flushed = OT_MAX(w->flushed, flushed);
}

static void cut(struct world *w)
{
    int64_t end = eng_log_end_offset(w->log), low = OT_MAX(w->decided_end, w->flushed);
    if (low >= end) return;
    const struct batch *batch = batch_at(w, low + (int64_t)ot_rng_below(&w->rng, (uint64_t)(end - low)));
    if (batch == NULL || batch->base < low) return;
    if (eng_log_truncate(w->log, batch->base, w->wall_ms) != OT_OK) return;
    w->count = (uint32_t)(batch - w->batches);
}

/* Of what was not flushed a machine crash may keep any part; a log that may have holes does not end at the first one. */
static void forget_lost(struct world *w, int64_t promised)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        struct eng_read how = { .offset = w->batches[i].base, .limit_offset = eng_log_end_offset(w->log), .max_bytes = 1, .min_one = true, .may_block = true };
        struct eng_read_result result = { 0 };
        bool there = w->batches[i].base < promised;
        if (!there && how.offset < how.limit_offset) {
            CHECK(w, eng_log_read(w->log, &how, &result) == OT_OK, "a read at %lld", (long long)how.offset);
            there = result.first_base_offset == how.offset;
            if (result.pin != NULL) result.pin->release(result.pin);
        }
        if (there && kept < i) w->holes = true;
        if (there) w->batches[kept++] = w->batches[i];
    }
    w->count = kept;
    if (kept > 0 && w->batches[kept - 1].last + 1 < eng_log_end_offset(w->log)) w->holes = true;       /* an empty segment, and nothing before it */
}

/* What the model knows of producers, from its batches. */
static void take_over(struct world *w)
{
    int64_t end = eng_log_end_offset(w->log);
    while (w->count > 0 && w->batches[w->count - 1].last >= end) w->count--;
    w->flushed = OT_MIN(eng_log_flushed_end(w->log), end);
    for (int p = 0; p < PRODUCERS; p++) {
        w->sequences[p] = 0;
        w->open[p] = false;
    }
    for (uint32_t i = 0; i < w->count; i++) {
        const struct batch *batch = &w->batches[i];
        if (batch->producer < 0) continue;
        if (!batch->marker) w->sequences[batch->producer] = batch->sequence + batch->count;
        if (batch->transactional) w->open[batch->producer] = !batch->marker;
    }
}

static void lose_snapshot(void *arg, const struct ot_io_entry *entry)
{
    struct world *w = arg;
    char path[200];
    snprintf(path, sizeof path, DIR_PATH "/%s", entry->name);
    if (strstr(entry->name, ".snapshot") != NULL) ot_ignore(sim_disk_io(w->disk)->ops->unlink(sim_disk_io(w->disk), path), "it is there");
}

static void lose_snapshots(struct world *w)
{
    ot_ignore(sim_disk_io(w->disk)->ops->list(sim_disk_io(w->disk), DIR_PATH, lose_snapshot, w), "it is there");
    w->no_snapshots = true;
}

static void reopen(struct world *w, int how)
{
    bool clean = false;
    if (how == 0 && !sim_disk_is_off(w->disk)) {
        flush(w);
        clean = w->flushed == eng_log_end_offset(w->log);
        write_checkpoints(w);
    } else {
        sim_disk_power_off_after(w->disk, 0);
    }
    int64_t promised = how == 2 ? w->flushed : eng_log_end_offset(w->log);
    close_log(w);
    if (how == 2) sim_disk_crash_machine(w->disk);
    else sim_disk_crash_process(w->disk);
    sim_disk_power_off_after(w->disk, UINT64_MAX);
    w->crashes += how != 0;
    if (w->gentle && ot_rng_chance(&w->rng, 0.4)) lose_snapshots(w);
    note(w, 40, (uint64_t)how);
    if (ot_rng_chance(&w->rng, 0.2) && how != 0) {         /* the power goes again while it comes up */
        sim_disk_power_off_after(w->disk, ot_rng_below(&w->rng, 60));
        if (open_log(w, false)) close_log(w);
        else if (w->store != NULL) eng_store_close(w->store);
        w->store = NULL;
        w->log = NULL;
        bool machine = !w->gentle && ot_rng_chance(&w->rng, 0.5);
        if (machine) sim_disk_crash_machine(w->disk);
        else sim_disk_crash_process(w->disk);
        sim_disk_power_off_after(w->disk, UINT64_MAX);
        if (machine) promised = OT_MIN(promised, w->flushed);
    }
    CHECK(w, open_log(w, clean && how == 0), "%s", "the log does not open");
    CHECK(w, eng_log_end_offset(w->log) >= promised, "the log ends at %lld, %lld was promised (crash kind %d)", (long long)eng_log_end_offset(w->log), (long long)promised, how);
    tell(w, "opened", how, promised);
    forget_lost(w, promised);
    take_over(w);
    w->done_end = OT_MIN(w->done_end, eng_log_end_offset(w->log));
    check_all(w);
}

static void act(struct world *w)
{
    uint64_t dice = ot_rng_below(&w->rng, 100);
    w->wall_ms += (int64_t)ot_rng_below(&w->rng, 40);
    sim_disk_set_wall(w->disk, w->wall_ms);
    if (w->count + 2 > BATCHES_MAX) return;
    if (dice < 55) append_data(w);
    else if (dice < 70) append_marker(w);
    else if (dice < 80) flush(w);
    else if (dice < 86) (void)roll(w);
    else if (dice < 93) compact(w);
    else if (dice < 95 && !w->gentle) cut(w);
    else if (dice < 98) write_checkpoints(w);
    else w->wall_ms += 600;
    note(w, dice, (uint64_t)eng_log_end_offset(w->log));
}

static uint64_t run(uint64_t seed, bool verbose)
{
    struct world *w = calloc(1, sizeof *w);
    OT_ASSERT(w != NULL && (w->batches = calloc(BATCHES_MAX, sizeof *w->batches)) != NULL);
    w->seed = seed;
    w->verbose = verbose;
    w->wall_ms = 1750000000000;
    w->gentle = seed % 4 == 0;
    ot_rng_seed(&w->rng, seed * 2 + 1);
    w->disk = sim_disk_new(seed * 3 + 1);
    w->retention_ms = ot_rng_chance(&w->rng, 0.3) ? 0 : 500;
    real_ops = lying_ops = *sim_disk_io(w->disk)->ops;
    lying_ops.fdatasync = no_file_sync;
    if (bug == NO_FILE_SYNC) sim_disk_io(w->disk)->ops = &lying_ops;
    if (bug == NO_DIR_SYNC) sim_mutation = SIM_BUG_NO_DIR_SYNC;
    OT_ASSERT((w->pool = ot_pool_new("sim", 64u << 20, 0)) != NULL && eng_decode_new(w->pool, &(struct eng_decode_limits){ 0 }, &w->decode) == OT_OK &&
        eng_encode_new(&w->encode) == OT_OK);
    CHECK(w, open_log(w, false), "%s", "an empty log does not open");
    take_over(w);
    uint32_t rounds = 3 + (uint32_t)ot_rng_below(&w->rng, 6);
    for (uint32_t round = 0; round < rounds; round++) {
        uint64_t acts = 30 + ot_rng_below(&w->rng, 200);
        int how = (int)ot_rng_below(&w->rng, w->gentle ? 2 : 3);
        if (how != 0 && ot_rng_chance(&w->rng, 0.4)) sim_disk_power_off_after(w->disk, ot_rng_below(&w->rng, 1500));
        for (uint64_t i = 0; i < acts && !sim_disk_is_off(w->disk); i++) act(w);
        reopen(w, sim_disk_is_off(w->disk) && how == 0 ? 1 + (int)ot_rng_below(&w->rng, w->gentle ? 1 : 2) : how);
    }
    close_log(w);
    if (verbose)
        printf("seed %llu: %u batches, %llu runs over %llu segments, %llu records removed at checks, %llu crashes, trace %016llx\n", (unsigned long long)seed, w->count,
            (unsigned long long)w->runs, (unsigned long long)w->swaps, (unsigned long long)w->removed, (unsigned long long)w->crashes, (unsigned long long)w->trace);
    uint64_t trace = w->trace ^ sim_disk_hash(w->disk);
    eng_decode_free(w->decode);
    eng_encode_free(w->encode);
    ot_pool_free(w->pool);
    sim_disk_free(w->disk);
    free(w->batches);
    free(w);
    return trace;
}

static int usage(void)
{
    fprintf(stderr, "ottla_sim_compact [--seed N] [--seeds N] [--from N] [--bug NAME] [--verbose]\nbugs:");
    for (size_t i = 0; i < OT_ARRAY_COUNT(bugs); i++) fprintf(stderr, " %s", bugs[i]);
    fprintf(stderr, "\n");
    return 2;
}

static bool choose_bug(const char *name)
{
    for (size_t i = 0; i < OT_ARRAY_COUNT(bugs); i++)
        if (strcmp(bugs[i], name) == 0) {
            bug = (enum bug)i;
            return true;
        }
    return false;
}

int main(int count, char **words)
{
    uint64_t seed = 1, seeds = 100;
    bool verbose = false;
    for (int i = 1; i < count; i++) {
        bool more = i + 1 < count;
        if (strcmp(words[i], "--seed") == 0 && more) seed = strtoull(words[++i], NULL, 10), seeds = 1, verbose = true;
        else if (strcmp(words[i], "--from") == 0 && more) seed = strtoull(words[++i], NULL, 10);
        else if (strcmp(words[i], "--seeds") == 0 && more) seeds = strtoull(words[++i], NULL, 10);
        else if (strcmp(words[i], "--bug") == 0 && more) { if (!choose_bug(words[++i])) return usage(); }
        else if (strcmp(words[i], "--verbose") == 0) verbose = true;
        else return usage();
    }
    if (!verbose) ot_log_setup(OT_LOG_ERROR, OT_LOG_TEXT, open("/dev/null", O_WRONLY | O_CLOEXEC));
    for (uint64_t i = 0; i < seeds; i++) {
        uint64_t trace = run(seed + i, verbose);
        if (i % 20 == 0 && run(seed + i, false) != trace) {
            fprintf(stderr, "FAILED seed %llu: two runs differ\n", (unsigned long long)(seed + i));
            return 1;
        }
    }
    printf("%llu seeds passed\n", (unsigned long long)seeds);
    return 0;
}
