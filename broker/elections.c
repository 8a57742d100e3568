#include "broker/elections.h"

#include "base/log.h"
#include "base/util.h"
#include "broker/room.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LOOK_US 200000
#define SURVEY_US 2000000
#define ASK_US 5000000

struct broker_elections_round {
    struct broker_elections *elections;
    struct broker *broker;
    struct broker_survey survey;
    struct broker_survey_part parts[BROKER_SURVEY_PARTS_MAX];
    struct election {
        struct broker_elections_round *round;
        struct broker_ask ask;
        bool unclean, waited;                  /* as it was when the survey began */
        struct coord_verdict verdict;
        struct coord_member members[COORD_REPLICAS_MAX];
    } all[BROKER_SURVEY_PARTS_MAX];
    uint32_t open;
};

const char *broker_loss_reason(enum coord_loss loss)
{
    static const char *const names[] = { [COORD_LOSS_NONE] = "none", [COORD_LOSS_CRASH] = "crash", [COORD_LOSS_UNCLEAN] = "unclean", [COORD_LOSS_OPERATOR] = "operator" };
    return loss >= COORD_LOSS_NONE && loss <= COORD_LOSS_OPERATOR ? names[loss] : "unknown";
}

void broker_election_ask(const struct broker_survey_part *part, const struct coord_verdict *verdict, enum coord_loss loss, struct coord_member *members, struct coord_request *out)
{
    for (uint32_t i = 0; i < part->answer_count; i++) members[i] = (struct coord_member){ part->answers[i].broker_id, part->answers[i].broker_epoch };
    *out = (struct coord_request){ .ask = COORD_ASK_ELECT, .if_version = -1, .u.elect = { .topic_id = part->topic_id, .partition = part->partition,
        .candidate = part->answers[verdict->winner].broker_id, .partition_epoch = part->row.partition_epoch, .loss = loss, .loss_from = verdict->loss_from, .answers = members,
        .answer_count = part->answer_count } };
}

void broker_election_tell(const struct broker_survey_part *part, const struct coord_verdict *verdict, enum coord_loss loss, struct ot_str topic)
{
    char text[400] = "";
    size_t at = 0;
    for (uint32_t i = 0; i < part->answer_count && at + 80 < sizeof text; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%d: epoch %d, end %lld", i == 0 ? "" : "; ", part->answers[i].broker_id, part->answers[i].last_epoch,
            (long long)part->answers[i].log_end);
    ot_log(OT_LOG_WARN, "partition", "leader_from_what_is_left", "topic=%.*s partition=%d leader=%d leader_epoch=%d reason=%s may_be_lost_from=%lld text=\"%s\"", (int)topic.bytes, topic.data,
        part->partition, part->answers[verdict->winner].broker_id, part->row.leader_epoch + 1, broker_loss_reason(loss), (long long)verdict->loss_from, text);
}

/* ---- who is owed one */

struct key { uint8_t data[20]; };
static struct key key_of(const struct ot_uuid *topic_id, int32_t partition)
{
    struct key key;
    memcpy(key.data, topic_id->bytes, 16);
    ot_store_u32(key.data + 16, (uint32_t)partition);
    return key;
}

static void list_remove(struct broker_elections *all, struct broker_election_owed *owed)
{
    *(owed->prev == NULL ? &all->first : &owed->prev->next) = owed->next;
    *(owed->next == NULL ? &all->last : &owed->next->prev) = owed->prev;
}

static void list_append(struct broker_elections *all, struct broker_election_owed *owed)
{
    owed->next = NULL;
    owed->prev = all->last;
    *(all->last == NULL ? &all->first : &all->last->next) = owed;
    all->last = owed;
}

static void owed_end(struct broker_elections *all, struct broker_election_owed *owed)
{
    const struct key key = key_of(&owed->topic_id, owed->partition);
    (void)ot_map_remove(&all->by_key, key.data, sizeof key.data);
    list_remove(all, owed);
    all->count--;
    free(owed);
}

static void owed_clear(struct broker_elections *all)
{
    while (all->first != NULL) owed_end(all, all->first);
}

static void row_seen(struct broker *broker, const struct ot_uuid *topic_id, int32_t partition, const struct coord_partition *row)
{
    struct broker_elections *all = &broker->elections;
    const struct key key = key_of(topic_id, partition);
    struct broker_election_owed *owed = ot_map_get(&all->by_key, key.data, sizeof key.data);
    const bool owes = row != NULL && coord_contest_owed(row);
    if (owed != NULL && !owes) owed_end(all, owed);
    if (owed != NULL || !owes) return;
    owed = calloc(1, sizeof *owed);
    if (owed == NULL || ot_map_put(&all->by_key, key.data, sizeof key.data, owed) != OT_OK) {
        ot_log(OT_LOG_ERROR, "partition", "election_not_noted", "partition=%d error=NO_MEMORY text=\"it is looked at when its row changes, or by another coordinator\"", partition);
        free(owed);
        return;
    }
    *owed = (struct broker_election_owed){ .topic_id = *topic_id, .partition = partition, .since_us = ot_exec_now_us(broker->setup.coord_exec) };
    list_append(all, owed);
    all->count++;
}

static void look_at(struct broker *broker, int64_t after_us)
{
    struct broker_elections *all = &broker->elections;
    if (all->leading && !all->ended && !all->busy && all->count > 0) ot_exec_timer_set(broker->setup.coord_exec, &all->timer, ot_exec_now_us(broker->setup.coord_exec) + after_us);
}

static void walk(struct broker *broker, const struct coord_value *value)
{
    struct coord_cursor cursor;
    struct ot_uuid topic_id;
    struct coord_partition row;
    int32_t index;
    owed_clear(&broker->elections);
    coord_partitions_begin(value, &cursor);
    while (coord_partitions_next(&cursor, &topic_id, &index, &row) == OT_OK) row_seen(broker, &topic_id, index, &row);
}

void broker_elections_applied(struct broker *broker, const struct coord_value *value, struct ot_blob delta, bool whole)
{
    struct coord_delta_reader in = coord_delta_reader_over(delta);
    struct coord_delta_row row;
    struct coord_key_parts key;
    struct coord_partition partition;
    if (!broker->elections.leading || broker->elections.ended) return;
    if (whole) walk(broker, value);
    while (!whole && coord_delta_next(&in, &row)) {
        if (!coord_key_parse(row.key, &key) || key.table != COORD_TABLE_PARTITION) continue;
        const bool there = coord_partition_get(value, &key.topic_id, key.index, &partition) == OT_OK;
        row_seen(broker, &key.topic_id, key.index, there ? &partition : NULL);
    }
    look_at(broker, LOOK_US);
}

void broker_elections_role(struct broker *broker, bool leading)
{
    struct broker_elections *all = &broker->elections;
    if (leading == all->leading || all->ended || broker->peers == NULL) return;
    all->leading = leading;
    if (leading) walk(broker, broker_coordinator_value(broker->coordinator));
    else owed_clear(all);
    look_at(broker, LOOK_US);
}

/* ---- one round */

static bool is_true(struct ot_str text) { return text.bytes == 4 && strncasecmp(text.data, "true", 4) == 0; }

/* unclean.leader.election.enable of its topic. Groups and transactions are never left to chance. */
static bool unclean_allowed(struct broker *broker, const struct coord_value *value, const struct ot_uuid *topic_id)
{
    const struct coord_scope scope = { .kind = COORD_SCOPE_TOPIC, .topic_id = *topic_id };
    struct ot_coord_topic_row topic;
    struct ot_str text;
    if (coord_topic_get(value, topic_id, &topic) != OT_OK || topic.internal || broker_topic_name_internal(topic.name)) return false;
    if (coord_config_get(value, &scope, ot_str_of("unclean.leader.election.enable"), &text) == OT_OK) return is_true(text);
    return broker_config_current(broker->setup.config)->unclean_leader_election_enable;
}

static bool lives(const struct coord_value *value, int32_t broker_id)
{
    uint8_t room[32768];
    struct ot_arena arena;
    struct ot_coord_broker_row row;
    ot_arena_init_with(&arena, room, sizeof room, 0);
    return broker_id >= 0 && coord_broker_get(value, broker_id, &arena, &row) == OT_OK && !row.fenced;
}

/* Is there a chance that somebody is elected, so that asking is worth it? */
static bool may_elect(struct broker *broker, const struct coord_value *value, const struct broker_election_owed *owed, const struct coord_partition *row, struct election *election)
{
    const int64_t wait_us = broker_config_current(broker->setup.config)->ottla_unclean_election_wait_ms * 1000;
    bool all_back = (row->isr | row->elr) == 0 && row->last_members != 0, any = false;
    election->unclean = unclean_allowed(broker, value, &owed->topic_id);
    election->waited = ot_exec_now_us(broker->setup.coord_exec) >= owed->since_us + wait_us;
    for (int32_t i = 0; i < row->replica_count; i++) {
        const bool here = lives(value, row->replicas[i]);
        any |= here;
        all_back &= here || (row->last_members >> i & 1) == 0;
    }
    return all_back || (election->unclean && any && (election->waited || lives(value, row->last_leader)));
}

static void round_end(struct broker_elections_round *round)
{
    struct broker *broker = round->broker;
    round->elections->busy = false;
    round->elections->round = NULL;
    free(round);
    look_at(broker, LOOK_US);
}

static void one_less(struct broker_elections_round *round)
{
    if (--round->open == 0) round_end(round);
}

static void elected(struct broker_ask *ask)
{
    struct election *election = OT_CONTAINER(ask, struct election, ask);
    struct broker_elections_round *round = election->round;
    const struct broker_survey_part *part = &round->parts[election - round->all];
    const struct coord_elect_ask *asked = &ask->request.u.elect;
    struct ot_coord_topic_row topic;
    if (ask->request.error != OT_OK) {
        ot_log(OT_LOG_INFO, "partition", "election_refused", "partition=%d candidate=%d error=%s text=\"%s\"", part->partition, asked->candidate, ot_err_name(ask->request.error),
            ask->request.text);
    } else {
        atomic_fetch_add(&round->elections->elected[asked->loss], 1);
        if (coord_topic_get(broker_coordinator_value(round->broker->coordinator), &part->topic_id, &topic) == OT_OK)
            broker_election_tell(part, &election->verdict, asked->loss, topic.name);
    }
    one_less(round);
}

static void surveyed(struct broker_call *call)
{
    struct broker_elections_round *round = OT_CONTAINER(call, struct broker_elections_round, survey.call);
    round->open = 1;
    for (uint32_t i = 0; i < round->survey.count && round->elections->leading && !round->elections->ended; i++) {
        const struct broker_survey_part *part = &round->parts[i];
        struct election *election = &round->all[i];
        const struct coord_contest contest = { election->unclean, election->waited };
        if (!part->owed) continue;
        coord_contest_decide(&part->row, part->answers, part->answer_count, &contest, &election->verdict);
        if (!election->verdict.elects) continue;
        election->round = round;
        election->ask = (struct broker_ask){ .answered = elected, .timeout_us = ASK_US };
        broker_election_ask(part, &election->verdict, election->verdict.loss, election->members, &election->ask.request);
        round->open++;
        broker_coordinator_ask(round->broker->coordinator, &election->ask);
    }
    one_less(round);
}

/* Those at the front go to the end, whether they are asked about or not. */
static void gather(struct broker *broker, struct broker_elections_round *round)
{
    struct broker_elections *all = &broker->elections;
    const struct coord_value *value = broker_coordinator_value(broker->coordinator);
    struct coord_partition row;
    for (uint32_t looked = 0, most = all->count; looked < most && looked < 4 * BROKER_SURVEY_PARTS_MAX && round->survey.count < BROKER_SURVEY_PARTS_MAX; looked++) {
        struct broker_election_owed *owed = all->first;
        if (coord_partition_get(value, &owed->topic_id, owed->partition, &row) != OT_OK || !coord_contest_owed(&row)) {
            owed_end(all, owed);
            continue;
        }
        list_remove(all, owed);
        list_append(all, owed);
        struct election *election = &round->all[round->survey.count];
        if (!may_elect(broker, value, owed, &row, election)) continue;
        struct broker_survey_part *part = &round->parts[round->survey.count++];
        part->topic_id = owed->topic_id;
        part->partition = owed->partition;
    }
}

static void timer_fired(struct ot_timer *timer)
{
    struct broker *broker = OT_CONTAINER(timer, struct broker, elections.timer);
    struct broker_elections *all = &broker->elections;
    if (all->busy || all->ended || !all->leading) return;
    struct broker_elections_round *round = calloc(1, sizeof *round);
    if (round == NULL) {
        look_at(broker, LOOK_US);
        return;
    }
    round->elections = all;
    round->broker = broker;
    gather(broker, round);
    if (round->survey.count == 0) {
        free(round);
        look_at(broker, LOOK_US);
        return;
    }
    all->busy = true;
    all->round = round;
    round->survey.parts = round->parts;
    round->survey.wait_us = SURVEY_US;
    round->survey.call.home = broker->setup.coord_exec;
    round->survey.call.done = surveyed;
    broker_survey(broker, &round->survey);
}

/* ---- life */

void broker_elections_init(struct broker *broker)
{
    broker->elections.timer.fired = timer_fired;
    ot_map_init(&broker->elections.by_key);
}

void broker_elections_end(struct broker *broker)
{
    broker->elections.ended = true;
    ot_exec_timer_cancel(broker->setup.coord_exec, &broker->elections.timer);
}

void broker_elections_free(struct broker *broker)
{
    owed_clear(&broker->elections);
    ot_map_free(&broker->elections.by_key);
}
