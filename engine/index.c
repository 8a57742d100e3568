/* Layout: see index.h. Recovery works because an entry is written only behind its batch, and because each lookup's answer is checked against
 * the batch found at its position (engine/segment.c): an index that lies costs a rebuild, never a record. */
#include "engine/index.h"
#include "base/bytes.h"

OT_STATIC_ASSERT(ENG_INDEX_ENTRY_BYTES == 8, "layout of .index on disk");
OT_STATIC_ASSERT(ENG_TIME_ENTRY_BYTES == 12, "layout of .timeindex on disk");

#define WINDOW_ENTRIES 64u             /* the binary search ends in one read of this many */

void eng_index_entry_put(uint8_t out[static ENG_INDEX_ENTRY_BYTES], int64_t base_offset, const struct eng_index_entry *entry)
{
    ot_store_u32(out, (uint32_t)(entry->offset - base_offset));
    ot_store_u32(out + 4, entry->pos);
}

void eng_index_entry_get(const uint8_t in[static ENG_INDEX_ENTRY_BYTES], int64_t base_offset, struct eng_index_entry *entry)
{
    entry->offset = (int64_t)((uint64_t)base_offset + (uint64_t)(int64_t)ot_load_i32(in));
    entry->pos = ot_load_u32(in + 4);
}

void eng_time_entry_put(uint8_t out[static ENG_TIME_ENTRY_BYTES], int64_t base_offset, const struct eng_time_entry *entry)
{
    ot_store_u64(out, (uint64_t)entry->timestamp_ms);
    ot_store_u32(out + 8, (uint32_t)(entry->offset - base_offset));
}

void eng_time_entry_get(const uint8_t in[static ENG_TIME_ENTRY_BYTES], int64_t base_offset, struct eng_time_entry *entry)
{
    entry->timestamp_ms = ot_load_i64(in);
    entry->offset = (int64_t)((uint64_t)base_offset + (uint64_t)(int64_t)ot_load_i32(in + 8));
}

enum ot_err eng_index_at(struct ot_io *io, int fd, uint32_t slot, int64_t base_offset, struct eng_index_entry *out)
{
    uint8_t raw[ENG_INDEX_ENTRY_BYTES];
    enum ot_err err = ot_io_read_exact(io, fd, raw, sizeof raw, (uint64_t)slot * sizeof raw);
    if (err == OT_OK) eng_index_entry_get(raw, base_offset, out);
    return err;
}

enum ot_err eng_time_index_at(struct ot_io *io, int fd, uint32_t slot, int64_t base_offset, struct eng_time_entry *out)
{
    uint8_t raw[ENG_TIME_ENTRY_BYTES];
    enum ot_err err = ot_io_read_exact(io, fd, raw, sizeof raw, (uint64_t)slot * sizeof raw);
    if (err == OT_OK) eng_time_entry_get(raw, base_offset, out);
    return err;
}

/* One search for all lookups: how many leading entries have a key below (or at, if or_equal) the asked one. Keys never fall from slot to
 * slot in a sound index; in a damaged one the answer is some slot, and the caller's check of the batch finds out. */
struct search {
    struct ot_io *io;
    int fd;
    uint32_t entry_bytes;
    int64_t base_offset, asked;
    bool or_equal;
    int64_t (*key)(const uint8_t *raw, int64_t base_offset);
};

static int64_t key_offset(const uint8_t *raw, int64_t base_offset)
{
    return (int64_t)((uint64_t)base_offset + (uint64_t)(int64_t)ot_load_i32(raw));
}

static int64_t key_pos(const uint8_t *raw, int64_t base_offset)
{
    (void)base_offset;
    return (int64_t)ot_load_u32(raw + 4);
}

static int64_t key_time(const uint8_t *raw, int64_t base_offset)
{
    (void)base_offset;
    return ot_load_i64(raw);
}

static int64_t key_time_offset(const uint8_t *raw, int64_t base_offset)
{
    return key_offset(raw + 8, base_offset);
}

static bool search_below(const struct search *search, const uint8_t *raw)
{
    int64_t key = search->key(raw, search->base_offset);
    return search->or_equal ? key <= search->asked : key < search->asked;
}

static enum ot_err search_run(const struct search *search, uint32_t count, uint32_t *below_out)
{
    uint8_t window[WINDOW_ENTRIES * ENG_TIME_ENTRY_BYTES];
    uint32_t low = 0, high = count;        /* the answer lies in [low, high] */
    enum ot_err err;
    while (high - low > WINDOW_ENTRIES) {
        uint32_t middle = low + (high - low) / 2;
        err = ot_io_read_exact(search->io, search->fd, window, search->entry_bytes, (uint64_t)middle * search->entry_bytes);
        if (err != OT_OK) return err;
        if (search_below(search, window)) low = middle + 1;
        else high = middle;
    }
    if (high > low) {
        size_t bytes = (size_t)(high - low) * search->entry_bytes;
        err = ot_io_read_exact(search->io, search->fd, window, bytes, (uint64_t)low * search->entry_bytes);
        if (err != OT_OK) return err;
        const uint8_t *raw = window;
        while (low < high && search_below(search, raw)) {
            low++;
            raw += search->entry_bytes;
        }
    }
    *below_out = low;
    return OT_OK;
}

enum ot_err eng_index_floor(struct ot_io *io, int fd, uint32_t count, int64_t base_offset, int64_t offset, struct eng_index_entry *out)
{
    struct search search = { io, fd, ENG_INDEX_ENTRY_BYTES, base_offset, offset, true, key_offset };
    uint32_t below = 0;
    enum ot_err err = search_run(&search, count, &below);
    if (err != OT_OK) return err;
    return below == 0 ? OT_ERR_NOT_FOUND : eng_index_at(io, fd, below - 1, base_offset, out);
}

enum ot_err eng_index_ceiling_pos(struct ot_io *io, int fd, uint32_t count, int64_t base_offset, uint64_t pos, struct eng_index_entry *out)
{
    struct search search = { io, fd, ENG_INDEX_ENTRY_BYTES, base_offset, (int64_t)pos, false, key_pos };
    uint32_t below = 0;
    enum ot_err err = search_run(&search, count, &below);
    if (err != OT_OK) return err;
    return below == count ? OT_ERR_NOT_FOUND : eng_index_at(io, fd, below, base_offset, out);
}

enum ot_err eng_time_index_floor(struct ot_io *io, int fd, uint32_t count, int64_t base_offset, int64_t at_ms, struct eng_time_entry *out)
{
    struct search search = { io, fd, ENG_TIME_ENTRY_BYTES, base_offset, at_ms, true, key_time };
    uint32_t below = 0;
    enum ot_err err = search_run(&search, count, &below);
    if (err != OT_OK) return err;
    return below == 0 ? OT_ERR_NOT_FOUND : eng_time_index_at(io, fd, below - 1, base_offset, out);
}

enum ot_err eng_index_count_below(struct ot_io *io, int fd, uint32_t count, int64_t base_offset, int64_t offset, uint32_t *out)
{
    struct search search = { io, fd, ENG_INDEX_ENTRY_BYTES, base_offset, offset, false, key_offset };
    return search_run(&search, count, out);
}

enum ot_err eng_time_index_count_below(struct ot_io *io, int fd, uint32_t count, int64_t base_offset, int64_t offset, uint32_t *out)
{
    struct search search = { io, fd, ENG_TIME_ENTRY_BYTES, base_offset, offset, false, key_time_offset };
    return search_run(&search, count, out);
}

enum ot_err eng_index_check(struct ot_io *io, int fd, uint32_t count, int64_t base_offset, int64_t end_offset, uint64_t log_bytes)
{
    uint8_t window[512 * ENG_INDEX_ENTRY_BYTES];
    struct eng_index_entry last = { base_offset - 1, 0 }, entry;
    for (uint32_t slot = 0; slot < count;) {
        uint32_t some = OT_MIN(count - slot, 512u);
        enum ot_err err = ot_io_read_exact(io, fd, window, (size_t)some * ENG_INDEX_ENTRY_BYTES, (uint64_t)slot * ENG_INDEX_ENTRY_BYTES);
        if (err != OT_OK) return err == OT_ERR_SHORT ? OT_ERR_CORRUPT : err;
        for (uint32_t i = 0; i < some; i++) {
            eng_index_entry_get(window + i * ENG_INDEX_ENTRY_BYTES, base_offset, &entry);
            if (entry.offset <= last.offset || entry.offset >= end_offset || entry.pos >= log_bytes) return OT_ERR_CORRUPT;
            if (entry.pos <= last.pos) return OT_ERR_CORRUPT;      /* the first batch of a segment never has an entry: position 0 is a lost block */
            last = entry;
        }
        slot += some;
    }
    return OT_OK;
}

enum ot_err eng_time_index_check(struct ot_io *io, int fd, uint32_t count, int64_t base_offset, int64_t end_offset)
{
    uint8_t window[512 * ENG_TIME_ENTRY_BYTES];
    struct eng_time_entry last = { -1, base_offset - 1 }, entry;
    for (uint32_t slot = 0; slot < count;) {
        uint32_t some = OT_MIN(count - slot, 512u);
        enum ot_err err = ot_io_read_exact(io, fd, window, (size_t)some * ENG_TIME_ENTRY_BYTES, (uint64_t)slot * ENG_TIME_ENTRY_BYTES);
        if (err != OT_OK) return err == OT_ERR_SHORT ? OT_ERR_CORRUPT : err;
        for (uint32_t i = 0; i < some; i++) {
            eng_time_entry_get(window + i * ENG_TIME_ENTRY_BYTES, base_offset, &entry);
            if (entry.timestamp_ms <= last.timestamp_ms || entry.offset <= last.offset || entry.offset >= end_offset) return OT_ERR_CORRUPT;
            last = entry;
        }
        slot += some;
    }
    return OT_OK;
}
