/* Fetch: long polls, size limits, sessions, and everything that can end one. */
#include "core_fixture.h"

static void open_two(struct core_fixture *f)
{
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "replicated");
    fixture_apply(f, "t", 7, 1, 1, 1, 1, "replicated");
    run(f);
}

static void put(struct core_fixture *f, int32_t partition, uint32_t bytes)
{
    struct produce_call call;
    produce(f, &call, partition, 1, -1, 0, bytes);
    run(f);
    assert_int_equal(call.part.error, OT_OK);
}

static void a_long_poll_wakes_when_records_come(void **state)
{
    struct core_fixture *f = *state;
    struct fetch_call call;
    open_two(f);
    fetch_begin(f, &call, 0, -1);
    fetch_add(&call, "t", 0, 0);
    fetch_add(&call, "t", 1, 0);
    broker_fetch(f->broker, &call.fetch);
    run(f);
    assert_false(call.done);
    put(f, 1, 10);
    assert_true(call.done);
    assert_int_equal(call.fetch.row_count, 2);
    assert_true(call.fetch.rows[1].read.bytes > 0);
    assert_int_equal(call.fetch.rows[1].high_watermark, 1);
    fetch_end(&call);
    assert_null(fixture_partition(f, 0)->fetch_nodes);
}

static void it_waits_for_min_bytes_and_no_longer_than_max_wait(void **state)
{
    struct core_fixture *f = *state;
    struct fetch_call call;
    open_two(f);
    fetch_begin(f, &call, 0, -1);
    call.fetch.min_bytes = 100000;
    fetch_add(&call, "t", 0, 0);
    broker_fetch(f->broker, &call.fetch);
    put(f, 0, 10);
    pass_ms(f, 499);
    assert_false(call.done);
    pass_ms(f, 2);
    assert_true(call.done);
    assert_true(call.fetch.rows[0].read.bytes > 0);           /* what there is */
    fetch_end(&call);
}

static void it_can_be_cancelled_while_it_waits_and_while_it_reads(void **state)
{
    struct core_fixture *f = *state;
    struct fetch_call parked, woken;
    open_two(f);
    fetch_begin(f, &parked, 0, -1);
    fetch_add(&parked, "t", 0, 0);
    broker_fetch(f->broker, &parked.fetch);
    broker_fetch_cancel(&parked.fetch);
    assert_false(parked.done);
    run(f);
    fetch_end(&parked);
    fetch_begin(f, &woken, 0, -1);
    fetch_add(&woken, "t", 0, 0);
    woken.fetch.min_bytes = 100000;
    broker_fetch(f->broker, &woken.fetch);
    struct produce_call call;
    produce(f, &call, 0, 1, -1, 0, 10);
    run_only(f, f->io);                        /* the wake-up is posted, not run */
    broker_fetch_cancel(&woken.fetch);
    run(f);
    fetch_end(&woken);
    assert_null(fixture_partition(f, 0)->fetch_nodes);
}

static void unknown_names_ids_and_offsets_are_answered_at_once(void **state)
{
    struct core_fixture *f = *state;
    struct fetch_call call;
    open_two(f);
    fetch_begin(f, &call, 0, -1);
    fetch_add(&call, "nothing", 0, 0);
    fetch_add(&call, "t", 9, 0);
    fetch_add(&call, "t", 0, 5);
    fetch_add(&call, "t", 0, 0);
    call.asks[3].topic = (struct ot_str){ .null = true };
    call.asks[3].topic_id = fixture_id(77);
    broker_fetch(f->broker, &call.fetch);
    run(f);
    assert_true(call.done);
    assert_int_equal(call.fetch.rows[0].error, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(call.fetch.rows[1].error, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(call.fetch.rows[2].error, OT_ERR_OFFSET_OUT_OF_RANGE);
    assert_int_equal(call.fetch.rows[3].error, OT_ERR_UNKNOWN_TOPIC_ID);
    fetch_end(&call);
}

static void a_stale_leader_epoch_is_fenced_with_the_leader_named(void **state)
{
    struct core_fixture *f = *state;
    struct fetch_call call;
    fixture_apply(f, "t", 7, 0, 1, 1, 5, "replicated");
    run(f);
    fetch_begin(f, &call, 0, -1);
    fetch_add(&call, "t", 0, 0);
    call.asks[0].leader_epoch = 4;
    broker_fetch(f->broker, &call.fetch);
    run(f);
    assert_int_equal(call.fetch.rows[0].error, OT_ERR_FENCED_LEADER_EPOCH);
    assert_int_equal(call.fetch.rows[0].leader_epoch, 5);
    fetch_end(&call);
}

static void a_session_tells_changes_only_and_counts_its_epochs(void **state)
{
    struct core_fixture *f = *state;
    struct fetch_call full, quiet, news, stale;
    open_two(f);
    fetch_begin(f, &full, 0, 0);
    full.fetch.max_wait_ms = 0;
    fetch_add(&full, "t", 0, 0);
    fetch_add(&full, "t", 1, 0);
    broker_fetch(f->broker, &full.fetch);
    run(f);
    int32_t id = full.fetch.session_id_out;
    assert_int_not_equal(id, 0);
    assert_int_equal(full.fetch.row_count, 2);
    fetch_end(&full);
    fetch_begin(f, &quiet, id, 1);
    quiet.fetch.max_wait_ms = 0;
    broker_fetch(f->broker, &quiet.fetch);
    run(f);
    assert_int_equal(quiet.fetch.error, OT_OK);
    assert_int_equal(quiet.fetch.row_count, 0);
    fetch_end(&quiet);
    fetch_begin(f, &news, id, 2);
    broker_fetch(f->broker, &news.fetch);
    run(f);
    assert_false(news.done);
    put(f, 1, 10);
    assert_true(news.done);
    assert_int_equal(news.fetch.row_count, 1);
    assert_int_equal(news.fetch.rows[0].partition, 1);
    fetch_end(&news);
    fetch_begin(f, &stale, id, 2);
    broker_fetch(f->broker, &stale.fetch);
    run(f);
    assert_int_equal(stale.fetch.error, OT_ERR_INVALID_FETCH_SESSION_EPOCH);
    fetch_end(&stale);
}

static void two_requests_of_one_session_at_a_time_are_one_too_many(void **state)
{
    struct core_fixture *f = *state;
    struct fetch_call first, poll, second, unknown;
    open_two(f);
    fetch_begin(f, &first, 0, 0);
    first.fetch.max_wait_ms = 0;
    fetch_add(&first, "t", 0, 0);
    broker_fetch(f->broker, &first.fetch);
    run(f);
    int32_t id = first.fetch.session_id_out;
    fetch_end(&first);
    fetch_begin(f, &poll, id, 1);
    broker_fetch(f->broker, &poll.fetch);
    fetch_begin(f, &second, id, 2);
    broker_fetch(f->broker, &second.fetch);
    run(f);
    assert_true(second.done);
    assert_false(poll.done);
    assert_int_equal(second.fetch.error, OT_ERR_INVALID_FETCH_SESSION_EPOCH);
    fetch_end(&second);
    pass_ms(f, 600);
    fetch_end(&poll);
    fetch_begin(f, &unknown, id == 1 ? 2 : 1, 1);
    broker_fetch(f->broker, &unknown.fetch);
    run(f);
    assert_int_equal(unknown.fetch.error, OT_ERR_FETCH_SESSION_ID_NOT_FOUND);
    fetch_end(&unknown);
}

static int32_t session_of(struct core_fixture *f, const char *client)
{
    struct fetch_call call;
    fetch_begin(f, &call, 0, 0);
    call.fetch.max_wait_ms = 0;
    call.fetch.client.client_id = ot_str_of(client);
    fetch_add(&call, "t", 0, 0);
    broker_fetch(f->broker, &call.fetch);
    run(f);
    int32_t id = call.fetch.session_id_out;
    fetch_end(&call);
    return id;
}

static void a_full_cache_gives_up_the_idle_ones_and_a_leaky_client_harms_nobody(void **state)
{
    struct core_fixture *f = *state;
    fixture_set(f, "max.incremental.fetch.session.cache.slots", "2");
    open_two(f);
    assert_int_not_equal(session_of(f, "good"), 0);
    assert_int_not_equal(session_of(f, "leaky"), 0);
    assert_int_equal(session_of(f, "leaky"), 0);              /* its share is used up and nobody is idle long enough */
    assert_int_equal(session_of(f, "third"), 0);
    pass_ms(f, 121000);
    assert_int_not_equal(session_of(f, "third"), 0);          /* the one that was idle longest went */
}

static int32_t session_of_follower(struct core_fixture *f, int32_t replica, const char *stream, const char *address)
{
    struct fetch_call call;
    fetch_begin(f, &call, 0, 0);
    call.fetch.max_wait_ms = 0;
    call.fetch.follower = true;
    call.fetch.replica_id = replica;
    call.fetch.client.client_id = ot_str_of(stream);
    call.fetch.client.address = ot_str_of(address);
    broker_fetch(f->broker, &call.fetch);
    run(f);
    int32_t id = call.fetch.session_id_out;
    fetch_end(&call);
    return id;
}

static bool follower_goes_on(struct core_fixture *f, int32_t id, int32_t epoch)
{
    struct fetch_call call;
    fetch_begin(f, &call, id, epoch);
    call.fetch.max_wait_ms = 0;
    call.fetch.follower = true;
    call.fetch.replica_id = 9;
    broker_fetch(f->broker, &call.fetch);
    run(f);
    const enum ot_err error = call.fetch.error;
    fetch_end(&call);
    assert_true(error == OT_OK || error == OT_ERR_FETCH_SESSION_ID_NOT_FOUND);
    return error == OT_OK;
}

static void sessions_of_followers_end_with_their_streams_and_are_bounded(void **state)
{
    struct core_fixture *f = *state;
    char stream[32];
    open_two(f);
    int32_t before = session_of_follower(f, 9, "broker-9-fetcher-0", "10.0.0.9");
    int32_t other = session_of_follower(f, 8, "broker-9-fetcher-0", "10.0.0.9");
    int32_t now = session_of_follower(f, 9, "broker-9-fetcher-0", "10.0.0.77");        /* the same stream, come back from elsewhere */
    assert_false(follower_goes_on(f, before, 1));
    assert_true(follower_goes_on(f, now, 1));
    pass_ms(f, 121000);
    assert_true(follower_goes_on(f, now, 2));
    assert_int_not_equal(session_of_follower(f, 7, "broker-7-fetcher-0", "10.0.0.7"), 0);
    assert_false(follower_goes_on(f, other, 1));               /* nothing was heard of it for two minutes */
    for (uint32_t i = 0; i < BROKER_FETCH_FOLLOWERS_MAX - 2; i++) {
        (void)snprintf(stream, sizeof(stream), "stream-%u", i);
        assert_int_not_equal(session_of_follower(f, 7, stream, "10.0.0.7"), 0);
    }
    assert_true(follower_goes_on(f, now, 3));
    for (uint32_t i = 0; i < BROKER_FETCH_FOLLOWERS_MAX; i++) {
        (void)snprintf(stream, sizeof(stream), "more-%u", i);
        assert_int_not_equal(session_of_follower(f, 7, stream, "10.0.0.7"), 0);
    }
    assert_false(follower_goes_on(f, now, 4));                 /* the one that was idle longest makes room */
}

static void sessions_take_no_more_memory_than_there_is_for_them(void **state)
{
    static struct ot_mem_pool pool;
    struct core_fixture *f = *state;
    struct fetch_call follower;
    char client[32];
    int kept = 0;
    fixture_stop(f);
    pool = (struct ot_mem_pool){ .name = "sessions", .cap_bytes = 8192 };
    f->sessions_pool = &pool;
    fixture_start(f);
    open_two(f);
    for (;; kept++) {
        (void)snprintf(client, sizeof(client), "client-%d", kept);
        if (session_of(f, client) == 0) break;
        assert_in_range(kept, 0, 20);
    }
    assert_in_range(kept, 2, 20);
    assert_true(ot_mem_used_bytes(&pool) <= pool.cap_bytes);
    fetch_begin(f, &follower, 0, 0);           /* a follower has room whatever clients hold */
    follower.fetch.max_wait_ms = 0;
    follower.fetch.follower = true;
    follower.fetch.replica_id = 9;
    fetch_add(&follower, "t", 0, 0);
    broker_fetch(f->broker, &follower.fetch);
    run(f);
    assert_int_not_equal(follower.fetch.session_id_out, 0);
    fetch_end(&follower);
    pass_ms(f, 121000);
    assert_int_not_equal(session_of(f, "late"), 0);            /* those that were idle for long make room */
    fixture_stop(f);
    assert_int_equal(ot_mem_used_bytes(&pool), 0);
    fixture_start(f);
}

static void a_session_keeps_no_name_that_no_topic_can_have(void **state)
{
    static char names[2][1000];
    struct core_fixture *f = *state;
    struct fetch_call call;
    open_two(f);
    memset(names, 'x', sizeof(names));
    names[1][999] = 'y';
    fetch_begin(f, &call, 0, 0);
    for (int i = 0; i < 2; i++) {
        fetch_add(&call, "t", 0, 0);
        call.asks[i].topic = (struct ot_str){ .data = names[i], .bytes = 1000 };
    }
    broker_fetch(f->broker, &call.fetch);
    run(f);
    assert_true(call.done);
    assert_int_equal(call.fetch.session_id_out, 0);
    assert_int_equal(call.fetch.row_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(call.fetch.rows[i].error, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
        assert_true(ot_str_equal(call.fetch.rows[i].topic, call.asks[i].topic));
    }
    fetch_end(&call);
}

static void a_client_does_not_end_the_session_of_a_follower(void **state)
{
    struct core_fixture *f = *state;
    struct fetch_call call;
    open_two(f);
    const int32_t id = session_of_follower(f, 9, "broker-9-fetcher-0", "10.0.0.9");
    fetch_begin(f, &call, id, -1);
    call.fetch.max_wait_ms = 0;
    broker_fetch(f->broker, &call.fetch);
    run(f);
    fetch_end(&call);
    assert_true(follower_goes_on(f, id, 1));
}

static void no_partition_starves_behind_one_that_fills_every_answer(void **state)
{
    struct core_fixture *f = *state;
    struct fetch_call call;
    int64_t offsets[2] = { 0, 0 };
    int32_t id = 0, epoch = 0;
    open_two(f);
    for (int i = 0; i < 10; i++) put(f, 0, 5000);
    put(f, 1, 10);
    for (int round = 0; round < 4; round++) {
        fetch_begin(f, &call, id, epoch);
        call.fetch.max_bytes = 4000;
        fetch_add(&call, "t", 0, offsets[0]);
        fetch_add(&call, "t", 1, offsets[1]);
        broker_fetch(f->broker, &call.fetch);
        run(f);
        for (uint32_t i = 0; i < call.fetch.row_count; i++)
            if (call.fetch.rows[i].read.bytes > 0) offsets[call.fetch.rows[i].partition]++;
        id = call.fetch.session_id_out;
        epoch++;
        fetch_end(&call);
    }
    assert_int_equal(offsets[1], 1);
}

/* What its answers tell without records, that its high watermark moved, is no turn. */
static void nor_does_one_that_is_written_to_all_the_time(void **state)
{
    struct core_fixture *f = *state;
    struct fetch_call call;
    int64_t offsets[2] = { 0, 0 };
    int32_t id = 0, epoch = 0;
    open_two(f);
    for (int i = 0; i < 20; i++) put(f, 0, 5000);
    for (int round = 0; round < 6; round++) {
        put(f, 1, 10);
        fetch_begin(f, &call, id, epoch);
        call.fetch.max_bytes = 4000;
        fetch_add(&call, "t", 0, offsets[0]);
        fetch_add(&call, "t", 1, offsets[1]);
        broker_fetch(f->broker, &call.fetch);
        run(f);
        for (uint32_t i = 0; i < call.fetch.row_count; i++)
            if (call.fetch.rows[i].read.bytes > 0) offsets[call.fetch.rows[i].partition]++;
        id = call.fetch.session_id_out;
        epoch++;
        fetch_end(&call);
    }
    assert_in_range(offsets[0], 2, 4);
    assert_in_range(offsets[1], 2, 4);
}

static void a_topic_made_anew_is_read_from_its_own_start(void **state)
{
    struct core_fixture *f = *state;
    struct fetch_call waits, by_id, by_name;
    struct ot_uuid old = fixture_id(7);
    open_two(f);
    put(f, 0, 10);
    fetch_begin(f, &waits, 0, -1);
    fetch_add(&waits, "t", 0, 1);
    broker_fetch(f->broker, &waits.fetch);
    run(f);
    broker_topic_remove(f->broker, &old, false);
    run(f);
    assert_true(waits.done);
    assert_int_equal(waits.fetch.rows[0].error, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    fetch_end(&waits);
    fixture_apply(f, "t", 8, 0, 1, 1, 1, "replicated");
    run(f);
    fetch_begin(f, &by_id, 0, -1);
    fetch_add(&by_id, "t", 0, 0);
    by_id.asks[0].topic = (struct ot_str){ .null = true };
    by_id.asks[0].topic_id = old;
    broker_fetch(f->broker, &by_id.fetch);
    fetch_begin(f, &by_name, 0, -1);
    by_name.fetch.max_wait_ms = 0;
    fetch_add(&by_name, "t", 0, 0);
    broker_fetch(f->broker, &by_name.fetch);
    run(f);
    assert_int_equal(by_id.fetch.rows[0].error, OT_ERR_UNKNOWN_TOPIC_ID);
    assert_int_equal(by_name.fetch.rows[0].error, OT_OK);
    assert_int_equal(by_name.fetch.rows[0].high_watermark, 0);
    fetch_end(&by_id);
    fetch_end(&by_name);
}

static void count_entry(void *arg, const struct ot_io_entry *entry)
{
    (void)entry;
    ++*(uint32_t *)arg;
}

static uint32_t entries_of(struct core_fixture *f, const char *path)
{
    struct ot_io *io = sim_disk_io(f->disk);
    uint32_t count = 0;
    assert_int_equal(io->ops->list(io, path, count_entry, &count), OT_OK);
    return count;
}

/* A consumer that is killed leaves its session, which nobody may ever use again. */
static void what_was_deleted_leaves_the_disk_though_an_idle_session_names_it(void **state)
{
    struct core_fixture *f = *state;
    struct fetch_call call, next;
    struct ot_uuid id = fixture_id(7);
    const uint32_t before = entries_of(f, "/sim/a");
    open_two(f);
    put(f, 0, 1000);
    put(f, 1, 1000);
    assert_int_equal(entries_of(f, "/sim/a"), before + 2);
    fetch_begin(f, &call, 0, 0);
    fetch_add(&call, "t", 0, 0);
    fetch_add(&call, "t", 1, 0);
    broker_fetch(f->broker, &call.fetch);
    run(f);
    assert_true(call.done);
    const int32_t session = call.fetch.session_id_out;
    assert_int_not_equal(session, 0);
    fetch_end(&call);
    broker_partition_remove(f->broker, &id, 1, false);         /* moved away */
    run(f);
    assert_int_equal(entries_of(f, "/sim/a"), before + 1);
    broker_topic_remove(f->broker, &id, false);
    run(f);
    assert_int_equal(entries_of(f, "/sim/a"), before);
    fetch_begin(f, &next, session, 1);
    next.fetch.max_wait_ms = 0;
    broker_fetch(f->broker, &next.fetch);
    run(f);
    assert_int_equal(next.fetch.row_count, 2);
    assert_int_equal(next.fetch.rows[0].error, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    fetch_end(&next);
}

static bool two_is_near(struct broker_core *core, int32_t broker_id, struct ot_str rack)
{
    (void)core;
    (void)rack;
    return broker_id == 2;
}

static int32_t sent_to(struct core_fixture *f, int64_t offset)
{
    struct fetch_call call;
    fetch_begin(f, &call, 0, -1);
    call.fetch.api_version = 18;
    call.fetch.rack = ot_str_of("near");
    call.fetch.max_wait_ms = 0;
    fetch_add(&call, "t", 0, offset);
    broker_fetch(f->broker, &call.fetch);
    run(f);
    assert_int_equal(call.fetch.rows[0].error, OT_OK);
    const int32_t id = call.fetch.rows[0].preferred_replica;
    fetch_end(&call);
    return id;
}

/* Its retention may have run before the leader's. It would refuse, and the consumer come back here, for ever. */
static void nobody_is_sent_to_a_near_replica_that_has_deleted_what_is_asked_for(void **state)
{
    struct core_fixture *f = *state;
    struct fetch_call call;
    fixture_set(f, "replica.selector.class", "org.apache.kafka.common.replica.RackAwareReplicaSelector");
    f->broker->core.broker_in_rack = two_is_near;
    fixture_apply(f, "t", 7, 0, 2, 1, 1, "replicated");
    run(f);
    put(f, 0, 10);
    put(f, 0, 10);
    put(f, 0, 10);
    assert_int_equal(sent_to(f, 0), -1);                       /* it has not been heard of */
    fetch_begin(f, &call, 0, -1);
    call.fetch.follower = true;
    call.fetch.replica_id = 2;
    call.fetch.replica_epoch = 1;
    call.fetch.max_wait_ms = 0;
    fetch_add(&call, "t", 0, 3);
    call.asks[0].leader_epoch = call.asks[0].last_epoch = 1;
    call.asks[0].log_start_offset = 1;
    broker_fetch(f->broker, &call.fetch);
    run(f);
    assert_int_equal(call.fetch.rows[0].error, OT_OK);
    assert_int_equal(call.fetch.rows[0].high_watermark, 3);
    fetch_end(&call);
    assert_int_equal(sent_to(f, 0), -1);
    assert_int_equal(sent_to(f, 1), 2);
    assert_int_equal(sent_to(f, 2), 2);
}

static void a_write_that_moves_nothing_wakes_nobody(void **state)
{
    struct core_fixture *f = *state;
    struct fetch_call call;
    struct produce_call write;
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "fsync");
    run(f);
    fetch_begin(f, &call, 0, -1);
    fetch_add(&call, "t", 0, 0);
    broker_fetch(f->broker, &call.fetch);
    produce(f, &write, 0, 1, -1, 0, 10);
    run_only(f, f->io);
    assert_non_null(atomic_load(&call.fetch.set->parked));    /* written, not flushed: the high watermark stands */
    run(f);
    fetch_end(&call);
}

/* A session may be closed, or forget the entry, before its last answer is written. */
static void who_is_woken_often_takes_memory_once(void **state)
{
    struct core_fixture *f = *state;
    enum { COUNT = 64 };
    struct fetch_call begin, waits;
    struct broker_fetch_ask asks[COUNT];
    for (int32_t i = 0; i < COUNT; i++) fixture_apply(f, "t", 7, i, 1, 1, 1, "replicated");
    run(f);
    fetch_begin(f, &begin, 0, 0);
    begin.fetch.max_wait_ms = 0;
    for (int32_t i = 0; i < COUNT; i++) {
        begin.fetch.ask_count = 0;
        fetch_add(&begin, "t", i, 0);
        asks[i] = begin.asks[0];
    }
    begin.fetch.asks = asks;
    begin.fetch.ask_count = COUNT;
    broker_fetch(f->broker, &begin.fetch);
    run(f);
    const int32_t id = begin.fetch.session_id_out;
    fetch_end(&begin);
    fetch_begin(f, &waits, id, 1);
    waits.fetch.min_bytes = 1 << 20;
    broker_fetch(f->broker, &waits.fetch);
    for (int32_t i = 0; i < COUNT; i++) put(f, i, 10);         /* each wakes it, and leaves one more partition to be read again */
    assert_false(waits.done);
    assert_in_range(waits.arena.used_bytes, COUNT * sizeof(struct broker_fetch_row), 8 * COUNT * sizeof(struct broker_fetch_row));
    pass_ms(f, 501);
    assert_int_equal(waits.fetch.row_count, COUNT);
    fetch_end(&waits);
}

static void an_answer_keeps_its_names_when_the_session_is_closed_behind_it(void **state)
{
    struct core_fixture *f = *state;
    struct fetch_call last, closes;
    open_two(f);
    put(f, 0, 10);
    fetch_begin(f, &last, 0, 0);
    fetch_add(&last, "t", 0, 0);
    broker_fetch(f->broker, &last.fetch);
    run(f);
    assert_true(last.done);
    const struct broker_fetch_node *node = last.fetch.set->nodes.entries[0].value;
    assert_ptr_not_equal(last.fetch.rows[0].topic.data, node->topic.data);
    fetch_begin(f, &closes, last.fetch.session_id_out, -1);
    broker_fetch(f->broker, &closes.fetch);
    run(f);
    assert_true(ot_str_equal(last.fetch.rows[0].topic, ot_str_of("t")));
    assert_true(last.fetch.rows[0].read.bytes > 0);
    assert_non_null(last.fetch.rows[0].read.pin);
    fetch_end(&closes);
    fetch_end(&last);
}

/* While it waited nothing was pinned: what it found before that may be another file's by now. */
static void a_cancelled_fetch_answers_with_what_it_holds(void **state)
{
    struct core_fixture *f = *state;
    for (int session = 0; session < 2; session++) {
        struct fetch_call call;
        if (session == 0) open_two(f);
        put(f, 0, 10);
        fetch_begin(f, &call, 0, session - 1);
        call.fetch.min_bytes = 100000;
        fetch_add(&call, "t", 0, 0);
        broker_fetch(f->broker, &call.fetch);
        run(f);
        assert_false(call.done);
        broker_fetch_cancel(&call.fetch);
        run(f);
        assert_true(call.done);
        for (uint32_t i = 0; i < call.fetch.row_count; i++)
            if (call.fetch.rows[i].read.bytes > 0) assert_non_null(call.fetch.rows[i].read.pin);
        assert_true(call.fetch.rows[0].read.bytes > 0);
        fetch_end(&call);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_long_poll_wakes_when_records_come),
        TEST(an_answer_keeps_its_names_when_the_session_is_closed_behind_it),
        TEST(who_is_woken_often_takes_memory_once),
        TEST(a_cancelled_fetch_answers_with_what_it_holds),
        TEST(it_waits_for_min_bytes_and_no_longer_than_max_wait),
        TEST(it_can_be_cancelled_while_it_waits_and_while_it_reads),
        TEST(unknown_names_ids_and_offsets_are_answered_at_once),
        TEST(a_stale_leader_epoch_is_fenced_with_the_leader_named),
        TEST(a_session_tells_changes_only_and_counts_its_epochs),
        TEST(sessions_of_followers_end_with_their_streams_and_are_bounded),
        TEST(sessions_take_no_more_memory_than_there_is_for_them),
        TEST(a_session_keeps_no_name_that_no_topic_can_have),
        TEST(a_client_does_not_end_the_session_of_a_follower),
        TEST(two_requests_of_one_session_at_a_time_are_one_too_many),
        TEST(a_full_cache_gives_up_the_idle_ones_and_a_leaky_client_harms_nobody),
        TEST(no_partition_starves_behind_one_that_fills_every_answer),
        TEST(nor_does_one_that_is_written_to_all_the_time),
        TEST(a_topic_made_anew_is_read_from_its_own_start),
        TEST(what_was_deleted_leaves_the_disk_though_an_idle_session_names_it),
        TEST(nobody_is_sent_to_a_near_replica_that_has_deleted_what_is_asked_for),
        TEST(a_write_that_moves_nothing_wakes_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
