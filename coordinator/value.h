/* The cluster's metadata: one value, stamped (term, version), made of rows in tables.
 *
 * A row is a key (first byte: its table, see coordinator/rows.h) and bytes. state_hash is the sum of the hashes of all rows modulo 2^64, so a change
 * costs its rows only, and two values with equal hashes are taken for equal. A change from one value to the next is a delta: a list of sets
 * and removes. Sharing a value is one count; the share stays as it is while the original changes.
 *
 * thread  changing, sharing and dropping: one thread (the coordinator's). Reading a share: any thread. */
#ifndef OT_COORDINATOR_VALUE_H
#define OT_COORDINATOR_VALUE_H

#include "coordinator/tree.h"

struct coord_stamp { int32_t term; int64_t version; };

struct coord_value {
    struct coord_tree tree;
    struct coord_stamp stamp;
    uint64_t state_hash;
    uint64_t row_count, row_bytes;             /* bytes: keys and values */
};

void coord_value_init(struct coord_value *value, struct coord_pages *pages);
struct coord_value coord_value_share(const struct coord_value *value);
void coord_value_drop(struct coord_value *value);
static inline bool coord_value_get(const struct coord_value *value, struct ot_blob key, struct ot_blob *out)
{
    return coord_tree_get(&value->tree, key, out);
}
OT_MUST_CHECK enum ot_err coord_value_set(struct coord_value *value, struct ot_blob key, struct ot_blob bytes);    /* NO_MEMORY, TOO_LARGE */
OT_MUST_CHECK enum ot_err coord_value_remove(struct coord_value *value, struct ot_blob key);                       /* NOT_FOUND, NO_MEMORY */
uint64_t coord_row_hash(struct ot_blob key, struct ot_blob bytes);     /* stable: on disk and between nodes */

/* ---- deltas ----
 * row   u8 op | set (1): uvarint key bytes, key, uvarint value bytes, value | remove (2): uvarint key bytes, key
 *             | like (3), a set told by what differs from the row that was set before it in the same delta: uvarint bytes that both keys begin with, uvarint bytes behind
 *               them, these; uvarint value bytes, and for each eight of them a byte whose bits name those that differ (lowest bit first), and these
 * A delta is rows one after the other; later ones see the effect of earlier ones, and a delta behind another one is a delta too: the first set of each is told whole.
 * Neighbours among the partitions of a topic differ in a few bytes, and when a broker goes there are thousands of them (docs/simulation.md has the figures). */
enum { COORD_LIKE_KEY_BYTES_MAX = 64, COORD_LIKE_BYTES_MAX = 192 };            /* longer rows are told whole, and nothing is told by them */
struct coord_delta_last { uint32_t key_bytes, bytes; uint8_t key[COORD_LIKE_KEY_BYTES_MAX], data[COORD_LIKE_BYTES_MAX]; };        /* no key: nothing to differ from */
struct coord_delta { uint8_t *data; uint32_t bytes, cap_bytes, row_count; struct coord_delta_last last; };
/* Change value and note the change. TOO_LARGE also when the delta is full; nothing was changed then. */
OT_MUST_CHECK enum ot_err coord_delta_set(struct coord_delta *delta, struct coord_value *value, struct ot_blob key, struct ot_blob bytes);
OT_MUST_CHECK enum ot_err coord_delta_remove(struct coord_delta *delta, struct coord_value *value, struct ot_blob key);
/* Becomes the delta of first and then more, which do not lie in it. TOO_LARGE: as before. */
OT_MUST_CHECK enum ot_err coord_delta_take(struct coord_delta *delta, struct ot_blob first, struct ot_blob more);
/* Apply the rows of a delta. MALFORMED, NO_MEMORY, NOT_FOUND (a remove of nothing), TOO_LARGE: value is as before. */
OT_MUST_CHECK enum ot_err coord_delta_apply(struct coord_value *value, struct ot_blob delta);
struct coord_delta_reader { struct ot_reader in; struct coord_delta_last last; };
struct coord_delta_row { bool removed; struct ot_blob key, bytes; };
struct coord_delta_reader coord_delta_reader_over(struct ot_blob delta);
/* Next row of a delta, good until the one after it; false at the end, or (reader->in.err) at what is no row. */
bool coord_delta_next(struct coord_delta_reader *reader, struct coord_delta_row *out);

/* ---- snapshots: the rows in key order, made and read piece by piece ----
 * Rows are those of a delta, sets only; each piece that is made begins with one that is told whole. What stands around them (magic, stamp, hash, checksum) is the driver's file format. */
struct coord_snapshot_reader { struct coord_cursor cursor; struct ot_blob key, bytes; bool pending; };
void coord_snapshot_begin(struct coord_snapshot_reader *reader, const struct coord_value *value);  /* value: a share that outlives the reader */
size_t coord_snapshot_read(struct coord_snapshot_reader *reader, uint8_t *out, size_t cap_bytes);  /* whole rows only, cap at least 2 KiB; 0 at the end */
/* Takes whole rows from the front of data and says how many bytes they were; the rest comes again with more behind it. last: zeroes before the first piece of a snapshot, then as it was left.
 * MALFORMED, also on falling keys. */
OT_MUST_CHECK enum ot_err coord_snapshot_load(struct coord_value *value, struct coord_delta_last *last, const uint8_t *data, size_t bytes, size_t *taken_out);

#endif
