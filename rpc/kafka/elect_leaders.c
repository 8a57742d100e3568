/* ElectLeaders: preferred and unclean elections, for named partitions or all of them. Asked for all, only partitions that needed one are told. */
#include "rpc/kafka/request.h"

#include "base/wire/elect_leaders_request.h"
#include "base/wire/elect_leaders_response.h"
#include "base/wire/enums.h"

#include <stdio.h>

typedef struct ot_elect_leaders_response_partition_result partition_row;
typedef struct ot_elect_leaders_response_replica_election_result topic_row;

struct own { uint32_t topic_count; struct { struct ot_str name; uint32_t moves; } *topics; };     /* of the answer, in order, and how many of the moves are theirs */

static bool type_known(int8_t type) { return type == OT_ELECTION_TYPE_PREFERRED || type == OT_ELECTION_TYPE_UNCLEAN; }

/* ---- the answer */

static bool topic_fill(struct rpc_request *request, const struct broker_move *moves, uint32_t count, struct ot_str name, topic_row *to)
{
    const struct ot_elect_leaders_request *asked = request->body;
    const bool all = asked->topic_partitions.count < 0;
    partition_row *rows = rpc_alloc(request, (size_t)count + 1, sizeof *rows);
    *to = (topic_row){ .topic = name, .partition_result.items = rows };
    for (uint32_t i = 0; rows != NULL && i < count; i++) {
        const struct broker_move *move = &moves[i];
        if (all && move->error == OT_ERR_ELECTION_NOT_NEEDED) continue;
        rows[to->partition_result.count++] = (partition_row){ .partition_id = move->partition, .error_code = ot_err_kafka(move->error),
            .error_message = rpc_error_text(move->error, move->text) };
        if (request->error == OT_OK) request->error = move->error;
    }
    return rows != NULL;
}

static void respond(struct rpc_request *request, enum ot_err error)
{
    const struct own *own = request->own;
    const struct broker_move *moves = request->call.moves.moves;
    struct ot_elect_leaders_response response;
    ot_elect_leaders_response_defaults(&response);
    if (request->header.version >= 1) response.error_code = ot_err_kafka(error);
    response.replica_election_results.count = (int32_t)own->topic_count;
    response.replica_election_results.items = rpc_alloc(request, (size_t)own->topic_count + 1, sizeof(topic_row));
    bool enough = response.replica_election_results.items != NULL;
    for (uint32_t i = 0; i < own->topic_count && enough; i++) {
        enough = topic_fill(request, moves, own->topics[i].moves, own->topics[i].name, &response.replica_election_results.items[i]);
        moves += own->topics[i].moves;
    }
    if (error != OT_OK) request->error = error;
    if (enough) rpc_respond(request, &response);
    else rpc_reject(request, "no memory for its answer");
}

static void elected(struct broker_call *call) { respond(rpc_request_of(call), OT_OK); }

/* ---- what is asked */

static void move_fill(struct rpc_request *request, const struct broker_view *view, struct ot_str topic, int32_t partition, struct broker_move *move)
{
    const struct ot_elect_leaders_request *asked = request->body;
    const bool unclean = asked->election_type == OT_ELECTION_TYPE_UNCLEAN;
    *move = (struct broker_move){ .kind = unclean ? BROKER_MOVE_ELECT_UNCLEAN : BROKER_MOVE_ELECT_PREFERRED, .topic = topic, .partition = partition };
    if (type_known(asked->election_type)) {
        const enum broker_election election = unclean ? BROKER_ELECT_UNCLEAN : BROKER_ELECT_PREFERRED;
        move->error = asked->topic_partitions.count < 0 ? broker_elect(view, election, topic, partition, &request->arena, move->text)
            : broker_elect_named(view, election, topic, partition, &request->arena, move->text);
    } else {
        move->error = OT_ERR_INVALID_REQUEST;
        (void)snprintf(move->text, sizeof move->text, "Unknown election type %d", asked->election_type);
    }
}

static bool named_fill(struct rpc_request *request, const struct broker_view *view)
{
    const struct ot_elect_leaders_request *asked = request->body;
    const int32_t topics = OT_MAX(asked->topic_partitions.count, 0);
    struct own *own = request->own;
    struct broker_moves *moves = &request->call.moves;
    size_t count = 0;
    for (int32_t t = 0; t < topics; t++) count += (size_t)asked->topic_partitions.items[t].partitions.count;
    own->topics = rpc_alloc(request, (size_t)topics + 1, sizeof *own->topics);
    moves->moves = rpc_alloc(request, count + 1, sizeof *moves->moves);
    if (own->topics == NULL || moves->moves == NULL) return false;
    own->topic_count = (uint32_t)topics;
    for (int32_t t = 0; t < topics; t++) {
        const struct ot_elect_leaders_request_topic_partitions *topic = &asked->topic_partitions.items[t];
        own->topics[t].name = topic->topic;
        own->topics[t].moves = (uint32_t)topic->partitions.count;
        for (int32_t i = 0; i < topic->partitions.count; i++) move_fill(request, view, topic->topic, topic->partitions.items[i], &moves->moves[moves->count++]);
    }
    return true;
}

/* Mostly there is nothing to do: those that need none take no room. */
static bool all_fill(struct rpc_request *request, const struct broker_view *view)
{
    struct own *own = request->own;
    struct broker_moves *moves = &request->call.moves;
    struct broker_view_topic topic;
    struct broker_move move;
    const size_t most = (size_t)broker_view_topic_count(view);
    size_t cap = 0;
    own->topics = rpc_alloc(request, most + 1, sizeof *own->topics);
    for (struct ot_str after = { .null = true }; own->topics != NULL && own->topic_count < most && broker_view_next_topic(view, after, &topic); after = topic.name) {
        const char *name = ot_arena_str(&request->arena, topic.name);
        if (name == NULL) return false;
        own->topics[own->topic_count].name = ot_str_of(name);
        own->topics[own->topic_count].moves = 0;
        for (int32_t i = 0; i < topic.partition_count; i++) {
            move_fill(request, view, ot_str_of(name), i, &move);
            if (move.error == OT_ERR_ELECTION_NOT_NEEDED) continue;
            if (moves->count == cap) {
                cap = OT_MAX(2 * cap, (size_t)16);
                struct broker_move *wider = rpc_alloc(request, cap, sizeof *wider);
                if (wider == NULL) return false;
                for (uint32_t k = 0; k < moves->count; k++) wider[k] = moves->moves[k];
                moves->moves = wider;
            }
            moves->moves[moves->count++] = move;
            own->topics[own->topic_count].moves++;
        }
        own->topic_count++;
    }
    return own->topics != NULL;
}

static void begin(struct rpc_request *request)
{
    const struct ot_elect_leaders_request *asked = request->body;
    const bool known = type_known(asked->election_type), all = asked->topic_partitions.count < 0 && known;
    request->call.moves = (struct broker_moves){ .timeout_ms = asked->timeout_ms };
    const struct broker_view *view = broker_view_take(request->server->broker);
    const bool enough = all ? all_fill(request, view) : named_fill(request, view);
    broker_view_give(view);
    if (!enough) {
        rpc_reject(request, "no memory for its answer");
    } else if (!known) {
        respond(request, OT_ERR_INVALID_REQUEST);
    } else {
        rpc_call_init(request, elected);
        broker_moves(request->server->broker, &request->call.moves);
    }
}

static void up_to_date(struct broker_call *call)
{
    struct rpc_request *request = rpc_request_of(call);
    const enum ot_err error = request->call.control.error;
    request->call.moves = (struct broker_moves){ 0 };
    if (error != OT_OK && request->header.version >= 1) respond(request, error);
    else begin(request);                       /* version 0 has no room for the error: those that are seen from here */
}

/* Of all partitions those that need one are looked for here, and not at the coordinator as with Kafka: so first this broker hears of all that was decided before it was asked. */
RPC_HANDLER(elect_leaders)
{
    const struct ot_elect_leaders_request *asked = body;
    const bool all = asked->topic_partitions.count < 0;
    request->arena.cap_bytes = all ? RPC_ANSWER_ARENA_BYTES : RPC_ARENA_MAX_BYTES;
    request->own = rpc_alloc(request, 1, sizeof(struct own));
    if (request->own == NULL) {
        rpc_reject(request, "no memory for its answer");
        return;
    }
    *(struct own *)request->own = (struct own){ 0 };
    if (!all || !type_known(asked->election_type)) {
        begin(request);
    } else {
        request->call.control = (struct broker_control){ .kind = BROKER_READ, .timeout_ms = asked->timeout_ms };
        rpc_call_init(request, up_to_date);
        broker_control(request->server->broker, &request->call.control);
    }
}
