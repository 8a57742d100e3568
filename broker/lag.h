/* How far behind a reader is: at an offset of a partition, in records that it would be given and in time, for readers of all records and for those of committed ones.
 *
 * Offsets are not records: transactions leave markers, aborted ones leave what nobody is given, compaction leaves holes. So the batch headers between the offset and the end
 * are counted, for a bounded number of batches and a bounded time; what is left then counts as its distance in offsets, which is never less than the truth, and is said to be
 * not exact. What other brokers lead is asked of them. Time is the age of the first record that the reader has not had. */
#ifndef OT_BROKER_LAG_H
#define OT_BROKER_LAG_H

#include "broker/call.h"

struct broker_lag_count {
    int64_t records;                           /* -1 unknown */
    int64_t ms;                                /* 0: nothing is unread; -1 unknown */
    bool exact;                                /* false: records is at most that */
};
struct broker_lag_part {
    struct ot_str topic; int32_t partition;
    int64_t offset;                            /* the next to be read; -1: none, then only the ends are answered */
    const struct broker_lag_part *before;      /* the same part as answered at before_ms (wall): nothing is counted again where nothing changed. NULL: none */
    int64_t before_ms;
    /* answered */
    enum ot_err error;
    int64_t log_start_offset, high_watermark, last_stable_offset;      /* -1 unknown */
    struct broker_lag_count all, committed;
    int32_t away; bool asked;                  /* own: the broker that is asked for it, -1: this one; it was */
};
struct broker_lag {
    struct broker_call call;
    struct broker_lag_part *parts; uint32_t part_count;
    bool here;                                 /* only what this broker leads; else leaders elsewhere are asked too, for two seconds at most */
    struct broker *broker;                     /* own from here */
    struct ot_task io_task;
    uint32_t open;                             /* of home: who has not answered */
};
void broker_lag(struct broker *broker, struct broker_lag *lag);        /* on home, where done runs; never before this returns */

/* ---- between brokers */
void broker_lag_away(struct broker *broker, struct broker_lag *lag);   /* lag_away.c: marks what is led elsewhere, and asks */
void broker_lag_settle(struct broker_lag *lag);            /* on home: one less is open */

#endif
