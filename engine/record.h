/* Records inside a batch, one after the other: magic 2 in place or through a decoding window, magic 0 and 1 converted on the way.
 *
 *   record of magic 2 (varints are zigzag)                     entry of magic 0 and 1
 *     varint  length of what follows                             int64  offset          int32 size of what follows
 *     int8    attributes (unused)                                uint32 CRC-32 of what follows
 *     varlong timestamp delta                                    int8   magic           int8  attributes
 *     varint  offset delta                                       int64  timestamp (magic 1)
 *     varint  key bytes (-1 null), key                           int32  key bytes (-1 null), key
 *     varint  value bytes (-1 null), value                       int32  value bytes (-1 null), value
 *     varint  header count; each: varint key bytes, key,         a compressed entry's value is a set of such entries (a wrapper);
 *             varint value bytes (-1 null), value                magic 1 counts inner offsets from 0, the wrapper has the last one
 *
 * An iterator lives on the caller's stack and borrows batch and decoding context until it is done; a context serves one
 * iterator at a time. Keys, values and headers are borrowed until the next call. A record that crosses the window is put
 * together in a buffer of the context's pool, which grows with what was decoded, never with what was claimed. One thread. */
#ifndef OT_ENGINE_RECORD_H
#define OT_ENGINE_RECORD_H

#include "engine/batch.h"

struct eng_record {
    int64_t offset;
    int64_t timestamp; /* the batch's max timestamp in append-time batches; -1 in magic 0 */
    int32_t sequence;  /* -1 without */
    int32_t index;     /* in the batch */
    int8_t attributes;
    struct ot_blob key, value;
    uint32_t header_count;
    struct ot_blob headers; /* already checked; read them with eng_record_header */
    struct ot_blob raw;     /* magic 2: the record's bytes behind its length */
};
struct eng_record_header {
    struct ot_blob key, value;
}; /* key: UTF-8 as a rule, never null */

struct eng_record_iter {
    struct eng_batch_info info;
    struct eng_decode *decode;
    const uint8_t *at, *end; /* of the chunk in hand */
    const uint8_t *data;     /* the batch */
    int64_t max_record_bytes;
    int64_t legacy_shift;        /* added to inner offsets of a magic 1 wrapper */
    int64_t taken_left;          /* plain bytes of the record being passed over (skim) */
    int32_t index;               /* of the next record */
    bool compressed, ended, one; /* one: a legacy entry that is a single record */
    enum ot_err err;
};

/* data[0, bytes) is one whole batch or legacy entry (eng_batch_split gives them); its CRC is not checked here. decode may be
 * NULL when it is uncompressed. max_record_bytes bounds one record of a compressed batch (max.decompressed.message.bytes); 0 =
 * INT32_MAX. CORRUPT_MESSAGE, INVALID_RECORD, UNSUPPORTED_COMPRESSION_TYPE, NO_MEMORY. */
OT_MUST_CHECK enum ot_err eng_record_open(
    struct eng_record_iter *iter, struct eng_decode *decode, const uint8_t *data, size_t bytes, int64_t max_record_bytes);
/* The next record. NOT_FOUND: there are no more, and the batch ended as it should. INVALID_RECORD: a record contradicts
 * itself, the count or the end of the data; CORRUPT_MESSAGE: the codec's data is damaged; NO_MEMORY. After an error the same
 * error again. */
OT_MUST_CHECK enum ot_err eng_record_next(struct eng_record_iter *iter, struct eng_record *out);
/* Only offset, timestamp, sequence, index, and whether key and value are null (their data pointers are NULL, bytes are set):
 * records are passed over in the window and never held. For ListOffsets, checks, counting. Do not mix with eng_record_next on
 * one iterator. */
OT_MUST_CHECK enum ot_err eng_record_skim(struct eng_record_iter *iter, struct eng_record *out);
/* Walk the headers of a record: start with cursor = ot_reader_over(record->headers.data, record->headers.bytes). False: no more. */
bool eng_record_header(struct ot_reader *cursor, struct eng_record_header *out);

#endif
