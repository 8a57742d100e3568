/* One segment of a log: a stretch of offsets in NNNNNNNNNNNNNNNNNNNN.log with its two indexes. Inner to engine/: callers use engine/log.h.
 *
 * Who guards what: end_offset, bytes and the times change under the log's mutex; the counts are atomics; the handles belong to the cache. A
 * reader holds a reference and a pin on the .log handle; `retired` says that the log no longer owns the segment: the files may be unlinked, and
 * whoever has not pinned one must look again in the log. */
#ifndef OT_ENGINE_SEGMENT_H
#define OT_ENGINE_SEGMENT_H

#include "engine/file_cache.h"
#include "engine/index.h"
#include "engine/scan.h"
#include <stdatomic.h>

struct eng_store;

/* What the indexes need to know about the batches so far. */
struct eng_indexing {
    int64_t max_timestamp_ms;              /* -1: none */
    int64_t max_timestamp_offset;          /* last offset of the batch that has it */
    int64_t last_time_ms;                  /* of the last time entry, -1 */
    uint32_t bytes_since;                  /* since the last entry */
};
#define ENG_INDEXING_NONE ((struct eng_indexing){ -1, -1, -1, 0 })
enum { ENG_ADD_INDEX = 1, ENG_ADD_TIME = 2 };
/* Kafka's rule for one more batch at pos: which entries it brings. */
struct eng_indexed { uint64_t pos, bytes; int64_t last_offset, max_timestamp_ms; };
unsigned eng_indexing_step(struct eng_indexing *indexing, const struct eng_indexed *batch, uint32_t interval_bytes,
    struct eng_index_entry *index_out, struct eng_time_entry *time_out);

struct eng_segment {
    struct eng_store *store;
    int64_t base_offset;
    int64_t end_offset;                    /* behind the last record; sealed ones: base of the next */
    uint64_t bytes;                        /* true size: whole batches only */
    int64_t first_timestamp_ms;            /* of the first batch (its largest); INT64_MIN: not known */
    int64_t created_ms, last_append_ms;
    struct eng_indexing indexing;          /* sealed: max_timestamp only, when times_known */
    _Atomic uint32_t index_count, time_count;      /* entries in the files; ENG_COUNT_UNKNOWN until looked at */
    _Atomic uint32_t refs;
    _Atomic bool retired;
    _Atomic bool index_doubted;            /* a lookup found an entry that lies */
    _Atomic int tail_state;                /* of a sealed one: 0 not looked at, 1 ends with a whole batch, -1 cut short by damage */
    bool times_known;                      /* under the log's mutex */
    bool dirty, indexes_dirty, txn_dirty, name_unsynced;      /* under the log's mutex */
    bool shortened;                        /* likewise: preallocated zeros were cut off, and a crash may bring them back. They hide nothing, but what is sealed has its true size */
    bool indexes_cut;                      /* they lost entries that named other batches: synced by the next flush, though the segment be active. Under it too */
    bool unlinked;                         /* set before the list lets go: its last reader leaves it to eng_store_reap */
    bool padded;                           /* the file is longer than bytes: to be cut */
    uint64_t allocated_end;                /* preallocated up to here */
    uint8_t *map;                          /* of the append window, or NULL */
    uint64_t map_bytes, warm_end;
    _Atomic uint64_t txn_bytes;            /* size of the .txnindex; 0: there is none */
    struct eng_file log, index, time, txn;
    struct eng_segment *next_dead;
};
#define ENG_COUNT_UNKNOWN UINT32_MAX

enum eng_segment_file { ENG_SEGMENT_LOG, ENG_SEGMENT_INDEX, ENG_SEGMENT_TIME, ENG_SEGMENT_TXN };
/* "dir/NNNNNNNNNNNNNNNNNNNN.suffix", into a buffer of ENG_PATH_BYTES. */
OT_MUST_CHECK enum ot_err eng_segment_path(char *out, const char *dir_path, int64_t base_offset, const char *suffix);
const char *eng_segment_suffix(enum eng_segment_file which);

OT_MUST_CHECK enum ot_err eng_segment_new(struct eng_store *store, int64_t base_offset, struct eng_segment **out);
void eng_segment_ref(struct eng_segment *seg);
void eng_segment_unref(struct eng_segment *seg);           /* the last one closes the files */
/* The log lets go of it: with unlinked files the last reference leaves its shortening to eng_store_reap. */
void eng_segment_retire(struct eng_segment *seg);

/* A descriptor of one of its files, pinned. CANCELLED: retired, look again. may_block false: BUSY unless open already. */
OT_MUST_CHECK enum ot_err eng_segment_acquire(struct eng_segment *seg, const char *dir_path, enum eng_segment_file which, bool may_block, int *fd_out);
void eng_segment_release(struct eng_segment *seg, enum eng_segment_file which);
struct eng_file *eng_segment_file(struct eng_segment *seg, enum eng_segment_file which);

/* The first batch whose last offset is at or above offset, among the first `bytes` of the log; hint_pos: where to begin (of an index entry not yet
 * written), UINT64_MAX: ask the index. NOT_FOUND: behind the last. BUSY, CANCELLED as above. CORRUPT: no batch where one must be. */
struct eng_found { uint64_t pos; struct eng_batch_info info; };
OT_MUST_CHECK enum ot_err eng_segment_find(struct eng_segment *seg, const char *dir_path, int64_t offset, uint64_t bytes, uint64_t hint_pos, bool may_block,
    struct eng_found *out);
/* The same with a guess of where to look in the index: end_offset, behind the last record of the segment (base_offset: not known). */
struct eng_find { int64_t offset, end_offset; uint64_t bytes, hint_pos; bool may_block; };
OT_MUST_CHECK enum ot_err eng_segment_find_as(struct eng_segment *seg, const char *dir_path, const struct eng_find *how, struct eng_found *out);
/* Largest timestamp among the first `bytes` of a segment that ends at end_offset: of a sealed one from its time index, else from the batches. */
OT_MUST_CHECK enum ot_err eng_segment_load_times(struct eng_segment *seg, const char *dir_path, uint64_t bytes, int64_t end_offset, struct eng_indexing *out);
/* Entries in the index files; makes the counts known. Absent files count 0. */
OT_MUST_CHECK enum ot_err eng_segment_load_counts(struct eng_segment *seg, const char *dir_path);
/* Make both indexes anew from the batches of a sealed segment, in bounded memory: beside the old ones, then renamed. Any thread. */
OT_MUST_CHECK enum ot_err eng_segment_rebuild(struct eng_segment *seg, const char *dir_path, uint64_t bytes, uint32_t interval_bytes);

/* Entries on their way into the index files, in pieces. */
struct eng_index_out {
    struct ot_io *io;
    int index_fd, time_fd;
    int64_t base_offset;
    uint32_t index_count, time_count;      /* in the files */
    uint32_t index_pending, time_pending;
    uint8_t index_raw[256 * ENG_INDEX_ENTRY_BYTES], time_raw[256 * ENG_TIME_ENTRY_BYTES];
};
OT_MUST_CHECK enum ot_err eng_index_out_add(struct eng_index_out *out, unsigned what, const struct eng_index_entry *index, const struct eng_time_entry *time);
OT_MUST_CHECK enum ot_err eng_index_out_flush(struct eng_index_out *out);

#endif
