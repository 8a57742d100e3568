/* Walks the batches of a .log file in order, header by header, with or without their checksums. Memory is the buffer it is given.
 *
 * The walk believes nothing: a length, offset or magic that cannot be ends it with CORRUPT at the position reached. One thread. */
#ifndef OT_ENGINE_SCAN_H
#define OT_ENGINE_SCAN_H

#include "base/io.h"
#include "engine/batch.h"

#define ENG_SCAN_BUFFER_BYTES 8192u        /* for lookups, on the stack */
#define ENG_SCAN_BULK_BYTES (256u << 10)   /* for recovery */

struct eng_scan {
    struct ot_io *io;
    int fd;
    uint64_t pos, end;                     /* the next batch starts at pos; nothing is read at or past end */
    uint64_t batch_pos;                    /* of the batch last given */
    uint8_t *buffer;
    uint32_t buffer_cap, buffer_bytes;
    uint64_t buffer_pos;
    uint64_t read_bytes;                   /* from the file, so far */
    bool check_crc;
};
void eng_scan_init(struct eng_scan *scan, struct ot_io *io, int fd, uint64_t pos, uint64_t end, uint8_t *buffer, uint32_t buffer_cap);
/* OK: *info is the batch at scan->batch_pos, pos is behind it. NOT_FOUND: pos == end. SHORT: what is left is no whole batch. CORRUPT: header or checksum is wrong; pos
 * stays. IO, NO_MEMORY. */
OT_MUST_CHECK enum ot_err eng_scan_next(struct eng_scan *scan, struct eng_batch_info *info);
/* The whole batch last given, in the buffer or malloc'ed (*owned_out: free it); at most bytes_max, else TOO_LARGE. */
OT_MUST_CHECK enum ot_err eng_scan_load(struct eng_scan *scan, const struct eng_batch_info *info, uint64_t bytes_max, const uint8_t **data_out,
    uint8_t **owned_out);
/* After a bad batch: is there a sound one (magic 2, right checksum, base offset at or above min_offset) anywhere behind pos? *found_out. */
OT_MUST_CHECK enum ot_err eng_scan_find_later(struct eng_scan *scan, int64_t min_offset, bool *found_out);
/* Are all bytes from pos to end zero? What a preallocated tail looks like. */
OT_MUST_CHECK enum ot_err eng_scan_is_zero(struct eng_scan *scan, bool *zero_out);

#endif
