/* Whoever is behind and asks, and whoever answers. */
#include "peers_desk.h"

static struct coord_mark mark_of(const struct desk *desk) { return (struct coord_mark){ desk->coord->committed.stamp, desk->coord->committed.state_hash }; }

/* ---- the whole, piece by piece */

enum { READERS = 6, FIRST_READER = 10 };
struct reader { struct coord_mark mark; uint8_t key[COORD_KEY_BYTES_MAX]; uint32_t key_bytes; bool done; };

/* A question, and what is answered to it. */
static bool reads_on(struct desk *desk, int32_t id, struct reader *reader)
{
    static uint8_t room[4096];
    size_t bytes;
    struct coord_out out;
    bool any = false;
    /* of a value that nobody knows: changes do not help it */
    const struct coord_message ask = { .kind = COORD_CATCH_UP, .sender = id, .dir_id = { { (uint8_t)id } }, .term = 1, .leader = 1, .levels = coord_levels_known(),
        .cluster = coord_cluster_hash(ot_str_of("desk-cluster")), .committed = { { 0, 1 }, 12345 }, .base = reader->mark, .key = coord_blob(reader->key, reader->key_bytes) };
    assert_int_equal(coord_message_encode(&ask, room, sizeof room, &bytes), OT_OK);
    coord_step(desk->coord, &(struct coord_in){ .kind = COORD_MSG, .now_us = desk->now_us, .peer = (uint32_t)id, .body = coord_blob(room, bytes) });
    while (coord_next(desk->coord, &out)) {
        struct coord_message answer;
        if (out.kind != COORD_SEND || out.peer != (uint32_t)id) continue;
        assert_int_equal(coord_message_decode(out.body, &answer), OT_OK);
        assert_int_equal(answer.kind, COORD_ROWS);
        struct coord_delta_reader rows = coord_delta_reader_over(answer.data);
        struct coord_delta_row row;
        while (coord_delta_next(&rows, &row)) {
            reader->key_bytes = row.key.bytes;
            memcpy(reader->key, row.key.data, row.key.bytes);
        }
        reader->mark = answer.committed;
        reader->done = answer.answer == COORD_LAST;
        any = true;
    }
    return any;
}

static void change(struct desk *desk)
{
    struct coord_request ask = { .ask = COORD_ASK_PRODUCER_IDS, .if_version = -1, .u.producer_ids = { 1 } };
    desk_ask(desk, &ask);
    assert_int_equal(ask.error, OT_OK);
}

/* More than are served at a time, by turns, while the value changes: each comes to its end. */
static void many_read_a_value_that_changes(void **state)
{
    struct desk *desk = *state;
    struct reader readers[READERS] = { { { { 0, 0 }, 0 }, { 0 }, 0, false } };
    uint32_t done = 0, pieces = 0;
    desk->auto_store = true;
    desk->now_us = 1000000;
    assert_int_equal(desk_start(desk, 0), OT_OK);
    assert_int_equal(desk_register(desk, 1, 1, COORD_BOOT_CLEAN), OT_OK);
    struct coord_request topic = desk_create("large", 9000);
    desk_ask(desk, &topic);
    assert_int_equal(topic.error, OT_OK);
    for (int round = 0; round < 500 && done < READERS; round++) {
        for (int32_t i = 0; i < READERS; i++) {
            if (readers[i].done) continue;
            pieces += reads_on(desk, FIRST_READER + i, &readers[i]);
            done += readers[i].done;
            change(desk);
            desk->now_us += 1000;
        }
    }
    assert_int_equal(done, READERS);
    assert_true(pieces >= 2 * READERS);
}

/* A reader that is never heard of again keeps nobody out. */
static void who_asks_no_more_makes_room(void **state)
{
    struct desk *desk = *state;
    struct reader readers[READERS] = { { { { 0, 0 }, 0 }, { 0 }, 0, false } };
    desk->auto_store = true;
    desk->now_us = 1000000;
    assert_int_equal(desk_start(desk, 0), OT_OK);
    assert_int_equal(desk_register(desk, 1, 1, COORD_BOOT_CLEAN), OT_OK);
    struct coord_request topic = desk_create("large", 9000);
    desk_ask(desk, &topic);
    for (int32_t i = 0; i < COORD_READERS_MAX; i++) {
        assert_true(reads_on(desk, FIRST_READER + i, &readers[i]));
    }
    change(desk);
    assert_false(reads_on(desk, FIRST_READER + COORD_READERS_MAX, &readers[COORD_READERS_MAX]));
    desk->now_us += 3000000;
    assert_true(reads_on(desk, FIRST_READER + COORD_READERS_MAX, &readers[COORD_READERS_MAX]));
}

/* It began to read the whole of a version, and heard of that version otherwise. */
static void who_caught_up_otherwise_reads_no_whole_any_more(void **state)
{
    static uint8_t room[1024];
    struct desk *desk = desk_of_three(state);
    struct coord_delta delta = { .data = room, .cap_bytes = sizeof room };
    const struct coord_scope scope = { .kind = COORD_SCOPE_CLUSTER };
    desk_follows(desk, 2, 5);
    const struct coord_mark base = mark_of(desk);
    struct coord_value next = coord_value_share(coord_view(desk->coord)), piece;
    assert_int_equal(coord_config_put(&(struct coord_edit){ &next, &delta }, &scope, ot_str_of("a"), ot_str_of("b")), OT_OK);
    const struct coord_mark result = { { 5, base.stamp.version + 1 }, next.state_hash };
    struct coord_delta rows = { .data = room + 512, .cap_bytes = 512 };
    coord_value_init(&piece, desk->pages);
    assert_int_equal(coord_delta_set(&rows, &piece, coord_blob("A", 1), coord_blob("x", 1)), OT_OK);
    desk_hears(desk, 2, (struct coord_message){ .kind = COORD_ROWS, .term = 5, .leader = 2, .committed = result, .answer = COORD_YES, .data = coord_blob(rows.data, rows.bytes) });
    assert_true(desk->coord->whole_any);
    desk_hears(desk, 2, (struct coord_message){ .kind = COORD_CHANGES, .term = 5, .leader = 2, .base = base, .committed = result, .data = coord_blob(delta.data, delta.bytes) });
    assert_true(coord_stamp_equal(desk->coord->committed.stamp, result.stamp));
    desk_later(desk, 1000000);
    assert_int_equal(desk->last_sent.kind, COORD_CATCH_UP);
    assert_false(desk->coord->whole_any);
    coord_value_drop(&next);
    coord_value_drop(&piece);
}

/* A voter that reads a whole value is sent each publication too, which it cannot take yet. */
static void who_reads_a_whole_asks_for_one_piece_at_a_time(void **state)
{
    static uint8_t room[512];
    struct desk *desk = desk_of_three(state);
    struct coord_value piece;
    struct coord_delta rows = { .data = room, .cap_bytes = sizeof room };
    desk_follows(desk, 2, 5);
    const struct coord_mark whole = { { 5, desk->coord->committed.stamp.version + 100 }, 12345 };
    coord_value_init(&piece, desk->pages);
    assert_int_equal(coord_delta_set(&rows, &piece, coord_blob("A", 1), coord_blob("x", 1)), OT_OK);
    const struct coord_message first = { .kind = COORD_ROWS, .term = 5, .leader = 2, .committed = whole, .answer = COORD_YES, .data = coord_blob(rows.data, rows.bytes) };
    desk_hears(desk, 2, first);
    assert_true(desk->coord->whole_any);
    const uint32_t asked = desk->sent[COORD_CATCH_UP];
    for (int64_t i = 1; i <= 3; i++) {
        const struct coord_mark base = { { 5, whole.stamp.version + i }, 1000 + (uint64_t)i };
        desk_hears(desk, 2, (struct coord_message){ .kind = COORD_PUBLISH, .term = 5, .leader = 2, .accepted = { { 5, base.stamp.version + 1 }, base.state_hash + 1 }, .base = base, .committed = base });
    }
    desk_hears(desk, 2, first);                /* the same piece once more */
    assert_int_equal(desk->sent[COORD_CATCH_UP], asked);
    desk_later(desk, 1000000);                 /* an answer was lost: it asks again */
    assert_int_equal(desk->sent[COORD_CATCH_UP], asked + 1);
    coord_value_drop(&piece);
}

/* It has no vote, and the coordinator that it knew is lost: two questions of three would go there, and the next piece is asked of who leads now. */
static void who_reads_a_whole_asks_its_coordinator_for_the_rest(void **state)
{
    static uint8_t room[1024];
    struct desk *desk = desk_of_three(state);
    struct coord_delta delta = { .data = room, .cap_bytes = sizeof room / 2 }, rows = { .data = room + sizeof room / 2, .cap_bytes = sizeof room / 2 };
    struct coord_value piece;
    assert_int_equal(coord_voter_remove(&(struct coord_edit){ &desk->coord->committed, &delta }, 1), OT_OK);
    coord_members_load(desk->coord);
    coord_follow(desk->coord, 3);
    const struct coord_mark whole = { { 1000001, desk->coord->committed.stamp.version + 1000000 }, 12345 };
    coord_value_init(&piece, desk->pages);
    assert_int_equal(coord_delta_set(&rows, &piece, coord_blob("A", 1), coord_blob("x", 1)), OT_OK);
    const struct coord_message first = { .kind = COORD_ROWS, .term = 1000001, .leader = 2, .committed = whole, .answer = COORD_YES, .data = coord_blob(rows.data, rows.bytes) };
    desk_hears(desk, 2, first);                /* of this one it takes the term alone */
    assert_int_equal(coord_term(desk->coord), 1000001);
    assert_int_equal(coord_leader(desk->coord), 2);
    desk_hears(desk, 2, first);
    assert_true(desk->coord->whole_any);
    desk_hears(desk, 3, (struct coord_message){ .kind = COORD_ROWS, .term = 1, .leader = 3, .committed = whole, .answer = COORD_YES });     /* late, of before */
    assert_int_equal(coord_leader(desk->coord), 2);
    coord_value_drop(&piece);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, desk_setup, desk_teardown)
    const struct CMUnitTest tests[] = { TEST(many_read_a_value_that_changes), TEST(who_asks_no_more_makes_room), TEST(who_caught_up_otherwise_reads_no_whole_any_more),
        TEST(who_reads_a_whole_asks_for_one_piece_at_a_time),
        TEST(who_reads_a_whole_asks_its_coordinator_for_the_rest) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
