/* Shared by the files of the dump: rows in the making, and a file read through one buffer. */
#ifndef OT_ENGINE_DUMP_INNER_H
#define OT_ENGINE_DUMP_INNER_H

#include "engine/dump.h"

struct eng_dumper {
    struct ot_io *io;
    const struct eng_dump_options *options;
    struct eng_dump_summary *summary;
    const char *path;
    int fd;
    uint64_t file_bytes;
    int64_t base_offset;                   /* of the file's name; -1 when it has none */
};

void eng_dump_begin(struct eng_dump_row *row, enum eng_dump_kind kind);
void eng_dump_number(struct eng_dump_row *row, const char *name, int64_t number);
void eng_dump_optional(struct eng_dump_row *row, const char *name, int64_t number);    /* below 0: absent */
void eng_dump_bool(struct eng_dump_row *row, const char *name, bool value);
void eng_dump_word(struct eng_dump_row *row, const char *name, const char *text);
void eng_dump_bytes(struct eng_dump_row *row, const char *name, struct ot_blob bytes);
void eng_dump_headers(struct eng_dump_row *row, const char *name, struct ot_blob headers);
void eng_dump_emit(struct eng_dumper *dumper, const struct eng_dump_row *row);
void eng_dump_fault(struct eng_dumper *dumper, uint64_t pos, const char *format, ...) OT_PRINTF(3, 4);

/* Bytes [pos, pos + bytes) of the open file; grows as needed. SHORT: the file ends before. */
struct eng_dump_buffer { uint8_t *data; size_t cap, bytes; uint64_t pos; };
OT_MUST_CHECK enum ot_err eng_dump_at(struct eng_dumper *dumper, struct eng_dump_buffer *buffer, uint64_t pos, size_t bytes, const uint8_t **out);

/* The batches of a .log, one after the other, past damage. data is the whole batch, or NULL when it is not all there or too large. */
struct eng_dump_batch { struct eng_batch_info info; uint64_t pos; const uint8_t *data; bool crc_right; };
typedef enum ot_err eng_dump_each_batch(void *arg, struct eng_dumper *dumper, const struct eng_dump_batch *batch);
OT_MUST_CHECK enum ot_err eng_dump_walk(struct eng_dumper *dumper, eng_dump_each_batch *each, void *arg);

enum ot_err eng_dump_log(struct eng_dumper *dumper);
enum ot_err eng_dump_index(struct eng_dumper *dumper);
enum ot_err eng_dump_time_index(struct eng_dumper *dumper);
enum ot_err eng_dump_txn_index(struct eng_dumper *dumper);
enum ot_err eng_dump_snapshot(struct eng_dumper *dumper);
enum ot_err eng_dump_epochs(struct eng_dumper *dumper);
enum ot_err eng_dump_checkpoint(struct eng_dumper *dumper);
enum ot_err eng_dump_properties(struct eng_dumper *dumper);

/* A sum that may come from damaged files: wraps instead of overflowing. */
static inline int64_t eng_dump_sum(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

/* "00000000000000001587.log" -> 1587, "log"; false: no such name. */
bool eng_dump_name(const char *leaf, int64_t *offset_out, const char **suffix_out);

#endif
