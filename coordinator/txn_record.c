/* Records of __transaction_state, as Kafka writes and reads them.
 *
 *   key    int16 0 | string transactional id
 *   value  int16 version | TransactionLogValue      version 0 below transaction.version 1, else 1
 *   A null value: the id is forgotten.
 *
 * Empty has null partitions, all other states a list. The epoch of a decided transaction of version 2 is that of its marker, one above the data's; when that is
 * the last one there is, next_producer_id is what the producer goes on with. Why a restart loses nothing: each step is one whole record, the last one says
 * everything, and what follows from it (markers, the completion) can be done again. */
#include "base/wire/frame.h"
#include "base/wire/transaction_log_key.h"
#include "base/wire/transaction_log_value.h"
#include "coordinator/txn_inner.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DECODE_BYTES_MAX (64u << 20)

typedef struct ot_transaction_log_value_partitions_schema topic_row;

/* The partitions as rows of topics, in the scratch. False: no memory. */
static bool rows_of(struct coord_txns *txns, const struct coord_txn *txn, struct ot_transaction_log_value *value)
{
    void *ids = txns->scratch_ids;
    bool enough = coord_txn_grow(&ids, &txns->scratch_id_cap, txn->part_count, sizeof txns->scratch_ids[0]);
    txns->scratch_ids = ids;
    enough = enough && coord_txn_grow(&txns->scratch_topics, &txns->scratch_topic_cap, txn->part_count, sizeof(topic_row));
    if (!enough) {
        return false;
    }
    topic_row *rows = txns->scratch_topics;
    int32_t count = 0;
    for (uint32_t i = 0; i < txn->part_count; i++) {
        const struct coord_txn_topic *topic = txn->parts[i].topic;
        if (i == 0 || topic != txn->parts[i - 1].topic) {
            rows[count++] = (topic_row){ .topic = { topic->name, topic->bytes, false }, .partition_ids = { &txns->scratch_ids[i], 0 } };
        }
        txns->scratch_ids[i] = txn->parts[i].partition;
        rows[count - 1].partition_ids.count++;
    }
    value->transaction_partitions.items = rows;
    value->transaction_partitions.count = count;
    return true;
}

static int16_t value_version(const struct coord_txns *txns) { return txns->config.version >= 1 ? 1 : 0; }

static bool value_of(struct coord_txns *txns, const struct coord_txn *txn, struct ot_transaction_log_value *value)
{
    ot_transaction_log_value_defaults(value);
    value->producer_id = txn->producer_id;
    value->producer_epoch = txn->producer_epoch;
    value->transaction_timeout_ms = txn->timeout_ms;
    value->transaction_status = (int8_t)txn->state;
    value->transaction_last_update_timestamp_ms = txn->update_ms;
    value->transaction_start_timestamp_ms = txn->start_ms;
    if (value_version(txns) >= 1) {
        value->previous_producer_id = txn->previous_producer_id;
        value->next_producer_id = txn->next_producer_id;
        value->client_transaction_version = txn->version;
    }
    value->transaction_partitions.count = -1;
    return txn->state == OT_TRANSACTION_STATE_EMPTY || rows_of(txns, txn, value);
}

size_t coord_txn_value_bytes(struct coord_txns *txns, const struct coord_txn *txn)
{
    struct ot_transaction_log_value value;
    return value_of(txns, txn, &value) ? ot_transaction_log_value_size(&value, value_version(txns)) + sizeof(int16_t) : SIZE_MAX;
}

static bool text_reserve(struct coord_txn_bytes *text, size_t more)
{
    if (text->cap - text->bytes >= more) {
        return true;
    }
    size_t cap = OT_MAX(text->cap * 2, text->bytes + more);
    uint8_t *grown = realloc(text->data, cap);
    if (grown == NULL) {
        return false;
    }
    text->data = grown;
    text->cap = cap;
    return true;
}

static enum ot_err put_framed(struct coord_txn_bytes *text, const struct ot_wire_message *message, int16_t version, const void *in, size_t *pos_out, size_t *bytes_out)
{
    struct ot_writer measure = ot_writer_over(NULL, 0);
    enum ot_err err = ot_wire_framed_encode(message, version, in, &measure);
    if (err != OT_OK) {
        return err;
    }
    if (!text_reserve(text, measure.needed)) {
        return OT_ERR_NO_MEMORY;
    }
    struct ot_writer writer = ot_writer_over(text->data + text->bytes, measure.needed);
    err = ot_wire_framed_encode(message, version, in, &writer);
    *pos_out = text->bytes;
    *bytes_out = measure.needed;
    text->bytes += measure.needed;
    return err;
}

/* value NULL: a tombstone. Whatever fails here leaves state and log apart: the state is broken then, and no more records are made. */
static void put_append(struct coord_txns *txns, struct ot_str id, const struct ot_transaction_log_value *value)
{
    struct ot_transaction_log_key key = { .transactional_id = id };
    if (txns->broken) {
        return;
    }
    void *appends = txns->appends;
    bool enough = coord_txn_grow(&appends, &txns->append_cap, txns->append_count + 1, sizeof txns->appends[0]);
    txns->appends = appends;
    struct coord_txn_append append = { .seq = txns->seq + 1, .tombstone = value == NULL };
    enum ot_err err = enough ? put_framed(&txns->text, &ot_transaction_log_key_message, 0, &key, &append.key_pos, &append.key_bytes) : OT_ERR_NO_MEMORY;
    if (err == OT_OK && value != NULL) {
        err = put_framed(&txns->text, &ot_transaction_log_value_message, value_version(txns), value, &append.value_pos, &append.value_bytes);
    }
    if (err != OT_OK) {
        txns->broken = true;
        return;
    }
    txns->seq++;
    txns->appends[txns->append_count++] = append;
}

void coord_txn_write(struct coord_txns *txns, struct coord_txn *txn)
{
    struct ot_transaction_log_value value;
    if (!value_of(txns, txn, &value)) {
        txns->broken = true;
        return;
    }
    put_append(txns, txn->id, &value);
    txn->seq = txns->seq;
}

void coord_txn_write_tombstone(struct coord_txns *txns, struct ot_str id) { put_append(txns, id, NULL); }

void coord_txn_note(struct coord_txns *txns, const struct coord_txn *txn, enum coord_txn_event event, int64_t age_ms, enum ot_err error, const struct coord_txn_part *part)
{
    void *notes = txns->notes;
    bool enough = coord_txn_grow(&notes, &txns->note_cap, txns->note_count + 1, sizeof txns->notes[0]) && text_reserve(&txns->text, txn->id.bytes);
    txns->notes = notes;
    if (!enough) {
        return;                                        /* a line of the log is not worth more */
    }
    struct coord_txn_note *note = &txns->notes[txns->note_count++];
    *note = (struct coord_txn_note){ .event = event, .error = error, .id_pos = txns->text.bytes, .id_bytes = txn->id.bytes, .producer_id = txn->producer_id,
        .age_ms = age_ms, .producer_epoch = txn->producer_epoch };
    if (part != NULL) {
        (void)snprintf(note->place, sizeof note->place, "%s-%d", part->topic->name, part->partition);
    }
    memcpy(txns->text.data + txns->text.bytes, txn->id.data, txn->id.bytes);
    txns->text.bytes += txn->id.bytes;
}

/* ---- replay */

static bool value_is_sane(const struct ot_transaction_log_value *value)
{
    return value->producer_id >= 0 && value->producer_epoch >= 0 && value->transaction_status >= OT_TRANSACTION_STATE_EMPTY
        && value->transaction_status <= OT_TRANSACTION_STATE_COMPLETE_ABORT;
}

static enum ot_err take_parts(struct coord_txns *txns, struct coord_txn *txn, const struct ot_transaction_log_value *value)
{
    enum ot_err err = OT_OK;
    coord_txn_parts_clear(txns, txn);
    for (int32_t i = 0; i < value->transaction_partitions.count && err == OT_OK; i++) {
        const topic_row *row = &value->transaction_partitions.items[i];
        struct coord_txn_place places[64];
        for (int32_t j = 0; j < row->partition_ids.count && err == OT_OK;) {
            uint32_t count = 0;
            for (; j < row->partition_ids.count && count < OT_ARRAY_COUNT(places); j++) {
                places[count++] = (struct coord_txn_place){ .topic = row->topic, .partition = row->partition_ids.items[j] };
            }
            err = coord_txn_parts_add(txns, txn, places, count);
        }
    }
    return err;
}

static enum ot_err take_value(struct coord_txns *txns, struct ot_str id, const struct ot_transaction_log_value *value)
{
    struct coord_txn *txn = coord_txn_find(txns, id);
    enum ot_err err = txn == NULL ? coord_txn_add(txns, id, &txn) : OT_OK;
    if (err != OT_OK) {
        return err;
    }
    coord_txn_set_state(txns, txn, (enum ot_transaction_state)value->transaction_status);
    txn->producer_id = value->producer_id;
    txn->previous_producer_id = value->previous_producer_id;
    txn->next_producer_id = value->next_producer_id;
    txn->producer_epoch = value->producer_epoch;
    txn->last_epoch = -1;
    txn->timeout_ms = value->transaction_timeout_ms;
    txn->start_ms = value->transaction_start_timestamp_ms;
    txn->update_ms = value->transaction_last_update_timestamp_ms;
    txn->version = value->client_transaction_version;
    return take_parts(txns, txn, value);
}

enum ot_err coord_txns_replay(struct coord_txns *txns, struct ot_blob key, struct ot_blob value)
{
    struct ot_transaction_log_key name;
    struct ot_transaction_log_value row;
    struct ot_reader in = ot_reader_over(key.data, key.bytes);
    struct ot_arena arena;
    int16_t number = -1;
    OT_ASSERT(!txns->is_loaded);
    if (key.null || ot_wire_frame_peek(OT_WIRE_FRAME_API, &in, &number) != OT_OK) {
        return OT_ERR_CORRUPT;
    }
    if (number != OT_TRANSACTION_LOG_KEY_API) {
        return OT_ERR_UNSUPPORTED_VERSION;
    }
    ot_arena_init(&arena, DECODE_BYTES_MAX);
    enum ot_err err = ot_wire_framed_decode(&ot_transaction_log_key_message, &in, &arena, &name, &number, NULL);
    bool known = false;
    if (err == OT_OK && !value.null) {
        in = ot_reader_over(value.data, value.bytes);
        err = ot_wire_framed_decode(&ot_transaction_log_value_message, &in, &arena, &row, &number, NULL);
        known = err == OT_OK;
        err = err == OT_OK && !value_is_sane(&row) ? OT_ERR_CORRUPT : err;
    }
    if (err == OT_OK && known) {
        err = take_value(txns, name.transactional_id, &row);
    } else if (err == OT_OK) {
        struct coord_txn *txn = coord_txn_find(txns, name.transactional_id);
        if (txn != NULL) {
            coord_txn_remove(txns, txn);
        }
    } else if (err != OT_ERR_NO_MEMORY && err != OT_ERR_UNSUPPORTED_VERSION) {
        err = OT_ERR_CORRUPT;
    }
    ot_arena_free(&arena);
    return err;
}
