/* Which records a reader wants to see: contains=, key=, partition=. Private to rest/. */
#ifndef OT_REST_FILTER_H
#define OT_REST_FILTER_H

#include "broker/records.h"
#include "rest/call.h"

#define REST_FILTER_PARTITIONS_MAX 256

struct rest_filter {
    struct ot_blob contains;                   /* bytes somewhere in the key, the value or a header's value; null: any */
    struct ot_blob key;                        /* exactly this key; null: any */
    int32_t partitions[REST_FILTER_PARTITIONS_MAX]; uint32_t partition_count;      /* ascending; 0: all */
};
/* Of the call's query, which outlives the filter unless it is copied; wrong ones become faults of the call. */
void rest_filter_read(struct rest_call *call, int32_t partition_count, struct rest_filter *out);
/* Into memory of its own arena. False: no memory. */
bool rest_filter_keep(struct rest_filter *filter, struct ot_arena *arena);
bool rest_filter_passes(const struct rest_filter *filter, const struct broker_record_view *record);    /* any thread */

#endif
