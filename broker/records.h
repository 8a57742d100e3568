/* Records for doors that speak of records and not of batches (REST, tools): batches made from them, and records taken out of what a fetch read.
 *
 * Writing: broker_records_pack groups records by partition into one batch each (more rounds when a batch would grow past the limit) and
 * fills produce parts for broker_produce. Reading: broker_records_read goes over an answered fetch on an I/O thread, in a decoding
 * window, and hands out each visible record by callback. */
#ifndef OT_BROKER_RECORDS_H
#define OT_BROKER_RECORDS_H

#include "broker/call.h"
#include "broker/fetch.h"
#include "broker/produce.h"

struct broker_record_header { struct ot_str key; struct ot_blob value; };
struct broker_record {
    int64_t timestamp_ms;
    struct ot_blob key, value;                 /* null: null */
    const struct broker_record_header *headers; uint32_t header_count;
    int32_t partition;
    /* answered by pack */
    uint32_t round;                            /* batches of one partition are sent one after the other */
    uint32_t part, delta;                      /* index of the part in its round, and the record's place in the batch */
};

/* Where a record goes: murmur2 of the key as Kafka's clients do; without key the next one of *round_robin, which all callers share. */
int32_t broker_records_partition(struct ot_blob key, int32_t partition_count, _Atomic uint32_t *round_robin);
/* "none", "gzip", "snappy", "lz4", "zstd". */
bool broker_records_codec_known(struct ot_str name);

struct broker_records_round { struct ot_buf *buf; struct broker_produce_part *parts; uint32_t part_count; };
/* Assigns rounds first (broker_records_rounds), then packs one round at a time, so that memory is taken for one round.
 * batch_bytes_max bounds the records of a batch before compression; a single larger record has a batch to itself.
 * Parts are from the arena, with topic and partition set. Unref the buf when the produce is done.
 * NO_MEMORY; TOO_LARGE: more than bytes_max for the round; INVALID_RECORD: a record leaves the format. */
uint32_t broker_records_rounds(struct broker_record *records, uint32_t count, size_t batch_bytes_max, struct ot_arena *arena);   /* how many rounds; 0: no memory */
OT_MUST_CHECK enum ot_err broker_records_pack(struct broker *broker, struct ot_str topic, struct broker_record *records, uint32_t count, uint32_t round,
    struct ot_str codec, struct ot_pool *pool, size_t bytes_max, struct ot_arena *arena, struct broker_records_round *out);
/* Give a packed batch a producer and the sequence of its first record, and make it part of its transaction (its CRC is made anew). */
void broker_records_stamp(struct broker_produce_part *part, int64_t producer_id, int16_t producer_epoch, int32_t base_sequence, bool transactional);
/* Effective message.max.bytes of a topic, for batch_bytes_max; the default for unknown ones. Any thread. */
int32_t broker_records_batch_max(struct broker *broker, struct ot_str topic);

struct broker_record_view {                    /* borrowed during the call */
    int64_t offset, timestamp_ms;
    bool append_time;                          /* timestamp is the broker's */
    struct ot_blob key, value;
    uint32_t header_count;
    int64_t producer_id;                       /* -1: none */
    bool transactional;
    const char *codec;                         /* of its batch */
    uint32_t size_bytes;                       /* as it lies in the batch, uncompressed */
    struct ot_blob headers;                    /* walk them with broker_record_headers */
};
/* cursor: start with record->headers; false at the end. */
bool broker_record_headers(struct ot_reader *cursor, struct broker_record_header *out);

struct broker_records {
    struct broker_call call;
    /* asked */
    const struct broker_fetch_row *row;        /* of an answered fetch that is not released yet */
    int64_t from_offset;                       /* earlier records of the first batch are passed over */
    struct ot_pool *pool;                      /* holds what is read from the files */
    bool (*each)(struct broker_records *records, const struct broker_record_view *record);    /* on an I/O thread; false: enough */
    _Atomic bool cancelled;                    /* set from any thread until done: nobody wants it any more, and the rest of the work is left; error says CANCELLED */
    /* answered */
    enum ot_err error;                         /* NO_MEMORY, IO, CORRUPT_MESSAGE, INVALID_RECORD, UNSUPPORTED_COMPRESSION_TYPE, CANCELLED; what came before it was handed out */
    int64_t next_offset;                       /* behind the last record looked at; from_offset when there was none */
    /* the broker's own */
    struct broker *broker;
    struct ot_task io_task;
};
/* Control records and, when the row lists aborted transactions, theirs are passed over. done on home, never before this returns. */
void broker_records_read(struct broker *broker, struct broker_records *records);

#endif
