/* The follower's side of one partition: what its leader answered goes through the append lane, unchanged.
 *
 * One answer of a partition is in work at a time. It counts only if the log is still as it was when it was asked for, in the same leader epoch (coordinator.md §10): else it is
 * dropped, and the next fetch asks from where the log is now. A log is cut only where the leader of its epoch says that the histories part, never at the high watermark. */
#ifndef OT_BROKER_FOLLOW_H
#define OT_BROKER_FOLLOW_H

#include "base/mem.h"
#include "coordinator/replica.h"

struct broker_partition;
struct eng_log;

/* The largest epoch of a log that is not above `epoch`, and where it ends: what a fetch is compared with, and where a follower is to cut. */
struct replica_epoch_end broker_follow_log_parts(struct eng_log *log, int32_t epoch, int64_t log_end);

/* What a fetch asks for this partition now; false: it follows nobody, or is not ready (its log is being opened, an answer is in work, or, in replicated+fsync, on its way to the
 * disk: only then the leader hears of it). Takes the mutex. */
struct broker_follow_place {
    int32_t leader, leader_epoch;
    int64_t offset; int32_t last_epoch;        /* of the own log */
    int64_t flushed_end, log_start_offset, high_watermark;
    bool throttled, in_sync;                   /* listed for the follower's throttle; which does not hold it while it is in isr */
};
bool broker_follow_place(struct broker_partition *partition, struct broker_follow_place *out);

enum broker_follow_kind {
    BROKER_FOLLOW_APPEND,                      /* records: whole batches, and perhaps a cut one behind them. None: only high watermark and log start */
    BROKER_FOLLOW_CUT,                         /* the histories part at `parts` */
    BROKER_FOLLOW_RESTART                      /* the leader's log begins behind the end of ours, or ends before ours, which is empty, begins: drop everything, go on at log_start_offset */
};
struct broker_follow {
    /* asked */
    enum broker_follow_kind kind;
    struct replica_answer answer;              /* what was asked, and the leader's high watermark */
    struct replica_epoch_end parts;
    int64_t log_start_offset;                  /* the leader's */
    const uint8_t *records; uint32_t records_bytes;        /* borrowed until done */
    void (*done)(struct broker_follow *follow);            /* on an I/O thread, or within broker_follow_put; the mutex is free */
    /* answered */
    enum ot_err error;                         /* OK: done, or void (then nothing was changed). CORRUPT_MESSAGE: the bytes are no batches that may follow; FENCED_LEADER_EPOCH likewise;
                                                * NO_SPACE, IO, NO_MEMORY: tried again later; BUSY too: what would be lost could not be noted */
    bool void_answer;
    uint32_t appended_bytes;
    int64_t cut_records;                       /* offsets that were cut off */
};
/* An answer without records: watermarks are taken at once when nothing is in the lane. False: it has to go there. Takes the mutex. */
bool broker_follow_note(struct broker_partition *partition, const struct broker_follow *follow);
/* done may be called before this returns. */
void broker_follow_put(struct broker_partition *partition, struct broker_follow *follow);

#endif
