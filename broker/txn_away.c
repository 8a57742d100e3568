/* Transactions whose coordinator, or whose partitions, are at another broker: Kafka's AddPartitionsToTxn to the coordinator before the first batch of a transaction is appended
 * here, and WriteTxnMarkers to those who lead its partitions when it ends. */
#include "broker/txn_away.h"

#include "base/wire/add_partitions_to_txn_request.h"
#include "base/wire/add_partitions_to_txn_response.h"
#include "base/wire/apis.h"
#include "base/wire/write_txn_markers_request.h"
#include "base/wire/write_txn_markers_response.h"
#include <stdlib.h>

enum { VERSION_ADD = 5, VERSION_MARKERS = 2 };
#define ARENA_BYTES (8u << 20)
#define DEADLINE_US 10000000

/* What is said of a place when its broker did not answer: asked again later. */
static enum ot_err silence(enum ot_err err, enum ot_err otherwise) { return err == OT_ERR_NO_MEMORY ? err : otherwise; }

/* ---- the coordinator is asked */

struct asking {
    struct broker_peer_call call;
    struct broker_txn *txn;
    struct ot_arena arena;
    struct ot_add_partitions_to_txn_response response;
};

/* Answers come in the order asked. */
static enum ot_err results_take(struct asking *asking)
{
    struct coord_txn_request *request = &asking->txn->request;
    const struct ot_add_partitions_to_txn_response *response = &asking->response;
    uint32_t at = 0;
    if (response->error_code != 0) return (enum ot_err)response->error_code;
    if (response->results_by_transaction.count != 1) return OT_ERR_COORDINATOR_NOT_AVAILABLE;
    for (int32_t t = 0; t < response->results_by_transaction.items[0].topic_results.count; t++) {
        const struct ot_add_partitions_to_txn_response_add_partitions_to_txn_topic_result *topic = &response->results_by_transaction.items[0].topic_results.items[t];
        for (int32_t p = 0; p < topic->results_by_partition.count && at < request->place_count; p++, at++) {
            struct coord_txn_place *place = &request->places[at];
            place->error = (enum ot_err)topic->results_by_partition.items[p].partition_error_code;
            if (topic->results_by_partition.items[p].partition_index != place->partition) return OT_ERR_COORDINATOR_NOT_AVAILABLE;
        }
    }
    return at == request->place_count ? OT_OK : OT_ERR_COORDINATOR_NOT_AVAILABLE;
}

static void asked(struct broker_peer_call *call)
{
    struct asking *asking = OT_CONTAINER(call, struct asking, call);
    struct broker_txn *txn = asking->txn;
    struct coord_txn_request *request = &txn->request;
    request->error = call->error == OT_OK ? results_take(asking) : silence(call->error, OT_ERR_COORDINATOR_NOT_AVAILABLE);
    for (uint32_t i = 0; i < request->place_count && request->error == OT_OK && request->ask == COORD_TXN_ADD; i++) request->error = request->places[i].error;
    broker_peer_call_end(call);
    ot_arena_free(&asking->arena);
    free(asking);
    txn->call.done(&txn->call);
}

static bool asking_fill(struct asking *asking, struct ot_add_partitions_to_txn_request *out)
{
    const struct coord_txn_request *request = &asking->txn->request;
    struct ot_add_partitions_to_txn_request_add_partitions_to_txn_transaction *one = ot_arena_array(&asking->arena, 1, sizeof *one);
    struct ot_add_partitions_to_txn_request_add_partitions_to_txn_topic *topics = ot_arena_array(&asking->arena, request->place_count, sizeof *topics), *topic = NULL;
    int32_t *indexes = ot_arena_array(&asking->arena, request->place_count, sizeof *indexes);
    if (one == NULL || topics == NULL || indexes == NULL) return false;
    ot_add_partitions_to_txn_request_defaults(out);
    ot_add_partitions_to_txn_request_add_partitions_to_txn_transaction_defaults(one);
    one->transactional_id = request->id;
    one->producer_id = request->producer_id;
    one->producer_epoch = request->producer_epoch;
    one->verify_only = request->ask == COORD_TXN_VERIFY;
    one->topics.items = topics;
    for (uint32_t i = 0; i < request->place_count; i++) {      /* places of one topic that follow each other */
        if (topic == NULL || !ot_str_equal(topic->name, request->places[i].topic)) {
            topic = &topics[one->topics.count++];
            ot_add_partitions_to_txn_request_add_partitions_to_txn_topic_defaults(topic);
            topic->name = request->places[i].topic;
            topic->partitions.items = &indexes[i];
        }
        topic->partitions.items[topic->partitions.count++] = request->places[i].partition;
    }
    out->transactions.items = one;
    out->transactions.count = 1;
    return true;
}

bool broker_txn_away(struct broker *broker, struct broker_txn *txn, int32_t leader)
{
    struct asking *asking = calloc(1, sizeof *asking);
    struct ot_add_partitions_to_txn_request request;
    if (asking == NULL) return false;
    asking->txn = txn;
    ot_arena_init(&asking->arena, ARENA_BYTES);
    if (!asking_fill(asking, &request)) {
        ot_arena_free(&asking->arena);
        free(asking);
        return false;
    }
    asking->call = (struct broker_peer_call){ .node_id = leader, .api = OT_API_ADD_PARTITIONS_TO_TXN, .version = VERSION_ADD, .request = &request, .response = &asking->response,
        .arena = &asking->arena, .deadline_us = ot_exec_now_us(txn->call.home) + DEADLINE_US, .home = txn->call.home, .done = asked };
    broker_peer_call(broker, &asking->call);
    return true;
}

/* ---- markers are sent */

struct broker_markers_away {
    struct broker_peer_call call;
    struct broker_markers *of;
    struct broker_marker *marker;
    void (*done)(struct broker_markers *markers);
    uint32_t *places; uint32_t place_count;    /* of the marker's, by index */
    struct ot_arena arena;
    struct ot_write_txn_markers_response response;
};

static void marks_take(struct broker_markers_away *away)
{
    uint32_t at = 0;
    if (away->response.markers.count != 1) return;
    for (int32_t t = 0; t < away->response.markers.items[0].topics.count; t++) {
        const struct ot_write_txn_markers_response_writable_txn_marker_topic_result *topic = &away->response.markers.items[0].topics.items[t];
        for (int32_t p = 0; p < topic->partitions.count && at < away->place_count; p++, at++) {
            struct coord_txn_place *place = &away->marker->places[away->places[at]];
            if (topic->partitions.items[p].partition_index != place->partition) return;
            place->error = (enum ot_err)topic->partitions.items[p].error_code;
        }
    }
}

static void marked(struct broker_peer_call *call)
{
    struct broker_markers_away *away = OT_CONTAINER(call, struct broker_markers_away, call);
    struct broker_markers *markers = away->of;
    void (*done)(struct broker_markers *markers) = away->done;
    for (uint32_t i = 0; i < away->place_count; i++) away->marker->places[away->places[i]].error = silence(call->error, OT_ERR_NOT_LEADER_OR_FOLLOWER);
    if (call->error == OT_OK) marks_take(away);
    broker_peer_call_end(call);
    ot_arena_free(&away->arena);
    free(away);
    done(markers);
}

/* Those places of the marker that this broker leads, as leaders says. */
static bool away_fill(struct broker_markers_away *away, const int32_t *leaders, int32_t leader, struct ot_write_txn_markers_request *out)
{
    const struct broker_marker *marker = away->marker;
    struct ot_write_txn_markers_request_writable_txn_marker *one = ot_arena_array(&away->arena, 1, sizeof *one);
    struct ot_write_txn_markers_request_writable_txn_marker_topic *topics = ot_arena_array(&away->arena, marker->place_count, sizeof *topics), *topic = NULL;
    int32_t *indexes = ot_arena_array(&away->arena, marker->place_count, sizeof *indexes);
    away->places = ot_arena_array(&away->arena, marker->place_count, sizeof *away->places);
    if (one == NULL || topics == NULL || indexes == NULL || away->places == NULL) return false;
    ot_write_txn_markers_request_defaults(out);
    ot_write_txn_markers_request_writable_txn_marker_defaults(one);
    one->producer_id = marker->producer_id;
    one->producer_epoch = marker->producer_epoch;
    one->transaction_result = marker->commit;
    one->coordinator_epoch = marker->coordinator_epoch;
    one->transaction_version = (int8_t)marker->version;
    one->topics.items = topics;
    for (uint32_t i = 0; i < marker->place_count; i++) {
        if (leaders[i] != leader) continue;
        if (topic == NULL || !ot_str_equal(topic->name, marker->places[i].topic)) {
            topic = &topics[one->topics.count++];
            ot_write_txn_markers_request_writable_txn_marker_topic_defaults(topic);
            topic->name = marker->places[i].topic;
            topic->partition_indexes.items = &indexes[away->place_count];
        }
        topic->partition_indexes.items[topic->partition_indexes.count++] = marker->places[i].partition;
        away->places[away->place_count++] = i;
    }
    out->markers.items = one;
    out->markers.count = 1;
    return true;
}

bool broker_markers_away(struct broker_markers *markers, struct broker_marker *marker, const int32_t *leaders, int32_t leader, void (*done)(struct broker_markers *markers))
{
    struct broker_markers_away *away = calloc(1, sizeof *away);
    struct ot_write_txn_markers_request request;
    if (away == NULL) return false;
    away->of = markers;
    away->marker = marker;
    away->done = done;
    ot_arena_init(&away->arena, ARENA_BYTES);
    if (!away_fill(away, leaders, leader, &request)) {
        ot_arena_free(&away->arena);
        free(away);
        return false;
    }
    away->call = (struct broker_peer_call){ .node_id = leader, .api = OT_API_WRITE_TXN_MARKERS, .version = VERSION_MARKERS, .request = &request, .response = &away->response,
        .arena = &away->arena, .deadline_us = ot_exec_now_us(markers->call.home) + DEADLINE_US, .home = markers->call.home, .done = marked };
    broker_peer_call(markers->broker, &away->call);
    return true;
}
