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
 * row   u8 op (1 set, 2 remove) | uvarint key bytes | key | set only: uvarint value bytes, value
 * A delta is rows one after the other; later ones see the effect of earlier ones. */
struct coord_delta { uint8_t *data; uint32_t bytes, cap_bytes, row_count; };
/* Change value and note the change. TOO_LARGE also when the delta is full (see coord_delta_is_full); nothing was changed then. */
OT_MUST_CHECK enum ot_err coord_delta_set(struct coord_delta *delta, struct coord_value *value, struct ot_blob key, struct ot_blob bytes);
OT_MUST_CHECK enum ot_err coord_delta_remove(struct coord_delta *delta, struct coord_value *value, struct ot_blob key);
/* Apply the rows of a delta. MALFORMED, NO_MEMORY, NOT_FOUND (a remove of nothing), TOO_LARGE: value is as before. */
OT_MUST_CHECK enum ot_err coord_delta_apply(struct coord_value *value, struct ot_blob delta);
struct coord_delta_row { bool removed; struct ot_blob key, bytes; };
/* Next row of a delta; false at its end, or (reader->err) at what is no row. */
bool coord_delta_next(struct ot_reader *reader, struct coord_delta_row *out);

/* ---- snapshots: the rows in key order, made and read piece by piece ----
 * Rows are those of a delta, sets only. What stands around them (magic, stamp, hash, checksum) is the driver's file format. */
struct coord_snapshot_reader { struct coord_cursor cursor; struct ot_blob key, bytes; bool pending; };
void coord_snapshot_begin(struct coord_snapshot_reader *reader, const struct coord_value *value);  /* value: a share that outlives the reader */
size_t coord_snapshot_read(struct coord_snapshot_reader *reader, uint8_t *out, size_t cap_bytes);  /* whole rows only, cap at least 2 KiB; 0 at the end */
/* Takes whole rows from the front of data and says how many bytes they were; the rest comes again with more behind it. MALFORMED, also on falling keys. */
OT_MUST_CHECK enum ot_err coord_snapshot_load(struct coord_value *value, const uint8_t *data, size_t bytes, size_t *taken_out);

#endif
