/* The first start of three listed voters: what tests/model/found.pml found. */
#include "desk.h"

#include "coordinator/state.h"

static struct desk *open_desk(void **state, int32_t node_id)
{
    struct desk *desk = *state;
    desk->auto_store = true;
    desk->has_peers = true;
    desk->node_id = node_id;
    desk->voter_count = 3;
    assert_int_equal(desk_start(desk, 0), OT_OK);
    desk->now_us += 1000000;
    desk_in(desk, (struct coord_in){ .kind = COORD_TICK });
    return desk;
}

static int setup(void **state)
{
    *state = malloc(sizeof(struct desk));
    desk_init(*state);
    return 0;
}

static int teardown(void **state)
{
    desk_free(*state);
    free(*state);
    return 0;
}

static void say(struct desk *desk, int32_t sender, struct coord_message message)
{
    uint8_t room[COORD_MESSAGE_OVERHEAD_MAX];
    size_t bytes;
    message.sender = sender;
    message.dir_id = (struct ot_uuid){ { (uint8_t)sender } };
    message.base.state_hash = desk->coord->list_hash;
    message.cluster = coord_cluster_hash(ot_str_of("desk-cluster"));
    message.leader = -1;
    assert_int_equal(coord_message_encode(&message, room, sizeof room, &bytes), OT_OK);
    desk_in(desk, (struct coord_in){ .kind = COORD_MSG, .peer = (uint32_t)sender, .body = coord_blob(room, bytes) });
}

static void there_is_a_cluster(struct desk *desk, int32_t sender)
{
    say(desk, sender, (struct coord_message){ .kind = COORD_FOUND_ANSWER, .answer = COORD_NO, .cluster_id = ot_str_of("desk-cluster"), .committed.stamp = { 3, 7 } });
}

static void later(struct desk *desk)
{
    for (int i = 0; i < 5; i++) {
        desk->now_us += 1000000;
        desk_in(desk, (struct coord_in){ .kind = COORD_TICK });
    }
}

static void a_founder_that_came_to_a_cluster_founds_it_no_more(void **state)
{
    struct desk *desk = open_desk(state, 1);
    assert_true(desk->sent[COORD_FOUND] > 0);
    there_is_a_cluster(desk, 2);
    assert_int_equal(desk->records[0].kind, COORD_RECORD_FORMAT);
    for (int life = 0; life < 2; life++) {
        desk->sent[COORD_FOUND] = desk->sent[COORD_START_JOIN] = 0;
        later(desk);
        for (int32_t id = 2; id <= 3; id++) {  /* they were wiped too, or promised before there was a value */
            say(desk, id, (struct coord_message){ .kind = COORD_FOUND_ANSWER, .answer = COORD_YES, .cluster_id = ot_str_of("desk-cluster") });
        }
        later(desk);
        assert_int_equal(desk->sent[COORD_FOUND], 0);
        assert_int_equal(desk->sent[COORD_START_JOIN], 0);
        desk_stop(desk);
        assert_int_equal(desk_start(desk, desk->record_count), OT_OK);
    }
}

static enum coord_answer promise(struct desk *desk)
{
    say(desk, 1, (struct coord_message){ .kind = COORD_FOUND, .answer = COORD_YES, .cluster_id = ot_str_of("desk-cluster") });
    assert_int_equal(desk->last_sent.kind, COORD_FOUND_ANSWER);
    return desk->last_sent.answer;
}

static void who_came_to_a_cluster_promises_nothing(void **state)
{
    struct desk *desk = open_desk(state, 2);
    there_is_a_cluster(desk, 3);
    assert_int_equal(promise(desk), COORD_NO);
    desk_stop(desk);
    assert_int_equal(desk_start(desk, desk->record_count), OT_OK);
    assert_int_equal(promise(desk), COORD_NO);
}

static void who_promised_before_there_was_a_value_says_so_again(void **state)
{
    struct desk *desk = open_desk(state, 2);
    assert_int_equal(promise(desk), COORD_YES);
    desk_stop(desk);
    assert_int_equal(desk_start(desk, desk->record_count), OT_OK);
    assert_int_equal(promise(desk), COORD_YES);
}

/* Somebody else listens where a voter of the list did: its level is not that of the cluster which this node promised to be of. */
static void the_level_of_another_cluster_halts_nobody(void **state)
{
    struct desk *desk = open_desk(state, 2);
    assert_int_equal(promise(desk), COORD_YES);
    struct coord_message no = { .kind = COORD_FOUND_ANSWER, .answer = COORD_NO, .cluster_id = ot_str_of("other-cluster"), .committed.stamp = { 3, 7 }, .level = 9 };
    say(desk, 3, no);
    assert_int_equal(desk->halts, 0);
    assert_int_equal(promise(desk), COORD_YES);
    no.cluster_id = ot_str_of("desk-cluster");
    say(desk, 3, no);
    assert_int_equal(desk->halts, 1);
}

static void who_is_to_join_what_it_does_not_know_halts(void **state)
{
    struct desk *desk = open_desk(state, 2);
    say(desk, 3, (struct coord_message){ .kind = COORD_FOUND_ANSWER, .answer = COORD_NO, .cluster_id = ot_str_of("desk-cluster"), .committed.stamp = { 3, 7 }, .level = 9 });
    assert_int_equal(desk->halts, 1);
    assert_int_equal(desk->record_count, 0);
}

static void the_first_value_is_on_the_own_disk_before_anybody_hears_of_it(void **state)
{
    struct desk *desk = open_desk(state, 1);
    for (int32_t id = 2; id <= 3; id++) {
        say(desk, id, (struct coord_message){ .kind = COORD_FOUND_ANSWER, .answer = COORD_YES });
    }
    desk->auto_store = false;
    for (int32_t id = 2; id <= 3; id++) {
        say(desk, id, (struct coord_message){ .kind = COORD_FOUND_ANSWER, .answer = COORD_YES, .cluster_id = ot_str_of("desk-cluster") });
    }
    desk_in(desk, (struct coord_in){ .kind = COORD_TICK });
    later(desk);
    for (int32_t id = 2; id <= 3 && desk->writing == NULL; id++) {
        say(desk, id, (struct coord_message){ .kind = COORD_PRE_VOTE_ANSWER, .answer = COORD_YES, .term = 1 });
    }
    assert_non_null(desk->writing);
    assert_int_equal(desk->writing->kind, COORD_RECORD_TERM);
    assert_true(desk_store(desk));
    const int32_t term = coord_term(desk->coord);
    say(desk, 2, (struct coord_message){ .kind = COORD_JOIN, .term = term });
    assert_int_equal(desk->writing->kind, COORD_RECORD_ACCEPT);
    say(desk, 3, (struct coord_message){ .kind = COORD_JOIN, .term = term });
    say(desk, 2, (struct coord_message){ .kind = COORD_HEARTBEAT_ACK, .term = term, .answer = COORD_YES });
    assert_int_equal(desk->sent[COORD_PUBLISH], 0);
    assert_true(desk_store(desk));
    assert_int_equal(desk->sent[COORD_PUBLISH], 2);
    say(desk, 3, (struct coord_message){ .kind = COORD_ACCEPTED, .term = term, .accepted.stamp = { term, 1 } });
    assert_true(desk->leading);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_founder_that_came_to_a_cluster_founds_it_no_more), TEST(who_came_to_a_cluster_promises_nothing),
        TEST(who_promised_before_there_was_a_value_says_so_again), TEST(the_level_of_another_cluster_halts_nobody),
        TEST(who_is_to_join_what_it_does_not_know_halts), TEST(the_first_value_is_on_the_own_disk_before_anybody_hears_of_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
