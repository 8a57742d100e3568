/* The transaction index of a segment, .txnindex: its aborted transactions, one entry for each abort marker in that segment, in order of the markers.
 *
 *   pos  bytes  entry (34 bytes, schema AbortedTxn behind its version)
 *     0      2  version = 0
 *     2      8  producer id
 *    10      8  first offset: of the transaction's first batch, maybe in an earlier segment
 *    18      8  last offset: of the abort marker; grows from entry to entry
 *    26      8  last stable offset when the marker was written: whoever reads only below it need not look at later entries
 *
 * The file exists only when something was aborted. It is written after the marker and synced with its segment; after a crash recovery makes it anew by replay (its
 * transactions may begin before the recovery point, which the producer snapshot knows). No state, no lock here: the segment holds descriptor and size, one
 * writer at a time; readers look at [0, bytes) of a size they took before. */
#ifndef OT_ENGINE_TXNINDEX_H
#define OT_ENGINE_TXNINDEX_H

#include "base/io.h"
#include "engine/producers.h"

struct eng_aborted;                    /* engine/log.h */

#define ENG_TXN_ENTRY_BYTES 34u

struct eng_txn_entry { int64_t producer_id, first_offset, last_offset, last_stable_offset; };
void eng_txn_entry_encode(const struct eng_txn_entry *entry, uint8_t out[static ENG_TXN_ENTRY_BYTES]);
OT_MUST_CHECK enum ot_err eng_txn_entry_decode(const uint8_t data[static ENG_TXN_ENTRY_BYTES], struct eng_txn_entry *out);   /* CORRUPT: another version */

/* Append what an abort marker completed; *bytes_io is the file's size before and after (an error: as before, what was half written is overwritten). A committed
 * one is not written. NO_SPACE, IO. */
OT_MUST_CHECK enum ot_err eng_txn_index_append(struct ot_io *io, int fd, const struct eng_completed_txn *txn, uint64_t *bytes_io);
/* Remove the entries whose marker is at or above offset. */
OT_MUST_CHECK enum ot_err eng_txn_index_truncate(struct ot_io *io, int fd, int64_t offset, uint64_t *bytes_io);
/* CORRUPT: not whole entries of version 0, a marker below base_offset or at or above end_offset, markers not growing, or a transaction that ends before it begins. */
OT_MUST_CHECK enum ot_err eng_txn_index_check(struct ot_io *io, int fd, uint64_t bytes, int64_t base_offset, int64_t end_offset);
/* Every entry in order; each returns false to stop. CORRUPT at an entry that cannot be read. */
OT_MUST_CHECK enum ot_err eng_txn_index_each(struct ot_io *io, int fd, uint64_t bytes, bool (*each)(void *arg, const struct eng_txn_entry *entry), void *arg);

/* Collect the aborted transactions that touch [from, to): one call for each segment from that of `from` on, until done is set. count may pass max: then only
 * max are in out, and the caller takes a larger array. */
struct eng_txn_collect {
    int64_t from, to;
    struct eng_aborted *out;
    uint32_t max, count;
    bool done;                         /* nothing later can touch the range */
};
OT_MUST_CHECK enum ot_err eng_txn_index_collect(struct ot_io *io, int fd, uint64_t bytes, struct eng_txn_collect *collect);
void eng_txn_collect_sort(struct eng_txn_collect *collect);            /* by first offset, at the end */

#endif
