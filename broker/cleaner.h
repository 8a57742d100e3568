/* Private to broker/: when which partition is compacted, how fast, and what became of it. What compaction does is in engine/compact.h.
 *
 * The housekeeper looks every log.cleaner.backoff.ms, and at once when a run has ended. Of the partitions whose cleanup.policy has compact and that have something to
 * clean, those past max.compaction.lag.ms come first, then the dirtiest above min.cleanable.dirty.ratio. Runs are tasks of an executor of their own, at most
 * log.cleaner.threads at a time; they hold no lock and share no thread with anything else, so producers wait for nothing but the disk. A run stops within a few hundred
 * KiB when its partition goes or the server stops, and begins anew later: what was swapped in stays.
 *
 * A partition whose run failed for damage or an I/O error is uncleanable: shown, and tried again after a minute, two, four, up to an hour. */
#ifndef OT_BROKER_CLEANER_H
#define OT_BROKER_CLEANER_H

#include "base/exec.h"
#include "base/metrics.h"
#include <pthread.h>
#include <stdatomic.h>

struct broker_core;
struct broker_partition;
struct broker_setup;
struct ot_mem_pool;

struct broker_cleaner {
    struct ot_exec *exec;                      /* NULL: nothing is compacted */
    struct ot_mem_pool *memory;
    struct ot_task look_task;                  /* on background_exec */
    _Atomic bool look_posted;
    uint32_t threads_max;
    _Atomic uint32_t running;
    _Atomic bool look_again;                   /* a run ended: another partition may be due */
    int64_t looked_us;                         /* when that was; the background thread's own */
    pthread_mutex_t pace_mutex;
    int64_t pace_free_us;                      /* when the bytes so far are paid for; under pace_mutex */
    uint64_t hash_seed[2];
    struct ot_series *read_bytes, *written_bytes, *removed, *run_us;
};

struct broker_cleaner_state {                  /* of a partition */
    bool uncleanable;
    enum ot_err error;                         /* of the last run */
    uint32_t failures;                         /* in a row */
    int64_t retry_us;                          /* not before */
    int64_t damaged_offset;                    /* -1: not known */
    int64_t cleaned_ms;                        /* wall time of the last run that ended well; 0: none since the start */
    int64_t settled_limit;                     /* nothing at or above is taken */
    int64_t limit_offset, limit_flushed;       /* the next one, once all below limit_flushed is on disk */
    uint64_t clean_bytes, dirty_bytes;         /* at the last look */
    int64_t first_dirty, overdue_ms;
    double ratio;
};

void broker_cleaner_init(struct broker_core *core, const struct broker_setup *setup);
void broker_cleaner_free(struct broker_core *core);
void broker_cleaner_look(struct broker_core *core, int64_t now_us);    /* the background thread */
/* Does its cleanup.policy say compact? Any thread. */
bool broker_partition_compacts(const struct broker_partition *partition);

#endif
