/* Rules 4 and 5: who leads when nobody certainly has everything, and what may be lost by it. */
#include "testing.h"

#include "base/util.h"
#include "coordinator/contest.h"

/* Three replicas, all of which were in sync once; the last leader was 1, in epoch 7. */
static struct coord_partition row_of(uint64_t isr, uint64_t elr)
{
    return (struct coord_partition){ .replicas = { 1, 2, 3 }, .replica_count = 3, .isr = isr, .elr = elr, .last_members = 7, .leader = -1, .leader_epoch = 8, .last_leader = 1,
        .last_leader_epoch = 7, .min_isr = 2, .durable_since = -1, .loss_version = -1, .loss_epoch = -1, .loss_from = -1 };
}

static struct coord_log_end answer(int32_t id, int32_t last_epoch, int64_t log_end, int64_t high_watermark)
{
    return (struct coord_log_end){ .broker_id = id, .broker_epoch = 10 + id, .may_lead = true, .last_epoch = last_epoch, .log_end = log_end, .high_watermark = high_watermark };
}

static struct coord_verdict decide(const struct coord_partition *row, const struct coord_log_end *answers, uint32_t count, bool unclean, bool waited)
{
    struct coord_verdict verdict;
    coord_contest_decide(row, answers, count, &(struct coord_contest){ unclean, waited }, &verdict);
    return verdict;
}

static void the_latest_epoch_wins_and_then_the_longest_log(void **state)
{
    (void)state;
    struct coord_partition row = row_of(0, 0);
    struct coord_log_end answers[] = { answer(1, 6, 900, 0), answer(2, 7, 100, 0), answer(3, 7, 101, 0) };
    struct coord_verdict verdict = decide(&row, answers, 3, false, false);
    assert_true(verdict.elects);
    assert_int_equal(verdict.loss, COORD_LOSS_CRASH);
    assert_int_equal(answers[verdict.winner].broker_id, 3);
    answers[1].log_end = 101;
    verdict = decide(&row, answers, 3, false, false);
    assert_int_equal(answers[verdict.winner].broker_id, 2);    /* the preferred one of equals */
    struct coord_log_end turned[] = { answers[2], answers[0], answers[1] };
    verdict = decide(&row, turned, 3, false, false);
    assert_int_equal(turned[verdict.winner].broker_id, 2);     /* whoever answered first */
}

static void rule_four_waits_for_everybody_who_may_have_more(void **state)
{
    (void)state;
    struct coord_partition row = row_of(0, 0);
    const struct coord_log_end answers[] = { answer(1, 7, 100, 90), answer(3, 7, 50, 40) };
    assert_false(decide(&row, answers, 2, false, true).elects);        /* 2 is not back */
    row.last_members = 5;
    assert_true(decide(&row, answers, 2, false, false).elects);        /* it was not in sync */
    row.last_members = 0;
    assert_false(decide(&row, answers, 2, false, true).elects);        /* nobody knows who had everything */
    row = row_of(0, 2);
    const struct coord_log_end all[] = { answer(1, 7, 100, 90), answer(3, 7, 50, 40) };
    assert_false(decide(&row, all, 2, false, true).elects);    /* 2 is eligible: it has everything, wherever it is */
    row = row_of(0, 0);
    row.leader = 1;
    assert_false(decide(&row, answers, 2, true, true).elects);
}

static void the_best_that_cannot_lead_now_is_waited_for(void **state)
{
    (void)state;
    struct coord_partition row = row_of(0, 0);
    struct coord_log_end answers[] = { answer(1, 7, 100, 90), answer(2, 7, 99, 90), answer(3, 7, 98, 90) };
    answers[0].may_lead = false;
    assert_false(decide(&row, answers, 3, false, true).elects);
    struct coord_verdict verdict = decide(&row, answers, 3, true, true);       /* unless somebody said that less will do */
    assert_true(verdict.elects);
    assert_int_equal(answers[verdict.winner].broker_id, 2);
    assert_int_equal(verdict.loss, COORD_LOSS_UNCLEAN);
}

static void unclean_waits_for_the_last_known_leader(void **state)
{
    (void)state;
    struct coord_partition row = row_of(0, 1);                 /* the leader is eligible and gone */
    const struct coord_log_end answers[] = { answer(2, 7, 80, 70), answer(3, 7, 90, 70) };
    assert_false(decide(&row, answers, 2, false, true).elects);
    assert_false(decide(&row, answers, 2, true, false).elects);
    struct coord_verdict verdict = decide(&row, answers, 2, true, true);
    assert_true(verdict.elects);
    assert_int_equal(answers[verdict.winner].broker_id, 3);
    assert_int_equal(verdict.loss, COORD_LOSS_UNCLEAN);
    assert_int_equal(verdict.loss_from, 90);
    row = row_of(0, 2);                                        /* it is back, and lost something; somebody else is eligible and gone */
    const struct coord_log_end back[] = { answer(1, 7, 60, 50), answer(3, 7, 90, 70) };
    verdict = decide(&row, back, 2, true, false);
    assert_true(verdict.elects);
    assert_int_equal(back[verdict.winner].broker_id, 3);
    assert_false(decide(&row, back, 0, true, true).elects);
}

static void what_may_be_lost_begins_where_the_winners_log_may_have_parted(void **state)
{
    (void)state;
    struct coord_partition row = row_of(0, 0);
    struct coord_log_end one = answer(1, 5, 100, 40);           /* the last leader itself, which wrote nothing in its epoch that is left */
    assert_int_equal(coord_contest_loss_from(&row, &one), 100);
    one = answer(2, 7, 90, 40);                                /* its log is the beginning of that leader's */
    assert_int_equal(coord_contest_loss_from(&row, &one), 90);
    one = answer(2, 6, 120, 40);                               /* it may have parted lower, but not below what it knows to be committed */
    assert_int_equal(coord_contest_loss_from(&row, &one), 40);
    coord_losses_add(&row, 7, 30);                             /* unless that was given up, and other records took the place */
    assert_int_equal(coord_contest_loss_from(&row, &one), 30);
    one = answer(2, 7, 120, 40);
    row.last_leader_epoch = 9;
    assert_int_equal(coord_contest_loss_from(&row, &one), 40); /* it has records of that epoch: it took part in what came after */
    row.last_leader_epoch = -1;
    one = answer(2, -1, 0, 0);                                 /* an empty one */
    assert_int_equal(coord_contest_loss_from(&row, &one), 0);
}

static void earlier_losses_are_kept_as_far_as_they_say_more(void **state)
{
    (void)state;
    struct coord_partition row = row_of(0, 0);
    coord_losses_add(&row, 3, 50);
    coord_losses_add(&row, 5, 80);
    assert_int_equal(row.loss_count, 2);
    coord_losses_add(&row, 6, 80);                             /* the same start later: the earlier one says no more */
    assert_int_equal(row.loss_count, 2);
    assert_int_equal(row.losses[1].epoch, 6);
    coord_losses_add(&row, 9, 10);                             /* below all */
    assert_int_equal(row.loss_count, 1);
    for (int32_t i = 0; i < 10; i++) coord_losses_add(&row, 10 + i, 20 + i);
    assert_int_equal(row.loss_count, COORD_LOSSES_MAX);
    row.last_leader_epoch = -1;
    for (int32_t epoch = 0; epoch < 19; epoch++) {             /* two that became one cover both */
        const struct coord_log_end one = answer(2, epoch, 1000, 500);
        const int64_t exact = epoch < 9 ? 10 : 20 + (epoch + 1 - 10);
        assert_true(coord_contest_loss_from(&row, &one) <= exact);
    }
}

static void an_operator_may_name_another_than_the_longest(void **state)
{
    (void)state;
    struct coord_partition row = row_of(0, 0);
    const struct coord_log_end answers[] = { answer(2, 7, 90, 80), answer(3, 6, 50, 40), answer(9, 7, 99, 0) };
    struct coord_verdict verdict;
    struct coord_contest contest = { .unclean = true, .named = true, .leader = 3 };
    row.last_members = 6;                      /* all of them are back: the longest would lead without a word */
    coord_contest_decide(&row, answers, 3, &contest, &verdict);
    assert_true(verdict.elects);
    assert_int_equal(answers[verdict.winner].broker_id, 3);
    assert_int_equal(verdict.loss, COORD_LOSS_UNCLEAN);
    assert_int_equal(verdict.loss_from, 40);
    contest.leader = 1;                        /* it did not answer: nobody else will do */
    coord_contest_decide(&row, answers, 3, &contest, &verdict);
    assert_false(verdict.elects);
    contest.leader = 9;                        /* no replica */
    coord_contest_decide(&row, answers, 3, &contest, &verdict);
    assert_false(verdict.elects);
    contest.leader = 3;
    contest.unclean = false;
    coord_contest_decide(&row, answers, 3, &contest, &verdict);
    assert_false(verdict.elects);
}

#define TEST(name) cmocka_unit_test(name)
TEST_MAIN(TEST(the_latest_epoch_wins_and_then_the_longest_log), TEST(rule_four_waits_for_everybody_who_may_have_more), TEST(the_best_that_cannot_lead_now_is_waited_for),
    TEST(unclean_waits_for_the_last_known_leader), TEST(what_may_be_lost_begins_where_the_winners_log_may_have_parted), TEST(earlier_losses_are_kept_as_far_as_they_say_more),
    TEST(an_operator_may_name_another_than_the_longest))
