/* Kafka's CleanedTransactionMetadata: which batches an abort took back, and when a marker has nothing left to mark. */
#include "engine/compact_inner.h"
#include <stdlib.h>

enum { ABORTED = 1, SEEN = 2 };
#define ENTRIES_BYTES_MAX (256u << 20)

void eng_compact_txns_init(struct eng_compact_txns *txns, struct eng_log *log)
{
    *txns = (struct eng_compact_txns){ .log = log };
    ot_map_init(&txns->open);
}

void eng_compact_txns_free(struct eng_compact_txns *txns)
{
    ot_map_free(&txns->open);
    free(txns->aborted);
    free(txns->entries);
    txns->aborted = NULL;
    txns->entries = NULL;
}

static enum ot_err load_aborted(struct eng_compact_txns *txns, int64_t from, int64_t to)
{
    txns->aborted_next = 0;
    for (;;) {
        enum ot_err err = eng_log_aborted(txns->log, from, to, txns->aborted, txns->aborted_cap, &txns->aborted_count);
        if (err != OT_OK || txns->aborted_count <= txns->aborted_cap) return err;
        struct eng_aborted *grown = realloc(txns->aborted, (size_t)txns->aborted_count * sizeof *grown);
        if (grown == NULL) return OT_ERR_NO_MEMORY;
        txns->aborted = grown;
        txns->aborted_cap = txns->aborted_count;
    }
}

static enum ot_err load_entries(struct eng_compact_txns *txns, struct eng_segment *seg)
{
    struct ot_io *io = txns->log->io;
    uint64_t bytes = atomic_load(&seg->txn_bytes) / ENG_TXN_ENTRY_BYTES * ENG_TXN_ENTRY_BYTES;
    int fd = -1;
    free(txns->entries);
    txns->entries = NULL;
    txns->entry_count = txns->entry_next = 0;
    if (bytes == 0) return OT_OK;
    if (bytes > ENTRIES_BYTES_MAX || (txns->entries = malloc(bytes)) == NULL) return OT_ERR_NO_MEMORY;
    enum ot_err err = eng_segment_acquire(seg, txns->log->dir_path, ENG_SEGMENT_TXN, true, &fd);
    if (err != OT_OK) return err;
    err = ot_io_read_exact(io, fd, txns->entries, bytes, 0);
    eng_segment_release(seg, ENG_SEGMENT_TXN);
    if (err == OT_OK) txns->entry_count = (uint32_t)(bytes / ENG_TXN_ENTRY_BYTES);
    return err == OT_ERR_SHORT ? OT_ERR_CORRUPT : err;
}

enum ot_err eng_compact_txns_segment(struct eng_compact_txns *txns, struct eng_segment *seg, int64_t end_offset)
{
    enum ot_err err = load_aborted(txns, seg->base_offset, end_offset);
    return err == OT_OK ? load_entries(txns, seg) : err;
}

/* In the map's value: the flags, and for an aborted one where its marker is. */
struct state { unsigned flags; int64_t last_offset; };

static struct state state_of(const struct eng_compact_txns *txns, int64_t producer_id)
{
    uint64_t packed = (uint64_t)(uintptr_t)ot_map_get(&txns->open, &producer_id, sizeof producer_id);
    return (struct state){ (unsigned)(packed & 3), (int64_t)(packed >> 2) };
}

static enum ot_err set_state(struct eng_compact_txns *txns, int64_t producer_id, struct state state)
{
    return ot_map_put(&txns->open, &producer_id, sizeof producer_id, (void *)(uintptr_t)((uint64_t)state.last_offset << 2 | state.flags));
}

/* The aborted transactions that began by now. */
static enum ot_err begin_aborted(struct eng_compact_txns *txns, int64_t offset)
{
    enum ot_err err = OT_OK;
    while (err == OT_OK && txns->aborted_next < txns->aborted_count && txns->aborted[txns->aborted_next].first_offset <= offset) {
        const struct eng_aborted *aborted = &txns->aborted[txns->aborted_next++];
        if (aborted->last_offset < offset) continue;       /* over already: what follows is another transaction's */
        struct state state = state_of(txns, aborted->producer_id);
        err = set_state(txns, aborted->producer_id, (struct state){ state.flags | ABORTED, aborted->last_offset });
    }
    return err;
}

enum ot_err eng_compact_txns_data(struct eng_compact_txns *txns, const struct eng_batch_info *info, bool *aborted_out)
{
    *aborted_out = false;
    if (info->magic < 2 || !info->transactional) return OT_OK;
    enum ot_err err = begin_aborted(txns, info->base_offset);
    if (err != OT_OK) return err;
    struct state state = state_of(txns, info->producer_id);
    if ((state.flags & ABORTED) != 0 && state.last_offset < info->base_offset) state = (struct state){ 0 };     /* its marker is gone */
    *aborted_out = (state.flags & ABORTED) != 0;
    state.flags |= SEEN;
    return set_state(txns, info->producer_id, state);
}

enum ot_err eng_compact_txns_marker(struct eng_compact_txns *txns, const struct eng_batch_info *info, bool *empty_out)
{
    enum ot_err err = begin_aborted(txns, info->base_offset);
    *empty_out = (state_of(txns, info->producer_id).flags & SEEN) == 0;
    (void)ot_map_remove(&txns->open, &info->producer_id, sizeof info->producer_id);
    return err;
}

bool eng_compact_txns_entry(struct eng_compact_txns *txns, int64_t offset, struct eng_txn_entry *out)
{
    while (txns->entry_next < txns->entry_count) {
        const uint8_t *data = txns->entries + (size_t)txns->entry_next * ENG_TXN_ENTRY_BYTES;
        if (eng_txn_entry_decode(data, out) != OT_OK || out->last_offset > offset) return false;
        txns->entry_next++;
        if (out->last_offset == offset) return true;
    }
    return false;
}
