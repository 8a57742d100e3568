/* What brokers told of topics, partitions and replicas, looked up by name while an answer is written from all of it. Private to rest/. */
#ifndef OT_REST_ROWS_H
#define OT_REST_ROWS_H

#include "base/map.h"
#include "rest/hop.h"

struct rest_rows { struct ot_map map; struct rest_call *call; };       /* texts and sums are in the call's arena; rows are borrowed from the gather */

/* Topics: sizes and rates, summed over brokers. Items of a list, or one topic. False: no memory. */
struct rest_topic_share { int64_t size_bytes, records_estimate; double bytes_in, bytes_out; bool rates_known; };
bool rest_rows_topics(struct rest_rows *rows, const struct rest_gather *gather);
const struct rest_topic_share *rest_rows_topic(const struct rest_rows *rows, struct ot_str topic);     /* NULL: nobody told */

/* Partitions or replicas: the row of each broker. Items of a list, or one. */
bool rest_rows_places(struct rest_rows *rows, const struct rest_gather *gather);
json_t *rest_rows_place(const struct rest_rows *rows, int32_t broker, struct ot_str topic, int32_t partition);     /* NULL: it has not told */

void rest_rows_free(struct rest_rows *rows);

/* A member that is a whole number; -1: it is not there, or null. */
int64_t rest_row_int(const json_t *row, const char *name);

#endif
