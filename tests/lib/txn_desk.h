/* A driver in memory for tests of the transaction coordinator: a log that commits when it is told to, markers that are written when they are told to, and a
 * restart from any part of the log. */
#ifndef OT_TEST_TXN_DESK_H
#define OT_TEST_TXN_DESK_H

#include "coordinator/txn.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TXN_DESK_RECORDS = 4096, TXN_DESK_MARKS = 256 };
struct txn_desk_record { uint8_t *key, *value; uint32_t key_bytes, value_bytes; bool tombstone; uint64_t seq; };
struct txn_desk_mark {                         /* one MARKERS, kept */
    char id[64];
    int64_t producer_id; int16_t producer_epoch, version; bool commit;
    struct coord_txn_place places[128]; char names[128][64]; uint32_t place_count;
};
struct txn_desk {
    struct coord_txns *txns;
    struct coord_txns_config config;
    struct coord_txn_time now;
    struct txn_desk_record records[TXN_DESK_RECORDS]; uint32_t record_count;
    struct txn_desk_mark marks[TXN_DESK_MARKS]; uint32_t mark_first, mark_count;
    bool hold_commit, hold_marks, forgetful;   /* forgetful: records are counted only; there is no start anew */
    int64_t next_producer_id;
    uint32_t events[4], replies;
};

static inline struct coord_txns_config txn_desk_config(void)
{
    return (struct coord_txns_config){ .timeout_ms_max = 900000, .expiration_ms = 604800000, .version = 2, .wait_us = 100000, .bytes_max = 64 << 20,
        .record_bytes_max = 1000000 };
}

static inline void txn_desk_keep(struct txn_desk *desk, const struct coord_txn_out *out)
{
    if (desk->forgetful) {
        return;
    }
    OT_ASSERT(desk->record_count < TXN_DESK_RECORDS);
    struct txn_desk_record *record = &desk->records[desk->record_count++];
    *record = (struct txn_desk_record){ .key = malloc(out->key.bytes), .value = malloc(out->value.bytes + 1), .key_bytes = out->key.bytes,
        .value_bytes = out->value.bytes, .tombstone = out->value.null, .seq = out->seq };
    memcpy(record->key, out->key.data, out->key.bytes);
    if (!out->value.null) {
        memcpy(record->value, out->value.data, out->value.bytes);
    }
}

static inline void txn_desk_keep_mark(struct txn_desk *desk, const struct coord_txn_out *out)
{
    OT_ASSERT(desk->mark_count < TXN_DESK_MARKS);
    struct txn_desk_mark *mark = &desk->marks[(desk->mark_first + desk->mark_count++) % TXN_DESK_MARKS];
    memset(mark, 0, sizeof *mark);
    snprintf(mark->id, sizeof mark->id, "%.*s", (int)out->id.bytes, out->id.data);
    mark->producer_id = out->producer_id;
    mark->producer_epoch = out->producer_epoch;
    mark->version = out->version;
    mark->commit = out->commit;
    for (uint32_t i = 0; i < out->part_count; i++) {
        if (out->parts[i].done) {
            continue;
        }
        OT_ASSERT(mark->place_count < 128);
        snprintf(mark->names[mark->place_count], sizeof mark->names[0], "%s", out->parts[i].topic->name);
        mark->places[mark->place_count] = (struct coord_txn_place){ .topic = ot_str_of(mark->names[mark->place_count]), .partition = out->parts[i].partition };
        mark->place_count++;
    }
}

static inline void txn_desk_drain(struct txn_desk *desk);
/* The oldest markers that came out are written, all with this result. */
static inline bool txn_desk_mark(struct txn_desk *desk, enum ot_err err)
{
    if (desk->mark_count == 0) {
        return false;
    }
    struct txn_desk_mark *mark = &desk->marks[desk->mark_first];
    desk->mark_first = (desk->mark_first + 1) % TXN_DESK_MARKS;
    desk->mark_count--;
    for (uint32_t i = 0; i < mark->place_count; i++) {
        mark->places[i].error = err;
    }
    struct coord_txn_marked marked = { ot_str_of(mark->id), mark->producer_id, mark->producer_epoch, mark->places, mark->place_count };
    coord_txns_marked(desk->txns, &marked, desk->now);
    txn_desk_drain(desk);
    return true;
}

static inline void txn_desk_commit(struct txn_desk *desk)
{
    if (desk->record_count > 0) {
        coord_txns_committed(desk->txns, desk->records[desk->record_count - 1].seq, desk->now);
    }
    txn_desk_drain(desk);
}

static inline void txn_desk_drain(struct txn_desk *desk)
{
    struct coord_txn_out out;
    bool again = false;
    do {
        uint64_t seq = 0;
        struct coord_txn_request *ids[64]; uint32_t id_count = 0;
        while (coord_txns_next(desk->txns, &out)) {
            switch (out.kind) {
            case COORD_TXN_APPEND:
                txn_desk_keep(desk, &out);
                seq = out.seq;
                break;
            case COORD_TXN_MARKERS: txn_desk_keep_mark(desk, &out); break;
            case COORD_TXN_ID:
                OT_ASSERT(id_count < 64);
                ids[id_count++] = out.request;
                break;
            case COORD_TXN_REPLY:
                desk->replies++;
                out.request->seq = UINT64_MAX;     /* answered */
                break;
            case COORD_TXN_EVENT: desk->events[out.event]++; break;
            }
        }
        for (uint32_t i = 0; i < id_count; i++) {
            ids[i]->spare_id = desk->next_producer_id++;
            coord_txns_request(desk->txns, ids[i], desk->now);
        }
        bool commit = seq > 0 && !desk->hold_commit;
        if (commit) {
            coord_txns_committed(desk->txns, seq, desk->now);
        }
        again = id_count > 0 || commit;
    } while (again);
    if (!desk->hold_marks) {
        txn_desk_mark(desk, OT_OK);
    }
}

static inline bool txn_desk_answered(const struct coord_txn_request *request) { return request->seq == UINT64_MAX; }

static inline void txn_desk_pass(struct txn_desk *desk, int64_t ms)
{
    desk->now.now_us += ms * 1000;
    desk->now.wall_ms += ms;
    desk->now.steady_ms += ms;
    while (coord_txns_deadline_us(desk->txns) <= desk->now.now_us) {
        coord_txns_tick(desk->txns, desk->now);
        txn_desk_drain(desk);
    }
}

static inline void txn_desk_start(struct txn_desk *desk, uint32_t records)
{
    enum ot_err err = coord_txns_new(&desk->config, &desk->txns);
    OT_ASSERT(err == OT_OK);
    for (uint32_t i = 0; i < records; i++) {
        const struct txn_desk_record *record = &desk->records[i];
        err = coord_txns_replay(desk->txns, (struct ot_blob){ record->key, record->key_bytes, false },
            (struct ot_blob){ record->tombstone ? NULL : record->value, record->value_bytes, record->tombstone });
        OT_ASSERT(err == OT_OK);
    }
    for (uint32_t i = records; i < desk->record_count; i++) {
        free(desk->records[i].key);
        free(desk->records[i].value);
    }
    for (uint32_t i = 0; i < records; i++) {
        desk->records[i].seq = 0;
    }
    desk->record_count = records;
    desk->mark_count = 0;
    coord_txns_loaded(desk->txns, desk->now);
    txn_desk_drain(desk);
    txn_desk_pass(desk, 0);
}

static inline void txn_desk_stop(struct txn_desk *desk)
{
    struct coord_txn_out out;
    coord_txns_close(desk->txns, OT_ERR_NOT_COORDINATOR);
    while (coord_txns_next(desk->txns, &out)) {
        OT_ASSERT(out.kind == COORD_TXN_REPLY);
        out.request->seq = UINT64_MAX;
    }
    coord_txns_free(desk->txns);
    desk->txns = NULL;
}

static inline void txn_desk_init(struct txn_desk *desk)
{
    memset(desk, 0, sizeof *desk);
    desk->config = txn_desk_config();
    desk->now = (struct coord_txn_time){ 1000000, 1700000000000, 1700000000000 };
    desk->next_producer_id = 1000;
    txn_desk_start(desk, 0);
}

static inline void txn_desk_free(struct txn_desk *desk)
{
    if (desk->txns != NULL) {
        txn_desk_stop(desk);
    }
    for (uint32_t i = 0; i < desk->record_count; i++) {
        free(desk->records[i].key);
        free(desk->records[i].value);
    }
}

static inline void txn_desk_ask(struct txn_desk *desk, struct coord_txn_request *request)
{
    request->seq = 0;
    request->waited = request->fenced = false;
    coord_txns_request(desk->txns, request, desk->now);
    txn_desk_drain(desk);
}

#endif
