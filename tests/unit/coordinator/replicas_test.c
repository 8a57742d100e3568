/* What leaders and operators ask of partitions, and the life of brokers. */
#include "coordinator/state.h"
#include "replicas_desk.h"

static void who_leaves_below_min_isr_stays_eligible(void **state)
{
    struct desk *desk = *state;
    int32_t two[] = { 1, 2 }, one[] = { 1 };
    assert_int_equal(alter(desk, two, 2), OT_OK);
    assert_int_equal(row_of(desk).elr, 0);
    assert_int_equal(alter(desk, one, 1), OT_OK);
    assert_int_equal(row_of(desk).isr, 1);
    assert_int_equal(row_of(desk).elr, 2);
    assert_int_equal(alter(desk, two, 2), OT_OK);
    assert_int_equal(row_of(desk).elr, 0);
}

static void altering_is_compared_and_set(void **state)
{
    struct desk *desk = *state;
    int32_t two[] = { 1, 2 }, other[] = { 2, 3 }, stranger[] = { 1, 4 };
    struct coord_partition row = row_of(desk);
    assert_int_equal(alter_as(desk, 2, row.leader_epoch, row.partition_epoch, two, 2, 0), OT_ERR_FENCED_LEADER_EPOCH);
    assert_int_equal(alter_as(desk, 1, row.leader_epoch + 1, row.partition_epoch, two, 2, 0), OT_ERR_NOT_CONTROLLER);
    assert_int_equal(alter_as(desk, 1, row.leader_epoch, row.partition_epoch + 1, two, 2, 0), OT_ERR_INVALID_UPDATE_VERSION);
    assert_int_equal(alter_as(desk, 1, row.leader_epoch, row.partition_epoch, other, 2, 0), OT_ERR_INVALID_REQUEST);
    assert_int_equal(alter_as(desk, 1, row.leader_epoch, row.partition_epoch, stranger, 2, 0), OT_ERR_INVALID_REQUEST);
    assert_int_equal(row_of(desk).partition_epoch, row.partition_epoch);
    assert_int_equal(alter(desk, two, 2), OT_OK);
    int32_t three[] = { 1, 2, 3 };
    row = row_of(desk);
    assert_int_equal(alter_as(desk, 1, row.leader_epoch, row.partition_epoch, three, 3, -1), OT_ERR_INELIGIBLE_REPLICA);      /* of an earlier life */
    sequence -= 2;
    assert_int_equal(alter_as(desk, 1, row.leader_epoch, row.partition_epoch, three, 3, 0), OT_ERR_REQUEST_TIMED_OUT);        /* a younger one came first */
    sequence += 2;
    assert_int_equal(alter(desk, three, 3), OT_OK);
}

enum { WIDE = 60 };
static struct coord_request create_wide(const char *name)
{
    static const int32_t brokers[] = { 1, 2, 3 };
    static struct coord_assignment assignments[WIDE];
    for (int32_t i = 0; i < WIDE; i++) {
        assignments[i] = (struct coord_assignment){ i, brokers, 3 };
    }
    return (struct coord_request){ .ask = COORD_ASK_CREATE_TOPIC, .u.topic = { .name = ot_str_of(name), .assignments = assignments, .assignment_count = WIDE } };
}

/* A publication is under way, the next one is nearly full, and what a leader asks does not fit behind it: the one after that takes it, and it is not refused as old. */
static void an_alteration_that_waits_for_room_is_not_out_of_order(void **state)
{
    struct desk *desk = *state;
    struct coord_member members[] = { { 1, epoch_of(desk, 1) }, { 2, epoch_of(desk, 2) } };
    struct coord_alter items[WIDE];
    struct coord_request wide = create_wide("wide"), first = desk_create("first", 1), other = create_wide("other");
    desk_ask(desk, &wide);
    assert_int_equal(wide.error, OT_OK);
    for (int32_t i = 0; i < WIDE; i++) {
        struct coord_partition row;
        assert_int_equal(coord_partition_get(coord_view(desk->coord), &wide.topic_id, i, &row), OT_OK);
        items[i] = (struct coord_alter){ .topic_id = wide.topic_id, .partition = i, .leader_epoch = row.leader_epoch, .partition_epoch = row.partition_epoch, .members = members, .member_count = 2 };
    }
    struct coord_request ask = { .ask = COORD_ASK_ALTER,
        .u.alter = { .broker_id = 1, .broker_epoch = epoch_of(desk, 1), .term = coord_term(desk->coord), .sequence = ++sequence, .items = items, .count = WIDE } };
    const uint32_t bytes = desk->coord->deltas[desk->coord->delta_at].bytes, before = desk->stores;
    desk->coord->deltas[0].cap_bytes = desk->coord->deltas[1].cap_bytes = bytes + bytes / 2;
    desk->auto_store = false;
    desk_ask(desk, &first);
    desk_ask(desk, &other);
    desk_ask(desk, &ask);
    while (desk_store(desk)) {
    }
    assert_int_equal(desk->stores - before, 3);
    assert_int_equal(other.error, OT_OK);
    assert_int_equal(ask.error, OT_OK);
    for (int32_t i = 0; i < WIDE; i++) {
        assert_int_equal(items[i].error, OT_OK);
        assert_int_equal(items[i].partition_epoch, 1);
    }
}

static int32_t preferred_leader;

static enum ot_err elect_preferred(struct desk *desk)
{
    struct coord_prefer one = { .topic_id = topic_id };
    struct coord_request ask = { .ask = COORD_ASK_PREFER, .u.prefer = { &one, 1 } };
    desk_ask(desk, &ask);
    preferred_leader = one.leader;
    return ask.error != OT_OK ? ask.error : one.error;
}

static void the_preferred_leader_is_elected_when_it_is_in_sync(void **state)
{
    struct desk *desk = *state;
    int32_t three[] = { 1, 2, 3 };
    assert_int_equal(elect_preferred(desk), OT_ERR_ELECTION_NOT_NEEDED);
    assert_int_equal(fence(desk, 1), OT_OK);
    assert_int_equal(row_of(desk).leader, 2);
    assert_int_equal(elect_preferred(desk), OT_ERR_PREFERRED_LEADER_NOT_AVAILABLE);
    assert_int_equal(desk_register(desk, 1, 11, COORD_BOOT_CLEAN), OT_OK);
    assert_int_equal(alter(desk, three, 3), OT_OK);
    const struct coord_partition before = row_of(desk);
    assert_int_equal(elect_preferred(desk), OT_OK);
    assert_int_equal(preferred_leader, 1);
    struct coord_partition row = row_of(desk);
    assert_int_equal(row.leader, 2);                           /* it lives: it hands over first */
    assert_int_equal(row.successor, 1);
    assert_int_equal(row.leader_epoch, before.leader_epoch);
    assert_int_equal(elect_preferred(desk), OT_OK);            /* under way already */
    assert_int_equal(row_of(desk).partition_epoch, row.partition_epoch);
    assert_int_equal(says(desk, COORD_HANDS_OVER), OT_OK);
    row = row_of(desk);
    assert_int_equal(row.leader, 1);
    assert_int_equal(row.successor, 0);
    assert_int_equal(row.isr, 7);
    assert_int_equal(row.leader_epoch, before.leader_epoch + 1);
}

/* Leader 2 hands over to 1. */
static void begin_handover(struct desk *desk)
{
    int32_t three[] = { 1, 2, 3 };
    assert_int_equal(fence(desk, 1), OT_OK);
    assert_int_equal(desk_register(desk, 1, 11, COORD_BOOT_CLEAN), OT_OK);
    assert_int_equal(alter(desk, three, 3), OT_OK);
    assert_int_equal(elect_preferred(desk), OT_OK);
    assert_int_equal(row_of(desk).successor, 1);
}

static void a_leader_that_gives_up_goes_on(void **state)
{
    struct desk *desk = *state;
    begin_handover(desk);
    const struct coord_partition before = row_of(desk);
    assert_int_equal(says(desk, COORD_GIVES_UP), OT_OK);
    struct coord_partition row = row_of(desk);
    assert_int_equal(row.leader, 2);
    assert_int_equal(row.successor, 0);
    assert_int_equal(row.leader_epoch, before.leader_epoch);
    int32_t three[] = { 1, 2, 3 };
    assert_int_equal(alter_with(desk, 2, before.leader_epoch, before.partition_epoch, three, 3, 0, COORD_HANDS_OVER), OT_ERR_INVALID_UPDATE_VERSION);     /* of a handover that is over */
    assert_int_equal(says(desk, COORD_HANDS_OVER), OT_OK);     /* to nobody */
    assert_int_equal(row_of(desk).leader, 2);
}

static void a_leader_that_dies_while_it_hands_over_is_followed_by_the_rules(void **state)
{
    struct desk *desk = *state;
    begin_handover(desk);
    assert_int_equal(fence(desk, 2), OT_OK);
    assert_int_equal(row_of(desk).leader, 1);
    assert_int_equal(row_of(desk).successor, 0);
}

static void a_successor_that_is_in_sync_no_more_is_none(void **state)
{
    struct desk *desk = *state;
    begin_handover(desk);
    assert_int_equal(fence(desk, 1), OT_OK);
    assert_int_equal(row_of(desk).leader, 2);
    assert_int_equal(row_of(desk).successor, 0);
    assert_int_equal(desk_register(desk, 1, 12, COORD_BOOT_CLEAN), OT_OK);
    int32_t three[] = { 1, 2, 3 }, two[] = { 2, 3 };
    assert_int_equal(alter(desk, three, 3), OT_OK);
    assert_int_equal(elect_preferred(desk), OT_OK);
    assert_int_equal(alter(desk, two, 2), OT_OK);              /* its leader took it out, for lag */
    assert_int_equal(row_of(desk).leader, 2);
    assert_int_equal(row_of(desk).successor, 0);
}

static void many_leaders_are_asked_for_at_once(void **state)
{
    struct desk *desk = *state;
    begin_handover(desk);
    struct coord_prefer items[3] = { { .topic_id = topic_id, .partition = 7 }, { .topic_id = topic_id }, { .topic_id = { { 9 } } } };
    struct coord_request ask = { .ask = COORD_ASK_PREFER, .u.prefer = { items, 3 } };
    assert_int_equal(says(desk, COORD_GIVES_UP), OT_OK);
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
    assert_int_equal(items[0].error, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(items[1].error, OT_OK);
    assert_int_equal(items[2].error, OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(row_of(desk).successor, 1);
}

static void an_unclean_election_says_what_may_be_lost(void **state)
{
    struct desk *desk = *state;
    int32_t two[] = { 1, 2 }, third[] = { 3 }, strangers[] = { 3, 4 }, none[] = { 2 };
    assert_int_equal(alter(desk, two, 2), OT_OK);
    assert_int_equal(fence(desk, 1), OT_OK);
    assert_int_equal(fence(desk, 2), OT_OK);
    assert_int_equal(row_of(desk).leader, -1);                 /* 3 lives, but lacks records */
    int32_t epoch = row_of(desk).leader_epoch;
    assert_int_equal(elect_by(desk, COORD_LOSS_UNCLEAN, 3, 50, third, 1, 0, -1), OT_ERR_INVALID_UPDATE_VERSION);
    assert_int_equal(elect_by(desk, COORD_LOSS_UNCLEAN, 3, 50, third, 1, -1, 0), OT_ERR_INELIGIBLE_REPLICA);      /* it said so in an earlier life */
    assert_int_equal(elect_by(desk, COORD_LOSS_UNCLEAN, 3, 50, none, 1, 0, 0), OT_ERR_INELIGIBLE_REPLICA);        /* it said nothing */
    assert_int_equal(elect_by(desk, COORD_LOSS_UNCLEAN, 1, 50, third, 1, 0, 0), OT_ERR_ELIGIBLE_LEADERS_NOT_AVAILABLE);
    assert_int_equal(elect_by(desk, COORD_LOSS_UNCLEAN, 4, 50, strangers, 2, 0, 0), OT_ERR_ELIGIBLE_LEADERS_NOT_AVAILABLE);
    assert_int_equal(elect_by(desk, COORD_LOSS_CRASH, 3, 50, third, 1, 0, 0), OT_ERR_INELIGIBLE_REPLICA);         /* 1 and 2 have everything */
    assert_int_equal(row_of(desk).leader_epoch, epoch);
    assert_int_equal(elect_by(desk, COORD_LOSS_UNCLEAN, 3, 50, third, 1, 0, 0), OT_OK);
    struct coord_partition row = row_of(desk);
    assert_int_equal(row.leader, 3);
    assert_int_equal(row.isr, 4);
    assert_int_equal(row.last_members, 4);
    assert_true(row.loss_version > 0);
    assert_int_equal(row.loss, COORD_LOSS_UNCLEAN);
    assert_int_equal(row.loss_epoch, epoch);
    assert_int_equal(row.loss_from, 50);
    assert_int_equal(row.loss_leader, 3);
    assert_int_equal(row.loss_count, 1);
    assert_true(row.losses[0].epoch == row.leader_epoch && row.losses[0].start == 50);
    assert_int_equal(elect_by(desk, COORD_LOSS_UNCLEAN, 3, 50, third, 1, 0, 0), OT_ERR_ELECTION_NOT_NEEDED);
    int32_t all[] = { 1, 2, 3 };                               /* once everybody follows, no log holds any more what was given up */
    assert_int_equal(desk_register(desk, 1, 11, COORD_BOOT_CLEAN), OT_OK);
    assert_int_equal(desk_register(desk, 2, 12, COORD_BOOT_CLEAN), OT_OK);
    assert_int_equal(alter(desk, all, 3), OT_OK);
    row = row_of(desk);
    assert_int_equal(row.loss_count, 0);
    assert_int_equal(row.loss_from, 50);
}

static void when_all_machines_crashed_everybody_who_may_have_more_is_heard(void **state)
{
    struct desk *desk = *state;
    int32_t two[] = { 1, 2 }, three[] = { 1, 2, 3 }, other[] = { 2, 3 };
    for (int32_t id = 1; id <= 3; id++) {
        assert_int_equal(desk_register(desk, id, (uint8_t)(20 + id), COORD_BOOT_MACHINE_CRASH), OT_OK);
    }
    struct coord_partition row = row_of(desk);
    assert_int_equal(row.leader, -1);
    assert_int_equal(row.isr | row.elr, 0);
    assert_int_equal(row.last_members, 7);
    assert_int_equal(elect_by(desk, COORD_LOSS_CRASH, 2, 80, two, 2, 0, 0), OT_ERR_INELIGIBLE_REPLICA);
    assert_int_equal(elect_by(desk, COORD_LOSS_CRASH, 2, 80, other, 2, 0, 0), OT_ERR_INELIGIBLE_REPLICA);
    assert_int_equal(elect_by(desk, COORD_LOSS_CRASH, 2, 80, three, 3, 0, 0), OT_OK);
    row = row_of(desk);
    assert_int_equal(row.leader, 2);
    assert_int_equal(row.loss, COORD_LOSS_CRASH);
    assert_int_equal(row.loss_from, 80);
}

static void a_reassignment_keeps_those_that_rule_four_waits_for(void **state)
{
    struct desk *desk = *state;
    int32_t target[] = { 4 };
    for (int32_t id = 1; id <= 3; id++) {
        assert_int_equal(desk_register(desk, id, (uint8_t)(20 + id), COORD_BOOT_MACHINE_CRASH), OT_OK);
    }
    int32_t adding[] = { 4, 1 };
    assert_int_equal(reassign(desk, adding, 2), OT_OK);
    assert_int_equal(reassign(desk, target, 1), OT_OK);
    struct coord_partition row = row_of(desk);
    assert_int_equal(row.replica_count, 4);
    assert_int_equal(__builtin_popcountll(row.last_members), 3);
    assert_int_equal(reassign(desk, NULL, 0), OT_OK);
    assert_int_equal(__builtin_popcountll(row_of(desk).last_members), 3);
}

static enum ot_err lose(struct desk *desk, int32_t broker, int32_t partition_epoch)
{
    struct coord_lost one = { .topic_id = topic_id, .partition_epoch = partition_epoch };
    struct coord_request ask = { .ask = COORD_ASK_LOST, .u.lost = { .broker_id = broker, .broker_epoch = epoch_of(desk, broker), .items = &one, .count = 1 } };
    desk_ask(desk, &ask);
    return ask.error != OT_OK ? ask.error : one.error;
}

static void a_lost_replica_is_nobody_to_rely_on(void **state)
{
    struct desk *desk = *state;
    struct coord_partition before = row_of(desk), row;
    assert_int_equal(before.isr, 7);
    assert_int_equal(lose(desk, 4, before.partition_epoch), OT_ERR_INVALID_REQUEST);
    assert_int_equal(lose(desk, 3, before.partition_epoch - 1), OT_ERR_INVALID_UPDATE_VERSION);
    assert_int_equal(lose(desk, 3, before.partition_epoch), OT_OK);            /* a follower */
    row = row_of(desk);
    assert_int_equal(row.isr, 3);
    assert_int_equal(row.leader, 1);
    assert_int_equal(row.leader_epoch, before.leader_epoch + 1);               /* what it fetched before says nothing of what it has now */
    assert_true(row.partition_epoch > before.partition_epoch);
    assert_int_equal(lose(desk, 3, before.partition_epoch), OT_ERR_INVALID_UPDATE_VERSION);    /* a late copy */
    assert_int_equal(lose(desk, 1, row.partition_epoch), OT_OK);               /* the leader: one of the others, and it is not eligible though isr is too small */
    row = row_of(desk);
    assert_int_equal(row.leader, 2);
    assert_int_equal(row.isr, 2);
    assert_int_equal(row.elr, 0);
    assert_int_equal(row.leader_epoch, before.leader_epoch + 2);
    assert_int_equal(lose(desk, 3, row.partition_epoch), OT_OK);               /* out already, and made anew once more */
    assert_int_equal(row_of(desk).leader_epoch, before.leader_epoch + 3);
}

static void the_last_holder_is_remembered_when_it_is_lost(void **state)
{
    struct desk *desk = *state;
    int32_t alone[] = { 1 };
    assert_int_equal(alter(desk, alone, 1), OT_OK);            /* 2 and 3 are eligible: the others hold what was committed */
    assert_int_equal(fence(desk, 2), OT_OK);
    assert_int_equal(fence(desk, 3), OT_OK);
    struct coord_partition row = row_of(desk);
    assert_int_equal(row.leader, 1);
    assert_int_equal(desk_register(desk, 2, 12, COORD_BOOT_MACHINE_CRASH), OT_OK);
    assert_int_equal(desk_register(desk, 3, 13, COORD_BOOT_MACHINE_CRASH), OT_OK);
    row = row_of(desk);
    assert_int_equal(row.isr, 1);
    assert_int_equal(row.elr, 0);
    const uint64_t members = row.last_members;
    assert_int_equal(lose(desk, 1, row.partition_epoch), OT_OK);
    row = row_of(desk);
    assert_int_equal(row.leader, -1);
    assert_int_equal(row.isr | row.elr, 0);
    assert_int_equal(row.last_members, members);
    assert_true((members & 1) != 0);
}

static void a_reassignment_ends_when_the_new_ones_are_in_sync(void **state)
{
    struct desk *desk = *state;
    int32_t target[] = { 4, 3 }, all[] = { 4, 3, 1, 2 }, same[] = { 1, 2, 3 };
    assert_int_equal(reassign(desk, NULL, 0), OT_ERR_NO_REASSIGNMENT_IN_PROGRESS);
    const int32_t epoch_before = row_of(desk).partition_epoch;
    assert_int_equal(reassign(desk, same, 3), OT_ERR_ELECTION_NOT_NEEDED);
    assert_int_equal(row_of(desk).partition_epoch, epoch_before);
    assert_int_equal(reassign(desk, target, 2), OT_OK);
    struct coord_partition row = row_of(desk);
    assert_int_equal(row.replica_count, 4);
    assert_int_equal(row.replicas[0], 4);
    assert_int_equal(row.adding, 1);
    assert_int_equal(row.removing, 12);
    assert_int_equal(row.leader, 1);
    assert_int_equal(alter(desk, all, 4), OT_OK);
    row = row_of(desk);
    assert_int_equal(row.replica_count, 4);                    /* the leader is among those that go: it hands over first */
    assert_int_equal(row.leader, 1);
    assert_int_equal(row.successor, 1);
    assert_int_equal(says(desk, COORD_GIVES_UP), OT_OK);
    assert_int_equal(row_of(desk).successor, 0);
    assert_int_equal(row_of(desk).replica_count, 4);
    assert_int_equal(says(desk, COORD_STAYS), OT_OK);          /* it has rested, and asks again */
    assert_int_equal(row_of(desk).successor, 1);
    assert_int_equal(says(desk, COORD_HANDS_OVER), OT_OK);
    row = row_of(desk);
    assert_int_equal(row.replica_count, 2);
    assert_int_equal(row.leader, 4);
    assert_int_equal(row.isr, 3);
    assert_int_equal(row.adding | row.removing | row.successor, 0);
}

static void a_reassignment_whose_leader_dies_at_its_end_is_finished_by_the_next(void **state)
{
    struct desk *desk = *state;
    int32_t target[] = { 4, 3 }, all[] = { 4, 3, 1, 2 }, other[] = { 1, 2, 3 };
    assert_int_equal(reassign(desk, target, 2), OT_OK);
    assert_int_equal(alter(desk, all, 4), OT_OK);
    assert_int_equal(row_of(desk).successor, 1);
    assert_int_equal(fence(desk, 1), OT_OK);
    struct coord_partition row = row_of(desk);
    assert_int_equal(row.leader, 4);
    assert_true(coord_move_is_ready(&row));
    assert_int_equal(says(desk, COORD_STAYS), OT_OK);
    assert_int_equal(row_of(desk).replica_count, 2);
    assert_int_equal(reassign(desk, other, 3), OT_OK);         /* and another move begins with nobody to hand over to */
    assert_int_equal(row_of(desk).successor, 0);
}

/* min.insync.replicas is 2: one machine that loses what it had not synced costs nothing. 2 and 4 hold what was committed, 3 lags; were 2 let go now, 4 would be the only one. */
static void a_reassignment_lets_nobody_go_who_is_needed_to_hold_what_was_committed(void **state)
{
    struct desk *desk = *state;
    int32_t target[] = { 1, 3, 4 }, first[] = { 1, 2 }, two[] = { 2, 4 }, all[] = { 2, 3, 4 };
    assert_int_equal(alter(desk, first, 2), OT_OK);            /* 3 lags */
    assert_int_equal(reassign(desk, target, 3), OT_OK);
    assert_int_equal(fence(desk, 1), OT_OK);
    assert_int_equal(row_of(desk).leader, 2);
    assert_int_equal(alter(desk, two, 2), OT_OK);
    struct coord_partition row = row_of(desk);
    assert_int_equal(row.isr, coord_replica_bit(&row, 2) | coord_replica_bit(&row, 4));
    assert_int_equal(row.elr, 0);
    assert_false(coord_move_is_ready(&row));
    assert_int_equal(row.successor, 0);
    assert_int_equal(row.removing, coord_replica_bit(&row, 2));
    assert_int_equal(alter(desk, all, 3), OT_OK);              /* 3 is there: 2 may go */
    row = row_of(desk);
    assert_true(coord_move_is_ready(&row));
    assert_int_equal(says(desk, COORD_HANDS_OVER), OT_OK);
    row = row_of(desk);
    assert_int_equal(row.adding | row.removing, 0);
    assert_int_equal(row.replica_count, 3);
    assert_int_equal(__builtin_popcountll(row.isr), 2);
}

/* Whoever goes and holds nothing is in nobody's way, and of fewer replicas fewer are promised. */
static void a_reassignment_lets_go_who_holds_nothing(void **state)
{
    struct desk *desk = *state;
    int32_t one[] = { 1 }, two[] = { 1, 2 }, last[] = { 1 };
    assert_int_equal(alter(desk, one, 1), OT_OK);
    assert_int_equal(fence(desk, 3), OT_OK);
    assert_int_equal(desk_register(desk, 3, 13, COORD_BOOT_MACHINE_CRASH), OT_OK);     /* it was eligible, and is no more */
    assert_int_equal(row_of(desk).elr, 2);
    assert_int_equal(reassign(desk, two, 2), OT_OK);
    assert_int_equal(row_of(desk).replica_count, 2);
    assert_int_equal(reassign(desk, last, 1), OT_OK);
    assert_int_equal(row_of(desk).replica_count, 1);
    assert_int_equal(row_of(desk).min_isr, 1);
}

static void a_second_move_takes_the_place_of_a_handover(void **state)
{
    struct desk *desk = *state;
    int32_t target[] = { 4, 3 }, all[] = { 4, 3, 1, 2 };
    assert_int_equal(reassign(desk, target, 2), OT_OK);
    assert_int_equal(alter(desk, all, 4), OT_OK);
    assert_int_equal(row_of(desk).successor, 1);
    assert_int_equal(reassign(desk, NULL, 0), OT_OK);
    struct coord_partition row = row_of(desk);
    assert_int_equal(row.successor, 0);
    assert_int_equal(row.leader, 1);
    assert_int_equal(row.replica_count, 3);
}

static void a_reassignment_can_be_cancelled_and_replaced(void **state)
{
    struct desk *desk = *state;
    int32_t target[] = { 4, 3, 2 }, other[] = { 2, 1, 4 }, twice[] = { 4, 4 }, unknown[] = { 9 };
    assert_int_equal(reassign(desk, twice, 2), OT_ERR_INVALID_REPLICA_ASSIGNMENT);
    assert_int_equal(reassign(desk, unknown, 1), OT_ERR_INVALID_REPLICA_ASSIGNMENT);
    assert_int_equal(reassign(desk, target, 3), OT_OK);
    assert_int_equal(reassign(desk, other, 3), OT_OK);
    assert_int_equal(row_of(desk).replica_count, 4);
    assert_int_equal(reassign(desk, NULL, 0), OT_OK);
    struct coord_partition row = row_of(desk);
    assert_int_equal(row.replica_count, 3);
    assert_int_equal(coord_replica_bit(&row, 4), 0);
    assert_int_equal(row.leader, 1);
    assert_int_equal(row.isr, 7);
}

static void a_reassignment_to_fewer_replicas_than_min_isr_counted_on_lowers_it(void **state)
{
    struct desk *desk = *state;
    int32_t one[] = { 1 }, four[] = { 1, 2, 3, 4 }, two[] = { 1, 2 };
    const struct coord_config_change change = { ot_str_of("min.insync.replicas"), ot_str_of("4") };
    struct coord_request ask = { .ask = COORD_ASK_CONFIGS, .if_version = -1, .u.configs = { .scope = { .kind = COORD_SCOPE_TOPIC, .topic_id = topic_id }, .changes = &change, .change_count = 1 } };
    assert_int_equal(reassign(desk, one, 1), OT_OK);
    assert_int_equal(row_of(desk).replica_count, 1);
    assert_int_equal(reassign(desk, four, 4), OT_OK);
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
    assert_int_equal(row_of(desk).min_isr, 4);
    assert_int_equal(reassign(desk, two, 2), OT_OK);       /* instead of the one under way */
    assert_int_equal(row_of(desk).replica_count, 2);
    assert_int_equal(row_of(desk).min_isr, 2);
    assert_int_equal(alter(desk, two, 2), OT_OK);
    assert_int_equal(row_of(desk).adding | row_of(desk).removing, 0);
    assert_int_equal(row_of(desk).min_isr, 2);
}

/* The only one that stays gets a signal while the leader, which goes, hands over to it. */
static void a_successor_that_stops_is_none_and_the_leader_goes_on(void **state)
{
    struct desk *desk = *state;
    int32_t target[] = { 2 }, two[] = { 1, 2 };
    assert_int_equal(reassign(desk, target, 1), OT_OK);
    struct coord_partition row = row_of(desk);
    assert_int_equal(row.leader, 1);
    assert_int_equal(row.successor, coord_replica_bit(&row, 2));
    assert_int_equal(beat(desk, 2, true).error, OT_OK);
    assert_int_equal(alter(desk, two, 2), OT_OK);              /* 3 lags */
    row = row_of(desk);
    assert_int_equal(row.leader, 1);
    assert_int_equal(row.successor, 0);
    assert_true(coord_move_is_ready(&row));
    assert_int_equal(desk_register(desk, 2, 12, COORD_BOOT_CLEAN), OT_OK);
    assert_int_equal(alter(desk, two, 2), OT_OK);
    assert_int_equal(says(desk, COORD_HANDS_OVER), OT_OK);
    row = row_of(desk);
    assert_int_equal(row.leader, 2);
    assert_int_equal(row.replica_count, 1);
}

static void a_broker_is_not_unfenced_before_it_knows_that_it_was_fenced(void **state)
{
    struct desk *desk = *state;
    const int64_t before = coord_view(desk->coord)->stamp.version;
    assert_true(before >= epoch_of(desk, 1));
    assert_int_equal(fence(desk, 1), OT_OK);
    assert_int_equal(row_of(desk).leader, 2);
    struct coord_request ask = { .ask = COORD_ASK_HEARTBEAT, .u.heartbeat = { .broker_id = 1, .broker_epoch = epoch_of(desk, 1), .applied_version = before } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
    assert_true(ask.fenced);                   /* a lease that it took for this answer would be one beside its successor */
    ask = beat(desk, 1, false);
    assert_int_equal(ask.error, OT_OK);
    assert_false(ask.fenced);
}

static void a_stopping_broker_goes_when_everybody_knows_who_leads(void **state)
{
    struct desk *desk = *state;
    const int64_t before = coord_view(desk->coord)->stamp.version;
    struct coord_request ask = beat(desk, 1, true);
    assert_int_equal(ask.error, OT_OK);
    assert_false(ask.may_stop);
    assert_int_equal(row_of(desk).leader, 1);                  /* it is told first that it gets nothing more to lead: there may be something that it has not heard of */
    struct coord_request early = { .ask = COORD_ASK_HEARTBEAT, .u.heartbeat = { .broker_id = 1, .broker_epoch = epoch_of(desk, 1), .applied_version = before, .want_shutdown = true } };
    desk_ask(desk, &early);
    assert_int_equal(row_of(desk).leader, 1);
    assert_false(beat(desk, 1, false).may_stop);               /* the others do not have all yet */
    assert_int_equal(fence(desk, 3), OT_OK);
    assert_int_equal(row_of(desk).leader, 1);                  /* something else that changes takes nothing from it */
    assert_int_equal(desk_register(desk, 3, 13, COORD_BOOT_CLEAN), OT_OK);
    int32_t all[] = { 1, 2, 3 };
    assert_int_equal(alter(desk, all, 3), OT_OK);
    assert_false(beat(desk, 1, true).may_stop);
    assert_int_equal(row_of(desk).leader, 2);
    assert_int_equal(row_of(desk).isr, 6);
    assert_int_equal(row_of(desk).elr, 0);
    assert_false(beat(desk, 1, true).may_stop);
    beat(desk, 2, false);
    beat(desk, 3, false);
    assert_false(beat(desk, 1, true).may_stop);
    beat(desk, 4, false);
    assert_true(beat(desk, 1, true).may_stop);
    int32_t three[] = { 1, 2, 3 };
    assert_int_equal(alter(desk, three, 3), OT_ERR_INELIGIBLE_REPLICA);        /* it is on its way out */
}

static void the_last_one_in_sync_keeps_its_lead_when_it_stops(void **state)
{
    struct desk *desk = *state;
    int32_t one[] = { 1 };
    assert_int_equal(alter(desk, one, 1), OT_OK);
    beat(desk, 1, true);
    beat(desk, 1, true);
    assert_int_equal(row_of(desk).leader, 1);
}

static void a_broker_is_forgotten_once_it_holds_nothing(void **state)
{
    struct desk *desk = *state;
    struct coord_request ask = { .ask = COORD_ASK_UNREGISTER, .u.unregister = { 4 } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_ERR_INVALID_REQUEST);
    assert_int_equal(fence(desk, 4), OT_OK);
    assert_int_equal(fence(desk, 3), OT_OK);
    ask = (struct coord_request){ .ask = COORD_ASK_UNREGISTER, .u.unregister = { 3 } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_ERR_INVALID_REQUEST);       /* holds replicas */
    ask = (struct coord_request){ .ask = COORD_ASK_UNREGISTER, .u.unregister = { 4 } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
    ask = (struct coord_request){ .ask = COORD_ASK_HEARTBEAT, .u.heartbeat = { .broker_id = 4 } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_ERR_BROKER_ID_NOT_REGISTERED);
}

/* As an operator sets and takes it back: a config of that broker. */
static void mark(struct desk *desk, int32_t broker, const char *what, bool set)
{
    const struct coord_config_change change = { ot_str_of(what), set ? ot_str_of("true") : (struct ot_str){ .null = true } };
    struct coord_request ask = { .ask = COORD_ASK_CONFIGS, .if_version = -1, .u.configs = { .scope = { .kind = COORD_SCOPE_BROKER, .broker_id = broker }, .changes = &change, .change_count = 1 } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
}

static void a_preferred_election_passes_over_a_broker_in_maintenance(void **state)
{
    struct desk *desk = *state;
    mark(desk, 1, COORD_MAINTENANCE, true);
    assert_int_equal(row_of(desk).leader, 1);                  /* the mark alone moves nothing */
    assert_int_equal(elect_preferred(desk), OT_OK);
    assert_int_equal(says(desk, COORD_HANDS_OVER), OT_OK);
    assert_int_equal(row_of(desk).leader, 2);
    assert_int_equal(elect_preferred(desk), OT_ERR_ELECTION_NOT_NEEDED);
    mark(desk, 2, COORD_MAINTENANCE, true);
    mark(desk, 3, COORD_MAINTENANCE, true);
    assert_int_equal(elect_preferred(desk), OT_ERR_ELECTION_NOT_NEEDED);       /* nobody is better: it stays where it is */
    mark(desk, 1, COORD_MAINTENANCE, false);
    assert_int_equal(elect_preferred(desk), OT_OK);
    assert_int_equal(says(desk, COORD_HANDS_OVER), OT_OK);
    assert_int_equal(row_of(desk).leader, 1);
}

static void a_leader_in_maintenance_is_replaced_though_the_first_replica_is_gone_or_behind(void **state)
{
    struct desk *desk = *state;
    assert_int_equal(fence(desk, 1), OT_OK);
    assert_int_equal(row_of(desk).leader, 2);
    assert_int_equal(elect_preferred(desk), OT_ERR_PREFERRED_LEADER_NOT_AVAILABLE);
    mark(desk, 2, COORD_MAINTENANCE, true);
    assert_int_equal(elect_preferred(desk), OT_OK);
    assert_int_equal(says(desk, COORD_HANDS_OVER), OT_OK);
    assert_int_equal(row_of(desk).leader, 3);
    assert_int_equal(elect_preferred(desk), OT_ERR_PREFERRED_LEADER_NOT_AVAILABLE);    /* nobody who leads steps back */
    mark(desk, 2, COORD_MAINTENANCE, false);
    beat(desk, 1, false);
    beat(desk, 1, false);                                      /* it lives, and is not in sync */
    assert_int_equal(row_of(desk).isr, 6);
    mark(desk, 3, COORD_MAINTENANCE, true);
    assert_int_equal(elect_preferred(desk), OT_OK);
    assert_int_equal(says(desk, COORD_HANDS_OVER), OT_OK);
    assert_int_equal(row_of(desk).leader, 2);
    mark(desk, 2, COORD_MAINTENANCE, true);
    assert_int_equal(elect_preferred(desk), OT_ERR_ELECTION_NOT_NEEDED);       /* nobody in sync is better */
}

static void a_broker_that_leaves_gets_nothing_new(void **state)
{
    struct desk *desk = *state;
    static const int32_t more[] = { 1, 2, 4 }, fewer[] = { 3, 2 };
    mark(desk, 4, COORD_DECOMMISSION, true);
    struct coord_request ask = { .ask = COORD_ASK_REASSIGN, .u.reassign = { topic_id, 0, more, 3 } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_ERR_INVALID_REPLICA_ASSIGNMENT);
    mark(desk, 3, COORD_DECOMMISSION, true);
    ask = (struct coord_request){ .ask = COORD_ASK_REASSIGN, .u.reassign = { topic_id, 0, fewer, 2 } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);                        /* what it holds it may keep */
    ask = (struct coord_request){ .ask = COORD_ASK_CREATE_TOPIC, .u.topic = { .name = ot_str_of("new"), .partition_count = 8, .replication_factor = -1 } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
    assert_int_equal(ask.replication_factor, 2);               /* as many as may hold some, three at most */
    ask = (struct coord_request){ .ask = COORD_ASK_CREATE_TOPIC, .u.topic = { .name = ot_str_of("large"), .partition_count = 1, .replication_factor = 3 } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_ERR_INVALID_REPLICATION_FACTOR);
}

static void who_was_forgotten_comes_back_without_marks(void **state)
{
    struct desk *desk = *state;
    mark(desk, 4, COORD_MAINTENANCE, true);
    mark(desk, 4, COORD_DECOMMISSION, true);
    assert_true(coord_broker_mark(coord_view(desk->coord), 4, COORD_MAINTENANCE) && coord_broker_mark(coord_view(desk->coord), 4, COORD_DECOMMISSION));
    assert_int_equal(fence(desk, 4), OT_OK);
    struct coord_request ask = { .ask = COORD_ASK_UNREGISTER, .u.unregister = { 4 } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
    assert_true(!coord_broker_mark(coord_view(desk->coord), 4, COORD_MAINTENANCE) && !coord_broker_mark(coord_view(desk->coord), 4, COORD_DECOMMISSION));
}

static enum ot_err register_with(struct desk *desk, int32_t id, uint8_t incarnation, const struct ot_uuid *dirs, uint32_t dir_count)
{
    struct coord_endpoint endpoint = { ot_str_of("PLAINTEXT"), ot_str_of("127.0.0.1"), 9092, ot_str_of("PLAINTEXT") };
    struct coord_request ask = { .ask = COORD_ASK_REGISTER, .u.register_ = { .broker_id = id, .incarnation_id = { { incarnation } }, .dir_ids = dirs, .dir_count = dir_count,
        .endpoints = &endpoint, .endpoint_count = 1, .rack = { .null = true } } };
    desk_ask(desk, &ask);
    assert_true(ask.error == OT_OK || strstr(ask.text, "other directories") != NULL);
    return ask.error;
}

/* Two processes with one id: the second is refused while the first is heard, unless it has a directory of the first, which only one process can hold. */
static void a_second_broker_of_the_same_id_is_refused_while_the_first_one_lives(void **state)
{
    struct desk *desk = *state;
    static const struct ot_uuid others[] = { { { 7 } }, { { 8 } } }, some[] = { { { 7 } }, { { 9 } } };       /* desk_register: 9 */
    const int64_t version = coord_view(desk->coord)->stamp.version;
    assert_int_equal(register_with(desk, 2, 12, others, 2), OT_ERR_DUPLICATE_BROKER_REGISTRATION);
    assert_int_equal(register_with(desk, 2, 12, NULL, 0), OT_ERR_DUPLICATE_BROKER_REGISTRATION);
    assert_int_equal(coord_view(desk->coord)->stamp.version, version);
    assert_int_equal(row_of(desk).isr, 7);
    assert_int_equal(register_with(desk, 2, 12, some, 2), OT_OK);
    assert_int_equal(fence(desk, 3), OT_OK);
    assert_int_equal(register_with(desk, 3, 13, others, 2), OT_OK);    /* the first one is heard no more */
}

static void seconds_pass(struct desk *desk, int count)
{
    for (int i = 0; i < count; i++) {
        desk->now_us += 1000000;
        desk_in(desk, (struct coord_in){ .kind = COORD_TICK });
    }
}

/* It has registered, and is fenced until its first heartbeat: it lives all the same, and what it holds is worth its place in elr. */
static void a_second_broker_of_the_same_id_is_refused_while_the_first_one_begins(void **state)
{
    struct desk *desk = *state;
    static const struct ot_uuid own[] = { { { 9 } } }, others[] = { { { 7 } } };
    desk_free(desk);
    desk_init(desk);
    desk->auto_store = true;
    desk->session_us = 9000000;
    desk->now_us = 1000;
    assert_int_equal(desk_start(desk, 0), OT_OK);
    assert_int_equal(register_with(desk, 2, 2, own, 1), OT_OK);
    seconds_pass(desk, 8);
    assert_int_equal(register_with(desk, 2, 12, others, 1), OT_ERR_DUPLICATE_BROKER_REGISTRATION);
    assert_int_equal(register_with(desk, 2, 3, own, 1), OT_OK);        /* it starts anew */
    seconds_pass(desk, 8);
    struct coord_request beat = { .ask = COORD_ASK_HEARTBEAT, .u.heartbeat = { .broker_id = 2, .broker_epoch = epoch_of(desk, 2), .want_fence = true } };
    desk_ask(desk, &beat);
    assert_int_equal(beat.error, OT_OK);
    seconds_pass(desk, 8);
    assert_int_equal(register_with(desk, 2, 12, others, 1), OT_ERR_DUPLICATE_BROKER_REGISTRATION);
    seconds_pass(desk, 1);
    assert_int_equal(register_with(desk, 2, 12, others, 1), OT_OK);    /* it was silent for a session */
    assert_int_equal(register_with(desk, 2, 4, own, 1), OT_OK);        /* who has a directory that was missed is no double */
    assert_int_equal(fence(desk, 2), OT_OK);
    assert_int_equal(register_with(desk, 2, 13, others, 1), OT_OK);    /* it was taken for gone */
}

static void a_voter_is_not_forgotten(void **state)
{
    struct desk *desk = *state;
    static const int32_t others[] = { 2, 3 };
    struct coord_request ask = { .ask = COORD_ASK_REASSIGN, .u.reassign = { topic_id, 0, others, 2 } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
    assert_int_equal(fence(desk, 1), OT_OK);
    ask = (struct coord_request){ .ask = COORD_ASK_UNREGISTER, .u.unregister = { 1 } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_ERR_INVALID_REQUEST);
    assert_non_null(strstr(ask.text, "vote"));
}

static void a_voter_alone_does_not_resign(void **state)
{
    struct desk *desk = *state;
    struct coord_request ask = { .ask = COORD_ASK_RESIGN, .u.resign = { -1 } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_ERR_ELIGIBLE_LEADERS_NOT_AVAILABLE);
    assert_true(desk->leading);
    ask.u.resign.node_id = 2;                  /* that one leads no more: nothing is left to do */
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
    assert_true(desk->leading);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(who_leaves_below_min_isr_stays_eligible), TEST(altering_is_compared_and_set), TEST(an_alteration_that_waits_for_room_is_not_out_of_order), TEST(the_preferred_leader_is_elected_when_it_is_in_sync),
        TEST(a_lost_replica_is_nobody_to_rely_on), TEST(the_last_holder_is_remembered_when_it_is_lost),
        TEST(an_unclean_election_says_what_may_be_lost), TEST(when_all_machines_crashed_everybody_who_may_have_more_is_heard),
        TEST(a_reassignment_keeps_those_that_rule_four_waits_for), TEST(a_reassignment_ends_when_the_new_ones_are_in_sync),
        TEST(a_leader_that_gives_up_goes_on), TEST(a_leader_that_dies_while_it_hands_over_is_followed_by_the_rules), TEST(a_successor_that_is_in_sync_no_more_is_none),
        TEST(a_successor_that_stops_is_none_and_the_leader_goes_on), TEST(many_leaders_are_asked_for_at_once), TEST(a_reassignment_whose_leader_dies_at_its_end_is_finished_by_the_next), TEST(a_second_move_takes_the_place_of_a_handover),
        TEST(a_reassignment_lets_nobody_go_who_is_needed_to_hold_what_was_committed), TEST(a_reassignment_lets_go_who_holds_nothing),
        TEST(a_reassignment_can_be_cancelled_and_replaced),
        TEST(a_reassignment_to_fewer_replicas_than_min_isr_counted_on_lowers_it),
        TEST(a_preferred_election_passes_over_a_broker_in_maintenance), TEST(a_leader_in_maintenance_is_replaced_though_the_first_replica_is_gone_or_behind), TEST(a_broker_that_leaves_gets_nothing_new), TEST(who_was_forgotten_comes_back_without_marks),
        TEST(a_second_broker_of_the_same_id_is_refused_while_the_first_one_lives), TEST(a_second_broker_of_the_same_id_is_refused_while_the_first_one_begins), TEST(a_voter_is_not_forgotten), TEST(a_voter_alone_does_not_resign),
        TEST(a_broker_is_not_unfenced_before_it_knows_that_it_was_fenced), TEST(a_stopping_broker_goes_when_everybody_knows_who_leads),
        TEST(the_last_one_in_sync_keeps_its_lead_when_it_stops), TEST(a_broker_is_forgotten_once_it_holds_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
