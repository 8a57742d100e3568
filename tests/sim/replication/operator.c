/* What operators ask of the coordinator, and what its server asks for them: a topic, other configs, moves of replicas and leaders, leaders from what is left. */
#include "coordinator/contest.h"
#include "world.h"

void operate_make_topic(struct world *w)
{
    struct ask *ask = ask_new(w, NULL, COORD_ASK_CREATE_TOPIC);
    ask->request.u.topic = (struct coord_topic_ask){ .name = ot_str_of("t"), .partition_count = PARTITIONS, .replication_factor = 3 };
    ask_send(w, ask);
}

void operate_configure(struct world *w)
{
    if (w->swarm.class_flips && ot_rng_chance(&w->rng, 0.5)) {
        w->class_ = (enum replica_class)ot_rng_below(&w->rng, 4);      /* each broker hears of it by and by */
        return;
    }
    if (!w->swarm.min_flips) {
        return;
    }
    static const char *const texts[] = { "1", "2", "3" };
    struct ask *ask = ask_new(w, NULL, COORD_ASK_CONFIGS);
    ask->change = (struct coord_config_change){ ot_str_of("min.insync.replicas"), ot_str_of(texts[w->min_isr - 1 + (int32_t)ot_rng_below(&w->rng, (uint64_t)(4 - w->min_isr))]) };
    ask->request.u.configs = (struct coord_configs_ask){ .scope = { .kind = COORD_SCOPE_TOPIC, .topic_id = w->topic }, .changes = &ask->change, .change_count = 1 };
    ask_send(w, ask);
}

void operate_move(struct world *w)
{
    struct ask *ask = ask_new(w, NULL, COORD_ASK_PREFER);
    ask->partition = (uint32_t)ot_rng_below(&w->rng, PARTITIONS);
    if (ot_rng_chance(&w->rng, 0.5)) {
        ask->prefer = (struct coord_prefer){ .topic_id = w->topic, .partition = (int32_t)ask->partition };
        ask->request.u.prefer = (struct coord_prefer_ask){ &ask->prefer, 1 };
    } else {
        ask->request.ask = COORD_ASK_REASSIGN;
        uint32_t first = (uint32_t)ot_rng_below(&w->rng, w->broker_count);
        for (uint32_t i = 0; i < 3; i++) {
            ask->target[i] = 1 + (int32_t)((first + i) % w->broker_count);
        }
        bool cancels = ot_rng_chance(&w->rng, 0.2);
        ask->request.u.reassign = (struct coord_reassign_ask){ .topic_id = w->topic, .partition = (int32_t)ask->partition, .target = cancels ? NULL : ask->target, .count = 3 };
    }
    ask_send(w, ask);
}

/* Rule 4 of the election: nobody is left in isr and elr, as those who were lost something; once all of them are back and follow nobody, whoever has most leads. */
void operate_recover(struct world *w, uint32_t partition)
{
    const struct coord_partition row = w->rows[partition];
    struct coord_log_end answers[COORD_REPLICAS_MAX];
    struct coord_verdict verdict;
    uint32_t count = 0;
    bool more = false;                         /* may answer yet */
    if (row.replica_count == 0 || !coord_contest_owed(&row)) {
        return;
    }
    for (int32_t i = 0; i < row.replica_count; i++) {
        struct broker *broker = &w->brokers[row.replicas[i] - 1];
        struct held *held = &broker->held[partition];
        if (!broker->up || !broker->registered || !held->replica.applied || held->replica.row.partition_epoch != row.partition_epoch) {
            more |= !broker->up || !broker->registered || !held->offline;
            continue;
        }
        if (!logs_flush(w, broker, partition)) {
            return;
        }
        held->flushed = held->end;
        replica_flushed(&held->replica, held->end);
        answers[count++] = (struct coord_log_end){ .broker_id = broker->id, .broker_epoch = broker->epoch, .may_lead = true, .log_end = held->end,
            .last_epoch = held->end == 0 ? -1 : held->log[held->end - 1].epoch, .high_watermark = held->replica.high_watermark, .flushed_end = held->end };
    }
    /* of the whole: a server that misses a directory, its own or that of a double which took its place, waits for others or for an operator, who comes when faults are over and everybody else
     * is back: whoever is still to come may have all of it, and lead by itself */
    const bool helped = w->lane && w->calm && !more && (w->swarm.beyond || w->doubles > 0 || w->wiped > 0);
    struct coord_contest contest = { .unclean = (w->swarm.unclean && w->swarm.beyond) || helped, .waited = ot_rng_chance(&w->rng, 0.1) };
    coord_contest_decide(&row, answers, count, &contest, &verdict);
    if (!verdict.elects) {
        return;
    }
    struct ask *ask = ask_new(w, NULL, COORD_ASK_ELECT);
    for (uint32_t i = 0; i < count; i++) {
        ask->members[i] = (struct coord_member){ answers[i].broker_id, answers[i].broker_epoch };
    }
    ask->request.u.elect = (struct coord_elect_ask){ .topic_id = w->topic, .partition = (int32_t)partition, .candidate = answers[verdict.winner].broker_id,
        .partition_epoch = row.partition_epoch, .loss = verdict.loss, .loss_from = verdict.loss_from, .answers = ask->members, .answer_count = count };
    ask_send(w, ask);
}
