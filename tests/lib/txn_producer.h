/* Producers at the one desk of a test of the transaction coordinator. */
#ifndef OT_TESTS_TXN_PRODUCER_H
#define OT_TESTS_TXN_PRODUCER_H

#include "testing.h"
#include "txn_desk.h"

static struct txn_desk desk;
static inline int begin(void **state) { (void)state; txn_desk_init(&desk); return 0; }
static inline int end(void **state) { (void)state; txn_desk_free(&desk); return 0; }

struct producer { const char *id; int64_t producer_id; int16_t epoch; };

static inline struct coord_txn_request asking(enum coord_txn_ask ask, const struct producer *producer)
{
    struct coord_txn_request request = coord_txn_request_default(ask, ot_str_of(producer->id));
    request.producer_id = producer->producer_id;
    request.producer_epoch = producer->epoch;
    return request;
}

static inline struct coord_txn_request init_request(const char *id)
{
    struct coord_txn_request request = coord_txn_request_default(COORD_TXN_INIT, ot_str_of(id));
    request.timeout_ms = 60000;
    return request;
}

static inline enum ot_err init(struct producer *producer)
{
    struct coord_txn_request request = init_request(producer->id);
    txn_desk_ask(&desk, &request);
    if (!txn_desk_answered(&request)) return OT_ERR_BUSY;
    producer->producer_id = request.producer_id_out;
    producer->epoch = request.producer_epoch_out;
    return request.error;
}

static inline struct coord_txn_place place_of(const char *topic, int32_t partition) { return (struct coord_txn_place){ .topic = ot_str_of(topic), .partition = partition }; }

static inline enum ot_err add(const struct producer *producer, const char *topic, int32_t partition, int16_t version)
{
    struct coord_txn_place place = place_of(topic, partition);
    struct coord_txn_request request = asking(COORD_TXN_ADD, producer);
    request.places = &place;
    request.place_count = 1;
    request.version = version;
    txn_desk_ask(&desk, &request);
    if (!txn_desk_answered(&request)) txn_desk_pass(&desk, 101);
    return txn_desk_answered(&request) ? request.error : OT_ERR_BUSY;
}

static inline enum ot_err verify(const struct producer *producer, const char *topic, int32_t partition)
{
    struct coord_txn_place place = place_of(topic, partition);
    struct coord_txn_request request = asking(COORD_TXN_VERIFY, producer);
    request.places = &place;
    request.place_count = 1;
    txn_desk_ask(&desk, &request);
    return txn_desk_answered(&request) ? place.error : OT_ERR_BUSY;
}

static inline enum ot_err finish(struct producer *producer, bool commit, int16_t version)
{
    struct coord_txn_request request = asking(COORD_TXN_END, producer);
    request.commit = commit;
    request.version = version;
    txn_desk_ask(&desk, &request);
    if (!txn_desk_answered(&request)) txn_desk_pass(&desk, 101);
    if (!txn_desk_answered(&request)) return OT_ERR_BUSY;
    if (request.error == OT_OK && version >= 2) {
        producer->producer_id = request.producer_id_out;
        producer->epoch = request.producer_epoch_out;
    }
    return request.error;
}

static inline struct coord_txn_view look(const char *id)
{
    struct coord_txn_view view;
    assert_true(coord_txns_find(desk.txns, ot_str_of(id), &view));
    return view;
}
static inline uint32_t open_count(void)
{
    struct coord_txn_counts counts;
    coord_txns_counts(desk.txns, &counts);
    return counts.open;
}
static inline int state_of(const char *id) { return (int)look(id).state; }

static inline enum ot_err go_on(struct producer *producer)
{
    struct coord_txn_request request = init_request(producer->id);
    request.producer_id = producer->producer_id;
    request.producer_epoch = producer->epoch;
    txn_desk_ask(&desk, &request);
    assert_true(txn_desk_answered(&request));
    if (request.error == OT_OK) *producer = (struct producer){ producer->id, request.producer_id_out, request.producer_epoch_out };
    return request.error;
}

#endif
