/* Who follows without a vote hears of each change and of who leads at once, and the coordinator knows when all that live have heard: two machines, and the messages between them. */
#include "desk.h"

#include "coordinator/state.h"

enum { LETTERS = 64, LETTER_BYTES = 256 << 10, TIMEOUT_US = 1000000 };
struct letter { uint32_t from, to; uint8_t *data; size_t bytes; };
struct pair { struct desk *nodes[2]; struct letter letters[LETTERS]; uint32_t count; };        /* node ids 1 and 2 */

static void post(void *arg, struct desk *desk, const struct coord_out *out)
{
    struct pair *pair = arg;
    if (out->peer != 1 && out->peer != 2) {
        return;
    }
    assert_true(pair->count < LETTERS);
    struct letter *letter = &pair->letters[pair->count++];
    *letter = (struct letter){ (uint32_t)OT_MAX(desk->node_id, 1), out->peer, malloc(out->body.bytes), out->body.bytes };
    memcpy(letter->data, out->body.data, out->body.bytes);
}

/* Until nobody has anything to say; no time passes. */
static void deliver(struct pair *pair)
{
    for (uint32_t at = 0; at < pair->count; at++) {
        const struct letter letter = pair->letters[at];
        desk_in(pair->nodes[letter.to - 1], (struct coord_in){ .kind = COORD_MSG, .peer = letter.from, .body = coord_blob(letter.data, letter.bytes) });
        free(letter.data);
    }
    pair->count = 0;
}

static void wait(struct pair *pair, uint64_t us)
{
    for (uint64_t passed_us = 0; passed_us < us; passed_us += TIMEOUT_US / 10) {
        for (int i = 0; i < 2; i++) {
            pair->nodes[i]->now_us += TIMEOUT_US / 10;
            desk_in(pair->nodes[i], (struct coord_in){ .kind = COORD_TICK });
        }
        deliver(pair);
    }
}

/* Node 1 leads alone, node 2 follows; both are brokers that live. */
static int setup(void **state)
{
    struct pair *pair = calloc(1, sizeof *pair);
    for (int i = 0; i < 2; i++) {
        struct desk *desk = pair->nodes[i] = malloc(sizeof *desk);
        desk_init(desk);
        desk->auto_store = desk->has_peers = true;
        desk->node_id = i + 1;
        desk->voter_count = (uint32_t)i;       /* node 2 has node 1 on its list, and is not on it */
        desk->on_send = post;
        desk->on_send_arg = pair;
        assert_int_equal(desk_start(desk, 0), OT_OK);
    }
    deliver(pair);
    wait(pair, 3 * TIMEOUT_US);
    for (int32_t id = 1; id <= 2; id++) {
        assert_int_equal(desk_register(pair->nodes[0], id, (uint8_t)id, COORD_BOOT_CLEAN), OT_OK);
        deliver(pair);
    }
    wait(pair, 2 * TIMEOUT_US);
    *state = pair;
    return 0;
}

static int teardown(void **state)
{
    struct pair *pair = *state;
    for (uint32_t i = 0; i < pair->count; i++) {
        free(pair->letters[i].data);
    }
    for (int i = 0; i < 2; i++) {
        desk_free(pair->nodes[i]);
        free(pair->nodes[i]);
    }
    free(pair);
    return 0;
}

static int64_t create(struct pair *pair, const char *name)
{
    struct coord_request ask = desk_create(name, 1);
    desk_ask(pair->nodes[0], &ask);
    assert_int_equal(ask.error, OT_OK);
    return ask.version;
}

static bool knows(const struct desk *desk, const char *name)
{
    struct ot_coord_topic_name_row row;
    return coord_topic_name_get(coord_view(desk->coord), ot_str_of(name), &row) == OT_OK;
}

static void who_has_no_vote_hears_of_each_change_at_once(void **state)
{
    struct pair *pair = *state;
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        create(pair, name);
        deliver(pair);
        assert_true(knows(pair->nodes[1], name));
    }
    const uint32_t asked = pair->nodes[1]->sent[COORD_CATCH_UP];
    deliver(pair);
    assert_int_equal(pair->nodes[1]->sent[COORD_CATCH_UP], asked);     /* the last question waits at the coordinator */
}

static void the_coordinator_knows_when_all_that_live_have_heard(void **state)
{
    struct pair *pair = *state;
    const struct coord *leader = pair->nodes[0]->coord;
    assert_int_equal(coord_told_version(leader), coord_view(leader)->stamp.version);
    const int64_t version = create(pair, "a");
    assert_int_equal(coord_told_version(leader), version - 1);
    deliver(pair);
    assert_int_equal(coord_told_version(leader), version);
    assert_int_equal(coord_told_version(pair->nodes[1]->coord), INT64_MAX);    /* who does not lead knows of nobody */
}

static void who_is_silent_is_not_waited_for(void **state)
{
    struct pair *pair = *state;
    struct desk *desk = pair->nodes[0];
    wait(pair, TIMEOUT_US);
    const int64_t version = create(pair, "a");
    desk->now_us += TIMEOUT_US / 2;            /* nothing is delivered */
    desk_in(desk, (struct coord_in){ .kind = COORD_TICK });
    assert_int_equal(coord_told_version(desk->coord), version - 1);
    desk->now_us += 2 * TIMEOUT_US;
    desk_in(desk, (struct coord_in){ .kind = COORD_TICK });
    assert_int_equal(coord_told_version(desk->coord), INT64_MAX);
}

static void who_is_fenced_is_not_waited_for(void **state)
{
    struct pair *pair = *state;
    struct desk *desk = pair->nodes[0];
    struct ot_coord_broker_row row;
    struct ot_arena arena;
    uint8_t room[4096];
    ot_arena_init_with(&arena, room, sizeof room, 0);
    assert_int_equal(coord_broker_get(coord_view(desk->coord), 2, &arena, &row), OT_OK);
    struct coord_request fence = { .ask = COORD_ASK_FENCE, .u.fence = { 2, row.broker_epoch } };
    desk_ask(desk, &fence);
    create(pair, "a");
    assert_int_equal(coord_told_version(desk->coord), INT64_MAX);
}

/* ---- who leads, where nothing changes that would be told */

static void snapshot_stored(struct desk *desk)
{
    const uint64_t token = desk->snapshot_token;
    desk->snapshot_token = 0;
    if (token != 0) desk_in(desk, (struct coord_in){ .kind = COORD_STORED, .token = token });
}

static void start_again(struct desk *desk, uint32_t records)
{
    desk_stop(desk);
    assert_int_equal(desk_start(desk, records), OT_OK);
}

static void forget_all(struct desk *desk)
{
    for (uint32_t i = 0; i < desk->record_count; i++) {
        free(desk->records[i].data);
    }
    desk->record_count = 0;
    desk->term = (struct coord_term){ 0, -1, 0 };
}

static void who_comes_back_with_all_that_there_is_hears_who_leads(void **state)
{
    struct pair *pair = *state;
    struct desk *desk = pair->nodes[1];
    const int64_t version = create(pair, "a");
    deliver(pair);
    wait(pair, TIMEOUT_US);
    start_again(desk, desk->record_count);
    assert_int_equal(coord_leader(desk->coord), -1);
    deliver(pair);
    wait(pair, 2 * TIMEOUT_US);
    assert_int_equal(coord_view(pair->nodes[0]->coord)->stamp.version, version);       /* it was not told by a change */
    assert_int_equal(coord_leader(desk->coord), 1);
    const uint32_t answers = pair->nodes[0]->sent[COORD_CHANGES];
    wait(pair, 3 * TIMEOUT_US);
    assert_int_equal(pair->nodes[0]->sent[COORD_CHANGES], answers);        /* from there on its questions wait */
}

static void who_is_new_to_a_coordinator_that_was_started_again_hears_who_leads(void **state)
{
    struct pair *pair = *state;
    struct desk *leader = pair->nodes[0], *desk = pair->nodes[1];
    create(pair, "a");
    deliver(pair);
    start_again(leader, leader->record_count);             /* it has forgotten how its value came about: it is read row by row */
    deliver(pair);
    assert_true(leader->leading);
    const int64_t version = coord_view(leader->coord)->stamp.version;
    forget_all(desk);
    start_again(desk, 0);
    for (int i = 0; i < 50; i++) {
        deliver(pair);
        wait(pair, TIMEOUT_US / 10);
        snapshot_stored(desk);
    }
    assert_true(desk->snapshots > 0 && knows(desk, "a"));
    assert_int_equal(coord_view(leader->coord)->stamp.version, version);
    assert_int_equal(coord_leader(desk->coord), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(who_has_no_vote_hears_of_each_change_at_once), TEST(the_coordinator_knows_when_all_that_live_have_heard),
        TEST(who_is_silent_is_not_waited_for), TEST(who_is_fenced_is_not_waited_for),
        TEST(who_comes_back_with_all_that_there_is_hears_who_leads), TEST(who_is_new_to_a_coordinator_that_was_started_again_hears_who_leads) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
