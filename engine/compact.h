/* Compaction: the last value of each key stays, and every offset keeps its meaning.
 *
 * A run reads the keys of the dirty stretch into a map of bounded size, key -> last offset, and writes the segments from the front up to there anew, without the
 * records that the map knows a later one of. When the map fills up before the end, the run does so in several passes. What holds then, as in Kafka:
 *   - batches keep base offset, last offset, producer fields and codec; a batch without records stays where it holds a producer's last sequence, or ends a segment
 *   - a tombstone gets a delete horizon at its first cleaning (KIP-534: in the batch, now + delete.retention.ms) and goes at the first cleaning past it
 *   - records of aborted transactions go; a marker goes when nothing of its transaction is left and its horizon is past
 *   - records without a key go, in segments that are cleaned
 *   - the active segment, and what is not wholly below limit_offset, is not touched
 * Stricter than Kafka: each batch's checksum is looked at before it is written anew, so damage is never sealed with a new one.
 *
 * Files of a new segment are written and synced under .cleaned names, renamed to .swap, the .log last: from there on recovery completes the swap, before it
 * throws it away (engine/compact_swap.c). Readers in flight keep the old files by their pins.
 *
 * Thread: one run per log at a time, on a thread that may block for long. It runs beside the writer, readers and other housekeepers: a truncation or retention that
 * takes a segment away under it ends the run with CANCELLED, and both wait for a swap under way. Close, retire and delete must wait until the run is over. */
#ifndef OT_ENGINE_COMPACT_H
#define OT_ENGINE_COMPACT_H

#include "engine/codec.h"
#include "engine/log.h"

/* ---- what there is to do ---- */

struct eng_compact_rules {                 /* Kafka's topic config in brackets */
    int64_t min_lag_ms;                    /* [min.compaction.lag.ms] */
    int64_t max_lag_ms;                    /* [max.compaction.lag.ms] */
    int64_t delete_retention_ms;           /* [delete.retention.ms] */
};
struct eng_cleanable {
    int64_t first_dirty, end_offset;       /* a run would take [first_dirty, end_offset); empty: nothing to do */
    uint64_t clean_bytes, cleanable_bytes; /* of whole segments: below first_dirty, and from there to end_offset */
    int64_t overdue_ms;                    /* how long the oldest dirty record is past max_lag_ms; at most 0: not */
    bool flush_wanted;                     /* there is more, but it is not synced yet: flush and ask again */
};
/* limit_offset: the lower of high watermark and last stable offset. May block on headers of segments not looked at before. */
OT_MUST_CHECK enum ot_err eng_log_cleanable(struct eng_log *log, const struct eng_compact_rules *rules, int64_t limit_offset, int64_t wall_ms,
    struct eng_cleanable *out);

/* ---- doing it ---- */

struct eng_compact {
    struct eng_compact_rules rules;
    int64_t limit_offset;                  /* as above */
    int64_t wall_ms;
    uint64_t map_bytes;                    /* at most, for the map; a small log takes less */
    double load_factor;                    /* how full the map may get: above 0, below 1 */
    uint32_t buffer_bytes;                 /* for reading, and as much for writing */
    uint64_t hash_seed[2];                 /* secret: who knows it can make keys that collide */
    struct eng_decode *decode;             /* borrowed */
    struct eng_encode *encode;
    const struct eng_producer_last *producers; uint32_t producer_count;        /* of eng_producers_last under the owner's lock, before the run */
    /* Told about each stretch read or written, in bytes; may sleep. False: stop, CANCELLED. May be NULL. */
    bool (*pace)(void *arg, uint64_t bytes);
    void *arg;
};
struct eng_compacted {
    uint64_t read_bytes, written_bytes;
    uint64_t records_read, records_kept, batches_dropped, batches_emptied;
    uint64_t size_before, size_after;      /* of the segments rewritten */
    uint32_t passes, segments_before, segments_after;
    int64_t first_dirty;                   /* clean up to here now */
    double map_used;                       /* the fullest pass, 0 to 1 of what the map may hold */
    int64_t damaged_offset;                /* with CORRUPT: the batch that should begin here, or the next after it; else -1 */
};
/* *out is filled in whatever is returned: segments swapped before an error stay swapped. CORRUPT: a bad batch (this log is uncleanable until it is mended);
 * CANCELLED; NO_SPACE; NO_MEMORY; IO. */
OT_MUST_CHECK enum ot_err eng_log_compact(struct eng_log *log, const struct eng_compact *how, struct eng_compacted *out);

/* Clean below this offset: what the checkpoint cleaner-offset-checkpoint is written from. Never blocks. */
int64_t eng_log_first_dirty(const struct eng_log *log);

#endif
