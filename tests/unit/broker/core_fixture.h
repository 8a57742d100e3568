/* The half of the broker that holds partitions, over the simulator's disk and executors: what runs when is the test's choice.
 * One topic "t" with up to four partitions; nothing runs unless run() says so. */
#ifndef OT_CORE_FIXTURE_H
#define OT_CORE_FIXTURE_H

#include "broker/fetch_set.h"
#include "broker/room.h"
#include "disk.h"
#include "engine/batch_build.h"
#include "sim_sched.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct core_fixture {
    struct sim_disk *disk;
    struct sim_sched *sched;
    struct ot_exec *io, *flush, *background, *home;
    struct broker_config_store *config;
    struct ot_pool *pool;
    struct eng_store *store;
    struct broker *broker;
    struct ot_metrics *metrics;                /* NULL unless the test wants them: set before fixture_start */
    struct ot_mem_pool *sessions_pool;         /* likewise */
    struct ot_io *disk_under;                  /* another disk in the place of the simulator's */
    bool two_dirs;
    int32_t node_id;                           /* 0: 1 */
    uint32_t sync_each_max, sync_wait_ms, openings_max;
    bool (*apart)(const char *name, struct ot_task *task);
    uint64_t unclean;                          /* what the last stop said */
    int opened;
    enum ot_err open_err;
};

static inline void run(struct core_fixture *f) { while (sim_sched_step(f->sched)) continue; }
static inline void run_only(struct core_fixture *f, struct ot_exec *exec) { while (sim_sched_step_of(f->sched, exec)) continue; }
static inline void pass_ms(struct core_fixture *f, int64_t ms)
{
    for (int64_t end = sim_sched_now_us(f->sched) + ms * 1000; sim_sched_now_us(f->sched) < end;) {
        (void)sim_sched_skip(f->sched, end - sim_sched_now_us(f->sched));
        run(f);
    }
}

static inline void fixture_set(struct core_fixture *f, const char *key, const char *value)
{
    char text[256];
    if (broker_config_set(f->config, BROKER_SOURCE_FLAG, "test", key, value, text, sizeof(text)) != OT_OK) fail_msg("%s", text);
}

static inline void fixture_nap(void *arg)
{
    struct core_fixture *f = arg;
    if (!sim_sched_step(f->sched)) (void)sim_sched_skip(f->sched, 1000);
}

static inline void fixture_opened(void *arg, enum ot_err err)
{
    struct core_fixture *f = arg;
    f->opened++;
    f->open_err = err;
}

static inline struct ot_uuid fixture_id(uint8_t id)
{
    struct ot_uuid uuid;
    memset(uuid.bytes, id, sizeof(uuid.bytes));
    return uuid;
}

/* members: of the in-sync set, this broker first; epoch: of the leader (-1 for "another broker leads"). */
static inline void fixture_apply(struct core_fixture *f, const char *topic, uint8_t id, int32_t partition, int32_t members, int32_t min_isr, int32_t epoch, const char *durability)
{
    static const int32_t isr[3] = { 1, 2, 3 };
    struct broker_topic_config config;
    const char *keys[] = { "ottla.durability" }, *values[] = { durability };
    static int32_t partition_epoch;
    struct broker_partition_row row = { .topic = topic, .topic_id = fixture_id(id), .partition = partition, .partition_epoch = ++partition_epoch, .leader = epoch < 0 ? 2 : 1, .leader_epoch = abs(epoch), .min_isr = min_isr,
        .isr = isr, .isr_count = members, .replicas = isr, .replica_count = members };
    broker_topic_config_effective(f->config, keys, values, 1, &config);
    broker_partition_apply(f->broker, &row, &config, f->home, fixture_opened, f);
}

/* A server's start over what lies on the disk, and its end. */
static inline void fixture_start(struct core_fixture *f)
{
    static const char *const dirs[] = { "/sim/a", "/sim/b" };
    struct eng_store_config store_config = { .dirs = dirs, .dir_count = f->two_dirs ? 2 : 1, .files_max = 16, .maps_max = 4, .append_mapped_bytes_max = 1u << 20 };
    struct ot_io *io = f->disk_under != NULL ? f->disk_under : sim_disk_io(f->disk);
    uint32_t bad = 0;
    assert_int_equal(eng_store_open(io, &store_config, &f->store, &bad), OT_OK);
    struct broker_setup setup = { .io = io, .config = f->config, .io_exec = f->io, .flush_exec = f->flush, .background_exec = f->background,
        .coord_exec = f->background, .sync_each_max = f->sync_each_max, .sync_wait_ms = f->sync_wait_ms, .apart = f->apart, .openings_max = f->openings_max, .decode_pool = f->pool, .metrics = f->metrics,
        .sessions_pool = f->sessions_pool };
    f->broker = calloc(1, sizeof(*f->broker));
    f->broker->setup = setup;
    f->broker->node_id = f->node_id == 0 ? 1 : f->node_id;
    f->broker->core.nap = fixture_nap;
    f->broker->core.nap_arg = f;
    assert_int_equal(broker_core_init(&f->broker->core, &setup, f->store, f->broker->node_id), OT_OK);
}

static inline void fixture_close(struct core_fixture *f)
{
    f->unclean = broker_core_free(&f->broker->core);
    run(f);
    eng_store_close(f->store);
    free(f->broker);
}

static inline void fixture_stop(struct core_fixture *f)
{
    run(f);
    (void)broker_core_stop(&f->broker->core, 8000);
    fixture_close(f);
}

static inline int fixture_setup(void **state)
{
    struct core_fixture *f = calloc(1, sizeof(*f));
    f->disk = sim_disk_new(1);
    f->sched = sim_sched_new(1, 1750000000000);
    f->io = sim_sched_exec(f->sched, "io", true);
    f->flush = sim_sched_exec(f->sched, "flush", true);
    f->background = sim_sched_exec(f->sched, "background", true);
    f->home = sim_sched_exec(f->sched, "home", true);
    f->pool = ot_pool_new("test", 64u << 20, 1u << 20);
    assert_int_equal(broker_config_store_new(&f->config), OT_OK);
    fixture_set(f, "log.append.io", "pwritev");
    fixture_set(f, "ottla.disk.reserve.bytes", "0");
    fixture_start(f);
    *state = f;
    return 0;
}

static inline int fixture_teardown(void **state)
{
    struct core_fixture *f = *state;
    fixture_stop(f);
    broker_config_store_free(f->config);
    ot_pool_free(f->pool);
    sim_sched_free(f->sched);
    sim_disk_free(f->disk);
    free(f);
    return 0;
}

static inline struct broker_partition *fixture_partition(struct core_fixture *f, int32_t index)
{
    struct broker_partition *partition = broker_partition_find(f->broker, ot_str_of("t"), index);
    assert_non_null(partition);
    broker_partition_put(partition);           /* the registry holds it */
    return partition;
}

/* ---- produce ---- */

struct produce_call { struct broker_produce produce; struct broker_produce_part part; bool done; int order; };
static int produce_order;

static inline void produce_done(struct broker_call *call)
{
    struct produce_call *ask = OT_CONTAINER(call, struct produce_call, produce.call);
    ask->done = true;
    ask->order = ++produce_order;
    ot_buf_unref(ask->produce.buf);
}

static inline void produce_queued(struct broker_produce *produce) { (void)produce; }

/* producer -1: none. */
static inline void produce_some(struct core_fixture *f, struct produce_call *ask, int32_t partition, int16_t acks, int64_t producer, int32_t sequence, uint32_t value_bytes, int records)
{
    struct eng_sink sink;
    struct eng_batch_builder builder;
    struct eng_batch_fields fields = eng_batch_fields_default();
    uint8_t *value = calloc(1, value_bytes + 1);
    eng_sink_pool(&sink, f->pool, 1u << 20);
    if (producer >= 0) fields.producer_id = producer, fields.producer_epoch = 0, fields.base_sequence = sequence;
    assert_int_equal(eng_batch_build_begin(&builder, &fields, NULL, &sink), OT_OK);
    for (int i = 0; i < records; i++)
        assert_int_equal(eng_batch_build_next(&builder, 1750000000000 + produce_order, (struct ot_blob){ 0 }, (struct ot_blob){ value, value_bytes, false }, NULL, 0), OT_OK);
    assert_int_equal(eng_batch_build_finish(&builder), OT_OK);
    free(value);
    memset(ask, 0, sizeof(*ask));
    ask->produce = (struct broker_produce){ .call = { .home = f->home, .done = produce_done }, .buf = eng_sink_take(&sink), .acks = acks, .timeout_ms = 5000, .api_version = 13,
        .origin = ENG_ORIGIN_CLIENT, .parts = &ask->part, .part_count = 1, .queued = produce_queued };
    ask->produce.transactional_id.null = true;
    ask->part = (struct broker_produce_part){ .topic = ot_str_of("t"), .partition = partition, .records = ask->produce.buf->data, .records_bytes = (uint32_t)ask->produce.buf->bytes };
    (void)broker_produce(f->broker, &ask->produce);
}

static inline void produce(struct core_fixture *f, struct produce_call *ask, int32_t partition, int16_t acks, int64_t producer, int32_t sequence, uint32_t value_bytes)
{
    produce_some(f, ask, partition, acks, producer, sequence, value_bytes, 1);
}

/* ---- fetch ---- */

struct fetch_call { struct broker_fetch fetch; struct broker_fetch_ask asks[4]; struct ot_arena arena; bool done; };

static inline void fetch_done(struct broker_call *call) { OT_CONTAINER(call, struct fetch_call, fetch.call)->done = true; }

static inline void fetch_begin(struct core_fixture *f, struct fetch_call *ask, int32_t session_id, int32_t session_epoch)
{
    memset(ask, 0, sizeof(*ask));
    ot_arena_init(&ask->arena, 1u << 20);
    ask->fetch = (struct broker_fetch){ .call = { .home = f->home, .done = fetch_done }, .api_version = 12, .replica_id = -1, .replica_epoch = -1, .max_wait_ms = 500, .min_bytes = 1,
        .max_bytes = 1 << 20, .session_id = session_id, .session_epoch = session_epoch, .asks = ask->asks, .arena = &ask->arena };
    ask->fetch.client = (struct broker_client){ .client_id = ot_str_of("c"), .address = ot_str_of("127.0.0.1") };
}

static inline void fetch_add(struct fetch_call *ask, const char *topic, int32_t partition, int64_t offset)
{
    ask->asks[ask->fetch.ask_count++] = (struct broker_fetch_ask){ .topic = ot_str_of(topic), .partition = partition, .offset = offset, .log_start_offset = -1, .leader_epoch = -1,
        .last_epoch = -1, .max_bytes = 1 << 20 };
}

static inline void fetch_end(struct fetch_call *ask)
{
    assert_true(ask->done);
    broker_fetch_release(&ask->fetch);
    ot_arena_free(&ask->arena);
}

#endif
