/* The set of transactional ids as a whole: what comes out of it, how it begins and ends, and how it looks from outside. */
#include "coordinator/txn_inner.h"
#include <stdlib.h>
#include <string.h>

/* ---- outputs */

static bool next_append(struct coord_txns *txns, struct coord_txn_out *out)
{
    if (txns->append_at == txns->append_count) {
        return false;
    }
    const struct coord_txn_append *append = &txns->appends[txns->append_at++];
    *out = (struct coord_txn_out){ .kind = COORD_TXN_APPEND, .seq = append->seq, .key = { txns->text.data + append->key_pos, (uint32_t)append->key_bytes, false },
        .value = { append->tombstone ? NULL : txns->text.data + append->value_pos, (uint32_t)append->value_bytes, append->tombstone } };
    return true;
}

static bool next_note(struct coord_txns *txns, struct coord_txn_out *out)
{
    if (txns->note_at == txns->note_count) {
        return false;
    }
    const struct coord_txn_note *note = &txns->notes[txns->note_at++];
    *out = (struct coord_txn_out){ .kind = COORD_TXN_EVENT, .event = note->event, .error = note->error, .age_ms = note->age_ms, .producer_id = note->producer_id,
        .producer_epoch = note->producer_epoch, .id = { (const char *)txns->text.data + note->id_pos, (uint32_t)note->id_bytes, false } };
    memcpy(out->place, note->place, sizeof out->place);
    return true;
}

static bool next_markers(struct coord_txns *txns, struct coord_txn_out *out)
{
    struct coord_txn *txn = txns->markers_first;
    if (txn == NULL) {
        return false;
    }
    txns->markers_first = txn->marker_next;
    txns->markers_last = txns->markers_first == NULL ? &txns->markers_first : txns->markers_last;
    txn->marker_out = false;
    *out = (struct coord_txn_out){ .kind = COORD_TXN_MARKERS, .id = txn->id, .producer_id = txn->producer_id, .producer_epoch = txn->producer_epoch,
        .version = txn->version >= 2 ? 2 : 1, .commit = txn->state == OT_TRANSACTION_STATE_PREPARE_COMMIT,
        .again = txn->retry_wait_us > COORD_TXN_RETRY_FIRST_US, .parts = txn->parts, .part_count = txn->part_count };
    return true;
}

static bool next_request(struct coord_txn_list *list, enum coord_txn_out_kind kind, struct coord_txn_out *out)
{
    struct coord_txn_request *request = coord_txn_list_take(list);
    *out = (struct coord_txn_out){ .kind = kind, .request = request };
    return request != NULL;
}

static void refuse(struct coord_txn_request *request, enum ot_err why)
{
    request->error = why;
    request->producer_id_out = -1;
    request->producer_epoch_out = -1;
    for (uint32_t i = 0; request->ask == COORD_TXN_VERIFY && i < request->place_count; i++) {
        request->places[i].error = why;
    }
}

bool coord_txns_next(struct coord_txns *txns, struct coord_txn_out *out)
{
    bool silent = txns->broken || txns->is_closed;     /* then only who waits is told */
    if (!silent && (next_append(txns, out) || next_markers(txns, out) || next_request(&txns->ids, COORD_TXN_ID, out) || next_note(txns, out))) {
        return true;
    }
    if (next_request(&txns->replies, COORD_TXN_REPLY, out)) {
        if (txns->broken && out->request->error == OT_OK) {
            refuse(out->request, OT_ERR_COORDINATOR_NOT_AVAILABLE);    /* its record may be the one that could not be made */
        }
        return true;
    }
    txns->append_at = txns->append_count = txns->note_at = txns->note_count = 0;
    txns->text.bytes = 0;
    return false;
}

/* ---- life */

enum ot_err coord_txns_new(const struct coord_txns_config *config, struct coord_txns **out)
{
    struct coord_txns *txns = calloc(1, sizeof *txns);
    if (txns == NULL) {
        return OT_ERR_NO_MEMORY;
    }
    txns->config = *config;
    ot_map_init(&txns->by_id);
    ot_map_init(&txns->topics);
    txns->prepared_last = &txns->prepared_first;
    txns->markers_last = &txns->markers_first;
    *out = txns;
    return OT_OK;
}

void coord_txns_configure(struct coord_txns *txns, const struct coord_txns_config *config) { txns->config = *config; }

static void answer_list(struct coord_txns *txns, struct coord_txn_list *list)
{
    for (struct coord_txn_request *request; (request = coord_txn_list_take(list)) != NULL;) {
        refuse(request, txns->closed_why);
        coord_txn_list_put(&txns->replies, request);
    }
}

void coord_txns_close(struct coord_txns *txns, enum ot_err why)
{
    if (txns->is_closed) {
        return;
    }
    txns->is_closed = true;
    txns->closed_why = why;
    answer_list(txns, &txns->unanswered);
    answer_list(txns, &txns->ids);
    for (uint32_t i = 0; i < txns->by_id.count; i++) {
        struct coord_txn *txn = txns->by_id.entries[i].value;
        answer_list(txns, &txn->waiters);
        txn->waiter_count = 0;
    }
}

bool coord_txns_broken(const struct coord_txns *txns) { return txns->broken; }

void coord_txns_free(struct coord_txns *txns)
{
    if (txns == NULL) {
        return;
    }
    OT_ASSERT(txns->unanswered.first == NULL && txns->ids.first == NULL && txns->replies.first == NULL);
    for (uint32_t i = 0; i < txns->by_id.count; i++) {
        struct coord_txn *txn = txns->by_id.entries[i].value;
        OT_ASSERT(txn->waiters.first == NULL);
        free(txn->parts);
        free(txn);
    }
    for (uint32_t i = 0; i < txns->topics.count; i++) {
        free(txns->topics.entries[i].value);
    }
    ot_map_free(&txns->by_id);
    ot_map_free(&txns->topics);
    free(txns->heap);
    free(txns->text.data);
    free(txns->appends);
    free(txns->notes);
    free(txns->scratch_ids);
    free(txns->scratch_topics);
    free(txns);
}

/* ---- views */

static void view(const struct coord_txn *txn, struct coord_txn_view *out)
{
    *out = (struct coord_txn_view){ .id = txn->id, .state = txn->state, .producer_id = txn->producer_id, .previous_producer_id = txn->previous_producer_id,
        .start_ms = txn->start_ms, .update_ms = txn->update_ms, .timeout_ms = txn->timeout_ms, .producer_epoch = txn->producer_epoch, .version = txn->version,
        .parts = txn->parts, .part_count = txn->part_count };
}

bool coord_txns_find(const struct coord_txns *txns, struct ot_str id, struct coord_txn_view *out)
{
    const struct coord_txn *txn = coord_txn_find(txns, id);
    if (txn != NULL) {
        view(txn, out);
    }
    return txn != NULL;
}

uint32_t coord_txns_count(const struct coord_txns *txns) { return txns->by_id.count; }
void coord_txns_at(const struct coord_txns *txns, uint32_t index, struct coord_txn_view *out) { view(txns->by_id.entries[index].value, out); }
void coord_txns_counts(const struct coord_txns *txns, struct coord_txn_counts *out) { *out = txns->counts; }
uint64_t coord_txns_bytes(const struct coord_txns *txns) { return txns->bytes; }
