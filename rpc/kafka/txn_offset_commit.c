/* TxnOffsetCommit: offsets that count when the transaction commits. They are records of the producer in the group's partition of __consumer_offsets, and that
 * partition must be in the transaction: clients of version 2 (v5) add it by asking, older ones have done so by AddOffsetsToTxn, which is verified (KIP-890). Topics
 * are named up to v5, by id from v6 on. */
#include "rpc/kafka/request.h"

#include "base/wire/txn_offset_commit_request.h"
#include "base/wire/txn_offset_commit_response.h"

typedef struct ot_txn_offset_commit_request_txn_offset_commit_request_topic asked_topic;
typedef struct ot_txn_offset_commit_response_txn_offset_commit_response_topic topic_row;
typedef struct ot_txn_offset_commit_response_txn_offset_commit_response_partition partition_row;

enum { VERSION_ABORTABLE = 4, VERSION_ADDS = 5, VERSION_IDS = 6 };

/* parts: NULL when the group was never asked; then whole is told of every partition. */
static void answer(struct rpc_request *request, enum ot_err whole, const struct group_part *parts)
{
    const struct ot_txn_offset_commit_request *asked = request->body;
    struct ot_txn_offset_commit_response response;
    ot_txn_offset_commit_response_defaults(&response);
    request->error = whole;
    response.topics.count = asked->topics.count;
    response.topics.items = rpc_alloc(request, (size_t)asked->topics.count, sizeof *response.topics.items);
    bool enough = response.topics.items != NULL || asked->topics.count == 0;
    for (int32_t i = 0; i < asked->topics.count && enough; i++) {
        const asked_topic *topic = &asked->topics.items[i];
        topic_row *to = &response.topics.items[i];
        *to = (topic_row){ .name = topic->name, .topic_id = topic->topic_id, .partitions.count = topic->partitions.count };
        to->partitions.items = rpc_alloc(request, (size_t)to->partitions.count, sizeof *to->partitions.items);
        enough = to->partitions.items != NULL || to->partitions.count == 0;
        for (int32_t j = 0; j < to->partitions.count && enough; j++) {
            const enum ot_err err = parts != NULL && parts->error != OT_OK ? parts->error : whole;
            to->partitions.items[j] = (partition_row){ .partition_index = topic->partitions.items[j].partition_index, .error_code = ot_err_kafka(err) };
            if (request->error == OT_OK) request->error = err;
            if (parts != NULL) parts++;
        }
    }
    if (enough) rpc_respond(request, &response);
    else rpc_reject(request, "no memory for its answer");
}

static bool parts_fill(struct rpc_request *request, const struct ot_txn_offset_commit_request *asked)
{
    struct group_ask *ask = &request->call.group.ask;
    size_t count = 0;
    for (int32_t i = 0; i < asked->topics.count; i++) count += (size_t)asked->topics.items[i].partitions.count;
    ask->parts = rpc_alloc(request, count, sizeof *ask->parts);
    if (ask->parts == NULL && count > 0) return false;
    const struct broker_view *view = broker_view_take(request->server->broker);
    for (int32_t i = 0; i < asked->topics.count; i++) {
        const asked_topic *topic = &asked->topics.items[i];
        struct ot_str name;
        struct ot_uuid id;
        const enum ot_err err = rpc_group_topic(request, view, request->header.version >= VERSION_IDS, topic->name, &topic->topic_id, &name, &id);
        for (int32_t j = 0; j < topic->partitions.count; j++) {
            const struct ot_txn_offset_commit_request_txn_offset_commit_request_partition *from = &topic->partitions.items[j];
            ask->parts[ask->part_count++] = (struct group_part){ .topic = name, .topic_id = id, .partition = from->partition_index, .error = err,
                .offset = from->committed_offset, .leader_epoch = from->committed_leader_epoch, .metadata = from->committed_metadata };
        }
    }
    broker_view_give(view);
    return true;
}

static void commit_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    broker_txn_guard_end(request->own);
    answer(request, broker_group_error(&request->call.group), request->call.group.ask.parts);
}

static void commit(struct rpc_request *request)
{
    const struct ot_txn_offset_commit_request *asked = request->body;
    if (!rpc_group_begin(request, GROUP_ASK_TXN_OFFSET_COMMIT, asked->group_id, 1, commit_done)) {
        broker_txn_guard_end(request->own);
        return;
    }
    struct group_ask *ask = &request->call.group.ask;
    ask->member_id = asked->member_id;
    ask->instance_id = asked->group_instance_id;
    ask->generation = asked->generation_id_or_member_epoch;
    ask->producer_id = asked->producer_id;
    ask->producer_epoch = asked->producer_epoch;
    request->call.group.guard = request->own;
    if (parts_fill(request, asked)) {
        broker_group(request->server->broker, &request->call.group);
        return;
    }
    broker_txn_guard_end(request->own);
    rpc_reject(request, "too much in one request");
}

/* What the transaction's coordinator said, in words that make the client do the right thing with the group's coordinator. */
static enum ot_err told(const struct rpc_request *request, enum ot_err error)
{
    const int16_t version = request->header.version;
    switch (error) {
    case OT_ERR_PRODUCER_FENCED: return OT_ERR_INVALID_PRODUCER_EPOCH;
    case OT_ERR_TRANSACTION_ABORTABLE: return version >= VERSION_ABORTABLE ? error : OT_ERR_INVALID_TXN_STATE;
    case OT_ERR_CONCURRENT_TRANSACTIONS: return version >= VERSION_ADDS ? error : OT_ERR_COORDINATOR_LOAD_IN_PROGRESS;
    case OT_ERR_NOT_COORDINATOR:
    case OT_ERR_COORDINATOR_NOT_AVAILABLE: return OT_ERR_COORDINATOR_LOAD_IN_PROGRESS;
    default: return error;
    }
}

static void verified(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct coord_txn_request *asked = &request->call.txn.request;
    const enum ot_err err = asked->error == OT_OK && asked->ask == COORD_TXN_VERIFY ? asked->places[0].error : asked->error;
    if (err == OT_OK) {
        commit(request);
        return;
    }
    broker_txn_guard_end(request->own);
    answer(request, told(request, err), NULL);
}

RPC_HANDLER(txn_offset_commit)
{
    const struct ot_txn_offset_commit_request *asked = body;
    struct broker *broker = request->server->broker;
    const bool adds = request->header.version >= VERSION_ADDS;
    struct coord_txn_place *place = rpc_alloc(request, 1, sizeof *place);
    struct broker_txn_guard *guard = request->own = rpc_alloc(request, 1, sizeof *guard);
    if (place == NULL || guard == NULL) {
        rpc_reject(request, "no memory for its answer");
        return;
    }
    rpc_offsets_place(request, asked->group_id, place);
    if (asked->group_id.bytes == 0 || place->partition < 0) {
        answer(request, asked->group_id.bytes == 0 ? OT_ERR_INVALID_GROUP_ID : OT_ERR_COORDINATOR_NOT_AVAILABLE, NULL);
        return;
    }
    const bool wanted = adds || broker_config(broker)->transaction_partition_verification_enable;
    if (broker_txn_guard(broker, place, asked->producer_id, asked->producer_epoch, guard) || !wanted) {
        commit(request);
        return;
    }
    struct coord_txn_request *ask = rpc_txn_init(request, adds ? COORD_TXN_ADD : COORD_TXN_VERIFY, asked->transactional_id, verified);
    ask->producer_id = asked->producer_id;
    ask->producer_epoch = asked->producer_epoch;
    ask->version = adds ? 2 : 0;
    ask->places = place;
    ask->place_count = 1;
    request->call.txn.anywhere = true;
    broker_txn(broker, &request->call.txn);
}
