/* ElectLeaders: preferred and unclean elections, for named partitions or all of them. Asked for all, only partitions that needed one are told. */
#include "rpc/kafka/request.h"

#include "base/wire/elect_leaders_request.h"
#include "base/wire/elect_leaders_response.h"
#include "base/wire/enums.h"
#include "broker/placement.h"

#include <stdio.h>

typedef struct ot_elect_leaders_response_partition_result partition_row;
typedef struct ot_elect_leaders_response_replica_election_result topic_row;

static bool type_known(int8_t type) { return type == OT_ELECTION_TYPE_PREFERRED || type == OT_ELECTION_TYPE_UNCLEAN; }

static enum ot_err elect(struct rpc_request *request, const struct broker_view *view, struct ot_str topic, int32_t partition, char text[static BROKER_TEXT_MAX])
{
    const struct ot_elect_leaders_request *asked = request->body;
    if (!type_known(asked->election_type)) {
        (void)snprintf(text, BROKER_TEXT_MAX, "Unknown election type %d", asked->election_type);
        return OT_ERR_INVALID_REQUEST;
    }
    return broker_elect(view, asked->election_type == OT_ELECTION_TYPE_UNCLEAN ? BROKER_ELECT_UNCLEAN : BROKER_ELECT_PREFERRED, topic, partition, &request->arena, text);
}

static bool row_fill(struct rpc_request *request, int32_t partition, enum ot_err error, const char *text, partition_row *to)
{
    const char *kept = ot_arena_str(&request->arena, ot_str_of(text));
    *to = (partition_row){ .partition_id = partition, .error_code = ot_err_kafka(error), .error_message = rpc_error_text(error, kept) };
    return kept != NULL;
}

static bool named_topic(struct rpc_request *request, const struct broker_view *view, const struct ot_elect_leaders_request_topic_partitions *asked, topic_row *to)
{
    char text[BROKER_TEXT_MAX];
    *to = (topic_row){ .topic = asked->topic, .partition_result.count = asked->partitions.count };
    to->partition_result.items = rpc_alloc(request, (size_t)asked->partitions.count, sizeof *to->partition_result.items);
    bool enough = to->partition_result.items != NULL || asked->partitions.count == 0;
    for (int32_t i = 0; i < asked->partitions.count && enough; i++) {
        const enum ot_err error = elect(request, view, asked->topic, asked->partitions.items[i], text);
        enough = row_fill(request, asked->partitions.items[i], error, text, &to->partition_result.items[i]);
    }
    return enough;
}

static bool named_fill(struct rpc_request *request, const struct broker_view *view, struct ot_elect_leaders_response *response)
{
    const struct ot_elect_leaders_request *asked = request->body;
    response->replica_election_results.count = OT_MAX(asked->topic_partitions.count, 0);
    response->replica_election_results.items = rpc_alloc(request, (size_t)response->replica_election_results.count, sizeof(topic_row));
    bool enough = response->replica_election_results.items != NULL || response->replica_election_results.count == 0;
    for (int32_t i = 0; i < asked->topic_partitions.count && enough; i++)
        enough = named_topic(request, view, &asked->topic_partitions.items[i], &response->replica_election_results.items[i]);
    return enough;
}

static bool whole_topic(struct rpc_request *request, const struct broker_view *view, const struct broker_view_topic *topic, topic_row *to)
{
    char text[BROKER_TEXT_MAX];
    const char *name = ot_arena_str(&request->arena, topic->name);
    *to = (topic_row){ .topic = ot_str_of(name) };
    for (int pass = 0; pass < 2 && name != NULL; pass++) {     /* count, then fill: mostly there is nothing to tell */
        int32_t count = 0;
        for (int32_t i = 0; i < topic->partition_count; i++) {
            const enum ot_err error = elect(request, view, topic->name, i, text);
            if (error == OT_ERR_ELECTION_NOT_NEEDED) continue;
            if (pass == 1 && !row_fill(request, i, error, text, &to->partition_result.items[count])) return false;
            count++;
        }
        if (pass == 1 || count == 0) return true;
        to->partition_result.count = count;
        if ((to->partition_result.items = rpc_alloc(request, (size_t)count, sizeof *to->partition_result.items)) == NULL) return false;
    }
    return false;
}

static bool all_fill(struct rpc_request *request, const struct broker_view *view, struct ot_elect_leaders_response *response)
{
    struct broker_view_topic topic;
    struct ot_str after = { .null = true };
    const int64_t most = broker_view_topic_count(view);
    topic_row *rows = response->replica_election_results.items = rpc_alloc(request, (size_t)most + 1, sizeof *rows);
    bool enough = rows != NULL;
    for (; enough && response->replica_election_results.count < most && broker_view_next_topic(view, after, &topic); after = topic.name)
        enough = whole_topic(request, view, &topic, &rows[response->replica_election_results.count++]);
    return enough;
}

RPC_HANDLER(elect_leaders)
{
    const struct ot_elect_leaders_request *asked = body;
    struct ot_elect_leaders_response response;
    ot_elect_leaders_response_defaults(&response);
    request->arena.cap_bytes = asked->topic_partitions.count < 0 ? RPC_ANSWER_ARENA_BYTES : RPC_ARENA_MAX_BYTES;
    if (!type_known(asked->election_type)) request->error = OT_ERR_INVALID_REQUEST;
    if (request->header.version >= 1) response.error_code = ot_err_kafka(request->error);
    const struct broker_view *view = broker_view_take(request->server->broker);
    const bool all = asked->topic_partitions.count < 0 && request->error == OT_OK;
    const bool enough = all ? all_fill(request, view, &response) : named_fill(request, view, &response);
    broker_view_give(view);
    if (enough) rpc_respond(request, &response);
    else rpc_reject(request, "no memory for its answer");
}
