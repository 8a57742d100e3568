/* Producer snapshot files, NNNNNNNNNNNNNNNNNNNN.snapshot: the producer state before the batch at that offset. Kafka's format and places: one beside each segment but
 * the first (made when it was rolled), and one at the log end after a clean close.
 *
 *   pos  bytes  file                                        entry (46 bytes)
 *     0      2  version = 1                                   0   8  producer id
 *     2      4  CRC-32C of everything from 6 to the end       8   2  epoch
 *     6      4  entry count                                  10   4  last sequence (-1: no batch)
 *    10         entries                                      14   8  last offset (-1: no batch)
 *    ..         remembered section (ours, may be absent)     22   4  last offset minus first offset of that batch
 *                                                            26   8  timestamp
 *   remembered section: what Kafka's format has no place     34   4  epoch of the last coordinator, -1
 *     0      4  "otp1"                                       38   8  first offset of the open transaction, -1
 *     4         one item an entry, in the same order:
 *               8  wall time of the last append
 *               1  count of older batches (0 to 4), each, oldest first: int32 last sequence, int64 last offset, int32 offset delta, int64 timestamp
 *
 * Kafka reads the entries and ignores what follows them (its checksum covers it), so a directory of ours opens there; its files open here, with one
 * remembered batch a producer as after any restart of Kafka. Files are replaced whole (temporary name, sync, rename); a damaged one is deleted and the one before
 * it is used, then the log is replayed from there. No lock: one writer, as the log's. */
#ifndef OT_ENGINE_SNAPSHOTS_H
#define OT_ENGINE_SNAPSHOTS_H

#include "base/bytes.h"
#include "base/io.h"
#include "engine/producers.h"

/* ---- format ---- */

#define ENG_SNAPSHOT_HEAD_BYTES 10u
#define ENG_SNAPSHOT_ENTRY_BYTES 46u
#define ENG_SNAPSHOT_OLDER_BYTES 24u
#define ENG_SNAPSHOT_OLDER_MAX 4u
#define ENG_SNAPSHOT_VERSION 1

struct eng_snapshot_entry {
    int64_t producer_id, last_offset, timestamp_ms, txn_first_offset;
    int32_t last_sequence, offset_delta, coordinator_epoch;
    int16_t epoch;
};
struct eng_snapshot_older { int64_t last_offset, timestamp_ms; int32_t last_sequence, offset_delta; };
struct eng_snapshot_item {                 /* of the remembered section */
    int64_t touched_ms;
    struct eng_snapshot_older older[ENG_SNAPSHOT_OLDER_MAX];
    uint32_t older_count;
};
void eng_snapshot_write_head(struct ot_writer *out, uint32_t crc, uint32_t entry_count);
void eng_snapshot_write_entry(struct ot_writer *out, const struct eng_snapshot_entry *entry);
void eng_snapshot_write_section(struct ot_writer *out);                    /* the mark; the items follow */
void eng_snapshot_write_item(struct ot_writer *out, const struct eng_snapshot_item *item);

/* A snapshot in memory. entries and items are read in step: next_entry then next_item for each of entry_count. */
struct eng_snapshot {
    struct ot_reader entries, items;
    uint32_t entry_count, crc_stored, crc_computed;
    int16_t version;
    bool has_items;
};
/* SHORT, MALFORMED: no such file by its form (the fields above are set as far as they were read); CORRUPT: the checksum is wrong, entries can be read. */
OT_MUST_CHECK enum ot_err eng_snapshot_parse(const void *data, size_t bytes, struct eng_snapshot *out);
void eng_snapshot_next_entry(struct eng_snapshot *snapshot, struct eng_snapshot_entry *out);
/* False, and a zeroed item without time (-1): there is no section, or it ends or contradicts itself here. */
bool eng_snapshot_next_item(struct eng_snapshot *snapshot, struct eng_snapshot_item *out);

/* ---- files ---- */

#define ENG_SNAPSHOT_FILE_BYTES_MAX (256u << 20)
#define ENG_SNAPSHOT_NAME_BYTES 30u
void eng_snapshots_name(int64_t offset, char out[static ENG_SNAPSHOT_NAME_BYTES]);
bool eng_snapshots_parse_name(const char *name, int64_t *offset_out);

OT_MUST_CHECK enum ot_err eng_snapshots_write(struct ot_io *io, const char *dir_path, int64_t offset, const struct ot_blob *snapshot, bool sync);
/* Offsets, ascending, malloc'ed (NULL when none). The caller frees them. */
OT_MUST_CHECK enum ot_err eng_snapshots_list(struct ot_io *io, const char *dir_path, int64_t **offsets_out, uint32_t *count_out);
/* Load the newest sound snapshot in [low_offset, high_offset] into producers; *offset_out says where the replay begins. Damaged ones are deleted after a log line.
 * None: OK, producers are empty and *offset_out is low_offset. IO and NO_MEMORY say nothing about the files. */
OT_MUST_CHECK enum ot_err eng_snapshots_load(struct ot_io *io, const char *dir_path, int64_t low_offset, int64_t high_offset,
    struct eng_producers *producers, int64_t wall_ms, int64_t *offset_out);
/* Delete those above (truncation) or below (retention) an offset; the one at it stays. Stops at the first error. */
OT_MUST_CHECK enum ot_err eng_snapshots_delete_above(struct ot_io *io, const char *dir_path, int64_t offset);
OT_MUST_CHECK enum ot_err eng_snapshots_delete_below(struct ot_io *io, const char *dir_path, int64_t offset);
/* Keep those of segments still there (base_offsets ascending), and the newest one if it is above all of them: a clean close left it. */
OT_MUST_CHECK enum ot_err eng_snapshots_retain(struct ot_io *io, const char *dir_path, const int64_t *base_offsets, uint32_t count);

#endif
