/* Where replicas should lie: proposals over states of the coordinator, made by its own requests. */
#include "../coordinator/desk.h"

#include "broker/placement.h"
#include "broker/plan.h"
#include "broker/room.h"

static struct desk *desk;
static struct broker_view view;
static struct ot_arena arena;
static struct broker_plan plan;
static int32_t id;
static int64_t epochs[8];

static void registers(int32_t broker, const char *rack)
{
    struct coord_endpoint endpoint = { ot_str_of("PLAINTEXT"), ot_str_of("127.0.0.1"), 9092, ot_str_of("PLAINTEXT") };
    struct ot_uuid dir = { { 9, (uint8_t)broker } };
    struct coord_request ask = { .ask = COORD_ASK_REGISTER, .if_version = -1, .u.register_ = { .broker_id = broker, .incarnation_id = { { 7, (uint8_t)broker } }, .dir_ids = &dir, .dir_count = 1,
        .endpoints = &endpoint, .endpoint_count = 1, .rack = rack == NULL ? (struct ot_str){ .null = true } : ot_str_of(rack) } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
    epochs[broker] = ask.version;
    struct coord_request beat = { .ask = COORD_ASK_HEARTBEAT, .if_version = -1, .u.heartbeat = { .broker_id = broker, .broker_epoch = ask.version, .applied_version = ask.version } };
    desk_ask(desk, &beat);
    assert_int_equal(beat.error, OT_OK);
}

static void topic(const char *name, int32_t partitions, const int32_t *replicas, int32_t count)
{
    struct coord_assignment list[64];
    for (int32_t i = 0; i < partitions; i++) list[i] = (struct coord_assignment){ i, replicas, count };
    struct coord_request ask = { .ask = COORD_ASK_CREATE_TOPIC, .if_version = -1, .u.topic = { .name = ot_str_of(name), .assignments = list, .assignment_count = (uint32_t)partitions } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
}

static void look(void)
{
    coord_value_drop(&view.value);
    free(view.brokers);
    view = (struct broker_view){ .value = coord_value_share(coord_view(desk->coord)) };
    uint8_t room[32768];
    struct ot_coord_broker_row row;
    int32_t next = INT32_MIN;
    for (;;) {
        struct ot_arena rows;
        ot_arena_init_with(&rows, room, sizeof room, 0);
        if (coord_broker_next(&view.value, next, &rows, &next, &row) != OT_OK) return;
        view.brokers = realloc(view.brokers, (view.broker_count + 1) * sizeof *view.brokers);
        view.brokers[view.broker_count++] = (struct broker_view_live){ next, row.fenced, coord_broker_mark(&view.value, next, COORD_MAINTENANCE), coord_broker_mark(&view.value, next, COORD_DECOMMISSION) };
    }
}

static enum ot_err make(struct broker_plan_ask ask)
{
    look();
    ot_arena_reset(&arena);
    return broker_plan(&view, &ask, &arena, &plan, &id);
}

static int setup(void **state)
{
    (void)state;
    desk = malloc(sizeof *desk);
    desk_init(desk);
    desk->auto_store = true;
    assert_int_equal(desk_start(desk, 0), OT_OK);
    coord_value_init(&view.value, desk->pages);
    ot_arena_init(&arena, 64 << 20);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    coord_value_drop(&view.value);
    free(view.brokers);
    view = (struct broker_view){ 0 };
    ot_arena_free(&arena);
    desk_free(desk);
    free(desk);
    return 0;
}

static int count_at(int32_t broker)                /* replicas after the plan, of a topic of moves alone */
{
    int count = 0;
    for (uint32_t i = 0; i < plan.move_count; i++)
        for (int32_t k = 0; k < plan.moves[i].to_count; k++) count += plan.moves[i].to[k] == broker;
    return count;
}

static void what_a_broker_holds_goes_to_those_that_hold_least(void **state)
{
    (void)state;
    for (int32_t i = 1; i <= 4; i++) registers(i, NULL);
    topic("t", 6, (const int32_t[]){ 4, 1 }, 2);
    topic("u", 2, (const int32_t[]){ 2, 3 }, 2);
    assert_int_equal(make((struct broker_plan_ask){ .goal = BROKER_PLAN_EMPTY, .empty = (const int32_t[]){ 4 }, .empty_count = 1 }), OT_OK);
    assert_int_equal(plan.move_count, 6);
    for (uint32_t i = 0; i < 6; i++) assert_true(plan.moves[i].to_count == 2 && plan.moves[i].to[1] == 1 && plan.moves[i].added == 1 && plan.moves[i].from[0] == 4);
    assert_true(count_at(2) == 3 && count_at(3) == 3 && count_at(4) == 0);
    assert_int_equal(make((struct broker_plan_ask){ .goal = BROKER_PLAN_EMPTY, .empty = (const int32_t[]){ 4 }, .empty_count = 1, .moves_max = 2 }), OT_OK);
    assert_true(plan.move_count == 2 && plan.cut);
    assert_int_equal(make((struct broker_plan_ask){ .goal = BROKER_PLAN_EMPTY, .empty = (const int32_t[]){ 1, 2, 3 }, .empty_count = 3 }), OT_OK);
    assert_true(plan.stuck == 8 && plan.stuck_partition == 0);         /* one broker cannot hold two replicas */
    assert_int_equal(make((struct broker_plan_ask){ .goal = BROKER_PLAN_EMPTY, .empty = (const int32_t[]){ 9 }, .empty_count = 1 }), OT_ERR_BROKER_ID_NOT_REGISTERED);
    assert_int_equal(id, 9);
}

static void racks_are_kept_apart(void **state)
{
    (void)state;
    static const char *const racks[] = { "a", "a", "b", "b", "c" };
    for (int32_t i = 1; i <= 5; i++) registers(i, racks[i - 1]);
    topic("t", 4, (const int32_t[]){ 1, 3 }, 2);
    assert_int_equal(make((struct broker_plan_ask){ .goal = BROKER_PLAN_EMPTY, .empty = (const int32_t[]){ 3 }, .empty_count = 1 }), OT_OK);
    for (uint32_t i = 0; i < plan.move_count; i++) assert_true(plan.moves[i].to[1] == 4 || plan.moves[i].to[1] == 5);      /* never 2: that is the rack of 1 */
    assert_int_equal(plan.move_count, 4);
    topic("bad", 1, (const int32_t[]){ 1, 2 }, 2);                     /* both in one rack */
    const struct ot_str only = ot_str_of("bad");
    assert_int_equal(make((struct broker_plan_ask){ .goal = BROKER_PLAN_BALANCE, .topics = &only, .topic_count = 1 }), OT_OK);
    assert_int_equal(plan.move_count, 1);
    const struct broker_plan_move *move = &plan.moves[0];
    assert_true(!(move->to[0] <= 2 && move->to[1] <= 2));
}

static void a_factor_is_raised_and_lowered(void **state)
{
    (void)state;
    const struct ot_str only = ot_str_of("t");
    for (int32_t i = 1; i <= 4; i++) registers(i, NULL);
    topic("t", 4, (const int32_t[]){ 1, 2 }, 2);
    topic("other", 3, (const int32_t[]){ 3, 1 }, 2);
    struct broker_plan_ask ask = { .goal = BROKER_PLAN_FACTOR, .factor = 3, .topics = &only, .topic_count = 1 };
    assert_int_equal(make(ask), OT_OK);
    assert_int_equal(plan.move_count, 4);
    for (uint32_t i = 0; i < 4; i++) assert_true(plan.moves[i].to_count == 3 && plan.moves[i].to[0] == 1 && plan.moves[i].to[1] == 2 && plan.moves[i].added == 1);
    assert_true(count_at(4) >= 3);                                     /* 3 holds some already */
    ask.factor = 1;
    assert_int_equal(make(ask), OT_OK);
    for (uint32_t i = 0; i < 4; i++) assert_true(plan.moves[i].to_count == 1 && plan.moves[i].to[0] == 1 && plan.moves[i].added == 0);      /* the preferred one leads and stays */
    ask.factor = 5;
    assert_int_equal(make(ask), OT_ERR_INVALID_REPLICATION_FACTOR);
    const struct ot_str none = ot_str_of("none");
    ask = (struct broker_plan_ask){ .goal = BROKER_PLAN_FACTOR, .factor = 1, .topics = &none, .topic_count = 1 };
    assert_int_equal(make(ask), OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
}

static void a_rebalance_makes_shares_equal_with_as_few_moves_as_that_takes(void **state)
{
    (void)state;
    for (int32_t i = 1; i <= 3; i++) registers(i, NULL);
    topic("a", 8, (const int32_t[]){ 1 }, 1);
    topic("b", 4, (const int32_t[]){ 2 }, 1);                          /* 8, 4, 0: four of the first go to the third */
    assert_int_equal(make((struct broker_plan_ask){ .goal = BROKER_PLAN_BALANCE }), OT_OK);
    assert_int_equal(plan.move_count, 4);
    for (uint32_t i = 0; i < 4; i++) assert_true(plan.moves[i].from[0] == 1 && plan.moves[i].to[0] == 3);
    topic("c", 4, (const int32_t[]){ 3 }, 1);
    topic("d", 6, (const int32_t[]){ 3, 2, 1 }, 3);                    /* leaders: 8, 4, 10 */
    assert_int_equal(make((struct broker_plan_ask){ .goal = BROKER_PLAN_BALANCE }), OT_OK);
    int preferred[4] = { 0, 8, 4, 10 }, held[4] = { 0, 14, 10, 10 };
    for (uint32_t i = 0; i < plan.move_count; i++) {
        preferred[plan.moves[i].from[0]]--;
        preferred[plan.moves[i].to[0]]++;
        for (int32_t k = 0; k < plan.moves[i].from_count; k++) held[plan.moves[i].from[k]]--;
        for (int32_t k = 0; k < plan.moves[i].to_count; k++) held[plan.moves[i].to[k]]++;
    }
    for (int i = 1; i <= 3; i++) assert_true(held[i] >= 11 && held[i] <= 12 && preferred[i] >= 7 && preferred[i] <= 8);
}

/* How many partitions of the topic are moved, and have this broker first then. */
static int firsts(const char *name, int32_t broker)
{
    int count = 0;
    for (uint32_t i = 0; i < plan.move_count; i++) count += ot_str_equal(plan.moves[i].topic, ot_str_of(name)) && (broker < 0 || plan.moves[i].to[0] == broker);
    return count;
}

static void a_rebalance_spreads_each_topic_and_not_the_first_for_all(void **state)
{
    (void)state;
    registers(1, NULL);
    registers(2, NULL);
    topic("a", 4, (const int32_t[]){ 1 }, 1);
    topic("b", 4, (const int32_t[]){ 1 }, 1);
    topic("c", 1, (const int32_t[]){ 1 }, 1);
    topic("d", 1, (const int32_t[]){ 1 }, 1);
    assert_int_equal(make((struct broker_plan_ask){ .goal = BROKER_PLAN_BALANCE }), OT_OK);
    assert_true(plan.move_count == 5 && firsts("a", 2) == 2 && firsts("b", 2) == 2);       /* and one of those that cannot be spread */
}

static void a_rebalance_of_leaders_gives_each_broker_some_of_each_topic(void **state)
{
    (void)state;
    for (int32_t i = 1; i <= 3; i++) registers(i, NULL);
    topic("a", 50, (const int32_t[]){ 1, 2, 3 }, 3);
    topic("b", 1, (const int32_t[]){ 1, 2, 3 }, 3);
    topic("c", 3, (const int32_t[]){ 1, 2, 3 }, 3);
    assert_int_equal(make((struct broker_plan_ask){ .goal = BROKER_PLAN_BALANCE }), OT_OK);
    assert_true(plan.move_count == 36 && firsts("c", 2) == 1 && firsts("c", 3) == 1 && firsts("c", -1) == 2);      /* 18 each, of the last topic too */
    for (uint32_t i = 0; i < plan.move_count; i++) assert_int_equal(plan.moves[i].added, 0);
}

static void those_that_leave_get_nothing_and_what_moves_is_left_alone(void **state)
{
    (void)state;
    for (int32_t i = 1; i <= 4; i++) registers(i, NULL);
    topic("t", 4, (const int32_t[]){ 1, 2 }, 2);
    const struct coord_config_change change = { ot_str_of(COORD_DECOMMISSION), ot_str_of("true") };
    struct coord_request ask = { .ask = COORD_ASK_CONFIGS, .if_version = -1, .u.configs = { .scope = { .kind = COORD_SCOPE_BROKER, .broker_id = 4 }, .changes = &change, .change_count = 1 } };
    desk_ask(desk, &ask);
    assert_int_equal(make((struct broker_plan_ask){ .goal = BROKER_PLAN_EMPTY, .empty = (const int32_t[]){ 2 }, .empty_count = 1 }), OT_OK);
    assert_true(plan.move_count == 4 && count_at(3) == 4 && count_at(4) == 0);
    struct ot_coord_topic_name_row name;
    assert_int_equal(coord_topic_name_get(coord_view(desk->coord), ot_str_of("t"), &name), OT_OK);
    static const int32_t target[] = { 1, 3 };
    ask = (struct coord_request){ .ask = COORD_ASK_REASSIGN, .if_version = -1, .u.reassign = { name.topic_id, 2, target, 2 } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
    assert_int_equal(make((struct broker_plan_ask){ .goal = BROKER_PLAN_EMPTY, .empty = (const int32_t[]){ 2 }, .empty_count = 1 }), OT_OK);
    assert_true(plan.move_count == 3 && plan.busy == 1);
    struct broker_plan_room room;
    broker_plan_room(&view, 1, &room);
    assert_true(room.brokers == 2 && room.factor_max == 2 && room.replicas == 4);
}

/* 1 and 2 leave and are dead, 4 has come instead of one of them, 5 never came: the move was cancelled, and 4 is needed until others hold as much. That may be never: it is planned anew. */
static void a_cancelled_move_of_those_that_leave_is_planned_anew(void **state)
{
    (void)state;
    static const int32_t before[] = { 1, 2, 3 }, target[] = { 4, 5, 3 };
    const struct coord_assignment assignment = { 0, before, 3 };
    const struct coord_config_change two = { ot_str_of("min.insync.replicas"), ot_str_of("2") };
    for (int32_t i = 1; i <= 6; i++) registers(i, NULL);
    struct coord_request ask = { .ask = COORD_ASK_CREATE_TOPIC, .if_version = -1,
        .u.topic = { .name = ot_str_of("t"), .assignments = &assignment, .assignment_count = 1, .configs = &two, .config_count = 1 } };
    desk_ask(desk, &ask);
    const struct ot_uuid t = ask.topic_id;
    ask = (struct coord_request){ .ask = COORD_ASK_REASSIGN, .if_version = -1, .u.reassign = { t, 0, target, 3 } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
    struct coord_partition row;
    assert_int_equal(coord_partition_get(coord_view(desk->coord), &t, 0, &row), OT_OK);
    const struct coord_member members[] = { { row.leader, epochs[row.leader] }, { 3, epochs[3] }, { 4, epochs[4] } };
    struct coord_alter one = { .topic_id = t, .leader_epoch = row.leader_epoch, .partition_epoch = row.partition_epoch, .members = members, .member_count = 3 };
    ask = (struct coord_request){ .ask = COORD_ASK_ALTER,
        .u.alter = { .broker_id = row.leader, .broker_epoch = epochs[row.leader], .term = coord_term(desk->coord), .sequence = 1, .items = &one, .count = 1 } };
    desk_ask(desk, &ask);
    assert_true(ask.error == OT_OK && one.error == OT_OK);
    for (int32_t i = 1; i <= 2; i++) {
        ask = (struct coord_request){ .ask = COORD_ASK_FENCE, .u.fence = { i, epochs[i] } };
        desk_ask(desk, &ask);
    }
    ask = (struct coord_request){ .ask = COORD_ASK_REASSIGN, .if_version = -1, .u.reassign = { t, 0, NULL, 0 } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
    assert_int_equal(coord_partition_get(coord_view(desk->coord), &t, 0, &row), OT_OK);
    assert_true(coord_move_goes_back(&row) && !coord_move_is_ready(&row) && row.replica_count == 4);
    assert_int_equal(make((struct broker_plan_ask){ .goal = BROKER_PLAN_EMPTY, .empty = (const int32_t[]){ 1, 2 }, .empty_count = 2 }), OT_OK);
    assert_true(plan.move_count == 1 && plan.busy == 0 && plan.moves[0].to_count == 3);
    assert_true(count_at(3) == 1 && count_at(1) == 0 && count_at(2) == 0);
    const struct ot_str only = ot_str_of("t");
    assert_int_equal(make((struct broker_plan_ask){ .goal = BROKER_PLAN_BALANCE, .topics = &only, .topic_count = 1 }), OT_OK);
    assert_true(plan.move_count == 0 && plan.busy > 0);
}

static void of_a_named_partition_the_coordinator_judges(void **state)
{
    static const int32_t replicas[] = { 1, 2 };
    char text[BROKER_TEXT_MAX];
    (void)state;
    registers(1, NULL);
    registers(2, NULL);
    topic("e", 1, replicas, 2);
    look();
    assert_int_equal(broker_elect(&view, BROKER_ELECT_PREFERRED, ot_str_of("e"), 0, &arena, text), OT_ERR_ELECTION_NOT_NEEDED);
    assert_int_equal(broker_elect_named(&view, BROKER_ELECT_PREFERRED, ot_str_of("e"), 0, &arena, text), OT_OK);        /* this view may be behind */
    assert_string_equal(text, "");
    assert_int_equal(broker_elect_named(&view, BROKER_ELECT_PREFERRED, ot_str_of("e"), 1, &arena, text), OT_ERR_UNKNOWN_TOPIC_OR_PARTITION);
    assert_int_equal(broker_elect_named(&view, BROKER_ELECT_UNCLEAN, ot_str_of("e"), 0, &arena, text), OT_ERR_ELECTION_NOT_NEEDED);
}

static void a_request_about_many_partitions_takes_no_more_memory_than_one_about_few(void **state)
{
    static const int32_t replicas[] = { 1, 2 }, wanted[] = { 2, 1 };
    static uint8_t room[16384];
    struct ot_arena few;
    char text[BROKER_TEXT_MAX];
    bool same;
    (void)state;
    registers(1, NULL);
    registers(2, NULL);
    topic("m", 1, replicas, 2);
    look();
    ot_arena_init_with(&few, room, sizeof room, 0);
    for (int i = 0; i < 10000; i++) {
        if (broker_reassign(&view, ot_str_of("m"), 0, wanted, 2, true, &few, &same, text) != OT_OK) fail_msg("partition %d: %s", i, text);
        assert_int_equal(broker_elect(&view, BROKER_ELECT_PREFERRED, ot_str_of("m"), 0, &few, text), OT_ERR_ELECTION_NOT_NEEDED);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_request_about_many_partitions_takes_no_more_memory_than_one_about_few),
        TEST(what_a_broker_holds_goes_to_those_that_hold_least), TEST(racks_are_kept_apart), TEST(a_factor_is_raised_and_lowered),
        TEST(a_rebalance_spreads_each_topic_and_not_the_first_for_all), TEST(a_rebalance_of_leaders_gives_each_broker_some_of_each_topic),
        TEST(a_rebalance_makes_shares_equal_with_as_few_moves_as_that_takes), TEST(those_that_leave_get_nothing_and_what_moves_is_left_alone),
        TEST(a_cancelled_move_of_those_that_leave_is_planned_anew), TEST(of_a_named_partition_the_coordinator_judges)
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
