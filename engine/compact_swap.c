/* A new segment takes the place of those it was made from. On disk, with b the base offset of the first of them:
 *
 *   1  b.index.cleaned … -> b.index.swap, b.timeindex.swap, b.txnindex.swap, then b.log.cleaned -> b.log.swap; the folder is synced
 *   2  in memory: the list changes, readers of the new segment have its files open already
 *   3  the files of the others are unlinked; b.index.swap -> b.index and so on; the folder is synced
 *   4  b.log.swap -> b.log; the folder is synced
 *
 * b.log.swap is the word: while it is there, and no .cleaned beside it, recovery does 3 and 4 again, whatever of them was done; before, it throws all away. Which
 * segments are others is told by the offsets in b.log.swap: from b to its last one, which is why a new segment always ends with the last batch of what it replaces,
 * if need be without records. A new .txnindex is always made where there was one, so that the old one cannot be taken for it. These are Kafka's names and Kafka's
 * order, and it completes a swap of ours as we do one of its.
 *
 * While a swap is under way truncation waits and retention passes by, for what is renamed to .swap comes back whatever happens to the segments. */
#include "base/log.h"
#include "engine/compact_inner.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const enum eng_segment_file order[] = { ENG_SEGMENT_INDEX, ENG_SEGMENT_TIME, ENG_SEGMENT_TXN, ENG_SEGMENT_LOG };

struct swap {
    struct eng_compaction *run;
    struct eng_log *log;
    struct eng_segment *made;
    uint32_t first, count;                 /* of the run's sources */
    unsigned pinned;                       /* bits by enum eng_segment_file */
};

static enum ot_err path_of(const struct eng_log *log, int64_t base_offset, enum eng_segment_file which, const char *ending, char out[static ENG_PATH_BYTES])
{
    char suffix[32];
    snprintf(suffix, sizeof suffix, "%s%s", eng_segment_suffix(which), ending);
    return eng_segment_path(out, log->dir_path, base_offset, suffix);
}

static enum ot_err rename_one(struct eng_log *log, int64_t base_offset, enum eng_segment_file which, const char *from_ending, const char *to_ending)
{
    char from[ENG_PATH_BYTES], to[ENG_PATH_BYTES];
    enum ot_err err = path_of(log, base_offset, which, from_ending, from);
    if (err == OT_OK) err = path_of(log, base_offset, which, to_ending, to);
    return err == OT_OK ? log->io->ops->rename(log->io, from, to) : err;
}

static enum ot_err unlink_one(struct eng_log *log, int64_t base_offset, enum eng_segment_file which, const char *ending)
{
    char path[ENG_PATH_BYTES];
    enum ot_err err = path_of(log, base_offset, which, ending, path);
    if (err == OT_OK) err = log->io->ops->unlink(log->io, path);
    return err == OT_ERR_NOT_FOUND ? OT_OK : err;
}

static bool has_file(const struct swap *swap, enum eng_segment_file which) { return which != ENG_SEGMENT_TXN || swap->run->out.txn_fd >= 0; }

/* ---- 0: nobody takes these segments away from now on ---- */

/* Slot of the first source; false: they are not all there, one behind the other. Under lock. */
static bool find_sources(const struct swap *swap, uint32_t *slot_out)
{
    const struct eng_log *log = swap->log;
    uint32_t slot = 0;
    while (slot < log->segment_count && log->segments[slot] != swap->run->sources[swap->first].seg) slot++;
    if (slot + swap->count >= log->segment_count) return false;        /* the active one is never among them */
    for (uint32_t i = 0; i < swap->count; i++)
        if (log->segments[slot + i] != swap->run->sources[swap->first + i].seg) return false;
    *slot_out = slot;
    return true;
}

static enum ot_err begin(struct swap *swap)
{
    struct eng_log *log = swap->log;
    uint32_t slot;
    pthread_mutex_lock(&log->writer_lock);
    pthread_mutex_lock(&log->lock);
    bool may = log->truncations == swap->run->truncations && find_sources(swap, &slot) && !atomic_load(&log->closed);
    if (may) log->swapping = true;
    pthread_mutex_unlock(&log->lock);
    pthread_mutex_unlock(&log->writer_lock);
    return may ? OT_OK : OT_ERR_CANCELLED;
}

static void end(struct swap *swap)
{
    pthread_mutex_lock(&swap->log->lock);
    swap->log->swapping = false;
    pthread_cond_broadcast(&swap->log->swapped);
    pthread_mutex_unlock(&swap->log->lock);
}

/* ---- 1 ---- */

static enum ot_err make_swap_files(struct swap *swap)
{
    struct eng_log *log = swap->log;
    int64_t base = swap->made->base_offset;
    enum ot_err err = OT_OK;
    for (size_t i = 0; i < OT_ARRAY_COUNT(order) && err == OT_OK; i++)
        if (has_file(swap, order[i])) err = rename_one(log, base, order[i], ".cleaned", ".swap");
    return err == OT_OK ? log->io->ops->sync_dir(log->io, log->dir_path) : err;
}

/* The word goes first, and must not come back. */
static void take_back(struct swap *swap)
{
    struct eng_log *log = swap->log;
    int64_t base = swap->made->base_offset;
    enum ot_err err = unlink_one(log, base, ENG_SEGMENT_LOG, ".swap");
    if (err == OT_OK) err = log->io->ops->sync_dir(log->io, log->dir_path);
    for (size_t i = 0; i < OT_ARRAY_COUNT(order) && err == OT_OK; i++) {
        err = unlink_one(log, base, order[i], ".swap");
        if (err == OT_OK) err = unlink_one(log, base, order[i], ".cleaned");
    }
    if (err != OT_OK) eng_log_give_up(log, err, "taking back a compacted segment");
}

/* ---- 2 ---- */

static enum ot_err open_files(struct swap *swap)
{
    char path[ENG_PATH_BYTES];
    enum ot_err err = OT_OK;
    for (size_t i = 0; i < OT_ARRAY_COUNT(order) && err == OT_OK; i++) {
        int fd;
        if (!has_file(swap, order[i])) continue;
        err = path_of(swap->log, swap->made->base_offset, order[i], ".swap", path);
        if (err == OT_OK) err = eng_file_acquire(&swap->log->store->files, eng_segment_file(swap->made, order[i]), path, OT_IO_WRITE, &fd);
        if (err == OT_OK) swap->pinned |= 1u << order[i];
    }
    return err;
}

static void release_files(struct swap *swap)
{
    for (size_t i = 0; i < OT_ARRAY_COUNT(order); i++)
        if ((swap->pinned >> order[i] & 1) != 0) eng_segment_release(swap->made, order[i]);
}

static void replace_in_list(struct swap *swap)
{
    struct eng_log *log = swap->log;
    uint64_t bytes = 0;
    uint32_t slot = 0;
    pthread_mutex_lock(&log->writer_lock);
    pthread_mutex_lock(&log->lock);
    bool there = find_sources(swap, &slot);
    OT_ASSERT(there);                      /* swapping is set */
    for (uint32_t i = 0; i < swap->count; i++) {
        bytes += log->segments[slot + i]->bytes;
        eng_segment_retire(log->segments[slot + i]);
    }
    log->segments[slot] = swap->made;
    memmove(log->segments + slot + 1, log->segments + slot + swap->count, (log->segment_count - slot - swap->count) * sizeof *log->segments);
    log->segment_count -= swap->count - 1;
    atomic_fetch_add(&log->size_bytes, swap->made->bytes);
    atomic_fetch_sub(&log->size_bytes, bytes);
    pthread_mutex_unlock(&log->lock);
    pthread_mutex_unlock(&log->writer_lock);
}

/* ---- 3 and 4 ---- */

static enum ot_err take_names(struct swap *swap)
{
    struct eng_log *log = swap->log;
    int64_t base = swap->made->base_offset;
    enum ot_err err = OT_OK;
    for (uint32_t i = 1; i < swap->count && err == OT_OK; i++) {
        struct eng_segment *old = swap->run->sources[swap->first + i].seg;
        err = eng_log_unlink_segment(log, old);
        old->unlinked = err == OT_OK;
    }
    for (size_t i = 0; i < OT_ARRAY_COUNT(order) && err == OT_OK; i++)
        if (order[i] != ENG_SEGMENT_LOG && has_file(swap, order[i])) err = rename_one(log, base, order[i], ".swap", "");
    if (err == OT_OK) err = log->io->ops->sync_dir(log->io, log->dir_path);
    if (err == OT_OK) err = rename_one(log, base, ENG_SEGMENT_LOG, ".swap", "");
    if (err == OT_OK) {
        swap->run->sources[swap->first].seg->unlinked = true;
        err = log->io->ops->sync_dir(log->io, log->dir_path);
    }
    return err;
}

static enum ot_err make_segment(struct swap *swap)
{
    const struct eng_compact_out *out = &swap->run->out;
    const struct eng_compact_source *head = &swap->run->sources[swap->first];
    enum ot_err err = eng_segment_new(swap->log->store, out->base_offset, &swap->made);
    if (err != OT_OK) return err;
    struct eng_segment *made = swap->made;
    made->end_offset = swap->run->sources[swap->first + swap->count - 1].end_offset;
    made->bytes = out->bytes;
    made->first_timestamp_ms = out->first_timestamp_ms;
    made->created_ms = head->seg->created_ms;
    for (uint32_t i = 0; i < swap->count; i++) made->last_append_ms = OT_MAX(made->last_append_ms, swap->run->sources[swap->first + i].last_append_ms);
    made->indexing = out->indexing;
    made->times_known = true;
    atomic_store(&made->tail_state, 1);
    atomic_store(&made->index_count, out->indexes->index_count);
    atomic_store(&made->time_count, out->indexes->time_count);
    atomic_store(&made->txn_bytes, out->txn_bytes);
    return OT_OK;
}

enum ot_err eng_compact_swap(struct eng_compaction *run, uint32_t first, uint32_t count)
{
    struct swap swap = { .run = run, .log = run->log, .first = first, .count = count };
    struct eng_log *log = run->log;
    enum ot_err err = make_segment(&swap);
    if (err != OT_OK) return err;
    if ((err = begin(&swap)) != OT_OK) {
        eng_segment_unref(swap.made);
        return err;
    }
    err = make_swap_files(&swap);
    if (err == OT_OK) err = open_files(&swap);
    if (err != OT_OK) {
        take_back(&swap);
        release_files(&swap);
        eng_segment_unref(swap.made);
        end(&swap);
        return err;
    }
    /* an index that a reader makes anew for an old segment takes its name before, or not at all */
    pthread_mutex_lock(&log->store->rebuild_lock);
    replace_in_list(&swap);
    err = take_names(&swap);
    pthread_mutex_unlock(&log->store->rebuild_lock);
    eng_compact_out_close(&run->out);
    /* the list's references; with names half taken the open files are the only way to the new segment, so they stay open */
    for (uint32_t i = 0; i < count; i++) eng_segment_unref(run->sources[first + i].seg);
    if (err == OT_OK) {
        release_files(&swap);
    } else {
        log->half_swapped = swap.made;     /* read-only now: no second one follows */
        log->half_swapped_pins = swap.pinned;
        eng_log_give_up(log, err, "swapping in a compacted segment");
    }
    end(&swap);
    return err;
}
