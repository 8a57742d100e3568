/* Build v2 batches from records: for REST, the tools, internal topics, markers. Byte for byte what Kafka's own builder makes
 * of the same fields when uncompressed. One thread; borrows everything until finish. */
#ifndef OT_ENGINE_BATCH_BUILD_H
#define OT_ENGINE_BATCH_BUILD_H

#include "engine/record.h"

struct eng_batch_fields { /* of the header; start from eng_batch_fields_default */
    int64_t base_offset;
    int64_t producer_id;
    int64_t append_time;       /* >= 0: append-time batch with this max timestamp */
    int64_t delete_horizon_ms; /* >= 0: bit 6 and base timestamp; else -1 */
    int64_t last_offset_delta; /* -1: of the last record; else stated (after compaction) */
    int64_t max_timestamp;     /* used when there are no records; -1 */
    int32_t leader_epoch;
    int32_t base_sequence;
    int32_t level;
    int16_t producer_epoch;
    enum eng_codec codec;
    bool transactional, control;
};
struct eng_batch_fields eng_batch_fields_default(void); /* offset 0, epoch -1, no producer, CreateTime, NONE */

struct eng_batch_builder {
    struct eng_batch_fields fields;
    struct eng_sink *sink;
    struct eng_encode *encode;
    size_t start; /* of the batch in the sink */
    int64_t base_timestamp, max_timestamp, last_offset;
    int32_t record_count;
    uint64_t plain_bytes; /* of the records before compression */
    enum ot_err err;
};
/* Appends to sink: several batches may follow each other. encode may be NULL with codec NONE. */
OT_MUST_CHECK enum ot_err eng_batch_build_begin(
    struct eng_batch_builder *builder, const struct eng_batch_fields *fields, struct eng_encode *encode, struct eng_sink *sink);
/* offset: absolute, at or above base_offset and the record before; timestamp: -1 = none. headers may be NULL with count 0.
 * INVALID_RECORD: an offset goes back or a size leaves the format's range; TOO_LARGE: the sink is full (the builder is spoilt:
 * the caller rolls back to builder->start); NO_MEMORY. */
OT_MUST_CHECK enum ot_err eng_batch_build_record(struct eng_batch_builder *builder, int64_t offset, int64_t timestamp,
    struct ot_blob key, struct ot_blob value, const struct eng_record_header *headers, uint32_t header_count);
/* The same at the next offset. */
OT_MUST_CHECK enum ot_err eng_batch_build_next(struct eng_batch_builder *builder, int64_t timestamp, struct ot_blob key,
    struct ot_blob value, const struct eng_record_header *headers, uint32_t header_count);
/* How many bytes such a record takes before compression, for size limits. */
size_t eng_batch_build_record_bytes(const struct eng_batch_builder *builder, int64_t offset, int64_t timestamp, struct ot_blob key,
    struct ot_blob value, const struct eng_record_header *headers, uint32_t header_count);
/* Writes the header and the CRC. The batch is sink->data[builder->start, sink->bytes). */
OT_MUST_CHECK enum ot_err eng_batch_build_finish(struct eng_batch_builder *builder);

/* A whole transaction end marker (78 bytes) into out; returns its size. Fields: producer id, epoch and leader epoch as in the
 * header. */
#define ENG_MARKER_BYTES 78u
size_t eng_batch_build_marker(uint8_t out[ENG_MARKER_BYTES], int64_t producer_id, int16_t producer_epoch, int32_t leader_epoch,
    int32_t coordinator_epoch, bool commit, int64_t timestamp_ms);

#endif
