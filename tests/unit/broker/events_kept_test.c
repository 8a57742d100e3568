/* Events on a lone broker with a real disk: kept, told, bounded. */
#include "open_house.h"

#include "broker/events.h"

struct kept { _Atomic uint32_t ok, other; };

static void kept(void *arg, enum ot_err err)
{
    struct kept *of = arg;
    atomic_fetch_add(err == OT_OK ? &of->ok : &of->other, 1);
}

static bool emit(struct house *house, struct kept *of, int64_t number)
{
    struct broker_event event = broker_event_of(BROKER_EVENT_RECORDS_LOST);
    struct broker_event_fields fields;
    broker_event_fields_init(&fields);
    broker_event_int(&fields, "number", number);
    event.topic = ot_str_of("orders");
    event.partition = 3;
    event.fields = &fields;
    event.kept = kept;
    event.arg = of;
    return broker_event(house->broker, &event);
}

struct reading { struct broker_event_read read; struct ot_pool *pool; struct ot_task go; struct house *house; struct waited waited; uint32_t lost, gaps; uint64_t dropped; };

static bool each(struct broker_event_read *read, int64_t id, struct ot_blob json)
{
    struct reading *reading = OT_CONTAINER(read, struct reading, read);
    const char *dropped = memmem(json.data, json.bytes, "\"dropped\":", 10);
    (void)id;
    if (dropped != NULL) reading->dropped += strtoull(dropped + 10, NULL, 10);
    reading->lost += memmem(json.data, json.bytes, "\"type\":\"records_lost\"", 21) != NULL;
    reading->gaps += memmem(json.data, json.bytes, "\"type\":\"gap\"", 12) != NULL;
    return true;
}

static void read_done(struct broker_call *call) { wake(&OT_CONTAINER(call, struct reading, read.call)->waited); }

static void read_go(struct ot_task *task)
{
    struct reading *reading = OT_CONTAINER(task, struct reading, go);
    broker_event_read(reading->house->broker, &reading->read);
}

/* All events, by as many reads as it takes. */
static void read_all(struct house *house, struct reading *reading)
{
    reading->pool = ot_pool_new("events", 64 << 20, 0);
    for (int64_t from = 0, end = 1; from < end; from = reading->read.next, end = reading->read.end) {
        reading->house = house;
        reading->read = (struct broker_event_read){ .call = { .home = ot_exec_thread_exec(house->door), .done = read_done }, .from = from, .max_bytes = 256 << 10, .pool = reading->pool, .each = each };
        reading->waited = (struct waited){ PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false };
        reading->go.run = read_go;
        ot_exec_post(reading->read.call.home, &reading->go);
        wait_for(&reading->waited);
        assert_int_equal(reading->read.error, OT_OK);
    }
    ot_pool_free(reading->pool);
}

static void an_event_is_kept_and_its_emitter_is_told(void **state)
{
    struct house *house = *state;
    struct kept of = { 0 };
    struct reading reading = { 0 };
    start(house);
    assert_int_equal(house->err, OT_OK);
    assert_true(emit(house, &of, 1));
    while (atomic_load(&of.ok) + atomic_load(&of.other) == 0) sched_yield();
    assert_int_equal(atomic_load(&of.ok), 1);
    stop(house);
    start(house);
    read_all(house, &reading);
    assert_int_equal(reading.lost, 1);
    assert_int_equal(reading.gaps, 0);
}

/* The executor that takes events in waits until it is let go. */
struct held { struct ot_task task; _Atomic bool let_go; struct waited done; };

static void hold(struct ot_task *task)
{
    struct held *held = OT_CONTAINER(task, struct held, task);
    while (!atomic_load(&held->let_go)) sched_yield();
    wake(&held->done);
}

/* What the queue has no room for is refused at once, counted, and the count is told; what was taken is kept, or its emitter hears that it is not. */
static void too_many_events_are_refused_and_counted(void **state)
{
    struct house *house = *state;
    struct kept of = { 0 };
    struct reading reading = { 0 };
    uint32_t taken = 0, refused = 0;
    struct held held = { .task.run = hold, .done = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false } };
    start(house);
    assert_int_equal(house->err, OT_OK);
    ot_exec_post(ot_exec_thread_exec(house->background), &held.task);
    for (int64_t i = 0; refused < 1000 && i < 1000000; i++) {
        if (emit(house, &of, i)) taken++;
        else refused++;
    }
    assert_int_equal(refused, 1000);
    atomic_store(&held.let_go, true);
    wait_for(&held.done);
    while (atomic_load(&of.ok) < taken) sched_yield();
    for (; !emit(house, &of, -1); refused++) sched_yield();    /* with it all refusals are told */
    while (atomic_load(&of.ok) < taken + 1) sched_yield();
    read_all(house, &reading);
    assert_int_equal(reading.lost, taken + 1);
    assert_true(reading.gaps >= 1);
    assert_int_equal(reading.dropped, refused);
    assert_int_equal(atomic_load(&of.other), 0);
    assert_true(emit(house, &of, -2));
    stop(house);
    assert_int_equal(atomic_load(&of.ok) + atomic_load(&of.other), taken + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_event_is_kept_and_its_emitter_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(too_many_events_are_refused_and_counted, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
