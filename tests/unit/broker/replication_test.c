/* Three cores that replicate one partition: what acks=all means, who is in sync, and what becomes of histories that part. */
#include "cluster_fixture.h"

static void started(struct cluster *c)
{
    cluster_apply(c);
    cluster_pass(c, 200);
    for (int id = 1; id <= NODES; id++) assert_int_equal(atomic_load(&cluster_part(c, id)->stage), BROKER_PARTITION_OPEN);
}

static void put_all(struct cluster *c, int32_t leader, int count)
{
    for (int i = 0; i < count; i++) {
        static struct produce_call call;
        cluster_put(c, leader, &call, -1, -1, 0);
        cluster_pass(c, 700);
        assert_true(call.done);
        assert_int_equal(call.part.error, OT_OK);
    }
}

/* Byte for byte. */
static void assert_same_logs(struct cluster *c, int32_t a, int32_t b)
{
    struct eng_log *logs[2] = { cluster_part(c, a)->log, cluster_part(c, b)->log };
    int64_t end = eng_log_end_offset(logs[0]);
    assert_int_equal(end, eng_log_end_offset(logs[1]));
    uint8_t *bytes[2];
    uint32_t counts[2];
    for (int i = 0; i < 2; i++) {
        struct node *node = &c->nodes[(i == 0 ? a : b) - 1];
        struct eng_read how = { .offset = eng_log_start_offset(logs[i]), .limit_offset = end, .max_bytes = 1u << 20, .min_one = true, .may_block = true };
        struct eng_read_result read = { 0 };
        assert_int_equal(eng_log_read(logs[i], &how, &read), OT_OK);
        bytes[i] = calloc(1, read.bytes + 1);
        counts[i] = read.bytes;
        for (uint32_t at = 0, s = 0; s < read.span_count; at += read.spans[s++].bytes)
            if (read.spans[s].memory != NULL) memcpy(bytes[i] + at, read.spans[s].memory, read.spans[s].bytes);
            else assert_int_equal(ot_io_read_exact(sim_disk_io(node->f.disk), read.spans[s].fd, bytes[i] + at, read.spans[s].bytes, read.spans[s].pos), OT_OK);
        if (read.pin != NULL) read.pin->release(read.pin);
    }
    assert_int_equal(counts[0], counts[1]);
    assert_memory_equal(bytes[0], bytes[1], counts[0]);
    free(bytes[0]);
    free(bytes[1]);
}

static void an_acks_all_answer_waits_for_every_member(void **state)
{
    struct cluster *c = *state;
    static struct produce_call call, one;
    started(c);
    c->cut[3][1] = true;                       /* broker 3 does not get through */
    cluster_pass(c, 600);
    cluster_put(c, 1, &call, -1, -1, 0);
    cluster_put(c, 1, &one, 1, -1, 0);
    cluster_pass(c, 300);
    assert_true(one.done);                     /* acks=1 waits for nobody */
    assert_false(call.done);
    assert_int_equal(atomic_load(&cluster_part(c, 1)->high_watermark), 0);
    assert_int_equal(eng_log_end_offset(cluster_part(c, 2)->log), 2);
    c->cut[3][1] = false;
    cluster_pass(c, 1500);
    assert_true(call.done);
    assert_int_equal(call.part.error, OT_OK);
    assert_int_equal(c->row.isr, 7);
    for (int id = 1; id <= NODES; id++) assert_int_equal(atomic_load(&cluster_part(c, id)->high_watermark), 2);
    assert_same_logs(c, 1, 2);
    assert_same_logs(c, 1, 3);
}

static void high_watermarks_follow_without_new_records(void **state)
{
    struct cluster *c = *state;
    started(c);
    put_all(c, 1, 3);
    cluster_pass(c, 20);                       /* far less than a fetch may wait */
    for (int id = 1; id <= NODES; id++) assert_int_equal(atomic_load(&cluster_part(c, id)->high_watermark), 3);
    uint32_t fetches = c->fetches;
    cluster_pass(c, 1000);
    assert_true(c->fetches - fetches <= 8);    /* and nobody asks in circles */
}

static void a_silent_follower_leaves_the_isr_and_comes_back(void **state)
{
    struct cluster *c = *state;
    static struct produce_call call;
    started(c);
    put_all(c, 1, 1);
    c->cut[3][1] = true;
    cluster_put(c, 1, &call, -1, -1, 0);
    cluster_pass(c, 1500);
    assert_false(call.done);
    cluster_pass(c, 2500);                     /* replica.lag.time.max.ms is 2 s */
    assert_true(call.done);
    assert_int_equal(call.part.error, OT_OK);
    assert_int_equal(c->row.isr, 3);
    put_all(c, 1, 2);
    c->cut[3][1] = false;
    cluster_pass(c, 3000);
    assert_int_equal(c->row.isr, 7);
    assert_same_logs(c, 1, 3);
}

static void too_few_members_refuse_acks_all(void **state)
{
    struct cluster *c = *state;
    static struct produce_call waits, late;
    started(c);
    c->cut[2][1] = c->cut[3][1] = true;
    cluster_pass(c, 600);
    cluster_put(c, 1, &waits, -1, -1, 0);
    cluster_pass(c, 4000);
    assert_int_equal(c->row.isr, 1);
    cluster_put(c, 1, &late, -1, -1, 0);
    cluster_pass(c, 100);
    assert_true(late.done);
    assert_int_equal(late.part.error, OT_ERR_NOT_ENOUGH_REPLICAS);
    cluster_pass(c, 2000);                     /* its five seconds are over */
    assert_true(waits.done);
    assert_int_equal(waits.part.error, OT_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND);
    assert_int_equal(atomic_load(&cluster_part(c, 1)->high_watermark), 0);      /* one member is below min.insync.replicas */
    c->cut[2][1] = c->cut[3][1] = false;
    cluster_pass(c, 3000);
    assert_int_equal(c->row.isr, 7);
    assert_int_equal(atomic_load(&cluster_part(c, 1)->high_watermark), 1);
}

static void a_proposal_waits_for_a_mute_coordinator(void **state)
{
    struct cluster *c = *state;
    static struct produce_call call;
    started(c);
    c->mute = true;
    c->cut[3][1] = true;
    cluster_put(c, 1, &call, -1, -1, 0);
    cluster_pass(c, 4500);
    assert_false(call.done);                   /* proposed, but the committed isr is what counts */
    c->mute = false;
    cluster_pass(c, 490);
    assert_true(call.done);
    assert_int_equal(call.part.error, OT_OK);
    assert_int_equal(c->row.isr, 3);
}

static void lives(void *arg, const struct coord_partition *row, struct replica_broker *out)
{
    const struct cluster *c = arg;
    for (int32_t i = 0; i < row->replica_count; i++) out[i] = (struct replica_broker){ c->nodes[row->replicas[i] - 1].epoch, c->nodes[row->replicas[i] - 1].up };
}

/* It was caught up and proposed; before the coordinator heard of that it lost its disk and registered anew. */
static void a_proposed_member_that_lost_its_disk_does_not_join(void **state)
{
    struct cluster *c = *state;
    started(c);
    c->cut[3][1] = true;
    cluster_pass(c, 4000);
    assert_int_equal(c->row.isr, 3);
    put_all(c, 1, 2);
    c->mute = true;                            /* asked again and again, and nothing is heard */
    c->cut[3][1] = false;
    cluster_pass(c, 3000);
    c->cut[3][1] = true;
    assert_int_equal(eng_log_end_offset(cluster_part(c, 3)->log), 2);
    c->nodes[2].epoch += 10;
    broker_partitions_brokers(c->nodes[0].f.broker, lives, c);     /* the row is the same */
    const int32_t before = c->row.partition_epoch;
    c->mute = false;
    cluster_pass(c, 1000);
    assert_int_equal(c->row.isr, 3);
    assert_int_equal(c->row.partition_epoch, before);      /* nor was it in and out again */
    c->cut[3][1] = false;
    cluster_pass(c, 3000);
    assert_int_equal(c->row.isr, 7);
}

static void a_deposed_leader_is_cut_where_the_histories_part(void **state)
{
    struct cluster *c = *state;
    static struct produce_call lost[2], kept;
    started(c);
    put_all(c, 1, 2);
    c->cut[2][1] = c->cut[3][1] = true;        /* nobody hears of these two */
    cluster_pass(c, 600);
    cluster_put(c, 1, &lost[0], -1, -1, 0);
    cluster_put(c, 1, &lost[1], 1, -1, 0);
    cluster_pass(c, 100);
    assert_int_equal(eng_log_end_offset(cluster_part(c, 1)->log), 4);
    c->cut[2][1] = c->cut[3][1] = false;
    c->held = true;                            /* what is on its way comes too late */
    cluster_pass(c, 20);
    c->row.isr = 6;
    cluster_lead(c, 2, 6);
    wire_release(c);
    cluster_pass(c, 20);
    assert_true(lost[0].done);
    assert_int_equal(lost[0].part.error, OT_ERR_NOT_LEADER_OR_FOLLOWER);
    assert_int_equal(lost[0].part.base_offset, 2);         /* it was appended: who sends it again may have it twice */
    cluster_put(c, 2, &kept, -1, -1, 0);
    cluster_pass(c, 3000);
    assert_true(kept.done);
    assert_int_equal(kept.part.error, OT_OK);
    assert_int_equal(c->row.isr, 7);
    assert_int_equal(eng_log_end_offset(cluster_part(c, 1)->log), 3);
    assert_same_logs(c, 2, 1);
    assert_same_logs(c, 2, 3);
    assert_int_equal(eng_epochs_latest(eng_log_epochs(cluster_part(c, 1)->log)), 2);
}

/* Retention has taken the leader's history of the epochs in which the follower wrote something else. */
static void a_deposed_leader_keeps_nothing_if_where_the_histories_part_is_deleted(void **state)
{
    struct cluster *c = *state;
    static struct produce_call lost[4], kept[4];
    struct eng_segment_info first;
    started(c);
    put_all(c, 1, 2);
    c->cut[2][1] = c->cut[3][1] = c->cut[1][2] = c->cut[1][3] = true;
    cluster_pass(c, 600);
    for (int i = 0; i < 4; i++) cluster_put(c, 1, &lost[i], 1, -1, 0);
    cluster_pass(c, 100);
    assert_int_equal(eng_log_end_offset(cluster_part(c, 1)->log), 6);
    c->row.isr = 6;
    cluster_lead(c, 2, 6);
    for (int i = 0; i < 4; i++) {
        cluster_put(c, 2, &kept[i], 1, -1, 0);
        cluster_pass(c, 300);
    }
    struct eng_log *log = cluster_part(c, 2)->log;
    eng_log_set_start(log, 4);
    assert_int_equal(eng_epochs_truncate_start(eng_log_epochs(log), 4), OT_OK);
    c->cut[2][1] = c->cut[3][1] = c->cut[1][2] = c->cut[1][3] = false;
    cluster_pass(c, 3000);
    assert_int_equal(c->row.isr, 7);
    assert_same_logs(c, 2, 1);
    assert_int_equal(eng_log_start_offset(cluster_part(c, 1)->log), 4);
    assert_int_equal(eng_log_segments(cluster_part(c, 1)->log, &first, 1), 1);
    assert_int_equal(first.base_offset, 4);    /* not even below the start, where a crash may put it back to */
    assert_int_equal(atomic_load(&cluster_part(c, 1)->high_watermark), 6);
}

static void producers_go_on_at_the_next_leader(void **state)
{
    struct cluster *c = *state;
    static struct produce_call call, again;
    started(c);
    for (int i = 0; i < 3; i++) {
        cluster_put(c, 1, &call, -1, 44, i);
        cluster_pass(c, 600);
        assert_int_equal(call.part.error, OT_OK);
    }
    cluster_lead(c, 3, 7);
    cluster_pass(c, 300);
    cluster_put(c, 3, &again, -1, 44, 2);      /* its answer was lost: the same batch once more */
    cluster_pass(c, 600);
    assert_int_equal(again.part.error, OT_OK);
    assert_int_equal(again.part.base_offset, 2);
    cluster_put(c, 3, &call, -1, 44, 3);
    cluster_pass(c, 600);
    assert_int_equal(call.part.error, OT_OK);
    assert_int_equal(call.part.base_offset, 3);
    cluster_put(c, 3, &call, -1, 44, 9);
    cluster_pass(c, 600);
    assert_int_equal(call.part.error, OT_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_same_logs(c, 3, 1);
}

static void offsets_done(struct broker_call *call) { (void)call; }

static void a_follower_behind_the_log_start_begins_there(void **state)
{
    struct cluster *c = *state;
    started(c);
    put_all(c, 1, 1);
    c->cut[3][1] = true;
    cluster_pass(c, 600);
    for (int i = 0; i < 4; i++) {
        static struct produce_call call;
        cluster_put(c, 1, &call, 1, -1, 0);
        cluster_pass(c, 50);
    }
    cluster_pass(c, 4000);
    assert_int_equal(c->row.isr, 3);
    eng_log_set_start(cluster_part(c, 1)->log, 4);
    c->cut[3][1] = false;
    cluster_pass(c, 3000);
    assert_int_equal(eng_log_start_offset(cluster_part(c, 3)->log), 4);
    assert_int_equal(eng_log_end_offset(cluster_part(c, 3)->log), 5);
    assert_int_equal(c->row.isr, 7);
    put_all(c, 1, 1);
    assert_int_equal(eng_log_end_offset(cluster_part(c, 3)->log), 6);
}

/* DeleteRecords may end within a batch, which is read whole all the same. */
static void a_follower_begins_with_a_batch_that_the_log_start_is_within(void **state)
{
    struct cluster *c = *state;
    static struct produce_call call;
    started(c);
    put_all(c, 1, 1);
    c->cut[3][1] = true;
    cluster_pass(c, 600);
    for (int i = 0; i < 3; i++) {
        produce_some(&c->nodes[0].f, &call, 0, 1, -1, 0, 50, 10);      /* 1..10, 11..20, 21..30 */
        cluster_pass(c, 50);
    }
    cluster_pass(c, 4000);
    assert_int_equal(c->row.isr, 3);
    eng_log_set_start(cluster_part(c, 1)->log, 15);
    c->cut[3][1] = false;
    cluster_pass(c, 3000);
    assert_int_equal(eng_log_start_offset(cluster_part(c, 3)->log), 15);
    assert_int_equal(eng_log_end_offset(cluster_part(c, 3)->log), 31);
    assert_int_equal(atomic_load(&cluster_part(c, 3)->high_watermark), 31);
    assert_int_equal(c->row.isr, 7);
    put_all(c, 1, 1);
    assert_same_logs(c, 1, 3);
    node_stop(&c->nodes[2]);
    node_start(&c->nodes[2]);
    c->row.partition_epoch++;
    cluster_apply(c);
    cluster_pass(c, 3000);
    assert_int_equal(eng_log_end_offset(cluster_part(c, 3)->log), 32);
    cluster_lead(c, 3, 7);
    cluster_pass(c, 3000);
    assert_int_equal(c->row.isr, 7);
}

static struct broker_offsets_part epoch_end_at(struct cluster *c, int32_t id, int32_t epoch)
{
    struct { struct broker_offsets offsets; struct broker_offsets_part part; } ask = { .part = { .topic = ot_str_of("t"), .current_leader_epoch = -1, .at = epoch } };
    ask.offsets = (struct broker_offsets){ .call = { .home = c->nodes[id - 1].f.home, .done = offsets_done }, .kind = BROKER_EPOCH_END, .parts = &ask.part, .part_count = 1 };
    broker_offsets(c->nodes[id - 1].f.broker, &ask.offsets);
    cluster_pass(c, 10);
    assert_int_equal(ask.part.error, OT_OK);
    return ask.part;
}

/* All records are gone, and a restart of node 2 made it forget their epochs, which the others know. */
static void all_gone(struct cluster *c, int64_t offset)
{
    assert_int_equal(eng_log_start_at(cluster_part(c, 2)->log, offset), OT_OK);
    assert_int_equal(eng_epochs_latest(eng_log_epochs(cluster_part(c, 2)->log)), -1);
    eng_log_set_start(cluster_part(c, 3)->log, offset);
}

static void a_leader_of_an_empty_log_without_epochs_is_followed(void **state)
{
    struct cluster *c = *state;
    struct fetch_call call;
    started(c);
    put_all(c, 1, 3);
    all_gone(c, 3);                            /* 1 still has its records */
    cluster_lead(c, 2, 7);
    cluster_pass(c, 4000);                     /* replica.lag.time.max.ms is 2 s */
    assert_int_equal(c->row.isr, 7);
    for (int id = 1; id <= NODES; id++) assert_int_equal(eng_log_end_offset(cluster_part(c, id)->log), 3);
    assert_int_equal(eng_epochs_latest(eng_log_epochs(cluster_part(c, 1)->log)), 1);       /* and lost nothing */
    /* who reads is told that the epoch ends where the log begins, and not that it is unknown */
    assert_int_equal(epoch_end_at(c, 2, 1).leader_epoch, 1);
    assert_int_equal(epoch_end_at(c, 2, 1).offset, 3);
    assert_int_equal(epoch_end_at(c, 2, 9).offset, -1);
    fetch_begin(&c->nodes[1].f, &call, 0, -1);
    fetch_add(&call, "t", 0, 3);
    call.asks[0].last_epoch = 1;
    broker_fetch(c->nodes[1].f.broker, &call.fetch);
    cluster_pass(c, 600);
    assert_int_equal(call.fetch.rows[0].error, OT_OK);
    assert_int_equal(call.fetch.rows[0].diverging_end_offset, -1);
    fetch_end(&call);
    put_all(c, 2, 1);
    for (int id = 1; id <= NODES; id++) assert_int_equal(eng_log_end_offset(cluster_part(c, id)->log), 4);
}

static void what_goes_on_behind_an_empty_leader_is_cut(void **state)
{
    struct cluster *c = *state;
    static struct produce_call lost[2];
    started(c);
    put_all(c, 1, 3);
    c->cut[2][1] = c->cut[3][1] = true;        /* nobody hears of these two */
    cluster_pass(c, 600);
    for (int i = 0; i < 2; i++) cluster_put(c, 1, &lost[i], 1, -1, 0);
    cluster_pass(c, 100);
    assert_int_equal(eng_log_end_offset(cluster_part(c, 1)->log), 5);
    c->cut[2][1] = c->cut[3][1] = false;
    c->held = true;                            /* what is on its way comes too late */
    cluster_pass(c, 20);
    all_gone(c, 3);
    cluster_lead(c, 2, 6);
    wire_release(c);
    cluster_pass(c, 3000);
    assert_int_equal(eng_log_end_offset(cluster_part(c, 2)->log), 3);
    assert_int_equal(eng_log_end_offset(cluster_part(c, 1)->log), 3);
    assert_int_equal(c->row.isr, 7);
    put_all(c, 2, 1);
    assert_same_logs(c, 2, 1);
    assert_same_logs(c, 2, 3);
}

static void a_restarted_follower_catches_up(void **state)
{
    struct cluster *c = *state;
    started(c);
    put_all(c, 1, 2);
    node_stop(&c->nodes[2]);
    cluster_lead(c, 1, 3);
    cluster_pass(c, 300);
    put_all(c, 1, 3);
    node_start(&c->nodes[2]);
    c->row.partition_epoch++;
    cluster_apply(c);
    cluster_pass(c, 3000);
    assert_int_equal(c->row.isr, 7);
    assert_same_logs(c, 1, 3);
    assert_int_equal(atomic_load(&cluster_part(c, 3)->high_watermark), 5);
}

static void replicated_fsync_waits_for_every_disk(void **state)
{
    struct cluster *c = *state;
    static struct produce_call call;
    c->durability = "replicated+fsync";
    started(c);
    cluster_put(c, 1, &call, -1, -1, 0);
    cluster_pass(c, 600);
    assert_true(call.done);
    assert_int_equal(call.part.error, OT_OK);
    for (int id = 1; id <= NODES; id++) assert_int_equal(eng_log_flushed_end(cluster_part(c, id)->log), 1);
    cluster_pass(c, 1000);
    assert_int_equal(c->durable, COORD_DURABLE_ALL);
}

static void what_holds_on_disk_is_reported_of_many_partitions_in_one_request(void **state)
{
    struct cluster *c = *state;
    c->durability = "replicated+fsync";
    c->partitions = 20;
    c->mute = true;                            /* all of them want to say so by the time that anybody listens */
    cluster_apply(c);
    cluster_pass(c, 3000);
    c->mute = false;
    cluster_pass(c, 2000);
    assert_int_equal(c->durable, COORD_DURABLE_ALL);
    assert_int_equal(c->reported, (1 << 20) - 1);
    assert_int_equal(c->reports, 20);
    assert_true(c->durable_asks <= 10);        /* some were refused alone while nobody listened, and are due alone */
}

/* Who does not know of several looks at the first: the others are asked about again, each in its turn, without the pause after a refusal. */
static void a_coordinator_of_an_older_build_is_told_one_by_one(void **state)
{
    struct cluster *c = *state;
    c->durability = "replicated+fsync";
    c->partitions = 20;
    c->first_alone = c->mute = true;
    cluster_apply(c);
    cluster_pass(c, 3000);
    c->mute = false;
    cluster_pass(c, 2000);
    assert_int_equal(c->reported, (1 << 20) - 1);
    assert_int_equal(c->reports, 20);
    assert_int_equal(c->durable_asks, 20);
}

static void the_last_member_syncs_in_class_auto(void **state)
{
    struct cluster *c = *state;
    c->durability = "auto";
    c->row.min_isr = 1;
    started(c);
    put_all(c, 1, 2);
    assert_int_equal(eng_log_flushed_end(cluster_part(c, 1)->log), 0);         /* three members lean on each other */
    c->cut[2][1] = c->cut[3][1] = true;
    cluster_pass(c, 4500);
    assert_int_equal(c->row.isr, 1);
    assert_int_equal(eng_log_flushed_end(cluster_part(c, 1)->log), 2);
    put_all(c, 1, 1);
    assert_int_equal(eng_log_flushed_end(cluster_part(c, 1)->log), 3);
    cluster_pass(c, 1000);
    assert_int_equal(c->durable, COORD_DURABLE_LEADER);
    c->cut[2][1] = c->cut[3][1] = false;
    cluster_pass(c, 4000);
    assert_int_equal(c->row.isr, 7);
    assert_int_equal(c->durable, COORD_DURABLE_NONE);
}

static void strangers_and_old_lives_are_refused(void **state)
{
    struct cluster *c = *state;
    struct fetch_call call;
    static const struct { int32_t id; int64_t epoch; int32_t leader_epoch; enum ot_err error; } rows[] = {
        { 9, 10, 1, OT_ERR_REPLICA_NOT_AVAILABLE }, { 2, 9, 1, OT_ERR_STALE_BROKER_EPOCH }, { 2, 11, 1, OT_ERR_UNKNOWN_LEADER_EPOCH }, { 2, 10, 0, OT_ERR_FENCED_LEADER_EPOCH },
        { 2, 10, 2, OT_ERR_UNKNOWN_LEADER_EPOCH }, { 2, 10, 1, OT_OK } };
    started(c);
    put_all(c, 1, 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fetch_begin(&c->nodes[0].f, &call, 0, -1);
        fetch_add(&call, "t", 0, 0);
        call.fetch.follower = true;
        call.fetch.api_version = 18;
        call.fetch.replica_id = rows[i].id;
        call.fetch.replica_epoch = rows[i].epoch;
        call.asks[0].leader_epoch = rows[i].leader_epoch;
        broker_fetch(c->nodes[0].f.broker, &call.fetch);
        cluster_pass(c, 600);
        assert_int_equal(call.fetch.rows[0].error, rows[i].error);
        fetch_end(&call);
    }
}

static void a_batch_that_no_segment_can_hold_is_not_taken(void **state)
{
    struct cluster *c = *state;
    started(c);
    put_all(c, 1, 1);
    c->wire.lift = 1ull << 32;                      /* a batch that no segment of this log can hold is an error */
    static struct produce_call call;
    cluster_put(c, 1, &call, -1, 1, 0);
    cluster_pass(c, 600);
    assert_int_equal(eng_log_end_offset(cluster_part(c, 2)->log), eng_log_end_offset(cluster_part(c, 1)->log) - 1);
    c->wire.lift = 0;
    cluster_pass(c, 3000);
    assert_same_logs(c, 1, 2);
    assert_same_logs(c, 1, 3);
}

static void listed(struct broker_call *call) { OT_CONTAINER(call, struct broker_offsets, call)->timeout_ms = -1; }

static enum ot_err list_at(struct cluster *c, int32_t id, int64_t at, int16_t version, int64_t *offset_out)
{
    struct broker_offsets_part part = { .topic = ot_str_of("t"), .current_leader_epoch = -1, .at = at };
    struct broker_offsets offsets = { .call = { .home = c->nodes[id - 1].f.home, .done = listed }, .kind = BROKER_LIST_OFFSETS, .api_version = version, .parts = &part, .part_count = 1 };
    broker_offsets(c->nodes[id - 1].f.broker, &offsets);
    cluster_pass(c, 10);
    assert_int_equal(offsets.timeout_ms, -1);
    *offset_out = part.offset;
    return part.error;
}

static void a_new_leader_says_no_latest_offset_that_may_go_back(void **state)
{
    struct cluster *c = *state;
    static struct produce_call call;
    int64_t offset;
    started(c);
    put_all(c, 1, 2);
    cluster_pass(c, 600);
    c->cut[3][1] = c->cut[3][2] = true;        /* 3 has not this one, so nobody may be told of it */
    cluster_pass(c, 600);
    cluster_put(c, 1, &call, -1, 1, 0);
    cluster_pass(c, 100);
    assert_int_equal(eng_log_end_offset(cluster_part(c, 2)->log), 3);
    c->row.isr = 6;
    cluster_lead(c, 2, 6);
    cluster_pass(c, 20);
    assert_int_equal(list_at(c, 2, -1, 5, &offset), OT_ERR_OFFSET_NOT_AVAILABLE);
    assert_int_equal(list_at(c, 2, -1, 4, &offset), OT_ERR_LEADER_NOT_AVAILABLE);
    assert_int_equal(list_at(c, 2, INT64_MAX, 5, &offset), OT_ERR_OFFSET_NOT_AVAILABLE);
    assert_int_equal(list_at(c, 2, -2, 5, &offset), OT_OK);
    assert_int_equal(offset, 0);
    c->cut[3][1] = c->cut[3][2] = false;
    cluster_pass(c, 3000);
    assert_int_equal(list_at(c, 2, -1, 5, &offset), OT_OK);
    assert_int_equal(offset, 3);
}

static void acks_1_that_waited_for_a_handover_is_answered_when_that_is_given_up(void **state)
{
    struct cluster *c = *state;
    static struct produce_call before, one;
    started(c);
    c->cut[2][1] = c->cut[3][1] = c->cut[1][2] = c->cut[1][3] = c->mute = true;     /* the tail goes nowhere, and nobody leaves the isr */
    cluster_pass(c, 600);
    cluster_put(c, 1, &before, 1, -1, 0);
    cluster_pass(c, 100);
    assert_true(before.done);
    c->row.successor = 2;
    c->row.partition_epoch++;
    cluster_apply(c);
    cluster_put(c, 1, &one, 1, -1, 0);
    cluster_pass(c, 3000);
    assert_false(one.done);
    cluster_pass(c, 4000);                     /* a leader gives up after 5 s */
    assert_true(one.done);
    assert_int_equal(one.part.error, OT_OK);
    assert_int_equal(atomic_load(&cluster_part(c, 1)->high_watermark), 0);
    c->cut[2][1] = c->cut[3][1] = c->cut[1][2] = c->cut[1][3] = c->mute = false;
}

/* A leader that hands over stood still, and was taken for gone: its lease ran out, and the time that it had for handing over too. */
static void acks_1_that_was_written_late_is_not_answered_by_a_handover_that_is_given_up(void **state)
{
    struct cluster *c = *state;
    struct core_fixture *f = &c->nodes[0].f;
    static struct produce_call before, in_time, late, again;
    fixture_set(f, "ottla.leader.lease", "strict");
    started(c);
    c->cut[2][1] = c->cut[3][1] = c->cut[1][2] = c->cut[1][3] = c->mute = true;
    cluster_pass(c, 600);
    broker_lease_renew(f->broker, sim_sched_now_us(c->sched), 0);
    cluster_put(c, 1, &before, 1, -1, 0);
    cluster_pass(c, 100);
    c->row.successor = 2;
    c->row.partition_epoch++;
    cluster_apply(c);
    cluster_put(c, 1, &in_time, 1, -1, 0);
    cluster_pass(c, 100);
    assert_false(in_time.done);                /* all in sync are to have it */
    cluster_put(c, 1, &late, 1, 50, 0);
    cluster_put(c, 1, &again, 1, 50, 0);
    sim_sched_wake(c->sched, sim_sched_now_us(c->sched) + 9000000);
    cluster_pass(c, 4000);
    assert_int_equal(eng_log_end_offset(cluster_part(c, 1)->log), 3);
    assert_true(in_time.done && late.done && again.done);
    assert_int_equal(in_time.part.error, OT_OK);
    assert_int_equal(late.part.error, OT_ERR_REQUEST_TIMED_OUT);
    assert_int_equal(again.part.error, OT_ERR_REQUEST_TIMED_OUT);
    c->cut[2][1] = c->cut[3][1] = c->cut[1][2] = c->cut[1][3] = c->mute = false;
}

/* How often that broker asks a leader that it does not reach. */
static uint32_t tries_within(struct cluster *c, int32_t id, int64_t ms)
{
    c->cut[id][1] = true;
    cluster_pass(c, 8000);                     /* the pauses are as long as they get */
    const uint32_t before = c->fetches;
    cluster_pass(c, ms);
    const uint32_t cut = c->fetches - before;
    c->cut[id][1] = false;
    cluster_pass(c, 6000);
    return cut;
}

static void a_failed_fetch_is_tried_again_after_a_pause_that_is_bounded(void **state)
{
    struct cluster *c = *state;
    fixture_set(&c->nodes[1].f, "replica.fetch.backoff.ms", "200");
    fixture_set(&c->nodes[2].f, "replica.fetch.backoff.ms", "4000");
    started(c);
    const uint32_t quiet = c->fetches;
    cluster_pass(c, 20000);
    const uint32_t one = (c->fetches - quiet) / 2;     /* what the other one asks meanwhile */
    assert_in_range(tries_within(c, 2, 20000) - one, 190, 205);         /* two streams, each with pauses of its own */
    assert_in_range(tries_within(c, 3, 20000) - one, 8, 12);
}

/* ---- sessions of fetches */

static void what_is_as_it_was_is_not_named_and_stays_in_sync(void **state)
{
    struct cluster *c = *state;
    started(c);
    put_all(c, 1, 3);
    cluster_pass(c, 1000);
    const uint32_t named = c->wire.named, fetches = c->fetches, sessions = c->wire.sessions, alters = c->alters;
    cluster_pass(c, 10000);                    /* replica.lag.time.max.ms is 2 s */
    assert_true(c->fetches - fetches >= 20);
    assert_int_equal(c->wire.named, named);
    assert_int_equal(c->wire.sessions, sessions);
    assert_int_equal(c->alters, alters);
    assert_int_equal(c->row.isr, 7);
    put_all(c, 1, 1);
    assert_true(c->wire.named > named && c->wire.named - named <= 8);
    assert_same_logs(c, 1, 2);
    assert_same_logs(c, 1, 3);
}

static void a_session_that_the_leader_does_not_know_is_begun_anew_at_once(void **state)
{
    struct cluster *c = *state;
    struct broker_replication_counts counts;
    started(c);
    put_all(c, 1, 1);
    cluster_pass(c, 1000);
    const uint32_t sessions = c->wire.sessions;
    c->wire.forgetful = true;
    put_all(c, 1, 3);
    cluster_pass(c, 3000);
    c->wire.forgetful = false;
    assert_true(c->wire.sessions > sessions + 2);
    assert_int_equal(c->row.isr, 7);
    for (int id = 2; id <= NODES; id++) {
        broker_replication_counts(c->nodes[id - 1].replication, &counts);
        assert_int_equal(counts.failures, 0);
        assert_same_logs(c, 1, id);
    }
}

static void a_high_watermark_that_came_to_nothing_is_told_again(void **state)
{
    struct cluster *c = *state;
    started(c);
    put_all(c, 1, 1);
    cluster_pass(c, 1000);
    static struct produce_call call;
    cluster_put(c, 1, &call, -1, -1, 0);
    c->wire.unheard = 6;                            /* both followers': the records, what it became then, and once more */
    cluster_pass(c, 40);                       /* far less than a fetch may wait */
    assert_true(call.done);
    assert_int_equal(c->wire.unheard, 0);
    for (int id = 1; id <= NODES; id++) assert_int_equal(atomic_load(&cluster_part(c, id)->high_watermark), 2);
}

static void a_leader_without_room_for_sessions_is_told_everything(void **state)
{
    struct cluster *c = *state;
    c->wire.full = true;
    started(c);
    put_all(c, 1, 3);
    cluster_pass(c, 1000);
    const uint32_t named = c->wire.named, fetches = c->fetches;
    cluster_pass(c, 5000);
    assert_int_equal(c->wire.named - named, c->fetches - fetches);
    assert_int_equal(c->row.isr, 7);
    assert_same_logs(c, 1, 3);
}

static void a_partition_that_is_led_elsewhere_is_struck_out(void **state)
{
    struct cluster *c = *state;
    started(c);
    put_all(c, 1, 1);
    cluster_pass(c, 1000);
    cluster_lead(c, 2, 7);
    cluster_pass(c, 2000);
    assert_true(c->wire.forgotten >= 1);            /* 3 asked 1; 2 became the leader itself */
    assert_true(cluster_part(c, 1)->follower_nodes == 0);
    const uint32_t fetches = c->fetches, named = c->wire.named;
    cluster_pass(c, 5000);
    assert_true(c->fetches - fetches <= 2 * 11);       /* two followers, twice a second; nobody asks the old leader */
    assert_int_equal(c->wire.named, named);
    put_all(c, 2, 2);
    assert_int_equal(c->row.isr, 7);
    assert_same_logs(c, 2, 1);
    assert_same_logs(c, 2, 3);
}

static void a_new_epoch_of_the_broker_begins_a_session(void **state)
{
    struct cluster *c = *state;
    started(c);
    put_all(c, 1, 1);
    cluster_pass(c, 1000);
    const uint32_t sessions = c->wire.sessions;
    c->nodes[2].epoch += 10;                   /* registered anew, without a restart */
    cluster_apply(c);
    cluster_pass(c, 6000);
    assert_true(c->wire.sessions > sessions);
    assert_int_equal(c->row.isr, 7);
    put_all(c, 1, 1);
    assert_same_logs(c, 1, 3);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, cluster_setup, cluster_teardown)
    const struct CMUnitTest tests[] = { T(what_is_as_it_was_is_not_named_and_stays_in_sync),
        T(a_session_that_the_leader_does_not_know_is_begun_anew_at_once),
        T(a_high_watermark_that_came_to_nothing_is_told_again),
        T(a_leader_without_room_for_sessions_is_told_everything),
        T(a_partition_that_is_led_elsewhere_is_struck_out),
        T(a_new_epoch_of_the_broker_begins_a_session),
        T(an_acks_all_answer_waits_for_every_member), T(high_watermarks_follow_without_new_records),
        T(a_silent_follower_leaves_the_isr_and_comes_back), T(too_few_members_refuse_acks_all), T(a_proposal_waits_for_a_mute_coordinator), T(a_proposed_member_that_lost_its_disk_does_not_join),
        T(a_deposed_leader_is_cut_where_the_histories_part), T(a_deposed_leader_keeps_nothing_if_where_the_histories_part_is_deleted), T(producers_go_on_at_the_next_leader), T(a_follower_behind_the_log_start_begins_there),
        T(a_follower_begins_with_a_batch_that_the_log_start_is_within),
        T(a_leader_of_an_empty_log_without_epochs_is_followed), T(what_goes_on_behind_an_empty_leader_is_cut),
        T(a_restarted_follower_catches_up), T(replicated_fsync_waits_for_every_disk), T(what_holds_on_disk_is_reported_of_many_partitions_in_one_request),
        T(a_coordinator_of_an_older_build_is_told_one_by_one), T(the_last_member_syncs_in_class_auto), T(strangers_and_old_lives_are_refused),
        T(a_batch_that_no_segment_can_hold_is_not_taken), T(a_new_leader_says_no_latest_offset_that_may_go_back),
        T(a_failed_fetch_is_tried_again_after_a_pause_that_is_bounded),
        T(acks_1_that_waited_for_a_handover_is_answered_when_that_is_given_up),
        T(acks_1_that_was_written_late_is_not_answered_by_a_handover_that_is_given_up) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
