/* Real threads: producers, fetchers and topics that come and go, on a few partitions. What is checked is little; the point is to run it under TSan and ASan. */
#include "broker/room.h"
#include "engine/batch_build.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>
#include "temp_dir.h"

enum { CLIENTS = 4, CALLS = 150, PARTITIONS = 2, GENERATIONS = 40 };

struct storm {
    char dir[256];
    struct ot_exec_pool *io, *flush;
    struct ot_exec_thread *background, *homes[CLIENTS];
    struct broker_config_store *config;
    struct ot_pool *pool;
    struct eng_store *store;
    struct broker *broker;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int running, opens;                /* guarded by the mutex */
    _Atomic uint64_t acked, fetched;
};

struct client {
    struct storm *storm;
    struct ot_exec *home;
    struct ot_task go;
    struct broker_produce produce;
    struct broker_produce_part parts[PARTITIONS];
    struct broker_fetch fetch;
    struct broker_fetch_ask asks[PARTITIONS + 1];
    struct ot_arena arena;
    int left, number;
    int32_t session_id, session_epoch, sequence;
};

static void next(struct client *client);

static void count(struct storm *storm, int *what, int change)
{
    pthread_mutex_lock(&storm->mutex);
    *what += change;
    pthread_cond_broadcast(&storm->changed);
    pthread_mutex_unlock(&storm->mutex);
}

/* Until it is 0; after a minute something hangs. */
static void wait_for(struct storm *storm, const int *what)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 60;
    pthread_mutex_lock(&storm->mutex);
    int result = 0;
    while (*what > 0 && result == 0) result = pthread_cond_timedwait(&storm->changed, &storm->mutex, &end);
    pthread_mutex_unlock(&storm->mutex);
    assert_int_equal(result, 0);
}

static void queued(struct broker_produce *produce) { (void)produce; }

static void produced(struct broker_call *call)
{
    struct client *client = OT_CONTAINER(call, struct client, produce.call);
    for (uint32_t i = 0; i < client->produce.part_count; i++) client->storm->acked += client->parts[i].error == OT_OK;
    ot_buf_unref(client->produce.buf);
    next(client);
}

static void produce(struct client *client)
{
    struct eng_sink sink;
    size_t starts[PARTITIONS + 1] = { 0 };
    eng_sink_pool(&sink, client->storm->pool, 1u << 20);
    for (int i = 0; i < PARTITIONS; i++) {
        struct eng_batch_builder builder;
        struct eng_batch_fields fields = eng_batch_fields_default();
        static const uint8_t value[200];
        fields.producer_id = client->number;
        fields.producer_epoch = 0;
        fields.base_sequence = client->sequence;
        OT_ASSERT(eng_batch_build_begin(&builder, &fields, NULL, &sink) == OT_OK);
        OT_ASSERT(eng_batch_build_next(&builder, ot_exec_wall_ms(client->home), (struct ot_blob){ 0 }, (struct ot_blob){ value, sizeof(value), false }, NULL, 0) == OT_OK);
        OT_ASSERT(eng_batch_build_finish(&builder) == OT_OK);
        starts[i + 1] = sink.bytes;
    }
    client->sequence++;
    client->produce = (struct broker_produce){ .call = { .home = client->home, .done = produced }, .buf = eng_sink_take(&sink), .acks = client->left % 2 == 0 ? -1 : 1,
        .timeout_ms = 10000, .api_version = 13, .origin = ENG_ORIGIN_CLIENT, .parts = client->parts, .part_count = PARTITIONS, .queued = queued };
    client->produce.transactional_id.null = true;
    for (int i = 0; i < PARTITIONS; i++)
        client->parts[i] = (struct broker_produce_part){ .topic = ot_str_of(client->number % 2 == 0 ? "steady" : "fickle"), .partition = i,
            .records = client->produce.buf->data + starts[i], .records_bytes = (uint32_t)(starts[i + 1] - starts[i]) };
    (void)broker_produce(client->storm->broker, &client->produce);
}

static void fetched(struct broker_call *call)
{
    struct client *client = OT_CONTAINER(call, struct client, fetch.call);
    for (uint32_t i = 0; i < client->fetch.row_count; i++) client->storm->fetched += client->fetch.rows[i].read.bytes;
    bool good = client->fetch.error == OT_OK && client->fetch.session_id_out != 0;
    client->session_id = good ? client->fetch.session_id_out : 0;
    client->session_epoch = good ? client->session_epoch + 1 : 0;
    broker_fetch_release(&client->fetch);
    ot_arena_free(&client->arena);
    next(client);
}

static void fetch(struct client *client)
{
    ot_arena_init(&client->arena, 1u << 20);
    client->fetch = (struct broker_fetch){ .call = { .home = client->home, .done = fetched }, .api_version = 12, .replica_id = -1, .replica_epoch = -1, .max_wait_ms = 3,
        .min_bytes = 1, .max_bytes = 1 << 16, .session_id = client->session_id, .session_epoch = client->left % 5 == 0 ? -1 : client->session_epoch, .asks = client->asks,
        .ask_count = PARTITIONS + 1, .arena = &client->arena };
    if (client->fetch.session_epoch < 0) client->fetch.session_id = 0;
    for (int i = 0; i <= PARTITIONS; i++)
        client->asks[i] = (struct broker_fetch_ask){ .topic = ot_str_of(i == PARTITIONS ? "fickle" : "steady"), .partition = i % PARTITIONS, .offset = client->left % 3, .log_start_offset = -1,
            .leader_epoch = -1, .last_epoch = -1, .max_bytes = 1 << 14 };
    broker_fetch(client->storm->broker, &client->fetch);
    if (client->left % 7 == 0) broker_fetch_cancel(&client->fetch);
}

static void next(struct client *client)
{
    if (client->left-- == 0) count(client->storm, &client->storm->running, -1);
    else if (client->left % 2 == 0) produce(client);
    else fetch(client);
}

static void go(struct ot_task *task) { next(OT_CONTAINER(task, struct client, go)); }

static void opened(void *arg, enum ot_err err)
{
    (void)err;
    count(arg, &((struct storm *)arg)->opens, -1);
}

static void config_of(struct storm *storm, const char *durability, struct broker_topic_config *out)
{
    const char *keys[] = { "ottla.durability" }, *values[] = { durability };
    broker_topic_config_effective(storm->config, keys, values, 1, out);
    out->segment_bytes = 20000;
}

static void apply(struct storm *storm, const char *topic, uint8_t id)
{
    static const int32_t self[1] = { 1 };
    struct broker_topic_config config;
    config_of(storm, "fsync", &config);
    for (int32_t i = 0; i < PARTITIONS; i++) {
        struct broker_partition_row row = { .topic = topic, .partition = i, .leader = 1, .leader_epoch = 1, .min_isr = 1, .isr = self, .isr_count = 1, .replicas = self, .replica_count = 1 };
        memset(row.topic_id.bytes, id, sizeof(row.topic_id.bytes));
        count(storm, &storm->opens, 1);
        broker_partition_apply(storm->broker, &row, &config, ot_exec_thread_exec(storm->background), opened, storm);
    }
}

static void start(struct storm *storm)
{
    const char *dirs[] = { storm->dir };
    char text[256];
    uint32_t bad = 0;
    struct eng_store_config store_config = { .dirs = dirs, .dir_count = 1, .files_max = 8, .maps_max = 4, .append_mapped_bytes_max = 1u << 20 };
    temp_dir_make(storm->dir, sizeof(storm->dir));
    assert_int_equal(broker_config_store_new(&storm->config), OT_OK);
    static const char *const sets[][2] = { { "ottla.disk.reserve.bytes", "0" }, { "ottla.disk.free.warn.bytes", "0" }, { "ottla.disk.free.refuse.bytes", "0" } };
    for (size_t i = 0; i < OT_ARRAY_COUNT(sets); i++)
        assert_int_equal(broker_config_set(storm->config, BROKER_SOURCE_FLAG, "test", sets[i][0], sets[i][1], text, sizeof(text)), OT_OK);
    assert_int_equal(ot_exec_pool_start("io", 3, &storm->io), OT_OK);
    assert_int_equal(ot_exec_pool_start("flush", 2, &storm->flush), OT_OK);
    assert_int_equal(ot_exec_thread_start("background", &storm->background), OT_OK);
    for (int i = 0; i < CLIENTS; i++) assert_int_equal(ot_exec_thread_start("home", &storm->homes[i]), OT_OK);
    storm->pool = ot_pool_new("test", 64u << 20, 1u << 20);
    assert_int_equal(eng_store_open(ot_io_real(), &store_config, &storm->store, &bad), OT_OK);
    struct broker_setup setup = { .io = ot_io_real(), .config = storm->config, .io_exec = ot_exec_pool_exec(storm->io), .flush_exec = ot_exec_pool_exec(storm->flush),
        .background_exec = ot_exec_thread_exec(storm->background), .coord_exec = ot_exec_thread_exec(storm->background), .decode_pool = storm->pool };
    storm->broker = calloc(1, sizeof(*storm->broker));
    storm->broker->setup = setup;
    storm->broker->node_id = 1;
    assert_int_equal(broker_core_init(&storm->broker->core, &setup, storm->store, 1), OT_OK);
    broker_core_start(&storm->broker->core);
}

static void stop(struct storm *storm)
{
    (void)broker_core_stop(&storm->broker->core, 8000);
    for (int i = 0; i < CLIENTS; i++) ot_exec_thread_stop(storm->homes[i]);
    broker_core_free(&storm->broker->core);
    ot_exec_pool_stop(storm->io);
    ot_exec_pool_stop(storm->flush);
    ot_exec_thread_stop(storm->background);
    eng_store_close(storm->store);
    free(storm->broker);
    broker_config_store_free(storm->config);
    ot_pool_free(storm->pool);
    temp_dir_remove(storm->dir);
}

static void many_threads_many_topics(void **state)
{
    struct storm *storm = calloc(1, sizeof(*storm));
    struct client *clients = calloc(CLIENTS, sizeof(*clients));
    (void)state;
    pthread_mutex_init(&storm->mutex, NULL);
    pthread_cond_init(&storm->changed, NULL);
    start(storm);
    apply(storm, "steady", 1);
    wait_for(storm, &storm->opens);
    storm->running = CLIENTS;
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = (struct client){ .storm = storm, .home = ot_exec_thread_exec(storm->homes[i]), .go = { .run = go }, .left = CALLS, .number = i };
        ot_exec_post(clients[i].home, &clients[i].go);
    }
    struct ot_uuid id, steady;
    memset(steady.bytes, 1, sizeof(steady.bytes));
    for (uint8_t generation = 2; generation < 2 + GENERATIONS; generation++) {
        struct broker_topic_config config;
        apply(storm, "fickle", generation);
        if (generation % 3 != 0) wait_for(storm, &storm->opens);      /* else it is removed while it opens */
        config_of(storm, generation % 2 == 0 ? "replicated" : "fsync", &config);
        broker_partition_configure(storm->broker, &steady, &config);
        memset(id.bytes, generation, sizeof(id.bytes));
        broker_topic_remove(storm->broker, &id, false);
    }
    wait_for(storm, &storm->running);
    wait_for(storm, &storm->opens);
    assert_true(storm->acked > 0 && storm->fetched > 0);
    stop(storm);
    free(clients);
    free(storm);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(many_threads_many_topics) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
