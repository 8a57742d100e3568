/* The two sparse indexes of a segment, in Kafka's format. Both are caches of what the .log says: lost or damaged ones are made again.
 *
 *   .index      8 bytes an entry   int32 offset - base offset of the segment, int32 position in the .log
 *   .timeindex 12 bytes an entry   int64 timestamp, int32 offset - base offset
 *
 * An offset entry names the last offset of a batch and where that batch starts. A time entry says: up to the batch that ends with this offset,
 * the largest timestamp is this one; timestamps strictly grow. One entry each for every index.interval.bytes of log, at the batch that
 * crosses; one more time entry when the segment is sealed. Functions here work on open files through struct ot_io, hold no state and may
 * block; any thread. A file shorter than `count` entries is an error of IO or SHORT to them. */
#ifndef OT_ENGINE_INDEX_H
#define OT_ENGINE_INDEX_H

#include "base/io.h"

#define ENG_INDEX_ENTRY_BYTES 8u
#define ENG_TIME_ENTRY_BYTES 12u

struct eng_index_entry { int64_t offset; uint32_t pos; };              /* offset is absolute */
struct eng_time_entry { int64_t timestamp_ms, offset; };

void eng_index_entry_put(uint8_t out[static ENG_INDEX_ENTRY_BYTES], int64_t base_offset, const struct eng_index_entry *entry);
void eng_index_entry_get(const uint8_t in[static ENG_INDEX_ENTRY_BYTES], int64_t base_offset, struct eng_index_entry *entry);
void eng_time_entry_put(uint8_t out[static ENG_TIME_ENTRY_BYTES], int64_t base_offset, const struct eng_time_entry *entry);
void eng_time_entry_get(const uint8_t in[static ENG_TIME_ENTRY_BYTES], int64_t base_offset, struct eng_time_entry *entry);

/* Each looks through entries [0, count). NOT_FOUND: no such entry. */
OT_MUST_CHECK enum ot_err eng_index_at(struct ot_io *io, int fd, uint32_t slot, int64_t base_offset, struct eng_index_entry *out);
OT_MUST_CHECK enum ot_err eng_time_index_at(struct ot_io *io, int fd, uint32_t slot, int64_t base_offset, struct eng_time_entry *out);
/* The last entry with offset <= asked. */
OT_MUST_CHECK enum ot_err eng_index_floor(struct ot_io *io, int fd, uint32_t count, int64_t base_offset, int64_t offset, struct eng_index_entry *out);
/* The same, and the entry behind it, mostly with one read. end_offset: of the last record that the entries may name, about (a better guess of where to
 * look); base_offset when not known. may_not_block: BUSY when what it would read is not in the page cache. */
struct eng_index_look { struct ot_io *io; int fd; uint32_t count; int64_t base_offset, end_offset; bool may_not_block; };
struct eng_index_around { struct eng_index_entry floor, next; bool has_floor, has_next; };
OT_MUST_CHECK enum ot_err eng_index_around(const struct eng_index_look *look, int64_t offset, struct eng_index_around *out);
/* The first entry with pos >= asked. */
OT_MUST_CHECK enum ot_err eng_index_ceiling_pos(struct ot_io *io, int fd, uint32_t count, int64_t base_offset, uint64_t pos, struct eng_index_entry *out);
/* The last entry with timestamp <= asked. */
OT_MUST_CHECK enum ot_err eng_time_index_floor(struct ot_io *io, int fd, uint32_t count, int64_t base_offset, int64_t at_ms, struct eng_time_entry *out);
/* How many leading entries have an offset below the limit: what truncation keeps. */
OT_MUST_CHECK enum ot_err eng_index_count_below(struct ot_io *io, int fd, uint32_t count, int64_t base_offset, int64_t offset, uint32_t *out);
OT_MUST_CHECK enum ot_err eng_time_index_count_below(struct ot_io *io, int fd, uint32_t count, int64_t base_offset, int64_t offset, uint32_t *out);
/* Every entry in order and inside the log. CORRUPT: not so. Reads in bounded pieces. */
OT_MUST_CHECK enum ot_err eng_index_check(struct ot_io *io, int fd, uint32_t count, int64_t base_offset, int64_t end_offset, uint64_t log_bytes);
OT_MUST_CHECK enum ot_err eng_time_index_check(struct ot_io *io, int fd, uint32_t count, int64_t base_offset, int64_t end_offset);

#endif
