/* The append lane: order, duplicates, failures in the middle, and what each kind of acknowledgement waits for. */
#include "base/util.h"
#include "broker/log_dirs.h"
#include "broker/transactions.h"
#include "core_fixture.h"

static void batches_lie_in_the_order_in_which_they_came(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call calls[20];
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "replicated");
    run(f);
    for (int i = 0; i < 20; i++) produce(f, &calls[i], 0, 1, -1, 0, 100);
    run(f);
    for (int i = 0; i < 20; i++) {
        assert_true(calls[i].done);
        assert_int_equal(calls[i].part.error, OT_OK);
        assert_int_equal(calls[i].part.base_offset, i);
    }
    assert_int_equal(eng_log_end_offset(fixture_partition(f, 0)->log), 20);
}

static void acks_all_waits_for_the_disk_in_a_class_that_syncs_and_acks_1_does_not(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call all, one;
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "fsync");
    run(f);
    produce(f, &all, 0, -1, -1, 0, 10);
    produce(f, &one, 0, 1, -1, 0, 10);
    run_only(f, f->io);
    run_only(f, f->home);
    assert_true(one.done);
    assert_false(all.done);
    assert_int_equal(atomic_load(&fixture_partition(f, 0)->high_watermark), 0);
    run_only(f, f->flush);
    run_only(f, f->home);
    assert_true(all.done);
    assert_int_equal(all.part.error, OT_OK);
    assert_int_equal(atomic_load(&fixture_partition(f, 0)->high_watermark), 2);
}

static void acks_0_and_acks_all_of_class_replicated_need_no_flush(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call all, none;
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "replicated");
    run(f);
    produce(f, &all, 0, -1, -1, 0, 10);
    produce(f, &none, 0, 0, -1, 0, 10);
    run_only(f, f->io);
    run_only(f, f->home);
    assert_true(all.done && none.done);
    assert_int_equal(eng_log_flushed_end(fixture_partition(f, 0)->log), 0);
}

static void a_repeated_batch_waits_for_what_its_original_waits_for(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call first, again, late;
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "fsync");
    run(f);
    produce(f, &first, 0, -1, 50, 0, 10);
    produce(f, &again, 0, -1, 50, 0, 10);      /* while the first is queued */
    run_only(f, f->io);
    produce(f, &late, 0, -1, 50, 0, 10);       /* while it is written and not flushed */
    run_only(f, f->home);
    assert_false(first.done || again.done || late.done);
    run(f);
    assert_true(first.done && again.done && late.done);
    assert_int_equal(first.part.base_offset, 0);
    assert_int_equal(again.part.base_offset, 0);
    assert_int_equal(late.part.base_offset, 0);
    assert_int_equal(eng_log_end_offset(fixture_partition(f, 0)->log), 1);
}

static void a_duplicate_with_acks_1_of_a_queued_batch_waits_for_the_write(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call first, again;
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "fsync");
    run(f);
    produce(f, &first, 0, -1, 50, 0, 10);
    produce(f, &again, 0, 1, 50, 0, 10);
    run_only(f, f->home);
    assert_false(again.done);
    run_only(f, f->io);
    run_only(f, f->home);
    assert_true(again.done);                   /* the write is enough for it, the original still waits for the disk */
    assert_false(first.done);
    run(f);
    assert_int_equal(fixture_partition(f, 0)->wait_log_ends, 0);
}

static void a_write_that_does_not_fit_fails_its_batch_and_those_behind_and_leaves_no_gap(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call calls[6], after;
    struct sim_faults full = { 0 }, none = { 0 };
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "replicated");
    run(f);
    produce(f, &calls[0], 0, 1, 50, 0, 100);
    run(f);
    full.capacity_bytes = sim_disk_used_bytes(f->disk) + 20000;
    sim_disk_faults(f->disk, &full);
    for (int i = 1; i < 6; i++) produce(f, &calls[i], 0, 1, 50, i, 9000);
    run(f);
    int64_t end = eng_log_end_offset(fixture_partition(f, 0)->log);
    assert_in_range(end, 1, 5);
    for (int i = 1; i < 6; i++) {
        assert_true(calls[i].done);
        assert_int_equal(calls[i].part.error, i < end ? OT_OK : OT_ERR_NO_SPACE);
        assert_int_equal(calls[i].part.base_offset, i < end ? i : -1);
    }
    assert_int_equal(fixture_partition(f, 0)->reserved_end, end);
    sim_disk_faults(f->disk, &none);
    broker_space_check(&f->broker->core);
    produce(f, &after, 0, 1, 50, (int32_t)end, 100);       /* the sequence that failed is the next one: nothing of it was remembered */
    run(f);
    assert_int_equal(after.part.error, OT_OK);
    assert_int_equal(after.part.base_offset, end);
}

static void too_few_in_sync_replicas_refuse_acks_all_before_anything_is_written(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call all, one;
    fixture_apply(f, "t", 7, 0, 1, 2, 1, "fsync");
    run(f);
    produce(f, &all, 0, -1, -1, 0, 10);
    run(f);
    assert_int_equal(all.part.error, OT_ERR_NOT_ENOUGH_REPLICAS);
    assert_int_equal(eng_log_end_offset(fixture_partition(f, 0)->log), 0);
    produce(f, &one, 0, 1, -1, 0, 10);
    run(f);
    assert_int_equal(one.part.error, OT_OK);
}

static enum ot_err put_sequence(struct core_fixture *f, int64_t producer, int32_t sequence)
{
    struct produce_call call;
    produce(f, &call, 0, -1, producer, sequence, 10);
    run(f);
    assert_true(call.done);
    if (call.part.error == OT_ERR_NOT_LEADER_OR_FOLLOWER) assert_int_equal(call.part.leader_id, fixture_partition(f, 0)->leader_id);
    return call.part.error;
}

/* Five are in flight when the refusal ends: what comes behind the first is not told of a gap, which would be taken for loss. */
static void what_follows_a_refused_batch_is_refused_alike_until_that_one_came(void **state)
{
    struct core_fixture *f = *state;
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "replicated");
    run(f);
    assert_int_equal(put_sequence(f, 50, 0), OT_OK);
    fixture_apply(f, "t", 7, 0, 1, 2, 1, "replicated");
    assert_int_equal(put_sequence(f, 50, 1), OT_ERR_NOT_ENOUGH_REPLICAS);
    assert_int_equal(put_sequence(f, 50, 2), OT_ERR_NOT_ENOUGH_REPLICAS);
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "replicated");
    assert_int_equal(put_sequence(f, 50, 3), OT_ERR_NOT_ENOUGH_REPLICAS);
    assert_int_equal(put_sequence(f, 50, 0), OT_OK);       /* a repetition is one all the same */
    assert_int_equal(put_sequence(f, 51, 3), OT_OK);       /* and nobody else's matter */
    for (int32_t i = 1; i < 4; i++) assert_int_equal(put_sequence(f, 50, i), OT_OK);
    assert_int_equal(eng_log_end_offset(fixture_partition(f, 0)->log), 5);
    assert_int_equal(put_sequence(f, 50, 5), OT_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);        /* that gap is not ours */
}

static void a_refused_batch_that_never_comes_is_a_gap_after_a_while(void **state)
{
    struct core_fixture *f = *state;
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "replicated");
    run(f);
    assert_int_equal(put_sequence(f, 50, 0), OT_OK);
    fixture_apply(f, "t", 7, 0, 1, 2, 1, "replicated");
    assert_int_equal(put_sequence(f, 50, 1), OT_ERR_NOT_ENOUGH_REPLICAS);
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "replicated");
    pass_ms(f, BROKER_REFUSED_US / 1000 - 1000);
    assert_int_equal(put_sequence(f, 50, 2), OT_ERR_NOT_ENOUGH_REPLICAS);
    pass_ms(f, 1000);
    assert_int_equal(put_sequence(f, 50, 2), OT_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
}

/* Of an unknown producer any sequence may begin: not the one behind a refused one. */
static void the_second_batch_of_a_producer_does_not_come_before_the_refused_first(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call early;
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "replicated");
    produce(f, &early, 0, -1, 50, 0, 10);      /* the log is not open yet */
    run(f);
    assert_int_equal(early.part.error, OT_ERR_LEADER_NOT_AVAILABLE);
    assert_int_equal(put_sequence(f, 50, 1), OT_ERR_LEADER_NOT_AVAILABLE);
    for (int32_t i = 0; i < 2; i++) assert_int_equal(put_sequence(f, 50, i), OT_OK);
    fixture_apply(f, "t", 7, 0, 1, 1, -2, "replicated");
    assert_int_equal(put_sequence(f, 60, INT32_MAX), OT_ERR_NOT_LEADER_OR_FOLLOWER);
    fixture_apply(f, "t", 7, 0, 1, 1, 3, "replicated");
    assert_int_equal(put_sequence(f, 60, 0), OT_ERR_NOT_LEADER_OR_FOLLOWER);
    assert_int_equal(put_sequence(f, 60, INT32_MAX), OT_OK);
    assert_int_equal(put_sequence(f, 60, 0), OT_OK);
}

static void a_produce_that_nobody_commits_times_out(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call call;
    fixture_apply(f, "t", 7, 0, 2, 1, 1, "replicated");       /* a second member that never fetches */
    run(f);
    produce(f, &call, 0, -1, -1, 0, 10);
    run(f);
    pass_ms(f, 4900);
    assert_false(call.done);
    pass_ms(f, 200);
    assert_true(call.done);
    assert_int_equal(call.part.error, OT_ERR_REQUEST_TIMED_OUT);
    assert_null(fixture_partition(f, 0)->wait_first);
}

/* Nobody is left to end its wait for the disk once the lane has it wait. */
static void a_produce_whose_time_is_up_before_it_is_written_does_not_wait_on(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call call, duplicate;
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "fsync");
    run(f);
    produce(f, &call, 0, -1, 5, 0, 10);
    (void)sim_sched_skip(f->sched, 5100000);   /* the write is queued all the time */
    run_only(f, f->home);
    assert_false(call.done);
    run_only(f, f->io);
    run_only(f, f->home);
    assert_true(call.done);                    /* no flush has run */
    assert_int_equal(call.part.error, OT_ERR_REQUEST_TIMED_OUT);
    assert_null(fixture_partition(f, 0)->wait_first);
    run(f);
    produce(f, &duplicate, 0, -1, 5, 0, 10);
    run(f);
    assert_int_equal(duplicate.part.error, OT_OK);            /* it is in the log all the same, once */
    assert_int_equal(duplicate.part.base_offset, 0);
}

static void losing_leadership_fails_who_waits_and_who_comes(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call waits, comes;
    fixture_apply(f, "t", 7, 0, 2, 1, 1, "replicated");
    run(f);
    produce(f, &waits, 0, -1, -1, 0, 10);
    run(f);
    fixture_apply(f, "t", 7, 0, 2, 1, -2, "replicated");
    run(f);
    assert_true(waits.done);
    assert_int_equal(waits.part.error, OT_ERR_NOT_LEADER_OR_FOLLOWER);
    assert_int_equal(waits.part.base_offset, 0);           /* told, since it was appended */
    produce(f, &comes, 0, -1, -1, 0, 10);
    run(f);
    assert_int_equal(comes.part.error, OT_ERR_NOT_LEADER_OR_FOLLOWER);
    assert_int_equal(comes.part.base_offset, -1);
    assert_int_equal(comes.part.leader_id, 2);
    assert_int_equal(comes.part.leader_epoch, 2);
}

static void a_switch_of_class_keeps_the_high_watermark_and_holds_what_follows(void **state)
{
    struct core_fixture *f = *state;
    struct broker_topic_config config;
    struct produce_call before, after;
    struct ot_uuid id = fixture_id(7);
    const char *keys[] = { "ottla.durability" }, *values[] = { "fsync" };
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "replicated");
    run(f);
    produce(f, &before, 0, -1, -1, 0, 10);
    run(f);
    broker_topic_config_effective(f->config, keys, values, 1, &config);
    broker_partition_configure(f->broker, &id, &config);
    assert_int_equal(atomic_load(&fixture_partition(f, 0)->high_watermark), 1);
    produce(f, &after, 0, -1, -1, 0, 10);
    run_only(f, f->io);
    run_only(f, f->home);
    assert_false(after.done);
    run(f);
    assert_true(after.done);
    assert_int_equal(eng_log_flushed_end(fixture_partition(f, 0)->log), 2);
}

static void removal_answers_everyone_and_gives_the_name_free(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call waits, queued, anew;
    struct ot_uuid old = fixture_id(7);
    fixture_apply(f, "t", 7, 0, 2, 1, 1, "replicated");
    run(f);
    produce(f, &waits, 0, -1, -1, 0, 10);
    run(f);
    produce(f, &queued, 0, 1, -1, 0, 10);
    broker_topic_remove(f->broker, &old, false);
    fixture_apply(f, "t", 8, 0, 1, 1, 1, "replicated");       /* while the old folder still bears the name */
    run(f);
    assert_int_equal(waits.part.error, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(queued.part.error, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(f->open_err, OT_OK);
    produce(f, &anew, 0, 1, -1, 0, 10);
    run(f);
    assert_int_equal(anew.part.error, OT_OK);
    assert_int_equal(anew.part.base_offset, 0);
}

/* The second one is removed before it was opened: it may not take the folder of the third. */
static void topics_made_and_removed_faster_than_they_open_keep_apart(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call call;
    struct ot_io_stat stat;
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "fsync");
    run(f);
    struct ot_uuid first = fixture_id(7), second = fixture_id(8);
    broker_topic_remove(f->broker, &first, false);
    fixture_apply(f, "t", 8, 0, 1, 1, 1, "fsync");
    run_only(f, f->io);                        /* it waits for the first one's folder, behind its retirement */
    broker_topic_remove(f->broker, &second, false);
    fixture_apply(f, "t", 9, 0, 1, 1, 1, "fsync");
    assert_true(sim_sched_step_of(f->sched, f->background));      /* the first one retires; the second has not been opened */
    run_only(f, f->io);
    run(f);
    produce(f, &call, 0, -1, -1, 0, 10);
    run(f);
    assert_int_equal(call.part.error, OT_OK);
    assert_int_equal(sim_disk_io(f->disk)->ops->stat(sim_disk_io(f->disk), "/sim/a/t-0/00000000000000000000.log", &stat), OT_OK);
    assert_int_equal(f->broker->core.dying.count, 0);
}

static void a_flush_that_fails_takes_the_directory_out_of_service_once(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call call, after;
    struct sim_faults broken = { .sync_error = 1 }, none = { 0 };
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "fsync");
    run(f);
    sim_disk_faults(f->disk, &broken);
    produce(f, &call, 0, -1, -1, 0, 10);
    run(f);
    assert_int_equal(call.part.error, OT_ERR_KAFKA_STORAGE_ERROR);
    assert_true(eng_store_dir_offline(f->store, 0));
    sim_disk_faults(f->disk, &none);
    produce(f, &after, 0, -1, -1, 0, 10);
    run(f);
    assert_int_equal(after.part.error, OT_ERR_KAFKA_STORAGE_ERROR);
}

static void offsets_done(struct broker_call *call) { (void)call; }

static void a_full_disk_refuses_produce_and_lets_delete_records_go_on(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call call, refused;
    struct sim_faults full = { 0 };
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "replicated");
    run(f);
    produce(f, &call, 0, 1, -1, 0, 10);
    run(f);
    assert_int_equal(eng_store_reserve_hold(f->store, 0, 65536), OT_OK);
    full.capacity_bytes = sim_disk_used_bytes(f->disk) + 1000;
    sim_disk_faults(f->disk, &full);
    broker_space_check(&f->broker->core);
    produce(f, &refused, 0, 1, -1, 0, 10);
    run(f);
    assert_int_equal(refused.part.error, OT_ERR_NO_SPACE);
    assert_non_null(strstr(refused.part.text, "ottla.disk.free.refuse.bytes"));
    struct { struct broker_offsets offsets; struct broker_offsets_part part; } ask = { .part = { .topic = ot_str_of("t"), .current_leader_epoch = -1, .at = 1 } };
    ask.offsets = (struct broker_offsets){ .call = { .home = f->home, .done = offsets_done }, .kind = BROKER_DELETE_RECORDS, .parts = &ask.part, .part_count = 1 };
    broker_offsets(f->broker, &ask.offsets);
    run(f);
    assert_int_equal(ask.part.error, OT_OK);
    assert_int_equal(ask.part.offset, 1);
}

static void who_shows_disks_is_told_what_producers_are(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call call;
    struct sim_faults full = { 0 };
    struct broker_log_dir dir;
    const uint64_t refuse = (uint64_t)broker_config_current(f->config)->ottla_disk_free_refuse_bytes, warn = (uint64_t)broker_config_current(f->config)->ottla_disk_free_warn_bytes;
    const struct { uint64_t free_bytes; enum ot_err err; int space; } steps[] = { { 2 * warn, OT_OK, BROKER_LOG_DIR_OK }, { warn / 2, OT_OK, BROKER_LOG_DIR_LOW },
        { refuse / 2, OT_ERR_NO_SPACE, BROKER_LOG_DIR_REFUSES }, { refuse + refuse / 32, OT_ERR_NO_SPACE, BROKER_LOG_DIR_REFUSES } /* it does not flap */,
        { warn / 2, OT_OK, BROKER_LOG_DIR_LOW } };
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "replicated");
    run(f);
    for (size_t i = 0; i < OT_ARRAY_COUNT(steps); i++) {
        full.capacity_bytes = sim_disk_used_bytes(f->disk) + steps[i].free_bytes;
        sim_disk_faults(f->disk, &full);
        broker_space_check(&f->broker->core);
        produce(f, &call, 0, 1, -1, 0, 10);
        run(f);
        assert_int_equal(call.part.error, steps[i].err);
        assert_int_equal(broker_log_dirs(f->broker, &dir, 1), 1);
        assert_int_equal(dir.space, steps[i].space);
    }
}

static void a_flush_without_room_is_tried_again_and_takes_nothing_out_of_service(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call call;
    struct sim_faults full = { 0 }, none = { 0 };
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "fsync");
    run(f);
    broker_core_start(&f->broker->core);
    produce(f, &call, 0, -1, -1, 0, 10);
    run_only(f, f->io);
    full.capacity_bytes = sim_disk_used_bytes(f->disk);
    sim_disk_faults(f->disk, &full);
    run_only(f, f->flush);
    run_only(f, f->home);
    assert_false(call.done);
    assert_false(eng_store_dir_offline(f->store, 0));
    sim_disk_faults(f->disk, &none);
    pass_ms(f, 2000);
    assert_true(call.done);
    assert_int_equal(call.part.error, OT_OK);
}

/* ---- flushes that nobody waits for ---- */

static int64_t high_watermark(struct core_fixture *f) { return atomic_load(&fixture_partition(f, 0)->high_watermark); }

static void a_flush_that_nobody_waits_for_may_take_its_time(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call calls[6];
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "fsync");
    run(f);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 6; i++) {
            produce(f, &calls[i], 0, 1, -1, 0, 10);
            run(f);
            assert_true(calls[i].done);
        }
        assert_int_equal(high_watermark(f), round * 6);
        pass_ms(f, 60);
        assert_int_equal(high_watermark(f), round * 6 + 6);
    }
}

static void a_reader_an_offset_question_and_acks_all_hurry_a_flush(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call one, all;
    struct fetch_call fetch;
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "fsync");
    run(f);
    produce(f, &one, 0, 1, -1, 0, 10);
    run(f);
    assert_int_equal(high_watermark(f), 0);
    fetch_begin(f, &fetch, 0, -1);
    fetch_add(&fetch, "t", 0, 0);
    fetch.fetch.max_wait_ms = fetch.fetch.min_bytes = 0;       /* what a producer was told is shown to who asks after it, though he does not mean to wait */
    broker_fetch(f->broker, &fetch.fetch);
    run(f);
    assert_true(fetch.fetch.rows[0].read.bytes > 0);
    fetch_end(&fetch);
    assert_int_equal(high_watermark(f), 1);
    produce(f, &one, 0, 1, -1, 0, 10);
    run(f);
    assert_int_equal(high_watermark(f), 1);
    struct broker_offsets_part part = { .topic = ot_str_of("t"), .partition = 0, .at = -1, .current_leader_epoch = -1 };
    struct broker_offsets offsets = { .call = { .home = f->home, .done = offsets_done }, .kind = BROKER_LIST_OFFSETS, .parts = &part, .part_count = 1 };
    broker_offsets(f->broker, &offsets);
    run(f);
    assert_int_equal(part.offset, 2);
    produce(f, &one, 0, 1, -1, 0, 10);
    run(f);
    assert_int_equal(high_watermark(f), 2);
    produce(f, &all, 0, -1, -1, 0, 10);
    run(f);
    assert_true(all.done);
    assert_int_equal(high_watermark(f), 4);
}

static void a_reader_that_is_there_is_shown_each_append(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call one;
    struct fetch_call fetch;
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "fsync");
    run(f);
    fetch_begin(f, &fetch, 0, -1);
    fetch_add(&fetch, "t", 0, 0);
    broker_fetch(f->broker, &fetch.fetch);
    run(f);
    assert_false(fetch.done);
    produce(f, &one, 0, 1, -1, 0, 10);
    run(f);
    assert_true(fetch.done);
    fetch_end(&fetch);
}

static void a_stop_flushes_what_was_put_off(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call one;
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "fsync");
    run(f);
    produce(f, &one, 0, 1, -1, 0, 10);
    run(f);
    assert_true(broker_core_stop(&f->broker->core, 8000));
    assert_int_equal(high_watermark(f), 1);
}

/* ---- where compressed batches are checked ---- */

static struct ot_buf *packed(struct core_fixture *f, enum eng_codec codec, uint32_t value_bytes)
{
    struct eng_sink sink;
    struct eng_batch_builder builder;
    struct eng_batch_fields fields = eng_batch_fields_default();
    struct eng_encode *encode = NULL;
    uint8_t *value = calloc(1, value_bytes + 1);
    assert_int_equal(eng_encode_new(&encode), OT_OK);
    eng_sink_pool(&sink, f->pool, 1u << 20);
    fields.codec = codec;
    assert_int_equal(eng_batch_build_begin(&builder, &fields, encode, &sink), OT_OK);
    assert_int_equal(eng_batch_build_next(&builder, 1750000000000, (struct ot_blob){ 0 }, (struct ot_blob){ value, value_bytes, false }, NULL, 0), OT_OK);
    assert_int_equal(eng_batch_build_finish(&builder), OT_OK);
    eng_encode_free(encode);
    free(value);
    return eng_sink_take(&sink);
}

/* True: everything was queued before broker_produce came back. */
static bool produce_buf(struct core_fixture *f, struct produce_call *ask, struct ot_buf *buf)
{
    memset(ask, 0, sizeof(*ask));
    ask->produce = (struct broker_produce){ .call = { .home = f->home, .done = produce_done }, .buf = buf, .acks = 1, .timeout_ms = 5000, .api_version = 13,
        .origin = ENG_ORIGIN_CLIENT, .parts = &ask->part, .part_count = 1, .queued = produce_queued };
    ask->produce.transactional_id.null = true;
    ask->part = (struct broker_produce_part){ .topic = ot_str_of("t"), .partition = 0, .records = buf->data, .records_bytes = buf->bytes };
    return broker_produce(f->broker, &ask->produce);
}

static void a_small_compressed_batch_is_checked_at_once_and_others_elsewhere(void **state)
{
    static const struct { enum eng_codec codec; uint32_t value_bytes; bool at_once; } rows[] = {
        { ENG_CODEC_LZ4, 5000, true }, { ENG_CODEC_SNAPPY, 5000, true }, { ENG_CODEC_ZSTD, 5000, true },
        { ENG_CODEC_GZIP, 5000, false },           /* slow to decode */
        { ENG_CODEC_ZSTD, 300000, false },         /* a few bytes that hold a lot */
        { ENG_CODEC_LZ4, 300000, false }, { ENG_CODEC_NONE, 300000, true },
    };
    struct core_fixture *f = *state;
    struct produce_call call;
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "replicated");
    run(f);
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) {
        assert_int_equal(produce_buf(f, &call, packed(f, rows[i].codec, rows[i].value_bytes)), rows[i].at_once);
        run(f);
        assert_true(call.done);
        assert_int_equal(call.part.error, OT_OK);
        assert_int_equal(call.part.base_offset, (int64_t)i);
    }
}

static void a_small_damaged_batch_is_refused_with_its_reason(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call call;
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "replicated");
    run(f);
    struct ot_buf *buf = packed(f, ENG_CODEC_ZSTD, 5000);
    buf->data[ENG_BATCH_HEADER_BYTES] ^= 0xff;
    ot_store_u32(buf->data + ENG_BATCH_CRC_POS, ot_crc32c(0, buf->data + ENG_BATCH_CRC_FROM, buf->bytes - ENG_BATCH_CRC_FROM));
    (void)produce_buf(f, &call, buf);
    run(f);
    assert_true(call.done);
    assert_int_equal(call.part.error, OT_ERR_CORRUPT_MESSAGE);
    assert_non_null(strstr(call.part.text, "zstd"));
}

static void a_topic_with_a_codec_of_its_own_gets_its_batches_repacked(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call call;
    fixture_set(f, "compression.type", "zstd");
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "replicated");
    run(f);
    assert_false(produce_buf(f, &call, packed(f, ENG_CODEC_LZ4, 5000)));
    run(f);
    assert_true(call.done);
    assert_int_equal(call.part.error, OT_OK);
}

/* ---- the order in which logs open ---- */

static int stage_of(struct core_fixture *f, int32_t partition) { return atomic_load(&fixture_partition(f, partition)->stage); }

static void four_that_wait(struct core_fixture *f)
{
    fixture_stop(f);
    f->openings_max = 1;
    fixture_start(f);
    for (int i = 0; i < 4; i++) fixture_apply(f, "t", 7, i, 1, 1, 1, "replicated");
}

static void what_a_client_asks_for_is_opened_before_the_others(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call call;
    four_that_wait(f);
    assert_true(sim_sched_step_of(f->sched, f->io));           /* the first; and the second has its turn now */
    assert_int_equal(stage_of(f, 0), BROKER_PARTITION_OPEN);
    for (int i = 0; i < 2; i++) {                              /* asking again changes nothing */
        produce(f, &call, 3, 1, -1, 0, 10);
        run_only(f, f->home);
        assert_int_equal(call.part.error, OT_ERR_LEADER_NOT_AVAILABLE);
    }
    assert_true(sim_sched_step_of(f->sched, f->io));
    assert_true(sim_sched_step_of(f->sched, f->io));
    assert_int_equal(stage_of(f, 1), BROKER_PARTITION_OPEN);
    assert_int_equal(stage_of(f, 2), BROKER_PARTITION_OPENING);
    assert_int_equal(stage_of(f, 3), BROKER_PARTITION_OPEN);
    run(f);
    assert_int_equal(stage_of(f, 2), BROKER_PARTITION_OPEN);
    produce(f, &call, 3, 1, -1, 0, 10);
    run(f);
    assert_int_equal(call.part.error, OT_OK);
}

static void a_stop_does_not_wait_for_logs_that_were_not_begun(void **state)
{
    struct core_fixture *f = *state;
    four_that_wait(f);
    assert_true(sim_sched_step_of(f->sched, f->io));
    assert_false(broker_core_stop(&f->broker->core, 8000));    /* not all are closed whole */
    run(f);
    for (int i = 0; i < 4; i++) assert_int_equal(stage_of(f, i), i == 0 ? BROKER_PARTITION_OPEN : BROKER_PARTITION_OPENING);
    assert_int_equal(f->opened, 4);
    assert_int_equal(f->open_err, OT_ERR_CLOSED);
    fixture_close(f);
    f->openings_max = 0;
    fixture_start(f);
}

static void under_a_strict_lease_acks_1_is_taken_if_it_held_until_the_record_was_written(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call early, in_time, late, all, again;
    fixture_set(f, "ottla.leader.lease", "strict");
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "replicated");
    run(f);
    broker_lease_begin(f->broker);             /* no heartbeat of this life was answered */
    produce(f, &early, 0, 1, -1, 0, 10);
    run(f);
    assert_int_equal(early.part.error, OT_ERR_NOT_LEADER_OR_FOLLOWER);
    assert_int_equal(eng_log_end_offset(fixture_partition(f, 0)->log), 0);
    broker_lease_renew(f->broker, sim_sched_now_us(f->sched), 0);
    produce(f, &in_time, 0, 1, -1, 0, 10);
    run(f);
    assert_int_equal(in_time.part.error, OT_OK);
    produce(f, &late, 0, 1, -1, 0, 10);
    produce(f, &all, 0, -1, 50, 0, 10);
    produce(f, &again, 0, 1, 50, 0, 10);       /* of the one before, while that is queued */
    sim_sched_wake(f->sched, sim_sched_now_us(f->sched) + 9000000);    /* the process stood still for a whole session */
    run(f);
    assert_true(late.done && again.done);
    assert_int_equal(late.part.error, OT_ERR_REQUEST_TIMED_OUT);
    assert_int_equal(again.part.error, OT_ERR_REQUEST_TIMED_OUT);
    assert_int_equal(all.part.error, OT_OK);   /* it needs no lease */
    assert_int_equal(eng_log_end_offset(fixture_partition(f, 0)->log), 3);
}

/* The setting is being changed, one broker after the other: this one has the longer session, whoever coordinates the shorter one. */
static void a_strict_lease_is_no_longer_than_the_coordinator_waits(void **state)
{
    struct core_fixture *f = *state;
    struct produce_call in_time, late;
    fixture_set(f, "ottla.leader.lease", "strict");
    fixture_set(f, "broker.session.timeout.ms", "30000");
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "replicated");
    run(f);
    broker_lease_renew(f->broker, sim_sched_now_us(f->sched), 9000000);
    produce(f, &in_time, 0, 1, -1, 0, 10);
    run(f);
    assert_int_equal(in_time.part.error, OT_OK);
    sim_sched_wake(f->sched, sim_sched_now_us(f->sched) + 9000000);
    run(f);
    produce(f, &late, 0, 1, -1, 0, 10);
    run(f);
    assert_int_equal(late.part.error, OT_ERR_NOT_LEADER_OR_FOLLOWER);
}

static struct ot_buf *transactional(struct core_fixture *f, int64_t producer)
{
    struct eng_sink sink;
    struct eng_batch_builder builder;
    struct eng_batch_fields fields = eng_batch_fields_default();
    fields.producer_id = producer;
    fields.producer_epoch = 0;
    fields.base_sequence = 0;
    fields.transactional = true;
    eng_sink_pool(&sink, f->pool, 1u << 20);
    assert_int_equal(eng_batch_build_begin(&builder, &fields, NULL, &sink), OT_OK);
    assert_int_equal(eng_batch_build_next(&builder, 1750000000000, (struct ot_blob){ 0 }, (struct ot_blob){ (const uint8_t *)"v", 1, false }, NULL, 0), OT_OK);
    assert_int_equal(eng_batch_build_finish(&builder), OT_OK);
    return eng_sink_take(&sink);
}

/* Another broker led meanwhile, and the transaction may have ended there: that marker came by replication. An append now would open one that nobody ends. */
static void what_the_coordinator_said_in_an_earlier_leader_epoch_is_not_believed(void **state)
{
    struct core_fixture *f = *state;
    struct broker_txn_guard guard;
    const struct coord_txn_place place = { .topic = ot_str_of("t"), .partition = 0 };
    fixture_apply(f, "t", 7, 0, 1, 1, 1, "replicated");
    run(f);
    f->broker->core.transactions_verified = true;
    struct broker_partition *partition = fixture_partition(f, 0);
    assert_false(broker_txn_guard(f->broker, &place, 8, 0, &guard));
    struct produce_call asked = { .produce = { .acks = 1, .api_version = 11, .origin = ENG_ORIGIN_CLIENT }, .part = { .topic = ot_str_of("t"), .leader_id = -1, .leader_epoch = -1 } };
    struct ot_buf *buf = transactional(f, 9);
    asked.part.call = &asked.produce;
    asked.part.owner = partition;
    asked.part.records = buf->data;
    asked.part.records_bytes = buf->bytes;
    assert_int_equal(eng_batch_parse(buf->data, buf->bytes, &asked.part.verdict.info), OT_OK);
    assert_true(broker_verify_begin(&asked.part));
    fixture_apply(f, "t", 7, 0, 2, 1, -2, "replicated");
    run(f);
    fixture_apply(f, "t", 7, 0, 1, 1, 3, "replicated");
    run(f);
    assert_true(partition->is_leader);
    pthread_mutex_lock(&partition->mutex);
    const enum broker_lane_fate fate = broker_lane_put(partition, &asked.part, 1750000000000);
    pthread_mutex_unlock(&partition->mutex);
    assert_int_equal(fate, BROKER_LANE_ANSWERED);
    assert_int_equal(asked.part.error, OT_ERR_NOT_LEADER_OR_FOLLOWER);         /* it is sent again, and asked about again */
    assert_int_equal(asked.part.leader_epoch, 3);
    ot_buf_unref(buf);
    struct produce_call guarded = { .produce = { .call = { .home = f->home, .done = produce_done }, .buf = transactional(f, 8), .acks = 1, .timeout_ms = 5000, .api_version = 13,
        .transactional_id = { .null = true }, .origin = ENG_ORIGIN_COORDINATOR, .parts = &guarded.part, .part_count = 1, .queued = produce_queued } };
    guarded.part = (struct broker_produce_part){ .topic = ot_str_of("t"), .records = guarded.produce.buf->data, .records_bytes = guarded.produce.buf->bytes, .guards = &guard };
    (void)broker_produce(f->broker, &guarded.produce);
    run(f);
    assert_true(guarded.done);
    assert_int_equal(guarded.part.error, OT_ERR_NOT_LEADER_OR_FOLLOWER);
    broker_txn_guard_end(&guard);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(batches_lie_in_the_order_in_which_they_came),
        TEST(acks_all_waits_for_the_disk_in_a_class_that_syncs_and_acks_1_does_not),
        TEST(acks_0_and_acks_all_of_class_replicated_need_no_flush),
        TEST(a_repeated_batch_waits_for_what_its_original_waits_for),
        TEST(a_duplicate_with_acks_1_of_a_queued_batch_waits_for_the_write),
        TEST(a_write_that_does_not_fit_fails_its_batch_and_those_behind_and_leaves_no_gap),
        TEST(too_few_in_sync_replicas_refuse_acks_all_before_anything_is_written),
        TEST(what_follows_a_refused_batch_is_refused_alike_until_that_one_came),
        TEST(a_refused_batch_that_never_comes_is_a_gap_after_a_while),
        TEST(the_second_batch_of_a_producer_does_not_come_before_the_refused_first),
        TEST(a_produce_that_nobody_commits_times_out),
        TEST(a_produce_whose_time_is_up_before_it_is_written_does_not_wait_on),
        TEST(losing_leadership_fails_who_waits_and_who_comes),
        TEST(a_switch_of_class_keeps_the_high_watermark_and_holds_what_follows),
        TEST(removal_answers_everyone_and_gives_the_name_free),
        TEST(topics_made_and_removed_faster_than_they_open_keep_apart),
        TEST(a_flush_that_fails_takes_the_directory_out_of_service_once),
        TEST(a_flush_without_room_is_tried_again_and_takes_nothing_out_of_service),
        TEST(a_full_disk_refuses_produce_and_lets_delete_records_go_on),
        TEST(who_shows_disks_is_told_what_producers_are),
        TEST(a_flush_that_nobody_waits_for_may_take_its_time),
        TEST(a_reader_an_offset_question_and_acks_all_hurry_a_flush),
        TEST(a_reader_that_is_there_is_shown_each_append),
        TEST(a_stop_flushes_what_was_put_off),
        TEST(a_small_compressed_batch_is_checked_at_once_and_others_elsewhere),
        TEST(a_small_damaged_batch_is_refused_with_its_reason),
        TEST(a_topic_with_a_codec_of_its_own_gets_its_batches_repacked),
        TEST(what_a_client_asks_for_is_opened_before_the_others),
        TEST(a_stop_does_not_wait_for_logs_that_were_not_begun),
        TEST(what_the_coordinator_said_in_an_earlier_leader_epoch_is_not_believed),
        TEST(under_a_strict_lease_acks_1_is_taken_if_it_held_until_the_record_was_written),
        TEST(a_strict_lease_is_no_longer_than_the_coordinator_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
