#include "engine/snapshots.h"
#include "base/log.h"
#include "base/util.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CRC_FROM 6u                        /* first byte under the checksum */
#define SECTION_MARK 0x6f747031u           /* "otp1" */
#define SUFFIX ".snapshot"

/* ---- format ---- */

void eng_snapshot_write_head(struct ot_writer *out, uint32_t crc, uint32_t entry_count)
{
    ot_write_u16(out, ENG_SNAPSHOT_VERSION);
    ot_write_u32(out, crc);
    ot_write_u32(out, entry_count);
}

void eng_snapshot_write_entry(struct ot_writer *out, const struct eng_snapshot_entry *entry)
{
    ot_write_u64(out, (uint64_t)entry->producer_id);
    ot_write_u16(out, (uint16_t)entry->epoch);
    ot_write_u32(out, (uint32_t)entry->last_sequence);
    ot_write_u64(out, (uint64_t)entry->last_offset);
    ot_write_u32(out, (uint32_t)entry->offset_delta);
    ot_write_u64(out, (uint64_t)entry->timestamp_ms);
    ot_write_u32(out, (uint32_t)entry->coordinator_epoch);
    ot_write_u64(out, (uint64_t)entry->txn_first_offset);
}

void eng_snapshot_write_section(struct ot_writer *out)
{
    ot_write_u32(out, SECTION_MARK);
}

void eng_snapshot_write_item(struct ot_writer *out, const struct eng_snapshot_item *item)
{
    ot_write_u64(out, (uint64_t)item->touched_ms);
    ot_write_u8(out, (uint8_t)item->older_count);
    for (uint32_t i = 0; i < item->older_count; i++) {
        ot_write_u32(out, (uint32_t)item->older[i].last_sequence);
        ot_write_u64(out, (uint64_t)item->older[i].last_offset);
        ot_write_u32(out, (uint32_t)item->older[i].offset_delta);
        ot_write_u64(out, (uint64_t)item->older[i].timestamp_ms);
    }
}

enum ot_err eng_snapshot_parse(const void *data, size_t bytes, struct eng_snapshot *out)
{
    struct ot_reader reader = ot_reader_over(data, bytes);
    *out = (struct eng_snapshot){ .entries = ot_reader_over(data, 0), .items = ot_reader_over(data, 0) };
    out->version = ot_read_i16(&reader);
    if (reader.err != OT_OK) return OT_ERR_SHORT;
    if (out->version != ENG_SNAPSHOT_VERSION) return OT_ERR_MALFORMED;
    out->crc_stored = ot_read_u32(&reader);
    uint32_t entry_count = ot_read_u32(&reader);
    if (reader.err != OT_OK) return OT_ERR_SHORT;
    out->crc_computed = ot_crc32c(0, (const uint8_t *)data + CRC_FROM, bytes - CRC_FROM);
    if (entry_count > (uint32_t)INT32_MAX) return OT_ERR_MALFORMED;
    if ((uint64_t)entry_count * ENG_SNAPSHOT_ENTRY_BYTES > ot_reader_left(&reader)) return OT_ERR_SHORT;
    out->entry_count = entry_count;
    size_t entries_bytes = (size_t)entry_count * ENG_SNAPSHOT_ENTRY_BYTES;
    out->entries = ot_reader_over(reader.at, entries_bytes);
    out->items = ot_reader_over(reader.at + entries_bytes, ot_reader_left(&reader) - entries_bytes);
    out->has_items = ot_reader_left(&out->items) >= 4 && ot_read_u32(&out->items) == SECTION_MARK;
    return out->crc_stored == out->crc_computed ? OT_OK : OT_ERR_CORRUPT;
}

void eng_snapshot_next_entry(struct eng_snapshot *snapshot, struct eng_snapshot_entry *out)
{
    struct ot_reader *r = &snapshot->entries;
    out->producer_id = ot_read_i64(r);
    out->epoch = ot_read_i16(r);
    out->last_sequence = ot_read_i32(r);
    out->last_offset = ot_read_i64(r);
    out->offset_delta = ot_read_i32(r);
    out->timestamp_ms = ot_read_i64(r);
    out->coordinator_epoch = ot_read_i32(r);
    out->txn_first_offset = ot_read_i64(r);
}

bool eng_snapshot_next_item(struct eng_snapshot *snapshot, struct eng_snapshot_item *out)
{
    struct ot_reader *r = &snapshot->items;
    *out = (struct eng_snapshot_item){ .touched_ms = -1 };
    if (!snapshot->has_items) return false;
    out->touched_ms = ot_read_i64(r);
    out->older_count = ot_read_u8(r);
    if (r->err != OT_OK || out->older_count > ENG_SNAPSHOT_OLDER_MAX) goto fail;
    for (uint32_t i = 0; i < out->older_count; i++) {
        out->older[i].last_sequence = ot_read_i32(r);
        out->older[i].last_offset = ot_read_i64(r);
        out->older[i].offset_delta = ot_read_i32(r);
        out->older[i].timestamp_ms = ot_read_i64(r);
    }
    if (r->err != OT_OK) goto fail;
    return true;
fail:
    snapshot->has_items = false;
    *out = (struct eng_snapshot_item){ .touched_ms = -1 };
    return false;
}

/* ---- files ---- */

void eng_snapshots_name(int64_t offset, char out[static ENG_SNAPSHOT_NAME_BYTES])
{
    OT_ASSERT(offset >= 0);
    (void)snprintf(out, ENG_SNAPSHOT_NAME_BYTES, "%020" PRId64 SUFFIX, offset);
}

bool eng_snapshots_parse_name(const char *name, int64_t *offset_out)
{
    uint64_t offset = 0;
    uint32_t digits = 0;
    for (; digits < 20 && name[digits] >= '0' && name[digits] <= '9'; digits++) {
        uint64_t digit = (uint64_t)(name[digits] - '0');
        if (offset > ((uint64_t)INT64_MAX - digit) / 10) return false;
        offset = offset * 10 + digit;
    }
    if (digits != 20 || strcmp(name + 20, SUFFIX) != 0) return false;
    *offset_out = (int64_t)offset;
    return true;
}

/* malloc'ed; NULL: no memory */
static char *path_of(const char *dir_path, int64_t offset)
{
    size_t bytes = strlen(dir_path) + 1 + ENG_SNAPSHOT_NAME_BYTES;
    char *path = malloc(bytes);
    if (path == NULL) return NULL;
    char name[ENG_SNAPSHOT_NAME_BYTES];
    eng_snapshots_name(offset, name);
    (void)snprintf(path, bytes, "%s/%s", dir_path, name);
    return path;
}

enum ot_err eng_snapshots_write(struct ot_io *io, const char *dir_path, int64_t offset, const struct ot_blob *snapshot, bool sync)
{
    char *path = path_of(dir_path, offset);
    if (path == NULL) return OT_ERR_NO_MEMORY;
    enum ot_err err = ot_io_replace_file(io, path, snapshot->data, snapshot->bytes, sync);
    free(path);
    return err;
}

struct listing { int64_t *offsets; uint32_t count, cap; bool no_memory; };

static void list_one(void *arg, const struct ot_io_entry *entry)
{
    struct listing *listing = arg;
    int64_t offset;
    if (entry->is_dir || listing->no_memory || !eng_snapshots_parse_name(entry->name, &offset)) return;
    if (listing->count == listing->cap) {
        uint32_t cap = listing->cap == 0 ? 16 : listing->cap * 2;
        int64_t *offsets = realloc(listing->offsets, cap * sizeof *offsets);
        if (offsets == NULL) {
            listing->no_memory = true;
            return;
        }
        listing->offsets = offsets;
        listing->cap = cap;
    }
    listing->offsets[listing->count++] = offset;
}

static int compare_offsets(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

enum ot_err eng_snapshots_list(struct ot_io *io, const char *dir_path, int64_t **offsets_out, uint32_t *count_out)
{
    struct listing listing = { NULL, 0, 0, false };
    *offsets_out = NULL;
    *count_out = 0;
    enum ot_err err = io->ops->list(io, dir_path, list_one, &listing);
    if (err == OT_OK && listing.no_memory) err = OT_ERR_NO_MEMORY;
    if (err != OT_OK || listing.count == 0) {
        free(listing.offsets);
        return err;
    }
    qsort(listing.offsets, listing.count, sizeof *listing.offsets, compare_offsets);
    *offsets_out = listing.offsets;
    *count_out = listing.count;
    return OT_OK;
}

static enum ot_err delete_one(struct ot_io *io, const char *dir_path, int64_t offset)
{
    char *path = path_of(dir_path, offset);
    if (path == NULL) return OT_ERR_NO_MEMORY;
    enum ot_err err = io->ops->unlink(io, path);
    free(path);
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

static enum ot_err load_one(struct ot_io *io, const char *dir_path, int64_t offset, struct eng_producers *producers, int64_t wall_ms)
{
    char *data = NULL;
    size_t bytes = 0;
    char *path = path_of(dir_path, offset);
    if (path == NULL) return OT_ERR_NO_MEMORY;
    enum ot_err err = ot_io_read_file(io, path, ENG_SNAPSHOT_FILE_BYTES_MAX, &data, &bytes);
    if (err == OT_OK) err = eng_producers_load(producers, data, bytes, wall_ms);
    if (err == OT_ERR_CORRUPT || err == OT_ERR_TOO_LARGE) {
        ot_log(OT_LOG_WARN, "log", "producer_snapshot_damaged", "path=%s bytes=%zu action=deleted", path, bytes);
        enum ot_err unlinked = io->ops->unlink(io, path);
        err = unlinked == OT_OK || unlinked == OT_ERR_NOT_FOUND ? OT_ERR_CORRUPT : unlinked;
    }
    free(data);
    free(path);
    return err;
}

enum ot_err eng_snapshots_load(struct ot_io *io, const char *dir_path, int64_t low_offset, int64_t high_offset, struct eng_producers *producers,
    int64_t wall_ms, int64_t *offset_out)
{
    int64_t *offsets;
    uint32_t count;
    eng_producers_reset(producers);
    *offset_out = low_offset;
    enum ot_err err = eng_snapshots_list(io, dir_path, &offsets, &count);
    while (err == OT_OK && count > 0) {
        int64_t offset = offsets[--count];
        if (offset > high_offset) continue;
        if (offset < low_offset) break;
        err = load_one(io, dir_path, offset, producers, wall_ms);
        if (err == OT_OK) {
            *offset_out = offset;
            break;
        }
        if (err == OT_ERR_CORRUPT || err == OT_ERR_NOT_FOUND) err = OT_OK;     /* the one before it, then */
    }
    free(offsets);
    return err;
}

/* ---- what stays ---- */

struct keep { int64_t low, high; const int64_t *base_offsets; uint32_t base_count; int64_t newest; };

static bool keeps(const struct keep *keep, int64_t offset)
{
    if (offset < keep->low || offset > keep->high) return false;
    if (keep->base_offsets == NULL) return true;
    if (offset == keep->newest && offset > keep->base_offsets[keep->base_count - 1]) return true;
    return bsearch(&offset, keep->base_offsets, keep->base_count, sizeof offset, compare_offsets) != NULL;
}

static enum ot_err delete_others(struct ot_io *io, const char *dir_path, struct keep *keep)
{
    int64_t *offsets;
    uint32_t count;
    enum ot_err err = eng_snapshots_list(io, dir_path, &offsets, &count);
    if (err == OT_OK && count > 0) keep->newest = offsets[count - 1];
    for (uint32_t i = 0; err == OT_OK && i < count; i++) {
        if (!keeps(keep, offsets[i])) err = delete_one(io, dir_path, offsets[i]);
    }
    free(offsets);
    return err;
}

enum ot_err eng_snapshots_delete_above(struct ot_io *io, const char *dir_path, int64_t offset)
{
    return delete_others(io, dir_path, &(struct keep){ .low = 0, .high = offset });
}

enum ot_err eng_snapshots_delete_below(struct ot_io *io, const char *dir_path, int64_t offset)
{
    return delete_others(io, dir_path, &(struct keep){ .low = offset, .high = INT64_MAX });
}

enum ot_err eng_snapshots_retain(struct ot_io *io, const char *dir_path, const int64_t *base_offsets, uint32_t count)
{
    if (count == 0) return OT_OK;                          /* no segment: nothing can be said */
    return delete_others(io, dir_path, &(struct keep){ .low = 0, .high = INT64_MAX, .base_offsets = base_offsets, .base_count = count });
}
