/* Shards over a real broker on a real disk: a counter kind whose records are numbers. Threads are real, so tests wait for facts and never for time. */
#include "broker/room.h"

#include "base/io_fault.h"
#include "base/log.h"
#include "base/util.h"
#include "engine/batch_build.h"
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

struct state {                                 /* of the kind under test */
    struct broker_shard *shard;
    int64_t sum, count, committed_markers, aborted_markers;
    bool served;
};
static _Atomic int states_open, states_loaded, loaded_uncommitted;

static int32_t kind_partitions(const struct broker_config *config) { return (void)config, 3; }
static uint32_t kind_configs(const struct broker_config *config, int16_t *replication_factor_out, struct broker_shard_config *out)
{
    (void)config;
    *replication_factor_out = 3;               /* more than there are brokers */
    out[0] = (struct broker_shard_config){ "cleanup.policy", "compact" };
    return 1;
}
static void *kind_open(struct broker *broker, struct broker_shard *shard, int32_t partition, int32_t leader_epoch)
{
    (void)broker, (void)partition, (void)leader_epoch;
    struct state *state = calloc(1, sizeof *state);
    state->shard = shard;
    atomic_fetch_add(&states_open, 1);
    return state;
}
static void add(struct state *state, const uint8_t *value)
{
    state->sum += (int64_t)ot_load_u64(value);
    state->count++;
}
static enum ot_err kind_replay(void *state, const struct broker_shard_record *record)
{
    add(state, record->value.data);
    return OT_OK;
}
static void kind_marker(void *arg, int64_t producer_id, int16_t producer_epoch, bool commit)
{
    struct state *state = arg;
    (void)producer_id, (void)producer_epoch;
    if (commit) state->committed_markers++;
    else state->aborted_markers++;
}
static void kind_loaded(void *arg)
{
    struct broker_partition *owner = ((struct state *)arg)->shard->owner;
    if (atomic_load(&owner->high_watermark) < eng_log_end_offset(owner->log)) atomic_fetch_add(&loaded_uncommitted, 1);
    ((struct state *)arg)->served = true;
    atomic_fetch_add(&states_loaded, 1);
}
static void kind_close(void *state, enum ot_err why)
{
    assert_int_not_equal(why, OT_OK);
    free(state);
    atomic_fetch_sub(&states_open, 1);
}
static const struct broker_shard_kind kind = { "__consumer_offsets", kind_partitions, kind_configs, kind_open, kind_replay, kind_marker, kind_loaded, kind_close, kind_marker };

static const struct broker_shard_kind *const test_kinds[BROKER_SHARD_KIND_COUNT] = { &kind };

struct house {
    char root[128];
    struct ot_io_fault fault;
    struct ot_exec_pool *io, *flush;
    struct ot_exec_thread *background, *coord, *door, *shards[2];
    struct ot_exec *execs[2];
    struct ot_pool *decode;
    struct broker_config_store *config;
    struct broker *broker;
    const char *commit_timeout_ms;             /* NULL: the default */
};
static const struct broker_listener listener = { "PLAINTEXT", "127.0.0.1", NULL, 9092, 0, "PLAINTEXT" };

static void set(struct house *house, const char *key, const char *value)
{
    char text[300];
    if (broker_config_set(house->config, BROKER_SOURCE_FLAG, "test", key, value, text, sizeof text) != OT_OK) fail_msg("%s", text);
}

static void start(struct house *house)
{
    assert_int_equal(broker_config_store_new(&house->config), OT_OK);
    set(house, "log.dirs", house->root);
    set(house, "ottla.disk.reserve.bytes", "0");
    set(house, "ottla.disk.free.refuse.bytes", "0");
    if (house->commit_timeout_ms != NULL) set(house, "offsets.commit.timeout.ms", house->commit_timeout_ms);
    assert_int_equal(ot_exec_pool_start("io", 2, &house->io), OT_OK);
    assert_int_equal(ot_exec_pool_start("flush", 1, &house->flush), OT_OK);
    assert_int_equal(ot_exec_thread_start("background", &house->background), OT_OK);
    assert_int_equal(ot_exec_thread_start("coord", &house->coord), OT_OK);
    assert_int_equal(ot_exec_thread_start("door", &house->door), OT_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ot_exec_thread_start("shards", &house->shards[i]), OT_OK);
        house->execs[i] = ot_exec_thread_exec(house->shards[i]);
    }
    house->decode = ot_pool_new("decode", 64 << 20, 0);
    struct broker_setup setup = { .io = &house->fault.io, .config = house->config, .io_exec = ot_exec_pool_exec(house->io),
        .flush_exec = ot_exec_pool_exec(house->flush), .background_exec = ot_exec_thread_exec(house->background), .coord_exec = ot_exec_thread_exec(house->coord),
        .shard_execs = house->execs, .shard_exec_count = 2, .shard_kinds = test_kinds, .decode_pool = house->decode, .listeners = &listener, .listener_count = 1 };
    assert_int_equal(broker_open(&setup, &house->broker), OT_OK);
}

static void stop(struct house *house)
{
    if (house->broker == NULL) return;
    broker_stop(house->broker);
    assert_int_equal(atomic_load(&states_open), 0);
    broker_close(house->broker);
    house->broker = NULL;
    ot_exec_thread_stop(house->door);
    for (int i = 0; i < 2; i++) ot_exec_thread_stop(house->shards[i]);
    ot_exec_thread_stop(house->coord);
    ot_exec_thread_stop(house->background);
    ot_exec_pool_stop(house->io);
    ot_exec_pool_stop(house->flush);
    ot_pool_free(house->decode);
    broker_config_store_free(house->config);
}

static int setup(void **out)
{
    struct house *house = calloc(1, sizeof *house);
    const char *tmp = getenv("TMPDIR");
    snprintf(house->root, sizeof house->root, "%s/ottla-shard-XXXXXX", tmp == NULL ? "/tmp" : tmp);
    if (mkdtemp(house->root) == NULL) return -1;
    ot_io_fault_init(&house->fault, ot_io_real());
    start(house);
    *out = house;
    return 0;
}

static int teardown(void **out)
{
    struct house *house = *out;
    char command[200];
    stop(house);
    snprintf(command, sizeof command, "rm -rf '%s'", house->root);
    assert_int_equal(system(command), 0);
    free(house);
    return 0;
}

/* ---- waited for */

struct waited { pthread_mutex_t mutex; pthread_cond_t changed; bool done; };
static void waited_init(struct waited *waited)
{
    waited->done = false;
    pthread_mutex_init(&waited->mutex, NULL);
    pthread_cond_init(&waited->changed, NULL);
}
static void wake(struct waited *waited)
{
    pthread_mutex_lock(&waited->mutex);
    waited->done = true;
    pthread_cond_signal(&waited->changed);
    pthread_mutex_unlock(&waited->mutex);
}
static void wait_for(struct waited *waited)
{
    pthread_mutex_lock(&waited->mutex);
    while (!waited->done) pthread_cond_wait(&waited->changed, &waited->mutex);
    pthread_mutex_unlock(&waited->mutex);
    pthread_mutex_destroy(&waited->mutex);
    pthread_cond_destroy(&waited->changed);
}

struct topic_call { struct broker_shard_topic ask; struct waited waited; };
static void topic_done(struct broker_call *call) { wake(&OT_CONTAINER(call, struct topic_call, ask.call)->waited); }
static enum ot_err topic_made(struct house *house)
{
    struct topic_call call = { .ask.call = { .home = ot_exec_thread_exec(house->door), .done = topic_done } };
    waited_init(&call.waited);
    broker_shard_topic(house->broker, BROKER_SHARD_GROUPS, &call.ask);
    wait_for(&call.waited);
    return call.ask.error;
}

/* Adds number `count` times in one op, as separate writes; waits until the last of them is told. */
struct adding { struct broker_shard_op op; struct adding_write { struct broker_shard_write write; struct adding *all; } writes[64]; struct waited waited; int64_t number;
    int count, told; enum ot_err op_error, error; bool look, loaded_anew; int64_t sum, seen_count, markers; bool transactional; int64_t producer_id; };

static void told(struct broker_shard_write *write, void *state, enum ot_err err)
{
    struct adding *adding = OT_CONTAINER(write, struct adding_write, write)->all;
    (void)state;
    assert_ptr_equal(write, &adding->writes[adding->told].write);          /* in order */
    if (err != OT_OK) adding->error = err;
    if (++adding->told == adding->count) wake(&adding->waited);
}

static void add_run(struct broker_shard_op *op, void *arg, enum ot_err err)
{
    struct adding *adding = OT_CONTAINER(op, struct adding, op);
    struct state *state = arg;
    adding->op_error = err;
    if (err == OT_OK && !adding->look) adding->op_error = broker_shard_writable(op->shard);
    if (adding->op_error != OT_OK || adding->look) {
        if (state != NULL) {
            adding->sum = state->sum;
            adding->seen_count = state->count;
            adding->markers = state->committed_markers * 1000 + state->aborted_markers;
            assert_true(state->served);
        }
        wake(&adding->waited);
        return;
    }
    for (int i = 0; i < adding->count; i++) {
        uint8_t value[8];
        struct broker_shard_append_record record = { { (const uint8_t *)"k", 1, false }, { value, 8, false } };
        ot_store_u64(value, (uint64_t)adding->number);
        adding->writes[i].all = adding;
        adding->writes[i].write = (struct broker_shard_write){ .records = &record, .count = 1, .producer_id = adding->transactional ? adding->producer_id : -1,
            .producer_epoch = adding->transactional ? 0 : -1, .transactional = adding->transactional, .done = told };
        if (!adding->transactional) add(state, value);
        assert_int_equal(broker_shard_append(op->shard, &adding->writes[i].write), OT_OK);
    }
}

static void adding_go(struct house *house, struct adding *adding, int32_t partition)
{
    waited_init(&adding->waited);
    adding->op.run = add_run;
    broker_shard_run(house->broker, BROKER_SHARD_GROUPS, partition, &adding->op);
    wait_for(&adding->waited);
}

static enum ot_err add_numbers(struct house *house, int32_t partition, int64_t number, int count)
{
    struct adding adding = { .number = number, .count = count };
    adding_go(house, &adding, partition);
    return adding.op_error != OT_OK ? adding.op_error : adding.error;
}

static int64_t sum_of(struct house *house, int32_t partition)
{
    struct adding adding = { .look = true };
    do adding_go(house, &adding, partition);
    while (adding.op_error == OT_ERR_COORDINATOR_LOAD_IN_PROGRESS);
    assert_int_equal(adding.op_error, OT_OK);
    return adding.sum;
}

/* ---- what must hold */

static void the_topic_is_made_on_first_use_and_its_keys_have_kafkas_places(void **state)
{
    struct house *house = *state;
    struct broker_view_topic topic;
    assert_int_equal(broker_shard_of(house->broker, BROKER_SHARD_GROUPS, ot_str_of("g")), -1);
    assert_int_equal(add_numbers(house, 0, 1, 1), OT_ERR_COORDINATOR_NOT_AVAILABLE);
    assert_int_equal(topic_made(house), OT_OK);
    assert_int_equal(topic_made(house), OT_OK);
    const struct broker_view *view = broker_view_take(house->broker);
    assert_true(broker_view_topic(view, ot_str_of("__consumer_offsets"), &topic));
    assert_int_equal(topic.partition_count, 3);
    assert_true(topic.internal);
    broker_view_give(view);
    assert_int_equal(broker_shard_count(house->broker, BROKER_SHARD_GROUPS), 3);
    assert_int_equal(broker_shard_of(house->broker, BROKER_SHARD_GROUPS, ot_str_of("g")), 103 % 3);      /* "g".hashCode() is 103 */
}

static void what_was_told_is_there_after_a_restart(void **state)
{
    struct house *house = *state;
    assert_int_equal(topic_made(house), OT_OK);
    for (int i = 0; i < 5; i++) assert_int_equal(add_numbers(house, i % 3, i, 10), OT_OK);
    assert_int_equal(sum_of(house, 0), 30);
    assert_int_equal(sum_of(house, 1), 50);
    stop(house);
    start(house);
    assert_int_equal(broker_shard_count(house->broker, BROKER_SHARD_GROUPS), 3);
    assert_int_equal(sum_of(house, 0), 30);
    assert_int_equal(sum_of(house, 1), 50);
    assert_int_equal(sum_of(house, 2), 20);
}

/* With those of all partitions that the topic was made with. */
static int loads_so_far(struct house *house)
{
    for (int32_t i = 0; i < 3; i++) (void)sum_of(house, i);
    return atomic_load(&states_loaded);
}

static void a_failed_append_takes_back_what_it_changed(void **state)
{
    struct house *house = *state;
    assert_int_equal(topic_made(house), OT_OK);
    assert_int_equal(add_numbers(house, 1, 7, 3), OT_OK);
    const int loads = loads_so_far(house);
    ot_io_fault_at(&house->fault, OT_IO_CALL_PWRITEV, 1, OT_ERR_NO_SPACE);
    assert_int_equal(add_numbers(house, 1, 1000, 20), OT_ERR_COORDINATOR_NOT_AVAILABLE);
    assert_true(atomic_load(&house->fault.fired));
    ot_io_fault_at(&house->fault, OT_IO_CALL_ANY, 0, OT_OK);
    assert_int_equal(sum_of(house, 1), 21);                    /* of the log, not of what was tried */
    assert_int_equal(atomic_load(&states_loaded), loads + 1);
    enum ot_err err;
    do err = add_numbers(house, 1, 2, 1);                      /* the disk's state is looked at each second */
    while (err == OT_ERR_COORDINATOR_NOT_AVAILABLE);
    assert_int_equal(err, OT_OK);
    assert_int_equal(sum_of(house, 1), 23);
}

/* As a new leader finds it: the log holds more than is known to be committed. The state is loaded anew. */
static void uncommit_run(struct broker_shard_op *op, void *state, enum ot_err err)
{
    struct adding *adding = OT_CONTAINER(op, struct adding, op);
    struct broker_partition *owner = op->shard->owner;
    (void)state;
    assert_int_equal(err, OT_OK);
    atomic_store(&owner->high_watermark, eng_log_end_offset(owner->log) - 2);
    broker_shard_fail(op->shard, OT_ERR_COORDINATOR_NOT_AVAILABLE);
    wake(&adding->waited);
}

static void a_state_is_served_when_all_that_it_rests_on_is_committed(void **state)
{
    struct house *house = *state;
    struct adding adding = { .op.run = uncommit_run };
    assert_int_equal(topic_made(house), OT_OK);
    assert_int_equal(add_numbers(house, 1, 7, 3), OT_OK);
    const int loads = loads_so_far(house);
    waited_init(&adding.waited);
    broker_shard_run(house->broker, BROKER_SHARD_GROUPS, 1, &adding.op);
    wait_for(&adding.waited);
    assert_int_equal(sum_of(house, 1), 21);
    assert_int_equal(atomic_load(&states_loaded), loads + 1);
    assert_int_equal(atomic_load(&loaded_uncommitted), 0);
}

/* Syncing stands still until it is told to go on, so that nothing is committed meanwhile. */
struct stuck { struct ot_task task; struct waited go; };
static void stuck_run(struct ot_task *task) { wait_for(&OT_CONTAINER(task, struct stuck, task)->go); }

static void role_set(struct broker_partition *owner, bool is_leader)
{
    pthread_mutex_lock(&owner->mutex);
    owner->is_leader = is_leader;
    pthread_mutex_unlock(&owner->mutex);
}

/* It is loaded and waits for the high watermark; meanwhile another broker leads, and what the follower learns of is committed says nothing of what was loaded. */
static void a_load_is_not_served_on_the_word_of_another_leader(void **state)
{
    struct house *house = *state;
    struct adding adding = { .op.run = uncommit_run }, look = { .look = true };
    struct stuck stuck = { .task.run = stuck_run };
    struct broker_shard_view view;
    assert_int_equal(topic_made(house), OT_OK);
    assert_int_equal(add_numbers(house, 1, 7, 3), OT_OK);
    struct broker_partition *owner = broker_partition_find(house->broker, ot_str_of("__consumer_offsets"), 1);
    waited_init(&stuck.go);
    ot_exec_post(ot_exec_pool_exec(house->flush), &stuck.task);
    waited_init(&adding.waited);
    broker_shard_run(house->broker, BROKER_SHARD_GROUPS, 1, &adding.op);
    wait_for(&adding.waited);
    do assert_true(broker_shard_view(house->broker, BROKER_SHARD_GROUPS, 1, &view));
    while (!view.loading);
    role_set(owner, false);
    wake(&stuck.go);
    atomic_store(&owner->high_watermark, eng_log_end_offset(owner->log));
    adding_go(house, &look, 1);
    assert_int_equal(look.op_error, OT_ERR_COORDINATOR_LOAD_IN_PROGRESS);
    role_set(owner, true);
    assert_int_equal(sum_of(house, 1), 21);
    broker_partition_put(owner);
}

/* Another broker led in between, and this one does again before the shard had its turn: what its state rests on may have been overtaken. */
static void overtaken_run(struct broker_shard_op *op, void *state, enum ot_err err)
{
    struct broker_partition *owner = op->shard->owner;
    add_run(op, state, err);
    pthread_mutex_lock(&owner->mutex);
    owner->leader_epoch += 2;
    pthread_mutex_unlock(&owner->mutex);
    broker_shard_examine(op->shard);           /* behind what add_run left to be sent */
}

static void a_state_of_an_earlier_leadership_writes_nothing(void **state)
{
    struct house *house = *state;
    struct adding adding = { .op.run = overtaken_run, .number = 100, .count = 1 };
    assert_int_equal(topic_made(house), OT_OK);
    assert_int_equal(add_numbers(house, 1, 7, 3), OT_OK);
    waited_init(&adding.waited);
    broker_shard_run(house->broker, BROKER_SHARD_GROUPS, 1, &adding.op);
    wait_for(&adding.waited);
    assert_int_equal(adding.error, OT_ERR_NOT_COORDINATOR);
    assert_int_equal(sum_of(house, 1), 21);
}

/* One marker as a transaction coordinator writes it. */
struct marking { struct broker_produce produce; struct broker_produce_part part; struct waited waited; uint8_t bytes[ENG_MARKER_BYTES]; struct ot_task go; struct house *house; };
static void marking_done(struct broker_call *call) { wake(&OT_CONTAINER(call, struct marking, produce.call)->waited); }
static void marking_queued(struct broker_produce *produce) { (void)produce; }
static void marking_go(struct ot_task *task)
{
    struct marking *marking = OT_CONTAINER(task, struct marking, go);
    (void)broker_produce(marking->house->broker, &marking->produce);
}

static void mark_epoch(struct house *house, int32_t partition, int64_t producer_id, int16_t producer_epoch, bool commit)
{
    struct marking marking = { .house = house, .go.run = marking_go };
    const size_t bytes = eng_batch_build_marker(marking.bytes, producer_id, producer_epoch, 0, 0, commit, ot_clock_wall_ms());
    marking.produce = (struct broker_produce){ .call = { .home = ot_exec_thread_exec(house->door), .done = marking_done }, .acks = -1, .timeout_ms = 30000, .api_version = 13,
        .transactional_id = { .null = true }, .origin = ENG_ORIGIN_COORDINATOR, .transaction_version = 1, .parts = &marking.part, .part_count = 1, .queued = marking_queued };
    marking.part = (struct broker_produce_part){ .topic = ot_str_of("__consumer_offsets"), .partition = partition, .records = marking.bytes, .records_bytes = (uint32_t)bytes };
    waited_init(&marking.waited);
    ot_exec_post(marking.produce.call.home, &marking.go);
    wait_for(&marking.waited);
    assert_int_equal(marking.part.error, OT_OK);
}
static void mark(struct house *house, int32_t partition, int64_t producer_id, bool commit) { mark_epoch(house, partition, producer_id, 0, commit); }

static int64_t markers_of(struct house *house, int32_t partition)
{
    struct adding adding = { .look = true };
    adding_go(house, &adding, partition);
    assert_int_equal(adding.op_error, OT_OK);
    return adding.markers;
}

static void markers_are_told_while_serving_and_by_the_replay(void **state)
{
    struct house *house = *state;
    assert_int_equal(topic_made(house), OT_OK);
    struct adding adding = { .number = 5, .count = 2, .transactional = true, .producer_id = 77 };
    adding_go(house, &adding, 2);
    assert_int_equal(adding.op_error, OT_OK);
    assert_int_equal(adding.error, OT_OK);
    mark(house, 2, 77, true);
    assert_int_equal(markers_of(house, 2), 1000);
    adding_go(house, &(struct adding){ .number = 5, .count = 1, .transactional = true, .producer_id = 77 }, 2);
    mark(house, 2, 77, false);
    assert_int_equal(markers_of(house, 2), 1001);
    stop(house);
    start(house);
    assert_int_equal(sum_of(house, 2), 15);                    /* the kind sees every record; what became of its transaction is the marker's to say */
    assert_int_equal(markers_of(house, 2), 1001);
}

static void a_marker_that_was_missed_makes_the_state_anew(void **state)
{
    struct house *house = *state;
    assert_int_equal(topic_made(house), OT_OK);
    assert_int_equal(add_numbers(house, 2, 7, 3), OT_OK);
    const int loads = loads_so_far(house);
    struct broker_shard *shard = broker_shard_find(house->broker, BROKER_SHARD_GROUPS, 2);
    atomic_store(&shard->marker_missed, true);                 /* there was no memory to tell of it */
    broker_shard_examine(shard);
    assert_int_equal(sum_of(house, 2), 21);
    assert_int_equal(atomic_load(&states_loaded), loads + 1);
}

/* ---- barriers, and writes behind one that failed */

struct barrier { struct broker_shard_op op; struct broker_shard_write writes[2]; uint32_t told; enum ot_err errors[2]; struct waited waited; struct ot_task later; int64_t end; bool uncommitted; };
static struct barrier *barrier_of(struct broker_shard_write *write, int i) { return OT_CONTAINER(write, struct barrier, writes[i]); }

static void barrier_told(struct barrier *barrier, int i, void *arg, enum ot_err err)
{
    struct state *state = arg;
    struct broker_partition *owner = state->shard->owner;
    barrier->errors[i] = err;
    if (err == OT_OK && atomic_load(&owner->high_watermark) < eng_log_end_offset(owner->log)) barrier->uncommitted = true;
    if (++barrier->told == 2) wake(&barrier->waited);
}
static void first_told(struct broker_shard_write *write, void *state, enum ot_err err) { barrier_told(barrier_of(write, 0), 0, state, err); }
static void second_told(struct broker_shard_write *write, void *state, enum ot_err err) { barrier_told(barrier_of(write, 1), 1, state, err); }

static void barrier_go(struct house *house, struct barrier *barrier, void (*run)(struct broker_shard_op *op, void *state, enum ot_err err))
{
    *barrier = (struct barrier){ .op.run = run };
    waited_init(&barrier->waited);
    broker_shard_run(house->broker, BROKER_SHARD_GROUPS, 1, &barrier->op);
}

static void plain_write(struct broker_shard *shard, struct broker_shard_write *write, int64_t producer_id)
{
    uint8_t value[8];
    const struct broker_shard_append_record record = { { (const uint8_t *)"k", 1, false }, { value, 8, false } };
    ot_store_u64(value, 100);
    write->records = &record;
    write->count = 1;
    write->producer_id = producer_id;
    write->producer_epoch = producer_id >= 0 ? 0 : -1;
    write->transactional = producer_id >= 0;
    assert_int_equal(broker_shard_append(shard, write), OT_OK);
}

static void two_barriers_run(struct broker_shard_op *op, void *state, enum ot_err err)
{
    struct barrier *barrier = OT_CONTAINER(op, struct barrier, op);
    (void)state;
    assert_int_equal(err, OT_OK);
    barrier->writes[0] = (struct broker_shard_write){ .producer_id = -1, .producer_epoch = -1, .done = first_told };
    barrier->writes[1] = (struct broker_shard_write){ .producer_id = -1, .producer_epoch = -1, .done = second_told };
    broker_shard_barrier(op->shard, &barrier->writes[0]);
    broker_shard_barrier(op->shard, &barrier->writes[1]);
}

static void nobody_is_told_of_what_timed_out_before_it_is_committed(void **state)
{
    struct house *house = *state;
    struct stuck stuck = { .task.run = stuck_run };
    struct barrier barrier;
    assert_int_equal(topic_made(house), OT_OK);
    assert_int_equal(add_numbers(house, 1, 7, 3), OT_OK);
    stop(house);
    house->commit_timeout_ms = "100";
    start(house);
    assert_int_equal(sum_of(house, 1), 21);
    waited_init(&stuck.go);
    ot_exec_post(ot_exec_pool_exec(house->flush), &stuck.task);
    assert_int_equal(add_numbers(house, 1, 100, 1), OT_ERR_REQUEST_TIMED_OUT);
    barrier_go(house, &barrier, two_barriers_run);
    assert_int_equal(sum_of(house, 1), 121);                   /* behind the barriers; the state has it already */
    wake(&stuck.go);
    wait_for(&barrier.waited);
    assert_false(barrier.uncommitted);
    do {
        barrier_go(house, &barrier, two_barriers_run);
        wait_for(&barrier.waited);
    } while (barrier.errors[0] != OT_OK);
    assert_int_equal(barrier.errors[1], OT_OK);
    assert_false(barrier.uncommitted);
}

static void fenced_run(struct broker_shard_op *op, void *state, enum ot_err err)
{
    struct barrier *barrier = OT_CONTAINER(op, struct barrier, op);
    (void)state;
    assert_int_equal(err, OT_OK);
    barrier->writes[0] = (struct broker_shard_write){ .done = first_told };
    barrier->writes[1] = (struct broker_shard_write){ .producer_id = -1, .producer_epoch = -1, .done = second_told };
    plain_write(op->shard, &barrier->writes[0], 77);
    broker_shard_barrier(op->shard, &barrier->writes[1]);
}

static void a_fenced_producer_is_no_concern_of_others(void **state)
{
    struct house *house = *state;
    struct barrier barrier;
    assert_int_equal(topic_made(house), OT_OK);
    mark_epoch(house, 1, 77, 1, false);
    barrier_go(house, &barrier, fenced_run);
    wait_for(&barrier.waited);
    assert_int_equal(barrier.errors[0], OT_ERR_INVALID_PRODUCER_EPOCH);
    assert_int_equal(barrier.errors[1], OT_OK);
}

static void min_isr_set(struct broker_partition *owner, int32_t min_isr)
{
    pthread_mutex_lock(&owner->mutex);
    owner->min_isr = min_isr;
    pthread_mutex_unlock(&owner->mutex);
}

/* The one behind is sent before the refusal of the first is told, and committed at once. */
static void behind_run(struct ot_task *task)
{
    struct barrier *barrier = OT_CONTAINER(task, struct barrier, later);
    struct broker_shard *shard = barrier->op.shard;
    struct broker_partition *owner = shard->owner;
    min_isr_set(owner, 1);
    plain_write(shard, &barrier->writes[1], -1);
    shard->flush_task.run(&shard->flush_task);
    while (atomic_load(&owner->high_watermark) == barrier->end) sched_yield();
    const int64_t until_us = ot_clock_boot_us() + 500000;      /* on a busy machine a turn takes long, and gives others theirs all the same */
    for (int turns = 0; turns < 10000 && ot_clock_boot_us() < until_us; turns++) sched_yield();        /* until its answer is in the queue, most likely; else the test asks for less */
}

static void refused_run(struct broker_shard_op *op, void *state, enum ot_err err)
{
    struct barrier *barrier = OT_CONTAINER(op, struct barrier, op);
    (void)state;
    assert_int_equal(err, OT_OK);
    min_isr_set(op->shard->owner, 2);
    barrier->end = atomic_load(&op->shard->owner->high_watermark);
    barrier->later.run = behind_run;
    barrier->writes[0] = (struct broker_shard_write){ .done = first_told };
    barrier->writes[1] = (struct broker_shard_write){ .done = second_told };
    plain_write(op->shard, &barrier->writes[0], -1);
    ot_exec_post(broker_shard_exec(op->shard), &barrier->later);
}

static void what_comes_behind_a_refused_write_is_not_told_ok(void **state)
{
    struct house *house = *state;
    struct barrier barrier;
    assert_int_equal(topic_made(house), OT_OK);
    assert_int_equal(add_numbers(house, 1, 7, 3), OT_OK);
    barrier_go(house, &barrier, refused_run);
    wait_for(&barrier.waited);
    assert_int_equal(barrier.errors[0], OT_ERR_COORDINATOR_NOT_AVAILABLE);
    assert_int_equal(barrier.errors[1], OT_ERR_COORDINATOR_NOT_AVAILABLE);
    assert_true(barrier.writes[1].unsure);
    assert_int_equal(sum_of(house, 1), 121);                   /* of the log: the second is there */
}

static void doomed_run(struct broker_shard_op *op, void *state, enum ot_err err)
{
    broker_shard_fail(op->shard, OT_ERR_COORDINATOR_NOT_AVAILABLE);
    two_barriers_run(op, state, err);
}

static void a_state_that_is_about_to_go_passes_no_barrier(void **state)
{
    struct house *house = *state;
    struct barrier barrier;
    assert_int_equal(topic_made(house), OT_OK);
    assert_int_equal(sum_of(house, 1), 0);
    barrier_go(house, &barrier, doomed_run);
    wait_for(&barrier.waited);
    assert_int_equal(barrier.errors[0], OT_ERR_COORDINATOR_NOT_AVAILABLE);
    assert_int_equal(barrier.errors[1], OT_ERR_COORDINATOR_NOT_AVAILABLE);
    assert_int_equal(sum_of(house, 1), 0);
}

static void too_much_for_a_batch_is_known_before(void **state)
{
    struct house *house = *state;
    assert_int_equal(topic_made(house), OT_OK);
    struct broker_shard *shard = broker_shard_find(house->broker, BROKER_SHARD_GROUPS, 0);
    assert_int_equal(sum_of(house, 0), 0);
    assert_int_equal(broker_shard_batch_max(shard), 1048588 - (int)ENG_BATCH_HEADER_BYTES);
}

static void a_stop_answers_and_closes_everything(void **state)
{
    struct house *house = *state;
    assert_int_equal(topic_made(house), OT_OK);
    assert_int_equal(add_numbers(house, 0, 1, 64), OT_OK);
    broker_stop(house->broker);
    assert_int_equal(atomic_load(&states_open), 0);
    assert_int_equal(add_numbers(house, 0, 1, 1), OT_ERR_NOT_COORDINATOR);
    assert_int_equal(topic_made(house), OT_ERR_COORDINATOR_NOT_AVAILABLE);
}

/* As at the end of a reassignment that takes the replica away: nothing failed, and nobody has to do anything. */
static void a_shard_whose_partition_moves_away_closes_without_a_warning(void **state)
{
    struct house *house = *state;
    struct broker_view_topic topic;
    char said[8192] = "";
    assert_int_equal(topic_made(house), OT_OK);
    assert_int_equal(add_numbers(house, 1, 1, 3), OT_OK);
    const struct broker_view *view = broker_view_take(house->broker);
    assert_true(broker_view_topic(view, ot_str_of("__consumer_offsets"), &topic));
    const struct ot_uuid id = topic.id;
    broker_view_give(view);
    FILE *log = tmpfile();
    assert_non_null(log);
    ot_log_setup(OT_LOG_INFO, OT_LOG_TEXT, fileno(log));
    broker_partition_remove(house->broker, &id, 1, false);
    assert_int_not_equal(add_numbers(house, 1, 1, 1), OT_OK);  /* behind the look at what became of it */
    ot_log_setup(OT_LOG_INFO, OT_LOG_TEXT, 2);
    rewind(log);
    assert_true(fread(said, 1, sizeof said - 1, log) > 0);
    fclose(log);
    assert_non_null(strstr(said, "INFO shard closed topic=__consumer_offsets partition=1 error=NOT_COORDINATOR"));
    assert_null(strstr(said, "WARN shard closed"));
    assert_int_equal(sum_of(house, 0), 0);                     /* the others go on */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_topic_is_made_on_first_use_and_its_keys_have_kafkas_places, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_told_is_there_after_a_restart, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_append_takes_back_what_it_changed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_state_is_served_when_all_that_it_rests_on_is_committed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_load_is_not_served_on_the_word_of_another_leader, setup, teardown),
        cmocka_unit_test_setup_teardown(a_state_of_an_earlier_leadership_writes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(markers_are_told_while_serving_and_by_the_replay, setup, teardown),
        cmocka_unit_test_setup_teardown(a_marker_that_was_missed_makes_the_state_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_is_told_of_what_timed_out_before_it_is_committed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_fenced_producer_is_no_concern_of_others, setup, teardown),
        cmocka_unit_test_setup_teardown(what_comes_behind_a_refused_write_is_not_told_ok, setup, teardown),
        cmocka_unit_test_setup_teardown(a_state_that_is_about_to_go_passes_no_barrier, setup, teardown),
        cmocka_unit_test_setup_teardown(a_shard_whose_partition_moves_away_closes_without_a_warning, setup, teardown),
        cmocka_unit_test_setup_teardown(too_much_for_a_batch_is_known_before, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stop_answers_and_closes_everything, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
