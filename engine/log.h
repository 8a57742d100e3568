/* The log of one partition: segments, indexes, epochs and producer state in one directory, in Kafka 4's disk format.
 *
 * Three kinds of callers, and what each may do at the same time as the others:
 *   the writer    at most one at a time (the append lane, or whoever closed the lane): append, roll, truncate, start_at, close.
 *   housekeepers  one at a time per log: flush, retain, delete_records. They run beside the writer and the readers.
 *   the cleaner   at most one at a time (engine/compact.h). It runs beside all others.
 *   readers       any number, any thread: read, offsets, for_time. They run beside everybody.
 * Inside, one mutex guards the list of segments and is never held across I/O. log_start_offset, log_end_offset and flushed_end are
 * atomics that readers load with acquire. The producer state (engine/producers.h) has no lock of its own: the owner of the log (the
 * partition's mutex) guards it; the log itself touches it only in open, truncate and start_at.
 *
 * Offsets: [log_start_offset, log_end_offset) may be read, up to the limit that the reader states (high watermark, last stable offset).
 * All calls may block on the disk except those marked "never blocks". */
#ifndef OT_ENGINE_LOG_H
#define OT_ENGINE_LOG_H

#include "base/io.h"
#include "base/span.h"
#include "engine/epochs.h"
#include "engine/producers.h"
#include <stdatomic.h>

struct eng_store;              /* engine/store.h: log directories, caches of descriptors and maps */
struct eng_log;

enum eng_append_io { ENG_APPEND_PWRITEV, ENG_APPEND_MMAP, ENG_APPEND_AUTO };

/* May be replaced at any time by eng_log_configure; each call reads one consistent version. Kafka's topic config in brackets. */
struct eng_log_config {
    uint32_t segment_bytes;                /* [segment.bytes] roll before a segment would grow past it; a lone larger batch gets its own */
    int64_t segment_ms;                    /* [segment.ms] roll when the first record is older, by max timestamp, as Kafka */
    int64_t segment_jitter_ms;             /* [segment.jitter.ms] */
    uint32_t segment_index_bytes;          /* [segment.index.bytes] */
    uint32_t index_interval_bytes;         /* [index.interval.bytes] */
    int64_t retention_ms;                  /* [retention.ms] -1 = no limit */
    int64_t retention_bytes;               /* [retention.bytes] -1 = no limit */
    bool delete_enabled;                   /* [cleanup.policy] contains delete */
    bool compact_enabled;                  /* [cleanup.policy] contains compact */
    bool preallocate;                      /* [preallocate] */
    enum eng_append_io append_io;          /* [log.append.io] */
    int64_t producer_expiry_ms;            /* [producer.id.expiration.ms] */
    uint32_t producers_max;                /* cap of producer ids per partition */
};

/* How a log came up. */
struct eng_recovery {
    uint64_t scanned_bytes, cut_bytes;     /* read past the recovery point; removed from the tail */
    int64_t cut_offset;                    /* first offset no longer there, -1 if nothing was cut */
    bool kept_aside;                       /* valid batches followed a bad one: the cut bytes lie in *.cut beside the log, or, without room for that, still in it (eng_log_full) */
    bool epochs_rebuilt;                   /* the epoch file was lost, damaged or did not know what the batches say: no crash does that */
    uint32_t epochs_mended;                /* batches whose leader epoch was above every one there ever was: it was written anew */
    uint32_t indexes_rebuilt, segments;
};

struct eng_log_open {
    const char *dir_path;                  /* of the partition, "…/orders-0"; made (not synced) when absent */
    uint32_t store_dir;                    /* index of the log directory in the store */
    struct ot_uuid topic_id;               /* for partition.metadata; another id in the file: MISMATCH */
    struct eng_log_config config;
    int64_t recovery_point, log_start_offset;      /* from the checkpoints; 0 if unknown. Stale ones are clamped */
    int32_t leader_epochs;                 /* one above the partition's committed leader epoch: no batch can be of a higher one. 0: not known */
    int64_t first_dirty;                   /* likewise: compacted below (engine/compact.h) */
    bool clean;                            /* the directory was shut down cleanly: nothing is scanned */
    bool settled;                          /* it was not, but what lies in the folder is on disk: the file system was synced since its last writer died */
    bool survived;                         /* only its last writer died, and not the machine: all that it wrote is there, so no crash made the holes that are */
    bool doubts_holes;                     /* others hold the log: of one that is compacted, too, a segment's end that may be lost ends it */
    bool named;                            /* an empty one has its partition.metadata at once, not synced: the next start is to know whose it is. Else with the first segment */
    int64_t wall_ms;
    /* Hears of records that were on disk and are gone, none of them kept aside, before the recovery point forgets that they were there. May block. NULL: nobody wants it */
    void (*gone)(void *arg, int64_t from, int64_t end);
    void *gone_arg;
};

/* Opens or creates. IO, NO_SPACE (still opens read-only: see eng_log_read_only), CORRUPT (a bad batch below the recovery point), MISMATCH.
 * An empty log has no files: segment and indexes appear with the first append. */
OT_MUST_CHECK enum ot_err eng_log_open(struct eng_store *store, const struct eng_log_open *how, struct eng_log **out,
    struct eng_recovery *recovery_out);
/* Trims indexes to their true size, writes the producer snapshot, syncs if asked. NULL is fine. Pinned segments live on. */
enum ot_err eng_log_close(struct eng_log *log, bool sync);
void eng_log_configure(struct eng_log *log, const struct eng_log_config *config);
/* A log that was opened on a full disk and is read-only for that (eng_log_full), opened again now that there may be room: recovery is done anew, with what it had no
 * room for. No writer or housekeeper is inside; readers go on. OK: *out owns the folder, and the old one can only be read, until eng_log_abandon, which touches no file.
 * Else the old one stays: NO_SPACE, still none. */
OT_MUST_CHECK enum ot_err eng_log_reopen(struct eng_log *log, const struct eng_log_open *how, struct eng_log **out, struct eng_recovery *recovery_out);
void eng_log_abandon(struct eng_log *log);                  /* NULL is fine. No reader is inside; pins live on */
/* Take a log out of service for deletion: the directory is renamed (start cleans such names up) and every later call answers CLOSED. Readers' pins stay
 * good. No writer or housekeeper is inside. Afterwards the name is free for a new log, while this one waits for its last user. */
OT_MUST_CHECK enum ot_err eng_log_retire(struct eng_log *log);
/* As retire, but everything is kept, synced, under a name that nobody deletes: …-stray. eng_log_delete then only frees the log. */
OT_MUST_CHECK enum ot_err eng_log_set_aside(struct eng_log *log);
/* Unlinks everything and the directory (retires first if that was not done), while the log waits for its last user: pins stay good, and every call goes on answering CLOSED. May be
 * called again. A log that was set aside keeps all of it. */
enum ot_err eng_log_remove(struct eng_log *log);
/* Likewise, and frees the log. */
enum ot_err eng_log_delete(struct eng_log *log);

/* ---- writer ---- */

/* One whole v2 batch with base offset, leader epoch (and append time) already stamped. */
struct eng_append_batch {
    const uint8_t *data;                   /* borrowed until return; iovecs are made of these */
    uint32_t bytes;
    int32_t leader_epoch;
    int64_t base_offset, last_offset;      /* the first one's base_offset equals log_end_offset (followers and compacted logs: at least it) */
    int64_t max_timestamp, max_timestamp_offset;
};
#define ENG_APPEND_BATCHES_MAX 256

/* How many of these may go into one append without a roll: 0 says "roll first". Never blocks. */
uint32_t eng_log_fits(struct eng_log *log, const struct eng_append_batch *batches, uint32_t count, int64_t wall_ms);
/* Start a new segment at log_end_offset. snapshot: producer state up to there, as made by eng_producers_snapshot under the
 * owner's lock while no write was in flight; may be empty. An empty active segment is not rolled (OK, nothing done). */
OT_MUST_CHECK enum ot_err eng_log_roll(struct eng_log *log, const struct ot_blob *snapshot, int64_t wall_ms);
/* After a roll: the next batch begins at offset, so far above the log's end that no segment which begins there can hold it (32-bit offsets in its index); a follower copies such a hole from a log
 * that compaction has made small. The empty segment gives way to one that begins at offset, and so does the log's end. */
OT_MUST_CHECK enum ot_err eng_log_skip(struct eng_log *log, int64_t offset, int64_t wall_ms);
/* Append batches (all that fit: see above) by one gathered write; index entries, time index, epoch file (synced before the first batch of a
 * new epoch) follow. *appended_out batches are whole in the file and log_end_offset is past them, whatever is returned.
 * NO_SPACE, IO: the file was cut back behind the last whole batch; the log stays usable after NO_SPACE and is read-only after IO. */
OT_MUST_CHECK enum ot_err eng_log_append(struct eng_log *log, const struct eng_append_batch *batches, uint32_t count,
    int64_t wall_ms, uint32_t *appended_out);
/* A transaction that ended in an abort (from eng_producers_commit), into the transaction index of its segment: before the last stable offset passes it.
 * Committed ones are passed over. After an error the entry is missing until recovery, which makes it anew from the marker. */
OT_MUST_CHECK enum ot_err eng_log_add_aborted(struct eng_log *log, const struct eng_completed_txn *txn);
/* mmap mode: true when this batch may be appended without a call that can block for long (a copy into mapped, allocated, resident
 * pages); then eng_log_append may be called on a reactor. Never blocks. */
bool eng_log_append_inline(struct eng_log *log, const struct eng_append_batch *batch);
/* Keep the producer state as of log_end_offset (made as for eng_log_roll) as a snapshot file, synced, so that a restart replays only what follows.
 * Worth it now and then between rolls, before the recovery point is checkpointed. */
OT_MUST_CHECK enum ot_err eng_log_snapshot(struct eng_log *log, const struct ot_blob *snapshot);
/* Remove everything at and above offset (rounded down to a batch start). Order of steps: architecture.md, Truncation. Producer state is rebuilt:
 * caller holds the lane closed. On return the cut is durable. */
OT_MUST_CHECK enum ot_err eng_log_truncate(struct eng_log *log, int64_t offset, int64_t wall_ms);
/* Before such a cut: the batches from the one that holds offset up to the log's end, whole ones and at most so many bytes, copied into a file N.log of that folder (made here), synced. all:
 * none was left out. Nothing kept: bytes 0, and no folder. Nobody else cuts or appends meanwhile. NO_SPACE, IO, NO_MEMORY: nothing is kept. */
struct eng_kept { uint64_t bytes; int64_t first_offset, end_offset; uint32_t batches; bool all; };
OT_MUST_CHECK enum ot_err eng_log_keep(struct eng_log *log, int64_t offset, uint64_t bytes_max, const char *folder, struct eng_kept *out);
/* Drop everything and continue at offset (a follower behind the leader's log start). */
OT_MUST_CHECK enum ot_err eng_log_start_at(struct eng_log *log, int64_t offset);

/* ---- housekeepers ---- */

/* Sync what was appended up to now, oldest file first, a new segment also its directory; then flushed_end moves there (unless a truncation
 * overtook it). NO_SPACE: flushed_end stands and the next round tries again. Any other failure is final: the log is read-only and the store directory must go
 * offline. */
OT_MUST_CHECK enum ot_err eng_log_flush(struct eng_log *log, int64_t *flushed_end_out);
struct eng_retained {
    uint32_t segments;
    uint64_t bytes;
    int64_t log_start_offset;
    bool roll_wanted;                      /* all of the active segment is past retention: roll it in the lane, then call again */
};
/* Delete whole segments below limit_offset (high watermark) that retention time, size or log start allow. Time: the earlier of the segment's largest
 * record timestamp and the time of its last append (kept in the file's mtime), so a record dated into the future pins nothing. */
OT_MUST_CHECK enum ot_err eng_log_retain(struct eng_log *log, int64_t limit_offset, int64_t wall_ms, struct eng_retained *out);
/* Before a log start that somebody was told of is checkpointed: the folder and whose it is are on disk. Else a machine crash leaves a log start whose folder nobody may believe. */
OT_MUST_CHECK enum ot_err eng_log_keep_name(struct eng_log *log);
/* Raise log_start_offset (never lowers); offsets below are no longer read. The checkpoint is the caller's. Never blocks. */
void eng_log_set_start(struct eng_log *log, int64_t log_start_offset);

/* ---- readers ---- */

struct eng_read {
    int64_t offset;                        /* from here: the batch that holds it, or the next one behind a hole */
    int64_t limit_offset;                  /* nothing at or above */
    uint32_t max_bytes;
    bool min_one;                          /* the first batch whole even if above max_bytes */
    bool may_block;                        /* false: answer BUSY rather than wait for the disk (then call again on an I/O thread) */
};
#define ENG_READ_SPANS_MAX 4
struct eng_read_result {
    struct ot_span spans[ENG_READ_SPANS_MAX];   /* of files, in order; may cross segments; may end inside a batch only if that was asked for by max_bytes */
    uint32_t span_count;
    uint32_t bytes;
    struct ot_pin *pin;                    /* release once; NULL when nothing was read */
    int64_t first_base_offset;             /* of the first batch; -1 when empty */
    int64_t next_offset_hint;              /* an offset at or past the end of what is returned, for the aborted-transaction range */
};
/* OFFSET_OUT_OF_RANGE outside [log_start_offset, log_end_offset]; at limit_offset or above: OK and empty. BUSY as above. IO, CORRUPT. */
OT_MUST_CHECK enum ot_err eng_log_read(struct eng_log *log, const struct eng_read *how, struct eng_read_result *out);

/* Bytes between two offsets as far as it is cheap to know (same segment by position, else sums): for min.bytes. Never blocks. */
uint64_t eng_log_bytes_between(struct eng_log *log, int64_t from_offset, int64_t to_offset);

struct eng_time_offset { int64_t offset, timestamp_ms; int32_t leader_epoch; };      /* offset -1: none */
/* First record with timestamp >= at_ms in [log start, limit_offset), searched inside (compressed) batches; append-time batches use theirs. */
OT_MUST_CHECK enum ot_err eng_log_for_time(struct eng_log *log, int64_t at_ms, int64_t limit_offset, struct eng_time_offset *out);
/* The record with the largest timestamp, first one of equals. */
OT_MUST_CHECK enum ot_err eng_log_max_timestamp(struct eng_log *log, struct eng_time_offset *out);

struct eng_aborted { int64_t producer_id, first_offset, last_offset; };        /* last_offset: of the marker */
/* Aborted transactions that touch [from, to), sorted by first offset; at most max; *count_out may be larger than max (call again). */
OT_MUST_CHECK enum ot_err eng_log_aborted(struct eng_log *log, int64_t from, int64_t to, struct eng_aborted *out, uint32_t max, uint32_t *count_out);

bool eng_log_has_aborted(const struct eng_log *log);        /* false: eng_log_aborted answers none, at once. Never blocks */

/* Never block; any thread. */
int64_t eng_log_start_offset(const struct eng_log *log);
int64_t eng_log_end_offset(const struct eng_log *log);
int64_t eng_log_flushed_end(const struct eng_log *log);
uint64_t eng_log_size_bytes(struct eng_log *log);
bool eng_log_read_only(const struct eng_log *log);          /* an I/O error happened, or it was opened on a full disk */
bool eng_log_full(const struct eng_log *log);               /* the latter */
struct eng_producers *eng_log_producers(struct eng_log *log);
struct eng_epochs *eng_log_epochs(struct eng_log *log);     /* has its own lock */
const char *eng_log_dir_path(const struct eng_log *log);
uint32_t eng_log_store_dir(const struct eng_log *log);

struct eng_segment_info {
    int64_t base_offset, end_offset, max_timestamp_ms, last_append_ms;
    uint64_t log_bytes, index_bytes, time_index_bytes;
    bool active;
};
uint32_t eng_log_segments(struct eng_log *log, struct eng_segment_info *out, uint32_t max);   /* how many there are */

/* Verify: every batch CRC, index entry, time index entry and offset order. Reports each fault by text. For `log verify`, tests and the scrub. */
OT_MUST_CHECK enum ot_err eng_log_verify(struct eng_log *log, void (*fault)(void *arg, const char *text), void *arg);
/* The same beside a writer: go_on hears of each batch's bytes and may stop it (CANCELLED). */
OT_MUST_CHECK enum ot_err eng_log_verify_watched(struct eng_log *log, void (*fault)(void *arg, const char *text), bool (*go_on)(void *arg, uint64_t bytes), void *arg);

/* One step of a scrub: each batch of the first sealed segment that begins at *base_io or behind it is read and its checksum looked at. *base_io: where to go on. NOT_FOUND: no sealed segment is
 * left. CORRUPT: *fault_out says where; read twice, and still wrong (a sector that cannot be read is one too). CANCELLED: go_on, which hears of each batch's bytes, said so. Beside everybody. */
struct eng_scrub_fault { int64_t base_offset, offset; uint64_t pos; };         /* of the segment, of the first batch that is bad or the one that should be there, and its position */
OT_MUST_CHECK enum ot_err eng_log_scrub(struct eng_log *log, int64_t *base_io, bool (*go_on)(void *arg, uint64_t bytes), void *arg, struct eng_scrub_fault *fault_out);

#endif
