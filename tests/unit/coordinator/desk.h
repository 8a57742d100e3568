/* A driver in memory for tests of the coordinator: it keeps what is stored, stores when it is told to, and can start over from any part of that. */
#ifndef OT_TEST_DESK_H
#define OT_TEST_DESK_H

#include "coordinator/coord.h"
#include "coordinator/peer.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { DESK_RECORDS = 4096 };
struct desk_record { enum coord_record_kind kind; uint8_t *data; size_t bytes; };
struct desk {
    struct coord_pages *pages;
    struct coord *coord;
    uint64_t now_us, seed;
    struct desk_record records[DESK_RECORDS]; uint32_t record_count;   /* journal, durable */
    struct coord_term term;                                    /* meta.term, durable */
    const struct coord_record *writing; uint64_t writing_token; bool writing_sync;     /* handed out, not yet durable */
    uint32_t stores, applies, replies, halts, snapshots;
    uint64_t snapshot_token;
    struct coord_stamp applied; uint64_t applied_hash;
    bool leading, auto_store;
    bool has_peers; uint32_t sends, sent[COORD_MESSAGE_KINDS];  /* else it says nothing to anybody */
    struct coord_message last_sent;                            /* its scalars alone: texts and bytes are gone */
    void (*on_send)(void *arg, struct desk *desk, const struct coord_out *out); void *on_send_arg;     /* NULL: nobody hears what is sent */
    int32_t node_id; uint32_t voter_count;                     /* of a list 1, 2, 3; 0: alone, it is node 1 */
    enum ot_err fail_next;                                     /* the next STORE fails with this */
    uint32_t partitions_max, delta_bytes_max;
    uint64_t session_us;                                       /* 0: sessions do not end */
    struct coord_levels levels;                                /* of the build; zero: this one */
    char start_text[200];                                      /* what the last start said */
};

static inline struct coord_config desk_config(const struct desk *desk)
{
    struct coord_config config = { .node_id = OT_MAX(desk->node_id, 1), .dir_id = { { 1, 2, 3 } }, .cluster_id = ot_str_of("desk-cluster"), .voter_host = ot_str_of("127.0.0.1"),
        .voter_port = 9093, .min_isr_default = 1, .partitions_max = desk->partitions_max, .brokers_max = 64, .delta_bytes_max = desk->delta_bytes_max,
        .snapshot_after_bytes = 1 << 20, .voter_count = desk->voter_count, .levels = desk->levels, .session_us = desk->session_us };
    for (uint32_t i = 0; i < desk->voter_count; i++) {
        config.voters[i] = (struct coord_listed_voter){ (int32_t)i + 1, ot_str_of("127.0.0.1"), 9093 + (int32_t)i };
    }
    return config;
}

static inline void desk_keep(struct desk *desk, const struct coord_record *record)
{
    if (record->kind == COORD_RECORD_TERM) {
        desk->term = record->u.term;
        return;
    }
    assert_true(desk->record_count < DESK_RECORDS);
    struct desk_record *kept = &desk->records[desk->record_count++];
    size_t cap = COORD_RECORD_OVERHEAD_MAX + (record->kind == COORD_RECORD_ACCEPT ? record->u.accept.delta.bytes : 0);
    kept->kind = record->kind;
    kept->data = malloc(cap);
    assert_int_equal(coord_record_encode(record, kept->data, cap, &kept->bytes), OT_OK);
}

static inline void desk_drain(struct desk *desk);

static inline void desk_in(struct desk *desk, struct coord_in in)
{
    in.now_us = desk->now_us;
    coord_step(desk->coord, &in);
    desk_drain(desk);
}

/* What was handed out is on the disk now. */
static inline bool desk_store(struct desk *desk)
{
    if (desk->writing == NULL) {
        return false;
    }
    uint64_t token = desk->writing_token;
    enum ot_err err = desk->fail_next;
    desk->fail_next = OT_OK;
    if (err == OT_OK) {
        desk_keep(desk, desk->writing);
    }
    desk->writing = NULL;
    desk_in(desk, (struct coord_in){ .kind = err == OT_OK ? COORD_STORED : COORD_STORE_FAILED, .token = token, .error = err });
    return true;
}

static inline void desk_out(struct desk *desk, const struct coord_out *out)
{
    switch (out->kind) {
    case COORD_STORE:
        desk->stores++;
        if (!out->sync) {
            desk_keep(desk, out->record);
            break;
        }
        assert_null(desk->writing);                            /* one at a time */
        desk->writing = out->record;
        desk->writing_token = out->token;
        break;
    case COORD_APPLY:
        assert_null(desk->writing);                            /* applied only when stored */
        assert_true(out->stamp.version > desk->applied.version);
        desk->applies++;
        desk->applied = out->stamp;
        desk->applied_hash = coord_view(desk->coord)->state_hash;
        break;
    case COORD_REPLY:
        desk->replies++;
        assert_true(out->request->error != OT_OK || out->request->validate_only || out->request->version <= desk->applied.version
            || coord_view(desk->coord)->stamp.version == desk->applied.version);     /* applied before it is answered */
        break;
    case COORD_ROLE: desk->leading = out->leading; break;
    case COORD_SNAPSHOT:
        desk->snapshots++;
        desk->snapshot_token = out->token;
        break;
    case COORD_HALT: desk->halts++; break;
    case COORD_SEND:
        assert_true(desk->has_peers);
        desk->sends++;
        assert_int_equal(coord_message_decode(out->body, &desk->last_sent), OT_OK);
        desk->sent[desk->last_sent.kind]++;
        if (desk->on_send != NULL) {
            desk->on_send(desk->on_send_arg, desk, out);
        }
        break;
    }
}

static inline void desk_drain(struct desk *desk)
{
    struct coord_out out;
    while (coord_next(desk->coord, &out)) {
        desk_out(desk, &out);
    }
    if (desk->auto_store) {
        desk_store(desk);
    }
}

__attribute__((unused)) static uint64_t desk_pages_bytes = 64 << 20;
static inline void desk_init(struct desk *desk)
{
    memset(desk, 0, sizeof *desk);
    desk->pages = coord_pages_new(desk_pages_bytes);
    desk->partitions_max = 10000;
    desk->delta_bytes_max = 4 << 20;
    desk->seed = 7;
    desk->term = (struct coord_term){ 0, -1 };
}

/* Start from the first `records` records; the answer of coord_new. */
static inline enum ot_err desk_start(struct desk *desk, uint32_t records)
{
    struct coord_disk_image image;
    struct coord_config config = desk_config(desk);
    char text[200] = "";
    enum ot_err err = OT_OK;
    coord_image_init(&image, desk->pages);
    image.term = desk->term;
    for (uint32_t i = 0; i < records && err == OT_OK; i++) {
        struct coord_record record;
        err = coord_record_decode(desk->records[i].kind, coord_blob(desk->records[i].data, desk->records[i].bytes), &record);
        err = err == OT_OK ? coord_image_take(&image, &record, text, sizeof text) : err;
    }
    desk->writing = NULL;
    desk->applied = (struct coord_stamp){ 0 };
    desk->leading = false;
    if (err == OT_OK) {
        err = coord_new(&config, &image, ++desk->seed, &desk->coord, text, sizeof text);
    }
    snprintf(desk->start_text, sizeof desk->start_text, "%s", text);
    coord_image_free(&image);
    if (err == OT_OK) {
        desk_in(desk, (struct coord_in){ .kind = COORD_TICK });
    }
    return err;
}

static inline void desk_stop(struct desk *desk)
{
    coord_free(desk->coord);
    desk->coord = NULL;
}

static inline void desk_free(struct desk *desk)
{
    desk_stop(desk);
    for (uint32_t i = 0; i < desk->record_count; i++) {
        free(desk->records[i].data);
    }
    desk->record_count = 0;
    assert_int_equal(coord_pages_used_bytes(desk->pages), 0);
    coord_pages_free(desk->pages);
}

static inline void desk_ask(struct desk *desk, struct coord_request *request)
{
    request->if_version = request->if_version == 0 ? -1 : request->if_version;
    desk_in(desk, (struct coord_in){ .kind = COORD_REQUEST, .request = request });
}

/* ---- shorthands for requests, stored at once when auto_store */
static inline struct coord_request desk_create(const char *name, int32_t partitions)
{
    return (struct coord_request){ .ask = COORD_ASK_CREATE_TOPIC, .u.topic = { .name = ot_str_of(name), .partition_count = partitions, .replication_factor = -1 } };
}

static inline enum ot_err desk_register(struct desk *desk, int32_t id, uint8_t incarnation, enum coord_boot boot)
{
    static const struct ot_uuid dirs[1] = { { { 9 } } };
    struct coord_endpoint endpoint = { ot_str_of("PLAINTEXT"), ot_str_of("127.0.0.1"), 9092, ot_str_of("PLAINTEXT") };
    struct coord_request ask = { .ask = COORD_ASK_REGISTER, .u.register_ = { .broker_id = id, .incarnation_id = { { incarnation } }, .dir_ids = dirs, .dir_count = 1,
        .boot_class = boot, .endpoints = &endpoint, .endpoint_count = 1, .rack = { .null = true } } };
    desk_ask(desk, &ask);
    if (ask.error != OT_OK) {
        return ask.error;
    }
    struct coord_request beat = { .ask = COORD_ASK_HEARTBEAT, .u.heartbeat = { .broker_id = id, .broker_epoch = ask.version, .applied_version = ask.version } };
    desk_ask(desk, &beat);
    return beat.error;
}

#endif
