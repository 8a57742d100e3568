/* Three brokers' cores in one process, on one scheduler: fetches go to the leader's core by a direct call, as the bytes that a link would carry; the coordinator is one row
 * that the test changes, and that AlterPartition changes as coordinator/ would. Links can be cut, and answers held back. */
#ifndef OT_CLUSTER_FIXTURE_H
#define OT_CLUSTER_FIXTURE_H

#include "core_fixture.h"

#include "base/wire/apis.h"
#include "base/wire/fetch_request.h"
#include "base/wire/fetch_response.h"
#include "base/wire/frame.h"
#include "broker/replication.h"

enum { NODES = 3 };
struct cluster;
struct node {
    struct core_fixture f;
    struct cluster *cluster;
    struct broker_replication *replication;
    struct ot_exec *exec;
    bool up;
    int64_t epoch;
};
struct cluster {
    struct node nodes[NODES];                  /* ids 1, 2, 3 */
    struct sim_sched *sched;
    struct coord_partition row;
    const char *durability;
    bool cut[NODES + 1][NODES + 1], mute;      /* mute: the coordinator does not answer, nothing is applied */
    bool held; struct wire_call *held_first;   /* answers wait until released */
    uint64_t lift;                             /* leaders that lie: offsets of batches are so much higher */
    uint32_t fetches, alters, named, forgotten, sessions;      /* named, forgotten: partitions, by requests of fetches; sessions: requests that begin one */
    bool forgetful, full;                      /* leaders know no session that there was; have no room for one */
    uint32_t unheard;                          /* so many answers' high watermarks come to nothing */
    enum coord_durable durable;
};

/* ---- the wire */

struct wire_call {
    struct cluster *cluster;
    struct node *from, *to;
    struct ot_link_call *call;
    struct broker_fetch fetch;
    struct broker_fetch_ask *asks, *forgotten;
    struct ot_arena arena, rows;
    struct ot_task task;
    struct wire_call *next;
    uint64_t life;
};

static inline void wire_answer_run(struct ot_task *task)
{
    struct wire_call *wire = OT_CONTAINER(task, struct wire_call, task);
    struct ot_link_call *call = wire->call;
    ot_arena_free(&wire->arena);
    ot_arena_free(&wire->rows);
    free(wire);
    call->answered(call);
}

static inline void wire_answer(struct wire_call *wire, enum ot_err err, struct ot_buf *answer)
{
    wire->call->error = err;
    wire->call->answer = answer;
    wire->task.run = wire_answer_run;
    if (wire->cluster->held && err == OT_OK) {
        wire->next = wire->cluster->held_first;
        wire->cluster->held_first = wire;
        return;
    }
    ot_exec_post(wire->call->home, &wire->task);
}

static inline void wire_release(struct cluster *c)
{
    c->held = false;
    while (c->held_first != NULL) {
        struct wire_call *wire = c->held_first;
        c->held_first = wire->next;
        ot_exec_post(wire->call->home, &wire->task);
    }
}

static inline struct ot_blob wire_records(struct wire_call *wire, const struct broker_fetch_row *row)
{
    uint8_t *data = ot_arena_alloc(&wire->rows, row->read.bytes + 1);
    uint32_t at = 0;
    for (uint32_t i = 0; i < row->read.span_count; i++) {
        const struct ot_span *span = &row->read.spans[i];
        if (span->memory != NULL) memcpy(data + at, span->memory, span->bytes);
        else assert_int_equal(ot_io_read_exact(sim_disk_io(wire->to->f.disk), span->fd, data + at, span->bytes, span->pos), OT_OK);
        at += span->bytes;
    }
    if (at >= 8) ot_store_u64(data, ot_load_u64(data) + wire->cluster->lift);        /* the CRC is not over the offset */
    return (struct ot_blob){ data, at, false };
}

static inline void wire_fetched(struct broker_call *call)
{
    struct wire_call *wire = OT_CONTAINER(call, struct wire_call, fetch.call);
    struct broker_fetch *fetch = &wire->fetch;
    struct ot_fetch_response response;
    struct ot_fetch_response_fetchable_topic_response *topics = ot_arena_array(&wire->rows, fetch->row_count + 1, sizeof *topics);
    struct ot_fetch_response_partition_data *parts = ot_arena_array(&wire->rows, fetch->row_count + 1, sizeof *parts);
    ot_fetch_response_defaults(&response);
    response.error_code = ot_err_kafka(fetch->error);
    response.session_id = wire->cluster->full ? 0 : fetch->session_id_out;
    response.responses.items = topics;
    response.responses.count = (int32_t)fetch->row_count;
    for (uint32_t i = 0; i < fetch->row_count; i++) {
        const struct broker_fetch_row *row = &fetch->rows[i];
        ot_fetch_response_fetchable_topic_response_defaults(&topics[i]);
        ot_fetch_response_partition_data_defaults(&parts[i]);
        topics[i].topic_id = row->topic_id;
        topics[i].partitions.items = &parts[i];
        topics[i].partitions.count = 1;
        parts[i].partition_index = row->partition;
        parts[i].error_code = ot_err_kafka(row->error);
        parts[i].high_watermark = row->high_watermark;
        if (wire->cluster->unheard > 0 && row->error == OT_OK) {
            parts[i].high_watermark = 0;
            wire->cluster->unheard--;
        }
        parts[i].log_start_offset = row->log_start_offset;
        parts[i].diverging_epoch.epoch = row->diverging_epoch;
        parts[i].diverging_epoch.end_offset = row->diverging_end_offset;
        parts[i].records = wire_records(wire, row);
    }
    const size_t bytes = ot_fetch_response_size(&response, 18) + 16;
    struct ot_buf *buf = ot_buf_new_forced(wire->from->f.pool, bytes);
    struct ot_writer out = ot_writer_over(buf->data, bytes);
    assert_int_equal(ot_wire_response_header_encode(ot_api_find(OT_API_FETCH), 18, 7, &out), OT_OK);
    assert_int_equal(ot_fetch_response_encode(&response, 18, &out, NULL), OT_OK);
    buf->bytes = (uint32_t)(out.at - out.start);
    broker_fetch_release(fetch);
    free(wire->asks);
    free(wire->forgotten);
    const bool lost = wire->cluster->cut[wire->to->f.node_id][wire->from->f.node_id];
    if (lost) ot_buf_unref(buf);
    wire_answer(wire, lost ? OT_ERR_CLOSED : OT_OK, lost ? NULL : buf);
}

static inline void wire_asks(struct wire_call *wire, const struct ot_fetch_request *request)
{
    uint32_t count = 0;
    for (int32_t t = 0; t < request->topics.count; t++) count += (uint32_t)request->topics.items[t].partitions.count;
    wire->asks = calloc(count + 1, sizeof *wire->asks);
    for (int32_t t = 0; t < request->topics.count; t++) {
        for (int32_t p = 0; p < request->topics.items[t].partitions.count; p++) {
            const struct ot_fetch_request_fetch_partition *part = &request->topics.items[t].partitions.items[p];
            struct broker_fetch_ask *ask = &wire->asks[wire->fetch.ask_count++];
            *ask = (struct broker_fetch_ask){ .topic_id = request->topics.items[t].topic_id, .topic = { .null = true }, .partition = part->partition, .offset = part->fetch_offset,
                .log_start_offset = part->log_start_offset, .leader_epoch = part->current_leader_epoch, .last_epoch = part->last_fetched_epoch, .max_bytes = part->partition_max_bytes,
                .high_watermark = part->high_watermark, .flushed_end = -1 };
            for (int32_t i = 0; i < part->_tags.count; i++)
                if (part->_tags.items[i].tag == 10000) ask->flushed_end = (int64_t)ot_load_u64(part->_tags.items[i].data.data);
        }
    }
    wire->fetch.asks = wire->asks;
    wire->cluster->named += count;
    count = 0;
    for (int32_t t = 0; t < request->forgotten_topics_data.count; t++) count += (uint32_t)request->forgotten_topics_data.items[t].partitions.count;
    wire->forgotten = calloc(count + 1, sizeof *wire->forgotten);
    for (int32_t t = 0; t < request->forgotten_topics_data.count; t++) {
        const struct ot_fetch_request_forgotten_topic *topic = &request->forgotten_topics_data.items[t];
        for (int32_t p = 0; p < topic->partitions.count; p++)
            wire->forgotten[wire->fetch.forgotten_count++] = (struct broker_fetch_ask){ .topic_id = topic->topic_id, .topic = { .null = true }, .partition = topic->partitions.items[p] };
    }
    wire->fetch.forgotten = wire->forgotten;
    wire->cluster->forgotten += count;
    wire->cluster->sessions += request->session_epoch == 0;
    wire->fetch.session_id = wire->cluster->forgetful && request->session_epoch > 0 ? request->session_id ^ 1 : request->session_id;
    wire->fetch.session_epoch = request->session_epoch;
}

static inline void wire_send(void *arg, int32_t node_id, uint32_t stream, struct ot_link_call *call)
{
    struct node *from = arg;
    struct cluster *c = from->cluster;
    struct node *to = &c->nodes[node_id - 1];
    struct wire_call *wire = calloc(1, sizeof *wire);
    struct ot_wire_request_header header;
    struct ot_wire_error error;
    struct ot_fetch_request request;
    (void)stream;
    c->fetches++;
    wire->cluster = c;
    wire->from = from;
    wire->to = to;
    wire->call = call;
    ot_arena_init(&wire->arena, 1u << 20);
    ot_arena_init(&wire->rows, 8u << 20);
    struct ot_reader in = ot_reader_over(call->request->data + 4, call->request->bytes - 4);
    assert_int_equal(ot_wire_request_header_decode(&in, &wire->arena, &header, &error), OT_OK);
    assert_int_equal(header.key, OT_API_FETCH);
    assert_int_equal(ot_fetch_request_decode(&request, header.version, &in, &wire->arena, &error), OT_OK);
    wire->fetch = (struct broker_fetch){ .call = { .home = to->f.home, .done = wire_fetched }, .api_version = header.version, .replica_id = request.replica_state.replica_id,
        .replica_epoch = request.replica_state.replica_epoch, .follower = true, .max_wait_ms = request.max_wait_ms, .min_bytes = request.min_bytes, .max_bytes = request.max_bytes,
        .arena = &wire->rows };
    char client_id[32];
    (void)snprintf(client_id, sizeof client_id, "%.*s", (int)header.client_id.bytes, header.client_id.data);
    wire->fetch.client.client_id = ot_str_of(client_id);
    wire_asks(wire, &request);
    ot_buf_unref(call->request);
    if (!to->up || c->cut[from->f.node_id][node_id]) {
        free(wire->asks);
        free(wire->forgotten);
        wire_answer(wire, OT_ERR_CLOSED, NULL);
        return;
    }
    broker_fetch(to->f.broker, &wire->fetch);
}

/* ---- the coordinator: one row */

static inline void cluster_apply_to(struct cluster *c, struct node *node)
{
    struct replica_broker brokers[COORD_REPLICAS_MAX];
    struct broker_topic_config config;
    const char *keys[] = { "ottla.durability" }, *values[] = { c->durability };
    int32_t isr[NODES], count = 0;
    for (int32_t i = 0; i < c->row.replica_count; i++) {
        const struct node *other = &c->nodes[c->row.replicas[i] - 1];
        brokers[i] = (struct replica_broker){ other->epoch, other->up };
        if ((c->row.isr >> i & 1) != 0) isr[count++] = c->row.replicas[i];
    }
    struct broker_partition_row row = { .topic = "t", .topic_id = fixture_id(7), .partition = 0, .leader = c->row.leader, .leader_epoch = c->row.leader_epoch,
        .partition_epoch = c->row.partition_epoch, .min_isr = c->row.min_isr, .isr = isr, .isr_count = count, .replicas = c->row.replicas, .replica_count = c->row.replica_count,
        .state = &c->row, .brokers = brokers };
    broker_topic_config_effective(node->f.config, keys, values, 1, &config);
    broker_partition_apply(node->f.broker, &row, &config, node->f.home, fixture_opened, &node->f);
}

static inline void cluster_apply(struct cluster *c)
{
    for (int i = 0; i < NODES; i++)
        if (c->nodes[i].up) cluster_apply_to(c, &c->nodes[i]);
}

static inline enum ot_err cluster_alter(struct cluster *c, struct coord_alter *item, int32_t broker_id)
{
    if (item->leader_epoch != c->row.leader_epoch || c->row.leader != broker_id) return OT_ERR_FENCED_LEADER_EPOCH;
    if (item->partition_epoch != c->row.partition_epoch) return OT_ERR_INVALID_UPDATE_VERSION;
    uint64_t isr = 0;
    for (uint32_t i = 0; i < item->member_count; i++) {
        const struct node *member = &c->nodes[item->members[i].broker_id - 1];
        uint64_t bit = coord_replica_bit(&c->row, item->members[i].broker_id);
        if ((c->row.isr & bit) == 0 && (!member->up || member->epoch != item->members[i].broker_epoch)) return OT_ERR_INELIGIBLE_REPLICA;
        isr |= bit;
    }
    c->row.isr = isr;
    c->row.partition_epoch++;
    return OT_OK;
}

struct cluster_answer { struct ot_task task; struct broker_ask *ask; };
static inline void cluster_answered(struct ot_task *task)
{
    struct cluster_answer *answer = OT_CONTAINER(task, struct cluster_answer, task);
    struct broker_ask *ask = answer->ask;
    free(answer);
    ask->answered(ask);
}

static inline void cluster_ask(void *arg, struct broker_ask *ask)
{
    struct node *node = arg;
    struct cluster *c = node->cluster;
    struct coord_request *request = &ask->request;
    request->error = c->mute ? OT_ERR_REQUEST_TIMED_OUT : OT_OK;
    if (!c->mute && request->ask == COORD_ASK_ALTER) {
        for (uint32_t i = 0; i < request->u.alter.count; i++) request->u.alter.items[i].error = cluster_alter(c, &request->u.alter.items[i], request->u.alter.broker_id);
        c->alters++;
        cluster_apply(c);
    } else if (!c->mute && request->ask == COORD_ASK_DURABLE) {
        c->row.durable_class = c->durable = request->u.durable.class_;
        c->row.durable_since = c->durable == COORD_DURABLE_NONE ? -1 : 5;
        c->row.partition_epoch++;
        cluster_apply(c);
    }
    struct cluster_answer *answer = calloc(1, sizeof *answer);
    *answer = (struct cluster_answer){ { NULL, cluster_answered }, ask };
    ot_exec_post(node->f.home, &answer->task);
}

static inline int32_t cluster_term(void *arg) { (void)arg; return 0; }
static inline int64_t cluster_epoch(void *arg) { return ((struct node *)arg)->epoch; }

/* ---- life */

static inline void node_start(struct node *node)
{
    fixture_start(&node->f);
    struct broker_replication_setup setup = { .broker = node->f.broker, .exec = node->exec, .pool = node->f.pool, .arg = node, .send = wire_send, .ask = cluster_ask,
        .term = cluster_term, .broker_epoch = cluster_epoch };
    assert_int_equal(broker_replication_start(&setup, &node->replication), OT_OK);
    node->up = true;
    node->epoch += 10;
}

static inline void node_stop(struct node *node)
{
    node->up = false;
    broker_replication_stop(node->replication);
    run(&node->f);
    (void)broker_core_stop(&node->f.broker->core, 8000);
    broker_replication_free(node->replication);
    fixture_close(&node->f);
}

static inline void node_make(struct cluster *c, int i)
{
    struct node *node = &c->nodes[i];
    struct core_fixture *f = &node->f;
    node->cluster = c;
    f->node_id = i + 1;
    f->disk = sim_disk_new((uint64_t)i + 1);
    f->sched = c->sched;
    f->io = sim_sched_exec(c->sched, "io", false);
    f->flush = sim_sched_exec(c->sched, "flush", false);
    f->background = sim_sched_exec(c->sched, "background", true);
    f->home = sim_sched_exec(c->sched, "home", true);
    node->exec = sim_sched_exec(c->sched, "replica", true);
    f->pool = ot_pool_new("test", 64u << 20, 1u << 20);
    assert_int_equal(broker_config_store_new(&f->config), OT_OK);
    fixture_set(f, "log.append.io", "pwritev");
    fixture_set(f, "ottla.disk.reserve.bytes", "0");
    fixture_set(f, "replica.lag.time.max.ms", "2000");
    node_start(node);
}

static inline int cluster_setup(void **state)
{
    struct cluster *c = calloc(1, sizeof *c);
    c->sched = sim_sched_new(3, 1750000000000);
    c->durability = "replicated";
    for (int i = 0; i < NODES; i++) node_make(c, i);
    c->row = (struct coord_partition){ .replicas = { 1, 2, 3 }, .replica_count = 3, .isr = 7, .leader = 1, .leader_epoch = 1, .partition_epoch = 1, .min_isr = 2, .last_leader = -1,
        .durable_since = -1, .loss_version = -1, .loss_epoch = -1, .loss_from = -1, .loss_leader = -1 };
    *state = c;
    return 0;
}

static inline int cluster_teardown(void **state)
{
    struct cluster *c = *state;
    for (int i = 0; i < NODES; i++)
        if (c->nodes[i].up) broker_replication_stop(c->nodes[i].replication);
    for (int i = 0; i < NODES; i++) {
        struct node *node = &c->nodes[i];
        if (node->up) node_stop(node);
    }
    for (int i = 0; i < NODES; i++) {
        broker_config_store_free(c->nodes[i].f.config);
        ot_pool_free(c->nodes[i].f.pool);
        sim_disk_free(c->nodes[i].f.disk);
    }
    sim_sched_free(c->sched);
    free(c);
    return 0;
}

/* Tasks and timers for so long. */
static inline void cluster_pass(struct cluster *c, int64_t ms) { pass_ms(&c->nodes[0].f, ms); }

static inline struct broker_partition *cluster_part(struct cluster *c, int32_t id) { return fixture_partition(&c->nodes[id - 1].f, 0); }

/* A new leader, with the isr that is left. */
static inline void cluster_lead(struct cluster *c, int32_t id, uint64_t isr)
{
    c->row.leader = id;
    c->row.leader_epoch++;
    c->row.partition_epoch++;
    c->row.isr = isr;
    c->row.durable_since = -1;
    cluster_apply(c);
}

static inline void cluster_put(struct cluster *c, int32_t id, struct produce_call *call, int16_t acks, int64_t producer, int32_t sequence)
{
    produce(&c->nodes[id - 1].f, call, 0, acks, producer, sequence, 50);
}

#endif
