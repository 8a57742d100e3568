#include "coordinator/consumer_inner.h"
#include "testing.h"

#include "cg_desk.h"

static void one_member_gets_all_and_a_second_takes_its_half(void **state)
{
    (void)state;
    struct desk *d = desk_open();
    struct bot bots[3];
    desk_topic(d, 0, "orders", 6);
    bot_make(&bots[0], "a", "orders");
    bot_make(&bots[1], "b", "orders");
    assert_int_equal(bot_beat(d, &bots[0]), OT_OK);
    assert_int_equal(bots[0].has_count, 6);
    assert_int_equal(bots[0].epoch, 2);
    assert_int_equal(d->answer.heartbeat_interval_ms, 5000);
    assert_int_equal(d->call.event, COORD_CG_JOINED);
    assert_int_equal(bot_beat(d, &bots[1]), OT_OK);            /* nothing is free yet */
    assert_int_equal(bots[1].has_count, 0);
    assert_int_equal(d->answer.heartbeat_interval_ms, 500);    /* who waits for others is to ask again soon */
    assert_int_equal(coord_cg_state(d->cg), COORD_CG_RECONCILING);
    assert_int_equal(bot_beat(d, &bots[0]), OT_OK);            /* told to give up three */
    assert_int_equal(bots[0].has_count, 3);
    assert_int_equal(bots[0].epoch, 2);                        /* its epoch stands still until it says so */
    assert_int_equal(bot_beat(d, &bots[1]), OT_OK);
    assert_int_equal(bots[1].has_count, 0);
    assert_int_equal(bot_beat(d, &bots[0]), OT_OK);
    assert_int_equal(bots[0].epoch, 3);
    assert_int_equal(bot_beat(d, &bots[1]), OT_OK);
    assert_int_equal(bots[1].has_count, 3);
    assert_int_equal(d->answer.heartbeat_interval_ms, 5000);
    assert_int_equal(coord_cg_state(d->cg), COORD_CG_STABLE);
    assert_int_equal(bot_beat(d, &bots[0]), OT_OK);            /* a quiet heartbeat writes nothing and repeats nothing */
    assert_int_equal(d->call.record_count, 0);
    assert_null(d->answer.assignment);
    bots[0].say_all = true;
    assert_int_equal(bot_beat(d, &bots[0]), OT_OK);            /* a full one is answered in full */
    assert_non_null(d->answer.assignment);
    assert_int_equal(bot_send(d, &bots[1], -1), OT_OK);
    assert_int_equal(d->answer.member_epoch, -1);
    assert_int_equal(bot_beat(d, &bots[0]), OT_OK);
    assert_int_equal(bots[0].has_count, 6);
    assert_int_equal(bot_send(d, &bots[0], -1), OT_OK);
    assert_int_equal(coord_cg_state(d->cg), COORD_CG_EMPTY);
    assert_int_equal(bot_send(d, &bots[0], 4), OT_ERR_UNKNOWN_MEMBER_ID);
    desk_close(d);
}

static void epochs_fence_and_a_lost_answer_does_not(void **state)
{
    (void)state;
    struct desk *d = desk_open();
    struct bot a;
    desk_topic(d, 0, "orders", 2);
    bot_make(&a, "a", "orders");
    assert_int_equal(bot_beat(d, &a), OT_OK);
    assert_int_equal(bot_send(d, &a, 7), OT_ERR_FENCED_MEMBER_EPOCH);
    desk_topic(d, 0, "orders", 3);
    assert_int_equal(bot_send(d, &a, 2), OT_OK);               /* the answer with epoch 3 is lost */
    assert_int_equal(d->answer.member_epoch, 3);
    assert_int_equal(d->call.event, COORD_CG_TOPICS);
    assert_int_equal(bot_beat(d, &a), OT_OK);                  /* again with epoch 2, which was the one before, and no more than it was given */
    assert_int_equal(a.epoch, 3);
    assert_int_equal(bot_send(d, &a, 1), OT_ERR_FENCED_MEMBER_EPOCH);
    a.has[a.has_count++] = (struct coord_cg_part){.topic_id = {{9}}, .partition = 1};
    assert_int_equal(bot_send(d, &a, 2), OT_ERR_FENCED_MEMBER_EPOCH);      /* it has something it was not given */
    assert_true(strstr(d->call.text, "smaller member epoch (2) than the one known by the group coordinator (3)") != NULL);
    a.epoch = 0;
    assert_int_equal(bot_beat(d, &a), OT_OK);
    assert_int_equal(a.has_count, 3);
    desk_close(d);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    struct desk *d = desk_open();
    struct ot_consumer_group_heartbeat_request r;
    struct ot_str names[] = {ot_str_of("orders")};
    ot_consumer_group_heartbeat_request_defaults(&r);
    r.group_id = ot_str_of("g");
    assert_int_equal(desk_beat(d, &r), OT_ERR_INVALID_REQUEST);
    assert_string_equal(d->call.text, "MemberId can't be empty.");
    r.member_id = ot_str_of("m");
    assert_int_equal(desk_beat(d, &r), OT_ERR_INVALID_REQUEST);
    r.rebalance_timeout_ms = 1000;
    assert_int_equal(desk_beat(d, &r), OT_ERR_INVALID_REQUEST);
    assert_string_equal(d->call.text, "TopicPartitions must be empty when (re-)joining.");
    r.topic_partitions.count = 0;
    assert_int_equal(desk_beat(d, &r), OT_ERR_INVALID_REQUEST);
    r.subscribed_topic_names = (struct ot_str_array){names, 1};
    r.server_assignor = ot_str_of("sticky");
    assert_int_equal(desk_beat(d, &r), OT_ERR_UNSUPPORTED_ASSIGNOR);
    assert_string_equal(d->call.text, "ServerAssignor sticky is not supported. Supported assignors: uniform, range.");
    r.server_assignor = ot_str_of(NULL);
    r.subscribed_topic_regex = ot_str_of("(a");
    assert_int_equal(desk_beat(d, &r), OT_ERR_INVALID_REGULAR_EXPRESSION);
    r.subscribed_topic_regex = ot_str_of(NULL);
    r.instance_id = ot_str_of(" ");
    assert_int_equal(desk_beat(d, &r), OT_ERR_INVALID_REQUEST);
    r.instance_id = ot_str_of(NULL);
    r.member_epoch = -2;
    assert_int_equal(desk_beat(d, &r), OT_ERR_INVALID_REQUEST);
    r.member_epoch = -3;
    assert_int_equal(desk_beat(d, &r), OT_ERR_INVALID_REQUEST);
    r.member_epoch = 5;
    assert_int_equal(desk_beat(d, &r), OT_ERR_UNKNOWN_MEMBER_ID);
    r.member_epoch = 0;
    d->config.size_max = 1;
    assert_int_equal(desk_beat(d, &r), OT_OK);
    r.member_id = ot_str_of("n");
    assert_int_equal(desk_beat(d, &r), OT_ERR_GROUP_MAX_SIZE_REACHED);
    assert_int_equal(coord_cg_member_count(d->cg), 1);
    desk_close(d);
}

static void members_that_are_silent_or_do_not_give_up_are_put_out(void **state)
{
    (void)state;
    struct desk *d = desk_open();
    struct bot a, b;
    desk_topic(d, 0, "orders", 4);
    bot_make(&a, "a", "orders");
    bot_make(&b, "b", "orders");
    a.rebalance_timeout_ms = 20000;
    assert_int_equal(bot_beat(d, &a), OT_OK);
    assert_int_equal(coord_cg_deadline_us(d->cg), d->now_us + 45000000);
    assert_int_equal(bot_beat(d, &b), OT_OK);
    const int64_t asked_us = d->now_us;
    for (int i = 0; i < 3; i++) {                              /* a goes on but says that it still has all */
        assert_int_equal(bot_send(d, &a, a.epoch), OT_OK);
        desk_pass(d, 6000);
    }
    assert_int_equal(desk_expire(d), OT_OK);
    assert_int_equal(coord_cg_member_count(d->cg), 2);
    assert_true(coord_cg_deadline_us(d->cg) <= asked_us + 20000000);
    desk_pass(d, 2500);
    assert_int_equal(desk_expire(d), OT_OK);
    assert_int_equal(coord_cg_member_count(d->cg), 1);
    assert_int_equal(d->call.event, COORD_CG_REBALANCE_OVER);
    assert_int_equal(bot_beat(d, &b), OT_OK);
    assert_int_equal(b.has_count, 4);
    assert_int_equal(bot_send(d, &a, a.epoch), OT_ERR_UNKNOWN_MEMBER_ID);
    desk_pass(d, 44999);
    assert_int_equal(desk_expire(d), OT_OK);
    assert_int_equal(coord_cg_member_count(d->cg), 1);
    desk_pass(d, 1);
    assert_int_equal(desk_expire(d), OT_OK);
    assert_int_equal(d->call.event, COORD_CG_SESSION_OVER);
    assert_int_equal(coord_cg_state(d->cg), COORD_CG_EMPTY);
    assert_true(coord_cg_deadline_us(d->cg) == INT64_MAX);
    desk_close(d);
}

static void a_static_member_comes_back_to_what_it_had(void **state)
{
    (void)state;
    struct desk *d = desk_open();
    struct bot bots[2], again;
    desk_topic(d, 0, "orders", 4);
    bot_make(&bots[0], "a", "orders");
    bot_make(&bots[1], "b", "orders");
    bots[0].instance = "i-a";
    bots_settle(d, bots, 2);
    const int32_t epoch = coord_cg_epoch(d->cg);
    again = bots[0];
    (void)snprintf(again.id, sizeof(again.id), "a2");
    again.epoch = 0;
    assert_int_equal(bot_send(d, &again, 0), OT_ERR_UNRELEASED_INSTANCE_ID);
    assert_int_equal(bot_send(d, &bots[0], -2), OT_OK);
    assert_int_equal(d->answer.member_epoch, -2);
    assert_int_equal(bot_beat(d, &bots[1]), OT_OK);
    assert_int_equal(bots[1].has_count, 2);                    /* nobody takes its place */
    desk_restart(d);
    assert_int_equal(bot_beat(d, &again), OT_OK);
    assert_int_equal(again.has_count, 2);
    assert_int_equal(again.epoch, epoch);
    assert_int_equal(coord_cg_epoch(d->cg), epoch);
    assert_int_equal(bot_send(d, &bots[0], epoch), OT_ERR_FENCED_INSTANCE_ID);
    assert_int_equal(bot_send(d, &again, -2), OT_OK);
    desk_pass(d, 45000);
    assert_int_equal(bot_beat(d, &bots[1]), OT_OK);
    assert_int_equal(desk_expire(d), OT_OK);                   /* it did not come back in time */
    assert_int_equal(coord_cg_member_count(d->cg), 1);
    assert_int_equal(bot_beat(d, &bots[1]), OT_OK);
    assert_int_equal(bots[1].has_count, 4);
    desk_close(d);
}

static void topics_come_grow_and_go(void **state)
{
    (void)state;
    struct desk *d = desk_open();
    struct bot bots[2];
    bot_make(&bots[0], "a", "orders");
    bot_make(&bots[1], "b", "orders");
    bots_settle(d, bots, 2);
    assert_int_equal(bots[0].has_count + bots[1].has_count, 0);
    desk_topic(d, 3, "orders", 3);
    bots_settle(d, bots, 2);
    assert_int_equal(bots[0].has_count + bots[1].has_count, 3);
    desk_topic(d, 3, "orders", 10);
    bots_settle(d, bots, 2);
    assert_int_equal(bots[0].has_count, 5);
    assert_int_equal(bots[1].has_count, 5);
    desk_topic(d, 4, "others", 10);                            /* not theirs */
    assert_int_equal(bot_beat(d, &bots[0]), OT_OK);
    assert_int_equal(d->call.record_count, 0);
    d->list[3].hash = 77;                                      /* replicas moved to other racks: a new assignment, which may be the same */
    d->topics.version++;
    const int32_t epoch = coord_cg_epoch(d->cg);
    bots_settle(d, bots, 2);
    assert_int_equal(coord_cg_epoch(d->cg), epoch + 1);
    desk_drop_topic(d, 3);
    bots_settle(d, bots, 2);
    assert_int_equal(bots[0].has_count + bots[1].has_count, 0);
    desk_close(d);
}

static uint32_t some_racks(const void *arg, int32_t partition, struct ot_str *out, uint32_t max)
{
    (void)arg;
    assert_true(max >= 3);
    if (partition == 1) {
        out[0] = ot_str_of("zone-\xc3\xa9");
        return 1;
    }
    out[0] = ot_str_of("r2");
    out[1] = out[2] = ot_str_of("r1");
    return 3;
}

/* The values are what computeTopicHash and computeGroupHash of Kafka 4.4 say. */
static void the_hash_of_the_topics_is_kafkas(void **state)
{
    (void)state;
    const struct ot_uuid orders = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
    const struct ot_uuid longer = {{0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0x80, 0, 0, 0, 0, 0, 0, 2}};
    const struct ot_uuid racked = {{0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9}};
    assert_true(coord_cg_topic_hash(&orders, ot_str_of("orders"), 3, NULL, NULL) == UINT64_C(0x32b27931bbdadc25));
    assert_true(coord_cg_topic_hash(&longer, ot_str_of("a.topic_with-longer.name"), 200, NULL, NULL) == UINT64_C(0x4ed6844633f6cb15));
    assert_true(coord_cg_topic_hash(&racked, ot_str_of("racked"), 2, some_racks, NULL) == UINT64_C(0x281f02636b9c79c2));
    struct desk *d = desk_open();
    struct bot a;
    desk_topic(d, 0, "orders", 3);
    d->list[0].id = orders;
    bot_make(&a, "a", "orders");
    bots_settle(d, &a, 1);
    assert_true(d->cg->metadata_hash == INT64_C(0x3e07e54ad16e0b25));
    desk_drop_topic(d, 0);
    bots_settle(d, &a, 1);
    assert_true(d->cg->metadata_hash == 0);
    desk_close(d);
}

static void a_subscription_shrinks_at_once_though_the_next_target_must_wait(void **state)
{
    (void)state;
    struct desk *d = desk_open();
    struct bot a;
    desk_topic(d, 0, "orders", 2);
    desk_topic(d, 1, "bills", 2);
    d->config.assignment_interval_ms = 1000;
    bot_make(&a, "a", "orders");
    a.topics[1] = "bills";
    a.say_all = true;
    assert_int_equal(bot_beat(d, &a), OT_OK);
    assert_int_equal(a.has_count, 4);
    a.topics[1] = NULL;
    assert_int_equal(bot_beat(d, &a), OT_OK);                  /* told to give up bills */
    assert_int_equal(a.has_count, 2);
    assert_int_equal(coord_cg_state(d->cg), COORD_CG_ASSIGNING);
    assert_int_equal(bot_beat(d, &a), OT_OK);
    desk_pass(d, 1000);
    a.say_all = false;
    assert_int_equal(bot_beat(d, &a), OT_OK);
    assert_int_equal(coord_cg_state(d->cg), COORD_CG_STABLE);
    assert_int_equal(a.has_count, 2);
    a.topics[0] = "bills";
    a.say_all = true;
    d->wall_ms -= 86400000;                                    /* the clock was set back: nobody waits a day for it */
    assert_int_equal(bot_beat(d, &a), OT_OK);
    assert_int_equal(bot_beat(d, &a), OT_OK);
    assert_int_equal(coord_cg_state(d->cg), COORD_CG_STABLE);
    assert_int_equal(a.has_count, 2);
    assert_int_equal(a.has[0].topic_id.bytes[0], 0x11);
    desk_close(d);
}

static void regular_expressions_follow_the_topics(void **state)
{
    (void)state;
    struct desk *d = desk_open();
    struct bot bots[2];
    desk_topic(d, 0, "eu-orders", 2);
    desk_topic(d, 1, "us-orders", 2);
    desk_topic(d, 2, "bills", 2);
    bot_make(&bots[0], "a", NULL);
    bot_make(&bots[1], "b", "bills");
    bots[0].regex = ".*-orders";
    bots_settle(d, bots, 2);
    assert_int_equal(bots[0].has_count, 4);
    assert_int_equal(bots[1].has_count, 2);
    assert_true(coord_cg_subscribed(d->cg, ot_str_of("us-orders")));
    assert_false(coord_cg_subscribed(d->cg, ot_str_of("asia-orders")));
    desk_topic(d, 3, "asia-orders", 3);
    bots_settle(d, bots, 2);
    assert_int_equal(bots[0].has_count, 4);                    /* looked at 10 s apart */
    desk_pass(d, 10000);
    bots_settle(d, bots, 2);
    assert_int_equal(bots[0].has_count, 7);
    desk_restart(d);
    desk_drop_topic(d, 0);
    desk_pass(d, 10000);
    bots_settle(d, bots, 2);
    assert_int_equal(bots[0].has_count, 5);
    bots[0].regex = "bills|eu.*";                              /* another one; the first has no user left */
    bots[0].say_all = true;
    bots_settle(d, bots, 2);
    assert_int_equal(bots[0].has_count + bots[1].has_count, 2);
    assert_false(coord_cg_subscribed(d->cg, ot_str_of("us-orders")));
    bots[0].regex = "";                                        /* and none at all */
    bots_settle(d, bots, 2);
    assert_int_equal(bots[0].has_count, 0);
    assert_int_equal(bot_send(d, &bots[0], -1), OT_OK);
    desk_close(d);
}

static void regular_expressions_are_looked_up_anew_at_the_interval(void **state)
{
    (void)state;
    struct desk *d = desk_open();
    struct bot bot;
    desk_topic(d, 0, "eu-orders", 2);
    desk_topic(d, 1, "bills", 3);
    bot_make(&bot, "a", NULL);
    bot.regex = ".*-orders";
    bots_settle(d, &bot, 1);
    assert_int_equal(bot.has_count, 2);
    (void)snprintf(d->names[1], sizeof(d->names[1]), "us-orders");      /* no topic came, and yet there is one */
    d->list[1].name = ot_str_of(d->names[1]);
    d->topics.version++;
    for (int i = 0; i < 58; i++) {
        desk_pass(d, 10000);
        bots_settle(d, &bot, 1);
        assert_int_equal(bot.has_count, 2);
    }
    desk_pass(d, 20000);                                       /* ten minutes, the interval */
    bots_settle(d, &bot, 1);
    assert_int_equal(bot.has_count, 5);
    desk_close(d);
}

static void the_assignor_of_most_members_is_taken(void **state)
{
    (void)state;
    struct desk *d = desk_open();
    struct bot bots[3];
    struct ot_consumer_group_describe_response_described_group described;
    desk_topic(d, 0, "orders", 6);
    for (int i = 0; i < 3; i++) bot_make(&bots[i], (const char *[]){"a", "b", "c"}[i], "orders");
    bots_settle(d, bots, 3);
    bots[2].assignor = "range";
    bots[2].say_all = true;
    assert_int_equal(bot_beat(d, &bots[2]), OT_OK);
    assert_int_equal(d->call.event, COORD_CG_ASSIGNOR);
    bots_settle(d, bots, 3);
    assert_int_equal(coord_cg_describe(d->cg, desk_call(d), &described), OT_OK);
    assert_true(ot_str_equal(described.assignor_name, ot_str_of("range")));
    assert_true(ot_str_equal(described.group_state, ot_str_of("Stable")));
    assert_int_equal(described.members.count, 3);
    assert_true(ot_str_equal(described.members.items[0].member_id, ot_str_of("a")));
    assert_int_equal(described.members.items[0].member_type, 1);
    assert_int_equal(described.members.items[0].assignment.topic_partitions.count, 1);
    assert_true(ot_str_equal(described.members.items[0].target_assignment.topic_partitions.items[0].topic_name, ot_str_of("orders")));
    assert_int_equal(described.members.items[2].assignment.topic_partitions.items[0].partitions.items[0], 4);
    desk_close(d);
}

static void commits_pass_from_the_epoch_a_partition_was_given_in(void **state)
{
    (void)state;
    struct desk *d = desk_open();
    struct bot bots[2];
    const struct ot_str a = ot_str_of("a"), none = ot_str_of(NULL), empty = ot_str_of("");
    bool partially;
    assert_int_equal(coord_cg_commit_check(d->cg, empty, none, -1, false, 9, &partially), OT_OK);      /* an empty group is open to administrators */
    desk_topic(d, 0, "orders", 4);
    bot_make(&bots[0], "a", "orders");
    bot_make(&bots[1], "b", "orders");
    assert_int_equal(bot_beat(d, &bots[0]), OT_OK);
    const struct ot_uuid id = d->list[0].id;
    bots_settle(d, bots, 2);                                   /* a kept two since epoch 2 and is at 3 */
    assert_int_equal(bots[0].epoch, 3);
    assert_int_equal(coord_cg_commit_check(d->cg, a, none, 3, false, 9, &partially), OT_OK);
    assert_false(partially);
    assert_int_equal(coord_cg_commit_check(d->cg, a, none, 4, false, 9, &partially), OT_ERR_STALE_MEMBER_EPOCH);
    assert_int_equal(coord_cg_commit_check(d->cg, a, none, 2, false, 9, &partially), OT_OK);
    assert_true(partially);
    const int32_t kept = bots[0].has[0].partition, moved = bots[1].has[0].partition;
    assert_int_equal(coord_cg_commit_partition(d->cg, a, 2, &id, kept), OT_OK);
    assert_int_equal(coord_cg_commit_partition(d->cg, a, 1, &id, kept), OT_ERR_STALE_MEMBER_EPOCH);
    assert_int_equal(coord_cg_commit_partition(d->cg, a, 2, &id, moved), OT_ERR_STALE_MEMBER_EPOCH);
    assert_int_equal(coord_cg_commit_partition(d->cg, ot_str_of("b"), 2, &id, moved), OT_ERR_STALE_MEMBER_EPOCH);      /* given in 3 */
    assert_int_equal(coord_cg_commit_check(d->cg, a, none, 3, false, 8, &partially), OT_ERR_UNSUPPORTED_VERSION);
    assert_int_equal(coord_cg_commit_check(d->cg, empty, none, -1, false, 9, &partially), OT_ERR_UNKNOWN_MEMBER_ID);
    assert_int_equal(coord_cg_commit_check(d->cg, empty, none, -1, true, INT16_MAX, &partially), OT_OK);
    assert_int_equal(coord_cg_fetch_check(d->cg, none, -1), OT_OK);
    assert_int_equal(coord_cg_fetch_check(d->cg, a, 3), OT_OK);
    assert_int_equal(coord_cg_fetch_check(d->cg, a, 2), OT_ERR_STALE_MEMBER_EPOCH);
    assert_int_equal(coord_cg_fetch_check(d->cg, ot_str_of("x"), 2), OT_ERR_UNKNOWN_MEMBER_ID);
    desk_close(d);
}

static void a_change_too_large_for_a_batch_is_refused_whole(void **state)
{
    (void)state;
    struct desk *d = desk_open();
    struct bot a;
    desk_topic(d, 0, "orders", 400);
    bot_make(&a, "a", "orders");
    d->config.record_bytes_max = 500;
    assert_int_equal(bot_send(d, &a, 0), OT_ERR_UNKNOWN_SERVER_ERROR);
    assert_int_equal(coord_cg_member_count(d->cg), 0);
    assert_int_equal(coord_cg_epoch(d->cg), 1);
    desk_close(d);
}

/* Whose heartbeat the new target comes with is not to blame for it: everybody is answered, and keeps what there is, until it fits. */
static void a_target_too_large_for_a_batch_is_put_off(void **state)
{
    (void)state;
    struct desk *d = desk_open();
    struct bot bots[3];
    desk_topic(d, 0, "orders", 400);
    bot_make(&bots[0], "a", "orders");
    bot_make(&bots[1], "b", "orders");
    bot_make(&bots[2], "c", "orders");
    bots_settle(d, bots, 1);
    d->config.record_bytes_max = 1000;
    const int32_t epoch = bots[0].epoch;
    assert_int_equal(bot_beat(d, &bots[1]), OT_OK);
    assert_true(d->call.target_kept);
    assert_in_range(d->call.record_bytes, 1, 1000);
    assert_int_equal(bots[1].epoch, epoch);
    assert_int_equal(bots[1].has_count, 0);
    assert_int_equal(d->answer.heartbeat_interval_ms, d->config.heartbeat_interval_ms);        /* nothing to ask for soon */
    assert_int_equal(bot_beat(d, &bots[2]), OT_OK);
    assert_false(d->call.target_kept);                         /* told once */
    for (int i = 0; i < 3; i++) assert_int_equal(bot_beat(d, &bots[i]), OT_OK);
    assert_int_equal(bots[0].has_count, 400);
    assert_int_equal(coord_cg_member_count(d->cg), 3);
    d->config.record_bytes_max = 1 << 20;
    assert_int_equal(bot_beat(d, &bots[0]), OT_OK);
    assert_int_equal(bots[0].has_count, 400);                  /* not tried with every heartbeat */
    d->now_us += 31000000;
    bots_settle(d, bots, 3);
    for (int i = 0; i < 3; i++) assert_in_range(bots[i].has_count, 133, 134);
    d->config.record_bytes_max = 1400;                         /* the next time it is told again; what c itself gives up fits */
    bots[2].topics[0] = "others";
    bots[2].say_all = true;
    assert_int_equal(bot_beat(d, &bots[2]), OT_OK);
    assert_true(d->call.target_kept);
    desk_close(d);
}

static void ids_have_a_bound(void **state)
{
    (void)state;
    struct desk *d = desk_open();
    static char text[257];
    struct ot_str topic = ot_str_of("orders");
    desk_topic(d, 0, "orders", 4);
    memset(text, 'x', 256);
    for (int what = 0; what < 3; what++)
        for (uint32_t bytes = 255; bytes <= 256; bytes++) {
            struct ot_consumer_group_heartbeat_request request;
            const struct ot_str id = { text, bytes, false };
            ot_consumer_group_heartbeat_request_defaults(&request);
            request.group_id = ot_str_of("g");
            request.member_id = what == 0 ? id : ot_str_of("m");
            if (what == 1) request.instance_id = id;
            if (what == 2) request.rack_id = id;
            request.rebalance_timeout_ms = 1000;
            request.subscribed_topic_names = (struct ot_str_array){ &topic, 1 };
            request.topic_partitions.count = 0;
            assert_int_equal(coord_cg_check(&request, 1, desk_call(d)), bytes == 255 ? OT_OK : OT_ERR_INVALID_REQUEST);
            request.member_epoch = -1;                         /* who is there already may leave */
            assert_int_equal(coord_cg_check(&request, 1, desk_call(d)), bytes == 255 || what < 2 ? OT_OK : OT_ERR_INVALID_REQUEST);
        }
    desk_close(d);
}

/* At the cap of the pool or of the call's memory a heartbeat is refused, changes nothing, and nothing leaks. */
static void full_memory_refuses_and_changes_nothing(void **state)
{
    (void)state;
    struct desk *d = desk_open();
    struct ot_mem_spec spec = {"groups", 1000, 1, 1 << 20, ""};
    struct ot_mem_budget budget;
    struct bot bots[1];
    desk_topic(d, 0, "orders", 40);
    bot_make(&bots[0], "a", "orders");
    d->may_break = true;
    for (uint64_t cap = 1; cap < 6000; cap += 150) {
        const struct ot_mem_override override = {"groups", cap};
        assert_int_equal(ot_mem_budget_init(&budget, 1 << 20, &spec, 1, &override, 1), OT_OK);
        coord_cg_free(d->cg);
        if (coord_cg_new(ot_str_of("g"), &budget.pools[0], &d->cg) == OT_OK) {
            struct coord_cg_call *call = &d->call;
            const enum ot_err err = bot_send(d, &bots[0], 0) == OT_OK ? OT_OK : OT_ERR_NO_MEMORY;
            assert_true(err == OT_OK || call->broken || coord_cg_member_count(d->cg) == 0);
            for (uint32_t i = 0; i < d->log_count; i++) {
                free(d->log[i].key);
                free(d->log[i].value);
            }
            d->log_count = 0;
            coord_cg_free(d->cg);
        }
        d->cg = NULL;
        assert_int_equal(ot_mem_used_bytes(&budget.pools[0]), 0);
        ot_mem_budget_free(&budget);
    }
    desk_close(d);
}

TEST_MAIN(cmocka_unit_test(one_member_gets_all_and_a_second_takes_its_half), cmocka_unit_test(epochs_fence_and_a_lost_answer_does_not),
    cmocka_unit_test(what_makes_no_sense_is_refused), cmocka_unit_test(members_that_are_silent_or_do_not_give_up_are_put_out),
    cmocka_unit_test(a_static_member_comes_back_to_what_it_had), cmocka_unit_test(topics_come_grow_and_go),
    cmocka_unit_test(the_hash_of_the_topics_is_kafkas),
    cmocka_unit_test(a_subscription_shrinks_at_once_though_the_next_target_must_wait), cmocka_unit_test(regular_expressions_follow_the_topics), cmocka_unit_test(regular_expressions_are_looked_up_anew_at_the_interval),
    cmocka_unit_test(the_assignor_of_most_members_is_taken), cmocka_unit_test(commits_pass_from_the_epoch_a_partition_was_given_in),
    cmocka_unit_test(a_change_too_large_for_a_batch_is_refused_whole),
    cmocka_unit_test(a_target_too_large_for_a_batch_is_put_off), cmocka_unit_test(ids_have_a_bound), cmocka_unit_test(full_memory_refuses_and_changes_nothing))
