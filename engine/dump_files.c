/* Everything beside the .log: indexes, snapshots, checkpoints. */
#include "engine/dump_inner.h"
#include "engine/epochs.h"
#include "engine/snapshots.h"
#include "engine/txnindex.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define INDEX_ENTRY_BYTES 8u
#define TIME_ENTRY_BYTES 12u
#define TEXT_BYTES_MAX (64u << 20)

static bool is_zero(const uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (data[i] != 0) return false;
    }
    return true;
}

/* Entries of a fixed size, one after the other; each returns false when the rest says nothing (zeros of a preallocated index). */
typedef bool each_entry(struct eng_dumper *dumper, const uint8_t *entry, uint64_t pos, void *arg);

static enum ot_err walk_entries(struct eng_dumper *dumper, uint32_t entry_bytes, each_entry *each, void *arg)
{
    struct eng_dump_buffer buffer = { 0 };
    enum ot_err err = OT_OK;
    uint64_t whole = dumper->file_bytes - dumper->file_bytes % entry_bytes;
    for (uint64_t pos = 0; err == OT_OK && pos < whole; pos += entry_bytes) {
        const uint8_t *entry;
        err = eng_dump_at(dumper, &buffer, pos, entry_bytes, &entry);
        if (err != OT_OK) break;
        if (pos > 0 && is_zero(entry, entry_bytes)) {
            eng_dump_fault(dumper, pos, "entry of zeros: the file was not cut to its true size");
            goto done;
        }
        dumper->summary->entries++;
        if (!each(dumper, entry, pos, arg)) goto done;
    }
    if (err == OT_OK && whole != dumper->file_bytes) {
        eng_dump_fault(dumper, whole, "%" PRIu64 " bytes behind the last whole entry", dumper->file_bytes - whole);
    }
done:
    free(buffer.data);
    return err;
}

/* ---- .index, .timeindex, .txnindex ---- */

struct last { int64_t offset, value; };

static bool index_entry(struct eng_dumper *dumper, const uint8_t *entry, uint64_t pos, void *arg)
{
    struct last *last = arg;
    struct eng_dump_row row;
    int64_t offset = eng_dump_sum(dumper->base_offset, ot_load_u32(entry)), log_pos = (int64_t)ot_load_u32(entry + 4);
    eng_dump_begin(&row, ENG_DUMP_INDEX);
    eng_dump_number(&row, "offset", offset);
    eng_dump_number(&row, "position", log_pos);
    eng_dump_emit(dumper, &row);
    if (ot_load_i32(entry) < 0 || ot_load_i32(entry + 4) < 0) eng_dump_fault(dumper, pos, "a number below zero");
    if (pos > 0 && (offset <= last->offset || log_pos <= last->value)) {
        eng_dump_fault(dumper, pos, "offset %" PRId64 " at position %" PRId64 " does not follow %" PRId64 " at %" PRId64, offset, log_pos, last->offset, last->value);
    }
    *last = (struct last){ offset, log_pos };
    return true;
}

enum ot_err eng_dump_index(struct eng_dumper *dumper)
{
    struct last last = { 0, 0 };
    return walk_entries(dumper, INDEX_ENTRY_BYTES, index_entry, &last);
}

static bool time_entry(struct eng_dumper *dumper, const uint8_t *entry, uint64_t pos, void *arg)
{
    struct last *last = arg;
    struct eng_dump_row row;
    int64_t timestamp_ms = ot_load_i64(entry), offset = eng_dump_sum(dumper->base_offset, ot_load_u32(entry + 8));
    eng_dump_begin(&row, ENG_DUMP_TIME_INDEX);
    eng_dump_number(&row, "timestamp", timestamp_ms);
    eng_dump_number(&row, "offset", offset);
    eng_dump_emit(dumper, &row);
    if (ot_load_i32(entry + 8) < 0) eng_dump_fault(dumper, pos, "a number below zero");
    if (pos > 0 && (offset <= last->offset || timestamp_ms <= last->value)) {
        eng_dump_fault(dumper, pos, "timestamp %" PRId64 " at offset %" PRId64 " does not follow %" PRId64 " at %" PRId64, timestamp_ms, offset, last->value, last->offset);
    }
    *last = (struct last){ offset, timestamp_ms };
    return true;
}

enum ot_err eng_dump_time_index(struct eng_dumper *dumper)
{
    struct last last = { 0, 0 };
    return walk_entries(dumper, TIME_ENTRY_BYTES, time_entry, &last);
}

static bool txn_entry(struct eng_dumper *dumper, const uint8_t *data, uint64_t pos, void *arg)
{
    int64_t *last_offset = arg;
    struct eng_dump_row row;
    struct eng_txn_entry entry;
    enum ot_err err = eng_txn_entry_decode(data, &entry);
    eng_dump_begin(&row, ENG_DUMP_TXN_INDEX);
    eng_dump_number(&row, "version", ot_load_u16(data));
    eng_dump_number(&row, "producerId", entry.producer_id);
    eng_dump_number(&row, "firstOffset", entry.first_offset);
    eng_dump_number(&row, "lastOffset", entry.last_offset);
    eng_dump_number(&row, "lastStableOffset", entry.last_stable_offset);
    eng_dump_emit(dumper, &row);
    if (err != OT_OK) eng_dump_fault(dumper, pos, "version %d is not known", ot_load_u16(data));
    if (entry.last_offset <= *last_offset || entry.first_offset < 0 || entry.first_offset >= entry.last_offset) {
        eng_dump_fault(dumper, pos, "offsets %" PRId64 " to %" PRId64 " cannot be behind a marker at %" PRId64, entry.first_offset, entry.last_offset, *last_offset);
    }
    *last_offset = entry.last_offset;
    return true;
}

enum ot_err eng_dump_txn_index(struct eng_dumper *dumper)
{
    int64_t last_offset = dumper->base_offset - 1;
    return walk_entries(dumper, ENG_TXN_ENTRY_BYTES, txn_entry, &last_offset);
}

/* ---- .snapshot ---- */

static void producer_row(struct eng_dumper *dumper, const struct eng_snapshot_entry *entry, const struct eng_snapshot_item *item)
{
    struct eng_dump_row row;
    int64_t first = (int64_t)entry->last_sequence - entry->offset_delta;
    eng_dump_begin(&row, ENG_DUMP_PRODUCER);
    eng_dump_number(&row, "producerId", entry->producer_id);
    eng_dump_number(&row, "producerEpoch", entry->epoch);
    eng_dump_number(&row, "coordinatorEpoch", entry->coordinator_epoch);
    eng_dump_optional(&row, "currentTxnFirstOffset", entry->txn_first_offset);
    eng_dump_number(&row, "lastTimestamp", entry->timestamp_ms);
    if (entry->last_offset >= 0) {
        eng_dump_number(&row, "firstSequence", first < 0 && entry->last_sequence >= 0 ? first + INT32_MAX + 1 : first);
        eng_dump_number(&row, "lastSequence", entry->last_sequence);
        eng_dump_number(&row, "lastOffset", entry->last_offset);
        eng_dump_number(&row, "offsetDelta", entry->offset_delta);
        eng_dump_number(&row, "timestamp", entry->timestamp_ms);
    }
    if (item->touched_ms >= 0) {
        eng_dump_number(&row, "appendedMs", item->touched_ms);
        eng_dump_number(&row, "olderBatches", item->older_count);
    }
    eng_dump_emit(dumper, &row);
}

static void snapshot_rows(struct eng_dumper *dumper, const void *data, size_t bytes)
{
    struct eng_snapshot snapshot;
    enum ot_err err = eng_snapshot_parse(data, bytes, &snapshot);
    if (err == OT_ERR_CORRUPT) {
        eng_dump_fault(dumper, 2, "checksum %08" PRIx32 " is stored, %08" PRIx32 " computed", snapshot.crc_stored, snapshot.crc_computed);
    } else if (err != OT_OK) {
        eng_dump_fault(dumper, 0, "no producer snapshot: version %d, %zu bytes", snapshot.version, bytes);
        return;
    }
    bool had_items = snapshot.has_items;
    for (uint32_t i = 0; i < snapshot.entry_count; i++) {
        struct eng_snapshot_entry entry;
        struct eng_snapshot_item item;
        eng_snapshot_next_entry(&snapshot, &entry);
        (void)eng_snapshot_next_item(&snapshot, &item);
        dumper->summary->entries++;
        producer_row(dumper, &entry, &item);
    }
    if (had_items && (!snapshot.has_items || ot_reader_left(&snapshot.items) > 0)) {
        eng_dump_fault(dumper, bytes - ot_reader_left(&snapshot.items), "the section behind the entries does not fit them");
    }
}

enum ot_err eng_dump_snapshot(struct eng_dumper *dumper)
{
    char *data = NULL;
    size_t bytes = 0;
    enum ot_err err = ot_io_read_file(dumper->io, dumper->path, ENG_SNAPSHOT_FILE_BYTES_MAX, &data, &bytes);
    if (err == OT_ERR_TOO_LARGE) eng_dump_fault(dumper, 0, "too large for a producer snapshot");
    if (err == OT_OK) snapshot_rows(dumper, data, bytes);
    free(data);
    return err == OT_ERR_TOO_LARGE ? OT_OK : err;
}

/* ---- text files ---- */

static enum ot_err text_read(struct eng_dumper *dumper, char **data_out, size_t *bytes_out)
{
    enum ot_err err = ot_io_read_file(dumper->io, dumper->path, TEXT_BYTES_MAX, data_out, bytes_out);
    if (err != OT_ERR_TOO_LARGE) return err;
    eng_dump_fault(dumper, 0, "too large for a checkpoint");
    *data_out = NULL;
    *bytes_out = 0;
    return OT_OK;
}

static void epoch_row(void *arg, const struct eng_epoch_end *start)
{
    struct eng_dumper *dumper = arg;
    struct eng_dump_row row;
    eng_dump_begin(&row, ENG_DUMP_EPOCH);
    eng_dump_number(&row, "epoch", start->epoch);
    eng_dump_number(&row, "startOffset", start->end_offset);
    dumper->summary->entries++;
    eng_dump_emit(dumper, &row);
}

enum ot_err eng_dump_epochs(struct eng_dumper *dumper)
{
    char *data;
    size_t bytes;
    uint32_t line;
    enum ot_err err = text_read(dumper, &data, &bytes);
    if (err != OT_OK || data == NULL) return err;
    if (eng_epochs_parse(data, bytes, epoch_row, dumper, &line) != OT_OK) eng_dump_fault(dumper, 0, "line %" PRIu32 " is not as it must be", line);
    free(data);
    return OT_OK;
}

/* The next line, cut at its end; NULL: none. */
static char *line_take(char **at)
{
    char *line = *at, *end = strchr(line, '\n');
    if (*line == '\0') return NULL;
    if (end != NULL) *end = '\0';
    *at = end == NULL ? line + strlen(line) : end + 1;
    return line;
}

static bool number_of(const char *text, int64_t *out)
{
    char *end;
    if (*text < '0' || *text > '9') return false;
    *out = strtoll(text, &end, 10);
    return *end == '\0';
}

/* `topic partition offset` */
static bool checkpoint_row(struct eng_dumper *dumper, char *line)
{
    struct eng_dump_row row;
    int64_t partition, offset;
    char *first = strchr(line, ' '), *second = first == NULL ? NULL : strchr(first + 1, ' ');
    if (second == NULL) return false;
    *first = *second = '\0';
    if (!number_of(first + 1, &partition) || !number_of(second + 1, &offset)) return false;
    eng_dump_begin(&row, ENG_DUMP_CHECKPOINT);
    eng_dump_word(&row, "topic", line);
    eng_dump_number(&row, "partition", partition);
    eng_dump_number(&row, "offset", offset);
    dumper->summary->entries++;
    eng_dump_emit(dumper, &row);
    return true;
}

enum ot_err eng_dump_checkpoint(struct eng_dumper *dumper)
{
    char *data;
    size_t bytes;
    int64_t version, count = 0, rows = 0;
    enum ot_err err = text_read(dumper, &data, &bytes);
    if (err != OT_OK || data == NULL) return err;
    char *at = data, *line = line_take(&at);
    bool good = line != NULL && number_of(line, &version) && version == 0 && (line = line_take(&at)) != NULL && number_of(line, &count);
    while (good && (line = line_take(&at)) != NULL) {
        good = checkpoint_row(dumper, line);
        rows++;
    }
    if (!good) eng_dump_fault(dumper, (uint64_t)(at - data), "line %" PRId64 " is not as it must be", rows + 2);
    else if (rows != count) eng_dump_fault(dumper, bytes, "%" PRId64 " rows where %" PRId64 " are announced", rows, count);
    free(data);
    return OT_OK;
}

enum ot_err eng_dump_properties(struct eng_dumper *dumper)
{
    char *data;
    size_t bytes;
    enum ot_err err = text_read(dumper, &data, &bytes);
    if (err != OT_OK || data == NULL) return err;
    char *at = data, *line;
    while ((line = line_take(&at)) != NULL) {
        struct eng_dump_row row;
        if (*line == '#' || *line == '\0') continue;
        size_t name_bytes = strcspn(line, ":=");
        if (line[name_bytes] == '\0') {
            eng_dump_fault(dumper, (uint64_t)(line - data), "a line without a value");
            continue;
        }
        line[name_bytes] = '\0';
        eng_dump_begin(&row, ENG_DUMP_PROPERTY);
        eng_dump_word(&row, "key", line);
        eng_dump_word(&row, "value", line + name_bytes + 1 + strspn(line + name_bytes + 1, " "));
        dumper->summary->entries++;
        eng_dump_emit(dumper, &row);
    }
    free(data);
    return OT_OK;
}
