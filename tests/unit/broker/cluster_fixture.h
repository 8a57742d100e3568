/* Three brokers' cores in one process, on one scheduler: fetches go to the leader's core by a direct call, as the bytes that a link would carry; the coordinator is one row
 * that the test changes, and that AlterPartition changes as coordinator/ would. Links can be cut, and answers held back. */
#ifndef OT_CLUSTER_FIXTURE_H
#define OT_CLUSTER_FIXTURE_H

#include "core_fixture.h"

#include "broker/replication.h"
#include "wire.h"

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
    struct sim_wire_test wire;
    uint32_t fetches, alters;
    int32_t partitions;                        /* of that row, but for what was reported; 0: one */
    uint32_t reported;                         /* bits of those that durable holds for */
    uint32_t durable_asks, reports;
    bool first_alone;                          /* the coordinator is of a build that looks at the first report */
    enum coord_durable durable;
};

/* ---- the wire */

struct wire_call {
    struct sim_wire wire;
    struct cluster *cluster;
    struct node *from, *to;
    struct ot_link_call *call;
    struct ot_task task;
    struct wire_call *next;
};

static inline void wire_answer_run(struct ot_task *task)
{
    struct wire_call *wire = OT_CONTAINER(task, struct wire_call, task);
    struct ot_link_call *call = wire->call;
    sim_wire_free(&wire->wire);
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

static inline void wire_served(struct sim_wire *served, struct ot_buf *buf)
{
    struct wire_call *wire = OT_CONTAINER(served, struct wire_call, wire);
    const bool lost = wire->cluster->cut[wire->to->f.node_id][wire->from->f.node_id];
    if (lost) ot_buf_unref(buf);
    wire_answer(wire, lost ? OT_ERR_CLOSED : OT_OK, lost ? NULL : buf);
}

static inline void wire_send(void *arg, int32_t node_id, uint32_t stream, struct ot_link_call *call)
{
    struct node *from = arg;
    struct cluster *c = from->cluster;
    struct node *to = &c->nodes[node_id - 1];
    struct wire_call *wire = calloc(1, sizeof *wire);
    (void)stream;
    c->fetches++;
    *wire = (struct wire_call){ .cluster = c, .from = from, .to = to, .call = call };
    sim_wire_init(&wire->wire, wire_served);
    wire->wire.test = &c->wire;
    if (!to->up || c->cut[from->f.node_id][node_id]) {
        ot_buf_unref(call->request);
        wire_answer(wire, OT_ERR_CLOSED, NULL);
        return;
    }
    sim_wire_serve(&wire->wire, call->request, to->f.broker, to->f.home, to->f.disk, from->f.pool);
}

/* ---- the coordinator: one row */

static inline void cluster_apply_one(struct cluster *c, struct node *node, int32_t partition)
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
    struct coord_partition state = c->row;
    state.durable_class = (c->reported >> partition & 1) != 0 ? c->durable : COORD_DURABLE_NONE;
    state.durable_since = state.durable_class == COORD_DURABLE_NONE ? -1 : 5;
    struct broker_partition_row row = { .topic = "t", .topic_id = fixture_id(7), .partition = partition, .leader = c->row.leader, .leader_epoch = c->row.leader_epoch,
        .partition_epoch = c->row.partition_epoch, .min_isr = c->row.min_isr, .isr = isr, .isr_count = count, .replicas = c->row.replicas, .replica_count = c->row.replica_count,
        .state = &state, .brokers = brokers };
    broker_topic_config_effective(node->f.config, keys, values, 1, &config);
    broker_partition_apply(node->f.broker, &row, &config, node->f.home, fixture_opened, &node->f);
}

static inline void cluster_apply_to(struct cluster *c, struct node *node)
{
    for (int32_t i = 0; i < OT_MAX(c->partitions, 1); i++) cluster_apply_one(c, node, i);
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

static inline void cluster_report(struct cluster *c, struct coord_durable_ask *ask)
{
    c->durable_asks++;
    for (uint32_t i = 0; i < ask->count; i++) {
        struct coord_report *one = &ask->items[i];
        const uint32_t bit = UINT32_C(1) << one->partition;
        one->error = i > 0 && c->first_alone ? OT_ERR_UNSUPPORTED_VERSION : OT_OK;
        if (one->error != OT_OK) continue;
        c->reports++;
        c->durable = one->class_;
        c->reported = one->class_ == COORD_DURABLE_NONE ? c->reported & ~bit : c->reported | bit;
    }
    c->row.partition_epoch++;
    cluster_apply(c);
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
        cluster_report(c, &request->u.durable);
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
    c->reported = 0;
    cluster_apply(c);
}

static inline void cluster_put(struct cluster *c, int32_t id, struct produce_call *call, int16_t acks, int64_t producer, int32_t sequence)
{
    produce(&c->nodes[id - 1].f, call, 0, acks, producer, sequence, 50);
}

#endif
