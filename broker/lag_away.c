/* Lag of partitions that other brokers lead: each of them is asked once for all of its. */
#include "broker/lag.h"

#include "base/wire/apis.h"
#include "base/wire/peer_lag_request.h"
#include "base/wire/peer_lag_response.h"
#include "broker/room.h"
#include <stdlib.h>

#define ARENA_BYTES (16u << 20)
#define DEADLINE_US 2000000
#define PARTS_MAX 20000u                       /* of one ask */

struct asking {
    struct broker_peer_call call;
    struct broker_lag *lag;
    uint32_t *parts, part_count;               /* of the lag's, by index */
    struct ot_arena arena;
    struct ot_peer_lag_response response;
};

static void take(struct broker_lag_part *part, const struct ot_peer_lag_response_part *from)
{
    part->error = (enum ot_err)from->error_code;
    part->log_start_offset = from->log_start_offset;
    part->high_watermark = from->high_watermark;
    part->last_stable_offset = from->last_stable_offset;
    part->all = (struct broker_lag_count){ from->all_records, from->all_ms, from->all_exact };
    part->committed = (struct broker_lag_count){ from->committed_records, from->committed_ms, from->committed_exact };
}

static void answered(struct broker_peer_call *call)
{
    struct asking *asking = OT_CONTAINER(call, struct asking, call);
    struct broker_lag *lag = asking->lag;
    const bool good = call->error == OT_OK && asking->response.parts.count == (int32_t)asking->part_count;
    for (uint32_t i = 0; good && i < asking->part_count; i++) take(&lag->parts[asking->parts[i]], &asking->response.parts.items[i]);
    broker_peer_call_end(call);
    ot_arena_free(&asking->arena);
    free(asking);
    broker_lag_settle(lag);
}

/* In the order of parts: neighbours of one topic together. */
static bool fill(struct asking *asking, struct ot_peer_lag_request *out)
{
    struct ot_peer_lag_request_topic *topics = ot_arena_array(&asking->arena, asking->part_count, sizeof *topics), *topic = NULL;
    struct ot_peer_lag_request_partition *parts = ot_arena_array(&asking->arena, asking->part_count, sizeof *parts);
    if (topics == NULL || parts == NULL) return false;
    ot_peer_lag_request_defaults(out);
    out->topics.items = topics;
    for (uint32_t i = 0; i < asking->part_count; i++) {
        const struct broker_lag_part *part = &asking->lag->parts[asking->parts[i]];
        if (topic == NULL || !ot_str_equal(topic->name, part->topic)) {
            topic = &topics[out->topics.count++];
            ot_peer_lag_request_topic_defaults(topic);
            topic->name = part->topic;
            topic->partitions.items = &parts[i];
        }
        ot_peer_lag_request_partition_defaults(&parts[i]);
        parts[i].index = part->partition;
        parts[i].offset = part->offset;
        topic->partitions.count++;
    }
    return true;
}

/* All parts of this leader from the first one on. */
static void ask(struct broker *broker, struct broker_lag *lag, int32_t leader, uint32_t first)
{
    struct asking *asking = calloc(1, sizeof *asking);
    struct ot_peer_lag_request request;
    if (asking == NULL) return;                /* what is not known is told so */
    asking->lag = lag;
    ot_arena_init(&asking->arena, ARENA_BYTES);
    asking->parts = ot_arena_array(&asking->arena, OT_MIN(lag->part_count - first, PARTS_MAX), sizeof *asking->parts);
    for (uint32_t i = first; asking->parts != NULL && i < lag->part_count && asking->part_count < PARTS_MAX; i++)
        if (lag->parts[i].away == leader && !lag->parts[i].asked) asking->parts[asking->part_count++] = i;
    if (asking->parts == NULL || !fill(asking, &request)) {
        ot_arena_free(&asking->arena);
        free(asking);
        return;
    }
    asking->call = (struct broker_peer_call){ .node_id = leader, .api = OT_API_PEER_LAG, .request = &request, .response = &asking->response, .arena = &asking->arena,
        .deadline_us = ot_exec_now_us(lag->call.home) + DEADLINE_US, .home = lag->call.home, .done = answered };
    for (uint32_t i = 0; i < asking->part_count; i++) lag->parts[asking->parts[i]].asked = true;
    lag->open++;
    broker_peer_call(broker, &asking->call);
}

void broker_lag_away(struct broker *broker, struct broker_lag *lag)
{
    if (broker->peers == NULL) return;
    const struct broker_view *view = broker_view_take(broker);
    for (uint32_t i = 0; i < lag->part_count; i++) {
        struct broker_lag_part *part = &lag->parts[i];
        int32_t leader;
        part->asked = false;
        if (!broker_view_leader(view, part->topic, part->partition, &leader) || leader < 0 || leader == broker->node_id) continue;
        part->away = leader;
        part->error = OT_ERR_NOT_LEADER_OR_FOLLOWER;           /* until it answered */
        part->log_start_offset = part->high_watermark = part->last_stable_offset = -1;
        part->all = part->committed = (struct broker_lag_count){ -1, -1, false };
    }
    broker_view_give(view);
    for (uint32_t i = 0; i < lag->part_count; i++)
        if (lag->parts[i].away >= 0 && !lag->parts[i].asked) ask(broker, lag, lag->parts[i].away, i);
}
