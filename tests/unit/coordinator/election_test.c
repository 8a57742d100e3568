/* The rules of partition leader election over single rows, and where replicas are placed. */
#include "testing.h"

#include "base/util.h"
#include "coordinator/election.h"

enum { BROKERS = 6 };
static struct coord_live_broker brokers[BROKERS];
static const struct coord_live live = { brokers, BROKERS };

static int all_live(void **state)
{
    (void)state;
    for (int i = 0; i < BROKERS; i++) {
        brokers[i] = (struct coord_live_broker){ .id = i + 1, .live = true };
    }
    return 0;
}

static struct coord_partition row_of(int32_t replicas, int32_t min_isr)
{
    static const int32_t ids[] = { 1, 2, 3 };
    struct coord_partition row;
    coord_partition_found(&row, ids, replicas, min_isr, 0, &live);
    return row;
}

static bool leave(struct coord_partition *row, int32_t id, bool lost)
{
    brokers[id - 1].live = false;
    return coord_partition_recompute(row, &live, &(struct coord_leaving){ .broker_id = id, .lost = lost }, 10);
}

static bool come_back(struct coord_partition *row, int32_t id)
{
    brokers[id - 1].live = true;
    return coord_partition_recompute(row, &live, NULL, 11);
}

static void the_preferred_live_replica_leads_a_new_partition(void **state)
{
    (void)state;
    brokers[0].live = false;
    struct coord_partition row = row_of(3, 2);
    assert_int_equal(row.leader, 2);
    assert_int_equal(row.isr, 6);
    assert_int_equal(row.elr, 0);
    brokers[1].live = brokers[2].live = false;
    row = row_of(3, 2);
    assert_int_equal(row.leader, -1);
    assert_int_equal(row.elr, 7);              /* an empty log lacks nothing */
}

static void a_leaving_leader_is_followed_within_isr_and_the_epoch_grows(void **state)
{
    (void)state;
    struct coord_partition row = row_of(3, 2);
    assert_true(leave(&row, 1, false));
    assert_int_equal(row.leader, 2);
    assert_int_equal(row.leader_epoch, 1);
    assert_int_equal(row.isr, 6);
    assert_int_equal(row.elr, 0);              /* two are enough: what the left one lacks is not known */
    assert_false(come_back(&row, 1));          /* nobody joins the isr here */
    assert_int_equal(row.leader_epoch, 1);
}

static void a_leaving_follower_changes_no_leader(void **state)
{
    (void)state;
    struct coord_partition row = row_of(3, 1);
    assert_true(leave(&row, 3, false));
    assert_int_equal(row.leader, 1);
    assert_int_equal(row.leader_epoch, 0);
    assert_int_equal(row.partition_epoch, 1);
}

static void below_min_isr_those_that_left_stay_eligible(void **state)
{
    (void)state;
    struct coord_partition row = row_of(3, 3);
    leave(&row, 3, false);
    assert_int_equal(row.elr, 4);
    leave(&row, 1, false);
    leave(&row, 2, false);
    assert_int_equal(row.isr, 0);
    assert_int_equal(row.elr, 7);
    assert_int_equal(row.leader, -1);
    assert_int_equal(row.last_leader, 2);
    assert_true(come_back(&row, 3));           /* the first intact one that comes back leads */
    assert_int_equal(row.leader, 3);
    assert_int_equal(row.isr, 4);
    assert_int_equal(row.elr, 3);
}

static void one_that_lost_data_is_not_eligible(void **state)
{
    (void)state;
    struct coord_partition row = row_of(3, 3);
    leave(&row, 1, false);
    leave(&row, 2, true);
    leave(&row, 3, false);
    assert_int_equal(row.elr, 5);
    assert_false(come_back(&row, 2));
    assert_int_equal(row.leader, -1);
    assert_true(come_back(&row, 1));
    assert_int_equal(row.leader, 1);
}

static void with_several_replicas_that_all_lost_data_nobody_is_guessed(void **state)
{
    (void)state;
    struct coord_partition row = row_of(2, 2);
    leave(&row, 1, true);
    leave(&row, 2, true);
    come_back(&row, 1);
    come_back(&row, 2);
    assert_int_equal(row.leader, -1);          /* the longest log must be asked for first */
    assert_int_equal(row.last_members, 3);     /* registrations with lost data do not shrink it */
}

static void one_that_lost_something_and_is_live_again_is_still_waited_for(void **state)
{
    (void)state;
    struct coord_partition row = row_of(3, 1);
    leave(&row, 1, true);                      /* the leader, perhaps with more on its disk than the others */
    assert_int_equal(row.leader, 2);
    assert_false(come_back(&row, 1));
    assert_int_equal(row.last_members, 7);
    leave(&row, 2, true);
    leave(&row, 3, true);
    assert_int_equal(row.isr | row.elr, 0);
    assert_int_equal(row.last_members, 7);
}

static void a_sole_replica_always_comes_back_and_its_loss_is_remembered(void **state)
{
    (void)state;
    struct coord_partition row = row_of(1, 1);
    leave(&row, 1, true);
    assert_int_equal(row.leader, -1);
    assert_int_equal(row.isr | row.elr, 0);
    assert_true(come_back(&row, 1));
    assert_int_equal(row.leader, 1);
    assert_int_equal(row.leader_epoch, 2);
    assert_int_equal(row.loss_version, 11);
    assert_int_equal(row.loss_epoch, 1);
    assert_int_equal(row.loss, COORD_LOSS_CRASH);
    assert_int_equal(row.loss_from, -1);       /* where its log ended it knows itself */
}

static void a_durable_leader_loses_nothing_by_a_machine_crash(void **state)
{
    (void)state;
    struct coord_partition row = row_of(1, 1);
    row.durable_since = 5;
    row.durable_class = COORD_DURABLE_LEADER;
    leave(&row, 1, true);
    assert_int_equal(row.elr, 1);
    come_back(&row, 1);
    assert_int_equal(row.leader, 1);
    assert_int_equal(row.loss_version, -1);
    assert_int_equal(row.durable_since, 5);
    brokers[0].live = false;                   /* but not when the directory itself is gone */
    coord_partition_recompute(&row, &live, &(struct coord_leaving){ .broker_id = 1, .lost = true, .disk_gone = true }, 12);
    assert_int_equal(row.elr, 0);
}

static void another_leader_ends_what_only_the_last_one_had_flushed(void **state)
{
    (void)state;
    for (enum coord_durable class_ = COORD_DURABLE_LEADER; class_ <= COORD_DURABLE_ALL; class_++) {
        all_live(NULL);
        struct coord_partition row = row_of(2, 1);
        row.durable_since = 5;
        row.durable_class = class_;
        leave(&row, 1, false);
        assert_int_equal(row.leader, 2);
        assert_int_equal(row.durable_since, class_ == COORD_DURABLE_ALL ? 5 : -1);
    }
}

static void lowering_min_isr_empties_elr_in_the_same_change(void **state)
{
    (void)state;
    struct coord_partition row = row_of(3, 3);
    leave(&row, 3, false);
    assert_int_equal(row.elr, 4);
    assert_true(coord_partition_set_min_isr(&row, 2));
    assert_int_equal(row.elr, 0);
    assert_false(coord_partition_set_min_isr(&row, 2));
    assert_true(coord_partition_set_min_isr(&row, 99));
    assert_int_equal(row.min_isr, 3);          /* at most the replicas */
}

/* Any order of leaving and coming back keeps invariant 11 and never lowers an epoch. */
static void random_histories_keep_the_invariants(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        struct ot_rng rng;
        ot_rng_seed(&rng, seed);
        all_live(NULL);
        struct coord_partition row = row_of(1 + (int32_t)ot_rng_below(&rng, 3), 1 + (int32_t)ot_rng_below(&rng, 3));
        for (int step = 0; step < 40; step++) {
            struct coord_partition before = row;
            int32_t id = 1 + (int32_t)ot_rng_below(&rng, 3);
            bool changed;
            if (ot_rng_chance(&rng, 0.1)) {
                changed = coord_partition_set_min_isr(&row, 1 + (int32_t)ot_rng_below(&rng, 3));
            } else {
                changed = brokers[id - 1].live ? leave(&row, id, ot_rng_chance(&rng, 0.3)) : come_back(&row, id);
            }
            uint64_t leader_bit = row.leader == -1 ? 0 : coord_replica_bit(&row, row.leader);
            assert_true(row.leader == -1 || (leader_bit & row.isr) != 0);
            assert_true(((row.isr | row.elr) & ~coord_all_replicas(&row)) == 0);
            assert_true((row.isr & row.elr) == 0);
            assert_true(row.elr == 0 || __builtin_popcountll(row.isr) < row.min_isr);
            assert_true(row.leader == -1 || brokers[row.leader - 1].live);
            assert_int_equal(row.partition_epoch, before.partition_epoch + changed);
            assert_int_equal(row.leader_epoch, before.leader_epoch + (row.leader != before.leader));
            uint64_t stayed = before.isr & row.isr;        /* somebody in sync was left: only such may lead */
            bool clean = row.leader == -1 || row.leader == before.leader || (leader_bit & (stayed != 0 ? before.isr : before.isr | before.elr)) != 0;
            assert_true(clean || row.replica_count == 1);      /* invariant 17 */
        }
    }
}

static void those_in_maintenance_lead_only_when_nobody_else_can(void **state)
{
    (void)state;
    brokers[0].draining = true;
    struct coord_partition row = row_of(3, 1);
    assert_int_equal(row.leader, 2);                   /* a new one begins elsewhere */
    brokers[2].leaving = true;
    assert_true(leave(&row, 2, false));
    assert_int_equal(row.leader, 1);                   /* 3 is on its way out for good, 1 for a while: the order of the replicas decides */
    assert_true(come_back(&row, 2) == false && row.leader == 1);       /* whoever leads, leads: moving it is asked for */
    row.isr |= 2;
    assert_true(leave(&row, 1, false));
    assert_int_equal(row.leader, 2);
    assert_int_equal(coord_first_live(&row, 7, &live), 2);
    assert_true(coord_live_may_lead(&live, 3) && !coord_live_should_lead(&live, 3) && !coord_live_should_lead(&live, 1));
}

/* ---- placement */

static void who_leaves_gets_no_replicas_and_is_not_counted(void **state)
{
    (void)state;
    uint32_t order[BROKERS];
    brokers[1].leaving = brokers[4].leaving = true;
    brokers[2].draining = true;                        /* a pause: it goes on holding replicas */
    const uint32_t count = coord_place_order(&live, order);
    assert_int_equal(count, 4);
    assert_int_equal(coord_live_count(&live), 4);
    for (uint32_t i = 0; i < count; i++) assert_true(!brokers[order[i]].leaving);
}


static void replicas_are_spread_over_brokers_and_racks(void **state)
{
    (void)state;
    static const uint32_t racks[BROKERS] = { 1, 1, 2, 2, 3, 3 };
    uint32_t order[BROKERS];
    int32_t leads[BROKERS + 1] = { 0 }, holds[BROKERS + 1] = { 0 }, replicas[3];
    for (int i = 0; i < BROKERS; i++) {
        brokers[i].rack = racks[i];
    }
    uint32_t count = coord_place_order(&live, order);
    assert_int_equal(count, BROKERS);
    for (int32_t index = 0; index < 60; index++) {
        assert_true(coord_place(&live, order, count, 0, 3, 17, index, replicas));
        uint32_t seen = 0;
        for (int k = 0; k < 3; k++) {
            seen |= 1u << racks[replicas[k] - 1];
            holds[replicas[k]]++;
        }
        leads[replicas[0]]++;
        assert_int_equal(seen, 0xe);           /* one in each rack */
    }
    for (int id = 1; id <= BROKERS; id++) {
        assert_int_equal(leads[id], 10);
        assert_in_range(holds[id], 24, 36);
    }
}

static void placement_takes_only_live_brokers_and_says_when_they_do_not_suffice(void **state)
{
    (void)state;
    uint32_t order[BROKERS];
    int32_t replicas[BROKERS];
    brokers[1].live = false;
    brokers[4].stopping = true;
    uint32_t count = coord_place_order(&live, order);
    assert_int_equal(count, 4);
    assert_int_equal(coord_live_count(&live), 4);
    assert_false(coord_place(&live, order, count, 0, 5, 0, 0, replicas));
    for (int32_t index = 0; index < 20; index++) {
        assert_true(coord_place(&live, order, count, 2, 4, 3, index, replicas));
        uint32_t seen = 0;
        for (int k = 0; k < 4; k++) {
            seen |= 1u << replicas[k];
        }
        assert_int_equal(seen, 1u << 1 | 1u << 3 | 1u << 4 | 1u << 6);
    }
}

static void who_is_away_stands_last_where_the_live_ones_do_not_suffice(void **state)
{
    (void)state;
    uint32_t order[BROKERS];
    int32_t replicas[BROKERS];
    brokers[1].live = brokers[4].live = false;
    brokers[5].live = false;
    brokers[5].leaving = true;
    const uint32_t count = coord_place_order(&live, order), away = coord_place_away(&live, order + count);
    assert_int_equal(count, 3);
    assert_int_equal(away, 2);                         /* 2 and 5: who leaves gets none */
    uint32_t holds[BROKERS + 1] = { 0 };
    for (int32_t index = 0; index < 20; index++) {
        assert_true(coord_place(&live, order, count, away, 4, 0, index, replicas));
        for (int k = 0; k < 3; k++) assert_true(brokers[replicas[k] - 1].live);
        holds[replicas[3]]++;
    }
    assert_int_equal(holds[2], 10);
    assert_int_equal(holds[5], 10);
    assert_true(coord_place(&live, order, count, away, 5, 0, 0, replicas));
    assert_true(replicas[3] != replicas[4]);
    assert_false(coord_place(&live, order, count, away, 6, 0, 0, replicas));
    assert_false(coord_place(&live, order, 0, away, 1, 0, 0, replicas));
}

#define TEST(name) cmocka_unit_test_setup(name, all_live)
TEST_MAIN(TEST(the_preferred_live_replica_leads_a_new_partition), TEST(a_leaving_leader_is_followed_within_isr_and_the_epoch_grows),
    TEST(a_leaving_follower_changes_no_leader), TEST(below_min_isr_those_that_left_stay_eligible), TEST(one_that_lost_data_is_not_eligible),
    TEST(with_several_replicas_that_all_lost_data_nobody_is_guessed), TEST(one_that_lost_something_and_is_live_again_is_still_waited_for),
    TEST(a_sole_replica_always_comes_back_and_its_loss_is_remembered),
    TEST(a_durable_leader_loses_nothing_by_a_machine_crash), TEST(another_leader_ends_what_only_the_last_one_had_flushed),
    TEST(lowering_min_isr_empties_elr_in_the_same_change), TEST(random_histories_keep_the_invariants),
    TEST(those_in_maintenance_lead_only_when_nobody_else_can), TEST(who_leaves_gets_no_replicas_and_is_not_counted), TEST(replicas_are_spread_over_brokers_and_racks), TEST(placement_takes_only_live_brokers_and_says_when_they_do_not_suffice), TEST(who_is_away_stands_last_where_the_live_ones_do_not_suffice))
