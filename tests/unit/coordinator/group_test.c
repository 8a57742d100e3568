/* Classic groups and their offsets, by virtual time. */
#include "group_desk.h"

#include "base/util.h"

static void the_first_generation_waits_for_more_members(void **state)
{
    (void)state;
    struct desk *desk = desk_new();
    struct desk_ask *a = desk_join_new(desk, "g");
    assert_string_equal(desk_state(desk, "g"), "PreparingRebalance");
    desk_pass_ms(desk, 2000);
    struct desk_ask *b = desk_join_new(desk, "g");
    desk_pass_ms(desk, 2000);
    assert_false(a->answered);                 /* the second one began the delay anew */
    desk_pass_ms(desk, 2000);
    assert_true(a->answered && b->answered);
    assert_int_equal(a->response.join.generation_id, 1);
    assert_int_equal(a->response.join.members.count + b->response.join.members.count, 2);
    assert_string_equal(desk_state(desk, "g"), "CompletingRebalance");
    desk_free(desk);
}

static void members_in_a_stable_group_are_told_to_rejoin_when_one_joins(void **state)
{
    (void)state;
    struct desk *desk = desk_new();
    struct desk_ask *a, *b;
    desk_two(desk, "g", &a, &b);
    assert_int_equal(desk_beat(desk, "g", a), OT_OK);
    struct desk_ask *c = desk_join_new(desk, "g");
    assert_false(c->answered);
    assert_int_equal(desk_beat(desk, "g", a), OT_ERR_REBALANCE_IN_PROGRESS);
    struct desk_ask *a2 = desk_join(desk, "g", a->response.join.member_id, NULL, "range", "s"), *b2 = desk_join(desk, "g", b->response.join.member_id, NULL, "range", "s");
    assert_true(a2->answered && b2->answered && c->answered);      /* the last one to come completes it */
    assert_int_equal(a2->response.join.generation_id, 2);
    assert_int_equal(a2->response.join.members.count, 3);
    assert_int_equal(b2->response.join.members.count, 0);
    const struct group_view *view = desk_view(desk, "g");
    assert_int_equal(view->event_count, 2);
    assert_int_equal(view->events[1].reason, GROUP_REASON_JOINED);
    assert_int_equal(view->events[1].duration_ms, -1);
    desk_free(desk);
}

static void a_member_that_does_not_come_back_holds_nobody_up_longer_than_the_rebalance_timeout(void **state)
{
    (void)state;
    struct desk *desk = desk_new();
    struct desk_ask *a, *b;
    desk_two(desk, "g", &a, &b);
    struct desk_ask *c = desk_join_new(desk, "g"), *a2 = desk_join(desk, "g", a->response.join.member_id, NULL, "range", "s");
    for (int i = 0; i < 29; i++) {
        desk_pass_ms(desk, 1000);
        assert_false(a2->answered);
        (void)desk_beat(desk, "g", b);         /* it lives, but does not join */
    }
    desk_pass_ms(desk, 1000);
    assert_true(a2->answered && c->answered);
    assert_int_equal(desk_view(desk, "g")->member_count, 2);
    assert_int_equal(desk_beat(desk, "g", b), OT_ERR_UNKNOWN_MEMBER_ID);
    desk_free(desk);
}

static void who_does_not_sync_is_removed_and_the_others_go_on(void **state)
{
    (void)state;
    struct desk *desk = desk_new();
    struct desk_ask *a = desk_join_new(desk, "g"), *b = desk_join_new(desk, "g");
    desk_pass_ms(desk, 6000);
    struct desk_ask *leader = a->response.join.members.count > 0 ? a : b, *follower = leader == a ? b : a;
    struct desk_ask *waits = desk_sync(desk, "g", follower, NULL);
    for (int i = 0; i < 30; i++) {
        assert_false(waits->answered);
        desk_pass_ms(desk, 1000);
        (void)desk_beat(desk, "g", leader);    /* lives, never syncs */
    }
    assert_true(waits->answered);
    assert_int_equal(waits->ask.error, OT_ERR_REBALANCE_IN_PROGRESS);
    struct desk_ask *again = desk_join(desk, "g", follower->response.join.member_id, NULL, "range", "s");
    assert_true(again->answered);
    assert_int_equal(again->response.join.generation_id, 2);
    assert_int_equal(again->response.join.members.count, 1);
    desk_free(desk);
}

static void a_silent_member_is_out_after_its_session(void **state)
{
    (void)state;
    struct desk *desk = desk_new();
    struct desk_ask *a, *b;
    desk_two(desk, "g", &a, &b);
    for (int i = 0; i < 9; i++) {
        desk_pass_ms(desk, 1000);
        assert_int_equal(desk_beat(desk, "g", a), OT_OK);
    }
    desk_pass_ms(desk, 2000);
    assert_int_equal(desk_beat(desk, "g", a), OT_ERR_REBALANCE_IN_PROGRESS);
    assert_int_equal(desk_beat(desk, "g", b), OT_ERR_UNKNOWN_MEMBER_ID);
    const struct group_view *view = desk_view(desk, "g");
    assert_int_equal(view->events[view->event_count - 1].reason, GROUP_REASON_EXPIRED);
    desk_pass_ms(desk, 60000);
    assert_string_equal(desk_state(desk, "g"), "Empty");
    desk_free(desk);
}

static void an_id_that_was_given_out_and_never_used_expires(void **state)
{
    (void)state;
    struct desk *desk = desk_new();
    struct desk_ask *asked = desk_join(desk, "g", ot_str_of(""), NULL, "range", "s");
    assert_int_equal(asked->ask.error, OT_ERR_MEMBER_ID_REQUIRED);
    struct desk_ask *other = desk_join_new(desk, "g");
    desk_pass_ms(desk, 9000);
    assert_true(other->answered);              /* the delay is over: nobody waits for the id */
    desk_pass_ms(desk, 2000);
    struct desk_ask *late = desk_join(desk, "g", asked->response.join.member_id, NULL, "range", "s");
    assert_int_equal(late->ask.error, OT_ERR_UNKNOWN_MEMBER_ID);
    desk_free(desk);
}

static void a_new_member_whose_client_went_away_is_gone_after_five_minutes(void **state)
{
    (void)state;
    struct desk *desk = desk_new();
    struct desk_ask *a, *b;
    desk_two(desk, "g", &a, &b);
    struct desk_ask *c = desk_join_new(desk, "g");
    struct group_out out;
    group_out_init(&out, &desk->step);
    group_set_forget(desk->set, &c->ask, &out);
    desk_take(desk, &out);
    assert_true(c->answered);
    struct desk_ask *a2 = desk_join(desk, "g", a->response.join.member_id, NULL, "range", "s"), *b2 = desk_join(desk, "g", b->response.join.member_id, NULL, "range", "s");
    assert_true(a2->answered && b2->answered); /* the one that is gone counts as here */
    assert_int_equal(desk_view(desk, "g")->member_count, 3);
    desk_pass_ms(desk, 10001);
    assert_true(desk_view(desk, "g")->member_count < 3);
    desk_free(desk);
}

static struct desk_ask *join_static(struct desk *desk, const char *instance) { return desk_join(desk, "g", ot_str_of(""), instance, "range", "s"); }

static void a_static_member_takes_its_place_again_without_a_rebalance(void **state)
{
    (void)state;
    struct desk *desk = desk_new();
    struct desk_ask *a = join_static(desk, "one"), *b = join_static(desk, "two");
    desk->config.offsets_check_interval_ms = 600000;
    desk_pass_ms(desk, 6000);
    assert_true(a->answered && b->answered);
    struct desk_ask *leader = a->response.join.members.count > 0 ? a : b, *follower = leader == a ? b : a;
    (void)desk_sync(desk, "g", follower, NULL);
    (void)desk_sync(desk, "g", leader, "all");
    assert_string_equal(desk_state(desk, "g"), "Stable");
    const uint32_t records = desk->record_count;
    struct desk_ask *back = join_static(desk, follower == a ? "one" : "two");
    assert_true(back->answered);
    assert_int_equal(back->ask.error, OT_OK);
    assert_false(ot_str_equal(back->response.join.member_id, follower->response.join.member_id));
    assert_int_equal(back->response.join.generation_id, 1);
    assert_int_equal(desk->record_count, records + 1);             /* the log knows the new id */
    assert_string_equal(desk_state(desk, "g"), "Stable");
    assert_int_equal(desk_beat(desk, "g", leader), OT_OK);
    assert_int_equal(desk_beat(desk, "g", follower), OT_ERR_FENCED_INSTANCE_ID);
    struct desk_ask *synced = desk_sync(desk, "g", back, NULL);
    assert_int_equal(synced->response.sync.assignment.bytes, 3);
    struct desk_ask *led = join_static(desk, leader == a ? "one" : "two");      /* v9: the leader is told to skip the assignment */
    assert_true(led->response.join.skip_assignment);
    assert_int_equal(led->response.join.members.count, 2);
    desk_restart(desk);
    assert_int_equal(desk_beat(desk, "g", back), OT_OK);
    desk_free(desk);
}

static void protocols_must_have_one_in_common_and_the_majority_chooses(void **state)
{
    (void)state;
    struct desk *desk = desk_new();
    struct desk_ask *a = desk_join(desk, "g", ot_str_of(""), "1", "range,sticky", "s"), *b = desk_join(desk, "g", ot_str_of(""), "2", "sticky,range", "s"),
        *c = desk_join(desk, "g", ot_str_of(""), "3", "sticky,range", "s"), *d = desk_join(desk, "g", ot_str_of(""), "4", "other", "s");
    assert_int_equal(d->ask.error, OT_ERR_INCONSISTENT_GROUP_PROTOCOL);
    desk_pass_ms(desk, 6000);
    assert_true(a->answered && b->answered && c->answered);
    assert_true(ot_str_equal(a->response.join.protocol_name, ot_str_of("sticky")));
    desk_free(desk);
}

static void limits_are_kept(void **state)
{
    (void)state;
    struct desk *desk = desk_new();
    desk->config.group_size_max = 2;
    struct desk_ask *a, *b;
    desk_two(desk, "g", &a, &b);
    struct desk_ask *c = desk_join(desk, "g", ot_str_of(""), "three", "range", "s");
    assert_int_equal(c->ask.error, OT_ERR_GROUP_MAX_SIZE_REACHED);
    struct desk_ask *slow = desk_ask_new(desk, GROUP_ASK_JOIN, "h");
    ot_join_group_request_defaults(&slow->join);
    slow->join.session_timeout_ms = 5999;
    slow->ask.request = &slow->join;
    assert_int_equal(desk_go(desk, slow)->ask.error, OT_ERR_INVALID_SESSION_TIMEOUT);
    assert_int_equal(desk_join(desk, "", ot_str_of(""), NULL, "range", "s")->ask.error, OT_ERR_INVALID_GROUP_ID);
    assert_int_equal(desk_join(desk, "h", ot_str_of("x"), NULL, "range", "s")->ask.error, OT_ERR_UNKNOWN_MEMBER_ID);
    desk_free(desk);
}

static void a_full_pool_refuses_what_would_grow_and_nothing_breaks(void **state)
{
    (void)state;
    struct desk *desk = desk_new();
    struct desk_ask *a, *b;
    desk_two(desk, "g", &a, &b);
    desk->pool.cap_bytes = ot_mem_used_bytes(&desk->pool);
    for (uint64_t more = 0; more < 4000; more += 64) {          /* wherever it ends */
        desk->pool.cap_bytes = ot_mem_used_bytes(&desk->pool) + more;
        struct desk_ask *c = desk_join(desk, "other", ot_str_of(""), "x", "range", "s");
        if (c->answered) assert_true(c->ask.error == OT_ERR_COORDINATOR_NOT_AVAILABLE || c->ask.error == OT_ERR_FENCED_INSTANCE_ID);
        (void)desk_commit(desk, "third", NULL, "t", 0, 5);
    }
    desk->pool.cap_bytes = 32u << 20;
    assert_int_equal(desk_beat(desk, "g", a), OT_OK);
    desk_free(desk);
}

static void leaving_is_quick_and_the_last_one_empties_the_group(void **state)
{
    (void)state;
    struct desk *desk = desk_new();
    struct desk_ask *a, *b;
    desk_two(desk, "g", &a, &b);
    assert_int_equal(desk_leave(desk, "g", a->response.join.member_id, NULL)->response.leave.members.items[0].error_code, 0);
    assert_int_equal(desk_beat(desk, "g", b), OT_ERR_REBALANCE_IN_PROGRESS);
    struct desk_ask *b2 = desk_join(desk, "g", b->response.join.member_id, NULL, "range", "s");
    assert_true(b2->answered);                 /* nobody else is waited for */
    assert_int_equal(desk_leave(desk, "g", b->response.join.member_id, NULL)->response.leave.members.items[0].error_code, 0);
    assert_string_equal(desk_state(desk, "g"), "Empty");
    assert_int_equal(desk_leave(desk, "g", b->response.join.member_id, NULL)->response.leave.members.items[0].error_code, OT_ERR_UNKNOWN_MEMBER_ID);
    desk_restart(desk);
    assert_string_equal(desk_state(desk, "g"), "Empty");
    assert_int_equal(desk_view(desk, "g")->generation, 3);
    desk_free(desk);
}

/* ---- offsets */

static void commits_follow_the_rules_of_generations(void **state)
{
    (void)state;
    struct desk *desk = desk_new();
    struct desk_ask *a, *b, wrong;
    assert_int_equal(desk_commit(desk, "alone", NULL, "t", 0, 5)->ask.error, OT_OK);
    assert_int_equal(desk_fetch(desk, "alone", "t", 0), 5);
    assert_int_equal(desk_fetch(desk, "alone", "t", 1), -1);
    desk_two(desk, "g", &a, &b);
    assert_int_equal(desk_commit(desk, "g", a, "t", 0, 6)->ask.error, OT_OK);
    assert_int_equal(desk_commit(desk, "g", NULL, "t", 0, 7)->ask.error, OT_ERR_UNKNOWN_MEMBER_ID);
    wrong = *a;
    wrong.response.join.generation_id = 9;
    assert_int_equal(desk_commit(desk, "g", &wrong, "t", 0, 7)->ask.error, OT_ERR_ILLEGAL_GENERATION);
    struct desk_ask *c = desk_join_new(desk, "g");
    assert_int_equal(desk_commit(desk, "g", a, "t", 0, 8)->ask.error, OT_OK);          /* while members rejoin */
    struct desk_ask *a2 = desk_join(desk, "g", a->response.join.member_id, NULL, "range", "s");
    (void)desk_join(desk, "g", b->response.join.member_id, NULL, "range", "s");
    assert_true(c->answered && a2->answered);
    assert_int_equal(desk_commit(desk, "g", a, "t", 0, 9)->ask.error, OT_ERR_ILLEGAL_GENERATION);
    assert_int_equal(desk_commit(desk, "g", a2, "t", 0, 9)->ask.error, OT_ERR_REBALANCE_IN_PROGRESS);    /* while assignments are handed out */
    assert_int_equal(desk_fetch(desk, "g", "t", 0), 8);
    desk_restart(desk);
    assert_int_equal(desk_fetch(desk, "g", "t", 0), 8);
    assert_int_equal(desk_fetch(desk, "alone", "t", 0), 5);
    desk_free(desk);
}

static void offsets_expire_when_the_group_has_been_empty_long_enough(void **state)
{
    (void)state;
    struct desk *desk = desk_new();
    struct desk_ask *a, *b;
    const int64_t day_ms = 86400000;
    desk_two(desk, "g", &a, &b);
    (void)desk_commit(desk, "g", a, "t", 0, 6);
    (void)desk_commit(desk, "alone", NULL, "t", 0, 1);
    (void)desk_leave(desk, "g", a->response.join.member_id, NULL);
    (void)desk_leave(desk, "g", b->response.join.member_id, NULL);
    desk_pass_ms(desk, 40000);
    assert_string_equal(desk_state(desk, "g"), "Empty");
    desk_pass_ms(desk, 6 * day_ms);
    assert_int_equal(desk_fetch(desk, "g", "t", 0), 6);
    (void)desk_commit(desk, "alone", NULL, "t", 1, 2);
    desk_pass_ms(desk, day_ms + 1300000);
    assert_int_equal(desk_fetch(desk, "g", "t", 0), -1);
    assert_string_equal(desk_state(desk, "g"), "Dead");            /* without offsets an empty group goes */
    assert_int_equal(desk_fetch(desk, "alone", "t", 1), 2);        /* committed a day ago */
    assert_int_equal(desk_fetch(desk, "alone", "t", 0), -1);
    desk_restart(desk);
    assert_string_equal(desk_state(desk, "g"), "Dead");
    assert_int_equal(desk_fetch(desk, "alone", "t", 1), 2);
    desk_free(desk);
}

static void no_offset_expires_by_a_clock_that_jumped(void **state)
{
    (void)state;
    struct desk *desk = desk_new();
    const int64_t day_ms = 86400000;
    (void)desk_commit(desk, "alone", NULL, "t", 0, 1);
    desk_pass_ms(desk, day_ms);
    desk->wall_ms += 8 * day_ms;
    desk->jumped_ms = 8 * day_ms;
    desk_pass_ms(desk, 1300000);
    assert_int_equal(desk_fetch(desk, "alone", "t", 0), 1);
    desk_restart(desk);                        /* loaded anew in the same process */
    desk_pass_ms(desk, 1300000);
    assert_int_equal(desk_fetch(desk, "alone", "t", 0), 1);
    desk_pass_ms(desk, 7 * day_ms);            /* its time is really over */
    assert_int_equal(desk_fetch(desk, "alone", "t", 0), -1);
    desk_free(desk);
}

static void txn_commit(struct desk *desk, int64_t producer, const char *topic, int64_t offset)
{
    struct desk_ask *one = desk_ask_new(desk, GROUP_ASK_TXN_OFFSET_COMMIT, "g");
    struct group_out out;
    one->parts[0] = (struct group_part){ .topic = ot_str_of(topic), .partition = 0, .offset = offset, .leader_epoch = -1, .metadata = ot_str_of("m") };
    one->ask.parts = one->parts;
    one->ask.part_count = 1;
    one->ask.producer_id = producer;
    one->ask.producer_epoch = 0;
    desk_go(desk, one);
    assert_int_equal(one->ask.error, OT_OK);
    const struct group_env env = desk_env(desk);
    group_out_init(&out, &desk->step);
    group_set_txn_written(desk->set, &env, &one->ask, &out);
    desk_take(desk, &out);
}

static void offsets_of_a_transaction_count_with_its_marker(void **state)
{
    (void)state;
    struct desk *desk = desk_new();
    txn_commit(desk, 70, "t", 5);
    assert_int_equal(desk_fetch(desk, "g", "t", 0), -1);
    assert_int_equal(desk_fetch_part(desk, "g", "t", 0, true)->error, OT_ERR_UNSTABLE_OFFSET_COMMIT);
    desk_restart(desk);                        /* the log has no marker yet */
    assert_int_equal(desk_fetch_part(desk, "g", "t", 0, true)->error, OT_ERR_UNSTABLE_OFFSET_COMMIT);
    group_set_marker(desk->set, 70, 0, true);
    assert_int_equal(desk_fetch(desk, "g", "t", 0), 5);
    txn_commit(desk, 71, "t", 9);
    group_set_marker(desk->set, 71, 0, false);
    assert_int_equal(desk_fetch_part(desk, "g", "t", 0, true)->offset, 5);
    txn_commit(desk, 72, "t", 20);
    (void)desk_commit(desk, "g", NULL, "t", 0, 30);                /* later than the transaction's */
    group_set_marker(desk->set, 72, 0, true);
    assert_int_equal(desk_fetch(desk, "g", "t", 0), 30);
    desk_free(desk);
}

static void a_topic_that_is_gone_takes_its_offsets_along(void **state)
{
    (void)state;
    struct desk *desk = desk_new();
    const struct ot_uuid old = { { 1 } }, new = { { 2 } };
    struct desk_ask *one = desk_ask_new(desk, GROUP_ASK_OFFSET_COMMIT, "g");
    one->parts[0] = (struct group_part){ .topic = ot_str_of("t"), .topic_id = old, .offset = 5, .leader_epoch = -1, .metadata = ot_str_of("") };
    one->parts[1] = one->parts[0];
    one->parts[1].topic = ot_str_of("other");
    one->parts[1].topic_id = new;
    one->ask.parts = one->parts;
    one->ask.part_count = 2;
    desk_go(desk, one);
    struct desk_ask *fetch = desk_ask_new(desk, GROUP_ASK_OFFSET_FETCH, "g");
    fetch->parts[0] = (struct group_part){ .topic = ot_str_of("t"), .topic_id = new };
    fetch->ask.parts = fetch->parts;
    fetch->ask.part_count = 1;
    desk_go(desk, fetch);
    assert_int_equal(fetch->parts[0].offset, -1);              /* of another topic with that name */
    struct desk_ask *gone = desk_ask_new(desk, GROUP_ASK_TOPIC_GONE, "");
    gone->parts[0] = (struct group_part){ .topic = ot_str_of("t"), .topic_id = old };
    gone->ask.parts = gone->parts;
    gone->ask.part_count = 1;
    desk_go(desk, gone);
    desk_restart(desk);
    assert_int_equal(desk_fetch(desk, "g", "t", 0), -1);
    assert_int_equal(desk_fetch(desk, "g", "other", 0), 5);
    desk_free(desk);
}

static void a_deleted_group_leaves_nothing_in_the_log(void **state)
{
    (void)state;
    struct desk *desk = desk_new();
    struct desk_ask *a, *b;
    desk_two(desk, "g", &a, &b);
    (void)desk_commit(desk, "g", a, "t", 0, 6);
    assert_int_equal(desk_go(desk, desk_ask_new(desk, GROUP_ASK_DELETE, "g"))->ask.error, OT_ERR_NON_EMPTY_GROUP);
    (void)desk_leave(desk, "g", a->response.join.member_id, NULL);
    struct desk_ask *out = desk_ask_new(desk, GROUP_ASK_EVICT, "g");
    out->ask.member_id = b->response.join.member_id;
    assert_int_equal(desk_go(desk, out)->ask.error, OT_OK);
    assert_int_equal(desk_go(desk, desk_ask_new(desk, GROUP_ASK_DELETE, "g"))->ask.error, OT_OK);
    assert_int_equal(desk_go(desk, desk_ask_new(desk, GROUP_ASK_DELETE, "g"))->ask.error, OT_ERR_GROUP_ID_NOT_FOUND);
    desk_restart(desk);
    assert_string_equal(desk_state(desk, "g"), "Dead");
    desk_free(desk);
}

static void records_of_another_kind_are_counted_and_passed_over(void **state)
{
    (void)state;
    struct desk *desk = desk_new();
    static const uint8_t odd[] = { 0, 99, 1, 2, 3 }, cut[] = { 0, 1, 0, 200 };
    struct group_set_counts counts;
    const struct group_set_record records[] = { { 1, -1, -1, false, { odd, 5, false }, { odd, 5, false } }, { 2, -1, -1, false, { cut, 4, false }, { odd, 5, false } },
        { 3, -1, -1, false, { NULL, 0, true }, { NULL, 0, true } } };
    for (size_t i = 0; i < OT_ARRAY_COUNT(records); i++) assert_int_equal(group_set_replay(desk->set, &records[i]), OT_OK);
    group_set_counts(desk->set, &counts);
    assert_int_equal(counts.unknown_records, 3);
    desk_free(desk);
}

/* What lies on a disk may be anything. A set that took it in must still answer, and close. */
static void records_with_flipped_bytes_do_no_harm(void **state)
{
    (void)state;
    struct desk *desk = desk_new();
    struct ot_rng rng;
    struct desk_ask *a, *b;
    ot_rng_seed(&rng, 5);
    desk_two(desk, "g", &a, &b);
    (void)desk_commit(desk, "g", a, "t", 0, 6);
    (void)desk_commit(desk, "alone", NULL, "t", 0, 6);
    const uint32_t count = desk->record_count;
    for (int round = 0; round < 3000; round++) {
        struct group_set *set;
        struct group_out out;
        const struct group_env env = desk_env(desk);
        assert_int_equal(group_set_new(&desk->pool, 1, &set), OT_OK);
        for (uint32_t i = 0; i < count; i++) {
            uint8_t key[256], value[1024];
            const struct desk_record *from = &desk->records[i];
            assert_true(from->key.bytes <= sizeof key && from->value.bytes <= sizeof value);
            memcpy(key, from->key.data, from->key.bytes);
            if (from->value.bytes > 0) memcpy(value, from->value.data, from->value.bytes);
            for (uint64_t flips = ot_rng_below(&rng, 4); flips > 0; flips--) {
                if (ot_rng_chance(&rng, 0.3)) key[ot_rng_below(&rng, from->key.bytes)] = (uint8_t)ot_rng_next(&rng);
                else if (from->value.bytes > 0) value[ot_rng_below(&rng, from->value.bytes)] = (uint8_t)ot_rng_next(&rng);
            }
            const bool cut = ot_rng_chance(&rng, 0.05) && from->value.bytes > 0;
            const struct ot_blob whole = { value, cut ? (uint32_t)ot_rng_below(&rng, from->value.bytes) : from->value.bytes, from->value.null };
            const struct group_set_record record = { i, -1, -1, false, { key, from->key.bytes, false }, whole };
            assert_int_equal(group_set_replay(set, &record), OT_OK);
        }
        group_out_init(&out, &desk->step);
        group_set_loaded(set, &env, &out);
        struct desk_ask *list = desk_ask_new(desk, GROUP_ASK_LIST, ""), *view = desk_ask_new(desk, GROUP_ASK_VIEW, "g");
        group_set_ask(set, &env, &list->ask, &out);
        group_set_ask(set, &env, &view->ask, &out);
        group_set_close(set, OT_ERR_NOT_COORDINATOR, &out);
        list->answered = view->answered = true;
        group_set_free(set);
        ot_arena_reset(&desk->step);
        desk->ask_count -= 2;
    }
    desk_free(desk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_generation_waits_for_more_members),
        cmocka_unit_test(members_in_a_stable_group_are_told_to_rejoin_when_one_joins),
        cmocka_unit_test(a_member_that_does_not_come_back_holds_nobody_up_longer_than_the_rebalance_timeout),
        cmocka_unit_test(who_does_not_sync_is_removed_and_the_others_go_on),
        cmocka_unit_test(a_silent_member_is_out_after_its_session),
        cmocka_unit_test(an_id_that_was_given_out_and_never_used_expires),
        cmocka_unit_test(a_new_member_whose_client_went_away_is_gone_after_five_minutes),
        cmocka_unit_test(a_static_member_takes_its_place_again_without_a_rebalance),
        cmocka_unit_test(protocols_must_have_one_in_common_and_the_majority_chooses),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(a_full_pool_refuses_what_would_grow_and_nothing_breaks),
        cmocka_unit_test(leaving_is_quick_and_the_last_one_empties_the_group),
        cmocka_unit_test(commits_follow_the_rules_of_generations),
        cmocka_unit_test(offsets_expire_when_the_group_has_been_empty_long_enough),
        cmocka_unit_test(no_offset_expires_by_a_clock_that_jumped),
        cmocka_unit_test(offsets_of_a_transaction_count_with_its_marker),
        cmocka_unit_test(a_topic_that_is_gone_takes_its_offsets_along),
        cmocka_unit_test(a_deleted_group_leaves_nothing_in_the_log),
        cmocka_unit_test(records_of_another_kind_are_counted_and_passed_over),
        cmocka_unit_test(records_with_flipped_bytes_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
