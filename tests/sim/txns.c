/* Transactions end to end: the coordinator's machine, partitions with the engine's producer state, and transactional producers of both protocols over a network that
 * loses, delays and repeats. The coordinator dies at any point and starts from what its log kept; producers pause beyond their time-outs, crash, and are fenced.
 *
 *   ottla_sim_txns [--seed N] [--seeds N] [--steps N] [--bug NAME] [--verbose]
 * Whole or nothing: the records of a transaction have one fate in all partitions. What was told to be committed is there, what was told to be aborted is not, and
 * nothing is committed that nobody asked to commit. The last stable offset never goes back, and no transaction is open longer than its time-out and the patience of a
 * restart. The last partition is one of __consumer_offsets too: what is appended there are offsets of a group (txn_offsets.h). A failing seed is printed and replays exactly.
 * Bugs (each must be found): markers-early, forgets-answers, no-verify, no-stale, same-epoch, forgets-offsets */
#include "base/util.h"
#include "coordinator/txn.h"
#include "engine/batch.h"
#include "txn_offsets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLIENTS = 6, IDS = 4, PARTS = 4, RECORDS_MAX = 20000, TXNS_MAX = 8000, EVENTS_MAX = 4096, LOG_MAX = 40000, VERIFY_MAX = 256, PATIENCE_US = 20000000 };

#define CHECK(fact) ((fact) ? (void)0 : check_failed(#fact, __LINE__))
static uint64_t seed_now;
static bool verbose;
static enum bug { BUG_NONE, BUG_MARKERS_EARLY, BUG_FORGETS_ANSWERS, BUG_NO_VERIFY, BUG_NO_STALE, BUG_SAME_EPOCH, BUG_FORGETS_OFFSETS } bug;
static const char *const bug_names[] = { "", "markers-early", "forgets-answers", "no-verify", "no-stale", "same-epoch", "forgets-offsets" };
OT_NORETURN static void check_failed(const char *fact, int line)
{
    fprintf(stderr, "FAILED seed %llu line %d: %s\n", (unsigned long long)seed_now, line, fact);
    exit(1);
}

struct txn { int client; int16_t version; bool commit_sent; enum { TOLD_NOTHING, TOLD_COMMIT, TOLD_ABORT } told; int acked, shown, hidden; };
struct record { int64_t producer_id; int txn; bool marker, decided; int64_t at_us; int32_t timeout_ms; };
struct partition {
    struct eng_producers *producers;
    struct record *records; int count;
    int64_t stable;
};

enum step { INIT, ADD, PRODUCE, END, PAUSE };
struct client {
    int id;                                    /* of the transactional ids; two clients may share one */
    int16_t version;
    enum step step;
    int64_t producer_id; int16_t epoch;
    int32_t timeout_ms;
    uint32_t sequences[PARTS]; bool added[PARTS];
    int txn, left, partition;                  /* txn -1: none; records to send; where the next one goes */
    bool commit, stopped, waiting, gave_up;    /* gave_up: a batch of it may still be on its way */
    uint64_t attempt; int64_t retry_us;
};

/* A request on its way, at the coordinator, or its answer. */
struct ask {
    struct coord_txn_request request;
    struct coord_txn_place place;
    char topic[8];
    int client; uint64_t attempt;
    bool produce;                              /* the partition asks for a batch that it holds */
    int64_t producer_id; int16_t epoch; uint32_t sequence; int txn, partition; int16_t version; bool stale;
};
enum kind { TO_COORDINATOR, FROM_COORDINATOR, TO_PARTITION, FROM_PARTITION, MARK, MARKED, COMMITTED };
struct event {
    int64_t at_us; uint64_t order; enum kind kind; struct ask *ask;
    enum ot_err error;
    int life; uint64_t seq;
    struct mark { char id[8]; int64_t producer_id; int16_t epoch, version; bool commit; int32_t coordinator_epoch; struct coord_txn_place places[PARTS]; char topics[PARTS][8]; uint32_t count; } *mark;
};
struct entry { uint8_t *key, *value; uint32_t key_bytes, value_bytes; bool tombstone; };

static struct world {
    struct ot_rng rng;
    int64_t now_us;
    int loss_percent;                          /* of messages */
    struct coord_txns *txns; int life;
    struct coord_txns_config config;
    struct entry log[LOG_MAX]; int log_count, log_committed; uint64_t life_base;
    int64_t next_producer_id, restart_us, down_until_us;
    struct partition parts[PARTS];
    struct client clients[CLIENTS];
    struct txn txn[TXNS_MAX]; int txn_count;
    struct event events[EVENTS_MAX]; int event_count; uint64_t order;
    struct ask *verifying[VERIFY_MAX]; int verify_count;
    uint64_t attempts, commits, aborts, timeouts, fenced, restarts, stale, trace;
} w;

static uint32_t dice(uint32_t sides) { return (uint32_t)(ot_rng_next(&w.rng) % sides); }
static bool chance(int percent) { return (int)dice(100) < percent; }
static struct coord_txn_time now(void) { return (struct coord_txn_time){ w.now_us, 1700000000000 + w.now_us / 1000, 0 }; }

static struct event *post(enum kind kind, int64_t after_us)
{
    CHECK(w.event_count < EVENTS_MAX);
    struct event *event = &w.events[w.event_count++];
    *event = (struct event){ .at_us = w.now_us + after_us, .order = w.order++, .kind = kind, .life = w.life };
    return event;
}
static int64_t delay(void) { return chance(5) ? (int64_t)dice(3000000) : (int64_t)dice(3000) + 50; }

/* ---- the coordinator and its log */

static void drain(void);

static void keep(const struct coord_txn_out *out)
{
    CHECK(w.log_count < LOG_MAX);
    struct entry *entry = &w.log[w.log_count++];
    *entry = (struct entry){ malloc(out->key.bytes + 1u), malloc(out->value.bytes + 1u), out->key.bytes, out->value.bytes, out->value.null };
    memcpy(entry->key, out->key.data, out->key.bytes);
    if (!out->value.null) memcpy(entry->value, out->value.data, out->value.bytes);
}

static void send_mark(const struct coord_txn_out *out)
{
    struct mark *mark = calloc(1, sizeof *mark);
    (void)snprintf(mark->id, sizeof mark->id, "%.*s", (int)out->id.bytes, out->id.data);
    mark->producer_id = out->producer_id;
    mark->epoch = bug == BUG_SAME_EPOCH && out->version >= 2 ? (int16_t)(out->producer_epoch - 1) : out->producer_epoch;
    mark->version = bug == BUG_SAME_EPOCH ? 1 : out->version;
    mark->commit = out->commit;
    mark->coordinator_epoch = w.life;
    for (uint32_t i = 0; i < out->part_count; i++) {
        if (out->parts[i].done) continue;
        (void)snprintf(mark->topics[mark->count], 8, "%s", out->parts[i].topic->name);
        mark->places[mark->count] = (struct coord_txn_place){ .topic = ot_str_of(mark->topics[mark->count]), .partition = out->parts[i].partition };
        mark->count++;
    }
    post(MARK, delay())->mark = mark;
}

static void answered(struct ask *ask)
{
    struct event *event = post(FROM_COORDINATOR, !ask->produce || chance(10) ? delay() : 0);
    event->ask = ask;
    event->error = ask->request.error;
}

static void drain(void)
{
    struct coord_txn_out out;
    uint64_t seq = 0;
    struct ask *ids[CLIENTS * 4]; int id_count = 0;
    if (w.txns == NULL) return;
    while (coord_txns_next(w.txns, &out)) {
        switch (out.kind) {
        case COORD_TXN_APPEND:
            keep(&out);
            seq = out.seq;
            break;
        case COORD_TXN_MARKERS: send_mark(&out); break;
        case COORD_TXN_ID:
            CHECK(id_count < (int)OT_ARRAY_COUNT(ids));
            ids[id_count++] = OT_CONTAINER(out.request, struct ask, request);
            break;
        case COORD_TXN_REPLY: answered(OT_CONTAINER(out.request, struct ask, request)); break;
        case COORD_TXN_EVENT:
            if (out.event == COORD_TXN_TIMED_OUT) w.timeouts++;
            if (out.event == COORD_TXN_FENCED) w.fenced++;
            break;
        }
    }
    CHECK(!coord_txns_broken(w.txns));
    if (seq > 0) post(COMMITTED, (int64_t)dice(4000))->seq = seq;
    for (int i = 0; i < id_count; i++) {
        ids[i]->request.spare_id = w.next_producer_id++;
        coord_txns_request(w.txns, &ids[i]->request, now());
    }
    if (id_count > 0) drain();
    if (bug == BUG_FORGETS_ANSWERS && seq > 0 && w.txns != NULL) {
        coord_txns_committed(w.txns, seq, now());      /* answered before it is on the disk */
        drain();
    }
}

static void start(void)
{
    w.life++;
    CHECK(coord_txns_new(&w.config, &w.txns) == OT_OK);
    for (int i = 0; i < w.log_count; i++) {
        const struct entry *entry = &w.log[i];
        CHECK(coord_txns_replay(w.txns, (struct ot_blob){ entry->key, entry->key_bytes, false },
                  (struct ot_blob){ entry->tombstone ? NULL : entry->value, entry->value_bytes, entry->tombstone }) == OT_OK);
    }
    w.life_base = (uint64_t)w.log_count;
    coord_txns_loaded(w.txns, now());
    drain();
}

static void stop(void)
{
    struct coord_txn_out out;
    coord_txns_close(w.txns, OT_ERR_NOT_COORDINATOR);
    while (coord_txns_next(w.txns, &out)) answered(OT_CONTAINER(out.request, struct ask, request));
    coord_txns_free(w.txns);
    w.txns = NULL;
    const int kept = w.log_committed + (int)dice((uint32_t)(w.log_count - w.log_committed) + 1);       /* what was not committed may be there or not */
    for (int i = kept; i < w.log_count; i++) {
        free(w.log[i].key);
        free(w.log[i].value);
    }
    w.log_count = w.log_committed = kept;
    w.restarts++;
}

/* ---- partitions */

static void appended(struct partition *part, const struct eng_batch_info *info, const struct eng_marker *marker, const struct record *record)
{
    CHECK(part->count < RECORDS_MAX);
    const int64_t offset = part->count;
    CHECK(eng_producers_pend(part->producers, info, offset, offset, marker, now().wall_ms) == OT_OK);
    part->records[part->count++] = *record;
    if (part == &w.parts[PARTS - 1] && marker != NULL) txn_offsets_marker(info->producer_id, info->producer_epoch, marker->commit);
    else if (part == &w.parts[PARTS - 1]) txn_offsets_append(info->producer_id, info->producer_epoch);
    if (part == &w.parts[PARTS - 1] && chance(10)) txn_offsets_plain();
    if (part == &w.parts[PARTS - 1] && chance(2)) txn_offsets_restart();
    eng_producers_commit(part->producers, part->count, NULL, NULL);
    eng_producers_advance(part->producers, part->count);
    const int64_t stable = OT_MIN((int64_t)part->count, eng_producers_first_unstable(part->producers));
    CHECK(stable >= part->stable);
    part->stable = stable;
}

static struct eng_batch_info info_of(int64_t producer_id, int16_t epoch, int32_t sequence, bool control)
{
    return (struct eng_batch_info){ .base_offset = 0, .batch_bytes = 100, .base_timestamp = now().wall_ms, .max_timestamp = now().wall_ms, .producer_id = producer_id,
        .base_sequence = sequence, .record_count = 1, .producer_epoch = epoch, .magic = 2, .transactional = true, .control = control };
}

static enum ot_err write_marker(struct partition *part, const struct mark *mark, int index)
{
    const struct eng_batch_info info = info_of(mark->producer_id, mark->epoch, -1, true);
    const struct eng_marker marker = { .is_marker = true, .commit = mark->commit, .coordinator_epoch = mark->coordinator_epoch };
    struct eng_producer_check check;
    eng_producers_check(part->producers, &info, &marker, ENG_ORIGIN_COORDINATOR, mark->version, &check);
    if (check.error != OT_OK) return check.error;
    for (int i = 0; i < w.verify_count; i++)
        if (w.verifying[i]->partition == index && w.verifying[i]->producer_id == mark->producer_id && bug != BUG_NO_STALE) w.verifying[i]->stale = true;
    for (int i = 0; i < part->count; i++) {
        struct record *record = &part->records[i];
        if (record->marker || record->decided || record->producer_id != mark->producer_id) continue;
        record->decided = true;
        CHECK(w.now_us - record->at_us <= (int64_t)record->timeout_ms * 1000 + PATIENCE_US);
        *(mark->commit ? &w.txn[record->txn].shown : &w.txn[record->txn].hidden) += 1;
    }
    appended(part, &info, &marker, &(struct record){ .producer_id = mark->producer_id, .txn = -1, .marker = true, .decided = true, .at_us = w.now_us });
    return OT_OK;
}

static void mark(struct event *event)
{
    for (uint32_t i = 0; i < event->mark->count; i++) {
        struct coord_txn_place *place = &event->mark->places[i];
        const int fate = (int)dice(100);
        if (fate < w.loss_percent) {
            place->error = OT_ERR_NOT_LEADER_OR_FOLLOWER;
            continue;
        }
        place->error = write_marker(&w.parts[place->partition], event->mark, place->partition);
        if (place->error == OT_OK && fate < w.loss_percent + 5) place->error = OT_ERR_REQUEST_TIMED_OUT;
    }
    struct event *done = post(MARKED, delay());
    done->mark = event->mark;
    done->life = event->life;
}

static void marked(struct event *event)
{
    if (w.txns != NULL && event->life == w.life) {
        const struct coord_txn_marked result = { ot_str_of(event->mark->id), event->mark->producer_id, event->mark->epoch, event->mark->places, event->mark->count };
        coord_txns_marked(w.txns, &result, now());
        drain();
    }
    free(event->mark);
}

static void produced(struct ask *ask, enum ot_err error)
{
    struct event *event = post(FROM_PARTITION, delay());
    event->ask = ask;
    event->error = error;
}

static void append(struct ask *ask)
{
    struct partition *part = &w.parts[ask->partition];
    const struct eng_batch_info info = info_of(ask->producer_id, ask->epoch, (int32_t)ask->sequence, false);
    struct eng_producer_check check;
    eng_producers_check(part->producers, &info, NULL, ENG_ORIGIN_CLIENT, 0, &check);
    if (check.error == OT_OK && !check.duplicate)
        appended(part, &info, NULL, &(struct record){ .producer_id = ask->producer_id, .txn = ask->txn, .at_us = w.now_us, .timeout_ms = w.clients[ask->client].timeout_ms });
    produced(ask, check.error);
}

/* As broker/produce_verify.c. */
static void produce(struct ask *ask)
{
    struct eng_producer_view view;
    const bool open = eng_producers_find(w.parts[ask->partition].producers, ask->producer_id, true, &view) && view.current_txn_first_offset >= 0 && view.epoch == ask->epoch;
    if (open || (bug == BUG_NO_VERIFY && ask->version < 2)) {
        append(ask);
        return;
    }
    ask->produce = true;
    ask->request.ask = ask->version >= 2 ? COORD_TXN_ADD : COORD_TXN_VERIFY;
    ask->request.version = ask->version;
    CHECK(w.verify_count < VERIFY_MAX);
    w.verifying[w.verify_count++] = ask;
    post(TO_COORDINATOR, chance(10) ? (int64_t)dice(2000000) : (int64_t)dice(300))->ask = ask;
}

static void verified(struct ask *ask, enum ot_err error)
{
    for (int i = 0; i < w.verify_count; i++)
        if (w.verifying[i] == ask) w.verifying[i] = w.verifying[--w.verify_count];
    ask->produce = false;
    if (error == OT_OK && ask->request.ask == COORD_TXN_VERIFY) error = ask->place.error;
    if (error == OT_OK && ask->stale) {
        w.stale++;
        error = OT_ERR_INVALID_TXN_STATE;
    }
    if (error == OT_OK) append(ask);
    else produced(ask, error == OT_ERR_PRODUCER_FENCED ? OT_ERR_INVALID_PRODUCER_EPOCH : error);
}

/* ---- producers */

static void act(struct client *client);

static struct ask *ask_new(struct client *client, enum coord_txn_ask what)
{
    static const char *const ids[IDS] = { "tx-0", "tx-1", "tx-2", "tx-3" };
    struct ask *ask = calloc(1, sizeof *ask);
    ask->client = (int)(client - w.clients);
    ask->attempt = client->attempt = ++w.attempts;
    ask->request = coord_txn_request_default(what, ot_str_of(ids[client->id]));
    ask->request.producer_id = client->producer_id;
    ask->request.producer_epoch = client->epoch;
    ask->request.version = client->version;
    (void)snprintf(ask->topic, sizeof ask->topic, "t");
    ask->place = (struct coord_txn_place){ .topic = ot_str_of(ask->topic), .partition = client->partition };
    ask->request.places = &ask->place;
    ask->request.place_count = 1;
    ask->producer_id = client->producer_id;
    ask->epoch = client->epoch;
    ask->txn = client->txn;
    ask->partition = client->partition;
    ask->version = client->version;
    client->retry_us = w.now_us + 1000000;
    return ask;
}

static struct ask *ask_copy(const struct ask *from)
{
    struct ask *ask = malloc(sizeof *ask);
    *ask = *from;
    ask->request.id = from->request.id;
    ask->place.topic = ot_str_of(ask->topic);
    ask->request.places = &ask->place;
    return ask;
}

/* The old protocol speaks over one connection: when it is opened anew, what was in flight on the old one is gone, unless it is already past the network. */
static void hang_up(const struct client *client)
{
    for (int i = 0; i < w.event_count; i++) {
        struct event *event = &w.events[i];
        if (event->ask == NULL || &w.clients[event->ask->client] != client || event->ask->produce) continue;
        if (event->kind != TO_COORDINATOR && (event->kind != TO_PARTITION || client->gave_up)) continue;
        free(event->ask);
        *event = w.events[--w.event_count];
        i--;
    }
}

static void dispatch(struct client *client, enum kind kind, struct ask *ask)
{
    if (chance(w.loss_percent)) {
        free(ask);
        return;
    }
    if (client->version >= 2 && chance(w.loss_percent)) post(kind, delay() * 3)->ask = ask_copy(ask);      /* twice */
    post(kind, delay())->ask = ask;
}

static void begin(struct client *client)
{
    if (client->stopped) {
        client->step = PAUSE;
        client->retry_us = INT64_MAX;
        return;
    }
    CHECK(w.txn_count < TXNS_MAX);
    client->txn = w.txn_count++;
    w.txn[client->txn] = (struct txn){ .client = (int)(client - w.clients), .version = client->version };
    client->left = 1 + (int)dice(6);
    client->commit = chance(75);
    memset(client->added, 0, sizeof client->added);
    client->gave_up = false;
    client->partition = (int)dice(PARTS);
    client->step = client->version < 2 ? ADD : PRODUCE;
}

static void reborn(struct client *client)
{
    client->producer_id = client->epoch = -1;
    client->txn = -1;
    client->step = INIT;
    client->gave_up = true;                    /* what it left in flight arrives late */
    client->waiting = false;
    client->attempt = ++w.attempts;
    client->retry_us = w.now_us + (int64_t)dice(3000000);
    memset(client->sequences, 0, sizeof client->sequences);
}

static void act(struct client *client)
{
    struct ask *ask;
    if (client->version < 2 && client->waiting && client->step == PRODUCE && chance(30)) {     /* delivery timed out: abort, and go on with a new epoch (KIP-360) */
        client->gave_up = true;
        client->commit = false;
        client->step = END;
    }
    if (client->version < 2) hang_up(client);
    client->waiting = true;
    switch (client->step) {
    case INIT:
        ask = ask_new(client, COORD_TXN_INIT);
        ask->request.timeout_ms = client->timeout_ms;
        dispatch(client, TO_COORDINATOR, ask);
        break;
    case ADD: dispatch(client, TO_COORDINATOR, ask_new(client, COORD_TXN_ADD)); break;
    case PRODUCE:
        ask = ask_new(client, COORD_TXN_ADD);
        ask->sequence = client->sequences[client->partition];
        dispatch(client, TO_PARTITION, ask);
        break;
    case END:
        ask = ask_new(client, COORD_TXN_END);
        ask->request.commit = client->commit;
        if (client->commit) w.txn[client->txn].commit_sent = true;
        dispatch(client, TO_COORDINATOR, ask);
        break;
    case PAUSE:
        if (client->stopped) client->retry_us = INT64_MAX;
        else begin(client);
        break;
    }
}

static bool is_retriable(enum ot_err error)
{
    return error == OT_ERR_CONCURRENT_TRANSACTIONS || error == OT_ERR_NOT_COORDINATOR || error == OT_ERR_COORDINATOR_NOT_AVAILABLE || error == OT_ERR_NOT_ENOUGH_REPLICAS;
}

static void next_record(struct client *client)
{
    if (client->left == 0) {
        client->step = END;
        return;
    }
    client->partition = (int)dice(PARTS);
    client->step = client->version < 2 && !client->added[client->partition] ? ADD : PRODUCE;
}

static void succeeded(struct client *client, const struct ask *ask)
{
    switch (client->step) {
    case INIT:
        client->producer_id = ask->request.producer_id_out;
        client->epoch = ask->request.producer_epoch_out;
        memset(client->sequences, 0, sizeof client->sequences);
        begin(client);
        break;
    case ADD:
        client->added[client->partition] = true;
        client->step = PRODUCE;
        break;
    case PRODUCE:
        client->sequences[client->partition]++;
        client->left--;
        w.txn[client->txn].acked++;
        next_record(client);
        break;
    case END:
        w.txn[client->txn].told = client->commit ? TOLD_COMMIT : TOLD_ABORT;
        *(client->commit ? &w.commits : &w.aborts) += 1;
        if (client->version >= 2) {
            client->producer_id = ask->request.producer_id_out;
            client->epoch = ask->request.producer_epoch_out;
            memset(client->sequences, 0, sizeof client->sequences);
        }
        client->step = client->gave_up && client->version < 2 ? INIT : PAUSE;
        if (client->step == PAUSE) begin(client);
        break;
    case PAUSE: break;
    }
}

static void hear(struct client *client, const struct ask *ask, enum ot_err error)
{
    if (ask->attempt != client->attempt || client->step == PAUSE) return;
    client->waiting = false;
    if (is_retriable(error)) {
        client->retry_us = w.now_us + (int64_t)dice(50000) + 1000;
        client->attempt = ++w.attempts;
        return;
    }
    if (error == OT_OK) {
        succeeded(client, ask);
    } else if (error == OT_ERR_TRANSACTION_ABORTABLE && client->step == PRODUCE) {
        client->commit = false;
        client->step = END;
    } else {
        reborn(client);
        return;
    }
    client->attempt = ++w.attempts;
    if (client->step == PAUSE) return;
    client->retry_us = w.now_us + (int64_t)dice(2000) + (chance(2) && !client->stopped ? (int64_t)dice(30000000) : 0);    /* now and then it sleeps */
    if (chance(1) && !client->stopped) reborn(client);                                                                    /* or crashes */
}

/* ---- the loop */

static void at_coordinator(struct ask *ask)
{
    if (w.txns == NULL) {
        ask->request.error = OT_ERR_NOT_COORDINATOR;
        answered(ask);
        return;
    }
    coord_txns_request(w.txns, &ask->request, now());
    if (bug == BUG_MARKERS_EARLY && ask->request.ask == COORD_TXN_END && w.txns != NULL) {
        struct coord_txn_view view;
        if (coord_txns_find(w.txns, ask->request.id, &view) && view.state == OT_TRANSACTION_STATE_PREPARE_COMMIT) {
            const struct coord_txn_out out = { .id = view.id, .producer_id = view.producer_id, .producer_epoch = view.producer_epoch, .version = view.version >= 2 ? 2 : 1,
                .commit = true, .parts = view.parts, .part_count = view.part_count };
            send_mark(&out);
        }
    }
    drain();
}

static void handle(struct event *event)
{
    w.trace = ot_hash64(&event->kind, sizeof event->kind, w.trace ^ (uint64_t)event->at_us);
    switch (event->kind) {
    case TO_COORDINATOR: at_coordinator(event->ask); break;
    case FROM_COORDINATOR:
        if (event->ask->produce) {
            verified(event->ask, event->error);
            break;
        }
        if (!chance(w.loss_percent)) hear(&w.clients[event->ask->client], event->ask, event->error);
        free(event->ask);
        break;
    case TO_PARTITION: produce(event->ask); break;
    case FROM_PARTITION:
        if (!chance(w.loss_percent)) hear(&w.clients[event->ask->client], event->ask, event->error);
        free(event->ask);
        break;
    case MARK: mark(event); break;
    case MARKED: marked(event); break;
    case COMMITTED:
        if (w.txns == NULL || event->life != w.life) break;
        w.log_committed = OT_MAX(w.log_committed, (int)(w.life_base + event->seq));
        coord_txns_committed(w.txns, event->seq, now());
        drain();
        break;
    }
}

static bool earlier(const struct event *a, const struct event *b) { return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order; }

/* What is due first happens. False: nothing is due any more, ever. */
static bool step_once(void)
{
    int first = -1, who = -1;
    int64_t at_us = INT64_MAX, tick_us = w.txns == NULL ? w.down_until_us : coord_txns_deadline_us(w.txns);
    for (int i = 0; i < w.event_count; i++)
        if (first < 0 || earlier(&w.events[i], &w.events[first])) first = i;
    if (first >= 0) at_us = w.events[first].at_us;
    for (int i = 0; i < CLIENTS; i++) {
        if (w.clients[i].retry_us >= at_us) continue;
        at_us = w.clients[i].retry_us;
        who = i;
    }
    const int64_t next_us = OT_MIN(OT_MIN(at_us, tick_us), w.restart_us);
    if (next_us == INT64_MAX) return false;
    w.now_us = OT_MAX(w.now_us, next_us);
    if (w.restart_us == next_us) {
        if (w.txns != NULL) stop();
        w.down_until_us = w.now_us + (int64_t)dice(2000000);
        w.restart_us = w.now_us + 3000000 + (int64_t)dice(20000000);
    } else if (tick_us == next_us && w.txns == NULL) {
        w.down_until_us = INT64_MAX;
        start();
    } else if (tick_us == next_us) {
        coord_txns_tick(w.txns, now());
        drain();
    } else if (who >= 0) {
        act(&w.clients[who]);
    } else {
        struct event event = w.events[first];
        w.events[first] = w.events[--w.event_count];
        handle(&event);
    }
    return true;
}

static void judge(void)
{
    struct coord_txn_counts counts;
    coord_txns_counts(w.txns, &counts);
    CHECK(counts.open == 0 && counts.late == 0);
    for (int i = 0; i < PARTS; i++) {
        CHECK(eng_producers_first_unstable(w.parts[i].producers) == INT64_MAX);
        for (int j = 0; j < w.parts[i].count; j++) CHECK(w.parts[i].records[j].decided);
    }
    for (int i = 0; i < w.txn_count; i++) {
        const struct txn *txn = &w.txn[i];
        CHECK(txn->shown == 0 || txn->hidden == 0);                    /* whole or nothing */
        CHECK(txn->shown == 0 || txn->commit_sent);
        CHECK(txn->told != TOLD_COMMIT || txn->shown == txn->acked);
        CHECK(txn->told != TOLD_ABORT || txn->shown == 0);
        CHECK(txn->shown == 0 || txn->shown == txn->acked);
    }
}

static void run(uint64_t seed, int steps)
{
    seed_now = seed;
    memset(&w, 0, sizeof w);
    ot_rng_seed(&w.rng, seed);
    w.loss_percent = (int)dice(12);
    w.config = (struct coord_txns_config){ .timeout_ms_max = 900000, .expiration_ms = 3600000, .version = (int16_t)dice(3), .wait_us = chance(50) ? 100000 : 0,
        .bytes_max = 64 << 20, .record_bytes_max = 1000000 };
    w.next_producer_id = 1000;
    txn_offsets_begin(seed, bug == BUG_FORGETS_OFFSETS);
    w.down_until_us = INT64_MAX;
    w.restart_us = chance(80) ? (int64_t)dice(10000000) : INT64_MAX;
    for (int i = 0; i < PARTS; i++) {
        CHECK(eng_producers_new(1000, 86400000, &w.parts[i].producers) == OT_OK);
        w.parts[i].records = calloc(RECORDS_MAX, sizeof(struct record));
    }
    for (int i = 0; i < CLIENTS; i++) {
        w.clients[i] = (struct client){ .id = (int)dice(IDS), .version = chance(50) ? 2 : 0, .timeout_ms = 2000 + (int32_t)dice(20000) };
        reborn(&w.clients[i]);
    }
    start();
    for (int i = 0; i < steps && w.txn_count + CLIENTS < TXNS_MAX && step_once(); i++) {
    }
    w.loss_percent = 0;                        /* the network heals, the coordinator lives, nobody begins anew: all must come to an end */
    w.restart_us = INT64_MAX;
    if (w.txns == NULL) w.down_until_us = w.now_us;
    for (int i = 0; i < CLIENTS; i++) w.clients[i].stopped = true;
    const int64_t end_us = w.now_us + 120000000;
    while (w.now_us < end_us && step_once()) {
    }
    for (int i = 0; i < CLIENTS; i++) {
        if (w.clients[i].version < 2) hang_up(&w.clients[i]);
    }
    judge();
    if (verbose)
        printf("seed %llu: %d transactions, %llu committed, %llu aborted, %llu timed out, %llu fenced, %llu restarts, %llu stale, trace %016llx\n", (unsigned long long)seed,
            w.txn_count, (unsigned long long)w.commits, (unsigned long long)w.aborts, (unsigned long long)w.timeouts, (unsigned long long)w.fenced,
            (unsigned long long)w.restarts, (unsigned long long)w.stale, (unsigned long long)w.trace);
    stop();
    txn_offsets_end();
    for (int i = 0; i < w.event_count; i++) {
        free(w.events[i].ask);
        free(w.events[i].mark);
    }
    for (int i = 0; i < PARTS; i++) {
        eng_producers_free(w.parts[i].producers);
        free(w.parts[i].records);
    }
    for (int i = 0; i < w.log_count; i++) {
        free(w.log[i].key);
        free(w.log[i].value);
    }
}

int main(int argc, char **argv)
{
    uint64_t first = 1, count = 1;
    int steps = 20000;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--verbose") == 0) verbose = true;
        else if (strcmp(argv[i], "--seed") == 0) first = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--seeds") == 0) count = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--steps") == 0) steps = atoi(value);
        for (size_t j = 1; strcmp(argv[i], "--bug") == 0 && j < OT_ARRAY_COUNT(bug_names); j++)
            if (strcmp(value, bug_names[j]) == 0) bug = (enum bug)j;
    }
    for (uint64_t seed = first; seed < first + count; seed++) run(seed, steps);
    printf("%llu seeds\n", (unsigned long long)count);
    return 0;
}
