#include "engine/txnindex.h"
#include "engine/log.h"
#include <stdlib.h>

#define READ_ENTRIES 120u                  /* in one read: just under a page */

void eng_txn_entry_encode(const struct eng_txn_entry *entry, uint8_t out[static ENG_TXN_ENTRY_BYTES])
{
    ot_store_u16(out, 0);
    ot_store_u64(out + 2, (uint64_t)entry->producer_id);
    ot_store_u64(out + 10, (uint64_t)entry->first_offset);
    ot_store_u64(out + 18, (uint64_t)entry->last_offset);
    ot_store_u64(out + 26, (uint64_t)entry->last_stable_offset);
}

enum ot_err eng_txn_entry_decode(const uint8_t data[static ENG_TXN_ENTRY_BYTES], struct eng_txn_entry *out)
{
    *out = (struct eng_txn_entry){ .producer_id = ot_load_i64(data + 2), .first_offset = ot_load_i64(data + 10), .last_offset = ot_load_i64(data + 18),
        .last_stable_offset = ot_load_i64(data + 26) };
    return ot_load_u16(data) == 0 ? OT_OK : OT_ERR_CORRUPT;
}

enum ot_err eng_txn_index_append(struct ot_io *io, int fd, const struct eng_completed_txn *txn, uint64_t *bytes_io)
{
    uint8_t data[ENG_TXN_ENTRY_BYTES];
    if (!txn->aborted) return OT_OK;
    OT_ASSERT(*bytes_io % ENG_TXN_ENTRY_BYTES == 0);
    eng_txn_entry_encode(&(struct eng_txn_entry){ txn->producer_id, txn->first_offset, txn->last_offset, txn->last_stable_offset }, data);
    enum ot_err err = ot_io_write_all(io, fd, data, sizeof data, *bytes_io);
    if (err == OT_OK) *bytes_io += sizeof data;
    return err;
}

/* Number of the first entry whose marker is at or above offset. Markers grow, so halving finds it. */
static enum ot_err first_at(struct ot_io *io, int fd, uint64_t entry_count, int64_t offset, uint64_t *out)
{
    uint64_t low = 0, high = entry_count;
    while (low < high) {
        uint8_t data[ENG_TXN_ENTRY_BYTES];
        struct eng_txn_entry entry;
        uint64_t middle = low + (high - low) / 2;
        enum ot_err err = ot_io_read_exact(io, fd, data, sizeof data, middle * sizeof data);
        if (err == OT_OK) err = eng_txn_entry_decode(data, &entry);
        if (err != OT_OK) return err == OT_ERR_SHORT ? OT_ERR_CORRUPT : err;
        if (entry.last_offset < offset) low = middle + 1;
        else high = middle;
    }
    *out = low;
    return OT_OK;
}

enum ot_err eng_txn_index_truncate(struct ot_io *io, int fd, int64_t offset, uint64_t *bytes_io)
{
    uint64_t kept;
    enum ot_err err = first_at(io, fd, *bytes_io / ENG_TXN_ENTRY_BYTES, offset, &kept);
    if (err != OT_OK || kept * ENG_TXN_ENTRY_BYTES == *bytes_io) return err;
    err = io->ops->truncate(io, fd, kept * ENG_TXN_ENTRY_BYTES);
    if (err == OT_OK) *bytes_io = kept * ENG_TXN_ENTRY_BYTES;
    return err;
}

static enum ot_err each_from(struct ot_io *io, int fd, uint64_t first, uint64_t entry_count, bool (*each)(void *arg, const struct eng_txn_entry *entry),
    void *arg)
{
    uint8_t data[READ_ENTRIES * ENG_TXN_ENTRY_BYTES];
    for (uint64_t at = first; at < entry_count; at += READ_ENTRIES) {
        size_t count = (size_t)OT_MIN(entry_count - at, (uint64_t)READ_ENTRIES);
        enum ot_err err = ot_io_read_exact(io, fd, data, count * ENG_TXN_ENTRY_BYTES, at * ENG_TXN_ENTRY_BYTES);
        for (size_t i = 0; err == OT_OK && i < count; i++) {
            struct eng_txn_entry entry;
            err = eng_txn_entry_decode(data + i * ENG_TXN_ENTRY_BYTES, &entry);
            if (err == OT_OK && !each(arg, &entry)) return OT_OK;
        }
        if (err != OT_OK) return err == OT_ERR_SHORT ? OT_ERR_CORRUPT : err;
    }
    return OT_OK;
}

enum ot_err eng_txn_index_each(struct ot_io *io, int fd, uint64_t bytes, bool (*each)(void *arg, const struct eng_txn_entry *entry), void *arg)
{
    return each_from(io, fd, 0, bytes / ENG_TXN_ENTRY_BYTES, each, arg);
}

/* ---- check ---- */

struct checking { int64_t last_offset, end_offset; bool wrong; };

static bool check_one(void *arg, const struct eng_txn_entry *entry)
{
    struct checking *checking = arg;
    checking->wrong = entry->producer_id < 0 || entry->first_offset < 0 || entry->first_offset >= entry->last_offset
        || entry->last_offset <= checking->last_offset || entry->last_offset >= checking->end_offset || entry->last_stable_offset < 0;
    checking->last_offset = entry->last_offset;
    return !checking->wrong;
}

enum ot_err eng_txn_index_check(struct ot_io *io, int fd, uint64_t bytes, int64_t base_offset, int64_t end_offset)
{
    struct checking checking = { .last_offset = base_offset - 1, .end_offset = end_offset };
    if (bytes % ENG_TXN_ENTRY_BYTES != 0) return OT_ERR_CORRUPT;
    enum ot_err err = eng_txn_index_each(io, fd, bytes, check_one, &checking);
    return err == OT_OK && checking.wrong ? OT_ERR_CORRUPT : err;
}

/* ---- collect ---- */

static bool collect_one(void *arg, const struct eng_txn_entry *entry)
{
    struct eng_txn_collect *collect = arg;
    if (entry->last_offset >= collect->from && entry->first_offset < collect->to) {
        if (collect->count < collect->max) collect->out[collect->count] = (struct eng_aborted){ entry->producer_id, entry->first_offset, entry->last_offset };
        collect->count++;
    }
    /* At this marker every transaction that began below `to` was decided: those that end later began later. */
    collect->done = entry->last_stable_offset >= collect->to;
    return !collect->done;
}

enum ot_err eng_txn_index_collect(struct ot_io *io, int fd, uint64_t bytes, struct eng_txn_collect *collect)
{
    uint64_t first, entry_count = bytes / ENG_TXN_ENTRY_BYTES;
    if (collect->done || entry_count == 0) return OT_OK;
    enum ot_err err = first_at(io, fd, entry_count, collect->from, &first);
    return err != OT_OK ? err : each_from(io, fd, first, entry_count, collect_one, collect);
}

static int compare_first(const void *left, const void *right)
{
    const struct eng_aborted *a = left, *b = right;
    if (a->first_offset != b->first_offset) return a->first_offset < b->first_offset ? -1 : 1;
    return (a->producer_id > b->producer_id) - (a->producer_id < b->producer_id);
}

void eng_txn_collect_sort(struct eng_txn_collect *collect)
{
    if (collect->count > 1 && collect->max > 0) qsort(collect->out, OT_MIN(collect->count, collect->max), sizeof *collect->out, compare_first);
}
