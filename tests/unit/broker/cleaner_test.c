/* The cleaner: which partition it takes, when, and what becomes of one that cannot be compacted. */
#include "core_fixture.h"
#include "engine/compact.h"

static struct broker_core *core_of(struct core_fixture *f) { return &f->broker->core; }

/* A compacted topic of one partition; its segments are as small as the config allows. */
static struct broker_partition *compacted(struct core_fixture *f, const char *topic, uint8_t id, const char *ratio, const char *max_lag, const char *durability)
{
    static const int32_t isr[1] = { 1 };
    struct broker_topic_config config;
    const char *keys[] = { "cleanup.policy", "segment.bytes", "min.cleanable.dirty.ratio", "max.compaction.lag.ms", "ottla.durability" };
    const char *values[] = { "compact", "1048576", ratio, max_lag, durability };
    struct broker_partition_row row = { .topic = topic, .topic_id = fixture_id(id), .leader = 1, .leader_epoch = 1, .min_isr = 1, .isr = isr, .isr_count = 1, .replicas = isr,
        .replica_count = 1 };
    broker_topic_config_effective(f->config, keys, values, 5, &config);
    broker_partition_apply(f->broker, &row, &config, f->home, fixture_opened, f);
    run(f);
    assert_int_equal(f->open_err, OT_OK);
    struct broker_partition *partition = broker_partition_find(f->broker, ot_str_of(topic), 0);
    assert_non_null(partition);
    broker_partition_put(partition);
    return partition;
}

static void put(struct core_fixture *f, const char *topic, const char *key, uint32_t value_bytes)
{
    struct eng_sink sink;
    struct eng_batch_builder builder;
    struct eng_batch_fields fields = eng_batch_fields_default();
    struct produce_call ask = { 0 };
    uint8_t *value = calloc(1, value_bytes);
    eng_sink_pool(&sink, f->pool, 1u << 21);
    assert_int_equal(eng_batch_build_begin(&builder, &fields, NULL, &sink), OT_OK);
    assert_int_equal(eng_batch_build_next(&builder, sim_sched_wall_ms(f->sched), (struct ot_blob){ (const uint8_t *)key, (uint32_t)strlen(key), false },
        (struct ot_blob){ value, value_bytes, false }, NULL, 0), OT_OK);
    assert_int_equal(eng_batch_build_finish(&builder), OT_OK);
    free(value);
    ask.produce = (struct broker_produce){ .call = { .home = f->home, .done = produce_done }, .buf = eng_sink_take(&sink), .acks = 1, .timeout_ms = 5000, .api_version = 13,
        .origin = ENG_ORIGIN_CLIENT, .parts = &ask.part, .part_count = 1, .queued = produce_queued };
    ask.produce.transactional_id.null = true;
    ask.part = (struct broker_produce_part){ .topic = ot_str_of(topic), .records = ask.produce.buf->data, .records_bytes = (uint32_t)ask.produce.buf->bytes };
    (void)broker_produce(f->broker, &ask.produce);
    run(f);
    assert_true(ask.done);
    assert_int_equal(ask.part.error, OT_OK);
}

/* So many sealed segments of one key, and an active one. */
static void fill(struct core_fixture *f, const char *topic, uint32_t segments)
{
    for (uint32_t i = 0; i <= segments * 2; i++) put(f, topic, "k", 500000);
}

static int setup(void **state)
{
    assert_int_equal(fixture_setup(state), 0);
    struct core_fixture *f = *state;
    fixture_set(f, "log.cleaner.backoff.ms", "1000");
    core_of(f)->cleaner.exec = f->flush;
    core_of(f)->cleaner.threads_max = 1;
    broker_core_start(core_of(f));
    return 0;
}

static void what_is_dirty_enough_is_compacted(void **state)
{
    struct core_fixture *f = *state;
    struct broker_partition *partition = compacted(f, "keys", 7, "0.5", "9223372036854775807", "fsync");
    fill(f, "keys", 3);
    pass_ms(f, 3000);
    assert_int_equal(eng_log_first_dirty(partition->log), 6);
    assert_int_equal(eng_log_segments(partition->log, NULL, 0), 2);
    uint64_t bytes = eng_log_size_bytes(partition->log);
    fill(f, "keys", 1);                    /* dirty: one segment of 1 MB beside one of 0.5 MB */
    pass_ms(f, 3000);
    assert_true(eng_log_first_dirty(partition->log) > 6);
    assert_true(eng_log_size_bytes(partition->log) < bytes + 1100000);
    assert_int_equal(partition->cleaner.uncleanable, false);
    assert_true(partition->cleaner.cleaned_ms > 0);
}

static void below_the_ratio_it_waits_until_it_is_overdue(void **state)
{
    struct core_fixture *f = *state;
    struct broker_partition *partition = compacted(f, "keys", 7, "1", "3600000", "fsync");
    fill(f, "keys", 3);
    pass_ms(f, 5000);
    assert_int_equal(eng_log_first_dirty(partition->log), 0);      /* a ratio of 1 is not above 1 */
    pass_ms(f, 3600000);
    assert_int_equal(eng_log_first_dirty(partition->log), 6);
}

static void the_overdue_one_comes_before_the_dirtier_one(void **state)
{
    struct core_fixture *f = *state;
    struct broker_partition *dirty = compacted(f, "dirty", 7, "0", "9223372036854775807", "fsync"), *old = compacted(f, "old", 8, "1", "1000", "fsync");
    core_of(f)->cleaner.exec = NULL;
    fill(f, "dirty", 3);
    fill(f, "old", 1);
    pass_ms(f, 5000);
    core_of(f)->cleaner.exec = f->flush;
    broker_cleaner_look(core_of(f), sim_sched_now_us(f->sched) + 1000000);
    assert_true(old->cleaner_busy);
    assert_false(dirty->cleaner_busy);
    pass_ms(f, 5000);
    assert_int_equal(eng_log_first_dirty(old->log), 2);
    assert_int_equal(eng_log_first_dirty(dirty->log), 6);
}

static void what_is_not_on_disk_is_flushed_first(void **state)
{
    struct core_fixture *f = *state;
    struct broker_partition *partition = compacted(f, "keys", 7, "0", "9223372036854775807", "replicated");
    fill(f, "keys", 2);
    assert_int_equal(eng_log_flushed_end(partition->log), 0);
    pass_ms(f, 5000);
    assert_true(eng_log_flushed_end(partition->log) > 0);
    assert_int_equal(eng_log_first_dirty(partition->log), 4);
}

static void a_damaged_one_is_tried_again_with_growing_pauses(void **state)
{
    struct core_fixture *f = *state;
    struct broker_partition *bad = compacted(f, "bad", 7, "0", "9223372036854775807", "fsync"), *good = compacted(f, "good", 8, "0", "9223372036854775807", "fsync");
    core_of(f)->cleaner.exec = NULL;
    fill(f, "bad", 1);
    assert_true(sim_disk_flip(f->disk, "/sim/a/bad-0/00000000000000000000.log", 600000, 3));
    fill(f, "good", 1);
    core_of(f)->cleaner.exec = f->flush;
    pass_ms(f, 5000);
    assert_true(bad->cleaner.uncleanable);
    assert_int_equal(bad->cleaner.error, OT_ERR_CORRUPT);
    assert_int_equal(bad->cleaner.failures, 1);
    assert_int_equal(eng_log_first_dirty(bad->log), 0);
    assert_int_equal(eng_log_first_dirty(good->log), 2);   /* the others go on */
    struct broker_partition_state view;
    broker_partition_state(bad, &view);
    assert_true(view.uncleanable && view.compacts && view.damaged_offset >= 0);
    pass_ms(f, 50000);
    assert_int_equal(bad->cleaner.failures, 1);
    pass_ms(f, 12000);
    assert_int_equal(bad->cleaner.failures, 2);
    pass_ms(f, 100000);
    assert_int_equal(bad->cleaner.failures, 2);
    pass_ms(f, 25000);
    assert_int_equal(bad->cleaner.failures, 3);
    put(f, "bad", "k", 100);               /* and it serves */
}

static void a_removed_partition_does_not_wait_for_its_run(void **state)
{
    struct core_fixture *f = *state;
    struct broker_partition *partition = broker_partition_ref(compacted(f, "keys", 7, "0", "9223372036854775807", "fsync"));
    core_of(f)->cleaner.exec = NULL;
    fill(f, "keys", 2);
    pass_ms(f, 100);                       /* it is on disk */
    core_of(f)->cleaner.exec = f->flush;
    broker_cleaner_look(core_of(f), sim_sched_now_us(f->sched) + 1000000);
    assert_true(partition->cleaner_busy);
    struct ot_uuid id = fixture_id(7);
    broker_topic_remove(f->broker, &id, false);
    run(f);
    assert_false(partition->cleaner_busy);
    assert_true(partition->retired);
    assert_int_equal(eng_log_first_dirty(partition->log), 0);
    broker_partition_put(partition);
}

static void the_point_reached_is_there_after_a_restart(void **state)
{
    struct core_fixture *f = *state;
    (void)compacted(f, "keys", 7, "0", "9223372036854775807", "fsync");
    fill(f, "keys", 2);
    pass_ms(f, 5000);
    fixture_stop(f);
    fixture_start(f);
    struct broker_partition *partition = compacted(f, "keys", 7, "0", "9223372036854775807", "fsync");
    assert_int_equal(eng_log_first_dirty(partition->log), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_dirty_enough_is_compacted, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(below_the_ratio_it_waits_until_it_is_overdue, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(the_overdue_one_comes_before_the_dirtier_one, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(what_is_not_on_disk_is_flushed_first, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_damaged_one_is_tried_again_with_growing_pauses, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(a_removed_partition_does_not_wait_for_its_run, setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(the_point_reached_is_there_after_a_restart, setup, fixture_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
