/* WriteTxnMarkers: a coordinator elsewhere ends transactions in partitions that this broker leads, or an operator one that hangs (T8). */
#include "rpc/kafka/request.h"

#include "base/wire/write_txn_markers_request.h"
#include "base/wire/write_txn_markers_response.h"

typedef struct ot_write_txn_markers_response_writable_txn_marker_topic_result topic_row;
typedef struct ot_write_txn_markers_response_writable_txn_marker_partition_result partition_row;

static bool marker_fill(struct rpc_request *request, const struct ot_write_txn_markers_request_writable_txn_marker *asked, const struct broker_marker *marker,
    struct ot_write_txn_markers_response_writable_txn_marker_result *to)
{
    const struct coord_txn_place *place = marker->places;
    to->producer_id = marker->producer_id;
    to->topics.count = asked->topics.count;
    to->topics.items = rpc_alloc(request, (size_t)asked->topics.count, sizeof(topic_row));
    if (to->topics.items == NULL && asked->topics.count > 0) return false;
    for (int32_t i = 0; i < asked->topics.count; i++) {
        const int32_t count = asked->topics.items[i].partition_indexes.count;
        partition_row *rows = rpc_alloc(request, (size_t)count, sizeof *rows);
        if (rows == NULL && count > 0) return false;
        to->topics.items[i] = (topic_row){ .name = asked->topics.items[i].name, .partitions = { rows, count } };
        for (int32_t j = 0; j < count; j++, place++) {
            rows[j] = (partition_row){ .partition_index = place->partition, .error_code = ot_err_kafka(place->error) };
            if (request->error == OT_OK) request->error = place->error;
        }
    }
    return true;
}

static void write_txn_markers_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct ot_write_txn_markers_request *asked = request->body;
    const struct broker_markers *written = &request->call.markers;
    struct ot_write_txn_markers_response response;
    ot_write_txn_markers_response_defaults(&response);
    response.markers.count = asked->markers.count;
    response.markers.items = rpc_alloc(request, (size_t)asked->markers.count, sizeof *response.markers.items);
    bool enough = written->error == OT_OK && (response.markers.items != NULL || asked->markers.count == 0);
    for (int32_t i = 0; i < asked->markers.count && enough; i++) enough = marker_fill(request, &asked->markers.items[i], &written->markers[i], &response.markers.items[i]);
    if (enough) rpc_respond(request, &response);
    else rpc_reject(request, "no memory for its answer");
}

static bool marker_take(struct rpc_request *request, const struct ot_write_txn_markers_request_writable_txn_marker *asked, struct broker_marker *to)
{
    size_t count = 0;
    for (int32_t i = 0; i < asked->topics.count; i++) count += (size_t)asked->topics.items[i].partition_indexes.count;
    *to = (struct broker_marker){ .producer_id = asked->producer_id, .producer_epoch = asked->producer_epoch, .coordinator_epoch = asked->coordinator_epoch,
        .version = asked->transaction_version, .commit = asked->transaction_result, .places = rpc_alloc(request, count, sizeof *to->places), .place_count = (uint32_t)count };
    if (to->places == NULL && count > 0) return false;
    struct coord_txn_place *place = to->places;
    for (int32_t i = 0; i < asked->topics.count; i++) {
        for (int32_t j = 0; j < asked->topics.items[i].partition_indexes.count; j++)
            *place++ = (struct coord_txn_place){ .topic = asked->topics.items[i].name, .partition = asked->topics.items[i].partition_indexes.items[j] };
    }
    return true;
}

RPC_HANDLER(write_txn_markers)
{
    const struct ot_write_txn_markers_request *asked = body;
    struct broker_marker *markers = rpc_alloc(request, (size_t)asked->markers.count, sizeof *markers);
    bool enough = markers != NULL || asked->markers.count == 0;
    for (int32_t i = 0; i < asked->markers.count && enough; i++) enough = marker_take(request, &asked->markers.items[i], &markers[i]);
    if (!enough) {
        rpc_reject(request, "too many partitions in one request");
        return;
    }
    request->call.markers = (struct broker_markers){ .markers = markers, .marker_count = (uint32_t)asked->markers.count };
    rpc_call_init(request, write_txn_markers_done);
    broker_markers(request->server->broker, &request->call.markers);
}
