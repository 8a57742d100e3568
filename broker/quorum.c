#include "broker/quorum.h"

#include "base/wire/apis.h"
#include "base/wire/describe_quorum_request.h"
#include "base/wire/describe_quorum_response.h"
#include "broker/room.h"
#include <stdlib.h>

#define METADATA_TOPIC "__cluster_metadata"
#define DEADLINE_US 2000000
enum { VERSION = 2 };

typedef struct ot_describe_quorum_response_replica_state state;
typedef struct ot_describe_quorum_response_partition_data partition_data;

struct broker_quorum_asking {
    struct ot_task look_task;
    struct broker_peer_call call;
    struct broker *broker;
    struct broker_quorum *quorum;
    struct ot_describe_quorum_response response;
};

static void done_run(struct ot_task *task)
{
    struct broker_call *call = OT_CONTAINER(task, struct broker_call, task);
    call->done(call);
}

static void end(struct broker_quorum *quorum)
{
    free(quorum->asking);
    quorum->call.task.run = done_run;
    ot_exec_post(quorum->call.home, &quorum->call.task);
}

/* ---- as this broker sees it */

static void row_fill(struct broker *broker, const struct broker_quorum *quorum, struct broker_quorum_row *row)
{
    const int64_t wall_ms = ot_exec_wall_ms(broker->setup.coord_exec), now_us = ot_exec_now_us(broker->setup.coord_exec);
    struct broker_heard heard;
    row->log_end = row->fetched_ms = row->caught_up_ms = -1;
    if (row->id == broker->node_id) {
        row->log_end = quorum->high_watermark;
        if (quorum->leader == row->id) row->fetched_ms = row->caught_up_ms = wall_ms;
    } else if (quorum->leader == broker->node_id && broker_coordinator_progress(broker->coordinator, row->id, &heard)) {
        if (heard.applied_version >= 0) row->log_end = OT_MIN(heard.applied_version + 1, quorum->high_watermark);
        row->fetched_ms = wall_ms - OT_MAX(now_us - heard.at_us, 0) / 1000;
        if (heard.caught_up_us >= 0) row->caught_up_ms = wall_ms - OT_MAX(now_us - heard.caught_up_us, 0) / 1000;
    }
}

static enum ot_err see(struct broker *broker, const struct broker_view *view, struct broker_quorum *quorum)
{
    struct broker_view_broker row;
    struct broker_view_voter voter;
    uint32_t most = 0;
    for (int32_t after = INT32_MIN; broker_view_next_broker(view, after, quorum->arena, &row); after = row.id) most++;
    quorum->rows = ot_arena_array(quorum->arena, (size_t)most + 1, sizeof *quorum->rows);
    if (quorum->rows == NULL) return OT_ERR_NO_MEMORY;
    for (int32_t after = INT32_MIN; quorum->row_count < most && broker_view_next_broker(view, after, quorum->arena, &row); after = row.id) {
        struct broker_quorum_row *to = &quorum->rows[quorum->row_count++];
        *to = (struct broker_quorum_row){ .id = row.id, .votes = broker_view_voter(view, row.id, &voter) };
        row_fill(broker, quorum, to);
    }
    return OT_OK;
}

static void look(struct broker *broker, struct broker_quorum *quorum)
{
    struct broker_view_cluster cluster;
    const struct broker_view *view = broker_view_take(broker);
    broker_view_cluster(view, &cluster);
    quorum->leader = cluster.controller_id;
    quorum->term = cluster.term;
    quorum->high_watermark = cluster.version + 1;
    quorum->row_count = 0;
    quorum->error = see(broker, view, quorum);
    broker_view_give(view);
}

/* ---- as the coordinator sees it */

static void states_take(struct broker_quorum *quorum, const state *states, int32_t count, bool votes)
{
    for (int32_t i = 0; i < count; i++) {
        uint32_t at = quorum->row_count++;
        for (; at > 0 && quorum->rows[at - 1].id > states[i].replica_id; at--) quorum->rows[at] = quorum->rows[at - 1];
        quorum->rows[at] = (struct broker_quorum_row){ states[i].replica_id, votes, states[i].log_end_offset, states[i].last_fetch_timestamp, states[i].last_caught_up_timestamp };
    }
}

/* False: it does not lead any more, or cannot say. */
static bool take(struct broker_quorum *quorum, const struct ot_describe_quorum_response *response)
{
    if (response->error_code != 0 || response->topics.count != 1 || response->topics.items[0].partitions.count != 1) return false;
    const partition_data *part = &response->topics.items[0].partitions.items[0];
    const int32_t voters = OT_MAX(part->current_voters.count, 0), observers = OT_MAX(part->observers.count, 0);
    struct broker_quorum_row *rows = ot_arena_array(quorum->arena, (size_t)voters + (size_t)observers + 1, sizeof *rows);
    if (part->error_code != 0 || part->leader_id != quorum->asking->call.node_id || rows == NULL) return false;
    quorum->leader = part->leader_id;
    quorum->term = part->leader_epoch;
    quorum->high_watermark = part->high_watermark;
    quorum->rows = rows;
    quorum->row_count = 0;
    states_take(quorum, part->current_voters.items, voters, true);
    states_take(quorum, part->observers.items, observers, false);
    return true;
}

static void answered(struct broker_peer_call *call)
{
    struct broker_quorum_asking *asking = OT_CONTAINER(call, struct broker_quorum_asking, call);
    struct broker_quorum *quorum = asking->quorum;
    if (call->error == OT_OK) (void)take(quorum, &asking->response);       /* else what was seen here stands */
    broker_peer_call_end(call);
    end(quorum);
}

static void ask(struct broker_quorum *quorum)
{
    struct ot_describe_quorum_request_partition_data part = { .partition_index = 0 };
    struct ot_describe_quorum_request_topic_data topic = { .topic_name = ot_str_of(METADATA_TOPIC), .partitions = { &part, 1 } };
    struct ot_describe_quorum_request request = { .topics = { &topic, 1 } };
    struct broker_quorum_asking *asking = quorum->asking;
    asking->call = (struct broker_peer_call){ .node_id = quorum->leader, .api = OT_API_DESCRIBE_QUORUM, .version = VERSION, .request = &request, .response = &asking->response,
        .arena = quorum->arena, .deadline_us = ot_exec_now_us(quorum->call.home) + DEADLINE_US, .home = quorum->call.home, .done = answered, .alone = true };
    broker_peer_call(asking->broker, &asking->call);
}

/* on the coordinator's thread */
static void look_run(struct ot_task *task)
{
    struct broker_quorum_asking *asking = OT_CONTAINER(task, struct broker_quorum_asking, look_task);
    struct broker_quorum *quorum = asking->quorum;
    struct broker *broker = asking->broker;
    look(broker, quorum);
    if (quorum->error == OT_OK && !quorum->here && broker->peers != NULL && quorum->leader >= 0 && quorum->leader != broker->node_id) ask(quorum);
    else end(quorum);
}

void broker_quorum(struct broker *broker, struct broker_quorum *quorum)
{
    quorum->error = OT_ERR_NO_MEMORY;
    quorum->row_count = 0;
    quorum->asking = calloc(1, sizeof *quorum->asking);
    if (quorum->asking == NULL) {
        end(quorum);
        return;
    }
    *quorum->asking = (struct broker_quorum_asking){ .broker = broker, .quorum = quorum, .look_task.run = look_run };
    ot_exec_post(broker->setup.coord_exec, &quorum->asking->look_task);
}
