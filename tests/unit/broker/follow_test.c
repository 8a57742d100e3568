/* A follower's log where it differs in shape from a log that somebody appended to: holes that compaction made, logs that an unclean election set back; and where epochs end in it. */
#include "cluster_fixture.h"
#include <zlib.h>

static void started(struct cluster *c)
{
    cluster_apply(c);
    cluster_pass(c, 200);
    for (int id = 1; id <= NODES; id++) assert_int_equal(atomic_load(&cluster_part(c, id)->stage), BROKER_PARTITION_OPEN);
}

static void put_one(struct cluster *c, int32_t leader, int64_t base_offset)
{
    static struct produce_call call;
    cluster_put(c, leader, &call, -1, -1, 0);
    cluster_pass(c, 700);
    assert_true(call.done);
    assert_int_equal(call.part.error, OT_OK);
    assert_int_equal(call.part.base_offset, base_offset);
}

/* The only one in sync, and its acks=all is acks=1. */
static void alone(struct cluster *c, int32_t id)
{
    for (int other = 1; other <= NODES; other++) c->cut[other][id] = true;
    c->row.min_isr = 1;
    cluster_lead(c, id, UINT64_C(1) << (id - 1));
    cluster_pass(c, 600);
}

static void together(struct cluster *c)
{
    memset(c->cut, 0, sizeof c->cut);
    cluster_pass(c, 4000);                     /* replica.lag.time.max.ms is 2 s */
    assert_int_equal(c->row.isr, 7);
}

/* As compaction leaves it: nothing between the log's end and there. */
static void leap(struct cluster *c, int32_t id, int64_t to)
{
    struct broker_partition *partition = cluster_part(c, id);
    assert_int_equal(eng_log_roll(partition->log, NULL, 0), OT_OK);
    assert_int_equal(eng_log_skip(partition->log, to, 0), OT_OK);
    partition->reserved_end = partition->state_end = to;
    replica_appended(&partition->replica, to);
}

static void assert_ends(struct cluster *c, int64_t end)
{
    for (int id = 1; id <= NODES; id++) {
        assert_int_equal(eng_log_end_offset(cluster_part(c, id)->log), end);
        assert_int_equal(atomic_load(&cluster_part(c, id)->high_watermark), end);
    }
}

static int64_t first_offset(struct cluster *c, int32_t id, int64_t from)
{
    struct eng_read how = { .offset = from, .limit_offset = INT64_MAX, .max_bytes = 1, .min_one = true, .may_block = true };
    struct eng_read_result read;
    assert_int_equal(eng_log_read(cluster_part(c, id)->log, &how, &read), OT_OK);
    if (read.pin != NULL) read.pin->release(read.pin);
    return read.first_base_offset;
}

/* The index of a segment has 32 bits for an offset: what comes behind such a hole begins a segment of its own. */
static void a_hole_that_is_wider_than_a_segment_is_copied(void **state)
{
    struct cluster *c = *state;
    const int64_t far = INT64_C(3) << 31, farther = far + (INT64_C(5) << 31);
    started(c);
    put_one(c, 1, 0);
    alone(c, 1);
    leap(c, 1, far);
    put_one(c, 1, far);
    leap(c, 1, farther);
    put_one(c, 1, farther);
    together(c);
    assert_ends(c, farther + 1);
    for (int id = 1; id <= NODES; id++) {
        assert_int_equal(eng_log_start_offset(cluster_part(c, id)->log), 0);
        assert_int_equal(first_offset(c, id, 0), 0);
        assert_int_equal(first_offset(c, id, 1), far);
        assert_int_equal(first_offset(c, id, far + 1), farther);
        assert_int_equal(eng_log_segments(cluster_part(c, id)->log, NULL, 0), 3);
    }
    put_one(c, 1, farther + 1);
    node_stop(&c->nodes[2]);
    node_start(&c->nodes[2]);
    cluster_lead(c, 2, 3);
    cluster_pass(c, 4000);
    assert_int_equal(c->row.isr, 7);
    assert_ends(c, farther + 2);
    assert_int_equal(first_offset(c, 3, 1), far);
}

static void an_empty_follower_begins_with_a_hole_that_is_wider_than_a_segment(void **state)
{
    struct cluster *c = *state;
    const int64_t far = INT64_C(3) << 31;
    started(c);
    alone(c, 1);
    leap(c, 1, far);
    put_one(c, 1, far);
    together(c);
    assert_ends(c, far + 1);
    put_one(c, 1, far + 1);
    assert_int_equal(first_offset(c, 2, 0), far);
}

/* One entry of magic 1: a record, or, with a codec, what wraps several and bears the offset of the last. */
static void put_legacy(struct cluster *c, int32_t id, int64_t offset, uint8_t codec)
{
    struct broker_partition *partition = cluster_part(c, id);
    uint8_t data[38] = { [11] = 26, [16] = 1, [17] = codec, [33] = 4 };        /* 34: the value */
    uint32_t appended = 0;
    ot_store_u64(data, (uint64_t)offset);
    ot_store_u64(data + 18, 1000);
    ot_store_u32(data + 26, UINT32_MAX);       /* no key */
    ot_store_u32(data + 34, (uint32_t)offset);
    ot_store_u32(data + 12, (uint32_t)crc32_z(0, data + 16, sizeof data - 16));
    const struct eng_append_batch batch = { .data = data, .bytes = sizeof data, .leader_epoch = -1, .base_offset = offset, .last_offset = offset, .max_timestamp = 1000, .max_timestamp_offset = offset };
    assert_int_equal(eng_log_append(partition->log, &batch, 1, 0, &appended), OT_OK);
    partition->reserved_end = partition->state_end = offset + 1;
    replica_appended(&partition->replica, offset + 1);
}

/* A folder that was taken over from Kafka (ottla log adopt) may have them; whoever holds it gets replicas like any other. */
static void messages_of_old_formats_are_copied(void **state)
{
    struct cluster *c = *state;
    started(c);
    alone(c, 1);
    put_legacy(c, 1, 0, 0);
    put_legacy(c, 1, 1, 0);
    put_legacy(c, 1, 4, 1);
    together(c);
    assert_ends(c, 5);
    put_one(c, 1, 5);
    assert_ends(c, 6);
    for (int id = 1; id <= NODES; id++) {
        assert_int_equal(first_offset(c, id, 0), 0);
        assert_int_equal(first_offset(c, id, 2), 4);
        assert_int_equal(first_offset(c, id, 5), 5);
    }
    node_stop(&c->nodes[2]);
    node_start(&c->nodes[2]);
    cluster_lead(c, 2, 3);
    cluster_pass(c, 4000);
    assert_int_equal(c->row.isr, 7);
    put_one(c, 2, 6);
    assert_ends(c, 7);
}

static void find_start(void *arg, const struct eng_checkpoint_row *row) { *(int64_t *)arg = row->offset; }

static int64_t start_on_disk(struct cluster *c, int32_t id)
{
    int64_t start = -1;
    assert_int_equal(eng_store_checkpoint_load(c->nodes[id - 1].f.store, 0, ENG_CHECKPOINT_START, find_start, &start), OT_OK);
    return start;
}

/* All records of 3 were deleted; then the one that leads has a log that ends below where 3 begins, as after an unclean election. Nobody's history parts from an empty one. */
static void an_empty_log_behind_the_leaders_end_begins_anew(void **state)
{
    struct cluster *c = *state;
    started(c);
    for (int64_t at = 0; at < 3; at++) put_one(c, 1, at);
    assert_int_equal(eng_log_start_at(cluster_part(c, 3)->log, 10), OT_OK);
    struct broker_partition *emptied = cluster_part(c, 3);
    emptied->state_end = 10;
    replica_restarted(&emptied->replica, 10);
    atomic_store(&emptied->high_watermark, 10);
    assert_int_equal(eng_epochs_latest(eng_log_epochs(emptied->log)), -1);
    assert_int_equal(broker_checkpoints_write(&c->nodes[2].f.broker->core, true), 0);
    assert_int_equal(start_on_disk(c, 3), 10);
    cluster_lead(c, 2, 2);
    cluster_pass(c, 900);
    assert_int_equal(eng_log_end_offset(emptied->log), 3);
    assert_int_equal(start_on_disk(c, 3), 0);  /* at once: a process that is killed now does not drop what it has fetched for a start of before */
    together(c);
    assert_int_equal(first_offset(c, 3, 0), 0);
    put_one(c, 2, 3);
    assert_ends(c, 4);
}

/* The machine of 3 stopped: the end of one segment never came to the disk, and the beginning of the next did. */
static void lose_an_end(struct cluster *c)
{
    static const char path[] = "/sim/a/t-0/00000000000000000000.log", checkpoint[] = "0\n1\nt 0 0\n";
    struct ot_io *io = sim_disk_io(c->nodes[2].f.disk);
    struct ot_io_stat stat;
    int fd = -1;
    assert_int_equal(io->ops->open(io, path, OT_IO_WRITE, &fd), OT_OK);
    assert_int_equal(io->ops->fstat(io, fd, &stat), OT_OK);
    assert_int_equal(io->ops->truncate(io, fd, stat.bytes / 2), OT_OK);
    io->ops->close(io, fd);
    assert_int_equal(ot_io_replace_file(io, "/sim/a/recovery-point-offset-checkpoint", checkpoint, sizeof checkpoint - 1, true), OT_OK);
}

/* With the same end and the same last epoch as the leader's, its log would pass for whole. */
static void a_compacted_follower_fetches_what_a_crash_took_between_two_segments(void **state)
{
    struct cluster *c = *state;
    fixture_set(&c->nodes[2].f, "log.cleanup.policy", "compact");
    started(c);
    put_one(c, 1, 0);
    put_one(c, 1, 1);
    assert_int_equal(eng_log_roll(cluster_part(c, 3)->log, NULL, 0), OT_OK);
    put_one(c, 1, 2);
    node_stop(&c->nodes[2]);
    lose_an_end(c);
    node_start(&c->nodes[2]);
    cluster_lead(c, 1, 3);
    cluster_pass(c, 4000);
    assert_int_equal(c->row.isr, 7);
    assert_ends(c, 3);
    assert_int_equal(first_offset(c, 3, 1), 1);
}

static void epochs_without_records_end_where_the_log_of_the_leader_does(void **state)
{
    static const struct { int32_t asked; struct eng_epoch_end end; } rows[] = { { 1, { 1, 2 } }, { 2, { 1, 2 } }, { 3, { 3, 2 } }, { 4, { -1, -1 } } };
    struct cluster *c = *state;
    struct fetch_call call;
    started(c);
    put_one(c, 1, 0);
    put_one(c, 1, 1);
    cluster_lead(c, 3, 7);                     /* epoch 2, and nothing written */
    cluster_pass(c, 600);
    cluster_lead(c, 2, 7);
    cluster_pass(c, 600);
    for (size_t i = 0; i < OT_ARRAY_COUNT(rows); i++) {
        const struct eng_epoch_end end = broker_follow_end(cluster_part(c, 2), rows[i].asked);
        assert_int_equal(end.epoch, rows[i].end.epoch);
        assert_int_equal(end.end_offset, rows[i].end.end_offset);
    }
    assert_int_equal(broker_follow_end(cluster_part(c, 1), 3).epoch, -1);       /* a follower may lack what was written in it */
    fetch_begin(&c->nodes[1].f, &call, 0, -1);
    fetch_add(&call, "t", 0, 2);
    call.asks[0].last_epoch = 3;
    broker_fetch(c->nodes[1].f.broker, &call.fetch);
    cluster_pass(c, 600);
    assert_int_equal(call.fetch.rows[0].error, OT_OK);
    assert_int_equal(call.fetch.rows[0].diverging_end_offset, -1);
    fetch_end(&call);
    put_one(c, 2, 2);
    assert_int_equal(broker_follow_end(cluster_part(c, 2), 2).epoch, 1);
    assert_int_equal(broker_follow_end(cluster_part(c, 2), 2).end_offset, 2);
    assert_int_equal(broker_follow_end(cluster_part(c, 2), 3).end_offset, 3);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, cluster_setup, cluster_teardown)
    const struct CMUnitTest tests[] = { T(a_hole_that_is_wider_than_a_segment_is_copied), T(an_empty_follower_begins_with_a_hole_that_is_wider_than_a_segment),
        T(an_empty_log_behind_the_leaders_end_begins_anew), T(a_compacted_follower_fetches_what_a_crash_took_between_two_segments),
        T(epochs_without_records_end_where_the_log_of_the_leader_does), T(messages_of_old_formats_are_copied) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
