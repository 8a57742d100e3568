/* Questions about offsets and the ends of logs. Each is one call for many partitions; parts that need the disk run on an I/O thread. */
#ifndef OT_BROKER_OFFSETS_H
#define OT_BROKER_OFFSETS_H

#include "broker/call.h"

enum broker_offsets_kind { BROKER_LIST_OFFSETS, BROKER_EPOCH_END, BROKER_DELETE_RECORDS };
struct broker_offsets_part {
    struct ot_str topic; struct ot_uuid topic_id; int32_t partition;   /* topic null: by id */
    int32_t current_leader_epoch;              /* -1: not said */
    int64_t at;                                /* LIST_OFFSETS: timestamp or Kafka's special values (-1 latest, -2 earliest, -3 max timestamp, -4 earliest local,
                                                * -5 latest tiered, -6 earliest pending upload); DELETE_RECORDS: offset, -1 = high watermark; EPOCH_END: the epoch */
    /* answered */
    enum ot_err error;
    int64_t offset, timestamp_ms;              /* DELETE_RECORDS: offset = new low watermark; EPOCH_END: end offset. -1 unknown */
    int32_t leader_epoch;                      /* of the record; EPOCH_END: the epoch that ends there */
    uint32_t store_dir; bool waits; int64_t deleted_to;        /* own */
};
struct broker_offsets {
    struct broker_call call;
    enum broker_offsets_kind kind;
    int16_t api_version;
    bool read_committed;
    int32_t timeout_ms;                        /* DELETE_RECORDS: how long live followers are waited for; then REQUEST_TIMED_OUT, and the records are gone here all the same */
    struct broker_offsets_part *parts; uint32_t part_count;
    struct broker *broker;                     /* own from here */
    struct ot_task io_task;
    struct ot_timer timer; int64_t deadline_us; /* DELETE_RECORDS that waits for followers */
};
void broker_offsets(struct broker *broker, struct broker_offsets *offsets);    /* done is never called before this returns */

#endif
