/* The files of one partition directory against each other: the log is the truth, all others must follow from it. */
#include "engine/dump_inner.h"
#include "engine/epochs.h"
#include "engine/producers.h"
#include "engine/snapshots.h"
#include "engine/txnindex.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX (256u << 20)
#define PRODUCERS_MAX 10000000u

struct file_bytes { uint8_t *data; size_t bytes, at; };       /* at: the next entry to be met by the log */

struct names { char **leaves; uint32_t count, cap; bool no_memory; };

struct verifying {
    struct ot_io *io;
    const struct eng_dump_options *options;
    struct eng_dump_summary *summary;
    const char *dir_path;
    struct names names;                    /* sorted: segments come in order of their offsets */
    /* what the log says so far */
    struct eng_producers *producers;
    bool producers_known;                  /* false: the beginning is gone, or compaction took batches: nothing to compare with */
    int64_t end_offset;                    /* -1: no batch yet */
    int32_t epoch;
    uint32_t snapshot_next;                /* in names */
    struct file_bytes history;
    /* of the segment being walked */
    struct file_bytes index, time, txn;
    int64_t base_offset, max_timestamp_ms;
    enum ot_err err;
};

/* ---- files ---- */

static void name_add(void *arg, const struct ot_io_entry *entry)
{
    struct names *names = arg;
    if (entry->is_dir || names->no_memory) return;
    if (names->count == names->cap) {
        uint32_t cap = names->cap == 0 ? 32 : names->cap * 2;
        char **leaves = realloc(names->leaves, cap * sizeof *leaves);
        names->no_memory = leaves == NULL;
        if (leaves == NULL) return;
        names->leaves = leaves;
        names->cap = cap;
    }
    char *leaf = strdup(entry->name);
    names->no_memory = leaf == NULL;
    if (leaf != NULL) names->leaves[names->count++] = leaf;
}

static int name_compare(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static bool name_is(const char *leaf, const char *wanted_suffix, int64_t *offset_out)
{
    const char *suffix;
    return eng_dump_name(leaf, offset_out, &suffix) && strcmp(suffix, wanted_suffix) == 0;
}

static bool path_of(char *out, size_t out_bytes, const char *dir_path, const char *leaf)
{
    int bytes = snprintf(out, out_bytes, "%s/%s", dir_path, leaf);
    return bytes > 0 && (size_t)bytes < out_bytes;
}

/* A missing file is an empty one. */
static enum ot_err file_load(struct verifying *v, int64_t base_offset, const char *suffix, struct file_bytes *out)
{
    char leaf[64], path[4096], *data = NULL;
    *out = (struct file_bytes){ 0 };
    (void)snprintf(leaf, sizeof leaf, "%020" PRId64 ".%s", base_offset, suffix);
    if (!path_of(path, sizeof path, v->dir_path, leaf)) return OT_ERR_TOO_LARGE;
    enum ot_err err = ot_io_read_file(v->io, path, FILE_BYTES_MAX, &data, &out->bytes);
    if (err == OT_ERR_NOT_FOUND) return OT_OK;
    out->data = (uint8_t *)data;
    return err;
}

static void file_drop(struct file_bytes *file)
{
    free(file->data);
    *file = (struct file_bytes){ 0 };
}

static void OT_PRINTF(4, 5) fault_in(struct verifying *v, const char *suffix, uint64_t pos, const char *format, ...);

static void fault_in(struct verifying *v, const char *suffix, uint64_t pos, const char *format, ...)
{
    char path[4096], text[256];
    struct eng_dumper dumper = { .io = v->io, .options = v->options, .summary = v->summary, .path = path };
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (suffix == NULL) (void)snprintf(path, sizeof path, "%s", v->dir_path);
    else (void)snprintf(path, sizeof path, "%s/%020" PRId64 ".%s", v->dir_path, v->base_offset, suffix);
    eng_dump_fault(&dumper, pos, "%s", text);
}

/* ---- indexes against batches ---- */

static void index_meets(struct verifying *v, const struct eng_dump_batch *batch)
{
    int64_t last_offset = eng_batch_last_offset(&batch->info);
    for (; v->index.bytes - v->index.at >= 8; v->index.at += 8) {
        const uint8_t *entry = v->index.data + v->index.at;
        int64_t offset = eng_dump_sum(v->base_offset, ot_load_u32(entry));
        if (offset > last_offset) return;
        if (offset == last_offset && ot_load_u32(entry + 4) == batch->pos) continue;
        fault_in(v, "index", v->index.at, "offset %" PRId64 " at position %" PRIu32 ": the log has the batch up to offset %" PRId64 " at position %" PRIu64, offset,
            ot_load_u32(entry + 4), last_offset, batch->pos);
    }
}

static void time_meets(struct verifying *v, const struct eng_dump_batch *batch)
{
    int64_t last_offset = eng_batch_last_offset(&batch->info);
    v->max_timestamp_ms = OT_MAX(v->max_timestamp_ms, batch->info.max_timestamp);
    for (; v->time.bytes - v->time.at >= 12; v->time.at += 12) {
        const uint8_t *entry = v->time.data + v->time.at;
        int64_t timestamp_ms = ot_load_i64(entry), offset = eng_dump_sum(v->base_offset, ot_load_u32(entry + 8));
        if (offset > last_offset) return;
        if (offset >= batch->info.base_offset && timestamp_ms == batch->info.max_timestamp && timestamp_ms == v->max_timestamp_ms) continue;
        fault_in(v, "timeindex", v->time.at, "timestamp %" PRId64 " at offset %" PRId64 ": the largest in the log up to offset %" PRId64 " is %" PRId64, timestamp_ms, offset,
            last_offset, v->max_timestamp_ms);
    }
}

static void txn_meets(struct verifying *v, const struct eng_completed_txn *txn)
{
    struct eng_txn_entry entry = { -1, -1, -1, -1 };
    if (v->txn.bytes - v->txn.at >= ENG_TXN_ENTRY_BYTES) {
        if (eng_txn_entry_decode(v->txn.data + v->txn.at, &entry) != OT_OK) return;    /* said by the dump of that file */
        v->txn.at += ENG_TXN_ENTRY_BYTES;
    }
    if (entry.producer_id == txn->producer_id && entry.first_offset == txn->first_offset && entry.last_offset == txn->last_offset
        && entry.last_stable_offset == txn->last_stable_offset) {
        return;
    }
    fault_in(v, "txnindex", v->txn.at, "producer %" PRId64 " aborted offsets %" PRId64 " to %" PRId64 " (stable %" PRId64 "): here stands producer %" PRId64 ", %" PRId64
        " to %" PRId64 " (%" PRId64 ")", txn->producer_id, txn->first_offset, txn->last_offset, txn->last_stable_offset, entry.producer_id, entry.first_offset,
        entry.last_offset, entry.last_stable_offset);
}

static void left_over(struct verifying *v, const char *suffix, const struct file_bytes *file, uint32_t entry_bytes)
{
    uint64_t entries = (file->bytes - file->at) / entry_bytes;
    if (entries > 0) fault_in(v, suffix, file->at, "%" PRIu64 " entries are about nothing in the log", entries);
}

/* ---- epochs, producers ---- */

struct floor { int64_t offset, first; int32_t epoch; };

static void floor_row(void *arg, const struct eng_epoch_end *start)
{
    struct floor *floor = arg;
    if (floor->first < 0) floor->first = start->end_offset;
    if (start->end_offset <= floor->offset) floor->epoch = start->epoch;
}

static void epoch_meets(struct verifying *v, const struct eng_batch_info *info)
{
    struct floor floor = { info->base_offset, -1, -1 };
    uint32_t line;
    if (info->partition_leader_epoch < 0 || info->partition_leader_epoch == v->epoch || v->history.data == NULL) return;
    if (eng_epochs_parse((const char *)v->history.data, v->history.bytes, floor_row, &floor, &line) != OT_OK) return;
    if (info->base_offset < floor.first) return; /* before the log start, where DeleteRecords cut the history */
    v->epoch = info->partition_leader_epoch;
    if (floor.epoch == v->epoch) return;
    fault_in(v, NULL, 0, "leader-epoch-checkpoint has epoch %" PRId32 " for offset %" PRId64 ", the batch there has %" PRId32, floor.epoch, info->base_offset, v->epoch);
}

static void snapshot_compare(struct verifying *v, const char *path, struct eng_snapshot *snapshot)
{
    for (uint32_t i = 0; i < snapshot->entry_count; i++) {
        struct eng_snapshot_entry entry;
        struct eng_producer_view view = { .producer_id = -1 };
        eng_snapshot_next_entry(snapshot, &entry);
        bool known = eng_producers_find(v->producers, entry.producer_id, false, &view);
        if (known && view.epoch == entry.epoch && view.last_sequence == (entry.last_offset < 0 ? -1 : entry.last_sequence)
            && view.coordinator_epoch == entry.coordinator_epoch && view.current_txn_first_offset == OT_MAX(entry.txn_first_offset, -1)) {
            continue;
        }
        struct eng_dumper dumper = { .io = v->io, .options = v->options, .summary = v->summary, .path = path };
        eng_dump_fault(&dumper, ENG_SNAPSHOT_HEAD_BYTES + (uint64_t)i * ENG_SNAPSHOT_ENTRY_BYTES, "producer %" PRId64 " is at epoch %d, sequence %" PRId32
            " here; the log says %s%d, %" PRId32, entry.producer_id, entry.epoch, entry.last_sequence, known ? "" : "nothing of it: ", view.epoch, view.last_sequence);
    }
}

/* Snapshots up to this offset: the replay stands right there, or between two batches that they do not fall between. */
static enum ot_err snapshots_meet(struct verifying *v, int64_t offset)
{
    enum ot_err err = OT_OK;
    for (; err == OT_OK && v->snapshot_next < v->names.count; v->snapshot_next++) {
        char path[4096], *data = NULL;
        size_t bytes;
        int64_t at;
        struct eng_snapshot snapshot;
        if (!name_is(v->names.leaves[v->snapshot_next], "snapshot", &at)) continue;
        if (at > offset) return OT_OK;
        if (!v->producers_known || at < v->end_offset || !path_of(path, sizeof path, v->dir_path, v->names.leaves[v->snapshot_next])) continue;
        err = ot_io_read_file(v->io, path, ENG_SNAPSHOT_FILE_BYTES_MAX, &data, &bytes);
        if (err == OT_OK && eng_snapshot_parse(data, bytes, &snapshot) == OT_OK) snapshot_compare(v, path, &snapshot);
        if (err == OT_ERR_TOO_LARGE || err == OT_ERR_NOT_FOUND) err = OT_OK;
        free(data);
    }
    return err;
}

/* The replay begins with the snapshot at the first batch's segment, or with nothing at offset 0. */
static enum ot_err producers_begin(struct verifying *v, int64_t base_offset)
{
    struct file_bytes snapshot;
    enum ot_err err = file_load(v, base_offset, "snapshot", &snapshot);
    if (err == OT_OK && snapshot.data != NULL) err = eng_producers_load(v->producers, snapshot.data, snapshot.bytes, 0);
    v->producers_known = err == OT_OK && (base_offset == 0 || snapshot.data != NULL);
    file_drop(&snapshot);
    return err == OT_ERR_CORRUPT || err == OT_ERR_TOO_LARGE ? OT_OK : err;
}

static enum ot_err batch_meets(void *arg, struct eng_dumper *dumper, const struct eng_dump_batch *batch)
{
    struct verifying *v = arg;
    struct eng_marker marker;
    struct eng_completed_txn txn;
    (void)dumper;
    if (!batch->crc_right) {
        v->producers_known = false;
        return OT_OK;
    }
    if (batch->info.magic == 2 && v->end_offset >= 0 && batch->info.base_offset != v->end_offset) v->producers_known = false;      /* compacted */
    enum ot_err err = snapshots_meet(v, batch->info.base_offset);
    if (err != OT_OK) return err;
    index_meets(v, batch);
    time_meets(v, batch);
    epoch_meets(v, &batch->info);
    v->end_offset = OT_MAX(v->end_offset, eng_dump_sum(eng_batch_last_offset(&batch->info), 1));
    if (!v->producers_known) return OT_OK;
    eng_batch_marker(batch->data, &batch->info, &marker);
    err = eng_producers_replay_completed(v->producers, &batch->info, &marker, &txn);
    v->producers_known = err != OT_ERR_CORRUPT;
    if (err != OT_OK) return err == OT_ERR_CORRUPT ? OT_OK : err;
    eng_producers_advance(v->producers, v->end_offset);
    if (txn.producer_id >= 0 && txn.aborted) txn_meets(v, &txn);
    return OT_OK;
}

/* ---- the directory ---- */

static enum ot_err segment_verify(struct verifying *v, const char *leaf)
{
    char path[4096];
    struct ot_io_stat stat;
    struct eng_dumper dumper = { .io = v->io, .options = v->options, .summary = v->summary, .path = path, .fd = -1, .base_offset = v->base_offset };
    struct eng_dump_options silent = *v->options;
    struct eng_dump_summary ignored = { 0 };
    enum ot_err err = OT_OK;
    silent.row = NULL;                                         /* damage of the .log itself was said by its own dump */
    dumper.options = &silent;
    dumper.summary = &ignored;
    v->max_timestamp_ms = INT64_MIN;
    if (!path_of(path, sizeof path, v->dir_path, leaf)) return OT_ERR_TOO_LARGE;
    if (v->end_offset < 0) err = producers_begin(v, v->base_offset);
    else if (v->base_offset < v->end_offset) fault_in(v, "log", 0, "the segment begins below offset %" PRId64 ", where the one before it ends", v->end_offset);
    if (err == OT_OK) err = file_load(v, v->base_offset, "index", &v->index);
    if (err == OT_OK) err = file_load(v, v->base_offset, "timeindex", &v->time);
    if (err == OT_OK) err = file_load(v, v->base_offset, "txnindex", &v->txn);
    if (err == OT_OK) err = v->io->ops->open(v->io, path, OT_IO_READ, &dumper.fd);
    if (err == OT_OK) err = v->io->ops->fstat(v->io, dumper.fd, &stat);
    if (err == OT_OK) {
        dumper.file_bytes = stat.bytes;
        err = eng_dump_walk(&dumper, batch_meets, v);
    }
    if (err == OT_OK) {
        left_over(v, "index", &v->index, 8);
        left_over(v, "timeindex", &v->time, 12);
        if (v->producers_known) left_over(v, "txnindex", &v->txn, ENG_TXN_ENTRY_BYTES);
    }
    v->io->ops->close(v->io, dumper.fd);
    file_drop(&v->index);
    file_drop(&v->time);
    file_drop(&v->txn);
    return err;
}

static enum ot_err files_verify(struct verifying *v)
{
    struct eng_dump_options each = *v->options;
    enum ot_err err = OT_OK;
    each.deep = true;
    for (uint32_t i = 0; err == OT_OK && i < v->names.count; i++) {
        char path[4096];
        if (!path_of(path, sizeof path, v->dir_path, v->names.leaves[i])) return OT_ERR_TOO_LARGE;
        err = eng_dump_file(v->io, path, &each, v->summary);
        if (err == OT_ERR_MALFORMED || err == OT_ERR_NOT_FOUND) err = OT_OK;   /* not ours to judge; deleted meanwhile */
    }
    return err;
}

static enum ot_err segments_verify(struct verifying *v)
{
    enum ot_err err = OT_OK;
    for (uint32_t i = 0; err == OT_OK && i < v->names.count; i++) {
        if (name_is(v->names.leaves[i], "log", &v->base_offset)) err = segment_verify(v, v->names.leaves[i]);
    }
    if (err == OT_OK && v->end_offset >= 0) err = snapshots_meet(v, v->end_offset);
    for (uint32_t i = 0; err == OT_OK && i < v->names.count; i++) {
        int64_t at;
        if (name_is(v->names.leaves[i], "snapshot", &at) && v->end_offset >= 0 && at > v->end_offset) {
            fault_in(v, NULL, 0, "%s is above the end of the log, offset %" PRId64, v->names.leaves[i], v->end_offset);
        }
    }
    return err;
}

/* A partition that nobody wrote to yet is a folder without files. */
static bool is_partition(const struct names *names)
{
    int64_t offset;
    if (names->count == 0) return true;
    for (uint32_t i = 0; i < names->count; i++) {
        if (name_is(names->leaves[i], "log", &offset) || strcmp(names->leaves[i], "leader-epoch-checkpoint") == 0
            || strcmp(names->leaves[i], "partition.metadata") == 0) return true;
    }
    return false;
}

static enum ot_err history_load(struct verifying *v)
{
    char path[4096], *data = NULL;
    if (!path_of(path, sizeof path, v->dir_path, "leader-epoch-checkpoint")) return OT_ERR_TOO_LARGE;
    enum ot_err err = ot_io_read_file(v->io, path, 64u << 20, &data, &v->history.bytes);
    v->history.data = (uint8_t *)data;
    return err == OT_ERR_NOT_FOUND || err == OT_ERR_TOO_LARGE ? OT_OK : err;
}

enum ot_err eng_dump_verify(struct ot_io *io, const char *dir_path, const struct eng_dump_options *options, struct eng_dump_summary *summary)
{
    struct verifying v = { .io = io, .options = options, .summary = summary, .dir_path = dir_path, .end_offset = -1, .epoch = -1 };
    enum ot_err err = io->ops->list(io, dir_path, name_add, &v.names);
    if (err == OT_OK && v.names.no_memory) err = OT_ERR_NO_MEMORY;
    if (err == OT_OK && v.names.count > 0) qsort(v.names.leaves, v.names.count, sizeof *v.names.leaves, name_compare);
    if (err == OT_OK && !is_partition(&v.names)) err = OT_ERR_MALFORMED;
    if (err == OT_OK) err = files_verify(&v);
    if (err == OT_OK) err = history_load(&v);
    if (err == OT_OK) err = eng_producers_new(PRODUCERS_MAX, INT64_MAX, &v.producers);
    if (err == OT_OK) err = segments_verify(&v);
    for (uint32_t i = 0; i < v.names.count; i++) free(v.names.leaves[i]);
    free(v.names.leaves);
    file_drop(&v.history);
    eng_producers_free(v.producers);
    return err;
}
