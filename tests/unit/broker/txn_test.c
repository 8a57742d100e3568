/* Transactions and groups over a real broker on a real disk that fails on request. Threads are real, so tests wait for facts and never for time. */
#include "broker/room.h"

#include "base/io_fault.h"
#include "base/util.h"
#include "base/wire/join_group_request.h"
#include "base/wire/join_group_response.h"
#include "broker/groups.h"
#include "broker/transactions.h"
#include "engine/batch_build.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

struct house {
    char root[128];
    struct ot_io_fault fault;
    struct ot_exec_pool *io, *flush;
    struct ot_exec_thread *background, *coord, *door, *shard;
    struct ot_exec *exec;
    struct ot_pool *decode;
    struct broker_config_store *config;
    struct broker *broker;
    const char *heartbeat_ms;                  /* of consumer groups */
};
static const struct broker_listener listener = { "PLAINTEXT", "127.0.0.1", NULL, 9092, 0, "PLAINTEXT" };
static struct house house;

static void set(const char *key, const char *value)
{
    char text[300];
    if (broker_config_set(house.config, BROKER_SOURCE_FLAG, "test", key, value, text, sizeof text) != OT_OK) fail_msg("%s", text);
}

static void start(void)
{
    assert_int_equal(broker_config_store_new(&house.config), OT_OK);
    set("log.dirs", house.root);
    set("ottla.disk.reserve.bytes", "0");
    set("ottla.disk.free.refuse.bytes", "0");
    set("transaction.state.log.num.partitions", "2");
    set("group.initial.rebalance.delay.ms", "0");
    set("group.min.session.timeout.ms", "1");
    set("group.consumer.min.heartbeat.interval.ms", "1");
    if (house.heartbeat_ms != NULL) set("group.consumer.heartbeat.interval.ms", house.heartbeat_ms);
    assert_int_equal(ot_exec_pool_start("io", 2, &house.io), OT_OK);
    assert_int_equal(ot_exec_pool_start("flush", 1, &house.flush), OT_OK);
    assert_int_equal(ot_exec_thread_start("background", &house.background), OT_OK);
    assert_int_equal(ot_exec_thread_start("coord", &house.coord), OT_OK);
    assert_int_equal(ot_exec_thread_start("door", &house.door), OT_OK);
    assert_int_equal(ot_exec_thread_start("shard", &house.shard), OT_OK);
    house.exec = ot_exec_thread_exec(house.shard);
    house.decode = ot_pool_new("decode", 64 << 20, 0);
    const struct broker_setup setup = { .io = &house.fault.io, .config = house.config, .io_exec = ot_exec_pool_exec(house.io), .flush_exec = ot_exec_pool_exec(house.flush),
        .background_exec = ot_exec_thread_exec(house.background), .coord_exec = ot_exec_thread_exec(house.coord), .shard_execs = &house.exec, .shard_exec_count = 1,
        .decode_pool = house.decode, .listeners = &listener, .listener_count = 1 };
    assert_int_equal(broker_open(&setup, &house.broker), OT_OK);
}

static void stop(void)
{
    broker_stop(house.broker);
    broker_close(house.broker);
    ot_exec_thread_stop(house.door);
    ot_exec_thread_stop(house.shard);
    ot_exec_thread_stop(house.coord);
    ot_exec_thread_stop(house.background);
    ot_exec_pool_stop(house.io);
    ot_exec_pool_stop(house.flush);
    ot_pool_free(house.decode);                /* asserts that every buffer came back */
    broker_config_store_free(house.config);
}

static int begin(void **state)
{
    (void)state;
    memset(&house, 0, sizeof house);
    const char *tmp = getenv("TMPDIR");
    snprintf(house.root, sizeof house.root, "%s/ottla-txn-XXXXXX", tmp == NULL ? "/tmp" : tmp);
    if (mkdtemp(house.root) == NULL) return -1;
    ot_io_fault_init(&house.fault, ot_io_real());
    start();
    return 0;
}

static int end(void **state)
{
    char command[200];
    (void)state;
    stop();
    snprintf(command, sizeof command, "rm -rf '%s'", house.root);
    return system(command) == 0 ? 0 : -1;
}

/* ---- calls, waited for */

struct waited { pthread_mutex_t mutex; pthread_cond_t changed; bool done; };
static struct waited waited = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false };
static void wake(void)
{
    pthread_mutex_lock(&waited.mutex);
    waited.done = true;
    pthread_cond_signal(&waited.changed);
    pthread_mutex_unlock(&waited.mutex);
}
static void wait_here(void)
{
    pthread_mutex_lock(&waited.mutex);
    while (!waited.done) pthread_cond_wait(&waited.changed, &waited.mutex);
    waited.done = false;
    pthread_mutex_unlock(&waited.mutex);
}
static void called(struct broker_call *call) { (void)call; wake(); }
static struct broker_call call_here(void) { return (struct broker_call){ .home = ot_exec_thread_exec(house.door), .done = called }; }

static void topic_make(const char *name)
{
    struct broker_admin_item item = { .kind = BROKER_CREATE_TOPIC, .topic = ot_str_of(name), .partition_count = 2, .replication_factor = -1, .if_version = -1 };
    struct broker_admin admin = { .call = call_here(), .timeout_ms = 30000, .items = &item, .item_count = 1 };
    broker_admin(house.broker, &admin);
    wait_here();
    assert_int_equal(item.error, OT_OK);
}

static bool again(enum ot_err err)
{
    return err == OT_ERR_COORDINATOR_NOT_AVAILABLE || err == OT_ERR_COORDINATOR_LOAD_IN_PROGRESS || err == OT_ERR_NOT_COORDINATOR || err == OT_ERR_CONCURRENT_TRANSACTIONS
        || err == OT_ERR_NOT_ENOUGH_REPLICAS || err == OT_ERR_NO_SPACE;
}

static enum ot_err ask_once(const struct coord_txn_request *request, struct coord_txn_request *answered)
{
    struct broker_txn txn = { .call = call_here(), .request = *request };
    broker_txn(house.broker, &txn);
    wait_here();
    *answered = txn.request;
    return txn.request.error;
}

/* As clients do it: until it is done or refused for good. */
static enum ot_err ask(const struct coord_txn_request *request, struct coord_txn_request *answered)
{
    while (again(ask_once(request, answered))) {
    }
    return answered->error;
}

struct producer { const char *id; int64_t producer_id; int16_t epoch; int32_t sequences[2]; };

static enum ot_err init(struct producer *producer)
{
    struct coord_txn_request request = coord_txn_request_default(COORD_TXN_INIT, ot_str_of(producer->id)), answered;
    request.timeout_ms = 60000;
    const enum ot_err err = ask(&request, &answered);
    producer->producer_id = answered.producer_id_out;
    producer->epoch = answered.producer_epoch_out;
    memset(producer->sequences, 0, sizeof producer->sequences);
    return err;
}

static struct coord_txn_request of(enum coord_txn_ask what, const struct producer *producer)
{
    struct coord_txn_request request = coord_txn_request_default(what, ot_str_of(producer->id));
    request.producer_id = producer->producer_id;
    request.producer_epoch = producer->epoch;
    return request;
}

static enum ot_err add(const struct producer *producer, const char *topic, int32_t partition)
{
    struct coord_txn_place place = { .topic = ot_str_of(topic), .partition = partition };
    struct coord_txn_request request = of(COORD_TXN_ADD, producer), answered;
    request.places = &place;
    request.place_count = 1;
    return ask(&request, &answered);
}

static enum ot_err finish(struct producer *producer, bool commit, int16_t version)
{
    struct coord_txn_request request = of(COORD_TXN_END, producer), answered;
    request.commit = commit;
    request.version = version;
    const enum ot_err err = ask(&request, &answered);
    if (err == OT_OK && version >= 2) *producer = (struct producer){ producer->id, answered.producer_id_out, answered.producer_epoch_out, { 0 } };
    return err;
}

struct sending { struct broker_produce produce; struct broker_produce_part part; struct ot_task go; };
static void sending_go(struct ot_task *task) { (void)broker_produce(house.broker, &OT_CONTAINER(task, struct sending, go)->produce); }
static void queued(struct broker_produce *produce) { (void)produce; }

static enum ot_err send_once(const struct producer *producer, const char *topic, int32_t partition, int16_t version)
{
    struct eng_batch_fields fields = eng_batch_fields_default();
    struct eng_batch_builder builder;
    struct eng_sink sink;
    fields.producer_id = producer->producer_id;
    fields.producer_epoch = producer->epoch;
    fields.base_sequence = producer->sequences[partition];
    fields.transactional = true;
    eng_sink_pool(&sink, house.decode, 4096);
    assert_int_equal(eng_batch_build_begin(&builder, &fields, NULL, &sink), OT_OK);
    assert_int_equal(eng_batch_build_next(&builder, ot_clock_wall_ms(), (struct ot_blob){ (const uint8_t *)"k", 1, false }, (struct ot_blob){ (const uint8_t *)"v", 1, false }, NULL, 0), OT_OK);
    assert_int_equal(eng_batch_build_finish(&builder), OT_OK);
    struct sending sending = { .go.run = sending_go };
    sending.produce = (struct broker_produce){ .call = call_here(), .buf = eng_sink_take(&sink), .acks = -1, .timeout_ms = 30000, .api_version = version,
        .transactional_id = ot_str_of(producer->id), .origin = ENG_ORIGIN_CLIENT, .parts = &sending.part, .part_count = 1, .queued = queued };
    sending.part = (struct broker_produce_part){ .topic = ot_str_of(topic), .partition = partition, .records = sending.produce.buf->data, .records_bytes = sending.produce.buf->bytes };
    eng_sink_free(&sink);
    ot_exec_post(sending.produce.call.home, &sending.go);
    wait_here();
    ot_buf_unref(sending.produce.buf);
    return sending.part.error;
}

static enum ot_err send(struct producer *producer, const char *topic, int32_t partition, int16_t version)
{
    enum ot_err err;
    while (again(err = send_once(producer, topic, partition, version))) {
    }
    producer->sequences[partition] += err == OT_OK ? 1 : 0;
    return err;
}

static struct broker_partition_state look(const char *topic, int32_t partition)
{
    struct broker_partition_state state;
    struct broker_partition *found = broker_partition_find(house.broker, ot_str_of(topic), partition);
    assert_non_null(found);
    broker_partition_state(found, &state);
    broker_partition_put(found);
    return state;
}

static void until_stable(const char *topic, int32_t partition, int64_t end_offset)
{
    struct broker_partition_state state;
    do state = look(topic, partition);
    while (state.last_stable_offset < end_offset || state.log_end_offset < end_offset);
    assert_int_equal(state.log_end_offset, end_offset);
}

/* Where it ends once all is stable; markers may be there twice. */
static void until_all_stable(const char *topic, int32_t partition, int64_t *least)
{
    struct broker_partition_state state;
    do state = look(topic, partition);
    while (state.last_stable_offset < state.log_end_offset || state.log_end_offset < *least + 2);
    *least = state.log_end_offset;
}

static enum ot_transaction_state state_of(const char *id)
{
    struct ot_arena arena;
    struct ot_str ids[] = { ot_str_of(id) };
    enum ot_transaction_state found;
    ot_arena_init(&arena, 1 << 20);
    for (;;) {
        struct broker_txn_list list = { .call = call_here(), .ids = ids, .id_count = 1, .arena = &arena };
        broker_txn_list(house.broker, &list);
        wait_here();
        assert_int_equal(list.error, OT_OK);
        if (again(list.rows->error)) continue;
        assert_int_equal(list.rows->error, OT_OK);
        found = list.rows->state;
        break;
    }
    ot_arena_free(&arena);
    return found;
}

/* ---- what must hold */

static void both_protocols_end_with_a_marker(void **state)
{
    (void)state;
    struct producer old = { .id = "old" }, new = { .id = "new" };
    topic_make("t");
    assert_int_equal(init(&old), OT_OK);
    assert_int_equal(init(&new), OT_OK);
    assert_int_equal(send(&old, "t", 0, 9), OT_ERR_INVALID_TXN_STATE);         /* not added */
    assert_int_equal(send(&old, "t", 0, 11), OT_ERR_TRANSACTION_ABORTABLE);
    assert_int_equal(add(&old, "t", 0), OT_OK);
    assert_int_equal(send(&old, "t", 0, 9), OT_OK);
    assert_int_equal(send(&old, "t", 0, 9), OT_OK);
    assert_int_equal(look("t", 0).last_stable_offset, 0);
    assert_int_equal(send(&new, "t", 1, 12), OT_OK);                           /* added by asking */
    assert_int_equal(finish(&old, true, 0), OT_OK);
    assert_int_equal(finish(&new, false, 2), OT_OK);
    until_stable("t", 0, 3);
    until_stable("t", 1, 2);
    assert_int_equal(new.epoch, 1);
    assert_int_equal(send(&new, "t", 1, 12), OT_OK);
    assert_int_equal(finish(&new, true, 2), OT_OK);
    until_stable("t", 1, 4);
    struct producer late = { "new", new.producer_id, 0, { 0, 1 } };
    assert_int_equal(send(&late, "t", 1, 12), OT_ERR_INVALID_PRODUCER_EPOCH);
    late.id = "nobody";
    assert_int_equal(send(&late, "t", 1, 12), OT_ERR_INVALID_PRODUCER_ID_MAPPING);
    assert_int_equal(look("t", 1).log_end_offset, 4);
}

static void an_open_transaction_goes_on_after_a_restart(void **state)
{
    (void)state;
    struct producer a = { .id = "a" };
    topic_make("t");
    assert_int_equal(init(&a), OT_OK);
    assert_int_equal(send(&a, "t", 0, 12), OT_OK);
    stop();
    start();
    assert_int_equal(state_of("a"), OT_TRANSACTION_STATE_ONGOING);
    assert_int_equal(send(&a, "t", 0, 12), OT_OK);
    assert_int_equal(look("t", 0).last_stable_offset, 0);
    assert_int_equal(finish(&a, true, 2), OT_OK);
    until_stable("t", 0, 3);
}

static void a_deleted_topic_holds_nobody_up(void **state)
{
    (void)state;
    struct producer a = { .id = "a" };
    topic_make("t");
    topic_make("gone");
    assert_int_equal(init(&a), OT_OK);
    assert_int_equal(send(&a, "t", 0, 12), OT_OK);
    assert_int_equal(send(&a, "gone", 0, 12), OT_OK);
    struct broker_admin_item item = { .kind = BROKER_DELETE_TOPIC, .topic = ot_str_of("gone"), .if_version = -1 };
    struct broker_admin admin = { .call = call_here(), .timeout_ms = 30000, .items = &item, .item_count = 1 };
    broker_admin(house.broker, &admin);
    wait_here();
    assert_int_equal(item.error, OT_OK);
    assert_int_equal(finish(&a, true, 2), OT_OK);
    until_stable("t", 0, 2);
    while (state_of("a") != OT_TRANSACTION_STATE_COMPLETE_COMMIT) {
    }
}

struct marking { struct broker_markers markers; struct ot_task go; };
static void marking_go(struct ot_task *task) { broker_markers(house.broker, &OT_CONTAINER(task, struct marking, go)->markers); }

static void an_operator_ends_what_hangs(void **state)
{
    (void)state;
    struct producer a = { .id = "a" };
    struct coord_txn_request answered, request;
    topic_make("t");
    assert_int_equal(init(&a), OT_OK);
    request = of(COORD_TXN_ABORT, &a);
    assert_int_equal(ask(&request, &answered), OT_ERR_INVALID_TXN_STATE);
    assert_int_equal(send(&a, "t", 0, 12), OT_OK);
    assert_int_equal(ask(&request, &answered), OT_OK);
    until_stable("t", 0, 2);
    assert_int_equal(finish(&a, true, 2), OT_ERR_PRODUCER_FENCED);
    /* and by markers alone, where no coordinator knows of it */
    struct producer b = { .id = "b" };
    assert_int_equal(init(&b), OT_OK);
    assert_int_equal(send(&b, "t", 1, 12), OT_OK);
    struct coord_txn_place places[] = { { .topic = ot_str_of("t"), .partition = 1 }, { .topic = ot_str_of("t"), .partition = 9 } };
    struct broker_marker marker = { .producer_id = b.producer_id, .producer_epoch = b.epoch, .version = 1, .places = places, .place_count = 2 };
    struct marking marking = { .markers = { .call = call_here(), .markers = &marker, .marker_count = 1 }, .go.run = marking_go };
    ot_exec_post(marking.markers.call.home, &marking.go);
    wait_here();
    assert_int_equal(marking.markers.error, OT_OK);
    assert_int_equal(places[0].error, OT_OK);
    assert_int_equal(places[1].error, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    until_stable("t", 1, 2);
}

static void clients_do_not_write_what_coordinators_read(void **state)
{
    (void)state;
    struct producer a = { .id = "a" };
    assert_int_equal(init(&a), OT_OK);
    assert_int_equal(send(&a, "__transaction_state", 0, 12), OT_ERR_INVALID_TOPIC_EXCEPTION);
}

struct committing { struct broker_group_call group; struct ot_task go; };
static void committing_go(struct ot_task *task) { broker_group(house.broker, &OT_CONTAINER(task, struct committing, go)->group); }

/* One offset in the producer's transaction, as TxnOffsetCommit of an old client. */
static enum ot_err commit_offset(const struct producer *producer, struct broker_txn_guard *guard)
{
    struct ot_arena arena;
    struct group_part part = { .topic = ot_str_of("t"), .offset = 7, .leader_epoch = -1, .metadata = ot_str_of("") };
    enum ot_err err;
    ot_arena_init(&arena, 1 << 20);
    do {
        struct committing one = { .go.run = committing_go, .group = { .call = call_here(), .guard = guard, .ask = { .kind = GROUP_ASK_TXN_OFFSET_COMMIT, .version = 3,
            .group_id = ot_str_of("g"), .client_id = ot_str_of(""), .client_host = ot_str_of(""), .arena = &arena, .parts = &part, .part_count = 1, .member_id = ot_str_of(""),
            .instance_id = { .null = true }, .generation = -1, .retention_ms = -1, .producer_id = producer->producer_id, .producer_epoch = producer->epoch } } };
        ot_exec_post(one.group.call.home, &one.go);
        wait_here();
        err = broker_group_error(&one.group);
    } while (again(err));
    ot_arena_free(&arena);
    return err;
}

static void groups_make(void)
{
    struct broker_shard_topic made = { .call = call_here() };
    broker_shard_topic(house.broker, BROKER_SHARD_GROUPS, &made);
    wait_here();
    assert_int_equal(made.error, OT_OK);
}

static void offsets_that_come_after_the_end_of_their_transaction_begin_no_other(void **state)
{
    (void)state;
    struct producer a = { .id = "a" };
    struct broker_txn_guard guard;
    topic_make("t");
    groups_make();
    const char *offsets = "__consumer_offsets";
    const int32_t partition = broker_shard_of(house.broker, BROKER_SHARD_GROUPS, ot_str_of("g"));
    const struct coord_txn_place place = { .topic = ot_str_of(offsets), .partition = partition };
    assert_int_equal(init(&a), OT_OK);
    assert_int_equal(add(&a, offsets, partition), OT_OK);
    assert_false(broker_txn_guard(house.broker, &place, a.producer_id, a.epoch, &guard));
    assert_int_equal(commit_offset(&a, &guard), OT_OK);
    broker_txn_guard_end(&guard);
    assert_true(broker_txn_guard(house.broker, &place, a.producer_id, a.epoch, &guard));       /* open: nobody need be asked, and it ends all the same */
    assert_int_equal(finish(&a, true, 0), OT_OK);
    until_stable(offsets, partition, 2);
    assert_int_equal(commit_offset(&a, &guard), OT_ERR_INVALID_TXN_STATE);
    broker_txn_guard_end(&guard);
    assert_int_equal(add(&a, offsets, partition), OT_OK);
    assert_false(broker_txn_guard(house.broker, &place, a.producer_id, a.epoch, &guard));      /* asked: it is added */
    assert_int_equal(finish(&a, false, 0), OT_OK);
    until_stable(offsets, partition, 3);
    assert_int_equal(commit_offset(&a, &guard), OT_ERR_INVALID_TXN_STATE);
    broker_txn_guard_end(&guard);
    broker_txn_guard_end(&guard);
    assert_int_equal(look(offsets, partition).log_end_offset, 3);
    assert_int_equal(look(offsets, partition).last_stable_offset, 3);
    assert_int_equal(add(&a, offsets, partition), OT_OK);                                      /* the next one is none the worse */
    assert_false(broker_txn_guard(house.broker, &place, a.producer_id, a.epoch, &guard));
    assert_int_equal(commit_offset(&a, &guard), OT_OK);
    broker_txn_guard_end(&guard);
    assert_int_equal(finish(&a, true, 0), OT_OK);
    until_stable(offsets, partition, 5);
}

/* Nothing is being written: the settings of the disk may change. */
static void until_quiet(void)
{
    while (atomic_load(&house.broker->core.work_open) != 0) {
    }
}

/* One write after the other fails: the record of the step, the batch, a marker, the completion. Whatever it is, asking again brings the transaction to its end, whole. */
/* A full disk is refused until the next look at it, within a second. */
static enum ot_err send_when_there_is_room(struct producer *producer, const char *topic, int32_t partition, int16_t version)
{
    const int64_t until_us = ot_clock_boot_us() + 60 * 1000000;
    enum ot_err err = send(producer, topic, partition, version);
    while (err == OT_ERR_NO_SPACE && ot_clock_boot_us() < until_us) err = send(producer, topic, partition, version);
    return err;
}

static void any_write_may_fail_once(void **state)
{
    (void)state;
    struct producer a = { .id = "a" };
    int64_t ends[2] = { 0, 0 };
    topic_make("t");
    assert_int_equal(init(&a), OT_OK);
    for (uint64_t n = 1; n <= 6; n++) {
        until_quiet();
        ot_io_fault_at(&house.fault, OT_IO_CALL_PWRITEV, n, OT_ERR_NO_SPACE);
        const bool commit = n % 2 == 1;
        assert_int_equal(send_when_there_is_room(&a, "t", 0, 12), OT_OK);
        assert_int_equal(send_when_there_is_room(&a, "t", 1, 12), OT_OK);
        assert_int_equal(finish(&a, commit, 2), OT_OK);
        until_all_stable("t", 0, &ends[0]);
        until_all_stable("t", 1, &ends[1]);
        while (state_of("a") != (commit ? OT_TRANSACTION_STATE_COMPLETE_COMMIT : OT_TRANSACTION_STATE_COMPLETE_ABORT)) {
        }
        until_quiet();
        ot_io_fault_at(&house.fault, OT_IO_CALL_ANY, 0, OT_OK);
    }
}

/* It comes while the coordinator is asked for the next one. */
static void a_late_marker_is_not_of_the_next_transaction(void **state)
{
    (void)state;
    int64_t end_offset = 0;
    struct producer a = { .id = "a" };
    topic_make("t");
    assert_int_equal(init(&a), OT_OK);
    for (uint64_t n = 1; n <= 5; n++) {                /* one of them is the marker */
        until_quiet();
        ot_io_fault_at(&house.fault, OT_IO_CALL_PWRITEV, n, OT_ERR_NO_SPACE);
        assert_int_equal(send_when_there_is_room(&a, "t", 0, 12), OT_OK);
        assert_int_equal(finish(&a, true, 2), OT_OK);
        assert_int_equal(send_when_there_is_room(&a, "t", 0, 12), OT_OK);
        assert_int_equal(finish(&a, true, 2), OT_OK);
        until_all_stable("t", 0, &end_offset);
        until_quiet();
        ot_io_fault_at(&house.fault, OT_IO_CALL_ANY, 0, OT_OK);
    }
}

static enum ot_err group_ask(enum group_ask_kind kind, const void *request, void *response, struct ot_arena *arena)
{
    struct committing one = { .go.run = committing_go, .group = { .call = call_here(), .ask = { .kind = kind, .version = 3, .group_id = ot_str_of("g"), .client_id = ot_str_of("c"),
        .client_host = ot_str_of("h"), .request = request, .response = response, .arena = arena, .member_id = ot_str_of(""), .instance_id = { .null = true }, .generation = -1,
        .retention_ms = -1, .producer_id = -1, .producer_epoch = -1 } } };
    ot_exec_post(one.group.call.home, &one.go);
    wait_here();
    return broker_group_error(&one.group);
}

enum { SESSION_MS = 300 };
/* A member that never says a word again. */
static void member_join(void)
{
    struct ot_join_group_request_join_group_request_protocol protocol = { .name = ot_str_of("range"), .metadata = { (const uint8_t *)"s", 1, false } };
    struct ot_join_group_request join;
    struct ot_join_group_response joined;
    struct ot_arena arena;
    enum ot_err err;
    ot_arena_init(&arena, 1 << 20);
    ot_join_group_request_defaults(&join);
    join.group_id = ot_str_of("g");
    join.session_timeout_ms = SESSION_MS;
    join.rebalance_timeout_ms = 60000;
    join.protocol_type = ot_str_of("consumer");
    join.protocols.items = &protocol;
    join.protocols.count = 1;
    do {
        ot_join_group_response_defaults(&joined);
        err = group_ask(GROUP_ASK_JOIN, &join, &joined, &arena);
    } while (again(err));
    assert_int_equal(err, OT_OK);
    ot_arena_free(&arena);
}

/* How long ago its one member was heard; -1: it has none. */
static enum ot_err heard(int64_t *age_ms_out)
{
    struct group_view view = { 0 };
    struct ot_arena arena;
    ot_arena_init(&arena, 1 << 20);
    const enum ot_err err = group_ask(GROUP_ASK_VIEW, NULL, &view, &arena);
    *age_ms_out = err != OT_OK || view.member_count == 0 ? -1 : view.members[0].heartbeat_age_ms;
    ot_arena_free(&arena);
    return err;
}

/* Who only looks is answered all the time. */
static int64_t heard_ms(void)
{
    int64_t age_ms;
    assert_int_equal(heard(&age_ms), OT_OK);
    return age_ms;
}

static void groups_min_isr_set(int32_t min_isr)
{
    struct broker_partition *owner = broker_partition_find(house.broker, ot_str_of("__consumer_offsets"), broker_shard_of(house.broker, BROKER_SHARD_GROUPS, ot_str_of("g")));
    assert_non_null(owner);
    pthread_mutex_lock(&owner->mutex);
    owner->min_isr = min_isr;
    pthread_mutex_unlock(&owner->mutex);
    broker_partition_put(owner);
}

/* There are too few replicas, and the time of the one member goes by. */
static void member_outlives_its_time(void)
{
    int64_t age_ms = -1;
    groups_make();
    while (age_ms < 0) {                       /* else it went before there were too few */
        groups_min_isr_set(1);
        member_join();
        groups_min_isr_set(2);
        (void)heard(&age_ms);
    }
    while (age_ms < 3 * SESSION_MS) {
        age_ms = heard_ms();
        assert_true(age_ms >= 0);
    }
}

static void a_member_whose_time_is_up_goes_once_that_can_be_written(void **state)
{
    (void)state;
    stop();
    house.heartbeat_ms = "1";
    start();
    member_outlives_its_time();
    groups_min_isr_set(1);
    while (heard_ms() >= 0) {
    }
}

/* Those of consumer groups are refused as long as nothing can be written. */
static void members_are_heard_before_they_go(void **state)
{
    (void)state;
    stop();
    house.heartbeat_ms = "15000";
    start();
    member_outlives_its_time();
    groups_min_isr_set(1);
    const int64_t from_ms = heard_ms();
    int64_t age_ms = from_ms;
    while (age_ms < from_ms + 2000) {          /* longer than from look to look */
        age_ms = heard_ms();
        assert_true(age_ms >= 0);
    }
}

/* One partition of "t" of the group "g": committed or, with an offset of -1, looked for. */
static enum ot_err offset_ask(enum group_ask_kind kind, struct group_part *part)
{
    struct ot_arena arena;
    ot_arena_init(&arena, 1 << 20);
    struct committing one = { .go.run = committing_go, .group = { .call = call_here(), .ask = { .kind = kind, .version = 8, .group_id = ot_str_of("g"), .client_id = ot_str_of(""),
        .client_host = ot_str_of(""), .arena = &arena, .parts = part, .part_count = 1, .member_id = ot_str_of(""), .instance_id = { .null = true }, .generation = -1,
        .retention_ms = -1, .producer_id = -1, .producer_epoch = -1 } } };
    ot_exec_post(one.group.call.home, &one.go);
    wait_here();
    const enum ot_err err = broker_group_error(&one.group);
    ot_arena_free(&arena);
    return err == OT_OK ? part->error : err;
}

static enum ot_err offset_of(int64_t *out)
{
    struct group_part part = { .topic = ot_str_of("t"), .offset = -1, .leader_epoch = -1, .metadata = ot_str_of("") };
    const enum ot_err err = offset_ask(GROUP_ASK_OFFSET_FETCH, &part);
    *out = part.offset;
    return err;
}

/* Nothing is synced until it is told to go on, so a shard that is loaded waits for its high watermark. */
struct stuck { struct ot_task task; struct waited go; };
static void stuck_run(struct ot_task *task)
{
    struct stuck *stuck = OT_CONTAINER(task, struct stuck, task);
    pthread_mutex_lock(&stuck->go.mutex);
    while (!stuck->go.done) pthread_cond_wait(&stuck->go.changed, &stuck->go.mutex);
    pthread_mutex_unlock(&stuck->go.mutex);
}

static void unstick(struct stuck *stuck)
{
    pthread_mutex_lock(&stuck->go.mutex);
    stuck->go.done = true;
    pthread_cond_signal(&stuck->go.changed);
    pthread_mutex_unlock(&stuck->go.mutex);
}

static void uncommit_run(struct broker_shard_op *op, void *state, enum ot_err err)
{
    struct broker_partition *owner = op->shard->owner;
    (void)state;
    assert_int_equal(err, OT_OK);
    atomic_store(&owner->high_watermark, eng_log_end_offset(owner->log) - 1);
    broker_shard_fail(op->shard, OT_ERR_COORDINATOR_NOT_AVAILABLE);
    wake();
}

static void offsets_of_a_topic_go_with_it_though_their_shard_is_loading(void **state)
{
    (void)state;
    struct group_part part = { .topic = ot_str_of("t"), .topic_id = { { 7 } }, .offset = 7, .leader_epoch = -1, .metadata = ot_str_of("") };
    struct stuck stuck = { .task.run = stuck_run, .go = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false } };
    struct broker_shard_op uncommit = { .run = uncommit_run };
    int64_t offset;
    enum ot_err err;
    groups_make();
    while (again(err = offset_ask(GROUP_ASK_OFFSET_COMMIT, &part))) part.error = OT_OK;
    assert_int_equal(err, OT_OK);
    assert_int_equal(offset_of(&offset), OT_OK);
    assert_int_equal(offset, 7);
    ot_exec_post(ot_exec_pool_exec(house.flush), &stuck.task);
    broker_shard_run(house.broker, BROKER_SHARD_GROUPS, broker_shard_of(house.broker, BROKER_SHARD_GROUPS, ot_str_of("g")), &uncommit);
    wait_here();
    broker_groups_topic_gone(house.broker, part.topic, &part.topic_id);
    assert_int_equal(offset_of(&offset), OT_ERR_COORDINATOR_LOAD_IN_PROGRESS);
    assert_int_equal(offset_of(&offset), OT_ERR_COORDINATOR_LOAD_IN_PROGRESS);         /* whoever has less patience has been refused */
    unstick(&stuck);
    while ((err = offset_of(&offset)) == OT_ERR_COORDINATOR_LOAD_IN_PROGRESS) {
    }
    assert_true(err == OT_ERR_GROUP_ID_NOT_FOUND || (err == OT_OK && offset == -1));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, begin, end)
    static const struct CMUnitTest tests[] = { T(both_protocols_end_with_a_marker), T(an_open_transaction_goes_on_after_a_restart), T(a_deleted_topic_holds_nobody_up),
        T(an_operator_ends_what_hangs), T(clients_do_not_write_what_coordinators_read),
        T(offsets_that_come_after_the_end_of_their_transaction_begin_no_other), T(any_write_may_fail_once), T(a_late_marker_is_not_of_the_next_transaction),
        T(a_member_whose_time_is_up_goes_once_that_can_be_written), T(members_are_heard_before_they_go),
        T(offsets_of_a_topic_go_with_it_though_their_shard_is_loading) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
