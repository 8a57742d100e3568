/* Layout: see index.h. Recovery works because an entry is written only behind its batch, and because each lookup's answer is checked against
 * the batch found at its position (engine/segment.c): an index that lies costs a rebuild, never a record. */
#include "engine/index.h"
#include "base/bytes.h"

OT_STATIC_ASSERT(ENG_INDEX_ENTRY_BYTES == 8, "layout of .index on disk");
OT_STATIC_ASSERT(ENG_TIME_ENTRY_BYTES == 12, "layout of .timeindex on disk");

#define WINDOW_ENTRIES 256u            /* what one look of a search reads: hardly dearer than fewer, and a guess is rarely right to the page */
#define GUESSES_MAX 6                  /* then the search halves */

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
 * slot in a sound index; in a damaged one the answer is some slot, and the caller's check of the batch finds out.
 *
 * Where the keys' ends are known it looks first where the key would be if they grew evenly: offsets and positions nearly do, so most lookups are one
 * read instead of the eight of halving an index of 10 000 entries. */
struct search {
    struct ot_io *io;
    int fd;
    uint32_t entry_bytes;
    int64_t base_offset, asked;
    bool or_equal;
    int64_t (*key)(const uint8_t *raw, int64_t base_offset);
    int64_t low_key, high_key;         /* before the first entry and behind the last one, about; equal: not known */
    bool may_not_block;
    /* found */
    uint8_t window[WINDOW_ENTRIES * ENG_TIME_ENTRY_BYTES];     /* of the last look … */
    uint32_t window_from, window_count;                        /* … which read these slots */
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

static enum ot_err search_look(struct search *search, uint32_t from, uint32_t count)
{
    uint64_t pos = (uint64_t)from * search->entry_bytes;
    size_t bytes = (size_t)count * search->entry_bytes;
    search->window_count = 0;
    if (search->may_not_block && !search->io->ops->is_cached(search->io, search->fd, pos, bytes)) return OT_ERR_BUSY;
    enum ot_err err = ot_io_read_exact(search->io, search->fd, search->window, bytes, pos);
    if (err != OT_OK) return err;
    search->window_from = from;
    search->window_count = count;
    return OT_OK;
}

/* How many leading entries of the window are below: not all of them, and the first is. */
static uint32_t search_window(const struct search *search)
{
    uint32_t low = 1, high = search->window_count - 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (search_below(search, search->window + (size_t)middle * search->entry_bytes)) low = middle + 1;
        else high = middle;
    }
    return low;
}

static uint32_t search_guess(const struct search *search, uint32_t low, uint32_t high, int64_t low_key, int64_t high_key)
{
    double share = ((double)search->asked - (double)low_key) / ((double)high_key - (double)low_key);
    double most = (double)(high - low - WINDOW_ENTRIES), from = share * (double)(high - low) - WINDOW_ENTRIES / 2.0;
    return low + (uint32_t)(from < 0 ? 0 : from > most ? most : from);
}

static enum ot_err search_run(struct search *search, uint32_t count, uint32_t *below_out)
{
    uint32_t low = 0, high = count;        /* the answer lies in [low, high] */
    int64_t low_key = search->low_key, high_key = search->high_key;
    for (int guesses = 0; high > low; guesses++) {
        uint32_t some = OT_MIN(high - low, WINDOW_ENTRIES), from = low;
        if (high - low > WINDOW_ENTRIES) {
            bool guess = guesses < GUESSES_MAX && high_key > low_key;
            from = guess ? search_guess(search, low, high, low_key, high_key) : low + (high - low) / 2;
            if (!guess) some = 1;
        }
        enum ot_err err = search_look(search, from, some);
        if (err != OT_OK) return err;
        const uint8_t *first = search->window, *last = first + (size_t)(some - 1) * search->entry_bytes;
        if (!search_below(search, first)) {
            high = from;
            high_key = search->key(first, search->base_offset);
        } else if (search_below(search, last)) {
            low = from + some;
            low_key = search->key(last, search->base_offset);
        } else {
            low = from + search_window(search);
            break;
        }
    }
    *below_out = low;
    return OT_OK;
}

/* Entry of a slot next to a search's answer: mostly in its last window. */
static enum ot_err search_entry(struct search *search, uint32_t slot, struct eng_index_entry *out)
{
    if (slot - search->window_from >= search->window_count) {
        enum ot_err err = search_look(search, slot, 1);
        if (err != OT_OK) return err;
    }
    eng_index_entry_get(search->window + (size_t)(slot - search->window_from) * ENG_INDEX_ENTRY_BYTES, search->base_offset, out);
    return OT_OK;
}

enum ot_err eng_index_around(const struct eng_index_look *look, int64_t offset, struct eng_index_around *out)
{
    struct search search = { .io = look->io, .fd = look->fd, .entry_bytes = ENG_INDEX_ENTRY_BYTES, .base_offset = look->base_offset, .asked = offset,
        .or_equal = true, .key = key_offset, .low_key = look->base_offset, .high_key = look->end_offset, .may_not_block = look->may_not_block };
    uint32_t below = 0;
    *out = (struct eng_index_around){ 0 };
    enum ot_err err = search_run(&search, look->count, &below);
    if (err == OT_OK && (out->has_next = below < look->count)) err = search_entry(&search, below, &out->next);
    if (err == OT_OK && (out->has_floor = below > 0)) err = search_entry(&search, below - 1, &out->floor);
    return err;
}

enum ot_err eng_index_floor(struct ot_io *io, int fd, uint32_t count, int64_t base_offset, int64_t offset, struct eng_index_entry *out)
{
    struct eng_index_look look = { io, fd, count, base_offset, base_offset, false };
    struct eng_index_around around;
    enum ot_err err = eng_index_around(&look, offset, &around);
    if (err == OT_OK && around.has_floor) *out = around.floor;
    return err == OT_OK && !around.has_floor ? OT_ERR_NOT_FOUND : err;
}

enum ot_err eng_index_ceiling_pos(struct ot_io *io, int fd, uint32_t count, int64_t base_offset, uint64_t pos, struct eng_index_entry *out)
{
    struct search search = { .io = io, .fd = fd, .entry_bytes = ENG_INDEX_ENTRY_BYTES, .base_offset = base_offset, .asked = (int64_t)pos, .or_equal = false, .key = key_pos };
    uint32_t below = 0;
    enum ot_err err = search_run(&search, count, &below);
    if (err != OT_OK) return err;
    return below == count ? OT_ERR_NOT_FOUND : eng_index_at(io, fd, below, base_offset, out);
}

enum ot_err eng_time_index_floor(struct ot_io *io, int fd, uint32_t count, int64_t base_offset, int64_t at_ms, struct eng_time_entry *out)
{
    struct search search = { .io = io, .fd = fd, .entry_bytes = ENG_TIME_ENTRY_BYTES, .base_offset = base_offset, .asked = at_ms, .or_equal = true, .key = key_time };
    uint32_t below = 0;
    enum ot_err err = search_run(&search, count, &below);
    if (err != OT_OK) return err;
    return below == 0 ? OT_ERR_NOT_FOUND : eng_time_index_at(io, fd, below - 1, base_offset, out);
}

enum ot_err eng_index_count_below(struct ot_io *io, int fd, uint32_t count, int64_t base_offset, int64_t offset, uint32_t *out)
{
    struct search search = { .io = io, .fd = fd, .entry_bytes = ENG_INDEX_ENTRY_BYTES, .base_offset = base_offset, .asked = offset, .or_equal = false, .key = key_offset };
    return search_run(&search, count, out);
}

enum ot_err eng_time_index_count_below(struct ot_io *io, int fd, uint32_t count, int64_t base_offset, int64_t offset, uint32_t *out)
{
    struct search search = { .io = io, .fd = fd, .entry_bytes = ENG_TIME_ENTRY_BYTES, .base_offset = base_offset, .asked = offset, .or_equal = false, .key = key_time_offset };
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
