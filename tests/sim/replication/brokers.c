#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t sim_clock_us(const struct world *w, const struct broker *broker) { return (int64_t)((double)w->now_us * broker->rate); }
static uint64_t clock_of(const struct world *w, const struct broker *broker) { return (uint64_t)sim_clock_us(w, broker); }
static uint32_t index_of(const struct world *w, const struct broker *broker) { return (uint32_t)(broker - w->brokers); }

/* ---- asks of the coordinator */

struct ask *ask_new(struct world *w, struct broker *broker, enum coord_ask kind)
{
    struct ask *ask = calloc(1, sizeof *ask);
    ask->request.ask = kind;
    ask->request.if_version = -1;
    ask->broker = broker == NULL ? BROKERS_MAX : index_of(w, broker);
    ask->life = broker == NULL ? 0 : broker->life;
    ask->sent_us = broker == NULL ? 0 : sim_clock_us(w, broker);
    return ask;
}

void ask_send(struct world *w, struct ask *ask)
{
    if (ask->broker != BROKERS_MAX && sim_cut(w, ask->broker, BROKERS_MAX)) {
        free(ask);
        return;
    }
    sim_event(w, &(struct event){ .kind = EVENT_ASK, .at_us = w->now_us + sim_delay(w), .ask = ask });
}

static void registered(struct broker *broker, const struct ask *ask)
{
    if (ask->request.error == OT_OK && !broker->registered) {
        broker->registered = true;
        broker->epoch = ask->request.version;
        broker->lost = false;
    }
}

void ask_answered(struct world *w, struct coord_request *request)
{
    struct ask *ask = OT_CONTAINER(request, struct ask, request);
    struct broker *broker = ask->broker < w->broker_count ? &w->brokers[ask->broker] : NULL;
    bool heard = broker != NULL && broker->up && broker->life == ask->life && !sim_cut(w, BROKERS_MAX, ask->broker);
    if (request->ask == COORD_ASK_CREATE_TOPIC && request->error == OT_OK) {
        w->topic = request->topic_id;
        w->topic_made = true;
    } else if (request->ask == COORD_ASK_REGISTER && heard) {
        registered(broker, ask);
    } else if (request->ask == COORD_ASK_ALTER && heard && request->error == OT_OK && ask->alter.error != OT_OK) {
        replica_refused(&broker->held[ask->partition].replica, ask->number, ask->alter.error);
        check_watermark(w, broker, ask->partition);
    } else if (request->ask == COORD_ASK_HEARTBEAT && heard && request->error == OT_OK && broker->stopping && request->may_stop) {
        broker->clean = true;
        broker_crash(w, broker, false);
        broker->boot = broker->clean ? COORD_BOOT_CLEAN : broker->boot;
        broker->clean = false;
    } else if (request->ask == COORD_ASK_HEARTBEAT && heard && request->error == OT_OK && !request->fenced) {
        broker->lease_end_us = OT_MAX(broker->lease_end_us, (int64_t)coord_lease_end_us((uint64_t)ask->sent_us, SESSION_US));
    } else if (request->ask == COORD_ASK_HEARTBEAT && heard && (request->error == OT_ERR_STALE_BROKER_EPOCH || request->error == OT_ERR_BROKER_ID_NOT_REGISTERED)) {
        broker_crash(w, broker, false);        /* "register again" is a start anew */
    }
    free(ask);
}

static bool leads(const struct held *held) { return held->replica.role == REPLICA_LEADER; }

void broker_goes(struct world *w, struct broker *broker)
{
    if (broker->stopping || !broker->up || !broker->registered) {
        return;
    }
    broker->stopping = true;
    broker->tails_lost = false;
    broker->tails_until_us = w->now_us + 1000000;
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        broker->held[i].replica.joins_from = leads(&broker->held[i]) ? broker->held[i].end : 0;
    }
}

/* As broker/member.c: before others lead, all in sync have what was acknowledged; or they have not in time. */
static bool tails_settled(const struct world *w, struct broker *broker)
{
    bool settled = true;
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        settled &= !leads(&broker->held[i]) || replica_all_have(&broker->held[i].replica, OT_MAX(broker->held[i].replica.joins_from, broker->held[i].replica.epoch_start));
    }
    broker->tails_lost |= !settled && w->now_us >= broker->tails_until_us;
    return settled || broker->tails_lost;
}

static void heartbeat(struct world *w, struct broker *broker)
{
    if (broker->registered) {
        struct ask *ask = ask_new(w, broker, COORD_ASK_HEARTBEAT);
        ask->request.u.heartbeat = (struct coord_heartbeat){ .broker_id = broker->id, .broker_epoch = broker->epoch, .applied_version = broker->applied_version,
            .want_shutdown = broker->stopping && tails_settled(w, broker) };
        ask_send(w, ask);
    } else {
        struct ask *ask = ask_new(w, broker, COORD_ASK_REGISTER);
        ot_store_u32(ask->dir.bytes, (uint32_t)broker->id + broker->dir_number * BROKERS_MAX);
        ask->request.u.register_ = (struct coord_register){ .broker_id = broker->id, .dir_ids = &ask->dir, .dir_count = 1, .boot_class = broker->boot, .rack = { .null = true } };
        ot_store_u64(ask->request.u.register_.incarnation_id.bytes, broker->incarnation);
        ask_send(w, ask);
    }
    sim_event(w, &(struct event){ .kind = EVENT_HEARTBEAT, .at_us = w->now_us + 400000, .broker = index_of(w, broker), .life = broker->life });
}

/* ---- life */

void broker_start(struct world *w, struct broker *broker)
{
    broker->up = true;
    broker->registered = broker->stopping = false;
    broker->epoch = -1;
    broker->incarnation = ot_rng_next(&w->rng);
    broker->applied_version = 0;
    broker->apply_at_us = w->now_us;
    broker->lease_end_us = 0;
    broker->paused_until_us = 0;
    if (!logs_open(w, broker)) {
        return;
    }
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        struct held *held = &broker->held[i];
        int64_t checkpoint = held->replica.applied ? (int64_t)ot_rng_below(&w->rng, (uint64_t)held->replica.high_watermark + 1) : 0;   /* stale at will */
        checkpoint = OT_MIN(checkpoint, held->end);
        replica_init(&held->replica, broker->id, held->room, COORD_REPLICAS_MAX, held->end, held->flushed, checkpoint);
        held->replica.lag_us_max = 2000000;
        replica_set_class(&held->replica, w->class_);
        held->fetch_due_us = w->now_us;
        held->seen_epoch = -1;
    }
    heartbeat(w, broker);
}

void broker_crash(struct world *w, struct broker *broker, bool machine)
{
    if (!broker->up) {
        return;
    }
    broker->up = false;
    broker->life++;
    broker->boot = OT_MAX(broker->registered ? COORD_BOOT_PROCESS_CRASH : broker->boot, machine ? COORD_BOOT_MACHINE_CRASH : COORD_BOOT_PROCESS_CRASH);
    if (w->verbose) {
        printf("%.3f broker %d stops, machine %d, logs %lld/%lld %lld/%lld\n", (double)w->now_us / 1e6, broker->id, machine, (long long)broker->held[0].flushed,
            (long long)broker->held[0].end, (long long)broker->held[1].flushed, (long long)broker->held[1].end);
    }
    w->crashes++;
    w->machine_crashes += machine;
    if (broker->files != NULL) {
        logs_crash(w, broker, machine);
    }
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        struct held *held = &broker->held[i];
        if (broker->files == NULL && machine && held->end > held->flushed) {
            broker->lost = true;
            held->end = held->flushed + (int64_t)ot_rng_below(&w->rng, (uint64_t)(held->end - held->flushed) + 1);
        }
        held->truncations++;
        if (broker->files == NULL && machine) {
            held->flushed = held->end;         /* recovery syncs what it kept */
        }
    }
    uint64_t down_us = w->swarm.storms && !w->calm ? ot_rng_below(&w->rng, 200000) : ot_rng_below(&w->rng, ot_rng_chance(&w->rng, 0.3) ? 9000000 : 1500000);
    sim_event(w, &(struct event){ .kind = EVENT_START, .at_us = w->now_us + down_us,
        .broker = index_of(w, broker), .life = broker->life });
}

void broker_wipe(struct world *w, struct broker *broker)
{
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        struct held *held = &broker->held[i];
        broker->lost |= held->end > 0;
        held->end = held->flushed = 0;
        held->replica.high_watermark = 0;
    }
    broker->dir_number++;
    logs_wipe(w, broker);
    w->wiped++;
}

/* ---- logs */

static bool append(struct world *w, struct broker *broker, uint32_t partition, struct record record)
{
    struct held *held = &broker->held[partition];
    CHECK(held->end < LOG_MAX);
    held->log[held->end] = record;
    check_append(w, broker, partition, held->end);
    if (!logs_append(w, broker, partition, record)) {
        return false;
    }
    held->end++;
    replica_appended(&held->replica, held->end);
    return true;
}

static void flush_begin(struct world *w, struct broker *broker, uint32_t partition)
{
    struct held *held = &broker->held[partition];
    sim_event(w, &(struct event){ .kind = EVENT_FLUSHED, .at_us = w->now_us + 1000 + ot_rng_below(&w->rng, 20000), .broker = index_of(w, broker), .partition = partition,
        .life = broker->life, .flushed = held->end, .truncations = held->truncations });
}

/* As the leader that it is, or takes itself for. */
static bool lead_append(struct world *w, struct broker *broker, uint32_t partition, uint64_t id)
{
    struct held *held = &broker->held[partition];
    int32_t epoch = held->replica.row.leader_epoch;
    CHECK(epoch < LOG_MAX);
    HOLDS(13, w->appends_of[partition][epoch] == 0 || w->appends_of[partition][epoch] == broker->id);
    w->appends_of[partition][epoch] = broker->id;
    w->last_append_epoch[partition] = OT_MAX(w->last_append_epoch[partition], epoch);
    if (!append(w, broker, partition, (struct record){ epoch, id })) {
        return false;
    }
    w->appended++;
    check_watermark(w, broker, partition);
    return true;
}

static bool works(const struct world *w, const struct broker *broker) { return broker->up && broker->paused_until_us <= w->now_us; }

/* With acks=1, whoever leads or takes itself for the leader. Under a strict lease it is refused when that has run out; while a leader hands over it is answered as acks=all is, and
 * then it is one of those that are committed. */
bool produce(struct world *w)
{
    uint32_t partition = (uint32_t)ot_rng_below(&w->rng, PARTITIONS);
    struct broker *broker = &w->brokers[ot_rng_below(&w->rng, w->broker_count)];
    struct held *held = &broker->held[partition];
    if (!works(w, broker) || held->end >= LOG_MAX - 1 || replica_may_append(&held->replica, !w->swarm.strict) != OT_OK) {
        return false;
    }
    const bool at_once = !broker->stopping && !replica_hands_over(&held->replica);
    if (w->swarm.strict) {
        if (sim_clock_us(w, broker) >= broker->lease_end_us) {
            return false;
        }
        HOLDS(20, !at_once || w->last_append_epoch[partition] <= held->replica.row.leader_epoch);
    }
    if (!lead_append(w, broker, partition, ++w->ids)) {
        return false;
    }
    if (at_once) {
        check_once(w, broker, partition);
    }
    return true;
}

/* ---- the producer that waits for all */

static uint64_t last_produced(const struct held *held, int64_t *offset_out)
{
    for (int64_t at = held->end; at > 0; at--) {
        if ((held->log[at - 1].id & PRODUCED) != 0) {
            *offset_out = at - 1;
            return held->log[at - 1].id;
        }
    }
    return 0;
}

static void send_record(struct world *w, uint32_t partition, struct producer *producer)
{
    struct broker *broker = &w->brokers[ot_rng_below(&w->rng, w->broker_count)];
    struct held *held = &broker->held[partition];
    if (!works(w, broker) || held->end >= LOG_MAX - 1 || replica_may_append(&held->replica, true) != OT_OK) {
        return;
    }
    int64_t offset = held->end;
    uint64_t last = last_produced(held, &offset);
    /* before it was acknowledged, a record may have been in a log that a stale leader still has: that one takes nothing that can be acknowledged */
    if (last != producer->id && (last > producer->id || !lead_append(w, broker, partition, producer->id))) {
        return;
    }
    *producer = (struct producer){ .id = producer->id, .open = true, .placed = true, .broker = index_of(w, broker), .life = broker->life, .epoch = held->replica.row.leader_epoch,
        .offset = last == producer->id ? offset : held->end - 1, .give_up_us = w->now_us + 400000 + ot_rng_below(&w->rng, 1500000), .acked = producer->acked };
}

void produce_acked(struct world *w, uint32_t partition)
{
    struct producer *producer = &w->producers[partition];
    if (!producer->open) {
        if (w->calm && ot_rng_chance(&w->rng, 0.5)) {
            return;
        }
        *producer = (struct producer){ .id = PRODUCED | ++w->ids, .open = true, .acked = producer->acked };
    }
    if (!producer->placed) {
        send_record(w, partition, producer);
        return;
    }
    const struct broker *broker = &w->brokers[producer->broker];
    const struct held *held = &broker->held[partition];
    bool leads = works(w, broker) && broker->life == producer->life && held->replica.role == REPLICA_LEADER && held->replica.row.leader_epoch == producer->epoch;
    if (leads && held->replica.high_watermark > producer->offset) {
        producer->acked = producer->id;
        producer->open = producer->placed = false;
        w->acked++;
    } else if (!leads || w->now_us >= producer->give_up_us) {
        producer->placed = false;              /* asks again, somebody */
    }
}

/* ---- states */

static void apply(struct world *w, struct broker *broker, struct coord_value *value)
{
    broker->applied_version = value->stamp.version;
    for (uint32_t i = 0; i < PARTITIONS && broker->registered && broker->applied_version >= broker->epoch; i++) {
        struct coord_partition row;
        struct replica_broker replicas[COORD_REPLICAS_MAX];
        enum replica_change change;
        struct held *held = &broker->held[i];
        if (coord_partition_get(value, &w->topic, (int32_t)i, &row) != OT_OK) {
            continue;
        }
        for (int32_t r = 0; r < row.replica_count; r++) {
            struct ot_coord_broker_row other;
            struct ot_arena arena;
            uint8_t room[4096];
            ot_arena_init_with(&arena, room, sizeof room, 0);
            bool known = coord_broker_get(value, row.replicas[r], &arena, &other) == OT_OK;
            replicas[r] = (struct replica_broker){ known ? other.broker_epoch : -1, known && !other.fenced && !other.in_controlled_shutdown };
        }
        if (coord_replica_bit(&row, broker->id) == 0) {
            if (!logs_drop(w, broker, i)) {    /* not its any more: the files go */
                return;
            }
            held->end = held->flushed = 0;
            held->truncations++;
            replica_init(&held->replica, broker->id, held->room, COORD_REPLICAS_MAX, 0, 0, 0);
            held->replica.lag_us_max = 2000000;
            replica_set_class(&held->replica, w->class_);
            continue;
        }
        CHECK(replica_apply(&held->replica, &row, replicas, clock_of(w, broker), &change) == OT_OK);
        if (change >= REPLICA_BECAME_LEADER) {
            w->elections += change == REPLICA_BECAME_LEADER;
            held->fetch_due_us = w->now_us;
            held->seen_epoch = -1;
        }
        check_watermark(w, broker, i);
    }
}

/* ---- fetching */

static void fetch_send(struct world *w, struct broker *broker, uint32_t partition)
{
    struct held *held = &broker->held[partition];
    held->fetch_due_us = w->now_us + 300000;
    held->fetch_number++;
    int32_t leader = held->replica.row.leader;
    if (leader < 1 || leader > (int32_t)w->broker_count || sim_cut(w, index_of(w, broker), (uint32_t)leader - 1)) {
        return;
    }
    struct event event = { .kind = EVENT_FETCH, .at_us = w->now_us + sim_delay(w), .broker = (uint32_t)leader - 1, .from = index_of(w, broker), .partition = partition,
        .fetch = { .follower = broker->id, .broker_epoch = broker->epoch, .leader_epoch = held->replica.row.leader_epoch, .offset = held->end, .flushed_end = held->flushed },
        .last_epoch = logs_last_epoch(held), .number = held->fetch_number, .life = broker->life };
    sim_event(w, &event);
    if (ot_rng_chance(&w->rng, w->swarm.twice)) {
        event.at_us = w->now_us + sim_delay(w);
        sim_event(w, &event);
    }
}

static void fetch_asked(struct world *w, struct broker *broker, const struct event *in)
{
    struct held *held = &broker->held[in->partition];
    struct replica_fetch fetch = in->fetch;
    struct replica_epoch_end found = logs_epoch_end(held, in->last_epoch);
    fetch.matches = !replica_diverges(fetch.offset, in->last_epoch, found) || COORD_BUG(MATCH_ANYTHING);
    if (replica_fetched(&held->replica, &fetch, clock_of(w, broker)) != OT_OK) {
        return;
    }
    check_watermark(w, broker, in->partition);
    struct event answer = { .kind = EVENT_ANSWER, .at_us = w->now_us + sim_delay(w), .broker = in->from, .partition = in->partition, .number = in->number,
        .life = in->life, .answer = { held->replica.row.leader_epoch, fetch.offset, in->last_epoch, held->replica.high_watermark }, .diverges = !fetch.matches, .cut = found };
    for (int64_t at = fetch.offset; fetch.matches && at < held->end && answer.record_count < BATCH_MAX; at++) {
        answer.records[answer.record_count++] = held->log[at];
    }
    logs_check_read(w, broker, in->partition, fetch.offset, fetch.offset + answer.record_count);
    if (!sim_cut(w, index_of(w, broker), in->from)) {
        sim_event(w, &answer);
        if (ot_rng_chance(&w->rng, w->swarm.twice)) {
            answer.at_us = w->now_us + sim_delay(w);
            sim_event(w, &answer);
        }
    }
}

static void fetch_answered(struct world *w, struct broker *broker, const struct event *in)
{
    struct held *held = &broker->held[in->partition];
    if (!replica_answer_counts(&held->replica, &in->answer, logs_last_epoch(held))) {
        return;
    }
    if (in->number == held->fetch_number) {
        held->fetch_due_us = in->record_count > 0 || in->diverges ? w->now_us : w->now_us + 20000;
    }
    if (in->diverges) {
        int64_t cut = replica_cut(in->cut, logs_epoch_end(held, in->cut.epoch));
        CHECK(cut < held->end || held->end == 0);
        if (!logs_cut(w, broker, in->partition, cut)) {
            return;
        }
        w->truncated += (uint64_t)(held->end - cut);
        held->end = cut;
        held->flushed = OT_MIN(held->flushed, cut);
        held->truncations++;
        replica_truncated(&held->replica, cut);
        return;
    }
    for (uint32_t i = 0; i < in->record_count; i++) {
        if (!append(w, broker, in->partition, in->records[i])) {
            return;
        }
    }
    replica_follow_watermark(&held->replica, in->answer.high_watermark);
    check_follower(w, broker, in->partition);
}

/* ---- what is due */

static void send_proposal(struct world *w, struct broker *broker, uint32_t partition, const struct replica_proposal *proposal)
{
    struct held *held = &broker->held[partition];
    struct ask *ask = ask_new(w, broker, COORD_ASK_ALTER);
    ask->partition = partition;
    ask->number = proposal->number;
    ask->alter = (struct coord_alter){ .topic_id = w->topic, .partition = (int32_t)partition, .leader_epoch = proposal->leader_epoch,
        .partition_epoch = proposal->partition_epoch, .members = ask->members, .handover = proposal->handover };
    for (int32_t i = 0; i < held->replica.row.replica_count; i++) {
        if ((proposal->isr >> i & 1) != 0) {
            ask->members[ask->alter.member_count++] = (struct coord_member){ held->replica.peers[i].id, held->replica.peers[i].proposed_epoch };
        }
    }
    ask->request.u.alter = (struct coord_alter_ask){ .broker_id = broker->id, .broker_epoch = broker->epoch, .term = coord_term(w->coord), .sequence = ++broker->alters,
        .items = &ask->alter, .count = 1 };
    w->proposals++;
    ask_send(w, ask);
}

void broker_look(struct world *w, struct broker *broker)
{
    if (broker->paused_until_us > w->now_us) {
        return;
    }
    if (broker->up && broker->files != NULL && ot_rng_chance(&w->rng, 0.01)) {
        logs_checkpoint(w, broker);
    }
    for (uint32_t i = 0; i < PARTITIONS && broker->up; i++) {
        struct held *held = &broker->held[i];
        struct replica *replica = &held->replica;
        if (replica->class_ != w->class_ && ot_rng_chance(&w->rng, 0.01)) {
            replica_set_class(replica, w->class_);
        }
        struct replica_proposal proposal;
        enum coord_durable durable;
        if (replica->role == REPLICA_FOLLOWER && w->now_us >= held->fetch_due_us) {
            fetch_send(w, broker, i);
        }
        replica_tick(replica, clock_of(w, broker));
        if (replica_proposal(replica, &proposal) && w->now_us >= held->propose_due_us) {
            held->propose_due_us = w->now_us + 150000;
            send_proposal(w, broker, i, &proposal);
        }
        bool flushes = replica->role == REPLICA_FOLLOWER && w->class_ == REPLICA_FSYNC_ALL && held->flushed < held->end;
        if ((replica->flush_wanted || flushes || ot_rng_chance(&w->rng, 0.01)) && held->flushed < held->end) {
            flush_begin(w, broker, i);
        }
        if (replica_durable_due(replica, &durable)) {
            struct ask *ask = ask_new(w, broker, COORD_ASK_DURABLE);
            ask->report = (struct coord_report){ w->topic, (int32_t)i, replica->row.leader_epoch, replica->row.partition_epoch, durable, OT_OK };
            ask->request.u.durable = (struct coord_durable_ask){ broker->id, broker->epoch, &ask->report, 1 };
            replica_durable_told(replica);
            ask_send(w, ask);
        }
        check_watermark(w, broker, i);
    }
}

void sim_broker_event(struct world *w, struct event *event)
{
    struct broker *broker = &w->brokers[event->broker];
    bool lives = broker->up && broker->life == event->life;
    if (broker->up && broker->paused_until_us > w->now_us) {   /* it waits in the socket */
        struct event later = *event;
        later.at_us = broker->paused_until_us;
        sim_event(w, &later);
        return;
    }
    switch (event->kind) {
    case EVENT_START:
        if (!broker->up && broker->life == event->life) {
            broker_start(w, broker);
        }
        break;
    case EVENT_APPLY:
        if (lives && event->value.stamp.version > broker->applied_version) {
            apply(w, broker, &event->value);
        }
        coord_value_drop(&event->value);
        break;
    case EVENT_FETCH:
        if (broker->up) {
            fetch_asked(w, broker, event);
        }
        break;
    case EVENT_ANSWER:
        if (lives) {
            fetch_answered(w, broker, event);
        }
        break;
    case EVENT_FLUSHED: {
        struct held *held = &broker->held[event->partition];
        if (lives && held->truncations == event->truncations && logs_flush(w, broker, event->partition)) {
            held->flushed = OT_MAX(held->flushed, event->flushed);
            replica_flushed(&held->replica, event->flushed);
            check_watermark(w, broker, event->partition);
        }
        break;
    }
    case EVENT_HEARTBEAT:
        if (lives) {
            heartbeat(w, broker);
        }
        break;
    default: break;
    }
}
