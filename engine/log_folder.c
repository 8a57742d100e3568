/* What lies in the folder of a log: its segments, unfinished files that go, index files without a .log. */
#include "base/log.h"
#include "engine/log_inner.h"

#include <stdlib.h>
#include <string.h>

enum { HAS_LOG = 1, HAS_INDEX = 2, HAS_TIME = 4, HAS_TXN = 8 };
#define LEFTOVERS_MAX 32
#define NAME_MAX_BYTES 80

struct found_segment { int64_t base_offset; unsigned has; };
struct listing {
    struct found_segment *list;
    uint32_t count, cap, leftover_count;
    char leftovers[LEFTOVERS_MAX][NAME_MAX_BYTES];
    bool swap_seen;
    enum ot_err err;
};

/* ---- what lies in the folder ---- */

static bool ends_with(const char *name, const char *end)
{
    size_t name_bytes = strlen(name), end_bytes = strlen(end);
    return name_bytes > end_bytes && strcmp(name + name_bytes - end_bytes, end) == 0;
}

static bool parse_base(const char *name, int64_t *base_out)
{
    int64_t base = 0;
    for (int i = 0; i < 20; i++) {
        if (name[i] < '0' || name[i] > '9') return false;
        if (base > (INT64_MAX - (name[i] - '0')) / 10) return false;
        base = base * 10 + (name[i] - '0');
    }
    *base_out = base;
    return true;
}

static void list_segment(struct listing *listing, int64_t base_offset, unsigned has)
{
    for (uint32_t i = 0; i < listing->count; i++) {
        if (listing->list[i].base_offset != base_offset) continue;
        listing->list[i].has |= has;
        return;
    }
    if (listing->count == listing->cap) {
        uint32_t cap = listing->cap == 0 ? 8 : listing->cap * 2;
        struct found_segment *grown = realloc(listing->list, cap * sizeof *grown);
        if (grown == NULL) {
            listing->err = OT_ERR_NO_MEMORY;
            return;
        }
        listing->list = grown;
        listing->cap = cap;
    }
    listing->list[listing->count++] = (struct found_segment){ base_offset, has };
}

static void list_entry(void *arg, const struct ot_io_entry *entry)
{
    static const struct { const char *suffix; unsigned has; } kinds[] = {
        { ".log", HAS_LOG }, { ".index", HAS_INDEX }, { ".timeindex", HAS_TIME }, { ".txnindex", HAS_TXN },
    };
    struct listing *listing = arg;
    int64_t base = 0;
    if (entry->is_dir || listing->err != OT_OK) return;
    if (ends_with(entry->name, ".tmp") || ends_with(entry->name, ".deleted") || ends_with(entry->name, ".cleaned")) {
        if (listing->leftover_count < LEFTOVERS_MAX && strlen(entry->name) < NAME_MAX_BYTES) {
            memcpy(listing->leftovers[listing->leftover_count++], entry->name, strlen(entry->name) + 1);
        }
        return;
    }
    if (ends_with(entry->name, ".swap")) {
        listing->swap_seen = true;
        return;
    }
    if (!parse_base(entry->name, &base)) return;
    for (size_t i = 0; i < OT_ARRAY_COUNT(kinds); i++)
        if (strcmp(entry->name + 20, kinds[i].suffix) == 0) list_segment(listing, base, kinds[i].has);
}

static int found_compare(const void *a, const void *b)
{
    int64_t left = ((const struct found_segment *)a)->base_offset, right = ((const struct found_segment *)b)->base_offset;
    return (left > right) - (left < right);
}

static enum ot_err list_settled(struct eng_log *log, struct listing *listing)
{
    enum ot_err err = log->io->ops->list(log->io, log->dir_path, list_entry, listing);
    if (err == OT_OK) err = listing->err;
    if (err != OT_OK || !listing->swap_seen) return err;
    log->settled = false;
    if ((err = eng_log_recover_swap(log)) != OT_OK) return err;    /* other segments are there now: look again */
    free(listing->list);
    *listing = (struct listing){ 0 };
    err = log->io->ops->list(log->io, log->dir_path, list_entry, listing);
    return err == OT_OK ? listing->err : err;
}

static enum ot_err list_folder(struct eng_log *log, struct listing *listing)
{
    char path[ENG_PATH_BYTES];
    enum ot_err err = list_settled(log, listing);
    if (err != OT_OK) return err;
    if (listing->count > 0) qsort(listing->list, listing->count, sizeof *listing->list, found_compare);
    for (uint32_t i = 0; i < listing->leftover_count; i++)
        if (eng_path_join(path, log->dir_path, listing->leftovers[i]) == OT_OK)
            ot_ignore(log->io->ops->unlink(log->io, path), "an unfinished file that nobody reads");
    return OT_OK;
}

/* Index files without a .log: a segment that was being made or unlinked. */
static void clear_orphan(struct eng_log *log, int64_t base_offset)
{
    char path[ENG_PATH_BYTES];
    for (int which = ENG_SEGMENT_INDEX; which <= ENG_SEGMENT_TXN; which++)
        if (eng_segment_path(path, log->dir_path, base_offset, eng_segment_suffix((enum eng_segment_file)which)) == OT_OK)
            ot_ignore(log->io->ops->unlink(log->io, path), "no log beside it: nobody reads it");
}

static enum ot_err add_segment(struct eng_log *log, const struct found_segment *found)
{
    char path[ENG_PATH_BYTES];
    struct ot_io_stat stat = { 0 };
    struct eng_segment *seg = NULL;
    enum ot_err err = eng_segment_path(path, log->dir_path, found->base_offset, ".log");
    if (err == OT_OK) err = log->io->ops->stat(log->io, path, &stat);
    if (err == OT_OK) err = eng_segment_new(log->store, found->base_offset, &seg);
    if (err != OT_OK) return err;
    seg->bytes = stat.bytes;
    seg->created_ms = seg->last_append_ms = stat.modified_ms;
    if ((found->has & HAS_INDEX) == 0) atomic_store(&seg->index_count, 0);
    if ((found->has & HAS_TIME) == 0) atomic_store(&seg->time_count, 0);
    if ((found->has & HAS_TXN) != 0) {
        seg->txn_dirty = true;             /* a killed process may have cut it and not synced that, even to nothing: unless the log was closed cleanly */
        if ((err = eng_segment_path(path, log->dir_path, found->base_offset, ".txnindex")) == OT_OK) err = log->io->ops->stat(log->io, path, &stat);
        if (err == OT_OK && stat.bytes > 0) {
            atomic_store(&seg->txn_bytes, stat.bytes);
            atomic_store(&log->txn_index_seen, true);
        }
    }
    if (err == OT_OK) err = eng_log_push_segment(log, seg);
    if (err != OT_OK) eng_segment_unref(seg);
    return err;
}

enum ot_err eng_log_load_segments(struct eng_log *log)
{
    struct listing *listing = calloc(1, sizeof *listing);
    if (listing == NULL) return OT_ERR_NO_MEMORY;
    enum ot_err err = list_folder(log, listing);
    for (uint32_t i = 0; i < listing->count && err == OT_OK; i++) {
        if ((listing->list[i].has & HAS_LOG) == 0) clear_orphan(log, listing->list[i].base_offset);
        else err = add_segment(log, &listing->list[i]);
    }
    for (uint32_t i = 0; i + 1 < log->segment_count; i++) log->segments[i]->end_offset = log->segments[i + 1]->base_offset;
    free(listing->list);
    free(listing);
    return err;
}
