/* What the files log*.c share. The rules of who may run beside whom are in engine/log.h. */
#ifndef OT_ENGINE_LOG_INNER_H
#define OT_ENGINE_LOG_INNER_H

#include "engine/log.h"
#include "engine/segment.h"
#include "engine/store_inner.h"
#include "engine/tail.h"
#include <pthread.h>

struct eng_log {
    struct eng_store *store;
    struct ot_io *io;
    char *dir_path;
    const char *name;                      /* the last part of dir_path */
    uint32_t store_dir;
    struct ot_uuid topic_id;
    struct eng_epochs *epochs;
    struct eng_producers *producers;
    _Atomic int64_t log_start_offset, log_end_offset, flushed_end;
    _Atomic int64_t first_dirty;           /* compacted below */
    _Atomic uint64_t size_bytes;
    _Atomic bool read_only;
    _Atomic bool full_at_open;             /* read-only because recovery found no room for what it had to write: what is in the files may still be synced */
    _Atomic bool closed;                   /* retired: every call answers CLOSED */
    char *gone_path;                       /* the folder's name then */
    _Atomic bool txn_index_seen;           /* some aborted transaction is indexed: reads must ask */
    pthread_mutex_t writer_lock;           /* held by the writer's calls over their I/O, so that they may walk the list: it changes only under both. A housekeeper takes it to
                                            * remove a front segment, for an instant, and tries it to put an idle log to sleep */
    pthread_mutex_t names_lock;            /* one at a time syncs the folder and what it is called; held over that I/O */
    pthread_mutex_t lock;                  /* guards what follows, and the segments' plain fields; never held across I/O */
    struct eng_segment **segments;         /* ascending; the last one is active. None: nothing was ever written */
    uint32_t segment_count, segment_cap;
    struct eng_tail *tail;
    struct eng_log_config config;
    uint64_t truncations;                  /* a flush round, or a compaction, that sees it change counts for nothing */
    bool swapping;                         /* a compacted segment is taking the place of others: nobody else takes one away; swapped tells the end */
    pthread_cond_t swapped;
    struct eng_segment *half_swapped;      /* a swap failed between the names: the pinned files are the only way to it, till the log is closed */
    unsigned half_swapped_pins;            /* bits by enum eng_segment_file */
    bool fresh;                            /* this open made the folder */
    bool settled;                          /* what was found in it is on disk, and this open changed nothing that matters */
    bool dir_unsynced;                     /* the folder itself is not in its parent on disk yet */
    bool metadata_missing, metadata_unsynced;
    bool epochs_damaged;                   /* the epoch file, when it was read */
    /* the writer's own */
    int32_t latest_epoch;
    int64_t snapshot_at;                   /* a producer snapshot of this offset is on disk; -1 */
    _Atomic uint32_t appends_since_flush;  /* for ENG_APPEND_AUTO: a hint that writer and flusher share */
    int64_t undeleted_base;                /* of the segment that retention could not unlink, -1 none: its own */
};

static inline struct eng_segment *eng_log_active(struct eng_log *log)
{
    return log->segment_count == 0 ? NULL : log->segments[log->segment_count - 1];
}
/* What a call answers that finds the log read-only. */
static inline enum ot_err eng_log_why(const struct eng_log *log)
{
    return atomic_load(&log->closed) ? OT_ERR_CLOSED : atomic_load(&log->full_at_open) ? OT_ERR_NO_SPACE : OT_ERR_IO;
}
/* Slot of the segment that holds offset (the last with base <= offset; 0 if all are above). Under lock. */
uint32_t eng_log_slot(const struct eng_log *log, int64_t offset);
OT_MUST_CHECK enum ot_err eng_log_push_segment(struct eng_log *log, struct eng_segment *seg);      /* under lock */
struct eng_log_config eng_log_config_now(struct eng_log *log);
/* Takes writer_lock while no swap is under way, and none begins until it is given back: for those who take segments away. */
void eng_log_lock_segments(struct eng_log *log);
/* Completes, or throws away, what a compaction left when it was cut short: engine/compact_recover.c. */
OT_MUST_CHECK enum ot_err eng_log_recover_swap(struct eng_log *log);
/* After an error that leaves file and memory apart: nothing is appended any more. */
void eng_log_give_up(struct eng_log *log, enum ot_err why, const char *what);
/* Make the three files of a new active segment at base_offset. Writer. */
OT_MUST_CHECK enum ot_err eng_log_start_segment(struct eng_log *log, int64_t base_offset, int64_t wall_ms);
/* Write pending index entries of the active segment. NO_SPACE and IO leave them pending. Writer. */
OT_MUST_CHECK enum ot_err eng_log_write_indexes(struct eng_log *log, struct eng_segment *seg);
/* Last time entry, pending entries, true size: what a segment gets when it is sealed or closed. Writer. */
OT_MUST_CHECK enum ot_err eng_log_finish_segment(struct eng_log *log, struct eng_segment *seg);
/* Unlink the files of a segment that the log no longer lists, .log first; missing ones are fine. */
OT_MUST_CHECK enum ot_err eng_log_unlink_segment(struct eng_log *log, struct eng_segment *seg);
/* Largest timestamp of a segment; loads it if needed. The caller holds a reference. */
OT_MUST_CHECK enum ot_err eng_log_segment_times(struct eng_log *log, struct eng_segment *seg, struct eng_indexing *out);
/* Producer state from the newest sound snapshot and the batches behind it. index_aborted: make the transaction indexes of that stretch anew;
 * it then begins no later than the recovery point and the first damaged index. Writer (open, truncate). */
OT_MUST_CHECK enum ot_err eng_log_load_producers(struct eng_log *log, bool index_aborted, int64_t recovery_point, int64_t wall_ms);
/* Before batches of these segments (ascending, one behind the other, referenced) go: what they told about their producers is in a sound, synced snapshot at
 * end_offset, where the last one ends. Housekeeper. */
OT_MUST_CHECK enum ot_err eng_log_keep_state(struct eng_log *log, struct eng_segment *const *segs, uint32_t count, int64_t end_offset, int64_t wall_ms);
/* Take entries whose marker is at or above offset out of the transaction indexes. Writer. */
OT_MUST_CHECK enum ot_err eng_log_cut_aborted(struct eng_log *log, int64_t offset);
/* Leader epochs anew from all batches. */
OT_MUST_CHECK enum ot_err eng_log_rebuild_epochs(struct eng_log *log);
/* Everything but settings and locks from the folder: engine/log_recover.c. */
OT_MUST_CHECK enum ot_err eng_log_recover(struct eng_log *log, const struct eng_log_open *how, struct eng_recovery *out);
OT_MUST_CHECK enum ot_err eng_log_rewalk_active(struct eng_log *log);
/* The segments that the folder holds, ascending, into the list; what nobody reads goes: engine/log_folder.c. */
OT_MUST_CHECK enum ot_err eng_log_load_segments(struct eng_log *log);
/* Drop all segments and begin anew, empty, at offset, with a file that says so. Writer. */
OT_MUST_CHECK enum ot_err eng_log_begin_at(struct eng_log *log, int64_t offset, int64_t wall_ms);
OT_MUST_CHECK enum ot_err eng_log_sync_names(struct eng_log *log);     /* of the folder, in its parent, and whose it is */
/* Producer snapshots that neither a segment nor the newest state needs. Writer, or close. */
OT_MUST_CHECK enum ot_err eng_log_tidy_snapshots(struct eng_log *log);
/* Flush with the indexes of the active segment too: for a close. */
OT_MUST_CHECK enum ot_err eng_log_flush_whole(struct eng_log *log);
/* Give back tail and map of a log that nobody has appended to for a while. Housekeeper. */
void eng_log_sleep(struct eng_log *log, int64_t wall_ms);
void eng_log_unmap(struct eng_log *log, struct eng_segment *seg);      /* engine/log_map.c */
/* Make [0, end) of the active segment mapped for appends, if there is room for the map. False: append by pwritev. */
bool eng_log_map(struct eng_log *log, struct eng_segment *seg, uint64_t end);
void eng_log_map_warm(struct eng_log *log, struct eng_segment *seg);

#endif
