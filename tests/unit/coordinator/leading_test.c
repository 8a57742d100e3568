/* What rests on a coordinator still leading: answers to reads and to brokers that say that they live. Who is silent. Who is to vote. */
#include "peers_desk.h"

static void answers_of(struct desk *desk, int32_t id, int64_t round)
{
    desk_hears(desk, id, (struct coord_message){ .kind = COORD_HEARTBEAT_ACK, .term = 1, .leader = 1, .round = round, .answer = COORD_YES,
        .committed = { desk->coord->committed.stamp, desk->coord->committed.state_hash } });
}

static void answers_round(struct desk *desk, int64_t round) { answers_of(desk, 2, round); }

/* Each round is answered when the next one has begun already, as where two data centres are far from each other. */
static void reads_are_answered_though_answers_take_longer_than_a_round(void **state)
{
    struct desk *desk = desk_of_three(state);
    struct coord_request read = { .ask = COORD_ASK_READ, .if_version = -1 };
    const uint32_t before = desk->replies;
    desk_ask(desk, &read);
    assert_int_equal(desk->replies, before);
    for (int i = 0; i < 3; i++) {
        const int64_t round = desk->coord->round;
        desk_later(desk, 100000);
        assert_true(desk->coord->round > round);
        answers_round(desk, round);
    }
    assert_int_equal(desk->replies, before + 1);
    assert_int_equal(read.error, OT_OK);
}

static void reads_that_come_meanwhile_share_the_next_round(void **state)
{
    struct desk *desk = desk_of_three(state);
    struct coord_request reads[50];
    const int64_t first = desk->coord->round + 1;
    for (int i = 0; i < 50; i++) {
        reads[i] = (struct coord_request){ .ask = COORD_ASK_READ, .if_version = -1 };
        desk_ask(desk, &reads[i]);
    }
    assert_true(desk->coord->round == first);
    answers_round(desk, first);
    assert_true(desk->coord->round == first + 1);
    answers_round(desk, first + 1);
    assert_null(desk->coord->reads.first);
}

/* A round of the term before has a number that this term has too, or comes to. */
static void a_heartbeat_of_an_older_term_is_no_round_of_this_one(void **state)
{
    struct desk *desk = desk_of_three(state);
    desk_follows(desk, 2, 5);
    desk_hears(desk, 2, (struct coord_message){ .kind = COORD_HEARTBEAT, .term = 4, .leader = 2, .round = 77 });
    assert_int_equal(desk->last_sent.kind, COORD_HEARTBEAT_ACK);
    assert_int_equal(desk->last_sent.term, 5);
    assert_true(desk->last_sent.round == 0);
    desk_hears(desk, 2, (struct coord_message){ .kind = COORD_HEARTBEAT, .term = 5, .leader = 2, .round = 78 });
    assert_true(desk->last_sent.round == 78);
}

/* Another one may lead since, and have changed just that. */
static void that_nothing_needs_to_change_is_said_only_by_who_still_leads(void **state)
{
    struct desk *desk = desk_of_three(state);
    const struct coord_config_change change = { ot_str_of("retention.ms"), { .null = true } };
    struct coord_request ask = { .ask = COORD_ASK_CONFIGS, .if_version = -1, .u.configs = { .changes = &change, .change_count = 1 } }, again = ask;
    const uint32_t before = desk->replies;
    desk_ask(desk, &ask);
    assert_int_equal(desk->replies, before);
    answers_round(desk, desk->coord->round);
    assert_int_equal(desk->replies, before + 1);
    assert_int_equal(ask.error, OT_OK);
    desk_ask(desk, &again);
    desk_follows(desk, 2, 5);
    assert_int_equal(desk->replies, before + 2);
    assert_int_equal(again.error, OT_ERR_NOT_CONTROLLER);
}

static struct coord_request beat_of(struct desk *desk, int32_t id)
{
    struct ot_coord_broker_row row;
    struct ot_arena arena;
    static uint8_t room[4096];
    ot_arena_init_with(&arena, room, sizeof room, 0);
    assert_int_equal(coord_broker_get(coord_view(desk->coord), id, &arena, &row), OT_OK);
    return (struct coord_request){ .ask = COORD_ASK_HEARTBEAT, .if_version = -1, .u.heartbeat = { .broker_id = id, .broker_epoch = row.broker_epoch,
        .applied_version = coord_view(desk->coord)->stamp.version } };
}

/* It was paused, others have followed it long since, and words that they said before that come late. The broker beside it takes an answer for a lease. */
static void who_paused_tells_no_broker_that_it_lives(void **state)
{
    struct desk *desk = desk_of_three(state);
    const int64_t old_round = desk->coord->round;
    struct coord_request beat = beat_of(desk, 1);
    const uint32_t before = desk->replies;
    desk->now_us += 20000000;
    desk_ask(desk, &beat);
    answers_round(desk, old_round);
    assert_int_equal(desk->replies, before);
    desk_hears(desk, 2, (struct coord_message){ .kind = COORD_HEARTBEAT_ACK, .term = 2, .leader = 3, .round = old_round, .answer = COORD_YES });
    assert_int_equal(desk->replies, before + 1);
    assert_int_equal(beat.error, OT_ERR_NOT_CONTROLLER);
}

static void who_is_heard_tells_brokers_that_they_live(void **state)
{
    struct desk *desk = desk_of_three(state);
    struct coord_request beat = beat_of(desk, 1);
    const uint32_t before = desk->replies;
    desk_ask(desk, &beat);
    answers_round(desk, desk->coord->round);
    assert_int_equal(desk->replies, before + 1);
    assert_int_equal(beat.error, OT_OK);
    assert_false(beat.fenced);
}

/* ---- sessions */

static bool is_fenced(struct desk *desk, int32_t id)
{
    struct ot_coord_broker_row row;
    struct ot_arena arena;
    uint8_t room[4096];
    ot_arena_init_with(&arena, room, sizeof room, 0);
    assert_int_equal(coord_broker_get(coord_view(desk->coord), id, &arena, &row), OT_OK);
    return row.fenced;
}

static void forget(struct desk *desk, int32_t id)
{
    struct coord_request beat = beat_of(desk, id);
    struct coord_request fence = { .ask = COORD_ASK_FENCE, .if_version = -1, .u.fence = { id, beat.u.heartbeat.broker_epoch } };
    struct coord_request unregister = { .ask = COORD_ASK_UNREGISTER, .if_version = -1, .u.unregister = { id } };
    desk_ask(desk, &fence);
    assert_int_equal(fence.error, OT_OK);
    desk_ask(desk, &unregister);
    assert_int_equal(unregister.error, OT_OK);
}

static void brokers_that_came_and_went_take_no_sessions(void **state)
{
    struct desk *desk = *state;
    desk->auto_store = true;
    desk->session_us = 9000000;
    assert_int_equal(desk_start(desk, 0), OT_OK);
    const int32_t last = (int32_t)desk->coord->config.brokers_max + 10;
    for (int32_t id = 2; id <= last; id++) {    /* 1 votes */
        assert_int_equal(desk_register(desk, id, 1, COORD_BOOT_CLEAN), OT_OK);
        if (id < last) {
            forget(desk, id);
        }
    }
    for (int i = 0; i < 10; i++) {
        desk_later(desk, 1000000);
    }
    assert_true(is_fenced(desk, last));        /* it was silent */
}

/* What brokers said while it was paused waits behind its clock. */
static void who_stood_still_takes_nobody_for_silent(void **state)
{
    struct desk *desk = *state;
    desk->auto_store = true;
    desk->session_us = 9000000;
    assert_int_equal(desk_start(desk, 0), OT_OK);
    for (int32_t id = 1; id <= 3; id++) {
        assert_int_equal(desk_register(desk, id, 1, COORD_BOOT_CLEAN), OT_OK);
    }
    desk_later(desk, 1000000);
    desk_later(desk, 20000000);
    for (int32_t id = 1; id <= 3; id++) {
        assert_false(is_fenced(desk, id));
    }
    for (int i = 0; i < 9; i++) {
        struct coord_request beat = beat_of(desk, 1);
        desk_ask(desk, &beat);
        desk_later(desk, 1000000);
    }
    assert_false(is_fenced(desk, 1));
    assert_true(is_fenced(desk, 2));
    assert_true(is_fenced(desk, 3));
}

/* ---- voters */

enum { FIRST_LEARNER = 10, LEARNERS = 60 };

static void learner_says(struct desk *desk, int32_t id, enum coord_message_kind kind)
{
    const struct coord_mark now = { desk->coord->committed.stamp, desk->coord->committed.state_hash };
    desk_hears(desk, id, (struct coord_message){ .kind = kind, .dir_id = { { (uint8_t)id } }, .term = 1, .leader = 1, .committed = now, .accepted = now });
}

static void learners_follow(struct desk *desk)
{
    for (int32_t id = FIRST_LEARNER; id < FIRST_LEARNER + LEARNERS; id++) {
        learner_says(desk, id, COORD_CATCH_UP);
    }
    answers_round(desk, desk->coord->round);
}

static void one_of_many_that_follow_becomes_a_voter(void **state)
{
    struct desk *desk = desk_of_three(state);
    const int32_t id = FIRST_LEARNER + LEARNERS - 1;
    struct coord_request add = { .ask = COORD_ASK_VOTERS, .if_version = -1, .u.voters = { .add = true, .id = id, .dir_id = { { (uint8_t)id } }, .host = ot_str_of("h"), .port = 9093 } };
    bool asked = false;
    for (int i = 0; i < 5 && desk->sent[COORD_PUBLISH] == 0; i++) {
        learners_follow(desk);
        desk_ask(desk, &add);
        asked |= desk->sent[COORD_START_JOIN] > 0;
        if (asked) {
            learner_says(desk, id, COORD_JOIN);
        }
        desk_later(desk, 100000);
    }
    assert_true(asked);
    assert_true(desk->sent[COORD_PUBLISH] > 0);
}

/* Who led a moment ago knows many that follow, and nothing of the fourth voter that the next coordinator takes in: were it not counted, two of four were a majority. */
static void a_voter_that_was_not_known_is_counted(void **state)
{
    struct desk *desk = desk_of_three(state);
    static uint8_t room[1024];
    struct coord_delta delta = { .data = room, .cap_bytes = sizeof room };
    struct ot_coord_voter_row row;
    learners_follow(desk);
    desk_follows(desk, 2, 5);
    struct coord_value next = coord_value_share(coord_view(desk->coord));
    const struct coord_mark base = { next.stamp, next.state_hash };
    ot_coord_voter_row_defaults(&row);
    row.dir_id = (struct ot_uuid){ { 200 } };
    row.host = ot_str_of("h");
    row.port = 9093;
    assert_int_equal(coord_voter_put(&(struct coord_edit){ &next, &delta }, 200, &row), OT_OK);
    desk_hears(desk, 2, (struct coord_message){ .kind = COORD_PUBLISH, .term = 5, .leader = 2, .base = base, .committed = base,
        .accepted = { { 5, base.stamp.version + 1 }, next.state_hash }, .data = coord_blob(delta.data, delta.bytes) });
    assert_int_equal(desk->sent[COORD_ACCEPTED], 1);
    uint32_t voters = 0;
    for (uint32_t i = 0; i < desk->coord->peer_count; i++) {
        voters += desk->coord->peers[i].in_next;
    }
    assert_int_equal(voters, 4);
    coord_value_drop(&next);
}

/* ---- levels */

/* The levels of old are dropped by and by. Who is behind still speaks of one, and whoever leads does not end for that. */
static void a_level_that_was_left_behind_halts_nobody(void **state)
{
    struct desk *desk = desk_of_three(state);
    const int16_t level = desk->coord->level;
    desk->coord->config.levels = (struct coord_levels){ level, level };
    assert_true(level > COORD_LEVEL_FIRST);
    desk_hears(desk, 3, (struct coord_message){ .kind = COORD_CATCH_UP, .term = 1, .leader = 1, .level = COORD_LEVEL_FIRST, .levels = { COORD_LEVEL_FIRST, level } });
    assert_int_equal(desk->halts, 0);
    desk_hears(desk, 3, (struct coord_message){ .kind = COORD_CATCH_UP, .term = 1, .leader = 1, .level = (int16_t)(level + 1), .levels = { COORD_LEVEL_FIRST, (int16_t)(level + 1) } });
    assert_int_equal(desk->halts, 1);
}

/* ---- terms */

/* 2 gave its vote and died: without 3 nobody would be left to accept anything. */
static void a_set_most_of_which_is_dead_is_not_published(void **state)
{
    struct desk *desk = desk_of_three(state);
    struct coord_request ask = { .ask = COORD_ASK_VOTERS, .if_version = -1, .u.voters = { .remove = true, .remove_id = 3 } };
    for (int i = 0; i < 50; i++) {
        desk_later(desk, 100000);
        answers_of(desk, 3, desk->coord->round);
    }
    assert_int_equal(desk->coord->phase, COORD_PHASE_LEADING);
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_ERR_REQUEST_TIMED_OUT);
    assert_false(desk->coord->in_flight);
    answers_of(desk, 2, desk->coord->round);   /* it is back */
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
    assert_true(desk->coord->in_flight);
}

/* Its disk hangs, and it is heard by all: the two others lead without it. With one other alone nobody could. */
static void whose_disk_hangs_leaves_the_place_to_others(void **state)
{
    for (int32_t others = 1; others <= 2; others++) {
        struct desk *desk = desk_of_three(state);
        struct coord_request change = { .ask = COORD_ASK_PRODUCER_IDS, .if_version = -1, .u.producer_ids = { 1 } };
        desk->auto_store = false;
        desk_ask(desk, &change);
        assert_non_null(desk->writing);
        for (int i = 0; i < 110; i++) {
            assert_true(i >= 100 || desk->coord->phase == COORD_PHASE_LEADING);
            desk_later(desk, 100000);
            for (int32_t id = 2; id < 2 + others && desk->coord->phase == COORD_PHASE_LEADING; id++) answers_of(desk, id, desk->coord->round);
        }
        assert_int_equal(desk->coord->phase, others == 1 ? COORD_PHASE_LEADING : COORD_PHASE_FOLLOWER);
        assert_int_equal(coord_leader(desk->coord), others == 1 ? 1 : -1);
        assert_int_equal(change.error, others == 1 ? OT_OK : OT_ERR_CLOSED);
        desk_store(desk);                      /* it comes back at last */
        assert_int_equal(desk->halts, 0);
        desk_teardown(state);
        desk_setup(state);
    }
}

/* 2 gave its vote and answers, but has committed a later version under a name that this node never heard of. */
static void who_is_not_followed_stands_again(void **state)
{
    struct desk *desk = desk_of_three(state);
    desk_follows(desk, 2, 5);
    for (int i = 0; i < 100 && desk->coord->phase != COORD_PHASE_PRE_VOTE; i++) desk_later(desk, 100000);
    desk_hears(desk, 2, (struct coord_message){ .kind = COORD_PRE_VOTE_ANSWER, .term = 6, .leader = -1, .answer = COORD_YES });
    desk_hears(desk, 2, (struct coord_message){ .kind = COORD_JOIN, .term = 6, .leader = -1 });
    assert_int_equal(desk->coord->phase, COORD_PHASE_FIRST);
    for (int i = 0; i < 110 && desk->coord->phase == COORD_PHASE_FIRST; i++) {
        desk_later(desk, 100000);
        if (desk->coord->phase == COORD_PHASE_FIRST)
            desk_hears(desk, 2, (struct coord_message){ .kind = COORD_HEARTBEAT_ACK, .term = 6, .leader = 1, .round = desk->coord->round, .answer = COORD_YES });
    }
    assert_int_equal(desk->coord->phase, COORD_PHASE_FOLLOWER);
}

/* 2 may have forgotten what it accepted, so its vote counts only if 3 votes too. 3 knows more, and would not: whoever stands all the same makes 3, which could win, wait once more each time. */
static void who_would_win_by_a_vote_in_doubt_alone_does_not_stand(void **state)
{
    struct desk *desk = desk_of_three(state);
    desk_follows(desk, 2, 5);
    for (int i = 0; i < 100 && desk->coord->phase != COORD_PHASE_PRE_VOTE; i++) desk_later(desk, 100000);
    desk_hears(desk, 2, (struct coord_message){ .kind = COORD_PRE_VOTE_ANSWER, .term = 6, .leader = -1, .answer = COORD_YES, .unsure = true });
    assert_int_equal(desk->coord->phase, COORD_PHASE_PRE_VOTE);
    assert_int_equal(coord_term(desk->coord), 5);
    desk_hears(desk, 3, (struct coord_message){ .kind = COORD_PRE_VOTE_ANSWER, .term = 6, .leader = -1, .answer = COORD_YES });
    assert_int_equal(desk->coord->phase, COORD_PHASE_CANDIDATE);
    assert_int_equal(coord_term(desk->coord), 6);
}

/* And who is in doubt itself says so when it is asked. */
static void who_is_in_doubt_says_so_before_the_vote(void **state)
{
    struct desk *desk = desk_of_three(state);
    desk_follows(desk, 2, 5);
    desk->coord->term.unsure_term = 5;
    for (int i = 0; i < 100 && desk->coord->phase != COORD_PHASE_PRE_VOTE; i++) desk_later(desk, 100000);
    desk_hears(desk, 2, (struct coord_message){ .kind = COORD_PRE_VOTE, .term = 7, .leader = -1, .accepted = coord_accepted_mark(desk->coord) });
    assert_int_equal(desk->last_sent.kind, COORD_PRE_VOTE_ANSWER);
    assert_int_equal(desk->last_sent.answer, COORD_YES);
    assert_true(desk->last_sent.unsure);
    desk_hears(desk, 2, (struct coord_message){ .kind = COORD_PRE_VOTE_ANSWER, .term = 6, .leader = -1, .answer = COORD_YES });
    assert_int_equal(desk->coord->phase, COORD_PHASE_PRE_VOTE);        /* of three, two are sure to vote only with the third one */
}

static void a_term_beyond_the_last_is_no_message(void **state)
{
    struct desk *desk = desk_of_three(state);
    desk_hears(desk, 2, (struct coord_message){ .kind = COORD_HEARTBEAT, .term = INT32_MAX, .leader = 2 });
    assert_int_equal(coord_term(desk->coord), 1);
    desk_hears(desk, 2, (struct coord_message){ .kind = COORD_CHANGES, .term = 1, .leader = 2, .committed = { { 1, INT64_MAX }, desk->coord->committed.state_hash },
        .base = { desk->coord->committed.stamp, desk->coord->committed.state_hash } });
    assert_true(desk->coord->committed.stamp.version < 100);
}

static void nobody_stands_for_a_term_that_there_is_not(void **state)
{
    struct desk *desk = desk_of_three(state);
    desk_follows(desk, 2, COORD_TERM_MAX);
    for (int i = 0; i < 60; i++) {
        desk_later(desk, 1000000);
    }
    assert_int_equal(coord_term(desk->coord), COORD_TERM_MAX);
    assert_int_equal(desk->sent[COORD_PRE_VOTE], 0);
    assert_int_equal(desk->halts, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, desk_setup, desk_teardown)
    const struct CMUnitTest tests[] = {
        TEST(reads_are_answered_though_answers_take_longer_than_a_round), TEST(reads_that_come_meanwhile_share_the_next_round),
        TEST(a_heartbeat_of_an_older_term_is_no_round_of_this_one), TEST(whose_disk_hangs_leaves_the_place_to_others), TEST(who_is_not_followed_stands_again),
        TEST(who_would_win_by_a_vote_in_doubt_alone_does_not_stand), TEST(who_is_in_doubt_says_so_before_the_vote),
        TEST(a_set_most_of_which_is_dead_is_not_published), TEST(that_nothing_needs_to_change_is_said_only_by_who_still_leads),
        TEST(who_paused_tells_no_broker_that_it_lives), TEST(who_is_heard_tells_brokers_that_they_live),
        TEST(brokers_that_came_and_went_take_no_sessions), TEST(who_stood_still_takes_nobody_for_silent), TEST(one_of_many_that_follow_becomes_a_voter), TEST(a_voter_that_was_not_known_is_counted),
        TEST(a_level_that_was_left_behind_halts_nobody), TEST(a_term_beyond_the_last_is_no_message), TEST(nobody_stands_for_a_term_that_there_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
