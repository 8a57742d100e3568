/* Record batches as they travel and lie on disk: parse, check for a leader's append, stamp. Big-endian throughout.
 *
 *   pos  bytes  v2 batch header (61 bytes)                    in the CRC
 *     0      8  base offset                                   no
 *     8      4  length: bytes that follow this field          no
 *    12      4  partition leader epoch                        no
 *    16      1  magic = 2                                     no
 *    17      4  CRC-32C of everything from the attributes on
 *    21      2  attributes: bits 0-2 codec, 3 timestamp type (1 = append), 4 transactional, 5 control, 6 delete horizon
 *    23      4  last offset delta                             yes, from here on
 *    27      8  base timestamp (the delete horizon when bit 6 is set; deltas count from it all the same)
 *    35      8  max timestamp (all records' timestamp when bit 3 is set)
 *    43      8  producer id, -1 none
 *    51      2  producer epoch
 *    53      4  base sequence
 *    57      4  record count
 *    61         records, compressed as a whole; layout in engine/record.h
 *
 * Magic 0 and 1 share only the first 12 bytes and the place of magic: offset, length, crc, magic, attributes, [timestamp],
 * key, value (engine/record.h reads them; nothing appends them).
 *
 * A produced batch goes: eng_batch_take (produce rules, one batch) → eng_batch_check_shallow on the reactor → when
 * verdict.needs_deep eng_batch_check_deep on an I/O thread → when verdict.rebuild eng_batch_rebuild there, else
 * eng_batch_settle → with the partition's lane in hand eng_batch_stamp, which touches no byte under the CRC. No function here
 * allocates but through what it is given; any thread. */
#ifndef OT_ENGINE_BATCH_H
#define OT_ENGINE_BATCH_H

#include "engine/codec.h"
#include "engine/producers.h"

#define ENG_BATCH_HEADER_BYTES 61u
#define ENG_BATCH_PREFIX_BYTES 17u /* enough to know length and magic: eng_batch_bytes */
#define ENG_BATCH_CRC_POS      17u
#define ENG_BATCH_CRC_FROM     21u /* first byte under the CRC */

enum eng_timestamp_type { ENG_TIMESTAMP_NONE = -1, ENG_TIMESTAMP_CREATE = 0, ENG_TIMESTAMP_APPEND = 1 };

/* A parsed header. For magic 0 and 1: base_offset is the entry's offset (the last inner one for a compressed wrapper),
 * max_timestamp its timestamp (-1 in magic 0), record_count and last_offset_delta -1, producer fields -1. */
struct eng_batch_info {
    int64_t base_offset;
    int64_t batch_bytes; /* whole, with the first 12 */
    int64_t base_timestamp, max_timestamp;
    int64_t producer_id;
    int32_t partition_leader_epoch;
    int32_t last_offset_delta;
    int32_t base_sequence;
    int32_t record_count;
    uint32_t crc;
    int16_t attributes;
    int16_t producer_epoch;
    int8_t magic;
    enum eng_codec codec; /* ids 5-7 are kept as they are: see eng_batch_codec_known */
    enum eng_timestamp_type timestamp_type;
    bool transactional, control, has_delete_horizon;
};
static inline bool eng_batch_codec_known(const struct eng_batch_info *info)
{
    return info->codec < ENG_CODEC_COUNT;
}
static inline int64_t eng_batch_last_offset(const struct eng_batch_info *info)
{
    return (int64_t)((uint64_t)info->base_offset + (uint64_t)(int64_t)OT_MAX(info->last_offset_delta, 0));
}
int32_t eng_batch_last_sequence(const struct eng_batch_info *info); /* wraps to 0 behind INT32_MAX; -1 without sequence */
int32_t eng_sequence_add(int32_t sequence, int32_t count);          /* as Kafka counts: INT32_MAX is followed by 0 */

/* Length and magic only, from the first 17 bytes. SHORT: fewer. CORRUPT_MESSAGE: length below any batch or beyond INT32_MAX,
 * unknown magic. */
OT_MUST_CHECK enum ot_err eng_batch_bytes(const uint8_t *data, size_t bytes, int64_t *batch_bytes_out, int8_t *magic_out);
/* The header alone; the records behind it need not be there. SHORT: fewer bytes than the header. CORRUPT_MESSAGE as above, or
 * a length that is below the header of its magic. */
OT_MUST_CHECK enum ot_err eng_batch_parse(const uint8_t *data, size_t bytes, struct eng_batch_info *out);
/* The whole batch must be there: data[0, info->batch_bytes). CRC-32C for magic 2, CRC-32 for the others. CORRUPT_MESSAGE. */
OT_MUST_CHECK enum ot_err eng_batch_check_crc(const uint8_t *data, const struct eng_batch_info *info);

/* Walk over a run of batches. OT_OK: *piece_out is the next whole one. NOT_FOUND: no whole one is left (a cut last batch is
 * silently left, as Kafka does: what is left in the cursor). CORRUPT_MESSAGE: the bytes at the cursor are no batch. */
struct eng_batch_piece {
    const uint8_t *data;
    uint32_t bytes;
    int8_t magic;
};
OT_MUST_CHECK enum ot_err eng_batch_split(struct ot_reader *cursor, struct eng_batch_piece *piece_out);

/* ---- a leader's append ---- */

struct eng_batch_rules {
    int64_t now_ms;
    int64_t timestamp_before_max_ms, timestamp_after_max_ms; /* message.timestamp.{before,after}.max.ms */
    int64_t max_decompressed_bytes; /* max.decompressed.message.bytes: of one record in a compressed batch */
    int32_t max_message_bytes;      /* of the batch as stored */
    int32_t level;                  /* compression.CODEC.level of compression, or ENG_CODEC_LEVEL_DEFAULT */
    enum eng_codec compression;     /* compression.type; ENG_CODEC_PRODUCER keeps what came */
    enum eng_timestamp_type timestamp_type;
    enum eng_origin origin;      /* REPLICATION: header and CRC only, offsets are the leader's */
    uint32_t deep_bytes_max;     /* check_deep answers BUSY rather than decode more; 0: all */
    bool compact_only;           /* cleanup.policy has compact: every record needs a key */
    int16_t produce_api_version; /* for eng_batch_take; -1 outside Produce */
};
/* Kafka's defaults: CreateTime, any past, one hour ahead, 1048588 bytes, producer's compression, client. */
struct eng_batch_rules eng_batch_rules_default(int64_t now_ms);

#define ENG_RECORD_ERRORS_MAX 16u
struct eng_batch_verdict {
    enum ot_err err;                              /* OK so far; see the functions */
    char text[160];                               /* for error_message; empty when OK */
    int32_t record_errors[ENG_RECORD_ERRORS_MAX]; /* indexes of refused records, ascending: the first ones */
    uint32_t record_error_count;                  /* how many were refused in all */
    bool needs_deep;                              /* shallow cannot decide alone: compressed, or to be rebuilt */
    bool rebuild;                                 /* compression.type differs: the stored bytes are made by eng_batch_rebuild */
    bool restamp;                                 /* timestamp type or max timestamp change: eng_batch_settle redoes the CRC */
    bool odd_offsets;                             /* uncompressed with offset deltas other than 0, 1, 2…: taken, as Kafka does */
    int64_t max_timestamp;                        /* to be stored: of the records, or the append time */
    int32_t max_timestamp_index;                  /* index of the first record that has it; the last one for append time */
    int64_t append_time;                          /* -1 with CreateTime */
    enum eng_codec target;                        /* of the stored batch: decided by shallow, whatever the rules say later */
    enum eng_timestamp_type timestamp_type;       /* likewise, with max_timestamp */
    struct eng_batch_info info;                   /* as parsed */
};

/* What a Produce request may carry in one partition: exactly one whole batch of magic 2; zstd from version 7. INVALID_RECORD,
 * CORRUPT_MESSAGE, UNSUPPORTED_COMPRESSION_TYPE, with text in the verdict. Bytes behind the batch that are no whole batch are
 * ignored, as Kafka does. */
OT_MUST_CHECK enum ot_err eng_batch_take(const uint8_t *payload, size_t bytes, const struct eng_batch_rules *rules,
    struct eng_batch_piece *piece_out, struct eng_batch_verdict *verdict);
/* Header, sizes, CRC, and every record of an uncompressed batch, in place. Cost: one pass of CRC, one over the records'
 * frames. Fit for a reactor. Returns verdict->err. data[0, bytes) is one whole batch. */
OT_MUST_CHECK enum ot_err eng_batch_check_shallow(
    const uint8_t *data, size_t bytes, const struct eng_batch_rules *rules, struct eng_batch_verdict *verdict);
/* Every record of a compressed batch, through decode's window: never holds a record. verdict comes from check_shallow. A batch
 * that needs no deep check passes unread. Stricter than Kafka, which looks only at the start of each record. I/O thread; with a small
 * rules->deep_bytes_max a reactor: BUSY says that the batch holds more, and that the verdict is spoilt. */
OT_MUST_CHECK enum ot_err eng_batch_check_deep(const uint8_t *data, size_t bytes, const struct eng_batch_rules *rules,
    struct eng_decode *decode, struct eng_batch_verdict *verdict);
/* The batch anew with the codec of rules->compression: record bytes are carried over as they are (offset deltas renumbered
 * when odd), producer fields kept, base offset 0. Into sink, whose cap is lowered to max_message_bytes: MESSAGE_TOO_LARGE.
 * NO_MEMORY. I/O thread. */
OT_MUST_CHECK enum ot_err eng_batch_rebuild(const uint8_t *data, size_t bytes, const struct eng_batch_rules *rules,
    struct eng_decode *decode, struct eng_encode *encode, struct eng_batch_verdict *verdict, struct eng_sink *sink);
/* Write timestamp type and max timestamp of the verdict into data, and the CRC anew if that changed anything. Outside the
 * partition's mutex. */
void eng_batch_settle(uint8_t *data, size_t bytes, const struct eng_batch_verdict *verdict);
/* Base offset and leader epoch, both outside the CRC. Never fails, touches 12 bytes. */
void eng_batch_stamp(uint8_t *data, int64_t base_offset, int32_t leader_epoch);

/* The end marker in a control batch: is_marker false for other control types. data is one whole, checked batch. */
void eng_batch_marker(const uint8_t *data, const struct eng_batch_info *info, struct eng_marker *out);

#endif
