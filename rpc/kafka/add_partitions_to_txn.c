/* AddPartitionsToTxn. Up to v3 one transaction, from clients; from v4 on many, from brokers, each added or only looked for (KIP-890).
 *
 * A transaction with a partition that does not exist gets none added: UNKNOWN_TOPIC_OR_PARTITION for that one, OPERATION_NOT_ATTEMPTED for the others. */
#include "rpc/kafka/request.h"

#include "base/wire/add_partitions_to_txn_request.h"
#include "base/wire/add_partitions_to_txn_response.h"

typedef struct ot_add_partitions_to_txn_request_add_partitions_to_txn_topic_array asked_topics;
typedef struct ot_add_partitions_to_txn_response_add_partitions_to_txn_topic_result_array result_topics;
typedef struct ot_add_partitions_to_txn_response_add_partitions_to_txn_topic_result topic_row;
typedef struct ot_add_partitions_to_txn_response_add_partitions_to_txn_partition_result partition_row;

enum { VERSION_BATCHED = 4, VERSION_ABORTABLE = 5 };

struct own {
    int32_t at;                                /* of the transactions of v4 */
    struct coord_txn_place *places;
    uint32_t place_count;
    struct ot_add_partitions_to_txn_response_add_partitions_to_txn_result *results;
};

static void next(struct rpc_request *request);

static enum ot_err told(const struct rpc_request *request, enum ot_err error)
{
    const int16_t version = request->header.version;
    if (error == OT_ERR_TRANSACTION_ABORTABLE && version < VERSION_ABORTABLE) return OT_ERR_INVALID_TXN_STATE;
    return rpc_fenced_error(request, error, 2);
}

/* The results of one transaction from its places, in the order asked. False: no memory. */
static bool fill(struct rpc_request *request, const asked_topics *asked, result_topics *to)
{
    const struct own *own = request->own;
    const struct coord_txn_place *place = own->places;
    to->count = asked->count;
    to->items = rpc_alloc(request, (size_t)asked->count, sizeof(topic_row));
    if (to->items == NULL && asked->count > 0) return false;
    for (int32_t i = 0; i < asked->count; i++) {
        topic_row *row = &to->items[i];
        *row = (topic_row){ .name = asked->items[i].name, .results_by_partition.count = asked->items[i].partitions.count };
        row->results_by_partition.items = rpc_alloc(request, (size_t)row->results_by_partition.count, sizeof(partition_row));
        if (row->results_by_partition.items == NULL && row->results_by_partition.count > 0) return false;
        for (int32_t j = 0; j < row->results_by_partition.count; j++, place++) {
            const enum ot_err error = told(request, place->error);
            row->results_by_partition.items[j] = (partition_row){ .partition_index = place->partition, .partition_error_code = ot_err_kafka(error) };
            if (request->error == OT_OK) request->error = error;
        }
    }
    return true;
}

static bool exists(const struct broker_view *view, struct ot_str topic, int32_t partition)
{
    struct broker_view_topic row;
    return broker_view_topic(view, topic, &row) && partition >= 0 && partition < row.partition_count;
}

/* True: all of them exist. Else the places say which do not. */
static bool places_fill(struct rpc_request *request, const asked_topics *asked, bool *enough)
{
    struct own *own = request->own;
    size_t count = 0, missing = 0;
    for (int32_t i = 0; i < asked->count; i++) count += (size_t)asked->items[i].partitions.count;
    own->places = rpc_alloc(request, count, sizeof *own->places);
    own->place_count = (uint32_t)count;
    *enough = own->places != NULL || count == 0;
    if (!*enough) return false;
    const struct broker_view *view = broker_view_take(request->server->broker);
    struct coord_txn_place *place = own->places;
    for (int32_t i = 0; i < asked->count; i++) {
        for (int32_t j = 0; j < asked->items[i].partitions.count; j++, place++) {
            *place = (struct coord_txn_place){ .topic = asked->items[i].name, .partition = asked->items[i].partitions.items[j] };
            if (exists(view, place->topic, place->partition)) continue;
            place->error = OT_ERR_UNKNOWN_TOPIC_OR_PARTITION;
            missing++;
        }
    }
    broker_view_give(view);
    for (size_t i = 0; i < count && missing > 0; i++) {
        if (own->places[i].error == OT_OK) own->places[i].error = OT_ERR_OPERATION_NOT_ATTEMPTED;
    }
    return missing == 0;
}

static void places_error(struct own *own, enum ot_err error)
{
    for (uint32_t i = 0; i < own->place_count; i++) own->places[i].error = error;
}

/* One transaction of v4 is through. False: no memory. */
static bool settle(struct rpc_request *request)
{
    const struct ot_add_partitions_to_txn_request *asked = request->body;
    struct own *own = request->own;
    const struct ot_add_partitions_to_txn_request_add_partitions_to_txn_transaction *one = &asked->transactions.items[own->at];
    own->results[own->at].transactional_id = one->transactional_id;
    return fill(request, &one->topics, &own->results[own->at++].topic_results);
}

static void answer_old(struct rpc_request *request)
{
    const struct ot_add_partitions_to_txn_request *asked = request->body;
    struct ot_add_partitions_to_txn_response response;
    ot_add_partitions_to_txn_response_defaults(&response);
    if (fill(request, &asked->v3_and_below_topics, &response.results_by_topic_v3_and_below)) rpc_respond(request, &response);
    else rpc_reject(request, "no memory for its answer");
}

static void add_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct coord_txn_request *added = &request->call.txn.request;
    if (added->ask != COORD_TXN_VERIFY) places_error(request->own, added->error);
    if (request->header.version < VERSION_BATCHED) answer_old(request);
    else if (settle(request)) next(request);
    else rpc_reject(request, "no memory for its answer");
}

enum fate { ANSWERED, ASKED, REJECTED };

static enum fate ask(struct rpc_request *request, struct ot_str id, int64_t producer_id, int16_t producer_epoch, const asked_topics *topics, bool verify)
{
    struct own *own = request->own;
    bool enough;
    const bool all = places_fill(request, topics, &enough);
    if (!enough) {
        rpc_reject(request, "too many partitions in one request");
        return REJECTED;
    }
    if (!all && !verify) return ANSWERED;
    struct coord_txn_request *to = rpc_txn_init(request, verify ? COORD_TXN_VERIFY : COORD_TXN_ADD, id, add_done);
    to->producer_id = producer_id;
    to->producer_epoch = producer_epoch;
    to->version = request->header.version >= VERSION_ABORTABLE ? 2 : 0;
    to->places = own->places;
    to->place_count = own->place_count;
    broker_txn(request->server->broker, &request->call.txn);
    return ASKED;
}

static void next(struct rpc_request *request)
{
    const struct ot_add_partitions_to_txn_request *asked = request->body;
    struct own *own = request->own;
    while (own->at < asked->transactions.count) {
        const struct ot_add_partitions_to_txn_request_add_partitions_to_txn_transaction *one = &asked->transactions.items[own->at];
        if (ask(request, one->transactional_id, one->producer_id, one->producer_epoch, &one->topics, one->verify_only) != ANSWERED) return;
        if (settle(request)) continue;
        rpc_reject(request, "no memory for its answer");
        return;
    }
    struct ot_add_partitions_to_txn_response response;
    ot_add_partitions_to_txn_response_defaults(&response);
    response.results_by_transaction.items = own->results;
    response.results_by_transaction.count = asked->transactions.count;
    rpc_respond(request, &response);
}

RPC_HANDLER(add_partitions_to_txn)
{
    const struct ot_add_partitions_to_txn_request *asked = body;
    const bool batched = request->header.version >= VERSION_BATCHED;
    struct own *own = request->own = rpc_alloc(request, 1, sizeof *own);
    if (own != NULL && batched) own->results = rpc_alloc(request, (size_t)asked->transactions.count, sizeof *own->results);
    if (own == NULL || (batched && own->results == NULL && asked->transactions.count > 0)) {
        rpc_reject(request, "too many transactions in one request");
    } else if (batched) {
        next(request);
    } else {
        if (ask(request, asked->v3_and_below_transactional_id, asked->v3_and_below_producer_id, asked->v3_and_below_producer_epoch, &asked->v3_and_below_topics, false)
            == ANSWERED) answer_old(request);
    }
}
