#include "testing.h"

#include "base/wire/consumer_protocol_assignment.h"
#include "base/wire/consumer_protocol_subscription.h"
#include "cg_desk.h"

/* A client of the classic protocol with the cooperative protocol: it joins with what it has, and fetches what it gets. */
struct old_bot {
    struct bot bot;
    uint8_t metadata[1024];
    struct coord_cg_protocol protocols[2];
    const char *protocol;
    int32_t generation_id;
    bool joined;
};

static void old_subscription(struct desk *d, struct old_bot *o)
{
    struct ot_consumer_protocol_subscription s;
    struct ot_str names[1] = {ot_str_of(o->bot.topics[0])};
    struct ot_consumer_protocol_subscription_topic_partition owned[1];
    int32_t numbers[BOT_PARTS];
    ot_consumer_protocol_subscription_defaults(&s);
    memset(owned, 0, sizeof(owned));
    s.topics = (struct ot_str_array){names, 1};
    owned[0].topic = names[0];
    owned[0].partitions.items = numbers;
    for (uint32_t i = 0; i < o->bot.has_count; i++) numbers[owned[0].partitions.count++] = o->bot.has[i].partition;
    s.owned_partitions = (struct ot_consumer_protocol_subscription_topic_partition_array){owned, o->bot.has_count > 0};
    struct ot_writer w = ot_writer_over(o->metadata, sizeof(o->metadata));
    ot_write_u16(&w, 3);
    assert_int_equal(ot_consumer_protocol_subscription_encode(&s, 3, &w), OT_OK);
    o->protocols[0] = (struct coord_cg_protocol){ot_str_of(o->protocol), {o->metadata, (uint32_t)w.needed, false}};
    (void)d;
}

static void old_make(struct old_bot *o, const char *id, const char *topic)
{
    memset(o, 0, sizeof(*o));
    bot_make(&o->bot, id, topic);
    o->protocol = "cooperative-sticky";
}

static enum ot_err old_join(struct desk *d, struct old_bot *o, bool is_new)
{
    struct coord_cg_joined joined;
    old_subscription(d, o);
    const struct coord_cg_join join = {ot_str_of(o->bot.id), ot_str_of(o->bot.instance), ot_str_of("old"), ot_str_of("/127.0.0.1"), ot_str_of("consumer"), is_new, 10000,
        60000, o->protocols, 1};
    const enum ot_err err = desk_done(d, coord_cg_classic_join(d->cg, desk_call(d), &join, &joined));
    if (err != OT_OK) return err;
    o->generation_id = joined.generation_id;
    o->joined = true;
    assert_true(ot_str_equal(joined.protocol_name, ot_str_of(o->protocol)));
    return OT_OK;
}

static void old_take_assignment(struct desk *d, struct bot *bot, struct ot_blob blob)
{
    struct ot_consumer_protocol_assignment a;
    struct ot_reader in = ot_reader_over(blob.data, blob.bytes);
    assert_int_equal(ot_read_i16(&in), 3);
    assert_int_equal(ot_consumer_protocol_assignment_decode(&a, 3, &in, &d->arena, NULL), OT_OK);
    bot->told_count = 0;
    for (int32_t i = 0; i < a.assigned_partitions.count; i++) {
        struct coord_cg_topic topic;
        assert_true(desk_by_name(d, a.assigned_partitions.items[i].topic, &topic));
        for (int32_t k = 0; k < a.assigned_partitions.items[i].partitions.count; k++)
            bot->told[bot->told_count++] = (struct coord_cg_part){topic.id, a.assigned_partitions.items[i].partitions.items[k], 0};
    }
}

static enum ot_err old_sync(struct desk *d, struct old_bot *o)
{
    struct ot_blob blob = {NULL, 0, true};
    const enum ot_err err = desk_done(d, coord_cg_classic_sync(d->cg, desk_call(d), ot_str_of(o->bot.id), ot_str_of(o->bot.instance), o->generation_id,
        ot_str_of("consumer"), ot_str_of(o->protocol), &blob));
    if (err == OT_OK) old_take_assignment(d, &o->bot, blob);
    return err;
}

static enum ot_err old_beat(struct desk *d, struct old_bot *o)
{
    return desk_done(d, coord_cg_classic_heartbeat(d->cg, desk_call(d), ot_str_of(o->bot.id), ot_str_of(o->bot.instance), o->generation_id));
}

/* A turn: heartbeat; when told so, join and sync, and what is not its own any more is given up, which needs another join. */
static void old_turn(struct desk *d, struct old_bot *o)
{
    enum ot_err err = o->joined ? old_beat(d, o) : OT_ERR_REBALANCE_IN_PROGRESS;
    if (err == OT_OK) return;
    assert_int_equal(err, OT_ERR_REBALANCE_IN_PROGRESS);
    assert_int_equal(old_join(d, o, !o->joined), OT_OK);
    err = old_sync(d, o);
    if (err == OT_ERR_REBALANCE_IN_PROGRESS) return;
    assert_int_equal(err, OT_OK);
    if (!bot_revoke(&o->bot)) bot_assign(&o->bot);
    else assert_int_equal(old_join(d, o, false), OT_OK);
    if (old_sync(d, o) == OT_OK) bot_assign(&o->bot);
}

static void settle(struct desk *d, struct bot *bots, int count, struct old_bot *olds, int old_count)
{
    for (int round = 0; round < 8; round++) {
        for (int i = 0; i < count; i++) assert_int_equal(bot_beat(d, &bots[i]), OT_OK);
        for (int i = 0; i < old_count; i++) old_turn(d, &olds[i]);
    }
    assert_int_equal(coord_cg_state(d->cg), COORD_CG_STABLE);
}

static void classic_and_new_members_share_a_group(void **state)
{
    (void)state;
    struct desk *d = desk_open();
    struct bot a;
    struct old_bot olds[2];
    desk_topic(d, 0, "orders", 6);
    bot_make(&a, "a", "orders");
    old_make(&olds[0], "o1", "orders");
    old_make(&olds[1], "o2", "orders");
    settle(d, &a, 1, olds, 0);
    settle(d, &a, 1, olds, 1);
    assert_int_equal(a.has_count, 3);
    assert_int_equal(olds[0].bot.has_count, 3);
    settle(d, &a, 1, olds, 2);
    assert_int_equal(a.has_count + olds[0].bot.has_count + olds[1].bot.has_count, 6);
    assert_int_equal(olds[1].bot.has_count, 2);
    struct ot_consumer_group_describe_response_described_group described;
    assert_int_equal(coord_cg_describe(d->cg, desk_call(d), &described), OT_OK);
    assert_int_equal(described.members.items[1].member_type, 0);
    olds[0].protocol = "range";                                /* all classic members must share one */
    assert_int_equal(old_join(d, &olds[0], false), OT_ERR_INCONSISTENT_GROUP_PROTOCOL);
    olds[0].protocol = "cooperative-sticky";
    const struct coord_cg_leaver leavers[] = {{ot_str_of("o2"), ot_str_of(NULL)}, {ot_str_of("nobody"), ot_str_of(NULL)}};
    enum ot_err errors[2];
    assert_int_equal(desk_done(d, coord_cg_classic_leave(d->cg, desk_call(d), leavers, 2, errors)), OT_OK);
    assert_int_equal(errors[0], OT_OK);
    assert_int_equal(errors[1], OT_ERR_UNKNOWN_MEMBER_ID);
    settle(d, &a, 1, olds, 1);
    assert_int_equal(olds[0].bot.has_count, 3);
    desk_close(d);
}

static void the_last_new_member_leaves_a_classic_group_behind(void **state)
{
    (void)state;
    struct desk *d = desk_open();
    struct bot a;
    struct old_bot olds[2];
    desk_topic(d, 0, "orders", 6);
    bot_make(&a, "a", "orders");
    old_make(&olds[0], "o1", "orders");
    old_make(&olds[1], "o2", "orders");
    settle(d, &a, 1, olds, 2);
    const int32_t epoch = coord_cg_epoch(d->cg);
    assert_int_equal(bot_send(d, &a, -1), OT_OK);
    assert_true(d->ended);
    const struct coord_cg_classic *classic = d->call.classic;
    assert_int_equal(classic->generation_id, epoch);
    assert_int_equal(classic->member_count, 2);
    assert_true(classic->rebalance);
    for (uint32_t i = 0; i < 2; i++) {                         /* they go on with what they had */
        struct bot *bot = ot_str_equal(classic->members[i].member_id, ot_str_of("o1")) ? &olds[0].bot : &olds[1].bot;
        old_take_assignment(d, bot, classic->members[i].assignment);
        assert_int_equal(bot->told_count, 2);
        assert_false(bot_revoke(bot));
        assert_int_equal(classic->members[i].session_timeout_ms, 10000);
    }
    /* and a new member makes it a consumer group again */
    struct coord_cg_classic copy = *classic;
    copy.protocol_name = ot_str_of("cooperative-sticky");
    copy.members = malloc(2 * sizeof(*copy.members));
    memcpy(copy.members, classic->members, 2 * sizeof(*copy.members));
    uint8_t assignments[2][256];
    for (int i = 0; i < 2; i++) {
        memcpy(assignments[i], copy.members[i].assignment.data, copy.members[i].assignment.bytes);
        copy.members[i].assignment.data = assignments[i];
        struct old_bot *o = &olds[ot_str_equal(copy.members[i].member_id, ot_str_of("o1")) ? 0 : 1];
        copy.members[i].protocols = o->protocols;
        copy.members[i].client_id = ot_str_of("old");
        copy.members[i].client_host = ot_str_of("/127.0.0.1");
        copy.members[i].member_id = ot_str_of(o->bot.id);
    }
    assert_int_equal(coord_cg_new(ot_str_of("g"), NULL, &d->cg), OT_OK);
    assert_int_equal(desk_done(d, coord_cg_from_classic(d->cg, desk_call(d), &copy)), OT_OK);
    free(copy.members);
    assert_int_equal(coord_cg_epoch(d->cg), epoch);
    assert_int_equal(coord_cg_state(d->cg), COORD_CG_STABLE);
    assert_int_equal(coord_cg_member_count(d->cg), 2);
    for (int i = 0; i < 2; i++) {
        olds[i].generation_id = epoch;
        assert_int_equal(old_beat(d, &olds[i]), OT_OK);
    }
    a.epoch = 0;
    settle(d, &a, 1, olds, 2);
    assert_int_equal(a.has_count, 2);
    desk_close(d);
}

static void a_group_that_cannot_be_taken_over_says_why(void **state)
{
    (void)state;
    struct desk *d = desk_open();
    struct old_bot o;
    desk_topic(d, 0, "orders", 2);
    old_make(&o, "o1", "orders");
    old_subscription(d, &o);
    struct coord_cg_classic_member member = {ot_str_of("o1"), ot_str_of(NULL), ot_str_of("c"), ot_str_of("h"), 1000, 1000, o.protocols, 1, {(const uint8_t *)"\0", 1, false}};
    struct coord_cg_classic classic = {5, ot_str_of("cooperative-sticky"), &member, 1, false, NULL};
    assert_int_equal(coord_cg_from_classic(d->cg, desk_call(d), &classic), OT_ERR_GROUP_ID_NOT_FOUND);
    assert_true(strstr(d->call.text, "malformed") != NULL);
    static const uint8_t user_data[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 7};
    member.assignment = (struct ot_blob){user_data, sizeof(user_data), false};
    o.protocols[0].name = classic.protocol_name = ot_str_of("mine");
    assert_int_equal(coord_cg_from_classic(d->cg, desk_call(d), &classic), OT_ERR_GROUP_ID_NOT_FOUND);
    assert_true(strstr(d->call.text, "custom assignor") != NULL);
    member.assignment = (struct ot_blob){NULL, 0, false};
    o.protocols[0].metadata.bytes = 3;
    assert_int_equal(coord_cg_from_classic(d->cg, desk_call(d), &classic), OT_ERR_GROUP_ID_NOT_FOUND);
    d->config.migration = COORD_CG_NO_MIGRATION;
    o.protocols[0].metadata.bytes = 1;
    assert_int_equal(old_join(d, &o, true), OT_ERR_INCONSISTENT_GROUP_PROTOCOL);
    desk_close(d);
}

static void a_static_member_goes_from_one_protocol_to_the_other_and_back(void **state)
{
    (void)state;
    struct desk *d = desk_open();
    struct bot bots[2];
    struct old_bot o;
    desk_topic(d, 0, "orders", 4);
    bot_make(&bots[0], "a", "orders");
    bot_make(&bots[1], "b", "orders");
    bots[0].instance = "i-a";
    bots_settle(d, bots, 2);
    old_make(&o, "o1", "orders");
    o.bot.instance = "i-a";
    assert_int_equal(old_join(d, &o, true), OT_OK);            /* takes the place, without waiting for it to be released */
    assert_int_equal(coord_cg_member_count(d->cg), 2);
    assert_int_equal(old_sync(d, &o), OT_OK);
    assert_int_equal(o.bot.told_count, 2);
    assert_int_equal(bot_send(d, &bots[0], bots[0].epoch), OT_ERR_FENCED_INSTANCE_ID);
    struct bot again = bots[0];
    (void)snprintf(again.id, sizeof(again.id), "a3");
    again.epoch = 0;
    assert_int_equal(bot_beat(d, &again), OT_OK);              /* and back */
    assert_int_equal(again.has_count, 2);
    o.joined = false;
    (void)snprintf(o.bot.id, sizeof(o.bot.id), "o2");
    o.bot.instance = "i-b";
    assert_int_equal(bot_send(d, &bots[1], -1), OT_OK);
    assert_int_equal(old_join(d, &o, true), OT_OK);
    (void)snprintf(o.bot.id, sizeof(o.bot.id), "o3");
    o.bot.instance = "i-a";                                    /* the last one of the new protocol comes back as a classic one: the group is classic at once */
    assert_int_equal(old_join(d, &o, true), OT_OK);
    assert_true(d->ended);
    assert_int_equal(d->call.classic->member_count, 2);
    desk_close(d);
}

static void classic_members_that_do_not_come_when_told_are_put_out(void **state)
{
    (void)state;
    struct desk *d = desk_open();
    struct bot a;
    struct old_bot o;
    desk_topic(d, 0, "orders", 2);
    bot_make(&a, "a", "orders");
    old_make(&o, "o1", "orders");
    settle(d, &a, 1, &o, 1);
    desk_topic(d, 0, "orders", 4);
    assert_int_equal(bot_beat(d, &a), OT_OK);
    for (int i = 0; i < 8; i++) {                              /* alive, but it does not join: longer than its rebalance timeout */
        assert_int_equal(old_beat(d, &o), OT_ERR_REBALANCE_IN_PROGRESS);
        assert_int_equal(bot_beat(d, &a), OT_OK);
        desk_pass(d, 7500);
        assert_int_equal(desk_expire(d), OT_OK);
    }
    assert_int_equal(coord_cg_member_count(d->cg), 1);
    assert_int_equal(old_beat(d, &o), OT_ERR_UNKNOWN_MEMBER_ID);
    assert_int_equal(bot_beat(d, &a), OT_OK);
    assert_int_equal(a.has_count, 4);
    desk_close(d);
}

TEST_MAIN(cmocka_unit_test(classic_and_new_members_share_a_group), cmocka_unit_test(the_last_new_member_leaves_a_classic_group_behind),
    cmocka_unit_test(a_group_that_cannot_be_taken_over_says_why), cmocka_unit_test(a_static_member_goes_from_one_protocol_to_the_other_and_back),
    cmocka_unit_test(classic_members_that_do_not_come_when_told_are_put_out))
