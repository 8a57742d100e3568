/* DescribeTransactions: what the coordinator knows of these transactional ids. */
#include "rpc/kafka/request.h"

#include "base/wire/describe_transactions_request.h"
#include "base/wire/describe_transactions_response.h"

typedef struct ot_describe_transactions_response_transaction_state state_row;
typedef struct ot_describe_transactions_response_topic_data topic_row;

static bool topics_fill(struct rpc_request *request, const struct broker_txn_row *row, state_row *to)
{
    topic_row *topics = rpc_alloc(request, row->place_count, sizeof *topics);
    int32_t *partitions = rpc_alloc(request, row->place_count, sizeof *partitions), count = 0;
    if (row->place_count > 0 && (topics == NULL || partitions == NULL)) return false;
    for (uint32_t i = 0; i < row->place_count; i++) {
        const struct coord_txn_place *place = &row->places[i];
        partitions[i] = place->partition;
        if (count == 0 || !ot_str_equal(topics[count - 1].topic, place->topic)) topics[count++] = (topic_row){ .topic = place->topic, .partitions = { &partitions[i], 0 } };
        topics[count - 1].partitions.count++;
    }
    to->topics.items = topics;
    to->topics.count = count;
    return true;
}

static bool row_fill(struct rpc_request *request, const struct broker_txn_row *row, state_row *to)
{
    *to = (state_row){ .error_code = ot_err_kafka(row->error), .transactional_id = row->id, .transaction_state = ot_str_of("") };
    if (request->error == OT_OK) request->error = row->error;
    if (row->error != OT_OK) return true;
    to->transaction_state = ot_str_of(ot_wire_enum_text(&ot_transaction_state_enum, row->state));
    to->transaction_timeout_ms = row->timeout_ms;
    to->transaction_start_time_ms = row->start_ms;
    to->producer_id = row->producer_id;
    to->producer_epoch = row->producer_epoch;
    return topics_fill(request, row, to);
}

static void describe_transactions_done(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct broker_txn_list *list = &request->call.txn_list;
    struct ot_describe_transactions_response response;
    ot_describe_transactions_response_defaults(&response);
    response.transaction_states.count = (int32_t)list->row_count;
    response.transaction_states.items = rpc_alloc(request, list->row_count, sizeof *response.transaction_states.items);
    bool enough = list->error == OT_OK && (response.transaction_states.items != NULL || list->row_count == 0);
    int32_t count = 0;
    for (const struct broker_txn_row *row = list->rows; row != NULL && enough; row = row->next) enough = row_fill(request, row, &response.transaction_states.items[count++]);
    if (enough) rpc_respond(request, &response);
    else rpc_reject(request, "no memory for its answer");
}

RPC_HANDLER(describe_transactions)
{
    const struct ot_describe_transactions_request *asked = body;
    request->arena.cap_bytes = RPC_ARENA_MAX_BYTES;            /* a transaction has many partitions for the few bytes that ask */
    static const struct ot_str none[1];
    request->call.txn_list = (struct broker_txn_list){ .ids = asked->transactional_ids.count > 0 ? asked->transactional_ids.items : none,
        .id_count = (uint32_t)OT_MAX(asked->transactional_ids.count, 0), .with_places = true, .arena = &request->arena };
    rpc_call_init(request, describe_transactions_done);
    broker_txn_list(request->server->broker, &request->call.txn_list);
}
