/* What the transaction coordinator decides.
 *
 *   request ──▶ answer (with an error, or when its records are committed)
 *           ├─▶ step: state changes, its record goes out, the answer waits for it
 *           ├─▶ ID: it needs a fresh producer id first, and is handed in again
 *           └─▶ wait: the id is between decision and completion; asked again when that is over
 *
 *   decision committed ──▶ MARKERS ──▶ marked ──▶ all done: completed   (else again, later and later)
 *
 * Why nobody hangs: an open transaction, a retry of markers, a waiting request and an idle id each have a deadline in the one heap, and tick serves whatever is
 * due. */
#include "coordinator/txn_inner.h"

typedef enum ot_transaction_state state_t;

static void ask(struct coord_txns *txns, struct coord_txn_request *request, struct coord_txn_time now);

/* ---- answers */

/* The answer rests on all records up to seq. */
static void answer_after(struct coord_txns *txns, struct coord_txn_request *request, enum ot_err error, uint64_t seq)
{
    request->error = error;
    if (seq <= txns->committed) {
        coord_txn_list_put(&txns->replies, request);
        return;
    }
    struct coord_txn_list *list = &txns->unanswered;
    struct coord_txn_request *before = list->last;
    while (before != NULL && before->seq > seq) {
        before = before->prev;
    }
    request->seq = seq;
    request->prev = before;
    request->next = before == NULL ? list->first : before->next;
    *(request->next == NULL ? &list->last : &request->next->prev) = request;
    *(before == NULL ? &list->first : &before->next) = request;
}

static void answer(struct coord_txns *txns, struct coord_txn_request *request, enum ot_err error) { answer_after(txns, request, error, 0); }

static void answer_producer(struct coord_txns *txns, struct coord_txn_request *request, const struct coord_txn *txn, int64_t producer_id, int16_t producer_epoch)
{
    request->producer_id_out = producer_id;
    request->producer_epoch_out = producer_epoch;
    answer_after(txns, request, OT_OK, txn->seq);
}

static void need_id(struct coord_txns *txns, struct coord_txn_request *request) { coord_txn_list_put(&txns->ids, request); }

static void refuse_waiting(struct coord_txns *txns, const struct coord_txn *txn, struct coord_txn_request *request)
{
    bool decided = request->ask == COORD_TXN_ABORT && request->fenced;
    answer_after(txns, request, decided ? OT_OK : OT_ERR_CONCURRENT_TRANSACTIONS, decided ? txn->seq : 0);
}

/* What the request wants must wait for the end of what is under way, but not for ever. */
static void wait_or_refuse(struct coord_txns *txns, struct coord_txn *txn, struct coord_txn_request *request, struct coord_txn_time now)
{
    bool in_time = request->waited ? now.now_us < request->deadline_us : txns->config.wait_us > 0;     /* woken, and another came first: the rest of its time */
    if (!in_time || txn->waiter_count >= COORD_TXN_WAITERS_MAX) {
        refuse_waiting(txns, txn, request);
        return;
    }
    if (!request->waited) {
        request->deadline_us = now.now_us + txns->config.wait_us;
    }
    request->waited = true;
    txn->waiter_count++;
    coord_txn_list_put(&txn->waiters, request);
    coord_txn_schedule(txns, txn);
}

/* ---- steps */

static int64_t later(int64_t now, int64_t wait) { return wait > INT64_MAX - now ? INT64_MAX : now + wait; }

/* What cannot be undone believes the earlier clock. */
static int64_t gone_ms(struct coord_txn_time now, int64_t since_ms)
{
    int64_t now_ms = now.steady_ms == 0 ? now.wall_ms : OT_MIN(now.wall_ms, now.steady_ms);
    return OT_MAX(now_ms - since_ms, 0);
}

static void arm_expiry(const struct coord_txns *txns, struct coord_txn *txn, struct coord_txn_time now)
{
    int64_t idle_ms = gone_ms(now, txn->update_ms), left_ms = OT_MAX(txns->config.expiration_ms - idle_ms, 0);
    txn->expire_us = left_ms > (INT64_MAX - now.now_us) / 1000 ? INT64_MAX : now.now_us + left_ms * 1000;
}

static void step(struct coord_txns *txns, struct coord_txn *txn, state_t state, struct coord_txn_time now)
{
    coord_txn_set_state(txns, txn, state);
    txn->update_ms = OT_MAX(txn->update_ms, now.wall_ms);
    if (!coord_txn_is_open(txn)) {
        coord_txn_parts_clear(txns, txn);
        arm_expiry(txns, txn, now);
    }
    coord_txn_write(txns, txn);
    coord_txn_schedule(txns, txn);
}

static void wake(struct coord_txns *txns, struct coord_txn *txn, struct coord_txn_time now)
{
    struct coord_txn_list woken = txn->waiters;
    txn->waiters = (struct coord_txn_list){ 0 };
    txn->waiter_count = 0;
    for (struct coord_txn_request *request; (request = coord_txn_list_take(&woken)) != NULL;) {
        ask(txns, request, now);
    }
}

/* All markers are written, or there were none. */
static void complete(struct coord_txns *txns, struct coord_txn *txn, struct coord_txn_time now)
{
    state_t state = txn->state == OT_TRANSACTION_STATE_PREPARE_COMMIT ? OT_TRANSACTION_STATE_COMPLETE_COMMIT : OT_TRANSACTION_STATE_COMPLETE_ABORT;
    txn->retry_us = INT64_MAX;
    if (txn->next_producer_id >= 0) {
        txn->previous_producer_id = txn->producer_id;
        txn->producer_id = txn->next_producer_id;
        txn->producer_epoch = 0;
        txn->next_producer_id = -1;
    } else {
        txn->previous_producer_id = txn->producer_id;
    }
    step(txns, txn, state, now);
    wake(txns, txn, now);
    coord_txn_schedule(txns, txn);
}

/* Its record is on the way; carried out when that is committed. */
static void prepared(struct coord_txns *txns, struct coord_txn *txn)
{
    txn->prepared_next = NULL;
    *txns->prepared_last = txn;
    txns->prepared_last = &txn->prepared_next;
}

/* next_producer_id: what the producer goes on with after an epoch that was the last; else -1. */
static void prepare(struct coord_txns *txns, struct coord_txn *txn, bool commit, int16_t version, int64_t next_producer_id, struct coord_txn_time now)
{
    if (version >= 2) {
        OT_ASSERT(txn->producer_epoch < INT16_MAX);
        txn->last_epoch = txn->producer_epoch;
        txn->producer_epoch++;
    }
    txn->version = version;
    txn->next_producer_id = next_producer_id;
    txn->previous_producer_id = txn->producer_id;
    txn->retry_wait_us = COORD_TXN_RETRY_FIRST_US;
    step(txns, txn, commit ? OT_TRANSACTION_STATE_PREPARE_COMMIT : OT_TRANSACTION_STATE_PREPARE_ABORT, now);
    prepared(txns, txn);
}

/* Nobody who knows the epoch of now can write or decide any more, and what is open is aborted. With version 2 the epoch grows by two: by one for the fence, so
 * that a late EndTxn of the fenced producer is not taken for the repetition of this one, and by one for the marker. Of the last epoch only one is left, which
 * serves as both: no client is ever given it, and the next INIT brings a fresh id. */
static void fence(struct coord_txns *txns, struct coord_txn *txn, enum coord_txn_event event, struct coord_txn_time now)
{
    OT_ASSERT(txn->state == OT_TRANSACTION_STATE_ONGOING);
    bool two = txns->config.version >= 2 && txn->producer_epoch < INT16_MAX;
    *(event == COORD_TXN_TIMED_OUT ? &txns->counts.timed_out : &txns->counts.fenced) += 1;
    coord_txn_note(txns, txn, event, OT_MAX(now.wall_ms - txn->start_ms, 0), OT_OK, NULL);
    if (txn->producer_epoch < (two ? COORD_TXN_EPOCH_LAST : INT16_MAX)) {
        txn->producer_epoch++;
    }
    prepare(txns, txn, false, two ? 2 : 0, -1, now);
    txn->last_epoch = -1;
}

/* ---- INIT */

static bool may_go_on(const struct coord_txn *txn, const struct coord_txn_request *request)
{
    if (request->producer_id < 0 || txn->producer_epoch < 0) {
        return true;
    }
    bool mine = request->producer_id == txn->producer_id && (request->producer_epoch == txn->producer_epoch || request->producer_epoch == txn->last_epoch);
    return mine || (request->producer_id == txn->previous_producer_id && request->producer_epoch >= COORD_TXN_EPOCH_LAST && txn->producer_epoch == 0);
}

/* An answer that was lost is asked for again: the same once more. */
static bool is_repeated_init(const struct coord_txn *txn, const struct coord_txn_request *request)
{
    if (request->producer_id < 0 || txn->producer_epoch < 0) {
        return false;
    }
    return request->producer_id != txn->producer_id || (request->producer_epoch == txn->last_epoch && request->producer_epoch != txn->producer_epoch);
}

static void begin_epoch(struct coord_txns *txns, struct coord_txn *txn, struct coord_txn_request *request, struct coord_txn_time now)
{
    bool goes_on = request->producer_id >= 0;
    if (is_repeated_init(txn, request)) {
        txn->timeout_ms = request->timeout_ms;         /* as Kafka: epoch and id stay */
    } else if (txn->producer_epoch >= COORD_TXN_EPOCH_LAST) {
        if (request->spare_id < 0) {
            need_id(txns, request);
            return;
        }
        txn->previous_producer_id = txn->producer_id;
        txn->last_epoch = goes_on ? txn->producer_epoch : -1;
        txn->producer_id = request->spare_id;
        txn->producer_epoch = 0;
    } else {
        txn->previous_producer_id = txn->producer_id;
        txn->last_epoch = goes_on ? txn->producer_epoch : -1;
        txn->producer_epoch++;
    }
    txn->timeout_ms = request->timeout_ms;
    txn->start_ms = -1;
    step(txns, txn, OT_TRANSACTION_STATE_EMPTY, now);
    answer_producer(txns, request, txn, txn->producer_id, txn->producer_epoch);
}

static void ask_init(struct coord_txns *txns, struct coord_txn *txn, struct coord_txn_request *request, struct coord_txn_time now)
{
    if (request->timeout_ms <= 0 || request->timeout_ms > txns->config.timeout_ms_max) {
        answer(txns, request, OT_ERR_INVALID_TRANSACTION_TIMEOUT);
        return;
    }
    if (txn == NULL) {
        enum ot_err err = txns->bytes >= txns->config.bytes_max ? OT_ERR_NO_MEMORY : OT_OK;
        if (err == OT_OK && request->spare_id < 0) {
            need_id(txns, request);
            return;
        }
        if (err != OT_OK || (err = coord_txn_add(txns, request->id, &txn)) != OT_OK) {
            answer(txns, request, err);
            return;
        }
        txn->producer_id = request->spare_id;
        request->spare_id = -1;
    }
    if (!may_go_on(txn, request)) {
        answer(txns, request, OT_ERR_PRODUCER_FENCED);
        return;
    }
    if (txn->state == OT_TRANSACTION_STATE_ONGOING) {
        if (is_repeated_init(txn, request)) {          /* a late one of an epoch that has ended: the transaction of the newer one stays */
            answer(txns, request, OT_ERR_PRODUCER_FENCED);
            return;
        }
        fence(txns, txn, COORD_TXN_FENCED, now);
        wait_or_refuse(txns, txn, request, now);
    } else if (coord_txn_is_open(txn)) {
        wait_or_refuse(txns, txn, request, now);
    } else {
        begin_epoch(txns, txn, request, now);
    }
}

/* ---- ADD, VERIFY */

static enum ot_err who(const struct coord_txn *txn, const struct coord_txn_request *request)
{
    if (txn == NULL || txn->producer_id != request->producer_id) {
        return OT_ERR_INVALID_PRODUCER_ID_MAPPING;
    }
    return txn->producer_epoch != request->producer_epoch || txn->producer_epoch == INT16_MAX ? OT_ERR_PRODUCER_FENCED : OT_OK;
}

static bool has_all(const struct coord_txn *txn, const struct coord_txn_request *request)
{
    for (uint32_t i = 0; i < request->place_count; i++) {
        if (coord_txn_part_find(txn, request->places[i].topic, request->places[i].partition) == NULL) {
            return false;
        }
    }
    return true;
}

static enum ot_err add_parts(struct coord_txns *txns, struct coord_txn *txn, const struct coord_txn_request *request, struct coord_txn_time now)
{
    if (txns->bytes >= txns->config.bytes_max) {
        return OT_ERR_NO_MEMORY;
    }
    uint32_t names_bytes = 0;
    for (uint32_t i = 0; i < request->place_count && names_bytes < txns->config.record_bytes_max; i++) {
        names_bytes += (i == 0 || !ot_str_equal(request->places[i].topic, request->places[i - 1].topic) ? request->places[i].topic.bytes : 0) + 4;
    }
    if (coord_txn_value_bytes(txns, txn) + names_bytes + 64 > txns->config.record_bytes_max) {     /* at most: what is there already is counted twice */
        return OT_ERR_TOO_LARGE;
    }
    enum ot_err err = coord_txn_parts_add(txns, txn, request->places, request->place_count);
    if (err == OT_OK && txn->state != OT_TRANSACTION_STATE_ONGOING) {
        txn->start_ms = now.wall_ms;
        txn->open_deadline_us = later(now.now_us, (int64_t)txn->timeout_ms * 1000);
    }
    return err;
}

static void ask_add(struct coord_txns *txns, struct coord_txn *txn, struct coord_txn_request *request, struct coord_txn_time now)
{
    enum ot_err err = who(txn, request);
    if (err != OT_OK) {
        answer(txns, request, err);
    } else if (txn->state == OT_TRANSACTION_STATE_PREPARE_COMMIT || txn->state == OT_TRANSACTION_STATE_PREPARE_ABORT) {
        wait_or_refuse(txns, txn, request, now);
    } else if (txn->state == OT_TRANSACTION_STATE_ONGOING && has_all(txn, request)) {
        answer_after(txns, request, OT_OK, txn->seq);
    } else if ((err = add_parts(txns, txn, request, now)) != OT_OK) {
        answer(txns, request, err);
    } else {
        txn->version = request->version;
        step(txns, txn, OT_TRANSACTION_STATE_ONGOING, now);
        answer_after(txns, request, OT_OK, txn->seq);
    }
}

static void ask_verify(struct coord_txns *txns, struct coord_txn *txn, struct coord_txn_request *request)
{
    enum ot_err err = who(txn, request);
    bool busy = err == OT_OK && coord_txn_is_open(txn) && txn->state != OT_TRANSACTION_STATE_ONGOING;
    err = busy ? OT_ERR_CONCURRENT_TRANSACTIONS : err;
    for (uint32_t i = 0; i < request->place_count; i++) {
        struct coord_txn_place *place = &request->places[i];
        place->error = err != OT_OK ? err : coord_txn_part_find(txn, place->topic, place->partition) != NULL ? OT_OK : OT_ERR_TRANSACTION_ABORTABLE;
    }
    answer_after(txns, request, err, err == OT_OK ? txn->seq : 0);
}

/* ---- END */

static void end_open(struct coord_txns *txns, struct coord_txn *txn, struct coord_txn_request *request, struct coord_txn_time now)
{
    bool last = request->version >= 2 && txn->producer_epoch >= COORD_TXN_EPOCH_LAST;
    if (last && request->spare_id < 0) {
        need_id(txns, request);
        return;
    }
    *(request->commit ? &txns->counts.committed : &txns->counts.aborted) += 1;
    prepare(txns, txn, request->commit, request->version >= 2 ? 2 : 0, last ? request->spare_id : -1, now);
    request->spare_id = -1;
    if (request->version < 2) {
        answer_after(txns, request, OT_OK, txn->seq);
    } else {
        answer_producer(txns, request, txn, last ? txn->next_producer_id : txn->producer_id, last ? 0 : txn->producer_epoch);
    }
}

/* Version 2 may abort what never had a partition: the epoch grows all the same. */
static void end_nothing(struct coord_txns *txns, struct coord_txn *txn, struct coord_txn_request *request, struct coord_txn_time now)
{
    bool last = txn->producer_epoch >= COORD_TXN_EPOCH_LAST;
    if (last && request->spare_id < 0) {
        need_id(txns, request);
        return;
    }
    txns->counts.aborted++;
    txn->start_ms = now.wall_ms;
    txn->version = 2;
    txn->last_epoch = txn->producer_epoch;
    txn->previous_producer_id = txn->producer_id;
    txn->producer_id = last ? request->spare_id : txn->producer_id;
    txn->producer_epoch = last ? 0 : (int16_t)(txn->producer_epoch + 1);
    request->spare_id = -1;
    step(txns, txn, OT_TRANSACTION_STATE_COMPLETE_ABORT, now);
    answer_producer(txns, request, txn, txn->producer_id, txn->producer_epoch);
}

static void end_again(struct coord_txns *txns, struct coord_txn *txn, struct coord_txn_request *request)
{
    if (request->version < 2) {
        answer_after(txns, request, OT_OK, txn->seq);
    } else {
        answer_producer(txns, request, txn, txn->producer_id, txn->producer_epoch);
    }
}

static bool same_end(const struct coord_txn *txn, bool commit)
{
    return txn->state == (commit ? OT_TRANSACTION_STATE_COMPLETE_COMMIT : OT_TRANSACTION_STATE_COMPLETE_ABORT)
        || txn->state == (commit ? OT_TRANSACTION_STATE_PREPARE_COMMIT : OT_TRANSACTION_STATE_PREPARE_ABORT);
}

static void ask_end_1(struct coord_txns *txns, struct coord_txn *txn, struct coord_txn_request *request, struct coord_txn_time now)
{
    enum ot_err err = who(txn, request);
    if (err != OT_OK) {
        answer(txns, request, err);
    } else if (txn->state == OT_TRANSACTION_STATE_ONGOING) {
        end_open(txns, txn, request, now);
    } else if (!same_end(txn, request->commit)) {
        answer(txns, request, OT_ERR_INVALID_TXN_STATE);
    } else if (coord_txn_is_open(txn)) {
        wait_or_refuse(txns, txn, request, now);
    } else {
        end_again(txns, txn, request);
    }
}

/*                   abort                 commit
 *                   repeated   current    repeated   current      repeated: the epoch before the one of now (or the last one of the id before)
 *   Ongoing         fenced     ends       fenced     ends
 *   Empty           fenced     ends       fenced     invalid
 *   Prepare…        waits if the same, else invalid; current: fenced
 *   CompleteAbort   again      ends       invalid    invalid
 *   CompleteCommit  invalid    ends       again      invalid
 */
static void ask_end_2(struct coord_txns *txns, struct coord_txn *txn, struct coord_txn_request *request, struct coord_txn_time now)
{
    bool over = txn != NULL && txn->previous_producer_id == request->producer_id && txn->producer_id != request->producer_id
        && request->producer_epoch >= COORD_TXN_EPOCH_LAST && txn->producer_epoch == 0;
    if (txn == NULL || (txn->producer_id != request->producer_id && !over)) {
        answer(txns, request, OT_ERR_INVALID_PRODUCER_ID_MAPPING);
        return;
    }
    bool spent = txn->producer_epoch == INT16_MAX && txn->next_producer_id < 0;       /* fenced at the last epoch */
    bool repeated = over || (txn->producer_epoch == request->producer_epoch + 1 && !spent);
    bool current = txn->producer_epoch == request->producer_epoch && txn->producer_epoch < INT16_MAX && !over;
    bool ended = txn->state == OT_TRANSACTION_STATE_COMPLETE_COMMIT || txn->state == OT_TRANSACTION_STATE_COMPLETE_ABORT;
    bool preparing = coord_txn_is_open(txn) && txn->state != OT_TRANSACTION_STATE_ONGOING;
    if (!(preparing ? repeated && !over : ended ? repeated || current : current)) {
        answer(txns, request, OT_ERR_PRODUCER_FENCED);
    } else if (txn->state == OT_TRANSACTION_STATE_ONGOING) {
        end_open(txns, txn, request, now);
    } else if (preparing && same_end(txn, request->commit)) {
        wait_or_refuse(txns, txn, request, now);
    } else if (ended && repeated && same_end(txn, request->commit)) {
        end_again(txns, txn, request);
    } else if (!preparing && current && !request->commit) {
        end_nothing(txns, txn, request, now);
    } else {
        answer(txns, request, OT_ERR_INVALID_TXN_STATE);
    }
}

/* ---- ABORT: an operator ends what hangs. Answered when it is over, or decided and slow. */
static void ask_abort(struct coord_txns *txns, struct coord_txn *txn, struct coord_txn_request *request, struct coord_txn_time now)
{
    if (txn == NULL) {
        answer(txns, request, OT_ERR_TRANSACTIONAL_ID_NOT_FOUND);
        return;
    }
    bool done = request->fenced && txn->state != OT_TRANSACTION_STATE_PREPARE_ABORT;
    if (done || (txn->state != OT_TRANSACTION_STATE_ONGOING && txn->state != OT_TRANSACTION_STATE_PREPARE_ABORT)) {
        answer_after(txns, request, done ? OT_OK : OT_ERR_INVALID_TXN_STATE, done ? txn->seq : 0);
        return;
    }
    if (txn->state == OT_TRANSACTION_STATE_ONGOING) {
        fence(txns, txn, COORD_TXN_FENCED, now);
    }
    request->fenced = true;
    wait_or_refuse(txns, txn, request, now);
}

/* The id that the last EndTxn was answered with, where it takes the place of an exhausted one: it is there once the transaction is complete. */
static bool is_to_come(const struct coord_txn *txn, const struct coord_txn_request *request)
{
    return txn != NULL && coord_txn_is_open(txn) && txn->next_producer_id >= 0 && txn->next_producer_id == request->producer_id;
}

static void ask(struct coord_txns *txns, struct coord_txn_request *request, struct coord_txn_time now)
{
    struct coord_txn *txn = coord_txn_find(txns, request->id);
    if (request->ask != COORD_TXN_VERIFY && is_to_come(txn, request)) {
        wait_or_refuse(txns, txn, request, now);
        return;
    }
    switch (request->ask) {
    case COORD_TXN_INIT: ask_init(txns, txn, request, now); break;
    case COORD_TXN_ADD: ask_add(txns, txn, request, now); break;
    case COORD_TXN_VERIFY: ask_verify(txns, txn, request); break;
    case COORD_TXN_END: (request->version >= 2 ? ask_end_2 : ask_end_1)(txns, txn, request, now); break;
    case COORD_TXN_ABORT: ask_abort(txns, txn, request, now); break;
    }
}

/* ---- inputs */

void coord_txns_request(struct coord_txns *txns, struct coord_txn_request *request, struct coord_txn_time now)
{
    OT_ASSERT(txns->is_loaded);
    request->next = request->prev = NULL;
    if (txns->is_closed) {
        answer(txns, request, txns->closed_why);
    } else {
        ask(txns, request, now);
    }
}

static void send_markers(struct coord_txns *txns, struct coord_txn *txn)
{
    txn->marking = txn->marker_out = true;
    txn->retry_us = INT64_MAX;
    txn->marker_next = NULL;
    *txns->markers_last = txn;
    txns->markers_last = &txn->marker_next;
}

static void carry_out(struct coord_txns *txns, struct coord_txn *txn, struct coord_txn_time now)
{
    if (txn->part_count == 0) {
        complete(txns, txn, now);
    } else {
        send_markers(txns, txn);
        coord_txn_schedule(txns, txn);
    }
}

void coord_txns_committed(struct coord_txns *txns, uint64_t seq, struct coord_txn_time now)
{
    OT_ASSERT(seq <= txns->seq);
    if (txns->is_closed || seq <= txns->committed) {
        return;
    }
    txns->committed = seq;
    while (txns->unanswered.first != NULL && txns->unanswered.first->seq <= seq) {
        coord_txn_list_put(&txns->replies, coord_txn_list_take(&txns->unanswered));
    }
    for (struct coord_txn *txn; (txn = txns->prepared_first) != NULL && txn->seq <= seq;) {
        txns->prepared_first = txn->prepared_next;
        txns->prepared_last = txns->prepared_first == NULL ? &txns->prepared_first : txns->prepared_last;
        carry_out(txns, txn, now);
    }
}

static void take_result(struct coord_txns *txns, struct coord_txn *txn, const struct coord_txn_place *place)
{
    struct coord_txn_part *part = coord_txn_part_find(txn, place->topic, place->partition);
    if (part == NULL || part->done) {
        return;
    }
    part->done = place->error == OT_OK || place->error == OT_ERR_UNKNOWN_TOPIC_OR_PARTITION || place->error == OT_ERR_INVALID_PRODUCER_EPOCH;
    if (part->done && place->error != OT_OK) {
        coord_txn_note(txns, txn, COORD_TXN_MARKER_DROPPED, 0, place->error, part);
    }
}

void coord_txns_marked(struct coord_txns *txns, const struct coord_txn_marked *marked, struct coord_txn_time now)
{
    struct coord_txn *txn = coord_txn_find(txns, marked->id);
    bool preparing = txn != NULL && coord_txn_is_open(txn) && txn->state != OT_TRANSACTION_STATE_ONGOING;
    if (txns->is_closed || !preparing || !txn->marking || txn->producer_id != marked->producer_id || txn->producer_epoch != marked->producer_epoch) {
        return;
    }
    txn->marking = false;
    for (uint32_t i = 0; i < marked->place_count; i++) {
        take_result(txns, txn, &marked->places[i]);
    }
    uint32_t left = 0;
    for (uint32_t i = 0; i < txn->part_count; i++) {
        left += txn->parts[i].done ? 0 : 1;
    }
    if (left == 0) {
        complete(txns, txn, now);
        return;
    }
    txns->counts.late += txn->late ? 0 : 1;
    txn->late = true;
    txn->retry_us = later(now.now_us, txn->retry_wait_us);
    txn->retry_wait_us = OT_MIN(txn->retry_wait_us * 2, (int64_t)COORD_TXN_RETRY_MAX_US);
    coord_txn_schedule(txns, txn);
}

/* Requests whose time is up. */
static void refuse_late(struct coord_txns *txns, struct coord_txn *txn, struct coord_txn_time now)
{
    while (txn->waiters.first != NULL && txn->waiters.first->deadline_us <= now.now_us) {
        struct coord_txn_request *request = coord_txn_list_take(&txn->waiters);
        txn->waiter_count--;
        refuse_waiting(txns, txn, request);
    }
}

void coord_txns_tick(struct coord_txns *txns, struct coord_txn_time now)
{
    uint32_t expired = 0;
    while (!txns->is_closed && txns->heap_count > 0 && txns->heap[1]->deadline_us <= now.now_us) {
        struct coord_txn *txn = txns->heap[1];
        refuse_late(txns, txn, now);
        if (txn->state == OT_TRANSACTION_STATE_ONGOING && txn->open_deadline_us <= now.now_us) {
            fence(txns, txn, COORD_TXN_TIMED_OUT, now);
        } else if (txn->retry_us <= now.now_us && txn->unproven) {
            txn->retry_us = INT64_MAX;
            txn->unproven = false;
            coord_txn_write(txns, txn);
            prepared(txns, txn);
        } else if (txn->retry_us <= now.now_us) {
            send_markers(txns, txn);
        } else if (!coord_txn_is_open(txn) && txn->expire_us <= now.now_us) {
            if (expired++ == COORD_TXN_EXPIRE_AT_ONCE) {
                break;                                 /* the rest at the next tick, which is due at once */
            }
            coord_txn_note(txns, txn, COORD_TXN_EXPIRED, OT_MAX(now.wall_ms - txn->update_ms, 0), OT_OK, NULL);
            coord_txn_write_tombstone(txns, txn->id);
            coord_txn_remove(txns, txn);
            continue;
        }
        coord_txn_schedule(txns, txn);
    }
}

int64_t coord_txns_deadline_us(const struct coord_txns *txns)
{
    return txns->is_closed || txns->heap_count == 0 ? INT64_MAX : txns->heap[1]->deadline_us;
}

void coord_txns_loaded(struct coord_txns *txns, struct coord_txn_time now)
{
    txns->is_loaded = true;
    for (uint32_t i = 0; i < txns->by_id.count; i++) {
        struct coord_txn *txn = txns->by_id.entries[i].value;
        if (txn->state == OT_TRANSACTION_STATE_ONGOING) {
            int64_t left_ms = OT_MAX((int64_t)txn->timeout_ms - gone_ms(now, txn->start_ms), 0);
            txn->open_deadline_us = later(now.now_us, left_ms * 1000);
        } else if (!coord_txn_is_open(txn)) {
            arm_expiry(txns, txn, now);
        } else {
            /* what was read may be of the log's end and not be committed yet: the next tick writes the decision once more, and it holds when that is committed */
            txn->retry_wait_us = COORD_TXN_RETRY_FIRST_US;
            txn->retry_us = now.now_us;
            txn->unproven = true;
        }
        coord_txn_schedule(txns, txn);
    }
}
