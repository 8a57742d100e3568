/* What a voter that follows does with publications. */
#include "peers_desk.h"

/* A change of the committed value and what it leads to. */
struct step { struct coord_mark base, result; uint8_t room[1024]; struct coord_delta delta; };

static const struct coord_scope whole_cluster = { .kind = COORD_SCOPE_CLUSTER };

static void step_begin(const struct coord_value *from, struct step *step, struct coord_value *to)
{
    *to = coord_value_share(from);
    *step = (struct step){ .base = { from->stamp, from->state_hash } };
    step->delta = (struct coord_delta){ .data = step->room, .cap_bytes = sizeof step->room };
}

static void step_end(struct step *step, struct coord_value *to)
{
    to->stamp = (struct coord_stamp){ 5, step->base.stamp.version + 1 };
    step->result = (struct coord_mark){ to->stamp, to->state_hash };
}

static void put(const struct coord_value *from, const char *text, struct step *step, struct coord_value *to)
{
    step_begin(from, step, to);
    assert_int_equal(coord_config_put(&(struct coord_edit){ to, &step->delta }, &whole_cluster, ot_str_of("a"), ot_str_of(text)), OT_OK);
    step_end(step, to);
}

static void cut(const struct coord_value *from, struct step *step, struct coord_value *to)
{
    step_begin(from, step, to);
    assert_int_equal(coord_config_remove(&(struct coord_edit){ to, &step->delta }, &whole_cluster, ot_str_of("a")), OT_OK);
    step_end(step, to);
}

static void tell(struct desk *desk, enum coord_message_kind kind, int32_t leader, int32_t term, const struct step *step)
{
    const bool publishes = kind == COORD_PUBLISH;
    desk_hears(desk, leader, (struct coord_message){ .kind = kind, .term = term, .leader = leader, .base = step->base, .accepted = publishes ? step->result : (struct coord_mark){ .state_hash = 0 },
        .committed = publishes ? step->base : step->result, .data = coord_blob(step->delta.data, step->delta.bytes) });
}

static bool is(const struct coord_value *value, const struct coord_mark *mark) { return coord_stamp_equal(value->stamp, mark->stamp) && value->state_hash == mark->state_hash; }

/* Whatever was written can be read. */
static void check_records(const struct desk *desk)
{
    for (uint32_t i = 0; i < desk->record_count; i++) {
        struct coord_record record;
        assert_int_equal(coord_record_decode(desk->records[i].kind, coord_blob(desk->records[i].data, desk->records[i].bytes), &record), OT_OK);
    }
}

/* A, B, A, D: versions of which the first and the third are the same. */
struct story { struct coord_value a, b, a_again, d; struct step to_b, to_a, to_d; };

static void tell_story(struct desk *desk, struct story *story)
{
    desk_follows(desk, 2, 5);
    story->a = coord_value_share(coord_view(desk->coord));
    put(&story->a, "there", &story->to_b, &story->b);
    cut(&story->b, &story->to_a, &story->a_again);
    put(&story->a_again, "other", &story->to_d, &story->d);
    assert_true(story->a.state_hash == story->a_again.state_hash);
}

static void forget(struct story *story)
{
    struct coord_value *values[] = { &story->a, &story->b, &story->a_again, &story->d };
    for (size_t i = 0; i < OT_ARRAY_COUNT(values); i++) coord_value_drop(values[i]);
}

/* It missed both the change and the one that took it back: accepting the second would leave it two versions behind its own acceptance. */
static void a_change_that_was_taken_back_is_not_passed_over(void **state)
{
    struct desk *desk = desk_of_three(state);
    struct story story;
    tell_story(desk, &story);
    tell(desk, COORD_PUBLISH, 2, 5, &story.to_a);
    assert_int_equal(desk->sent[COORD_ACCEPTED], 0);
    assert_int_equal(desk->last_sent.kind, COORD_CATCH_UP);
    tell(desk, COORD_CHANGES, 2, 5, &story.to_b);
    tell(desk, COORD_PUBLISH, 2, 5, &story.to_a);
    assert_int_equal(desk->sent[COORD_ACCEPTED], 1);
    assert_true(is(&desk->coord->committed, &story.to_b.result));
    assert_true(is(&desk->coord->accepted.value, &story.to_a.result));
    forget(&story);
}

static void what_a_publication_rests_on_gets_its_name_first(void **state)
{
    struct desk *desk = desk_of_three(state);
    struct story story;
    tell_story(desk, &story);
    tell(desk, COORD_PUBLISH, 2, 5, &story.to_d);
    assert_int_equal(desk->sent[COORD_ACCEPTED], 0);
    assert_true(is(&desk->coord->committed, &story.to_a.result));
    tell(desk, COORD_PUBLISH, 2, 5, &story.to_d);
    assert_int_equal(desk->sent[COORD_ACCEPTED], 1);
    assert_true(is(&desk->coord->accepted.value, &story.to_d.result));
    forget(&story);
}

/* What it had accepted under a later name may be committed by that one. It gives no vote to anybody who knows less, and begins no term with that number again. */
static void who_takes_an_older_name_is_as_new_as_before(void **state)
{
    struct desk *desk = desk_of_three(state);
    struct story story;
    struct step renamed, next;
    tell_story(desk, &story);
    renamed = story.to_b;
    renamed.result.stamp = (struct coord_stamp){ 6, story.to_b.result.stamp.version + 1 };
    desk_follows(desk, 2, 6);
    tell(desk, COORD_PUBLISH, 2, 6, &renamed);
    assert_true(is(&desk->coord->accepted.value, &renamed.result));
    next = (struct step){ .base = story.to_b.result, .result = { { 7, renamed.result.stamp.version + 1 }, story.b.state_hash } };
    desk_follows(desk, 3, 7);
    tell(desk, COORD_PUBLISH, 3, 7, &next);
    assert_true(is(&desk->coord->committed, &story.to_b.result));
    desk_hears(desk, 2, (struct coord_message){ .kind = COORD_START_JOIN, .term = 8, .leader = -1 });
    assert_int_equal(desk->last_sent.kind, COORD_JOIN);
    assert_true(coord_stamp_equal(desk->last_sent.accepted.stamp, renamed.result.stamp));
    desk_hears(desk, 2, (struct coord_message){ .kind = COORD_PRE_VOTE, .term = 9, .leader = -1, .accepted = story.to_b.result });
    assert_int_equal(desk->last_sent.kind, COORD_PRE_VOTE_ANSWER);
    assert_int_equal(desk->last_sent.answer, COORD_NO);
    check_records(desk);
    forget(&story);
}

/* From a coordinator of a build that passed it over: nothing is written that could not be read again, and this node goes on. */
static void what_is_committed_is_given_no_older_name(void **state)
{
    struct desk *desk = desk_of_three(state);
    struct story story;
    struct step again;
    tell_story(desk, &story);
    tell(desk, COORD_CHANGES, 2, 5, &story.to_b);
    tell(desk, COORD_PUBLISH, 2, 5, &story.to_a);
    again = (struct step){ .base = story.to_b.base, .result = { { 6, story.to_d.result.stamp.version }, story.a.state_hash } };
    desk_follows(desk, 3, 6);
    tell(desk, COORD_PUBLISH, 3, 6, &again);
    assert_int_equal(desk->halts, 0);
    check_records(desk);
    assert_true(is(&desk->coord->committed, &story.to_b.result));
    assert_true(is(&desk->coord->accepted.value, &story.to_a.result));
    forget(&story);
}

/* The disk was full in between: what stays accepted lies where the next delta would be made. It is applied as it was, by whoever reads the outputs after the step. */
static void what_was_accepted_before_the_disk_was_full_is_applied_as_it_was(void **state)
{
    struct desk *desk = desk_of_three(state);
    struct story story;
    struct step both;
    struct coord_out out;
    static uint8_t body[4096];
    size_t bytes;
    uint32_t applies = 0;
    tell_story(desk, &story);
    tell(desk, COORD_PUBLISH, 2, 5, &story.to_b);
    assert_int_equal(desk->sent[COORD_ACCEPTED], 1);
    both = (struct step){ .base = story.to_b.base, .result = story.to_a.result };
    both.delta = (struct coord_delta){ .data = both.room, .cap_bytes = sizeof both.room };
    assert_int_equal(coord_delta_take(&both.delta, coord_blob(story.to_b.room, story.to_b.delta.bytes), coord_blob(story.to_a.room, story.to_a.delta.bytes)), OT_OK);
    desk->fail_next = OT_ERR_NO_SPACE;
    tell(desk, COORD_CHANGES, 2, 5, &both);
    assert_true(is(&desk->coord->accepted.value, &story.to_b.result));
    const struct coord_message again = { .kind = COORD_PUBLISH, .sender = 2, .dir_id = dirs_of_three[1], .levels = coord_levels_known(), .cluster = coord_cluster_hash(ot_str_of("desk-cluster")),
        .term = 5, .leader = 2, .base = story.to_a.base, .committed = story.to_a.base, .accepted = story.to_a.result, .data = coord_blob(story.to_a.room, story.to_a.delta.bytes) };
    assert_int_equal(coord_message_encode(&again, body, sizeof body, &bytes), OT_OK);
    coord_step(desk->coord, &(struct coord_in){ .kind = COORD_MSG, .now_us = desk->now_us, .peer = 2, .body = coord_blob(body, bytes) });
    while (coord_next(desk->coord, &out)) {
        if (out.kind != COORD_APPLY) continue;
        applies++;
        assert_true(coord_stamp_equal(out.stamp, story.to_b.result.stamp));
        assert_int_equal(out.delta.bytes, story.to_b.delta.bytes);
        assert_memory_equal(out.delta.data, story.to_b.room, out.delta.bytes);
    }
    assert_int_equal(applies, 1);
    forget(&story);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, desk_setup, desk_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_change_that_was_taken_back_is_not_passed_over), TEST(what_a_publication_rests_on_gets_its_name_first),
        TEST(who_takes_an_older_name_is_as_new_as_before), TEST(what_is_committed_is_given_no_older_name),
        TEST(what_was_accepted_before_the_disk_was_full_is_applied_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
