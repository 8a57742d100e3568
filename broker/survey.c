#include "broker/survey.h"

#include "base/util.h"
#include "base/wire/apis.h"
#include "broker/room.h"
#include <string.h>

enum { ASKED_MAX = 1024 /* brokers */ };
#define ARENA_BYTES (16u << 20)
#define ANSWER_ARENA_BYTES (1u << 20)

struct broker_survey_asked {                   /* one broker */
    struct broker_peer_call call;
    struct broker_survey *survey;
    int32_t broker_id;
    int64_t broker_epoch;                      /* by the rows, when it was asked */
    bool may_lead;
    uint32_t *parts; uint32_t part_count;      /* indexes, in the order asked */
    struct ot_peer_log_ends_request request;
    struct ot_peer_log_ends_response response;
    struct ot_arena arena;                     /* of the response */
};

/* ---- the side that is asked */

/* Epoch of the last record. An epoch that its leader began and wrote nothing in has no record; a log that lost all of its own to retention is of the latest that it knows. */
static int32_t last_epoch_of(struct eng_log *log, int64_t log_end)
{
    struct eng_epochs *epochs = eng_log_epochs(log);
    if (eng_log_start_offset(log) >= log_end) return eng_epochs_latest(epochs);
    return eng_epochs_for_offset(epochs, log_end - 1);
}

/* Mutex held. */
static enum broker_log_end_state state_of(struct broker_partition *partition, int32_t partition_epoch)
{
    const struct replica *replica = &partition->replica;
    const int stage = atomic_load(&partition->stage);
    if (stage == BROKER_PARTITION_OFFLINE || stage == BROKER_PARTITION_REMOVED || (partition->log != NULL && eng_log_read_only(partition->log))) return BROKER_LOG_END_OFFLINE;
    if (stage != BROKER_PARTITION_OPEN || partition->lane_closed || partition->lane_busy || partition->follow != NULL || partition->next_role != NULL) return BROKER_LOG_END_LATER;
    if (!replica->applied || replica->role != REPLICA_NONE || replica->row.partition_epoch != partition_epoch) return BROKER_LOG_END_LATER;
    if (replica->flushed_end >= replica->log_end) return BROKER_LOG_END_KNOWN;
    broker_flush_ask(partition);               /* else it would win by what only its memory has, over one that has it on disk */
    return BROKER_LOG_END_LATER;
}

static void answer_one(struct broker *broker, const struct ot_peer_log_ends_request_partition *asked, struct ot_peer_log_ends_response_partition *out)
{
    out->state = BROKER_LOG_END_OFFLINE;
    out->last_epoch = -1;
    struct broker_partition *partition = broker_partition_find_id(broker, &asked->topic_id, asked->partition);
    if (partition == NULL) return;
    pthread_mutex_lock(&partition->mutex);
    out->state = (int8_t)state_of(partition, asked->partition_epoch);
    if (out->state == BROKER_LOG_END_KNOWN) {
        out->log_end = partition->replica.log_end;
        out->last_epoch = last_epoch_of(partition->log, out->log_end);
        out->high_watermark = partition->replica.high_watermark;
        out->flushed_end = partition->replica.flushed_end;
        out->log_start = eng_log_start_offset(partition->log);
        if (broker->core.dir_missing && out->log_end == 0) out->state = BROKER_LOG_END_OFFLINE;     /* what it had may lie in the directory that is not there */
    }
    pthread_mutex_unlock(&partition->mutex);
    broker_partition_put(partition);
}

enum ot_err broker_log_ends(struct broker *broker, const struct ot_peer_log_ends_request *in, struct ot_arena *arena, struct ot_peer_log_ends_response *out)
{
    const bool serving = atomic_load(&broker->stage) == BROKER_SERVING;        /* before, its partitions are not there yet */
    const int32_t count = OT_MIN(in->partitions.count, (int32_t)BROKER_SURVEY_PARTS_MAX);
    ot_peer_log_ends_response_defaults(out);
    out->broker_epoch = atomic_load(&broker->broker_epoch);
    out->partitions.items = ot_arena_array(arena, (size_t)OT_MAX(count, 1), sizeof *out->partitions.items);
    if (out->partitions.items == NULL) return OT_ERR_NO_MEMORY;
    out->partitions.count = count;
    for (int32_t i = 0; i < count; i++) {
        if (serving) answer_one(broker, &in->partitions.items[i], &out->partitions.items[i]);
        else out->partitions.items[i].state = BROKER_LOG_END_LATER;
    }
    return OT_OK;
}

/* ---- the side that asks, on the coordinator's thread */

static void done_run(struct ot_task *task)
{
    struct broker_call *call = OT_CONTAINER(task, struct broker_call, task);
    call->done(call);
}

static void finish(struct broker_survey *survey)
{
    for (uint32_t i = 0; i < survey->asked_count; i++) ot_arena_free(&survey->asked[i].arena);
    ot_arena_free(&survey->arena);
    survey->asked = NULL;
    survey->call.task.run = done_run;
    ot_exec_post(survey->call.home, &survey->call.task);
}

static void take(struct broker_survey_asked *asked)
{
    const struct ot_peer_log_ends_response *response = &asked->response;
    if (response->partitions.count != (int32_t)asked->part_count) return;
    for (uint32_t i = 0; i < asked->part_count; i++) {
        struct broker_survey_part *part = &asked->survey->parts[asked->parts[i]];
        const struct ot_peer_log_ends_response_partition *said = &response->partitions.items[i];
        if (said->state != BROKER_LOG_END_KNOWN || said->log_end < 0 || part->answer_count == COORD_REPLICAS_MAX) continue;
        part->answers[part->answer_count++] = (struct coord_log_end){ .broker_id = asked->broker_id, .broker_epoch = response->broker_epoch,
            .may_lead = asked->may_lead && response->broker_epoch == asked->broker_epoch, .last_epoch = said->last_epoch, .log_end = said->log_end,
            .high_watermark = said->high_watermark, .log_start_offset = said->log_start, .flushed_end = said->flushed_end };
    }
}

static void one_less(struct broker_survey *survey)
{
    if (--survey->open == 0) finish(survey);
}

static void answered(struct broker_peer_call *call)
{
    struct broker_survey_asked *asked = OT_CONTAINER(call, struct broker_survey_asked, call);
    if (call->error == OT_OK) take(asked);
    broker_peer_call_end(call);
    one_less(asked->survey);
}

static struct broker_survey_asked *asked_of(struct broker_survey *survey, int32_t broker_id)
{
    const struct coord_value *value = broker_coordinator_value(survey->broker->coordinator);
    uint8_t room[32768];
    struct ot_arena arena;
    struct ot_coord_broker_row row;
    for (uint32_t i = 0; i < survey->asked_count; i++)
        if (survey->asked[i].broker_id == broker_id) return &survey->asked[i];
    ot_arena_init_with(&arena, room, sizeof room, 0);
    if (survey->asked_count == survey->asked_max || coord_broker_get(value, broker_id, &arena, &row) != OT_OK || row.fenced) return NULL;
    struct broker_survey_asked *asked = &survey->asked[survey->asked_count];
    *asked = (struct broker_survey_asked){ .survey = survey, .broker_id = broker_id, .broker_epoch = row.broker_epoch, .may_lead = !row.in_controlled_shutdown };
    ot_arena_init(&asked->arena, ANSWER_ARENA_BYTES);
    asked->parts = ot_arena_array(&survey->arena, survey->count, sizeof *asked->parts);
    ot_peer_log_ends_request_defaults(&asked->request);
    asked->request.partitions.items = ot_arena_array(&survey->arena, survey->count, sizeof *asked->request.partitions.items);
    if (asked->parts == NULL || asked->request.partitions.items == NULL) return NULL;
    survey->asked_count++;
    return asked;
}

/* Its replicas into the requests to their brokers. */
static void part_add(struct broker_survey *survey, uint32_t at)
{
    struct broker_survey_part *part = &survey->parts[at];
    const struct coord_value *value = broker_coordinator_value(survey->broker->coordinator);
    part->answer_count = 0;
    part->known = coord_partition_get(value, &part->topic_id, part->partition, &part->row) == OT_OK;
    part->owed = part->known && coord_contest_owed(&part->row);
    for (int32_t i = 0; part->owed && i < part->row.replica_count; i++) {
        struct broker_survey_asked *asked = asked_of(survey, part->row.replicas[i]);
        if (asked == NULL) continue;
        asked->request.partitions.items[asked->part_count] = (struct ot_peer_log_ends_request_partition){ .topic_id = part->topic_id, .partition = part->partition,
            .partition_epoch = part->row.partition_epoch };
        asked->parts[asked->part_count++] = at;
        asked->request.partitions.count = (int32_t)asked->part_count;
    }
}

static void ask(struct broker_survey_asked *asked, int64_t deadline_us)
{
    struct broker_survey *survey = asked->survey;
    struct broker *broker = survey->broker;
    if (asked->broker_id == broker->node_id) {
        if (broker_log_ends(broker, &asked->request, &asked->arena, &asked->response) == OT_OK) take(asked);
        return;
    }
    survey->open++;
    asked->call = (struct broker_peer_call){ .node_id = asked->broker_id, .api = OT_API_PEER_LOG_ENDS, .request = &asked->request, .response = &asked->response,
        .arena = &asked->arena, .answer_bytes_max = ANSWER_ARENA_BYTES, .deadline_us = deadline_us, .home = broker->setup.coord_exec, .done = answered };
    broker_peer_call(broker, &asked->call);
}

static void begin_run(struct ot_task *task)
{
    struct broker_survey *survey = OT_CONTAINER(task, struct broker_survey, begin_task);
    const int64_t deadline_us = ot_exec_now_us(survey->broker->setup.coord_exec) + survey->wait_us;
    survey->open = 1;
    survey->asked_count = 0;
    ot_arena_init(&survey->arena, ARENA_BYTES);
    survey->asked_max = OT_MIN(survey->count * COORD_REPLICAS_MAX, (uint32_t)ASKED_MAX);
    survey->asked = ot_arena_array(&survey->arena, OT_MAX(survey->asked_max, 1u), sizeof *survey->asked);
    for (uint32_t i = 0; i < survey->count; i++) {
        if (survey->asked != NULL) part_add(survey, i);
        else survey->parts[i].known = survey->parts[i].owed = false;
    }
    for (uint32_t i = 0; i < survey->asked_count; i++) ask(&survey->asked[i], deadline_us);
    one_less(survey);
}

void broker_survey(struct broker *broker, struct broker_survey *survey)
{
    OT_ASSERT(survey->count <= BROKER_SURVEY_PARTS_MAX);
    survey->broker = broker;
    survey->begin_task.run = begin_run;
    ot_exec_post(broker->setup.coord_exec, &survey->begin_task);
}
