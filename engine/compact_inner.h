/* What the files compact*.c share. The rules are in engine/compact.h. */
#ifndef OT_ENGINE_COMPACT_INNER_H
#define OT_ENGINE_COMPACT_INNER_H

#include "base/map.h"
#include "engine/compact.h"
#include "engine/compact_map.h"
#include "engine/batch_build.h"
#include "engine/log_inner.h"
#include "engine/txnindex.h"

#define ENG_COMPACT_BATCH_BYTES_MAX (1u << 30)
#define ENG_COMPACT_WINDOW 32u             /* records whose slots are fetched from memory together */

/* ---- transactions: compact_txns.c ---- */

/* Which transaction a batch belongs to, and whether anything of it is left, as the scan goes forward. */
struct eng_compact_txns {
    struct eng_log *log;
    struct ot_map open;                    /* producer id -> its state, from the first batch seen of a transaction to its marker */
    struct eng_aborted *aborted;           /* those that touch the segment in hand, by first offset */
    uint32_t aborted_count, aborted_cap, aborted_next;
    uint8_t *entries;                      /* the segment's own .txnindex */
    uint32_t entry_count, entry_next;
};
void eng_compact_txns_init(struct eng_compact_txns *txns, struct eng_log *log);
void eng_compact_txns_free(struct eng_compact_txns *txns);
OT_MUST_CHECK enum ot_err eng_compact_txns_segment(struct eng_compact_txns *txns, struct eng_segment *seg, int64_t end_offset);
/* A data batch: *aborted_out, its transaction ended in an abort. NO_MEMORY. */
OT_MUST_CHECK enum ot_err eng_compact_txns_data(struct eng_compact_txns *txns, const struct eng_batch_info *info, bool *aborted_out);
/* An end marker: *empty_out, nothing of its transaction was seen. NO_MEMORY. */
OT_MUST_CHECK enum ot_err eng_compact_txns_marker(struct eng_compact_txns *txns, const struct eng_batch_info *info, bool *empty_out);
/* The entry of the abort marker at offset in the segment's index; false: it has none. */
bool eng_compact_txns_entry(struct eng_compact_txns *txns, int64_t offset, struct eng_txn_entry *out);

/* ---- the new segment: compact_out.c ---- */

struct eng_compact_out {
    struct eng_log *log;
    int64_t base_offset, last_offset;      /* last_offset: of the last batch written, base_offset - 1 at first */
    int log_fd, txn_fd;
    struct eng_index_out *indexes;
    struct eng_indexing indexing;
    uint8_t *buffer;
    uint32_t buffer_bytes, buffer_used;
    uint64_t bytes, txn_bytes, unsynced_bytes;      /* bytes: with what is in the buffer */
    int64_t first_timestamp_ms;
    uint32_t interval_bytes;
    bool open, txn_index;
    bool changed;                          /* it is not just what its first source holds */
    struct eng_segment *verbatim;          /* so far it is: nothing was written, and the first `bytes` of this one stand for it */
    bool tail_held;                        /* the last batch seen has no records and is written only if the segment ends with it */
    uint8_t tail[ENG_BATCH_HEADER_BYTES];
};
/* first: what it begins with. As long as nothing of it changes, nothing is written: a segment that stays as it is costs no write. */
OT_MUST_CHECK enum ot_err eng_compact_out_begin(struct eng_compact_out *out, struct eng_segment *first, bool txn_index);
/* From now on it differs: what stands for it so far is copied. Before the first batch that is not the next one of `first`. */
OT_MUST_CHECK enum ot_err eng_compact_out_differ(struct eng_compact_out *out);
OT_MUST_CHECK enum ot_err eng_compact_out_batch(struct eng_compact_out *out, const uint8_t *data, const struct eng_batch_info *info);
OT_MUST_CHECK enum ot_err eng_compact_out_aborted(struct eng_compact_out *out, const struct eng_txn_entry *entry);
/* The next batch is dropped, unless the segment ends with it. */
OT_MUST_CHECK enum ot_err eng_compact_out_hold(struct eng_compact_out *out, const struct eng_batch_info *info, bool was_empty);
/* Last entries, everything on the platter. */
OT_MUST_CHECK enum ot_err eng_compact_out_finish(struct eng_compact_out *out);
void eng_compact_out_discard(struct eng_compact_out *out);         /* closes, removes what was written */
void eng_compact_out_close(struct eng_compact_out *out);           /* closes; the files stay */
/* A batch of the same offsets and producer without records, ENG_BATCH_HEADER_BYTES long; of a legacy entry one of magic 2. */
void eng_compact_empty_batch(const struct eng_batch_info *info, uint8_t out[static ENG_BATCH_HEADER_BYTES]);

/* ---- a run ---- */

/* A segment to be rewritten, as it was when the run began. */
struct eng_compact_source { struct eng_segment *seg; uint64_t bytes; int64_t base_offset, end_offset, last_append_ms; };

/* Stretches of a batch that stay: of bytes when it is not compressed, of record numbers when it is. */
struct eng_compact_stretch { uint32_t from, to; };

struct eng_compaction {
    struct eng_log *log;
    const struct eng_compact *how;
    struct eng_compacted *result;
    struct eng_producer_last *producers;   /* by id */
    struct eng_compact_source *sources;
    uint32_t source_count, source_cap;
    uint64_t truncations;
    uint32_t segment_bytes, index_bytes_max;
    struct eng_compact_map map;
    int64_t map_end;                       /* the map knows all keys in [first dirty, map_end) */
    struct eng_compact_txns txns;
    struct eng_compact_out out;
    uint8_t *read_buffer;
    uint32_t read_bytes;
    struct eng_compact_stretch *stretches;
    uint32_t stretch_count, stretch_cap;
    struct eng_sink sink;
    bool legacy_tombstones_stay;           /* of the segment in hand */
    uint64_t unpaced_bytes;
};

OT_MUST_CHECK enum ot_err eng_compact_pace(struct eng_compaction *run, uint64_t bytes);
/* compact_batch.c: put the keys of a batch into the map. *full_out: it had no room; the map ends before map_end. */
OT_MUST_CHECK enum ot_err eng_compact_map_batch(struct eng_compaction *run, const uint8_t *data, const struct eng_batch_info *info, int64_t from_offset, bool *full_out);
/* Write what stays of a batch. */
OT_MUST_CHECK enum ot_err eng_compact_filter_batch(struct eng_compaction *run, const uint8_t *data, const struct eng_batch_info *info);
/* compact_swap.c: run->out takes the place of sources [first, first + count). CANCELLED: they are no longer all there. */
OT_MUST_CHECK enum ot_err eng_compact_swap(struct eng_compaction *run, uint32_t first, uint32_t count);

#endif
