/* The machine of each partition of __transaction_state (coordinator/txn.h) between its shard and the rest: records go to the shard's log, markers to the partitions
 * of a transaction, answers to their doors. Everything here runs on the shard's executor but broker_txn itself, open and replay.
 *
 * A state that was closed lives on, empty, until the markers that it sent out are back. */
#include "broker/room.h"

#include "base/log.h"
#include "base/mem.h"
#include "broker/features.h"
#include "broker/transactions.h"
#include "broker/txn_away.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { APPEND_RECORDS = 64, WAIT_US = 100000 };
#define BYTES_MAX (64u << 20)                          /* of one shard, where no pool says more or less */

struct broker_txn_state {
    struct broker *broker;
    struct broker_shard *shard;
    int32_t leader_epoch;
    struct coord_txns *txns;                           /* NULL: closed */
    struct ot_timer timer;
    uint32_t refs;                                     /* 1, and one for each marking under way */
    struct coord_txn_counts told;                      /* of the counts, to the totals */
    uint64_t charged_bytes;                            /* to the pool that all groups and transactions share */
    bool draining;
};

struct txn_write { struct broker_shard_write write; uint64_t seq; };
struct marking {                                       /* markers of one transaction on their way */
    struct broker_markers markers;
    struct broker_marker marker;
    struct broker_txn_state *state;
    bool again;
    uint32_t id_bytes;
    char *id;                                          /* behind the places, as are the names of topics */
    struct coord_txn_place places[];
};

static void drain(struct broker_txn_state *state);

static struct coord_txn_time time_of(const struct broker_txn_state *state)
{
    struct ot_exec *exec = broker_shard_exec(state->shard);
    const int64_t now_us = ot_exec_now_us(exec);
    return (struct coord_txn_time){ now_us, ot_exec_wall_ms(exec), broker_steady_wall_ms(state->broker, now_us) };
}

static void state_unref(struct broker_txn_state *state)
{
    if (--state->refs == 0) free(state);
}

static struct coord_txns_config config_of(struct broker *broker)
{
    const struct broker_config *config = broker_config_current(broker->setup.config);
    return (struct coord_txns_config){ .timeout_ms_max = config->transaction_max_timeout_ms, .expiration_ms = config->transactional_id_expiration_ms,
        .version = broker_transaction_version(broker), .wait_us = WAIT_US, .bytes_max = BYTES_MAX, .record_bytes_max = 900000 };
}

static void configure(struct broker_txn_state *state)
{
    struct coord_txns_config config = config_of(state->broker);
    const uint32_t batch_max = broker_shard_batch_max(state->shard);
    if (batch_max > 4096) config.record_bytes_max = batch_max - 2048;      /* a key, overheads */
    const struct ot_mem_pool *pool = state->broker->setup.groups_pool;
    const uint64_t used = pool == NULL ? 0 : ot_mem_used_bytes(pool);
    if (pool != NULL) config.bytes_max = state->charged_bytes + (pool->cap_bytes > used ? pool->cap_bytes - used : 0);
    coord_txns_configure(state->txns, &config);
}

/* ---- records */

static void write_done(struct broker_shard_write *write, void *opaque, enum ot_err err)
{
    struct txn_write *done = OT_CONTAINER(write, struct txn_write, write);
    struct broker_txn_state *state = opaque;
    if (err == OT_OK) {
        coord_txns_committed(state->txns, done->seq, time_of(state));
        free(done);
        drain(state);
        return;
    }
    free(done);
    /* nobody knows whether it will be committed: the log says it when it is loaded anew */
    if (err == OT_ERR_REQUEST_TIMED_OUT) broker_shard_fail(state->shard, OT_ERR_COORDINATOR_NOT_AVAILABLE);
}

static void append(struct broker_txn_state *state, const struct broker_shard_append_record *records, uint32_t count, uint64_t seq)
{
    struct txn_write *write = count == 0 ? NULL : malloc(sizeof *write);
    if (count == 0) return;
    if (write == NULL) {
        broker_shard_fail(state->shard, OT_ERR_NO_MEMORY);
        return;
    }
    *write = (struct txn_write){ .write = { .records = records, .count = count, .producer_id = -1, .producer_epoch = -1, .done = write_done }, .seq = seq };
    if (broker_shard_append(state->shard, &write->write) != OT_OK) free(write);        /* the shard has asked to be closed */
}

/* ---- markers */

static void marked(struct broker_call *call)
{
    struct marking *marking = OT_CONTAINER(call, struct marking, markers.call);
    struct broker_txn_state *state = marking->state;
    struct broker_marker *marker = &marking->marker;
    for (uint32_t i = 0; i < marker->place_count && !marking->again; i++) {
        const struct coord_txn_place *place = &marker->places[i];
        char field[OT_LOG_FIELD_BYTES];
        if (place->error == OT_OK) continue;
        ot_log(OT_LOG_WARN, "txn", "marker_not_written", "transactional_id=%s topic=%.*s partition=%d error=%s",
            ot_log_field_n(field, marking->id, marking->id_bytes), (int)place->topic.bytes, place->topic.data, place->partition, ot_err_name(place->error));
    }
    if (state->txns != NULL) {
        const struct coord_txn_marked result = { { marking->id, marking->id_bytes, false }, marker->producer_id, marker->producer_epoch, marker->places,
            marking->markers.error == OT_OK ? marker->place_count : 0 };
        coord_txns_marked(state->txns, &result, time_of(state));
        drain(state);
    }
    free(marking);
    state_unref(state);
}

static struct marking *marking_new(const struct coord_txn_out *out)
{
    uint32_t count = 0;
    size_t names = 0;
    for (uint32_t i = 0; i < out->part_count; i++) {
        if (out->parts[i].done) continue;
        count++;
        names += out->parts[i].topic->bytes;
    }
    struct marking *marking = calloc(1, sizeof *marking + count * sizeof marking->places[0] + out->id.bytes + names);
    if (marking == NULL) return NULL;
    char *at = (char *)&marking->places[count];
    marking->id = memcpy(at, out->id.data, out->id.bytes);
    marking->id_bytes = out->id.bytes;
    at += out->id.bytes;
    count = 0;
    for (uint32_t i = 0; i < out->part_count; i++) {
        const struct coord_txn_part *part = &out->parts[i];
        if (part->done) continue;
        marking->places[count++] = (struct coord_txn_place){ .topic = { memcpy(at, part->topic->name, part->topic->bytes), part->topic->bytes, false }, .partition = part->partition };
        at += part->topic->bytes;
    }
    marking->marker = (struct broker_marker){ .producer_id = out->producer_id, .producer_epoch = out->producer_epoch, .version = out->version, .commit = out->commit,
        .places = marking->places, .place_count = count };
    return marking;
}

static void send_markers(struct broker_txn_state *state, const struct coord_txn_out *out)
{
    struct marking *marking = marking_new(out);
    if (marking == NULL) {                             /* tried again later: the machine counts this as a try */
        const struct coord_txn_marked nothing = { out->id, out->producer_id, out->producer_epoch, NULL, 0 };
        coord_txns_marked(state->txns, &nothing, time_of(state));
        return;
    }
    marking->marker.coordinator_epoch = state->leader_epoch;
    marking->state = state;
    marking->again = out->again;
    state->refs++;
    marking->markers = (struct broker_markers){ .call = { .home = broker_shard_exec(state->shard), .done = marked }, .markers = &marking->marker, .marker_count = 1,
        .anywhere = true };
    broker_markers(state->broker, &marking->markers);
}

/* ---- answers and lines */

static void answer_run(struct ot_task *task)
{
    struct broker_txn *txn = OT_CONTAINER(task, struct broker_txn, call.task);
    txn->call.done(&txn->call);
}

static void answer(struct broker_txn *txn)
{
    txn->call.task.run = answer_run;
    ot_exec_post(txn->call.home, &txn->call.task);
}

static void refuse(struct broker_txn *txn, enum ot_err err)
{
    struct coord_txn_request *request = &txn->request;
    request->error = err;
    for (uint32_t i = 0; i < request->place_count; i++) request->places[i].error = err;
    answer(txn);
}

static void tell(const struct coord_txn_out *out)
{
    char id[OT_LOG_FIELD_BYTES], place[OT_LOG_FIELD_BYTES];
    ot_log_field_n(id, out->id.data, out->id.bytes);
    switch (out->event) {
    case COORD_TXN_TIMED_OUT:
        ot_log(OT_LOG_WARN, "txn", "timed_out", "transactional_id=%s producer_id=%lld producer_epoch=%d age_ms=%lld", id, (long long)out->producer_id, out->producer_epoch,
            (long long)out->age_ms);
        break;
    case COORD_TXN_FENCED:
        ot_log(OT_LOG_INFO, "txn", "fenced", "transactional_id=%s producer_id=%lld producer_epoch=%d age_ms=%lld", id, (long long)out->producer_id, out->producer_epoch,
            (long long)out->age_ms);
        break;
    case COORD_TXN_EXPIRED:
        ot_log(OT_LOG_INFO, "txn", "id_expired", "transactional_id=%s producer_id=%lld idle_ms=%lld", id, (long long)out->producer_id, (long long)out->age_ms);
        break;
    case COORD_TXN_MARKER_DROPPED:
        ot_log(OT_LOG_WARN, "txn", "marker_dropped", "transactional_id=%s producer_id=%lld place=%s error=%s", id, (long long)out->producer_id,
            ot_log_field(place, out->place), ot_err_name(out->error));
        break;
    }
}

/* ---- fresh producer ids */

static void fresh_done(struct broker_call *call)
{
    struct broker_txn *txn = OT_CONTAINER(call, struct broker_txn, fresh.call);
    if (txn->fresh.error != OT_OK) {
        txn->request.error = OT_ERR_COORDINATOR_NOT_AVAILABLE;
        txn->call.done(&txn->call);                    /* on its home already */
        return;
    }
    txn->request.spare_id = txn->fresh.producer_id;
    broker_txn(txn->broker, txn);
}

/* By way of the asker's home: a shard that goes away meanwhile is looked for again. */
static void fetch_id(struct broker_txn *txn)
{
    txn->fresh = (struct broker_producer_id){ .call = { .home = txn->call.home, .done = fresh_done } };
    broker_producer_id(txn->broker, &txn->fresh);
}

/* ---- the machine's outputs */

static struct ot_series *ended(struct broker *broker, const char *outcome)
{
    const char *labels[] = { outcome };
    return ot_series_get(broker->setup.metrics, OT_METRIC_transactions_ended_total, labels);
}

void broker_txns_init(struct broker *broker)
{
    if (broker->setup.metrics == NULL) return;
    broker->txns.committed = ended(broker, "commit");
    broker->txns.aborted = ended(broker, "abort");
    broker->txns.timed_out = ended(broker, "timeout");
    broker->txns.fenced = ended(broker, "fence");
}

static void tell_totals(struct broker_txn_state *state)
{
    struct broker_txn_totals *totals = &state->broker->txns;
    struct coord_txn_counts now = { 0 };
    const struct coord_txn_counts *before = &state->told;
    if (state->txns != NULL) coord_txns_counts(state->txns, &now);
    atomic_fetch_add_explicit(&totals->open, (int64_t)now.open - before->open, memory_order_relaxed);
    atomic_fetch_add_explicit(&totals->late, (int64_t)now.late - before->late, memory_order_relaxed);
    if (state->txns != NULL && totals->committed != NULL) {
        ot_series_add(totals->committed, now.committed - before->committed);
        ot_series_add(totals->aborted, now.aborted - before->aborted);
        ot_series_add(totals->timed_out, now.timed_out - before->timed_out);
        ot_series_add(totals->fenced, now.fenced - before->fenced);
    }
    state->told = now;
    struct ot_mem_pool *pool = state->broker->setup.groups_pool;
    const uint64_t bytes = state->txns == NULL ? 0 : coord_txns_bytes(state->txns);
    if (pool == NULL) return;
    if (bytes > state->charged_bytes) ot_mem_force(pool, bytes - state->charged_bytes);
    else ot_mem_give(pool, state->charged_bytes - bytes);
    state->charged_bytes = bytes;
}

static void arm(struct broker_txn_state *state)
{
    const int64_t deadline_us = coord_txns_deadline_us(state->txns);
    if (deadline_us == INT64_MAX) ot_exec_timer_cancel(broker_shard_exec(state->shard), &state->timer);
    else ot_exec_timer_set(broker_shard_exec(state->shard), &state->timer, deadline_us);
}

static void drain(struct broker_txn_state *state)
{
    struct broker_shard_append_record records[APPEND_RECORDS];
    struct coord_txn_out out;
    uint32_t count = 0;
    size_t bytes = 0;
    uint64_t seq = 0;
    const size_t bytes_max = broker_shard_batch_max(state->shard);
    if (state->draining) return;                       /* what asked for it is drained by the loop below */
    state->draining = true;
    while (coord_txns_next(state->txns, &out)) {
        const size_t more = out.key.bytes + out.value.bytes + 64u;
        if (out.kind != COORD_TXN_APPEND || count == APPEND_RECORDS || bytes + more > bytes_max) {
            append(state, records, count, seq);
            count = 0;
            bytes = 0;
        }
        switch (out.kind) {
        case COORD_TXN_APPEND:
            records[count++] = (struct broker_shard_append_record){ out.key, out.value };
            bytes += more;
            seq = out.seq;
            break;
        case COORD_TXN_MARKERS: send_markers(state, &out); break;
        case COORD_TXN_ID: fetch_id(OT_CONTAINER(out.request, struct broker_txn, request)); break;
        case COORD_TXN_REPLY: answer(OT_CONTAINER(out.request, struct broker_txn, request)); break;
        case COORD_TXN_EVENT: tell(&out); break;
        }
    }
    append(state, records, count, seq);
    state->draining = false;
    if (coord_txns_broken(state->txns)) broker_shard_fail(state->shard, OT_ERR_NO_MEMORY);
    tell_totals(state);
    arm(state);
}

static void timer_fired(struct ot_timer *timer)
{
    struct broker_txn_state *state = OT_CONTAINER(timer, struct broker_txn_state, timer);
    if (broker_shard_writable(state->shard) != OT_OK) {        /* a full disk: what is due stays due */
        ot_exec_timer_set(broker_shard_exec(state->shard), &state->timer, time_of(state).now_us + 1000000);
        return;
    }
    configure(state);
    coord_txns_tick(state->txns, time_of(state));
    drain(state);
}

/* ---- the kind of shard */

static int32_t partitions(const struct broker_config *config) { return config->transaction_state_log_num_partitions; }

static uint32_t topic_configs(const struct broker_config *config, int16_t *replication_factor_out, struct broker_shard_config *out)
{
    uint32_t count = 0;
    *replication_factor_out = (int16_t)config->transaction_state_log_replication_factor;
    out[count++] = (struct broker_shard_config){ "cleanup.policy", "compact" };
    out[count++] = (struct broker_shard_config){ "compression.type", "uncompressed" };
    out[count++] = (struct broker_shard_config){ "unclean.leader.election.enable", "false" };
    out[count] = (struct broker_shard_config){ "min.insync.replicas", "" };
    (void)snprintf(out[count].value, sizeof out[count].value, "%d", config->transaction_state_log_min_isr);
    count++;
    out[count] = (struct broker_shard_config){ "segment.bytes", "" };
    (void)snprintf(out[count].value, sizeof out[count].value, "%d", config->transaction_state_log_segment_bytes);
    return count + 1;
}

static void *state_open(struct broker *broker, struct broker_shard *shard, int32_t partition, int32_t leader_epoch)
{
    struct broker_txn_state *state = calloc(1, sizeof *state);
    const struct coord_txns_config config = config_of(broker);
    (void)partition;
    if (state == NULL) return NULL;
    *state = (struct broker_txn_state){ .broker = broker, .shard = shard, .leader_epoch = leader_epoch, .timer = { .fired = timer_fired }, .refs = 1 };
    if (coord_txns_new(&config, &state->txns) == OT_OK) return state;
    free(state);
    return NULL;
}

static enum ot_err state_replay(void *opaque, const struct broker_shard_record *record)
{
    struct broker_txn_state *state = opaque;
    const enum ot_err err = coord_txns_replay(state->txns, record->key, record->value);
    if (err == OT_OK || err == OT_ERR_NO_MEMORY) return err;
    ot_log(OT_LOG_ERROR, "txn", "record_unreadable", "partition=%d offset=%lld error=%s", broker_shard_partition(state->shard), (long long)record->offset, ot_err_name(err));
    return OT_OK;
}

static void state_replay_marker(void *opaque, int64_t producer_id, int16_t producer_epoch, bool commit)
{
    (void)opaque, (void)producer_id, (void)producer_epoch, (void)commit;       /* nobody writes transactional records here */
}

static void state_loaded(void *opaque)
{
    struct broker_txn_state *state = opaque;
    configure(state);
    coord_txns_loaded(state->txns, time_of(state));
    drain(state);
}

static void state_close(void *opaque, enum ot_err why)
{
    struct broker_txn_state *state = opaque;
    struct coord_txn_out out;
    ot_exec_timer_cancel(broker_shard_exec(state->shard), &state->timer);
    coord_txns_close(state->txns, why);
    while (coord_txns_next(state->txns, &out)) answer(OT_CONTAINER(out.request, struct broker_txn, request));
    coord_txns_free(state->txns);
    state->txns = NULL;
    tell_totals(state);
    state_unref(state);
}

const struct broker_shard_kind broker_txn_kind = { .topic = "__transaction_state", .partitions = partitions, .topic_configs = topic_configs, .open = state_open,
    .replay = state_replay, .replay_marker = state_replay_marker, .loaded = state_loaded, .close = state_close };

const struct coord_txns *broker_txn_machine(const void *state) { return ((const struct broker_txn_state *)state)->txns; }

/* ---- requests */

static void op_run(struct broker_shard_op *op, void *opaque, enum ot_err err)
{
    struct broker_txn *txn = OT_CONTAINER(op, struct broker_txn, op);
    struct broker_txn_state *state = opaque;
    if (err == OT_OK && txn->request.ask != COORD_TXN_VERIFY) err = broker_shard_writable(state->shard);
    if (err != OT_OK) {
        refuse(txn, err);
        return;
    }
    configure(state);
    coord_txns_request(state->txns, &txn->request, time_of(state));
    drain(state);
}

static void topic_made(struct broker_call *call)
{
    struct broker_txn *txn = OT_CONTAINER(call, struct broker_txn, topic.call);
    if (txn->topic.error == OT_OK) {
        broker_txn(txn->broker, txn);
        return;
    }
    txn->request.error = txn->topic.error;
    txn->call.done(&txn->call);
}

void broker_txn(struct broker *broker, struct broker_txn *txn)
{
    const struct ot_str id = txn->request.id;
    txn->broker = broker;
    if (id.null || id.bytes == 0 || id.bytes > INT16_MAX) {             /* what a record has room for */
        refuse(txn, OT_ERR_INVALID_REQUEST);
        return;
    }
    const int32_t partition = broker_shard_of(broker, BROKER_SHARD_TRANSACTIONS, id);
    const int32_t leader = txn->anywhere && broker->peers != NULL ? broker_shard_leader(broker, BROKER_SHARD_TRANSACTIONS, id) : -1;
    if (leader >= 0 && leader != broker->node_id) {
        if (!broker_txn_away(broker, txn, leader)) refuse(txn, OT_ERR_NO_MEMORY);
        return;
    }
    txn->op.run = op_run;
    if (partition >= 0) {
        broker_shard_run(broker, BROKER_SHARD_TRANSACTIONS, partition, &txn->op);
    } else if (txn->request.ask != COORD_TXN_INIT || txn->asked_topic) {
        refuse(txn, txn->request.ask == COORD_TXN_ABORT ? OT_ERR_TRANSACTIONAL_ID_NOT_FOUND : OT_ERR_NOT_COORDINATOR);
    } else {
        txn->asked_topic = true;
        txn->topic = (struct broker_shard_topic){ .call = { .home = txn->call.home, .done = topic_made } };
        broker_shard_topic(broker, BROKER_SHARD_TRANSACTIONS, &txn->topic);
    }
}
