/* AlterPartitionReassignments: where the replicas of partitions shall lie; null cancels. Each is answered once the coordinator has it; the moving itself takes its time. */
#include "rpc/kafka/request.h"

#include "base/wire/alter_partition_reassignments_request.h"
#include "base/wire/alter_partition_reassignments_response.h"

typedef struct ot_alter_partition_reassignments_response_reassignable_partition_response partition_row;
typedef struct ot_alter_partition_reassignments_response_reassignable_topic_response topic_row;

static void reassigned(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const struct ot_alter_partition_reassignments_request *asked = request->body;
    const struct broker_move *move = request->call.moves.moves;
    struct ot_alter_partition_reassignments_response response;
    ot_alter_partition_reassignments_response_defaults(&response);
    response.error_message.null = true;
    if (request->header.version >= 1) response.allow_replication_factor_change = asked->allow_replication_factor_change;
    response.responses.count = asked->topics.count;
    response.responses.items = rpc_alloc(request, (size_t)asked->topics.count, sizeof *response.responses.items);
    bool enough = response.responses.items != NULL || asked->topics.count == 0;
    for (int32_t t = 0; t < asked->topics.count && enough; t++) {
        topic_row *to = &response.responses.items[t];
        *to = (topic_row){ .name = asked->topics.items[t].name, .partitions.count = asked->topics.items[t].partitions.count };
        to->partitions.items = rpc_alloc(request, (size_t)to->partitions.count, sizeof *to->partitions.items);
        enough = to->partitions.items != NULL || to->partitions.count == 0;
        for (int32_t i = 0; i < to->partitions.count && enough; i++, move++) {
            const enum ot_err error = move->error == OT_ERR_ELECTION_NOT_NEEDED ? OT_OK : move->error;
            to->partitions.items[i] = (partition_row){ .partition_index = move->partition, .error_code = ot_err_kafka(error), .error_message = rpc_error_text(error, move->text) };
            if (request->error == OT_OK) request->error = error;
        }
    }
    if (enough) rpc_respond(request, &response);
    else rpc_reject(request, "too much in one request");
}

/* Whether something is where it shall be already is the coordinator's to say (ELECTION_NOT_NEEDED): what is seen here may be behind. */
static void move_fill(struct rpc_request *request, const struct broker_view *view, struct ot_str topic,
    const struct ot_alter_partition_reassignments_request_reassignable_partition *one, struct broker_move *move)
{
    const struct ot_alter_partition_reassignments_request *asked = request->body;
    const bool factor_may_change = request->header.version == 0 || asked->allow_replication_factor_change;
    bool same = false;
    *move = (struct broker_move){ .kind = BROKER_MOVE_REASSIGN, .topic = topic, .partition = one->partition_index, .target = one->replicas.count < 0 ? NULL : one->replicas.items,
        .count = OT_MAX(one->replicas.count, 0) };
    move->error = broker_reassign(view, topic, one->partition_index, one->replicas.items, one->replicas.count, factor_may_change, &request->arena, &same, move->text);
}

RPC_HANDLER(alter_partition_reassignments)
{
    const struct ot_alter_partition_reassignments_request *asked = body;
    size_t count = 0;
    request->arena.cap_bytes = RPC_ARENA_MAX_BYTES;
    for (int32_t i = 0; i < asked->topics.count; i++) count += (size_t)asked->topics.items[i].partitions.count;
    struct broker_move *moves = rpc_alloc(request, count + 1, sizeof *moves), *move = moves;
    if (moves == NULL) {
        rpc_reject(request, "too much in one request");
        return;
    }
    const struct broker_view *view = broker_view_take(request->server->broker);
    for (int32_t t = 0; t < asked->topics.count; t++) {
        for (int32_t i = 0; i < asked->topics.items[t].partitions.count; i++) move_fill(request, view, asked->topics.items[t].name, &asked->topics.items[t].partitions.items[i], move++);
    }
    broker_view_give(view);
    request->call.moves = (struct broker_moves){ .moves = moves, .count = (uint32_t)count, .timeout_ms = asked->timeout_ms };
    rpc_call_init(request, reassigned);
    broker_moves(request->server->broker, &request->call.moves);
}
