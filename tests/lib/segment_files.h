/* One partition's files as the engine writes them: a log with idempotent, transactional and compressed batches and markers, both indexes, its transaction index,
 * a producer snapshot at the end and the epoch checkpoint. What is in them goes to `facts`, one a line, for a reader to compare with. Exits on any error. */
#ifndef OT_TESTS_SEGMENT_FILES_H
#define OT_TESTS_SEGMENT_FILES_H

#include "base/io.h"
#include "base/util.h"
#include "engine/batch_build.h"
#include "engine/epochs.h"
#include "engine/snapshots.h"
#include "engine/txnindex.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEGMENT_FILES_WALL_MS INT64_C(1750000000000)
#define SEGMENT_FILES_EPOCH_FROM 21                      /* first offset of the second leader epoch */
#define SEGMENT_FILES_BATCHES_MAX 64u
#define SEGMENT_MUST(call) segment_must((call), #call)

struct segment_files {
    struct ot_io *io;
    const char *dir;
    struct eng_producers *producers;
    struct eng_encode *encode;
    struct eng_sink log;
    int txn_fd;
    uint64_t txn_bytes;
    int64_t end;
    int32_t sequence[8];
    uint8_t index[8 * SEGMENT_FILES_BATCHES_MAX], times[12 * SEGMENT_FILES_BATCHES_MAX];     /* an entry for every third batch */
    size_t index_bytes, times_bytes, batches;
    int64_t max_timestamp_ms;
    FILE *facts;
};

static inline void segment_must(enum ot_err err, const char *what)
{
    if (err == OT_OK) return;
    (void)fprintf(stderr, "%s: %s\n", what, ot_err_name(err));
    exit(1);
}

static inline void segment_files_completed(void *arg, const struct eng_completed_txn *txn)
{
    struct segment_files *files = arg;
    SEGMENT_MUST(eng_txn_index_append(files->io, files->txn_fd, txn, &files->txn_bytes));
    if (txn->aborted) fprintf(files->facts, "aborted %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", txn->producer_id, txn->first_offset, txn->last_offset, txn->last_stable_offset);
}

static inline void segment_files_index(struct segment_files *files, size_t start, const struct eng_batch_info *info)
{
    uint32_t last = (uint32_t)eng_batch_last_offset(info);
    bool grows = info->max_timestamp > files->max_timestamp_ms;
    if (grows) files->max_timestamp_ms = info->max_timestamp;
    if (files->batches++ % 3 != 2) return;
    ot_store_u32(files->index + files->index_bytes, last);
    ot_store_u32(files->index + files->index_bytes + 4, (uint32_t)start);
    files->index_bytes += 8;
    if (!grows) return;
    ot_store_u64(files->times + files->times_bytes, (uint64_t)info->max_timestamp);
    ot_store_u32(files->times + files->times_bytes + 8, last);
    files->times_bytes += 12;
}

/* The batch that lies at `start` of the log goes through the producer state as on a leader. */
static inline void segment_files_take(struct segment_files *files, size_t start, enum eng_origin origin, int16_t version)
{
    struct eng_batch_info info;
    struct eng_marker marker;
    struct eng_producer_check check;
    SEGMENT_MUST(eng_batch_parse(files->log.data + start, files->log.bytes - start, &info));
    eng_batch_marker(files->log.data + start, &info, &marker);
    eng_producers_check(files->producers, &info, info.control ? &marker : NULL, origin, version, &check);
    SEGMENT_MUST(check.error);
    int64_t last = eng_batch_last_offset(&info);
    SEGMENT_MUST(eng_producers_pend(files->producers, &info, files->end, last, info.control ? &marker : NULL, SEGMENT_FILES_WALL_MS));
    eng_producers_commit(files->producers, last + 1, segment_files_completed, files);
    segment_files_index(files, start, &info);
    files->end = last + 1;
}

static inline void segment_files_data(struct segment_files *files, int64_t producer_id, bool transactional, enum eng_codec codec, int32_t count)
{
    struct eng_batch_builder builder;
    struct eng_batch_fields fields = eng_batch_fields_default();
    fields.base_offset = files->end;
    fields.leader_epoch = files->end < SEGMENT_FILES_EPOCH_FROM ? 0 : 3;
    fields.producer_id = producer_id;
    fields.producer_epoch = 1;
    fields.base_sequence = files->sequence[producer_id];
    fields.transactional = transactional;
    fields.codec = codec;
    files->sequence[producer_id] += count;
    SEGMENT_MUST(eng_batch_build_begin(&builder, &fields, files->encode, &files->log));
    for (int32_t i = 0; i < count; i++) {
        struct ot_blob key = { (const uint8_t *)"key", 3, false }, value = { (const uint8_t *)"value value value", 17, false };
        SEGMENT_MUST(eng_batch_build_next(&builder, SEGMENT_FILES_WALL_MS + files->end + i, key, value, NULL, 0));
    }
    SEGMENT_MUST(eng_batch_build_finish(&builder));
    segment_files_take(files, builder.start, ENG_ORIGIN_CLIENT, 0);
}

static inline void segment_files_end_txn(struct segment_files *files, int64_t producer_id, bool commit)
{
    uint8_t marker[ENG_MARKER_BYTES];
    size_t bytes = eng_batch_build_marker(marker, producer_id, 1, files->end < SEGMENT_FILES_EPOCH_FROM ? 0 : 3, 5, commit, SEGMENT_FILES_WALL_MS);
    eng_batch_stamp(marker, files->end, files->end < SEGMENT_FILES_EPOCH_FROM ? 0 : 3);
    size_t start = files->log.bytes;
    SEGMENT_MUST(eng_sink_write(&files->log, marker, bytes));
    segment_files_take(files, start, ENG_ORIGIN_COORDINATOR, 1);
}

static inline void segment_files_make_log(struct segment_files *files)
{
    static const enum eng_codec codecs[] = { ENG_CODEC_NONE, ENG_CODEC_GZIP, ENG_CODEC_SNAPPY, ENG_CODEC_LZ4, ENG_CODEC_ZSTD };
    for (int32_t i = 0; i < 10; i++) segment_files_data(files, 1, false, codecs[i % 5], i % 3 + 1);
    for (int32_t round = 0; round < 6; round++) {
        segment_files_data(files, 2, true, ENG_CODEC_NONE, 2);
        segment_files_data(files, 3, true, ENG_CODEC_ZSTD, 3);
        segment_files_end_txn(files, 2, round % 2 == 0);
        segment_files_data(files, 2, true, ENG_CODEC_LZ4, 1);
        segment_files_end_txn(files, 2, round % 3 == 0);
        segment_files_end_txn(files, 3, false);
    }
    segment_files_data(files, 3, true, ENG_CODEC_NONE, 1);
    segment_files_end_txn(files, 4, true);
}

static inline void segment_files_write_file(struct segment_files *files, const char *leaf, const void *bytes, size_t count)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", files->dir, leaf);
    SEGMENT_MUST(ot_io_replace_file(files->io, path, bytes, count, true));
}

static inline int segment_files_write(const char *dir, FILE *facts)
{
    struct segment_files files = { .io = ot_io_real(), .dir = dir, .facts = facts };
    struct eng_epochs *epochs;
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/00000000000000000000.txnindex", dir);
    SEGMENT_MUST(files.io->ops->open(files.io, path, OT_IO_WRITE | OT_IO_CREATE | OT_IO_TRUNCATE, &files.txn_fd));
    SEGMENT_MUST(eng_producers_new(100, INT64_MAX, &files.producers));
    SEGMENT_MUST(eng_encode_new(&files.encode));
    eng_sink_malloc(&files.log, 1 << 20);
    segment_files_make_log(&files);
    segment_files_write_file(&files, "00000000000000000000.log", files.log.data, files.log.bytes);
    segment_files_write_file(&files, "00000000000000000000.index", files.index, files.index_bytes);
    segment_files_write_file(&files, "00000000000000000000.timeindex", files.times, files.times_bytes);
    size_t bytes = eng_producers_snapshot_bytes(files.producers);
    uint8_t *snapshot = malloc(bytes);
    if (snapshot == NULL) return 1;
    struct ot_writer writer = ot_writer_over(snapshot, bytes);
    SEGMENT_MUST(eng_producers_snapshot(files.producers, &writer));
    SEGMENT_MUST(eng_snapshots_write(files.io, dir, files.end, &(struct ot_blob){ snapshot, (uint32_t)bytes, false }, true));
    SEGMENT_MUST(eng_epochs_open(files.io, dir, &epochs));
    SEGMENT_MUST(eng_epochs_assign(epochs, 0, 0));
    SEGMENT_MUST(eng_epochs_assign(epochs, 3, SEGMENT_FILES_EPOCH_FROM));
    struct eng_producer_view views[8];
    uint32_t count = eng_producers_list(files.producers, views, 8);
    for (uint32_t i = 0; i < count; i++) {
        fprintf(facts, "producer %" PRId64 " %d %" PRId32 " %" PRId32 " %" PRId64 "\n", views[i].producer_id, views[i].epoch, views[i].last_sequence, views[i].coordinator_epoch,
            views[i].current_txn_first_offset);
    }
    fprintf(facts, "end %" PRId64 "\n", files.end);
    eng_epochs_close(epochs);
    free(snapshot);
    eng_sink_free(&files.log);
    eng_encode_free(files.encode);
    eng_producers_free(files.producers);
    files.io->ops->close(files.io, files.txn_fd);
    return 0;
}

#endif
